/**
 * What is opened by way of a descriptor under `elftrace run`, against Linux, as a user without
 * rights.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-again',
  source: 'again',
  machines: 2,
  asUser: true,
  group: (machine) => `files of ${machine} by way of descriptors`,
  title: 'a file is opened once more, with a position and a mode of its own',
});
