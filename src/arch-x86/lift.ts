/**
 * Instruction -> IR for x86-64 in 64-bit user mode: the integer instructions, and of SSE what moves
 * and combines whole registers; floating point of SSE and x87, and MMX by helpers. AVX is in
 * `vex.ts`, and stops with its name where the processor has none.
 *
 * What differs from most machines:
 *
 * - 32-bit results clear the upper half of the register; 8- and 16-bit results keep the rest.
 *   Values of 8 and 16 bits are computed sign-extended, so that one comparison of 64 bits serves
 *   both signs.
 * - Nearly every instruction writes the six status flags and few read them. The flags are one
 *   condition record (`FLAG_FAMILIES` of status-flags.ts): kind, two operands, and C for rotates.
 *   A branch in the same block compares the operands themselves; others ask a function that is
 *   generated from the table of kinds. AF after logic, shifts and `mul` is 0, OF after shifts by
 *   more than one is what the formula for one gives: the manual leaves these undefined.
 * - `inc`, `dec`, rotates and bit tests keep some flags. The first two copy the carry into their
 *   record, the others write C and mark the record.
 * - A shift by a count of 0 keeps the flags: its record is written only if the count is not 0.
 * - String instructions with a repeat prefix complete one iteration at a time: each is one
 *   instruction for counts, hooks, budgets and schedules, as a debugger that steps sees it (and as
 *   qemu counts); with a count of 0 the instruction is one. The registers are exact at a fault in
 *   the middle.
 * - Divisions that overflow, and those whose dividend has 128 bits, fail a guard and are done again
 *   by a helper, which raises the exception before anything has changed. Misaligned `movaps`
 *   likewise.
 * - Every instruction is atomic here, with LOCK and without.
 * - The trap flag is not served: `popf` that sets it raises the breakpoint trap at once. RFLAGS
 *   shows IF set.
 * - A CPU executes what it has stored itself at once. What other CPUs have stored it may not see
 *   before it serialises: `cpuid`, `iret`, `serialize`, exceptions; not `mfence`, not `syscall`
 *   (SDM volume 3, 9.3).
 *
 * Accesses that may fault come before the other effects of their instruction.
 *
 * Source: Intel SDM, volumes 1 to 3. Undefined results are those of the processor the tests ran on
 * where that was simple.
 */
import { BlockBuilder, recordCode } from '../machine/ir.js';
import type {
  Block, Helper, HelperResult, HelperState, Lifter, LiftLimits, Operand, PureName, Slot, Terminator,
} from '../machine/ir.js'; // prettier-ignore
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';
import { operandBytes, operandsOf } from './decode.js';
import type { X86Operand } from './decode.js';
import { FLOAT_OPERATIONS, isUnmasked, SseFloat } from './float.js';
import { demandQuiet, liftX87 } from './x87-lift.js';
import { isX87Control, isX87Unwaiting, X87, x87Access } from './x87.js';
import type { X87State } from './x87-unit.js';
import type { FloatOperation } from './float.js';
import { ELEMENTS, FastFloat } from './float-lift.js';
import type { Elements, VectorConversion } from './float-lift.js';
import {
  compareTexts, MMX_INTEGERS, runVectorOperation, VECTOR_LATER, VECTOR_CONVERSIONS, VECTOR_ESTIMATES, vectorOperation,
} from './vector.js'; // prettier-ignore
import { bytesOf, numberIn } from './lanes.js';
import type { VectorOperands } from './lanes.js';
import { BINARY32, BINARY64 } from '../float/index.js';
import type { Format } from '../float/index.js';
import { cpuid, hasAvx } from './cpuid.js';
import { vexSemantics } from './vex.js';
import { VEX_HELPERS } from './vex-elements.js';
import type { X86Level } from './cpuid.js';
import { EXTENDED_HELPERS } from './extended-state.js';
import { decodeInto, MAX_INSTRUCTION_BYTES } from './isa.js';
import type { X86Instruction } from './isa.js';
import type { OpcodeRow } from './opcode-map.js';
import { CONDITIONS } from './opcode-map.js';

import {
  ARGUMENT, AVX_REGISTERS, CONSTANT, DF, FA, FB, FCW, FCW_INITIAL, FDP, FIP, FLAG, FOP, FPR, FS_BASE, FSW, FTW, GPR, GS_BASE, HIGH_VECTOR, K, MODE, MXCSR, MXCSR_INITIAL, ONES, PENDING, R11, RAX, RBP, RBX, RCX, RDI, RDX, readRflags, REGISTERS, RSI, RSP, SECOND, setMxcsr, setStatus, setWhole, SLOTS, STATUS, statusOf, SYSTEM, SYSTEM_FLAGS, TRACKER, VECTOR, wholeOf, writeRflags, X87_EXCEPTIONS, XMM, YMM, ZERO,
} from './state.js'; // prettier-ignore
import {
  bytesConstant, FLAG_KINDS, FLOAT_TRAP, generalNumber, helper, immediateOf, Lifting, LOADS, LOG2, LOGIC_OPS, nothing, privileged, PROTECTION, STORES, UNDEFINED, UNKNOWN, VECTOR_FIELDS, VECTOR_OPS, vectorConstant, vectorNumber,
} from './lifting.js'; // prettier-ignore
import type { Bytes, Lift, Place } from './lifting.js';

// -------------------------------------------------------------------------------------- arithmetic

const add: Lift = (x) => {
  const bytes = x.bytes();
  const source = x.kept(x.operand(1), bytes);
  x.modify({
    compute: (d, old) => x.b.to(d, x.sized('add', bytes < 4 ? 8 : bytes), old, source),
    after: (value) => {
      x.flags('add', bytes, bytes < 4 ? x.extend(value, bytes) : value, source);
    },
  });
  return undefined;
};

const sub: Lift = (x) => {
  const bytes = x.bytes();
  const source = x.operand(0).kind === 'memory' ? x.kept(x.operand(1), bytes) : x.narrow(1, bytes);
  x.modify({
    before: (old) => {
      x.flags('sub', bytes, old, source);
    },
    compute: (d, old) => x.b.to(d, x.sized('sub', bytes < 4 ? 8 : bytes), old, source),
  });
  const target = x.operand(0);
  if (x.known && target.kind === 'register' && bytes >= 4) {
    x.known.result = { slot: GPR[target.number]!, count: x.b.count };
  }
  return undefined;
};

const cmp: Lift = (x) => {
  const bytes = x.bytes();
  const a = x.inSlot(x.narrow(0, bytes));
  x.flags('sub', bytes, a, x.narrow(1, bytes));
  return undefined;
};

const logical =
  (name: 'and' | 'or' | 'xor'): Lift =>
  (x) => {
    const bytes = x.bytes();
    const [to, from] = [x.operand(0), x.operand(1)];
    if (
      name === 'xor' && to.kind === 'register' && from.kind === 'register' && bytes >= 4 && to.number === from.number
    ) {
      // The idiom for 0 does not depend on the register.
      x.b.mov(GPR[to.number]!, 0n);
      x.logic(bytes, GPR[to.number]!);
      return undefined;
    } // prettier-ignore
    const source = x.narrow(1, bytes);
    x.modify({
      compute: (d, old) => x.b.to(d, x.sized(name, bytes < 4 ? 8 : bytes), old, source),
      after: (value) => {
        x.logic(bytes, value);
      },
    });
    return undefined;
  };

const test: Lift = (x) => {
  const bytes = x.bytes();
  const [a, b] = [x.operand(0), x.operand(1)];
  const same = a.kind === 'register' && b.kind === 'register' && a.number === b.number && a.high === b.high ? a : null;
  if (same) {
    x.logic(bytes, bytes < 4 ? x.extend(x.register(same), bytes) : x.register(same));
    return undefined;
  }
  x.logic(bytes, x.b.make('and', x.narrow(0, bytes), x.narrow(1, bytes)));
  return undefined;
};

/** `adc` and `sbb`: K names the family with or without carry. */
const withCarry =
  (subtract: boolean): Lift =>
  (x) => {
    const { b } = x;
    const bytes = x.bytes();
    const source = x.kept(x.operand(1), bytes);
    const carry = x.copy(x.carry());
    const code = recordCode(FLAG_KINDS[subtract ? 'sub' : 'add'][bytes]);
    const record = (a: Slot): void => {
      b.to(K, 'add', b.make('shl', carry, 2n), BigInt(code));
      b.mov(FA, a);
      b.mov(FB, source);
      x.known = null;
    };
    const size = bytes < 4 ? 8 : bytes;
    x.modify({
      ...(subtract ? { before: record } : {}),
      compute: (d, old) => {
        const name = x.sized(subtract ? 'sub' : 'add', size);
        b.to(d, name, b.make(name, old, source), carry);
      },
      ...(subtract
        ? {}
        : {
            after: (value: Slot): void => {
              record(bytes < 4 ? x.extend(value, bytes) : value);
            },
          }),
    });
    return undefined;
  };

const step =
  (name: 'inc' | 'dec'): Lift =>
  (x) => {
    const carry = x.carry();
    x.modify({
      compute: (d, old, bytes) => x.b.to(d, x.sized(name === 'inc' ? 'add' : 'sub', bytes < 4 ? 8 : bytes), old, 1n),
      after: (value, bytes) => {
        x.flags(name, bytes, bytes < 4 ? x.extend(value, bytes) : value, carry);
      },
    });
    return undefined;
  };

const neg: Lift = (x) => {
  x.modify({
    before: (old, bytes) => {
      x.flags('sub', bytes, ZERO, old);
    },
    compute: (d, old, bytes) => x.b.to(d, x.sized('sub', bytes < 4 ? 8 : bytes), ZERO, old),
  });
  return undefined;
};

const not: Lift = (x) => {
  x.modify({ compute: (d, old, bytes) => x.b.to(d, x.sized('xor', bytes < 4 ? 8 : bytes), old, ONES) });
  return undefined;
};

/** `imul` with two and three operands. */
function multiply(x: Lifting, a: X86Operand, b: X86Operand): undefined {
  const target = x.operand(0);
  const bytes = x.bytes();
  if (target.kind !== 'register') throw new ElftraceError('internal', 'imul has a register target');
  const [first, second] = bytes < 4 ? [x.signed(a, bytes), x.signed(b, bytes)] : [x.value(a, bytes), x.value(b, bytes)];
  const slot = x.inSlot(first);
  x.flags('mul', bytes, slot, second);
  if (bytes >= 4) x.b.to(GPR[target.number]!, x.sized('mul', bytes), slot, second);
  else x.setRegister(target, x.b.make('mul', slot, second));
  return undefined;
}

/** Flags of a product of which the upper half is or is not what the lower says. */
function productFlags(x: Lifting, bytes: Bytes, low: Slot, wide: Slot): void {
  x.flags('res', bytes, bytes < 4 ? x.extend(low, bytes) : low, x.b.make('mul', wide, FLAG.cf | FLAG.of));
}

/** `mul` and `imul` with one operand: rdx:rax or ax. */
const widening =
  (signed: boolean): Lift =>
  (x) => {
    const { b } = x;
    const bytes = x.bytes();
    const operand = x.operand(0);
    const accumulator = x.implicit(0, bytes);
    const take = (each: X86Operand): Slot => x.inSlot(signed ? x.signed(each, bytes) : x.zeroed(each, bytes));
    const source = take(operand);
    const a = take(accumulator);
    if (bytes === 8) {
      const high = b.make(signed ? 'mulhs' : 'mulhu', a, source);
      const low = b.make('mul', a, source);
      b.mov(RAX, low);
      b.mov(RDX, high);
      productFlags(x, 8, low, b.make('setne', high, signed ? b.make('sar', low, 63n) : 0n));
      return undefined;
    }
    const product = b.make('mul', a, source);
    const fits = signed ? x.extend(product, bytes) : x.zero(product, bytes);
    const wide = b.make('setne', product, fits);
    if (bytes === 1) x.setRegister(x.implicit(0, 2), product);
    else {
      x.setRegister(accumulator, product);
      x.setRegister(x.implicit(2, bytes), b.make('shr', product, BigInt(8 * bytes)));
    }
    productFlags(x, bytes, product, wide);
    return undefined;
  };

/** A division whose quotient does not fit, and a signed one of 128 bits, is the helper's. */
const division =
  (signed: boolean): Lift =>
  (x) => {
    const { b } = x;
    const bytes = x.bytes();
    const operand = x.operand(0);
    if (x.slow) {
      b.mov(ARGUMENT, x.value(operand, bytes));
      return { kind: 'helper', name: 'divide', argument: bytes | (signed ? 16 : 0), next: x.next };
    }
    const divisor = x.inSlot(signed ? x.signed(operand, bytes) : x.zeroed(operand, bytes));
    if (bytes === 8) {
      if (!signed) {
        b.guard(b.make('setltu', RDX, divisor));
        const quotient = b.divideWide(RDX, RAX, divisor);
        b.to(RDX, 'sub', RAX, b.make('mul', quotient, divisor));
        b.mov(RAX, quotient);
        return undefined;
      }
      const isNotZero = b.make('setne', divisor, 0n);
      const narrow = b.make('seteq', RDX, b.make('sar', RAX, 63n));
      const minimum = b.make('or', b.make('xor', RAX, 1n << 63n), b.make('add', divisor, 1n));
      b.guard(b.make('and', b.make('and', isNotZero, narrow), b.make('setne', minimum, 0n)));
      const quotient = b.make('divs', RAX, divisor);
      b.to(RDX, 'rems', RAX, divisor);
      b.mov(RAX, quotient);
      return undefined;
    }
    const bits = BigInt(8 * bytes);
    let dividend: Slot;
    if (bytes === 1) dividend = signed ? b.make('sx16', RAX) : b.make('zx16', RAX);
    else {
      const low = x.zero(RAX, bytes);
      const high = signed ? x.extend(RDX, bytes) : x.zero(RDX, bytes);
      dividend = b.make('or', b.make('shl', high, bits), low);
    }
    const quotient = b.make(signed ? 'divs' : 'divu', dividend, divisor);
    const fits = b.make('seteq', quotient, signed ? x.extend(quotient, bytes) : x.zero(quotient, bytes));
    b.guard(b.make('and', b.make('setne', divisor, 0n), fits));
    const remainder = b.make(signed ? 'rems' : 'remu', dividend, divisor);
    if (bytes === 1) {
      b.to(RAX, 'ins8', RAX, quotient);
      b.to(RAX, 'ins8h', RAX, remainder);
    } else {
      x.setRegister(x.implicit(0, bytes), quotient);
      x.setRegister(x.implicit(2, bytes), remainder);
    }
    return undefined;
  };

// ------------------------------------------------------------------------------------------ shifts

/** The count of a shift, masked as the processor does: a constant, or a slot. */
function shiftCount(x: Lifting, bytes: Bytes, at = 1): Operand {
  const mask = bytes === 8 ? 63n : 31n;
  const operand = x.operand(at);
  return operand.kind === 'immediate' ? operand.value & mask : x.b.make('and', RCX, mask);
}

const shift =
  (name: 'shl' | 'shr' | 'sar'): Lift =>
  (x) => {
    const { b } = x;
    const bytes = x.bytes();
    const count = shiftCount(x, bytes);
    // Below 32 bits counts may exceed the width: 64-bit shifts of the extended value serve.
    const op = x.sized(name, bytes < 4 ? 8 : bytes);
    const family = name === 'shl' ? 'add' : 'shr';
    const before = typeof count === 'bigint' ? BigInt.asUintN(64, count - 1n) : b.make('sub', count, 1n);
    let last: Operand = 0n;
    x.modify({
      compute: (d, old) => {
        const value = bytes < 4 && name === 'shr' ? x.zero(old, bytes) : old;
        last = count === 1n ? x.copy(value) : b.make(op, value, before);
        b.to(d, op, value, count);
      },
      after: (value) => {
        if (count === 0n) return;
        const a = bytes < 4 ? x.extend(value, bytes) : value;
        const from = bytes < 4 ? x.extend(last, bytes) : last;
        if (typeof count === 'bigint') x.flags(family, bytes, a, from);
        else x.flagsIf(count, family, bytes, a, from);
      },
    });
    return undefined;
  };

