/**
 * `patch --session`: operations from files, several calls one after another on the same file, what
 * `status` then prints, and the way back. The numbers of calls are those of the samples, which the
 * loader's and runtime's tests hold against qemu.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { withRoomFor } from '../src/tracing/inject.js';
import { runtimeObject } from '../src/runtime/index.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { sampled } from './support/long.js';
import { builtSamples, openBytes } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-session-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const at = (name: string): string => join(folder, name);
const bytesOf = (name: string): Uint8Array => new Uint8Array(readFileSync(at(name)));

const FIRST = `version: 1
steps:
  - ops: { name: mine, call: elftrace_counter, filter: 'core_*' }
  - register: mine
  - ops: { name: all, call: elftrace_function_tracer, notrace: '*_leaf' }
  - register: all
`;
const SECOND = `version: 1
steps:
  - unregister: mine
  - filter: { ops: all, words: 'far_one_* :mod:far_two' }
`;

describe.each(sampled(['ppc32', 'ppc64-elfv1', 'ppc64-elfv2-be', 'ppc64-elfv2-le'], 2))('%s', (target) => {
  const name = (file: string): string => `${target}-${file}`;
  beforeAll(() => {
    const [core, one, two] = ['core.o', 'far-one.ko', 'far-two.ko'].map((file) => join(builtSamples, target, file));
    expect(elftrace(['load', core!, one!, two!, '-o', at(name('image'))]).status).toBe(0);
    writeFileSync(at('first.yaml'), FIRST);
    writeFileSync(at('second.yaml'), SECOND);
  });

  const patch = (input: string, output: string, ...sessions: string[]): ReturnType<typeof elftrace> =>
    elftrace([
      'patch',
      at(name(input)),
      ...sessions.flatMap((each) => ['--session', at(each)]),
      '-o',
      at(name(output)),
    ]);
  const events = (input: string): string[] => {
    const trace = at(name(`${input}.trace`));
    const run = elftrace(['run', '--trace', trace, '--format', 'ndjson', at(name(input))]);
    expect([run.status, run.stdout]).toEqual([51, expect.stringMatching(/checksum 0x931c4573\n$/)]);
    const lines = readFileSync(trace, 'utf8').trim().split('\n').slice(1);
    return lines.map((line) => {
      const event: { readonly function: string } = JSON.parse(line);
      return event.function;
    });
  };

  test('C-UPD-1 C-TGT-4: the plan names the rule, the site and the reason of each of its stores', () => {
    const planned = elftrace(['patch', at(name('image')), '--session', at('first.yaml'), '--dry-run', '--json']);
    const { steps }: { steps: { rule: string; site?: number; reason?: string; address: string }[] } = JSON.parse(
      planned.stdout,
    );
    expect(steps.filter(({ reason }) => reason === undefined)).toEqual([]);
    const { sites, program } = openBytes(bytesOf(name('image')));
    const functionOf = (site: number): string => program.symbolName(sites.functionSymbol(site));
    const becomes = steps.flatMap(({ reason, site }) => {
      const found = /^the site of (\S+) becomes /.exec(reason!);
      return found === null ? [] : [[found[1]!, functionOf(site!)] as const];
    });
    expect(becomes.length).toBeGreaterThan(10);
    for (const [said, own] of becomes) expect(said).toBe(own);
    const reasons = new Set(steps.map(({ reason, rule }) => `${rule} ${reason!}`));
    expect([...reasons]).toEqual(expect.arrayContaining([expect.stringMatching(/^C-UPD-1 the object of mine$/)]));
    expect([...reasons].some((each) => /^C-TGT-4 the (plain|regs) entry calls ftrace_ops_list_func$/.test(each))).toBe(
      true,
    );
  });

  test('C-REG-1, C-REP-2: several calls on one file, and the listing', () => {
    expect(patch('image', 'one', 'first.yaml').status).toBe(0);
    const seen = events('one');
    expect(seen.length).toBeGreaterThan(50);
    expect(seen.filter((each) => each.endsWith('_leaf'))).toEqual([]);
    const { stdout } = elftrace(['status', at(name('one'))]);
    expect(stdout).toMatch(/^core_leaf \(1\)\s.*->ftrace_ops_list_func$/m);
    expect(stdout).toMatch(/^core_round \(2\)\s/m);
    expect(stdout).toMatch(/^one_run \[far_one\] \(1\)\s/m);
    expect(stdout).not.toMatch(/^one_leaf/m);

    expect(patch('one', 'two', 'second.yaml').status).toBe(0);
    const later = events('two');
    expect(later.length).toBeGreaterThan(10);
    expect(later.every((each) => /^(far_one_|far_two_|two_)/.test(each))).toBe(true);
    // In one call the same bytes.
    expect(patch('image', 'both', 'first.yaml', 'second.yaml').status).toBe(0);
    expect(bytesOf(name('both'))).toEqual(bytesOf(name('two')));
    expect(elftrace(['revert', at(name('two')), '-o', at(name('back'))]).status).toBe(0);
    expect(bytesOf(name('back'))).toEqual(bytesOf(name('image')));
  });

  test('operations that are refused: place, errno, no output', () => {
    const wrong: readonly [text: string, status: number, message: RegExp][] = [
      ['  - register: nobody\n', 2, /wrong\.yaml:3:\d+: no step before this one makes the ops 'nobody'/],
      ["  - ops: { name: a, call: elftrace_counter, filter: 'nothing_*' }\n", 1, /EINVAL/],
      ['  - ops: { name: a, call: nobody }\n', 2, /no nobody/],
      ['  - direct: { function: core_leaf, caller: core_idle }\n', 1, /ENODEV/],
      ['  - ops: { name: a, call: elftrace_counter }\n  - register: a\n  - register: a\n', 1, /EBUSY/],
    ];
    for (const [text, status, message] of wrong) {
      writeFileSync(at('wrong.yaml'), `version: 1\nsteps:\n${text}`);
      const result = patch('image', 'never', 'wrong.yaml');
      expect([result.status, result.stderr]).toEqual([status, expect.stringMatching(message)]);
      expect(() => readFileSync(at(name('never')))).toThrow();
    }
  });

  test('RT-6: bytes that something else changed are not written over', () => {
    expect(patch('image', 'one', 'first.yaml').status).toBe(0);
    const bytes = bytesOf(name('one'));
    const { sites, image } = openBytes(bytes);
    const offset = image.fileOffsetOf(sites.ip(5));
    bytes[offset + 1] = bytes[offset + 1]! ^ 0xff;
    writeFileSync(at(name('touched')), bytes);
    const result = patch('touched', 'never', 'second.yaml');
    expect([result.status, result.stderr]).toEqual([1, expect.stringMatching(/state-mismatch/)]);
    expect(elftrace(['patch', at(name('one')), '--nop', '-o', at(name('never'))]).status).toBe(4);
  });
});

test('RT-4: the runtime gets room for the filters of images with many sites', () => {
  const bytes = runtimeObject('ppc64-elfv1', 'pg')!;
  const before = bytes.slice();
  const small = readElf(bytes).section('.elftrace.data')!;
  expect(withRoomFor(bytes, 10).section('.elftrace.data')!.size).toBe(4096 + 320);
  const image = withRoomFor(bytes, 60_000);
  const large = image.section('.elftrace.data')!;
  expect([large.index, large.size]).toEqual([small.index, 4096 + 32 * 60_000]);
  expect(image.contents(large).every((byte) => byte === 0)).toBe(true);
  expect(bytes).toEqual(before);
  expect(image.symbols.count).toBe(readElf(bytes).symbols.count);
});
