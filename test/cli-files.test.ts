/** What the command line writes: outputs, journals, compressed files, archives, folders, tables. */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, describe, expect, test } from '@jest/globals';
import { readPolicy } from '../src/cli/verify-policy.js';
import { verifyAll } from '../src/cli/verify-tree.js';
import { isArchive, memberBytes, readArchive } from '../src/elf/archive.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples, openBytes, readSample, sameBytes } from './support/pipeline.js';
import { outputOf } from './support/spawn.js';
import { describeWith } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'cli-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);
const sample = (name: string): string => join(builtSamples, name);
const read = (path: string): Uint8Array => new Uint8Array(readFileSync(path));

/** A file of the folder with these bytes. */
function put(name: string, bytes: Uint8Array | string): string {
  writeFileSync(at(name), bytes);
  return at(name);
}

const module = readSample('x86-64/module-fentry.ko');
const wrongPlace = openBytes(module).sites.fileOffset(3);
const leftovers = (): string[] => readdirSync(folder).filter((name) => name.endsWith('.tmp'));

describe('outputs', () => {
  test('the input is never the output without --in-place', () => {
    const file = put('module.ko', module);
    symlinkSync(file, at('link.ko'));
    for (const output of [file, at('link.ko'), join(folder, '.', 'module.ko')]) {
      const { status, stderr } = elftrace(['patch', '--nop', file, '-o', output]);
      expect([status, stderr.includes('--in-place')]).toEqual([2, true]);
    }
    expect(sameBytes(read(file), module)).toBe(true);
    expect(elftrace(['patch', '--nop', file, '--in-place']).status).toBe(0);
    expect(sameBytes(read(file), module)).toBe(false);
    expect(elftrace(['revert', file, '--in-place']).status).toBe(0);
    expect(sameBytes(read(file), module)).toBe(true);
    expect(elftrace(['patch', '--nop', file, '--in-place', '-o', at('other.ko')]).status).toBe(2);
  });

  test('mode kept; in place through a link the link stays; no temporary files left', () => {
    const file = put('mode.ko', module);
    for (const mode of [0o640, 0o755, 0o444]) {
      chmodSync(file, mode);
      rmSync(at('mode-out.ko'), { force: true });
      expect(elftrace(['patch', '--nop', file, '-o', at('mode-out.ko')]).status).toBe(0);
      expect(statSync(at('mode-out.ko')).mode & 0o7777).toBe(mode);
    }
    chmodSync(file, 0o644);
    symlinkSync('mode.ko', at('mode-link.ko'));
    expect(elftrace(['patch', '--nop', at('mode-link.ko'), '--in-place']).status).toBe(0);
    expect([lstatSync(at('mode-link.ko')).isSymbolicLink(), lstatSync(file).isFile()]).toEqual([true, true]);
    expect(openBytes(read(file)).sites.totals().byState).toEqual({ nop: 11 });
    expect(elftrace(['patch', '--nop', file, '-o', join(folder, 'no', 'such', 'folder.ko')]).status).toBe(2);
    expect(leftovers()).toEqual([]);
  });

  test('RT-7 --journal: the record beside the file', () => {
    const journal = at('module.journal');
    const output = at('beside.ko');
    const patched = elftrace([
      'patch',
      '--nop',
      '-l',
      'module_run',
      sample('x86-64/module-fentry.ko'),
      '-o',
      output,
      '--journal',
      journal,
    ]);
    expect(patched.status).toBe(0);
    expect(read(output).length).toBe(module.length);
    expect(elftrace(['status', output]).stdout).toContain('no record');
    expect(elftrace(['status', output, '--journal', journal]).stdout).toContain('record: nop');
    expect(elftrace(['revert', output, '-o', at('never.ko')]).status).toBe(2);
    // A second patch adds to it.
    expect(elftrace(['patch', '--nop', output, '--in-place', '--journal', journal]).status).toBe(0);
    expect(elftrace(['revert', output, '-o', at('back.ko'), '--journal', journal]).status).toBe(0);
    expect(sameBytes(read(at('back.ko')), module)).toBe(true);
    // The same request again on the original, with the journal of the first time still there.
    const again = elftrace(['patch', '--nop', sample('x86-64/module-fentry.ko'), '-o', output, '--journal', journal]);
    expect([again.stderr.replace(/^.*notice: the site table.*\n/, ''), again.status]).toEqual(['', 0]);
    expect(elftrace(['revert', output, '-o', at('back.ko'), '--journal', journal]).status).toBe(0);
    expect(sameBytes(read(at('back.ko')), module)).toBe(true);
  });

  test('selection: -l, -n, --file; -o after the file', () => {
    const names = (args: readonly string[]): string[] =>
      elftrace(['list', sample('x86-64/module-fentry.ko'), ...args])
        .stdout.trim()
        .split('\n');
    const all = names([]);
    expect(names(['-l', 'module_*'])).toEqual(all.filter((name) => name.startsWith('module_')));
    expect(names(['-n', 'module_*'])).toEqual(all.filter((name) => !name.startsWith('module_')));
    expect(names(['-l', 'module_*', '-l', '!module_run'])).toEqual(
      all.filter((name) => name.startsWith('module_') && name !== 'module_run'),
    );
    expect(names(['--file', put('names', 'module_run\nmodule_leaf\n')]).sort()).toEqual(['module_leaf', 'module_run']);
    const { stdout } = elftrace([
      'patch',
      '--nop',
      sample('x86-64/module-fentry.ko'),
      '-l',
      'module_run',
      '-o',
      at('one.ko'),
      '--json',
    ]);
    const { edits } = JSON.parse(stdout) as { edits: { kind: string }[] };
    expect(edits.map(({ kind }) => kind)).toEqual(['store', 'reloc']);
  });

  test('--dry-run writes nothing and names every change', () => {
    const { status, stdout } = elftrace(['patch', '--nop', '--dry-run', sample('riscv64/module-mcount.ko')]);
    expect(status).toBe(0);
    expect(stdout.match(/relocation R_RISCV_CALL(_PLT)? _mcount -> R_RISCV_RELAX/g)).toHaveLength(11);
    expect(stdout).toMatch(/auipc.*jalr.* -> .*nop/);
  });

  test('C-UPD-2 --readonly', () => {
    const range = `0x${wrongPlace.toString(16)}+1`;
    const { status, stderr } = elftrace([
      'patch',
      '--nop',
      '--readonly',
      range,
      sample('x86-64/module-fentry.ko'),
      '-o',
      at('never.ko'),
    ]);
    expect([status, stderr.includes('[EPERM]'), existsSync(at('never.ko'))]).toEqual([1, true, false]);
  });
});

