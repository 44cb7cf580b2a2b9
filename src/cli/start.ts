#!/usr/bin/env node
/**
 * The command line as a module, for who imports it: under another query it runs another command.
 * The shell starts `command.ts`.
 */
import type * as Main from './main.js';

const { search } = new URL(import.meta.url);

if (search === '') await import(new URL('./cli.cjs', import.meta.url).href);
else {
  const { main } = (await import(new URL(`./main.js${search}`, import.meta.url).href)) as typeof Main;
  await main(() => undefined);
}
