/**
 * Lives of probes on small functions of every machine, as races: a state machine of the kprobe room
 * writes real text, its stores, waits and frees are the patcher, and threads call the function. The
 * programs are given as bytes; `probes-race.test.ts` assembles their sources again.
 */
import type { Arch } from '../../src/machine/arch.js';
import { arches } from '../../src/arches.js';
import { Machine } from '../../src/emulator/index.js';
import { type ProbeSupport, refuse } from '../../src/machine/probes.js';
import { FLAGS_2009, Kprobe } from '../../src/kprobes/objects.js';
import { SlotPool } from '../../src/kprobes/slots.js';
import { Kprobes2009 } from '../../src/kprobes/state-2009.js';
import { KprobesModern } from '../../src/kprobes/state-modern.js';
import { type DetourPart, TextMachine } from '../../src/kprobes/text-machine.js';
import type { RaceOptions, RaceStep, Scene, Sequence } from '../../src/race/index.js';
import { ProbeRecorder } from '../../src/race/probes.js';
import { addThreads, ARGUMENT, STOP } from '../../src/race/threads.js';
import { codeOf } from './probe-code.js';

export interface ProbeMachineCase {
  readonly name: string;
  readonly target: string;
  /** Of a function that computes 2 (a + 1) + 3. Assembler and bytes in the order of memory. */
  readonly source: string;
  readonly code: string;
  /** A function that does nothing and returns. */
  readonly callback: string;
  /** Offset of the probe's second instruction, and instructions in the window of a jump. */
  readonly second: bigint;
  readonly window: number;
  /**
   * What happens to a thread that stands inside the window when the jump comes; null: nobody stands
   * inside of one instruction.
   */
  readonly inside: 'torn-instruction' | 'wrong-function' | null;
  /** Distance of the room for slots and buffers. */
  readonly room: bigint;
}

const swapped = (hex: string): string => hex.replace(/(..)(..)(..)(..)/g, '$4$3$2$1');
const PPC_SOURCE = 'addi 3,3,1\nslwi 3,3,1\naddi 3,3,3\nblr';
const PPC_CODE = '386300015463083c386300034e800020';
const ppc = (name: string, target: string, code = PPC_CODE, callback = '600000004e800020'): ProbeMachineCase => ({
  name, target, source: PPC_SOURCE, code, callback, second: 4n, window: 1, inside: null, room: 0x1000n,
}); // prettier-ignore
const RISCV_WORDS = {
  target: 'riscv64',
  source: '.option norvc\naddi a0,a0,1\nslli a0,a0,1\naddi a0,a0,3\nlui t1,0x12341\nret',
  code: '1305150013151500130535003713341267800000',
  callback: '1300000067800000',
  second: 4n,
} as const;

export const probeMachines: readonly ProbeMachineCase[] = [
  {
    name: 'x86-64', target: 'x86-64', source: 'lea 1(%rdi),%eax\nadd %eax,%eax\nlea 3(%rax),%eax\nret',
    code: '8d470101c08d4003c3', callback: '90c3', second: 3n, window: 2, inside: 'torn-instruction', room: 0x1000n,
  },
  ppc('ppc32', 'ppc32'),
  ppc('ppc64 ELFv1', 'ppc64-elfv1'),
  ppc('ppc64 ELFv2 big', 'ppc64-elfv2-be'),
  ppc('ppc64 ELFv2 little', 'ppc64-elfv2-le', swapped(PPC_CODE), swapped('600000004e800020')),
  {
    name: 'riscv64, parcels under jal', target: 'riscv64',
    source: 'c.addi a0,1\nc.slli a0,1\nc.addi a0,3\nret', code: '050506050d058280', callback: '01008280',
    second: 2n, window: 2, inside: 'torn-instruction', room: 0x1000n,
  },
  { name: 'riscv64, a word under jal', ...RISCV_WORDS, window: 1, inside: null, room: 0x1000n },
  {
    name: 'riscv64, words under a pair',
    // The second word of a jump is an instruction of its own: it goes to where the register says.
    ...RISCV_WORDS, window: 2, inside: 'wrong-function', room: 0x200_0000n,
  },
  {
    name: 'riscv64, parcels under a pair', target: 'riscv64',
    source: 'c.addi a0,1\nc.slli a0,1\nc.addi a0,1\nc.addi a0,2\nlui t1,0x12341\nret',
    code: '0505060505050905371334128280', callback: '01008280', second: 2n, window: 4, inside: 'torn-instruction',
    room: 0x200_0000n,
  },
  {
    name: 'arm64', target: 'arm64', source: 'add w0,w0,#1\nlsl w0,w0,#1\nadd w0,w0,#3\nret',
    code: '0004001100781f53000c0011c0035fd6', callback: '1f2003d5c0035fd6', second: 4n, window: 1, inside: null, room: 0x1000n,
  },
]; // prettier-ignore

