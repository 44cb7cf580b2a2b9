/**
 * Ops: a callback with the functions that it wants to see, and what the core knows of its
 * registration (C-OPS-1). Owns the fields and what follows from one ops alone: whether it wants
 * registers, needs a wrapper, may have a trampoline. Rules that look at several ops are in
 * `targets.ts`.
 */
import { OPS_FLAGS } from '../runtime/abi.js';
import type { Address } from '../units.js';
import type { Capabilities } from '../machine/conventions.js';
import { type HashPair, type HashSnapshot, hashesMatch, isEmpty, type SiteHash } from './hash.js';
import type { Policy } from './policy.js';
import type { CallSite } from './records.js';

/** What an IPMODIFY user and a direct user tell each other about one function (C-IPM-4). */
export type ShareCommand = 'enable-share-self' | 'enable-share-peer' | 'disable-share-peer';

/** Answers 0, or the error that the registration then fails with. */
export type Negotiation = (command: ShareCommand, site: CallSite) => 0 | Errno;

/** Error kinds of the operations. */
export type Errno = 'EINVAL' | 'EBUSY' | 'ENODEV' | 'ENOMEM' | 'ENOENT' | 'ENOSPC' | 'EPERM' | 'EFAULT' | 'ERANGE';

/**
 * What a site holds. Stubs on the way are the backend's business: a site that reaches
 * `ftrace_caller` through one holds `caller`.
 */
export type Content =
  | { readonly kind: 'nop' }
  | { readonly kind: 'caller' }
  | { readonly kind: 'regs-caller' }
  /** The entry that lists whatever the word in front of the function says. */
  | { readonly kind: 'list-caller' }
  /**
   * Code that serves one ops. `ops` is null in what a backend read at an address that it did not
   * build.
   */
  | { readonly kind: 'trampoline'; readonly address: Address; readonly ops: Ops | null }
  | { readonly kind: 'direct'; readonly address: Address };

/** What the patched call of an entry, or that inside a trampoline, leads to. */
export type Callee =
  | { readonly kind: 'stub' }
  | { readonly kind: 'list' }
  | { readonly kind: 'function'; readonly address: Address }
  /** The wrapper of C-TGT-6. It takes its ops from the third argument. */
  | { readonly kind: 'assist'; readonly ops: Ops };

/** Room for one trampoline and its bytes, decided; nothing is written yet. */
export interface TrampolineBlock {
  readonly address: Address;
  readonly sizeBytes: number;
}

/** Code that serves one ops only. */
export type OpsTrampoline =
  /**
   * Built by us (ALLOC_TRAMP): remembers which entry it is a copy of and what it calls (T-X86-44).
   */
  | {
      readonly kind: 'private';
      readonly block: TrampolineBlock;
      readonly template: 'plain' | 'regs';
      readonly callee: Callee;
    }
  /** The user's own: never changed (T-X86-17). */
  | { readonly kind: 'user'; readonly address: Address }
  /** The register entry itself, which direct callers name (C-DIR-4). */
  | { readonly kind: 'entry' }
  /** The static entry of the graph tracer (T-X86-4). */
  | { readonly kind: 'graph'; readonly address: Address };

/** An ops object in guest memory; hashes that are empty are null. */
export interface OpsImage {
  readonly func: Address;
  readonly flags: number;
  readonly directCall: Address;
  /** The callback's own word, as it is when the object is made; afterwards it is the callback's. */
  readonly data: bigint;
  readonly filter: SiteHash | null;
  readonly notrace: SiteHash | null;
  readonly trampoline: Address;
}

/** What a caller says of an ops. */
export interface OpsInput {
  readonly name: string;
  /** Text address of the callback; 0 while there is none. */
  readonly func: Address;
  /**
   * Names of flags that users set; ALLOC_TRAMP and those of the core are refused at registration.
   */
  readonly flags?: readonly (keyof typeof OPS_FLAGS)[];
  /** What the callback finds in its own word (`private`); 0 when absent. */
  readonly data?: bigint;
  /** The hashes that several ops share; own ones when absent. */
  readonly pair?: HashPair;
  /** The user's own trampoline. */
  readonly trampoline?: Address;
  /** How it shares functions with users of the other kind; without it, it does not. */
  readonly negotiate?: Negotiation;
}

/** Flags that are there only while an operation runs. */
const TRANSIENT = OPS_FLAGS.ADDING | OPS_FLAGS.REMOVING | OPS_FLAGS.MODIFYING;

/** A tracer as the core knows it: its callback, the functions that it wants, its registration. */
export class Ops {
  readonly name: string;
  func: Address;
  /** The callback of the user while a wrapper is in `func`. */
  savedFunc: Address;
  flags: number;
  pair: HashPair;
  /** The hashes before the update that runs now; null otherwise. */
  old: HashSnapshot | null = null;
  trampoline: OpsTrampoline | null;
  directCall: Address = 0n;
  readonly data: bigint;
  readonly negotiate: Negotiation | null;

  constructor(input: OpsInput) {
    this.name = input.name;
    this.func = input.func;
    this.savedFunc = input.func;
    this.flags = 0;
    for (const flag of input.flags ?? []) this.flags |= OPS_FLAGS[flag];
    this.pair = input.pair ?? { filter: null, notrace: null };
    this.trampoline = input.trampoline === undefined ? null : { kind: 'user', address: input.trampoline };
    this.data = input.data ?? 0n;
    this.negotiate = input.negotiate ?? null;
  }

