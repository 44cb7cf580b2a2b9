/**
 * How regions are entered and left: what they return, how the address at which to go on is found,
 * and the functions around them that every machine with a compiled tier has.
 */
import { CONTROL, REGION_TABLE } from './host.js';
import { readLookup, writeLookup } from './lookup-table.js';
import { I32, I64 } from '../machine/ir.js';
import { Code } from './wasm.js';
import type { WasmFunction } from './wasm.js';

/**
 * What a region returns instead of an address. Addresses of the guest may have these values:
 * code that returns one writes it to the control block too, and all of these mean to go on there.
 */
export const STOP = {
  /** Too little fuel. */
  fuel: -1,
  /** Tier 0 executes the next instruction. */
  exit: -2,
  /** No region is known for the address, or the stack is used up. */
  lookup: -3,
  /** As `exit`: an access that its window does not serve. */
  miss: -4,
  /** As `lookup`, from an indirect jump at `CONTROL.site`. */
  jump: -5,
} as const;
export type StopName = keyof typeof STOP;
export const STOP_NAMES: readonly StopName[] = ['fuel', 'exit', 'lookup', 'miss', 'jump'];

/**
 * Parameters of regions, and of `goto` (which takes an address instead of a selector): where to
 * begin, the host's stack that is left, the guest's stack pointer, fuel. Each call waits for what
 * the last one left of these two, so they are handed on in registers of the host: memory holds them
 * where a function returns, and need not where one begins. Behind a call the fuel is its second
 * result, and the stack pointer is compared with what is expected (`Lifter.stackPointer`).
 */
export const SELECT = 0;
export const STACK = 1;
export const POINTER = 2;
export const FUEL = 3;
export const PARAMETERS = 4;
type Signature = Pick<WasmFunction, 'parameters' | 'results'>;
export const REGION: Signature = { parameters: ['i32', 'i32', 'i64', 'i32'], results: ['i64', 'i32'] };

/** Writes stack pointer and fuel to memory; `pointer`: where the state has the first. */
function storeHanded(code: Code, pointer: number): void {
  code.i32(0).get(POINTER).memory([I64.store], pointer);
  code.i32(0).get(FUEL).memory([I32.store], CONTROL.fuel);
}

/** Begins the region at `place`, a local: its table index, and the selector above. */
function begin(code: Code, place: number): void {
  code.get(place).i32(0xffff).op(I32.and).callIndirect(0);
}

/**
 * Finds the region of an address and calls it: `goto(address i64, stack i32, pointer i64, fuel
 * i32)`. Without one it returns `missing`: `lookup`, or `jump` for what an indirect jump calls, so
 * that its own target is told from places that regions behind it look for. Either way the address
 * is in the control block.
 */
export function gotoFunction(missing: 'lookup' | 'jump', pointer: number): WasmFunction {
  const code = new Code();
  const [address, entry, place] = [SELECT, PARAMETERS, PARAMETERS + 1];
  code.i32(0).get(address).memory([I64.store], CONTROL.place);
  writeLookup(code, REGION_TABLE, address, entry);
  code.op(I32.eqz).if();
  storeHanded(code, pointer);
  code.i64(BigInt(STOP[missing])).get(FUEL).return();
  code.end();
  readLookup(code, REGION_TABLE, entry).tee(place);
  code.i32(16).op(I32.shr).get(STACK).get(POINTER).get(FUEL);
  begin(code, place);
  return { ...REGION, parameters: ['i64', 'i32', 'i64', 'i32'], locals: ['i32', 'i32'], code };
}

/**
 * What TypeScript calls: `enter(place i32, stack i32) -> i32`, where `place` is the table index
 * and, above, the selector. Calls regions as long as they return addresses of regions; the number
 * of the stop at last.
 */
export function enterFunction(pointer: number): WasmFunction {
  const code = new Code();
  const [place, stack, result, entry] = [0, 1, 2, 3];
  const loop = code.loop();
  code.get(place).i32(16).op(I32.shr).get(stack).i32(0).memory([I64.load], pointer);
  code.i32(0).memory([I32.load], CONTROL.fuel);
  begin(code, place);
  code.drop().set(result);
  code.i64(0n).get(result).op(I64.sub).i64(BigInt(STOP_NAMES.length)).op(I64.leu).get(result).i64(0n).op(I64.ne);
  code.op(I32.and).if();
  code.i32(0).get(result).op(I32.wrap).op(I32.sub).return();
  code.end();
  code.i32(0).get(result).memory([I64.store], CONTROL.place);
  writeLookup(code, REGION_TABLE, result, entry);
  code.op(I32.eqz).if();
  code.i32(-STOP.lookup).return();
  code.end();
  readLookup(code, REGION_TABLE, entry).set(place).br(loop);
  code.end();
  code.unreachable();
  return { parameters: ['i32', 'i32'], results: ['i32'], locals: ['i64', 'i32'], code, export: 'enter' };
}

/** Fills table entries without a region. */
export function emptyFunction(pointer: number): WasmFunction {
  const code = new Code();
  storeHanded(code, pointer);
  code.i64(BigInt(STOP.lookup)).get(FUEL);
  return { ...REGION, locals: [], code, export: 'empty' };
}

/** Calls itself until `depth` is 0: proves that so much stack is there. */
export function probeFunction(index: number): WasmFunction {
  const code = new Code();
  code.get(0).op(I32.eqz).if();
  code.i32(0).return();
  code.end();
  code.get(0).i32(1).op(I32.sub).call(index).get(0).op(I32.add);
  return { parameters: ['i32'], results: ['i32'], locals: [], code, export: 'probe' };
}
