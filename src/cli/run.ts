/**
 * `elftrace run IMAGE [ARGS]`: executes a program, or one function of an image, in the emulator.
 * The guest's output is ours, its exit status too; a run that could not be done ends with 125 and
 * says where it stopped. With `--compare` two images run and the exit status says whether they did
 * the same.
 */
import type { Arch } from '../machine/arch.js';
import { loadArch, targetOf } from '../targets.js';
import { PT_LOAD } from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import {
  backtrace,
  beginCall,
  type CallOutcome,
  type GuestInput,
  type Deviation,
  type FileSystem,
  interpreterPath,
  type IrEmulation,
  type Machine,
  PID,
  type Process,
  type ProcessEvent,
  type ProcessImage,
  type RelativeRelocation,
  signalOf,
  type Slices,
  startProcess,
  type StopReason,
  systemCalls,
} from '../emulator/index.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { limitExceeded, sizeText } from '../limits/index.js';
import { visibleJson, visibleLine } from '../visible.js';
import { readRecord } from '../record/journal.js';
import { findSites } from '../sites/sites.js';
import { ProbeRun } from '../kprobes/index.js';
import { writeOutputs } from '../output/commit.js';
import { openOutput, type OutputStream } from '../output/stream.js';
import { keptTables } from '../program/kept-tables.js';
import { load, probeSections, type Program } from '../program/program.js';
import { inPlaceAddend } from '../relocs/read.js';
import { jsonSchema, type Json } from '../report/json.js';
import { systemCallLines } from '../report/system-calls.js';
import {
  isTraceFormat,
  type Oracle,
  profile,
  type ProfileRow,
  type TracedFunction,
  taskName,
  tracedFunctions,
  type TraceFormat,
  traceFormats,
  type TraceHeader,
  traceWithOracle,
  traceWriter,
  type TraceSink,
} from '../trace/index.js';
import type { Address } from '../units.js';
import { type CallExpression, parseCall } from './call-expression.js';
import { runCan } from './can.js';
import { compareRuns, type Comparison, type Doubt, type RunDifference, type RunResult } from './compare.js';
import { oneLine } from './disassembly.js';
import { exitCodes } from './exit.js';
import { type InputFile, readInput } from './files.js';
import { filesBelow, pathInTree } from '../output/guest-files.js';
import { overlayOf } from '../output/guest-overlay.js';
import { enabledSites, graphOverruns, guestRing, writeGuestTrace } from './guest-trace.js';
import { readInputBytes, replayedInput } from './guest-input.js';
import { commandDeadline, commandLimits } from './limits.js';
import { Pace } from './pace.js';
import { linePattern } from './patterns.js';
import { probeEvent, profileJson, profileNotices, recordedProbes } from './probes.js';
import { err, errBytes, flush, out, outBytes } from './terminal.js';

