/**
 * `elftrace run IMAGE [ARGS]`: executes a program, or one function of an image, in the emulator
 * (`running/`). The guest's output is ours, its exit status too; a run that could not be done ends
 * with 125 and says where it stopped. With `--compare` two images run and the exit status says
 * whether they did the same.
 */
import { type FileSystem, type GuestInput, PID, type Process, systemCalls } from '../guest/index.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { limitExceeded } from '../limits/index.js';
import { visibleJson, visibleLine } from '../visible.js';
import { filesBelow, pathInTree } from '../output/guest-files.js';
import { overlayOf } from '../output/guest-overlay.js';
import { withMemoryFolder } from '../output/memory-folder.js';
import { writeOutputs } from '../output/commit.js';
import { openOutput, type OutputStream } from '../output/stream.js';
import { jsonSchema, type Json } from '../report/json.js';
import { systemCallLines } from '../report/system-calls.js';
import { compareRuns, type Comparison, type RunDifference, type RunResult } from '../running/compare.js';
import { execute, type Execution, type RunOptions, type RunRequest } from '../running/execute.js';
import { enabledSites, graphOverruns, guestRing, writeGuestTrace } from '../running/guest-trace.js';
import { functionName, kernelAddress, nameAt, place } from '../running/image.js';
import { type End, endText, stopPlace } from '../running/outcome.js';
import { probeEvent } from '../running/probe-events.js';
import {
  isTraceFormat,
  profile,
  type ProfileRow,
  taskName,
  type TraceFormat,
  traceFormats,
  type TraceHeader,
  type TraceSink,
  traceWriter,
} from '../trace/index.js';
import { parseCall } from './call-expression.js';
import { compileLate, extendWebAssembly, LATE_FOR_PROGRAMS } from './compile-late.js';
import { oneLine } from './disassembly.js';
import { dateOf, dateText } from './date.js';
import { exitCodes } from './exit.js';
import { readInputBytes, replayedInput } from './guest-input.js';
import { commandDeadline, commandLimits } from './limits.js';
import { hash } from './hash.js';
import { Pace } from './pace.js';
import { type KeptRun, keptRun } from './kept-translations.js';
import { loadImage, type Loaded } from './run-image.js';
import { linePattern } from './patterns.js';
import { profileJson, profileNotices } from './probe-counts.js';
import { err, errBytes, flush, out, outBytes } from './terminal.js';

export interface RunArguments {
  readonly path: string;
  readonly arguments: readonly string[];
  readonly tier: string;
  readonly cpu?: string | undefined;
  readonly seed?: string | undefined;
  readonly slice?: string | undefined;
  readonly date?: string | undefined;
  readonly env?: readonly string[] | undefined;
  readonly root?: string | undefined;
  readonly write?: string | undefined;
  readonly chdir?: string | undefined;
  readonly jsonStatus?: string | undefined;
  readonly call?: string | undefined;
  readonly compare?: string | undefined;
  readonly compareIgnore?: string | undefined;
  readonly profile: boolean;
  readonly profileFile?: string | undefined;
  readonly trace?: string | undefined;
  readonly traceSource: string;
  readonly format?: string | undefined;
  readonly guestOutput?: string | undefined;
  readonly listSyscalls: boolean;
  readonly can: boolean;
  readonly json: boolean;
}

/** Values of `--tier`. */
const TIERS = [
  ['auto', 'auto'],
  ['0', 0],
  ['1', 1],
] as const;

/** Functions of a profile on standard error. */
const PROFILE_LINES = 20;

// ----------------------------------------------------------------------------------------- request

/** The arguments after they were checked. */
interface Request extends RunRequest {
  readonly ignore: string | null;
  readonly trace: {
    readonly path: string;
    readonly format: TraceFormat;
    readonly source: 'guest' | 'oracle';
  } | null;
  readonly profile: boolean;
}

