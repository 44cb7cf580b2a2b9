/**
 * Starts a program as Linux would: maps its segments and those of the dynamic loader that it asks
 * for (PT_INTERP), builds the stack with arguments, environment and auxiliary vector, and sets the
 * registers that the ABI promises.
 *
 *   stackTop  strings (arguments, environment, file name, 16 random bytes)
 *             AT_NULL
 *             auxiliary vector
 *             0, environment pointers ... 0, argument pointers ..., argc
 *   sp        -> argc, a multiple of 16
 *
 * A position-independent program is loaded at a fixed bias, 0x4000_0000 on 32 bits and
 * 0x40_0000_0000 on 64 (half of the user's addresses where there are no more of them), and
 * relocates itself, or is relocated by its loader, which is where the first of its mappings would
 * be. The loader finds libraries by system calls. With `start: 'none'` nothing runs at first: that
 * is for functions called from outside (`callFunction`), also of shared objects, whose relative
 * relocations are applied here since no start-up code will.
 *
 * Source: System V ABI, processor supplements (process initialisation); facts measured with
 * qemu-user 7.2.
 */
import type { Abi } from '../machine/abi.js';
import { gnuProperty } from '../elf/gnu-property.js';
import { alignUpBig } from '../bits.js';
import { ElftraceError, hex } from '../errors.js';
import { type FileSystem, NO_FILES, putNumber } from './files.js';
import { Machine } from './machine.js';
import type { MachineOptions } from './machine.js';
import type { StopReason } from './stops.js';
import type { Permission } from './windows.js';
import type { IrEmulation, ProcessModel } from '../machine/emulation.js';
import type { TrapKind } from '../machine/ir.js';
import type { Slices } from './scheduler.js';
import { createSyscalls } from './syscalls.js';
import type { GuestInput, GuestOutput, SyscallServer } from './syscalls.js';
import type { Raised } from '../machine/signals.js';
import type { Address, Endian } from '../units.js';

/** What is needed of an ELF file; an `ElfImage` is one. */
export interface ProcessImage {
  readonly bytes: Uint8Array;
  readonly header: {
    readonly is64: boolean;
    readonly endian: Endian;
    readonly type: number;
    readonly entry: Address;
    readonly phoff: number;
    readonly phentsize: number;
    readonly phnum: number;
  };
  readonly segments: readonly {
    readonly type: number;
    /** PF_X 1, PF_W 2, PF_R 4 */
    readonly flags: number;
    readonly offset: number;
    readonly address: Address;
    readonly fileSize: number;
    readonly memorySize: bigint;
  }[];
}

/** A word that the dynamic linker would set to `addend` plus the load bias. */
export interface RelativeRelocation {
  readonly address: Address;
  readonly addend: bigint;
}

export interface ProcessOptions {
  readonly image: ProcessImage;
  readonly abi: Pick<Abi, 'stackPointer' | 'syscall'>;
  readonly emulation: IrEmulation;
  /** argv, the program's name first. Default: `['program']`. */
  readonly args?: readonly string[];
  /** `NAME=value`. Default: none. */
  readonly env?: readonly string[];
  readonly onOutput?: GuestOutput;
  /** Standard input. Default: empty. */
  readonly onInput?: GuestInput;
  /**
   * Most bytes of memory that the process may have. Default: no limit but the emulator's, 4 GiB.
   */
  readonly memoryBytes?: number;
  /** Files that the program may read. Default: none. */
  readonly files?: FileSystem;
  /** The file that `interpreterPath` names, which is started in place of the program. */
  readonly interpreter?: ProcessImage;
  /** `none`: nothing is started; pc is 0 and `callFunction` decides. Default: `entry`. */
  readonly start?: 'entry' | 'none';
  /** Whether hot code is compiled (`MachineOptions`). */
  readonly tier?: MachineOptions['tier'];
  readonly tierUpAfter?: number;
  /** How threads share the CPU. Default: slices of one length, in turn. */
  readonly slices?: Slices;
  /** Applied before anything runs; for `start: 'none'`. */
  readonly relocations?: Iterable<RelativeRelocation>;
}

