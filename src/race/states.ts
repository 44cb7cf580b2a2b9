/**
 * States of a race, saved and loaded: the difference from the start, which is registers of the CPUs
 * and those lines of 64 bytes of memory that differ. Contents are interned, so a state's key is a
 * short text and two states have one key exactly if they are equal; nothing is hashed.
 */
import type { CpuState, Machine } from '../emulator/index.js';
import type { LivePatch } from '../machine/live-patching.js';
import type { Address } from '../units.js';
import type { Books } from './books.js';
import type { ChangedLines } from './changed-lines.js';
import type { DeferredFetch } from './deferred-fetch.js';
import type { ProbeEntry } from './model.js';

/** A state that can be loaded again. */
export interface SavedWorld {
  readonly key: string;
  readonly cpus: readonly SavedCpu[];
  readonly lines: ReadonlyMap<Address, number>;
  readonly books: Books;
}

/** A CPU, and a number of its registers: two are equal exactly if these are. */
interface SavedCpu {
  readonly state: CpuState;
  readonly id: number;
}

const NOTHING_FETCHED = { lines: new Set<Address>(), kept: new Map<Address, never>() };

const latin1 = new TextDecoder('latin1');

export class WorldStates {
  /** Memory is being put back: that is no store. */
  loading = false;
  private readonly stateIds = new Map<string, number>();
  /** CPUs as they were saved or loaded, null where anything may have changed since. */
  private readonly saved: (SavedCpu | null)[];
  private readonly entries: (LivePatch | ProbeEntry)[] = [];

  constructor(
    private readonly machine: Machine,
    private readonly lines: ChangedLines,
    private readonly patchedLines: readonly Address[],
  ) {
    this.saved = Array.from({ length: machine.cpuCount }, () => null);
  }

  private entryId(entry: LivePatch | ProbeEntry): number {
    const at = this.entries.indexOf(entry);
    return at < 0 ? this.entries.push(entry) - 1 : at;
  }

  private stateId(text: string): number {
    let id = this.stateIds.get(text);
    if (id === undefined) {
      id = this.stateIds.size;
      this.stateIds.set(text, id);
    }
    return id;
  }

  /** What CPUs have fetched is part of a state where it is not deferred. */
  private saveCpu(index: number, deferred: DeferredFetch | null): SavedCpu {
    let state = this.machine.saveCpu(index);
    let text = `${state.pc.toString(36)} ${latin1.decode(state.state)}`;
    if (deferred !== null) state = { ...state, fetched: state.fetched && NOTHING_FETCHED };
    else if (state.fetched !== null) {
      const { lines, kept } = state.fetched;
      // Lines that are never stored to are the same whether they were fetched or not.
      text += '|';
      for (const line of this.patchedLines) {
        const old = kept.get(line);
        text += !lines.has(line) ? '-,' : old ? `${this.lines.intern(old.bytes)},` : '=,';
      }
    }
    return { state, id: this.stateId(text) };
  }

  private keyOf(cpus: readonly SavedCpu[], books: Books, deferred: DeferredFetch | null): string {
    const { threads, patchers, variables, locks, published, serves, freed, held } = books;
    let text = '';
    cpus.forEach(({ id }, index) => {
      const { status, round, marks, trapped } = threads[index]!;
      text += `${id}${status[0]!}${round}${trapped}[${marks.map((each) => each.join('+')).join('/')}];`;
      if (deferred !== null) text += `${deferred.keyOf(held[index]!)};`;
    });
    for (const { at, pending } of patchers) text += `${at}.${pending};`;
    for (const [name, value] of variables) text += `${name}=${value},`;
    for (const [name, owner] of locks) text += `${name}!${owner},`;
    text += `${published.map((each) => this.entryId(each)).join()};${serves.map((each) => this.entryId(each)).join()};`;
    text += `${freed.map(({ start }) => start.toString(36)).join()};`;
    return text + this.lines.key;
  }

  /** @param deferred  null: what CPUs have fetched is part of a state */
  save(books: Books, deferred: DeferredFetch | null): SavedWorld {
    const cpus = this.saved.map((known, index) => (this.saved[index] = known ?? this.saveCpu(index, deferred)));
    const lines = this.lines.save();
    return { key: this.keyOf(cpus, books, deferred), cpus, lines, books };
  }

  /** Makes memory and CPUs what they were. */
  load({ lines, cpus }: SavedWorld): void {
    this.loading = true;
    this.lines.load(lines);
    this.loading = false;
    this.machine.restoreCpus(cpus.map(({ state }) => state));
    cpus.forEach((each, index) => (this.saved[index] = each));
  }

  /** A CPU may have changed. */
  touch(cpu: number | 'all' | null): void {
    if (cpu === 'all') this.saved.fill(null);
    else if (cpu !== null) this.saved[cpu] = null;
  }
}
