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
import { revert } from '../src/patch/revert.js';
import { prove } from '../src/prove/index.js';
import { sha256 } from '../src/sha256.js';
import { type MutantImage, mutantImages, originalOf } from '../test/support/mutant-images.js';
import { builtSamples } from '../test/support/pipeline.js';
import type { Breakage } from './breakages.js';

/** Rooms with code that decides what is written into files. */
const WRITING: ReadonlySet<string> = new Set([
  ...['runtime', 'tracing', 'patch', 'program', 'ftrace', 'kprobes', 'sites', 'relocs', 'machine', 'elf', 'record'],
  ...['arch-x86', 'arch-arm64', 'arch-riscv', 'arch-ppc'],
]);

/** Files of these rooms that execute, or read and say. */
const READING = new RegExp(
  '[/-](?:' +
    // What executes guests, and unwinds them.
    'lift|emulation|floats?|float-\\w+|vectors?|vector-\\w+|x87|x87-\\w+|avx|vex-\\w+|transcendental|cpuid|' +
    'signals|unwind|proof|' +
    // What says something of files, unpacks them, or compares them with their record.
    'table-lint|chain|gnu-property|live|compilers|xz-filters|btf|dwarf|journal' +
    ')\\.js$|^(?:machine/ir|sites/policy)\\.js$',
);

/** Rooms of which no line bears on what a file holds: `native` lays its code into other files. */
const ELSEWHERE: ReadonlySet<string> = new Set([
  // Programs that are executed, and what they leave.
  ...['emulator', 'guest', 'running', 'trace', 'native', 'race'],
  // What is read and said: of these machines `prove` has none.
  ...['arch-s390x', 'arch-loongarch', 'cli', 'demangle', 'diff', 'livepatch', 'page', 'report', 'why'],
  // What judges here is the healthy one; `--prove` left out, its tests are asked.
  'prove',
]);

const roomOf = ({ file }: Breakage): string => file.split('/')[0]!;

export const writesFiles = (each: Breakage): boolean => WRITING.has(roomOf(each)) && !READING.test(each.file);

/** Whether the lists say of a breakage's room what it is: a new room is on none. */
export const isKnown = (each: Breakage): boolean => WRITING.has(roomOf(each)) !== ELSEWHERE.has(roomOf(each));

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
const ways = [
  ...['function', 'graph', 'counter', 'list', 'direct', 'livepatch', 'taken-back', 'direct-back', 'probe'],
  ...['return-two', 'jump-arguments'],
];
/** Code of no machine is tried in one convention of some: each way is served there. */
const conventions = ['arm64/regs', 'x86-64/modern', 'ppc64-elfv1/regs', 'riscv64/g2', 'ppc32/regs'];

/** Files whose sites are turned off, taken out of the table, brought into their first form. */
const samples = readdirSync(builtSamples, { recursive: true, encoding: 'utf8' }).sort();
const modules = samples.filter((path) => /\/(?:module|far-one)[^/]*\.ko$/.test(path));
const linked = samples.filter((path) => /\/(?:program|pie|shared|core)[^/]*$/.test(path) && !path.endsWith('.o'));
const requests: Readonly<Record<string, readonly string[]>> = {
  nop: ['--nop', '--partial'],
  'nop-some': ['--nop', '--partial', '-l', '*_*'],
  untrace: ['--untrace', '--partial'],
  'untrace-some': ['--untrace', '--partial', '-l', '*_*'],
  init: ['--init', '--partial'],
};
const plainImages: readonly MutantImage[] = [...modules, ...linked].flatMap((sample) =>
  Object.entries(requests).map(([way, options]) => ({ name: `${sample} ${way}`, sample, options })),
);

/** What a session sets up and takes back again, beside what stays. */
const takenBack = (set: readonly string[] = [], back: readonly string[] = []): string =>
  [
    'version: 1',
    'steps:',
    '  - ops: { name: one, call: elftrace_counter, filter: "leaf sum many" }',
    '  - ops: { name: two, call: elftrace_function_tracer, filter: "leaf sum", notrace: "many" }',
    '  - graph: { name: three, filter: "sum many" }',
    ...['register: one', 'register: two', ...set].map((each) => `  - ${each}`),
    '  - filter: { ops: two, words: "many", append: true }',
    ...['unregister: one', 'no-graph: three', ...back].map((each) => `  - ${each}`),
    '',
  ].join('\n');

