/**
 * The command line: verbs and their options. Each verb is a file of its own, loaded when it is
 * named; this one only parses and maps errors.
 */
import yargs, { type Argv } from 'yargs';
import { ElftraceError } from '../errors.js';
import { forgetInputs } from '../output/inputs.js';
import { version } from '../version.js';
import { errorLine, exitCodeOf, exitCodes } from './exit.js';
import { grammarOf, type Internals } from './grammar.js';
import { beginLimits, limitOptions } from './limits.js';
import { machineOptionsIn, machineOptionsOf } from './machine-options.js';
import { didYouMean } from './nearest.js';
import { startProgress } from './progress.js';
import { STANDARD_INPUT } from './standard-input.js';
import { err, flush, freeStandardOutput, out, showNames } from './terminal.js';
import { readWords } from './words.js';

let exit: number = exitCodes.ok;
/**
 * Set by the verb that was named. Run after parsing: yargs renders the help text of handlers that
 * return a promise.
 */
let action: () => number | Promise<number> = () => exitCodes.ok;
/** The file that a verb works on: errors that do not name one are about it. */
let subject = '';

/** Options of every verb that opens a file. */
function common<T>(parser: Argv<T>) {
  return parser
    .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
    .option('symbols', { type: 'string', describe: 'names for a stripped file: System.map or an ELF file' })
    .option('mcount', { type: 'string', array: true, nargs: 1, describe: 'further name of the profiling entry' })
    .option('table', { type: 'string', array: true, nargs: 1, describe: 'section that holds the site table' })
    .option('journal', { type: 'string', describe: 'record of the changes kept beside the file' });
}

function selection<T>(parser: Argv<T>) {
  return parser
    .option('l', { type: 'string', array: true, nargs: 1, describe: 'functions, as set_ftrace_filter takes them' })
    .option('n', { type: 'string', array: true, nargs: 1, describe: 'functions to leave out' })
    .option('file', { type: 'string', describe: 'file with one function or pattern a line' });
}

function output<T>(parser: Argv<T>) {
  return parser
    .option('o', { alias: 'output', type: 'string', describe: 'file to write' })
    .option('in-place', { type: 'boolean', default: false, describe: 'change the file itself' })
    .option('compress', { type: 'boolean', default: true, describe: 'compress the output as the input was' });
}

const percent = (value: number): number => {
  if (!(value >= 0 && value <= 100)) throw new ElftraceError('usage', '--require takes a percentage from 0 to 100');
  return value;
};

const jobs = (value: number): number => {
  if (!Number.isInteger(value) || value < 0) throw new ElftraceError('usage', '--jobs takes a whole number, or 0');
  return value;
};

/** `help VERB` is `VERB --help`; `help` alone is about all verbs. */
function verbAndWords([first, ...rest]: readonly string[]): readonly [
  verb: string | undefined,
  words: readonly string[],
] {
  if (first !== 'help') return [first, rest];
  return rest[0] === undefined ? ['--help', []] : [rest[0], ['--help']];
}

/** `-` as the value of an option. */
const inputName = (name: string): string => (name === '-' ? STANDARD_INPUT : name);

/** Formats of `verify`; those behind json are `report/formats`'s. */
const verifyFormats = ['text', 'json', 'ndjson', 'sarif', 'junit', 'ktap', 'github'] as const;
type VerifyFormat = (typeof verifyFormats)[number];

function verifyFormat(format: string | undefined, json: boolean): VerifyFormat {
  if (json && format !== undefined && format !== 'json') {
    throw new ElftraceError('usage', `--json and --format ${format} contradict each other`, { value: format });
  }
  return json ? 'json' : ((format ?? 'text') as VerifyFormat);
}

/** JSON keeps symbols, and so do formats for machines, which may quote names in their own way. */
const isText = (args: Readonly<Record<string, unknown>>): boolean =>
  args['json'] !== true && (args['format'] === undefined || args['format'] === 'text');

/** Where `record` leaves traces and the verbs that read them look. */
const TRACE_DIRECTORY = 'elftrace.data';

const traceSize = (value: number): number => {
  if (!Number.isSafeInteger(value) || value < 1) throw new ElftraceError('usage', '--size takes a number of bytes');
  return value;
};

const listOf = (describe: string) => ({ type: 'string', array: true, nargs: 1, describe }) as const;

const matchOption = {
  choices: ['glob', 'regex'],
  default: 'glob',
  describe: 'how functions are named',
} as const;

/** What of a program is recorded, as uftrace has it. */
const choiceOptions = {
  F: { alias: 'filter', ...listOf('record only these functions and what they call') },
  N: { alias: 'notrace', ...listOf('record nothing of these functions and of what they call') },
  H: { alias: 'hide', ...listOf('do not record these functions, but what they call') },
  L: { alias: 'loc-filter', ...listOf('record only functions of these source files; FILE@hide: not them') },
  C: { alias: 'caller-filter', ...listOf('record only these functions and what they are called by') },
  D: { alias: 'depth', type: 'number', describe: 'levels of calls that are recorded' },
  t: { alias: 'time-filter', type: 'string', describe: 'record calls that last so long: 10us' },
  Z: { alias: 'size-filter', type: 'number', describe: 'pass over functions of fewer bytes' },
  T: { alias: 'trigger', ...listOf('F@depth=N, time=T, size=N, filter, notrace, hide, trace, trace_on, finish') },
  match: { ...matchOption },
  signal: { ...listOf('of uftrace; refused with the reason'), hidden: true },
  A: { alias: 'argument', ...listOf('arguments: F@arg1/s,arg2/i32; F: as its types say') },
  R: { alias: 'retval', ...listOf('return values: F@retval/x; F: as its type says') },
  a: { alias: 'auto-args', type: 'boolean', describe: 'all arguments and return values that types tell' },
  disable: { type: 'boolean', describe: 'record nothing before a trigger trace_on' },
  choice: { type: 'string', describe: 'write these options for ELFTRACE_CHOICE, run nothing' },
} as const;

