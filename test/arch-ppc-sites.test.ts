/** Site shapes of PowerPC on what compilers, linkers and loaders really leave. */
import { describe, expect, test } from '@jest/globals';
import { ppc32, ppc64ElfV1, ppc64ElfV2Be, ppc64ElfV2Le } from '../src/arch-ppc/index.js';
import { bl } from '../src/arch-ppc/stubs.js';
import type { Arch } from '../src/machine/arch.js';
import type { SiteReading, SiteSource } from '../src/machine/sites.js';
import type { StubReading } from '../src/machine/stubs.js';
import { readElf } from '../src/elf/read.js';
import { findSites } from '../src/sites/sites.js';
import type { Sites } from '../src/sites/sites.js';
import { load } from '../src/program/program.js';
import { asChange, FakeView, fromWords } from './support/fake-view.js';
import {
  assembleWith,
  compileWith,
  linkWith,
  NESTED,
  type PpcTarget,
  ppcTargets,
  SAMPLE,
  SAMPLE_FUNCTIONS,
} from './support/ppc-build.js';
import { describeWith } from './support/tools.js';

const NOP = 0x6000_0000;
const MFLR = 0x7c08_02a6;

interface Summary {
  readonly count: number;
  /** `shape state form` -> how many. */
  readonly kinds: Readonly<Record<string, number>>;
}

function summary(sites: Sites): Summary {
  const kinds: Record<string, number> = {};
  for (let i = 0; i < sites.count; i++) {
    const reading = sites.reading(i);
    const key = reading ? `${reading.shape.name} ${reading.state} ${reading.form}` : 'unknown';
    kinds[key] = (kinds[key] ?? 0) + 1;
  }
  return { count: sites.count, kinds };
}

function sitesOf(arch: Arch, bytes: Uint8Array): Sites {
  return findSites(load(readElf(bytes), arch));
}

/**
 * Turns every site of a copy into nops through the shapes and reads them again: states after, and
 * that only owned bytes changed.
 */
function nopAll(arch: Arch, bytes: Uint8Array): { readonly kinds: Record<string, number>; readonly changed: number } {
  const sites = sitesOf(arch, bytes);
  const kinds: Record<string, number> = {};
  let changed = 0;
  for (let i = 0; i < sites.count; i++) {
    const reading = sites.reading(i);
    if (!reading || reading.state === 'foreign') continue;
    const view = sites.viewOf(i);
    let shift = 0;
    while (shift < 256 && view.u8(-shift - 4) >= 0) shift += 4;
    const around = view.bytes(-shift, shift + 512);
    const relocations = new Map<number, { type: number; symbolName: string; addend: bigint }>();
    for (let delta = -shift; delta < 512; delta++) {
      const relocation = view.relocation(delta);
      if (relocation) relocations.set(delta + shift, relocation);
    }
    const functions: number[] = [];
    for (let delta = -shift; delta < 512; delta += 4) if (view.functionAt(delta)) functions.push(delta + shift);
    const fake = new FakeView({
      code: around,
      endian: arch.target.codeEndian,
      base: view.address - BigInt(shift),
      relocatable: view.relocatable,
      relocations,
      functions,
      callee: (address) => sites.program.callee(address),
    }).at(shift);
    const again = reading.shape.read(fake, sites.source(i))!;
    expect({ ...again, shape: '' }).toEqual({ ...sites.reading(i)!, shape: '' });
    const before = fake.code.slice();
    fake.apply(asChange(reading.shape.write(again, { kind: 'nop' }, fake)));
    for (let at = 0; at < before.length; at++) {
      if (before[at] === fake.code[at]) continue;
      changed++;
      expect(at - shift).toBeGreaterThanOrEqual(again.startDelta);
      expect(at - shift).toBeLessThan(again.startDelta + again.sizeBytes);
    }
    const after = reading.shape.read(fake, sites.source(i) === 'call' ? 'mcount-table' : sites.source(i))!;
    const key = `${after.state} ${after.form}`;
    kinds[key] = (kinds[key] ?? 0) + 1;
    // A second nop changes nothing.
    expect(asChange(reading.shape.write(after, { kind: 'nop' }, fake)).stores).toEqual([]);
  }
  return { kinds, changed };
}

const GCC_ALL = ['powerpc-linux-gnu-gcc', 'powerpc64-linux-gnu-gcc', 'powerpc64le-linux-gnu-gcc'];

interface Row {
  readonly target: PpcTarget;
  readonly name: string;
  readonly compiler: 'gcc' | 'clang';
  readonly flags: readonly string[];
  readonly kinds: Readonly<Record<string, number>>;
}

