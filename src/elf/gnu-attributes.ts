/**
 * What a file's section `.gnu.attributes` says of its ABI: numbers by tag. Source: GNU as, "GNU
 * Object Attributes"; gABI extension of vendor subsections.
 */
import { ByteView } from '../bytes.js';
import type { ElfImage } from './image.js';

const SECTION = '.gnu.attributes';
const VERSION = 0x41;
const OWNER = 'gnu\0';
const TAG_FILE = 1;
/** Version, size of the subsection, owner, tag, size of its attributes. */
const OWNER_AT = 5;
const TAG_AT = 9;
const FIRST_AT = 14;

/** Of the file as a whole. Even tags below 32 hold numbers; others end what is read. */
export function gnuAttributes(image: ElfImage): ReadonlyMap<number, number> {
  const found = new Map<number, number>();
  const section = image.sections.find(({ name }) => name === SECTION);
  const bytes = section === undefined ? new Uint8Array(0) : image.contents(section);
  if (bytes.length < FIRST_AT || bytes[0] !== VERSION || bytes[TAG_AT] !== TAG_FILE) return found;
  if (String.fromCharCode(...bytes.subarray(OWNER_AT, TAG_AT)) !== OWNER) return found;
  const end = Math.min(bytes.length, TAG_AT + new ByteView(bytes, image.header.endian).u32(TAG_AT + 1));
  for (let at = FIRST_AT; at + 1 < end; at += 2) {
    const [tag, value] = [bytes[at]!, bytes[at + 1]!];
    // Numbers of more than seven bits are none of those that are asked about.
    if (tag % 2 === 1 || tag >= 32 || value >= 0x80) return found;
    found.set(tag, value);
  }
  return found;
}
