/**
 * `node build/scripts/soak-race.js [SEQUENCES [SEED]]`: races for which CI has no time, counts
 * printed. Random sequences in the reduced set against the full one; then every program of the
 * samples from state to state, where the core's own sequences must hold in every order but for the
 * hazards that are known: pairs of RISC-V that are stored while somebody may stand between them,
 * sites of x86-64 that are two instructions, and trampolines of 2014, which are freed without a
 * wait for tasks (T-X86-6).
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ElftraceError } from '../src/errors.js';
import { imageRace, type ImageRaceRequest, parseRaceState, startRace } from '../src/race/index.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const [sequences = '2000', seed = '1'] = process.argv.slice(2);
const SECONDS = 60;
const samples = join(root, 'samples', 'built');
const targets = ['x86-64', 'ppc32', 'ppc64-elfv1', 'ppc64-elfv2-be', 'ppc64-elfv2-le', 'riscv64', 'arm64'];
const transitions = [
  'nop call',
  'call nop',
  'call list',
  'list call',
  'nop graph',
  'graph nop',
  'call function',
  'list nop',
];

const result = spawnSync(
  process.execPath,
  [join(root, 'node_modules', 'jest', 'bin', 'jest.js'), 'test/race.test.js'],
  {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ELFTRACE_RACES: sequences, ELFTRACE_SEED: seed },
  },
);

/** Whether a violation is one of those that are known. */
const isKnown = (target: string, program: string, preempt: string): boolean =>
  target === 'x86-64' && (program.includes('large') || (program.includes('mcount') && preempt === 'full'));

const counts = { holds: 0, known: 0, refused: 0, cut: 0, wrong: 0 };
let orders = 0n;
for (const target of targets) {
  for (const program of readdirSync(join(samples, target)).filter((name) => name.startsWith('program'))) {
    const image = new Uint8Array(readFileSync(join(samples, target, program)));
    for (const preempt of ['full', 'none'] as const) {
      // A pair is stored as kernels do it: with the machine stopped, where nobody is preempted.
      if (target === 'riscv64' && preempt === 'full') continue;
      for (const transition of transitions) {
        const [from, to] = transition.split(' ').map(parseRaceState);
        const request: ImageRaceRequest = {
          image, site: 'leaf', from: from!, to: to!, preempt, staleFetch: false,
          variants: target === 'riscv64' ? ['stopped'] : [],
        }; // prettier-ignore
        const name = `${target}/${program}: ${transition}, preemption ${preempt}`;
        try {
          const { scene, sequence, options } = imageRace(request);
          const search = startRace(scene, sequence, { ...options, shortest: false });
          const end = Date.now() + SECONDS * 1000;
          let step = search.next();
          while (step.done !== true) {
            if (Date.now() > end) search.interrupt({ kind: 'seconds', limit: SECONDS });
            step = search.next();
          }
          const { verdict, failing } = step.value;
          orders += step.value.counts.explored;
          if (verdict === 'holds') counts.holds++;
          else if (verdict === 'undecided') counts.cut++;
          else if (isKnown(target, program, preempt)) counts.known++;
          else {
            counts.wrong++;
            console.log(`${name}: ${failing!.violation.rule}: ${failing!.violation.message}`);
          }
        } catch (error) {
          if (!(error instanceof ElftraceError) || error.code === 'internal') throw error;
          counts.refused++;
        }
      }
    }
  }
}
console.log(`${orders} orders`, counts);
process.exitCode = result.status === 0 && counts.wrong === 0 ? 0 : 1;
