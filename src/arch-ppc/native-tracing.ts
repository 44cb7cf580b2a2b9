/** Programs of PowerPC that write their own trace: the runtime of native.S and runtime/native.c. */
import { reaches } from '../bits.js';
import { ByteView, concatBytes, wordBytes } from '../bytes.js';
import { gnuAttributes } from '../elf/gnu-attributes.js';
import { type AddressParts, holdsByParts } from '../machine/address-pairs.js';
import type { ElfImage } from '../elf/image.js';
import { elfV2Abi } from './abi.js';
import {
  type CounterStubs, type GraphStubs, type GraphTracing, type LongDoubles, muslSlots, type NativeTracing,
  type ThreadSlots, type ValuePlaces,
} from '../machine/native-tracing.js'; // prettier-ignore
import type { Target } from '../machine/target.js';
import type { Address, Endian } from '../units.js';

const BRANCH_REACH = { min: -0x200_0000n, max: 0x1ff_fffcn, alignBytes: 4 };
const B = 0x4800_0000;
const BL = 0x4800_0001;
const MFLR_R0 = 0x7c08_02a6;
const MTLR_R0 = 0x7c08_03a6;

/** Words of a stub, in the order of the picture in native-graph.S. */
const STUB = { bytes: 32, call: 8, hook: 12, kept: 20, mark: 0x7467_6674 } as const;
const BEQ_KEPT = 0x4182_000c;

/** B or BL; null: out of reach. */
function branch(opcode: number, from: Address, to: Address): number | null {
  if (!reaches(BRANCH_REACH, from, to)) return null;
  return (opcode | Number(BigInt.asUintN(26, to - from))) >>> 0;
}

function words(values: readonly (number | null)[], endian: Endian): Uint8Array | null {
  const out = new Uint8Array(4 * values.length);
  const view = new ByteView(out, endian);
  for (const [i, value] of values.entries()) {
    if (value === null) return null;
    view.insertU32(4 * i, value);
  }
  return out;
}

const graphStubs = (endian: Endian): GraphStubs => ({
  symbol: 'native_stubs',
  bytes: STUB.bytes,
  site: (stores, stub) => {
    // The call is the last word; mflr r0 in front of it stays, or is written as where it is called.
    const last = stores.at(-1)!;
    const body = last.address + BigInt(last.after.length);
    const both = words([MFLR_R0, branch(B, body - 4n, stub)], endian);
    if (both === null) return null;
    const start = body - BigInt(both.length);
    return {
      stores: stores.map(({ address, after }) => both.slice(Number(address - start)).slice(0, after.length)),
      body,
    };
  },
  names: ['elftrace_native_graph', 'native_return', 'native_spans'],
  make: (stub, body, [entry, leave, spans]) => {
    const at = (offset: number): Address => stub + BigInt(offset);
    return words(
      [
        branch(BL, stub, entry!),
        BEQ_KEPT,
        branch(BL, at(STUB.call), body),
        branch(B, at(STUB.hook), leave!),
        MTLR_R0,
        branch(B, at(STUB.kept), body),
        Number(BigInt.asUintN(32, spans! - at(STUB.hook))),
        STUB.mark,
      ],
      endian,
    );
  },
});

const LIS_R12 = 0x3d80_0000;
const ORI_R12_R12 = 0x618c_0000;
const NOP = 0x6000_0000;

/** `lis r12; ori r12; b entry` */
const counterStubs = (endian: Endian): CounterStubs => ({
  bytes: 16,
  make: (stub, place, entry) =>
    words([LIS_R12 + (place >>> 16), ORI_R12_R12 + (place & 0xffff), branch(B, stub + 8n, entry), NOP], endian),
});

const TOC = 2;
/** Where ELFv2 has a function's address at its beginning. */
const R12 = 12;

/**
 * `lis r, upper` or `addis r, r2, upper`, then `addi r, r, lower` or `ori`; from r2 `addi` alone;
 * `pla`. r2 is set at a function's entry, by `lis` or from r12.
 */
