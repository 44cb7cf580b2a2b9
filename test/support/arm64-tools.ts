/**
 * Words of every A64 row and what GNU objdump prints for them: shared by the tests and
 * scripts/vectors-arm64.ts, which runs outside jest (so this imports nothing of it).
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { outputOf } from './spawn.js';
import { arm64Table } from '../../src/arch-arm64/isa.js';

export const OBJDUMP = 'aarch64-linux-gnu-objdump';

/** Small repeatable generator, so that a failure names words that come again. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b_79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  };
}

/**
 * Words of each row: fixed bits of the row, everything else random, kept when the decoder gives
 * that row back.
 */
export function wordsOfRows(perRow: number): { readonly mnemonic: string; readonly word: number }[] {
  const next = generator(40);
  const out: { mnemonic: string; word: number }[] = [];
  for (const each of arm64Table.rows) {
    let found = 0;
    for (let tries = 0; tries < 4000 && found < perRow; tries++) {
      const word = ((next() & ~each.mask) | each.match) >>> 0;
      if (arm64Table.decode(word)?.row !== each) continue;
      out.push({ mnemonic: each.mnemonic, word });
      found++;
    }
  }
  return out;
}

export function objdump(words: readonly number[], base: number): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'a64-'));
  try {
    const bytes = new Uint8Array(words.length * 4);
    const view = new DataView(bytes.buffer);
    words.forEach((word, i) => {
      view.setUint32(i * 4, word, true);
    });
    const path = join(folder, 'words.bin');
    writeFileSync(path, bytes);
    const text = outputOf(OBJDUMP, [
      ...['-b', 'binary', '-m', 'aarch64', '-D', '-z', '-M', 'no-aliases', `--adjust-vma=${base}`],
      path,
    ]).toString();
    return text
      .split('\n')
      .map((line) => /^\s*[0-9a-f]+:\t[0-9a-f]{8} \t(.*)$/.exec(line)?.[1])
      .filter((line) => line !== undefined)
      .map((line) =>
        line
          .replace(/\s*\/\/.*$/, '')
          .replace(/\t/g, ' ')
          .trim(),
      );
  } finally {
    rmSync(folder, { recursive: true });
  }
}
