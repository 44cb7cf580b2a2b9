/**
 * The proof of probes on a program, for any machine: every instruction that can be probed gets a
 * breakpoint, all at once; then every one that can be optimised gets its jump, in as many batches
 * as windows do not overlap. In each run the events (places and registers) are those that hooks of
 * the machine see in the program without probes, and the program ends in the same state. Nothing
 * here knows a machine: what it asks is behind the model.
 */
import assert from 'node:assert/strict';
import { archOf } from '../../src/arches.js';
import type { Arch } from '../../src/machine/arch.js';
import { ByteView } from '../../src/bytes.js';
import type { ElfImage } from '../../src/elf/image.js';
import { readElf } from '../../src/elf/read.js';
import type { IrEmulation, Machine, StopReason } from '../../src/emulator/index.js';
import { type Process, startProcess } from '../../src/guest/index.js';
import { applyPlan } from '../../src/patch/apply.js';
import { withRuntime } from '../../src/tracing/inject.js';
import { planSites } from '../../src/patch/plan-sites.js';
import { entryPoint } from '../../src/program/entry-points.js';
import { planSession } from '../../src/tracing/session-plan.js';
import { findSites } from '../../src/sites/sites.js';
import {
  explainProbe,
  planProbes,
  probeServer,
  probeRoomFor,
  ProbeRun,
  type ProbeSession,
  probeSupport,
  ProbeText,
} from '../../src/kprobes/index.js';
import { compileProgram, registerValue, runProgram } from '../../src/kprobes/program.js';
import { compileArguments, parseProbe } from '../../src/kprobes/events.js';
import { load, type Program } from '../../src/program/program.js';
import { readRing, type RingRecord, tracedFunctions } from '../../src/trace/index.js';
import { cpuOf } from './probe-everywhere.js';

/** A place that can have a probe. */
export interface Place {
  /** In the order of the survey. */
  readonly index: number;
  readonly address: bigint;
  readonly name: string;
  readonly method: string;
  /** Bytes that a jump there replaces; 0: it cannot be optimised. */
  readonly window: number;
}

export interface Survey {
  readonly instructions: number;
  readonly places: readonly Place[];
  /**
   * Instructions that stand for the place behind them: landing pads, and in functions with sites
   * what is in front of those.
   */
  readonly steppedOver: number;
  /** By reason. */
  readonly refusedProbes: Readonly<Record<string, number>>;
  readonly refusedJumps: Readonly<Record<string, number>>;
}

export interface Subject {
  readonly arch: Arch;
  readonly emulation: IrEmulation;
  /** With the runtime in it. */
  readonly image: ElfImage;
  readonly text: ProbeText;
  readonly program: Program;
  /**
   * Registers that are not compared: the entries of ftrace may change them, or the program takes
   * them from memory that it never wrote.
   */
  readonly scratch: readonly string[];
  /** Places that ftrace serves are probed, too. */
  readonly sites: boolean;
}

export interface SubjectOptions {
  readonly scratch?: readonly string[];
  readonly sites?: boolean;
}

/** Registers of frames that neither a trap here nor a buffer fills. */
const UNFILLED = ['dar', 'dsisr'];

/** Bytes below the stack pointer that belong to the program. */
function redZoneOf({ target }: Arch): bigint {
  if (target.id === 'x86-64') return 128n;
  return target.abiName === 'elfv1' || target.abiName === 'elfv2' ? 288n : 0n;
}

/**
 * Probes of one run: as many as have buffers within the shortest reach of a jump, 1 MiB (RISC-V),
 * and an image with room for them that is not mostly room.
 */
const AT_ONCE = 1500;

function instructionsIn({ arch: { isa }, code }: Program): number {
  let count = 0;
  for (const { bytes, address } of code) {
    for (let at = 0; at < bytes.length; count++) {
      at += isa.decode(bytes, at, address + BigInt(at))?.sizeBytes ?? isa.minInstructionBytes;
    }
  }
  return count;
}

/**
 * The image with all its sites off. A probe on a site takes the compiler's call away, and a session
 * leaves calls that nobody asks for (C-INIT-2): with calls in it, the program that is compared
 * would count more of them.
 */
function withSitesOff(injected: Uint8Array): Uint8Array {
  const image = readElf(injected.slice());
  const sites = findSites(load(image, archOf(image.header)));
  // The record says where they are: calls that a table does not name are not found any more.
  return applyPlan(image, planSites(sites, { to: { kind: 'nop' }, name: 'nop' })).bytes;
}

