/**
 * Modules and objects that come and go under sessions at rest: `load` and `unload` of images with a
 * recorded session, the steps of the same names, `--with`, `--enable` beside `--session`, and plans
 * that another process carries out. What a late module does is seen by calling its functions.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import type { ConventionName } from '../src/machine/conventions.js';
import type { TargetId } from '../src/targets.js';
import { callFunction, startProcess } from '../src/guest/index.js';
import { readElf } from '../src/elf/read.js';
import { ElftraceError } from '../src/errors.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { formatFunctions } from '../src/ftrace/index.js';
import { readRecord } from '../src/record/journal.js';
import { loadIntoSession, replaySessions, unloadFromSession } from '../src/tracing/session-parts.js';
import { planSession } from '../src/tracing/session-plan.js';
import { loadImages, loadMore, type Source } from '../src/program/loader.js';
import { runtimeObject } from '../src/runtime/index.js';
import { sha256 } from '../src/sha256.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { sampled } from './support/long.js';
import { builtSamples, openBytes, readSample } from './support/pipeline.js';

const cases: readonly { readonly target: TargetId; readonly flavour: ConventionName; readonly ending: string }[] = [
  { target: 'x86-64', flavour: 'modern', ending: '' },
  { target: 'ppc32', flavour: 'regs', ending: '' },
  { target: 'ppc64-elfv1', flavour: 'pg', ending: '' },
  { target: 'ppc64-elfv1', flavour: 'regs', ending: '-mprofile' },
  { target: 'ppc64-elfv2-be', flavour: 'regs', ending: '' },
  { target: 'ppc64-elfv2-le', flavour: 'regs', ending: '' },
  { target: 'riscv64', flavour: 'g2', ending: '' },
  { target: 'arm64', flavour: 'callops', ending: '' },
];

const SESSION = `version: 1
steps:
  - ops: { name: wait, call: elftrace_counter, filter: 'core_idle two_*:mod:far_two', notrace: 'two_peer:mod:far_two' }
  - register: wait
`;

/** Runs one function of an image; the result and how many calls were counted. */
function call(bytes: Uint8Array, name: string, argument: bigint): { result: bigint; counted: bigint } {
  const { image, arch, program } = openBytes(bytes);
  const { emulation, abi } = arch;
  if (emulation.kind !== 'ir') throw new Error('not executed');
  const process = startProcess({ image, abi, emulation });
  const symbol = program.symbols.find(name);
  const outcome = callFunction(
    process,
    {
      abi,
      emulation,
      target: {
        kind: arch.target.abiName === 'elfv1' ? 'descriptor' : 'code',
        address: program.symbols.value[symbol]!,
      },
      args: [argument],
    },
    () => process.machine.run({ budget: 100_000 }),
  );
  if (outcome.kind !== 'returned') throw new Error(outcome.stop.kind);
  const at = program.definedAt(program.symbols.find('elftrace_count'))!;
  return { result: outcome.result, counted: process.machine.readWord(at, image.wordBytes)! };
}

