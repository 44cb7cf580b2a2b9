/**
 * arm64 site shapes: every state on made-up bytes, then every form that compilers and linkers
 * really produce.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { CalleeKind, SiteReading, SiteSource, WritableState } from '../src/machine/sites.js';
import { arm64 } from '../src/arch-arm64/index.js';
import { encodeBl } from '../src/arch-arm64/isa.js';
import { literalAddress } from '../src/arch-arm64/sites.js';
import { FakeView, asChange, fromWords } from './support/fake-view.js';
import { times } from './support/long.js';
import { describeWith, run } from './support/tools.js';

const NOP = 0xd503_201f;
const MOV = 0xaa1e_03e9;
const BTI_C = 0xd503_245f;
const BTI_J = 0xd503_249f;
const BTI_JC = 0xd503_24df;
const BTI = 0xd503_241f;
const PACIASP = 0xd503_233f;
const RET = 0xd65f_03c0;
const STP = 0xa9be_7bfd;
const BL = 0x9400_0000;
const CALL26 = 283;
const JUMP26 = 282;
const ABS64 = 257;

interface Made {
  readonly words: readonly number[];
  readonly functions?: readonly number[];
  readonly base?: bigint;
  readonly linked?: boolean;
  readonly relocations?: readonly (readonly [number, number, string])[];
  readonly callee?: (address: bigint) => CalleeKind;
}

function viewOf(made: Made): FakeView {
  return new FakeView({
    code: fromWords(made.words, 'little'),
    endian: 'little',
    base: made.base ?? 0n,
    relocatable: !(made.linked ?? false),
    functions: made.functions ?? [],
    relocations: new Map((made.relocations ?? []).map(([at, type, symbolName]) => [at, { type, symbolName }])),
    ...(made.callee ? { callee: made.callee } : {}),
  });
}

function read(view: FakeView, source: SiteSource): SiteReading | null {
  for (const shape of arm64.siteShapes) {
    if (!shape.sources.includes(source)) continue;
    const reading = shape.read(view, source);
    if (reading) return reading;
  }
  return null;
}

/** What every shape says: no other may accept what one of them refuses. */
function readings(view: FakeView, source: SiteSource): SiteReading[] {
  return arm64.siteShapes
    .filter((shape) => shape.sources.includes(source))
    .map((shape) => shape.read(view, source))
    .filter((reading) => reading !== null);
}

function verdict(view: FakeView, source: SiteSource = 'patchable-table'): string {
  const reading = read(view, source);
  return reading === null
    ? 'null'
    : `${reading.shape.name} ${reading.state} ${reading.form} ip${reading.ipDelta >= 0 ? '+' : ''}${reading.ipDelta} ${reading.startDelta}..${reading.startDelta + reading.sizeBytes}`;
}

function words(view: FakeView): string[] {
  const out: string[] = [];
  for (let at = 0; at + 4 <= view.code.length; at += 4) {
    out.push(new DataView(view.code.buffer).getUint32(at, true).toString(16).padStart(8, '0'));
  }
  return out;
}

/** Applies a request and reads again. */
function bring(view: FakeView, to: WritableState, source: SiteSource = 'patchable-table'): SiteReading {
  const reading = read(view, source)!;
  view.apply(asChange(reading.shape.write(reading, to, view)));
  return read(view, source)!;
}

function refusal(view: FakeView, to: WritableState, source: SiteSource = 'patchable-table'): string {
  const reading = read(view, source)!;
  const result = reading.shape.write(reading, to, view);
  return 'refused' in result ? result.refused : `change ${result.rule}`;
}

