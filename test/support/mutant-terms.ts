/**
 * Terms: what registers and memory hold, in symbols of what they held before (PV-5). The same
 * term has the same number; terms with different numbers may yet be equal.
 */
import { type AnyKind, type Condition, recordCode } from '../../src/machine/ir.js';

/** Number of a term. */
export type Term = number;

interface Node {
  readonly op: string;
  readonly of: readonly Term[];
  readonly value: bigint | null;
}

/** What is known on a way: conditions, and what terms are. */
export interface Facts {
  readonly truths: ReadonlyMap<Term, boolean>;
  readonly values: ReadonlyMap<Term, Term>;
  readonly isContradiction: boolean;
}

const low = (value: bigint): bigint => BigInt.asUintN(32, value);
const signed = (value: bigint, bits: number): bigint => BigInt.asIntN(bits, value);
const word = (value: boolean): bigint => (value ? 1n : 0n);

/** Ops on numbers. */
const FOLD: Readonly<Record<string, (a: bigint, b: bigint) => bigint>> = {
  mov: (a) => a,
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
  shl: (a, b) => a << (b & 63n),
  shr: (a, b) => a >> (b & 63n),
  sar: (a, b) => signed(a, 64) >> (b & 63n),
  mul: (a, b) => a * b,
  addsh1: (a, b) => a + (b << 1n),
  addsh2: (a, b) => a + (b << 2n),
  addsh3: (a, b) => a + (b << 3n),
  mul32: (a, b) => low(a * b),
  shl32: (a, b) => low(a << (b & 31n)),
  shr32: (a, b) => low(a) >> (b & 31n),
  sar32: (a, b) => low(signed(a, 32) >> (b & 31n)),
  add32s: (a, b) => signed(a + b, 32),
  sub32s: (a, b) => signed(a - b, 32),
  mul32s: (a, b) => signed(a * b, 32),
  shl32s: (a, b) => signed(a << (b & 31n), 32),
  sar32s: (a, b) => signed(a, 32) >> (b & 31n),
  sx8: (a) => signed(a, 8),
  sx16: (a) => signed(a, 16),
  add32: (a, b) => low(a + b),
  sub32: (a, b) => low(a - b),
  and32: (a, b) => low(a & b),
  or32: (a, b) => low(a | b),
  xor32: (a, b) => low(a ^ b),
  sx32: (a) => signed(a, 32),
  zx32: (a) => low(a),
  zx16: (a) => a & 0xffffn,
  zx8: (a) => a & 0xffn,
  seteq: (a, b) => word(a === b),
  setne: (a, b) => word(a !== b),
  setltu: (a, b) => word(a < b),
  setlt: (a, b) => word(signed(a, 64) < signed(b, 64)),
};

/** Comparisons of a number with itself. */
const SAME: Readonly<Record<string, bigint>> = {
  ...{ seteq: 1n, setle: 1n, setge: 1n, setleu: 1n, setgeu: 1n },
  ...{ setne: 0n, setlt: 0n, setgt: 0n, setltu: 0n, setgtu: 0n, sub: 0n, xor: 0n },
};

/** Conditions as one of three, its operands in their order or not, itself or its opposite. */
const CONDITIONS: Readonly<Record<Condition, readonly ['eq' | 'lt' | 'ltu', boolean, boolean]>> = {
  eq: ['eq', false, true],
  ne: ['eq', false, false],
  lt: ['lt', false, true],
  ge: ['lt', false, false],
  gt: ['lt', true, true],
  le: ['lt', true, false],
  ltu: ['ltu', false, true],
  geu: ['ltu', false, false],
  gtu: ['ltu', true, true],
  leu: ['ltu', true, false],
};

/** Comparisons of records: signedness and width by the code. */
const RECORDS: readonly (readonly [isSigned: boolean, width: 32 | 64] | null)[] = [
  null,
  [true, 64],
  [false, 64],
  [true, 32],
  [false, 32],
];

/** What code asks of the status flags of a subtraction, by the kind of the record: its width. */
const FLAGS: Readonly<Record<string, Condition>> = {
  ...{ flage: 'eq', flagb: 'ltu', flagbe: 'leu', flagl: 'lt', flagle: 'le' },
};
const FLAG_WIDTHS = new Map((['sub8', 'sub16', 'sub32', 'sub64'] as const).map((k, i) => [recordCode(k), 8 << i]));
const NZCV_WIDTHS = new Map([
  [recordCode('nzcvsub64'), 64],
  [recordCode('nzcvsub32'), 32],
]);
/** What code asks of literal flags, a record of kind 0: their bits. */
const BITS: Readonly<Record<string, bigint>> = { testlt: 8n, testgt: 4n, testeq: 2n };

