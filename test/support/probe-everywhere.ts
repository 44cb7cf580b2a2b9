/**
 * Runs a program with a probe on every instruction that can have one, all at once: as breakpoints
 * whose traps this file handles, or as jumps to buffers whose callback is guest code that spoils
 * everything a callback may. What handlers see is summed up, so that two runs can be compared.
 */
import { reaches } from '../../src/bits.js';
import { type Process, startProcess } from '../../src/guest/index.js';
import type { Machine, StopReason } from '../../src/emulator/index.js';
import type { ElfImage } from '../../src/elf/image.js';
import type { Arch } from '../../src/machine/arch.js';
import { ProbeText, type ValidProbe } from '../../src/kprobes/validate.js';
import {
  type JumpOptimization,
  jumpWindows,
  type ProbeCpu,
  type ProbeRefusal,
  type ProbeSupport,
  type TextStep,
} from '../../src/machine/probes.js';
import { findSites } from '../../src/sites/sites.js';
import { load } from '../../src/program/program.js';

export interface EverywhereOptions {
  readonly arch: Arch;
  readonly image: ElfImage;
  /**
   * `breakpoint`: copies come back by themselves where they can. `stepped`: a second trap behind
   * each copy. `jump`: everything that can be optimised is, the rest are breakpoints. `none`: no
   * probe.
   */
  readonly mode: 'none' | 'breakpoint' | 'stepped' | 'jump';
  /** Only these addresses are probed. */
  readonly only?: ReadonlySet<bigint>;
  /** Registers that are not summed up, besides those that jumps give up. */
  readonly unseen?: ReadonlySet<string>;
  /**
   * This many instructions are left out before each jump, so that other windows are tried. Default
   * 0.
   */
  readonly phase?: number;
  /** Where slots and buffers go: a free range in reach of the text. */
  readonly area: { readonly address: bigint; readonly size: number };
  /** Guest code that spoils all registers that a callback may, and returns. */
  readonly callee: Uint8Array;
  /** Registers of the callback's two arguments. */
  readonly calleeArguments: readonly [string, string];
}

export interface EverywhereResult {
  readonly end: StopReason;
  readonly output: string;
  /** Original instructions that were probed, and how. */
  readonly probes: number;
  readonly jumps: number;
  readonly simulated: number;
  readonly hits: number;
  /** Executed, ours included. */
  readonly instructions: number;
  readonly traps: number;
  /** Sum over what handlers saw, in order: addresses, and all registers of every so-many-th hit. */
  readonly seen: string;
  readonly refused: ReadonlyMap<string, number>;
  readonly notOptimised: ReadonlyMap<string, number>;
  /** Jumps by form. */
  readonly forms: ReadonlyMap<string, number>;
  /** What was probed. */
  readonly addresses: ReadonlySet<bigint>;
  /** Registers that jumps and their ways back gave up. */
  readonly scratch: ReadonlySet<string>;
}

/** Probes of an image: each place once. */
export function placesOf(arch: Arch, image: ElfImage): { valid: ValidProbe[]; refused: ProbeRefusal[] } {
  const program = load(image, arch);
  const text = new ProbeText(program, findSites(program));
  const valid: ValidProbe[] = [];
  const refused: ProbeRefusal[] = [];
  const step = BigInt(arch.isa.minInstructionBytes);
  for (const range of program.code) {
    const end = range.address + BigInt(range.bytes.length);
    for (let at = range.address; at < end;) {
      const found = text.validateAt(range, at);
      // What a symbol stands for is asked for by its own address.
      if (found.kind === 'refused') refused.push(found);
      else if (found.address === at) valid.push(found);
      at += found.kind === 'valid' && found.address === at ? BigInt(found.instruction.bytes.length) : step;
    }
  }
  return { valid, refused };
}

/** A running machine as probes see it. */
export function cpuOf(machine: Machine): ProbeCpu {
  return {
    register: (name) => machine.register(name),
    setRegister: (name, value) => {
      machine.setRegister(name, value);
    },
    read: (address, size) => machine.memory.read(address, size),
    write: (address, bytes) => machine.memory.write(address, bytes),
  };
}

const count = (map: Map<string, number>, key: string): void => {
  map.set(key, (map.get(key) ?? 0) + 1);
};

/** All registers are summed up this many times at first, and then once in a while. */
const EVERY_HIT = 400;
const ONE_IN = 61;

