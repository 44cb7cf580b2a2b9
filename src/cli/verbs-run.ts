/** Verbs that run programs and read their traces, with their words and options. */
import type { Argv } from 'yargs';
import { DeclaredVerbs } from './declared.js';
import { limitOptions } from './limits.js';
import { machineOptionsIn, machineOptionsOf } from './machine-options.js';
import {
  common,
  selection,
  TRACE_DIRECTORY,
  traceSize,
  listOf,
  choiceOptions,
  traceOptions,
  callSelection,
  raceThreads,
  raceBounds,
} from './options.js';

/** What a program that is emulated finds around it. */
function guestTree<T>(parser: Argv<T>) {
  return parser
    .option('env', {
      type: 'string',
      array: true,
      nargs: 1,
      describe: 'NAME=VALUE of the environment; none else',
    })
    .option('root', {
      type: 'string',
      describe: "directory that is the program's /, read-only; without it no files",
    })
    .option('write', {
      type: 'string',
      describe: 'directory that keeps what the program writes; --root stays as it is',
    })
    .option('chdir', { type: 'string', describe: 'directory of the tree that the program begins in; /' });
}

export const runVerbs = new DeclaredVerbs()
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
    async (args, guest) => (await import('./cost.js')).runCost({ ...args, arguments: guest }),
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
    async (args) => (await import('./race.js')).runRace({ ...args, machine: machineOptionsIn(args) }),
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
    async (args, guest) =>
      (await import('./record.js')).runRecord({ ...args, arguments: guest, dir: args.d, output: args.o }),
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
    async (args) => (await import('./replay.js')).runReplay({ ...args }),
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
    async (args) => (await import('./report.js')).runReport({ ...args, sort: args.s, fields: args.f }),
  )
  .command(
    'graph [dir]',
    'the calls of a trace by their callers',
    (y) => callSelection(y).example('$0 graph', 'a tree of calls with their numbers and times'),
    async (args) => (await import('./graph.js')).runGraph({ ...args }),
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
    async (args) => (await import('./export.js')).runExport({ ...args, output: args.o }),
  )
  .command(
    'run <path> [arguments..]',
    'execute a program in the emulator',
    (y) =>
      guestTree(
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
          }),
      )
        .option('call', { type: 'string', describe: "call one function: 'f(1,2)', integers and strings" })
        .option('compare', {
          type: 'string',
          describe: 'run this image too: 0 equal, 1 different, 125 nothing proved',
        })
        .option('compare-ignore', { type: 'string', describe: 'lines of output that match do not count' })
        .option('profile', {
          type: 'boolean',
          default: false,
          describe: 'instructions by function, on standard error',
        })
        .option('profile-file', { type: 'string', describe: 'the same for all functions, to a file' })
        .option('trace', { type: 'string', describe: 'file for calls and returns' })
        .option('trace-source', { type: 'string', default: 'guest', describe: 'oracle: recorded by the machine' })
        .option('format', { type: 'string', describe: 'ndjson, folded, ftrace, graph, chrome or perfetto' })
        .option('guest-output', { type: 'string', describe: "file for the program's standard output" })
        .option('json-status', {
          type: 'string',
          describe: 'file for exit status, instruction count and stop reason',
        })
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
    async (args, guest) => (await import('./run.js')).runRun({ ...args, arguments: guest }),
  );
