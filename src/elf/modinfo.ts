/**
 * What a kernel module says of itself: `key=value` strings of `.modinfo`, one behind the other,
 * each ended by a NUL.
 */
import { cString, nameBytes } from '../bytes.js';
import type { ElfImage } from './image.js';

/**
 * The first value of a key; null where no string has it. Only the value is decoded: each module of
 * a tree is asked for a few of its fifty strings.
 */
export function moduleInfo(image: ElfImage, key: string): string | null {
  const section = image.section('.modinfo');
  if (section === undefined) return null;
  const bytes = image.contents(section);
  const wanted = nameBytes(`${key}=`);
  for (let at = 0; at < bytes.length;) {
    let same = 0;
    while (same < wanted.length && bytes[at + same] === wanted[same]) same++;
    if (same === wanted.length) return cString(bytes, at + same, bytes.length);
    const end = bytes.indexOf(0, at);
    if (end < 0) break;
    at = end + 1;
  }
  return null;
}
