/**
 * `diff`: functions and sites of two files or trees. The objects come from gcc and clang of several
 * machines; which functions exist and which are traced is taken from nm and from the sources.
 */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, describe, expect, test } from '@jest/globals';
import { diffSites, type SitesDiff } from '../src/diff/index.js';
import { diffLines } from '../src/report/diff.js';
import { type CliResult, warmElftrace } from './support/cli.js';
import { openBytes, readSample, root } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'diff-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const diff = (...args: string[]): CliResult => warmElftrace(['diff', ...args], { cwd: folder });
const validate = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false }).compile(
  JSON.parse(readFileSync(join(root, 'schemas', 'diff.schema.json'), 'utf8')) as object,
);
/** The lines of `--json`, each held against the schema. */
function json(...args: string[]): Record<string, unknown>[] {
  const { stdout, stderr } = diff('--json', ...args);
  expect(stderr).toBe('');
  return stdout
    .trim()
    .split('\n')
    .map((line) => {
      const value = JSON.parse(line) as Record<string, unknown>;
      expect([validate(value), validate.errors]).toEqual([true, null]);
      return value;
    });
}
const put = (name: string, bytes: Uint8Array | string): string => {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), bytes);
  return name;
};

let serial = 0;
/** Compiles C; options decide everything. Returns the name of the object. */
function compile(compiler: string, source: string, options: readonly string[], name = `o${serial++}.o`): string {
  put(`${name}.c`, source);
  run(compiler, [...options, '-c', '-o', join(folder, name), join(folder, `${name}.c`)]);
  return name;
}
const compare = (older: string, newer: string): Promise<SitesDiff> =>
  diffSites(openBytes(read(older)).sites, openBytes(read(newer)).sites);
const read = (name: string): Uint8Array => new Uint8Array(readFileSync(join(folder, name)));
/** `lost helper inlined` for each difference. */
const brief = ({ differences }: SitesDiff): string[] =>
  differences.map((each) => [each.change, each.function, each.reason?.code ?? ''].join(' ').trim());
/** Functions that nm finds in an object. */
const functionsOf = (name: string): string[] =>
  run('nm', ['--defined-only', '--format=posix', join(folder, name)])
    .toString()
    .split('\n')
    .filter((line) => / [tTwW] /.test(line))
    .map((line) => line.split(' ')[0]!);

const BODY = '{ for (int i = 0; i < n; i++) a[i] = a[(i * 7) & 15] * n + 3; return a[n & 15]; }';
const OLD = `
#define NOINLINE __attribute__((noinline))
static NOINLINE int helper(int *a, int n) ${BODY}
static NOINLINE int unused_later(int *a, int n) ${BODY.replace('7', '5')}
NOINLINE int quiet(int *a, int n) ${BODY.replace('7', '3')}
NOINLINE int stays(int *a, int n) ${BODY.replace('7', '9')}
__attribute__((section(".text.special"))) int special(int *a, int n) ${BODY.replace('7', '11')}
int first(int *a, int n) { return helper(a, n) + unused_later(a, n); }
int second(int *a, int n) { return helper(a, n + 1) + quiet(a, n); }
`;
const NEW = `
#define NOINLINE __attribute__((noinline))
#define INLINE inline __attribute__((always_inline))
static INLINE int helper(int *a, int n) ${BODY}
__attribute__((no_instrument_function, noinline NOSITE)) int quiet(int *a, int n) ${BODY.replace('7', '3')}
NOINLINE __attribute__((section(".text.moved"))) int stays(int *a, int n) ${BODY.replace('7', '9')}
NOINLINE int added(int *a, int n) ${BODY.replace('7', '13')}
int first(int *a, int n) { return helper(a, n) + n; }
int second(int *a, int n) { return helper(a, n + 1) + quiet(a, n) + added(a, n); }
`;

