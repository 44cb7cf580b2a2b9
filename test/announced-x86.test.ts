/**
 * What `cpuid` can announce on x86-64 is executed: every form that binutils disassembles in the
 * maps of two and three opcode bytes and assembles again for x86-64-v2.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { x86Lifter } from '../src/arch-x86/lift.js';
import { outputOf, spawnSync } from './support/spawn.js';
import { describeWith } from './support/tools.js';

/** In the words of GNU as: the level, and what else `cpuid` says of instructions in these maps. */
const LEVEL = [
  'sse2',
  'fxsr',
  'clflush',
  'syscall',
  'rdtscp',
  'nop',
  'cx16',
  'popcnt',
  'sse3',
  'ssse3',
  'sse4.1',
  'sse4.2',
];

/**
 * Not meant: a prefix that the encoding does not have, which binutils writes in front; what a bit
 * of its own announces; descriptor tables and segment registers, which are not executed.
 */
const OTHERS =
  /^(data16|(rex\.W )*(monitor|mwait|s[gil]dt|l[gil]dt|str|ltr|[ls]msw|ver[rw]|lar|lsl|l[fgs]s|sysenter|(push|pop)w?\s+%[fg]s))\b/;

const SLOT = 16;

/** Prefixes, opcodes, and ModRM: memory at rdi, registers, and what groups have. */
function encodings(): Uint8Array[] {
  const out: Uint8Array[] = [];
  for (const prefix of [[], [0x66], [0xf3], [0xf2]])
    for (const rex of [[], [0x48]])
      for (const map of [[0x0f], [0x0f, 0x38], [0x0f, 0x3a]])
        for (let opcode = 0; opcode < 256; opcode++) {
          if (map.length === 1 && (opcode === 0x38 || opcode === 0x3a)) continue;
          // Opcodes of two bytes may be groups, by the middle of ModRM.
          const forms = map.length === 1 ? [0, 1, 2, 3, 4, 5, 6, 7] : [0];
          for (const form of forms)
            for (const modRm of [0x07, 0xc1])
              out.push(Uint8Array.of(...prefix, ...rex, ...map, opcode, modRm | (form << 3), 1));
        }
  return out;
}

/** Texts of the encodings, one in each slot; null: none. */
function disassembled(folder: string, all: readonly Uint8Array[]): (string | null)[] {
  const bytes = new Uint8Array(all.length * SLOT).fill(0x90);
  all.forEach((each, i) => {
    bytes.set(each, i * SLOT);
    bytes.fill(0, i * SLOT + each.length, i * SLOT + 11);
  });
  writeFileSync(join(folder, 'x.bin'), bytes);
  const out = new Array<string | null>(all.length).fill(null);
  const text = outputOf('objdump', ['-b', 'binary', '-m', 'i386:x86-64', '-D', '-z', join(folder, 'x.bin')]).toString();
  for (const [, place, each] of text.matchAll(/^ *([0-9a-f]+):\t[0-9a-f ]+\t(.*)$/gm)) {
    const at = parseInt(place!, 16);
    if (at % SLOT === 0 && !/\(bad\)|^\./.test(each!)) out[at / SLOT] = each!.replace(/ +[#<].*$/, '').trim();
  }
  return out;
}

/** Of texts those that the assembler takes for the level. */
function ofLevel(folder: string, texts: readonly string[]): Set<string> {
  const head = ['.arch generic64', ...LEVEL.map((name) => `.arch .${name}`)];
  writeFileSync(join(folder, 'x.s'), `${[...head, ...texts].join('\n')}\n`);
  const errors = spawnSync('as', ['x.s', '-o', 'x.o'], { cwd: folder, maxBuffer: 1 << 28 }).stderr.toString();
  const refused = new Set(
    [...errors.matchAll(/^x\.s:(\d+): Error/gm)].map(([, line]) => Number(line) - head.length - 1),
  );
  return new Set(texts.filter((_, i) => !refused.has(i)));
}

describeWith(['objdump', 'as'], 'x86-64', () => {
  test('each form of x86-64-v2 is executed', () => {
    const folder = mkdtempSync(join(tmpdir(), 'x86-forms-'));
    try {
      const all = encodings();
      const texts = disassembled(folder, all);
      const known = ofLevel(folder, [...new Set(texts.filter((each) => each !== null))]);
      expect(known.size).toBeGreaterThan(3000);
      for (const name of ['addsubps', 'pshufb', 'dpps', 'pcmpistri', 'crc32', 'popcnt', 'cmpxchg16b'])
        expect([name, [...known].some((text) => text.startsWith(name))]).toEqual([name, true]);
      const stopped = all.flatMap((each, i) => {
        const text = texts[i];
        if (text === null || text === undefined || !known.has(text) || OTHERS.test(text)) return [];
        known.delete(text);
        const code = new Uint8Array(SLOT).fill(0x90);
        code.set(each);
        code.fill(0, each.length, 11);
        const { terminator } = x86Lifter.lift(code, 0x1_0000n, { maxInstructions: 1, startsAt: () => false });
        return terminator.kind === 'unknown' ? [text] : [];
      });
      expect(stopped).toEqual([]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
