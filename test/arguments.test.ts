/**
 * What verbs get for their words: without yargs the same as with it, for every verb and option.
 */
import { describe, expect, test } from '@jest/globals';
import { askYargs } from '../src/cli/ask-yargs.js';
import { type Arguments, argumentsOf, DeclaredOptions, DeclaredVerbs, type OptionRow } from '../src/cli/declared.js';
import { grammarOf } from '../src/cli/grammar.js';
import { limitOptions } from '../src/cli/limits.js';
import { fileVerbs } from '../src/cli/verbs.js';
import { runVerbs } from '../src/cli/verbs-run.js';
import { readWords } from '../src/cli/words.js';

const everywhere: Readonly<Record<string, OptionRow>> = {
  ...limitOptions(['file', 'unpacked', 'ratio', 'time']),
  demangle: { type: 'boolean', default: true },
};
const verbs = new DeclaredVerbs().with(fileVerbs).with(runVerbs);

/** Of yargs, or what it throws. */
function byYargs(words: readonly string[]): Arguments | Error {
  let found: Arguments | null = null;
  try {
    askYargs({
      words,
      shell: undefined,
      everywhere,
      verbs,
      help: false,
      begin: () => undefined,
      act: (_, args) => {
        found = { ...args };
      },
    });
  } catch (error) {
    return error as Error;
  }
  return found!;
}

/** Ours, or what it throws; null where yargs is asked. */
function byUs(name: string, words: readonly string[]): Arguments | Error | null {
  const verb = verbs.find(name)!;
  try {
    return argumentsOf(name, verb, DeclaredOptions.of(verb.builder, everywhere), words);
  } catch (error) {
    return error as Error;
  }
}

/** Values of an option that are as odd as users' may be. */
function valuesOf({ type, choices }: OptionRow): readonly string[] {
  if (choices !== undefined) return choices;
  return type === 'number'
    ? ['7', '0x10', '1e3', '2.5', '100']
    : ['a b', '12', '=x=', 'q"', 'true', '1e3', './-o', 'é'];
}

/** Lines of words for a verb: none of its options, and all at once with each value in turn. */
function linesOf(name: string): string[][] {
  const { builder, words } = verbs.find(name)!;
  const { rows } = DeclaredOptions.of(builder, everywhere);
  const texts = ['file', '12', '"q"', 'a=b', './--x', 'help', 'true'];
  const plain = words.filter(({ demanded }) => demanded).map((_, i) => texts[i]!);
  const all = words.flatMap(({ variadic }, i) => (variadic ? texts.slice(i) : [texts[i]!]));
  const written = [...rows].map(([key, row]) => {
    const names = [key, row.alias ?? key];
    if (row.type === 'boolean') return names.flatMap((each) => [[`--${each}`], [`--no-${each}`]]);
    const values = valuesOf(row);
    const single = values.map((value, i) => [`--${names[i % 2]!}=${value}`]);
    return row.array === true ? [...single, values.map((value) => `--${names[1]!}=${value}`)] : single;
  });
  const most = Math.max(...written.map((each) => each.length));
  const rounds = Array.from({ length: most }, (_, i) => written.flatMap((each) => each[i % each.length]!));
  return [plain, all, ...rounds.map((each, i) => [...(i % 2 === 0 ? plain : all), ...each])];
}

describe('arguments without yargs', () => {
  test.each([...verbs.names()])('%s: as yargs has them', (name) => {
    const lines = linesOf(name);
    for (const words of lines) {
      // Only what lacks an option that must be there is left to yargs.
      if (name === 'export' && words.length < 3) continue;
      expect([words, byUs(name, words)]).toEqual([words, byYargs([name, ...words])]);
    }
    expect(lines.length).toBeGreaterThan(9);
  });

  test('what is left to yargs: options that must be there, values of flags, quotes', () => {
    expect(byUs('export', ['trace'])).toBeNull();
    expect(byYargs(['export', 'trace'])).toMatchObject({ code: 'usage', message: 'Missing required argument: format' });
    expect(byUs('verify', ['file', '--version'])).toBeNull();
    expect(byUs('verify', ['file', '--unknown=1'])).toBeNull();
    expect(byUs('verify', ['file', '--symbols="q"'])).toBeNull();
  });

  test('what coerces a value may refuse it', () => {
    for (const words of [
      ['f', '--require=101'],
      ['f', '--jobs=-1'],
      ['f', '--jobs=1.5'],
    ]) {
      expect(byUs('verify', words)).toBeInstanceOf(Error);
      expect(byUs('verify', words)).toEqual(byYargs(['verify', ...words]));
    }
  });

  test('letters and words of users come as long names', () => {
    const { builder, words } = verbs.find('patch')!;
    const options = DeclaredOptions.of(builder, everywhere);
    const { own } = readWords('patch', ['-o', 'out', 'in', '--nop', '-l', 'a', '-l=b'], grammarOf(options, words));
    expect(byUs('patch', own)).toMatchObject({ path: 'in', o: 'out', output: 'out', nop: true, l: ['a', 'b'] });
  });
});