const ADDRESSES: AddressParts = {
  step: 4,
  upper: (word, at) => {
    const [register, from, value] = [(word >>> 21) & 31, (word >>> 16) & 31, (word << 16) | 0];
    if (word >>> 26 !== 15) return null;
    if (from === 0) return { register, value };
    if (from === TOC) return { register, value, onBase: true };
    return from === R12 && register === TOC ? { register, value: at + value } : null;
  },
  lower: (word) => {
    const [target, source] = [(word >>> 21) & 31, (word >>> 16) & 31];
    if (word >>> 26 === 14 && source !== 0) return { register: source, add: (word << 16) >> 16 };
    return word >>> 26 === 24 ? { register: target, add: word & 0xffff } : null;
  },
  whole: (word, at, next) => {
    if ((word & 0xfffc_0000) !== 0x0610_0000 || next >>> 26 !== 14) return null;
    return at + ((word << 14) >> 14) * 0x1_0000 + (next & 0xffff);
  },
  base: TOC,
};

const graph = (endian: Endian): GraphTracing => ({
  runtime: 'native-graph',
  entry: 'elftrace_native_graph',
  stubs: graphStubs(endian),
  holds: holdsByParts(ADDRESSES, endian),
  shadowStacks: null,
});

/** Numbers of the first registers with arguments, of integers and of floating point. */
const FIRST_INTEGER = 3;
const FIRST_FLOAT = 1;

function placesOf(
  registers: readonly number[],
  floatRegisters: number,
  more: Pick<ValuePlaces, 'wordBytes' | 'isOneList' | 'aggregates' | 'hiddenResult'>,
): ValuePlaces {
  const floats = Array.from({ length: floatRegisters }, (_, i) => i);
  return {
    ...more,
    registers,
    result: registers[0]!,
    named: Object.fromEntries([
      ...registers.map((place, i) => [`r${FIRST_INTEGER + i}`, { kind: 'register' as const, place }] as const),
      ...floats.map((place) => [`f${FIRST_FLOAT + place}`, { kind: 'floating' as const, place }] as const),
    ]),
    floatRegisters,
    floatsBeyond: 'stack',
    longDoubles: null,
  };
}

/** r3 to r10 as native-page.h saves them. */
const SAVED_64 = [13, 12, 11, 10, 9, 8, 0, 1] as const;
const FLOATS_64 = 13;

/**
 * OpenPOWER ELFv2 ABI, 2.2.3 and 2.2.4: an argument has a word in the order of all. What is passed
 * of structures depends on what is in them; up to eight numbers of 16 bytes are returned in
 * registers.
 */
const VALUES_V2 = placesOf(SAVED_64, FLOATS_64, {
  wordBytes: 8,
  isOneList: true,
  aggregates: null,
  hiddenResult: { never: 16, always: 128 },
});

/** 64-bit PowerPC ELF ABI supplement, 3.2.3 and 3.2.4. */
const VALUES_V1 = placesOf(SAVED_64, FLOATS_64, {
  wordBytes: 8,
  isOneList: true,
  aggregates: null,
  hiddenResult: { never: 0, always: 0 },
});

/** System V ABI, PowerPC supplement, 3.2.3 and 3.2.4; registers as native32-page.h saves them. */
const VALUES_SYSV = placesOf([0, 1, 2, 3, 4, 5, 6, 7], 8, {
  wordBytes: 4,
  isOneList: false,
  aggregates: { above: 0, are: 'reference' },
  hiddenResult: { never: 0, always: 0 },
});

/** Tag_GNU_Power_ABI_FP, whose lowest bits are 1 for double precision or 0 where it is not said. */
const TAG_FLOAT = 4;
/** Its next two bits: `long double` is a pair of numbers of double precision. */
const LONG_DOUBLE = 12;
const IBM_LONG_DOUBLE = 4;
const PAIRS: LongDoubles = { format: 'pair', are: 'floating-pair', result: { kind: 'floating', place: 0 } };
/** Tag_GNU_Power_ABI_Struct_Return: in r3 and r4. */
const TAG_STRUCT_RETURN = 12;
const IN_REGISTERS = 1;

