/**
 * The prebuilt objects of the runtime: what they may not contain, what they must have, and that
 * abi.ts and abi.h say the same.
 */
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ppc32Table, ppc64Table } from '../src/arch-ppc/isa.js';
import { SHN_UNDEF } from '../src/elf/constants.js';
import { readElf } from '../src/elf/read.js';
import * as abi from '../src/runtime/index.js';
import { OBJECTS } from '../src/runtime/objects.js';
import { scratch, TARGETS } from './support/c-programs.js';
import { PROGRAMS } from './support/runtime-harness.js';
import { describeWith, run } from './support/tools.js';
import { conventionRow } from './support/conventions.js';

/**
 * Relocations that need neither a TOC entry nor a GOT nor anything at run time: absolute, relative,
 * TOC-relative, calls.
 */
const ALLOWED = { 32: [1, 4, 6, 10], 64: [10, 38, 48, 50, 51, 64, 250, 252] } as const;

const FLAVOURS = ['pg', 'regs'] as const;

for (const target of TARGETS) {
  const { id, wordBytes, dataEndian } = target.arch.target;
  test.each(FLAVOURS)(`RT-3, C-FG-7: %s of ${id}`, (flavour) => {
    const bytes = abi.runtimeObject(id, flavour)!;
    const recorded = OBJECTS[`${id}/${flavour}`]!;
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(recorded.sha256);
    expect(bytes.length).toBeLessThan(20_480);
    const image = readElf(bytes);
    expect(target.arch.target.elfMachine).toBe(image.header.machine);

    const undefinedNames = [...image.symbols.sectionIndex]
      .map((section, i) => (section === SHN_UNDEF ? image.symbols.name(i) : ''))
      .filter((name) => name !== '');
    expect(undefinedNames).toEqual(wordBytes === 8 ? ['.TOC.'] : []);
    const names = image.sections.map((section) => section.name);
    expect(names.filter((name) => /^\.(got|toc|plt|sdata|sbss|gnu\.attributes|comment)/.test(name))).toEqual([]);
    expect(names).toEqual(expect.arrayContaining([abi.RING_SECTIONS.header, abi.RING_SECTIONS.records]));

    const types = new Set<number>();
    for (const section of image.sections) {
      for (const table of image.relocationsOf(section)) for (let i = 0; i < table.count; i++) types.add(table.type[i]!);
    }
    const allowed: readonly number[] = wordBytes === 8 ? ALLOWED[64] : ALLOWED[32];
    expect([...types].filter((type) => !allowed.includes(type))).toEqual([]);

    const symbols = conventionRow(id, flavour).symbols;
    for (const group of Object.values(symbols))
      for (const name of group) expect([name, image.symbols.find(name) > 0]).toEqual([name, true]);
    expect(image.symbols.info[image.symbols.find('_mcount')]! >> 4).toBe(2);

    // Only general registers: no operand of any instruction is a floating point or vector register.
    const text = image.section('.text')!;
    const view = new DataView(bytes.buffer, bytes.byteOffset + text.offset, text.size);
    const table = wordBytes === 8 ? ppc64Table : ppc32Table;
    let count = 0;
    for (let at = 0; at < text.size; at += 4) {
      const word = view.getUint32(at, dataEndian === 'little');
      // Between functions there may be zeros.
      const decoded = table.decode(word);
      if (decoded === null) {
        expect([at, word]).toEqual([at, 0]);
        continue;
      }
      count++;
      const float = Object.keys(decoded.operands).filter((name) => /^(f|v|x)/.test(name) && name !== 'fxm');
      expect([decoded.row.mnemonic, float]).toEqual([decoded.row.mnemonic, []]);
      expect(decoded.row.mnemonic).not.toMatch(/^(f(?!xm)|v|xx|xs|xv|lxv|stxv|lv|stv|mtvs|mfvs|m[tf]fs|dcbz)/);
    }
    expect(count).toBeGreaterThan(500);
  });

  describeWith([target.gcc], `layout on ${id}`, () => {
    test('F-10: abi.ts says what abi.h says', () => {
      const word = wordBytes;
      const words: readonly (readonly [struct: string, member: string, offset: number])[] = [
        ...Object.entries(abi.OPS_WORDS).map(([name, at]): [string, string, number] => [
          'ops', { directCall: 'direct_call', private: 'private_' }[name] ?? name, at * word,
        ]),
        ...Object.entries(abi.HASH_WORDS).map(([name, at]): [string, string, number] => ['hash', name, at * word]),
        ...Object.entries(abi.RING_HEADER).map(([name, at]): [string, string, number] => [
          'ring', { recordBytes: 'record_bytes', clockKind: 'clock_kind' }[name] ?? name, at,
        ]),
        ...Object.entries(abi.RING_RECORD).map(([name, at]): [string, string, number] => [
          'ring_record', name === 'parentIp' ? 'parent_ip' : name, at,
        ]),
        ...Object.entries(abi.RING_SHORT).map(([name, at]): [string, string, number] => [
          'ring_short', name === 'parentIp' ? 'parent_ip' : name, at,
        ]),
        ...Object.entries(abi.THREAD_WORDS).map(([name, at]): [string, string, number] => [
          'thread', name === 'sideDepth' ? 'side_depth' : name, at * word,
        ]),
        ...Object.entries(abi.GRAPH_ENTRY_WORDS).map(([name, at]): [string, string, number] => [
          'graph_entry', name === 'parentIp' ? 'parent_ip' : name, at * word,
        ]),
        ['ring', 'records', abi.RING_HEADER_BYTES],
        ['thread', 'entries', 6 * word],
        ['thread', 'side', 6 * word + abi.GRAPH_ENTRY_COUNT * abi.graphEntryBytes(word)],
      ]; // prettier-ignore
      const sizes: readonly (readonly [string, number])[] = [
        ['sizeof(struct ops)', abi.OPS_WORD_COUNT * word],
        ['sizeof(struct ring_record)', abi.RING_RECORD_BYTES],
        ['sizeof(struct graph_entry)', abi.graphEntryBytes(word)],
        ['sizeof(struct thread)', abi.threadBytes(word)],
        ['THREADS', abi.THREAD_COUNT],
        ['GRAPH_ENTRIES', abi.GRAPH_ENTRY_COUNT],
        ['SIDE_ENTRIES', abi.SIDE_ENTRY_COUNT],
        ['sizeof(struct ring_short)', abi.RING_SHORT_BYTES],
        ['RING_LONG', abi.RING_VERSIONS.long],
        ['RING_SHORT', abi.RING_VERSIONS.short],
        ['RING_NO_TIMES', abi.RING_FLAGS.noTimes],
        ['SHORT_FAR', abi.RING_SHORT_EVENT.far],
        ['SHORT_THREAD_SHIFT', abi.RING_SHORT_EVENT.threadShift],
        ['SHORT_TIME_SHIFT', abi.RING_SHORT_EVENT.timeShift],
        ['RING_CAPACITY', abi.RING_CAPACITY],
        ['RING_KEEP_OLDEST', abi.RING_FLAGS.keepOldest],
        ['RECORD_ENTRY', abi.RING_KINDS.entry],
        ['RECORD_RETURN', abi.RING_KINDS.return],
        ['RECORD_DIRECT', abi.RING_KINDS.direct],
        ['RECORD_PROBE', abi.RING_KINDS.probe],
        ['RECORD_USER', abi.RING_KINDS.user],
        ['RECORD_DATA', abi.RING_KINDS.data],
        ['RECORD_CALL', abi.RING_KINDS.call],
        ['OPS_SAVE_REGS', abi.OPS_FLAGS.SAVE_REGS],
        ['OPS_STUB', abi.OPS_FLAGS.STUB],
        ['OPS_RCU', abi.OPS_FLAGS.RCU],
      ];
      const source = scratch('abi.c');
      writeFileSync(
        source,
        [
          '#include "abi.h"',
          ...words.map(
            ([struct, member, at]) =>
              `_Static_assert(__builtin_offsetof(struct ${struct}, ${member}) == ${at}, "${struct}.${member}");`,
          ),
          ...sizes.map(([text, value]) => `_Static_assert(${text} == ${value}, "${text}");`),
          '',
        ].join('\n'),
      );
      run(target.gcc, [
        ...target.flags,
        '-I',
        join(PROGRAMS, '../../src/runtime'),
        '-c',
        source,
        '-o',
        scratch('abi.o'),
      ]);
      expect(words.length + sizes.length).toBeGreaterThan(40);
    });
  });
}

test('other targets have no runtime yet', () => {
  expect(abi.runtimeObject('x86-64', 'regs')).toBeNull();
});
