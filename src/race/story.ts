/**
 * A schedule told step by step: who acts, what is executed or stored, which registers change, what
 * the patched place holds then. The schedule is performed again on the scene's machine, which is as
 * it was afterwards. Texts of instructions are added by who has a disassembler.
 */
import type { Machine } from '../emulator/index.js';
import type { Address, RegisterName } from '../units.js';
import type { RaceOptions, ScheduleEntry } from './search.js';
import type { RaceStep, Scene, Sequence, Violation } from './model.js';
import type { Actor } from './actors.js';
import { World } from './world.js';

export interface RegisterChange {
  readonly name: RegisterName;
  readonly before: bigint;
  readonly after: bigint;
}

export type StoryEvent =
  /** An instruction as the CPU fetched it; `stale`: memory has another one by now. */
  | {
      readonly kind: 'instruction';
      readonly address: Address;
      readonly bytes: Uint8Array;
      readonly stale: boolean;
      readonly registers: readonly RegisterChange[];
      readonly stores: readonly { readonly address: Address; readonly bytes: Uint8Array }[];
      /** The breakpoint's handler has to do with it now. */
      readonly traps: boolean;
    }
  /** The handler let the thread go on somewhere. */
  | { readonly kind: 'handler'; readonly address: Address; readonly to: Address; readonly registers: readonly RegisterChange[] }
  | {
      readonly kind: 'step';
      /** Position in the patcher's steps. */
      readonly number: number;
      readonly step: RaceStep;
      /** A condition that did not hold: nothing was done. */
      readonly skipped: boolean;
      /** Bytes before, for stores and frees. */
      readonly before: Uint8Array | null;
    }
  /** The CPU fetched the patched lines anew. */
  | { readonly kind: 'fetch' }; // prettier-ignore

export interface StoryStep {
  readonly actor: ScheduleEntry;
  readonly event: StoryEvent;
  /** The watched bytes after it. */
  readonly watched: Uint8Array;
}

export interface Story {
  readonly actors: readonly ScheduleEntry[];
  readonly watch: { readonly address: Address; readonly size: number };
  readonly watchedFirst: Uint8Array;
  readonly steps: readonly StoryStep[];
  readonly violation: Violation | null;
}

/**
 * The place that reports show: the first that may only change as a whole, else what is stored to
 * code first, else the first store.
 */
function watchedPlace(scene: Scene, sequence: Sequence): Story['watch'] {
  const [unit] = scene.units;
  if (unit) return { address: unit.address, size: Math.max(...unit.forms.map(({ bytes }) => bytes.length)) };
  const stores = sequence.patchers.flatMap(({ steps }) => steps.flatMap((step) => (step.kind === 'store' ? [step] : [])));
  const { memory } = scene.machine;
  const store = stores.find(({ address }) => memory.windowAt(address)?.permission.includes('x')) ?? stores[0];
  return store ? { address: store.address, size: Math.min(16, store.bytes.length) } : { address: scene.stop, size: 0 };
} // prettier-ignore

/** Performs a schedule and notes what happens. */
export function tell(
  scene: Scene,
  sequence: Sequence,
  entries: readonly ScheduleEntry[],
  options: Pick<RaceOptions, 'properties' | 'prefetch'> = {},
): Story {
  const world = new World(scene, sequence, options.properties ?? [], options.prefetch);
  const start = world.save();
  const watch = watchedPlace(scene, sequence);
  const teller = new Teller(world, scene.machine);
  const watched = (): Uint8Array => teller.read(watch.address, watch.size);
  const steps: StoryStep[] = [];
  const watchedFirst = watched();
  let violation: Violation | null = null;
  try {
    for (const entry of entries) {
      const actor = world.actors.find(
        ({ kind, index, line }) => kind === entry.kind && index === entry.index && line === entry.line,
      )!;
      const { event, violation: wrong } = teller.event(actor);
      if (actor.kind !== 'prefetch') violation = wrong;
      steps.push({ actor, event, watched: watched() });
    }
    if (violation === null && world.actors.every((each) => each.kind === 'prefetch' || world.finished(each)))
      violation = world.atEnd();
    return { actors: world.actors, watch, watchedFirst, steps, violation };
  } finally {
    world.load(start);
    world.close();
  }
}

type Registers = ReadonlyMap<RegisterName, bigint>;

interface Told {
  readonly event: StoryEvent;
  readonly violation: Violation | null;
}

/** Performs events and says what they did. */
class Teller {
  private readonly names: readonly RegisterName[];

  constructor(
    private readonly world: World,
    private readonly machine: Machine,
  ) {
    this.names = machine.lifter.registers.map(({ name }) => name).filter((name) => name !== 'pc');
  }

  read(address: Address, size: number): Uint8Array {
    return this.machine.memory.read(address, size) ?? new Uint8Array();
  }

  event(actor: Actor): Told {
    if (actor.kind === 'thread') return this.ofThread(actor);
    if (actor.kind === 'patcher') return this.ofPatcher(actor);
    return { event: { kind: 'fetch' }, violation: this.world.perform(actor).violation };
  }

  private registers(): Registers {
    return new Map(this.names.map((name) => [name, this.machine.register(name)]));
  }

  private ofThread(actor: Actor): Told {
    const { world, machine } = this;
    machine.switchTo(actor.index);
    const address = machine.register('pc');
    const trapped = world.statusOf(actor.index) === 'trapped';
    const bytes = trapped ? new Uint8Array() : machine.instructionBytes();
    const stale = !trapped && this.read(address, bytes.length).some((byte, i) => byte !== bytes[i]);
    const before = this.registers();
    const { footprint, violation } = world.perform(actor);
    machine.switchTo(actor.index);
    // A call that returned begins anew, with other registers.
    const over = world.statusOf(actor.index) === 'ready' || (violation?.address === address && trapped);
    const registers = changes(before, over ? before : this.registers());
    if (trapped) return { event: { kind: 'handler', address, to: machine.register('pc'), registers }, violation };
    const stores = footprint.writes.map(([from, to]) => ({
      address: from,
      bytes: this.read(from, Number(to - from)),
    }));
    const traps = world.statusOf(actor.index) === 'trapped';
    return { event: { kind: 'instruction', address, bytes, stale, registers, stores, traps }, violation };
  }

  private ofPatcher(actor: Actor): Told {
    const { world } = this;
    const step = world.nextStep(actor.index)!;
    const number = world.positionOf(actor.index);
    const skipped = step.when !== undefined && world.variable(step.when.variable) !== step.when.equals;
    const size = step.kind === 'store' ? step.bytes.length : step.kind === 'free' ? step.size : 0;
    const before = step.kind === 'store' || step.kind === 'free' ? this.read(step.address, size) : null;
    const { violation } = world.perform(actor);
    return { event: { kind: 'step', number, step, skipped, before }, violation };
  }
}

function changes(before: Registers, after: Registers): RegisterChange[] {
  return [...before].flatMap(([name, was]) =>
    after.get(name) === was ? [] : [{ name, before: was, after: after.get(name)! }],
  );
}
