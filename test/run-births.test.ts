/**
 * Processes that begin with a descriptor, or without handlers, under `elftrace run`, against Linux.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-births',
  source: 'births',
  machines: 2,
  group: (machine) => `births of ${machine}`,
  title: 'a process begins with a descriptor of its own, and without handlers',
});
