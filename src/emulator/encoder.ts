/**
 * Writes blocks as records of tier 0 (`interpreter.ts`), and changes those that are there: a block
 * that is dropped, a link that leads elsewhere.
 */
import {
  BRANCH_TESTS,
  EXIT_HANDLER,
  GOTO_HANDLER,
  HANDLER_KEYS,
  handlerNumber,
  HEADER_BYTES,
  isBranchCondition,
  isCounting,
  isFieldOp,
  isResultCondition,
  JMP_HANDLER,
  reasonNumber,
  RECORD_BYTES,
  UPDATING,
} from './handlers.js';
import type { ExitReason, Variant } from './handlers.js';
import { CONTROL, MOVES, STATE, WINDOW } from './host.js';
import type { HostMemory } from './host.js';
import { CONDITIONS, inverse, mirrored, recordCode } from '../machine/ir.js';
import type {
  AccessRow, Block, Condition, Lifter, Op, OpName, Operand, SlotLayout, Terminator,
} from '../machine/ir.js'; // prettier-ignore
import { eliminateDeadOps } from './passes.js';
import { ElftraceError } from '../errors.js';

/** Operand `a` is constant and the operation does not mind the order. */
const COMMUTATIVE = new Set<OpName>([
  'add', 'mul', 'mulsx32', 'mulzx32', 'mulhu', 'mulhs', 'and', 'or', 'xor', 'add32', 'mul32', 'and32', 'or32', 'xor32',
  'seteq', 'setne', 'seteq32', 'setne32',
]); // prettier-ignore

type Branch = Extract<Terminator, { readonly kind: 'br' }>;

/** The same branch with one of those conditions. */
function plainBranch(terminator: Terminator): Terminator {
  if (terminator.kind !== 'br' || isBranchCondition.has(terminator.condition)) return terminator;
  const { condition, pc, next } = terminator;
  return { ...terminator, condition: inverse(condition), pc: next, next: pc };
}

/** What the records of a block are of. */
export interface RecordNotes {
  /** Bytes of the header and all records. */
  readonly bytes: number;
  /** Instruction index of each record. */
  readonly at: readonly number[];
  /** The op of each record; undefined for terminators and stubs. */
  readonly ops: readonly (Op | undefined)[];
}

/** What asks a block for its entry before its first instruction. */
export type Prefix = 'hook' | 'region' | null;

type RecordedLifter = Pick<Lifter, 'slots' | 'addressBits'>;

/** Memory that records are written to. */
type RecordMemory = Pick<HostMemory, 'u16' | 'u32' | 'i64'>;

/**
 * Names of records with branches are looked up, not put together: a string that is new has to be
 * hashed before its handler is found.
 */
const named = (name: (condition: Condition) => string): Readonly<Record<Condition, string>> =>
  Object.fromEntries(CONDITIONS.map((each) => [each, name(each)] as const)) as Record<Condition, string>;
const BRANCHES = { 32: named((each) => `br:${each}:32`), 64: named((each) => `br:${each}:64`) };
const STEPS = named((each) => `step+br:${each}`);
/** What stands behind the name of an op that is fused with a branch. */
const ON_RESULT = { 32: named((each) => `+br:${each}:32`), 64: named((each) => `+br:${each}:64`) };
/** The same where the branch compares what the op writes with 0. */
const ON_ZERO = { 32: named((each) => `0+br:${each}:32`), 64: named((each) => `0+br:${each}:64`) };

const joinedNames = new Map<string, Map<string, string>>();

function joined(name: string, suffix: string): string {
  if (suffix === '') return name;
  let names = joinedNames.get(suffix);
  if (!names) joinedNames.set(suffix, (names = new Map<string, string>()));
  let made = names.get(name);
  if (made === undefined) names.set(name, (made = name + suffix));
  return made;
}

/** True when one handler does the op and the branch that compares what it has just written. */
function fusible(op: Op, branch: Branch): boolean {
  if (isCounting.has(op.op)) {
    const { condition, width, a, b } = branch;
    const compares = a === op.d && b === 0n && width === 64 && condition === 'eq';
    return compares && typeof op.a === 'number' && typeof op.b === 'bigint';
  }
  if (op.op !== 'rec' || branch.a !== op.d + 1) return false;
  return (typeof op.b === 'bigint' ? branch.b === op.b : branch.b === op.d + 2) || comparesResult(op, branch);
}

/** True for a branch that compares A of the record with 0 where B is something else. */
function comparesResult(op: Op, { condition, b }: Branch): boolean {
  return op.op === 'rec' && b === 0n && op.b !== 0n && isResultCondition.has(condition);
}

