/**
 * Landing pads of arm64 (BTI): what processors check where the property of an executable says so.
 * Programs run here and under qemu-aarch64 -cpu max, which checks them, too; what would trap is
 * refused, or enters its target by a return.
 */
import { chmodSync, copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { warmElftrace as elftrace } from './support/cli.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'landing-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
let fileNumber = 0;
const fresh = (name: string): string => join(mkdtempSync(join(folder, `${++fileNumber}-`)), name);

const gcc = 'aarch64-linux-gnu-gcc';
const guarded = ['-fpatchable-function-entry=4,2', '-falign-functions=8', '-mbranch-protection=bti'];
const common = ['-O2', '-w', '-ffreestanding', '-fno-stack-protector', '-fno-asynchronous-unwind-tables'];

function compile(source: string, language: 'c' | 'assembler', flags: readonly string[] = []): string {
  const output = fresh('part.o');
  run(gcc, [...common, ...flags, '-c', '-x', language, '-', '-o', output], source);
  return output;
}

/** Exits with what leaf returns; the first argument of leaf is 4. */
const CORE = `
__attribute__((noinline)) int leaf(int a) { return a + 3; }
extern int bare(int);
__attribute__((noinline)) int call(int (*f)(int), int a) { return f(a) + bare(0); }
int (*volatile pointer)(int) = POINTER;
void _start(void) {
  register long x0 asm("x0") = leaf(4) + call(pointer, 4);
  register long x8 asm("x8") = 93;
  asm volatile("svc 0" : : "r"(x0), "r"(x8));
}
`;
/** A function without a landing pad, as hand-written code has them. */
const BARE = '.globl bare\n.type bare,@function\nbare: ret\n.size bare,.-bare\n';

function core(pointer = 'leaf', property = true): string {
  const output = fresh('core');
  const parts = [compile(CORE.replace('POINTER', pointer), 'c', guarded), compile(BARE, 'assembler')];
  // The bare function has no property, so the linker is told that the program has it all the same.
  run('aarch64-linux-gnu-ld', [...(property ? ['-z', 'force-bti'] : []), '-o', output, ...parts]);
  return output;
}

/** Exit status, or the signal as shells say it. */
function ways(path: string): (number | null)[] {
  chmodSync(path, 0o755);
  const { status, signal } = spawnSync('qemu-aarch64', ['-cpu', 'max', path], { encoding: 'utf8', timeout: 20_000 });
  return [elftrace(['run', path]).status, signal === 'SIGILL' ? 132 : status];
}

describeWith([gcc, 'aarch64-linux-gnu-ld', 'qemu-aarch64'], 'landing pads', () => {
  test('calls through pointers trap without a pad where the property says so, here and under qemu', () => {
    expect(ways(core())).toEqual([14, 14]);
    expect(ways(core('bare'))).toEqual([132, 132]);
    expect(ways(core('bare', false))).toEqual([11, 11]);
  });

  test('M-PAD-5: a direct caller without a pad is refused, one with a pad runs', () => {
    const program = core();
    // It returns to the caller of `leaf` in its place.
    const direct = (first: string): string =>
      compile(
        `.globl mine\n.type mine,@function\nmine: ${first}\n add x0, x0, #1\n ret x9\n.size mine,.-mine\n`,
        'assembler',
      );
    for (const pad of ['hint #34', 'hint #38', 'paciasp; autiasp']) {
      const output = fresh('patched');
      const made = elftrace(['patch', program, '--direct', 'leaf=mine', '--with', direct(pad), '-o', output]);
      expect([made.status, made.stderr]).toEqual([0, expect.not.stringContaining('error')]);
      expect(ways(output)).toEqual([10, 10]);
    }
    for (const none of ['nop', 'hint #32', 'hint #36']) {
      const output = fresh('refused');
      const args = ['patch', program, '--direct', 'leaf=mine', '--with', direct(none), '-o', output];
      const { status, stderr } = elftrace(args);
      expect([status, stderr]).toEqual([
        2,
        expect.stringMatching(/mine at 0x[0-9a-f]+ does not begin with bti c.*\[M-PAD-5\] \[no-landing-pad\]/),
      ]);
      expect(existsSync(output)).toBe(false);
    }
    const unchecked = fresh('unchecked');
    const args = ['patch', core('leaf', false), '--direct', 'leaf=mine', '--with', direct('nop'), '-o', unchecked];
    expect(elftrace(args).status).toBe(0);
    expect(ways(unchecked)).toEqual([10, 10]);
  });

  test('M-PAD-5: a stub to a function without a pad is refused by load', () => {
    const far = (callee: string, name = 'far'): string =>
      compile(`extern int ${callee}(int); int ${name}(int a) { return ${callee}(a) + 1; }`, 'c', guarded);
    const output = fresh('image');
    expect(elftrace(['load', core(), far('leaf'), '-o', output]).status).toBe(0);
    const refused = fresh('image');
    const { status, stderr } = elftrace(['load', core(), far('bare'), '-o', refused]);
    expect([status, stderr]).toEqual([
      2,
      expect.stringMatching(/the call of bare needs a stub: bare at .*\[M-PAD-5\] \[no-landing-pad\]/),
    ]);
    expect(existsSync(refused)).toBe(false);
    expect(elftrace(['load', core('leaf', false), far('bare'), '-o', refused]).status).toBe(0);
    // The same of a module that comes to an image.
    const late = fresh('late.o');
    copyFileSync(far('bare', 'later'), late);
    expect(elftrace(['load', output, late, '-o', fresh('more')]).stderr).toContain('[no-landing-pad]');
  });

  test('M-PAD-4: verify finds functions without a pad that pointers lead to, where pads are checked', () => {
    const source = 'int plain(int a) { return a * 2; }';
    const build = (pointer: string, flags: readonly string[], options: readonly string[] = []): string => {
      const output = fresh('core');
      const code = CORE.replace('int (*vol', 'extern int plain(int);\nint (*vol').replace('POINTER', pointer);
      const parts = [compile(code, 'c', guarded), compile(BARE, 'assembler'), compile(source, 'c', flags)];
      run('aarch64-linux-gnu-ld', ['-z', 'force-bti', ...options, '-o', output, ...parts]);
      return output;
    };
    const without = guarded.slice(0, 2);
    const verdict = (path: string): [number | null, string] => {
      const { status, stdout } = elftrace(['verify', path]);
      return [status, stdout];
    };
    const bad = build('plain', without);
    expect(verdict(bad)).toEqual([1, expect.stringMatching(/\(plain\+?.*\): error: no-landing-pad: .*\[M-PAD-4\]/)]);
    expect(ways(bad)).toEqual([132, 132]);
    expect(verdict(build('plain', without, ['-pie', '--no-dynamic-linker']))).toEqual([
      1,
      expect.stringContaining('error: no-landing-pad'),
    ]);
    for (const good of [build('plain', guarded), build('leaf', without)]) {
      expect(verdict(good)[0]).toBe(0);
      expect(ways(good)[0]).toBe(ways(good)[1]);
      expect(ways(good)[0]).not.toBe(132);
    }
  });

  test('a livepatched function needs no pad: it is entered by a return', () => {
    const replacement = compile('int leaf_new(int a) { return a + 5; }', 'c');
    const output = fresh('patched');
    const args = ['patch', core(), '--livepatch', 'leaf=leaf_new', '--with', replacement, '-o', output];
    expect(elftrace(args).status).toBe(0);
    expect(ways(output)).toEqual([18, 18]);
  });
});
