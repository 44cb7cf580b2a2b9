/**
 * Rows of floating point that compute all elements of a vector at once, made of the rows of one
 * element. All of them are settled together; where one is not, each is asked about by itself.
 *
 * Source: WebAssembly Core Specification 2.0, 4.3.4 and 5.4; the proposal for relaxed SIMD.
 */
type Bytes = readonly number[];
type Width = 32 | 64;

/** A SIMD instruction whose number has one or two bytes of LEB128. */
const simd = (opcode: number): Bytes => [0xfd, ...(opcode < 0x80 ? [opcode] : [(opcode & 0x7f) | 0x80, opcode >> 7])];
/** `v128.const` of the same number in all lanes. */
function everywhere(width: Width, value: bigint): Bytes {
  const lanes = width === 64 ? BigInt64Array.of(value, value) : Int32Array.from({ length: 4 }, () => Number(value));
  return [...simd(0x0c), ...new Uint8Array(lanes.buffer)];
}
const SHIFT_LEFT: Readonly<Record<Width, Bytes>> = { 64: simd(0xcb), 32: simd(0xab) };
const ADD: Readonly<Record<Width, Bytes>> = { 64: simd(0xce), 32: simd(0xae) };
const LESS: Readonly<Record<Width, Bytes>> = { 64: simd(0xd8), 32: simd(0x39) };
const ALL_TRUE: Readonly<Record<Width, Bytes>> = { 64: simd(0xc3), 32: simd(0xa3) };
/** The sign of a lane. */
const signOf = (width: Width): bigint => -1n << BigInt(width - 1);

/**
 * Lanes, shifted left by one, less `least`, and whether that is below `count` without a sign: there
 * is a comparison with a sign alone, so all are moved by half of the range.
 */
export function within(width: Width, least: bigint, count: bigint): Bytes {
  const moved = (value: bigint): bigint => BigInt.asIntN(width, value + signOf(width));
  return [
    ...[0x41, 1],
    ...SHIFT_LEFT[width],
    ...everywhere(width, moved(-least)),
    ...ADD[width],
    ...everywhere(width, moved(count)),
    ...LESS[width],
  ];
}

/** As `ORDINARY` and `FINITE` of one element, of all. */
const ORDINARY: Readonly<Record<Width, Bytes>> = {
  64: [...within(64, 2n << 53n, 2045n << 53n), ...ALL_TRUE[64]],
  32: [...within(32, 2n << 24n, 253n << 24n), ...ALL_TRUE[32]],
};
const FINITE: Readonly<Record<Width, Bytes>> = {
  64: [...simd(0xec), ...everywhere(64, 0x7ff0_0000_0000_0000n), ...simd(0x49), ...ALL_TRUE[64]],
  32: [...simd(0xe0), ...everywhere(32, 0x7f80_0000n), ...simd(0x43), ...ALL_TRUE[32]],
};

/** How one lane is read and written. */
export const LANE: Readonly<
  Record<Width, { readonly type: 'f32' | 'f64'; readonly get: number; readonly set: number }>
> = {
  64: { type: 'f64', get: 0x21, set: 0x22 },
  32: { type: 'f32', get: 0x1f, set: 0x20 },
};

/** What is asked of the row of one element. */
interface ScalarRow {
  readonly settled: Bytes;
  readonly inOne?: { readonly settled: Bytes };
}

/** What becomes of a row of one element: of all, by the instruction of that number. */
export function packed<Row extends ScalarRow>(
  width: Width,
  scalar: Row,
  opcode: number,
  settled: 'ordinary' | 'finite',
) {
  return {
    ...scalar,
    d: 'v128' as const,
    type: 'v128' as const,
    each: [],
    operand: 'v128' as const,
    both: scalar.inOne ? [] : simd(opcode),
    result: 'v128' as const,
    after: [],
    settled: settled === 'finite' ? FINITE[width] : ORDINARY[width],
    boxed: false,
    lanes: { width, settled: scalar.settled, settledInOne: scalar.inOne?.settled ?? [] },
    ...(scalar.inOne && { inOne: { each: [], both: simd(opcode), settled: ORDINARY[width] } }),
  };
}
