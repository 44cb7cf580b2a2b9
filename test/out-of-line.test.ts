/**
 * Sites of PowerPC that call through stubs out of line, against the areas of a linked kernel: which
 * stub is whose, what start-up writes, and each way in which a site and its stub can disagree.
 */
import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { branch } from '../src/arch-ppc/stubs.js';
import { readElf } from '../src/elf/read.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { planSites } from '../src/patch/plan-sites.js';
import { load, type Program } from '../src/program/program.js';
import { findSites, type Sites } from '../src/sites/sites.js';
import { verify } from '../src/sites/verdicts.js';
import { runWithBoth, traceDifferences } from './support/compare-traces.js';
import { loadSamples, outOfLineCases, runImage, trace } from './support/loaded.js';
import { openBytes } from './support/pipeline.js';
import { assembleWith, linkWith, type PpcTarget, ppcTargets } from './support/ppc-build.js';
import { describeWith } from './support/tools.js';

const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Functions of each text section: `f0` … of .text, `h0` … far behind it, `g0` … of init text. */
const FUNCTIONS = { f: 5, h: 2, g: 2 } as const;
/** The area within text has too few stubs for all functions near it. */
const RESERVE = 3;

/**
 * A kernel as its linker makes it: three areas of stubs, all zero, with their counts; islands; the
 * entry and two objects of ops. The area behind text
 * lies 25 MiB behind .text, .far_text and .init.text 33 MiB and more.
 */
function kernel(target: PpcTarget, withOps: boolean): Uint8Array {
  const is32 = target.arch.target.wordBytes === 4;
  const isV2 = target.arch.target.abiName === 'elfv2';
  const word = is32 ? '.long' : '.quad';
  const entry = (withOps ? target.arch.target.wordBytes : 0) + 16;
  const body = (name: string): string => ` .globl ${name}
 .type ${name},@function
${name}: ${isV2 ? `addis 2,12,.TOC.-${name}@ha\n addi 2,2,.TOC.-${name}@l\n .localentry ${name},.-${name}` : ''}
.L${name}: nop
 li 3,1
 blr
 .size ${name},.-${name}`;
  const names = (letter: keyof typeof FUNCTIONS): string[] =>
    Array.from({ length: FUNCTIONS[letter] }, (_, i) => `${letter}${i}`);
  const area = (symbol: string, count: number): string => ` .p2align 3
 .globl ${symbol}_count,${symbol}
${symbol}_count: .long ${count},0
${symbol}: .space ${count * entry}
 .size ${symbol},${count * entry}`;
  const island = (symbol: string): string => ` .globl ${symbol}\n .p2align 3\n${symbol}: .space 32`;
  const source = `${isV2 ? ' .abiversion 2' : ''}
 .text
 .globl _start
_start: nop
 .globl ftrace_caller
 .type ftrace_caller,@function
ftrace_caller: blr
 .size ftrace_caller,.-ftrace_caller
${area('ftrace_ool_stub_text', RESERVE)}
${names('f').map(body).join('\n')}
 .section .far_text,"ax"
${names('h').map(body).join('\n')}
 .section .mid_text,"ax"
${island('ftrace_tramp_text')}
${area('ftrace_ool_stub_text_end', FUNCTIONS.f - RESERVE + FUNCTIONS.h)}
 .section .init.text,"ax"
${names('g').map(body).join('\n')}
${island('ftrace_tramp_init')}
${area('ftrace_ool_stub_inittext', FUNCTIONS.g)}
 .data
 .p2align 3
${withOps ? ' .globl ftrace_nop_ops\nftrace_nop_ops: .space 64\n' : ''}ops: .space 64
 .globl __start_mcount_loc,__stop_mcount_loc
__start_mcount_loc: ${word} ${[...names('f'), ...names('h'), ...names('g')].map((name) => `.L${name}`).join(',')}
__stop_mcount_loc:
`;
  const far = [
    '--section-start=.text=0x10000000',
    '--section-start=.mid_text=0x11900000',
    '--section-start=.far_text=0x12100000',
  ];
  const init = ['--section-start=.init.text=0x13000000', '-Tdata=0x14000000'];
  return linkWith(target, [assembleWith(target, source)], [...far, ...init]);
}

function open(target: PpcTarget, bytes: Uint8Array): { program: Program; sites: Sites } {
  const program = load(readElf(bytes), target.arch);
  return { program, sites: findSites(program) };
}

const at = (program: Program, name: string): bigint => {
  const index = program.symbols.find(name);
  return program.definedAt(index)! + BigInt(program.arch.abi.localEntryOffset(program.symbols.other[index]!));
};

function initialised(target: PpcTarget, bytes: Uint8Array): Uint8Array {
  const { program, sites } = open(target, bytes);
  const plan = planSites(sites, { to: { kind: 'init' } });
  expect(plan.refusals).toEqual([]);
  return applyPlan(program.image, plan, { hash }).bytes;
}

