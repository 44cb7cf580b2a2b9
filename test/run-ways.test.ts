/**
 * Ways that programs keep to under `elftrace run` (`openat2`), and entries of directories in their
 * first form, against Linux.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-ways',
  source: 'ways',
  machines: 2,
  group: (machine) => `ways of ${machine}`,
  title: 'a file is looked for on a way that is kept to',
});
