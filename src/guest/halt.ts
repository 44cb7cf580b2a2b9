/**
 * Processes that are stopped (SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU) and go on (SIGCONT): what a
 * process keeps of it, what its parent has not been told of yet, and who could let it go on.
 *
 * Source: Linux, signal(7), wait(2), setpgid(2); POSIX, "Orphaned Process Group".
 */

/** Signals that stop a process unless it catches or ignores them. */
const STOPPING: ReadonlySet<number> = new Set([19, 20, 21, 22]);
export const SIGCONT = 18;
export const SIGSTOP = 19;

export const stopsProcesses = (signal: number): boolean => STOPPING.has(signal);

/** How a process has ended. */
export type Ending =
  { readonly kind: 'exit'; readonly code: number } | { readonly kind: 'signal'; readonly signal: number };

/** That a process has stopped, or goes on. */
export type HaltNews = { readonly kind: 'stopped'; readonly signal: number } | { readonly kind: 'continued' };

/** What a parent learns of a child. */
export type ChildChange = Ending | HaltNews;

/** What tells whose child a process is, and which one. */
export interface Relative {
  readonly id: number;
  readonly parent: number;
  readonly group: number;
}

/** A process of a group and a session. */
type Member = Relative & { readonly session: number };

/** What a process keeps of having been stopped. */
export interface Halt {
  /** The signal that has stopped it; null: it is not stopped. */
  signal: number | null;
  /** What no one who waits for it has been told. */
  news: HaltNews | null;
}

/**
 * No parent of a group's process is in another group of the same session, so that no one could let
 * it go on: signals of terminals do not stop its processes. Parents of which nothing is known do
 * not count.
 */
export function isOrphaned({ group, session }: Member, all: readonly Member[]): boolean {
  const parents = all.filter((each) => each.group === group).map((each) => all.find(({ id }) => id === each.parent));
  return parents.every((parent) => parent === undefined || parent.group === group || parent.session !== session);
}
