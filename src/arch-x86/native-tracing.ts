/** Programs of x86-64 that write their own trace: the runtime of native.S and runtime/native.c. */
import { concatBytes } from '../bytes.js';
import type { NativeTracing } from '../machine/native-tracing.js';
import type { SiteReading, SiteStore, SiteView } from '../machine/sites.js';
import type { Address } from '../units.js';
import { CALL5_REACH, encodeBranch5 } from './sites.js';
import { reaches } from '../bits.js';

const NOP = 0x90;
const ENDBR64 = 0xfa1e_0ff3;
/** A call of five bytes and a jump of two. */
const FRONT_BYTES = 7;
const JUMP_BYTES = 2;

/** `jmp` of two bytes, between deltas from the anchor. */
const shortJump = (from: number, to: number): Uint8Array => Uint8Array.of(0xeb, (to - from - JUMP_BYTES) & 0xff);

/**
 * -fpatchable-function-entry=16,14 and its like (RT-32):
 *
 *   address    compiled       traced
 *   symbol-7   90 90 90 90 90 e8 d0..d3  call entry
 *   symbol-2   90 90          eb ..      jmp  over the entry's nops
 *   symbol     [f3 0f 1e fa]
 *   ip         90 90          eb ..      jmp  symbol-7
 *
 * No return address points into what changes, for the nops in front are never executed.
 */
function callInFront(view: SiteView, reading: SiteReading, entry: Address): readonly SiteStore[] | null {
  const ip = reading.ipDelta;
  if (reading.form !== 'small' || view.u8(ip) !== NOP || view.u8(ip + 1) !== NOP) return null;
  const symbol = view.u32(ip - 4) === ENDBR64 ? ip - 4 : ip;
  if (!view.functionAt(symbol)) return null;
  const start = symbol - FRONT_BYTES;
  for (let delta = start; delta < symbol; delta++) if (delta < 0 || view.u8(delta) !== NOP) return null;
  const address = view.address + BigInt(start);
  if (!reaches(CALL5_REACH, address, entry)) return null;
  const call = concatBytes([encodeBranch5(0xe8, address, entry), shortJump(symbol - JUMP_BYTES, ip + JUMP_BYTES)]);
  return [
    { delta: start, before: view.bytes(start, FRONT_BYTES), after: call },
    { delta: ip, before: view.bytes(ip, JUMP_BYTES), after: shortJump(ip, start) },
  ];
}

export const x86NativeTracing: NativeTracing = {
  kind: 'runtime',
  runtime: 'native',
  entry: 'elftrace_native_function',
  config: 'native_config',
  // Sites at the function's entry: behind a prologue neither the stack pointer nor the registers
  // are what the entry takes them for.
  conventions: ['modern'],
  slots: { loaders: ['ld-linux-x86-64.so.2'], libraries: ['libc.so.6'], count: 32 },
  callInFront,
  options: {
    shortest: '-fpatchable-function-entry=5',
    all: '-fpatchable-function-entry=5, or -pg -mfentry -mrecord-mcount',
  },
  reach: 1 << 26,
};
