/**
 * Regions: the unit of the compiled tier. A region is the blocks that are reachable by direct
 * branches from one address, a function's entry or the header of a hot loop, at most about 200.
 * Here they are found, and their graph is put into a shape that WebAssembly can express. Owns no
 * encoding: `compile.ts` writes the code.
 *
 * A region can be begun at several blocks (**entries**): its first one, loop headers, where calls
 * return to, behind system calls. So code that left for any reason comes back without waiting for
 * the next call of the function. Entering the middle of a loop would make the graph irreducible;
 * instead an entry is reached through the headers of the loops around it:
 *
 *      root --sel=3--> [dispatch] --sel=0--> outer header --> inner header --> …
 *                          \\------------- sel=3 -------------------^
 *
 * A dispatch node is the header of its loop and costs one `br_table` an iteration. Loops without
 * entries in their inside have none. Loops that the program itself enters in several places
 * (irreducible ones) get one for all their entries.
 *
 * Small functions that make no other calls are **copied to their calls**: the call goes on in
 * blocks of the copy, and the return out of it compares where it goes with where the call came
 * from. Everything goes by addresses, so a callee that comes back elsewhere simply leaves the
 * region. Each call has a copy of its own, whose registers stay in locals, and which an optimising
 * compiler sees through.
 *
 * The graph of blocks and dispatch nodes is reducible then, and nests into blocks and loops by its
 * dominator tree. Source: N. Ramsey, Beyond Relooper: recursive translation of unstructured control
 * flow to structured control flow, ICFP 2022.
 */
import { OPS } from '../machine/ir.js';
import type { Block, Op } from '../machine/ir.js';
import type { Address } from '../units.js';

const MAX_REGION_BLOCKS = 200;
const MAX_REGION_OPS = 12_000;
/**
 * A function that is copied to its calls: so many blocks and ops at most, with what it calls
 * itself.
 */
const MAX_BODY_BLOCKS = 16;
const MAX_BODY_OPS = 160;
/** Copies within copies. */
const MAX_BODY_DEPTH = 3;
/** Of a region, in copies. */
const MAX_COPIED_BLOCKS = 100;
/** Functions of one indirect call that are copied to it. */
const MAX_CALLEES = 2;

/** What finding a region needs to know of the machine. */
export interface BlockSource {
  /**
   * The block at an address that ends in front of every address of `leaders`; null where nothing
   * may be executed.
   */
  lift(address: Address, leaders: ReadonlySet<Address> | null): Block | null;
  /** True where only tier 0 may execute: hooks, gates. */
  excluded(address: Address): boolean;
  /** Addresses to which the indirect jump or call of the instruction went before. */
  targets(instruction: Address): readonly Address[];
  /** True where the machine has executed something. */
  known(address: Address): boolean;
  /** Drops ops whose results are never seen. */
  simplify(block: Block): readonly Op[];
}

/** A block of a region. */
export interface RegionBlock {
  readonly block: Block;
  readonly ops: readonly Op[];
  /**
   * Indices of the blocks that follow, -1 outside the region: first those of `leavez` ops in order,
   * then those of the terminator (`br`: taken, next; `jmp`: one; `ind`, `ret`, `calli`, and a
   * `call` that goes on in a copy: those of `targets` in order; calls then, unless they go on in a
   * copy for sure: where they return to).
   */
  readonly successors: readonly number[];
  /**
   * Addresses for which the region goes on in itself, all of it: of an `ind`, of a call into
   * copies, of a `ret` out of one.
   */
  readonly targets: readonly Address[];
  /** Index of the block behind a helper, which is begun anew, or -1. */
  readonly resumed: number;
}

/** Where a call goes on: in copies, behind itself when the callee comes back, or both. */
function returnsHere({ block, targets }: RegionBlock): boolean {
  const { kind } = block.terminator;
  return kind === 'calli' || (kind === 'call' && targets.length === 0);
}

export interface Region {
  /** The first is the region's own entry. */
  readonly blocks: readonly RegionBlock[];
  /** Indices of the blocks at which the region can be begun; the first is 0. */
  readonly entries: readonly number[];
}

