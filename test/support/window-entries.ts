/**
 * Enters the windows of optimised probes by every branch of an image that leads into one. Which
 * branches there are, objdump says, which knows nothing of this project. Each is really taken: the
 * emulator executes it, from registers and flags under which it is taken, and then what it leads
 * to, once in the text as it is and once with the jump in it. Both must leave the same registers,
 * memory and way on.
 *
 * Windows that are refused because something leads into their middle are written all the same
 * (`refused`): there the two must differ, or the refusal is for nothing and this file sees nothing.
 */
import { archOf } from '../../src/arches.js';
import type { Arch } from '../../src/machine/arch.js';
import { reaches } from '../../src/bits.js';
import { readElf } from '../../src/elf/read.js';
import type { Machine } from '../../src/emulator/index.js';
import { startProcess } from '../../src/guest/index.js';
import { findSites } from '../../src/sites/sites.js';
import {
  type JumpOptimization,
  type JumpWindow,
  jumpWindows,
  type ProbeCode,
  type ProbeSupport,
} from '../../src/machine/probes.js';
import { probeSupport, ProbeText } from '../../src/kprobes/validate.js';
import { load } from '../../src/program/program.js';
import { runtimeSpoiler } from './window-callee.js';
import { jumpsOf } from './probe-code.js';
import { run } from './tools.js';

/** A direct branch, by objdump. */
interface Entry {
  readonly at: bigint;
  readonly to: bigint;
}

const OBJDUMP: Readonly<Record<string, string>> = { 'x86-64': 'objdump', riscv64: 'riscv64-linux-gnu-objdump' };

