/** Proofs of relocatable files: modules of every target, and what a broken one is called. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { loadImages } from '../src/program/loader.js';
import { neighbours } from '../src/prove/neighbours.js';
import { layOut } from '../src/prove/relocatable.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { sampled } from './support/long.js';
import { builtSamples } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-prove-objects-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const sample = (name: string): string => join(builtSamples, name);
const at = (name: string): string => join(folder, name);

/** Proves a file against a sample: exit code, last line. */
function proof(patched: string, name: string, ...options: readonly string[]): [number | null, string] {
  const { status, stdout, stderr } = elftrace(['prove', patched, sample(name), ...options]);
  return [status, (stdout.trim().split('\n').at(-1) ?? '') + stderr];
}

function patched(name: string, ...options: readonly string[]): string {
  const output = at(`${name.replace('/', '-')}${options.join('')}`);
  const { status, stderr } = elftrace(['patch', sample(name), ...options, '-o', output]);
  expect([name, status, status === 0 ? '' : stderr]).toEqual([name, 0, '']);
  return output;
}

const modules = [
  'x86-64/module-fentry.ko',
  'x86-64/module-fentry-ibt.ko',
  'x86-64/module-pic-record.ko',
  'x86-64/core-mcount.o',
  'arm64/module-mcount.ko',
  'riscv64/module-mcount.ko',
  'ppc32/module-mcount-pic.ko',
  'ppc64-elfv1/module-mprofile-recorded.ko',
  'ppc64-elfv2-be/module-mprofile.ko',
  'ppc64-elfv2-le/module-mprofile-large-recorded.ko',
  'ppc64-elfv2-le/module-power10-mcount.ko',
];

describe.each(sampled(modules, 2))('%s', (name) => {
  test('PV-1: turned off is proved, laid out as load would', () => {
    const [status, line] = proof(patched(name, '--nop'), name);
    expect([status, line]).toEqual([0, expect.stringMatching(/: [1-9]\d* proved, 0 unchanged, 0 different, 0 inc/)]);
  });
});

describe.each([
  'arm64/module-mcount-recorded.ko',
  'ppc64-elfv1/module-mcount-recorded.ko',
  'riscv64/module-mcount-recorded.ko',
  'x86-64/module-fentry.ko',
])('%s', (name) => {
  test('PV-1: sites that left the table, some or all, are proved', () => {
    for (const some of [[], ['-l', '*leaf*']]) {
      const [status, line] = proof(patched(name, '--untrace', ...some), name);
      expect([some, status, line]).toEqual([some, 0, expect.stringContaining(' 0 different, 0 inconclusive')]);
    }
  });
});

describe('entries that the file names', () => {
  test.each([
    ['arm64/module-patchable-2.ko', []],
    ['arm64/module-patchable-4-2.ko', []],
    ['arm64/module-patchable-4-2.ko', ['--ops', 'own_ops', '-l', 'module_*']],
    ['riscv64/module-patchable-8-4.ko', []],
  ] as const)('PV-1: %s %j calls an entry from elsewhere', (name, options) => {
    const [status, line] = proof(patched(name, '--enable', '--entry', 'own_tracer', ...options), name);
    expect([status, line]).toEqual([0, expect.stringContaining(' 0 different, 0 inconclusive')]);
  });

  test('PV-1: an entry that is called without the register that it returns through is found', () => {
    const name = 'arm64/module-patchable-2.ko';
    const path = patched(name, '--enable', '--entry', 'own_tracer');
    const bytes = readFileSync(path);
    // mov x9, x30 of the first site becomes mov x10, x30: x9 leads anywhere then.
    const mov = bytes.indexOf(Buffer.from([0xe9, 0x03, 0x1e, 0xaa]));
    expect(mov).toBeGreaterThan(0);
    bytes[mov] = 0xea;
    writeFileSync(at('broken.ko'), bytes);
    const [status, line] = proof(at('broken.ko'), name);
    expect([status, line]).toEqual([
      status,
      expect.stringMatching(/10 proved, 0 unchanged, (?:1 different|0 different, 1)/),
    ]);
    expect(status).not.toBe(0);
  });
});

