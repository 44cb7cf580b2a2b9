/**
 * Writes test/vectors/arm64-objdump.txt: a few random words of every A64 row with the text that GNU
 * objdump prints. Needs the aarch64 binutils; run by hand (`node build/scripts/vectors-arm64.js`)
 * when rows are added.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { arm64Table } from '../src/arch-arm64/isa.js';
import { OBJDUMP, objdump, wordsOfRows } from '../test/support/arm64-tools.js';

const PER_ROW = 5;
const BASE = 0x40_0000;
const words = wordsOfRows(PER_ROW);
const theirs = objdump(
  words.map((each) => each.word),
  BASE,
);
const version = execFileSync(OBJDUMP, ['--version']).toString().split('\n')[0]!;
const lines = [
  `# ${version}: objdump -b binary -m aarch64 -D -z -M no-aliases`,
  `# ${PER_ROW} random words a row, remarks cut; address, word, text; written by scripts/vectors-arm64.ts`,
];
words.forEach(({ word }, i) => {
  lines.push(`0x${(BASE + 4 * i).toString(16)}\t${word.toString(16).padStart(8, '0')}\t${theirs[i]!}`);
});
writeFileSync(new URL('../../test/vectors/arm64-objdump.txt', import.meta.url), lines.join('\n') + '\n');
console.log(`${words.length} vectors of ${arm64Table.rows.length} rows`);
