/**
 * `node build/scripts/soak-probes.js [PROGRAMS [SEED]]`: every instruction of random programs by
 * breakpoint and by jump, so many for each target, with counts of what was probed, optimised and
 * refused; and every branch into the windows of as many programs with cold parts. The same seed
 * gives the same programs; those of CI begin with 1.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const [programs = '1000', seed = '1001'] = process.argv.slice(2);
const result = spawnSync(
  process.execPath,
  [join(root, 'node_modules', 'jest', 'bin', 'jest.js'), 'kprobes-csmith|kprobes-windows', '--testTimeout', '36000000'],
  {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      ELFTRACE_PROBE_PROGRAMS: programs,
      ELFTRACE_WINDOW_PROGRAMS: programs,
      // Every branch, however many lead to one place.
      ELFTRACE_WINDOW_WAYS: '1000000',
      ELFTRACE_SEED: seed,
    },
  },
);
process.exitCode = result.status ?? 1;
