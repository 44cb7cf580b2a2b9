/**
 * Kprobes with jump optimisation as they are today (K-OPT-1 to 9), as a state machine of
 * explicit events.
 *
 *   state            OPTIMIZED flag   list            text
 *   breakpoint       –                –               breakpoint
 *   queued           yes              optimizing      breakpoint
 *   optimised        yes              –               jump
 *   queued to undo   yes              unoptimizing    jump
 *   undone, unused   –                freeing         breakpoint, then original
 *
 * A fresh probe that can be optimised becomes the only child of an aggregator at once. Undoing is
 * lazy unless another probe needs the bytes now. Time is `tick`; that every task has been scheduled
 * of its own will is `quiescence`.
 */
import type { Address } from '../units.js';
import { type ProbeCpu, type ProbeRefusal, refuse } from '../machine/probes.js';
import {
  failed,
  FLAGS,
  isOff,
  type Kprobe,
  type KprobeFaults,
  type KprobeMachine,
  type KprobeResult,
  type OptimizedPart,
  type OwnSlot,
  type ProbeState,
} from './objects.js';
import { KprobeStates, type ProbedEntry, type StatesOptions } from './states.js';

export interface OptionsModern extends StatesOptions {
  /** Built in. */
  readonly optimization: boolean;
}

/** Ticks from queueing to the optimizer. */
const OPTIMIZE_DELAY = 5;

const { GONE, DISABLED, OPTIMIZED, FTRACE } = FLAGS;

type List = 'none' | 'optimizing' | 'unoptimizing' | 'freeing';

interface Entry<Part extends OptimizedPart> extends ProbedEntry<Part> {
  kind: 'probe' | 'aggregate';
  list: List;
  slot: OwnSlot | null;
  /** Keeps IPMODIFY for the ops of ftrace. */
  post: boolean;
}

/** The state machine of kprobes with jump optimisation as it is today (K-OPT-1 to 9). */
export class KprobesModern<Part extends OptimizedPart = OptimizedPart> extends KprobeStates<Part, Entry<Part>> {
  private optimizing: Entry<Part>[] = [];
  private unoptimizing: Entry<Part>[] = [];
  private freeing: Entry<Part>[] = [];
  /** Queued when the optimizer began to wait. */
  private waited: readonly Entry<Part>[] = [];
  private waiting = false;
  private allowed: boolean;

  constructor(
    machine: KprobeMachine<Part>,
    private readonly options: OptionsModern,
  ) {
    super(machine, options, OPTIMIZE_DELAY);
    this.allowed = options.optimization;
  }

  // ---------------------------------------------------------------------------------- registration

  register(probe: Kprobe): KprobeResult {
    if (probe.address !== null)
      return failed('EINVAL', refuse('EINVAL', 'registered-twice', 'K-ADDR-6', 'the probe is registered already'));
    const checked = this.machine.check(probe.asked);
    if (checked.kind === 'refused') return failed(checked.errno, checked);
    const { address, ftrace } = checked;
    probe.flags &= DISABLED;
    probe.nmissed = 0;
    const old = this.hash.get(address);
    return old ? this.join(old, probe, ftrace) : this.fresh(probe, address, ftrace);
  }

  private fresh(probe: Kprobe, address: Address, ftrace: boolean): KprobeResult {
    const slot = ftrace ? null : this.machine.prepareSlot(address);
    if (slot?.kind === 'refused') return failed(slot.errno, slot);
    const entry: Entry<Part> = {
      address,
      kind: 'probe',
      flags: (probe.flags & DISABLED) | (ftrace ? FTRACE : 0),
      probes: [probe],
      part: null,
      list: 'none',
      armed: false,
      slot,
      post: probe.handlers.post !== undefined,
    };
    if (ftrace) probe.flags |= FTRACE;
    this.hash.set(address, entry);
    probe.address = address;
    if (!this.allDisarmed && (probe.flags & DISABLED) === 0) {
      const errno = this.arm(entry);
      if (errno !== null) {
        this.hash.delete(address);
        probe.address = null;
        if (slot !== null) this.machine.releaseSlot(slot);
        return failed(errno);
      }
    }
    this.tryToOptimize(entry);
    return 'done';
  }

