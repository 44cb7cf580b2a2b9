/**
 * Damaged inputs that are no ELF structures: records, files of records, plans, session files, probe
 * definitions, archives, links to debug files. Each is read, or refused by an ElftraceError;
 * anything else would be a fault of the reader.
 */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { concatBytes } from '../src/bytes.js';
import { open } from '../src/cli/open.js';
import { isArchive, memberBytes, readArchive } from '../src/elf/archive.js';
import { readElf } from '../src/elf/read.js';
import { ElftraceError } from '../src/errors.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { decodeRecords, readRecord } from '../src/record/journal.js';
import { decodePlanFile, encodePlanFile, inject, injectionOf } from '../src/patch/plan-file.js';
import { parseSession } from '../src/tracing/session-file.js';
import { parseProbe } from '../src/kprobes/events.js';
import { SeededRandom } from './support/elf-mutator.js';
import { openBytes, planNop, readSample } from './support/pipeline.js';
import { spawnSync } from './support/spawn.js';
import { buildElf } from './support/elf-builder.js';

/** 10,000 in CI for all kinds together; `npm run soak` asks for more. */
const MUTANTS = Number(process.env['ELFTRACE_INPUT_MUTANTS'] ?? 10_000);

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);
const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** What stands in no file that we write. */
const STRANGE: readonly unknown[] = [
  null,
  true,
  -1,
  0,
  1.5,
  2 ** 53,
  1e308,
  '',
  'x',
  '..',
  '\u0000',
  [],
  [null],
  {},
  { length: 3 },
  { a: null },
  '0x',
  '-0x1',
];

/** Every value inside a value of JSON, as the holder and the key. */
function slots(value: unknown, found: [Record<string, unknown>, string][] = []): [Record<string, unknown>, string][] {
  if (typeof value !== 'object' || value === null) return found;
  const holder = value as Record<string, unknown>;
  for (const key of Object.keys(holder)) {
    found.push([holder, key]);
    slots(holder[key], found);
  }
  return found;
}

/** The same JSON with one to three values exchanged for strange ones, or gone. */
function strangeJson(text: string, random: SeededRandom): string {
  const value: unknown = JSON.parse(text);
  for (let i = 0; i <= random.next(3); i++) {
    const places = slots(value);
    if (places.length === 0) break;
    const [holder, key] = random.pick(places);
    if (random.next(6) === 0) Reflect.deleteProperty(holder, key);
    else holder[key] = structuredClone(random.pick(STRANGE));
  }
  return JSON.stringify(value);
}

/** Bytes changed, cut, doubled, moved. */
function strangeBytes(bytes: Uint8Array, random: SeededRandom): Uint8Array {
  let out: Uint8Array = bytes.slice();
  for (let i = 0; i <= random.next(4); i++) {
    const at = random.next(Math.max(1, out.length));
    const size = random.next(20);
    switch (random.next(5)) {
      case 0:
        out[at] = random.next(256);
        break;
      case 1:
        out = out.slice(0, at);
        break;
      case 2:
        out = concatBytes([out.subarray(0, at), out.subarray(at, at + size), out.subarray(at)]);
        break;
      case 3:
        out = concatBytes([out.subarray(0, at), out.subarray(at + size)]);
        break;
      default:
        out.fill(random.pick([0, 0xff, 0x20, 0x39]), at, at + size);
    }
  }
  return out;
}

/** A text with characters and words exchanged for those that mean something in it. */
function strangeText(text: string, random: SeededRandom): string {
  const words = [
    '*',
    '&',
    '!!',
    '<<:',
    '{',
    '[',
    ':',
    '"',
    "'",
    '\n',
    '\t',
    '-',
    '#',
    '%',
    '+',
    '@',
    '$',
    '()',
    '[99999999]',
    '\\',
    '0x',
    'ustring',
  ];
  let out = text;
  for (let i = 0; i <= random.next(3); i++) {
    const at = random.next(out.length + 1);
    out = out.slice(0, at) + (random.next(3) === 0 ? '' : random.pick(words)) + out.slice(at + random.next(6));
  }
  return out;
}

const { image, sites } = openBytes(readSample('x86-64/module-fentry.ko'));
const patched = readElf(applyPlan(image, planNop(sites)).bytes);
const beside = applyPlan(image, planNop(sites), { record: 'beside' });
const descriptor = patched.notes().find(({ owner }) => owner === 'elftrace')!.descriptor;

/** A record whose JSON header is another text. */
function withHeader(record: Uint8Array, change: (text: string) => string): Uint8Array {
  const size = new DataView(record.buffer, record.byteOffset).getUint32(8, true);
  const header = encode(change(decode(record.subarray(12, 12 + size))));
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, header.length, true);
  return concatBytes([record.subarray(0, 8), length, header, record.subarray(12 + size)]);
}

const gone = [
  { name: 'm', unload: 0, sites: [['0x10', 'f', '-4', null, false]], symbols: [['f', '0x10', '0x4']], probes: [] },
];
const fullRecord = withHeader(descriptor, (text) =>
  JSON.stringify({
    ...(JSON.parse(text) as object),
    injected: true,
    session: ['version: 1\n'],
    forms: { a: 'b' },
    brought: ['m'],
    gone,
  }),
);

