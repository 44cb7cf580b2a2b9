/**
 * Times as a program gives and gets them: seconds and a rest, in two numbers of its memory. The
 * time of the machine is in nanoseconds, one an instruction.
 */
import type { Address } from '../units.js';
import type { CallContext } from './call-context.js';
import type { Errno } from './errno.js';

/** 1 GHz: one instruction a nanosecond. */
export const NANOSECONDS = 1_000_000_000n;

type Timed = Pick<CallContext, 'loadNumber' | 'machine' | 'storeNumbers' | 'wordBytes'>;

export function storeTime(context: Timed, address: Address, time: bigint, size: number): boolean {
  return address === 0n || context.storeNumbers(address, [time / NANOSECONDS, time % NANOSECONDS], size);
}

/** The time of the machine that the time at `address` stands for. */
export function deadlineOf(context: Timed, address: Address, size: number, absolute: boolean): bigint | Errno {
  const wrong = checkTime(context, address, size);
  if (wrong !== null) return wrong;
  const [seconds, rest] = loadTime(context, address, size)!;
  const wanted = seconds * NANOSECONDS + rest;
  return absolute ? wanted : context.machine.time + wanted;
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
