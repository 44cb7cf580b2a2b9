/**
 * Each limit on an input that the test makes, through the command line: bombs end early, with a
 * reason that a program can read and no output.
 */
import { constants } from 'node:buffer';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, test } from '@jest/globals';
import { readArchive } from '../src/elf/archive.js';
import { type LimitName, limitNames, limits, limitText } from '../src/limits/index.js';
import { cliPath, elftrace, warmElftrace } from './support/cli.js';
import { builtSamples, root } from './support/pipeline.js';
import { run } from './support/run.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run as runTool } from './support/tools.js';
import { repeats } from './support/long.js';

const folder = mkdtempSync(join(tmpdir(), 'limits-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);
const sample = (name: string): string => join(builtSamples, name);
const module = sample('x86-64/module-fentry.ko');
const MIB = 2 ** 20;

function file(name: string, bytes: Uint8Array): string {
  writeFileSync(at(name), bytes);
  return at(name);
}

/** What `verify --json` says of one input that it did not judge. */
function refusal(args: readonly string[]): unknown {
  const { status, stdout } = warmElftrace(['verify', '--json', ...args]);
  const { error } = JSON.parse(stdout.split('\n')[0]!) as { error?: unknown };
  return { status, error };
}
const refused = (code: string, message: string): unknown => ({
  status: 2,
  error: { code, message: expect.stringContaining(message), exit: 2 },
});

/** Ten gigabytes of zeros, a piece of which is packed once; or as many pieces of 16 MiB. */
function zeros(name: string, pack: (bytes: Uint8Array) => Uint8Array, pieces = 640): string {
  const piece = pack(new Uint8Array(16 * MIB));
  writeFileSync(at(name), Buffer.concat(Array.from({ length: pieces }, () => piece)));
  return at(name);
}
const gzipped = (bytes: Uint8Array): Uint8Array => gzipSync(bytes, { level: 9 });

/** The header of a member. */
const member = (name: string, size: number): string => `${`${name}/`.padEnd(48)}${String(size).padEnd(10)}\`\n`;

/** An object whose first debug section says that it unpacks to 2^60 bytes. */
function absurdSection(): Uint8Array {
  const bytes = readFileSync(module);
  const shoff = Number(bytes.readBigUInt64LE(40));
  const count = bytes.readUInt16LE(60);
  for (let i = 1; i < count; i++) {
    const header = shoff + 64 * i;
    const [type, size] = [bytes.readUInt32LE(header + 4), Number(bytes.readBigUInt64LE(header + 32))];
    const flags = bytes.readBigUInt64LE(header + 8);
    if (type !== 1 || size < 24 || (flags & 2n) !== 0n) continue;
    bytes.writeBigUInt64LE(flags | 0x800n, header + 8);
    const offset = Number(bytes.readBigUInt64LE(header + 24));
    bytes.writeUInt32LE(1, offset);
    bytes.writeBigUInt64LE(1n << 60n, offset + 8);
    bytes.writeBigUInt64LE(1n, offset + 16);
    return bytes;
  }
  throw new Error('no section that is not loaded');
}

describeWith(['xz', 'zstd'], 'bombs', () => {
  const gz = zeros('zeros.gz', gzipped);
  const some = readFileSync(zeros('some.gz', gzipped, 20));
  const archive = (first: string): Uint8Array =>
    Buffer.concat([gzipSync(`!<arch>\n${member('big.o', 9_999_999_999)}${first}`), some]);
  const bombs: readonly (readonly [string, () => string, RegExp])[] = [
    ['gzip', () => gz, /gzip data unpacks to more than 256M \(--max-unpacked\) \[limit-exceeded\]/],
    [
      'gzip in gzip',
      () => file('nested.gz.gz', gzipSync(readFileSync(gz))),
      /unpacks to more than 256M \(--max-unpacked\) \[limit-exceeded\]/,
    ],
    [
      'xz',
      () => zeros('zeros.xz', (bytes) => runTool('xz', ['-0', '-c'], bytes)),
      /xz data unpacks to more than 256M \(--max-unpacked\) \[limit-exceeded\]/,
    ],
    [
      'zstd',
      () => zeros('zeros.zst', (bytes) => runTool('zstd', ['-19', '-c', '-q', '--no-check'], bytes)),
      /zstd data unpacks to more than its size times 250 \(--max-ratio\) \[limit-exceeded\]/,
    ],
    [
      'an archive of zeros',
      () => file('zeros.a.gz', archive('')),
      /gzip data unpacks to more than its size times 250 \(--max-ratio\) \[limit-exceeded\]/,
    ],
    [
      'an archive with one large ELF member',
      () => file('large.a.gz', archive('\x7fELF')),
      /big\.o unpacks to more than 256M \(--max-unpacked\) \[limit-exceeded\]/,
    ],
  ];
  test.each(bombs)('%s', (_name, make, message) => {
    const input = make();
    expect(statSync(input).size).toBeLessThan(16 * MIB);
    for (const verb of repeats([['patch', '--nop', '-o', at('out')], ['verify']])) {
      const begin = performance.now();
      const { status, stderr } = warmElftrace([...verb, input]);
      expect([status, stderr]).toEqual([2, expect.stringMatching(message)]);
      expect(performance.now() - begin).toBeLessThan(10_000);
    }
    expect(existsSync(at('out'))).toBe(false);
  });

  test('a section that says it unpacks to 2^60 bytes is not unpacked', () => {
    const input = file('section.ko', absurdSection());
    const begin = performance.now();
    for (const verb of ['verify', 'info']) {
      const { status } = warmElftrace([verb, '--json', input]);
      expect([verb, status]).toEqual([verb, 0]);
    }
    expect(performance.now() - begin).toBeLessThan(10_000);
  });

  test('--max-unpacked and --max-ratio move the limits', () => {
    const { size } = statSync(module);
    for (const form of ['gz', 'xz', 'zst']) {
      const input = `${module}.${form}`;
      expect(warmElftrace(['verify', input, '--max-unpacked', String(size)]).status).toBe(0);
      expect(refusal([input, '--max-unpacked', String(size - 1)])).toEqual(
        refused('limit-exceeded', `unpacks to more than ${size - 1} bytes (--max-unpacked)`),
      );
    }
    // 20 MiB of zeros behind a module: a thousandfold, and above the floor.
    const padded = file('padded.ko.gz', gzipSync(Buffer.concat([readFileSync(module), new Uint8Array(20 * MIB)])));
    expect(refusal([padded])).toEqual(refused('limit-exceeded', 'its size times 250 (--max-ratio)'));
    expect(warmElftrace(['verify', padded, '--max-ratio', 'none']).status).toBe(0);
  });
});

describe('compressed archives', () => {
  test('are taken member by member: the same verdicts, and a limit for each', () => {
    const plain = sample('x86-64/modules.a');
    const bytes = readFileSync(plain);
    const packed = file('modules.a.gz', gzipSync(bytes));
    const { stdout, status } = warmElftrace(['verify', plain]);
    const of = (result: { stdout: string }): string => result.stdout.replaceAll(packed, plain);
    expect([status, stdout.split('\n').length]).toEqual([0, expect.any(Number)]);
    expect(of(warmElftrace(['verify', packed]))).toBe(stdout);
    const largest = Math.max(...readArchive(bytes).map(({ size }) => size));
    expect(largest).toBeLessThan(bytes.length);
    expect(of(warmElftrace(['verify', packed, '--max-unpacked', String(largest)]))).toBe(stdout);
    expect(warmElftrace(['verify', packed, '--max-unpacked', String(largest - 1)])).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/unpacks to more than \d+ bytes \(--max-unpacked\) \[limit-exceeded\]/),
    });
  });

  test('cut or damaged anywhere, they are no success', () => {
    const bytes = gzipSync(readFileSync(sample('x86-64/modules.a')));
    for (let i = 1; i < 12; i++) {
      const cut = file('cut.a.gz', bytes.subarray(0, Math.floor((bytes.length * i) / 12)));
      expect([i, warmElftrace(['verify', cut]).status]).toEqual([i, 2]);
    }
    expect(warmElftrace(['verify', file('cut.a.gz', bytes.subarray(0, bytes.length - 1))]).status).toBe(2);
  });
});

