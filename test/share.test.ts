/**
 * What `share/` has for build systems, on small projects that the real programs build: Kbuild with
 * the headers of Debian's kernel, Make, CMake with two generators, Meson, pre-commit. The job of
 * the GitLab template runs in gitlab-ci-local, which holds it against GitLab's schema; the action
 * is read by GitHub's own parser, and its step runs as a runner would run it.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { buildSync } from 'esbuild';
import { parse } from 'junit2json';
import { parse as parseYaml } from 'yaml';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { cliPath } from './support/cli.js';
import { longTest, repeats, times } from './support/long.js';
import { root } from './support/pipeline.js';
import { spawnSync } from './support/spawn.js';
import { describeWith } from './support/tools.js';

const share = join(root, 'share');
/** What fails fails again: nothing is left that a second build takes for done. */
const AGAIN = times(2, 2, 1);
const folder = mkdtempSync(join(tmpdir(), 'share-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };

/** Commands as they would be installed. */
const bin = join(folder, 'bin');
const command = (name: string, text: string): string => {
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  return join(bin, name);
};
command('elftrace', `exec "${process.execPath}" "${cliPath}" "$@"`);
command('npx', `[ "$1 $2" = "--yes elftrace@${version}" ] || exit 99; shift 2; exec elftrace "$@"`);

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  /** Both outputs. */
  readonly said: string;
}

function run(cwd: string, words: readonly string[], env: Readonly<Record<string, string>> = {}): Ended {
  const { status, stdout, stderr } = spawnSync(words[0]!, words.slice(1), {
    cwd,
    encoding: 'utf8',
    env: { ...process.env, NODE_OPTIONS: '', MAKEFLAGS: '', PATH: `${bin}:${process.env['PATH'] ?? ''}`, ...env },
  });
  return { status, stdout, said: stdout + stderr };
}

/** A folder with these files. */
function project(name: string, files: Readonly<Record<string, string>>): string {
  const cwd = join(folder, name);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(cwd, path)), { recursive: true });
    writeFileSync(join(cwd, path), text);
  }
  return cwd;
}

/** Files of a project whose modules are verified. */
function modules(name: string): string {
  const cwd = project(name, {});
  mkdirSync(join(cwd, 'build', 'deep'), { recursive: true });
  const sample = readFileSync(join(root, 'samples', 'built', 'x86-64', 'module-fentry.ko'));
  for (const path of ['build/one.ko', 'build/deep/two.ko']) writeFileSync(join(cwd, path), sample);
  return cwd;
}
function damage(cwd: string): void {
  const path = join(cwd, 'build', 'one.ko');
  const { stdout } = run(cwd, ['elftrace', 'list', '--json', path]);
  const { functions } = JSON.parse(stdout) as { functions: { fileOffset: string; name: string }[] };
  const bytes = readFileSync(path);
  bytes[Number(functions[0]!.fileOffset)] = 0xcc;
  writeFileSync(path, bytes);
}

/** With WRONG the table has a slot that names the middle of a function's entry. */
const SOURCE = `
#ifdef WRONG
asm(".pushsection __patchable_function_entries,\\"awo\\",@progbits,main; .balign 8; .quad main+1; .popsection");
#endif
int main(void) { return 0; }
`;
const FLAGS = '-fpatchable-function-entry=5';
const WRONG = /\(main\+0x1\): error: wrong-bytes/;

const headers = existsSync('/usr/src')
  ? readdirSync('/usr/src').find((name) => /^linux-headers-.*-(?:amd64|generic)$/.test(name))
  : undefined;
const kernel = join('/usr/src', headers ?? 'linux-headers-amd64');

