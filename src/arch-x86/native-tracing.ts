/** Programs of x86-64 that write their own trace: the runtime of native.S and runtime/native.c. */
import type { NativeTracing } from '../machine/native-tracing.js';

export const x86NativeTracing: NativeTracing = {
  kind: 'runtime',
  runtime: 'native',
  entry: 'elftrace_native_function',
  config: 'native_config',
  // Sites at the function's entry: behind a prologue neither the stack pointer nor the registers
  // are what the entry takes them for.
  conventions: ['modern'],
  slots: { loaders: ['ld-linux-x86-64.so.2'], libraries: ['libc.so.6'], count: 32 },
  reach: 1 << 26,
};
