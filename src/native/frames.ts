/**
 * Unwind information for code that is laid in (RT-44): entries of the runtime's own, and a new
 * search table for all that the file has, for the old one cannot grow (elf/frame-table.ts).
 */
import { alignUp } from '../bits.js';
import { ByteView, concatBytes } from '../bytes.js';
import { PT_GNU_EH_FRAME, PT_INTERP } from '../elf/constants.js';
import {
  FRAME_FORM, FRAME_HEADER_BYTES, FRAME_ROW_BYTES, type FrameRow, type FrameTable, readFrameTable,
} from '../elf/frame-table.js'; // prettier-ignore
import type { ElfImage } from '../elf/image.js';
import type { Address, Endian } from '../units.js';
import type { GraphTracing } from '../machine/native-tracing.js';
import { handsOverFrames } from './frame-entries.js';
import { refused } from './refuse.js';

/** Of a section of entries that has none. */
const END_BYTES = 4;

/** Of which each unwinder of a program has one (Itanium C++ ABI: exception handling, 1.3). */
const UNWINDERS = ['_Unwind_RaiseException', '_Unwind_ForcedUnwind', '_Unwind_Backtrace', '_Unwind_Find_FDE'] as const;

/** Whether a static program may have an unwinder that knows its frames: no library brings one. */
const hasUnwinder = (image: ElfImage, graph: GraphTracing): boolean =>
  image.symbols.count === 0 ? handsOverFrames(image, graph) : UNWINDERS.some((name) => image.symbols.find(name) > 0);

/**
 * Whether a file can be unwound through: else unwinders end at its functions, and never come to
 * what those would return to. Start-up files of static programs register what no header names, for
 * the unwinder in the program.
 */
export function hasFrames(image: ElfImage, graph: GraphTracing): boolean {
  const { segments, sections } = image;
  const isStatic = !segments.some(({ type }) => type === PT_INTERP);
  return (
    segments.some(({ type }) => type === PT_GNU_EH_FRAME) ||
    // Without section headers it is not known.
    (isStatic &&
      (sections.length === 0 || sections.some(({ name, size }) => name === '.eh_frame' && size > END_BYTES)) &&
      hasUnwinder(image, graph))
  );
}

/**
 * The file's table; null: it has none.
 * @throws ElftraceError 'unsupported-form', reason 'no-unwind-tables', for one of another form
 */
export function frameTable(image: ElfImage): FrameTable | null {
  const table = readFrameTable(image);
  if (table !== 'unknown') return table;
  throw refused('no-unwind-tables', 'the search table of its unwind information has another form than the usual one');
}

/** Size of the table with so many rows more. */
export const frameTableBytes = ({ rows }: FrameTable, more: number): number =>
  FRAME_HEADER_BYTES + (rows.length + more) * FRAME_ROW_BYTES;

/** The table with further rows, to lie at an address. */
export function makeFrameTable(
  { frames, rows }: FrameTable,
  more: readonly FrameRow[],
  address: Address,
  endian: Endian,
): Uint8Array {
  const all = [...rows, ...more].sort((a, b) => (a.code < b.code ? -1 : a.code > b.code ? 1 : 0));
  const out = new Uint8Array(FRAME_HEADER_BYTES + all.length * FRAME_ROW_BYTES);
  const view = new ByteView(out, endian);
  out.set(FRAME_FORM);
  const relative = (at: number, value: bigint): void => {
    view.insertU32(at, Number(BigInt.asUintN(32, value)));
  };
  relative(4, frames - address - 4n);
  view.insertU32(8, all.length);
  all.forEach(({ code, entry }, i) => {
    relative(FRAME_HEADER_BYTES + i * FRAME_ROW_BYTES, code - address);
    relative(FRAME_HEADER_BYTES + i * FRAME_ROW_BYTES + 4, entry - address);
  });
  return out;
}

/** An entry of `.eh_frame`, and where its field for the size of the code is. */
export interface FrameEntry extends FrameRow {
  readonly sizeAt: number;
  /** Its instructions. */
  readonly instructions: { readonly from: number; readonly to: number };
}

/** What an assembler made: one common entry, and entries with addresses of 4 bytes. */
export interface RuntimeFrames {
  readonly entries: readonly FrameEntry[];
  /** The common entry from its factors on, without what augments it. */
  readonly common: Uint8Array;
}

/** The runtime's `.eh_frame`, where it lies. */
export function runtimeFrames(bytes: Uint8Array, address: Address, endian: Endian): RuntimeFrames {
  const view = new ByteView(bytes, endian);
  const entries: FrameEntry[] = [];
  let common: Uint8Array = new Uint8Array(0);
  for (let at = 0; at + 4 <= bytes.length;) {
    const size = view.u32(at);
    if (size === 0) break;
    const to = at + 4 + size;
    if (view.u32(at + 4) === 0) {
      // Version, "zR", both factors and the column of the return address in a byte each, the size
      // of what augments it, which is the form of addresses.
      const FACTORS = 12;
      common = concatBytes([bytes.subarray(at + FACTORS, at + FACTORS + 3), bytes.subarray(at + FACTORS + 5, to)]);
    } else {
      const code = address + BigInt(at + 8) + BigInt(view.i32(at + 8));
      // Code, its size, the size of what augments it: nothing.
      entries.push({ code, entry: address + BigInt(at), sizeAt: at + 12, instructions: { from: at + 17, to } });
    }
    at = to;
  }
  return { entries, common };
}

/**
 * The same as a section `.debug_frame` (DWARF 3, 6.4.1): debuggers do not look for what is in no
 * section `.eh_frame`.
 * @param before  what the section begins with: entries of the program's own
 * @param other   instructions in place of those at an address, where debuggers number registers in
 *   another way
 */
export function debugFrames(
  bytes: Uint8Array,
  { entries, common }: RuntimeFrames,
  endian: Endian,
  wordBytes: 4 | 8,
  before: Uint8Array,
  other: { readonly code: Address; readonly instructions: Uint8Array } | null,
): Uint8Array {
  const NO_AUGMENTATION = [1, 0];
  const NONE = 0xffff_ffff;
  const view = new ByteView(bytes, endian);
  const padded = (head: Uint8Array, rest: Uint8Array): Uint8Array => {
    const out = new Uint8Array(alignUp(head.length + rest.length, wordBytes));
    out.set(head);
    out.set(rest, head.length);
    new ByteView(out, endian).insertU32(0, out.length - 4);
    return out;
  };
  const first = new Uint8Array(8 + NO_AUGMENTATION.length);
  new ByteView(first, endian).insertU32(4, NONE);
  first.set(NO_AUGMENTATION, 8);
  const parts = entries.map(({ code, sizeAt, instructions: { from, to } }) => {
    const head = new Uint8Array(8 + 2 * wordBytes);
    const out = new ByteView(head, endian);
    out.insertU32(4, before.length);
    out.insertWord(8, code, wordBytes);
    out.insertWord(8 + wordBytes, BigInt(view.u32(sizeAt)), wordBytes);
    return padded(head, other?.code === code ? other.instructions : bytes.subarray(from, to));
  });
  return concatBytes([before, padded(first, common), ...parts]);
}