/** The bit of Z among N, Z, C and V. */
const Z = 4n;

/** Ops that read the lower halves of their operands alone. */
const LOWER = /^(?:(?:add|sub|mul|and|or|xor|shl|shr|sar|rotl|rotr)32s?|sx32|zx32|set\w+32)$/;
/** Bits of the lower half. */
const LOW = 0xffff_ffffn;
/** Ops on halves, by those of which the lower half of the result needs no more of the operands. */
const NARROWS: Readonly<Record<string, string>> = Object.fromEntries(
  ['add', 'sub', 'mul', 'and', 'or', 'xor'].flatMap((op) =>
    [op, `${op}32`, `${op}32s`].map((each) => [each, `${op}32`]),
  ),
);
/** Ops whose operands may change places. */
const EITHER = /^(?:add|and|or|xor|mul|mulhu|mulhs|(?:add|and|or|xor|mul)32s?|set(?:eq|ne)(?:32)?|mul[sz]x32)$/;

const STACK_ALIGN = 16n;

/** Loads for a store under a reservation are loads. */
const PLAIN: Readonly<Record<string, string>> = { ld64rmw: 'ld64', ld32srmw: 'ld32s' };

export class Terms {
  private readonly numbers = new Map<string, Term>();
  private readonly nodes: Node[] = [];
  /** Terms with what is known in them, by what is known. */
  private readonly seen = new WeakMap<ReadonlyMap<Term, Term>, Map<Term, Term>>();

  /** @param wordBits  of a register */
  constructor(private readonly wordBits = 64) {}

  private intern(key: string, node: Node): Term {
    const known = this.numbers.get(key);
    if (known !== undefined) return known;
    this.nodes.push(node);
    this.numbers.set(key, this.nodes.length - 1);
    return this.nodes.length - 1;
  }

  symbol(name: string): Term {
    return this.intern(name, { op: name, of: [], value: null });
  }

  number(value: bigint): Term {
    const whole = BigInt.asUintN(64, value);
    return this.intern(`#${whole}`, { op: '#', of: [], value: whole });
  }

  kind(kind: AnyKind): Term {
    return this.number(BigInt(recordCode(kind)));
  }

  value(term: Term): bigint | null {
    return this.nodes[term]!.value;
  }

  /** A term as another one and a number. */
  sum(term: Term): readonly [Term, bigint] {
    const { op, of } = this.nodes[term]!;
    if (op === '#') return [this.number(0n), this.value(term)!];
    if (op === 'add' && this.value(of[1]!) !== null) return [of[0]!, this.value(of[1]!)!];
    return [term, 0n];
  }

  /** What a term chooses from; null: it does not. */
  choice(term: Term): { readonly condition: Term; readonly then: Term; readonly otherwise: Term } | null {
    const { op, of } = this.nodes[term]!;
    return op === 'select' ? { condition: of[0]!, then: of[1]!, otherwise: of[2]! } : null;
  }

  make(op: string, ...of: readonly Term[]): Term {
    const [a, b] = of as [Term, Term];
    if (op === 'mov') return a;
    if (LOWER.test(op) && of.some((each) => this.isWide(each)))
      return this.make(op, ...of.map((each) => this.lower(each)));
    const [x, y] = [this.value(a), b === undefined ? 0n : this.value(b)];
    const fold = FOLD[op];
    if (fold !== undefined && x !== null && y !== null) return this.number(fold(x, y));
    if (a === b && SAME[op] !== undefined) return this.number(SAME[op]);
    if (op === 'add' || op === 'sub') return this.made(op, a, b);
    if (op === 'zx32' && this.narrow(a) !== a) return this.narrow(a);
    if (op === 'and') {
      const part = this.lowerPart(a, b) ?? this.lowerPart(b, a) ?? this.zeroFlag(a, b) ?? this.zeroFlag(b, a);
      if (part !== null) return part;
    }
    if (op === 'seteq' || op === 'setne') {
      const asked = x === 0n ? b : y === 0n ? a : null;
      const truth = asked === null ? null : this.shiftedTruth(asked);
      if (truth !== null) return op === 'setne' ? truth : this.make(...this.opposite(truth));
    }
    if (BITS[op] !== undefined && x === 0n && this.hasBit(b!, BITS[op])) return this.number(1n);
    if (EITHER.test(op) && a > b) return this.make(op, b, a);
    return this.intern(`${op} ${of.join(' ')}`, { op, of, value: null });
  }

