/**
 * Code islands between a RISC-V call and its target. Linkers make few: the auipc/jalr pair reaches
 * 2 GiB, so there are no range veneers, only PLT entries; module loaders add thunks through a table
 * of addresses.
 *
 * A slot says where a call leads only when something filled it: at rest the slot of a lazily bound
 * function leads back to the head of the PLT, and a slot that the dynamic linker fills is 0. Both
 * read as null.
 */
import type { BranchCodec, Branches } from '../machine/branches.js';
import type { AddressReader, StubForm } from '../machine/stubs.js';
import { reaches } from '../bits.js';
import { ByteView, concatBytes, wordBytes } from '../bytes.js';
import { outOfRange } from '../errors.js';
import { stubForm } from '../isa/stub-form.js';
import type { Address } from '../units.js';
import { RA, riscvTable, T0, T1, T3, ZERO } from './isa.js';
import { decodePair, encodePair, pairReach } from './sites.js';

export const NOP = riscvTable.encode('addi', { rd: ZERO, rs1: ZERO, imm: 0 });
const T2 = 7;

const auipc = (rd: number): number => riscvTable.encode('auipc', { rd, upper: 0 });
const ld = (rd: number, rs1: number): number => riscvTable.encode('ld', { rd, rs1, imm: 0 });
const jalr = (rd: number, rs1: number): number => riscvTable.encode('jalr', { rd, rs1, imm: 0 });

const UPPER_MASK = 0x0000_0fff;
const LOWER_MASK = 0x000f_ffff;
const AUIPC_T0 = auipc(T0);
const AUIPC_T1 = auipc(T1);
const AUIPC_T2 = auipc(T2);
const AUIPC_T3 = auipc(T3);
const LD_T3_T3 = ld(T3, T3);
const LD_T1_T0 = ld(T1, T0);
const LD_T1_T1 = ld(T1, T1);
const JALR_T1_T3 = jalr(T1, T3);
const JR_T1 = jalr(ZERO, T1);
/** Second word of a PLT's head: t1 becomes the distance of the entry. */
const SUB_T1_T1_T3 = riscvTable.encode('sub', { rd: T1, rs1: T1, rs2: T3 });

/** Address that `auipc` here and a 12-bit rest in the next word name. */
function pairTarget(code: AddressReader, address: Address): Address {
  return BigInt.asUintN(64, address + decodePair(code.u32(address), code.u32(address + 4n)));
}

function filledSlot(code: AddressReader, slot: Address): Address | null {
  const target = code.u64(slot);
  if (target === null || target === 0n) return null;
  const lazy = (code.u32(target) & UPPER_MASK) >>> 0 === AUIPC_T2 && code.u32(target + 4n) === SUB_T1_T1_T3;
  return lazy ? null : target;
}

/**
 * Linker's PLT entry; t3 carries the target, t1 the entry's end for lazy binding.
 *
 *     auipc t3, %pcrel_hi(slot)
 *     ld    t3, %pcrel_lo(slot)(t3)
 *     jalr  t1, t3
 *     nop
 *
 * Source: psABI 1.0, 8.5 (program linkage table).
 */
const plt: StubForm = stubForm(
  'riscv64.plt',
  (code: AddressReader, address: Address) => {
    if ((code.u32(address) & UPPER_MASK) >>> 0 !== AUIPC_T3) return null;
    if ((code.u32(address + 4n) & LOWER_MASK) >>> 0 !== LD_T3_T3) return null;
    if (code.u32(address + 8n) !== JALR_T1_T3 || code.u32(address + 12n) !== NOP) return null;
    return filledSlot(code, pairTarget(code, address));
  },
  (code, address) => ({ sizeBytes: 16, slot: pairTarget(code, address) }),
);

/**
 * Module loader's PLT entry; t1 carries the target out of a table of addresses.
 *
 *     auipc t0, %pcrel_hi(slot)
 *     ld    t1, %pcrel_lo(slot)(t0)
 *     jr    t1
 */
const modulePlt: StubForm = stubForm(
  'riscv64.plt-module',
  (code: AddressReader, address: Address) => {
    if ((code.u32(address) & UPPER_MASK) >>> 0 !== AUIPC_T0) return null;
    if ((code.u32(address + 4n) & LOWER_MASK) >>> 0 !== LD_T1_T0) return null;
    if (code.u32(address + 8n) !== JR_T1) return null;
    return filledSlot(code, pairTarget(code, address));
  },
  (code, address) => ({ sizeBytes: 12, slot: pairTarget(code, address) }),
);

/**
 * Tail call or thunk within 2 GiB; t1 is the scratch register.
 *
 *     auipc t1, %pcrel_hi(target)
 *     jalr  zero, %pcrel_lo(target)(t1)
 */
