/**
 * `.deb` and `.rpm` as inputs of `verify`: packages that dpkg-deb, tar, ar and rpmbuild made, whose
 * lists are those programs' own; lists of files; damaged and hostile packages.
 */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { packageFiles } from '../src/elf/packages.js';
import { ElftraceError } from '../src/errors.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples } from './support/pipeline.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'packages-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const sample = (name: string): string => join(builtSamples, 'x86-64', name);

/** Longer than a tar header has room for, with and without a place to divide it. */
const LONG = `lib/modules/${'deep/'.repeat(20)}module-mcount.ko`;
const LONGER = `lib/${'n'.repeat(180)}.ko`;
const contents: readonly (readonly [path: string, from: string])[] = [
  ['lib/modules/plain.ko', 'module-fentry.ko'],
  ['lib/modules/packed.ko.xz', 'module-fentry.ko.xz'],
  ['lib/modules/packed.ko.zst', 'module-fentry.ko.zst'],
  ['usr/lib/libmodules.a', 'modules.a'],
  [LONG, 'module-mcount.ko'],
  [LONGER, 'module-fentry.ko'],
];
const tree = join(folder, 'tree');
for (const [path, from] of contents) {
  mkdirSync(dirname(join(tree, path)), { recursive: true });
  copyFileSync(sample(from), join(tree, path));
}
mkdirSync(join(tree, 'usr/share'), { recursive: true });
writeFileSync(join(tree, 'usr/share/readme.txt'), 'no module\n'.repeat(1000));
run('ln', ['-s', 'plain.ko', join(tree, 'lib/modules/link.ko')]);

/** What verify says of the same files in a directory: names below it, and sums. */
function verdicts(path: string): { readonly files: readonly string[]; readonly sum: string } {
  const { status, stdout, stderr } = elftrace(['verify', '--json', path]);
  expect([path, status, stderr]).toEqual([path, 0, '']);
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { file: string; sites: number });
  const files = lines.slice(0, -1).map(({ file, sites }) => `${file.slice(path.length)}: ${sites}`);
  return { files: files.sort(), sum: JSON.stringify(lines.at(-1)) };
}
const expected = verdicts(tree);
const inPackage = expected.files.map((line) => line.replace(/^\/(.*\.(?:ko|xz|zst|a))(.*): (\d+)$/, '(./$1$2): $3'));

let serial = 0;
/** A package of the tree; `options` are dpkg-deb's. */
function deb(...options: string[]): string {
  const root = join(folder, `deb${serial}`);
  run('cp', ['-a', tree, root]);
  mkdirSync(join(root, 'DEBIAN'));
  const control = ['Package: p', 'Version: 1', 'Architecture: all', 'Maintainer: m <m@x>', 'Description: d', ''];
  writeFileSync(join(root, 'DEBIAN', 'control'), control.join('\n'));
  const file = join(folder, `p${serial++}.deb`);
  run('dpkg-deb', [...options, '--build', root, file]);
  return file;
}

/** The package with another data member, made by tar and ar themselves. */
function debOf(...tarOptions: string[]): string {
  const work = join(folder, `ar${serial}`);
  mkdirSync(work);
  writeFileSync(join(work, 'debian-binary'), '2.0\n');
  run('tar', [...tarOptions, '-cf', join(work, 'data.tar'), '-C', tree, '.']);
  const file = join(folder, `a${serial++}.deb`);
  run('ar', ['rc', file, join(work, 'debian-binary'), join(work, 'data.tar')]);
  return file;
}

const memberName = (line: string): string => line.replace(/^\((.*)\): \d+$/, '$1').replace(/\([^()]*\)$/, '');

