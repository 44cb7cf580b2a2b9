/**
 * The code of one block of a region: its ops, the stops in front of those that may not go on, and
 * its way to the blocks that follow.
 */
import { AccessCode, groupAccesses } from './access-code.js';
import type { Group } from './access-code.js';
import { emitFloat } from './float-code.js';
import { compareOpcode, knownField, knownTest, recordTest } from './functions.js';
import { CONTROL } from './host.js';
import { INLINED, isInlined } from './inlined.js';
import { I32, I64, recordCode } from '../machine/ir.js';
import type { AnyKind, Block, FunctionName, Op, Operand, OpRow, RecordTest } from '../machine/ir.js';
import type { RegionCode } from './region-code.js';
import type { StopName } from './region-frames.js';
import { mayExit } from './passes.js';
import { passKinds } from './record-kinds.js';
import type { RecordKinds } from './record-kinds.js';
import { readsOf, SlotSet, writesOf } from './region-flow.js';
import type { GraphEdge } from './region-graph.js';
import type { RegionBlock } from './regions.js';
import type { Code } from './wasm.js';
import type { Address } from '../units.js';

/** Where a block stands in its region. */
export interface BlockPlace {
  readonly block: RegionBlock;
  /** What may be dirty where it begins. */
  readonly dirty: SlotSet;
  /** What is known of condition records there. */
  readonly kinds: RecordKinds;
  /** Fuel that is needed from here on where the region can be begun here; null where it cannot. */
  readonly cost: number | null;
  /** Instructions on the only way here that are not paid yet. */
  readonly owed: number;
  /** Leaves what is owed to a block to which no other way leads; false where that cannot be. */
  readonly leavesDebt: (block: number, debt: number) => boolean;
  /** To those successors that are in the region, in their order. */
  readonly edges: readonly GraphEdge[];
  /** Goes along an edge; nothing behind is reached. */
  readonly follow: (edge: GraphEdge) => void;
  /** What is in locals there. */
  readonly resident: SlotSet;
  /** What is in locals where another block begins, and what is needed from there on. */
  readonly begin: (block: number) => { readonly resident: SlotSet; readonly live: SlotSet };
}

type Form<F extends OpRow['form']> = Extract<OpRow, { readonly form: F }>;
type End<K extends Block['terminator']['kind']> = Extract<Block['terminator'], { readonly kind: K }>;

/** The end of a block for which the code stops, and how many of its instructions are left then. */
interface FinalStop {
  readonly place: Address;
  readonly refund: number;
}

/** `v128.const`, which compilers keep in registers and look into. */
function vectorConstant(low: bigint, high: bigint): readonly number[] {
  const halves = BigUint64Array.of(BigInt.asUintN(64, low), BigInt.asUintN(64, high));
  return [0xfd, 0x0c, ...new Uint8Array(halves.buffer)];
}

const ASKED: Partial<Record<FunctionName, RecordTest>> = { testlt: 'lt', testgt: 'gt', testeq: 'eq' };

export class BlockCode {
  private readonly code: Code;
  private readonly accesses: AccessCode;
  private readonly groups: ReadonlyMap<Op, Group>;
  private readonly instructions: readonly Address[];
  private readonly registers: number;
  /** What may be dirty behind what was written so far. */
  private dirty: SlotSet;
  /** What is in locals there. */
  private resident: SlotSet;
  /** What is known of condition records there. */
  private readonly kinds: Map<number, AnyKind>;
  private nextEdge = 0;
  /** Instructions that are not paid, those of the block among them. */
  private debt: number;
  /** The op just before. */
  private previous: Op | null = null;
  private nextSuccessor = 0;
  /** The places at which the code may stop, by what is dirty there. */
  private readonly levels: SlotSet[] = [];
  private readonly levelOf = new Map<Op, number>();
  private leave: ReturnType<RegionCode['openExits']> = () => undefined;
  /** Accesses that each instruction has made. */
  private readonly ordinals = new Map<number, number>();

