/** What a machine's world did not do as Linux does it: a list that is part of the state. */
import type { Deviation } from './stops.js';
import type { Address } from '../units.js';

export class Deviations {
  /** By kind, what and why. */
  private readonly noted = new Map<string, Deviation>();
  /** Called when a kind comes up for the first time. */
  observer: ((deviation: Deviation) => void) | null = null;

  /** One entry a kind, in the order in which it came up. */
  get all(): readonly Deviation[] {
    return [...this.noted.values()];
  }

  note(deviation: Omit<Deviation, 'instruction' | 'count'>, instruction: Address): void {
    const key = `${deviation.kind} ${deviation.what}: ${deviation.why}`;
    const known = this.noted.get(key);
    const first = known ?? deviation;
    const noted = {
      ...deviation,
      ...(first.arguments && { arguments: first.arguments }),
      instruction: known?.instruction ?? instruction,
      count: (known?.count ?? 0) + 1,
    };
    this.noted.set(key, noted);
    if (!known) this.observer?.(noted);
  }

  save(): ReadonlyMap<string, Deviation> {
    return new Map(this.noted);
  }

  restore(saved: ReadonlyMap<string, Deviation>): void {
    this.noted.clear();
    for (const [key, each] of saved) this.noted.set(key, each);
  }
}
