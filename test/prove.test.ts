/** Proofs of sites: patched programs of every target, and what a broken one is called. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { load } from '../src/program/program.js';
import { entryPoint } from '../src/patch/routes.js';
import { prove, type ProofSummary, type SiteProof } from '../src/prove/index.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples, root } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-prove-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const sample = (name: string): string => join(builtSamples, name);
const bytesOf = (path: string): Uint8Array => new Uint8Array(readFileSync(path));

const programs = [
  'x86-64/program-fentry',
  'x86-64/program-clang-mcount',
  'x86-64/program-fentry-indirect',
  'x86-64/program-fentry-large',
  'x86-64/program-patchable-16-11',
  'arm64/program-patchable-2',
  'arm64/program-patchable-bti-mixed',
  'arm64/program-mcount',
  'riscv64/program-patchable-8',
  'riscv64/program-patchable-8-4-aligned',
  'riscv64/program-mcount-relaxed',
  'ppc32/program-mcount',
  'ppc32/program-patchable-2',
  'ppc32/program-patchable-1',
  'ppc64-elfv1/program-mcount',
  'ppc64-elfv2-be/program-mprofile',
  'ppc64-elfv2-le/program-mprofile',
  'ppc64-elfv2-le/program-clang-mcount',
  'ppc64-elfv2-le/program-power10-patchable-2',
];

/** Patches a sample; the path of what comes out. */
function patched(name: string, ...options: readonly string[]): string {
  const output = join(folder, `${name.replace('/', '-')}${options.join('')}`);
  const { status, stderr } = elftrace(['patch', sample(name), ...options, '-o', output]);
  expect([name, status, status === 0 ? '' : stderr]).toEqual([name, 0, '']);
  return output;
}

async function proof(original: Uint8Array, image: Uint8Array): Promise<{ sites: SiteProof[]; summary: ProofSummary }> {
  const before = readElf(original);
  const results = prove(before, readElf(image), archOf(before.header));
  const sites: SiteProof[] = [];
  for (;;) {
    const { done, value } = await results.next();
    if (done === true) return { sites, summary: value };
    sites.push(value);
  }
}

describe.each(programs)('%s', (name) => {
  test.each([
    ['PV-1: turned off', ['--nop']],
    ['PV-1: traced by function', ['--enable', '--tracer', 'function']],
    ['PV-2: traced by function_graph', ['--enable', '--tracer', 'function_graph']],
  ])('%s is proved', (_, options) => {
    const { status, stdout } = elftrace(['prove', patched(name, ...options)]);
    const [, all, proved, unchanged] = /(\d+) sites: (\d+) proved, (\d+) unchanged, 0 different, 0 inconclusive/.exec(
      stdout,
    )!;
    expect(Number(proved) + Number(unchanged)).toBe(Number(all));
    // Nops of the compiler are nops already: nothing changed, and nothing was proved.
    expect(status).toBe(Number(proved) > 0 ? 0 : 125);
    if (options[0] === '--enable') expect(Number(proved)).toBeGreaterThan(4);
  });
});

