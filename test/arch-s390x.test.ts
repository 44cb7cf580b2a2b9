/**
 * s390x: sites of the compilers and of kernels, what is done to them, and text of instructions, as
 * binutils read them. No program of it is executed here but by qemu-user (samples.test).
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { s390xIsa } from '../src/arch-s390x/isa.js';
import { s390xRelocations } from '../src/arch-s390x/relocs.js';
import { archOf } from '../src/arches.js';
import type { ElfHeader } from '../src/elf/image.js';
import { otherRanges } from '../src/sites/overlaps.js';
import { verify } from '../src/sites/verdicts.js';
import { builtFolder } from '../scripts/build-samples.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { openBytes, readSample } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 's390x-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

const NOP = 'c00400000000';
const sample = (name: string): string => join(builtFolder, 's390x', name);
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** Bytes of each site, from its ip on. */
function siteBytes(bytes: Uint8Array): string[] {
  const { sites } = openBytes(bytes);
  return Array.from({ length: sites.count }, (_, i) => {
    const reading = sites.reading(i)!;
    return hexOf(sites.viewOf(i).bytes(reading.ipDelta, 6));
  });
}

describe('sites of the compilers', () => {
  test.each([
    ['module-fentry.ko', 's390x.fentry', 'compiled', 'c00500000000'],
    ['module-fentry-nop.ko', 's390x.fentry', 'nop', NOP],
    ['module-mcount.ko', 's390x.mcount', 'compiled', 'c0e500000000'],
    ['module-mcount-recorded.ko', 's390x.mcount', 'compiled', 'c0e500000000'],
  ])('S-SITE-1 S-SITE-2 S-SITE-3 %s: 11 sites, all ok', (name, shape, state, bytes) => {
    const { sites } = openBytes(readSample(`s390x/${name}`));
    expect(sites.totals()).toEqual({ total: 11, byState: { [state]: 11 }, byShape: { [shape]: 11 } });
    expect(verify(sites).verdicts).toEqual({ ok: 11 });
    expect(new Set(siteBytes(readSample(`s390x/${name}`)))).toEqual(new Set([bytes]));
  });

  test('S-SITE-3 S-REC-1 the table of -pg names the store, a scan the call behind it', () => {
    const [recorded, scanned] = ['module-mcount-recorded.ko', 'module-mcount.ko'].map((name) => {
      const { sites } = openBytes(readSample(`s390x/${name}`));
      return Array.from({ length: sites.count }, (_, i) => [sites.ip(i), sites.ip(i) - sites.anchor[i]!]);
    });
    expect(recorded!.map(([ip]) => ip)).toEqual(scanned!.map(([ip]) => ip));
    expect(new Set(recorded!.map(([, delta]) => delta))).toEqual(new Set([6n]));
    expect(new Set(scanned!.map(([, delta]) => delta))).toEqual(new Set([0n]));
  });

  test('S-SITE-5 nops of 2 bytes are no site of any kernel, and the reason says which are', () => {
    const { verdicts, findings } = verify(openBytes(readSample('s390x/module-patchable-3.ko')).sites);
    expect(verdicts).toEqual({ 'unsupported-shape': 11 });
    expect(findings[0]!.message).toContain('-mnop-mcount');
    expect(hexOf(findings[0]!.actual)).toBe('070007000700');
  });

  test.each([
    ['program-mcount', 's390x.mcount'],
    ['program-clang-mcount', 's390x.mcount'],
    ['program-clang-fentry', 's390x.fentry'],
    ['shared-mcount.so', 's390x.mcount'],
  ])('M-WEAK-1 %s: linked calls lead to the profiling entry', (name, shape) => {
    const { sites } = openBytes(readSample(`s390x/${name}`));
    expect(sites.totals()).toEqual({ total: 18, byState: { compiled: 18 }, byShape: { [shape]: 18 } });
    expect(verify(sites).verdicts).toEqual({ ok: 17, 'weak-leftover': 1 });
  });
});

