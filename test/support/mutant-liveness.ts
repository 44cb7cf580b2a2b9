/**
 * What code of the runtime may still read of the registers (PV-5): backwards over all ways through
 * an object, from what its instructions do in the emulator's own terms. Whatever is not known, as
 * where a register says where to go, counts as code that reads everything.
 *
 * Calls go into the callee, and its return goes to what stands behind all calls of it. That is all
 * for functions that only code at hand calls; of others C functions return to callers that keep to
 * the ABI, and anything else to callers that read all registers.
 */
import { type Block, OPS, type TrapKind } from '../../src/machine/ir.js';
import type { Address } from '../../src/units.js';
import { Contexts } from './mutant-contexts.js';
import type { CodeRange } from './mutant-flow.js';
import { effectOf } from './mutant-helpers.js';
import { ASKED, bit, COMPARED, inAll, readBefore } from './mutant-reads.js';
import { type Machine, pairTarget, type Step, stepAt, targetsOf } from './mutant-steps.js';

/** Who calls a function: direct calls of the code at hand alone, C code, anything. */
export type Callers = 'inside' | 'abi' | 'any';

export interface CodeFunction {
  /** One; two with a local entry (ELFv2). */
  readonly starts: readonly Address[];
  readonly callers: Callers;
  /** It was compiled: it returns to its caller, and calls others as the ABI says. */
  readonly isCompiled: boolean;
  /** Calls that its relocations tell of: as many must be found. */
  readonly calls: number;
  /** It has no result. */
  readonly isVoid: boolean;
  /** Where its tables of jumps lead; null: it has none, or they are not known. */
  readonly jumps?: readonly Address[] | null;
  /** An entry of sites that are ordinary calls: what those change no code reads behind them. */
  readonly isOrdinary?: boolean;
  /** Registers that hold no 0 where it begins. */
  readonly set?: readonly string[];
  /** Arguments of what it goes on to, a function in C; null: that may be anything. */
  readonly hands?: readonly string[] | null;
  /** What serves faults makes it return where an access of it faults. */
  readonly faults?: boolean;
}

/** Slots with flags that no caller keeps, beside registers of their own. */
const FLAGS = [
  ...['flagsk', 'flagsa', 'flagsb', 'flagsc', 'k', 'fa', 'fb', 'fc', 'ca', 'ca32', 'ov', 'ov32'],
  ...[0, 1, 5, 6, 7].flatMap((field) => ['k', 'a', 'b'].map((part) => `cr${field}${part}`)),
];
/** Traps that the runtime has. */
const ENDS: ReadonlySet<TrapKind> = new Set<TrapKind>(['trap-instruction', 'breakpoint', 'undefined-instruction']);
/** Most bytes of an instruction. */
const MOST_BYTES = 16;
/** Registers that are flags, by the register of all of them that says what is compared of it. */
const FLAGS_OF: Readonly<Record<string, readonly string[]>> = {
  xer: ['so', 'ca', 'ca32', 'ov', 'ov32', 'xerlow'],
  cr: [0, 1, 5, 6, 7].flatMap((field) => ['k', 'a', 'b'].map((part) => `cr${field}${part}`)),
  rflags: ['k', 'fa', 'fb', 'fc'],
  nzcv: FLAGS.filter((name) => name.startsWith('flags')),
};
type Before = (at: Address) => bigint;

/** Whether an instruction reads or writes memory. */
const isAccess = ({ ops }: Block): boolean => ops.some(({ op }) => OPS[op].form === 'load' || OPS[op].form === 'store');