/** Address of the last instruction. */
function lastInstruction(block: Block): Address {
  return block.instructions.at(-1) ?? block.address;
}

function leaves(ops: readonly Op[]): Address[] {
  return ops.filter((op) => op.op === 'leavez').map((op) => BigInt(op.c));
}

/**
 * What is being gone through: the region's own code, or the copy of a function for one call. In a
 * copy a return is expected to lead back behind the call. It compares the address, as everything
 * here goes by addresses: a copy changes nothing but time.
 */
interface Body {
  readonly caller: Body | null;
  /** Where the call returns to. */
  readonly ret: Address;
  readonly depth: number;
  /** Blocks by address, as indices. */
  readonly places: Map<Address, number>;
  readonly seen: Set<Address>;
}

interface Exit {
  readonly address: Address;
  readonly body: Body;
}

interface Found {
  readonly body: Body;
  block: Block;
  /** Copies of functions that the block calls. */
  callees: ReadonlyMap<Address, Body>;
}

/** Direct ways out of a terminator other than calls. */
function waysOf(block: Block, source: BlockSource): readonly Address[] {
  const { terminator } = block;
  switch (terminator.kind) {
    case 'jmp':
      return [terminator.pc];
    case 'br':
      return [terminator.pc, terminator.next];
    case 'ind':
      return source.targets(lastInstruction(block));
    case 'call':
    case 'calli':
    case 'helper':
    case 'sync':
    case 'ret':
    case 'trap':
    case 'unknown':
    case 'fetch':
      return [];
    default:
      return terminator satisfies never;
  }
}

/** Functions that the call at the end of a block is known to lead to. */
function calleesOf(block: Block, source: BlockSource): readonly Address[] {
  const { terminator } = block;
  if (terminator.kind === 'call') return [terminator.pc];
  return terminator.kind === 'calli' ? source.targets(lastInstruction(block)).slice(0, MAX_CALLEES) : [];
}

/**
 * The blocks of a function that is worth a copy: small, with no calls but of such functions; 0 for
 * others.
 */
function bodySize(entry: Address, source: BlockSource, depth: number): number {
  if (depth > MAX_BODY_DEPTH || source.excluded(entry) || !source.known(entry)) return 0;
  const queue = [entry];
  const seen = new Set(queue);
  let size = 0;
  let blocks = 0;
  for (const address of queue) {
    const block = source.lift(address, null);
    if (!block) return 0;
    blocks++;
    size += block.ops.length;
    const { kind } = block.terminator;
    if (kind === 'helper' || kind === 'sync' || kind === 'ind') return 0;
    const ways = [...leaves(block.ops), ...waysOf(block, source)];
    if (block.terminator.kind === 'call' || block.terminator.kind === 'calli') {
      const callees = calleesOf(block, source);
      if (callees.length === 0) return 0;
      for (const each of callees) {
        const inner = bodySize(each, source, depth + 1);
        if (inner === 0) return 0;
        blocks += inner;
      }
      ways.push(block.terminator.ret);
    }
    if (blocks > MAX_BODY_BLOCKS || size > MAX_BODY_OPS) return 0;
    for (const each of ways) {
      if (seen.has(each)) continue;
      if (source.excluded(each)) return 0;
      seen.add(each);
      queue.push(each);
    }
  }
  return blocks;
}

