/**
 * Things that are remembered by what they depend on: the part of a state that belongs to an actor,
 * and bytes of memory.
 */
import type { Slot } from '../machine/ir.js';
import type { ChangedLines, PageLines, PageParts } from './changed-lines.js';
import { bitsOf } from './liveness.js';
import type { SavedCpu, SavedWorld, WorldStates } from './states.js';
import type { Touched } from './touched.js';

/** Bytes of a page as they must be. */
interface Need extends PageParts {
  readonly known: Map<PageLines, boolean>;
}

/** What is true wherever memory is the same. */
interface Remembered<T> {
  readonly needs: readonly Need[];
  readonly value: T;
}

/** What an actor's part of a state is called, beside its registers. */
export interface Key {
  /** Of a thread: its CPU, with which it is known; what reads few registers is found without. */
  readonly cpu: SavedCpu | null;
  readonly thread: number;
  readonly rest: number | string;
}

/** Things that depend on the same slots, by what those hold. */
interface BySlots<T> {
  readonly slots: readonly Slot[];
  readonly values: Map<string, Remembered<T>[]>;
}

/** Things that depend on the same but for memory. */
interface Own<T> {
  readonly all: Remembered<T>[];
  /** Pages that any of them depends on, and which of them fits, by the versions of those. */
  pages: readonly number[];
  readonly answers: Map<string, Remembered<T> | null>;
}

/**
 * Things remembered by what they depend on beside memory. What reads few registers is found for
 * every CPU that agrees in those.
 */
export class Memory<T> {
  /** By threads with their CPUs (`ownerOf`), and the rest of keys. */
  private readonly known = new Map<number, Map<number | string, Own<T>>>();
  private readonly loose = new Map<string, Map<string, BySlots<T>>>();

  constructor(
    private readonly lines: ChangedLines,
    private readonly states: WorldStates,
  ) {}

  find(key: Key, pages: readonly PageLines[]): T | undefined {
    const { cpu } = key;
    const own = this.known.get(ownerOf(key))?.get(key.rest);
    const found = own && this.among(own, pages);
    if (found !== undefined || cpu === null) return found?.value;
    for (const { slots, values } of this.loose.get(looseName(key))?.values() ?? []) {
      for (const each of values.get(this.states.textOf(cpu, slots)) ?? []) {
        if (!this.fits(each.needs, pages)) continue;
        // Equal in what was taken for dead is no more than that.
        if ((bitsOf(slots) & cpu.dead) !== 0n) continue;
        this.keep(key, each);
        return each.value;
      }
    }
    return undefined;
  }

  /** The first that fits; asked of the same pages again, the answer is known. */
  private among({ all, pages: numbers, answers }: Own<T>, pages: readonly PageLines[]): Remembered<T> | undefined {
    let name = '';
    for (const page of numbers) name += `${this.lines.pageIn(pages, page).id},`;
    let answer = answers.get(name);
    if (answer === undefined) {
      answer = all.find(({ needs }) => this.fits(needs, pages)) ?? null;
      answers.set(name, answer);
    }
    return answer ?? undefined;
  }

  private keep(key: Key, each: Remembered<T>): void {
    const owner = ownerOf(key);
    let ofOwner = this.known.get(owner);
    if (ofOwner === undefined) this.known.set(owner, (ofOwner = new Map()));
    let own = ofOwner.get(key.rest);
    if (own === undefined) ofOwner.set(key.rest, (own = { all: [], pages: [], answers: new Map() }));
    own.all.push(each);
    own.pages = [...new Set(own.all.flatMap(({ needs }) => needs.map(({ page }) => page)))];
    own.answers.clear();
  }

  private fits(needs: readonly Need[], pages: readonly PageLines[]): boolean {
    for (const need of needs) {
      const page = this.lines.pageIn(pages, need.page);
      let fits = need.known.get(page);
      if (fits === undefined) {
        fits = this.lines.hasParts(page, need);
        need.known.set(page, fits);
      }
      if (!fits) return false;
    }
    return true;
  }

  /**
   * @param needed  bytes that it depends on
   * @param reads  slots that it depends on; null: all
   */
  add(key: Key, pages: readonly PageLines[], { needed, reads }: Pick<Touched, 'needed' | 'reads'>, value: T): void {
    const parts = this.lines.partsOf(pages, needed);
    const needs = parts.map((each): Need => ({ ...each, known: new Map() }));
    const remembered = { needs, value };
    this.keep(key, remembered);
    if (key.cpu === null || reads === null) return;
    const slots = [...reads].sort((a, b) => a - b);
    const loose = looseName(key);
    let all = this.loose.get(loose);
    if (all === undefined) this.loose.set(loose, (all = new Map()));
    const name = slots.join();
    let own = all.get(name);
    if (own === undefined) all.set(name, (own = { slots, values: new Map() }));
    const values = this.states.textOf(key.cpu, slots);
    const list = own.values.get(values);
    if (list === undefined) own.values.set(values, [remembered]);
    else list.unshift(remembered);
  }

  clear(): void {
    this.known.clear();
    this.loose.clear();
  }
}

/** Four of them are one exact number. */
const MOST = 2 ** 13;

/** All that an event of a thread depends on, but memory. `what`: which event. */
export function threadKey({ cpus, threads, held, common }: SavedWorld, thread: number, what: number | string): Key {
  const [place, holds] = [threads[thread]!.id, held[thread]?.id ?? 0];
  const isSmall = typeof what === 'number' && what < MOST && place < MOST && holds < MOST && common.id < MOST;
  const rest = isSmall
    ? ((place * MOST + holds) * MOST + common.id) * MOST + what
    : `${place},${holds},${common.id},${what}`;
  return { cpu: cpus[thread]!, thread, rest };
}

/** A thread with what its CPU holds, as a number; -1: no thread. There are at most 30. */
const ownerOf = ({ cpu, thread }: Key): number => (cpu === null ? -1 : cpu.id * 32 + thread);

/** The key of what reads few registers: of the same thread at the same place. */
const looseName = ({ cpu, thread, rest }: Key): string => `${thread}@${cpu!.value.pc},${rest}`;

/** All that a step of a patcher depends on, but memory. */
export function patcherKey({ threads, held, patchers, common }: SavedWorld, patcher: number): Key {
  let text = `p${patcher},${common.id}`;
  for (const { id } of patchers) text += `,${id}`;
  for (const { id } of held) text += `,${id}`;
  for (const { value } of threads) text += `,${value.status}`;
  return { cpu: null, thread: -1, rest: text };
}
