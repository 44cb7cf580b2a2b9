/**
 * Foreign text (names of symbols, sections and files, values of YAML, what a guest calls itself)
 * where people read it: what would move the cursor, recolour, reorder or hide text on a terminal or
 * a page is shown by its number.
 */

/** Bytes of invalid UTF-8, and line feeds inside of names, are decoded to these (`bytes.ts`). */
const BYTE_BASE = 0xdc00;

/**
 * Control characters (C0 but line feed and tab, DEL, C1), marks of direction, line and paragraph
 * separators, zero-width ones, annotations, tags, what Unicode keeps for a program's own use, lone
 * surrogates.
 */
const UNSAFE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufdd0-\ufdef\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|\p{Surrogate}/gu;

function escaped(character: string): string {
  const code = character.codePointAt(0)!;
  const byte = code >= BYTE_BASE && code <= BYTE_BASE + 0xff ? code - BYTE_BASE : code;
  if (byte > 0xffff) return `\\u{${byte.toString(16)}}`;
  return byte <= 0xff ? `\\x${byte.toString(16).padStart(2, '0')}` : `\\u${byte.toString(16).padStart(4, '0')}`;
}

/**
 * Text as it can be shown, its lines and columns kept: `\x1b` for a control character or a byte
 * that is no UTF-8.
 */
export function visible(text: string): string {
  return text.replace(UNSAFE, escaped);
}

/** The same for what must stay one line: line feeds are shown too. */
export function visibleLine(text: string): string {
  return visible(text).replaceAll('\n', '\\x0a');
}

/**
 * The same for a line of JSON, which stays JSON: JSON.stringify leaves some of these as they are.
 */
export function visibleJson(text: string): string {
  return text.replace(UNSAFE, (character) =>
    Array.from(
      { length: character.length },
      (_, i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`,
    ).join(''),
  );
}
