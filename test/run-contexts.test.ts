/**
 * Contexts of threads under `elftrace run` (`getcontext`, `setcontext`, `swapcontext`), against
 * Linux. The C library of 32-bit PowerPC has a system call for them.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-contexts',
  source: 'coroutines',
  machines: 9,
  group: (machine) => `contexts of ${machine}`,
  title: 'coroutines keep their registers and masks, and a context is gone on with again',
});