const F = SAMPLE_FUNCTIONS;
const rows: Row[] = [];
function add(
  names: readonly (keyof typeof ppcTargets)[],
  compiler: Row['compiler'],
  flagSets: readonly string[],
  kinds: Row['kinds'],
): void {
  for (const name of names) {
    for (const flags of flagSets)
      rows.push({ target: ppcTargets[name], name, compiler, flags: flags.split(' '), kinds });
  }
}
const ALL64 = ['v1', 'v2be', 'v2le'] as const;
const PG32 = { 'ppc32.pg compiled call': F };
add(['ppc32'], 'gcc', ['-pg', '-pg -O0', '-pg -ffunction-sections', '-msecure-plt -pg', '-mlongcall -pg'], PG32);
add(['ppc32'], 'gcc', ['-fPIC -pg', '-fPIE -pg', '-fpic -pg'], PG32);
add(['ppc32'], 'clang', ['-pg', '-pg -ffunction-sections', '-fPIC -pg', '-fpic -pg'], {
  'ppc32.pg-late compiled call': F,
});
add(['ppc32'], 'clang', ['-mlongcall -pg'], { 'ppc32.pg-longcall compiled call': F });
const PG64 = { 'ppc64.pg compiled call': F };
add(
  ALL64,
  'gcc',
  ['-pg', '-fPIC -pg', '-pg -O0', '-pg -ffunction-sections', '-mcmodel=large -pg', '-mcmodel=small -pg'],
  PG64,
);
add(ALL64, 'clang', ['-pg', '-fPIC -pg', '-pg -ffunction-sections'], PG64);
add(['v2le'], 'gcc', ['-mcpu=power10 -pg'], PG64);
add(['v2le'], 'clang', ['-mcpu=power10 -pg'], PG64);
const KERNEL = { 'ppc64.mprofile-kernel compiled call': F };
add(
  ALL64,
  'gcc',
  [
    '-pg -mprofile-kernel',
    '-fPIC -pg -mprofile-kernel',
    '-O0 -pg -mprofile-kernel',
    '-mcmodel=large -pg -mprofile-kernel',
  ],
  KERNEL,
);
add(['v2le'], 'gcc', ['-mcpu=power9 -pg -mprofile-kernel', '-mcpu=power10 -pg -mprofile-kernel'], KERNEL);
const pfe = (text: string): string => `-fpatchable-function-entry=${text}`;
add(['ppc32'], 'gcc', [pfe('2'), pfe('4,2'), `-ffunction-sections ${pfe('4,2')}`, `-fPIC ${pfe('2')}`], {
  'ppc32.patchable-2 compiled nops': F,
});
add(['ppc32'], 'gcc', [pfe('3,1'), `-ffunction-sections ${pfe('3,1')}`], { 'ppc32.patchable-3-1 compiled nops': F });
add(['ppc32'], 'gcc', [pfe('2,1')], { 'ppc32.patchable-2 foreign foreign': F });
add(['v1'], 'gcc', [pfe('2'), pfe('4,2'), pfe('3,1'), `-ffunction-sections ${pfe('2')}`], {
  'ppc64.patchable-2 compiled nops': F,
});
add(['v1'], 'gcc', [pfe('2,1')], { 'ppc64.patchable-2 foreign foreign': F });

