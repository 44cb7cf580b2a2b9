/**
 * Damaged files through the whole pipeline: read, sites, verdicts, plan, apply, revert. Every
 * mutant goes through or is refused by an ElftraceError; what was patched comes back byte for byte.
 */
import { describe, expect, test } from '@jest/globals';
import { ElftraceError } from '../src/errors.js';
import { readElf } from '../src/elf/read.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { verdictSeverity, verify } from '../src/sites/verdicts.js';
import { hash } from '../src/cli/hash.js';
import { ElfMutator, SeededRandom } from './support/elf-mutator.js';
import { openBytes, planNop, readSample, sameBytes, sampleFiles } from './support/pipeline.js';
import { fastest } from './support/timing.js';
import { times } from './support/long.js';

/** `npm run soak` asks for more. */
const MUTANTS = Number(process.env['ELFTRACE_MUTANTS'] ?? times(5000, 5000, 500));
const LIMIT_MS = 2000;

/**
 * Bytes of sites and slots changed, besides the structure: what readers of code and tables must
 * survive.
 */
function scramble(bytes: Uint8Array, places: readonly number[], seed: number): Uint8Array {
  const random = new SeededRandom(seed);
  const copy = bytes.slice();
  for (let i = 0; i <= random.next(4); i++) {
    const at = random.pick(places) + random.next(12) - 4;
    if (at >= 0 && at < copy.length) copy[at] = random.pick([0, 0xff, 0x90, 0xe8, 0x48, random.next(256)]);
  }
  return copy;
}

/** One mutant; returns what became of it. Throws for anything that is a fault. */
function outcome(bytes: Uint8Array): string {
  const { image, sites } = openBytes(bytes);
  const result = verify(sites);
  let findings = 0;
  for (const finding of result.findings) {
    if (!(finding.verdict in verdictSeverity) || finding.message === '') throw new Error('a finding without words');
    findings++;
  }
  const plan = planNop(sites);
  if (plan.changed + plan.unchanged + plan.refusals.length !== plan.selected) throw new Error('a site was lost');
  let state = findings > 0 ? 'findings' : 'clean';
  if (plan.steps.length === 0) return `${state}, nothing to do`;
  const applied = applyPlan(image, plan, { hash });
  // From here on nothing may be refused any more.
  try {
    if (!sameBytes(revert(readElf(applied.bytes), null, hash), bytes)) throw new Error('revert gave another file');
  } catch (error) {
    throw new Error(`what was patched cannot be undone: ${String(error)}`, { cause: error });
  }
  state = `${state}, patched`;
  return state;
}

describe('damaged files through the pipeline', () => {
  test(
    `C-UPD-3 RT-7 ${MUTANTS} mutants`,
    () => {
      const files = sampleFiles().filter(({ bytes }) => bytes.length < 100_000);
      const mutators = files.map(({ name, bytes }) => {
        const { sites } = openBytes(bytes);
        const places: number[] = [];
        for (let i = 0; i < sites.count; i++) {
          if (sites.fileOffset(i) >= 0) places.push(sites.fileOffset(i));
          const slot = sites.table(i).position[sites.slot(i)]!;
          if (slot >= 0) places.push(slot);
        }
        return { mutator: new ElfMutator(name, bytes), places };
      });
      const outcomes = new Map<string, number>();
      let slowest = 0;
      for (let seed = 1; seed <= MUTANTS; seed++) {
        const { mutator, places } = mutators[seed % mutators.length]!;
        const mutant = mutator.mutant(seed);
        // Half of them keep their structure and lose their code.
        const onlyCode = seed % 2 === 0 && places.length > 0;
        const bytes = onlyCode ? scramble(mutator.bytes, places, seed) : mutant.bytes;
        const description = onlyCode ? `${mutator.name}, code, seed ${seed}` : mutant.description;
        const start = performance.now();
        let result: string;
        try {
          result = outcome(bytes);
        } catch (error) {
          if (!(error instanceof ElftraceError) || error.message === '' || error.code === 'internal') {
            throw new Error(`${description}: ${error instanceof Error ? (error.stack ?? '') : String(error)}`, {
              cause: error,
            });
          }
          result = error.code;
        }
        const spent = performance.now() - start;
        slowest = Math.max(slowest, spent);
        const again = (): void => {
          try {
            outcome(bytes);
          } catch {
            // As before.
          }
        };
        if (spent > LIMIT_MS && fastest(LIMIT_MS, again) > LIMIT_MS) {
          throw new Error(`${description}: ${spent.toFixed(0)} ms`);
        }
        outcomes.set(result, (outcomes.get(result) ?? 0) + 1);
      }
      const text = [...outcomes].sort().map(([result, count]) => `${result} ${count}`);
      process.stdout.write(
        `pipeline-fuzz: ${MUTANTS} mutants of ${files.length} files: ${text.join('; ')}; slowest ${slowest.toFixed(0)} ms\n`,
      );
      expect(outcomes.get('findings, patched')).toBeGreaterThan(MUTANTS / 12);
      expect(outcomes.get('clean, patched')).toBeGreaterThan(MUTANTS / 12);
    },
    60_000 + MUTANTS * 10,
  );

  test('section headers that overlap: a relocation entry that two tables share is refused, not written twice', () => {
    const name = 'ppc32/module-mcount-recorded.ko';
    const mutant = new ElfMutator(name, readSample(name)).mutant(1489);
    expect(() => outcome(mutant.bytes)).not.toThrow();
  });
});
