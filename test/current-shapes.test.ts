/**
 * Areas of -fpatchable-function-entry=N,M in every number, and landing pads around them, on x86-64,
 * arm64 and RISC-V: compiled here, and what current compilers make written out for the assembler.
 * Where a site must be comes from the functions' symbols and first words, as binutils read them.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { verify } from '../src/sites/verdicts.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { isWhole, repeats } from './support/long.js';
import { openBytes, type Opened } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const SAMPLE = `
extern int other(int);
int counter;
int leaf(int x) { return x * 3 + counter; }
int mid(int x) { counter++; return leaf(x) + other(x); }
static int hidden(int x) { return other(x + 1) + 1; }
int apply(int (*f)(int), int x) { return f(x) + hidden(x); }
int (*table[])(int) = { mid, leaf };
`;

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'shapes-'));
  writeFileSync(join(folder, 'sample.c'), SAMPLE);
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

interface Machine {
  readonly name: string;
  readonly binutils: string;
  readonly compilers: readonly (readonly [string, ...string[]])[];
  readonly landing: string;
  /** Bytes of a nop; with `-march` options for RISC-V. */
  readonly unit: number;
  /** Bytes of nops that a call needs. */
  readonly room: number;
  /** From the first of these to the instruction that toggles. */
  readonly toggle: number;
  /** First word of a landing pad. */
  readonly pad: number;
}

const machines: readonly Machine[] = [
  {
    name: 'x86-64', binutils: 'x86_64-linux-gnu', unit: 1, room: 5, toggle: 0, pad: 0xfa1e_0ff3,
    compilers: [['x86_64-linux-gnu-gcc'], ['clang', '--target=x86_64-linux-gnu']], landing: '-fcf-protection=full',
  },
  {
    name: 'arm64', binutils: 'aarch64-linux-gnu', unit: 4, room: 8, toggle: 4, pad: 0xd503_245f,
    compilers: [['aarch64-linux-gnu-gcc'], ['clang', '--target=aarch64-linux-gnu']], landing: '-mbranch-protection=standard',
  },
  {
    name: 'riscv64', binutils: 'riscv64-linux-gnu', unit: 2, room: 8, toggle: 0, pad: 0x17,
    compilers: [['riscv64-linux-gnu-gcc', '-march=rv64gc'], ['clang', '--target=riscv64-linux-gnu', '-march=rv64gc']], landing: '',
  },
]; // prettier-ignore

/** Functions of an object, in their sections, as nm reads them. */
function functionsOf(binutils: string, object: string): { readonly name: string; readonly value: bigint }[] {
  const lines = run(`${binutils}-nm`, ['--defined-only', object]).toString().trim().split('\n');
  return lines.flatMap((line) => {
    const [value = '', type = '', name = ''] = line.split(/\s+/);
    return /^[tTW]$/.test(type) && !/^[.$]/.test(name) ? [{ name, value: BigInt(`0x${value}`) }] : [];
  });
}

/** Bytes of a section, as objcopy takes them out. */
function textOf(binutils: string, object: string): DataView {
  run(`${binutils}-objcopy`, ['-O', 'binary', '--only-section=.text', object, `${object}.text`]);
  const bytes = readFileSync(`${object}.text`);
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}

const numbers: readonly (readonly [number, number])[] = [
  [1, 0], [2, 0], [4, 0], [5, 0], [8, 0], [3, 1], [3, 2], [4, 2], [6, 4], [8, 4], [16, 11], [2, 2], [5, 5],
]; // prettier-ignore

function look(object: string): Opened {
  return openBytes(new Uint8Array(readFileSync(object)));
}