/** Room for a probe at every instruction, as many as there are at once. */
export function subjectOf(bytes: Uint8Array, { scratch = [], sites: withSites = true }: SubjectOptions = {}): Subject {
  const before = readElf(bytes);
  const arch = archOf(before.header);
  const { emulation } = arch;
  if (emulation.kind !== 'ir') throw new Error('the machine is not emulated');
  const own = load(before, arch);
  const sites = findSites(own);
  const room = probeRoomFor(Math.min(instructionsIn(own), AT_ONCE));
  const image = readElf(withSitesOff(withRuntime(sites, undefined, undefined, undefined, {}, room).bytes));
  const program = load(image, arch);
  return {
    arch,
    emulation,
    image,
    program,
    scratch: [...scratch, ...UNFILLED],
    sites: withSites,
    text: new ProbeText(program, findSites(program)),
  };
}

/** Every instruction of the functions that a program has of its own. */
export function survey(subject: Subject, wanted: (name: string) => boolean = () => true): Survey {
  const { program, text, arch } = subject;
  const refusedProbes: Record<string, number> = {};
  const refusedJumps: Record<string, number> = {};
  const places: Place[] = [];
  const seen = new Set<bigint>();
  let instructions = 0;
  let steppedOver = 0;
  for (const { name, address } of tracedFunctions(program)) {
    const range = program.codeAt(address);
    if (!wanted(name) || program.partOf(address)?.kind === 'runtime' || range === undefined) continue;
    const code = text.code(range, address);
    if (code?.start !== address || !code.sizeKnown) continue;
    for (let at = 0; at < code.bytes.length;) {
      const size = arch.isa.decode(code.bytes, at, address + BigInt(at))?.sizeBytes ?? 0;
      if (size <= 0) break;
      const here = address + BigInt(at);
      at += size;
      // Symbols of libraries may overlap (the register savers of PowerPC).
      if (seen.has(here)) continue;
      seen.add(here);
      instructions++;
      const { place, jump } = explainProbe(text, { kind: 'address', address: here });
      if (place.kind === 'refused') {
        refusedProbes[place.code] = (refusedProbes[place.code] ?? 0) + 1;
        continue;
      }
      if (place.address !== here) {
        steppedOver++;
        continue;
      }
      const method = place.site !== null ? 'ftrace' : place.instruction.method;
      if (place.site !== null && !subject.sites) {
        refusedProbes['site-left-out'] = (refusedProbes['site-left-out'] ?? 0) + 1;
        continue;
      }
      const window = jump?.kind === 'window' ? jump.bytes.length : 0;
      if (jump?.kind === 'refused') refusedJumps[jump.code] = (refusedJumps[jump.code] ?? 0) + 1;
      places.push({ index: places.length, address: here, name, method, window });
    }
  }
  return { instructions, places, steppedOver, refusedProbes, refusedJumps };
}

/**
 * The registers that a place's event records: three of the machine's, other ones at other places.
 */
function fetched(subject: Subject, index: number): string {
  const names = [...probeSupport(subject.arch).abi.registers.keys()].filter((each) => !subject.scratch.includes(each));
  return [0, 1, 2].map((i) => `r${i}=%${names[(3 * index + i) % names.length]!}`).join(' ');
}

function definitions(subject: Subject, places: readonly Place[]): string[] {
  return places.map(({ index, address }) => `p:e${index} 0x${address.toString(16)} ${fetched(subject, index)}`);
}

/** How a run ended, in what a program leaves behind. */
export interface EndState {
  readonly stop: string;
  readonly output: string;
  readonly registers: Readonly<Record<string, string>>;
  /** Of the memory that the program can write, without what belongs to us. */
  readonly memory: string;
}

const BUDGET = 200_000_000;

/** FNV-1a over bytes. */
function digest(bytes: Uint8Array, seed: number): number {
  let value = seed;
  for (const byte of bytes) value = Math.imul(value ^ byte, 0x0100_0193) >>> 0;
  return value;
}

/**
 * @param originOf  what an address in a copy stands for: the last instruction of a program is one
 *                  that does not come back, so nobody puts right what it
 *                  says of its place
 */
