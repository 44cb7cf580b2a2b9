/**
 * Memory and semaphores with names, and the folder of devices, under `elftrace run`, against Linux.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-named',
  source: 'named',
  machines: 2,
  group: (machine) => `names of memory of ${machine}`,
  title: 'processes share memory and semaphores by their names below /dev/shm',
});
