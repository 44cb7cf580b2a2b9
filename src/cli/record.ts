/**
 * `elftrace record PROGRAM [ARGS]`: patches the program so that it writes its own trace, into a
 * cache, runs it in place of the original, and says what came of it; `-o FILE` only writes the
 * patched program, for another day or another machine. The program's output, standard input and
 * exit status are its own.
 */
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { endianness, constants as system } from 'node:os';
import { basename, delimiter, join, resolve } from 'node:path';
import { DT_RPATH, DT_RUNPATH } from '../elf/constants.js';
import { ElftraceError } from '../errors.js';
import { type LaidIn, layIn } from '../native/lay-in.js';
import { dynamicStrings, refused } from '../native/refuse.js';
import type { NativeTracer, TraceClock } from '../native/reader.js';
import { writeOutputs } from '../output/commit.js';
import { keepDirectoryAs, makeDirectory } from '../output/directory.js';
import { ioError } from '../output/target.js';
import { jsonSchema, refusalsJson } from '../report/json.js';
import { version } from '../version.js';
import { cacheFolder } from './cache.js';
import { isEverything } from '../native/choice.js';
import { HEADER_BYTES, SPARES } from '../native/layout.js';
import { makeSpares, removeSpares } from '../output/spares.js';
import { type ChoiceOptions, choiceFor, choiceOf, writeChoice } from './record-choice.js';
import { checkGuards } from './record-guards.js';
import { errorLine, exitCodes } from './exit.js';
import { outputPath, readInput } from './files.js';
import { lostCalls, RUN_FILE, type RunFacts, runFacts, traceFiles } from './native-trace.js';
import { hash } from './hash.js';
import { open, type Opened } from './open.js';
import { selectSites, type SelectionOptions } from './selection.js';
import { err, flush, out } from './terminal.js';

export interface RecordArguments extends SelectionOptions, ChoiceOptions {
  readonly path: string;
  readonly arguments: readonly string[];
  readonly symbols?: string | undefined;
  readonly tracer: NativeTracer;
  readonly clock: TraceClock;
  readonly dir: string;
  readonly size?: number | undefined;
  readonly policy: 'stop' | 'ring';
  readonly output?: string | undefined;
  readonly choice?: string | undefined;
  readonly json: boolean;
}

/** The smallest file in which old records make room for new ones. */
const RING_MIN = 1 << 18;
/** What is recorded, beside the trace. */
const CHOICE_FILE = 'elftrace.choice';

export async function runRecord(args: RecordArguments): Promise<number> {
  if (args.choice !== undefined) {
    if (args.output !== undefined) throw new ElftraceError('usage', '--choice goes without -o');
    const { choice } = args;
    return sayingRefusals(args, () => writeChoice(args, [args.path, ...args.arguments], choice));
  }
  if (args.output !== undefined && !isEverything(choiceOf(args))) {
    throw new ElftraceError(
      'usage',
      'what is recorded is chosen when the program runs: -o patches it, --choice FILE writes the choice',
    );
  }
  const { output } = args;
  if (output !== undefined) return sayingRefusals(args, () => writePatched(args, output));
  if (args.json) {
    throw new ElftraceError('usage', "--json goes with -o or --choice: the standard output is the program's");
  }
  try {
    return await runPatched(args);
  } catch (error) {
    // The other codes are the program's.
    err(errorLine(error, findProgram(args.path)));
    return exitCodes.runFailed;
  }
}

async function sayingRefusals(args: RecordArguments, action: () => Promise<number>): Promise<number> {
  try {
    return await action();
  } catch (error) {
    if (args.json && error instanceof ElftraceError) sayRefused(args.path, error);
    throw error;
  }
}

/** The reason for programs; the caller says it for people. */
function sayRefused(file: string, { code, message, context }: ElftraceError): void {
  out(JSON.stringify({ schema: jsonSchema, file, refused: { code, reason: context.reason ?? code, message } }));
}

/** A program as a shell finds it. */
function findProgram(name: string): string {
  if (name.includes('/')) return name;
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const path = join(folder, name);
    if (fs.statSync(path, { throwIfNoEntry: false })?.isFile()) return path;
  }
  return name;
}

/** What may be sites and is not traced, with words for programs. */
const leftOff = ({ tables }: Opened['sites']) =>
  tables.flatMap(({ leftOff: count = 0 }) =>
    count === 0
      ? []
      : [
          {
            count,
            reason: 'no-start',
            message: 'with nops are left off: nothing tells that functions begin there',
          },
        ],
  );

interface Patched {
  readonly opened: Opened;
  readonly path: string;
  readonly laid: LaidIn;
}

