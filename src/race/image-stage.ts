/**
 * The scene of a race on an image: the program runs up to its first call of a function, and threads
 * begin there, each with a stack of its own. What a call does while it is not traced is what it
 * must do. Knows nothing of what is patched.
 */
import type { Arch } from '../machine/arch.js';
import type { ElfImage } from '../elf/image.js';
import { type CpuState, type IrEmulation, Machine } from '../emulator/index.js';
import { callFunction, startProcess } from '../guest/index.js';
import { ElftraceError, hex } from '../errors.js';
import { readLoadMap } from '../program/load-map.js';
import type { Program } from '../program/program.js';
import type { Address, RegisterName } from '../units.js';
import type { RaceOptions } from './search.js';
import type { CodeExtent, Scene } from './model.js';

const STACK_BYTES = 0x8000n;
const STACKS = { 32: 0x6000_0000n, 64: 0x6f00_0000_0000n } as const;
/** Of the caller's stack, copied to every thread's own: its frames above the stack pointer. */
const ABOVE = 0x1000n;
const BELOW = 0x4000n;
/** Instructions of a call without a patcher. */
const CALL_LIMIT = 100_000;

/** Instructions up to the first call of the function. */
export const BUDGET = 20_000_000;

interface Bytes {
  readonly address: Address;
  readonly bytes: Uint8Array;
}

export interface StageRequest {
  /** As it is when the race begins. */
  readonly before: ElfImage;
  readonly program: Program;
  readonly arch: Arch;
  readonly emulation: IrEmulation;
  /** The function, and an address in it. */
  readonly name: string;
  readonly at: Address;
  readonly cpus: number;
  readonly staleFetch: boolean;
  /** Arguments of a call; null: the first call of the program is taken. */
  readonly call: readonly (bigint | string)[] | null;
  readonly budget: number;
  /**
   * Text of the call that shows what a call must do, and of one that shows where threads may get to
   * besides.
   */
  readonly then: readonly Bytes[];
  readonly later: readonly Bytes[];
}

export interface ImageStage {
  readonly scene: Pick<Scene, 'machine' | 'threads' | 'stop' | 'stackPointer' | 'livePatching' | 'code'>;
  readonly options: RaceOptions;
  /** How often an address was executed in the first of the calls. */
  visits(address: Address): number;
  /** Where an address is, for people; `other` is asked where no code is. */
  placeOf(address: Address, other: () => string | null): string;
}

/** The object or function in which a place is. */
function labelOf(image: ElfImage, address: Address): string {
  const { symbols } = image;
  let best = -1;
  for (let i = 1; i < symbols.count; i++) {
    const value = symbols.value[i]!;
    if (symbols.sectionIndex[i] === 0 || value > address || symbols.name(i) === '') continue;
    if (best >= 0 && value < symbols.value[best]!) continue;
    best = i;
  }
  if (best < 0) return hex(address);
  const distance = address - symbols.value[best]!;
  return distance > 0x4000n ? hex(address) : `${symbols.name(best)}${distance === 0n ? '' : `+${hex(distance)}`}`;
}

/**
 * Registers and memory at the beginning of a call of the function, in a machine that is only good
 * for that.
 */
interface Moment {
  readonly machine: Machine;
  readonly cpu: CpuState;
}

