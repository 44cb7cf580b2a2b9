/**
 * What linkers put between a call and its target on x86-64. A rel32 call reaches everything in the
 * default code model, so there are no range-extension stubs; what is left are PLT entries and jumps
 * written by hand or by a loader.
 */
import type { BranchCodec, Branches } from '../machine/branches.js';
import type { AddressReader, StubForm } from '../machine/stubs.js';
import { reaches } from '../bits.js';
import { ByteView } from '../bytes.js';
import { outOfRange } from '../errors.js';
import { stubForm } from '../isa/stub-form.js';
import type { Address } from '../units.js';
import { CALL5_REACH, encodeBranch5 } from './sites.js';

const ENDBR64 = 0xfa1e_0ff3;

/** `address` behind an endbr64, if one is there. */
function skipEndbr(code: AddressReader, address: Address): Address {
  return code.u32(address) === ENDBR64 ? address + 4n : address;
}

/** `address` behind an endbr64 and a bnd prefix. */
function afterPrefixes(code: AddressReader, address: Address): Address {
  const at = skipEndbr(code, address);
  return code.u8(at) === 0xf2 ? at + 1n : at;
}

function wrap(address: Address): Address {
  return BigInt.asUintN(64, address);
}

function isByte(code: AddressReader, address: Address, ...bytes: readonly number[]): boolean {
  return bytes.every((byte, i) => code.u8(address + BigInt(i)) === byte);
}

/**
 *   [f3 0f 1e fa]          endbr64            (.plt.sec, -z ibtplt)
 *   [f2] ff 25 d0..d3      bnd jmp *d(%rip)   the GOT slot holds the target
 *   …                      push/jmp of the lazy form, or padding
 *
 * The slot directly behind the jump (d = 0) is the far form `jmp *(%rip); .quad target`. What the
 * slot holds in the file of a dynamic link is the reader's business: it knows the relocation that
 * fills it.
 */
const gotJump: StubForm = stubForm(
  'x86-64.plt-got',
  (code: AddressReader, address: Address) => {
    let at = skipEndbr(code, address);
    if (code.u8(at) === 0xf2) at += 1n;
    if (!isByte(code, at, 0xff, 0x25)) return null;
    const displacement = code.u32(at + 2n);
    if (displacement < 0) return null;
    return code.u64(wrap(at + 6n + BigInt(displacement | 0)));
  },
  (code, address) => {
    const at = afterPrefixes(code, address);
    const displacement = BigInt(code.u32(at + 2n) | 0);
    // The quadword behind the jump belongs to it.
    const own = displacement === 0n ? 8 : 0;
    return { sizeBytes: Number(at - address) + 6 + own, slot: wrap(at + 6n + displacement) };
  },
);

/**
 *   [f3 0f 1e fa]          endbr64
 *   [f2] e9 d0..d3         bnd jmp target
 */
const nearJump: StubForm = stubForm(
  'x86-64.jmp-rel32',
  (code: AddressReader, address: Address) => {
    let at = skipEndbr(code, address);
    if (code.u8(at) === 0xf2) at += 1n;
    if (code.u8(at) !== 0xe9) return null;
    const displacement = code.u32(at + 1n);
    return displacement < 0 ? null : wrap(at + 5n + BigInt(displacement | 0));
  },
  (code, address) => ({ sizeBytes: Number(afterPrefixes(code, address) - address) + 5 }),
);

/**
 *   49 bb i0..i7           movabs $target,%r11     or  48 b8 i0..i7   movabs $target,%rax
 *   41 ff e3               jmp *%r11                   ff e0          jmp *%rax
 */
const absoluteJump: StubForm = stubForm(
  'x86-64.movabs-jmp',
  (code: AddressReader, address: Address) => {
    const at = skipEndbr(code, address);
    const known =
      (isByte(code, at, 0x49, 0xbb) && isByte(code, at + 10n, 0x41, 0xff, 0xe3)) ||
      (isByte(code, at, 0x48, 0xb8) && isByte(code, at + 10n, 0xff, 0xe0));
    return known ? code.u64(at + 2n) : null;
  },
  (code, address) => {
    const at = skipEndbr(code, address);
    return { sizeBytes: Number(at - address) + (code.u8(at) === 0x49 ? 13 : 12), slot: at + 2n };
  },
);

/** All stub forms of x86-64. */
export const x86StubForms: readonly StubForm[] = [gotJump, nearJump, absoluteJump];

function branch5(name: string, opcode: 0xe8 | 0xe9): BranchCodec {
  return {
    sizeBytes: 5,
    reach: CALL5_REACH,
    encode(from, to) {
      if (!reaches(CALL5_REACH, from, to)) {
        throw outOfRange('branch-out-of-range', name, to - from, CALL5_REACH.min, CALL5_REACH.max, { address: from });
      }
      return encodeBranch5(opcode, from, to);
    },
    target(bytes, from) {
      if (bytes.length < 5 || bytes[0] !== opcode) return null;
      return wrap(from + 5n + BigInt(new ByteView(bytes, 'little').u32(1) | 0));
    },
  };
}

const jump = branch5('jmp', 0xe9);

export const x86Branches: Branches = {
  call: branch5('call', 0xe8),
  jump,
  graph: jump,
  reaches: [{ name: 'call, rel32', reach: CALL5_REACH }],
};