/** What verbs take that read a trace of `record`. */
function traceOptions<T>(parser: Argv<T>) {
  return parser
    .positional('dir', { type: 'string', default: TRACE_DIRECTORY, describe: 'directory of the trace' })
    .option('object', listOf('traced program or library, patched or not, where it is no longer where it was'))
    .option('root', listOf('directory in which programs, libraries and their debugging information are looked for'))
    .option('symbols', { type: 'string', describe: 'names for a stripped program, as record took them' });
}

/** What of a trace is shown, as uftrace has it. */
function callSelection<T>(parser: Argv<T>) {
  return traceOptions(parser)
    .option('F', {
      alias: 'filter',
      ...listOf('only these functions and what they call; a name, or a pattern with * and ?'),
    })
    .option('N', {
      alias: 'notrace',
      ...listOf('not these functions, nor what they call'),
    })
    .option('H', { alias: 'hide', ...listOf('not these functions themselves') })
    .option('match', matchOption)
    .option('D', { alias: 'depth', type: 'number', describe: 'levels of calls, the outermost is 1' })
    .option('r', {
      alias: 'time-range',
      type: 'string',
      describe: 'calls that begin FROM~TO: 10us, 1.5ms, 2s since the beginning; seconds of the clock without a unit',
    })
    .option('tid', { type: 'string', describe: 'only these threads, by number, with commas' })
    .option('json', { type: 'boolean', default: false, describe: 'print JSON' });
}

/** What `patch` is asked to do with sites. */
function requests<T>(parser: Argv<T>) {
  return parser
    .option('nop', { type: 'boolean', default: false, describe: 'calls become nops' })
    .option('untrace', {
      type: 'boolean',
      default: false,
      describe: 'no kernel can trace them again: out of the table, nops',
    })
    .option('init', {
      type: 'boolean',
      default: false,
      describe: 'sites get the form that a running kernel gives them',
    })
    .option('enable', {
      type: 'boolean',
      default: false,
      describe: 'sites call the tracer; others stay, or nops after load',
    })
    .option('session', {
      type: 'string',
      array: true,
      nargs: 1,
      describe: 'operations from a file, after earlier ones; other sites as with --enable',
    })
    .option('livepatch', {
      type: 'string',
      array: true,
      nargs: 1,
      describe: 'FUNCTION=NEW runs in its place; other sites as with --enable',
    })
    .option('with', {
      type: 'string',
      array: true,
      nargs: 1,
      describe: 'object that comes into the image, for --livepatch and --direct',
    });
}

/** What enabled sites call, and how. */
function tracers<T>(parser: Argv<T>) {
  return parser
    .option('tracer', {
      type: 'string',
      default: 'function',
      describe: 'function, function_graph, counter, or a function',
    })
    .option('entry', {
      type: 'string',
      describe: 'relocatable files: the symbol that enabled sites call (arm64, RISC-V)',
    })
    .option('ops', { type: 'string', describe: 'with --entry: the symbol that words in front of functions name' })
    .option('direct', {
      type: 'string',
      array: true,
      nargs: 1,
      describe: 'FUNCTION=CALLER: it calls that (jmp:CALLER: jumps there, x86-64); other sites as with --enable',
    })
    .option('probe', {
      type: 'string',
      array: true,
      nargs: 1,
      describe: "'p:EVENT SYM+OFF ARGS': kprobe_events; other sites as with --enable",
    })
    .option('optimize', { type: 'boolean', default: false, describe: 'probes: jumps where possible' })
    .option('save-regs', {
      type: 'boolean',
      default: false,
      describe: 'sites call the entry that saves every register',
    })
    .option('allow-unsafe-graph', {
      type: 'boolean',
      default: false,
      describe: 'graph, return probes: programs that throw, longjmp too',
    });
}

/** Files that a list names. */
function filesFrom<T>(parser: Argv<T>) {
  return parser.option('files-from', {
    type: 'string',
    array: true,
    nargs: 1,
    describe: 'file with one path a line, or NUL-separated; - is standard input',
  });
}

/** Which plans are carried out. */
function planLimits<T>(parser: Argv<T>) {
  return parser
    .option('dry-run', { type: 'boolean', default: false, describe: 'print the plan, write nothing' })
    .option('prove', {
      type: 'boolean',
      default: false,
      describe: 'write nothing unless each changed site is proved',
    })
    .option('partial', {
      type: 'boolean',
      default: false,
      describe: 'leave refused sites as they are; with --prove also those that are not proved',
    })
    .option('require', { type: 'number', coerce: percent, describe: 'accept refusals above this percentage' })
    .option('readonly', {
      type: 'string',
      array: true,
      nargs: 1,
      describe: 'file range that may not change: START-END',
    })
    .option('empty-slots', { type: 'boolean', default: false, hidden: true, describe: 'what --untrace was' })
    .option('strict-perm', { type: 'boolean', default: false, describe: 'refuse sections that are not writable' });
}

