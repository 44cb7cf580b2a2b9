/**
 * Scripted interleavings (F-7): which CPU executes how many instructions, and what a
 * patcher does between them. A schedule is data, so a hazard is a list that a person can read, and
 * the same list gives the same states.
 *
 *   run CPU 1 for 3 instructions         it stands inside the site
 *   store 4 bytes at 0x1000              the patcher writes one word
 *   synchronise CPU 1                    (left out: the hazard H10)
 *   run CPU 1 for 50
 *
 * A patcher step is one store of 1, 2, 4 or 8 bytes, which no CPU sees half done, or one
 * serialising event on a CPU. The patcher is none of the CPUs: its stores ask no permission and
 * break reservations of all.
 */
import { ElftraceError, hex } from '../errors.js';
import type { Machine } from './machine.js';
import type { StopReason } from './stops.js';
import type { Address } from '../units.js';

/** What a patcher does in one step. */
export type PatcherStep =
  | {
      readonly kind: 'store';
      readonly address: Address;
      readonly width: 1 | 2 | 4 | 8;
      /** Stored in the target's byte order. */
      readonly value: bigint;
    }
  | { readonly kind: 'synchronise'; readonly cpu: number };

export type ScheduleStep = { readonly kind: 'run'; readonly cpu: number; readonly instructions: number } | PatcherStep;

export interface ScheduleOptions {
  /** Called before each step; for watching and for checks between steps. */
  readonly onStep?: (step: ScheduleStep, index: number) => void;
}

export interface ScheduleResult {
  /** Why CPUs ended before their slices did. Such a CPU takes no further part in the schedule. */
  readonly stops: ReadonlyMap<number, { readonly stop: StopReason; readonly step: number }>;
  /** Instructions that each CPU completed, by index. */
  readonly instructions: readonly number[];
}

/**
 * Executes the steps in order. The CPU of the last `run` is the running one afterwards.
 * @throws ElftraceError 'usage' when a step names a CPU that does not exist or stores where nothing
 *   is mapped
 */
export function runSchedule(
  machine: Machine,
  steps: Iterable<ScheduleStep>,
  options: ScheduleOptions = {},
): ScheduleResult {
  const stops = new Map<number, { stop: StopReason; step: number }>();
  const instructions = new Array<number>(machine.cpuCount).fill(0);
  let index = 0;
  for (const step of steps) {
    options.onStep?.(step, index);
    switch (step.kind) {
      case 'run': {
        machine.switchTo(step.cpu);
        if (stops.has(step.cpu)) break;
        const before = machine.instructions;
        const stop = machine.run({ budget: step.instructions });
        instructions[step.cpu] = instructions[step.cpu]! + machine.instructions - before;
        if (stop.kind !== 'step-limit') stops.set(step.cpu, { stop, step: index });
        break;
      }
      case 'store':
        if (!machine.writeWord(step.address, step.width, step.value)) {
          throw new ElftraceError('usage', `a patcher step stores to ${hex(step.address)}, which is not mapped`, {
            address: step.address,
          });
        }
        break;
      case 'synchronise':
        machine.synchronise(step.cpu);
        break;
      default:
        step satisfies never;
    }
    index++;
  }
  return { stops, instructions };
}
