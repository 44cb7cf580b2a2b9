/**
 * Functions that read their own return address, as kernels do for tracepoints, or the clock, or
 * that copy parts of their stack. Under a graph tracer that address is the handler's, wherever the
 * function puts it: that is no fault of the patch, in the first call or in one after it.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { graphProofs } from './support/graph-proofs.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-own-return-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

const SOURCE = `
typedef unsigned long word;
word returned(void) { return (word)__builtin_return_address(0); }
void stored(word *to) { to[0] = (word)__builtin_return_address(0); }
struct __attribute__((packed)) odd { char first; word second; };
void unaligned(struct odd *to) { to->second = (word)__builtin_return_address(0); }
/* Some bytes of it, one by one; the last one may not stay in a register of results. */
void copied(volatile char *to) {
  const char *from = __builtin_frame_address(0);
  for (int i = 0; i < COPIED; i++) to[i] = from[i];
}
/* Two readings of the clock, with the tracer's instructions in front of them. */
#ifdef __x86_64__
#define CLOCK() __builtin_ia32_rdtsc()
#else
#define CLOCK() ({ word now; __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now)); now; })
#endif
word timed(word *to) {
  word before = CLOCK();
  to[0] = before;
  return CLOCK() - before;
}
/* Some bits of it are others: bytes that differ are still its. */
word cut(void) { return (word)__builtin_return_address(0) & ~255ul; }
/* What is computed from it is not it: nobody knows what the program makes of that. */
word changed(void) { return (word)__builtin_return_address(0) + 1; }
void summed(word *to) {
  const word *from = __builtin_frame_address(0);
  word sum = 0;
  for (int i = 0; i < 2; i++) to[i] = sum = 3 * sum + from[i];
}
`;

describeWith(['x86_64-linux-gnu-gcc', 'aarch64-linux-gnu-gcc'], 'return addresses that functions read', () => {
  test.each([
    [
      'x86-64',
      'x86_64-linux-gnu-gcc',
      ['-pg', '-mfentry', '-mrecord-mcount', '-fno-pie', '-fcf-protection=none', '-DCOPIED=13'],
    ],
    ['arm64', 'aarch64-linux-gnu-gcc', ['-fpatchable-function-entry=2', '-fno-pie', '-DCOPIED=16']],
  ] as const)('PV-2: %s', async (_name, compiler, options) => {
    const [source, object] = [join(folder, 'own.c'), join(folder, `${compiler}.o`)];
    writeFileSync(source, SOURCE);
    const common = ['-O2', '-fno-omit-frame-pointer', '-fno-tree-loop-distribute-patterns', '-fno-tree-vectorize'];
    run(compiler, [...common, ...options, '-c', source, '-o', object]);
    const [sites, { unexplained }] = await graphProofs(readElf(new Uint8Array(readFileSync(object))), 24);
    expect(unexplained).toEqual([]);
    const verdicts = Object.fromEntries(
      sites.map(({ function: name, verdict }) => [name.replace(/\+.*/, ''), verdict]),
    );
    expect(verdicts).toEqual({
      returned: 'proved',
      stored: 'proved',
      unaligned: 'proved',
      copied: 'proved',
      timed: 'proved',
      cut: 'proved',
      changed: 'inconclusive',
      summed: 'inconclusive',
    });
  });
});
