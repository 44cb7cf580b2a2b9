/**
 * What the kprobe room asks of a machine, as types. Everything about probes that differs between
 * machines is behind `ProbeModel`, and nothing else; the objects are built in `arch-*\/kprobes.ts`
 * and reached as `Arch.probes`. No part may throw for what a user can ask: what cannot be probed is
 * a `ProbeRefusal`, a value.
 *
 * The way of a probe through the members:
 *
 *   adjust       symbol+offset -> the address that is meant (K-ADDR-1)
 *   decode       is it an instruction, how is it executed elsewhere? (K-ADDR-4, 5)
 *   breakpoint   the bytes over its first bytes (K-BP-1)
 *   slot         copy of the instruction, jump back or second breakpoint behind it (K-SLOT-1)
 *   simulate     its effect on a processor, where a copy would not do the same
 *   optimization windows -> build -> optimize / undo: the jump form (X-1, K-PPC-1, K-A64-1, K-RV-1)
 */
import type { Reach } from '../bits.js';
import { hex } from '../errors.js';
import type { Address, RegisterName } from '../units.js';

// ---------------------------------------------------------------------------------------- refusals

/** Numbers of Linux that a refusal stands for. */
export type ProbeErrno =
  'EINVAL' | 'ENOENT' | 'EILSEQ' | 'EOPNOTSUPP' | 'ERANGE' | 'EBUSY' | 'EEXIST' | 'ENOMEM' | 'ENOSYS';

/**
 * Why a probe is not set or not optimised. Stable words: reports count by them.
 *
 * - where: `not-served` (no probes on this machine), `address-and-symbol`, `no-address`,
 *   `no-symbol`, `not-text`, `init-text`, `blacklisted`, `other-patch` (a jump label, static call,
 *   alternative, bug entry), `not-a-boundary`, `misaligned`, `inside-site`, `registered-twice`,
 *   `no-ftrace-support`, `relocation` (a field of it is still to be written by a loader), `gone`
 * - instruction: `undecodable`, `trap` (a trap of its own), `forced-emulation` (prefix),
 *   `masks-interrupts`, `far-branch`, `privileged`, `virtualisation`, `system`,
 *   `exclusive-sequence`, `exception-table`, `indirect-memory-branch`, `unsupported-instruction`
 * - slot and buffer: `out-of-reach`, `no-memory`
 * - jump: `post-handler`, `break-handler`, `no-optimization` (none on this machine or in this
 *   configuration), `optimization-off`, `disabled`, `unknown-size`, `entry-text`, `too-short`,
 *   `foreign-breakpoint`, `indirect-jump`, `branch-into-window`, `address-in-window` (code or data
 *   holds it: a table of a switch, a label), `landing-pad`, `table-into-window` (of a kernel),
 *   `symbol-in-window`, `ways-unknown`, `not-boostable`, `other-probe` (inside the window),
 *   `site-in-window`, `no-free-register`, `stack-use`, `conditional-branch`, `arch-refused`
 */
export type ProbeRefusalCode =
  | 'not-served'
  | 'address-and-symbol'
  | 'no-address'
  | 'no-symbol'
  | 'not-text'
  | 'init-text'
  | 'blacklisted'
  | 'other-patch'
  | 'not-a-boundary'
  | 'misaligned'
  | 'inside-site'
  | 'registered-twice'
  | 'no-ftrace-support'
  | 'relocation'
  | 'gone'
  | 'undecodable'
  | 'trap'
  | 'forced-emulation'
  | 'masks-interrupts'
  | 'far-branch'
  | 'privileged'
  | 'virtualisation'
  | 'system'
  | 'exclusive-sequence'
  | 'exception-table'
  | 'indirect-memory-branch'
  | 'unsupported-instruction'
  | 'out-of-reach'
  | 'no-memory'
  | 'post-handler'
  | 'break-handler'
  | 'no-optimization'
  | 'optimization-off'
  | 'disabled'
  | 'unknown-size'
  | 'entry-text'
  | 'too-short'
  | 'foreign-breakpoint'
  | 'indirect-jump'
  | 'branch-into-window'
  | 'address-in-window'
  | 'landing-pad'
  | 'table-into-window'
  | 'symbol-in-window'
  | 'ways-unknown'
  | 'not-boostable'
  | 'other-probe'
  | 'site-in-window'
  | 'no-free-register'
  | 'stack-use'
  | 'conditional-branch'
  | 'arch-refused';

