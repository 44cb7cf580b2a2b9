/**
 * A processor as handlers of traps see it in a race: what they read and write, of registers and of
 * memory, belongs to the event of the thread that trapped.
 */
import type { Machine } from '../emulator/index.js';
import type { TrapRegisters } from '../machine/live-patching.js';
import type { ProbeCpu } from '../machine/probes.js';
import type { Address } from '../units.js';
import type { EventSlots } from './event-slots.js';
import type { Footprint } from './footprints.js';

/** Of the thread whose CPU is the running one. */
export function handlerViews(
  machine: Machine,
  slots: EventSlots,
  { reads, writes }: Footprint,
): { readonly breakpoints: TrapRegisters; readonly probes: ProbeCpu } {
  const reading = (address: Address, size: number): void => {
    reads.push([address, address + BigInt(size)]);
  };
  const writing = (address: Address, size: number): void => {
    writes.push([address, address + BigInt(size)]);
  };
  const registers: Pick<TrapRegisters, 'register' | 'setRegister'> = {
    register: (name) => slots.register(name),
    setRegister: (name, value) => {
      slots.setRegister(name, value);
    },
  };
  return {
    breakpoints: {
      ...registers,
      readWord: (address, size) => {
        reading(address, size);
        return machine.readWord(address, size);
      },
      writeWord: (address, size, value) => {
        writing(address, size);
        return machine.writeWord(address, size, value);
      },
    },
    probes: {
      ...registers,
      read: (address, size) => {
        reading(address, size);
        return machine.memory.read(address, size);
      },
      write: (address, bytes) => {
        writing(address, bytes.length);
        return machine.memory.write(address, bytes);
      },
    },
  };
}
