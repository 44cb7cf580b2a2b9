/**
 * What calls of System V tell of all objects under `elftrace run` (IPC_INFO, SHM_STAT and their
 * kin), against Linux.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-told',
  source: 'told',
  machines: 4,
  asUser: true,
  group: (machine) => `System V as a whole on ${machine}`,
  title: 'limits, what there is, and an object by its index',
});
