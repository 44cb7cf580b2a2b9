/**
 * `--untrace`: the tables of a file name the selected functions no more, nothing is called in them,
 * and the rest of the file says what it said before. What must hold is read from readelf, and from
 * the relocations of the original.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import type { ElfImage } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { readRecord } from '../src/record/journal.js';
import { planUntrace } from '../src/patch/untrace.js';
import { verify } from '../src/sites/verdicts.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { sampled } from './support/long.js';
import { builtSamples, errorOf, openBytes, readSample, sameBytes } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-untrace-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Modules with a table: calls and nops, one table and both kinds, of each target. */
const modules = [
  'x86-64/module-fentry.ko',
  'x86-64/module-fentry-signed.ko',
  'x86-64/module-fentry-ibt.ko',
  'x86-64/module-pic-record.ko',
  'x86-64/module-patchable-5.ko',
  'ppc32/module-mcount-recorded.ko',
  'ppc32/module-patchable-2.ko',
  'ppc64-elfv1/module-mcount-recorded.ko',
  'ppc64-elfv1/module-mprofile-recorded.ko',
  'ppc64-elfv1/module-patchable-2.ko',
  'ppc64-elfv2-be/module-mprofile-recorded.ko',
  'ppc64-elfv2-le/module-mprofile-recorded.ko',
  'ppc64-elfv2-le/module-mprofile-large-recorded.ko',
  'riscv64/module-mcount-recorded.ko',
  'riscv64/module-patchable-4.ko',
  'riscv64/module-patchable-8-4.ko',
  'riscv64/module-rv64g-patchable-2.ko',
  'arm64/module-mcount-recorded.ko',
  'arm64/module-patchable-2.ko',
  'arm64/module-patchable-4-2.ko',
  'arm64/module-patchable-4-2-bti.ko',
] as const;

/**
 * What the slots of the site tables name, by the relocations alone: section and offset. Call
 * padding is no such table.
 */
function slotsOf(image: ElfImage, name: string): string[] {
  const found: string[] = [];
  const padded = name === 'x86-64/module-fentry-ibt.ko';
  for (const section of image.sections) {
    if (section.name !== '__mcount_loc' && (padded || section.name !== '__patchable_function_entries')) continue;
    for (const { count, symbols, symbol, addend, offset } of image.relocationsOf(section)) {
      for (let row = 0; row < count; row++) {
        const home = image.sections[symbols!.sectionIndex[symbol[row]!]!]!.name;
        expect(offset[row]! < BigInt(section.size)).toBe(true);
        found.push(`${home}+${symbols!.value[symbol[row]!]! + addend[row]!}`);
      }
      expect(count).toBe(section.size / image.wordBytes);
    }
  }
  return found;
}

describe('C-INIT-1 untraced modules', () => {
  test.each(sampled(modules, 2))(
    '%s: every second function leaves the table, which shrinks; the others stay in it',
    (name) => {
      const bytes = readSample(name);
      const { image, sites } = openBytes(bytes);
      const selection = Uint8Array.from({ length: sites.count }, (_, i) => i % 2);
      const before = slotsOf(image, name);
      const plan = planUntrace(sites, { selection });
      expect(plan.refusals).toEqual([]);
      expect(plan.changed).toBe(Math.floor(sites.count / 2));
      const { bytes: out } = applyPlan(image, plan);
      const after = openBytes(out);
      const gone = new Set<string>();
      for (const each of sites) if (each.index % 2 === 1) gone.add(`${each.range!.name}+${each.anchor}`);
      expect(slotsOf(after.image, name)).toEqual(before.filter((slot) => !gone.has(slot)));
      expect(after.sites.count).toBe(sites.count - plan.changed);
      expect(verify(after.sites).findings.filter((finding) => finding.severity !== 'note')).toEqual([]);
      expect(sameBytes(revert(readElf(out)), bytes)).toBe(true);
    },
  );

  test.each(sampled(modules, 2))('%s: without a site there is no table, and no call', (name) => {
    const bytes = readSample(name);
    const { image, sites } = openBytes(bytes);
    const { bytes: out } = applyPlan(image, planUntrace(sites));
    const after = openBytes(out);
    expect(after.sites.count).toBe(0);
    expect(slotsOf(after.image, name)).toEqual([]);
    for (const gone of ['__mcount_loc', '.rela__mcount_loc']) expect(after.image.section(gone)).toBeUndefined();
    expect(sameBytes(revert(readElf(out)), bytes)).toBe(true);
  });
});

