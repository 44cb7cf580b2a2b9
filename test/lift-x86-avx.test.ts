/**
 * AVX, AVX2, FMA and F16C against the processor of this machine: each form that binutils knows,
 * with special, hard and random operands, in the rounding modes of MXCSR, in both tiers.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { buildProgram, runHere, scratch } from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { everyNth, sampled, times } from './support/long.js';
import { hasFeatures } from './support/processor.js';
import { outputOf } from './support/spawn.js';
import { describeWith, runProgramFile } from './support/tools.js';
import { avxCases, avxFaultProgram, avxProgram, AVX_TARGET, extended, V3 } from './support/x86-avx.js';
import { formsOf, LEVEL_3, vexBytes, vexForms } from './support/x86-forms.js';
import type { AvxCase } from './support/x86-avx.js';
import type { VexForm } from './support/x86-forms.js';

const isThere = hasFeatures(V3);
if (!isThere) process.stderr.write('left out: forms of AVX are compared on processors of x86-64-v3\n');

/** The forms by their texts. */
function vexByText(): Map<string, VexForm> {
  const folder = mkdtempSync(join(tmpdir(), 'x86-forms-'));
  try {
    const all = vexForms();
    const bytes = all.map(vexBytes);
    const by = new Map(bytes.map((each, i) => [each, all[i]!]));
    return new Map([...formsOf(folder, LEVEL_3, bytes)].map(([text, each]) => [text, by.get(each)!]));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Cases whose digests are not those of this processor. */
function differing(cases: readonly AvxCase[], count: number, tier: 0 | 1): string[] {
  const program = buildProgram(AVX_TARGET, '1', [writeSource('avx.c', avxProgram(cases, count))]);
  const expected = runProgramFile(program);
  const here = runHere(AVX_TARGET, program, { tier });
  expect([here.end, expected.status]).toEqual([0, 0]);
  const there = expected.stdout.split('\n');
  const own = here.output.split('\n');
  expect(own).toHaveLength(there.length);
  return own.filter((line, i) => line !== there[i]);
}

describeWith(['gcc', 'objdump', 'as'], 'AVX', () => {
  test('each form does what it does on this processor, in both tiers', () => {
    const plain = avxCases(vexByText());
    const cases = [...plain, ...plain.flatMap((each, i) => (i % 7 === 0 ? (extended(each) ?? []) : []))];
    expect(cases.length).toBeGreaterThan(4000);
    if (!isThere) return;
    expect(differing(cases, times(200, 16, 4), 0)).toEqual([]);
    // Most of the time goes to compilers.
    expect(differing(everyNth(cases, 8), 16, 1)).toEqual([]);
  });

  test('operands beyond the last page: the fault, its place, and what was done before', () => {
    const cases = avxCases(vexByText()).filter(({ name }) => name.includes('(%rdi') && !name.includes('['));
    expect(cases.length).toBeGreaterThan(1000);
    if (!isThere) return;
    const tried = sampled(cases, 4);
    const program = scratch('faults');
    outputOf('gcc', ['-O1', '-w', '-static', writeSource('faults.c', avxFaultProgram(tried)), '-o', program]);
    const expected = runProgramFile(program).stdout.split('\n');
    const here = runHere(AVX_TARGET, program).output.split('\n');
    expect(here).toHaveLength(tried.length + 1);
    expect(here.filter((line, i) => line !== expected[i])).toEqual([]);
  });
});
