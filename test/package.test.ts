/**
 * The package as it is published: `npm pack`, unpacked in an empty folder, with a PATH that holds
 * node and nothing else. No binutils, no qemu, no compiler.
 */
import { longTest } from './support/long.js';
import { spawnSync } from './support/spawn.js';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { arches } from '../src/arches.js';
import { arm64Table } from '../src/arch-arm64/isa.js';
import { ppc32Table, ppc64Table } from '../src/arch-ppc/isa.js';
import { riscvTable } from '../src/arch-riscv/isa.js';
import { opcodeTables } from '../src/arch-x86/opcode-map.js';
import { generateInterpreter, moduleKey } from '../src/emulator/interpreter.js';
import { OBJECTS } from '../src/runtime/objects.js';
import { builtSamples, readSample, root, sameBytes } from './support/pipeline.js';
import { libraryExample } from './support/readme.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'package-'));
const project = join(folder, 'project');
const installed = join(project, 'node_modules', 'elftrace');
const bin = join(folder, 'bin');
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

interface PackageJson {
  readonly version: string;
  readonly dependencies: Record<string, string>;
  readonly bin: Record<string, string>;
}

/** node with arguments in the project, with nothing else in PATH. */
function node(args: readonly string[]): { status: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(join(bin, 'node'), [...args], {
    cwd: project,
    encoding: 'utf8',
    env: { PATH: bin },
  });
  return { status, stdout, stderr };
}
const cli = (...args: string[]): { status: number | null; stdout: string; stderr: string } =>
  node([join('node_modules', 'elftrace', 'dist', 'cli.cjs'), ...args]);

/** What packs, and what unpacks that. */
const packing = ['npm', 'tar', 'gzip'];

