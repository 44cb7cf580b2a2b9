/**
 * Words of every PowerPC row and objdump's texts of them in several dialects: for the tests and for
 * `scripts/vectors-ppc.ts`.
 */
import { spawnSync } from './spawn.js';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { IsaTable } from '../../src/isa/table.js';
import { fromWords } from './fake-view.js';

export const PPC_OBJDUMP = 'powerpc64-linux-gnu-objdump';
/** Address of the first word. */
const PPC_WORDS_BASE = 0x1000_0000;

export interface Dialects {
  readonly machine: string;
  readonly options: readonly string[];
}
/**
 * Processors whose names and operand orders the rows follow; where they differ, one of them must
 * agree.
 */
export const PPC64_DIALECTS: Dialects = {
  machine: 'powerpc:common64',
  options: ['power9', 'power8', 'e500mc', 'booke', '750', 'power10', 'cell', '7410'],
};
export const PPC32_DIALECTS: Dialects = {
  machine: 'powerpc:common',
  options: ['power8', '7410', 'e500mc', 'e6500', '750', 'power9', 'booke', '440', '601', 'ppc'],
};

/** Text with single blanks and without remarks. */
export function plain(text: string): string {
  return text
    .replace(/\s*(#|<).*$/, '')
    .replace(/\s+/g, ' ')
    .trim();
}

/** Texts of big-endian words by objdump, one per word. */
export function objdump(words: readonly number[], machine: string, options: string): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-'));
  try {
    const file = join(folder, 'words.bin');
    writeFileSync(file, fromWords(words, 'big'));
    const args = ['-D', '-b', 'binary', '-m', machine, '-EB', '-z', '--adjust-vma=0x10000000', '-M', options, file];
    const result = spawnSync(PPC_OBJDUMP, args, { maxBuffer: 1 << 28 });
    if (result.status !== 0) throw new Error(`${PPC_OBJDUMP}: ${result.stderr.toString()}`);
    const out = words.map(() => '');
    for (const line of result.stdout.toString().split('\n')) {
      const match = /^\s*([0-9a-f]+):\t[^\t]*\t(.*)$/.exec(line);
      if (match) out[(Number.parseInt(match[1]!, 16) - PPC_WORDS_BASE) / 4] = plain(match[2]!.replace('\t', ' '));
    }
    return out;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * `perRow` words of every row, random in all other bits, the same in every run; only words that
 * some row has.
 */
export function wordsOfRows(table: IsaTable, perRow: number): number[] {
  let state = 0x2545_f491;
  const next = (): number => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state;
  };
  const words: number[] = [];
  for (const each of table.rows) {
    // Rows with rare valid operands (one-hot masks) need many tries.
    for (let tries = 0, found = 0; found < perRow && tries < 3000; tries++) {
      const word = ((next() & ~each.mask) | each.match) >>> 0;
      if (table.decode(word) === null) continue;
      words.push(word);
      found++;
    }
  }
  return words;
}

/** Distinct texts of each word over all dialects. */
export function textsOf(words: readonly number[], { machine, options }: Dialects): string[][] {
  const texts = options.map((option) => objdump(words, machine, `raw,${option}`));
  return words.map((_, i) => [...new Set(texts.map((text) => text[i]!))]);
}

/** Differences that are known and right on our side. */
function tolerated(mnemonic: string, ours: string, theirs: string): boolean {
  switch (mnemonic) {
    // objdump prints `.long` for branch conditions with the old hint bit or reserved bits;
    // processors ignore them.
    case 'bc':
    case 'bcl':
    case 'bca':
    case 'bcla':
    case 'bclr':
    case 'bclrl':
    case 'bcctr':
    case 'bcctrl':
    case 'bctar':
    case 'bctarl':
      return theirs.startsWith('.long 0x4') || ours.replace('0xffffffff', '0x') === theirs;
    // objdump cuts absolute targets to 32 bits.
    case 'ba':
    case 'bla':
      return ours.replace('0xffffffff', '0x') === theirs;
    // objdump prints the absent optional mask as -1.
    case 'mfcr':
      return `${ours},-1` === theirs;
    // Named registers that only some embedded processors have.
    case 'mfdcr':
    case 'mtdcr':
    case 'mfpmr':
    case 'mtpmr':
      return theirs.startsWith(mnemonic.slice(0, 2));
    // Names of the four kinds.
    case 'tlbilx':
      return theirs.startsWith('tlbilx');
    case 'tend.':
      return theirs === 'tendall.';
    default:
      return false;
  }
}

/** What differs between our texts and objdump's, and rows that no word has shown. */
export function differences(
  table: IsaTable,
  words: readonly number[],
  texts: readonly (readonly string[])[],
): string[] {
  const out: string[] = [];
  const seen = new Set<string>();
  words.forEach((word, i) => {
    const decoded = table.decode(word);
    const theirs = texts[i]!;
    if (decoded === null) {
      out.push(`${word.toString(16)}: no row, objdump '${theirs.join("', '")}'`);
      return;
    }
    const ours = plain(table.format(decoded, BigInt(PPC_WORDS_BASE + 4 * i), { aliases: false }));
    const { mnemonic } = decoded.row;
    if (theirs.some((text) => text === ours || tolerated(mnemonic, ours, text))) seen.add(mnemonic);
    else out.push(`${word.toString(16)}: ours '${ours}', objdump '${theirs.join("', '")}'`);
  });
  for (const each of table.rows) if (!seen.has(each.mnemonic)) out.push(`${each.mnemonic}: never compared`);
  return out;
}