/** The region that begins at `entry`; null where it may not begin. */
export function findRegion(entry: Address, source: BlockSource, maxBlocks = MAX_REGION_BLOCKS): Region | null {
  if (source.excluded(entry)) return null;
  const newBody = (caller: Body | null, ret: Address): Body => ({
    caller,
    ret,
    depth: caller ? caller.depth + 1 : 0,
    places: new Map(),
    seen: new Set(),
  });
  const own = newBody(null, 0n);
  own.seen.add(entry);
  const found: Found[] = [];
  const queue: Exit[] = [{ address: entry, body: own }];
  const sizes = new Map<Address, number>();
  let size = 0;
  let copied = 0;
  /** Bodies for the functions that a block calls and that are copied to it. */
  const copies = (block: Block, body: Body): ReadonlyMap<Address, Body> => {
    const out = new Map<Address, Body>();
    const { terminator } = block;
    if (terminator.kind !== 'call' && terminator.kind !== 'calli') return out;
    for (const callee of calleesOf(block, source)) {
      if (callee === entry || body.depth >= MAX_BODY_DEPTH) continue;
      let blocks = sizes.get(callee);
      if (blocks === undefined) {
        blocks = bodySize(callee, source, 1);
        sizes.set(callee, blocks);
      }
      // What a copy calls was counted with it.
      if (blocks === 0 || (body === own && copied + blocks > MAX_COPIED_BLOCKS)) continue;
      if (body === own) copied += blocks;
      out.set(callee, newBody(body, terminator.ret));
    }
    return out;
  };
  for (let next = 0; next < queue.length && found.length < maxBlocks && size < MAX_REGION_OPS; next++) {
    const { address, body } = queue[next]!;
    const block = source.lift(address, null);
    if (!block) continue;
    const each: Found = { body, block, callees: copies(block, body) };
    body.places.set(address, found.length);
    found.push(each);
    size += block.ops.length;
    const { direct, resumed } = exitsOf(each, source);
    const left = leaves(block.ops).map((to): Exit => ({ address: to, body }));
    for (const exit of [...left, ...direct, ...(resumed ? [resumed] : [])]) {
      if (exit.body.seen.has(exit.address) || source.excluded(exit.address)) continue;
      exit.body.seen.add(exit.address);
      queue.push(exit);
    }
  }
  if (!own.places.has(entry)) return null;
  // Blocks in which another one begins end there.
  for (const each of found) {
    const { block, body } = each;
    if (!block.instructions.some((place) => place !== block.address && body.places.has(place))) continue;
    const cut = source.lift(block.address, new Set(body.places.keys()));
    if (!cut) continue;
    each.block = cut;
    each.callees = new Map();
  }
  const at = ({ address, body }: Exit): number => body.places.get(address) ?? -1;
  const blocks = found.map(({ block, body, callees }): RegionBlock => {
    const there = new Map([...callees].filter(([address, callee]) => callee.places.has(address)));
    const { direct, resumed } = exitsOf({ block, body, callees: there }, source);
    const { kind } = block.terminator;
    const chosen = kind === 'ind' || kind === 'ret' ? direct.filter((exit) => at(exit) >= 0) : direct;
    const ops = source.simplify(block);
    return {
      block,
      ops,
      successors: [...leaves(ops).map((address) => at({ address, body })), ...chosen.map(at)],
      targets: (kind === 'ind' || kind === 'ret' ? chosen : chosen.slice(0, there.size)).map((exit) => exit.address),
      resumed: resumed ? at(resumed) : -1,
    };
  });
  const reached = reachable(blocks);
  return { blocks: reached, entries: entriesOf(reached) };
}

/** Where the terminator leads, and where a helper goes on. */
function exitsOf(
  { block, body, callees }: Found,
  source: BlockSource,
): { readonly direct: readonly Exit[]; readonly resumed: Exit | null } {
  const { terminator } = block;
  const here = (address: Address): Exit => ({ address, body });
  const direct = waysOf(block, source).map(here);
  let resumed: Exit | null = null;
  switch (terminator.kind) {
    case 'call':
    case 'calli':
      for (const [address, callee] of callees) direct.push({ address, body: callee });
      if (terminator.kind === 'calli' || callees.size === 0) direct.push(here(terminator.ret));
      break;
    case 'ret':
      if (body.caller) direct.push({ address: body.ret, body: body.caller });
      break;
    case 'helper':
    case 'sync':
      resumed = here(terminator.next);
      break;
    case 'jmp':
    case 'br':
    case 'ind':
    case 'trap':
    case 'unknown':
    case 'fetch':
      break;
    default:
      terminator satisfies never;
  }
  return { direct, resumed };
}

/**
 * Without the blocks to which nothing leads: copies for calls of blocks that were cut before their
 * call.
 */
