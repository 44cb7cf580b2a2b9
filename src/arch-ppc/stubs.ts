/**
 * Branch islands of PowerPC: what linkers and the kernel's module loader put between a `bl` and a
 * callee out of reach or with another TOC. Owns their patterns, and the few encoders that patching
 * needs.
 *
 * What a patcher must know of them:
 *
 * - `bl` reaches 32 MiB. Beyond that it goes to a stub within reach that jumps through CTR. A stub
 *   may change r0, r11, r12 and CTR only (r2 when it saved it first).
 * - A 64-bit stub to code with another TOC stores r2 in the caller's frame, 40(r1) on ELFv1 and
 *   24(r1) on ELFv2. The word after the `bl` loads it back: compilers leave a nop there, the linker
 *   or loader turns it into `ld r2,…`. At a `-mprofile-kernel` site there is no such word and no
 *   frame, so its stubs must not touch r2 or the frame.
 * - Stubs find their target in a slot (a PLT entry, `.branch_lt`) or in themselves: the kernel's
 *   stubs carry the descriptor or the target address behind their code, marked in later kernels by
 *   the magic word 0x73747562 ("stub").
 * - High halves are rounded: value = (sext(HA) << 16) + sext(LO) with HA = (x + 0x8000) >> 16
 *   (P-ENC-3).
 *
 * A pattern is a row of words: eight hexadecimal digits stand for themselves; `3d82:h` is an upper
 * halfword with the lower one captured as a signed number; `48:b` is a `b` with its displacement
 * captured; `0410:p` is a prefix with its 18 bits captured; `*` is any word.
 */
import type { BranchCodec, Branches } from '../machine/branches.js';
import type { AddressReader, StubForm } from '../machine/stubs.js';
import { reaches, signExtend32 } from '../bits.js';
import { ByteView, concatBytes, wordBytes } from '../bytes.js';
import { outOfRange } from '../errors.js';
import type { Address, Endian } from '../units.js';
import { ppc64Table } from './isa.js';
import { branchReach } from './relocs.js';

// ---------------------------------------------------------------------------------------- encoders

/** Words that never change (P-ENC-4). */
export const NOP = ppc64Table.encode('ori', { rs: 0, ra: 0, ui: 0 });
/** `mflr r0`. */
export const MFLR_R0 = ppc64Table.encode('mfspr', { rt: 0, spr: 8 });
/** `mtlr r0`. */
export const MTLR_R0 = ppc64Table.encode('mtspr', { rs: 0, spr: 8 });
/** `stw r0,4(r1)`: LR into the caller's frame, 32 bits. */
export const STW_R0 = ppc64Table.encode('stw', { rs: 0, ra0: 1, d: 4 });
/** `std r0,16(r1)`: the same on 64 bits. */
const STD_R0 = ppc64Table.encode('std', { rs: 0, ra0: 1, ds: 16 });
/** `b .+8`: jumps over the TOC restore. */
export const B_OVER_ONE = ppc64Table.encode('b', { li: 8 });
export const BCTRL = ppc64Table.encode('bcctrl', { bo: 20, bi: 0, bh: 0 });
/** `blr`. */
export const BLR = ppc64Table.encode('bclr', { bo: 20, bi: 0, bh: 0 });
/** `bl .`: a call as compilers leave it under a relocation. */
export const BL_ZERO = ppc64Table.encode('bl', { li: 0 });

/**
 * Words in front of a `-mprofile-kernel` call that belong to it: `mflr r0`, or two with the
 * `std r0,16(r1)` of older compilers or the `std r11,D(r1)` that GCC gives a nested function of
 * ELFv1; 0 at other calls. Words by byte distance from the call.
 */
export function profileKernelWords(word: (delta: number) => number): 0 | 1 | 2 {
  const previous = word(-4);
  if (previous === MFLR_R0) return 1;
  const saves = previous === STD_R0 || (previous & 0xffff_0003) >>> 0 === 0xf961_0000;
  return saves && word(-8) === MFLR_R0 ? 2 : 0;
}

