/**
 * The account of a trial that failed (PV-4): it is done once more, instruction by instruction, and
 * both ways are written down, with the instruction that wrote what differs.
 */
import type { Address } from '../units.js';
import type { Begun } from './state.js';
import type { Difference, Pair, Trial } from './trial.js';
import type { Account, Executed } from './verdict.js';
import type { ProofWorld } from './world.js';

/** Instructions of a way that are followed. */
const LONGEST = 20_000;
/** Of them, how many are kept: the last ones, which lead to the difference. */
const KEPT = 400;

/** Reads what differs; null: it is nothing that an instruction writes. */
function probeOf(difference: Difference): ((world: ProofWorld) => bigint) | null {
  if (difference.what === 'register') return ({ machine }) => machine.register(difference.name);
  if (difference.what === 'memory') return (world) => BigInt(world.read(difference.address, 1)[0]!);
  return null;
}

interface Way {
  readonly executed: Executed[];
  /** Number of the instruction after which the value changed last; -1: it never did. */
  readonly writer: number;
}

function follow(world: ProofWorld, end: Address, difference: Difference): Way {
  const { machine } = world;
  const probe = probeOf(difference);
  let executed: Executed[] = [];
  let writer = -1;
  let dropped = 0;
  let value = probe?.(world) ?? 0n;
  for (let n = 0; n < LONGEST; n++) {
    const address = machine.register('pc');
    if (address === end) break;
    const stop = world.run(1);
    if (stop.kind !== 'step-limit') break;
    executed.push({ address, bytes: world.read(address, 8) });
    const now = probe?.(world) ?? 0n;
    if (now !== value) {
      value = now;
      writer = dropped + executed.length - 1;
    }
    if (executed.length >= 2 * KEPT) {
      dropped += executed.length - KEPT;
      executed = executed.slice(-KEPT);
    }
  }
  return { executed: executed.slice(-KEPT), writer: writer - dropped - Math.max(0, executed.length - KEPT) };
}

/**
 * Follows both ways of a failed trial to the place behind the site.
 * @param begin  brings both worlds into the state that the trial began with
 */
export function giveAccount(
  pair: Pair,
  trial: Trial,
  found: Pick<Account, 'seed' | 'entry' | 'phase' | 'difference'>,
  begin: () => Begun,
): Account {
  begin();
  const a = follow(pair.original, trial.end, found.difference);
  const b = follow(pair.patched, trial.end, found.difference);
  const writer =
    b.writer >= 0
      ? ({ side: 'patched', at: b.writer } as const)
      : a.writer >= 0
        ? ({ side: 'original', at: a.writer } as const)
        : null;
  return { ...found, original: a.executed, patched: b.executed, writer };
}
