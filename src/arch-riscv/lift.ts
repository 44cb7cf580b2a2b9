/**
 * Instruction -> IR for 64-bit RISC-V: RV64IMAFDC, Zicsr, Zifencei, Zba, Zbb, Zbs and Zicond, in
 * user mode. Compressed instructions are lifted as the base instruction that they stand for.
 *
 * What differs from most machines:
 *
 * - There are no flags: comparisons are in the branches, or leave 0 or 1 in a register.
 * - `zero` reads as 0 from a slot that is never written. Instructions that write it have no effect
 *   but their access.
 * - Words (`addw`, `lw`, …) are kept sign-extended, `lwu` and the `.uw` forms excepted.
 * - Division never traps: x / 0 is all ones and x % 0 is x; the smallest number divided by -1 is
 *   itself, with remainder 0.
 * - Without Zba and Zbb a zero-extension is `slli`, `srli`, and an index `slli`, `add`: a shift
 *   left waits for the next instruction (`JOINED`), and one op does both where that overwrites the
 *   shifted register.
 * - An address is built by two instructions (`lui` or `auipc`, then `addi`, a load or `jalr`).
 *   Registers whose value is known in the block are followed, so that such a sum is a constant and
 *   the pair `auipc`, `jalr` a direct call or jump.
 * - `jalr` reads its base before it writes the link register, and clears bit 0 of the target. With
 *   the C extension no target is misaligned then; code that was compiled without it is executed by
 *   the same rules.
 * - Plain accesses may have any alignment, as Linux provides it; atomic ones trap when misaligned.
 * - `lr` and `sc` keep address and value of the reservation and compare both: a store by another
 *   CPU that restores the value is not seen. `sc` ends the reservation, whether it stores or not.
 *   Every instruction is atomic here and memory is sequentially consistent, so that `fence`, `.aq`
 *   and `.rl` have nothing to do.
 * - `fence.i` makes the own CPU fetch anew; nothing else of user code does, `jalr` neither.
 * - Counters: `cycle` and `instret` are the completed instructions of the CPU, `time` is the
 *   machine's. A write of a CSR that is read-only is an invalid form; any access to one of higher
 *   privilege is privileged. Linux sends SIGILL for both.
 *
 * Accesses that may fault come before the other effects of their instruction.
 *
 * Source: The RISC-V Instruction Set Manual, Volume I (unprivileged, 20240411); reserved cases as
 * in Volume II.
 */
import { BlockBuilder, mirrored, SlotLayout, slotRegister } from '../machine/ir.js';
import type {
  Block,
  Condition,
  Helper,
  HelperState,
  Lifter,
  LiftLimits,
  LoadName,
  Operand,
  RegisterView,
  Slot,
  StoreName,
  Terminator,
} from '../machine/ir.js';
import { BINARY32, BINARY64 } from '../float/index.js';
import type { Format } from '../float/index.js';
import type { FloatName, IntegralRounding } from '../machine/float-ops.js';
import { lazily, WordMemo } from '../isa/memo.js';
import type { Operands } from '../isa/table.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';
import { BOX, executeFloat, modeOf, ROUNDING_MODE, setMode } from './float.js';
import { expand, FLOAT_REGISTER_NAMES, instructionBytes, RA, REGISTER_NAMES, riscvTable, T0, ZERO } from './isa.js';
import type { RiscvExecutableMnemonic } from './isa.js';

// ------------------------------------------------------------------------------------------- slots

const SLOTS = new SlotLayout([
  ...REGISTER_NAMES.map((name) => [name, 'i64'] as const),
  ...['fcsr', 'float mode', 'resaddress', 'resvalue', 'elp'].map((name) => [name, 'i64'] as const),
  ...FLOAT_REGISTER_NAMES.map((name) => [name, 'f64'] as const),
]);
/** Slot of `zero` included: it is 0 and stays so. */
const GPR = REGISTER_NAMES.map((name) => SLOTS.slot(name));
const FPR = FLOAT_REGISTER_NAMES.map((name) => SLOTS.slot(name));
/** Exception flags in bits 4..0, rounding mode in 7..5. */
const FCSR = SLOTS.slot('fcsr');
/** What `fcsr` says to the ops of floating point (`modeOf`). Written with it. */
const MODE = SLOTS.slot('float mode');
/** 1: the next instruction must be a landing pad. Kept only where that is checked. */
const EXPECTED = SLOTS.slot('elp');
const RESERVED_ADDRESS = SLOTS.slot('resaddress');
const RESERVED_VALUE = SLOTS.slot('resvalue');
/** No reservation can have this address: it is odd. */
const NO_RESERVATION = 0xffff_ffff_ffff_ffffn;
/** What a reservation covers (Za64rs), and the unit of instruction fetch. */
const CACHE_LINE_BYTES = 64;

function setFcsr(state: HelperState, value: bigint): void {
  state.set(FCSR, value & 0xffn);
  state.set(MODE, modeOf(value));
}

const REGISTERS: readonly RegisterView[] = [
  ...REGISTER_NAMES.slice(1).map((name) => slotRegister(name, SLOTS.slot(name), 64)),
  ...FLOAT_REGISTER_NAMES.map((name) => slotRegister(name, SLOTS.slot(name), 64)),
  {
    name: 'fcsr',
    widthBits: 32,
    read: (state) => state.get(FCSR),
    write: setFcsr,
  },
];

// ----------------------------------------------------------------------------------------- lifting

type PureName = Parameters<BlockBuilder['make']>[0];

const wide = (value: bigint): bigint => BigInt.asUintN(64, value);

/** Ops and loads whose result is a word, sign-extended. */
const WORD_RESULTS: ReadonlySet<PureName | LoadName> = new Set<PureName | LoadName>([
  'add32s', 'sub32s', 'mul32s', 'shl32s', 'shr32s', 'sar32s', 'sx8', 'sx16', 'sx32', 'zx8', 'zx16',
  'seteq', 'setne', 'setlt', 'setltu', 'ld8u', 'ld8s', 'ld16u', 'ld16s', 'ld32s',
]); // prettier-ignore
/** Ops whose result is one when both operands are. */
const WORD_PRESERVING: ReadonlySet<PureName> = new Set<PureName>(['and', 'or', 'xor']);

/** An instruction being lifted. */
class Lifting {
  /** Registers whose value is known here, by slot. */
  private readonly known = new Map<Slot, bigint>();
  /**
   * Bit n: register n (which is slot n) is known to hold a word, sign-extended. Compilers extend
   * such ones again.
   */
  private words = 0;
  pc: Address = 0n;
  next: Address = 0n;
  /** A shift left whose op waits for the next instruction, which often makes one op of both. */
  private shift: { readonly d: Slot; readonly a: Slot; readonly count: bigint } | null = null;
  /** The instruction; of a compressed one its 16 bits. */
  word = 0;