/** `value` rotated left by a count below the width; both are anything above it. */
function rotateLeft(x: Lifting, value: Operand, count: Operand, bytes: Bytes): Slot {
  const { b } = x;
  if (bytes >= 4) return b.make(x.sized('rotl', bytes), value, count);
  const bits = BigInt(8 * bytes);
  const low = x.zero(value, bytes);
  const rest = typeof count === 'bigint' ? bits - count : b.make('sub', bits, count);
  return b.make('or', b.make('shl', low, count), b.make('shr', low, rest));
}

const rotate =
  (left: boolean): Lift =>
  (x) => {
    const { b } = x;
    const bytes = x.bytes();
    const bits = BigInt(8 * bytes);
    const count = shiftCount(x, bytes);
    const isSlot = typeof count !== 'bigint';
    const turn = typeof count === 'bigint' ? count % bits : bytes < 4 ? b.make('and', count, bits - 1n) : count;
    x.modify({
      compute: (d, old) => {
        if (bytes >= 4) b.to(d, x.sized(left ? 'rotl' : 'rotr', bytes), old, turn);
        else if (left) b.mov(d, rotateLeft(x, old, turn, bytes));
        else {
          const reverse =
            typeof turn === 'bigint' ? (bits - turn) % bits : b.make('and', b.make('sub', bits, turn), bits - 1n);
          b.mov(d, rotateLeft(x, old, reverse, bytes));
        }
      },
      after: (value) => {
        if (count === 0n) return;
        const top = x.extend(left ? value : rotateLeft(x, value, 1n, bytes), bytes);
        if (isSlot) x.rotatedIf(b.make('setne', count, 0n), top);
        else x.rotated(top);
      },
    });
    return undefined;
  };

/** Rotates through the carry: `bits` + 1 places. */
const rotateCarry =
  (left: boolean): Lift =>
  (x) => {
    const { b } = x;
    const bytes = x.bytes();
    const bits = BigInt(8 * bytes);
    const masked = shiftCount(x, bytes);
    // Below 32 bits counts reach beyond one turn.
    const count = x.inSlot(
      bytes >= 4 ? masked : typeof masked === 'bigint' ? masked % (bits + 1n) : b.make('remu', masked, bits + 1n),
    );
    const carry = x.copy(x.carry());
    const isZero = b.make('seteq', count, 0n);
    let out = count;
    let overflow = count;
    x.modify({
      compute: (d, old) => {
        const value = x.copy(x.zero(old, bytes));
        const less = b.make('sub', count, 1n);
        const rest = b.make('sub', bits, count);
        let result: Slot;
        if (left) {
          // (a << n) | (carry << n - 1) | (a >> bits + 1 - n)
          const lifted = b.make('or', b.make('shl', value, count), b.make('shl', carry, less));
          result = b.make('or', lifted, b.make('shr', b.make('shr', value, 1n), rest));
          out = b.make('and', b.make('shr', value, rest), 1n);
        } else {
          const lowered = b.make('shr', b.make('shr', value, 1n), less);
          const inserted = b.make('shl', carry, rest);
          result = b.make('or', b.make('or', lowered, inserted), b.make('shl', b.make('shl', value, rest), 1n));
          out = b.make('and', b.make('shr', value, less), 1n);
        }
        const top = b.make('shr', result, bits - 1n);
        overflow = b.make('and', b.make('xor', top, left ? out : b.make('shr', result, bits - 2n)), 1n);
        const kept = b.temp();
        b.select(kept, isZero, value, result);
        if (bytes === 4) b.to(d, 'zx32', kept);
        else b.mov(d, kept);
      },
      after: () => {
        const sign = b.make('shl', b.make('xor', overflow, out), 63n);
        x.rotatedIf(b.make('xor', isZero, 1n), b.make('or', out, sign));
      },
    });
    return undefined;
  };

const doubleShift =
  (left: boolean): Lift =>
  (x) => {
    const { b } = x;
    const bytes = x.bytes();
    const bits = BigInt(8 * bytes);
    const count = x.inSlot(shiftCount(x, bytes, 2));
    const filler = x.copy(x.value(x.operand(1), bytes));
    let out = count;
    let changed = count;
    x.modify({
      compute: (d, old) => {
        const value = x.copy(x.zero(old, bytes));
        const rest = b.make('sub', bits, count);
        const less = b.make('sub', count, 1n);
        const source = x.zero(filler, bytes);
        let result: Slot;
        if (bytes === 8) {
          // The filler is shifted in two steps, for a count of 0 asks for 64.
          const inserted = left
            ? b.make('shr', b.make('shr', source, 1n), b.make('sub', 63n, count))
            : b.make('shl', b.make('shl', source, 1n), b.make('sub', 63n, count));
          result = b.make('or', b.make(left ? 'shl' : 'shr', value, count), inserted);
        } else if (left) {
          const pair = b.make('or', b.make('shl', value, bits), source);
          result = b.make('shr', b.make('shl', pair, count), bits);
        } else {
          const pair = b.make('or', b.make('shl', source, bits), value);
          result = b.make('shr', pair, count);
        }
        out = b.make('and', b.make('shr', value, left ? rest : less), 1n);
        changed = b.make('and', b.make('shr', b.make('xor', result, value), bits - 1n), 1n);
        if (bytes === 4) b.to(d, 'zx32', result);
        else b.mov(d, result);
      },
      after: (value) => {
        const b2 = b.make('or', out, b.make('shl', changed, 11n));
        x.flagsIf(count, 'res', bytes, bytes < 4 ? x.extend(value, bytes) : value, b2);
      },
    });
    return undefined;
  };

// -------------------------------------------------------------------------------------------- bits

/**
 * `bt`, `bts`, `btr`, `btc`: a register as the bit number reaches memory before and behind the
 * operand.
 */
const bitTest =
  (change: ((x: Lifting, d: Slot, old: Operand, bit: Slot) => void) | null): Lift =>
  (x) => {
    const { b } = x;
    const bytes = x.bytes();
    const [operand, number] = [x.operand(0), x.operand(1)];
    const mask = BigInt(8 * bytes - 1);
    const index = number.kind === 'immediate' ? number.value & mask : x.value(number, bytes);
    let place: Place | null = null;
    let value: Operand;
    if (operand.kind === 'memory') {
      place = x.place(operand);
      if (typeof index !== 'bigint') {
        const words = b.make('sar', x.extend(index, bytes), BigInt(3 + LOG2[bytes]));
        let base = place.base;
        if (typeof place.offset === 'number') base = b.make('add', base, place.offset);
        base = b.make('add', base, b.make('shl', words, BigInt(LOG2[bytes])));
        if (operand.address32) base = b.make('zx32', base);
        place = { base, offset: typeof place.offset === 'number' ? 0n : place.offset };
      }
      value = x.load(place, bytes);
    } else value = x.value(operand, bytes);
    const at = typeof index === 'bigint' ? index : b.make('and', index, mask);
    const bit = b.make('and', b.make('shr', value, at), 1n);
    if (change) {
      const d = b.temp();
      change(x, d, value, b.make('shl', 1n, at));
      if (place) x.store(place, bytes, d);
      else if (operand.kind === 'register') x.setRegister(operand, d);
    }
    x.rotated(bit);
    return undefined;
  };

/** `bsf` and `bsr`: the target stays when the source is 0. */
const scan =
  (reverse: boolean): Lift =>
  (x) => {
    const { b } = x;
    const target = x.operand(0);
    const bytes = x.bytes();
    const source = x.inSlot(x.zeroed(x.operand(1), bytes));
    const found = reverse ? b.make('sub', 63n, b.make('clz', source)) : b.make('ctz', source);
    if (target.kind !== 'register') throw new ElftraceError('internal', 'bsf has a register target');
    const slot = GPR[target.number]!;
    const d = b.temp();
    b.select(d, source, found, slot);
    const flagged = x.copy(source);
    if (bytes === 2) x.setRegister(target, d);
    else b.mov(slot, d);
    x.logic(bytes, bytes < 4 ? x.extend(flagged, bytes) : flagged);
    return undefined;
  };

const count =
  (name: 'tzcnt' | 'lzcnt' | 'popcnt'): Lift =>
  (x) => {
    const { b } = x;
    const target = x.operand(0);
    const bytes = x.bytes();
    const source = x.inSlot(x.zeroed(x.operand(1), bytes));
    const isZero = b.make('seteq', source, 0n);
    let d: Slot;
    if (name === 'popcnt') d = b.make('popcnt', source);
    else if (name === 'lzcnt') d = b.make('sub', b.make('clz', source), BigInt(64 - 8 * bytes));
    else d = b.make('ctz', bytes === 8 ? source : b.make('or', source, 1n << BigInt(8 * bytes)));
    if (target.kind === 'register') x.setRegister(target, d);
    if (name === 'popcnt') x.literal(b.make('shl', isZero, 6n));
    else x.flags('res', bytes, d, isZero);
    return undefined;
  };

/**
 * BMI: a register target by `emit`, which returns the value and the carry of the result's flags.
 */
const bmi =
  (emit: (x: Lifting, bytes: 4 | 8) => { value: Slot; carry: Operand | null }): Lift =>
  (x) => {
    const target = x.operand(0);
    const bytes = x.bytes() === 8 ? 8 : 4;
    const { value, carry } = emit(x, bytes);
    if (target.kind !== 'register') throw new ElftraceError('internal', 'a BMI instruction has a register target');
    const kept = x.zero(value, bytes);
    if (carry === null) x.logic(bytes, x.copy(kept));
    else x.flags('res', bytes, kept, carry);
    x.b.mov(GPR[target.number]!, kept);
    return undefined;
  };

/** Instructions of BMI2 that leave the flags alone. */
const flagless =
  (emit: (x: Lifting, bytes: 4 | 8) => Slot): Lift =>
  (x) => {
    const target = x.operand(0);
    const bytes = x.bytes() === 8 ? 8 : 4;
    const value = emit(x, bytes);
    if (target.kind === 'register') x.setRegister(target, value);
    return undefined;
  };

const shiftX = (name: 'shl' | 'shr' | 'sar'): Lift =>
  flagless((x, bytes) => {
    const value = x.value(x.operand(1), bytes);
    return x.b.make(x.sized(name, bytes), value, x.value(x.operand(2), bytes));
  });

/** `adcx` and `adox`: one flag in, the same one out, the others stay. */
const addChain =
  (flag: bigint): Lift =>
  (x) => {
    const { b } = x;
    const bytes = x.bytes();
    const place = flag === FLAG.cf ? 0n : 11n;
    const all = x.copy(x.status());
    const carry = b.make('and', b.make('shr', all, place), 1n);
    const target = x.operand(0);
    if (target.kind !== 'register') throw new ElftraceError('internal', 'adcx has a register target');
    const a = x.zeroed(target, bytes);
    const source = x.zeroed(x.operand(1), bytes);
    let out: Slot;
    const first = b.make('add', a, source);
    const sum = b.make('add', first, carry);
    if (bytes === 4) out = b.make('shr', sum, 32n);
    else out = b.make('or', b.make('setltu', first, source), b.make('setltu', sum, carry));
    x.setRegister(target, sum);
    x.literal(b.make('or', b.make('and', all, STATUS & ~flag), b.make('shl', out, place)));
    return undefined;
  };

// ------------------------------------------------------------------------------------------- moves

const mov: Lift = (x) => {
  const to = x.operand(0);
  const from = x.operand(1);
  if (from.kind === 'other' || to.kind === 'other') return selectors(x, to, from);
  const bytes = x.bytes();
  if (to.kind === 'memory') {
    const place = x.place(to);
    const value = from.kind === 'immediate' ? BigInt.asUintN(8 * bytes, from.value) : x.value(from, bytes);
    x.store(place, bytes, value);
    return undefined;
  }
  if (to.kind !== 'register') throw new ElftraceError('internal', 'mov has no vector target');
  // Loads go straight into the register.
  if (from.kind === 'memory' && bytes >= 4) x.load(x.place(from), bytes, false, GPR[to.number]!);
  else x.setRegister(to, x.value(from, bytes));
  return undefined;
};

/** User-mode selectors of Linux. The segment registers themselves are not served. */
const SELECTORS: readonly bigint[] = [0n, 0x33n, 0x2bn, 0n, 0n, 0n];

function selectors(x: Lifting, to: X86Operand, from: X86Operand): Terminator | undefined {
  const code = to.kind === 'other' ? to.code : from.kind === 'other' ? from.code : '';
  if (code === 'C' || code === 'D') return PROTECTION;
  if (from.kind !== 'other') return UNKNOWN;
  const value = SELECTORS[from.number & 7]!;
  // In memory a selector has 16 bits whatever the operand size.
  if (to.kind === 'memory') x.store(x.place(to), 2, value);
  else if (to.kind === 'register') x.setRegister(to, value);
  return undefined;
}

const movExtend =
  (signed: boolean): Lift =>
  (x) => {
    const [to, from] = [x.operand(0), x.operand(1)];
    if (to.kind !== 'register') throw new ElftraceError('internal', 'movzx has a register target');
    const size = x.bytes(1);
    if (from.kind === 'memory' && (to.bytes === 8 || (to.bytes === 4 && !signed))) {
      x.load(x.place(from), size, signed, GPR[to.number]!);
      return undefined;
    }
    if (from.kind === 'register' && !from.high && to.bytes >= 4 && (to.bytes === 8 || !signed)) {
      const names = signed ? ({ 1: 'sx8', 2: 'sx16', 4: 'sx32', 8: 'mov' } as const) : ({ 1: 'zx8', 2: 'zx16', 4: 'zx32', 8: 'mov' } as const); // prettier-ignore
      x.b.to(GPR[to.number]!, names[size], GPR[from.number]!);
      return undefined;
    }
    x.setRegister(to, signed ? x.signed(from, size) : x.zeroed(from, size));
    return undefined;
  };

const lea: Lift = (x) => {
  const [to, from] = [x.operand(0), x.operand(1)];
  if (to.kind !== 'register' || from.kind !== 'memory') throw new ElftraceError('internal', 'lea has an address');
  const { base, index, scale, displacement, address32 } = from;
  if (to.bytes === 8 && !address32 && base >= 0 && index >= 0 && displacement === 0n && scale > 0) {
    x.b.to(GPR[to.number]!, (['addsh1', 'addsh2', 'addsh3'] as const)[scale - 1]!, GPR[base]!, GPR[index]!);
    return undefined;
  }
  if (to.bytes === 8 && !address32 && base >= 0 && index < 0) {
    if (displacement === 0n) x.b.mov(GPR[to.number]!, GPR[base]!);
    else x.b.to(GPR[to.number]!, 'add', GPR[base]!, BigInt.asUintN(64, displacement));
    return undefined;
  }
  x.setRegister(to, x.effective(from));
  return undefined;
};

const xchg: Lift = (x) => {
  const [first, second] = [x.operand(0), x.operand(1)];
  const bytes = x.bytes();
  if (second.kind !== 'register') throw new ElftraceError('internal', 'xchg has a register');
  if (first.kind === 'memory') {
    const place = x.place(first);
    const old = x.load(place, bytes);
    x.store(place, bytes, x.register(second));
    x.setRegister(second, old);
    return undefined;
  }
  if (first.kind !== 'register') throw new ElftraceError('internal', 'xchg has registers');
  // 90 is a nop whatever the size: it does not clear the upper half of rax.
  if (x.instruction.mnemonic === 'nop' || x.instruction.mnemonic === 'pause') return undefined;
  const a = x.copy(x.register(first));
  const b = x.copy(x.register(second));
  x.setRegister(first, b);
  x.setRegister(second, a);
  return undefined;
};

const bswap: Lift = (x) => {
  const target = x.operand(0);
  if (target.kind !== 'register') throw new ElftraceError('internal', 'bswap has a register');
  const slot = GPR[target.number]!;
  // With 16 bits the result is undefined; processors clear the word.
  if (x.instruction.operandSizePrefix && target.bytes !== 8) x.setRegister({ ...target, bytes: 2 }, 0n);
  else x.b.to(slot, target.bytes === 8 ? 'bswap64' : 'bswap32', slot);
  return undefined;
};

