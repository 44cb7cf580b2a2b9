/**
 * A `KprobeMachine` over bytes and a machine's probe model: breakpoints, slots and detour buffers
 * are really written. The bytes are those of a file or of a machine that runs; `ProbeStore` is all
 * that is known of them.
 */
import { equalBytes } from '../bytes.js';
import { hex } from '../errors.js';
import type { Reach } from '../bits.js';
import type { Address } from '../units.js';
import {
  type DetourBuffer,
  jumpWindows,
  type JumpWindow,
  type ProbeCode,
  type ProbeCpu,
  type ProbeInstruction,
  type ProbeRefusal,
  type ProbeSupport,
  refuse,
  type SlotImage,
  type TextStep,
} from '../machine/probes.js';
import type { CheckedAddress, KprobeMachine, OptimizedPart, OwnSlot } from './objects.js';
import type { SlotPool } from './slots.js';

/** What a store of probes is for. */
export interface ProbeStoreReason {
  readonly rule: string;
  readonly reason: string;
}

/** Text as it is written. */
export interface ProbeStore {
  readonly isFile: boolean;
  /** Current bytes; null: not there. */
  read(address: Address, size: number): Uint8Array | null;
  /** @param why  what the store is for */
  store(address: Address, bytes: Uint8Array, why: ProbeStoreReason): void;
  /** Every processor fetches anew. */
  sync(): void;
}

/**
 * Told what is done to text and to the room for code, in order: `race` makes its sequences of it.
 */
export interface TextWatcher {
  /** Before bytes are stored, and behind it. */
  storing(address: Address, bytes: Uint8Array): void;
  stored(address: Address, bytes: Uint8Array): void;
  synchronised(): void;
  /** Every thread was where it holds nothing. */
  waited(): void;
  /** Room for a copy or a buffer is taken, or given back. */
  taken(what: string, address: Address, size: number): void;
  freed(what: string, address: Address, size: number): void;
}

export interface TextMachineOptions {
  readonly support: ProbeSupport;
  readonly store: ProbeStore;
  readonly slots: SlotPool;
  /**
   * Section 3: the code and instruction at an address, and whether ftrace serves it. `absent`: text
   * that is not there any more, of which nothing is written.
   */
  readonly check: (address: Address) =>
    | {
        readonly kind: 'valid';
        readonly address: Address;
        readonly code: ProbeCode;
        readonly instruction: ProbeInstruction;
        readonly ftrace: boolean;
      }
    | { readonly kind: 'absent'; readonly address: Address; readonly ftrace: boolean }
    | ProbeRefusal;
  /**
   * Address of the object that a buffer hands to its callback; null: no room. Given back with the
   * buffer.
   */
  readonly op?: (address: Address) => Address | null;
  readonly freeOp?: (op: Address) => void;
  /** Addresses of the callees of buffers; null: the image has none, so there are no jumps. */
  readonly callees: readonly Address[] | null;
  /** What a buffer at an address calls instead: ways to them that it reaches. */
  readonly calleesFrom?: (buffer: Address) => readonly Address[];
  readonly toc?: Address | null;
  readonly redZone: boolean;
  readonly watcher?: TextWatcher | null;
  readonly armFtrace?: (address: Address, wantsIp: boolean) => void;
  readonly disarmFtrace?: (address: Address) => void;
}

export interface DetourPart extends OptimizedPart {
  readonly window: JumpWindow;
  readonly buffer: DetourBuffer;
  readonly op: Address;
}

/** An out-of-line copy. */
export interface PlacedSlot {
  readonly probe: Address;
  readonly address: Address;
  readonly instruction: ProbeInstruction;
  readonly image: SlotImage;
}

/** How a thread goes on behind the handlers of a breakpoint. */
export type Continuation =
  | { readonly kind: 'at'; readonly address: Address }
  /** The effect of the instruction, at its own place. */
  | { readonly kind: 'simulate'; readonly instruction: ProbeInstruction };

interface Prepared extends OwnSlot {
  readonly instruction: ProbeInstruction;
  readonly code: ProbeCode;
  boosted: PlacedSlot | null;
  stepped: PlacedSlot | null;
}

/** The machine of the state machines of kprobes, over the bytes of a file or of a memory. */
export class TextMachine implements KprobeMachine<DetourPart> {
  /** The newest registration at each address. */
  private readonly prepared = new Map<Address, Prepared>();
  /** Those that were not freed yet, too. */
  private readonly copies = new Set<Prepared>();
  /** By the address of the breakpoint behind the copy. */
  private readonly ends = new Map<Address, PlacedSlot>();
  private readonly parts = new Set<DetourPart>();