const thunk: StubForm = stubForm(
  'riscv64.thunk',
  (code: AddressReader, address: Address) => {
    if ((code.u32(address) & UPPER_MASK) >>> 0 !== AUIPC_T1) return null;
    if ((code.u32(address + 4n) & LOWER_MASK) >>> 0 !== JR_T1) return null;
    return pairTarget(code, address);
  },
  () => ({ sizeBytes: 8 }),
);

/**
 * Anywhere in the address space; t1 carries the target. The literal wants the stub's start at 4
 * modulo 8.
 *
 *     auipc t1, 0
 *     ld    t1, 12(t1)
 *     jr    t1
 *     .quad target
 */
const farLiteral: StubForm = stubForm(
  'riscv64.far-literal',
  (code: AddressReader, address: Address) => {
    if (code.u32(address) !== AUIPC_T1) return null;
    const load = code.u32(address + 4n);
    if ((load & LOWER_MASK) >>> 0 !== LD_T1_T1 || code.u32(address + 8n) !== JR_T1) return null;
    return code.u64(address + BigInt(load >> 20));
  },
  (code, address) => {
    const literal = code.u32(address + 4n) >> 20;
    return { sizeBytes: literal + 8, slot: address + BigInt(literal) };
  },
);

export const riscvStubForms: readonly StubForm[] = [plt, modulePlt, thunk, farLiteral];

/**
 * Words of `riscv64.thunk` from `address` to `target`.
 * @throws ElftraceError 'branch-out-of-range'
 */
export function writeThunk(address: Address, target: Address): readonly [number, number] {
  const [first, second] = encodePair(T1, target - address);
  // The pair links nowhere: rd of the jalr is the zero register.
  return [first, riscvTable.encode('jalr', { rd: ZERO, rs1: T1, imm: second >> 20 })];
}

/**
 * The three words of `riscv64.far-literal`; the target is an 8-byte datum `literal` bytes from
 * their first.
 */
export function writeFarLiteral(literal = 12): readonly [number, number, number] {
  return [AUIPC_T1, riscvTable.encode('ld', { rd: T1, rs1: T1, imm: literal }), JR_T1];
}

/** Words of `riscv64.plt-module` at `address` for the slot at `slot`. */
export function writeModulePlt(address: Address, slot: Address): readonly [number, number, number] {
  const [first, second] = encodePair(T0, slot - address);
  return [first, riscvTable.encode('ld', { rd: T1, rs1: T0, imm: second >> 20 }), JR_T1];
}

const jalReach = riscvTable.reach('jal');
const AUIPC_RA = auipc(RA);
const JALR_RA = jalr(RA, RA);

/** R-MOD-4: the patched calls inside entries are pairs through ra. */
const call: BranchCodec = {
  sizeBytes: 8,
  reach: pairReach,
  encode(from, to) {
    const [first, second] = encodePair(RA, to - from);
    return concatBytes([wordBytes(first, 'little'), wordBytes(second, 'little')]);
  },
  target(bytes, from) {
    if (bytes.length < 8) return null;
    const view = new ByteView(bytes, 'little');
    const [first, second] = [view.u32(0), view.u32(4)];
    if ((first & UPPER_MASK) >>> 0 !== AUIPC_RA || (second & LOWER_MASK) >>> 0 !== JALR_RA) return null;
    return BigInt.asUintN(64, from + decodePair(first, second));
  },
};

/** R-MOD-5: the same for the graph tracer, with two nops in its place while it is off. */
const graph: BranchCodec = {
  ...call,
  encode(from, to) {
    const nop = wordBytes(NOP, 'little');
    return to === from + 8n ? concatBytes([nop, nop]) : call.encode(from, to);
  },
  target(bytes, from) {
    if (bytes.length < 8) return null;
    const view = new ByteView(bytes, 'little');
    return view.u32(0) === NOP && view.u32(4) === NOP ? from + 8n : call.target(bytes, from);
  },
};

export const riscvBranches: Branches = {
  call,
  graph,
  reaches: [
    { name: 'auipc and jalr, 32 bits', reach: pairReach },
    { name: 'jal, 20 bits', reach: jalReach },
  ],
  jump: {
    sizeBytes: 4,
    reach: jalReach,
    encode(from, to) {
      const { min, max } = jalReach;
      if (!reaches(jalReach, from, to)) {
        throw outOfRange('branch-out-of-range', 'jal', to - from, min, max, { address: from });
      }
      return wordBytes(riscvTable.encode('jal', { rd: ZERO, off: Number(to - from) }), 'little');
    },
    target(bytes, from) {
      if (bytes.length < 4) return null;
      const decoded = riscvTable.decode(new ByteView(bytes, 'little').u32(0));
      if (decoded?.row.mnemonic !== 'jal' || decoded.operands['rd'] !== ZERO) return null;
      return BigInt.asUintN(64, from + BigInt(decoded.operands['off'] ?? 0));
    },
  },
};
