/**
 * Bundles our own code (and yargs, which costs 50 ms to import otherwise) for start-up:
 * dist/cli.js, dist/worker.js and dist/index.js, and the command line a second time as scripts,
 * whose compiled code can be kept; writes the declaration files. The engines (capstone, keystone),
 * elfy and the unpackers stay dependencies. What is no code is a file in dist/data, read when it is
 * asked for: V8 scans every byte of a module at each start.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { deflateRawSync } from 'node:zlib';
import { build } from 'esbuild';
import type { BuildOptions, Metafile, Plugin } from 'esbuild';
import { arm64Table } from '../src/arch-arm64/isa.js';
import { ppc32Table, ppc64Table } from '../src/arch-ppc/isa.js';
import { riscvTable } from '../src/arch-riscv/isa.js';
import { opcodeTables } from '../src/arch-x86/opcode-map.js';
import { arches } from '../src/arches.js';
import { HANDLER_KEYS } from '../src/emulator/handlers.js';
import { generateInterpreter, moduleKey } from '../src/emulator/interpreter.js';
import { objectBytes } from '../src/runtime/object-bytes.js';
import { OBJECTS } from '../src/runtime/objects.js';
import { writeScripts } from './bundle-scripts.js';
import { writeManPages } from './man-pages.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const dist = join(root, 'dist');
const external = ['capstone-wasm', 'keystone-wasm', 'elfy', 'xz-decompress', 'fzstd', 'protobufjs'];

/** Puts a file into dist/data; gives the JavaScript that reads it where a module says `reader`. */
function data(name: string, bytes: Uint8Array | string): string {
  writeFileSync(join(dist, 'data', name), bytes);
  return `read('${name}')`;
}
/** Chunks lie in dist itself, whatever they are called. */
const reader = `
  import { readFileSync } from 'node:fs';
  const read = (name) => readFileSync(new URL('./data/' + name, import.meta.url));`;

/**
 * Fills `emulator/prebuilt.js` with the modules of all machines; `isa/prebuilt.js` and
 * `arch-x86/prebuilt.js` with all instruction sets.
 */
const prebuilt: Plugin = {
  name: 'prebuilt',
  setup: ({ onLoad }) => {
    onLoad({ filter: /[/\\]emulator[/\\]prebuilt\.js$/ }, () => {
      const modules = new Map<string, string>();
      for (const { emulation } of arches) {
        if (emulation.kind === 'none') continue;
        const key = moduleKey(emulation.lifter);
        if (modules.has(key)) continue;
        modules.set(key, data(`tier0-${modules.size}.wasm`, generateInterpreter(emulation.lifter)));
      }
      const entries = [...modules].map(([key, bytes]) => `['${key}', () => new Uint8Array(${bytes})]`);
      const keys = `export const PREBUILT_HANDLERS = '${HANDLER_KEYS.join(' ')}'.split(' ');`;
      return { contents: `${reader} export const PREBUILT = new Map([${entries.join()}]); ${keys}` };
    });
    onLoad({ filter: /[/\\]isa[/\\]prebuilt\.js$/ }, () => {
      const entries = [ppc32Table, ppc64Table, riscvTable, arm64Table].map(({ name, data: table }) => {
        const bytes = data(`table-${name}.json`, JSON.stringify(table));
        return `['${name}', () => JSON.parse(${bytes}.toString('utf8'))]`;
      });
      return { contents: `${reader} export const PREBUILT_TABLES = new Map([${entries.join()}]);` };
    });
    onLoad({ filter: /[/\\]arch-x86[/\\]prebuilt\.js$/ }, () => {
      const entries = [...opcodeTables].map(
        ([name, { data: lines }]) =>
          `['${name}', () => ${data(`opcodes-${name.replace(' ', '-')}.txt`, lines)}.toString('utf8')]`,
      );
      return { contents: `${reader} export const PREBUILT_MAPS = new Map([${entries.join()}]);` };
    });
  },
};

/**
 * Puts the objects of the runtime beside the code as one compressed file, which is unpacked when
 * the first of them is asked for.
 */
