/**
 * Runs of the tracer from drawn states: whether a mutant leaves what its code leaves (PV-5). They
 * begin where trials enter the tracer, with words of its data and registers drawn anew; those that
 * go a way no other went are drawn from again.
 */
import type { Pair } from '../../src/prove/compare.js';
import { Random } from '../../src/prove/random.js';
import { ProofWorld } from '../../src/prove/world.js';
import type { Program } from '../../src/program/program.js';
import type { Address, RegisterName } from '../../src/units.js';
import { DrawnData, type DrawnWord } from './drawn-data.js';
import type { Mutant } from './mutants.js';

/** Instructions of a run: many more than one has that does not go in circles. */
const BUDGET = 4000;
/** Instructions of a run in the mean: long runs are fewer. */
const MEAN = 400;
/** Entries of a trial at which runs begin. */
const ENTRIES = 3;
/** Most words that are drawn; a further one takes the place of another. */
const WORDS = 6;
/** Of a mutant in so many runs of an image nothing was seen: only some further ones have it. */
const ENOUGH = 300;
const SPARED = 8;
/** Below the stack pointer, where nothing is read any more. */
const DEAD_STACK = 1n << 16n;

export interface DrawnMutant {
  readonly key: string;
  readonly address: Address;
  readonly mutant: Mutant;
}

/** What runs said of a mutant. */
export interface DrawnSaid {
  /** Runs that came to it. */
  runs: number;
  /** By how many ways they did. */
  ways: number;
  /** A state that tells it apart, and what differs; null: none does. */
  difference: string | null;
}

/** Where a trial enters the tracer. */
interface Begin {
  readonly pc: Address;
  /** A function that was traced returns to it. */
  readonly isReturn: boolean;
  /** The site is an ordinary call. */
  readonly isCall: boolean;
  /** Callbacks of the site, which read four arguments. */
  readonly callbacks: ReadonlySet<Address>;
  readonly words: Uint32Array;
  readonly pages: readonly { readonly address: Address; readonly bytes: Uint8Array }[];
}

interface DrawnRegister {
  readonly name: RegisterName;
  readonly value: bigint;
}

/** A state that runs begin in. */
interface Item {
  readonly begin: Begin;
  readonly words: readonly DrawnWord[];
  readonly registers: readonly DrawnRegister[];
  /** Words that it reads. */
  reads: readonly Address[];
}

/** What a run left. */
interface Left {
  readonly how: string;
  readonly pc: Address;
  readonly stack: bigint;
  readonly words: Uint32Array;
  readonly pages: ReadonlyMap<Address, { readonly before: Uint8Array; readonly now: Uint8Array }>;
}

/** Where a run went: instructions, and pairs of those that follow each other. */
interface Way {
  readonly places: Set<Address>;
  readonly pairs: Set<string>;
}

export class DrawnRuns {
  private readonly begins: Begin[] = [];
  /** Instructions executed. */
  private steps = 0;
  private readonly data: DrawnData;
  private readonly random = new Random(0xd2a3);
  private readonly said = new Map<string, DrawnSaid & { readonly by: Set<string> }>();
  private readonly names: readonly RegisterName[];
  private readonly free: readonly RegisterName[];

  /** @param own  ranges of the tracer */
  constructor(
    private readonly pair: Pair,
    program: Program,
    private readonly own: readonly { readonly start: Address; readonly end: Address }[],
  ) {
    this.data = new DrawnData(program);
    const { abi, proof } = pair;
    this.names = pair.patched.machine.registerNames.filter((name) => name !== 'pc' && name !== abi.stackPointer);
    // The link register says which site it is.
    this.free = [...abi.argumentRegisters, ...(proof.savedLink === null ? [] : [proof.savedLink])];
  }

  private isOwn(address: Address): boolean {
    return this.own.some(({ start, end }) => address >= start && address < end);
  }

  /**
   * Notes where a trial enters the tracer.
   * @param site  what is known of its site
   */
  watch(site: Pick<Begin, 'isCall' | 'callbacks'>, trial: () => void): void {
    const { patched: world } = this.pair;
    let isInside = false;
    let count = 0;
    world.recorder = {
      step: ({ machine }) => {
        const isNow = this.isOwn(machine.pc);
        if (isNow && !isInside && count++ < ENTRIES) this.note({ ...site, isReturn: count > 1 });
        isInside = isNow;
      },
      turn: () => undefined,
    };
    trial();
    world.recorder = null;
  }