  constructor(
    readonly b: BlockBuilder,
    /** `fence.i` must end the block: see `LiftLimits.synchronises`. */
    readonly synchronises: boolean,
    /** See `LiftLimits.slow`. */
    readonly slow: boolean,
    /** Some memory is guarded: indirect branches are noted. */
    readonly tracksBranches: boolean,
  ) {}

  /** The value of a slot where the block knows it. */
  valueOf(slot: Slot): bigint | undefined {
    return slot === GPR[ZERO] ? 0n : this.known.get(slot);
  }

  /** True when the operand is known to be a word, sign-extended. */
  isWord(operand: Operand): boolean {
    if (typeof operand === 'number' && operand < GPR.length && (this.words >>> operand) & 1) return true;
    const value = typeof operand === 'bigint' ? operand : this.valueOf(operand);
    return value !== undefined && sx32(value) === wide(value);
  }

  /**
   * The slot that an instruction writes: `zero` is never written. `word`: with a word,
   * sign-extended.
   */
  private target(d: Slot, word = false): Slot {
    if (d === GPR[ZERO]) return this.b.temp();
    this.known.delete(d);
    if (d < GPR.length) this.words = word ? this.words | (1 << d) : this.words & ~(1 << d);
    return d;
  }

  /** d := a << count, emitted later. */
  shiftLeft(d: Slot, a: Slot, count: bigint): void {
    this.target(d);
    this.shift = { d, a, count };
  }

  /**
   * The waiting shift, if `wanted` and of `d`: the caller does both then. Otherwise it is emitted.
   */
  takeShift(d: Slot, wanted: boolean): { readonly a: Slot; readonly count: bigint } | null {
    const { shift } = this;
    if (shift?.d === d && wanted) {
      this.shift = null;
      return shift;
    }
    this.flush();
    return null;
  }

  /**
   * Emits what waits. Before every instruction that does not ask for it, and at the end of the
   * block.
   */
  flush(): void {
    const { shift } = this;
    if (!shift) return;
    this.shift = null;
    this.b.to(shift.d, 'shl', shift.a, shift.count);
  }

  /** d := a constant. */
  constant(d: Slot, value: bigint): void {
    if (d === GPR[ZERO]) return;
    this.b.mov(this.target(d, this.isWord(value)), wide(value));
    this.known.set(d, wide(value));
  }

  copy(d: Slot, from: Operand): void {
    const value = typeof from === 'bigint' ? from : this.valueOf(from);
    if (value !== undefined) this.constant(d, value);
    else if (d !== GPR[ZERO]) this.b.mov(this.target(d, this.isWord(from)), from);
  }

  to(d: Slot, op: PureName, a: Operand, b: Operand = 0n): void {
    if (d === GPR[ZERO]) return;
    const word = WORD_RESULTS.has(op) || (WORD_PRESERVING.has(op) && this.isWord(a) && this.isWord(b));
    this.b.to(this.target(d, word), op, a, b);
  }

  select(d: Slot, c: Operand, a: Operand, b: Operand): void {
    if (d !== GPR[ZERO]) this.b.select(this.target(d), c, a, b);
  }

  /** An op of floating point into a general register. */
  float(d: Slot, op: FloatName, operands: readonly [a: Slot, b?: Slot]): void {
    this.b.float(this.target(d), op, MODE, operands);
  }

  load(op: LoadName, d: Slot, base: Slot, displacement: bigint): void {
    this.b.load(op, this.target(d, WORD_RESULTS.has(op)), base, displacement);
  }
}

/** Operands by the names of the rows. */
class Fields {
  constructor(private readonly operands: Operands) {}

  n(name: string): number {
    const value = this.operands[name];
    if (value === undefined) throw new ElftraceError('internal', `the row has no operand ${name}`, { what: name });
    return value;
  }

  /** An immediate, as the 64 bits that the machine makes of it. */
  big(name: string): bigint {
    return wide(BigInt(this.n(name)));
  }

  r(name: 'rd' | 'rs1' | 'rs2'): Slot {
    return GPR[this.n(name)]!;
  }

  has(name: string): boolean {
    return this.operands[name] !== undefined;
  }

  f(name: 'frd' | 'frs1' | 'frs2' | 'frs3'): Slot {
    return FPR[this.n(name)]!;
  }

  /** Second operand of an operation: a constant where the register is `zero`. */
  second(): Operand {
    const number = this.n('rs2');
    return number === ZERO ? 0n : GPR[number]!;
  }
}

/** Emits one instruction. A terminator ends the block; nothing goes on at the next instruction. */
type Lift = (x: Lifting, f: Fields) => Terminator | undefined;

/** An instruction that does nothing a program can see. */
const nothing: Lift = () => undefined;

// Arithmetic
// -------------------------------------------------------------------------------------------------

/** rd := a op b, from registers. */
const registers =
  (op: PureName): Lift =>
  (x, f) => {
    x.to(f.r('rd'), op, f.r('rs1'), f.second());
    return undefined;
  };

/** rd := a op immediate; `fold` computes what is known. */
const immediate =
  (op: PureName, field: 'imm' | 'shamt', fold?: (a: bigint, b: bigint) => bigint): Lift =>
  (x, f) => {
    const a = f.r('rs1');
    const b = f.big(field);
    const value = fold && x.valueOf(a);
    if (value !== undefined) x.constant(f.r('rd'), fold!(value, b));
    else x.to(f.r('rd'), op, a, b);
    return undefined;
  };

const single =
  (emit: (x: Lifting, d: Slot, a: Slot) => void): Lift =>
  (x, f) => {
    if (f.n('rd') !== ZERO) emit(x, f.r('rd'), f.r('rs1'));
    return undefined;
  };

/** rd := f(a, b) by several ops; not emitted for `zero`. */
const computed =
  (emit: (x: Lifting, d: Slot, a: Slot, b: Slot) => void): Lift =>
  (x, f) => {
    if (f.n('rd') !== ZERO) emit(x, f.r('rd'), f.r('rs1'), f.r('rs2'));
    return undefined;
  };

/** rd := f(a, shamt) by several ops. */
const counted =
  (emit: (x: Lifting, d: Slot, a: Slot, count: bigint) => void): Lift =>
  (x, f) => {
    if (f.n('rd') !== ZERO) emit(x, f.r('rd'), f.r('rs1'), f.big('shamt'));
    return undefined;
  };

/** Quotients of 64 bits; the op gives 0 for a divisor of 0, from which 1 is taken then. */
function quotient(x: Lifting, d: Slot, op: 'divs' | 'divu', a: Operand, b: Operand): void {
  const { b: out } = x;
  const none = out.make('seteq', b, 0n);
  x.to(d, 'sub', out.make(op, a, b), none);
}

/**
 * Of words: operands widened, the result sign-extended. The smallest word divided by -1 wraps in
 * `sx32`.
 */
