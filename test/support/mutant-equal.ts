/**
 * Whether changed code does the same as what it stands for (PV-5), whatever the state: both are
 * executed with symbols in place of numbers, until they are at one place and differ at most in
 * what no code reads any more (`Liveness`). Branches of which neither a number nor an earlier
 * branch says how they end are followed both ways. What cannot be decided within some steps counts
 * as different.
 *
 * That is enough for all that comes later, too: from there on both execute the same code, until it
 * comes to the changed place again, in states of which the same is true.
 */
import { type Block, type Lifter, type Op, type Operand, OPS, type Slot } from '../../src/machine/ir.js';
import type { Address } from '../../src/units.js';
import { effectOf } from './mutant-helpers.js';
import { type Follow, Known } from './mutant-known.js';
import type { Liveness } from './mutant-liveness.js';
import { bit, operandsOf } from './mutant-reads.js';
import { Spills } from './mutant-spills.js';
import { type Machine, type Step, stepAt } from './mutant-steps.js';
import { Terms, type Facts, type Term } from './mutant-terms.js';

/** Steps of all ways together. */
const MOST_STEPS = 400;
/** Ways that lead to a change, and steps of each. */
const MOST_WAYS = 24;
const LONGEST = 40;
const MOST_BYTES = 16;
/** Frames in which a load cannot fault, bytes above the stack pointer. */
const FRAME = 2048n;
/** Bytes behind address 0 where nothing is mapped. */
const PAGE = 4096n;

/** Operands of ops that have fewer than three. */
const COUNT: Readonly<Record<string, number>> = { unary: 1, binary: 2 };

/** A machine on its way. */
interface Way {
  readonly isChanged: boolean;
  /** Where it is; null: it left, to where `to` says. */
  readonly at: Address | null;
  readonly to: Term | null;
  /** The instruction that left. */
  readonly last: Step | null;
  readonly slots: ReadonlyMap<Slot, Term>;
  readonly memory: Term;
  /** Loads so far: address and op. */
  readonly loads: ReadonlySet<string>;
  /** Looks at the clock so far: whenever they are, the same number of them finds the same time. */
  readonly looks: number;
  /** Looks at what other harts may change meanwhile, so far: each may find something else. */
  readonly finds: number;
  /** Loads in front of the last store, which is not executed where they fault. */
  readonly ahead: string;
  /** It has been elsewhere than in the changed code. */
  readonly isAway: boolean;
}

export interface Change {
  readonly address: Address;
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

const NO_CHANGE: Change = { address: -1n, before: new Uint8Array(), after: new Uint8Array() };

/**
 * Whether an instruction finds what other harts may have changed: a load with a reservation, a
 * store under one, or one that loads and stores a word.
 */
function sharedOf({ reservation }: Lifter, { ops }: Block): 'reserves' | 'stores' | null {
  if (reservation === undefined) {
    const places = ops.filter(({ op }) => OPS[op].form === 'load').map(({ a, b }) => `${a} ${b}`);
    const isBoth = ops.some(({ op, a, b }) => OPS[op].form === 'store' && places.includes(`${a} ${b}`));
    return isBoth ? 'stores' : null;
  }
  const sets = ops.findLast(({ op, d }) => op === 'mov' && d === reservation.address);
  return sets === undefined ? null : sets.a === reservation.none ? 'stores' : 'reserves';
}

export class Equality {
  private terms: Terms;
  private left = 0;
  /** Where the frame is. */
  private frame: Term = 0;
  private readonly stackPointer: Slot;
  private change!: Change;

  constructor(
    private readonly machine: Machine,
    readonly liveness: Liveness,
  ) {
    const { lifter, abi } = machine;
    this.terms = new Terms(lifter.addressBits);
    this.stackPointer = lifter.registers.find(({ name }) => name === abi.stackPointer)!.parts![0]![0];
  }

  private forgiven: ReadonlySet<Address> = new Set();

