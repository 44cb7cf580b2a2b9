/**
 * Floating point as helpers execute it on the state of a CPU: what no op decides, and FPSCR.
 *
 * FR, FI and FPRF tell of the last instruction, and few programs look. So an op leaves its
 * instruction and operands in slots (`last`, `operands`), from which they are computed when FPSCR
 * is read; above the word of `last` are FPCC of a comparison behind it and what `ftold` is asked
 * (`status-lift.ts`). The sticky bits are
 * true at any time: an op decides nothing that would raise one (`float-ops.ts`).
 *
 * Source: Power ISA 2.07B, Book I, chapters 4 and 7; of `mffsl` and its kin 3.0B.
 */
import type { Helper, HelperResult, HelperState, Slot } from '../machine/ir.js';
import { TOLD } from '../machine/float-ops.js';
import { WordMemo } from '../isa/memo.js';
import type { Decoded, Operands } from '../isa/table.js';
import { EXCEPTIONS, FloatUnit, FPSCR, isTrapping, modeOf, withBits } from './float.js';
import { SCALAR_ROWS, TEST_ROWS, VECTOR_ROWS, VECTOR_TESTS } from './float-rows.js';
import { POWER9_FLOATS, POWER9_TESTS } from './power9-floats.js';

/** Slots that the semantics use. */
export interface FloatSlots {
  readonly floats: readonly Slot[];
  readonly lower: readonly Slot[];
  readonly vectors: readonly Slot[];
  readonly vscr: Slot;
  readonly fpscr: Slot;
  /** What FPSCR says to the ops (`modeOf`). */
  readonly mode: Slot;
  readonly last: Slot;
  readonly operands: readonly [Slot, Slot, Slot];
}

const NEXT = { kind: 'next' } as const satisfies HelperResult;
const TRAP = { kind: 'trap', trap: 'divide' } as const satisfies HelperResult;
const low32 = (value: bigint): number => Number(BigInt.asUintN(32, value));
/** DRN, above the low word: decimal rounding, which nothing here reads. */
const DECIMAL = 0x7_0000_0000n;

// ------------------------------------------------------------------------------------------- state

/** Registers of an instruction in a state. */
class Registers {
  constructor(
    private readonly state: HelperState,
    private readonly slots: FloatSlots,
  ) {}

  /** The first doubleword. Field names of floating point registers begin with f. */
  upper(field: string, number: number): bigint {
    const { floats, vectors } = this.slots;
    return field.startsWith('f') || number < 32
      ? this.state.get(floats[number]!)
      : this.state.get(vectors[number - 32]!, 1);
  }

  vector(number: number): bigint {
    const { lower, vectors } = this.slots;
    const low = this.state.get(number < 32 ? lower[number]! : vectors[number - 32]!);
    return (this.upper('x', number) << 64n) | low;
  }

  write(field: string, number: number, upper: bigint, lower: bigint): void {
    const { slots, state } = this;
    if (field.startsWith('f')) {
      state.set(slots.floats[number]!, upper);
      return;
    }
    if (number < 32) {
      state.set(slots.floats[number]!, upper);
      state.set(slots.lower[number]!, lower);
    } else {
      state.set(slots.vectors[number - 32]!, lower, 0);
      state.set(slots.vectors[number - 32]!, upper, 1);
    }
  }
}

/** Where parts of the slot `last` begin: FPCC of a comparison, and what `ftold` is asked. */
export const LAST = { word: 0xffff_ffffn, relation: 32n, kind: 40n } as const;

/** RN of an op that was one of the sums which other modes decide too. */
function roundingOf(kind: number): number {
  const isSum = (kind & 15) === TOLD.kinds.add || (kind & 15) === TOLD.kinds.sub;
  return isSum && (kind & TOLD.directed) !== 0 ? (kind >> 5) & 3 : 0;
}

interface Known {
  readonly mnemonic: string;
  readonly operands: Operands;
}

/** FPSCR, and what reads and writes it. */
export class FloatState {
  private readonly known: WordMemo<Known>;

  constructor(
    private readonly slots: FloatSlots,
    decode: (word: number) => Decoded | null,
  ) {
    this.known = new WordMemo((word) => {
      const decoded = decode(word);
      return { mnemonic: decoded?.row.mnemonic ?? '', operands: decoded?.operands ?? {} };
    });
  }

  of(word: number): Known {
    return this.known.of(word);
  }

  /** The low word of FPSCR. */
  read(state: HelperState): number {
    const { slots } = this;
    let fpscr = low32(state.get(slots.fpscr));
    const last = state.get(slots.last);
    const row = last === 0n ? undefined : SCALAR_ROWS.get(this.of(low32(last)).mnemonic);
    if (row) {
      // An op that rounds by FPSCR decides to nearest, or says how; FPSCR may say other by now.
      const unit = new FloatUnit(withBits(fpscr, 0xff, roundingOf(Number(last >> LAST.kind))));
      row.run(unit, row.sources.map((_, i) => state.get(slots.operands[i]!))); // prettier-ignore
      fpscr = withBits(fpscr, FPSCR.fr | FPSCR.fi | FPSCR.fprf, unit.fpscr);
    }
    const relation = Number((last >> 32n) & 15n);
    return relation === 0 ? fpscr : withBits(fpscr, FPSCR.fpcc, relation << 12);
  }

