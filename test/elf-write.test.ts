/**
 * Writing: untouched files stay byte for byte, appended sections are what readelf sees, and
 * everything can be undone.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ElftraceError } from '../src/errors.js';
import { isArchive, memberBytes, readArchive, replaceMember } from '../src/elf/archive.js';
import * as C from '../src/elf/constants.js';
import { isElf, readElf } from '../src/elf/read.js';
import { firstNewSection } from '../src/elf/image.js';
import { undoWrite, whyNoNoteSegment, whyNoSections, writeElf, type NewSection } from '../src/elf/write.js';
import { ALL_SHAPES, buildElf, note, shapeName, smallObject, type Shape } from './support/elf-builder.js';
import { compiledFiles, keep } from './support/elf-compile.js';
import { sampled, times } from './support/long.js';
import { readelfSections } from './support/readelf.js';
import { describeWith, run } from './support/tools.js';

const LITTLE64: Shape = { is64: true, endian: 'little' };
const SAMPLE = 150;

function section(name: string, contents: Uint8Array, more: Partial<NewSection> = {}): NewSection {
  return { name, type: C.SHT_PROGBITS, flags: 0n, link: 0, info: 0, alignBytes: 8, entrySize: 0, contents, ...more };
}

function same(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

/** The code of what `body` throws. */
function refused(body: () => unknown): string {
  try {
    body();
  } catch (error) {
    if (error instanceof ElftraceError) return error.code;
    throw error;
  }
  return 'done';
}

/**
 * ELF files under a folder, and members of its archives; a bounded number, spread over the folder.
 */
function* elfFiles(folder: string, limit: number): Generator<readonly [string, Uint8Array]> {
  const paths: string[] = [];
  const walk = (at: string, depth: number): void => {
    let names: readonly string[];
    try {
      names = readdirSync(at);
    } catch {
      return;
    }
    for (const name of names) {
      const path = join(at, name);
      const stat = statSync(path, { throwIfNoEntry: false });
      if (stat === undefined) continue;
      if (stat.isDirectory()) {
        if (depth < 8) walk(path, depth + 1);
      } else if (stat.isFile() && stat.size < 8 << 20 && /\.(o|ko|a|so[\d.]*|elf)$|vmlinux/.test(name))
        paths.push(path);
    }
  };
  walk(folder, 0);
  const stride = Math.max(1, paths.length / limit);
  for (let i = 0; i < paths.length; i += stride) {
    const path = paths[Math.floor(i)]!;
    const bytes = new Uint8Array(readFileSync(path));
    if (isElf(bytes)) yield [path, bytes];
    else if (isArchive(bytes)) {
      for (const member of readArchive(bytes).slice(0, 4)) {
        const contents = memberBytes(bytes, member);
        if (member.kind === 'file' && isElf(contents)) yield [`${path}(${member.name})`, contents.slice()];
      }
    }
  }
}

/** Folders of the installed toolchains, and the corpus of real kernels where one is named. */
function folders(): readonly string[] {
  const found = [
    join(process.cwd(), 'samples', 'built'),
    '/usr/lib/gcc',
    '/usr/lib/gcc-cross',
    '/usr/lib/x86_64-linux-gnu',
  ];
  for (const target of ['powerpc', 'powerpc64', 'powerpc64le', 'riscv64', 'aarch64'])
    found.push(`/usr/${target}-linux-gnu`);
  const corpus = process.env['ELFTRACE_CORPUS'];
  if (corpus !== undefined && corpus !== '') found.push(corpus);
  return found;
}

describe('round trips of installed files', () => {
  test('untouched, patched, extended and undone', () => {
    let files = 0;
    for (const folder of folders()) {
      for (const [path, bytes] of elfFiles(folder, SAMPLE / 5)) {
        files++;
        const image = readElf(bytes);
        const untouched = writeElf(image, { patches: [] });
        if (!same(untouched.bytes, bytes)) throw new Error(`${path}: changed by writing it untouched`);
        expect(untouched.changes).toEqual([]);
        if (whyNoSections(image) !== null) continue;
        const first = image.sections.find((each) => each.type === C.SHT_PROGBITS && each.fileSize > 8);
        if (first === undefined) continue;
        const written = writeElf(image, {
          patches: [{ offset: first.offset + 1, bytes: new Uint8Array([0xaa, 0xbb]) }],
          appendSections: [
            section('.note.elftrace', note(image.header, 'elftrace', 1, new Uint8Array(20)), { type: C.SHT_NOTE }),
          ],
          dropTrailing: true,
        });
        const again = readElf(written.bytes);
        expect(again.sections.length).toBe(image.sections.length + 1);
        expect(again.notes().some((each) => each.owner === 'elftrace')).toBe(true);
        if (!same(undoWrite(written.bytes, written), bytes)) throw new Error(`${path}: not restored`);
      }
    }
    process.stdout.write(`elf-write: ${files} files went round\n`);
  });
});

