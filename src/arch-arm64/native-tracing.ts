/** Programs of arm64 that write their own trace: the runtime of native.S and runtime/native.c. */
import { ByteView, concatBytes, wordBytes } from '../bytes.js';
import { reaches } from '../bits.js';
import {
  type CounterStubs,
  type GraphStubs,
  muslSlots,
  type NativeTracing,
  type ValuePlaces,
} from '../machine/native-tracing.js';
import { type AddressParts, holdsByParts } from '../machine/address-pairs.js';
import type { Address } from '../units.js';

/** msr tpidr_el0, x0; mov w0, #0; ret: musl, __set_thread_area. */
const MUSL_SETTER = concatBytes([0xd51b_d040, 0x5280_0000, 0xd65f_03c0].map((each) => wordBytes(each, 'little')));

const BRANCH_REACH = { min: -0x800_0000n, max: 0x7ff_fffcn, alignBytes: 4 };
const B = 0x1400_0000;
const BL = 0x9400_0000;
const NOP = 0xd503_201f;

/** Words of a stub, in the order of the picture in native-graph.S. */
const STUB = { bytes: 32, call: 12, hook: 16, kept: 20, spans: 24, mark: 0x7467_6674 } as const;
const MOV_X9_X30 = 0xaa1e_03e9;
const CBZ_X10_KEPT = 0xb400_006a;

/** B or BL; null: out of reach. */
function branch(opcode: number, from: Address, to: Address): number | null {
  if (!reaches(BRANCH_REACH, from, to)) return null;
  return (opcode | Number(BigInt.asUintN(26, (to - from) >> 2n))) >>> 0;
}

function words(values: readonly (number | null)[]): Uint8Array | null {
  const out = new Uint8Array(4 * values.length);
  const view = new ByteView(out, 'little');
  for (const [i, value] of values.entries()) {
    if (value === null) return null;
    view.insertU32(4 * i, value);
  }
  return out;
}

const graphStubs: GraphStubs = {
  symbol: 'native_stubs',
  bytes: STUB.bytes,
  site: (stores, stub) => {
    // The call of two words, in one store or in two.
    const first = stores[0]!;
    const last = stores.at(-1)!;
    const jump = words([branch(B, first.address, stub), NOP]);
    if (jump === null) return null;
    const body = last.address + BigInt(last.after.length);
    return {
      stores: stores.map(({ address, after }) => jump.slice(Number(address - first.address)).slice(0, after.length)),
      body,
    };
  },
  names: ['elftrace_native_graph', 'native_return', 'native_spans'],
  make: (stub, body, [entry, leave, spans]) => {
    const at = (offset: number): Address => stub + BigInt(offset);
    return words([
      MOV_X9_X30,
      branch(BL, at(4), entry!),
      CBZ_X10_KEPT,
      branch(BL, at(STUB.call), body),
      branch(B, at(STUB.hook), leave!),
      branch(B, at(STUB.kept), body),
      Number(BigInt.asUintN(32, spans! - at(STUB.hook))),
      STUB.mark,
    ]);
  },
};

const MOVZ_X16 = 0xd280_0010;
const MOVK_X16_UPPER = 0xf2a0_0010;
/** Where movz and movk have their 16 bits. */
const MOV_SHIFT = 5;

/** `movz x16; movk x16; b entry` */
const counterStubs: CounterStubs = {
  bytes: 16,
  make: (stub, place, entry) =>
    words([
      (MOVZ_X16 | ((place & 0xffff) << MOV_SHIFT)) >>> 0,
      (MOVK_X16_UPPER | ((place >>> 16) << MOV_SHIFT)) >>> 0,
      branch(B, stub + 8n, entry),
      NOP,
    ]),
};

/** As the slow way of native.S saves them: x9 and x30 lie in front. */
const SAVED_IN_FRONT = 2;
const REGISTERS = [0, 1, 2, 3, 4, 5, 6, 7] as const;

/** Procedure call standard for AArch64, 6.8.2. */
const VALUES: ValuePlaces = {
  wordBytes: 8,
  registers: REGISTERS.map((each) => SAVED_IN_FRONT + each),
  result: SAVED_IN_FRONT,
  named: Object.fromEntries(
    REGISTERS.flatMap((each) => [
      [`x${each}`, { kind: 'register' as const, place: SAVED_IN_FRONT + each }] as const,
      [`d${each}`, { kind: 'floating' as const, place: each }] as const,
    ]),
  ),
  floatRegisters: REGISTERS.length,
  longDoubles: { format: 'binary128', are: 'floating', result: { kind: 'floating', place: 0 } },
  floatsBeyond: 'stack',
  isOneList: false,
  // Four values of the largest type of floating point lie in registers.
  aggregates: { above: 64, are: 'reference' },
  hiddenResult: null,
};

/** Bits 29 and 30 below bits 5 to 23, with the sign of the highest. */
const relative = (word: number): number => ((word << 8) >> 13) * 4 + ((word >>> 29) & 3);

/** `adrp x, page` or `movz x, #upper, lsl #16`, then `add x, x, #lower` or `movk`; `adr`. */
const ADDRESSES: AddressParts = {
  step: 4,
  upper: (word, at) => {
    const register = word & 31;
    const half = (word >>> 5) & 0xffff;
    if ((word & 0x9f00_0000) >>> 0 === 0x9000_0000) {
      return { register, value: at - (at % 4096) + relative(word) * 4096 };
    }
    if ((word & 0x7fe0_0000) === 0x5280_0000) return { register, value: half };
    return (word & 0x7fe0_0000) === 0x52a0_0000 ? { register, value: half * 0x1_0000 } : null;
  },
  lower: (word) => {
    const half = (word >>> 5) & 0xffff;
    if ((word & 0xffc0_0000) >>> 0 === 0x9100_0000) {
      return { register: (word >>> 5) & 31, add: (word >>> 10) & 0xfff };
    }
    if ((word & 0x7fe0_0000) === 0x7280_0000) return { register: word & 31, add: half };
    return (word & 0x7fe0_0000) === 0x72a0_0000 ? { register: word & 31, add: half * 0x1_0000 } : null;
  },
  whole: (word, at) => ((word & 0x9f00_0000) === 0x1000_0000 ? at + relative(word) : null),
  base: null,
};

export const arm64NativeTracing: NativeTracing = {
  kind: 'runtime',
  runtime: 'native',
  entries: {
    function: 'elftrace_native_function',
    noClock: 'elftrace_native_no_clock',
    counter: 'elftrace_native_counter',
  },
  counterStubs,
  config: 'native_config',
  abi: null,
  graph: {
    runtime: 'native-graph',
    entry: 'elftrace_native_graph',
    stubs: graphStubs,
    shadowStacks: null,
    holds: holdsByParts(ADDRESSES, 'little'),
  },
  // Sites at the function's entry, whose call leaves the return address in x9.
  conventions: ['regs'],
  slots: [
    {
      library: 'glibc',
      suffix: '',
      loaders: ['ld-linux-aarch64.so.1'],
      libraries: ['libc.so.6'],
      count: 22,
      threadSetter: null,
    },
    muslSlots('aarch64', MUSL_SETTER),
  ],
  valuesOf: () => VALUES,
  callInFront: () => null,
  options: { shortest: '-fpatchable-function-entry=2', all: '-fpatchable-function-entry=2' },
  reach: 1 << 26,
};
