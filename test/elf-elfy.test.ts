/**
 * Our reader against the package elfy, and elfy's known faults, so that a fix of them is noticed.
 */
import { describe, expect, test } from '@jest/globals';
import { ElftraceError } from '../src/errors.js';
import { compareWithElfy, ELFY_WRONG_FIELDS, secondReading } from '../src/elf/elfy.js';
import { readElf } from '../src/elf/read.js';
import { ALL_SHAPES, buildElf, shapeName, smallObject } from './support/elf-builder.js';
import { compiledFiles } from './support/elf-compile.js';

const WITHOUT_SECTIONS = 'without sections';

describe('second reader', () => {
  test('agrees on every compiled file that it can read', async () => {
    let checked = 0;
    for (const { name, bytes } of compiledFiles()) {
      const result = await compareWithElfy(readElf(bytes));
      expect([name, result.differences]).toEqual([name, []]);
      if (name.includes(WITHOUT_SECTIONS)) expect(result.limits[0]).toContain('elfy cannot read this file');
      else expect(result.checked).toBeGreaterThan(100);
      checked += result.checked;
    }
    process.stdout.write(`elf-elfy: ${checked} fields agree\n`);
  });

  test.each(ALL_SHAPES.map((shape) => [shapeName(shape), shape] as const))(
    '%s: agrees on a built object',
    async (_name, shape) => {
      const result = await compareWithElfy(readElf(smallObject(shape)));
      expect(result.differences).toEqual([]);
      expect(result.checked).toBeGreaterThan(100);
    },
  );

  test('a difference is reported with both values', async () => {
    const bytes = smallObject(ALL_SHAPES[0]!);
    const image = readElf(bytes);
    const sections = image.sections.map((section) => (section.index === 1 ? { ...section, size: 7 } : section));
    const lying = new Proxy(image, {
      get: (target, key) => (key === 'sections' ? sections : Reflect.get(target, key, target)),
    });
    expect((await compareWithElfy(lying)).differences).toEqual(['section 1 (.text): size: elfy 0x40, elftrace 0x7']);
  });

  test('what elfy cannot read is a limit, not an error', async () => {
    const many = Array.from({ length: 0xff00 }, () => ({ name: '', type: 8, align: 1 }));
    const result = await compareWithElfy(readElf(buildElf({ ...ALL_SHAPES[0]!, type: 1, sections: many })));
    expect(result).toMatchObject({ checked: 0, differences: [] });
    expect(result.limits).toHaveLength(1);
    await expect(secondReading(readElf(buildElf({ ...ALL_SHAPES[0]!, type: 1, sections: many })))).rejects.toThrow(
      ElftraceError,
    );
  });

  test('values beyond 2^53 are a limit', async () => {
    const bytes = buildElf({
      ...ALL_SHAPES[0]!,
      type: 2,
      sections: [{ name: '.text', type: 1, flags: 6, address: 0xffff_ffff_8100_0001n, contents: new Uint8Array(8) }],
    });
    const result = await compareWithElfy(readElf(bytes));
    expect(result.differences).toEqual([]);
    expect(result.limits.join()).toContain('1 values beyond 2^53');
  });
});

describe('what elfy 1.0.0 gets wrong is still wrong', () => {
  test('the fields that are left out of the comparison', async () => {
    expect(ELFY_WRONG_FIELDS).toHaveLength(4);
    const bytes = smallObject(ALL_SHAPES[0]!);
    bytes[7] = 3;
    bytes[8] = 1;
    const image = readElf(bytes);
    const theirs = await secondReading(image);
    expect(image.header).toMatchObject({ osAbi: 3, abiVersion: 1 });
    // EI_VERSION (1) is read as the system: 1 is HP-UX; and the system (3) as its version, which
    // has no name.
    expect(theirs.osabi).toBe('hpux');
    expect(theirs.abiversion).toBeUndefined();
    const text = theirs.body.sections[1]!;
    expect(image.sections[1]!.alignBytes).toBe(16n);
    expect(text.addralign).not.toBe(16);
    const symtab = theirs.body.sections[8]!;
    expect(image.sections[8]!.entrySize).toBe(24n);
    expect(symtab.entsize).not.toBe(24);
  });

  test('RISC-V has no name', async () => {
    const theirs = await secondReading(readElf(smallObject(ALL_SHAPES[0]!, 243)));
    expect(theirs.machine).toBeUndefined();
    const { limits } = await compareWithElfy(readElf(smallObject(ALL_SHAPES[0]!, 243)));
    expect(limits).toContain('header: machine: elfy has no name for 0xf3');
  });
});