export interface ProbeRefusal {
  readonly kind: 'refused';
  readonly errno: ProbeErrno;
  readonly code: ProbeRefusalCode;
  /** Rule of the specification: `K-ADDR-4`, `X-2`. */
  readonly rule: string;
  /** For people, without a full stop. */
  readonly reason: string;
}

/** Builds a refusal. */
export function refuse(errno: ProbeErrno, code: ProbeRefusalCode, rule: string, reason: string): ProbeRefusal {
  return { kind: 'refused', errno, code, rule, reason };
}

// ---------------------------------------------------------------------------------- code around it

/**
 * The function around a probe as the machine's part sees it. `bytes` are those of the text without
 * any probe: breakpoints and jumps of ours are seen through; a breakpoint that is there
 * nevertheless is foreign. Addresses are offsets in the section in relocatable files.
 */
export interface ProbeCode {
  /** Name of the symbol that covers the probe. */
  readonly name: string;
  readonly start: Address;
  /**
   * Bytes from `start` to the end of the function; to the next symbol where the symbol has no size.
   */
  readonly bytes: Uint8Array;
  /** The symbol has a size. */
  readonly sizeKnown: boolean;
  /** Bytes from `start` to the entry that calls with the same TOC use (ELFv2); 0 elsewhere. */
  readonly localEntry: number;
  /**
   * Entry code: exceptions and system calls arrive here, and nothing of it may be replaced by
   * jumps.
   */
  readonly isEntryText: boolean;
  /** An exception table names a place in [start, end). */
  hasException(start: Address, end: Address): boolean;
  /** What else patches a place in [start, end): `a jump label`, `an ftrace site`; null: nothing. */
  otherPatch(start: Address, end: Address): string | null;
  /**
   * The ftrace site whose bytes hold `address`: where its instruction is that toggles, and
   * everything that it owns.
   */
  siteAt(address: Address): { readonly ip: Address; readonly start: Address; readonly sizeBytes: number } | null;
  /** A relocation that will still be applied writes into [start, end). */
  hasRelocation(start: Address, end: Address): boolean;
  /**
   * What in the whole image leads into the middle of [start, end), `start` itself left out; null:
   * nothing.
   */
  wayInto(start: Address, end: Address): WayIn | null;
  /** The image is known to be built without jump tables (retpolines, -fno-jump-tables): X-2. */
  readonly noJumpTables: boolean;
}

/** How control may come to a place: `unknown`: the image does not tell. */
export type WayInKind = 'branch' | 'address' | 'landing-pad' | 'table' | 'symbol' | 'unknown';

/** Something that leads into the middle of code. */
export interface WayIn {
  readonly kind: WayInKind;
  readonly to: Address;
  /** For people: `the branch at f.cold+0x5`. */
  readonly what: string;
}

/** How an instruction is executed when its place is taken. */
export type ProbeMethod = 'copy' | 'simulate';

/** An instruction that can be probed. */
export interface ProbeInstruction {
  readonly kind: 'instruction';
  readonly address: Address;
  /** Original bytes, the instruction only. */
  readonly bytes: Uint8Array;
  readonly mnemonic: string;
  readonly method: ProbeMethod;
  /**
   * `copy`: a jump back may follow the copy, because it needs no look at the processor behind it
   * (K-BOOST-1). What can be part of a window on machines whose windows hold several instructions.
   */
  readonly boostable: boolean;
}

/** What of a processor simulation and handlers see. Register names are the emulator's. */
export interface ProbeCpu {
  register(name: RegisterName): bigint;
  setRegister(name: RegisterName, value: bigint): void;
  /** null: not mapped. */
  read(address: Address, size: number): Uint8Array | null;
  /** False: not mapped. */
  write(address: Address, bytes: Uint8Array): boolean;
}

