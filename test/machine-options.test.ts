/**
 * Options of single machines: the command line offers what the rows of the machines say, and no
 * other choice.
 */
import { describe, expect, test } from '@jest/globals';
import { arches } from '../src/arches.js';
import type { MachineOption } from '../src/machine/options.js';
import { elftrace } from './support/cli.js';

/** By name; targets of one machine may have choices that others of it lack. */
const rows = new Map<string, MachineOption>();
for (const { options } of arches) {
  for (const option of options) {
    const choices = new Set([...(rows.get(option.name)?.choices ?? []), ...option.choices]);
    rows.set(option.name, { ...option, choices: [...choices] });
  }
}

/**
 * Options of `--help` that begin like those of a machine, with their choices; no choices where a
 * verb leaves them to the loader.
 */
function offered(...words: readonly string[]): Map<string, string[]> {
  const { stdout } = elftrace([...words, '--help']);
  const parts = stdout.split(/^ +(?:-\w, )?--/m).slice(1);
  return new Map(
    parts
      .map((part): [string, string[]] => [
        /^[\w-]+/.exec(part)![0],
        [...(/\[choices: ([^\]]*)\]/.exec(part)?.[1] ?? '').matchAll(/"([^"]+)"/g)].map((each) => each[1]!),
      ])
      .filter(([name]) => /^(x86|a64|riscv|ppc)-/.test(name)),
  );
}

const [patch, load, race] = [offered('patch', '--forms'), offered('load'), offered('race')];

describe('options of single machines', () => {
  test.each([
    ['patch', patch],
    ['load', load],
    ['race', race],
  ])('%s offers rows of machines, with choices of theirs', (_, options) => {
    expect(options.size).toBeGreaterThan(3);
    for (const [name, choices] of options) {
      expect([name, rows.has(name)]).toEqual([name, true]);
      expect([name, choices.filter((each) => !rows.get(name)!.choices.includes(each))]).toEqual([name, []]);
    }
  });

  test('every row is offered, all of its choices by patch or by what load leaves to the loader', () => {
    for (const { name, choices } of rows.values()) {
      const own = patch.get(name) ?? load.get(name);
      expect([name, own === undefined]).toEqual([name, false]);
      if (own!.length > 0) expect([name, [...own!].sort()]).toEqual([name, [...choices].sort()]);
    }
  });

  test('options that choose a convention or a way name those of their machine', () => {
    for (const { options, conventions } of arches) {
      const names = conventions.map(({ name }) => name);
      const ways = conventions.flatMap(({ directWays }) => Object.keys(directWays?.slots ?? {}));
      for (const { name, choices, decides } of options) {
        const known = decides.includes('convention') ? names : decides.includes('direct-way') ? ways : choices;
        expect([name, choices.filter((each) => !known.includes(each))]).toEqual([name, []]);
      }
      const chosenBy = conventions.flatMap((each) => each.chosenBy ?? []);
      expect(chosenBy.filter((name) => !options.some((each) => each.name === name))).toEqual([]);
    }
  });
});
