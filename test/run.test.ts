/** `elftrace run` as its users have it: exit codes, what it says, files, traces. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { checkRequest, type RunArguments } from '../src/cli/run.js';
import { ppcGcc } from './support/emulator.js';
import { builtSamples, root } from './support/pipeline.js';
import { ends, kinds, run } from './support/run.js';
import { describeWith } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'run-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);
const sample = (name: string): string => join(builtSamples, name);
const mprofile = sample('ppc64-elfv2-le/program-mprofile');

describeWith(kinds.map(ppcGcc), 'ends', () => {
  test.each([
    ['e', 42, undefined, 'exit'],
    ['s', 139, 11, 'fault'],
    ['t', 133, 5, 'trap'],
    ['i', 132, 4, 'illegal-instruction'],
    ['a', 134, 6, 'signal'],
    ['u', 125, undefined, 'unknown-instruction'],
    ['f', 125, undefined, 'deadlock'],
  ])('%s: exit %i', (how, status, signal, reason) => {
    const result = run([ends('le'), how]);
    expect([result.status, result.json['signal'], (result.json['stop'] as { reason: string }).reason]).toEqual([
      status,
      signal,
      reason,
    ]);
    expect(result.json['exit']).toBe(signal === undefined ? status : null);
    expect(result.stdout).toBe('');
    if (reason === 'exit') expect(result.stderr).toBe('');
    else expect(result.stderr.split('\n').length).toBeGreaterThan(2);
  });

  test.each(kinds)('a fault on %s: instruction, bytes, text, callers by name', (kind) => {
    const { stderr, json } = run([ends(kind), 's']);
    const lines = stderr.trimEnd().split('\n');
    expect(lines[0]).toMatch(/: write fault at 0x10, instruction 0x[0-9a-f]+ \(inner\S*\)$/);
    expect(lines[1]).toMatch(/^ {2}0x[0-9a-f]+ \(inner\S*\): ([0-9a-f]{2} ){4} stw r\d+,0\(r\d+\)$/);
    expect(lines.slice(2).map((each) => /called from 0x[0-9a-f]+ \((\w+)/.exec(each)?.[1])).toEqual(
      expect.arrayContaining(['outer', 'main']),
    );
    const stop = json['stop'] as { backtrace: { function: string }[]; access: string; address: string };
    expect(stop).toMatchObject({ access: 'write', address: '0x10' });
    expect(stop.backtrace.slice(0, 2).map((each) => each.function.replace(/\+.*/, ''))).toEqual(['outer', 'main']);
  });

  test('--max-instructions and --timeout end with 125', () => {
    const limited = run(['--max-instructions', '12345', ends('le'), 'l']);
    expect([limited.status, limited.json['instructions']]).toEqual([125, 12345]);
    expect(limited.stderr).toContain('stopped by --max-instructions at 0x');
    const begin = Date.now();
    const late = run(['--max-instructions', '1000000000000', '--timeout', '0.3', ends('le'), 'l']);
    expect([late.status, (late.json['stop'] as { reason: string }).reason]).toEqual([125, 'timeout']);
    // The clock is the command's: what it took to read the image counts.
    expect(Number(late.json['seconds'])).toBeGreaterThan(0);
    expect(Number(late.json['seconds'])).toBeLessThan(10);
    expect(Date.now() - begin).toBeGreaterThanOrEqual(300);
    expect(Date.now() - begin).toBeLessThan(10_000);
  });

  test('--tier changes nothing but the time', () => {
    const all = ['0', '1', 'auto'].map((tier) => run(['--tier', tier, ends('le'), 'v']));
    const results = all.map(({ status, stdout, stderr, json }) => [status, stdout, stderr, json['instructions']]);
    expect(results[1]).toEqual(results[0]);
    expect(results[2]).toEqual(results[0]);
  });

  test('--env gives the whole environment', () => {
    expect(run([ends('le'), 'v']).stdout).toBe('');
    expect(run(['--env', 'A=1', '--env', 'B=x y=z', ends('le'), 'v']).stdout).toBe('A=1\nB=x y=z\n');
  });

  test('arguments behind -- go to the program', () => {
    expect(run([ends('le'), 'o', '--trace']).stdout).toBe('--trace');
  });

  test('--root: files below it, nothing else', () => {
    mkdirSync(at('jail'));
    writeFileSync(at('jail/inside'), 'inside');
    writeFileSync(at('outside'), 'outside');
    symlinkSync('../outside', at('jail/link'));
    const read = (path: string, ...options: string[]): [number | null, string] => {
      const { status, stdout } = run([...options, ends('le'), 'r', path]);
      return [status, stdout];
    };
    const ENOENT = 2;
    expect(read('/inside', '--root', at('jail'))).toEqual([0, 'inside']);
    expect(read('/../../inside', '--root', at('jail'))).toEqual([0, 'inside']);
    for (const path of ['/link', '/../outside', at('outside'), '/etc/passwd']) {
      expect([path, read(path, '--root', at('jail'))]).toEqual([path, [ENOENT, '']]);
    }
    expect(read(at('outside'))).toEqual([ENOENT, '']);
    expect(run(['--root', at('none'), ends('le'), 'e']).status).toBe(125);
  });
});

