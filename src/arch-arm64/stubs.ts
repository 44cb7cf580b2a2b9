/**
 * arm64 branch islands: how linkers and the kernel's module loader reach a target beyond the +-128
 * MiB of a bl, and the entries of a procedure linkage table. Owns recognising them and writing the
 * module form; decides no placement.
 *
 * x16 (IP0) and x17 (IP1) are the only registers an island may change (AAPCS64, 6.1.1), so it can
 * stand between any bl and its target. With branch target identification an island that is entered
 * by `br` starts with `bti c`; readers here skip it.
 *
 * One sequence has three makers: `adrp x16; add x16, x16, #lo12; br x16` is the veneer of GNU ld,
 * the position independent thunk of lld and the PLT entry that the kernel's module loader writes
 * (A-PLT-3). By their bytes they cannot be told apart, and their reading is the same, so they are
 * one form.
 */
import type { BranchCodec, Branches } from '../machine/branches.js';
import type { AddressReader, StubForm } from '../machine/stubs.js';
import { stubForm, type StubExtent } from '../isa/stub-form.js';
import type { Address } from '../units.js';
import { ByteView, concatBytes, wordBytes } from '../bytes.js';
import { arm64Table, BRANCH_REACH, branchTarget, encodeAdrp, encodeB, encodeBl, isBti, PAGE_REACH } from './isa.js';

const IP0 = 16;
const IP1 = 17;

const BR_X16 = arm64Table.encode('br', { xn: IP0 });
const BR_X17 = arm64Table.encode('br', { xn: IP1 });
/** adr x17, . (the island's own place) and add x16, x16, x17: the middle of GNU ld's far veneer. */
const ADR_X17_HERE = arm64Table.encode('adr', { xd: IP1, off: 0 });
const ADD_X16_X16_X17 = arm64Table.encode('add-reg', { sf: 1, shift: 0, rm: IP1, amount: 0, rn: IP0, rd: IP0 });

const address64 = (value: bigint): Address => BigInt.asUintN(64, value);

/** Place of the first instruction behind an optional landing pad. */
function body(code: AddressReader, address: Address): Address {
  const word = code.u32(address);
  return word >= 0 && isBti(word) ? address + 4n : address;
}

/** Page that `adrp x16, …` at `place` gives, or null for another instruction. */
function adrpX16(code: AddressReader, place: Address): Address | null {
  const decoded = arm64Table.decode(code.u32(place) >>> 0);
  if (decoded?.row.mnemonic !== 'adrp' || decoded.operands['xd'] !== IP0) return null;
  return address64((place & ~0xfffn) + BigInt(decoded.operands['pages']!) * 4096n);
}

/** Immediate of `add x16, x16, #imm`, or -1 for another instruction. */
function addX16(word: number): number {
  const decoded = word < 0 ? null : arm64Table.decode(word);
  if (decoded?.row.mnemonic !== 'add-imm') return -1;
  const { sf, sh, imm12, rnsp, rdsp } = decoded.operands;
  return sf === 1 && sh === 0 && rnsp === IP0 && rdsp === IP0 ? imm12! : -1;
}

/** Bytes of an island whose body has `bytes`, landing pad included. */
function sizeFrom(code: AddressReader, address: Address, bytes: number): number {
  return Number(body(code, address) - address) + bytes;
}

/**
 * An island of `bytes` of code that loads x16 from a literal; the literal is its own where it
 * stands right behind.
 */
function literalExtent(code: AddressReader, address: Address, bytes: number): StubExtent {
  const at = body(code, address);
  const load = arm64Table.decode(code.u32(at) >>> 0);
  const slot = at + BigInt(load?.operands['off'] ?? 0);
  const own = slot === at + BigInt(bytes) ? 8 : 0;
  return { sizeBytes: sizeFrom(code, address, bytes + own), slot };
}

/**
 * GNU ld `__NAME_veneer`, lld `__AArch64ADRPThunk_NAME`, module PLT entry; reach +-4 GiB:
 *
 *   adrp x16, target
 *   add  x16, x16, #:lo12:target
 *   br   x16
 */
const veneer: StubForm = stubForm(
  'arm64.veneer',
  (code: AddressReader, address: Address) => {
    const at = body(code, address);
    if (code.u32(at + 8n) !== BR_X16) return null;
    const page = adrpX16(code, at);
    const low = addX16(code.u32(at + 4n));
    return page === null || low < 0 ? null : address64(page + BigInt(low));
  },
  (code, address) => ({ sizeBytes: sizeFrom(code, address, 12) }),
);

/**
 * lld `__AArch64AbsLongThunk_NAME`, and hand-written far jumps. The literal is data inside the
 * text, in lld's thunk only 4-aligned:
 *
 *   ldr  x16, .+8          (or any literal in reach)
 *   br   x16
 *   .xword target
 */