/** The same with direct callers, where a convention has them. */
function takenBackDirect(direct: string): string {
  const set = [`direct: { function: leaf, caller: ${direct} }`, 'livepatch: { function: recurse, new: bump }'];
  return takenBack(set, ['no-direct: leaf', 'no-livepatch: recurse']);
}

const sessionImages: readonly MutantImage[] = mutantImages.flatMap((image) => {
  if (!image.name.endsWith(' direct') || image.modules !== undefined) return [];
  const name = image.name.replace(/ direct$/, '');
  const at = image.options.indexOf('--direct');
  const base = { ...image, options: image.options.toSpliced(at, 2) };
  return [
    { ...base, name: `${name} taken-back`, session: takenBack() },
    { ...base, name: `${name} direct-back`, session: takenBackDirect(image.options[at + 1]!.split('=')[1]!) },
  ];
});
const madeImages = [...sessionImages, ...mutantImages];

/** All images, by name. */
export const imageNamed = (name: string): MutantImage | undefined =>
  [...plainImages, ...madeImages].find((each) => each.name === name);

/** Images in which a breakage could show, in the order in which they are tried. */
export function imagesFor({ file }: Breakage): readonly MutantImage[] {
  const folder = file.split('/')[0]!;
  const targets = targetsOf[folder];
  const isOfTarget = ({ name }: MutantImage): boolean =>
    targets === undefined || targets.some((target) => name.startsWith(`${target}/`));
  const objectOf = ({ name }: MutantImage): string => name.split(' ')[0]!.replace('+probes', '');
  const order = (image: MutantImage): number => (conventions.indexOf(objectOf(image)) + 100) % 100;
  const programs = madeImages
    .filter((image) => {
      if (!ways.includes(image.name.split(' ')[1]!)) return false;
      if (targets !== undefined) return isOfTarget(image);
      return folder === 'runtime' || conventions.includes(objectOf(image));
    })
    .sort((x, y) => order(x) - order(y));
  // Code of no machine shows in a few files of some.
  const isFew = ({ name }: MutantImage): boolean =>
    targets !== undefined || /^(?:x86-64|arm64|ppc64-elfv1)\/.*\b(?:some|init)$/.test(name);
  return [...plainImages.filter((image) => isOfTarget(image) && isFew(image)), ...programs];
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

/** What is said of a file: how many sites are proved, or null where something is wrong. */
async function provedOf(original: Uint8Array, patched: Uint8Array): Promise<number | null> {
  try {
    const before = readElf(original);
    const arch = archOf(before.header);
    // What `prove` takes for the original where none is given.
    if (Buffer.compare(revert(readElf(patched), null, sha256, arch), original) !== 0) return null;
    const results = prove(before, readElf(patched), arch);
    for (;;) {
      const { done, value } = await results.next();
      if (done !== true) continue;
      const { proved, different, inconclusive, unexplained } = value;
      return different === 0 && inconclusive === 0 && unexplained.length === 0 ? proved : null;
    }
  } catch {
    return null;
  }
}

/** Images that one process writes, before their proofs are looked at. */
const AT_ONCE = 30;

/** Files of the healthy build, which many breakages are compared with. */
const healthy = new Map<string, Uint8Array | null>();
/** What is said of them, as far as that was asked. */
const healthyAnswers = new Map<string, number | null>();

/** The same of a healthy file; 0: there is none; null: a broken one of this image says nothing. */
async function provedHealthy(image: MutantImage): Promise<number | null> {
  const known = healthyAnswers.get(image.name);
  if (known !== undefined) return known;
  const bytes = healthy.get(image.name) ?? null;
  const answer = bytes === null ? 0 : await provedOf(originalOf(image), bytes);
  healthyAnswers.set(image.name, answer);
  return answer;
}

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
      const proved = await provedOf(originalOf(image), bytes);
      const wanted = await provedHealthy(image);
      if (wanted === null) continue;
      // Where sites were proved, none is no yes.
      if (proved === null || (proved === 0 && wanted > 0)) return { said: 'found', image: image.name };
      [said, place] = ['NOT FOUND', image.name];
    }
  }
  return { said, image: place };
}