export interface RunArguments {
  readonly path: string;
  readonly arguments: readonly string[];
  readonly tier: string;
  readonly seed?: string | undefined;
  readonly slice?: string | undefined;
  readonly env?: readonly string[] | undefined;
  readonly root?: string | undefined;
  readonly write?: string | undefined;
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
interface Request {
  readonly budget: number;
  readonly tier: 'auto' | 0 | 1;
  readonly slices: Slices;
  readonly env: readonly string[];
  readonly files: FileSystem | undefined;
  readonly call: CallExpression | null;
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
function treeOf({ root, write, compare }: RunArguments): FileSystem | undefined {
  if (write !== undefined && root === undefined) throw new ElftraceError('usage', '--write goes with --root');
  if (write !== undefined && compare !== undefined) {
    throw new ElftraceError(
      'usage',
      '--write does not go with --compare: the second run would find what the first wrote',
    );
  }
  if (root === undefined) return undefined;
  const tree = filesBelow(root);
  return write === undefined ? tree : overlayOf(tree, write, commandLimits().output);
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
    env,
    files: treeOf(args),
    call: args.call === undefined ? null : parseCall(args.call),
    ignore: args.compareIgnore ?? null,
    trace: checkTrace(args),
    profile: args.profile || args.profileFile !== undefined,
  };
}

// ------------------------------------------------------------------------------------------- image

interface Loaded {
  readonly input: InputFile;
  readonly image: ElfImage;
  readonly arch: Arch;
  readonly emulation: IrEmulation;
  readonly program: Program;
}

async function loadImage(path: string): Promise<Loaded> {
  const input = await readInput(path, 'read');
  const image = readElf(input.bytes);
  const arch = await loadArch(image.header);
  const { emulation } = arch;
  if (emulation.kind === 'none') {
    throw new ElftraceError('unsupported-form', `${arch.target.title}: ${emulation.reason}`, { file: path });
  }
  return { input, image, arch, emulation, program: load(image, arch) };
}

/** Most bytes of a dynamic loader; those of the C libraries have a quarter of a megabyte. */
const INTERPRETER_MAX = 0x400_0000;

/**
 * The dynamic loader that the program asks for, out of the tree of `--root`; null: it is static.
 * @throws ElftraceError 'unsupported-form' when there is no tree, or no such file for this machine
 */
function interpreterOf({ image, arch }: Loaded, files: FileSystem | undefined): ElfImage | null {
  const path = interpreterPath(image);
  if (path === null) return null;
  const text = visibleLine(path);
  if (!files) {
    const why = `the program is dynamic: --root DIR names the tree with its loader ${text} and its libraries`;
    throw new ElftraceError('unsupported-form', why);
  }
  const file = files.open(path.startsWith('/') ? path : `/${path}`);
  if (typeof file === 'string') {
    throw new ElftraceError('unsupported-form', `the program's loader ${text} is not in the tree of --root (${file})`);
  }
  try {
    if (file.status.sizeBytes > INTERPRETER_MAX)
      throw new ElftraceError('unsupported-form', `${text} is no loader: too large`);
    const loader = readElf(file.read(0, INTERPRETER_MAX));
    if (targetOf(loader.header) !== arch.target.id) {
      throw new ElftraceError('unsupported-form', `the program's loader ${text} is for another machine`);
    }
    return loader;
  } finally {
    file.close();
  }
}

/**
 * What a dynamic linker would write without knowing other images: words that hold addresses of this
 * one. What a linker kept of its own work (--emit-relocs) is done already, and of debug sections it
 * names places that are not loaded. `leftOut` is called for each relocation of a dynamic table that
 * asks for more.
 */
function* relocationsOf({ image, arch }: Loaded, leftOut: () => void): Generator<RelativeRelocation> {
  const { relative, word } = arch.relocationRoles;
  const SHF_ALLOC = 2n;
  const kept = new Set(keptTables(image));
  for (const table of image.relocations) {
    if (kept.has(table)) continue;
    const isDynamic = table.section === -1 || ((image.sections[table.section]?.flags ?? 0n) & SHF_ALLOC) !== 0n;
    for (let row = 0; row < table.count; row++) {
      const address = table.offset[row]!;
      const addend = (): bigint =>
        table.addends === 'row' ? table.addend[row]! : inPlaceAddend(image, table, row, arch.target.wordBytes);
      if (table.form === 'relr' || table.type[row] === relative) yield { address, addend: addend() };
      else if (table.type[row] === word && table.symbols !== null) {
        const symbol = table.symbol[row]!;
        if (symbol !== 0 && table.symbols.sectionIndex[symbol] !== 0) {
          yield { address, addend: table.symbols.value[symbol]! + addend() };
        } else if (isDynamic && symbol !== 0) leftOut();
      } else if (isDynamic && table.type[row] !== 0) leftOut();
    }
  }
}

/** `name+0x10` of an address of the running image; '' where no function is. */
function nameAt(loaded: Loaded, guest: Process, address: bigint): string {
  const range = loaded.program.codeAt(address - guest.bias);
  return range ? loaded.program.describe(range, address - guest.bias) : '';
}

/** The same without the distance from the function's start. */
function functionName(loaded: Loaded, guest: Process, address: bigint): string {
  return nameAt(loaded, guest, address).replace(/\+0x[0-9a-f]+$/, '');
}

function place(loaded: Loaded, guest: Process, address: bigint): string {
  const name = nameAt(loaded, guest, address);
  return name === '' ? hex(address) : `${hex(address)} (${name})`;
}

// -------------------------------------------------------------------------------------------- stop

/** How a run ended: on its own accord, by a signal, or not at all. */
type End =
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'signal'; readonly signal: number }
  | { readonly kind: 'returned'; readonly result: bigint }
  | { readonly kind: 'failed' };

