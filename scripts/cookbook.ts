/**
 * The recipes of `docs/cookbook`, and other pages with commands: these are run, one block after the
 * other in one folder for each page, and what they print is what the page shows.
 *
 *   node build/scripts/cookbook.js --write    runs all and writes the outputs into the pages
 *
 * A block of `console` has commands behind `$ ` and their output, both streams, as a terminal has
 * them. The comment `<!-- files: NAME=SAMPLE … -->` says which bundled samples lie in the folder.
 * Needs dist/cli.cjs and bash, and the tools that a page names in `<!-- tools: … -->`.
 */
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
export const cookbook = join(root, 'docs', 'cookbook');

/** Names of all recipes. */
export const recipes = (): string[] => readdirSync(cookbook).filter((name) => name !== 'README.md');

/** Paths of all pages whose commands are run. */
export const pages = (): string[] => [
  ...recipes().map((name) => join(cookbook, name)),
  join(root, 'docs', 'mechanisms.md'),
  join(root, 'README.md'),
];

const words = (text: string, kind: string): string[] =>
  [...text.matchAll(new RegExp(`^<!-- ${kind}: (.*) -->$`, 'gm'))].flatMap(([, list]) => list!.split(' '));

/** Tools that a page needs. */
export const toolsOf = (text: string): string[] => words(text, 'tools');

/** The same page with the outputs that its commands have now. */
export function cooked(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'cookbook-'));
  try {
    mkdirSync(join(folder, 'bin'));
    const cli = join(root, 'dist', 'cli.cjs');
    writeFileSync(join(folder, 'bin', 'elftrace'), `#!/bin/sh\nexec "${process.execPath}" "${cli}" "$@"\n`, {
      mode: 0o755,
    });
    const cwd = join(folder, 'work');
    mkdirSync(cwd);
    for (const each of words(text, 'files')) {
      const [name, sample] = each.split('=') as [string, string];
      mkdirSync(dirname(join(cwd, name)), { recursive: true });
      copyFileSync(join(root, 'samples', 'built', sample), join(cwd, name));
    }
    const PATH = `${join(folder, 'bin')}:${process.env['PATH'] ?? ''}`;
    const env = { ...process.env, PATH, NODE_OPTIONS: '', LC_ALL: 'C', CI: 'true' };
    return text.replaceAll(/^```console\n([^]*?)^```$/gm, (_, block: string) => {
      const commands = block.split('\n').filter((line) => line.startsWith('$ '));
      const shown = commands.map((line) => {
        const both = `exec 2>&1 </dev/null; ${line.slice(2)}`;
        const { stdout } = spawnSync('bash', ['-c', both], { cwd, env, encoding: 'utf8' });
        return `${line}\n${stdout}`;
      });
      return `\`\`\`console\n${shown.join('')}\`\`\``;
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const path of pages()) writeFileSync(path, cooked(readFileSync(path, 'utf8')));
}
