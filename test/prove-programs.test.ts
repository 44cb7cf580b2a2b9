/**
 * Programs as compilers and C libraries make them: with a thread pointer, vectors, and functions
 * that no sample has.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { warmElftrace as elftrace } from './support/cli.js';
import { isLong } from './support/long.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-prove-programs-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const at = (name: string): string => join(folder, name);

const SOURCE = `
/* What has thread-local data has a thread pointer, by which the tracer tells threads apart. */
__thread int own;
int next(int by) { return own += by; }
double mean(const double *v, int n) { double s = 0; for (int i = 0; i < n; i++) s += v[i]; return s / n; }
struct big { long a[8]; } make(int x) { struct big b; for (int i = 0; i < 8; i++) b.a[i] = x; return b; }
__int128 wide(__int128 a, __int128 b) { return a * b; }
void _start(void) { next(1); }
__asm__(".globl __fentry__, mcount\\n__fentry__:\\nmcount: ret");
`;

describeWith(['x86_64-linux-gnu-gcc'], 'programs with a thread pointer', () => {
  const ways = [
    ['-O2', '-pg', '-mfentry', '-mrecord-mcount'],
    ['-O0', '-pg'],
  ] as const;
  test.each(isLong ? ways : ways.slice(0, 1))(
    'PV-3: unmapped: what tells threads apart is there: %s %s',
    (...options: readonly string[]) => {
      const compile = ['-static', '-nostdlib', '-no-pie', '-w', '-x', 'c', '-', '-o', at('program')];
      run('x86_64-linux-gnu-gcc', [...options, ...compile], SOURCE);
      for (const tracer of ['function', 'function_graph']) {
        const patched = elftrace(['patch', at('program'), '--enable', '--tracer', tracer, '-o', at('traced')]);
        expect([patched.status, patched.status === 0 ? '' : patched.stderr]).toEqual([0, '']);
        const { status, stdout } = elftrace(['prove', at('traced')]);
        expect([status, stdout]).toEqual([0, expect.stringMatching(/ 5 proved, 0 unchanged, 0 different, 0 inc/)]);
      }
    },
  );
});