describe('what is done to them', () => {
  const samples = ['module-fentry.ko', 'module-mcount.ko', 'module-mcount-recorded.ko', 'program-clang-fentry', 'shared-mcount.so']; // prettier-ignore
  test.each(samples)('S-SITE-2 S-MOD-1 %s: --nop, and the way back', async (name) => {
    const [off, back] = [join(folder, `off-${name}`), join(folder, `back-${name}`)];
    expect((await elftrace(['patch', sample(name), '--nop', '-o', off])).status).toBe(0);
    const bytes = new Uint8Array(readFileSync(off));
    const { sites, image } = openBytes(bytes);
    const expected = verify(openBytes(readSample(`s390x/${name}`)).sites).verdicts;
    expect(verify(sites).verdicts).toEqual(expected);
    // The body that no function names is left alone.
    expect(siteBytes(bytes).filter((each) => each === NOP).length).toBe(expected.ok);
    // No relocation is left that a linker or loader would write over a nop.
    for (const table of image.relocations) {
      for (let row = 0; row < table.count; row++) {
        const name = table.symbols?.name(table.symbol[row]!) ?? '';
        if (/^(__fentry__|_mcount|mcount)$/.test(name) && image.header.type === 1) expect(table.type[row]).toBe(0);
      }
    }
    expect((await elftrace(['revert', off, '-o', back])).status).toBe(0);
    expect(readFileSync(back).equals(readFileSync(sample(name)))).toBe(true);
  });

  test('S-SITE-2 --init keeps the nops of -mnop-mcount and turns calls into them', async () => {
    const out = join(folder, 'init.ko');
    for (const [name, changed] of [
      ['module-fentry-nop.ko', 0],
      ['module-fentry.ko', 11],
    ] as const) {
      // prettier-ignore
      const { status, stdout } = await elftrace(['patch', sample(name), '--init', '-o', out]);
      expect([status, stdout]).toEqual([
        0,
        `${out}: ${changed} of 11 sites changed, ${11 - changed} already as asked\n`,
      ]);
      expect(new Set(siteBytes(new Uint8Array(readFileSync(out))))).toEqual(new Set([NOP]));
    }
  });

  test('--untrace takes slots out of the table, and revert brings them back', async () => {
    const [out, back] = [join(folder, 'untraced.ko'), join(folder, 'traced.ko')];
    const name = 'module-fentry-nop.ko';
    const functions = (await elftrace(['list', sample(name)])).stdout.trim().split('\n');
    const { status } = await elftrace(['patch', sample(name), '--untrace', '-l', functions[0]!, '-o', out]);
    expect(status).toBe(0);
    expect((await elftrace(['list', out])).stdout.trim().split('\n')).toEqual(functions.slice(1));
    expect((await elftrace(['revert', out, '-o', back])).status).toBe(0);
    expect(readFileSync(back).equals(readFileSync(sample(name)))).toBe(true);
  });

  test('S-REC-1 a table is made of the calls, that of .exit.text left out', async () => {
    const out = join(folder, 'recorded.ko');
    expect((await elftrace(['mcount', sample('module-mcount.ko'), '-o', out])).status).toBe(0);
    const { sites } = openBytes(new Uint8Array(readFileSync(out)));
    expect(sites.tables.map(({ name, count }) => [name, count])).toEqual([['__mcount_loc', 10]]);
    expect(verify(sites).verdicts).toEqual({ ok: 10 });
  });

  test('calls of tracers are refused with the reason, and nothing is written', async () => {
    const out = join(folder, 'never.ko');
    const { status, stderr } = await elftrace([
      'patch', sample('module-fentry-nop.ko'), '--enable', '--entry', 'ftrace_caller', '-o', out,
    ]); // prettier-ignore
    expect(status).toBe(1);
    expect(stderr).toContain('there are no entries for it');
    expect(() => readFileSync(out)).toThrow('ENOENT');
  });

  test('run says that there is no emulator: 125', async () => {
    const { status, stdout, stderr } = await elftrace(['run', sample('program-mcount')]);
    expect([status, stdout]).toEqual([125, '']);
    expect(stderr).toContain('there is no emulator of s390x');
  });
});

/** One damaged byte of a copy of a sample, at the first site. */
function damaged(name: string, delta: number, value: number): ReturnType<typeof verify> {
  const bytes = Uint8Array.from(readSample(`s390x/${name}`));
  const { sites } = openBytes(bytes);
  const reading = sites.reading(0)!;
  bytes[sites.fileOffset(0) + reading.ipDelta + delta] = value;
  return verify(openBytes(bytes).sites);
}

