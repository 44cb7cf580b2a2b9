/**
 * Text of machine code for people. One interface for all machines: x86-64 and arm64 print by the
 * Capstone engine, the others by their rows. The sole importer of capstone-wasm, and only
 * when text of those two is asked for.
 *
 * What the engine gets wrong, and what is done about it (capstone-wasm 1.0.3, Capstone 5.0):
 *
 * - its instruction addresses are signed, and numbers or bigints as it happens: addresses are
 *   counted here. The targets in the text are right in all 64 bits as long as the start address is
 *   passed as a bigint;
 * - a call with 64 KiB of one-byte instructions runs out of memory and leaves the engine unusable:
 *   windows of 1 KiB;
 * - bytes that are no instruction throw, or end the list early: they become `.byte` (x86-64) or
 *   `.inst` (arm64) lines;
 * - it opens a handle with every constructor call and never frees one: one handle per machine,
 *   kept;
 * - landing pads print as `hint #0x22`, and `notrack` jumps without their prefix: named here;
 * - it does not know `udf`, `msr ssbs` and a few more of arm64: the rows print those.
 */
import type { Capstone } from 'capstone-wasm';
import { ElftraceError, hex } from '../errors.js';
import type { Address } from '../units.js';
import type { Isa } from './instruction.js';

export type TextKind = Isa['text'];

/** One line of a listing. */
export interface DisassembledLine {
  readonly address: Address;
  readonly sizeBytes: number;
  /** A view of the input. */
  readonly bytes: Uint8Array;
  /** Lower case, one blank behind the mnemonic; targets of branches are absolute. */
  readonly text: string;
}

export interface Disassembler {
  /**
   * Lines of all of `code`, without gaps: what is no instruction becomes `.byte` or `.inst`.
   * `address` is the address of code[0]. `isa` is asked where the rows print, and on arm64 for
   * words that the engine does not know.
   */
  disassemble(code: Uint8Array, address: Address, isa: Isa): readonly DisassembledLine[];
}

/** Bytes given to the engine at once; far below what breaks it. */
const WINDOW_BYTES = 1024;

function dataText(bytes: Uint8Array): string {
  let text = '.byte';
  bytes.forEach((byte, i) => {
    text += `${i === 0 ? ' ' : ', '}0x${byte.toString(16).padStart(2, '0')}`;
  });
  return text;
}

const byRows: Disassembler = {
  disassemble(code, address, isa) {
    const lines: DisassembledLine[] = [];
    for (let at = 0; at < code.length;) {
      const here = BigInt.asUintN(64, address + BigInt(at));
      const instruction = isa.decode(code, at, here);
      const sizeBytes = Math.max(1, Math.min(instruction.sizeBytes, code.length - at));
      const bytes = code.subarray(at, at + sizeBytes);
      const text = instruction.mnemonic === 'unknown' ? dataText(bytes) : isa.format(instruction);
      lines.push({ address: here, sizeBytes, bytes, text });
      at += sizeBytes;
    }
    return lines;
  },
};

/** Corrects the engine's text of one instruction. */
type Correct = (text: string, address: Address, bytes: Uint8Array) => string;

/**
 * Hints that Capstone prints by number: branch target identification and its neighbours (Arm ARM,
 * C6.2, HINT).
 */
const HINTS: ReadonlyMap<string, string> = new Map([
  ['hint #0x11', 'psb csync'],
  ['hint #0x12', 'tsb csync'],
  ['hint #0x14', 'csdb'],
  ['hint #0x20', 'bti'],
  ['hint #0x22', 'bti c'],
  ['hint #0x24', 'bti j'],
  ['hint #0x26', 'bti jc'],
]);

const correctArm64: Correct = (text) => HINTS.get(text) ?? text;

/** An indirect call or jump (ff /2, ff /4) behind a 3e prefix: exempt from landing pads. */
function isNotrack(bytes: Uint8Array): boolean {
  if (bytes[0] !== 0x3e) return false;
  const opcode = (bytes[1]! & 0xf0) === 0x40 ? 2 : 1;
  const extension = (bytes[opcode + 1]! >> 3) & 7;
  return bytes[opcode] === 0xff && (extension === 2 || extension === 4);
}

