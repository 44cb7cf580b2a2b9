/**
 * x86-64 site shapes: bytes, relocations, reach, changes. What compilers emit is in
 * arch-x86-compilers.test.ts.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { SiteReading, SiteSource, SiteView, WritableState } from '../src/machine/sites.js';
import { x86_64 } from '../src/arch-x86/index.js';
import { encodeBranch5, nopsOf, x86Mcount } from '../src/arch-x86/sites.js';
import { asChange, FakeView, type FakeViewSpec, fromHex } from './support/fake-view.js';

const R_64 = 1;
const R_PC32 = 2;
const R_PLT32 = 4;
const R_GOTPCREL = 9;
const R_GOTPCRELX = 41;

/**
 * As the program does: the first shape that recognises the bytes, else the first that calls them
 * foreign.
 */
function readSite(view: SiteView, source: SiteSource): SiteReading | null {
  let fallback: SiteReading | null = null;
  for (const shape of x86_64.siteShapes) {
    if (!shape.sources.includes(source)) continue;
    const reading = shape.read(view, source);
    if (reading && reading.state !== 'foreign') return reading;
    fallback ??= reading;
  }
  return fallback;
}

function view(code: string, more: Partial<FakeViewSpec> = {}): FakeView {
  return new FakeView({ code: fromHex(code), endian: 'little', ...more });
}

/** A relocatable site at offset 0 with one relocation. */
function relocatable(code: string, at: number, type: number, symbolName: string, addend: bigint): FakeView {
  return view(code, { relocations: new Map([[at, { type, symbolName, addend }]]) });
}

/** A linked site; `mcount` and `tracer` are addresses. */
const MCOUNT = 0x40_2345n;
const TRACER = 0x40_3000n;
function linked(code: string, base = 0x40_1000n, more: Partial<FakeViewSpec> = {}): FakeView {
  return view(code, {
    relocatable: false,
    base,
    callee: (address) => (address === MCOUNT ? 'mcount' : address === TRACER ? 'tracer' : 'other'),
    ...more,
  });
}

function summary(reading: SiteReading | null): unknown {
  return reading === null
    ? null
    : [reading.shape.name, reading.state, reading.form, reading.ipDelta, reading.sizeBytes];
}

describe('X-ENC-1 encodings', () => {
  test('call displacement vectors of the specification', () => {
    expect(encodeBranch5(0xe8, 0x40_1000n, 0x40_2345n)).toEqual(fromHex('e840130000'));
    expect(encodeBranch5(0xe8, 0x40_1000n, 0x40_0000n)).toEqual(fromHex('e8fbefffff'));
    expect(encodeBranch5(0xe9, 0x1_009en, 0x5000n)).toEqual(fromHex('e95d4fffff'));
  });

  test('recommended nops by length', () => {
    expect(nopsOf(5)).toEqual(fromHex('0f1f440000'));
    expect(nopsOf(6)).toEqual(fromHex('660f1f440000'));
    expect(nopsOf(13)).toEqual(fromHex('660f1f8400000000000f1f4000'));
    expect(nopsOf(0)).toEqual(new Uint8Array(0));
  });

  test('X-ENC-1 the site nop is this one instruction only; other nops of five bytes are foreign', () => {
    expect(summary(readSite(linked('0f1f440000'), 'mcount-table'))).toEqual(['x86-64.call5', 'nop', 'nop5', 0, 5]);
    for (const other of ['0f1f440008', '9090909090', '66669066 90', '0f1f4000 90', '660f1f4000']) {
      const reading = readSite(linked(other), 'mcount-table');
      expect([other, reading?.state]).toEqual([other, 'foreign']);
      expect(reading?.expected).toEqual(fromHex('0f1f440000'));
    }
    expect(readSite(linked('3e8d742600'), 'mcount-table')?.state).toBe('foreign');
  });
});