describe('an output in pieces', () => {
  const MIB = 1 << 20;
  /** Many sections, so that the table of their headers lies across the end of a piece. */
  const sections = Array.from({ length: 300 }, (_, i) => ({
    name: `.s${String(i)}`,
    type: C.SHT_PROGBITS,
    contents: new Uint8Array(i === 7 ? 2 * MIB - 4000 : 3).fill(i),
  }));
  const input = buildElf({ ...LITTLE64, type: C.ET_REL, sections });
  const image = readElf(input);
  /** Near the ends of pieces, the headers and anywhere. */
  const place = fc.oneof(
    fc.integer({ min: MIB - 12, max: MIB + 4 }),
    fc.integer({ min: 2 * MIB - 12, max: 2 * MIB + 4 }),
    fc.integer({ min: 64, max: input.length - 12 }),
  );

  test('is the input with its patches, whatever lies across the ends of pieces', () => {
    const patch = fc.record({ offset: place, bytes: fc.uint8Array({ minLength: 1, maxLength: 12 }) });
    fc.assert(
      fc.property(fc.array(patch, { maxLength: 8 }), fc.boolean(), (wanted, appends) => {
        const sorted = wanted.sort((a, b) => a.offset - b.offset);
        const patches = sorted.filter(({ offset }, i) => i === 0 || offset >= sorted[i - 1]!.offset + 12);
        const written = writeElf(image, {
          patches,
          ...(appends ? { appendSections: [section('.note', new Uint8Array(9).fill(1))] } : {}),
        });
        const pieces = Array.from(written.pieces(), (piece) => piece.slice());
        expect(written.size).toBe(written.bytes.length);
        expect(same(Buffer.concat(pieces), written.bytes)).toBe(true);
        const naive = input.slice();
        for (const { offset, bytes } of patches) naive.set(bytes, offset);
        expect(same(written.bytes.subarray(64, input.length), naive.subarray(64))).toBe(true);
        expect(same(undoWrite(written.bytes, written), input)).toBe(true);
      }),
      { seed: 5, numRuns: 150 },
    );
  });
});

describeWith(['readelf'], 'appended sections against readelf', () => {
  const files = compiledFiles().filter((_, i) => i % times(1, 2, 6) === 0);
  test.each(files.map((file) => [file.name, file] as const))('%s', (name, { path, bytes }) => {
    const image = readElf(bytes);
    const contents = new Uint8Array(24).fill(7);
    const edits = {
      patches: [],
      appendSections: [
        section('__mcount_loc', contents, { flags: C.SHF_ALLOC, entrySize: image.wordBytes }),
        section('.rela__mcount_loc', new Uint8Array(0), {
          type: C.SHT_RELA,
          info: firstNewSection(image),
          link: image.symbols.section < 0 ? 0 : image.symbols.section,
          entrySize: image.header.is64 ? 24 : 12,
        }),
      ],
    };
    if (name.includes('without sections')) {
      expect(refused(() => writeElf(image, edits))).toBe('unsupported-form');
      return;
    }
    const written = writeElf(image, edits);
    const out = keep(`written ${name}`, written.bytes);
    const before = readelfSections(path);
    const after = readelfSections(out);
    expect(after.length).toBe(before.length + 2);
    const { shstrndx } = image.header;
    expect(after.slice(0, before.length).filter((each) => each.index !== shstrndx)).toEqual(
      before.filter((each) => each.index !== shstrndx),
    );
    expect(after[before.length]).toMatchObject({
      name: '__mcount_loc',
      size: 24,
      flags: 'A',
      entrySize: image.wordBytes,
      offset: written.sections[0]!.offset,
    });
    expect(after[before.length + 1]).toMatchObject({ name: '.rela__mcount_loc', info: before.length });
    const rows = (file: string): string => run('readelf', ['-W', '-s', '-r', file]).toString('latin1');
    expect(rows(out)).toBe(rows(path));
    // Only the file header changed in the old part.
    expect(same(written.bytes.subarray(64, bytes.length), bytes.subarray(64))).toBe(true);
    expect(written.changes.every((change) => change.offset < 64)).toBe(true);
    expect(same(undoWrite(written.bytes, written), bytes)).toBe(true);
  });
});

