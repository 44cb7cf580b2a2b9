/**
 * What the state machines of 2009 and today have in common: the hash of probed addresses, time,
 * handlers that run and hits that are missed meanwhile, listings. Owns no rule in which they
 * differ: those are in state-2009.ts and state-modern.ts.
 */
import type { Address } from '../units.js';
import type { ProbeCpu, ProbeRefusal } from '../machine/probes.js';
import {
  FLAGS,
  isOff,
  type Kprobe,
  type KprobeEvent,
  type KprobeFaults,
  type KprobeMachine,
  type OptimizedPart,
  type ProbeState,
} from './objects.js';

export interface StatesOptions {
  readonly faults?: KprobeFaults;
  readonly onEvent?: (event: KprobeEvent) => void;
  /** Why a probe that was to be optimised is not. */
  readonly onRefusal?: (address: Address, refusal: ProbeRefusal) => void;
}

/** What the hash holds for an address. */
export interface ProbedEntry<Part extends OptimizedPart> {
  readonly address: Address;
  flags: number;
  /** In the order in which handlers run. */
  probes: Kprobe[];
  /** A buffer exists. */
  part: Part | null;
  /** The breakpoint, or the ops of ftrace, is there; under a jump too. */
  armed: boolean;
}

export abstract class KprobeStates<Part extends OptimizedPart, Entry extends ProbedEntry<Part>> {
  protected readonly hash = new Map<Address, Entry>();
  /** Unlinked, to be freed after the grace period. */
  protected retired: Entry[] = [];
  protected allDisarmed = false;
  protected readonly faults: KprobeFaults;
  /** Whose handler runs: a hit is missed. */
  protected running: Kprobe | null = null;
  private now = 0;
  private due: number | null = null;

  /** @param delay  ticks from queueing to the optimizer */
  protected constructor(
    protected readonly machine: KprobeMachine<Part>,
    private readonly listeners: StatesOptions,
    private readonly delay: number,
  ) {
    this.faults = listeners.faults ?? {};
  }

  protected emit(what: KprobeEvent['what'], address: Address): void {
    this.listeners.onEvent?.({ what, address });
  }

  protected refused(address: Address, refusal: ProbeRefusal): void {
    this.listeners.onRefusal?.(address, refusal);
  }

  /** The entry of a registered probe. */
  protected entryOf(probe: Kprobe): Entry | null {
    const entry = probe.address === null ? undefined : this.hash.get(probe.address);
    return entry?.probes.includes(probe) ? entry : null;
  }

  // ------------------------------------------------------------------------------------------ time

  /** T-KP-14: a run that is due serves all who are queued until then. */
  protected schedule(): void {
    if (this.due !== null) return;
    this.due = this.now + this.delay;
    this.emit('scheduled', 0n);
  }

  /** Time passes. The optimizer begins when it is due, and waits. */
  tick(count = 1): void {
    for (let i = 0; i < count; i++) {
      this.now++;
      if (this.due === null || this.now < this.due || this.isOptimizing) continue;
      this.due = null;
      this.begin();
      this.emit('optimizer-waits', 0n);
    }
  }

  /** The optimizer is at work. */
  protected abstract get isOptimizing(): boolean;
  protected abstract begin(): void;

  // ------------------------------------------------------------------------------------------ hits

  /**
   * A breakpoint was hit.
   * @returns null: no probe of ours is there; `resume-in-buffer`: the copies in the buffer stand
   *   for the instruction; nonzero: a handler took over;
   *          0: the instruction is executed
   */
  hit(address: Address, regs: ProbeCpu): number | 'resume-in-buffer' | null {
    const entry = this.hash.get(address);
    // Of text that is gone it is not known what a breakpoint stands for.
    if (!entry || (entry.flags & FLAGS.GONE) !== 0) return null;
    if (this.running === null) return this.served(entry, regs);
    this.miss(entry);
    return 0;
  }

  protected abstract served(entry: Entry, regs: ProbeCpu): number | 'resume-in-buffer';

  /** A detour buffer was entered. */
  detour(address: Address, regs: ProbeCpu): void {
    const entry = this.hash.get(address);
    if (!entry || this.isSilent(entry)) return;
    if (this.running !== null) this.miss(entry);
    else this.machine.detour(address, regs, () => this.inBuffer(entry, regs));
  }

  /** Handlers of a buffer: whether all run, whatever one of them says (T-KP-6). */
  protected abstract inBuffer(entry: Entry, regs: ProbeCpu): number;
  protected abstract isSilent(entry: Entry): boolean;

  /**
   * Handlers of those who are enabled, up to the first result that is not 0; with `all` the results
   * do not matter.
   */
  protected handle(entry: Entry, call: (probe: Kprobe) => number, all = false): number {
    try {
      for (const probe of entry.probes) {
        if (isOff(probe.flags)) continue;
        this.running = probe;
        const result = call(probe);
        if (!all && result !== 0) return result;
      }
      return 0;
    } finally {
      this.running = null;
    }
  }

  /** After the instruction. */
  post(address: Address, regs: ProbeCpu): void {
    const entry = this.hash.get(address);
    if (!entry || this.running !== null) return;
    this.handle(entry, (probe) => {
      probe.handlers.post?.(probe, regs);
      return 0;
    });
  }

  /** T-9: every probe at the address has missed it. */
  private miss(entry: Entry): void {
    for (const probe of entry.probes) probe.nmissed++;
  }

  // --------------------------------------------------------------------------------------- listing

  states(): readonly ProbeState[] {
    return [...this.hash.values()]
      .sort((a, b) => (a.address < b.address ? -1 : 1))
      .map((entry) => ({
        address: entry.address,
        text: this.textOf(entry),
        flags: entry.flags,
        probes: [...entry.probes],
        part: entry.part,
        ...this.describe(entry),
      }));
  }

  protected abstract describe(entry: Entry): Pick<ProbeState, 'kind' | 'list'>;

  protected textOf({ address, part, armed }: Entry): ProbeState['text'] {
    if (part !== null && this.machine.hasJump(address, part)) return 'jump';
    return armed ? 'breakpoint' : 'original';
  }
}
