/** Sign extension, masks and range tests on number and bigint. Knows no format. */

/** `value` taken as a two's complement number of `bits` bits (1 to 32). */
export function signExtend32(value: number, bits: number): number {
  const shift = 32 - bits;
  return (value << shift) >> shift;
}

/** Rounds up to a multiple of `align`, a power of two. */
export function alignUp(value: number, align: number): number {
  return align <= 1 ? value : Math.ceil(value / align) * align;
}

/** Rounds up to a multiple of `align`, a power of two. */
export function alignUpBig(value: bigint, align: bigint): bigint {
  return align <= 1n ? value : (value + align - 1n) & -align;
}

/**
 * Displacements a branch can encode, bytes, measured from the branch's own address; both ends
 * included.
 */
export interface Reach {
  readonly min: bigint;
  readonly max: bigint;
  readonly alignBytes: number;
}

/** The one range test of branches: no code compares displacements by hand. */
export function reaches(reach: Reach, from: bigint, to: bigint): boolean {
  const displacement = to - from;
  return displacement >= reach.min && displacement <= reach.max && displacement % BigInt(reach.alignBytes) === 0n;
}