describe('X-SITE-1 shapes', () => {
  test.each([
    // code, relocation offset, type, symbol, addend, reading
    ['e800000000', 1, R_PLT32, '__fentry__', -4n, ['x86-64.call5', 'compiled', 'call', 0, 5]],
    ['e800000000', 1, R_PC32, 'mcount', -4n, ['x86-64.call5', 'compiled', 'call', 0, 5]],
    ['e800000000', 1, R_PLT32, 'my_entry', -4n, ['x86-64.call5', 'call', 'named', 0, 5]],
    ['ff1500000000', 2, R_GOTPCRELX, '__fentry__', -4n, ['x86-64.call6', 'compiled', 'got', 0, 6]],
    ['ff1500000000', 2, R_GOTPCREL, 'mcount', -4n, ['x86-64.call6', 'compiled', 'got', 0, 6]],
    ['67e800000000', 2, R_PLT32, 'mcount', -4n, ['x86-64.call6', 'compiled', 'addr32', 0, 6]],
    ['ff1500000000', 2, R_GOTPCRELX, 'my_entry', -4n, ['x86-64.call6', 'call', 'named', 0, 6]],
    ['49ba000000000000000041ffd2', 2, R_64, '__fentry__', 0n, ['x86-64.call-abs64', 'compiled', 'r10', 0, 13]],
    ['48b80000000000000000ffd0', 2, R_64, 'mcount', 0n, ['x86-64.call-abs64', 'compiled', 'rax', 0, 12]],
  ] as const)('relocatable %s with its relocation', (code, at, type, symbol, addend, expected) => {
    const reading = readSite(relocatable(code, at, type, symbol, addend), 'mcount-table');
    expect(summary(reading)).toEqual(expected);
    expect(reading?.relocationDeltas).toEqual([at]);
    expect(reading?.target).toBeNull();
  });

  test.each([
    ['no relocation', view('e800000000')],
    ['wrong type', relocatable('e800000000', 1, R_GOTPCRELX, 'mcount', -4n)],
    ['wrong addend', relocatable('e800000000', 1, R_PLT32, 'mcount', 0n)],
    ['a field that is not zero', relocatable('e801000000', 1, R_PLT32, 'mcount', -4n)],
    ['a nop with the call relocation', relocatable('0f1f440000', 1, R_PLT32, 'mcount', -4n)],
    ['a six-byte nop with the call relocation', relocatable('660f1f440000', 2, R_GOTPCRELX, 'mcount', -4n)],
    ['a six-byte call without relocation', view('ff1500000000')],
    ['a movabs with another relocation', relocatable('49ba000000000000000041ffd2', 2, R_PLT32, 'mcount', 0n)],
    ['push %rbp', view('554889e5e8')],
    ['a section that ends', view('e80000')],
  ])('F-2 foreign: %s', (_what, site) => {
    const reading = readSite(site, 'mcount-table');
    expect(reading?.state).toBe('foreign');
    expect(reading?.reason).toMatch(/./);
    expect(reading?.expected?.length).toBeGreaterThan(0);
    for (const kind of ['nop', 'init'] as const) {
      expect(reading?.shape.write(reading, { kind }, site)).toMatchObject({ refused: 'unsupported' });
    }
  });

  test.each([
    ['e840130000', MCOUNT, ['x86-64.call5', 'compiled', 'call', 0, 5]],
    ['e8fb1f0000', TRACER, ['x86-64.call5', 'call', 'call', 0, 5]],
    ['e8fbefffff', 0x40_0000n, ['x86-64.call5', 'call', 'call', 0, 5]],
    ['67e83f130000', MCOUNT, ['x86-64.call6', 'compiled', 'addr32', 0, 6]],
    ['ff153f130000', MCOUNT, ['x86-64.call6', 'compiled', 'got', 0, 6]],
    ['67e8fa1f0000', TRACER, ['x86-64.call6', 'call', 'addr32', 0, 6]],
    ['49ba452340000000000041ffd2', MCOUNT, ['x86-64.call-abs64', 'compiled', 'r10', 0, 13]],
    ['48b80030400000000000ffd0', TRACER, ['x86-64.call-abs64', 'call', 'rax', 0, 12]],
  ] as const)('linked %s leads to %s', (code, target, expected) => {
    for (const source of ['mcount-table', 'call'] as const) {
      const reading = readSite(linked(code), source);
      expect(summary(reading)).toEqual(expected);
      expect(reading?.target).toBe(target);
    }
  });

  test('nested function: the call between push %r10 and pop %r10 alone is the site', () => {
    const site = relocatable('4152e800000000415a', 3, R_PLT32, '__fentry__', -4n).at(2);
    expect(summary(readSite(site, 'mcount-table'))).toEqual(['x86-64.call5', 'compiled', 'call', 0, 5]);
  });
});

