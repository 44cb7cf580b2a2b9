/**
 * Blocks of tier 0 that outlive the machine that translated them: another machine that meets the
 * same bytes at the same address copies their records, which takes a twentieth of lifting and
 * encoding them. A process that is forked does so, and a later run of the same program, whose
 * translations were kept in a file (`bytes`, `from`).
 *
 * What must stay true: records are a function of the lifter, of where the block is, of its bytes
 * and those of one instruction behind it, and of whether indirect branches into it are guarded. All
 * of that is compared whenever a block is taken. Blocks that depend on more (hooks, what a CPU has
 * fetched, where mapped memory ends) are not kept. Who reads a file answers for its lifter, for
 * the version that wrote it, and for its being whole.
 *
 * A block is a row of words and two runs of bytes, its code and its records. Host addresses in
 * records are those of links between blocks alone; they are kept relative to the header.
 */
import type { Guard } from './code-bytes.js';
import type { Prefix } from './encoder.js';
import type { HostMemory } from './host.js';
import { KeptRegions } from './kept-regions.js';
import { CONDITIONS } from '../machine/ir.js';
import type { Block, Terminator, TrapKind } from '../machine/ir.js';
import { MAX_INSTRUCTION_BYTES } from './memory.js';
import { unlinked, writeUnlinked } from './unlinked.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';

/** A row: words of 64 bits, and the places of others among its words of 32 bits. */
const WIDE = { address: 0, pc: 1, next: 2, value: 3 } as const;
const ROW = {
  words: 16,
  /** Kind of the terminator, condition, width and whether `b` is a constant; slot, or name. */
  kind: 8,
  slot: 9,
  /** Bytes of code; bytes that are compared, above. */
  size: 10,
  /** Instructions; distance of the last one, above. */
  count: 11,
  records: 12,
  recordsBytes: 13,
  code: 14,
  /** Whether indirect branches are guarded; what this run knows of it, above. */
  state: 15,
} as const;
/** In this run its bytes were others wherever it was looked for; it was found, or added. */
const STALE = 1 << 16;
const FOUND = 1 << 17;

const KINDS = ['jmp', 'br', 'call', 'calli', 'ret', 'ind', 'helper', 'trap'] as const;

/** Written in front of rows; another form has another number. */
const FORM = 0x314b_5445;
/** The form, rows, bytes of names, of blocks, of regions; room that aligns rows. */
const HEADER_WORDS = 6;
/** What is kept at most. */
const MOST_ROWS = 1 << 17;
const MOST_BYTES = 0x200_0000;
/** Rows of one address that are looked through: programs that follow each other in one run. */
const MOST_OF_ADDRESS = 16;

/** What is compared with a kept block, and asked for when one is taken. */
export interface CodeAt {
  readonly address: Address;
  /** Executable bytes from there on. */
  readonly code: Uint8Array;
  readonly guarded: Guard;
}

/** A block as it was kept. */
export interface KeptBlock {
  readonly end: Address;
  readonly count: number;
  readonly last: Address;
  readonly terminator: Terminator;
  /** Bytes of its header and records. */
  readonly recordsBytes: number;
  readonly row: number;
}

/** Arrays that grow by doubling. */
function grown<T extends Uint32Array | Uint8Array>(from: T, length: number, make: (length: number) => T): T {
  if (length <= from.length) return from;
  const to = make(Math.max(length, 2 * from.length));
  to.set(from);
  return to;
}

/**
 * What machines with one lifter have translated: shared while they run (`MachineOptions.kept`), and
 * kept for later. No result depends on it.
 */
export class KeptTranslations {
  private rows: Uint32Array = new Uint32Array(0);
  private wide: BigUint64Array = new BigUint64Array(0);
  private count = 0;
  private blob: Uint8Array = new Uint8Array(0);
  private used = 0;
  /** Rows by address: the number of a row and one, 0 where there is none. */
  private table = new Int32Array(64);
  private readonly names: string[] = [];
  /**
   * Those of the compiled tier.
   * @internal
   */
  readonly regions = new KeptRegions();
  /** Rows of before that are no longer so. */
  private stale = 0;
  /** Rows that were added, and how often rows were taken. */
  private fresh = 0;
  private taken = 0;

