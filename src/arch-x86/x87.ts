/**
 * x87: instructions on a stack of eight registers of 80 bits, as helpers execute them. Exact under
 * every rounding mode and precision, with flags, tags, stack faults and exceptions that are not
 * masked. Here they are decoded, compare, load and store; the stack itself is `x87-unit.ts`.
 *
 * An instruction is named by the eleven bits that processors keep of it (FOP): the low three of its
 * opcode, and ModRM.
 *
 * Source: Intel SDM volume 1, chapter 8; volume 2. Where it leaves something open, what a processor
 * of today does.
 */
import {
  compare, convert, roundToIntegral, squareRoot, toInteger, BINARY32, BINARY64, EXTENDED, unpack,
} from '../float/index.js'; // prettier-ignore
import type { Format } from '../float/index.js';
import { defaultNan, flagsOf, isNan, isSubnormal } from './float.js';
import { angle, arcTangent, extract, logarithm, logarithmOfMore, power, remainder, scale } from './x87-functions.js';
import {
  CODE, CODES, EXCEPTIONS, exponentOf, extendedOf, FLAG, INDEFINITE, INFINITE, INTEGER_BIT,
  integerSource, normalWidened, SIGN, sourceOf, widened, X87_PENDING, X87Unit,
} from './x87-unit.js'; // prettier-ignore
import type { Source } from './x87-unit.js';

/** Significand rounded to zero, exponent, and whether the nearest one is the next. */
const CONSTANTS: readonly (readonly [significand: bigint, exponent: bigint, isNextNearer: boolean] | null)[] = [
  [0x8000_0000_0000_0000n, 0x3fffn, false],
  [0xd49a_784b_cd1b_8afen, 0x4000n, false],
  [0xb8aa_3b29_5c17_f0bbn, 0x3fffn, true],
  [0xc90f_daa2_2168_c234n, 0x4000n, true],
  [0x9a20_9a84_fbcf_f798n, 0x3ffdn, true],
  [0xb172_17f7_d1cf_79abn, 0x3ffen, true],
  [0n, 0n, false],
];

/** One of them to nearest, as programs load it. */
export function constantOf(which: number): { readonly significand: bigint; readonly exponent: bigint } {
  const [significand, exponent, isNextNearer] = CONSTANTS[which]!;
  return { significand: isNextNearer ? significand + 1n : significand, exponent };
}

/** Bytes of the environment by the operand size, and of it with the registers. */
const ENVIRONMENT = { 2: 14, 4: 28 } as const;
const REGISTER_BYTES = 80;

/** One instruction on the state. */
export class X87 extends X87Unit {
  // ----------------------------------------------------------------------------------- comparisons

  /** @param into  the codes of the status word, or ZF, PF and CF */
  private compare(source: Source | number, signals: boolean, pops: number, into: 'codes' | 'flags' = 'codes'): void {
    const fault = this.underflows(...(typeof source === 'number' ? [0, source] : [0]));
    let relation: ReturnType<typeof compare>['relation'] = 'unordered';
    let ends = fault === 'ends';
    if (!fault) {
      const first = sourceOf(this.get(0));
      const second = typeof source === 'number' ? sourceOf(this.get(source)) : source;
      let flags: number = FLAG.invalid;
      if (!first.isUnsupported && !second.isUnsupported) {
        const compared = compare(EXTENDED, first.bits, second.bits, signals);
        ({ relation } = compared);
        const isDenormal = relation !== 'unordered' && (first.isDenormal || second.isDenormal);
        flags = flagsOf(compared.flags) | (isDenormal ? FLAG.denormal : 0);
      }
      ends = !this.note(flags);
    }
    if (into === 'flags') {
      this.state.flags = { unordered: 0x45, greater: 0, less: 1, equal: 0x40 }[relation];
    } else {
      const { c0, c2, c3 } = CODE;
      this.codes({ unordered: c0 | c2 | c3, greater: 0, less: c0, equal: c3 }[relation], CODES & ~CODE.c1);
    }
    if (!ends) this.pop(pops);
  }

  private examine(): void {
    const value = this.get(0);
    const { bits, isDenormal, isUnsupported } = sourceOf(value);
    const { c0, c2, c3 } = CODE;
    const magnitude = value & ~SIGN;
    const kind = this.isEmpty(0) ? c3 | c0
      : isUnsupported ? 0
      : isNan(EXTENDED, bits) ? c0
      : magnitude === INFINITE ? c2 | c0
      : magnitude === 0n ? c3
      : isDenormal ? c3 | c2
      : c2; // prettier-ignore
    this.codes(kind | ((value & SIGN) === 0n ? 0 : CODE.c1));
  }