const movbe: Lift = (x) => {
  const [to, from] = [x.operand(0), x.operand(1)];
  const bytes = x.bytes();
  const swap = ({ 1: 'mov', 2: 'bswap16', 4: 'bswap32', 8: 'bswap64' } as const)[bytes];
  if (to.kind === 'memory') x.store(x.place(to), bytes, x.b.make(swap, x.value(from, bytes)));
  else if (to.kind === 'register') x.setRegister(to, x.b.make(swap, x.value(from, bytes)));
  return undefined;
};

const xadd: Lift = (x) => {
  const { b } = x;
  const second = x.operand(1);
  const bytes = x.bytes();
  if (second.kind !== 'register') throw new ElftraceError('internal', 'xadd has a register');
  const first = x.operand(0);
  const source = x.copy(bytes < 4 ? x.signed(second, bytes) : x.register(second));
  const place = first.kind === 'memory' ? x.place(first) : null;
  const loaded = place ? x.load(place, bytes, bytes < 4) : bytes < 4 ? x.signed(first, bytes) : x.value(first, bytes);
  const old = x.copy(loaded);
  const sum = b.make(x.sized('add', bytes < 4 ? 8 : bytes), old, source);
  if (place) x.store(place, bytes, sum);
  x.flags('add', bytes, bytes < 4 ? x.extend(sum, bytes) : sum, source);
  x.setRegister(second, old);
  if (first.kind === 'register') x.setRegister(first, sum);
  return undefined;
};

const cmpxchg: Lift = (x) => {
  const { b } = x;
  const [first, second] = [x.operand(0), x.operand(1)];
  const bytes = x.bytes();
  const accumulator = x.implicit(0, bytes);
  const place = first.kind === 'memory' ? x.place(first) : null;
  const take = (operand: X86Operand): Slot => x.inSlot(bytes < 4 ? x.signed(operand, bytes) : x.value(operand, bytes));
  const old = x.copy(place ? x.load(place, bytes, bytes < 4) : take(first));
  const expected = x.copy(take(accumulator));
  const equal = b.make(bytes === 4 ? 'seteq32' : 'seteq', expected, old);
  const value = b.temp();
  b.select(value, equal, x.inSlot(x.value(second, bytes)), old);
  if (place) x.store(place, bytes, value);
  x.flags('sub', bytes, expected, old);
  // Only one of the two registers is written; of 32 bits the other keeps its upper half.
  const kept = b.temp();
  b.select(kept, equal, RAX, bytes === 8 ? old : bytes === 4 ? x.zero(old, 4) : b.make(bytes === 2 ? 'ins16' : 'ins8', RAX, old)); // prettier-ignore
  b.mov(RAX, kept);
  if (first.kind !== 'register') return undefined;
  if (bytes < 4) x.setRegister(first, value);
  else if (bytes === 8) b.mov(GPR[first.number]!, value);
  else b.select(GPR[first.number]!, equal, x.zero(value, 4), GPR[first.number]!);
  return undefined;
};

/** `cmpxchg8b` and `cmpxchg16b`: two halves. */
const cmpxchgPair: Lift = (x) => {
  const { b } = x;
  const operand = x.operand(0);
  if (operand.kind !== 'memory') throw new ElftraceError('internal', 'cmpxchg8b has an address');
  const wide = (x.instruction.rex & 8) !== 0;
  const place = x.place(operand);
  if (!wide) {
    const old = x.load(place, 8);
    const expected = b.make('or', b.make('shl', RDX, 32n), b.make('zx32', RAX));
    const wanted = b.make('or', b.make('shl', RCX, 32n), b.make('zx32', RBX));
    const equal = b.make('seteq', old, expected);
    const value = b.temp();
    b.select(value, equal, wanted, old);
    x.store(place, 8, value);
    x.literal(b.make('or', b.make('and', x.status(), STATUS & ~FLAG.zf), b.make('shl', equal, 6n)));
    b.select(RAX, equal, RAX, b.make('zx32', old));
    b.select(RDX, equal, RDX, b.make('shr', old, 32n));
    return undefined;
  }
  if (x.slow) return PROTECTION;
  x.aligned(place, 16);
  const upper: Place = { base: typeof place.offset === 'number' ? b.make('add', place.base, place.offset) : place.base, offset: typeof place.offset === 'number' ? 8n : BigInt.asUintN(64, place.offset + 8n) }; // prettier-ignore
  const low = x.load(place, 8);
  const high = x.load(upper, 8);
  const equal = b.make('and', b.make('seteq', low, RAX), b.make('seteq', high, RDX));
  const [newLow, newHigh] = [b.temp(), b.temp()];
  b.select(newLow, equal, RBX, low);
  b.select(newHigh, equal, RCX, high);
  x.store(place, 8, newLow);
  x.store(upper, 8, newHigh);
  x.literal(b.make('or', b.make('and', x.status(), STATUS & ~FLAG.zf), b.make('shl', equal, 6n)));
  b.select(RAX, equal, RAX, low);
  b.select(RDX, equal, RDX, high);
  return undefined;
};

const setcc =
  (cc: number): Lift =>
  (x) => {
    const operand = x.operand(0);
    const value = x.truth(cc);
    if (operand.kind === 'memory') x.store(x.place(operand), 1, value);
    else if (operand.kind === 'register') x.setRegister(operand, value);
    return undefined;
  };

const cmov =
  (cc: number): Lift =>
  (x) => {
    const [to, from] = [x.operand(0), x.operand(1)];
    const bytes = x.bytes();
    if (to.kind !== 'register') throw new ElftraceError('internal', 'cmov has a register target');
    // The source is read in any case, and 32 bits clear the upper half in any case.
    const source = x.inSlot(x.value(from, bytes));
    const slot = GPR[to.number]!;
    const holds = x.truth(cc);
    if (bytes === 8) {
      x.b.select(slot, holds, source, slot);
      return undefined;
    }
    const d = x.b.temp();
    x.b.select(d, holds, source, slot);
    x.setRegister(to, d);
    return undefined;
  };

/** `cbw`, `cwde`, `cdqe` and `cwd`, `cdq`, `cqo`. */
const convert =
  (half: boolean): Lift =>
  (x) => {
    const bytes = operandBytes(x.instruction);
    const { b } = x;
    if (half) {
      const narrow = ({ 2: 'sx8', 4: 'sx16', 8: 'sx32' } as const)[bytes];
      if (bytes === 8) b.to(RAX, narrow, RAX);
      else x.setRegister(x.implicit(0, bytes), b.make(narrow, RAX));
    } else if (bytes === 8) b.to(RDX, 'sar', RAX, 63n);
    else if (bytes === 4) b.to(RDX, 'sar32', RAX, 31n);
    else x.setRegister(x.implicit(2, 2), b.make('sar', b.make('sx16', RAX), 63n));
    return undefined;
  };

// ------------------------------------------------------------------------------------------- stack

/** Operand size of the stack: 8 bytes unless 66 asks for 2. */
const stackBytes = (x: Lifting): 2 | 8 => (x.instruction.operandSizePrefix && (x.instruction.rex & 8) === 0 ? 2 : 8);

const push: Lift = (x) => {
  const operand = x.operand(0);
  const bytes = stackBytes(x);
  if (operand.kind === 'other') return UNKNOWN;
  if (operand.kind === 'memory') x.push(x.load(x.place(operand), bytes), bytes);
  else x.push(operand.kind === 'register' ? GPR[operand.number]! : x.value(operand, bytes), bytes);
  return undefined;
};

const pop: Lift = (x) => {
  const operand = x.operand(0);
  const bytes = stackBytes(x);
  if (operand.kind === 'other') return UNKNOWN;
  const { b } = x;
  if (operand.kind === 'memory') {
    // The address is computed with rsp already moved.
    const value = x.load({ base: RSP, offset: 0n }, bytes);
    const moved = operand.base === 4 ? BigInt(bytes) : 0n;
    x.store(x.place(operand, moved), bytes, value);
    b.to(RSP, 'add', RSP, BigInt(bytes));
    return undefined;
  }
  if (operand.kind !== 'register') throw new ElftraceError('internal', 'pop has a target');
  const slot = GPR[operand.number]!;
  if (bytes === 8 && slot !== RSP) {
    x.load({ base: RSP, offset: 0n }, 8, false, slot);
    b.to(RSP, 'add', RSP, 8n);
  } else {
    const value = x.pop(bytes);
    x.setRegister({ ...operand, bytes }, value);
  }
  return undefined;
};

const leave: Lift = (x) => {
  const bytes = stackBytes(x);
  const value = x.load({ base: RBP, offset: 0n }, bytes);
  x.b.to(RSP, 'add', RBP, BigInt(bytes));
  x.setRegister(x.implicit(5, bytes), value);
  return undefined;
};

const enter: Lift = (x) => {
  const { b } = x;
  const [size, nesting] = [x.operand(0), x.operand(1)];
  if (size.kind !== 'immediate' || nesting.kind !== 'immediate') throw new ElftraceError('internal', 'enter has sizes');
  const bytes = stackBytes(x);
  const width = BigInt(bytes);
  const levels = nesting.value & 31n;
  const down = (count: bigint): bigint => BigInt.asUintN(64, -width * count);
  b.store(STORES[bytes], RBP, RSP, down(1n));
  const frame = b.make('sub', RSP, width);
  const pointer = b.temp();
  for (let level = 1n; level < levels; level++) {
    b.load(LOADS[bytes], pointer, RBP, down(level));
    b.store(STORES[bytes], pointer, RSP, down(1n + level));
  }
  if (levels > 0n) b.store(STORES[bytes], frame, RSP, down(1n + levels));
  b.to(RSP, 'sub', RSP, width * (1n + levels) + BigInt.asUintN(16, size.value));
  x.setRegister(x.implicit(5, bytes), frame);
  return undefined;
};

const pushf: Lift = (x) => {
  const { b } = x;
  const status = x.status();
  const direction = b.make('and', DF, FLAG.df);
  const all = b.make('or', b.make('or', status, direction), SYSTEM);
  x.push(b.make('or', all, FLAG.if | 2n), stackBytes(x));
  return undefined;
};

const popf: Lift = (x) => {
  const { b } = x;
  const bytes = stackBytes(x);
  if (x.slow) return { kind: 'trap', trap: 'breakpoint' };
  const value = x.load({ base: RSP, offset: 0n }, bytes);
  b.guard(b.make('seteq', b.make('and', value, FLAG.tf), 0n));
  b.to(RSP, 'add', RSP, BigInt(bytes));
  const bit = b.make('and', b.make('shr', value, 10n), 1n);
  b.to(DF, 'sub', 0n, b.make('shl', bit, 1n));
  const system = b.make('and', value, bytes === 2 ? FLAG.nt : SYSTEM_FLAGS);
  if (bytes === 2) b.to(SYSTEM, 'or', b.make('and', SYSTEM, SYSTEM_FLAGS & ~FLAG.nt), system);
  else b.mov(SYSTEM, system);
  x.literal(b.make('and', value, STATUS));
  return undefined;
};

const lahf: Lift = (x) => {
  x.b.to(RAX, 'ins8h', RAX, x.b.make('or', x.status(), 2n));
  return undefined;
};

const sahf: Lift = (x) => {
  const { b } = x;
  const kept = b.make('and', x.status(), FLAG.of);
  const ah = b.make('and', b.make('shr', RAX, 8n), STATUS & 0xffn);
  x.literal(b.make('or', kept, ah));
  return undefined;
};

const setCarry =
  (emit: (x: Lifting, all: Slot) => Operand): Lift =>
  (x) => {
    x.literal(emit(x, x.status()));
    return undefined;
  };

// ----------------------------------------------------------------------------------------- control

const target = (x: Lifting): Address => {
  const operand = x.operand(0);
  if (operand.kind !== 'immediate') throw new ElftraceError('internal', 'a branch has a displacement');
  return BigInt.asUintN(64, x.next + operand.value);
};

/** Prefix of branches that are not tracked. */
const NOTRACK = 0x3e;

function noteBranch(x: Lifting): void {
  if (x.tracksBranches && x.instruction.segmentPrefix !== NOTRACK) x.b.mov(TRACKER, 1n);
}

const jump: Lift = (x) => {
  const operand = x.operand(0);
  if (operand.kind === 'immediate') return { kind: 'jmp', pc: target(x) };
  noteBranch(x);
  return { kind: 'ind', s: x.inSlot(x.value({ ...operand, bytes: 8 } as X86Operand, 8)), mask: ONES };
};

const call: Lift = (x) => {
  const operand = x.operand(0);
  if (operand.kind === 'immediate') {
    x.push(x.next);
    return { kind: 'call', pc: target(x), ret: x.next };
  }
  noteBranch(x);
  const to = x.copy(x.value(operand, 8));
  x.push(x.next);
  return { kind: 'calli', s: to, mask: ONES, ret: x.next };
};

const ret: Lift = (x) => {
  const { b } = x;
  const to = x.load({ base: RSP, offset: 0n }, 8);
  const extra = x.operands[0];
  const more = extra?.kind === 'immediate' ? BigInt.asUintN(16, extra.value) : 0n;
  b.to(RSP, 'add', RSP, 8n + more);
  return { kind: 'ret', s: to, mask: ONES };
};

const branch =
  (cc: number): Lift =>
  (x) => {
    const { condition, width, a, b } = x.test(cc);
    return { kind: 'br', condition, width, a, b, pc: target(x), next: x.next };
  };

/** `loop`, `loope`, `loopne`: rcx counts, or ecx with 67. */
const loop =
  (zero: boolean | null): Lift =>
  (x) => {
    const { b } = x;
    const narrow = x.instruction.addressSizePrefix;
    const equal = zero === null ? null : x.truth(zero ? 4 : 5);
    b.to(RCX, narrow ? 'sub32' : 'sub', RCX, 1n);
    const links = { pc: target(x), next: x.next };
    if (equal === null) return { kind: 'br', condition: 'ne', width: 64, a: RCX, b: 0n, ...links };
    const both = b.make('and', b.make('setne', RCX, 0n), equal);
    return { kind: 'br', condition: 'ne', width: 64, a: both, b: 0n, ...links };
  };

const jrcxz: Lift = (x) => {
  const width = x.instruction.addressSizePrefix ? 32 : 64;
  return { kind: 'br', condition: 'eq', width, a: RCX, b: 0n, pc: target(x), next: x.next };
};

const syscall: Lift = (x) => ({ kind: 'helper', name: 'syscall', argument: 0, next: x.next });

const int: Lift = (x) => {
  const number = x.operand(0);
  if (number.kind === 'immediate' && BigInt.asUintN(8, number.value) === 3n)
    return { kind: 'trap', trap: 'breakpoint' };
  // 0x80 is the system call of 32-bit programs; no other vector is open to users.
  return number.kind === 'immediate' && BigInt.asUintN(8, number.value) === 0x80n ? UNKNOWN : PROTECTION;
};

// ----------------------------------------------------------------------------------------- strings

/** A pointer of a string instruction goes on by its size, or back. */
function advance(x: Lifting, slot: Slot, bytes: Bytes): void {
  const { b } = x;
  const narrow = x.instruction.addressSizePrefix;
  // + size, and 2 * size down again when DF is set.
  const d = narrow ? b.temp() : slot;
  b.to(d, 'add', slot, BigInt(bytes));
  b.to(d, ({ 1: 'add', 2: 'addsh1', 4: 'addsh2', 8: 'addsh3' } as const)[bytes], d, DF);
  if (narrow) b.to(slot, 'zx32', d);
}

/**
 * One iteration of a string instruction and the branch back to it. `ends` returns the comparison
 * that has to hold for going on (`cmps`, `scas`), as a slot.
 */
