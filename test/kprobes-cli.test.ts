/**
 * Probes on the command line: patch, run, status, explain, revert, plan and apply, on a sample with
 * ftrace sites.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, expect, test } from '@jest/globals';
import { EM_ARM } from '../src/elf/constants.js';
import { readElf } from '../src/elf/read.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples, root } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-probes-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);
const SAMPLE = join(builtSamples, 'x86-64', 'program-fentry');
const validator = (name: string) =>
  new Ajv2020({ strict: true, strictTypes: false, strictRequired: false }).compile(
    JSON.parse(readFileSync(join(root, 'schemas', `${name}.schema.json`), 'utf8')) as object,
  );

/** `sum` begins with a site (5 bytes); the next instructions are behind it. */
const PROBES = [
  '--probe',
  'p:t/site sum n=%si:s32',
  '--probe',
  'p:t/in mix64+5 a=%di b=%bx',
  '--probe',
  'r:t/out mix64 $retval',
];

const lines = (name: string): readonly string[] => {
  const trace = at(`${name}.trace`);
  const { status } = elftrace(['run', '--trace', trace, '--format', 'ftrace', at(name)]);
  expect(status).toBe(0);
  return readFileSync(trace, 'utf8')
    .split('\n')
    .filter((line) => line.includes('): ') === false && /: \(/.test(line))
    .map((line) => line.replace(/^.*?\d+: /, ''));
};

test('patch --probe by breakpoints and by jumps: the same events; status lists them; revert gives the original', () => {
  const texts: (readonly string[])[] = [];
  for (const [name, more] of [
    ['bp', []],
    ['jump', ['--optimize']],
    ['old', ['--optimize', '--kprobe-opt=2009']],
  ] as const) {
    // Kprobes of 2009 know no ftrace sites.
    const probes = name === 'old' ? PROBES.slice(2, 4) : PROBES;
    const patched = elftrace(['patch', SAMPLE, '-o', at(name), ...probes, ...more, '--json']);
    expect([name, patched.status]).toEqual([name, 0]);
    const json = JSON.parse(patched.stdout) as {
      probes: { state: string; symbol: string; refusal: { code: string } | null }[];
    };
    expect(validator('patch')(json)).toBe(true);
    const states = json.probes.map(({ symbol, state }) => `${symbol} ${state}`);
    expect(states.includes('sum ftrace')).toBe(name !== 'old');
    expect(states.filter((each) => each === 'mix64 jump')).toHaveLength(more.length === 0 ? 0 : 1);
    texts.push(lines(name));
    const status = elftrace(['status', at(name), '--json']);
    expect(validator('status')(JSON.parse(status.stdout))).toBe(true);
    expect(elftrace(['status', at(name)]).stdout).toMatch(
      more.length === 0 ? /k {2}mix64\+0x5 {2}t\/in$/m : /k {2}mix64\+0x5 {2}\[OPTIMIZED\] {2}t\/in$/m,
    );
    expect(elftrace(['revert', at(name), '-o', at(`${name}.r`)]).status).toBe(0);
    expect(readFileSync(at(`${name}.r`)).equals(readFileSync(SAMPLE))).toBe(true);
  }
  expect(texts[0]!.length).toBeGreaterThan(3);
  expect(texts[1]).toEqual(texts[0]);
  expect(texts[2]).toEqual(texts[0]!.filter((line) => line.startsWith('in')));
  expect(texts[0]).toContainEqual(expect.stringMatching(/^site: \(sum\+0x0\) n=\d+$/));
  expect(texts[0]).toContainEqual(expect.stringMatching(/^out: \(program <- mix64\) arg1=0x[0-9a-f]+$/));
});

test('T-KP-2 T-KP-29 --kprobe-opt=2009 --preempt=full: no jump, with the reason', () => {
  const { status, stderr, stdout } = elftrace([
    'patch', SAMPLE, '-o', at('full'), ...PROBES, '--optimize', '--kprobe-opt=2009', '--preempt=full',
  ]); // prettier-ignore
  // Sites are served by ftrace, which kprobes of 2009 do not know.
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/no-ftrace-support, EINVAL/);
  const inside = elftrace([
    'patch', SAMPLE, '-o', at('full'), '--probe', 'p mix64+5', '--optimize', '--kprobe-opt=2009', '--preempt=full',
  ]); // prettier-ignore
  expect(inside.status).toBe(0);
  expect(inside.stderr).toMatch(/not optimised: .* \(no-optimization, ENOSYS\) \[T-10\]/);
});