/** A direct caller that changes nothing: `mflr r12; mtctr r12; mtlr r0; bctr` (P-OOL-9). */
export function goesOn(endian: Endian): Uint8Array {
  const moves = [ppc64Table.encode('mfspr', { rt: 12, spr: 8 }), ppc64Table.encode('mtspr', { rs: 12, spr: 9 })];
  const words = [...moves, MTLR_R0, ppc64Table.encode('bcctr', { bo: 20, bi: 0, bh: 0 })];
  return concatBytes(words.map((word) => wordBytes(word, endian)));
}

/** `ld r2,slot(r1)`: the TOC restore after a call; the slot is 40 on ELFv1, 24 on ELFv2. */
export function restoreToc(slot: 24 | 40): number {
  return ppc64Table.encode('ld', { rt: 2, ra0: 1, ds: slot });
}

function displacement(from: Address, to: Address, what: string): number {
  const li = BigInt.asIntN(64, to - from);
  if (!reaches(branchReach, 0n, li)) {
    throw outOfRange('branch-out-of-range', what, li, branchReach.min, branchReach.max, { address: from });
  }
  return Number(li);
}

/**
 * The word of `bl to` at `from` (P-ENC-1).
 * @throws ElftraceError 'branch-out-of-range'
 */
export function bl(from: Address, to: Address): number {
  return ppc64Table.encode('bl', { li: displacement(from, to, 'bl') });
}

/** The word of `b to` at `from`; throws as `bl` does. */
export function branch(from: Address, to: Address): number {
  return ppc64Table.encode('b', { li: displacement(from, to, 'b') });
}

/** True for `bl` (P-ENC-2): neither `bla` nor `b`. -1 (no word) is none. */
export function isBl(word: number): boolean {
  return (word & 0xfc00_0003) >>> 0 === 0x4800_0001;
}

/** True for `b` (P-ENC-2): neither `ba` nor `bl`. -1 (no word) is none. */
export function isBranch(word: number): boolean {
  return (word & 0xfc00_0003) >>> 0 === 0x4800_0000;
}

/** Displacement of a `b` or `bl` word. */
export function branchDisplacement(word: number): number {
  return signExtend32(word & 0x03ff_fffc, 26);
}

/** P-ENC-3: the rounded high and the low halfword of a value, both unsigned. */
export function haLo(value: bigint): { readonly ha: number; readonly lo: number } {
  return { ha: Number(((value + 0x8000n) >> 16n) & 0xffffn), lo: Number(value & 0xffffn) };
}

/** The inverse of `haLo`, of signed halfwords: (ha << 16) + lo. */
export function fromHaLo(ha: number, lo: number): bigint {
  return BigInt(ha) * 0x1_0000n + BigInt(lo);
}

function codec(name: 'bl' | 'b', bits: 32 | 64, endian: Endian): BranchCodec {
  const opcode = name === 'bl' ? 0x4800_0001 : 0x4800_0000;
  return {
    sizeBytes: 4,
    reach: branchReach,
    encode: (from, to) => wordBytes(name === 'bl' ? bl(from, to) : branch(from, to), endian),
    target(bytes, from) {
      if (bytes.length < 4) return null;
      const word = new ByteView(bytes, endian).u32(0);
      if ((word & 0xfc00_0003) >>> 0 !== opcode) return null;
      return BigInt.asUintN(bits, from + BigInt(branchDisplacement(word)));
    },
  };
}

export function ppcBranches(bits: 32 | 64, endian: Endian): Branches {
  const jump = codec('b', bits, endian);
  const reaches = [{ name: 'bl, 24 bits', reach: branchReach }];
  return { call: codec('bl', bits, endian), jump, graph: jump, reaches };
}

// ---------------------------------------------------------------------------------------- patterns

interface PatternWord {
  readonly mask: number;
  readonly match: number;
  readonly name: string;
  /** Bits of the captured number, from bit 0 (branches: the 26-bit displacement). */
  readonly bits: 0 | 16 | 18 | 26;
}