function reach(request: StageRequest, starts: readonly Address[]): Moment {
  const { before: image, arch, emulation, program, name: site, call, budget } = request;
  const start = call === null ? ('entry' as const) : ('none' as const);
  const process = startProcess({ image, abi: arch.abi, emulation, start });
  const { machine } = process;
  for (const [name, value] of Object.entries(program.loadMap?.registers ?? {})) machine.setRegister(name, value);
  if (call !== null) {
    const registers = new Map<RegisterName, bigint>();
    for (const [register, anchor] of emulation.process.anchors) {
      const found = program.symbols.find(anchor);
      if (found > 0) registers.set(register, program.symbols.value[found]!);
    }
    const { entry } = emulation.process;
    const toc = program.tocAt(starts[0]!);
    if (entry.kind === 'descriptor' && toc !== null) registers.set(entry.toc, toc);
    let cpu: CpuState | null = null;
    callFunction(process, { abi: arch.abi, emulation, target: { kind: 'code', address: starts[0]! }, args: call, registers }, () => {
      cpu = machine.saveCpu(0);
      return { kind: 'step-limit' };
    });
    return { machine, cpu: cpu! };
  }
  const hooks = starts.map((address) => machine.hook(address, () => 'stop'));
  const stop = machine.run({ budget });
  for (const off of hooks) off();
  if (stop.kind !== 'hook') {
    const why = stop.kind === 'exit' ? 'ends' : stop.kind === 'step-limit' ? `executes ${budget} instructions` : `stops (${stop.kind})`;
    throw new ElftraceError('no-match', `the program ${why} without a call of ${site}; give arguments for one: --call '${site}(1, 2)'`, {
      symbol: site,
    });
  }
  return { machine, cpu: machine.saveCpu(0) };
} // prettier-ignore

/**
 * A machine for races with the same memory, and as many CPUs at the same place as there are
 * threads.
 */
function crowd(moment: Moment, arch: Arch, emulation: IrEmulation, cpus: number, stop: Address, staleFetch: boolean): Machine {
  const machine = new Machine({
    lifter: emulation.lifter,
    blockInstructions: 1,
    ...(staleFetch ? { fetch: 'buffered' as const, fetchLineBytes: 64 } : {}),
  });
  const { memory } = moment.machine;
  for (const { address, size, permission, name } of memory.windows) {
    machine.map({ address, size, permission, ...(name === undefined ? {} : { name }) });
    for (let at = 0; at < size; at += 0x1000) {
      const page = memory.read(address + BigInt(at), Math.min(0x1000, size - at))!;
      if (page.some((byte) => byte !== 0)) machine.memory.write(address + BigInt(at), page);
    }
  }
  const { abi, target } = arch;
  const stacks = STACKS[target.wordBytes === 8 ? 64 : 32];
  machine.map({ address: stacks, size: Number(STACK_BYTES) * cpus, permission: 'rw', name: 'stacks' });
  for (let cpu = 1; cpu < cpus; cpu++) machine.addCpu();
  machine.restoreCpus(Array.from({ length: cpus }, () => ({ ...moment.cpu, fetched: null })));
  for (let cpu = 0; cpu < cpus; cpu++) {
    machine.switchTo(cpu);
    const old = machine.register(abi.stackPointer);
    const sp = stacks + BigInt(cpu) * STACK_BYTES + BELOW + (old & 0xfffn);
    for (let at = 0n; at < ABOVE; at += 64n) {
      const piece = memory.read(old + at, 64);
      if (piece) machine.memory.write(sp + at, piece);
    }
    if (abi.linkRegister === null) machine.writeWord(sp, target.wordBytes, stop);
    else machine.setRegister(abi.linkRegister, stop);
    machine.setRegister(abi.stackPointer, sp);
  }
  machine.switchTo(0);
  return machine;
} // prettier-ignore

/**
 * One call by the first thread, alone: where it got to, and how it came back; null when it did not.
 */
interface Alone {
  readonly registers: ReadonlyMap<RegisterName, bigint> | null;
  /** How often. */
  readonly visited: ReadonlyMap<Address, number>;
  readonly end: string;
}

function alone(machine: Machine, stop: Address, names: readonly RegisterName[]): Alone {
  const start = machine.snapshot();
  machine.switchTo(0);
  const visited = new Map<Address, number>();
  let end = `executes ${CALL_LIMIT} instructions`;
  let registers: Map<RegisterName, bigint> | null = null;
  for (let i = 0; i < CALL_LIMIT; i++) {
    const pc = machine.register('pc');
    if (pc === stop) {
      registers = new Map(names.map((name) => [name, machine.register(name)]));
      end = 'returns';
      break;
    }
    visited.set(pc, (visited.get(pc) ?? 0) + 1);
    const reason = machine.step();
    if (reason.kind === 'step-limit') continue;
    end = `stops (${reason.kind}) at ${hex(pc)}`;
    break;
  }
  machine.restore(start);
  return { registers, visited, end };
}

