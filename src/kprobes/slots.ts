/**
 * Room for out-of-line copies and detour buffers: areas of executable memory from which pieces are taken and to which they come back. Owns which bytes
 * are taken; whether nobody executes a piece any more is the caller's business (a grace period, H11).
 */
import { alignUpBig, type Reach, reaches } from '../bits.js';
import type { Address } from '../units.js';

export interface SlotArea {
  readonly start: Address;
  readonly end: Address;
}

interface Piece {
  readonly address: Address;
  readonly sizeBytes: number;
}

export class SlotPool {
  /** Taken, ascending. */
  private pieces: Piece[] = [];

  constructor(private readonly areas: readonly SlotArea[]) {}

  /** Pieces that are taken. */
  get count(): number {
    return this.pieces.length;
  }

  /** The pieces that are taken, ascending. */
  get taken(): readonly Piece[] {
    return this.pieces;
  }

  /**
   * A piece that code at `near` reaches; null: there is none. The lowest free place of the nearest area is taken, so that the same requests give the
   * same places.
   * @param reach  distances piece − near
   */
  allocate(sizeBytes: number, alignBytes: number, near: Address, reach: Reach): Address | null {
    const distance = { ...reach, alignBytes: 1 };
    const away = ({ start, end }: SlotArea): bigint => (near < start ? start - near : near >= end ? near - end : 0n);
    const nearest = [...this.areas].sort((a, b) => (away(a) < away(b) ? -1 : away(a) > away(b) ? 1 : 0));
    for (const area of nearest) {
      let at = alignUpBig(area.start, BigInt(alignBytes));
      // The first place of the area that is reached at all.
      const lowest = alignUpBig(near + reach.min, BigInt(alignBytes));
      if (lowest > at) at = lowest;
      for (const piece of this.pieces) {
        const end = piece.address + BigInt(piece.sizeBytes);
        if (end <= at || piece.address >= area.end) continue;
        if (at + BigInt(sizeBytes) <= piece.address) break;
        at = alignUpBig(end, BigInt(alignBytes));
      }
      if (at < area.start || at + BigInt(sizeBytes) > area.end || !reaches(distance, near, at)) continue;
      const place = this.pieces.findIndex(({ address }) => address > at);
      this.pieces.splice(place < 0 ? this.pieces.length : place, 0, { address: at, sizeBytes });
      return at;
    }
    return null;
  }

  free(address: Address): void {
    this.pieces = this.pieces.filter((piece) => piece.address !== address);
  }
}