describeWith([...GCC_ALL, 'clang'], 'PowerPC sites of compilers', () => {
  test.each(rows.map((row) => [`${row.name} ${row.compiler} ${row.flags.join(' ')}`, row] as const))(
    'P-SITE-3 P-OFF-1 %s',
    (_, { target, compiler, flags, kinds }) => {
      const bytes = compileWith(target, compiler, flags);
      expect(summary(sitesOf(target.arch, bytes)).kinds).toEqual(kinds);
      if (Object.keys(kinds).some((key) => key.includes('foreign'))) return;
      const after = nopAll(target.arch, bytes);
      const isNops = Object.keys(kinds)[0]!.endsWith('nops');
      expect(after.kinds).toEqual({ [isNops ? 'compiled nops' : 'nop nop']: F });
      if (isNops) expect(after.changed).toBe(0);
    },
  );

  test.each([
    [pfe('2'), 3, 4],
    [pfe('4,2'), 3, 4],
    [pfe('3,1'), 3, 4],
    [`-ffunction-sections ${pfe('2')}`, 3, 4],
  ])('P-SITE-2 ELFv2 gcc 12 %s: nops before the global entry are recognised and refused', (flags) => {
    for (const target of [ppcTargets.v2le, ppcTargets.v2be]) {
      const sites = sitesOf(target.arch, compileWith(target, 'gcc', flags.split(' ')));
      const { kinds } = summary(sites);
      expect(sites.count).toBe(F);
      // Functions that use no TOC have the nops at their only entry: they are fine.
      expect(kinds['ppc64.patchable-2 foreign foreign']).toBeGreaterThan(0);
      expect(kinds['ppc64.patchable-2 compiled nops']).toBeGreaterThan(0);
      for (let i = 0; i < sites.count; i++) {
        const reading = sites.reading(i)!;
        const symbol = sites.functionSymbol(i);
        const local = sites.program.image.symbols.other[symbol]! >> 5;
        expect(reading.state === 'foreign').toBe(local > 1);
        if (reading.state !== 'foreign') continue;
        expect(reading.fault).toBe('unsupported');
        expect(reading.shape.write(reading, { kind: 'init' }, sites.viewOf(i))).toMatchObject({
          refused: 'not-applicable',
        });
      }
    }
  });

  test('P-SITE-2 POWER10 functions without a TOC are fine', () => {
    const bytes = compileWith(ppcTargets.v2le, 'gcc', ['-mcpu=power10', pfe('2')]);
    expect(summary(sitesOf(ppc64ElfV2Le, bytes)).kinds).toEqual({ 'ppc64.patchable-2 compiled nops': F });
  });

  test('P-SITE-1 ELFv2 patchable entries behind the local entry, as GCC 13 places them: ip is the second nop', () => {
    const source = (setup: string): string => `
  .abiversion 2
  .text
  .globl f
  .type f,@function
f:
0: ${setup}
  .localentry f,.-f
.LP: nop
  nop
  mflr 0
  blr
  .size f,.-f
  .section __patchable_function_entries,"awo",@progbits,.text
  .p2align 3
  .quad .LP
`;
    for (const target of [ppcTargets.v2le, ppcTargets.v2be]) {
      for (const setup of ['addis 2,12,.TOC.-0b@ha; addi 2,2,.TOC.-0b@l', 'ld 2,-8(12); add 2,2,12']) {
        const sites = sitesOf(target.arch, assembleWith(target, source(setup)));
        const reading = sites.reading(0)!;
        expect(reading).toMatchObject({ state: 'compiled', form: 'nops', startDelta: 0, ipDelta: 4, sizeBytes: 8 });
        expect(sites.ip(0)).toBe(12n);
      }
    }
  });

  /** ELFv2 or ELFv1 code with one pad of a compiler, its words given, and a table with one slot. */
  const padded = (target: PpcTarget, words: string, slot = '.LP'): Sites => {
    const is32 = target.arch.target.wordBytes === 4;
    return sitesOf(
      target.arch,
      assembleWith(
        target,
        `
  .text
${words}
  .section __patchable_function_entries,"awo",@progbits,.text
  .p2align ${is32 ? 2 : 3}
  ${is32 ? '.long' : '.quad'} ${slot}
`,
      ),
    );
  };

  test.each([
    [
      'GCC 13 and later, ELFv2 =4,2: nops in front of the local entry and behind it',
      'v2le',
      '.abiversion 2\n.type f,@function\nf: addis 2,12,.TOC.-f@ha\n addi 2,2,.TOC.-f@l\n.LP: nop\n nop\n.localentry f,.-f\n nop\n nop\n mflr 0\n blr\n.size f,.-f',
      8,
    ],
    [
      'clang, ELFv2 =4,2 -mcmodel=large: the offset of the TOC behind the nops in front',
      'v2le',
      '.abiversion 2\n.type f,@function\n.LP: nop\n nop\n.quad .TOC.-f\nf: ld 2,-8(12)\n add 2,2,12\n.localentry f,.-f\n nop\n nop\n mflr 0\n blr\n.size f,.-f',
      24,
    ],
    [
      'clang, 32 bits =4,2 -fPIC: the offset of .got2 behind the nops in front',
      'ppc32',
      '.type f,@function\n.LP: nop\n nop\n.long .text-f\nf: nop\n nop\n mflr 0\n blr\n.size f,.-f',
      12,
    ],
  ] as const)('P-SITE-1 %s', (_, name, words, start) => {
    const sites = padded(ppcTargets[name], words);
    expect(sites.reading(0)).toMatchObject({ state: 'compiled', form: 'nops', startDelta: start, ipDelta: start + 4 });
    expect(sites.functionSymbol(0)).toBeGreaterThan(0);
  });

  test.each([
    ['blr', '.LP: nop\n li 3,1\n blr\n'],
    ['a jump', '.LP: nop\n li 3,1\n b f\n'],
  ])('M-WEAK-1 the end of an overridden function in front of the next is no data: %s', (_, leftover) => {
    for (const name of ['v2le', 'ppc32'] as const) {
      const f = '.type f,@function\nf: addis 2,12,0\n addi 2,2,0\n mflr 0\n blr\n.size f,.-f';
      expect(padded(ppcTargets[name], `${leftover}${f}`).reading(0)).toMatchObject({
        state: 'compiled',
        form: 'nop',
        ipDelta: 0,
      });
    }
  });

  test('P-OOL-1 a nop inside a function is no site', () => {
    const words = `.type f,@function\nf: nop\n mflr 0\n bl f\n.LP: nop\n blr\n.size f,.-f`;
    const sites = padded(ppcTargets.v1, words, 'f,.LP');
    expect(sites.reading(0)).toMatchObject({ state: 'compiled', form: 'nop' });
    const reason = 'the place is inside a function, not at its entry';
    expect(sites.reading(1)).toMatchObject({ state: 'foreign', reason });
  });

  describe('P-OOL-2 a site that is on, and its stub', () => {
    const stub = (words: string): string => `.type f,@function\nf: b stub\n li 3,1\n blr\n.size f,.-f
 .type g,@function\ng: nop\n li 3,2\n blr\n.size g,.-g
 .type ftrace_caller,@function\nftrace_caller: blr\n.size ftrace_caller,.-ftrace_caller
 .p2align 3\n.quad 0\nstub: ${words}
 .globl _start\n_start: b _start\n.size _start,.-_start`;
    const linked = (name: keyof typeof ppcTargets, words: string): SiteReading => {
      const target = ppcTargets[name];
      const is32 = target.arch.target.wordBytes === 4;
      const object = assembleWith(
        target,
        `${name === 'v2le' ? '.abiversion 2' : ''}\n.text\n${stub(words)}
  .section __patchable_function_entries,"aw",@progbits\n ${is32 ? '.long f,g' : '.quad f,g'}\n`,
      );
      return sitesOf(target.arch, linkWith(target, [object], [])).reading(0)!;
    };
    const good = 'mflr 0\n bl ftrace_caller\n mtlr 0\n b f+4\n';
    test.each(['v2le', 'ppc32'] as const)('%s: a call', (name) => {
      expect(linked(name, good)).toMatchObject({ state: 'call', form: 'out-of-line', ipDelta: 0, sizeBytes: 4 });
    });
    test.each([
      ['empty', '.long 0,0,0,0', /is empty/],
      ['another way back', good.replace('f+4', 'g+4'), /comes back to/],
      ['the way back one word off', good.replace('f+4', 'f'), /comes back to/],
      ['no mflr', good.replace('mflr 0', 'nop'), /does not begin with mflr r0/],
      ['no call', good.replace('bl ftrace_caller', 'nop'), /second word is no bl/],
      ['no mtlr', good.replace('mtlr 0', 'nop'), /third word is not mtlr r0/],
      ['no way back', good.replace('b f+4', 'blr'), /last word is no b/],
    ])('%s', (_, words, reason) => {
      for (const name of ['v2le', 'ppc32'] as const) {
        const found = linked(name, words);
        expect(found.state).toBe('foreign');
        expect(found.reason).toMatch(reason);
      }
    });
  });

  test('ppc32 nested functions: the pair in front of the call stands inside the scratch frame', () => {
    const sites = sitesOf(ppc32, compileWith(ppcTargets.ppc32, 'gcc', ['-pg'], NESTED));
    expect(summary(sites).kinds).toEqual({ 'ppc32.pg compiled call': 2 });
    // Static chain saved in a frame of 16 bytes: the site is 16 bytes into the function.
    const view = sites.viewOf(0);
    const offsets = [0, 1].map((i) => Number(sites.anchor[i]!));
    expect(view.u32(-8)).toBe(MFLR);
    expect(offsets.length).toBe(2);
  });

  test('tail calls of the profiling entry are no sites', () => {
    const source = 'extern void _mcount(void); void tail(void) { _mcount(); }';
    const bytes = compileWith(ppcTargets.ppc32, 'gcc', ['-O2'], source);
    const { kinds } = summary(sitesOf(ppc32, bytes));
    expect(Object.keys(kinds).filter((key) => key !== 'unknown')).toEqual([]);
  });
});