describe('X-SITE-2 pads of -fpatchable-function-entry', () => {
  const pads16 = '90'.repeat(16);
  const pads11 = '90'.repeat(11);
  test.each([
    // what, code, anchor, function starts, [state, form, ipDelta, size]
    ['gcc 5', '9090909090c3', 0, [0], ['compiled', 'nops', 0, 5]],
    ['gcc 5 behind endbr64', 'f30f1efa9090909090c3', 4, [0], ['compiled', 'nops', 0, 5]],
    ['gcc 16,11', `${pads16}c3`, 0, [11], ['compiled', 'nops', 11, 5]],
    ['gcc 16,11 with endbr64', `${pads11}f30f1efa9090909090c3`, 0, [11], ['compiled', 'nops', 15, 5]],
    ['gcc 16', `${pads16}c3`, 0, [0], ['compiled', 'nops', 0, 5]],
    ['clang 5', '0f1f440008c3', 0, [0], ['compiled', 'long-nop', 0, 5]],
    ['clang 6', '660f1f440008c3', 0, [0], ['compiled', 'long-nop', 0, 6]],
    ['clang 7', '0f1f8000020000c3', 0, [0], ['compiled', 'long-nop', 0, 7]],
    ['clang 8', '0f1f840000020000c3', 0, [0], ['compiled', 'long-nop', 0, 8]],
    ['clang 9', '660f1f840000020000c3', 0, [0], ['compiled', 'long-nop', 0, 9]],
    ['clang 10', '2e660f1f840000020000c3', 0, [0], ['compiled', 'long-nop', 0, 10]],
    ['clang 11', '2e660f1f84000002000090c3', 0, [0], ['compiled', 'long-nop', 0, 10]],
    ['clang 16,11', `${pads11}0f1f440008c3`, 0, [11], ['compiled', 'long-nop', 11, 5]],
    ['clang 16,11 with endbr64', `${pads11}f30f1efa0f1f440008c3`, 0, [11], ['compiled', 'long-nop', 15, 5]],
    ['init form', '0f1f440000c3', 0, [0], ['nop', 'nop5', 0, 5]],
    ['with a symbol for the pad itself', `${pads11}9090909090c3`, 0, [0, 11], ['compiled', 'nops', 11, 5]],
    ['gcc 2', '9090c3', 0, [0], ['foreign', 'small', 0, 5]],
    ['gcc 4,2', '90909090c3', 0, [2], ['foreign', 'small', 2, 5]],
    ['clang 2', '6690c3c3c3', 0, [0], ['foreign', 'small', 0, 5]],
    ['clang 4', '0f1f4008c3', 0, [0], ['foreign', 'small', 0, 5]],
    ['16,16', `${pads16}554889e5`, 0, [16], ['foreign', 'before', 16, 5]],
    ['16,16 with endbr64', `${pads16}f30f1efa554889e5`, 0, [16], ['foreign', 'before', 20, 5]],
    ['16,16 with a symbol for the pad', `${pads16}554889e5`, 0, [0, 16], ['foreign', 'before', 16, 5]],
    ['no function symbol', '9090909090c3', 0, [], ['foreign', 'unplaced', 0, 5]],
    ['no nops at all', '554889e5c3', 0, [0], ['foreign', 'bytes', 0, 5]],
  ] as const)('%s', (_what, code, anchor, functions, expected) => {
    for (const spec of [{}, { relocatable: false, base: 0x40_1000n }]) {
      const site = view(code, { functions, ...spec }).at(anchor);
      expect(summary(readSite(site, 'patchable-table'))).toEqual(['x86-64.patchable-5', ...expected]);
    }
  });

  test('a pad too small says so, and is no wrong bytes', () => {
    const site = view('9090c3');
    const reading = readSite(site, 'patchable-table');
    expect(reading).toMatchObject({ fault: 'unsupported', reason: 'cannot hold a 5-byte call' });
    expect(readSite(view(`${pads16}55`, { functions: [16] }), 'patchable-table')).toMatchObject({
      fault: 'unsupported',
    });
  });

  test('a kernel with call padding: the profiling call behind the pad is not the pad’s', () => {
    const site = linked(`${pads16}e830130000`, 0x40_1000n, { functions: [16] });
    expect(readSite(site, 'patchable-table')).toMatchObject({ state: 'foreign', form: 'before' });
    const object = view(`${pads16}e800000000`, {
      functions: [16],
      relocations: new Map([[17, { type: R_PLT32, symbolName: '__fentry__', addend: -4n }]]),
    });
    expect(readSite(object, 'patchable-table')).toMatchObject({ state: 'foreign', form: 'before' });
  });

  test('a call behind a pad before the symbol is the site’s only when it leads to a tracer', () => {
    const spec = { functions: [11] };
    const enabled = linked(`${pads11}e8f01f0000c3`, 0x40_1000n, spec);
    expect(summary(readSite(enabled, 'patchable-table'))).toEqual(['x86-64.patchable-5', 'call', 'call', 11, 5]);
    const body = linked(`${pads11}e8f01e0000c3`, 0x40_1000n, spec);
    expect(readSite(body, 'patchable-table')).toMatchObject({ state: 'foreign', form: 'before', fault: 'unsupported' });
    const object = view(`${pads11}e800000000c3`, {
      ...spec,
      relocations: new Map([[12, { type: R_PLT32, symbolName: 'mid', addend: -4n }]]),
    });
    expect(readSite(object, 'patchable-table')).toMatchObject({ state: 'foreign', form: 'before' });
  });

  test('C-INIT-2 nops of the compiler are disabled already; init writes the site nop, the rest of a long nop as nops', () => {
    const site = linked('2e660f1f840000020000c3');
    const reading = readSite(site, 'patchable-table')!;
    expect(reading.shape.write(reading, { kind: 'nop' }, site)).toEqual({
      stores: [],
      neutralise: [],
      rule: 'C-INIT-2',
      alike: true,
    });
    site.apply(asChange(reading.shape.write(reading, { kind: 'init' }, site)));
    expect(site.code).toEqual(fromHex('0f1f4400000f1f440000c3'));
    expect(readSite(site, 'patchable-table')?.state).toBe('nop');
  });

  test('a call in a nop of six bytes leaves no sixth byte behind', () => {
    const site = linked('660f1f440008c3');
    const reading = readSite(site, 'patchable-table')!;
    site.apply(asChange(reading.shape.write(reading, { kind: 'call', target: TRACER }, site)));
    expect(site.code).toEqual(fromHex('e8fb1f0000 90 c3'));
  });
});