  private note(kind: Pick<Begin, 'isReturn' | 'isCall' | 'callbacks'>): void {
    const { patched: world } = this.pair;
    const { machine } = world;
    const pages = world.stored
      .filter(({ address }) => !world.layout.permission(address).includes('x'))
      .map(({ address }) => ({ address, bytes: world.page(address).now.slice() }));
    this.begins.push({ ...kind, pc: machine.pc, words: machine.stateWords.slice(), pages });
  }

  /**
   * Runs the code from drawn states, and each mutant to which it comes.
   * @param count  runs of the code without a mutant, at most
   */
  explore(mutants: readonly DrawnMutant[], count: number): ReadonlyMap<string, DrawnSaid> {
    // What the last trial left out is there.
    ProofWorld.leaveOut([this.pair.original, this.pair.patched], null);
    const at = new Map<Address, DrawnMutant[]>();
    for (const each of mutants) at.set(each.address, [...(at.get(each.address) ?? []), each]);
    const known = new Set<string>();
    const all: Item[] = this.begins.map((begin) => ({ begin, words: [], registers: [], reads: [] }));
    for (const item of all) this.tryItem(item, at, known);
    const { random } = this;
    for (let n = 0; n < count && this.steps < count * MEAN && all.length > 0; n++) {
      const recent = Math.min(all.length, 40);
      const base = all[random.below(3) > 0 ? all.length - 1 - random.below(recent) : random.below(all.length)]!;
      const item = this.drawn(base);
      if (item !== null && this.tryItem(item, at, known)) all.push(item);
    }
    this.pair.patched.reset();
    return this.said;
  }

  /** A state near another one. */
  private drawn(base: Item): Item | null {
    const { random, data, free } = this;
    const { patched: world } = this.pair;
    this.enter(base);
    const words = new Map(base.words.map((each) => [each.at, each]));
    const registers = new Map(base.registers.map((each) => [each.name, each]));
    const changes = random.below(2) === 0 ? 1 : 1 + random.below(3);
    for (let i = 0; i < changes; i++) {
      if (base.reads.length === 0 || random.below(6) === 0) {
        const name = free[random.below(free.length)]!;
        const other = free[random.below(free.length)]!;
        const kinds = [BigInt(random.below(2)), random.double(), world.machine.register(other), -1n];
        const bits = world.machine.lifter.addressBits;
        registers.set(name, { name, value: BigInt.asUintN(bits, kinds[random.below(kinds.length)]!) });
      } else {
        const at = base.reads[random.below(base.reads.length)]!;
        words.set(at, data.draw(world, at, base.reads, random));
      }
    }
    const kept = [...words.values()];
    while (kept.length > WORDS) kept.splice(random.below(kept.length), 1);
    return { begin: base.begin, words: kept, registers: [...registers.values()], reads: [] };
  }

  private enter({ begin, words, registers }: Item): void {
    const { patched: world } = this.pair;
    world.reset();
    world.machine.setState(begin.words, begin.pc);
    for (const { address, bytes } of begin.pages) world.write(address, bytes);
    for (const each of words) this.data.write(world, each);
    for (const { name, value } of registers) world.machine.setRegister(name, value);
    world.prepare(begin.pc);
  }

  /** Runs from a state to where the tracer is left. */
  private run(item: Item, way: Way | null): Left {
    const { patched: world, abi } = this.pair;
    const { machine } = world;
    this.enter(item);
    let how = 'left';
    let before = 0n;
    for (let n = 0; this.isOwn(machine.pc); n++) {
      if (n === BUDGET) {
        how = 'goes on';
        break;
      }
      const { pc } = machine;
      way?.places.add(pc);
      way?.pairs.add(`${before} ${pc}`);
      before = pc;
      this.steps++;
      const stop = world.run(1);
      if (stop.kind === 'step-limit') continue;
      how = stop.kind === 'fault' ? `fault ${stop.access}` : stop.kind;
      break;
    }
    const pages = world.stored.map(({ address }) => {
      const { before: first, now } = world.page(address);
      return [address, { before: first, now: now.slice() }] as const;
    });
    const { pc, stateWords } = machine;
    const stack = machine.register(abi.stackPointer);
    return { how, pc, stack, words: stateWords.slice(), pages: new Map(pages) };
  }