export type SimulationResult =
  | { readonly kind: 'next'; readonly pc: Address }
  /** Nothing was changed. */
  | { readonly kind: 'fault'; readonly address: Address; readonly access: 'read' | 'write' };

// ------------------------------------------------------------------------------------------- slots

/** The out-of-line copy of an instruction. */
export interface SlotImage {
  readonly kind: 'slot';
  readonly bytes: Uint8Array;
  /**
   * `jump`: goes back by itself (boosted). `breakpoint`: stops at `offset`, and `finish` says where
   * to go on.
   */
  readonly end: { readonly kind: 'jump' } | { readonly kind: 'breakpoint'; readonly offset: number };
}

export interface ProbeSlots {
  /** Room for any slot, a multiple of `alignBytes`. */
  readonly sizeBytes: number;
  readonly alignBytes: number;
  /**
   * Distances slot − instruction at which every copy works; the closest need of any instruction.
   */
  readonly reach: Reach;
  /**
   * The copy of an instruction of method `copy`.
   * @param boost  false: never a jump back (a post-handler must run)
   */
  write(instruction: ProbeInstruction, slot: Address, boost: boolean): SlotImage | ProbeRefusal;
  /**
   * After the breakpoint behind a copy: what the copy did wrongly because of its place is put
   * right.
   * @returns where to go on
   */
  finish(instruction: ProbeInstruction, slot: Address, cpu: ProbeCpu): Address;
}

// -------------------------------------------------------------------------------------------- jump

/** One way to put a jump over a probed address: what is replaced. */
export interface JumpWindow {
  readonly kind: 'window';
  /** `jmp32`, `b`, `jal`, `auipc-jalr t1`: the machine's name of the form. */
  readonly form: string;
  readonly address: Address;
  /** The replaced instructions, whole; their sum is the length of the window. */
  readonly instructions: readonly ProbeInstruction[];
  /** Original bytes of all of them. */
  readonly bytes: Uint8Array;
  /** Bytes that the jump writes from `address` on; the rest of the window stays as it is. */
  readonly jumpBytes: number;
  /** Distances buffer − address that the jump reaches. */
  readonly reach: Reach;
  /** Room that its buffer needs at most. */
  readonly bufferBytes: number;
  /**
   * Registers that are free for the jump and, second, for the way back, on machines whose far jumps
   * need one (RISC-V).
   */
  readonly scratch?: readonly RegisterName[];
}

/**
 * A detour buffer: saves registers, calls the callback, restores, executes the copies, goes back.
 */
export interface DetourBuffer {
  readonly kind: 'buffer';
  readonly address: Address;
  readonly bytes: Uint8Array;
  /** Where the copied instructions begin: a trap in the middle of a change goes on here. */
  readonly copiedOffset: number;
  /**
   * What the callback adds to the stack pointer that the buffer saved, so that handlers see that of
   * the probed code. Default 0.
   */
  readonly stackAdjust?: number;
}

/** What a buffer needs to know of its surroundings. */
export interface BufferRequest {
  readonly address: Address;
  /** Address of the probe object, handed to the callback. */
  readonly op: Address;
  /** Addresses of `JumpOptimization.callees`, in their order. */
  readonly callees: readonly Address[];
  /** The TOC that callees need in r2; null elsewhere. */
  readonly toc: Address | null;
  /**
   * The code may keep data below its stack pointer, as the convention of programs allows and that
   * of kernels does not.
   */
  readonly redZone: boolean;
}

/**
 * A change of text as it is made: each store is seen by no processor in part only if it is one of
 * the machine's atomic widths.
 */
export type TextStep =
  | { readonly kind: 'store'; readonly address: Address; readonly bytes: Uint8Array }
  /** Every processor fetches anew. */
  | { readonly kind: 'sync' }
  /**
   * Until every thread was where it holds nothing: none stands between the instructions of the jump
   * any more.
   */
  | { readonly kind: 'wait' };

