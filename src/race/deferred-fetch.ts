/**
 * What CPUs may have fetched of the lines that are patched, without asking when. A CPU may fetch a
 * line at any time, and goes on executing what it fetched until it fetches it again, or forgets
 * all. To go through every such time would multiply the states; here a CPU has a set of what it may
 * hold of each line, and only when it executes something that differs between these it is decided
 * which it was:
 *
 *   store A          of the line it may hold:  what was before A
 *   store B                                    … and what was between A and B
 *   executes bytes that A changed: two ways to go on, as before A, or as behind it
 *
 * Equal in what can happen to fetching as an event of its own, which `every-order.ts` goes through
 * and tests compare: between two instructions of a line only the last time of fetching it matters,
 * and it can be chosen when the second one is executed.
 *
 * Lines that no thread has executed so far are left out; `grew` says that one was, and the search
 * begins anew.
 */
import type { Machine } from '../emulator/index.js';
import type { Address } from '../units.js';
import type { ChangedLines } from './changed-lines.js';
import type { InstructionLengths } from './instruction-lengths.js';

/** One thing that a CPU may hold of a line. */
export interface Held {
  /** Number of the contents. */
  readonly content: number;
  /** How many stores to patched lines were done when memory had it, for the last time so far. */
  readonly origin: number;
}

/** What a CPU may hold beside what memory has: by patched line, in the order of their contents. */
export type HeldLines = readonly (readonly Held[])[];

/** What an instruction may be. */
export interface Choice {
  /** Positions of its lines, and what the CPU then held of each: one of these. */
  readonly lines: readonly { readonly line: number; readonly held: readonly Held[] }[];
}

/** Of an instruction that no patcher stores to. */
const UNPATCHED: readonly Choice[] = [{ lines: [] }];

const latin1 = new TextDecoder('latin1');

interface Part {
  readonly start: Address;
  readonly size: number;
}

export class DeferredFetch {
  /** A thread executed a line that was left out so far. */
  grew = false;
  private readonly parts: readonly Part[];
  private readonly positions: ReadonlyMap<Address, number>;
  private readonly lineBytes: bigint;
  private readonly tracked: boolean[];
  /** Contents of the lines in memory, of those that were asked for since it changed. */
  private readonly current: (number | null)[];
  /** The last question of `choices`, which is asked more than once before each instruction. */
  private last: { readonly held: HeldLines; readonly pc: Address; readonly choices: readonly Choice[] } | null = null;

  /**
   * @param patched  addresses of the lines that patchers store to
   * @param longest  bytes of the longest instruction
   */
  constructor(
    private readonly machine: Machine,
    private readonly lines: Pick<ChangedLines, 'intern' | 'contentsOf'>,
    private readonly patched: readonly Address[],
    private readonly longest: bigint,
    private readonly lengths: InstructionLengths,
  ) {
    const { memory, fetchLineBytes } = machine;
    const lineBytes = BigInt(fetchLineBytes);
    this.lineBytes = lineBytes;
    this.positions = new Map(patched.map((line, i) => [line, i]));
    this.parts = patched.map((line) => {
      const window = memory.windowAt(line) ?? memory.windowAt(line + lineBytes - 1n)!;
      const start = window.address > line ? window.address : line;
      const end = window.address + BigInt(window.size);
      return { start, size: Number((end < line + lineBytes ? end : line + lineBytes) - start) };
    });
    this.tracked = patched.map(() => false);
    this.current = patched.map(() => null);
  }

  /** Of a CPU that has forgotten all. */
  nothing(): HeldLines {
    return this.parts.map(() => []);
  }

  isTracked(line: number): boolean {
    return this.tracked[line]!;
  }

  /** Memory was stored to or loaded. */
  changed(): void {
    this.current.fill(null);
    this.last = null;
  }

  private now(line: number): number {
    const { start, size } = this.parts[line]!;
    return (this.current[line] ??= this.lines.intern(this.machine.memory.read(start, size)!));
  }

  /** Positions of the patched lines in [start, end). */
  private linesIn(start: Address, end: Address): number[] {
    const found: number[] = [];
    for (let line = start & -this.lineBytes; line < end; line += this.lineBytes) {
      const position = this.positions.get(line);
      if (position !== undefined) found.push(position);
    }
    return found;
  }

  isPatched(start: Address, end: Address): boolean {
    return this.linesIn(start, end).length > 0;
  }

  /**
   * What a CPU may hold once bytes of [start, end) have changed, which they are about to do.
   * @param stores  stores to patched lines so far
   */
  beforeStore(held: HeldLines, start: Address, end: Address, stores: number): HeldLines {
    const lines = this.linesIn(start, end).filter((line) => this.tracked[line]);
    if (lines.length === 0) return held;
    return held.map((each, line) =>
      lines.includes(line) ? merged([...each, { content: this.now(line), origin: stores }]) : each,
    );
  }

  /**
   * What an instruction at `pc` may be; one only where nothing depends on it. The first one is what
   * memory has.
   */
  choices(held: HeldLines, pc: Address, stores: number): readonly Choice[] {
    if (this.last?.held === held && this.last.pc === pc) return this.last.choices;
    const choices = this.choose(held, pc, stores);
    this.last = { held, pc, choices };
    return choices;
  }

