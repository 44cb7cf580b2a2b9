/**
 * Counting by rule ids decides whether CI passes: what must not be counted matters as much as what
 * must.
 */
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { countTests, definedIds, missingIds } from '../scripts/rule-groups.js';
import { root } from './support/pipeline.js';

const report = (assertions: readonly (readonly [string, string])[]): Parameters<typeof countTests>[0] => ({
  testResults: [
    {
      name: 'a.test.js',
      status: 'passed',
      message: '',
      assertionResults: assertions.map(([title, status]) => ({ ancestorTitles: ['outer'], title, status })),
    },
  ],
});

describe('counts by rule group', () => {
  test('a test counts once in each of its groups, and each id once', () => {
    const counts = countTests(
      report([
        ['P-ENC-1 and P-ENC-2', 'passed'],
        ['P-ENC-2, C-FILT: globs', 'passed'],
        ['X-TR-4a', 'passed'],
        ['T-5, RT-2: of the first version', 'passed'],
      ]),
    );
    expect(counts.passed).toBe(4);
    expect(counts.groups).toEqual([
      { name: 'C-FILT', tests: 1, ids: new Set(['C-FILT']) },
      { name: 'P-ENC', tests: 2, ids: new Set(['P-ENC-1', 'P-ENC-2']) },
      { name: 'RT', tests: 1, ids: new Set(['RT-2']) },
      { name: 'T', tests: 1, ids: new Set(['T-5']) },
      { name: 'X-TR', tests: 1, ids: new Set(['X-TR-4a']) },
    ]);
  });

  test('words that look like ids are none', () => {
    const names = ['x86-64/program', '-mcmodel=large', 'R_X86_64_64', 'BTI-C-x', 'T-', 'U-ABC-1', 'P-ENC-1x2'];
    expect(countTests(report(names.map((name) => [name, 'passed'] as const))).groups).toEqual([]);
  });

  test('failed and skipped tests show no rule', () => {
    const counts = countTests(
      report([
        ['P-ENC-1', 'failed'],
        ['P-ENC-2', 'pending'],
        ['P-ENC-3', 'todo'],
      ]),
    );
    expect(counts).toEqual({
      passed: 0,
      failed: 1,
      skipped: 2,
      groups: [],
      skippedNames: ['outer P-ENC-2', 'outer P-ENC-3'],
    });
  });

  test('a rule of a source thread without a passing test is missing; of other rules none is asked for', () => {
    const counts = countTests(
      report([
        ['T-PPC-1', 'passed'],
        ['T-PPC-2', 'failed'],
        ['T-PPC-3, T-4', 'passed'],
      ]),
    );
    expect(missingIds(counts, ['P-ENC-1', 'T-PPC-1', 'T-PPC-2', 'T-PPC-3', 'T-PPC-4', 'T-4', 'T-5'])).toEqual([
      'T-PPC-2: no test has this id',
      'T-PPC-4: no test has this id',
      'T-5: no test has this id',
    ]);
    expect(missingIds(counts, ['T-PPC-3', 'T-PPC-1'])).toEqual([]);
  });

  test('what the pages define is asked for', () => {
    const defined = definedIds(join(root, 'docs', 'spec'));
    expect(defined).toEqual(expect.arrayContaining(['T-PPC-30', 'T-X86-49', 'T-RV-30', 'T-A64-14', 'T-KP-45', 'T-9']));
    const without = countTests(report(defined.filter((id) => id !== 'T-KP-7').map((id) => [id, 'passed'] as const)));
    expect(missingIds(without, defined)).toEqual(['T-KP-7: no test has this id']);
  });

  test('a file that does not load is a failure', () => {
    const counts = countTests({
      testResults: [{ name: 'b.test.js', status: 'failed', message: 'SyntaxError', assertionResults: [] }],
    });
    expect(counts.failed).toBe(1);
  });
});