describe.each(outOfLineCases)('$name, loaded', (each) => {
  const { bytes } = loadSamples(each);
  const { sites, program } = openBytes(bytes);

  test('P-OOL-6 P-STUB-3 each part has stubs for its sites, which call the entry or the stub of the module', () => {
    expect(verify(sites).verdicts).toEqual({ ok: sites.count });
    const targets = Array.from(sites, ({ ip }) => {
      const stub = sites.stubs!.of(ip)!;
      const part = program.partOf(ip)!;
      expect(program.partOf(stub.address)?.name).toBe(part.name);
      expect(stub.idleTarget).toBe(
        part.kind === 'module' ? part.entryStubs[0]!.address : program.definedAt(program.symbols.find('ftrace_caller')),
      );
      const read = program.arch.outOfLine!.read((address) => program.wordAt(address), stub.address);
      return typeof read === 'object' && 'target' in read && read.target === stub.idleTarget;
    });
    expect(new Set(targets)).toEqual(new Set([true]));
  });

  test('P-OOL-2 P-OOL-8 all sites call the tracer: the image does the same, and its trace is what the machine sees', () => {
    const on = trace(bytes);
    expect(verify(openBytes(on).sites).verdicts).toEqual({ ok: sites.count });
    const both = runWithBoth(on);
    expect(both.output).toEqual(runImage(bytes).output);
    expect(traceDifferences(both)).toEqual([]);
    expect(both.guest.length).toBeGreaterThan(50);
    expect(revert(readElf(on))).toEqual(bytes);
  });
});

const verdictsOf = (target: PpcTarget, bytes: Uint8Array): Readonly<Record<string, number>> =>
  verify(open(target, bytes).sites).verdicts;

const TARGETS = (['v2le', 'v2be', 'ppc32'] as const).map((name) => [name, ppcTargets[name]] as const);
const total = FUNCTIONS.f + FUNCTIONS.h + FUNCTIONS.g;

