/**
 * Room for out-of-line copies and detour buffers: areas of executable memory from which pieces are
 * taken and to which they come back. Owns which bytes are taken; whether a thread still executes a
 * piece is the caller's business (a grace period, H11).
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

interface Gap {
  readonly start: Address;
  readonly end: Address;
}

/** Executable memory for copies of instructions: which bytes are taken. */
export class SlotPool {
  /**
   * Of every area what is free, ascending. Few however many pieces are taken, so that a search does
   * not look at pieces.
   */
  private readonly gaps: Gap[][];
  private readonly pieces = new Map<Address, Piece & { readonly area: number; readonly end: Address }>();

  constructor(private readonly areas: readonly SlotArea[]) {
    this.gaps = areas.map((area) => [{ ...area }]);
  }

  /** Pieces that are taken. */
  get count(): number {
    return this.pieces.size;
  }

  /** The pieces that are taken, ascending. */
  get taken(): readonly Piece[] {
    return [...this.pieces.values()].sort((a, b) => (a.address < b.address ? -1 : 1));
  }

  /**
   * A piece that code at `near` reaches; null: there is none. The lowest free place of the nearest
   * area is taken, so that the same requests give the same places.
   * @param reach  distances piece − near
   */
  allocate(sizeBytes: number, alignBytes: number, near: Address, reach: Reach): Address | null {
    const distance = { ...reach, alignBytes: 1 };
    const align = BigInt(alignBytes);
    // The first place that is reached at all.
    const lowest = near + reach.min;
    const away = ({ start, end }: SlotArea): bigint => (near < start ? start - near : near >= end ? near - end : 0n);
    const nearest = this.areas
      .map((area, index) => ({ index, away: away(area) }))
      .sort((a, b) => (a.away < b.away ? -1 : a.away > b.away ? 1 : 0));
    for (const { index: area } of nearest) {
      const gaps = this.gaps[area]!;
      for (let i = firstBehind(gaps, lowest); i < gaps.length; i++) {
        const gap = gaps[i]!;
        const at = alignUpBig(lowest > gap.start ? lowest : gap.start, align);
        const end = at + BigInt(sizeBytes);
        if (!reaches(distance, near, at)) break;
        if (end > gap.end) continue;
        // What only the alignment takes is not kept as a gap.
        const padded = alignUpBig(end, align);
        const taken = { address: at, sizeBytes, area, end: padded < gap.end ? padded : gap.end };
        const left = [
          { start: gap.start, end: at },
          { start: taken.end, end: gap.end },
        ].filter(({ start, end: to }) => start < to);
        gaps.splice(i, 1, ...left);
        this.pieces.set(at, taken);
        return at;
      }
    }
    return null;
  }

  free(address: Address): void {
    const piece = this.pieces.get(address);
    if (piece === undefined) return;
    this.pieces.delete(address);
    const gaps = this.gaps[piece.area]!;
    const i = firstBehind(gaps, address);
    const before = gaps[i - 1];
    const after = gaps[i];
    const joinsBefore = before?.end === address;
    const joinsAfter = after?.start === piece.end;
    gaps.splice(i - (joinsBefore ? 1 : 0), (joinsBefore ? 1 : 0) + (joinsAfter ? 1 : 0), {
      start: joinsBefore ? before.start : address,
      end: joinsAfter ? after.end : piece.end,
    });
  }
}

/** The first gap that ends behind an address. */
function firstBehind(gaps: readonly Gap[], address: Address): number {
  let low = 0;
  let high = gaps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (gaps[middle]!.end <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}