function checkTrace(args: RunArguments): Request['trace'] {
  const { format = 'ndjson', traceSource: source } = args;
  if (source !== 'oracle' && source !== 'guest') {
    throw new ElftraceError('usage', `--trace-source ${source}: guest or oracle`);
  }
  if (args.trace === undefined) {
    if (args.format !== undefined)
      throw new ElftraceError('usage', '--format says how a trace is written: name one with --trace');
    return null;
  }
  if (!isTraceFormat(format)) {
    throw new ElftraceError('usage', `--format ${format} is not known: ${Object.keys(traceFormats).join(', ')}`);
  }
  if (args.trace === '-' && args.compare === undefined && args.guestOutput === undefined) {
    throw new ElftraceError(
      'usage',
      "--trace - would mix with the program's output: name a file, or move the output with --guest-output FILE",
    );
  }
  return { path: args.trace, format, source };
}

/** A number of an option, from `least` to 2^32 - 1. */
function wholeNumber(option: string, text: string, least: number): number {
  const value = /^[0-9]{1,10}$/.test(text) ? Number(text) : -1;
  if (value < least || value > 0xffff_ffff) {
    throw new ElftraceError('usage', `${option} ${text}: a number from ${least} to 4294967295`, { value: text });
  }
  return value;
}

/** The tree of the program; undefined: it has none. */
function treeOf({ root, write, chdir, compare }: RunArguments): FileSystem | undefined {
  if (write !== undefined && root === undefined) throw new ElftraceError('usage', '--write goes with --root');
  if (write !== undefined && compare !== undefined) {
    throw new ElftraceError(
      'usage',
      '--write does not go with --compare: the second run would find what the first wrote',
    );
  }
  if (root === undefined) {
    if (chdir !== undefined) throw new ElftraceError('usage', '--chdir goes with --root');
    return undefined;
  }
  const tree = filesBelow(root);
  return write === undefined ? tree : overlayOf(withMemoryFolder(tree), write, commandLimits().output);
}

/**
 * Checks the arguments without looking at any image.
 * @throws ElftraceError 'usage', or 'io' for a root that is no directory
 */
export function checkRequest(args: RunArguments): Request {
  const tier = TIERS.find(([name]) => name === args.tier)?.[1];
  if (tier === undefined) throw new ElftraceError('usage', `--tier ${args.tier}: auto, 0 or 1`);
  const env = args.env ?? [];
  for (const each of env) {
    if (!/^[^=]+=/.test(each)) throw new ElftraceError('usage', `--env ${each}: write NAME=VALUE`);
  }
  if (args.compareIgnore !== undefined && args.compare === undefined) {
    throw new ElftraceError('usage', '--compare-ignore goes with --compare');
  }
  if (args.json && !args.can) throw new ElftraceError('usage', '--json goes with --can; --json-status FILE with runs');
  return {
    budget: Math.min(commandLimits().instructions, Number.MAX_SAFE_INTEGER),
    tier,
    slices: {
      ...(args.seed !== undefined && { seed: wholeNumber('--seed', args.seed, 0) }),
      ...(args.slice !== undefined && { instructions: wholeNumber('--slice', args.slice, 1) }),
    },
    date: args.date === undefined ? null : dateOf(args.date),
    env,
    files: treeOf(args),
    directory: args.chdir ?? '/',
    call: args.call === undefined ? null : parseCall(args.call),
    ignore: args.compareIgnore ?? null,
    trace: checkTrace(args),
    profile: args.profile || args.profileFile !== undefined,
  };
}

// -------------------------------------------------------------------------------------------- ends

function exitOf(end: End): number {
  switch (end.kind) {
    case 'exit':
      return end.code;
    case 'signal':
      return 128 + end.signal;
    case 'returned':
      return exitCodes.ok;
    case 'failed':
      return exitCodes.runFailed;
    default:
      return end satisfies never;
  }
}

