/** Locks with priority inheritance under `elftrace run`: against Linux. */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-inherited',
  source: 'inherited',
  machines: 2,
  group: (machine) => `locks with priority inheritance of ${machine}`,
  title: 'one thread has the lock, and hands it on; who ends leaves it, who waits in a circle is told',
});