/** A started program. */
export interface Process {
  readonly machine: Machine;
  /** What was added to every address of the file; 0 for ET_EXEC. */
  readonly bias: Address;
  /**
   * Runs until something stops the process, or `budget` instructions are completed (exactly):
   * handlers of signals run, timers expire. `onStop` is asked before a signal is raised; true: go
   * on.
   */
  run(options?: { readonly budget?: number; readonly onStop?: (stop: StopReason) => boolean }): StopReason;
  /**
   * Says that the process ends here: notes where Linux would have raised another signal than the
   * stop does, or none.
   */
  ended(stop: StopReason): void;
}

/** Signals by the traps that raise them. Source: Linux asm-generic/signal.h. */
const TRAP_SIGNALS: Readonly<Record<TrapKind, number>> = {
  breakpoint: 5,
  'trap-instruction': 5,
  divide: 8,
  privileged: 4,
  'misaligned-pc': 7,
  alignment: 7,
  'undefined-instruction': 4,
  protection: 11,
  'invalid-form': 4,
  undefined: 4,
  'branch-target': 4,
  'control-protection': 11,
};

/**
 * The signal that Linux raises where a run stopped so; null: the stop is no signal, or not one that
 * an instruction raises.
 */
export function signalOf(stop: StopReason): number | null {
  if (stop.kind === 'fault') return 11;
  if (stop.kind === 'unknown-instruction') {
    // A zero word is illegal by definition where it is no instruction; other unknown words may be
    // ours to learn.
    const isIllegal = stop.mnemonic === null && stop.bytes.length > 0 && stop.bytes.every((byte) => byte === 0);
    return isIllegal ? 4 : null;
  }
  return stop.kind === 'trap' ? TRAP_SIGNALS[stop.trap] : null;
}

const ET_EXEC = 2;
const ET_DYN = 3;
const PT_LOAD = 1;
const PT_INTERP = 3;
/**
 * Load bias of a position-independent file by word size: free of everything else, and on 64 bits
 * above 4 GiB.
 */
const BIAS = { 4: 0x4000_0000n, 8: 0x40_0000_0000n } as const;
const PAGE = 4096n;
/** Alignment of a dynamic loader: the largest page of the machines that are served. */
const INTERPRETER_ALIGN = 0x1_0000n;
/**
 * The stack grows on demand, from the first size by doubling to the limit; Linux's default limit.
 */
const STACK_BYTES = 0x80_0000;
const STACK_FIRST_BYTES = 0x4_0000;
/** Distance between the stack and the first mapping below it. */
const STACK_GAP = 0x1000_0000n;

/** Types of the auxiliary vector. Source: Linux uapi/linux/auxvec.h. */
const AT = {
  NULL: 0, PHDR: 3, PHENT: 4, PHNUM: 5, PAGESZ: 6, BASE: 7, FLAGS: 8, ENTRY: 9, UID: 11, EUID: 12, GID: 13, EGID: 14,
  HWCAP: 16, CLKTCK: 17, DCACHEBSIZE: 19, ICACHEBSIZE: 20, SECURE: 23, RANDOM: 25, HWCAP2: 26, EXECFN: 31,
} as const; // prettier-ignore

/** The word at a guest address; null where none is mapped. */
export function readWord(machine: Machine, address: Address, size: 4 | 8): bigint | null {
  const bytes = machine.memory.read(address, size);
  if (!bytes) return null;
  if (machine.lifter.endian === 'little') bytes.reverse();
  return bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
}

function permissionOf(flags: number): Permission {
  const write = (flags & 2) !== 0;
  const execute = (flags & 1) !== 0;
  if (write) return execute ? 'rwx' : 'rw';
  return execute ? 'rx' : (flags & 4) !== 0 ? 'r' : 'none';
}

