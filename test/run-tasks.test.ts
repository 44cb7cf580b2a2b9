/** States of threads and processes below `/proc`, under `elftrace run`: against Linux. */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-tasks',
  source: 'tasks',
  machines: 1,
  group: (machine) => `tasks of ${machine}`,
  title: 'who can run, waits, was stopped or has ended is told so, each thread for itself',
});
