/**
 * Probes while a patched image runs: the trap handler that a kernel has for them. A breakpoint of
 * ours is a hit: handlers record, then the instruction is executed elsewhere or simulated. What
 * handlers record goes into the program's own ring, in the form in which the callback of detour
 * buffers writes it. Knows of a machine what `ProbeMachine` says.
 */
import { bytesOfWord, ByteView, wordOf } from '../bytes.js';
import { entryPoint } from '../program/entry-points.js';
import type { Program } from '../program/program.js';
import {
  PROBE_INSTANCE_COUNT,
  PROBE_INSTANCE_WORD_COUNT,
  PROBE_INSTANCE_WORDS,
  PROBE_OP_WORDS,
  PROBE_PEEK,
  RING_FLAGS,
  RING_HEADER,
  RING_HEADER_BYTES,
  RING_KINDS,
  RING_RECORD,
  RING_RECORD_BYTES,
  RING_SHORT,
  RING_SHORT_BYTES,
  RING_SHORT_EVENT,
  ONE_STACK,
  THREAD_COUNT,
  THREAD_MODES,
  THREAD_WORDS,
  threadBytes,
} from '../runtime/abi.js';
import type { Address, Endian, RegisterName } from '../units.js';
import { type FetchSource, formatFetched } from './events.js';
import type { ProbeCpu } from '../machine/probes.js';
import { registerValue, runProgram } from './program.js';
import type { ProbeEvent } from './probe-event.js';
import type { ListedProbe, ProbeSession } from './session.js';

/** A processor and its memory. */
export interface ProbeMachine {
  register(name: RegisterName): bigint;
  setRegister(name: RegisterName, value: bigint): void;
  readonly memory: {
    read(address: Address, size: number): Uint8Array | null;
    /** Whatever the permissions are; false where nothing is mapped. */
    write(address: Address, bytes: Uint8Array): boolean;
  };
  /** The clock of the runtime. */
  readonly time: number | bigint;
}

/** Why a machine stopped, as far as probes are concerned. */
export type ProbeStop =
  | { readonly kind: 'trap'; readonly instruction: Address }
  | { readonly kind: 'fault'; readonly instruction: Address; readonly access: 'read' | 'write' | 'execute' };

export interface ProbeRunOptions {
  readonly session: ProbeSession;
  readonly program: Program;
  readonly machine: ProbeMachine;
  /** `$comm`. */
  readonly comm: string;
}

export interface ProbeProfile extends Pick<ListedProbe, 'address' | 'symbol' | 'offset' | 'events'> {
  readonly hits: bigint;
  /** Hits while a callback ran, and calls for which return probes had no instance (MAXACTIVE). */
  readonly missed: bigint;
}

/**
 * Whether a call with a frame at `below` is gone when one at `now` begins: left by longjmp. As
 * `is_gone` of the runtime.
 */
const isGone = (below: bigint, now: bigint): boolean => below < now && now - below < ONE_STACK;

/**
 * Serves the breakpoints of a patched image in a machine that runs it: what a kernel's trap handler
 * does, and the events that it records.
 */
export class ProbeRun {
  /** Breakpoints that were served. */
  traps = 0;
  /** Who trapped; null: a thread for which the runtime has no room. */
  private current: number | null = null;
  private readonly word: 4 | 8;
  /** Symbols of the runtime, which every hit asks for. */
  private readonly graphStack: Address | null;
  private readonly ringPointer: Address | null;
  private readonly threadMode: Address | null;
  private readonly cpu: ProbeCpu;
  private readonly source: FetchSource;