/**
 * The path of the dynamic loader that a program asks for (PT_INTERP); null: none, it is static.
 * @throws ElftraceError 'bad-reference' when the path is outside the file or has no end
 */
export function interpreterPath({ bytes, segments }: ProcessImage): string | null {
  const segment = segments.find((each) => each.type === PT_INTERP);
  if (!segment) return null;
  const text = bytes.subarray(segment.offset, segment.offset + segment.fileSize);
  const end = text.indexOf(0);
  // Linux: ENOEXEC.
  if (end < 1 || end !== segment.fileSize - 1) {
    throw new ElftraceError('bad-reference', 'PT_INTERP names no dynamic loader', {
      address: segment.address,
    });
  }
  return new TextDecoder().decode(text.subarray(0, end));
}

/** Throws when the loader is no loader of the program. */
function checkInterpreter(program: ProcessImage, { header, segments }: ProcessImage): void {
  const { is64, endian } = program.header;
  const asksForAnother = segments.some((each) => each.type === PT_INTERP);
  if (header.type !== ET_DYN || header.is64 !== is64 || header.endian !== endian || asksForAnother) {
    throw new ElftraceError('unsupported-form', 'the dynamic loader is no shared object for the program');
  }
}

/** Throws when the file cannot be started so. */
function checkForm(image: ProcessImage, start: 'entry' | 'none', interpreter: ProcessImage | undefined): void {
  const { header } = image;
  if (header.type !== ET_EXEC && header.type !== ET_DYN) {
    throw new ElftraceError('unsupported-form', 'only linked programs (ET_EXEC, ET_DYN) can be run');
  }
  if (start === 'none') return;
  const path = interpreterPath(image);
  if (path !== null && !interpreter) {
    throw new ElftraceError('unsupported-form', `the program asks for a dynamic loader, ${path}`);
  }
  if (interpreter) checkInterpreter(image, interpreter);
  if (header.type === ET_DYN && header.entry === 0n) {
    throw new ElftraceError('unsupported-form', 'a shared object has no start; call one of its functions');
  }
}

/**
 * Maps the segments; returns the address after the last, page-aligned, and the address of the
 * program headers.
 */
function mapSegments(
  machine: Machine,
  image: ProcessImage,
  bias: Address,
  guard: ProcessModel['guard'],
): { end: Address; headers: Address } {
  // Linux guards the code of a static executable that says so.
  const guards = guard !== null && (gnuProperty(image, guard.propertyType) & guard.propertyBit) !== 0;
  const loads = image.segments.filter((each) => each.type === PT_LOAD && each.memorySize > 0n);
  if (loads.length === 0) throw new ElftraceError('unsupported-form', 'the file has no loadable segment');
  let end = 0n;
  let headers = 0n;
  for (const segment of loads) {
    const address = segment.address + bias;
    const from = address & -PAGE;
    const to = alignUpBig(address + segment.memorySize, PAGE);
    // A page shared with the segment before keeps its bytes and gets the later permission, as with
    // MAP_FIXED.
    let start = from;
    if (end > from) start = end < to ? end : to;
    if (to > start) {
      machine.map({
        address: start,
        size: Number(to - start),
        permission: permissionOf(segment.flags),
        guarded: guards && (segment.flags & 1) !== 0,
        name: 'segment',
      });
    }
    const lead = Math.min(Number(address - from), segment.offset);
    machine.memory.write(
      address - BigInt(lead),
      image.bytes.subarray(segment.offset - lead, segment.offset + segment.fileSize),
    );
    if (start > from) {
      const guarded = guards && (segment.flags & 1) !== 0;
      machine.memory.protect(from, Number(start - from), permissionOf(segment.flags), guarded);
    }
    if (to > end) end = to;
    const { phoff } = image.header;
    if (phoff >= segment.offset && phoff < segment.offset + segment.fileSize) {
      headers = address + BigInt(phoff - segment.offset);
    }
  }
  return { end, headers };
}

