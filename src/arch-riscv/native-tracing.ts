/** Programs of RISC-V that write their own trace: the runtime of native.S and runtime/native.c. */
import { reaches } from '../bits.js';
import { ByteView } from '../bytes.js';
import { type AddressParts, holdsByParts } from '../machine/address-pairs.js';
import type { ElfImage } from '../elf/image.js';
import { type CounterStubs, muslSlots, type NativeTracing, type ValuePlaces } from '../machine/native-tracing.js';

/** c.mv tp, a0; c.li a0, 0; ret: musl, __set_thread_area. */
const MUSL_SETTER = Uint8Array.of(0x2a, 0x82, 0x01, 0x45, 0x82, 0x80);

/** As the slow way of native-page.h saves them: ra, t0 and t2 lie in front. */
const SAVED_IN_FRONT = 3;
const REGISTERS = [0, 1, 2, 3, 4, 5, 6, 7] as const;

/** Calling conventions of the RISC-V ELF psABI, with registers of floating point of 64 bits. */
const VALUES: ValuePlaces = {
  wordBytes: 8,
  registers: REGISTERS.map((each) => SAVED_IN_FRONT + each),
  result: SAVED_IN_FRONT,
  named: Object.fromEntries(
    REGISTERS.flatMap((each) => [
      [`a${each}`, { kind: 'register' as const, place: SAVED_IN_FRONT + each }] as const,
      [`fa${each}`, { kind: 'floating' as const, place: each }] as const,
    ]),
  ),
  floatRegisters: REGISTERS.length,
  floatsBeyond: 'integers',
  isOneList: false,
  longDoubles: {
    format: 'binary128',
    are: 'integer-pair',
    result: { kind: 'register', place: SAVED_IN_FRONT },
  },
  aggregates: { above: 16, are: 'reference' },
  hiddenResult: { never: 16, always: 16 },
};

const JAL_REACH = { min: -0x10_0000n, max: 0xf_fffen, alignBytes: 2 };
const LUI_T6 = 0xfb7;
const ADDI_T6_T6 = 0x000f_8f93;
const JAL_ZERO = 0x6f;
const NOP = 0x13;

/** The distance of a `jal` as its bits lie: 20, 10 to 1, 11, 19 to 12. */
const jumpBits = (distance: number): number =>
  ((distance >> 20) & 1) * 0x8000_0000 +
  (((distance >> 1) & 0x3ff) << 21) +
  (((distance >> 11) & 1) << 20) +
  (((distance >> 12) & 0xff) << 12);

/** `lui t6; addi t6; j entry`; a jump through a register would want a landing pad. */
const counterStubs: CounterStubs = {
  bytes: 16,
  make: (stub, place, entry) => {
    const from = stub + 8n;
    if (!reaches(JAL_REACH, from, entry)) return null;
    const out = new Uint8Array(16);
    const view = new ByteView(out, 'little');
    const low = (place << 20) >> 20;
    view.insertU32(0, (LUI_T6 | ((place - low) & 0xffff_f000)) >>> 0);
    view.insertU32(4, (ADDI_T6_T6 | ((low & 0xfff) << 20)) >>> 0);
    view.insertU32(8, jumpBits(Number(entry - from)) + JAL_ZERO);
    view.insertU32(12, NOP);
    return out;
  },
};

/** Two bits of e_flags: which values of floating point are passed in their registers. */
const FLOAT_ABI = 6;
const FLOAT_ABI_DOUBLE = 4;
const isDoubleFloat = ({ header }: ElfImage): boolean => (header.flags & FLOAT_ABI) === FLOAT_ABI_DOUBLE;

const GP = 3;

/** `auipc r, upper` or `lui`, then `addi r, r, lower`, also in two bytes; from gp `addi` alone. */
const ADDRESSES: AddressParts = {
  step: 2,
  upper: (word, at) => {
    const register = (word >>> 7) & 31;
    if ((word & 0x7f) === 0x17) return { register, value: at + (word & ~0xfff) };
    if ((word & 0x7f) === 0x37) return { register, value: word & ~0xfff };
    // c.lui: the sign in bit 12, five bits from bit 2 on.
    if ((word & 0xe003) !== 0x6001) return null;
    return { register, value: (((word << 19) >> 31) * 32 + ((word >>> 2) & 31)) * 4096 };
  },
  lower: (word) => {
    const operation = word & 0x707f;
    if (operation === 0x13 || operation === 0x1b) return { register: (word >>> 15) & 31, add: word >> 20 };
    if ((word & 0xe003) !== 0x0001) return null;
    return { register: (word >>> 7) & 31, add: ((word << 19) >> 31) * 32 + ((word >>> 2) & 31) };
  },
  whole: () => null,
  base: GP,
};

export const riscvNativeTracing: NativeTracing = {
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
  // Sites call it as they call the other one: native-graph.S says why no stubs are needed.
  graph: {
    runtime: 'native-graph',
    entry: 'elftrace_native_graph',
    stubs: null,
    shadowStacks: null,
    holds: holdsByParts(ADDRESSES, 'little'),
  },
  // Sites at the function's entry, whose call links through t0.
  conventions: ['g2'],
  slots: [
    {
      library: 'glibc',
      suffix: '',
      loaders: ['ld-linux-riscv64-lp64d.so.1', 'ld-linux-riscv64-lp64.so.1'],
      libraries: ['libc.so.6'],
      count: 22,
      threadSetter: null,
    },
    muslSlots('riscv64', MUSL_SETTER),
  ],
  valuesOf: (image) => (isDoubleFloat(image) ? VALUES : null),
  callInFront: () => null,
  options: {
    shortest: '-fpatchable-function-entry=4 (2 without compressed instructions)',
    all: '-fpatchable-function-entry=4 (2 without compressed instructions)',
  },
  reach: 1 << 26,
};
