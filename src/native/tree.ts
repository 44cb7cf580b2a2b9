/**
 * Calls nested by the stack pointer alone (RT-30): a function that was entered at or below the
 * stack pointer of a later entry has returned, was left, or went on there by a jump. Where returns
 * are not recorded, when it did is known no better than by the next entry.
 *
 * Code on another stack (a signal handler, a coroutine) is far away from what was there before: its
 * calls stand above those that it interrupted until one of these is seen again.
 */
import type { NativeFunction } from './objects.js';
import { NEAR_BYTES } from './reader.js';
import type { RecordedValue } from './values.js';

/** How far apart two frames of one stack may be, bytes. */
const FAR = 1 << 20;

/** Arguments of a call, or what it returned; null: they were not recorded. */
export type Values = readonly RecordedValue[] | null;

/** What hears of calls as they begin and end, properly nested. */
export interface CallListener {
  /** `depth` of the outermost call is 0. */
  enter(called: NativeFunction, depth: number, time: number, values?: Values): void;
  /** When it returned, where that is recorded (`isExact`), or at the event that showed it. */
  leave(called: NativeFunction, depth: number, time: number, isExact: boolean, values?: Values): void;
  /** The thread's process executed another program, of this number; no call is open. */
  executed?(session: number): void;
}

interface Region {
  /** Frames of outer regions. */
  readonly below: number;
  /** The highest stack pointer seen in it. */
  highest: number;
}

/**
 * Who called whom, told from stack pointers alone: a call at a lower one is inside of those above
 * it. One tree a thread.
 */
export class CallTree {
  private readonly functions: NativeFunction[] = [];
  private readonly stacks: number[] = [];
  private readonly regions: Region[] = [];
  private last = 0;

  constructor(private readonly listener: CallListener) {}

  /** A function was entered, or (null) the call returned that began with this stack pointer. */
  event(called: NativeFunction | null, stack: number, time: number, values: Values = null): void {
    if (called !== null) this.enter(called, stack, time, values);
    else this.returned(stack, time, values);
  }

  /** What is open inside of the call was left without a return. */
  private returned(stack: number, time: number, values: Values): void {
    const { stacks } = this;
    this.last = time;
    const isNear = stack < NEAR_BYTES;
    let at = stacks.length - 1;
    while (at >= 0 && (isNear ? stacks[at]! % NEAR_BYTES : stacks[at]!) !== stack) at--;
    // Its entry was not recorded, or it was seen to be over.
    if (at < 0) return;
    while (stacks.length > at + 1) this.leave(time);
    this.leave(time, true, values);
  }

  /** A function was entered with this stack pointer. */
  enter(called: NativeFunction, stack: number, time: number, values: Values = null): void {
    this.last = time;
    const region = this.regionOf(stack, time);
    while (this.stacks.length > region.below && this.stacks[this.stacks.length - 1]! <= stack) this.leave(time);
    this.listener.enter(called, this.functions.length, time, values);
    this.functions.push(called);
    this.stacks.push(stack);
  }

  /** Nothing more comes: what is open ends with the last event, or later if that is known. */
  end(time = 0): void {
    if (time > this.last) this.last = time;
    while (this.functions.length > 0) this.leave(this.last);
    this.regions.length = 0;
  }

  private leave(time: number, isExact = false, values: Values = null): void {
    this.stacks.pop();
    const called = this.functions.pop()!;
    this.listener.leave(called, this.functions.length, time, isExact, values);
  }

  private regionOf(stack: number, time: number): Region {
    const { regions, stacks } = this;
    let top = stacks.length;
    for (let i = regions.length - 1; i >= 0; i--) {
      const region = regions[i]!;
      const lowest = top > region.below ? stacks[top - 1]! : region.highest;
      if (stack >= lowest - FAR && stack <= region.highest + FAR) {
        while (regions.length > i + 1) {
          const { below } = regions.pop()!;
          while (stacks.length > below) this.leave(time);
        }
        if (stack > region.highest) region.highest = stack;
        return region;
      }
      top = region.below;
    }
    const added = { below: stacks.length, highest: stack };
    regions.push(added);
    return added;
  }
}