/**
 * The stack of a process, mapped as far as it was touched: at most STACK_BYTES down from `end`. How
 * far is part of the machine's snapshots.
 */
class Stack {
  private size = STACK_FIRST_BYTES;

  constructor(
    private readonly machine: Machine,
    /** Exclusive. */
    readonly end: Address,
  ) {}

  /** Maps the first part. */
  map(): void {
    this.machine.map({
      address: this.end - BigInt(STACK_FIRST_BYTES),
      size: STACK_FIRST_BYTES,
      permission: 'rw',
      name: 'stack',
    });
  }

  /** Maps more of it if `address` is in it; false when it is not. */
  grow(address: Address): boolean {
    const bottom = this.end - BigInt(this.size);
    if (address >= bottom || address < this.end - BigInt(STACK_BYTES)) return false;
    let size = this.size * 2;
    while (address < this.end - BigInt(size)) size *= 2;
    const request = {
      address: this.end - BigInt(size),
      size: size - this.size,
      permission: 'rw',
      name: 'stack',
    } as const;
    if (this.machine.memory.tryMap(request) !== null) return false;
    this.size = size;
    return true;
  }

  place(address: Address, bytes: Uint8Array): void {
    const { memory } = this.machine;
    if (memory.write(address, bytes)) return;
    if (!this.grow(address) || !memory.write(address, bytes)) {
      throw new ElftraceError('usage', 'arguments and environment do not fit the stack', { max: STACK_BYTES });
    }
  }

  save(): () => void {
    const { size } = this;
    return () => {
      this.size = size;
    };
  }
}

/** Where things are in a process. */
interface Places {
  readonly wordBytes: 4 | 8;
  /** What was added to every address of the file. */
  readonly bias: Address;
  readonly entry: Address;
  /** The program headers. */
  readonly headers: Address;
  /** The bias of the dynamic loader; null: there is none. */
  readonly base: Address | null;
}

function relocate(
  machine: Machine,
  relocations: Iterable<RelativeRelocation>,
  { wordBytes, bias }: Places,
  endian: Endian,
): void {
  for (const { address, addend } of relocations) {
    const word = new Uint8Array(wordBytes);
    putNumber(word, 0, wordBytes, BigInt.asUintN(8 * wordBytes, addend + bias), endian);
    if (!machine.memory.write(address + bias, word)) {
      throw new ElftraceError('bad-reference', `a relocation names ${hex(address)}, which is not mapped`, { address });
    }
  }
}

/** The auxiliary vector. `random` and `name`: where the random bytes and the file name are. */
function auxiliaryVector(
  header: ProcessImage['header'],
  model: ProcessModel,
  { entry, headers, base }: Places,
  { random, name }: { readonly random: Address; readonly name: Address },
): readonly (readonly [type: number, value: bigint])[] {
  const cacheLine = BigInt(model.cacheLineBytes);
  return [
    [AT.PHDR, headers],
    [AT.PHENT, BigInt(header.phentsize)],
    [AT.PHNUM, BigInt(header.phnum)],
    [AT.PAGESZ, PAGE],
    [AT.BASE, base ?? 0n],
    [AT.FLAGS, 0n],
    [AT.ENTRY, entry],
    [AT.UID, 1000n],
    [AT.EUID, 1000n],
    [AT.GID, 1000n],
    [AT.EGID, 1000n],
    [AT.HWCAP, model.hwcap],
    [AT.HWCAP2, model.hwcap2],
    [AT.CLKTCK, 100n],
    [AT.SECURE, 0n],
    [AT.RANDOM, random],
    [AT.EXECFN, name],
    ...(cacheLine === 0n ? [] : [[AT.DCACHEBSIZE, cacheLine] as const, [AT.ICACHEBSIZE, cacheLine] as const]),
    [AT.NULL, 0n],
  ];
}