class Sum {
  private a = 0x811c_9dc5;
  add(value: bigint): void {
    let rest = BigInt.asUintN(64, value);
    for (let i = 0; i < 2; i++) {
      this.a = Math.imul(this.a ^ Number(rest & 0xffff_ffffn), 0x0100_0193) >>> 0;
      this.a = (this.a ^ (this.a >>> 15)) >>> 0;
      rest >>= 32n;
    }
  }
  get text(): string {
    return this.a.toString(16);
  }
}

export function runEverywhere(options: EverywhereOptions): EverywhereResult {
  const { arch, image, mode, area, callee } = options;
  const { probes: support } = arch;
  const { emulation } = arch;
  if (support.kind === 'none') throw new Error(support.reason);
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  let output = '';
  const process = startProcess({
    image,
    emulation,
    abi: arch.abi,
    args: ['program'],
    onOutput: (_descriptor, bytes) => {
      output += Buffer.from(bytes).toString('latin1');
    },
  });
  const { machine } = process;
  const refused = new Map<string, number>();
  const notOptimised = new Map<string, number>();
  const world = new World(process, support, options);
  const addresses = new Set<bigint>();
  if (mode !== 'none') {
    machine.map({ address: area.address, size: area.size, permission: 'rwx' });
    machine.memory.write(area.address, callee);
    const places = placesOf(arch, image);
    for (const each of places.refused) count(refused, each.code);
    let covered = 0n;
    let left = options.phase ?? 0;
    for (const each of places.valid) {
      const { address } = each;
      if (address < covered || options.only?.has(address) === false || left-- > 0) continue;
      const placed = world.place(each);
      if (placed.reason !== null) count(notOptimised, placed.reason);
      else left = options.phase ?? 0;
      covered = placed.end;
      addresses.add(address);
    }
  }
  const end = world.run();
  return {
    end,
    output,
    probes: addresses.size,
    refused,
    notOptimised,
    addresses,
    instructions: machine.instructions,
    ...world.numbers,
  };
}

class World {
  private readonly machine: Machine;
  private readonly cpu: ProbeCpu;
  private readonly atProbe = new Map<bigint, { readonly valid: ValidProbe; readonly slot: bigint | null }>();
  private readonly ends = new Map<bigint, { readonly valid: ValidProbe; readonly slot: bigint }>();
  private readonly byOp: ValidProbe[] = [];
  private readonly jump: JumpOptimization | null;
  private free: bigint;
  private readonly sum = new Sum();
  private jumps = 0;
  private readonly forms = new Map<string, number>();
  private readonly scratch = new Set<string>();
  private simulated = 0;
  private hits = 0;
  private traps = 0;

  constructor(
    private readonly process: Process,
    private readonly support: ProbeSupport,
    private readonly options: EverywhereOptions,
  ) {
    this.machine = process.machine;
    this.cpu = cpuOf(this.machine);
    this.jump = support.optimization.kind === 'jump' ? support.optimization : null;
    this.free = options.area.address + BigInt(options.callee.length);
    if (options.mode !== 'jump') return;
    const [op, regs] = options.calleeArguments;
    this.machine.hook(options.area.address, () => {
      const frame = this.machine.register(regs);
      this.hit(this.byOp[Number(this.machine.register(op))]!, (place) =>
        this.machine.readWord(frame + BigInt(place.frameOffset), place.bytes),
      );
      return 'continue';
    });
  }

  get numbers(): Pick<EverywhereResult, 'jumps' | 'forms' | 'scratch' | 'simulated' | 'hits' | 'traps' | 'seen'> {
    const { jumps, forms, scratch, simulated, hits, traps } = this;
    return { jumps, forms, scratch, simulated, hits, traps, seen: this.sum.text };
  }

  private take(sizeBytes: number, alignBytes: number): bigint {
    const { address, size } = this.options.area;
    const align = BigInt(alignBytes);
    const at = (this.free + align - 1n) & -align;
    this.free = at + BigInt(sizeBytes);
    if (this.free > address + BigInt(size)) throw new Error('the area is full');
    return at;
  }

  private write(address: bigint, bytes: Uint8Array): void {
    if (!this.machine.memory.write(address, bytes)) throw new Error(`no memory at ${address.toString(16)}`);
  }