function compile(pattern: string): readonly PatternWord[] {
  return pattern.split(' ').map((token) => {
    if (token === '*') return { mask: 0, match: 0, name: '', bits: 0 };
    const [digits, name] = token.split(':');
    const value = Number.parseInt(digits!, 16);
    if (name === undefined) return { mask: 0xffff_ffff, match: value, name: '', bits: 0 };
    if (digits === '48') return { mask: 0xfc00_0003, match: 0x4800_0000, name, bits: 26 };
    if (digits === '0410' || digits === '0610') return { mask: 0xfffc_0000, match: value * 0x1_0000, name, bits: 18 };
    return { mask: 0xffff_0000, match: (value << 16) >>> 0, name, bits: 16 };
  });
}

/** What a form computes its target from. */
interface Match {
  readonly address: Address;
  /** TOC base, or null where it is not known. */
  readonly toc: Address | null;
  readonly code: AddressReader;
  /** A captured number, signed. */
  number(name: string): number;
}

/** What a form found: an address alone, or with where it came from. */
interface Found {
  readonly target: Address;
  readonly slot?: Address;
  readonly slotBytes?: number;
  readonly targetToc?: Address | null;
  /** Size with data, where it is more than the code. */
  readonly sizeBytes?: number;
}

type Resolve = (match: Match) => Address | Found | null;

/** First words of the stores of r2 in the caller's frame. */
const SAVES_TOC = new Set([0xf841_0028, 0xf841_0018]);

function form(name: string, bits: 32 | 64, patterns: readonly string[], resolve: Resolve): StubForm {
  const compiled = patterns.map(compile);
  const find = (
    code: AddressReader,
    address: Address,
    toc: Address | null,
  ): { readonly words: readonly PatternWord[]; readonly found: Address | Found } | null => {
    next: for (const words of compiled) {
      for (let i = 0; i < words.length; i++) {
        const { mask, match } = words[i]!;
        const word = code.u32(address + BigInt(4 * i));
        if (word < 0 || (word & mask) >>> 0 !== match) continue next;
      }
      const captured = new Map<string, number>();
      words.forEach(({ name: key, bits: width }, i) => {
        if (width !== 0)
          captured.set(key, signExtend32(code.u32(address + BigInt(4 * i)), width) & (width === 26 ? ~3 : ~0));
      });
      const found = resolve({ address, toc, code, number: (key) => captured.get(key) ?? 0 });
      if (found !== null) return { words, found };
    }
    return null;
  };
  const wrap = (target: Address): Address => BigInt.asUintN(bits, target);
  return {
    name,
    readTarget(code, address, toc) {
      const result = find(code, address, toc);
      if (result === null) return null;
      return wrap(typeof result.found === 'bigint' ? result.found : result.found.target);
    },
    read(code, address, toc) {
      const result = find(code, address, toc);
      if (result === null) return null;
      const found: Found = typeof result.found === 'bigint' ? { target: result.found } : result.found;
      return {
        form: name,
        sizeBytes: found.sizeBytes ?? 4 * result.words.length,
        target: wrap(found.target),
        slot: found.slot === undefined ? null : wrap(found.slot),
        slotBytes: found.slotBytes ?? 0,
        targetToc: found.targetToc ?? null,
        savesToc: result.words.some(({ match }) => SAVES_TOC.has(match)),
      };
    },
  };
}

/** toc + (h << 16) + l; a low halfword of a DS-form loses its opcode bits. */
function tocRelative({ toc, number }: Match, high: string, low: string, ds = true): Address | null {
  if (toc === null) return null;
  const lo = number(low);
  return toc + fromHaLo(number(high), ds ? lo & ~3 : lo);
}

/**
 * What a slot holds, or the slot itself where the file has nothing in it (a dynamic linker fills
 * it).
 */
function contentsOf(code: AddressReader, slot: Address | null): Found | null {
  return slot === null ? null : { target: code.u64(slot) || slot, slot, slotBytes: 8 };
}

/** A slot that stands for what it will hold: the dynamic relocation on it says what. */
function slotItself(slot: Address | null, slotBytes: number): Found | null {
  return slot === null ? null : { target: slot, slot, slotBytes };
}

/** Magic word that later kernels put behind the code of their stubs. */
const STUB_MAGIC = 0x7374_7562;

// ------------------------------------------------------------------------------------ 64-bit forms