  /** K-OPT-1. */
  private tryToOptimize(entry: Entry<Part>): void {
    if ((entry.flags & FTRACE) !== 0 || !this.options.optimization) return;
    if (!this.prepare(entry)) return;
    entry.kind = 'aggregate';
    this.optimize(entry);
  }

  private prepare(entry: Entry<Part>): boolean {
    if (this.faults.allocate?.(entry.address) === false) return false;
    const prepared = this.machine.prepare(entry.address);
    if (prepared.kind === 'refused') {
      this.refused(entry.address, prepared);
      return false;
    }
    entry.part = prepared.part;
    return true;
  }

  private join(entry: Entry<Part>, probe: Kprobe, ftrace: boolean): KprobeResult {
    if (entry.kind === 'probe') {
      entry.kind = 'aggregate';
      // The aggregator is prepared for optimisation, for which its probes may be fit one day.
      if (entry.part === null && (entry.flags & (FTRACE | GONE)) === 0 && this.options.optimization)
        this.prepare(entry);
    } else if (entry.probes.length === 0) {
      // K-OPT-7: on its way out, revived.
      entry.flags &= ~DISABLED;
      if (entry.part === null) return failed('EINVAL');
      this.optimize(entry);
    }
    if ((entry.flags & GONE) !== 0) {
      // K-OPT-8: what is there now may be other text, with a site or without.
      const slot = ftrace ? null : this.machine.prepareSlot(entry.address);
      if (slot?.kind === 'refused') return failed(slot.errno, slot);
      entry.slot = slot;
      entry.flags = (entry.flags & ~(GONE | FTRACE)) | DISABLED | (ftrace ? FTRACE : 0);
      if (!ftrace && this.options.optimization) this.prepare(entry);
    }
    const { post } = probe.handlers;
    // K-OPT-6
    if (post) {
      this.unoptimize(entry, true);
      entry.post = true;
    }
    entry.probes.unshift(probe);
    probe.address = entry.address;
    if ((entry.flags & FTRACE) !== 0) probe.flags |= FTRACE;
    if ((entry.flags & DISABLED) !== 0 && (probe.flags & DISABLED) === 0) {
      entry.flags &= ~DISABLED;
      const errno = this.allDisarmed ? null : this.arm(entry);
      if (errno !== null) {
        entry.flags |= DISABLED;
        entry.probes = entry.probes.filter((each) => each !== probe);
        probe.address = null;
        return failed(errno);
      }
    }
    return 'done';
  }

  unregister(probe: Kprobe): KprobeResult {
    const entry = this.entryOf(probe);
    if (!entry) return failed('EINVAL');
    this.disableChild(entry, probe);
    const isLast = entry.probes.length === 1;
    // Neither optimised nor on a list: the worker will not look at it.
    if (
      isLast &&
      (entry.kind === 'probe' || (isOff(entry.flags) && entry.list === 'none' && (entry.flags & OPTIMIZED) === 0))
    ) {
      this.hash.delete(entry.address);
      probe.address = null;
      this.retired.push(entry);
      return 'done';
    }
    entry.probes = entry.probes.filter((each) => each !== probe);
    probe.address = null;
    if (probe.handlers.post && (probe.flags & GONE) === 0 && (entry.flags & FTRACE) === 0) {
      entry.post = entry.probes.some(({ handlers }) => handlers.post !== undefined);
    }
    // The last one with a post-handler may be gone.
    if (!isOff(entry.flags) && !this.allDisarmed) this.optimize(entry);
    return 'done';
  }

  // --------------------------------------------------------------------------- enabling, disabling

  disable(probe: Kprobe): KprobeResult {
    const entry = this.entryOf(probe);
    if (!entry) return failed('EINVAL');
    this.disableChild(entry, probe);
    return 'done';
  }

  /** K-OPT-9. */
  private disableChild(entry: Entry<Part>, probe: Kprobe): void {
    if (isOff(probe.flags)) return;
    probe.flags |= DISABLED;
    if (isOff(entry.flags) || entry.probes.some(({ flags }) => !isOff(flags))) return;
    if (!this.allDisarmed) this.disarm(entry, true);
    entry.flags |= DISABLED;
  }

