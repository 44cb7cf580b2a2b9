/**
 * The words of a command line, before yargs sees them: whose they are, and whether they are known.
 * yargs guesses where options have values; here every option is written `--name=value`, behind all
 * other words.
 */
import { parseArgs } from 'node:util';
import { ElftraceError } from '../errors.js';
import { didYouMean } from './nearest.js';
import { STANDARD_INPUT } from './standard-input.js';

/** What a verb takes. Names are long ones, or single letters that stand for one. */
export interface Grammar {
  readonly flags: ReadonlySet<string>;
  readonly values: ReadonlySet<string>;
  /** Options whose value may be left out. */
  readonly optional: ReadonlySet<string>;
  /** Options that may be given several times. */
  readonly lists: ReadonlySet<string>;
  readonly numbers: ReadonlySet<string>;
  readonly choices: ReadonlyMap<string, readonly string[]>;
  /** Long name of a letter or of another name; itself where there is none. */
  readonly longName: (name: string) => string;
  /** Names that users need not know: they are never proposed. */
  readonly hidden: ReadonlySet<string>;
  /** Positional words: `path`, `files`. */
  readonly needed: readonly string[];
  /** How many words there may be; null: any number. */
  readonly atMost: number | null;
  /** The first word is a program, and the words behind it are that program's. */
  readonly runsProgram: boolean;
}

export interface Words {
  /** For yargs, without the verb. */
  readonly own: readonly string[];
  /** The program's, as they were given. */
  readonly guest: readonly string[];
  /** Options of ours among the guest's words. */
  readonly mistakable: readonly string[];
  readonly help: boolean;
}

const usage = (message: string, value?: string): ElftraceError =>
  new ElftraceError('usage', message, value === undefined ? {} : { value });

/** An option as it was written: one dash before a letter, two before a name. */
const written = (name: string): string => (name.length === 1 ? `-${name}` : `--${name}`);

function unknown(name: string, grammar: Grammar): ElftraceError {
  const known = [...grammar.flags, ...grammar.values].filter((each) => each.length > 1 && !grammar.hidden.has(each));
  const plain = name.replace(/^no-/, '');
  const hint = didYouMean(name, known, '--') || (plain === name ? '' : didYouMean(plain, known, '--'));
  return usage(`unknown option ${written(name)}${hint}`, name);
}

/** `--name`, `--no-name`, `--name=true`. */
function flagWord(name: string, value: string | undefined, grammar: Grammar): readonly [name: string, is: boolean] {
  const positive = name.startsWith('no-') && !grammar.flags.has(name) ? name.slice(3) : name;
  const long = grammar.longName(positive);
  if (value === undefined) return [long, positive === name];
  if (positive !== name || (value !== 'true' && value !== 'false'))
    throw usage(`${written(name)} takes no value`, value);
  return [long, value === 'true'];
}

function checkValue(name: string, value: string, grammar: Grammar): void {
  if (value === '' && grammar.optional.has(name)) return;
  if (value === '') throw usage(`${written(name)} needs a value`);
  const long = grammar.longName(name);
  if (grammar.numbers.has(long) && (value.trim() === '' || !Number.isFinite(Number(value)))) {
    throw usage(`${written(name)} takes a number, not '${value}'`, value);
  }
  const choices = grammar.choices.get(long);
  if (choices !== undefined && !choices.includes(value)) {
    throw usage(`${written(name)} ${value}: one of ${choices.join(', ')}${didYouMean(value, choices)}`, value);
  }
}

/**
 * An option that may stand alone, and does, has the empty value; otherwise the next word would be
 * its value.
 */
function withEmptyValues(words: readonly string[], { optional }: Grammar): string[] {
  return words.map((word, i) => {
    const isAlone = i + 1 === words.length || /^-./.test(words[i + 1]!);
    return isAlone && word.startsWith('--') && optional.has(word.slice(2)) ? `${word}=` : word;
  });
}