describe('=2', () => {
  const linked = (more: readonly number[] = [PACIASP, RET]): FakeView =>
    viewOf({ words: [NOP, NOP, ...more], functions: [0], base: 0x40_0000n, linked: true }).at(0);

  test('A-SITE-1: the table names the first nop, ip is the second', () => {
    expect(verdict(linked())).toBe('arm64.patchable compiled nops ip+4 0..8');
  });

  test('A-SITE-1: the same behind a bti c', () => {
    const view = viewOf({ words: [BTI_C, NOP, NOP, PACIASP, RET], functions: [0] }).at(4);
    expect(verdict(view)).toBe('arm64.patchable compiled nops ip+4 0..8');
    // another function may follow at once: the landing pad at -4 decides
    const tight = viewOf({ words: [BTI_C, NOP, NOP, BTI_C, NOP, NOP, RET], functions: [0, 12] }).at(4);
    expect(verdict(tight)).toBe('arm64.patchable compiled nops ip+4 0..8');
  });

  test('C-INIT-2: nop on compiler nops is an empty change', () => {
    const view = linked();
    const before = words(view);
    const reading = read(view, 'patchable-table')!;
    expect(reading.shape.write(reading, { kind: 'nop' }, view)).toEqual({
      stores: [],
      neutralise: [],
      rule: 'C-INIT-2',
    });
    expect(words(view)).toEqual(before);
  });

  test('A-SITE-2: init writes mov x9,x30 and verifies the word at ip in the same store', () => {
    const view = linked();
    const reading = read(view, 'patchable-table')!;
    const change = asChange(reading.shape.write(reading, { kind: 'init' }, view));
    expect(change.rule).toBe('A-SITE-2');
    expect(change.stores).toEqual([
      { delta: 0, before: fromWords([NOP, NOP], 'little'), after: fromWords([MOV, NOP], 'little') },
    ]);
    view.apply(change);
    expect(verdict(view)).toBe('arm64.patchable nop init ip+4 0..8');
    expect(bring(view, { kind: 'init' }).state).toBe('nop');
  });

  test('A-SITE-3, A-MOD-4: on and off again toggles one word, the mov stays', () => {
    const view = linked();
    expect(bring(view, { kind: 'init' }).state).toBe('nop');
    const on = bring(view, { kind: 'call', target: 0x40_1000n });
    expect(on).toMatchObject({ state: 'call', target: 0x40_1000n, form: 'bl', relocationDeltas: [] });
    const other = bring(view, { kind: 'call', target: 0x3f_0000n });
    expect(other.target).toBe(0x3f_0000n);
    const reading = read(view, 'patchable-table')!;
    const change = asChange(reading.shape.write(reading, { kind: 'nop' }, view));
    expect(change.rule).toBe('A-MOD-4');
    expect(change.stores.map((each) => [each.delta, each.after.length])).toEqual([[4, 4]]);
    view.apply(change);
    expect(words(view).slice(0, 2)).toEqual(['aa1e03e9', 'd503201f']);
  });

  test('A-MOD-2: a call of the same target is an empty change', () => {
    const view = linked();
    bring(view, { kind: 'call', target: 0x40_1000n });
    expect(words(view).slice(0, 2)).toEqual(['aa1e03e9', '940003ff']);
    const reading = read(view, 'patchable-table')!;
    expect(asChange(reading.shape.write(reading, { kind: 'call', target: 0x40_1000n }, view)).stores).toEqual([]);
  });

  test('reach of bl from ip: last target in, next one refused', () => {
    const ip = 0x40_0004n;
    for (const [target, result] of [
      [ip + 0x7ff_fffcn, 'change A-SITE-2'],
      [ip + 0x800_0000n, 'out-of-range'],
      [ip - 0x800_0000n, 'change A-SITE-2'],
      [ip - 0x800_0004n, 'out-of-range'],
      [ip + 2n, 'out-of-range'],
    ] as const) {
      expect(refusal(linked(), { kind: 'call', target })).toBe(result);
    }
  });

  test('five nops: the first two are the site', () => {
    expect(verdict(linked([NOP, NOP, NOP, RET]))).toBe('arm64.patchable compiled nops ip+4 0..8');
  });

  test('one nop is too little', () => {
    const view = viewOf({ words: [NOP, RET, RET], functions: [0] }).at(0);
    const reading = read(view, 'patchable-table')!;
    expect(reading).toMatchObject({ state: 'foreign', reason: 'two nops are needed, there is one' });
    expect(reading.expected).toEqual(fromWords([NOP, NOP], 'little'));
    expect(refusal(view, { kind: 'nop' })).toBe('not-applicable');
    expect(refusal(view, { kind: 'init' })).toBe('not-applicable');
    expect(refusal(view, { kind: 'call', target: 0n })).toBe('not-applicable');
  });

  test('F-2: bytes and relocations of a relocatable file', () => {
    const make = (first: number, second: number, relocations: readonly (readonly [number, number, string])[]) =>
      viewOf({ words: [first, second, RET], functions: [0], relocations }).at(0);
    expect(verdict(make(NOP, NOP, []))).toBe('arm64.patchable compiled nops ip+4 0..8');
    expect(verdict(make(MOV, NOP, []))).toBe('arm64.patchable nop init ip+4 0..8');
    expect(verdict(make(MOV, BL, [[4, CALL26, 'ftrace_caller']]))).toBe('arm64.patchable call bl ip+4 0..8');
    // never accepted: a relocation on a nop, a call without one, another type, a field that is not
    // zero
    expect(read(make(NOP, NOP, [[4, CALL26, '_mcount']]), 'patchable-table')!.state).toBe('foreign');
    expect(read(make(NOP, NOP, [[0, CALL26, '_mcount']]), 'patchable-table')!.state).toBe('foreign');
    expect(read(make(MOV, BL, []), 'patchable-table')!.state).toBe('foreign');
    expect(read(make(MOV, BL, [[4, JUMP26, 'x']]), 'patchable-table')!.state).toBe('foreign');
    expect(read(make(MOV, BL + 1, [[4, CALL26, 'x']]), 'patchable-table')!.state).toBe('foreign');
    expect(read(make(NOP, BL, [[4, CALL26, 'x']]), 'patchable-table')!.state).toBe('foreign');
    const view = make(MOV, BL, [[4, CALL26, 'ftrace_caller']]);
    expect(refusal(view, { kind: 'call', target: 0n })).toBe('unsupported');
    expect(bring(view, { kind: 'nop' })).toMatchObject({ state: 'nop', form: 'init', relocationDeltas: [] });
    expect(view.relocation(4)).toBeNull();
  });

  test('any other word is foreign, with what was expected', () => {
    fc.assert(
      fc.property(fc.nat(0xffff_ffff), fc.nat(0xffff_ffff), (first, second) => {
        const view = viewOf({ words: [first, second, RET], functions: [0], base: 0x1000n, linked: true }).at(0);
        const known =
          (first === NOP && second === NOP) || (first === MOV && (second === NOP || second >>> 26 === 0x25));
        const reading = read(view, 'patchable-table')!;
        expect(reading.state === 'foreign').toBe(!known);
        if (!known) expect(reading.reason!.length).toBeGreaterThan(0);
      }),
      {
        seed: 40,
        numRuns: times(500, 200),
        examples: [
          [NOP, BL],
          [MOV, RET],
          [BL, NOP],
          [NOP, NOP],
          [MOV, BL + 5],
        ],
      },
    );
  });

  test('a site at the end of its section is foreign, not an error', () => {
    expect(read(viewOf({ words: [NOP], functions: [0] }).at(0), 'patchable-table')!.state).toBe('foreign');
    expect(read(viewOf({ words: [NOP], functions: [0] }).at(4), 'patchable-table')!.state).toBe('foreign');
    expect(read(viewOf({ words: [NOP], functions: [0] }).at(-8), 'patchable-table')!.state).toBe('foreign');
  });
});