  // ------------------------------------------------------------------------------ loads and stores

  /** A denormal number is noted and pushed, whether that is masked or not. */
  private load(of: Format, bits: bigint): void {
    const normal = normalWidened(of, bits);
    if (normal) {
      this.push({ value: extendedOf(normal.bits), flags: 0, up: false });
      return;
    }
    const source = widened(of, bits);
    const { value, flags } = this.compute((to, env, [a]) => convert(to, to, env, a!), [source]);
    const isFull = !this.isEmpty(7);
    this.push({ value, flags: flags & ~FLAG.denormal, up: false });
    if (!isFull) this.note(flags & FLAG.denormal);
  }

  /** `fst` to memory in a narrower format. */
  private store(of: Format, pops: number): void {
    const bytes = of === BINARY32 ? 4 : 8;
    const fault = this.underflows(0);
    if (fault === 'ends') return;
    let bits = defaultNan(of);
    if (!fault) {
      const source = sourceOf(this.get(0));
      let flags: number = FLAG.invalid;
      let up = false;
      if (!source.isUnsupported) {
        const env = this.environment();
        const result = convert(EXTENDED, of, env, source.bits);
        flags = flagsOf(result.flags);
        ({ bits } = result);
        const inward = (): bigint => convert(EXTENDED, of, { ...env, rounding: 'to-zero' }, source.bits).bits;
        up = (flags & FLAG.precision) !== 0 && inward() !== bits;
        // Where underflow is not masked, an exact result is one too.
        if (isSubnormal(of, bits) && (this.state.control & FLAG.underflow) === 0) flags |= FLAG.underflow;
      }
      const ends = (flags & ~this.state.control & (FLAG.overflow | FLAG.underflow)) !== 0;
      if (ends) [flags, up] = [flags & ~FLAG.precision, false];
      if (!this.note(flags, up) || ends) return;
    }
    this.state.memory.write(bytes, bits);
    this.pop(pops);
  }

  private storeInteger(bytes: 2 | 4 | 8, truncates: boolean, pops: number): void {
    this.storeWhole(bytes, { bits: 8 * bytes, truncates, none: 1n << BigInt(8 * bytes - 1) }, pops, (value) =>
      BigInt.asUintN(8 * bytes, value),
    );
  }

  /** @param encode  the integer as bytes; null where they cannot hold it */
  private storeWhole(
    bytes: number,
    { bits, truncates, none }: { readonly bits: number; readonly truncates: boolean; readonly none: bigint },
    pops: number,
    encode: (value: bigint, sign: 0 | 1) => bigint | null,
  ): void {
    const fault = this.underflows(0);
    if (fault === 'ends') return;
    let stored = none;
    if (!fault) {
      const source = sourceOf(this.get(0));
      const { sign } = unpack(EXTENDED, source.bits);
      const rounding = truncates ? 'to-zero' : this.environment().rounding;
      const whole = toInteger(EXTENDED, rounding, source.bits, { bits, signed: true });
      let flags: number = FLAG.invalid;
      let up = false;
      const encoded = whole.kind === 'integer' && !source.isUnsupported ? encode(whole.value, sign) : null;
      if (whole.kind === 'integer' && encoded !== null) {
        stored = encoded;
        flags = flagsOf(whole.flags);
        const inward = toInteger(EXTENDED, 'to-zero', source.bits, { bits, signed: true });
        up = inward.kind === 'integer' && inward.value !== whole.value;
      }
      if (!this.note(flags, up)) return;
    }
    this.state.memory.write(bytes, stored);
    this.pop(pops);
  }

  /** `fbstp`: 18 decimal digits and a sign. */
  private storeDecimal(): void {
    const none = 0xffff_c000_0000_0000_0000n;
    this.storeWhole(10, { bits: 64, truncates: false, none }, 1, (value, sign) => {
      const digits = (value < 0n ? -value : value).toString();
      return digits.length > 18 ? null : BigInt(`0x${digits}`) | (sign === 1 ? SIGN : 0n);
    });
  }

