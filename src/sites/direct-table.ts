/**
 * The table of direct callers in an image (RT-10): which site has which. Owns
 * reading it; the core's backend writes it.
 */
import type { Program } from '../program/program.js';
import { DIRECT_WORDS } from '../runtime/abi.js';
import type { Address } from '../units.js';
import { entryPoint } from '../program/entry-points.js';

export interface DirectCaller {
  /** The ip of the site's record. */
  readonly site: Address;
  readonly caller: Address;
  /** X-JMP-1: the site jumps there (bit 0 of the word). */
  readonly jump: boolean;
}

/** More rows than that are no table. */
const ROWS_MAX = 1 << 20;

const tables = new WeakMap<Program, readonly DirectCaller[]>();

/**
 * The direct callers that an image names; none where it has no table, or an unreadable one. Read
 * once.
 */
function directCallers(program: Program): readonly DirectCaller[] {
  let rows = tables.get(program);
  if (rows === undefined) {
    rows = readTable(program);
    tables.set(program, rows);
  }
  return rows;
}

/** Whether bit 0 of a direct caller's address says that sites jump to it (X-JMP-1). */
export function jumpsAreOn(program: Program): boolean {
  const flag = entryPoint(program, 'elftrace_direct_jumps');
  return flag !== null && program.reader.u64(flag.identity) === 1n;
}

/** The same as they are now, of an image whose bytes change. */
export function readTable(program: Program): readonly DirectCaller[] {
  if (program.relocatable) return [];
  const pointer = entryPoint(program, 'ftrace_direct_table');
  if (pointer === null) return [];
  const { wordBytes } = program.arch.target;
  const word = (address: Address): bigint | null => {
    if (wordBytes === 8) return program.reader.u64(address);
    const value = program.reader.u32(address);
    return value < 0 ? null : BigInt(value);
  };
  const table = word(pointer.identity);
  if (table === null || table === 0n) return [];
  const count = word(table + BigInt(DIRECT_WORDS.count * wordBytes));
  if (count === null || count > ROWS_MAX) return [];
  const jumps = jumpsAreOn(program);
  const rows: DirectCaller[] = [];
  for (let i = 0; i < Number(count); i++) {
    const at = table + BigInt((DIRECT_WORDS.pairs + 2 * i) * wordBytes);
    const site = word(at);
    const caller = word(at + BigInt(wordBytes));
    if (site === null || caller === null) return [];
    const jump = jumps && (caller & 1n) !== 0n;
    rows.push({ site, caller: jump ? caller & ~1n : caller, jump });
  }
  return rows;
}

/** The direct caller of the site whose bytes are at [start, end), or null. */
export function directCallerAt(program: Program, start: Address, end: Address): DirectCaller | null {
  return directCallers(program).find(({ site }) => site >= start && site < end) ?? null;
}
