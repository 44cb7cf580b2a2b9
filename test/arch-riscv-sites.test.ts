/** RISC-V pairs, site shapes over plain bytes, call search and stub forms. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { riscv64 } from '../src/arch-riscv/index.js';
import { decodeAt, formatPlain, RA, T0 } from '../src/arch-riscv/isa.js';
import {
  decodePair,
  encodePair,
  fixedAuipcReaches,
  highPart,
  lowPart,
  pairReach,
  riscvMcount,
  riscvSiteShapes,
} from '../src/arch-riscv/sites.js';
import { riscvStubForms, writeFarLiteral, writeModulePlt, writeThunk } from '../src/arch-riscv/stubs.js';
import type { SiteReading, SiteSource, WritableState } from '../src/machine/sites.js';
import type { AddressReader } from '../src/machine/stubs.js';
import { asChange, FakeView, type FakeViewSpec, fromHex, fromWords } from './support/fake-view.js';

const SEED = { seed: 30, numRuns: 500 };

/** R-ENC-1: offset, auipc t0, jalr t0. */
const R_ENC_1: readonly (readonly [bigint, number, number])[] = [
  [0x0n, 0x0000_0297, 0x0002_82e7],
  [0x7fen, 0x0000_0297, 0x7fe2_82e7],
  [0x800n, 0x0000_1297, 0x8002_82e7],
  [-0x800n, 0x0000_0297, 0x8002_82e7],
  [-0x802n, 0xffff_f297, 0x7fe2_82e7],
  [0x1234_5678n, 0x1234_5297, 0x6782_82e7],
  [0x7fff_f7fen, 0x7fff_f297, 0x7fe2_82e7],
  [-0x8000_0800n, 0x8000_0297, 0x8002_82e7],
  [0x1700n, 0x0000_1297, 0x7002_82e7],
  [0x1900n, 0x0000_2297, 0x9002_82e7],
];

const even = fc.bigInt({ min: pairReach.min / 2n, max: pairReach.max / 2n }).map((half) => 2n * half);

describe('RISC-V pair', () => {
  test.each(R_ENC_1)('R-ENC-1: offset %p', (offset, auipc, jalr) => {
    expect(encodePair(T0, offset)).toEqual([auipc, jalr]);
    expect(decodePair(auipc, jalr)).toBe(offset);
    // The rule as it is written: high = (off & fffff000) + (off & 800 ? 1000 : 0), low = off & fff.
    const high = (offset & 0xffff_f000n) + (offset & 0x800n ? 0x1000n : 0n);
    expect(BigInt.asUintN(32, highPart(offset))).toBe(BigInt.asUintN(32, high));
    expect(BigInt.asUintN(12, BigInt(lowPart(offset)))).toBe(offset & 0xfffn);
  });

  test('R-ENC-1: the two ends of the reach with ra, as assembled', () => {
    expect(encodePair(RA, 0x7fff_f7fen)).toEqual([0x7fff_f097, 0x7fe0_80e7]);
    expect(encodePair(RA, -0x8000_0800n)).toEqual([0x8000_0097, 0x8000_80e7]);
  });

  test.each([0x7fff_f800n, 0x8000_0000n, -0x8000_0802n, 1n << 40n, -(1n << 63n)])(
    'R-ENC-1: offset %p is refused before anything is written',
    (offset) => {
      expect(() => encodePair(T0, offset)).toThrow(expect.objectContaining({ code: 'branch-out-of-range' }));
    },
  );

  test('R-ENC-3: odd offsets are refused', () => {
    expect(() => encodePair(T0, 1n)).toThrow(expect.objectContaining({ code: 'branch-out-of-range' }));
    expect(() => encodePair(T0, 0x7fff_f7ffn)).toThrow(expect.objectContaining({ code: 'branch-out-of-range' }));
  });

  test('R-ENC-1: split and decode are inverse over the whole reach', () => {
    fc.assert(
      fc.property(even, fc.constantFrom(RA, T0), (offset, register) => {
        const [first, second] = encodePair(register, offset);
        expect(decodePair(first, second)).toBe(offset);
        expect(highPart(offset) + BigInt(lowPart(offset))).toBe(offset);
        const code = fromWords([first, second], 'little');
        expect(decodeAt(code, 0)?.operands['rd']).toBe(register);
        expect(decodeAt(code, 4)?.operands).toMatchObject({ rd: register, rs1: register, imm: lowPart(offset) });
      }),
      SEED,
    );
  });

  test('T-RV-24, R-MOD-2: distance does not tell whether a fixed auipc reaches', () => {
    const [entry] = encodePair(T0, 0x1700n);
    expect(fixedAuipcReaches(entry, 0n, 0x1700n)).toBe(true);
    // 0x200 away, within the kernel's distance test of 0x7ff, and needing the next upper part.
    expect(fixedAuipcReaches(entry, 0n, 0x1900n)).toBe(false);
    expect(fixedAuipcReaches(entry, 0n, 0x17fen)).toBe(true);
    expect(fixedAuipcReaches(entry, 0n, 0x1800n)).toBe(false);
    expect(fixedAuipcReaches(entry, 0n, 0x800n)).toBe(true);
    expect(fixedAuipcReaches(entry, 0n, 0x7fen)).toBe(false);
    expect(fixedAuipcReaches(entry, 0n, 0x1701n)).toBe(false);
    expect(fixedAuipcReaches(entry, 0n, 0x1_0000_1700n)).toBe(false);
  });

  test('R-MOD-2: the predicate says true exactly when the encoded auipc is the same', () => {
    fc.assert(
      fc.property(even, fc.bigInt({ min: -0x1000n, max: 0x1000n }), (offset, more) => {
        const target = offset + 2n * more;
        const [auipc] = encodePair(T0, offset);
        let same = false;
        if (target >= pairReach.min && target <= pairReach.max) same = encodePair(T0, target)[0] === auipc;
        expect(fixedAuipcReaches(auipc, 0x1000n, 0x1000n + target)).toBe(same);
      }),
      SEED,
    );
  });
});

