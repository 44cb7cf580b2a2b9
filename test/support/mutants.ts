/**
 * Mutants of machine code (PV-5): each instruction made a nop, its register fields exchanged, its
 * immediate changed, exchanged with its neighbour. Made from the rows of the instruction tables,
 * for x86-64 from the parts that the decoder finds.
 */
import type { Isa } from '../../src/isa/instruction.js';
import { type Decoded, insertField, type IsaTable, type RowField } from '../../src/isa/table.js';
import type { Endian } from '../../src/units.js';
import { arm64Table, formatArm64 } from '../../src/arch-arm64/isa.js';
import { ppc32Table, ppc64Table } from '../../src/arch-ppc/isa.js';
import { riscvTable } from '../../src/arch-riscv/isa.js';
import { decodeInto, X86Instruction } from '../../src/arch-x86/isa.js';

export type MutantKind = 'nop' | 'registers' | 'immediate' | 'swap';

/** What can be broken in one instruction: its bytes afterwards, null where there is nothing. */
interface Breaker {
  nop(bytes: Uint8Array): Uint8Array;
  registers(bytes: Uint8Array): Uint8Array | null;
  immediate(bytes: Uint8Array): Uint8Array | null;
}

/** Words of a table: every field is known by its row. */
class TableBreaker implements Breaker {
  constructor(
    private readonly table: IsaTable,
    private readonly endian: Endian,
    private readonly nops: Readonly<Record<number, number>>,
  ) {}

  private word(bytes: Uint8Array): number {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    return bytes.length === 2
      ? view.getUint16(0, this.endian === 'little')
      : view.getUint32(0, this.endian === 'little');
  }

  private bytes(word: number, size: number): Uint8Array {
    const bytes = new Uint8Array(size);
    const view = new DataView(bytes.buffer);
    if (size === 2) view.setUint16(0, word, this.endian === 'little');
    else view.setUint32(0, word, this.endian === 'little');
    return bytes;
  }

  nop(bytes: Uint8Array): Uint8Array {
    return this.bytes(this.nops[bytes.length]!, bytes.length);
  }

  /** The word with other values of some fields; null where that is no instruction any more. */
  private changed(bytes: Uint8Array, { row }: Decoded, values: readonly (readonly [RowField, number])[]) {
    let word = this.word(bytes);
    for (const [field, value] of values) {
      const raw = value - field.bias;
      if (raw < field.min || raw > field.max || raw % field.step !== 0) return null;
      word = insertField(field, word, value, row.mnemonic) >>> 0;
    }
    const after = this.table.decode(word, bytes.length as 2 | 4);
    return after === null || after.row.attributes.decodeOnly === true ? null : this.bytes(word, bytes.length);
  }

  registers(bytes: Uint8Array): Uint8Array | null {
    const decoded = this.table.decode(this.word(bytes), bytes.length as 2 | 4);
    if (decoded === null) return null;
    const fields = decoded.row.fields.filter(({ spec }) => spec.kind === 'register');
    const { operands } = decoded;
    for (const [i, a] of fields.entries()) {
      for (const b of fields.slice(i + 1)) {
        if (operands[a.name] === operands[b.name]) continue;
        const made = this.changed(bytes, decoded, [
          [a, operands[b.name]!],
          [b, operands[a.name]!],
        ]);
        if (made !== null) return made;
      }
    }
    // With one register, or twice the same, there is nothing to exchange: it becomes its neighbour.
    for (const field of fields) {
      const made = this.changed(bytes, decoded, [[field, operands[field.name]! ^ 1]]);
      if (made !== null) return made;
    }
    return null;
  }

  immediate(bytes: Uint8Array): Uint8Array | null {
    const decoded = this.table.decode(this.word(bytes), bytes.length as 2 | 4);
    if (decoded === null) return null;
    const fields = decoded.row.fields.filter(({ spec }) => spec.kind !== 'register' && spec.kind !== 'suffix');
    fields.sort((a, b) => b.widthBits - a.widthBits);
    for (const field of fields) {
      for (const step of [field.step, -field.step]) {
        const made = this.changed(bytes, decoded, [[field, decoded.operands[field.name]! + step]]);
        if (made !== null) return made;
      }
    }
    return null;
  }
}

/** x86-64: fields are where the decoder found them. */
class X86Breaker implements Breaker {
  private readonly parts = new X86Instruction();

  nop(bytes: Uint8Array): Uint8Array {
    return new Uint8Array(bytes.length).fill(0x90);
  }

  /** Bytes that are one instruction of the same size again. */
  private whole(bytes: Uint8Array): Uint8Array | null {
    return decodeInto(this.parts, bytes, 0) === bytes.length ? bytes : null;
  }

