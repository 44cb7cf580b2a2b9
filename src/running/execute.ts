/**
 * One run of an image: started, observed, its probes served, ended with an outcome and with what it
 * proves nothing about. Reads and prints nothing.
 */
import type { Arch } from '../machine/arch.js';
import { targetOf } from '../targets.js';
import { readElf } from '../elf/read.js';
import type { KeptTranslations, Machine, StopReason } from '../emulator/index.js';
import {
  type CallOutcome,
  type FileSystem,
  type GuestInput,
  type Process,
  type ProcessEvent,
  type ProcessImage,
  type Slices,
  startProcess,
} from '../guest/index.js';
import type { ProbeRun } from '../kprobes/index.js';
import type { Limits } from '../limits/index.js';
import { probeSections } from '../program/program.js';
import { readRecord } from '../record/journal.js';
import type { Sha256 } from '../sha256.js';
import { findSites } from '../sites/sites.js';
import {
  type Oracle,
  taskName,
  type TracedFunction,
  tracedFunctions,
  type TraceHeader,
  type TraceSink,
  traceWithOracle,
} from '../trace/index.js';
import { visibleLine } from '../visible.js';
import { type FunctionCall, prepareCall } from './call.js';
import type { Doubt } from './compare.js';
import { deviationText, doubtsOf } from './doubts.js';
import { functionName, interpreterOf, relocationsOf, type RunImage } from './image.js';
import { type Outcome, outcomeOf } from './outcome.js';

