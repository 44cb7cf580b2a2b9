/**
 * Which thread runs, and for how long: one at a time, each for a slice of instructions, in turn or
 * drawn from a seed. The same program with the same input, slices and seed is executed in the same
 * order, whatever budget it is run with. A thread that ends, waits or gives way ends its slice.
 *
 * When no thread can go on, time passes until one can; when none ever could, that is a deadlock.
 */
import type { Machine } from '../emulator/machine.js';
import type { Signals } from './signals.js';
import type { StopReason } from '../emulator/stops.js';
import type { Thread } from './thread.js';

/** How threads share the CPU. */
export interface Slices {
  /** Instructions of the longest slice, at least 1. Default 50,000. */
  readonly instructions?: number;
  /** Slices of random lengths up to that, and random turns, from this seed. Default: in turn. */
  readonly seed?: number;
}

const SLICE = 50_000;

/** A process as the scheduler sees it. */
export interface Task {
  readonly machine: Machine;
  readonly signals: Signals;
  /** Called before the running thread gives way to another. */
  leave(): void;
}

/** The processes that share the CPU. */
export interface Tasks {
  /** Those that have not ended, in the order in which they were made. */
  readonly tasks: readonly Task[];
  /** The one whose thread the CPU executes; it may have ended. */
  readonly current: Task;
  /** Instructions of all processes together. */
  readonly instructions: number;
  /** The time at which something happens that a thread may wait for; null: nothing will. */
  readonly due: bigint | null;
  /** Makes what begins that a system call has made. */
  begin(): void;
  /** Makes the clocks of all machines show the same. */
  synchronise(): void;
  /** Another process becomes the current one. */
  enter(task: Task): void;
  /** A process stops so; null: the others go on. */
  over(task: Task, stop: StopReason): StopReason | null;
  /** Nothing can go on; what the run ends with. Null: it is a deadlock. */
  idle(): StopReason | null;
}

interface Turn {
  readonly task: Task;
  readonly thread: Thread;
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
  /** A part of 2^32 that goes on by the golden ratio with each slice that is not random. */
  private part = 0;

  constructor(
    private readonly world: Tasks,
    { instructions = SLICE, seed }: Slices,
  ) {
    this.most = Math.max(1, instructions);
    this.random = seed === undefined ? null : new Random(seed);
    this.sliceEnd = this.draw();
  }

  save(): () => void {
    const { sliceEnd, part } = this;
    const putRandomBack = this.random?.save();
    return () => {
      Object.assign(this, { sliceEnd, part });
      putRandomBack?.();
    };
  }

  /**
   * Instructions of the next slice: of random magnitude, so that some are short, or up to a quarter
   * less than the longest, and others than in the slice before. With one length a loop whose rounds
   * fit it is at the same place whenever its slice ends, and no other gets a lock that it holds
   * there.
   */
  private draw(): number {
    const { random, most } = this;
    if (!random) {
      this.part = (this.part + 0x9e37_79b9) >>> 0;
      return most - Math.floor((this.part * Math.floor(most / 4)) / 2 ** 32);
    }
    const magnitude = random.below(Math.floor(Math.log2(most)) + 1) + 1;
    return Math.min(most, 1 + random.below(2 ** magnitude));
  }

  /** The running thread gives way. */
  giveWay(): void {
    this.sliceEnd = 0;
  }

  /** Every thread of every process, in the order of turns. */
  private get turns(): readonly Turn[] {
    return this.world.tasks.flatMap((task) => task.signals.threads.map((thread) => ({ task, thread })));
  }

  private get isAlone(): boolean {
    const { tasks } = this.world;
    return tasks.length === 1 && tasks[0]!.signals.threads.length === 1;
  }

  /**
   * Brings the processes to where a thread can go on, and makes that the running one; a stop: none
   * can, or a signal ends the last process.
   */
  prepare(): StopReason | null {
    const { world } = this;
    world.begin();
    for (;;) {
      world.synchronise();
      for (const { signals } of world.tasks) signals.fire();
      const next = this.pick();
      if (next === null) {
        const stop = this.idle();
        if (stop) return stop;
        continue;
      }
      this.run(next);
      const stop = next.task.signals.resume();
      if (stop) {
        const over = world.over(next.task, stop);
        if (over) return over;
        continue;
      }
      if (next.thread.waiting === null && next.task.signals.halt.signal === null) return null;
    }
  }