const objects: Plugin = {
  name: 'objects',
  setup: ({ onLoad }) => {
    onLoad({ filter: /[/\\]runtime[/\\]object-bytes\.js$/ }, () => {
      const parts: Uint8Array[] = [];
      let end = 0;
      const places = Object.keys(OBJECTS).map((key) => {
        const bytes = objectBytes(key);
        parts.push(bytes);
        end += bytes.length;
        return `'${key}': [${end - bytes.length}, ${end}]`;
      });
      const packed = data('objects.bin', deflateRawSync(Buffer.concat(parts), { level: 9 }));
      const contents = `${reader}
        let all;
        const places = { ${places.join()} };
        export const objectBytes = (key) => {
          all ??= process.getBuiltinModule('node:zlib').inflateRawSync(${packed});
          return new Uint8Array(all.subarray(...places[key]));
        };`;
      return { contents };
    });
  },
};

/**
 * The script of pages: `src/page/client` with what it imports, in one text, headed by the licence
 * of the package in it.
 */
const pageScript: Plugin = {
  name: 'page-script',
  setup: ({ onLoad }) => {
    onLoad({ filter: /[/\\]page[/\\]prebuilt\.js$/ }, async () => {
      const licence = readFileSync(join(root, 'node_modules', '@tanstack', 'virtual-core', 'LICENSE'), 'utf8');
      const { outputFiles } = await build({
        absWorkingDir: root,
        entryPoints: ['build/src/page/client/main.js'],
        bundle: true,
        write: false,
        format: 'iife',
        platform: 'browser',
        target: ['chrome103', 'firefox113', 'safari16.4'],
        charset: 'ascii',
        minify: true,
        legalComments: 'none',
        define: { 'process.env.NODE_ENV': '"production"' },
        banner: { js: `/* TanStack Virtual:\n${licence.trim()}\n*/` },
        logLevel: 'warning',
      });
      return { contents: `export const PAGE_SCRIPT = ${JSON.stringify(outputFiles[0]!.text)};` };
    });
  },
};

/**
 * The widths of help texts, which yargs asks `string-width` for. That package makes a segmenter and
 * a class of all emoji when it is loaded, which is a sixth of the time of a small `verify`, and
 * needs neither for ASCII; here it is loaded for the first text that is something else.
 */
const widths: Plugin = {
  name: 'widths',
  setup: ({ onResolve, onLoad, resolve }) => {
    const real = { kind: 'require-call', resolveDir: root, pluginData: 'real' } as const;
    onResolve({ filter: /^string-width$/ }, ({ pluginData }) =>
      pluginData === 'real' ? null : { path: 'string-width', namespace: 'widths' },
    );
    onLoad({ filter: /.*/, namespace: 'widths' }, async () => {
      const { path } = await resolve('string-width', real);
      const plain = '/^[\\x20-\\x7e]*$/.test(text)';
      const wide = `require(${JSON.stringify(path)}).default(text, options)`;
      return { contents: `export default (text, options) => ${plain} ? text.length : ${wide};`, resolveDir: root };
    });
  },
};

/** `assert` of Node loads what prints its errors, for the two comparisons that yargs makes. */
const assertions: Plugin = {
  name: 'assertions',
  setup: ({ onResolve, onLoad }) => {
    onResolve({ filter: /^assert$/ }, () => ({ path: 'assert', namespace: 'assertions' }));
    onLoad({ filter: /.*/, namespace: 'assertions' }, () => ({
      contents: `const real = () => require('node:assert');
        export const strictEqual = (a, b, why) => { if (!Object.is(a, b)) real().strictEqual(a, b, why); };
        export const notStrictEqual = (a, b, why) => { if (Object.is(a, b)) real().notStrictEqual(a, b, why); };`,
    }));
  },
};

/** What all builds are told, those of what was bundled already, too. */
const rebuilt: BuildOptions = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node20',
  external,
  // Half the text to parse at start-up; names stay, so that a stack trace can be read.
  minifyWhitespace: true,
  minifySyntax: true,
  legalComments: 'none',
  logLevel: 'warning',
};

