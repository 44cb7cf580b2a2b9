/**
 * Requests that few programs make, under `elftrace run`: sizes of pipes, holes, flags of
 * transfers, programs by their descriptors, clocks that a user may not set, against Linux.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-requests',
  source: 'requests',
  machines: 1,
  asUser: true,
  isThere: true,
  group: (machine) => `requests of ${machine}`,
  title: 'pipes, files, programs and clocks answer what is seldom asked',
});