  constructor(private readonly options: ProbeRunOptions) {
    const { program, machine, comm } = options;
    this.word = program.image.wordBytes;
    this.graphStack = entryPoint(program, 'elftrace_graph_stack')?.identity ?? null;
    this.ringPointer = entryPoint(program, 'elftrace_ring')?.identity ?? null;
    this.threadMode = entryPoint(program, 'elftrace_thread_mode')?.identity ?? null;
    this.cpu = {
      register: (name) => machine.register(name),
      setRegister: (name, value) => {
        machine.setRegister(name, value);
      },
      read: (address, size) => machine.memory.read(address, size),
      write: (address, bytes) => machine.memory.write(address, bytes),
    };
    this.source = {
      register: (found) => registerValue(found, (name) => machine.register(name)),
      read: (address, size) => machine.memory.read(address, size),
      wordBytes: this.word,
      littleEndian: program.arch.target.dataEndian === 'little',
      comm,
    };
    options.session.recorder = (event) => {
      this.event(event);
    };
  }

  /** What a probe fetched, as text. Runs without probes load none of it. */
  readonly format = formatFetched;

  /** Serves a stop: true when it was one of ours and the machine can go on. */
  serve(stop: ProbeStop): boolean {
    if (stop.kind === 'trap') return this.trap(stop.instruction);
    // Code that is not there is no fetch of its own.
    return stop.access !== 'execute' && this.fault(stop.instruction);
  }

  /**
   * Probed places with their hits so far, and those that were missed, as a kernel counts them
   * (`kprobe_profile`).
   */
  profile(): readonly ProbeProfile[] {
    const { session } = this.options;
    return session.probes().map(({ address, symbol, offset, events }) => {
      const op = session.objectAt(address);
      const word = (index: number): bigint => (op === null ? 0n : this.readWord(op, index));
      return { address, symbol, offset, events, hits: word(PROBE_OP_WORDS.hits), missed: word(PROBE_OP_WORDS.missed) };
    });
  }

  /** What was recorded under an event's id. */
  recorded(id: number, words: readonly bigint[], comm: string): ReturnType<ProbeSession['recorded']> {
    return this.options.session.recorded(id, words, comm);
  }

  /** Where code of ours stands for code of the program. */
  originOf(address: Address): Address {
    return this.options.session.machine.originOf(address);
  }

  // ----------------------------------------------------------------------------------------- traps

  private trap(address: Address): boolean {
    const { session, machine } = this.options;
    const slot = session.machine.slotEndingAt(address);
    if (slot !== null) {
      machine.setRegister('pc', session.machine.support.slots.finish(slot.instruction, slot.address, this.cpu));
      return true;
    }
    const isReturn = address === session.trampoline;
    if (!isReturn && session.machine.continuation(address, false) === null) return false;
    this.current = this.thread();
    if (isReturn) return this.returned();
    machine.setRegister('pc', address + BigInt(session.machine.support.trapDelta));
    const result = this.handled(address);
    if (result === null) {
      machine.setRegister('pc', address);
      return false;
    }
    this.traps++;
    if (result !== 0 && result !== 'resume-in-buffer') return true;
    return this.execute(address, result === 'resume-in-buffer');
  }

  /**
   * What `handle` of the runtime does. A hit while a callback of the program is at work is missed;
   * the instruction is executed all the same.
   */
  private handled(address: Address): ReturnType<ProbeSession['hit']> {
    const { session } = this.options;
    const block = this.current === null ? null : this.block(this.current);
    if (block === null) {
      this.addHeader(RING_HEADER.dropped, 1n);
      return 0;
    }
    const isBusy = this.readWord(block, THREAD_WORDS.active) !== 0n;
    const op = session.objectAt(address);
    if (op !== null) this.addWord(op, isBusy ? PROBE_OP_WORDS.missed : PROBE_OP_WORDS.hits, 1n);
    return isBusy ? 0 : session.hit(address, this.cpu);
  }

  private execute(address: Address, inBuffer: boolean): boolean {
    const { session, machine } = this.options;
    machine.setRegister('pc', address);
    const next = session.machine.continuation(address, inBuffer);
    if (next === null) return false;
    if (next.kind === 'at') {
      machine.setRegister('pc', next.address);
      return true;
    }
    const result = session.machine.support.simulate(next.instruction, this.cpu);
    if (result.kind === 'fault') return false;
    machine.setRegister('pc', result.pc);
    return true;
  }

