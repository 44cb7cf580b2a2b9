/**
 * FPSCR in compiled code: what reads and writes it. FR, FI and FPRF of the last result are put
 * together by `ftold` from its operands, as the helper of `float-state.ts` does it for all. What
 * raises exceptions that are enabled, and what writes a part of FR, FI and FPRF alone, is left to
 * that.
 *
 * Source: Power ISA 2.07B, Book I, 4.2.2 and 4.6.10; of `mffsl` and its kin 3.0B.
 */
import { FLOAT_MODE } from '../machine/float-ops.js';
import type { BlockBuilder, Operand, Slot, Terminator } from '../machine/ir.js';
import { EXCEPTIONS, FPSCR, STATUS_MASKS } from './float.js';
import { fieldMask, LAST } from './float-state.js';
import type { FloatSlots } from './float-state.js';

/** What the semantics need of the instruction being lifted. */
interface Place {
  readonly b: BlockBuilder;
  readonly word: number;
  readonly next: bigint;
  readonly slow: boolean;
  readonly is64: boolean;
}
interface Fields {
  n(name: string): number;
  flag(name: string): boolean;
}
type StatusLift = (x: Place, f: Fields) => Terminator | undefined;

const mask32 = (bits: number): bigint => BigInt(bits >>> 0);
const STATUS = mask32(FPSCR.fr | FPSCR.fi | FPSCR.fprf);
const ENABLES = mask32(STATUS_MASKS.enables);
const INVALID = mask32(STATUS_MASKS.invalid);
/** Put together from others, or always 0. */
const SUMMARY = mask32(FPSCR.fex | FPSCR.vx | STATUS_MASKS.reserved);
const ALL = 0xffff_ffff_ffff_ffffn;

/** A change of FPSCR: bits of the low word, and of what is above it. */
interface Change {
  readonly mask: bigint;
  readonly bits: Operand;
}

class StatusLifts {
  constructor(private readonly slots: FloatSlots) {}

  /** All of FPSCR. May leave the block. */
  private read(b: BlockBuilder): Slot {
    const { fpscr, last, operands } = this.slots;
    const kind = b.make('and', b.make('shr', last, LAST.kind), 0xffn);
    const told = b.temp();
    b.float(told, 'ftold', kind, operands);
    const isKnown = b.make('seteq', kind, 0n);
    const status = b.temp();
    b.select(status, isKnown, b.make('and', fpscr, STATUS), told);
    const relation = b.make('and', b.make('shr', last, LAST.relation), 15n);
    const fpcc = mask32(FPSCR.fpcc);
    const compared = b.make('or', b.make('and', status, ALL ^ fpcc), b.make('shl', relation, 12n));
    b.select(status, b.make('seteq', relation, 0n), status, compared);
    return b.make('or', b.make('and', fpscr, ALL ^ STATUS), status);
  }

  /** Leaves the block where an exception is enabled behind the change. */
  private write(b: BlockBuilder, { mask, bits }: Change): void {
    const { fpscr, mode, last } = this.slots;
    const kept = b.make('and', fpscr, ALL ^ (mask | SUMMARY));
    const merged = b.make('or', kept, b.make('and', b.make('mov', bits), mask & ~SUMMARY));
    b.guard(b.make('seteq', b.make('and', merged, ENABLES), 0n));
    const isInvalid = b.make('setne', b.make('and', merged, INVALID), 0n);
    b.to(fpscr, 'or', merged, b.make('shl', isInvalid, 29n));
    const inexact = b.make('and', b.make('shr', merged, 25n), 1n);
    const rounding = b.make('and', merged, mask32(FPSCR.rn));
    const directed = b.temp();
    // Where inexact is raised, the directed modes are RN and a bit above it.
    b.select(directed, inexact, b.make('or', rounding, 4n), FLOAT_MODE.other);
    b.select(mode, rounding, directed, inexact);
    if ((mask & STATUS) !== 0n) b.mov(last, 0n);
  }

  /** What `mffs` and its kin keep of FPSCR, and what they change. */
  reads(kept: bigint, change: (x: Place, f: Fields) => Change | null): StatusLift {
    return (x, f) => {
      const { b } = x;
      const value = b.make('and', this.read(b), x.is64 ? kept : kept & 0xffff_ffffn);
      const changed = change(x, f);
      if (changed) this.write(b, changed);
      b.to(this.slots.floats[f.n('frt')]!, 'bitsf64', value);
      return undefined;
    };
  }