const MCOUNT: Readonly<Record<string, string>> = {
  ppc32: '.globl _mcount,outside,_start\n_mcount: nop\n blr\noutside: blr\n_start: b _start\n',
  v1: `.section .opd,"aw"
 .p2align 3
 .globl _mcount,outside,_start
_mcount: .quad .L._mcount,.TOC.@tocbase,0
outside: .quad .L.outside,.TOC.@tocbase,0
_start: .quad .L.outside,.TOC.@tocbase,0
 .text
.L._mcount: blr
.L.outside: ld 3,outside@got(2)
 blr
`,
  v2le: ' .abiversion 2\n .globl _mcount,outside,_start\n .type _mcount,@function\n_mcount:\n0: addis 2,12,.TOC.-0b@ha\n addi 2,2,.TOC.-0b@l\n .localentry _mcount,.-_mcount\n blr\n .type outside,@function\noutside: blr\n_start: b _start\n',
};

describeWith(GCC_ALL, 'PowerPC sites of linked files', () => {
  const link = (name: 'ppc32' | 'v1' | 'v2le' | 'v2be', flags: string, extra: readonly string[] = []): Uint8Array => {
    const target = ppcTargets[name];
    const object = compileWith(target, 'gcc', flags.split(' '));
    const mcount = assembleWith(target, MCOUNT[name === 'v2be' ? 'v2le' : name]!);
    return linkWith(target, [object, mcount], ['-e', '_start', ...extra, ...(name === 'v2be' ? ['-melf64ppc'] : [])]);
  };

  test.each([
    ['ppc32', '-pg', 'ppc32.pg compiled call'],
    ['v1', '-pg', 'ppc64.pg compiled call'],
    ['v1', '-pg -mprofile-kernel', 'ppc64.mprofile-kernel compiled call'],
    ['v2le', '-pg', 'ppc64.pg compiled call'],
    ['v2le', '-pg -mprofile-kernel', 'ppc64.mprofile-kernel compiled call'],
    ['v2be', '-pg', 'ppc64.pg compiled call'],
    ['v2be', '-pg -mprofile-kernel', 'ppc64.mprofile-kernel compiled call'],
  ] as const)(
    '%s %s: calls are found by their targets, local entries and descriptors followed',
    (name, flags, kind) => {
      const bytes = link(name, flags);
      const { arch } = ppcTargets[name];
      expect(summary(sitesOf(arch, bytes)).kinds).toEqual({ [kind]: F });
      expect(nopAll(arch, bytes).kinds).toEqual({ 'nop nop': F });
    },
  );

  test.each([
    ['ppc32', '-pg', 'ppc32.pg compiled call'],
    ['v1', '-pg', 'ppc64.pg compiled call'],
    ['v1', '-pg -mprofile-kernel', 'ppc64.mprofile-kernel compiled call'],
    ['v2le', '-pg', 'ppc64.pg compiled call'],
    ['v2le', '-pg -mprofile-kernel', 'ppc64.mprofile-kernel compiled call'],
  ] as const)('P-STUB-1 %s %s: calls through the linker stubs of a far _mcount are found', (name, flags, kind) => {
    const target = ppcTargets[name];
    const object = compileWith(target, 'gcc', flags.split(' '));
    const far = MCOUNT[name]!.replace(/^ \.text$/m, '.section .far,"ax"').replace(
      '.abiversion 2',
      '.abiversion 2\n .section .far,"ax"',
    );
    const mcount = assembleWith(target, name === 'ppc32' ? `.section .far,"ax"\n${far}` : far);
    const bytes = linkWith(
      target,
      [object, mcount],
      ['-e', '_start', '-Ttext=0x10000000', '--section-start=.far=0x14000000'],
    );
    const sites = sitesOf(target.arch, bytes);
    expect(summary(sites).kinds).toEqual({ [kind]: F });
    const { target: first } = sites.reading(0)!;
    expect(sites.program.stubTarget(first!)).toBeGreaterThanOrEqual(0x1400_0000n);
  });
});

