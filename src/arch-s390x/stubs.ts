/**
 * s390x branches, and the code between a call and its target. Owns recognising both; decides no
 * placement. Calls reach 4 GiB, so linkers make no islands: what stands in between is a procedure
 * linkage table, or a trampoline of the kernel's own.
 */
import type { BranchCodec, Branches } from '../machine/branches.js';
import type { AddressReader, StubForm } from '../machine/stubs.js';
import { stubForm } from '../isa/stub-form.js';
import type { Address } from '../units.js';
import { BRANCH_REACH, BRASL, BRCL, encodeBranch, OPCODE_OF_SIX, SITE_BYTES, targetOf } from './isa.js';

/** `brasl` links through r14 in compiled code and through r0 at sites. */
const LINK = 14;
const ALWAYS = 15;

function codec(half: number, upper: number): BranchCodec {
  return {
    sizeBytes: SITE_BYTES,
    reach: BRANCH_REACH,
    encode: (from, to) => encodeBranch(half, upper, from, to),
    target(bytes, from) {
      if (bytes.length < SITE_BYTES || bytes[0] !== OPCODE_OF_SIX || bytes[1] !== ((upper << 4) | half)) return null;
      return targetOf(bytes, 0, from);
    },
  };
}

const jump = codec(BRCL, ALWAYS);

export const s390xBranches: Branches = {
  call: codec(BRASL, LINK),
  jump,
  graph: jump,
  reaches: [{ name: 'brasl, 32 bits', reach: BRANCH_REACH }],
};

// ---------------------------------------------------------------------------------------- forms

/** 16 bits at an address, -1 where nothing is. */
const u16 = (code: AddressReader, address: Address): number => {
  const upper = code.u8(address);
  const lower = code.u8(address + 1n);
  return upper < 0 || lower < 0 ? -1 : (upper << 8) | lower;
};

/** The signed word at an address, twice. */
const halfwords = (code: AddressReader, address: Address): bigint => 2n * BigInt(code.u32(address) | 0);

const LARL_R1 = 0xc010;
/** lg %r1,0(%r1) and br %r1 */
const LG_R1 = [0xe310, 0x1000, 0x0004] as const;
const BR_R1 = 0x07f1;
/** basr %r1,0 */
const BASR_R1 = 0x0d10;

const follows = (code: AddressReader, address: Address, words: readonly number[]): boolean =>
  words.every((word, i) => u16(code, address + 2n * BigInt(i)) === word);

/**
 * Entry of a procedure linkage table; the target is in a slot that only a dynamic linker fills, so
 * this gives the slot, as on the other machines:
 *
 *   larl %r1,slot
 *   lg   %r1,0(%r1)
 *   br   %r1
 *   (14 bytes that the first call of a lazy binding takes)
 */
const plt: StubForm = stubForm(
  's390x.plt',
  (code: AddressReader, address: Address) => {
    if (u16(code, address) !== LARL_R1 || !follows(code, address + 6n, [...LG_R1, BR_R1])) return null;
    return BigInt.asUintN(64, address + halfwords(code, address + 2n));
  },
  (code, address) => ({ sizeBytes: 32, slot: BigInt.asUintN(64, address + halfwords(code, address + 2n)) }),
);

/** Where the entry of a module's linkage table has its word: behind a filler since Linux 5.2. */
const MODULE_WORDS: readonly (readonly [lg: readonly number[], word: bigint])[] = [
  [[0xe310, 0x100c, 0x0004], 14n],
  [[0xe310, 0x100a, 0x0004], 12n],
];

/**
 * Entry that the kernel's module loader makes (S-STUB-2):
 *
 *   basr %r1,0
 *   lg   %r1,12(%r1)
 *   br   %r1
 *   (2 bytes), .quad target
 */
const modulePlt: StubForm = stubForm(
  's390x.module-plt',
  (code: AddressReader, address: Address) => {
    const word = moduleWord(code, address);
    return word === null ? null : code.u64(word);
  },
  (code, address) => {
    const slot = moduleWord(code, address)!;
    return { sizeBytes: Number(slot - address) + 8, slot };
  },
);

function moduleWord(code: AddressReader, address: Address): Address | null {
  if (u16(code, address) !== BASR_R1 || u16(code, address + 8n) !== BR_R1) return null;
  for (const [lg, word] of MODULE_WORDS) if (follows(code, address + 2n, lg)) return address + word;
  return null;
}

/** brasl %r1 to the code that all trampolines share, which begins with lmg %r0,%r1,2(%r1). */
const BRASL_R1 = 0xc015;
const LMG_R0_R1 = [0xeb01, 0x1002, 0x0004] as const;
/** Two bytes, the way back, the target. */
const TRAMPOLINE = { back: 8n, target: 16n, bytes: 24 } as const;

function isTrampoline(code: AddressReader, address: Address): boolean {
  if (u16(code, address) !== BRASL_R1) return false;
  return follows(code, BigInt.asUintN(64, address + halfwords(code, address + 2n)), LMG_R0_R1);
}

/**
 * A site's own trampoline of kernels that cannot store 8 bytes at once (S-STUB-1). The shared code
 * loads both words by way of r1, the return address of its call, and branches to the second:
 *
 *   brasl %r1,shared
 *   (2 bytes)
 *   .quad back, target
 */
const hotpatch: StubForm = stubForm(
  's390x.hotpatch',
  (code: AddressReader, address: Address) =>
    isTrampoline(code, address) ? code.u64(address + TRAMPOLINE.target) : null,
  (_code, address) => ({ sizeBytes: TRAMPOLINE.bytes, slot: address + TRAMPOLINE.target }),
);

/** Where the trampoline at an address goes on to behind its target; null: there is none. */
export function wayBack(code: AddressReader, address: Address): Address | null {
  return isTrampoline(code, address) ? code.u64(address + TRAMPOLINE.back) : null;
}

export const s390xStubForms: readonly StubForm[] = [plt, modulePlt, hotpatch];
