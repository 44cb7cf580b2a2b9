/**
 * C-INIT-2 in files: what becomes of the sites that a session, a probe, a direct caller or a
 * livepatch does not ask for. In programs they stay what they are, byte for byte; in images of
 * `load` they are nops, as in a kernel behind its start, and are counted and named.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { withRuntime } from '../src/tracing/inject.js';
import { Session } from '../src/tracing/session.js';
import { sha256 } from '../src/sha256.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { covering, sampled } from './support/long.js';
import { builtSamples, openBytes } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-idle-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);
const read = (path: string): Uint8Array => new Uint8Array(readFileSync(path));

/**
 * Bytes of every site by function, of the section that a program has and its patched image has too.
 */
function siteBytes(bytes: Uint8Array, original: Uint8Array): Map<string, string> {
  const { image } = openBytes(bytes);
  const { program, sites } = openBytes(original);
  const found = new Map<string, string>();
  for (let i = 0; i < sites.count; i++) {
    const reading = sites.reading(i)!;
    const offset = image.fileOffsetOf(sites.anchor[i]! + BigInt(reading.startDelta));
    // The pointer in front of a function, too.
    const literal = reading.literal === undefined ? 0 : 8;
    const code = image.bytes.subarray(offset - literal, offset + reading.sizeBytes);
    found.set(`${program.symbolName(sites.functionSymbol(i))} ${i}`, Buffer.from(code).toString('hex'));
  }
  return found;
}

/** The instruction behind the site of a function, as a probe names it. */
function behindSite(bytes: Uint8Array, name: string): string {
  const { program, sites } = openBytes(bytes);
  const start = program.definedAt(program.symbols.find(name))!;
  const site = Array.from({ length: sites.count }, (_, i) => i).find(
    (i) => program.symbolName(sites.functionSymbol(i)) === name,
  )!;
  const reading = sites.reading(site)!;
  return `${name}+${sites.anchor[site]! + BigInt(reading.startDelta + reading.sizeBytes) - start}`;
}

/** Functions whose sites differ. */
const changedSites = (path: string, original: string): string[] => {
  const now = siteBytes(read(path), read(original));
  return [...siteBytes(read(original), read(original))]
    .filter(([name, bytes]) => now.get(name) !== bytes)
    .map(([name]) => name.replace(/ \d+$/, ''));
};

interface Sample {
  readonly name: string;
  /** `recurse` is probed through its site: then that one changes. */
  readonly throughSite: boolean;
  /** Its entries can change where a function goes on. */
  readonly livepatch: boolean;
  readonly direct: boolean;
}

const SAMPLES: readonly Sample[] = [
  { name: 'x86-64/program-fentry', throughSite: true, livepatch: true, direct: true },
  { name: 'x86-64/program-mcount', throughSite: false, livepatch: false, direct: false },
  { name: 'ppc32/program-mcount', throughSite: false, livepatch: true, direct: false },
  { name: 'ppc64-elfv1/program-mcount', throughSite: false, livepatch: false, direct: false },
  { name: 'ppc64-elfv1/program-mprofile', throughSite: false, livepatch: true, direct: false },
  { name: 'ppc64-elfv2-le/program-mprofile', throughSite: true, livepatch: true, direct: false },
  { name: 'riscv64/program-mcount', throughSite: false, livepatch: false, direct: false },
  { name: 'riscv64/program-patchable-8', throughSite: true, livepatch: true, direct: true },
  { name: 'arm64/program-mcount', throughSite: false, livepatch: false, direct: false },
  { name: 'arm64/program-patchable-4-2', throughSite: false, livepatch: true, direct: true },
];

/** One of each machine, and of what a machine can do. */
const taken = covering(
  SAMPLES,
  ({ name }) => name.replace(/\/.*/, ''),
  ({ throughSite, livepatch, direct }) => [throughSite, livepatch, direct].join(),
);