describe('=4,2', () => {
  const plain = (base = 0x40_0000n): FakeView =>
    viewOf({ words: [NOP, NOP, NOP, NOP, PACIASP, RET], functions: [8], base, linked: true }).at(0);
  const padded = (bti: number): FakeView =>
    viewOf({ words: [NOP, NOP, bti, NOP, NOP, PACIASP, RET], functions: [8], base: 0x40_0000n, linked: true }).at(0);

  test('A-SITE-1: a function symbol eight bytes behind the slot, ip = a+12', () => {
    expect(verdict(plain())).toBe('arm64.call-ops compiled nops ip+12 0..16');
  });

  test('A-SITE-1: with any of the four landing pads ip = a+16', () => {
    for (const bti of [BTI, BTI_C, BTI_J, BTI_JC]) {
      expect(verdict(padded(bti))).toBe('arm64.call-ops compiled nops ip+16 0..20');
    }
  });

  test('A-SITE-1: a slot that is not 8-aligned is dropped with its reason', () => {
    const view = plain(0x40_0004n);
    expect(read(view, 'patchable-table')).toMatchObject({
      shape: { name: 'arm64.call-ops' },
      state: 'foreign',
      fault: 'misaligned',
      reason: 'A-SITE-1: the slot of =4,2 is not 8-aligned',
    });
    for (const to of [{ kind: 'nop' }, { kind: 'init' }, { kind: 'call', target: 0n }] as const) {
      expect(refusal(view, to)).toBe('not-applicable');
    }
  });

  test('A-SITE-2: init leaves the literal as two nops and says so', () => {
    const view = padded(BTI_C);
    const reading = read(view, 'patchable-table')!;
    const change = asChange(reading.shape.write(reading, { kind: 'init' }, view));
    expect(change.rule).toMatch(/^A-SITE-2, the ops literal stays/);
    view.apply(change);
    expect(words(view)).toEqual(['d503201f', 'd503201f', 'd503245f', 'aa1e03e9', 'd503201f', 'd503233f', 'd65f03c0']);
    expect(verdict(view)).toBe('arm64.call-ops nop init ip+16 0..20');
    expect(bring(view, { kind: 'call', target: 0x41_0000n })).toMatchObject({ state: 'call', target: 0x41_0000n });
    expect(bring(view, { kind: 'nop' })).toMatchObject({ state: 'nop', form: 'init' });
  });

  test('A-CO-1: the literal is at ip - 12 rounded down to 8, with and without a landing pad', () => {
    const lit = 0x40_0000n;
    expect(literalAddress(lit + 12n)).toBe(lit);
    expect(literalAddress(lit + 16n)).toBe(lit);
    for (const view of [plain(), padded(BTI_C)]) {
      const reading = read(view, 'patchable-table')!;
      expect(literalAddress(view.address + BigInt(reading.ipDelta))).toBe(view.address + BigInt(reading.startDelta));
    }
  });

  test('A-CO-1: an initialised site may carry any literal, a compiled one only nops', () => {
    const make = (...list: number[]): FakeView =>
      viewOf({ words: list, functions: [8], base: 0x1000n, linked: true }).at(0);
    expect(verdict(make(0x8100_1000, 0xffff_8000, MOV, NOP, RET))).toBe('arm64.call-ops nop init ip+12 0..16');
    expect(verdict(make(0x8100_1000, 0xffff_8000, BTI_C, MOV, BL, RET))).toBe('arm64.call-ops call bl ip+16 0..20');
    expect(read(make(0x8100_1000, 0xffff_8000, NOP, NOP, RET), 'patchable-table')!.reason).toMatch(/not initialised/);
  });

  test('F-2: an ABS64 on the literal is an ops pointer, anything else is foreign', () => {
    const make = (type: number, at: number): FakeView =>
      viewOf({ words: [0, 0, MOV, NOP, RET], functions: [8], relocations: [[at, type, 'ops']] }).at(0);
    expect(verdict(make(ABS64, 0))).toBe('arm64.call-ops nop init ip+12 0..16');
    expect(read(make(CALL26, 0), 'patchable-table')!.state).toBe('foreign');
    expect(read(make(ABS64, 4), 'patchable-table')!.state).toBe('foreign');
  });

  test('the first function of a section: its slot lies before every symbol', () => {
    const view = viewOf({ words: [NOP, NOP, NOP, NOP, RET], functions: [8] }).at(0);
    expect(verdict(view)).toBe('arm64.call-ops compiled nops ip+12 0..16');
  });

  test('a symbol that marks the start of a section does not hide the literal', () => {
    const marked = viewOf({
      words: [NOP, NOP, NOP, NOP, PACIASP, RET],
      functions: [0, 8],
      base: 0x1000n,
      linked: true,
    });
    for (const source of ['patchable-table', 'mcount-table'] as const) {
      expect(verdict(marked.at(0), source)).toBe('arm64.call-ops compiled nops ip+12 0..16');
    }
    // a function of two nops and a branch, then one without nops: =2
    const short = viewOf({ words: [NOP, NOP, STP, RET], functions: [0, 8], base: 0x1000n, linked: true });
    expect(verdict(short.at(0))).toBe('arm64.patchable compiled nops ip+4 0..8');
  });

  test('without symbols: a landing pad or an initialised pair decides, four nops do not', () => {
    const make = (...list: number[]): FakeView => viewOf({ words: list, functions: [] }).at(0);
    expect(verdict(make(NOP, NOP, BTI_C, NOP, NOP, RET))).toBe('arm64.call-ops compiled nops ip+16 0..20');
    expect(verdict(make(NOP, NOP, MOV, NOP, RET))).toBe('arm64.call-ops nop init ip+12 0..16');
    for (const source of ['patchable-table', 'mcount-table'] as const) {
      const undecided = make(NOP, NOP, NOP, NOP, RET);
      expect(readings(undecided, source).map((each) => [each.shape.name, each.form, each.fault])).toEqual([
        ['arm64.call-ops', 'unplaced', 'unsupported'],
      ]);
    }
    expect(verdict(make(NOP, NOP, PACIASP, RET))).toBe('arm64.patchable compiled nops ip+4 0..8');
    expect(verdict(make(NOP, NOP, NOP, RET))).toBe('arm64.patchable compiled nops ip+4 0..8');
  });
});

