/** Programs of arm64 that write their own trace: the runtime of native.S and runtime/native.c. */
import type { NativeTracing } from '../machine/native-tracing.js';

export const arm64NativeTracing: NativeTracing = {
  kind: 'runtime',
  runtime: 'native',
  entry: 'elftrace_native_function',
  config: 'native_config',
  graph: null,
  // Sites at the function's entry, whose call leaves the return address in x9.
  conventions: ['regs'],
  slots: { loaders: ['ld-linux-aarch64.so.1'], libraries: ['libc.so.6'], count: 22 },
  callInFront: () => null,
  options: { shortest: '-fpatchable-function-entry=2', all: '-fpatchable-function-entry=2' },
  reach: 1 << 26,
};
