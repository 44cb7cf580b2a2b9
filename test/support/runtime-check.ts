/** A traced program against the same program untraced. */
import { expect } from '@jest/globals';
import { buildTraced, runTracedHere, runTracedQemu } from './runtime-harness.js';
import type { TracedBuild, Tracer } from './runtime-harness.js';

/**
 * Runs one build untraced and with each tracer: the same output, every record names a site and a
 * return address, and the tracers agree on the number of calls, which is the result.
 */
export function checkTraced(build: Omit<TracedBuild, 'tracer'>, tracers: readonly Tracer[], isHere: boolean): number {
  const expected = runTracedQemu(build.target, buildTraced({ ...build, tracer: 'none' }));
  expect(expected.output.length).toBeGreaterThan(60);
  expect(expected.report).toMatchObject({ head: 0 });
  const counts = new Map<Tracer, number>();
  for (const tracer of tracers) {
    const path = buildTraced({ ...build, tracer });
    for (const outcome of [runTracedQemu(build.target, path), ...(isHere ? [runTracedHere(build.target, path)] : [])]) {
      expect([tracer, outcome.end, outcome.output === expected.output]).toEqual([tracer, expected.end, true]);
      const { report } = outcome;
      expect([tracer, report]).toMatchObject([
        tracer,
        { dropped: 0, 'wrong-site': 0, 'wrong-parent': 0, backwards: 0, depth: 0, stopped: 0 },
      ]);
      const { head = 0, count = 0, overrun = 0, abandoned = 0, deepest = 0 } = report;
      // Of the graph: an entry and a return for each hooked function, but those that longjmp left
      // have no return.
      if (tracer === 'graph') expect(deepest - abandoned).toBeLessThanOrEqual(64);
      const calls = {
        none: 0,
        counter: count,
        function: head,
        graph: (head + abandoned) / 2 + overrun,
        both: (head + abandoned - overrun) / 3 + overrun,
      };
      counts.set(tracer, calls[tracer]);
    }
  }
  const [counted] = counts.values();
  expect([...counts.values()]).toEqual([...counts.values()].map(() => counted));
  return counted!;
}