const stringOf =
  (emit: (x: Lifting, bytes: Bytes) => void, compares: boolean): Lift =>
  (x) => {
    const { b } = x;
    const { repeatPrefix, addressSizePrefix } = x.instruction;
    const bytes = x.bytes(0);
    if (repeatPrefix === 0) {
      emit(x, bytes);
      return undefined;
    }
    b.leaveIfZero(addressSizePrefix ? b.make('zx32', RCX) : RCX, x.next);
    emit(x, bytes);
    b.to(RCX, addressSizePrefix ? 'sub32' : 'sub', RCX, 1n);
    const links = { pc: x.pc, next: x.next };
    if (!compares) return { kind: 'br', condition: 'ne', width: 64, a: RCX, b: 0n, ...links };
    const again = x.truth(repeatPrefix === 0xf3 ? 4 : 5);
    const both = b.make('and', b.make('setne', RCX, 0n), again);
    return { kind: 'br', condition: 'ne', width: 64, a: both, b: 0n, ...links };
  };

const memoryAt = (x: Lifting, i: number): Place => {
  const operand = x.operand(i);
  if (operand.kind !== 'memory') throw new ElftraceError('internal', 'a string instruction has addresses');
  return x.place(operand);
};

const STRINGS: Readonly<Record<string, Lift>> = {
  movs: stringOf((x, bytes) => {
    const value = x.load(memoryAt(x, 1), bytes);
    x.store(memoryAt(x, 0), bytes, value);
    advance(x, RSI, bytes);
    advance(x, RDI, bytes);
  }, false),
  stos: stringOf((x, bytes) => {
    x.store(memoryAt(x, 0), bytes, RAX);
    advance(x, RDI, bytes);
  }, false),
  lods: stringOf((x, bytes) => {
    x.setRegister(x.implicit(0, bytes), x.load(memoryAt(x, 1), bytes));
    advance(x, RSI, bytes);
  }, false),
  cmps: stringOf((x, bytes) => {
    const first = x.load(memoryAt(x, 0), bytes, bytes < 4);
    const second = x.load(memoryAt(x, 1), bytes, bytes < 4);
    x.flags('sub', bytes, first, second);
    advance(x, RSI, bytes);
    advance(x, RDI, bytes);
  }, true),
  scas: stringOf((x, bytes) => {
    const value = x.load(memoryAt(x, 0 + Number(x.operand(0).kind !== 'memory')), bytes, bytes < 4);
    x.flags('sub', bytes, bytes < 4 ? x.extend(RAX, bytes) : x.copy(RAX), value);
    advance(x, RDI, bytes);
  }, true),
};

// ----------------------------------------------------------------------------------------- vectors

/** A move of 16 bytes. */
const move128 =
  (aligned: boolean): Lift =>
  (x) => {
    if (x.slow) return PROTECTION;
    const { b } = x;
    const [to, from] = [x.operand(0), x.operand(1)];
    if (to.kind === 'memory') {
      const place = x.place(to);
      if (aligned) x.aligned(place, 16);
      b.store('stv128', x.vector(from), place.base, place.offset);
    } else if (from.kind === 'memory') {
      const place = x.place(from);
      if (aligned) x.aligned(place, 16);
      b.load('ldv128', x.vector(to), place.base, place.offset);
    } else b.to(x.vector(to), 'mov128', x.vector(from));
    return undefined;
  };

const logic128 =
  (name: 'and128' | 'or128' | 'xor128' | 'andnot128'): Lift =>
  (x) => {
    if (x.slow) return PROTECTION;
    const d = x.vector(x.operand(0));
    const source = x.wide(x.operand(1), true);
    if (name === 'andnot128') x.b.to(d, name, source, d);
    else x.b.to(d, name, d, source);
    return undefined;
  };

/** `movq` and `movd` between vectors, memory and general registers; `bytes` of the narrow side. */
function moveNarrow(x: Lifting, bytes: 4 | 8): undefined {
  const { b } = x;
  const [to, from] = [x.operand(0), x.operand(1)];
  if (to.kind === 'vector') {
    let value: Slot;
    if (from.kind === 'memory') {
      const place = x.place(from);
      b.load(bytes === 4 ? 'ldv32' : 'ldv64', x.vector(to), place.base, place.offset);
      return undefined;
    }
    if (from.kind === 'vector') value = b.make('low64', x.vector(from));
    else value = x.inSlot(x.zeroed(from, bytes));
    b.to(x.vector(to), 'wide64', value);
    return undefined;
  }
  if (to.kind === 'memory') {
    const place = x.place(to);
    b.store(bytes === 4 ? 'stv32' : 'stv64', x.vector(from), place.base, place.offset);
    return undefined;
  }
  const value = b.make('low64', x.vector(from));
  if (to.kind === 'register') x.setRegister({ ...to, bytes }, value);
  return undefined;
}

/** `movss` and `movsd`: from memory they clear the rest, between registers they keep it. */
const moveScalar =
  (bytes: 4 | 8): Lift =>
  (x) => {
    const { b } = x;
    const [to, from] = [x.operand(0), x.operand(1)];
    if (to.kind !== 'vector' || from.kind !== 'vector') return moveNarrow(x, bytes);
    const d = x.vector(to);
    let low = b.make('low64', x.vector(from));
    if (bytes === 4) {
      const kept = b.make('shl', b.make('shr', b.make('low64', d), 32n), 32n);
      low = b.make('or', kept, b.make('zx32', low));
    }
    b.to(d, 'setlow64', d, low);
    return undefined;
  };

/** `movlps`, `movhps` and their kin: one half from or to memory, or from the other register. */
const moveHalf =
  (half: 'low' | 'high'): Lift =>
  (x) => {
    const { b } = x;
    const [to, from] = [x.operand(0), x.operand(1)];
    if (to.kind === 'memory') {
      x.store(x.place(to), 8, b.make(half === 'low' ? 'low64' : 'high64', x.vector(from)));
      return undefined;
    }
    const d = x.vector(to);
    // movhlps takes the upper half into the lower, movlhps the other way.
    const value =
      from.kind === 'memory' ? x.load(x.place(from), 8) : b.make(half === 'low' ? 'high64' : 'low64', x.vector(from));
    if (half === 'low') b.to(d, 'setlow64', d, value);
    else b.to(d, 'join64', b.make('low64', d), value);
    return undefined;
  };

const unpackLow: Lift = (x) => {
  if (x.slow) return PROTECTION;
  const d = x.vector(x.operand(0));
  const source = x.wide(x.operand(1), true);
  x.b.to(d, 'join64', x.b.make('low64', d), x.b.make('low64', source));
  return undefined;
};

const unpackHigh: Lift = (x) => {
  if (x.slow) return PROTECTION;
  const d = x.vector(x.operand(0));
  const source = x.wide(x.operand(1), true);
  x.b.to(d, 'join64', x.b.make('high64', d), x.b.make('high64', source));
  return undefined;
};

const lanes =
  (name: PureName): Lift =>
  (x) => {
    if (x.slow) return PROTECTION;
    const d = x.vector(x.operand(0));
    x.b.to(d, name, d, x.wide(x.operand(1), true));
    return undefined;
  };

const lanesOne =
  (name: PureName): Lift =>
  (x) => {
    if (x.slow) return PROTECTION;
    x.b.to(x.vector(x.operand(0)), name, x.wide(x.operand(1), true));
    return undefined;
  };

/** `pmovsx…` and `pmovzx…`: memory operands have `bytes`. */
const widenLanes =
  (names: readonly PureName[], bytes: 2 | 4 | 8): Lift =>
  (x) => {
    const { b } = x;
    const d = x.vector(x.operand(0));
    const from = x.operand(1);
    let value = VECTOR;
    if (from.kind === 'memory') b.to(VECTOR, 'wide64', x.load(x.place(from), bytes));
    else value = x.vector(from);
    for (const [i, name] of names.entries()) b.to(i === names.length - 1 ? d : VECTOR, name, i === 0 ? value : VECTOR);
    return undefined;
  };

/** Shifts of every lane: counts from the width on give 0, or the sign. */
const shiftLanes =
  (name: PureName, width: number, arithmetic: boolean): Lift =>
  (x) => {
    if (x.slow) return PROTECTION;
    const { b } = x;
    const d = x.vector(x.operand(0));
    const by = x.operand(1);
    if (by.kind === 'immediate') {
      const count = Number(by.value & 0xffn);
      if (count < width) b.to(d, name, d, BigInt(count));
      else if (arithmetic) b.to(d, name, d, BigInt(width - 1));
      else b.to(d, 'xor128', d, d);
      return undefined;
    }
    const count = b.make('low64', x.wide(by, true));
    const within = b.make('setltu', count, BigInt(width));
    if (arithmetic) {
      const limited = b.temp();
      b.select(limited, within, count, b.make('add', ZERO, BigInt(width - 1)));
      b.to(d, name, d, limited);
      return undefined;
    }
    const mask = b.make('sub', ZERO, within);
    b.to(d, name, d, count);
    b.to(CONSTANT, 'join64', mask, mask);
    b.to(d, 'and128', d, CONSTANT);
    return undefined;
  };

const shiftBytes =
  (left: boolean): Lift =>
  (x) => {
    const d = x.vector(x.operand(0));
    const count = immediateOf(x, 1);
    const control = bytesConstant(x, (i) => {
      const from = left ? i - count : i + count;
      return from >= 0 && from < 16 ? from : 0xff;
    });
    x.b.to(d, 'vswizzle', d, control);
    return undefined;
  };

const shuffleLanes =
  (from: (i: number, control: number) => number): Lift =>
  (x) => {
    if (x.slow) return PROTECTION;
    const control = immediateOf(x, 2);
    const source = x.wide(x.operand(1), true);
    x.b.to(
      x.vector(x.operand(0)),
      'vswizzle',
      source,
      bytesConstant(x, (i) => from(i, control)),
    );
    return undefined;
  };

const moveMask =
  (name: PureName): Lift =>
  (x) => {
    const to = x.operand(0);
    if (to.kind !== 'register') throw new ElftraceError('internal', 'a mask goes to a register');
    x.b.to(GPR[to.number]!, name, x.vector(x.operand(1)));
    return undefined;
  };

/** d where the mask in CONSTANT is 0, the source where it is all ones. */
function blend(x: Lifting, d: Slot, source: Slot): undefined {
  const { b } = x;
  b.to(SECOND, 'and128', source, CONSTANT);
  b.to(d, 'andnot128', d, CONSTANT);
  b.to(d, 'or128', d, SECOND);
  return undefined;
}

/** `pblendvb` and its kin: top bits of the lanes of xmm0 choose, with AVX of the last operand. */
const blendVariable =
  (name: 'vgt8' | 'vgt32' | 'vgt64'): Lift =>
  (x) => {
    if (x.slow) return PROTECTION;
    const source = x.wide(x.operand(1), true);
    const mask = x.vex ? x.vector(x.operand(2)) : XMM[0]!;
    x.b.to(CONSTANT, name, vectorConstant(x, 0n, 0n), mask);
    return blend(x, x.vector(x.operand(0)), source);
  };

/** `pmuludq` and `pmuldq`: the even words of both operands, widened and multiplied. */
const multiplyEven =
  (widen: 'zx32' | 'sx32'): Lift =>
  (x) => {
    if (x.slow) return PROTECTION;
    const { b } = x;
    const d = x.vector(x.operand(0));
    const source = x.wide(x.operand(1), true);
    const product = (half: 'low64' | 'high64'): Slot =>
      b.make('mul', b.make(widen, b.make(half, d)), b.make(widen, b.make(half, source)));
    const low = product('low64');
    b.to(d, 'join64', low, product('high64'));
    return undefined;
  };

/** The control byte has a bit for each lane of so many bytes. */
const blendConstant =
  (bytes: 2 | 4 | 8): Lift =>
  (x) => {
    if (x.slow) return PROTECTION;
    const control = immediateOf(x, 2);
    const source = x.wide(x.operand(1), true);
    bytesConstant(x, (i) => ((control >> Math.floor(i / bytes)) & 1) * 0xff);
    return blend(x, x.vector(x.operand(0)), source);
  };

/** `shufps`: two lanes of the target, two of the source. */
const shuffleTwo: Lift = (x) => {
  if (x.slow) return PROTECTION;
  const { b } = x;
  const control = immediateOf(x, 2);
  const d = x.vector(x.operand(0));
  const source = x.wide(x.operand(1), true);
  const lanesOf = (upper: boolean): Slot =>
    bytesConstant(x, (i) => (i >= 8 === upper ? 4 * ((control >> (2 * (i >> 2))) & 3) + (i & 3) : 0xff));
  b.to(SECOND, 'vswizzle', source, lanesOf(true));
  b.to(d, 'vswizzle', d, lanesOf(false));
  b.to(d, 'or128', d, SECOND);
  return undefined;
};

const shuffleHalves: Lift = (x) => {
  if (x.slow) return PROTECTION;
  const { b } = x;
  const control = immediateOf(x, 2);
  const d = x.vector(x.operand(0));
  const source = x.wide(x.operand(1), true);
  const low = b.make((control & 1) !== 0 ? 'high64' : 'low64', d);
  b.to(d, 'join64', low, b.make((control & 2) !== 0 ? 'high64' : 'low64', source));
  return undefined;
};

/** `movsldup`, `movshdup`: every other lane twice. */
const duplicate =
  (odd: number): Lift =>
  (x) => {
    if (x.slow) return PROTECTION;
    const source = x.wide(x.operand(1), true);
    x.b.to(
      x.vector(x.operand(0)),
      'vswizzle',
      source,
      bytesConstant(x, (i) => (i & ~4) + 4 * odd),
    );
    return undefined;
  };

/** One lane of the half that holds it; `pinsrd` with REX.W has 8 bytes. */
function laneOf(
  x: Lifting,
  bytes: 1 | 2 | 4,
  index: number,
  isSingle = false,
): { readonly bytes: Bytes; readonly upper: boolean; readonly shift: bigint } {
  const own: Bytes = bytes === 4 && !isSingle && (x.instruction.rex & 8) !== 0 ? 8 : bytes;
  const at = (index & (16 / own - 1)) * own;
  return { bytes: own, upper: at >= 8, shift: BigInt(8 * (at & 7)) };
}

const insertLane =
  (lane: 1 | 2 | 4): Lift =>
  (x) => {
    const { b } = x;
    const { bytes, upper, shift } = laneOf(x, lane, immediateOf(x, 2));
    const d = x.vector(x.operand(0));
    const from = x.operand(1);
    const value = from.kind === 'memory' ? x.load(x.place(from), bytes) : x.zero(x.value(from, bytes), bytes);
    const half = b.make(upper ? 'high64' : 'low64', d);
    const mask = BigInt.asUintN(64, ~(((1n << BigInt(8 * bytes)) - 1n) << shift));
    const merged = b.make('or', b.make('and', half, mask), shift === 0n ? value : b.make('shl', value, shift));
    if (upper) b.to(d, 'join64', b.make('low64', d), merged);
    else b.to(d, 'join64', merged, b.make('high64', d));
    return undefined;
  };

/** @param isSingle  of 4 bytes whatever REX.W says */
const extractLane =
  (lane: 1 | 2 | 4, isSingle = false): Lift =>
  (x) => {
    const { b } = x;
    const { bytes, upper, shift } = laneOf(x, lane, immediateOf(x, 2), isSingle);
    const to = x.operand(0);
    const half = b.make(upper ? 'high64' : 'low64', x.vector(x.operand(1)));
    const value = shift === 0n ? half : b.make('shr', half, shift);
    if (to.kind === 'memory') x.store(x.place(to), bytes, value);
    else if (to.kind === 'register') b.mov(GPR[to.number]!, x.zero(value, bytes));
    return undefined;
  };

// ------------------------------------------------------------------------------------------- table

const onCondition = (prefix: string, lift: (cc: number) => Lift): readonly (readonly [string, Lift])[] =>
  CONDITIONS.map((name, cc) => [prefix + name, lift(cc)] as const);

// --------------------------------------------------------------------------------- floating point

