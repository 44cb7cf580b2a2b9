/** Who acts in a race: threads, patchers, and CPUs that fetch lines ahead of their threads. */
import { hex } from '../errors.js';
import type { Address } from '../units.js';
import type { Scene, Sequence } from './model.js';

/** A thread that executes, a patcher, or a CPU that fetches a patched line ahead of its thread. */
export interface Actor {
  readonly kind: 'thread' | 'patcher' | 'prefetch';
  /** Of the thread or patcher. */
  readonly index: number;
  readonly name: string;
  /** Of one that fetches: position among the patched lines. */
  readonly line?: number;
}

/**
 * All of them, in the order in which they get their turn.
 * @param lines  addresses of the patched lines, where CPUs fetch at any time
 */
export function actorsOf(scene: Scene, sequence: Sequence, lines: readonly Address[]): Actor[] {
  const threads = scene.threads.map(({ name }, index): Actor => ({ kind: 'thread', index, name }));
  const fetching = threads.flatMap(({ index, name }) =>
    lines.map((address, line): Actor => {
      const what = lines.length > 1 ? `fetches ${hex(address)}` : 'fetches';
      return { kind: 'prefetch', index, line, name: `${name} ${what}` };
    }),
  );
  return [
    ...threads,
    ...sequence.patchers.map(({ name }, index): Actor => ({ kind: 'patcher', index, name })),
    ...fetching,
  ];
}