describe.each(sampled(ALL_SHAPES, 2).map((shape) => [shapeName(shape), shape] as const))('%s', (_name, shape) => {
  test('patches, sections and trailing data come back by undoing', () => {
    const trailing = new TextEncoder().encode('signature');
    const bytes = smallObject(shape, 62, trailing);
    const image = readElf(bytes);
    const text = image.section('.text')!;
    const written = writeElf(image, {
      patches: [
        { offset: text.offset, bytes: new Uint8Array([1, 2, 3]) },
        { offset: text.offset + 3, bytes: new Uint8Array([0x90]) },
        { offset: text.offset + 8, bytes: new Uint8Array([4]) },
      ],
      appendSections: [
        section('.a', new Uint8Array([1]), { alignBytes: 1 }),
        section('.b', new Uint8Array([2]), { alignBytes: 64 }),
      ],
      dropTrailing: true,
    });
    expect(written.dropped).toEqual(trailing);
    expect(written.keptSize).toBe(bytes.length - trailing.length);
    const again = readElf(written.bytes);
    expect(again.section('.b')!.offset % 64).toBe(0);
    expect(written.sections).toEqual(
      ['.a', '.b'].map((name) => {
        const { index, offset, size } = again.section(name)!;
        return { index, offset, size };
      }),
    );
    // The patch that wrote what was there is no change.
    expect(written.changes.filter((change) => change.offset >= 64).map((change) => change.offset)).toEqual([
      text.offset,
      text.offset + 8,
    ]);
    expect(again.elfSize).toBe(written.bytes.length);
    expect(undoWrite(written.bytes, written)).toEqual(bytes);
    const damaged = written.bytes.slice();
    damaged[text.offset]!++;
    expect(refused(() => undoWrite(damaged, written))).toBe('state-mismatch');
  });

  test('sections can be appended twice, and undone in reverse', () => {
    const bytes = smallObject(shape);
    const one = writeElf(readElf(bytes), { patches: [], appendSections: [section('.one', new Uint8Array(3))] });
    const two = writeElf(readElf(one.bytes), { patches: [], appendSections: [section('.two', new Uint8Array(5))] });
    expect(
      readElf(two.bytes)
        .sections.slice(-2)
        .map((each) => each.name),
    ).toEqual(['.one', '.two']);
    expect(undoWrite(undoWrite(two.bytes, two), one)).toEqual(bytes);
  });

  test.each([0xfefe, 0xfeff, 0xff00, 0xff01])('from %i sections across 0xff00', (count) => {
    const sections = Array.from({ length: count - 2 }, (_, i) => ({
      name: i % 1000 === 0 ? `.s${i}` : '',
      type: 8,
      align: 1,
    }));
    const bytes = buildElf({ ...shape, type: 1, sections });
    const image = readElf(bytes);
    expect(image.sections.length).toBe(count);
    const written = writeElf(image, { patches: [], appendSections: [section('.new', new Uint8Array(8))] });
    const again = readElf(written.bytes);
    expect(again.sections.length).toBe(count + 1);
    expect(again.sections[count]).toMatchObject({ name: '.new', size: 8 });
    expect(again.sections[again.header.shstrndx]!.name).toBe('.shstrtab');
    const shnumAt = shape.is64 ? 60 : 48;
    const stored = shape.endian === 'little' ? [shnumAt + 1, shnumAt] : [shnumAt, shnumAt + 1];
    const e_shnum = written.bytes[stored[0]!]! * 256 + written.bytes[stored[1]!]!;
    expect(e_shnum).toBe(count + 1 < 0xff00 ? count + 1 : 0);
    expect(same(undoWrite(written.bytes, written), bytes)).toBe(true);
    // Back below the limit: the file that was restored says so in its own header again.
    expect(readElf(undoWrite(written.bytes, written)).sections.length).toBe(count);
  });

  test('a file whose sections have no names gets a table', () => {
    const bytes = smallObject(shape);
    bytes.fill(0, shape.is64 ? 62 : 50, shape.is64 ? 64 : 52);
    const written = writeElf(readElf(bytes), { patches: [], appendSections: [section('.new', new Uint8Array(8))] });
    const again = readElf(written.bytes);
    expect(again.section('.new')).toMatchObject({ index: 11, size: 8 });
    expect(again.section('.shstrtab')).toMatchObject({ index: 12 });
    expect(undoWrite(written.bytes, written)).toEqual(bytes);
  });

  test('RT-7 without section headers a note takes a free program header', () => {
    const build = (type: number): Uint8Array => {
      const bytes = buildElf({
        ...shape,
        type: C.ET_EXEC,
        sections: [{ name: '.text', type: 1, contents: new Uint8Array(64) }],
        segments: [{ type: C.PT_LOAD, section: 1 }, { type }],
      });
      bytes.fill(0, shape.is64 ? 40 : 32, shape.is64 ? 48 : 36);
      bytes.fill(0, shape.is64 ? 60 : 48, shape.is64 ? 64 : 52);
      return bytes;
    };
    const noteSegment = { contents: note(shape, 'elftrace', 1, new Uint8Array(9)), alignBytes: 4 as const };
    const bytes = build(C.PT_NULL);
    const written = writeElf(readElf(bytes), { patches: [], noteSegment });
    const again = readElf(written.bytes);
    expect(again.notes()).toMatchObject([{ owner: 'elftrace', type: 1, section: 1 }]);
    expect(again.segments[1]).toMatchObject({
      type: C.PT_NOTE,
      memorySize: 0n,
      address: 0n,
      offset: written.noteOffset,
    });
    expect(undoWrite(written.bytes, written)).toEqual(bytes);

    const full = readElf(build(C.PT_GNU_STACK));
    expect(whyNoNoteSegment(full)).toContain('no program header is free');
    expect(refused(() => writeElf(full, { patches: [], noteSegment }))).toBe('unsupported-form');
  });
});