  /**
   * Whether a change makes no difference.
   * @param forgiven  places behind which anything may happen
   */
  isSame(change: Change, forgiven: ReadonlySet<Address> = new Set()): boolean {
    const { liveness } = this;
    this.forgiven = forgiven;
    const end = change.address + BigInt(change.before.length);
    // Where the tool writes something else, or right behind it, nothing is known.
    for (let at = change.address - 8n; at < end; at++) if (liveness.isWritten(at)) return false;
    if (this.isSpilled(change)) return true;
    for (let at = change.address; at < end; at++) {
      if (at !== change.address && !liveness.entered.has(at)) continue;
      if (liveness.at(at) === undefined) return false;
      if (!liveness.isReached(at)) continue;
      // Made of the code as it is.
      const known = this.known;
      this.change = change;
      if (!this.isSameKnowing(at, null) && !this.isSameKnowing(at, known)) return false;
    }
    return true;
  }

  private spills: Spills | null = null;

  /** Whether what is left out, or moved, is a load of what the register holds. */
  private isSpilled({ address, after }: Change): boolean {
    const { lifter } = this.machine;
    const steps: Step[] = [];
    for (let at = 0; at < after.length;) {
      const step = stepAt(lifter, after.subarray(at), address + BigInt(at));
      if (step === null) return false;
      steps.push(step);
      at += Number(step.end - step.address);
    }
    return this.spilled.isIdle(address, steps);
  }

  private get spilled(): Spills {
    return (this.spills ??= new Spills(this.liveness, this.machine.lifter, this.stackPointer));
  }

  private facts: Known | null = null;

  private get known(): Known {
    if (this.facts !== null) return this.facts;
    this.change = NO_CHANGE;
    this.terms = new Terms(this.machine.lifter.addressBits);
    const follow: Follow = (at, slots, known) => {
      const next = this.advance({ ...this.begin(at), slots }, known);
      return next?.map(({ way, facts }) => ({ at: way.at, slots: this.substitute(way.slots, facts), facts })) ?? null;
    };
    const { slots, addressBits } = this.machine.lifter;
    const initial = (slot: Slot): Term => this.initial(slot);
    const changes = (at: Address): bigint | null => this.spilled.changesOf(at)?.slots ?? null;
    const { liveness, terms } = this;
    return (this.facts = new Known(liveness, terms, slots.firstTemporary, initial, follow, addressBits, changes));
  }

  /** All slots, with what a branch says of them. */
  private substitute(slots: ReadonlyMap<Slot, Term>, facts: Facts): ReadonlyMap<Slot, Term> {
    const { terms } = this;
    const found = new Map(slots);
    for (let slot = 0; slot < this.machine.lifter.slots.firstTemporary; slot++) {
      const was = slots.get(slot) ?? this.initial(slot);
      const now = terms.known(was, facts);
      if (now !== was) found.set(slot, now);
    }
    return found;
  }

  /** What is known of registers on the ways that are followed; null: nothing. */
  private knowing: Known | null = null;
  /** The place may be come to again: what is known must hold of what no code reads, too. */
  private isExact = false;

  private isSameKnowing(at: Address, known: Known | null): boolean {
    this.terms = new Terms(this.machine.lifter.addressBits);
    this.knowing = known;
    this.isExact = known !== null && this.liveness.isCyclic(at);
    const isSame = this.isSameFrom(at);
    this.knowing = null;
    this.isExact = false;
    return isSame;
  }

  /** What is known where a way begins. */
  private factsAt(at: Address): Facts {
    return this.knowing?.facts(at, this.terms, (slot) => this.initial(slot)) ?? this.terms.facts();
  }

  private begin(at: Address): Way {
    const slots = this.knowing?.slots(at, this.terms, (slot) => this.initial(slot)) ?? new Map<Slot, Term>();
    this.frame = slots.get(this.stackPointer) ?? this.initial(this.stackPointer);
    const memory = this.remembered(at, slots);
    return {
      isChanged: false,
      at,
      to: null,
      last: null,
      slots,
      memory,
      loads: new Set(),
      looks: 0,
      finds: 0,
      ahead: '',
      isAway: false,
    };
  }

  /** Memory where a way begins: words of the frame that registers hold are as stored from them. */
  private remembered(at: Address, slots: ReadonlyMap<Slot, Term>): Term {
    const { terms } = this;
    let memory = terms.symbol('memory');
    const { storeOp } = this.spilled;
    if (this.knowing === null || storeOp === null) return memory;
    const { addressBits, slots: all } = this.machine.lifter;
    for (const [offset, held] of this.spilled.words(at)) {
      const place = terms.make('add', this.frame, terms.number(BigInt.asUintN(64, offset)));
      for (let slot = 0; slot < all.firstTemporary; slot++) {
        if ((held & bit(slot)) === 0n) continue;
        const value = slots.get(slot) ?? this.initial(slot);
        memory = terms.store(storeOp, addressBits / 8, memory, place, value);
        break;
      }
    }
    return memory;
  }

