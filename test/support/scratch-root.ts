/**
 * Temporary folders of a test run: jest calls `setup` before the first test file. Every file and
 * every program that they start finds its temporary folders in one, which goes with all that is
 * left in it when the process ends.
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PREFIX = 'elftrace-tests-';

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

/** Makes the folder of this run and names it in TMPDIR. */
function setup(): void {
  const parent = tmpdir();
  removeOfTheDead(parent);
  const folder = mkdtempSync(join(parent, `${PREFIX}${String(process.pid)}-`));
  process.env['TMPDIR'] = folder;
  process.once('exit', () => {
    rmSync(folder, { recursive: true, force: true });
  });
}
// Jest wants a default export.
export { setup as default };
