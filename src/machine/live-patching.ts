/** How an instruction changes that processors may be executing. Types only. */
import type { Address, RegisterName } from '../units.js';

/** An instruction to be written while processors may execute the one that stands there. */
export interface LivePatch {
  readonly address: Address;
  readonly after: Uint8Array;
}

/** What of a processor a trap handler needs. */
export interface TrappedCpu {
  readonly flags: number;
  setIp(address: Address): void;
  /** Pushes a word. */
  push(value: bigint): void;
  pop(): bigint;
}

/** Registers and memory of a processor that trapped. */
export interface TrapRegisters {
  register(name: RegisterName): bigint;
  setRegister(name: RegisterName, value: bigint): void;
  readWord(address: Address, size: number): bigint | null;
  writeWord(address: Address, size: number, value: bigint): boolean;
}

/**
 * `Entry`: what a handler knows of one patch of a published batch; more than the patch is the
 * machine's.
 */
export type LiveStep<Entry extends LivePatch = LivePatch> =
  /** The handler knows these from now on; ascending addresses. */
  | { readonly kind: 'publish'; readonly entries: readonly Entry[] }
  /** One store of bytes. Only one byte is atomic with respect to fetch. */
  | {
      readonly kind: 'store';
      readonly phase: 'int3' | 'tail' | 'head';
      readonly address: Address;
      readonly bytes: Uint8Array;
    }
  /** Every processor sees what was stored. */
  | { readonly kind: 'sync' }
  /** The handler knows nothing any more. */
  | { readonly kind: 'retract' }
  /** Until no processor is in the handler with an entry of the batch. */
  | { readonly kind: 'wait-handlers' };

/** Instructions of several bytes are changed behind a breakpoint. */
export interface BreakpointPatching {
  readonly kind: 'breakpoint';
  /**
   * Whether the handler could do what the new instruction does; other bytes are stored where no
   * thread executes.
   */
  canWrite(patch: LivePatch): boolean;
  /** The whole protocol, in order. Ascending addresses. */
  steps(patches: readonly LivePatch[]): readonly LiveStep[];
  /**
   * What the handler does for a processor that trapped at an address; false: the trap is not one of
   * ours.
   */
  handle(entries: readonly LivePatch[], at: Address, cpu: TrappedCpu): boolean;
  /** A processor as `handle` needs it. */
  trapped(registers: TrapRegisters): TrappedCpu;
}

/** `word`: one store of a word changes an instruction, and processors see it whole. */
export type LivePatching = BreakpointPatching | { readonly kind: 'word' };
