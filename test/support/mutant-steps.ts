/** Instructions of the runtime in the emulator's own terms (PV-5), and where they go. */
import type { Abi } from '../../src/machine/abi.js';
import { type Block, type Lifter, type Op, type Operand, OPS, type Slot } from '../../src/machine/ir.js';
import type { ProofModel } from '../../src/machine/proof.js';
import type { Address } from '../../src/units.js';

export interface Machine {
  readonly lifter: Lifter;
  readonly abi: Abi;
  readonly proof: ProofModel;
}

/** An instruction in the emulator's terms. */
export interface Step {
  readonly address: Address;
  readonly end: Address;
  readonly block: Block;
  /** Where an indirect call or jump goes, which the instruction in front of it says. */
  readonly target: Address | null;
  /** Where it may go by a table of jumps. */
  readonly jumps?: readonly Address[];
}

/** Instructions from an address on, one by one; null: what is there cannot be said so. */
export function stepAt(lifter: Lifter, bytes: Uint8Array, address: Address): Step | null {
  if (bytes.length === 0) return null;
  const block = lifter.lift(bytes, address, { maxInstructions: 1, startsAt: () => false });
  const { kind } = block.terminator;
  if (kind === 'unknown' || kind === 'fetch' || block.end <= address) return null;
  return { address, end: block.end, block: withChoice(lifter, block), target: null };
}

/** A return under a condition as one to one of two places: no op leaves the instruction. */
function withChoice({ slots }: Lifter, block: Block): Block {
  const { ops, terminator } = block;
  const leave = ops.at(-1);
  if (leave?.op !== 'leavez' || (terminator.kind !== 'ret' && terminator.kind !== 'ind')) return block;
  const d = Math.max(slots.firstTemporary, ...ops.map((op) => op.d + 1));
  const choice: Op = { ...leave, op: 'select', row: OPS.select, d, a: terminator.s, b: leave.c, c: leave.a };
  return { ...block, ops: [...ops.slice(0, -1), choice], terminator: { ...terminator, s: d } };
}

/** Places to which an instruction may go, of those that it names itself. */
export function targetsOf({ block, end, target, jumps }: Step): readonly Address[] {
  const { terminator } = block;
  if (target !== null) return [target];
  if (jumps !== undefined) return jumps;
  switch (terminator.kind) {
    case 'jmp':
    case 'call':
      return [terminator.pc];
    case 'br':
      return [terminator.pc, terminator.next];
    case 'helper':
      return [terminator.next];
    case 'ret':
    case 'ind': {
      // A return under a condition goes on behind it where that does not hold.
      const goesOn = block.ops.some(({ op, a, b }) => op === 'select' && (a === end || b === end));
      return goesOn ? [end] : [];
    }
    default:
      return [];
  }
}

/**
 * Where a pair of instructions goes of which the first has the upper part of the address.
 * @param before  the instruction in front of it
 * @param bytes   of the code, from `start` on
 */
export function pairTarget(
  lifter: Lifter,
  { address, block }: Step,
  before: Step | undefined,
  bytes: Uint8Array,
  start: Address,
): Address | null {
  const { terminator } = block;
  if (before === undefined || (terminator.kind !== 'calli' && terminator.kind !== 'ind')) return null;
  const at = Number(address - 4n - start);
  const both = lifter.lift(bytes.subarray(at), address - 4n, {
    maxInstructions: 2,
    startsAt: () => false,
  });
  const known = new Map<Slot, bigint>();
  const valueOf = (operand: Operand): bigint | undefined =>
    typeof operand === 'bigint' ? operand : known.get(operand);
  for (const { op, d, a, b } of both.ops) {
    const [x, y] = [valueOf(a), valueOf(b)];
    const value = x === undefined || y === undefined ? undefined : op === 'mov' ? x : op === 'add' ? x + y : undefined;
    if (value === undefined) known.delete(d);
    else known.set(d, BigInt.asUintN(64, value));
  }
  if (both.terminator.kind === 'call') return both.terminator.pc;
  if (both.terminator.kind !== 'calli' && both.terminator.kind !== 'ind') return null;
  const value = known.get(both.terminator.s);
  return value === undefined ? null : value & both.terminator.mask;
}
