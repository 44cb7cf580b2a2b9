/**
 * Other decoders for the tests of the x86-64 one: @alexaltea/capstone-js (Capstone 5.0.9),
 * capstone-wasm and GNU objdump, and a seeded source of byte strings that reach every encoding
 * family.
 */
import { spawnSync } from './spawn.js';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** What an oracle says of the bytes at the start of a slot; size 0: no instruction. */
export interface Verdict {
  readonly size: number;
  readonly mnemonic: string;
}

/**
 * Bytes per slot: a random string of 16, then nops, so that every decoder is in step again at the
 * next slot.
 */
export const SLOT_BYTES = 32;
const RANDOM_BYTES = 16;

const PREFIXES = [0x66, 0x67, 0xf2, 0xf3, 0xf0, 0x2e, 0x3e, 0x64, 0x40, 0x41, 0x48, 0x4f];

/** Deterministic 32-bit numbers. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    let x = state;
    x ^= x >>> 15;
    x = Math.imul(x, 0x2c1b3c6d);
    x ^= x >>> 12;
    return x >>> 0;
  };
}

/** `count` slots of random code with structured beginnings: prefixes, escapes, VEX, EVEX, XOP. */
export function randomSlots(count: number, seed: number): Uint8Array {
  const next = generator(seed);
  const slots = new Uint8Array(count * SLOT_BYTES).fill(0x90);
  for (let i = 0; i < count; i++) {
    const b = i * SLOT_BYTES;
    for (let j = 0; j < RANDOM_BYTES; j++) slots[b + j] = next() >>> 5;
    const family = next() % 7;
    let k = b;
    if (family < 4) {
      for (let left = [0, 0, 0, 1, 1, 2, 3][next() % 7]!; left > 0; left--)
        slots[k++] = PREFIXES[next() % PREFIXES.length]!;
      if (family === 1) slots[k] = 0x0f;
      if (family === 2) {
        slots[k++] = 0x0f;
        slots[k] = next() % 2 === 0 ? 0x38 : 0x3a;
      }
    } else if (family === 4) {
      // vvvv is 1111 in half of them, as instructions of two operands need it.
      if (next() % 2 === 0) {
        slots[b] = 0xc5;
        slots[b + 1]! |= next() % 2 === 0 ? 0x78 : 0x40;
      } else {
        slots[b] = 0xc4;
        slots[b + 1] = (slots[b + 1]! & 0xe0) | (1 + (next() % 3));
        if (next() % 2 === 0) slots[b + 2]! |= 0x78;
      }
    } else if (family === 5) {
      slots[b] = 0x62;
      slots[b + 1] = (slots[b + 1]! & 0xf0) | [1, 2, 3, 5, 6, 1, 2, 3][next() % 8]!;
      slots[b + 2]! |= 4;
      if (next() % 2 === 0) {
        slots[b + 2]! |= 0x78;
        slots[b + 3]! |= 8;
      }
    } else {
      slots[b] = 0x8f;
      slots[b + 1] = (slots[b + 1]! & 0xe0) | (8 + (next() % 3));
      slots[b + 2]! &= 0xfc;
      if (next() % 2 === 0) slots[b + 2]! |= 0x78;
    }
  }
  return slots;
}

interface CapstoneJsInstruction {
  readonly size: number;
  readonly mnemonic: string;
}
interface CapstoneJs {
  readonly ARCH_X86: number;
  readonly MODE_64: number;
  readonly Capstone: new (
    arch: number,
    mode: number,
  ) => {
    disasm(code: Uint8Array, address: number, count: number): readonly CapstoneJsInstruction[];
  };
}

const NONE: Verdict = { size: 0, mnemonic: '' };

/** Capstone 5.0.9: a function from bytes to its verdict. */
export async function capstone5(): Promise<(code: Uint8Array) => Verdict> {
  // The package has no types and no ESM entry: the one place where it is named.
  const factory = createRequire(import.meta.url)('@alexaltea/capstone-js') as () => Promise<CapstoneJs>;
  const capstone = await factory();
  const handle = new capstone.Capstone(capstone.ARCH_X86, capstone.MODE_64);
  return (code) => {
    try {
      return handle.disasm(code, 0x1000, 1)[0] ?? NONE;
    } catch {
      // It throws where nothing could be decoded.
      return NONE;
    }
  };
}

