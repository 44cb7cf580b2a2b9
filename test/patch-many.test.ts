/** `patch --files-from`: each file of a list as it would be patched alone, or a refusal of all. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { warmElftrace as elftrace } from './support/cli.js';
import { readSample } from './support/pipeline.js';
import { describeWith, run as runTool } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-many-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const SAMPLES = {
  'a/x86.ko': 'x86-64/module-fentry.ko',
  'b/arm64.ko': 'arm64/module-patchable-4-2.ko',
  'b/ppc.ko': 'ppc64-elfv2-le/module-mprofile.ko',
};
for (const [name, sample] of Object.entries(SAMPLES)) {
  mkdirSync(join(folder, name, '..'), { recursive: true });
  writeFileSync(join(folder, name), readSample(sample));
}
const names = Object.keys(SAMPLES);

function list(name: string, paths: readonly string[], separator = '\n'): string {
  writeFileSync(join(folder, name), paths.map((path) => `${path}${separator}`).join(''));
  return name;
}
const run = (...args: readonly string[]) => elftrace(['patch', '--nop', ...args], { cwd: folder });
const bytesOf = (name: string): Buffer => readFileSync(join(folder, name));

test('each file is what it is alone; folders of outputs are made; lines or NULs', () => {
  for (const [at, separator] of ['\n', '\0'].entries()) {
    const { status, stdout } = run('--files-from', list('all', names, separator), '-o', `out${at}/{}`);
    expect([status, stdout.trimEnd().split('\n').at(-1)]).toEqual([0, '3 files: 3 as asked, 0 refused']);
    for (const name of names) {
      expect(run(name, '-o', 'alone').status).toBe(0);
      expect(bytesOf(`out${at}/${name}`).equals(bytesOf('alone'))).toBe(true);
      rmSync(join(folder, 'alone'));
    }
  }
  expect(run('--files-from', list('all', names), '-o', 'flat/{/}.nops').status).toBe(0);
  expect(readdirSync(join(folder, 'flat')).sort()).toEqual(['arm64.ko.nops', 'ppc.ko.nops', 'x86.ko.nops']);
});

test('a file that is refused is named, and the others are patched; the exit status is the worst', () => {
  writeFileSync(join(folder, 'text'), 'no ELF file\n');
  const mixed = list('mixed', ['text', names[0]!, 'nowhere', names[1]!]);
  const { status, stdout, stderr } = run('--files-from', mixed, '-o', 'mixed.d/{/}');
  expect([status, stdout.trimEnd().split('\n').at(-1)]).toEqual([2, '4 files: 2 as asked, 2 refused']);
  expect(stderr).toMatch(/^text: error: .* \[not-elf\]$/m);
  expect(stderr).toMatch(/^nowhere: error: .* \[io\]$/m);
  expect(readdirSync(join(folder, 'mixed.d')).sort()).toEqual(['arm64.ko', 'x86.ko']);
  const lines = run('--json', '--files-from', mixed, '-o', 'json.d/{/}').stdout.trimEnd().split('\n');
  expect(lines.map((line) => (JSON.parse(line) as { file: string }).file)).toEqual([names[0], names[1]]);
});

test('in place, each with a journal of its own, and back', () => {
  // Patchable entries of arm64 are nops from the start.
  const changing = names.filter((name) => !name.includes('arm64'));
  const before = changing.map(bytesOf);
  expect(run('--files-from', list('changing', changing), '--in-place', '--journal', 'journals/{/}').status).toBe(0);
  changing.forEach((name, i) => {
    expect(bytesOf(name).equals(before[i]!)).toBe(false);
    const journal = `journals/${name.replace(/.*\//, '')}`;
    expect(elftrace(['revert', name, '--journal', journal, '--in-place'], { cwd: folder }).status).toBe(0);
    expect(bytesOf(name).equals(before[i]!)).toBe(true);
  });
});

test('nothing is begun where outputs would meet, would be inputs, or are not named', () => {
  const refused: readonly (readonly string[])[] = [
    ['-o', 'one'],
    ['-o', '{}'],
    ['-o', 'clash/{/}', '--journal', 'clash/{/}'],
    ['-o', 'ok/{}', '--journal', 'one'],
    [],
  ];
  for (const words of refused) {
    const { status, stderr, stdout } = run('--files-from', list('all', names), ...words);
    expect([words, status, stdout, stderr.includes('[usage]')]).toEqual([words, 2, '', true]);
  }
  const twice = list('twice', [names[1]!, names[1]!]);
  expect(run('--files-from', twice, '-o', 'twice.d/{}').stderr).toMatch(/would be written for .*: it is written for/);
  for (const name of ['one', 'clash', 'ok', 'twice.d']) expect(existsSync(join(folder, name))).toBe(false);
  expect(run(names[0]!, '--files-from', twice, '-o', 'x/{}').status).toBe(2);
  expect(elftrace(['plan', '--nop', '--files-from', twice, '-o', 'x/{}'], { cwd: folder }).status).toBe(2);
  expect(run('-o', 'x').stderr).toContain('patch needs PATH');
});

describeWith(['setfattr', 'getfattr', 'setfacl', 'getfacl'], 'attributes of many', () => {
  /** All that a file has beside its bytes. */
  const attributesOf = (name: string): string =>
    runTool('getfattr', ['-d', '-m', '-', '--absolute-names', join(folder, name)])
      .toString()
      .split('\n')
      .slice(1)
      .join('\n');
  test('each output has those of its input, and those of the file that it replaces', () => {
    for (const name of names) writeFileSync(join(folder, `${name}.own`), bytesOf(name));
    const [plain, marked, listed] = names.map((name) => `${name}.own`) as [string, string, string];
    runTool('setfattr', ['-n', 'user.origin', '-v', 'here', join(folder, marked)]);
    runTool('setfacl', ['-m', 'u:daemon:r', join(folder, listed)]);
    const own = list('own', [plain, marked, listed]);
    for (const round of [1, 2]) {
      expect([round, run('--files-from', own, '-o', 'kept/{/}').status]).toEqual([round, 0]);
      for (const name of [plain, marked, listed]) {
        expect([name, attributesOf(`kept/${name.replace(/.*\//, '')}`)]).toEqual([name, attributesOf(name)]);
      }
    }
    // A folder that gives new files a list of its own does not give it to these.
    mkdirSync(join(folder, 'giving'));
    runTool('setfacl', ['-d', '-m', 'u:daemon:rw', join(folder, 'giving')]);
    expect(run('--files-from', own, '-o', 'giving/{/}').status).toBe(0);
    expect(attributesOf('giving/x86.ko.own')).toBe(attributesOf(plain));
  });
});
