#!/usr/bin/env node
/**
 * What the shell starts. The bundle makes a script of it, no module: Node takes 6 ms more to begin
 * with a module, a quarter of its own start. So `--version` costs little more than Node itself; the
 * verbs are loaded for everything else, from code that was kept (`kept-code.ts`), or as modules,
 * whose compiled code Node keeps where it can (22.8 and newer; NODE_DISABLE_COMPILE_CACHE=1 turns
 * both off).
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { version } from '../version.js';
import { KeptCode } from './kept-code.js';
import type * as Main from './main.js';
import { SCRIPTS } from './prebuilt.js';
import { writeAll } from './write-all.js';

async function begin(): Promise<void> {
  const kept = KeptCode.of(process.argv[2]);
  let main = kept?.load();
  if (!main) {
    // Newer than the types at hand: those of the oldest Node that is served.
    (process.getBuiltinModule('node:module') as { enableCompileCache?: () => unknown }).enableCompileCache?.();
    ({ main } = (await import(pathToFileURL(join(import.meta.dirname, 'main.js')).href)) as typeof Main);
  }
  await main((machines, asUsual) => kept?.begun(machines, asUsual), SCRIPTS);
}

if (process.argv.length === 3 && process.argv[2] === '--version') writeAll(1, new TextEncoder().encode(`${version}\n`));
else void begin();
