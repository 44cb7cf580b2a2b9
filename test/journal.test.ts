/**
 * The record of the original: encoding, merging, and what happens when it or the file was tampered
 * with (RT-6, RT-7).
 */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import type { GoneModule } from '../src/record/gone-modules.js';
import { writeElf } from '../src/elf/write.js';
import { ElftraceError } from '../src/errors.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { BytePairs, filePositions, type JournalEdit } from '../src/record/edit-columns.js';
import { encodeRecord } from '../src/record/encode.js';
import {
  decodeRecord,
  disagreements,
  type FileRecord,
  mergeEdits,
  readRecord,
  recordedState,
} from '../src/record/journal.js';
import { verify } from '../src/sites/verdicts.js';
import { codeOf, differences, edited, errorOf, openBytes, planNop, readSample, sameBytes } from './support/pipeline.js';
import { note, words } from './support/elf-builder.js';
import { times } from './support/long.js';

const seeded = { seed: 20240817, numRuns: 300 } as const;
const bytesOf = (size: number): fc.Arbitrary<Uint8Array> => fc.uint8Array({ minLength: size, maxLength: size });

/** Sorted edits that do not overlap, inside a file of `size` bytes. */
function editsIn(size: number): fc.Arbitrary<JournalEdit[]> {
  return fc
    .array(fc.record({ gap: fc.nat(12), size: fc.integer({ min: 1, max: 9 }) }), { maxLength: 12 })
    .chain((parts) => {
      const places: { offset: number; size: number }[] = [];
      let at = 0;
      for (const part of parts) {
        at += part.gap;
        if (at + part.size > size) break;
        places.push({ offset: at, size: part.size });
        at += part.size;
      }
      return fc.tuple(
        ...places.map(({ offset, size: length }) =>
          fc.record({ offset: fc.constant(offset), before: bytesOf(length), after: bytesOf(length) }),
        ),
      );
    });
}

const goneModules: fc.Arbitrary<GoneModule> = fc.record({
  name: fc.string(),
  unload: fc.nat(5),
  sites: fc.array(
    fc.record(
      {
        ip: fc.bigInt(0n, 2n ** 64n - 1n),
        name: fc.string(),
        siteOffset: fc.bigInt(-64n, 64n),
        symbolSize: fc.bigInt(0n, 2n ** 32n),
        weak: fc.boolean(),
      },
      { requiredKeys: ['ip', 'name', 'siteOffset', 'weak'] },
    ),
    { maxLength: 3 },
  ),
  symbols: fc.array(
    fc.record({ name: fc.string(), address: fc.bigInt(0n, 2n ** 64n - 1n), pointer: fc.bigInt(0n, 2n ** 64n - 1n) }),
    { maxLength: 2 },
  ),
  probes: fc.array(
    fc.record({
      id: fc.nat(),
      address: fc.bigInt(0n, 2n ** 64n - 1n),
      symbol: fc.string(),
      offset: fc.nat(),
      atEntry: fc.boolean(),
      site: fc.option(fc.bigInt(0n, 2n ** 64n - 1n)),
    }),
    { maxLength: 2 },
  ),
});

const records: fc.Arbitrary<FileRecord> = fc
  .record({ edits: editsIn(200), cut: fc.uint8Array({ maxLength: 40 }), kept: fc.integer({ min: 200, max: 5000 }) })
  .chain(({ edits, cut, kept }) =>
    fc.record({
      schema: fc.constant(1),
      tool: fc.string(),
      sha256: fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 64, maxLength: 64 }),
      originalSize: fc.constant(kept + cut.length),
      keptSize: fc.constant(kept),
      headers: fc.array(fc.record({ offset: fc.nat(100), bytes: fc.uint8Array({ minLength: 1, maxLength: 64 }) }), {
        maxLength: 2,
      }),
      requests: fc.array(fc.constantFrom('nop', 'init'), { maxLength: 3 }),
      injected: fc.boolean(),
      session: fc.array(fc.string(), { maxLength: 2 }),
      forms: fc.dictionary(fc.constantFrom('ppc-nop', 'a64-default'), fc.string(), { noNullPrototype: true }),
      brought: fc.array(fc.string(), { maxLength: 2 }),
      gone: fc.array(goneModules, { maxLength: 2 }),
      untraced: fc.uniqueArray(fc.nat(5000), { maxLength: 4 }).map((all) => all.sort((a, b) => a - b)),
      edits: fc.constant(edits),
      cut: fc.constant(cut),
    }),
  );