describeWith([kernel, 'make', 'gcc'], 'Kbuild: each module is verified after its link', () => {
  const cwd = project('kbuild', {
    'demo.c': `#include <linux/module.h>
      #ifdef WRONG
      asm(".pushsection __mcount_loc,\\"a\\",@progbits; .balign 8; .quad demo_value+1; .popsection");
      #endif
      int demo_value(int n);
      noinline int demo_value(int n) { return n * 3; }
      static int __init demo_init(void) { return demo_value(0); }
      module_init(demo_init);
      MODULE_LICENSE("GPL");`,
    Makefile: [
      'obj-m := demo.o',
      'ccflags-$(BAD) := -DWRONG',
      'ccflags-remove-$(QUIET) := $(CC_FLAGS_FTRACE)',
      'ifeq ($(KERNELRELEASE),)',
      `include ${share}/kbuild/elftrace.mk`,
      'modules:',
      '\t$(MAKE) -C $(KDIR) M=$(CURDIR) $(ELFTRACE_KBUILD) modules',
      'endif',
      '',
    ].join('\n'),
  });
  const make = (...words: string[]): Ended => run(cwd, ['make', `KDIR=${kernel}`, ...words]);
  const module = join(cwd, 'demo.ko');

  test('a module that is right comes out, and nothing is said', () => {
    const { status, said } = make();
    expect([said, status]).toEqual([expect.stringContaining('LD [M]'), 0]);
    expect(said).not.toContain('sites');
    expect(run(cwd, ['elftrace', 'verify', 'demo.ko']).stdout).toMatch(/: 2 sites: 2 ok|: \d+ sites: \d+ ok/);
    expect(make().said).not.toContain('LD [M]');
  });

  test('a slot that is wrong fails the build, each time; options of verify decide', () => {
    for (let i = 0; i < AGAIN; i++) {
      const { status, said } = make('BAD=y');
      expect([status, said]).toEqual([2, expect.stringMatching(/demo\.ko:\S+ \(demo_value\+0x1\): error: /)]);
      expect(existsSync(module)).toBe(false);
    }
    expect(make('BAD=y', 'ELFTRACE_FLAGS=--require 10').status).toBe(0);
    rmSync(module);
  });

  longTest('a module without sites is an error, or said where that is allowed', () => {
    expect(make('QUIET=y')).toMatchObject({ status: 2, said: expect.stringContaining('no patch site') });
    expect(existsSync(module)).toBe(false);
    const allowed = make('QUIET=y', 'ELFTRACE_EMPTY=ok');
    expect([allowed.status, allowed.said]).toEqual([0, expect.stringContaining('demo.ko: warning: no patch site')]);
    expect(existsSync(module)).toBe(true);
  });
});

describeWith(['make'], 'the linker of kernel builds', () => {
  const script = join(share, 'kbuild', 'ld-elftrace');

  test.each([
    [[], 'ld'],
    [['CROSS_COMPILE=powerpc64le-linux-gnu-'], 'powerpc64le-linux-gnu-ld'],
    [['LLVM=1'], 'ld.lld'],
    [['LLVM=-19', 'CROSS_COMPILE=x-'], 'ld.lld-19'],
    [['LLVM=/opt/llvm/bin/'], '/opt/llvm/bin/ld.lld'],
    [['LD=ld.gold'], 'ld.gold'],
    [['LD=ld.gold', 'ELFTRACE_LD=mold'], 'mold'],
  ])('with %j it is %s', (words, linker) => {
    const makefile = `include ${share}/kbuild/elftrace.mk\nall:\n\t@echo $(ELFTRACE_KBUILD) $$ELFTRACE_LD\n`;
    const { stdout } = run(project('linker', { Makefile: makefile }), ['make', ...words]);
    expect(stdout).toBe(`LD=${script} ${linker}\n`);
  });

  test('its questions, failures and other outputs are the linker’s', () => {
    const link = command('fake-ld', 'echo "linked $*"; case $* in *fail*) exit 7 ;; esac');
    for (const words of [['--version'], ['-r', '-o', 'a.o'], ['fail', '-o', 'a.ko']]) {
      const { status, stdout } = run(folder, [script, ...words], { ELFTRACE_LD: `env ${link}` });
      expect([stdout, status]).toEqual([`linked ${words.join(' ')}\n`, words[0] === 'fail' ? 7 : 0]);
    }
    for (const words of [['-oa.ko'], ['--output=a.ko'], ['--output', 'a.ko'], ['-o', 'a.ko']]) {
      expect(run(folder, [script, ...words], { ELFTRACE_LD: link }).status).toBe(2);
    }
  });

  test('a module without sites may pass where that is allowed, one with a wrong site never', () => {
    const cwd = modules('linked');
    damage(cwd);
    writeFileSync(join(cwd, 'empty.s'), '');
    const link = command('as-ld', 'case $IN in *.s) as -o a.ko "$IN" ;; *) cp "$IN" a.ko ;; esac');
    const linked = (input: string, allowed: string): [number | null, boolean] => {
      const { status } = run(cwd, [script, '-o', 'a.ko'], { ELFTRACE_LD: link, ELFTRACE_EMPTY: allowed, IN: input });
      return [status, existsSync(join(cwd, 'a.ko'))];
    };
    expect(linked('empty.s', '')).toEqual([1, false]);
    expect(linked('empty.s', 'ok')).toEqual([0, true]);
    expect(linked('build/one.ko', 'ok')).toEqual([1, false]);
    expect(linked('build/deep/two.ko', '')).toEqual([0, true]);
  });
});