/** The branch in a stub leads from its own place, the `index`-th word. */
const branchAt =
  (index: number): Resolve =>
  ({ address, number }) =>
    address + BigInt(4 * index) + BigInt(number('b'));

/** What differs between the stubs of module loaders on the two 64-bit ABIs. */
export type StubAbi = 'elfv1' | 'elfv2';

/**
 * Bytes of a module stub: 32 of code and magic, then a descriptor's two words or the global entry.
 */
export const MODULE_STUB_BYTES: Readonly<Record<StubAbi, number>> = { elfv1: 48, elfv2: 40 };

/** The data behind the code of a module stub. */
function stubData(code: AddressReader, slot: Address, abi: StubAbi): Found | null {
  const target = code.u64(slot);
  if (target === null || target === 0n) return null;
  const targetToc = abi === 'elfv1' ? code.u64(slot + 8n) : null;
  return { target, slot, slotBytes: abi === 'elfv1' ? 16 : 8, targetToc, sizeBytes: MODULE_STUB_BYTES[abi] };
}

/**
 * True when the first two words of a module stub give its own address, which its loads are relative
 * to; so they do without a known TOC.
 */
function findsItself(match: Match): boolean {
  const stub = tocRelative(match, 'h', 'l', false);
  return stub === null || BigInt.asUintN(64, stub) === match.address;
}

/**
 * Forms of 64-bit programs. A PLT call gives the address of its *slot*, whose dynamic relocation
 * says what it will hold; the other slots are read where the file has their contents.
 */
