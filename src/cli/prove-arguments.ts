/** What `elftrace prove` is asked. Types only. */
import type { OpenOptions } from './open.js';

export interface ProveArguments extends OpenOptions {
  readonly patched: string;
  readonly original?: string | undefined;
  /** Default 1. */
  readonly seed?: number | undefined;
  /** Default 2. */
  readonly trials?: number | undefined;
  readonly sample?: number | undefined;
  /** Threads; 0: one per processor, where there are many sites. */
  readonly jobs: number;
  /** All sites are listed, not only those that are not proved. */
  readonly all: boolean;
  readonly json: boolean;
  /** Where the certificate goes. */
  readonly certificate?: string | undefined;
  /** A certificate that is repeated. */
  readonly check?: string | undefined;
}

/** A part of the sites, for one of several threads. */
export interface Part {
  readonly index: number;
  readonly of: number;
}
