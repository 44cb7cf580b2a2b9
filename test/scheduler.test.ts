/** Which thread runs: what the scheduler asks of the world, which sums over all processes. */
import { expect, test } from '@jest/globals';
import { Scheduler, type Tasks } from '../src/guest/scheduler.js';

/** Processes of which each could go on, as far as `ticks` looks at them. */
function manyTasks(count: number): { readonly world: Tasks; readonly asked: () => number } {
  let asked = 0;
  const tasks = Array.from({ length: count }, () => {
    const thread = { waiting: null };
    return {
      machine: { time: 0n },
      signals: { thread, threads: [thread], ticks: () => null, canGoOn: () => true },
    };
  });
  const world = {
    tasks,
    current: tasks[0],
    due: null,
    get instructions() {
      asked++;
      return 0;
    },
  };
  return { world: world as unknown as Tasks, asked: () => asked };
}

test('what all processes have executed is summed once a slice, however many there are', () => {
  const { world, asked } = manyTasks(100);
  const scheduler = new Scheduler(world, { instructions: 1000 });
  expect(scheduler.ticks()).toBeGreaterThan(0n);
  expect(asked()).toBe(1);
});