// -------------------------------------------------------------------------- loaded forms, by words

interface Loaded {
  readonly arch: Arch;
  readonly restore: number;
}
const LOADED: readonly (readonly [string, Loaded])[] = [
  ['ELFv1', { arch: ppc64ElfV1, restore: 0xe841_0028 }],
  ['ELFv2 LE', { arch: ppc64ElfV2Le, restore: 0xe841_0018 }],
  ['ELFv2 BE', { arch: ppc64ElfV2Be, restore: 0xe841_0018 }],
];
const SITE = 0x1000_0100n;
const MCOUNT_AT = 0x1000_8000n;
const TRACER_AT = 0x1000_9000n;

function linked(arch: Arch, words: readonly number[], anchor: number): FakeView {
  return new FakeView({
    code: fromWords(words, arch.target.codeEndian),
    endian: arch.target.codeEndian,
    base: SITE - BigInt(anchor),
    relocatable: false,
    functions: [0],
    callee: (address) => (address === MCOUNT_AT ? 'mcount' : address === TRACER_AT ? 'tracer' : 'other'),
  }).at(anchor);
}

/** First shape that knows the bytes, as `findSites` asks. */
function read(arch: Arch, view: FakeView, source: SiteSource): SiteReading | null {
  for (const shape of arch.siteShapes) {
    if (!shape.sources.includes(source)) continue;
    const reading = shape.read(view, source);
    if (reading) return reading;
  }
  return null;
}

/** A stub at an address that saves r2. */
function savingStub(target: bigint): StubReading {
  return { form: 'test', sizeBytes: 40, target, slot: null, slotBytes: 0, targetToc: null, savesToc: true };
}