const wordDivision = (op: 'divs' | 'divu' | 'rems' | 'remu'): Lift =>
  computed((x, d, a, b) => {
    const { b: out } = x;
    const widen = op.endsWith('s') ? 'sx32' : 'zx32';
    const [p, q] = [out.make(widen, a), out.make(widen, b)];
    if (op === 'divs' || op === 'divu') {
      const none = out.make('seteq', q, 0n);
      x.to(d, 'sub32s', out.make(op, p, q), none);
    } else x.to(d, 'sx32', out.make(op, p, q));
  });

const extreme = (condition: 'lt' | 'ltu' | 'gt' | 'gtu'): Lift =>
  computed((x, d, a, b) => {
    x.select(d, x.b.make(`set${condition}`, a, b), a, b);
  });

const shiftedAdd = (op: 'addsh1' | 'addsh2' | 'addsh3', unsignedWord: boolean): Lift =>
  computed((x, d, a, b) => {
    x.to(d, op, b, unsignedWord ? x.b.make('zx32', a) : a);
  });

/** 1 << count. */
const bitOf = (x: Lifting, count: Operand): Operand =>
  typeof count === 'bigint' ? 1n << (count & 63n) : x.b.make('shl', 1n, count);

/** All ones but for the bit. */
const allBut = (x: Lifting, count: Operand): Operand =>
  typeof count === 'bigint' ? wide(~(1n << (count & 63n))) : x.b.make('rotl', 0xffff_ffff_ffff_fffen, count);

const LOW_7 = 0x7f7f_7f7f_7f7f_7f7fn;

/** 0xff in every byte that is not 0. */
function orCombine(x: Lifting, d: Slot, a: Slot): void {
  const { b } = x;
  // Bit 7 of each byte: set in the byte itself, or carried into by its other bits.
  const carried = b.make('add', b.make('and', a, LOW_7), LOW_7);
  const top = b.make('and', b.make('or', carried, a), 0x8080_8080_8080_8080n);
  // 0x80 -> 0xff: twice the bit (the last one's is lost) less the bit's lowest place.
  x.to(d, 'sub', b.make('shl', top, 1n), b.make('shr', top, 7n));
}

const upper: Lift = (x, f) => {
  x.constant(f.r('rd'), f.big('upper'));
  return undefined;
};

// Pairs of a shift left and what follows
// --------------------------------------------------------------------------------

const slli: Lift = (x, f) => {
  const a = f.r('rs1');
  const d = f.r('rd');
  const count = f.big('shamt');
  const value = x.valueOf(a);
  if (value !== undefined) x.constant(d, value << count);
  else if (f.n('rd') !== ZERO) x.shiftLeft(d, a, count);
  return undefined;
};

/** Left by `64 - bits` and right again: bits of the field -> op. */
const EXTENSIONS = {
  srli: { 8: 'zx8', 16: 'zx16', 32: 'zx32' },
  srai: { 8: 'sx8', 16: 'sx16', 32: 'sx32' },
} as const satisfies Readonly<Record<string, Readonly<Record<number, PureName>>>>;

const shiftRight =
  (kind: 'srli' | 'srai'): Lift =>
  (x, f) => {
    const a = f.r('rs1');
    const d = f.r('rd');
    const count = f.big('shamt');
    const shift = x.takeShift(d, d === a);
    const value = x.valueOf(a);
    if (shift) {
      const bits = 64n - shift.count;
      const op = bits === 8n || bits === 16n || bits === 32n ? EXTENSIONS[kind][`${bits}`] : undefined;
      if (op !== undefined && count <= shift.count) {
        x.to(d, op, shift.a);
        if (count < shift.count) x.shiftLeft(d, d, shift.count - count);
      } else {
        x.b.to(d, 'shl', shift.a, shift.count);
        x.to(d, kind === 'srli' ? 'shr' : 'sar', d, count);
      }
    } else if (value !== undefined && kind === 'srli') x.constant(d, value >> count);
    else x.to(d, kind === 'srli' ? 'shr' : 'sar', a, count);
    return undefined;
  };

const ADD_SHIFTED = { 1: 'addsh1', 2: 'addsh2', 3: 'addsh3' } as const;

const add: Lift = (x, f) => {
  const [d, a, b] = [f.r('rd'), f.r('rs1'), f.r('rs2')];
  const shift = x.takeShift(d, a !== b && (d === a || d === b));
  if (shift) {
    const other = d === a ? b : a;
    const { count } = shift;
    if (count === 1n || count === 2n || count === 3n) x.to(d, ADD_SHIFTED[`${count}`], other, shift.a);
    else {
      x.b.to(d, 'shl', shift.a, count);
      x.to(d, 'add', a, b);
    }
  } else if (f.n('rs1') === ZERO)
    x.copy(d, b); // `mv` is written so in compressed code
  else if (f.n('rs2') === ZERO) x.copy(d, a);
  else x.to(d, 'add', a, b);
  return undefined;
};

/** Instructions that ask for a waiting shift. */
const JOINED: ReadonlySet<string> = new Set(['srli', 'srai', 'add']);

// Branches
// -------------------------------------------------------------------------------------------------

const branch =
  (condition: Condition): Lift =>
  (x, f) => {
    const pc = wide(x.pc + f.big('off'));
    const common = { kind: 'br', width: 64, pc, next: x.next } as const;
    // A comparison with `zero` is one with a constant.
    if (f.n('rs1') === ZERO) return { ...common, condition: mirrored(condition), a: f.r('rs2'), b: 0n };
    return { ...common, condition, a: f.r('rs1'), b: f.second() };
  };

/**
 * ra and t0 are where return addresses are kept (Volume I, 2.5.1, hints for return-address stacks).
 */
const isLink = (register: number): boolean => register === RA || register === T0;

const jal: Lift = (x, f) => {
  const pc = wide(x.pc + f.big('off'));
  x.constant(f.r('rd'), x.next);
  return isLink(f.n('rd')) ? { kind: 'call', pc, ret: x.next } : { kind: 'jmp', pc };
};

/** Branches through ra, t0 and t2 land anywhere (Zicfilp): returns, and what software guards. */
const UNTRACKED: ReadonlySet<number> = new Set([RA, T0, 7]);

const EVEN = 0xffff_ffff_ffff_fffen;

const jalr: Lift = (x, f) => {
  const base = f.r('rs1');
  const offset = f.big('imm');
  const value = x.valueOf(base);
  const links = isLink(f.n('rd'));
  if (x.tracksBranches && !UNTRACKED.has(f.n('rs1'))) x.b.mov(EXPECTED, 1n);
  if (value !== undefined) {
    const pc = wide(value + offset) & EVEN;
    x.constant(f.r('rd'), x.next);
    return links ? { kind: 'call', pc, ret: x.next } : { kind: 'jmp', pc };
  }
  let s = base;
  if (offset !== 0n) s = x.b.make('add', base, offset);
  else if (f.n('rd') === f.n('rs1')) s = x.b.make('mov', base);
  x.constant(f.r('rd'), x.next);
  if (links) return { kind: 'calli', s, mask: EVEN, ret: x.next };
  return isLink(f.n('rs1')) && offset === 0n ? { kind: 'ret', s, mask: EVEN } : { kind: 'ind', s, mask: EVEN };
};

