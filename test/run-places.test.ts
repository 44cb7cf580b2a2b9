/**
 * The current directory of a process, and times of what is no file, under `elftrace run`: against
 * Linux, below a directory that the program may write.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-places',
  source: 'places',
  machines: 1,
  group: (machine) => `places of ${machine}`,
  title: 'the current directory follows its renaming; pipes, sockets and memory are as old as they are',
});
