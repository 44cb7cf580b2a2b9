/**
 * Times of files and `inotify` under `elftrace run`, against Linux: a program that sets, changes
 * and watches files below a directory that it may write.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-watches',
  source: 'watched',
  machines: 2,
  group: (machine) => `files of ${machine}`,
  title: 'have times to the nanosecond and tell of their changes, as on Linux',
  look: (files) => {
    // What the program set last stays behind, as exactly as Node keeps it.
    const { mtimeMs } = statSync(join(files, 'set'));
    expect(Math.abs(mtimeMs - 1_500_000_001_987.654)).toBeLessThan(0.01);
  },
});