  /** `fbld`. Digits above nine count as what they are. */
  private loadDecimal(): void {
    const packed = this.state.memory.read(10);
    let value = 0n;
    for (let place = 17n; place >= 0n; place--) value = 10n * value + ((packed >> (4n * place)) & 15n);
    const magnitude = extendedOf(integerSource(value).bits);
    this.push({ value: (packed & SIGN) | magnitude, flags: 0, up: false });
  }

  /** `fst`, `fstp` to a register, or as they are to memory. */
  private copy(to: number | 'memory', pops: number): void {
    const fault = this.underflows(0);
    if (fault === 'ends') return;
    if (!fault) this.note(0);
    const value = fault ? INDEFINITE : this.get(0);
    if (to === 'memory') this.state.memory.write(10, value);
    else this.set(to, value);
    this.pop(pops);
  }

  private duplicate(i: number): void {
    const fault = this.underflows(i);
    if (fault === 'ends') return;
    if (!fault) {
      this.push({ value: this.get(i), flags: 0, up: false });
      return;
    }
    this.turn(-1);
    this.set(0, INDEFINITE);
  }

  private exchange(i: number): void {
    const fault = this.underflows(0, i);
    if (fault === 'ends') return;
    if (!fault) this.note(0);
    const [first, second] = [0, i].map((each) => (this.isEmpty(each) ? INDEFINITE : this.get(each)));
    this.set(0, second!);
    this.set(i, first!);
  }

  private conditional(i: number, holds: boolean): void {
    const fault = this.underflows(0, i);
    if (fault === 'masked') this.set(0, INDEFINITE);
    if (fault) return;
    if (holds) this.set(0, this.get(i));
  }

  private constant(which: number): void {
    const [significand, exponent, isNextNearer] = CONSTANTS[which]!;
    const { rounding } = this.environment();
    const isExact = significand === 0n || which === 0;
    const isNext = !isExact && (rounding === 'up' || (rounding === 'nearest-even' && isNextNearer));
    this.push({ value: (exponent << 64n) | (isNext ? significand + 1n : significand), flags: 0, up: false });
  }

  // ------------------------------------------------------------------------------- the environment

  /** Two bits for each register: valid, 0, special, empty. */
  private tagWord(): number {
    let word = 0;
    for (let i = 0; i < 8; i++) {
      const value = this.state.registers.get(i);
      const isNormal = (value & INTEGER_BIT) !== 0n && exponentOf(value) !== 0 && exponentOf(value) !== 0x7fff;
      const isFull = ((this.state.tags >> i) & 1) === 1;
      word |= (!isFull ? 3 : (value & ~SIGN) === 0n ? 1 : isNormal ? 0 : 2) << (2 * i);
    }
    return word;
  }

  private environmentBits(size: 2 | 4): bigint {
    const { control, status, pointers } = this.state;
    const field = size === 2 ? 0xffffn : 0xffff_ffffn;
    const high = size === 2 ? 0n : 0xffff_0000n;
    const words = [
      BigInt(control) | high,
      BigInt(status) | high,
      BigInt(this.tagWord()) | high,
      pointers.instruction & field,
      size === 2 ? 0n : BigInt(pointers.opcode) << 16n,
      pointers.operand & field,
      high,
    ];
    return words.reduceRight((sum, each) => (sum << BigInt(8 * size)) | each, 0n);
  }

  private loadEnvironmentBits(size: 2 | 4, bits: bigint): void {
    const { state } = this;
    const word = (i: number): bigint => BigInt.asUintN(8 * size, bits >> BigInt(8 * size * i));
    const tags = Number(word(2) & 0xffffn);
    state.tags = 0;
    for (let i = 0; i < 8; i++) if (((tags >> (2 * i)) & 3) !== 3) state.tags |= 1 << i;
    state.pointers = {
      opcode: size === 2 ? 0 : Number((word(4) >> 16n) & 0x7ffn),
      instruction: word(3),
      operand: word(5),
    };
    state.control = (Number(word(0)) & 0x1f3f) | 0x40;
    this.setStatus(Number(word(1) & 0xffffn));
  }

  /** A status word that is loaded: whether an exception is pending follows from the masks. */
  private setStatus(status: number): void {
    const isPending = (status & ~this.state.control & EXCEPTIONS) !== 0;
    this.state.status = (status & ~X87_PENDING) | (isPending ? X87_PENDING : 0);
  }