  /** What Z says among N, Z, C and V of a subtraction; null: that is not what is asked. */
  private zeroFlag(flags: Term, mask: Term): Term | null {
    const { op, of } = this.nodes[flags]!;
    if (op !== 'testnzcv' || this.value(mask) !== Z) return null;
    const [kind, a, b] = of as [Term, Term, Term];
    const width = NZCV_WIDTHS.get(Number(this.value(kind) ?? -1n));
    return width === undefined
      ? null
      : this.make('shl', this.make(width === 64 ? 'seteq' : 'seteq32', a, b), this.number(2n));
  }

  private opposite(truth: Term): readonly [op: string, a: Term, b: Term] {
    const { op, of } = this.nodes[truth]!;
    return [op.replace(/eq|ne/, (name) => (name === 'eq' ? 'ne' : 'eq')), of[0]!, of[1]!];
  }

  /** Whether two are equal, shifted to where Z is; null: a term is something else. */
  private shiftedTruth(term: Term): Term | null {
    const { op, of } = this.nodes[term]!;
    const isShifted = op === 'shl' && this.value(of[1]!) === 2n && /^set(?:eq|ne)/.test(this.nodes[of[0]!]!.op);
    return isShifted ? of[0]! : null;
  }

  /** Whether bits of a term are known to be set: another one is or'ed to them. */
  private hasBit(term: Term, bit: bigint): boolean {
    const { op, of, value } = this.nodes[term]!;
    return value === null ? op === 'or' && of.some((each) => this.hasBit(each, bit)) : (value & bit) !== 0n;
  }

  /** A sum or a difference: what is a number comes last. */
  private made(op: 'add' | 'sub', a: Term, b: Term): Term {
    const [[first, one], [second, two]] = [this.sum(a), this.sum(b)];
    const isNumber = (term: Term): boolean => this.value(term) === 0n;
    const sum = BigInt.asUintN(64, op === 'add' ? one + two : one - two);
    const last = this.number(sum);
    let rest: Term;
    if (isNumber(second)) rest = first;
    else if (op === 'add' && isNumber(first)) rest = second;
    else if (op === 'sub' && first === second) return last;
    else {
      const of = op === 'add' && first > second ? [second, first] : [first, second];
      rest = this.intern(`${op} ${of.join(' ')}`, { op, of, value: null });
    }
    return sum === 0n ? rest : this.intern(`add ${rest} ${last}`, { op: 'add', of: [rest, last], value: null });
  }

  /** Whether two ranges have no byte in common; false: not known. */
  private areApart(a: Term, sizeA: number, b: Term, sizeB: number): boolean {
    const [[one, from], [other, to]] = [this.sum(a), this.sum(b)];
    if (one !== other) return false;
    const distance = signed(to - from, 64);
    return distance >= BigInt(sizeA) || -distance >= BigInt(sizeB);
  }

  store(op: string, bytes: number, memory: Term, at: Term, all: Term): Term {
    const value = bytes === 4 ? this.narrow(all) : all;
    const last = this.nodes[memory]!;
    // Stores that do not meet are in the order of their addresses.
    if (/^store \d+ /.test(last.op)) {
      const [before, place, old] = last.of as [Term, Term, Term];
      const [, name, size] = /^store (\d+) (.*)$/.exec(last.op)!.map(String) as [string, string, string];
      if (place === at && Number(name) === bytes) return this.store(op, bytes, before, at, value);
      const isLower = signed(this.sum(at)[1] - this.sum(place)[1], 64) < 0n;
      if (isLower && this.areApart(at, bytes, place, Number(name))) {
        return this.push(size, Number(name), this.store(op, bytes, before, at, value), place, old);
      }
    }
    return this.push(op, bytes, memory, at, value);
  }

  private push(op: string, bytes: number, memory: Term, at: Term, value: Term): Term {
    return this.make(`store ${bytes} ${op}`, memory, at, value);
  }

  /** Memory without what was stored to the bytes below an address. */
  above(memory: Term, end: Term, reach: bigint): Term {
    const { op, of } = this.nodes[memory]!;
    if (!/^(?:store \d+ |event$)/.test(op)) return memory;
    const before = this.above(of[0]!, end, reach);
    const [, bytes, name] = op.split(' ') as [string, string, string];
    const [[base, at], [own, top]] = [this.sum(of[1]!), this.sum(end)];
    // Stacks are aligned.
    if (op === 'event' && base === own && (at - top) % STACK_ALIGN === 0n) return before;
    if (op !== 'event') {
      const distance = signed(top - at, 64);
      if (base === own && distance >= BigInt(bytes) && distance < reach) return before;
      return before === of[0]! ? memory : this.store(name, Number(bytes), before, of[1]!, of[2]!);
    }
    return before === of[0]! ? memory : this.make(op, before, ...of.slice(1));
  }