describe.each(machines)('$name', (machine) => {
  const { binutils, compilers, landing, unit, room, toggle, pad } = machine;
  describeWith([`${binutils}-gcc`, `${binutils}-nm`, 'clang'], 'areas of any number', () => {
    test.each(repeats(compilers))('M-PAD-1 A-SITE-5 R-SITE-7 X-SITE-2 sites are at the function, behind its pad: %s', (...compiler) => {
      const [command, ...target] = compiler as unknown as [string, ...string[]];
      for (const option of landing === '' ? [''] : ['', landing]) {
        for (const [all, front] of isWhole ? numbers : numbers.filter((_, i) => i % 2 === 0 || i === numbers.length - 1)) {
          const object = join(folder, 'object.o');
          const flags = [`-fpatchable-function-entry=${all},${front}`, ...(option === '' ? [] : [option])];
          run(command, [...target, '-O2', '-falign-functions=16', '-fno-pic', ...flags, '-c', join(folder, 'sample.c'), '-o', object]);
          const text = textOf(binutils, object);
          const { sites } = look(object);
          const { verdicts, findings, incomplete } = verify(sites);
          const what = [command, ...flags].join(' ');
          if (all === front) {
            expect([what, sites.count, incomplete?.message]).toEqual([what, 0, expect.stringContaining('padding')]);
            continue;
          }
          const functions = functionsOf(binutils, object);
          expect([what, sites.count]).toEqual([what, functions.length]);
          if ((all - front) * unit < room) {
            expect([what, verdicts.ok ?? 0, findings.length]).toEqual([what, 0, functions.length]);
            continue;
          }
          const wanted = functions.map(({ value }) => {
            const padded = text.getUint32(Number(value), true) === pad;
            return value + BigInt((padded ? 4 : 0) + toggle);
          });
          // A word for ops in front of a function must be one store.
          const misaligned = findings.filter(({ verdict }) => verdict === 'misaligned').map(({ site }) => site);
          expect([what, (verdicts.ok ?? 0) + misaligned.length]).toEqual([what, functions.length]);
          const found = Array.from({ length: sites.count }, (_, i) => sites.ip(i)).sort((a, b) => Number(a - b));
          expect([what, found]).toEqual([what, wanted.sort((a, b) => Number(a - b))]);
        }
      }
    }, 60_000);
  });
}); // prettier-ignore

/** Functions as assembler text: each is what stands between its slot and its end. */
interface Written {
  readonly binutils: string;
  readonly options: readonly string[];
  readonly text: string;
}

function assembled({ binutils, options, text }: Written): Opened {
  writeFileSync(join(folder, 'written.s'), text);
  run(`${binutils}-as`, [...options, join(folder, 'written.s'), '-o', join(folder, 'written.o')]);
  return look(join(folder, 'written.o'));
}

/** A function of `front` and `body` with its slot at `front`. */
function written(name: string, front: string, body: string): string {
  return `
	.text
	.balign 16
.L${name}: ${front}
	.globl ${name}
	.type ${name},%function
${name}: ${body}
	.size ${name},.-${name}
	.section __patchable_function_entries,"awo",%progbits,.text
	.balign 8
	.quad .L${name}
`;
}

const nops = (count: number, nop = 'nop'): string => Array<string>(count).fill(nop).join('; ');

describeWith(['aarch64-linux-gnu-as', 'x86_64-linux-gnu-as', 'riscv64-linux-gnu-as'], 'bodies without symbol', () => {
  const leftover = (text: string): string => text.replace(/\.globl lost\n.*|\.type lost.*|\.size lost.*|^lost:/gm, '');
  const rows = [
    ['aarch64-linux-gnu', [], 'two nops are needed'],
    ['riscv64-linux-gnu', ['-march=rv64gc'], 'auipc and jalr need 8'],
    ['x86_64-linux-gnu', [], 'cannot hold a 5-byte call'],
  ] as const;
  test.each(rows)('M-WEAK-1: too few nops do not make the body of an overridden function a damaged one: %s', (binutils, options, reason) => {
    const text = ['a', 'b', 'c', 'lost'].map((name) => written(name, '', 'nop; ret')).join('');
    const { verdicts, findings } = verify(assembled({ binutils, options, text: leftover(text) }).sites);
    expect(verdicts).toEqual({ 'unsupported-shape': 3, 'weak-leftover': 1 });
    expect(findings[0]?.message).toContain(reason);
  });
}); // prettier-ignore