/**
 * An instruction as a sweep over all code of an image sees it, in one object that is used again and
 * again. Distances are from its first byte; NaN: there is none.
 */
export class SweptInstruction {
  /** 0: none that is known. */
  sizeBytes = 0;
  /** Where a direct branch or call leads. */
  target = NaN;
  /** An address that it computes, alone or with one in front of it. */
  address = NaN;
  /** A number in it that may be an address, signed. */
  constant = NaN;
}

/**
 * Takes the code of an image apart, in the order of addresses, with what instructions in front have
 * left in registers.
 */
export interface Sweep {
  /** Instructions begin at multiples of this. */
  readonly alignBytes: number;
  /** Where relative tables begin may be a number in the code, too. */
  readonly hasConstantBases: boolean;
  /** Nothing is known of registers. */
  reset(): void;
  step(bytes: Uint8Array, at: number, out: SweptInstruction): void;
}

/** The jump form of a machine. */
export interface JumpOptimization {
  readonly kind: 'jump';
  /** MAX_OPTIMIZED_LENGTH: no window is longer. */
  readonly maxBytes: number;
  readonly alignBytes: number;
  /** Symbols of the runtime that buffers call: `elftrace_probe_hit`. */
  readonly callees: readonly string[];
  /** Distances buffer -> callee that the call reaches; null: buffers hold the address. */
  readonly calleeReach: Reach | null;
  /**
   * Windows may hold several instructions, so no thread may stand between them when the jump is
   * written (H4). False: only buffers need a grace period, before they are used again (H11).
   */
  readonly needsQuiescence: boolean;
  /**
   * The ways to optimise a probe at `address`, the preferred one first; the first that a free
   * buffer reaches is taken. Not empty.
   */
  windows(code: ProbeCode, address: Address): readonly JumpWindow[] | ProbeRefusal;
  /**
   * Takes code apart to find what leads into windows. null: a window is one word that is stored at
   * once, which has no middle.
   * @param find  address of a symbol
   */
  readonly sweep: ((find: (name: string) => Address | null) => Sweep) | null;
  /** The buffer of a window at an address in reach. */
  build(window: JumpWindow, request: BufferRequest): DetourBuffer | ProbeRefusal;
  /** Bytes of the jump, `window.jumpBytes` of them. */
  jump(window: JumpWindow, buffer: Address): Uint8Array;
  /** Breakpoint -> jump, in order, with the points where all processors synchronise. */
  optimize(window: JumpWindow, buffer: Address): readonly TextStep[];
  /** Jump -> breakpoint. The caller looks first whether the jump is there (T-KP-36). */
  undo(window: JumpWindow, buffer: Address): readonly TextStep[];
}

/**
 * The ways to optimise a probe in code that will not be written any more. A copy would keep the
 * field of a relocation that is applied later as it is now, and the relocation would write over the
 * jump: such windows are none. Neither are those into which anything of the whole image leads:
 * a thread that comes there would find the rest of a jump.
 */
export function jumpWindows(
  { windows }: Pick<JumpOptimization, 'windows'>,
  code: ProbeCode,
  address: Address,
): readonly JumpWindow[] | ProbeRefusal {
  const found = windows(code, address);
  if ('kind' in found) return found;
  const settled = found.filter(({ bytes }) => !code.hasRelocation(address, address + BigInt(bytes.length)));
  if (settled.length === 0) {
    const reason = 'a relocation that is still to be applied writes into the window';
    return refuse('EBUSY', 'relocation', 'K-REL-1', reason);
  }
  const ways = settled.map(({ bytes }) => code.wayInto(address, address + BigInt(bytes.length)));
  const free = settled.filter((_window, i) => ways[i] === null);
  return free.length > 0 ? free : refuseWay(code, ways[0]!);
}

const WAYS = {
  branch: 'branch-into-window',
  address: 'address-in-window',
  'landing-pad': 'landing-pad',
  table: 'table-into-window',
  symbol: 'symbol-in-window',
  unknown: 'ways-unknown',
} as const satisfies Record<WayInKind, ProbeRefusalCode>;

