/**
 * The core and the modules for the loader, linked by `ld` with the runtime: what they print
 * untraced, they print under the graph tracer.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { RING_HEADER } from '../src/runtime/index.js';
import { TARGETS } from './support/c-programs.js';
import { linkSamples, runTracedQemu, startTraced, valueOf } from './support/runtime-harness.js';
import { root } from './support/pipeline.js';
import { describeWith } from './support/tools.js';

const expected = readFileSync(join(root, 'samples/expected/loaded.txt'), 'utf8');

/**
 * Calls of functions with a site in one run, the same on every target: the sources do not depend on
 * it.
 */
const counts = new Set<number>();

for (const target of TARGETS) {
  const suffixes = target.name === 'ppc64-elfv1' ? ['', '-mprofile'] : [''];
  describeWith([target.gcc, target.qemu], `loaded samples on ${target.name}`, () => {
    test.each(suffixes)('T-PPC-9, C-FG-2: core%s and its modules', (suffix) => {
      const isCall = target.name === 'ppc32' || (target.name === 'ppc64-elfv1' && suffix === '');
      const flavour = isCall ? 'pg' : 'regs';
      const paths = [`core${suffix}.o`, `far-one${suffix}.ko`, `far-two${suffix}.ko`].map((name) =>
        join(root, 'samples/built', target.name, name),
      );
      for (const tracer of ['none', 'graph'] as const) {
        const path = linkSamples(target, flavour, paths, tracer);
        expect(runTracedQemu(target, path)).toMatchObject({ output: expected, end: 51 });
        const { process, output } = startTraced(target, path);
        expect(process.run({ budget: 10_000_000 })).toMatchObject({ kind: 'exit', code: 51 });
        expect(output[1]).toBe(expected);
        const image = readElf(new Uint8Array(readFileSync(path)));
        const ring = process.machine.memory.read(valueOf(image, 'elftrace_ring_memory'), 64)!;
        const head = new DataView(ring.buffer, ring.byteOffset).getBigUint64(
          RING_HEADER.head,
          image.header.endian === 'little',
        );
        if (tracer === 'none') expect(head).toBe(0n);
        else counts.add(Number(head) / 2);
      }
      expect(counts.size).toBe(1);
    });
  });
}