function reachable(blocks: readonly RegionBlock[]): readonly RegionBlock[] {
  const order = [0];
  const numbers = new Map([[0, 0]]);
  for (const index of order) {
    const { successors, resumed } = blocks[index]!;
    for (const to of [...successors, resumed]) {
      if (to < 0 || numbers.has(to)) continue;
      numbers.set(to, order.length);
      order.push(to);
    }
  }
  const number = (index: number): number => numbers.get(index) ?? -1;
  return order.map((index) => {
    const each = blocks[index]!;
    return { ...each, successors: each.successors.map(number), resumed: number(each.resumed) };
  });
}

/** The first block, loop headers, and what calls and helpers go on with. */
function entriesOf(blocks: readonly RegionBlock[]): number[] {
  const entries = new Set<number>([0]);
  const state = new Uint8Array(blocks.length);
  const visit = (root: number): void => {
    const stack: { readonly index: number; next: number }[] = [{ index: root, next: 0 }];
    state[root] = 1;
    for (;;) {
      const top = stack.at(-1);
      if (!top) return;
      const { successors, resumed } = blocks[top.index]!;
      const to = top.next < successors.length ? successors[top.next]! : resumed;
      if (top.next++ > successors.length) {
        state[top.index] = 2;
        stack.pop();
        continue;
      }
      if (to === -1) continue;
      if (state[to] === 1) entries.add(to);
      if (state[to] !== 0) continue;
      state[to] = 1;
      stack.push({ index: to, next: 0 });
    }
  };
  visit(0);
  blocks.forEach((each) => {
    if (returnsHere(each) && each.successors.at(-1)! >= 0) entries.add(each.successors.at(-1)!);
    if (each.resumed >= 0) entries.add(each.resumed);
  });
  return [...entries];
}

// --------------------------------------------------------------------------------------- the graph

/** An edge as it is taken: to a node, after setting the selector where that is not -1. */
export interface GraphEdge {
  /** Block that it leads to in the end. */
  readonly block: number;
  node: number;
  select: number;
}

export interface GraphNode {
  readonly kind: 'root' | 'block' | 'dispatch';
  /** Index of the block. */
  readonly block: number;
  /**
   * root: one for each entry, in order. block: for each successor in the region, in order.
   * dispatch: one for each target; the first is the one for selector 0 where `plain`.
   */
  readonly edges: GraphEdge[];
  /** A dispatch node whose first edge is taken unless the selector asks for another. */
  plain: boolean;
}

/**
 * The graph of a region, reducible. Nodes 0 to n - 1 are the blocks, n is the root. The selector of
 * block b is b + 1; the root gets it from outside, 0 for block 0.
 */
export interface RegionGraph {
  readonly nodes: readonly GraphNode[];
  readonly root: number;
}

/** Tarjan's strongly connected components of `among`, without `removed`. */
function components(nodes: readonly GraphNode[], among: ReadonlySet<number>): number[][] {
  const order = new Map<number, number>();
  const low = new Map<number, number>();
  const onStack = new Set<number>();
  const stack: number[] = [];
  const out: number[][] = [];
  for (const start of among) {
    if (order.has(start)) continue;
    const work: { readonly node: number; next: number }[] = [{ node: start, next: 0 }];
    while (work.length > 0) {
      const top = work.at(-1)!;
      const { node } = top;
      if (top.next === 0) {
        order.set(node, order.size);
        low.set(node, order.get(node)!);
        stack.push(node);
        onStack.add(node);
      }
      const edge = nodes[node]!.edges[top.next++];
      if (edge) {
        const to = edge.node;
        if (!among.has(to)) continue;
        if (!order.has(to)) work.push({ node: to, next: 0 });
        else if (onStack.has(to)) low.set(node, Math.min(low.get(node)!, order.get(to)!));
        continue;
      }
      work.pop();
      const parent = work.at(-1);
      if (parent) low.set(parent.node, Math.min(low.get(parent.node)!, low.get(node)!));
      if (low.get(node) !== order.get(node)) continue;
      const component: number[] = [];
      for (;;) {
        const each = stack.pop()!;
        onStack.delete(each);
        component.push(each);
        if (each === node) break;
      }
      out.push(component);
    }
  }
  return out;
}