// ------------------------------------------------------------------------------------------ shapes

function readWith(view: FakeView, source: SiteSource): SiteReading | null {
  for (const shape of riscvSiteShapes) {
    if (!shape.sources.includes(source)) continue;
    const reading = shape.read(view, source);
    if (reading) return reading;
  }
  return null;
}

function view(hex: string, more: Partial<FakeViewSpec> = {}): FakeView {
  return new FakeView({ code: fromHex(hex), endian: 'little', ...more });
}

const C8 = '0100 0100 0100 0100';
const N4 = '13000000';
const RET = '8280';
const call = (symbolName: string, type = 19): { type: number; symbolName: string } => ({ type, symbolName });
const linked = {
  relocatable: false,
  base: 0x1_0000n,
  callee: (a: bigint) => (a === 0x2_0000n ? 'mcount' : 'other'),
} as const;

interface Case {
  readonly name: string;
  readonly hex: string;
  readonly at?: number;
  readonly source?: SiteSource;
  readonly spec?: Partial<FakeViewSpec>;
  readonly expected: Partial<SiteReading> & { readonly shape?: never; readonly shapeName?: string };
}

const CASES: readonly Case[] = [
  {
    name: 'R-SITE-1: four c.nops are the compiled form',
    hex: C8 + RET,
    expected: {
      shapeName: 'riscv64.patchable-8',
      state: 'compiled',
      form: 'c.nops',
      ipDelta: 0,
      startDelta: 0,
      sizeBytes: 8,
    },
  },
  {
    name: 'R-SITE-1: two words of nop are the disabled form',
    hex: N4 + N4 + RET,
    expected: { shapeName: 'riscv64.patchable-8', state: 'nop', form: 'nops', sizeBytes: 8 },
  },
  {
    name: 'R-SITE-1: a static-branch nop behind the site is not swallowed',
    hex: C8 + N4 + RET,
    expected: { state: 'compiled', form: 'c.nops', sizeBytes: 8 },
  },
  {
    name: 'R-SITE-1: a fifth c.nop belongs to the body',
    hex: C8 + '0100' + N4 + N4 + RET,
    expected: { state: 'compiled', form: 'c.nops', sizeBytes: 8 },
  },
  {
    name: 'R-SITE-1: a third word of nop belongs to the body',
    hex: N4 + N4 + N4 + RET,
    expected: { state: 'nop', form: 'nops', sizeBytes: 8 },
  },
  {
    name: 'a site at 2 modulo 4',
    hex: RET + C8 + RET,
    at: 2,
    spec: { functions: [2] },
    expected: { state: 'compiled', ipDelta: 0, sizeBytes: 8 },
  },
  {
    name: 'T-RV-21: 8 units with C are 16 bytes, and the first 8 are the site',
    hex: C8 + C8 + RET,
    expected: { state: 'compiled', form: 'c.nops', sizeBytes: 8 },
  },
  {
    name: 'R-SITE-2: 8,4 with C: the table names the nops in front of the function',
    hex: C8 + C8 + RET,
    spec: { functions: [8] },
    expected: { state: 'compiled', ipDelta: 8, startDelta: 0, sizeBytes: 16 },
  },
  {
    name: 'R-SITE-2: 7,3 with C',
    hex: '010001000100' + C8 + RET,
    spec: { functions: [6] },
    expected: { state: 'compiled', ipDelta: 6, sizeBytes: 14 },
  },
  {
    name: 'R-SITE-2: 8,4 without C: sixteen bytes in front',
    hex: N4.repeat(8) + '67800000',
    spec: { functions: [16] },
    expected: { state: 'nop', ipDelta: 16, sizeBytes: 24 },
  },
  {
    name: 'body of an overridden weak function: no symbol, the next function does not own it',
    hex: C8 + RET + C8 + RET,
    spec: { functions: [10] },
    expected: { state: 'compiled', ipDelta: 0, sizeBytes: 8 },
  },
  {
    name: 'patchable 2 with C holds no pair',
    hex: '01000100' + '411106e4' + RET,
    expected: { state: 'foreign', fault: 'unsupported', startDelta: 0, sizeBytes: 8 },
  },
  {
    name: 'patchable 4,2 with C holds no pair behind the symbol',
    hex: C8 + '411106e4' + RET,
    spec: { functions: [4] },
    expected: { state: 'foreign', fault: 'unsupported', ipDelta: 4, startDelta: 4 },
  },
  {
    name: 'R-SITE-1: c.nops and a word of nop are no compiled form',
    hex: '01000100' + N4 + RET,
    expected: { state: 'foreign', fault: 'unsupported' },
  },
  {
    name: 'patchable 3 with C at the end of a section',
    hex: '010001000100',
    expected: { state: 'foreign', fault: 'unsupported' },
  },
  {
    name: 'the section ends inside the site',
    hex: '411106e4',
    expected: { state: 'foreign', reason: 'the section ends inside the site' },
  },
  { name: 'other bytes', hex: '411106e422e02a84', expected: { state: 'foreign' } },
  {
    name: 'a call through ra at a function entry',
    hex: '97000000e7800000',
    spec: linked,
    expected: { state: 'foreign' },
  },
  {
    name: 'a relocation on the nops',
    hex: C8 + RET,
    spec: { relocations: new Map([[4, call('foo')]]) },
    expected: { state: 'foreign' },
  },
  {
    name: 'G2 on, linked',
    hex: '97020000e7820280',
    spec: linked,
    expected: { shapeName: 'riscv64.patchable-8', state: 'call', form: 't0-pair', target: 0xf800n, ipDelta: 0 },
  },
  {
    name: 'F-2: G2 on in a relocatable file',
    hex: '97020000e7820200',
    spec: { relocations: new Map([[0, call('ftrace_caller')]]) },
    expected: { state: 'call', form: 't0-pair', target: null, relocationDeltas: [0] },
  },
  {
    name: 'F-2: G2 on without its relocation',
    hex: '97020000e7820200',
    expected: { state: 'foreign' },
  },
  {
    name: 'F-2: G2 on with fields under the relocation',
    hex: '97120000e7820200',
    spec: { relocations: new Map([[0, call('ftrace_caller')]]) },
    expected: { state: 'foreign' },
  },
  {
    name: 'R-SITE-3: G1 on counts from ip + 4',
    hex: '233c11fe' + '97000000' + 'e7800000' + '833081ff',
    spec: linked,
    expected: {
      shapeName: 'riscv64.patchable-16',
      state: 'call',
      form: 'g1',
      target: 0x1_0004n,
      ipDelta: 0,
      sizeBytes: 16,
    },
  },
  {
    name: 'the six parcels proposed in 2020',
    hex: '611106e0' + '97000000' + 'e7800000' + '82602101',
    spec: linked,
    expected: { shapeName: 'riscv64.patchable-16', state: 'call', form: 'g1-2020', target: 0x1_0004n, sizeBytes: 16 },
  },
  {
    name: 'R-SITE-2: G3 off: ip is the second word',
    hex: '97120000' + N4 + RET,
    spec: linked,
    expected: { shapeName: 'riscv64.fixed-auipc', state: 'nop', form: 'auipc-nop', ipDelta: 4, sizeBytes: 8 },
  },
  {
    name: 'R-SITE-2: G3c off: ip is 12 behind the table address',
    hex: '8877665544332211' + '97120000' + N4 + RET,
    spec: { ...linked, functions: [8] },
    expected: {
      shapeName: 'riscv64.fixed-auipc',
      state: 'nop',
      form: 'auipc-nop',
      ipDelta: 12,
      startDelta: 0,
      sizeBytes: 16,
    },
  },
  {
    name: 'R-SITE-2: G3c on',
    hex: '8877665544332211' + '97120000' + 'e7820270' + RET,
    spec: { ...linked, functions: [8] },
    expected: { shapeName: 'riscv64.fixed-auipc', state: 'call', form: 'fixed-pair', ipDelta: 12, target: 0x1_1708n },
  },
  {
    name: 'G3 off in a relocatable file keeps PCREL_HI20',
    hex: '97020000' + N4,
    spec: { relocations: new Map([[0, call('ftrace_caller', 23)]]) },
    expected: { shapeName: 'riscv64.fixed-auipc', state: 'nop', ipDelta: 4 },
  },
  {
    name: 'G3 on in a relocatable file',
    hex: '97020000e7820200',
    spec: {
      relocations: new Map([
        [0, call('ftrace_caller', 23)],
        [4, call('.L0', 24)],
      ]),
    },
    expected: { shapeName: 'riscv64.fixed-auipc', state: 'call', form: 'fixed-pair', relocationDeltas: [0, 4] },
  },
  {
    name: 'G3 off with a call relocation left over',
    hex: '97020000' + N4,
    spec: { relocations: new Map([[0, call('ftrace_caller')]]) },
    expected: { shapeName: 'riscv64.fixed-auipc', state: 'foreign' },
  },
  {
    name: 'G0 as compiled',
    hex: '411106e4' + '97000000e7800000',
    at: 4,
    source: 'call',
    spec: { relocations: new Map([[4, call('_mcount')]]) },
    expected: {
      shapeName: 'riscv64.mcount-pair',
      state: 'compiled',
      form: 'call',
      relocationDeltas: [0],
      sizeBytes: 8,
      target: null,
    },
  },
  {
    name: 'G0 as compiled, deprecated CALL',
    hex: '97000000e7800000',
    source: 'call',
    spec: { relocations: new Map([[0, call('_mcount', 18)]]) },
    expected: { state: 'compiled' },
  },
  {
    name: 'G0 with fields under the relocation',
    hex: '97100000e7800000',
    source: 'call',
    spec: { relocations: new Map([[0, call('_mcount')]]) },
    expected: { shapeName: 'riscv64.mcount-pair', state: 'foreign' },
  },
  {
    name: 'G0 without its relocation',
    hex: '97000000e7800000',
    source: 'mcount-table',
    expected: { state: 'foreign' },
  },
  {
    name: 'G0 nops with the relocation left over',
    hex: '411106e4' + N4 + N4,
    at: 4,
    source: 'mcount-table',
    spec: { relocations: new Map([[4, call('_mcount')]]) },
    expected: { shapeName: 'riscv64.mcount-pair', state: 'foreign' },
  },
  {
    name: 'G0 disabled in a relocatable file: the relocation is NONE',
    hex: '411106e4' + N4 + N4,
    at: 4,
    source: 'mcount-table',
    expected: { shapeName: 'riscv64.mcount-pair', state: 'nop', form: 'nops' },
  },
  {
    name: 'G0 disabled, relaxed: the store of ra stands in front',
    hex: '411106e4' + '0685' + N4 + RET,
    at: 6,
    source: 'mcount-table',
    spec: { ...linked, functions: [0] },
    expected: { shapeName: 'riscv64.mcount-jal', state: 'nop', form: 'nop', sizeBytes: 4 },
  },
  {
    name: 'G0 disabled without C: sd ra in front, other stores between',
    hex: '130101ff' + '23341100' + '23308100' + '13040500' + N4 + N4,
    at: 16,
    source: 'mcount-table',
    spec: { ...linked, functions: [] },
    expected: { shapeName: 'riscv64.mcount-pair', state: 'nop' },
  },
  {
    name: 'G0 linked, calls _mcount',
    hex: '97000100e7800000',
    source: 'call',
    spec: linked,
    expected: { shapeName: 'riscv64.mcount-pair', state: 'compiled', target: 0x2_0000n },
  },
  {
    name: 'G0 linked, calls something else',
    hex: '97000200e7800000',
    source: 'mcount-table',
    spec: linked,
    expected: { shapeName: 'riscv64.mcount-pair', state: 'call', form: 'ra-pair', target: 0x3_0000n },
  },
];