  constructor(
    private readonly region: RegionCode,
    private readonly place: BlockPlace,
  ) {
    const { context } = region;
    this.code = region.code;
    this.accesses = new AccessCode(region);
    this.instructions = place.block.block.instructions;
    this.groups = groupAccesses(context, place.block.ops, this.instructions);
    this.registers = context.slots.firstTemporary;
    this.debt = place.owed + this.instructions.length;
    this.dirty = place.dirty.copy();
    this.resident = place.resident.copy();
    this.kinds = new Map(place.kinds);
  }

  /** Writes the block. */
  write(): void {
    const { code, levels } = this;
    const { block, ops } = this.place.block;
    const final = finalStop(block);
    this.findExits(final !== null);
    this.region.beginBlock();
    const done = levels.length > 0 && !final ? code.block() : 0;
    this.leave = this.region.openExits(levels);
    this.askFuel();
    for (const op of ops) {
      readsOf(op, this.need);
      // What is written under a condition is what it was otherwise.
      if (op.op === 'recif') writesOf(op, this.need);
      this.writeOp(op, op.row);
      this.previous = op;
      passKinds(this.kinds, op);
      writesOf(op, (slot) => {
        if (slot >= this.registers) return;
        this.dirty.add(slot);
        this.resident.add(slot);
      });
    }
    if (final) {
      this.exit(levels.length - 1, 'exit', final.place, final.refund);
      this.region.closeExits(levels);
      return;
    }
    if (levels.length > 0) {
      code.br(done);
      this.region.closeExits(levels);
      code.end();
    }
    this.writeEnd(block.terminator);
  }

  // ----------------------------------------------------------------------------------------- stops

  /** Finds where the block may stop: at its beginning, before ops, and at its end. */
  private findExits(stopsAtEnd: boolean): void {
    const { levels, registers } = this;
    const dirty = this.place.dirty.copy();
    let changed = false;
    const exitHere = (): number => {
      if (changed || levels.length === 0) levels.push(dirty.copy());
      changed = false;
      return levels.length - 1;
    };
    if (this.place.cost !== null) exitHere();
    for (const op of this.place.block.ops) {
      const group = this.groups.get(op);
      if (mayExit(op) && op.op !== 'leavez' && (!group || group.first === op)) this.levelOf.set(op, exitHere());
      writesOf(op, (slot) => {
        if (slot >= registers || dirty.has(slot)) return;
        dirty.add(slot);
        changed = true;
      });
    }
    if (stopsAtEnd) exitHere();
  }

  private askFuel(): void {
    const { code, region } = this;
    const { cost, block } = this.place;
    if (cost === null) return;
    code.get(region.fuel).i32(cost).op(I32.lt).if();
    this.exit(0, 'fuel', block.block.address, this.debt);
    code.end();
  }

  /** Pays what was executed so far. */
  private pay(): void {
    if (this.debt > 0) this.code.get(this.region.fuel).i32(this.debt).op(I32.sub).set(this.region.fuel);
  }

  /** Stops with so many instructions that were not executed. */
  private exit(level: number, reason: StopName, place: Address, refund: number): void {
    this.leave(level, reason, place, refund - this.debt);
  }

  /** Stops before the instruction of `op`, when the i32 on the stack is not 0. */
  private stopIf(op: Op, reason: StopName): void {
    const { code, instructions } = this;
    code.if();
    this.exit(this.levelOf.get(op)!, reason, instructions[op.at]!, instructions.length - op.at);
    code.end();
  }

  // ------------------------------------------------------------------------------------------- ops

  /** Sees to it that a slot is in its local. */
  private readonly need = (slot: number): void => {
    if (slot >= this.registers || this.resident.has(slot)) return;
    this.region.loadSlot(slot);
    this.resident.add(slot);
  };

