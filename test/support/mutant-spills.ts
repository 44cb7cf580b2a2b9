/**
 * Registers that hold what a word of their frame holds (PV-5): compiled code stores one in front of
 * a call, and loads it again where the callee may have changed it. Where no callee does, the load
 * changes nothing.
 *
 * Forwards over all ways through compiled functions. A function of which some code makes a pointer
 * into its frame says nothing; without one, what is stored by way of other registers is elsewhere.
 * A callee keeps what it does not change, nor what it calls; one that calls what is not known says
 * nothing.
 */
import { type Lifter, type Op, OPS, type Slot } from '../../src/machine/ir.js';
import type { Address } from '../../src/units.js';
import { effectOf } from './mutant-helpers.js';
import type { Liveness } from './mutant-liveness.js';
import { bit, operandsOf } from './mutant-reads.js';
import { type Step, targetsOf } from './mutant-steps.js';

/** For each word of a frame, by its distance from the stack pointer, the slots that hold it. */
type Held = ReadonlyMap<bigint, bigint>;

const NOTHING: Held = new Map();

/** What a call changes: slots, and words of the frame that it is made from. */
interface Changes {
  slots: bigint;
  readonly words: { readonly at: bigint; readonly bytes: bigint }[];
}

/** Whether a word lies in the frame of the caller: what is below is the callee's own. */
const isAbove = ({ at, bytes }: Changes['words'][number]): boolean => at + bytes > 0n;
/** Places of a callee that are looked at, by where its stack pointer is. */
const MOST_PLACES = 4096;
/** Ends of instructions that go nowhere but where they say, or back. */
const ENDS: ReadonlySet<string> = new Set(['ret', 'jmp', 'br', 'trap']);
/** Ops that write one slot, and go nowhere. */
const PLAIN: ReadonlySet<string> = new Set(['unary', 'binary', 'select', 'load']);

/** Slots that an op writes, from its first one on. */
function widthOf({ op }: Op): number {
  const { form } = OPS[op];
  return form === 'record' ? 3 : form === 'store' || form === 'aligned' || form === 'check' ? 0 : 1;
}

/** Slots that ops write. */
const slotsOf = (ops: readonly Op[]): bigint =>
  ops.reduce((sum, op) => sum | (((1n << BigInt(widthOf(op))) - 1n) << BigInt(op.d)), 0n);

const isNop = ({ block, end }: Step): boolean =>
  block.ops.length === 0 && block.terminator.kind === 'jmp' && block.terminator.pc === end;

/** What an instruction does, without its place. */
const textOf = ({ block }: Step): string =>
  block.ops.map(({ op, d, a, b, c, kind }) => `${op} ${d} ${a} ${b} ${c} ${kind}`).join();

export class Spills {
  private readonly held = new Map<Address, Held>();
  private readonly left = new Set<Address>();
  /** Where functions begin some code of which makes a pointer into the frame. */
  private readonly open = new Set<Address>();
  private readonly wordBytes: number;
  private readonly starts: readonly Address[];
  private readonly calls = new Map<Address, Changes | null>();
  /** The op that stores a whole register; null: none is stored to a frame. */
  storeOp: Op['op'] | null = null;

  constructor(
    private readonly liveness: Liveness,
    private readonly lifter: Lifter,
    private readonly stackPointer: Slot,
  ) {
    this.wordBytes = lifter.addressBits / 8;
    this.starts = [...liveness.starts].sort((a, b) => (a < b ? -1 : 1));
    for (const at of liveness.addresses()) {
      const { ops } = liveness.at(at)!.block;
      if (ops.some((op) => this.isPointer(op))) this.open.add(this.startOf(at));
    }
    for (const at of liveness.addresses()) if (!this.isKnown(at)) this.join(at, NOTHING);
    for (const at of this.left) {
      this.left.delete(at);
      this.goOn(at);
    }
  }

