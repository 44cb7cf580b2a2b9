/**
 * `npm run soak [MUTANTS [MINUTES [PROGRAMS [BOOTS [PACKAGES]]]]]`: what takes longer than CI has,
 * one part after the other, with counts printed. Seeds are 1 to MUTANTS, so what fails here fails
 * again with the same number.
 *
 *   fuzzers of files and inputs, MUTANTS each (200,000)
 *   100,000 sequences of the models of the ftrace core
 *   both tiers of the emulator in step, for MINUTES (10)
 *   probes on every instruction of PROGRAMS random programs for each target (1,000: hours)
 *   the census: programs of a distribution on every machine (100 MB at the first time), and more of
 *   them (800 MB for each machine), also of this one
 *   random programs with floating point, 200 of each machine
 *   all mutants of what is laid in (PV-5)
 *   BOOTS boots of each kind of every kernel (5: an hour, and 5 GB at the first time)
 *   proofs of the kernels in PACKAGES, a folder of unpacked packages (none by default)
 *
 * `npm run soak -- native [PROGRAM …]`: programs of Debian that record their own calls, and nothing
 * else; `-- native --machine NAME [PROGRAM …]`: those of another machine, under qemu-user.
 * `-- traced [MACHINE …]`: programs of Debian with all sites enabled, in the emulator.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const run = (script: string, ...args: string[]): number =>
  spawnSync(process.execPath, [join(root, 'build', 'scripts', script), ...args], {
    cwd: root,
    stdio: 'inherit',
  }).status ?? 1;

function fuzz(mutants: string): number {
  const jest = join(root, 'node_modules', 'jest', 'bin', 'jest.js');
  const files = ['elf-fuzz', 'pipeline-fuzz', 'inputs-fuzz'].map((name) => `${name}.test.js`);
  const env = { ...process.env, ELFTRACE_MUTANTS: mutants, ELFTRACE_INPUT_MUTANTS: mutants };
  return spawnSync(process.execPath, [jest, ...files], { cwd: root, stdio: 'inherit', env }).status ?? 1;
}

/** Runs all parts, whatever fails; exit status of the first that failed. */
function soak([
  mutants = '200000',
  minutes = '10',
  programs = '1000',
  boots = '5',
  packages,
]: readonly string[]): number {
  const statuses = [
    fuzz(mutants),
    run('soak-core.js'),
    run('soak-tiers.js', minutes),
    run('soak-probes.js', programs),
    run('census/census.js'),
    run('census/census.js', '--more'),
    run('census/census.js', '--host'),
    run('soak-floats.js'),
    run('mutants.js'),
    run('boot.js', '--boots', boots),
    packages === undefined ? 0 : run('soak-prove.js', packages),
  ];
  return statuses.find((status) => status !== 0) ?? 0;
}

const [first, ...rest] = process.argv.slice(2);
const native = rest[0] === '--machine' ? ['soak-native-machines.js', ...rest.slice(1)] : ['soak-native.js', ...rest];
const own = first === 'traced' ? ['soak-traced.js', ...rest] : first === 'native' ? native : null;
process.exitCode = own ? run(own[0]!, ...own.slice(1)) : soak(process.argv.slice(2));
