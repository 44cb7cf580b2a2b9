/**
 * The argument of `run --call`: `NAME(ARG, …)` with integers (decimal, hex, characters) and
 * strings.
 */
import { ElftraceError } from '../errors.js';
import type { FunctionCall } from '../running/call.js';

const escapes: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  '0': '\0',
  '\\': '\\',
  '"': '"',
  "'": "'",
};

function unescape(text: string, whole: string): string {
  return text.replace(/\\(.)/gs, (_, letter: string) => {
    const value = escapes[letter];
    if (value === undefined) throw bad(whole, `\\${letter} is no escape`);
    return value;
  });
}

function bad(text: string, why: string): ElftraceError {
  return new ElftraceError('usage', `--call '${text}': ${why}; write NAME(ARG, ...) with integers and "strings"`);
}

/**
 * Parses the expression; the name is everything before the last parenthesis that opens the list, so
 * that any symbol can be named.
 * @throws ElftraceError 'usage'
 */
export function parseCall(text: string): FunctionCall {
  const match = /^\s*([^\s("']+)\s*\((.*)\)\s*$/s.exec(text);
  if (!match) throw bad(text, 'this is no call');
  const args: (bigint | string)[] = [];
  let rest = match[2]!.trim();
  while (rest !== '') {
    const literal = /^(?:"((?:[^"\\]|\\.)*)"|'([^'\\]|\\.)'|([+-]?)(0[xX][0-9a-fA-F]+|\d+))\s*/s.exec(rest);
    if (!literal) throw bad(text, `'${rest}' begins with no integer or string`);
    const [whole, string, character, sign, digits] = literal;
    if (string !== undefined) args.push(unescape(string, text));
    else if (character !== undefined) args.push(BigInt(unescape(character, text).codePointAt(0)!));
    else args.push(BigInt(digits!) * (sign === '-' ? -1n : 1n));
    rest = rest.slice(whole.length);
    if (rest === '') break;
    if (!rest.startsWith(',')) throw bad(text, 'a comma is missing');
    rest = rest.slice(1).trim();
    if (rest === '') throw bad(text, 'an argument is missing');
  }
  return { name: match[1]!, args };
}