describeWith(['make', 'gcc'], 'Make', () => {
  const cwd = project('make', {
    'main.c': SOURCE,
    Makefile: [
      'all: program other.verified',
      `include ${share}/make/elftrace.mk`,
      'program other: main.c',
      `\t$(CC) ${FLAGS} $(EXTRA) -o $@ $<`,
      'program:',
      'checked: main.c',
      `\t$(CC) ${FLAGS} $(EXTRA) -o $@ $<`,
      '\t$(call elftrace_verify,$@)',
      '',
    ].join('\n'),
  });

  test('files and stamps', () => {
    expect(run(cwd, ['make', 'all', 'checked'])).toMatchObject({ status: 0 });
    expect(readdirSync(cwd)).toEqual(expect.arrayContaining(['checked', 'other', 'other.verified']));
    expect(run(cwd, ['make', 'checked', 'other.verified']).stdout).toMatch(/'checked' is up to date/);
    for (const target of ['checked', 'other.verified']) {
      run(cwd, ['rm', '-f', 'checked', 'other', 'other.verified']);
      for (let i = 0; i < AGAIN; i++) {
        const { status, said } = run(cwd, ['make', target, 'EXTRA=-DWRONG']);
        expect([target, status, said]).toEqual([target, 2, expect.stringMatching(WRONG)]);
        expect(existsSync(join(cwd, target))).toBe(false);
      }
    }
  });
});

describeWith(['cmake', 'make', 'ninja', 'gcc'], 'CMake', () => {
  const cwd = project('cmake', {
    'main.c': SOURCE,
    'CMakeLists.txt': `
      cmake_minimum_required(VERSION 3.16)
      project(demo C)
      include(${share}/cmake/Elftrace.cmake)
      add_executable(program main.c)
      target_compile_options(program PRIVATE ${FLAGS} $<$<BOOL:\${BAD}>:-DWRONG>)
      elftrace_verify(program OPTIONS --require 100)
      elftrace_patch(program OUTPUT program.init OPTIONS --init)
      if("\${MISUSE}" STREQUAL "no target")
        elftrace_verify(nothing)
      elseif("\${MISUSE}" STREQUAL "no file")
        add_library(objects OBJECT main.c)
        elftrace_verify(objects)
      elseif("\${MISUSE}" STREQUAL "words")
        elftrace_verify(program --strict)
      endif()`,
  });

  test.each(repeats(['Ninja', 'Unix Makefiles']))('%s: verified after the link, patched beside it', (generator) => {
    const tree = `build of ${generator}`;
    const cmake = (...words: string[]): Ended => run(cwd, ['cmake', ...words]);
    expect(cmake('-G', generator, '-B', tree)).toMatchObject({ status: 0 });
    expect(cmake('--build', tree)).toMatchObject({ status: 0, said: expect.stringContaining('sites: ') });
    expect(run(join(cwd, tree), ['elftrace', 'status', 'program.init']).stdout).toContain('# record: init');
    expect(cmake('-B', tree, '-DBAD=ON').status).toBe(0);
    for (let i = 0; i < AGAIN; i++) {
      const { status, said } = cmake('--build', tree);
      expect([status === 0, said]).toEqual([false, expect.stringMatching(WRONG)]);
      expect(existsSync(join(cwd, tree, 'program'))).toBe(false);
    }
  });

  test.each([
    ['no target', 'nothing is no target'],
    ['no file', 'objects is no program and no library'],
    ['words', 'write OPTIONS in front of'],
  ])('misuse is said: %s', (misuse, text) => {
    const { status, said } = run(cwd, ['cmake', '-B', 'misuse', `-DMISUSE=${misuse}`]);
    expect([status, said.replaceAll(/\s+/g, ' ')]).toEqual([1, expect.stringContaining(text)]);
  });
});