test('a second call adds to the first; another version is refused; plan and apply give the same bytes', () => {
  expect(elftrace(['patch', SAMPLE, '-o', at('one'), '--probe', 'p:a mix64+5']).status).toBe(0);
  expect(elftrace(['patch', at('one'), '-o', at('two'), '--probe', 'p:b mix64+5', '--optimize']).status).toBe(0);
  expect(elftrace(['status', at('two')]).stdout).toMatch(/mix64\+0x5 .*kprobes\/b kprobes\/a$/m);
  const twice = elftrace(['patch', at('two'), '-o', at('three'), '--probe', 'p:b mix64+5']);
  expect([twice.status, twice.stderr]).toEqual([1, expect.stringMatching(/registered-twice, EEXIST/)]);
  const other = elftrace(['patch', at('two'), '-o', at('three'), '--probe', 'p:c mix64+5', '--kprobe-opt=2009']);
  expect([other.status, other.stderr]).toEqual([2, expect.stringMatching(/revert it first/)]);
  expect(elftrace(['plan', SAMPLE, '--probe', 'p:a mix64+5', '-o', at('plan.json')]).status).toBe(0);
  expect(elftrace(['apply', SAMPLE, at('plan.json'), '-o', at('applied')]).status).toBe(0);
  expect(readFileSync(at('applied')).equals(readFileSync(at('one')))).toBe(true);
});

test('probes that are refused: the reason, and no output', () => {
  for (const [define, status, message] of [
    ['p nobody', 1, /no-symbol, ENOENT/],
    ['p mix64+6', 1, /not-a-boundary, EILSEQ/],
    ['p sum+2', 1, /inside-site, EILSEQ/],
    ['p mix64+5 %zz', 2, /no register is named %zz/],
    ['q mix64', 2, /begins with p or r/],
    ['r mix64+5', 2, /at the entry of a function/],
  ] as const) {
    const result = elftrace(['patch', SAMPLE, '-o', at('none'), '--probe', define]);
    expect([define, result.status, result.stdout]).toEqual([define, status, '']);
    expect(result.stderr).toMatch(message);
  }
  for (const [file, message] of [
    ['x86-64/pie-patchable-5', /cannot be laid into a position-independent file \[no-runtime\]$/m],
    ['x86-64/module-fentry.ko', /a relocatable file is loaded first .* \[no-runtime\]$/m],
    // K-ADDR-7: "Without that support -> EINVAL".
    [
      'arm64/program-patchable-4-2',
      /the entry callops passes no registers, regs \(--a64-era=regs\) would \(no-ftrace-support, EINVAL\)/,
    ],
  ] as const) {
    const { status, stderr } = elftrace(['patch', join(builtSamples, file), '-o', at('none'), '--probe', 'p recurse']);
    expect([file, status, stderr]).toEqual([file, file.startsWith('arm64') ? 1 : 2, expect.stringMatching(message)]);
  }
});