const BASE = 0x1_0000n;
/** Two functions with the same code, and what buffers call. */
export const F = BASE;
export const G = BASE + 0x40n;
const CALLBACK = BASE + 0x80n;
const ROOM = 0x1000;
const RESULT = 2n * (ARGUMENT + 1n) + 3n;
const TICKS = 10;

const bytesOf = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, 'hex'));

function archNamed(target: string): Arch & { readonly probes: ProbeSupport } {
  const arch = arches.find((each) => each.target.id === target);
  if (arch?.probes.kind !== 'kprobes') throw new Error(`${target} has no probes`);
  return { ...arch, probes: arch.probes };
}

export type Version = '2009' | 'literal' | 'modern';

export interface LifeOptions {
  readonly version: Version;
  readonly threads?: number;
  /** Calls of each thread. */
  readonly rounds?: number;
  /** CPUs keep what they fetched, and fetch ahead. */
  readonly stale?: boolean;
  /** Function that threads call; default F. */
  readonly calls?: bigint;
  /** 2009: which store comes first when an object takes the place of a probe. */
  readonly publish?: 'member' | 'table';
  /** The race begins behind the breakpoint, in the middle of the registration. */
  readonly beginArmed?: boolean;
}

/** What is done in a race, one after the other; `begin` says where it begins. */
export class ProbeLife {
  readonly machine: Machine;
  readonly arch: Arch & { readonly probes: ProbeSupport };
  readonly text: TextMachine;
  readonly core: Kprobes2009<DetourPart> | KprobesModern<DetourPart>;
  readonly recorder: ProbeRecorder;
  readonly pool: SlotPool;
  private readonly code: Uint8Array;
  private before: ReturnType<Machine['snapshot']> | null = null;
  private readonly probes = new Map<bigint, Kprobe>();

  constructor(
    readonly machineCase: ProbeMachineCase,
    private readonly options: LifeOptions,
  ) {
    const { code, callback, room, target } = machineCase;
    const arch = archNamed(target);
    this.arch = arch;
    const { emulation, abi } = arch;
    if (emulation.kind !== 'ir') throw new Error(`${target} is not executed`);
    const machine = new Machine({
      lifter: emulation.lifter,
      blockInstructions: 1,
      ...(options.stale === true ? { fetch: 'buffered' as const, fetchLineBytes: 64 } : {}),
    });
    this.machine = machine;
    this.code = bytesOf(code);
    const { threads = 1 } = options;
    machine.map({ address: BASE, size: 0x1000, permission: 'rx', name: 'text' });
    machine.map({ address: BASE + room, size: ROOM, permission: 'rx', name: 'slots' });
    machine.memory.write(F, this.code);
    machine.memory.write(G, this.code);
    machine.memory.write(CALLBACK, bytesOf(callback));
    addThreads(machine, abi, threads, options.calls ?? F);
    const functions = [F, G].map((start) => codeOf(this.code, start));
    this.recorder = new ProbeRecorder({ mark: 'probe', fill: bytesOf('deadfeed'), isa: arch.isa });
    this.pool = new SlotPool([{ start: BASE + room, end: BASE + room + BigInt(ROOM) }]);
    const { probes: support } = arch;
    this.text = new TextMachine({
      support,
      slots: this.pool,
      redZone: true,
      callees: [CALLBACK],
      toc: target.startsWith('ppc64') ? 0n : null,
      op: (address) => opAt(address),
      watcher: this.recorder,
      store: {
        isFile: false,
        read: (address, size) => machine.memory.read(address, size),
        store: (address, bytes) => {
          machine.memory.write(address, bytes);
        },
        sync: () => undefined,
      },
      check(address) {
        const own = functions.find(({ start, bytes }) => address >= start && address < start + BigInt(bytes.length));
        if (own === undefined) return refuse('EINVAL', 'not-text', 'K-ADDR-2', 'not in text');
        const instruction = support.decode(own, address);
        if (instruction.kind === 'refused') return instruction;
        return { kind: 'valid', address, code: own, instruction, ftrace: false };
      },
    });
    this.core =
      options.version === 'modern'
        ? new KprobesModern(this.text, { optimization: true })
        : new Kprobes2009(this.text, {
            optimization: true,
            literal: options.version === 'literal',
            ...(options.publish === undefined ? {} : { publish: options.publish }),
            onEvent: ({ what }) => {
              if (what === 'armed' && options.beginArmed === true) this.begin();
              if (what === 'adopted' || what === 'replaced') this.recorder.settle();
            },
          });
    this.recorder.attach(this.core, this.text);
  }