describe.each(sampled(cases, 2))('$target $flavour', ({ target, flavour, ending }) => {
  const source = (name: string, file: string): Source => ({ name, image: readElf(readSample(`${target}/${file}`)) });
  const core = source('core', `core${ending}.o`);
  const one = source('far_one', `far-one${ending}.ko`);
  const two = source('far_two', `far-two${ending}.ko`);
  const arch = archOf(core.image.header);
  const { bytes: image } = loadImages(
    { core, modules: [one], base: 'user', runtime: { name: 'runtime', image: readElf(runtimeObject(target, flavour)!) }, options: {} },
    arch,
  ); // prettier-ignore
  const listing = (bytes: Uint8Array): string => {
    const read = readElf(bytes);
    return formatFunctions(replaySessions(read, readRecord(read)!, arch, sha256).session.core.enabledFunctions());
  };
  const request = (bytes: Uint8Array) => {
    const read = readElf(bytes);
    return { image: read, record: readRecord(read)!, hash: sha256 };
  };

  test('C-MOD-1 C-MOD-2 C-FILT-6 C-HASH-2 C-HASH-4: a module comes, its queued words take effect and it is traced; it goes, and comes back', () => {
    const file = readElf(image);
    const { plan } = planSession(file, arch, [{ name: 's', text: SESSION }]);
    const patched = applyPlan(file, plan, { hash: sha256, session: [SESSION] }).bytes;
    expect(listing(patched)).toMatch(/^core_idle \(1\)[^\n]*\n$/);
    const came = loadIntoSession(request(patched), [two], arch, {}, null);
    expect(listing(came.bytes).split('\n').map((line) => line.split(' ')[0])).toEqual(
      expect.arrayContaining(['core_idle', 'two_leaf', 'two_run']),
    ); // prettier-ignore
    expect(listing(came.bytes)).not.toMatch(/two_peer/);
    const plain = call(
      loadMore({ image: file, modules: [two], runtime: null, options: {} }, arch).bytes,
      'two_leaf',
      3n,
    );
    expect(plain.counted).toBe(0n);
    expect(call(came.bytes, 'two_leaf', 3n)).toEqual({ result: plain.result, counted: 1n });
    // Without the session it is the image with the module.
    const withTwo = loadMore({ image: file, modules: [two], runtime: null, options: {} }, arch).bytes;
    expect(revert(readElf(came.bytes))).toEqual(withTwo);
    const went = unloadFromSession(request(came.bytes), 'far_two', arch);
    expect(listing(went.bytes)).toMatch(/^core_idle \(1\)[^\n]*\n$/);
    expect(revert(readElf(went.bytes))).toEqual(image);
    // The words were used up with the first load (C-FILT-6); entries of the module stay counted and
    // name nothing (C-HASH-4).
    const again = loadIntoSession(request(went.bytes), [two], arch, {}, null);
    expect(listing(again.bytes)).not.toMatch(/two_/);
    expect(call(again.bytes, 'two_leaf', 3n)).toEqual({ result: plain.result, counted: 0n });
  });

  test('C-MOD-2: a module that is in use does not go: EBUSY with who uses it', () => {
    const both = loadMore({ image: readElf(image), modules: [two], runtime: null, options: {} }, arch).bytes;
    const session = `version: 1\nsteps: [{ ops: { name: own, call: two_leaf, filter: core_idle } }, { register: own }]\n`;
    const { plan } = planSession(readElf(both), arch, [{ name: 's', text: session }]);
    const patched = applyPlan(readElf(both), plan, { hash: sha256, session: [session] }).bytes;
    const attempt = (): unknown => unloadFromSession(request(patched), 'far_two', arch);
    expect(attempt).toThrow(ElftraceError);
    expect(attempt).toThrow(/far_two has code that own calls \(EBUSY\)/);
  });
});

