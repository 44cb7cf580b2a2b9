/**
 * The proof of probes (probe-proof.ts) on random programs of csmith, 6 for each target with fixed
 * seeds. ELFTRACE_PROBE_PROGRAMS and ELFTRACE_SEED: another number of programs, one in ten of which
 * is a large one, and another first seed (`node build/scripts/soak-probes.js`).
 *
 * A third of the programs executes too many instructions, which is known only when they have been
 * built and run. The seeds of those are listed in test/programs/csmith-small/too-long, a file for
 * each target, with the versions of the tools that they are true of: with other tools the list is
 * not used. ELFTRACE_TOO_LONG=write finds them anew.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import {
  ARM64_CSMITH_TARGETS,
  buildCsmith,
  type Level,
  type PpcTarget,
  PROGRAMS as SOURCES,
  RISCV_TARGETS,
  TARGETS as PPC_TARGETS,
  X86_TARGETS,
} from './c-programs.js';
import { prove, subjectOf } from './probe-proof.js';
import { spawnSync } from './spawn.js';
import { describeWith } from './tools.js';
import { isLong, times } from './long.js';

const ppc = (name: string): readonly PpcTarget[] => PPC_TARGETS.filter((each) => each.name === name);

/** Compilers and instruction sets that the programs of a target are built with in turn. */
const VARIANTS = {
  // Of x86-64 without SSE the headers of csmith do not compile.
  'x86-64': X86_TARGETS.slice(1),
  ppc32: ppc('ppc32'),
  'ppc64-elfv1': ppc('ppc64-elfv1'),
  'ppc64-elfv2-be': ppc('ppc64-elfv2-be'),
  'ppc64-elfv2-le': ppc('ppc64-elfv2-le'),
  riscv64: RISCV_TARGETS,
  arm64: ARM64_CSMITH_TARGETS,
} as const satisfies Record<string, readonly PpcTarget[]>;

const LEVELS: readonly Level[] = ['0', '1', '2', 's'];
const isSoak = process.env['ELFTRACE_PROBE_PROGRAMS'] !== undefined;
const PROGRAMS = Number(process.env['ELFTRACE_PROBE_PROGRAMS'] ?? times(50, 3, 1));
/** Programs that execute more instructions of their own are left out. */
const HITS = { small: 2_500, large: 60_000 };

function add(sum: Record<string, number>, more: Readonly<Record<string, number>>): void {
  for (const [key, value] of Object.entries(more)) sum[key] = (sum[key] ?? 0) + value;
}

/** Targets do not prove the same programs. */
const firstSeed = (name: keyof typeof VARIANTS): number =>
  Number(process.env['ELFTRACE_SEED'] ?? 1) + 100_000 * Object.keys(VARIANTS).indexOf(name);

const isWriting = process.env['ELFTRACE_TOO_LONG'] === 'write';
const listPath = (name: string): string => join(SOURCES, 'csmith-small/too-long', `${name}.txt`);

/** What a list is true of: the first lines of it. */
function versions(variants: readonly PpcTarget[]): readonly string[] {
  return ['csmith', ...new Set(variants.map(({ gcc }) => gcc))].map(
    (tool) => `${tool}: ${spawnSync(tool, ['--version'], { encoding: 'utf8' }).stdout.split('\n')[0]!}`,
  );
}

/** Seeds whose programs are too long. */
function knownTooLong(name: string, variants: readonly PpcTarget[]): readonly number[] {
  if (isSoak || isWriting) return [];
  const lines = readFileSync(listPath(name), 'utf8').trimEnd().split('\n');
  const tools = versions(variants);
  if (tools.some((tool, i) => tool !== lines[i])) return [];
  return lines.slice(tools.length).flatMap((line) => line.split(' ').map(Number));
}

export function csmithTests(...targets: readonly (keyof typeof VARIANTS)[]): void {
  for (const name of targets) {
    const variants: readonly PpcTarget[] = VARIANTS[name];
    describeWith(['csmith', ...new Set(variants.map(({ gcc }) => gcc))], `csmith on ${name}`, () => {
      test('T-KP-1 T-KP-32 every instruction by breakpoint and by jump', () => {
        const begin = performance.now();
        const sum = {
          ...{ programs: 0, skipped: 0, tooLong: 0, instructions: 0, steppedOver: 0, probed: 0, executed: 0, hits: 0 },
          ...{ indeterminate: 0, traps: 0, jumps: 0, jumpBatches: 0, jumpHits: 0 },
        };
        const refusedProbes: Record<string, number> = {};
        const refusedJumps: Record<string, number> = {};
        const known = knownTooLong(name, variants);
        const tooLong: number[] = [];
        let seed = firstSeed(name);
        for (; sum.programs < PROGRAMS; seed++) {
          const isLarge = isSoak && seed % 10 === 0;
          // The first one is built all the same, and shows below that the list is right.
          if ((seed !== known[0] || !isLong) && known.includes(seed)) {
            sum.skipped++;
            continue;
          }
          // Every variant with every level.
          const level = LEVELS[Math.floor(seed / variants.length) % LEVELS.length]!;
          const path = buildCsmith(variants[seed % variants.length]!, level, seed, !isLarge);
          let proof;
          try {
            proof = prove(subjectOf(new Uint8Array(readFileSync(path))), [], HITS[isLarge ? 'large' : 'small']);
          } catch (cause) {
            throw new Error(`csmith ${seed} at ${path}`, { cause });
          }
          if (proof === null) {
            sum.tooLong++;
            tooLong.push(seed);
            continue;
          }
          sum.programs++;
          sum.probed += proof.places.length;
          const { instructions, steppedOver, executed, hits, indeterminate, traps, jumps, jumpBatches, jumpHits } =
            proof;
          add(sum, { instructions, steppedOver, executed, hits, indeterminate, traps, jumps, jumpBatches, jumpHits });
          add(refusedProbes, proof.refusedProbes);
          add(refusedJumps, proof.refusedJumps);
        }
        const seconds = Math.round((performance.now() - begin) / 1000);
        process.stderr.write(`${name}: ${JSON.stringify({ ...sum, refusedProbes, refusedJumps, seconds })}\n`);
        if (isWriting) {
          writeFileSync(listPath(name), `${[...versions(variants), tooLong.join(' ')].join('\n')}\n`);
        }
        expect(sum.programs).toBe(PROGRAMS);
        // Otherwise the list is to be written anew. A few programs may not come so far.
        if (known.length > 0 && isLong && known[0]! < seed) expect(tooLong).toContain(known[0]);
        expect(sum.jumpHits).toBeGreaterThan(300 * PROGRAMS);
        // What reads memory that it never wrote is an exception.
        expect(sum.indeterminate).toBeLessThan(sum.hits / 50);
      });
    });
  }
}
