/** Programs of RISC-V that write their own trace: the runtime of native.S and runtime/native.c. */
import type { ElfImage } from '../elf/image.js';
import type { NativeTracing, ValuePlaces } from '../machine/native-tracing.js';

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

/** Two bits of e_flags: which values of floating point are passed in their registers. */
const FLOAT_ABI = 6;
const FLOAT_ABI_DOUBLE = 4;
const isDoubleFloat = ({ header }: ElfImage): boolean => (header.flags & FLOAT_ABI) === FLOAT_ABI_DOUBLE;

export const riscvNativeTracing: NativeTracing = {
  kind: 'runtime',
  runtime: 'native',
  entry: 'elftrace_native_function',
  config: 'native_config',
  abi: null,
  // Sites call it as they call the other one: native-graph.S says why no stubs are needed.
  graph: { runtime: 'native-graph', entry: 'elftrace_native_graph', stubs: null, shadowStacks: null },
  // Sites at the function's entry, whose call links through t0.
  conventions: ['g2'],
  slots: [
    {
      library: 'glibc',
      suffix: '',
      loaders: ['ld-linux-riscv64-lp64d.so.1', 'ld-linux-riscv64-lp64.so.1'],
      libraries: ['libc.so.6'],
      count: 22,
    },
  ],
  valuesOf: (image) => (isDoubleFloat(image) ? VALUES : null),
  callInFront: () => null,
  options: {
    shortest: '-fpatchable-function-entry=4 (2 without compressed instructions)',
    all: '-fpatchable-function-entry=4 (2 without compressed instructions)',
  },
  reach: 1 << 26,
};
