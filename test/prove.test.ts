/** Proofs of sites: patched programs of every target, and what a broken one is called. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { load } from '../src/program/program.js';
import { entryPoint } from '../src/program/entry-points.js';
import { prove } from '../src/prove/index.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { covering, isLong, isWhole } from './support/long.js';
import { builtSamples, root } from './support/pipeline.js';
import { proof } from './support/proof.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-prove-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const sample = (name: string): string => join(builtSamples, name);
const bytesOf = (path: string): Uint8Array => new Uint8Array(readFileSync(path));

const programs = [
  'x86-64/program-fentry',
  'x86-64/program-clang-mcount',
  'x86-64/program-fentry-indirect',
  'x86-64/program-fentry-large',
  'x86-64/program-patchable-16-11',
  'arm64/program-patchable-2',
  'arm64/program-patchable-bti-mixed',
  'arm64/program-mcount',
  'riscv64/program-patchable-8',
  'riscv64/program-patchable-8-4-aligned',
  'riscv64/program-mcount-relaxed',
  'ppc32/program-mcount',
  'ppc32/program-patchable-2',
  'ppc32/program-patchable-1',
  'ppc64-elfv1/program-mcount',
  'ppc64-elfv2-be/program-mprofile',
  'ppc64-elfv2-le/program-mprofile',
  'ppc64-elfv2-le/program-clang-mcount',
  'ppc64-elfv2-le/program-power10-patchable-2',
];

/** Patches a sample; the path of what comes out. */
function patched(name: string, ...options: readonly string[]): string {
  const output = join(folder, `${name.replace('/', '-')}${options.join('')}`);
  const { status, stderr } = elftrace(['patch', sample(name), ...options, '-o', output]);
  expect([name, status, status === 0 ? '' : stderr]).toEqual([name, 0, '']);
  return output;
}

/** Bytes of an instruction word in little-endian order. */
const word = (value: number): number[] => [0, 8, 16, 24].map((shift) => (value >>> shift) & 0xff);

const probed = [
  ['x86-64/program-fentry', 'outer+0xd'],
  ['x86-64/program-mcount', 'outer+0xe'],
  ['arm64/program-mcount', 'outer+0x14'],
  ['riscv64/program-mcount', 'outer+0x14'],
  ['ppc32/program-mcount', 'outer+0x10'],
  ['ppc64-elfv1/program-mcount', 'outer+0x10'],
  ['ppc64-elfv2-be/program-mprofile', 'outer+0x10'],
  ['ppc64-elfv2-le/program-mprofile', 'outer+0x10'],
] as const;
describe.each(probed.map((each, i) => [...each, i] as const))('probes of %s', (name, place, at) => {
  const kinds: readonly (readonly [string, readonly string[]])[] = [
    ['a breakpoint', ['--probe', `p:x ${place}`]],
    ['a jump', ['--probe', `p:x ${place}`, '--optimize']],
    ['a return', ['--probe', 'r:x leaf']],
    ['a return of a site that is on', ['--enable', '--probe', 'r:x leaf']],
  ];
  // Each kind on two machines, where not all are tried.
  test.each(isWhole ? kinds : [kinds[at % kinds.length]!])('PV-1: %s is proved', (_, options) => {
    const { status, stdout } = elftrace(['prove', patched(name, ...options)]);
    expect([status, stdout]).toEqual([0, expect.stringMatching(/ [1-9]\d* proved, \d+ unchanged, 0 different, 0 inc/)]);
  });
});

test('PV-3: a jump to a probe that the record does not tell of is refused, not proved', async () => {
  const name = 'x86-64/program-fentry';
  const image = readElf(bytesOf(patched(name, '--probe', 'p:x outer+0xd', '--optimize')));
  const place = entryPoint(load(image, archOf(image.header)), 'outer')!.address + 0xdn;
  const at = image.fileOffsetOf(place);
  // A displacement that is one more ends inside the buffer.
  expect(image.bytes[at]).toBe(0xe9);
  image.bytes[at + 1]! += 1;
  await expect(proof(bytesOf(sample(name)), image.bytes)).rejects.toMatchObject({ code: 'state-mismatch' });
});

