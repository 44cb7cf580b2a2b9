/**
 * The words of the command line. Node takes them for UTF-8, and bytes that are none are lost to
 * U+FFFD; where the system shows the bytes themselves, they are kept as names of files are
 * (`textOf`).
 */
import { readFileSync } from 'node:fs';
import { textOf } from '../bytes.js';

const LOST = '\ufffd';

/** The bytes of the last `count` words of this process; null: the system does not show them. */
function lastWords(count: number): readonly Uint8Array[] | null {
  try {
    // A NUL is behind each word.
    const all = readFileSync('/proc/self/cmdline').subarray(0, -1);
    const words: Uint8Array[] = [];
    for (let at = 0; at <= all.length;) {
      const end = all.indexOf(0, at);
      words.push(all.subarray(at, end < 0 ? all.length : end));
      at = end < 0 ? all.length + 1 : end + 1;
    }
    return words.length >= count ? words.slice(-count) : null;
  } catch {
    return null;
  }
}

/** @param words  as Node has them, to the end of the command line */
export function wordsAsGiven(words: readonly string[]): readonly string[] {
  if (!words.some((each) => each.includes(LOST))) return words;
  const bytes = lastWords(words.length);
  return words.map((word, i) => {
    const own = bytes?.[i];
    return own && Buffer.from(own).toString() === word ? textOf(own) : word;
  });
}