describe('encoding', () => {
  test('RT-7 what was encoded is decoded, and again to the same bytes', () => {
    fc.assert(
      fc.property(records, (record) => {
        const encoded = encodeRecord(record);
        expect(decodeRecord(encoded)).toEqual(record);
        expect(sameBytes(encodeRecord(decodeRecord(encoded)), encoded)).toBe(true);
      }),
      seeded,
    );
  });

  test('RT-7 a damaged record is decoded or refused, nothing else', () => {
    let refused = 0;
    fc.assert(
      fc.property(records, fc.nat(), fc.integer({ min: 1, max: 255 }), fc.boolean(), (record, place, flip, cutOff) => {
        const encoded = encodeRecord(record);
        const at = place % encoded.length;
        const damaged = cutOff ? encoded.slice(0, at) : edited(encoded, at, [encoded[at]! ^ flip]);
        try {
          decodeRecord(damaged);
        } catch (error) {
          if (!(error instanceof ElftraceError)) throw error;
          expect(error.code).toBe('bad-record');
          refused++;
        }
      }),
      { ...seeded, numRuns: 1000 },
    );
    expect(refused).toBeGreaterThan(400);
  });

  test('60,000 edits of one kind take about three bytes each', () => {
    const before = new Uint8Array([0xe8, 0, 0, 0, 0]);
    const after = new Uint8Array([0x0f, 0x1f, 0x44, 0, 0]);
    const edits = Array.from({ length: 60_000 }, (_, i) => ({ offset: i * 48, before, after }));
    const record: FileRecord = {
      schema: 1,
      tool: '0',
      sha256: '0'.repeat(64),
      originalSize: 60_000 * 48,
      keptSize: 60_000 * 48,
      headers: [],
      requests: ['nop'],
      injected: false,
      session: [],
      forms: {},
      brought: [],
      gone: [],
      untraced: [],
      edits,
      cut: new Uint8Array(0),
    };
    const encoded = encodeRecord(record);
    expect(encoded.length).toBeLessThan(60_000 * 4);
    expect(decodeRecord(encoded).edits).toEqual(edits);
  });

  test('40,000 places of functions that were untraced come back', () => {
    const untraced = Array.from({ length: 40_000 }, (_, i) => 7 + i * 48 + (i % 3));
    const encoded = encodeRecord({ ...good, untraced });
    const size = new DataView(encoded.buffer, encoded.byteOffset).getUint32(8, true);
    const header: unknown = JSON.parse(new TextDecoder().decode(encoded.subarray(12, 12 + size)));
    const deltas = untraced.map((each, i) => each - (untraced[i - 1] ?? 0));
    expect(header).toMatchObject({ requests: good.requests, untraced: deltas });
    expect(decodeRecord(encoded).untraced).toEqual(untraced);
  });

  const good: FileRecord = {
    schema: 1,
    tool: 'x',
    sha256: 'a'.repeat(64),
    originalSize: 100,
    keptSize: 100,
    headers: [{ offset: 0, bytes: new Uint8Array(64) }],
    requests: ['nop'],
    injected: false,
    session: [],
    forms: {},
    brought: [],
    gone: [],
    untraced: [],
    edits: [{ offset: 90, before: new Uint8Array(4), after: new Uint8Array([1, 2, 3, 4]) }],
    cut: new Uint8Array(0),
  };
  test.each([
    ['another version', { schema: 2 }, /version 2/],
    ['an edit behind the original', { keptSize: 92, originalSize: 92 }, /behind the original/],
    ['sizes that do not add up', { originalSize: 101 }, /add up/],
    ['a negative size', { keptSize: -5, originalSize: -5, edits: [], headers: [] }, /add up/],
    ['headers outside', { headers: [{ offset: 60, bytes: new Uint8Array(64) }] }, /headers/],
    ['headers in front', { headers: [{ offset: -4, bytes: new Uint8Array(8) }] }, /headers/],
    ['no hash', { sha256: 'zz' }, /lacks fields/],
  ] as const)('RT-7 refused: %s', (_, change, message) => {
    const error = errorOf(() => decodeRecord(encodeRecord({ ...good, ...change } as FileRecord)));
    expect([error.code, message.test(error.message)]).toEqual(['bad-record', true]);
  });

  test('RT-7 anything else is no record', () => {
    for (const bytes of [
      new Uint8Array(0),
      new Uint8Array(100),
      new TextEncoder().encode('ELFTRCJ1'),
      encodeRecord(good).slice(0, 30),
    ]) {
      expect(codeOf(() => decodeRecord(bytes))).toBe('bad-record');
    }
  });

  test('RT-7 pairs that have one hash are two, and equal ones far apart are one', () => {
    const one = Uint8Array.of(192, 148, 97, 206, 133, 20, 27, 5);
    const other = Uint8Array.of(184, 156, 44, 48, 66, 134, 134, 104);
    const after = new Uint8Array(8);
    const pairs = new BytePairs();
    expect(pairs.hashOf(pairs.add(one, 0, after))).toBe(pairs.hashOf(pairs.add(other, 0, after)));
    const befores = [one, other, ...Array.from({ length: 40 }, (_, i) => Uint8Array.of(i, 0, 0, 0, 0, 0, 0, 0)), one];
    const edits = befores.map((before, i) => ({ offset: i * 8, before, after }));
    const record: FileRecord = { ...good, originalSize: 400, keptSize: 400, edits };
    const encoded = encodeRecord(record);
    expect(decodeRecord(encoded).edits).toEqual(edits);
    // Each edit more of a known pair takes two bytes.
    const longer = { ...record, edits: [...edits, { offset: 400 - 8, before: one, after }] };
    expect(encodeRecord(longer).length).toBeLessThan(encoded.length + 4);
  });
});