describeWith(['dpkg-deb', 'ar', 'tar'], '.deb', () => {
  test.each(['gzip', 'xz', 'zstd', 'none'])('packed by %s: the verdicts of the files in a directory', (form) => {
    const file = deb(`-Z${form}`);
    const found = verdicts(file);
    expect(found.files).toEqual([...inPackage].sort());
    expect(found.sum).toBe(expected.sum);
    const names = spawnSync('sh', ['-c', `dpkg-deb --fsys-tarfile ${file} | tar -t`], { encoding: 'utf8' }).stdout;
    for (const line of found.files) expect(names.split('\n')).toContain(memberName(line));
  });

  test.each(['--format=gnu', '--format=ustar', '--format=pax'])('a tar made with %s', (format) => {
    // The old format has no room for the longest name.
    const leave = format === '--format=ustar' ? [`--exclude=./${LONGER}`] : [];
    const { files } = verdicts(debOf(format, ...leave));
    expect(files).toEqual([...inPackage].filter((line) => leave.length === 0 || !line.includes(LONGER)).sort());
  });

  test('a program that is not served, no data, damage and a cut: an error, and the others go on', () => {
    const file = deb('-Zgzip');
    const work = join(folder, 'renamed');
    mkdirSync(work);
    run('sh', ['-c', `cd ${work} && ar x ${file} && printf BZh91AY > data.tar.bz2`]);
    run('sh', [
      '-c',
      `cd ${work} && rm -f ../bz2.deb && ar rc ../bz2.deb debian-binary data.tar.bz2 && ar rc ../none.deb debian-binary`,
    ]);
    const bytes = readFileSync(file);
    writeFileSync(join(folder, 'cut.deb'), bytes.subarray(0, bytes.length - 200));
    const flipped = Buffer.from(bytes);
    flipped[bytes.length - 4000]! ^= 0x55;
    writeFileSync(join(folder, 'flipped.deb'), flipped);
    const good = sample('module-fentry.ko');
    for (const [name, status, text] of [
      ['bz2', 4, 'packed by bz2, which is not served (gzip, xz, zstd are) [unsupported-form]'],
      ['none', 2, 'it has no member data.tar [elf-malformed]'],
      ['cut', 2, '[elf-truncated]'],
      ['flipped', 2, '['],
    ] as const) {
      const result = elftrace(['verify', join(folder, `${name}.deb`), good]);
      expect([name, result.status]).toEqual([name, status]);
      expect(result.stderr).toContain(text);
      expect(result.stdout).toContain(`${good}: x86-64: 11 sites: 11 ok`);
    }
  });

  test('a file larger than is allowed is refused before it is in memory', () => {
    const big = join(tree, 'usr/share/big.ko');
    run('truncate', ['-s', '64M', big]);
    const file = debOf('--format=gnu');
    rmSync(big);
    const { status, stderr } = elftrace(['verify', '--max-unpacked', '16M', file]);
    expect([status, stderr]).toEqual([2, expect.stringContaining('[limit-exceeded]')]);
    const packed = join(folder, 'bomb');
    mkdirSync(packed);
    run('sh', [
      '-c',
      `cd ${packed} && ar x ${file} && gzip -9 data.tar && ar rc ../bomb.deb debian-binary data.tar.gz`,
    ]);
    const bomb = elftrace(['verify', '--max-ratio', '10', join(folder, 'bomb.deb')]);
    expect([bomb.status, bomb.stderr]).toEqual([2, expect.stringContaining('[limit-exceeded]')]);
  });

  test('xz data in a file inside of xz data are refused, and nothing waits for ever', () => {
    const stripped = join(tree, 'lib/debugdata');
    writeFileSync(`${stripped}.sym`, readFileSync(sample('module-fentry.ko.xz')));
    run('objcopy', [
      '--strip-all',
      '--add-section',
      `.gnu_debugdata=${stripped}.sym`,
      sample('program-fentry'),
      stripped,
    ]);
    rmSync(`${stripped}.sym`);
    const file = deb('-Zxz');
    rmSync(stripped);
    const { status, stderr, stdout } = elftrace(['verify', '--quiet', file]);
    expect([status, stderr]).toEqual([4, expect.stringContaining('xz data of a file inside of xz data')]);
    expect(stdout).toContain('packed.ko.xz): x86-64: 11 sites: 11 ok');
  });

  test('what is written is never a package', () => {
    const { status, stderr } = elftrace(['patch', '--nop', deb('-Znone'), '-o', join(folder, 'out')]);
    expect([status, stderr]).toEqual([4, expect.stringContaining('is an archive')]);
  });
});