describe('samples', () => {
  test('--trace: to a file, or beside the output of the program; the output stays', () => {
    const file = at('trace');
    const traced = run(['--trace', file, '--trace-source=oracle', '--format', 'ndjson', mprofile]);
    expect([traced.status, traced.stderr]).toEqual([0, '']);
    expect(traced.stdout).toMatch(/\ntrace=49\n$/);
    const events = readFileSync(file, 'utf8').trimEnd().split('\n').slice(1);
    const moved = run([
      '--trace', '-', '--trace-source=oracle', '--format', 'ndjson', '--guest-output', at('moved'), mprofile,
    ]); // prettier-ignore
    expect([moved.status, moved.stdout.split('\n').length]).toEqual([0, events.length + 2]);
    expect(readFileSync(at('moved'), 'utf8')).toBe(traced.stdout);
  });

  test('--trace: what is refused, and the notice for an image without symbols', () => {
    const file = at('refused');
    const check = (options: Partial<RunArguments>) => (): unknown =>
      checkRequest({
        path: mprofile,
        arguments: [],
        tier: 'auto',
        profile: false,
        listSyscalls: false,
        can: false,
        json: false,
        traceSource: 'guest',
        ...options,
      });
    const oracle = { trace: file, traceSource: 'oracle' };
    for (const options of [
      { ...oracle, trace: '-', format: 'ndjson' },
      { traceSource: 'other' },
      { trace: file, traceSource: 'other' },
      { format: 'ndjson' },
      { ...oracle, format: 'nonsense' },
      { ...oracle, format: 'constructor' },
    ]) {
      expect(check(options)).toThrow(expect.objectContaining({ code: 'usage' }));
    }
    expect(check({ ...oracle, format: 'svg' })).toThrow(
      '--format svg is not known: ndjson, folded, ftrace, graph, chrome, perfetto',
    );
    for (const format of ['ndjson', 'folded', 'ftrace', 'graph', 'chrome', 'perfetto']) {
      expect(check({ ...oracle, format })).not.toThrow();
      expect(check({ trace: file, format })).not.toThrow();
    }
    expect(check({ trace: file })).not.toThrow();
    const refused = run(['--trace', '-', '--trace-source=oracle', '--format', 'ndjson', mprofile]);
    expect([refused.status, refused.stdout]).toEqual([125, '']);
    expect(refused.stderr).toMatch(/would mix with the program's output.*\[usage\]\n$/);
    expect(existsSync(file)).toBe(false);
    const bytes = readFileSync(mprofile);
    // No section headers, no symbols: e_shoff, e_shnum and e_shstrndx of a 64-bit header.
    bytes.fill(0, 0x28, 0x30);
    bytes.fill(0, 0x3c, 0x40);
    writeFileSync(at('stripped'), bytes);
    const stripped = run(['--profile', at('stripped')]);
    expect(stripped.status).toBe(0);
    expect(stripped.stderr).toContain('notice: the image has no symbols');
    expect(stripped.stderr).toMatch(/100\.0 .*\[outside\]/);
  });

  test('--trace without a tracer in the image: no events, a notice, and the run as ever (RT-15)', () => {
    const file = at('guest');
    const plain = run(['--trace', file, mprofile]);
    expect(plain.status).toBe(0);
    expect(plain.stdout).toMatch(/\ntrace=49\n$/);
    expect(plain.stderr).toMatch(/^.*: notice: no events: the image has no ring to record into \(elftrace_ring\).*\n$/);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({
      schema: 1,
      clock: 'instructions',
      source: 'guest',
      image: mprofile,
    });
    const graph = run(['--trace', file, '--format', 'graph', mprofile]);
    expect([graph.status, graph.stderr]).toEqual([0, plain.stderr]);
    expect(readFileSync(file, 'utf8')).toMatch(/^# tracer: function_graph\n(#.*\n)+$/);
  });

  test.each([
    ['ftrace', /^# tracer: function\n#\n# clock: instructions\n/, / <-program$/m],
    ['graph', /^# tracer: function_graph\n#\n# clock: instructions\n/, /^ {2}0\) +\d+ {2}\| +\} \/\* leaf \*\/$/m],
    [
      'chrome',
      /^\{"otherData":\{"clock":"instructions","time":"ts and durations are instructions/,
      /^\{"ph":"B".*"name":"leaf"/m,
    ],
  ])('--format %s', (format, head, line) => {
    const file = at(format);
    const made = run(['--trace', file, '--trace-source=oracle', '--format', format, mprofile]);
    expect([made.status, made.stderr]).toEqual([0, '']);
    const text = readFileSync(file, 'utf8');
    expect(text).toMatch(head);
    expect(text).toMatch(line);
  });

  test('--profile: a table of instructions by function', () => {
    const { stderr } = run(['--profile', mprofile]);
    expect(stderr.split('\n')[0]).toMatch(/^ +self +% +total +% +calls {2}function$/);
    expect(stderr).toMatch(/^ +\d+ +\d+\.\d +\d+ +\d+\.\d +14 {2}recurse$/m);
  });

  test('exit 125: wrong use, bad input, machines that are not executed are never taken for a status of the guest', () => {
    for (const options of [
      ['--max-instructions', 'x'],
      ['--timeout', '-1'],
      ['--tier', '2'],
      ['--env', 'X'],
    ]) {
      expect([options, run([...options, mprofile]).status]).toEqual([options, 125]);
    }
    expect(run([at('missing')]).status).toBe(125);
    expect(run([join(root, 'package.json')]).status).toBe(125);
    expect(run(['--compare-ignore', 'x', mprofile]).status).toBe(125);
    expect(run(['--json-status', '/nowhere/status', mprofile]).status).toBe(125);
    expect(run([sample('ppc32/module-mcount.ko')]).status).toBe(125);
  });
});
