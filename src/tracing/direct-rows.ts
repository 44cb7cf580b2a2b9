/**
 * The table of direct callers (C-DIR-7): rows of a site's ip and its caller, sorted by ip. Entries
 * read it while it changes, so that each change makes another table and then moves the pointer.
 */
import type { Address } from '../units.js';
import type { CallSite, SiteHash, StepProblem } from '../ftrace/index.js';
import type { DataRoom } from './data-room.js';
import { failed, type ImageMemory, type Room } from './image-memory.js';
import type { OpsObjects } from './ops-objects.js';

export class DirectRows {
  private table: Room | null = null;
  private readonly rows = new Map<CallSite, Address>();

  constructor(
    private readonly memory: ImageMemory,
    private readonly room: DataRoom,
    private readonly ops: OpsObjects,
  ) {}

  /** Gives a site a direct caller, or takes it away. */
  write(site: CallSite, caller: Address | null): StepProblem | null {
    if (caller === null) this.rows.delete(site);
    else this.rows.set(site, caller);
    const pointer = this.memory.find('ftrace_direct_table');
    if (pointer === null) return failed('EFAULT', 'the runtime has no table of direct callers');
    const old = this.table;
    if (this.rows.size === 0) {
      const problem = this.memory.words(pointer.identity, [0n]);
      if (problem) return problem;
      this.table = null;
    } else {
      const rows = [...this.rows].sort(([a], [b]) => (a.ip < b.ip ? -1 : 1));
      const size = this.sizeOf(rows.length);
      const address = this.room.take(size);
      if (typeof address !== 'bigint') return address;
      const problem =
        this.memory.words(address, [BigInt(rows.length), ...rows.flatMap(([row, to]) => [row.ip, to])]) ??
        this.memory.words(pointer.identity, [address]);
      if (problem) return problem;
      this.table = { address, size };
    }
    if (old !== null) {
      this.room.release(old);
      this.room.retire('direct-table', old);
    }
    return null;
  }

  private sizeOf(rows: number): number {
    return (1 + 2 * rows) * this.memory.word;
  }

  /**
   * Room for so many more rows and for hashes. Each row makes another table before the one that it
   * replaces goes; where all that fits is found by placing it.
   */
  reserve(entries: number, hashes: readonly SiteHash[]): boolean {
    const { room } = this;
    const own = this.ops.sizesOf(hashes);
    const taken = (size: number): boolean => typeof room.take(size) === 'bigint';
    const tables = (): boolean => {
      let { table } = this;
      for (let rows = this.rows.size + 1; rows <= this.rows.size + entries; rows++) {
        const size = this.sizeOf(rows);
        const address = room.take(size);
        if (typeof address !== 'bigint') return false;
        if (table !== null) room.release(table);
        table = { address, size };
      }
      return true;
    };
    return room.fits(() => tables() && own.every(taken)) && room.fits(() => own.every(taken) && tables());
  }
}
