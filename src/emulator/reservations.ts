/**
 * Reservations (load-and-reserve, store-conditional) of CPUs that are not running. The reservation
 * itself is a slot that the lifter's ops set and test; what ordinary ops cannot see is a store of
 * another CPU. So while a CPU that holds a reservation is switched out, its granule is watched, and
 * a write there clears the slot.
 *
 * A reservation is lost when another CPU's store *changes* a byte of the granule, when the host
 * writes there (a patcher counts as another CPU), and by the CPU's own load-and-reserve or
 * store-conditional. Its own plain stores to other words of the granule keep it. A store that
 * writes what is there already keeps it too: no program can tell, and a store-conditional that
 * failed is such a store here and must not break others, or two CPUs could fail for ever.
 *
 * Source: Power ISA 3.1, Book II, 1.7.3 (reservations may be lost for other reasons as well; here
 * they are not).
 */
import type { GuestMemory, WatchedRange } from './memory.js';
import type { Address } from '../units.js';

export class Reservations {
  private readonly granules = new Map<number, WatchedRange>();

  constructor(
    private readonly memory: GuestMemory,
    private readonly granuleBytes: number,
    /** Clears the reservation of a CPU that is not running. */
    private readonly clear: (cpu: number) => void,
  ) {}

  granuleOf(address: Address): Address {
    return address & -BigInt(this.granuleBytes);
  }

  /** The CPU is switched out with a reservation at `address`. */
  hold(cpu: number, address: Address): void {
    const range = { address: this.granuleOf(address), size: this.granuleBytes, access: 'write' } as const;
    this.granules.set(cpu, range);
    this.memory.watch(range);
  }

  /** The CPU runs again, or has lost its reservation. */
  release(cpu: number): void {
    const range = this.granules.get(cpu);
    if (!range) return;
    this.granules.delete(cpu);
    this.memory.unwatch(range);
  }

  /** Bytes of the range were written by others than the CPUs that hold reservations. */
  written(address: Address, size: number): void {
    if (this.granules.size === 0) return;
    for (const [cpu, range] of [...this.granules]) {
      if (address + BigInt(size) <= range.address || address >= range.address + BigInt(range.size)) continue;
      this.release(cpu);
      this.clear(cpu);
    }
  }
}