/** Instruction and callers of a stop, for people and for the status. */
async function where(
  loaded: Loaded,
  guest: Process,
  at: bigint,
): Promise<{ lines: string[]; json: Record<string, Json> }> {
  const { code, callers } = stopPlace(loaded, guest, at);
  const text = await oneLine(loaded.arch, code, at);
  const lines = text === '' ? [] : [`  ${place(loaded, guest, at)}: ${hexBytes(code)}  ${text}`];
  for (const each of callers) lines.push(`  called from ${place(loaded, guest, each)}`);
  const frame = (address: bigint): Json => ({ address: hex(address), function: nameAt(loaded, guest, address) });
  return {
    lines,
    json: {
      function: nameAt(loaded, guest, at),
      ...(code.length === 0 ? {} : { bytes: hexBytes(code), text }),
      backtrace: callers.map(frame),
    },
  };
}

// ------------------------------------------------------------------------------------------ output

/**
 * A trace or profile that is written piece by piece, as long as it may be; `-` is standard output.
 */
function traceOutput(path: string): OutputStream {
  const output = path === '-' ? { write: outBytes, close: flush } : openOutput(path);
  const most = commandLimits().trace;
  let size = 0;
  return {
    write: (bytes) => {
      size += bytes.length;
      if (size > most) throw limitExceeded('trace', path, most, { file: path, value: size });
      output.write(bytes);
    },
    close: output.close,
  };
}

function profileLines(rows: readonly ProfileRow[], instructions: number): string[] {
  const percent = (value: number): string => ((100 * value) / Math.max(1, instructions)).toFixed(1).padStart(5);
  return [
    `${'self'.padStart(14)} ${'%'.padStart(5)} ${'total'.padStart(14)} ${'%'.padStart(5)} ${'calls'.padStart(10)}  function`,
    ...rows.map(
      (row) =>
        `${String(row.self).padStart(14)} ${percent(row.self)} ${String(row.total).padStart(14)} ${percent(row.total)} ` +
        `${String(row.calls).padStart(10)}  ${row.function?.name ?? '[outside]'}`,
    ),
  ];
}

function callText(expression: string, result: bigint, wordBytes: number): string {
  return `${expression.trim()} = ${BigInt.asIntN(8 * wordBytes, result)} (${hex(result)})`;
}

function differenceLine(name: string, original: string, difference: RunDifference): string[] {
  const quote = (text: string | null): string => (text === null ? 'nothing' : JSON.stringify(text));
  if (difference.what === 'end') {
    return [`${name}: ${difference.here ?? ''}, but ${original}: ${difference.original ?? ''}`];
  }
  return [
    `${name}: ${difference.what} differs from that of ${original} at line ${difference.line ?? 0}`,
    `  here:     ${quote(difference.here)}`,
    `  original: ${quote(difference.original)}`,
  ];
}

/** Exit codes of `--compare`. */
const comparisonExits = {
  equal: exitCodes.ok,
  different: exitCodes.failed,
  inconclusive: exitCodes.runFailed,
} as const satisfies Record<Comparison['result'], number>;

/** The answer that is not `equal`, for people. */
function comparisonLines(name: string, original: string, comparison: Comparison): string[] {
  if (comparison.result === 'equal') return [];
  if (comparison.result === 'different') return differenceLine(name, original, comparison.difference);
  const { reasons, difference } = comparison;
  const names = { here: name, original: `${original} (original)` };
  const each = reasons.map(({ side, what, why, instruction, function: owner, count }) => {
    const at = instruction === null ? '' : ` at ${instruction}${owner === '' ? '' : ` (${owner})`}`;
    return `  ${names[side]}: ${what}${at}: ${why}${count > 1 ? `, ${count} times` : ''}`;
  });
  const differing = difference
    ? ['What they did differs nevertheless:', ...differenceLine(name, original, difference)]
    : [];
  return ['warning: inconclusive, nothing is proved:', ...each, ...differing];
}

function comparisonJson(comparison: Comparison): Record<string, Json> {
  const { result, lines } = comparison;
  const difference = result === 'equal' ? null : comparison.difference;
  return {
    result,
    equal: result === 'inconclusive' ? null : result === 'equal',
    lines: { ...lines },
    ...(result === 'inconclusive' ? { reasons: comparison.reasons.map((each): Json => ({ ...each })) } : {}),
    ...(difference ? { difference: { ...difference } } : {}),
  };
}

