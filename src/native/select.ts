/**
 * What of a trace is shown, as options of uftrace name it (RT-40): calls of functions with what
 * they call, without others, not deeper than so many, begun in a span of time.
 */
import { demangle } from '../demangle/index.js';
import { ElftraceError } from '../errors.js';
import { compilePattern, type Pattern } from '../sites/filter.js';
import type { NativeFunction } from './objects.js';
import type { CallListener } from './tree.js';

export interface CallSelection {
  /** Patterns of functions: only these, with what they call. None: all. */
  readonly only?: readonly string[] | undefined;
  /** Patterns of functions that are left out, with what they call. */
  readonly not?: readonly string[] | undefined;
  /** Patterns of functions that are left out themselves. */
  readonly hide?: readonly string[] | undefined;
  /** Default: `glob`. */
  readonly match?: PatternMatch | undefined;
  /** The outermost call that is shown has depth 1. */
  readonly depth?: number | undefined;
  /** Functions from which levels are counted anew; of several for one the last counts. */
  readonly depths?: readonly FunctionDepth[] | undefined;
  /** Nanoseconds since the trace's beginning, [from, to). */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** How many levels are shown of a function and of what it calls. */
export interface FunctionDepth {
  readonly pattern: string;
  readonly depth: number;
}

/** How patterns are written: with `*`, `?` and sets, or as regular expressions. */
export type PatternMatch = 'glob' | 'regex';

/** What makes a name a regular expression for uftrace; it may match anywhere in a name. */
const REGEX_LETTERS = /[.?*+\-^$|()[\]{}]/;

function expressionOf(text: string): Pick<Pattern, 'matches'> {
  if (!REGEX_LETTERS.test(text)) return { matches: (name) => name === text };
  try {
    const expression = new RegExp(text);
    return { matches: (name) => expression.test(name) };
  } catch (cause) {
    throw new ElftraceError('bad-pattern', `${text}: ${(cause as Error).message}`);
  }
}

/**
 * Whether a function's name, as its symbol is or as it was written, is one of some patterns.
 * @throws ElftraceError 'bad-pattern'
 */
export function matcherOf(texts: readonly string[], match: PatternMatch = 'glob'): (called: NativeFunction) => boolean {
  const patterns = texts.map(match === 'glob' ? compilePattern : expressionOf);
  const known: (boolean | undefined)[] = [];
  return (called) =>
    (known[called.index] ??= patterns.some(
      (each) => each.matches(called.name) || each.matches(demangle(called.name) ?? called.name),
    ));
}

/** Whether everything is shown. */
function isEverything({ only = [], not = [], hide = [], depths = [], depth, from, to }: CallSelection): boolean {
  const isOfFunctions = [only, not, hide, depths].some(({ length }) => length > 0);
  return !isOfFunctions && [depth, from, to].every((each) => each === undefined);
}

/** How many levels a trigger gives to a function; undefined: none does. */
function depthFinder(
  depths: readonly FunctionDepth[],
  match: PatternMatch | undefined,
): (called: NativeFunction) => number | undefined {
  const all = depths.map(({ pattern, depth }) => [matcherOf([pattern], match), depth] as const);
  return (called) => all.findLast(([matches]) => matches(called))?.[1];
}

/**
 * Puts a selection in front of what hears of calls: depths count from calls of `only`.
 * @throws ElftraceError 'bad-pattern'
 */
export function selector(selection: CallSelection): (listener: CallListener) => CallListener {
  if (isEverything(selection)) return (listener) => listener;
  const { only = [], not = [], hide = [], match, depth = Infinity, from = -Infinity, to = Infinity } = selection;
  const isOnly = matcherOf(only, match);
  const isNot = matcherOf(not, match);
  const isHidden = matcherOf(hide, match);
  const ownDepth = depthFinder(selection.depths ?? [], match);
  return (listener) => {
    /** Depth of the outermost call of `only`, and of one of `not`, that is open. */
    let onlyAt = only.length === 0 ? -1 : Infinity;
    let notAt = Infinity;
    /** Calls that are open: whether they are shown, and whether they count as a level. */
    const shown: boolean[] = [];
    let levels = 0;
    let open = 0;
    const counts: boolean[] = [];
    /** Levels from which depths count. */
    const bases: number[] = [];
    /** How many there are. */
    const limits: number[] = [];
    return {
      enter: (called, at, time, values) => {
        if (notAt === Infinity && isNot(called)) notAt = at;
        const isChosen = notAt === Infinity && only.length > 0 && isOnly(called);
        if (onlyAt === Infinity && isChosen) onlyAt = at;
        const own = at >= onlyAt ? ownDepth(called) : undefined;
        const base = isChosen || own !== undefined ? levels : (bases[at - 1] ?? 0);
        const limit = own ?? limits[at - 1] ?? depth;
        bases[at] = base;
        limits[at] = limit;
        const isLevel = at < notAt && at >= onlyAt && !isHidden(called);
        const isShown = isLevel && levels - base < limit && time >= from && time < to;
        if (isShown) listener.enter(called, open, time, values);
        if (isLevel) levels++;
        if (isShown) open++;
        shown[at] = isShown;
        counts[at] = isLevel;
      },
      leave: (called, at, time, isExact, values) => {
        if (at === notAt) notAt = Infinity;
        if (at === onlyAt) onlyAt = Infinity;
        if (counts[at] === true) levels--;
        if (shown[at] !== true) return;
        open--;
        listener.leave(called, open, time, isExact, values);
      },
      executed: (session) => listener.executed?.(session),
    };
  };
}
