/**
 * Whether the engine multiplies and adds in one rounding. `relaxed_madd` of WebAssembly does where
 * processor and engine can, and rounds twice elsewhere; within one process it is always the same.
 * The engine is asked by an example.
 *
 * Source: the proposal for relaxed SIMD of WebAssembly; V8 11 (Node 20) has it behind an option.
 */
import { I32 } from '../machine/ir.js';
import { FLOAT_OPS } from '../machine/float-ops.js';
import { compileModule, instantiate } from './host.js';
import type { HostMemory } from './host.js';
import { Code, writeModule } from './wasm.js';

/** (1 + x)(1 - x) - 1 is -x^2, and 0 where the product is rounded to 1. */
const EXAMPLES = [
  { row: FLOAT_OPS.fma64, x: 2 ** -30, constant: 0x44, equal: 0x61 },
  { row: FLOAT_OPS.fma32, x: 2 ** -13, constant: 0x43, equal: 0x5b },
] as const;

/** Bytes of a constant. */
function constantOf(opcode: number, value: number): readonly number[] {
  const numbers = opcode === 0x44 ? Float64Array.of(value) : Float32Array.of(value);
  return [opcode, ...new Uint8Array(numbers.buffer)];
}

/** Whether it does; on what memory it is asked makes no difference. Takes 0.1 ms. */
export function fusesMultiplyAdd(host: HostMemory): boolean {
  const code = new Code();
  for (const { row, x, constant, equal } of EXAMPLES) {
    if (!row.inOne) return false;
    for (const operand of [1 + x, 1 - x, -1]) code.raw(constantOf(constant, operand)).raw(row.inOne.each);
    code
      .raw(row.inOne.both)
      .raw(constantOf(constant, -x * x))
      .op(equal);
  }
  code.op(I32.and);
  const bytes = writeModule([{ parameters: [], results: ['i32'], locals: [], code, export: 'fuses' }]);
  try {
    const { fuses } = instantiate(compileModule(bytes), host);
    return typeof fuses === 'function' && fuses() === 1;
  } catch {
    // An engine that does not know the instruction.
    return false;
  }
}