/** Functions that were visited, as extents; instructions outside functions by themselves. */
function* extentsOf(program: Program, visited: Iterable<Address>): Generator<CodeExtent> {
  const seen = new Set<Address>();
  for (const address of visited) {
    const range = program.codeAt(address);
    const symbol = range === undefined ? -1 : program.functionAt(range, address);
    const start = symbol < 0 ? undefined : program.functions.placeOf(symbol)?.value;
    const size = symbol < 0 ? 0n : program.symbols.size[symbol]!;
    const place: CodeExtent =
      start !== undefined && size > 0n
        ? { start, end: start + size, name: program.symbolName(symbol) }
        : { start: address, end: address + 1n, name: hex(address) };
    if (!seen.has(place.start)) yield place;
    seen.add(place.start);
  }
}

/** Code of the runtime that is laid in. */
const runtimeExtents = (image: ElfImage): CodeExtent[] =>
  (readLoadMap(image)?.parts ?? [])
    .filter(({ kind }) => kind === 'runtime')
    .flatMap((part) => part.ranges.map(({ start, end }) => ({ start, end, name: 'runtime' })));

/**
 * @throws ElftraceError 'no-match' for functions that are not called, 'unsupported-form' for calls
 *   that do not return by themselves
 */
export function stageOf(request: StageRequest): ImageStage {
  const { before, program, arch, emulation, name, at, cpus, staleFetch } = request;
  const range = program.codeAt(at)!;
  const symbol = program.functionAt(range, at);
  const first = program.functions.placeOf(symbol)!.value;
  const local = first + BigInt(arch.abi.localEntryOffset(program.symbols.other[symbol]!));
  const moment = reach(request, first === local ? [first] : [first, local]);
  const stop = (1n << BigInt(8 * arch.target.wordBytes)) - 0x2000n;
  const machine = crowd(moment, arch, emulation, cpus, stop, staleFetch);
  const whole = machine.snapshot();

  const { abi } = arch;
  const names = [abi.stackPointer, ...abi.preservedRegisters, abi.resultRegister];
  const calledWith = (text: readonly Bytes[]): Alone => {
    for (const { address, bytes } of text) machine.memory.write(address, bytes);
    const result = alone(machine, stop, names);
    machine.restore(whole);
    return result;
  };
  const then = calledWith(request.then);
  if (then.registers === null) {
    throw new ElftraceError('unsupported-form', `a call of ${name} ${then.end}: only functions that return by themselves are raced`, {
      symbol: name,
    });
  }
  const later = calledWith(request.later);

  const threads = Array.from({ length: cpus }, (_, cpu) => {
    machine.switchTo(cpu);
    const expect = new Map<RegisterName, bigint>();
    for (const each of names) {
      const value = then.registers!.get(each)!;
      if (each === abi.stackPointer) expect.set(each, value + BigInt(cpu) * STACK_BYTES);
      else if (each === abi.resultRegister) {
        // What a function returns may depend on other threads.
        if (cpus === 1 && later.registers?.get(each) === value) expect.set(each, value);
      } else if (machine.register(each) === value) expect.set(each, value);
    }
    return { name: `CPU ${cpu}`, expect };
  });
  machine.switchTo(0);

  const code =
    cpus === 1
      ? [...extentsOf(program, [...then.visited.keys(), ...later.visited.keys()]), ...runtimeExtents(before)]
      : program.code.map(({ address, bytes, name: section }) => ({ start: address, end: address + BigInt(bytes.length), name: section }));
  return {
    scene: { machine, threads, stop, stackPointer: abi.stackPointer, livePatching: arch.livePatching, code },
    options: staleFetch ? { prefetch: true } : {},
    visits: (address) => then.visited.get(address) ?? 0,
    placeOf(address, other) {
      // The word in front of a function is its own (A-CO-1).
      if (address < first && first - address <= 16n) return `${name}-${hex(first - address)}`;
      const home = program.codeAt(address);
      const named = home === undefined ? other() : program.describe(home, address);
      return named === null || named === '' ? labelOf(before, address) : named;
    },
  };
} // prettier-ignore