describe('-pg', () => {
  const MCOUNT = 0x41_0000n;
  const callee = (address: bigint): CalleeKind => (address === MCOUNT ? 'mcount' : 'other');
  const linked = (word: number, functions: readonly number[] = [0]): FakeView =>
    viewOf({ words: [STP, word, RET], functions, base: 0x40_0000n, linked: true, callee }).at(4);
  const bl = encodeBl(0x40_0004n, MCOUNT);

  test('M-REC-4: CALL26 to _mcount in a relocatable file', () => {
    const make = (word: number, type: number, name: string): FakeView =>
      viewOf({ words: [STP, word, RET], functions: [0], relocations: [[4, type, name]] }).at(4);
    for (const source of ['call', 'mcount-table'] as const) {
      expect(verdict(make(BL, CALL26, '_mcount'), source)).toBe('arm64.mcount compiled call ip+0 0..4');
      expect(verdict(make(BL, CALL26, 'ftrace_caller'), source)).toBe('arm64.mcount call bl ip+0 0..4');
    }
    expect(read(make(BL, CALL26, '_mcount'), 'call')!.relocationDeltas).toEqual([0]);
    // a tail call is no site; neither is a call with another relocation
    expect(verdict(make(0x1400_0000, JUMP26, '_mcount'), 'call')).toBe('null');
    expect(read(make(0x1400_0000, JUMP26, '_mcount'), 'mcount-table')!.state).toBe('foreign');
    expect(verdict(make(BL, ABS64, '_mcount'), 'call')).toBe('null');
    expect(read(make(NOP, CALL26, '_mcount'), 'mcount-table')!.reason).toMatch(/still has a relocation/);
  });

  test('F-2: nop replaces the word and drops the relocation', () => {
    const view = viewOf({ words: [STP, BL, RET], functions: [0], relocations: [[4, CALL26, '_mcount']] }).at(4);
    const after = bring(view, { kind: 'nop' }, 'mcount-table');
    expect(after).toMatchObject({ state: 'nop', form: 'nop', relocationDeltas: [] });
    expect(words(view)).toEqual(['a9be7bfd', 'd503201f', 'd65f03c0']);
    expect(view.relocation(0)).toBeNull();
    expect(refusal(view, { kind: 'call', target: 0n }, 'mcount-table')).toBe('unsupported');
  });

  test('linked: bl of the profiling entry, of another target, nop', () => {
    expect(verdict(linked(bl), 'call')).toBe('arm64.mcount compiled call ip+0 0..4');
    expect(read(linked(bl), 'call')!.target).toBe(MCOUNT);
    expect(verdict(linked(bl + 1), 'mcount-table')).toBe('arm64.mcount call bl ip+0 0..4');
    expect(verdict(linked(NOP), 'mcount-table')).toBe('arm64.mcount nop nop ip+0 0..4');
    expect(verdict(linked(RET), 'call')).toBe('null');
  });

  test('A-SITE-2: nop, call, nop in a linked file', () => {
    const view = linked(bl);
    expect(bring(view, { kind: 'init' }, 'call').state).toBe('nop');
    expect(bring(view, { kind: 'call', target: 0x40_2000n }, 'call')).toMatchObject({
      state: 'call',
      target: 0x40_2000n,
    });
    expect(bring(view, { kind: 'nop' }, 'call').state).toBe('nop');
    expect(bring(view, { kind: 'call', target: MCOUNT }, 'call').state).toBe('compiled');
    expect(words(view)[1]).toBe(bl.toString(16));
  });

  test('a nop in a table is a disabled call only behind a store of x30', () => {
    const nop = (before: readonly number[], functions: readonly number[]): string =>
      verdict(
        viewOf({ words: [...before, NOP, RET], functions, base: 0x1000n, linked: true }).at(4 * before.length),
        'mcount-table',
      );
    const disabled = 'arm64.mcount nop nop ip+0 0..4';
    expect(nop([STP], [0])).toBe(disabled);
    // stp x30, x19, [sp, #-32]!; str x30, [sp, #-16]!; stp x29, x30, [sp, #16] behind other words
    expect(nop([0xa9be_4ffe], [0])).toBe(disabled);
    expect(nop([0xf81f_0ffe], [0])).toBe(disabled);
    expect(nop([0xd100_83ff, 0xa901_7bfd, 0x9100_43fd], [0])).toBe(disabled);
    // behind a return, an x30 loaded back, the start of a function, the start of the section
    expect(nop([STP, RET], [0])).not.toBe(disabled);
    expect(nop([STP, 0xa8c2_7bfd], [0])).not.toBe(disabled);
    expect(nop([STP, 0x9100_03fd], [0, 4])).not.toBe(disabled);
    expect(nop([], [])).not.toBe(disabled);
  });

  test('a call right in front of the next function is not taken for =4,2', () => {
    // bl _mcount; bl abort; next function
    for (const word of [bl, NOP]) {
      const view = viewOf({
        words: [STP, word, BL + 64, STP, RET, RET],
        functions: [0, 12],
        base: 0x40_0000n,
        linked: true,
        callee,
      }).at(4);
      expect(read(view, 'mcount-table')!.shape.name).toBe('arm64.mcount');
      expect(read(view, 'mcount-table')!.state).toBe(word === NOP ? 'nop' : 'compiled');
    }
  });
});

