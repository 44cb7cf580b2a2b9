/**
 * How processes stand under `elftrace run`: CPUs and classes of disks, also of others, personality,
 * what they share, what is kept for users with rights, and memory of others, against Linux.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-standing',
  source: 'standing',
  machines: 2,
  group: (machine) => `standing of ${machine}`,
  title: 'a process asks how others stand, and does not get what it has no right to',
  asUser: true,
});
