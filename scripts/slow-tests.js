/**
 * `npm run test:slow [N]`: the slowest N files (20) and tests of the last run of all tests, as its
 * reporter recorded them. Without long proofs a file of more than 20 s is marked: it is what the
 * run may end up waiting for.
 */
import { existsSync, readFileSync } from 'node:fs';

const path = new URL('../build/test-times.json', import.meta.url);
const count = Number(process.argv[2] ?? 20);
const seconds = (ms) => `${(ms / 1000).toFixed(1).padStart(7)} s`;

if (!existsSync(path)) {
  console.error('no times: run `npm test` first');
  process.exitCode = 2;
} else {
  const files = JSON.parse(readFileSync(path, 'utf8'));
  const total = files.reduce((sum, { ms }) => sum + ms, 0);
  console.log(`${files.length} files, ${seconds(total).trim()} of one core`);
  for (const { name, ms, tests } of files.slice(0, count)) {
    console.log(`${seconds(ms)}${ms > 20_000 ? ' !' : '  '} ${name} (${tests} tests)`);
  }
  console.log('tests:');
  const slow = files.flatMap(({ name, slow }) => slow.map((each) => ({ ...each, file: name })));
  for (const { file, name, ms } of slow.sort((a, b) => b.ms - a.ms).slice(0, count)) {
    console.log(`${seconds(ms)}   ${file}: ${name}`);
  }
}
