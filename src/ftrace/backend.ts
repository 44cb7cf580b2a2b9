/**
 * The border between the core and what it acts on: a file, a running machine, a memory made up by a
 * test. The core decides in symbols (which entry, whose trampoline, which direct address) and hands
 * over one ordered list of steps per operation; a backend knows bytes, stubs, reach and places.
 *
 * How the core uses it, for every operation:
 *   1. plan: `planTrampoline` (decides, writes nothing), nothing else is called
 *   2. pass one: for each step in order, `read` of a code place that no earlier step changes and
 *      comparison with `before`; then `check`
 *   3. pass two: `write` of each step in order. If one fails, the steps before it are written back
 *      in reverse order
 * So the first byte is written when every step is known to fit (C-UPD-3), and a failing operation
 * leaves everything as it was.
 */
import type { Capabilities } from '../machine/conventions.js';
import type { Address } from '../units.js';
import type { GraphUserImage } from './graph-user.js';
import type { SiteHash } from './hash.js';
import type { Callee, Content, Errno, Ops, OpsImage, TrampolineBlock } from './ops.js';
import type { CallSite, Literal } from './records.js';

export interface TrampolineRequest {
  readonly ops: Ops;
  readonly template: 'plain' | 'regs';
  readonly callee: Callee;
}

/** A trampoline as it stands: a copy of which entry, for whom, calling what. */
export interface TrampolineImage {
  readonly template: 'plain' | 'regs';
  readonly callee: Callee;
}

/** Code that steps compare before they write. */
export type CodePlace =
  | { readonly kind: 'site'; readonly site: CallSite }
  | { readonly kind: 'literal'; readonly site: CallSite }
  | { readonly kind: 'callee'; readonly entry: 'plain' | 'regs' }
  | { readonly kind: 'inner-call'; readonly block: TrampolineBlock }
  | { readonly kind: 'graph-call' };

/** What a place holds now: a known content, bytes that are none, or nothing that can be read. */
export type Reading =
  | { readonly kind: 'site'; readonly content: Content }
  | { readonly kind: 'literal'; readonly literal: Literal }
  | { readonly kind: 'callee'; readonly callee: Callee }
  | { readonly kind: 'graph-call'; readonly on: boolean }
  | { readonly kind: 'foreign'; readonly bytes: Uint8Array }
  | { readonly kind: 'fault' };

interface Change<T> {
  readonly before: T;
  readonly after: T;
}

/**
 * One change, in the order in which it must happen. Every kind but the last three can be undone by
 * swapping `before` and `after`.
 */