export class Liveness {
  private readonly steps = new Map<Address, Step>();
  /** What code reads, by where it was called from. */
  private readonly contexts: Contexts;
  private readonly labels: ReadonlySet<Address>;
  private readonly written: ReadonlySet<Address>;
  /** Addresses to which something goes, or may go. */
  readonly entered = new Set<Address>();
  /** All registers. */
  readonly all: bigint;
  /** What no caller that keeps to the ABI reads of what a function leaves. */
  private readonly lost: bigint;
  private readonly results: bigint;
  /** What a compiled function must give back, whether or not its caller reads it (PV-1). */
  private readonly owed: bigint;
  /**
   * What no code reads behind an entry: registers that are dead at sites and returns, but for those
   * that say where code of the object goes.
   */
  private readonly dead: bigint;
  /** What each callee that keeps to the ABI gives back, whatever it has in it meanwhile. */
  readonly kept: bigint;
  /** What no callee that keeps to the ABI reads. */
  private readonly unread: bigint;
  /**
   * Places that returns lead to; null: not known. By the address of a return, or of an access that
   * returns where it faults.
   */
  private readonly ends = new Map<
    Address,
    { behind: Set<Address>; isAbi: boolean; isOpen: boolean; hasResult: boolean }
  >();
  /** Addresses of functions that return where an access of them faults. */
  private readonly faulting = new Set<Address>();
  /** Instructions of functions that a table of jumps may lead to. */
  private readonly opened = new Set<Address>();
  private readonly reached = new Set<Address>();
  /** Where functions begin. */
  readonly starts: ReadonlySet<Address>;
  /** Places behind calls. */
  private readonly behindCalls: ReadonlySet<Address>;
  /** Where functions begin that only calls at hand lead to. */
  private readonly closed = new Set<Address>();
  /** Instructions from which code comes to an address. */
  private readonly sources = new Map<Address, Step[]>();
  /** Addresses of compiled code. */
  private readonly compiled = new Set<Address>();
  /** Those of functions that go nowhere but where an instruction says, or back. */
  private readonly direct = new Set<Address>();
  /** Addresses of entries of sites that are ordinary calls. */
  private readonly ordinary = new Set<Address>();
  /** Registers that nothing reads where code goes on to a function, by addresses of that code. */
  private readonly unhanded = new Map<Address, bigint>();
  private readonly volatile: bigint;
  /** Where functions begin, labels are, and calls come back to. */
  private readonly begins: ReadonlySet<Address>;

  /**
   * @param labels   where something else than this code comes in
   * @param written  those of them where the tool writes other instructions: anything may be there
   */
  constructor(
    private readonly machine: Machine,
    private readonly ranges: readonly CodeRange[],
    private readonly functions: readonly CodeFunction[],
    labels: readonly Address[],
    written: readonly Address[] = labels,
  ) {
    const { lifter } = machine;
    this.labels = new Set(labels);
    this.written = new Set(written);
    this.all = bit(lifter.slots.firstTemporary) - 1n;
    for (const { start, bytes } of ranges) this.take(start, bytes);
    this.takeTables();
    for (const step of this.steps.values()) {
      for (const each of targetsOf(step)) if (each !== step.end) this.entered.add(each);
    }
    // Of a pair only the first may be entered.
    for (const step of this.steps.values()) {
      if (step.target !== null && this.entered.has(step.address))
        this.steps.set(step.address, { ...step, target: null });
    }
    const returns = [...this.steps.values()].flatMap(({ block }) =>
      'ret' in block.terminator ? [block.terminator.ret] : [],
    );
    this.behindCalls = new Set(returns);
    this.starts = new Set(functions.flatMap(({ starts }) => starts));
    this.begins = new Set([...labels, ...functions.flatMap(({ starts }) => starts), ...returns]);
    for (const each of this.begins) this.entered.add(each);
    this.open();
    const { abi, proof } = machine;
    const dead = Object.entries(proof.compared).flatMap(([name, mask]) => (mask === 0n ? [name] : []));
    const bitsOf = (names: readonly string[]): bigint =>
      names.reduce((sum, name) => sum | (lifter.slots.has(name) ? bit(lifter.slots.slot(name)) : 0n), 0n);
    const flags = bitsOf(FLAGS);
    const deadFlags = bitsOf(Object.keys(proof.compared).flatMap((name) => FLAGS_OF[name] ?? []));
    const scratch = [...proof.volatile, ...dead].filter((name) => !proof.results.includes(name));
    this.lost = flags | this.slotsOf(scratch);
    this.volatile = this.slotsOf(proof.volatile);
    this.results = this.slotsOf(proof.results);
    this.owed = this.slotsOf(abi.preservedRegisters);
    // Frame pointers stay: unwinders begin with them. So do words of the platform.
    const frames = ['x29', 'rbp', 's0', proof.toc, ...proof.platform];
    this.kept = this.slotsOf(abi.preservedRegisters.filter((name) => !frames.includes(name)));
    this.unread = flags | this.kept;
    this.follow();
    const goals = [...this.steps.values()].flatMap(({ block }) =>
      's' in block.terminator ? [block.terminator.s] : [],
    );
    this.dead =
      (deadFlags | this.slotsOf(dead.filter((name) => name !== proof.entryAddress))) &
      ~goals.reduce((sum, each) => sum | bit(each), 0n);
    this.contexts = this.solve();
    this.reach();
    for (const address of this.reached) {
      const step = this.steps.get(address)!;
      for (const to of targetsOf(step)) this.sources.set(to, [...(this.sources.get(to) ?? []), step]);
    }
  }

