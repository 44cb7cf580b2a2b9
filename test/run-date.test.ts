/**
 * The date at which a run begins: how `--date` is read, against `date` of coreutils; what the
 * program's clocks show and waits until a date do, against Linux; `make`, which takes files of the
 * future for a mistake, twice in one run.
 */
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { dateOf, dateText } from '../src/cli/date.js';
import { PROGRAMS } from './support/emulator.js';
import { covering, sampled } from './support/long.js';
import { isX86Linux } from './support/processor.js';
import { LINUX_TARGETS, run } from './support/run.js';
import { describeWith, run as runTool, runProgramFile } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'run-date-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

function directory(...names: readonly string[]): string {
  const path = join(folder, ...names);
  mkdirSync(path, { recursive: true });
  return path;
}

const SECOND = 1_000_000_000n;

describe('--date', () => {
  test('now is the present second; days that no calendar has, and other text, are refused', () => {
    expect(dateOf('now', () => 1_769_860_800_999)).toBe(1_769_860_800n * SECOND);
    const wrong = [
      '2026-02-30',
      '2026-13-01',
      '2026-01-31T25:00',
      '2026-01-31 12:00',
      '2026-1-1',
      '1969-12-31',
      '2300-01-01',
      '@-1',
      '@1.5',
      '@',
      '',
      'today',
      '0x10',
      '2026-01-31T12:00:00z',
      '1770000000',
      '2026',
    ];
    for (const each of wrong) {
      expect(() => dateOf(each)).toThrow(expect.objectContaining({ code: 'usage' }));
    }
    expect(dateText(dateOf('2026-01-31T12:00:07+01:00'))).toBe('2026-01-31T11:00:07Z');
    expect(run(['--date', 'tomorrow', join(folder, 'none')])).toMatchObject({ status: 125 });
  });

  describeWith(['date'], 'is read', () => {
    test('as coreutils read it, in UTC where there is no zone', () => {
      const texts = [
        '1970-01-01',
        '2026-01-31',
        '2026-01-31T12:00',
        '2026-01-31T12:00:07',
        '2026-01-31T12:00:07Z',
        '2024-02-29T23:59:59Z',
        '2026-01-31T12:00:00+05:30',
        '2026-01-31T12:00-08:00',
        '2262-04-11',
        '@0',
        '@1769860800',
      ];
      for (const each of texts) {
        expect([each, `${dateOf(each) / SECOND}`]).toEqual([
          each,
          runTool('date', ['-u', '-d', each, '+%s']).toString().trim(),
        ]);
      }
    });
  });
});

/** 2030-01-01, in seconds. */
const DEFAULT = '1893456000';
const build = (name: string, gcc: string): string => {
  const path = join(folder, name);
  runTool(gcc, ['-O1', '-w', '-static', '-o', path, join(PROGRAMS, 'processes', 'dates.c'), '-lrt', '-pthread']);
  return path;
};

for (const [name, gcc] of sampled(
  covering(LINUX_TARGETS, ([, , form]) => form),
  2,
)) {
  if (!isX86Linux) continue;
  describeWith([gcc, 'gcc'], `clocks of ${name}`, () => {
    test('show the date of the run, and waits until a date end then, as on Linux', () => {
      const now = `${Math.floor(Date.now() / 1000)}`;
      const { stdout } = runProgramFile(build('native', 'gcc'), [now, join(folder, `${name}-native`)]);
      const program = build(name, gcc);
      const cases = [
        [[], DEFAULT],
        [['--date', '2026-01-31T12:00:00Z'], '1769860800'],
      ] as const;
      for (const [options, seconds] of cases) {
        const tree = ['--root', directory(`${name}-tree`), '--write', directory(`${name}-kept-${seconds}`)];
        const here = run([...options, ...tree, program, seconds, '/made']);
        expect([here.stdout.split('\n'), here.status]).toEqual([stdout.split('\n'), 0]);
        expect(here.json['deviations']).toEqual([]);
      }
    });
  });
}

if (isX86Linux) {
  describeWith(['make', 'sh'], 'make', () => {
    const RECIPES = 'all: b\na: in\n\tcat in > a\nb: a\n\tcat a a > b\n';
    const COMMAND = 'make && make';
    const sources = directory('sources');
    for (const [name, text] of Object.entries({ Makefile: RECIPES, in: 'text\n' })) {
      writeFileSync(join(sources, name), text);
      utimesSync(join(sources, name), 1_769_000_000, 1_769_000_000);
    }
    const inRun = (options: readonly string[], name: string, command: string): readonly string[] => {
      const tree = ['--root', '/', '--write', directory(name), '--env', 'PATH=/usr/bin:/bin'];
      const { stdout, stderr } = run([...options, ...tree, '/bin/sh', '-c', `cd ${sources} && ${command}`]);
      return (stdout + stderr).split('\n');
    };

    test('makes what is out of date once, in one run, as on Linux', () => {
      const there = runTool('sh', [
        '-c',
        `cp -a ${sources} ${folder}/native-make && cd ${folder}/native-make && ${COMMAND}`,
      ]).toString();
      expect(there).toContain('Nothing to be done');
      expect(inRun(['--date', '2026-01-31T12:00:00Z'], 'make', COMMAND)).toEqual(there.split('\n'));
    });

    test('warns where the clock begins before the files were made', () => {
      expect(inRun(['--date', '2020-01-01'], 'make-early', 'make -n').join('\n')).toMatch(
        /modification time .* in the future/,
      );
    });
  });
}