const absoluteThunk: StubForm = stubForm(
  'arm64.absolute-thunk',
  (code: AddressReader, address: Address) => {
    const at = body(code, address);
    if (code.u32(at + 4n) !== BR_X16) return null;
    const decoded = arm64Table.decode(code.u32(at) >>> 0);
    if (decoded?.row.mnemonic !== 'ldr-x-lit' || decoded.operands['xt'] !== IP0) return null;
    return code.u64(at + BigInt(decoded.operands['off']!));
  },
  (code, address) => literalExtent(code, address, 8),
);

/**
 * GNU ld's veneer for more than 4 GiB; the literal is relative to the adr:
 *
 *   ldr  x16, .+16
 *   adr  x17, .
 *   add  x16, x16, x17
 *   br   x16
 *   .xword target - (address of the adr)
 */
const farVeneer: StubForm = stubForm(
  'arm64.far-veneer',
  (code: AddressReader, address: Address) => {
    const at = body(code, address);
    if (code.u32(at + 4n) !== ADR_X17_HERE || code.u32(at + 8n) !== ADD_X16_X16_X17) return null;
    if (code.u32(at + 12n) !== BR_X16) return null;
    const decoded = arm64Table.decode(code.u32(at) >>> 0);
    if (decoded?.row.mnemonic !== 'ldr-x-lit' || decoded.operands['xt'] !== IP0) return null;
    const relative = code.u64(at + BigInt(decoded.operands['off']!));
    return relative === null ? null : address64(at + 4n + relative);
  },
  (code, address) => literalExtent(code, address, 16),
);

/**
 * Entry of a procedure linkage table. The target is only known at run time, so this gives the
 * address of the GOT slot: the place that the JUMP_SLOT (or IRELATIVE) relocation of the function
 * names.
 *
 *   adrp x16, slot
 *   ldr  x17, [x16, #:lo12:slot]
 *   add  x16, x16, #:lo12:slot
 *   br   x17
 */
const plt: StubForm = stubForm(
  'arm64.plt',
  (code: AddressReader, address: Address) => {
    const at = body(code, address);
    if (code.u32(at + 12n) !== BR_X17) return null;
    const page = adrpX16(code, at);
    const low = addX16(code.u32(at + 8n));
    if (page === null || low < 0) return null;
    const load = arm64Table.decode(code.u32(at + 4n) >>> 0);
    if (load?.row.mnemonic !== 'ldr-x-imm') return null;
    const { xt, base, pimm } = load.operands;
    return xt === IP1 && base === IP0 && pimm === low ? address64(page + BigInt(low)) : null;
  },
  (code, address) => {
    const at = body(code, address);
    return {
      sizeBytes: sizeFrom(code, address, 16),
      slot: address64((adrpX16(code, at) ?? 0n) + BigInt(addX16(code.u32(at + 8n)))),
    };
  },
);

export const arm64StubForms: readonly StubForm[] = [veneer, absoluteThunk, farVeneer, plt];

/** Bytes of one module PLT entry. */
export const MODULE_PLT_BYTES = 12;

/**
 * The module loader's PLT entry at `place`: adrp x16; add x16; br x16 (A-PLT-3). Throws
 * 'branch-out-of-range' when the page is more than 4 GiB away. The caller keeps it off the last two
 * words of a page (A-PLT-4).
 */
export function encodeModulePlt(place: Address, target: Address): Uint8Array {
  const add = arm64Table.encode('add-imm', { sf: 1, sh: 0, imm12: Number(target & 0xfffn), rnsp: IP0, rdsp: IP0 });
  return concatBytes([
    wordBytes(encodeAdrp(place, target, IP0), 'little'),
    wordBytes(add, 'little'),
    wordBytes(BR_X16, 'little'),
  ]);
}

/**
 * Where an adrp may not stand on cores with erratum 843419: in the last two words of a page
 * (A-PLT-4).
 */
export const ERRATUM_843419_GAP = { blockBytes: 0x1000, lastBytes: 8 } as const;

/**
 * A-PLT-3: two entries are the same when both are veneers and lead to one address. The adrp words
 * differ when the entries lie in different pages, so bytes are not compared.
 */
export function isSameModulePlt(code: AddressReader, a: Address, b: Address): boolean {
  const target = veneer.readTarget(code, a, null);
  return target !== null && target === veneer.readTarget(code, b, null);
}

function codec(opcode: number, encode: (place: Address, target: Address) => number): BranchCodec {
  return {
    sizeBytes: 4,
    reach: BRANCH_REACH,
    encode: (from, to) => wordBytes(encode(from, to), 'little'),
    target(bytes, from) {
      if (bytes.length < 4) return null;
      const word = new ByteView(bytes, 'little').u32(0);
      return word >>> 26 === opcode ? branchTarget(word, from) : null;
    },
  };
}

const jump = codec(0b000101, encodeB);

export const arm64Branches: Branches = {
  call: codec(0b100101, encodeBl),
  jump,
  graph: jump,
  reaches: [
    { name: 'bl, 26 bits', reach: BRANCH_REACH },
    { name: 'stub of adrp, 21 bits of pages', reach: PAGE_REACH },
  ],
};