function endOf(
  subject: Subject,
  guest: Process,
  stop: StopReason,
  output: readonly Uint8Array[],
  originOf: (address: bigint) => bigint = (address) => address,
): EndState {
  const { program, arch } = subject;
  const { machine } = guest;
  const registers: Record<string, string> = {};
  for (const [name, { machine: register }] of probeSupport(arch).abi.registers) {
    if (register !== null && !subject.scratch.includes(name))
      registers[name] = originOf(machine.register(register)).toString(16);
  }
  let memory = 0x811c_9dc5;
  const runtime = program.loadMap?.parts.filter(({ kind }) => kind === 'runtime').flatMap(({ ranges }) => ranges) ?? [];
  for (const section of program.image.sections) {
    // SHF_ALLOC and SHF_WRITE.
    if ((section.flags & 3n) !== 3n || section.size === 0) continue;
    if (runtime.some(({ start, end }) => section.address >= start && section.address < end)) continue;
    memory = digest(machine.memory.read(section.address, section.size) ?? new Uint8Array(), memory);
  }
  // What is above the stack pointer; below it handlers may have worked.
  const sp = machine.register(arch.abi.stackPointer);
  memory = digest(machine.memory.read(sp, 256) ?? new Uint8Array(), memory);
  const text = new TextDecoder().decode(Buffer.concat(output));
  return {
    stop: JSON.stringify(stop, (_, value: unknown) =>
      String(value) === value ? value : typeof value === 'bigint' ? value.toString(16) : value,
    ),
    output: text,
    registers,
    memory: memory.toString(16),
  };
}

export interface Hit {
  readonly address: bigint;
  /** null: what is there is indeterminate, taken from memory that the program never wrote. */
  readonly words: readonly (bigint | null)[];
}

/**
 * Bytes below the stack, and below what a program may keep there, that handlers may overwrite: more
 * than any of ours does.
 */
const BELOW = 8192;

function process(subject: Subject, bytes: Uint8Array, output: Uint8Array[], args: readonly string[]): Process {
  return startProcess({
    image: readElf(bytes),
    abi: subject.arch.abi,
    emulation: subject.emulation,
    args: ['program', ...args],
    env: [],
    // Each run is over before compiling its code would pay.
    tier: 0,
    onOutput: (_descriptor, piece) => {
      output.push(piece.slice());
    },
    onInput: () => new Uint8Array(),
  });
}

const unprobed = new WeakMap<Subject, Uint8Array>();

/** The image as a session without probes leaves it. */
function withoutProbes(subject: Subject): Uint8Array {
  let bytes = unprobed.get(subject);
  if (bytes === undefined) {
    bytes = subject.image.bytes.slice();
    for (const step of planProbes(subject.image, subject.arch, []).plan.steps) bytes.set(step.after, step.fileOffset);
    unprobed.set(subject, bytes);
  }
  return bytes;
}

/** What hooks see in the program without probes. */
function oracle(
  subject: Subject,
  survey: Survey,
  args: readonly string[] = [],
  limit = 200_000,
  clobber = false,
): { hits: Hit[]; end: EndState } | null {
  const output: Uint8Array[] = [];
  const guest = process(subject, withoutProbes(subject), output, args);
  const support = probeSupport(subject.arch);
  const { machine } = guest;
  const hits: Hit[] = [];
  let tooMany = false;
  let before = 0;
  const lists = new Map<string, ReturnType<typeof compileArguments>>();
  const listOf = (text: string): ReturnType<typeof compileArguments> => {
    let list = lists.get(text);
    if (list === undefined) {
      const definition = parseProbe(`p 0x1 ${text}`, subject.arch.target.wordBytes === 8 ? 64 : 32);
      list = compileArguments(definition, { abi: support.abi, symbol: () => null, atEntry: false });
      assert(compileProgram(list, subject.program.image.wordBytes).length > 0);
      lists.set(text, list);
    }
    return list;
  };
  survey.places.forEach(({ address, method }, index) => {
    const list = listOf(fetched(subject, index));
    machine.hook(address, (each) => {
      // A repeated instruction (rep movs) comes by once for each round; no other that is copied is
      // followed by itself at once.
      const isRound = each.instructions - before <= 1 && hits.at(-1)?.address === address;
      before = each.instructions;
      if (method === 'copy' && isRound) return 'continue';
      if (hits.length >= limit) {
        tooMany = true;
        return 'stop';
      }
      const words = runProgram(list, {
        register: (found) =>
          registerValue(found, (name) => (name === 'pc' ? address + BigInt(support.trapDelta) : each.register(name))),
        read: (at, size) => each.memory.read(at, size),
        wordBytes: subject.program.image.wordBytes,
        littleEndian: subject.arch.target.dataEndian === 'little',
        comm: '',
      });
      hits.push({ address, words });
      if (clobber) {
        const end = each.register(subject.arch.abi.stackPointer) - redZoneOf(subject.arch);
        each.memory.write(end - BigInt(BELOW), new Uint8Array(BELOW).fill(0xa5));
      }
      return 'continue';
    });
  });
  const stop = guest.run({ budget: BUDGET });
  return tooMany ? null : { hits, end: endOf(subject, guest, stop, output) };
}