describeWith(['readelf'], 'C-INIT-1 untraced modules by readelf', () => {
  test.each(sampled(modules, 2))('%s', (name) => {
    const { image, sites } = openBytes(readSample(name));
    const path = join(folder, 'object.ko');
    const read = (bytes: Uint8Array): string => {
      writeFileSync(path, bytes);
      return run('sh', ['-c', 'readelf -aW "$1" 2>&1 >/dev/null', 'sh', path]).toString();
    };
    const before = read(image.bytes);
    for (const selection of [undefined, Uint8Array.from({ length: sites.count }, (_, i) => i % 2)]) {
      const plan = planUntrace(sites, selection === undefined ? {} : { selection });
      expect(read(applyPlan(image, plan).bytes)).toBe(before);
    }
  });
});

// ---------------------------------------------------------------------------- objects of compilers

const c = `
extern int far(int);
static int helper(int x) { return far(x) * 3; }
int one(int x) { return helper(x) + 1; }
int two(int x) { return one(x) + 2; }
__attribute__((weak)) int three(int x) { return two(x) + 3; }
__attribute__((section(".init.text"))) int four(int x) { return three(x) + 4; }
__attribute__((section(".exit.text"))) int five(int x) { return four(x) + 5; }
int (*table[])(int) = { one, two, three };
`;
/** Vague linkage: table sections in COMDAT groups, one for each function. */
const cxx = `
template <class T> struct Box { T value; __attribute__((noinline)) T twice() { return value + value; } };
__attribute__((noinline)) inline int inlined(int x) { return x * 3; }
int use(int x) { Box<int> box{x}; Box<long> other{x}; return box.twice() + (int)other.twice() + inlined(x); }
int last(int x) { return use(x) + 1; }
`;
const pads = '-fpatchable-function-entry=2';

const objects = [
  ['x86-64 =5', 'gcc', ['-fpatchable-function-entry=5'], c],
  ['x86-64 one section each', 'gcc', ['-fpatchable-function-entry=5', '-ffunction-sections'], c],
  ['x86-64 __mcount_loc', 'gcc', ['-pg', '-mfentry', '-mrecord-mcount', '-fno-pie', '-mcmodel=kernel'], c],
  ['x86-64 groups', 'g++', ['-fpatchable-function-entry=5'], cxx],
  ['arm64 =2', 'aarch64-linux-gnu-gcc', [pads], c],
  [
    'arm64 =4,2 one section each',
    'aarch64-linux-gnu-gcc',
    ['-fpatchable-function-entry=4,2', '-ffunction-sections'],
    c,
  ],
  ['arm64 groups', 'clang++', ['--target=aarch64-linux-gnu', pads], cxx],
  ['riscv64 =4', 'riscv64-linux-gnu-gcc', ['-fpatchable-function-entry=4'], c],
  ['riscv64 groups', 'clang++', ['--target=riscv64-linux-gnu', '-mno-relax', '-fpatchable-function-entry=4'], cxx],
  ['ppc32 =2', 'powerpc-linux-gnu-gcc', [pads], c],
  ['ppc64 ELFv1 =2', 'powerpc64-linux-gnu-gcc', [pads], c],
  ['ppc64 ELFv2 big-endian =2', 'powerpc64-linux-gnu-gcc', [pads, '-mabi=elfv2', '-ffunction-sections'], c],
  ['ppc64le =2', 'powerpc64le-linux-gnu-gcc', [pads, '-ffunction-sections'], c],
] as const;

/** What a tool says on stderr about a file; nothing for a file that is in order. */
const complaints = (command: string, path: string): string =>
  run('sh', ['-c', `${command} "$1" 2>&1 >/dev/null`, 'sh', path]).toString();

