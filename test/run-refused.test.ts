/** What system calls refuse under `elftrace run`, against Linux, as a user without rights. */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-refused',
  source: 'refused',
  machines: 2,
  asUser: true,
  group: (machine) => `refusals of ${machine}`,
  title: 'names that are too long, places as sockets, clocks, the heap behind a part that is protected',
});
