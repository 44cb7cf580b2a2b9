/**
 * The code of the compiled tier: a region (`regions.ts`) becomes one WebAssembly function, from the
 * same op table as tier 0. Slots are locals; where a function is begun it loads what is live, where
 * it leaves it stores what may be dirty.
 *
 *   region(selector i32, stack i32) -> i64    the guest address at which to go on, or one of `STOP`
 *
 * Only the fast path is here. An access outside the window that it was predicted in, a check that
 * fails, a helper, a trap, a lack of fuel: the code stores its dirty registers, writes where it
 * stands to the control block and returns a stop. All frames of the calling regions return too, for
 * a stop returns to none of them. Tier 0 or TypeScript goes on at that very instruction.
 *
 * **Fuel** is a local that each block lowers by its instructions. It is looked at where the region
 * can be begun (which every loop contains): the code stops unless there is enough for the longest
 * way to the next such place. So it never becomes negative, counts are exact, and tier 0 executes
 * the last few instructions of a budget.
 *
 * **Calls** that go on in no copy of the callee (`regions.ts`) store everything, look up the callee
 * in a table by the number of its address and call it. The caller goes on when the callee came back
 * to the return address and returns its result otherwise: a caller further up may find that the
 * address is its own. `stack` bounds the depth: a region that has too little left stops, and is
 * begun anew on an empty stack.
 *
 * **Accesses** of a block with one base and constant offsets share one check where they are
 * predicted in one window: at the first, for all. What is compared with are cells in memory that
 * say how far a window reaches (`WindowCells`): they become 0 when the window is gone, forbidden or
 * watched, so compiled code needs not be dropped then. Accesses that miss often ask a function that
 * looks through all windows.
 */
import { CELL, CONTROL, LOOKUP_TABLE, WINDOW } from './host.js';
import { compareOpcode } from './functions.js';
import { emitFloat } from './float-code.js';
import { F64, I32, I64, OPS, recordCode, V128 } from '../machine/ir.js';
import type { AccessRow, Block, FunctionName, Op, Operand, SlotLayout, SlotType } from '../machine/ir.js';
import { buildGraph, costsOf, flowOf, mayExit, readsOf, SlotSet, structureOf, writesOf } from './regions.js';
import type { Flow, GraphEdge, Region, RegionGraph, Structure } from './regions.js';
import { Code } from './wasm.js';
import type { ValueType, WasmFunction } from './wasm.js';
import type { Address } from '../units.js';

/**
 * What a region returns instead of an address. Addresses of the guest may have these values:
 * code that returns one writes it to the control block too, and all of these mean to go on there.
 */
