/**
 * From a changed line to the result of its test file, without the whole of tsc (which checks the
 * types: `npm run typecheck`).
 *
 *   node scripts/loop.js compile                  brings build/ up to date: only sources that
 *                                                 changed
 *   node scripts/loop.js one NAME... [-- ARGS]    that, and runs the test files NAME (without
 *                                                 .test.ts); ARGS are jest's
 *   node scripts/loop.js watch [NAME...]          that, after each change of a source; without
 *                                                 NAME: the changed test file, or those
 *                                                 that import the changed module themselves
 *
 * `npm run build` runs `compile` behind tsc: outputs of sources that are gone go, and what a file
 * was made of is known from then on.
 *
 * Each file is compiled alone by TypeScript's own emitter (version 6, whose compiler is a library),
 * so build/ holds the JavaScript that tsc (version 7) would write, byte for byte, and both may take
 * turns. Needs no build before. Only declaration files (for the tests of the package) come from
 * `npm run build` alone.
 */
import { createHash } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, watch, writeFileSync } from 'node:fs';
import { createRequire, Module } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const build = join(root, 'build');
const FOLDERS = ['src', 'test', 'bench', 'scripts'];
/**
 * Hash of the source that each output was made of: an output's time says nothing when a file is put
 * back as it was.
 */
const stampsPath = join(build, '.sources.json');

const outputOf = (source) => join(build, source.replace(/\.ts$/, '.js'));
const timeOf = (path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

/** Every source, by its path from the root. */
function sources() {
  return FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'))
      .map((name) => `${folder}/${name}`),
  );
}

/**
 * TypeScript, of which reading and compiling costs more than a file: V8 keeps what it made of it.
 * V8 itself refuses what another version of it has kept.
 */
function loadTypeScript() {
  const require = createRequire(import.meta.url);
  const path = require.resolve('typescript');
  const { version } = require('typescript/package.json');
  const keptPath = join(build, `.typescript-${version}.cache`);
  const kept = statSync(keptPath, { throwIfNoEntry: false }) ? readFileSync(keptPath) : undefined;
  const script = new Script(Module.wrap(readFileSync(path, 'utf8')), {
    filename: path,
    ...(kept === undefined ? {} : { cachedData: kept }),
  });
  const module = { exports: {} };
  script.runInThisContext()(module.exports, createRequire(path), module, path, dirname(path));
  if (kept === undefined || script.cachedDataRejected === true) {
    // Behind its first use, so that what that compiled is kept, too.
    process.once('exit', () => {
      mkdirSync(build, { recursive: true });
      writeFileSync(keptPath, script.createCachedData());
    });
  }
  return module.exports;
}

let compiler;
/** TypeScript and the options of tsconfig.json; loaded when the first file has changed. */
function loadCompiler() {
  if (compiler) return compiler;
  const ts = loadTypeScript();
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, { ...ts.sys, readDirectory: () => [] }, root);
  // A file alone does not see the package.json that makes it an ES module.
  const alone = { module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, declaration: false };
  compiler = { ts, options: { ...options, ...alone } };
  return compiler;
}

/** Compiles one source; says whether that went well. */
function compileFile(source, text) {
  const { ts, options } = loadCompiler();
  const { outputText, sourceMapText, diagnostics } = ts.transpileModule(text, {
    compilerOptions: options,
    fileName: join(root, source),
    reportDiagnostics: true,
  });
  for (const { start = 0, messageText } of diagnostics) {
    const line = text.slice(0, start).split('\n').length;
    console.error(`${source}:${line}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`);
  }
  if (diagnostics.length > 0) return false;
  const output = outputOf(source);
  mkdirSync(dirname(output), { recursive: true });
  const map = JSON.parse(sourceMapText);
  map.sources = [relative(dirname(output), join(root, source))];
  writeFileSync(`${output}.map`, JSON.stringify(map));
  writeFileSync(output, outputText);
  return true;
}

function removeOutputsWithoutSource(all) {
  const known = new Set(all.map(outputOf));
  for (const folder of FOLDERS.map((each) => join(build, each)).filter((each) => existsSync(each))) {
    for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      const output = /^(.*)\.js$/.test(name) ? join(folder, name) : null;
      if (output === null || known.has(output)) continue;
      for (const end of ['.js', '.js.map', '.d.ts']) rmSync(output.replace(/\.js$/, end), { force: true });
    }
  }
}

/**
 * Brings build/ up to date; returns the sources that were compiled, or null where one has an error
 * of syntax.
 */