export interface Execution {
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

/** What a run is asked. */
export interface RunRequest {
  /** Instructions that it may execute. */
  readonly budget: number;
  readonly tier: 'auto' | 0 | 1;
  readonly slices: Slices;
  /** What the wall clock shows at the start: nanoseconds since 1970; null: as a process has it. */
  readonly date: bigint | null;
  readonly env: readonly string[];
  /** The tree of the program; undefined: it has none. */
  readonly files: FileSystem | undefined;
  /** Where in it the program begins. */
  readonly directory: string;
  /** One function instead of the program. */
  readonly call: FunctionCall | null;
}

/** Long work in pieces, between which the caller looks at the clock and at signals. */
export interface Pacer {
  piece<T>(most: number, work: (units: number) => T): T;
  /** True when the time is over. */
  isOver(): Promise<boolean>;
  /** Waits a moment; true when the time is over. */
  wait(): Promise<boolean>;
  end(): void;
}

export interface RunOptions {
  /** What the image is called, for the names of its threads. */
  readonly name: string;
  readonly argv: readonly string[];
  /** The program in the tree, and the name of the script that it executes; null: it is argv[0]. */
  readonly script: { readonly path: string; readonly name: string } | null;
  readonly request: RunRequest;
  readonly limits: Pick<Limits, 'output' | 'memory' | 'processes'>;
  readonly pace: () => Pacer;
  readonly hash: Sha256;
  /** What is not served as Linux serves it. */
  readonly warning: (text: string) => void;
  /** What the user must know of a trace. */
  readonly notice: (text: string) => void;
  readonly onOutput: (descriptor: number, bytes: Uint8Array) => void;
  readonly onInput: GuestInput;
  /** Makes what takes the calls and returns that the machine sees. */
  readonly oracle: (nameOf: TraceHeader['nameOf']) => readonly TraceSink[];
  /** True when functions are to be named although no oracle runs. */
  readonly named: boolean;
  /** Translations of before, and for later. */
  readonly kept: KeptTranslations | undefined;
}

/** Thrown out of the system call with which the program wrote more than it may. */
class OutputFull extends Error {}

/** Passes on what a program writes, as far as it may. */
function limitedOutput(receive: RunOptions['onOutput'], most: number): RunOptions['onOutput'] {
  let left = most;
  return (descriptor, bytes) => {
    const allowed = bytes.subarray(0, left);
    left -= allowed.length;
    if (allowed.length > 0) receive(descriptor, allowed);
    if (allowed.length < bytes.length) throw new OutputFull();
  };
}

/**
 * What serves the breakpoints of a patched image: its recorded sessions, performed once more.
 * @throws ElftraceError 'state-mismatch' when they do not give the bytes of the file
 */
async function probesOf(
  { image, arch, program }: RunImage,
  guest: Process,
  { hash, name }: RunOptions,
): Promise<ProbeRun | null> {
  if (image.section(probeSections.text) === undefined) return null;
  const record = readRecord(image);
  if (record === null || record.session.length === 0) return null;
  // Most programs have none, and start without a third of the code.
  const { ProbeRun, replayProbes } = await import('../kprobes/index.js');
  const { probes: session } = replayProbes({ image, arch, symbols: undefined }, record, hash);
  if (session === null) return null;
  return new ProbeRun({ session, program, machine: guest.machine, comm: taskName(name) });
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
async function runToEnd(
  loaded: RunImage,
  guest: Process,
  { request, pace: begin }: RunOptions,
  probes: ProbeRun | null,
): Promise<Ended> {
  const pending = request.call === null ? null : prepareCall(loaded, guest, request.call);
  const pace = begin();
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
function startGuest(loaded: RunImage, options: RunOptions): Started {
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
    onOutput: limitedOutput(options.onOutput, options.limits.output),
    onInput: options.onInput,
    tier: request.tier,
    ...(options.kept && { kept: options.kept }),
    slices: request.slices,
    ...(request.date === null ? {} : { date: request.date }),
    memoryBytes: options.limits.memory,
    processes: options.limits.processes,
    path: options.script?.path ?? options.argv[0]!,
    ...(options.script ? { name: options.script.name } : {}),
    program: (bytes) => programOf(bytes, arch),
    onProcess: (event) => {
      processes.push(event);
      if (event.kind === 'replaced' && event.machine === guest.machine) oracle?.finish();
    },
    ...(request.files ? { files: request.files, directory: request.directory } : {}),
    ...(interpreter ? { interpreter } : {}),
    ...(request.call ? { start: 'none' as const, relocations: relocationsOf(loaded, () => leftOut++) } : {}),
  });
  guest.machine.observeDeviations((each) => {
    options.warning(deviationText(loaded, guest, each));
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
function functionsOf({ program }: RunImage, guest: Process): readonly TracedFunction[] {
  const sites = findSites(program);
  const siteOf = new Map<bigint, bigint>();
  for (let i = 0; i < sites.count; i++) {
    const owner = sites.functionSymbol(i);
    const start = owner < 0 ? undefined : program.functions.placeOf(owner)?.value;
    if (start !== undefined) siteOf.set(start, sites.ip(i));
  }
  return tracedFunctions(program, { bias: guest.bias, siteOf: (address) => siteOf.get(address) ?? null });
}

/** Runs an image, or one function of it, until it ends or a limit is reached. */
export async function execute(loaded: RunImage, options: RunOptions): Promise<Execution> {
  const { request } = options;
  const { guest, processes, observe } = startGuest(loaded, options);
  const sinks = options.oracle((address) => functionName(loaded, guest, address));
  const isObserved = sinks.length > 0 || options.named;
  const functions = isObserved ? functionsOf(loaded, guest) : [];
  if (isObserved && functions.length === 0) {
    const lost = sinks.length > 0 ? 'no calls are recorded' : 'functions have no names';
    options.notice(`the image has no symbols: ${lost}`);
  }
  const { stackPointer, linkRegister } = loaded.arch.abi;
  const oracle =
    sinks.length > 0 ? traceWithOracle(guest.machine, { functions, stackPointer, linkRegister, sinks }) : null;
  if (oracle) observe(oracle);
  const probes = await probesOf(loaded, guest, options);
  const begin = performance.now();
  const { stop, cut, called } = await runToEnd(loaded, guest, options, probes);
  let outcome: Outcome;
  if (called?.kind === 'returned') {
    outcome = { end: called, message: null, at: null, stop: { reason: 'returned' } };
  } else {
    guest.ended(stop);
    outcome = outcomeOf(cut === null ? stop : { kind: cut }, loaded, guest, options.limits.output);
  }
  oracle?.finish();
  if (isObserved) untraced(processes, guest).forEach(options.notice);
  const doubts = doubtsOf(loaded, guest, outcome, request.call !== null);
  return { guest, doubts, functions, outcome, seconds: (performance.now() - begin) / 1000, probes };
}
