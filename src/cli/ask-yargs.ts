/**
 * The command line by yargs: help texts, completion, and the words for what is wrong. Loaded where
 * one of these is asked for.
 */
import yargs, { type Argv, type Options } from 'yargs';
import { ElftraceError } from '../errors.js';
import { version } from '../version.js';
import type { Arguments, DeclaredVerbs, OptionRow, Verb } from './declared.js';

/** What yargs keeps to itself. Not in its types; its version is pinned. */
interface Internals {
  readonly getInternalMethods: () => { readonly getUsageInstance: () => { cacheHelpMessage: () => void } };
}

/** Options are proposed where a dash was typed; elsewhere the shell knows files better. */
function completeWord(
  current: string,
  _: unknown,
  defaults: (done: (error: Error | null, found: string[] | undefined) => void) => unknown,
  done: (found: string[]) => void,
): unknown {
  return defaults((_error, found = []) => {
    done(current.startsWith('-') ? found : found.filter((each) => !each.startsWith('-')));
  });
}

/** yargs writes the script of the shell that the environment names. */
function nameShell(shell: string | undefined): void {
  if (shell !== 'bash' && shell !== 'zsh') return;
  process.env['SHELL'] = shell;
  process.env['ZSH_NAME'] = '';
}

export interface Question {
  /** Verb and words. */
  readonly words: readonly string[];
  /** Of `completion`. */
  readonly shell: string | undefined;
  /** Options of every verb. */
  readonly everywhere: Readonly<Record<string, OptionRow>>;
  readonly verbs: DeclaredVerbs;
  /** Called with what was parsed. */
  readonly begin: (args: Arguments) => void;
  /** Called behind it with the verb. */
  readonly act: (verb: Verb, args: Arguments) => void;
  readonly help: boolean;
}

/** @throws ElftraceError 'usage', and what `begin` and handlers throw */
export function askYargs({ words, shell, everywhere, verbs, begin, act, help }: Question): void {
  if (words[0] === 'completion') nameShell(shell);
  const common = yargs([])
    .scriptName('elftrace')
    .usage('$0 VERB …\n\nVerifies, patches, undoes and proves ftrace patch sites in ELF files.')
    .version(version)
    .alias('h', 'help')
    .strict()
    .demandCommand(1, 'name a verb')
    .options(everywhere as Record<string, Options>)
    .middleware(begin)
    .completion('completion', 'script that completes words: completion [bash|zsh|fish] >> ~/.bashrc', completeWord)
    .exitProcess(false)
    .wrap(Math.min(110, process.stdout.columns ?? 110))
    .parserConfiguration({ 'duplicate-arguments-array': true, 'boolean-negation': true })
    .epilogue(
      'Exit codes: 0 as asked, 1 a check failed, 2 wrong use or bad input, 3 a fault of elftrace, 4 not supported.',
    )
    .fail((message, error) => {
      // Errors of yargs and of `coerce` are the user's; others keep their kind.
      if (error && error.name !== 'YError') throw error;
      throw new ElftraceError('usage', message ?? error.message);
    });
  let parser = common as Argv;
  for (const verb of verbs.all.values()) {
    const { usage, aliases, text, builder } = verb;
    parser = parser.command([usage, ...aliases], text, builder, (args) => {
      act(verb, args);
    });
  }
  // Otherwise a word `help` that stands last, a function's name say, would ask for it.
  if (!help) parser.help(false);
  // yargs renders the help text of every command that it runs, in case its handler fails later.
  // Ours run after parsing and fail in their own words, so it would not be read.
  const usage = (parser as unknown as Internals).getInternalMethods().getUsageInstance();
  if (words[0] !== '--get-yargs-completions') usage.cacheHelpMessage = () => undefined;
  parser.parse([...words]);
}
