/**
 * Changing x86-64 instructions that other processors may be executing: the int3 protocol as data.
 * Owns the order of stores and synchronisations for a batch, which new instructions are allowed,
 * and what a processor does that traps meanwhile; performs nothing: a live session or an explorer
 * of interleavings executes the steps.
 *
 * An instruction of several bytes cannot be stored at once with respect to instruction fetch, and
 * one of five bytes may lie across two cache lines. But its first byte can:
 *
 *   1  publish what is about to be there          4  store all bytes but the first (behind int3:
 *                                                    no thread executes them)
 *   2  store cc over each first byte              5  sync
 *   3  sync: every processor sees the cc          6  store the first byte
 *                                                 7  sync   8  retract, wait for handlers
 *
 * sync: every processor executes a serialising instruction (Intel SDM volume 3, 9.1.3:
 * cross-modifying code). Between 2 and 6 a processor that gets to an address takes the trap, and
 * its handler does what the *new* instruction would do: at any moment there are two behaviours, old
 * or new, and never the old head with a new tail.
 *
 * One old instruction, of any length up to the new one's with its padding, must stand there: a
 * processor that is between two old ones cannot be seen.
 */
import type { BreakpointPatching, LivePatch, LiveStep, TrappedCpu } from '../machine/live-patching.js';
import { signExtend32 } from '../bits.js';
import { ByteView } from '../bytes.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import type { Address } from '../units.js';
import { CONDITIONS } from './opcode-map.js';
import { NOP5, NOP6 } from './sites.js';

/** X-MOD-2: a batch holds this many. */
export const MAX_BATCH = 256;

/**
 * One instruction to be written, with everything behind it that the change owns: 1 byte or more.
 */
export type TextPatch = LivePatch;

/** What the trap handler does for a processor that trapped at an address of the batch. */
export type TrapEffect =
  /** X-POKE-3: the new instruction is itself an int3: the trap is not one of ours. */
  | { readonly kind: 'not-ours' }
  | { readonly kind: 'ret' }
  | { readonly kind: 'jump'; readonly target: Address }
  | { readonly kind: 'call'; readonly target: Address; readonly returnTo: Address }
  /** Goes to `target` when condition 0 to 15 holds (low four opcode bits), else to `next`. */
  | { readonly kind: 'branch'; readonly condition: number; readonly target: Address; readonly next: Address }
  /** A nop: goes on behind it. */
  | { readonly kind: 'next'; readonly next: Address };

/** One patch of a published batch. */
export interface BatchEntry extends TextPatch {
  readonly effect: TrapEffect;
}

export type PokeStep = LiveStep<BatchEntry>;

const INT3 = 0xcc;
const NOP2_LOW = 0x9066;

/**
 * What may be written live (X-POKE-2), with its length and whether control never gets behind it.
 */
interface Allowed {
  readonly bytes: number;
  readonly effect: TrapEffect;
  readonly padded: boolean;
}

function allowedAt(after: Uint8Array, address: Address): Allowed | null {
  const view = new ByteView(after, 'little');
  const size = after.length;
  const first = size > 0 ? view.u8(0) : -1;
  const at = (offset: number): Address => BigInt.asUintN(64, address + BigInt(offset));
  const near = (): Address => at(2 + signExtend32(view.u8(1), 8));
  const far = (length: number): Address => at(length + view.i32(length - 4));
  if (first === INT3) return { bytes: 1, effect: { kind: 'not-ours' }, padded: false };
  if (first === 0xc3) return { bytes: 1, effect: { kind: 'ret' }, padded: true };
  if (size >= 2) {
    if (first === 0xeb) return { bytes: 2, effect: { kind: 'jump', target: near() }, padded: true };
    if (first >> 4 === 7) {
      const effect = { kind: 'branch', condition: first & 15, target: near(), next: at(2) } as const;
      return { bytes: 2, effect, padded: false };
    }
    if (view.u16(0) === NOP2_LOW) return { bytes: 2, effect: { kind: 'next', next: at(2) }, padded: false };
  }
  if (size >= 5) {
    if (first === 0xe8) return { bytes: 5, effect: { kind: 'call', target: far(5), returnTo: at(5) }, padded: false };
    if (first === 0xe9) return { bytes: 5, effect: { kind: 'jump', target: far(5) }, padded: true };
    if (NOP5.every((byte, i) => after[i] === byte)) {
      return { bytes: 5, effect: { kind: 'next', next: at(5) }, padded: false };
    }
  }
  // The six-byte sites of programs (X-SITE-1), beyond what kernels allow.
  if (size >= 6 && first === 0x67 && view.u8(1) === 0xe8) {
    return { bytes: 6, effect: { kind: 'call', target: far(6), returnTo: at(6) }, padded: false };
  }
  if (size >= 6 && NOP6.every((byte, i) => after[i] === byte)) {
    return { bytes: 6, effect: { kind: 'next', next: at(6) }, padded: false };
  }
  if (size >= 6 && first === 0x0f && view.u8(1) >> 4 === 8) {
    const effect = { kind: 'branch', condition: view.u8(1) & 15, target: far(6), next: at(6) } as const;
    return { bytes: 6, effect, padded: false };
  }
  return null;
}