test.each([
  ['module-fentry-nop.ko', 1, 0xf4, 'leads somewhere without a relocation'],
  ['module-fentry-nop.ko', 5, 0x02, 'leads somewhere without a relocation'],
  ['module-fentry-nop.ko', 0, 0xc2, 'neither brcl nor brasl'],
  ['module-fentry.ko', 1, 0x04, 'still has a relocation'],
  ['module-fentry.ko', 5, 0x01, 'field is not zero'],
] as const)('C-UPD-2 %s with byte %i as %i is wrong', (name, delta, value, why) => {
  const { verdicts, findings } = damaged(name, delta, value);
  expect(verdicts).toEqual({ ok: 10, 'wrong-bytes': 1 });
  expect(findings[0]!.message).toContain(why);
});

describeWith(['s390x-linux-gnu-gcc', 's390x-linux-gnu-ld', 's390x-linux-gnu-objcopy'], 'sites with trampolines', () => {
  /** Site at 0x10000, then the entries, the shared code, and trampolines; linked. */
  function image(site: string, trampoline: string): ReturnType<typeof openBytes> {
    const source = `
	.text
	.globl traced, ftrace_caller, __fentry__
	.type traced, @function
traced:	${site}
	br %r14
	.size traced, .-traced
	.type ftrace_caller, @function
ftrace_caller: lgr %r1, %r0
	br %r1
	.size ftrace_caller, .-ftrace_caller
	.type __fentry__, @function
__fentry__: lgr %r1, %r0
	br %r1
	.size __fentry__, .-__fentry__
shared:	lmg %r0, %r1, 2(%r1)
	br %r1
	.balign 8
area:	${trampoline}
	.section __mcount_loc, "a"
	.quad traced
	.section .note.GNU-stack, "", @progbits
`;
    const [s, o, out] = ['t.s', 't.o', 't'].map((name) => join(folder, name)) as [string, string, string];
    writeFileSync(s, source);
    run('s390x-linux-gnu-gcc', ['-c', s, '-o', o]);
    run('s390x-linux-gnu-ld', ['--entry=traced', '-Ttext=0x10000', o, '-o', out]);
    return openBytes(new Uint8Array(readFileSync(out)));
  }
  const right = 'brasl %r1, shared\n.short 0\n.quad traced + 6, ftrace_caller';

  test.each([
    ['off', 'brcl 0, area', right, 'nop', { ok: 1 }, ''],
    ['on', 'brcl 15, area', right, 'call', { ok: 1 }, ''],
    ['on with facility 85', 'brasl %r0, ftrace_caller', right, 'call', { ok: 1 }, ''],
    [
      'on, the target is no entry',
      'brcl 15, area',
      right.replace('ftrace_caller', 'shared'),
      'call',
      { 'stub-wrong-target': 1 },
      'no tracing entry',
    ],
    [
      'off, the trampoline is empty',
      'brcl 0, area',
      '.fill 12, 2, 0x0700',
      'foreign',
      { 'wrong-bytes': 1 },
      'no trampoline of a site',
    ],
    [
      "off, another site's",
      'brcl 0, area',
      right.replace('+ 6', '+ 14'),
      'foreign',
      { 'wrong-bytes': 1 },
      "another site's",
    ],
    ['a plain jump', 'brcl 15, ftrace_caller', right, 'foreign', { 'wrong-bytes': 1 }, 'no trampoline of a site'],
    ['under a condition', 'brcl 8, area', right, 'foreign', { 'wrong-bytes': 1 }, 'neither brcl nor brasl'],
  ] as const)('S-SITE-4 S-STUB-1 %s', (_, site, trampoline, state, verdicts, why) => {
    // prettier-ignore
    const { sites } = image(site, trampoline);
    expect(sites.state(0)).toBe(state);
    const result = verify(sites);
    expect(result.verdicts).toEqual(verdicts);
    if (why !== '') expect(result.findings[0]!.message).toContain(why);
  });

  test('S-SITE-4 turned off, only the byte of the mask changes', async () => {
    image('brcl 15, area', right);
    const [on, off] = [join(folder, 't'), join(folder, 't.off')];
    expect((await elftrace(['patch', on, '--nop', '-o', off])).status).toBe(0);
    const [before, after] = [on, off].map((path) => openBytes(new Uint8Array(readFileSync(path))).sites);
    expect(hexOf(after!.viewOf(0).bytes(0, 6))).toBe(hexOf(before!.viewOf(0).bytes(0, 6)).replace('c0f4', 'c004'));
    expect(after!.reading(0)).toMatchObject({ state: 'nop', form: 'trampoline' });
  });

  test('S-REC-2 a slot of a nested function of GCC names no call', () => {
    const [c, o] = [join(folder, 'n.c'), join(folder, 'n.o')];
    writeFileSync(c, 'int outer(int a) { auto __attribute__((noinline)) int in(int b); int in(int b) { return a + b; } int (*volatile p)(int) = in; return p(2); }'); // prettier-ignore
    run('s390x-linux-gnu-gcc', ['-O2', '-w', '-pg', '-mfentry', '-mrecord-mcount', '-c', c, '-o', o]);
    const { verdicts, findings } = verify(openBytes(new Uint8Array(readFileSync(o))).sites);
    expect(verdicts).toEqual({ ok: 1, 'wrong-bytes': 1 });
    expect(findings[0]!.message).toContain('nested functions');
  });

  test('S-STUB-2 entries of module linkage tables of both eras, and of GNU ld', () => {
    const both = 'e1: basr %r1, 0\nlg %r1, 12(%r1)\nbr %r1\n.short 0\n.short 0\n.quad ftrace_caller\n.balign 8\ne2: basr %r1, 0\nlg %r1, 10(%r1)\nbr %r1\n.short 0\n.quad __fentry__'; // prettier-ignore
    const { program } = image('brasl %r0, e1', `${both}\n.globl e1, e2`);
    const at = (name: string): bigint => program.symbols.value[program.symbols.find(name)]!;
    expect(program.stub(at('e1'))).toMatchObject({ form: 's390x.module-plt', target: at('ftrace_caller'), slot: at('e1') + 14n }); // prettier-ignore
    expect(program.stub(at('e2'))).toMatchObject({ form: 's390x.module-plt', target: at('__fentry__'), slot: at('e2') + 12n }); // prettier-ignore
    const shared = openBytes(readSample('s390x/shared-mcount.so'));
    const target = shared.sites.reading(0)!.target!;
    expect(shared.program.stub(target)?.form).toBe('s390x.plt');
  });
});