  /** Runs from a state without a mutant and with each; true: it went a new way. */
  private tryItem(item: Item, at: ReadonlyMap<Address, DrawnMutant[]>, known: Set<string>): boolean {
    const { patched: world } = this.pair;
    const way: Way = { places: new Set(), pairs: new Set() };
    const reads = new Set<Address>();
    const off = this.data.ranges.map(({ start: address, size }) =>
      world.machine.watch({ address, size, access: 'read' }, (_machine, event) => {
        const field = this.data.fieldAt(event.address);
        if (field !== null) reads.add(field);
        return 'continue';
      }),
    );
    const left = this.run(item, way);
    for (const each of off) each();
    item.reads = [...reads];
    let isNew = false;
    for (const pair of way.pairs) {
      if (known.has(pair)) continue;
      known.add(pair);
      isNew = true;
    }
    // What stops in the middle says nothing of what the code does; a trap is the tracer's own end.
    if (left.how !== 'left') return isNew && left.how === 'trap';
    for (const place of way.places) for (const each of at.get(place) ?? []) this.tryMutant(each, item, left, way);
    return isNew;
  }

  private tryMutant({ key, address, mutant }: DrawnMutant, item: Item, left: Left, { pairs }: Way): void {
    const said = this.said.get(key) ?? { runs: 0, ways: 0, difference: null, by: new Set<string>() };
    this.said.set(key, said);
    if (said.difference !== null || (said.runs > ENOUGH && this.random.below(SPARED) > 0)) return;
    const { patched: world } = this.pair;
    world.rewrite(address, mutant.after);
    const other = this.run(item, null);
    world.rewrite(address, mutant.before);
    said.runs++;
    said.by.add(`${pairs.size}`);
    said.ways = said.by.size;
    const difference = this.compare(item.begin, left, other);
    if (difference !== null) said.difference = `${difference} from ${this.text(item)}`;
  }

  private text({ begin, words, registers }: Item): string {
    const drawn = [
      ...words.map(({ at, value }) => `${at.toString(16)}: ${value.toString(16)}`),
      ...registers.map(({ name, value }) => `${name}: ${value.toString(16)}`),
    ];
    return `${begin.pc.toString(16)} with ${drawn.join(', ') || 'nothing drawn'}`;
  }

  /** A register that differs and is read later, as proofs compare them (PV-1, 2). */
  private register({ isReturn, isCall, callbacks }: Begin, a: Left, b: Left): RegisterName | null {
    if (a.words.every((word, i) => word === b.words[i])) return null;
    const { proof, abi, patched } = this.pair;
    const isCallback = callbacks.has(a.pc);
    const read = abi.argumentRegisters.slice(0, 4);
    for (const name of this.names) {
      const isResult = isCallback ? read.includes(name) : isReturn && proof.results.includes(name);
      const isFree = proof.volatile.includes(name) && (isReturn || isCall || isCallback);
      if ((isFree || (isCall && name === abi.linkRegister)) && !isResult) continue;
      const [x, y] = [a, b].map(({ words }) => patched.machine.registerIn(words, name)) as [bigint, bigint];
      if (((x ^ y) & (isResult ? -1n : (proof.compared[name] ?? -1n))) !== 0n) return name;
    }
    return null;
  }

  /** What differs between two runs; null: nothing that is read later. */
  private compare(begin: Begin, a: Left, b: Left): string | null {
    if (a.how !== b.how) return `${a.how}, ${b.how}`;
    if (a.pc !== b.pc) return `goes on at ${a.pc.toString(16)}, ${b.pc.toString(16)}`;
    if (a.stack !== b.stack) return 'stack pointer';
    const name = this.register(begin, a, b);
    if (name !== null) return name;
    for (const page of new Set([...a.pages.keys(), ...b.pages.keys()])) {
      const [x, y] = [a, b].map(({ pages }) => pages.get(page)) as [
        ReturnType<Left['pages']['get']>,
        ReturnType<Left['pages']['get']>,
      ];
      const [now, other] = [x?.now ?? y!.before, y?.now ?? x!.before];
      if (Buffer.compare(now, other) === 0) continue;
      for (let i = 0; i < now.length; i++) {
        const address = page + BigInt(i);
        const isDead = address < a.stack && address >= a.stack - DEAD_STACK;
        if (now[i] !== other[i] && !isDead && !this.data.isTime(address)) return `memory ${address.toString(16)}`;
      }
    }
    return null;
  }
}