describe('table of a kernel image (source mcount-table)', () => {
  test('patchable sites are found there too', () => {
    const pair = viewOf({ words: [NOP, NOP, PACIASP, RET], functions: [0], base: 0x1000n, linked: true }).at(0);
    expect(verdict(pair, 'mcount-table')).toBe('arm64.patchable compiled nops ip+4 0..8');
    const four = viewOf({ words: [NOP, NOP, NOP, NOP, RET], functions: [8], base: 0x1000n, linked: true }).at(0);
    expect(verdict(four, 'mcount-table')).toBe('arm64.call-ops compiled nops ip+12 0..16');
    const damaged = viewOf({ words: [NOP, NOP, NOP, RET, RET], functions: [8], base: 0x1000n, linked: true }).at(0);
    expect(read(damaged, 'mcount-table')).toMatchObject({ state: 'foreign', shape: { name: 'arm64.call-ops' } });
    const odd = viewOf({ words: [NOP, NOP, NOP, NOP, RET], functions: [8], base: 0x1004n, linked: true }).at(0);
    const broken = viewOf({ words: [RET, NOP, RET, PACIASP, RET], functions: [4], base: 0x1000n, linked: true }).at(4);
    for (const source of ['mcount-table', 'patchable-table'] as const) {
      for (const view of [damaged, odd, broken]) {
        expect(readings(view, source).map((each) => each.state)).toEqual(readings(view, source).map(() => 'foreign'));
      }
    }
  });

  test('an overridden weak body without a symbol keeps its two nops', () => {
    const weak = viewOf({ words: [NOP, NOP, PACIASP, RET], functions: [], base: 0x1000n, linked: true }).at(0);
    expect(verdict(weak, 'mcount-table')).toBe('arm64.patchable compiled nops ip+4 0..8');
  });
});

describe('read and write are inverses', () => {
  test('every reachable target, every form', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('pair', 'plain', 'bti', 'mcount'),
        fc.integer({ min: -0x200_0000, max: 0x1ff_ffff }),
        fc.array(fc.constantFrom('nop', 'init', 'call'), { minLength: 1, maxLength: 4 }),
        (form, steps, requests) => {
          const base = 0x1000_0000n;
          const made: Record<string, Made> = {
            pair: { words: [NOP, NOP, RET], functions: [0] },
            plain: { words: [NOP, NOP, NOP, NOP, RET], functions: [8] },
            bti: { words: [NOP, NOP, BTI_C, NOP, NOP, RET], functions: [8] },
            mcount: { words: [encodeBl(base, 0x1100_0000n), RET] },
          };
          const view = viewOf({
            ...made[form]!,
            base,
            linked: true,
            callee: (address) => (address === 0x1100_0000n ? 'mcount' : 'other'),
          }).at(0);
          const source = form === 'mcount' ? 'call' : 'patchable-table';
          const compiled = read(view, source)!;
          const target = base + BigInt(compiled.ipDelta) + BigInt(steps) * 4n;
          for (const kind of requests) {
            const before = read(view, source)!;
            const after = bring(view, kind === 'call' ? { kind, target } : { kind }, source);
            if (kind === 'call') expect(after.target).toBe(target);
            else if (kind === 'init' || before.state !== 'compiled') expect(after.state).toBe('nop');
            expect([after.ipDelta, after.sizeBytes]).toEqual([compiled.ipDelta, compiled.sizeBytes]);
          }
        },
      ),
      { seed: 40, numRuns: times(300, 150) },
    );
  });
});