/** Builds the graph and makes it reducible. */
export function buildGraph(region: Region): RegionGraph {
  const nodes: GraphNode[] = region.blocks.map(({ successors }, block) => ({
    kind: 'block',
    block,
    edges: successors.filter((to) => to >= 0).map((to) => ({ block: to, node: to, select: -1 })),
    plain: false,
  }));
  const root = nodes.length;
  nodes.push({
    kind: 'root',
    block: -1,
    edges: region.entries.map((to) => ({ block: to, node: to, select: -1 })),
    plain: false,
  });
  /** Edges that only lead to where a selector says: they do not make a block a loop's own entry. */
  const routed = new Set<GraphEdge>(nodes[root]!.edges.slice(1));

  const fix = (among: ReadonlySet<number>): void => {
    for (const component of components(nodes, among)) {
      const members = new Set(component);
      const [only] = component;
      if (component.length === 1 && !nodes[only!]!.edges.some((edge) => edge.node === only)) continue;
      const own = new Set<number>();
      const others = new Set<number>();
      nodes.forEach((node, index) => {
        if (members.has(index)) return;
        for (const edge of node.edges) if (members.has(edge.node)) (routed.has(edge) ? others : own).add(edge.node);
      });
      if (own.size === 0) {
        const [first] = others;
        own.add(first!);
      }
      for (const each of own) others.delete(each);
      const rest = new Set(component);
      if (own.size === 1 && others.size === 0) {
        const [header] = own;
        rest.delete(header!);
        fix(rest);
        continue;
      }
      const dispatch = nodes.length;
      const plain = own.size === 1;
      const [header] = own;
      const made: GraphNode = { kind: 'dispatch', block: -1, edges: [], plain };
      const targets = new Set([...own, ...others]);
      // Which blocks lie behind each of the targets: a target may itself be a dispatch node of a
      // loop outside.
      const ends = new Map<number, GraphEdge>();
      nodes.forEach((node, index) => {
        for (const edge of node.edges) {
          if (!targets.has(edge.node)) continue;
          if (plain && edge.node === header) {
            edge.node = dispatch;
            continue;
          }
          if (plain && members.has(index)) continue;
          if (plain && !routed.has(edge)) continue;
          ends.set(edge.block, { block: edge.block, node: edge.node, select: -1 });
          edge.node = dispatch;
          if (node.kind !== 'dispatch') edge.select = edge.block + 1;
        }
      });
      if (plain) made.edges.push({ block: nodes[header!]!.block, node: header!, select: -1 });
      for (const edge of ends.values()) {
        made.edges.push(edge);
        routed.add(edge);
      }
      nodes.push(made);
      fix(rest);
    }
  };
  fix(new Set(region.blocks.keys()));
  // Who arrives at a block from a dispatch node has been led there: the selector is done with.
  for (const node of nodes) {
    for (const edge of node.edges) {
      if (node.kind === 'block' || nodes[edge.node]!.kind !== 'block') continue;
      edge.select = 0;
    }
  }
  return { nodes, root };
}

// ---------------------------------------------------------------------------------- dominator tree

export interface Structure {
  /** Position in reverse postorder, by node; -1 where it is not reachable. */
  readonly order: readonly number[];
  /** Children in the dominator tree that have several forward edges, the latest first. */
  readonly merges: readonly (readonly number[])[];
  readonly isMerge: readonly boolean[];
  readonly isLoop: readonly boolean[];
}