describe('what is no proof', () => {
  const name = 'x86-64/module-fentry.ko';

  test('PV-4: a byte, and a relocation, that changed beside the sites', () => {
    const path = patched(name, '--nop');
    const image = readElf(new Uint8Array(readFileSync(path)));
    const rodata = image.section('.rodata')!;
    const bytes = image.bytes.slice();
    bytes[rodata.offset] = (bytes[rodata.offset]! ^ 1) & 0xff;
    writeFileSync(at('byte.ko'), bytes);
    expect(elftrace(['prove', at('byte.ko'), sample(name)])).toMatchObject({
      status: 125,
      stdout: expect.stringContaining('.rodata 0x0: 1 changed bytes belong to no site'),
    });
    const table = image.section('.rela.data')!;
    const other = image.bytes.slice();
    // The addend of the first relocation of .data.
    other[table.offset + 16] = (other[table.offset + 16]! ^ 8) & 0xff;
    writeFileSync(at('relocation.ko'), other);
    expect(elftrace(['prove', at('relocation.ko'), sample(name)])).toMatchObject({
      status: 125,
      stdout: expect.stringMatching(/\.data 0x[0-9a-f]+: \d+ changed bytes belong to no site/),
    });
  });

  test('PV-1: files that do not belong together are refused', () => {
    const [other, linked] = [sample('x86-64/module-large.ko'), sample('x86-64/program-fentry')];
    const said = (...files: string[]): readonly [number | null, string] => {
      const { status, stderr } = elftrace(['prove', ...files]);
      return [status, stderr];
    };
    const strange = 'is not the file that the record of the patched one names';
    for (const file of [other, linked])
      expect(said(patched(name, '--nop'), file)).toEqual([2, expect.stringContaining(strange)]);
    // No record says which one it was.
    expect(said(sample(name), other)).toEqual([4, expect.stringContaining('cannot be laid out alike')]);
    expect(said(sample(name), linked)).toEqual([2, expect.stringContaining('they do not fit')]);
  });

  test('PV-4: answers are about the file: section and offset', () => {
    const path = patched(name, '--nop');
    const lines = elftrace(['prove', path, sample(name), '--all', '--json'])
      .stdout.trim()
      .split('\n');
    const first = JSON.parse(lines[0]!) as { address: string; function: string };
    expect(first).toMatchObject({ address: '0x0', function: 'module_leaf' });
    expect(elftrace(['patch', sample(name), '--nop', '--prove', '-o', at('proved.ko')]).status).toBe(0);
    expect(readFileSync(at('proved.ko'))).toEqual(readFileSync(path));
  });

  test('RT-14: a part may have more symbols than a call takes arguments', () => {
    // Modules of RISC-V have hundreds of thousands of local labels.
    const like = readElf(new Uint8Array(readFileSync(sample(name))));
    const addresses = new Map(Array.from({ length: 150_000 }, (_, i) => [`s${i}`, BigInt(i)] as const));
    const arch = archOf(like.header);
    const core = { name: 'many', image: neighbours(like, addresses) };
    const { bytes } = loadImages({ core, modules: [], base: 'user', runtime: null, options: {} }, arch);
    expect(readElf(bytes).symbols.count).toBeGreaterThan(150_000);
  });

  test('PV-1: sections are at the same addresses, whatever either file calls', () => {
    const [before, after] = [sample('arm64/module-mcount.ko'), patched('arm64/module-mcount.ko', '--nop')].map((path) =>
      readElf(new Uint8Array(readFileSync(path))),
    );
    const laid = layOut(before!, after!, archOf(before!.header));
    const places = [laid.original, laid.patched].map((image) =>
      image.sections.map((each) => [each.name, each.address]),
    );
    expect(places[0]!.filter(([each]) => each === '.text')).toEqual(places[1]!.filter(([each]) => each === '.text'));
  });
});