  has(flag: keyof typeof OPS_FLAGS): boolean {
    return (this.flags & OPS_FLAGS[flag]) !== 0;
  }

  set(...flags: (keyof typeof OPS_FLAGS)[]): void {
    for (const flag of flags) this.flags |= OPS_FLAGS[flag];
  }

  clear(...flags: (keyof typeof OPS_FLAGS)[]): void {
    for (const flag of flags) this.flags &= ~OPS_FLAGS[flag];
  }

  /** C-HASH-1 with the present hashes. */
  matches(site: CallSite): boolean {
    return hashesMatch(this.pair, site);
  }
}

/** A full register frame is wanted and can be had. */
export function wantsRegs(ops: Ops, { regs }: Capabilities): boolean {
  return regs !== 'none' && (ops.has('SAVE_REGS') || ops.has('SAVE_REGS_IF_SUPPORTED'));
}

/** The callback may not be called without the recursion guard and the RCU test (C-TGT-6). */
export function needsAssist(ops: Ops): boolean {
  return ops.has('RECURSION') || ops.has('RCU');
}

/**
 * What code that serves this ops alone calls: 2014 its function, since then the wrapper where one
 * is needed (C-TRAMP-5).
 */
export function soleCallee(ops: Ops, policy: Policy): Callee {
  if (policy.trampolines !== '2014' && needsAssist(ops)) return { kind: 'assist', ops };
  return { kind: 'function', address: ops.func };
}

/** C-TRAMP-3, T-X86-5, T-X86-6, T-X86-32: may the core build a trampoline for it? */
export function mayHaveTrampoline(ops: Ops, capabilities: Capabilities, policy: Policy): boolean {
  if (!capabilities.patchable || !capabilities.trampolines || policy.trampolines === 'none') return false;
  if (ops.has('STUB') || ops.func === 0n) return false;
  if (!capabilities.assist && policy.trampolines === 'modern' && needsAssist(ops)) return false;
  return policy.trampolines === 'modern' || !ops.has('DYNAMIC') || policy.preempt === 'none';
}

/** Address of the trampoline, 0 when there is none; `entry` is that of the register entry. */
export function trampolineAddress({ trampoline }: Ops, entry: Address): Address {
  if (trampoline === null) return 0n;
  switch (trampoline.kind) {
    case 'private':
      return trampoline.block.address;
    case 'user':
    case 'graph':
      return trampoline.address;
    case 'entry':
      return entry;
    default:
      return trampoline satisfies never;
  }
}

/**
 * The object as guest code sees it (RT-10): empty hashes are null, flags are
 * those in effect.
 */
export function imageOf(ops: Ops, capabilities: Capabilities, entry: Address): OpsImage {
  let flags = ops.flags & ~(TRANSIENT | OPS_FLAGS.SAVE_REGS);
  if (wantsRegs(ops, capabilities)) flags |= OPS_FLAGS.SAVE_REGS;
  return {
    func: ops.func,
    flags,
    directCall: ops.directCall,
    data: ops.data,
    filter: isEmpty(ops.pair.filter) ? null : ops.pair.filter,
    notrace: isEmpty(ops.pair.notrace) ? null : ops.pair.notrace,
    trampoline: trampolineAddress(ops, entry),
  };
}

/** Equal in every word. */
export function equalImages(a: OpsImage | null, b: OpsImage | null): boolean {
  if (a === null || b === null) return a === b;
  return (
    a.func === b.func &&
    a.flags === b.flags &&
    a.directCall === b.directCall &&
    a.filter === b.filter &&
    a.notrace === b.notrace &&
    a.trampoline === b.trampoline
  );
}

/**
 * Numbers of the flags when private trampolines came (T-X86-42); flags that did not exist then have
 * none.
 */
const FLAGS_2014: Partial<Record<keyof typeof OPS_FLAGS, number>> = {
  ENABLED: 0,
  DYNAMIC: 1,
  SAVE_REGS: 3,
  SAVE_REGS_IF_SUPPORTED: 4,
  STUB: 6,
  INITIALIZED: 7,
  DELETED: 8,
  ALLOC_TRAMP: 9,
};

/**
 * Flags as a listing of an era shows them: the numbers of today, which objects in images have too,
 * or those of 2014 (T-X86-42).
 * @param ops  whatever has flags as objects have them
 */
export function rawFlags({ flags }: Pick<Ops, 'flags'>, era: '2014' | 'modern'): number {
  if (era === 'modern') return flags;
  let raw = 0;
  for (const [name, bit] of Object.entries(FLAGS_2014)) {
    if ((flags & OPS_FLAGS[name as keyof typeof OPS_FLAGS]) !== 0) raw |= 1 << bit;
  }
  return raw;
}

/** Names of the flags that are set, in the order of today's numbers. */
export function flagNames({ flags }: Pick<Ops, 'flags'>): string[] {
  return Object.entries(OPS_FLAGS).flatMap(([name, bit]) => ((flags & bit) !== 0 ? [name] : []));
}

/** The same content, as far as bytes can tell. */
export function equalContents(a: Content, b: Content): boolean {
  if ('address' in a && 'address' in b) return a.address === b.address;
  return a.kind === b.kind;
}

/** The same callee, as far as bytes can tell. */
export function equalCallees(a: Callee, b: Callee): boolean {
  if (a.kind === 'function' && b.kind === 'function') return a.address === b.address;
  return a.kind === b.kind;
}