const ppc64Forms = (abi: StubAbi): readonly StubForm[] => [
  // The module loader of 2008 (P-STUB-4): the data is addressed through r2, the descriptor lies
  // 32 bytes into the stub.
  form('ppc64.module-2008', 64, ['3d82:h 398c:l f8410028 e96c0020 e84c0028 7d6903a6 4e800420'], (match) => {
    const stub = tocRelative(match, 'h', 'l', false) ?? match.address;
    return stubData(match.code, BigInt.asUintN(64, stub + 32n), 'elfv1');
  }),
  // Later loaders: r11 and r12 swapped roles, magic behind the code, then the descriptor (ELFv1) or
  // global entry (ELFv2).
  form('ppc64.module', 64, ['3d62:h 396b:l f8410028 e98b0020 e84b0028 7d8903a6 4e800420 73747562'], (match) =>
    findsItself(match) ? stubData(match.code, match.address + 32n, 'elfv1') : null,
  ),
  form('ppc64.module', 64, ['3d62:h 396b:l f8410018 e98b0020 7d8903a6 4e800420 * 73747562'], (match) =>
    findsItself(match) ? stubData(match.code, match.address + 32n, 'elfv2') : null,
  ),
  // The same for tail calls of our loader: the caller's frame is not the tail caller's, so r2 is
  // not saved there.
  form('ppc64.module-tail', 64, ['3d62:h 396b:l e98b0020 e84b0028 7d8903a6 4e800420 * 73747562'], (match) =>
    stubData(match.code, match.address + 32n, 'elfv1'),
  ),
  // -mprofile-kernel and patchable entries: the kernel's TOC comes from the per-CPU area, for r2
  // may hold anything. In a module the target stands behind the magic; the reserved stubs of the
  // core (P-NEW-3) have only the code.
  form('ppc64.module-ftrace', 64, ['e98d:d 3d8c:h 398c:l 7d8903a6 4e800420'], (match) => {
    const { code, address } = match;
    if (code.u32(address + 28n) === STUB_MAGIC) return stubData(code, address + 32n, abi);
    return tocRelative(match, 'h', 'l', false);
  }),
  // ld: through the PLT, r2 saved. ELFv1 loads entry and TOC, ELFv2 the entry.
  form(
    'ppc64.plt-call-v1',
    64,
    [
      'f8410028 e982:l 7d8903a6 e842:t 4e800420',
      'f8410028 e982:l 7d8903a6 e962:c e842:t 4e800420',
      // Thread-safe: a descriptor that is being filled in (TOC still 0) goes the slow way through
      // the resolver.
      'f8410028 e982:l 7d8903a6 e842:t 28220000 4ce20420 48:b',
      'f8410028 3d62:h e98b:l 7d8903a6 e84b:t 28220000 4ce20420 48:b',
      'f8410028 3d62:h e98b:l 7d8903a6 e84b:t 4e800420',
      'f8410028 3d62:h e98b:l 396b:a 7d8903a6 e84b:t 4e800420',
      '3d62:h f8410028 e98b:l 7d8903a6 e84b:t 4e800420',
    ],
    (match) => slotItself(tocRelative(match, 'h', 'l'), 24),
  ),
  form(
    'ppc64.plt-call-v2',
    64,
    ['f8410018 e982:l 7d8903a6 4e800420', 'f8410018 3d82:h e98c:l 7d8903a6 4e800420'],
    (match) => slotItself(tocRelative(match, 'h', 'l'), 8),
  ),
  // Beyond 32 MiB with the same TOC: the address is in .branch_lt. lld's __long_branch_ is the same
  // with a high half.
  form('ppc64.plt-branch', 64, ['e982:l 7d8903a6 4e800420', '3d82:h e98c:l 7d8903a6 4e800420'], (match) =>
    contentsOf(match.code, tocRelative(match, 'h', 'l')),
  ),
  // To code with another TOC within reach: r2 := the callee's.
  form('ppc64.long-branch-toc', 64, ['f8410028 3c42:h 3842:l 48:b', 'f8410018 3c42:h 3842:l 48:b'], branchAt(3)),
  form(
    'ppc64.long-branch-toc',
    64,
    ['f8410028 3c42:h 48:b', 'f8410018 3c42:h 48:b', 'f8410028 3842:l 48:b', 'f8410018 3842:l 48:b'],
    branchAt(2),
  ),
  // To a callee that does not preserve r2 (st_other 1).
  form('ppc64.long-branch-save', 64, ['f8410018 48:b'], branchAt(1)),
  // From code without a TOC to code with one: r12 := the callee's global entry, from the program
  // counter.
  form('ppc64.notoc', 64, ['7d8802a6 429f0005 7d6802a6 7d8803a6 398b:l 48:b'], branchAt(5)),
  form('ppc64.notoc', 64, ['7d8802a6 429f0005 7d6802a6 7d8803a6 3d8b:h 398c:l 48:b'], branchAt(6)),
  form(
    'ppc64.notoc-far',
    64,
    ['7d8802a6 429f0005 7d6802a6 7d8803a6 3d8b:h 398c:l 7d8903a6 4e800420'],
    ({ address, number }) => address + 8n + fromHaLo(number('h'), number('l')),
  ),
  form(
    'ppc64.notoc-plt-call',
    64,
    [
      '7d8802a6 429f0005 7d6802a6 7d8803a6 3d8b:h e98c:l 7d8903a6 4e800420',
      '7d8802a6 429f0005 7d6802a6 7d8803a6 e98b:l 7d8903a6 4e800420',
    ],
    ({ address, number }) => slotItself(address + 8n + fromHaLo(number('h'), number('l') & ~3), 8),
  ),
  // POWER10: pc-relative with prefixed instructions.
  form('ppc64.pcrel-plt-call', 64, ['0410:p e580:l 7d8903a6 4e800420'], ({ address, number }) =>
    slotItself(address + BigInt(number('p')) * 0x1_0000n + BigInt(number('l') & 0xffff), 8),
  ),
  form('ppc64.pcrel-plt-call', 64, ['f8410018 0410:p e580:l 7d8903a6 4e800420'], ({ address, number }) =>
    slotItself(address + 4n + BigInt(number('p')) * 0x1_0000n + BigInt(number('l') & 0xffff), 8),
  ),
  form(
    'ppc64.pcrel-far',
    64,
    ['0610:p 3980:l 7d8903a6 4e800420'],
    ({ address, number }) => address + BigInt(number('p')) * 0x1_0000n + BigInt(number('l') & 0xffff),
  ),
  form('ppc64.pcrel-branch', 64, ['0610:p 3980:l 48:b'], branchAt(2)),
  // Absolute, 7 words: lis, ori, sldi 32, oris, ori (P-STUB-7). Our loader's are followed by
  // magic and target as the others.
  form(
    'ppc64.absolute',
    64,
    ['3d80:a 618c:b 798c07c6 658c:c 618c:d 7d8903a6 4e800420'],
    ({ number, code, address }) => {
      const half = (name: string): bigint => BigInt(number(name) & 0xffff);
      const target = (half('a') << 48n) | (half('b') << 32n) | (half('c') << 16n) | half('d');
      const own = code.u32(address + 28n) === STUB_MAGIC && code.u64(address + 32n) === target;
      return own ? { target, sizeBytes: MODULE_STUB_BYTES[abi] } : target;
    },
  ),
  // ld's long_branch stub, which is nothing but a branch.
  form('ppc64.long-branch', 64, ['48:b'], branchAt(0)),
];