  /** `change` null: by the helper. */
  writes(change: (x: Place, f: Fields) => Change | null): StatusLift {
    return (x, f) => {
      const changed = x.slow || f.flag('rc') ? null : change(x, f);
      const status = (changed?.mask ?? 0n) & STATUS;
      if (!changed || (status !== 0n && status !== STATUS)) return helper('mtfs')(x, f);
      this.write(x.b, changed);
      return undefined;
    };
  }

  source(x: Place, f: Fields): Slot {
    return x.b.make('f64bits', this.slots.floats[f.n('frb')]!);
  }

  /** One bit becomes 1; FX with it where it is an exception that was not raised. */
  raises(x: Place, bit: bigint): Change {
    if ((bit & mask32(EXCEPTIONS)) === 0n) return { mask: bit, bits: bit };
    const fx = mask32(FPSCR.fx);
    const isFresh = x.b.make('seteq', x.b.make('and', this.slots.fpscr, bit), 0n);
    const bits = x.b.make(
      'or',
      x.b.make('or', x.b.make('shl', isFresh, 31n), x.b.make('and', this.slots.fpscr, fx)),
      bit,
    );
    return { mask: bit | fx, bits };
  }
}

const helper =
  (name: string): StatusLift =>
  (x) => ({ kind: 'helper', name, argument: x.word, next: x.next });

const bitOf = (f: Fields): bigint => 0x8000_0000n >> BigInt(f.n('bo'));
/** DRN, above the low word: of 64-bit processors. */
const DECIMAL = 0x7_0000_0000n;

/** L and W are of POWER6. */
const wideFlag = (x: Place, f: Fields, name: 'l' | 'w'): boolean => x.is64 && f.flag(name);

function immediateField(x: Place, f: Fields): Change | null {
  const [field, value] = [f.n('bfn'), BigInt(f.n('u'))];
  if (wideFlag(x, f, 'w')) return field === 7 ? { mask: DECIMAL, bits: value << 32n } : { mask: 0n, bits: 0n };
  return { mask: mask32(fieldMask(0x80 >> field)), bits: value << BigInt(28 - 4 * field) };
}

/** Semantics of the rows, by name; of those that POWER9 has, as it has them. */
export function statusSemantics(slots: FloatSlots): {
  readonly classic: readonly (readonly [string, StatusLift])[];
  readonly power9: readonly (readonly [string, StatusLift])[];
} {
  const lifts = new StatusLifts(slots);
  const unchanged = (): null => null;
  const otherwise =
    (name: string, lift: StatusLift): StatusLift =>
    (x, f) =>
      (x.slow || f.flag('rc') ? helper(name) : lift)(x, f);
  const mffs = otherwise('mffs', lifts.reads(ALL, unchanged));
  const rounding = mask32(FPSCR.rn);
  const control = DECIMAL | 0xffn;
  const of9 = (lift: StatusLift): StatusLift => otherwise('mffs9', lift);
  return {
    classic: [
      // Other bits in a field that older processors do not look at: C libraries execute them there.
      ...['mffs', 'mffsl', 'mffsce', 'mffscrn', 'mffscrni', 'mffscdrn', 'mffscdrni'].map(
        (name) => [name, mffs] as const,
      ),
      ['mtfsb0', lifts.writes((_x, f) => ({ mask: bitOf(f), bits: 0n }))],
      ['mtfsb1', lifts.writes((x, f) => lifts.raises(x, bitOf(f)))],
      ['mtfsfi', lifts.writes(immediateField)],
      [
        'mtfsf',
        lifts.writes((x, f) => {
          const [all, wide, flm] = [wideFlag(x, f, 'l'), wideFlag(x, f, 'w'), f.n('flm')];
          const low = all ? 0xffff_ffffn : wide ? 0n : mask32(fieldMask(flm));
          const decimal = x.is64 && (all || (wide && (flm & 1) !== 0)) ? DECIMAL : 0n;
          return { mask: low | decimal, bits: lifts.source(x, f) };
        }),
      ],
      ['mcrfs', helper('mtfs')],
    ],
    power9: [
      ['mffsl', of9(lifts.reads(control | STATUS, unchanged))],
      ['mffscrn', of9(lifts.reads(control, (x, f) => ({ mask: rounding, bits: lifts.source(x, f) })))],
      ['mffscrni', of9(lifts.reads(control, (_x, f) => ({ mask: rounding, bits: BigInt(f.n('rm')) })))],
      ...['mffsce', 'mffscdrn', 'mffscdrni'].map((name) => [name, helper('mffs9')] as const),
    ],
  };
}