/** Forms of one machine, most of them of another year: `--help --forms` lists them too. */
function patchForms<T>(parser: Argv<T>) {
  return parser
    .options(machineOptionsOf('patch', true))
    .option('kprobe-opt', {
      type: 'string',
      choices: ['2009', 'modern'] as const,
      hidden: true,
      describe: 'probes: the jump optimisation of 2009, for --preempt=none only, or of today',
    })
    .option('preempt', {
      choices: ['none', 'full'] as const,
      hidden: true,
      describe: 'whether tracers can be preempted: hazards, trampolines of 2014',
    });
}

/** Which threads `race` runs, beside which form of the change. */
function raceThreads<T>(parser: Argv<T>) {
  return parser
    .option('variant', {
      type: 'string',
      array: true,
      nargs: 1,
      describe: 'stopped, torn, no-sync, no-wait, no-breakpoint, bytes, reversed',
    })
    .option('cpus', { type: 'number', default: 1, describe: 'threads in the function' })
    .option('call', { type: 'string', describe: "threads call 'f(1,2)' instead of what the program does first" })
    .option('preempt', {
      choices: ['none', 'full'] as const,
      default: 'full' as const,
      describe: 'none: the machine stops only with threads outside',
    })
    .option('stale-fetch', { type: 'boolean', default: true, describe: 'CPUs keep code that they have fetched' });
}

/** How many orders `race` tries. */
function raceBounds<T>(parser: Argv<T>) {
  return parser
    .option('max-schedules', { type: 'number', describe: 'end after so many schedules' })
    .option('max-seconds', { type: 'number', describe: 'end after so many seconds' })
    .option('max-steps', { type: 'number', describe: 'instructions of a thread (20,000)' })
    .option('first', { type: 'boolean', default: false, describe: 'end at the first violation' })
    .option('full', {
      type: 'boolean',
      default: false,
      describe: 'every order, also those that nobody can tell apart',
    });
}

const given = process.argv.slice(2);
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

