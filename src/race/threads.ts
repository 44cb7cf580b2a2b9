/**
 * Threads of a small program before a race begins: each on a CPU and a stack of its own, at the
 * first instruction of a call that comes back to `STOP`.
 */
import type { Abi } from '../machine/abi.js';
import type { Machine } from '../emulator/index.js';
import type { Address } from '../units.js';

/** Calls return here; nothing is mapped. */
export const STOP: Address = 0x7000_0000n;
/** The first argument of every call. */
export const ARGUMENT = 41n;
const STACKS = 0x3000_0000n;
const STACK_BYTES = 0x1000n;

/**
 * Makes the threads, on a machine with one CPU. `more` sets what a thread has besides; its CPU is
 * the current one then.
 */
export function addThreads(
  machine: Machine,
  abi: Abi,
  count: number,
  start: Address,
  more: () => void = () => undefined,
): void {
  machine.map({ address: STACKS, size: Number(STACK_BYTES) * count, permission: 'rw', name: 'stacks' });
  for (let cpu = 0; cpu < count; cpu++) {
    if (cpu > 0) machine.addCpu();
    machine.switchTo(cpu);
    let sp = STACKS + STACK_BYTES * BigInt(cpu) + 0x800n;
    if (abi.linkRegister === null) {
      sp -= 8n;
      machine.writeWord(sp, 8, STOP);
    } else machine.setRegister(abi.linkRegister, STOP);
    machine.setRegister(abi.stackPointer, sp);
    machine.setRegister(abi.argumentRegisters[0]!, ARGUMENT);
    more();
    machine.setRegister('pc', start);
  }
}
