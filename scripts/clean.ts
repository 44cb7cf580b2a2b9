/**
 * Removes what was compiled from sources that are gone: tsc leaves it, and jest would run tests that nobody has any more. Part of the build.
 */
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const build = join(root, 'build');

for (const entry of readdirSync(build, { recursive: true, withFileTypes: true })) {
  const compiled = /^(.*?)\.(?:js|js\.map|d\.ts)$/.exec(entry.name);
  if (!entry.isFile() || !compiled) continue;
  const folder = relative(build, entry.parentPath);
  if (!existsSync(join(root, folder, `${compiled[1]!}.ts`))) rmSync(join(entry.parentPath, entry.name));
}