describeWith(
  ['powerpc-linux-gnu-gcc', 'powerpc64-linux-gnu-gcc', 'powerpc64le-linux-gnu-gcc'],
  'stubs out of line',
  () => {
    describe.each(TARGETS)('%s', (_, target) => {
      // 32 bits have no islands, so what lies far from the entry has no way to it.
      const is32 = target.arch.target.wordBytes === 4;
      const kernels = { plain: kernel(target, false), ops: kernel(target, true) };

      test.each(['plain', 'ops'] as const)('P-OOL-5 P-OOL-6 %s: stubs are handed out as start-up does', (form) => {
        const { program, sites } = open(target, kernels[form]);
        const entry = (form === 'ops' ? target.arch.target.wordBytes : 0) + 16;
        const stub = (symbol: string, index: number): bigint =>
          at(program, symbol) + BigInt(index * entry + entry - 16);
        const expected = new Map([
          ...['f0', 'f1', 'f2'].map((name, i) => [name, stub('ftrace_ool_stub_text', i)] as const),
          ...['f3', 'f4', 'h0', 'h1'].map((name, i) => [name, stub('ftrace_ool_stub_text_end', i)] as const),
          ...['g0', 'g1'].map((name, i) => [name, stub('ftrace_ool_stub_inittext', i)] as const),
        ]);
        for (const [name, address] of expected) expect(sites.stubs!.of(at(program, name))?.address).toBe(address);
        expect(verify(sites).verdicts).toEqual({ ok: total });
      });

      test('P-OOL-6 a function out of reach of the stubs within text takes one behind it', () => {
        const bytes = kernels.plain.slice();
        const { program } = open(target, bytes);
        const view = new DataView(bytes.buffer);
        const little = target.arch.target.dataEndian === 'little';
        const counted = program.image.fileOffsetOf(at(program, 'ftrace_ool_stub_text_count'));
        // With stubs left there, far functions do not take them.
        view.setUint32(counted, FUNCTIONS.f + FUNCTIONS.h, little);
        const { sites } = open(target, bytes);
        expect(sites.stubs!.of(at(program, 'h0'))?.address).toBe(at(program, 'ftrace_ool_stub_text_end'));
      });

      if (is32) {
        test('P-OOL-6 without an island no way leads to the entry, and nothing is written', () => {
          const plan = planSites(open(target, kernels.plain).sites, { to: { kind: 'init' } });
          expect(plan.refusals.map(({ code }) => code)).toEqual(Array(FUNCTIONS.g).fill('out-of-range'));
        });
        return;
      }

      test.each(['plain', 'ops'] as const)('P-OOL-4 P-OOL-6 %s: what start-up writes is read as right', (form) => {
        const bytes = initialised(target, kernels[form]);
        expect(verdictsOf(target, bytes)).toEqual({ ok: total });
        const { program, sites } = open(target, bytes);
        expect(sites.totals().byState).toEqual({ compiled: total });
        const again = planSites(sites, { to: { kind: 'init' } });
        expect(again).toMatchObject({ changed: 0, unchanged: total, refusals: [] });
        // The stub of init text is too far from the entry: an island leads there.
        const idle = sites.stubs!.of(at(program, 'g0'))!;
        expect(idle.island?.address).toBe(at(program, 'ftrace_tramp_text'));
      });

      /** The words of one site and its stub after start-up, to be changed. */
      interface Place {
        readonly program: Program;
        readonly site: bigint;
        readonly stub: bigint;
        readonly otherSite: bigint;
        readonly otherStub: bigint;
        set(address: bigint, word: number): void;
        setPointer(address: bigint, value: bigint): void;
      }
      const changed = (change: (place: Place) => void): Readonly<Record<string, number>> => {
        const bytes = initialised(target, kernels.ops);
        const { program, sites } = open(target, bytes);
        const view = new DataView(bytes.buffer);
        const little = target.arch.target.dataEndian === 'little';
        const [site, otherSite] = [at(program, 'f1'), at(program, 'f2')];
        change({
          program,
          site,
          otherSite,
          stub: sites.stubs!.of(site)!.address,
          otherStub: sites.stubs!.of(otherSite)!.address,
          set: (address, word) => {
            view.setUint32(program.image.fileOffsetOf(address), word, little);
          },
          setPointer: (address, value) => {
            view.setBigUint64(program.image.fileOffsetOf(address), value, little);
          },
        });
        return verdictsOf(target, bytes);
      };
      const on = ({ set, site, stub }: Place): void => {
        set(site, branch(site, stub));
      };
      const empty = ({ set, stub }: Place): void => {
        for (let i = 0n; i < 16n; i += 4n) set(stub + i, 0);
      };
      const link = 1;

      test('P-OOL-2 a site that leads to its stub is right', () => {
        expect(changed(on)).toEqual({ ok: total });
      });

      const WRONG: readonly (readonly [string, string, (place: Place) => void])[] = [
        ['an empty stub of a site that is off', 'stub-wrong-target', empty],
        ['an empty stub of a site that is on', 'stub-wrong-target', (p) => (on(p), empty(p))],
        ['a way back one word off', 'stub-wrong-target', (p) => p.set(p.stub + 12n, branch(p.stub + 12n, p.site + 8n))],
        [
          'the way back of another',
          'stub-wrong-target',
          (p) => p.set(p.stub + 12n, branch(p.stub + 12n, p.otherSite + 4n)),
        ],
        ['the stub of another', 'stub-wrong-target', (p) => p.set(p.site, branch(p.site, p.otherStub))],
        ['bl in place of b', 'wrong-bytes', (p) => p.set(p.site, branch(p.site, p.stub) | link)],
        [
          'bl of the entry itself',
          'wrong-bytes',
          (p) => p.set(p.site, branch(p.site, at(p.program, 'ftrace_caller')) | link),
        ],
        ['other bytes at the site', 'wrong-bytes', (p) => p.set(p.site, 0x1234_5678)],
        ['no mflr', 'stub-wrong-target', (p) => p.set(p.stub, 0x6000_0000)],
        ['no mtlr', 'stub-wrong-target', (p) => p.set(p.stub + 8n, 0x6000_0000)],
        [
          'a call of something else',
          'stub-wrong-target',
          (p) => p.set(p.stub + 4n, branch(p.stub + 4n, p.otherSite) | link),
        ],
        ['ops that are nothing', 'stub-wrong-target', (p) => p.setPointer(p.stub - 8n, 0n)],
        ['ops that are code', 'stub-wrong-target', (p) => p.setPointer(p.stub - 8n, p.site)],
      ];
      test.each(WRONG)('P-OOL-7 %s: %s', (_name, verdict, change) => {
        expect(changed(change)).toEqual({ ok: total - 1, [verdict]: 1 });
      });

      test('P-OOL-7 an empty island: every site whose stub calls it', () => {
        const verdicts = changed(({ program, set }) => {
          set(at(program, 'ftrace_tramp_text'), 0);
        });
        expect(verdicts).toEqual({ ok: total - FUNCTIONS.g, 'stub-wrong-target': FUNCTIONS.g });
      });

      test.each([
        ['ftrace_ool_stub_inittext', FUNCTIONS.g - 1, { 'stub-wrong-target': 1, 'out-of-range': 1 }],
        ['ftrace_ool_stub_inittext', FUNCTIONS.g + 1, { 'stub-wrong-target': 1 }],
        ['ftrace_ool_stub_text_end', 0, { 'out-of-range': 4 }],
      ] as const)('P-OOL-6 P-OOL-7 %s counts %d stubs', (symbol, count, wrong) => {
        const bytes = kernels.plain.slice();
        const { program } = open(target, bytes);
        const offset = program.image.fileOffsetOf(at(program, `${symbol}_count`));
        new DataView(bytes.buffer).setUint32(offset, count, target.arch.target.dataEndian === 'little');
        const bad = Object.values(wrong).reduce<number>((sum, each) => sum + each, 0);
        expect(verdictsOf(target, bytes)).toEqual({ ok: total - bad, ...wrong });
      });
    });
  },
);
