/** Every JSON output against its schema file, by a validator of the 2020-12 dialect. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, describe, expect, test } from '@jest/globals';
import { arches } from '../src/arches.js';
import { verdictSeverity } from '../src/sites/verdicts.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples, edited, openBytes, readSample, root } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'schemas-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const ajv = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false, allErrors: true });
const schema = (name: string): object =>
  JSON.parse(readFileSync(join(root, 'schemas', `${name}.schema.json`), 'utf8')) as object;

/** Validates each line; returns the objects. */
function lines(name: string, args: readonly string[], status = 0): Record<string, unknown>[] {
  const result = elftrace(args);
  expect([args.join(' '), result.status, status === 0 ? result.stderr : '']).toEqual([args.join(' '), status, '']);
  const validate = ajv.compile(schema(name));
  return result.stdout
    .trim()
    .split('\n')
    .map((line) => {
      const value = JSON.parse(line) as Record<string, unknown>;
      expect([args.join(' '), validate(value) ? [] : validate.errors]).toEqual([args.join(' '), []]);
      return value;
    });
}

const sample = (name: string): string => join(builtSamples, name);
const several = [
  'x86-64/module-fentry-ibt.ko',
  'x86-64/program-fentry-stripped',
  'x86-64/module-fentry.ko.xz',
  'ppc32/core-mcount',
  'ppc64-elfv1/module-mcount-recorded.ko',
  'ppc64-elfv2-le/program-patchable-2-bypassed',
  'riscv64/pie-patchable-4',
  'arm64/core-patchable-4-2',
];