describe('edits', () => {
  test('a Buffer, whose slice() is a view, is not changed by anybody who keeps the results', () => {
    const original = smallObject(LITTLE64, 62, new Uint8Array([1, 2, 3]));
    const input = Buffer.from(original);
    const image = readElf(input);
    const text = image.section('.text')!;
    const written = writeElf(image, {
      patches: [{ offset: text.offset, bytes: new Uint8Array([1]) }],
      dropTrailing: true,
    });
    written.changes[0]!.before[0]! ^= 0xff;
    written.dropped[0]! ^= 0xff;
    const archive = Buffer.concat([
      Buffer.from(`!<arch>\n${'a/'.padEnd(48)}${String(original.length).padEnd(10)}\`\n`),
      original,
    ]);
    const [member] = readArchive(archive);
    replaceMember(archive, member!, new Uint8Array(original.length));
    expect(same(memberBytes(archive, member!), original)).toBe(true);
    expect(same(input, original)).toBe(true);
  });

  test('out of order, overlapping, outside: refused as a fault of the caller', () => {
    const image = readElf(smallObject(LITTLE64, 62, new Uint8Array(10)));
    const patch = (offset: number, size: number) => ({ offset, bytes: new Uint8Array(size) });
    for (const patches of [
      [patch(100, 4), patch(90, 4)],
      [patch(100, 4), patch(103, 4)],
      [patch(image.elfSize - 3, 4)],
      [patch(-1, 4)],
      [patch(0.5, 4)],
    ]) {
      expect(refused(() => writeElf(image, { patches }))).toBe('internal');
    }
    expect(refused(() => writeElf(image, { patches: [patch(image.elfSize - 4, 4)] }))).toBe('done');
    expect(
      refused(() =>
        writeElf(image, { patches: [], appendSections: [section('.x', new Uint8Array(1), { alignBytes: 3 })] }),
      ),
    ).toBe('internal');
  });

  test('any patches are applied, listed and undone; the image keeps its bytes', () => {
    const bytes = smallObject(LITTLE64, 62, new Uint8Array(10));
    const image = readElf(bytes);
    const patches = fc
      .array(fc.tuple(fc.nat(30), fc.uint8Array({ minLength: 1, maxLength: 12 })), { maxLength: 12 })
      .map((parts) => {
        let at = 64;
        return parts
          .map(([gap, contents]) => {
            const offset = at + gap;
            at = offset + contents.length;
            return { offset, bytes: contents };
          })
          .filter((each) => each.offset + each.bytes.length <= image.header.shoff);
      });
    fc.assert(
      fc.property(patches, fc.boolean(), fc.boolean(), (list, append, dropTrailing) => {
        const before = bytes.slice();
        const written = writeElf(image, {
          patches: list,
          dropTrailing,
          ...(append ? { appendSections: [section('.n', new Uint8Array(3))] } : {}),
        });
        expect(same(image.bytes, before)).toBe(true);
        for (const each of list) {
          expect(same(written.bytes.subarray(each.offset, each.offset + each.bytes.length), each.bytes)).toBe(true);
        }
        expect(same(undoWrite(written.bytes, written), before)).toBe(true);
      }),
      { seed: 7, numRuns: 200 },
    );
  });
});
