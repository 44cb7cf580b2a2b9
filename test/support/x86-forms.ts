/**
 * The forms of x86-64 instructions that binutils knows of a level of the ABI: encodings of the maps
 * of two and three opcode bytes, disassembled, and assembled again for the level.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { outputOf, spawnSync } from './spawn.js';

/**
 * In the words of GNU as: x86-64-v2, and what else `cpuid` says of instructions in these maps.
 */
export const LEVEL_2: readonly string[] =
  'sse2 fxsr clflush syscall rdtscp nop cx16 popcnt sse3 ssse3 sse4.1 sse4.2'.split(' ');
export const LEVEL_3: readonly string[] = [...LEVEL_2, ...'avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave'.split(' ')];

/**
 * Not meant: a prefix that the encoding does not have, which binutils writes in front; what a bit
 * of its own announces; descriptor tables and segment registers, which are not executed.
 */
const OTHERS =
  /^(data16|(rex\.W )*(monitor|mwait|s[gil]dt|l[gil]dt|str|ltr|[ls]msw|ver[rw]|lar|lsl|l[fgs]s|sysenter|(push|pop)w?\s+%[fg]s))\b/;

const SLOT = 16;
const FORMS = [0, 1, 2, 3, 4, 5, 6, 7];

/** Prefixes, opcodes, and ModRM: memory at rdi, registers, and what groups have. */
export function legacyEncodings(): Uint8Array[] {
  const out: Uint8Array[] = [];
  for (const prefix of [[], [0x66], [0xf3], [0xf2]])
    for (const rex of [[], [0x48]])
      for (const map of [[0x0f], [0x0f, 0x38], [0x0f, 0x3a]])
        for (let opcode = 0; opcode < 256; opcode++) {
          if (map.length === 1 && (opcode === 0x38 || opcode === 0x3a)) continue;
          // Opcodes of two bytes may be groups, by the middle of ModRM.
          for (const form of map.length === 1 ? FORMS : [0])
            for (const modRm of [0x07, 0xc1])
              out.push(Uint8Array.of(...prefix, ...rex, ...map, opcode, modRm | (form << 3), 1));
        }
  return out;
}

/** An instruction of VEX. */
export interface VexForm {
  readonly map: number;
  readonly prefix: number;
  readonly wide: number;
  readonly length: number;
  readonly opcode: number;
  readonly modRm: number;
  readonly sib?: number;
  /** 0 where it names no operand. */
  readonly vvvv: number;
  readonly immediate: number;
}

export const vexBytes = ({ map, prefix, wide, length, opcode, modRm, sib, vvvv, immediate }: VexForm): Uint8Array =>
  Uint8Array.of(
    0xc4, 0xe0 | map, (wide << 7) | ((~vvvv & 15) << 3) | (length << 2) | prefix, opcode, modRm,
    ...(sib === undefined ? [] : [sib]), immediate,
  ); // prettier-ignore

/** The same of VEX, with vvvv naming a register and not, and vectors as indices. */
export function vexForms(): VexForm[] {
  const out: VexForm[] = [];
  for (const map of [1, 2, 3])
    for (const prefix of [0, 1, 2, 3])
      for (const wide of [0, 1])
        for (const length of [0, 1])
          for (let opcode = 0; opcode < 256; opcode++) {
            const isGroup = (map === 1 && (opcode >> 2 === 0x1c || opcode === 0xae)) || (map === 2 && opcode === 0xf3);
            const isGather = map === 2 && opcode >> 2 === 0x24;
            const isBlend = map === 3 && opcode >= 0x4a && opcode <= 0x4c;
            for (const vvvv of [0, 2])
              for (const form of isGroup ? FORMS : [0])
                for (const modRm of [0x07, 0xc1]) {
                  const rest = { map, prefix, wide, length, opcode, vvvv, immediate: isBlend ? 0x30 : 1 };
                  if (!isGather) out.push({ ...rest, modRm: modRm | (form << 3) });
                  else if (modRm === 0x07) out.push({ ...rest, modRm: 0x04, sib: 0x1f });
                }
          }
  return out;
}

/** Texts of the encodings, one in each slot; null: none. */
function disassembled(folder: string, all: readonly Uint8Array[]): (string | null)[] {
  const bytes = new Uint8Array(all.length * SLOT).fill(0x90);
  all.forEach((each, i) => {
    bytes.set(slotOf(each), i * SLOT);
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

/** An encoding with zeros behind it, then instructions of one byte. */
export function slotOf(encoding: Uint8Array): Uint8Array {
  const out = new Uint8Array(SLOT).fill(0x90);
  out.set(encoding);
  return out.fill(0, encoding.length, 11);
}

/** Of texts those that the assembler takes for the level. */
function ofLevel(folder: string, level: readonly string[], texts: readonly string[]): Set<string> {
  const head = ['.arch generic64', ...level.map((name) => `.arch .${name}`)];
  writeFileSync(join(folder, 'x.s'), `${[...head, ...texts].join('\n')}\n`);
  const errors = spawnSync('as', ['x.s', '-o', 'x.o'], { cwd: folder, maxBuffer: 1 << 28 }).stderr.toString();
  const refused = new Set(
    [...errors.matchAll(/^x\.s:(\d+): Error/gm)].map(([, line]) => Number(line) - head.length - 1),
  );
  return new Set(texts.filter((_, i) => !refused.has(i)));
}

/** Texts of a level, each once, by their encodings. */
export function formsOf(folder: string, level: readonly string[], all: readonly Uint8Array[]): Map<string, Uint8Array> {
  const texts = disassembled(folder, all);
  const known = ofLevel(folder, level, [...new Set(texts.filter((each) => each !== null))]);
  const out = new Map<string, Uint8Array>();
  texts.forEach((text, i) => {
    if (text !== null && known.has(text) && !OTHERS.test(text) && !out.has(text)) out.set(text, all[i]!);
  });
  return out;
}
