/** Options that several verbs have. */
import type { Argv } from 'yargs';
import { ElftraceError } from '../errors.js';
import { machineOptionsOf } from './machine-options.js';
import { STANDARD_INPUT } from './standard-input.js';

/** Options of every verb that opens a file. */
export function common<T>(parser: Argv<T>) {
  return parser
    .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
    .option('symbols', { type: 'string', describe: 'names for a stripped file: System.map or an ELF file' })
    .option('mcount', { type: 'string', array: true, nargs: 1, describe: 'further name of the profiling entry' })
    .option('table', { type: 'string', array: true, nargs: 1, describe: 'section that holds the site table' })
    .option('journal', { type: 'string', describe: 'record of the changes kept beside the file' });
}

export function selection<T>(parser: Argv<T>) {
  return parser
    .option('l', { type: 'string', array: true, nargs: 1, describe: 'functions, as set_ftrace_filter takes them' })
    .option('n', { type: 'string', array: true, nargs: 1, describe: 'functions to leave out' })
    .option('file', { type: 'string', describe: 'file with one function or pattern a line' });
}

export function output<T>(parser: Argv<T>) {
  return parser
    .option('o', { alias: 'output', type: 'string', describe: 'file to write' })
    .option('in-place', { type: 'boolean', default: false, describe: 'change the file itself' })
    .option('compress', { type: 'boolean', default: true, describe: 'compress the output as the input was' });
}

export const percent = (value: number): number => {
  if (!(value >= 0 && value <= 100)) throw new ElftraceError('usage', '--require takes a percentage from 0 to 100');
  return value;
};

export const jobs = (value: number): number => {
  if (!Number.isInteger(value) || value < 0) throw new ElftraceError('usage', '--jobs takes a whole number, or 0');
  return value;
};

/** `-` as the value of an option. */
export const inputName = (name: string): string => (name === '-' ? STANDARD_INPUT : name);

/** Formats of `verify`; those behind json are `report/formats`'s. */
export const verifyFormats = ['text', 'json', 'ndjson', 'sarif', 'junit', 'ktap', 'github'] as const;
export type VerifyFormat = (typeof verifyFormats)[number];

export function verifyFormat(format: string | undefined, json: boolean): VerifyFormat {
  if (json && format !== undefined && format !== 'json') {
    throw new ElftraceError('usage', `--json and --format ${format} contradict each other`, { value: format });
  }
  return json ? 'json' : ((format ?? 'text') as VerifyFormat);
}

/** Where `record` leaves traces and the verbs that read them look. */
export const TRACE_DIRECTORY = 'elftrace.data';

export const traceSize = (value: number): number => {
  if (!Number.isSafeInteger(value) || value < 1) throw new ElftraceError('usage', '--size takes a number of bytes');
  return value;
};

export const listOf = (describe: string) => ({ type: 'string', array: true, nargs: 1, describe }) as const;

const matchOption = {
  choices: ['glob', 'regex'],
  default: 'glob',
  describe: 'how functions are named',
} as const;

/** What of a program is recorded, as uftrace has it. */
export const choiceOptions = {
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
export function traceOptions<T>(parser: Argv<T>) {
  return parser
    .positional('dir', { type: 'string', default: TRACE_DIRECTORY, describe: 'directory of the trace' })
    .option('object', listOf('traced program or library, patched or not, where it is no longer where it was'))
    .option('root', listOf('directory in which programs, libraries and their debugging information are looked for'))
    .option('symbols', { type: 'string', describe: 'names for a stripped program, as record took them' });
}

/** What of a trace is shown, as uftrace has it. */
export function callSelection<T>(parser: Argv<T>) {
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
export function requests<T>(parser: Argv<T>) {
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
export function tracers<T>(parser: Argv<T>) {
  return parser
    .option('tracer', {
      type: 'string',
      default: 'function',
      describe: 'function, function_graph, counter, or a function',
    })
    .option('clock', {
      choices: ['machine', 'none'] as const,
      describe: "times of records: the machine's own, or none",
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
export function filesFrom<T>(parser: Argv<T>) {
  return parser.option('files-from', {
    type: 'string',
    array: true,
    nargs: 1,
    describe: 'file with one path a line, or NUL-separated; - is standard input',
  });
}

/** Which plans are carried out. */
export function planLimits<T>(parser: Argv<T>) {
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
export function patchForms<T>(parser: Argv<T>) {
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
export function raceThreads<T>(parser: Argv<T>) {
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
export function raceBounds<T>(parser: Argv<T>) {
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