/**
 * The condition on the sum and the slot it is compared with, when one handler does the addition and
 * the branch; else null.
 */
function stepping(op: Op, branch: Branch): { condition: Condition; other: number } | null {
  const { condition, width, a, b } = branch;
  if (op.op !== 'add' || typeof op.a !== 'number' || typeof op.b !== 'bigint') return null;
  if (width !== 64 || typeof b !== 'number' || a === b) return null;
  if (a === op.d) return { condition, other: b };
  return b === op.d ? { condition: mirrored(condition), other: a } : null;
}

/**
 * The test whose answer, a temporary, the branch alone goes by, when one handler does both; else
 * null.
 */
function testing(op: Op, { condition, width, a, b }: Branch, slots: SlotLayout): string | null {
  const asks = a === op.d && b === 0n && width === 64 && condition === 'eq';
  return asks && slots.isTemporary(op.d) && BRANCH_TESTS.some((test) => `test${test}` === op.op) ? `${op.op}+br` : null;
}

/**
 * True when the op at `index` and the `and` behind it are one record: what is between them is a
 * temporary that no other op reads.
 */
function takesField(ops: readonly Op[], index: number, terminator: Terminator, slots: SlotLayout): boolean {
  const op = ops[index]!;
  const and = ops[index + 1];
  if (and?.op !== 'and' || and.a !== op.d || typeof and.b !== 'bigint') return false;
  if (!isFieldOp.has(op.op) || typeof op.a !== 'number' || typeof op.b !== 'bigint') return false;
  if (op.b >= 64n || !slots.isTemporary(op.d)) return false;
  for (let i = index + 2; i < ops.length; i++) {
    const each = ops[i]!;
    if (each.a === op.d || each.b === op.d || each.c === op.d) return false;
    if (each.d === op.d) return true;
  }
  if (terminator.kind === 'br') return terminator.a !== op.d && terminator.b !== op.d;
  return !('s' in terminator) || terminator.s !== op.d;
}

/** The last op of a block as one record with its end. */
type Fusion =
  /** A branch on what the op has written, or on one operand of it. */
  | { readonly kind: 'result'; readonly op: Op }
  /** A branch on the sum and a slot. */
  | { readonly kind: 'step'; readonly op: Op; readonly condition: Condition; readonly other: number }
  /** A branch on the answer of a test. */
  | { readonly kind: 'test'; readonly op: Op; readonly handler: string }
  /** A jump, where a register gets a value in front of it (a return address). */
  | { readonly kind: 'move'; readonly op: Op };

function fusionOf(op: Op | undefined, terminator: Terminator, slots: SlotLayout): Fusion | null {
  if (!op) return null;
  if (terminator.kind === 'br') {
    if (fusible(op, terminator)) return { kind: 'result', op };
    const step = stepping(op, terminator);
    if (step) return { kind: 'step', op, ...step };
    const handler = testing(op, terminator, slots);
    return handler === null ? null : { kind: 'test', op, handler };
  }
  if (op.op !== 'mov') return null;
  const isDirect = terminator.kind === 'jmp' || terminator.kind === 'call';
  return (isDirect && typeof op.a === 'bigint') || 's' in terminator ? { kind: 'move', op } : null;
}

/** The most bytes that a block of so many ops takes: constants may need a record of their own. */
export function encodedBound(ops: number): number {
  return HEADER_BYTES + (ops * 4 + 16) * RECORD_BYTES;
}

/** Writes the records of a block to the memory at `header`. */
class Encoder {
  private pointer: number;
  private index = 0;
  private op: Op | undefined;
  /** Stubs that side exits need behind the block. */
  private readonly pending: { readonly address: bigint; readonly link: number }[] = [];
  /** The op that computes addresses. */
  private readonly addition: 'add' | 'add32';
  /** Slots behind the layout's, for constants in places that have no constant form. */
  private readonly scratch: number;

  constructor(
    private readonly host: RecordMemory,
    private readonly slots: SlotLayout,
    addressBits: 32 | 64,
    private readonly header: number,
    private readonly notes: { readonly at: number[]; readonly ops: (Op | undefined)[] } | null,
  ) {
    this.addition = addressBits === 32 ? 'add32' : 'add';
    this.pointer = header + HEADER_BYTES;
    this.scratch = STATE + Math.ceil(slots.sizeBytes / 8) * 8;
  }