function linesText({ lines }: Comparison): string {
  const ignored = lines.ignored > 0 ? ` (${lines.ignored} more ignored)` : '';
  return `${lines.compared} lines of output${ignored}`;
}

const resultOf = ({ outcome, doubts }: Execution, from: Capture): RunResult => ({
  end: endText(outcome.end),
  stdout: from.of(1),
  stderr: from.of(2),
  doubts,
});

/** `exit`, `signal`, `instructions` … of one run. */
function statusJson(
  loaded: Loaded,
  execution: Execution,
  details: Readonly<Record<string, Json>>,
): Record<string, Json> {
  const { end, stop } = execution.outcome;
  return {
    exit: end.kind === 'signal' ? null : exitOf(end),
    ...(end.kind === 'signal' ? { signal: end.signal } : {}),
    instructions: execution.guest.instructions,
    seconds: execution.seconds,
    tier: execution.guest.machine.tierReached,
    deviations: execution.doubts
      .filter((each) => each.kind !== 'stop' && each.kind !== 'call')
      .map((each): Json => ({ ...each })),
    stop: { ...details, ...(stop as Record<string, Json>) },
    ...(execution.probes === null ? {} : { probes: execution.probes.profile().map((each) => profileJson(each)) }),
    ...(end.kind === 'returned'
      ? {
          result: {
            value: BigInt.asIntN(8 * loaded.arch.target.wordBytes, end.result).toString(),
            hex: hex(end.result),
          },
        }
      : {}),
  };
}

interface Capture {
  readonly receive: (descriptor: number, bytes: Uint8Array) => void;
  readonly of: (descriptor: number) => Uint8Array;
}

function capture(): Capture {
  const pieces: { readonly descriptor: number; readonly bytes: Uint8Array }[] = [];
  return {
    receive: (descriptor, bytes) => {
      pieces.push({ descriptor, bytes });
    },
    of: (descriptor) =>
      Buffer.concat(pieces.filter((each) => each.descriptor === descriptor).map((each) => each.bytes)),
  };
}

/** What takes the calls that the machine sees: the trace of `--trace`, counts of `--profile`. */
function oracleSinks(
  { trace }: Request,
  file: OutputStream | null,
  counts: ReturnType<typeof profile> | null,
  image: string,
): RunOptions['oracle'] {
  return (nameOf) => {
    const sinks: TraceSink[] = counts ? [counts] : [];
    if (trace?.source === 'oracle' && file) {
      const header: TraceHeader = {
        source: 'oracle',
        image,
        clock: 'instructions',
        nested: true,
        losses: null,
        process: Number(PID),
        nameOf,
      };
      sinks.push(traceWriter(trace.format, file.write, header));
    }
    return sinks;
  };
}

/** Writes what the tracer in the image recorded. */
function writeRing(write: OutputStream['write'], format: TraceFormat, loaded: Loaded, execution: Execution): void {
  const { program, arch, input: file } = loaded;
  const { guest, functions, probes } = execution;
  const notices = writeGuestTrace(write, {
    ring: guestRing(program, arch, guest),
    format,
    image: file.name,
    functions,
    nameOf: (address) => functionName(loaded, guest, address),
    enabled: () => enabledSites(program),
    overruns: graphOverruns(program, arch, guest),
    probes: (record) => probeEvent(probes, record, taskName(file.name), (address) => nameAt(loaded, guest, address)),
  });
  for (const notice of [...notices, ...profileNotices(probes)]) err(`${file.name}: notice: ${notice}`);
}

/** Says how a run ended; gives what the status says of the place. */
async function reportEnd(loaded: Loaded, { outcome, guest }: Execution): Promise<Record<string, Json>> {
  if (outcome.message !== null) err(`${loaded.input.name}: ${outcome.message}`);
  if (outcome.at === null) return {};
  const { lines, json } = await where(loaded, guest, outcome.at);
  for (const line of lines) err(line);
  return json;
}

