/**
 * What `cpuid` announces at each level of the ABI: what is executed, or a part of it.
 *
 * Source: Intel SDM volume 2, CPUID; volume 1, 13.2 (extended state).
 */
import { XSAVE } from './extended-state.js';

const text = (at: number, name: string): bigint =>
  [...name.slice(at, at + 4)].reduceRight((sum, each) => (sum << 8n) | BigInt(each.charCodeAt(0)), 0n);
/**
 * The maker whose processors this one is like where makers differ: 0f 0d with a register does
 * nothing (AMD: invalid opcode), an operand size prefix does not shorten near branches (AMD: to 16
 * bits). C libraries look for it before they believe any other leaf.
 */
const VENDOR = 'GenuineIntel';
const BRAND = 'elftrace x86-64 emulator'.padEnd(48, '\0');

/**
 * Leaf 4 by subleaf: type (1 data, 2 instructions, 3 both), level, ways of lines of 64 bytes, sets.
 * One thread uses them.
 */
const CACHES: readonly (readonly [type: bigint, level: bigint, ways: bigint, sets: bigint])[] = [
  [1n, 1n, 8n, 64n],
  [2n, 1n, 8n, 64n],
  [3n, 2n, 8n, 1024n],
  [3n, 3n, 16n, 8192n],
];

/** Levels of the ABI: what `cpuid` can announce. */
export type X86Level = 'x86-64' | 'x86-64-v2' | 'x86-64-v3';
/** SSE3, SSSE3, SSE4.1, SSE4.2. */
const LEVEL_2 = [0, 9, 19, 20];
/** Bits of ecx of leaf 1 beyond the base's. FMA, XSAVE, OSXSAVE, AVX, F16C. */
const LEVEL_BITS: Readonly<Record<X86Level, readonly number[]>> = {
  'x86-64': [],
  'x86-64-v2': LEVEL_2,
  'x86-64-v3': [...LEVEL_2, 12, 26, 27, 28, 29],
};
/** Programs may use registers of 256 bits. */
export const hasAvx = (level: X86Level): boolean => level === 'x86-64-v3';

/** Leaf 13: components of the extended state, their sizes and places. */
function extendedLeaf(subleaf: bigint): readonly [bigint, bigint, bigint, bigint] {
  const all = BigInt(XSAVE.bytes);
  if (subleaf === 0n) return [XSAVE.components, all, all, 0n];
  return subleaf === 2n ? [BigInt(XSAVE.upperBytes), BigInt(XSAVE.upper), 0n, 0n] : [0n, 0n, 0n, 0n];
}

/**
 * What `cpuid` announces: what is executed, or a part of it. The base of x86-64 (x87, MMX, SSE,
 * SSE2) is announced always. eax, ebx, ecx, edx by leaf.
 */
export function cpuid(level: X86Level, leaf: bigint, subleaf: bigint): readonly [bigint, bigint, bigint, bigint] {
  const bits = (...places: readonly number[]): bigint => places.reduce((sum, place) => sum | (1n << BigInt(place)), 0n);
  switch (leaf) {
    case 0n:
      return [hasAvx(level) ? 13n : 7n, text(0, VENDOR), text(8, VENDOR), text(4, VENDOR)];
    case 1n:
      // Family 6, model 15. CX16, MOVBE, POPCNT; FPU, TSC, MSR, CX8, CMOV, CLFLUSH of 64 bytes,
      // MMX, FXSR, SSE, SSE2.
      return [0x6f0n, 0x800n, bits(13, 22, 23, ...LEVEL_BITS[level]), bits(0, 4, 5, 8, 15, 19, 23, 24, 25, 26)];
    case 2n:
      // Caches are described by leaf 4, lines are prefetched by 64 bytes.
      return [0xff01n, 0xf0n, 0n, 0n];
    case 4n: {
      const cache = subleaf < BigInt(CACHES.length) ? CACHES[Number(subleaf)]! : null;
      if (cache === null) return [0n, 0n, 0n, 0n];
      const [type, level, ways, sets] = cache;
      return [type | (level << 5n) | (1n << 8n), ((ways - 1n) << 22n) | 63n, sets - 1n, 0n];
    }
    case 7n:
      // FSGSBASE, BMI1, AVX2, BMI2, ADX, CLFLUSHOPT; SERIALIZE.
      if (subleaf !== 0n) return [0n, 0n, 0n, 0n];
      return [0n, bits(0, 3, 8, 19, 23, ...(hasAvx(level) ? [5] : [])), 0n, bits(14)];
    case 13n:
      return hasAvx(level) ? extendedLeaf(subleaf) : [0n, 0n, 0n, 0n];
    case 0x8000_0000n:
      return [0x8000_0004n, text(0, VENDOR), text(8, VENDOR), text(4, VENDOR)];
    case 0x8000_0001n:
      // LAHF, LZCNT, PREFETCHW; SYSCALL, NX, RDTSCP, LM.
      return [0n, 0n, bits(0, 5, 8), bits(11, 20, 27, 29)];
    case 0x8000_0002n:
    case 0x8000_0003n:
    case 0x8000_0004n: {
      const at = 16 * Number(leaf - 0x8000_0002n);
      return [text(at, BRAND), text(at + 4, BRAND), text(at + 8, BRAND), text(at + 12, BRAND)];
    }
    default:
      return [0n, 0n, 0n, 0n];
  }
}