/** Direct branches and calls of a file, with pairs of auipc and jalr at their first word. */
function branchesOf(path: string, target: string): readonly Entry[] {
  const lines = run(OBJDUMP[target]!, ['-d', '-w', '--no-show-raw-insn', path]).toString('latin1').split('\n');
  const found: Entry[] = [];
  let before: bigint | null = null;
  for (const line of lines) {
    const [, place, mnemonic = '', rest = ''] =
      /^\s*([0-9a-f]+):\s+(?:(?:bnd|notrack|lock|rep\w*) )*([\w.,]+)\s*(.*)$/.exec(line) ?? [];
    if (place === undefined) continue;
    const at = BigInt(`0x${place}`);
    const isBranch = /^(j|b[a-z]|c\.[jb]|call|loop|xbegin)/.test(mnemonic);
    const to = isBranch ? /(?:^|,|# )(?:0x)?([0-9a-f]+) </.exec(rest)?.[1] : undefined;
    const isPair = rest.includes('# ');
    if (to !== undefined && (!isPair || before !== null))
      found.push({ at: isPair ? before! : at, to: BigInt(`0x${to}`) });
    before = mnemonic === 'auipc' ? at : null;
  }
  return found;
}

export interface Explored {
  /** Windows that may be written, and how many of them are entered at their start by a branch. */
  windows: number;
  entered: number;
  /** Branches that were taken into them. */
  taken: number;
  /** Branches of which no state was found under which they are taken. */
  untaken: number;
  /**
   * Windows that are refused for what leads into their middle, and branches that were taken there
   * all the same.
   */
  refused: number;
  inside: number;
  /** Of those, how many did something else with the jump in place. */
  broken: number;
  /** What differs where nothing may. */
  readonly faults: string[];
}

const DATA = 0x7000_0000n;
const DATA_BYTES = 0x8000;
const STACK = 0x7100_0000n;
const STACK_BYTES = 0x8000;
const ATTEMPTS = 64;
/**
 * So many branches into one window are taken: the functions that all others call are entered by
 * hundreds.
 */
const WAYS = Number(process.env['ELFTRACE_WINDOW_WAYS'] ?? 3);
const STEPS = 400;

/** What a thread has done when it has left a window. */
interface Outcome {
  readonly stop: string;
  readonly registers: ReadonlyMap<string, bigint>;
  readonly memory: readonly Buffer[];
}

class Explorer {
  private readonly machine: Machine;
  private readonly support: ProbeSupport;
  private readonly jump: JumpOptimization;
  private readonly registers: readonly string[];
  private readonly area: bigint;
  private readonly stackPointer: string;
  private readonly random: () => number;
  /**
   * What can be written, as it is before each run: our data and stack, and those of the program.
   */
  private readonly memory: { readonly address: bigint; readonly bytes: Buffer; readonly compared: number }[] = [
    { address: DATA, bytes: Buffer.alloc(DATA_BYTES, 0x5a), compared: 0 },
    // Below the stack pointer a buffer may leave what it likes.
    { address: STACK, bytes: Buffer.alloc(STACK_BYTES, 0x5a), compared: STACK_BYTES / 2 },
  ];
  readonly text: ProbeText;

  constructor(
    private readonly arch: Arch,
    bytes: Uint8Array,
  ) {
    const image = readElf(bytes);
    const program = load(image, arch);
    this.text = new ProbeText(program, findSites(program));
    this.support = probeSupport(arch);
    this.jump = jumpsOf(this.support);
    const { emulation } = arch;
    if (emulation.kind !== 'ir') throw new Error('the machine is not emulated');
    this.machine = startProcess({ image, abi: arch.abi, emulation, start: 'none' }).machine;
    const end = image.segments.reduce((high, { type, address, memorySize }) => {
      const last = address + memorySize;
      return type === 1 && last > high ? last : high;
    }, 0n);
    this.area = (end + 0x1fffn) & ~0xfffn;
    const { machine } = this;
    machine.map({ address: this.area, size: 0x2000, permission: 'rwx' });
    machine.map({ address: DATA, size: DATA_BYTES, permission: 'rw' });
    machine.map({ address: STACK, size: STACK_BYTES, permission: 'rw' });
    for (const { type, flags, address, memorySize, offset, fileSize } of image.segments) {
      if (type !== 1 || (flags & 2) === 0) continue;
      const own = Buffer.alloc(Number(memorySize));
      own.set(image.bytes.subarray(offset, offset + fileSize));
      this.memory.push({ address, bytes: own, compared: 0 });
    }
    machine.memory.write(this.area, runtimeSpoiler(arch.target.id));
    const { abi } = this.support;
    this.stackPointer = abi.registers.get(abi.stackPointer)!.machine!;
    this.registers = [...abi.registers.values()]
      .flatMap(({ machine: name }) => name ?? [])
      .filter((name) => !['pc', 'rflags', this.stackPointer, 'gp', 'tp'].includes(name));
    let seed = 1;
    this.random = () => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return seed / 2 ** 32;
    };
  }

  /**
   * Registers point into memory; from the second attempt on some are numbers that conditions ask
   * for.
   */
  private state(attempt: number): ReadonlyMap<string, bigint> {
    const made = new Map<string, bigint>();
    const numbers = [0n, 1n, 2n, 0xffff_ffff_ffff_ffffn, 0x7fff_ffff_ffff_ffffn];
    this.registers.forEach((name, i) => {
      const isNumber = attempt > 0 && this.random() < 0.5;
      made.set(name, isNumber ? numbers[Math.floor(this.random() * numbers.length)]! : DATA + 0x4000n + BigInt(64 * i));
    });
    if (this.arch.target.id === 'x86-64') {
      // Carry, parity, zero, sign, overflow.
      const bits = [0, 2, 6, 7, 11].reduce(
        (flags, bit) => flags | (attempt > 0 && this.random() < 0.5 ? 1 << bit : 0),
        2,
      );
      made.set('rflags', BigInt(bits));
    }
    return made;
  }

  private set(state: ReadonlyMap<string, bigint>, pc: bigint): void {
    const { machine } = this;
    for (const [name, value] of state) machine.setRegister(name, value);
    machine.setRegister(this.stackPointer, STACK + BigInt(STACK_BYTES / 2));
    for (const { address, bytes } of this.memory) machine.memory.write(address, bytes);
    machine.setRegister('pc', pc);
  }

  /** The branch is executed, and leads where objdump says. */
  private enters({ at, to }: Entry, state: ReadonlyMap<string, bigint>): boolean {
    this.set(state, at);
    for (let i = 0; i < 2; i++) {
      if (this.machine.run({ budget: 1 }).kind !== 'step-limit') return false;
      if (this.machine.pc === to) return true;
    }
    return false;
  }

  private stateFor(entry: Entry): ReadonlyMap<string, bigint> | null {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const state = this.state(attempt);
      if (this.enters(entry, state)) return state;
    }
    return null;
  }

  /** Takes the branch, and goes on until the thread is in other text. */
  private follow(entry: Entry, state: ReadonlyMap<string, bigint>, window: JumpWindow): Outcome {
    const { machine } = this;
    if (!this.enters(entry, state)) throw new Error('a branch that was taken is not taken any more');
    const end = window.address + BigInt(window.bytes.length);
    const isHere = (pc: bigint): boolean =>
      (pc >= window.address && pc < end) || (pc >= this.area && pc < this.area + 0x2000n);
    let stop = 'steps';
    for (let i = 0; i < STEPS; i++) {
      const now = machine.run({ budget: 1 });
      if (now.kind !== 'step-limit') {
        stop = now.kind === 'fault' ? `fault ${now.access} ${now.address.toString(16)}` : now.kind;
        break;
      }
      if (!isHere(machine.pc)) {
        stop = `at ${machine.pc.toString(16)}`;
        break;
      }
    }
    const names = [...this.registers, this.stackPointer, ...(this.arch.target.id === 'x86-64' ? ['rflags'] : [])];
    return {
      stop,
      registers: new Map(names.map((name) => [name, machine.register(name)])),
      memory: this.memory.map(({ address, bytes, compared }) =>
        Buffer.from(machine.memory.read(address + BigInt(compared), bytes.length - compared)!),
      ),
    };
  }

  private write(window: JumpWindow): boolean {
    const { machine, jump, area } = this;
    const address = area + 0x400n;
    if (!reaches({ ...window.reach, alignBytes: 1 }, window.address, address)) return false;
    const buffer = jump.build(window, { address, op: 1n, callees: [area], toc: null, redZone: true });
    if (buffer.kind === 'refused') return false;
    machine.memory.write(address, buffer.bytes);
    machine.memory.write(window.address, this.support.breakpoint(window.instructions[0]!.bytes));
    for (const step of jump.optimize(window, address)) {
      if (step.kind === 'store') machine.memory.write(step.address, step.bytes);
    }
    return true;
  }

  /** Null: the same; else what is not. */
  private difference(entry: Entry, state: ReadonlyMap<string, bigint>, window: JumpWindow): string | null {
    const plain = this.follow(entry, state, window);
    if (!this.write(window)) return null;
    const patched = this.follow(entry, state, window);
    this.machine.memory.write(window.address, window.bytes);
    if (plain.stop !== patched.stop) return `${plain.stop}, with the jump ${patched.stop}`;
    // Registers that the jump may give up, because nobody reads them.
    const free = new Set(window.scratch ?? []);
    for (const [name, value] of plain.registers) {
      const now = patched.registers.get(name)!;
      if (value !== now && !free.has(name)) return `${name} ${value.toString(16)}, with the jump ${now.toString(16)}`;
    }
    return plain.memory.every((bytes, i) => bytes.equals(patched.memory[i]!)) ? null : 'memory';
  }

  /** Branches into a window that are not part of it. */
  private intoWindow(window: JumpWindow, entries: ReadonlyMap<bigint, readonly Entry[]>, from: bigint): Entry[] {
    const end = window.address + BigInt(window.bytes.length);
    const found: Entry[] = [];
    for (let to = window.address + from; to < end; to++) {
      for (const each of entries.get(to) ?? []) if (each.at < window.address || each.at >= end) found.push(each);
    }
    return found;
  }

  window(window: JumpWindow, entries: ReadonlyMap<bigint, readonly Entry[]>, code: ProbeCode, sum: Explored): void {
    const ways = this.intoWindow(window, entries, 0n);
    sum.windows++;
    if (ways.length > 0) sum.entered++;
    for (const way of ways.slice(0, WAYS)) {
      const state = this.stateFor(way);
      if (state === null) {
        sum.untaken++;
        continue;
      }
      sum.taken++;
      const fault = this.difference(way, state, window);
      if (fault === null) continue;
      sum.faults.push(
        `${code.name}+0x${(window.address - code.start).toString(16)} (${window.form}) from 0x${way.at.toString(16)} to ` +
          `0x${way.to.toString(16)}: ${fault}`,
      );
    }
  }

  refused(window: JumpWindow, entries: ReadonlyMap<bigint, readonly Entry[]>, sum: Explored): void {
    sum.refused++;
    for (const way of this.intoWindow(window, entries, 1n)) {
      const state = this.stateFor(way);
      if (state === null) continue;
      sum.inside++;
      if (this.difference(way, state, window) !== null) sum.broken++;
    }
  }
}