describeWith(packing, 'npm pack', () => {
  let packed: PackageJson;

  beforeAll(() => {
    if (!existsSync(join(root, 'dist', 'cli.js'))) throw new Error("dist is missing: run 'npm run build' first");
    mkdirSync(installed, { recursive: true });
    mkdirSync(bin);
    symlinkSync(process.execPath, join(bin, 'node'));
    const { status, stderr } = spawnSync('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], {
      cwd: root,
      encoding: 'utf8',
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    if (status !== 0) throw new Error(stderr);
    const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'))!;
    run('tar', ['-xzf', join(folder, tarball), '-C', installed, '--strip-components=1']);
    packed = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as PackageJson;
    // What `npm install` would fetch, from where it is installed already.
    for (const name of Object.keys(packed.dependencies)) {
      const target = join(project, 'node_modules', name);
      mkdirSync(dirname(target), { recursive: true });
      symlinkSync(join(root, 'node_modules', name), target);
    }
    copyFileSync(join(builtSamples, 'x86-64/module-fentry.ko'), join(project, 'driver.ko'));
  });

  test('holds what it should and nothing else', () => {
    const top = readdirSync(installed).sort();
    expect(top).toEqual([
      '.pre-commit-hooks.yaml',
      'LICENSE',
      'README.md',
      'THIRD-PARTY.md',
      'dist',
      'docs',
      'package.json',
      'samples',
      'schemas',
      'share',
    ]);
    for (const path of [
      'dist/cli.cjs',
      'dist/cli.js',
      'dist/worker.js',
      'dist/index.js',
      'dist/types/index.d.ts',
      'docs/elftrace.1',
      'schemas/info.schema.json',
    ]) {
      expect([path, existsSync(join(installed, path))]).toEqual([path, true]);
    }
    expect(readdirSync(join(installed, 'samples'))).toContain('built');
    expect(existsSync(join(installed, 'samples', 'src'))).toBe(false);
    for (const path of ['kbuild/ld-elftrace', 'meson/verified.sh']) {
      expect([path, statSync(join(installed, 'share', path)).mode & 0o111]).toEqual([path, 0o111]);
    }
    // No native code.
    const all = readdirSync(installed, { recursive: true, encoding: 'utf8' });
    expect(all.filter((name) => /\.(node|gyp)$/.test(name))).toEqual([]);
  });

  test('the library example of README.md', () => {
    writeFileSync(join(project, 'example.mjs'), libraryExample());
    const { status, stdout, stderr } = node(['example.mjs']);
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^11 sites fine, 11 calls are nops; undone: \d+ bytes\n$/);
  });

  test('importing has no side effects and gives every name of the library', () => {
    writeFileSync(join(project, 'names.mjs'), "console.log(Object.keys(await import('elftrace')).sort().join(' '));\n");
    const { status, stdout, stderr } = node(['names.mjs']);
    expect([status, stderr]).toEqual([0, '']);
    for (const name of [
      'applyPlan',
      'archOf',
      'arches',
      'findSites',
      'load',
      'planSites',
      'readElf',
      'revert',
      'select',
      'verify',
    ]) {
      expect(stdout.split(/\s/)).toContain(name);
    }
    writeFileSync(
      join(project, 'schema.mjs'),
      "import schema from 'elftrace/schemas/verify.schema.json' with { type: 'json' };\nconsole.log(schema.title);\n",
    );
    expect(node(['--no-warnings', 'schema.mjs']).stdout).toMatch(/^elftrace verify/);
  });

  const typed = [
    "import { archOf, findSites, load, planSites, readElf, verify, type Plan } from 'elftrace';",
    'export function plan(bytes: Uint8Array): Plan {',
    '  const image = readElf(bytes);',
    '  const sites = findSites(load(image, archOf(image.header)));',
    '  const fine: number | undefined = verify(sites).verdicts.ok;',
    '  // @ts-expect-error a count is no text',
    '  const wrong: string = fine ?? 0;',
    "  return planSites(sites, { to: { kind: wrong === '' ? 'nop' : 'init' } });",
    '}',
    '',
  ];
  /** Of the compiler that is named as in node_modules, on the program above. */
  const compile = (compiler: string, ...flags: string[]): ReturnType<typeof node> => {
    writeFileSync(join(project, 'typed.mts'), typed.join('\n'));
    const own = ['--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext'];
    return node([join(compiler, 'bin', 'tsc'), ...own, '--moduleResolution', 'nodenext', ...flags, 'typed.mts']);
  };

  test('declaration files: a program in TypeScript sees the types', () => {
    const compiler = join(root, 'node_modules', 'typescript');
    expect(compile(compiler)).toEqual({ status: 0, stdout: '', stderr: '' });
  });

  const testTools = join(root, 'tools', 'node_modules');
  describeWith([join(testTools, 'typescript-5.4')], 'declaration files', () => {
    longTest.each(['typescript-5.4', 'typescript-7'])('every one of them compiles with %s', (name) => {
      const compiler = join(testTools, name);
      expect(compile(compiler, '--version').stdout).toMatch(
        name === 'typescript-7' ? /^Version 7\./ : /^Version 5\.4\./,
      );
      const strict = ['--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--isolatedModules'];
      expect(compile(compiler, '--skipLibCheck', 'false', ...strict)).toEqual({ status: 0, stdout: '', stderr: '' });
    });
  });

  test('npm publish has nothing to complain about, and packs what it has built', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: object };
    expect(scripts).toMatchObject({ prepack: 'npm run --silent build' });
    const words = ['publish', '--dry-run', '--ignore-scripts', '--json', '--tag', 'next'];
    const { status, stdout, stderr } = spawnSync('npm', words, {
      cwd: root,
      encoding: 'utf8',
      env: { ...process.env, NODE_OPTIONS: '', npm_config_registry: 'http://127.0.0.1:9', npm_config_offline: 'true' },
    });
    const known =
      /^npm notice |^npm warn (?:Unknown (?:user|env) config|publish This command requires you to be logged in)/;
    expect([status, stderr.split('\n').filter((line) => line !== '' && !known.test(line))]).toEqual([0, []]);
    const told = JSON.parse(stdout) as { name?: string; elftrace?: { name: string } };
    expect((told.elftrace ?? told).name).toBe('elftrace');
  });

  test('the verbs', () => {
    const driver = 'driver.ko';
    expect(cli('--version').stdout).toBe(`${packed.version}\n`);
    expect(packed.bin['elftrace']).toBe('dist/cli.cjs');
    expect(cli('info', driver)).toMatchObject({ status: 0, stderr: '' });
    expect(cli('verify', driver).stdout).toContain('11 sites: 11 ok');
    expect(cli('list', driver).stdout.trim().split('\n')).toHaveLength(11);
    const patched = cli('patch', '--nop', driver, '-o', 'quiet.ko');
    expect(patched.status).toBe(0);
    expect(patched.stderr).toMatch(/^driver\.ko: notice: the site table .*\n$/);
    expect(cli('status', 'quiet.ko').stdout).toContain('11 nop');
    expect(cli('revert', 'quiet.ko', '-o', 'back.ko')).toMatchObject({ status: 0, stderr: '' });
    expect(
      sameBytes(new Uint8Array(readFileSync(join(project, 'back.ko'))), readSample('x86-64/module-fentry.ko')),
    ).toBe(true);
    expect(cli('disasm', driver, 'module_run').stdout).toContain('R_X86_64_PLT32 __fentry__');
    const samples = join('node_modules', 'elftrace', 'samples', 'built');
    expect(cli('mcount', join(samples, 'ppc32', 'module-mcount.ko'), '-o', 'recorded.ko')).toMatchObject({
      status: 0,
      stderr: '',
    });
    // Two workers, compressed modules and archives among the files; nothing of the system is asked
    // to unpack them.
    const verified = cli('verify', '--jobs', '2', '--quiet', join(samples, 'x86-64'));
    // Of one sample no function is known, which is no success; nothing else is wrong.
    expect(verified.status).toBe(1);
    expect(verified.stderr).toMatch(/^\S*program-fentry-stripped: error: no function of the file is known.*\n$/);
    expect(verified.stdout).toContain('module-fentry.ko.xz: x86-64: 11 sites: 11 ok');
    expect(verified.stdout).toContain('module-fentry.ko.zst: x86-64: 11 sites: 11 ok');
  });

  test('assembling text without the optional package says what to install; with it, it works', () => {
    const script = `
      import { loadAssembler } from 'elftrace';
      try {
        console.log(Buffer.from((await loadAssembler('x86-64')).assemble('mov rax, rbx', 0n)).toString('hex'));
      } catch (error) {
        console.log(error.name, error.code, error.context.reason, error.message);
      }`;
    const run = (): string => node(['--input-type=module', '-e', script]).stdout;
    const target = join(project, 'node_modules', 'keystone-wasm');
    expect([Object.keys(packed.dependencies).includes('keystone-wasm'), existsSync(target)]).toEqual([false, false]);
    expect(run()).toMatch(/^ElftraceError unsupported-form optional-package .*npm install keystone-wasm@1\.0\.4/);
    symlinkSync(join(root, 'node_modules', 'keystone-wasm'), target);
    expect(run()).toBe('4889d8\n');
    rmSync(target);
  });

  test('a compressed output without its compressor says what to do', () => {
    const { status, stderr } = cli(
      'patch',
      '--nop',
      join('node_modules', 'elftrace', 'samples', 'built', 'x86-64', 'module-fentry.ko.xz'),
      '-o',
      'quiet.ko.xz',
    );
    expect([status, stderr.includes('--no-compress'), existsSync(join(project, 'quiet.ko.xz'))]).toEqual([
      4,
      true,
      false,
    ]);
  });
});

