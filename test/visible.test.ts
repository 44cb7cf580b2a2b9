/**
 * Foreign text on terminals and pages: nothing in it moves the cursor, recolours or hides anything.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { cString, nameBytes } from '../src/bytes.js';
import { visible, visibleJson } from '../src/visible.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { readSample } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'visible-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const named = (...bytes: number[]): string => cString(Uint8Array.from(bytes), 0, bytes.length);

describe('the escaper', () => {
  test('control characters and bytes that are no UTF-8 are shown by their number', () => {
    expect(visible('a\u001b[31mb\u0007\r')).toBe('a\\x1b[31mb\\x07\\x0d');
    expect(visible('\u009b2J\u202e\u200b')).toBe('\\x9b2J\\u202e\\u200b');
    expect(visible('Umlaute äöü, 漢字, 😀\tand tabs')).toBe('Umlaute äöü, 漢字, 😀\tand tabs');
    expect(visible(named(0x66, 0xff, 0xc3, 0x28, 0x0a, 0xc3, 0xa4))).toBe('f\\xff\\xc3(\\x0aä');
  });

  test('names that differ in bytes differ as text; valid UTF-8 is what TextDecoder makes of it', () => {
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1, maxLength: 12 }),
        fc.uint8Array({ minLength: 1, maxLength: 12 }),
        (a, b) => {
          fc.pre(!a.includes(0) && !b.includes(0) && !a.includes(10));
          expect(named(...a) === named(...b)).toBe(Buffer.compare(a, b) === 0);
          expect([...nameBytes(named(...a))]).toEqual([...a]);
          let text: string | null = null;
          try {
            text = decoder.decode(a);
          } catch {
            // No UTF-8.
          }
          if (text === null) expect(/\p{Surrogate}/u.test(named(...a))).toBe(true);
          else expect(named(...a)).toBe(text);
        },
      ),
      { seed: 11, numRuns: 3000 },
    );
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1 }), (text) => {
        fc.pre(!/[\0\n]/.test(text) && !/\p{Surrogate}/u.test(text));
        expect(named(...Buffer.from(text))).toBe(text);
      }),
      { seed: 12, numRuns: 2000 },
    );
  });

  test('JSON stays JSON with the same value', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const shown = visibleJson(JSON.stringify({ text }));
        expect(JSON.parse(shown)).toEqual({ text });
        expect(visible(shown)).toBe(shown);
      }),
      { seed: 13, numRuns: 2000 },
    );
  });
});

describe('the command line', () => {
  // A name of the sample, with bytes that clear a screen and are no UTF-8.
  const bytes = readSample('x86-64/module-fentry.ko').slice();
  const text = Buffer.from(bytes.buffer);
  for (let at = text.indexOf('module_leaf\0'); at >= 0; at = text.indexOf('module_leaf\0', at + 1)) {
    text.set([0x1b, 0x5b, 0x32, 0x4a, 0xff, 0x0a], at + 2);
  }
  const path = join(folder, 'hostile\u001b[2J.ko');
  writeFileSync(path, bytes);
  const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

  test.each([
    ['list', [], true],
    ['info', [], true],
    ['verify', [], true],
    ['disasm', ['module_run'], false],
    ['patch', ['--nop', '--dry-run'], false],
    ['explain', ['module_run'], false],
    ['verify', ['--symbols', '/absent\u001b[2J'], true],
  ] as const)('%s %j', (verb, more, quotes) => {
    const { stdout, stderr } = elftrace([verb, path, ...more]);
    expect([CONTROL.test(stdout), CONTROL.test(stderr)]).toEqual([false, false]);
    if (quotes) expect(stdout + stderr).toContain('\\x1b[2J');
  });

  test('names in JSON keep their bytes', () => {
    const { stdout } = elftrace(['list', '--json', path]);
    const { functions } = JSON.parse(stdout) as { functions: { name: string }[] };
    expect(functions.map(({ name }) => name)).toContain('mo\u001b[2J\udcff\udc0aeaf');
  });
});
