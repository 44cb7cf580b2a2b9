/**
 * `npm run test:sabotage`: breaks the built code one line at a time and runs the test that must notice. A breakage that no test
 * notices is a hole in the tests. Works on a copy of build/, so that an interrupted run leaves nothing broken behind.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { breakages, broken, places } from './breakages.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const copy = mkdtempSync(join(tmpdir(), 'elftrace-sabotage-'));
let survived = 0;
try {
  const entries = [
    'package.json',
    'jest.config.js',
    'jest.sequencer.js',
    'samples',
    'schemas',
    'docs',
    'README.md',
    'src',
    'test',
  ];
  for (const entry of entries) {
    symlinkSync(join(root, entry), join(copy, entry));
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  cpSync(join(root, 'build'), join(copy, 'build'), { recursive: true });
  const wanted = process.argv.slice(2);
  for (const each of breakages) {
    if (wanted.length > 0 && !wanted.some((word) => each.name.includes(word))) continue;
    const path = join(copy, 'build', 'src', each.file);
    const good = readFileSync(path, 'utf8');
    const bad = broken(each, good);
    if (places(each, good) !== 1 || bad === good) {
      console.log(`NOT APPLIED  ${each.name} (${each.file})`);
      survived++;
      continue;
    }
    writeFileSync(path, bad);
    const result = spawnSync(
      process.execPath,
      [
        join(copy, 'node_modules', 'jest', 'bin', 'jest.js'),
        '--bail',
        ...(each.named === undefined ? [] : ['--testNamePattern', each.named.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')]),
        join('build', 'test', `${each.test}.test.js`),
      ],
      { cwd: copy, encoding: 'utf8', timeout: 180000 },
    );
    writeFileSync(path, good);
    // Red for any other reason (a name that no test has, a syntax error, the time limit) proves nothing.
    const failed = /^Tests: .*\b[1-9]\d* failed/m.test(result.stderr) && result.status === 1;
    if (!failed) {
      console.log(`SURVIVED     ${each.name} (${each.test}${each.named === undefined ? '' : `: ${each.named}`})`);
      survived++;
    } else console.log(`noticed      ${each.name}`);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
console.log(survived === 0 ? 'every breakage was noticed' : `${survived} breakages were not noticed`);
process.exitCode = survived === 0 ? 0 : 1;
