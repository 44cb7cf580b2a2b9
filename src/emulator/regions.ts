/**
 * Regions: the unit of the compiled tier. A region is the blocks that are reachable by direct
 * branches from one address, a function's entry or the header of a hot loop, at most about 200, or
 * 700 where time is spread over much code (`spread.ts`).
 * Here they are found; `region-graph.ts` puts their graph into a shape that WebAssembly can
 * express, `region-flow.ts` says what registers hold, and `compile.ts` writes the code.
 *
 * A region can be begun at several blocks (**entries**): its first one, loop headers, where calls
 * return to, behind system calls. So code that left for any reason comes back without waiting for
 * the next call of the function.
 *
 * Small functions that make no other calls are **copied to their calls**: the call goes on in
 * blocks of the copy, and the return out of it compares where it goes with where the call came
 * from. Everything goes by addresses, so a callee that comes back elsewhere simply leaves the
 * region. Each call has a copy of its own, whose registers stay in locals, and which an optimising
 * compiler sees through.
 */
import type { Block, Op } from '../machine/ir.js';
import type { Address } from '../units.js';

/** Blocks of a region. Of large functions (interpreters) most are never hot. */
export const PIECE = 200;
/**
 * Blocks of a function of spread code that is made as a whole. Of a large switch each way leads to
 * any other, so that pieces of it are left as soon as they are entered. Larger ones are made in
 * pieces.
 */
export const MOST_WHOLE = 700;
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
  /**
   * True where another region can be begun: a region goes there instead of holding the same code
   * again, which in large functions (interpreters) would be made over and over.
   */
  placed(address: Address): boolean;
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
export function returnsHere({ block, targets }: RegionBlock): boolean {
  const { kind } = block.terminator;
  return kind === 'calli' || (kind === 'call' && targets.length === 0);
}

export interface Region {
  /** The first is the region's own entry. */
  readonly blocks: readonly RegionBlock[];
  /** Indices of the blocks at which the region can be begun; the first is 0. */
  readonly entries: readonly number[];
}

/** The blocks of a region, as far as others than its compiler ask for them. */
export interface RegionExtent {
  readonly blocks: readonly { readonly block: Pick<Block, 'address' | 'end'> }[];
  /** Numbers of the blocks at which it can be begun; the first is 0. */
  readonly entries: readonly number[];
}

/** Address of the last instruction. */
export function lastInstruction(block: Block): Address {
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

function newBody(caller: Body | null, ret: Address): Body {
  return { caller, ret, depth: caller ? caller.depth + 1 : 0, places: new Map(), seen: new Set() };
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
 * Where ops of a block lead, of those that a copy holds: up to a return under a condition, for what
 * comes behind that is mostly a loop, and leaves no room for the code around the copies.
 */
function waysInCopies({ ops, terminator }: Block): readonly Address[] {
  return terminator.kind === 'ret' ? [] : leaves(ops);
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
    const ways = [...waysInCopies(block), ...waysOf(block, source)];
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
      if (kind === 'br' && !source.known(each)) continue;
      seen.add(each);
      queue.push(each);
    }
  }
  return blocks;
}

/** The region that begins at `entry`; null where it may not begin. */
export function findRegion(entry: Address, source: BlockSource, maxBlocks = PIECE): Region | null {
  if (source.excluded(entry)) return null;
  const search = new RegionSearch(entry, source, maxBlocks);
  return search.collect() || maxBlocks <= PIECE ? search.region() : findRegion(entry, source, PIECE);
}

/** A search for the blocks of one region, copies of functions included. */
class RegionSearch {
  private readonly own = newBody(null, 0n);
  private readonly found: Found[] = [];
  /** Blocks of functions that are worth a copy; 0 for others. */
  private readonly sizes = new Map<Address, number>();
  /** Blocks in copies. */
  private copied = 0;

  constructor(
    private readonly entry: Address,
    private readonly source: BlockSource,
    private readonly maxBlocks: number,
  ) {}

  region(): Region | null {
    if (!this.own.places.has(this.entry)) return null;
    this.cut();
    const reached = reachable(this.found.map((each) => this.numbered(each)));
    return { blocks: reached, entries: entriesOf(reached) };
  }

  /** Finds the blocks, unless there are too many. @returns  whether these are all */
  collect(): boolean {
    const { own, found, source } = this;
    own.seen.add(this.entry);
    const queue: Exit[] = [{ address: this.entry, body: own }];
    let size = 0;
    let next = 0;
    for (; next < queue.length && found.length < this.maxBlocks && size < MAX_REGION_OPS; next++) {
      const { address, body } = queue[next]!;
      const block = source.lift(address, null);
      if (!block) continue;
      const each: Found = { body, block, callees: this.copies(block, body) };
      body.places.set(address, found.length);
      found.push(each);
      size += block.ops.length;
      const { direct, resumed } = exitsOf(each, source);
      const ways = body === own ? leaves(block.ops) : waysInCopies(block);
      const left = ways.map((to): Exit => ({ address: to, body }));
      for (const exit of [...left, ...direct, ...(resumed ? [resumed] : [])]) {
        if (exit.body.seen.has(exit.address) || source.excluded(exit.address)) continue;
        // A way that was never taken is not worth compiling: most of what programs hold is such.
        if (block.terminator.kind === 'br' && !source.known(exit.address)) continue;
        if (exit.body === own && source.placed(exit.address)) continue;
        exit.body.seen.add(exit.address);
        queue.push(exit);
      }
    }
    return next === queue.length;
  }

  /** Bodies for the functions that a block calls and that are copied to it. */
  private copies(block: Block, body: Body): ReadonlyMap<Address, Body> {
    const { own, source, sizes } = this;
    const out = new Map<Address, Body>();
    const { terminator } = block;
    if (terminator.kind !== 'call' && terminator.kind !== 'calli') return out;
    for (const callee of calleesOf(block, source)) {
      if (callee === this.entry || body.depth >= MAX_BODY_DEPTH) continue;
      let blocks = sizes.get(callee);
      if (blocks === undefined) {
        blocks = bodySize(callee, source, 1);
        sizes.set(callee, blocks);
      }
      // What a copy calls was counted with it.
      if (blocks === 0 || (body === own && this.copied + blocks > MAX_COPIED_BLOCKS)) continue;
      if (body === own) this.copied += blocks;
      out.set(callee, newBody(body, terminator.ret));
    }
    return out;
  }

  /** Blocks in which another one begins end there. */
  private cut(): void {
    for (const each of this.found) {
      const { block, body } = each;
      if (!block.instructions.some((place) => place !== block.address && body.places.has(place))) continue;
      const cut = this.source.lift(block.address, new Set(body.places.keys()));
      if (!cut) continue;
      each.block = cut;
      each.callees = new Map();
    }
  }

  /** A block with the numbers of those that follow. */
  private numbered({ block, body, callees }: Found): RegionBlock {
    const at = (exit: Exit): number => exit.body.places.get(exit.address) ?? -1;
    const there = new Map([...callees].filter(([address, callee]) => callee.places.has(address)));
    const { direct, resumed } = exitsOf({ block, body, callees: there }, this.source);
    const { kind } = block.terminator;
    const chosen = kind === 'ind' || kind === 'ret' ? direct.filter((exit) => at(exit) >= 0) : direct;
    const ops = this.source.simplify(block);
    return {
      block,
      ops,
      successors: [...leaves(ops).map((address) => at({ address, body })), ...chosen.map(at)],
      targets: (kind === 'ind' || kind === 'ret' ? chosen : chosen.slice(0, there.size)).map((exit) => exit.address),
      resumed: resumed ? at(resumed) : -1,
    };
  }
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
