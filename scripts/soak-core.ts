/**
 * `node build/scripts/soak-core.js [SEQUENCES [SEED]]`: the model test of the ftrace core with more sequences than CI has time for, counts printed.
 * The same seed gives the same sequences; what fails is printed shrunk.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const [sequences = '100000', seed = '1'] = process.argv.slice(2);
const result = spawnSync(
  process.execPath,
  [join(root, 'node_modules', 'jest', 'bin', 'jest.js'), 'core-model.test.js'],
  { cwd: root, stdio: 'inherit', env: { ...process.env, ELFTRACE_SEQUENCES: sequences, ELFTRACE_SEED: seed } },
);
process.exitCode = result.status ?? 1;
