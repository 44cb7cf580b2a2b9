/**
 * Names of files, links, arguments and variables under `elftrace run` that are bytes and no UTF-8,
 * against Linux.
 */
import { readdirSync } from 'node:fs';
import { expect } from '@jest/globals';
import { testAgainstLinux } from './support/against-linux.js';

testAgainstLinux({
  name: 'run-octets',
  source: 'octets',
  machines: 2,
  isThere: true,
  group: (machine) => `names that are no UTF-8 on ${machine}`,
  title: 'files, links, arguments and variables keep their bytes',
  look: (files) => {
    const [folder] = readdirSync(files, 'buffer').filter((each) => each[0]! >= 0x80);
    expect(folder).toEqual(Buffer.of(0xe9));
    const kept = readdirSync(Buffer.concat([Buffer.from(`${files}/`), folder!]), 'buffer').map((each) =>
      each.toString('hex'),
    );
    expect(kept).toContain('636166e92e6c696e6b');
  },
});
