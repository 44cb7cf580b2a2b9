/**
 * Sleds of XRay on x86-64 (M-PROD-4), eleven bytes each:
 *
 *   kind         off                          on
 *   entry, tail  eb 09, a nop of nine bytes   mov r10d,id; call trampoline
 *   exit         c3, a nop of ten bytes       mov r10d,id; jmp trampoline
 *
 * A runtime switches a sled off by its first bytes alone: the number and the branch stay behind
 * them. The trampoline keeps every register; that of an exit returns in the function's place.
 */
import { ByteView, equalBytes } from '../bytes.js';
import { reaches } from '../bits.js';
import type { SledCall, SledKind, SledModel, SledPlace, SledReading } from '../machine/sleds.js';
import { hex } from '../errors.js';
import { x86Branches } from './stubs.js';

const SIZE = 11;
const MOV_R10D = Uint8Array.of(0x41, 0xba);
const CALL = 0xe8;
const JMP = 0xe9;
const OFF = Uint8Array.of(0xeb, 0x09, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00);
const OFF_EXIT = Uint8Array.of(0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00);
/** Fields of a nop that may have any value: its address. */
const NOP_FIELDS = 4;

const offBytes = (kind: SledKind): Uint8Array => (kind === 'exit' ? OFF_EXIT : OFF);
const opcode = (kind: SledKind): number => (kind === 'exit' ? JMP : CALL);

function read(bytes: Uint8Array, { kind, address }: SledPlace): SledReading {
  const off = offBytes(kind);
  const branches = bytes[6] === opcode(kind);
  if (equalBytes(bytes.subarray(0, 2), MOV_R10D)) {
    if (!branches) return { state: 'wrong', reason: `no ${kind === 'exit' ? 'jmp' : 'call'} follows mov r10d` };
    const view = new ByteView(bytes, 'little', 'sled');
    const target = BigInt.asUintN(64, address + BigInt(SIZE) + BigInt(view.u32(7) | 0));
    return { state: 'on', id: view.u32(2), target };
  }
  const first = kind === 'exit' ? 1 : 2;
  if (!equalBytes(bytes.subarray(0, first), off.subarray(0, first))) {
    return { state: 'wrong', reason: 'it begins as no sled, neither off nor on' };
  }
  const fixed = SIZE - NOP_FIELDS;
  const isNop = equalBytes(bytes.subarray(first, fixed), off.subarray(first, fixed));
  // What a runtime leaves that switched the sled off.
  const wasOn = branches && (kind !== 'exit' || bytes[1] === MOV_R10D[1]);
  return isNop || wasOn
    ? { state: 'off', target: null }
    : { state: 'wrong', reason: 'behind its first instruction is neither a nop nor what a switched-off call leaves' };
}

function on(_bytes: Uint8Array, { kind, address, id, target }: SledCall): Uint8Array | { readonly refused: string } {
  if (!reaches(x86Branches.call.reach, address + 6n, target)) {
    return { refused: `the trampoline at ${hex(target)} is out of reach of the sled` };
  }
  const out = new ByteView(new Uint8Array(SIZE), 'little', 'sled');
  out.bytes.set(MOV_R10D);
  out.insertU32(2, id);
  out.bytes[6] = opcode(kind);
  out.insertU32(7, Number(BigInt.asUintN(32, target - address - BigInt(SIZE))));
  return out.bytes;
}

export const x86Sleds: SledModel = {
  sizeOf: (kind) => (kind.endsWith('-event') ? null : SIZE),
  absolute: false,
  bound: false,
  read,
  on,
  off: (_bytes, { kind }) => offBytes(kind).slice(),
};
