/**
 * What each CPU has fetched: the model of a CPU that goes on executing old instructions after code
 * was overwritten, until something makes it fetch anew (F-7).
 *
 *   CPU 0 executes in line 0x1000        fetched {0x1000}
 *   another CPU stores to 0x1008         the 64 bytes as they were are kept for CPU 0
 *   CPU 0 executes in line 0x1000        the old bytes
 *   CPU 1 executes there                 the new bytes: it had not fetched the line before
 *   CPU 0 executes `isync`               nothing is fetched, nothing is kept
 *
 * The unit is a line of `lineBytes`, aligned. A CPU has fetched a line when it has executed an
 * instruction of it since it last synchronised; what real CPUs fetch beyond that is not modelled,
 * so a run depends on its schedule alone. A CPU keeps the oldest bytes: it never sees the second of
 * two stores without the first. It may see one line old and the next one new.
 *
 * One buffer stands for prefetch queue and instruction cache together, so `icbi` is not needed:
 * code that forgets it is not caught here. Data accesses always see memory as it is. Owns no
 * translated code; the machine has blocks end at lines.
 */
import type { GuestMemory } from './memory.js';
import { CODE_PAGE_BITS, MAX_INSTRUCTION_BYTES } from './memory.js';
import type { Address } from '../units.js';

/** Bytes of a line as they were; a line that a window does not fill is shorter. */
interface KeptLine {
  readonly start: Address;
  readonly bytes: Uint8Array;
}

/** What one CPU has fetched since it last synchronised, by the address of the line. */
export interface FetchedLines {
  readonly lines: ReadonlySet<Address>;
  readonly kept: ReadonlyMap<Address, KeptLine>;
}

export class FetchBuffers {
  private cpus: { lines: Set<Address>; kept: Map<Address, KeptLine> }[] = [];
  /** How often anything made a CPU fetch anew. */
  private readonly times: number[] = [];

  /** @param lineBytes  a power of two, 16 to 4096 */
  constructor(
    private readonly memory: GuestMemory,
    readonly lineBytes: number,
  ) {}

  private cpu(index: number): { lines: Set<Address>; kept: Map<Address, KeptLine> } {
    while (this.cpus.length <= index) this.cpus.push({ lines: new Set(), kept: new Map() });
    return this.cpus[index]!;
  }

  private lineOf(address: Address): Address {
    return address & -BigInt(this.lineBytes);
  }

  private linesOf(address: Address, size: number): Address[] {
    const out: Address[] = [];
    const end = address + BigInt(Math.max(1, size));
    for (let line = this.lineOf(address); line < end; line += BigInt(this.lineBytes)) out.push(line);
    return out;
  }

  /**
   * True where a block from `start` must end, so that it lies in one line (but for the end of its
   * last instruction).
   */
  leavesLine(start: Address, place: Address): boolean {
    return this.lineOf(place) !== this.lineOf(start);
  }

  /**
   * The bytes from `address` as the CPU sees them, to the end of the line and a little further;
   * null: not executable.
   */
  code(index: number, address: Address): Uint8Array | null {
    const size = Number(this.lineOf(address) + BigInt(this.lineBytes) - address) + MAX_INSTRUCTION_BYTES;
    const now = this.memory.code(address, size);
    const { kept } = this.cpu(index);
    if (!now || kept.size === 0) return now;
    const seen = now.slice();
    for (const line of this.linesOf(address, now.length)) {
      const old = kept.get(line);
      if (!old) continue;
      const from = Math.max(0, Number(old.start - address));
      const skip = Math.max(0, Number(address - old.start));
      seen.set(old.bytes.subarray(skip, skip + Math.max(0, seen.length - from)), from);
    }
    return seen;
  }

  /** The CPU executes instructions from `address` up to `end`. */
  fetched(index: number, address: Address, end: Address): void {
    const { lines } = this.cpu(index);
    for (const line of this.linesOf(address, Number(end - address))) {
      if (lines.has(line)) continue;
      lines.add(line);
      this.memory.mark(Number(line >> CODE_PAGE_BITS), 'code', 1);
    }
  }

  /** The CPU fetches the lines of a range now, anew where it had them. True: it had old bytes. */
  fetchAnew(index: number, address: Address, end: Address): boolean {
    const { kept } = this.cpu(index);
    let stale = false;
    for (const line of this.linesOf(address, Number(end - address))) stale = kept.delete(line) || stale;
    this.fetched(index, address, end);
    return stale;
  }

  /**
   * Bytes are about to change: CPUs that have fetched them keep the old ones. Not so `writer`, a
   * CPU that sees its own stores: it has not fetched the line any longer.
   */
  beforeWrite(address: Address, size: number, writer: number | null = null): void {
    for (const line of this.linesOf(address, size)) {
      for (const [index, { lines, kept }] of this.cpus.entries()) {
        if (!lines.has(line)) continue;
        if (index === writer) {
          lines.delete(line);
          kept.delete(line);
          this.memory.mark(Number(line >> CODE_PAGE_BITS), 'code', -1);
        }
        if (index === writer || kept.has(line)) continue;
        const window = this.memory.windowAt(address > line ? address : line);
        if (!window) continue;
        const start = window.address > line ? window.address : line;
        const windowEnd = window.address + BigInt(window.size);
        const lineEnd = line + BigInt(this.lineBytes);
        const bytes = this.memory.read(start, Number((windowEnd < lineEnd ? windowEnd : lineEnd) - start));
        if (bytes) kept.set(line, { start, bytes });
      }
    }
  }

  /** The CPU fetches anew from now on. True: it had old bytes, which it sees no longer. */
  synchronise(index: number): boolean {
    const { lines, kept } = this.cpu(index);
    const stale = kept.size > 0;
    for (const line of lines) this.memory.mark(Number(line >> CODE_PAGE_BITS), 'code', -1);
    lines.clear();
    kept.clear();
    this.times[index] = this.synchronisations(index) + 1;
    return stale;
  }

  /** How often the CPU was made to fetch anew, by whatever; restored states count. */
  synchronisations(index: number): number {
    return this.times[index] ?? 0;
  }

  /** The range was mapped, unmapped or got another permission: no CPU has fetched it. */
  forget(address: Address, size: number): void {
    const end = address + BigInt(size);
    for (const { lines, kept } of this.cpus) {
      for (const line of lines) {
        if (line + BigInt(this.lineBytes) <= address || line >= end) continue;
        lines.delete(line);
        kept.delete(line);
        this.memory.mark(Number(line >> CODE_PAGE_BITS), 'code', -1);
      }
    }
  }

  /** Addresses of the lines in which the CPU sees old bytes, ascending. */
  staleLines(index: number): Address[] {
    return [...this.cpu(index).kept.keys()].sort((a, b) => (a < b ? -1 : 1));
  }

  /** A copy of what the CPU has fetched. */
  save(index: number): FetchedLines {
    const { lines, kept } = this.cpu(index);
    return { lines: new Set(lines), kept: new Map(kept) };
  }

  restore(states: readonly (FetchedLines | null)[]): void {
    this.cpus.forEach((_, index) => this.synchronise(index));
    this.cpus = states.map((each) => ({ lines: new Set(each?.lines), kept: new Map(each?.kept) }));
    for (const { lines } of this.cpus) {
      for (const line of lines) this.memory.mark(Number(line >> CODE_PAGE_BITS), 'code', 1);
    }
  }
}