export function structureOf({ nodes, root }: RegionGraph): Structure {
  const post: number[] = [];
  const seen = new Uint8Array(nodes.length);
  const stack: { readonly node: number; next: number }[] = [{ node: root, next: 0 }];
  seen[root] = 1;
  for (;;) {
    const top = stack.at(-1);
    if (!top) break;
    const edge = nodes[top.node]!.edges[top.next++];
    if (!edge) {
      post.push(top.node);
      stack.pop();
    } else if (seen[edge.node] === 0) {
      seen[edge.node] = 1;
      stack.push({ node: edge.node, next: 0 });
    }
  }
  const order = new Array<number>(nodes.length).fill(-1);
  post.reverse().forEach((node, index) => {
    order[node] = index;
  });
  const predecessors: number[][] = nodes.map(() => []);
  for (const from of post) for (const { node } of nodes[from]!.edges) predecessors[node]!.push(from);
  const dominator = new Array<number>(nodes.length).fill(-1);
  dominator[root] = root;
  for (let changed = true; changed;) {
    changed = false;
    for (const node of post) {
      if (node === root) continue;
      let common = -1;
      for (const from of predecessors[node]!) {
        if (dominator[from] === -1) continue;
        if (common === -1) {
          common = from;
          continue;
        }
        let [a, b] = [common, from];
        while (a !== b) {
          while (order[a]! > order[b]!) a = dominator[a]!;
          while (order[b]! > order[a]!) b = dominator[b]!;
        }
        common = a;
      }
      if (dominator[node] !== common) {
        dominator[node] = common;
        changed = true;
      }
    }
  }
  const isLoop = nodes.map(() => false);
  const isMerge = nodes.map(() => false);
  const merges: number[][] = nodes.map(() => []);
  for (const node of post) {
    let forward = 0;
    for (const from of predecessors[node]!) {
      if (order[from]! < order[node]!) forward++;
      else isLoop[node] = true;
    }
    if (forward < 2) continue;
    isMerge[node] = true;
    merges[dominator[node]!]!.push(node);
  }
  for (const each of merges) each.sort((a, b) => order[b]! - order[a]!);
  return { order, merges, isMerge, isLoop };
}

// --------------------------------------------------------------------------------------- data flow

/** A set of slots as bits. */
export class SlotSet {
  readonly words: Uint32Array;

  constructor(count: number) {
    this.words = new Uint32Array((count + 31) >>> 5);
  }

  has(slot: number): boolean {
    return (this.words[slot >>> 5]! & (1 << (slot & 31))) !== 0;
  }

  add(slot: number): void {
    this.words[slot >>> 5]! |= 1 << (slot & 31);
  }

  /** Adds all of `other`; true when that changed anything. */
  addAll(other: SlotSet): boolean {
    let changed = false;
    for (let i = 0; i < this.words.length; i++) {
      const now = this.words[i]!;
      const then = (now | other.words[i]!) >>> 0;
      if (then !== now) {
        this.words[i] = then;
        changed = true;
      }
    }
    return changed;
  }

  copy(): SlotSet {
    const out = new SlotSet(0);
    return Object.assign(out, { words: this.words.slice() });
  }

  slots(): number[] {
    const out: number[] = [];
    this.words.forEach((word, index) => {
      for (let rest = word; rest !== 0; rest &= rest - 1) out.push(32 * index + 31 - Math.clz32(rest & -rest));
    });
    return out;
  }
}

/** Slots that an op reads and writes, those of records included. */
export function readsOf(op: Op, see: (slot: number) => void): void {
  const row = OPS[op.op];
  if (row.form === 'slots') {
    for (let i = 0; i < row.slots; i++) see(Number(op.a) + i);
    return;
  }
  if (typeof op.a === 'number') see(op.a);
  if (typeof op.b === 'number') see(op.b);
  if (typeof op.c === 'number') see(op.c);
  if (row.form === 'float' && row.clean !== null) see(op.mode);
}

export function writesOf(op: Op, see: (slot: number) => void): void {
  const row = OPS[op.op];
  switch (row.form) {
    case 'store':
    case 'aligned':
    case 'check':
    case 'leave':
      return;
    case 'record':
      for (let i = 0; i < 3; i++) see(op.d + i);
      return;
    case 'unary':
    case 'binary':
    case 'select':
    case 'load':
    case 'slots':
    case 'float':
      see(op.d);
      return;
    default:
      row satisfies never;
  }
}

/** True when the compiled code may leave at the op. */
export function mayExit(op: Op): boolean {
  const { form } = OPS[op.op];
  return (
    form === 'load' ||
    form === 'store' ||
    form === 'aligned' ||
    form === 'check' ||
    form === 'leave' ||
    form === 'float'
  );
}

export interface Flow {
  /** Registers that may differ from the state block at the begin of each block. */
  readonly dirty: readonly SlotSet[];
  /** Registers whose value is needed at the begin of each block. */
  readonly live: readonly SlotSet[];
}

