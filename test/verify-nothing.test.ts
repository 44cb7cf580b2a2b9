/**
 * Nothing found is no success: `verify` of files without sites, without functions, of directories
 * without files; names of other files; standard input.
 */
import { spawnSync as spawnNode } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { verify } from '../src/sites/verdicts.js';
import { symbolTableOf } from '../src/program/symbols.js';
import { cliPath, type CliResult, elftrace, warmElftrace } from './support/cli.js';
import { builtSamples, errorOf, openBytes } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-nothing-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const sample = (name: string): string => join(builtSamples, name);
const module = sample('x86-64/module-fentry.ko');
const brief = ({ status, stderr }: CliResult): [number | null, string] => [status, stderr.trim()];
const verified = (...args: string[]): [number | null, string] => brief(warmElftrace(['verify', ...args]));

let serial = 0;
function compile(compiler: string, source: string, options: readonly string[]): string {
  const file = join(folder, `f${serial++}.${options.includes('-c') ? 'o' : 'elf'}`);
  writeFileSync(`${file}.c`, source);
  run(compiler, ['-O1', ...options, '-o', file, `${file}.c`]);
  return file;
}

const functions = `
__attribute__((noinline)) static int inner(int x) { return x * 3; }
__attribute__((noinline)) int outer(int x) { return inner(x) + 1; }
__attribute__((section(".text.other"), noinline)) int other(int x) { return x - 1; }
int main(int c, char **v) { return outer(c) + other(c); }
`;

describe('no file, no site', () => {
  test('an empty directory, and one without ELF files', () => {
    const empty = join(folder, 'empty');
    mkdirSync(empty);
    const message = `${empty}: error: no ELF file, archive or kernel module in ${empty} [no-match]`;
    expect(verified(empty)).toEqual([2, message]);
    writeFileSync(join(empty, 'notes.txt'), 'no module\n');
    expect(verified(empty)).toEqual([2, message]);
  });

  test('what is named like a module and is none is not passed over', () => {
    const tree = join(folder, 'tree');
    mkdirSync(join(tree, 'deep'), { recursive: true });
    copyFileSync(module, join(tree, 'good.ko'));
    writeFileSync(join(tree, 'deep', 'cut.ko'), '');
    const result = warmElftrace(['verify', tree]);
    expect(result.status).toBe(2);
    expect(result.stderr).toContain('cut.ko: error: ');
    expect(result.stdout).toContain('good.ko: x86-64: 11 sites: 11 ok');
    expect(result.stdout).toContain('2 files, 1 failed, 11 sites');
  });

  test('a file by name that is not there: the others are verified', () => {
    const missing = join(folder, 'missing.ko');
    const named = warmElftrace(['verify', missing, module]);
    expect(named.status).toBe(2);
    expect(named.stderr).toContain(`${missing}: error: cannot read ${missing}`);
    expect(named.stdout).toContain('11 sites: 11 ok');
  });

  // The superuser may read everything, but for one without these capabilities.
  const AS_OWNER = ['setpriv', '--bounding-set=-dac_override,-dac_read_search'];
  const asOwner = process.getuid?.() === 0 ? AS_OWNER : [];
  describeWith(asOwner.slice(0, 1), 'permissions', () => {
    test('a file in a directory that cannot be read: the others are verified', () => {
      const tree = join(folder, 'unreadable');
      mkdirSync(tree);
      copyFileSync(module, join(tree, 'good.ko'));
      copyFileSync(module, join(tree, 'hidden'));
      chmodSync(join(tree, 'hidden'), 0);
      const [program, ...args] = [...asOwner, process.execPath, cliPath, 'verify', tree];
      const { status, stdout, stderr } = spawnNode(program!, args, { encoding: 'utf8' });
      expect(status).toBe(2);
      expect(stderr).toContain(`${join(tree, 'hidden')}: error: cannot read`);
      expect(stdout).toContain('good.ko: x86-64: 11 sites: 11 ok');
    });
  });

  describeWith(['gcc', 'clang'], 'compiled', () => {
    test('an object without any site, alone, among others, and under --require', () => {
      const plain = compile('gcc', functions, ['-c']);
      const [status, message] = verified(plain);
      expect(status).toBe(1);
      expect(message).toContain(`${plain}: error: no patch site in the file: no table names any`);
      expect(verified(plain, '--require', '50')[0]).toBe(1);
      expect(verified(plain, module)).toEqual([0, '']);
      expect(verified(plain, module, '--require', '100')[0]).toBe(1);
      // In a directory files without sites are usual; no site at all is a failure.
      const tree = join(folder, 'plain');
      mkdirSync(tree);
      copyFileSync(plain, join(tree, 'a.o'));
      copyFileSync(plain, join(tree, 'b.o'));
      expect(verified(tree)).toEqual([1, 'elftrace: error: no patch site in any of 2 files']);
      copyFileSync(module, join(tree, 'c.ko'));
      expect(verified(tree, '--require', '100')).toEqual([0, '']);
    });

    test('JSON says why', () => {
      const plain = compile('gcc', functions, ['-c']);
      const result = warmElftrace(['verify', '--json', plain]);
      expect(result.status).toBe(1);
      const incomplete = (JSON.parse(result.stdout) as { incomplete: { code: string } }).incomplete;
      expect(incomplete.code).toBe('no-sites');
    });

    test('an object with XRay sleds only', () => {
      const sleds = ['-fxray-instrument', '-fxray-instruction-threshold=1', '-c', '--target=x86_64-linux-gnu'];
      const [status, message] = verified(compile('clang', functions, sleds));
      expect([status, message.includes('XRay sleds (xray_instr_map), which ftrace does not use')]).toEqual([1, true]);
    });
  });
});

