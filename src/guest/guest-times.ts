/**
 * Times as a program gives and gets them: seconds and a rest, in two numbers of its memory. The
 * time of the machine is in nanoseconds, one an instruction. The wall clock shows the same, counted
 * from the date at which the run begins:
 *
 *   CLOCK_MONOTONIC = time of the machine
 *   CLOCK_REALTIME  = time of the machine + date of the run
 */
import type { Address } from '../units.js';
import type { CallContext } from './call-context.js';
import type { Errno } from './errno.js';

/** 1 GHz: one instruction a nanosecond. */
export const NANOSECONDS = 1_000_000_000n;

type Timed = Pick<CallContext, 'loadNumber' | 'machine' | 'storeNumbers' | 'wordBytes'>;

/**
 * The date at which a run begins that names none: 2030-01-01T00:00:00Z, nanoseconds since 1970. It
 * is no date of the host, so that runs repeat, and later than the files that a tree holds today:
 * programs as make take a file whose time is to come for a mistake.
 */
export const DEFAULT_DATE = 1_893_456_000n * NANOSECONDS;

export function storeTime(context: Timed, address: Address, time: bigint, size: number): boolean {
  return address === 0n || context.storeNumbers(address, [time / NANOSECONDS, time % NANOSECONDS], size);
}

/**
 * The time of the machine that the time at `address` stands for. `origin`: what its clock showed
 * when that of the machine showed 0; null: it counts from now on.
 */
export function deadlineOf(context: Timed, address: Address, size: number, origin: bigint | null): bigint | Errno {
  const wrong = checkTime(context, address, size);
  if (wrong !== null) return wrong;
  const [seconds, rest] = loadTime(context, address, size)!;
  const wanted = seconds * NANOSECONDS + rest;
  return wanted + (origin === null ? context.machine.time : -origin);
}

/** What is wrong with the time at `address`; null: nothing. */
export function checkTime(context: Timed, address: Address, size: number): Errno | null {
  const time = loadTime(context, address, size);
  if (time === null) return 'EFAULT';
  const [seconds, rest] = time;
  return seconds < 0n || rest < 0n || rest >= NANOSECONDS ? 'EINVAL' : null;
}

/** Seconds and the rest, signed. On 32 bits the upper half of a wide rest is padding. */
export function loadTime(context: Timed, address: Address, size: number): readonly [bigint, bigint] | null {
  const seconds = context.loadNumber(address, size);
  const rest = context.loadNumber(address + BigInt(size), size);
  if (seconds === null || rest === null) return null;
  return [BigInt.asIntN(8 * size, seconds), BigInt.asIntN(8 * context.wordBytes, rest)];
}
