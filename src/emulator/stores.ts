/**
 * What a write to guest memory means for the rest of a machine, apart from the fast path of a
 * store: translated code may be stale, a CPU that has fetched the old bytes keeps them,
 * reservations of other CPUs are lost, and an observer is told first.
 */
import type { Cpus } from './cpus.js';
import type { FetchBuffers } from './fetch.js';
import { firstDifference } from './memory.js';
import type { GuestMemory, MemoryObserver } from './memory.js';
import type { Tiers } from './tiers.js';
import type { Translations } from './translations.js';
import type { Address } from '../units.js';

export interface StoresOptions {
  readonly memory: GuestMemory;
  readonly cpus: Cpus;
  readonly fetch: FetchBuffers | null;
  readonly translations: Translations;
  readonly tiers: Tiers;
  /** The CPU sees its own stores to code at once, though it has fetched the old bytes. */
  readonly ownStores: boolean;
}

export class Stores implements MemoryObserver {
  /** Memory is written by an instruction of the running CPU, not by the host. */
  private storing = false;
  /** Called before bytes change. */
  observer: ((address: Address, size: number) => void) | null = null;

  constructor(private readonly options: StoresOptions) {}

  /** What `store` writes is written by the running CPU. */
  byCpu<T>(store: () => T, isCpu = true): T {
    this.storing = isCpu;
    const result = store();
    this.storing = false;
    return result;
  }

  beforeWrite(address: Address, bytes: Uint8Array): void {
    const { cpus, fetch, memory, translations, ownStores } = this.options;
    this.observer?.(address, bytes.length);
    const writer = this.storing && ownStores ? cpus.index : null;
    if (writer !== null && fetch) translations.dropOwn(address, bytes.length);
    fetch?.beforeWrite(address, bytes.length, writer);
    if (!this.storing) cpus.loseReservations(address, bytes.length);
    else {
      const changes = (): boolean => firstDifference(memory.read(address, bytes.length)!, bytes) !== -1;
      cpus.stored(address, bytes.length, changes);
    }
  }

  changed(address: Address, size: number, what: 'bytes' | 'map'): void {
    const { fetch, tiers } = this.options;
    if (fetch) {
      if (what === 'bytes') return;
      fetch.forget(address, size);
    }
    tiers.dropRange(address, size, what === 'bytes');
  }

  /** The running CPU is about to store to code that it has translated. */
  toCode(address: Address, size: number): void {
    const { fetch, translations, tiers } = this.options;
    if (fetch) translations.dropOwn(address, size);
    else tiers.dropRange(address, size, false);
  }
}