describeWith(['meson', 'ninja', 'gcc'], 'Meson', () => {
  const cwd = project('meson', {
    'main.c': SOURCE,
    'meson_options.txt': "option('bad', type: 'boolean', value: false)",
    'meson.build': `project('demo', 'c')
elftrace_verify = subproject('elftrace').get_variable('verify')
flags = ['${FLAGS}'] + (get_option('bad') ? ['-DWRONG'] : [])
program = executable('program', 'main.c', c_args: flags)
custom_target('program verified', input: program, output: 'program.verified',
              command: elftrace_verify + ['@OUTPUT@', '@INPUT@', '--strict'], build_by_default: true)
`,
  });

  test('a stamp where all is right, a build that fails where not', () => {
    cpSync(join(share, 'meson'), join(cwd, 'subprojects', 'elftrace'), { recursive: true });
    expect(run(cwd, ['meson', 'setup', 'build'])).toMatchObject({ status: 0 });
    expect(run(cwd, ['ninja', '-C', 'build'])).toMatchObject({ status: 0 });
    expect(existsSync(join(cwd, 'build', 'program.verified'))).toBe(true);
    expect(run(cwd, ['meson', 'configure', 'build', '-Dbad=true']).status).toBe(0);
    for (let i = 0; i < AGAIN; i++) {
      const { status, said } = run(cwd, ['ninja', '-C', 'build']);
      expect([status, said]).toEqual([1, expect.stringMatching(WRONG)]);
    }
  });
});

const testTools = join(root, 'tools', 'node_modules');
interface ActionStep {
  readonly shell: string;
  readonly env: Readonly<Record<string, string>>;
  readonly run: string;
}
interface Action {
  readonly inputs: Readonly<Record<string, { readonly required: boolean; readonly default?: string }>>;
  readonly runs: { readonly steps: readonly ActionStep[] };
}
interface Parsed {
  readonly context: { readonly errors: { getErrors(): readonly object[] } };
}

