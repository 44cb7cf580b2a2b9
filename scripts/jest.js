/**
 * `node scripts/jest.js [ARGS OF JEST]`: jest on what is built, with the options of V8 under which
 * tests take the least of CPU time (why: jest.config.js). `npm test` and loop.js start it.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
// V8 12 (Node 22) counts calls in place of bytes, and refuses what it does not know.
const countsBytes = Number.parseInt(process.versions.v8, 10) <= 11;
const options = ['--single-threaded-gc', ...(countsBytes ? ['--interrupt-budget=200000'] : [])];
const jest = join(root, 'node_modules', 'jest', 'bin', 'jest.js');
const { status } = spawnSync(process.execPath, [...options, jest, ...process.argv.slice(2)], {
  cwd: root,
  stdio: 'inherit',
});
process.exitCode = status ?? 1;
