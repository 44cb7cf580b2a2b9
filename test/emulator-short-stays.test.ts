/** What short stays in compiled code lose, and when a region is given up for it. */
import { expect, test } from '@jest/globals';
import { Balance, lostIn, MOST_LOST } from '../src/emulator/short-stays.js';

/** Stays of 100 instructions until a region is given up. */
function staysUntilGivenUp(isWithin: boolean): number {
  const balance = new Balance();
  for (let stays = 1; ; stays++)
    if (
      balance.add(
        lostIn(100, () => isWithin),
        1,
      ) >= MOST_LOST
    )
      return stays;
}

test('what ends in another function is borne three times as long as what ends in its own', () => {
  const own = staysUntilGivenUp(true);
  const others = staysUntilGivenUp(false);
  expect(others).toBeGreaterThanOrEqual(3 * own - 3);
  expect(others).toBeLessThan(4 * own);
});

test('long stays gain the same wherever they end, and a region that was made meanwhile makes all good', () => {
  expect(lostIn(1000, () => true)).toBe(lostIn(1000, () => false));
  expect(lostIn(1000, () => true)).toBeLessThan(0);
  const balance = new Balance();
  balance.add(MOST_LOST - 1, 1);
  expect(balance.isLoss(1)).toBe(true);
  expect(balance.add(10, 2)).toBe(10);
});