/** Puts the source of an instruction into `VECTOR`, memory as far as it is one. */
function floatSource(x: Lifting, i: number, elements: Elements): void {
  const operand = x.operand(i);
  const scalar = elements === 'ss' ? 'ldv32' : elements === 'sd' ? 'ldv64' : null;
  if (operand.kind !== 'memory') {
    x.b.to(VECTOR, 'mov128', x.vector(operand));
    return;
  }
  const place = x.place(operand);
  if (scalar === null && !x.vex) {
    const { b } = x;
    const address = place.offset === 0n ? place.base : b.make('add', place.base, place.offset);
    b.check('checkaligned', x.inSlot(address), 15n);
  }
  x.b.load(scalar ?? 'ldv128', VECTOR, place.base, place.offset);
}

/** The same without a copy of a register. */
function fastSource(x: Lifting, i: number, elements: Elements): Slot {
  const operand = x.operand(i);
  if (operand.kind !== 'memory') return x.vector(operand);
  floatSource(x, i, elements);
  return VECTOR;
}

const floatElements =
  (operation: FloatOperation, elements: Elements): Lift =>
  (x) => {
    const third = x.operands[2];
    // Only AVX knows more than eight comparisons.
    const predicate = third?.kind === 'immediate' ? Number(third.value & (x.vex ? 31n : 7n)) : 0;
    if (!x.slow) {
      const source = fastSource(x, 1, elements);
      new FastFloat(x.b, MODE).elements(operation, elements, x.vector(x.operand(0)), source, predicate);
      return undefined;
    }
    floatSource(x, 1, elements);
    return vectorHelper(x, `${operation}${elements}`, predicate);
  };

/** Argument: number of the target; 16 for doubles; 32 where a quiet NaN is invalid. */
const floatFlags =
  (elements: 'ss' | 'sd', signals: boolean): Lift =>
  (x) => {
    if (!x.slow) {
      const source = fastSource(x, 1, elements);
      x.literal(new FastFloat(x.b, MODE).relation(elements, x.vector(x.operand(0)), source));
      return undefined;
    }
    floatSource(x, 1, elements);
    const what = (elements === 'sd' ? 16 : 0) | (signals ? 32 : 0);
    return { kind: 'helper', name: 'floatflags', argument: vectorNumber(x, 0) | what, next: x.next };
  };

const floatConvert =
  (from: 'ss' | 'sd'): Lift =>
  (x) => {
    if (!x.slow) {
      new FastFloat(x.b, MODE).convert(from, x.vector(x.operand(0)), fastSource(x, 1, from));
      return undefined;
    }
    floatSource(x, 1, from);
    return vectorHelper(x, from === 'ss' ? 'cvtss2sd' : 'cvtsd2ss');
  };

/** Of what gets more bits memory has 8 bytes. */
const convertVector =
  (name: VectorConversion): Lift =>
  (x) => {
    const elements = /^cvt(ps2pd|dq2pd)$/.test(name) ? 'sd' : 'ps';
    if (!x.slow) {
      new FastFloat(x.b, MODE).convertVector(name, x.vector(x.operand(0)), fastSource(x, 1, elements));
      return undefined;
    }
    floatSource(x, 1, elements);
    return vectorHelper(x, name);
  };

const roundElements =
  (elements: Elements): Lift =>
  (x) => {
    if (!x.slow) {
      const source = fastSource(x, 1, elements);
      new FastFloat(x.b, MODE).round(elements, x.vector(x.operand(0)), source, controlOf(x));
      return undefined;
    }
    floatSource(x, 1, elements);
    return vectorHelper(x, `round${elements}`);
  };

const floatFromInteger =
  (to: 'ss' | 'sd'): Lift =>
  (x) => {
    const bytes = x.bytes(1);
    if (!x.slow) {
      const source = x.inSlot(x.signed(x.operand(1), bytes));
      new FastFloat(x.b, MODE).fromInteger(to, x.vector(x.operand(0)), source);
      return undefined;
    }
    x.b.to(VECTOR, 'wide64', x.signed(x.operand(1), bytes));
    return vectorHelper(x, `cvtsi2${to}`);
  };

/** Argument: number of the target; 16 for doubles, 32 for integers of 64 bits, 64: truncated. */
const floatToInteger =
  (from: 'ss' | 'sd', truncates: boolean): Lift =>
  (x) => {
    if (!x.slow) {
      const bytes = x.bytes(0) === 8 ? 8 : 4;
      const result = new FastFloat(x.b, MODE).toInteger(from, fastSource(x, 1, from), bytes, truncates);
      x.b.to(GPR[generalNumber(x, 0)]!, bytes === 8 ? 'mov' : 'zx32', result);
      return undefined;
    }
    floatSource(x, 1, from);
    const what = (from === 'sd' ? 16 : 0) | (x.bytes(0) === 8 ? 32 : 0) | (truncates ? 64 : 0);
    return { kind: 'helper', name: 'floattointeger', argument: generalNumber(x, 0) | what, next: x.next };
  };

/** Argument: opcode and ModRM as FOP has them; 2048 with an operand size of 16 bits. */
const x87: Lift = (x) => {
  if (!x.slow && liftX87(x)) return undefined;
  const { opcode, modRm } = x.instruction;
  const operand = x.operands[0];
  if (operand?.kind === 'memory') {
    const { base, offset } = x.place(operand);
    x.b.to(ARGUMENT, 'add', base, offset);
  }
  const size = operandBytes(x.instruction) === 2 ? 0x800 : 0;
  return { kind: 'helper', name: 'x87', argument: ((opcode & 7) << 8) | modRm | size, next: x.next };
};

/** What x87 executes besides what is in its state alone. */
const X87_ROWS = `
  fld fst fstp fild fist fistp fisttp fbld fbstp fld1 fldl2t fldl2e fldpi fldlg2 fldln2 fldz
  fadd faddp fiadd fsub fsubp fsubr fsubrp fisub fisubr fmul fmulp fimul fdiv fdivp fdivr fdivrp fidiv fidivr
  f2xm1 fyl2x fptan fpatan fyl2xp1 fsincos fsin fcos
  fsqrt fabs fchs frndint fscale fprem fprem1 fxtract fxch ffree ffreep fincstp fdecstp
  fcom fcomp fcompp fucom fucomp fucompp fcomi fcomip fucomi fucomip ficom ficomp ftst fxam
  fcmovb fcmove fcmovbe fcmovu fcmovnb fcmovne fcmovnbe fcmovnu fnstenv fldenv fnsave frstor
`;

// ------------------------------------------------------------------------ vectors by helpers, MMX

const controlOf = (x: Lifting): number => (x.operands[2]?.kind === 'immediate' ? immediateOf(x, 2) : 0);

/** The helper of a vector that is target and first operand; its source is in `VECTOR`. */
function vectorHelper(x: Lifting, name: string, control = controlOf(x)): Extract<Terminator, { kind: 'helper' }> {
  const number = vectorNumber(x, 0);
  const places = (number << VECTOR_FIELDS.target) | (number << VECTOR_FIELDS.first);
  const argument = vectorOperation(name) | places | (control << VECTOR_FIELDS.control);
  return { kind: 'helper', name: 'vector', argument, next: x.next };
}

/** By a helper, with a source of 4, 8 or 16 bytes. */
const byHelper =
  (name: string, elements: Elements = 'ps'): Lift =>
  (x) => {
    if (x.slow) return PROTECTION;
    floatSource(x, 1, elements);
    return vectorHelper(x, name);
  };

/** The number of a register of MMX; a prefix may have made it a vector. */
function mmxNumber(x: Lifting, i: number): number {
  const operand = x.operand(i);
  if (operand.kind !== 'other' && operand.kind !== 'vector') throw new ElftraceError('internal', 'no register of MMX');
  return operand.number & 7;
}

/** Puts the source of an instruction of MMX into `VECTOR`. */
function mmxSource(x: Lifting, i: number, bytes: 2 | 4 | 8): void {
  const { b } = x;
  const operand = x.operand(i);
  if (operand.kind === 'memory') b.to(VECTOR, 'wide64', x.load(x.place(operand), bytes));
  else if (operand.kind === 'immediate') b.to(VECTOR, 'wide64', BigInt.asUintN(8, operand.value));
  else if (operand.kind === 'register') b.to(VECTOR, 'wide64', x.zeroed(operand, 4));
  else b.to(VECTOR, 'mov128', FPR[mmxNumber(x, i)]!);
}

/** By a helper, which makes registers of x87 those of MMX. */
const mmx =
  (name: string): Lift =>
  (x) => {
    mmxSource(x, 1, name === 'pinsrw' ? 2 : name.startsWith('punpckl') ? 4 : 8);
    const target = (mmxNumber(x, 0) << VECTOR_FIELDS.target) | VECTOR_FIELDS.toMmx | VECTOR_FIELDS.entersMmx;
    const argument = vectorOperation(name) | target | (controlOf(x) << VECTOR_FIELDS.control);
    return { kind: 'helper', name: 'vector', argument, next: x.next };
  };

/** `cvtps2pi` and its kin; of two singles memory has 8 bytes. */
const toMmx =
  (name: string, elements: 'sd' | 'ps'): Lift =>
  (x) => {
    if (x.slow) return PROTECTION;
    floatSource(x, 1, elements);
    const target = (mmxNumber(x, 0) << VECTOR_FIELDS.target) | VECTOR_FIELDS.toMmx | VECTOR_FIELDS.entersMmx;
    return { kind: 'helper', name: 'vector', argument: vectorOperation(name) | target, next: x.next };
  };

/** `cvtpi2ps`, `cvtpi2pd`; two integers of memory leave x87 as it is, but for the first. */
const fromMmx =
  (name: 'cvtpi2ps' | 'cvtpi2pd'): Lift =>
  (x) => {
    mmxSource(x, 1, 8);
    const enters = name === 'cvtpi2ps' || x.operand(1).kind !== 'memory' ? VECTOR_FIELDS.entersMmx : 0;
    const { argument, ...rest } = vectorHelper(x, name);
    return { ...rest, argument: argument | enters };
  };

/** Bits 64 to 79 of the registers that MMX has written. */
const MMX_UPPER = 0xffffn;
const X87_TOP = 0x3800n;

/** An instruction of MMX: x87 must not have noted an exception; then no register is empty. */
const entering =
  (emit: (x: Lifting) => void): Lift =>
  (x) => {
    const raised = wait(x);
    if (raised) return raised;
    emit(x);
    x.b.to(FSW, 'and', FSW, ~X87_TOP & 0xffffn);
    x.b.mov(FTW, 0xffn);
    return undefined;
  };

function setMmx(x: Lifting, number: number, value: Operand): void {
  x.b.to(FPR[number]!, 'join64', value, MMX_UPPER);
}

const mmxLow = (x: Lifting, i: number): Slot => x.b.make('low64', FPR[mmxNumber(x, i)]!);

/** `movd`, and `movq` with REX.W; `movq` and `movntq` to memory. */
const moveFromMmx = (bytes?: 8): Lift =>
  entering((x) => {
    const size = bytes ?? ((x.instruction.rex & 8) !== 0 ? 8 : 4);
    const to = x.operand(0);
    const value = mmxLow(x, 1);
    if (to.kind === 'memory') x.store(x.place(to), size, value);
    else if (to.kind === 'register') x.setRegister({ ...to, bytes: size }, value);
    else setMmx(x, mmxNumber(x, 0), value);
  });

const moveToMmx = entering((x) => {
  const size = (x.instruction.rex & 8) !== 0 ? 8 : 4;
  const from = x.operand(1);
  const value = from.kind === 'memory' ? x.load(x.place(from), size) : x.zeroed(from, size);
  setMmx(x, mmxNumber(x, 0), value);
});

/** `insertps`: in memory the source is one element. */
const insertElement: Lift = (x) => {
  const isMemory = x.operand(1).kind === 'memory';
  floatSource(x, 1, isMemory ? 'ss' : 'ps');
  return vectorHelper(x, 'insertps', controlOf(x) & (isMemory ? 0x3f : 0xff));
};

/**
 * `pcmpistri` and its kin. Argument: the control, the number of the first text; whether lengths are
 * in registers, of 64 bits; whether the result is a mask.
 */
const textComparison =
  (isExplicit: boolean, isMask: boolean): Lift =>
  (x) => {
    const source = x.wide(x.operand(1), false);
    if (source !== VECTOR) x.b.to(VECTOR, 'mov128', source);
    const what = (isExplicit ? 1 : 0) | ((x.instruction.rex & 8) !== 0 ? 2 : 0) | (isMask ? 4 : 0);
    const argument = controlOf(x) | (vectorNumber(x, 0) << 8) | (what << 12);
    return { kind: 'helper', name: 'texts', argument, next: x.next };
  };

/** Bytes whose mask has its top bit set, to where rdi points. */
const maskMove =
  (isMmx: boolean): Lift =>
  (x) => {
    const { segmentPrefix, addressSizePrefix } = x.instruction;
    const { b } = x;
    const at = addressSizePrefix ? b.make('zx32', RDI) : RDI;
    const segment = segmentPrefix === 0x64 ? FS_BASE : segmentPrefix === 0x65 ? GS_BASE : ZERO;
    b.to(ARGUMENT, 'add', at, segment);
    const [data, mask] = isMmx ? [mmxNumber(x, 0), mmxNumber(x, 1)] : [vectorNumber(x, 0), vectorNumber(x, 1)];
    return { kind: 'helper', name: 'maskmove', argument: data | (mask << 4) | (isMmx ? 256 : 0), next: x.next };
  };

/** Semantics of rows with registers of MMX. */
const MMX_SEMANTICS: ReadonlyMap<string, Lift> = new Map<string, Lift>([
  ...MMX_INTEGERS.map((name) => [name, mmx(name)] as const),
  ['cvtps2pi', toMmx('cvtps2pi', 'sd')],
  ['cvttps2pi', toMmx('cvttps2pi', 'sd')],
  ['cvtpd2pi', toMmx('cvtpd2pi', 'ps')],
  ['cvttpd2pi', toMmx('cvttpd2pi', 'ps')],
  ['cvtpi2ps', fromMmx('cvtpi2ps')],
  ['cvtpi2pd', fromMmx('cvtpi2pd')],
  ['movntq', moveFromMmx(8)],
  [
    'movq2dq',
    entering((x) => {
      x.b.to(x.vector(x.operand(0)), 'wide64', mmxLow(x, 1));
    }),
  ],
  [
    'movdq2q',
    entering((x) => {
      setMmx(x, mmxNumber(x, 0), x.b.make('low64', x.vector(x.operand(1))));
    }),
  ],
  [
    'pextrw',
    entering((x) => {
      const to = x.operand(0);
      const value = x.b.make('zx16', x.b.make('shr', mmxLow(x, 1), BigInt(16 * (immediateOf(x, 2) & 3))));
      if (to.kind === 'register') x.b.mov(GPR[to.number]!, value);
    }),
  ],
  [
    'pmovmskb',
    entering((x) => {
      const to = x.operand(0);
      x.b.to(VECTOR, 'wide64', mmxLow(x, 1));
      if (to.kind === 'register') x.b.to(GPR[to.number]!, 'vmask8', VECTOR);
    }),
  ],
  ['maskmovq', maskMove(true)],
]);

/** `movq` and `movd` by their target. */
function mmxSemantics(row: OpcodeRow): Lift | null {
  const name = row.mnemonics[1];
  const toRegister = row.operands[0]?.startsWith('P') === true;
  if (name === 'movd') return toRegister ? moveToMmx : moveFromMmx();
  if (name === 'movq' && !toRegister) return moveFromMmx(8);
  return MMX_SEMANTICS.get(name) ?? null;
}

/** Integer operations on whole vectors that helpers execute. */
const HELPED = `
  pmulhw pmulhuw psadbw pmulhrsw pmaddubsw phaddw phaddd phaddsw phsubw phsubd phsubsw psignb psignw psignd
`
  .trim()
  .split(/\s+/);

