/**
 * `npm run test:sabotage -- --prove`: what `prove` alone says of files that a broken tool wrote.
 * The broken build patches the samples, a healthy one judges what comes out (PV-5).
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { prove } from '../src/prove/index.js';
import { type MutantImage, mutantImages, originalOf } from '../test/support/mutant-images.js';
import { builtSamples } from '../test/support/pipeline.js';
import type { Breakage } from './breakages.js';

/** Code that decides what is written into files. */
const WRITING =
  /^(?:runtime|tracing|patch|program|ftrace|kprobes|sites|relocs|machine|elf|arch-(?:x86|arm64|riscv|ppc))\//;
/** Code of the same folders that executes, or reads and says. */
const READING =
  /(?:lift|emulation|float|float-lift|vectors?|vector-rows|float-rows|x87|signals|transcendental|proof|verdicts|table-lint|chain|filter|gnu-property|live)\.js$/;

export const writesFiles = ({ file }: Breakage): boolean => WRITING.test(file) && !READING.test(file);

/**
 * `found`: a proof is not a yes. `refused`: fewer files are written. `same`: all files are what
 * they are without it. `NOT FOUND`: a file is another one, and is proved.
 */
export type Judgement = 'found' | 'refused' | 'same' | 'NOT FOUND';

const targetsOf: Readonly<Record<string, readonly string[]>> = {
  'arch-x86': ['x86-64'],
  'arch-arm64': ['arm64'],
  'arch-riscv': ['riscv64'],
  'arch-ppc': ['ppc32', 'ppc64-elfv1', 'ppc64-elfv2-le'],
};
const ways = ['function', 'graph', 'counter', 'list', 'direct', 'livepatch', 'probe', 'return-two', 'jump-arguments'];
/** Code of no machine is tried in one convention of some: each way is served there. */
const conventions = ['arm64/regs', 'x86-64/modern', 'ppc64-elfv1/regs', 'riscv64/g2', 'ppc32/regs'];

/** Modules whose sites are turned off, taken out of the table, brought into their first form. */
const modules = readdirSync(builtSamples, { recursive: true, encoding: 'utf8' })
  .filter((path) => /\/(?:module|far-one)[^/]*\.ko$/.test(path))
  .sort();
const requests: Readonly<Record<string, readonly string[]>> = {
  nop: ['--nop', '--partial'],
  'nop-some': ['--nop', '--partial', '-l', '*_*'],
  untrace: ['--untrace', '--partial'],
  'untrace-some': ['--untrace', '--partial', '-l', '*_*'],
  init: ['--init', '--partial'],
};
const moduleImages: readonly MutantImage[] = modules.flatMap((sample) =>
  Object.entries(requests).map(([way, options]) => ({ name: `${sample} ${way}`, sample, options })),
);

/** All images, by name. */
export const imageNamed = (name: string): MutantImage | undefined =>
  [...moduleImages, ...mutantImages].find((each) => each.name === name);

/** Images in which a breakage could show, in the order in which they are tried. */
export function imagesFor({ file }: Breakage): readonly MutantImage[] {
  const folder = file.split('/')[0]!;
  const targets = targetsOf[folder];
  const isOfTarget = ({ name }: MutantImage): boolean =>
    targets === undefined || targets.some((target) => name.startsWith(`${target}/`));
  const objectOf = ({ name }: MutantImage): string => name.split(' ')[0]!.replace('+probes', '');
  const order = (image: MutantImage): number => (conventions.indexOf(objectOf(image)) + 100) % 100;
  const programs = mutantImages
    .filter((image) => {
      if (!ways.includes(image.name.split(' ')[1]!)) return false;
      if (targets !== undefined) return isOfTarget(image);
      return folder === 'runtime' || conventions.includes(objectOf(image));
    })
    .sort((x, y) => order(x) - order(y));
  // Code of no machine shows in a few modules of some.
  const isFew = ({ name }: MutantImage): boolean =>
    targets !== undefined || /^(?:x86-64|arm64|ppc64-elfv1)\/.*\b(?:some|init)$/.test(name);
  return [...moduleImages.filter((image) => isOfTarget(image) && isFew(image)), ...programs];
}

/** What a build writes for images, by their names; null: nothing. */
function filesOf(build: string, images: readonly MutantImage[]): ReadonlyMap<string, Uint8Array | null> {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-sabotage-files-'));
  try {
    const script = join(build, 'scripts', 'sabotage-files.js');
    const names = images.map(({ name }) => name);
    spawnSync(process.execPath, [script, folder, ...names], { timeout: 600_000, stdio: 'ignore' });
    return new Map(
      names.map((name, i) => {
        const path = join(folder, String(i));
        return [name, existsSync(path) ? new Uint8Array(readFileSync(path)) : null];
      }),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Whether the answer about a file is a yes. */
async function isProved(original: Uint8Array, patched: Uint8Array): Promise<boolean> {
  try {
    const before = readElf(original);
    const results = prove(before, readElf(patched), archOf(before.header));
    for (;;) {
      const { done, value } = await results.next();
      if (done !== true) continue;
      const { proved, different, inconclusive, unexplained } = value;
      return proved > 0 && different === 0 && inconclusive === 0 && unexplained.length === 0;
    }
  } catch {
    return false;
  }
}

/** Images that one process writes, before their proofs are looked at. */
const AT_ONCE = 30;

/** Files of the healthy build, which many breakages are compared with. */
const healthy = new Map<string, Uint8Array | null>();

/** So many of a list, spread over it. */
const spread = <T>(list: readonly T[], most: number): readonly T[] =>
  list.filter((_, i) => Math.floor(((i + 1) * most) / list.length) > Math.floor((i * most) / list.length));

/**
 * What `prove` says of a breakage.
 * @param build  the folder of the broken code
 * @param good   the folder of the same code without the breakage
 * @param most   images that are tried, spread over all of them
 */
export async function judge(
  each: Breakage,
  build: string,
  good: string,
  most = Infinity,
): Promise<{ said: Judgement; image: string }> {
  const all = imagesFor(each);
  const images = most < all.length ? spread(all, most) : all;
  let said: Judgement = 'same';
  let place = '';
  for (let at = 0; at < images.length; at += AT_ONCE) {
    const some = images.slice(at, at + AT_ONCE);
    const missing = some.filter(({ name }) => !healthy.has(name));
    if (missing.length > 0) for (const [name, bytes] of filesOf(good, missing)) healthy.set(name, bytes);
    const files = filesOf(build, some);
    for (const image of some) {
      const [bytes, before] = [files.get(image.name) ?? null, healthy.get(image.name) ?? null];
      if (bytes === null || (before !== null && Buffer.compare(bytes, before) === 0)) {
        if (bytes === null && before !== null && said === 'same') [said, place] = ['refused', image.name];
        continue;
      }
      if (!(await isProved(originalOf(image), bytes))) return { said: 'found', image: image.name };
      [said, place] = ['NOT FOUND', image.name];
    }
  }
  return { said, image: place };
}
