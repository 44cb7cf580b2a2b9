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
const why =
  missing.length > 0 ? `needs ${missing.join(', ')}` : process.arch === 'x64' ? null : 'needs a processor of x86-64';
// Debian's rustc is older than these options, so it cannot be asked for everywhere.
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
    const functions = run('nm', ['--defined-only', path('program.o')])
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
