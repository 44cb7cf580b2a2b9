/**
 * Names as programmers wrote them, for the symbols of C++ and Rust. Selections match either form;
 * JSON keeps the symbol, and has the other beside it.
 */
import { demangleItanium } from './itanium.js';
import { demangleRust } from './rust.js';

/** Names that were asked for; a file has few that are asked for more than once. */
const known = new Map<string, string | null>();
const MOST_KNOWN = 1 << 16;
/** Longer symbols stay as they are. */
const MOST_LETTERS = 1 << 14;

/**
 * The name that a symbol stands for, as `c++filt` and `rustfilt` write it.
 * @param symbol  of an ELF file, without `@VERSION`
 * @returns null for a symbol that is no mangled name, or whose form is not served
 */
export function demangle(symbol: string): string | null {
  if (!/^_[ZR]/.test(symbol) || symbol.length > MOST_LETTERS) return null;
  const found = known.get(symbol);
  if (found !== undefined) return found;
  const name = demangleRust(symbol) ?? (symbol.startsWith('_Z') ? demangleItanium(symbol) : null);
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(symbol, name);
  return name;
}

/** A text with the symbols in it replaced by the names that they stand for. */
export function demangledText(text: string): string {
  return text.includes('_Z') || text.includes('_R')
    ? text.replace(/(?<![\w$./])_[ZR][\w$.]+/g, (symbol) => demangle(symbol) ?? symbol)
    : text;
}