describe('inputs', () => {
  test('--max-file: files, standard input and devices without an end', () => {
    const { size } = statSync(module);
    expect(warmElftrace(['verify', module, '--max-file', String(size)]).status).toBe(0);
    expect(refusal([module, '--max-file', String(size - 1)])).toEqual(
      refused('limit-exceeded', `is larger than ${size - 1} bytes (--max-file)`),
    );
    expect(refusal(['/dev/zero', '--max-file', '32M'])).toEqual(refused('limit-exceeded', 'is larger than 32M'));
    const piped = (limit: number): number | null =>
      spawnSync(process.execPath, [cliPath, 'verify', '-', '--max-file', String(limit)], {
        input: readFileSync(module),
      }).status;
    expect([piped(size), piped(size - 1)]).toEqual([0, 2]);
    expect(refusal(['--symbols', '/dev/zero', '--max-file', '32M', module])).toEqual(
      refused('limit-exceeded', '/dev/zero is larger than 32M'),
    );
  });

  test('files that no array of the engine can hold', () => {
    // From Node 22 on there is no file system for a file of one byte more.
    if (constants.MAX_LENGTH > 2 ** 40) return;
    const large = file('large', new Uint8Array());
    truncateSync(large, constants.MAX_LENGTH + 1);
    const words = `${large} has ${constants.MAX_LENGTH + 1} bytes: more than fit into memory at once`;
    expect(refusal([large, '--max-file', 'none'])).toEqual(refused('limit-exceeded', words));
    expect(refusal([large])).toEqual(refused('limit-exceeded', 'is larger than 1G (--max-file)'));
    rmSync(large);
  });

  test('values that are none are refused before anything is read', () => {
    for (const name of ['file', 'unpacked', 'ratio', 'time'] as const) {
      const { option } = limits[name];
      for (const value of ['0', 'much', '-1', '']) {
        const { status, stderr } = warmElftrace(['verify', 'no-such-file', `--${option}=${value}`]);
        expect([status, stderr]).toEqual([2, expect.stringMatching(new RegExp(`--${option} .*\\[usage\\]`))]);
      }
    }
  });
});