describe('RISC-V site shapes', () => {
  test.each(CASES.map((each) => [each.name, each] as const))('%s', (_, each) => {
    const reading = readWith(view(each.hex, each.spec).at(each.at ?? 0), each.source ?? 'patchable-table');
    const { shapeName, ...rest } = each.expected;
    expect(reading).toMatchObject(rest);
    if (shapeName !== undefined) expect(reading?.shape.name).toBe(shapeName);
    if (reading?.state === 'foreign') expect(reading.expected?.length).toBeGreaterThan(0);
  });

  test('a tail call of _mcount (auipc t1; jr t1) is no site', () => {
    const tail = view('17030000' + '67000300', { relocations: new Map([[0, call('_mcount')]]) });
    expect(readWith(tail, 'call')).toBeNull();
    expect(readWith(tail, 'mcount-table')).toBeNull();
  });

  test('entry nops of a patchable function are no disabled -pg call, in a stripped file either', () => {
    const stripped = { ...linked, functions: [] };
    // Behind a return, at the start of the code, and behind an epilogue with a tail call.
    for (const front of [RET, '67800000', '', 'a260 4101 6ff0dfff', '411106e4 a260 4101 8280']) {
      const site = view(front + N4 + N4 + RET, stripped).at(fromHex(front).length);
      expect(readWith(site, 'mcount-table')).toBeNull();
    }
    // Symbols decide where there are some.
    expect(readWith(view('06e4' + N4 + N4, { ...linked, functions: [2] }).at(2), 'mcount-table')).toBeNull();
  });

  test('a relaxed call of -pg', () => {
    // jal ra,.+0x10000 at 0x10000
    const site = view('ef000100' + RET, {
      ...linked,
      functions: [],
      callee: (a) => (a === 0x2_0000n ? 'mcount' : 'other'),
    });
    expect(formatPlain(decodeAt(site.code, 0)!, 0x1_0000n)).toBe('jal ra,0x20000');
    const reading = readWith(site, 'call')!;
    expect(reading).toMatchObject({ state: 'compiled', form: 'jal', target: 0x2_0000n, sizeBytes: 4 });
    site.apply(asChange(reading.shape.write(reading, { kind: 'nop' }, site)));
    expect(site.code.subarray(0, 4)).toEqual(fromHex(N4));
    const off = readWith(site, 'call')!;
    expect(off).toMatchObject({ state: 'nop', form: 'nop' });
    site.apply(asChange(off.shape.write(off, { kind: 'call', target: 0x1_0000n + 0xf_fffen }, site)));
    expect(readWith(site, 'call')).toMatchObject({ state: 'call', target: 0x1_0000n + 0xf_fffen });
    const far = { kind: 'call', target: 0x1_0000n + 0x10_0000n } as const;
    expect(off.shape.write(off, far, site)).toMatchObject({ refused: 'out-of-range' });
  });

  test('R-SITE-1: init rewrites c.nops to two words, nop leaves them', () => {
    const site = view(C8 + RET);
    const reading = readWith(site, 'patchable-table')!;
    expect(asChange(reading.shape.write(reading, { kind: 'nop' }, site))).toEqual({
      stores: [],
      neutralise: [],
      rule: 'C-INIT-2',
    });
    site.apply(asChange(reading.shape.write(reading, { kind: 'init' }, site)));
    expect(site.code).toEqual(fromHex(N4 + N4 + RET));
    expect(readWith(site, 'patchable-table')).toMatchObject({ state: 'nop', form: 'nops' });
  });

  test('T-RV-21, 8,4: only the eight bytes behind the symbol change', () => {
    const site = view(C8 + C8 + C8 + RET, { functions: [8] });
    const reading = readWith(site, 'patchable-table')!;
    site.apply(asChange(reading.shape.write(reading, { kind: 'init' }, site)));
    expect(site.code).toEqual(fromHex(C8 + N4 + N4 + C8 + RET));
    expect(readWith(site, 'patchable-table')).toMatchObject({ state: 'nop', ipDelta: 8 });
  });

  test('F-2: nop of a -pg call takes its relocation along', () => {
    const site = view('411106e4' + '97000000e7800000', { relocations: new Map([[4, call('_mcount')]]) }).at(4);
    const reading = readWith(site, 'call')!;
    const change = asChange(reading.shape.write(reading, { kind: 'nop' }, site));
    expect(change.neutralise).toEqual([0]);
    site.apply(change);
    expect(site.code).toEqual(fromHex('411106e4' + N4 + N4));
    expect(readWith(site, 'mcount-table')).toMatchObject({ state: 'nop' });
  });

  test('a call in a relocatable file is refused: it needs a relocation', () => {
    const site = view(C8 + RET);
    const reading = readWith(site, 'patchable-table')!;
    expect(reading.shape.write(reading, { kind: 'call', target: 0n }, site)).toMatchObject({
      refused: 'not-applicable',
    });
  });

  test('a foreign site is never written', () => {
    const site = view('01000100' + '411106e4');
    const reading = readWith(site, 'patchable-table')!;
    for (const to of [{ kind: 'nop' }, { kind: 'init' }, { kind: 'call', target: 0n }] as const) {
      expect(reading.shape.write(reading, to, site)).toMatchObject({ refused: 'unsupported' });
    }
  });

  test('R-MOD-2, T-RV-24: a fixed site takes a target of its page and refuses the next', () => {
    const site = view('97120000' + N4 + RET, linked);
    const reading = readWith(site, 'patchable-table')!;
    const near = reading.shape.write(reading, { kind: 'call', target: 0x1_1700n }, site);
    const change = asChange(near);
    // One word changes, the auipc stays.
    expect(change.stores).toHaveLength(1);
    expect(change.stores[0]).toMatchObject({ delta: 4, after: fromHex('e7820270') });
    expect(reading.shape.write(reading, { kind: 'call', target: 0x1_1900n }, site)).toMatchObject({
      refused: 'out-of-range',
    });
  });

  test('the 2020 form can be switched off and is never written', () => {
    const site = view('611106e0' + '97000000' + 'e7800000' + '82602101', linked);
    const reading = readWith(site, 'patchable-table')!;
    expect(reading.shape.write(reading, { kind: 'call', target: 0x1_0000n }, site)).toMatchObject({
      refused: 'unsupported',
    });
    site.apply(asChange(reading.shape.write(reading, { kind: 'nop' }, site)));
    expect(site.code).toEqual(fromHex(N4.repeat(4)));
  });

  /** One start of each shape that can be written in a linked file. */
  const STARTS: readonly (readonly [string, string, SiteSource, number])[] = [
    ['c.nops', C8 + RET, 'patchable-table', 0],
    ['nops', N4 + N4 + RET, 'patchable-table', 0],
    ['8,4', C8 + C8 + RET, 'patchable-table', 8],
    ['g1', '233c11fe' + '97000000' + 'e7800000' + '833081ff', 'patchable-table', 0],
    ['-pg', '97000100e7800000', 'call', 99],
  ];
  test.each(STARTS)('read of write gives the asked state, at every alignment (%s)', (_, code, source, start) => {
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(
            fc.constantFrom<WritableState>({ kind: 'nop' }, { kind: 'init' }),
            even.map((target): WritableState => ({ kind: 'call', target })),
          ),
          { minLength: 1, maxLength: 5 },
        ),
        fc.integer({ min: 0, max: 7 }),
        (steps, shift) => {
          const base = 0x4_0000_0000n + 2n * BigInt(shift);
          const site = view(code, { ...linked, base, functions: start === 99 ? [] : [start] });
          for (const step of steps) {
            const reading = readWith(site, source)!;
            const to: WritableState =
              step.kind === 'call' ? { kind: 'call', target: base + BigInt(reading.ipDelta) + step.target } : step;
            const written = reading.shape.write(reading, to, site);
            if ('refused' in written) {
              // G1 counts from ip + 4, so the far ends of the interval are out of its reach.
              expect(written.refused).toBe('out-of-range');
              continue;
            }
            site.apply(written);
            const after = readWith(site, source)!;
            if (to.kind === 'call')
              expect(after).toMatchObject({ state: 'call', target: BigInt.asUintN(64, to.target) });
            else if (to.kind === 'init') expect(after.state).toBe('nop');
            else expect(['nop', 'compiled']).toContain(after.state);
            // Asking for what is there changes nothing.
            expect(asChange(after.shape.write(after, to, site)).stores).toEqual([]);
          }
        },
      ),
      { seed: 31, numRuns: 100 },
    );
  });
});

