/**
 * The account of a difference as a reader wants it: both ways side by side, cut to what matters,
 * and the rule that forbids the difference.
 */
import type { Account, Executed } from './verdict.js';

/** What both ways did at one place, or one of them alone; or so many rows that are left out. */
export type WayRow =
  | {
      readonly original: Executed | null;
      readonly patched: Executed | null;
      /** The side whose instruction wrote what differs. */
      readonly writes: 'original' | 'patched' | null;
    }
  | { readonly skipped: number };

/** Rows that are always shown: at the begin, at the end, on either side of the writer. */
const SHOWN = { begin: 6, end: 12, around: 4 };

/** Both ways with instructions at the same address beside each other, in order. */
function aligned({ original, patched, writer }: Account): Exclude<WayRow, { skipped: number }>[] {
  const rows: Exclude<WayRow, { skipped: number }>[] = [];
  const add = (a: number, b: number): void => {
    const writes = writer === null || (writer.side === 'original' ? a : b) !== writer.at ? null : writer.side;
    rows.push({ original: original[a] ?? null, patched: patched[b] ?? null, writes });
  };
  const places = new Map<bigint, number[]>();
  patched.forEach(({ address }, i) => places.set(address, [...(places.get(address) ?? []), i]));
  let next = 0;
  original.forEach(({ address }, i) => {
    const same = places.get(address)?.find((at) => at >= next) ?? -1;
    for (; next < same; next++) add(-1, next);
    add(i, same);
    if (same >= 0) next = same + 1;
  });
  for (; next < patched.length; next++) add(-1, next);
  return rows;
}

/** Both ways side by side; rows in the middle that say little are counted. */
export function waysOf(account: Account): readonly WayRow[] {
  const rows = aligned(account);
  const writer = rows.findIndex(({ writes }) => writes !== null);
  const shows = (i: number): boolean =>
    i < SHOWN.begin || i >= rows.length - SHOWN.end || (writer >= 0 && Math.abs(i - writer) <= SHOWN.around);
  const shown: WayRow[] = [];
  let skipped = 0;
  const { at, count } = account.gap;
  for (const [i, row] of rows.entries()) {
    if (count > 0 && row.patched !== null && row.patched === account.patched[at]) skipped += count;
    if (!shows(i)) {
      skipped++;
      continue;
    }
    if (skipped > 0) shown.push({ skipped });
    skipped = 0;
    shown.push(row);
  }
  return shown;
}

/** The rule that a difference breaks: its id, and what it says in a sentence. */
export function ruleOf({ difference, phase }: Account): { readonly id: string; readonly says: string } {
  const isBack = phase === 'return';
  const id = isBack ? 'PV-2' : 'PV-1';
  switch (difference.what) {
    case 'register':
      return {
        id,
        says: isBack
          ? 'the function comes back with the registers of its caller and with its results as in the original'
          : 'behind a site each register holds what it holds in the original, but for those that are dead there',
      };
    case 'memory':
      return { id, says: 'a patch writes to its own data and below the stack pointer, and nowhere else' };
    case 'stop':
      return {
        id,
        says: isBack
          ? 'both functions come back to their caller'
          : 'both come to the first instruction behind the site, or stop at the same place',
      };
    default:
      return {
        id,
        says: isBack
          ? 'the return of the function is taken, and told with its place and its caller'
          : 'what was asked for happens once at each site, with its ip, parent, ops and registers',
      };
  }
}