interface Outcome {
  readonly end: End;
  /** null when there is nothing to say. */
  readonly message: string | null;
  /** Where the run stopped; null when that does not matter. */
  readonly at: bigint | null;
  readonly stop: Readonly<Record<string, Json>>;
}

/** `output-limit`: the program wrote more than it may. */
type Stop = StopReason | { readonly kind: 'timeout' | 'output-limit' };

/** `system call tgkill (234)`: the one that the registers ask for. */
function callName({ arch, emulation }: Loaded, guest: Process): string {
  const number = Number(BigInt.asIntN(32, guest.machine.register(arch.abi.syscall.number)));
  const name = emulation.process.syscalls.get(number);
  return name === undefined ? `system call ${number}` : `system call ${name} (${number})`;
}

/** What the words about a stop need beside it. */
interface StopView {
  readonly loaded: Loaded;
  readonly guest: Process;
  /** An address as text, with the name of its place where that is known. */
  readonly here: (address: bigint) => string;
  readonly pc: bigint;
}

/** How a run ended that a limit or a hook stopped. */
function cutShort(reason: string, message: string, at: bigint, key = 'instruction'): Outcome {
  return { end: { kind: 'failed' }, message, at, stop: { reason, [key]: hex(at) } };
}

/** What each kind of stop is called, for people and in the status. */
const outcomes: {
  readonly [Kind in Stop['kind']]: (stop: Extract<Stop, { readonly kind: Kind }>, view: StopView) => Outcome;
} = {
  exit: (stop) => ({ end: stop, message: null, at: null, stop: { reason: 'exit' } }),
  signal: (stop, { here }) => ({
    end: stop,
    message: `signal ${stop.signal} raised at ${here(stop.instruction)}`,
    at: stop.instruction,
    stop: { reason: 'signal', instruction: hex(stop.instruction) },
  }),
  fault: (stop, { here }) => ({
    end: { kind: 'signal', signal: signalOf(stop)! },
    message: `${stop.access} fault at ${hex(stop.address)}, instruction ${here(stop.instruction)}`,
    at: stop.instruction,
    stop: { reason: 'fault', access: stop.access, address: hex(stop.address), instruction: hex(stop.instruction) },
  }),
  trap: (stop, { here }) => ({
    end: { kind: 'signal', signal: signalOf(stop)! },
    message: `trap (${stop.trap}) at ${here(stop.instruction)}`,
    at: stop.instruction,
    stop: { reason: 'trap', trap: stop.trap, instruction: hex(stop.instruction) },
  }),
  'unknown-instruction': (stop, { here }) => {
    const signal = signalOf(stop);
    const illegal = signal !== null;
    return {
      end: illegal ? { kind: 'signal', signal } : { kind: 'failed' },
      message:
        stop.mnemonic !== null
          ? `instruction ${stop.mnemonic} at ${here(stop.instruction)} is decoded and not executed yet`
          : `${illegal ? 'illegal' : 'unknown'} instruction ${hexBytes(stop.bytes)} at ${here(stop.instruction)}`,
      at: stop.instruction,
      stop: {
        reason: illegal ? 'illegal-instruction' : 'unknown-instruction',
        instruction: hex(stop.instruction),
        bytes: hexBytes(stop.bytes),
      },
    };
  },
  syscall: ({ instruction }, { loaded, guest, here }) =>
    cutShort('syscall', `${callName(loaded, guest)} at ${here(instruction)} cannot be served`, instruction),
  waiting: ({ instruction }, { here }) =>
    cutShort('waiting', `stopped at ${here(instruction)}, which waits for standard input`, instruction),
  deadlock: ({ threads }, { loaded, guest, here, pc }) => {
    const at = threads[0]?.instruction ?? pc;
    const each = threads.map(({ thread, instruction }) => `thread ${thread} at ${here(instruction)}`);
    return {
      end: { kind: 'failed' },
      message: `deadlock: ${each.join(', ')} wait${each.length > 1 ? '' : 's'} for what cannot come`,
      at,
      stop: {
        reason: 'deadlock',
        instruction: hex(at),
        threads: threads.map(({ thread, instruction }) => ({
          thread,
          instruction: hex(instruction),
          function: nameAt(loaded, guest, instruction),
        })),
      },
    };
  },
  child: (stop, { loaded, guest }) => {
    // Places of another process have no names here.
    const inner = outcomeOf(stop.stop, loaded, guest, hex);
    const who = `process ${stop.process} (${visibleLine(stop.program)})`;
    return {
      end: { kind: 'failed' },
      message: `${who}: ${inner.message ?? 'stopped'}`,
      at: null,
      stop: { ...inner.stop, process: stop.process, program: stop.program },
    };
  },
  yield: (_, { here, pc }) => cutShort('hook', `stopped at ${here(pc)}`, pc, 'address'),
  hook: (_, { here, pc }) => cutShort('hook', `stopped at ${here(pc)}`, pc, 'address'),
  'step-limit': (_, { here, pc }) => cutShort('step-limit', `stopped by --max-instructions at ${here(pc)}`, pc),
  timeout: (_, { here, pc }) => cutShort('timeout', `stopped by --timeout at ${here(pc)}`, pc),
  'output-limit': (_, { here, pc }) =>
    cutShort('output-limit', `stopped by --max-output ${sizeText(commandLimits().output)} at ${here(pc)}`, pc),
};

