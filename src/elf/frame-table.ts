/**
 * The search table of unwind information that PT_GNU_EH_FRAME names (LSB Core 5.0, 10.6.2). It
 * stays where a file is stripped, and says where functions begin.
 *
 *   u8 version 1 | u8 0x1b | u8 0x03 | u8 0x3b | s32 to .eh_frame | u32 rows |
 *   rows, ascending: s32 function, s32 its entry, both relative to the table
 */
import { ByteView } from '../bytes.js';
import type { Address } from '../units.js';
import { PT_GNU_EH_FRAME } from './constants.js';
import type { ElfImage } from './image.js';

export const FRAME_HEADER_BYTES = 12;
export const FRAME_ROW_BYTES = 8;
/** Version; pointers relative to their place, counts of 4 bytes, rows relative to the table. */
export const FRAME_FORM = [1, 0x1b, 0x03, 0x3b] as const;

export interface FrameRow {
  readonly code: Address;
  readonly entry: Address;
}

/** The table that a file has. */
export interface FrameTable {
  /** Where `.eh_frame` is. */
  readonly frames: Address;
  readonly rows: readonly FrameRow[];
}

/** @returns null: there is none; 'unknown': it has another form than the usual one */
export function readFrameTable(image: ElfImage): FrameTable | null | 'unknown' {
  const segment = image.segments.find(({ type }) => type === PT_GNU_EH_FRAME);
  if (segment === undefined) return null;
  const { offset, fileSize, address } = segment;
  const view = new ByteView(image.bytes.subarray(offset, offset + fileSize), image.header.endian);
  const isKnown = fileSize >= FRAME_HEADER_BYTES && FRAME_FORM.every((byte, i) => view.u8(i) === byte);
  const count = isKnown ? view.u32(8) : 0;
  if (!isKnown || FRAME_HEADER_BYTES + count * FRAME_ROW_BYTES > fileSize) return 'unknown';
  const rows = Array.from({ length: count }, (_, i) => ({
    code: address + BigInt(view.i32(FRAME_HEADER_BYTES + i * FRAME_ROW_BYTES)),
    entry: address + BigInt(view.i32(FRAME_HEADER_BYTES + i * FRAME_ROW_BYTES + 4)),
  }));
  return { frames: address + 4n + BigInt(view.i32(4)), rows };
}