describe('RISC-V call search', () => {
  const isTarget = (address: bigint): boolean => address === 0x2_0000n;

  test('steps by instruction length and finds pairs and jal at any parcel', () => {
    const [auipc, jalr] = encodePair(RA, 0x2_0000n - 0x1_0006n);
    const code = new Uint8Array(40);
    code.set(fromHex('0111' + N4), 0);
    code.set(fromWords([auipc, jalr], 'little'), 6);
    code.set(fromHex('0100'), 14);
    // jal ra,0x20000 at 0x10010, and a jal elsewhere.
    code.set(fromHex('eff0 0f7f'), 16);
    code.set(fromHex('ef000000'), 20);
    const address = 0x1_0000n;
    const jal = decodeAt(code, 16)!;
    const target = address + 16n + BigInt(jal.operands['off']!);
    const found = riscvMcount.findCalls(code, 0, 40, address, (a) => isTarget(a) || a === target);
    expect(found).toEqual([6, 16]);
  });

  test('a pair inside other instructions is not seen', () => {
    // lui a0 whose upper parcel and what follows would be an auipc ra when read two bytes off.
    const code = fromHex('37 05 97 00 00 00 e7 80 00 00 8280');
    expect(riscvMcount.findCalls(code, 0, code.length, 0n, () => true)).toEqual([]);
    expect(riscvMcount.findCalls(code, 2, code.length, 0n, () => true)).toEqual([2]);
  });

  test('tail calls, calls through t0 and split pairs are no sites', () => {
    const code = fromHex('17030000 67000300 97020000 e7820200 97000000 01 00 e7800000 6f000000');
    expect(riscvMcount.findCalls(code, 0, code.length, 0n, () => true)).toEqual([]);
  });

  test('never reads past the end', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 20 }), fc.nat(20), (code, end) => {
        const stop = Math.min(end, code.length);
        for (const at of riscvMcount.findCalls(code, 0, stop, 0n, () => true)) expect(at + 4).toBeLessThanOrEqual(stop);
      }),
      SEED,
    );
  });
});

