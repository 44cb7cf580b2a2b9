/**
 * Every relocation type that the samples and the kernel objects hold has a row, under the name that
 * readelf prints (the rooms' own tests compare names); a type without one is an error that names
 * it.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { riscv64 } from '../src/arch-riscv/index.js';
import { archOf, arches } from '../src/arches.js';
import { isArchive } from '../src/elf/archive.js';
import { unpack } from '../src/elf/compressed.js';
import { readElf } from '../src/elf/read.js';
import { ElftraceError } from '../src/errors.js';
import { relocationRow } from '../src/relocs/apply.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

/** Types seen below a folder, by target, and how many relocations there were. */
async function typesBelow(
  folder: string,
): Promise<{ missing: Set<string>; types: Map<string, Set<number>>; rows: number }> {
  const missing = new Set<string>();
  const types = new Map<string, Set<number>>();
  let rows = 0;
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const { bytes } = await unpack(new Uint8Array(readFileSync(join(entry.parentPath, entry.name))));
    if (bytes[0] !== 0x7f || isArchive(bytes)) continue;
    const image = readElf(bytes);
    const arch = archOf(image.header);
    const seen = types.get(arch.target.id) ?? new Set<number>();
    types.set(arch.target.id, seen);
    for (const table of image.relocations) {
      if (table.form === 'relr') continue;
      rows += table.count;
      for (const type of table.type) seen.add(type);
    }
    for (const type of seen) if (!arch.relocations.has(type)) missing.add(`${arch.target.id} ${type} in ${entry.name}`);
  }
  return { missing, types, rows };
}

describe('relocation rows', () => {
  test('every type in the samples has a row', async () => {
    const { missing, types } = await typesBelow(join(root, 'samples', 'built'));
    expect([...missing]).toEqual([]);
    expect(types.size).toBe(arches.length);
  });

  const corpus = process.env['ELFTRACE_CORPUS'];
  if (corpus === undefined || corpus === '')
    process.stderr.write('not run: relocation types of kernel objects: ELFTRACE_CORPUS is unset\n');
  else {
    test('every type in the kernel objects has a row', async () => {
      const { missing, types, rows } = await typesBelow(corpus);
      expect([...missing]).toEqual([]);
      const counts = [...types].map(([target, seen]) => `${target} ${seen.size}`).join(', ');
      process.stderr.write(`relocation types in kernel objects: ${counts}; ${rows} relocations\n`);
      expect(rows).toBeGreaterThan(100000);
    }, 60000);
  }

  test('rows are keyed by their own type, names are unique, NONE is type 0', () => {
    for (const arch of arches) {
      const names = new Set<string>();
      for (const [type, row] of arch.relocations) {
        expect(row.type).toBe(type);
        expect(names.has(row.name)).toBe(false);
        names.add(row.name);
      }
      expect(arch.relocations.get(arch.relocationRoles.none)?.rule).toBe('none');
      expect(arch.relocations.get(arch.relocationRoles.word)?.rule).toBe('abs');
      expect(arch.relocations.get(arch.relocationRoles.relative)?.rule).toBe('relative');
      expect(arch.relocations.size).toBeGreaterThan(30);
    }
  });

  test('an unknown type is named in the error with its place, not guessed', () => {
    const look = (): unknown =>
      relocationRow(riscv64.relocations, 4711, riscv64.target.title, { section: '.text', offset: 0x10n });
    expect(look).toThrow(ElftraceError);
    expect(look).toThrow('relocation type 4711 at .text+0x10 is not known');
  });
});