// Memory
// -------------------------------------------------------------------------------------------------

const load =
  (op: LoadName): Lift =>
  (x, f) => {
    x.load(op, f.r('rd'), f.r('rs1'), f.big('imm'));
    return undefined;
  };

const store =
  (op: StoreName): Lift =>
  (x, f) => {
    x.b.store(op, f.r('rs2'), f.r('rs1'), f.big('imm'));
    return undefined;
  };

type Size = 'w' | 'd';

/** Atomic accesses trap when misaligned. */
function aligned(x: Lifting, f: Fields, size: Size): void {
  x.b.aligned(f.r('rs1'), size === 'w' ? 3n : 7n);
}

const loadReserved =
  (size: Size): Lift =>
  (x, f) => {
    const { b } = x;
    const value = b.temp();
    aligned(x, f, size);
    b.load(size === 'w' ? 'ld32s' : 'ld64', value, f.r('rs1'), 0n);
    b.mov(RESERVED_ADDRESS, f.r('rs1'));
    b.mov(RESERVED_VALUE, value);
    x.copy(f.r('rd'), value);
    return undefined;
  };

const storeConditional =
  (size: Size): Lift =>
  (x, f) => {
    const { b } = x;
    const address = f.r('rs1');
    const current = b.temp();
    aligned(x, f, size);
    b.load(size === 'w' ? 'ld32srmw' : 'ld64rmw', current, address, 0n);
    const unchanged = b.make('seteq', current, RESERVED_VALUE);
    const success = b.make('and', b.make('seteq', address, RESERVED_ADDRESS), unchanged);
    const value = b.temp();
    b.select(value, success, f.r('rs2'), current);
    b.store(size === 'w' ? 'st32' : 'st64', value, address, 0n);
    b.mov(RESERVED_ADDRESS, NO_RESERVATION);
    x.to(f.r('rd'), 'xor', success, 1n);
    return undefined;
  };

/** rd := memory; memory := f(memory, rs2). */
const atomic =
  (size: Size, combine: (x: Lifting, memory: Slot, operand: Slot) => Slot): Lift =>
  (x, f) => {
    const { b } = x;
    const memory = b.temp();
    aligned(x, f, size);
    b.load(size === 'w' ? 'ld32srmw' : 'ld64rmw', memory, f.r('rs1'), 0n);
    b.store(size === 'w' ? 'st32' : 'st64', combine(x, memory, f.r('rs2')), f.r('rs1'), 0n);
    x.copy(f.r('rd'), memory);
    return undefined;
  };

const atomicExtreme = (size: Size, condition: 'lt' | 'ltu' | 'gt' | 'gtu'): Lift =>
  atomic(size, ({ b }, memory, operand) => {
    const d = b.temp();
    b.select(d, b.make(size === 'w' ? `set${condition}32` : `set${condition}`, memory, operand), memory, operand);
    return d;
  });

const atomicOp = (size: Size, op: 'add' | 'and' | 'or' | 'xor'): Lift =>
  atomic(size, ({ b }, memory, operand) => b.make(op, memory, operand));

const atomicSwap = (size: Size): Lift => atomic(size, (_x, _memory, operand) => operand);

// Floating point registers
// ----------------------------------------------------------------------------------------------

/** Singles are kept with ones above them; anything else counts as the NaN of the machine. */
const SINGLE_NAN = 0x7fc0_0000n;

/** The bits of a single, zero-extended. */
function unboxed({ b }: Lifting, register: Slot): Slot {
  const bits = b.make('f64bits', register);
  const boxed = b.make('seteq', b.make('shr', bits, 32n), 0xffff_ffffn);
  const d = b.temp();
  b.select(d, boxed, b.make('zx32', bits), SINGLE_NAN);
  return d;
}

/** frd := the first operand with a sign made of the signs of both. */
const sign =
  (bits: 32 | 64, how: 'copy' | 'negate' | 'xor'): Lift =>
  (x, f) => {
    const { b } = x;
    const read = (register: Slot): Slot => (bits === 32 ? unboxed(x, register) : b.make('f64bits', register));
    const [first, second] = [read(f.f('frs1')), read(f.f('frs2'))];
    const top = 1n << BigInt(bits - 1);
    const signOf = (value: Slot): Slot => b.make('and', value, top);
    let out: Slot;
    if (how === 'xor') out = b.make('xor', first, signOf(second));
    else {
      const wanted = how === 'copy' ? signOf(second) : b.make('xor', signOf(second), top);
      out = b.make('or', b.make('and', first, top - 1n), wanted);
    }
    if (bits === 32) out = b.make('or', out, BOX);
    b.to(f.f('frd'), 'bitsf64', out);
    return undefined;
  };

/** An instruction that computes, by the helper: for every operand, mode and flag. */
const slowFloat: Lift = (x) => ({ kind: 'helper', name: 'float', argument: x.word, next: x.next });

/** One that an op computes where it decides, and where its rounding mode is to nearest. */
const float =
  (emit: (x: Lifting, f: Fields) => void): Lift =>
  (x, f) => {
    const { nearest, dynamic } = ROUNDING_MODE;
    const rm = f.has('rm') ? f.n('rm') : dynamic;
    if (x.slow || (rm !== nearest && rm !== dynamic)) return slowFloat(x, f);
    emit(x, f);
    return undefined;
  };

const FLOAT_SOURCES = ['frs1', 'frs2', 'frs3'] as const;

/** frd := op of one to three registers. */
const floats = (op: FloatName, operands: 1 | 2 | 3): Lift =>
  float((x, f) => {
    const [first, second, third] = FLOAT_SOURCES;
    const b = operands > 1 ? f.f(second) : undefined;
    x.b.float(f.f('frd'), op, MODE, [f.f(first), b, operands > 2 ? f.f(third) : undefined]);
  });

/** rd := a comparison. It is made for `zero` too, because of its flags. */
const floatCompare = (op: FloatName): Lift =>
  float((x, f) => {
    x.float(f.r('rd'), op, [f.f('frs1'), f.f('frs2')]);
  });

/** frd := +-(a * b) +- c. */
const floatFused = (width: 32 | 64, negates: { readonly product: boolean; readonly addend: boolean }): Lift =>
  float((x, f) => {
    const { b } = x;
    const sign = 1n << BigInt(width - 1);
    const operand = (name: (typeof FLOAT_SOURCES)[number], negated: boolean): Slot =>
      negated ? b.make('xor', b.make('f64bits', f.f(name)), sign) : f.f(name);
    const first = operand('frs1', negates.product);
    const third = operand('frs3', negates.addend);
    b.float(f.f('frd'), width === 64 ? 'fma64' : 'fma32', MODE, [first, f.f('frs2'), third]);
  });

