/** Programs of RISC-V that write their own trace: the runtime of native.S and runtime/native.c. */
import type { NativeTracing } from '../machine/native-tracing.js';

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
  values: null,
  callInFront: () => null,
  options: {
    shortest: '-fpatchable-function-entry=4 (2 without compressed instructions)',
    all: '-fpatchable-function-entry=4 (2 without compressed instructions)',
  },
  reach: 1 << 26,
};