  /**
   * Instructions from which code comes to an address; null: that is not known. So it is where
   * functions begin that anything may call, behind calls, and where a register says where to go.
   */
  comesFrom(address: Address): readonly Step[] | null {
    if (!this.direct.has(address)) return null;
    const from = this.sources.get(address) ?? [];
    const isClosed = this.closed.has(address) && from.every((each) => !this.written.has(each.address));
    if (this.begins.has(address) && !isClosed) return null;
    const isCall = from.some(({ block }) => block.terminator.kind.startsWith('call'));
    return from.length === 0 || (isCall && !isClosed) ? null : from;
  }

  /** What any way leads to: padding behind a return is none of it. */
  private reach(): void {
    const left = [...[...this.begins].filter((at) => !this.closed.has(at)), ...this.opened];
    for (let at = left.pop(); at !== undefined; at = left.pop()) {
      const step = this.steps.get(at);
      if (step === undefined || this.reached.has(at)) continue;
      this.reached.add(at);
      left.push(...targetsOf(step));
    }
  }

  /** Jumps of functions whose tables are known. */
  private takeTables(): void {
    const marks = this.functions
      .flatMap(({ starts, jumps = null }) => starts.map((start) => ({ start, jumps })))
      .concat([...this.labels].map((start) => ({ start, jumps: null })))
      .sort((a, b) => (a.start < b.start ? -1 : 1));
    for (const step of this.steps.values()) {
      if (step.block.terminator.kind !== 'ind' || step.target !== null) continue;
      const jumps = marks.findLast(({ start }) => start <= step.address)?.jumps ?? null;
      if (jumps !== null) this.steps.set(step.address, { ...step, jumps });
    }
  }

  /** A table of jumps that is not known may lead to any instruction of its function. */
  private open(): void {
    const marks = [...this.labels, ...this.functions.flatMap(({ starts }) => starts)].sort((a, b) => (a < b ? -1 : 1));
    const isOpen = new Set<number>();
    const placeOf = (at: Address): number => marks.findLastIndex((each) => each <= at);
    for (const { address, block, target, jumps } of this.steps.values()) {
      if (block.terminator.kind === 'ind' && target === null && jumps === undefined) isOpen.add(placeOf(address));
    }
    for (const address of this.steps.keys()) if (isOpen.has(placeOf(address))) this.opened.add(address);
    for (const address of this.opened) this.entered.add(address);
  }

  private slotsOf(names: readonly string[]): bigint {
    let sum = 0n;
    for (const { name, parts } of this.machine.lifter.registers) {
      if (names.includes(name) && parts?.length === 1) sum |= bit(parts[0]![0]);
    }
    return sum;
  }