describeWith(['s390x-linux-gnu-gcc'], 'tables of other mechanisms', () => {
  const pair = '.long traced - ., other - .';
  test.each([
    ['.altinstructions', 'an alternative', `${pair}, 1\n.byte 6`],
    ['.altinstructions', 'an alternative', `${pair}\n.short 1\n.byte 6`],
    ['__bug_table', 'a bug table entry', `${pair}, other - .\n.short 7, 1`],
    ['__bug_table', 'a bug table entry', `${pair}\n.short 7, 1`],
    ['__jump_table', 'a jump label', `${pair}\n.quad 0`],
    ['__ex_table', 'an exception table entry', `${pair}\n.short 7, 1`],
  ])('S-TAB-1 %s: %s', (section, what, entry) => {
    const [s, o] = [join(folder, 'o.s'), join(folder, 'o.o')];
    const site = '.type traced, @function\ntraced: brcl 0, .+0\nbr %r14\n.size traced, .-traced\nother: br %r14';
    const table = '.section __mcount_loc, "a"\n.quad traced';
    writeFileSync(s, `.text\n${site}\n${table}\n.section ${section}, "a"\n${entry}\n`);
    run('s390x-linux-gnu-gcc', ['-c', s, '-o', o]);
    const { program, sites } = openBytes(new Uint8Array(readFileSync(o)));
    expect(sites.state(0)).toBe('nop');
    const found = otherRanges(program).overlapping(sites.codeRange(0)!.section, 0n, 6n);
    expect(found).toContain(what);
  });
});