  /** A fetch of the guest's callback found nothing mapped: it yields 1. */
  private fault(instruction: Address): boolean {
    const { program, machine } = this.options;
    const symbol = program.symbols.find(PROBE_PEEK);
    const start = program.definedAt(symbol);
    if (start === null || instruction < start || instruction >= start + program.symbols.size[symbol]!) return false;
    const { linkRegister, stackPointer, resultRegister } = program.arch.abi;
    if (linkRegister === null) {
      const stack = machine.register(stackPointer);
      machine.setRegister('pc', this.readWord(stack, 0));
      machine.setRegister(stackPointer, stack + BigInt(this.word));
    } else machine.setRegister('pc', machine.register(linkRegister));
    machine.setRegister(resultRegister, 1n);
    return true;
  }

  // --------------------------------------------------------------------------------------- threads

  private block(thread: number): Address | null {
    return this.graphStack === null ? null : this.graphStack + BigInt(thread * threadBytes(this.word));
  }

  /**
   * The number under which the runtime knows the thread that runs, found and claimed as the runtime
   * does it; null: all belong to others.
   */
  private thread(): number | null {
    const { session } = this.options;
    const word = this.threadMode === null ? THREAD_MODES.one : Number(this.readWord(this.threadMode, 0));
    const mode = word === THREAD_MODES.fs ? 'fs' : word === THREAD_MODES.gs ? 'gs' : 'one';
    const key = session.machine.support.abi.threadKey(this.cpu, mode);
    const owner = BigInt.asUintN(8 * this.word, key + 1n);
    for (let i = 0; i < THREAD_COUNT; i++) {
      const block = this.block(i);
      if (block === null) return 0;
      const seen = this.readWord(block, THREAD_WORDS.owner);
      if (seen === 0n) this.writeWord(block, THREAD_WORDS.owner, owner);
      if (seen === 0n || seen === owner) return i;
    }
    return null;
  }

  // ---------------------------------------------------------------------------------------- memory

  private readWord(address: Address, index: number): bigint {
    const bytes = this.options.machine.memory.read(address + BigInt(index * this.word), this.word);
    if (bytes === null) return 0n;
    return wordOf(bytes, this.options.program.arch.target.dataEndian, this.word);
  }

  private writeWord(address: Address, index: number, value: bigint): void {
    const bytes = bytesOfWord(value, this.options.program.arch.target.dataEndian, this.word);
    this.options.machine.memory.write(address + BigInt(index * this.word), bytes);
  }

  private addWord(address: Address, index: number, value: bigint): void {
    this.writeWord(address, index, this.readWord(address, index) + value);
  }

  // ---------------------------------------------------------------------------------------- events

  private event(event: ProbeEvent): void {
    if (this.current === null) return;
    if (event.definition.isReturn) this.begin(event, this.current);
    else this.record(event, this.current);
  }

  private ring(): Address | null {
    return this.ringPointer === null ? null : this.readWord(this.ringPointer, 0);
  }

  private header(): ByteView | null {
    const ring = this.ring();
    const bytes = ring === null ? null : this.options.machine.memory.read(ring, RING_HEADER_BYTES);
    return bytes === null ? null : new ByteView(bytes, this.options.program.arch.target.dataEndian, 'ring');
  }

  private addHeader(offset: number, value: bigint): void {
    const ring = this.ring();
    if (ring === null) return;
    const { memory } = this.options.machine;
    const { dataEndian } = this.options.program.arch.target;
    const before = memory.read(ring + BigInt(offset), 8);
    if (before !== null)
      memory.write(ring + BigInt(offset), bytesOfWord(wordOf(before, dataEndian, 8) + value, dataEndian, 8));
  }