describe.each(['x86-64', 'ppc64-elfv2-le'])('the command line: %s', (target) => {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-modules-'));
  afterAll(() => {
    rmSync(folder, { recursive: true });
  });
  const at = (name: string): string => join(folder, name);
  const sample = (name: string): string => join(builtSamples, target, name);
  const bytesOf = (name: string): Uint8Array => new Uint8Array(readFileSync(at(name)));
  const ok = (...args: string[]): string => {
    const { status, stdout, stderr } = elftrace(args, { cwd: folder });
    expect([args.join(' '), status, stderr.replace(/^.*notice.*\n/gm, '')]).toEqual([args.join(' '), 0, '']);
    return stdout;
  };
  const refused = (args: string[], status: number, message: RegExp): void => {
    const result = elftrace(args, { cwd: folder });
    expect([args.join(' '), result.status, result.stderr]).toEqual([
      args.join(' '),
      status,
      expect.stringMatching(message),
    ]);
    expect(() => bytesOf('never')).toThrow();
  };
  const functions = (name: string): string[] =>
    ok('status', at(name)).split('\n').filter((line) => /^\w/.test(line)).map((line) => line.split(' ')[0]!); // prettier-ignore

  beforeAll(() => {
    ok('load', sample('core.o'), '-o', 'small');
    ok('load', sample('core.o'), sample('far-one.ko'), '-o', 'image');
    writeFileSync(at('queued.yaml'), SESSION);
    writeFileSync(at('far-one.ko'), readFileSync(sample('far-one.ko')));
  });

  test('load and unload on a patched image go on with its session', () => {
    ok('patch', 'image', '--session', 'queued.yaml', '-o', 'one');
    ok('load', 'one', sample('far-two.ko'), '-o', 'two');
    expect(functions('two')).toEqual([
      'core_idle',
      'two_leaf',
      'two_mix',
      'two_wide',
      'two_stop',
      'two_data',
      'two_run',
    ]);
    expect(ok('run', '--call', 'two_leaf(3)', 'two')).toMatch(/^two_leaf\(3\) = 12 /);
    ok('unload', 'two', 'far_two', '-o', 'three');
    expect(functions('three')).toEqual(['core_idle']);
    ok('revert', 'three', '-o', 'back');
    expect(bytesOf('back')).toEqual(bytesOf('image'));
    refused(['unload', 'two', 'far_one', '-o', 'never'], 1, /far_one is used by core, far_two \(EBUSY\)/);
    refused(['load', 'two', sample('far-two.ko'), '-o', 'never'], 2, /far_two/);
  });

  test('the steps load and unload: an object named by its file, relative to the session file', () => {
    writeFileSync(
      at('load.yaml'),
      `${SESSION.replace('core_idle', 'one_*:mod:far_one')}  - load: { module: far_one, file: far-one.ko }\n`,
    );
    writeFileSync(at('unload.yaml'), 'version: 1\nsteps:\n  - unload: far_one\n');
    ok('patch', 'small', '--session', 'load.yaml', '-o', 'with');
    expect(functions('with')).toEqual(expect.arrayContaining(['one_leaf', 'one_run']));
    expect(ok('run', '--call', 'one_leaf(3)', 'with')).toMatch(/^one_leaf\(3\) = /);
    ok('patch', 'with', '--session', 'unload.yaml', '-o', 'without');
    expect(functions('without')).toEqual([]);
    for (const name of ['with', 'without']) {
      ok('revert', name, '-o', 'back');
      expect(bytesOf('back')).toEqual(bytesOf('small'));
    }
    refused(
      ['patch', 'without', '--session', 'unload.yaml', '-o', 'never'],
      1,
      /unload\.yaml:3:5: unload: .*far_one.*\(ENOENT\)/,
    );
  });

  test('--livepatch FUNCTION=NEW --with NEW.o: the new function runs, and revert takes the object out again', () => {
    const before = elftrace(['run', 'small'], { cwd: folder });
    ok('patch', 'small', '--livepatch', 'core_idle=one_leaf', '--with', 'far-one.ko', '-o', 'live');
    const after = elftrace(['run', 'live'], { cwd: folder });
    expect(after.stdout).not.toBe(before.stdout);
    expect(ok('run', '--call', 'core_idle(3)', 'live').split('=')[1]).toBe(
      ok('run', '--call', 'one_leaf(3)', 'live').split('=')[1],
    );
    expect(ok('status', 'live')).toMatch(/^core_idle \(1\) R I {5}M\t.*elftrace_livepatch/m);
    ok('revert', 'live', '-o', 'back');
    expect(bytesOf('back')).toEqual(bytesOf('small'));
    refused(
      ['unload', 'live', 'far_one', '-o', 'never'],
      1,
      /far_one has code that livepatch core_idle calls \(EBUSY\)/,
    );
    refused(
      ['patch', 'live', '--livepatch', 'core_idle=core_leaf', '-o', 'never'],
      1,
      /livepatch: .*core_idle.*\(EBUSY\)/,
    );
    refused(['patch', 'small', '--livepatch', 'core_idle=nothing', '-o', 'never'], 2, /no nothing/);
  });

  test('--enable and --session in one call, plan and apply in separate processes, the file of another hash', () => {
    const options = ['--enable', '-l', 'core_leaf', '--session', 'queued.yaml'];
    ok('patch', 'image', ...options, '-o', 'mixed');
    expect(functions('mixed')).toEqual(['core_leaf', 'core_idle']);
    ok('plan', 'image', ...options, '-o', 'plan.json');
    ok('apply', 'image', 'plan.json', '-o', 'applied');
    expect(bytesOf('applied')).toEqual(bytesOf('mixed'));
    // On a file with a session too, and with an object that comes.
    const more = ['--enable', '-l', 'core_round', '-n', 'core_leaf', '--tracer', 'function_graph'];
    ok('patch', 'mixed', ...more, '-o', 'second');
    ok('plan', 'mixed', ...more, '-o', 'plan2.json');
    ok('apply', 'mixed', 'plan2.json', '-o', 'applied2');
    expect(bytesOf('applied2')).toEqual(bytesOf('second'));
    expect(functions('second')).toEqual(['core_leaf', 'core_idle', 'core_round']);
    refused(['apply', 'second', 'plan.json', '-o', 'never'], 2, /another file: SHA-256 .*\[plan-stale\]/);
    const bytes = bytesOf('mixed');
    const { sites, image } = openBytes(bytes);
    const place = image.fileOffsetOf(sites.ip(0));
    bytes[place + 1] = bytes[place + 1]! ^ 0x40;
    writeFileSync(at('touched'), bytes);
    refused(['patch', 'touched', '--enable', '-o', 'never'], 1, /state-mismatch/);
    const status = elftrace(['status', 'touched'], { cwd: folder });
    expect([status.status, status.stdout]).toEqual([1, expect.stringMatching(/state-mismatch at file offset 0x/)]);
  });

  test('C-REP-1 C-UPD-4: code of the entries that is not ours: the report, exit status 1, no output', () => {
    const bytes = bytesOf('image');
    const { image, program } = openBytes(bytes);
    const call = program.definedAt(program.symbols.find('ftrace_call'))!;
    bytes[image.fileOffsetOf(call)] = bytes[image.fileOffsetOf(call)]! ^ 0xff;
    writeFileSync(at('foreign'), bytes);
    refused(
      ['patch', 'foreign', '--session', 'queued.yaml', '-o', 'never'],
      1,
      /ftrace bug: content mismatch\n ip: 0x0\n cause: ftrace_call/,
    );
  });
});