/** Semantics by the name of the row at 32 bits. */
const SEMANTICS: ReadonlyMap<string, Lift> = new Map<string, Lift>([
  ['add', add],
  ['or', logical('or')],
  ['adc', withCarry(false)],
  ['sbb', withCarry(true)],
  ['and', logical('and')],
  ['sub', sub],
  ['xor', logical('xor')],
  ['cmp', cmp],
  ['test', test],
  ['inc', step('inc')],
  ['dec', step('dec')],
  ['neg', neg],
  ['not', not],
  ['mul', widening(false)],
  [
    'imul',
    (x): Terminator | undefined => {
      if (x.operands.length === 1) return widening(true)(x);
      return multiply(x, x.operand(x.operands.length === 3 ? 1 : 0), x.operand(x.operands.length - 1));
    },
  ],
  ['div', division(false)],
  ['idiv', division(true)],

  ['shl', shift('shl')],
  ['shr', shift('shr')],
  ['sar', shift('sar')],
  ['rol', rotate(true)],
  ['ror', rotate(false)],
  ['rcl', rotateCarry(true)],
  ['rcr', rotateCarry(false)],
  ['shld', doubleShift(true)],
  ['shrd', doubleShift(false)],

  ['bt', bitTest(null)],
  ['bts', bitTest((x, d, old, bit) => x.b.to(d, 'or', old, bit))],
  ['btr', bitTest((x, d, old, bit) => x.b.to(d, 'and', old, x.b.make('xor', bit, ONES)))],
  ['btc', bitTest((x, d, old, bit) => x.b.to(d, 'xor', old, bit))],
  ['bsf', scan(false)],
  ['bsr', scan(true)],
  ['popcnt', count('popcnt')],
  ['lzcnt', count('lzcnt')],
  ['tzcnt', count('tzcnt')],
  [
    'andn',
    bmi((x, bytes) => {
      const inverted = x.b.make('xor', x.value(x.operand(1), bytes), ONES);
      return { value: x.b.make('and', inverted, x.value(x.operand(2), bytes)), carry: null };
    }),
  ],
  [
    'blsr',
    bmi((x, bytes) => {
      const source = x.copy(x.zeroed(x.operand(1), bytes));
      const value = x.b.make('and', source, x.b.make('sub', source, 1n));
      return { value, carry: x.b.make('seteq', source, 0n) };
    }),
  ],
  [
    'blsmsk',
    bmi((x, bytes) => {
      const source = x.copy(x.zeroed(x.operand(1), bytes));
      const value = x.b.make('xor', source, x.b.make('sub', source, 1n));
      return { value, carry: x.b.make('seteq', source, 0n) };
    }),
  ],
  [
    'blsi',
    bmi((x, bytes) => {
      const source = x.copy(x.zeroed(x.operand(1), bytes));
      const value = x.b.make('and', source, x.b.make('sub', 0n, source));
      return { value, carry: x.b.make('setne', source, 0n) };
    }),
  ],
  [
    'bzhi',
    bmi((x, bytes) => {
      const { b } = x;
      const source = x.inSlot(x.zeroed(x.operand(1), bytes));
      const index = b.make('and', x.value(x.operand(2), bytes), 0xffn);
      const within = b.make('setltu', index, BigInt(8 * bytes));
      const mask = b.make('sub', b.make('shl', 1n, index), 1n);
      const value = b.temp();
      b.select(value, within, b.make('and', source, mask), source);
      return { value, carry: b.make('xor', within, 1n) };
    }),
  ],
  [
    'bextr',
    bmi((x, bytes) => {
      const { b } = x;
      const source = x.inSlot(x.zeroed(x.operand(1), bytes));
      const control = x.inSlot(x.value(x.operand(2), bytes));
      const start = b.make('and', control, 0xffn);
      const length = b.make('and', b.make('shr', control, 8n), 0xffn);
      const shifted = b.temp();
      b.select(shifted, b.make('setltu', start, 64n), b.make('shr', source, start), 0n);
      const mask = b.make('sub', b.make('shl', 1n, length), 1n);
      const value = b.temp();
      b.select(value, b.make('setltu', length, 64n), b.make('and', shifted, mask), shifted);
      return { value, carry: 0n };
    }),
  ],
  ['pdep', flagless((x, bytes) => x.b.make('pdep', x.zeroed(x.operand(1), bytes), x.zeroed(x.operand(2), bytes)))],
  ['pext', flagless((x, bytes) => x.b.make('pext', x.zeroed(x.operand(1), bytes), x.zeroed(x.operand(2), bytes)))],
  [
    'mulx',
    (x): undefined => {
      const { b } = x;
      const [high, low] = [x.operand(0), x.operand(1)];
      const bytes = x.bytes();
      const source = x.inSlot(x.zeroed(x.operand(2), bytes));
      const factor = x.zero(RDX, bytes);
      const product = b.make('mul', source, factor);
      const upper = bytes === 8 ? b.make('mulhu', source, factor) : b.make('shr', product, 32n);
      if (high.kind !== 'register' || low.kind !== 'register')
        throw new ElftraceError('internal', 'mulx has registers');
      // The same register twice ends with the upper half.
      x.setRegister(low, product);
      x.setRegister(high, upper);
      return undefined;
    },
  ],
  ['shlx', shiftX('shl')],
  ['shrx', shiftX('shr')],
  ['sarx', shiftX('sar')],
  [
    'rorx',
    flagless((x, bytes) => {
      const turn = x.operand(2);
      if (turn.kind !== 'immediate') throw new ElftraceError('internal', 'rorx has a count');
      return x.b.make(x.sized('rotr', bytes), x.value(x.operand(1), bytes), turn.value & BigInt(8 * bytes - 1));
    }),
  ],
  ['adcx', addChain(FLAG.cf)],
  ['adox', addChain(FLAG.of)],
  [
    'crc32',
    (x): Terminator => {
      const source = x.operand(1);
      const bytes = x.bytes(1);
      const target = x.operand(0);
      if (target.kind !== 'register') throw new ElftraceError('internal', 'crc32 has a register target');
      x.b.mov(ARGUMENT, x.value(source, bytes));
      return { kind: 'helper', name: 'crc32', argument: bytes | (target.number << 4), next: x.next };
    },
  ],

  ['mov', mov],
  ['movabs', mov],
  ['movzx', movExtend(false)],
  ['movsx', movExtend(true)],
  ['movsxd', movExtend(true)],
  ['movnti', mov],
  ['lea', lea],
  ['xchg', xchg],
  ['bswap', bswap],
  ['movbe', movbe],
  ['xadd', xadd],
  ['cmpxchg', cmpxchg],
  ['cmpxchg8b', cmpxchgPair],
  ['cwde', convert(true)],
  ['cdq', convert(false)],
  [
    'xlatb',
    (x): undefined => {
      const { b } = x;
      const { segmentPrefix, addressSizePrefix } = x.instruction;
      let address = b.make('add', RBX, b.make('zx8', RAX));
      if (addressSizePrefix) address = b.make('zx32', address);
      if (segmentPrefix === 0x64) address = b.make('add', address, FS_BASE);
      if (segmentPrefix === 0x65) address = b.make('add', address, GS_BASE);
      b.to(RAX, 'ins8', RAX, x.load({ base: address, offset: 0n }, 1));
      return undefined;
    },
  ],
  ...onCondition('set', setcc),
  ...onCondition('cmov', cmov),
  ...onCondition('j', branch),

  ['push', push],
  ['pop', pop],
  ['leave', leave],
  ['enter', enter],
  ['pushfq', pushf],
  ['popfq', popf],
  ['lahf', lahf],
  ['sahf', sahf],
  ['clc', setCarry((x, all) => x.b.make('and', all, STATUS & ~FLAG.cf))],
  ['stc', setCarry((x, all) => x.b.make('or', all, FLAG.cf))],
  ['cmc', setCarry((x, all) => x.b.make('xor', all, FLAG.cf))],
  [
    'cld',
    (x): undefined => {
      x.b.mov(DF, 0n);
      return undefined;
    },
  ],
  [
    'std',
    (x): undefined => {
      x.b.mov(DF, ONES - 1n);
      return undefined;
    },
  ],

  ['jmp', jump],
  ['call', call],
  ['ret', ret],
  ['loop', loop(null)],
  ['loope', loop(true)],
  ['loopne', loop(false)],
  ['jrcxz', jrcxz],
  ['syscall', syscall],
  [
    'iretd',
    (x): Terminator =>
      operandBytes(x.instruction) === 8 ? { kind: 'helper', name: 'iret', argument: 0, next: x.next } : UNKNOWN,
  ],
  ['int3', (): Terminator => ({ kind: 'trap', trap: 'breakpoint' })],
  ['int1', (): Terminator => ({ kind: 'trap', trap: 'breakpoint' })],
  ['int', int],
  ['ud0', (): Terminator => UNDEFINED],
  ['ud1', (): Terminator => UNDEFINED],
  ['ud2', (): Terminator => UNDEFINED],

  ['nop', nothing],
  ['endbr64', nothing],
  ['endbr32', nothing],
  ['rdsspd', nothing],
  ['prefetch', nothing],
  ['prefetchw', nothing],
  ['prefetchwt1', nothing],
  ['prefetchnta', nothing],
  ['prefetcht0', nothing],
  ['prefetcht1', nothing],
  ['prefetcht2', nothing],
  ['cldemote', nothing],
  ['lfence', nothing],
  ['mfence', nothing],
  ['sfence', nothing],
  ['wait', wait],
  [
    'clflush',
    (x): undefined => {
      x.load(memoryAt(x, 0), 1);
      return undefined;
    },
  ],
  [
    'clflushopt',
    (x): undefined => {
      x.load(memoryAt(x, 0), 1);
      return undefined;
    },
  ],
  ['serialize', (x): Terminator | undefined => (x.synchronises ? { kind: 'sync', next: x.next } : undefined)],
  ['cpuid', helper('cpuid')],
  ['rdtsc', helper('rdtsc', 0)],
  ['rdtscp', helper('rdtsc', 1)],
  [
    'rdfsbase',
    (x): undefined => {
      baseRegister(x, FS_BASE, false);
    },
  ],
  [
    'rdgsbase',
    (x): undefined => {
      baseRegister(x, GS_BASE, false);
    },
  ],
  [
    'wrfsbase',
    (x): undefined => {
      baseRegister(x, FS_BASE, true);
    },
  ],
  [
    'wrgsbase',
    (x): undefined => {
      baseRegister(x, GS_BASE, true);
    },
  ],

  ...(
    'in out insb insd outsb outsd hlt cli sti clts invd wbinvd wbnoinvd wrmsr rdmsr rdpmc lgdt lidt lmsw invlpg lldt ltr ' +
    'sysret swapgs xsetbv monitor mwait clac stac sysexit rsm'
  )
    .split(' ')
    .map((name) => [name, privileged] as const),

  ['movaps', move128(true)],
  ['movapd', move128(true)],
  ['movdqa', move128(true)],
  ['movntps', move128(true)],
  ['movntpd', move128(true)],
  ['movntdq', move128(true)],
  ['movntdqa', move128(true)],
  ['movups', move128(false)],
  ['movupd', move128(false)],
  ['movdqu', move128(false)],
  ['lddqu', move128(false)],
  ...Object.entries(LOGIC_OPS).map(([name, op]) => [name, logic128(op)] as const),
  ['movd', (x): undefined => moveNarrow(x, (x.instruction.rex & 8) !== 0 ? 8 : 4)],
  ['movq', (x): undefined => moveNarrow(x, 8)],
  ['movss', moveScalar(4)],
  ['movsd', moveScalar(8)],
  ['movlps', moveHalf('low')],
  ['movlpd', moveHalf('low')],
  ['movhlps', moveHalf('low')],
  ['movhps', moveHalf('high')],
  ['movhpd', moveHalf('high')],
  ['movlhps', moveHalf('high')],
  ['punpcklqdq', unpackLow],
  ['unpcklpd', unpackLow],
  ['punpckhqdq', unpackHigh],
  ['unpckhpd', unpackHigh],
  ...Object.entries(VECTOR_OPS).map(([name, op]) => [name, lanes(op)] as const),
  ['pabsb', lanesOne('vabs8')],
  ['pabsw', lanesOne('vabs16')],
  ['pabsd', lanesOne('vabs32')],
  ['pmovsxbw', widenLanes(['vsx8'], 8)],
  ['pmovsxbd', widenLanes(['vsx8', 'vsx16'], 4)],
  ['pmovsxbq', widenLanes(['vsx8', 'vsx16', 'vsx32'], 2)],
  ['pmovsxwd', widenLanes(['vsx16'], 8)],
  ['pmovsxwq', widenLanes(['vsx16', 'vsx32'], 4)],
  ['pmovsxdq', widenLanes(['vsx32'], 8)],
  ['pmovzxbw', widenLanes(['vzx8'], 8)],
  ['pmovzxbd', widenLanes(['vzx8', 'vzx16'], 4)],
  ['pmovzxbq', widenLanes(['vzx8', 'vzx16', 'vzx32'], 2)],
  ['pmovzxwd', widenLanes(['vzx16'], 8)],
  ['pmovzxwq', widenLanes(['vzx16', 'vzx32'], 4)],
  ['pmovzxdq', widenLanes(['vzx32'], 8)],
  ['psllw', shiftLanes('vshl16', 16, false)],
  ['psrlw', shiftLanes('vshr16', 16, false)],
  ['psraw', shiftLanes('vsar16', 16, true)],
  ['pslld', shiftLanes('vshl32', 32, false)],
  ['psrld', shiftLanes('vshr32', 32, false)],
  ['psrad', shiftLanes('vsar32', 32, true)],
  ['psllq', shiftLanes('vshl64', 64, false)],
  ['psrlq', shiftLanes('vshr64', 64, false)],
  ['pslldq', shiftBytes(true)],
  ['psrldq', shiftBytes(false)],
  ['pshufd', shuffleLanes((i, control) => 4 * ((control >> (2 * (i >> 2))) & 3) + (i & 3))],
  ['pshuflw', shuffleLanes((i, control) => (i < 8 ? 2 * ((control >> (2 * (i >> 1))) & 3) + (i & 1) : i))],
  ['pshufhw', shuffleLanes((i, control) => (i < 8 ? i : 8 + 2 * ((control >> (2 * ((i - 8) >> 1))) & 3) + (i & 1)))],
  [
    'pshufb',
    (x): Terminator | undefined => {
      if (x.slow) return PROTECTION;
      const d = x.vector(x.operand(0));
      const source = x.wide(x.operand(1), true);
      // Bit 7 clears, bits 4 to 6 do not count.
      x.b.to(VECTOR, 'and128', source, vectorConstant(x, 0x8f8f_8f8f_8f8f_8f8fn, 0x8f8f_8f8f_8f8f_8f8fn));
      x.b.to(d, 'vswizzle', d, VECTOR);
      return undefined;
    },
  ],
  [
    'palignr',
    (x): Terminator | undefined => {
      if (x.slow) return PROTECTION;
      const { b } = x;
      const d = x.vector(x.operand(0));
      const source = x.wide(x.operand(1), true);
      const shift = immediateOf(x, 2);
      const part = (from: number): Slot => bytesConstant(x, (i) => (i + from >= 0 && i + from < 16 ? i + from : 0xff));
      const second = part(shift);
      b.to(SECOND, 'vswizzle', source, second);
      b.to(VECTOR, 'vswizzle', d, part(shift - 16));
      b.to(d, 'or128', SECOND, VECTOR);
      return undefined;
    },
  ],
  ['pmovmskb', moveMask('vmask8')],
  ['movmskps', moveMask('vmask32')],
  ['movmskpd', moveMask('vmask64')],
  ['pmuludq', multiplyEven('zx32')],
  [
    'ptest',
    (x): Terminator | undefined => {
      if (x.slow) return PROTECTION;
      const { b } = x;
      const d = x.vector(x.operand(0));
      const source = x.wide(x.operand(1), true);
      const isZero = (value: Slot): Slot =>
        b.make('seteq', b.make('or', b.make('low64', value), b.make('high64', value)), 0n);
      b.to(SECOND, 'and128', d, source);
      const zero = isZero(SECOND);
      b.to(SECOND, 'andnot128', source, d);
      x.literal(b.make('or', b.make('shl', zero, 6n), isZero(SECOND)));
      return undefined;
    },
  ],
  ['pmuldq', multiplyEven('sx32')],
  ['pblendvb', blendVariable('vgt8')],
  ['blendvps', blendVariable('vgt32')],
  ['blendvpd', blendVariable('vgt64')],
  ['pblendw', blendConstant(2)],
  ['blendps', blendConstant(4)],
  ['blendpd', blendConstant(8)],
  ['shufps', shuffleTwo],
  ['shufpd', shuffleHalves],
  ['movsldup', duplicate(0)],
  ['movshdup', duplicate(1)],
  [
    'movddup',
    (x): undefined => {
      const from = x.operand(1);
      const low = from.kind === 'memory' ? x.load(x.place(from), 8) : x.b.make('low64', x.vector(from));
      x.b.to(x.vector(x.operand(0)), 'join64', low, low);
      return undefined;
    },
  ],
  ['pinsrb', insertLane(1)],
  ['pinsrw', insertLane(2)],
  ['pinsrd', insertLane(4)],
  ['pextrb', extractLane(1)],
  ['pextrw', extractLane(2)],
  ['pextrd', extractLane(4)],
  ['extractps', extractLane(4, true)],
  [
    'ldmxcsr',
    (x): Terminator | undefined => {
      if (x.slow) return PROTECTION;
      const { b } = x;
      const value = x.load(memoryAt(x, 0), 4);
      b.guard(b.make('seteq', b.make('shr', value, 16n), 0n));
      b.to(MXCSR, 'xor', value, MXCSR_INITIAL);
      new FastFloat(b, MODE).setMode(value);
      return undefined;
    },
  ],
  ...FLOAT_OPERATIONS.flatMap((operation) =>
    ELEMENTS.map((elements) => [`${operation}${elements}`, floatElements(operation, elements)] as const),
  ),
  ...(['ss', 'sd'] as const).flatMap((elements): (readonly [string, Lift])[] => [
    [`ucomi${elements}`, floatFlags(elements, false)],
    [`comi${elements}`, floatFlags(elements, true)],
    [`cvtsi2${elements}`, floatFromInteger(elements)],
    [`cvt${elements}2si`, floatToInteger(elements, false)],
    [`cvtt${elements}2si`, floatToInteger(elements, true)],
  ]),
  ...VECTOR_CONVERSIONS.map((name) => [name, convertVector(name)] as const),
  ...VECTOR_ESTIMATES.map((name) => [name, byHelper(name, name.endsWith('ss') ? 'ss' : 'ps')] as const),
  ...HELPED.map((name) => [name, byHelper(name)] as const),
  ...VECTOR_LATER.map((name) => {
    const rounded = ELEMENTS.find((elements) => name === `round${elements}`);
    return [name, rounded ? roundElements(rounded) : name === 'insertps' ? insertElement : byHelper(name)] as const;
  }),
  ['pcmpestrm', textComparison(true, true)],
  ['pcmpestri', textComparison(true, false)],
  ['pcmpistrm', textComparison(false, true)],
  ['pcmpistri', textComparison(false, false)],
  ['maskmovdqu', maskMove(false)],
  [
    'emms',
    (x): Terminator | undefined => {
      const raised = wait(x);
      if (raised) return raised;
      x.b.to(FSW, 'and', FSW, ~X87_TOP & 0xffffn);
      x.b.mov(FTW, 0n);
      return undefined;
    },
  ],
  ['cvtss2sd', floatConvert('ss')],
  ['cvtsd2ss', floatConvert('sd')],
  ...X87_ROWS.trim()
    .split(/\s+/)
    .map((name) => [name, x87] as const),
  ['fnop', wait],
  // Nothing since the 80387.
  ['fneni', nothing],
  ['fndisi', nothing],
  ['fnsetpm', nothing],
  ['fnstcw', storeControl],
  ['fldcw', loadControl],
  ['fnstsw', storeStatus],
  [
    'fninit',
    (x): undefined => {
      for (const slot of [FCW, FSW, FTW, FOP, FIP, FDP]) x.b.mov(slot, 0n);
      return undefined;
    },
  ],
  [
    'fnclex',
    (x): undefined => {
      x.b.to(FSW, 'and', FSW, ~(X87_EXCEPTIONS | PENDING | 0x40n) & 0xffffn);
      return undefined;
    },
  ],
  ['fxsave', extendedState('fxsave')],
  ['fxrstor', extendedState('fxrstor')],
  [
    'stmxcsr',
    (x): undefined => {
      x.store(memoryAt(x, 0), 4, x.b.make('xor', MXCSR, MXCSR_INITIAL));
      return undefined;
    },
  ],
]);