const SESSIONS = [
  `version: 1
steps:
  - ops: { name: mine, call: my_callback, filter: 'sched_*', regs: if-supported }
  - register: mine
  - filter: { ops: mine, words: 'a b' }
  - direct: { function: schedule, caller: my_caller }
  - tracing: off
`,
  '{"version": 1, "steps": [{"ops": {"name": "a", "call": "b"}}, {"unregister": "a"}]}',
];
const PROBES = [
  'p:in vec_add+4 n=%si:s32 name=+0(+8(%di)):string',
  'r:back vec_add $retval:x64',
  'p:g/e 0x1000 a=@0x2000:u8[4] b=$stack1 c=$comm d=\\"text"',
];
const planText = encodePlanFile({
  sha256: 'a'.repeat(64),
  plan: planNop(sites),
  session: {
    session: ['version: 1\nsteps: []\n'],
    forms: { 'ppc-nop': '2008' },
    brought: ['new'],
    gone: [
      { name: 'm', unload: 0, sites: [{ ip: 16n, name: 'f', siteOffset: -4n, weak: false }], symbols: [], probes: [] },
    ],
    injected: false,
  },
  unpatched: true,
  injection: injectionOf(Uint8Array.of(1, 2, 3, 4), Uint8Array.of(1, 9, 8, 4, 5, 6)),
});

/** Reads a mutant; what it returns or throws is looked at by the caller. */
const kinds: Readonly<Record<string, (random: SeededRandom) => unknown>> = {
  'record, header': (random) => decodeRecords(withHeader(fullRecord, (text) => strangeJson(text, random))),
  'record, bytes': (random) => decodeRecords(strangeBytes(fullRecord, random)),
  'record of a file': (random) => {
    const damaged = withHeader(beside.recordBytes!, (text) => strangeJson(text, random));
    return revert(readElf(beside.bytes), random.next(2) === 0 ? damaged : strangeBytes(beside.recordBytes!, random));
  },
  'plan, values': (random) => {
    const { injection } = decodePlanFile(strangeJson(planText, random));
    return injection && inject(new Uint8Array(64), injection);
  },
  'plan, text': (random) => decodePlanFile(strangeText(planText, random)),
  session: (random) => parseSession(strangeText(random.pick(SESSIONS), random)),
  'session, values': (random) => parseSession(strangeJson(SESSIONS[1]!, random)),
  probe: (random) => parseProbe(strangeText(random.pick(PROBES), random), random.next(2) === 0 ? 32 : 64),
  archive: (random) => {
    const bytes = strangeBytes(archive, random);
    return isArchive(bytes) ? readArchive(bytes).map((member) => memberBytes(bytes, member).length) : null;
  },
};
const archive = readSample('x86-64/modules.a');

describe('damaged inputs', () => {
  test(`${MUTANTS} mutants of records, plans, sessions, probes and archives`, () => {
    expect(decodeRecords(fullRecord)).toHaveLength(1);
    const names = Object.keys(kinds);
    const counts = new Map<string, number>();
    for (let seed = 1; seed <= MUTANTS; seed++) {
      const name = names[seed % names.length]!;
      let result = 'read';
      try {
        kinds[name]!(new SeededRandom(seed));
      } catch (error) {
        if (!(error instanceof ElftraceError) || error.code === 'internal') {
          throw new Error(`${name}, seed ${seed}: ${String(error)}`, { cause: error });
        }
        result = error.code;
      }
      counts.set(`${name}: ${result}`, (counts.get(`${name}: ${result}`) ?? 0) + 1);
    }
    for (const key of [...counts.keys()].sort()) process.stdout.write(`${key} ${counts.get(key)!}\n`);
    // Every kind was refused at least sometimes, so the damage reaches what is checked.
    for (const name of names)
      expect([...counts.keys()].some((key) => key.startsWith(name) && !key.endsWith('read'))).toBe(true);
  }, 120_000);

  test('a record whose forms are null is damaged', () => {
    const bytes = withHeader(descriptor, (text) => JSON.stringify({ ...(JSON.parse(text) as object), forms: null }));
    expect(() => decodeRecords(bytes)).toThrow(ElftraceError);
    expect(readRecord(patched)?.forms).toEqual({});
  });

  test('links to debug files that are no files: a folder, a FIFO, a device, the file itself', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'debuglink-'));
    try {
      mkdirSync(join(folder, 'folder'));
      expect(spawnSync('mkfifo', [join(folder, 'fifo')]).status).toBe(0);
      symlinkSync('/dev/zero', join(folder, 'device'));
      writeFileSync(join(folder, 'short'), Uint8Array.of(0x7f, 0x45, 0x4c, 0x46));
      for (const name of ['..', '.', 'folder', 'fifo', 'device', 'stripped', 'short', 'absent', '\u0000', '']) {
        const bytes = buildElf({
          is64: true,
          endian: 'little',
          type: 1,
          machine: 62,
          sections: [{ name: '.gnu_debuglink', type: 1, flags: 0, contents: encode(`${name}\0`), align: 4 }],
        });
        const path = join(folder, 'stripped');
        writeFileSync(path, bytes);
        const opened = await open({ name: path, path, bytes, form: 'none', member: null, wrapped: [] });
        expect([name, opened.symbols]).toEqual([name, undefined]);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