describe('--timeout', () => {
  const tree = at('tree');
  mkdirSync(tree);
  for (let i = 0; i < 400; i++) writeFileSync(join(tree, `m${i}.ko`), readFileSync(module));

  test.each(['1', '2'])('verify of a tree, --jobs %s: what was not looked at is said, and is no success', (jobs) => {
    const result = elftrace(['verify', '--json', '--jobs', jobs, '--timeout', '0.06', tree]);
    const lines = result.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const done = lines.filter((line) => line['file'] !== undefined && line['error'] === undefined).length;
    expect(done).toBeLessThan(400);
    expect(result.status).toBe(2);
    expect(lines.at(-2)).toMatchObject({ error: { code: 'timeout', exit: 2 } });
    expect(lines.at(-1)).toHaveProperty('summary.failed');
    expect(result.stderr).toMatch(/took longer than 0\.06 seconds \(--timeout\) \[timeout\]/);
  });

  test('race: a search that ends early has no verdict', () => {
    const begin = performance.now();
    const { status, stdout } = warmElftrace([
      'race', sample('x86-64/program-fentry'), '--site', 'leaf', '--cpus', '3', '--json', '--timeout', '1',
    ]); // prettier-ignore
    expect(status).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ races: [{ verdict: 'undecided' }] });
    expect(performance.now() - begin).toBeLessThan(10_000);
  });

  test('standard input that gives nothing is not waited for beyond it', () => {
    const verify = `"${process.execPath}" "${cliPath}" verify --json --timeout 0.2 -`;
    const { status, stdout } = spawnSync('sh', ['-c', `sleep 1 | ${verify}`], { encoding: 'utf8' });
    expect([status, stdout]).toEqual([2, expect.stringContaining('"code":"timeout"')]);
    const piped = spawnSync('sh', ['-c', `(sleep 0.2; cat "${module}") | "${process.execPath}" "${cliPath}" verify -`]);
    expect(piped.status).toBe(0);
  });

  test('cost', () => {
    const { status, stderr } = warmElftrace(['cost', '--timeout', '0.0001', sample('x86-64/program-fentry')]);
    expect([status, stderr]).toEqual([2, expect.stringMatching(/\(--timeout\) \[timeout\]/)]);
  });
});

const TALK = `
static long sys(long n, long a, long b, long c) {
  long r;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return r;
}
static char line[50002];
__attribute__((used, noinline)) void talk(char how) {
  for (int i = 0; i < 50000; i++) line[i] = 'a';
  line[50000] = '!';
  line[50001] = '\\n';
  do sys(1, 1, (long)line, sizeof line); while (how == 'e');
  sys(60, 0, 0, 0);
}
__attribute__((naked)) void _start(void) {
  __asm__("mov 16(%rsp), %rax\\n movsbl (%rax), %edi\\n and $-16, %rsp\\n call talk");
}
`;

