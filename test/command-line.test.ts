/**
 * The words of the command line: whose they are, which are known, and what is said of the others.
 */
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { cliPath, elftrace } from './support/cli.js';
import { builtSamples } from './support/pipeline.js';
import { ends, run } from './support/run.js';
import { spawnSync } from './support/spawn.js';
import { ppcGcc } from './support/emulator.js';
import { describeWith } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'command-line-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);
const sample = (name: string): string => join(builtSamples, name);
const core = sample('x86-64/core.o');
const program = sample('x86-64/program-fentry');

describe('help', () => {
  test.each([
    ['help', 'patch'],
    ['patch', '--help'],
    ['patch', '-h'],
    ['patch', core, '-h'],
  ])('%s %s', (...words: string[]) => {
    const { status, stdout, stderr } = elftrace(words);
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^elftrace patch \[path\]\n/);
  });

  test.each([['help'], ['-h'], ['--help'], ['completion', '-h']])('%s lists the verbs', (...words: string[]) => {
    const { status, stdout, stderr } = elftrace(words);
    expect([status, stderr]).toEqual([0, '']);
    for (const verb of ['verify [files..]', 'revert <path>', 'completion'])
      expect(stdout).toContain(`elftrace ${verb}`);
  });

  test('a function that is named help is a function', () => {
    expect(elftrace(['disasm', core, 'help'])).toMatchObject({ status: 2, stdout: '' });
  });
});

