/**
 * Memory of a race's states: those lines of 64 bytes that differ from the start, page by page.
 * Contents of lines and pages are interned, so that two pages are equal exactly if they are one
 * object, a state is a short list of pages, and nothing is hashed.
 */
import type { GuestMemory } from '../emulator/memory.js';
import type { Address } from '../units.js';

const LINE = 64n;
const PAGE = 4096n;
const latin1 = new TextDecoder('latin1');

/** A page as it may be: lines that differ from the start, each with the number of its contents. */
export interface PageLines {
  /** Among those of its page; 0: nothing differs. */
  readonly id: number;
  readonly lines: ReadonlyMap<number, number>;
}

/** Bytes of lines, as bits: bit 0 is the first byte of the line that is mapped. */
export type LineBytes = Map<number, bigint>;

/** Some bytes of a line: positions, and contents that have them. */
export interface LinePart {
  readonly bytes: readonly number[];
  readonly content: number;
}

/** Parts of lines of one page. */
export interface PageParts {
  readonly page: number;
  readonly lines: ReadonlyMap<number, LinePart>;
}

/** A line that was asked for: those have numbers. */
interface Line {
  readonly page: number;
  /** The mapped part of it. */
  readonly start: Address;
  readonly size: number;
  /** Its contents at the start. */
  readonly base: number;
}

const unchanged = (): PageLines => ({ id: 0, lines: new Map() });

export class ChangedLines {
  private readonly contents: Uint8Array[] = [];
  private readonly contentIds = new Map<string, number>();
  private readonly known: Line[] = [];
  private readonly lineNumbers = new Map<Address, number>();
  private readonly pageNumbers = new Map<Address, number>();
  /** What each page may be, by a text of it. */
  private readonly versions: Map<string, PageLines>[] = [];
  private readonly current: PageLines[] = [];
  /** Lines that were stored to since `current` was true. */
  private readonly stale = new Set<number>();

  constructor(private readonly memory: Pick<GuestMemory, 'read' | 'windowAt' | 'write'>) {}

  /** Must be told of every store, before it. */
  beforeStore(address: Address, size: number): void {
    for (const line of this.linesIn(address, address + BigInt(size))) this.stale.add(line);
  }

  /** Numbers of the lines of [start, end) that are mapped. */
  *linesIn(start: Address, end: Address): Generator<number> {
    for (let at = start & -LINE; at < end; at += LINE) {
      const line = this.lineNumbers.get(at) ?? this.meet(at);
      if (line !== null) yield line;
    }
  }

  /** The same with the bytes of each that are in [start, end), as bits. */
  *bytesIn(start: Address, end: Address): Generator<readonly [line: number, bytes: bigint]> {
    for (const line of this.linesIn(start, end)) {
      const { start: from, size } = this.known[line]!;
      const first = start > from ? start - from : 0n;
      const last = end - from < BigInt(size) ? end - from : BigInt(size);
      if (last > first) yield [line, ((1n << (last - first)) - 1n) << first];
    }
  }

  /** A line that was not stored to so far. */
  private meet(address: Address): number | null {
    const window = this.memory.windowAt(address) ?? this.memory.windowAt(address + LINE - 1n);
    if (!window) return null;
    const start = window.address > address ? window.address : address;
    const end = window.address + BigInt(window.size);
    const size = Number((end < address + LINE ? end : address + LINE) - start);
    const base = this.intern(this.memory.read(start, size)!);
    const number = this.known.push({ page: this.pageOf(address & -PAGE), start, size, base }) - 1;
    this.lineNumbers.set(address, number);
    return number;
  }

  private pageOf(address: Address): number {
    let page = this.pageNumbers.get(address);
    if (page === undefined) {
      page = this.current.push(unchanged()) - 1;
      this.pageNumbers.set(address, page);
      this.versions.push(new Map([['', this.current[page]!]]));
    }
    return page;
  }

  /** The pages as they are, by number. */
  save(): readonly PageLines[] {
    this.settle();
    return [...this.current];
  }

  /** Puts back what `save` gave. What it stores must not be told to `beforeStore`. */
  load(saved: readonly PageLines[]): void {
    this.settle();
    for (const [page, from] of this.current.entries()) {
      const to = this.pageIn(saved, page);
      if (to === from) continue;
      for (const [line, content] of from.lines) {
        const wanted = to.lines.get(line) ?? this.known[line]!.base;
        if (content !== wanted) this.put(line, wanted);
      }
      for (const [line, content] of to.lines) if (!from.lines.has(line)) this.put(line, content);
      this.current[page] = to;
    }
  }

