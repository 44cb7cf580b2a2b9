/**
 * The command line as its users have it: dist/cli.cjs as a child process, files in a folder of
 * their own.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { cliPath, elftrace, warmElftrace } from './support/cli.js';
import { smallObject } from './support/elf-builder.js';
import { builtSamples, edited, openBytes, readSample, sameBytes } from './support/pipeline.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run } from './support/tools.js';

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

const verbs = ['info', 'list', 'verify', 'patch', 'revert', 'status', 'mcount', 'disasm', 'race', 'run'];
const module = readSample('x86-64/module-fentry.ko');
const moduleOpened = openBytes(module);
const wrongPlace = moduleOpened.sites.fileOffset(3);
const wrong = edited(module, wrongPlace, [0xcc]);

describe('help', () => {
  test.each(verbs)('%s --help fits a screen and shows an example', (verb) => {
    const { status, stdout, stderr } = elftrace([verb, '--help'], { env: { COLUMNS: '110' } });
    expect([status, stderr]).toEqual([0, '']);
    const lines = stdout.trimEnd().split('\n');
    expect(lines.length).toBeLessThanOrEqual(50);
    expect(stdout).toContain(`elftrace ${verb}`);
    expect(stdout).toContain('Examples:');
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(110);
  });

  test('without a verb, with an unknown one, with an unknown option: usage, exit 2', () => {
    for (const args of [[], ['frobnicate'], ['info', '--nonsense', sample('x86-64/module-fentry.ko')], ['verify']]) {
      const { status, stdout, stderr } = elftrace(args);
      expect([args, status, stdout]).toEqual([args, 2, '']);
      expect(stderr).toMatch(/^elftrace: error: .*\[usage\]\n$/);
    }
    expect(elftrace(['--version']).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    const all = elftrace(['--help']).stdout;
    for (const verb of verbs) expect(all).toContain(`elftrace ${verb}`);
  });
});

// What a command is to say and how it is to end: a process of its own tells no more.
describe('exit codes', () => {
  test('0: as asked, also when there was nothing to do', () => {
    const plain = sample('arm64/module-patchable-2.ko');
    for (const args of [
      ['info', plain],
      ['list', plain],
      ['verify', plain],
      ['status', plain],
    ]) {
      expect([args, warmElftrace(args).status]).toEqual([args, 0]);
    }
    // Compiler-made nops stay: a copy, with a record that says so.
    expect(warmElftrace(['patch', '--nop', plain, '-o', at('same.ko')]).status).toBe(0);
    expect(warmElftrace(['revert', at('same.ko'), '-o', at('copy.ko')]).status).toBe(0);
    expect(sameBytes(read(at('copy.ko')), read(plain))).toBe(true);
  });

  test('1: a bad site, a gate that is missed, a refused plan, a record that disagrees', () => {
    const bad = put('bad.ko', wrong);
    expect(warmElftrace(['verify', bad]).status).toBe(1);
    expect(warmElftrace(['verify', '--require', '90', bad]).status).toBe(0);
    expect(warmElftrace(['verify', '--require', '95', bad]).status).toBe(1);
    const refused = warmElftrace(['patch', '--nop', bad, '-o', at('never.ko')]);
    expect([refused.status, existsSync(at('never.ko')), sameBytes(read(bad), wrong)]).toEqual([1, false, true]);
    expect(warmElftrace(['patch', '--nop', '--dry-run', bad]).status).toBe(1);
    expect(warmElftrace(['patch', '--nop', '--partial', bad, '-o', at('partial.ko')]).status).toBe(0);
    expect(warmElftrace(['patch', '--nop', '--require', '90', bad, '-o', at('partial.ko')]).status).toBe(0);
    expect(warmElftrace(['patch', '--nop', '--require', '95', bad, '-o', at('never.ko')]).status).toBe(1);
    // The dry run has the same gate.
    expect(warmElftrace(['patch', '--nop', '--dry-run', '--require', '95', bad]).status).toBe(1);
    expect(warmElftrace(['patch', '--nop', '--dry-run', '--require', '90', bad]).status).toBe(0);

    expect(warmElftrace(['patch', '--nop', sample('x86-64/module-fentry.ko'), '-o', at('quiet.ko')]).status).toBe(0);
    const tampered = put('tampered.ko', edited(read(at('quiet.ko')), wrongPlace, [0xcc]));
    for (const args of [
      ['status', tampered],
      ['verify', tampered],
      ['revert', tampered, '-o', at('never.ko')],
    ]) {
      expect([args, warmElftrace(args).status]).toEqual([args, 1]);
    }
    expect(existsSync(at('never.ko'))).toBe(false);
  });

  test('1 under --strict: a warning', () => {
    const linked = readSample('x86-64/program-fentry');
    const { sites } = openBytes(linked);
    const leftover = [...sites].find((site) => site.functionSymbol < 0)!;
    const file = put('warning', edited(linked, sites.fileOffset(leftover.index), [0xcc, 0xcc, 0xcc, 0xcc, 0xcc]));
    const plain = warmElftrace(['verify', file]);
    expect([plain.status, plain.stdout.includes('warning: no-symbol')]).toEqual([0, true]);
    expect(warmElftrace(['verify', '--strict', file]).status).toBe(1);
  });

  test('2: garbage, a missing file, a damaged one, a selection of nothing, no record', () => {
    const garbage = put('garbage', 'this is no ELF file');
    const truncated = put('truncated.ko', module.slice(0, 2000));
    const cases: [string[], string][] = [
      [['info', garbage], 'not-elf'],
      [['verify', at('does-not-exist')], 'io'],
      [['info', truncated], 'elf-'],
      [['list', '-l', 'no_such_function', sample('x86-64/module-fentry.ko')], 'no-match'],
      [['list', '-l', '[', sample('x86-64/module-fentry.ko')], ''],
      [['revert', sample('x86-64/module-fentry.ko'), '-o', at('never')], 'no-record'],
      [['patch', sample('x86-64/module-fentry.ko'), '-o', at('never')], 'usage'],
      [['patch', '--nop', '--init', sample('x86-64/module-fentry.ko'), '-o', at('never')], 'usage'],
      [['patch', '--nop', sample('x86-64/module-fentry.ko')], 'usage'],
      [['patch', '--nop', '--readonly', 'everything', sample('x86-64/module-fentry.ko'), '-o', at('never')], 'usage'],
      [['verify', '--require', '101', sample('x86-64/module-fentry.ko')], 'usage'],
      [['verify', '--jobs', 'many', sample('x86-64/module-fentry.ko')], 'usage'],
      [['verify', '--table', 'no_table', sample('x86-64/module-fentry.ko')], 'no-match'],
      [['disasm', sample('x86-64/module-fentry.ko'), 'no_such_function'], 'no-match'],
      [['list', builtSamples], 'io'],
    ];
    for (const [args, code] of cases) {
      const { status, stderr } = warmElftrace(args);
      expect([args, status, stderr.includes(code)]).toEqual([args, 2, true]);
      expect(stderr).toMatch(/error: /);
      expect(stderr).not.toMatch(/\n {4}at /);
    }
    expect(existsSync(at('never'))).toBe(false);
  });

  test('4: recognised and not served: i386, RV32, 32-bit ARM, core files, archives to patch', () => {
    const little = { is64: false, endian: 'little' } as const;
    const core = smallObject({ is64: true, endian: 'little' });
    core[16] = 4;
    const files = [
      put('i386.o', smallObject(little, 3)),
      put('rv32.o', smallObject(little, 243)),
      put('arm.o', smallObject(little, 40)),
      put('core', core),
    ];
    for (const file of files) {
      for (const verb of ['info', 'verify', 'status']) {
        const { status, stderr } = warmElftrace([verb, file]);
        expect([verb, file, status, stderr.includes('error: ')]).toEqual([verb, file, 4, true]);
      }
    }
    const archive = warmElftrace(['patch', '--nop', sample('x86-64/modules.a'), '-o', at('never')]);
    expect([archive.status, archive.stderr.includes('archive')]).toEqual([4, true]);
    expect(warmElftrace(['info', files[0]!]).stdout).toContain('not served');
  });

  test('the worst of several files decides', () => {
    const good = sample('x86-64/module-fentry.ko');
    const bad = put('bad.ko', wrong);
    const garbage = put('garbage', 'this is no ELF file');
    expect(warmElftrace(['verify', good, bad]).status).toBe(1);
    expect(warmElftrace(['verify', good, bad, garbage]).status).toBe(2);
    expect(warmElftrace(['info', good, garbage]).status).toBe(2);
  });
});

describe('diagnostics', () => {
  test('file:section+offset (function): error: …, expected and actual bytes with their disassembly', () => {
    const bad = put('bad.ko', wrong);
    const site = [...moduleOpened.sites].find((each) => moduleOpened.sites.fileOffset(each.index) === wrongPlace)!;
    const name = moduleOpened.program.symbolName(site.functionSymbol);
    const place = `${bad}:.text+0x${site.anchor.toString(16)} (${name}): error: wrong-bytes: `;
    const verified = elftrace(['verify', bad]).stdout;
    expect(verified).toContain(place);
    expect(verified).toMatch(/ {2}expected: e8 00 00 00 00 {2}call /);
    expect(verified).toMatch(/ {2}actual: cc 00 00 00 00 {2}int3/);
    const { stderr } = elftrace(['patch', '--nop', bad, '-o', at('never.ko')]);
    expect(stderr).toContain(place);
    expect(stderr).toContain('[EINVAL]');
    expect(stderr).toContain('  expected: e8 00 00 00 00\n  actual: cc 00 00 00 00\n');
    expect(stderr.trimEnd().split('\n').at(-1)).toMatch(/error: .*1 of 11 sites refused.*\[plan-refused\]$/);
  });

  test('no colour in a pipe, with and without NO_COLOR', () => {
    const bad = put('bad.ko', wrong);
    for (const env of [{}, { NO_COLOR: '1' }, { FORCE_COLOR: '1' }]) {
      const { stdout, stderr } = elftrace(['verify', bad], { env });
      expect(stdout + stderr).not.toContain('\u001b');
    }
  });

  test('a reader that goes away ends the program quietly', async () => {
    const child = spawn(process.execPath, [cliPath, 'verify', builtSamples], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    // Gone before the first byte comes: what head leaves behind once it has enough.
    child.stdout.destroy();
    let complaint = '';
    child.stderr.on('data', (data: Buffer) => (complaint += data.toString()));
    const status = await new Promise<number | null>((resolve) => child.on('close', resolve));
    expect([status, complaint]).toEqual([0, '']);
  });
});

describeWith(['script'], 'a terminal', () => {
  test('colour only there, and not with NO_COLOR', () => {
    const bad = put('bad.ko', wrong);
    const shown = (env: Readonly<Record<string, string>>): string =>
      spawnSync('script', ['-qec', `"${process.execPath}" "${cliPath}" verify "${bad}"`, '/dev/null'], {
        encoding: 'utf8',
        env: { ...process.env, NODE_OPTIONS: '', NODE_DISABLE_COLORS: '', ...env },
      }).stdout;
    expect(shown({})).toContain('\u001b[31m');
    expect(shown({ NO_COLOR: '1' })).not.toContain('\u001b');
  });
});

describeWith(['nm'], 'names by nm', () => {
  test.each(['x86-64/program-fentry', 'x86-64/module-fentry.ko', 'x86-64/core-fentry'])(
    'list prints the functions that nm knows: %s',
    (name) => {
      const symbols = run('nm', ['-n', sample(name)])
        .toString()
        .split('\n')
        .map((line) => / [tTwW] (\S+)$/.exec(line)?.[1] ?? '');
      const lines = warmElftrace(['list', sample(name)])
        .stdout.trim()
        .split('\n');
      expect(lines.length).toBeGreaterThan(10);
      for (const line of lines) expect(symbols).toContain(line);
      expect(new Set(lines).size).toBe(lines.length);
    },
  );

  test('--symbols with the lines of nm names the functions of a stripped file', () => {
    const map = put('System.map', run('nm', ['-n', sample('x86-64/program-fentry')]));
    const named = warmElftrace(['list', sample('x86-64/program-fentry-stripped'), '--symbols', map]);
    const plain = warmElftrace(['list', sample('x86-64/program-fentry')]);
    expect([named.status, named.stderr]).toEqual([0, '']);
    // Without sizes a function reaches to the next one, over an overridden body too: no function
    // begins in front of the site of that one.
    expect(named.stdout.trim().split('\n')).toHaveLength(17);
    expect(named.stdout.trim().split('\n').sort()).toEqual(plain.stdout.trim().split('\n').sort());
    // An ELF file with symbols does as well; without either there are addresses.
    const elf = warmElftrace([
      'list',
      sample('x86-64/program-fentry-stripped'),
      '--symbols',
      sample('x86-64/program-fentry'),
    ]);
    expect(elf.stdout).toBe(plain.stdout);
    expect(warmElftrace(['list', sample('x86-64/program-fentry-stripped')]).stdout).toMatch(/^(0x[0-9a-f]+\n){18}$/);
    expect(
      warmElftrace([
        'patch',
        '--nop',
        '-l',
        'leaf',
        '--symbols',
        map,
        sample('x86-64/program-fentry-stripped'),
        '-o',
        at('leaf'),
      ]).stdout,
    ).toContain('1 of 1 sites changed');
    expect(
      warmElftrace(['list', sample('x86-64/program-fentry-stripped'), '--symbols', put('nonsense', 'no map\n')]).status,
    ).toBe(2);
  });
});

describe.each([
  ['powerpc-linux-gnu-nm', ['ppc32/program-mcount', 'ppc32/module-mcount-recorded.ko']],
  ['powerpc64le-linux-gnu-nm', ['ppc64-elfv2-le/program-mprofile', 'ppc64-elfv2-le/module-mprofile.ko']],
  ['riscv64-linux-gnu-nm', ['riscv64/program-patchable-8', 'riscv64/module-mcount.ko']],
  ['aarch64-linux-gnu-nm', ['arm64/core-patchable-4-2', 'arm64/module-patchable-4-2.ko']],
] as const)('names by %s', (nm, names) => {
  describeWith([nm], nm, () => {
    test.each(names)('list prints the functions that nm knows: %s', (name) => {
      const symbols = run(nm, ['-n', sample(name)])
        .toString()
        .split('\n')
        .map((line) => / [tTwW] (\S+)$/.exec(line)?.[1] ?? '');
      const lines = warmElftrace(['list', sample(name)])
        .stdout.trim()
        .split('\n');
      expect(lines.length).toBeGreaterThan(10);
      for (const line of lines) expect(symbols).toContain(line);
      expect(new Set(lines).size).toBe(lines.length);
    });
  });
});

describeWith(['objdump'], 'code by objdump', () => {
  test('disasm shows the instructions of a function, its site and its relocations', () => {
    const text = run('objdump', [
      '-dr',
      '--no-show-raw-insn',
      '-M',
      'intel',
      '--disassemble=module_run',
      sample('x86-64/module-fentry.ko'),
    ]).toString();
    const addresses = [...text.matchAll(/^ *([0-9a-f]+):\t(?!R_)/gm)].map((match) => `0x${match[1]!}`);
    const { stdout, status } = warmElftrace(['disasm', '--json', sample('x86-64/module-fentry.ko'), 'module_run']);
    const [shown] = (JSON.parse(stdout) as { functions: { lines: { address: string; notes: string[] }[] }[] })
      .functions;
    expect(status).toBe(0);
    // objdump goes on to the padding behind the function's size; we stop at its end or there.
    expect(addresses.slice(0, shown!.lines.length)).toEqual(shown!.lines.map((line) => line.address));
    expect(shown!.lines.length).toBeGreaterThan(5);
    expect(shown!.lines[0]!.notes.join()).toContain('site x86-64.call5: compiled');
    expect(shown!.lines[0]!.notes.join()).toContain('R_X86_64_PLT32 __fentry__');
  });
});
