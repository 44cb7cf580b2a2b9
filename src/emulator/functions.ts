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
  for (const row of Object.values(RECORD_KINDS)) {
    if ('nzcv' in row) continue;
    const { code: kind, compare } = row;
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

/**
 * N, Z, C, V of a record with four slots, from the bits of its kind's code (`RECORD_KINDS`): parameters K, A, B, C. 32-bit operands
 * are moved to the upper half, where all four flags are those of 64 bits.
 */
function nzcvTest(): WasmFunction {
  const code = new Code();
  const [k, a, b, c, carry, result] = [0, 1, 2, 3, 4, 5];
  const bit = (number: number): void => {
    code
      .get(k)
      .i64(BigInt(1 << number))
      .op(I64.and)
      .i64(0n)
      .op(I64.ne);
  };
  code.get(k).op(I64.eqz).if();
  code.get(a).i64(15n).op(I64.and).return();
  code.end();
  bit(3);
  code.get(c).op(I32.wrap).i32(1).op(I32.and).op(I32.eqz).op(I32.and).if();
  code.get(c).i64(1n).op(I64.shr).i64(15n).op(I64.and).return();
  code.end();
  code.get(c).i64(1n).op(I64.and).set(carry);
  bit(0);
  code.if();
  for (const local of [a, b, carry]) code.get(local).i64(32n).op(I64.shl).set(local);
  code.end();
  code.get(k).i64(6n).op(I64.and).op(I64.eqz).if();
  // a - b: no borrow, and overflow where a and b have different signs and the result not that of a.
  code.get(a).get(b).op(I64.sub).set(result);
  code.get(a).get(b).op(I64.geu).op(I64.extendU).set(carry);
  code.get(a).get(b).op(I64.xor).get(a).get(result).op(I64.xor).op(I64.and).set(a);
  code.else();
  code.get(a).get(b).op(I64.add);
  code.get(carry).i64(0n);
  bit(2);
  code.select().op(I64.add).set(result);
  // Carry: both signs, or one of them and a result without.
  code.get(a).get(b).op(I64.and);
  code.get(a).get(b).op(I64.or).get(result).i64(-1n).op(I64.xor).op(I64.and);
  code.op(I64.or).i64(63n).op(I64.shr).set(carry);
  code.get(a).get(result).op(I64.xor).get(b).get(result).op(I64.xor).op(I64.and).set(a);
  code.end();
  code.get(result).i64(63n).op(I64.shr).i64(3n).op(I64.shl);
  code.get(result).op(I64.eqz).op(I64.extendU).i64(2n).op(I64.shl).op(I64.or);
  code.get(carry).i64(1n).op(I64.shl).op(I64.or);
  code.get(a).i64(63n).op(I64.shr).op(I64.or);
  return { parameters: ['i64', 'i64', 'i64', 'i64'], results: ['i64'], locals: ['i64', 'i64'], code };
}

/** `b` steps of a division with remainder by a reflected polynomial. */
function crcSteps(polynomial: bigint): WasmFunction {
  return binary(0, (code) => {
    code.get(1).i64(127n).op(I64.and).set(1);
    const done = code.block();
    const loop = code.loop();
    code.get(1).op(I64.eqz).brIf(done);
    code.get(0).i64(1n).op(I64.shr);
    code.i64(0n).get(0).i64(1n).op(I64.and).op(I64.sub).i64(polynomial).op(I64.and);
    code.op(I64.xor).set(0);
    code.get(1).i64(1n).op(I64.sub).set(1).br(loop);
    code.end();
    code.end();
    code.get(0);
  });
}

/** The bits of each byte in the other order. */
function reverseInBytes(): WasmFunction {
  const code = new Code();
  for (const [shift, mask] of [
    [1n, 0x5555_5555_5555_5555n],
    [2n, 0x3333_3333_3333_3333n],
    [4n, 0x0f0f_0f0f_0f0f_0f0fn],
  ] as const) {
    code.get(0).i64(shift).op(I64.shr).i64(mask).op(I64.and);
    code.get(0).i64(mask).op(I64.and).i64(shift).op(I64.shl).op(I64.or).set(0);
  }
  code.get(0);
  return { parameters: ['i64'], results: ['i64'], locals: [], code };
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
    case 'testnzcv':
      return nzcvTest();
    case 'crc32':
      return crcSteps(0xedb8_8320n);
    case 'crc32c':
      return crcSteps(0x82f6_3b78n);
    case 'reverseinbytes':
      return reverseInBytes();
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
