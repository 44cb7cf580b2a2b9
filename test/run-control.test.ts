/**
 * What comes beside datagrams under `elftrace run`: hops, classes of traffic, where they were sent
 * to and when they came, and datagrams of UDP-Lite, against Linux.
 */
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-control',
  source: 'control',
  machines: 1,
  group: (machine) => `control data of ${machine}`,
  title: 'datagrams tell how they travelled, and travel as they are asked to',
});