export type Step =
  /** All words of an ops object, its hashes included; null: there is none. */
  | ({ readonly kind: 'object'; readonly ops: Ops } & Change<OpsImage | null>)
  /**
   * The list that the list function walks, first ops first. One store of a pointer: `next` of a new
   * ops is set before.
   */
  | ({ readonly kind: 'list' } & Change<readonly Ops[]>)
  /** An entry of the table of direct callers. */
  | ({ readonly kind: 'direct-entry'; readonly site: CallSite } & Change<Address | null>)
  /** A private trampoline is written (before null) or given back (after null). */
  | ({
      readonly kind: 'trampoline';
      readonly ops: Ops;
      readonly block: TrampolineBlock;
    } & Change<TrampolineImage | null>)
  /**
   * The call inside a private trampoline; `template` says which entry's call offset is meant
   * (T-X86-19, T-X86-44).
   */
  | ({
      readonly kind: 'inner-call';
      readonly ops: Ops;
      readonly block: TrampolineBlock;
      readonly template: 'plain' | 'regs';
    } & Change<Callee>)
  /** The patched call of a shared entry. */
  | ({ readonly kind: 'callee'; readonly entry: 'plain' | 'regs' } & Change<Callee>)
  /**
   * The word that the shared entries hand on as the third argument; null: the end of the list
   * (C-TGT-8).
   */
  | ({ readonly kind: 'trace-op' } & Change<Ops | null>)
  /** A site. `flags` are those of the record at that moment: new wishes, old text. */
  | ({
      readonly kind: 'site';
      readonly site: CallSite;
      readonly update: 'make-call' | 'modify-call' | 'make-nop';
      readonly flags: number;
    } & Change<Content>)
  | ({ readonly kind: 'literal'; readonly site: CallSite } & Change<Literal>)
  /**
   * The jump of the graph tracer in the entries; `ops` has the hashes that its hook tests (C-FG-8).
   */
  | ({ readonly kind: 'graph-call'; readonly ops: Ops } & Change<boolean>)
  /** Who hears of function entries and returns, by index (C-FG-5). */
  | ({ readonly kind: 'graph-users' } & Change<readonly (GraphUserImage | null)[]>)
  /** All CPUs see what was stored. */
  | { readonly kind: 'sync' }
  /**
   * A wait. `read`: every reader that had begun is done. `rude`: every CPU ran something that
   * cannot be inside a tracer. `tasks`: every task went through a voluntary schedule point, idle or
   * user mode (C-Q-2).
   */
  | { readonly kind: 'quiesce'; readonly grace: 'read' | 'rude' | 'tasks' }
  /** No thread can reach this any more: its memory may be used again. */
  | {
      readonly kind: 'free';
      readonly object: 'hash' | 'ops' | 'direct-table' | 'trampoline';
      readonly of: string;
    };

/**
 * Why a step cannot be done. `failed` means that the image is not what the core knows it to be, or
 * that a store went wrong: the core is dead after it (C-UPD-4). `refused` means that the request
 * cannot be expressed here (out of reach): nothing is wrong with the image.
 */
export type StepProblem =
  | { readonly kind: 'failed'; readonly errno: 'EFAULT' | 'EINVAL' | 'EPERM'; readonly reason: string }
  | { readonly kind: 'refused'; readonly errno: Errno; readonly reason: string };

export interface Backend {
  readonly capabilities: Capabilities;
  /** Text addresses of the runtime that ops objects name. */
  readonly symbols: {
    readonly directHelper: Address;
    readonly graphFunction: Address;
    readonly graphEntry: Address;
    readonly plainEntry: Address;
    /** The entry that always lists; 0 where there is none. */
    readonly listEntry: Address;
    /**
     * The entry that direct ops name as their trampoline: that for registers, or the one there is.
     */
    readonly registerEntry: Address;
  };
  read(place: CodePlace): Reading;
  /**
   * Can the step be written? Looks at permissions, reach and everything that `read` does not
   * compare. Writes nothing.
   */
  check(step: Step): StepProblem | null;
  write(step: Step): StepProblem | null;
  /**
   * Can the patched calls of the entries lead to a function? If not they call the list function,
   * which calls it through the ops object.
   */
  reachesCallback(address: Address): boolean;
  /**
   * Name of a text address, with the offset if there is one, for reports and listings; empty where
   * none is known.
   */
  nameOf(address: Address): string;
  /**
   * Can a site call a private trampoline? One that cannot uses the shared entry, which others reach
   * through stubs.
   */
  reachesTrampoline(site: CallSite, block: TrampolineBlock): boolean;
  /** Bytes that a site would hold, for reports; null when unknown. */
  bytesOf(site: CallSite, content: Content): Uint8Array | null;
  /** Bytes that a site holds, for reports; null when they cannot be read. */
  bytesAt(site: CallSite): Uint8Array | null;
  /** Decides a trampoline, or says why there is none: no error of the registration (C-TRAMP-4). */
  planTrampoline(request: TrampolineRequest): TrampolineBlock | { readonly refused: string };
  /** A planned trampoline will not be written. */
  dropTrampoline(block: TrampolineBlock): void;
  /**
   * Room for so many more direct callers, one after another, and for the hashes that come with
   * them; false: ENOMEM.
   */
  reserveDirect(entries: number, hashes: readonly SiteHash[]): boolean;
}
