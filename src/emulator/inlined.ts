/**
 * Functions that ops call (`functions.ts`) and that compiled code has where it uses them: a call
 * costs more than they do, for it takes all registers of the processor.
 */
import { I64 } from '../machine/ir.js';
import type { FunctionName } from '../machine/ir.js';
import type { Code } from './wasm.js';

/** Where code of a function finds its operands and locals: in the function, or where it is used. */
export interface OperandPlace {
  readonly code: Code;
  push(operand: 0 | 1): void;
  /** A local, from 0 on. */
  local(index: number): number;
}

/** Upper half of the unsigned product by four products of 32-bit halves; leaves it on the stack. */
function highProduct({ code, push, local }: OperandPlace): void {
  const mask = 0xffff_ffffn;
  const low = (): Code => code.i64(mask).op(I64.and);
  const high = (): Code => code.i64(32n).op(I64.shr);
  // x = a1*b0 + (a0*b0 >> 32), y = a0*b1 + (x & mask); result = a1*b1 + (x >> 32) + (y >> 32)
  const [first, second] = [local(0), local(1)];
  push(0);
  low();
  push(1);
  low().op(I64.mul).set(first);
  push(0);
  high();
  push(1);
  low().op(I64.mul).get(first);
  high().op(I64.add).set(first);
  push(0);
  low();
  push(1);
  high().op(I64.mul).get(first);
  low().op(I64.add).set(second);
  push(0);
  high();
  push(1);
  high().op(I64.mul).get(first);
  high().op(I64.add).get(second);
  high().op(I64.add);
}

/** Opcode of a division, and what it is. */
interface Division {
  readonly opcode: number;
  readonly signed: boolean;
  readonly remainder: boolean;
}

/** x / 0 gives 0, x % 0 gives x; for signed, x / -1 avoids the one quotient that traps. */
const division =
  ({ opcode, signed, remainder }: Division) =>
  ({ code, push }: OperandPlace): void => {
    push(1);
    if (signed) code.i64(1n).op(I64.add).i64(2n).op(I64.ltu);
    else code.op(I64.eqz);
    code.rarely().if('i64');
    // The divisor has no bits, or all.
    if (!remainder) code.i64(0n);
    push(0);
    if (!remainder) code.op(I64.sub);
    push(1);
    if (remainder) code.i64(-1n).op(I64.xor);
    code.op(I64.and);
    code.else();
    push(0);
    push(1);
    code.op(opcode).end();
  };

/** signed = unsigned - (a < 0 ? b : 0) - (b < 0 ? a : 0) */
function signedHighProduct(place: OperandPlace): void {
  const { code, push } = place;
  highProduct(place);
  for (const operand of [0, 1] as const) {
    push(operand);
    code.i64(63n).op(I64.sar);
    push(operand === 0 ? 1 : 0);
    code.op(I64.and).op(I64.sub);
  }
}

/** Locals that they use at most. */
export const INLINED_LOCALS = 2;
export const INLINED = {
  mulhu: highProduct,
  mulhs: signedHighProduct,
  divs: division({ opcode: I64.divs, signed: true, remainder: false }),
  divu: division({ opcode: I64.divu, signed: false, remainder: false }),
  rems: division({ opcode: I64.rems, signed: true, remainder: true }),
  remu: division({ opcode: I64.remu, signed: false, remainder: true }),
} as const satisfies Partial<Record<FunctionName, (place: OperandPlace) => void>>;
export type InlinedName = keyof typeof INLINED;

export const isInlined = (name: FunctionName): name is InlinedName => name in INLINED;
