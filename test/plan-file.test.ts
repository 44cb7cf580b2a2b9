/**
 * `plan` and `apply` in separate processes give the bytes of `patch`; a plan for another file, or
 * one that was damaged, is refused and nothing is written.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ElftraceError } from '../src/errors.js';
import { planUntrace } from '../src/patch/untrace.js';
import { decodePlanFile, encodePlanFile, inject, injectionOf } from '../src/patch/plan-file.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples, openBytes, readSample } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-plan-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const at = (name: string): string => join(folder, name);
const sample = (name: string): string => join(builtSamples, name);

describe('two processes', () => {
  test.each([
    ['x86-64/module-fentry.ko', ['--nop']],
    ['riscv64/module-mcount.ko', ['--nop']],
    ['x86-64/module-fentry-signed.ko', ['--nop']],
    ['x86-64/module-fentry.ko.gz', ['--nop']],
    ['ppc64-elfv2-be/module-mprofile-recorded.ko', ['--untrace']],
    ['arm64/module-patchable-2.ko', ['--untrace', '-l', 'c*']],
    ['x86-64/module-fentry-signed.ko', ['--untrace']],
    ['ppc64-elfv1/program-mcount', ['--enable', '--tracer', 'function_graph']],
    ['ppc32/program-mcount', ['--enable']],
  ])('%s %j', (name, options) => {
    const [plan, one, two, back] = ['plan.json', 'one', 'two', 'back'].map(at);
    expect(elftrace(['plan', sample(name), ...options, '-o', plan!]).status).toBe(0);
    expect(elftrace(['apply', sample(name), plan!, '-o', one!]).status).toBe(0);
    expect(elftrace(['patch', sample(name), ...options, '-o', two!]).status).toBe(0);
    expect(readFileSync(one!).equals(readFileSync(two!))).toBe(true);
    expect(elftrace(['revert', one!, '-o', back!]).status).toBe(0);
  });

  test('a plan for another file is refused', () => {
    const plan = at('other.json');
    expect(elftrace(['plan', sample('x86-64/module-fentry.ko'), '--nop', '-o', plan]).status).toBe(0);
    const { status, stderr } = elftrace(['apply', sample('x86-64/module-mcount.ko'), plan, '-o', at('never')]);
    expect([status, stderr]).toEqual([2, expect.stringMatching(/\[plan-stale\]/)]);
    expect(() => readFileSync(at('never'))).toThrow();
  });

  test('refused sites: exit status 1 of both, nothing written without --partial', () => {
    const table = readSample('ppc64-elfv1/core-mcount');
    const broken = table.slice();
    const opened = openBytes(table);
    broken.set([0x38, 0x60, 0, 1], opened.image.fileOffsetOf(opened.sites.ip(2)));
    writeFileSync(at('broken'), broken);
    expect(elftrace(['plan', at('broken'), '--nop', '-o', at('broken.json')]).status).toBe(1);
    expect(elftrace(['apply', at('broken'), at('broken.json'), '-o', at('never')]).status).toBe(1);
    expect(() => readFileSync(at('never'))).toThrow();
    expect(elftrace(['apply', at('broken'), at('broken.json'), '--partial', '-o', at('part')]).status).toBe(0);
  });
});

describe('the format', () => {
  const { sites, image } = openBytes(readSample('x86-64/module-fentry.ko'));
  const file = {
    sha256: 'a'.repeat(64),
    plan: { ...planUntrace(sites), notices: ['a notice'] },
    session: {
      session: ['version: 1\nsteps: []\n'],
      forms: { 'ppc-nop': '2008' },
      brought: ['new'],
      gone: [
        {
          name: 'm',
          unload: 0,
          sites: [{ ip: 16n, name: 'f', siteOffset: -4n, weak: false }],
          symbols: [],
          probes: [{ id: 1, address: 24n, symbol: 'f', offset: 8, atEntry: false, site: null }],
        },
      ],
      injected: false,
    },
    unpatched: true,
    injection: injectionOf(Uint8Array.of(1, 2, 3, 4), Uint8Array.of(1, 9, 8, 4, 5, 6)),
  };

  test('what is written is read again, and an injection makes the bytes that it came from', () => {
    expect(decodePlanFile(encodePlanFile(file))).toEqual(file);
    expect(inject(Uint8Array.of(1, 2, 3, 4), file.injection!)).toEqual(Uint8Array.of(1, 9, 8, 4, 5, 6));
    expect(() => inject(Uint8Array.of(1, 2, 7, 4), file.injection!)).toThrow(/headers/);
    expect(injectionOf(image.bytes, image.bytes)).toBeNull();
  });

  test('damaged plans give errors with the key, never anything else', () => {
    const text = encodePlanFile(file);
    const value: Record<string, unknown> = JSON.parse(text);
    for (const key of Object.keys(value)) {
      for (const wrong of [undefined, -1, 'x', [1], {}]) {
        const changed = JSON.stringify({ ...value, [key]: wrong });
        // Texts are free where they name things.
        if (typeof wrong === 'string' && (key === 'target' || key === 'request')) continue;
        expect(() => decodePlanFile(changed)).toThrow(ElftraceError);
      }
    }
    fc.assert(
      fc.property(fc.nat(text.length - 1), fc.string({ minLength: 0, maxLength: 3 }), (place, put) => {
        try {
          decodePlanFile(text.slice(0, place) + put + text.slice(place + 1));
        } catch (error) {
          expect(error).toBeInstanceOf(ElftraceError);
        }
      }),
      { seed: 3, numRuns: 500 },
    );
  });
});