  constructor(private readonly options: TextMachineOptions) {}

  get isFile(): boolean {
    return this.options.store.isFile;
  }

  get support(): ProbeSupport {
    return this.options.support;
  }

  get maxOptimizedBytes(): number {
    const { optimization } = this.support;
    return optimization.kind === 'jump' ? optimization.maxBytes : 0;
  }

  // --------------------------------------------------------------------------------- text and room

  private write(address: Address, bytes: Uint8Array, rule: string, reason: string): void {
    const { store, watcher } = this.options;
    watcher?.storing(address, bytes);
    store.store(address, bytes, { rule, reason });
    watcher?.stored(address, bytes);
  }

  private sync(): void {
    this.options.store.sync();
    this.options.watcher?.synchronised();
  }

  private take(what: string, sizeBytes: number, alignBytes: number, near: Address, reach: Reach): Address | null {
    const at = this.options.slots.allocate(sizeBytes, alignBytes, near, reach);
    if (at !== null) this.options.watcher?.taken(what, at, sizeBytes);
    return at;
  }

  private giveBack(what: string, address: Address): void {
    const { slots, watcher } = this.options;
    if (watcher) {
      const piece = slots.taken.find((each) => each.address === address);
      watcher.freed(what, address, piece?.sizeBytes ?? 0);
    }
    slots.free(address);
  }

  check(address: Address): CheckedAddress | ProbeRefusal {
    const found = this.options.check(address);
    return found.kind === 'refused' ? found : { kind: 'checked', address: found.address, ftrace: found.ftrace };
  }

  // ----------------------------------------------------------------------------------------- slots

  prepareSlot(address: Address): OwnSlot | ProbeRefusal {
    const found = this.options.check(address);
    if (found.kind === 'refused') return found;
    if (found.kind === 'absent') return { kind: 'own-slot', address };
    const entry: Prepared = {
      kind: 'own-slot',
      address,
      instruction: found.instruction,
      code: found.code,
      boosted: null,
      stepped: null,
    };
    if (found.instruction.method === 'copy') {
      const slot = this.writeSlot(address, entry, true);
      if ('refused' in slot) return slot.refused;
      entry.boosted = slot.placed;
    }
    this.prepared.set(address, entry);
    this.copies.add(entry);
    return entry;
  }

  private writeSlot(
    address: Address,
    { instruction }: Prepared,
    boost: boolean,
  ): { readonly placed: PlacedSlot } | { readonly refused: ProbeRefusal } {
    const { support } = this.options;
    const { sizeBytes, alignBytes, reach } = support.slots;
    const at = this.take('copy', sizeBytes, alignBytes, address, reach);
    if (at === null) {
      return {
        refused: refuse('ENOMEM', 'no-memory', 'K-SLOT-1', `no room for a copy within reach of ${hex(address)}`),
      };
    }
    const image = support.slots.write(instruction, at, boost);
    if (image.kind === 'refused') {
      this.giveBack('copy', at);
      return { refused: image };
    }
    this.write(at, image.bytes, 'K-SLOT-1', `copy of the instruction at ${hex(address)}`);
    this.sync();
    const placed: PlacedSlot = { probe: address, address: at, instruction, image };
    if (image.end.kind === 'breakpoint') this.ends.set(at + BigInt(image.end.offset), placed);
    return { placed };
  }

  releaseSlot(own: OwnSlot): void {
    for (const entry of this.copies) {
      if (entry !== own) continue;
      for (const slot of [entry.boosted, entry.stepped]) {
        if (!slot) continue;
        this.giveBack('copy', slot.address);
        if (slot.image.end.kind === 'breakpoint') this.ends.delete(slot.address + BigInt(slot.image.end.offset));
      }
      this.copies.delete(entry);
      if (this.prepared.get(entry.address) === entry) this.prepared.delete(entry.address);
    }
  }

  /** The instruction of a probe and where its copy is; `post`: one that stops behind itself. */
  execution(
    address: Address,
    post: boolean,
  ): { readonly instruction: ProbeInstruction; readonly slot: Address | null } | ProbeRefusal | null {
    const entry = this.prepared.get(address);
    if (!entry) return null;
    const { instruction, boosted } = entry;
    if (instruction.method === 'simulate' || boosted === null) return { instruction, slot: null };
    if (!post || boosted.image.end.kind === 'breakpoint') return { instruction, slot: boosted.address };
    if (entry.stepped === null) {
      const slot = this.writeSlot(address, entry, false);
      if ('refused' in slot) return slot.refused;
      entry.stepped = slot.placed;
    }
    return { instruction, slot: entry.stepped.address };
  }

