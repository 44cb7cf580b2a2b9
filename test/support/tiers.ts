/**
 * Two machines in step, one for each tier: after every slice registers, counts and the ways they
 * stopped must be the same, at the end memory too. Nothing here imports jest, so that scripts can
 * use it.
 */
import { compareStates, Machine } from '../../src/emulator/index.js';
import { startHere } from './c-programs.js';
import type { PpcTarget } from './c-programs.js';
import type { KeptTranslations, Lifter, Snapshot, StopReason } from '../../src/emulator/index.js';
import type { Process } from '../../src/guest/index.js';

/** Numbers of a linear congruential generator, 0 to `below` - 1. */
export function randomNumbers(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 0x1_0000_0000) * below);
  };
}

const text = (value: unknown): string =>
  JSON.stringify(value, (_key, each: unknown) => (typeof each === 'bigint' ? `0x${each.toString(16)}` : each));

/**
 * What differs between two machines, as words; empty when nothing does. Memory only when asked for:
 * it takes long.
 */
export function differences(a: Machine, b: Machine, memory = false): string[] {
  if (memory) return compareStates(a.snapshot(), b.snapshot()).map(text);
  const out: string[] = [];
  for (const name of a.registerNames) {
    const [x, y] = [a.register(name), b.register(name)];
    if (x !== y) out.push(`${name}: 0x${x.toString(16)} and 0x${y.toString(16)}`);
  }
  if (a.instructions !== b.instructions) out.push(`${a.instructions} and ${b.instructions} instructions`);
  return out;
}

export interface InStep {
  readonly stop: StopReason;
  readonly slices: number;
  /** The first slice after which the machines differ; empty: none. */
  readonly differing: readonly string[];
}

/** Runs both by slices whose sizes `size` chooses, until both stop or differ. */
function inStep(
  a: Pick<Process, 'machine' | 'run'>,
  b: Pick<Process, 'machine' | 'run'>,
  size: () => number,
  maxSlices = Number.MAX_SAFE_INTEGER,
): InStep {
  for (let slices = 1; ; slices++) {
    const budget = size();
    const pc = a.machine.register('pc');
    const [x, y] = [a.run({ budget }), b.run({ budget })];
    const differing = differences(a.machine, b.machine);
    if (text(x) !== text(y)) differing.push(`${text(x)} and ${text(y)}`);
    const ended = x.kind !== 'step-limit' || slices >= maxSlices;
    if (differing.length === 0 && ended) differing.push(...differences(a.machine, b.machine, true));
    if (differing.length > 0) differing.push(`in slice ${slices} of ${budget} from 0x${pc.toString(16)}`);
    if (ended || differing.length > 0) return { stop: x, slices, differing };
  }
}

/** A compiled program in both tiers, compared after slices of random sizes: what differs. */
export function tiersInStep(target: PpcTarget, path: string): readonly string[] {
  const start = (tier: 0 | 1): Process => startHere(target, path, [], { tier }).process;
  const random = randomNumbers(1);
  return inStep(start(0), start(1), () => 1 + random(random(4) === 0 ? 100 : 100_000)).differing;
}

// --------------------------------------------------------------------------------- random programs

type Random = (below: number) => number;

const CODE = 0x1_0000n;
const CODE_BYTES = 0x800;
/**
 * Three windows in a row, so that accesses cross from one to the next; the last one is read-only at
 * first.
 */
const DATA = 0x10_0000n;
const DATA_BYTES = 0x8000;
const WINDOWS = 3;

/** Instructions of a machine, found by trying random bytes. */
interface Pool {
  /**
   * Those that compute; those that access memory through an anchor, near it; those that do so in
   * other ways.
   */
  readonly plain: readonly Uint8Array[];
  readonly near: readonly Uint8Array[];
  readonly far: readonly Uint8Array[];
  readonly branches: readonly Uint8Array[];
  readonly others: readonly Uint8Array[];
  /** Registers that point to data and that few instructions change. */
  readonly anchors: ReadonlySet<string>;
}