describeWith([join(testTools, '@actions')], 'the action', () => {
  const text = readFileSync(join(share, 'github', 'action.yml'), 'utf8');
  const action = parseYaml(text) as Action;
  type Parser = (file: { name: string; content: string }, trace: Readonly<Record<string, () => void>>) => Parsed;
  let parseAction: Parser;
  // In a clone without the programs of tests this group is skipped, and nothing of it may run.
  beforeAll(() => {
    // Its modules import JSON as bundlers understand it, and Node does not.
    const bundle = join(folder, 'workflow-parser.cjs');
    buildSync({
      entryPoints: [join(testTools, '@actions', 'workflow-parser', 'dist', 'actions', 'index.js')],
      bundle: true,
      platform: 'node',
      format: 'cjs',
      outfile: bundle,
      logLevel: 'warning',
    });
    ({ parseAction } = createRequire(import.meta.url)(bundle) as { parseAction: Parser });
  });
  const errorsOf = (content: string): readonly string[] => {
    const trace = { info: () => undefined, verbose: () => undefined, error: () => undefined };
    return parseAction({ name: 'action.yml', content }, trace).context.errors.getErrors().map(String);
  };

  test('GitHub’s parser takes it, and sees what is wrong in others', () => {
    expect(errorsOf(text)).toEqual([]);
    expect(errorsOf(text.replace('shell: bash', 'shel: bash')).join()).toContain("Unexpected value 'shel'");
    expect(action.inputs['version']!.default).toBe(version);
  });

  /** Runs the steps as a runner does. */
  const act = (cwd: string, given: Readonly<Record<string, string>>): Ended => {
    const ends = action.runs.steps.map((step) => {
      expect(step.shell).toBe('bash');
      // Texts of inputs in a script would be code.
      expect(step.run).not.toContain('${{');
      const value = (name: string): string => given[name] ?? action.inputs[name]!.default!;
      const env = Object.fromEntries(
        Object.entries(step.env).map(([key, text]) => [
          key,
          text.replaceAll(/\$\{\{ inputs\.(\w+) \}\}/g, (_, name: string) => value(name)),
        ]),
      );
      writeFileSync(join(folder, 'step.sh'), step.run);
      return run(cwd, ['bash', '--noprofile', '--norc', '-eo', 'pipefail', join(folder, 'step.sh')], env);
    });
    return ends.find(({ status }) => status !== 0) ?? ends.at(-1)!;
  };

  test('its step: files and patterns, options, annotations, SARIF', () => {
    const cwd = modules('action');
    expect(act(cwd, { files: 'build\n' })).toMatchObject({ status: 0, stdout: '2 files, 0 failed, 22 sites\n' });
    expect(act(cwd, { files: 'build/*.ko\nbuild/deep/two.ko' })).toMatchObject({ status: 0 });
    const nothing = act(cwd, { files: 'build/**/*.ko\nbuild/*.o' });
    expect([nothing.status, nothing.stdout]).toEqual([2, '::error title=elftrace::no file matches build/*.o\n']);
    damage(cwd);
    const bad = act(cwd, { files: 'build/**/*.ko', sarif: 'out.sarif', options: '--jobs=1\n--strict' });
    expect([bad.status, bad.stdout]).toEqual([1, expect.stringMatching(/^::error .*file=build\/one\.ko/)]);
    const sarif = JSON.parse(readFileSync(join(cwd, 'out.sarif'), 'utf8')) as { runs: { results: object[] }[] };
    expect(sarif.runs[0]!.results).toHaveLength(1);
    expect(act(cwd, { files: 'build/deep' })).toMatchObject({ status: 0 });
    expect(act(cwd, { files: 'build/one.ko; touch owned' }).status).toBe(2);
    expect(existsSync(join(cwd, 'owned'))).toBe(false);
  });
});