describeWith(['riscv64-linux-gnu-as'], 'landing pads of RISC-V', () => {
  const riscv = (text: string): Opened =>
    assembled({ binutils: 'riscv64-linux-gnu', options: ['-march=rv64gc'], text: `\t.option norelax\n${text}` });
  const LPAD = '.word 0x17';

  test('R-SITE-7: clang names the pad itself, and with nops in front the first of them', () => {
    const { sites } = riscv(
      written('a', '', `${LPAD}; ${nops(4, 'c.nop')}; ret`) +
        written('b', nops(4, 'c.nop'), `${LPAD}; ${nops(4, 'c.nop')}; ret`) +
        written('c', '', '.word 0x12345017, 0x13, 0x13; ret'),
    );
    expect(verify(sites).verdicts).toEqual({ ok: 3 });
    expect([...sites].map(({ anchor, ip }) => Number(ip - anchor))).toEqual([4, 12, 4]);
    for (let i = 0; i < sites.count; i++) {
      const reading = sites.reading(i)!;
      // What an entry would load as ops is the pad.
      expect(sites.entriesOf(i, reading)).not.toContain('g3c');
      const ops = { kind: 'call', target: 0n, form: 'g3c', names: { call: 'entry', ops: 'ops' } } as const;
      expect(reading.shape.write(reading, ops, sites.viewOf(i))).toMatchObject({
        refused: 'unsupported',
        reason: expect.stringContaining('landing pad'),
      });
    }
  });

  test('R-SITE-7: too few nops behind the pad are said to be behind it', () => {
    const { sites } = riscv(written('a', '', `${LPAD}; c.nop; c.nop; ret`));
    expect(verify(sites).findings).toMatchObject([
      { verdict: 'unsupported-shape', message: expect.stringContaining('4 bytes of nops behind the landing pad') },
    ]);
  });

  test('M-PAD-2: nops in front of the pad: the entry is none, whatever their number', () => {
    const { sites } = riscv(
      written('a', '', `${nops(4, 'c.nop')}; ${LPAD}; ret`) +
        written('b', nops(4, 'c.nop'), `${nops(4, 'c.nop')}; ${LPAD}; ret`) +
        written('c', '', `c.nop; ${LPAD}; ret`) +
        // The pad of the next function is not this one's.
        written('d', '', nops(8, 'c.nop')) +
        written('e', '', `${LPAD}; ${nops(4, 'c.nop')}; ret`),
    );
    const { findings } = verify(sites);
    expect(findings.map((each) => [each.function, each.verdict, each.rule])).toEqual([
      ['a', 'no-landing-pad', 'M-PAD-2'],
      ['b', 'no-landing-pad', 'M-PAD-2'],
      ['c', 'no-landing-pad', 'M-PAD-2'],
    ]);
  });

  test.each([
    [['GCC: (GNU) 15.3.0'], 'GCC 15.3.0 (.comment) puts the pad there'],
    [['GCC: (GNU) 15.3.0', 'Debian clang version 22.1.8', 'GCC: (GNU) 15.3.0'], 'GCC 15.3.0 (.comment)'],
    [['GCC: (GNU) 9.2.0'], 'GCC 9.2.0 (.comment) puts the pad there (GCC PR 92424 and 93492)'],
    [['GCC: (GNU) 15.3.0', 'GCC: (Debian 9.4.0-1) 9.4.0'], null],
    [['Debian clang version 22.1.8'], null],
    [[], null],
  ])('M-PAD-2: of %j the finding blames %j', (idents, blamed) => {
    const comments = idents.map((text) => `.ident "${text}"\n`).join('');
    const { sites } = riscv(`${comments}${written('a', '', `${nops(4, 'c.nop')}; ${LPAD}; ret`)}`);
    const [finding] = verify(sites).findings;
    expect(finding?.verdict).toBe('no-landing-pad');
    if (blamed === null) expect(finding?.message).toMatch(/at its entry$/);
    else expect(finding?.message).toContain(`; ${blamed}`);
  });
});