  /** Whether both are the same from a place on: in any state, or in those that ways to it leave. */
  private isSameFrom(at: Address): boolean {
    const isSame = (way: Way, facts: Facts): boolean => {
      const isAway = false;
      this.left = MOST_STEPS;
      this.frame = this.slot(way, this.stackPointer);
      return this.meet({ ...way, isAway }, { ...way, isAway, isChanged: true }, facts);
    };
    if (isSame(this.begin(at), this.factsAt(at))) return true;
    const ways = this.waysTo(at);
    return ways.length > 0 && ways.every((way) => this.come(way).every(({ way: each, facts }) => isSame(each, facts)));
  }

  /**
   * Ways to a place, of which one is taken whenever code comes there; none: not known. Those that
   * were in the changed code before did there what the original does: this is the first difference.
   */
  private waysTo(at: Address): readonly (readonly Address[])[] {
    let ways: (readonly Address[])[] = [[at]];
    for (let length = 1; length < LONGEST; length++) {
      const longer = ways.flatMap((way) => {
        // One that is shorter begins where something else comes in.
        const from = way.length < length ? null : this.liveness.comesFrom(way[0]!);
        // What comes by way of the changed code's beginning is asked there.
        const isFirst = length === 1 && at !== this.change.address;
        const before = isFirst ? (from?.filter(({ address }) => !this.isInside(address)) ?? null) : from;
        return before === null ? [way] : before.map(({ address }) => [address, ...way]);
      });
      if (longer.length > MOST_WAYS) break;
      ways = longer;
    }
    return ways.some(({ length }) => length === 1) ? [] : ways;
  }

  /** The end of a way, in each state that it may leave; none: it cannot be taken. */
  private come(places: readonly Address[]): readonly { readonly way: Way; readonly facts: Facts }[] {
    let ways = [{ way: this.begin(places[0]!), facts: this.factsAt(places[0]!) }];
    for (const to of places.slice(1)) {
      ways = ways.flatMap(({ way, facts }) => {
        const next = this.advance(way, facts);
        // What is not followed may leave any state; so may what goes where nothing says.
        const isOpen = next?.some(({ way: { last } }) => last !== null && last.block.terminator.kind !== 'ret');
        if (next === null || isOpen === true) return [{ way: this.begin(to), facts: this.factsAt(to) }];
        return next
          .filter((each) => each.way.at === to && !this.terms.isContradiction(each.facts))
          .map((each) => ({ ...each, way: { ...each.way, isAway: false } }));
      });
    }
    return ways;
  }

  private isInside(at: Address): boolean {
    const { address, before } = this.change;
    return at >= address && at < address + BigInt(before.length);
  }

  private stepOf({ isChanged, at, isAway }: Way): Step | null {
    const { address, before, after } = this.change;
    if (at === null) return null;
    const isInside = this.isInside(at);
    // A second round is not followed.
    if (isInside && isAway) return null;
    // What is changed may come into the middle of what it does not change.
    if (!isInside) {
      const step = this.liveness.at(at) ?? (isChanged ? this.liveness.inMiddle(at) : null);
      return step !== null && at < address && step.end > address ? null : step;
    }
    if (!isChanged) return this.liveness.at(at) ?? null;
    const rest = after.subarray(Number(at - address));
    const step = stepAt(this.machine.lifter, rest.subarray(0, MOST_BYTES), at);
    return step !== null && step.end <= address + BigInt(before.length) ? step : null;
  }

  /** Whether both come to one place in states that are the same for what is there. */
  private meet(a: Way, b: Way, facts: Facts): boolean {
    if (this.terms.isContradiction(facts)) return true;
    if (this.isEqual(a, b, facts)) return true;
    const { at } = a.isChanged ? b : a;
    if (at !== null && this.forgiven.has(at)) return true;
    if (--this.left < 0) return false;
    if (a.at !== null && a.at === b.at) return this.meetBehind(a, b, facts);
    const isFirst = b.at === null || (a.at !== null && a.at <= b.at);
    const next = this.advance(isFirst ? a : b, facts);
    if (next === null) return false;
    return next.every(({ way, facts: known }) => (isFirst ? this.meet(way, b, known) : this.meet(a, way, known)));
  }

