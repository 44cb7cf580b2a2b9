/** Programs of PowerPC that write their own trace: the runtime of native.S and runtime/native.c. */
import { reaches } from '../bits.js';
import { ByteView } from '../bytes.js';
import { elfV2Abi } from './abi.js';
import type { GraphStubs, GraphTracing, NativeTracing } from '../machine/native-tracing.js';
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

const graph = (endian: Endian): GraphTracing => ({
  runtime: 'native-graph',
  entry: 'elftrace_native_graph',
  stubs: graphStubs(endian),
  shadowStacks: null,
});

const elfV2Le: NativeTracing = {
  kind: 'runtime',
  runtime: 'native',
  entry: 'elftrace_native_function',
  config: 'native_config',
  abi: null,
  graph: graph('little'),
  // Sites in front of the frame, which leave the return address in r0.
  conventions: ['regs'],
  slots: [{ library: 'glibc', suffix: '', loaders: ['ld64.so.2'], libraries: ['libc.so.6'], count: 22 }],
  values: null,
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
  graph: graph('big'),
  slots: [{ library: 'glibc', suffix: '', loaders: ['ld64.so.1'], libraries: ['libc.so.6'], count: 22 }],
  options: {
    shortest: '-fpatchable-function-entry=2',
    all: '-fpatchable-function-entry=2, or -pg -mprofile-kernel and tables of elftrace mcount',
  },
};

/** Without returns: no C library of it was at hand whose unwinder could be tried. */
const elfV2Be: NativeTracing = { ...elfV2Le, graph: null };

const sysV: NativeTracing = {
  ...elfV1,
  abi: null,
  slots: [{ library: 'glibc', suffix: '', loaders: ['ld.so.1'], libraries: ['libc.so.6'], count: 22 }],
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