describeWith(packing, 'what is packed', () => {
  test('brings interpreters and instruction tables of all machines along as they are generated', () => {
    const dist = join(installed, 'dist');
    const code = readdirSync(dist)
      .filter((name) => name.endsWith('.js'))
      .map((name) => readFileSync(join(dist, name), 'utf8'))
      .join('\n');
    const files = readdirSync(join(dist, 'data')).map((name) => readFileSync(join(dist, 'data', name)));
    // No message of hundreds of kilobytes.
    const brings = (bytes: Uint8Array | string): boolean => files.some((file) => file.equals(Buffer.from(bytes)));
    for (const { emulation } of arches) {
      if (emulation.kind === 'none') continue;
      const { lifter } = emulation;
      expect(code).toMatch(new RegExp(`["']${moduleKey(lifter)}["'],`));
      expect(brings(generateInterpreter(lifter))).toBe(true);
    }
    for (const { data } of [ppc32Table, ppc64Table, riscvTable, arm64Table]) {
      expect(brings(JSON.stringify(data))).toBe(true);
    }
    for (const { data } of opcodeTables.values()) expect(brings(data)).toBe(true);
  });

  test('the objects of the runtime are those of the sources', () => {
    const script = `
      import { createHash } from 'node:crypto';
      import { runtimeObject } from 'elftrace';
      for (const key of process.argv.slice(1)) {
        const [, target, flavour, probes] = /^(.*)\\/(.*?)(\\+probes)?$/.exec(key);
        console.log(key, createHash('sha256').update(runtimeObject(target, flavour, probes !== undefined)).digest('hex'));
      }`;
    const expected = Object.entries(OBJECTS).map(([key, { sha256 }]) => `${key} ${sha256}`);
    const { stdout, stderr } = node(['--input-type=module', '-e', script, ...Object.keys(OBJECTS)]);
    expect({ lines: stdout.trim().split('\n'), stderr }).toEqual({ lines: expected, stderr: '' });
    expect(expected.length).toBeGreaterThan(40);
  });
});

test('every dependency has one exact version', () => {
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as PackageJson;
  for (const [name, version] of Object.entries(dependencies))
    expect([name, /^\d+\.\d+\.\d+$/.test(version)]).toEqual([name, true]);
});
