/**
 * What a lifter knows of earlier instructions of a block, against what it cannot know: random
 * instructions are executed as one block and, on another machine, one at a time. Nothing here
 * imports jest, so that scripts can use it.
 */
import { Machine } from '../../src/emulator/index.js';
import type { Lifter } from '../../src/emulator/index.js';
import { OPS } from '../../src/machine/ir.js';
import { readsOf, writesOf } from '../../src/emulator/region-flow.js';
import { differences, randomNumbers } from './tiers.js';

const CODE = 0x1_0000n;
const DATA = 0x10_0000n;
const DATA_BYTES = 0x2000;
/** Values at which conditions change. */
const CORNERS = [0n, 1n, 0x7fn, 0x80n, 0xffn, 0x7fff_ffffn, 0x8000_0000n, 0xffff_ffffn, 1n << 63n, (1n << 64n) - 1n];

/**
 * Instructions by what they are lifted to: of each sort some. Sorts that access memory, most of
 * which fault, and the others; of these those that write condition records, and those that read
 * them.
 */
interface Pool {
  readonly plain: readonly (readonly Uint8Array[])[];
  readonly accesses: readonly (readonly Uint8Array[])[];
  readonly writers: readonly (readonly Uint8Array[])[];
  readonly readers: readonly (readonly Uint8Array[])[];
}

/** Random bytes that are tried; `scripts/soak-tiers.ts` tries more. */
const TRIES = 50_000;
const PER_SORT = 8;

function poolOf(lifter: Lifter, most: number): Pool {
  const random = randomNumbers(7);
  const sorts = new Map<string, { list: Uint8Array[]; isAccess: boolean; reads: Set<number>; writes: Set<number> }>();
  const records = new Set<number>();
  for (let tries = 0; tries < most; tries++) {
    const bytes = Uint8Array.from({ length: 16 }, () => random(256));
    const { ops, terminator, end, instructions } = lifter.lift(bytes, CODE, {
      maxInstructions: 1,
      startsAt: () => false,
    });
    if (instructions.length !== 1 || terminator.kind !== 'jmp' || terminator.pc !== end) continue;
    const name = ops.map(({ op }) => op).join(' ');
    let sort = sorts.get(name);
    if (!sort) {
      const isAccess = ops.some(({ op }) => OPS[op].form === 'load' || OPS[op].form === 'store');
      sorts.set(name, (sort = { list: [], isAccess, reads: new Set(), writes: new Set() }));
    }
    if (sort.list.length === PER_SORT) continue;
    sort.list.push(bytes.slice(0, Number(end - CODE)));
    for (const op of ops) {
      readsOf(op, (slot) => sort.reads.add(slot));
      writesOf(op, (slot) => {
        sort.writes.add(slot);
        if (OPS[op.op].form === 'record') records.add(slot);
      });
    }
  }
  const found = [...sorts.values()];
  const lists = (wanted: (sort: (typeof found)[number]) => boolean): Uint8Array[][] =>
    found.filter(wanted).map(({ list }) => list);
  const touches = (slots: ReadonlySet<number>): boolean => [...slots].some((slot) => records.has(slot));
  return {
    plain: lists(({ isAccess }) => !isAccess),
    accesses: lists(({ isAccess }) => isAccess),
    writers: lists(({ isAccess, writes }) => !isAccess && touches(writes)),
    readers: lists(({ isAccess, reads }) => !isAccess && touches(reads)),
  };
}

const pools = new Map<Lifter, Pool>();

export interface OneBlockRun {
  readonly instructions: number;
  /** Code and differences. */
  readonly differing: readonly string[];
}

/** So many random sequences of two to seven instructions. The same seed does the same. */
export function oneBlock(lifter: Lifter, seed: number, sequences: number, tries = TRIES): OneBlockRun {
  let pool = pools.get(lifter);
  if (!pool) pools.set(lifter, (pool = poolOf(lifter, tries)));
  const { plain, accesses, writers, readers } = pool;
  const random = randomNumbers(seed * 7919 + 3);
  const pick = <T>(list: readonly T[]): T => list[random(list.length)]!;
  const sorts = (index: number): readonly (readonly Uint8Array[])[] => {
    const kind = random(16);
    const wanted = kind === 0 ? accesses : kind < 4 ? plain : index === 0 ? writers : readers;
    return wanted.length === 0 ? plain : wanted;
  };
  const machines = [new Machine({ lifter, tier: 0 }), new Machine({ lifter, tier: 0 })] as const;
  const [block, single] = machines;
  for (const machine of machines) {
    machine.map({ address: CODE, size: 0x1000, permission: 'rwx' });
    machine.map({ address: DATA, size: DATA_BYTES, permission: 'rw' });
  }
  const registers = block.registerNames.filter((name) => name !== 'pc');
  const value = (): bigint => {
    const kind = random(20);
    if (kind < 4) return pick(CORNERS);
    if (kind < 9) return DATA + BigInt(random(DATA_BYTES));
    return (BigInt(random(2 ** 32)) << 32n) | BigInt(random(2 ** 32));
  };
  const differing: string[] = [];
  let instructions = 0;
  for (let i = 0; i < sequences; i++) {
    const list = Array.from({ length: 2 + random(6) }, (_, index) => pick(pick(sorts(index))));
    const code = Buffer.concat(list);
    // Some, and all at first: what they have is left over from the sequence before.
    for (const name of registers) {
      if (i > 0 && random(3) === 0) continue;
      // Not the trap flag of x86, with which nothing is executed.
      block.setRegister(name, name === 'rflags' ? value() & ~0x100n : value());
      single.setRegister(name, block.register(name));
    }
    for (const machine of machines) {
      machine.memory.write(CODE, code);
      machine.setRegister('pc', CODE);
    }
    const before = block.instructions;
    const stop = block.run({ budget: list.length });
    let last = stop;
    for (let n = 0; n < list.length; n++) {
      last = single.run({ budget: 1 });
      if (last.kind !== 'step-limit') break;
    }
    instructions += block.instructions - before;
    const found = differences(block, single);
    if (stop.kind !== last.kind) found.push(`${stop.kind} and ${last.kind}`);
    if (found.length === 0) continue;
    differing.push(`${list.map((each) => Buffer.from(each).toString('hex')).join(' ')}: ${found.join('; ')}`);
    // Later sequences would differ for the same reason.
    if (differing.length === 5) break;
    for (const name of registers) single.setRegister(name, block.register(name));
  }
  if (differing.length === 0) differing.push(...differences(block, single, true));
  return { instructions, differing };
}