describe('changes', () => {
  test('F-2 nop of a relocatable call writes the nop and neutralises the relocation', () => {
    const site = relocatable('e800000000', 1, R_PLT32, '__fentry__', -4n);
    const reading = readSite(site, 'mcount-table')!;
    const change = asChange(reading.shape.write(reading, { kind: 'nop' }, site));
    expect(change).toEqual({
      stores: [{ delta: 0, before: fromHex('e800000000'), after: fromHex('0f1f440000') }],
      neutralise: [1],
      rule: 'X-ENC-1',
      alike: true,
    });
    site.apply(change);
    expect(summary(readSite(site, 'mcount-table'))).toEqual(['x86-64.call5', 'nop', 'nop5', 0, 5]);
  });

  test('calls in a relocatable file are refused', () => {
    const site = relocatable('e800000000', 1, R_PLT32, '__fentry__', -4n);
    const reading = readSite(site, 'mcount-table')!;
    expect(reading.shape.write(reading, { kind: 'call', target: 0n }, site)).toMatchObject({
      refused: 'not-applicable',
    });
  });

  test.each([
    ['0f1f440000', 'mcount-table', -0x7fff_fffbn, 0x8000_0004n],
    ['9090909090', 'patchable-table', -0x7fff_fffbn, 0x8000_0004n],
    ['660f1f440000', 'mcount-table', -0x7fff_fffan, 0x8000_0005n],
  ] as const)('reach of %s (%s) is exact at both ends', (code, source, min, max) => {
    const base = 0xffff_ffff_0000_0000n - 0x7000_0000n;
    for (const [distance, fits] of [
      [min, true],
      [min - 1n, false],
      [max, true],
      [max + 1n, false],
    ] as const) {
      const site = linked(code, base);
      const reading = readSite(site, source)!;
      const result = reading.shape.write(reading, { kind: 'call', target: base + distance }, site);
      if (!fits) expect(result).toMatchObject({ refused: 'out-of-range' });
      else {
        site.apply(asChange(result));
        expect(readSite(site, source)?.target).toBe(base + distance);
      }
    }
  });

  const shapes = [
    ['e840130000', 'mcount-table'],
    ['67e83f130000', 'mcount-table'],
    ['ff153f130000', 'mcount-table'],
    ['49ba452340000000000041ffd2', 'mcount-table'],
    ['48b84523400000000000ffd0', 'mcount-table'],
    ['9090909090', 'patchable-table'],
    ['0f1f440008', 'patchable-table'],
    ['660f1f440008', 'patchable-table'],
    ['2e660f1f840000020000', 'patchable-table'],
  ] as const;

  test('reading what write stored gives the state that was asked, over any sequence of changes', () => {
    const state = fc.oneof(
      fc.constant<WritableState>({ kind: 'nop' }),
      fc.constant<WritableState>({ kind: 'init' }),
      fc
        .bigInt({ min: 0x1000n, max: 0x7000_0000n })
        .map((target): WritableState => ({ kind: 'call', target: target === MCOUNT ? TRACER : target })),
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...shapes),
        fc.array(state, { minLength: 1, maxLength: 6 }),
        ([code, source], states) => {
          const site = linked(`${code}c3cccccccc`);
          const length = site.code.length;
          for (const to of states) {
            const before = readSite(site, source)!;
            site.apply(asChange(before.shape.write(before, to, site)));
            const after = readSite(site, source)!;
            expect(after.shape).toBe(before.shape);
            if (to.kind === 'call') expect([after.state, after.target]).toEqual(['call', to.target]);
            else
              expect([source === 'patchable-table' && to.kind === 'nop' ? 'compiled' : 'nop', 'nop']).toContain(
                after.state,
              );
            // A second time there is nothing to do.
            expect(asChange(after.shape.write(after, to, site)).stores).toEqual([]);
          }
          expect([...site.code.subarray(length - 5)]).toEqual([0xc3, 0xcc, 0xcc, 0xcc, 0xcc]);
        },
      ),
      { seed: 8664, numRuns: 500 },
    );
  });

  test('read takes any bytes and never accepts what it would not write back', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 0, maxLength: 24 }), fc.boolean(), (code, inFile) => {
        const site = new FakeView({ code, endian: 'little', base: 0x40_1000n, relocatable: inFile });
        for (const source of ['mcount-table', 'patchable-table'] as const) {
          const reading = readSite(site, source);
          expect(reading).not.toBeNull();
          if (reading!.state === 'foreign') expect(reading!.expected).toBeDefined();
          else expect(reading!.startDelta + reading!.sizeBytes).toBeLessThanOrEqual(code.length);
        }
      }),
      { seed: 864, numRuns: 2000 },
    );
  });
});