describe('merging', () => {
  const apply = (bytes: Uint8Array, edits: readonly JournalEdit[], side: 'before' | 'after'): Uint8Array => {
    const out = bytes.slice();
    for (const edit of edits) out.set(edit[side], edit.offset);
    return out;
  };

  test('RT-7 one merged list does what the two did, and undoes it', () => {
    const size = 120;
    const places = editsIn(size).map((edits) => edits.map(({ offset, after }) => ({ offset, after })));
    fc.assert(
      fc.property(bytesOf(size), places, places, (original, first, second) => {
        const over = (bytes: Uint8Array, list: typeof first): JournalEdit[] =>
          list.map(({ offset, after }) => ({ offset, before: bytes.slice(offset, offset + after.length), after }));
        const a = over(original, first);
        const middle = apply(original, a, 'after');
        const b = over(middle, second);
        const final = apply(middle, b, 'after');
        const merged = mergeEdits(a, b, middle);
        expect(sameBytes(apply(original, merged, 'after'), final)).toBe(true);
        expect(sameBytes(apply(final, merged, 'before'), original)).toBe(true);
        // Sorted, disjoint, `before` is the original.
        let end = 0;
        for (const { offset, before, after } of merged) {
          expect(offset).toBeGreaterThanOrEqual(end);
          expect(before.length).toBe(after.length);
          expect(sameBytes(before, original.slice(offset, offset + before.length))).toBe(true);
          end = offset + before.length;
        }
        // It can be written down.
        const record: FileRecord = {
          schema: 1,
          tool: '',
          sha256: '0'.repeat(64),
          originalSize: size,
          keptSize: size,
          headers: [],
          requests: [],
          injected: false,
          session: [],
          forms: {},
          brought: [],
          gone: [],
          untraced: [],
          edits: merged,
          cut: new Uint8Array(0),
        };
        expect(decodeRecord(encodeRecord(record)).edits).toEqual(merged);
      }),
      { ...seeded, numRuns: times(1000, 1000, 250) },
    );
  });
});