  /**
   * Whether a change leaves out a load that changes nothing, or moves it past an instruction that
   * has nothing to do with it.
   * @param steps  of the changed code, one by one
   */
  isIdle(address: Address, steps: readonly Step[]): boolean {
    const first = this.liveness.at(address);
    if (first === undefined) return false;
    if (steps.every(isNop)) return this.loaded(address) !== null && steps.at(-1)!.end === first.end;
    const second = this.liveness.at(first.end);
    const isSwap = second !== undefined && steps.length === 2 && steps[1]!.end === second.end;
    if (!isSwap || textOf(steps[0]!) !== textOf(second) || textOf(steps[1]!) !== textOf(first)) return false;
    const isEntered = this.liveness.entered.has(second.address);
    return (
      (!isEntered && this.isApart(second, this.loaded(address))) ||
      ((!isEntered || isNop(first)) && this.isApart(first, this.loaded(second.address)))
    );
  }

  /** Words of the frame that registers hold in front of an instruction, by their distance. */
  words(at: Address): Held {
    return this.held.get(at) ?? NOTHING;
  }

  /** Whether an instruction writes neither a register nor what is in a frame. */
  private isApart({ block: { ops, terminator }, end }: Step, loaded: Slot | null): boolean {
    const isElse = ({ op, d }: Op): boolean => PLAIN.has(OPS[op].form) && d !== loaded && d !== this.stackPointer;
    return loaded !== null && terminator.kind === 'jmp' && terminator.pc === end && ops.every(isElse);
  }

  /** The register that an instruction loads, and nothing else, where it holds the word already. */
  private loaded(at: Address): Slot | null {
    const { ops, terminator } = this.liveness.at(at)?.block ?? { ops: [], terminator: { kind: 'unknown' } };
    const [op] = ops;
    const offset = op === undefined ? null : this.word(op, 'load');
    if (ops.length !== 1 || offset === null || terminator.kind !== 'jmp') return null;
    return ((this.held.get(at)?.get(offset) ?? 0n) & bit(op!.d)) === 0n ? null : op!.d;
  }

  private startOf(at: Address): Address {
    return this.starts.findLast((each) => each <= at) ?? -1n;
  }

  /** Whether all ways to a place are looked at here. */
  private isKnown(at: Address): boolean {
    const { liveness } = this;
    return (
      liveness.isCompiled(at) && liveness.isFollowed(at) && !liveness.starts.has(at) && !this.open.has(this.startOf(at))
    );
  }

  private isOwn(operand: Op['a']): boolean {
    return operand === this.stackPointer;
  }

  /** Whether something else than the stack pointer holds an address of the frame behind an op. */
  private isPointer(op: Op): boolean {
    const { form } = OPS[op.op];
    if (form === 'load') return this.isOwn(op.b);
    // What is stored of the stack pointer is the link of frames, in the word that it leads to.
    if (form === 'store') return this.isOwn(op.b) || (this.isOwn(op.c) && !this.isOwn(op.a));
    return op.d !== this.stackPointer && operandsOf(op).some((each) => this.isOwn(each));
  }

  /** Distance of the word that an op loads or stores from the stack pointer; null: it is none. */
  private word({ op, a, b }: Op, form: 'load' | 'store'): bigint | null {
    const row = OPS[op];
    if (row.form !== form || !this.isOwn(a) || typeof b !== 'bigint' || row.bytes !== this.wordBytes) return null;
    return BigInt.asIntN(this.lifter.addressBits, b);
  }

  /** By how much an instruction moves the stack pointer; null: that is not known. */
  private moved(ops: readonly Op[]): bigint | null {
    let by = 0n;
    for (const { op, d, a, b } of ops) {
      if (d !== this.stackPointer || OPS[op].form === 'store') continue;
      const isSum = /^(?:add|sub)(?:32)?$/.test(op) && this.isOwn(a) && typeof b === 'bigint';
      if (!isSum) return null;
      by += BigInt.asIntN(this.lifter.addressBits, b) * (op.startsWith('sub') ? -1n : 1n);
    }
    return by;
  }