  /** Writes what the runtime's callback writes. */
  private record(event: ProbeEvent, thread: number, parent?: Address): void {
    const { program, machine } = this.options;
    const ring = this.ring();
    const { dataEndian } = program.arch.target;
    // A return says first where it went.
    const words = [...(parent === undefined ? [] : [parent]), ...runProgram(event.arguments, this.source)];
    const header = this.header();
    if (ring === null || header === null) return;
    const isShort = header.u32(RING_HEADER.recordBytes) === RING_SHORT_BYTES;
    const of = { ring, address: event.place.address, id: BigInt(event.id), time: BigInt(machine.time), thread, words };
    const noTimes = (header.u32(RING_HEADER.flags) & RING_FLAGS.noTimes) !== 0;
    const records = isShort
      ? shortRecords(noTimes ? { ...of, time: 0n } : of, dataEndian)
      : longRecords(of, dataEndian);
    const count = records.length;
    const capacity = header.u32(RING_HEADER.capacity);
    const head = header.u64(RING_HEADER.head);
    if ((header.u32(RING_HEADER.flags) & RING_FLAGS.keepOldest) !== 0 && head + BigInt(count) > BigInt(capacity)) {
      this.addHeader(RING_HEADER.dropped, 1n);
      return;
    }
    for (const [i, record] of records.entries()) {
      const number = Number((head + BigInt(i)) % BigInt(capacity));
      machine.memory.write(ring + BigInt(RING_HEADER_BYTES + number * record.length), record);
    }
    this.addHeader(RING_HEADER.head, BigInt(count));
  }

  // --------------------------------------------------------------------------------- return probes

  private instances(thread: number): { readonly depth: Address; readonly stack: Address } | null {
    const depth = entryPoint(this.options.program, 'elftrace_probe_depth');
    const stack = entryPoint(this.options.program, 'elftrace_probe_instances');
    if (depth === null || stack === null) return null;
    return {
      depth: depth.identity + BigInt(thread * this.word),
      stack: this.instance(stack.identity, thread * PROBE_INSTANCE_COUNT),
    };
  }

  private instance(stack: Address, index: number): Address {
    return stack + BigInt(index * PROBE_INSTANCE_WORD_COUNT * this.word);
  }

  /** What `begin_call` of the runtime does. */
  private begin(event: ProbeEvent, thread: number): void {
    const { program, machine, session } = this.options;
    const op = session.objectAt(event.place.address);
    const found = this.instances(thread);
    if (found === null || op === null) return;
    const { linkRegister, stackPointer } = program.arch.abi;
    const stack = machine.register(stackPointer);
    const frame = linkRegister === null ? stack + BigInt(this.word) : stack;
    let depth = Number(this.readWord(found.depth, 0));
    while (depth > 0 && isGone(this.readWord(this.instance(found.stack, depth - 1), PROBE_INSTANCE_WORDS.frame), frame))
      depth--;
    let active = 0;
    for (let i = 0; i < depth; i++) {
      const other = this.readWord(this.instance(found.stack, i), PROBE_INSTANCE_WORDS.event);
      if (session.eventAddresses.get(other) === event) active++;
    }
    const { maxActive } = event.definition;
    const address = [...session.eventAddresses].find(([, each]) => each === event)?.[0] ?? 0n;
    if (depth === PROBE_INSTANCE_COUNT || (maxActive > 0 && active >= maxActive)) {
      this.writeWord(found.depth, 0, BigInt(depth));
      this.addWord(op, PROBE_OP_WORDS.missed, 1n);
      return;
    }
    const each = this.instance(found.stack, depth);
    this.writeWord(each, PROBE_INSTANCE_WORDS.event, address);
    this.writeWord(each, PROBE_INSTANCE_WORDS.op, op);
    this.writeWord(each, PROBE_INSTANCE_WORDS.frame, frame);
    const parent = linkRegister === null ? this.readWord(stack, 0) : machine.register(linkRegister);
    this.writeWord(each, PROBE_INSTANCE_WORDS.parentIp, parent);
    if (linkRegister === null) this.writeWord(stack, 0, session.trampoline);
    else machine.setRegister(linkRegister, session.trampoline);
    this.writeWord(found.depth, 0, BigInt(depth + 1));
  }

