/** POSIX queues of messages under `elftrace run`: against Linux, as a user without rights. */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-queues',
  source: 'queues',
  machines: 2,
  asUser: true,
  group: (machine) => `queues of ${machine}`,
  title: 'messages go by priority and age; who waits is woken, who asked is told; limits and refusals',
});
