/**
 * Conditions of A64: sixteen numbers on the four flags, of which the lowest bit inverts the other
 * three (but for "always", which has two numbers).
 */

/**
 * Conditions by number without the lowest bit, which inverts them: eq, cs, mi, vs, hi, ge, gt, al.
 */
export const [EQ, CS, MI, VS, HI, GE, GT, AL] = [0, 1, 2, 3, 4, 5, 6, 7] as const;

/** True where the four flags fulfil a condition (Arm ARM, ConditionHolds). */
export function conditionHolds(condition: number, nzcv: number): boolean {
  const [n, z, c, v] = [(nzcv & 8) !== 0, (nzcv & 4) !== 0, (nzcv & 2) !== 0, (nzcv & 1) !== 0];
  const holds = [z, c, n, v, c && !z, n === v, n === v && !z, true][condition >> 1]!;
  return condition >> 1 === AL ? true : holds !== ((condition & 1) === 1);
}
