/**
 * Writes test/vectors/arm64-objdump.txt: a few random words of every A64 row with the text that GNU
 * objdump prints; and test/vectors/arm64-forms.txt: a word of each form of the instructions that
 * processes are told of, found without our rows, from all words. Needs the aarch64 binutils; run by
 * hand (`node build/scripts/vectors-arm64.js`) when rows are added.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

// ------------------------------------------------------------------------------------------- forms

/** What AT_HWCAP can name, in the words of GNU as, without what is no instruction. */
const ANNOUNCED = 'armv8-a+fp+simd+crc+lse+rcpc+flagm+ssbs+sb+aes+sha2+rdma+fp16fml+dotprod+sha3';
const AS = OBJDUMP.replace('objdump', 'as');
const OBJCOPY = OBJDUMP.replace('objdump', 'objcopy');

/** Words with registers 1 and 2 in the lowest fields, and what comparisons with zero have there. */
function* allWords(): Generator<number> {
  for (let upper = 0; upper < 1 << 22; upper++) {
    const word = (upper << 10) >>> 0;
    // Exceptions and system registers, which are no forms.
    if (word >>> 24 === 0xd4 || word >>> 24 === 0xd5) continue;
    yield (word | (2 << 5) | 1) >>> 0;
    if (word >>> 24 === 0x1e && ((word >>> 10) & 0x3f) === 8)
      for (const rd of [0, 8, 16, 24]) yield (word | (2 << 5) | rd) >>> 0;
  }
}

/** A text without the numbers in it. */
const formOf = (text: string): string =>
  text
    .replace(/\b([vbhsdqwx])\d+/g, '$1N')
    .replace(/#-?(0x[0-9a-f]+|[\d.e+-]+)/g, '#I')
    .replace(/\[\d+\]/g, '[I]')
    .replace(/([ ,]) ?0x[0-9a-f]+$/, '$1 ADDRESS')
    .replace(/, (eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al|nv)$/, ', COND')
    .replace(/^b\.\w\w/, 'b.COND')
    .replace(/^(prf\w+) [\w#]+,/, '$1 OP,');

/** The words that GNU as makes of texts; null where it refuses one. */
function assembled(texts: readonly string[]): (number | null)[] {
  const folder = mkdtempSync(join(tmpdir(), 'a64-'));
  try {
    const refused = new Set<number>();
    for (;;) {
      const lines = texts.map((text, i) => (refused.has(i) ? '.inst 0' : text));
      writeFileSync(join(folder, 'a.s'), `.arch ${ANNOUNCED}\n${lines.join('\n')}\n`);
      const result = spawnSync(AS, ['a.s', '-o', 'a.o'], { cwd: folder, maxBuffer: 1 << 28 });
      const errors = [...result.stderr.toString().matchAll(/^a\.s:(\d+): Error/gm)];
      if (errors.length === 0) break;
      for (const [, line] of errors) refused.add(Number(line) - 2);
    }
    execFileSync(OBJCOPY, ['-O', 'binary', '-j', '.text', 'a.o', 'a.bin'], { cwd: folder });
    const bytes = readFileSync(join(folder, 'a.bin'));
    return texts.map((_, i) => (refused.has(i) ? null : bytes.readUInt32LE(4 * i)));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const forms = new Map<string, number[]>();
function addForms(chunk: readonly number[]): void {
  const texts = objdump(chunk, BASE);
  const known = chunk.flatMap((word, i) => {
    const text = texts[i]!;
    return /^\.inst|undefined/.test(text) ? [] : [{ word, text: text.replace(/\s*;.*$/, '') }];
  });
  const again = assembled(known.map(({ text }) => text));
  known.forEach(({ word, text }, i) => {
    const form = formOf(text);
    // What is relative to its place is another word elsewhere; else the word must be the same.
    if (again[i] === null || (!form.endsWith('ADDRESS') && again[i] !== word)) return;
    forms.set(form, [...(forms.get(form) ?? []).slice(-64), word]);
  });
}

let chunk: number[] = [];
for (const word of allWords()) {
  if (chunk.push(word) < 400_000) continue;
  addForms(chunk);
  chunk = [];
}
addForms(chunk);
writeFileSync(
  new URL('../../test/vectors/arm64-forms.txt', import.meta.url),
  [
    `# ${version}: a word of each form of -march=${ANNOUNCED}, but for exceptions and system registers`,
    '# word, text without numbers; written by scripts/vectors-arm64.ts',
    ...[...forms].map(([form, words]) => `${words[words.length >> 1]!.toString(16).padStart(8, '0')}\t${form}`),
  ].join('\n') + '\n',
);
console.log(`${forms.size} forms`);
