/**
 * A schedule told step by step: who acts, what is executed or stored, which registers change, what
 * the patched place holds then. The schedule is performed again on the scene's machine, which is as
 * it was afterwards. Texts of instructions are added by who has a disassembler.
 */
import type { Address, RegisterName } from '../units.js';
import type { RaceOptions, ScheduleEntry } from './search.js';
import type { RaceStep, Scene, Sequence, Violation } from './model.js';
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
  const { machine } = scene;
  const watch = watchedPlace(scene, sequence);
  const read = (address: Address, size: number): Uint8Array => machine.memory.read(address, size) ?? new Uint8Array();
  const watched = (): Uint8Array => read(watch.address, watch.size);
  const names = machine.lifter.registers.map(({ name }) => name).filter((name) => name !== 'pc');
  const registers = (): ReadonlyMap<RegisterName, bigint> =>
    new Map(names.map((name) => [name, machine.register(name)]));
  const changes = (
    before: ReadonlyMap<RegisterName, bigint>,
    after: ReadonlyMap<RegisterName, bigint>,
  ): RegisterChange[] =>
    [...before].flatMap(([name, was]) => (after.get(name) === was ? [] : [{ name, before: was, after: after.get(name)! }]));
  const steps: StoryStep[] = [];
  const watchedFirst = watched();
  let violation: Violation | null = null;
  try {
    for (const entry of entries) {
      const actor = world.actors.find(({ kind, index }) => kind === entry.kind && index === entry.index)!;
      let event: StoryEvent;
      if (actor.kind === 'thread') {
        machine.switchTo(actor.index);
        const address = machine.register('pc');
        const trapped = world.statusOf(actor.index) === 'trapped';
        const bytes = trapped ? new Uint8Array() : machine.instructionBytes();
        const stale = !trapped && read(address, bytes.length).some((byte, i) => byte !== bytes[i]);
        const before = registers();
        const { footprint, violation: wrong } = world.perform(actor);
        violation = wrong;
        machine.switchTo(actor.index);
        // A call that returned begins anew, with other registers.
        const over = world.statusOf(actor.index) === 'ready' || (wrong !== null && wrong.address === address && trapped);
        const after = over ? before : registers();
        event = trapped
          ? { kind: 'handler', address, to: machine.register('pc'), registers: changes(before, after) }
          : {
              kind: 'instruction', address, bytes, stale, registers: changes(before, after),
              stores: footprint.writes.map(([from, to]) => ({ address: from, bytes: read(from, Number(to - from)) })),
              traps: world.statusOf(actor.index) === 'trapped',
            };
      } else if (actor.kind === 'patcher') {
        const step = world.nextStep(actor.index)!;
        const at = world.positionOf(actor.index);
        const skipped = step.when !== undefined && world.variable(step.when.variable) !== step.when.equals;
        const size = step.kind === 'store' ? step.bytes.length : step.kind === 'free' ? step.size : 0;
        const before = step.kind === 'store' || step.kind === 'free' ? read(step.address, size) : null;
        violation = world.perform(actor).violation;
        event = { kind: 'step', number: at, step, skipped, before };
      } else {
        world.perform(actor);
        event = { kind: 'fetch' };
      }
      steps.push({ actor, event, watched: watched() });
    }
    if (violation === null && world.actors.every((each) => each.kind === 'prefetch' || world.finished(each)))
      violation = world.atEnd();
    return { actors: world.actors, watch, watchedFirst, steps, violation };
  } finally {
    world.load(start);
    world.close();
  }
} // prettier-ignore