  /**
   * Where a thread goes on that hit the breakpoint at an address; null: nowhere.
   * @param inBuffer  with the copies in the detour buffer
   */
  continuation(address: Address, inBuffer: boolean): Continuation | null {
    const part = inBuffer ? this.partOf(address) : null;
    if (part !== null) return { kind: 'at', address: part.buffer.address + BigInt(part.buffer.copiedOffset) };
    const found = this.execution(address, false);
    if (found === null || 'code' in found) return null;
    const { slot, instruction } = found;
    return slot === null ? { kind: 'simulate', instruction } : { kind: 'at', address: slot };
  }

  /** The copy whose end is at an address. */
  slotEndingAt(address: Address): PlacedSlot | null {
    return this.ends.get(address) ?? null;
  }

  /**
   * Where code of ours stands for code of the program: the address that it stands for; the address
   * itself elsewhere.
   */
  originOf(address: Address): Address {
    for (const { address: probe, boosted, stepped } of this.copies) {
      for (const slot of [boosted, stepped]) {
        if (slot && address >= slot.address && address < slot.address + BigInt(slot.image.bytes.length)) {
          return address < slot.address + BigInt(slot.instruction.bytes.length)
            ? probe
            : probe + BigInt(slot.instruction.bytes.length);
        }
      }
    }
    for (const { buffer, window } of this.parts) {
      const offset = Number(address - buffer.address);
      if (offset < 0 || offset >= buffer.bytes.length) continue;
      let at = buffer.copiedOffset;
      for (const each of window.instructions) {
        if (offset < at + each.bytes.length) return offset < buffer.copiedOffset ? window.address : each.address;
        at += each.bytes.length;
      }
      return window.address + BigInt(window.bytes.length);
    }
    return address;
  }

  /** Every slot that is in use. */
  get placedSlots(): readonly PlacedSlot[] {
    return [...this.copies].flatMap(({ boosted, stepped }) => [boosted, stepped]).filter((each) => each !== null);
  }

  // ----------------------------------------------------------------------------------- breakpoints

  private breakpointOf(address: Address): Uint8Array {
    const entry = this.prepared.get(address);
    return this.support.breakpoint(entry?.instruction.bytes ?? new Uint8Array(0));
  }

  arm(address: Address): void {
    if (!this.prepared.has(address)) return;
    this.write(address, this.breakpointOf(address), 'K-BP-1', 'breakpoint of a probe');
    this.sync();
  }

  disarm(address: Address): void {
    const entry = this.prepared.get(address);
    if (!entry) return;
    const own = entry.instruction.bytes.slice(0, this.breakpointOf(address).length);
    this.write(address, own, 'K-BP-1', 'the instruction itself, in place of a breakpoint');
    this.sync();
  }

  /** The bytes at an address are our breakpoint. */
  hasBreakpoint(address: Address): boolean {
    const bytes = this.breakpointOf(address);
    const now = this.options.store.read(address, bytes.length);
    return now !== null && equalBytes(now, bytes);
  }

  armFtrace(address: Address, wantsIp: boolean): void {
    this.options.armFtrace?.(address, wantsIp);
  }

  disarmFtrace(address: Address): void {
    this.options.disarmFtrace?.(address);
  }

  // ----------------------------------------------------------------------------- the six functions

  private get jump(): Extract<ProbeSupport['optimization'], { kind: 'jump' }> | null {
    const { optimization } = this.support;
    return optimization.kind === 'jump' ? optimization : null;
  }

  covers(part: DetourPart, start: Address, address: Address): boolean {
    return address >= start && address < start + BigInt(part.length);
  }

