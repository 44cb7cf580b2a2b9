/**
 * The steps of AES on the 16 bytes of its state, for the machines that have them as instructions.
 *
 * Source: FIPS 197.
 */

/** Product of bytes in AES's field. */
function fieldProduct(a: number, b: number): number {
  let product = 0;
  for (let bit = 7; bit >= 0; bit--) {
    product = (product << 1) ^ ((product & 0x80) === 0 ? 0 : 0x11b);
    if (((b >> bit) & 1) === 1) product ^= a;
  }
  return product;
}

interface SubstitutionBoxes {
  readonly forward: readonly number[];
  readonly backward: readonly number[];
}
let boxes: SubstitutionBoxes | null = null;

/** FIPS 197, 5.1.1: the inverse in the field, then an affine map. */
function substitution(): SubstitutionBoxes {
  if (boxes) return boxes;
  const forward = Array.from({ length: 256 }, (_, value) => {
    let inverse = 1;
    // The inverse is the 254th power.
    for (let i = 0; i < 254; i++) inverse = fieldProduct(inverse, value);
    const turned = inverse * 0x101;
    return (inverse ^ (turned >> 7) ^ (turned >> 6) ^ (turned >> 5) ^ (turned >> 4) ^ 0x63) & 0xff;
  });
  const backward = new Array<number>(256).fill(0);
  forward.forEach((to, from) => {
    backward[to] = from;
  });
  boxes = { forward, backward };
  return boxes;
}

/** Byte 4c + r is row r of column c; row r comes from `direction` * r columns on. */
const shiftedRows = (bytes: readonly number[], direction: 1 | -1): number[] =>
  bytes.map((_, i) => bytes[(i + 16 + direction * 4 * (i % 4)) % 16]!);

/** SubBytes. */
export const substituted = (bytes: readonly number[]): number[] => bytes.map((each) => substitution().forward[each]!);

/** SubBytes and ShiftRows, and the inverse of the two. */
export const encrypted = (bytes: readonly number[]): number[] => substituted(shiftedRows(bytes, 1));
export const decrypted = (bytes: readonly number[]): number[] =>
  shiftedRows(bytes, -1).map((each) => substitution().backward[each]!);

/** MixColumns by the first row of its matrix. */
const mixedBy = (bytes: readonly number[], row: readonly number[]): number[] =>
  bytes.map((_, i) => {
    const column = bytes.slice(i - (i % 4), i - (i % 4) + 4);
    return column.reduce((sum, each, r) => sum ^ fieldProduct(each, row[(r - (i % 4) + 4) % 4]!), 0);
  });
export const mixedColumns = (bytes: readonly number[]): number[] => mixedBy(bytes, [2, 3, 1, 1]);
export const unmixedColumns = (bytes: readonly number[]): number[] => mixedBy(bytes, [14, 11, 13, 9]);