describeWith(['gcc'], 'programs that run', () => {
  let built: string | null = null;
  /** Writes a line of 50,000 letters: once (`l`), or for ever (`e`). */
  const talk = (): string => {
    if (built === null) {
      writeFileSync(at('talk.c'), TALK);
      built = at('talk');
      runTool('gcc', [
        '-O1',
        '-static',
        '-nostdlib',
        '-ffreestanding',
        '-fno-pic',
        '-no-pie',
        '-o',
        built,
        at('talk.c'),
      ]);
    }
    return built;
  };

  test.each(['(a+)+$', '(a|aa)+$', '(a*)*b', '^(.*a){12}$'])(
    '--compare-ignore %s on 50,000 letters ends',
    (pattern) => {
      const begin = performance.now();
      const result = run(['--compare', talk(), '--compare-ignore', pattern, talk(), 'l']);
      expect([result.status, result.json['compare']]).toEqual([0, expect.objectContaining({ equal: true })]);
      expect(performance.now() - begin).toBeLessThan(10_000);
    },
  );

  test('--compare-ignore: what cannot be done in linear time is refused', () => {
    for (const pattern of ['(a)\\1', 'a(?=b)', '(?<!a)b', '(']) {
      const result = run(['--compare', talk(), '--compare-ignore', pattern, talk(), 'l']);
      expect([result.status, result.stderr]).toEqual([125, expect.stringMatching(/as RE2 takes it.*\[usage\]/)]);
    }
  });

  test('--max-output: so much and no more, and a run that was cut proves nothing', () => {
    const cut = run(['--max-output', '120000', talk(), 'e']);
    expect([cut.status, cut.stdout.length, cut.json['stop']]).toEqual([
      125,
      120_000,
      expect.objectContaining({ reason: 'output-limit', function: expect.stringMatching(/^talk/) }),
    ]);
    expect(cut.stderr).toMatch(/stopped by --max-output 120000 at 0x/);
    const whole = run(['--max-output', '50002', talk(), 'l']);
    expect([whole.status, whole.stdout.length]).toEqual([0, 50_002]);
    const both = run(['--max-output', '1M', '--compare', talk(), talk(), 'e']);
    expect([both.status, both.json['compare']]).toEqual([125, expect.objectContaining({ equal: null })]);
    // A file for it is complete or not there.
    const to = run(['--max-output', '1M', '--guest-output', at('said'), talk(), 'e']);
    expect([to.status, statSync(at('said')).size]).toEqual([125, MIB]);
  });

  test('--max-trace: no part of a trace is left', () => {
    const args = ['--trace-source=oracle', '--trace', at('trace'), sample('x86-64/program-fentry')];
    expect(run(args).status).toBe(0);
    const { size } = statSync(at('trace'));
    expect(run(['--max-trace', String(size), ...args]).status).toBe(0);
    rmSync(at('trace'));
    const cut = run(['--max-trace', String(size - 1), ...args]);
    expect([cut.status, cut.stderr]).toEqual([125, expect.stringMatching(/\(--max-trace\) \[limit-exceeded\]/)]);
    expect(existsSync(at('trace'))).toBe(false);
  });
});

describe('documentation', () => {
  const help = Object.fromEntries(
    ['verify', 'run', 'cost', 'race'].map((verb) => [
      verb,
      elftrace([verb, '--help'], { env: { COLUMNS: '300' } }).stdout,
    ]),
  );
  const page = readFileSync(join(root, 'docs', 'limits.md'), 'utf8');
  const inAll: readonly LimitName[] = ['file', 'unpacked', 'ratio', 'time'];

  test.each(limitNames)('%s: help, page and manual name the option and its default', (name) => {
    const { option, what } = limits[name];
    const value = limitText(name, limits[name].default);
    const text = inAll.includes(name) ? Object.values(help) : [help['run']!];
    for (const each of text) {
      expect(each.replace(/\s+/g, ' ')).toContain(`--${option} ${what} (${value})`);
    }
    expect(page.replace(/\s+/g, ' ')).toContain(`* \`--${option}\` (${value}): ${what} `);
    expect(readFileSync(join(root, 'docs', 'elftrace.1'), 'utf8')).toContain(`\\-\\-${option.replaceAll('-', '\\-')}`);
  });

  test('the page has no row besides', () => {
    expect(page.match(/^\* `--/gm)).toHaveLength(limitNames.length);
  });
});