interface CapstoneWasm {
  readonly Const: { readonly CS_ARCH_X86: number; readonly CS_MODE_64: number };
  readonly loadCapstone: () => Promise<void>;
  readonly Capstone: new (
    arch: number,
    mode: number,
  ) => {
    disasm(code: Uint8Array, options: { address: number; count: number }): readonly CapstoneJsInstruction[];
  };
}

/** capstone-wasm, the engine that prints x86-64 for people. */
export async function capstoneWasm(): Promise<(code: Uint8Array) => Verdict> {
  const module = createRequire(import.meta.url)('capstone-wasm') as CapstoneWasm;
  await module.loadCapstone();
  const handle = new module.Capstone(module.Const.CS_ARCH_X86, module.Const.CS_MODE_64);
  return (code) => {
    try {
      return handle.disasm(code, { address: 0x1000, count: 1 })[0] ?? NONE;
    } catch {
      return NONE;
    }
  };
}

const PREFIX_TEXT =
  /^(?:(?:rex\S*|rep|repz|repnz|lock|bnd|notrack|data16|addr32|cs|ds|es|ss|fs|gs|xacquire|xrelease|\{\w+\})(?:\s+|$))+/;

/**
 * objdump's text without prefixes and operands; '' when it is prefixes only, which then belong to
 * the next line.
 */
