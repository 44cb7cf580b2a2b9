/** What a verb takes, read from what it declares: `words.ts` needs it before anything is parsed. */
import type { DeclaredOptions, VerbWord } from './declared.js';
import type { Grammar } from './words.js';

/**
 * Options whose value may be left out: `race --demo` is all of them. yargs has no word for that.
 */
const OPTIONAL_VALUES: ReadonlySet<string> = new Set(['demo']);

/** Names that users need not know. */
const HIDDEN: ReadonlySet<string> = new Set(['empty-slots']);

export function grammarOf({ rows, positionals }: DeclaredOptions, words: readonly VerbWord[]): Grammar {
  const long = new Map<string, string>([['h', 'help']]);
  const flags = new Set(['h', 'help', 'version']);
  const values = new Set<string>();
  for (const [name, { alias, type }] of rows) {
    const names = alias === undefined ? [name] : [name, alias];
    for (const each of names) {
      (type === 'boolean' ? flags : values).add(each);
      if (each.length === 1) long.set(each, names.find((other) => other.length > 1) ?? each);
    }
  }
  const longName = (name: string): string => long.get(name) ?? name;
  const all = [...rows].map(([name, row]) => [longName(name), row] as const);
  return {
    flags,
    values,
    optional: OPTIONAL_VALUES,
    lists: new Set(all.filter(([, { array }]) => array === true).map(([name]) => name)),
    numbers: new Set(all.filter(([, { type }]) => type === 'number').map(([name]) => name)),
    choices: new Map(all.flatMap(([name, { choices }]) => (choices === undefined ? [] : [[name, choices] as const]))),
    longName,
    hidden: HIDDEN,
    needed: words.filter(({ demanded }) => demanded).map(({ name }) => name),
    atMost: words.some(({ variadic }) => variadic) ? null : words.length,
    runsProgram: positionals.has('arguments'),
  };
}
