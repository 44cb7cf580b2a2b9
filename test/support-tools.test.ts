/** A program file that somebody still has open for writing is run as soon as he closes it. */
import { spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { spawnSync } from './support/spawn.js';
import { describeWith, tool } from './support/tools.js';

describeWith(['true', 'sh'], 'programs just written', () => {
  test('the run waits until nobody writes it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'elftrace-busy-'));
    const path = join(folder, 'program');
    copyFileSync(tool('true')!, path);
    // The process that starts programs takes longer to start than the file is open.
    spawnSync(tool('true')!);
    // It says so when it has the file open, and lets it go a little later.
    const writer = spawn('sh', ['-c', `exec 3>>'${path}'; echo open; sleep 0.2`], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    await new Promise((resolve) => writer.stdout.once('data', resolve));
    const { status, error } = spawnSync(path);
    expect([status, error]).toEqual([0, undefined]);
    rmSync(folder, { recursive: true });
  });
});