  registers(bytes: Uint8Array): Uint8Array | null {
    const { parts } = this;
    if (decodeInto(parts, bytes, 0) === 0 || parts.row === null) return null;
    const out = bytes.slice();
    const { modRmOffset, modRm, hasRex, opcodeOffset } = parts;
    const isGeneral = parts.row.operands.some((each) => /^[Gg]/.test(each));
    if (modRmOffset < 0) {
      // push, pop, mov and xchg with the register in the opcode.
      const low = bytes[opcodeOffset]!;
      if (!((low >= 0x50 && low < 0x60) || (low > 0x90 && low < 0x98) || (low >= 0xb0 && low < 0xc0))) return null;
      out[opcodeOffset] = low ^ 1;
      return this.whole(out);
    }
    const [mod, reg, rm] = [modRm >> 6, (modRm >> 3) & 7, modRm & 7];
    const rexAt = opcodeOffset - (parts.map === 0 ? 1 : 2);
    const isPlain = mod === 3 || (rm !== 4 && !(mod === 0 && rm === 5) && reg !== 4 && !(mod === 0 && reg === 5));
    if (isGeneral && isPlain && (reg !== rm || (hasRex && ((parts.rex >> 2) & 1) !== (parts.rex & 1)))) {
      out[modRmOffset] = (mod << 6) | (rm << 3) | reg;
      if (hasRex) out[rexAt] = (bytes[rexAt]! & 0xfa) | ((parts.rex & 4) >> 2) | ((parts.rex & 1) << 2);
      const made = this.whole(out);
      if (made !== null) return made;
    }
    const again = bytes.slice();
    again[modRmOffset] = isGeneral ? modRm ^ 8 : mod === 3 ? modRm ^ 1 : modRm;
    return again[modRmOffset] === modRm ? null : this.whole(again);
  }

  immediate(bytes: Uint8Array): Uint8Array | null {
    const { parts } = this;
    if (decodeInto(parts, bytes, 0) === 0 || parts.row === null) return null;
    const at =
      parts.immOffset >= 0 && parts.immBytes > 0 ? parts.immOffset : parts.dispBytes > 0 ? parts.dispOffset : -1;
    if (at < 0) return null;
    const out = bytes.slice();
    out[at] = (out[at]! + 1) & 0xff;
    return this.whole(out);
  }
}

const ppcNops = { 4: 0x6000_0000 };

/** By target. */
const breakers: Readonly<Record<string, Breaker>> = {
  'x86-64': new X86Breaker(),
  arm64: new TableBreaker(arm64Table, 'little', { 4: 0xd503_201f }),
  riscv64: new TableBreaker(riscvTable, 'little', { 2: 1, 4: 0x13 }),
  ppc32: new TableBreaker(ppc32Table, 'big', ppcNops),
  'ppc64-elfv1': new TableBreaker(ppc64Table, 'big', ppcNops),
  'ppc64-elfv2-be': new TableBreaker(ppc64Table, 'big', ppcNops),
  'ppc64-elfv2-le': new TableBreaker(ppc64Table, 'little', ppcNops),
};

export interface Mutant {
  readonly kind: MutantKind;
  /** Bytes from the instruction on, of one instruction or of two. */
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

const isEqual = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

/**
 * Mutants of an instruction.
 * @param code  from the instruction on, at least its neighbour long
 */
export function mutantsOf(target: string, isa: Isa, code: Uint8Array): readonly Mutant[] {
  const breaker = breakers[target]!;
  const { sizeBytes: size, mnemonic } = isa.decode(code, 0, 0n);
  if (mnemonic === 'unknown' || size > code.length) return [];
  // Plain arrays: `slice` of a Buffer would share its memory.
  const firstBytes = (count: number): Uint8Array => Uint8Array.from(code.subarray(0, count));
  const own = firstBytes(size);
  const made: Mutant[] = [];
  const add = (kind: MutantKind, before: Uint8Array, after: Uint8Array | null): void => {
    if (after !== null && !isEqual(before, after)) made.push({ kind, before, after });
  };
  add('nop', own, breaker.nop(own));
  add('registers', own, breaker.registers(own));
  add('immediate', own, breaker.immediate(own));
  const next = isa.decode(code, size, 0n);
  if (next.mnemonic !== 'unknown' && size + next.sizeBytes <= code.length) {
    const two = firstBytes(size + next.sizeBytes);
    const swapped = new Uint8Array(two.length);
    swapped.set(two.subarray(size), 0);
    swapped.set(own, next.sizeBytes);
    add('swap', two, swapped);
  }
  return made;
}

/** Text of instructions, as arguments name them; of x86-64 the mnemonics alone. */
export function textOf(target: string, isa: Isa, code: Uint8Array): string {
  const texts: string[] = [];
  for (let at = 0; at < code.length;) {
    const instruction = isa.decode(code, at, BigInt(at));
    const view = new DataView(code.buffer, code.byteOffset + at, code.length - at);
    const row = target === 'arm64' ? arm64Table.decode(view.getUint32(0, true)) : null;
    texts.push(row === null ? isa.format(instruction) : formatArm64(row.row, row.operands, BigInt(at)));
    at += instruction.sizeBytes;
  }
  return texts.join('; ');
}
