/**
 * Writes test/vectors/riscv-objdump.txt: a few random words of every RISC-V row with the text that
 * GNU objdump prints. Needs the riscv64 binutils; run by hand
 * (`node build/scripts/vectors-riscv.js`) when rows are added.
 */
import { writeFileSync } from 'node:fs';
import { riscvTable } from '../src/arch-riscv/isa.js';
import { MARCH, objdump, random, versionOf } from '../test/support/riscv-tools.js';

const PER_ROW = 6;
const SEED = 2024;
const next = random(SEED);
const words: { readonly value: number; readonly sizeBytes: 2 | 4 }[] = [];
for (const row of riscvTable.rows) {
  const seen = new Set<number>();
  for (let tries = 0; seen.size < PER_ROW && tries < 500; tries++) {
    const value = (((next() & ~row.mask) | row.match) & (row.sizeBytes === 2 ? 0xffff : 0xffff_ffff)) >>> 0;
    if (riscvTable.decode(value, row.sizeBytes)?.row === row) seen.add(value);
  }
  for (const value of seen) words.push({ value, sizeBytes: row.sizeBytes });
}
const code: number[] = [];
for (const { value, sizeBytes } of words) {
  for (let shift = 0; shift < 8 * sizeBytes; shift += 8) code.push((value >>> shift) & 0xff);
}
const theirs = objdump(Uint8Array.from(code));
const version = versionOf('riscv64-linux-gnu-objdump');
const lines = [
  `# ${version}: objdump -d -M no-aliases, ISA ${MARCH}`,
  `# ${PER_ROW} random words a row, seed ${SEED}; address, word, text; written by scripts/vectors-riscv.ts`,
];
let at = 0;
for (const { value, sizeBytes } of words) {
  const text = theirs.get(at) ?? '';
  // A row that this objdump does not know has no vector.
  if (text !== '' && !text.startsWith('.')) {
    lines.push(`0x${at.toString(16)}\t${value.toString(16).padStart(2 * sizeBytes, '0')}\t${text}`);
  }
  at += sizeBytes;
}
const path = new URL('../../test/vectors/riscv-objdump.txt', import.meta.url);
writeFileSync(path, lines.join('\n') + '\n');
console.log(`${lines.length - 2} vectors of ${riscvTable.rows.length} rows`);
