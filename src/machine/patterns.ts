/**
 * Instructions as bits that they have in common, so that what a machine looks for in the code
 * around a site is a table, and the looking is the same for all machines.
 */

/** Code around a place, by the distance from it: 2 and 4 bytes, -1 where there is none. */
export interface CodeAround {
  u16(delta: number): number;
  u32(delta: number): number;
  functionAt(delta: number): boolean;
}

/** Instructions of one size: those whose bits in `mask` are `match`. */
export interface CodePattern {
  readonly sizeBytes: 2 | 4;
  readonly mask: number;
  readonly match: number;
  /** A value that fits and is another instruction. */
  readonly except?: number;
}

/**
 * An instruction looked for from a site towards lower addresses: the nearest of `finds` that comes
 * before any of `stops`.
 */
export interface LookBack {
  readonly stepBytes: 2 | 4;
  readonly maxBytes: number;
  readonly finds: readonly CodePattern[];
  readonly stops: readonly CodePattern[];
  /** The first instruction of a function ends the search. */
  readonly untilFunction: boolean;
}

/** Whether a value read from code, -1 where there is none, fits one of the patterns. */
function fits(read: (sizeBytes: 2 | 4) => number, patterns: readonly CodePattern[]): CodePattern | undefined {
  return patterns.find(({ sizeBytes, mask, match, except }) => {
    const value = read(sizeBytes);
    return value !== -1 && value !== except && (value & mask) >>> 0 === match;
  });
}

/** Place and size of what is looked for, from the anchor of a site; null: it is not there. */
export function lookBack(
  { stepBytes, maxBytes, finds, stops, untilFunction }: LookBack,
  view: CodeAround,
): { readonly delta: number; readonly sizeBytes: number } | null {
  for (let delta = -stepBytes; delta >= -maxBytes; delta -= stepBytes) {
    const read = (sizeBytes: 2 | 4): number => (sizeBytes === 2 ? view.u16(delta) : view.u32(delta));
    if (read(stepBytes) === -1 || fits(read, stops) !== undefined) return null;
    const found = fits(read, finds);
    if (found !== undefined) return { delta, sizeBytes: found.sizeBytes };
    if (untilFunction && view.functionAt(delta)) return null;
  }
  return null;
}

/** Whether words, from the first on, fit a row of patterns one by one. */
export function fitsAll(word: (index: number) => number, row: readonly CodePattern[]): boolean {
  return row.every((each, i) => fits(() => word(i), [each]) !== undefined);
}