describeWith(['x86_64-linux-gnu-as', 'aarch64-linux-gnu-as'], 'nops in front of the landing pad', () => {
  test('M-PAD-2: endbr64 and bti c behind the nops', () => {
    const x86 = assembled({
      binutils: 'x86_64-linux-gnu',
      options: [],
      text: written('a', '', `${nops(5)}; endbr64; ret`) + written('b', '', `${nops(5)}; ret`),
    });
    const arm = assembled({
      binutils: 'aarch64-linux-gnu',
      options: [],
      text: written('a', '', `${nops(2)}; hint 34; ret`) + written('b', '', `${nops(2)}; paciasp; ret`),
    });
    for (const { sites } of [x86, arm]) {
      const { verdicts, findings } = verify(sites);
      expect(findings.map((each) => [each.function.replace('+0x4', ''), each.verdict])).toEqual([
        ['a', 'no-landing-pad'],
      ]);
      expect(verdicts.ok).toBe(1);
    }
  });
});

/** What the only finding of an object says behind the last semicolon; '' where it blames none. */
function blamed(bytes: Uint8Array): string {
  const messages = new Set(verify(openBytes(bytes).sites).findings.map(({ message }) => message));
  expect(messages.size).toBe(1);
  return /; ([^;]*\.comment.*)$/.exec([...messages].join())?.[1] ?? '';
}