/** What a run needs of the command: limits, the clock, and where to speak. */
function systemOf(
  { input: { name } }: Loaded,
  label: string,
): Pick<RunOptions, 'name' | 'limits' | 'pace' | 'hash' | 'warning' | 'notice'> {
  return {
    name,
    limits: commandLimits(),
    pace: () => new Pace(commandDeadline()),
    hash,
    warning: (text) => {
      err(`${label}: warning: ${text}`);
    },
    notice: (text) => {
      err(`${name}: notice: ${text}`);
    },
  };
}

/** Translations of a program that runs as users run it. */
const keptOf = ({ tier, cpu }: RunArguments, { input, arch }: Loaded): KeptRun | null =>
  tier === 'auto' ? keptRun(input.path, arch.target.id, cpu) : null;

/** Both images of `--compare`, or the one of a plain run. */
interface Runs {
  readonly loaded: Loaded;
  readonly original: Loaded | null;
  readonly request: Request;
  readonly argv: readonly string[];
}

/** What the first run of a comparison did and wrote. */
interface FirstRun {
  readonly execution: Execution;
  readonly captured: Capture;
  /** Gives the second run the bytes that the first one read. */
  readonly input: GuestInput;
  readonly ignore: Parameters<typeof compareRuns>[2];
}

/** Runs the original, too, and compares; says the answer. */
async function compareWith(args: RunArguments, original: Loaded, { loaded, request, argv }: Runs, first: FirstRun) {
  const captured = capture();
  const kept = keptOf(args, original);
  const other = await execute(original, {
    ...systemOf(original, `${original.input.name} (original)`),
    argv,
    script: null,
    request,
    onInput: first.input,
    onOutput: captured.receive,
    oracle: () => [],
    named: false,
    kept: kept?.kept,
  });
  kept?.end();
  const details = await reportEnd(original, other);
  const results = [resultOf(first.execution, first.captured), resultOf(other, captured)] as const;
  const comparison = compareRuns(...results, first.ignore, commandDeadline());
  if (comparison.result !== 'equal') {
    for (const line of comparisonLines(loaded.input.name, original.input.name, comparison)) err(line);
  } else if (request.trace?.path !== '-') {
    const { outcome, guest } = first.execution;
    out(
      `equal: ${endText(outcome.end)}, ${linesText(comparison)}, ` +
        `${guest.instructions} and ${other.guest.instructions} instructions` +
        (request.call ? '; memory was not compared' : ''),
    );
  }
  return {
    exit: comparisonExits[comparison.result],
    json: { ...comparisonJson(comparison), original: statusJson(original, other, details) },
  };
}

/** The profile, on standard error or as a file. */
function sayProfile(rows: readonly ProfileRow[], instructions: number, path: string | undefined): void {
  if (path === undefined) {
    for (const line of profileLines(rows.slice(0, PROFILE_LINES), instructions)) err(line);
    if (rows.length > PROFILE_LINES) err(`${'…'.padStart(14)} and ${rows.length - PROFILE_LINES} functions more`);
    return;
  }
  const file = traceOutput(path);
  file.write(new TextEncoder().encode(`${profileLines(rows, instructions).map(visibleLine).join('\n')}\n`));
  file.close();
}

export async function runRun(args: RunArguments): Promise<number> {
  compileLate(LATE_FOR_PROGRAMS);
  extendWebAssembly();
  const request = checkRequest(args);
  const ignore = request.ignore === null ? null : await linePattern('--compare-ignore', request.ignore);
  const loaded = await loadImage(args, request);
  if (args.listSyscalls) {
    for (const line of systemCallLines(systemCalls(loaded.emulation.process))) out(line);
    return exitCodes.ok;
  }
  if (args.can) {
    const { runCan } = await import('./can.js');
    return runCan({ ...loaded, name: loaded.input.name, files: request.files }, args.json);
  }
  const original = args.compare === undefined ? null : await loadImage({ ...args, path: args.compare }, request);
  const refused = await refuseKernel(args, [loaded, original]);
  if (refused !== null) return refused;
  if (args.date === 'now') err(`${args.path}: notice: --date ${dateText(request.date!)} is this run's`);
  // Both runs of a comparison get the same name, so that a program that prints it is no different.
  const own = [pathInTree(args.path, args.root) ?? args.path, ...args.arguments];
  const argv = loaded.script?.argv ?? own;
  return runImages(args, { loaded, original, request, argv }, ignore);
}

