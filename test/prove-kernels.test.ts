/** Proofs of images at the addresses of kernels: what their code finds through registers. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples } from './support/pipeline.js';
import { proof } from './support/proof.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-prove-kernels-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const bytesOf = (path: string): Uint8Array => new Uint8Array(readFileSync(path));

/** An image at the addresses of a kernel, and the same with tracers. */
function madeOf(
  target: string,
  parts: readonly string[],
  options: readonly string[],
): Record<'original' | 'patched', Uint8Array> {
  const [original, patched] = [join(folder, 'original'), join(folder, 'patched')];
  const files = parts.map((part) => join(builtSamples, target, part));
  for (const args of [
    ['load', ...files, '--base', 'kernel', '-o', original],
    ['patch', original, ...options, '-o', patched],
  ]) {
    const { status, stderr } = elftrace(args);
    expect([args[0], status, status === 0 ? '' : stderr]).toEqual([args[0], 0, '']);
  }
  return { original: bytesOf(original), patched: bytesOf(patched) };
}

describe.each([
  ['ppc64-elfv1', ['core-mprofile.o', 'far-one-mprofile.ko']],
  ['ppc64-elfv2-be', ['core.o', 'far-one.ko']],
  ['ppc64-elfv2-le', ['core.o', 'far-one.ko']],
])('%s', (target, parts) => {
  test.each([[['--enable']], [['--tracer', 'function_graph', '--enable']]])(
    'PV-1 P-STUB-5: stubs of modules find the TOC of the core in the per-CPU area: %s',
    async (options) => {
      const { original, patched } = madeOf(target, parts, options);
      const good = (await proof(original, patched)).summary;
      expect(good).toMatchObject({ different: 0, inconclusive: 0, unexplained: [] });
      expect(good.proved).toBeGreaterThan(10);
      // The twin: an area that names another TOC. Sites of the core do not read it.
      for (const bytes of [original, patched]) {
        const area = readElf(bytes).section('.data.elftrace_paca')!;
        bytes.fill(0x55, area.offset + 16, area.offset + 24);
      }
      const { proved, different } = (await proof(original, patched)).summary;
      expect([proved + different, different > 0, proved > 0]).toEqual([good.proved, true, true]);
    },
  );
});
