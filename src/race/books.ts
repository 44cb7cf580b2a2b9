/**
 * Everything of a race's state but memory and registers: where threads and patchers are, locks,
 * variables, breakpoints that are served, memory that is freed. Books are never changed: an event
 * makes new ones.
 */
import type { LivePatch } from '../machine/live-patching.js';
import type { Address } from '../units.js';
import type { Actor } from './actors.js';
import type { HeldLines } from './deferred-fetch.js';
import type { ProbeEntry, RaceStep, Sequence } from './model.js';

export type Status = 'ready' | 'running' | 'trapped' | 'done';

export interface ThreadState {
  readonly status: Status;
  readonly round: number;
  /** Of each call, the last one may not be over. */
  readonly marks: readonly (readonly string[])[];
  /** What trapped, as it was fetched; empty while nothing has. */
  readonly trapped: string;
}

export interface PatcherState {
  readonly at: number;
  /** Threads that the wait that comes next still waits for, as bits. */
  readonly pending: number;
}

/** Everything but memory and registers. */
export interface Books {
  readonly threads: readonly ThreadState[];
  readonly patchers: readonly PatcherState[];
  readonly variables: ReadonlyMap<string, bigint>;
  readonly locks: ReadonlyMap<string, number>;
  readonly published: readonly LivePatch[];
  readonly serves: readonly ProbeEntry[];
  readonly freed: readonly { readonly start: Address; readonly end: Address; readonly what: string }[];
  /** What the CPU of each thread may hold of the patched lines, where fetching is deferred. */
  readonly held: readonly HeldLines[];
  /** Stores to patched lines so far, where fetching is deferred. */
  readonly stores: number;
}

export const startBooks = (threads: number, sequence: Sequence): Books => ({
  threads: Array.from({ length: threads }, () => ({ status: 'ready', round: 0, marks: [[]], trapped: '' })),
  patchers: sequence.patchers.map(() => ({ at: 0, pending: 0 })),
  variables: new Map(Object.entries(sequence.variables ?? {})),
  locks: new Map(),
  published: sequence.published ?? [],
  serves: sequence.serves ?? [],
  freed: [],
  held: [],
  stores: 0,
});

export const variableIn = ({ variables }: Pick<Books, 'variables'>, name: string): bigint => variables.get(name) ?? 0n;

const anyTrapped = ({ threads }: Pick<Books, 'threads'>): boolean => threads.some(({ status }) => status === 'trapped');

/** The step's condition is met: it does something. */
export const applies = ({ when }: RaceStep, books: Pick<Books, 'variables'>): boolean =>
  when === undefined || variableIn(books, when.variable) === when.equals;

/** A thread or a patcher has something to do, and nothing that it waits for. */
export function canAct(books: Books, { patchers }: Sequence, { kind, index }: Actor): boolean {
  const { threads } = books;
  if (kind === 'thread') return threads[index]!.status !== 'done';
  const { at, pending } = books.patchers[index]!;
  const step = patchers[index]!.steps[at];
  if (step === undefined) return false;
  if (!applies(step, books)) return true;
  if (step.stopped === true && threads.some(({ status }) => status === 'running' || status === 'trapped')) return false;
  switch (step.kind) {
    case 'lock':
      return !books.locks.has(step.lock);
    case 'wait':
      return step.until === 'outside' ? pending === 0 : !anyTrapped(books);
    case 'synchronise':
      return step.thread === 'all' ? !anyTrapped(books) : threads[step.thread]!.status !== 'trapped';
    default:
      return true;
  }
}

/** What a step of a patcher changes beside memory. */
export function booksBehind(books: Books, step: RaceStep, patcher: number): Partial<Books> {
  switch (step.kind) {
    case 'store':
    case 'synchronise':
    case 'wait':
    case 'serve':
      return {};
    case 'free': {
      const { address, size, what } = step;
      return { freed: [...books.freed, { start: address, end: address + BigInt(size), what }] };
    }
    case 'take': {
      const end = step.address + BigInt(step.size);
      return { freed: books.freed.filter((each) => each.end <= step.address || end <= each.start) };
    }
    case 'publish': {
      const others = books.published.filter(({ address }) => !step.entries.some((each) => each.address === address));
      return { published: [...others, ...step.entries].sort((x, y) => (x.address < y.address ? -1 : 1)) };
    }
    case 'retract':
      return { published: books.published.filter((each) => !step.entries.includes(each)) };
    case 'lock':
      return { locks: new Map(books.locks).set(step.lock, patcher) };
    case 'unlock': {
      const locks = new Map(books.locks);
      locks.delete(step.lock);
      return { locks };
    }
    case 'set': {
      const value = typeof step.to === 'bigint' ? step.to : variableIn(books, step.to.variable);
      return { variables: new Map(books.variables).set(step.variable, value) };
    }
    default:
      return step satisfies never;
  }
}
