/**
 * What programs find about the system and its processes below `/proc` under `elftrace run`, against
 * Linux.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-system',
  source: 'system',
  machines: 2,
  group: (machine) => `the system of ${machine}`,
  title: 'processes, times, memory, names and mounts are found below /proc',
  asUser: true,
});
