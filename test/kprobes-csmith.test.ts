/**
 * Breakpoint path and jump path of every instruction of random programs (csmith, fixed seeds). ELFTRACE_PROBE_PROGRAMS and ELFTRACE_SEED: other
 * numbers of programs and other first seeds (`node build/scripts/soak-probes.js`).
 */
import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import {
  ARM64_CSMITH_TARGETS,
  buildCsmith,
  LEVELS,
  RISCV_TARGETS,
  TARGETS as PPC_TARGETS,
  X86_TARGETS,
} from './support/c-programs.js';
import { prove, subjectOf } from './support/probe-proof.js';
import { describeWith } from './support/tools.js';

/** The others are probed where more programs are asked for. */
const ALL = [
  { target: X86_TARGETS[2]!, scratch: [] as readonly string[], redZone: 128 },
  ...PPC_TARGETS.map((target) => ({ target, scratch: ['dar', 'dsisr'], redZone: 288 })),
  { target: RISCV_TARGETS[0]!, scratch: [], redZone: 288 },
  { target: ARM64_CSMITH_TARGETS[0]!, scratch: [], redZone: 288 },
];
const TARGETS = process.env['ELFTRACE_PROBE_PROGRAMS'] === undefined ? ALL.slice(0, 1) : ALL;
const PROGRAMS = Number(process.env['ELFTRACE_PROBE_PROGRAMS'] ?? 6);
const FIRST = Number(process.env['ELFTRACE_SEED'] ?? 1001);
/** Programs that execute more instructions of their own are left out. */
const HITS = 60_000;

function add(sum: Record<string, number>, more: Readonly<Record<string, number>>): void {
  for (const [key, value] of Object.entries(more)) sum[key] = (sum[key] ?? 0) + value;
}

for (const { target, scratch, redZone } of TARGETS) {
  describeWith(['csmith', target.gcc], `csmith on ${target.name}`, () => {
    test('T-KP-1 T-KP-32 every instruction by breakpoint and by jump', () => {
      const sum = { programs: 0, tooLong: 0, instructions: 0, probed: 0, hits: 0, jumps: 0, jumpHits: 0 };
      const refusedProbes: Record<string, number> = {};
      const refusedJumps: Record<string, number> = {};
      for (let seed = FIRST; sum.programs < PROGRAMS; seed++) {
        const path = buildCsmith(target, LEVELS[seed % LEVELS.length]!, seed);
        let proof;
        try {
          proof = prove(subjectOf(new Uint8Array(readFileSync(path)), scratch, redZone), [], HITS);
        } catch (cause) {
          throw new Error(`csmith ${seed} at ${path}`, { cause });
        }
        if (proof === null) {
          sum.tooLong++;
          continue;
        }
        sum.programs++;
        sum.instructions += proof.instructions;
        sum.probed += proof.places.length;
        sum.hits += proof.hits;
        sum.jumps += proof.jumps;
        sum.jumpHits += proof.jumpHits;
        add(refusedProbes, proof.refusedProbes);
        add(refusedJumps, proof.refusedJumps);
      }
      process.stderr.write(`${target.name}: ${JSON.stringify({ ...sum, refusedProbes, refusedJumps })}\n`);
      expect(sum.programs).toBe(PROGRAMS);
      expect(sum.jumpHits).toBeGreaterThan(1000);
    });
  });
}
