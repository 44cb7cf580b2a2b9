/**
 * Kprobes with the jump optimisation of 2009 (T-1 to T-10), as a state machine of explicit
 * events.
 *
 *   register ── fresh address ──> ARMED ──OPTIMIZE wanted, machine agrees──> QUEUED
 *   QUEUED ──optimizer, machine writes──> OPTIMIZED        QUEUED ──machine refuses──> stays QUEUED
 *   QUEUED ──undo──> ARMED                                  OPTIMIZED ──undo──> ARMED, for ever
 *   ARMED ──last probe unregistered──> gone
 *
 * Time is `tick`; that every CPU has been scheduled is `quiescence`; the optimizer's work can be
 * taken apart into the stores and the list operations (`quiescence({ stepwise })`, `step`), because
 * other operations may fall between them.
 *
 * Five gaps of that patch corrupt text (T-KP-35 to 38, 43). They are closed here; `literal` opens
 * them again, so that their effect can be seen on a machine that runs. A file is never given to it.
 */
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';
import { type ProbeCpu, type ProbeRefusal, refuse } from '../machine/probes.js';
import {
  failed,
  FLAGS_2009,
  isOff,
  type Kprobe,
  type KprobeMachine,
  type KprobeResult,
  type OptimizedPart,
  type OwnSlot,
  type ProbeState,
} from './objects.js';
import { KprobeStates, type ProbedEntry, type StatesOptions } from './states.js';

export interface Options2009 extends StatesOptions {
  /** Built in, and the kernel is not preemptible (T-10). */
  readonly optimization: boolean;
  /** T-KP-20. `as-written`: the found probe's own address is asked about. Default. */
  readonly lookup?: 'as-written' | 'covering';
  /** Opens the gaps of T-KP-35 to 38 and 43. Not for files. */
  readonly literal?: boolean;
  /**
   * T-KP-41: what comes first when an optimised object takes the place of a probe. `member`: the
   * probe is in the object's list before the object is in the table, so a look-up finds one of
   * them. Default. `table`: the other way round, for tests; not for files.
   */
  readonly publish?: 'member' | 'table';
}

/** Ticks from queueing to the optimizer. */
const OPTIMIZE_DELAY_2009 = 10;

const { GONE, DISABLED, OPTIMIZE } = FLAGS_2009;

/**
 * What the hash holds for an address; the newest probe first, the one with a break handler last.
 */
interface Entry<Part extends OptimizedPart> extends ProbedEntry<Part> {
  /**
   * `optimized` from the moment of queueing, and after a fall back too: its pre-handler is the
   * detour (T-KP-7).
   */
  kind: 'probe' | 'aggregate' | 'optimized';
  slot: OwnSlot;
  /**
   * The jump is being replaced by the breakpoint: until every processor has seen that, some bytes
   * of it may still be executed.
   */
  undoing: boolean;
  freed: boolean;
}

interface Walk<Part extends OptimizedPart> {
  readonly left: Entry<Part>[];
  /** A jump was written and its entry not dequeued yet. */
  written: Entry<Part> | null;
}

/** The state machine of kprobes with the jump optimisation of 2009 (T-1 to T-10). */
export class Kprobes2009<Part extends OptimizedPart = OptimizedPart> extends KprobeStates<Part, Entry<Part>> {
  /** Head first. */
  private queue: Entry<Part>[] = [];
  private waiting = false;
  private walk: Walk<Part> | null = null;
  private deferred: (() => void)[] = [];
  private readonly literal: boolean;
  private readonly lookup: 'as-written' | 'covering';

  /** @throws ElftraceError 'usage' for `literal` on a file */
  constructor(
    machine: KprobeMachine<Part>,
    private readonly options: Options2009,
  ) {
    super(machine, options, OPTIMIZE_DELAY_2009);
    this.literal = options.literal ?? false;
    this.lookup = options.lookup ?? 'as-written';
    if ((this.literal || options.publish === 'table') && machine.isFile) {
      throw new ElftraceError('usage', 'the gaps of 2009 that corrupt text are for running machines only');
    }
  }

  // ---------------------------------------------------------------------------------- registration

