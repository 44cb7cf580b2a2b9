#!/usr/bin/env node
/**
 * What the shell starts. `--version` costs little more than Node itself: yargs and the verbs are
 * loaded for everything else. Node keeps compiled code from one start to the next where it can
 * (22.8 and newer; NODE_DISABLE_COMPILE_CACHE=1 turns that off).
 */
import module from 'node:module';
import { version } from '../version.js';

// Newer than the types at hand: those of the oldest Node that is served.
(module as { enableCompileCache?: () => unknown }).enableCompileCache?.();

if (process.argv.length === 3 && process.argv[2] === '--version') {
  const { flush, freeStandardOutput, out } = await import('./terminal.js');
  freeStandardOutput();
  out(version);
  flush();
} else {
  // Who imports this file again under another query runs another command.
  await import(new URL(`./main.js${new URL(import.meta.url).search}`, import.meta.url).href);
}
