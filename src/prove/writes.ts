/** What callbacks leave in the tracer's own data, as the proof expects it. */
import type { Address } from '../units.js';

/** Bytes that callbacks write. */
export interface Write {
  readonly address: Address;
  readonly size: number;
  /** What may stand there afterwards; null: anything. */
  readonly holds: readonly bigint[] | null;
  /** The number of ticks that it has at least; at most as many as there were until now. */
  readonly least?: bigint;
  readonly what: string;
}

/** A time, or what stands in its place: a number; when it happened; null: anything. */
export type Time = bigint | 'clock' | null;

/** A record, or records that are written together or not at all. */
export type Records = readonly {
  readonly kind: number;
  readonly time: Time;
  /** Null: anything, as below. */
  readonly ip: bigint | null;
  readonly parents: readonly bigint[] | null;
}[];

/** Words of 64 bits that the arguments of an event fetch; null: anything. */
export type FetchedWords = readonly (bigint | null)[];

/** What a hit of a probed address leaves in the objects of probes, and what it records. */
export interface ProbeHit {
  /** The object of the address. */
  readonly op: Address;
  /** As records have it. */
  readonly address: Address;
  /** Not counted where a kernel's handler serves the probe, and nothing of the image does. */
  readonly isServed: boolean;
  readonly events: readonly {
    readonly at: Address;
    readonly id: bigint;
    /** What its arguments fetch. */
    readonly words: FetchedWords;
    /** An event of returns; null: of the hit itself. */
    readonly atReturn: {
      /** Calls of it that may be under way in a thread; 0: as many as there is room for. */
      readonly most: number;
      /** What its arguments fetch now: the original has just returned. */
      words(): FetchedWords;
    } | null;
  }[];
}
