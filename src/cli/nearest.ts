/** The known word that a mistyped one was meant to be. */

/**
 * Edits that make one word the other: letters put in, left out, exchanged, or swapped with their
 * neighbour.
 */
function distance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min(row[j - 1]! + 1, last[j]! + 1, last[j - 1]! + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        best = Math.min(best, beforeLast[j - 2]! + 1);
      row.push(best);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length]!;
}

/**
 * Known words that begin with this one; where none does, the nearest ones within a third of its
 * letters (two at least).
 */
function nearest(word: string, known: Iterable<string>): string[] {
  const words = [...new Set(known)].sort();
  const begun = word.length < 2 ? [] : words.filter((each) => each.startsWith(word));
  if (begun.length > 0) return begun;
  const far = words.map((each) => ({ each, edits: distance(word.toLowerCase(), each.toLowerCase()) }));
  const least = Math.min(...far.map(({ edits }) => edits));
  const allowed = Math.max(2, Math.floor(word.length / 3));
  if (least > allowed || least >= word.length) return [];
  return far.filter(({ edits }) => edits === least).map(({ each }) => each);
}

/** `; did you mean --enable?`, or nothing. */
export function didYouMean(word: string, known: Iterable<string>, prefix = ''): string {
  const found = nearest(word, known).map((each) => prefix + each);
  if (found.length === 0) return '';
  const last = found.pop()!;
  return `; did you mean ${found.length === 0 ? last : `${found.join(', ')} or ${last}`}?`;
}