describe('containers', () => {
  test('.ko.gz comes back as .ko.gz', () => {
    const input = sample('x86-64/module-fentry.ko.gz');
    expect(elftrace(['patch', '--nop', input, '-o', at('quiet.ko.gz')]).status).toBe(0);
    const inner = gunzipSync(read(at('quiet.ko.gz')));
    expect(openBytes(new Uint8Array(inner)).sites.totals().byState).toEqual({ nop: 11 });
    expect(elftrace(['revert', at('quiet.ko.gz'), '-o', at('back.ko.gz')]).status).toBe(0);
    expect(sameBytes(new Uint8Array(gunzipSync(read(at('back.ko.gz')))), module)).toBe(true);
    expect(elftrace(['patch', '--nop', input, '-o', at('plain.ko'), '--no-compress']).status).toBe(0);
    expect(read(at('plain.ko'))[0]).toBe(0x7f);
  });

  describe.each([
    ['xz', ['-dc']],
    ['zst', ['-dc', '-q']],
  ] as const)('.ko.%s', (suffix, args) => {
    const program = suffix === 'xz' ? 'xz' : 'zstd';
    describeWith([program], program, () => {
      test('comes back as it was', () => {
        const output = at(`quiet.ko.${suffix}`);
        expect(elftrace(['patch', '--nop', sample(`x86-64/module-fentry.ko.${suffix}`), '-o', output]).status).toBe(0);
        const inner = outputOf(program, [...args, output]);
        expect(openBytes(new Uint8Array(inner)).sites.totals().byState).toEqual({ nop: 11 });
        expect(elftrace(['verify', output]).status).toBe(0);
        expect(elftrace(['revert', output, '-o', at(`back.ko.${suffix}`)]).status).toBe(0);
        const back = outputOf(program, [...args, at(`back.ko.${suffix}`)]);
        expect(sameBytes(new Uint8Array(back), module)).toBe(true);
      });
    });
  });

  test('archives: every member by name', () => {
    const bytes = readSample('x86-64/modules.a');
    expect(isArchive(bytes)).toBe(true);
    const members = readArchive(bytes).filter((member) => memberBytes(bytes, member)[0] === 0x7f);
    const { status, stdout } = elftrace(['verify', '--json', sample('x86-64/modules.a')]);
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(status).toBe(0);
    expect(lines.slice(0, -1).map((line) => line['file'])).toEqual(
      members.map((member) => `${sample('x86-64/modules.a')}(${member.name})`),
    );
    expect(lines.at(-1)).toMatchObject({ summary: { files: members.length, failed: 0, sites: 22 } });
  });

  test('directories: NDJSON and a summary; two jobs print what one prints', () => {
    const one = elftrace(['verify', '--json', builtSamples]);
    const two = elftrace(['verify', '--json', '--jobs', '2', builtSamples]);
    expect([two.status, two.stderr]).toEqual([one.status, one.stderr]);
    expect(two.stdout).toBe(one.stdout);
    const lines = one.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const files = lines.slice(0, -1).map((line) => String(line['file']));
    expect(files).toEqual([...files].sort());
    expect(lines.at(-1)).toHaveProperty('summary.files', files.length);
    const text = elftrace(['verify', '--quiet', '--jobs', '2', builtSamples]);
    expect(text.stdout).toBe(elftrace(['verify', '--quiet', builtSamples]).stdout);
    expect(text.stdout.trimEnd().split('\n').at(-1)).toMatch(/^\d+ files, \d+ failed, \d+ sites: /);
  });

  test('directories: where one thread is slow the rest goes to others, in the same order', async () => {
    const folder = join(builtSamples, 'x86-64');
    const paths = readdirSync(folder)
      .sort()
      .slice(0, 9)
      .map((name) => join(folder, name));
    const args = { files: [], format: 'text', strict: false, quiet: true, policy: readPolicy({}), jobs: 0 } as const;
    const resultsOf = async (isSlow: (spent: number, done: number, all: number) => boolean): Promise<unknown[]> => {
      const found: unknown[] = [];
      for await (const results of verifyAll(paths, { ...args, systemUnpack: true }, isSlow)) found.push(results);
      return found;
    };
    const asked: number[] = [];
    const alone = await resultsOf((_, done, all) => {
      asked.push(all - done);
      return false;
    });
    expect(asked).toEqual([8, 7, 6, 5, 4, 3, 2, 1, 0]);
    expect(alone).toHaveLength(9);
    for (const first of [1, 4, 9]) expect(await resultsOf((_, done) => done === first)).toEqual(alone);
  });

  test('directories: a damaged file is reported and the others go on', () => {
    mkdirSync(at('tree/deep'), { recursive: true });
    copyFileSync(sample('x86-64/module-fentry.ko'), at('tree/deep/good.ko'));
    writeFileSync(at('tree/bad.o'), module.slice(0, 1000));
    writeFileSync(at('tree/readme.txt'), 'not looked at');
    for (const jobs of ['1', '2']) {
      const { status, stdout, stderr } = elftrace(['verify', '--jobs', jobs, at('tree')]);
      expect([status, stdout.includes('good.ko: x86-64: 11 sites: 11 ok')]).toEqual([2, true]);
      expect(stdout).toContain('2 files, 1 failed');
      expect(stderr.trim().split('\n')).toHaveLength(1);
      expect(stderr).toContain('bad.o');
    }
  });
});

