/** `epoll` under `elftrace run`: one in another, and what it refuses, against Linux. */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-pollers',
  source: 'pollers',
  machines: 2,
  asUser: true,
  group: (machine) => `pollers of ${machine}`,
  title: 'an epoll tells of another; refusals come in the order of Linux',
});