  /**
   * What `bytes` gave before; empty where they are none, or of another form. They are trusted: they
   * must be whole, and of the same lifter, version and engine.
   */
  static from(bytes: Uint8Array | null): KeptTranslations {
    const kept = new KeptTranslations();
    if (bytes !== null && bytes.length >= 4 * HEADER_WORDS) kept.read(bytes);
    return kept;
  }

  private read(bytes: Uint8Array): void {
    // Rows are words, and bytes that are a part of others need not be where words may be.
    const all = bytes.byteOffset % 8 === 0 ? bytes : new Uint8Array(bytes);
    const { buffer, byteOffset } = all;
    const [form, count, names, used, regions] = new Uint32Array(buffer, byteOffset, HEADER_WORDS);
    const rowsAt = 4 * HEADER_WORDS;
    const namesAt = rowsAt + 4 * ROW.words * count!;
    const blobAt = namesAt + names!;
    if (form !== FORM || blobAt + used! + regions! !== all.length) return;
    this.rows = new Uint32Array(buffer, byteOffset + rowsAt, ROW.words * count!);
    this.wide = new BigUint64Array(buffer, byteOffset + rowsAt, (ROW.words / 2) * count!);
    this.count = count!;
    const text = new TextDecoder().decode(all.subarray(namesAt, blobAt));
    if (text !== '') this.names.push(...text.split(','));
    this.blob = all.subarray(blobAt, blobAt + used!);
    this.regions.read(all.subarray(blobAt + used!));
    this.used = used!;
    this.index();
  }

  /** How many blocks, and modules of regions, machines have taken and added so far. */
  get counts(): { readonly taken: number; readonly added: number; readonly modules: number } {
    return { taken: this.taken, added: this.fresh, modules: this.regions.taken };
  }

  /** More was translated, or found to be otherwise, than is worth keeping what was there. */
  get isWorthKeeping(): boolean {
    return this.fresh + this.stale > this.count >> 5 || this.regions.isWorthKeeping;
  }

  /** All of it that was not found to be otherwise, for `from`. */
  bytes(): Uint8Array {
    const rows: number[] = [];
    for (let row = 0; row < this.count; row++) if (!this.isStale(row)) rows.push(row);
    const names = new TextEncoder().encode(this.names.join(','));
    const rowsAt = 4 * HEADER_WORDS;
    const blobAt = rowsAt + 4 * ROW.words * rows.length + names.length;
    const regions = this.regions.bytes();
    const out = new Uint8Array(blobAt + this.used + regions.length);
    const header = new Uint32Array(out.buffer, 0, HEADER_WORDS);
    const words = new Uint32Array(out.buffer, rowsAt, ROW.words * rows.length);
    let used = 0;
    const copy = (at: number, size: number): number => {
      out.set(this.blob.subarray(at, at + size), blobAt + used);
      used += size;
      return used - size;
    };
    rows.forEach((row, index) => {
      const from = row * ROW.words;
      const to = index * ROW.words;
      words.set(this.rows.subarray(from, from + ROW.words), to);
      words[to + ROW.code] = copy(this.rows[from + ROW.code]!, this.rows[from + ROW.size]! >>> 16);
      words[to + ROW.state]! &= 0xff;
      words[to + ROW.records] = copy(this.rows[from + ROW.records]!, this.rows[from + ROW.recordsBytes]!);
    });
    out.set(names, blobAt - names.length);
    out.set(regions, blobAt + used);
    header.set([FORM, rows.length, names.length, used, regions.length]);
    return out.subarray(0, blobAt + used + regions.length);
  }

  // --------------------------------------------------------------------------------------- finding

  private isStale(row: number): boolean {
    return (this.rows[row * ROW.words + ROW.state]! & STALE) !== 0;
  }

  private slotOf(low: number): number {
    return Math.imul(low, 0x9e37_79b1) >>> (32 - Math.log2(this.table.length));
  }

  private index(): void {
    let size = 64;
    while (size < 3 * this.count) size *= 2;
    this.table = new Int32Array(size);
    for (let row = 0; row < this.count; row++) this.enter(row);
  }

  private enter(row: number): void {
    const { table } = this;
    let slot = this.slotOf(this.rows[row * ROW.words]!);
    while (table[slot] !== 0) slot = (slot + 1) & (table.length - 1);
    table[slot] = row + 1;
  }

