/**
 * Manual pages and completions, which come from the same place as the help texts: each verb has a
 * page with every option of its help, mandoc finds nothing to complain about, and the shells offer
 * what they should.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { cliPath, elftrace, warmElftrace } from './support/cli.js';
import { repeats } from './support/long.js';
import { root } from './support/pipeline.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'man-pages-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const pages = join(root, 'dist', 'man');
const page = (verb: string): string => readFileSync(join(pages, `elftrace-${verb}.1`), 'utf8');
/** Verbs as `--help` lists them, `apply` of `elftrace apply <path> <plan>`. */
const verbs = [...elftrace(['--help']).stdout.matchAll(/^ {2}elftrace (\w+)/gm)]
  .map(([, verb]) => verb!)
  .filter((verb) => verb !== 'completion');

describe('manual pages', () => {
  test('each verb of the help has one, and there are no others', () => {
    expect(verbs.length).toBeGreaterThan(15);
    expect(readdirSync(pages).sort()).toEqual(['elftrace.1', ...verbs.map((verb) => `elftrace-${verb}.1`)].sort());
    const { directories } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      directories: { man: string };
    };
    expect(join(root, directories.man)).toBe(pages);
  });

  test.each(verbs)('%s: every option of its help is there', (verb) => {
    const help = warmElftrace([verb, '--help', '--forms']).stdout;
    const options = [...help.matchAll(/^ {2,}(?:-\w, )*(--[\w-]+)/gm)].map(([, option]) => option!.slice(2));
    const text = page(verb).replaceAll('\\-', '-');
    for (const option of options.filter((each) => !['help', 'version', 'forms'].includes(each))) {
      expect([verb, option, new RegExp(`^\\.B .*--(?:no-)?${option}\\b`, 'm').test(text)]).toEqual([
        verb,
        option,
        true,
      ]);
    }
    expect(text).toContain('.SH EXAMPLES');
  });

  test('the paragraphs of the main page go with their verb', () => {
    expect(page('diff')).toContain('an address alone');
    expect(page('diff')).not.toContain('.BI patch');
    expect(page('patch')).toContain('travels with the file');
  });
});

describeWith(['mandoc'], 'mandoc', () => {
  test('has nothing to say', () => {
    const files = [...readdirSync(pages).map((name) => join(pages, name)), join(root, 'docs', 'elftrace.1')];
    const { stdout, stderr, status } = spawnSync('mandoc', ['-T', 'lint', '-W', 'style', ...files], {
      encoding: 'utf8',
    });
    expect([stdout + stderr, status]).toEqual(['', 0]);
    expect(run('mandoc', ['-T', 'ascii', join(pages, 'elftrace-why.1')]).toString()).toContain('User Commands');
  });
});

/** A command of that name, as it would be installed. */
const path = `${folder}:${process.env['PATH'] ?? ''}`;
writeFileSync(join(folder, 'elftrace'), `#!/bin/sh\nexec "${process.execPath}" "${cliPath}" "$@"\n`, { mode: 0o755 });
function shell(name: string, script: string): string {
  const empty = mkdtempSync(join(folder, 'cwd-'));
  const done = spawnSync(name, name === 'zsh' ? ['-f', '-c', script] : ['-c', script], {
    encoding: 'utf8',
    cwd: empty,
    timeout: 20_000,
    env: { ...process.env, PATH: path, HOME: empty, SHELL: `/bin/${name}`, NODE_OPTIONS: '' },
  });
  expect([name, done.stderr, done.status]).toEqual([name, '', 0]);
  return done.stdout;
}

describeWith(['fish', 'zsh'], 'completion', () => {
  test('fish offers verbs, options, choices', () => {
    const offered = (line: string): string[] =>
      shell('fish', `elftrace completion fish | source; complete -C '${line}'`)
        .trim()
        .split('\n')
        .map((line) => line.split('\t')[0]!);
    expect(offered('elftrace ver')).toEqual(['verify']);
    expect(offered('elftrace patch --unt')).toEqual(['--untrace']);
    expect(offered('elftrace load core --a64-era ').sort()).toEqual(['args', 'callops', 'regs']);
  });

  test('fish offers files where a value is one, and none beside verbs and choices', () => {
    const offered = (line: string): string =>
      shell(
        'fish',
        `elftrace completion fish | source; cd (mktemp -d); touch record.json; complete -C '${line}'; rm record.json`,
      );
    expect(offered('elftrace load core --a64-era ')).not.toContain('record.json');
    expect(offered('elftrace ')).not.toContain('record.json');
    expect(offered('elftrace load core --journal ')).toContain('record.json');
    expect(offered('elftrace verify ')).toContain('record.json');
  });

  test('zsh loads its script, and the function that it registers asks the command', () => {
    const said = shell(
      'zsh',
      `autoload -U compinit && compinit -u -d "$HOME/dump"
       source <(elftrace completion zsh)
       print -r -- "$_comps[elftrace]"
       _describe() { shift; print -rl -- "\${(P@)1}"; }
       words=(elftrace ver); CURRENT=2; _elftrace_yargs_completions`,
    );
    expect(said.split('\n')[0]).toBe('_elftrace_yargs_completions');
    expect(said).toContain('verify:');
  });

  test.each(
    repeats([
      ['elftrace ver', 'elftrace verify'],
      ['elftrace patch --unt', 'elftrace patch --untrace'],
    ]),
  )('zsh: a tab behind %j on a terminal makes %j of it', (typed, completed) => {
    // Reading waits for the pattern: what is not completed runs into the timeout.
    const script = `zmodload zsh/zpty
      zpty -b z zsh -f -i
      zpty -w z 'autoload -U compinit && compinit -u -d $HOME/dump; source <(elftrace completion zsh); echo re""ady'
      zpty -r z said '*ready*'
      zpty -n -w z '${typed}'$'\t'
      zpty -r z said '*${completed}*' && print done
      zpty -d z`;
    expect(shell('zsh', script)).toBe('done\n');
  });
});

test('help --json: the command line as data', () => {
  const { verbs: told } = JSON.parse(elftrace(['help', '--json']).stdout) as {
    verbs: { name: string; also: string[]; options: { name: string; text: string }[]; examples: object[] }[];
  };
  expect(told.map(({ name }) => name).sort()).toEqual([...verbs].sort());
  expect(told.find(({ name }) => name === 'patch')!.also).toEqual(['plan']);
  for (const { name, options, examples } of told) {
    expect([name, examples.length > 0]).toEqual([name, true]);
    for (const option of options) expect([name, option.name, option.text !== '']).toEqual([name, option.name, true]);
  }
});