/** Forms that an image of an ABI may hold. */
export const ppc64StubForms: Readonly<Record<StubAbi, readonly StubForm[]>> = {
  elfv1: ppc64Forms('elfv1'),
  elfv2: ppc64Forms('elfv2'),
};

// ------------------------------------------------------------------------------------ 32-bit forms

const haLoTarget: Resolve = ({ number }) => fromHaLo(number('h'), number('l'));

export const ppc32StubForms: readonly StubForm[] = [
  // The loader of 2008 used r11, later ones and ld r12; a mixture is no stub (P-STUB-6).
  form('ppc32.far-r11', 32, ['3d60:h 396b:l 7d6903a6 4e800420'], haLoTarget),
  form('ppc32.far-r12', 32, ['3d80:h 398c:l 7d8903a6 4e800420'], haLoTarget),
  // Secure PLT without PIC: the slot's address is in the stub.
  form('ppc32.plt-absolute', 32, ['3d60:h 816b:l 7d6903a6 4e800420'], ({ number }) =>
    slotItself(BigInt.asUintN(32, fromHaLo(number('h'), number('l'))), 4),
  ),
  // Secure PLT of PIC code: relative to r30, the GOT base with -fpic. With -fPIC r30 is .got2 +
  // 0x8000 of one object, which a linked file does not tell.
  form('ppc32.plt-pic', 32, ['817e:l 7d6903a6 4e800420', '3d7e:h 816b:l 7d6903a6 4e800420'], ({ toc, number }) =>
    slotItself(toc === null ? null : toc + fromHaLo(number('h'), number('l')), 4),
  ),
  // ld's far branch in PIC: from the program counter, LR kept in r0.
  form(
    'ppc32.far-pic',
    32,
    [
      '7c0802a6 429f0005 7d8802a6 3d8c:h 7c0803a6 398c:l 7d8903a6 4e800420',
      '7c0802a6 429f0005 7d8802a6 3d8c:h 398c:l 7c0803a6 7d8903a6 4e800420',
    ],
    ({ address, number }) => address + 8n + fromHaLo(number('h'), number('l')),
  ),
  form('ppc32.long-branch', 32, ['48:b'], branchAt(0)),
];

// ----------------------------------------------------------------------------------------- writers

/** Half words of a 64-bit address, most significant first. */
function quarters(value: bigint): readonly [number, number, number, number] {
  const at = (shift: bigint): number => Number((value >> shift) & 0xffffn);
  return [at(48n), at(32n), at(16n), at(0n)];
}

/** HA and LO of a displacement that must fit 32 bits as a rounded pair. */
function pairOf(what: string, value: bigint, address: Address): { readonly ha: number; readonly lo: number } {
  const signed = BigInt.asIntN(64, value);
  if (signed < -0x8000_0000n || signed > 0x7fff_7fffn) {
    throw outOfRange('branch-out-of-range', what, signed, -0x8000_0000n, 0x7fff_7fffn, { address });
  }
  return haLo(signed);
}

function stubBytes(endian: Endian, sizeBytes: number, words: readonly number[], data: readonly bigint[]): Uint8Array {
  const bytes = new Uint8Array(sizeBytes);
  const view = new ByteView(bytes, endian, 'stub');
  words.forEach((word, i) => view.insertU32(4 * i, word));
  data.forEach((word, i) => view.insertU64(32 + 8 * i, word));
  return bytes;
}