const machines: readonly [name: string, compiler: string, options: readonly string[], also?: string[]][] = [
  ['x86-64', 'x86_64-linux-gnu-gcc', ['-pg', '-mfentry', '-mrecord-mcount', '-fno-pie']],
  ['x86-64, DWARF 4', 'x86_64-linux-gnu-gcc', ['-pg', '-mfentry', '-mrecord-mcount', '-fno-pie', '-gdwarf-4']],
  ['x86-64, packed DWARF', 'x86_64-linux-gnu-gcc', ['-pg', '-mfentry', '-mrecord-mcount', '-fno-pie', '-gz=zlib']],
  ['x86-64 by clang', 'clang', ['--target=x86_64-linux-gnu', '-fpatchable-function-entry=5']],
  ['riscv64', 'riscv64-linux-gnu-gcc', ['-fpatchable-function-entry=4']],
  ['arm64', 'aarch64-linux-gnu-gcc', ['-fpatchable-function-entry=2']],
  // A leaf needs no TOC: its global entry is its local one, and no code is in front of the site.
  ['ppc64 ELFv2', 'powerpc64le-linux-gnu-gcc', ['-pg', '-mprofile-kernel'], ['moved first']],
  ['ppc32', 'powerpc-linux-gnu-gcc', ['-pg']],
];

describeWith(['nm', ...new Set(machines.map(([, compiler]) => compiler))], 'functions of two objects', () => {
  test.each(machines)('%s: lost, gained and moved, each with its reason', async (_, compiler, options, also = []) => {
    const isPadded = options.some((option) => option.startsWith('-fpatchable'));
    const noSite = isPadded ? ', patchable_function_entry(0)' : '';
    const older = compile(compiler, OLD, ['-O2', '-g', ...options]);
    const newer = compile(compiler, NEW.replace(' NOSITE', noSite), ['-O2', '-g', ...options]);
    const found = await compare(older, newer);
    expect(brief(found)).toEqual([
      'lost helper inlined',
      'lost quiet notrace',
      'lost special section-discarded',
      'lost unused_later symbol-gone',
      'gained added symbol-gone',
      ...also,
      'moved stays',
    ]);
    const [helper] = found.differences;
    expect(helper!.reason!.names).toEqual(['first', 'second']);
    expect(found.debug).toEqual({ old: 'read', new: 'read' });
    expect(found.same).toBe(2 - also.length);
    // nm agrees about which functions there are.
    const [before, after] = [functionsOf(older), functionsOf(newer)];
    for (const name of ['helper', 'special', 'unused_later']) {
      expect([before.includes(name), after.includes(name)]).toEqual([true, false]);
    }
    expect(after).toContain('quiet');
    // The other way round what was lost is gained.
    expect(brief(await compare(newer, older)).sort()).toEqual(
      [
        'gained helper inlined',
        'gained quiet notrace',
        'gained special section-discarded',
        'gained unused_later symbol-gone',
        'lost added symbol-gone',
        ...also,
        'moved stays',
      ].sort(),
    );
  });

  test('damaged DWARF is no error of the files: the reason is open, and that is said', async () => {
    const options = ['-O2', '-g', '-pg', '-mfentry', '-mrecord-mcount', '-fno-pie'];
    const older = openBytes(read(compile('x86_64-linux-gnu-gcc', OLD, options))).sites;
    const bytes = read(compile('x86_64-linux-gnu-gcc', NEW.replace(' NOSITE', ''), options));
    const { image } = openBytes(bytes);
    const knowledge = new Set<string>();
    for (const name of ['.debug_info', '.debug_abbrev']) {
      const section = image.section(name)!;
      for (let at = 0; at < section.size; at += 3) {
        const damaged = bytes.slice();
        damaged.fill(0xff, section.offset + at, section.offset + Math.min(section.size, at + 2));
        const found = await diffSites(older, openBytes(damaged).sites);
        expect(brief(found).map((each) => each.replace('inlined', 'symbol-gone'))).toContain('lost helper symbol-gone');
        knowledge.add(found.debug.new);
        if (found.debug.new === 'damaged')
          expect(diffLines(found).join()).toContain('DWARF of the new file is damaged');
      }
    }
    expect([...knowledge].sort()).toEqual(['damaged', 'read']);
  });

  test('without DWARF nobody says that a function was inlined, and that is said', async () => {
    const options = ['-O2', '-pg', '-mfentry', '-mrecord-mcount', '-fno-pie'];
    const older = compile('x86_64-linux-gnu-gcc', OLD, options);
    const newer = compile('x86_64-linux-gnu-gcc', NEW.replace(' NOSITE', ''), options);
    const found = await compare(older, newer);
    expect(brief(found)).toContain('lost helper symbol-gone');
    expect(found.debug.new).toBe('absent');
    expect(diffLines(found).at(-2)).toContain('which of the lost functions were inlined nobody can tell');
  });
});