describe('what a proof finds', () => {
  const name = 'arm64/program-patchable-2';
  const traced = (): Uint8Array => bytesOf(patched(name, '--enable', '--tracer', 'function'));

  test('PV-1: a register that the entry does not put back, with both ways', () => {
    const image = readElf(traced().slice());
    const program = load(image, archOf(image.header));
    const caller = entryPoint(program, 'ftrace_caller')!.address;
    // The last load of arguments in front of the branch back: x0 keeps what the callback left.
    const at = image.fileOffsetOf(caller);
    const words = new Uint32Array(image.bytes.slice(at, at + 400).buffer);
    const load0 = words.findIndex((word) => (word & 0xffc0_03ff) >>> 0 === (0xa940_0000 | (31 << 5)) >>> 0);
    expect(load0).toBeGreaterThan(0);
    image.bytes.set([0x1f, 0x20, 0x03, 0xd5], at + 4 * load0);
    const path = join(folder, 'no-load');
    writeFileSync(path, image.bytes);
    const { status, stdout } = elftrace(['prove', path, sample(name)]);
    expect([status, stdout]).toEqual([1, expect.stringMatching(/different\n {2}behind the site x[0-7] is 0x/)]);
    expect(stdout).toMatch(/original, from 0x[0-9a-f]+ on:\n/);
    expect(stdout).toMatch(/patched, from [^]*\n {2}> 0x[0-9a-f]+ {2}/);
  });

  test('PV-1: a callback that is not called, although its filter takes the site', async () => {
    const image = readElf(traced().slice());
    const program = load(image, archOf(image.header));
    const call = entryPoint(program, 'ftrace_call')!.address;
    image.bytes.set([0x1f, 0x20, 0x03, 0xd5], image.fileOffsetOf(call));
    const { summary, sites } = await proof(bytesOf(sample(name)), image.bytes);
    expect([summary.proved, summary.different > 4]).toEqual([0, true]);
    expect(sites.find(({ account }) => account)?.account?.difference).toEqual({
      what: 'event',
      name: 'elftrace_function_tracer',
      reason: 'called 0 times, not once',
    });
  });

  test('PV-4: a byte that changed elsewhere is not passed over', () => {
    const original = bytesOf(sample(name));
    const path = join(folder, 'elsewhere');
    const image = readElf(traced().slice());
    const text = image.sections.find((each) => each.name === '.text')!;
    const last = text.offset + text.size - 4;
    image.bytes[last] = original[last]! ^ 1;
    writeFileSync(path, image.bytes);
    const { status, stdout } = elftrace(['prove', path, sample(name)]);
    expect([status, stdout]).toEqual([125, expect.stringContaining('1 changed bytes belong to no site')]);
  });

  test('PV-4: a sample is no proof, and the same seed gives the same answer', () => {
    const path = patched(name, '--enable', '--tracer', 'function');
    const sampled = elftrace(['prove', path, '--sample', '3']);
    expect([sampled.status, sampled.stdout]).toEqual([125, expect.stringMatching(/ \d+ not tried\n/)]);
    expect(elftrace(['prove', path, '--json', '--seed', '7']).stdout).toBe(
      elftrace(['prove', path, '--json', '--seed', '7']).stdout,
    );
  });

  test("PV-1: a direct caller and a function in another one's place are reached", () => {
    for (const [program, options] of [
      ['riscv64/program-patchable-8', ['--direct', 'leaf=ftrace_stub_direct_tramp']],
      ['x86-64/program-fentry', ['--livepatch', 'leaf=bump']],
      ['arm64/program-patchable-2', ['--livepatch', 'leaf=bump']],
      ['ppc32/program-patchable-4-2', ['--livepatch', 'leaf=bump']],
      // The way back goes through the tracer, which restores r2 (PV-2).
      ['ppc64-elfv2-le/program-mprofile', ['--livepatch', 'leaf=bump']],
    ] as const) {
      const { status, stdout } = elftrace(['prove', patched(program, ...options)]);
      expect([program, status, stdout]).toEqual([program, 0, expect.stringContaining(' 1 proved, ')]);
    }
  });

  test('PV-4: places of probes are no sites: they are said, and are no yes', () => {
    const { status, stdout } = elftrace(['prove', patched(name, '--probe', 'p:x leaf+8')]);
    expect([status, stdout]).toEqual([125, expect.stringContaining('4 changed bytes belong to no site')]);
  });

  test('PV-4: patch --prove writes what is proved, and nothing else', () => {
    const output = join(folder, 'written');
    const written = elftrace(['patch', sample(name), '--enable', '--prove', '-o', output]);
    expect([written.status, elftrace(['prove', output]).status]).toEqual([0, 0]);
    const refused = join(folder, 'refused');
    const { status, stderr } = elftrace(['patch', sample(name), '--probe', 'p:x leaf+8', '--prove', '-o', refused]);
    expect([status, stderr]).toEqual([1, expect.stringContaining('is not proved, nothing was written')]);
    expect(existsSync(refused)).toBe(false);
  });

  test('lines of --json fit their schema', () => {
    const ajv = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false });
    const validate = ajv.compile(
      JSON.parse(readFileSync(join(root, 'schemas', 'prove.schema.json'), 'utf8')) as object,
    );
    const image = readElf(traced().slice());
    image.bytes.set([0x1f, 0x20, 0x03, 0xd5], image.fileOffsetOf(
      entryPoint(load(image, archOf(image.header)), 'ftrace_call')!.address,
    )); // prettier-ignore
    const path = join(folder, 'json');
    writeFileSync(path, image.bytes);
    for (const each of [path, patched(name, '--enable', '--tracer', 'counter')]) {
      const { stdout } = elftrace(['prove', each, sample(name), '--json', '--all']);
      for (const line of stdout.trim().split('\n')) {
        expect([validate(JSON.parse(line)), validate.errors, line]).toEqual([true, null, line]);
      }
    }
  });

  test.each([
    ['a relocatable file', ['x86-64/module-fentry.ko', 'x86-64/module-fentry.ko'], 4, 'load it first'],
    ['a machine without an emulator', ['s390x/program-mcount', 's390x/program-mcount'], 4, 'nothing can be proved'],
    ['files of two machines', ['x86-64/program-fentry', 'arm64/program-patchable-2'], 2, 'different machines'],
    ['a file without a record', ['x86-64/program-fentry'], 2, 'record'],
  ])('%s is refused', (_, names, code, text) => {
    const { status, stderr } = elftrace(['prove', ...names.map(sample)]);
    expect([status, stderr]).toEqual([code, expect.stringContaining(text)]);
  });
});