describeWith(['bash'], 'completion', () => {
  /** What bash offers for words, the last of which is being typed. */
  const offered = (...words: string[]): string[] => {
    const script = `elftrace() { "${process.execPath}" "${cliPath}" "$@"; }
      source <(elftrace completion bash)
      COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _elftrace_yargs_completions; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const done = spawnSync('bash', ['-c', script, 'bash', 'elftrace', ...words], { encoding: 'utf8' });
    expect([done.status, done.stderr]).toEqual([0, '']);
    return done.stdout.split('\n').filter((line) => line !== '');
  };

  test('bash: verbs, options, choices; files are left to the shell', () => {
    expect(offered('ver')).toEqual(['verify']);
    expect(offered('patch', '--unt')).toEqual(['--untrace']);
    expect(offered('load', 'core', '--a64-era', '')).toEqual(['callops', 'regs', 'args']);
    expect(offered('patch', '')).toEqual([]);
  });
});

test('completion: zsh gets its own script; other shells are named', () => {
  expect(elftrace(['completion', 'zsh']).stdout).toMatch(/^#compdef elftrace\n/);
  expect(elftrace(['completion', 'tcsh'])).toMatchObject({ status: 2, stdout: '' });
});

describe('what is not known is named', () => {
  test.each<[words: string[], text: string]>([
    [['patcj', core], "unknown verb 'patcj'; did you mean patch?"],
    [['help', 'verfiy'], "unknown verb 'verfiy'; did you mean verify?"],
    [['patch', core, '--enabel'], 'unknown option --enabel; did you mean --enable?'],
    [['patch', core, '--in'], 'unknown option --in; did you mean --in-place or --init?'],
    [['patch', core, '--no-output'], 'unknown option --no-output; did you mean --output?'],
    [['patch', core, '-x'], 'unknown option -x'],
    [['load', core, '--a64-era', 'reg'], '--a64-era reg: one of callops, regs, args; did you mean regs?'],
    [['patch', core, '--nop', '-o', at('a'), '-o', at('b')], '-o is given twice'],
    [['patch', core, '--nop', '--no-nop'], '--nop and --no-nop contradict each other'],
    [['patch', core, '--nop=maybe'], '--nop takes no value'],
    [['patch', core, '--nop', '-o'], '-o needs a value'],
    [['patch', core, '--nop', '-o='], '-o needs a value'],
    [['patch', core, '-o', '--nop'], '-o needs a value: write -o=--nop if that is it'],
    [['verify', core, '--require', 'all'], "--require takes a number, not 'all'"],
    [['list', core, '-l', 'a', 'b'], "list: 'b' is one word too many"],
    [['patch'], 'patch needs PATH'],
    [['--json', 'info', core], '--json: options stand behind the verb'],
    [['patch', program, '--enable', '--tracer', 'functoin', '-o', at('a')], 'did you mean function?'],
  ])('%j', (words, text) => {
    const { status, stdout, stderr } = elftrace(words);
    expect([status, stdout, stderr]).toEqual([2, '', expect.stringContaining(text)]);
    expect(existsSync(at('a'))).toBe(false);
  });

  test('values may stand anywhere, with and without an equals sign', () => {
    for (const words of [['-o', at('v')], [`-o=${at('v')}`], [`-o${at('v')}`], [`--output=${at('v')}`]]) {
      expect(elftrace(['patch', ...words, '--nop', core])).toMatchObject({ status: 0, stderr: '' });
    }
  });
});

describeWith([ppcGcc('le')], 'the program of run', () => {
  test('everything behind it is its own', () => {
    for (const word of ['--help', '-v', '--', '-', '--no-x', '--version']) {
      expect(run([ends('le'), 'o', word])).toMatchObject({ stdout: word, stderr: '' });
    }
  });

  test('an option of ours behind it is named; not where a -- says that it is meant', () => {
    const behind = run([ends('le'), 'o', '--compare']);
    expect(behind.stdout).toBe('--compare');
    expect(behind.stderr).toContain(
      "--compare behind the program is the program's; options of run stand in front of it",
    );
    expect(run(['--', ends('le'), 'o', '--compare'])).toMatchObject({ stdout: '--compare', stderr: '' });
  });
});

describe('options of other machines are refused', () => {
  test.each([
    ['--nop', '--ppc-nop=b8', 'PowerPC'],
    ['--init', '--riscv-site=g1', 'riscv64'],
    ['--enable', '--a64-entries=two', 'arm64'],
  ])('%s %s', (what, option, machine) => {
    const { status, stderr } = elftrace(['patch', core, what, option, '-o', at('m')]);
    expect([status, stderr]).toEqual([2, expect.stringContaining(`is about ${machine}, this is x86-64`)]);
    expect(existsSync(at('m'))).toBe(false);
  });
});

test('a patch that changes nothing leaves an empty record: revert gives the copy and says so', () => {
  expect(elftrace(['patch', core, '--nop', '--journal', at('j'), '-o', at('nops')]).status).toBe(0);
  // Its record lies beside it: to this command it is a file whose sites are nops already.
  expect(elftrace(['patch', at('nops'), '--nop', '-o', at('empty')]).stdout).toMatch(/: 0 of 9 sites changed/);
  for (const verb of ['verify', 'info', 'list']) expect(elftrace([verb, at('empty')])).toMatchObject({ status: 0 });
  expect(elftrace(['status', at('empty')]).stdout).toMatch(/# record: nop by elftrace \S+, 0 places/);
  expect(elftrace(['revert', at('empty'), '-o', at('back')]).stdout).toContain('the patch had changed nothing; equal');
  expect(readFileSync(at('back')).equals(readFileSync(at('nops')))).toBe(true);
  const json = JSON.parse(elftrace(['revert', at('empty'), '-o', at('back'), '--json']).stdout) as object;
  expect(json).toMatchObject({ checked: { changed: false } });
  expect(elftrace(['revert', at('nops'), '-o', at('none')])).toMatchObject({ status: 2, stdout: '' });
  expect(existsSync(at('none'))).toBe(false);
});

test('so do a plan that changes nothing, and a patch in place', () => {
  expect(elftrace(['patch', core, '--nop', '--journal', at('j2'), '-o', at('nops2')]).status).toBe(0);
  expect(elftrace(['plan', at('nops2'), '--nop', '-o', at('empty-plan')]).status).toBe(0);
  expect(elftrace(['apply', at('nops2'), at('empty-plan'), '-o', at('applied')]).status).toBe(0);
  copyFileSync(at('nops2'), at('in-place'));
  expect(elftrace(['patch', at('in-place'), '--nop', '--in-place']).status).toBe(0);
  for (const file of ['applied', 'in-place']) {
    expect(elftrace(['revert', at(file), '-o', at('back2')]).stdout).toContain('the patch had changed nothing');
    expect(readFileSync(at('back2')).equals(readFileSync(at('nops2')))).toBe(true);
  }
});

/**
 * What a terminal shows in the end of what is written to it: `\r` goes back, `ESC [K` erases what
 * follows.
 */
function onScreen(written: string): string {
  const lines = written.split('\n').map((line) => {
    let shown = '';
    let column = 0;
    for (const [, erase, back, text] of line.matchAll(/(\u001b\[K)|(\r)|([^\r\u001b]+)/g)) {
      if (erase !== undefined) shown = shown.slice(0, column);
      else if (back !== undefined) column = 0;
      else {
        shown = shown.slice(0, column) + text! + shown.slice(column + text!.length);
        column += text!.length;
      }
    }
    return shown;
  });
  return lines.join('\n');
}

describeWith(['bash', 'script', 'mkfifo', 'timeout', 'grep'], 'terminals and Ctrl-C', () => {
  const shell = (script: string, env: Readonly<Record<string, string>> = {}) =>
    spawnSync('bash', ['-c', script, 'bash', process.execPath, cliPath], {
      encoding: 'utf8',
      cwd: folder,
      env: { ...process.env, CI: '', TERM: 'xterm', NODE_OPTIONS: '', ...env },
    });
  // The file is open, and comes after a while: the program that reads it waits, and cannot draw.
  const comes = (name: string): string =>
    `rm -f ${name}; mkfifo ${name}; (exec 3> ${name}; sleep 2; cat '${core}' >&3) &`;

  test('what takes more than a second is said on a terminal, and erased; not in logs, nor with --json', () => {
    const drawn = 'script -qec "$1 $2 list';
    // All at once: each waits for a file of its own.
    const { stdout } = shell(`
      ${comes('late')} ${drawn} late" /dev/null > shown &
      ${comes('quiet')} CI=true ${drawn} quiet" /dev/null > in-ci &
      ${comes('data')} ${drawn} data --json" /dev/null > as-json &
      ${comes('log')} "$1" "$2" list log 2> in-a-log > listed &
      wait; for each in shown in-ci as-json in-a-log; do cat $each; printf '\\0'; done`);
    const [shown, ci, json, log] = stdout.split('\0');
    expect(shown).toMatch(/\rlist late \d+ s\u001b\[K/);
    expect(shown).toContain('\r\u001b[K');
    expect(onScreen(shown!)).toBe(elftrace(['list', core]).stdout);
    expect([ci, json].map((each) => each!.length > 0 && !each!.includes('\u001b[K'))).toEqual([true, true]);
    expect(log).toBe('');
  }, 30_000);

  test('Ctrl-C ends with 130 and leaves nothing', () => {
    const { stdout } = shell(
      `${comes('late')} timeout --preserve-status -s INT 1 "$1" "$2" patch late --nop -o out; echo $?; kill %1; ls -A | grep out`,
    );
    expect(stdout).toBe('130\n');
  });
});

describeWith([ppcGcc('le')], 'Ctrl-C while a program runs', () => {
  test('its trace leaves no temporary file', () => {
    const script =
      'timeout --preserve-status -s INT 1 "$1" "$2" run --max-instructions=1000000000000 --guest-output=guest.out "$3" l; echo $?; sleep 0.5; ls -A | grep -e new- -e ^guest';
    const done = spawnSync('bash', ['-c', script, 'bash', process.execPath, cliPath, ends('le')], {
      encoding: 'utf8',
      cwd: folder,
    });
    expect(done.stdout).toBe('130\n');
  });
});

test('session files: what the image does not have is said with its place', () => {
  copyFileSync(program, at('s'));
  writeFileSync(at('s.yaml'), 'version: 1\nsteps:\n  - ops: { name: t, call: nosuch }\n');
  const { status, stderr } = elftrace(['patch', at('s'), '--session', at('s.yaml'), '-o', at('s.out')]);
  expect([status, stderr]).toEqual([
    2,
    expect.stringContaining(`${at('s.yaml')}:3:5: ops: the image defines no nosuch`),
  ]);
});