  enable(probe: Kprobe): KprobeResult {
    const entry = this.entryOf(probe);
    if (!entry) return failed('EINVAL');
    if ((probe.flags & GONE) !== 0)
      return failed('EINVAL', refuse('EINVAL', 'gone', 'K-OPT-8', 'the text of the probe is gone'));
    const before = probe.flags;
    probe.flags &= ~DISABLED;
    if (this.allDisarmed || (entry.flags & DISABLED) === 0) {
      // With everything off the flag alone changes; arming everything looks at it.
      if (this.allDisarmed) entry.flags &= ~DISABLED;
      return 'done';
    }
    entry.flags &= ~DISABLED;
    const errno = this.arm(entry);
    if (errno === null) return 'done';
    entry.flags |= DISABLED;
    probe.flags = before;
    return failed(errno);
  }

  armAll(): KprobeResult {
    if (!this.allDisarmed) return 'done';
    this.allDisarmed = false;
    for (const entry of this.hash.values()) if (!isOff(entry.flags)) this.arm(entry);
    return 'done';
  }

  disarmAll(): KprobeResult {
    if (this.allDisarmed) return 'done';
    this.allDisarmed = true;
    for (const entry of this.hash.values()) if (!isOff(entry.flags)) this.disarm(entry, false);
    return 'done';
  }

  /** The switch of the system: no jumps from now on. */
  forbidOptimization(): void {
    if (!this.allowed) return;
    this.allowed = false;
    for (const entry of this.hash.values()) if (!isOff(entry.flags)) this.unoptimize(entry, false);
  }

  allowOptimization(): void {
    if (this.allowed || !this.options.optimization) return;
    this.allowed = true;
    for (const entry of this.hash.values()) if (!isOff(entry.flags)) this.optimize(entry);
  }

  /** K-OPT-8: a module's text was given back. */
  kill(start: Address, end: Address): void {
    for (const entry of this.hash.values()) {
      if (entry.address < start || entry.address >= end || (entry.flags & GONE) !== 0) continue;
      // The ops of ftrace is no text of the module, and its filter must not keep the address.
      if ((entry.flags & FTRACE) !== 0 && entry.armed) this.machine.disarmFtrace(entry.address);
      entry.flags |= GONE;
      for (const probe of entry.probes) probe.flags |= GONE;
      entry.post = false;
      const unused = entry.probes.length === 0;
      const undoing = entry.list === 'unoptimizing' || entry.list === 'freeing';
      this.take(entry);
      entry.flags &= ~OPTIMIZED;
      if (unused && undoing) this.put(entry, 'freeing');
      if (entry.part !== null) this.machine.remove(entry.part);
      entry.part = null;
      if (entry.slot !== null) this.machine.releaseSlot(entry.slot);
      entry.slot = null;
      entry.armed = false;
    }
  }

  // ------------------------------------------------------------------------------------------ text

  /** K-OPT-4. Null: done. */
  private arm(entry: Entry<Part>): ReturnType<NonNullable<KprobeFaults['arm']>> {
    const errno = this.faults.arm?.(entry.address) ?? null;
    if (errno !== null) return errno;
    if ((entry.flags & FTRACE) !== 0) {
      this.machine.armFtrace(entry.address, entry.post);
    } else {
      const blocked = this.covering(entry.address);
      if (blocked) this.unoptimize(blocked, true);
      if (entry.part === null || !this.machine.hasJump(entry.address, entry.part)) this.machine.arm(entry.address);
    }
    entry.armed = true;
    this.emit('armed', entry.address);
    if (entry.kind === 'aggregate') this.optimize(entry);
    return null;
  }

  /** A probe below whose window holds the address, prepared and not disarmed. */
  private covering(address: Address): Entry<Part> | null {
    for (let i = 1n; i < BigInt(this.machine.maxOptimizedBytes); i++) {
      const entry = this.hash.get(address - i);
      if (!entry?.part) continue;
      const disarmed = isOff(entry.flags) && entry.list === 'none';
      if (!disarmed && this.machine.covers(entry.part, entry.address, address)) return entry;
    }
    return null;
  }