// ------------------------------------------------------------------------------------------- stubs

/** Guest memory out of pieces. */
function memory(pieces: readonly (readonly [bigint, Uint8Array])[]): AddressReader {
  const u8 = (address: bigint): number => {
    for (const [start, bytes] of pieces) {
      if (address >= start && address < start + BigInt(bytes.length)) return bytes[Number(address - start)]!;
    }
    return -1;
  };
  const read = (address: bigint, size: number): bigint | null => {
    let value = 0n;
    for (let i = 0; i < size; i++) {
      const byte = u8(address + BigInt(i));
      if (byte < 0) return null;
      value |= BigInt(byte) << BigInt(8 * i);
    }
    return value;
  };
  return { u8, u32: (address) => Number(read(address, 4) ?? -1n), u64: (address) => read(address, 8) };
}

const quad = (value: bigint): Uint8Array => {
  const out = new Uint8Array(8);
  for (let i = 0; i < 8; i++) out[i] = Number((value >> BigInt(8 * i)) & 0xffn);
  return out;
};

function targetOf(code: AddressReader, address: bigint): [string, bigint | null] | null {
  for (const form of riscvStubForms) {
    const target = form.readTarget(code, address, null);
    if (target !== null) return [form.name, target];
  }
  return null;
}

describe('RISC-V stubs', () => {
  // As GNU ld writes an entry: auipc t3,0x2; ld t3,-1000(t3); jalr t1,t3; nop
  const PLT = fromHex('172e0000 033e8ec1 67030e00 13000000');

  test('PLT entry with a filled slot', () => {
    const slot = 0x1_0000n + 0x2000n - 1000n;
    expect(
      targetOf(
        memory([
          [0x1_0000n, PLT],
          [slot, quad(0x4_5678n)],
        ]),
        0x1_0000n,
      ),
    ).toEqual(['riscv64.plt', 0x4_5678n]);
  });

  test('PLT entry whose slot is empty or leads back to the head of the PLT says nothing', () => {
    const slot = 0x1_0000n + 0x2000n - 1000n;
    expect(
      targetOf(
        memory([
          [0x1_0000n, PLT],
          [slot, quad(0n)],
        ]),
        0x1_0000n,
      ),
    ).toBeNull();
    const head = fromHex('97230000 3303c341 03be83ff');
    const lazy = memory([
      [0x1_0000n, PLT],
      [slot, quad(0x5_0000n)],
      [0x5_0000n, head],
    ]);
    expect(targetOf(lazy, 0x1_0000n)).toBeNull();
    expect(targetOf(memory([[0x1_0000n, PLT]]), 0x1_0000n)).toBeNull();
  });

  test('thunk: readTarget of writeThunk', () => {
    fc.assert(
      fc.property(even, (offset) => {
        const at = 0x1_0000_0000n;
        const code = memory([[at, fromWords(writeThunk(at, at + offset), 'little')]]);
        expect(targetOf(code, at)).toEqual(['riscv64.thunk', at + offset]);
      }),
      SEED,
    );
  });

  test('R-CO-1: far literal: its bytes', () => {
    const code = fromWords(writeFarLiteral(), 'little');
    expect(code).toEqual(fromHex('17030000 0333c300 67000300'));
    const at = 0x1_0004n;
    expect(
      targetOf(
        memory([
          [at, code],
          [at + 12n, quad(0xffff_ffff_8000_0000n)],
        ]),
        at,
      ),
    ).toEqual(['riscv64.far-literal', 0xffff_ffff_8000_0000n]);
  });

  test('module loader entry', () => {
    const at = 0x1_0000n;
    const slot = 0x1_8ff8n;
    const code = memory([
      [at, fromWords(writeModulePlt(at, slot), 'little')],
      [slot, quad(0x77n)],
    ]);
    expect(targetOf(code, at)).toEqual(['riscv64.plt-module', 0x77n]);
  });

  test('other code is no stub', () => {
    expect(targetOf(memory([[0n, fromHex(C8 + C8)]]), 0n)).toBeNull();
    expect(targetOf(memory([]), 0n)).toBeNull();
  });
});

test('the target', () => {
  expect(riscv64.target).toMatchObject({ id: 'riscv64', elfMachine: 243, codeAlignBytes: 2, wordBytes: 8 });
  expect(riscv64.abi.localEntryOffset(0x80)).toBe(0);
});