  private storeEnvironment(size: 2 | 4): void {
    this.state.memory.write(ENVIRONMENT[size], this.environmentBits(size));
    this.state.control |= EXCEPTIONS;
    this.state.status &= ~X87_PENDING;
  }

  /** `fnsave`: the environment and the registers from the top; then as `fninit`. */
  private save(size: 2 | 4): void {
    const bytes = ENVIRONMENT[size];
    let image = this.environmentBits(size);
    for (let i = 0; i < 8; i++) image |= this.get(i) << BigInt(8 * (bytes + 10 * i));
    this.state.memory.write(bytes + REGISTER_BYTES, image);
    this.state.control = 0x37f;
    this.state.status = this.state.tags = 0;
    this.state.pointers = { opcode: 0, instruction: 0n, operand: 0n };
  }

  private restore(size: 2 | 4): void {
    const bytes = ENVIRONMENT[size];
    const image = this.state.memory.read(bytes + REGISTER_BYTES);
    this.loadEnvironmentBits(size, image);
    for (let i = 0; i < 8; i++) {
      const value = BigInt.asUintN(80, image >> BigInt(8 * (bytes + 10 * i)));
      this.state.registers.set(this.number(i), value);
    }
  }

  // ------------------------------------------------------------------------------------- decoding

  /** An instruction with an operand in memory. */
  withMemory(opcode: number, reg: number, size: 2 | 4): void {
    const { memory } = this.state;
    if ((opcode & 1) === 0 && opcode < 7) {
      const integer = (bytes: number): Source => integerSource(BigInt.asIntN(8 * bytes, memory.read(bytes)));
      const read = [
        () => widened(BINARY32, memory.read(4)),
        () => integer(4),
        () => widened(BINARY64, memory.read(8)),
        () => integer(2),
      ];
      const source = read[opcode >> 1]!();
      if (reg === 2 || reg === 3) this.compare(source, true, reg - 2);
      else this.binary(reg, 0, source, 0);
      return;
    }
    const bytes = ({ 3: 4, 5: 8, 7: 2 } as const)[opcode as 3 | 5 | 7];
    const of = opcode === 1 ? BINARY32 : BINARY64;
    const loadInteger = (width: number): void => {
      const value = BigInt.asIntN(8 * width, memory.read(width));
      this.push({ value: extendedOf(integerSource(value).bits), flags: 0, up: false });
    };
    switch (`${opcode}/${reg}`) {
      case '1/0': case '5/0': this.load(of, memory.read(of === BINARY32 ? 4 : 8)); break;
      case '1/2': case '5/2': this.store(of, 0); break;
      case '1/3': case '5/3': this.store(of, 1); break;
      case '1/4': this.loadEnvironmentBits(size, memory.read(ENVIRONMENT[size])); break;
      case '1/6': this.storeEnvironment(size); break;
      case '5/4': this.restore(size); break;
      case '5/6': this.save(size); break;
      case '3/0': case '7/0': loadInteger(bytes); break;
      case '3/1': case '5/1': case '7/1': this.storeInteger(bytes, true, 1); break;
      case '3/2': case '7/2': this.storeInteger(bytes, false, 0); break;
      case '3/3': case '7/3': this.storeInteger(bytes, false, 1); break;
      case '3/5': this.push({ value: memory.read(10), flags: 0, up: false }); break;
      case '3/7': this.copy('memory', 1); break;
      case '7/4': this.loadDecimal(); break;
      case '7/5': loadInteger(8); break;
      case '7/6': this.storeDecimal(); break;
      case '7/7': this.storeInteger(8, false, 1); break;
    } // prettier-ignore
  }

  /** An instruction on registers. */
  withRegisters(opcode: number, modRm: number): void {
    const [reg, i] = [(modRm >> 3) & 7, modRm & 7];
    switch (opcode) {
      case 0:
        if (reg === 2 || reg === 3) this.compare(i, true, reg - 2);
        else this.binary(reg, 0, i, 0);
        break;
      case 4:
      case 6:
        // fcompp; of differences and quotients the encodings are the other way round.
        if (modRm === 0xd9) this.compare(1, true, 2);
        else this.binary(reg < 4 ? reg : reg ^ 1, i, 0, opcode === 6 ? 1 : 0);
        break;
      case 1:
        this.single(modRm);
        break;
      case 2:
      case 3:
        this.conditions(opcode, reg, i);
        break;
      case 5:
        this.moves(reg, i);
        break;
      default:
        if (reg === 0) {
          this.free(i);
          this.pop();
          this.codes(0, CODE.c1);
        } else this.compare(i, reg === 6, 1, 'flags');
    }
  }