function poolOf(lifter: Lifter, random: Random): Pool {
  const pool = {
    plain: new Array<Uint8Array>(),
    near: new Array<Uint8Array>(),
    far: new Array<Uint8Array>(),
    branches: new Array<Uint8Array>(),
    others: new Array<Uint8Array>(),
  };
  const { slots } = lifter;
  const general = lifter.registers.filter(({ name }) => /^(r|x|a|s|t)[a-z0-9]{1,2}$/.test(name) && slots.has(name));
  const anchors = new Set(general.filter((_, i) => i % 3 === 1).map(({ name }) => name));
  const anchorSlots = new Set([...anchors].map((name) => slots.slot(name)));
  const limits = { maxInstructions: 1, startsAt: () => false } as const;
  const add = (list: keyof typeof pool, bytes: Uint8Array): void => {
    if (pool[list].length < 3000) pool[list].push(bytes);
  };
  for (let tries = 0; tries < 150_000 && pool.near.length < 1500; tries++) {
    const bytes = Uint8Array.from({ length: 16 }, () => random(256));
    const { ops, terminator, end, instructions } = lifter.lift(bytes, CODE, limits);
    if (instructions.length !== 1) continue;
    const own = bytes.slice(0, Number(end - CODE));
    const near = (pc: bigint): boolean => pc > CODE - 400n && pc < CODE + 400n;
    switch (terminator.kind) {
      case 'br':
      case 'call':
        if (near(terminator.pc)) add('branches', own);
        break;
      case 'jmp': {
        if (terminator.pc !== end) {
          if (near(terminator.pc)) add('branches', own);
          break;
        }
        const accesses = ops.filter((op) => /^(ld|st)/.test(op.op));
        const isNear = accesses.every(
          ({ a, b }) =>
            typeof a === 'number' &&
            anchorSlots.has(a) &&
            typeof b === 'bigint' &&
            BigInt.asIntN(32, b + 0x2000n) >= 0n &&
            b + 0x2000n < 0x4000n,
        );
        const spoils = ops.some((op) => !/^st/.test(op.op) && anchorSlots.has(op.d));
        add(accesses.length > 0 && !isNear ? 'far' : spoils ? 'far' : accesses.length > 0 ? 'near' : 'plain', own);
        break;
      }
      case 'ret':
      case 'ind':
      case 'calli':
      case 'helper':
        add('others', own);
        break;
      case 'unknown':
      case 'trap':
      case 'fetch':
      case 'sync':
        break;
      default:
        terminator satisfies never;
    }
  }
  return { ...pool, anchors };
}

const pools = new Map<string, Pool>();

/** What random programs found. */
export interface RandomRun {
  readonly instructions: number;
  readonly stops: ReadonlyMap<string, number>;
  readonly patches: number;
  readonly compiled: number;
  /** Empty when both tiers did the same. */
  readonly differing: readonly string[];
}

/**
 * One random program on two machines, one for each tier, with everything that may happen to a
 * program between two slices: registers and code are changed, hooks and watches come and go, memory
 * is mapped anew, CPUs are switched, snapshots restored. The same seed does the same.
 * @param kept  translations that the compiled one takes and adds to
 */