describeWith(['s390x-linux-gnu-objdump', 's390x-linux-gnu-readelf'], 'as binutils read them', () => {
  const names = ['program-mcount', 'program-clang-fentry', 'program-clang-mcount', 'shared-mcount.so'];

  test('text of every instruction that has one, and the length of every one', () => {
    let [known, unknown] = [0, 0];
    for (const name of names) {
      const text = run('s390x-linux-gnu-objdump', ['-d', '-j', '.text', sample(name)]).toString();
      for (const line of text.split('\n')) {
        const found = /^ *([0-9a-f]+):\t([0-9a-f ]+?) *\t([a-z]\S*)(?:\t(.*))?$/.exec(line);
        if (!found) continue;
        const [, address = '', bytes = '', mnemonic = '', operands = ''] = found;
        const code = Uint8Array.from(bytes.trim().split(' '), (byte) => parseInt(byte, 16));
        const instruction = s390xIsa.decode(code, 0, BigInt(`0x${address}`));
        expect([line, instruction.sizeBytes]).toEqual([line, code.length]);
        if (instruction.mnemonic === 'unknown') unknown++;
        else {
          known++;
          const theirs = `${mnemonic} ${operands.replace(/ <.*>$/, '')}`.trim();
          expect([line, s390xIsa.format(instruction).replace('0x', '')]).toEqual([line, theirs]);
        }
      }
    }
    expect(known).toBeGreaterThan(800);
    expect(unknown * 10).toBeLessThan(known);
  });

  test('names of relocations', () => {
    // Assemblers of 64 bits know no thread-local values of 32.
    const lines = [...s390xRelocations].flatMap(([type, { name }]) =>
      type > 0 && !/TLS_.*32$/.test(name) ? [type] : [],
    );
    const [s, o] = [join(folder, 'r.s'), join(folder, 'r.o')];
    writeFileSync(s, `.data\nx: .rept ${lines.length}\n.quad 0\n.endr\n${lines.map((type, i) => `.reloc ${8 * i}, ${s390xRelocations.get(type)!.name}, x`).join('\n')}\n`); // prettier-ignore
    run('s390x-linux-gnu-as', [s, '-o', o]);
    const text = run('s390x-linux-gnu-readelf', ['-rW', o]).toString();
    const read = [...text.matchAll(/^[0-9a-f]+ +[0-9a-f]{8}([0-9a-f]{8}) (R_390_\S+)/gm)];
    expect(read.length).toBeGreaterThan(20);
    for (const [, type = '', name = ''] of read) expect(s390xRelocations.get(parseInt(type, 16))?.name).toBe(name);
  });
});

test('what is no instruction of the table keeps its length', () => {
  for (let first = 0; first < 256; first++) {
    const size = s390xIsa.decode(Uint8Array.of(first, 0xff, 0xff, 0xff, 0xff, 0xff), 0, 0n).sizeBytes;
    expect(size).toBe(first < 0x40 ? 2 : first < 0xc0 ? 4 : 6);
  }
  expect(s390xIsa.decode(Uint8Array.of(0xc0, 0x04), 0, 0n)).toMatchObject({ mnemonic: 'unknown', sizeBytes: 2 });
});

test('31-bit files and those of the other byte order are refused by name', () => {
  const { header } = openBytes(readSample('s390x/module-fentry.ko')).image;
  const like = (change: Partial<ElfHeader>): ElfHeader => ({ ...header, ...change });
  expect(archOf(header).target.id).toBe('s390x');
  expect(() => archOf(like({ is64: false }))).toThrow('31-bit files are not served');
  expect(() => archOf(like({ endian: 'little' }))).toThrow('are not 64-bit little-endian');
});

test('S-MOD-2 module loaders take what compilers of kernels make', () => {
  /** Types of the sections that a loader reads. */
  const types = (name: string): number[] => {
    const { image } = openBytes(readSample(`s390x/${name}`));
    const loaded = image.relocations.filter((each) => ((image.sections[each.target]?.flags ?? 0n) & 2n) !== 0n);
    return [...new Set(loaded.flatMap((each) => [...each.type]))];
  };
  const { takenInModules } = openBytes(readSample('s390x/module-mcount.ko')).arch.relocationRoles;
  const refused = (name: string): number[] => types(name).filter((type) => !takenInModules[0]!.has(type));
  expect(
    ['module-fentry.ko', 'module-fentry-nop.ko', 'module-mcount.ko', 'module-patchable-3.ko'].flatMap(refused),
  ).toEqual([]);
});
