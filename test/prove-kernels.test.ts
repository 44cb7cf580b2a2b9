/** Proofs of images at the addresses of kernels: what their code finds through registers. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples } from './support/pipeline.js';
import { proof } from './support/proof.js';
import { describeWith, run } from './support/tools.js';

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

/** A kernel with entries of its own, which ask the processor's block whether tracing is on. */
const OWN_ENTRIES = `
__attribute__((noinline)) long leaf(long a, long b) { return a * 3 + b; }
__attribute__((noinline)) long outer(long a, long b) { return leaf(a, b) + leaf(b, a); }
void _start(void) { outer(1, 2); for (;;); }
__asm__(
  ".globl ftrace_caller, ftrace_regs_caller, _mcount\\n"
  ".type ftrace_caller, @function\\n.type ftrace_regs_caller, @function\\n.type _mcount, @function\\n"
  "ftrace_caller: ftrace_regs_caller:\\n"
  "mflr 12\\nmtctr 12\\nlbz 12, 2579(13)\\nmtlr 0\\nbctr\\n"
  "_mcount: mflr 12\\nmtctr 12\\nmtlr 0\\nbctr\\n");
`;

describeWith(['powerpc64le-linux-gnu-gcc'], 'kernels with entries of their own', () => {
  test('PV-1 PV-3: ppc64-elfv2-le: the register of the processor’s block leads to memory', async () => {
    const [source, original, patched] = ['own.c', 'own', 'own.on'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    writeFileSync(source, OWN_ENTRIES);
    const options = ['-O2', '-mcpu=power8', '-pg', '-mprofile-kernel', '-nostdlib', '-static', '-fno-pie', '-no-pie'];
    run('powerpc64le-linux-gnu-gcc', [...options, '-Wl,-Ttext=0xc000000000000000', source, '-o', original]);
    expect(elftrace(['patch', original, '--enable', '-o', patched]).status).toBe(0);
    const { summary } = await proof(bytesOf(original), bytesOf(patched));
    expect(summary).toMatchObject({ proved: 3, different: 0, inconclusive: 0 });
  });
});