export interface ProbedRun {
  readonly end: EndState;
  readonly records: readonly RingRecord[];
  readonly overwritten: number;
  /** Breakpoints that were served. */
  readonly traps: number;
  readonly session: ProbeSession;
}

/** The platform's, which nobody touches. */
const PLATFORM = 'x18';
/** Arithmetic flags of x86: a function may be called with no other ones changed. */
const FLAGS = 0x8d5n;

/**
 * What the callback of buffers may change is changed whenever it is called, whether its code does
 * it or not.
 */
function spoilInCallbacks(program: Program, machine: Machine): void {
  const { abi } = program.arch;
  const { optimization, abi: frame } = probeSupport(program.arch);
  const callback = optimization.kind === 'jump' ? entryPoint(program, optimization.callees[0]!) : null;
  assert(callback !== null, 'the runtime has no callback for jumps');
  const kept = new Set([
    ...[...abi.preservedRegisters, abi.stackPointer, ...(abi.linkRegister === null ? [] : [abi.linkRegister])],
    ...[...abi.argumentRegisters.slice(0, 2), 'pc', PLATFORM],
  ]);
  const spoilt = [...frame.registers.values()].flatMap(({ machine: name, bytes }) =>
    name === null || kept.has(name) ? [] : [{ name, mask: name === 'rflags' ? FLAGS : (1n << BigInt(8 * bytes)) - 1n }],
  );
  machine.hook(callback.address, (cpu) => {
    for (const { name, mask } of spoilt) cpu.setRegister(name, cpu.register(name) ^ mask);
    return 'continue';
  });
}

export interface ProbeStep {
  readonly define: string;
  readonly optimize?: boolean;
  readonly version?: '2009' | 'modern';
  readonly preempt?: 'none' | 'full';
}

/** The image with probes. */
function planned({ arch, image }: Subject, steps: readonly ProbeStep[]): { session: ProbeSession; bytes: Uint8Array } {
  // Without the text of a session file, whose parsing takes longer than all the rest when there are
  // thousands of probes.
  const server = probeServer(arch);
  const at = { line: 1, column: 1 };
  const { plan } = planSession(image, arch, [], {
    probes(session, own) {
      const host = server.hosts(session, own);
      return {
        ...host,
        finish() {
          for (const { define, optimize = false, version = null, preempt = null } of steps) {
            host.perform({ kind: 'probe', define, optimize, version, preempt, at });
          }
          host.finish();
        },
      };
    },
  });
  const { session } = server;
  if (session === null) throw new Error('no probes');
  const bytes = image.bytes.slice();
  for (const step of plan.steps) bytes.set(step.after, step.fileOffset);
  return { session, bytes };
}

function ringOf({ arch }: Subject, program: Program, { memory }: Machine): ReturnType<typeof readRing> {
  const symbol = entryPoint(program, 'elftrace_ring')!;
  const { wordBytes, dataEndian } = arch.target;
  const pointer = new ByteView(memory.read(symbol.identity, wordBytes)!, dataEndian, 'ring').word(0, wordBytes);
  return readRing((at, size) => memory.read(at, size), pointer, dataEndian);
}

/** Runs a program with probes. */
export function runProbed(subject: Subject, steps: readonly ProbeStep[], args: readonly string[] = []): ProbedRun {
  const { session, bytes } = planned(subject, steps);
  const output: Uint8Array[] = [];
  const guest = process(subject, bytes, output, args);
  const { machine } = guest;
  const program = load(readElf(bytes), subject.arch);
  spoilInCallbacks(program, machine);
  const run = new ProbeRun({ session, program, machine, comm: 'program' });
  let stop = guest.run({ budget: BUDGET });
  while ((stop.kind === 'trap' || stop.kind === 'fault') && run.serve(stop)) stop = guest.run({ budget: BUDGET });
  const ring = ringOf(subject, program, machine);
  return {
    end: endOf(subject, guest, stop, output, (address) => run.originOf(address)),
    records: ring.records,
    overwritten: Number(ring.overwritten),
    traps: run.traps,
    session,
  };
}

// ------------------------------------------------------------------------------------------- costs

export interface FormCost {
  readonly hits: number;
  readonly traps: number;
  /** Executed for the probes, the program's own not counted. */
  readonly instructions: number;
}