const tracers = [
  ['PV-2: traced by function_graph', ['--enable', '--tracer', 'function_graph']],
  ['PV-1: traced by function', ['--enable', '--tracer', 'function']],
  ['PV-1: turned off', ['--nop']],
] as const;
const machineOf = (name: string): string => name.replace(/\/.*/, '');
/** Each program in one way; in `npm test` each machine. */
const combined = covering(
  programs.flatMap((name, i) => tracers.map((_, k) => ({ name, way: tracers[(i + k) % tracers.length]! }))),
  ({ name }) => (isLong ? name : machineOf(name)),
  ({ way }) => way[0],
);

describe.each(programs.filter((each) => combined.some(({ name }) => name === each)))('%s', (name) => {
  test.each(combined.filter((each) => each.name === name).map(({ way }) => way))('%s is proved', (_, options) => {
    const { status, stdout } = elftrace(['prove', patched(name, ...options)]);
    const [, all, proved, unchanged] = /(\d+) sites: (\d+) proved, (\d+) unchanged, 0 different, 0 inconclusive/.exec(
      stdout,
    )!;
    expect(Number(proved) + Number(unchanged)).toBe(Number(all));
    // Nops of the compiler are nops already: nothing changed, and their bytes are the proof.
    expect(status).toBe(0);
    if (options[0] === '--enable') expect(Number(proved)).toBeGreaterThan(4);
  });
});

