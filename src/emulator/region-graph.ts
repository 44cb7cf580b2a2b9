/**
 * The graph of a region, in a shape that WebAssembly can express. A region can be begun at several
 * blocks, and entering the middle of a loop would make the graph irreducible; instead an entry is
 * reached through the headers of the loops around it:
 *
 *      root --sel=3--> [dispatch] --sel=0--> outer header --> inner header --> …
 *                          \\------------- sel=3 -------------------^
 *
 * A dispatch node is the header of its loop and costs one `br_table` an iteration. Loops without
 * entries in their inside have none. Loops that the program itself enters in several places
 * (irreducible ones) get one for all their entries.
 *
 * The graph of blocks and dispatch nodes is reducible then, and nests into blocks and loops by its
 * dominator tree. Source: N. Ramsey, Beyond Relooper: recursive translation of unstructured control
 * flow to structured control flow, ICFP 2022.
 */
import type { Region } from './regions.js';

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
  /** In how many loops each block is. */
  readonly depths: readonly number[];
}

/** Builds the graph and makes it reducible. */
export function buildGraph(region: Region): RegionGraph {
  return new GraphBuilder(region).build();
}

/** Blocks to which one edge leads, from another block. */
export function reachedOnce({ nodes }: RegionGraph): ReadonlySet<number> {
  const counts = new Map<number, number>();
  for (const { kind, edges } of nodes) {
    for (const { node } of edges) counts.set(node, (counts.get(node) ?? 0) + (kind === 'block' ? 1 : 2));
  }
  return new Set([...nodes.keys()].filter((node) => nodes[node]!.kind === 'block' && counts.get(node) === 1));
}

/** The ways into a loop from outside. */
interface Entrances {
  /** Blocks that other blocks lead to. */
  readonly own: Set<number>;
  /** Blocks that only a selector leads to. */
  readonly others: Set<number>;
}

class GraphBuilder {
  private readonly nodes: GraphNode[];
  private readonly root: number;
  /** Edges that only lead to where a selector says: they do not make a block a loop's own entry. */
  private readonly routed: Set<GraphEdge>;
  private readonly depths: number[];

  constructor(private readonly region: Region) {
    const edgeTo = (to: number): GraphEdge => ({ block: to, node: to, select: -1 });
    this.nodes = region.blocks.map(({ successors }, block) => ({
      kind: 'block',
      block,
      edges: successors.filter((to) => to >= 0).map(edgeTo),
      plain: false,
    }));
    this.depths = this.nodes.map(() => 0);
    this.root = this.nodes.length;
    const edges = region.entries.map(edgeTo);
    this.nodes.push({ kind: 'root', block: -1, edges, plain: false });
    this.routed = new Set<GraphEdge>(edges.slice(1));
  }

  build(): RegionGraph {
    const { nodes, root } = this;
    this.fixLoops(new Set(this.region.blocks.keys()));
    // Who arrives at a block from a dispatch node has been led there: the selector is done with.
    for (const node of nodes) {
      for (const edge of node.edges) {
        if (node.kind === 'block' || nodes[edge.node]!.kind !== 'block') continue;
        edge.select = 0;
      }
    }
    return { nodes, root, depths: this.depths };
  }

  /** Gives each loop among the nodes one header, from the outermost inwards. */
  private fixLoops(among: ReadonlySet<number>): void {
    for (const component of components(this.nodes, among)) {
      const [only] = component;
      if (component.length === 1 && !this.nodes[only!]!.edges.some((edge) => edge.node === only)) continue;
      for (const each of component) if (each < this.root) this.depths[each]!++;
      const members = new Set(component);
      const entrances = this.entrancesOf(members);
      const inside = new Set(component);
      if (entrances.own.size === 1 && entrances.others.size === 0) {
        const [header] = entrances.own;
        inside.delete(header!);
      } else this.addDispatch(members, entrances);
      this.fixLoops(inside);
    }
  }

  private entrancesOf(members: ReadonlySet<number>): Entrances {
    const own = new Set<number>();
    const others = new Set<number>();
    this.nodes.forEach((node, index) => {
      if (members.has(index)) return;
      for (const edge of node.edges) {
        if (members.has(edge.node)) (this.routed.has(edge) ? others : own).add(edge.node);
      }
    });
    if (own.size === 0) {
      const [first] = others;
      own.add(first!);
    }
    for (const each of own) others.delete(each);
    return { own, others };
  }

  /** A node in front of a loop, through which its entrances are reached. */
  private addDispatch(members: ReadonlySet<number>, { own, others }: Entrances): void {
    const { nodes } = this;
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
        if (plain && (members.has(index) || !this.routed.has(edge))) continue;
        ends.set(edge.block, { block: edge.block, node: edge.node, select: -1 });
        edge.node = dispatch;
        if (node.kind !== 'dispatch') edge.select = edge.block + 1;
      }
    });
    if (plain) made.edges.push({ block: nodes[header!]!.block, node: header!, select: -1 });
    for (const edge of ends.values()) {
      made.edges.push(edge);
      this.routed.add(edge);
    }
    nodes.push(made);
  }
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
  const nodesInOrder = reversePostorder(nodes, root);
  const order = new Array<number>(nodes.length).fill(-1);
  nodesInOrder.forEach((node, index) => {
    order[node] = index;
  });
  const predecessors: number[][] = nodes.map(() => []);
  for (const from of nodesInOrder) for (const { node } of nodes[from]!.edges) predecessors[node]!.push(from);
  const dominator = dominatorsOf(nodesInOrder, order, predecessors);
  const isLoop = nodes.map(() => false);
  const isMerge = nodes.map(() => false);
  const merges: number[][] = nodes.map(() => []);
  for (const node of nodesInOrder) {
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

/** The nodes that are reachable. */
function reversePostorder(nodes: readonly GraphNode[], root: number): number[] {
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
  return post.reverse();
}

/** The immediate dominator of each node; the root, which is the first one, has itself. */
function dominatorsOf(
  nodesInOrder: readonly number[],
  order: readonly number[],
  predecessors: readonly (readonly number[])[],
): readonly number[] {
  const dominator = new Array<number>(order.length).fill(-1);
  const [root, ...others] = nodesInOrder;
  dominator[root!] = root!;
  const common = (one: number, other: number): number => {
    let [a, b] = [one, other];
    while (a !== b) {
      while (order[a]! > order[b]!) a = dominator[a]!;
      while (order[b]! > order[a]!) b = dominator[b]!;
    }
    return a;
  };
  for (let changed = true; changed;) {
    changed = false;
    for (const node of others) {
      let found = -1;
      for (const from of predecessors[node]!) {
        if (dominator[from] !== -1) found = found === -1 ? from : common(found, from);
      }
      if (dominator[node] === found) continue;
      dominator[node] = found;
      changed = true;
    }
  }
  return dominator;
}
