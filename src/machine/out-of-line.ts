/**
 * Stubs out of line: code between a site and an entry, one stub for each site, in areas of the
 * image that a kernel fills when it starts. A machine says here how they look and which sites an
 * area serves; which stub is whose is worked out in `sites/site-stubs.ts`. Types only.
 */
import type { Reach } from '../bits.js';
import type { Address } from '../units.js';

/** A stub out of line, as far as the code at a place is one. */
export interface OutOfLineStub {
  /** Where its call leads. */
  readonly target: Address;
  /** Where it goes on: behind the site that it belongs to. */
  readonly back: Address;
}

/** What stands where a stub is looked for: a stub, nothing yet, or why it is none. */
export type OutOfLineReading = OutOfLineStub | 'empty' | { readonly wrong: string };

/** The stub of one site. */
export interface SiteStub {
  /** First instruction. */
  readonly address: Address;
  /** Place of the word that names the ops, and what it says while the site is off; null: none. */
  readonly ops: { readonly address: Address; readonly idle: Address } | null;
  /** Where its call leads while the site is off; null: no way to the entry. */
  readonly idleTarget: Address | null;
  /** The island behind `idleTarget` with the bytes that it has then; null: the entry itself. */
  readonly island: { readonly address: Address; readonly bytes: Uint8Array } | null;
}

/** An array of stubs and the word that counts them, by their symbols. */
export interface OutOfLineArea {
  readonly stubs: string;
  readonly count: string;
  /** Which sites take stubs here: those of text that is freed after the start, or the rest. */
  readonly serves: 'init' | 'text';
}

export interface OutOfLineModel {
  /** In the order in which start-up uses those that serve the same sites. */
  readonly areas: readonly OutOfLineArea[];
  /** Code of one stub; a word that names the site's ops may stand in front of it. */
  readonly codeBytes: number;
  /** Delta of the call in the code. */
  readonly callDelta: number;
  /** From a site to its stub, from the way back to the site, and from the call to its target. */
  readonly reach: Reach;
  /** Symbol of the ops that a stub names while its site is off; with it stubs have that word. */
  readonly idleOps: string;
  /** Symbol of the entry that stubs of idle sites call. */
  readonly entry: string;
  /** Symbols of islands that lead there from areas out of its reach, empty until start-up. */
  readonly islands: readonly string[];
  /**
   * First and last version of kernels whose module loader reserves only the first entry of a
   * module's area: a stub that is made later is written over the area's others.
   */
  readonly unreserved: { readonly from: string; readonly to: string };
  /** @param wordAt  4 bytes of code by address, -1 where there is none */
  read(wordAt: (address: Address) => number, address: Address): OutOfLineReading;
  /**
   * Code of the stub at `address` of a site.
   * @throws ElftraceError 'branch-out-of-range'
   */
  write(stub: { readonly address: Address; readonly site: Address; readonly target: Address }): Uint8Array;
  /**
   * Code of an island to the entry.
   * @param toc  that of the kernel
   */
  writeIsland(address: Address, toc: Address, target: Address): Uint8Array;
}
