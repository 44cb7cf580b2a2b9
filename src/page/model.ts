/**
 * What a page holds: the head of its block (`columns.ts`) and the meaning of its columns. Types and
 * names only; made by `sites.ts`, `trace.ts`, `diff.ts` and `races.ts`, read by `client/`.
 *
 * Every text is a position in `strings`, of which the first is empty. Addresses are two columns of
 * 32 bits, since no number of JavaScript holds one.
 */

/** A hop of the way of a site, behind the site itself. */
export interface PageHop {
  readonly kind: 'restore' | 'stub' | 'slot' | 'target' | 'tracer';
  /** Hexadecimal; '' for what stands behind each site itself. */
  readonly address: string;
  readonly name: string;
  readonly part: string;
  readonly note: string;
  /** `BYTES\tTEXT` a line. */
  readonly code: string;
}

export interface PageWay {
  /** What the branch of the site does. */
  readonly note: string;
  readonly hops: readonly PageHop[];
}

/** A run of addresses, or a section of a file without addresses. */
export interface PageRange {
  readonly name: string;
  readonly part: string;
  /** Hexadecimal. */
  readonly start: string;
  readonly end: string;
  readonly sites: number;
}

/** Calls of the sites of one range that lead to one address. */
export interface PageArc {
  /** Position in `ranges`. */
  readonly from: number;
  /** Hexadecimal. */
  readonly to: string;
  readonly name: string;
  readonly count: number;
}

export interface PageFile {
  readonly name: string;
  readonly target: string;
  readonly relocatable: boolean;
  readonly ranges: readonly PageRange[];
  readonly arcs: readonly PageArc[];
  /** How far branches and stubs of the machine lead; decimal, in bytes. */
  readonly reaches: readonly { readonly name: string; readonly min: string; readonly max: string }[];
  readonly sites: number;
  readonly verdicts: Readonly<Record<string, number>>;
  readonly remarks: readonly string[];
  /** Why the verdicts say little or nothing; '' where they say what they say. */
  readonly incomplete: string;
}

export interface PageVerdict {
  readonly name: string;
  readonly severity: string;
  readonly meaning: string;
}

/** Rows of sites; columns `site.…`. */
export const siteColumns = [
  'site.file',
  'site.function',
  'site.offset',
  'site.section',
  'site.low',
  'site.high',
  'site.verdict',
  'site.state',
  'site.shape',
  'site.message',
  'site.rule',
  'site.expected',
  'site.actual',
  'site.before',
  'site.now',
  'site.nop',
  'site.refusal',
  'site.way',
  'site.slot',
] as const;

export interface PageTrace {
  readonly file: string;
  readonly image: string;
  readonly clock: string;
  readonly source: string;
  readonly nested: boolean;
  /** What is not there: lost by the program, or left out of the page. */
  readonly notices: readonly string[];
  readonly events: number;
  readonly start: number;
  readonly end: number;
  readonly cpus: readonly number[];
  /** Of functions: name, calls, own time, time with callees. */
  readonly functions: readonly (readonly [name: number, calls: number, self: number, total: number])[];
}

/** Slices of the timeline, columns `slice.…`: parallel, by start. */
export type SliceColumn = 'slice.function' | 'slice.cpu' | 'slice.depth' | 'slice.start' | 'slice.length';
/** Nodes of the flame graph, columns `flame.…`: parents in front of their callees. */
export type FlameColumn = 'flame.function' | 'flame.parent' | 'flame.self' | 'flame.total' | 'flame.calls';

export interface PageProof {
  readonly file: string;
  /** The image that it is about, as the proof names it. */
  readonly image: string;
  readonly summary: string;
  /** What the proof leaves open. */
  readonly notices: readonly string[];
}

/** Columns of sites, parallel to `site.…`; 0: the proof does not list the site. */
export type ProofColumn = 'proof.verdict' | 'proof.why' | 'proof.account';

export interface PageDiff {
  readonly old: string;
  readonly new: string;
  readonly summary: string;
  readonly notices: readonly string[];
}

/** Rows of differences; columns `diff.…`. */
export type DiffColumn = 'diff.change' | 'diff.function' | 'diff.file' | 'diff.before' | 'diff.after' | 'diff.reason';

export interface PageRaceEvent {
  /** Position in `actors`. */
  readonly actor: number;
  readonly kind: 'instruction' | 'handler' | 'step' | 'fetch';
  readonly place: string;
  readonly text: string;
  /** What else is to be said: stores, that it was fetched before it was changed, that it traps. */
  readonly more: readonly string[];
  readonly registers: readonly (readonly [name: string, before: string, after: string])[];
  /** The patched bytes after it. */
  readonly watched: string;
}

/** A schedule that goes wrong. */
export interface PageSchedule {
  readonly shortest: boolean;
  readonly watch: string;
  /** The patched bytes before the first event. */
  readonly before: string;
  readonly actors: readonly { readonly name: string; readonly kind: 'thread' | 'patcher' | 'prefetch' }[];
  readonly events: readonly PageRaceEvent[];
}

export interface PageRace {
  readonly title: string;
  readonly verdict: 'holds' | 'violated' | 'undecided';
  /** The rule that is violated and how; '' where none is. */
  readonly violation: string;
  readonly facts: readonly (readonly [name: string, value: string])[];
  readonly outcomes: readonly (readonly [outcome: string, schedules: string])[];
  readonly patchers: readonly { readonly name: string; readonly steps: readonly string[] }[];
  readonly schedule: PageSchedule | null;
}

export interface PageHead {
  readonly title: string;
  readonly version: string;
  readonly files: readonly PageFile[];
  readonly verdicts: readonly PageVerdict[];
  readonly strings: readonly string[];
  /** Symbol and demangled name, positions in `strings`, one pair after the other. */
  readonly demangled: readonly number[];
  readonly ways: readonly PageWay[];
  readonly trace: PageTrace | null;
  readonly diff: PageDiff | null;
  readonly proof: PageProof | null;
  readonly races: readonly PageRace[];
}