  private disarm(entry: Entry<Part>, reoptimize: boolean): void {
    if ((entry.flags & FTRACE) !== 0) {
      this.machine.disarmFtrace(entry.address);
      entry.armed = false;
      this.emit('disarmed', entry.address);
      return;
    }
    this.unoptimize(entry, this.allDisarmed);
    // The optimizer takes the breakpoint away behind the jump.
    if (entry.list !== 'none') return;
    this.restore(entry);
    if (!reoptimize) return;
    // A look-up from now on finds it disarmed.
    entry.flags |= DISABLED;
    const blocked = this.covering(entry.address);
    if (blocked) this.optimize(blocked);
  }

  private restore(entry: Entry<Part>): void {
    this.machine.disarm(entry.address);
    entry.armed = false;
    this.emit('disarmed', entry.address);
  }

  // ---------------------------------------------------------------------------------------- queues

  private put(entry: Entry<Part>, list: Exclude<List, 'none'>): void {
    this.take(entry);
    entry.list = list;
    this[list].push(entry);
  }

  private take(entry: Entry<Part>): void {
    if (entry.list !== 'none') this[entry.list] = this[entry.list].filter((each) => each !== entry);
    entry.list = 'none';
  }

  /** K-OPT-2. */
  private optimize(entry: Entry<Part>): void {
    if (this.whyNot(entry) !== null) return;
    if ((entry.flags & OPTIMIZED) !== 0) {
      if (entry.list === 'unoptimizing') {
        this.take(entry);
        this.emit('dequeued', entry.address);
      }
      return;
    }
    entry.flags |= OPTIMIZED;
    this.put(entry, 'optimizing');
    this.emit('queued', entry.address);
    this.schedule();
  }

  /** Why a probe stays a breakpoint; null: it may be optimised. */
  private whyNot(entry: Entry<Part>): ProbeRefusal | null {
    const { address } = entry;
    if (entry.kind !== 'aggregate' || entry.part === null) {
      return refuse('EINVAL', 'no-optimization', 'K-OPT-2', 'no buffer was prepared');
    }
    if (!this.allowed) return refuse('ENOSYS', 'optimization-off', 'K-OPT-2', 'optimisation is switched off');
    if (isOff(entry.flags) || this.allDisarmed) {
      return refuse('EINVAL', 'disabled', 'K-OPT-2', 'the probe is not armed');
    }
    if (entry.post) return refuse('EINVAL', 'post-handler', 'K-OPT-2', 'a probe has a post-handler');
    const length = BigInt(entry.part.length);
    for (let i = 1n; i < length; i++) {
      const other = this.hash.get(address + i);
      if (other && !(isOff(other.flags) && other.list === 'none')) {
        return refuse('EEXIST', 'other-probe', 'K-OPT-2', 'another probe is inside the window');
      }
    }
    return null;
  }

  /** K-OPT-5. */
  private unoptimize(entry: Entry<Part>, force: boolean): void {
    if ((entry.flags & OPTIMIZED) === 0 || entry.part === null) return;
    switch (entry.list) {
      case 'optimizing':
        this.take(entry);
        entry.flags &= ~OPTIMIZED;
        this.emit('dequeued', entry.address);
        return;
      case 'unoptimizing':
        if (!force) return;
        this.rewrite(entry);
        this.put(entry, 'freeing');
        this.schedule();
        return;
      case 'freeing':
        return;
      case 'none':
        if (force) this.rewrite(entry);
        else {
          this.put(entry, 'unoptimizing');
          this.emit('undo-queued', entry.address);
          this.schedule();
        }
        return;
      default:
        entry.list satisfies never;
    }
  }

  private rewrite(entry: Entry<Part>): void {
    if (entry.part !== null && this.machine.hasJump(entry.address, entry.part)) {
      this.machine.unoptimize(entry.address, entry.part);
      this.emit('unoptimized', entry.address);
    }
    entry.flags &= ~OPTIMIZED;
  }