/** What builds of our own code are told. */
const usual: BuildOptions = {
  ...rebuilt,
  plugins: [prebuilt, objects, pageScript, widths, assertions],
  alias: { yaml: './node_modules/yaml/browser/index.js' },
};

/** Writes dist/cli.cjs, which the shell starts. @param scripts  the name of those beside it */
async function writeCommand(scripts: string): Promise<void> {
  const name: Plugin = {
    name: 'scripts',
    setup: ({ onLoad }) => {
      onLoad({ filter: /[/\\]cli[/\\]prebuilt\.js$/ }, () => ({ contents: `export const SCRIPTS = '${scripts}';` }));
    },
  };
  await build({
    ...usual,
    format: 'cjs',
    charset: 'ascii',
    define: { 'import.meta.dirname': '__dirname' },
    // Each start parses it, and no error leads here.
    minifyIdentifiers: true,
    plugins: [name],
    entryPoints: ['build/src/cli/command.js'],
    outfile: 'dist/cli.cjs',
  });
}

type Outputs = Metafile['outputs'];

/** What these files import, without asking for it later, and what that imports. */
function importedBy(files: readonly string[], outputs: Outputs): Set<string> {
  const found = new Set<string>();
  const walk = (file: string): void => {
    for (const { path, kind } of outputs[file]!.imports) {
      if (kind !== 'import-statement' || !(path in outputs) || found.has(path)) continue;
      found.add(path);
      walk(path);
    }
  };
  files.forEach(walk);
  return found;
}

/** The file that begins with a source. */
function fileOf(source: string, outputs: Outputs): string {
  const file = Object.keys(outputs).find((path) => outputs[path]!.entryPoint === `build/src/${source}`);
  if (file === undefined) throw new Error(`nothing begins with ${source}`);
  return file;
}

/** Machines without what runs code. */
const stillMachines = ['arm64', 'ppc', 'riscv', 'x86'].map((machine) => `arch-${machine}/still.js`);

/**
 * Files that chunks are joined to, in this order: what the sources of the first list take, all of
 * it; of the second list, what two of its sources take at least. What each verb takes is one file,
 * what `verify` takes besides another, of which most verbs take a part, with what machines have in
 * common; what changes files, and of that what `patch` alone has.
 */
const joins: readonly (readonly [name: string, all: readonly string[], shared: readonly string[]])[] = [
  ['verbs.js', ['cli/main.js'], []],
  ['sites.js', ['cli/verify.js'], stillMachines],
  ['choosing.js', ['cli/list.js'], []],
  ['changing.js', [], ['cli/patch.js', 'cli/apply.js']],
  ['patching.js', ['cli/patch.js'], []],
];

/**
 * Chunks that become one file. esbuild cuts a chunk for each set of verbs that share something, and
 * Node takes a third of a millisecond for each file that it finds, whatever is in it.
 */
interface Joined {
  /** Without its folder. */
  readonly name: string;
  readonly files: ReadonlySet<string>;
}

function chunksToJoin(outputs: Outputs): readonly Joined[] {
  const taken = new Set<string>();
  return joins.map(([name, all, shared]) => {
    const takenBy = (source: string): string[] => [...importedBy([fileOf(source, outputs)], outputs)];
    const counts = new Map<string, number>();
    for (const file of shared.flatMap(takenBy)) counts.set(file, (counts.get(file) ?? 0) + 1);
    const wanted = [...all.flatMap(takenBy), ...[...counts.keys()].filter((file) => counts.get(file)! > 1)];
    const files = wanted.filter((file) => !taken.has(file) && outputs[file]!.entryPoint === undefined);
    for (const file of files) taken.add(file);
    return { name, files: new Set(files) };
  });
}

/**
 * Writes the joined files, with what their chunks export under names that are their own, lets the
 * other files import from there, and removes the chunks.
 */