/** Runs what was loaded, and writes what was asked for. */
async function runImages(args: RunArguments, runs: Runs, ignore: FirstRun['ignore']): Promise<number> {
  const { loaded, original, request, argv } = runs;
  const { trace } = request;
  const traceFile = trace ? traceOutput(trace.path) : null;
  const guestOutput = args.guestOutput === undefined ? null : openOutput(args.guestOutput);
  const counts = request.profile ? profile() : null;
  const input = replayedInput();
  const captured = original ? capture() : null;
  const kept = keptOf(args, loaded);
  const execution = await execute(loaded, {
    ...systemOf(loaded, loaded.input.name),
    kept: kept?.kept,
    argv,
    script: loaded.script,
    request,
    onInput: original ? input() : readInputBytes,
    onOutput: (descriptor, bytes) => {
      captured?.receive(descriptor, bytes);
      if (descriptor !== 2 && guestOutput) guestOutput.write(bytes);
      else if (captured) return;
      else if (descriptor === 2) errBytes(bytes);
      else outBytes(bytes);
    },
    oracle: oracleSinks(request, traceFile, counts, loaded.input.name),
    named: trace?.source === 'guest',
  });
  kept?.end();
  if (trace?.source === 'guest' && traceFile) writeRing(traceFile.write, trace.format, loaded, execution);
  traceFile?.close();
  guestOutput?.close();
  const { end } = execution.outcome;
  const details = await reportEnd(loaded, execution);
  const status: Record<string, Json> = { schema: jsonSchema, ...statusJson(loaded, execution, details) };
  let exit = exitOf(end);
  if (original && captured) {
    const compared = await compareWith(args, original, runs, { execution, captured, input: input(), ignore });
    status['compare'] = compared.json;
    exit = compared.exit;
  } else if (end.kind === 'returned' && args.call !== undefined) {
    const line = callText(args.call, end.result, loaded.arch.target.wordBytes);
    if (trace?.path === '-') err(line);
    else out(line);
  }
  if (counts) sayProfile(counts.rows(), execution.guest.machine.totalInstructions, args.profileFile);
  await writeStatus(args, status);
  return exit;
}

async function writeStatus({ jsonStatus }: RunArguments, status: Readonly<Record<string, Json>>): Promise<void> {
  if (jsonStatus === undefined) return;
  await writeOutputs([
    { path: jsonStatus, bytes: new TextEncoder().encode(`${visibleJson(JSON.stringify(status))}\n`) },
  ]);
}

/**
 * What `run` says of a kernel that it was asked to start; null when there is none among the files.
 */
async function refuseKernel(args: RunArguments, files: readonly (Loaded | null)[]): Promise<number | null> {
  for (const each of files) {
    const address = each === null || args.call !== undefined ? null : kernelAddress(each);
    if (each === null || address === null) continue;
    err(
      `${each.input.name}: this is a kernel, linked at ${hex(address)}: it starts on a machine of its own, not as a program; ` +
        "--call 'F(…)' runs one of its functions",
    );
    const status = { exit: exitCodes.runFailed, instructions: 0, seconds: 0, tier: 0, stop: { reason: 'kernel' } };
    await writeStatus(args, {
      schema: jsonSchema,
      ...status,
      ...(args.compare === undefined ? {} : { compare: { equal: null, original: status } }),
    });
    return exitCodes.runFailed;
  }
  return null;
}
