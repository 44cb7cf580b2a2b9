/**
 * All orders of a patcher's steps against one CPU as schedules of the emulator: what the explorer
 * of `src/race` is compared with, and tests that know the schedule that they mean.
 */
import type { PatcherStep, ScheduleStep } from '../../src/emulator/index.js';

export type { PatcherStep };

export interface InterleavingRequest {
  /** The CPU that executes while the patcher works. */
  readonly cpu: number;
  /**
   * Instruction boundaries at which patcher steps may fall: 0 to this number of completed
   * instructions.
   */
  readonly instructions: number;
  readonly patcher: readonly PatcherStep[];
  /** Instructions that the CPU executes after the last step. */
  readonly after: number;
}

/**
 * All schedules in which the patcher's steps, in their order, fall on instruction boundaries of one
 * CPU (F-8). With n instructions and k steps these are (n + k)! / (n! k!).
 */
export function* interleavings(request: InterleavingRequest): Generator<readonly ScheduleStep[]> {
  const { cpu, instructions, patcher, after } = request;
  function* place(step: number, from: number): Generator<readonly ScheduleStep[]> {
    const each = patcher[step];
    if (!each) {
      yield [{ kind: 'run', cpu, instructions: instructions - from + after }];
      return;
    }
    for (let at = from; at <= instructions; at++) {
      for (const rest of place(step + 1, at)) {
        yield at > from ? [{ kind: 'run', cpu, instructions: at - from }, each, ...rest] : [each, ...rest];
      }
    }
  }
  yield* place(0, 0);
}