  /** Goes along an edge: what is in locals becomes what it is there. */
  private follow(edge: GraphEdge): void {
    const { region, resident } = this;
    const there = this.place.begin(edge.block);
    region.storeSlots(this.dirty.without(there.resident).common(there.live).slots());
    region.loadSlots(there.resident.without(resident));
    if (!this.place.leavesDebt(edge.block, this.debt)) this.pay();
    this.place.follow(edge);
  }

  private writeOp(op: Op, row: OpRow): void {
    const { code, region } = this;
    switch (row.form) {
      case 'unary':
      case 'binary':
      case 'float':
        this.writeComputed(op, row);
        break;
      case 'unit':
        this.writeUnit(op, row);
        break;
      case 'select':
        region.value(op.a);
        region.value(op.b);
        this.pushIsSet(op.c);
        code.select();
        region.assign(op.d, 'i64');
        break;
      case 'record':
        this.writeRecord(op, row);
        break;
      case 'slots':
        this.writeSlots(op, row);
        break;
      case 'aligned':
      case 'check':
        region.value(op.a);
        region.value(op.b);
        code.op(I64.and).i64(0n).op(I64.ne);
        this.stopIf(op, 'exit');
        break;
      case 'leave':
        this.writeLeave(op);
        break;
      case 'load':
      case 'store':
        this.writeAccess(op, row);
        break;
      default:
        row satisfies never;
    }
  }

  private writeComputed(op: Op, row: Form<'unary' | 'binary' | 'float'>): void {
    const { code, region } = this;
    if (row.form === 'float') {
      this.writeFloat(op, row);
    } else if (op.op === 'join64' && typeof op.a === 'bigint' && typeof op.b === 'bigint') {
      code.raw(vectorConstant(op.a, op.b));
    } else if (row.call !== undefined && isInlined(row.call)) {
      INLINED[row.call]({
        code,
        push: (operand) => {
          region.value(operand === 0 ? op.a : op.b);
        },
        local: (index) => region.spare(index),
      });
    } else {
      if (row.before !== undefined) code.raw(row.before);
      region.value(op.a, row.type);
      code.raw(row.a);
      if (row.form === 'binary') {
        region.value(op.b, row.second ?? row.type);
        code.raw(row.b);
      }
      if (row.call !== undefined) code.call(region.context.functionIndex(row.call));
      code.raw(row.both);
    }
    region.assign(op.d, row.d);
  }

  /** What a condition record is asked is written out: mostly its kind is known to the compiler. */
  private writeSlots(op: Op, row: Form<'slots'>): void {
    const { code, region } = this;
    const test = ASKED[row.call];
    const kind = row.call === 'testcr' ? this.kinds.get(Number(op.a)) : undefined;
    if (test !== undefined) {
      this.pushTest(op, test);
      code.op(I64.extendU);
    } else if (kind === undefined || !knownField(code, kind, this.pushField(op))) {
      for (let i = 0; i < row.slots; i++) region.value(Number(op.a) + i);
      code.call(region.context.functionIndex(row.call));
    }
    region.assign(op.d, 'i64');
  }

  private pushField(op: Op): (field: number) => void {
    return (field) => {
      this.region.value(Number(op.a) + field);
    };
  }

  /** Pushes what a record answers, as an i32. */
  private pushTest(op: Op, test: RecordTest): void {
    const kind = this.kinds.get(Number(op.a));
    const push = this.pushField(op);
    if (kind === undefined || !knownTest(this.code, test, kind, push)) recordTest(this.code, test, push);
  }

  private writeFloat(op: Op, row: Form<'float'>): void {
    const { code, region } = this;
    emitFloat(row, {
      code,
      push: (operand) => {
        region.value([op.a, op.b, op.c][operand]!, row.type);
      },
      pushMode: () => {
        region.value(op.mode);
      },
      scratch: (type) => region.scratch(type),
      fuses: region.context.fuses,
      call: (name) => {
        code.call(region.context.functionIndex(name));
      },
      demand: () => {
        code.op(I32.eqz);
        this.stopIf(op, 'exit');
      },
    });
  }