  /** @param name  of the op */
  load(name: string, bytes: number, memory: Term, at: Term): Term {
    const op = PLAIN[name] ?? name;
    let place = memory;
    for (let node = this.nodes[place]!; /^(?:store \d+ |event$)/.test(node.op); node = this.nodes[place]!) {
      if (node.op !== 'event') {
        const [, size, by] = node.op.split(' ') as [string, string, string];
        // What a whole register was stored to says what is loaded.
        const isWhole = by === op.replace(/^ld(32u)?/, (_, half) => (half === undefined ? 'st' : 'st32'));
        if (node.of[1] === at && isWhole && 8 * bytes === this.wordBits) return node.of[2]!;
        if (!this.areApart(at, bytes, node.of[1]!, Number(size))) break;
      }
      place = node.of[0]!;
    }
    return this.make(`load ${bytes} ${op}`, place, at);
  }

  /** A number of more than 32 bits, or one that is made of the lower half of another. */
  private isWide(term: Term): boolean {
    return this.lower(term) !== term;
  }

  /** Another term with the same lower half. */
  private lower(term: Term): Term {
    const { op, of, value } = this.nodes[term]!;
    if (value !== null) return this.number(low(value));
    return op === 'zx32' || op === 'sx32' ? this.lower(of[0]!) : term;
  }

  /** What the lower half of a term is made of: of sums and products it is that of lower halves. */
  private narrow(term: Term): Term {
    const { op, of, value } = this.nodes[term]!;
    if (value !== null) return this.number(low(value));
    if (op === 'zx32' || op === 'sx32') return this.narrow(of[0]!);
    const plain = NARROWS[op];
    return plain === undefined ? term : this.make(plain, ...of.slice(0, 2).map((each) => this.narrow(each)));
  }

  /** What a mask leaves of a shifted term, where that is of its lower half; null: it is not. */
  private lowerPart(shifted: Term, mask: Term): Term | null {
    const { op, of } = this.nodes[shifted]!;
    const [bits, count] = [this.value(mask), of[1] === undefined ? null : this.value(of[1])];
    if (bits === null || count === null || (op !== 'shl' && op !== 'rotl') || count > 32n) return null;
    const inner = this.narrow(of[0]!);
    if (inner === of[0] || (bits & ~(LOW << count)) !== 0n) return null;
    return this.make('and', this.make(op, inner, of[1]!), mask);
  }

  /** A condition as an atom, and whether it must hold. */
  condition(condition: Condition, width: number, a: Term, b: Term): readonly [Term, boolean] {
    const [name, isMirrored, holds] = CONDITIONS[condition];
    const isZeroFirst = name === 'eq' && this.value(a) === 0n;
    const [x, y] = isMirrored || isZeroFirst ? [b, a] : [a, b];
    if (name === 'eq' && this.value(y) === 0n) {
      const inner = this.truthOf(x);
      if (inner !== null) return [inner[0], inner[1] !== holds];
    }
    return [this.atom(name, width, x, y), holds];
  }

  /** Atom of a term that is 0 or not, and what it is where the term is not 0. */
  private truthOf(term: Term): readonly [Term, boolean] | null {
    const { op, of } = this.nodes[term]!;
    if (/^(?:eq|lt|ltu) \d+$/.test(op)) return [term, true];
    const set = /^set(eq|ne|lt|ge|gt|le|ltu|geu|gtu|leu)(32)?$/.exec(op);
    if (set !== null) return this.condition(set[1] as Condition, set[2] === undefined ? 64 : 32, of[0]!, of[1]!);
    const flags = FLAGS[op];
    const bits = flags === undefined ? undefined : FLAG_WIDTHS.get(Number(this.value(of[0]!) ?? -1n));
    if (flags !== undefined && bits !== undefined) return this.condition(flags, bits, of[1]!, of[2]!);
    const shifted = this.shiftedTruth(term);
    if (shifted !== null) return this.truthOf(shifted);
    const test = /^test(eq|lt|gt)$/.exec(op);
    const code = test === null ? null : this.value(of[0]!);
    const row = code === null ? null : RECORDS[Number(code)];
    if (test === null || row === null || row === undefined) return null;
    const [isSigned, width] = row;
    const name = test[1] as 'eq' | 'lt' | 'gt';
    return this.condition(name === 'eq' || isSigned ? name : `${name}u`, width, of[1]!, of[2]!);
  }