/** yargs writes the script of the shell that the environment names. */
if (verb === 'completion' && (words[0] === 'bash' || words[0] === 'zsh')) {
  process.env['SHELL'] = words[0];
  process.env['ZSH_NAME'] = '';
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

/**
 * The words that yargs gets, after the rules of `words.ts`.
 * @throws ElftraceError 'usage'
 */
function wordsForYargs(
  commands: ReturnType<ReturnType<Internals['getInternalMethods']>['getCommandInstance']>,
): readonly string[] {
  if (verb === undefined) throw new ElftraceError('usage', 'name a verb: elftrace --help lists them');
  if (verb === '--help' || verb === '-h' || verb === '--version') return [verb];
  if (verb === '--get-yargs-completions') return given;
  const verbs = [...Object.keys(commands.handlers), ...Object.keys(commands.aliasMap), 'completion', 'help'];
  if (verb === 'completion') {
    const [shell, more] = words;
    if (shell === '--help' || shell === '-h') return ['--help'];
    if (more !== undefined || (shell !== undefined && shell !== 'bash' && shell !== 'zsh')) {
      throw new ElftraceError('usage', `completion ${words.join(' ')}: one of bash, zsh, fish`, {
        value: words.join(' '),
      });
    }
    return ['completion'];
  }
  if (verb.startsWith('-')) throw new ElftraceError('usage', `${verb}: options stand behind the verb`, { value: verb });
  const handler = commands.handlers[commands.aliasMap[verb] ?? verb];
  if (handler === undefined) {
    throw new ElftraceError('usage', `unknown verb '${verb}'${didYouMean(verb, verbs)}`, { value: verb });
  }
  const { own, guest, mistakable, help } = readWords(verb, words, grammarOf(handler, yargs([]).options(everywhere)));
  if (help) return [verb, '--help', ...(own.includes('--forms') ? ['--forms'] : [])];
  // Otherwise a word `help` that stands last, a function's name say, would ask for it.
  parser.help(false);
  forProgram = guest;
  for (const each of mistakable) {
    err(`elftrace: notice: ${each} behind the program is the program's; options of ${verb} stand in front of it`);
  }
  return [verb, ...own];
}

const parser = yargs([])
  .scriptName('elftrace')
  .usage('$0 VERB …\n\nVerifies, patches, undoes and proves ftrace patch sites in ELF files.')
  .version(version)
  .alias('h', 'help')
  .strict()
  .demandCommand(1, 'name a verb')
  .options(everywhere)
  .middleware((args) => {
    beginLimits(args);
    showNames(args['demangle'] !== false && isText(args));
    const named = args['path'] ?? args['patched'];
    if (typeof named === 'string') subject = named;
  })
  .completion('completion', 'script that completes words: completion [bash|zsh|fish] >> ~/.bashrc', completeWord)
  .exitProcess(false)
  .wrap(Math.min(110, process.stdout.columns ?? 110))
  .parserConfiguration({ 'duplicate-arguments-array': true, 'boolean-negation': true })
  .epilogue(
    'Exit codes: 0 as asked, 1 a check failed, 2 wrong use or bad input, 3 a fault of elftrace, 4 not supported.',
  )
  .fail((message, error) => {
    // Errors of yargs and of `coerce` are the user's; anything else comes from a verb and keeps its
    // kind.
    if (error && error.name !== 'YError') throw error;
    throw new ElftraceError('usage', message ?? error.message);
  })
  .command(
    'info <files..>',
    'what a file is, its site tables and sites',
    (y) =>
      common(y.positional('files', { type: 'string', array: true, demandOption: true })).example(
        '$0 info ext4.ko',
        'tables, shapes and states of a module',
      ),
    (args) => {
      action = async () => (await import('./info.js')).runInfo({ ...args });
    },
  )
  .command(
    'list <path>',
    'traceable functions, one per line',
    (y) =>
      selection(common(y.positional('path', { type: 'string', demandOption: true }))).example(
        "$0 list vmlinux -l 'schedule*'",
        'the functions that the filter matches',
      ),
    (args) => {
      action = async () => (await import('./list.js')).runList({ ...args });
    },
  )
  .command(
    'verify [files..]',
    'a verdict per site; nothing to verify is a failure; - is standard input',
    (y) =>
      filesFrom(common(y.positional('files', { type: 'string', array: true, default: [] })))
        .option('format', {
          type: 'string',
          choices: verifyFormats,
          describe: 'what to print; --json is --format json',
        })
        .option('against', {
          type: 'string',
          array: true,
          nargs: 1,
          describe: 'kernel, module or folder of modules that livepatch modules patch',
        })
        .option('baseline', { type: 'string', describe: 'earlier --json or ndjson output: only what is new fails' })
        .option('skip', { type: 'string', array: true, nargs: 1, describe: 'verdict or rule that is left out' })
        .option('severity', { type: 'string', describe: 'JSON file: how much rules weigh' })
        .option('strict', { type: 'boolean', default: false, describe: 'fail on warnings too' })
        .option('quiet', { type: 'boolean', default: false, describe: 'one line per file' })
        .option('require', { type: 'number', coerce: percent, describe: 'fail below this percentage of good sites' })
        .option('expect', {
          type: 'string',
          choices: ['kernel', 'user'] as const,
          describe: 'what each file must be of: another one is a failure',
        })
        .option('jobs', {
          type: 'number',
          default: 0,
          coerce: jobs,
          describe: 'files at the same time; 0 (default): one per processor where there is work for seconds',
        })
        .option('system-unpack', {
          type: 'boolean',
          default: true,
          describe: 'let gzip, xz and zstd of the system unpack where there are many files',
        })
        .example('$0 verify /lib/modules/6.1.0/kernel', 'every module of a kernel'),
    (args) => {
      const format = verifyFormat(args.format, args.json);
      action = async () =>
        (await import('./verify.js')).runVerify({ ...args, format, filesFrom: args.filesFrom?.map(inputName) });
    },
  )
  .command(
    'diff <old> <new>',
    'functions that two files or trees of them can trace: lost, gained, moved, changed',
    (y) =>
      y
        .positional('old', { type: 'string', demandOption: true, describe: 'file, archive, package or directory' })
        .positional('new', { type: 'string', demandOption: true, describe: 'what it is compared with' })
        .option('fail-on', {
          choices: ['lost', 'gained', 'moved', 'changed', 'any'] as const,
          array: true,
          nargs: 1,
          default: [],
          describe: 'fail where there is such a difference',
        })
        .option('old-symbols', { type: 'string', describe: 'names for a stripped old file: System.map or an ELF file' })
        .option('new-symbols', { type: 'string', describe: 'the same for the new file' })
        .option('mcount', { type: 'string', array: true, nargs: 1, describe: 'further name of the profiling entry' })
        .option('table', { type: 'string', array: true, nargs: 1, describe: 'section that holds the site table' })
        .option('quiet', { type: 'boolean', default: false, describe: 'one line per pair of files' })
        .option('system-unpack', {
          type: 'boolean',
          default: true,
          describe: 'let gzip, xz and zstd of the system unpack where there are many files',
        })
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 diff --fail-on lost old/ext4.ko new/ext4.ko', 'what tracers of the old one will miss'),
    (args) => {
      action = async () => (await import('./diff.js')).runDiff({ ...args });
    },
  )
  .command(
    'load <path> [modules..]',
    'core and modules in one address space, far apart, with stubs',
    (y) =>
      y
        .positional('path', { type: 'string', demandOption: true, describe: 'core, or an image to add to' })
        .positional('modules', { type: 'string', array: true, default: [] as string[] })
        .option('o', { alias: 'output', type: 'string', describe: 'image to write' })
        .option('base', { type: 'string', describe: 'user, kernel, or the address of the core' })
        .option('module-base', { type: 'string', describe: 'address of the first module' })
        .option('entry', { type: 'string', describe: 'symbol to start at instead of _start' })
        .option('runtime', { type: 'string', describe: "object with the tracer's entries; none: leave it out" })
        .option('probes', { type: 'number', describe: 'room for so many probes of patch --probe' })
        .options(machineOptionsOf('load'))
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 load core.o driver.ko -o image', 'a module 256 MB from its core'),
    (args) => {
      action = async () =>
        (await import('./load.js')).runLoad({
          ...args,
          output: args.o,
          machine: machineOptionsIn(args),
        });
    },
  )
  .command(
    'unload <path> <part>',
    'a loaded image without one of its modules',
    (y) =>
      y
        .positional('path', { type: 'string', demandOption: true })
        .positional('part', { type: 'string', demandOption: true, describe: 'name of the module, or of a linked core' })
        .option('o', { alias: 'output', type: 'string', describe: 'file to write' })
        .option('in-place', { type: 'boolean', default: false, describe: 'change the file itself' })
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 unload image driver -o smaller', 'the module is gone, the rest stays where it was'),
    (args) => {
      action = async () => (await import('./unload.js')).runUnload({ ...args, output: args.o });
    },
  )
  .command(
    'unwrap <path>',
    'the ELF file inside of a vmlinuz, bzImage, zImage or compressed file',
    (y) =>
      y
        .positional('path', { type: 'string', demandOption: true })
        .option('o', { alias: 'output', type: 'string', describe: 'file to write' })
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 unwrap /boot/vmlinuz -o vmlinux', 'what patch and its like work on'),
    (args) => {
      action = async () => (await import('./unwrap.js')).runUnwrap({ ...args, output: args.o });
    },
  )
  .command(
    ['patch [path]', 'plan'],
    'turn call sites into nops, or into calls of a tracer; plan: decide it, for apply',
    (y) =>
      patchForms(
        planLimits(tracers(requests(output(selection(common(filesFrom(y.positional('path', { type: 'string' })))))))),
      )
        .showHidden('forms', 'with --help: options of single machines, and limits, too')
        .example('$0 patch ext4.ko --untrace -o quiet.ko', 'a module that no tracer sees'),
    (args) => {
      const request = {
        ...args,
        output: args.o,
        planOnly: args._[0] === 'plan',
        machine: machineOptionsIn(args),
      };
      const filesFrom = args.filesFrom?.map(inputName);
      action = async () =>
        filesFrom === undefined
          ? (await import('./patch.js')).runPatch(request)
          : (await import('./patch-many.js')).runPatchMany({ ...request, filesFrom });
    },
  )
  .command(
    'apply <path> <plan>',
    'carry out a plan that was made before',
    (y) =>
      output(
        y
          .positional('path', { type: 'string', demandOption: true })
          .positional('plan', { type: 'string', demandOption: true, describe: 'file that plan wrote' }),
      )
        .option('partial', { type: 'boolean', default: false, describe: 'leave refused sites as they are' })
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 plan ext4.ko --nop -o p.json && $0 apply ext4.ko p.json -o quiet.ko', 'patch in two steps'),
    (args) => {
      action = async () => (await import('./apply.js')).runApply({ ...args, output: args.o });
    },
  )
  .command(
    'revert <path>',
    'a patched file as it was, byte for byte, as its record says',
    (y) =>
      output(y.positional('path', { type: 'string', demandOption: true }))
        .option('journal', { type: 'string', describe: 'record of the changes kept beside the file' })
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 revert quiet.ko -o ext4.ko', 'undo a patch'),
    (args) => {
      action = async () => (await import('./revert.js')).runRevert({ ...args, output: args.o });
    },
  )
  .command(
    'status <path>',
    'what is enabled now, and what the record says',
    (y) =>
      selection(common(y.positional('path', { type: 'string', demandOption: true })))
        .option('touched', { type: 'boolean', default: false, describe: 'sessions: what was ever enabled' })
        .option('ops', { type: 'boolean', default: false, describe: "the tracers' objects with their raw flags, too" })
        .example('$0 status quiet.ko', 'states of the sites and the record'),
    (args) => {
      action = async () => (await import('./status.js')).runStatus({ ...args });
    },
  )
  .command(
    'mcount <path>',
    'make the __mcount_loc table that the compiler did not, or sort that of a linked file',
    (y) =>
      output(common(y.positional('path', { type: 'string', demandOption: true })))
        .option('sort', { type: 'boolean', default: true, describe: 'entries in ascending order' })
        .option('nop-untraced', {
          type: 'boolean',
          default: false,
          describe: 'nop calls in sections that are not traced',
        })
        .option('zero-weak', {
          type: 'boolean',
          default: false,
          describe: 'linked files: empty slots of overridden weak functions',
        })
        .option('repair', {
          type: 'boolean',
          default: false,
          describe: 'objects: a table for each section of code, with a slot for every function, that is linked with it',
        })
        .example('$0 mcount --repair a.o --in-place', 'what a link would lose otherwise')
        .example('$0 mcount driver.o -o driver.mc.o', 'a PowerPC object with its table'),
    (args) => {
      action = async () => (await import('./mcount.js')).runMcount({ ...args, output: args.o });
    },
  )
  .command(
    'xray <path>',
    'sleds of XRay: list and verify them, switch them on and off in a linked file',
    (y) =>
      output(selection(common(y.positional('path', { type: 'string', demandOption: true }))))
        .option('on', { type: 'boolean', default: false, describe: 'switch sleds on' })
        .option('off', { type: 'boolean', default: false, describe: 'switch sleds off' })
        .option('entry', { type: 'string', describe: 'trampoline of entries (__xray_FunctionEntry)' })
        .option('exit', { type: 'string', describe: 'trampoline of exits (__xray_FunctionExit)' })
        .option('tail', { type: 'string', describe: 'trampoline of tail calls (__xray_FunctionTailExit)' })
        .option('entry-args', {
          type: 'string',
          describe: 'trampoline of entries with arguments (__xray_ArgLoggerEntry)',
        })
        .option('partial', { type: 'boolean', default: false, describe: 'leave refused sleds as they are' })
        .example('$0 xray program', 'each sled, its function, its state')
        .example('$0 xray program --on -l main -o program.on', 'calls of the trampolines that the program has'),
    (args) => {
      const { entry, exit, tail, entryArgs } = args;
      const trampolines = {
        ...(entry === undefined ? {} : { entry }),
        ...(exit === undefined ? {} : { exit }),
        ...(tail === undefined ? {} : { tail }),
        ...(entryArgs === undefined ? {} : { 'entry-args': entryArgs }),
      };
      action = async () => (await import('./xray.js')).runXray({ ...args, trampolines, output: args.o });
    },
  )
  .command(
    'prove <patched> [original]',
    'executes each patched site against its original, from random states',
    (y) =>
      common(
        y
          .positional('patched', {
            type: 'string',
            demandOption: true,
            describe: 'linked or relocatable file, or image of load',
          })
          .positional('original', { type: 'string', describe: 'as it was; default: what its record says' }),
      )
        .option('seed', { type: 'number', describe: 'of the states (1); the same gives the same proof' })
        .option('trials', { type: 'number', describe: 'of each site, at least (2)' })
        .option('sample', { type: 'number', describe: 'so many of the sites only; then nothing is proved as a whole' })
        .option('certificate', {
          type: 'string',
          requiresArg: true,
          describe: 'write the proof down: an in-toto statement (schemas/certificate.schema.json)',
        })
        .option('check', {
          type: 'string',
          requiresArg: true,
          describe: 'repeat the proof of this certificate: any difference is exit 1',
        })
        .option('all', { type: 'boolean', default: false, describe: 'list the sites that are proved, too' })
        .option('jobs', {
          type: 'number',
          default: 0,
          coerce: jobs,
          describe: 'threads; 0 (default): one per processor where there are many sites',
        })
        .example('$0 prove traced', 'against what the record of the file says')
        .example('$0 prove vmlinux.off vmlinux', 'against another file')
        .example('$0 prove --check traced.json traced', 'the proof of a certificate, once more'),
    (args) => {
      action = async () => (await import('./prove.js')).runProve({ ...args });
    },
  )
  .command(
    'disasm <path> <functions..>',
    'code with its sites and relocations named',
    (y) =>
      common(
        y
          .positional('path', { type: 'string', demandOption: true })
          .positional('functions', { type: 'string', array: true, demandOption: true }),
      ).example('$0 disasm ext4.ko ext4_sync_fs', 'one function'),
    (args) => {
      action = async () => (await import('./disasm.js')).runDisasm({ ...args });
    },
  )
  .command(
    'explain <path> [site]',
    'why a site looks as it does, hop by hop; or the page of a verdict',
    (y) =>
      common(
        y
          .positional('path', { type: 'string', demandOption: true, describe: 'image, or a verdict' })
          .positional('site', {
            type: 'string',
            describe: 'FUNCTION, FUNCTION+0xOFFSET, SECTION+0xOFFSET or 0xADDRESS',
          }),
      )
        .example('$0 explain image far_work', 'call, stub, slot and target of one site')
        .example('$0 explain stub-wrong-target', 'what the verdict means'),
    (args) => {
      action = async () => (await import('./explain.js')).runExplain({ ...args });
    },
  )
  .command(
    'html [files..]',
    'one page about images: verdicts, code, ways, a map; traces, differences, races',
    (y) =>
      y
        .positional('files', {
          type: 'string',
          array: true,
          default: [],
          describe: 'files, archives, directories',
        })
        .option('o', { alias: 'output', type: 'string', describe: 'page to write' })
        .option('trace', { type: 'string', describe: 'what run --trace wrote as ndjson: timeline and flame graph' })
        .option('prove', { type: 'string', describe: 'what prove --json wrote of the one file' })
        .option('diff', { type: 'string', describe: 'older file or tree: what became of its sites' })
        .option('race', {
          type: 'string',
          array: true,
          nargs: 1,
          describe: 'what race --json wrote: schedules step by step; needs no file',
        })
        .option('title', { type: 'string', describe: 'heading of the page' })
        .option('symbols', { type: 'string', describe: 'names for a stripped file: System.map or an ELF file' })
        .option('old-symbols', { type: 'string', describe: 'names for a stripped file of --diff' })
        .option('mcount', { type: 'string', array: true, nargs: 1, describe: 'further name of the profiling entry' })
        .option('table', { type: 'string', array: true, nargs: 1, describe: 'section that holds the site table' })
        .option('journal', { type: 'string', describe: 'record of the changes kept beside the file' })
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 html vmlinux -o page.html', 'every site of a kernel, in a browser')
        .example('$0 html traced --trace t.ndjson --diff original -o page.html', 'a patched program and its run')
        .example('$0 html --race story.json -o page.html', 'what race --json wrote, step by step'),
    (args) => {
      action = async () => (await import('./html.js')).runHtml({ ...args, output: args.o });
    },
  )
  .command(
    'why <function> <files..>',
    'whether a function can be traced by ftrace, kprobes, fentry; if not, why',
    (y) =>
      common(
        y
          .positional('function', { type: 'string', demandOption: true, describe: 'name of a function' })
          .positional('files', {
            type: 'string',
            array: true,
            demandOption: true,
            describe: 'kernel, modules, objects',
          }),
      )
        .option('by', {
          choices: ['ftrace', 'kprobe', 'fentry'] as const,
          array: true,
          nargs: 1,
          default: ['ftrace' as const],
          describe: 'what must be possible for status 0',
        })
        .option('system-unpack', {
          type: 'boolean',
          default: true,
          describe: 'let gzip, xz and zstd of the system unpack where there are many files',
        })
        .example('$0 why ext4_sync_fs vmlinux ext4.ko', 'BTF of a module goes on where that of its kernel ends'),
    (args) => {
      action = async () => (await import('./why.js')).runWhy({ ...args });
    },
  )
  .command(
    'cost <path> [arguments..]',
    'instructions per traced call, with tracers that do not want it',
    (y) =>
      common(
        y
          .positional('path', { type: 'string', demandOption: true, describe: 'program or loaded image' })
          .positional('arguments', { type: 'string', array: true, default: [] as string[] }),
      )
        .option('tracers', {
          type: 'number',
          array: true,
          nargs: 1,
          default: [0, 1, 2, 4, 8],
          describe: 'numbers of other tracers to measure with',
        })
        .options(limitOptions(['instructions']))
        .example('$0 cost program', 'what the list function costs, and what private trampolines save'),
    (args) => {
      action = async () => (await import('./cost.js')).runCost({ ...args, arguments: forProgram });
    },
  )
  .command(
    'race [path]',
    'every order of a patch sequence with threads in the function',
    (y) =>
      raceBounds(
        raceThreads(
          y
            .positional('path', { type: 'string', describe: 'program or loaded image' })
            .option('site', { type: 'string', describe: 'function whose site changes' })
            .option('probe', {
              type: 'string',
              describe: 'in place of a site, where a kprobe comes and goes: leaf+4',
            })
            .option('from', { type: 'string', describe: 'state before (nop; of a probe: none)' })
            .option('to', {
              type: 'string',
              describe:
                'nop, call (default), function, list, graph, direct:CALLER, jmp:CALLER, or a callback; of a probe: probe, jump, none, and jump,none',
            })
            .option('kprobe-opt', {
              type: 'string',
              choices: ['2009', 'modern'] as const,
              default: 'modern' as const,
              describe: 'probes: jump optimisation of 2009, for --preempt=none, or of today',
            })
            .options(machineOptionsOf('race')),
        ),
      )
        .option('demo', { type: 'string', describe: 'the hazards H1 to H14 with their safe forms; or one of them' })
        .option('html', { type: 'string', describe: 'page that shows it step by step' })
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 race program --site leaf --variant no-breakpoint', 'what a byte-wise store does'),
    (args) => {
      action = async () => (await import('./race.js')).runRace({ ...args, machine: machineOptionsIn(args) });
    },
  )
  .command(
    'record <path> [arguments..]',
    'run a program that writes a trace of its own calls, natively; -o: only patch it',
    (y) =>
      selection(
        y
          .positional('path', { type: 'string', demandOption: true, describe: 'program, found as shells do' })
          .positional('arguments', { type: 'string', array: true, default: [] as string[] }),
      )
        .option('d', { alias: 'data', type: 'string', default: TRACE_DIRECTORY, describe: 'directory for the trace' })
        .option('o', { alias: 'output', type: 'string', describe: 'write the patched program, do not run it' })
        .option('tracer', {
          choices: ['function', 'function_graph', 'counter'] as const,
          default: 'function' as const,
          describe: 'what is recorded: calls, calls and returns, how often each function is called',
        })
        .option('clock', {
          choices: ['mono', 'none'] as const,
          default: 'mono' as const,
          describe: 'none: calls without times, at half the cost',
        })
        .options(choiceOptions)
        .option('size', { type: 'number', coerce: traceSize, describe: 'bytes of the file of each thread, at most' })
        .option('policy', {
          choices: ['stop', 'ring'] as const,
          default: 'stop' as const,
          describe: 'at that size: no more, or the last calls',
        })
        .option('symbols', { type: 'string', describe: 'names for a stripped file: System.map or an ELF file' })
        .option('json', { type: 'boolean', default: false, describe: 'with -o or --choice: print JSON' })
        .parserConfiguration({ 'populate--': false })
        .example('$0 record ./program 10', 'then elftrace report'),
    (args) => {
      action = async () =>
        (await import('./record.js')).runRecord({ ...args, arguments: forProgram, dir: args.d, output: args.o });
    },
  )
  .command(
    'replay [dir]',
    'the calls of a trace of record, in order of time',
    (y) =>
      callSelection(y)
        .option('T', {
          alias: 'trigger',
          ...listOf('F@backtrace: its callers, too; color=red (or others), depth=N, filter, hide'),
        })
        .example('$0 replay -F main -D 3', 'what the program did'),
    (args) => {
      action = async () => (await import('./replay.js')).runReplay({ ...args });
    },
  )
  .command(
    'report [dir]',
    'how often each function of a trace was called, and how long it took',
    (y) =>
      callSelection(y)
        .option('s', {
          alias: 'sort',
          type: 'string',
          describe: 'columns, the most first: those of --fields, or func [total; call where there are no times]',
        })
        .option('f', {
          alias: 'fields',
          type: 'string',
          describe: 'columns: total, self, call, total-avg, total-min, total-max, self-avg, threads',
        })
        .example('$0 report -s call', 'the most called function first'),
    (args) => {
      action = async () => (await import('./report.js')).runReport({ ...args, sort: args.s, fields: args.f });
    },
  )
  .command(
    'graph [dir]',
    'the calls of a trace by their callers',
    (y) => callSelection(y).example('$0 graph', 'a tree of calls with their numbers and times'),
    (args) => {
      action = async () => (await import('./graph.js')).runGraph({ ...args });
    },
  )
  .command(
    'export [dir]',
    'a trace of record in the form of another tool',
    (y) =>
      traceOptions(y)
        .option('format', {
          choices: ['chrome', 'ctf', 'folded', 'ftrace', 'ndjson', 'perfetto', 'uftrace'] as const,
          demandOption: true,
          describe: 'form of the output',
        })
        .option('o', {
          alias: 'output',
          type: 'string',
          describe: 'file to write (standard output), or directory (ctf, uftrace)',
        })
        .example('$0 export --format chrome -o trace.json', 'for ui.perfetto.dev'),
    (args) => {
      action = async () => (await import('./export.js')).runExport({ ...args, output: args.o });
    },
  )
  .command(
    'run <path> [arguments..]',
    'execute a program in the emulator',
    (y) =>
      y
        .positional('path', { type: 'string', demandOption: true, describe: 'a program; a script below --root' })
        .positional('arguments', { type: 'string', array: true, default: [] as string[] })
        .options(limitOptions(['instructions']))
        .options(limitOptions(['memory', 'output', 'trace', 'processes']))
        .option('tier', {
          type: 'string',
          default: 'auto',
          describe: 'auto: compile what is hot, 0: interpret only, 1: compile everything; no result depends on it',
        })
        .option('cpu', {
          type: 'string',
          describe: 'one of x86-64-v2, -v3, armv8-a+crypto, armv8.2-a+fp16fml+dotprod+sha3, power9',
        })
        .option('seed', { type: 'string', describe: 'a number: threads take turns of random lengths, drawn from it' })
        .option('slice', { type: 'string', describe: 'most instructions of a turn of a thread; 50000' })
        .option('date', {
          type: 'string',
          describe: "start of the program's clock: 2026-01-31T12:00:00Z, @SECONDS, now",
        })
        .option('env', { type: 'string', array: true, nargs: 1, describe: 'NAME=VALUE of the environment; none else' })
        .option('root', {
          type: 'string',
          describe: "directory that is the program's /, read-only; without it no files",
        })
        .option('write', {
          type: 'string',
          describe: 'directory that keeps what the program writes; --root stays as it is',
        })
        .option('chdir', { type: 'string', describe: 'directory of the tree that the program begins in; /' })
        .option('call', { type: 'string', describe: "call one function: 'f(1,2)', integers and strings" })
        .option('compare', { type: 'string', describe: 'run this image too: 0 equal, 1 different, 125 nothing proved' })
        .option('compare-ignore', { type: 'string', describe: 'lines of output that match do not count' })
        .option('profile', { type: 'boolean', default: false, describe: 'instructions by function, on standard error' })
        .option('profile-file', { type: 'string', describe: 'the same for all functions, to a file' })
        .option('trace', { type: 'string', describe: 'file for calls and returns' })
        .option('trace-source', { type: 'string', default: 'guest', describe: 'oracle: recorded by the machine' })
        .option('format', { type: 'string', describe: 'ndjson, folded, ftrace, graph, chrome or perfetto' })
        .option('guest-output', { type: 'string', describe: "file for the program's standard output" })
        .option('json-status', { type: 'string', describe: 'file for exit status, instruction count and stop reason' })
        .option('can', {
          type: 'boolean',
          default: false,
          describe: 'instructions and calls that are not served, without a run: 0 none, 1 some',
        })
        .option('json', { type: 'boolean', default: false, describe: 'with --can: print JSON' })
        .option('list-syscalls', {
          type: 'boolean',
          default: false,
          describe: 'system calls, and what of each is served; nothing is run',
        })
        .parserConfiguration({ 'populate--': false })
        .example('$0 run --compare original quiet', 'proves that both do the same'),
    (args) => {
      action = async () => (await import('./run.js')).runRun({ ...args, arguments: forProgram });
    },
  );

/**
 * yargs renders the help text of every command that it runs, in case its handler fails later: a
 * tenth of the time of a small file. Ours run after parsing and fail in their own words, so it
 * would not be read.
 */
const internals = (parser as unknown as Internals).getInternalMethods();
if (verb !== '--get-yargs-completions') internals.getUsageInstance().cacheHelpMessage = () => undefined;

// Several commands may run in one process, one after another.
forgetInputs();
freeStandardOutput();
try {
  if (given.join(' ') === 'help --json') {
    const { handlers, aliasMap } = internals.getCommandInstance();
    const { describeCommands } = await import('./describe.js');
    out(JSON.stringify(describeCommands(handlers, aliasMap, everywhere)));
  } else if (given.join(' ') === 'completion fish') {
    const { runFishCompletion } = await import('./fish.js');
    action = runFishCompletion;
  } else parser.parse([...wordsForYargs(internals.getCommandInstance())]);
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
  // The codes of `run` are the guest's: what goes wrong before it begins must not look like one of
  // them.
  exit = verb === 'run' ? exitCodes.runFailed : exitCodeOf(error);
}
flush();
process.exitCode = exit;
