/**
 * The command line a second time, as scripts: V8 gives the code that it has compiled for a script,
 * not for a module (`src/cli/kept-code.ts`). Each file of the bundle that the command line may load
 * is one, so that a start reads, and V8 makes, what the verb and the machine of its file need.
 *
 * A script is a function of what a module has from Node: `require`; `__import` in place of
 * `import()`, of a file or a package, or of a function that gives what a file would that only hands
 * on what others export; `__load(file)`, what another file of the bundle exports, and
 * `__give(exports, names)`, both as lists, since an object of 700 names takes V8 a millisecond; and
 * `__url()`, of a file beside those of the bundle.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import type { BuildOptions, Metafile, Plugin } from 'esbuild';

interface Module {
  readonly exports: readonly string[];
  /** Files of the bundle: those that are loaded with it, and those that it may ask for. */
  readonly imports: readonly string[];
  readonly asked: readonly string[];
}

type Modules = ReadonlyMap<string, Module>;

const isOfBundle: Plugin = {
  name: 'of-bundle',
  setup: ({ onResolve }) => {
    onResolve({ filter: /^\.\// }, ({ path, kind }) => (kind === 'entry-point' ? null : { path, external: true }));
  },
};

async function modulesOf(files: readonly string[], options: BuildOptions): Promise<Modules> {
  const entryPoints = files.map((name) => `./dist/${name}`);
  const how: BuildOptions = { ...options, entryPoints, outdir: 'dist', format: 'esm', plugins: [isOfBundle] };
  const { metafile } = await build({ ...how, write: false, metafile: true } as const);
  const named = (imports: Metafile['outputs'][string]['imports'], wanted: string): readonly string[] =>
    imports.filter(({ path, kind }) => path.startsWith('./') && kind === wanted).map(({ path }) => path.slice(2));
  return new Map(
    Object.entries(metafile.outputs).map(([path, { exports, imports }]) => [
      path.slice('dist/'.length),
      { exports, imports: named(imports, 'import-statement'), asked: named(imports, 'dynamic-import') },
    ]),
  );
}

/**
 * A file and all that it loads or may ask for. Scripts have no bindings before they are evaluated.
 * @throws Error where files load each other
 */
function reachedFrom(first: string, modules: Modules): ReadonlySet<string> {
  const reached = new Set<string>();
  const walk = (name: string, above: readonly string[]): void => {
    if (above.includes(name)) throw new Error(`files load each other: ${[...above, name].join(', ')}`);
    if (reached.has(name)) return;
    for (const other of modules.get(name)!.imports) walk(other, [...above, name]);
    reached.add(name);
    for (const other of modules.get(name)!.asked) walk(other, []);
  };
  walk(first, []);
  return reached;
}

/** The text of a script. */
async function scriptOf(name: string, modules: Modules, options: BuildOptions): Promise<string> {
  const given = modules.get(name)!.exports.join();
  const others: Plugin = {
    name: 'others',
    setup: ({ onResolve, onLoad }) => {
      onResolve({ filter: /^\.\// }, ({ path, kind, importer }) => {
        if (importer === '<stdin>') return null;
        return kind === 'import-statement' ? { path: path.slice(2), namespace: 'other' } : { path, external: true };
      });
      // What is not used of Node is not loaded.
      onResolve({ filter: /^node:/ }, ({ path }) => ({ path, external: true, sideEffects: false }));
      onLoad({ filter: /.*/, namespace: 'other' }, ({ path }) => {
        const names = modules
          .get(path)!
          .exports.map((each, at) => `export const ${each} = /* @__PURE__ */ __of(loaded, ${at});`);
        return { contents: `const loaded = __load('${path}');${names.join('')}` };
      });
    },
  };
  const { outputFiles } = await build({
    ...options,
    format: 'cjs',
    charset: 'ascii',
    define: { 'import.meta.url': '__url' },
    plugins: [others],
    stdin: { contents: `import {${given}} from './${name}'; __give([${given}], '${given}');`, resolveDir: 'dist' },
    write: false,
  });
  const bundled = outputFiles[0]!.text;
  if (/\bimport_node_\w+\.default\b/.test(bundled)) throw new Error(`${name} asks for what Node exports by default`);
  const text = bundled
    // Which copies all that a part of Node has.
    .replace(/\b__toESM\((require\("node:[\w/]+"\)),1\)/g, '$1')
    .replace(/\b__of\((\w+),(\d+)\)/g, '$1[$2]')
    .replace(/\b__url\b/g, '__url()')
    .replace(/\bimport\(("[^"]+")\)/g, '__import($1)');
  return text;
}

/** Whether a script only hands on what others export. */
function isHandedOn(text: string): boolean {
  const value = String.raw`(?:__load\("[^"]+"\)|\w+\[\d+\])`;
  const declared = new RegExp(String.raw`var \w+=${value}(?:,\w+=${value})*;`, 'g');
  return /^\s*__give\(\[[\w,]*\],"[^"]*"\);\s*$/.test(text.replace(declared, ''));
}

/**
 * Writes the scripts of all that `first` may load to dist/scripts.
 * @param files  of the bundle
 * @param options  that all builds have
 * @returns a name for all of them, which other ones do not have
 */
export async function writeScripts(first: string, files: readonly string[], options: BuildOptions): Promise<string> {
  const modules = await modulesOf(files, options);
  const folder = join(options.absWorkingDir!, 'dist', 'scripts');
  mkdirSync(folder);
  const digest = createHash('sha256');
  const texts = new Map<string, string>();
  for (const name of [...reachedFrom(first, modules)].sort()) texts.set(name, await scriptOf(name, modules, options));
  const handedOn = new Map([...texts].filter(([, text]) => isHandedOn(text)));
  for (const [name, bundled] of texts) {
    if (handedOn.has(name)) continue;
    const text = bundled.replace(/\b__import\("\.\/([^"]+)"\)/g, (call, asked: string) => {
      const inside = handedOn.get(asked);
      return inside === undefined ? call : `__import(function(__give){${inside.trim()}})`;
    });
    digest.update(`${name}\n${text}\n`);
    const script = `(function(require,__import,__load,__give,__url){${text}})`;
    writeFileSync(join(folder, name.replace(/\.js$/, '.cjs')), script);
  }
  return `scripts-${digest.digest('hex').slice(0, 8)}`;
}