  /** Behind the ops of an instruction; null: nothing is known there. */
  private behind(step: Step, before: Held): Map<bigint, bigint> | null {
    const held = new Map(before);
    for (const op of step.block.ops) {
      const row = OPS[op.op];
      if (row.form === 'leave' || row.form === 'float' || row.form === 'unit') return null;
      if (row.form === 'store') {
        if (!this.store(op, BigInt(row.bytes), held)) return null;
      } else if (op.d !== this.stackPointer || widthOf(op) === 0) this.write(op, held);
    }
    const by = this.moved(step.block.ops);
    return by === null ? null : by === 0n ? held : new Map([...held].map(([at, slots]) => [at - by, slots]));
  }

  private store(op: Op, bytes: bigint, held: Map<bigint, bigint>): boolean {
    if (!this.isOwn(op.a)) return true;
    if (typeof op.b !== 'bigint') return false;
    const at = BigInt.asIntN(this.lifter.addressBits, op.b);
    this.overwrite(held, at, bytes);
    const word = this.word(op, 'store');
    if (word !== null) this.storeOp = op.op;
    if (word !== null && typeof op.c === 'number' && this.isRegister(op.c)) held.set(word, bit(op.c));
    return true;
  }

  private overwrite(held: Map<bigint, bigint>, at: bigint, bytes: bigint): void {
    for (const each of held.keys()) {
      if (each < at + bytes && each + BigInt(this.wordBytes) > at) held.delete(each);
    }
  }

  private isRegister(slot: Slot): boolean {
    return slot < this.lifter.slots.firstTemporary && slot !== this.stackPointer;
  }

  private write(op: Op, held: Map<bigint, bigint>): void {
    for (let slot = op.d; slot < op.d + widthOf(op); slot++) this.lose(held, bit(slot));
    const word = this.word(op, 'load');
    if (word !== null && this.isRegister(op.d)) held.set(word, (held.get(word) ?? 0n) | bit(op.d));
  }

  private lose(held: Map<bigint, bigint>, slots: bigint): void {
    for (const [at, own] of held) {
      const rest = own & ~slots;
      if (rest === 0n) held.delete(at);
      else held.set(at, rest);
    }
  }

  private goOn(at: Address): void {
    const { liveness } = this;
    const step = liveness.at(at)!;
    const held = this.behind(step, this.held.get(at)!);
    const { terminator } = step.block;
    const back = liveness.returnOf(at);
    if (back !== null) {
      const changes = this.changesOf(at);
      const kept = held === null || changes === null ? null : new Map(held);
      if (kept !== null) {
        this.lose(kept, changes!.slots);
        for (const each of changes!.words) this.overwrite(kept, each.at, each.bytes);
      }
      this.join(back, kept ?? NOTHING);
      return;
    }
    const isPlain = terminator.kind === 'jmp' || terminator.kind === 'br' || step.jumps !== undefined;
    for (const each of targetsOf(step)) this.join(each, isPlain ? (held ?? NOTHING) : NOTHING);
  }

  /** What an instruction changes that calls, and what it calls; null: not known. */
  changesOf(at: Address): Changes | null {
    const step = this.liveness.at(at);
    const kind = step?.block.terminator.kind;
    const [to] = step === undefined || this.liveness.isWritten(at) ? [] : targetsOf(step);
    const changes = (kind === 'call' || kind === 'calli') && to !== undefined ? this.changedBy(to) : null;
    return changes === null ? null : { ...changes, slots: changes.slots | slotsOf(step!.block.ops) };
  }

