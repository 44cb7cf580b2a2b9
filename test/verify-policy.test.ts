/**
 * `verify --baseline`, `--skip`, `--severity`: which findings fail; what they leave out is said.
 * The schema of the file agrees with its reader.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, describe, expect, test } from '@jest/globals';
import { readPolicy } from '../src/cli/verify-policy.js';
import { underPolicy } from '../src/sites/policy.js';
import { findingJson } from '../src/report/json.js';
import { verify as judge } from '../src/sites/verdicts.js';
import { warmElftrace, type CliResult } from './support/cli.js';
import { edited, openBytes, readSample, root } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'policy-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const sample = readSample('x86-64/module-fentry.ko');
const { sites } = openBytes(sample);
const damaged = (...indices: number[]): Uint8Array =>
  indices.reduce((bytes, index) => edited(bytes, sites.fileOffset(index), [0xcc]), sample);
mkdirSync(join(folder, 'tree'));
const put = (name: string, bytes: Uint8Array | string): string => {
  writeFileSync(join(folder, name), bytes);
  return name;
};
const verify = (...args: string[]): CliResult => warmElftrace(['verify', ...args], { cwd: folder });
put('tree/a.ko', damaged(1, 2));
put('tree/b.ko', sample);

describe('--baseline', () => {
  test.each(['json', 'ndjson'])('of %s: what was there is known, what is new fails', (format) => {
    const before = verify('--format', format, 'tree');
    expect(before.status).toBe(1);
    const baseline = put(`before.${format}`, before.stdout);
    for (const jobs of ['1', '2']) {
      const same = verify('--baseline', baseline, '--jobs', jobs, './tree');
      expect([same.status, same.stderr]).toEqual([0, '']);
      expect(same.stdout).toContain('2 findings known from the baseline');
    }
    put('tree/a.ko', damaged(1, 2, 4));
    const worse = verify('--baseline', baseline, 'tree');
    expect(worse.status).toBe(1);
    expect(worse.stdout.match(/: error: /g)).toHaveLength(1);
    put('tree/a.ko', damaged(1, 2));
    // Of another file they are new.
    put('tree/b.ko', damaged(1));
    expect(verify('--baseline', baseline, 'tree').status).toBe(1);
    put('tree/b.ko', sample);
  });

  test('a file that cannot be read still fails; what is no baseline is refused', () => {
    const baseline = put('before.json', verify('--json', 'tree').stdout);
    put('garbage.ko', 'no ELF file');
    expect(verify('--baseline', baseline, 'tree', 'garbage.ko').status).toBe(2);
    for (const [text, why] of [
      ['', 'the baseline is empty'],
      ['{"a": 1}\n', 'bad:1: no line of verify'],
      ['\n{"kind": "finding", "file": "a"}\n', 'bad:2: no finding of verify'],
      ['[]', 'bad:1: a JSON object'],
      ['{', 'bad:1: no JSON'],
    ]) {
      const { status, stderr, stdout } = verify('--baseline', put('bad', text!), 'tree');
      expect([text, status, stdout]).toEqual([text, 2, '']);
      expect(stderr).toContain(why);
    }
    const missing = verify('--baseline', 'nowhere', 'tree');
    expect([missing.status, missing.stderr]).toEqual([2, expect.stringContaining('[io]')]);
  });
});

test('a baseline that has a finding once knows it once', () => {
  const bytes = damaged(1);
  const result = judge(openBytes(bytes).sites);
  const [finding] = result.findings;
  const line = { file: 'x.ko', findings: [findingJson(finding!)] };
  const policy = readPolicy({ baseline: join(folder, put('once', JSON.stringify(line))) });
  const twice = underPolicy('./x.ko', { ...result, findings: [finding!, finding!] }, policy);
  expect(twice.findings.map(({ severity }) => severity)).toEqual(['note', 'error']);
  expect(twice.remarks).toContain('1 finding known from the baseline');
});

describe('--skip and --severity', () => {
  const verdict = (
    JSON.parse(verify('--json', 'tree/a.ko').stdout) as { findings: { verdict: string; rule: string }[] }
  ).findings[0]!;

  test('a verdict, or the rule that it follows, is left out, and that is said', () => {
    for (const rule of [verdict.verdict, verdict.rule]) {
      const { status, stdout } = verify('--skip', rule, 'tree/a.ko');
      expect([rule, status]).toEqual([rule, 0]);
      expect(stdout).toContain('2 findings left out, as their rules are switched off');
      expect(stdout).toContain(`2 ${verdict.verdict}`);
    }
    const typo = verify('--skip', 'wrong-byte', 'tree/a.ko');
    expect([typo.status, typo.stderr]).toEqual([
      2,
      expect.stringMatching(/named 'wrong-byte'.*wrong-bytes.*\[usage\]/),
    ]);
  });

  test('severities of a file decide', () => {
    const with_ = (severity: Record<string, string>, ...more: string[]): number | null =>
      verify('--severity', put('severity.json', JSON.stringify({ schema: 1, severity })), 'tree/a.ko', ...more).status;
    expect(with_({})).toBe(1);
    expect(with_({ [verdict.verdict]: 'warning' })).toBe(0);
    expect(with_({ [verdict.verdict]: 'warning' }, '--strict')).toBe(1);
    expect(with_({ [verdict.verdict]: 'off' }, '--strict')).toBe(0);
    // The verdict is nearer than the rule.
    expect(with_({ [verdict.verdict]: 'error', [verdict.rule]: 'note' })).toBe(1);
  });

  test('the schema and the reader refuse the same files', () => {
    const schema = JSON.parse(readFileSync(join(root, 'schemas/severity.schema.json'), 'utf8')) as object;
    const validate = new Ajv2020({ strict: true }).compile(schema);
    for (const value of [
      { schema: 1, severity: { 'wrong-bytes': 'note' } },
      { $schema: 'x', schema: 1, severity: {} },
      { schema: 2, severity: {} },
      { schema: 1 },
      { schema: 1, severity: [] },
      { schema: 1, severity: { 'wrong-bytes': 'fatal' } },
      { schema: 1, severity: {}, more: true },
      [],
    ]) {
      const { status } = verify('--severity', put('severity.json', JSON.stringify(value)), 'tree/b.ko');
      expect([value, status]).toEqual([value, validate(value) ? 0 : 2]);
    }
  });
});
