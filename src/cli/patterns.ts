/**
 * Regular expressions of users. JavaScript's own take time that grows with the power of two of a
 * line for some patterns; those of RE2 take time in proportion to the line, and have no
 * backreferences and no look-around for it.
 */
import { ElftraceError } from '../errors.js';
import type { LinePattern } from '../running/compare.js';

/**
 * @param option  where it was given, for the error
 * @throws ElftraceError 'usage' when it is no regular expression, or one that is not served
 */
export async function linePattern(option: string, text: string): Promise<LinePattern> {
  const { RE2JS } = await import('re2js');
  try {
    const pattern = RE2JS.compile(RE2JS.translateRegExp(text));
    return { test: (line) => pattern.matcher(line).find() };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ElftraceError(
      'usage',
      `${option} ${text} is no regular expression as RE2 takes it (no backreferences, no look-around): ${why}`,
      { what: option, value: text },
      { cause },
    );
  }
}
