/**
 * Properties of executables and objects: the note that PT_GNU_PROPERTY names, or its section.
 * Source: gABI extension, GNU.
 */
import type { Endian } from '../units.js';

const PT_GNU_PROPERTY = 0x6474_e553;
const NT_GNU_PROPERTY_TYPE_0 = 5;

/** As much of a file as is needed to find the note. */
interface PropertyHolder {
  readonly bytes: Uint8Array;
  readonly header: { readonly is64: boolean; readonly endian: Endian };
  readonly segments: readonly { readonly type: number; readonly offset: number; readonly fileSize: number }[];
  /** Of objects, which have no segments: where sections are. */
  readonly sections?: readonly { readonly name: string; readonly offset: number; readonly fileSize: number }[];
}

/** The 32-bit value of a property; 0 where there is none. Never throws on content. */
export function gnuProperty(holder: PropertyHolder, type: number): number {
  const at = gnuPropertyOffset(holder, type);
  if (at === null) return 0;
  const bytes = holder.bytes.subarray(at, at + 4);
  const order = holder.header.endian === 'little' ? [3, 2, 1, 0] : [0, 1, 2, 3];
  return order.reduce((value, i) => ((value << 8) | bytes[i]!) >>> 0, 0);
}

/** Where the value of a property lies in the file; null: there is none. Never throws on content. */
export function gnuPropertyOffset(
  { bytes, header, segments, sections = [] }: PropertyHolder,
  type: number,
): number | null {
  const segment =
    segments.find((each) => each.type === PT_GNU_PROPERTY) ??
    (segments.length > 0 ? undefined : sections.find(({ name }) => name === '.note.gnu.property'));
  if (!segment) return null;
  const end = Math.min(bytes.length, segment.offset + segment.fileSize);
  const little = header.endian === 'little';
  const align = header.is64 ? 8 : 4;
  const u32 = (at: number): number => {
    const order = little ? [3, 2, 1, 0] : [0, 1, 2, 3];
    return order.reduce((value, i) => ((value << 8) | bytes[at + i]!) >>> 0, 0);
  };
  // Note: name size 4, descriptor size, type, "GNU\0", then properties.
  if (segment.offset + 16 > end || u32(segment.offset + 8) !== NT_GNU_PROPERTY_TYPE_0) return null;
  const last = Math.min(end, segment.offset + 16 + u32(segment.offset + 4));
  for (let at = segment.offset + 16; at + 12 <= last;) {
    if (u32(at) === type) return at + 8;
    at += 8 + Math.ceil(u32(at + 4) / align) * align;
  }
  return null;
}