/** Every window of every function of a linked file, entered by every branch. */
export function exploreWindows(path: string, bytes: Uint8Array): Explored {
  const arch = archOf(readElf(bytes).header);
  const explorer = new Explorer(arch, bytes);
  const { text } = explorer;
  const { program } = text;
  const jump = jumpsOf(probeSupport(arch));
  const entries = new Map<bigint, Entry[]>();
  for (const each of branchesOf(path, arch.target.id)) {
    const list = entries.get(each.to);
    if (list) list.push(each);
    else entries.set(each.to, [each]);
  }
  const sum: Explored = {
    ...{ windows: 0, entered: 0, taken: 0, untaken: 0, refused: 0, inside: 0, broken: 0 },
    faults: [],
  };
  const { count, start } = program.functions.functions;
  for (let i = 0; i < count; i++) {
    const range = program.codeAt(start[i]!);
    const code = range === undefined ? null : text.code(range, start[i]!);
    if (code === null || code.start !== start[i]) continue;
    for (let at = 0; at < code.bytes.length;) {
      const here = code.start + BigInt(at);
      at += arch.isa.decode(code.bytes, at, here).sizeBytes;
      const all = jump.windows(code, here);
      if ('kind' in all) continue;
      const allowed = jumpWindows(jump, code, here);
      const free = 'kind' in allowed ? [] : allowed;
      for (const window of all) {
        if (free.some(({ form }) => form === window.form)) explorer.window(window, entries, code, sum);
        else explorer.refused(window, entries, sum);
      }
    }
  }
  return sum;
}
