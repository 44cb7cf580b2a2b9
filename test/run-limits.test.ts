/**
 * Limits that a program sets for itself, under `elftrace run`: against Linux, as a user without
 * rights.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-limits',
  source: 'limits',
  machines: 1,
  asUser: true,
  group: (machine) => `limits of ${machine}`,
  title: 'descriptors and processes end where the limits are that were set',
});