  /**
   * Instructions until something must be looked at: a timer, a sleeper, the end of a slice; null:
   * never.
   */
  ticks(): bigint | null {
    const { world } = this;
    const { current } = world;
    let least = current.signals.ticks();
    if (this.isAlone) return least;
    const atMost = (ticks: bigint | null): void => {
      if (ticks !== null && (least === null || ticks < least)) least = ticks < 0n ? 0n : ticks;
    };
    // The processors of the others stand still.
    for (const task of world.tasks) if (task !== current) atMost(task.signals.ticks(true));
    const { time } = current.machine;
    if (world.due !== null) atMost(world.due - time);
    // Asked once: each answer is a sum over all processes.
    const slice = BigInt(this.sliceEnd - world.instructions);
    for (const { task, thread } of this.turns) {
      const deadline = thread.waiting?.deadline ?? null;
      // Whose time has come waits for the end of the slice, as others that can go on.
      if (deadline !== null && deadline > time) atMost(deadline - time);
      const isOther = task !== current || thread !== task.signals.thread;
      if (isOther && task.signals.canGoOn(thread)) atMost(slice);
    }
    return least;
  }

  /** The thread that runs next; null: none can. */
  private pick(): Turn | null {
    const { world } = this;
    const { current } = world;
    const { thread } = current.signals;
    const turns = this.turns;
    const at = turns.findIndex((each) => each.task === current && each.thread === thread);
    const runs = at >= 0 && !thread.lacksInput && current.signals.canGoOn(thread);
    if (runs && (turns.length === 1 || world.instructions < this.sliceEnd)) return turns[at]!;
    // In turn, the running one last. Those that lack input are asked again when others have run.
    const inTurn = [...turns.slice(at + 1), ...turns.slice(0, at + 1)];
    const ready = inTurn.filter(({ task, thread: each }) => !each.lacksInput && task.signals.canGoOn(each));
    if (ready.length === 0) return null;
    // Alone it needs no slice: who can go on later has its turn at once. Nothing is drawn either,
    // for runs of a smaller budget come here more often.
    const next = ready[this.random && ready.length > 1 ? this.random.below(ready.length) : 0]!;
    if (ready.length > 1 || next.thread !== thread) this.sliceEnd = world.instructions + this.draw();
    for (const each of turns) if (each.thread !== thread) each.thread.lacksInput = false;
    return next;
  }

  private run({ task, thread }: Turn): void {
    const { world } = this;
    const before = world.current;
    if (task === before && task.signals.thread === thread) return;
    if (!before.signals.thread.isGone) before.leave();
    before.machine.loseReservation();
    world.enter(task);
    task.machine.switchTo(thread.cpu);
    task.signals.thread = thread;
  }

  /** Lets time pass until something happens; a stop: nothing will. */
  private idle(): StopReason | null {
    const { world, turns } = this;
    // The current process may have ended.
    const { machine } = (turns.find(({ task }) => task === world.current) ?? turns[0])?.task ?? world.current;
    let least: bigint | null = null;
    const atMost = (ticks: bigint | null): void => {
      if (ticks !== null && (least === null || ticks < least)) least = ticks;
    };
    for (const { signals } of world.tasks) atMost(signals.ticks(true));
    if (world.due !== null) atMost(world.due - machine.time);
    for (const { thread } of turns) {
      const deadline = thread.waiting?.deadline ?? null;
      if (deadline !== null) atMost(deadline - machine.time);
    }
    if (least !== null) {
      if (least > 0n) machine.skipTime(least);
      return null;
    }
    const lacking = turns.find((each) => each.thread.lacksInput);
    if (lacking) {
      this.run(lacking);
      for (const { thread } of turns) thread.lacksInput = false;
      return { kind: 'waiting', instruction: lacking.task.machine.pc };
    }
    const stop = world.idle();
    if (stop) return stop;
    this.run(turns[0]!);
    const places = turns.map(({ task, thread }) => ({
      thread: thread.id,
      instruction: thread.waiting?.instruction ?? task.machine.pc,
      ...(task.signals.halt.signal !== null && { stoppedBy: task.signals.halt.signal }),
    }));
    return { kind: 'deadlock', threads: places };
  }

  /** A system call of the running thread found no input; true: others go on meanwhile. */
  lacksInput(): boolean {
    if (this.isAlone) return false;
    this.world.current.signals.thread.lacksInput = true;
    return true;
  }
}
