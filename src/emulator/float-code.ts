/**
 * What both tiers emit for a row of floating point: the operation, and what leaves the block where
 * it must not decide. The functions that rows call are in `float-functions.ts`.
 */
import { I32, I64 } from '../machine/ir.js';
import type { FloatFunction, FloatRow } from '../machine/float-ops.js';
import { FLOAT_MODE } from '../machine/float-ops.js';
import { LANE } from '../machine/packed-float-ops.js';
import type { Code, ValueType } from './wasm.js';

const F64 = { eq: 0x61, promote: 0xbb, demote: 0xb6, bits: 0xbd } as const;

/** What a tier provides for one op. */
export interface FloatPlace {
  readonly code: Code;
  /** Pushes an operand as the slot holds it. */
  push(operand: number): void;
  pushMode(): void;
  /** A local for a result of this type. */
  scratch(type: ValueType): number;
  call(name: FloatFunction): void;
  /** Whether `inOne` of rows is executed as it says (`fused.ts`). */
  readonly fuses: boolean;
  /** Leaves before the instruction when the i32 on the stack is 0. */
  demand(): void;
}

/** Pushes all operands; behind each the bytes of the row, and these. */
function pushOperands(row: FloatRow, { code, push }: FloatPlace, after: readonly number[] = []): void {
  for (let i = 0; i < row.operands; i++) {
    push(i);
    code.raw(row.each).raw(after);
  }
}

/** Computes into a local, whose number is returned. */
function emitResult(row: FloatRow, place: FloatPlace, inOne: FloatRow['inOne']): number {
  const { code } = place;
  const result = place.scratch(row.result);
  if (row.lanes && row.call !== undefined && !inOne) {
    callForLanes(row, place, row.call);
  } else {
    pushOperands(row, place, inOne?.each);
    if (inOne) code.raw(inOne.both);
    else if (row.call !== undefined) {
      if (row.callHasMode) place.pushMode();
      place.call(row.call);
    }
    code.raw(row.both);
  }
  code.set(result);
  return result;
}

/** Leaves before the instruction where the result raises what is not raised yet. */
function emitSettled(row: FloatRow, place: FloatPlace, result: number, settled: readonly number[]): void {
  const { code, pushMode, demand } = place;
  if (row.clean === null) {
    if (settled.length === 0) return;
    code.get(result).raw(settled);
    demand();
    return;
  }
  pushMode();
  code.i64(FLOAT_MODE.inexact).op(I64.eq);
  if (settled.length > 0) code.get(result).raw(settled).op(I32.and);
  code.op(I32.eqz).rarely().if();
  if (row.lanes) {
    askForLanes(row, place, result);
  } else {
    pushOperands(row, place);
    code.get(result);
    pushMode();
    place.call(row.rounds ?? row.clean);
    // What is decided is a number.
    if (row.rounds) code.set(result).get(result).get(result).op(F64.eq);
    demand();
  }
  code.end();
}

/** Emits an op; the result, as the slot of the row's type `d` holds it, is left on the stack. */
export function emitFloat(row: FloatRow, place: FloatPlace): void {
  const { code, push, demand } = place;
  const inOne = place.fuses ? row.inOne : undefined;
  const result = emitResult(row, place, inOne);
  emitSettled(row, place, result, inOne?.settled ?? row.settled);
  if (row.boxed) {
    for (let i = 0; i < row.operands; i++) {
      push(i);
      code.op(F64.bits);
      if (i > 0) code.op(I64.and);
    }
    code.i64(32n).op(I64.sar).i64(-1n).op(I64.eq);
    demand();
  }
  if (row.widened) {
    for (let i = 0; i < row.operands; i++) {
      push(i);
      push(i);
      code.op(F64.demote).op(F64.promote).op(F64.eq);
      if (i > 0) code.op(I32.and);
    }
    demand();
  }
  if (row.domain.length > 0) {
    pushOperands(row, place);
    code.raw(row.domain);
    demand();
  }
  code.get(result).raw(row.after);
}

/** Pushes operand `i` of one lane. */
function pushLane({ lanes }: FloatRow, { code, push }: FloatPlace, i: number, lane: number): void {
  push(i);
  code.raw([0xfd, LANE[lanes!.width].get, lane]);
}

const lanesOf = ({ lanes }: FloatRow): readonly number[] => (lanes!.width === 64 ? [0, 1] : [0, 1, 2, 3]);

/** Pushes a vector of what a function makes of each lane. */
function callForLanes(row: FloatRow, place: FloatPlace, name: FloatFunction): void {
  const { code, call } = place;
  place.push(0);
  for (const lane of lanesOf(row)) {
    for (let i = 0; i < row.operands; i++) pushLane(row, place, i, lane);
    call(name);
    code.raw([0xfd, LANE[row.lanes!.width].set, lane]);
  }
}

/** Leaves before the instruction unless each lane is settled, or its function says it is exact. */
function askForLanes(row: FloatRow, place: FloatPlace, result: number): void {
  const { code, pushMode, call, demand, fuses } = place;
  const { width, ...lanes } = row.lanes!;
  const settled = fuses && row.inOne ? lanes.settledInOne : lanes.settled;
  const pushResult = (lane: number): void => {
    code.get(result).raw([0xfd, LANE[width].get, lane]);
  };
  for (const lane of lanesOf(row)) {
    pushResult(lane);
    code.raw(settled);
    pushMode();
    code.i64(FLOAT_MODE.inexact).op(I64.eq).op(I32.and).if('i32');
    code.i32(1).else();
    for (let i = 0; i < row.operands; i++) pushLane(row, place, i, lane);
    pushResult(lane);
    pushMode();
    call(row.clean!);
    code.end();
    demand();
  }
}
