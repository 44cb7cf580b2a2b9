/**
 * The command line: reads the words, begins the verb, and maps errors. Each verb is a file of its
 * own, loaded when it is named.
 */
import { ElftraceError } from '../errors.js';
import { forgetInputs } from '../output/inputs.js';
import { loadedMachines } from '../targets.js';
import { nameBundle } from './cache.js';
import { withUsualEngine } from './compile-late.js';
import { type Arguments, argumentsOf, DeclaredOptions, DeclaredVerbs, type Verb } from './declared.js';
import { errorLine, exitCodeOf, exitCodes } from './exit.js';
import { wordsAsGiven } from './given-words.js';
import { grammarOf } from './grammar.js';
import { beginLimits, limitOptions } from './limits.js';
import { didYouMean } from './nearest.js';
import { startProgress } from './progress.js';
import { err, flush, freeStandardOutput, out, showNames } from './terminal.js';
import { fileVerbs } from './verbs.js';
import { runVerbs } from './verbs-run.js';
import { readWords } from './words.js';

let exit: number = exitCodes.ok;
/** Set by the verb that was named, run after parsing: yargs knows no handlers that take time. */
let action: () => number | Promise<number> = () => exitCodes.ok;
/** The file that a verb works on: errors that do not name one are about it. */
let subject = '';

/** `help VERB` is `VERB --help`; `help` alone is about all verbs. */
function verbAndWords([first, ...rest]: readonly string[]): readonly [
  verb: string | undefined,
  words: readonly string[],
] {
  if (first !== 'help') return [first, rest];
  return rest[0] === undefined ? ['--help', []] : [rest[0], ['--help']];
}

/** JSON keeps symbols, and so do formats for machines, which may quote names in their own way. */
const isText = (args: Arguments): boolean =>
  args['json'] !== true && (args['format'] === undefined || args['format'] === 'text');

const given = wordsAsGiven(process.argv.slice(2));
const [verb, words] = verbAndWords(given);
/** Options of all verbs; the help texts of those that have many options do without them. */
const everywhere = {
  ...limitOptions(['file', 'unpacked', 'ratio', 'time'], verb === 'patch' || verb === 'plan'),
  demangle: {
    type: 'boolean' as const,
    default: true,
    hidden: ['patch', 'plan', 'run', 'race'].includes(verb ?? ''),
    describe: 'names of C++ and Rust as they were written, in text; --no-demangle: symbols',
  },
};
/** Arguments of the program that `run`, `record` and `cost` execute. */
let forProgram: readonly string[] = [];

const verbs = new DeclaredVerbs().with(fileVerbs).with(runVerbs);

function act({ action: ofVerb }: Verb, args: Arguments): void {
  action = () => ofVerb({ ...args, _: args['_'] as string[], $0: 'elftrace' }, forProgram);
}

/** What all verbs begin with. */
function begin(args: Arguments): void {
  beginLimits(args);
  showNames(args['demangle'] !== false && isText(args));
  const named = args['path'] ?? args['patched'];
  if (typeof named === 'string') subject = named;
}

/** Lets yargs read the words: it prints, or begins the verb as `begin` and the handlers do. */
async function ask(question: readonly string[], help = true): Promise<void> {
  const { askYargs } = await import('./ask-yargs.js');
  askYargs({ words: question, shell: words[0], everywhere, verbs, begin, act, help });
}

/** @throws ElftraceError 'usage' for words that are no shell */
function shellWords(): readonly string[] {
  const [shell, more] = words;
  if (shell === '--help' || shell === '-h') return ['--help'];
  if (more !== undefined || (shell !== undefined && shell !== 'bash' && shell !== 'zsh')) {
    throw new ElftraceError('usage', `completion ${words.join(' ')}: one of bash, zsh, fish`, {
      value: words.join(' '),
    });
  }
  return ['completion'];
}

/**
 * Is told when the verb is one that there is.
 * @param machines  those of its files so far
 * @param asUsual  performs something with the options that V8 had at first
 */
type Begun = (machines: () => number, asUsual: <T>(act: () => T) => T) => void;

/**
 * Reads the words after the rules of `words.ts`; what the verb does is in `action` then.
 * @throws ElftraceError 'usage'
 */
async function readCommand(begun: Begun): Promise<void> {
  if (verb === undefined) throw new ElftraceError('usage', 'name a verb: elftrace --help lists them');
  if (verb === '--help' || verb === '-h' || verb === '--version') return ask([verb]);
  if (verb === '--get-yargs-completions') return ask(given);
  if (verb === 'completion') return ask(shellWords());
  if (verb.startsWith('-')) throw new ElftraceError('usage', `${verb}: options stand behind the verb`, { value: verb });
  const found = verbs.find(verb);
  if (found === undefined) {
    const near = didYouMean(verb, [...verbs.names(), 'completion', 'help']);
    throw new ElftraceError('usage', `unknown verb '${verb}'${near}`, { value: verb });
  }
  begun(loadedMachines, withUsualEngine);
  const options = DeclaredOptions.of(found.builder, everywhere);
  const { own, guest, mistakable, help } = readWords(verb, words, grammarOf(options, found.words));
  if (help) return ask([verb, '--help', ...(own.includes('--forms') ? ['--forms'] : [])]);
  forProgram = guest;
  for (const each of mistakable) {
    err(`elftrace: notice: ${each} behind the program is the program's; options of ${verb} stand in front of it`);
  }
  const args = argumentsOf(verb, found, options, own);
  if (args === null) return ask([verb, ...own], false);
  begin(args);
  act(found, args);
}

/**
 * Runs the command of `process.argv`, which must be what it was when this file was evaluated.
 * @param bundle  what this code is called, for what is kept of its work; null: nothing is kept
 */
export async function main(begun: Begun, bundle: string | null = null): Promise<void> {
  nameBundle(bundle);
  // Several commands may run in one process, one after another.
  forgetInputs();
  freeStandardOutput();
  try {
    if (given.join(' ') === 'help --json') {
      const { describeCommands } = await import('./describe.js');
      out(JSON.stringify(describeCommands(verbs, everywhere)));
    } else if (given.join(' ') === 'completion fish') {
      const { runFishCompletion } = await import('./fish.js');
      action = runFishCompletion;
    } else await readCommand(begun);
    // A guest's output is its own, and a race draws how far it is.
    const isShown = verb !== 'run' && verb !== 'record' && verb !== 'race' && !process.argv.includes('--json');
    const end = isShown ? startProgress(`${verb ?? ''} ${subject}`.trim()) : () => undefined;
    try {
      exit = await action();
      flush();
    } finally {
      end();
    }
  } catch (error) {
    (await import('../output/commit.js')).discardOutputs();
    const file = error instanceof ElftraceError ? (error.context.file ?? subject) : subject;
    err(errorLine(error, file));
    // The codes of `run` are the guest's: what goes wrong before it begins must not look like one
    // of them.
    exit = verb === 'run' ? exitCodes.runFailed : exitCodeOf(error);
  }
  flush();
  process.exitCode = exit;
}