function baseRegister(x: Lifting, base: Slot, write: boolean): void {
  const operand = x.operand(0);
  if (operand.kind !== 'register') throw new ElftraceError('internal', 'rdfsbase has a register');
  if (write) x.b.mov(base, x.zeroed(operand, x.bytes()));
  else x.setRegister(operand, base);
}

// ------------------------------------------------------------------------------- the state of x87

/** `fnstcw`. */
function storeControl(x: Lifting): undefined {
  x.store(memoryAt(x, 0), 2, x.b.make('xor', FCW, FCW_INITIAL));
  return undefined;
}

/** Raises an exception that x87 has noted. */
function wait(x: Lifting): Terminator | undefined {
  if (x.slow) return FLOAT_TRAP;
  demandQuiet(x);
  return undefined;
}

/** `fldcw`: an exception that is noted may be pending behind it. */
function loadControl(x: Lifting): Terminator | undefined {
  if (x.slow) return FLOAT_TRAP;
  const { b } = x;
  wait(x);
  const loaded = x.load(memoryAt(x, 0), 2);
  // Bit 6 is always 1, those above 12 always 0.
  const value = b.make('or', b.make('and', loaded, 0x1f3fn), 0x40n);
  const unmasked = b.make('and', b.make('and', FSW, b.make('xor', value, X87_EXCEPTIONS)), X87_EXCEPTIONS);
  b.to(FSW, 'or', FSW, b.make('mul', b.make('setne', unmasked, 0n), PENDING));
  b.to(FCW, 'xor', value, FCW_INITIAL);
  return undefined;
}

/** `fnstsw`, to memory or to ax. */
function storeStatus(x: Lifting): undefined {
  const operand = x.operands[0];
  if (operand?.kind === 'memory') x.store(x.place(operand), 2, FSW);
  else x.b.to(RAX, 'ins16', RAX, FSW);
  return undefined;
}

/** Argument of the helpers: 1 with a 64-bit operand, which has addresses of 64 bits. */
function extendedState(name: 'fxsave' | 'fxrstor' | 'xsave' | 'xrstor'): Lift {
  return (x) => {
    const operand = x.operand(0);
    if (operand.kind !== 'memory') return UNKNOWN;
    const { base, offset } = x.place(operand);
    x.b.to(ARGUMENT, 'add', base, offset);
    return { kind: 'helper', name, argument: operandBytes(x.instruction) === 8 ? 1 : 0, next: x.next };
  };
}

/** VEX instructions on general registers. */
const VEX_GENERAL: ReadonlySet<string> = new Set(
  'andn bextr blsi blsmsk blsr bzhi mulx pdep pext rorx sarx shlx shrx'.split(' '),
);

/** Why a row cannot be executed; the first that fits. */
const WITHOUT: readonly (readonly [RegExp, string])[] = [
  [/^fstpnce$/, 'undocumented'],
  [/^(xsave|xrstor|xgetbv|xsetbv)/, 'extended state'],
  [/^3dnow$|^femms$/, '3DNow!'],
  [/^(vm|enc|skinit|stgi|clgi|pconfig|inv(ept|vpid|pcid|lpg[ab])|tlbsync|rmp|pvalidate|psmash|getsec|rsm)/, 'virtual machines'],
  [/^(l[defgs]s|lar|lsl|ver[rw]|sldt|str|s[gi]dt|smsw|lcall|ljmp|retf|mov$|push$|pop$)/, 'segment registers, far transfers'],
  [/^(sysenter|int$)/, 'system calls of 32-bit programs'],
  [/^(xbegin|xabort|xend|xtest|xsusldtrk|xresldtrk)$/, 'transactions'],
  [/^(rdrand|rdseed|rdpid|rdpru|rdpkru|wrpkru|hreset|enqcmds?|movdir64b|movdiri|ptwrite)$/, 'not announced by cpuid'],
  [/^(setssbsy|clrssbsy|saveprevssp|rstorssp|incsspd|wrss|wrus)/, 'shadow stacks'],
  [/^(uiret|testui|clui|stui|senduipi|umonitor|umwait|tpause|monitorx|mwaitx|mcommit|clzero|clwb)$/, 'not announced by cpuid'],
  [/^(bnd|montmul|x(sha|store|crypt))/, 'MPX, PadLock'],
  [/^(extrq|insertq|movnts[sd]|llwpcb|slwpcb|lwp(ins|val)|bl[cs]|t1mskc|tzmsk|bextr$)/, 'AMD extensions: SSE4a, LWP, TBM'],
  [/^(v|k|t(dp|ile)|ldtilecfg|sttilecfg|cmp.*xadd$)/, 'AVX (unless asked for), AVX-512, AMX'],
  [/^(sha|aes|encodekey|loadiwkey|gf2p8|pclmul)/, 'cryptography'],
]; // prettier-ignore

export type X86Coverage =
  { readonly kind: 'executed'; readonly name: string } | { readonly kind: 'stops'; readonly reason: string };

/** True when the row works on MMX registers in this form. */
const isMmx = (operands: readonly X86Operand[]): boolean =>
  operands.some((each) => each.kind === 'other' && /^[PQN]$/.test(each.code));

const STRING_ROW = /^(movs|stos|lods|cmps|scas)[bwdq]$/;

/** What is executed only by a processor with AVX. */
const AVX_ONLY = new Map<string, Lift>([
  ['xsave', extendedState('xsave')],
  ['xrstor', extendedState('xrstor')],
  ['xgetbv', helper('xgetbv')],
]);

/** The semantics of a row; null: it stops with its name. */
function semanticsOf(row: OpcodeRow, encoding: X86Instruction['encoding'], avx: boolean): Lift | null {
  const name = row.mnemonics[1];
  if (encoding === 'vex') {
    if (VEX_GENERAL.has(name)) return SEMANTICS.get(name) ?? null;
    return avx ? vexSemantics(row, (each) => SEMANTICS.get(each)) : null;
  }
  if (avx && encoding === 'legacy' && AVX_ONLY.has(name)) return AVX_ONLY.get(name)!;
  if (encoding !== 'legacy') return null;
  const string = STRING_ROW.exec(name);
  if (string && row.operands.some((each) => /^[XY]/.test(each))) return STRINGS[string[1]!] ?? null;
  return SEMANTICS.get(name) ?? null;
}

interface Meaning {
  /** null: it stops with its name. */
  readonly emit: Lift | null;
  /** The same of the form on MMX registers; undefined: it has none. */
  readonly mmx: Lift | null | undefined;
  /** It has that form alone. */
  readonly isMmx: boolean;
}

/** Of rows whose registers are those of MMX without 66, the others with it. */
const ANY_SIZE_PREFIX = 3;

/** Without AVX, and with it. Every row has one encoding. */
const meanings = [new Map<OpcodeRow, Meaning>(), new Map<OpcodeRow, Meaning>()] as const;

function meaningOf(row: OpcodeRow, encoding: X86Instruction['encoding'], avx: boolean): Meaning {
  const own = meanings[avx ? 1 : 0];
  const known = own.get(row);
  if (known) return known;
  const hasMmx = row.operands.some((each) => /^[PQN]/.test(each));
  const isMmx = hasMmx && row.prefixMask !== ANY_SIZE_PREFIX;
  const mmx = hasMmx ? mmxSemantics(row) : undefined;
  const made: Meaning = { emit: semanticsOf(row, encoding, avx), mmx, isMmx };
  own.set(row, made);
  return made;
}

/** Whether a row is executed, and why not: for the table of coverage. */
export function x86Coverage(row: OpcodeRow, encoding: X86Instruction['encoding'], mmx: boolean): X86Coverage {
  const name = row.mnemonics[1];
  const code = row.operands.join();
  // Rows whose semantics refuse all their operands.
  const refused = name === 'mov' ? code === 'Sw,Ew' : (name === 'push' || name === 'pop') && /^[FG]S$/.test(code);
  const semantics = mmx ? mmxSemantics(row) : semanticsOf(row, encoding, false);
  if (!refused && semantics) return { kind: 'executed', name };
  const reason = WITHOUT.find(([pattern]) => pattern.test(name));
  return { kind: 'stops', reason: reason ? reason[1] : 'vectors' };
}

// ----------------------------------------------------------------------------------------- helpers

/** Source: Intel SDM volume 2, CRC32: the polynomial 11edc6f41 with bits reversed. */
function crc32c(crc: number, byte: number): number {
  let value = crc ^ byte;
  for (let i = 0; i < 8; i++) value = (value >>> 1) ^ (value & 1 ? 0x82f6_3b78 : 0);
  return value >>> 0;
}

const formatOf = (isDouble: boolean): Format => (isDouble ? BINARY64 : BINARY32);

/** Exceptions that are found before there is a result: invalid, denormal, division by zero. */
const EARLY_EXCEPTIONS = 7;

/**
 * Notes exceptions; where one is not masked the instruction raises it and does nothing else. Those
 * of a result are not found then, where one that is found earlier is not masked.
 */
function raises(state: HelperState, flags: number): boolean {
  const mxcsr = state.get(MXCSR) ^ MXCSR_INITIAL;
  const endsEarly = isUnmasked(Number(mxcsr), flags & EARLY_EXCEPTIONS);
  setMxcsr(state, mxcsr | BigInt(endsEarly ? flags & EARLY_EXCEPTIONS : flags));
  return isUnmasked(Number(mxcsr), flags);
}

/** Exceptions of x87 that are noted and not masked. */
export const x87Raised = (state: HelperState): number =>
  Number(state.get(FSW) & ~(state.get(FCW) ^ FCW_INITIAL) & X87_EXCEPTIONS);
const FLOAT_EXCEPTION = { kind: 'trap', trap: 'divide' } as const satisfies HelperResult;
const sseOf = (state: HelperState): SseFloat => new SseFloat(Number(state.get(MXCSR) ^ MXCSR_INITIAL));
const lowOf = (of: Format, value: bigint): bigint => (of === BINARY64 ? value : value & 0xffff_ffffn);

const FLOAT_HELPERS: Readonly<Record<string, Helper>> = {
  floatflags: (state, argument) => {
    const of = formatOf((argument & 16) !== 0);
    const [a, b] = [XMM[argument & 15]!, VECTOR].map((slot) => lowOf(of, state.get(slot)));
    const { relation, flags } = sseOf(state).compare(of, a!, b!, (argument & 32) !== 0);
    if (raises(state, flags)) return FLOAT_EXCEPTION;
    const bits = { unordered: FLAG.zf | FLAG.pf | FLAG.cf, greater: 0n, less: FLAG.cf, equal: FLAG.zf }[relation];
    setStatus(state, bits);
    return { kind: 'next' };
  },
  floattointeger: (state, argument) => {
    const of = formatOf((argument & 16) !== 0);
    const value = lowOf(of, state.get(VECTOR));
    const { bits, flags } = sseOf(state).toInteger(of, value, (argument & 32) !== 0 ? 64 : 32, (argument & 64) !== 0);
    if (raises(state, flags)) return FLOAT_EXCEPTION;
    state.set(GPR[argument & 15]!, bits);
    return { kind: 'next' };
  },
};

const isPending = (state: HelperState): boolean => (state.get(FSW) & PENDING) !== 0n;

/** The registers are those of MMX: none is empty, the top is the first. */
function enterMmx(state: HelperState): void {
  state.set(FSW, state.get(FSW) & ~X87_TOP);
  state.set(FTW, 0xffn);
}