  private take(start: Address, bytes: Uint8Array): void {
    const { lifter } = this.machine;
    for (let at = 0; at < bytes.length;) {
      const address = start + BigInt(at);
      const step = stepAt(lifter, bytes.subarray(at, at + MOST_BYTES), address);
      if (step === null) {
        at += lifter.codeAlignBytes;
        continue;
      }
      this.steps.set(address, {
        ...step,
        target: pairTarget(lifter, step, this.steps.get(address - 4n), bytes.subarray(0, at + MOST_BYTES), start),
      });
      at += Number(step.end - address);
    }
  }

  /** Slots that hold no 0 where a function begins. */
  setAt(address: Address): bigint {
    const found = this.functions.find(({ starts }) => starts.includes(address));
    return this.slotsOf(found?.set ?? []);
  }

  /** Whether some way leads to an instruction. */
  isReached(address: Address): boolean {
    return this.reached.has(address);
  }

  /** Instructions that some way leads to. */
  addresses(): Iterable<Address> {
    return this.reached;
  }

  /** Where the callee of an instruction returns to, in compiled code; null: it calls none. */
  returnOf(address: Address): Address | null {
    const step = this.steps.get(address);
    const isCall = step?.block.terminator.kind === 'call' || step?.block.terminator.kind === 'calli';
    return isCall && this.compiled.has(address) && 'ret' in step.block.terminator ? step.block.terminator.ret : null;
  }

  /** Whether it is known from where code comes to a place; a callee may be such a place. */
  isFollowed(address: Address): boolean {
    if (!this.direct.has(address) || this.labels.has(address)) return false;
    if (this.starts.has(address)) return this.closed.has(address) && this.comesFrom(address) !== null;
    return this.behindCalls.has(address) || this.comesFrom(address) !== null;
  }

  /** Places to which an instruction may go, as far as it names them. */
  goals(address: Address): readonly Address[] {
    const step = this.steps.get(address);
    return step === undefined ? [] : targetsOf(step);
  }

  /**
   * Whether code comes from a place to the same one again, other than by way of a function that
   * anything may call.
   */
  isCyclic(address: Address): boolean {
    const seen = new Set<Address>();
    const left = [address];
    for (let at = left.pop(); at !== undefined; at = left.pop()) {
      const step = this.steps.get(at);
      if (step === undefined) continue;
      const { terminator } = step.block;
      const next = targetsOf(step).filter((each) => !this.starts.has(each) || this.closed.has(each));
      if ('ret' in terminator) next.push(terminator.ret);
      if (terminator.kind === 'ret') next.push(...(this.ends.get(at)?.behind ?? []));
      for (const each of next) {
        if (each === address) return true;
        if (!seen.has(each)) {
          seen.add(each);
          left.push(each);
        }
      }
    }
    return false;
  }

  at(address: Address): Step | undefined {
    return this.steps.get(address);
  }

  /** The instruction that begins at an address, be it in the middle of another one. */
  inMiddle(address: Address): Step | null {
    const range = this.ranges.find(({ start, end }) => start <= address && address < end);
    const skip = range === undefined ? 0 : Number(address - range.start);
    const isFree = !this.written.has(address) && address % BigInt(this.machine.lifter.codeAlignBytes) === 0n;
    return range === undefined || !isFree
      ? null
      : stepAt(this.machine.lifter, range.bytes.subarray(skip, skip + MOST_BYTES), address);
  }

  isCompiled(address: Address): boolean {
    return this.compiled.has(address);
  }

  /** Whether the tool writes other instructions there. */
  isWritten(address: Address): boolean {
    return this.written.has(address);
  }

  /** Instructions of a function, without those of what it calls. */
  private inside(starts: readonly Address[]): ReadonlySet<Address> {
    const seen = new Set<Address>();
    const left = [...starts];
    for (let at = left.pop(); at !== undefined; at = left.pop()) {
      const step = this.steps.get(at);
      if (step === undefined || seen.has(at)) continue;
      seen.add(at);
      const { terminator } = step.block;
      if (terminator.kind === 'call' || terminator.kind === 'calli') left.push(terminator.ret);
      else left.push(...targetsOf(step));
      if ('next' in terminator) left.push(terminator.next);
    }
    return seen;
  }

