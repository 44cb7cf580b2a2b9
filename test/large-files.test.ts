/** Files of more than 2 GiB: Node's own calls take no more than that at once. */
import { closeSync, openSync } from 'node:fs';
import { describe, expect } from '@jest/globals';
import { hash } from '../src/cli/hash.js';
import { writeFully } from '../src/output/commit.js';
import { longTest } from './support/long.js';

const SIZE = 2 ** 31 + 10;
/** Of so many zeros: `head -c 2147483658 /dev/zero | sha256sum`. */
const DIGEST = '9ca421a580ce54604c1989291253343d59a7032271badaf10a54c60c03ea2175';

describe('more bytes than 2 GiB', () => {
  longTest('have the digest that sha256sum says', () => {
    expect(hash(new Uint8Array(SIZE))).toBe(DIGEST);
  });

  longTest('are written', () => {
    const descriptor = openSync('/dev/null', 'w');
    writeFully(descriptor, new Uint8Array(SIZE));
    closeSync(descriptor);
  });
});