const VECTOR_HELPERS: Readonly<Record<string, Helper>> = {
  /** The same with up to 16 bytes of the result stored. Argument: `VECTOR_FIELDS`. */
  vectortomemory: (state, argument) => {
    const isWide = (argument & VECTOR_FIELDS.wide) !== 0;
    const at = state.get(ARGUMENT);
    const bytes = isWide ? 16 : 8;
    const address = state.memory.check(at, bytes, 'write');
    if (address !== null) return { kind: 'fault', address, access: 'write' };
    const operands: VectorOperands = {
      width: isWide ? 256 : 128,
      a: 0n,
      b: wholeOf(state, VECTOR) | (isWide ? wholeOf(state, HIGH_VECTOR) << 128n : 0n),
      c: 0n,
      control: (argument >> VECTOR_FIELDS.control) & 255,
      sse: sseOf(state),
      flags: 0,
    };
    const value = runVectorOperation(argument & 255, operands);
    if (raises(state, operands.flags)) return FLOAT_EXCEPTION;
    state.memory.write(at, bytesOf(value, bytes));
    return { kind: 'next' };
  },
  /** Argument: `VECTOR_FIELDS`. */
  vector: (state, argument) => {
    const isToMmx = (argument & VECTOR_FIELDS.toMmx) !== 0;
    const enters = (argument & VECTOR_FIELDS.entersMmx) !== 0;
    if (enters && isPending(state)) return FLOAT_EXCEPTION;
    const target = (argument >> VECTOR_FIELDS.target) & 15;
    const isWide = (argument & VECTOR_FIELDS.wide) !== 0;
    const whole = (low: Slot, high: Slot): bigint => wholeOf(state, low) | (isWide ? wholeOf(state, high) << 128n : 0n);
    const register = (number: number): bigint =>
      isToMmx ? state.get(FPR[number]!) : whole(XMM[number]!, YMM[number]!);
    const operands: VectorOperands = {
      width: isToMmx ? 64 : isWide ? 256 : 128,
      a: register(isToMmx ? target : (argument >> VECTOR_FIELDS.first) & 15),
      b: whole(VECTOR, HIGH_VECTOR),
      c: register(target),
      control: (argument >> VECTOR_FIELDS.control) & 255,
      sse: sseOf(state),
      flags: 0,
    };
    const value = runVectorOperation(argument & 255, operands);
    if (raises(state, operands.flags)) return FLOAT_EXCEPTION;
    if (isToMmx) setWhole(state, FPR[target]!, value | (MMX_UPPER << 64n));
    else setWhole(state, XMM[target]!, value);
    if ((argument & (VECTOR_FIELDS.clears | VECTOR_FIELDS.wide)) !== 0) setWhole(state, YMM[target]!, value >> 128n);
    if (enters) enterMmx(state);
    return { kind: 'next' };
  },
  /** Argument: as of the lift. */
  texts: (state, argument) => {
    const control = argument & 255;
    const [isExplicit, isLong, isMask] = [1, 2, 4].map((bit) => ((argument >> 12) & bit) !== 0);
    const [a, b] = [wholeOf(state, XMM[(argument >> 8) & 15]!), wholeOf(state, VECTOR)];
    const width = (control & 1) !== 0 ? 16 : 8;
    const most = 128 / width;
    const lengthIn = (slot: Slot): number => {
      const value = BigInt.asIntN(isLong ? 64 : 32, state.get(slot));
      const length = value < 0n ? -value : value;
      return length > BigInt(most) ? most : Number(length);
    };
    const lengthOf = (text: bigint): number => {
      for (let i = 0; i < most; i++) if (BigInt.asUintN(width, text >> BigInt(i * width)) === 0n) return i;
      return most;
    };
    const lengths = isExplicit ? ([lengthIn(RAX), lengthIn(RDX)] as const) : ([lengthOf(a), lengthOf(b)] as const);
    const { bits, count } = compareTexts(a, b, control, lengths);
    if (isMask) {
      let mask = BigInt(bits);
      if ((control & 0x40) !== 0) {
        mask = 0n;
        for (let i = 0; i < count; i++)
          if (((bits >> i) & 1) !== 0) mask |= ((1n << BigInt(width)) - 1n) << BigInt(i * width);
      }
      setWhole(state, XMM[0]!, mask);
    } else {
      const place = (control & 0x40) !== 0 ? 31 - Math.clz32(bits) : 31 - Math.clz32(bits & -bits);
      state.set(RCX, BigInt(bits === 0 ? count : place));
    }
    const flag = (holds: boolean, which: bigint): bigint => (holds ? which : 0n);
    setStatus(
      state,
      flag(bits !== 0, FLAG.cf) |
        flag(lengths[1] < most, FLAG.zf) |
        flag(lengths[0] < most, FLAG.sf) |
        flag((bits & 1) !== 0, FLAG.of),
    );
    return { kind: 'next' };
  },
  /** Argument: numbers of data and mask; 256 for registers of MMX. */
  maskmove: (state, argument) => {
    const isOfMmx = (argument & 256) !== 0;
    if (isOfMmx && isPending(state)) return FLOAT_EXCEPTION;
    const registers = isOfMmx ? FPR : XMM;
    const [data, mask] = [argument & 15, (argument >> 4) & 15].map((each) => wholeOf(state, registers[each]!));
    const chosen = Array.from({ length: isOfMmx ? 8 : 16 }, (_, i) => i).filter(
      (i) => ((mask! >> BigInt(8 * i + 7)) & 1n) === 1n,
    );
    const at = (i: number): Address => BigInt.asUintN(64, state.get(ARGUMENT) + BigInt(i));
    for (const i of chosen) {
      const address = state.memory.check(at(i), 1, 'write');
      if (address !== null) return { kind: 'fault', address, access: 'write' };
    }
    for (const i of chosen) state.memory.write(at(i), Uint8Array.of(Number((data! >> BigInt(8 * i)) & 255n)));
    if (isOfMmx) enterMmx(state);
    return { kind: 'next' };
  },
};

/** The state of x87 in its slots, with the operand at `at`. */
class X87Slots implements X87State {
  control: number;
  status: number;
  tags: number;
  pointers: X87State['pointers'];
  readonly registers: X87State['registers'] = this;
  readonly memory: X87State['memory'];

  constructor(
    private readonly state: HelperState,
    at: Address,
  ) {
    this.control = Number(state.get(FCW) ^ FCW_INITIAL);
    this.status = Number(state.get(FSW));
    this.tags = Number(state.get(FTW));
    this.pointers = { opcode: Number(state.get(FOP)), instruction: state.get(FIP), operand: state.get(FDP) };
    this.memory = {
      read: (bytes) => numberIn(state.memory.read(at, bytes)!),
      write: (bytes, value) => {
        state.memory.write(at, bytesOf(value, bytes));
      },
    };
  }

  /** Few instructions ask for the status flags, which are kept as what they come from. */
  get flags(): number {
    return Number(statusOf(this.state));
  }

  set flags(value: number) {
    setStatus(this.state, BigInt(value));
  }

  get(number: number): bigint {
    return this.state.get(FPR[number]!) | (this.state.get(FPR[number]!, 1) << 64n);
  }

  set(number: number, value: bigint): void {
    this.state.set(FPR[number]!, BigInt.asUintN(64, value));
    this.state.set(FPR[number]!, value >> 64n, 1);
  }

  /** Writes back what may have changed. */
  settle(): void {
    const { state, pointers } = this;
    state.set(FCW, BigInt(this.control) ^ FCW_INITIAL);
    state.set(FSW, BigInt(this.status));
    state.set(FTW, BigInt(this.tags));
    state.set(FOP, BigInt(pointers.opcode));
    state.set(FIP, pointers.instruction);
    state.set(FDP, pointers.operand);
  }
}

/** Argument: as of the lift. */
const executeX87: Helper = (state, argument) => {
  const [opcode, modRm] = [(argument >> 8) & 7, argument & 255];
  const reg = (modRm >> 3) & 7;
  const size = (argument & 0x800) !== 0 ? 2 : 4;
  const at = state.get(ARGUMENT);
  if (!isX87Unwaiting(opcode, modRm) && (state.get(FSW) & PENDING) !== 0n) return FLOAT_EXCEPTION;
  const isMemory = modRm < 0xc0;
  if (isMemory) {
    const { bytes, access } = x87Access(opcode, reg, size);
    const address = state.memory.check(at, bytes, access);
    if (address !== null) return { kind: 'fault', address, access };
  }
  const unit = new X87Slots(state, at);
  if (!isX87Control(opcode, modRm)) {
    const operand = isMemory ? at : unit.pointers.operand;
    unit.pointers = { opcode: argument & 0x7ff, instruction: state.pc, operand };
  }
  const instruction = new X87(unit);
  if (isMemory) instruction.withMemory(opcode, reg, size);
  else instruction.withRegisters(opcode, modRm);
  unit.settle();
  return { kind: 'next' };
};

const announces =
  (level: X86Level): Helper =>
  (state) => {
    const values = cpuid(level, state.get(RAX) & 0xffff_ffffn, state.get(RCX) & 0xffff_ffffn);
    [RAX, RBX, RCX, RDX].forEach((slot, i) => {
      state.set(slot, values[i]!);
    });
    return { kind: 'next' };
  };

const HELPERS: Readonly<Record<string, Helper>> = {
  ...FLOAT_HELPERS,
  ...VECTOR_HELPERS,
  ...VEX_HELPERS,
  ...EXTENDED_HELPERS,
  x87: executeX87,
  cpuid: announces('x86-64'),
  /** To the same privilege level: the selectors must be those of user mode. */
  iret: (state) => {
    const at = state.get(RSP);
    const bad = state.memory.check(at, 40, 'read');
    if (bad !== null) return { kind: 'fault', address: bad, access: 'read' };
    const bytes = state.memory.read(at, 40)!;
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const [pc, cs, flags, sp, ss] = [0, 8, 16, 24, 32].map((place) => view.getBigUint64(place, true));
    if ((cs! & 0xffffn) !== SELECTORS[1] || (ss! & 0xffffn) !== SELECTORS[2])
      return { kind: 'trap', trap: 'protection' };
    if ((flags! & FLAG.tf) !== 0n) return { kind: 'trap', trap: 'breakpoint' };
    writeRflags(state, flags!);
    state.set(RSP, sp!);
    return { kind: 'goto', pc: pc! };
  },
  /** Argument 1: `rdtscp`, which gives the number of the processor too: 0. */
  rdtsc: (state, argument) => {
    state.set(RAX, state.time & 0xffff_ffffn);
    state.set(RDX, BigInt.asUintN(32, state.time >> 32n));
    if (argument === 1) state.set(RCX, 0n);
    return { kind: 'next' };
  },
  /** Argument: bytes of the divisor, 16 for signed numbers. */
  divide: (state, argument) => {
    const bytes = argument & 15;
    const bits = 8 * bytes;
    const signed = (argument & 16) !== 0;
    const take = (value: bigint, width: number): bigint =>
      signed ? BigInt.asIntN(width, value) : BigInt.asUintN(width, value);
    const divisor = take(state.get(ARGUMENT), bits);
    if (divisor === 0n) return { kind: 'trap', trap: 'divide' };
    const rax = state.get(RAX);
    const rdx = state.get(RDX);
    const low = BigInt.asUintN(bits, rax);
    const dividend = bytes === 1 ? take(rax, 16) : take((rdx << BigInt(bits)) | low, 2 * bits);
    const quotient = dividend / divisor;
    if (take(quotient, bits) !== quotient) return { kind: 'trap', trap: 'divide' };
    const remainder = dividend % divisor;
    const part = (value: bigint): bigint => BigInt.asUintN(bits, value);
    switch (bytes) {
      case 1:
        state.set(RAX, (rax & ~0xffffn) | (part(remainder) << 8n) | part(quotient));
        break;
      case 2:
        state.set(RAX, (rax & ~0xffffn) | part(quotient));
        state.set(RDX, (rdx & ~0xffffn) | part(remainder));
        break;
      default:
        state.set(RAX, part(quotient));
        state.set(RDX, part(remainder));
    }
    return { kind: 'next' };
  },
  /** Argument: bytes of the source, number of the target register. */
  crc32: (state, argument) => {
    const slot = GPR[argument >> 4]!;
    let crc = Number(state.get(slot) & 0xffff_ffffn);
    const source = state.get(ARGUMENT);
    for (let i = 0; i < (argument & 15); i++) crc = crc32c(crc, Number((source >> BigInt(8 * i)) & 0xffn));
    state.set(slot, BigInt(crc));
    return { kind: 'next' };
  },
};

// --------------------------------------------------------------------------------------- front end

/** A block ends when it has this many ops, so that its records are bounded. */
const MAX_OPS = 300;

function lift(avx: boolean, code: Uint8Array, address: Address, limits: LiftLimits): Block {
  const builder = new BlockBuilder(SLOTS, address);
  const x = new Lifting(builder);
  x.synchronises = limits.synchronises === true;
  x.slow = limits.slow === true;
  x.tracksBranches = limits.guarded !== undefined;
  const isGuarded = limits.guarded?.(address) === true;
  const { instruction } = x;
  let pc = address;
  for (let offset = 0; ;) {
    const full = builder.count >= limits.maxInstructions || builder.size >= MAX_OPS;
    if (builder.count > 0 && (full || limits.startsAt(pc))) return builder.finish(pc, { kind: 'jmp', pc });
    const left = code.length - offset;
    if (decodeInto(instruction, code, offset) === 0) {
      // Too few bytes: would more make an instruction of them? The view may end before the window
      // does; a block of its own decides.
      if (left < MAX_INSTRUCTION_BYTES) {
        if (builder.count > 0) return builder.finish(pc, { kind: 'jmp', pc });
        const padded = new Uint8Array(MAX_INSTRUCTION_BYTES);
        padded.set(code.subarray(offset));
        if (left <= 0 || decodeInto(instruction, padded, 0) > left) return builder.finish(pc, { kind: 'fetch' });
      }
      return builder.finish(pc, { kind: 'unknown', mnemonic: null, sizeBytes: 1 });
    }
    x.pc = pc;
    x.next = BigInt.asUintN(64, pc + BigInt(instruction.sizeBytes));
    x.operands = operandsOf(instruction, code, offset, pc);
    x.vex = instruction.encoding === 'vex';
    const meaning = meaningOf(instruction.row!, instruction.encoding, avx);
    const { mmx } = meaning;
    const emit = mmx !== undefined && (meaning.isMmx || isMmx(x.operands)) ? mmx : meaning.emit;
    builder.begin(pc);
    if (offset === 0 && x.tracksBranches) {
      if (isGuarded && instruction.mnemonic !== 'endbr64') builder.check('checkcontrol', TRACKER, 1n);
      builder.mov(TRACKER, 0n);
    }
    const { size } = builder;
    const terminator = emit ? emit(x) : UNKNOWN;
    if (terminator?.kind === 'unknown') {
      if (builder.size !== size) throw new ElftraceError('internal', `${instruction.mnemonic} stops too late`);
      builder.cancel();
      return builder.finish(pc, {
        kind: 'unknown',
        mnemonic: instruction.mnemonic,
        sizeBytes: instruction.sizeBytes,
      });
    }
    offset += instruction.sizeBytes;
    pc = x.next;
    if (terminator) return builder.finish(pc, terminator);
  }
}

export const x86Lifter: Lifter = {
  addressBits: 64,
  codeAlignBytes: 1,
  stackPointer: { slot: RSP, popped: 8n },
  lanes: true,
  floats: true,
  x87: true,
  endian: 'little',
  slots: SLOTS,
  registers: REGISTERS,
  helpers: HELPERS,
  fetch: { ownStores: true, synchronising: new Set(['cpuid', 'iret']) },
  /** `syscall` leaves the address behind it in rcx and RFLAGS in r11. */
  afterSyscall: (state, next) => {
    state.set(RCX, next);
    state.set(R11, readRflags(state));
  },
  lift: (code, address, limits) => lift(false, code, address, limits),
};

/**
 * The front end of a processor of this level: `cpuid` differs, and whether AVX is executed, with
 * its registers.
 */
export const x86LifterOf = (level: X86Level): Lifter => ({
  ...x86Lifter,
  helpers: { ...HELPERS, cpuid: announces(level) },
  ...(hasAvx(level)
    ? { registers: AVX_REGISTERS, lift: (code, address, limits) => lift(true, code, address, limits) }
    : {}),
});