describeWith(['x86_64-linux-gnu-gcc', 'objcopy', 'ld', 'strip'], 'names', () => {
  const options = ['-pg', '-mfentry', '-mrecord-mcount', '-fno-pie'];
  const gcc = (source: string, more: readonly string[] = ['-O1'], name?: string): string =>
    compile('x86_64-linux-gnu-gcc', source, [...options, ...more], name);
  const link = (...objects: string[]): string => {
    const name = `l${serial++}.o`;
    run('ld', ['-r', '-o', join(folder, name), ...objects.map((each) => join(folder, each))]);
    return name;
  };

  test('static functions of equal names are told by their source files', async () => {
    const twin = (n: number): string => `static __attribute__((noinline)) int twin(int x) { return x * ${n} + 1; }
int user${n}(int x) { return twin(x) + twin(x + 1); }`;
    const quiet = (n: number): string => twin(n).replace('noinline', 'noinline, no_instrument_function');
    const [a, b] = [gcc(twin(3), ['-O1'], 'a.o'), gcc(twin(5), ['-O1'], 'b.o')];
    const older = link(a, b);
    const quietB = gcc(quiet(5), ['-O1'], 'b.o');
    // Their order does not matter.
    const found = await compare(older, link(quietB, a));
    expect(found.differences.map(({ change, function: name, source }) => [change, name, source])).toEqual([
      ['lost', 'twin', 'b.o.c'],
    ]);
    const gone = await compare(older, a);
    expect(gone.differences.map(({ function: name, source }) => [name, source])).toEqual([
      ['twin', 'b.o.c'],
      ['user5', ''],
    ]);
  });

  test('what a compiler makes of a function is named: .constprop, .isra, .part, .cold', async () => {
    const older = gcc('int target(int x, int y) { return x + y; }\nint user(int x) { return target(x, 1); }');
    for (const suffix of ['constprop.0', 'isra.0', 'part.0.cold', 'lto_priv.0', 'llvm.123456']) {
      const newer = `s${serial++}.o`;
      run('objcopy', ['--redefine-sym', `target=target.${suffix}`, join(folder, older), join(folder, newer)]);
      const found = await compare(older, newer);
      expect(brief(found)).toEqual(['lost target split', `gained target.${suffix} split`]);
      expect(found.differences.map(({ reason }) => reason!.names)).toEqual([[`target.${suffix}`], ['target']]);
    }
    const real = gcc(
      `static __attribute__((noinline)) int target(int x, int y) { return x * y + x / (y + 3); }
int user(int x) { return target(x, 17) + target(x + 1, 17); }`,
      ['-O2'],
    );
    expect(brief(await compare(older, real))).toContain('lost target split');
  });

  test('an alias does not lose a function; one that is only referred to is elsewhere', async () => {
    const older = gcc('int target(int x) { return x + 1; }\nint user(int x) { return target(x) * 2; }');
    const alias = gcc(
      'int another(int x) { return x + 1; }\nint target(int x) __attribute__((alias("another")));\nint user(int x) { return target(x) * 2; }',
    );
    expect(brief(await compare(older, alias))).toEqual([]);
    const apart = gcc('int target(int);\nint user(int x) { return target(x) * 2; }');
    expect(brief(await compare(older, apart))).toEqual(['lost target elsewhere']);
  });

  test('stripped files and other machines are refused', () => {
    const older = gcc('int target(int x) { return x + 1; }');
    const linked = `p${serial++}`;
    const script = put('entry.c', 'void __fentry__(void) {} void _start(void) {}');
    run('x86_64-linux-gnu-gcc', [
      '-nostdlib',
      '-static',
      '-o',
      join(folder, linked),
      join(folder, older),
      join(folder, script),
    ]);
    run('strip', ['-o', join(folder, `${linked}.s`), join(folder, linked)]);
    const refused = diff(linked, `${linked}.s`);
    expect([refused.status, refused.stderr]).toEqual([2, expect.stringContaining('--new-symbols names a file')]);
    expect(diff(linked, `${linked}.s`, '--new-symbols', linked)).toMatchObject({ status: 0, stderr: '' });
    const arm = put('arm64.ko', readSample('arm64/core-patchable-2'));
    expect(diff(older, arm)).toMatchObject({ status: 2, stdout: '' });
  });
});

