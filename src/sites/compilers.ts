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
 * The first release of GCC that puts the pad first on every machine whose processors checked pads
 * by then.
 */
const GCC_PAD_FIRST = 10;
/** The first release of GCC whose nops are behind the local entry. */
const GCC_LOCAL_ENTRY = 13;
/** The first release of GCC that can align every function. */
const GCC_ALIGNS_ALL = 14;

/** The only compiler of a name; null: none is named, or several releases. */
function onlyCompiler(image: ElfImage, wanted: Compiler['name']): Compiler | null {
  const [found, other] = compilersOf(image).filter(({ name }) => name === wanted);
  return found === undefined || other !== undefined ? null : found;
}

/**
 * The compiler that put a landing pad behind nops which belong behind the pad. Only GCC does that;
 * where several releases are in one file, none can be blamed. null: none is named.
 */
export function padMisplacer(image: ElfImage): string | null {
  const gcc = onlyCompiler(image, 'GCC');
  if (gcc === null) return null;
  const known = gcc.major < GCC_PAD_FIRST ? ' (GCC PR 92424 and 93492)' : '';
  return `GCC ${gcc.version} (.comment) puts the pad there${known}; clang puts it first`;
}

/**
 * The compiler whose slots name the entry in front of the local one. Where the nops are tells
 * which: GCC put them there, clang has them behind the local entry and names the other place. null:
 * it is not named, or the place of the nops is another.
 * @param nops  where they are: at the place that the slot names, or at the local entry
 */
export function entryMisplacer(image: ElfImage, nops: 'slot' | 'local' | null): string | null {
  const gcc = onlyCompiler(image, 'GCC');
  if (nops === 'slot' && gcc !== null && gcc.major < GCC_LOCAL_ENTRY) {
    return `GCC ${gcc.version} (.comment) puts the nops in front of both entries (GCC PR 99888, mended in 13.1)`;
  }
  const clang = onlyCompiler(image, 'clang');
  if (nops === 'local' && clang !== null) {
    return `the nops are at the local entry: clang ${clang.version} (.comment) names the other one (LLVM issue 163706)`;
  }
  return null;
}

/** The compiler that does not align every function though it is asked to; null: none is named. */
export function misaligner(image: ElfImage): string | null {
  const gcc = onlyCompiler(image, 'GCC');
  if (gcc === null || gcc.major >= GCC_ALIGNS_ALL) return null;
  return `GCC ${gcc.version} (.comment) has no -fmin-function-alignment, which 14.1 got for that (GCC PR 88345)`;
}
