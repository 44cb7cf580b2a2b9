/**
 * Tables by which generated code finds what it may enter for a guest address: blocks of tier 0,
 * regions of the compiled tier. An entry of 16 bytes holds an address and, 8 bytes on, a word that
 * is 0 where nothing can be entered. An address is in the entry of its hash, or in the neighbour of
 * that.
 *
 * Code lies at multiples of powers of two, functions at larger ones, which is why all bits of an
 * address have a say (Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, 6.4).
 */
import type { HostMemory } from './host.js';
import { I32, I64 } from '../machine/ir.js';
import type { Address } from '../units.js';
import type { Code } from './wasm.js';

/** Where a table lies: `2 ** bits` entries from a host address on. */
export interface TablePlace {
  readonly start: number;
  readonly bits: number;
}

const ENTRY_BITS = 4;
const WORD = 8;
/** 2^32 divided by the golden ratio, to the next odd number; as a signed word. */
const SPREAD = 0x9e37_79b1 | 0;

/** Host addresses of the two entries that may hold an address. */
function entriesOf({ start, bits }: TablePlace, address: Address): readonly [first: number, second: number] {
  const hash = Math.imul(Number(address & 0xffff_ffffn), SPREAD) >>> (32 - bits);
  return [start + (hash << ENTRY_BITS), start + ((hash ^ 1) << ENTRY_BITS)];
}

/** The side of TypeScript. */
export class LookupTable {
  constructor(
    private readonly host: HostMemory,
    private readonly place: TablePlace,
  ) {}

  /** Generated code finds `word` for the address from now on. */
  set(address: Address, word: number): void {
    const [first, second] = entriesOf(this.place, address);
    const { u64, u32 } = this.host;
    const other = u64[first >> 3]!;
    // Two that share an entry, and come after each other all the time, both stay.
    if (other !== address && u32[(first + WORD) >> 2] !== 0 && entriesOf(this.place, other)[0] === first) {
      u64[second >> 3] = other;
      u32[(second + WORD) >> 2] = u32[(first + WORD) >> 2]!;
    }
    u64[first >> 3] = address;
    u32[(first + WORD) >> 2] = word;
  }

  /** Generated code finds nothing for the address. */
  remove(address: Address): void {
    for (const entry of entriesOf(this.place, address)) {
      if (this.host.u64[entry >> 3] === address) this.host.u32[(entry + WORD) >> 2] = 0;
    }
  }

  clear(): void {
    const { start, bits } = this.place;
    this.host.u8.fill(0, start, start + (1 << (bits + ENTRY_BITS)));
  }
}

/**
 * Leaves on the stack whether a table has the address, an i64 local; if so, `readLookup` reads its
 * word by `entry`, an i32 local.
 */
export function writeLookup(code: Code, { start, bits }: TablePlace, address: number, entry: number): void {
  const both = (): Code => code.get(entry).memory([I64.load], start).get(address);
  code.get(address).op(I32.wrap).i32(SPREAD).op(I32.mul);
  code
    .i32(32 - bits)
    .op(I32.shr)
    .i32(ENTRY_BITS)
    .op(I32.shl)
    .tee(entry);
  both().op(I64.ne).i32(ENTRY_BITS).op(I32.shl).op(I32.xor).set(entry);
  both().op(I64.eq);
}

/** Pushes the word of the entry that `writeLookup` has found. */
export function readLookup(code: Code, { start }: TablePlace, entry: number): Code {
  return code.get(entry).memory([I32.load], start + WORD);
}
