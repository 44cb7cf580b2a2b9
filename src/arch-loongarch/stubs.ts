/**
 * LoongArch branches, and the code between a call and its target. Owns recognising both; decides no
 * placement.
 */
import type { BranchCodec, Branches } from '../machine/branches.js';
import type { AddressReader, StubForm } from '../machine/stubs.js';
import { stubForm } from '../isa/stub-form.js';
import type { Address } from '../units.js';
import { ByteView, wordBytes } from '../bytes.js';
import { BRANCH_REACH, branchTarget, encodeBranch, loongarchTable, T1, T3 } from './isa.js';

function codec(mnemonic: 'b' | 'bl'): BranchCodec {
  const { mask, match } = loongarchTable.row(mnemonic);
  return {
    sizeBytes: 4,
    reach: BRANCH_REACH,
    encode: (from, to) => wordBytes(encodeBranch(mnemonic, from, to), 'little'),
    target(bytes, from) {
      if (bytes.length < 4) return null;
      const word = new ByteView(bytes, 'little').u32(0);
      return (word & mask) >>> 0 === match ? branchTarget(word, from) : null;
    },
  };
}

const jump = codec('b');

export const loongarchBranches: Branches = {
  call: codec('bl'),
  jump,
  graph: jump,
  reaches: [{ name: 'bl, 26 bits', reach: BRANCH_REACH }],
};

// ------------------------------------------------------------------------------------------- forms

/** Operands of the instruction at an address, where it is of a mnemonic and writes a register. */
function operandsAt(code: AddressReader, address: Address, mnemonic: string): Readonly<Record<string, number>> | null {
  const word = code.u32(address);
  const decoded = word < 0 ? null : loongarchTable.decode(word, 4);
  return decoded?.row.mnemonic === mnemonic ? decoded.operands : null;
}

/** The slot of an entry of a procedure linkage table, or null. */
function slotOf(code: AddressReader, address: Address): Address | null {
  const upper = operandsAt(code, address, 'pcaddu12i');
  const load = operandsAt(code, address + 4n, 'ld.d');
  const jirl = operandsAt(code, address + 8n, 'jirl');
  if (upper?.['rd'] !== T3 || load?.['rd'] !== T3 || load['rj'] !== T3) return null;
  // Entries of a lazy binding keep their own address in $t1, others link nothing.
  if (jirl?.['rj'] !== T3 || jirl['imm'] !== 0 || (jirl['rd'] !== T1 && jirl['rd'] !== 0)) return null;
  return BigInt.asUintN(64, address + BigInt(upper['imm']!) * 4096n + BigInt(load['imm']!));
}

/**
 * Entry of a procedure linkage table; the target is in a slot that only a dynamic linker fills, so
 * this gives the slot, as on the other machines:
 *
 *   pcaddu12i $t3,slot
 *   ld.d      $t3,$t3,slot
 *   jirl      $t1,$t3,0
 *   nop
 */
const plt: StubForm = stubForm('loongarch.plt', slotOf, (code, address) => ({
  sizeBytes: 16,
  slot: slotOf(code, address)!,
}));

/** Where the entry of a module's linkage table leads, or null. */
function moduleTarget(code: AddressReader, address: Address): Address | null {
  const lower = operandsAt(code, address, 'lu12i.w');
  const middle = operandsAt(code, address + 4n, 'lu32i.d');
  const upper = operandsAt(code, address + 8n, 'lu52i.d');
  const jirl = operandsAt(code, address + 12n, 'jirl');
  if (lower?.['rd'] !== T1 || middle?.['rd'] !== T1 || upper?.['rd'] !== T1 || upper['rj'] !== T1) return null;
  if (jirl?.['rj'] !== T1 || jirl['rd'] !== 0) return null;
  // Each of the three replaces what stands above its place.
  const low32 = BigInt.asUintN(32, BigInt(lower['imm']!) << 12n);
  const low52 = BigInt.asUintN(20, BigInt(middle['imm']!)) << 32n;
  const base = (BigInt.asUintN(12, BigInt(upper['imm']!)) << 52n) | low52 | low32;
  return BigInt.asUintN(64, base + BigInt(jirl['imm']!));
}

/**
 * Entry that the kernel's module loader makes, for calls and for the entries of the tracer
 * (L-STUB-1):
 *
 *   lu12i.w $t1,target
 *   lu32i.d $t1,target
 *   lu52i.d $t1,$t1,target
 *   jirl    $zero,$t1,target
 */
const modulePlt: StubForm = stubForm('loongarch.module-plt', moduleTarget, () => ({ sizeBytes: 16 }));

export const loongarchStubForms: readonly StubForm[] = [plt, modulePlt];