export function objdumpMnemonic(text: string): string {
  return text.replace(PREFIX_TEXT, '').split(/[\s(]/)[0]!;
}

/** Output of objdump; without jest, so that scripts may use it too. */
export function runObjdump(args: readonly string[]): Buffer {
  const result = spawnSync('objdump', [...args], { maxBuffer: 1 << 30 });
  if (result.error) throw result.error;
  return result.stdout;
}

/** GNU objdump on all slots at once; one verdict a slot. */
export function objdumpSlots(slots: Uint8Array): Verdict[] {
  const folder = mkdtempSync(join(tmpdir(), 'x86-slots-'));
  try {
    const file = join(folder, 'slots');
    writeFileSync(file, slots);
    const text = runObjdump(['-D', '-b', 'binary', '-m', 'i386:x86-64', '-M', 'intel', '-w', file]).toString('latin1');
    const verdicts: Verdict[] = Array.from({ length: slots.length / SLOT_BYTES }, () => NONE);
    // A run of prefixes that belongs to no instruction stands on a line of its own.
    let pending = -1;
    for (const line of text.split('\n')) {
      const match = /^\s*([0-9a-f]+):\t([0-9a-f ]+?)\s*(?:\t(.*))?$/.exec(line);
      if (!match) continue;
      const address = Number.parseInt(match[1]!, 16);
      const slot = Math.floor(address / SLOT_BYTES);
      const starts = address % SLOT_BYTES === 0;
      if (!starts && slot !== pending) continue;
      const size = match[2]!.trim().split(' ').length + (starts ? 0 : verdicts[slot]!.size);
      const operation = match[3] ?? '';
      const mnemonic = objdumpMnemonic(operation);
      const bad = operation.includes('(bad)');
      verdicts[slot] = bad ? NONE : { size, mnemonic };
      pending = mnemonic === '' && !bad ? slot : -1;
    }
    return verdicts;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Opcodes of 0F for which the manual gives "NP" or a fixed prefix, so that another one is #UD. */
const FIXED_PREFIX_0F = (opcode: number): boolean =>
  [0x01, 0x78, 0x79, 0xae, 0xc3, 0xc7].includes(opcode) ||
  (opcode >= 0x60 && opcode <= 0x7f) ||
  (opcode >= 0xd0 && opcode <= 0xfe);
const FIXED_PREFIX_0F38 = [0xc8, 0xc9, 0xca, 0xcb, 0xcc, 0xcd, 0xf6, 0xf8, 0xf9];

/**
 * Why we differ from both Capstone and objdump; null: no reason, which fails the test. `size` is
 * ours. The main ones (lock, prefixes before VEX, repeated REX, 66 on near branches, opcodes that
 * take no prefix, fences, bsf and bsr with f2, prefetches and MPX as nops) were confirmed by
 * executing an example on an Intel Xeon: #UD where we say 0, the size where we do not. Those of
 * reserved EVEX fields, AMX tiles and vmread/vmwrite follow the manual alone.
 */
export function reasonAgainstBoth(code: Uint8Array, size: number): string | null {
  let k = 0;
  let lock = false;
  let selecting = false;
  let rex = false;
  let repeatedRex = false;
  for (; ; k++) {
    const byte = code[k]!;
    if (byte === 0xf0) lock = true;
    else if (byte === 0x66 || byte === 0xf2 || byte === 0xf3) selecting = true;
    else if ((byte & 0xf0) === 0x40) {
      repeatedRex ||= rex;
      rex = true;
    } else if (![0x67, 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65].includes(byte)) break;
  }
  // Both lose the prefix in front of the first REX then.
  if (repeatedRex && selecting) return 'of several REX the last one counts, the others are ignored';
  const opcode = code[k]!;
  const second = code[k + 1]!;
  const third = code[k + 2]!;
  if (size === 0) {
    if (lock) return 'LOCK is for read-modify-write instructions with a memory destination only';
    if (opcode === 0x8e && (second & 0x38) === 8) return 'mov to cs does not exist';
    if ((selecting || rex) && [0xc4, 0xc5, 0x62].includes(opcode)) return 'no 66, f2, f3, REX before VEX and EVEX';
    if (selecting && opcode === 0x0f) {
      if (FIXED_PREFIX_0F(second)) return 'the manual allows no such prefix';
      if (second === 0x38 && FIXED_PREFIX_0F38.includes(third)) return 'the manual allows no such prefix';
      if (second === 0x3a && third === 0xcc) return 'the manual allows no such prefix';
    }
    return null;
  }
  // Fields of EVEX that mean nothing for the instruction are not checked: they do not change the
  // length.
  if (opcode === 0x62) return 'reserved combination of EVEX fields';
  if (opcode === 0xc4 && code[k + 3] === 0x5e) return 'AMX operands must be three different tiles';
  if (opcode === 0x0f) {
    if (second === 0x1a || second === 0x1b) return 'MPX: a nop on processors without it';
    if (second === 0x0d && third >= 0xc0) return 'prefetch of a register: a nop';
    if (second === 0xae && third >= 0xe8) return 'fences ignore the r/m field';
    if (second === 0xbc || second === 0xbd) return 'bsf and bsr ignore f2';
    if (selecting && (second & 0xf0) === 0x80) return 'Intel processors ignore 66 on near branches';
  }
  return null;
}

/**
 * Outcome of a comparison; `unexplained` has those that both oracles contradict without a known
 * reason.
 */
export interface Tally {
  compared: number;
  againstBoth: number;
  capstoneAlone: number;
  objdumpAlone: number;
  unexplained: string[];
}

/** Sizes by `decode` (0: no instruction) against both oracles, slot by slot. */
export function compareSizes(
  slots: Uint8Array,
  capstone: (code: Uint8Array) => Verdict,
  objdump: readonly Verdict[],
  decode: (code: Uint8Array) => number,
): Tally {
  const tally: Tally = { compared: 0, againstBoth: 0, capstoneAlone: 0, objdumpAlone: 0, unexplained: [] };
  objdump.forEach((other, i) => {
    const code = slots.subarray(i * SLOT_BYTES, (i + 1) * SLOT_BYTES);
    const ours = decode(code);
    const verdict = capstone(code.subarray(0, 24));
    tally.compared++;
    if (ours === verdict.size && ours === other.size) return;
    if (ours === verdict.size) tally.objdumpAlone++;
    else if (ours === other.size) tally.capstoneAlone++;
    else {
      tally.againstBoth++;
      if (reasonAgainstBoth(code, ours) === null) {
        const shown = Buffer.from(code.subarray(0, 16)).toString('hex');
        tally.unexplained.push(`${shown}: ours ${ours}, ${verdict.size} ${verdict.mnemonic}, ${other.size}`);
      }
    }
  });
  return tally;
}
