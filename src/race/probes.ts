/**
 * Sequences from the life of probes: what a state machine of the kprobe room stores, waits for and
 * gives back becomes the steps of a patcher, and what its trap handler would do at each moment
 * becomes what that step `serves`. Owns no order and no decision: those are the state machine's.
 */
import { equalBytes } from '../bytes.js';
import type { Isa } from '../isa/instruction.js';
import type { ProbeCpu, ProbeInstruction } from '../machine/probes.js';
import { isOff, type ProbeState } from '../kprobes/objects.js';
import type { DetourPart, TextMachine, TextWatcher } from '../kprobes/text-machine.js';
import type { Address } from '../units.js';
import type { ProbeEntry, RaceStep, Unit, UnitForm } from './model.js';
import { startsOf } from './sequence.js';

/** What of a state machine is asked here. */
export interface ProbeDecisions {
  hit(address: Address, regs: ProbeCpu): number | 'resume-in-buffer' | null;
  states(): readonly ProbeState[];
}

/** Handlers see registers; what these are is nothing to the decision. */
const noCpu: ProbeCpu = {
  register: () => 0n,
  setRegister: () => undefined,
  read: () => null,
  write: () => false,
};

export interface ProbeRecorderOptions {
  /** What handlers at breakpoints leave in the outcome of a call. */
  readonly mark: string;
  /** What freed room is overwritten with. */
  readonly fill: Uint8Array;
  readonly isa: Isa;
}

/** Watches the text of a state machine: give it to the `TextMachine`, then `attach` both. */
export class ProbeRecorder implements TextWatcher {
  /** What was done since the beginning, or since `begin`. */
  steps: RaceStep[] = [];
  /** What was served before the first of the steps. */
  first: readonly ProbeEntry[] = [];
  private table: readonly ProbeEntry[] = [];
  /** A wait that comes before the next step, if there is one. */
  private waits = false;
  private readonly entries = new Map<string, ProbeEntry>();
  private core: ProbeDecisions | null = null;
  private machine: TextMachine | null = null;
  private readonly parts = new Set<DetourPart>();

  constructor(private readonly options: ProbeRecorderOptions) {}

  attach(core: ProbeDecisions, machine: TextMachine): void {
    this.core = core;
    this.machine = machine;
  }

  /** What happened up to now happened before the race. */
  begin(): void {
    this.table = this.ask();
    this.first = this.table;
    this.steps = [];
    this.waits = false;
  }

  /** The operation is over: what it changed besides text. */
  settle(): void {
    const table = this.ask();
    if (table === this.table) return;
    this.table = table;
    this.push({ kind: 'serve', serves: table });
  }

  private push(step: RaceStep): void {
    if (this.waits) this.steps.push({ kind: 'wait', until: 'outside' });
    this.waits = false;
    this.steps.push(step);
  }

  // -------------------------------------------------------------------------------------- watching

  storing(): void {
    this.settle();
  }

  stored(address: Address, bytes: Uint8Array): void {
    const table = this.ask();
    const part = this.isPart(address, bytes) ? ({ phase: 'part' } as const) : {};
    const store: RaceStep = { kind: 'store', address, bytes: bytes.slice(), ...part };
    this.push(table === this.table ? store : { ...store, serves: table });
    this.table = table;
  }

  synchronised(): void {
    this.settle();
    this.push({ kind: 'synchronise', thread: 'all' });
  }

  waited(): void {
    this.settle();
    this.waits = true;
  }

  taken(what: string, address: Address, size: number): void {
    this.settle();
    this.push({ kind: 'take', what: `the ${what}`, address, size });
  }

  freed(what: string, address: Address, size: number): void {
    this.settle();
    this.push({ kind: 'free', what: `the ${what}`, address, size, fill: this.options.fill });
  }

  // --------------------------------------------------------------------------------------- serving

  private entry(key: string, make: () => ProbeEntry): ProbeEntry {
    let entry = this.entries.get(key);
    if (entry === undefined) {
      entry = make();
      this.entries.set(key, entry);
    }
    return entry;
  }