  write(state: HelperState, fpscr: number): void {
    const { slots } = this;
    state.set(slots.fpscr, (state.get(slots.fpscr) & DECIMAL) | BigInt(fpscr >>> 0));
    state.set(slots.mode, modeOf(fpscr));
    state.set(slots.last, 0n);
  }

  /** With what is above the low word. */
  readAll(state: HelperState): bigint {
    return (state.get(this.slots.fpscr) & DECIMAL) | BigInt(this.read(state));
  }

  writeAll(state: HelperState, value: bigint): void {
    state.set(this.slots.fpscr, value & DECIMAL);
    this.write(state, withBits(0, -1, low32(value)));
  }
}

/** Sets a field of CR. */
type SetField = (state: HelperState, field: number, bits: number) => void;

const recorded = (fpscr: number): number => fpscr >>> 28;

/** The field of a target and its number; null: of CR. */
function targetOf(operands: Operands): readonly [field: string, number: number] {
  for (const name of ['frt', 'xt']) if (operands[name] !== undefined) return [name, operands[name]];
  if (operands['vrt'] !== undefined) return ['vrt', 32 + operands['vrt']];
  return ['bf', operands['bf'] ?? 0];
}

/** Executes an instruction of `SCALAR_ROWS`, `VECTOR_ROWS` or the tests. */
function compute(floats: FloatState, slots: FloatSlots, setField: SetField): Helper {
  return (state, word) => {
    const { mnemonic, operands } = floats.of(word);
    const registers = new Registers(state, slots);
    const unit = new FloatUnit(floats.read(state));
    const immediate = (name: string): number => operands[name] ?? 0;
    const number = (name: string): number => immediate(name) + (name.startsWith('v') ? 32 : 0);
    const scalars = (names: readonly string[]): bigint[] => names.map((name) => registers.upper(name, number(name)));
    const vectors = (names: readonly string[]): bigint[] => names.map((name) => registers.vector(number(name)));
    const [field, target] = targetOf(operands);
    const scalar = SCALAR_ROWS.get(mnemonic);
    const vector = VECTOR_ROWS.get(mnemonic) ?? POWER9_FLOATS.get(mnemonic);
    const test = TEST_ROWS.get(mnemonic);
    let write: () => void;
    if (scalar) {
      const value = scalar.run(unit, scalars(scalar.sources));
      write = () => {
        registers.write(field, target, value, 0n);
      };
    } else if (vector) {
      const value = vector.run(unit, vectors(vector.sources), immediate);
      const isAll = value === (1n << 128n) - 1n;
      write = () => {
        registers.write('xt', target, value >> 64n, BigInt.asUintN(64, value));
        if (operands['rc'] === 1) setField(state, 6, (isAll ? 8 : 0) | (value === 0n ? 2 : 0));
      };
    } else {
      const tests = VECTOR_TESTS.get(mnemonic) ?? POWER9_TESTS.get(mnemonic);
      const operandsOf = test ? scalars(test.sources) : vectors(tests?.sources ?? []);
      const bits = (test ?? tests)!.run(unit, operandsOf, immediate);
      write = () => {
        setField(state, target, bits);
      };
    }
    if (unit.traps) return TRAP;
    write();
    floats.write(state, unit.fpscr);
    if (scalar && operands['rc'] === 1) setField(state, 1, recorded(unit.fpscr));
    return NEXT;
  };
}

// ------------------------------------------------------------------------------------------- FPSCR

/** Mask of the fields that FLM names, of which the first is the most significant. */
export function fieldMask(flm: number): number {
  let mask = 0;
  for (let i = 0; i < 8; i++) if ((flm & (0x80 >> i)) !== 0) mask |= 0xf << (28 - 4 * i);
  return mask;
}

/** FPSCR with fields of another value; FEX and VX cannot be set. */
const moved = (fpscr: number, mask: number, bits: number): number =>
  withBits(fpscr, mask & ~(FPSCR.fex | FPSCR.vx), bits);