  /** Which calls each return leads to. */
  private follow(): void {
    const behind = new Map<Address, Address[]>();
    const reached = new Map<Address, number>();
    for (const step of this.steps.values()) {
      const { terminator } = step.block;
      const isCall = terminator.kind === 'call' || terminator.kind === 'calli';
      for (const to of targetsOf(step)) {
        reached.set(to, (reached.get(to) ?? 0) + 1);
        if (isCall) behind.set(to, [...(behind.get(to) ?? []), terminator.ret]);
      }
    }
    for (const { starts, callers, isCompiled, calls, isVoid, faults = false } of this.functions) {
      const found = starts.reduce((sum, each) => sum + (reached.get(each) ?? 0), 0);
      const inside = this.inside(starts);
      const goes = [...inside].map((at) => this.steps.get(at)!);
      const isDirect =
        isCompiled &&
        goes.every(
          ({ block, target, jumps }) => block.terminator.kind !== 'ind' || target !== null || jumps !== undefined,
        );
      if (isDirect) for (const at of inside) this.direct.add(at);
      if (isCompiled && callers === 'inside' && found >= calls) for (const at of starts) this.closed.add(at);
      for (const at of inside) {
        if (isCompiled) this.compiled.add(at);
        const step = this.steps.get(at)!;
        if (faults) this.faulting.add(at);
        if (step.block.terminator.kind !== 'ret' && !this.mayFault(step)) continue;
        const end = this.ends.get(at) ?? { behind: new Set(), isAbi: false, isOpen: false, hasResult: false };
        this.ends.set(at, end);
        for (const each of starts.flatMap((start) => behind.get(start) ?? [])) end.behind.add(each);
        if (callers === 'abi') end.isAbi = true;
        if (!isVoid) end.hasResult = true;
        if (callers === 'any' || !isCompiled || found < calls) end.isOpen = true;
      }
    }
    for (const { starts, isOrdinary } of this.functions) {
      if (isOrdinary === true) for (const at of this.inside(starts)) this.ordinary.add(at);
    }
    for (const { starts, hands = null } of this.functions) {
      if (hands === null) continue;
      const free = this.volatile & ~this.slotsOf(hands) & ~this.results;
      for (const at of this.inside(starts)) this.unhanded.set(at, free);
    }
    // Code that something else comes to, too, is none that was compiled, nor that of such an entry.
    for (const { starts, isCompiled, isOrdinary } of this.functions) {
      if (isCompiled) continue;
      for (const at of this.inside(starts)) {
        this.compiled.delete(at);
        this.direct.delete(at);
        if (isOrdinary !== true) this.ordinary.delete(at);
      }
    }
  }

  /** Whether code may go from an instruction to a place, as far as ways are known here. */
  mayGo(from: Address, to: Address): boolean {
    const step = this.steps.get(from);
    if (step === undefined || this.written.has(from) || targetsOf(step).includes(to)) return true;
    const { terminator } = step.block;
    // It stopped in front of it first, or something else than code did it.
    if (to === from || terminator.kind === 'helper') return true;
    const end = this.ends.get(from);
    if (end !== undefined || terminator.kind === 'ret')
      return end === undefined || end.isOpen || end.isAbi || end.behind.has(to);
    return (
      step.target === null && step.jumps === undefined && (terminator.kind === 'ind' || terminator.kind === 'calli')
    );
  }

  /**
   * What code reads of all slots, of which it asks no more than whether they are 0, and which of
   * those that it reads it only compares with each other, equal or not.
   */
  parts(live: bigint): { readonly read: bigint; readonly asked: bigint; readonly mirrored: bigint } {
    const [plain, compared, asked] = [live & this.all, (live >> COMPARED) & this.all, (live >> ASKED) & this.all];
    return { read: plain | compared, asked, mirrored: compared & ~plain & ~asked };
  }