/** Decides the whole patch; nothing is written. */
async function patched(args: RecordArguments, program: string): Promise<Patched> {
  const input = await readInput(program);
  const path = fs.realpathSync(program);
  const SET_USER_OR_GROUP = 0o6000;
  if ((fs.statSync(path).mode & SET_USER_OR_GROUP) !== 0) {
    throw refused('set-id', `${program} runs with the rights of its owner: a program of that kind writes no trace`);
  }
  checkGuards([program, path]);
  const opened = await open(input, args);
  const selection = selectSites(opened.sites, opened.module, args);
  const { tracer, clock } = args;
  const laid = layIn(opened.sites, { name: path, tracer, clock, hash, ...(selection ? { selection } : {}) });
  for (const { function: name, code, reason } of laid.plan.refusals) {
    err(`${program} (${name}): notice: not traced: ${code}: ${reason}`);
  }
  for (const remark of opened.sites.tables.flatMap(({ remarks }) => remarks)) err(`${program}: notice: ${remark}`);
  for (const { count, message } of leftOff(opened.sites)) err(`${program}: notice: ${count} places ${message}`);
  if (laid.clearsShadowStacks) {
    err(`${program}: notice: the program asked for shadow stacks, and does not any more: returns lead through stubs`);
  }
  return { opened, path, laid };
}

const WRITES: Readonly<Record<NativeTracer, string>> = {
  function: 'write their calls',
  function_graph: 'write their calls and returns',
  counter: 'write how often they are called',
};

async function writePatched(args: RecordArguments, wanted: string): Promise<number> {
  if (args.arguments.length > 0) throw new ElftraceError('usage', '-o only writes the program: it takes no arguments');
  // A file is meant, as in other verbs that write one.
  const program = fs.existsSync(args.path) ? args.path : findProgram(args.path);
  const output = outputPath(program, wanted, false);
  const { laid, opened } = await patched(args, program);
  const { plan, id, bytes } = laid;
  const notices = await writeOutputs([{ path: output, bytes, like: program, executable: true }]);
  for (const notice of notices) err(`${program}: notice: ${notice}`);
  if (args.json) {
    const counts = { traced: plan.changed, refusals: refusalsJson(plan), leftOff: leftOff(opened.sites) };
    out(
      JSON.stringify({
        schema: jsonSchema,
        file: args.path,
        output,
        id,
        tracer: args.tracer,
        clock: args.tracer === 'counter' ? 'none' : args.clock,
        ...counts,
      }),
    );
  } else {
    const left = plan.refusals.length > 0 ? `, ${plan.refusals.length} refused` : '';
    out(`${output}: ${plan.changed} functions ${WRITES[args.tracer]} to the directory that ELFTRACE_DIR names${left}`);
  }
  return exitCodes.ok;
}

/** The patched program in the cache, written where it is not there yet. */
async function intoCache({ path, laid }: Patched): Promise<string> {
  const folder = join(cacheFolder(), `${laid.id.slice(0, 16)}-${hash(laid.bytes).slice(0, 16)}`);
  const file = join(folder, basename(path));
  makeDirectory(folder);
  const known = fs.statSync(file, { throwIfNoEntry: false });
  const isThere = known?.size === laid.bytes.length && Buffer.compare(fs.readFileSync(file), laid.bytes) === 0;
  if (!isThere) await writeOutputs([{ path: file, bytes: laid.bytes, like: path, executable: true }]);
  return file;
}

/** An empty directory for the trace; one of an earlier run is kept as DIR.old, as uftrace does. */
function prepareDirectory(dir: string): string {
  const path = resolve(dir);
  const isOurs = (each: string): boolean => runFacts(each) !== null;
  if (fs.existsSync(path) && fs.readdirSync(path).length > 0) {
    const old = `${path}.old`;
    if (!isOurs(path) || (fs.existsSync(old) && !isOurs(old))) {
      throw new ElftraceError(
        'usage',
        `${isOurs(path) ? old : dir} holds something else than a trace: name another directory with -d`,
      );
    }
    keepDirectoryAs(path, old);
  }
  makeDirectory(path);
  return path;
}