  private record(name: string, variant: Variant, d: number, a: number, b: number, constant: bigint): number {
    const { host, pointer } = this;
    const half = pointer >> 1;
    host.u16[half] = handlerNumber(name, variant);
    host.u16[half + 1] = d;
    host.u16[half + 2] = a;
    host.u16[half + 3] = b;
    host.i64[(pointer + 8) >> 3] = BigInt.asIntN(64, constant);
    this.pointer += RECORD_BYTES;
    this.note(this.op);
    return pointer;
  }

  private note(op: Op | undefined): void {
    this.notes?.at.push(this.index);
    this.notes?.ops.push(op);
  }

  private address(slot: number): number {
    return STATE + this.slots.offset(slot);
  }

  /** Host address of an operand's value; a constant is moved to a scratch slot. */
  private place(operand: Operand, which: number): number {
    if (typeof operand === 'number') return this.address(operand);
    const place = this.scratch + 8 * which;
    this.record('mov', 'k', place, 0, 0, operand);
    return place;
  }

  /** True when `next` writes the address of the access `op` to its base. */
  private updates(op: Op, next: Op | undefined): boolean {
    if (next?.op !== this.addition || next.d !== op.a || next.a !== op.a || next.b !== op.b) return false;
    if (!UPDATING.has(op.op) || typeof op.b !== 'bigint') return false;
    return op.row.form === 'load' ? op.d !== op.a : typeof op.c === 'number';
  }

  /**
   * Writes the records of an op; `suffix` names the branch that it is fused with, and `next` is the
   * op behind it.
   */
  private encode(op: Op, next: Op | undefined, suffix = ''): void {
    this.op = op;
    this.index = op.at;
    const { row } = op;
    switch (row.form) {
      case 'unary':
        if (op.op === 'mov' && typeof op.a === 'bigint') this.record('mov', 'k', this.address(op.d), 0, 0, op.a);
        else this.record(op.op, 's', this.address(op.d), this.place(op.a, 0), 0, 0n);
        break;
      case 'binary':
        this.encodeBinary(op, suffix);
        break;
      case 'select': {
        const [a, b, c] = [this.place(op.a, 0), this.place(op.b, 1), this.place(op.c, 2)];
        this.record('select', '', this.address(op.d), a, b, BigInt(c));
        break;
      }
      case 'load':
      case 'store':
        this.encodeAccess(op, row, next);
        break;
      case 'aligned':
        this.record(op.op, '', 0, this.place(op.a, 0), 0, BigInt(op.b));
        break;
      case 'record':
        this.encodeRecord(op, row.guarded, suffix);
        break;
      case 'leave': {
        const record = this.record(op.op, '', 0, this.place(op.a, 0), 0, 0n);
        if (op.op === 'leavez') this.pending.push({ address: BigInt(op.c), link: record + 8 });
        break;
      }
      case 'slots':
        this.record(op.op, '', this.address(op.d), this.place(op.a, 0), 0, 0n);
        break;
      case 'float': {
        const a = this.place(op.a, 0);
        const b = row.operands > 1 ? this.place(op.b, 1) : 0;
        const c = row.operands > 2 ? this.place(op.c, 2) : 0;
        this.record(op.op, '', this.address(op.d), a, b, BigInt((c | (this.address(op.mode) << 16)) >>> 0));
        break;
      }
      case 'unit':
        this.record(op.op, '', this.address(op.d), this.place(op.a, 0), 0, BigInt(op.b));
        break;
      case 'check':
        this.record(op.op, '', 0, this.place(op.a, 0), 0, typeof op.b === 'bigint' ? op.b : 0n);
        break;
      default:
        row satisfies never;
    }
  }

  private encodeBinary(op: Op, suffix: string): void {
    const swap = typeof op.a === 'bigint' && COMMUTATIVE.has(op.op);
    const a = swap ? op.b : op.a;
    const b = swap ? op.a : op.b;
    const first = this.place(a, 0);
    if (typeof b === 'bigint') this.record(joined(op.op, suffix), 'sk', this.address(op.d), first, 0, b);
    else this.record(op.op, 'ss', this.address(op.d), first, this.address(b), 0n);
  }

  private encodeAccess(op: Op, { form }: AccessRow, next: Op | undefined): void {
    if (form === 'store' && typeof op.c === 'bigint' && typeof op.b === 'bigint') {
      const to = this.place(op.a, 0);
      this.record(op.op, 'kk', 0, to, WINDOW.start, op.b);
      this.record('more', '', 0, 0, 0, op.c);
      return;
    }
    const value = form === 'load' ? this.address(op.d) : this.place(op.c, 2);
    const base = this.place(op.a, 0);
    if (typeof op.b === 'bigint')
      this.record(op.op, this.updates(op, next) ? 'u' : 'k', value, base, WINDOW.start, op.b);
    else this.record(op.op, 'i', value, base, WINDOW.start, BigInt(this.address(op.b)));
  }