  // ------------------------------------------------------------------------------------- optimizer

  protected get isOptimizing(): boolean {
    return this.waiting;
  }

  /** K-OPT-3: undo, then wait. */
  protected begin(): void {
    this.undoQueued();
    this.waiting = true;
    this.waited = [...this.optimizing];
  }

  /** K-OPT-3, step 1. */
  private undoQueued(): void {
    for (const entry of [...this.unoptimizing]) {
      this.rewrite(entry);
      this.put(entry, 'freeing');
    }
    for (const entry of [...this.freeing]) {
      entry.flags &= ~OPTIMIZED;
      if ((entry.flags & DISABLED) !== 0 && (entry.flags & GONE) === 0 && entry.armed) this.restore(entry);
      // Unused ones leave the hash now and are freed behind the grace period.
      if (entry.probes.length > 0) this.take(entry);
      else if (this.hash.get(entry.address) === entry) this.hash.delete(entry.address);
    }
  }

  /** Every task has been scheduled: steps 2 to 5. */
  quiescence(): void {
    const retired = this.retired;
    this.retired = [];
    for (const entry of retired) this.free(entry);
    if (!this.waiting) return;
    this.waiting = false;
    this.emit('optimizer-walks', 0n);
    if (!this.allDisarmed && this.allowed) {
      // Who came during the wait has not waited.
      for (const entry of this.waited) {
        if (entry.list !== 'optimizing' || (entry.flags & DISABLED) !== 0) continue;
        this.machine.optimize(entry.address, entry.part!);
        this.take(entry);
        this.emit('optimized', entry.address);
      }
    }
    for (const entry of this.freeing.filter((each) => this.hash.get(each.address) !== each)) {
      this.take(entry);
      this.free(entry);
    }
    this.emit('optimizer-done', 0n);
    if (this.optimizing.length > 0 || this.unoptimizing.length > 0) this.schedule();
  }

  private free(entry: Entry<Part>): void {
    if (entry.part !== null) this.machine.remove(entry.part);
    entry.part = null;
    if (entry.slot !== null) this.machine.releaseSlot(entry.slot);
    entry.slot = null;
    this.emit('freed', entry.address);
  }

  // ------------------------------------------------------------------------------------------ hits

  protected served(entry: Entry<Part>, regs: ProbeCpu): number | 'resume-in-buffer' {
    const result = this.pre(entry, regs, false);
    // queued, or caught in the middle of a change: the copies in the buffer are as good as the
    // slot.
    return result === 0 && (entry.flags & OPTIMIZED) !== 0 && entry.part !== null ? 'resume-in-buffer' : result;
  }

  /** The optimised path has its own walker: results are ignored (T-KP-6). */
  protected inBuffer(entry: Entry<Part>, regs: ProbeCpu): number {
    return this.pre(entry, regs, true);
  }

  protected isSilent(entry: Entry<Part>): boolean {
    return isOff(entry.flags);
  }

  private pre(entry: Entry<Part>, regs: ProbeCpu, all: boolean): number {
    return this.handle(entry, (probe) => probe.handlers.pre?.(probe, regs) ?? 0, all);
  }

  // --------------------------------------------------------------------------------------- listing

  isOptimized(address: Address): boolean {
    return ((this.hash.get(address)?.flags ?? 0) & OPTIMIZED) !== 0;
  }

  wantsPost(address: Address): boolean {
    return this.hash.get(address)?.post ?? false;
  }

  /** Why the probe at an address is no jump; null: it is one or will be, or no probe is there. */
  reason(address: Address): ProbeRefusal | null {
    const entry = this.hash.get(address);
    return entry ? this.whyNot(entry) : null;
  }

  protected describe(entry: Entry<Part>): Pick<ProbeState, 'kind' | 'list'> {
    return { kind: entry.kind === 'aggregate' && entry.part !== null ? 'optimized' : entry.kind, list: entry.list };
  }

  protected override textOf(entry: Entry<Part>): ProbeState['text'] {
    if ((entry.flags & FTRACE) === 0) return super.textOf(entry);
    return entry.armed ? 'ftrace' : 'original';
  }
}