  private writeUnit(op: Op, row: Form<'unit'>): void {
    const { code, region } = this;
    region.value(op.a);
    region.value(op.b);
    code.call(region.context.functionIndex(row.call)).write(region.wide);
    code.read(region.wide).i64(0n).op(I64.lt).rarely();
    this.stopIf(op, 'exit');
    code.get(region.wide);
    region.assign(op.d, 'i64');
  }

  private writeRecord(op: Op, row: Form<'record'>): void {
    const { code, region } = this;
    if (row.guarded) {
      region.value(op.c);
      code.i64(0n).op(I64.ne).if();
    }
    // In this order, as tier 0 does it: the operands may be fields of the record.
    code.i64(BigInt(recordCode(op.kind)));
    region.assign(op.d, 'i64');
    region.value(op.a);
    region.assign(op.d + 1, 'i64');
    region.value(op.b);
    region.assign(op.d + 2, 'i64');
    if (row.guarded) code.end();
  }

  /**
   * Pushes an i32 that is 0 when a slot is. Of a comparison just before the operands are compared
   * again: engines do not look through its result as a number.
   */
  private pushIsSet(slot: Operand): void {
    const { code, region, previous } = this;
    const row = previous?.row;
    const isOwn = previous?.d === slot && previous.a !== slot && previous.b !== slot;
    const test = isOwn && row?.form === 'slots' ? ASKED[row.call] : undefined;
    if (previous && test !== undefined) {
      this.pushTest(previous, test);
      return;
    }
    if (isOwn && row?.form === 'binary' && row.type === 'i64' && row.call === undefined) {
      const [compare, extended] = row.both;
      if (compare !== undefined && extended === I64.extendU && row.both.length === 2) {
        region.value(previous.a);
        code.raw(row.a);
        region.value(previous.b);
        code.raw(row.b).op(compare);
        return;
      }
    }
    region.value(slot);
    code.i64(0n).op(I64.ne);
  }

  private writeLeave(op: Op): void {
    const { code } = this;
    this.pushIsSet(op.a);
    code.op(I32.eqz);
    if (op.op === 'guard') {
      this.stopIf(op, 'exit');
      return;
    }
    code.if();
    this.goOn(BigInt(op.c));
    code.end();
  }

  private writeAccess(op: Op, row: Form<'load' | 'store'>): void {
    const ordinal = this.ordinals.get(op.at) ?? 0;
    this.ordinals.set(op.at, ordinal + 1);
    const site = this.region.context.site(this.instructions[op.at]!, ordinal, op);
    this.accesses.emit(op, row, this.groups.get(op), site, () => {
      this.stopIf(op, 'miss');
    });
  }

  // ---------------------------------------------------------------------------------- what follows

  /** Goes along the next of the successors; nothing behind is reached. */
  private goOn(address: Address): void {
    const { successors } = this.place.block;
    if (successors[this.nextSuccessor++]! >= 0) this.follow(this.place.edges[this.nextEdge++]!);
    else {
      this.pay();
      this.region.leaveFor(address, this.dirty);
    }
  }

  /**
   * Goes to the one of the region's targets that the value of a slot is; goes on here when it is
   * none.
   */
  private chooseTarget({ s, mask }: { readonly s: number; readonly mask: bigint }): void {
    const { region, code } = this;
    const { targets } = this.place.block;
    region.value(s);
    code.i64(mask).op(I64.and).set(region.target);
    region.choose(targets, (target) => {
      this.follow(this.place.edges[this.nextEdge + targets.indexOf(target)]!);
    });
    this.nextEdge += targets.length;
    this.nextSuccessor += targets.length;
  }

