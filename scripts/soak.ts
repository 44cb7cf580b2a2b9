/**
 * `npm run soak [MUTANTS [MINUTES [PROGRAMS [BOOTS [PACKAGES]]]]]`: the fuzzers with more mutants
 * than CI has time for, counts printed, 100,000 sequences of the models of the ftrace core, both
 * tiers of the emulator in step for so many minutes (10), then probes on every instruction of so
 * many random programs for each target (1,000: hours), all mutants of what is laid in (PV-5), so
 * many boots of each kind of every kernel (5: an hour, and 5 GB of packages at the first time), and proofs of the kernels in a
 * folder of unpacked packages (`soak-prove.ts`; none by default). Seeds are 1 to MUTANTS, so what
 * fails here fails again with the same number.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const mutants = process.argv[2] ?? '200000';
const result = spawnSync(
  process.execPath,
  [
    join(root, 'node_modules', 'jest', 'bin', 'jest.js'),
    'elf-fuzz.test.js',
    'pipeline-fuzz.test.js',
    'inputs-fuzz.test.js',
  ],
  { cwd: root, stdio: 'inherit', env: { ...process.env, ELFTRACE_MUTANTS: mutants, ELFTRACE_INPUT_MUTANTS: mutants } },
);
const run = (script: string, ...args: string[]): number =>
  spawnSync(process.execPath, [join(root, 'build', 'scripts', script), ...args], { cwd: root, stdio: 'inherit' })
    .status ?? 1;
const core = run('soak-core.js');
const tiers = run('soak-tiers.js', process.argv[3] ?? '10');
const probes = run('soak-probes.js', process.argv[4] ?? '1000');
const mutantsOfCode = run('mutants.js');
const boots = run('boot.js', '--boots', process.argv[5] ?? '5');
const packages = process.argv[6];
const proofs = packages === undefined ? 0 : run('soak-prove.js', packages);
process.exitCode = (result.status ?? 1) || core || tiers || probes || mutantsOfCode || boots || proofs;
