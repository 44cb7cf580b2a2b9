/**
 * Writes test/vectors/ppc-isa-*.txt: two random words of every PowerPC row with objdump's texts of
 * them, one line a word, texts of several processors separated by ` | `. Run: node
 * build/scripts/vectors-ppc.js [folder]
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ppc32Table, ppc64Table } from '../src/arch-ppc/isa.js';
import type { IsaTable } from '../src/isa/table.js';
import {
  type Dialects,
  PPC32_DIALECTS,
  PPC64_DIALECTS,
  PPC_OBJDUMP,
  textsOf,
  wordsOfRows,
} from '../test/support/ppc-objdump.js';

const folder = process.argv[2] ?? 'test/vectors';
const version = spawnSync(PPC_OBJDUMP, ['--version']).stdout.toString().split('\n')[0]!;

function write(name: string, table: IsaTable, dialects: Dialects): void {
  const words = wordsOfRows(table, 2);
  const texts = textsOf(words, dialects);
  const lines = words.map((word, i) => {
    const known = texts[i]!.filter((text) => !text.startsWith('.long'));
    return `${word.toString(16).padStart(8, '0')} ${(known.length > 0 ? known : texts[i]!).join(' | ')}`;
  });
  const header = [
    `# ${version}, -M raw and each of ${dialects.options.join(', ')}; machine ${dialects.machine}, words from 0x10000000 on`,
    '# made by scripts/vectors-ppc.ts',
  ];
  writeFileSync(join(folder, name), `${[...header, ...lines].join('\n')}\n`);
}

write('ppc-isa-32.txt', ppc32Table, PPC32_DIALECTS);
write('ppc-isa-64.txt', ppc64Table, PPC64_DIALECTS);
