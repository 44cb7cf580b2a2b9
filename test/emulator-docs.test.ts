/**
 * The examples of docs/emulator.md, docs/race.md and docs/library.md: each is type-checked against
 * the library and run.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import ts from 'typescript';

const build = join(dirname(fileURLToPath(import.meta.url)), '..');
const root = join(build, '..');
const blocks = ['docs/emulator.md', 'docs/race.md', 'docs/library.md'].flatMap((name) =>
  [...readFileSync(join(root, name), 'utf8').matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map((match) => match[1]!),
);
// Beside the sources, so that types and packages are found as they are from there.
const folder = join(build, 'docs-examples');
mkdirSync(folder, { recursive: true });

const options: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  lib: ['lib.es2023.d.ts'],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ['node'],
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: true,
  noEmit: true,
};

const files = blocks.map((text, index) => {
  const path = join(folder, `example-${index}.mts`);
  writeFileSync(path, text.replace("from 'elftrace'", "from '../../dist/types/index.js'"));
  return path;
});

describe('docs/emulator.md, docs/race.md, docs/library.md', () => {
  test('the examples have the right types', () => {
    expect(blocks.length).toBeGreaterThanOrEqual(5);
    const program = ts.createProgram(files, options);
    const host: ts.FormatDiagnosticsHost = {
      getCanonicalFileName: (name) => name,
      getCurrentDirectory: () => root,
      getNewLine: () => '\n',
    };
    // The sources are checked by the build; here only what the examples say.
    const found = files.flatMap((file) => ts.getPreEmitDiagnostics(program, program.getSourceFile(file)));
    expect(ts.formatDiagnostics(found, host)).toBe('');
  });

  test.each(blocks.map((_, index) => ({ index })))('example $index runs', async ({ index }) => {
    const { outputText } = ts.transpileModule(blocks[index]!, {
      compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
    });
    const path = join(folder, `example-${index}.mjs`);
    // The bundle, as users have it: scripts of pages are in it alone.
    writeFileSync(path, outputText.replace("from 'elftrace'", "from '../../dist/index.js'"));
    await import(pathToFileURL(path).href);
  });
});