  /** da and db: `fcmov`, `fcomi`, `fucomi`, `fucompp`. */
  private conditions(opcode: number, reg: number, i: number): void {
    if (reg >= 5) {
      if (opcode === 2) this.compare(1, false, 2);
      else this.compare(i, reg === 6, 0, 'flags');
      return;
    }
    const { flags } = this.state;
    const holds = (flags & [1, 0x40, 0x41, 4][reg]!) !== 0;
    this.conditional(i, opcode === 2 ? holds : !holds);
  }

  /** dd: `ffree`, `fst`, `fucom`. */
  private moves(reg: number, i: number): void {
    if (reg === 0) {
      this.free(i);
      this.codes(0, CODE.c1);
    } else if (reg < 4) this.copy(i, reg - 2);
    else this.compare(i, false, reg - 4);
  }

  /** d9 with a register, or without operands. */
  private single(modRm: number): void {
    const i = modRm & 7;
    if (modRm < 0xc8) {
      this.duplicate(i);
      return;
    }
    if (modRm < 0xd0) {
      this.exchange(i);
      return;
    }
    if (modRm >= 0xe8 && modRm < 0xef) {
      this.constant(modRm - 0xe8);
      return;
    }
    switch (modRm) {
      case 0xe0: this.replace(() => ({ value: this.get(0) ^ SIGN, flags: 0, up: false })); break;
      case 0xe1: this.replace(() => ({ value: this.get(0) & ~SIGN, flags: 0, up: false })); break;
      case 0xe4: this.compare(sourceOf(0n), true, 0); break;
      case 0xe5: this.examine(); break;
      case 0xf0: power(this); break;
      case 0xf1: logarithm(this); break;
      case 0xf2: angle(this, 'tangent', 'one'); break;
      case 0xf3: arcTangent(this); break;
      case 0xf9: logarithmOfMore(this); break;
      case 0xfb: angle(this, 'sine', 'cosine'); break;
      case 0xfe: angle(this, 'sine', null); break;
      case 0xff: angle(this, 'cosine', null); break;
      case 0xf4: extract(this); break;
      case 0xf5: remainder(this, true); break;
      case 0xf6: this.turn(-1); this.codes(0, CODE.c1); break;
      case 0xf7: this.turn(1); this.codes(0, CODE.c1); break;
      case 0xf8: remainder(this, false); break;
      case 0xfa: this.unary((of, env, [a]) => squareRoot(of, env, a!), this.precision); break;
      case 0xfc: this.unary((of, env, [a]) => roundToIntegral(of, env, a!, true)); break;
      case 0xfd: this.replace(() => scale(this), 1); break;
    } // prettier-ignore
  }
}

/** Bytes of the operand in memory, and how it is accessed. */
export function x87Access(
  opcode: number,
  reg: number,
  size: 2 | 4,
): { readonly bytes: number; readonly access: 'read' | 'write' } {
  if ((opcode & 1) === 0) return { bytes: [4, 4, 8, 2][opcode >> 1]!, access: 'read' };
  const environment = ENVIRONMENT[size];
  const whole = environment + REGISTER_BYTES;
  const bytes = {
    1: [4, 0, 4, 4, environment, 2, environment, 2],
    3: [4, 4, 4, 4, 0, 10, 0, 10],
    5: [8, 8, 8, 8, whole, 0, whole, 2],
    7: [2, 2, 2, 2, 10, 8, 10, 8],
  }[opcode as 1 | 3 | 5 | 7][reg]!;
  const isLoad = reg === 0 || (opcode !== 3 && reg === 4) || reg === 5;
  return { bytes, access: isLoad ? 'read' : 'write' };
}

/** Control instructions: they leave the pointers of the last instruction alone. */
export const isX87Control = (opcode: number, modRm: number): boolean =>
  modRm < 0xc0 &&
  ((opcode === 1 && ((modRm >> 3) & 7) >= 4) || (opcode === 5 && /[46]/.test(String((modRm >> 3) & 7))));

/** True of instructions that do not wait for exceptions that are noted. */
export const isX87Unwaiting = (opcode: number, modRm: number): boolean =>
  modRm < 0xc0 && ((modRm >> 3) & 7) === 6 && (opcode === 1 || opcode === 5);
