/**
 * The sums that `status` and `revert` print, against `sha256sum` of the files: of the one that was
 * patched, and of the one that comes back.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-sum-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);
const sum = (path: string): string => run('sha256sum', [path]).toString().slice(0, 64);
const sizeOf = (path: string): number => readFileSync(path).length;

const requests: readonly (readonly [name: string, file: string, ...args: string[]])[] = [
  ['a module', 'ppc64-elfv1/module-mcount.ko', '--nop'],
  ['a signed module', 'x86-64/module-fentry-signed.ko', '--nop'],
  ['a program with a runtime laid in', 'x86-64/program-fentry', '--enable'],
  ['a program with a session', 'ppc32/program-mcount', '--livepatch', 'leaf=bump'],
  ['a program with probes', 'riscv64/program-patchable-8', '--probe', 'p:in leaf'],
];

describeWith(['sha256sum', 'xz'], 'sums', () => {
  describe.each(requests)('%s', (_, file, ...args) => {
    const original = join(builtSamples, file);
    const out = at(file.replace('/', '-'));

    test('status prints what sha256sum gives of the file that was patched; so does revert', () => {
      expect(elftrace(['patch', original, ...args, '-o', out]).status).toBe(0);
      const status = elftrace(['status', out]);
      expect(status.status).toBe(0);
      expect(status.stdout).toContain(`# revert gives ${sizeOf(original)} bytes with sha256 ${sum(original)}\n`);
      const json = JSON.parse(elftrace(['status', '--json', out]).stdout) as { readonly original: unknown };
      expect(json.original).toEqual({ sha256: sum(original), size: sizeOf(original) });
      const back = `${out}.back`;
      const reverted = elftrace(['revert', out, '-o', back]);
      expect(sum(back)).toBe(sum(original));
      const vouches = file.includes('signed')
        ? '; the module signature (136 bytes) is back, a kernel checks it'
        : ', which is all that vouches for it';
      expect(reverted.stdout).toBe(
        `${back}: equal to the record${vouches}: ${sizeOf(original)} bytes, sha256 ${sum(original)}\n`,
      );
      const again = JSON.parse(elftrace(['revert', '--json', out, '-o', back]).stdout) as object;
      expect(again).toMatchObject({
        sha256: sum(original),
        checked: { against: 'record', moduleSignatureBytes: file.includes('signed') ? 136 : 0 },
      });
    });
  });

  test('compressed modules: the sum of the unpacked file, and that it is', () => {
    const packed = join(builtSamples, 'x86-64/module-fentry.ko.xz');
    const plain = at('plain.ko');
    writeFileSync(plain, run('xz', ['-dc', packed]));
    expect(elftrace(['patch', packed, '--nop', '-o', at('out.ko.xz')]).status).toBe(0);
    const wanted = `sha256 ${sum(plain)}, before it is compressed (xz)`;
    expect(elftrace(['status', at('out.ko.xz')]).stdout).toContain(wanted);
    const { stdout } = elftrace(['revert', at('out.ko.xz'), '-o', at('back.ko.xz')]);
    expect(stdout).toContain(`sha256 ${sum(plain)} before it was compressed (xz)\n`);
    writeFileSync(at('back.ko'), run('xz', ['-dc', at('back.ko.xz')]));
    expect(sum(at('back.ko'))).toBe(sum(plain));
  });

  test('a file of which bytes outside the record were changed has no way back: status says so, exit 1', () => {
    const bytes = readFileSync(at('ppc64-elfv1-module-mcount.ko'));
    // A letter of the compiler's name.
    bytes[bytes.indexOf('GCC: (')] = 0x55;
    writeFileSync(at('changed.ko'), bytes);
    const { status, stdout } = elftrace(['status', at('changed.ko')]);
    expect([status, stdout]).toEqual([
      1,
      expect.stringContaining('# revert gives nothing: bytes outside the recorded places'),
    ]);
    const json = JSON.parse(elftrace(['status', '--json', at('changed.ko')]).stdout) as { readonly original: object };
    expect(json.original).toMatchObject({ sha256: null, reason: expect.stringContaining('not the original') });
    expect(elftrace(['revert', at('changed.ko'), '-o', at('none')]).status).toBe(2);
  });
});
