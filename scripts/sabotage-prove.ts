/**
 * `npm run test:sabotage -- --prove`: what `prove` alone says of files that a broken tool wrote.
 * The broken build patches the samples, a healthy one judges what comes out (PV-5).
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { prove } from '../src/prove/index.js';
import { type MutantImage, mutantImages, originalOf } from '../test/support/mutant-images.js';
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
const ways = ['function', 'graph', 'counter', 'list', 'direct', 'livepatch', 'probe', 'return'];

/** Images in which a breakage could show. */
export function imagesFor({ file }: Breakage): readonly MutantImage[] {
  const folder = file.split('/')[0]!;
  const targets = targetsOf[folder];
  const seen = new Set<string>();
  return mutantImages.filter(({ name }) => {
    const [object, way] = name.split(' ') as [string, string];
    const [target, convention] = object.replace('+probes', '').split('/') as [string, string];
    if (!ways.includes(way) || (targets !== undefined && !targets.includes(target))) return false;
    // Code of no machine: one convention of each.
    if (targets !== undefined || folder === 'runtime') return true;
    const first = [...seen].find((each) => each.startsWith(`${target}/`));
    seen.add(`${target}/${convention}`);
    return first === undefined || first === `${target}/${convention}`;
  });
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

/** Files of the healthy build, which many breakages are compared with. */
const healthy = new Map<string, Uint8Array | null>();

/**
 * What `prove` says of a breakage.
 * @param build  the folder of the broken code
 * @param good   the folder of the same code without the breakage
 */
export async function judge(each: Breakage, build: string, good: string): Promise<{ said: Judgement; image: string }> {
  const images = imagesFor(each);
  const missing = images.filter(({ name }) => !healthy.has(name));
  if (missing.length > 0) for (const [name, bytes] of filesOf(good, missing)) healthy.set(name, bytes);
  const files = filesOf(build, images);
  let said: Judgement = 'same';
  let place = '';
  for (const image of images) {
    const [bytes, before] = [files.get(image.name) ?? null, healthy.get(image.name) ?? null];
    if (bytes === null || (before !== null && Buffer.compare(bytes, before) === 0)) {
      if (bytes === null && before !== null && said === 'same') [said, place] = ['refused', image.name];
      continue;
    }
    if (!(await isProved(originalOf(image), bytes))) return { said: 'found', image: image.name };
    [said, place] = ['NOT FOUND', image.name];
  }
  return { said, image: place };
}
