/**
 * Entries of unwind information by their bytes (RT-44): where neither a program header nor a
 * symbol tells of an unwinder, one that is there can only begin at an entry that start-up files
 * hand to it. Where nothing in the file holds or computes the address of one, unwinders end at its
 * functions.
 *
 *   u32 size | u32 0: a common entry | u8 version | augmentation, ends with zero
 *            | u32 distance back to it: an entry of a function
 *   u32 0: the end
 */
import { ByteView } from '../bytes.js';
import { PT_LOAD } from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import type { GraphTracing } from '../machine/native-tracing.js';
import type { Address } from '../units.js';

const VERSIONS: ReadonlySet<number> = new Set([1, 3, 4]);
/** Nothing, z and what follows, or eh of the oldest compilers. */
const AUGMENTATIONS: ReadonlySet<number> = new Set([0, 0x7a, 0x65]);
const SIZE_BYTES = 4;
const HEAD_BYTES = 10;

const isCommon = (view: ByteView, at: number): boolean =>
  view.u32(at) >= HEAD_BYTES - SIZE_BYTES &&
  view.u32(at) <= view.bytes.length - at - SIZE_BYTES &&
  view.u32(at + SIZE_BYTES) === 0 &&
  VERSIONS.has(view.u8(at + 8)) &&
  AUGMENTATIONS.has(view.u8(at + 9));

/** Where entries begin in the bytes of a segment: all that stand behind what looks like one. */
function entriesIn(bytes: Uint8Array, address: Address, endian: ElfImage['header']['endian']): Set<Address> {
  const view = new ByteView(bytes, endian);
  const found = new Set<Address>();
  for (let start = 0; start + HEAD_BYTES <= bytes.length; start += SIZE_BYTES) {
    if (found.has(address + BigInt(start)) || !isCommon(view, start)) continue;
    for (let at = start; at + SIZE_BYTES <= bytes.length;) {
      found.add(address + BigInt(at));
      const size = view.u32(at);
      // A start-up file may hand over what begins behind an end, or the end itself.
      if (size === 0 || size > bytes.length - at - SIZE_BYTES) break;
      at += SIZE_BYTES + size;
    }
  }
  return found;
}

/** Whether something in the file may hold or compute the address of an entry. */
export function handsOverFrames(image: ElfImage, { holds }: GraphTracing): boolean {
  const loads = image.segments
    .filter(({ type, fileSize }) => type === PT_LOAD && fileSize > 0)
    .map(({ address, offset, fileSize }) => ({ address, bytes: image.bytes.subarray(offset, offset + fileSize) }));
  const entries = new Set(loads.flatMap(({ address, bytes }) => [...entriesIn(bytes, address, image.header.endian)]));
  return holds(loads, entries);
}
