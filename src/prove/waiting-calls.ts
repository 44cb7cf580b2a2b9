/**
 * Calls that return probes wait for: a stack of them for each thread (`struct probe_instance`).
 * What a hit adds to it, what of it the return takes off, and which calls are missed. Written down
 * from `runtime/abi.ts` and what kernels do, not from the two implementations that are proved: the
 * runtime's callback and the trap handler.
 */
import type { Program } from '../program/program.js';
import {
  ONE_STACK,
  PROBE_INSTANCE_COUNT,
  PROBE_INSTANCE_WORD_COUNT,
  PROBE_INSTANCE_WORDS,
  RING_KINDS,
} from '../runtime/abi.js';
import type { Address } from '../units.js';
import type { FetchedWords, ProbeHit, Records, Write } from './writes.js';

/** What one hit does to the stack. */
export interface WaitingPlan {
  readonly hit: ProbeHit;
  /** Calls under way in front of those of the hit; calls that were left are gone. */
  readonly depth: number;
  /** Events that wait for the return. */
  readonly events: readonly ProbeHit['events'][number][];
  /** Those for which there is no room, or which have as many as they may have. */
  readonly missed: number;
}

/** Where a function returns to. */
export interface ReturnPlaces {
  /** In front of the hit: to its caller, or to the graph tracer. */
  readonly parents: readonly Address[];
  /** Behind it. */
  readonly trap: Address;
  /** The graph tracer had the return before: it has it again behind the trap. */
  readonly isLast: boolean;
}

export class WaitingCalls {
  private constructor(
    private readonly word: 4 | 8,
    private readonly depths: Address,
    private readonly instances: Address,
  ) {}

  /** Null: the image has no return probes. */
  static of(program: Program): WaitingCalls | null {
    const [depths, instances] = ['elftrace_probe_depth', 'elftrace_probe_instances'].map((name) =>
      program.definedAt(program.symbols.find(name)),
    );
    if ((depths ?? null) === null || (instances ?? null) === null) return null;
    return new WaitingCalls(program.image.wordBytes, depths!, instances!);
  }

  depthAt(thread: number): Address {
    return this.depths + BigInt(thread * this.word);
  }

  wordAt(thread: number, index: number, name: keyof typeof PROBE_INSTANCE_WORDS): Address {
    const call = (thread * PROBE_INSTANCE_COUNT + index) * PROBE_INSTANCE_WORD_COUNT;
    return this.instances + BigInt((call + PROBE_INSTANCE_WORDS[name]) * this.word);
  }

  /**
   * @param frame  of the function that was hit
   * @param was    a word as it was in front of the hit
   */
  plan(hit: ProbeHit, thread: number, frame: Address, was: (address: Address) => bigint): WaitingPlan {
    let depth = Number(was(this.depthAt(thread)));
    for (; depth > 0; depth--) {
      const other = was(this.wordAt(thread, depth - 1, 'frame'));
      if (!(other < frame && frame - other < ONE_STACK)) break;
    }
    const under = Array.from({ length: depth }, (_, i) => was(this.wordAt(thread, i, 'event')));
    const events: ProbeHit['events'][number][] = [];
    let missed = 0;
    for (const event of hit.events) {
      if (event.atReturn === null) continue;
      const { most } = event.atReturn;
      const isFull = depth + events.length >= PROBE_INSTANCE_COUNT;
      if (isFull || (most > 0 && under.filter((at) => at === event.at).length >= most)) missed++;
      else events.push(event);
    }
    return { hit, depth, events, missed };
  }

  /** What the stack holds behind the hit, and behind the return. */
  writes(
    { hit, depth, events }: WaitingPlan,
    thread: number,
    frame: Address,
    { parents, trap }: ReturnPlaces,
    phase: 'enter' | 'return',
  ): Write[] {
    const size = this.word;
    const now = phase === 'enter' ? depth + events.length : depth;
    const entries = events.flatMap(({ at }, i) =>
      Object.entries({ event: [at], op: [hit.op], parentIp: i === 0 ? parents : [trap], frame: [frame] }).map(
        ([name, holds]) => ({
          address: this.wordAt(thread, depth + i, name as keyof typeof PROBE_INSTANCE_WORDS),
          ...{ size, holds, what: `what a call that a return probe waits for keeps: ${name}` },
        }),
      ),
    );
    const what = 'the number of calls that return probes wait for';
    return [{ address: this.depthAt(thread), size, holds: [BigInt(now)], what }, ...entries];
  }

  /** What is recorded when the function has returned: the event that was hit last comes first. */
  records({ hit, events }: WaitingPlan, { parents }: ReturnPlaces): Records[] {
    return events.toReversed().map(({ id, atReturn }) => {
      // A return says first where it went.
      const [parent, ...others] = parents;
      const first = { kind: RING_KINDS.probe, time: null, ip: hit.address, parents: [id] };
      return [first, ...dataRecords([others.length > 0 ? null : parent!, ...atReturn!.words()])];
    });
  }
}

/** Records with what was fetched, three words each. */
export function dataRecords(words: FetchedWords): Records {
  return Array.from({ length: Math.ceil(words.length / 3) }, (_, i) => {
    const [time, ip, parent] = [0, 1, 2].map((k) => (3 * i + k < words.length ? words[3 * i + k]! : 0n));
    return { kind: RING_KINDS.data, time: time!, ip: ip!, parents: parent === null ? null : [parent!] };
  });
}