describe('mcount', () => {
  test.each(['ppc32', 'ppc64-elfv1', 'ppc64-elfv2-be', 'ppc64-elfv2-le', 'arm64'])(
    'M-REC-8 an object of %s gets its table',
    (target) => {
      const kind = target.startsWith('ppc64-elfv2') ? 'mprofile' : 'mcount';
      const output = at('recorded.ko');
      // M-REC-2: .exit.text is not traced; the recorded samples, made by the assembler, have its
      // call as well.
      expect(elftrace(['mcount', sample(`${target}/module-${kind}.ko`), '-o', output]).stdout).toContain('10 entries');
      const mine = openBytes(read(output));
      const theirs = openBytes(readSample(`${target}/module-${kind}-recorded.ko`));
      const names = ({ sites, program }: typeof mine): string[] =>
        [...sites]
          .map((site) => `${site.range!.name} ${program.symbolName(site.functionSymbol)} ${site.anchor}`)
          .sort();
      expect(names(mine)).toEqual(names(theirs).filter((name) => !name.startsWith('.exit.text')));
      // Again: nothing to do.
      expect(elftrace(['mcount', output, '-o', at('again.ko')]).stdout).toContain('copied unchanged');
      expect(sameBytes(read(at('again.ko')), read(output))).toBe(true);
    },
  );

  test('the verb was called record, which says so of objects, and writes nothing', () => {
    const { status, stdout, stderr } = elftrace(['record', '-o', at('old.ko'), sample('x86-64/module-fentry.ko')]);
    expect([status, stdout, existsSync(at('old.ko'))]).toEqual([4, '', false]);
    expect(stderr).toMatch(/error: .*tables of objects are made by elftrace mcount \[unsupported-form\]\n$/);
  });

  test('M-REC-6 RISC-V objects that the linker may shrink are refused with the place', () => {
    const input = sample('riscv64/module-mcount.ko');
    const { status, stderr } = elftrace(['mcount', input, '-o', at('never.ko')]);
    expect([status, existsSync(at('never.ko'))]).toEqual([1, false]);
    expect(stderr).toMatch(/module-mcount\.ko:\.text\+0x[0-9a-f]+: error: .*-mno-relax.*\[plan-refused\]\n$/);
  });

  test('M-WEAK-2 a linked table: sorted, and leftovers emptied; entries in front of the symbol stay', () => {
    for (const name of [
      'arm64/core-patchable-4-2',
      'arm64/core-patchable-2',
      'riscv64/core-patchable-4',
      'x86-64/core-fentry',
      'ppc64-elfv1/core-mcount',
    ]) {
      const before = openBytes(readSample(name)).sites.totals().total;
      const output = at('sorted');
      const { stdout, status } = elftrace(['mcount', '--zero-weak', sample(name), '-o', output]);
      expect([name, status, stdout.includes('1 of overridden weak functions emptied')]).toEqual([name, 0, true]);
      const { sites } = openBytes(read(output));
      expect([name, sites.totals().total, sites.tables[0]!.sorted]).toEqual([name, before - 1, true]);
      expect(elftrace(['verify', output]).stdout).toContain(`${before - 1} ok`);
    }
  });
});