/**
 * What probes cost in both forms, handlers included. Traps are served by TypeScript elsewhere,
 * where no instruction is counted; so here the guest does the work in both forms: a trap goes on in
 * the probe's own buffer, which saves, calls the handler and restores as every trap handler has to,
 * and the way back from the exception leads to the copy in its slot. Counted besides are the
 * instruction that traps and the one that returns. That is the least that a breakpoint can cost:
 * what kernels do in between (entry, look-up of the probe, a second trap behind copies that cannot
 * jump) is left out.
 * @param places  whose windows do not overlap, and whose instructions are copied
 */
export function costOfForms(subject: Subject, places: readonly Place[]): { jump: FormCost; breakpoint: FormCost } {
  const run = (bytes: Uint8Array, serve: (guest: Process) => number): FormCost => {
    const guest = process(subject, bytes, [], []);
    const traps = serve(guest);
    const program = load(readElf(bytes), subject.arch);
    const hits = ringOf(subject, program, guest.machine).records.filter(({ kind }) => kind === 'probe').length;
    return { hits, traps, instructions: guest.machine.instructions };
  };
  const toEnd = (guest: Process): number => {
    assert.equal(guest.run({ budget: BUDGET }).kind, 'exit');
    return 0;
  };
  const own = run(withoutProbes(subject), toEnd).instructions;
  const { session, bytes } = planned(
    subject,
    definitions(subject, places).map((define) => ({ define, optimize: true })),
  );
  const jump = run(bytes, toEnd);
  const breakpoint = run(bytes, (guest) => {
    const { machine } = guest;
    const { support } = session.machine;
    const restored = new Map<bigint, bigint>();
    for (const { address, window } of places) {
      const part = session.machine.partOf(address);
      const execution = session.machine.execution(address, false);
      assert(part !== null && execution !== null && 'slot' in execution && execution.slot !== null);
      const range = subject.program.codeAt(address)!;
      const offset = Number(address - range.address);
      const original = range.bytes.slice(offset, offset + window);
      original.set(support.breakpoint(execution.instruction.bytes));
      machine.memory.write(address, original);
      const after = part.buffer.address + BigInt(part.buffer.copiedOffset);
      restored.set(after, execution.slot);
      machine.hook(after, () => 'stop');
    }
    let traps = 0;
    for (;;) {
      const stop = guest.run({ budget: BUDGET });
      const pc = machine.register('pc');
      const slot = restored.get(pc);
      if (stop.kind === 'hook' && slot !== undefined) {
        machine.setRegister('pc', slot);
        continue;
      }
      if (stop.kind !== 'trap') {
        assert.equal(stop.kind, 'exit');
        return traps;
      }
      traps++;
      const end = session.machine.slotEndingAt(stop.instruction);
      const part = session.machine.partOf(stop.instruction);
      assert(end !== null || part !== null);
      machine.setRegister(
        'pc',
        end === null ? part!.buffer.address : support.slots.finish(end.instruction, end.address, cpuOf(machine)),
      );
    }
  });
  const less = (cost: FormCost): FormCost => ({ ...cost, instructions: cost.instructions + 2 * cost.traps - own });
  return { jump: less(jump), breakpoint: less(breakpoint) };
}

/** Places whose windows do not overlap each other, as often as needed to have each once. */
export function batches(places: readonly Place[]): Place[][] {
  const found: Place[][] = [];
  for (let left = places.filter(({ window }) => window > 0); left.length > 0;) {
    let end = 0n;
    const batch: Place[] = [];
    const rest: Place[] = [];
    for (const each of left) {
      if (each.address < end) rest.push(each);
      else {
        end = each.address + BigInt(each.window);
        batch.push(each);
      }
    }
    found.push(...pieces(batch));
    left = rest;
  }
  return found;
}

/** What is probed at once. */
function pieces(places: readonly Place[]): Place[][] {
  return Array.from({ length: Math.ceil(places.length / AT_ONCE) }, (_, i) =>
    places.slice(i * AT_ONCE, (i + 1) * AT_ONCE),
  );
}

