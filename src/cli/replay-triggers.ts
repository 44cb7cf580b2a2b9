/**
 * Triggers of `replay`, in the words of uftrace: what is done where a function is shown.
 * `backtrace` and `color` are about lines alone; the others are options for single functions.
 */
import { ElftraceError } from '../errors.js';
import type { LineMarks } from '../native/replay.js';
import { refused } from '../native/refuse.js';
import { type FunctionDepth, matcherOf, type PatternMatch } from '../native/select.js';
import { paint } from './terminal.js';
import { levels, triggerParts } from './trace-selection.js';

const COLOURS = ['red', 'green', 'blue', 'yellow', 'magenta', 'cyan', 'bold', 'gray'] as const;
type Colour = (typeof COLOURS)[number];

/** What triggers ask for, by what they do. */
export interface ReplayTriggers {
  readonly filter: readonly string[];
  readonly notrace: readonly string[];
  readonly hide: readonly string[];
  readonly depths: readonly FunctionDepth[];
  readonly backtrace: readonly string[];
  readonly colours: readonly { readonly pattern: string; readonly colour: Colour }[];
}

const LISTS = ['filter', 'notrace', 'hide', 'backtrace'] as const;
/** Triggers that are for the program that runs. */
const OF_RECORD = /^(?:time=|size=|trace$|trace[_-]?on$|trace[_-]?off$|finish$|recover$|read=|(?:fp)?arg\d|retval)/;

/** @throws ElftraceError 'usage'; 'unsupported-form' with reason `trigger` */
export function replayTriggers(texts: readonly string[]): ReplayTriggers {
  const found = {
    filter: [] as string[],
    notrace: [] as string[],
    hide: [] as string[],
    backtrace: [] as string[],
    depths: [] as FunctionDepth[],
    colours: [] as { pattern: string; colour: Colour }[],
  };
  for (const text of texts.flatMap((each) => each.split(';')).filter((each) => each !== '')) {
    const { pattern, actions } = triggerParts(text);
    for (const { word, name, value } of actions) {
      const list = LISTS.find((each) => each === word);
      const colour = COLOURS.find((each) => each === value);
      if (list !== undefined) found[list].push(pattern);
      else if (name === 'depth' && value !== undefined) {
        found.depths.push({ pattern, depth: levels(value, '-T depth') });
      } else if (name === 'color' && colour !== undefined) found.colours.push({ pattern, colour });
      else if (name === 'color') throw new ElftraceError('usage', `-T ${word}: colours are ${COLOURS.join(', ')}`);
      else if (OF_RECORD.test(word)) {
        throw refused('trigger', `-T ${word}: it is about what is recorded: record -T takes it, or says why not`);
      } else {
        const known = 'backtrace, color=C, depth=N, filter, notrace, hide';
        throw new ElftraceError('usage', `-T ${word}: actions are ${known}`);
      }
    }
  }
  return found;
}

/** What lines of replay are marked with. @throws ElftraceError 'bad-pattern' */
export function marksOf({ backtrace, colours }: ReplayTriggers, match: PatternMatch): LineMarks {
  const rows = colours.map(({ pattern, colour }) => [matcherOf([pattern], match), colour] as const);
  return {
    hasCallers: backtrace.length === 0 ? null : matcherOf(backtrace, match),
    nameOf: (called) => {
      const colour = rows.findLast(([matches]) => matches(called))?.[1];
      return colour === undefined ? called.name : paint(colour, called.name);
    },
    aside: (text) => paint('gray', text),
  };
}