  /** What a function changes, as its caller sees it; null: it goes to code that is not known. */
  private changedBy(start: Address): Changes | null {
    const known = this.calls.get(start);
    if (known !== undefined) return known;
    // One that calls itself is not followed.
    this.calls.set(start, null);
    const seen = new Set<string>();
    const left: { readonly at: Address; readonly moved: bigint }[] = [{ at: start, moved: 0n }];
    let changes: Changes | null = { slots: 0n, words: [] };
    for (let each = left.pop(); each !== undefined && changes !== null; each = left.pop()) {
      const { at, moved } = each;
      if (seen.has(`${at} ${moved}`)) continue;
      seen.add(`${at} ${moved}`);
      const step = seen.size > MOST_PLACES ? undefined : this.liveness.at(at);
      const by = step === undefined ? null : this.moved(step.block.ops);
      changes = step === undefined || by === null ? null : this.changed(step, moved, changes);
      const next = step === undefined ? [] : this.goesTo(step);
      for (const to of next) left.push({ at: to, moved: moved + (by ?? 0n) });
    }
    // What it keeps and gives back is as it was.
    const kept = this.liveness.isCompiled(start) ? this.liveness.kept | bit(this.stackPointer) : 0n;
    const made = changes === null ? null : { ...changes, slots: changes.slots & ~kept };
    const found = made !== null && (made.slots & bit(this.stackPointer)) !== 0n ? null : made;
    this.calls.set(start, found);
    return found;
  }

  /** Where a function goes on, behind its calls. */
  private goesTo(step: Step): readonly Address[] {
    const { terminator } = step.block;
    return terminator.kind === 'call' || terminator.kind === 'calli' ? [terminator.ret] : targetsOf(step);
  }

  /**
   * What is changed behind one more instruction of a callee.
   * @param moved  the stack pointer, from where the callee began
   */
  private changed(step: Step, moved: bigint, { slots, words }: Changes): Changes | null {
    const { address, block, target, jumps } = step;
    const { ops, terminator } = block;
    if (this.liveness.isWritten(address)) return null;
    const all: Changes = { slots, words: [...words] };
    const add = (changes: Changes | null): boolean => {
      if (changes === null) return false;
      all.slots |= changes.slots;
      all.words.push(...changes.words.map(({ at, bytes }) => ({ at: at + moved, bytes })).filter(isAbove));
      return true;
    };
    for (const op of ops) {
      const row = OPS[op.op];
      if (row.form === 'leave' || row.form === 'float' || row.form === 'unit') return null;
      if (row.form === 'store' && this.isOwn(op.a)) {
        if (typeof op.b !== 'bigint') return null;
        const at = BigInt.asIntN(this.lifter.addressBits, op.b);
        add({ slots: 0n, words: [{ at, bytes: BigInt(row.bytes) }] });
      }
      all.slots |= slotsOf([op]);
    }
    switch (terminator.kind) {
      case 'call':
      case 'calli': {
        const to = target ?? (terminator.kind === 'call' ? terminator.pc : null);
        return to !== null && add(this.changedBy(to)) ? all : null;
      }
      case 'helper': {
        const effect = effectOf(this.lifter, terminator);
        return effect !== null &&
          add({ slots: effect.writes.reduce((sum, { slot }) => sum | bit(slot), 0n), words: [] })
          ? all
          : null;
      }
      case 'ind':
        return target !== null || jumps !== undefined ? all : null;
      default:
        return ENDS.has(terminator.kind) ? all : null;
    }
  }

  private join(at: Address, held: Held): void {
    const step = this.liveness.at(at);
    if (step === undefined) return;
    const old = this.held.get(at);
    const own = this.isKnown(at) ? held : NOTHING;
    const next =
      old === undefined
        ? own
        : new Map(
            [...old].flatMap(([word, slots]) => {
              const both = slots & (own.get(word) ?? 0n);
              return both === 0n ? [] : [[word, both] as const];
            }),
          );
    const isSame = old?.size === next.size && [...next].every(([word, slots]) => old.get(word) === slots);
    if (isSame) return;
    this.held.set(at, next);
    this.left.add(at);
  }
}