describe('finding calls without a table', () => {
  test('bl words whose target is the entry, in order', () => {
    const base = 0x40_0000n;
    const code = fromWords(
      [encodeBl(base, 0x41_0000n), NOP, 0x1400_0000, encodeBl(base + 12n, 0x41_0000n), BL],
      'little',
    );
    const found = arm64.mcount.findCalls(code, 0, code.length, base, (address) => address === 0x41_0000n);
    expect(found).toEqual([0, 12]);
    expect(arm64.mcount.findCalls(code, 2, code.length, base, (address) => address === 0x41_0000n)).toEqual([12]);
    expect(arm64.mcount.findCalls(code, 0, 14, base, (address) => address === 0x41_0000n)).toEqual([0]);
  });
});

// ------------------------------------------------------------------------------ what tools produce

const SOURCE = `
extern void use(int *);
int counter;
static __attribute__((noinline)) int stat(int a) { int x[4] = { a }; use(x); counter++; return x[0]; }
int leaf(int a) { return a * 3 + 1; }
int both(int a) { return stat(a) + stat(a + 1); }
__attribute__((weak)) int weakling(int a) { return stat(a) - 1; }
int (*pointer)(int) = both;
void _start(void) { pointer(leaf(3)); for (;;) __asm__ volatile(""); }
__attribute__((no_instrument_function, patchable_function_entry(0))) void use(int *p) { counter += *p; }
`;
const ENTRY = '.text\n.globl _mcount\n.type _mcount,%function\n_mcount: ret\n.size _mcount, .-_mcount\n';

interface Symbol {
  readonly name: string;
  readonly value: bigint;
  readonly section: string;
  readonly kind: string;
}

/**
 * What the tests need of a file, read by binutils so that the expectation does not come from our
 * own reader.
 */
function inspect(path: string) {
  const sections = run('aarch64-linux-gnu-readelf', ['-SW', path])
    .toString()
    .split('\n')
    .map((line) => /^\s*\[\s*(\d+)\]\s+(\S+)\s+\S+\s+([0-9a-f]+)\s+([0-9a-f]+)\s+([0-9a-f]+)/.exec(line))
    .filter((match) => match !== null)
    .map((match) => ({
      index: match[1]!,
      name: match[2]!,
      address: BigInt(`0x${match[3]!}`),
      offset: Number.parseInt(match[4]!, 16),
      size: Number.parseInt(match[5]!, 16),
    }));
  const symbols: Symbol[] = run('aarch64-linux-gnu-readelf', ['-sW', path])
    .toString()
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter((columns) => /^\d+:$/.test(columns[0]!) && columns.length >= 7)
    .map((columns) => ({
      name: columns[7] ?? '',
      value: BigInt(`0x${columns[1]!}`),
      section: columns[6]!,
      kind: columns[3]!,
    }));
  const relocations: { section: string; offset: bigint; type: number; symbol: string; addend: bigint }[] = [];
  let section = '';
  for (const line of run('aarch64-linux-gnu-readelf', ['-rW', path]).toString().split('\n')) {
    const head = /^Relocation section '\.rela(\S*)'/.exec(line);
    if (head) section = head[1]!;
    const match = /^([0-9a-f]+)\s+([0-9a-f]+)\s+(R_\S+)\s+(?:[0-9a-f]+\s+(\S+)\s+([+-])\s+)?([0-9a-f]+)?/.exec(line);
    if (match) {
      relocations.push({
        section,
        offset: BigInt(`0x${match[1]!}`),
        type: Number(BigInt(`0x${match[2]!}`) & 0xffff_ffffn),
        symbol: match[4] ?? '',
        addend: BigInt(`0x${match[6] ?? '0'}`) * (match[5] === '-' ? -1n : 1n),
      });
    }
  }
  const bytes = new Uint8Array(readFileSync(path));
  return { sections, symbols, relocations, bytes };
}

type File = ReturnType<typeof inspect>;

function viewIn(file: File, name: string, relocatable: boolean): FakeView {
  const section = file.sections.find((each) => each.name === name)!;
  const base = relocatable ? 0n : section.address;
  const mcount = file.symbols.find((each) => each.name === '_mcount')?.value;
  const stubs = arm64.stubForms;
  const reader = {
    u8: (address: bigint) => file.bytes[section.offset + Number(address - base)] ?? -1,
    u32(address: bigint): number {
      const at = section.offset + Number(address - base);
      if (address < base || Number(address - base) + 4 > section.size) return -1;
      return new DataView(file.bytes.buffer).getUint32(at, true);
    },
    u64(address: bigint): bigint | null {
      const at = section.offset + Number(address - base);
      if (address < base || Number(address - base) + 8 > section.size) return null;
      return new DataView(file.bytes.buffer).getBigUint64(at, true);
    },
  };
  return new FakeView({
    code: file.bytes.subarray(section.offset, section.offset + section.size),
    endian: 'little',
    base,
    relocatable,
    functions: file.symbols
      .filter((each) => each.kind === 'FUNC' && each.section === section.index)
      .map((each) => Number(each.value - base)),
    relocations: new Map(
      file.relocations
        .filter((each) => each.section === name)
        .map((each) => [Number(each.offset), { type: each.type, symbolName: each.symbol }]),
    ),
    callee(address) {
      const through = stubs.map((each) => each.readTarget(reader, address, null)).find((each) => each !== null);
      return (through ?? address) === mcount ? 'mcount' : 'other';
    },
  });
}

