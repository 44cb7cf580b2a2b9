/**
 * Clocks of the CPU, processes named by their folder, and room that links take, under `elftrace
 * run`, against Linux.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-clocks',
  source: 'clocks',
  machines: 2,
  asUser: true,
  group: (machine) => `clocks of ${machine}`,
  title: 'a thread and a process ask what others have executed',
});