const floatFromInteger = (op: FloatName): Lift =>
  float((x, f) => {
    x.b.float(f.f('frd'), op, MODE, [f.r('rs1')]);
  });

/**
 * frd := a doubleword with a sign. Of one that fits the mode does not matter: C libraries round so
 * and come back in the same mode.
 */
const doubleFromLong: Lift = (x, f) => {
  const { b } = x;
  const { nearest, dynamic, away } = ROUNDING_MODE;
  const rm = f.n('rm');
  // Between them are the modes that do not exist.
  if (x.slow || (rm > away && rm < dynamic)) return slowFloat(x, f);
  if (rm !== nearest && rm !== dynamic) b.guard(b.make('setltu', b.make('add', f.r('rs1'), 1n << 53n), 1n << 54n));
  b.float(f.f('frd'), 'fdouble_s64', MODE, [f.r('rs1')]);
  return undefined;
};

/** frd := a word, which is exact. */
const doubleFromWord =
  (op: 'doubles32' | 'doubleu32'): Lift =>
  (x, f) => {
    x.b.to(f.f('frd'), op, f.r('rs1'));
    return undefined;
  };

/** rd := the class of a number, as one bit: of negative ones from infinity to zero, and back up. */
const floatClass =
  ({ signBit, infinity, quietBit, fractionMask }: Format): Lift =>
  (x, f) => {
    const { b } = x;
    const bits = signBit === BINARY32.signBit ? unboxed(x, f.f('frs1')) : b.make('f64bits', f.f('frs1'));
    const magnitude = b.make('and', bits, signBit - 1n);
    const steps = [1n, fractionMask + 1n, infinity].map((least) => b.make('setgeu', magnitude, least));
    const above = b.make('add', b.make('add', steps[0]!, steps[1]!), steps[2]!);
    const isNegative = b.make('setne', b.make('and', bits, signBit), 0n);
    const ordered = b.temp();
    b.select(ordered, isNegative, b.make('sub', 3n, above), b.make('add', above, 4n));
    const isQuiet = b.make('setne', b.make('and', bits, quietBit), 0n);
    const isNan = b.make('setgtu', magnitude, infinity);
    b.select(ordered, isNan, b.make('add', isQuiet, 8n), ordered);
    x.to(f.r('rd'), 'shl', 1n, ordered);
    return undefined;
  };

const INTEGRAL = {
  [ROUNDING_MODE.nearest]: 'nearest', [ROUNDING_MODE.zero]: 'zero', [ROUNDING_MODE.down]: 'down', [ROUNDING_MODE.up]: 'up',
  [ROUNDING_MODE.dynamic]: 'nearest',
} as const satisfies Readonly<Record<number, IntegralRounding>>; // prettier-ignore

/** rd := a number rounded to an integer. Modes with an op of their own need not be to nearest. */
const floatToInteger =
  (width: 32 | 64, to: 's32' | 'u32' | 's64' | 'u64'): Lift =>
  (x, f) => {
    const rm = f.n('rm');
    const rounding = Object.entries(INTEGRAL).find(([mode]) => Number(mode) === rm)?.[1];
    if (x.slow || rounding === undefined) return slowFloat(x, f);
    x.float(f.r('rd'), `f${rounding}${width}_${to}`, [f.f('frs1')]);
    return undefined;
  };

// System
// -------------------------------------------------------------------------------------------------

const CSR = { fflags: 0x001, frm: 0x002, fcsr: 0x003, cycle: 0xc00, time: 0xc01, instret: 0xc02 } as const;
const CSR_NUMBERS: ReadonlySet<number> = new Set(Object.values(CSR));

const UNKNOWN = { kind: 'unknown', mnemonic: null, sizeBytes: 4 } as const satisfies Terminator;
const PRIVILEGED = { kind: 'trap', trap: 'privileged' } as const satisfies Terminator;
const INVALID = { kind: 'trap', trap: 'invalid-form' } as const satisfies Terminator;

/** The registers of floating point are fields of `fcsr`: the lowest bit of each, and its mask. */
const FLOAT_CSR: ReadonlyMap<number, { readonly shift: bigint; readonly mask: bigint }> = new Map([
  [CSR.fflags, { shift: 0n, mask: 0x1fn }],
  [CSR.frm, { shift: 5n, mask: 7n }],
  [CSR.fcsr, { shift: 0n, mask: 0xffn }],
]);

interface CsrAccess {
  readonly how: 'write' | 'set' | 'clear';
  readonly operand: Operand;
  readonly writes: boolean;
}

/**
 * Reads and writes a field of `fcsr`. Compilers read the flags in front of each comparison that is
 * not to raise any, and write them again behind it. They are true at any time: ops raise none.
 */
function accessFloatCsr(
  x: Lifting,
  f: Fields,
  { shift, mask }: { readonly shift: bigint; readonly mask: bigint },
  { how, operand, writes }: CsrAccess,
): void {
  const { b } = x;
  const old = b.make('and', b.make('shr', FCSR, shift), mask);
  if (writes) {
    let value = b.make('and', operand, mask);
    if (how === 'set') value = b.make('or', old, value);
    else if (how === 'clear') value = b.make('and', old, b.make('xor', value, mask));
    b.to(FCSR, 'or', b.make('and', FCSR, 0xffn & ~(mask << shift)), b.make('shl', value, shift));
    setMode(b, MODE, FCSR);
  }
  x.copy(f.r('rd'), old);
}

/** A CSR instruction; `source` is the field of what it writes. */
const csr =
  (how: 'write' | 'set' | 'clear', source: 'rs1' | 'zimm'): Lift =>
  (x, f) => {
    const number = f.n('csr');
    const writes = how === 'write' || f.n(source) !== 0;
    const readOnly = number >> 10 === 3;
    const privilege = (number >> 8) & 3;
    if (privilege !== 0) return PRIVILEGED;
    if (readOnly && writes) return INVALID;
    if (!CSR_NUMBERS.has(number)) return UNKNOWN;
    const place = FLOAT_CSR.get(number);
    if (place !== undefined) {
      accessFloatCsr(x, f, place, { how, operand: source === 'rs1' ? f.r('rs1') : f.big('zimm'), writes });
      return undefined;
    }
    return { kind: 'helper', name: 'csr', argument: x.word, next: x.next };
  };

/** Counters, which are read-only; the others are in `accessFloatCsr`. */
function readCsr(state: HelperState, number: number): bigint {
  return number === CSR.time ? state.time : BigInt(state.instructions);
}

