/** RISC-V code for tests of probes: assembled by binutils, wrapped as the probe model sees it, and taken apart by objdump. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { riscvProbes } from '../../src/arch-riscv/kprobes.js';
import { readElf } from '../../src/elf/read.js';
import type { JumpOptimization, ProbeCode } from '../../src/kprobes/model.js';
import { run } from './tools.js';

export function jumpForm(): JumpOptimization {
  const { optimization } = riscvProbes;
  if (optimization.kind === 'none') throw new Error(optimization.reason);
  return optimization;
}

function inFolder<T>(body: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-'));
  try {
    return body(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Instructions have two bytes where they are written so (`c.addi`), and nowhere else. */
const sized = (source: string): string =>
  source
    .split('\n')
    .map((line) => `.option ${/^\s*(\w+:\s*)?c\./.test(line) ? 'rvc' : 'norvc'}\n${line}`)
    .join('\n');

/** .text of a source, linked at an address without relaxation, and its symbols. */
export function assemble(source: string, address: bigint): { bytes: Uint8Array; symbols: Map<string, bigint> } {
  return inFolder((folder) => {
    const path = (name: string): string => join(folder, name);
    writeFileSync(path('code.s'), `.option norelax\n${sized(source)}\n`);
    run('riscv64-linux-gnu-as', ['-march=rv64gc_zba_zbb_zbs', path('code.s'), '-o', path('code.o')]);
    const options = ['--no-relax', '-e', '0', `-Ttext=0x${address.toString(16)}`];
    run('riscv64-linux-gnu-ld', [...options, path('code.o'), '-o', path('code')]);
    const linked = spawnSync('cat', [path('code')], { maxBuffer: 1 << 24 });
    const image = readElf(new Uint8Array(linked.stdout));
    const text = image.section('.text');
    if (!text) throw new Error('no .text');
    const symbols = new Map<string, bigint>();
    for (let i = 1; i < image.symbols.count; i++) symbols.set(image.symbols.name(i), image.symbols.value[i]!);
    return { bytes: image.contents(text).slice(), symbols };
  });
}

/** objdump's text of code at an address: words and mnemonics with operands, as written, without aliases. */
export function disassemble(bytes: Uint8Array, address: bigint): string[] {
  return inFolder((folder) => {
    const file = join(folder, 'code.bin');
    writeFileSync(file, bytes);
    const out = run('riscv64-linux-gnu-objdump', [
      '-D', '-b', 'binary', '-m', 'riscv:rv64', '-M', 'no-aliases', '-z', `--adjust-vma=0x${address.toString(16)}`, file,
    ]).toString(); // prettier-ignore
    const lines: string[] = [];
    for (const line of out.split('\n')) {
      const match = /^\s*[0-9a-f]+:\t([0-9a-f]+)\s+(.*)$/.exec(line);
      if (match)
        lines.push(
          `${match[1]!} ${match[2]!
            .replace(/\s*#.*$/, '')
            .replace(/\s+/g, ' ')
            .trim()}`,
        );
    }
    return lines;
  });
}

/** Code of a function f that fills all its bytes. */
export function codeOf(bytes: Uint8Array, start: bigint, more: Partial<ProbeCode> = {}): ProbeCode {
  return {
    name: 'f',
    start,
    bytes,
    sizeKnown: true,
    localEntry: 0,
    isEntryText: false,
    hasException: () => false,
    otherPatch: () => null,
    siteAt: () => null,
    hasRelocation: () => false,
    noJumpTables: false,
    ...more,
  };
}
