/**
 * Windows of the accesses of regions: which one each is predicted to hit, by what tier 0 saw, and
 * the cells in memory that say how far a window reaches now. A prediction that is wrong costs time,
 * and changes no result.
 */
import { CELL, CONTROL, HINT, STATE, WINDOW } from './host.js';
import type { HostMemory } from './host.js';
import type { RegionNumbers } from './kept-regions.js';
import type { Lifter, Op } from '../machine/ir.js';
import type { CompileContext, Site } from './region-code.js';
import type { Region } from './regions.js';
import type { Address } from '../units.js';

/** An access that went to another window so often in tier 0 is one that may go to any. */
const MANY_MOVES = 4;

/** What tier 0 knows of an access of an instruction. */
export interface PredictedAccess {
  readonly instruction: Address;
  /** The window descriptor that it hit last. */
  readonly descriptor: number;
  /** How often it went to another window than before. */
  readonly moves: number;
}

export class RegionWindows {
  /** Window cells in use, by base and host address. */
  private readonly cells = new Map<string, { readonly base: Address; readonly host: number; readonly at: number }>();
  /** An address in the window that each access of an instruction hit last, in tier 0. */
  private readonly hints = new Map<Address, (Address | undefined)[]>();
  /** Instructions whose accesses went to several windows. */
  private readonly searching = new Set<Address>();
  /** Accesses that were given a HINT record. */
  private searches = 0;

  constructor(
    private readonly host: HostMemory,
    private readonly lifter: Lifter,
    private readonly predictions: (address: Address) => readonly PredictedAccess[],
  ) {}

  /** The numbers that code of regions has in it. */
  get numbers(): Pick<RegionNumbers, 'cells' | 'searches'> {
    return { cells: [...this.cells.values()].map(({ base, host }) => ({ base, host })), searches: this.searches };
  }

  /** Begins with the numbers of another machine; no region was made yet. */
  begin({ cells, searches }: Pick<RegionNumbers, 'cells' | 'searches'>): void {
    for (const { base, host } of cells) this.cellsOf(base, host);
    for (let i = 0; i < Math.min(searches, HINT.count); i++) this.search();
    this.searches = searches;
  }

  /** Accesses of the instruction go to several windows: they are compiled so from now on. */
  mayGoAnywhere(instruction: Address): void {
    this.searching.add(instruction);
  }

  /** Predicts the windows of the accesses of a region. */
  sitesOf(region: Region): CompileContext['site'] {
    const { host } = this;
    const common = new Map<Address, number>();
    for (const { block } of region.blocks) {
      const ordinals = new Map<Address, number>();
      for (const { instruction, descriptor, moves } of this.predictions(block.address)) {
        if (moves >= MANY_MOVES) this.searching.add(instruction);
        const ordinal = ordinals.get(instruction) ?? 0;
        ordinals.set(instruction, ordinal + 1);
        if (descriptor === WINDOW.start) continue;
        const base = host.u64[(descriptor + WINDOW.base) >> 3]!;
        const list = this.hints.get(instruction) ?? [];
        list[ordinal] = base;
        this.hints.set(instruction, list);
        common.set(base, (common.get(base) ?? 0) + 1);
      }
    }
    const most = [...common].sort((a, b) => b[1] - a[1])[0]?.[0];
    const usual = most === undefined ? undefined : this.descriptorOf(most);
    const cache = new Map<Op, Site>();
    return (instruction, ordinal, op) => {
      const known = cache.get(op);
      if (known) return known;
      const site = ((): Site => {
        if (this.searching.has(instruction)) return this.search();
        const hint = this.hints.get(instruction)?.[ordinal];
        const seen = hint === undefined ? undefined : this.descriptorOf(hint);
        const constant =
          typeof op.a === 'bigint' && typeof op.b === 'bigint'
            ? BigInt.asUintN(this.lifter.addressBits, op.a + op.b)
            : null;
        const descriptor = constant !== null ? this.descriptorOf(constant) : (seen ?? this.guess(op) ?? usual);
        if (descriptor === undefined) return this.search();
        const { row } = op;
        const limits = row.form === 'store' ? WINDOW.writeLimits : WINDOW.readLimits;
        if (host.u64[(descriptor + limits) >> 3] === 0n) return this.search();
        const base = host.u64[(descriptor + WINDOW.base) >> 3]!;
        const first = host.u32[(descriptor + WINDOW.host) >> 2]!;
        const cells = this.cellsOf(base, first);
        return cells === 0 ? this.search() : { kind: 'window', base, host: first, cells };
      })();
      cache.set(op, site);
      return site;
    };
  }

  /** An access that may go to any window; many of them share records, which costs time alone. */
  private search(): Site {
    const record = HINT.start + HINT.bytes * (this.searches++ % HINT.count);
    this.host.u16[(record + HINT.window) >> 1] = WINDOW.start;
    return { kind: 'search', record };
  }

  /** The window to which the registers point as they are now. */
  private guess(op: Op): number | undefined {
    let address = 0n;
    for (const each of [op.a, op.b]) {
      if (typeof each === 'bigint') address += each;
      else if (each >= this.lifter.slots.firstTemporary) return undefined;
      else address += this.host.u64[(STATE + this.lifter.slots.offset(each)) >> 3]!;
    }
    return this.descriptorOf(BigInt.asUintN(this.lifter.addressBits, address));
  }

  private descriptorOf(address: Address): number | undefined {
    const { host } = this;
    const end = host.u32[CONTROL.windowsEnd >> 2]!;
    for (let at = WINDOW.start + WINDOW.bytes; at < end; at += WINDOW.bytes) {
      const offset = address - host.u64[(at + WINDOW.base) >> 3]!;
      if (offset >= 0n && offset < host.u64[(at + WINDOW.size) >> 3]!) return at;
    }
    return undefined;
  }

  /** Host address of the cells of a window; 0 when there are too many windows. */
  private cellsOf(base: Address, first: number): number {
    const key = `${base}:${first}`;
    const known = this.cells.get(key);
    if (known) return known.at;
    if (this.cells.size >= CELL.count) return 0;
    const cells = { base, host: first, at: CELL.start + CELL.bytes * this.cells.size };
    this.cells.set(key, cells);
    this.fill(cells);
    return cells.at;
  }

  publish(): void {
    for (const each of this.cells.values()) this.fill(each);
  }

  /** Writes how far a window reaches now. */
  private fill({
    base,
    host: first,
    at,
  }: {
    readonly base: Address;
    readonly host: number;
    readonly at: number;
  }): void {
    const { host } = this;
    const descriptor = this.descriptorOf(base);
    let readable = 0n;
    let writable = 0n;
    if (descriptor !== undefined) {
      const skip = base - host.u64[(descriptor + WINDOW.base) >> 3]!;
      const size = host.u64[(descriptor + WINDOW.size) >> 3]! - skip;
      if (host.u32[(descriptor + WINDOW.host) >> 2]! + Number(skip) === first) {
        if (host.u64[(descriptor + WINDOW.readLimits) >> 3] !== 0n) {
          readable = size;
          if (host.u64[(descriptor + WINDOW.writeLimits) >> 3] !== 0n) writable = size;
        }
      }
    }
    CELL.spans.forEach((span, index) => {
      const bound = (size: bigint): bigint => (size >= BigInt(span) ? size - BigInt(span) + 1n : 0n);
      host.u64[(at + CELL.read + 8 * index) >> 3] = bound(readable);
      host.u64[(at + CELL.write + 8 * index) >> 3] = bound(writable);
    });
  }
}
