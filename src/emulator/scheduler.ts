/**
 * Which thread runs, and for how long: one at a time, each for a slice of instructions, in turn, or
 * drawn from a seed. The same program with the same input, slices and seed is executed in the same
 * order, whatever budget it is run with. A thread that ends, waits or gives way ends its slice.
 *
 * When no thread can go on, time passes until one can; when none ever could, that is a deadlock.
 */
import type { Machine } from './machine.js';
import type { Signals } from './signals.js';
import type { StopReason } from './stops.js';
import type { Thread } from './thread.js';

/** How threads share the CPU. */
export interface Slices {
  /** Instructions of a slice, at least 1. Default 50,000. */
  readonly instructions?: number;
  /** Slices of random lengths up to that, and random turns, from this seed. Default: neither. */
  readonly seed?: number;
}

const SLICE = 50_000;

/** A process as the scheduler sees it. */
export interface Task {
  readonly machine: Machine;
  readonly signals: Signals;
  /** Makes the threads begin that a system call has made. */
  begin(): void;
  /** Called before the running thread gives way to another. */
  leave(): void;
}

/** Numbers from a seed. */
class Random {
  constructor(private state: number) {}

  /** A number from 0 to below `bound`. Source: Steele, Vigna: splitmix, 32 bits. */
  below(bound: number): number {
    this.state = (this.state + 0x9e37_79b9) | 0;
    let mixed = this.state ^ (this.state >>> 16);
    mixed = Math.imul(mixed, 0x21f0_aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a_2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) % bound;
  }

  save(): () => void {
    const { state } = this;
    return () => {
      this.state = state;
    };
  }
}

export class Scheduler {
  private readonly most: number;
  private readonly random: Random | null;
  /** Instructions of all threads at which the slice ends. */
  private sliceEnd = 0;

  constructor(
    private readonly task: Task,
    { instructions = SLICE, seed }: Slices,
  ) {
    this.most = Math.max(1, instructions);
    this.random = seed === undefined ? null : new Random(seed);
    this.sliceEnd = this.draw();
  }

  save(): () => void {
    const { sliceEnd } = this;
    const putRandomBack = this.random?.save();
    return () => {
      this.sliceEnd = sliceEnd;
      putRandomBack?.();
    };
  }

  /** Instructions of the next slice: of random magnitude, so that some are short. */
  private draw(): number {
    const { random, most } = this;
    if (!random) return most;
    const magnitude = random.below(Math.floor(Math.log2(most)) + 1) + 1;
    return Math.min(most, 1 + random.below(2 ** magnitude));
  }

  /** The running thread gives way. */
  giveWay(): void {
    this.sliceEnd = 0;
  }

  /**
   * Brings the process to where a thread can go on, and makes that the running one; a stop: none
   * can, or a signal ends the process.
   */
  prepare(): StopReason | null {
    const { task } = this;
    task.begin();
    for (;;) {
      task.signals.fire();
      const next = this.pick();
      if (next === null) {
        const stop = this.idle();
        if (stop) return stop;
        continue;
      }
      this.run(next);
      const stop = task.signals.resume();
      if (stop) return stop;
      if (next.waiting === null) return null;
    }
  }

  /**
   * Instructions until something must be looked at: a timer, a sleeper, the end of a slice; null:
   * never.
   */
  ticks(): bigint | null {
    const { signals, machine } = this.task;
    const { threads, thread } = signals;
    let least = signals.ticks();
    if (threads.length === 1) return least;
    const atMost = (ticks: bigint): void => {
      if (least === null || ticks < least) least = ticks < 0n ? 0n : ticks;
    };
    for (const { waiting } of threads) {
      if (waiting !== null && waiting.deadline !== null) atMost(waiting.deadline - machine.time);
    }
    if (threads.some((each) => each !== thread && signals.canGoOn(each))) {
      atMost(BigInt(this.sliceEnd - machine.totalInstructions));
    }
    return least;
  }

  /** The thread that runs next; null: none can. */
  private pick(): Thread | null {
    const { signals, machine } = this.task;
    const { threads, thread } = signals;
    const runs = !thread.isGone && !thread.lacksInput && signals.canGoOn(thread);
    if (runs && (threads.length === 1 || machine.totalInstructions < this.sliceEnd)) return thread;
    const at = threads.indexOf(thread);
    // In turn, the running one last. Those that lack input are asked again when others have run.
    const turn = [...threads.slice(at + 1), ...threads.slice(0, at + 1)];
    const ready = turn.filter((each) => !each.lacksInput && signals.canGoOn(each));
    if (ready.length === 0) return null;
    // Alone it needs no slice: who can go on later has its turn at once. Nothing is drawn either,
    // for runs of a smaller budget come here more often.
    const next = ready[this.random && ready.length > 1 ? this.random.below(ready.length) : 0]!;
    if (ready.length > 1 || next !== thread) this.sliceEnd = machine.totalInstructions + this.draw();
    for (const each of threads) if (each !== thread) each.lacksInput = false;
    return next;
  }

  private run(next: Thread): void {
    const { task } = this;
    const { signals, machine } = task;
    if (signals.thread === next) return;
    if (!signals.thread.isGone) task.leave();
    machine.loseReservation();
    machine.switchTo(next.cpu);
    signals.thread = next;
  }

  /** Lets time pass until something happens; a stop: nothing will. */
  private idle(): StopReason | null {
    const { signals, machine } = this.task;
    const { threads } = signals;
    let least = signals.ticks(true);
    for (const { waiting } of threads) {
      const deadline = waiting?.deadline ?? null;
      const left = deadline === null ? null : deadline - machine.time;
      if (left !== null && (least === null || left < least)) least = left;
    }
    if (least !== null) {
      if (least > 0n) machine.skipTime(least);
      return null;
    }
    const lacking = threads.find((each) => each.lacksInput);
    if (lacking) {
      this.run(lacking);
      for (const each of threads) each.lacksInput = false;
      return { kind: 'waiting', instruction: machine.pc };
    }
    this.run(threads[0]!);
    const places = threads.map(({ id, waiting }) => ({
      thread: id,
      instruction: waiting?.instruction ?? machine.pc,
    }));
    return { kind: 'deadlock', threads: places };
  }

  /** A system call of the running thread found no input; true: others go on meanwhile. */
  lacksInput(): boolean {
    const { threads, thread } = this.task.signals;
    if (threads.length === 1) return false;
    thread.lacksInput = true;
    return true;
  }
}
