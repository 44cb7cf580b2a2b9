/**
 * Damaged files: every mutant is read fully or refused by an ElftraceError, quickly and without big
 * allocations.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { ElftraceError } from '../src/errors.js';
import { readArchive } from '../src/elf/archive.js';
import { writeElf } from '../src/elf/write.js';
import { ALL_SHAPES, smallObject } from './support/elf-builder.js';
import { compiledFiles } from './support/elf-compile.js';
import { ElfMutator, SeededRandom } from './support/elf-mutator.js';
import { touchElf } from './support/touch-elf.js';
import { fastest } from './support/timing.js';
import { times } from './support/long.js';

/** `npm run soak` asks for more. */
const MUTANTS = Number(process.env['ELFTRACE_MUTANTS'] ?? times(5000, 5000, 500));
const LIMIT_MS = 1000;
const LIMIT_BYTES = 64 << 20;

function samples(): readonly ElfMutator[] {
  const found: ElfMutator[] = [];
  for (const { name, bytes } of compiledFiles()) if (bytes.length < 200_000) found.push(new ElfMutator(name, bytes));
  const folder = join(process.cwd(), 'samples', 'built');
  if (existsSync(folder)) {
    for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      if (!/\.(o|ko|so|elf)$/.test(name)) continue;
      const bytes = new Uint8Array(readFileSync(join(folder, name)));
      if (bytes[0] === 0x7f && bytes.length < 200_000) found.push(new ElfMutator(name, bytes));
    }
  }
  return found;
}

/** Runs one case; returns the error code or 'read', throws for anything that is a fault. */
function outcome(description: string, body: () => void): string {
  const memory = process.memoryUsage().arrayBuffers;
  const start = performance.now();
  let code = 'read';
  try {
    body();
  } catch (error) {
    if (!(error instanceof ElftraceError)) {
      throw new Error(`${description}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`, {
        cause: error,
      });
    }
    if (error.message === '' || error.code === 'internal')
      throw new Error(`${description}: ${error.code}`, { cause: error });
    code = error.code;
  }
  const spent = performance.now() - start;
  const allocated = process.memoryUsage().arrayBuffers - memory;
  const again = (): void => {
    try {
      body();
    } catch {
      // As before.
    }
  };
  if (spent > LIMIT_MS && fastest(LIMIT_MS, again) > LIMIT_MS) {
    throw new Error(`${description}: ${spent.toFixed(0)} ms`);
  }
  if (allocated > LIMIT_BYTES) throw new Error(`${description}: ${allocated} bytes allocated`);
  return code;
}

describe('damaged ELF files', () => {
  test(
    `${MUTANTS} mutants are read or refused`,
    () => {
      const mutators = samples();
      const outcomes = new Map<string, number>();
      for (let seed = 1; seed <= MUTANTS; seed++) {
        const mutator = mutators[seed % mutators.length]!;
        const { bytes, description } = mutator.mutant(seed);
        const code = outcome(description, () => {
          const image = touchElf(bytes);
          // What can be read can be written: unchanged it is the same file.
          const { bytes: written } = writeElf(image, { patches: [] });
          if (!Buffer.from(written).equals(bytes)) throw new Error('writing an untouched image changed it');
        });
        outcomes.set(code, (outcomes.get(code) ?? 0) + 1);
      }
      const text = [...outcomes].sort().map(([code, count]) => `${code} ${count}`);
      process.stdout.write(`elf-fuzz: ${MUTANTS} mutants of ${mutators.length} samples: ${text.join(', ')}\n`);
      // The mutator is no good if nothing survives, or everything.
      expect(outcomes.get('read')).toBeGreaterThan(MUTANTS / 10);
      expect(outcomes.get('read')).toBeLessThan((MUTANTS * 9) / 10);
    },
    60_000 + MUTANTS * 10,
  );

  test('the same seed makes the same mutant', () => {
    const mutator = new ElfMutator('built', smallObject(ALL_SHAPES[0]!));
    expect(mutator.mutant(17)).toEqual(mutator.mutant(17));
    expect(mutator.mutant(17).bytes).not.toEqual(mutator.mutant(18).bytes);
  });

  test('damaged archives are read or refused', () => {
    const object = smallObject(ALL_SHAPES[0]!);
    const header = (name: string, size: number): string =>
      `${name.padEnd(16)}${'0'.padEnd(12)}${'0'.padEnd(6)}${'0'.padEnd(6)}${'644'.padEnd(8)}${String(size).padEnd(10)}\`\n`;
    const text = new TextEncoder();
    const long = 'a_member_with_a_long_name.o/\n\n';
    const archive = Buffer.concat([
      text.encode(`!<arch>\n${header('//', long.length)}${long}${header('/0', object.length)}`),
      object,
      text.encode(header('#1/8', 12) + 'short.o\0data'),
    ]);
    for (let seed = 1; seed <= 500; seed++) {
      const random = new SeededRandom(seed);
      let bytes = new Uint8Array(archive);
      for (let round = 0; round <= random.next(3); round++) {
        const heads = [random.next(160), bytes.length - random.next(80)];
        bytes[random.pick(heads)] = random.pick([0, 0x20, 0x2f, 0x39, 0x60, 0xff, random.next(256)]);
      }
      if (random.next(4) === 0) bytes = bytes.slice(0, random.next(bytes.length));
      outcome(`archive, seed ${seed}`, () => {
        for (const member of readArchive(bytes)) {
          if (member.offset + member.size > bytes.length || member.size < 0)
            throw new Error('member outside the archive');
        }
      });
    }
  });
});