async function joinChunks(outputs: Outputs, all: readonly Joined[]): Promise<void> {
  const chunks = all.flatMap(({ files }) => [...files]);
  const renamed = (chunk: string, write: (name: string, unique: string) => string): string =>
    outputs[chunk]!.exports.map((name) => write(name, `${name}_${chunks.indexOf(chunk)}`)).join();
  /** A build of files in which chunks are found where they are now. */
  const rebuild = (options: BuildOptions, inside?: Joined): Promise<unknown> =>
    build({
      ...rebuilt,
      format: 'esm',
      ...options,
      plugins: [
        {
          name: 'joined',
          setup: ({ onResolve, onLoad }) => {
            onResolve({ filter: /^\.\// }, ({ path, kind }) => {
              if (kind === 'entry-point') return null;
              const chunk = join('dist', path);
              if (inside?.files.has(chunk)) return { path: join(root, chunk) };
              const isJoined = kind === 'import-statement' && chunks.includes(chunk);
              return isJoined ? { path: chunk, namespace: 'joined' } : { path, external: true };
            });
            onLoad({ filter: /.*/, namespace: 'joined' }, ({ path }) => {
              const names = renamed(path, (name, unique) => `${unique} as ${name}`);
              return { contents: `export {${names}} from './${all.find(({ files }) => files.has(path))!.name}';` };
            });
          },
        },
      ],
    });
  for (const each of all) {
    const lines = [...each.files].map(
      (file) => `export {${renamed(file, (name, unique) => `${name} as ${unique}`)}} from './${basename(file)}';`,
    );
    await rebuild({ stdin: { contents: lines.join('\n'), resolveDir: dist }, outfile: join('dist', each.name) }, each);
  }
  const entryPoints = Object.keys(outputs).filter((file) => !chunks.includes(file));
  await rebuild({ entryPoints, outdir: 'dist', allowOverwrite: true });
  for (const chunk of chunks) rmSync(join(root, chunk));
}

/** yargs reaches for `require` in some paths, as esbuild's code does; an ES module has none. */
function giveRequire(): void {
  const make = "process.getBuiltinModule('node:module').createRequire(import.meta.url)";
  const line = `const require = (name) => ${make}(name);\n`;
  for (const name of readdirSync(dist).filter((each) => each.endsWith('.js'))) {
    const text = readFileSync(join(dist, name), 'utf8');
    if (text.includes('typeof require')) writeFileSync(join(dist, name), line + text);
  }
}

rmSync(dist, { recursive: true, force: true });
mkdirSync(join(dist, 'data'), { recursive: true });
const { metafile } = await build({
  ...usual,
  entryPoints: {
    cli: 'build/src/cli/start.js',
    main: 'build/src/cli/main.js',
    worker: 'build/src/cli/worker.js',
    index: 'build/src/index.js',
  },
  outdir: 'dist',
  splitting: true,
  format: 'esm',
  // Beside the entry points: shared code finds worker.js as its neighbour, bundled or not.
  chunkNames: '[name]-[hash]',
  metafile: true,
});
giveRequire();
await joinChunks(metafile.outputs, chunksToJoin(metafile.outputs));
const files = readdirSync(dist).filter((name) => name.endsWith('.js'));
await writeCommand(await writeScripts('main.js', files, rebuilt));
for (const name of ['cli.cjs', 'cli.js']) chmodSync(join(dist, name), 0o755);
writeManPages();
// What tsc has declared, of sources that are still there.
const types = join('build', 'src');
for (const name of readdirSync(join(root, types), { recursive: true, encoding: 'utf8' })) {
  if (!name.endsWith('.d.ts') || !existsSync(join(root, 'src', name.replace(/\.d\.ts$/, '.ts')))) continue;
  mkdirSync(join(dist, 'types', dirname(name)), { recursive: true });
  // The type of fresh arrays has a parameter since TypeScript 5.7, and no name before.
  const declarations = readFileSync(join(root, types, name), 'utf8');
  const named = declarations.replaceAll('Uint8Array<ArrayBuffer>', 'ReturnType<typeof Uint8Array.of>');
  writeFileSync(join(dist, 'types', name), named);
}
