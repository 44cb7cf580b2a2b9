/** README.md and the library example in it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './pipeline.js';

export function readme(): string {
  return readFileSync(join(root, 'README.md'), 'utf8');
}

/** The one block of JavaScript. */
export function libraryExample(): string {
  const blocks = [...readme().matchAll(/^```js\n([\s\S]*?)^```$/gm)];
  if (blocks.length !== 1) throw new Error(`README.md has ${blocks.length} blocks of JavaScript, not one`);
  return blocks[0]![1]!;
}