/**
 * What the handler does for a patch (X-POKE-2). Behind an instruction that control never passes,
 * int3 may fill the rest.
 * @throws ElftraceError 'internal' for anything else: what cannot be emulated cannot be written
 *   live
 */
export function trapEffect(patch: TextPatch): TrapEffect {
  const { address, after } = patch;
  const allowed = allowedAt(after, address);
  if (allowed !== null) {
    const rest = after.subarray(allowed.bytes);
    if (rest.length === 0 || (allowed.padded && rest.every((byte) => byte === INT3))) return allowed.effect;
  }
  throw new ElftraceError('internal', `${hexBytes(after)} at ${hex(address)} cannot be written while processors run`, {
    address,
    actual: hexBytes(after),
    expected: 'int3, ret, jmp, call, jcc, nop2, nop5 or the forms of a six-byte site',
  });
}

/**
 * Splits patches into batches as they come (X-MOD-2): a batch ends when it is full, or before an
 * address lower than the last one, because the handler searches by halves.
 */
export function batchesOf(patches: readonly TextPatch[]): readonly (readonly TextPatch[])[] {
  const batches: TextPatch[][] = [];
  let last: TextPatch | null = null;
  for (const patch of patches) {
    const batch = batches.at(-1);
    if (batch === undefined || batch.length === MAX_BATCH || (last !== null && patch.address < last.address)) {
      batches.push([patch]);
    } else {
      batch.push(patch);
    }
    last = patch;
  }
  return batches;
}

/**
 * The protocol for one batch.
 * @param batch  ascending, not overlapping, at most MAX_BATCH
 * @throws ElftraceError 'internal' for a batch that is not like that, or an instruction that may
 *   not be written
 */
export function pokeSteps(batch: readonly TextPatch[]): readonly PokeStep[] {
  if (batch.length === 0) return [];
  if (batch.length > MAX_BATCH) {
    throw new ElftraceError('internal', `a batch of ${String(batch.length)} writes, at most ${String(MAX_BATCH)}`, {
      value: batch.length,
      max: MAX_BATCH,
    });
  }
  batch.forEach((patch, i) => {
    const before = batch[i - 1];
    if (before !== undefined && before.address + BigInt(before.after.length) > patch.address) {
      throw new ElftraceError('internal', `the batch has ${hex(before.address)} before ${hex(patch.address)}`, {
        address: patch.address,
      });
    }
  });
  const entries = batch.map((patch) => ({ ...patch, effect: trapEffect(patch) }));
  const stores = (phase: 'int3' | 'tail' | 'head', of: (patch: TextPatch) => Uint8Array, offset: number): PokeStep[] =>
    batch
      .map((patch): PokeStep => ({ kind: 'store', phase, address: patch.address + BigInt(offset), bytes: of(patch) }))
      .filter((step) => step.kind === 'store' && step.bytes.length > 0);
  const tails = stores('tail', ({ after }) => after.slice(1), 1);
  // A first byte that is int3 stands there already.
  const heads = stores('head', ({ after }) => (after[0] === INT3 ? new Uint8Array(0) : after.slice(0, 1)), 0);
  const sync: PokeStep = { kind: 'sync' };
  return [
    { kind: 'publish', entries },
    ...stores('int3', () => Uint8Array.of(INT3), 0),
    sync,
    ...(tails.length > 0 ? [...tails, sync] : []),
    ...(heads.length > 0 ? [...heads, sync] : []),
    { kind: 'retract' },
    { kind: 'wait-handlers' },
  ];
}

