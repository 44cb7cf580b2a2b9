/**
 * Verbs and their options without yargs, which takes a tenth of the time of a small file to load
 * and to run. Builders tell these classes what they tell a parser of yargs; that is enough for
 * words that ask nothing. Help texts, completion and the words for what is wrong are yargs'.
 */
import type { ArgumentsCamelCase, Argv } from 'yargs';

/** What the rows of our verbs say of an option, of what yargs takes. */
export interface OptionRow {
  readonly type?: 'string' | 'number' | 'boolean';
  readonly alias?: string;
  readonly array?: boolean;
  readonly default?: unknown;
  readonly choices?: readonly string[];
  coerce?(value: never): unknown;
  readonly demandOption?: boolean;
  readonly hidden?: boolean;
  readonly describe?: string;
  readonly group?: string;
}

type Rows = Readonly<Record<string, OptionRow>>;

/** Stands where a builder expects a parser of yargs. */
export class DeclaredOptions {
  readonly rows = new Map<string, OptionRow>();
  readonly positionals = new Map<string, OptionRow>();

  /** @param builder  which declares its options */
  static of(builder: (parser: Argv) => unknown, everywhere: Rows): DeclaredOptions {
    const declared = new DeclaredOptions().options(everywhere);
    builder(declared as unknown as Argv);
    return declared;
  }

  option(name: string | Rows, row?: OptionRow): this {
    if (typeof name === 'string') this.rows.set(name, row ?? {});
    else for (const [each, of] of Object.entries(name)) this.rows.set(each, of);
    return this;
  }

  options(rows: Rows): this {
    return this.option(rows);
  }

  positional(name: string, row: OptionRow): this {
    this.positionals.set(name, row);
    return this;
  }

  /** An option that help texts ask for. */
  showHidden(name: string, describe: string): this {
    return this.option(name, { type: 'boolean', describe });
  }

  example(_command?: string, _text?: string): this {
    return this;
  }

  parserConfiguration(): this {
    return this;
  }
}

/** A word of a verb: `<path>`, `[files..]`. */
export interface VerbWord {
  readonly name: string;
  readonly demanded: boolean;
  readonly variadic: boolean;
}

export type Arguments = Readonly<Record<string, unknown>>;

/** What a verb does: its arguments, and those of the program that it runs; gives the exit code. */
type Action<T> = (args: ArgumentsCamelCase<T>, guest: readonly string[]) => number | Promise<number>;

export interface Verb {
  /** As it was declared: `patch [path]`. */
  readonly usage: string;
  /** Other names. */
  readonly aliases: readonly string[];
  readonly text: string;
  readonly words: readonly VerbWord[];
  readonly builder: (parser: Argv) => Argv;
  readonly action: Action<Arguments>;
}

/** All verbs, by name. */
export class DeclaredVerbs {
  readonly all = new Map<string, Verb>();

  /** @param names  its first one with the words that it takes, then others that it has */
  command<T>(
    names: string | readonly [string, ...string[]],
    text: string,
    builder: (parser: Argv) => Argv<T>,
    action: Action<T>,
  ): this {
    const [usage, ...aliases] = typeof names === 'string' ? [names] : names;
    const [name, ...words] = usage.split(' ') as [string, ...string[]];
    const wordOf = (word: string): VerbWord => ({
      name: word.slice(1, -1).replace(/\.\.$/, ''),
      demanded: word.startsWith('<'),
      variadic: word.slice(1, -1).endsWith('..'),
    });
    const untyped = { builder: builder as Verb['builder'], action: action as unknown as Verb['action'] };
    this.all.set(name, { usage, aliases, text, words: words.map(wordOf), ...untyped });
    return this;
  }

  with(others: DeclaredVerbs): this {
    for (const [name, verb] of others.all) this.all.set(name, verb);
    return this;
  }

  /** Names that are known. */
  names(): string[] {
    return [...this.all].flatMap(([name, { aliases }]) => [name, ...aliases]);
  }

  find(name: string): Verb | undefined {
    return this.all.get(name) ?? [...this.all.values()].find(({ aliases }) => aliases.includes(name));
  }
}

/** `in-place` is `inPlace`, too. */
const camelCase = (name: string): string => name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

/** The value of one option or word as its row says; undefined: yargs must look at it. */
function valueOf({ type, choices }: OptionRow, text: string): unknown {
  // yargs takes quotes off that the shell has left.
  if (/^['"]/.test(text)) return undefined;
  if (type === 'number') return Number(text);
  if (type === 'boolean') return undefined;
  // A word without a type may be a number to yargs.
  return type === 'string' || choices !== undefined ? text : undefined;
}

/** Sets values under all names that an option has. */
class Collected {
  readonly args: Record<string, unknown> = {};

  set(name: string, { alias }: OptionRow, value: unknown): void {
    for (const each of alias === undefined ? [name] : [name, alias]) {
      this.args[each] = value;
      this.args[camelCase(each)] = value;
    }
  }

  add(name: string, row: OptionRow, value: unknown): void {
    if (row.array !== true) this.set(name, row, value);
    else this.set(name, row, [...((this.args[name] as unknown[] | undefined) ?? []), value]);
  }
}

/**
 * What a verb gets for its words, as yargs gives it; null where yargs must be asked: for help, for
 * what is wrong.
 * @param own  as `readWords` leaves them: words of the verb, then options
 */
export function argumentsOf(
  name: string,
  { words }: Verb,
  { rows, positionals }: DeclaredOptions,
  own: readonly string[],
): Arguments | null {
  const collected = new Collected();
  const byName = new Map(
    [...rows].flatMap(([key, row]) => [key, row.alias ?? key].map((each) => [each, key] as const)),
  );
  let at = 0;
  for (const word of own) {
    if (!word.startsWith('--')) {
      const place = words[Math.min(at++, words.length - 1)];
      const row = place && positionals.get(place.name);
      const value = row?.type === 'string' ? word : undefined;
      if (value === undefined) return null;
      collected.add(place!.name, row!, value);
      continue;
    }
    const [, option, text] = /^--([^=]+)(?:=([^]*))?$/.exec(word)!;
    const isNegated = text === undefined && !byName.has(option!) && option!.startsWith('no-');
    const key = byName.get(isNegated ? option!.slice(3) : option!);
    const row = key === undefined ? undefined : rows.get(key);
    const value = row && (text === undefined ? (row.type === 'boolean' ? !isNegated : undefined) : valueOf(row, text));
    if (value === undefined) return null;
    collected.add(key!, row!, value);
  }
  return withDefaults(name, collected, [...positionals, ...rows]);
}

/** Values that were not given, and what options make of theirs. */
function withDefaults(
  name: string,
  collected: Collected,
  rows: readonly (readonly [string, OptionRow])[],
): Arguments | null {
  for (const [key, row] of rows) {
    if (collected.args[key] === undefined && 'default' in row) collected.set(key, row, row.default);
    const value = collected.args[key];
    if (value === undefined && row.demandOption === true) return null;
    if (value !== undefined && row.coerce !== undefined) collected.set(key, row, row.coerce(value as never));
  }
  return { ...collected.args, _: [name], $0: 'elftrace' };
}