/** The low word of FPSCR behind `mtfsf`, `mtfsfi`, `mtfsb0`, `mtfsb1`, `mcrfs`. */
function changed(mnemonic: string, fpscr: number, n: (name: string) => number, source: bigint): number {
  const bit = 0x8000_0000 >>> n('bo');
  switch (mnemonic) {
    case 'mtfsf':
      return moved(fpscr, n('l') === 1 ? -1 : n('w') === 1 ? 0 : fieldMask(n('flm')), low32(source));
    case 'mtfsfi':
      return n('w') === 1 ? fpscr : moved(fpscr, fieldMask(0x80 >> n('bfn')), n('u') << (28 - 4 * n('bfn')));
    case 'mtfsb0':
      return moved(fpscr, bit, 0);
    case 'mtfsb1': {
      const fresh = (bit & EXCEPTIONS & ~fpscr) !== 0;
      return moved(moved(fpscr, bit, -1), fresh ? FPSCR.fx : 0, -1);
    }
    default:
      return moved(fpscr, fieldMask(0x80 >> n('bfa')) & (EXCEPTIONS | FPSCR.fx), 0);
  }
}

/** DRN behind the same. */
function decimalChanged(mnemonic: string, before: bigint, n: (name: string) => number, source: bigint): bigint {
  if (mnemonic === 'mtfsf') {
    const all = n('l') === 1 || (n('w') === 1 && (n('flm') & 1) !== 0);
    return all ? source & DECIMAL : before;
  }
  return mnemonic === 'mtfsfi' && n('w') === 1 && n('bfn') === 7 ? BigInt(n('u') & 7) << 32n : before;
}

/** Enables, NI and RN, and DRN; beside them FR, FI and FPRF. */
const CONTROL = DECIMAL | 0xffn;
const STATUS = 0x7_f000n;

/** What the instructions of POWER9 read (`kept`), and FPSCR and DRN behind them. */
function readAndChanged(
  mnemonic: string,
  fpscr: number,
  source: bigint,
  operands: Operands,
): { readonly kept: bigint; readonly fpscr: number; readonly decimal: bigint | null } {
  const RN = FPSCR.rn;
  switch (mnemonic) {
    case 'mffsl':
      return { kept: CONTROL | STATUS, fpscr, decimal: null };
    case 'mffsce':
      return { kept: DECIMAL | 0xffff_ffffn, fpscr: withBits(fpscr, 0xf8, 0), decimal: null };
    case 'mffscrn':
      return { kept: CONTROL, fpscr: withBits(fpscr, RN, low32(source)), decimal: null };
    case 'mffscrni':
      return { kept: CONTROL, fpscr: withBits(fpscr, RN, operands['rm']!), decimal: null };
    case 'mffscdrn':
      return { kept: CONTROL, fpscr, decimal: (source >> 32n) & 7n };
    default:
      return { kept: CONTROL, fpscr, decimal: BigInt(operands['drm']!) };
  }
}

function statusHelpers(
  floats: FloatState,
  slots: FloatSlots,
  setField: SetField,
  is64: boolean,
): Record<string, Helper> {
  return {
    mffs: (state, word) => {
      const { operands } = floats.of(word);
      const value = floats.readAll(state);
      state.set(slots.floats[operands['frt']!]!, is64 ? value : value & 0xffff_ffffn);
      if (operands['rc'] === 1) setField(state, 1, recorded(low32(value)));
      return NEXT;
    },
    mffs9: (state, word) => {
      const { mnemonic, operands } = floats.of(word);
      const all = floats.readAll(state);
      const source = operands['frb'] === undefined ? 0n : state.get(slots.floats[operands['frb']]!);
      const { kept, fpscr, decimal } = readAndChanged(mnemonic, low32(all), source, operands);
      state.set(slots.floats[operands['frt']!]!, all & kept);
      if (isTrapping(fpscr)) return TRAP;
      if (decimal !== null) state.set(slots.fpscr, (state.get(slots.fpscr) & ~DECIMAL) | (decimal << 32n));
      if (fpscr !== low32(all)) floats.write(state, fpscr);
      return NEXT;
    },
    mtfs: (state, word) => {
      const { mnemonic, operands } = floats.of(word);
      // L and W are of POWER6.
      const n = (name: string): number => (!is64 && (name === 'l' || name === 'w') ? 0 : (operands[name] ?? 0));
      const source = operands['frb'] === undefined ? 0n : state.get(slots.floats[operands['frb']]!);
      const before = floats.read(state);
      const after = changed(mnemonic, before, n, source);
      if (isTrapping(after)) return TRAP;
      const decimal = decimalChanged(mnemonic, state.get(slots.fpscr) & DECIMAL, n, source);
      if (is64) state.set(slots.fpscr, decimal);
      floats.write(state, after);
      if (mnemonic === 'mcrfs') setField(state, n('bf'), (before >>> (28 - 4 * n('bfa'))) & 15);
      if (operands['rc'] === 1) setField(state, 1, recorded(after));
      return NEXT;
    },
  };
}

export function floatHelpers(
  floats: FloatState,
  slots: FloatSlots,
  setField: SetField,
  is64: boolean,
): Readonly<Record<string, Helper>> {
  return { float: compute(floats, slots, setField), ...statusHelpers(floats, slots, setField, is64) };
}
