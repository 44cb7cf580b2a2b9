/**
 * Counting by rule ids decides whether CI passes: what must not be counted matters as much as what
 * must.
 */
import { describe, expect, test } from '@jest/globals';
import { countTests, missingIds } from '../scripts/rule-groups.js';

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
      ]),
    );
    expect(counts.passed).toBe(3);
    expect(counts.groups).toEqual([
      { name: 'C-FILT', tests: 1, ids: new Set(['C-FILT']) },
      { name: 'P-ENC', tests: 2, ids: new Set(['P-ENC-1', 'P-ENC-2']) },
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

  test('an id of a range without a passing test is missing', () => {
    const counts = countTests(
      report([
        ['P-ENC-1', 'passed'],
        ['P-ENC-2', 'failed'],
        ['P-ENC-3', 'passed'],
      ]),
    );
    expect(missingIds(counts, '# comment\nP-ENC 1-4\n')).toEqual([
      'P-ENC-2: no test has this id',
      'P-ENC-4: no test has this id',
    ]);
    expect(missingIds(counts, 'P-ENC 3-3')).toEqual([]);
  });

  test('a file that does not load is a failure', () => {
    const counts = countTests({
      testResults: [{ name: 'b.test.js', status: 'failed', message: 'SyntaxError', assertionResults: [] }],
    });
    expect(counts.failed).toBe(1);
  });
});
