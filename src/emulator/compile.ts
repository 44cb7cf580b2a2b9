/**
 * The code of the compiled tier: a region (`regions.ts`) becomes one WebAssembly function, from the
 * same op table as tier 0. Slots are locals as long as they are needed (`residence.ts`); where a
 * function leaves it stores what may be dirty.
 *
 *   region(selector i32, stack i32, stack pointer i64, fuel i32) -> (i64, fuel i32)
 *
 * where the first result is the guest address at which to go on, or one of `STOP`.
 *
 * Only the fast path is here. An access outside the window that it was predicted in, a check that
 * fails, a helper, a trap, a lack of fuel: the code stores its dirty registers, writes where it
 * stands to the control block and returns a stop. All frames of the calling regions return too, for
 * a stop returns to none of them. Tier 0 or TypeScript goes on at that very instruction.
 *
 * **Fuel** is a local that blocks lower by their instructions, one for all of those in front of it
 * to which one way leads. It is looked at where the region can be begun (which every loop
 * contains): the code stops unless there is enough for the longest way to the next such place. So
 * it never becomes negative, counts are exact, and tier 0 executes the last few instructions of a
 * budget.
 *
 * **Calls** that go on in no copy of the callee (`regions.ts`) store everything but what is handed
 * on in registers of the host (`region-frames.ts`), and call the callee: directly where it is made
 * with the caller, by a table and the number of its address otherwise. The caller goes on when the
 * callee came back to the return address and returns its result otherwise: a caller further up may
 * find that the address is its own. `stack` bounds the depth: a region that has too little left
 * stops, and is begun anew on an empty stack. One that was dropped needs more than there is
 * (`FRAMES`): who still calls it directly gets what the table has now.
 *
 * **Accesses** of a block with one base and constant offsets share one check where they are
 * predicted in one window: at the first, for all. What is compared with are cells in memory that
 * say how far a window reaches (`WindowCells`): they become 0 when the window is gone, forbidden or
 * watched, so compiled code needs not be dropped then. Accesses that miss often ask a function that
 * looks through all windows.
 */
import { BlockCode } from './block-code.js';
import { I32 } from '../machine/ir.js';
import { MOST_OWED, RegionCode } from './region-code.js';
import type { CompileContext } from './region-code.js';
import { REGION, SELECT, STACK, STOP } from './region-frames.js';
import { costsOf, flowOf, readsOf, writesOf } from './region-flow.js';
import type { Flow } from './region-flow.js';
import { kindsOf } from './record-kinds.js';
import type { RecordKinds } from './record-kinds.js';
import { buildGraph, reachedOnce, structureOf } from './region-graph.js';
import type { GraphEdge, RegionGraph, Structure } from './region-graph.js';
import { residenceOf } from './residence.js';
import type { Region } from './regions.js';
import type { Code, WasmFunction } from './wasm.js';

/** What a frame of V8 takes beside its locals, bytes; generous. */
const FRAME_BYTES = 384;

export class RegionCompiler {
  private readonly body: RegionCode;
  private readonly code: Code;
  private readonly flow: Flow;
  private readonly costs: readonly number[];
  private readonly kinds: readonly RecordKinds[];
  private readonly graph: RegionGraph;
  private readonly structure: Structure;
  private readonly labels = new Map<number, number>();
  private readonly loopLabels = new Map<number, number>();
  private readonly entries: ReadonlySet<number>;
  /** Blocks to which one other block leads, and nothing else. */
  private readonly only: ReadonlySet<number>;
  /** What blocks have left to them to pay, instructions. */
  private readonly owed = new Map<number, number>();
  /** Stack that the function needs, bytes; filled in when the number of locals is known. */
  frameBytes = 0;

  constructor(
    private readonly region: Region,
    private readonly context: CompileContext,
  ) {
    this.body = new RegionCode(context);
    this.code = this.body.code;
    this.costs = costsOf(region);
    this.kinds = kindsOf(region);
    this.graph = buildGraph(region);
    this.structure = structureOf(this.graph);
    const { slots, pointer } = context;
    const place = this.structure.order;
    const order = [...region.blocks.keys()].filter((each) => place[each]! >= 0).sort((a, b) => place[a]! - place[b]!);
    this.flow = flowOf(region, slots.firstTemporary, pointer.slot, (effects, live, dirty) =>
      residenceOf({ region, slots, effects, live, dirty, order, depths: this.graph.depths }, pointer.slot),
    );
    this.entries = new Set(region.entries);
    this.only = reachedOnce(this.graph);
  }

  /** Compiles the region. */
  compile(name: string): WasmFunction {
    // All locals first: how much stack a frame takes stands in the code. Groups add a few, which
    // are counted here.
    const { locals } = this.body;
    let accesses = 0;
    for (const { ops } of this.region.blocks) {
      for (const op of ops) {
        const { form } = op.row;
        if (form === 'load' || form === 'store') accesses++;
        readsOf(op, this.declare);
        writesOf(op, this.declare);
      }
    }
    this.frameBytes = FRAME_BYTES + 8 * (2 * locals.length + Math.min(accesses, 100));
    this.tree(this.graph.root);
    this.code.unreachable();
    return { ...REGION, locals, code: this.code, export: name };
  }

  private readonly declare = (slot: number): void => {
    if (!this.context.slots.isInMemory(slot)) this.body.slotLocal(slot);
  };

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
    code.get(STACK).i32(0).memory([I32.load], this.context.frame).op(I32.lt).if();
    this.refuse();
    code.end();
    code.get(STACK).i32(this.frameBytes).op(I32.sub).set(STACK);
    const { edges } = this.graph.nodes[node]!;
    const enter = (edge: GraphEdge) => (): void => {
      this.body.loadSlots(this.flow.resident[edge.block]!);
      this.follow(node, edge);
    };
    const rest = edges.slice(1);
    this.emitTable(
      rest.map((edge) => edge.block + 1),
      rest.map(enter),
      enter(edges[0]!),
    );
  }

  /**
   * There is too little stack; or the region was dropped, and a function of its module that called
   * it goes on in what is there now.
   */
  private refuse(): void {
    const { code, body, context } = this;
    const entry = this.region.blocks[0]!.block.address;
    // Who calls a function of its own module leaves this to it.
    code.get(SELECT).op(I32.eqz).if();
    body.storePlace(entry);
    code.end();
    code.get(STACK).i32(this.frameBytes).op(I32.lt).if();
    body.storeSlots([context.pointer.slot]);
    body.storeFuel();
    code.i64(BigInt(STOP.lookup));
    body.returnResult();
    code.end();
    code.get(STACK).i32(this.frameBytes).op(I32.sub).set(STACK);
    code.get(SELECT);
    body.pushHanded();
    code.i32(context.tableIndex(entry)).callIndirect(0).return();
  }

  private emitBlock(node: number, index: number): void {
    const { flow } = this;
    const block = new BlockCode(this.body, {
      block: this.region.blocks[index]!,
      dirty: flow.dirty[index]!,
      kinds: this.kinds[index]!,
      cost: this.entries.has(index) ? this.costs[index]! : null,
      owed: this.owed.get(index) ?? 0,
      leavesDebt: (to, debt) => {
        // Blocks of a region have 12,000 ops.
        if (!this.only.has(to) || debt > MOST_OWED / 2) return false;
        this.owed.set(to, debt);
        return true;
      },
      edges: this.graph.nodes[node]!.edges,
      follow: (edge) => {
        this.follow(node, edge);
      },
      resident: flow.resident[index]!,
      begin: (successor) => ({ resident: flow.resident[successor]!, live: flow.live[successor]! }),
    });
    block.write();
  }
}