  private writeEnd(terminator: Block['terminator']): void {
    const { code, region } = this;
    if (terminator.kind === 'br')
      for (const each of [terminator.a, terminator.b]) if (typeof each === 'number') this.need(each);
    if ('s' in terminator) this.need(terminator.s);
    switch (terminator.kind) {
      case 'jmp':
        this.goOn(terminator.pc);
        break;
      case 'br':
        this.writeBranch(terminator);
        break;
      case 'call':
        this.writeCall(terminator);
        break;
      case 'calli':
        this.chooseTarget(terminator);
        this.pay();
        region.storeForCall(this.dirty);
        code.get(region.target);
        region.pushHanded();
        code.call(region.context.functionIndex('goto'));
        this.goOnBehindCall(terminator.ret);
        break;
      case 'ret':
        this.chooseTarget(terminator);
        this.pay();
        region.storeSlots(this.dirty.slots());
        region.storeFuel();
        // An address may look like a stop.
        code.i32(0).get(region.target).memory([I64.store], CONTROL.place);
        code.get(region.target);
        region.returnResult();
        break;
      case 'ind':
        this.writeJump(terminator);
        break;
      case 'helper':
      case 'trap':
      case 'sync':
      case 'unknown':
      case 'fetch':
        // `finalStop`.
        break;
      default:
        terminator satisfies never;
    }
  }

  private writeBranch({ a, b, condition, width, pc, next }: End<'br'>): void {
    const { code, region } = this;
    if (b === 0n && width === 64 && (condition === 'ne' || condition === 'eq')) {
      this.pushIsSet(a);
      if (condition === 'eq') code.op(I32.eqz);
    } else {
      region.value(a);
      if (width === 32) code.op(I32.wrap);
      region.value(b);
      if (width === 32) code.op(I32.wrap);
      code.op(compareOpcode(condition, width));
    }
    code.if();
    this.goOn(pc);
    code.end();
    this.goOn(next);
  }

  private writeCall({ pc, ret }: End<'call'>): void {
    const { code, region } = this;
    if (this.place.block.targets.length > 0) {
      this.goOn(pc);
      return;
    }
    this.pay();
    region.storeForCall(this.dirty);
    const member = region.context.memberIndex(pc);
    if (member === null) region.storePlace(pc);
    code.i32(0);
    region.pushHanded();
    if (member === null) code.i32(region.context.tableIndex(pc)).callIndirect(0);
    else code.call(member);
    this.goOnBehindCall(ret);
  }

  private writeJump(terminator: End<'ind'>): void {
    const { code, region } = this;
    const { target } = region;
    this.chooseTarget(terminator);
    this.pay();
    region.storeForCall(this.dirty);
    code.i32(0).i64(this.instructions.at(-1)!).memory([I64.store], CONTROL.site);
    code.get(target);
    region.pushHanded();
    code.call(region.context.functionIndex('jump')).return();
  }

  /**
   * The callee's results are on the stack. Goes on when it returned to `ret`; returns them
   * otherwise.
   */
  private goOnBehindCall(ret: Address): void {
    const { code, region } = this;
    code.set(region.fuel).write(region.target).read(region.target).i64(ret).op(I64.ne).if();
    code.get(region.target);
    region.returnResult();
    code.end();
    region.takePointer();
    this.debt = 0;
    this.dirty = new SlotSet(this.registers);
    this.resident = new SlotSet(this.registers);
    this.goOn(ret);
  }
}

/** Where a block stops at its end; null when it goes on. */
function finalStop({ terminator, instructions, end }: Block): FinalStop | null {
  switch (terminator.kind) {
    case 'helper':
    case 'trap':
    case 'sync':
      return { place: instructions.at(-1)!, refund: 1 };
    case 'unknown':
    case 'fetch':
      return { place: end, refund: 0 };
    case 'call':
    case 'calli':
      return isStop(terminator.ret) ? { place: instructions.at(-1)!, refund: 1 } : null;
    case 'jmp':
    case 'br':
    case 'ret':
    case 'ind':
      return null;
    default:
      return terminator satisfies never;
  }
}

/** True for addresses that cannot be told from stops. */
function isStop(address: Address): boolean {
  return BigInt.asIntN(64, address) < 0n && BigInt.asIntN(64, address) >= -16n;
}
