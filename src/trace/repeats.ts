/**
 * A proof that a program does not end: it comes to one place with the same state again and again.
 * Watches some registers at one address; memory is not compared, so the caller names registers that
 * decide what happens there.
 */
import type { Machine } from '../emulator/index.js';
import type { Address, RegisterName } from '../units.js';

export interface Repeats {
  /** The state that came back, and how often it was there; null while none did often enough. */
  readonly repeated: { readonly times: number; readonly state: Readonly<Record<RegisterName, bigint>> } | null;
  /** Takes the watch off. */
  remove(): void;
}

/** Stops the machine when it is at `address` for the `times`-th time with equal registers. */
export function watchRepeats(
  machine: Machine,
  address: Address,
  registers: readonly RegisterName[],
  times: number,
): Repeats {
  const counts = new Map<string, number>();
  let repeated: Repeats['repeated'] = null;
  const remove = machine.hook(address, () => {
    const state = Object.fromEntries(registers.map((name) => [name, machine.register(name)]));
    const key = registers.map((name) => state[name]!.toString(16)).join(' ');
    const count = (counts.get(key) ?? 0) + 1;
    counts.set(key, count);
    if (count < times) return 'continue';
    repeated = { times: count, state };
    return 'stop';
  });
  return {
    get repeated() {
      return repeated;
    },
    remove,
  };
}