  /**
   * The block that was translated of the same code, if it was kept.
   * @internal
   */
  find({ address, code, guarded }: CodeAt): KeptBlock | null {
    if (this.count === 0) return null;
    for (let row = this.rowAt(address, null); row >= 0; row = this.rowAt(address, row)) {
      const at = row * ROW.words;
      const state = this.rows[at + ROW.state]!;
      if ((state & 0xff) !== guarded) continue;
      if (this.isSameCode(at, code)) {
        this.taken++;
        return this.block(row);
      }
      if ((state & (STALE | FOUND)) === 0) {
        this.stale++;
        this.rows[at + ROW.state] = state | STALE;
      }
    }
    return null;
  }

  /** The row of an address behind another one of it, or the first one; -1: there is none. */
  private rowAt(address: Address, behind: number | null): number {
    const { table, rows, wide } = this;
    const low = Number(address & 0xffff_ffffn);
    let isBehind = behind === null;
    for (let slot = this.slotOf(low); table[slot] !== 0; slot = (slot + 1) & (table.length - 1)) {
      const row = table[slot]! - 1;
      const at = row * ROW.words;
      if (isBehind && rows[at] === low && wide[(at >> 1) + WIDE.address] === address) return row;
      if (row === behind) isBehind = true;
    }
    return -1;
  }

  private isSameCode(at: number, code: Uint8Array): boolean {
    const { rows, blob } = this;
    const seen = rows[at + ROW.size]! >>> 16;
    const from = rows[at + ROW.code]!;
    if (code.length < seen) return false;
    for (let i = 0; i < seen; i++) if (code[i] !== blob[from + i]) return false;
    return true;
  }

  private block(row: number): KeptBlock {
    const at = row * ROW.words;
    const { rows } = this;
    const address = this.wide[at >> 1]!;
    const state = rows[at + ROW.state]!;
    // Another program of this run may have other code there.
    if ((state & STALE) !== 0) this.stale--;
    rows[at + ROW.state] = (state & ~STALE) | FOUND;
    return {
      end: address + BigInt(rows[at + ROW.size]! & 0xffff),
      count: rows[at + ROW.count]! & 0xffff,
      last: address + BigInt(rows[at + ROW.count]! >>> 16),
      terminator: this.terminatorOf(at),
      recordsBytes: rows[at + ROW.recordsBytes]!,
      row,
    };
  }

  /**
   * Writes a block to host memory; returns the address after its last byte.
   * @internal
   */
  write({ row, recordsBytes }: KeptBlock, host: HostMemory, header: number, prefix: Prefix): number {
    const from = this.rows[row * ROW.words + ROW.records]!;
    return writeUnlinked(host, header, this.blob.subarray(from, from + recordsBytes), prefix);
  }

  private terminatorOf(at: number): Terminator {
    const word = this.rows[at + ROW.kind]!;
    const s = this.rows[at + ROW.slot]!;
    const wide = at >> 1;
    const pc = this.wide[wide + WIDE.pc]!;
    const next = this.wide[wide + WIDE.next]!;
    const value = this.wide[wide + WIDE.value]!;
    const kind = KINDS[word & 0xff]!;
    switch (kind) {
      case 'jmp':
        return { kind, pc };
      case 'call':
        return { kind, pc, ret: next };
      case 'calli':
        return { kind, s, mask: value, ret: next };
      case 'ret':
      case 'ind':
        return { kind, s, mask: value };
      case 'trap':
        return { kind, trap: this.names[s] as TrapKind };
      case 'helper':
        return { kind, name: this.names[s]!, argument: Number(BigInt.asIntN(64, value)), next };
      case 'br': {
        const condition = CONDITIONS[(word >>> 8) & 0xff]!;
        const b = (word & (1 << 17)) === 0 ? Number(value) : BigInt.asIntN(64, value);
        return { kind, condition, width: (word & (1 << 16)) === 0 ? 32 : 64, a: s, b, pc, next };
      }
      default:
        return kind satisfies never;
    }
  }

  // ---------------------------------------------------------------------------------------- adding

  private numberOf(name: string): number {
    const known = this.names.indexOf(name);
    return known >= 0 ? known : this.names.push(name) - 1;
  }

