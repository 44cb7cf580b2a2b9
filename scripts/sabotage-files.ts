/**
 * A part of `npm run test:sabotage -- --prove`: patches samples with the code that lies beside it,
 * one after another in one process. `sabotage-files.js FOLDER NAME...`: images by the names of
 * scripts/sabotage-prove.ts; each is written to FOLDER/NUMBER.
 */
import { copyFileSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type * as Main from '../src/cli/main.js';
import { argumentsOf } from '../test/support/mutant-images.js';
import { root } from '../test/support/pipeline.js';
import { imageNamed } from './sabotage-prove.js';

const main = join(root, 'build', 'src', 'cli', 'main.js');
const [folder, ...names] = process.argv.slice(2) as [string, ...string[]];

for (const [number, name] of names.entries()) {
  const image = imageNamed(name)!;
  const session = join(folder, `${number}.session`);
  if (image.session !== undefined) writeFileSync(session, image.session);
  const output = join(folder, `${number}`);
  process.argv = [process.execPath, main, ...argumentsOf(image, session, `${output}.new`)];
  process.exitCode = undefined;
  // The query makes it a module of its own, evaluated anew; what it imports is shared.
  const { main: run } = (await import(`${pathToFileURL(main).href}?${number}`)) as typeof Main;
  await run(() => undefined);
  if (existsSync(`${output}.new`)) copyFileSync(`${output}.new`, output);
}
process.exitCode = 0;