describe('schemas', () => {
  test('lists of verdicts have all of them', () => {
    const lists = [
      ...readFileSync(join(root, 'schemas', 'verify.schema.json'), 'utf8').matchAll(/"enum": (\[[^\]]*\])/g),
    ]
      .map(([, list = '']) => JSON.parse(list) as unknown[])
      .filter((list) => list.includes('zero-entry'));
    expect(lists.length).toBe(3);
    const all = Object.keys(verdictSeverity);
    for (const list of lists)
      expect([...list].sort()).toEqual(all.filter((each) => list.includes('ok') || each !== 'ok').sort());
  });

  test('each is a valid schema and says what it is of', () => {
    const names = readdirSync(join(root, 'schemas'));
    expect(names.length).toBeGreaterThanOrEqual(10);
    for (const name of names) {
      const json = JSON.parse(readFileSync(join(root, 'schemas', name), 'utf8')) as Record<string, unknown>;
      expect(json['$schema']).toBe('https://json-schema.org/draft/2020-12/schema');
      expect(String(json['title'])).toMatch(/^elftrace /);
      ajv.compile(json);
    }
  });

  test('info', () => {
    const found = lines('info', ['info', '--json', ...several.map(sample)]);
    expect(found.map((each) => each['file'])).toEqual([...several.map(sample)].sort());
    for (const each of found) {
      const tables = each['tables'] as { entries: number; zero: number; role: string }[];
      const slots = tables
        .filter(({ role }) => role === 'sites')
        .reduce((sum, { entries, zero }) => sum + entries - zero, 0);
      expect((each['sites'] as { total: number }).total).toBe(slots);
    }
    expect(Object.keys(found[0]!).slice(0, 6)).toEqual(['schema', 'file', 'target', 'kind', 'tables', 'sites']);
  });

  test('list', () => {
    for (const name of several) {
      const [found] = lines('list', ['list', '--json', sample(name)]);
      for (const each of found!['functions'] as Record<string, string | number | null>[]) {
        if (each['address'] === null || each['siteOffset'] === null) continue;
        expect(BigInt(each['site']!) - BigInt(each['address']!)).toBe(BigInt(each['siteOffset']!));
      }
    }
  });

  test('verify: one file, several, a damaged one and one that is none', () => {
    const bad = join(folder, 'bad.ko');
    const bytes = readSample('x86-64/module-fentry.ko');
    writeFileSync(bad, edited(bytes, openBytes(bytes).sites.fileOffset(3), [0xcc]));
    const garbage = join(folder, 'garbage.ko');
    writeFileSync(garbage, 'not an ELF file');
    const [one] = lines('verify', ['verify', '--json', bad], 1);
    const findings = one!['findings'] as Record<string, string>[];
    expect(findings.map((finding) => [finding['verdict'], finding['expected'], finding['actual']])).toEqual([
      ['wrong-bytes', 'e8 00 00 00 00', 'cc 00 00 00 00'],
    ]);
    const all = lines('verify', ['verify', '--json', bad, garbage, sample('arm64/core-patchable-2')], 2);
    expect(all.map((each) => Object.keys(each)[0])).toEqual(['schema', 'schema', 'schema', 'summary']);
    expect(all.some((each) => 'error' in each)).toBe(true);
    expect(all.at(-1)).toEqual({
      summary: {
        schema: 1,
        files: 3,
        failed: 2,
        sites: 30,
        verdicts: { ok: 28, 'wrong-bytes': 1, 'weak-leftover': 1 },
      },
    });
  });

  test('patch, its plan, status and revert', () => {
    for (const name of [
      'x86-64/module-mcount.ko',
      'riscv64/module-mcount.ko',
      'ppc64-elfv1/program-mcount',
      'arm64/pie-patchable-2',
    ]) {
      const [plan] = lines('plan', ['patch', '--nop', '--dry-run', '--json', sample(name)]);
      const output = join(folder, 'patched');
      const [patch] = lines('patch', ['patch', '--nop', '--json', sample(name), '-o', output]);
      // The dry run says what is done then.
      expect(patch!['edits']).toEqual(plan!['steps']);
      const [status] = lines('status', ['status', '--json', output]);
      const edits = patch!['edits'] as unknown[];
      expect((status!['record'] as { edits: number } | null)?.edits ?? 0).toBe(edits.length);
      lines('status', ['status', '--json', sample(name)]);
      lines('info', ['info', '--json', output]);
      if (edits.length > 0) lines('revert', ['revert', '--json', output, '-o', join(folder, 'original')]);
    }
  });

  test('a plan with refusals', () => {
    const name = sample('ppc64-elfv2-le/module-patchable-2-bypassed.ko');
    const [plan] = lines('plan', ['patch', '--init', '--dry-run', '--json', name], 1);
    expect((plan!['refusals'] as { code: string }[]).map(({ code }) => code)).toEqual(
      Array(9).fill('bypassed-by-local-entry'),
    );
  });

  test('mcount: an object, one that has a table, a linked file', () => {
    for (const name of ['ppc32/module-mcount.ko', 'ppc32/module-mcount-recorded.ko', 'arm64/core-patchable-2']) {
      lines('mcount', ['mcount', '--json', sample(name), '-o', join(folder, 'recorded')]);
    }
  });

  test('disasm', () => {
    lines('disasm', ['disasm', '--json', sample('riscv64/module-mcount.ko'), 'module_run', 'module_leaf']);
  });

  test('run --json-status: where the machine is emulated; elsewhere it is refused', () => {
    const file = join(folder, 'status.json');
    const target = 'ppc64-elfv2-le';
    const result = elftrace(['run', '--json-status', file, sample(`${target}/program-mprofile`)]);
    if (arches.find((arch) => arch.target.id === target)!.emulation.kind === 'none') {
      expect(result.stderr).toContain('[unsupported-form]');
      expect(result.status).not.toBe(0);
      return;
    }
    const validate = ajv.compile(schema('run-status'));
    const status = JSON.parse(readFileSync(file, 'utf8')) as { exit: number };
    expect(validate(status) ? [] : validate.errors).toEqual([]);
    expect([status.exit, result.status]).toEqual([0, 0]);
  });

  test('race', () => {
    const [demo] = lines('race', ['race', '--demo', 'H2', '--json']);
    expect(Object.keys(demo!)).toEqual(['schema', 'file', 'races']);
    const program = sample('arm64/program-patchable-4-2');
    lines('race', ['race', program, '--site', 'leaf', '--json']);
    lines(
      'race',
      ['race', program, '--site', 'leaf', '--json', '--from', 'call', '--to', 'nop', '--variant', 'no-wait'],
      1,
    );
  });
});