  /** T-1 to T-4, T-6. */
  register(probe: Kprobe): KprobeResult {
    if (probe.address !== null) return failed('EINVAL', twice());
    const checked = this.machine.check(probe.asked);
    if (checked.kind === 'refused') return failed(checked.errno, checked);
    if (checked.ftrace) {
      return failed(
        'EINVAL',
        refuse('EINVAL', 'no-ftrace-support', 'K-ADDR-7', 'kprobes of 2009 know no ftrace sites'),
      );
    }
    const { address } = checked;
    const neighbour = this.collision(address);
    // T-KP-22: outside the registration lock, before anything else can fail.
    if (neighbour !== null && neighbour.address !== address) {
      if (this.isBlocked) {
        this.deferred.push(() => {
          this.register(probe);
        });
        return 'waiting';
      }
      this.undo(neighbour);
    }
    probe.flags &= DISABLED | OPTIMIZE;
    probe.nmissed = 0;
    const old = this.hash.get(address);
    return old ? this.join(old, probe) : this.fresh(probe, address);
  }

  /** T-1: an optimised object whose range may hold the address. */
  private collision(address: Address): Entry<Part> | null {
    if (!this.options.optimization) return null;
    for (let i = 0n; i < BigInt(this.machine.maxOptimizedBytes); i++) {
      const entry = this.hash.get(address - i);
      if (entry?.kind !== 'optimized' || entry.part === null) continue;
      const asked = this.lookup === 'as-written' ? address - i : address;
      if (this.machine.covers(entry.part, entry.address, asked)) return entry;
    }
    return null;
  }

  /** Whether the queue's lock is held by the optimizer, for those who take it. */
  private get isBlocked(): boolean {
    return !this.literal && this.isOptimizing;
  }

  private fresh(probe: Kprobe, address: Address): KprobeResult {
    const slot = this.machine.prepareSlot(address);
    if (slot.kind === 'refused') return failed(slot.errno, slot);
    const entry: Entry<Part> = {
      address,
      kind: 'probe',
      flags: probe.flags,
      probes: [probe],
      part: null,
      slot,
      armed: false,
      undoing: false,
      freed: false,
    };
    this.hash.set(address, entry);
    probe.address = address;
    if (!this.allDisarmed && (probe.flags & DISABLED) === 0) this.arm(entry);
    // T-KP-23: after arming, under the same lock; T-KP-25: armed or not.
    const refusal = (probe.flags & OPTIMIZE) === 0 ? null : this.optimize(entry, probe);
    if (refusal !== null) {
      probe.flags &= ~OPTIMIZE;
      this.refused(address, refusal);
    }
    return 'done';
  }

  /** T-4. */
  private optimize(entry: Entry<Part>, probe: Kprobe): ProbeRefusal | null {
    const { address } = entry;
    if (!this.options.optimization) {
      return refuse('ENOSYS', 'no-optimization', 'T-10', 'jumps are not built in, or the kernel is preemptible');
    }
    if (probe.handlers.breakpoint) return refuse('EINVAL', 'break-handler', 'T-4', 'the probe has a break handler');
    if (probe.handlers.post) return refuse('EINVAL', 'post-handler', 'T-4', 'the probe has a post handler');
    if (this.faults.allocate?.(address) === false) {
      return refuse('ENOMEM', 'no-memory', 'T-4', 'no memory for the optimised object');
    }
    const prepared = this.machine.prepare(address);
    if (prepared.kind === 'refused') return prepared;
    const object = this.replaceBy(entry, prepared.part);
    const enqueue = (): void => {
      if (object.freed) return;
      // T-KP-34: to the head.
      this.queue.unshift(object);
      this.emit('queued', address);
      this.schedule();
    };
    // T-KP-12: not while the optimizer holds the lock.
    if (this.isOptimizing) this.deferred.push(enqueue);
    else enqueue();
    return null;
  }

