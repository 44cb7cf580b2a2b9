/**
 * What permissions allow the owner of files and directories, and what slashes behind names ask
 * for, under `elftrace run`: against Linux, below a directory that the program may write.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-permissions',
  source: 'permissions',
  machines: 1,
  asUser: true,
  group: (machine) => `permissions of ${machine}`,
  title: 'files have the bits that were asked for, and allow what they say; a slash asks for a directory',
});