describeWith(
  ['readelf', 'objdump', 'ld', 'g++', 'clang++', ...new Set(objects.map(([, compiler]) => compiler))],
  'C-INIT-1 untraced objects: what tools read afterwards',
  () => {
    test.each(objects)('%s', (_, compiler, flags, source) => {
      const path = join(folder, 'object.o');
      const language = source === cxx ? 'c++' : 'c';
      run(
        compiler,
        [...flags, '-O1', '-ffreestanding', '-fno-stack-protector', '-c', '-x', language, '-', '-o', path],
        source,
      );
      const bytes = new Uint8Array(readFileSync(path));
      expect(complaints('readelf -aW', path)).toBe('');
      const { image, sites } = openBytes(bytes);
      // GCC 12 puts the nops of ELFv2 functions in front of the global entry: they can go, nobody
      // could patch them.
      expect(sites.count).toBeGreaterThan(3);
      const names = new Set(['one', 'four', 'helper', '_Z7inlinedi', '_ZN3BoxIlE5twiceEv']);
      const some = Uint8Array.from([...sites], ({ functionSymbol }) =>
        names.has(image.symbols.name(functionSymbol)) ? 1 : 0,
      );
      for (const selection of [some, undefined]) {
        const plan = planUntrace(sites, selection === undefined ? {} : { selection });
        expect(plan.refusals).toEqual([]);
        expect(plan.changed).toBeGreaterThan(1);
        const { bytes: out } = applyPlan(image, plan);
        writeFileSync(path, out);
        for (const command of ['readelf -aW', 'objdump -dr', 'nm']) expect(complaints(command, path)).toBe('');
        const after = openBytes(out);
        expect(after.sites.count).toBe(sites.count - plan.changed);
        for (const { section, members } of after.image.groups()) {
          expect(members.every((member) => after.image.sections[member]!.type !== 0)).toBe(true);
          expect(members).toEqual(
            image
              .groups()
              .find((each) => each.section === section)!
              .members.filter((member) => after.image.sections[member]!.type !== 0),
          );
        }
        // Names and values of everything else are the same.
        const of = ({ symbols }: ElfImage): string[] =>
          Array.from(
            { length: symbols.count },
            (__, i) => `${symbols.name(i)} ${symbols.value[i]!} ${symbols.sectionIndex[i]!}`,
          );
        const [before, now] = [of(image), of(after.image)];
        const changed = now.filter((each, i) => each !== before[i]);
        for (const each of changed) expect(each).toMatch(/^ 0 4294967281$|^\$d \d+ \d+$/);
        expect(sameBytes(revert(readElf(out)), bytes)).toBe(true);
      }
    });

    test('a linker takes an untraced object, and puts its table behind that of another', () => {
      const [one, two, both] = ['one.o', 'two.o', 'both.o'].map((name) => join(folder, name));
      const flags = ['-pg', '-mfentry', '-mrecord-mcount', '-fno-pie', '-O1', '-c', '-x', 'c', '-', '-o'];
      run(
        'gcc',
        [...flags, one!],
        'int a(int x) { return x + 1; } int b(int x) { return x + 2; } int d(int x) { return x + 3; }',
      );
      run('gcc', [...flags, two!], 'int e(int x) { return x + 4; } int g(int x) { return x + 5; }');
      const opened = openBytes(new Uint8Array(readFileSync(one!)));
      const { bytes } = applyPlan(opened.image, planUntrace(opened.sites, { selection: Uint8Array.of(0, 1, 0) }));
      writeFileSync(one!, bytes);
      run('ld', ['-r', one!, two!, '-o', both!]);
      const { sites, program } = openBytes(new Uint8Array(readFileSync(both!)), { record: null });
      expect([...sites].map(({ functionSymbol }) => program.symbolName(functionSymbol))).toEqual(['a', 'd', 'e', 'g']);
    });

    test('marks of data and empty slots: a mark follows its slots, empty slots go with the last site', () => {
      const [one, two, both] = ['mark-one.o', 'mark-two.o', 'mark-both.o'].map((name) => join(folder, name));
      const flags = [pads, '-O1', '-c', '-x', 'c', '-', '-o'];
      run('aarch64-linux-gnu-gcc', [...flags, one!], 'int a(int x) { return x + 1; } int b(int x) { return x + 2; }');
      run('aarch64-linux-gnu-gcc', [...flags, two!], 'int d(int x) { return x + 3; }');
      run('aarch64-linux-gnu-ld', ['-r', one!, two!, '-o', both!]);
      const { image, sites } = openBytes(new Uint8Array(readFileSync(both!)));
      const { bytes } = applyPlan(image, planUntrace(sites, { selection: Uint8Array.of(1, 0, 0) }));
      const marks = ({ symbols, sections }: ElfImage): bigint[] =>
        Array.from({ length: symbols.count }, (_, i) => i).flatMap((i) =>
          symbols.name(i) === '$d' && sections[symbols.sectionIndex[i]!]?.name === '__patchable_function_entries'
            ? [symbols.value[i]!]
            : [],
        );
      expect([marks(image), marks(readElf(bytes))]).toEqual([
        [0n, 16n],
        [0n, 8n],
      ]);
      const code = '.text\n.globl f\n.type f,@function\nf: .byte 0x0f,0x1f,0x44,0,0\nret\n.size f,.-f\n';
      run(
        'as',
        ['--64', '-', '-o', one!],
        `${code}.section __patchable_function_entries,"awo",@progbits,.text\n.quad 0, f, 0\n`,
      );
      const padded = openBytes(new Uint8Array(readFileSync(one!)));
      const { bytes: out } = applyPlan(padded.image, planUntrace(padded.sites));
      expect(readElf(out).section('__patchable_function_entries')).toBeUndefined();
    });

    test('more sections than fit an ELF header: numbers of 32 bits', () => {
      const path = join(folder, 'many.o');
      const lines = Array.from({ length: 65_300 }, (_, i) => `.section .s${i},"a"\n.byte 0\n`);
      const text =
        '.section .text.z,"ax"\n.globl f\n.type f,@function\nf: .byte 0x0f,0x1f,0x44,0,0\nret\n.size f,.-f\n';
      const slots = '.section __patchable_function_entries,"awo",@progbits,.text.z\nm: .quad f\n';
      run('as', ['--64', '-', '-o', path], `${lines.join('')}${text}${slots}`);
      const { image, sites } = openBytes(new Uint8Array(readFileSync(path)));
      expect(image.header.shnum).toBeGreaterThan(0xff00);
      const error = errorOf(() => planUntrace(sites));
      expect([error.code, error.message]).toEqual(['unsupported-form', expect.stringMatching(/the symbol m is in it/)]);
      run('as', ['--64', '-', '-o', path], `${lines.join('')}${text}${slots.replace('m:', '')}`);
      const again = openBytes(new Uint8Array(readFileSync(path)));
      const { bytes: out } = applyPlan(again.image, planUntrace(again.sites));
      writeFileSync(path, out);
      expect(complaints('readelf -SrsW', path)).toBe('');
      expect(openBytes(out).sites.count).toBe(0);
      expect(sameBytes(revert(readElf(out)), again.image.bytes)).toBe(true);
    });

    test('what names a place in the table is a reason to leave it alone', () => {
      const path = join(folder, 'named.o');
      const code = '.text\n.globl f\n.type f,@function\nf: .byte 0x0f,0x1f,0x44,0,0\nret\n.size f,.-f\n';
      const slots = '.section __patchable_function_entries,"awo",@progbits,.text\n.quad f\n';
      run('as', ['--64', '-', '-o', path], `${code}${slots}.data\n.quad __patchable_function_entries\n`);
      const { sites } = openBytes(new Uint8Array(readFileSync(path)));
      expect(errorOf(() => planUntrace(sites)).message).toMatch(/relocation 0 of \.rela\.data names a place in it/);
    });
  },
);

