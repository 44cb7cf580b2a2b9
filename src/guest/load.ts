/**
 * Makes a program what a machine executes: maps its segments and those of the dynamic loader that
 * it asks for (PT_INTERP), builds the stack with arguments, environment and auxiliary vector, and
 * sets the registers that the ABI promises.
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
 * be.
 *
 * Source: System V ABI, processor supplements (process initialisation); facts measured with
 * qemu-user 7.2.
 */
import { AddressSpace, Stack, STACK_BYTES } from './address-space.js';
import type { Abi } from '../machine/abi.js';
import { gnuProperty } from '../elf/gnu-property.js';
import { alignUpBig } from '../bits.js';
import { ElftraceError, hex } from '../errors.js';
import { putNumber } from './files.js';
import type { Machine } from '../emulator/machine.js';
import { PAGE, type Permission } from '../emulator/windows.js';
import type { IrEmulation, ProcessModel } from '../machine/emulation.js';
import type { Address, Endian } from '../units.js';
import { nameBytes, textOf } from '../bytes.js';

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

const ET_EXEC = 2;
const ET_DYN = 3;
const PT_LOAD = 1;
const PT_INTERP = 3;
/**
 * Load bias of a position-independent file by word size: free of everything else, and on 64 bits
 * above 4 GiB.
 */
const BIAS = { 4: 0x4000_0000n, 8: 0x40_0000_0000n } as const;
/** Alignment of a dynamic loader: the largest page of the machines that are served. */
const INTERPRETER_ALIGN = 0x1_0000n;
/** Distance between the stack and the first mapping below it. */
const STACK_GAP = 0x1000_0000n;

/** Types of the auxiliary vector. Source: Linux uapi/linux/auxvec.h. */
const AT = {
  NULL: 0, PHDR: 3, PHENT: 4, PHNUM: 5, PAGESZ: 6, BASE: 7, FLAGS: 8, ENTRY: 9, UID: 11, EUID: 12, GID: 13, EGID: 14,
  PLATFORM: 15, HWCAP: 16, CLKTCK: 17, DCACHEBSIZE: 19, ICACHEBSIZE: 20, SECURE: 23, BASE_PLATFORM: 24, RANDOM: 25, HWCAP2: 26, EXECFN: 31,
  MINSIGSTKSZ: 51,
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
  return textOf(text.subarray(0, end));
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
export function checkForm(image: ProcessImage, start: 'entry' | 'none', interpreter: ProcessImage | undefined): void {
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

/** Notes which file, and where in it, the segments come from. */
function noteSegments(space: AddressSpace, { segments }: ProcessImage, bias: Address, path: string): void {
  for (const segment of segments) {
    if (segment.type !== PT_LOAD || segment.memorySize === 0n) continue;
    const address = segment.address + bias;
    const from = address & -PAGE;
    const offset = BigInt(segment.offset) - (address - from);
    space.noteFile({ from, to: alignUpBig(address + segment.memorySize, PAGE), path, offset });
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

/** The auxiliary vector; the texts: where they are. */
function auxiliaryVector(
  header: ProcessImage['header'],
  model: ProcessModel,
  { entry, headers, base }: Places,
  { random, name, platform }: { readonly random: Address; readonly name: Address; readonly platform: Address | null },
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
    ...(platform === null ? [] : [[AT.PLATFORM, platform] as const]),
    // What there is without a mode that says less is the same.
    ...(platform === null || model.hasBasePlatform !== true ? [] : [[AT.BASE_PLATFORM, platform] as const]),
    ...(model.signalFrameBytes === undefined ? [] : [[AT.MINSIGSTKSZ, model.signalFrameBytes] as const]),
    ...(cacheLine === 0n ? [] : [[AT.DCACHEBSIZE, cacheLine] as const, [AT.ICACHEBSIZE, cacheLine] as const]),
    [AT.NULL, 0n],
  ];
}

/** Puts on the stack what a program finds there; returns the stack pointer. */
function fillStack(
  stack: Stack,
  options: LoadOptions,
  places: Places,
): { readonly sp: Address; readonly auxiliary: Uint8Array } {
  const { header } = options.image;
  const { wordBytes } = places;
  let top = stack.end;
  const push = (bytes: Uint8Array): Address => {
    top -= BigInt(bytes.length);
    stack.place(top, bytes);
    return top;
  };
  const pushText = (text: string): Address => push(nameBytes(`${text}\0`));
  const { args } = options;
  const name = pushText(options.name);
  const { platform: given } = options.emulation.process;
  const platform = given === undefined ? null : pushText(given);
  const random = push(Uint8Array.from({ length: 16 }, (_, i) => (i * 0x1d + 0x5a) & 0xff));
  const environment = options.env.map(pushText);
  const pointers = args.map(pushText);

  const auxiliary = auxiliaryVector(header, options.emulation.process, places, { random, name, platform });
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
  return { sp, auxiliary: block.slice(block.length - 2 * auxiliary.length * wordBytes) };
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

/** A program and what it is started with. */
export interface LoadOptions {
  readonly image: ProcessImage;
  readonly abi: Pick<Abi, 'stackPointer'>;
  readonly emulation: IrEmulation;
  /** The file that `interpreterPath` names, which is started in place of the program. */
  readonly interpreter?: ProcessImage | undefined;
  /** Where the program is in its tree. */
  readonly path: string;
  /** How the file was called that was executed (AT_EXECFN). */
  readonly name: string;
  readonly args: readonly string[];
  readonly env: readonly string[];
  /** Applied before anything runs. */
  readonly relocations?: Iterable<RelativeRelocation> | undefined;
  readonly start: 'entry' | 'none';
}

/** A program that lies in a machine. */
export interface LoadedProgram {
  /** What was added to every address of the file; 0 for ET_EXEC. */
  readonly bias: Address;
  readonly space: AddressSpace;
  /** The bytes of the auxiliary vector. */
  readonly auxiliary: Uint8Array;
}

/**
 * Puts a program into a machine in which nothing is mapped.
 * @throws ElftraceError 'usage' when its segments cannot be mapped, 'unsupported-form' when it has
 *   none
 */
export function loadProgram(machine: Machine, options: LoadOptions): LoadedProgram {
  const { image, abi, emulation, interpreter, start } = options;
  const { header } = image;
  const model = emulation.process;
  const wordBytes: 4 | 8 = header.is64 ? 8 : 4;
  const bias = biasOf(header, wordBytes, model);
  const stack = new Stack(machine, model.stackTop);
  const mappingTop = model.stackTop - BigInt(STACK_BYTES) - STACK_GAP;
  // Linux guards the code of the file that it starts; a dynamic loader guards the others.
  const { end, headers } = mapSegments(machine, image, bias, interpreter ? null : model.guard);
  const base = interpreter ? mapInterpreter(machine, interpreter, mappingTop, model.guard) : null;
  const places: Places = { wordBytes, bias, entry: header.entry + bias, headers, base };
  relocate(machine, options.relocations ?? [], places, header.endian);
  stack.map();
  const { sp, auxiliary } = fillStack(stack, options, places);
  machine.setRegister(abi.stackPointer, sp);
  if (start === 'entry') {
    const first =
      interpreter && base !== null ? { wordBytes, bias: base, entry: interpreter.header.entry + base } : places;
    enter(machine, model, first);
  }
  const space = new AddressSpace(stack, { heapStart: end, mappingTop });
  noteSegments(space, image, bias, options.path);
  if (interpreter && base !== null) noteSegments(space, interpreter, base, interpreterPath(image) ?? options.path);
  return { bias, space, auxiliary };
}