/** Without registers of floating point, or with single precision alone, none is looked at. */
const ofFloatAbi =
  (plain: ValuePlaces) =>
  (image: ElfImage): ValuePlaces | null => {
    const attributes = gnuAttributes(image);
    const float = attributes.get(TAG_FLOAT) ?? 0;
    if ((float & 3) > 1) return null;
    const values = (float & LONG_DOUBLE) === IBM_LONG_DOUBLE ? { ...plain, longDoubles: PAIRS } : plain;
    if (attributes.get(TAG_STRUCT_RETURN) !== IN_REGISTERS) return values;
    return { ...values, hiddenResult: { never: 2 * values.wordBytes, always: 2 * values.wordBytes } };
  };

/** mr REGISTER, 3; li 3, 0; blr: musl, __set_thread_area. */
const muslSetter = (register: number, endian: Endian): Uint8Array =>
  concatBytes([0x7c60_1b78 | (register << 16), 0x3860_0000, 0x4e80_0020].map((each) => wordBytes(each, endian)));

const GLIBC_V2: ThreadSlots = {
  library: 'glibc',
  suffix: '',
  loaders: ['ld64.so.2'],
  libraries: ['libc.so.6'],
  count: 22,
  threadSetter: null,
};

const elfV2Le: NativeTracing = {
  kind: 'runtime',
  runtime: 'native',
  entries: {
    function: 'elftrace_native_function',
    noClock: 'elftrace_native_no_clock',
    counter: 'elftrace_native_counter',
  },
  counterStubs: counterStubs('little'),
  config: 'native_config',
  abi: null,
  graph: graph('little'),
  // Sites in front of the frame, which leave the return address in r0.
  conventions: ['regs'],
  slots: [GLIBC_V2, muslSlots('powerpc64le', muslSetter(13, 'little'))],
  valuesOf: ofFloatAbi(VALUES_V2),
  callInFront: () => null,
  options: {
    shortest: '-fpatchable-function-entry=2 (GCC 13 or later)',
    all: '-fpatchable-function-entry=2 (GCC 13 or later), or -pg -mprofile-kernel and tables of elftrace mcount',
  },
  reach: 1 << 26,
};

const elfV1: NativeTracing = {
  ...elfV2Le,
  abi: elfV2Abi,
  valuesOf: ofFloatAbi(VALUES_V1),
  counterStubs: counterStubs('big'),
  graph: graph('big'),
  slots: [
    { library: 'glibc', suffix: '', loaders: ['ld64.so.1'], libraries: ['libc.so.6'], count: 22, threadSetter: null },
  ],
  options: {
    shortest: '-fpatchable-function-entry=2',
    all: '-fpatchable-function-entry=2, or -pg -mprofile-kernel and tables of elftrace mcount',
  },
};

const elfV2Be: NativeTracing = {
  ...elfV2Le,
  counterStubs: counterStubs('big'),
  graph: graph('big'),
  slots: [GLIBC_V2, muslSlots('powerpc64', muslSetter(13, 'big'))],
};

const sysV: NativeTracing = {
  ...elfV1,
  abi: null,
  valuesOf: ofFloatAbi(VALUES_SYSV),
  slots: [
    { library: 'glibc', suffix: '', loaders: ['ld.so.1'], libraries: ['libc.so.6'], count: 22, threadSetter: null },
    muslSlots('powerpc', muslSetter(2, 'big')),
  ],
  options: {
    shortest: '-fpatchable-function-entry=2',
    all: '-fpatchable-function-entry=2, or -pg and tables of elftrace mcount',
  },
};

/** Of a target of PowerPC. */
export function ppcNativeTracing(abi: Target['abiName'], endian: Endian): NativeTracing {
  if (abi === 'elfv2' && endian === 'little') return elfV2Le;
  if (abi === 'elfv1') return elfV1;
  if (abi === 'elfv2') return elfV2Be;
  return sysV;
}