describe('the command', () => {
  const ko = readSample('x86-64/module-fentry.ko');
  put('one/kernel/a.ko', ko);
  put('one/kernel/gone.ko', ko);
  put('two/extra/a.ko.xz', readSample('x86-64/module-fentry.ko.xz'));
  put('two/fresh.ko', readSample('x86-64/module-fentry-ibt.ko'));
  put('plain.ko', ko);
  warmElftrace(['patch', 'plain.ko', '--nop', '-o', 'nops.ko'], { cwd: folder });
  warmElftrace(['patch', 'plain.ko', '--untrace', '-o', 'untraced.ko'], { cwd: folder });

  test('equal files: 0 and one line', () => {
    const same = diff('plain.ko', 'plain.ko', '--fail-on', 'any');
    expect(same).toMatchObject({ status: 0, stderr: '', stdout: 'plain.ko -> plain.ko: 11 sites, then 11: 11 same\n' });
  });

  test('sites in another state are changed; what was untraced is lost, as the record says', () => {
    const [changed] = json('plain.ko', 'nops.ko');
    expect(changed!['counts']).toEqual({ lost: 0, gained: 0, moved: 0, changed: 11 });
    expect(diff('plain.ko', 'nops.ko').status).toBe(0);
    expect(diff('plain.ko', 'nops.ko', '--fail-on', 'lost').status).toBe(0);
    expect(diff('plain.ko', 'nops.ko', '--fail-on', 'lost', '--fail-on', 'changed').status).toBe(1);
    const [untraced] = json('plain.ko', 'untraced.ko');
    expect(untraced!['counts']).toMatchObject({ lost: 11 });
    const reasons = (untraced!['differences'] as { reason: { code: string } }[]).map(({ reason }) => reason.code);
    expect(new Set(reasons)).toEqual(new Set(['untraced']));
    expect(diff('plain.ko', 'untraced.ko', '--fail-on', 'lost').status).toBe(1);
    expect(diff('untraced.ko', 'plain.ko', '--fail-on', 'lost').status).toBe(0);
  });

  test('trees: by path, by name, packed or not; files alone are lost or gained as a whole', () => {
    const lines = json('one', 'two');
    expect(lines.map((line) => [line['old'] ?? null, line['new'] ?? null, line['change'] ?? ''])).toEqual([
      ['one/kernel/a.ko', 'two/extra/a.ko.xz', ''],
      ['one/kernel/gone.ko', null, 'lost'],
      [null, 'two/fresh.ko', 'gained'],
      [null, null, ''],
    ]);
    expect(lines.at(-1)).toMatchObject({ summary: { pairs: 1, files: { lost: 1, gained: 1, unread: 0 }, same: 11 } });
    const text = diff('one', 'two', '--fail-on', 'lost');
    expect(text.status).toBe(1);
    expect(text.stdout).toContain('one/kernel/gone.ko: lost as a whole, with 11 sites');
    expect(text.stdout.trim().split('\n').at(-1)).toMatch(/^1 files compared, 1 files lost, 1 gained: 22 sites, then /);
  });

  test('a file that cannot be read fails, and the others go on; a file and a tree are no pair', () => {
    mkdirSync(join(folder, 'bad'));
    copyFileSync(join(folder, 'plain.ko'), join(folder, 'bad', 'a.ko'));
    put('bad/gone.ko', 'no ELF file');
    const result = diff('one', 'bad');
    expect([result.status, result.stderr]).toEqual([2, expect.stringContaining('bad/gone.ko: error: ')]);
    expect(result.stdout).toContain('1 not read');
    expect(diff('one', 'plain.ko')).toMatchObject({ status: 2, stdout: '' });
    expect(diff('one', 'nowhere')).toMatchObject({ status: 2, stdout: '' });
  });
});

