/** Whether something that goes on by itself comes back to a state that it was in (Brent's way). */
export class Repetition {
  private count = 0;
  private power: number;
  private mark = '';

  /** @param patience  steps after which states are compared */
  constructor(private readonly patience: number) {
    this.power = patience;
  }

  /** Once more. @param keyOf  the state, which is not asked for each time */
  isBack(keyOf: () => string): boolean {
    this.count++;
    if (this.count < this.patience) return false;
    const key = keyOf();
    if (key === this.mark) return true;
    if (this.count === this.power) {
      this.mark = key;
      this.power *= 2;
    }
    return false;
  }
}
