/**
 * Every executable RISC-V row in batches against qemu-user, and the coverage table of design: a row
 * without a test, or with a test that leaves out what the row has (equal registers, register zero,
 * page borders, faults), fails.
 */
import { spawnSync } from './support/spawn.js';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { instructionBytes, riscvTable } from '../src/arch-riscv/isa.js';
import { SHF_EXECINSTR } from '../src/elf/constants.js';
import { readElf } from '../src/elf/read.js';
import { programPaths } from './support/c-programs.js';
import {
  Coverage,
  executableRows,
  missingCoverage,
  QEMU_DIFFERENCES,
  RISCV_QEMU,
  runBatches,
  UNIT_ONLY,
} from './support/riscv-batch.js';
import { runLocal } from './support/riscv-local.js';
import { describeWith } from './support/tools.js';
import { isLong, isWhole, longTest, times } from './support/long.js';

describeWith([RISCV_QEMU], 'instruction coverage', () => {
  const coverage = new Coverage();

  test('a program of thousands of cases gives what it gives under qemu', () => {
    const every = times(1, 1, 12);
    const result = runBatches(coverage, every);
    expect(result.differences).toEqual([]);
    expect(result.cases).toBeGreaterThan(100_000 / every);
    process.stderr.write(`riscv64: ${result.cases} cases compared with qemu\n`);
  });

  longTest('faults, misalignment, window borders, addresses near 0, traps, Zicond', () => {
    expect(runLocal(coverage)).toEqual([]);
  });

  longTest('no executable row is without a test', () => {
    expect(executableRows().length).toBeGreaterThan(180);
    expect(missingCoverage(coverage)).toEqual([]);
  });

  test('the coverage check sees a row that nothing executed', () => {
    expect(missingCoverage(new Coverage())).toHaveLength(executableRows().length);
  });
});

describeWith(['riscv64-linux-gnu-gcc', 'clang'], 'what compilers emit', () => {
  /** Mnemonics of everything in the text of objects. */
  function mnemonicsOf(paths: readonly string[]): Map<string, number> {
    const found = new Map<string, number>();
    for (const path of paths) {
      const image = readElf(new Uint8Array(readFileSync(path)));
      for (const section of image.sections) {
        if ((section.flags & SHF_EXECINSTR) === 0n) continue;
        for (let at = section.offset; at + 2 <= section.offset + section.size;) {
          const low = image.bytes[at]! | (image.bytes[at + 1]! << 8);
          const size = instructionBytes(low) === 2 ? 2 : 4;
          const word = size === 2 ? low : (low | (image.bytes[at + 2]! << 16) | (image.bytes[at + 3]! << 24)) >>> 0;
          const name = riscvTable.decode(word, size)?.row.mnemonic ?? `unknown ${word.toString(16)}`;
          found.set(name, (found.get(name) ?? 0) + 1);
          at += size;
        }
      }
    }
    return found;
  }

  test.each([
    ['riscv64-linux-gnu-gcc', 'rv64imac_zicsr_zifencei_zba_zbb_zbs', [], ['2']],
    ['clang', 'rv64imac_zba_zbb_zbs', ['--target=riscv64-linux-gnu'], ['2']],
  ] as const)(
    '%s for %s: the C programs hold only rows that are executed and tested',
    (compiler, march, flags, levels) => {
      const names = new Set(executableRows().map((row) => row.mnemonic));
      const folder = mkdtempSync(join(tmpdir(), 'elftrace-emitted-'));
      // clang has no __builtin_setjmp on RISC-V.
      const all = programPaths().filter((path) => compiler !== 'clang' || !path.endsWith('/setjmp.c'));
      // Each compiler a third of them, and not the same one.
      const programs = all.filter((_, i) => isWhole || i % (isLong ? 3 : 9) === (compiler === 'clang' ? 1 : 0));
      let count = 0;
      let rows = new Set<string>();
      try {
        for (const level of levels) {
          const { status, stderr } = spawnSync(
          compiler,
          [
            ...flags, `-march=${march}`, '-mabi=lp64', `-O${level}`, '-ffreestanding', '-w', '-I', dirname(programs[0]!), '-c', ...programs,
          ],
          { cwd: folder, encoding: 'utf8' },
        ); // prettier-ignore
          expect([stderr, status]).toEqual(['', 0]);
          const objects = readdirSync(folder).map((name) => join(folder, name));
          expect(objects.length).toBe(programs.length);
          const found = mnemonicsOf(objects);
          expect([...found].filter(([name]) => !names.has(name))).toEqual([]);
          rows = new Set([...rows, ...found.keys()]);
          for (const each of found.values()) count += each;
        }
      } finally {
        rmSync(folder, { recursive: true });
      }
      expect(count).toBeGreaterThan((20_000 * programs.length) / all.length);
      process.stderr.write(`${compiler}: ${count} instructions, ${rows.size} rows\n`);
    },
  );
});

describe('the table', () => {
  test('rows that qemu cannot show, or in which it is wrong, are named with the reason', () => {
    const names = executableRows().map((row) => row.mnemonic);
    for (const row of [...UNIT_ONLY.keys(), ...QEMU_DIFFERENCES.map(([name]) => name)]) expect(names).toContain(row);
  });

  test('compressed rows are executable where the row that they stand for is', () => {
    const names = new Set(executableRows().map((row) => row.mnemonic));
    for (const row of executableRows()) {
      const to = row.attributes.expands?.to;
      if (to !== undefined) expect(names).toContain(to);
    }
  });
});