/** `mtctr r11`, `mtctr r12`, `bctr`. */
const MTCTR_R11 = ppc64Table.encode('mtspr', { rs: 11, spr: 9 });
const MTCTR_R12 = ppc64Table.encode('mtspr', { rs: 12, spr: 9 });
export const BCTR = ppc64Table.encode('bcctr', { bo: 20, bi: 0, bh: 0 });

/**
 * What the module loader's stubs to another TOC need: r2 is saved in the caller's frame, the
 * callee's loaded (ELFv1).
 */
export interface TocStub {
  readonly address: Address;
  /** r2 of the caller. */
  readonly toc: Address;
  /** Text address (ELFv1), global entry (ELFv2). */
  readonly target: Address;
  readonly targetToc: Address | null;
}

/**
 * The stub of 2008 (P-STUB-4); inverse of `ppc64.module-2008`:
 *
 *     0  addis r12,r2,HA   4  addi r12,r12,LO   8  std r2,40(r1)    12  ld r11,32(r12)
 *    16  ld r2,40(r12)    20  mtctr r11        24  bctr             28  -
 *    32  text address     40  TOC
 *
 * @throws ElftraceError 'branch-out-of-range' when stub and TOC are more than 2 GiB apart
 */
export function writeTocStub2008(stub: TocStub, endian: Endian): Uint8Array {
  const { ha, lo } = pairOf('stub from the TOC', stub.address - stub.toc, stub.address);
  const words = [
    ppc64Table.encode('addis', { rt: 12, ra0: 2, si: signExtend32(ha, 16) }),
    ppc64Table.encode('addi', { rt: 12, ra0: 12, si: signExtend32(lo, 16) }),
    ppc64Table.encode('std', { rs: 2, ra0: 1, ds: 40 }),
    ppc64Table.encode('ld', { rt: 11, ra0: 12, ds: 32 }),
    ppc64Table.encode('ld', { rt: 2, ra0: 12, ds: 40 }),
    MTCTR_R11,
    BCTR,
  ];
  return stubBytes(endian, 48, words, [stub.target, stub.targetToc ?? 0n]);
}

/**
 * The stub of later loaders (P-STUB-5); inverse of `ppc64.module`:
 *
 *     0  addis r11,r2,HA   4  addi r11,r11,LO   8  std r2,40(r1) | std r2,24(r1)
 *    12  ld r12,32(r11)   16  ld r2,40(r11) (ELFv1)   mtctr r12   bctr
 *    28  magic            32  text address, TOC | global entry
 *
 * @throws ElftraceError 'branch-out-of-range'
 */
export function writeTocStub(stub: TocStub, abi: StubAbi, endian: Endian): Uint8Array {
  const save = ppc64Table.encode('std', { rs: 2, ra0: 1, ds: abi === 'elfv1' ? 40 : 24 });
  return tocStub(stub, abi, endian, [save]);
}

/**
 * The stub of an ELFv1 tail call to another TOC; inverse of `ppc64.module-tail`: as `writeTocStub`
 * without the store of r2, a word later in its place free.
 * @throws ElftraceError 'branch-out-of-range'
 */
export function writeTailStub(stub: TocStub, endian: Endian): Uint8Array {
  return tocStub(stub, 'elfv1', endian, []);
}

function tocStub(stub: TocStub, abi: StubAbi, endian: Endian, save: readonly number[]): Uint8Array {
  const { ha, lo } = pairOf('stub from the TOC', stub.address - stub.toc, stub.address);
  const words = [
    ppc64Table.encode('addis', { rt: 11, ra0: 2, si: signExtend32(ha, 16) }),
    ppc64Table.encode('addi', { rt: 11, ra0: 11, si: signExtend32(lo, 16) }),
    ...save,
    ppc64Table.encode('ld', { rt: 12, ra0: 11, ds: 32 }),
    ...(abi === 'elfv1' ? [ppc64Table.encode('ld', { rt: 2, ra0: 11, ds: 40 })] : []),
    MTCTR_R12,
    BCTR,
  ];
  while (words.length < 7) words.push(0);
  words.push(STUB_MAGIC);
  return stubBytes(endian, MODULE_STUB_BYTES[abi], words, targetData(abi, stub.target, stub.targetToc));
}