describe('files whose record does not fit', () => {
  const module = readSample('x86-64/module-fentry.ko');
  const program = readSample('ppc64-elfv1/program-mcount');
  const patch = (bytes: Uint8Array): Uint8Array => {
    const { image, sites } = openBytes(bytes);
    return applyPlan(image, planNop(sites)).bytes;
  };
  /** Position of the record's descriptor in the patched file. */
  const descriptorAt = (bytes: Uint8Array): number => Buffer.from(bytes).indexOf('ELFTRCJ1');

  test('RT-6 somebody wrote over an edited place: nothing is restored, the place is named', () => {
    for (const original of [module, program]) {
      const patched = patch(original);
      const { edits } = readRecord(readElf(patched))!;
      const { offset } = edits[3]!;
      const bad = edited(patched, offset, [0xde]);
      const image = readElf(bad);
      const error = errorOf(() => revert(image));
      expect([error.code, error.context.fileOffset]).toEqual(['state-mismatch', offset]);
      expect(disagreements(readRecord(image)!, bad).map((each) => each.offset)).toEqual([offset]);
      const state = recordedState(readRecord(image)!, bad);
      expect(state(offset, 1)).not.toBeNull();
      expect(state(offset + edits[3]!.after.length, 1)).toBeNull();
      // A further patch refuses as well.
      const opened = openBytes(bad);
      const plan = planNop(opened.sites, { to: { kind: 'init' } });
      if (plan.steps.length > 0) expect(codeOf(() => applyPlan(opened.image, plan))).toBe('state-mismatch');
      expect(sameBytes(image.bytes, bad)).toBe(true);
    }
  });

  test('RT-6 places of calls without a table are judged by the record', () => {
    const original = readSample('x86-64/module-mcount.ko');
    const patched = patch(original);
    const { sites } = openBytes(patched);
    expect(verify(sites).verdicts).toEqual({ ok: 11 });
    const at = sites.fileOffset(2);
    const again = openBytes(edited(patched, at, [0xcc]));
    const { findings } = verify(again.sites);
    expect(findings.map((finding) => finding.verdict)).toEqual(['wrong-bytes']);
  });

  test('RT-7 a change elsewhere: the hash tells, nothing is restored', () => {
    const patched = patch(module);
    const { image, sites } = openBytes(module);
    const touched = new Set(differences(module, patched, module.length));
    const text = image.section('.text')!;
    let at = text.offset;
    while (touched.has(at) || sites.fileOffset(0) === at) at++;
    at = text.offset + text.size - 1;
    expect(touched.has(at)).toBe(false);
    const error = errorOf(() => revert(readElf(edited(patched, at, [patched[at]! ^ 1]))));
    expect(error.code).toBe('bad-record');
    expect(error.message).toContain('nothing was written');
  });

  test('RT-7 every byte of the record that is damaged is noticed', () => {
    const patched = patch(module);
    const start = descriptorAt(patched);
    const size = readElf(patched)
      .notes()
      .find((each) => each.owner === 'elftrace')!.descriptor.length;
    const json = new DataView(patched.buffer, patched.byteOffset).getUint32(start + 8, true);
    const codes = new Map<string, number>();
    for (let i = 0; i < size; i++) {
      const bad = edited(patched, start + i, [patched[start + i]! ^ 0x01]);
      let result: string;
      try {
        // Names in the header that decide nothing may change: the original is the same.
        result = sameBytes(revert(readElf(bad)), module) ? 'restored' : 'wrong';
        if (result === 'restored' && (i < 12 || i >= 12 + json)) result = 'unnoticed';
      } catch (error) {
        if (!(error instanceof ElftraceError)) throw error;
        result = error.code;
      }
      codes.set(result, (codes.get(result) ?? 0) + 1);
    }
    expect([...codes.keys()].sort()).toEqual(['bad-record', 'restored', 'state-mismatch']);
    // The version of the tool and the names of the requests are the only words that may change.
    expect(codes.get('restored')).toBeLessThan(40);
  });

  test('RT-7 another version is refused before anything else', () => {
    const patched = patch(module);
    const at = Buffer.from(patched).indexOf('{"schema":1,');
    const error = errorOf(() => revert(readElf(edited(patched, at + 10, [0x32]))));
    expect([error.code, /version 2/.test(error.message)]).toEqual(['bad-record', true]);
  });

  test('RT-7 two records are one too many', () => {
    const patched = readElf(patch(module));
    const { descriptor } = patched.notes().find((each) => each.owner === 'elftrace')!;
    const contents = note({ is64: true, endian: 'little' }, 'elftrace', 1, descriptor);
    const { bytes } = writeElf(patched, {
      patches: [],
      appendSections: [
        { name: '.note.elftrace', type: 7, flags: 0n, link: 0, info: 0, alignBytes: 4, entrySize: 0, contents },
      ],
    });
    expect(errorOf(() => readRecord(readElf(bytes))).message).toContain('more than one');
  });

  test('RT-7 a record beside the file that belongs to another file', () => {
    const { image, sites } = openBytes(program);
    const beside = applyPlan(image, planNop(sites), { record: 'beside' }).recordBytes!;
    const other = readElf(module);
    expect(['state-mismatch', 'bad-record']).toContain(codeOf(() => revert(other, beside)));
    // The unpatched original itself: nothing to undo, and it is not called restored.
    expect(codeOf(() => revert(image, beside))).toBe('state-mismatch');
    // One that claims sizes of its own.
    const claims = (keptSize: number): Uint8Array =>
      encodeRecord({
        ...decodeRecord(beside),
        edits: [],
        headers: [],
        cut: new Uint8Array(0),
        keptSize,
        originalSize: keptSize,
      });
    for (const size of [2 ** 50, program.length + 1])
      expect(codeOf(() => revert(image, claims(size)))).toBe('bad-record');
    expect(codeOf(() => revert(image, claims(program.length - 1)))).toBe('bad-record');
  });

  test('RT-7 the note is a note: readable by its own layout', () => {
    for (const bytes of [patch(module), patch(program)]) {
      const image = readElf(bytes);
      const section = image.section('.note.elftrace')!;
      const { endian } = image.header;
      const head = image.contents(section).subarray(0, 12);
      const { descriptor } = image.notes().find((each) => each.owner === 'elftrace')!;
      expect([...head]).toEqual([...words({ is64: true, endian }, [9, descriptor.length, 1], 4)]);
      expect([section.type, section.flags]).toEqual([7, 0n]);
    }
  });
});

test('positions are kept in four bytes where a file has less than 4 GiB', () => {
  const last = 2 ** 32 - 1;
  const small = filePositions(1, last);
  const large = filePositions(1, last + 1);
  small[0] = last;
  large[0] = last + 1;
  expect([small.BYTES_PER_ELEMENT, small[0], large[0]]).toEqual([4, last, last + 1]);
});
