/**
 * Instructions of x87 as ops (`x87-ops.ts`): what compilers make of `long double`. An op that does
 * not decide leaves the instruction to `x87.ts`, as those do that are not here.
 */
import type { MemoryOperand } from './decode.js';
import type { Bytes, Lifting, Place } from './lifting.js';
import { FDP, FIP, FOP, FPR, FSW, FTW, PENDING, SLOTS, X87_BITS, X87_STATUS, X87_TAGS, X87_UPPER } from './state.js';
import { constantOf } from './x87.js';
import type { Operand, Slot } from '../machine/ir.js';
import { X87_FIELDS, X87_MOVES, X87_SOURCES, X87_TARGETS, X87_UNARY } from '../machine/x87-ops.js';
import type { X87Move, X87Source, X87Target, X87Unary } from '../machine/x87-ops.js';

/** What an op is asked; nothing is 0. */
interface Asked {
  readonly kind?: number;
  readonly target?: number;
  readonly source?: number;
  readonly pops?: number;
  readonly operation?: number;
  readonly intoFlags?: number;
  readonly truncates?: number;
}

function asked(fields: Asked): bigint {
  let bits = SLOTS.offset(FPR[0]!) << X87_FIELDS.base;
  for (const [name, value] of Object.entries(fields) as [keyof Asked, number][]) bits |= value << X87_FIELDS[name];
  return BigInt(bits);
}

const sourceKind = (kind: X87Source): number => X87_SOURCES.indexOf(kind);

/** What the processor keeps of the last instruction. */
function keepPointers(x: Lifting, place: Place | null): void {
  const { opcode, modRm } = x.instruction;
  x.b.mov(FOP, BigInt(((opcode & 7) << 8) | modRm));
  x.b.mov(FIP, x.pc);
  if (place) x.b.to(FDP, 'add', place.base, place.offset);
}

/** An operation or comparison of register `target` with a number. */
function combine(x: Lifting, reg: number, fields: Asked, value: Operand): void {
  if (reg === 2 || reg === 3) x.b.unit('x87compare', value, asked({ ...fields, pops: (fields.pops ?? 0) + reg - 2 }));
  else x.b.unit('x87arithmetic', value, asked({ ...fields, operation: reg }));
}

/** Numbers of memory by the low bits of the opcode: the even ones operate, the odd ones load. */
const NUMBERS: Readonly<Record<number, { readonly kind: X87Source; readonly bytes: Bytes }>> = {
  0: { kind: 'single', bytes: 4 }, 2: { kind: 'integer', bytes: 4 },
  4: { kind: 'double', bytes: 8 }, 6: { kind: 'integer', bytes: 2 },
  1: { kind: 'single', bytes: 4 }, 3: { kind: 'integer', bytes: 4 },
  5: { kind: 'double', bytes: 8 }, 7: { kind: 'integer', bytes: 2 },
}; // prettier-ignore

/** Stores by opcode and reg field: what, and how often it pops. */
type Stored = readonly [target: X87Target, bytes: Bytes, pops: 0 | 1, truncates?: 0 | 1];
const STORED: Readonly<Record<string, Stored>> = {
  '1/2': ['single', 4, 0], '1/3': ['single', 4, 1], '5/2': ['double', 8, 0], '5/3': ['double', 8, 1],
  '3/1': ['integer32', 4, 1, 1], '3/2': ['integer32', 4, 0], '3/3': ['integer32', 4, 1],
  '7/1': ['integer16', 2, 1, 1], '7/2': ['integer16', 2, 0], '7/3': ['integer16', 2, 1],
  '5/1': ['integer64', 8, 1, 1], '7/7': ['integer64', 8, 1],
}; // prettier-ignore

function load(x: Lifting, kind: X87Source, bytes: Bytes, place: Place): void {
  const value = x.load(place, bytes, kind === 'integer');
  x.b.unit('x87load', value, asked({ kind: sourceKind(kind) }));
}

function store(x: Lifting, [target, bytes, pops, truncates = 0]: Stored, place: Place): void {
  x.b.unit('x87store', 0n, asked({ kind: X87_TARGETS.indexOf(target), pops, truncates }));
  x.store(place, bytes, X87_BITS);
  popped(x);
}

/** Status and tags as they are behind a store. */
function popped({ b }: Lifting): void {
  b.mov(FSW, X87_STATUS);
  b.mov(FTW, X87_TAGS);
}

/** Ten bytes are two accesses, of which only one might fault: not where both are in one page. */
const PAGE_MASK = 0xfffn;
const LAST_WHOLE = 0x1000n - 10n;

function demandOnePage(x: Lifting, { base, offset }: Place): void {
  const { b } = x;
  b.guard(b.make('setleu', b.make('and', b.make('add', base, offset), PAGE_MASK), LAST_WHOLE));
}

function loadExtended(x: Lifting, place: Place, upper: Place): void {
  const significand = x.load(place, 8);
  x.b.mov(X87_UPPER, x.load(upper, 2));
  x.b.unit('x87load', significand, asked({ kind: sourceKind('extended') }));
}

function storeExtended(x: Lifting, place: Place, upper: Place): void {
  demandOnePage(x, place);
  x.b.unit('x87store', 0n, asked({ kind: X87_TARGETS.indexOf('extended'), pops: 1 }));
  x.store(place, 8, X87_BITS);
  x.store(upper, 2, X87_UPPER);
  popped(x);
}