/** The protocol for any number of patches, batch by batch. */
export function pokeAll(patches: readonly TextPatch[]): readonly PokeStep[] {
  return batchesOf(patches).flatMap((batch) => pokeSteps(batch));
}

/**
 * The entry that a trap belongs to (X-POKE-1): the processor stands behind the int3.
 * @param entries  ascending
 * @param ip       instruction pointer that the trap saved
 */
export function entryOfTrap(entries: readonly BatchEntry[], ip: Address): BatchEntry | null {
  const address = BigInt.asUintN(64, ip - 1n);
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const entry = entries[middle]!;
    if (entry.address === address) return entry;
    if (entry.address < address) low = middle + 1;
    else high = middle;
  }
  return null;
}

/** @returns false where the trap is not ours: the processor is left as it is */
export function applyEffect(effect: TrapEffect, cpu: TrappedCpu): boolean {
  switch (effect.kind) {
    case 'not-ours':
      return false;
    case 'ret':
      cpu.setIp(cpu.pop());
      return true;
    case 'jump':
      cpu.setIp(effect.target);
      return true;
    case 'call':
      cpu.push(effect.returnTo);
      cpu.setIp(effect.target);
      return true;
    case 'branch':
      cpu.setIp(conditionHolds(effect.condition, cpu.flags) ? effect.target : effect.next);
      return true;
    case 'next':
      cpu.setIp(effect.next);
      return true;
    default:
      return effect satisfies never;
  }
}

const CF = 1 << 0;
const PF = 1 << 2;
const ZF = 1 << 6;
const SF = 1 << 7;
const OF = 1 << 11;

/**
 * Whether condition 0 to 15 holds: pairs, of which the odd one is the opposite (Intel SDM volume 1,
 * appendix B).
 */
export function conditionHolds(condition: number, flags: number): boolean {
  const less = ((flags & SF) !== 0) !== ((flags & OF) !== 0);
  const zero = (flags & ZF) !== 0;
  const carry = (flags & CF) !== 0;
  const bases = [
    (flags & OF) !== 0,
    carry,
    zero,
    carry || zero,
    (flags & SF) !== 0,
    (flags & PF) !== 0,
    less,
    less || zero,
  ];
  return bases[condition >> 1]! !== ((condition & 1) !== 0);
}

/** Suffix of a condition, for texts: `ne`. */
export function conditionName(condition: number): string {
  return CONDITIONS[condition & 15] ?? '';
}

/** The protocol for what knows no machine. */
export const x86LivePatching: BreakpointPatching = {
  kind: 'breakpoint',
  canWrite({ address, after }) {
    const allowed = allowedAt(after, address);
    if (allowed === null || allowed.effect.kind === 'not-ours') return false;
    const rest = after.subarray(allowed.bytes);
    return rest.length === 0 || (allowed.padded && rest.every((byte) => byte === INT3));
  },
  steps: pokeAll,
  handle(entries, at, cpu) {
    const batch = entries.map((each) => ({ ...each, effect: trapEffect(each) }));
    const entry = entryOfTrap(batch, at + 1n);
    return entry !== null && applyEffect(entry.effect, cpu);
  },
  trapped: (registers) => ({
    get flags() {
      return Number(registers.register('rflags') & 0xffffn);
    },
    setIp: (address) => {
      registers.setRegister('pc', address);
    },
    push: (value) => {
      const rsp = registers.register('rsp') - 8n;
      registers.setRegister('rsp', rsp);
      registers.writeWord(rsp, 8, value);
    },
    pop: () => {
      const rsp = registers.register('rsp');
      registers.setRegister('rsp', rsp + 8n);
      return registers.readWord(rsp, 8) ?? 0n;
    },
  }),
};