/** Data behind the code of the stubs that leave r2 alone. */
const targetData = (abi: StubAbi, target: Address, targetToc: Address | null): readonly bigint[] =>
  abi === 'elfv1' ? [target, targetToc ?? 0n] : [target];

/**
 * The stub for entries of tracers in kernels (P-STUB-5); r2 may hold any TOC and stays. Inverse
 * of `ppc64.module-ftrace`:
 *
 *     0  ld r12,16(r13)   4  addis r12,r12,HA   8  addi r12,r12,LO   12  mtctr r12   16  bctr
 *    28  magic           32  target
 *
 * @throws ElftraceError 'branch-out-of-range' when the target is more than 2 GiB from the kernel's
 *   TOC
 */
export function writeFtraceStub(
  stub: {
    readonly address: Address;
    readonly coreToc: Address;
    readonly target: Address;
    readonly targetToc: Address | null;
  },
  abi: StubAbi,
  endian: Endian,
): Uint8Array {
  const { ha, lo } = pairOf("target from the kernel's TOC", stub.target - stub.coreToc, stub.address);
  const words = [
    ppc64Table.encode('ld', { rt: 12, ra0: 13, ds: PACA_TOC_OFFSET }),
    ppc64Table.encode('addis', { rt: 12, ra0: 12, si: signExtend32(ha, 16) }),
    ppc64Table.encode('addi', { rt: 12, ra0: 12, si: signExtend32(lo, 16) }),
    MTCTR_R12,
    BCTR,
    0,
    0,
    STUB_MAGIC,
  ];
  return stubBytes(endian, MODULE_STUB_BYTES[abi], words, targetData(abi, stub.target, stub.targetToc));
}

/** Offset of the kernel's TOC in the per-CPU area: a build constant, 16 on common builds. */
export const PACA_TOC_OFFSET = 16;

/**
 * To any address, through r12 and CTR only (P-STUB-7); inverse of `ppc64.absolute`:
 *
 *     0  lis r12    4  ori r12    8  sldi r12,r12,32   12  oris r12   16  ori r12
 *    20  mtctr r12 24  bctr      28  magic            32  target
 */
export function writeAbsoluteStub(
  stub: { readonly target: Address; readonly targetToc: Address | null },
  abi: StubAbi,
  endian: Endian,
): Uint8Array {
  const [highest, higher, high, low] = quarters(stub.target);
  const words = [
    ppc64Table.encode('addis', { rt: 12, ra0: 0, si: signExtend32(highest, 16) }),
    ppc64Table.encode('ori', { rs: 12, ra: 12, ui: higher }),
    SLDI_R12_32,
    ppc64Table.encode('oris', { rs: 12, ra: 12, ui: high }),
    ppc64Table.encode('ori', { rs: 12, ra: 12, ui: low }),
    MTCTR_R12,
    BCTR,
    STUB_MAGIC,
  ];
  return stubBytes(endian, MODULE_STUB_BYTES[abi], words, targetData(abi, stub.target, stub.targetToc));
}

/** `sldi r12,r12,32`. */
const SLDI_R12_32 = 0x798c_07c6;

/** Bytes of a 32-bit stub. */
export const FAR_STUB_BYTES = 16;

/**
 * The 32-bit stub (P-STUB-6); inverse of `ppc32.far-r11` (2008) and `ppc32.far-r12`:
 *
 *     0  lis rN,HA   4  addi rN,rN,LO   8  mtctr rN   12  bctr
 */
export function writeFarStub(target: Address, register: 11 | 12): Uint8Array {
  const { ha, lo } = haLo(target);
  return stubBytes(
    'big',
    FAR_STUB_BYTES,
    [
      ppc64Table.encode('addis', { rt: register, ra0: 0, si: signExtend32(ha, 16) }),
      ppc64Table.encode('addi', { rt: register, ra0: register, si: signExtend32(lo, 16) }),
      register === 11 ? MTCTR_R11 : MTCTR_R12,
      BCTR,
    ],
    [],
  );
}
