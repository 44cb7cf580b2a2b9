/**
 * What `replay`, `report` and `graph` show of a trace: as uftrace shows it of the same one, with
 * the same options; and where programs, names and lines of sources come from.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from '@jest/globals';
import { scratch } from './support/c-programs.js';
import { cliPath, warmElftrace as elftrace } from './support/cli.js';
import { compile, describeNatively, NOPS, patched, type Report, schemaOf, traced } from './support/native-run.js';
import { run } from './support/tools.js';

const SOURCE = `volatile int sink;
void leaf(void) { sink++; }
void middle(int n) { for (int i = 0; i < n; i++) leaf(); sink++; }
int again(int n) { leaf(); return n == 0 ? 0 : again(n - 1) + 1; }
void end_of_work(void) { sink++; }
int main(void) {
  middle(3);
  leaf();
  again(4);
  middle(2);
  end_of_work();
  return 0;
}
`;
const FLAGS = ['-O1', '-fno-inline', '-fno-optimize-sibling-calls', '-g', NOPS];

function recorded(file = patched(compile(SOURCE, FLAGS))): string {
  const ran = traced(file);
  expect(ran.status).toBe(0);
  return ran.dir;
}

function verb(...words: string[]): string {
  const { status, stdout, stderr } = elftrace(words);
  expect([status, stderr]).toEqual([0, '']);
  return stdout;
}

const rows = (text: string): string[] => text.split('\n').filter((row) => row !== '' && !row.startsWith('#'));
/** Lines of a replay without durations and threads, as both tools print them. */
const shape = (text: string): string[] => rows(text).map((row) => row.replace(/^.*?\] \| /, '').trimEnd());