  private carryOut(steps: readonly TextStep[]): void {
    for (const step of steps) if (step.kind === 'store') this.write(step.address, step.bytes);
  }

  /** `reason`: why it is no jump; null: it is one. `end`: behind what the jump covers. */
  place(valid: ValidProbe): { readonly reason: string | null; readonly end: bigint } {
    const { instruction, address, code } = valid;
    const { support, options } = this;
    const end = address + BigInt(instruction.bytes.length);
    let reason = 'no-optimization';
    if (options.mode === 'jump' && this.jump !== null) {
      const placed = this.placeJump(valid, this.jump);
      if (typeof placed !== 'string') return { reason: null, end: placed.end };
      reason = placed;
    }
    let slot: bigint | null = null;
    if (instruction.method === 'copy') {
      slot = this.take(support.slots.sizeBytes, support.slots.alignBytes);
      const image = support.slots.write(instruction, slot, options.mode !== 'stepped');
      if (image.kind === 'refused') throw new Error(`${code.name}: ${image.reason}`);
      this.write(slot, image.bytes);
      if (image.end.kind === 'breakpoint') this.ends.set(slot + BigInt(image.end.offset), { valid, slot });
    } else this.simulated++;
    this.atProbe.set(address, { valid, slot });
    this.write(address, support.breakpoint(instruction.bytes));
    return { reason, end };
  }

  private placeJump(valid: ValidProbe, jump: JumpOptimization): string | { readonly end: bigint } {
    const windows = jumpWindows(jump, valid.code, valid.address);
    if ('kind' in windows) return windows.code;
    const before = this.free;
    let reason = 'out-of-reach';
    for (const window of windows) {
      this.free = before;
      const address = this.take(window.bufferBytes, jump.alignBytes);
      if (!reaches({ ...window.reach, alignBytes: 1 }, valid.address, address)) continue;
      const buffer = jump.build(window, {
        address,
        op: BigInt(this.byOp.length),
        callees: [this.options.area.address],
        toc: this.options.arch.target.abiName === 'sysv' ? null : 0x1234_5678_9abc_def0n,
        redZone: true,
      });
      if (buffer.kind === 'refused') {
        reason = buffer.code;
        continue;
      }
      if (buffer.bytes.length > window.bufferBytes) throw new Error('the buffer is longer than it said');
      this.byOp.push(valid);
      this.write(address, buffer.bytes);
      this.write(valid.address, this.support.breakpoint(valid.instruction.bytes));
      this.carryOut(jump.optimize(window, address));
      this.jumps++;
      count(this.forms, window.form);
      for (const register of window.scratch ?? []) this.scratch.add(register);
      return { end: valid.address + BigInt(window.bytes.length) };
    }
    this.free = before;
    return reason;
  }

  private hit(
    valid: ValidProbe,
    read: (place: {
      readonly machine: string | null;
      readonly frameOffset: number;
      readonly bytes: 4 | 8;
    }) => bigint | null,
  ): void {
    this.sum.add(valid.address);
    if (this.hits++ >= EVERY_HIT && this.hits % ONE_IN !== 0) return;
    for (const place of this.support.abi.registers.values()) {
      if (place.machine !== null && (this.scratch.has(place.machine) || this.options.unseen?.has(place.machine)))
        continue;
      const value = place.machine === null ? (place.fixed ?? 0n) : read(place);
      // What has no name in the machine is only compared where it is stored.
      if (place.machine !== null) this.sum.add(value ?? -1n);
    }
  }

  run(): StopReason {
    for (;;) {
      const stop = this.process.run({ budget: 20_000_000 });
      if (stop.kind !== 'trap') return stop;
      const at = stop.instruction;
      this.traps++;
      const end = this.ends.get(at);
      if (end) {
        this.machine.setRegister('pc', this.support.slots.finish(end.valid.instruction, end.slot, this.cpu));
        continue;
      }
      const probe = this.atProbe.get(at);
      if (!probe) return stop;
      this.hit(probe.valid, (place) => (place.machine === null ? null : this.machine.register(place.machine)));
      if (probe.slot !== null) {
        this.machine.setRegister('pc', probe.slot);
        continue;
      }
      const result = this.support.simulate(probe.valid.instruction, this.cpu);
      if (result.kind === 'fault')
        return { kind: 'fault', address: result.address, access: result.access, instruction: at };
      this.machine.setRegister('pc', result.pc);
    }
  }
}
