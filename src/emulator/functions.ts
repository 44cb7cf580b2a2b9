/**
 * The WebAssembly functions that ops call (`FunctionName` of the op table): what needs locals or is long. A module gets
 * the ones it uses.
 */
import { I32, I64, OPS, OP_NAMES, RECORD_KINDS } from './ir.js';
import type { FunctionName, RecordTest, CONDITIONS } from './ir.js';
import { Code } from './wasm.js';
import type { ValueType, WasmFunction } from './wasm.js';

function binary(locals: number, write: (code: Code) => void): WasmFunction {
  const code = new Code();
  write(code);
  const names: ValueType[] = [];
  for (let i = 0; i < locals; i++) names.push('i64');
  return { parameters: ['i64', 'i64'], results: ['i64'], locals: names, code };
}

/** Upper half of the unsigned product by four products of 32-bit halves; leaves it on the stack. Uses locals 2 to 5. */
function highProduct(code: Code): void {
  const low = (local: number): void => {
    code.get(local).i64(0xffff_ffffn).op(I64.and);
  };
  const high = (local: number): void => {
    code.get(local).i64(32n).op(I64.shr);
  };
  // 2 = a0*b0, 3 = a1*b0 + (2 >> 32), 4 = a0*b1 + (3 & mask); result = a1*b1 + (3 >> 32) + (4 >> 32)
  low(0);
  low(1);
  code.op(I64.mul).set(2);
  high(0);
  low(1);
  code.op(I64.mul);
  high(2);
  code.op(I64.add).set(3);
  low(0);
  high(1);
  code.op(I64.mul);
  low(3);
  code.op(I64.add).set(4);
  high(0);
  high(1);
  code.op(I64.mul);
  high(3);
  code.op(I64.add);
  high(4);
  code.op(I64.add);
}

/** x / 0 gives `zero`; for signed, x / -1 avoids the one quotient that traps. */
function division(opcode: number, signed: boolean, remainder: boolean): WasmFunction {
  return binary(0, (code) => {
    code.get(1).op(I64.eqz).if();
    if (remainder) code.get(0);
    else code.i64(0n);
    code.return().end();
    if (signed) {
      code.get(1).i64(-1n).op(I64.eq).if();
      if (remainder) code.i64(0n);
      else code.i64(0n).get(0).op(I64.sub);
      code.return().end();
    }
    code.get(0).get(1).op(opcode);
  });
}

/** Record tests: parameters K, A, B. */
function recordTest(test: RecordTest): WasmFunction {
  const code = new Code();
  for (const { code: kind, compare } of Object.values(RECORD_KINDS)) {
    code.get(0).i64(BigInt(kind)).op(I64.eq).if();
    if (compare === null) {
      const bit = { lt: 3n, gt: 2n, eq: 1n }[test];
      code.get(1).i64(bit).op(I64.shr).i64(1n).op(I64.and).return();
    } else {
      const name = test === 'eq' || compare.signed ? test : (`${test}u` as const);
      for (const local of [1, 2]) {
        code.get(local);
        if (compare.width === 32) code.op(I32.wrap);
      }
      code
        .op(compare.width === 32 ? I32[name] : I64[name])
        .op(I64.extendU)
        .return();
    }
    code.end();
  }
  code.unreachable();
  return { parameters: ['i64', 'i64', 'i64'], results: ['i64'], locals: [], code };
}

function build(name: FunctionName): WasmFunction {
  switch (name) {
    case 'mulhu':
      return binary(3, highProduct);
    case 'mulhs':
      // signed = unsigned - (a < 0 ? b : 0) - (b < 0 ? a : 0)
      return binary(3, (code) => {
        highProduct(code);
        code.get(0).i64(63n).op(I64.sar).get(1).op(I64.and).op(I64.sub);
        code.get(1).i64(63n).op(I64.sar).get(0).op(I64.and).op(I64.sub);
      });
    case 'divs':
      return division(I64.divs, true, false);
    case 'divu':
      return division(I64.divu, false, false);
    case 'rems':
      return division(I64.rems, true, true);
    case 'remu':
      return division(I64.remu, false, true);
    case 'sarlost':
      return binary(0, (code) => {
        code.get(0).i64(0n).op(I64.lt).op(I64.extendU);
        code.get(0).i64(-1n).get(1).op(I64.shl).i64(-1n).op(I64.xor).op(I64.and).i64(0n).op(I64.ne).op(I64.extendU);
        code.op(I64.and);
      });
    case 'testlt':
      return recordTest('lt');
    case 'testgt':
      return recordTest('gt');
    case 'testeq':
      return recordTest('eq');
    default:
      return name satisfies never;
  }
}

/** All functions that the op table calls, in a fixed order, for a module that holds every op. */
export function buildFunctions(): {
  readonly names: readonly FunctionName[];
  readonly functions: readonly WasmFunction[];
} {
  const names: FunctionName[] = [];
  for (const name of OP_NAMES) {
    const row = OPS[name];
    if ('call' in row && row.call !== undefined && !names.includes(row.call)) names.push(row.call);
  }
  return { names, functions: names.map(build) };
}

/** Opcode that compares two i32 or i64 values. */
export function compareOpcode(condition: (typeof CONDITIONS)[number], width: 32 | 64): number {
  return width === 32 ? I32[condition] : I64[condition];
}
