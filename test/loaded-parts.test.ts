/**
 * Large linked files without their debugging sections: what is in memory, the digest, and that
 * proofs say the same of them. The sections are made of bytes that no reader would take for zero.
 */
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { digestLike, digestOf, isInParts, readLoadedParts } from '../src/cli/loaded-parts.js';
import { SHT_PROGBITS } from '../src/elf/constants.js';
import { readElf } from '../src/elf/read.js';
import { writeElf } from '../src/elf/write.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-loaded-parts-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const small = join(builtSamples, 'x86-64/core-fentry');
const large = join(folder, 'large');
const patched = join(folder, 'patched');

beforeAll(() => {
  const debugging = new Uint8Array(33 << 20).fill(0xd5);
  const common = { type: SHT_PROGBITS, flags: 0n, link: 0, info: 0, alignBytes: 1, entrySize: 0 };
  const { bytes } = writeElf(readElf(new Uint8Array(readFileSync(small))), {
    patches: [],
    appendSections: [
      { ...common, name: '.debug_info', contents: debugging },
      { ...common, name: '.comment.more', contents: debugging.subarray(0, 5000) },
    ],
  });
  writeFileSync(large, bytes);
  expect(elftrace(['patch', large, '--init', '-o', patched]).status).toBe(0);
});

describe('PV-7: large linked files', () => {
  test('PV-7: all but the debugging sections is there, and the digest is that of the file', () => {
    const whole = new Uint8Array(readFileSync(large));
    const parts = readLoadedParts(large)!;
    expect([parts.length, isInParts(parts)]).toEqual([whole.length, true]);
    const { sections } = readElf(whole);
    const debugging = sections.find(({ name }) => name === '.debug_info')!;
    const end = debugging.offset + debugging.fileSize;
    expect(Buffer.compare(parts.subarray(0, debugging.offset), whole.subarray(0, debugging.offset))).toBe(0);
    expect(Buffer.compare(parts.subarray(end), whole.subarray(end))).toBe(0);
    expect(parts.subarray(debugging.offset, end).every((byte) => byte === 0)).toBe(true);
    expect(digestOf(parts)).toBe(sha256(whole));
    // What is made of it: the same sections lie at the same places.
    const [copy, other] = [parts.slice(), whole.slice()];
    copy[0x40] = other[0x40] = 1;
    expect(digestLike(parts)(copy)).toBe(sha256(other));
    expect(digestOf(new Uint8Array([1, 2]))).toBe(sha256(new Uint8Array([1, 2])));
  });

  test('PV-7: what is small, relocatable, or none is read as a whole', () => {
    expect(readLoadedParts(small)).toBeNull();
    expect(readLoadedParts(join(folder, 'missing'))).toBeNull();
    expect(readLoadedParts('-')).toBeNull();
    const none = join(folder, 'none');
    writeFileSync(none, '');
    truncateSync(none, 40 << 20);
    expect(readLoadedParts(none)).toBeNull();
    const cut = join(folder, 'cut');
    writeFileSync(cut, readFileSync(large));
    truncateSync(cut, 33 << 20);
    expect(readLoadedParts(cut)).toBeNull();
  });

  test('PV-7: proofs are those of the whole file, with the record and against a file', () => {
    const line = /(\d+) proved, \d+ unchanged, 0 different, 0 inconclusive/;
    const [alone, against] = [
      ['prove', patched],
      ['prove', patched, large],
    ].map((args) => elftrace(args));
    for (const { status, stdout, stderr } of [alone!, against!]) {
      expect([status, stderr]).toEqual([0, '']);
      expect(Number(line.exec(stdout)?.[1])).toBeGreaterThan(2);
    }
    // A byte of a section that is left out makes it another file.
    const bytes = new Uint8Array(readFileSync(large));
    const section = readElf(bytes).sections.find(({ name }) => name === '.debug_info')!;
    bytes[section.offset + 7] = 0;
    const other = join(folder, 'other');
    writeFileSync(other, bytes);
    const refused = elftrace(['prove', patched, other]);
    expect([refused.status, refused.stderr]).toEqual([2, expect.stringContaining('not the file that the record')]);
  });
});
