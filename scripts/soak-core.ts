/**
 * `node build/scripts/soak-core.js [SEQUENCES [SEED]]`: the model tests of the ftrace core, in
 * memory made up and on images that run, with more sequences than CI has time for, counts printed.
 * The same seed gives the same sequences; what fails is printed shrunk.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const [sequences = '100000', seed = '1'] = process.argv.slice(2);
const result = spawnSync(
  process.execPath,
  [join(root, 'node_modules', 'jest', 'bin', 'jest.js'), 'core-model.test.js', 'image-model.test.js'],
  {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      ELFTRACE_SEQUENCES: sequences,
      ELFTRACE_IMAGE_MODEL: sequences,
      ELFTRACE_IMAGES: '10',
      ELFTRACE_SEED: seed,
    },
  },
);
process.exitCode = result.status ?? 1;