  /**
   * T-KP-18: an object takes the place of the probe in the hash, with its flags. Hits come between
   * the two stores as well (T-KP-41).
   */
  private replaceBy(entry: Entry<Part>, part: Part): Entry<Part> {
    const { address } = entry;
    const object: Entry<Part> = { ...entry, kind: 'optimized', part, probes: [] };
    const stores = [
      () => {
        object.probes = [...entry.probes];
        this.emit('adopted', address);
      },
      () => {
        this.hash.set(address, object);
        this.emit('replaced', address);
      },
    ];
    if (this.options.publish === 'table') stores.reverse();
    for (const each of stores) each();
    return object;
  }

  /** T-2, T-6, T-KP-40. */
  private join(entry: Entry<Part>, probe: Kprobe): KprobeResult {
    const { post, breakpoint } = probe.handlers;
    if (entry.kind === 'optimized' && (post || breakpoint)) {
      // T-KP-39: it stays so after the jump was undone.
      return failed(
        'EEXIST',
        refuse('EEXIST', post ? 'post-handler' : 'break-handler', 'T-6', 'an optimised probe is there'),
      );
    }
    if (breakpoint && entry.probes.some(({ handlers }) => handlers.breakpoint)) {
      return failed('EEXIST', refuse('EEXIST', 'break-handler', 'T-6', 'a probe with a break handler is there'));
    }
    if ((entry.flags & GONE) !== 0) {
      // K-OPT-8, as it was then too: other text lies there now. The object keeps its kind and has
      // no jump any more.
      const slot = this.machine.prepareSlot(entry.address);
      if (slot.kind === 'refused') return failed(slot.errno, slot);
      entry.slot = slot;
      entry.flags = (entry.flags & ~GONE) | DISABLED;
    }
    if (entry.kind === 'probe') entry.kind = 'aggregate';
    if (breakpoint) entry.probes.push(probe);
    else entry.probes.unshift(probe);
    probe.address = entry.address;
    if ((entry.flags & DISABLED) !== 0 && (probe.flags & DISABLED) === 0) this.enableEntry(entry);
    return 'done';
  }

  /** T-8. */
  unregister(probe: Kprobe): KprobeResult {
    const entry = probe.address === null ? undefined : this.hash.get(probe.address);
    if (!entry?.probes.includes(probe)) return failed('EINVAL');
    if (entry.probes.length > 1) {
      entry.probes = entry.probes.filter((each) => each !== probe);
      probe.address = null;
      // Disabled when all that are left are.
      if (entry.probes.every(({ flags }) => isOff(flags)) && (entry.flags & DISABLED) === 0) this.disableEntry(entry);
      return 'done';
    }
    if (entry.kind === 'optimized' && this.isBlocked) {
      this.deferred.push(() => {
        this.unregister(probe);
      });
      return 'waiting';
    }
    const gone = (entry.flags & GONE) !== 0;
    const live = !this.allDisarmed && (entry.flags & DISABLED) === 0 && !gone;
    // T-KP-37: the patch undoes and dequeues only what is armed.
    if (entry.kind === 'optimized' && !gone && (live || !this.literal)) this.undo(entry);
    if (live || (entry.armed && !this.literal)) this.disarm(entry);
    this.hash.delete(entry.address);
    probe.address = null;
    this.retired.push(entry);
    return 'done';
  }

  // ------------------------------------------------------------------------------------------ text

  private arm(entry: Entry<Part>): void {
    this.machine.arm(entry.address);
    entry.armed = true;
    this.emit('armed', entry.address);
  }

  private disarm(entry: Entry<Part>): void {
    this.machine.disarm(entry.address);
    entry.armed = false;
    this.emit('disarmed', entry.address);
  }

  /** T-7. */
  private undo(entry: Entry<Part>): void {
    if (this.queue.includes(entry)) {
      this.queue = this.queue.filter((each) => each !== entry);
      this.emit('dequeued', entry.address);
      return;
    }
    if (entry.part === null) return;
    // T-KP-36: being on no list does not prove that a jump is there.
    if (!this.literal && !this.machine.hasJump(entry.address, entry.part)) return;
    entry.undoing = true;
    this.machine.unoptimize(entry.address, entry.part);
    entry.undoing = false;
    this.emit('unoptimized', entry.address);
  }

  // --------------------------------------------------------------------------- enabling, disabling

