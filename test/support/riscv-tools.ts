/**
 * RISC-V code through GNU binutils, for tests and for the script that writes their vectors. The
 * words go into an ELF file whose ISA string names the extensions, because objdump takes the set of
 * instructions that it knows from there.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { outputOf } from './spawn.js';

export const RISCV_BINUTILS = [
  'riscv64-linux-gnu-as',
  'riscv64-linux-gnu-ld',
  'riscv64-linux-gnu-objcopy',
  'riscv64-linux-gnu-objdump',
];
/** Extensions that binutils 2.40 knows of those that the rows have (Zicond came later). */
export const MARCH = 'rv64gc_zba_zbb_zbs_zihintpause';

/** Runs `body` with the path of a fresh folder that is removed afterwards. */
export function inFolder<T>(body: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-riscv-'));
  try {
    return body(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * `-M no-aliases` text of each line of a disassembly, by address; blanks between mnemonic and
 * operands made one.
 */
function parse(listing: string): Map<number, string> {
  const out = new Map<number, string>();
  for (const line of listing.split('\n')) {
    const match = /^\s*([0-9a-f]+):\t[0-9a-f ]+\t(.*)$/.exec(line);
    if (!match) continue;
    const text = match[2]!
      .replace(/\s+#.*$/, '')
      .replace(/(?:0x)?([0-9a-f]+) <[^>]*>/g, '0x$1')
      .replace(/\t/g, ' ')
      .trim();
    out.set(Number.parseInt(match[1]!, 16), text);
  }
  return out;
}

/** Disassembles raw code at address 0. */
export function objdump(code: Uint8Array): Map<number, string> {
  return inFolder((folder) => {
    writeFileSync(join(folder, 'code.bin'), code);
    writeFileSync(join(folder, 'x.s'), `.text\n.incbin "code.bin"\n`);
    const object = join(folder, 'x.o');
    outputOf('riscv64-linux-gnu-as', ['-I', folder, `-march=${MARCH}`, '-o', object, join(folder, 'x.s')]);
    // `.incbin` marks its bytes as data.
    outputOf('riscv64-linux-gnu-objcopy', ['-N', '$d', object]);
    return parse(outputOf('riscv64-linux-gnu-objdump', ['-d', '-z', '-M', 'no-aliases', object]).toString());
  });
}

/**
 * Assembles text and returns the bytes of .text; relaxation is off so that nothing is left to a
 * linker.
 */
export function assemble(text: string, march = MARCH): Uint8Array {
  return inFolder((folder) => {
    writeFileSync(join(folder, 'x.s'), `.option norelax\n.text\n${text}\n`);
    const object = join(folder, 'x.o');
    outputOf('riscv64-linux-gnu-as', [`-march=${march}`, '-o', object, join(folder, 'x.s')]);
    outputOf('riscv64-linux-gnu-objcopy', ['-O', 'binary', '-j', '.text', object, join(folder, 'x.bin')]);
    return new Uint8Array(readFileSync(join(folder, 'x.bin')));
  });
}

/** First line of `--version`. */
export function versionOf(name: string): string {
  return outputOf(name, ['--version']).toString().split('\n')[0]!;
}

/** A seeded generator of 32-bit words (xorshift), so that a failing case can be repeated. */
export function random(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>>= 0);
  };
}
