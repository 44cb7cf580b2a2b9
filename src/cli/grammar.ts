/** What a verb takes, read from its yargs builder: `words.ts` needs it before yargs sees a word. */
import type { Argv } from 'yargs';
import type { Grammar } from './words.js';

/** What yargs knows of a command. Not in its types; its version is pinned. */
export interface CommandHandler {
  readonly builder: (parser: Argv, helpOrVersion: boolean) => unknown;
  readonly demanded: readonly { readonly cmd: readonly string[]; readonly variadic: boolean }[];
  readonly optional: readonly { readonly cmd: readonly string[]; readonly variadic: boolean }[];
}

/** What yargs keeps to itself. */
export interface Internals {
  readonly getInternalMethods: () => {
    readonly getUsageInstance: () => { cacheHelpMessage: () => void };
    readonly getCommandInstance: () => {
      readonly handlers: Readonly<Record<string, CommandHandler>>;
      readonly aliasMap: Readonly<Record<string, string>>;
    };
  };
}

interface Options {
  readonly boolean: readonly string[];
  readonly string: readonly string[];
  readonly number: readonly string[];
  readonly array: readonly string[];
  readonly hiddenOptions: readonly string[];
  readonly key: Readonly<Record<string, unknown>>;
  readonly alias: Readonly<Record<string, readonly string[]>>;
  readonly choices: Readonly<Record<string, readonly string[]>>;
}

/**
 * Options whose value may be left out: `race --demo` is all of them. yargs has no word for that.
 */
const OPTIONAL_VALUES: ReadonlySet<string> = new Set(['demo']);

/** @param empty  a parser without options, which the builder gives its own */
export function grammarOf({ builder, demanded, optional }: CommandHandler, empty: Argv): Grammar {
  const built = empty.alias('h', 'help').version('') as Argv;
  builder(built, false);
  const options = (built as unknown as { getOptions: () => Options }).getOptions();
  const positional = new Set([...demanded, ...optional].flatMap(({ cmd }) => cmd));
  const long = new Map<string, string>([['h', 'help']]);
  for (const [name, others] of Object.entries(options.alias)) {
    for (const each of [name, ...others].filter((each) => each.length === 1)) {
      long.set(each, [name, ...others].find((other) => other.length > 1) ?? each);
    }
  }
  const flags = new Set(['h', 'help', 'version', ...options.boolean].filter((name) => !positional.has(name)));
  const names = [...Object.keys(options.key), ...long.keys(), ...long.values()];
  const values = new Set(names.filter((name) => !flags.has(name) && !positional.has(name)));
  const longName = (name: string): string => long.get(name) ?? name;
  const all = [...demanded, ...optional];
  return {
    flags,
    values,
    optional: OPTIONAL_VALUES,
    lists: new Set(options.array.map(longName)),
    numbers: new Set(options.number),
    choices: new Map(Object.entries(options.choices)),
    longName,
    hidden: new Set([...options.hiddenOptions.filter((name) => name === 'empty-slots')]),
    needed: demanded.map(({ cmd }) => cmd[0]!),
    atMost: all.some(({ variadic }) => variadic) ? null : all.length,
    runsProgram: positional.has('arguments'),
  };
}