  private choose(held: HeldLines, pc: Address, stores: number): readonly Choice[] {
    const [first] = this.linesIn(pc, pc + 1n);
    if (first === undefined) {
      if (this.endsInItsLine(pc)) return UNPATCHED;
    } else {
      this.track(first);
      const candidates = [{ content: this.now(first), origin: stores }, ...held[first]!];
      const groups = grouped(candidates, ({ content }) => this.instructionIn(content, first, pc));
      if (groups !== null) return groups.map((group) => ({ lines: [{ line: first, held: group }] }));
    }
    return this.chooseAcross(held, pc, stores);
  }

  /** The instruction at `pc` in an unpatched line does not reach into the next one. */
  private endsInItsLine(pc: Address): boolean {
    const line = (pc & -this.lineBytes) + this.lineBytes;
    if (this.linesIn(line, pc + this.longest).length === 0) return true;
    const code = this.machine.memory.read(pc, Number(line - pc));
    return code !== null && this.lengths.of(code, pc) !== null;
  }

  /** The bytes of the instruction at `pc`, as text, if a line holds all of them. */
  private instructionIn(content: number, line: number, pc: Address): string | null {
    const code = this.lines.contentsOf(content).subarray(Number(pc - this.parts[line]!.start));
    const length = this.lengths.of(code, pc);
    return length === null ? null : latin1.decode(code.subarray(0, length));
  }

  /** The same for what may be an instruction across lines, or none. */
  private chooseAcross(held: HeldLines, pc: Address, stores: number): readonly Choice[] {
    const end = pc + this.longest;
    // Which bytes are an instruction's is known when it is executed: the next line may be too much.
    let choices: Choice[] = [{ lines: [] }];
    for (const line of this.linesIn(pc, end)) {
      const candidates = [{ content: this.now(line), origin: stores }, ...held[line]!];
      const groups = grouped(candidates, ({ content }) => this.textOf(content, line, pc, end))!;
      choices = choices.flatMap((choice) =>
        groups.map((group) => ({ lines: [...choice.lines, { line, held: group }] })),
      );
    }
    return choices;
  }

  private track(line: number): void {
    if (this.tracked[line]) return;
    this.tracked[line] = true;
    this.grew = true;
  }

  /** The part of a line that lies in [start, end), as text. */
  private textOf(content: number, line: number, start: Address, end: Address): string {
    const part = this.parts[line]!;
    const from = start > part.start ? Number(start - part.start) : 0;
    return latin1.decode(this.lines.contentsOf(content).subarray(from, Number(end - part.start)));
  }

  /** Makes the CPU execute what is chosen; needed only where that is not what memory has. */
  install(cpu: number, choice: Choice): void {
    const lines = new Set<Address>();
    const kept = new Map<Address, { start: Address; bytes: Uint8Array }>();
    for (const { line, held } of choice.lines) {
      const { content } = held[0]!;
      lines.add(this.patched[line]!);
      if (content === this.now(line)) continue;
      kept.set(this.patched[line]!, { start: this.parts[line]!.start, bytes: this.lines.contentsOf(content) });
    }
    const state = { ...this.machine.saveCpu(cpu), fetched: { lines, kept } };
    this.machine.restoreCpus(
      Array.from({ length: this.machine.cpuCount }, (_, index) => (index === cpu ? state : null)),
    );
  }

  /** What the CPU may hold once it has executed the bytes [pc, end) as they were chosen. */
  executed(held: HeldLines, choice: Choice, pc: Address, end: Address): HeldLines {
    const lines = this.linesIn(pc, end);
    for (const line of lines) this.track(line);
    const chosen = held.map((each, line) => {
      if (!lines.includes(line)) return each;
      return merged(choice.lines.find((one) => one.line === line)!.held);
    });
    return this.besideMemory(chosen);
  }

  /** What memory has can be fetched now, and need not be held: equal if the same can happen. */
  besideMemory(held: HeldLines): HeldLines {
    return held.map((each, line) => {
      if (each.length === 0) return each;
      const now = this.now(line);
      return each.some(({ content }) => content === now) ? each.filter(({ content }) => content !== now) : each;
    });
  }
}

/** By a text of each, in the order in which they come; null where one has none. */
function grouped<T>(all: readonly T[], textOf: (each: T) => string | null): readonly (readonly T[])[] | null {
  const groups = new Map<string, T[]>();
  for (const each of all) {
    const text = textOf(each);
    if (text === null) return null;
    const group = groups.get(text);
    if (group === undefined) groups.set(text, [each]);
    else group.push(each);
  }
  return [...groups.values()];
}

/** Equal ones once, in the order of their contents. */
function merged(held: readonly Held[]): readonly Held[] {
  const byContent = new Map<number, Held>();
  for (const each of held) {
    const known = byContent.get(each.content);
    if (known === undefined || each.origin > known.origin) byContent.set(each.content, each);
  }
  return [...byContent.values()].sort((a, b) => a.content - b.content);
}