  /**
   * Keeps a block whose records were just written from `header` to `recordsEnd`, no link of them
   * being followed yet; not where it depends on more than what is compared, or much is kept.
   * @internal
   */
  add({ address, code, guarded }: CodeAt, block: Block, host: HostMemory, header: number, recordsEnd: number): void {
    const { terminator, instructions, end } = block;
    const kind = (KINDS as readonly string[]).indexOf(terminator.kind);
    const size = Number(end - address);
    const seen = Math.min(code.length, size + MAX_INSTRUCTION_BYTES);
    const bytes = recordsEnd - header;
    if (kind < 0 || instructions.length === 0 || size > code.length) return;
    if (this.count >= MOST_ROWS || this.used + seen + bytes > MOST_BYTES) return;
    if (!this.hasRoomAt(address)) return;
    const at = this.count * ROW.words;
    this.reserve(at + ROW.words, this.used + seen + bytes);
    const { rows, wide, blob } = this;
    wide[(at >> 1) + WIDE.address] = address;
    rows[at + ROW.size] = size | (seen << 16);
    rows[at + ROW.count] = instructions.length | (Number(instructions.at(-1)! - address) << 16);
    rows[at + ROW.state] = guarded | FOUND;
    rows[at + ROW.code] = this.used;
    rows[at + ROW.records] = this.used + seen;
    rows[at + ROW.recordsBytes] = bytes;
    blob.set(code.subarray(0, seen), this.used);
    blob.set(unlinked(host, header, recordsEnd), this.used + seen);
    this.used += seen + bytes;
    this.putTerminator(at, kind, terminator);
    this.count++;
    this.fresh++;
    if (3 * this.count > 2 * this.table.length) this.index();
    else this.enter(this.count - 1);
  }

  /** Few programs of a run have other code at the same address. */
  private hasRoomAt(address: Address): boolean {
    let found = 0;
    for (let row = this.rowAt(address, null); row >= 0; row = this.rowAt(address, row)) found++;
    return found < MOST_OF_ADDRESS;
  }

  private reserve(words: number, bytes: number): void {
    const rows = grown<Uint32Array>(this.rows, words, (length) => new Uint32Array(Math.max(length, 256 * ROW.words)));
    if (rows !== this.rows) {
      this.rows = rows;
      this.wide = new BigUint64Array(rows.buffer, 0, rows.length >> 1);
    }
    this.blob = grown<Uint8Array>(this.blob, bytes, (length) => new Uint8Array(Math.max(length, 0x1_0000)));
  }

  private putTerminator(at: number, kind: number, terminator: Terminator): void {
    const { rows, wide } = this;
    const first = at >> 1;
    rows[at + ROW.kind] = kind;
    if ('pc' in terminator) wide[first + WIDE.pc] = terminator.pc;
    if ('next' in terminator) wide[first + WIDE.next] = terminator.next;
    if ('ret' in terminator) wide[first + WIDE.next] = terminator.ret;
    if ('s' in terminator) {
      rows[at + ROW.slot] = terminator.s;
      wide[first + WIDE.value] = terminator.mask;
    }
    switch (terminator.kind) {
      case 'br': {
        const { condition, width, a, b } = terminator;
        const isConstant = typeof b === 'bigint';
        const flags = (width === 64 ? 1 << 16 : 0) | (isConstant ? 1 << 17 : 0);
        rows[at + ROW.kind] = kind | (CONDITIONS.indexOf(condition) << 8) | flags;
        rows[at + ROW.slot] = a;
        wide[first + WIDE.value] = BigInt(b);
        break;
      }
      case 'helper':
        rows[at + ROW.slot] = this.numberOf(terminator.name);
        wide[first + WIDE.value] = BigInt(terminator.argument);
        break;
      case 'trap':
        rows[at + ROW.slot] = this.numberOf(terminator.trap);
        break;
      case 'jmp':
      case 'call':
      case 'calli':
      case 'ret':
      case 'ind':
        break;
      case 'sync':
      case 'unknown':
      case 'fetch':
        throw new ElftraceError('internal', `a block that ends with ${terminator.kind} is kept`);
      default:
        terminator satisfies never;
    }
  }
}