describeWith(['rpmbuild', 'rpm2cpio', 'cpio'], '.rpm', () => {
  function rpm(payload: string): string {
    const top = join(folder, `rpm${serial++}`);
    mkdirSync(top);
    const spec = join(top, 'p.spec');
    const lines = [
      'Name: p',
      'Version: 1',
      'Release: 1',
      'Summary: s',
      'License: MIT',
      'BuildArch: noarch',
      '%description',
      'd',
      '%install',
      `mkdir -p %{buildroot} && cp -a ${tree}/. %{buildroot}/`,
      '%files',
      '/lib',
      '/usr',
    ];
    writeFileSync(spec, `${lines.join('\n')}\n`);
    const define = [`_topdir ${top}`, `_binary_payload ${payload}`, '__os_install_post %{nil}'];
    const options = define.flatMap((each) => ['--define', each]);
    run('rpmbuild', ['-bb', '--quiet', '--nodeps', ...options, spec]);
    return join(top, 'RPMS/noarch/p-1-1.noarch.rpm');
  }

  test.each(['w6.gzdio', 'w3.zstdio', 'w2.xzdio'])(
    'payload %s: the verdicts of the files in a directory',
    (payload) => {
      const file = rpm(payload);
      const found = verdicts(file);
      expect(found.files).toEqual([...inPackage].sort());
      expect(found.sum).toBe(expected.sum);
      const list = spawnSync('sh', ['-c', `rpm2cpio ${file} | cpio -t --quiet`], { encoding: 'utf8' }).stdout.split(
        '\n',
      );
      for (const line of found.files) expect(list).toContain(memberName(line));
    },
  );

  test('a program that is not served is named', () => {
    const { status, stderr } = elftrace(['verify', rpm('w9.bzdio')]);
    expect([status, stderr]).toEqual([4, expect.stringContaining('packed by bzip2')]);
  });

  test('cut and damaged packages are errors with a place, and no fault of ours', async () => {
    const bytes = new Uint8Array(readFileSync(rpm('w6.gzdio')));
    let errors = 0;
    for (let i = 0; i < 300; i++) {
      const copy = bytes.slice(0, i % 3 === 0 ? Math.floor((bytes.length * i) / 300) : bytes.length);
      if (i % 3 !== 0) copy[(i * 37) % 6000] = (i * 101) & 0xff;
      if (copy[0] !== 0xed || copy.length < 100) continue;
      try {
        for await (const file of packageFiles(copy, () => true, { unpacked: 1 << 24 })) void file;
      } catch (error) {
        expect(error).toBeInstanceOf(ElftraceError);
        errors++;
      }
    }
    expect(errors).toBeGreaterThanOrEqual(90);
  });
});

describe('lists of files', () => {
  const other = join(tree, LONG);
  const plain = join(tree, 'lib/modules/plain.ko');
  const judged = (list: string, ...args: string[]): string[] => {
    const path = join(folder, `list${serial++}`);
    writeFileSync(path, list);
    const { status, stdout, stderr } = elftrace(['verify', '--quiet', '--files-from', path, ...args]);
    expect([list, status, stderr]).toEqual([list, 0, '']);
    return stdout
      .trim()
      .split('\n')
      .map((line) => line.replace(/: .*$/, ''));
  };

  test('separated by lines, by NULs, with and without an end; beside names on the command line', () => {
    const both = [other, plain].sort();
    const sum = '2 files, 0 failed, 22 sites';
    for (const list of [`${plain}\n${other}\n`, `${plain}\n${other}`, `${plain}\0${other}\0`]) {
      expect(judged(list)).toEqual([...both, sum]);
    }
    expect(judged(`${plain}\n`, other)).toEqual([...both, sum]);
    const odd = join(folder, 'two\nlines.ko');
    copyFileSync(plain, odd);
    expect(judged(`${odd}\0`)[0]).toContain('two\\x0alines.ko');
  });

  test('from standard input; given twice; empty; of files that are not there', () => {
    const script = `printf '%s\\n' '${plain}' | "$0" "$1" verify --quiet --files-from -`;
    const cli = join(builtSamples, '../../dist/cli.cjs');
    const piped = spawnSync('sh', ['-c', script, process.execPath, cli], { encoding: 'utf8' });
    expect([piped.status, piped.stdout]).toEqual([0, `${plain}: x86-64: 11 sites: 11 ok\n`]);
    const twice = elftrace(['verify', '--files-from', '-', '-']);
    expect([twice.status, twice.stderr]).toEqual([2, expect.stringContaining('standard input is given twice')]);
    const empty = join(folder, 'empty');
    writeFileSync(empty, '\n');
    const none = elftrace(['verify', '--files-from', empty]);
    expect([none.status, none.stderr]).toEqual([2, expect.stringContaining('names no file [no-match]')]);
    writeFileSync(empty, `${plain}\n${plain}.missing\n`);
    const missing = elftrace(['verify', '--files-from', empty]);
    expect([missing.status, missing.stdout]).toEqual([2, expect.stringContaining('11 sites: 11 ok')]);
  });
});