/** Says where a rip-relative operand points, as objdump does behind a `#`. */
const correctX86: Correct = (plain, address, bytes) => {
  const text = isNotrack(bytes) && /^(call|jmp) (?!.*ds:)/.test(plain) ? `notrack ${plain}` : plain;
  const match = /\[rip(?: ([+-]) (0x[0-9a-f]+|\d+))?\]/.exec(text);
  if (!match) return text;
  const distance = BigInt(match[2] ?? 0) * (match[1] === '-' ? -1n : 1n);
  return `${text}  # ${hex(BigInt.asUintN(64, address + BigInt(bytes.length) + distance))}`;
};

function byEngine(handle: Capstone, unitBytes: 1 | 4, correct: Correct): Disassembler {
  /** Instructions at the start of `window`; none where its first bytes are no instruction. */
  const decode = (window: Uint8Array, address: Address): ReturnType<Capstone['disasm']> => {
    try {
      return handle.disasm(window, { address });
    } catch (cause) {
      // The engine reports "no instruction" as a failure with the error number OK.
      if (cause instanceof Error && cause.message.includes('CS_ERR_OK')) return [];
      throw new ElftraceError('internal', `the disassembler engine failed at ${hex(address)}`, { address }, { cause });
    }
  };
  const data = (bytes: Uint8Array): string =>
    bytes.length === 4 && unitBytes === 4
      ? `.inst 0x${[...bytes]
          .reverse()
          .map((byte) => byte.toString(16).padStart(2, '0'))
          .join('')}`
      : dataText(bytes);
  return {
    disassemble(code, address, isa) {
      const lines: DisassembledLine[] = [];
      let at = 0;
      while (at < code.length) {
        const start = BigInt.asUintN(64, address + BigInt(at));
        const found = decode(code.subarray(at, at + WINDOW_BYTES), start);
        for (const { size, mnemonic, opStr } of found) {
          const here = BigInt.asUintN(64, address + BigInt(at));
          const bytes = code.subarray(at, at + size);
          const text = correct(opStr === '' ? mnemonic.trim() : `${mnemonic} ${opStr}`, here, bytes);
          lines.push({ address: here, sizeBytes: size, bytes, text });
          at += size;
        }
        if (found.length > 0) continue;
        const sizeBytes = Math.min(unitBytes, code.length - at);
        const bytes = code.subarray(at, at + sizeBytes);
        const known = unitBytes === 4 && sizeBytes === 4 ? isa.decode(code, at, start) : null;
        const text = known === null || known.mnemonic === 'unknown' ? data(bytes) : isa.format(known);
        lines.push({ address: start, sizeBytes, bytes, text });
        at += sizeBytes;
      }
      return lines;
    },
  };
}

const loaded = new Map<TextKind, Promise<Disassembler>>();

async function loadEngine(kind: 'capstone-arm64' | 'capstone-x86-64'): Promise<Disassembler> {
  const { Capstone: Engine, Const, loadCapstone } = await import('capstone-wasm');
  await loadCapstone();
  return kind === 'capstone-arm64'
    ? byEngine(new Engine(Const.CS_ARCH_ARM64, Const.CS_MODE_LITTLE_ENDIAN), 4, correctArm64)
    : byEngine(new Engine(Const.CS_ARCH_X86, Const.CS_MODE_64), 1, correctX86);
}

/**
 * The disassembler for a machine's text (`arch.isa.text`). Loads the engine on first use, where one
 * is needed; everything after that is synchronous.
 */
export function loadDisassembler(kind: TextKind): Promise<Disassembler> {
  let promise = loaded.get(kind);
  if (promise === undefined) {
    promise = kind === 'rows' ? Promise.resolve(byRows) : loadEngine(kind);
    loaded.set(kind, promise);
  }
  return promise;
}