  // ------------------------------------------------------------------------------------ operations

  /** A breakpoint; queued for a jump. */
  arm(address = F, flags: number = FLAGS_2009.OPTIMIZE): this {
    const probe = new Kprobe(address, {}, this.options.version === 'modern' ? 0 : flags);
    const result = this.core.register(probe);
    if (result !== 'done') throw new Error(JSON.stringify(result));
    this.probes.set(address, probe);
    this.recorder.settle();
    return this;
  }

  /** Time for the optimizer, and quiescence. */
  settle(): this {
    this.core.tick(TICKS);
    this.recorder.waited();
    this.core.quiescence();
    this.recorder.settle();
    return this;
  }

  probe(address = F): Kprobe {
    return this.probes.get(address)!;
  }

  /** What changes state machines in any other way. */
  do(operation: (core: this['core']) => unknown): this {
    operation(this.core);
    this.recorder.settle();
    return this;
  }

  remove(address = F): this {
    const probe = this.probes.get(address)!;
    this.probes.delete(address);
    return this.do((core) => core.unregister(probe));
  }

  /** The race begins here. */
  begin(): this {
    this.recorder.begin();
    this.before = this.machine.snapshot();
    return this;
  }

  // ------------------------------------------------------------------------------------------ race

  /** Bytes of a function now, while operations are being carried out. */
  bytes(address = F): string {
    return Buffer.from(this.machine.memory.read(address, this.code.length)!).toString('hex');
  }

  /** The race of what was done since `begin`. */
  race(change: (steps: readonly RaceStep[]) => readonly RaceStep[] = (steps) => steps): {
    readonly scene: Scene;
    readonly sequence: Sequence;
    readonly options: RaceOptions;
  } {
    const { machine, arch, recorder, options, machineCase } = this;
    const final = new Map([F, G].map((address) => [address, this.bytes(address)]));
    if (this.before === null) throw new Error('no race was begun');
    machine.restore(this.before);
    const { abi } = arch;
    const { threads = 1, rounds = 1, stale = false, calls = F } = options;
    const kept = [abi.stackPointer, ...abi.preservedRegisters];
    const scene: Scene = {
      machine,
      threads: Array.from({ length: threads }, (_, cpu) => {
        machine.switchTo(cpu);
        const expect = new Map(kept.map((name) => [name, machine.register(name)]));
        // The return address has been popped.
        if (abi.linkRegister === null) expect.set(abi.stackPointer, machine.register(abi.stackPointer) + 8n);
        expect.set(abi.resultRegister, RESULT);
        return { name: `thread ${cpu}`, expect, rounds };
      }),
      stop: STOP,
      stackPointer: abi.stackPointer,
      livePatching: arch.livePatching,
      code: [
        { start: BASE, end: BASE + 0x1000n, name: 'text' },
        { start: BASE + machineCase.room, end: BASE + machineCase.room + BigInt(ROOM), name: 'slots' },
      ],
      marks: new Map([[CALLBACK, 'probe']]),
      // A callback gets the object of the function that was called.
      checks: new Map([
        [
          CALLBACK,
          ({ register }) => {
            const op = register(abi.argumentRegisters[0]!);
            const probe = op - opAt(calls);
            return probe >= 0n && probe < 0x40n ? null : `the callback got the object ${op.toString(16)}`;
          },
        ],
      ]),
      units: recorder.units(),
    };
    machine.switchTo(0);
    const steps = change(recorder.steps);
    const sequence: Sequence = {
      name: machineCase.name,
      patchers: [{ name: 'patcher', steps }],
      serves: recorder.first,
    };
    const atEnd = () => {
      for (const [address, bytes] of final) {
        if (this.bytes(address) !== bytes) return `${address.toString(16)}: ${this.bytes(address)}, not ${bytes}`;
      }
      return null;
    };
    const properties = [{ name: 'final-text', atEnd }];
    return { scene, sequence, options: { properties, ...(stale ? { prefetch: true } : {}) } };
  }
}

const opAt = (address: bigint): bigint => 0x5000_0000n + address;

/** Nobody waits. */
export const hasty = (steps: readonly RaceStep[]): readonly RaceStep[] => steps.filter(({ kind }) => kind !== 'wait');