  /** Both do what is at one place: what the one decides the other knows. */
  private meetBehind(a: Way, b: Way, facts: Facts): boolean {
    const next = this.advance(a, facts);
    if (next === null) return false;
    return next.every(({ way, facts: known }) => {
      if (this.terms.isContradiction(known)) return true;
      const other = this.advance(b, known);
      return other !== null && other.every((each) => this.meet(way, each.way, each.facts));
    });
  }

  private slot(way: Way, slot: Slot): Term {
    return way.slots.get(slot) ?? this.initial(slot);
  }

  private initial(slot: Slot): Term {
    const { slots } = this.machine.lifter;
    if (slots.has('zero') && slots.slot('zero') === slot) return this.terms.number(0n);
    return this.terms.symbol(`slot ${slot}`);
  }

  private isEqual(a: Way, b: Way, facts: Facts): boolean {
    const { terms, liveness } = this;
    const width = this.machine.lifter.addressBits;
    const isSame = (x: Term, y: Term): boolean => x === y || terms.known(x, facts) === terms.known(y, facts);
    const original = a.isChanged ? b : a;
    if (a.at !== b.at || !isSame(this.memory(a, original), this.memory(b, original))) return false;
    // In the changed code both are again only once they have been elsewhere.
    if (a.at !== null && this.isInside(a.at) && !(a.isAway && b.isAway)) return false;
    if (a.at === null && !(a.to !== null && b.to !== null && isSame(a.to, b.to))) return false;
    const said = liveness.parts(a.at === null ? liveness.behind(original.last!) : liveness.before(a.at));
    const live = this.isExact ? { read: this.exact(a.at, said.read | said.asked), asked: 0n } : said;
    for (const slot of new Set([...a.slots.keys(), ...b.slots.keys()])) {
      if (((live.read | live.asked) & bit(slot)) === 0n) continue;
      const [x, y] = [this.slot(a, slot), this.slot(b, slot)];
      if (isSame(x, y) || this.isMirrored(a, b, slot, said.mirrored, isSame)) continue;
      if ((live.read & bit(slot)) !== 0n || ![x, y].every((each) => terms.isSet(each, facts, width))) return false;
    }
    // A load that the original has not may fault.
    const changed = a.isChanged ? a : b;
    return [...changed.loads].every((each) => original.loads.has(each) || this.isOwnFrame(each));
  }

  /** Slots that are the same where the changed place may be come to again. */
  private exact(at: Address | null, read: bigint): bigint {
    if (at === null) return this.liveness.all;
    const held = [...this.spilled.words(at).values()].reduce((sum, each) => sum | each, 0n);
    return read | held | this.knowing!.said(at);
  }

  /**
   * Whether two operands changed places of a comparison of which code asks no more than whether
   * they are equal.
   * @param asked  slots that are read for that alone
   */
  private isMirrored(a: Way, b: Way, slot: Slot, asked: bigint, isSame: (x: Term, y: Term) => boolean): boolean {
    if (this.isExact || (asked & bit(slot)) === 0n) return false;
    return [slot - 1, slot + 1].some(
      (other) =>
        other >= 0 &&
        (asked & bit(other)) !== 0n &&
        isSame(this.slot(a, slot), this.slot(b, other)) &&
        isSame(this.slot(a, other), this.slot(b, slot)),
    );
  }

  /** Memory as far as it matters: where a function has returned its frame does not. */
  private memory({ memory, slots }: Way, { at, last }: Way): Term {
    if (this.isExact) return memory;
    const isBack = at === null && last!.block.terminator.kind === 'ret' && this.liveness.isCompiled(last!.address);
    const stack = slots.get(this.stackPointer);
    return isBack && stack !== undefined ? this.terms.above(memory, stack, FRAME) : memory;
  }

  private isOwnFrame(load: string): boolean {
    const [base, offset] = this.terms.sum(Number(load.split(' ')[1]));
    const [own, from] = this.terms.sum(this.frame);
    const distance = BigInt.asIntN(this.machine.lifter.addressBits, offset - from);
    return base === own && distance >= 0n && distance < FRAME;
  }