describe('M-REC-5 findCalls', () => {
  const address = 0x40_1000n;
  test('finds the four call forms at instruction starts only', () => {
    // push; mov; call; an e8 inside a movabs; call *slot; addr32 call; movabs r10 + call; movabs
    // rax + call; jmp
    const code = fromHex(
      '55 4889e5 e83c130000 48b9 e832130000e8e8e8 ff15 28130000 67e8 20130000' +
        '49ba 4523400000000000 41ffd2 48b8 4523400000000000 ffd0 e900000000',
    );
    const asked: bigint[] = [];
    const found = x86Mcount.findCalls(code, 0, code.length, address, (target) => {
      asked.push(target);
      return target === MCOUNT;
    });
    expect(found).toEqual([4, 31, 44]);
    // What is asked: the call, the slot, the relaxed call, the two absolute ones; never the e8
    // inside the movabs.
    expect(asked).toEqual([0x40_2345n, 0x40_2341n, 0x40_233fn, MCOUNT, MCOUNT]);
  });

  test('M-REC-5 relocation offset to first byte of the call', () => {
    expect([R_PLT32, R_PC32, R_GOTPCRELX, R_GOTPCREL, R_64].map((type) => x86Mcount.callRelocations.get(type))).toEqual(
      [-1, -1, -2, -2, -2],
    );
  });
});