describeWith(['gcc', 'strip', 'nm'], 'functions that nobody knows', () => {
  const options = ['-fpatchable-function-entry=5', '-fno-pie', '-no-pie'];

  test('M-WEAK-1 a stripped file: no leftovers, and no success', () => {
    for (const table of ['-fpatchable-function-entry=5', '-pg -mfentry -mrecord-mcount']) {
      const program = compile('gcc', functions, [...table.split(' '), '-fno-pie', '-no-pie']);
      const stripped = `${program}.stripped`;
      run('strip', ['-o', stripped, program]);
      const [status, message] = verified(stripped);
      expect(status).toBe(1);
      expect(message).toContain('no function of the file is known (it is stripped)');
      expect(verify(openBytes(new Uint8Array(readFileSync(stripped))).sites).verdicts['weak-leftover']).toBeUndefined();
      expect(verified(stripped, '--symbols', program)).toEqual([0, '']);
    }
  });

  test('M-WEAK-1 a stripped shared object: what it does not export is no leftover', () => {
    const exported = 'int e1(int x) { return x; } int e2(int x) { return x + 1; } int e3(int x) { return x + 2; }\n';
    const hidden =
      '__attribute__((noinline)) static int hidden(int x) { return x * 5; } int e4(int x) { return hidden(x); }\n';
    const library = compile('gcc', exported + hidden, ['-pg', '-mfentry', '-mrecord-mcount', '-shared', '-fPIC']);
    run('strip', [library]);
    const { verdicts, findings } = verify(openBytes(new Uint8Array(readFileSync(library))).sites);
    expect(verdicts).toEqual({ ok: 4, 'no-symbol': 1 });
    expect(findings[0]!.message).toContain('names only what it exports');
  });

  test('C-REC-2 names from text cover every section, in each form of nm', () => {
    const program = compile('gcc', functions, ['-Wl,--section-start=.text.other=0x500000', ...options]);
    const stripped = `${program}.stripped`;
    run('strip', ['-o', stripped, program]);
    for (const form of [[], ['-n'], ['-S']]) {
      const map = join(folder, 'map');
      writeFileSync(map, run('nm', [...form, program]));
      const listed = warmElftrace(['list', stripped, '--symbols', map]).stdout.split('\n').sort();
      expect(listed).toEqual(['', 'inner', 'main', 'other', 'outer']);
      const result = warmElftrace(['verify', stripped, '--symbols', map]);
      expect(result.status).toBe(0);
      expect(result.stdout).toContain('4 sites: 4 ok\n');
    }
  });

  test('names of another file are no names', () => {
    const program = compile('gcc', functions, ['-pg', '-mfentry', '-mrecord-mcount', '-fno-pie', '-no-pie']);
    const stripped = `${program}.stripped`;
    run('strip', ['-o', stripped, program]);
    const map = join(folder, 'other.map');
    writeFileSync(map, '0000000000000010 T somewhere\n0000000000000020 T else\n');
    const [status, message] = verified(stripped, '--symbols', map);
    expect([status, message.includes('those of another file')]).toEqual([1, true]);
    // Each address three bytes off.
    const shifted = run('nm', [program])
      .toString()
      .replaceAll(/^[0-9a-f]{16}/gm, (hex) => (BigInt(`0x${hex}`) + 3n).toString(16).padStart(16, '0'));
    writeFileSync(map, shifted);
    expect(verified(stripped, '--symbols', map)[0]).toBe(1);
  });

  test('addresses mean nothing in a relocatable file', () => {
    const map = join(folder, 'some.map');
    writeFileSync(map, '0000000000000010 T f\n');
    const [status, message] = verified(module, '--symbols', map);
    expect([status, message.includes('name nothing in a relocatable file')]).toEqual([2, true]);
  });
});