  /**
   * What is read behind an instruction.
   * @param before    what is read from a place on
   * @param returned  what is read of what it leaves where it returns
   */
  behind(
    step: Step,
    before: Before = (at) => this.before(at),
    returned: () => bigint = () => this.returned(step, before),
  ): bigint {
    const { terminator } = step.block;
    const { all } = this;
    const named = targetsOf(step).reduce((sum, each) => sum | before(each), 0n);
    switch (terminator.kind) {
      case 'jmp':
      case 'br':
        return named;
      case 'helper': {
        const effect = effectOf(this.machine.lifter, terminator);
        if (effect === null) return all;
        const written = effect.writes.reduce((sum, { slot }) => sum | inAll(bit(slot)), 0n);
        return effect.reads.reduce((sum, slot) => sum | bit(slot), named & ~written);
      }
      case 'call':
      case 'calli': {
        const to = targetsOf(step)[0];
        if (to !== undefined && this.steps.has(to) && !this.written.has(step.address)) {
          if (!this.compiled.has(to) || !this.compiled.has(step.address)) return named;
          // What a callee keeps and gives back it does not read.
          const kept = inAll(this.kept);
          return (named & ~kept) | (before(terminator.ret) & kept);
        }
        // A function that an entry goes to has as little from it as one that a site is in.
        const read = this.compiled.has(step.address) ? all & ~this.unread : this.outside(step);
        return read | before(terminator.ret);
      }
      case 'ind':
        return step.target === null && step.jumps === undefined ? this.outside(step) : named;
      case 'ret':
        return named | returned();
      // A trial that comes to a trap of the runtime is different, whatever registers hold.
      case 'trap':
        return ENDS.has(terminator.trap) ? 0n : all;
      default:
        return all;
    }
  }

  /**
   * What is read of what an instruction leaves that returns.
   * @param caller  the place that it returns to; null: any
   */
  private returned(step: Step, before: Before, caller: Address | null = null): bigint {
    const end = this.ends.get(step.address);
    const owed = this.compiled.has(step.address) ? this.owed : 0n;
    if (caller !== null && !this.written.has(caller)) return owed | before(caller);
    if (end === undefined || end.isOpen) return this.outside(step);
    const lost = end.hasResult ? this.lost : this.lost | this.results;
    const own = end.isAbi ? this.all & ~lost : owed;
    // What the tool writes behind a call that any callback may be called by reads no more.
    const behind = [...end.behind].filter((each) => !end.isAbi || !this.written.has(each));
    return behind.reduce((sum, each) => sum | before(each), own);
  }

  /** Whether an instruction may fault, and its function returns then. */
  mayFault({ address, block }: Step): boolean {
    return this.faulting.has(address) && block.terminator.kind !== 'ret' && isAccess(block);
  }

  /** What is read where an instruction faults: it wrote nothing, and the result is not its own. */
  private faulted(step: Step, returned: () => bigint): bigint {
    return this.mayFault(step) ? returned() & ~inAll(this.results) : 0n;
  }

  /** What is read where code goes to a place that is not known. */
  private outside({ address }: Step): bigint {
    if (this.compiled.has(address)) return this.all;
    const free = this.unhanded.get(address) ?? 0n;
    return this.all & ~(this.ordinary.has(address) ? this.dead | this.volatile : this.dead | free);
  }

  /** What is read from an address on. */
  before(address: Address): bigint {
    return this.written.has(address) ? this.all : (this.contexts.before(address) ?? this.all);
  }

  private solve(): Contexts {
    const { all, written } = this;
    const begins = [...this.begins].filter((at) => this.labels.has(at) || !this.behindCalls.has(at));
    return new Contexts({
      steps: this.steps,
      begins: [...begins.filter((at) => !this.closed.has(at)), ...this.opened],
      isCompiled: (at) => this.compiled.has(at),
      behind: (at) => this.ends.get(at)?.behind ?? [],
      readBefore: (step, before, caller) => {
        const within = (at: Address): bigint => (written.has(at) ? all : (before(at) ?? all));
        const returned = (): bigint => this.returned(step, within, caller);
        return readBefore(step, this.behind(step, within, returned), all) | this.faulted(step, returned);
      },
    });
  }
}
