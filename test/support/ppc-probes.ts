/** PowerPC code for tests of probes: assembled by binutils and taken apart by objdump. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ppcTargets } from './ppc-build.js';
import { assembleWith } from './ppc-build.js';
import { run } from './tools.js';
import { readElf } from '../../src/elf/read.js';
import type { ProbeSupport } from '../../src/machine/probes.js';

export type PpcTargetName = keyof typeof ppcTargets;
export const PPC_TARGETS: readonly PpcTargetName[] = ['ppc32', 'v1', 'v2be', 'v2le'];

/** Of a target; it has probes. */
export function probesOf(name: PpcTargetName): ProbeSupport {
  const { probes } = ppcTargets[name].arch;
  if (probes.kind === 'none') throw new Error(probes.reason);
  return probes;
}

/** .text of a source, without relocations. */
export function assemble(name: PpcTargetName, source: string): Uint8Array {
  const flags = name === 'ppc32' ? ['-many'] : ['-mpower10', '-many'];
  const image = readElf(assembleWith(ppcTargets[name], `${source}\n`, flags));
  const text = image.section('.text');
  if (!text) throw new Error('no .text');
  return image.contents(text).slice();
}

/** objdump's text of code at an address, one line per instruction, blanks made one. */
export function disassemble(name: PpcTargetName, bytes: Uint8Array, address: bigint): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-'));
  try {
    const file = join(folder, 'code.bin');
    writeFileSync(file, bytes);
    const bits =
      name === 'ppc32' ? ['-m', 'powerpc:common', '-M', '32'] : ['-m', 'powerpc:common64', '-M', '64,power10'];
    const out = run(`${ppcTargets[name].prefix}objdump`, [
      '-D', '-b', 'binary', ...bits, name === 'v2le' ? '-EL' : '-EB', '-z', `--adjust-vma=0x${address.toString(16)}`, file,
    ]).toString(); // prettier-ignore
    const lines: string[] = [];
    for (const line of out.split('\n')) {
      const match = /^\s*[0-9a-f]+:\t[0-9a-f ]+\t(.*)$/.exec(line);
      if (match) lines.push(match[1]!.replace(/\s+/g, ' ').trim());
    }
    return lines;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