/** Options and other words. Node's parser is loaded for options: it looks at each row of ours. */
function wordTokens(words: readonly string[], grammar: Grammar) {
  if (!words.some((word) => word.startsWith('-'))) {
    return words.map((value, index) => ({ kind: 'positional' as const, index, value }));
  }
  const options = Object.fromEntries(
    [...grammar.flags, ...grammar.values].map((name) => {
      const type = grammar.values.has(name) ? ('string' as const) : ('boolean' as const);
      // Letters are looked up among the short names only.
      return [name, { type, ...(name.length === 1 ? { short: name } : {}) }];
    }),
  );
  const args = withEmptyValues(words, grammar);
  return parseArgs({ args, options, strict: false, allowPositionals: true, tokens: true }).tokens;
}

/** The words of a verb as options and others, up to the program of verbs that run one. */
function tokensOf(words: readonly string[], grammar: Grammar) {
  const tokens = wordTokens(words, grammar);
  const program = grammar.runsProgram ? tokens.find(({ kind }) => kind === 'positional')?.index : undefined;
  const end = program === undefined ? words.length : program + 1;
  return { tokens: tokens.filter(({ index }) => index < end), end };
}

/** Which of our options the program gets, because they stand behind it. */
function mistakableOf(guest: readonly string[], { flags, values }: Grammar): string[] {
  return guest.filter((word) => {
    const name = /^--([^=]+)/.exec(word)?.[1];
    return name !== undefined && !['help', 'version', 'json'].includes(name) && (flags.has(name) || values.has(name));
  });
}

/** @throws ElftraceError 'usage' */
export function readWords(verb: string, words: readonly string[], grammar: Grammar): Words {
  const { tokens, end } = tokensOf(words, grammar);
  const own: string[] = [];
  const others: string[] = [];
  const flags = new Map<string, boolean>();
  const seen = new Set<string>();
  let closed = false;
  for (const token of tokens) {
    if (token.kind === 'option-terminator') closed = true;
    else if (token.kind === 'positional') others.push(token.value);
    else if (grammar.values.has(token.name)) {
      const { name, rawName } = token;
      // `-o=FILE` is no FILE that begins with `=`.
      const value = rawName.startsWith('--') ? token.value : token.value?.replace(/^=/, '');
      if (value === undefined || (token.inlineValue === false && /^-./.test(value))) {
        throw usage(
          `${rawName} needs a value${value === undefined ? '' : `: write ${rawName}=${value} if that is it`}`,
        );
      }
      checkValue(name, value, grammar);
      const long = grammar.longName(name);
      if (seen.has(long) && !grammar.lists.has(long)) throw usage(`${rawName} is given twice`, value);
      seen.add(long);
      own.push(`--${long}=${value}`);
    } else {
      const positive = token.name.startsWith('no-') ? token.name.slice(3) : token.name;
      if (!grammar.flags.has(token.name) && !grammar.flags.has(positive)) throw unknown(token.name, grammar);
      const [long, is] = flagWord(token.name, token.value, grammar);
      if (flags.get(long) === !is) throw usage(`--${long} and --no-${long} contradict each other`);
      flags.set(long, is);
    }
  }
  const help = flags.get('help') === true;
  for (const [name, is] of flags) if (name !== 'help') own.push(is ? `--${name}` : `--no-${name}`);
  if (!help && flags.get('version') !== true) checkOthers(verb, others, grammar);
  const guest = words.slice(end);
  return {
    own: [...others.map(fileWord), ...own],
    guest,
    mistakable: closed ? [] : mistakableOf(guest, grammar),
    help,
  };
}

/** yargs takes words that begin with a dash for options, and has no `-`. */
function fileWord(word: string): string {
  if (word === '-') return STANDARD_INPUT;
  return word.startsWith('-') ? `./${word}` : word;
}

function checkOthers(verb: string, others: readonly string[], { needed, atMost }: Grammar): void {
  const missing = needed[others.length];
  if (missing !== undefined) throw usage(`${verb} needs ${needed.map((each) => each.toUpperCase()).join(' ')}`);
  if (atMost !== null && others.length > atMost) {
    throw usage(`${verb}: '${others[atMost]!}' is one word too many`, others[atMost]);
  }
}