function outcomeOf(
  stop: Stop,
  loaded: Loaded,
  guest: Process,
  here: (address: bigint) => string = (address) => place(loaded, guest, address),
): Outcome {
  const tell = outcomes[stop.kind] as (stop: Stop, view: StopView) => Outcome;
  return tell(stop, { loaded, guest, here, pc: guest.machine.pc });
}

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

function endText(end: End): string {
  switch (end.kind) {
    case 'exit':
      return `exit status ${end.code}`;
    case 'signal':
      return `signal ${end.signal}`;
    case 'returned':
      return `result ${hex(end.result)}`;
    case 'failed':
      return 'not finished';
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
  const { program, arch, emulation } = loaded;
  const bytes = guest.machine.memory.read(at, 8) ?? guest.machine.memory.read(at, 4) ?? new Uint8Array();
  const decoded = bytes.length === 0 ? null : arch.isa.decode(bytes, 0, at);
  const own = decoded === null ? bytes : bytes.subarray(0, Math.max(1, decoded.sizeBytes));
  const text = await oneLine(arch, own, at);
  const functionOf = (address: bigint): number => {
    const range = program.codeAt(address - guest.bias);
    return range ? program.functionAt(range, address - guest.bias) : -1;
  };
  const startOf = (address: bigint): bigint | null => {
    const found = functionOf(address);
    return found === -1 ? null : program.symbols.value[found]! + guest.bias;
  };
  const callers = backtrace(guest.machine, { abi: arch.abi, emulation }, functionOf, startOf);
  const lines = text === '' ? [] : [`  ${place(loaded, guest, at)}: ${hexBytes(own)}  ${text}`];
  for (const each of callers) lines.push(`  called from ${place(loaded, guest, each)}`);
  const frame = (address: bigint): Json => ({ address: hex(address), function: nameAt(loaded, guest, address) });
  return {
    lines,
    json: {
      function: nameAt(loaded, guest, at),
      ...(own.length === 0 ? {} : { bytes: hexBytes(own), text }),
      backtrace: callers.map(frame),
    },
  };
}

// --------------------------------------------------------------------------------------------- run

/** Thrown out of the system call with which the program wrote more than it may. */
class OutputFull extends Error {}

/** Passes on what a program writes, as far as it may. */
function limitedOutput(receive: ExecuteOptions['onOutput']): ExecuteOptions['onOutput'] {
  let left = commandLimits().output;
  return (descriptor, bytes) => {
    const allowed = bytes.subarray(0, left);
    left -= allowed.length;
    if (allowed.length > 0) receive(descriptor, allowed);
    if (allowed.length < bytes.length) throw new OutputFull();
  };
}

interface Execution {
  readonly guest: Process;
  /** Why the run proves nothing about Linux. */
  readonly doubts: readonly Doubt[];
  /** Empty when nothing was to be observed. */
  readonly functions: readonly TracedFunction[];
  readonly outcome: Outcome;
  readonly seconds: number;
  /** Null: the image has no probes. */
  readonly probes: ProbeRun | null;
}

interface ExecuteOptions {
  /** How the image is called in warnings. */
  readonly label: string;
  readonly argv: readonly string[];
  readonly request: Request;
  readonly onOutput: (descriptor: number, bytes: Uint8Array) => void;
  readonly onInput: GuestInput;
  /** Makes what takes the calls and returns that the machine sees. */
  readonly oracle: (nameOf: TraceHeader['nameOf']) => readonly TraceSink[];
  /** True when functions are to be named although no oracle runs. */
  readonly named: boolean;
}

/**
 * Prepares the call of a function. What is returned says how it ended, given why the run stopped.
 */
function call(loaded: Loaded, guest: Process, expression: CallExpression): (stop: StopReason) => CallOutcome {
  const { program, arch, emulation } = loaded;
  const { symbols } = program;
  let symbol = -1;
  for (const name of [expression.name, `.${expression.name}`]) {
    const found = symbols.find(name);
    if (found > 0 && symbols.sectionIndex[found] !== 0) {
      symbol = found;
      break;
    }
  }
  if (symbol < 0) {
    throw new ElftraceError('no-match', `no function is named ${expression.name}`, { symbol: expression.name });
  }
  const address = symbols.value[symbol]!;
  const descriptor = emulation.process.entry.kind === 'descriptor' && !program.codeAt(address);
  if (!descriptor && !program.codeAt(address)) {
    throw new ElftraceError('no-match', `${expression.name} is no function`, { symbol: expression.name });
  }
  const registers = new Map<string, bigint>();
  for (const [register, anchor] of emulation.process.anchors) {
    const found = symbols.find(anchor);
    if (found > 0) registers.set(register, symbols.value[found]! + guest.bias);
  }
  const { entry } = emulation.process;
  if (entry.kind === 'descriptor' && program.toc !== null) registers.set(entry.toc, program.toc + guest.bias);
  return beginCall(guest, {
    abi: arch.abi,
    emulation,
    target: { kind: descriptor ? 'descriptor' : 'code', address: address + guest.bias },
    args: expression.args,
    registers,
  });
}

/**
 * What serves the breakpoints of a patched image: its recorded sessions, performed once more.
 * @throws ElftraceError 'state-mismatch' when they do not give the bytes of the file
 */
function probesOf({ image, arch, program, input }: Loaded, guest: Process): ProbeRun | null {
  if (image.section(probeSections.text) === undefined) return null;
  const record = readRecord(image);
  if (record === null || record.session.length === 0) return null;
  const { probes: session } = recordedProbes({ image, arch, symbols: undefined }, record);
  if (session === null) return null;
  return new ProbeRun({ session, program, machine: guest.machine, comm: taskName(input.name) });
}

/** `system call clone (56) at 0x4011d6 (start+0x10): not served: ENOSYS`. */
function deviationText(loaded: Loaded, guest: Process, { what, why, instruction }: Deviation): string {
  const at = instruction === 0n ? '' : ` at ${place(loaded, guest, instruction)}`;
  return `${what}${at}: ${why}`;
}

/** Why the run proves nothing. */
function doubtsOf(loaded: Loaded, guest: Process, { end, at, message }: Outcome, isCall: boolean): readonly Doubt[] {
  const where = (address: bigint | null): Pick<Doubt, 'instruction' | 'function'> => ({
    instruction: address === null || address === 0n ? null : hex(address),
    function: address === null ? '' : nameAt(loaded, guest, address),
  });
  const out = guest.machine.deviations.map(({ kind, what, why, instruction, count }): Doubt => ({
    kind,
    what,
    why,
    ...where(instruction),
    count,
  }));
  if (end.kind === 'failed') {
    out.push({ kind: 'stop', what: 'the run', why: `did not end: ${message ?? ''}`, ...where(at), count: 1 });
  } else if (isCall && end.kind === 'signal') {
    // What it found is not what callers in the program leave: a fault says nothing about the
    // function.
    const why = 'the function did not return, and nothing prepared the image for it';
    out.push({ kind: 'call', what: endText(end), why, ...where(at), count: 1 });
  }
  return out;
}

interface Ended {
  readonly stop: StopReason;
  /** A limit of the command ended the run. */
  readonly cut: 'timeout' | 'output-limit' | null;
  readonly called: CallOutcome | null;
}

/**
 * Runs the program, or the function that is called, until it ends or a limit of the command is
 * reached.
 */
async function runToEnd(loaded: Loaded, guest: Process, request: Request, probes: ProbeRun | null): Promise<Ended> {
  const pending = request.call === null ? null : call(loaded, guest, request.call);
  const pace = new Pace(commandDeadline());
  let cut: Ended['cut'] = null;
  const piece = (budget: number): StopReason => {
    try {
      return guest.run({ budget, onStop });
    } catch (error) {
      if (!(error instanceof OutputFull)) throw error;
      cut = 'output-limit';
      return { kind: 'step-limit' };
    }
  };
  const last = guest.instructions + request.budget;
  const onStop = (stop: StopReason, machine: Machine): boolean => {
    if ((stop.kind !== 'trap' && stop.kind !== 'fault') || probes === null) return false;
    if (machine === guest.machine) return probes.serve(stop);
    const what = 'probes of processes that the program makes';
    guest.machine.deviate({ kind: 'image', what, why: 'not served' }, stop.instruction);
    return false;
  };
  try {
    for (;;) {
      const left = last - guest.instructions;
      const stop = pace.piece(left, piece);
      const ended = { stop, cut, called: null };
      if (cut !== null) return ended;
      if (stop.kind === 'waiting') {
        if (await pace.wait()) return { ...ended, cut: 'timeout' };
        continue;
      }
      if (stop.kind === 'step-limit' && guest.instructions < last) {
        if (await pace.isOver()) return { ...ended, cut: 'timeout' };
        continue;
      }
      const traps = (stop.kind === 'trap' || stop.kind === 'fault') && probes !== null && left > 1;
      const told = traps ? { ...stop, instruction: probes.originOf(stop.instruction) } : stop;
      return { stop: told, cut, called: pending?.(told) ?? null };
    }
  } finally {
    pace.end();
  }
}

/** A program for the same machine; null: it is for another one. */
function programOf(bytes: Uint8Array, arch: Arch): ProcessImage | null {
  const image = readElf(bytes);
  return targetOf(image.header) === arch.target.id ? image : null;
}

/** What of the processes a trace or profile does not hold. */
function untraced(processes: readonly ProcessEvent[], guest: Process): readonly string[] {
  const out: string[] = [];
  const others = processes.filter((each) => each.kind === 'made').length;
  if (others > 0) out.push(`${others} further process${others > 1 ? 'es are' : ' is'} not in the trace`);
  const replaced = processes.find((each) => each.kind === 'replaced' && each.machine === guest.machine);
  if (replaced) out.push(`the trace ends where the program became ${visibleLine(replaced.program)}`);
  return out;
}

/** A call of `execute` as far as it got. */
interface Started {
  readonly guest: Process;
  /** Processes that the program made or became. */
  readonly processes: readonly ProcessEvent[];
  /** The observer of calls comes once the program stands; it ends where another one takes over. */
  readonly observe: (oracle: Oracle) => void;
}

/** The program of the image before its first instruction. */
function startGuest(loaded: Loaded, options: ExecuteOptions): Started {
  const { image, arch, emulation, program } = loaded;
  const { request } = options;
  let leftOut = 0;
  let oracle: Oracle | null = null;
  const processes: ProcessEvent[] = [];
  const interpreter = request.call ? null : interpreterOf(loaded, request.files);
  const guest = startProcess({
    image,
    abi: arch.abi,
    emulation,
    args: options.argv,
    env: request.env,
    onOutput: limitedOutput(options.onOutput),
    onInput: options.onInput,
    tier: request.tier,
    slices: request.slices,
    memoryBytes: commandLimits().memory,
    processes: commandLimits().processes,
    path: options.argv[0]!,
    program: (bytes) => programOf(bytes, arch),
    onProcess: (event) => {
      processes.push(event);
      if (event.kind === 'replaced' && event.machine === guest.machine) oracle?.finish();
    },
    ...(request.files ? { files: request.files } : {}),
    ...(interpreter ? { interpreter } : {}),
    ...(request.call ? { start: 'none' as const, relocations: relocationsOf(loaded, () => leftOut++) } : {}),
  });
  guest.machine.observeDeviations((each) => {
    err(`${options.label}: warning: ${deviationText(loaded, guest, each)}`);
  });
  if (leftOut > 0) {
    const what = `${leftOut} relocation${leftOut === 1 ? '' : 's'} of the image`;
    guest.machine.deviate({ kind: 'image', what, why: 'left out: only a dynamic linker could apply them' });
  }
  // What a kernel's start-up would have put there (the per-CPU pointer).
  for (const [name, value] of Object.entries(program.loadMap?.registers ?? {})) guest.machine.setRegister(name, value);
  return {
    guest,
    processes,
    observe: (given) => {
      oracle = given;
    },
  };
}

/** Functions that a trace may name, with the sites at their beginnings. */
function functionsOf({ program }: Loaded, guest: Process): readonly TracedFunction[] {
  const sites = findSites(program);
  const siteOf = new Map<bigint, bigint>();
  for (let i = 0; i < sites.count; i++) {
    const owner = sites.functionSymbol(i);
    const start = owner < 0 ? undefined : program.functions.placeOf(owner)?.value;
    if (start !== undefined) siteOf.set(start, sites.ip(i));
  }
  return tracedFunctions(program, { bias: guest.bias, siteOf: (address) => siteOf.get(address) ?? null });
}

async function execute(loaded: Loaded, options: ExecuteOptions): Promise<Execution> {
  const { request } = options;
  const { name } = loaded.input;
  const { guest, processes, observe } = startGuest(loaded, options);
  const sinks = options.oracle((address) => functionName(loaded, guest, address));
  const isObserved = sinks.length > 0 || options.named;
  const functions = isObserved ? functionsOf(loaded, guest) : [];
  if (isObserved && functions.length === 0) {
    const lost = sinks.length > 0 ? 'no calls are recorded' : 'functions have no names';
    err(`${name}: notice: the image has no symbols: ${lost}`);
  }
  const { stackPointer, linkRegister } = loaded.arch.abi;
  const oracle =
    sinks.length > 0 ? traceWithOracle(guest.machine, { functions, stackPointer, linkRegister, sinks }) : null;
  if (oracle) observe(oracle);
  const probes = probesOf(loaded, guest);
  const begin = performance.now();
  const { stop, cut, called } = await runToEnd(loaded, guest, request, probes);
  let outcome: Outcome;
  if (called?.kind === 'returned') {
    outcome = { end: called, message: null, at: null, stop: { reason: 'returned' } };
  } else {
    guest.ended(stop);
    outcome = outcomeOf(cut === null ? stop : { kind: cut }, loaded, guest);
  }
  oracle?.finish();
  if (isObserved) for (const each of untraced(processes, guest)) err(`${name}: notice: ${each}`);
  const doubts = doubtsOf(loaded, guest, outcome, request.call !== null);
  return { guest, doubts, functions, outcome, seconds: (performance.now() - begin) / 1000, probes };
}

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
    stop: { ...details, ...stop },
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
): ExecuteOptions['oracle'] {
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
async function compareWith(original: Loaded, { loaded, request, argv }: Runs, first: FirstRun) {
  const captured = capture();
  const other = await execute(original, {
    label: `${original.input.name} (original)`,
    argv,
    request,
    onInput: first.input,
    onOutput: captured.receive,
    oracle: () => [],
    named: false,
  });
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
  const request = checkRequest(args);
  const ignore = request.ignore === null ? null : await linePattern('--compare-ignore', request.ignore);
  const loaded = await loadImage(args.path);
  if (args.listSyscalls) {
    for (const line of systemCallLines(systemCalls(loaded.emulation.process))) out(line);
    return exitCodes.ok;
  }
  if (args.can) return runCan({ ...loaded, name: args.path, files: request.files, json: args.json });
  const original = args.compare === undefined ? null : await loadImage(args.compare);
  const refused = await refuseKernel(args, [loaded, original]);
  if (refused !== null) return refused;
  // Both runs of a comparison get the same name, so that a program that prints it is no different.
  const argv = [pathInTree(args.path, args.root) ?? args.path, ...args.arguments];
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
  const execution = await execute(loaded, {
    label: loaded.input.name,
    argv,
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
  if (trace?.source === 'guest' && traceFile) writeRing(traceFile.write, trace.format, loaded, execution);
  traceFile?.close();
  guestOutput?.close();
  const { end } = execution.outcome;
  const details = await reportEnd(loaded, execution);
  const status: Record<string, Json> = { schema: jsonSchema, ...statusJson(loaded, execution, details) };
  let exit = exitOf(end);
  if (original && captured) {
    const compared = await compareWith(original, runs, { execution, captured, input: input(), ignore });
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
 * Lowest address that a kernel has for itself. Source: Linux, CONFIG_PAGE_OFFSET of ppc32; on 64
 * bits the upper half.
 */
const kernelHalf = (wordBytes: 4 | 8): bigint => (wordBytes === 4 ? 0xc000_0000n : 1n << 63n);

/**
 * Where a kernel is linked; null for what is none. Its start expects a machine with nothing on it.
 * Objects that `load` laid out as a kernel's are programs all the same.
 */
function kernelAddress({ image, program }: Loaded): Address | null {
  if (program.loadMap !== null && program.loadMap.original === null) return null;
  const loads = image.segments.filter(({ type, memorySize }) => type === PT_LOAD && memorySize > 0n);
  const [first] = loads.map(({ address }) => address).filter((address) => address >= kernelHalf(image.wordBytes));
  return first ?? null;
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