describe('PowerPC sites of loaded and patched code', () => {
  test.each(LOADED)('%s T-PPC-12 T-PPC-13: call with restore <-> b .+8, the restore stays', (_, { arch, restore }) => {
    const std = 0xf821_ff91;
    const view = linked(arch, [std, bl(SITE, MCOUNT_AT), restore], 4);
    const site = read(arch, view, 'mcount-table')!;
    expect(site).toMatchObject({ state: 'compiled', form: 'call-restore', sizeBytes: 8, target: MCOUNT_AT });
    const change = asChange(site.shape.write(site, { kind: 'nop' }, view));
    expect(change).toMatchObject({ rule: 'H3', neutralise: [] });
    view.apply(change);
    expect([view.u32(0), view.u32(4)]).toEqual([0x4800_0008, restore]);
    const off = read(arch, view, 'mcount-table')!;
    expect(off).toMatchObject({ state: 'nop', form: 'b8', sizeBytes: 8 });
    // The restore would load what nobody saved.
    expect(off.shape.write(off, { kind: 'call', target: TRACER_AT }, view)).toMatchObject({ refused: 'needs-stub' });
    view.stubs.set(TRACER_AT, savingStub(TRACER_AT));
    view.apply(asChange(off.shape.write(off, { kind: 'call', target: TRACER_AT }, view)));
    expect(read(arch, view, 'mcount-table')).toMatchObject({ state: 'call', form: 'call-restore', target: TRACER_AT });
    expect(view.u32(4)).toBe(restore);
  });

  test.each(LOADED)(
    '%s T-PPC-12 T-PPC-15 T-PPC-17: the form of 2008 has two nops, and enabling writes both words',
    (_, { arch, restore }) => {
      const view = linked(arch, [0xf821_ff91, bl(SITE, MCOUNT_AT), restore], 4);
      view.stubs.set(MCOUNT_AT, savingStub(MCOUNT_AT));
      view.stubs.set(TRACER_AT, savingStub(TRACER_AT));
      const site = read(arch, view, 'mcount-table')!;
      const change = asChange(site.shape.write(site, { kind: 'nop', form: '2008' }, view));
      expect(change).toMatchObject({ rule: 'T-PPC-12' });
      expect(change.stores).toHaveLength(1);
      view.apply(change);
      expect([view.u32(0), view.u32(4)]).toEqual([NOP, NOP]);
      const off = read(arch, view, 'mcount-table')!;
      expect(off).toMatchObject({ state: 'nop', form: 'nop' });
      const on = asChange(off.shape.write(off, { kind: 'call', target: TRACER_AT }, view));
      expect(on).toMatchObject({ rule: 'T-PPC-17' });
      expect(on.stores.map((each) => each.after.length)).toEqual([8]);
      view.apply(on);
      expect([view.u32(0), view.u32(4)]).toEqual([bl(SITE, TRACER_AT), restore]);

      // T-PPC-15: a nop and something else.
      const other = linked(arch, [0xf821_ff91, NOP, 0x3860_0001], 4);
      other.stubs.set(TRACER_AT, savingStub(TRACER_AT));
      const wrong = read(arch, other, 'mcount-table')!;
      expect(wrong.shape.write(wrong, { kind: 'call', target: TRACER_AT }, other)).toMatchObject({
        refused: 'restore-slot',
      });
      // The word behind the last one of a section cannot be read.
      const last = linked(arch, [0xf821_ff91, NOP], 4);
      last.stubs.set(TRACER_AT, savingStub(TRACER_AT));
      const atEnd = read(arch, last, 'mcount-table')!;
      expect(atEnd.shape.write(atEnd, { kind: 'call', target: TRACER_AT }, last)).toMatchObject({
        refused: 'unreadable',
      });
      expect(off.shape.write(off, { kind: 'nop', form: 'b9' }, view)).toMatchObject({ refused: 'not-applicable' });
    },
  );

  test.each(LOADED)(
    '%s T-PPC-13: a call through a stub that saves r2 without the restore behind it is refused',
    (_, { arch, restore }) => {
      for (const follower of [NOP, 0x3860_0001]) {
        const view = linked(arch, [0xf821_ff91, bl(SITE, MCOUNT_AT), follower], 4);
        view.stubs.set(MCOUNT_AT, savingStub(MCOUNT_AT));
        const site = read(arch, view, 'call')!;
        expect(site).toMatchObject({ state: 'foreign', fault: 'toc-restore-missing' });
        expect(site.expected).toEqual(fromWords([bl(SITE, MCOUNT_AT), restore], arch.target.codeEndian));
      }
    },
  );

  test.each(LOADED)(
    '%s T-PPC-29: in reach the word behind the call is neither read nor written',
    (_, { arch, restore }) => {
      for (const follower of [NOP, 0x3860_0001, 0x4e80_0020]) {
        const view = linked(arch, [0xf821_ff91, bl(SITE, MCOUNT_AT), follower], 4);
        const site = read(arch, view, 'call')!;
        expect(site).toMatchObject({ state: 'compiled', form: 'call', sizeBytes: 4 });
        view.apply(asChange(site.shape.write(site, { kind: 'nop' }, view)));
        expect([view.u32(0), view.u32(4)]).toEqual([NOP, follower]);
      }
      // A nop in front of a restore would load an r2 that nobody saved.
      const broken = linked(arch, [0xf821_ff91, NOP, restore], 4);
      expect(read(arch, broken, 'mcount-table')).toMatchObject({ state: 'foreign', fault: 'toc-restore-missing' });
      const lone = linked(arch, [0xf821_ff91, 0x4800_0008, NOP], 4);
      expect(read(arch, lone, 'mcount-table')).toMatchObject({ state: 'foreign', fault: 'toc-restore-missing' });
    },
  );

  test('the other ABI’s restore word is not taken for a restore', () => {
    const view = linked(ppc64ElfV1, [0xf821_ff91, bl(SITE, MCOUNT_AT), 0xe841_0018], 4);
    expect(read(ppc64ElfV1, view, 'mcount-table')).toMatchObject({ form: 'call', sizeBytes: 4 });
  });

  test.each([
    ['mflr r0', [MFLR], 8],
    ['mflr r0; std r0,16(r1)', [MFLR, 0xf801_0010], 12],
  ] as const)('P-NEW-1 P-NEW-2 -mprofile-kernel with %s: one word toggles, no restore is owned', (_, before, size) => {
    const arch = ppc64ElfV2Le;
    const view = linked(arch, [...before, bl(SITE, MCOUNT_AT), 0xe841_0018], 4 * before.length);
    const site = read(arch, view, 'mcount-table')!;
    expect(site).toMatchObject({ state: 'compiled', sizeBytes: size, startDelta: -4 * before.length });
    expect(site.shape.name).toBe('ppc64.mprofile-kernel');
    view.apply(asChange(site.shape.write(site, { kind: 'init' }, view)));
    expect([view.u32(0), view.u32(4)]).toEqual([NOP, 0xe841_0018]);
    const off = read(arch, view, 'mcount-table')!;
    view.apply(asChange(off.shape.write(off, { kind: 'call', target: TRACER_AT }, view)));
    expect(view.u32(0)).toBe(bl(SITE, TRACER_AT));
    expect(read(arch, view, 'mcount-table')).toMatchObject({ state: 'call', target: TRACER_AT });
    const far = { kind: 'call', target: SITE + 0x200_0000n } as const;
    expect(off.shape.write(off, far, view)).toMatchObject({ refused: 'out-of-range' });
    const edge = { kind: 'call', target: SITE + 0x1ff_fffcn } as const;
    expect(asChange(off.shape.write(off, edge, view)).stores).toHaveLength(1);
  });

  test.each([
    ['ppc32', ppc32],
    ['ELFv1', ppc64ElfV1],
    ['ELFv2', ppc64ElfV2Le],
  ] as const)('P-NEW-1 P-NEW-2 %s patchable entries: nops, init, call and back', (_, arch) => {
    const view = linked(arch, [NOP, NOP, 0x9421_fff0], 0);
    const site = read(arch, view, 'patchable-table')!;
    expect(site).toMatchObject({ state: 'compiled', form: 'nops', ipDelta: 4, startDelta: 0, sizeBytes: 8 });
    expect(asChange(site.shape.write(site, { kind: 'nop' }, view))).toMatchObject({ stores: [], rule: 'C-INIT-2' });
    const call = asChange(site.shape.write(site, { kind: 'call', target: TRACER_AT }, view));
    expect(call.stores.map((each) => each.delta)).toEqual([0, 4]);
    view.apply(asChange(site.shape.write(site, { kind: 'init' }, view)));
    expect([view.u32(0), view.u32(4)]).toEqual([MFLR, NOP]);
    const init = read(arch, view, 'patchable-table')!;
    expect(init).toMatchObject({ state: 'nop', form: 'init' });
    view.apply(asChange(init.shape.write(init, { kind: 'call', target: TRACER_AT }, view)));
    expect(view.u32(4)).toBe(bl(SITE + 4n, TRACER_AT));
    const on = read(arch, view, 'patchable-table')!;
    expect(on).toMatchObject({ state: 'call', target: TRACER_AT });
    view.apply(asChange(on.shape.write(on, { kind: 'nop' }, view)));
    expect(read(arch, view, 'patchable-table')).toMatchObject({ state: 'nop', form: 'init' });
    // A call without mflr r0 would return through a stale r0.
    const stale = linked(arch, [NOP, bl(SITE + 4n, TRACER_AT)], 0);
    expect(read(arch, stale, 'patchable-table')).toMatchObject({ state: 'foreign' });
  });

  test('P-NEW-1 ppc32 -pg: a missing neighbour is foreign, both missing is a late call', () => {
    const call = bl(SITE, MCOUNT_AT);
    expect(read(ppc32, linked(ppc32, [MFLR, 0x9001_0004, call], 8), 'mcount-table')).toMatchObject({
      state: 'compiled',
      startDelta: -8,
      sizeBytes: 12,
    });
    expect(read(ppc32, linked(ppc32, [NOP, 0x9001_0004, call], 8), 'mcount-table')).toMatchObject({ state: 'foreign' });
    expect(read(ppc32, linked(ppc32, [NOP, 0x7c7e_1b78, call], 8), 'mcount-table')!.shape.name).toBe('ppc32.pg-late');
    expect(read(ppc32, linked(ppc32, [MFLR, 0x9001_0004, 0x4e80_0020], 8), 'mcount-table')).toMatchObject({
      state: 'foreign',
    });
  });

  test('ppc32 long calls: only the bctrl toggles', () => {
    const words = [0x3c60_1001, 0x3863_8000, 0x7c69_03a6, 0x4e80_0421];
    const view = linked(ppc32, words, 0);
    const site = read(ppc32, view, 'call')!;
    expect(site).toMatchObject({ state: 'compiled', ipDelta: 12, sizeBytes: 16, target: MCOUNT_AT });
    view.apply(asChange(site.shape.write(site, { kind: 'nop' }, view)));
    expect([0, 4, 8, 12].map((delta) => view.u32(delta))).toEqual([...words.slice(0, 3), NOP]);
    const off = read(ppc32, view, 'mcount-table')!;
    expect(off).toMatchObject({ state: 'nop', target: MCOUNT_AT });
    expect(off.shape.write(off, { kind: 'call', target: TRACER_AT }, view)).toMatchObject({ refused: 'unsupported' });
    view.apply(asChange(off.shape.write(off, { kind: 'call', target: MCOUNT_AT }, view)));
    expect(view.u32(12)).toBe(0x4e80_0421);
    expect(ppc32.mcount.findCalls(view.code, 0, 16, SITE, (address) => address === MCOUNT_AT)).toEqual([0]);
  });

  test('P-OFF-1 F-2: relocatable calls need their relocation and a zero field, nops must have none', () => {
    const at = (word: number, relocation?: { type: number; symbolName: string }): SiteReading | null =>
      read(
        ppc64ElfV1,
        new FakeView({
          code: fromWords([0xf821_ff81, word, NOP], 'big'),
          endian: 'big',
          relocations: new Map(relocation ? [[4, relocation]] : []),
        }).at(4),
        'mcount-table',
      );
    expect(at(0x4800_0001, { type: 10, symbolName: '._mcount' })).toMatchObject({
      state: 'compiled',
      relocationDeltas: [0],
    });
    expect(at(0x4800_0001, { type: 10, symbolName: 'ftrace_caller' })).toMatchObject({ state: 'call', target: null });
    expect(at(0x4800_0001)).toMatchObject({ state: 'foreign' });
    expect(at(0x4800_0005, { type: 10, symbolName: '_mcount' })).toMatchObject({ state: 'foreign' });
    expect(at(0x4800_0001, { type: 1, symbolName: '_mcount' })).toMatchObject({ state: 'foreign' });
    expect(at(NOP)).toMatchObject({ state: 'nop' });
    expect(at(NOP, { type: 10, symbolName: '_mcount' })).toMatchObject({ state: 'foreign' });
    // A branch without link is a tail call, `bla` an absolute one.
    expect(at(0x4800_0000, { type: 10, symbolName: '_mcount' })).toMatchObject({ state: 'foreign' });
    expect(at(0x4800_0003, { type: 10, symbolName: '_mcount' })).toMatchObject({ state: 'foreign' });
  });

  test('every shape: any other word at the ip is foreign or unknown, never accepted', () => {
    for (const [arch, before] of [
      [ppc32, [MFLR, 0x9001_0004]],
      [ppc64ElfV1, [0xf821_ff81]],
      [ppc64ElfV2Le, [MFLR]],
    ] as const) {
      for (let bit = 0; bit < 32; bit++) {
        const word = (bl(SITE, MCOUNT_AT) ^ (1 << bit)) >>> 0;
        const site = read(arch, linked(arch, [...before, word, 0x3860_0001], 4 * before.length), 'mcount-table')!;
        // Bits 2 to 25 change where the call leads; then it is a call of something else.
        if (bit >= 2 && bit <= 25) expect(site.state).toBe('call');
        else expect(site.state).toBe('foreign');
      }
    }
  });

  test('the sample source has the functions that the tests count', () => {
    expect([...SAMPLE.matchAll(/^(?:__attribute__\(\(\w+\)\) )*(?:static )?(?:int|double) \w+\(/gm)].length).toBe(F);
  });
});
