/**
 * Going from one tier to the other without TypeScript, which costs about a microsecond each time:
 * an interpreter's main function is compiled in part, and what it calls not at all, so that code
 * goes back and forth after every few instructions. Where code leads is found in the lookup tables
 * of both tiers; what is in neither, and every other stop, is left to TypeScript. That is also told
 * of each stay in compiled code that ends after `STAYS` others, and takes it for all of them.
 */
import { BLOCK_TABLE, CONTROL, REGION_TABLE } from './host.js';
import { reasonNumber } from './handlers.js';
import { readLookup, writeLookup } from './lookup-table.js';
import { I32, I64 } from '../machine/ir.js';
import { STOP } from './region-frames.js';
import { Code } from './wasm.js';
import type { ValueType, WasmFunction } from './wasm.js';

/** Stays in compiled code of which TypeScript is told once. */
export const STAYS = 32;
/** Runs of fewer instructions stay in tier 0: compiled code could not begin a loop with them. */
export const LEAST_COMPILED = 200;
/** What is returned for a stop of compiled code, less its number; less: a reason of tier 0. */
export const STOPPED = 64;

/**
 * `alternate(header i32, stack i32) -> i32`: executes tier 0 from a block header, and compiled code
 * where there is some, in turn. `CONTROL.left`, `own` and `stays` say how long; they are what is
 * left of it afterwards.
 *
 * @param enter  number of the function that enters regions
 * @param run  entry of the table that has tier 0's function, whose type is `runType`
 */
export function alternateFunction(enter: number, run: number, runType: number): WasmFunction {
  const code = new Code();
  const [header, stack, left, own, fuel, result, entry, address] = [0, 1, 2, 3, 4, 5, 6, 7];
  const place = entry;
  const store = (local: number, at: number): void => {
    code.i32(0).get(local).memory([I32.store], at);
  };
  code.i32(0).memory([I32.load], CONTROL.left).set(left);
  code.i32(0).memory([I32.load], CONTROL.own).set(own);
  const done = code.block();
  const loop = code.loop();
  // Tier 0.
  code.get(left).get(own).get(left).get(own).op(I32.lt).select().set(fuel);
  code.get(header).get(fuel).i32(run).callIndirect(runType).set(result);
  code.get(fuel).i32(0).memory([I32.load], CONTROL.fuel).op(I32.sub).set(fuel);
  code.get(left).get(fuel).op(I32.sub).set(left);
  code.get(own).get(fuel).op(I32.sub).set(own);
  code.get(result).i32(reasonNumber('untranslated')).op(I32.eq).if();
  code.i32(0).memory([I32.load], CONTROL.pointer).memory([I64.load], 8).set(address);
  code.else();
  code.get(result).i32(reasonNumber('lookup')).op(I32.ne).brIf(done);
  code.i32(0).memory([I64.load], CONTROL.value).set(address);
  code.end();
  code.get(left).i32(LEAST_COMPILED).op(I32.lt).brIf(done);
  writeLookup(code, REGION_TABLE, address, entry);
  code.op(I32.eqz).brIf(done);
  readLookup(code, REGION_TABLE, entry).tee(place).op(I32.eqz).brIf(done);
  // Compiled code.
  for (const at of [CONTROL.from, CONTROL.place]) code.i32(0).get(address).memory([I64.store], at);
  store(left, CONTROL.fuel);
  code.get(place).get(stack).call(enter).i32(STOPPED).op(I32.add).set(result);
  code.get(left).i32(0).memory([I32.load], CONTROL.fuel).tee(left).op(I32.sub).set(fuel);
  store(fuel, CONTROL.used);
  code.i32(0).memory([I32.load], CONTROL.stays).i32(1).op(I32.sub).set(fuel);
  store(fuel, CONTROL.stays);
  code
    .get(result)
    .i32(STOPPED - STOP.fuel)
    .op(I32.eq)
    .brIf(done);
  code.get(fuel).op(I32.eqz).brIf(done);
  code.i32(0).memory([I64.load], CONTROL.place).set(address);
  writeLookup(code, BLOCK_TABLE, address, entry);
  code.op(I32.eqz).brIf(done);
  readLookup(code, BLOCK_TABLE, entry).tee(header).brIf(loop);
  code.end();
  code.end();
  store(left, CONTROL.left);
  store(own, CONTROL.own);
  code.get(result);
  const locals: ValueType[] = ['i32', 'i32', 'i32', 'i32', 'i32', 'i64'];
  return { parameters: ['i32', 'i32'], results: ['i32'], locals, code, export: 'alternate' };
}