describeNatively('verbs', () => {
  let dir = '';
  let data = '';
  const here = (): readonly [string, string] => {
    if (dir === '') {
      dir = recorded();
      data = scratch('uftrace');
      verb('export', dir, '--format', 'uftrace', '-o', data);
    }
    return [dir, data];
  };
  const uftrace = (name: string, ...options: string[]): string =>
    run('uftrace', [name, '--no-pager', '-d', here()[1], ...options]).toString();

  describe('RT-40: filters show what those of uftrace show', () => {
    test.each([
      [[]],
      [['-F', 'middle']],
      [['-N', 'again']],
      [['-F', 'main', '-N', 'middle']],
      [['-D', '2']],
      [['-F', 'again', '-D', '2']],
      [['-F', 'middle', '-F', 'again']],
      [['-H', 'middle', '-H', 'again', '-D', '3']],
      [['--match', 'regex', '-F', 'g.in', '-N', '^l.+f$']],
      [['-T', 'leaf@backtrace', '-H', 'again', '-D', '2']],
      [['-T', 'middle@filter,backtrace,depth=1']],
      [['-T', 'again@depth=2;leaf@backtrace,color=red', '-T', 'middle@hide,depth=1']],
      [['-T', 'main@depth=1', '-F', 'again', '-T', 'leaf@notrace,backtrace']],
    ])('replay %j', (options) => {
      expect(shape(verb('replay', here()[0], ...options))).toEqual(shape(uftrace('replay', ...options)));
    });

    test('colours of functions, on a terminal alone', () => {
      const words = ['replay', here()[0], '-F', 'middle', '-T', 'leaf@color=green,backtrace'];
      expect(verb(...words)).not.toContain('\u001b');
      const command = [process.execPath, cliPath, ...words].map((word) => `'${word}'`).join(' ');
      const env = { ...process.env, NODE_OPTIONS: '', NO_COLOR: undefined };
      const shown = spawnSync('script', ['-qec', command, '/dev/null'], { encoding: 'utf8', env }).stdout;
      expect(shown).toContain('|   \u001b[32mleaf\u001b[0m();');
      expect(shown).toContain('| \u001b[90m/* [ 0] main */\u001b[0m');
    });

    test.each([
      [['-T', 'leaf@size=9'], 4, /record -T takes it/],
      [['-T', 'leaf@read=page-fault'], 4, /record -T takes it, or says why not/],
      [['-T', 'leaf@color=pink'], 2, /colours are red, green/],
      [['-T', 'leaf@show'], 2, /actions are backtrace, color=C/],
      [['-T', 'leaf'], 2, /not of the form/],
      [['-T', 'leaf@backtrace', '--json'], 2, /about text/],
    ])('refused: %j', (options, code, text) => {
      const { status, stderr } = elftrace(['replay', here()[0], ...options]);
      expect([status, stderr]).toEqual([code, expect.stringMatching(text)]);
    });

    test('patterns, levels and spans of time on report and graph', () => {
      const json = (...options: string[]): Report =>
        JSON.parse(verb('report', here()[0], '--json', ...options)) as Report;
      expect(json().calls).toBe(20);
      expect(json('-F', 'm?dd*').functions.map(({ function: name, calls }) => [name, calls])).toEqual([
        ['middle', 2],
        ['leaf', 5],
      ]);
      expect(json('-D', '1').calls).toBe(1);
      expect(json('-r', '~0ns').calls).toBe(0);
      expect(json('-r', '0ns~').calls).toBe(20);
      expect(json('-r', '1s~').calls).toBe(0);
      // Seconds of the clock: it began to run after the machine, and a while ago.
      expect([json('-r', '0~').calls, json('-r', '~1').calls]).toEqual([20, 0]);
      // Levels count from each call of the function, also from one that it makes of itself.
      expect(shape(uftrace('replay', '-F', 'again', '-D', '1'))).toHaveLength(9);
      expect(rows(verb('graph', here()[0], '-F', 'again', '-D', '1')).map((row) => row.slice(16))).toEqual(
        [0, 1, 2, 3, 4].map((level) => `${'  '.repeat(level)}(1) again`),
      );
      for (const wrong of [
        ['-r', '5'],
        ['-r', 'x~'],
        ['-D', '0'],
        ['--tid', 'x'],
        ['-s', 'size'],
        ['-f', 'size'],
      ]) {
        expect([wrong, elftrace(['report', here()[0], ...wrong]).status]).toEqual([wrong, 2]);
      }
      expect(elftrace(['report', here()[0], '--tid', '1']).stderr).toMatch(/has no thread 1/);
    });
  });

  test('RT-40: columns of report, with the times that uftrace adds up', () => {
    const options = ['-f', 'total,self,call', '-s', 'total'];
    const table = (text: string): string[][] =>
      rows(text)
        .slice(2)
        .map((row) => row.trim().split(/ {2,}/));
    const [ours, theirs] = [table(verb('report', here()[0], ...options)), table(uftrace('report', ...options))];
    const sorted = (lines: string[][]): string[][] => [...lines].sort((a, b) => (a.at(-1)! < b.at(-1)! ? -1 : 1));
    // It has no times for what took none that it can tell, and may leave it out.
    const timed = theirs.filter((row) => row.length === 4);
    expect(timed.length).toBeGreaterThan(3);
    expect(sorted(ours.filter(([total]) => total !== '0.000 us'))).toEqual(sorted(timed));
    expect(rows(verb('report', here()[0]))[0]!.trim().split(/ {2,}/)).toEqual(
      rows(uftrace('report'))[0]!.trim().split(/ {2,}/),
    );
  });

  test('RT-42: lines of sources are those of addr2line', () => {
    const program = compile(SOURCE, FLAGS);
    const found = JSON.parse(verb('report', recorded(patched(program)), '--json')) as Report;
    expect(new Ajv2020().compile(schemaOf('report'))(found)).toBe(true);
    const names = found.functions.map(({ function: name }) => name);
    const symbols = run('nm', [program]).toString();
    const addresses = names.map((name) => new RegExp(`^([0-9a-f]+) T ${name}$`, 'm').exec(symbols)![1]!);
    const lines = run('addr2line', ['-e', program, ...addresses])
      .toString()
      .trim()
      .split('\n');
    const sources = found.functions.map((each) => (each as { source?: string }).source);
    expect(sources).toEqual(lines.map((line) => line.replace(/ \(discriminator.*/, '')));
    expect(new Set(sources).size).toBe(5);
    // Other versions of the line table, and compressed sections.
    for (const more of [['-gdwarf-4'], ['-gdwarf-2', '-gstrict-dwarf'], ['-gdwarf-5', '-gz']]) {
      const other = JSON.parse(
        verb('report', recorded(patched(compile(SOURCE, [...FLAGS, ...more]))), '--json'),
      ) as Report;
      const bySymbol = (each: Report): string[] =>
        each.functions
          .map((one) => `${one.function} ${(one as { source?: string }).source!.replace(/^.*:/, '')}`)
          .sort();
      expect([more, bySymbol(other)]).toEqual([more, bySymbol(found)]);
    }
  });

  test('RT-41: a trace is read where its program is not: by --root, by name in it, and never another one', () => {
    const program = compile(SOURCE, FLAGS);
    const moved = recorded(patched(program));
    const [root, away] = [scratch('root'), scratch('away')];
    renameSync(program, away);
    const lost = elftrace(['report', moved]);
    expect([lost.status, /--object FILE/.test(lost.stderr)]).toEqual([2, true]);
    // Where it was, below another root.
    mkdirSync(join(root, dirname(program)), { recursive: true });
    cpSync(away, join(root, program));
    expect(verb('report', moved, '--root', root)).toContain('end_of_work');
    // Elsewhere below it, by name; one of the same name that is another program is none.
    rmSync(join(root, program));
    mkdirSync(join(root, 'deep/er'), { recursive: true });
    writeFileSync(join(root, program), 'no program');
    cpSync(away, join(root, 'deep/er', program.slice(program.lastIndexOf('/') + 1)));
    expect(verb('report', moved, '--root', root)).toContain('end_of_work');
    rmSync(join(root, 'deep'), { recursive: true });
    expect(elftrace(['report', moved, '--root', root]).status).toBe(2);
  });

  test('RT-41: names and lines of a stripped program come from the debugging information of the same build', () => {
    const program = compile(SOURCE, [...FLAGS, '-Wl,--build-id']);
    const bare = scratch('bare');
    run('strip', ['-o', bare, program]);
    const id = /Build ID: ([0-9a-f]+)/.exec(run('readelf', ['-n', program]).toString())![1]!;
    const root = scratch('root');
    const debug = join(root, 'usr/lib/debug/.build-id', id.slice(0, 2), `${id.slice(2)}.debug`);
    mkdirSync(dirname(debug), { recursive: true });
    run('objcopy', ['--only-keep-debug', program, debug]);
    const stripped = recorded(patched(bare, '--symbols', program));
    const found = JSON.parse(verb('report', stripped, '--root', root, '--json')) as Report;
    expect(found.functions.map(({ function: name }) => name).sort()).toEqual([
      'again',
      'end_of_work',
      'leaf',
      'main',
      'middle',
    ]);
    expect((found.functions[0] as { source?: string }).source).toMatch(/:\d+$/);
  });
});