  /** Behind one more instruction; two ways where a branch is open; null: it cannot be said. */
  private advance(way: Way, before: Facts): readonly { readonly way: Way; readonly facts: Facts }[] | null {
    const step = this.stepOf(way);
    if (step === null || this.liveness.isWritten(step.address)) return null;
    const done = this.execute(way, step, before);
    if (done === null) return null;
    const { slots, memory, loads, finds, ahead } = done;
    // What only the changed code comes to may be 0: it would fault where the original goes on.
    const facts = way.isChanged ? before : this.notZero(done.places, before);
    const value = (operand: Operand): Term =>
      typeof operand === 'bigint' ? this.terms.number(operand) : (slots.get(operand) ?? this.initial(operand));
    const { firstTemporary } = this.machine.lifter.slots;
    const kept = new Map([...slots].filter(([slot]) => slot < firstTemporary));
    const go = (at: Address | null, to: Term | null, known: Facts): { way: Way; facts: Facts } => {
      const isAway = at !== null && !this.isInside(at);
      return {
        way: {
          ...way,
          at,
          to,
          last: at === null ? step : null,
          slots: kept,
          memory,
          loads,
          finds,
          ahead,
          isAway: way.isAway || isAway,
        },
        facts: known,
      };
    };
    const { terminator } = step.block;
    switch (terminator.kind) {
      case 'jmp':
      case 'call':
        return [go(terminator.pc, null, facts)];
      case 'helper': {
        const effect = effectOf(this.machine.lifter, terminator);
        if (effect === null) return null;
        const read = effect.isClock ? [this.terms.symbol(`look ${way.looks}`)] : effect.reads.map(value);
        for (const { slot, op } of effect.writes) kept.set(slot, this.terms.make(op, ...read));
        const { way: next, facts: known } = go(terminator.next, null, facts);
        return [{ way: { ...next, looks: way.looks + (effect.isClock ? 1 : 0) }, facts: known }];
      }
      case 'br': {
        const { condition, width, pc, next } = terminator;
        const [atom, holds] = this.terms.condition(condition, width, value(terminator.a), value(terminator.b));
        const known = this.terms.truth(atom, facts);
        if (known !== null) return [go(known === holds ? pc : next, null, facts)];
        const is32 = this.machine.lifter.addressBits === 32;
        return [
          go(pc, null, this.terms.with(facts, atom, holds, is32)),
          go(next, null, this.terms.with(facts, atom, !holds, is32)),
        ];
      }
      case 'calli':
      case 'ind':
      case 'ret': {
        // The instruction in front of it says where it goes, and is as it was.
        const isPair = step.target !== null && !this.isInside(step.address - 4n) && !this.isInside(step.address);
        if (isPair) return [go(step.target, null, facts)];
        const to = this.goal(value(terminator.s), terminator);
        if (step.jumps !== undefined) return this.jump(to, step.jumps, facts, (at, known) => go(at, null, known));
        return this.leave(to, facts, (at, known, others) => go(at, known, others));
      }
      default:
        return null;
    }
  }

  /** Nothing is mapped at 0: what memory was accessed behind is no pointer of 0. */
  private notZero(places: readonly Term[], before: Facts): Facts {
    const { terms } = this;
    const { addressBits } = this.machine.lifter;
    let facts = before;
    for (const each of places) {
      const [base, offset] = terms.sum(each);
      if (offset < 0n || offset >= PAGE || terms.value(base) !== null) continue;
      const [atom, holds] = terms.condition('ne', addressBits, base, terms.number(0n));
      if (terms.truth(atom, facts) === null) facts = terms.with(facts, atom, holds, addressBits === 32);
    }
    return facts;
  }

  /** Addresses of code have none of the bits that a jump ignores: what is added to them may. */
  private goal(to: Term, { mask }: { readonly mask: bigint }): Term {
    const { terms } = this;
    const number = terms.value(to);
    if (number !== null) return terms.number(number & mask);
    const [base, offset] = terms.sum(to);
    return offset === 0n ? to : terms.make('add', base, terms.number(offset & mask));
  }

  /** By a table of jumps: to each place of which nothing says that it is another one. */
  private jump(
    to: Term,
    goals: readonly Address[],
    facts: Facts,
    go: (at: Address, facts: Facts) => { way: Way; facts: Facts },
  ): readonly { readonly way: Way; readonly facts: Facts }[] {
    const { terms } = this;
    const number = terms.value(terms.known(to, facts));
    if (number !== null) return [go(number, facts)];
    const is32 = this.machine.lifter.addressBits === 32;
    return goals.map((goal) => {
      const [atom, holds] = terms.condition('eq', 64, to, terms.number(goal));
      return go(goal, terms.with(facts, atom, holds, is32));
    });
  }

