/**
 * Memory of a race's states: those lines of 64 bytes that differ from the start. Contents are
 * interned, so that equal memory has an equal text, and nothing is hashed.
 */
import { ElftraceError, hex } from '../errors.js';
import type { GuestMemory } from '../emulator/memory.js';
import type { Address } from '../units.js';

const LINE = 64n;
const latin1 = new TextDecoder('latin1');

export class ChangedLines {
  private readonly contents: Uint8Array[] = [];
  private readonly contentIds = new Map<string, number>();
  /** What lines were at the start, of those that were ever stored to. */
  private readonly base = new Map<Address, number>();
  /** Lines that differ from the start, and lines of which that is not known. */
  private readonly lines = new Map<Address, number>();
  private readonly stale = new Set<Address>();

  constructor(private readonly memory: Pick<GuestMemory, 'read' | 'windowAt' | 'write'>) {}

  /** Must be told of every store, before it. */
  beforeStore(address: Address, size: number): void {
    for (let line = address & -LINE; line < address + BigInt(size); line += LINE) {
      if (!this.base.has(line)) this.base.set(line, this.lineContent(line));
      this.stale.add(line);
    }
  }

  /** Lines that differ from the start, each with the number of its contents. */
  save(): ReadonlyMap<Address, number> {
    this.settle();
    return new Map(this.lines);
  }

  /** Lines that differ, as a text: two are equal exactly if the memory is. */
  get key(): string {
    const lines: string[] = [];
    for (const [line, id] of this.lines) lines.push(`${line.toString(36)}:${id}`);
    return lines.sort().join();
  }

  /** Puts back what `save` gave. What it stores must not be told to `beforeStore`. */
  load(saved: ReadonlyMap<Address, number>): void {
    this.settle();
    for (const [line, id] of this.lines) {
      const wanted = saved.get(line) ?? this.base.get(line)!;
      if (id !== wanted) this.put(line, wanted);
    }
    for (const [line, id] of saved) if (!this.lines.has(line)) this.put(line, id);
    this.lines.clear();
    for (const [line, id] of saved) this.lines.set(line, id);
  }

  private put(line: Address, id: number): void {
    this.memory.write(this.windowPart(line).start, this.contents[id]!);
  }

  // ---------------------------------------------------------------------------------------- states

  private windowPart(line: Address): { readonly start: Address; readonly size: number } {
    const window = this.memory.windowAt(line) ?? this.memory.windowAt(line + LINE - 1n);
    if (!window) throw new ElftraceError('internal', `nothing is mapped at ${hex(line)}`, { address: line });
    const start = window.address > line ? window.address : line;
    const end = window.address + BigInt(window.size);
    return { start, size: Number((end < line + LINE ? end : line + LINE) - start) };
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

  private lineContent(line: Address): number {
    const { start, size } = this.windowPart(line);
    return this.intern(this.memory.read(start, size)!);
  }

  private settle(): void {
    for (const line of this.stale) {
      const id = this.lineContent(line);
      if (id === this.base.get(line)) this.lines.delete(line);
      else this.lines.set(line, id);
    }
    this.stale.clear();
  }
}