  private put(line: number, content: number): void {
    this.memory.write(this.known[line]!.start, this.contents[content]!);
  }

  private settle(): void {
    if (this.stale.size === 0) return;
    const changes = new Map<number, Map<number, number>>();
    for (const line of this.stale) {
      const { page, start, size } = this.known[line]!;
      let lines = changes.get(page);
      if (lines === undefined) changes.set(page, (lines = new Map()));
      lines.set(line, this.intern(this.memory.read(start, size)!));
    }
    this.stale.clear();
    for (const [page, lines] of changes) this.current[page] = this.withLines(this.current[page]!, page, lines);
  }

  // ---------------------------------------------------------------------------------------- states

  /** A page of what `save` gave: those that were met later were as at the start. */
  pageIn(pages: readonly PageLines[], page: number): PageLines {
    return pages[page] ?? this.versions[page]!.get('')!;
  }

  /** What a line holds in a state. */
  contentIn(pages: readonly PageLines[], line: number): number {
    const { page, base } = this.known[line]!;
    return pages[page]?.lines.get(line) ?? base;
  }

  /** What a line of a page holds. */
  contentOf({ lines }: PageLines, line: number): number {
    return lines.get(line) ?? this.known[line]!.base;
  }

  startOf(line: number): Address {
    return this.known[line]!.start;
  }

  /** Bytes of lines as a state has them, page by page. */
  partsOf(pages: readonly PageLines[], bytes: ReadonlyMap<number, bigint>): PageParts[] {
    const found = new Map<number, Map<number, LinePart>>();
    for (const [line, mask] of bytes) {
      if (mask === 0n) continue;
      const { page } = this.known[line]!;
      let lines = found.get(page);
      if (lines === undefined) found.set(page, (lines = new Map()));
      lines.set(line, { bytes: positionsOf(mask), content: this.contentIn(pages, line) });
    }
    return [...found].map(([page, lines]) => ({ page, lines }));
  }

  /** The page has these bytes. */
  hasParts(page: PageLines, { lines }: PageParts): boolean {
    for (const [line, { bytes, content }] of lines) {
      const is = this.contentOf(page, line);
      if (is === content) continue;
      const [ours, theirs] = [this.contents[is]!, this.contents[content]!];
      if (bytes.some((at) => ours[at] !== theirs[at])) return false;
    }
    return true;
  }

  /** The page with these bytes. */
  withParts(from: PageLines, { page, lines }: PageParts): PageLines {
    const contents = new Map<number, number>();
    for (const [line, { bytes, content }] of lines) {
      const is = this.contentOf(from, line);
      if (is === content) continue;
      const merged = this.contents[is]!.slice();
      for (const at of bytes) merged[at] = this.contents[content]![at]!;
      contents.set(line, this.intern(merged));
    }
    return contents.size === 0 ? from : this.withLines(from, page, contents);
  }

  private withLines(from: PageLines, page: number, changes: ReadonlyMap<number, number>): PageLines {
    const lines = new Map(from.lines);
    for (const [line, content] of changes) {
      if (content === this.known[line]!.base) lines.delete(line);
      else lines.set(line, content);
    }
    const text = [...lines]
      .map(([line, content]) => `${line}:${content}`)
      .sort()
      .join();
    const versions = this.versions[page]!;
    let found = versions.get(text);
    if (found === undefined) {
      found = { id: versions.size, lines };
      versions.set(text, found);
    }
    return found;
  }

  /** The number of some contents. */
  intern(bytes: Uint8Array): number {
    const text = latin1.decode(bytes);
    let id = this.contentIds.get(text);
    if (id === undefined) {
      id = this.contents.length;
      this.contentIds.set(text, id);
      this.contents.push(bytes.slice());
    }
    return id;
  }

  /** What has the number. */
  contentsOf(id: number): Uint8Array {
    return this.contents[id]!;
  }
}

function positionsOf(mask: bigint): number[] {
  const found: number[] = [];
  for (let at = 0, rest = mask; rest !== 0n; at++, rest >>= 1n) if ((rest & 1n) !== 0n) found.push(at);
  return found;
}
