/**
 * The branches that entries are patched with: encoding and reading are inverses within the reach,
 * nothing is encoded beyond it, and objdump sees the same target.
 */
import { spawnSync } from './support/spawn.js';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { BranchCodec } from '../src/machine/branches.js';
import { arches } from '../src/arches.js';
import { hexBytes } from '../src/errors.js';
import { describeWith } from './support/tools.js';

/** Architecture names of objdump, with the byte order where the default is the other one. */
const names: Readonly<Record<string, readonly string[] | null>> = {
  'x86-64': ['i386:x86-64', '-EL'],
  ppc32: ['powerpc:common', '-EB'],
  'ppc64-elfv1': ['powerpc:common64', '-EB'],
  'ppc64-elfv2-be': ['powerpc:common64', '-EB'],
  'ppc64-elfv2-le': ['powerpc:common64', '-EL'],
  riscv64: ['riscv:rv64', '-EL'],
  arm64: ['aarch64', '-EL'],
  s390x: ['s390:64-bit', '-EB'],
  // objdump of Debian 12 does not know it: arch-loongarch.test has words of another one.
  loongarch64: null,
};

const fillers: Readonly<Record<string, number>> = { 'x86-64': 0x90, s390x: 0x07 };

const start = 0x4000_0000n;

function displacements({ reach }: BranchCodec): fc.Arbitrary<bigint> {
  const align = BigInt(reach.alignBytes);
  const min = reach.min < -start ? -start : reach.min;
  return fc.bigInt({ min: min / align, max: reach.max / align }).map((each) => each * align);
}

for (const { target, branches } of arches) {
  for (const kind of ['call', 'jump'] as const) {
    const codec = branches[kind];
    test(`${target.id}: ${kind} encodes and reads back`, () => {
      fc.assert(
        fc.property(displacements(codec), (displacement) => {
          const bytes = codec.encode(start, start + displacement);
          expect(bytes.length).toBe(codec.sizeBytes);
          const mask = target.wordBytes === 8 ? 64 : 32;
          expect(codec.target(bytes, start)).toBe(BigInt.asUintN(mask, start + displacement));
          expect(branches[kind === 'call' ? 'jump' : 'call'].target(bytes, start)).toBeNull();
        }),
        { seed: 1, numRuns: 300 },
      );
      const { min, max, alignBytes } = codec.reach;
      for (const edge of [min - BigInt(alignBytes), max + BigInt(alignBytes)]) {
        expect(() => codec.encode(0x8000_0000_0000n, 0x8000_0000_0000n + edge)).toThrow(
          /out of range|outside|reach|from/i,
        );
      }
      expect(codec.target(new Uint8Array(codec.sizeBytes - 1), start)).toBeNull();
      expect(codec.target(new Uint8Array(codec.sizeBytes), start)).toBeNull();
    });
  }

  const name = names[target.id]!;
  if (name === null) continue;
  describeWith(['objdump'], `${target.id}: branches as objdump reads them`, () => {
    test('targets agree', () => {
      const folder = mkdtempSync(join(tmpdir(), 'elftrace-branches-'));
      try {
        for (const kind of ['call', 'jump'] as const) {
          const codec = branches[kind];
          const samples = fc.sample(displacements(codec), { seed: 2, numRuns: 40 });
          // One branch each 16 bytes; the filling is nops of the least size where zeros are not as
          // long as the instruction that they would be.
          const bytes = new Uint8Array(16 * samples.length).fill(fillers[target.id] ?? 0);
          const wanted = samples.map((displacement, i) => {
            const from = start + BigInt(16 * i);
            bytes.set(codec.encode(from, from + displacement), 16 * i);
            return { from, to: from + displacement };
          });
          const path = join(folder, kind);
          writeFileSync(path, bytes);
          const [machine, order] = name;
          const args = [
            '-D',
            '-z',
            '-b',
            'binary',
            '-m',
            machine!,
            order!,
            `--adjust-vma=0x${start.toString(16)}`,
            path,
          ];
          const { stdout } = spawnSync('objdump', args, { encoding: 'utf8' });
          const lines = new Map(
            stdout.split('\n').map((line) => {
              const [address, text] = line.split(/:\t/, 2);
              return [address!.trim(), text ?? ''];
            }),
          );
          for (const { from, to } of wanted) {
            // The second instruction of a pair carries the target.
            const at = codec.sizeBytes === 8 ? from + 4n : from;
            const line = lines.get(at.toString(16)) ?? '';
            const bits = target.wordBytes * 8;
            const hexTarget = BigInt.asUintN(bits, to).toString(16);
            expect([hexBytes(codec.encode(from, to)), line]).toEqual([
              hexBytes(codec.encode(from, to)),
              expect.stringMatching(new RegExp(`\\b(0x)?${hexTarget}\\b`)),
            ]);
          }
        }
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  });
}
