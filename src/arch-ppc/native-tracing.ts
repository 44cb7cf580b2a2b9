/** Programs of PowerPC that write their own trace: the runtime of native.S and runtime/native.c. */
import type { NativeTracing } from '../machine/native-tracing.js';
import type { Target } from '../machine/target.js';
import type { Endian } from '../units.js';

const elfV2Le: NativeTracing = {
  kind: 'runtime',
  runtime: 'native',
  entry: 'elftrace_native_function',
  config: 'native_config',
  graph: null,
  // Sites in front of the frame, which leave the return address in r0.
  conventions: ['regs'],
  slots: { loaders: ['ld64.so.2'], libraries: ['libc.so.6'], count: 22 },
  callInFront: () => null,
  options: {
    shortest: '-fpatchable-function-entry=2 (GCC 13 or later)',
    all: '-fpatchable-function-entry=2 (GCC 13 or later), or -pg -mprofile-kernel and tables of elftrace mcount',
  },
  reach: 1 << 26,
};

export const ppcNativeTracing = (abi: Target['abiName'], endian: Endian): NativeTracing =>
  abi === 'elfv2' && endian === 'little' ? elfV2Le : { kind: 'none', reason: 'there is no runtime for it yet' };
