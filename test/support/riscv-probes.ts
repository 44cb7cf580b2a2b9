/** RISC-V code for tests of probes: assembled by binutils and taken apart by objdump. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readElf } from '../../src/elf/read.js';
import { run } from './tools.js';

const PREFIX = 'riscv64-linux-gnu-';
export const RISCV_TOOLS = [`${PREFIX}as`, `${PREFIX}objdump`];

function inFolder<T>(body: (path: (name: string) => string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-'));
  try {
    return body((name) => join(folder, name));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** .text of a source; `.option norvc` keeps words. */
export function assembleRiscv(source: string): Uint8Array {
  return inFolder((path) => {
    writeFileSync(path('a.s'), `.option norelax\n${source}\n`);
    run(`${PREFIX}as`, ['-march=rv64gc', '-mno-relax', path('a.s'), '-o', path('a.o')]);
    const image = readElf(new Uint8Array(readFileSync(path('a.o'))));
    const text = image.section('.text');
    if (!text) throw new Error('no .text');
    return image.contents(text).slice();
  });
}

/** objdump's text, without aliases, one line per instruction. */
export function disassembleRiscv(bytes: Uint8Array, address: bigint): string[] {
  return inFolder((path) => {
    writeFileSync(path('code.bin'), bytes);
    const out = run(`${PREFIX}objdump`, [
      '-D', '-b', 'binary', '-m', 'riscv:rv64', '-M', 'no-aliases', '-z', `--adjust-vma=0x${address.toString(16)}`, path('code.bin'),
    ]).toString(); // prettier-ignore
    const lines: string[] = [];
    for (const line of out.split('\n')) {
      const match = /^\s*[0-9a-f]+:\t[0-9a-f ]+\t(.*)$/.exec(line);
      if (match) lines.push(match[1]!.replace(/\s+/g, ' ').replace(/ #.*$/, '').trim());
    }
    return lines;
  });
}