describeWith(['x86_64-linux-gnu-gcc', 'ar'], 'archives, build ids, nothing', () => {
  const object = (text: string, ...options: string[]): string =>
    compile('x86_64-linux-gnu-gcc', text, ['-O1', ...options]);

  test('members of archives are matched by name', () => {
    const traced = ['-pg', '-mfentry', '-mrecord-mcount', '-fno-pie'];
    const archive = (name: string, text: string): string => {
      compile('x86_64-linux-gnu-gcc', text, ['-O1', ...traced], 'member.o');
      run('ar', ['rcs', join(folder, name), join(folder, 'member.o')]);
      return name;
    };
    const older = archive('old.a', 'int f(int x) { return x; } int g(int x) { return x + 1; }');
    const newer = archive('new.a', 'int f(int x) { return x; }');
    const [pair] = json(older, newer);
    expect(pair).toMatchObject({ old: 'old.a(member.o)', new: 'new.a(member.o)', counts: { lost: 1 } });
  });

  test('the members of a package may be more than one of them may: they are inputs of their side', () => {
    const [first, second] = [readSample('x86-64/module-fentry.ko'), readSample('x86-64/module-nop.ko')];
    put('members/one.ko', first);
    put('members/two.ko', second);
    const path = join(folder, 'two.a');
    run('ar', ['rcs', path, join(folder, 'members/one.ko'), join(folder, 'members/two.ko')]);
    writeFileSync(path + '.gz', gzipSync(readFileSync(path)));
    const most = (option: string, size: number): CliResult => diff('two.a.gz', 'two.a.gz', option, String(size));
    expect(most('--max-unpacked', Math.max(first.length, second.length)).status).toBe(0);
    expect(most('--max-file', first.length + second.length).status).toBe(0);
    const { status, stderr } = most('--max-file', first.length + second.length - 1);
    expect([status, stderr]).toEqual([2, expect.stringContaining('is larger than')]);
  });

  test('a file of another name is found by its build id', () => {
    const build = (name: string, id: string): void => {
      put(name, '');
      const source = put('linked.c', 'void __fentry__(void) {} int f(int x) { return x; } void _start(void) {}');
      const options = ['-O1', '-pg', '-mfentry', '-mrecord-mcount', '-fno-pie', '-nostdlib', '-static'];
      run('x86_64-linux-gnu-gcc', [
        ...options,
        `-Wl,--build-id=0x${id}`,
        '-o',
        join(folder, name),
        join(folder, source),
      ]);
    };
    build('before/first-name', 'abcdef01');
    build('after/second-name', 'abcdef01');
    build('other/third-name', 'abcdef02');
    expect(json('before', 'after')[0]).toMatchObject({ old: 'before/first-name', new: 'after/second-name' });
    expect(json('before', 'other').map((line) => line['change'])).toEqual(['lost', 'gained', undefined]);
  });

  test('nothing compared is no success', () => {
    const bare = object('int f(int x) { return x; }');
    const result = diff(bare, bare);
    expect([result.status, result.stderr]).toEqual([1, expect.stringContaining('nothing was compared')]);
  });
});