  /**
   * Where a function with return probes really returns to: all but the first of its calls have the
   * trap there, and their events say the caller, too.
   */
  private caller(stack: Address, depth: number, frame: Address): Address | null {
    for (let index = depth - 1; index >= 0; index--) {
      const each = this.instance(stack, index);
      const at = this.readWord(each, PROBE_INSTANCE_WORDS.frame);
      if (at > frame) return null;
      const parent = this.readWord(each, PROBE_INSTANCE_WORDS.parentIp);
      if (at === frame && parent !== this.options.session.trampoline) return parent;
    }
    return null;
  }

  /** A function with return probes has returned. False: it is not known where to. */
  private returned(): boolean {
    const { program, machine, session } = this.options;
    const thread = this.current;
    const found = thread === null ? null : this.instances(thread);
    if (thread === null || found === null) return false;
    const frame = machine.register(program.arch.abi.stackPointer);
    let depth = Number(this.readWord(found.depth, 0));
    const caller = this.caller(found.stack, depth, frame);
    for (; depth > 0; depth--) {
      const each = this.instance(found.stack, depth - 1);
      const at = this.readWord(each, PROBE_INSTANCE_WORDS.frame);
      // Left without returning.
      if (at < frame) continue;
      if (at > frame) return false;
      const parent = this.readWord(each, PROBE_INSTANCE_WORDS.parentIp);
      const event = session.eventAddresses.get(this.readWord(each, PROBE_INSTANCE_WORDS.event));
      machine.setRegister('pc', parent);
      if (event !== undefined) this.record(event, thread, caller ?? parent);
      if (parent === session.trampoline) continue;
      this.writeWord(found.depth, 0, BigInt(depth - 1));
      this.traps++;
      return true;
    }
    return false;
  }
}

const HALF = 0xffff_ffffn;

/** What a hit records. */
interface HitRecord {
  readonly ring: Address;
  readonly address: Address;
  readonly id: bigint;
  readonly time: bigint;
  readonly thread: number;
  readonly words: readonly bigint[];
}

/** The records of a hit in a long ring: three words in each of those behind the first. */
function longRecords({ address, id, time, thread, words }: HitRecord, endian: Endian): Uint8Array[] {
  return Array.from({ length: 1 + Math.ceil(words.length / 3) }, (_, i) => {
    const record = new Uint8Array(RING_RECORD_BYTES);
    const view = new ByteView(record, endian, 'ring');
    const at = 3 * (i - 1);
    view.insertU64(RING_RECORD.time, i === 0 ? time : (words[at] ?? 0n));
    view.insertU64(RING_RECORD.ip, i === 0 ? address : (words[at + 1] ?? 0n));
    view.insertU64(RING_RECORD.parentIp, i === 0 ? id : (words[at + 2] ?? 0n));
    view.insertU32(RING_RECORD.kind, i === 0 ? RING_KINDS.probe : RING_KINDS.data);
    view.insertU32(RING_RECORD.thread, thread);
    return record;
  });
}

/** The same in a short ring: a word in each of those behind the first and its upper halves. */
function shortRecords({ ring, address, id, time, thread, words }: HitRecord, endian: Endian): Uint8Array[] {
  const { far, threadShift, timeShift } = RING_SHORT_EVENT;
  const one = (kind: number, since: bigint, ip: bigint, parent: bigint): Uint8Array => {
    const record = new Uint8Array(RING_SHORT_BYTES);
    const view = new ByteView(record, endian, 'ring');
    const tag = BigInt(kind | (thread << threadShift));
    view.insertU64(RING_SHORT.event, BigInt.asUintN(64, since << BigInt(timeShift)) | tag);
    view.insertU32(RING_SHORT.ip, Number(ip & HALF));
    view.insertU32(RING_SHORT.parentIp, Number(parent & HALF));
    return record;
  };
  const isFar = address >> 32n !== ring >> 32n || id >> 32n !== ring >> 32n;
  return [
    one(isFar ? RING_KINDS.probe | far : RING_KINDS.probe, time, address, id),
    ...(isFar ? [one(RING_KINDS.data, 0n, address >> 32n, id >> 32n)] : []),
    ...words.map((each) => one(RING_KINDS.data, 0n, each, each >> 32n)),
  ];
}