  disable(probe: Kprobe): KprobeResult {
    const entry = this.entryOf(probe);
    if (!entry) return failed('EINVAL');
    if (entry.kind === 'optimized' && this.isBlocked) {
      this.deferred.push(() => {
        this.disable(probe);
      });
      return 'waiting';
    }
    probe.flags |= DISABLED;
    if (entry.probes.every(({ flags }) => isOff(flags))) this.disableEntry(entry);
    return 'done';
  }

  private disableEntry(entry: Entry<Part>): void {
    if ((entry.flags & DISABLED) !== 0) return;
    entry.flags |= DISABLED;
    if (!this.allDisarmed && (entry.flags & GONE) === 0) this.takeOff(entry);
  }

  enable(probe: Kprobe): KprobeResult {
    const entry = this.entryOf(probe);
    if (!entry) return failed('EINVAL');
    if ((probe.flags & GONE) !== 0) return failed('EINVAL', refuse('EINVAL', 'gone', 'T-8', 'the text is gone'));
    probe.flags &= ~DISABLED;
    this.enableEntry(entry);
    return 'done';
  }

  private enableEntry(entry: Entry<Part>): void {
    if ((entry.flags & DISABLED) === 0) return;
    entry.flags &= ~DISABLED;
    if (!this.allDisarmed) this.putOn(entry);
  }

  /**
   * T-KP-38: the patch writes the original's first byte whatever stands there. A queued object
   * stays queued.
   */
  private takeOff(entry: Entry<Part>): void {
    if (!this.literal && entry.kind === 'optimized' && !this.queue.includes(entry)) this.undo(entry);
    if (entry.armed || this.literal) this.disarm(entry);
  }

  private putOn(entry: Entry<Part>): void {
    this.arm(entry);
    // T-KP-25: what waited for this gets its jump with the next run.
    if (!this.literal && this.queue.includes(entry)) this.schedule();
  }

  /** A module's text was given back: nothing is written any more. */
  kill(start: Address, end: Address): void {
    for (const entry of this.hash.values()) {
      if (entry.address < start || entry.address >= end || (entry.flags & GONE) !== 0) continue;
      entry.flags |= GONE;
      if (this.literal && entry.kind === 'optimized') {
        // T-KP-43: the patch knows its own kind of object not here: members, jump and queue stay as
        // they are.
        this.machine.releaseSlot(entry.slot);
        continue;
      }
      for (const probe of entry.probes) probe.flags |= GONE;
      this.queue = this.queue.filter((each) => each !== entry);
      if (entry.part !== null) this.machine.remove(entry.part);
      entry.part = null;
      this.machine.releaseSlot(entry.slot);
      entry.armed = false;
    }
  }

  /** The global switch. */
  armAll(): KprobeResult {
    if (!this.allDisarmed) return 'done';
    this.allDisarmed = false;
    for (const entry of this.hash.values()) if ((entry.flags & (DISABLED | GONE)) === 0) this.putOn(entry);
    return 'done';
  }

  disarmAll(): KprobeResult {
    if (this.allDisarmed) return 'done';
    if (this.isBlocked && [...this.hash.values()].some(({ kind }) => kind === 'optimized')) {
      this.deferred.push(() => {
        this.disarmAll();
      });
      return 'waiting';
    }
    this.allDisarmed = true;
    for (const entry of this.hash.values()) if ((entry.flags & (DISABLED | GONE)) === 0) this.takeOff(entry);
    return 'done';
  }

  // ------------------------------------------------------------------------------------- optimizer

  protected get isOptimizing(): boolean {
    return this.waiting || this.walk !== null;
  }

  /** It takes the lock and waits. */
  protected begin(): void {
    this.waiting = true;
  }

  /** Every CPU has been scheduled: waits are over. */
  quiescence(options: { readonly stepwise?: boolean } = {}): void {
    const retired = this.retired;
    this.retired = [];
    for (const entry of retired) this.free(entry);
    if (!this.waiting) return;
    this.waiting = false;
    this.walk = { left: [...this.queue], written: null };
    this.emit('optimizer-walks', 0n);
    if (!options.stepwise) while (this.step()) continue;
  }