describe('what a proof finds', () => {
  const name = 'arm64/program-patchable-2';
  const traced = (): Uint8Array => bytesOf(patched(name, '--enable', '--tracer', 'function'));

  test('PV-1: a register that the entry does not put back, with both ways', () => {
    const image = readElf(traced().slice());
    const program = load(image, archOf(image.header));
    const caller = entryPoint(program, 'ftrace_caller')!.address;
    // The last load of arguments in front of the branch back: x0 keeps what the callback left.
    const at = image.fileOffsetOf(caller);
    const words = new Uint32Array(image.bytes.slice(at, at + 400).buffer);
    const load0 = words.findIndex((word) => (word & 0xffc0_03ff) >>> 0 === (0xa940_0000 | (31 << 5)) >>> 0);
    expect(load0).toBeGreaterThan(0);
    image.bytes.set([0x1f, 0x20, 0x03, 0xd5], at + 4 * load0);
    const path = join(folder, 'no-load');
    writeFileSync(path, image.bytes);
    const { status, stdout } = elftrace(['prove', path, sample(name)]);
    expect([status, stdout]).toEqual([1, expect.stringMatching(/different\n {2}behind the site: x[0-7] is 0x/)]);
    const [, first = ''] = stdout.split(/^.*: different\n/m);
    const lines = first.split('\n').map((line) => line.trimEnd());
    expect(lines[1]).toBe(
      '  rule PV-1: behind a site each register holds what it holds in the original, but for those that are dead there',
    );
    expect(lines[2]).toBe('  registers that must be equal there, and are not (original | patched):');
    // The pair that was not loaded, and no other.
    const registers = lines.filter((line) => / x\d+ +0x[0-9a-f]+ +\| 0x[0-9a-f]+$/.test(line));
    expect(registers.map((line) => line.trim().split(' ')[0])).toEqual(['x0', 'x1']);
    // Side by side: the site of both, the entry of one, the instruction that wrote what differs.
    expect(first).toMatch(/^ {5}0x4[0-9a-f]+ {2}nop +\| 0x4[0-9a-f]+ {2}mov x9, x30$/m);
    expect(first).toMatch(/^ {10,} \| ftrace_caller:$/m);
    expect(first.match(/^ {3}> .*$/gm)).toEqual([expect.stringMatching(/^ {3}> +\| 0x[0-9a-f]+ {2}\w/)]);
  });

  /** What is printed where each of some words of the entry is another one. */
  const saidWith = (from: readonly number[], to: readonly number[]): string => {
    const bytes = Buffer.from(bytesOf(patched(name, '--enable', '--tracer', 'function', '--a64-era', 'args')));
    const at = bytes.indexOf(Buffer.from(new Uint32Array(from).buffer));
    expect(at).toBeGreaterThan(0);
    bytes.set(new Uint8Array(new Uint32Array(to).buffer), at);
    writeFileSync(join(folder, 'wrong-entry'), bytes);
    const { status, stdout } = elftrace(['prove', join(folder, 'wrong-entry'), sample(name)]);
    expect(status).toBe(1);
    return stdout;
  };

  test('PV-4: what a callback is told is marked where it was seen; other sites are told of in a line', () => {
    // mov x1, x9 becomes mov x1, x30.
    const said = saidWith([0xaa09_03e1], [0xaa1e_03e1]);
    expect(said).toMatch(/^ {2}behind the site: elftrace_function_tracer: was told parent 0x\w+, not 0x\w+$/m);
    expect(said.match(/^ {3}> +\| 0x\w+ {2}bti c$/gm)).toHaveLength(1);
    expect(said).toMatch(/executed; > where that was seen:$/m);
    // A number is not all that is said of where the trial begins.
    expect(said).toMatch(
      /^ {2}the trial begins at 0x\w+ with .*, returns to 0x\w+, stack pointer 0x\w+; the tracer's data: as the image has it$/m,
    );
    const [, first] = /^.*different\n {2}.*\n {2}rule [^]*? 0x(\w+) {2}bl /m.exec(said)!;
    expect(said.match(/^ +original +\| patched$/gm)).toHaveLength(1);
    expect(said.split(` (as at 0x${first!} above)`).length).toBeGreaterThan(10);
  });

  test('PV-4: of a way that never ends the beginning is told, too', () => {
    // add sp, sp, #0x90 in front of ret x9 becomes a branch to itself.
    const said = saidWith([0x9102_43ff, 0xd65f_0120], [0x1400_0000, 0xd65f_0120]);
    expect(said).toMatch(/the patched way goes in circles: .*; the original comes to the place behind the site$/m);
    expect(said).toMatch(
      /\| 0x\w+ {2}mov x9, x30\n.*\| 0x\w+ {2}bl #0x\w+\n[^]*… \d+ instructions …\n[^]*\n {3}> +\| 0x(\w+) {2}b #0x\1$/m,
    );
  });

  test('PV-4: of a register it is said what both values are', () => {
    // ldp x29, x30, [sp, #0x50] becomes ldr x29, [sp, #0x50].
    const said = saidWith([0xa945_7bfd], [0xf940_2bfd]);
    expect(said).toMatch(
      /^ +x30 +(0x\w+) \| (0x\w+)\n +\(\1 is where the function returns to\)\n +\(\2 is ftrace_caller\+0x\w+\)$/m,
    );
  });

  test('PV-1: a callback that is not called, although its filter takes the site', async () => {
    const image = readElf(traced().slice());
    const program = load(image, archOf(image.header));
    const call = entryPoint(program, 'ftrace_call')!.address;
    image.bytes.set([0x1f, 0x20, 0x03, 0xd5], image.fileOffsetOf(call));
    const { summary, sites } = await proof(bytesOf(sample(name)), image.bytes);
    expect([summary.proved, summary.different > 4]).toEqual([0, true]);
    expect(sites.find(({ account }) => account)?.account?.difference).toEqual({
      what: 'event',
      name: 'elftrace_function_tracer',
      reason: 'called 0 times, not once',
    });
  });

  // Stores of registers into the frame that callbacks alone read.
  test.each([
    ['x86-64/program-fentry', [], [0x4c, 0x89, 0x6c, 0x24, 0x10], [0x0f, 0x1f, 0x44, 0, 0], 'word 16', 'r13'],
    ['arm64/program-patchable-2', ['--a64-era', 'regs'], word(0xa90b_5ff6), word(0xd503_201f), 'word 176', 'x22'],
    ['riscv64/program-patchable-8', [], word(0x0b51_3423), word(0x0000_0013), 'word 168', 's5'],
    ['ppc32/program-patchable-2', [], [0x92, 0x81, 0, 0x60], [0x60, 0, 0, 0], 'word 80', 'r20'],
    ['ppc64-elfv2-le/program-mprofile', [], word(0xfa81_00d0), word(0x6000_0000), 'word 160', 'r20'],
  ] as const)('PV-1: %s: a frame is read as callbacks read it', async (program, options, store, nop, ...texts) => {
    const image = readElf(
      bytesOf(patched(program, '--enable', '--tracer', 'counter', '--save-regs', ...options)).slice(),
    );
    // Private trampolines have copies.
    const bytes = Buffer.from(image.bytes.buffer, image.bytes.byteOffset, image.bytes.length);
    let [count, at] = [0, bytes.indexOf(Buffer.from(store))];
    for (; at >= 0; at = bytes.indexOf(Buffer.from(store), at), count++) image.bytes.set(nop, at);
    expect(count).toBeGreaterThan(0);
    const { summary, sites } = await proof(bytesOf(sample(program)), image.bytes);
    expect([program, summary.proved, summary.different > 4]).toEqual([program, 0, true]);
    const { difference } = sites.find(({ account }) => account)!.account!;
    const said = difference.what === 'event' ? `${difference.name} ${difference.reason}` : '';
    for (const text of ['elftrace_counter', ...texts]) expect(said).toContain(text);
  });

  test('PV-2: the body is executed, and the account of what the way back lost shows the way back', async () => {
    const image = readElf(bytesOf(patched(name, '--enable', '--tracer', 'function_graph')).slice());
    const program = load(image, archOf(image.header));
    const handler = entryPoint(program, 'return_to_handler')!.address;
    const at = image.fileOffsetOf(handler);
    // ldp x0, x1, [sp]: the result is lost.
    const load0 = Buffer.from(image.bytes.subarray(at, at + 128)).indexOf(Buffer.from(word(0xa940_07e0)));
    expect(load0).toBeGreaterThan(0);
    image.bytes.set(word(0xd503_201f), at + load0);
    const { summary, sites } = await proof(bytesOf(sample(name)), image.bytes);
    expect([summary.proved, summary.different > 4]).toEqual([0, true]);
    const found = sites.find(({ account }) => account?.difference.what === 'register' && account.original.length > 0)!;
    const { phase, difference, original, patched: way, writer } = found.account!;
    expect([phase, difference]).toEqual([
      'return',
      expect.objectContaining({ name: expect.stringMatching(/^x[01]$/) }),
    ]);
    // Both came through the body, the patched one then through the handler.
    const bodies = [original, way.slice(0, original.length)].map((each) => each.map(({ address }) => address));
    expect(bodies[1]).toEqual(bodies[0]);
    expect(bodies[0]!.every((address) => address >= found.address)).toBe(true);
    expect(way[original.length]!.address).toBe(handler);
    expect(writer?.side).toBe('patched');
  });

  // The last stores of records: stlr, of the usual record and of any. One that is far says so by
  // 8 more.
  test.each([
    [
      'PV-1: a record without its kind',
      'function',
      'elftrace_function_tracer',
      /^the kind of a record is 0x0, not 0x[7f]$/,
    ],
    [
      'PV-1: an entry without its kind',
      'function_graph',
      'elftrace_graph_push',
      /^the kind of a record is 0x0, not 0x[19]$/,
    ],
  ])('%s', async (_, tracer, usual, reason) => {
    const image = readElf(bytesOf(patched(name, '--enable', '--tracer', tracer)).slice());
    const { symbols } = image;
    for (const symbol of [usual, 'write_any'].map((each) => symbols.find(each))) {
      const from = image.fileOffsetOf(symbols.value[symbol]!);
      const stores = Array.from({ length: Number(symbols.size[symbol]) / 4 }, (__, i) => from + 4 * i).filter(
        (at) => image.bytes[at + 3] === 0xc8 && image.bytes[at + 2] === 0x9f && (image.bytes[at + 1]! & 0xfc) === 0xfc,
      );
      expect(stores.length).toBeGreaterThan(0);
      for (const at of stores) image.bytes.set(word(0xd503_201f), at);
    }
    const { summary, sites } = await proof(bytesOf(sample(name)), image.bytes);
    expect([summary.proved, summary.different > 4]).toEqual([0, true]);
    expect(sites.find(({ account }) => account)?.account?.difference).toEqual({
      what: 'event',
      name: 'data of the tracer',
      reason: expect.stringMatching(reason),
    });
  });

  test('PV-3: a ring that is full, and keeps its oldest records, drops the next ones', async () => {
    const image = readElf(bytesOf(patched(name, '--enable', '--tracer', 'function_graph')).slice());
    const { symbols } = image;
    const ring = image.fileOffsetOf(symbols.value[symbols.find('elftrace_ring_memory')]!);
    image.bytes.set([1, 0, 0, 0, 0, 0, 1], ring + 20);
    const { summary } = await proof(bytesOf(sample(name)), image.bytes);
    expect([summary.proved > 4, summary.different]).toEqual([true, 0]);
  });

  test('PV-4: a byte that changed elsewhere is not passed over', () => {
    const original = bytesOf(sample(name));
    const path = join(folder, 'elsewhere');
    const image = readElf(traced().slice());
    const text = image.sections.find((each) => each.name === '.text')!;
    const last = text.offset + text.size - 4;
    image.bytes[last] = original[last]! ^ 1;
    writeFileSync(path, image.bytes);
    const { status, stdout } = elftrace(['prove', path, sample(name)]);
    expect([status, stdout]).toEqual([125, expect.stringContaining('1 changed bytes belong to no site')]);
  });

  test('PV-4: a sample is no proof, and the same seed gives the same answer', () => {
    const path = patched(name, '--enable', '--tracer', 'function');
    const sampled = elftrace(['prove', path, '--sample', '3']);
    expect([sampled.status, sampled.stdout]).toEqual([125, expect.stringMatching(/ \d+ not tried\n/)]);
    // So many as were asked for, not more.
    const [, all, ...counts] = /(\d+) sites: (\d+) proved, (\d+) unchanged/.exec(sampled.stdout)!.map(Number);
    expect([all! > 13, counts[0]! + counts[1]!]).toEqual([true, 3]);
    const most = elftrace(['prove', path, '--sample', '13']).stdout;
    expect(most).toContain(` ${all! - 13} not tried`);
    expect(elftrace(['prove', path, '--json', '--seed', '7']).stdout).toBe(
      elftrace(['prove', path, '--json', '--seed', '7']).stdout,
    );
  });

  test("PV-1: a direct caller and a function in another one's place are reached", () => {
    for (const [program, options] of [
      ['riscv64/program-patchable-8', ['--direct', 'leaf=ftrace_stub_direct_tramp']],
      ['x86-64/program-fentry', ['--livepatch', 'leaf=bump']],
      ['arm64/program-patchable-2', ['--livepatch', 'leaf=bump']],
      ['ppc32/program-patchable-4-2', ['--livepatch', 'leaf=bump']],
      // The way back goes through the tracer, which restores r2 (PV-2).
      ['ppc64-elfv2-le/program-mprofile', ['--livepatch', 'leaf=bump']],
    ] as const) {
      const { status, stdout } = elftrace(['prove', patched(program, ...options)]);
      expect([program, status, stdout]).toEqual([program, 0, expect.stringContaining(' 1 proved, ')]);
    }
  });

  test('PV-1: two ops with one callback are two calls', () => {
    const steps = [{ ops: { name: 'one', call: 'elftrace_counter', filter: 'leaf' } }, { register: 'one' }];
    const more = [{ ops: { name: 'two', call: 'elftrace_counter' } }, { register: 'two' }];
    const session = join(folder, 'session.json');
    writeFileSync(session, JSON.stringify({ version: 1, steps: [...steps, ...more] }));
    const output = join(folder, 'two-ops');
    expect(elftrace(['patch', sample(name), '--session', session, '-o', output]).status).toBe(0);
    const { status, stdout } = elftrace(['prove', output]);
    expect([status, stdout]).toEqual([0, expect.stringContaining(' 0 different, 0 inconclusive')]);
  });

  test('PV-4: patch --prove writes what is proved, and nothing else', () => {
    const output = join(folder, 'written');
    const written = elftrace(['patch', sample(name), '--enable', '--prove', '-o', output]);
    expect([written.status, elftrace(['prove', output]).status]).toEqual([0, 0]);
    const probed = elftrace(['patch', sample(name), '--probe', 'p:x leaf+8', '--prove', '-o', `${output}.2`]);
    expect([probed.status, existsSync(`${output}.2`)]).toEqual([0, true]);
  });

  test('PV-4: patch --prove --partial leaves what is not proved as it was, and says so', () => {
    const path = join(folder, 'trap');
    const image = readElf(bytesOf(sample('x86-64/program-mcount')));
    const entry = entryPoint(load(image, archOf(image.header)), 'leaf')!.address;
    // ud2 in front of the site: nothing comes to the place behind it.
    image.bytes.set([0x0f, 0x0b, 0x90, 0x90], image.fileOffsetOf(entry));
    writeFileSync(path, image.bytes);
    const output = join(folder, 'parts');
    const whole = elftrace(['patch', path, '--nop', '--prove', '-o', output]);
    expect([whole.status, existsSync(output)]).toEqual([1, false]);
    const { status, stdout } = elftrace(['patch', path, '--nop', '--prove', '--partial', '--json', '-o', output]);
    const { refusals } = JSON.parse(stdout) as { refusals: { code: string; function: string; reason: string }[] };
    expect([status, refusals.map(({ code, function: name }) => [code, name.split('+')[0]])]).toEqual([
      0,
      [['not-proved', 'leaf']],
    ]);
    expect(refusals[0]!.reason).toContain('undefined-instruction');
    const after = elftrace(['prove', output]);
    expect([after.status, after.stdout]).toEqual([
      0,
      expect.stringMatching(/ 16 proved, 2 unchanged, 0 different, 0 inc/),
    ]);
    const share = elftrace(['patch', path, '--nop', '--prove', '--partial', '--require', '100', '-o', `${output}.2`]);
    expect([share.status, existsSync(`${output}.2`)]).toEqual([1, false]);
    const session = elftrace(['patch', path, '--probe', 'p leaf', '--prove', '--partial', '-o', output]);
    expect(session.status).toBe(2);
  });

  test('PV-7: --jobs gives the same answer with any number of threads', () => {
    const output = patched(name, '--enable', '--tracer', 'function');
    const [one, three] = ['1', '3'].map((jobs) => elftrace(['prove', output, '--all', '--json', '--jobs', jobs]));
    expect([three!.status, three!.stdout]).toEqual([0, one!.stdout]);
    expect(one!.stdout.trim().split('\n')).toHaveLength(20);
    const refused = elftrace(['prove', output, sample('x86-64/program-fentry'), '--jobs', '2']);
    expect([refused.status, refused.stderr]).toEqual([2, expect.stringContaining('different machines')]);
  });

  test('a timer aborts a proof', async () => {
    const image = readElf(bytesOf(sample(name)));
    const on = readElf(traced());
    const run = async (): Promise<void> => {
      const options = { trials: 1000, signal: AbortSignal.timeout(20) };
      for await (const each of prove(image, on, archOf(image.header), options)) expect(each.verdict).toBe('proved');
    };
    await expect(run()).rejects.toThrow(/abort/);
  });

  test('lines of --json fit their schema', () => {
    const ajv = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false });
    const validate = ajv.compile(
      JSON.parse(readFileSync(join(root, 'schemas', 'prove.schema.json'), 'utf8')) as object,
    );
    const image = readElf(traced().slice());
    image.bytes.set([0x1f, 0x20, 0x03, 0xd5], image.fileOffsetOf(
      entryPoint(load(image, archOf(image.header)), 'ftrace_call')!.address,
    )); // prettier-ignore
    const path = join(folder, 'json');
    writeFileSync(path, image.bytes);
    for (const each of [path, patched(name, '--enable', '--tracer', 'counter')]) {
      const { stdout } = elftrace(['prove', each, sample(name), '--json', '--all']);
      for (const line of stdout.trim().split('\n')) {
        expect([validate(JSON.parse(line)), validate.errors, line]).toEqual([true, null, line]);
      }
    }
  });

  test('PV-4: a file that is not the one of the record, and one that is cut off, are refused', () => {
    const on = patched(name, '--enable', '--tracer', 'function');
    for (const other of ['arm64/program-mcount', 'arm64/pie-patchable-2']) {
      const { status, stdout, stderr } = elftrace(['prove', on, sample(other)]);
      expect([other, status, stdout, stderr]).toEqual([other, 2, '', expect.stringContaining('is not the file that')]);
    }
    // What is in between, with a record of its own, was the same file once.
    const between = patched(name, '--nop', '-l', 'leaf');
    const both = join(folder, 'between-on');
    expect(elftrace(['patch', between, '--nop', '-o', both]).status).toBe(0);
    expect([0, 125]).toContain(elftrace(['prove', both, between]).status);
    for (const size of [3000, 100, 0]) {
      writeFileSync(join(folder, 'cut'), traced().subarray(0, size));
      const { status, stdout } = elftrace(['prove', join(folder, 'cut'), sample(name)]);
      expect([size, status, stdout]).toEqual([size, 2, '']);
    }
  });

  test.each([
    [
      'a module of a machine that is not served',
      ['s390x/module-fentry.ko', 's390x/module-fentry.ko'],
      4,
      'not laid out',
    ],
    ['a machine without an emulator', ['s390x/program-mcount', 's390x/program-mcount'], 4, 'nothing can be proved'],
    // Neither has a record: what tells is where the code is.
    [
      'a program against another one',
      ['arm64/program-mcount', 'arm64/program-patchable-2'],
      2,
      'do not have their code at the same places',
    ],
    ['files of two machines', ['x86-64/program-fentry', 'arm64/program-patchable-2'], 2, 'different machines'],
    ['a file without a record', ['x86-64/program-fentry'], 2, 'record'],
  ])('%s is refused', (_, names, code, text) => {
    const { status, stderr } = elftrace(['prove', ...names.map(sample)]);
    expect([status, stderr]).toEqual([code, expect.stringContaining(text)]);
  });
});