/** Section and offset (or address) of each slot of the table of a file. */
function slots(file: File, relocatable: boolean): { readonly section: string; readonly at: bigint }[] {
  const tables = file.sections.filter((each) => each.name === '__patchable_function_entries');
  if (relocatable) {
    return file.relocations
      .filter((each) => each.section === '__patchable_function_entries')
      .map((each) => {
        const named = file.symbols.find((symbol) => symbol.name === each.symbol && symbol.kind !== 'SECTION');
        return { section: named ? '.text' : each.symbol, at: (named?.value ?? 0n) + each.addend };
      });
  }
  const view = new DataView(file.bytes.buffer);
  return tables.flatMap((table) =>
    Array.from({ length: table.size / 8 }, (_, i) => ({
      section: '.text',
      at: view.getBigUint64(table.offset + 8 * i, true),
    })),
  );
}

const folder = mkdtempSync(join(tmpdir(), 'a64-sites-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

const COMMON = [
  '-O2',
  '-ffreestanding',
  '-fno-builtin',
  '-fno-stack-protector',
  '-fno-pie',
  '-w',
  '-falign-functions=16',
];
const COMPILERS = {
  gcc: { tool: 'aarch64-linux-gnu-gcc', flags: [] },
  clang: { tool: 'clang', flags: ['--target=aarch64-linux-gnu'] },
} as const;
let serial = 0;

function compile(compiler: keyof typeof COMPILERS, flags: readonly string[], source = SOURCE, ending = 'c'): string {
  const path = join(folder, `f${serial++}`);
  writeFileSync(`${path}.${ending}`, source);
  const { tool, flags: own } = COMPILERS[compiler];
  run(tool, [...own, ...COMMON, ...flags, '-c', `${path}.${ending}`, '-o', `${path}.o`]);
  return `${path}.o`;
}

function link(linker: string, objects: readonly string[], ...more: readonly string[]): string {
  const path = join(folder, `p${serial++}`);
  run(linker, ['-static', '-o', path, ...more, ...objects]);
  return path;
}

const PATCHABLE: readonly (readonly [string, readonly string[], string, number])[] = [
  ['pfe=2', [], 'arm64.patchable compiled nops ip+4 0..8', 2],
  ['pfe=2', ['-mbranch-protection=pac-ret+leaf'], 'arm64.patchable compiled nops ip+4 0..8', 2],
  ['pfe=2', ['-mbranch-protection=standard'], 'arm64.patchable compiled nops ip+4 0..8', 2],
  ['pfe=2', ['-mbranch-protection=bti'], 'arm64.patchable compiled nops ip+4 0..8', 2],
  ['pfe=2', ['-fPIC'], 'arm64.patchable compiled nops ip+4 0..8', 2],
  ['pfe=5', [], 'arm64.patchable compiled nops ip+4 0..8', 5],
  ['pfe=4,2', [], 'arm64.call-ops compiled nops ip+12 0..16', 4],
  ['pfe=4,2', ['-mbranch-protection=standard'], 'arm64.call-ops compiled nops ip+(12|16) 0..(16|20)', 4],
  ['pfe=4,2', ['-mbranch-protection=bti'], 'arm64.call-ops compiled nops ip+(12|16) 0..(16|20)', 4],
];

for (const compiler of ['gcc', 'clang'] as const) {
  const tools = [COMPILERS[compiler].tool, 'aarch64-linux-gnu-readelf', 'aarch64-linux-gnu-ld', 'ld.lld'];
  describeWith(tools, `${compiler}: patchable entries`, () => {
    for (const [option, more, expected] of PATCHABLE) {
      const flags = [option.replace('pfe', '-fpatchable-function-entry'), ...more];
      test(`A-SITE-1: ${flags.join(' ')} in a .o and linked by bfd and lld`, () => {
        const pattern = new RegExp(`^${expected.replaceAll('+', '\\+')}$`);
        const object = compile(compiler, flags);
        const file = inspect(object);
        const places = slots(file, true);
        // stat, leaf, both, weakling, _start
        expect(places.length).toBe(5);
        for (const { section, at } of places) {
          const view = viewIn(file, section, true).at(Number(at));
          expect(verdict(view)).toMatch(pattern);
          expect(bring(view, { kind: 'init' }).state).toBe('nop');
        }
        for (const linker of ['aarch64-linux-gnu-ld', 'ld.lld']) {
          const program = inspect(link(linker, [object]));
          const linked = slots(program, false);
          expect(linked.length).toBe(5);
          for (const { at } of linked) {
            const base = program.sections.find((each) => each.name === '.text')!.address;
            const view = viewIn(program, '.text', false).at(Number(at - base));
            expect(verdict(view)).toMatch(pattern);
            const target = at + 0x1000n;
            expect(bring(view, { kind: 'call', target }).target).toBe(target);
          }
        }
      });
    }
  });

  describeWith(tools, `${compiler}: -pg`, () => {
    for (const more of [[], ['-fPIC'], ['-mbranch-protection=standard'], ['-mbranch-protection=bti'], ['-O0']]) {
      test(`M-REC-4: -pg ${more.join(' ')} in a .o and linked by bfd and lld`, () => {
        const object = compile(compiler, ['-pg', ...more]);
        const entry = compile('gcc', [], ENTRY, 'S');
        const file = inspect(object);
        const calls = file.relocations.filter((each) => each.symbol === '_mcount');

        expect(calls.map((each) => each.type)).toEqual(calls.map(() => CALL26));
        expect(calls.length).toBe(5);
        for (const each of calls) {
          const view = viewIn(file, each.section, true).at(Number(each.offset));
          expect(verdict(view, 'call')).toBe('arm64.mcount compiled call ip+0 0..4');
          expect(bring(view, { kind: 'nop' }, 'call').state).toBe('nop');
        }
        for (const linker of ['aarch64-linux-gnu-ld', 'ld.lld']) {
          const program = inspect(link(linker, [object, entry]));
          const text = program.sections.find((each) => each.name === '.text')!;
          const view = viewIn(program, '.text', false);
          const found = arm64.mcount.findCalls(
            view.code,
            0,
            text.size,
            text.address,
            (address) => view.callee(address) === 'mcount',
          );
          expect(found.length).toBe(5);
          for (const at of found) expect(verdict(view.at(at), 'call')).toBe('arm64.mcount compiled call ip+0 0..4');
        }
      });
    }

    test('a bl that reaches _mcount only through a veneer', () => {
      const object = compile(compiler, ['-pg']);
      const entry = compile('gcc', [], ENTRY.replace('.text', '.section .far,"ax",%progbits'), 'S');
      for (const linker of ['aarch64-linux-gnu-ld', 'ld.lld']) {
        const script = join(folder, 'far.ld');
        writeFileSync(
          script,
          'SECTIONS { . = 0x400000; .text : { *(.text .text.*) } . = 0x10000000; .far : { *(.far) } .data : { *(.data .bss COMMON) } }',
        );
        const program = inspect(link(linker, [object, entry], '-T', script));
        const text = program.sections.find((each) => each.name === '.text')!;
        const view = viewIn(program, '.text', false);
        const found = arm64.mcount.findCalls(
          view.code,
          0,
          text.size,
          text.address,
          (address) => view.callee(address) === 'mcount',
        );
        expect(found.length).toBe(5);
        for (const at of found) expect(verdict(view.at(at), 'call')).toBe('arm64.mcount compiled call ip+0 0..4');
      }
    });
  });
}

describeWith(['aarch64-linux-gnu-gcc', 'aarch64-linux-gnu-readelf'], 'alignment of =4,2', () => {
  test('A-CO-8, A-SITE-1: the second of two cold functions has a misaligned slot and is dropped', () => {
    const object = compile(
      'gcc',
      ['-fpatchable-function-entry=4,2', '-falign-functions=8'],
      'extern int g(int); __attribute__((cold)) int a(int x) { return g(x); }\n__attribute__((cold)) int b(int x) { return g(x) + 2; }\n',
    );
    const file = inspect(object);
    const readings = slots(file, true).map(({ section, at }) => ({
      section,
      at,
      reading: read(viewIn(file, section, true).at(Number(at)), 'patchable-table')!,
    }));
    expect(readings.length).toBe(2);
    for (const { section, at, reading } of readings) {
      expect(section).toBe('.text.unlikely');
      if (at % 8n === 0n) expect(reading.state).toBe('compiled');
      else expect(reading).toMatchObject({ state: 'foreign', reason: 'A-SITE-1: the slot of =4,2 is not 8-aligned' });
    }
    expect(readings.map((each) => each.reading.state).sort()).toEqual(['compiled', 'foreign']);
  });

  test('A-SITE-1: hand-written =4,2 functions with each landing pad (no kernel compiler emits them)', () => {
    const one = (name: string, pad: string): string => `
      .p2align 3
      .L${name}: nop
      nop
      .globl ${name}
      .type ${name}, %function
      ${name}: ${pad}
      nop
      nop
      paciasp
      ret
      .size ${name}, .-${name}
      .pushsection __patchable_function_entries,"awo",%progbits,.text
      .p2align 3
      .xword .L${name}
      .popsection`;
    const pads: readonly (readonly [string, string])[] = [
      ['f_c', 'bti c'],
      ['f_j', 'bti j'],
      ['f_jc', 'bti jc'],
      ['f_any', 'bti'],
      ['f_none', ''],
    ];
    const source = `.arch armv8.5-a\n.text\n${pads.map(([name, pad]) => one(name, pad)).join('\n')}\n`;
    const file = inspect(compile('gcc', ['-Wa,-march=armv8.5-a'], source, 'S'));
    const places = slots(file, true);
    expect(places.length).toBe(pads.length);
    const verdicts = places.map(({ at }) => verdict(viewIn(file, '.text', true).at(Number(at))));
    expect(verdicts).toEqual([
      ...Array.from({ length: 4 }, () => 'arm64.call-ops compiled nops ip+16 0..20'),
      'arm64.call-ops compiled nops ip+12 0..16',
    ]);
  });
});