describe.each(sampled(taken, 2))('$name', ({ name, throughSite, livepatch, direct }) => {
  const program = join(builtSamples, name);
  const key = name.replace('/', '-');
  /** Patches; says which sites are others, and that the way back is whole. */
  const patched = (out: string, count: number, ...args: readonly string[]): string[] => {
    const { status, stdout, stderr } = elftrace(['patch', program, ...args, '-o', at(out)]);
    expect([status, stderr.replaceAll(/^.*notice: .*K-.*\n/gm, '')]).toEqual([0, '']);
    const changed = changedSites(at(out), program);
    const [, is, all, rest] = /: (\d+) of (\d+) sites changed, (\d+) already as asked/.exec(stdout) ?? [];
    expect([Number(is), Number(rest)]).toEqual([count, Number(all) - count]);
    expect(elftrace(['revert', at(out), '-o', at(`${out}.back`)]).status).toBe(0);
    expect(Buffer.compare(read(at(`${out}.back`)), read(program))).toBe(0);
    return changed;
  };

  test('probes: the other sites stay as they are, and the program does what it did', () => {
    if (name !== 'arm64/program-patchable-4-2') {
      // A breakpoint may stand on the first word of what is a site here.
      const changed = patched(`${key}.p`, throughSite ? 1 : 0, '--probe', 'p:in recurse');
      expect(throughSite ? changed : ['recurse', ...changed.filter((each) => each !== 'recurse')]).toEqual(['recurse']);
    }
    expect(patched(`${key}.q`, 0, '--probe', `p:in ${behindSite(read(program), 'checksum')}`, '--optimize')).toEqual(
      [],
    );
    writeFileSync(at(`${key}.r`), read(program));
    const [was, is] = [`${key}.r`, `${key}.q`].map((each) => elftrace(['run', at(each)]));
    expect([is!.status, is!.stdout]).toEqual([was!.status, was!.stdout]);
  });

  test('sessions: what is traced is a call, what was and is no more is what the compiler left', () => {
    writeFileSync(
      at(`${key}.yaml`),
      `version: 1\nsteps:\n  - ops: { name: m, call: elftrace_counter, filter: 'leaf forward' }\n  - register: m\n`,
    );
    expect(patched(`${key}.s`, 2, '--session', at(`${key}.yaml`))).toEqual(['leaf', 'forward']);
    writeFileSync(at(`${key}.more.yaml`), `version: 1\nsteps:\n  - filter: { ops: m, words: leaf }\n`);
    const next = elftrace(['patch', at(`${key}.s`), '--session', at(`${key}.more.yaml`), '-o', at(`${key}.t`)]);
    expect([next.status, next.stderr]).toEqual([0, '']);
    expect(changedSites(at(`${key}.t`), program)).toEqual(['leaf']);
    writeFileSync(at(`${key}.end.yaml`), `version: 1\nsteps:\n  - unregister: m\n`);
    const last = elftrace(['patch', at(`${key}.t`), '--session', at(`${key}.end.yaml`), '-o', at(`${key}.u`)]);
    expect([last.status, last.stderr]).toEqual([0, '']);
    expect(changedSites(at(`${key}.u`), program)).toEqual([]);
    expect(elftrace(['run', at(`${key}.u`)]).status).toBe(elftrace(['run', program]).status);
  });

  test('livepatches and direct callers: one site changes', () => {
    if (livepatch) expect(patched(`${key}.l`, 1, '--livepatch', 'leaf=bump')).toEqual(['leaf']);
    if (direct) expect(patched(`${key}.d`, 1, '--direct', 'leaf=hook')).toEqual(['leaf']);
  });
});

describe.each([
  ['x86-64', 'core.o', 'far-one.ko'],
  ['ppc32', 'core.o', 'far-one.ko'],
  ['ppc64-elfv1', 'core.o', 'far-one.ko'],
  ['ppc64-elfv2-le', 'core.o', 'far-one.ko'],
  ['riscv64', 'core.o', 'far-one.ko'],
  ['arm64', 'core.o', 'far-one.ko'],
])('an image of load: %s %s', (target, core, module) => {
  test('C-INIT-2: sites that nobody asked for become nops, counted and named', () => {
    const key = `${target}-${core}`;
    const image = at(`${key}.image`);
    const files = [core, module].map((file) => join(builtSamples, target, file));
    expect(elftrace(['load', ...files, '-o', image]).status).toBe(0);
    writeFileSync(
      at(`${key}.yaml`),
      `version: 1\nsteps:\n  - ops: { name: m, call: elftrace_counter, filter: core_leaf }\n  - register: m\n`,
    );
    const session = ['--session', at(`${key}.yaml`)];
    const json = elftrace(['patch', image, ...session, '--json', '-o', at(`${key}.json`)]);
    expect(json.status).toBe(0);
    const { initialised } = JSON.parse(json.stdout) as { readonly initialised: readonly string[] };
    const changed = changedSites(at(`${key}.json`), image);
    expect(changed).toContain('core_leaf');
    expect([...initialised].sort()).toEqual(changed.filter((each) => each !== 'core_leaf').sort());
    const text = elftrace(['patch', image, ...session, '-o', at(`${key}.text`)]);
    const { length } = initialised;
    expect(text.stdout).toMatch(
      new RegExp(`: 1 of \\d+ sites changed, ${length} made nops as in a kernel that starts, `),
    );
    expect(text.stderr).toContain(
      `notice: ${length} sites that nobody traces became nops, as in a kernel that starts: ` +
        `${initialised.slice(0, 8).join(', ')}${length > 8 ? ` and ${length - 8} more` : ''} [C-INIT-2]\n`,
    );
    const plan = elftrace(['patch', image, ...session, '--dry-run']);
    expect(plan.stdout).toContain(`1 of`);
    expect(plan.stdout).toContain('[C-INIT-2]');
  });
});

test.each([
  ['ppc32/program-patchable-2', 'recurse', 4n],
  ['riscv64/program-patchable-8', 'leaf', 4n],
])('%s: a probe inside a site keeps the site as the session has it', (name, fn, offset) => {
  const { arch, sites } = openBytes(read(join(builtSamples, name)));
  const runtime = withRuntime(sites, undefined, sha256);
  const session = Session.open(runtime.bytes, arch);
  const { program } = session.sites;
  const bytes = session.bytes();
  const place = runtime.fileOffsetOf(program.definedAt(program.symbols.find(fn))! + offset);
  const nameOf = (site: number): string => program.symbolName(session.sites.functionSymbol(site));
  expect(session.idleSites(bytes).map(({ site }) => nameOf(site))).toContain(fn);
  bytes[place] = bytes[place]! ^ 0x10;
  expect(session.idleSites(bytes).map(({ site }) => nameOf(site))).not.toContain(fn);
});