  /** What the handler would do now; the same object as long as that is the same. */
  private ask(): readonly ProbeEntry[] {
    const { core, machine } = this;
    if (core === null || machine === null) return this.table;
    const { mark } = this.options;
    const { support } = machine;
    const served: ProbeEntry[] = [];
    for (const { address, part, probes } of core.states()) {
      if (part !== null) this.parts.add(part as DetourPart);
      const result = core.hit(address, noCpu);
      const own = probes.some(({ flags }) => !isOff(flags)) ? mark : null;
      // A handler that sends the thread elsewhere is nothing that races ask for.
      if (result !== 0 && result !== 'resume-in-buffer') continue;
      const next = machine.continuation(address, result === 'resume-in-buffer');
      if (next === null) continue;
      if (next.kind === 'at') {
        const { address: to } = next;
        served.push(this.entry(`${address}>${to} ${own}`, () => ({ address, mark: own, to, resume: () => to })));
      } else {
        served.push(this.entry(`${address}! ${own}`, () => simulated(machine, address, own, next.instruction)));
      }
    }
    for (const { address, image, instruction } of machine.placedSlots) {
      if (image.end.kind !== 'breakpoint') continue;
      const end = address + BigInt(image.end.offset);
      served.push(
        this.entry(`${instruction.address}@${end}`, () => ({
          address: end,
          mark: null,
          to: null,
          resume: (cpu) => support.slots.finish(instruction, address, cpu),
        })),
      );
    }
    const same = served.length === this.table.length && served.every((each, i) => each === this.table[i]);
    return same ? this.table : served;
  }

  // --------------------------------------------------------------------------------------- windows

  /** Bytes in a window that are no instruction by themselves. */
  private isPart(address: Address, bytes: Uint8Array): boolean {
    const { machine } = this;
    if (machine?.support.optimization.kind !== 'jump') return false;
    const { optimization, breakpoint } = machine.support;
    return [...this.parts].some(({ window, slot }) => {
      if (address < window.address || address >= window.address + BigInt(window.bytes.length)) return false;
      const whole = window.instructions
        .filter((each) => each.address === address)
        .flatMap((each) => [each.bytes, breakpoint(each.bytes)]);
      if (address === window.address) whole.push(optimization.jump(window, slot));
      return !whole.some((each) => equalBytes(each, bytes));
    });
  }

  /** Windows of the jumps that were planned, with all that may stand there as a whole (H4). */
  units(): readonly Unit[] {
    const { machine } = this;
    if (machine === null) return [];
    const { optimization } = machine.support;
    if (optimization.kind === 'none') return [];
    // Everything that may be executed as it stands there, in any of the windows: they may lie over
    // one another.
    const pieces: (UnitForm & { readonly address: Address })[] = [];
    const add = (name: string, address: Address, bytes: Uint8Array, starts: readonly number[] = [0]): void => {
      pieces.push({ name, address, bytes, starts });
    };
    const windows = new Map([...this.parts].map(({ window }) => [window.address, window]));
    for (const { address, bytes, instructions } of windows.values()) {
      add(
        'original',
        address,
        bytes,
        instructions.map((each) => Number(each.address - address)),
      );
      for (const each of instructions) add('breakpoint', each.address, machine.support.breakpoint(each.bytes));
      // On RISC-V the first parcel has a breakpoint of its own while the others change.
      const [{ bytes: first }] = instructions as readonly [ProbeInstruction];
      const parcel = machine.support.breakpoint(new Uint8Array(2));
      if (parcel.length < machine.support.breakpoint(first).length) add('short breakpoint', address, parcel);
    }
    for (const { window, slot } of this.parts) {
      const jump = optimization.jump(window, slot);
      add('jump', window.address, jump, startsOf(this.options.isa, jump, window.address));
    }
    return [...windows.values()].map(({ address, bytes }) => ({
      address,
      forms: pieces.flatMap((piece) => within(piece, Number(piece.address - address), bytes.length)),
    }));
  }
}

/** A piece as a form of a place that begins `offset` bytes in front of it. */
function within({ name, bytes, starts }: UnitForm, offset: number, size: number): UnitForm[] {
  if (offset >= size || offset + bytes.length <= 0) return [];
  const moved = new Uint8Array(Math.min(size, offset + bytes.length));
  moved.set(
    bytes.subarray(Math.max(0, -offset), Math.max(0, -offset) + moved.length - Math.max(0, offset)),
    Math.max(0, offset),
  );
  const where = offset === 0 ? name : `${name} at ${offset > 0 ? '+' : ''}${offset}`;
  return [{ name: where, bytes: moved, starts: starts.map((at) => at + offset).filter((at) => at >= 0) }];
}

function simulated(
  machine: TextMachine,
  address: Address,
  mark: string | null,
  instruction: ProbeInstruction,
): ProbeEntry {
  return {
    address,
    mark,
    to: null,
    resume(cpu) {
      cpu.setRegister('pc', address);
      const result = machine.support.simulate(instruction, cpu);
      return result.kind === 'next' ? result.pc : null;
    },
  };
}
