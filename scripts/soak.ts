/**
 * `npm run soak [MUTANTS [MINUTES [PROGRAMS [BOOTS [PACKAGES]]]]]`: the fuzzers with more mutants
 * than CI has time for, counts printed, 100,000 sequences of the models of the ftrace core, both
 * tiers of the emulator in step for so many minutes (10), then probes on every instruction of so
 * many random programs for each target (1,000: hours), all mutants of what is laid in (PV-5), so many
 * boots of every kernel (5: an hour, and 5 GB of packages at the first time), and proofs of those in a
 * folder of unpacked packages (`soak-prove.ts`; none by default). Seeds are 1 to MUTANTS, so what
 * fails here fails again with the same number. `npm run soak -- native [PROGRAM …]` runs programs of
 * Debian that record their own calls (`soak-native.ts`), and nothing else.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const run = (script: string, ...args: string[]): number =>
  spawnSync(process.execPath, [join(root, 'build', 'scripts', script), ...args], { cwd: root, stdio: 'inherit' })
    .status ?? 1;

function everythingRandom(): number {
  const mutants = process.argv[2] ?? '200000';
  const jest = join(root, 'node_modules', 'jest', 'bin', 'jest.js');
  const result = spawnSync(
    process.execPath,
    [jest, 'elf-fuzz.test.js', 'pipeline-fuzz.test.js', 'inputs-fuzz.test.js'],
    {
      cwd: root,
      stdio: 'inherit',
      env: { ...process.env, ELFTRACE_MUTANTS: mutants, ELFTRACE_INPUT_MUTANTS: mutants },
    },
  );
  const core = run('soak-core.js');
  const tiers = run('soak-tiers.js', process.argv[3] ?? '10');
  const probes = run('soak-probes.js', process.argv[4] ?? '1000');
  const mutantsOfCode = run('mutants.js');
  const boots = run('boot.js', '--boots', process.argv[5] ?? '5');
  const packages = process.argv[6];
  const proofs = packages === undefined ? 0 : run('soak-prove.js', packages);
  return (result.status ?? 1) || core || tiers || probes || mutantsOfCode || boots || proofs;
}

process.exitCode = process.argv[2] === 'native' ? run('soak-native.js', ...process.argv.slice(3)) : everythingRandom();