export function randomProgram(
  name: string,
  lifter: Lifter,
  seed: number,
  steps: number,
  kept?: KeptTranslations,
): RandomRun {
  let pool = pools.get(name);
  if (!pool) {
    pool = poolOf(lifter, randomNumbers(7));
    pools.set(name, pool);
  }
  const { anchors } = pool;
  const random = randomNumbers(seed * 7919 + 1);
  const pick = <T>(list: readonly T[]): T => list[random(list.length)]!;
  const instruction = (): Uint8Array => {
    const kind = random(200);
    const list = kind < 24 ? 'branches' : kind < 26 ? 'others' : kind < 30 ? 'far' : kind < 90 ? 'near' : 'plain';
    return pick(pool[list].length > 0 ? pool[list] : pool.plain);
  };
  const events: [string[], string[]] = [[], []];
  const tier = random(4) === 0 ? ({ tier: 'auto', tierUpAfter: 300 } as const) : ({ tier: 1 } as const);
  const machines = [new Machine({ lifter, tier: 0 }), new Machine({ lifter, ...tier, ...(kept && { kept }) })] as const;
  const both = (act: (machine: Machine, which: 0 | 1) => void): void => {
    act(machines[0], 0);
    act(machines[1], 1);
  };
  const code = new Uint8Array(CODE_BYTES);
  /** Where instructions begin. */
  const begins: bigint[] = [];
  for (let at = 0; at < CODE_BYTES;) {
    const own = instruction();
    begins.push(CODE + BigInt(at));
    code.set(own.subarray(0, CODE_BYTES - at), at);
    at += own.length;
  }
  const register = (anchor: boolean): bigint => {
    const kind = random(anchor ? 12 : 20);
    if (kind === 0) return DATA + BigInt(DATA_BYTES * (1 + random(WINDOWS - 1)) - 32 + random(64));
    if (kind < 12) return DATA + BigInt(random(DATA_BYTES * WINDOWS));
    if (kind < 13) return CODE + BigInt(random(CODE_BYTES));
    if (kind < 17) return BigInt(random(64));
    if (kind < 18) return -BigInt(random(3000));
    return (BigInt(random(0x1_0000_0000)) << 32n) | BigInt(random(0x1_0000_0000));
  };
  const names = machines[0].registerNames.filter((each) => each !== 'pc' && each !== 'mxcsr');
  const setRegisters = (share: number): void => {
    for (const each of names) {
      if (random(100) >= share) continue;
      const value = register(anchors.has(each));
      both((machine) => {
        machine.setRegister(each, BigInt.asUintN(64, value));
      });
    }
  };
  const starts = Array.from({ length: 12 }, () => pick(begins));
  const setPc = (): void => {
    const pc = pick(starts);
    both((machine) => {
      machine.setRegister('pc', pc);
    });
  };
  both((machine) => {
    machine.load(CODE, code, { permission: 'rwx' });
    for (let i = 0; i < WINDOWS; i++) {
      const permission = i === WINDOWS - 1 ? 'r' : 'rw';
      machine.map({ address: DATA + BigInt(i * DATA_BYTES), size: DATA_BYTES, permission });
    }
    machine.addCpu();
  });
  setRegisters(100);
  setPc();
  const stops = new Map<string, number>();
  let patches = 0;
  const added: { readonly off: readonly [() => void, () => void] }[] = [];
  let saved: readonly [Snapshot, Snapshot] | null = null;
  const happen = (): void => {
    switch (random(16)) {
      case 0:
      case 1:
      case 2: {
        const [address, bytes] = [pick(begins.slice(0, -8)), instruction()];
        patches++;
        both((machine) => {
          machine.memory.write(address, bytes);
        });
        return;
      }
      case 3: {
        const address = pick(begins);
        const stop = random(5) === 0;
        const hook = (which: 0 | 1): (() => void) =>
          machines[which].hook(address, (machine) => {
            events[which].push(
              `hook ${text(address)} after ${machine.instructions}: ${text(machine.register(names[1]!))}`,
            );
            return stop ? 'stop' : 'continue';
          });
        added.push({ off: [hook(0), hook(1)] });
        return;
      }
      case 4: {
        const address = DATA + BigInt(random(DATA_BYTES * WINDOWS));
        const access = pick(['read', 'write', 'any'] as const);
        const [size, stop] = [1 + random(64), random(5) === 0];
        const watch = (which: 0 | 1): (() => void) =>
          machines[which].watch({ address, size, access }, (machine, event) => {
            events[which].push(`${text({ ...event, bytes: [...(event.bytes ?? [])] })} after ${machine.instructions}`);
            return stop ? 'stop' : 'continue';
          });
        added.push({ off: [watch(0), watch(1)] });
        return;
      }
      case 5:
      case 6: {
        const [one] = added.splice(random(Math.max(1, added.length)), 1);
        one?.off[0]();
        one?.off[1]();
        return;
      }
      case 7: {
        const address = DATA + BigInt(random((DATA_BYTES * WINDOWS) / 0x1000) * 0x1000);
        const permission = pick(['r', 'rw', 'rw', 'rw', 'rwx', 'none'] as const);
        both((machine) => {
          machine.memory.protect(address, 0x1000 * 2, permission);
        });
        return;
      }
      case 8: {
        const which = random(WINDOWS);
        both((machine) => {
          const address = DATA + BigInt(which * DATA_BYTES);
          machine.memory.unmap(address, DATA_BYTES);
          machine.map({ address, size: DATA_BYTES, permission: 'rw' });
        });
        return;
      }
      case 9:
        both((machine) => {
          machine.switchTo(1 - machine.cpu);
        });
        setRegisters(50);
        setPc();
        return;
      case 10:
        saved = [machines[0].snapshot(), machines[1].snapshot()];
        return;
      case 11: {
        const from = saved;
        if (from)
          both((machine, which) => {
            machine.restore(from[which]);
          });
        return;
      }
      default:
        setRegisters(20);
        if (random(3) === 0) setPc();
    }
  };
  let differing: string[] = [];
  for (let step = 0; step < steps && differing.length === 0; step++) {
    const budget = random(4) === 0 ? 1 + random(12) : 1 + random(2500);
    const pc = machines[0].register('pc');
    // A machine that has translated nothing yet: what is stale in both tiers would be the same in
    // both.
    const fresh = added.length === 0 && random(8) === 0 ? new Machine({ lifter, tier: 0 }) : null;
    fresh?.restore(machines[0].snapshot());
    const reasons = machines.map((each) => text({ ...each.run({ budget }), watch: undefined }));
    differing = differences(...machines);
    if (fresh) {
      const reason = text({ ...fresh.run({ budget }), watch: undefined });
      differing.push(...differences(machines[0], fresh).map((each) => `a fresh machine: ${each}`));
      if (reason !== reasons[0]) differing.push(`${reasons[0]!}, a fresh machine ${reason}`);
    }
    if (reasons[0] !== reasons[1]) differing.push(reasons.join(' and '));
    if (text(events[0]) !== text(events[1])) {
      const at = events[0].findIndex((each, i) => each !== events[1][i]);
      differing.push(`event ${at}: ${String(events[0][at])} and ${String(events[1][at])}`);
    }
    if (random(10) === 0 && differing.length === 0) differing = differences(...machines, true);
    if (differing.length > 0) differing.push(`step ${step} of seed ${seed}, ${budget} instructions from ${text(pc)}`);
    const kind = /"kind":"([\w-]+)"/.exec(reasons[0]!)?.[1] ?? '';
    stops.set(kind, (stops.get(kind) ?? 0) + 1);
    if (kind !== 'step-limit' && kind !== 'hook') {
      setRegisters(60);
      setPc();
    }
    if (random(3) === 0) happen();
  }
  const { instructions } = machines[0];
  return { instructions, stops, patches, compiled: machines[1].compiledCounts?.compiled ?? 0, differing };
}