  private atom(name: string, width: number, a: Term, b: Term): Term {
    // Which of two equal ones is named first makes no difference.
    if (name === 'eq' && a > b) return this.atom(name, width, b, a);
    return this.make(`${name} ${width}`, a, b);
  }

  facts(): Facts {
    return { truths: new Map(), values: new Map(), isContradiction: false };
  }

  isContradiction({ isContradiction }: Facts): boolean {
    return isContradiction;
  }

  /** Whether a condition is known to hold, or not to. */
  truth(atom: Term, facts: Facts): boolean | null {
    const known = this.known(atom, facts);
    const { op, of } = this.nodes[known]!;
    const [x, y] = of.map((each) => this.value(each));
    if (x !== null && y !== null && x !== undefined && y !== undefined) {
      const width = Number(op.split(' ')[1]);
      const [p, q] = [BigInt.asUintN(width, x), BigInt.asUintN(width, y)];
      if (op.startsWith('eq')) return p === q;
      return op.startsWith('ltu') ? p < q : signed(p, width) < signed(q, width);
    }
    if (of[0] === of[1]) return op.startsWith('eq');
    return facts.truths.get(known) ?? facts.truths.get(atom) ?? null;
  }

  /** Whether a term is known not to be 0, as a whole and in its lower half. */
  isSet(term: Term, facts: Facts, width: number): boolean {
    const value = this.value(this.known(term, facts));
    if (value !== null) return low(value) !== 0n;
    return width === 32 && this.isNotZero(term, facts, width);
  }

  /** Whether a term is known not to be 0. */
  isNotZero(term: Term, facts: Facts, width: number): boolean {
    const [atom, holds] = this.condition('eq', width, term, this.number(0n));
    const truth = this.truth(atom, facts);
    return truth !== null && truth !== holds;
  }

  /** @param is32  registers have 32 bits: comparisons of so many say all */
  with(facts: Facts, atom: Term, holds: boolean, is32: boolean): Facts {
    const known = this.known(atom, facts);
    const truths = new Map(facts.truths).set(known, holds).set(atom, holds);
    let { values } = facts;
    const { op, of } = this.nodes[known]!;
    if (holds && (op === 'eq 64' || (is32 && op === 'eq 32'))) {
      const [a, b] = of as [Term, Term];
      if (this.value(b) !== null) values = new Map(values).set(a, b);
      else if (this.value(a) !== null) values = new Map(values).set(b, a);
    }
    // Of one bit it is known what it is if not 0.
    if (!holds && op.startsWith('eq ')) {
      const [asked, zero] = this.value(of[0]!) === 0n ? [of[1]!, of[0]!] : [of[0]!, of[1]!];
      const single = this.value(zero) === 0n ? this.singleBit(asked) : null;
      if (single !== null) values = new Map(values).set(asked, single);
    }
    const made: Facts = { truths, values, isContradiction: facts.isContradiction };
    // What was known before may say the opposite now.
    for (const [each, was] of facts.truths) {
      const now = this.truth(each, { ...made, truths: new Map() });
      if (now !== null && now !== was) return { ...made, isContradiction: true };
    }
    return made;
  }

  /** The bit that is all of a term that may be set, in its lower half; null: there may be more. */
  private singleBit(term: Term): Term | null {
    const { op, of } = this.nodes[term]!;
    const masks = op === 'and' || op === 'and32' ? of.filter((each) => this.value(each) !== null) : [];
    const bits = masks.length === 1 ? this.value(masks[0]!)! : 0n;
    return bits !== 0n && (bits & (bits - 1n)) === 0n && low(bits) === bits ? masks[0]! : null;
  }

  /** A term with what is known in it. */
  known(term: Term, facts: Facts): Term {
    if (facts.values.size === 0) return term;
    let seen = this.seen.get(facts.values);
    if (seen === undefined) this.seen.set(facts.values, (seen = new Map()));
    const done = seen;
    const visit = (each: Term): Term => {
      const value = facts.values.get(each);
      if (value !== undefined) return value;
      const before = done.get(each);
      if (before !== undefined) return before;
      const { op, of } = this.nodes[each]!;
      const parts = of.map(visit);
      const made = parts.every((part, i) => part === of[i]) ? each : this.make(op, ...parts);
      const known = facts.values.get(made) ?? made;
      done.set(each, known);
      return known;
    };
    return visit(term);
  }
}