  private encodeRecord(op: Op, guarded: boolean, suffix: string): void {
    const kind = recordCode(op.kind);
    const a = this.place(op.a, 0);
    const condition = guarded ? this.place(op.c, 2) : 0;
    const name = joined(guarded ? 'recif' : 'rec', suffix);
    if (typeof op.b === 'bigint') this.record(name, 'sk', this.address(op.d), a, kind, op.b);
    else this.record(name, 'ss', this.address(op.d), a, this.address(op.b), BigInt(kind));
    if (guarded) this.record('more', '', condition, 0, 0, 0n);
  }

  private encodeField(op: Op, and: Op): void {
    if (typeof op.a !== 'number' || typeof and.b !== 'bigint') throw new ElftraceError('internal', 'not a field');
    this.op = op;
    this.index = op.at;
    this.record(joined(op.op, '+and'), '', this.address(and.d), this.address(op.a), Number(op.b), and.b);
  }

  /** The first record of `step+br`. */
  private encodeStep(op: Op, { condition, other }: { condition: Condition; other: number }): void {
    if (typeof op.a !== 'number' || typeof op.b !== 'bigint') throw new ElftraceError('internal', 'not a step');
    this.op = op;
    this.index = op.at;
    this.record(STEPS[condition], '', this.address(op.d), this.address(op.a), this.address(other), op.b);
  }

  /** An `exit` record; the constant goes to the handler of the exit. */
  exit(reason: ExitReason, constant: bigint): void {
    this.op = undefined;
    this.record('exit', '', reasonNumber(reason), 0, 0, constant);
  }

  /**
   * A stub for a guest address; `link` is the host address of the word that gets the header once it
   * exists.
   */
  private stub(address: bigint, link: number): void {
    const header = this.pointer;
    this.host.u32[header >> 2] = link;
    this.host.u32[(header + 12) >> 2] = 0;
    this.host.u32[link >> 2] = header;
    this.pointer += HEADER_BYTES;
    this.note(undefined);
    this.exit('untranslated', address);
  }

  /**
   * Writes everything and the header; returns the address after the last byte. `prefix` runs before
   * the first op.
   */
  write(ops: readonly Op[], ending: Terminator, count: number, prefix: Prefix): number {
    const terminator = plainBranch(ending);
    if (prefix) this.exit(prefix, 0n);
    const fusion = fusionOf(ops.at(-1), terminator, this.slots);
    const joined = fusion?.op;
    for (let index = 0; index < ops.length; index++) {
      const op = ops[index]!;
      const next = ops[index + 1] === joined ? undefined : ops[index + 1];
      if (op === joined) continue;
      if (next && takesField(ops, index, terminator, this.slots)) this.encodeField(op, ops[++index]!);
      else this.encode(op, next);
    }
    this.op = undefined;
    this.index = Math.max(0, count - 1);
    this.end(terminator, fusion);
    for (const { address, link } of this.pending) this.stub(address, link);
    const { header } = this;
    this.host.u32[header >> 2] = 0;
    this.host.u32[(header + 12) >> 2] = count;
    return this.pointer;
  }

  private end(terminator: Terminator, fusion: Fusion | null): void {
    switch (terminator.kind) {
      case 'jmp':
      case 'call': {
        const move = fusion?.kind === 'move' ? fusion : null;
        if (move && typeof move.op.a === 'bigint') this.record('mov+jmp', '', this.address(move.op.d), 0, 0, move.op.a);
        const record = this.record(move ? 'goto' : 'jmp', '', 0, 0, 0, 0n);
        this.stub(terminator.pc, record + 8);
        break;
      }
      case 'br':
        this.endBranch(terminator, fusion);
        break;
      case 'calli':
      case 'ret':
      case 'ind':
        if (fusion?.kind === 'move') {
          const { d, a } = fusion.op;
          const place = this.address(d);
          if (typeof a === 'bigint') this.record('mov+ind', 'k', place, 0, 0, a);
          else this.record('mov+ind', 's', place, this.address(a), 0, 0n);
        }
        this.record('ind', '', 0, this.address(terminator.s), 0, terminator.mask);
        break;
      case 'helper':
      case 'trap':
      case 'unknown':
      case 'fetch':
      case 'sync':
        this.exit(terminator.kind, 0n);
        break;
      default:
        terminator satisfies never;
    }
  }

