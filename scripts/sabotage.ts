/**
 * `npm run test:sabotage`: breaks the built code one line at a time and runs the test that must
 * notice. A breakage that no test notices is a hole in the tests; so is a test that is red without
 * it. Works on a copy of build/, so that an interrupted run leaves nothing broken behind.
 *
 * With `--prove` the broken code patches samples instead, and the healthy code proves what comes
 * out: which breakages of code that writes files does `prove` find alone? `--images N`: in so many
 * images in which a breakage could show, and not in all. `--file FILE` keeps what was found;
 * `--write` makes docs/broken-tools.md of all that it has.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Breakage, breakages, broken, places } from './breakages.js';
import { keep, writePage } from './sabotage-page.js';
import { judge, writesFiles } from './sabotage-prove.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const copy = mkdtempSync(join(tmpdir(), 'elftrace-sabotage-'));

/** Tests that run the command line run the bundle, which then must be made of the copy's code. */
function runsBundle(test: string): boolean {
  const text = readFileSync(join(copy, 'build', 'test', `${test}.test.js`), 'utf8');
  return /support\/(?:cli|cli-server|run)\.js|'dist/.test(text);
}

/**
 * How the test of a breakage ends in the copy: `other` is a name that no test has, a syntax error
 * or the time limit.
 */
function outcome({ test, named }: Breakage): 'green' | 'red' | 'other' {
  if (runsBundle(test)) spawnSync(process.execPath, [join(copy, 'build', 'scripts', 'bundle.js')], { cwd: copy });
  const { status, stderr } = spawnSync(
    process.execPath,
    [
      '--single-threaded-gc',
      join(copy, 'node_modules', 'jest', 'bin', 'jest.js'),
      '--bail',
      ...(named === undefined ? [] : ['--testNamePattern', named.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')]),
      join('build', 'test', `${test}.test.js`),
    ],
    { cwd: copy, encoding: 'utf8', timeout: 180000, maxBuffer: 1 << 28, env: { ...process.env, ELFTRACE_LONG: '1' } },
  );
  if (status === 0 && /^Tests: .*\b[1-9]\d* passed/m.test(stderr)) return 'green';
  return status === 1 && /^Tests: .*\b[1-9]\d* failed/m.test(stderr) ? 'red' : 'other';
}

/**
 * What the tests say of the code as it is, by test file and title: red before a breakage says
 * nothing about the breakage.
 */
const before = new Map<string, ReturnType<typeof outcome>>();
function outcomeBefore(each: Breakage): ReturnType<typeof outcome> {
  const key = JSON.stringify([each.test, each.named]);
  const known = before.get(key) ?? outcome(each);
  before.set(key, known);
  return known;
}

/** One breakage, made and taken back; the word that the list prints. */
function tryOut(each: Breakage): 'noticed' | 'SURVIVED' | 'NOT APPLIED' | 'NOT GREEN' {
  const path = join(copy, 'build', 'src', each.file);
  const good = readFileSync(path, 'utf8');
  if (places(each, good) !== 1) return 'NOT APPLIED';
  if (outcomeBefore(each) !== 'green') return 'NOT GREEN';
  writeFileSync(path, broken(each, good));
  const after = outcome(each);
  writeFileSync(path, good);
  return after === 'red' ? 'noticed' : 'SURVIVED';
}

/** One breakage, as `prove` sees it. */
async function tryProof(each: Breakage): Promise<string> {
  const path = join(copy, 'build', 'src', each.file);
  const good = readFileSync(path, 'utf8');
  if (places(each, good) !== 1) return 'NOT APPLIED';
  writeFileSync(path, broken(each, good));
  const { said, image } = await judge(each, join(copy, 'build'), join(root, 'build'), mostImages);
  writeFileSync(path, good);
  const images = Number.isFinite(mostImages) ? mostImages : null;
  if (resultFile !== null) keep(resultFile, { name: each.name, said, image, images });
  return image === '' ? said : `${said.padEnd(12)} [${image}]`;
}

const words = process.argv.slice(2);
const imagesAt = words.indexOf('--images');
const mostImages = imagesAt < 0 ? Infinity : Number(words.splice(imagesAt, 2)[1]);
const fileAt = words.indexOf('--file');
const resultFile = fileAt < 0 ? null : words.splice(fileAt, 2)[1]!;
const writeAt = words.indexOf('--write');
const isWritten = writeAt >= 0 && words.splice(writeAt, 1).length > 0;

let unnoticed = 0;
try {
  const entries = [
    'package.json',
    'jest.config.js',
    'jest.sequencer.js',
    'jest.reporter.js',
    'samples',
    'schemas',
    'docs',
    'README.md',
  ];
  for (const entry of [...entries, 'src', 'test', 'node_modules']) {
    symlinkSync(join(root, entry), join(copy, entry));
  }
  cpSync(join(root, 'build'), join(copy, 'build'), { recursive: true });
  const byProof = words.includes('--prove');
  const wanted = words.filter((word) => word !== '--prove');
  for (const each of breakages) {
    if (wanted.length > 0 && !wanted.some((word) => each.name.includes(word))) continue;
    if (byProof) {
      if (writesFiles(each)) console.log(`${(await tryProof(each)).padEnd(12)} ${each.name}`);
      continue;
    }
    const word = tryOut(each);
    if (word !== 'noticed') unnoticed++;
    console.log(`${word.padEnd(12)} ${each.name} (${each.test}${each.named === undefined ? '' : `: ${each.named}`})`);
  }
  if (isWritten && resultFile !== null) {
    writePage(join(root, 'docs', 'broken-tools.md'), resultFile, breakages.filter(writesFiles));
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
console.log(unnoticed === 0 ? 'every breakage was noticed' : `${String(unnoticed)} breakages were not noticed`);
process.exitCode = unnoticed === 0 ? 0 : 1;
