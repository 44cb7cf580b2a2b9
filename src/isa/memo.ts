/**
 * What is found once. Code has the same instruction words in many places, even a small program half
 * of its own; and a program needs the tables of one machine, while every start would pay for those
 * of all.
 */

/** A function that gives what `make` gives, made when it is first asked for. */
export function lazily<Value extends object>(make: () => Value): () => Value {
  let made: Value | undefined;
  return () => (made ??= make());
}

/** Most words that are remembered; then all are forgotten. */
const MOST_WORDS = 4096;

export class WordMemo<Meaning extends object> {
  private readonly known = new Map<number, Meaning>();

  /** @param make  what a word means; the same whenever it is asked */
  constructor(private readonly make: (word: number) => Meaning) {}

  of(word: number): Meaning {
    const known = this.known.get(word);
    if (known) return known;
    const made = this.make(word);
    if (this.known.size >= MOST_WORDS) this.known.clear();
    this.known.set(word, made);
    return made;
  }
}