const STOP = {
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

/** Where an access is expected. */
export type Site =
  | {
      readonly kind: 'window';
      /** Guest and host address of its first byte. */
      readonly base: Address;
      readonly host: number;
      /** Host address of its cells. */
      readonly cells: number;
    }
  /** It goes here and there, or to memory that the page map decides on. */
  | { readonly kind: 'search' };

export interface CompileContext {
  readonly slots: SlotLayout;
  readonly addressBits: 32 | 64;
  /** Offset of the state block. */
  readonly state: number;
  /** The site of access number `ordinal` of an instruction. */
  site(instruction: Address, ordinal: number, op: Op): Site;
  /** Number of the table entry of the region of an address. */
  tableIndex(address: Address): number;
  /** Number of a function in the module. */
  functionIndex(name: FunctionName | 'resolve' | 'goto'): number;
  /** Several accesses share a check at `first`: what to blame for a miss. */
  group(first: Address, members: readonly Address[]): void;
}

/**
 * Accesses that share a check are this far apart at most, bytes: the largest span that cells know.
 */
const MAX_SPAN = CELL.spans.at(-1)!;
/** What a frame of V8 takes beside its locals, bytes; generous. */
const FRAME_BYTES = 384;

const LOAD: Readonly<Record<SlotType, readonly number[]>> = { i64: [I64.load], f64: [F64.load], v128: V128.load };
const STORE: Readonly<Record<SlotType, readonly number[]>> = { i64: [I64.store], f64: [F64.store], v128: V128.store };

/** Type of regions, and of `goto` (which takes an address instead of a selector). */
const SELECT = 0;
const STACK = 1;
const PARAMETERS = 2;

/** One check for several accesses. */
interface Group {
  readonly site: Extract<Site, { kind: 'window' }>;
  readonly first: Op;
  /** Offset of `first` in terms of the root. */
  readonly origin: bigint;
  /** Offsets of the first byte and behind the last one, relative to `origin`. */
  low: number;
  high: number;
  writes: boolean;
  readonly members: Op[];
  local: number;
}

export class RegionCompiler {
  private readonly code = new Code(1024);
  private readonly locals: ValueType[] = [];
  private readonly slotLocals = new Map<number, number>();
  private readonly scratches = new Map<ValueType, number>();
  private readonly fuel: number;
  private readonly target: number;
  private readonly wide: number;
  private readonly narrow: number;
  private readonly flow: Flow;
  private readonly costs: readonly number[];
  private readonly graph: RegionGraph;
  private readonly structure: Structure;
  private readonly labels = new Map<number, number>();
  private readonly loopLabels = new Map<number, number>();
  private readonly entries: ReadonlySet<number>;
  /** Filled in when the number of locals is known. */
  private frameBytes = 0;

  constructor(
    private readonly region: Region,
    private readonly context: CompileContext,
  ) {
    this.fuel = this.local('i32');
    this.target = this.local('i64');
    this.wide = this.local('i64');
    this.narrow = this.local('i32');
    this.flow = flowOf(region, context.slots.firstTemporary);
    this.costs = costsOf(region);
    this.graph = buildGraph(region);
    this.structure = structureOf(this.graph);
    this.entries = new Set(region.entries);
  }

  private local(type: ValueType): number {
    this.locals.push(type);
    return PARAMETERS + this.locals.length - 1;
  }

  /** Compiles the region. */
  compile(name: string): WasmFunction {
    // All locals first: how much stack a frame takes stands in the code. Groups add a few, which
    // are counted here.
    let accesses = 0;
    for (const { ops } of this.region.blocks) {
      for (const op of ops) {
        const { form } = OPS[op.op];
        if (form === 'load' || form === 'store') accesses++;
        readsOf(op, (slot) => this.slotLocal(slot));
        writesOf(op, (slot) => this.slotLocal(slot));
      }
    }
    this.frameBytes = FRAME_BYTES + 8 * (2 * this.locals.length + Math.min(accesses, 100));
    this.tree(this.graph.root);
    this.code.unreachable();
    return { parameters: ['i32', 'i32'], results: ['i64'], locals: this.locals, code: this.code, export: name };
  }

  // ----------------------------------------------------------------------------------------- slots

  /** A local for a value that is used at once. */
  private scratch(type: ValueType): number {
    let local = this.scratches.get(type);
    if (local === undefined) {
      local = this.local(type);
      this.scratches.set(type, local);
    }
    return local;
  }

  private slotLocal(slot: number): number {
    let local = this.slotLocals.get(slot);
    if (local === undefined) {
      local = this.local(this.context.slots.type(slot));
      this.slotLocals.set(slot, local);
    }
    return local;
  }

  private offset(slot: number): number {
    return this.context.state + this.context.slots.offset(slot);
  }

  private value(operand: Operand, type: SlotType = 'i64'): void {
    const { code } = this;
    if (typeof operand === 'bigint') {
      code.i64(operand);
      return;
    }
    code.read(this.slotLocal(operand));
    const own = this.context.slots.type(operand);
    if (own === type) return;
    code.op(type === 'f64' ? 0xbf : 0xbd);
  }

  /** Takes the value on the stack. */
  private assign(slot: number, type: SlotType): void {
    const { code } = this;
    const own = this.context.slots.type(slot);
    if (own !== type) code.op(own === 'f64' ? 0xbf : 0xbd);
    code.write(this.slotLocal(slot));
  }

  private storeSlots(slots: readonly number[]): void {
    const { code } = this;
    for (const slot of slots) {
      const local = this.slotLocals.get(slot);
      if (local === undefined) continue;
      code.i32(0).get(local).memory(STORE[this.context.slots.type(slot)], this.offset(slot));
    }
  }

  private loadSlots(set: SlotSet): void {
    const { code } = this;
    for (const slot of set.slots()) {
      code.i32(0).memory(LOAD[this.context.slots.type(slot)], this.offset(slot)).set(this.slotLocal(slot));
    }
  }

  private storeFuel(refund = 0): void {
    const { code } = this;
    code.i32(0).get(this.fuel);
    if (refund !== 0) code.i32(refund).op(I32.add);
    code.memory([I32.store], CONTROL.fuel);
  }

  private storePlace(address: Address): void {
    this.code.i32(0).i64(address).memory([I64.store], CONTROL.place);
  }

  /**
   * The exits of a block. What is dirty only grows in it, so all exits share one chain of stores:
   * the exit of level n stores what was written after level n - 1 and goes on there. Places and
   * refunds are in locals.
   */
  private openExits(
    levels: readonly SlotSet[],
  ): (level: number, reason: StopName, place: Address, refund: number) => void {
    const { code } = this;
    const labels = levels.map(() => code.block());
    return (level, reason, place, refund) => {
      code.i64(place).set(this.target);
      code.i32((-STOP[reason] << 8) | refund).set(this.narrow);
      code.br(labels[level]!);
    };
  }

  private closeExits(levels: readonly SlotSet[]): void {
    const { code } = this;
    for (let level = levels.length - 1; level >= 0; level--) {
      code.end();
      const before = levels[level - 1];
      this.storeSlots(levels[level]!.slots().filter((slot) => before?.has(slot) !== true));
    }
    code.i32(0).get(this.fuel).get(this.narrow).i32(0xff).op(I32.and).op(I32.add).memory([I32.store], CONTROL.fuel);
    code.i32(0).get(this.target).memory([I64.store], CONTROL.place);
    code.i64(0n).get(this.narrow).i32(8).op(I32.shr).op(I64.extendU).op(I64.sub).return();
  }

  // ------------------------------------------------------------------------------------- structure

  private tree(node: number): void {
    const { code } = this;
    if (!this.structure.isLoop[node]) {
      this.within(node, 0);
      return;
    }
    this.loopLabels.set(node, code.loop());
    this.within(node, 0);
    code.end();
  }

  /**
   * The node's code inside blocks at whose ends stand the nodes that it dominates and that several
   * ways lead to.
   */
  private within(node: number, next: number): void {
    const { code } = this;
    const merge = this.structure.merges[node]![next];
    if (merge === undefined) {
      this.emit(node);
      return;
    }
    this.labels.set(merge, code.block());
    this.within(node, next + 1);
    code.end();
    this.tree(merge);
  }

  /** Goes along an edge; nothing behind is reached. */
  private follow(from: number, edge: GraphEdge): void {
    const { code } = this;
    if (edge.select !== -1) code.i32(edge.select).set(SELECT);
    const { order, isMerge } = this.structure;
    if (order[edge.node]! <= order[from]!) code.br(this.loopLabels.get(edge.node)!);
    else if (isMerge[edge.node]) code.br(this.labels.get(edge.node)!);
    else this.tree(edge.node);
  }

  private emit(node: number): void {
    const { kind, edges, block, plain } = this.graph.nodes[node]!;
    switch (kind) {
      case 'root':
        this.emitRoot(node);
        return;
      case 'dispatch': {
        // The selector of a target is its block's number and one.
        const keys = edges.map((edge) => edge.block + 1);
        const arms = plain ? edges.slice(1) : edges;
        this.emitTable(
          plain ? keys.slice(1) : keys,
          arms.map((edge) => () => {
            this.follow(node, edge);
          }),
          plain
            ? () => {
                this.follow(node, edges[0]!);
              }
            : null,
        );
        return;
      }
      case 'block':
        this.emitBlock(node, block);
        return;
      default:
        kind satisfies never;
    }
  }

  /**
   * Goes on by the selector: to the arm whose key it is, to `otherwise` (default: nowhere) if none.
   */
  private emitTable(keys: readonly number[], arms: readonly (() => void)[], otherwise: (() => void) | null): void {
    const { code } = this;
    if (keys.length === 0 && otherwise) {
      otherwise();
      return;
    }
    if (keys.length === 1 && otherwise) {
      code.get(SELECT).i32(keys[0]!).op(I32.eq).if();
      arms[0]!();
      code.end();
      otherwise();
      return;
    }
    const last = code.block();
    const labels = arms.map(() => code.block());
    labels.reverse();
    const table = new Array<number>(Math.max(...keys) + 1).fill(last);
    keys.forEach((key, index) => {
      table[key] = labels[index]!;
    });
    code.get(SELECT).brTable(table, last);
    arms.forEach((arm) => {
      code.end();
      arm();
    });
    code.end();
    if (otherwise) otherwise();
    else code.unreachable();
  }

  private emitRoot(node: number): void {
    const { code } = this;
    code.get(STACK).i32(this.frameBytes).op(I32.lt).if();
    code.i64(BigInt(STOP.lookup)).return();
    code.end();
    code.get(STACK).i32(this.frameBytes).op(I32.sub).set(STACK);
    code.i32(0).memory([I32.load], CONTROL.fuel).set(this.fuel);
    const { edges } = this.graph.nodes[node]!;
    const enter = (edge: GraphEdge) => (): void => {
      this.loadSlots(this.flow.live[edge.block]!);
      this.follow(node, edge);
    };
    const rest = edges.slice(1);
    this.emitTable(
      rest.map((edge) => edge.block + 1),
      rest.map(enter),
      enter(edges[0]!),
    );
  }

  // ---------------------------------------------------------------------------------------- blocks

  private emitBlock(node: number, index: number): void {
    const { code, region, flow } = this;
    const { block, ops, successors, targets } = region.blocks[index]!;
    let dirty = flow.dirty[index]!.copy();
    const registers = this.context.slots.firstTemporary;
    const count = block.instructions.length;
    const { edges } = this.graph.nodes[node]!;
    const { terminator } = block;
    let nextEdge = 0;
    let nextSuccessor = 0;
    /** Goes along the next of the successors; nothing behind is reached. */
    const goOn = (address: Address): void => {
      if (successors[nextSuccessor++]! >= 0) this.follow(node, edges[nextEdge++]!);
      else this.leaveFor(address, dirty);
    };
    /**
     * Goes to the one of the region's targets that `this.target` is; goes on here when it is none.
     */
    const chooseTarget = (): void => {
      this.choose(targets, (target) => {
        this.follow(node, edges[nextEdge + targets.indexOf(target)]!);
      });
      nextEdge += targets.length;
      nextSuccessor += targets.length;
    };
    const groups = this.groupsOf(ops, block.instructions);
    const isEntry = this.entries.has(index);
    const final = this.finalStop(block);
    // The places at which the code may stop, by what is dirty there.
    const levels: SlotSet[] = [];
    const levelOf = new Map<Op | null, number>();
    const exitAt = (op: Op | null, changed: boolean): void => {
      if (changed || levels.length === 0) levels.push(dirty.copy());
      levelOf.set(op, levels.length - 1);
    };
    if (isEntry) exitAt(null, true);
    const entryLevel = 0;
    let changed = false;
    for (const op of ops) {
      const group = groups.get(op);
      if (mayExit(op) && op.op !== 'leavez' && (!group || group.first === op)) {
        exitAt(op, changed);
        changed = false;
      }
      writesOf(op, (slot) => {
        if (slot >= registers || dirty.has(slot)) return;
        dirty.add(slot);
        changed = true;
      });
    }
    if (final) exitAt(null, changed);
    dirty = flow.dirty[index]!.copy();
    const done = levels.length > 0 && !final ? code.block() : 0;
    const exit = this.openExits(levels);

    if (isEntry) {
      code.get(this.fuel).i32(this.costs[index]!).op(I32.lt).if();
      exit(entryLevel, 'fuel', block.address, 0);
      code.end();
    }
    if (count > 0) code.get(this.fuel).i32(count).op(I32.sub).set(this.fuel);

    const ordinals = new Map<number, number>();
    /** Stops before the instruction of `op`, when the i32 on the stack is not 0. */
    const stopIf = (op: Op, reason: StopName): void => {
      code.if();
      exit(levelOf.get(op)!, reason, block.instructions[op.at]!, count - op.at);
      code.end();
    };
    for (const op of ops) {
      const row = OPS[op.op];
      switch (row.form) {
        case 'unary':
          this.value(op.a, row.type);
          code.raw(row.a);
          if (row.call !== undefined) code.call(this.context.functionIndex(row.call));
          code.raw(row.both);
          this.assign(op.d, row.d);
          break;
        case 'binary':
          this.value(op.a, row.type);
          code.raw(row.a);
          this.value(op.b, row.second ?? row.type);
          code.raw(row.b);
          if (row.call !== undefined) code.call(this.context.functionIndex(row.call));
          code.raw(row.both);
          this.assign(op.d, row.d);
          break;
        case 'select':
          this.value(op.a);
          this.value(op.b);
          this.value(op.c);
          code.i64(0n).op(I64.ne).select();
          this.assign(op.d, 'i64');
          break;
        case 'record':
          if (row.guarded) {
            this.value(op.c);
            code.i64(0n).op(I64.ne).if();
          }
          // In this order, as tier 0 does it: the operands may be fields of the record.
          code.i64(BigInt(recordCode(op.kind)));
          this.assign(op.d, 'i64');
          this.value(op.a);
          this.assign(op.d + 1, 'i64');
          this.value(op.b);
          this.assign(op.d + 2, 'i64');
          if (row.guarded) code.end();
          break;
        case 'slots':
          for (let i = 0; i < row.slots; i++) this.value(Number(op.a) + i);
          code.call(this.context.functionIndex(row.call));
          this.assign(op.d, 'i64');
          break;
        case 'aligned':
        case 'check':
          this.value(op.a);
          this.value(op.b);
          code.op(I64.and).i64(0n).op(I64.ne);
          stopIf(op, 'exit');
          break;
        case 'leave':
          this.value(op.a);
          code.op(I64.eqz);
          if (op.op === 'guard') stopIf(op, 'exit');
          else {
            code.if();
            goOn(BigInt(op.c));
            code.end();
          }
          break;
        case 'float':
          emitFloat(row, {
            code,
            push: (operand) => {
              this.value([op.a, op.b, op.c][operand]!, row.type);
            },
            pushMode: () => {
              this.value(op.mode);
            },
            scratch: (type) => this.scratch(type),
            call: (name) => {
              code.call(this.context.functionIndex(name));
            },
            demand: () => {
              code.op(I32.eqz);
              stopIf(op, 'exit');
            },
          });
          this.assign(op.d, row.d);
          break;
        case 'load':
        case 'store': {
          const ordinal = ordinals.get(op.at) ?? 0;
          ordinals.set(op.at, ordinal + 1);
          this.access(op, row, groups.get(op), this.context.site(block.instructions[op.at]!, ordinal, op), () => {
            stopIf(op, 'miss');
          });
          break;
        }
        default:
          row satisfies never;
      }
      writesOf(op, (slot) => {
        if (slot < registers) dirty.add(slot);
      });
    }

    if (final) {
      exit(levels.length - 1, 'exit', final.place, final.refund);
      this.closeExits(levels);
      return;
    }
    if (levels.length > 0) {
      code.br(done);
      this.closeExits(levels);
      code.end();
    }
    switch (terminator.kind) {
      case 'jmp':
        goOn(terminator.pc);
        break;
      case 'br': {
        this.value(terminator.a);
        if (terminator.width === 32) code.op(I32.wrap);
        this.value(terminator.b);
        if (terminator.width === 32) code.op(I32.wrap);
        code.op(compareOpcode(terminator.condition, terminator.width)).if();
        goOn(terminator.pc);
        code.end();
        goOn(terminator.next);
        break;
      }
      case 'call': {
        if (targets.length > 0) {
          goOn(terminator.pc);
          break;
        }
        this.storeSlots(dirty.slots());
        this.storeFuel();
        this.storePlace(terminator.pc);
        dirty = new SlotSet(registers);
        code.i32(0).get(STACK).i32(this.context.tableIndex(terminator.pc)).callIndirect(0);
        this.afterCall(terminator.ret, successors.at(-1)!);
        goOn(terminator.ret);
        break;
      }
      case 'calli': {
        this.value(terminator.s);
        code.i64(terminator.mask).op(I64.and).set(this.target);
        chooseTarget();
        this.storeSlots(dirty.slots());
        this.storeFuel();
        dirty = new SlotSet(registers);
        code.get(this.target).get(STACK).call(this.context.functionIndex('goto'));
        this.afterCall(terminator.ret, successors.at(-1)!);
        goOn(terminator.ret);
        break;
      }
      case 'ret':
        this.value(terminator.s);
        code.i64(terminator.mask).op(I64.and).set(this.target);
        chooseTarget();
        this.storeSlots(dirty.slots());
        this.storeFuel();
        // An address may look like a stop.
        code.i32(0).get(this.target).memory([I64.store], CONTROL.place);
        code.get(this.target).return();
        break;
      case 'ind': {
        this.value(terminator.s);
        code.i64(terminator.mask).op(I64.and).set(this.target);
        chooseTarget();
        this.storeSlots(dirty.slots());
        this.storeFuel();
        code.i32(0).i64(block.instructions.at(-1)!).memory([I64.store], CONTROL.site);
        code.get(this.target).get(STACK).call(this.context.functionIndex('goto')).set(this.target);
        code.i64(BigInt(STOP.jump)).get(this.target).get(this.target).i64(BigInt(STOP.lookup)).op(I64.eq).select();
        code.return();
        break;
      }
      case 'helper':
      case 'trap':
      case 'sync':
      case 'unknown':
      case 'fetch':
        // `final`.
        break;
      default:
        terminator satisfies never;
    }
  }

  /**
   * Where a block stops at its end and how many of its instructions are left then; null when it
   * goes on.
   */
  private finalStop({
    terminator,
    instructions,
    end,
  }: Block): { readonly place: Address; readonly refund: number } | null {
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
        return this.isStop(terminator.ret) ? { place: instructions.at(-1)!, refund: 1 } : null;
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
  private isStop(address: Address): boolean {
    return BigInt.asIntN(64, address) < 0n && BigInt.asIntN(64, address) >= -16n;
  }

  /**
   * The callee's result is on the stack. Goes on when it returned to `ret`; returns it otherwise.
   */
  private afterCall(ret: Address, successor: number): void {
    const { code } = this;
    code.write(this.target).read(this.target).i64(ret).op(I64.ne).if();
    code.get(this.target).return();
    code.end();
    code.i32(0).memory([I32.load], CONTROL.fuel).set(this.fuel);
    if (successor >= 0) this.loadSlots(this.flow.live[successor]!);
  }

  /** Leaves the region for an address at which no block of it begins. */
  private leaveFor(address: Address, dirty: SlotSet): void {
    const { code } = this;
    this.storeSlots(dirty.slots());
    this.storeFuel();
    code.i64(address).get(STACK).call(this.context.functionIndex('goto')).return();
  }

  /** Goes to the one of `targets` that is `this.target`, if any. */
  private choose(targets: readonly Address[], follow: (target: Address) => void): void {
    const { code } = this;
    if (targets.length === 0) return;
    const sorted = [...targets].sort((a, b) => (a < b ? -1 : 1));
    const low = sorted[0]!;
    const span = sorted.at(-1)! - low;
    let shift = 0n;
    while (shift < 2n && sorted.every((each) => ((each - low) & ((2n << shift) - 1n)) === 0n)) shift++;
    if (sorted.length >= 4 && span >> shift <= 600n) {
      // Distances in units of the alignment: a rotation moves what must be 0 to the top, so that it
      // is out of range.
      const miss = code.block();
      const labels = sorted.map(() => code.block());
      labels.reverse();
      const table = new Array<number>(Number(span >> shift) + 1).fill(miss);
      sorted.forEach((each, index) => {
        table[Number((each - low) >> shift)] = labels[index]!;
      });
      code.get(this.target).i64(low).op(I64.sub).i64(shift).op(I64.rotr).tee(this.wide);
      code.i64(BigInt(table.length)).op(I64.geu).brIf(miss);
      code.get(this.wide).op(I32.wrap).brTable(table, miss);
      for (const each of sorted) {
        code.end();
        follow(each);
      }
      code.end();
      return;
    }
    for (const each of sorted) {
      code.get(this.target).i64(each).op(I64.eq).if();
      follow(each);
      code.end();
    }
  }

  // -------------------------------------------------------------------------------------- accesses

  /** Which accesses share a check, by op. */
  private groupsOf(ops: readonly Op[], instructions: readonly Address[]): ReadonlyMap<Op, Group> {
    const { addressBits, slots } = this.context;
    const out = new Map<Op, Group>();
    const wrap = (value: bigint): bigint => BigInt.asUintN(addressBits, value);
    /** What is known of a slot: the value of `root` and a constant. */
    const known = new Map<number, { readonly root: number; readonly offset: bigint }>();
    let roots = 0;
    const whatIs = (slot: number): { readonly root: number; readonly offset: bigint } => {
      let value = known.get(slot);
      if (!value) {
        value = { root: ++roots, offset: 0n };
        known.set(slot, value);
      }
      return value;
    };
    const groups = new Map<string, Group>();
    const ordinals = new Map<number, number>();
    for (const op of ops) {
      const row = OPS[op.op];
      if (row.form === 'load' || row.form === 'store') {
        const ordinal = ordinals.get(op.at) ?? 0;
        ordinals.set(op.at, ordinal + 1);
        const site = this.context.site(instructions[op.at]!, ordinal, op);
        if (site.kind === 'window' && typeof op.b === 'bigint' && typeof op.a === 'number') {
          const base = whatIs(op.a);
          const at = wrap(base.offset + op.b);
          const key = `${base.root}:${site.cells}`;
          const group = groups.get(key);
          const distance = group ? Number(BigInt.asIntN(addressBits, at - group.origin)) : 0;
          const low = group ? Math.min(group.low, distance) : 0;
          const high = group ? Math.max(group.high, distance + row.bytes) : row.bytes;
          if (group && Math.abs(distance) < MAX_SPAN && high - low <= MAX_SPAN) {
            group.low = low;
            group.high = high;
            if (row.form === 'store') group.writes = true;
            group.members.push(op);
            out.set(op, group);
          } else {
            const made = { site, first: op, origin: at, low: 0, high: row.bytes, writes: row.form === 'store', members: [op], local: -1 }; // prettier-ignore
            groups.set(key, made);
            out.set(op, made);
          }
          this.distances.set(op, distance);
          if (!group || out.get(op) !== group) this.distances.set(op, 0);
        }
      }
      // Values that are another one and a constant.
      let value: { readonly root: number; readonly offset: bigint } | null = null;
      const narrow = addressBits === 32;
      if (typeof op.a === 'number') {
        const adds = op.op === 'add' || (narrow && op.op === 'add32');
        const subtracts = op.op === 'sub' || (narrow && op.op === 'sub32');
        if (op.op === 'mov' || (narrow && op.op === 'zx32')) value = whatIs(op.a);
        else if (adds && typeof op.b === 'bigint') {
          const from = whatIs(op.a);
          value = { root: from.root, offset: wrap(from.offset + op.b) };
        } else if (subtracts && typeof op.b === 'bigint') {
          const from = whatIs(op.a);
          value = { root: from.root, offset: wrap(from.offset - op.b) };
        }
      }
      writesOf(op, (slot) => known.delete(slot));
      if (value && slots.type(op.d) === 'i64') known.set(op.d, value);
    }
    for (const group of new Set(out.values())) {
      if (group.members.length < 2) continue;
      this.context.group(
        instructions[group.first.at]!,
        group.members.map((each) => instructions[each.at]!),
      );
    }
    return out;
  }

  /** Distance of an access from the first of its group. */
  private readonly distances = new Map<Op, number>();

  /** Pushes the address of an access less `minus`: an i64, or an i32 on 32-bit machines. */
  private address(op: Op, minus: bigint): void {
    const { code } = this;
    const { addressBits } = this.context;
    const narrow = addressBits === 32;
    const constants = [op.a, op.b].filter((each) => typeof each === 'bigint');
    const constant = BigInt.asIntN(
      addressBits,
      constants.reduce((sum, each) => sum + each, -minus),
    );
    let pushed = false;
    for (const each of [op.a, op.b]) {
      if (typeof each === 'bigint') continue;
      this.value(each);
      if (narrow) code.op(I32.wrap);
      if (pushed) code.op(narrow ? I32.add : I64.add);
      pushed = true;
    }
    if (pushed && constant === 0n) return;
    if (narrow) code.i32(Number(constant));
    else code.i64(constant);
    if (pushed) code.op(narrow ? I32.add : I64.add);
  }

  private access(op: Op, row: AccessRow, group: Group | undefined, site: Site, stopUnless: () => void): void {
    const { code } = this;
    const narrow = this.context.addressBits === 32;
    const isStore = row.form === 'store';
    let host: number;
    let local: number;
    if (site.kind === 'search') {
      this.address(op, 0n);
      if (narrow) code.op(I64.extendU);
      const limits = (isStore ? WINDOW.writeLimits : WINDOW.readLimits) + 8 * Math.log2(row.bytes);
      code.i32(row.bytes).i32(limits).i32(CONTROL.scratch).call(this.context.functionIndex('resolve'));
      local = this.narrow;
      code.tee(local).op(I32.eqz);
      stopUnless();
      host = 0;
    } else {
      if (!group || group.first === op) {
        const low = group ? group.low : 0;
        const high = group ? group.high : row.bytes;
        const writes = group ? group.writes : isStore;
        const span = CELL.spans.findIndex((each) => each >= high - low);
        const cell = site.cells + (writes ? CELL.write : CELL.read) + 8 * span;
        this.address(op, site.base - BigInt(low));
        if (narrow) {
          local = group && group.members.length > 1 ? this.local('i32') : this.narrow;
          code.tee(local).i32(0).memory([I32.load], cell).op(I32.geu);
          stopUnless();
        } else {
          code.tee(this.wide).i32(0).memory([I64.load], cell).op(I64.geu);
          stopUnless();
          local = group && group.members.length > 1 ? this.local('i32') : this.narrow;
          code.get(this.wide).op(I32.wrap).set(local);
        }
        if (group) group.local = local;
      } else local = group.local;
      host = site.host + (group ? this.distances.get(op)! - group.low : 0);
    }
    code.get(local);
    if (row.form === 'load') {
      code.memory(row.access, host).raw(row.swap);
      this.assign(op.d, row.type);
    } else {
      this.value(op.c, row.type);
      code.raw(row.swap).memory(row.access, host, row.lane);
    }
  }
}

/**
 * Finds the region of an address and calls it: `goto(address i64, stack i32) -> i64`. Without one
 * it returns STOP.lookup. Either way the address is in the control block.
 */
export function gotoFunction(codeShift: number): WasmFunction {
  const code = new Code();
  const [address, stack, entry, place] = [0, 1, 2, 3];
  code.i32(0).get(address).memory([I64.store], CONTROL.place);
  lookup(code, address, entry, codeShift);
  code.get(entry).memory([I64.load], LOOKUP_TABLE.start).get(address).op(I64.ne).if();
  code.i64(BigInt(STOP.lookup)).return();
  code.end();
  code
    .get(entry)
    .memory([I32.load], LOOKUP_TABLE.start + 8)
    .tee(place);
  code.i32(16).op(I32.shr).get(stack).get(place).i32(0xffff).op(I32.and).callIndirect(0);
  return { parameters: ['i64', 'i32'], results: ['i64'], locals: ['i32', 'i32'], code };
}

/**
 * Sets `entry` to the offset of the entry of an address in the lookup table. `lookupPlace` computes
 * the same.
 */
function lookup(code: Code, address: number, entry: number, codeShift: number): void {
  code.get(address).op(I32.wrap).tee(entry).i32(codeShift).op(I32.shr);
  code.get(entry).i32(codeShift + LOOKUP_TABLE.bits).op(I32.shr).op(I32.xor); // prettier-ignore
  code.i32((1 << LOOKUP_TABLE.bits) - 1).op(I32.and).i32(4).op(I32.shl).set(entry); // prettier-ignore
}

/** Host address of the lookup entry of a guest address. */
export function lookupPlace(address: Address, codeShift: number): number {
  const low = Number(address & 0xffff_ffffn);
  const hash = ((low >>> codeShift) ^ (low >>> (codeShift + LOOKUP_TABLE.bits))) & ((1 << LOOKUP_TABLE.bits) - 1);
  return LOOKUP_TABLE.start + 16 * hash;
}

/**
 * What TypeScript calls: `enter(place i32, stack i32) -> i32`, where `place` is the table index
 * and, above, the selector. Calls regions as long as they return addresses of regions; the number
 * of the stop at last.
 */
export function enterFunction(codeShift: number): WasmFunction {
  const code = new Code();
  const [place, stack, result] = [0, 1, 2];
  const loop = code.loop();
  code.get(place).i32(16).op(I32.shr).get(stack).get(place).i32(0xffff).op(I32.and).callIndirect(0).set(result);
  code.i64(0n).get(result).op(I64.sub).i64(BigInt(STOP_NAMES.length)).op(I64.leu).get(result).i64(0n).op(I64.ne);
  code.op(I32.and).if();
  code.i32(0).get(result).op(I32.wrap).op(I32.sub).return();
  code.end();
  code.i32(0).get(result).memory([I64.store], CONTROL.place);
  lookup(code, result, 3, codeShift);
  code.get(3).memory([I64.load], LOOKUP_TABLE.start).get(result).op(I64.ne).if();
  code.i32(-STOP.lookup).return();
  code.end();
  code
    .get(3)
    .memory([I32.load], LOOKUP_TABLE.start + 8)
    .set(place)
    .br(loop);
  code.end();
  code.unreachable();
  return { parameters: ['i32', 'i32'], results: ['i32'], locals: ['i64', 'i32'], code, export: 'enter' };
}

/** Fills table entries without a region. */
export function emptyFunction(): WasmFunction {
  const code = new Code();
  code.i64(BigInt(STOP.lookup));
  return { parameters: ['i32', 'i32'], results: ['i64'], locals: [], code, export: 'empty' };
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
