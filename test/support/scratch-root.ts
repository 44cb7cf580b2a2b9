/**
 * Temporary folders of a test run: jest calls `setup` before the first test file. Every file and
 * every program that they start finds its temporary folders in one, which goes with all that is
 * left in it when the process ends.
 */
import { chmodSync, copyFileSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';

const PREFIX = 'elftrace-tests-';
const IN_MEMORY = '/dev/shm';

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Of another user: it lives.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/**
 * Removes the folders of runs that were killed: their names have the numbers of their processes.
 */
function removeOfTheDead(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1];
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(parent, name), { recursive: true, force: true });
  }
}

/** What a run of all tests writes is half of it. */
const ENOUGH_BYTES = 4 * 1024 ** 3;

/** Whether programs may be executed there. */
function isExecutable(folder: string): boolean {
  const own = mkdtempSync(join(folder, PREFIX));
  try {
    const program = join(own, 'program');
    copyFileSync('/bin/true', program);
    chmodSync(program, 0o755);
    return spawnSync(program).status === 0;
  } finally {
    rmSync(own, { recursive: true });
  }
}

/**
 * Where tests write: files in memory where there is room for them. On a disk, making and removing
 * them is a fifth of the CPU time of a run. Who names a folder in TMPDIR gets that one.
 */
function parentOfAll(): string {
  if (process.env['TMPDIR'] !== undefined) return tmpdir();
  try {
    const { bavail, bsize } = statfsSync(IN_MEMORY);
    const isRoomy = bavail * bsize >= ENOUGH_BYTES && freemem() >= 2 * ENOUGH_BYTES;
    if (isRoomy && isExecutable(IN_MEMORY)) return IN_MEMORY;
  } catch {
    // There is none, or it is not ours to write.
  }
  return tmpdir();
}

/** Makes the folder of this run and names it in TMPDIR. */
function setup(): void {
  const parent = parentOfAll();
  removeOfTheDead(parent);
  const folder = mkdtempSync(join(parent, `${PREFIX}${String(process.pid)}-`));
  process.env['TMPDIR'] = folder;
  process.once('exit', () => {
    rmSync(folder, { recursive: true, force: true });
  });
}
// Jest wants a default export.
export { setup as default };