  /** Where a slot says where to go: a return under a condition goes on behind it, or not. */
  private leave(
    to: Term,
    facts: Facts,
    go: (at: Address | null, to: Term | null, facts: Facts) => { way: Way; facts: Facts },
  ): readonly { readonly way: Way; readonly facts: Facts }[] {
    const { terms } = this;
    const is32 = this.machine.lifter.addressBits === 32;
    const end = (each: Term, known: Facts) => {
      const number = terms.value(terms.known(each, known));
      return number === null ? go(null, each, known) : go(number, null, known);
    };
    const choice = terms.choice(to);
    if (choice === null) return [end(to, facts)];
    const [atom, holds] = terms.condition('ne', 64, choice.condition, terms.number(0n));
    const known = terms.truth(atom, facts);
    if (known !== null) return [end(known === holds ? choice.then : choice.otherwise, facts)];
    return [
      end(choice.then, terms.with(facts, atom, holds, is32)),
      end(choice.otherwise, terms.with(facts, atom, !holds, is32)),
    ];
  }

  /** Slots and memory behind the ops of an instruction; null: one of them is not followed. */
  private execute(way: Way, step: Step, facts: Facts) {
    const { terms } = this;
    const { block } = step;
    const slots = new Map(way.slots);
    const loads = new Set(way.loads);
    const places: Term[] = [];
    let { memory, ahead } = way;
    const shared = sharedOf(this.machine.lifter, block);
    const finds = way.finds + (shared === null ? 0 : 1);
    const value = (operand: Operand): Term =>
      terms.known(
        typeof operand === 'bigint' ? terms.number(operand) : (slots.get(operand) ?? this.initial(operand)),
        facts,
      );
    const pick = (c: Term, a: Term, b: Term): Term => {
      const [atom, holds] = terms.condition('ne', 64, c, terms.number(0n));
      const known = terms.truth(atom, facts);
      return known === null ? terms.make('select', atom, ...(holds ? [a, b] : [b, a])) : known === holds ? a : b;
    };
    for (const op of block.ops) {
      const row = OPS[op.op];
      const { form } = row;
      if (form === 'leave' || form === 'float' || form === 'check') return null;
      const operands = operandsOf(op).map(value) as [Term, Term, Term];
      if (form === 'aligned') memory = terms.make('event', memory, ...operands);
      else if (form === 'store') {
        const before = this.liveness.mayFault(step) ? [...loads].sort().join() : ahead;
        if (before !== ahead) memory = terms.make('event', memory, terms.symbol((ahead = before)));
        const at = terms.make('add', operands[0], operands[1]);
        places.push(at);
        memory = terms.store(op.op, row.bytes, memory, at, operands[2]);
      } else if (form === 'load') {
        const at = terms.make('add', operands[0], operands[1]);
        loads.add(`${op.op} ${at}`);
        places.push(at);
        const found = terms.load(op.op, row.bytes, memory, at);
        slots.set(op.d, shared === null ? found : terms.make(`found ${finds}`, found));
      } else if (form === 'record') this.record(slots, op, operands, row.guarded ? pick : null);
      else if (form === 'select') slots.set(op.d, pick(operands[2], operands[0], operands[1]));
      else slots.set(op.d, terms.make(op.op, ...operands.slice(0, COUNT[form] ?? operands.length)));
    }
    // Whether a reservation holds until the store nothing says.
    const { reservation } = this.machine.lifter;
    if (shared === 'reserves') slots.set(reservation!.address, terms.symbol(`reserved ${finds}`));
    return { slots, memory, loads, places, finds, ahead };
  }

  private record(
    slots: Map<Slot, Term>,
    { d, kind }: Op,
    [a, b, c]: readonly [Term, Term, Term],
    pick: ((c: Term, a: Term, b: Term) => Term) | null,
  ): void {
    for (const [i, each] of [this.terms.kind(kind), a, b].entries()) {
      slots.set(d + i, pick === null ? each : pick(c, each, slots.get(d + i) ?? this.initial(d + i)));
    }
  }
}