describeWith([join(testTools, 'gitlab-ci-local'), 'git', 'rsync'], 'the template of GitLab', () => {
  const template = readFileSync(join(share, 'gitlab', 'elftrace.gitlab-ci.yml'), 'utf8');
  const cwd = modules('gitlab');
  const git = (...words: string[]): void => {
    const { status, said } = run(cwd, ['git', '-c', 'user.name=t', '-c', 'user.email=t@example.org', ...words]);
    expect([words, said, status]).toEqual([words, expect.anything(), 0]);
  };
  const pipeline = (text: string): Ended => {
    writeFileSync(join(cwd, 'elftrace.gitlab-ci.yml'), text);
    git('add', '-A');
    git('commit', '-q', '--allow-empty', '-m', 'state');
    const local = join(testTools, 'gitlab-ci-local', 'dist', 'index.js');
    return run(cwd, [process.execPath, local, '--force-shell-executor', 'modules'], { HOME: folder });
  };
  writeFileSync(
    join(cwd, '.gitlab-ci.yml'),
    'include:\n  - local: elftrace.gitlab-ci.yml\nmodules:\n  extends: .elftrace\n  variables:\n    ELFTRACE_FILES: build\n',
  );
  writeFileSync(join(cwd, '.gitignore'), '.gitlab-ci-local\n');

  test('its job runs, writes JUnit and fails where sites are wrong', async () => {
    git('init', '-q', '-b', 'main');
    git('remote', 'add', 'origin', 'https://gitlab.com/example/modules.git');
    const good = pipeline(template);
    expect([good.said, good.status]).toEqual([expect.stringContaining('schema validated'), 0]);
    damage(cwd);
    const bad = pipeline(template);
    expect(bad.status).toBe(1);
    expect(bad.said).toMatch(/build\/one\.ko:\S+ \(\w+\): error: /);
    const report = (await parse(readFileSync(join(cwd, 'elftrace.xml'), 'utf8'))) as {
      testsuite: { name: string; failures: number }[];
    };
    expect(report.testsuite.filter(({ failures }) => failures > 0)).toMatchObject([{ name: 'build/one.ko' }]);
  }, 30_000);

  test('its version is that of the package, and the schema is asked', () => {
    expect(parseYaml(template)).toMatchObject({ '.elftrace': { variables: { ELFTRACE_VERSION: version } } });
    const refused = pipeline(template.replace('when: always', 'when: mostly'));
    expect([refused.status === 0, refused.said]).toEqual([false, expect.stringContaining('when')]);
  });
});

describeWith(['pre-commit', 'git'], 'pre-commit', () => {
  const env = { PRE_COMMIT_HOME: join(folder, 'pre-commit'), GIT_AUTHOR_NAME: 't', GIT_COMMITTER_NAME: 't' };
  const identity = { ...env, GIT_AUTHOR_EMAIL: 't@example.org', GIT_COMMITTER_EMAIL: 't@example.org' };
  const repository = (name: string): string => {
    const cwd = project(name, {});
    mkdirSync(cwd, { recursive: true });
    expect(run(cwd, ['git', 'init', '-q', '-b', 'main'], identity).status).toBe(0);
    return cwd;
  };

  test('the hook verifies modules that are committed, and nothing else', () => {
    const hooks = repository('hooks');
    cpSync(join(root, '.pre-commit-hooks.yaml'), join(hooks, '.pre-commit-hooks.yaml'));
    expect(run(hooks, ['pre-commit', 'validate-manifest', '.pre-commit-hooks.yaml'], identity).status).toBe(0);
    for (const words of [
      ['add', '-A'],
      ['commit', '-q', '-m', 'hooks'],
    ])
      expect(run(hooks, ['git', ...words], identity).status).toBe(0);
    const user = repository('user');
    modules('user');
    writeFileSync(join(user, 'notes.txt'), 'no module');
    run(user, ['git', 'add', '-A'], identity);
    const hook = (): Ended => run(user, ['pre-commit', 'try-repo', hooks, 'elftrace-verify', '--all-files'], identity);
    expect(hook()).toMatchObject({ status: 0, said: expect.stringContaining('Passed') });
    damage(user);
    run(user, ['git', 'add', '-A'], identity);
    const bad = hook();
    expect([bad.status, bad.said]).toEqual([1, expect.stringMatching(/one\.ko:\S+ \(\w+\): error: /)]);
  });
});

describe('files', () => {
  test('scripts can be executed; each file is named on the page of the folder', () => {
    const page = readFileSync(join(share, 'README.md'), 'utf8');
    const files = readdirSync(share, { recursive: true, encoding: 'utf8' }).filter((name) =>
      statSync(join(share, name)).isFile(),
    );
    expect(files.length).toBeGreaterThan(7);
    for (const name of files.filter((each) => each !== 'README.md')) {
      const isScript = readFileSync(join(share, name), 'utf8').startsWith('#!');
      expect([name, (statSync(join(share, name)).mode & 0o111) !== 0]).toEqual([name, isScript]);
      expect([name, page.includes(dirname(name))]).toEqual([name, true]);
    }
    expect(readFileSync(join(share, 'meson', 'meson.build'), 'utf8')).toContain(`version: '${version}'`);
  });
});