  private endBranch(branch: Branch, fusion: Fusion | null): void {
    const { condition, width, a, b, pc, next } = branch;
    if (!fusion) {
      const variant = typeof b === 'bigint' ? 'sk' : 'ss';
      const second = typeof b === 'bigint' ? 0 : this.address(b);
      const record = this.record(BRANCHES[width][condition], variant, 0, this.address(a), second, 0n);
      if (typeof b === 'bigint') this.record('goto', '', 0, 0, 0, b);
      this.stub(pc, record + 8);
      this.stub(next, record + 12);
      return;
    }
    const { kind, op } = fusion;
    if (kind === 'result') {
      const suffixes = comparesResult(op, branch) ? ON_ZERO : ON_RESULT;
      this.encode(op, undefined, suffixes[width][condition]);
    } else if (kind === 'step') this.encodeStep(op, fusion);
    else if (kind === 'test') this.record(fusion.handler, '', 0, this.place(op.a, 0), 0, 0n);
    const links = this.record('goto', '', 0, 0, 0, 0n) + 8;
    // The branch on a test asks whether the answer is 0; the first link is for 1.
    const [first, second] = kind === 'test' ? [next, pc] : [pc, next];
    this.stub(first, links);
    this.stub(second, links + 4);
  }
}

/** Writes a block to the memory at `header`; returns the address after its last byte. */
export function writeBlock(
  block: Block,
  lifter: RecordedLifter,
  host: HostMemory,
  header: number,
  prefix: Prefix,
): number {
  const { slots, addressBits } = lifter;
  const encoder = new Encoder(host, slots, addressBits, header, null);
  return encoder.write(eliminateDeadOps(block, slots), block.terminator, block.instructions.length, prefix);
}

/** What the records are of that `writeBlock` writes: they are written once more, elsewhere. */
export function describeRecords(block: Block, lifter: RecordedLifter, prefix: Prefix): RecordNotes {
  const { slots, addressBits } = lifter;
  const buffer = new ArrayBuffer(encodedBound(block.ops.length));
  const memory = { u16: new Uint16Array(buffer), u32: new Uint32Array(buffer), i64: new BigInt64Array(buffer) };
  const notes = { at: [], ops: [] };
  const encoder = new Encoder(memory, slots, addressBits, 0, notes);
  const bytes = encoder.write(eliminateDeadOps(block, slots), block.terminator, block.instructions.length, prefix);
  return { bytes, ...notes };
}

/** What tier 0 knows of an access. */
interface Prediction {
  readonly op: Op;
  /** The window descriptor that it hit last. */
  readonly descriptor: number;
  /** How often it went to another window than before, up to 255; now and then of another access. */
  readonly moves: number;
}

/** The accesses of a block that were executed; `header`: where its records are. */
export function predictions(host: HostMemory, header: number, { ops }: RecordNotes): readonly Prediction[] {
  const out: Prediction[] = [];
  ops.forEach((op, index) => {
    const form = op?.row.form;
    if (!op || (form !== 'load' && form !== 'store')) return;
    const record = header + HEADER_BYTES + RECORD_BYTES * index;
    const key = HANDLER_KEYS[host.u16[record >> 1]!] ?? '';
    if (!key.startsWith(`${op.op}:`)) return;
    const moves = host.u8[MOVES.start + ((record >> 4) & (MOVES.count - 1))]!;
    out.push({ op, descriptor: host.u16[(record + 6) >> 1]!, moves });
  });
  return out;
}

/**
 * Turns the first record of a dropped block into a stub for its address: links that lead here find
 * the way again.
 */
export function writeDropped(host: HostMemory, header: number, address: bigint): void {
  host.u32[header >> 2] = 0;
  host.u32[(header + 12) >> 2] = 0;
  const record = header + HEADER_BYTES;
  host.u16[record >> 1] = EXIT_HANDLER;
  host.u16[(record >> 1) + 1] = reasonNumber('untranslated');
  host.u64[(record + 8) >> 3] = address;
}

/** Turns the first record of a dropped block into a jump to the one that replaced it. */
export function writeForward(host: HostMemory, header: number, target: number): void {
  const record = header + HEADER_BYTES;
  host.u16[record >> 1] = JMP_HANDLER;
  host.u32[(record + 8) >> 2] = target;
}

/**
 * Writes the trampoline that goes on at `record` after paying for `count` instructions, and returns
 * its header.
 */
export function writeTrampoline(host: HostMemory, record: number, count: number): number {
  const header = CONTROL.trampoline;
  host.u32[(header + 12) >> 2] = count;
  const at = header + HEADER_BYTES;
  host.u16[at >> 1] = GOTO_HANDLER;
  host.u32[(at + 8) >> 2] = record;
  return header;
}
