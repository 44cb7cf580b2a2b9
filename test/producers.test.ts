/**
 * Sites that rustc makes: calls of `mcount` behind the prologue and pads of patchable entries.
 * Where sites must be comes from nm; programs run natively and in the emulator. A toolchain without
 * rustc leaves these tests out.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { warmElftrace as elftrace } from './support/cli.js';
import { run, tool } from './support/tools.js';

const PROGRAM = `
#![no_std]
#![no_main]
#[panic_handler] fn halt(_: &core::panic::PanicInfo) -> ! { loop {} }
#[no_mangle] #[inline(never)] pub fn work(x: u64, y: u64) -> u64 { y.wrapping_mul(31).wrapping_add(x) }
#[no_mangle] pub extern "C" fn main(_: i32, _: *const *const u8) -> i32 {
  let mut sum = 0;
  for i in 0..6 { sum ^= work(core::hint::black_box(i), sum + 7); }
  (sum & 0x3f) as i32
}
`;

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'producers-'));
  writeFileSync(join(folder, 'program.rs'), PROGRAM);
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

const missing = ['rustc', 'x86_64-linux-gnu-gcc', 'nm'].filter((name) => tool(name) === null);
/** Debian's rustc is older than the option, so it cannot be asked for everywhere. */
const hasOption = (): boolean =>
  spawnSync('rustc', ['-Z', 'help'], { env: { ...process.env, RUSTC_BOOTSTRAP: '1' } })
    .stdout.toString()
    .includes('patchable-function-entry');
const why =
  missing.length > 0
    ? `needs ${missing.join(', ')}`
    : process.arch !== 'x64'
      ? 'needs a processor of x86-64'
      : hasOption()
        ? null
        : 'needs a rustc with -Z patchable-function-entry';
const describeRust = why === null ? describe : (): void => undefined;
if (why !== null) {
  test(`sites of rustc are left out: ${why}`, () => {
    process.stderr.write(`left out: sites of rustc: ${why}\n`);
    expect(why).toMatch(/^needs /);
  });
}

describeRust('sites of rustc', () => {
  test.each([
    ['X-SITE-2: calls of mcount behind the prologue', 'instrument-mcount', 'x86-64.call5'],
    ['M-PAD-1: pads of patchable entries, three bytes in front', 'patchable-function-entry=16,3', 'x86-64.patchable-5'],
  ])('%s are found, turned on, executed and reverted', async (_, option, shape) => {
    const path = (name: string): string => join(folder, name);
    const options = ['-O', '-Cpanic=abort', '-Crelocation-model=static', `-Z${option}`, '--emit=obj'];
    const made = spawnSync('rustc', [...options, '-o', path('program.o'), path('program.rs')], {
      env: { ...process.env, RUSTC_BOOTSTRAP: '1' },
    });
    expect([made.status, made.stderr.toString()]).toEqual([0, expect.not.stringContaining('error')]);
    const functions = run('nm', ['--demangle', '--defined-only', path('program.o')])
      .toString()
      .split('\n')
      .flatMap((line) => / [tT] ([^.].*)$/.exec(line)?.[1] ?? []);
    expect(functions).toEqual(expect.arrayContaining(['main', 'work']));
    const listed = await elftrace(['list', path('program.o')]);
    expect(listed.stdout.trim().split('\n').sort()).toEqual(functions.sort());

    run('x86_64-linux-gnu-gcc', ['-static', '-no-pie', path('program.o'), '-o', path('program')]);
    const expected = spawnSync(path('program')).status;
    expect((await elftrace(['verify', path('program')])).stdout).toContain(`${functions.length} ok`);
    expect((await elftrace(['info', path('program')])).stdout).toContain(`${shape}: ${functions.length}`);
    const selected = ['-l', 'work', '-l', 'main'];
    const on = await elftrace(['patch', path('program'), '--enable', ...selected, '-o', path('traced')]);
    expect([on.status, on.stdout]).toEqual([0, expect.stringContaining('2 of 2 sites changed')]);
    expect(spawnSync(path('traced')).status).toBe(expected);
    const seen = await elftrace(['run', '--trace', path('calls'), '--format', 'ftrace', path('traced')]);
    expect(seen.status).toBe(expected);
    // The loop of main goes round six times.
    expect(readFileSync(path('calls'), 'utf8').match(/: work <-main/g)).toHaveLength(6);
    expect((await elftrace(['revert', path('traced'), '-o', path('back')])).status).toBe(0);
    expect(readFileSync(path('back')).equals(readFileSync(path('program')))).toBe(true);
  });
});

/** As little of `core` as functions need that add. */
const FREESTANDING = `
#![feature(no_core, lang_items)]
#![no_core]
#[lang = "pointee_sized"] pub trait PointeeSized {}
#[lang = "meta_sized"] pub trait MetaSized: PointeeSized {}
#[lang = "sized"] pub trait Sized: MetaSized {}
#[lang = "copy"] pub trait Copy {}
impl Copy for u32 {}
#[lang = "add"] pub trait Add<R = Self> { type Output; fn add(self, r: R) -> Self::Output; }
impl Add for u32 { type Output = u32; #[inline(always)] fn add(self, r: u32) -> u32 { self + r } }
extern "C" { fn mix(x: u32) -> u32; }
#[no_mangle] #[inline(never)] pub extern "C" fn work(x: u32, y: u32) -> u32 { unsafe { mix(x + y) + 1 } }
#[no_mangle] #[inline(never)] pub extern "C" fn leaf(x: u32) -> u32 { x + 3 }
`;
const MAIN = `
unsigned work(unsigned, unsigned), leaf(unsigned);
__attribute__((noinline)) unsigned mix(unsigned x) { return x * 31 + 7; }
int main(void) { unsigned sum = 0; for (unsigned i = 0; i < 6; i++) sum ^= work(i, leaf(sum)); return sum & 0x3f; }
`;

