/**
 * Compilers that are known to make what `verify` finds, as far as `.comment` names them. A linked
 * file names the compiler of every object in it: the finding decides what is wrong, this only who
 * may have done it.
 */
import { cString } from '../bytes.js';
import type { ElfImage } from '../elf/image.js';

interface Compiler {
  readonly name: 'GCC' | 'clang';
  readonly version: string;
  readonly major: number;
}

/** `GCC: (Debian 12.2.0-14) 12.2.0`, `Debian clang version 22.1.8 (…)`. */
const FORMS = [
  ['GCC', /^GCC: \(.*\) ((\d+)\.[\d.]+)/],
  ['clang', /\bclang version ((\d+)\.[\d.]+)/],
] as const;

/** Those that `.comment` names, each once. */
function compilersOf(image: ElfImage): Compiler[] {
  const comment = image.section('.comment');
  if (comment === undefined) return [];
  const bytes = image.contents(comment);
  const found = new Map<string, Compiler>();
  for (let at = 0; at < bytes.length;) {
    const text = cString(bytes, at, bytes.length);
    at += text.length + 1;
    for (const [name, form] of FORMS) {
      const [, version, major] = form.exec(text) ?? [];
      if (version !== undefined) found.set(`${name} ${version}`, { name, version, major: Number(major) });
    }
  }
  return [...found.values()];
}

/** The first release of GCC whose tables are whole: each function's slot is linked to it. */
const GCC_WHOLE = 13;

/**
 * The compiler that loses slots: GCC before 13.1 links the table of a file to the section of its
 * first function (GCC PR 110729). null: none such is named.
 */
export function slotLoser(image: ElfImage): string | null {
  const loser = compilersOf(image).find(({ name, major }) => name === 'GCC' && major < GCC_WHOLE);
  if (loser === undefined) return null;
  return `GCC ${loser.version} (.comment) loses slots where a linker discards the function that the table is linked to (GCC PR 110729, mended in 13.1)`;
}

/**
 * The compiler that put a landing pad behind nops which belong behind the pad. Only GCC does that;
 * where several releases are in one file, none can be blamed. null: none is named.
 */
export function padMisplacer(image: ElfImage): string | null {
  const [gcc, other] = compilersOf(image).filter(({ name }) => name === 'GCC');
  if (gcc === undefined || other !== undefined) return null;
  return `GCC ${gcc.version} (.comment) puts the pad there; clang puts it first`;
}