  prepare(address: Address): { readonly kind: 'prepared'; readonly part: DetourPart } | ProbeRefusal {
    const { optimization } = this.support;
    const { callees: own, calleesFrom, toc = null, redZone } = this.options;
    if (optimization.kind === 'none') return refuse('ENOSYS', 'no-optimization', 'K-OPT-10', optimization.reason);
    if (own === null) {
      return refuse(
        'ENOSYS',
        'no-optimization',
        'K-OPT-10',
        'the image has no callback for jumps (elftrace_probe_hit)',
      );
    }
    const found = this.options.check(address);
    if (found.kind === 'refused') return found;
    if (found.kind === 'absent') return refuse('EINVAL', 'gone', 'K-OPT-8', 'the text of the probe is gone');
    const windows = jumpWindows(optimization, found.code, address);
    if ('kind' in windows) return windows;
    let refusal: ProbeRefusal = refuse(
      'ENOMEM',
      'no-memory',
      'X-4',
      `no room for a buffer within reach of ${hex(address)}`,
    );
    for (const window of windows) {
      const at = this.take('detour buffer', window.bufferBytes, optimization.alignBytes, address, window.reach);
      if (at === null) continue;
      const op = this.options.op ? this.options.op(address) : 0n;
      if (op === null) {
        this.giveBack('detour buffer', at);
        return refuse('ENOMEM', 'no-memory', 'X-4', 'no room for the object that the callback gets');
      }
      const callees = calleesFrom?.(at) ?? own;
      const buffer = optimization.build(window, { address: at, op, callees, toc, redZone });
      if (buffer.kind === 'refused') {
        this.giveBack('detour buffer', at);
        this.options.freeOp?.(op);
        refusal = buffer;
        continue;
      }
      this.write(at, buffer.bytes, 'K-OPT-1', `buffer of the jump at ${hex(address)}`);
      this.sync();
      const part: DetourPart = { slot: at, length: window.bytes.length, saved: window.bytes, window, buffer, op };
      this.parts.add(part);
      return { kind: 'prepared', part };
    }
    return refusal;
  }

  remove(part: DetourPart): void {
    this.parts.delete(part);
    this.giveBack('detour buffer', part.slot);
    this.options.freeOp?.(part.op);
  }

  private carryOut(steps: readonly TextStep[], rule: string, reason: string): void {
    for (const step of steps) {
      if (step.kind === 'sync') this.sync();
      else if (step.kind === 'wait') this.options.watcher?.waited();
      else this.write(step.address, step.bytes, rule, reason);
    }
  }

  hasJump(address: Address, part: DetourPart): boolean {
    const { jump } = this;
    if (jump === null) return false;
    const expected = jump.jump(part.window, part.slot);
    const now = this.options.store.read(address, expected.length);
    return now !== null && equalBytes(now, expected);
  }

  /** The window's bytes behind the breakpoint are the original ones. */
  private isIntact({ window }: DetourPart): boolean {
    const from = this.support.breakpoint(window.instructions[0]!.bytes).length;
    const rest = window.bytes.subarray(from);
    // Behind the last instruction of a program nothing can be read.
    if (rest.length === 0) return true;
    const now = this.options.store.read(window.address + BigInt(from), rest.length);
    return now !== null && equalBytes(now, rest);
  }

  mayResume(address: Address, part: DetourPart): boolean {
    if (this.isIntact(part) || this.hasJump(address, part)) return true;
    // In the middle of a change every byte is the original one or the jump's; those of another
    // probe are neither.
    const { window, slot } = part;
    const jump = this.jump?.jump(window, slot);
    const from = this.support.breakpoint(window.instructions[0]!.bytes).length;
    const now = this.options.store.read(address, window.bytes.length);
    if (!jump || now === null) return false;
    return now.every((byte, i) => i < from || byte === window.bytes[i] || byte === jump[i]);
  }

  optimize(_address: Address, part: DetourPart): ProbeRefusal | null {
    const { jump } = this;
    if (jump === null) return refuse('ENOSYS', 'no-optimization', 'K-OPT-10', 'the machine has no jumps');
    if (!this.isIntact(part)) {
      return refuse('EEXIST', 'other-probe', 'X-3', 'another probe lies in the window');
    }
    this.carryOut(jump.optimize(part.window, part.slot), 'K-OPT-3', 'jump to the buffer of a probe');
    return null;
  }

  unoptimize(_address: Address, part: DetourPart): void {
    if (this.jump !== null) this.carryOut(this.jump.undo(part.window, part.slot), 'K-OPT-5', 'a jump is undone');
  }

  /** Handlers see the instruction pointer of a breakpoint trap. */
  detour(address: Address, regs: ProbeCpu, handlers: () => number): number {
    if (this.support.trapDelta !== 0 || regs.register('pc') !== address) {
      regs.setRegister('pc', address + BigInt(this.support.trapDelta));
    }
    return handlers();
  }

  /** The part of a probe that is queued, a jump, or fell back from one; the newest. */
  partOf(address: Address): DetourPart | null {
    return [...this.parts].findLast(({ window }) => window.address === address) ?? null;
  }

  /** The part whose buffer holds an address. */
  partAt(address: Address): DetourPart | null {
    for (const part of this.parts) {
      if (address >= part.slot && address < part.slot + BigInt(part.buffer.bytes.length)) return part;
    }
    return null;
  }
}