describeWith(['powerpc64-linux-gnu-gcc', 'nm', 'powerpc64-linux-gnu-strip'], 'descriptors', () => {
  test('C-REC-2 nm prints functions of ELFv1 as data: they are followed to their code', () => {
    const program = compile('powerpc64-linux-gnu-gcc', functions.replace('int main', 'int _start'), [
      ...['-mabi=elfv1', '-fpatchable-function-entry=2', '-static', '-nostdlib', '-ffreestanding'],
    ]);
    const stripped = `${program}.stripped`;
    run('powerpc64-linux-gnu-strip', ['-o', stripped, program]);
    const map = join(folder, 'v1.map');
    writeFileSync(map, run('nm', [program]));
    expect(verified(stripped, '--symbols', map)).toEqual([0, '']);
    const listed = warmElftrace(['list', stripped, '--symbols', map]).stdout.split('\n').sort();
    expect(listed).toEqual(['', '_start', 'inner', 'other', 'outer']);
  });
});

describe('lists of names', () => {
  test("Debian's System.map of one line is a stub, and says where the real one is", () => {
    const line = 'ffffffffffffffff B The real System.map is in the linux-image-<version>-dbg package\n';
    const error = errorOf(() => symbolTableOf(line, 'System.map'));
    expect([error.code, error.message]).toEqual([
      'bad-reference',
      'System.map is a stub: the real System.map is in the linux-image-<version>-dbg package',
    ]);
    expect(errorOf(() => symbolTableOf('0000000000001000 B table\n', 'm')).message).toBe('m names no function');
  });

  test('mapping symbols name no function; names of modules and of C++ are whole', () => {
    const text = '1000 t $x\n1000 T f(int, char)\n2000 t mod_init\t[brd]\n2004 t .L12\n';
    const table = symbolTableOf(text, 'm');
    expect(Array.from({ length: table.count }, (_, i) => table.name(i))).toEqual(['', 'f(int, char)', 'mod_init']);
  });

  test('every name that does not exist is named', () => {
    const list = join(folder, 'names');
    writeFileSync(list, 'work\nnever_there\n');
    const found = warmElftrace(['list', module]).stdout.split('\n')[0]!;
    const result = warmElftrace(['list', module, '-l', 'no_such', '-l', found, '-n', 'nor_this', '--file', list]);
    expect(result.status).toBe(2);
    for (const name of ['no_such', 'nor_this', 'never_there']) {
      expect(result.stderr).toContain(`filter '${name}': no traceable function has this name`);
    }
    expect(result.stderr).not.toContain(`'${found}'`);
    const patched = join(folder, 'not-written');
    expect(elftrace(['patch', '--nop', module, '-o', patched, '-l', 'a_*', '-l', 'b_*']).status).toBe(2);
  });
});

describe('standard input', () => {
  const piped = (args: readonly string[], input: Uint8Array): [number | null, string, string] => {
    const { status, stdout, stderr } = spawnNode(process.execPath, [cliPath, ...args], { input, encoding: 'utf8' });
    return [status, stdout, stderr];
  };

  test('verify, info and list read it for -', () => {
    const bytes = new Uint8Array(readFileSync(module));
    expect(piped(['verify', '-'], bytes)).toEqual([0, '/dev/stdin: x86-64: 11 sites: 11 ok\n', '']);
    const [status, both] = piped(['verify', '--json', '-', module], bytes);
    expect([status, both.trim().split('\n').length]).toEqual([0, 3]);
    expect(piped(['list', '-'], bytes)[1]).toBe(warmElftrace(['list', module]).stdout);
    expect(piped(['info', '-'], bytes)[1]).toContain('/dev/stdin: x86-64');
  });

  test('nothing there is no success', () => {
    const [status, , message] = piped(['verify', '-'], new Uint8Array(0));
    expect([status, message.startsWith('/dev/stdin: error: ')]).toEqual([2, true]);
  });
});
