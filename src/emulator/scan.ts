/**
 * What code asks for that the emulator does not do: instructions that are not executed and numbers
 * of system calls, found by lifting code from its beginning to its end. Nothing is executed, so
 * code that no run reaches counts like any other.
 */
import type { Abi } from '../machine/abi.js';
import { OPS } from '../machine/ir.js';
import type { Block, Lifter, OpRow, Slot } from '../machine/ir.js';
import type { Address } from '../units.js';

/** Code without gaps. */
export interface ScannedCode {
  readonly address: Address;
  readonly bytes: Uint8Array;
}

/** Instructions of one kind that are not executed. */
export interface UnservedInstruction {
  /** Null: bytes that are no instruction the emulator knows. */
  readonly mnemonic: string | null;
  readonly count: number;
  /** The first of them. */
  readonly address: Address;
  readonly bytes: Uint8Array;
}

/** System calls of one number; null: their numbers come from elsewhere. */
export interface ScannedCall {
  readonly number: number | null;
  readonly count: number;
  readonly address: Address;
}

export interface ScanResult {
  readonly instructions: readonly UnservedInstruction[];
  readonly calls: readonly ScannedCall[];
  /** Instructions that were looked at. */
  readonly total: number;
  /** Places that are no instruction and were taken for tables: nothing runs into them. */
  readonly tables: number;
}

const MOST_INSTRUCTIONS = 64;
const CODE_BYTES = 1024;
/** Bytes that the last instruction of a piece may need. */
const MARGIN = 32;
/** Bytes behind zeros that may belong to a table. */
const TABLE_BYTES = 32n;

/** Looks at code; `starts`: where functions begin. */
export function scanCode(
  lifter: Lifter,
  convention: Abi['syscall'],
  ranges: Iterable<ScannedCode>,
  starts: ReadonlySet<Address>,
): ScanResult {
  const scan = new Scan(lifter, lifter.slots.slot(convention.number), starts);
  for (const range of ranges) scan.range(range);
  return scan.result();
}

/** Forms of ops that write to no slot. */
const WITHOUT_RESULT: ReadonlySet<OpRow['form']> = new Set<OpRow['form']>(['store', 'aligned', 'check', 'leave']);

/** What is known of the register that holds the number of a system call. */
type Known = bigint | 'unknown' | 'unreachable';

function merged(a: Known | undefined, b: Known): Known {
  if (a === undefined || a === 'unreachable' || a === b) return b;
  return b === 'unreachable' ? a : 'unknown';
}

class Scan {
  private readonly instructions = new Map<string, UnservedInstruction>();
  private readonly calls = new Map<number | null, ScannedCall>();
  private total = 0;
  private tables = 0;
  private number: Known = 'unknown';
  /** What branches that lead forward bring along, by their targets. */
  private readonly brought = new Map<Address, Known>();
  /** The last zeros that are no instruction. */
  private zeros: Address | null = null;

  constructor(
    private readonly lifter: Lifter,
    private readonly slot: Slot,
    private readonly starts: ReadonlySet<Address>,
  ) {}

  result(): ScanResult {
    const byCount = (a: { readonly count: number }, b: { readonly count: number }): number => b.count - a.count;
    const calls = [...this.calls.values()].sort((a, b) => (a.number ?? -1) - (b.number ?? -1));
    return {
      instructions: [...this.instructions.values()].sort(byCount),
      calls,
      total: this.total,
      tables: this.tables,
    };
  }

  range({ address, bytes }: ScannedCode): void {
    this.number = 'unknown';
    for (let at = 0; at < bytes.length;) {
      const pc = address + BigInt(at);
      if (this.starts.has(pc)) this.number = 'unknown';
      this.number = merged(this.brought.get(pc), this.number);
      this.brought.delete(pc);
      const code = bytes.subarray(at, at + CODE_BYTES + MARGIN);
      const block = this.lifter.lift(code, pc, {
        maxInstructions: MOST_INSTRUCTIONS,
        startsAt: (place) => this.starts.has(place) || this.brought.has(place),
      });
      at = Number(this.block(block, code, pc) - address);
    }
  }

  private bring(from: Address, target: Address): void {
    if (target > from) this.brought.set(target, merged(this.brought.get(target), this.number));
  }

  /** Notes what is in a block; returns where the code goes on. */
  private block(block: Block, code: Uint8Array, pc: Address): Address {
    const { terminator, ops, instructions, end } = block;
    const least = BigInt(this.lifter.codeAlignBytes);
    this.total += instructions.length;
    for (const { op, d, a } of ops) {
      if (d === this.slot && !WITHOUT_RESULT.has(OPS[op].form))
        this.number = op === 'mov' && typeof a === 'bigint' ? a : 'unknown';
    }
    switch (terminator.kind) {
      case 'unknown': {
        const at = Number(end - pc);
        const bytes = code.slice(at, at + Math.max(1, terminator.sizeBytes));
        this.unknown(terminator.mnemonic, end, bytes);
        return end + (bytes.length > 0 ? BigInt(bytes.length) : least);
      }
      case 'fetch':
        // What is left is no whole instruction.
        if (end > pc) return end;
        this.unknown(null, end, code.slice(0, this.lifter.codeAlignBytes));
        return end + least;
      case 'br':
        this.bring(pc, terminator.pc);
        break;
      case 'jmp':
        this.bring(pc, terminator.pc);
        if (terminator.pc !== end) this.number = 'unreachable';
        break;
      case 'helper':
        if (terminator.name === 'syscall') this.call(instructions.at(-1)!);
        this.number = 'unknown';
        break;
      case 'call':
      case 'calli':
        this.number = 'unknown';
        break;
      case 'ind':
      case 'ret':
      case 'trap':
        this.number = 'unreachable';
        break;
      default:
    }
    return end > pc ? end : pc + least;
  }

  private unknown(mnemonic: string | null, address: Address, bytes: Uint8Array): void {
    // Zeros are padding, or begin a table that describes the function in front of them.
    if (mnemonic === null && bytes.every((byte) => byte === 0)) {
      this.zeros = address;
      return;
    }
    // So are words behind a jump to which nothing else leads: tables of jumps.
    const isTable = this.number === 'unreachable' || (this.zeros !== null && address - this.zeros < TABLE_BYTES);
    if (mnemonic === null && isTable) {
      this.tables++;
      return;
    }
    this.total++;
    const key = mnemonic ?? '';
    const known = this.instructions.get(key);
    this.instructions.set(key, known ? { ...known, count: known.count + 1 } : { mnemonic, count: 1, address, bytes });
  }

  private call(address: Address): void {
    const number = typeof this.number === 'bigint' ? Number(BigInt.asIntN(32, this.number)) : null;
    const known = this.calls.get(number);
    this.calls.set(number, known ? { ...known, count: known.count + 1 } : { number, count: 1, address });
  }
}