/** Events are those of the oracle; of a ring that was full, the last ones. */
function expectEvents(run: ProbedRun, expected: readonly Hit[], what: string): void {
  const events = run.records.filter(({ kind }) => kind === 'probe');
  const there = run.overwritten === 0 ? expected : expected.slice(expected.length - events.length);
  const isSame = ({ ip, words = [] }: RingRecord, hit: Hit | undefined): boolean =>
    hit !== undefined && hit.address === ip && hit.words.every((each, i) => each === null || each === words[i]);
  const at = events.findIndex((each, i) => !isSame(each, there[i]));
  const show = (address: bigint | undefined, words: readonly (bigint | null)[] | undefined): string =>
    `${address?.toString(16)} ${words?.map((each) => (each === null ? '?' : each.toString(16))).join(' ')}`;
  const seen = at < 0 ? '' : show(events[at]?.ip, events[at]?.words);
  assert.deepEqual(
    [what, events.length, seen, at],
    [what, there.length, at < 0 ? '' : show(there[at]?.address, there[at]?.words), -1],
  );
}

export interface Proof extends Survey {
  readonly hits: number;
  /** Values of events that are not compared. */
  readonly indeterminate: number;
  readonly jumpBatches: number;
  readonly jumps: number;
  /** Places that were executed at least once. */
  readonly executed: number;
  /** Breakpoints that were served. */
  readonly traps: number;
  readonly jumpHits: number;
}

/**
 * The oracle, run twice: what differs when the memory below the stack is overwritten at each hit
 * depends on memory that the program never wrote (padding of structures, arguments that nobody
 * passed), and is left out of comparisons.
 */
function determinate(
  subject: Subject,
  found: Survey,
  args: readonly string[],
  limit?: number,
): {
  readonly hits: readonly Hit[];
  readonly indeterminate: number;
  readonly expectEnd: (end: EndState) => void;
} | null {
  const truth = oracle(subject, found, args, limit);
  const other = truth === null ? null : oracle(subject, found, args, limit, true);
  if (truth === null || other === null) return null;
  assert.equal(other.hits.length, truth.hits.length);
  const hits = truth.hits.map(({ address, words }, i) => ({
    address,
    words: words.map((each, w) => (each === other.hits[i]!.words[w] ? each : null)),
  }));
  const { registers } = truth.end;
  const isSame = (name: string): boolean => registers[name] === other.end.registers[name];
  const masked = (end: EndState): object => ({
    ...end,
    registers: Object.fromEntries(Object.entries(end.registers).filter(([name]) => isSame(name))),
    memory: truth.end.memory === other.end.memory ? end.memory : '',
  });
  return {
    hits,
    indeterminate: hits.reduce((sum, { words }) => sum + words.filter((each) => each === null).length, 0),
    expectEnd: (end) => {
      assert.deepEqual(masked(end), masked(truth.end));
    },
  };
}

/** The whole proof; null where the program has more hits than `limit`. */
export function prove(
  subject: Subject,
  args: readonly string[] = [],
  limit?: number,
  wanted?: (name: string) => boolean,
): Proof | null {
  const found = survey(subject, wanted);
  const truth = determinate(subject, found, args, limit);
  if (truth === null) return null;
  const hitsIn = (places: readonly Place[]): readonly Hit[] => {
    if (places.length === found.places.length) return truth.hits;
    const addresses = new Set(places.map(({ address }) => address));
    return truth.hits.filter(({ address }) => addresses.has(address));
  };
  let traps = 0;
  for (const [number, batch] of pieces(found.places).entries()) {
    const run = runProbed(
      subject,
      definitions(subject, batch).map((define) => ({ define })),
      args,
    );
    truth.expectEnd(run.end);
    expectEvents(run, hitsIn(batch), `breakpoints, batch ${number}`);
    traps += run.traps;
  }
  const groups = batches(found.places);
  let jumps = 0;
  let jumpHits = 0;
  for (const [number, batch] of groups.entries()) {
    const run = runProbed(
      subject,
      definitions(subject, batch).map((define) => ({ define, optimize: true })),
      args,
    );
    const missing = run.session.probes().filter(({ state }) => state.text !== 'jump');
    assert.deepEqual(
      missing.map(({ symbol, offset, refusal }) => `${symbol}+${offset} ${refusal?.code ?? ''}`),
      [],
    );
    const hits = hitsIn(batch);
    truth.expectEnd(run.end);
    expectEvents(run, hits, `jumps, batch ${number}`);
    // T-KP-1: nobody trapped.
    assert.equal(run.traps, 0);
    jumps += batch.length;
    jumpHits += hits.length;
  }
  return {
    ...found,
    hits: truth.hits.length,
    indeterminate: truth.indeterminate,
    jumpBatches: groups.length,
    jumps,
    executed: new Set(truth.hits.map(({ address }) => address)).size,
    traps,
    jumpHits,
  };
}