/** True for terminators at which everything dirty is written back, in some case. */
function writesBack({ block, targets }: RegionBlock): boolean {
  const { kind } = block.terminator;
  return kind !== 'jmp' && kind !== 'br' && !(kind === 'call' && targets.length > 0);
}

/**
 * Successors that are reached with registers in locals: not what a callee that is no copy returns
 * to.
 */
function keeping(each: RegionBlock): readonly number[] {
  return returnsHere(each) ? each.successors.slice(0, -1) : each.successors;
}

/**
 * May-dirty sets and liveness. An exit needs what is dirty there, for it is written back: a
 * register that one path wrote must hold its value on the other one too. Nothing is dirty where an
 * entry begins or a call returns.
 */
export function flowOf(region: Region, registers: number): Flow {
  const { blocks } = region;
  const count = blocks.length;
  const fresh = (): SlotSet[] => Array.from({ length: count }, () => new SlotSet(registers));
  const [defined, used, kept, dirty, live] = [fresh(), fresh(), fresh(), fresh(), fresh()];
  const entries = new Set(region.entries);
  blocks.forEach((each, index) => {
    const { block, ops, successors } = each;
    const [def, use] = [defined[index]!, used[index]!];
    let exited = false;
    const exit = (): void => {
      if (exited) return;
      exited = true;
      kept[index]!.addAll(def);
    };
    // The fuel is looked at before the first op.
    if (entries.has(index)) exit();
    const see = (slot: number): void => {
      if (slot < registers && !def.has(slot)) use.add(slot);
    };
    for (const op of ops) {
      readsOf(op, see);
      // A guarded record may stay what it was.
      if (op.op === 'recif') writesOf(op, see);
      if (mayExit(op)) exit();
      writesOf(op, (slot) => {
        if (slot < registers) def.add(slot);
      });
    }
    const { terminator } = block;
    if (terminator.kind === 'br') {
      see(terminator.a);
      if (typeof terminator.b === 'number') see(terminator.b);
    } else if ('s' in terminator) see(terminator.s);
    if (writesBack(each) || successors.includes(-1)) exit();
    if (!exited)
      for (const words = kept[index]!.words, at = { i: 0 }; at.i < words.length; at.i++) words[at.i] = 0xffff_ffff;
  });
  // Forwards: what may be dirty.
  for (let changed = true; changed;) {
    changed = false;
    blocks.forEach((each, index) => {
      const out = dirty[index]!.copy();
      out.addAll(defined[index]!);
      for (const to of keeping(each)) if (to >= 0 && dirty[to]!.addAll(out)) changed = true;
    });
  }
  // Backwards: what is needed.
  for (let changed = true; changed;) {
    changed = false;
    for (let index = count - 1; index >= 0; index--) {
      const successors = keeping(blocks[index]!);
      const now = live[index]!;
      const words = now.words;
      for (let i = 0; i < words.length; i++) {
        let out = 0;
        for (const to of successors) if (to >= 0) out |= live[to]!.words[i]!;
        const then =
          (words[i]! |
            used[index]!.words[i]! |
            (out & ~defined[index]!.words[i]!) |
            (dirty[index]!.words[i]! & ~kept[index]!.words[i]!)) >>>
          0;
        if (then !== words[i]) {
          words[i] = then;
          changed = true;
        }
      }
    }
  }
  return { dirty, live };
}

/** The most instructions from the begin of each block to the next entry of the region. */
export function costsOf(region: Region): readonly number[] {
  const { blocks } = region;
  const entries = new Set(region.entries);
  const costs = new Array<number>(blocks.length).fill(-1);
  const cost = (index: number): number => {
    const known = costs[index]!;
    if (known >= 0) return known;
    const { block, successors } = blocks[index]!;
    let most = 0;
    for (const to of successors) if (to >= 0 && !entries.has(to)) most = Math.max(most, cost(to));
    costs[index] = most + block.instructions.length;
    return costs[index];
  };
  for (let index = 0; index < blocks.length; index++) cost(index);
  return costs;
}