test('C-INIT-1: the record of a part of a linked file is not taken for that of the file', () => {
  const bytes = readSample('x86-64/module-fentry.ko');
  const first = openBytes(bytes);
  const half = Uint8Array.from({ length: first.sites.count }, (_, i) => i % 2);
  const after = applyPlan(first.image, planUntrace(first.sites, { selection: half })).bytes.slice();
  const { edits } = readRecord(readElf(after))!;
  // What the record says of headers leads nowhere, either.
  const { shoff, shnum, shentsize } = readElf(bytes).header;
  after.fill(0xff, shoff, shoff + shnum * shentsize);
  const { offset } = edits.find((each) => each.offset < readElf(after).section('.rodata')!.offset)!;
  after[offset] = after[offset]! ^ 1;
  const { sites } = openBytes(after);
  expect(errorOf(() => planUntrace(sites)).code).toBe('state-mismatch');
});

test('a relocation without effect that lies behind the table is a reason to leave it alone', () => {
  const bytes = readSample('arm64/module-patchable-2.ko');
  const { image } = openBytes(bytes);
  const [rows] = image.relocationsOf(image.section('__patchable_function_entries')!);
  const row = rows!.fileOffset(1);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  view.setBigUint64(row, 0x4d_0000_0018n, true);
  view.setBigUint64(row + 8, 0n, true);
  const { sites } = openBytes(bytes);
  const selection = Uint8Array.from({ length: sites.count }, (_, i) => (i === 0 ? 1 : 0));
  const error = errorOf(() => planUntrace(sites, { selection }));
  const message = /cannot shrink: relocation 1 of \.rela__patchable_function_entries lies behind it/;
  expect([error.code, error.message]).toEqual(['unsupported-form', expect.stringMatching(message)]);
});