function compile() {
  const stamps = existsSync(stampsPath) ? JSON.parse(readFileSync(stampsPath, 'utf8')) : {};
  const all = sources();
  const changed = [];
  let good = true;
  const next = {};
  for (const source of all) {
    const text = readFileSync(join(root, source), 'utf8');
    const hash = createHash('sha1').update(text).digest('base64');
    const output = outputOf(source);
    // What tsc wrote has no stamp.
    const isFresh = stamps[source]
      ? stamps[source] === hash && existsSync(output)
      : timeOf(output) >= timeOf(join(root, source));
    if (!isFresh) {
      changed.push(source);
      if (!compileFile(source, text)) {
        good = false;
        continue;
      }
    }
    next[source] = hash;
  }
  removeOutputsWithoutSource(all);
  mkdirSync(build, { recursive: true });
  writeFileSync(stampsPath, JSON.stringify(next));
  return good ? changed : null;
}

/** Modules that a compiled file imports itself. */
function importsOf(path) {
  const found = readFileSync(path, 'utf8').matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+\.js)'/g);
  return [...found].map((each) => join(dirname(path), each[1])).filter((each) => existsSync(each));
}

/** Tests that run the command line run the bundle: they, or what supports them, name dist. */
function runsBundle(test) {
  const seen = new Set();
  const visit = (path) => {
    if (seen.has(path)) return false;
    seen.add(path);
    if (/'dist'|dist\//.test(readFileSync(path, 'utf8'))) return true;
    return importsOf(path).some((each) => each.startsWith(join(build, 'test')) && visit(each));
  };
  return visit(join(build, 'test', `${test}.test.js`));
}

/** Makes dist/ where it is older than the code in it. */
function bundle() {
  const time = timeOf(join(root, 'dist', 'cli.js'));
  const parts = ['scripts/bundle.ts', ...sources().filter((each) => each.startsWith('src/'))];
  if (parts.every((each) => timeOf(outputOf(each)) <= time)) return true;
  return spawnSync(process.execPath, [join(build, 'scripts', 'bundle.js')], { stdio: 'inherit' }).status === 0;
}

/** Runs test files; the exit status of jest. */
function runTests(names, args) {
  if (names.some(runsBundle) && !bundle()) return 1;
  const pattern = `/(?:${names.map((each) => each.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|')})\\.test\\.js$`;
  const command = [join(root, 'scripts', 'jest.js'), ...args, pattern];
  return spawnSync(process.execPath, command, { cwd: root, stdio: 'inherit' }).status ?? 1;
}

const testName = (path) => basename(path).replace(/\.test\.(?:ts|js)$/, '');
const testExists = (name) => existsSync(join(root, 'test', `${name}.test.ts`));

/** Test files of changed sources: themselves, or those that import one of them directly. */
function testsOf(changed) {
  const modules = new Set(changed.map(outputOf));
  return sources()
    .filter((each) => each.endsWith('.test.ts'))
    .filter((each) => changed.includes(each) || importsOf(outputOf(each)).some((one) => modules.has(one)))
    .map(testName);
}

/** Compiles and tests after each change, until it is interrupted. */
function watchSources(names) {
  let timer = null;
  const round = () => {
    const changed = compile();
    if (changed === null || changed.length === 0) return;
    const tests = names.length > 0 ? names : testsOf(changed);
    console.log(`${changed.join(', ')}: ${tests.length > 0 ? tests.join(', ') : 'no test file imports it itself'}`);
    if (tests.length > 0) runTests(tests, []);
  };
  const again = () => {
    clearTimeout(timer);
    timer = setTimeout(round, 50);
  };
  for (const folder of FOLDERS) watch(join(root, folder), { recursive: true }, again);
  loadCompiler();
  console.log(names.length > 0 ? `watching, for ${names.join(', ')}` : 'watching');
}

function main([mode, ...rest]) {
  const end = rest.indexOf('--');
  const names = (end < 0 ? rest : rest.slice(0, end)).map(testName);
  const args = end < 0 ? [] : rest.slice(end + 1);
  if (!['compile', 'one', 'watch'].includes(mode) || (mode === 'one' && names.length === 0)) {
    console.error('usage: loop.js compile | one NAME... [-- ARGS OF JEST] | watch [NAME...]');
    return 2;
  }
  const unknown = names.find((each) => !testExists(each));
  if (unknown !== undefined) {
    console.error(`there is no test/${unknown}.test.ts`);
    return 2;
  }
  if (compile() === null) return 1;
  if (mode === 'one') return runTests(names, args);
  if (mode === 'watch') watchSources(names);
  return 0;
}

process.exitCode = main(process.argv.slice(2));