/** An exception that is pending is raised before anything else is done. */
export function demandQuiet({ b }: Lifting): void {
  b.guard(b.make('seteq', b.make('and', FSW, PENDING), 0n));
}

/** An instruction with an operand in memory; false: it is none of these. */
function liftMemory(x: Lifting, operand: MemoryOperand): boolean {
  const { opcode, modRm } = x.instruction;
  const [low, reg] = [opcode & 7, (modRm >> 3) & 7];
  const name = `${low}/${reg}`;
  const stored = STORED[name];
  const isLoad = (low & 1) === 1 && reg === 0;
  const isExtended = name === '3/5' || name === '3/7';
  if ((low & 1) === 1 && !stored && !isLoad && !isExtended && name !== '7/5') return false;
  demandQuiet(x);
  const place = x.place(operand);
  if (stored) store(x, stored, place);
  else if (name === '7/5') load(x, 'integer', 8, place);
  else if (isExtended) (reg === 5 ? loadExtended : storeExtended)(x, place, x.place(operand, 8n));
  else {
    const { kind, bytes } = NUMBERS[low]!;
    if (isLoad) load(x, kind, bytes, place);
    else combine(x, reg, { kind: sourceKind(kind) }, x.load(place, bytes, kind === 'integer'));
  }
  keepPointers(x, place);
  return true;
}

const move = (x: Lifting, kind: X87Move, target: number, pops = 0, value: Operand = 0n): Slot =>
  x.b.unit('x87move', value, asked({ kind: X87_MOVES.indexOf(kind), target, pops }));

/** Condition codes of `fcmov` by the reg field; with the next opcode they are negated. */
const CONDITIONS = [2, 4, 6, 10];

function liftConditional(x: Lifting, reg: number, i: number): void {
  const condition = CONDITIONS[reg]! | (x.instruction.opcode & 1);
  move(x, 'choose', i, 0, x.truth(condition));
}

/** Of the top alone, by ModRM behind `d9`: `fxam`, `fsqrt`, `frndint`. */
const UNARY: Readonly<Record<number, X87Unary>> = { 0xe5: 'examine', 0xfa: 'root', 0xfc: 'integral' };

/** `d9` with a register, or without operands. */
function liftSingle(x: Lifting, modRm: number): boolean {
  const i = modRm & 7;
  if (modRm < 0xc8) x.b.unit('x87load', 0n, asked({ kind: sourceKind('register'), source: i }));
  else if (modRm < 0xd0) move(x, 'exchange', i);
  else if (modRm === 0xe0) move(x, 'negate', 0);
  else if (modRm === 0xe1) move(x, 'magnitude', 0);
  else if (modRm === 0xe4) x.b.unit('x87compare', 0n, asked({ kind: sourceKind('integer') }));
  else if (UNARY[modRm]) x.b.unit('x87unary', 0n, asked({ kind: X87_UNARY.indexOf(UNARY[modRm]) }));
  else if (modRm >= 0xe8 && modRm < 0xef) {
    const { significand, exponent } = constantOf(modRm - 0xe8);
    x.b.mov(X87_UPPER, exponent);
    x.b.unit('x87load', significand, asked({ kind: sourceKind('constant') }));
  } else return false;
  return true;
}

/** `db` and `df`: `fcomi`, `fucomi`, with and without a pop. */
function liftFlags(x: Lifting, source: number, pops: 0 | 1): void {
  const flags = x.b.unit('x87compare', 0n, asked({ source, pops, intoFlags: 1 }));
  x.literal(flags);
}

/** An instruction on registers; false: it is none of these. */
function liftRegisters(x: Lifting): boolean {
  const { opcode, modRm } = x.instruction;
  const [reg, i] = [(modRm >> 3) & 7, modRm & 7];
  switch (opcode & 7) {
    case 0:
      combine(x, reg, { source: i }, 0n);
      return true;
    case 1:
      return liftSingle(x, modRm);
    case 2:
      if (reg < 4) liftConditional(x, reg, i);
      // fucompp
      else if (reg === 5) x.b.unit('x87compare', 0n, asked({ source: 1, pops: 2 }));
      else return false;
      return true;
    case 3:
      if (reg < 4) liftConditional(x, reg, i);
      else if (reg === 5 || reg === 6) liftFlags(x, i, 0);
      else return false;
      return true;
    case 4:
    case 6: {
      const pops = (opcode & 7) === 6 ? 1 : 0;
      if (modRm === 0xd9) x.b.unit('x87compare', 0n, asked({ source: 1, pops: 2 }));
      else if (reg === 2 || reg === 3) return false;
      // Into register i; of differences and quotients the encodings are the other way round.
      else x.b.unit('x87arithmetic', 0n, asked({ target: i, operation: reg < 4 ? reg : reg ^ 1, pops }));
      return true;
    }
    case 5:
      if (reg === 2 || reg === 3) move(x, 'copy', i, reg - 2);
      else if (reg === 4 || reg === 5) x.b.unit('x87compare', 0n, asked({ source: i, pops: reg - 4 }));
      else return false;
      return true;
    default:
      if (reg !== 5 && reg !== 6) return false;
      liftFlags(x, i, 1);
      return true;
  }
}

/** Lifts an instruction of x87; false, and nothing is lifted, where a helper executes it. */
export function liftX87(x: Lifting): boolean {
  const operand = x.operands[0];
  if (operand?.kind === 'memory') return liftMemory(x, operand);
  if (!liftRegisters(x)) return false;
  keepPointers(x, null);
  return true;
}
