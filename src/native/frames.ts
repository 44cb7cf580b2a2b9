/**
 * Unwind information for code that is laid in (RT-44): entries of the runtime's own, and a new
 * search table for all that the file has, for the old one cannot grow (LSB Core 5.0, 10.6.2).
 *
 *   u8 version 1 | u8 0x1b | u8 0x03 | u8 0x3b | s32 to .eh_frame | u32 rows |
 *   rows, ascending: s32 function, s32 its entry, both relative to the table
 */
import { alignUp } from '../bits.js';
import { ByteView, concatBytes } from '../bytes.js';
import { PT_GNU_EH_FRAME, PT_INTERP } from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import type { Address, Endian } from '../units.js';
import { refused } from './refuse.js';

const HEADER_BYTES = 12;
const ROW_BYTES = 8;
/** Version; pointers relative to their place, counts of 4 bytes, rows relative to the table. */
const FORM = [1, 0x1b, 0x03, 0x3b] as const;

interface Row {
  readonly code: Address;
  readonly entry: Address;
}

/** The table that a file has. */
export interface FrameTable {
  /** Where `.eh_frame` is. */
  readonly frames: Address;
  readonly rows: readonly Row[];
}

/** Of a section of entries that has none. */
const END_BYTES = 4;

/** Of which each unwinder of a program has one (Itanium C++ ABI: exception handling, 1.3). */
const UNWINDERS = ['_Unwind_RaiseException', '_Unwind_ForcedUnwind', '_Unwind_Backtrace', '_Unwind_Find_FDE'] as const;

/** Whether a static program may have an unwinder of its own: no library brings one. */
const hasUnwinder = ({ symbols }: ElfImage): boolean =>
  symbols.count === 0 || UNWINDERS.some((name) => symbols.find(name) > 0);

/**
 * Whether a file can be unwound through: else unwinders end at its functions, and never come to
 * what those would return to. Start-up files of static programs register what no header names, for
 * the unwinder in the program.
 */
export function hasFrames(image: ElfImage): boolean {
  const { segments, sections } = image;
  const isStatic = !segments.some(({ type }) => type === PT_INTERP);
  return (
    segments.some(({ type }) => type === PT_GNU_EH_FRAME) ||
    (isStatic && hasUnwinder(image) && sections.some(({ name, size }) => name === '.eh_frame' && size > END_BYTES))
  );
}

/**
 * The file's table; null: it has none.
 * @throws ElftraceError 'unsupported-form', reason 'no-unwind-tables', for one of another form
 */
export function frameTable(image: ElfImage): FrameTable | null {
  const segment = image.segments.find(({ type }) => type === PT_GNU_EH_FRAME);
  if (segment === undefined) return null;
  const { offset, fileSize, address } = segment;
  const view = new ByteView(image.bytes.subarray(offset, offset + fileSize), image.header.endian);
  const isKnown = fileSize >= HEADER_BYTES && FORM.every((byte, i) => view.u8(i) === byte);
  const count = isKnown ? view.u32(8) : 0;
  if (!isKnown || HEADER_BYTES + count * ROW_BYTES > fileSize) {
    throw refused('no-unwind-tables', 'the search table of its unwind information has another form than the usual one');
  }
  const rows = Array.from({ length: count }, (_, i) => ({
    code: address + BigInt(view.i32(HEADER_BYTES + i * ROW_BYTES)),
    entry: address + BigInt(view.i32(HEADER_BYTES + i * ROW_BYTES + 4)),
  }));
  return { frames: address + 4n + BigInt(view.i32(4)), rows };
}

/** Size of the table with so many rows more. */
export const frameTableBytes = ({ rows }: FrameTable, more: number): number =>
  HEADER_BYTES + (rows.length + more) * ROW_BYTES;

/** The table with further rows, to lie at an address. */
export function makeFrameTable(
  { frames, rows }: FrameTable,
  more: readonly Row[],
  address: Address,
  endian: Endian,
): Uint8Array {
  const all = [...rows, ...more].sort((a, b) => (a.code < b.code ? -1 : a.code > b.code ? 1 : 0));
  const out = new Uint8Array(HEADER_BYTES + all.length * ROW_BYTES);
  const view = new ByteView(out, endian);
  out.set(FORM);
  const relative = (at: number, value: bigint): void => {
    view.insertU32(at, Number(BigInt.asUintN(32, value)));
  };
  relative(4, frames - address - 4n);
  view.insertU32(8, all.length);
  all.forEach(({ code, entry }, i) => {
    relative(HEADER_BYTES + i * ROW_BYTES, code - address);
    relative(HEADER_BYTES + i * ROW_BYTES + 4, entry - address);
  });
  return out;
}

/** An entry of `.eh_frame`, and where its field for the size of the code is. */
export interface FrameEntry extends Row {
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