// ------------------------------------------------------------------------------------ command line

describe('patch --untrace', () => {
  const at = (name: string): string => join(folder, name);
  const sample = (name: string): string => join(builtSamples, name);

  test('says which functions it is about, in status, info, verify and list, and nothing is left to warn of', () => {
    const out = at('part.ko');
    const { status, stderr, stdout } = elftrace([
      'patch',
      sample('arm64/module-patchable-2.ko'),
      '--untrace',
      '-l',
      'u*',
      '-o',
      out,
    ]);
    expect([status, stderr]).toEqual([0, expect.not.stringMatching(/site table/)]);
    const changed = Number(/(\d+) of \d+ sites changed/.exec(stdout)![1]);
    const names = (...args: string[]): string[] => elftrace(args).stdout.trimEnd().split('\n');
    const before = names('list', sample('arm64/module-patchable-2.ko'));
    const after = names('list', out);
    expect(changed).toBeGreaterThan(1);
    expect(before.length - after.length).toBe(changed);
    expect(after.some((name) => name.startsWith('u'))).toBe(false);
    const json = JSON.parse(elftrace(['status', out, '--json']).stdout) as {
      untraced: { function: string }[];
      record: { untraced: number };
    };
    expect(json.record.untraced).toBe(changed);
    expect(json.untraced.map((each) => each.function).sort()).toEqual(
      before.filter((name) => name.startsWith('u')).sort(),
    );
    expect(elftrace(['status', out]).stdout).toMatch(/^# untraced, no table names them: u/m);
    expect(elftrace(['info', out]).stdout).toContain(`${changed} functions untraced`);
    const verified = elftrace(['verify', out]);
    expect([verified.status, verified.stdout]).toEqual([
      0,
      expect.stringContaining(`${changed} functions were untraced`),
    ]);
  });

  test('twice, then back; with the record beside the file too', () => {
    for (const journal of [[], ['--journal', at('journal')]]) {
      const input = sample('x86-64/module-fentry-signed.ko');
      const [one, two, back] = ['one.ko', 'two.ko', 'back.ko'].map(at);
      rmSync(at('journal'), { force: true });
      expect(elftrace(['patch', input, '--untrace', '-l', 'u*', ...journal, '-o', one!]).stderr).toMatch(
        /signature .* was cut/,
      );
      expect(elftrace(['patch', one!, '--untrace', '-n', 'm*', ...journal, '-o', two!]).status).toBe(0);
      const { stdout } = elftrace(['list', two!, ...journal]);
      expect(
        stdout
          .trimEnd()
          .split('\n')
          .every((name) => name.startsWith('m')),
      ).toBe(true);
      expect(elftrace(['revert', two!, ...journal, '-o', back!]).status).toBe(0);
      expect(readFileSync(back!).equals(readFileSync(input))).toBe(true);
    }
  });

  test('an untraced place that somebody writes to is no longer what the record says', () => {
    const out = at('changed.ko');
    elftrace(['patch', sample('x86-64/module-fentry.ko'), '--untrace', '-o', out]);
    const bytes = new Uint8Array(readFileSync(out));
    const { untraced } = readRecord(readElf(bytes))!;
    bytes[untraced[0]!] = 0xe8;
    writeFileSync(out, bytes);
    const { status, stdout } = elftrace(['verify', out]);
    expect([status, stdout]).toEqual([1, expect.stringMatching(/the record and the bytes disagree/)]);
  });

  test('what it cannot go with, and what it was called before', () => {
    const input = sample('x86-64/module-fentry.ko');
    const result = (...options: string[]): [number | null, string] => {
      const { status, stderr } = elftrace(['patch', input, ...options, '-o', at('never')]);
      return [status, stderr];
    };
    expect(result('--nop', '--empty-slots')).toEqual([2, expect.stringMatching(/--empty-slots is no more: --untrace/)]);
    expect(result('--enable', '--empty-slots')).toEqual([2, expect.stringMatching(/--untrace/)]);
    expect(result('--untrace', '--nop')).toEqual([2, expect.stringMatching(/exclude each other/)]);
    expect(result('--untrace', '--readonly', `0+${statSync(input).size}`)).toEqual([
      1,
      expect.stringMatching(/may not be written/),
    ]);
    const kernel = elftrace(['patch', sample('x86-64/core-fentry'), '--untrace', '-o', at('never')]);
    expect([kernel.status, kernel.stderr]).toEqual([4, expect.stringMatching(/\[unsupported-form\]/)]);
    expect(existsSync(at('never'))).toBe(false);
  });

  test('--nop, --init and --enable of a module or kernel say what stays in the table, and so does apply', () => {
    const notice = /notice: the site table still names the \d+ changed sites.*--untrace/;
    const sets: [string, string[]][] = [
      ['x86-64/module-fentry.ko', ['--nop']],
      ['x86-64/core-fentry', ['--nop']],
      ['arm64/module-patchable-2.ko', ['--init']],
      ['arm64/module-patchable-2.ko', ['--enable', '--entry', 'ftrace_caller']],
      ['x86-64/core-fentry', ['--enable']],
    ];
    for (const [name, options] of sets) {
      expect([name, elftrace(['patch', sample(name), ...options, '-o', at('out')]).stderr]).toEqual([
        name,
        expect.stringMatching(notice),
      ]);
    }
    elftrace(['plan', sample('x86-64/module-fentry.ko'), '--nop', '-o', at('plan')]);
    expect(elftrace(['apply', sample('x86-64/module-fentry.ko'), at('plan'), '-o', at('out')]).stderr).toMatch(notice);
  });
});

// ----------------------------------------------------------------------------------------- signing

/** The kernel's program that signs modules, in the package that Debian builds modules with. */
const signFile = ['/usr/lib', '/usr/src']
  .flatMap((folder) =>
    existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name, 'scripts', 'sign-file')) : [],
  )
  .find((path) => existsSync(path));