const HELPERS: Readonly<Record<string, Helper>> = {
  /** csr[31:20] rs1-or-immediate[19:15] funct3[14:12] rd[11:7], which writes none. */
  csr: (state, word) => {
    const rd = (word >>> 7) & 31;
    if (rd !== ZERO) state.set(GPR[rd]!, wide(readCsr(state, word >>> 20)));
    return { kind: 'next' };
  },
  /** The word of an instruction that computes with floating point. */
  float: (state, word) => {
    const fcsr = state.get(FCSR);
    const effect = executeFloat(word, {
      float: (register) => state.get(FPR[register]!),
      integer: (register) => state.get(GPR[register]!),
      mode: Number(fcsr >> 5n),
    });
    if (!effect) return { kind: 'trap', trap: 'invalid-form' };
    const { file, register, value, flags } = effect;
    if (file === 'float') state.set(FPR[register]!, value);
    else if (register !== ZERO) state.set(GPR[register]!, value);
    if (flags !== 0) setFcsr(state, fcsr | BigInt(flags));
    return { kind: 'next' };
  },
};

// --------------------------------------------------------------------------------------- semantics

const sx32 = (value: bigint): bigint => BigInt.asIntN(32, value);

/** One entry for each instruction that programs execute. */
const SEMANTICS = {
  lui: upper,
  auipc: (x, f) => {
    x.constant(f.r('rd'), x.pc + f.big('upper'));
    return undefined;
  },
  jal,
  jalr,
  beq: branch('eq'),
  bne: branch('ne'),
  blt: branch('lt'),
  bge: branch('ge'),
  bltu: branch('ltu'),
  bgeu: branch('geu'),
  lb: load('ld8s'),
  lh: load('ld16s'),
  lw: load('ld32s'),
  ld: load('ld64'),
  lbu: load('ld8u'),
  lhu: load('ld16u'),
  lwu: load('ld32u'),
  sb: store('st8'),
  sh: store('st16'),
  sw: store('st32'),
  sd: store('st64'),
  addi: (x, f) => {
    const a = f.r('rs1');
    const value = x.valueOf(a);
    if (value !== undefined) x.constant(f.r('rd'), value + f.big('imm'));
    else if (f.n('imm') === 0) x.copy(f.r('rd'), a);
    else x.to(f.r('rd'), 'add', a, f.big('imm'));
    return undefined;
  },
  slti: immediate('setlt', 'imm'),
  sltiu: immediate('setltu', 'imm'),
  xori: immediate('xor', 'imm'),
  ori: immediate('or', 'imm', (a, b) => a | b),
  andi: immediate('and', 'imm'),
  slli,
  srli: shiftRight('srli'),
  srai: shiftRight('srai'),
  add,
  sub: registers('sub'),
  sll: registers('shl'),
  slt: registers('setlt'),
  sltu: (x, f) => {
    // `snez`
    if (f.n('rs1') === ZERO) x.to(f.r('rd'), 'setne', f.r('rs2'), 0n);
    else x.to(f.r('rd'), 'setltu', f.r('rs1'), f.second());
    return undefined;
  },
  xor: registers('xor'),
  srl: registers('shr'),
  sra: registers('sar'),
  or: registers('or'),
  and: registers('and'),
  addiw: (x, f) => {
    const a = f.r('rs1');
    const value = x.valueOf(a);
    if (value !== undefined) x.constant(f.r('rd'), sx32(value + f.big('imm')));
    else if (f.n('imm') === 0 && x.isWord(a)) x.copy(f.r('rd'), a);
    else if (f.n('imm') === 0) x.to(f.r('rd'), 'sx32', a);
    else x.to(f.r('rd'), 'add32s', a, f.big('imm'));
    return undefined;
  },
  slliw: immediate('shl32s', 'shamt'),
  srliw: immediate('shr32s', 'shamt'),
  sraiw: immediate('sar32s', 'shamt'),
  addw: registers('add32s'),
  subw: registers('sub32s'),
  sllw: registers('shl32s'),
  srlw: registers('shr32s'),
  sraw: registers('sar32s'),
  fence: nothing,
  'fence.tso': nothing,
  pause: nothing,
  'fence.i': (x) => (x.synchronises ? { kind: 'sync', next: x.next } : undefined),
  ecall: (x) => ({ kind: 'helper', name: 'syscall', argument: 0, next: x.next }),
  ebreak: () => ({ kind: 'trap', trap: 'breakpoint' }),
  csrrw: csr('write', 'rs1'),
  csrrs: csr('set', 'rs1'),
  csrrc: csr('clear', 'rs1'),
  csrrwi: csr('write', 'zimm'),
  csrrsi: csr('set', 'zimm'),
  csrrci: csr('clear', 'zimm'),
  unimp: () => INVALID,

  mul: registers('mul'),
  mulh: registers('mulhs'),
  mulhsu: computed((x, d, a, b) => {
    // A negative a counts 2^64 too much as an unsigned number.
    const { b: out } = x;
    const excess = out.make('and', out.make('sar', a, 63n), b);
    x.to(d, 'sub', out.make('mulhu', a, b), excess);
  }),
  mulhu: registers('mulhu'),
  div: computed((x, d, a, b) => {
    quotient(x, d, 'divs', a, b);
  }),
  divu: computed((x, d, a, b) => {
    quotient(x, d, 'divu', a, b);
  }),
  rem: registers('rems'),
  remu: registers('remu'),
  mulw: registers('mul32s'),
  divw: wordDivision('divs'),
  divuw: wordDivision('divu'),
  remw: wordDivision('rems'),
  remuw: wordDivision('remu'),

  'lr.w': loadReserved('w'),
  'lr.d': loadReserved('d'),
  'sc.w': storeConditional('w'),
  'sc.d': storeConditional('d'),
  'amoswap.w': atomicSwap('w'),
  'amoswap.d': atomicSwap('d'),
  'amoadd.w': atomicOp('w', 'add'),
  'amoadd.d': atomicOp('d', 'add'),
  'amoxor.w': atomicOp('w', 'xor'),
  'amoxor.d': atomicOp('d', 'xor'),
  'amoand.w': atomicOp('w', 'and'),
  'amoand.d': atomicOp('d', 'and'),
  'amoor.w': atomicOp('w', 'or'),
  'amoor.d': atomicOp('d', 'or'),
  'amomin.w': atomicExtreme('w', 'lt'),
  'amomin.d': atomicExtreme('d', 'lt'),
  'amomax.w': atomicExtreme('w', 'gt'),
  'amomax.d': atomicExtreme('d', 'gt'),
  'amominu.w': atomicExtreme('w', 'ltu'),
  'amominu.d': atomicExtreme('d', 'ltu'),
  'amomaxu.w': atomicExtreme('w', 'gtu'),
  'amomaxu.d': atomicExtreme('d', 'gtu'),

  'add.uw': computed((x, d, a, b) => {
    if (b === GPR[ZERO]) x.to(d, 'zx32', a);
    else x.to(d, 'add', x.b.make('zx32', a), b);
  }),
  sh1add: shiftedAdd('addsh1', false),
  sh2add: shiftedAdd('addsh2', false),
  sh3add: shiftedAdd('addsh3', false),
  'sh1add.uw': shiftedAdd('addsh1', true),
  'sh2add.uw': shiftedAdd('addsh2', true),
  'sh3add.uw': shiftedAdd('addsh3', true),
  'slli.uw': counted((x, d, a, count) => {
    x.to(d, 'shl', x.b.make('zx32', a), count);
  }),
  andn: computed((x, d, a, b) => {
    x.to(d, 'and', a, x.b.make('xor', b, 0xffff_ffff_ffff_ffffn));
  }),
  orn: computed((x, d, a, b) => {
    x.to(d, 'or', a, x.b.make('xor', b, 0xffff_ffff_ffff_ffffn));
  }),
  xnor: computed((x, d, a, b) => {
    x.to(d, 'xor', a, x.b.make('xor', b, 0xffff_ffff_ffff_ffffn));
  }),
  clz: single((x, d, a) => {
    x.to(d, 'clz', a);
  }),
  ctz: single((x, d, a) => {
    x.to(d, 'ctz', a);
  }),
  cpop: single((x, d, a) => {
    x.to(d, 'popcnt', a);
  }),
  clzw: single((x, d, a) => {
    x.to(d, 'clz32', a);
  }),
  ctzw: single((x, d, a) => {
    x.to(d, 'ctz32', a);
  }),
  cpopw: single((x, d, a) => {
    x.to(d, 'popcnt', x.b.make('zx32', a));
  }),
  'sext.b': single((x, d, a) => {
    x.to(d, 'sx8', a);
  }),
  'sext.h': single((x, d, a) => {
    x.to(d, 'sx16', a);
  }),
  'zext.h': single((x, d, a) => {
    x.to(d, 'zx16', a);
  }),
  min: extreme('lt'),
  minu: extreme('ltu'),
  max: extreme('gt'),
  maxu: extreme('gtu'),
  rol: registers('rotl'),
  ror: registers('rotr'),
  rolw: computed((x, d, a, b) => {
    x.to(d, 'sx32', x.b.make('rotl32', a, b));
  }),
  rorw: computed((x, d, a, b) => {
    x.to(d, 'sx32', x.b.make('rotr32', a, b));
  }),
  rori: immediate('rotr', 'shamt'),
  roriw: counted((x, d, a, count) => {
    x.to(d, 'sx32', x.b.make('rotr32', a, count));
  }),
  'orc.b': single(orCombine),
  rev8: single((x, d, a) => {
    x.to(d, 'bswap64', a);
  }),
  bclr: computed((x, d, a, b) => {
    x.to(d, 'and', a, allBut(x, b));
  }),
  bext: computed((x, d, a, b) => {
    x.to(d, 'and', x.b.make('shr', a, b), 1n);
  }),
  binv: computed((x, d, a, b) => {
    x.to(d, 'xor', a, bitOf(x, b));
  }),
  bset: computed((x, d, a, b) => {
    x.to(d, 'or', a, bitOf(x, b));
  }),
  bclri: counted((x, d, a, count) => {
    x.to(d, 'and', a, allBut(x, count));
  }),
  bexti: counted((x, d, a, count) => {
    x.to(d, 'and', x.b.make('shr', a, count), 1n);
  }),
  binvi: counted((x, d, a, count) => {
    x.to(d, 'xor', a, bitOf(x, count));
  }),
  bseti: counted((x, d, a, count) => {
    x.to(d, 'or', a, bitOf(x, count));
  }),
  'czero.eqz': computed((x, d, a, b) => {
    x.select(d, b, a, 0n);
  }),
  'czero.nez': computed((x, d, a, b) => {
    x.select(d, b, 0n, a);
  }),

  flw: (x, f) => {
    const { b } = x;
    const value = b.temp();
    b.load('ld32u', value, f.r('rs1'), f.big('imm'));
    b.to(f.f('frd'), 'bitsf64', b.make('or', value, BOX));
    return undefined;
  },
  fld: (x, f) => {
    x.b.load('ldf64', f.f('frd'), f.r('rs1'), f.big('imm'));
    return undefined;
  },
  fsw: (x, f) => {
    x.b.store('st32', x.b.make('f64bits', f.f('frs2')), f.r('rs1'), f.big('imm'));
    return undefined;
  },
  fsd: (x, f) => {
    x.b.store('stf64', f.f('frs2'), f.r('rs1'), f.big('imm'));
    return undefined;
  },
  'fmv.x.d': (x, f) => {
    x.to(f.r('rd'), 'f64bits', f.f('frs1'));
    return undefined;
  },
  'fmv.d.x': (x, f) => {
    x.b.to(f.f('frd'), 'bitsf64', f.r('rs1'));
    return undefined;
  },
  'fmv.x.w': (x, f) => {
    x.to(f.r('rd'), 'sx32', x.b.make('f64bits', f.f('frs1')));
    return undefined;
  },
  'fmv.w.x': (x, f) => {
    x.b.to(f.f('frd'), 'bitsf64', x.b.make('or', x.b.make('zx32', f.r('rs1')), BOX));
    return undefined;
  },
  'fsgnj.s': sign(32, 'copy'),
  'fsgnjn.s': sign(32, 'negate'),
  'fsgnjx.s': sign(32, 'xor'),
  'fsgnj.d': sign(64, 'copy'),
  'fsgnjn.d': sign(64, 'negate'),
  'fsgnjx.d': sign(64, 'xor'),
  'fmadd.s': floatFused(32, { product: false, addend: false }),
  'fmsub.s': floatFused(32, { product: false, addend: true }),
  'fnmsub.s': floatFused(32, { product: true, addend: false }),
  'fnmadd.s': floatFused(32, { product: true, addend: true }),
  'fadd.s': floats('fadd32', 2),
  'fsub.s': floats('fsub32', 2),
  'fmul.s': floats('fmul32', 2),
  'fdiv.s': floats('fdiv32', 2),
  'fsqrt.s': floats('fsqrt32', 1),
  'fmin.s': floats('fmin32', 2),
  'fmax.s': floats('fmax32', 2),
  'feq.s': floatCompare('feq32'),
  'flt.s': floatCompare('flt32'),
  'fle.s': floatCompare('fle32'),
  'fclass.s': floatClass(BINARY32),
  'fcvt.w.s': floatToInteger(32, 's32'),
  'fcvt.s.w': floatFromInteger('fsingle_s32'),
  'fcvt.wu.s': floatToInteger(32, 'u32'),
  'fcvt.s.wu': floatFromInteger('fsingle_u32'),
  'fcvt.l.s': floatToInteger(32, 's64'),
  'fcvt.s.l': floatFromInteger('fsingle_s64'),
  'fcvt.lu.s': floatToInteger(32, 'u64'),
  'fcvt.s.lu': floatFromInteger('fsingle_u64'),
  'fmadd.d': floatFused(64, { product: false, addend: false }),
  'fmsub.d': floatFused(64, { product: false, addend: true }),
  'fnmsub.d': floatFused(64, { product: true, addend: false }),
  'fnmadd.d': floatFused(64, { product: true, addend: true }),
  'fadd.d': floats('fadd64', 2),
  'fsub.d': floats('fsub64', 2),
  'fmul.d': floats('fmul64', 2),
  'fdiv.d': floats('fdiv64', 2),
  'fsqrt.d': floats('fsqrt64', 1),
  'fmin.d': floats('fmin64', 2),
  'fmax.d': floats('fmax64', 2),
  'feq.d': floatCompare('feq64'),
  'flt.d': floatCompare('flt64'),
  'fle.d': floatCompare('fle64'),
  'fclass.d': floatClass(BINARY64),
  'fcvt.w.d': floatToInteger(64, 's32'),
  'fcvt.d.w': doubleFromWord('doubles32'),
  'fcvt.wu.d': floatToInteger(64, 'u32'),
  'fcvt.d.wu': doubleFromWord('doubleu32'),
  'fcvt.l.d': floatToInteger(64, 's64'),
  'fcvt.d.l': doubleFromLong,
  'fcvt.lu.d': floatToInteger(64, 'u64'),
  'fcvt.d.lu': floatFromInteger('fdouble_u64'),
  'fcvt.s.d': floats('fnarrow', 1),
  'fcvt.d.s': floats('fwiden', 1),
} satisfies Record<RiscvExecutableMnemonic, Lift>;