/** Puts on the stack what a program finds there; returns the stack pointer. */
function fillStack(stack: Stack, options: ProcessOptions, places: Places): Address {
  const { header } = options.image;
  const { wordBytes } = places;
  let top = stack.end;
  const push = (bytes: Uint8Array): Address => {
    top -= BigInt(bytes.length);
    stack.place(top, bytes);
    return top;
  };
  const encoder = new TextEncoder();
  const pushText = (text: string): Address => push(encoder.encode(`${text}\0`));
  const args = options.args ?? ['program'];
  const name = pushText(args[0] ?? '');
  const random = push(Uint8Array.from({ length: 16 }, (_, i) => (i * 0x1d + 0x5a) & 0xff));
  const environment = (options.env ?? []).map(pushText);
  const pointers = args.map(pushText);

  const auxiliary = auxiliaryVector(header, options.emulation.process, places, { random, name });
  const words: readonly bigint[] = [
    BigInt(args.length),
    ...pointers,
    0n,
    ...environment,
    0n,
    ...auxiliary.flatMap(([type, value]) => [BigInt(type), value]),
  ];
  const sp = (top - BigInt(words.length * wordBytes)) & -16n;
  const block = new Uint8Array(words.length * wordBytes);
  words.forEach((value, index) => {
    putNumber(block, index * wordBytes, wordBytes, value, header.endian);
  });
  stack.place(sp, block);
  return sp;
}

/** Sets the registers that lead to the first instruction of the program or of its loader. */
function enter(
  machine: Machine,
  model: ProcessModel,
  { wordBytes, bias, entry }: Pick<Places, 'wordBytes' | 'bias' | 'entry'>,
): void {
  switch (model.entry.kind) {
    case 'code':
      machine.setRegister('pc', entry);
      if (model.entry.register !== null) machine.setRegister(model.entry.register, entry);
      break;
    case 'descriptor': {
      const code = readWord(machine, entry, wordBytes);
      const toc = readWord(machine, entry + BigInt(wordBytes), wordBytes);
      if (code === null || toc === null) {
        throw new ElftraceError('bad-reference', `no entry descriptor at ${hex(entry)}`, { address: entry });
      }
      // Linux adds the bias to both words: they are not relocated yet.
      machine.setRegister('pc', code + bias);
      machine.setRegister(model.entry.toc, toc + bias);
      break;
    }
    default:
      model.entry satisfies never;
  }
}

/** What is added to every address of a program. */
function biasOf({ type }: ProcessImage['header'], wordBytes: 4 | 8, { userEnd }: ProcessModel): Address {
  if (type !== ET_DYN) return 0n;
  return BIAS[wordBytes] < userEnd ? BIAS[wordBytes] : userEnd / 2n;
}

/** Maps a dynamic loader as the highest of the process's mappings; returns its bias. */
function mapInterpreter(machine: Machine, image: ProcessImage, top: Address, guard: ProcessModel['guard']): Address {
  const loads = image.segments.filter((each) => each.type === PT_LOAD && each.memorySize > 0n);
  const ends = loads.map((each) => each.address + each.memorySize);
  const end = ends.reduce((last, each) => (each > last ? each : last), 0n);
  // Room for the largest pages, to which segments are aligned.
  const bias = (top - end) & -INTERPRETER_ALIGN;
  mapSegments(machine, image, bias, guard);
  return bias;
}

/** What the stop of an instruction is to signals; null: it raises none. */
function raisedBy(machine: Machine, stop: StopReason): Raised | null {
  if (signalOf(stop) === null) return null;
  switch (stop.kind) {
    case 'fault': {
      const { address, access } = stop;
      return { kind: 'access', address, access, mapped: machine.memory.isMapped(address, 1) };
    }
    case 'trap':
      return { kind: 'trap', trap: stop.trap };
    case 'unknown-instruction':
      return { kind: 'trap', trap: 'undefined' };
    default:
      return null;
  }
}