describeWith(['powerpc64le-linux-gnu-gcc', 'powerpc64le-linux-gnu-objcopy'], 'M-BUG-1: nops of ELFv2', () => {
  /** As gcc makes it, and with another `.comment`. */
  const compiled = (name: string, options: readonly string[], comment?: string): Uint8Array => {
    const [source, object] = [join(folder, 'sample.c'), join(folder, name)];
    run('powerpc64le-linux-gnu-gcc', ['-O2', ...options, '-c', '-o', object, source]);
    if (comment !== undefined) {
      writeFileSync(`${object}.comment`, `\0${comment}\0`);
      run('powerpc64le-linux-gnu-objcopy', [`--update-section=.comment=${object}.comment`, object]);
    }
    return new Uint8Array(readFileSync(object));
  };

  test.each([
    [undefined, /^GCC 12\.\S+ \(\.comment\) puts the nops in front of both entries \(GCC PR 99888, /],
    ['GCC: (GNU) 13.1.0', /^$/],
    ['Debian clang version 22.1.8', /^$/],
  ])('in front of both entries, of %s', (comment, who) => {
    expect(blamed(compiled('front.o', ['-fpatchable-function-entry=2'], comment))).toMatch(who);
  });

  test.each([
    ['clang version 22.1.8', 'clang 22.1.8 (.comment) names the other one (LLVM issue 163706)'],
    ['GCC: (GNU) 12.2.0', ''],
  ])('behind the local entry, and the slot names the other, of %s', (comment, who) => {
    const text = `.ident "${comment}"
      .abiversion 2
      .globl f; .type f, @function
      f: addis 2,12,.TOC.-f@ha; addi 2,2,.TOC.-f@l; .localentry f, .-f; nop; li 3,1; blr
      .size f, .-f
      .section __patchable_function_entries,"awo",@progbits,.text
      .quad f`;
    const [source, object] = [join(folder, 'entry.s'), join(folder, 'entry.o')];
    writeFileSync(source, `${text}\n`);
    run('powerpc64le-linux-gnu-gcc', ['-c', '-o', object, source]);
    expect(blamed(new Uint8Array(readFileSync(object)))).toContain(who);
  });
});

describeWith(['aarch64-linux-gnu-as'], 'M-BUG-1: slots of =4,2', () => {
  test.each([
    ['GCC: (GNU) 13.2.0', /^GCC 13\.2\.0 \(\.comment\) has no -fmin-function-alignment, .*PR 88345/],
    ['GCC: (GNU) 14.1.0', /^$/],
    ['clang version 22.1.8', /^$/],
  ])('that are not aligned, of %s', (comment, who) => {
    const aligned = written('a', nops(2), `${nops(2)}; ret`);
    const text = `.ident "${comment}"\n${aligned.replace('.balign 16', '.balign 16; nop')}`;
    const { sites } = assembled({ binutils: 'aarch64-linux-gnu', options: [], text });
    expect(blamed(sites.program.image.bytes)).toMatch(who);
  });
});

/** A program of `calls`, which leaves the sum of what they return, by indirect calls. */
function program(binutils: string, options: readonly string[], text: string, calls: string): string {
  const path = join(folder, `program-${binutils}`);
  writeFileSync(join(folder, 'program.s'), `${text}\n\t.text\n\t.globl _start\n_start:\n${calls}\n`);
  run(`${binutils}-gcc`, [...options, '-nostdlib', '-static', '-no-pie', join(folder, 'program.s'), '-o', path]);
  return path;
}

/** Enables all sites of a program and runs it beside the original. */
function traced(path: string, functions: readonly string[]): void {
  const { status, stderr } = elftrace(['patch', '--enable', path, '-o', `${path}.on`]);
  expect([status, stderr]).toEqual([0, expect.not.stringContaining('error')]);
  expect([...look(`${path}.on`).sites].map(({ state }) => state)).toEqual(functions.map(() => 'call'));
  const compared = elftrace(['run', '--compare', path, `${path}.on`]);
  expect([compared.status, compared.stdout]).toEqual([0, expect.stringMatching(/^equal: exit status 42,/)]);
  const trace = elftrace(['run', '--trace', join(folder, 'trace'), `${path}.on`]);
  expect(trace.status).toBe(42);
  const text = readFileSync(join(folder, 'trace'), 'latin1');
  for (const each of functions) expect(text).toContain(each);
}

describeWith(['x86_64-linux-gnu-gcc'], 'prefixes of control flow integrity', () => {
  /** What gcc and clang put in front of a function for `-fsanitize=kcfi` and FineIBT. */
  const prefixed = (name: string, prefix: string, front: string, body: string): string => `
	.text
	.balign 16
	.type __cfi_${name},%function
__cfi_${name}: ${prefix}
.L${name}: ${front}
	.type ${name},%function
${name}: ${body}
	.size ${name},.-${name}
	.section __patchable_function_entries,"awo",%progbits,.text
	.balign 8
	.quad .L${name}
`;
  const HASH = 0x1234_5678;
  test('X-SITE-2: kCFI hashes and FineIBT checks in front of functions stay, and calls through them are equal', () => {
    const text =
      // As compiled: the hash, 11 nops, endbr64, five nops (gcc) or one (clang).
      prefixed('hashed', `movl $${HASH},%eax`, nops(11), `endbr64; ${nops(5)}; mov $20,%eax; ret`) +
      prefixed('long', `movl $${HASH},%eax`, nops(11), 'endbr64; .byte 0x0f,0x1f,0x44,0,8; mov $2,%eax; ret') +
      // As a kernel makes it of that at its start: the prefix checks the hash.
      prefixed(
        'fine',
        '',
        `endbr64; sub $${HASH},%r10d; je fine; ud2; nop`,
        `endbr64; ${nops(5)}; mov $20,%eax; ret`,
      ).replace('.quad .Lfine', '.quad fine+4');
    const calls = `
	.irp f, hashed, long
	lea \\f(%rip),%r11
	cmpl $${HASH},-15(%r11)
	je 1f
	ud2
1:	call *%r11
	add %eax,%ebx
	.endr
	lea __cfi_fine(%rip),%r11
	mov $${HASH},%r10d
	call *%r11
	add %eax,%ebx
	mov %ebx,%edi
	mov $60,%eax
	syscall`;
    const path = program('x86_64-linux-gnu', [], text, `\txor %ebx,%ebx${calls}`);
    expect(verify(look(path).sites)).toMatchObject({ verdicts: { ok: 3 }, findings: [] });
    traced(path, ['hashed', 'long', 'fine']);
  });
});

describeWith(['riscv64-linux-gnu-gcc'], 'programs with landing pads', () => {
  test('R-SITE-7: sites behind lpad are switched on, and the program does the same', () => {
    const pads = `.option norelax\n${
      written('named', '', '.word 0x17; c.nop; c.nop; c.nop; c.nop; li a0,20; ret') +
      written('fronted', nops(4, 'c.nop'), '.word 0x17; c.nop; c.nop; c.nop; c.nop; li a0,22; ret')
    }`;
    const calls = `
	la t2,named
	jalr t2
	mv s1,a0
	la t2,fronted
	jalr t2
	add a0,a0,s1
	li a7,93
	ecall`;
    const path = program('riscv64-linux-gnu', ['-march=rv64gc'], pads, calls);
    expect(verify(look(path).sites)).toMatchObject({ verdicts: { ok: 2 }, findings: [] });
    traced(path, ['named', 'fronted']);
  });
});

describeWith(['x86_64-linux-gnu-as', 'clang'], 'what other tracers use', () => {
  test('M-PROD-1: XRay sleds and -finstrument-functions are said', () => {
    const object = join(folder, 'object.o');
    const made = (...flags: string[]): Opened => {
      run('clang', ['--target=x86_64-linux-gnu', '-O2', ...flags, '-c', join(folder, 'sample.c'), '-o', object]);
      return look(object);
    };
    const sleds = verify(made('-fxray-instrument', '-fxray-instruction-threshold=1').sites);
    expect(sleds.incomplete?.message).toMatch(/XRay sleds/);
    const calls = verify(made('-finstrument-functions').sites);
    expect(calls.incomplete?.message).toMatch(/-finstrument-functions/);
    const both = verify(made('-finstrument-functions', '-pg').sites);
    expect(both.remarks).toEqual([expect.stringContaining('__cyg_profile_func_enter')]);
  });
});

describeWith(['clang'], 'sleds of XRay', () => {
  // clang calls tail calls exits but on x86-64.
  test.each([
    ['x86_64', '2 at exits, 1 at tail calls'],
    ['aarch64', '3 at exits'],
    ['powerpc64le', '3 at exits'],
  ])('M-PROD-2: %s: kinds are counted, unknown versions are not', (machine, behind) => {
    const source = join(folder, 'sleds.c');
    const object = join(folder, 'sleds.o');
    // Two functions return, one ends in a call of another.
    writeFileSync(
      source,
      'int f(int);\nint a(int x) { return x * 3; }\nint b(int x) { return f(x) + 1; }\nint c(int x) { return f(x); }',
    );
    const flags = ['-O2', '-fxray-instrument', '-fxray-instruction-threshold=1', '-c'];
    run('clang', [`--target=${machine}-linux-gnu`, ...flags, source, '-o', object]);
    const opened = look(object);
    expect(verify(opened.sites).incomplete?.message).toMatch(new RegExp(`: 3 at entries, ${behind}$`));
    const bytes = new Uint8Array(readFileSync(object));
    const map = opened.image.section('xray_instr_map');
    bytes[(map?.offset ?? 0) + 18] = 9;
    expect(verify(openBytes(bytes).sites).incomplete?.message).toMatch(
      /: not counted, its entries are not of version 2$/,
    );
  });
});

describeWith(['powerpc64-linux-gnu-gcc', 'powerpc64-linux-gnu-objcopy'], 'a header against its sections', () => {
  test('P-ABI-1: ABI 2 beside descriptors is refused', () => {
    const object = join(folder, 'object.o');
    run('powerpc64-linux-gnu-gcc', ['-O2', '-c', join(folder, 'sample.c'), '-o', object]);
    const bytes = new Uint8Array(readFileSync(object));
    expect(() => openBytes(bytes)).not.toThrow();
    // e_flags: what ld.lld writes.
    bytes[0x33] = 2;
    expect(() => openBytes(bytes)).toThrow(/ABI 2 .*\.opd has function descriptors/);
  });
});