describeWith(['openssl', 'modinfo', signFile ?? 'sign-file of linux-kbuild'], 'C-INIT-1 signed again', () => {
  test('the signature of an untraced module is cut; what sign-file appends holds, and modinfo reads it', () => {
    const at = (name: string): string => join(folder, name);
    run('openssl', [
      'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=elftrace test/', '-keyout', at('key.pem'), '-out', at('cert.pem'),
    ]); // prettier-ignore
    writeFileSync(at('signed.ko'), readSample('x86-64/module-fentry.ko'));
    run(signFile!, ['sha256', at('key.pem'), at('cert.pem'), at('signed.ko')]);
    expect(run('modinfo', [at('signed.ko')]).toString()).toMatch(/^signer: +elftrace test$/m);
    const untraced = elftrace(['patch', at('signed.ko'), '--untrace', '-l', 'u*', '-o', at('untraced.ko')]);
    expect(untraced.stderr).toMatch(/notice: the appended module signature \(\d+ bytes\) was cut/);
    expect(run('modinfo', [at('untraced.ko')]).toString()).not.toMatch(/signer/);
    run(signFile!, ['sha256', at('key.pem'), at('cert.pem'), at('untraced.ko'), at('again.ko')]);
    expect(run('modinfo', [at('again.ko')]).toString()).toMatch(/^signer: +elftrace test$/m);
    const bytes = readFileSync(at('again.ko'));
    const plain = readFileSync(at('untraced.ko'));
    expect(bytes.subarray(0, plain.length).equals(plain)).toBe(true);
    // PKCS#7 bytes, 12 bytes that end in their length, the mark of 28 bytes.
    const length = bytes.readUInt32BE(bytes.length - 32);
    writeFileSync(at('signature'), bytes.subarray(bytes.length - 40 - length, bytes.length - 40));
    run('openssl', [
      'cms', '-verify', '-binary', '-inform', 'DER', '-in', at('signature'), '-content', at('untraced.ko'), '-certfile', at('cert.pem'), '-noverify', '-out', '/dev/null',
    ]); // prettier-ignore
    expect(elftrace(['verify', at('again.ko')]).status).toBe(0);
    expect(elftrace(['revert', at('again.ko'), '-o', at('back.ko')]).status).toBe(0);
    expect(readFileSync(at('back.ko')).equals(readFileSync(at('signed.ko')))).toBe(true);
  });
});