/** `Process.run`. */
function runProcess(
  machine: Machine,
  server: SyscallServer,
  { budget = Number.MAX_SAFE_INTEGER, onStop }: NonNullable<Parameters<Process['run']>[0]> = {},
): StopReason {
  const last = machine.totalInstructions + budget;
  for (;;) {
    const stop = server.prepare();
    if (stop) return stop;
    const left = last - machine.totalInstructions;
    const ticks = server.ticks();
    const most = ticks === null || ticks > BigInt(left) ? left : Math.max(1, Number(ticks));
    const ended = machine.run({ budget: Math.min(left, most) });
    if (ended.kind === 'yield') continue;
    if (ended.kind === 'step-limit') {
      if (machine.totalInstructions < last) continue;
      return ended;
    }
    if (ended.kind === 'waiting' && server.lacksInput()) continue;
    if (onStop?.(ended) === true) continue;
    const raised = raisedBy(machine, ended);
    if (raised === null || !server.raised(raised)) return ended;
  }
}

/**
 * Creates the machine and the process in it.
 * @throws ElftraceError 'unsupported-form' when the file is no executable, or one that asks for a
 *   loader which was not given; 'usage' when its segments cannot be mapped
 */
export function startProcess(options: ProcessOptions): Process {
  const { image, abi, emulation, interpreter } = options;
  const { header } = image;
  const model = emulation.process;
  const start = options.start ?? 'entry';
  checkForm(image, start, interpreter);
  const wordBytes: 4 | 8 = header.is64 ? 8 : 4;
  const bias = biasOf(header, wordBytes, model);
  // What the machine asks while the program runs is made behind it.
  const machine: Machine = new Machine({
    lifter: emulation.lifter,
    syscall: (running) => server.handler(running),
    onFault: (_machine, address) => stack.grow(address),
    ...(options.memoryBytes !== undefined && { memoryBytes: options.memoryBytes }),
    ...(options.tier !== undefined && { tier: options.tier }),
    ...(options.tierUpAfter !== undefined && { tierUpAfter: options.tierUpAfter }),
  });
  const stack = new Stack(machine, model.stackTop);
  const mappingTop = model.stackTop - BigInt(STACK_BYTES) - STACK_GAP;
  // Linux guards the code of the file that it starts; a dynamic loader guards the others.
  const { end, headers } = mapSegments(machine, image, bias, interpreter ? null : model.guard);
  const base = interpreter ? mapInterpreter(machine, interpreter, mappingTop, model.guard) : null;
  const places: Places = { wordBytes, bias, entry: header.entry + bias, headers, base };
  const server = createSyscalls(machine, {
    convention: abi.syscall,
    stackPointer: abi.stackPointer,
    model,
    layout: {
      heapStart: end,
      stackBytes: STACK_BYTES,
      mappingTop,
      growStack: (address) => stack.grow(address),
    },
    wordBytes,
    output: options.onOutput ?? ((): void => undefined),
    input: options.onInput ?? ((): Uint8Array => new Uint8Array()),
    files: options.files ?? NO_FILES,
    slices: options.slices ?? {},
  });
  machine.addState(() => stack.save());
  relocate(machine, options.relocations ?? [], places, header.endian);
  stack.map();
  machine.setRegister(abi.stackPointer, fillStack(stack, options, places));
  if (start === 'entry') {
    const first =
      interpreter && base !== null ? { wordBytes, bias: base, entry: interpreter.header.entry + base } : places;
    enter(machine, model, first);
  }
  return {
    machine,
    bias,
    run: (runOptions) => runProcess(machine, server, runOptions),
    ended: (stop) => {
      const signal = signalOf(stop);
      if (signal === null) return;
      server.faulted(signal, stop.kind === 'fault' ? stop.address : null);
    },
  };
}