/** Supervisor's instructions: illegal in user mode. */
const SUPERVISOR = ['sret', 'mret', 'wfi', 'sfence.vma'] as const;

const table = lazily(
  () =>
    new Map([
      ...Object.entries<Lift>(SEMANTICS),
      ...SUPERVISOR.map((name) => [name, (): Terminator => PRIVILEGED] as const),
    ]),
);

// --------------------------------------------------------------------------------------- front end

/** A block ends when it has this many ops, so that its records are bounded. */
const MAX_OPS = 300;

/** What a word is, wherever it stands. */
interface Meaning {
  /** null: no instruction we know. */
  readonly mnemonic: string | null;
  /** null: no semantics. */
  readonly emit: Lift | null;
  readonly fields: Fields;
  /** It asks for a waiting shift. */
  readonly joins: boolean;
}

const NOTHING_KNOWN: Meaning = { mnemonic: null, emit: null, fields: new Fields({}), joins: false };

const meanings = new WordMemo<Meaning>((word) => {
  const found = (word & 3) === 3 ? riscvTable.decode(word, 4) : riscvTable.decode(word, 2);
  // All zeros is illegal by definition, which the bytes show.
  if (!found || found.row.mnemonic === 'c.unimp') return NOTHING_KNOWN;
  const base = expand(found);
  const { mnemonic } = base.row;
  const emit = table().get(mnemonic) ?? null;
  return { mnemonic: found.row.mnemonic, emit, fields: new Fields(base.operands), joins: JOINED.has(mnemonic) };
});