/** Libraries that the program looks for beside itself would be looked for beside the cache. */
function checkOrigin({ image }: Opened): void {
  const paths = [DT_RUNPATH, DT_RPATH].flatMap((tag) => dynamicStrings(image, tag));
  if (paths.some((each) => /\$\{?ORIGIN/.test(each))) {
    throw refused(
      'origin',
      'the program looks for libraries beside itself ($ORIGIN): write it there with -o, and run that',
    );
  }
}

/** Targets by names of processors, where Node's own tell them apart. */
const TARGETS_HERE: Readonly<Record<string, string>> = {
  x64: 'x86-64',
  arm64: 'arm64',
  riscv64: 'riscv64',
  ppc64: endianness() === 'LE' ? 'ppc64-elfv2-le' : 'ppc64-elfv1',
};

/** What is started and is none of this machine would be taken for a script of a shell. */
function checkMachine({ sites }: Opened): void {
  const { id, title } = sites.program.arch.target;
  if (TARGETS_HERE[process.arch] === id) return;
  throw refused(
    'other-machine',
    `the program is one of ${title}, this machine is ${process.arch}: write it with -o, and run it on such a machine`,
  );
}

async function runPatched(args: RecordArguments): Promise<number> {
  if (args.policy === 'ring' && args.tracer === 'counter') {
    throw refused('counts', '--policy ring: where calls are counted, files do not grow');
  }
  if (args.policy === 'ring' && (args.size ?? 0) < RING_MIN) {
    throw new ElftraceError('usage', `--policy ring needs --size, of at least ${RING_MIN} bytes`);
  }
  const program = findProgram(args.path);
  const made = await patched(args, program);
  checkMachine(made.opened);
  checkOrigin(made.opened);
  const choice = await choiceFor(args, made.opened, made.laid.id, args.tracer);
  const file = await intoCache(made);
  const dir = prepareDirectory(args.dir);
  const facts = {
    schema: 1,
    command: [args.path, ...args.arguments],
    program: made.path,
    patched: file,
    id: made.laid.id,
    ...(args.symbols === undefined ? {} : { symbols: resolve(args.symbols) }),
  } as const;
  const say = async (exit: number | null): Promise<void> => {
    const text = `${JSON.stringify({ ...facts, tool: version, exit } satisfies RunFacts & { tool: string })}\n`;
    await writeOutputs([{ path: join(dir, RUN_FILE), bytes: new TextEncoder().encode(text) }]);
  };
  await say(null);
  const environment: NodeJS.ProcessEnv = { ...process.env, ELFTRACE_DIR: dir };
  delete environment['ELFTRACE_OFF'];
  delete environment['ELFTRACE_CHOICE'];
  if (choice !== null) {
    const path = join(dir, CHOICE_FILE);
    await writeOutputs([{ path, bytes: choice }]);
    environment['ELFTRACE_CHOICE'] = path;
  }
  const spares = SPARES.names.map((name) => join(dir, name));
  makeSpares(spares, SPARES.magic, HEADER_BYTES);
  if (args.size !== undefined) environment['ELFTRACE_SIZE'] = String(args.size);
  environment['ELFTRACE_POLICY'] = args.policy;
  flush();
  const status = await runProgram(file, args, environment);
  removeSpares(spares);
  await say(status);
  if (traceFiles(dir).length === 0) {
    const sandbox = isInSandbox() ? ', or it began in a sandbox (ELFTRACE_SANDBOX=trace traces it all the same)' : '';
    const lost = lostCalls(dir);
    if (lost > 0) err(`${args.path}: notice: ${lost} calls or more were not recorded: their processes had no file`);
    err(
      `${args.path}: error: the program wrote no trace into ${args.dir}: no traced function ran, or its files could not be made${sandbox}`,
    );
  }
  return status;
}

/** Whether there are filters of system calls over us that the first process has not (RT-59). */
function isInSandbox(): boolean {
  const filtersOf = (process: string): string | undefined => {
    try {
      const status = fs.readFileSync(`/proc/${process}/status`, 'utf8');
      return (/^Seccomp_filters:\s*(\d+)/m.exec(status) ?? /^Seccomp:\s*(\d+)/m.exec(status))?.[1];
    } catch {
      return undefined;
    }
  };
  const ours = filtersOf('self') ?? '0';
  return ours !== '0' && ours !== filtersOf('1');
}

/** Runs it with our standard streams. @returns its exit status as shells count */
function runProgram(file: string, args: RecordArguments, env: NodeJS.ProcessEnv): Promise<number> {
  const passed = ['SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGHUP'] as const;
  return new Promise((done, fail) => {
    const child = spawn(file, [...args.arguments], { argv0: args.path, stdio: 'inherit', env });
    // A terminal sends its signals to both; what was sent to us alone goes on to the program.
    const forward = (signal: NodeJS.Signals): void => {
      if (signal === 'SIGTERM' || signal === 'SIGHUP') child.kill(signal);
    };
    for (const signal of passed) process.on(signal, forward);
    const stop = (): void => {
      for (const signal of passed) process.off(signal, forward);
    };
    child.on('error', (cause) => {
      stop();
      fail(ioError(file, 'read', cause));
    });
    child.on('close', (code, signal) => {
      stop();
      done(code ?? 128 + system.signals[signal!]);
    });
  });
}