test('K-OPT-8 load --probes: the image and its modules have room; probes of a module that is unloaded are gone, and status says so', () => {
  const sample = (name: string): string => join(builtSamples, 'x86-64', name);
  const run = (...args: string[]): [number | null, string, string] => {
    const { status, stdout, stderr } = elftrace(args, { cwd: folder });
    return [status, stdout, stderr];
  };
  const one = sample('far-one.ko');
  expect(run('load', sample('core.o'), one, '-o', 'plain')[0]).toBe(0);
  const noRoom = run('patch', 'plain', '-o', 'none', '--probe', 'p core_round+5');
  expect(noRoom).toEqual([2, '', expect.stringMatching(/lay it out with load --probes \[no-runtime\]/)]);
  const twice = run('load', 'plain', '--probes', '1', '-o', 'none');
  expect(twice).toEqual([2, '', expect.stringMatching(/has its runtime already/)]);
  const zero = run('load', sample('core.o'), '--probes', '0', '-o', 'none');
  expect(zero).toEqual([2, '', expect.stringMatching(/--probes takes a number from 1/)]);

  expect(run('load', sample('core.o'), one, '--probes', '4', '-o', 'small')[0]).toBe(0);
  // A module that comes later has room, too; the core does not know it.
  expect(run('load', 'small', sample('far-two.ko'), '-o', 'image')[0]).toBe(0);
  const probes = ['--probe', 'p:a two_wide+6', '--probe', 'p:b core_round+5', '--optimize'];
  const [status, stdout] = run('patch', 'image', ...probes, '-o', 'probed');
  expect([status, stdout]).toEqual([0, expect.stringMatching(/2 places probed: 2 by jumps$/m)]);
  expect(run('unload', 'probed', 'far_two', '-o', 'less')).toEqual([0, expect.anything(), '']);
  const json = JSON.parse(run('status', 'less', '--json')[1]) as { probes: { state: string; symbol: string }[] };
  expect(validator('status')(json)).toBe(true);
  expect(json.probes.map(({ symbol, state }) => `${symbol} ${state}`)).toEqual(['core_round jump', 'two_wide gone']);
  expect(run('status', 'less')[1]).toMatch(/k {2}two_wide\+0x6 {2}\[GONE\] {2}kprobes\/a$/m);
});

test('K-REL-2: relocations that the linker kept are in the image that gets the runtime, without a notice', () => {
  const sample = join(builtSamples, 'x86-64', 'program-fentry-relocations');
  const kept = (path: string): string[] =>
    readElf(new Uint8Array(readFileSync(path))).sections.flatMap(({ name }) =>
      name.startsWith('.rela') ? [name] : [],
    );
  expect(kept(sample)).toContain('.rela.text');
  const probes = ['--probe', 'p:a mix64+5', '--probe', 'p:b sum+5', '--optimize'];
  const patched = elftrace(['patch', sample, ...probes, '-o', at('kept')]);
  expect(patched).toMatchObject({ status: 0, stderr: '' });
  expect(kept(at('kept'))).toEqual(kept(sample));
  expect(elftrace(['revert', at('kept'), '-o', at('kept.r')]).status).toBe(0);
  expect(readFileSync(at('kept.r')).equals(readFileSync(sample))).toBe(true);
});

test('explain: whether a place can have a probe and a jump, and the rule that decides', () => {
  const place = (text: string): string => elftrace(['explain', SAMPLE, text]).stdout;
  expect(place('mix64+0x5')).toMatch(/^ {2}probe {4}yes: mix64\+0x5 .*\n {2}jump {5}yes: jmp32 over \d instructions/m);
  expect(place('mix64+0x6')).toMatch(/^ {2}probe {4}no: .*\(not-a-boundary, EILSEQ\) \[K-ADDR-4\]$/m);
  expect(place('sum')).toMatch(/served by ftrace\n {2}jump {5}no: .*\[K-ADDR-7\]$/m);
  const json = JSON.parse(elftrace(['explain', SAMPLE, 'mix64+0x5', '--json']).stdout) as { probe: object };
  expect(validator('explain')(json)).toBe(true);
  expect(json.probe).toMatchObject({ probeable: true, optimizable: true, form: 'jmp32', symbol: 'mix64', offset: 5 });
});

test.each([
  ['patch --probe', ['-o', at('a32.out'), '--probe', 'p:e f']],
  ['patch --optimize', ['-o', at('a32.out'), '--probe', 'p:e f', '--optimize']],
])('A32 is recognised and refused: %s', (_, options) => {
  const bytes = readFileSync(join(builtSamples, 'ppc32', 'core-mcount'));
  // e_machine, in the file's byte order.
  bytes.writeUInt16BE(EM_ARM, 18);
  writeFileSync(at('a32'), bytes);
  const { status, stdout, stderr } = elftrace(['patch', at('a32'), ...options]);
  expect([status, stdout]).toEqual([4, '']);
  expect(stderr).toMatch(/ARM \(32 bit\): recognised, and not served .*\(ENODEV\) \[unsupported-machine\]/);
  expect(existsSync(at('a32.out'))).toBe(false);
});