function refuseWay(code: ProbeCode, { kind, to, what }: WayIn): ProbeRefusal {
  const reason = kind === 'unknown' ? what : `${what} leads to ${code.name}+${hex(to - code.start)}, inside the window`;
  return refuse('EILSEQ', WAYS[kind], 'K-WAY-1', reason);
}

// ----------------------------------------------------------------------------------------- grammar

/** A register by the name that kprobe events use. */
export interface ProbeRegister {
  /** The emulator's name; null: it has none, and reads as `fixed`. */
  readonly machine: RegisterName | null;
  readonly fixed?: bigint;
  /** Place in the register frame that guest callbacks get. */
  readonly frameOffset: number;
  readonly bytes: 4 | 8;
}

export interface ProbeAbi {
  /** Key: `ax`, `gpr3`, `a0`, `x0`: without the percent sign. */
  readonly registers: ReadonlyMap<string, ProbeRegister>;
  /** `$arg1` … in registers. */
  readonly arguments: readonly string[];
  /**
   * Byte distance from the stack pointer at a function's entry to the first argument on the stack;
   * null: `$argN` ends with the registers.
   */
  readonly stackArgumentOffset: number | null;
  /** `$retval`. */
  readonly result: string;
  /** `$stack`, and the base of `$stackN`. */
  readonly stackPointer: string;
  /** What handlers see as the instruction pointer. */
  readonly instructionPointer: string;
  /** Bytes of the frame. */
  readonly frameBytes: number;
  /**
   * What tells threads apart, as `elftrace_thread_key` of the runtime has it.
   * @param mode  what the runtime was told (x86-64); elsewhere it does not matter
   */
  threadKey(cpu: ProbeCpu, mode: 'one' | 'fs' | 'gs'): bigint;
}

// --------------------------------------------------------------------------------------- the model

export interface ProbeSupport {
  readonly kind: 'kprobes';
  readonly abi: ProbeAbi;
  /**
   * The instruction pointer that a trap of the breakpoint leaves, minus the breakpoint's address
   * (K-BP-1).
   */
  readonly trapDelta: number;
  /** The breakpoint over an instruction; as long as what is replaced. */
  breakpoint(original: Uint8Array): Uint8Array;
  /** K-ADDR-1, last step: the address that `address` stands for. */
  adjust(code: ProbeCode, address: Address): Address;
  /**
   * The instruction at an address: found by decoding from the function's start where lengths differ
   * (K-ADDR-4), and classified (K-ADDR-5).
   */
  decode(code: ProbeCode, address: Address): ProbeInstruction | ProbeRefusal;
  /**
   * Every kernel of the machine that has both serves a probe on an ftrace site by the tracer.
   * False: there are some that refuse it, and that of the image must tell (K-ADDR-7).
   */
  readonly kernelsServeSites: boolean;
  /**
   * What an ftrace site owns in front of its toggling instruction and has at `address` is the
   * compiler's, and no patching changes it: it may be probed as any other (PowerPC). Absent:
   * everything that a site owns is refused but its instruction (K-ADDR-7).
   */
  isSiteHeadCode?(code: ProbeCode, address: Address): boolean;
  /**
   * The address is the instruction of an ftrace site with which the function begins, behind the
   * site's head: arguments and the return address are still where callers put them, so it counts as
   * the entry (PowerPC, arm64).
   */
  isSiteAtEntry?(code: ProbeCode, address: Address): boolean;
  readonly slots: ProbeSlots;
  /** The effect of an instruction of method `simulate`, at its own address. */
  simulate(instruction: ProbeInstruction, cpu: ProbeCpu): SimulationResult;
  readonly optimization: JumpOptimization | { readonly kind: 'none'; readonly reason: string };
}

/** Probes of a machine, or why there are none: then every probe is refused with `not-served`. */
export type ProbeModel = ProbeSupport | { readonly kind: 'none'; readonly reason: string };