/**
 * A branch to here must find a pad whose label is 0 or that of t2.
 * @param word  the instruction, 0 for one that cannot be a pad
 */
function checkLanding(builder: BlockBuilder, word: number): void {
  const isPad = (word & 0xfff) === 0x17;
  const label = word >>> 12;
  if (isPad && label === 0) return;
  if (!isPad) {
    builder.check('checkcontrol', EXPECTED, 1n);
    return;
  }
  const expected = builder.make('and', builder.make('shr', GPR[7]!, 12n), 0xf_ffffn);
  const differs = builder.make('setne', expected, BigInt(label));
  builder.check('checkcontrol', builder.make('and', differs, EXPECTED), 1n);
}

function lift(code: Uint8Array, address: Address, limits: LiftLimits): Block {
  const builder = new BlockBuilder(SLOTS, address);
  const lifting = new Lifting(
    builder,
    limits.synchronises === true,
    limits.slow === true,
    limits.guarded !== undefined,
  );
  const isGuarded = limits.guarded?.(address) === true;
  let pc = address;
  // The view may end before the window does; a block of its own decides.
  const finish = (terminator: Terminator): Block => {
    lifting.flush();
    return builder.finish(pc, terminator);
  };
  const endOfCode = (): Block => finish(builder.count > 0 ? { kind: 'jmp', pc } : { kind: 'fetch' });
  for (let offset = 0; ;) {
    if (offset + 2 > code.length) return endOfCode();
    const full = builder.count >= limits.maxInstructions || builder.size >= MAX_OPS;
    if (builder.count > 0 && (full || limits.startsAt(pc))) return finish({ kind: 'jmp', pc });
    const low = code[offset]! | (code[offset + 1]! << 8);
    const sizeBytes = instructionBytes(low);
    // Longer ones are not known anyway; their first bytes say so.
    if (sizeBytes === 4 && offset + 4 > code.length) return endOfCode();
    const word = sizeBytes === 4 ? (low | (code[offset + 2]! << 16) | (code[offset + 3]! << 24)) >>> 0 : low;
    const { mnemonic, emit, fields, joins } =
      sizeBytes <= 4 && (sizeBytes === 4 || (low & 3) !== 3) ? meanings.of(word) : NOTHING_KNOWN;
    if (!joins) lifting.flush();
    builder.begin(pc);
    lifting.pc = pc;
    lifting.next = wide(pc + BigInt(sizeBytes));
    lifting.word = word;
    if (offset === 0 && lifting.tracksBranches) {
      if (isGuarded) checkLanding(builder, (pc & 3n) === 0n && sizeBytes === 4 ? word : 0);
      builder.mov(EXPECTED, 0n);
    }
    const terminator: Terminator | undefined = emit ? emit(lifting, fields) : UNKNOWN;
    if (terminator?.kind === 'unknown') {
      builder.cancel();
      return builder.finish(pc, { kind: 'unknown', mnemonic, sizeBytes });
    }
    offset += sizeBytes;
    pc = lifting.next;
    if (terminator) return finish(terminator);
  }
}

/** The front end for RV64, user mode. */
export const riscvLifter: Lifter = {
  addressBits: 64,
  codeAlignBytes: 2,
  conditionRecords: false,
  stackPointer: { slot: SLOTS.slot('sp'), popped: 0n },
  floats: true,
  endian: 'little',
  slots: SLOTS,
  registers: REGISTERS,
  helpers: HELPERS,
  reservation: { address: RESERVED_ADDRESS, none: NO_RESERVATION, granuleBytes: CACHE_LINE_BYTES },
  lift,
};