interface Made {
  readonly target: string;
  readonly gcc: string;
  readonly qemu: string;
  readonly option: string;
  readonly shape: string;
  readonly rust?: readonly string[];
  /** Options of the linker. */
  readonly link?: readonly string[];
}

/** What rustc makes for each machine, and its sites can be turned on. */
const MADE: readonly Made[] = [
  { target: 'aarch64', gcc: 'aarch64-linux-gnu', qemu: 'aarch64', option: 'patchable-function-entry=4,2',
    rust: ['-Zmin-function-alignment=8'], shape: 'arm64.call-ops' },
  { target: 'aarch64', gcc: 'aarch64-linux-gnu', qemu: 'aarch64', option: 'patchable-function-entry=2', shape: 'arm64.patchable' },
  { target: 'aarch64', gcc: 'aarch64-linux-gnu', qemu: 'aarch64', option: 'instrument-mcount', shape: 'arm64.mcount' },
  { target: 'riscv64gc', gcc: 'riscv64-linux-gnu', qemu: 'riscv64', option: 'patchable-function-entry=4', shape: 'riscv64.patchable-8' },
  {
    target: 'riscv64gc', gcc: 'riscv64-linux-gnu', qemu: 'riscv64', option: 'instrument-mcount', shape: 'riscv64.mcount-pair',
    link: ['-Wl,--no-relax', '-Wl,--defsym=mcount=_mcount'],
  },
  { target: 'powerpc64le', gcc: 'powerpc64le-linux-gnu', qemu: 'ppc64le', option: 'patchable-function-entry=4,2', shape: 'ppc64.patchable-2' },
  { target: 'powerpc64', gcc: 'powerpc64-linux-gnu', qemu: 'ppc64', option: 'patchable-function-entry=2', shape: 'ppc64.patchable-2' },
  { target: 'powerpc64', gcc: 'powerpc64-linux-gnu', qemu: 'ppc64', option: 'instrument-mcount', shape: 'ppc64.pg' },
  { target: 'powerpc', gcc: 'powerpc-linux-gnu', qemu: 'ppc', option: 'patchable-function-entry=2', shape: 'ppc32.patchable-2' },
]; // prettier-ignore

const describeCross =
  why === null && MADE.every(({ gcc, qemu }) => tool(`${gcc}-gcc`) !== null && tool(`qemu-${qemu}`) !== null)
    ? describe
    : (): void => undefined;

describeCross('sites of rustc on other machines', () => {
  test.each(MADE)('M-PROD-8: $target $option: found, turned on, executed and reverted', async (made) => {
    const path = (name: string): string => join(folder, `${made.target}-${name}`);
    writeFileSync(path('r.rs'), FREESTANDING);
    writeFileSync(path('main.c'), MAIN);
    const options = [
      '-O',
      '-Cpanic=abort',
      '-Crelocation-model=static',
      `-Z${made.option}`,
      ...(made.rust ?? []),
      '--emit=obj',
      '--crate-type=lib',
    ];
    const rustc = spawnSync(
      'rustc',
      [...options, '--target', `${made.target}-unknown-linux-gnu`, '-o', path('r.o'), path('r.rs')],
      { env: { ...process.env, RUSTC_BOOTSTRAP: '1' } },
    );
    expect([rustc.status, rustc.stderr.toString()]).toEqual([0, expect.not.stringContaining('error')]);
    expect((await elftrace(['list', path('r.o')])).stdout.trim().split('\n').sort()).toEqual(['leaf', 'work']);
    const link = ['-O1', '-static', '-no-pie', ...(made.link ?? [])];
    run(`${made.gcc}-gcc`, [...link, path('main.c'), path('r.o'), '-o', path('program')]);
    expect((await elftrace(['info', path('program')])).stdout).toContain(made.shape);
    const ran = (name: string): number | null => spawnSync(`qemu-${made.qemu}`, [path(name)]).status;
    const expected = ran('program');
    const on = await elftrace(['patch', path('program'), '--enable', '-l', 'work', '-l', 'leaf', '-o', path('on')]);
    expect([on.status, on.stdout]).toEqual([0, expect.stringContaining('2 of 2 sites changed')]);
    expect(ran('on')).toBe(expected);
    const seen = await elftrace(['run', '--trace', path('calls'), '--format', 'ftrace', path('on')]);
    expect(seen.status).toBe(expected);
    expect(readFileSync(path('calls'), 'utf8').match(/: (work|leaf) <-main/g)).toHaveLength(12);
    expect((await elftrace(['revert', path('on'), '-o', path('back')])).status).toBe(0);
    expect(readFileSync(path('back')).equals(readFileSync(path('program')))).toBe(true);
  });
});