  /** The next action of the optimizer: a jump, or its entry off the queue. False: it is done. */
  step(): boolean {
    const { walk } = this;
    if (walk === null) return false;
    if (walk.written !== null) {
      const entry = walk.written;
      walk.written = null;
      if (this.queue.includes(entry)) {
        this.queue = this.queue.filter((each) => each !== entry);
        this.emit('dequeued', entry.address);
      }
      return true;
    }
    for (let entry = walk.left.shift(); entry !== undefined; entry = walk.left.shift()) {
      if (!this.queue.includes(entry)) continue;
      if (entry.freed) {
        // T-KP-37, literally: the worker touches what was given back.
        this.emit('use-after-free', entry.address);
        this.queue = this.queue.filter((each) => each !== entry);
        return true;
      }
      // T-KP-25: no jump until the probe is enabled.
      const off = this.allDisarmed || (entry.flags & DISABLED) !== 0;
      if (off && !this.literal) continue;
      const part = entry.part!;
      const refusal = this.faults.optimize?.(entry.address) ?? this.machine.optimize(entry.address, part);
      if (refusal) {
        // T-KP-13: it stays queued, and the optimizer is not scheduled for it.
        this.refused(entry.address, refusal);
        this.emit('optimize-refused', entry.address);
        return true;
      }
      this.emit('optimized', entry.address);
      walk.written = entry;
      return true;
    }
    this.walk = null;
    this.emit('optimizer-done', 0n);
    const { deferred } = this;
    this.deferred = [];
    for (const each of deferred) each();
    return false;
  }

  private free(entry: Entry<Part>): void {
    entry.freed = true;
    if (entry.part !== null) this.machine.remove(entry.part);
    // T-KP-28: of an optimised object this is part of the same clean-up.
    if ((entry.flags & GONE) === 0) this.machine.releaseSlot(entry.slot);
    this.emit('freed', entry.address);
  }

  // ------------------------------------------------------------------------------------------ hits

  protected served(entry: Entry<Part>, regs: ProbeCpu): number | 'resume-in-buffer' {
    const { address } = entry;
    if (entry.kind !== 'optimized') return this.pre(entry, regs);
    // T-KP-33: the pre-handler of such an object, also of one that is queued or has fallen back, is
    // the detour.
    const result = this.machine.detour(address, regs, () => this.pre(entry, regs));
    if (result !== 0 || entry.part === null) return result;
    // Who came back into a window that changes, or is about to, would not have been waited for.
    const changes = entry.undoing || this.queue.includes(entry) || this.machine.hasJump(address, entry.part);
    return changes && this.machine.mayResume(address, entry.part) ? 'resume-in-buffer' : 0;
  }

  protected inBuffer(entry: Entry<Part>, regs: ProbeCpu): number {
    return this.pre(entry, regs);
  }

  protected isSilent(): boolean {
    return false;
  }

  /** T-KP-6, in order up to the first nonzero result. */
  private pre(entry: Entry<Part>, regs: ProbeCpu): number {
    return this.handle(entry, (probe) => probe.handlers.pre?.(probe, regs) ?? 0);
  }

  /**
   * A handler faulted: of an aggregate, optimised or not, the handler's own probe is asked
   * (T-KP-30). Nonzero: it has been dealt with.
   */
  fault(regs: ProbeCpu): number {
    const probe = this.running;
    return probe?.handlers.fault?.(probe, regs) ?? 0;
  }

  // --------------------------------------------------------------------------------------- listing

  /** T-KP-7: the probes at the address count as optimised. */
  isOptimized(address: Address): boolean {
    return this.hash.get(address)?.kind === 'optimized';
  }

  /** A probe at the address wants its post-handler called. */
  wantsPost(address: Address): boolean {
    return this.hash.get(address)?.probes.some(({ handlers }) => handlers.post !== undefined) ?? false;
  }

  protected describe(entry: Entry<Part>): Pick<ProbeState, 'kind' | 'list'> {
    return { kind: entry.kind, list: this.queue.includes(entry) ? 'optimizing' : 'none' };
  }
}

const twice = (): ProbeRefusal => refuse('EINVAL', 'registered-twice', 'K-ADDR-6', 'the probe is registered already');
