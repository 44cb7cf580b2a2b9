/**
 * What code may still read, told apart by the call that a function was entered with (PV-5): what
 * one caller reads behind its call another one does not. A function that was compiled returns to
 * that call, and so does what it goes on to; of anything else nothing is told apart.
 */
import type { Address } from '../../src/units.js';
import { type Step, targetsOf } from './mutant-steps.js';

/** The place behind the call that a function was entered with; null: any, or none at all. */
type Caller = Address | null;

interface Node {
  readonly step: Step;
  readonly caller: Caller;
  live: bigint;
  /** Those that read of this one what they read. */
  readonly askers: Set<Node>;
}

/** What is asked of code. */
export interface Code {
  readonly steps: ReadonlyMap<Address, Step>;
  /** Where code begins that something else than calls at hand leads to. */
  readonly begins: readonly Address[];
  isCompiled(address: Address): boolean;
  /** Places that the return of an instruction leads to, whoever called. */
  behind(address: Address): Iterable<Address>;
  /**
   * What is read in front of an instruction.
   * @param before  what is read from a place on; null: not known
   * @param caller  the place that it returns to; null: any behind a call of it
   */
  readBefore(step: Step, before: (to: Address) => bigint | null, caller: Address | null): bigint;
}

export class Contexts {
  private readonly nodes = new Map<Address, Map<Caller, Node>>();

  constructor(private readonly code: Code) {
    const left: Node[] = [];
    const go = (to: Address, caller: Caller): void => {
      const node = this.add(to, caller);
      if (node !== null) left.push(node);
    };
    for (const each of code.begins) go(each, null);
    for (let node = left.pop(); node !== undefined; node = left.pop()) {
      for (const { to, caller } of this.next(node)) go(to, caller);
    }
    for (const same of this.nodes.values()) for (const node of same.values()) this.ask(node);
    this.solve();
  }

  /** What is read from an address on, whoever called; null: no way is known that leads there. */
  before(address: Address): bigint | null {
    const same = this.nodes.get(address);
    if (same === undefined) return null;
    let live = 0n;
    for (const each of same.values()) live |= each.live;
    return live;
  }

  /** @returns null: it is there already, or nothing is */
  private add(address: Address, caller: Caller): Node | null {
    const step = this.code.steps.get(address);
    const same = this.nodes.get(address) ?? new Map<Caller, Node>();
    if (step === undefined || same.has(caller)) return null;
    const node = { step, caller, live: 0n, askers: new Set<Node>() };
    this.nodes.set(address, same.set(caller, node));
    return node;
  }

  /** Where code goes from an instruction, and behind its call. */
  private next({ step, caller }: Node): readonly { readonly to: Address; readonly caller: Caller }[] {
    const { terminator } = step.block;
    const isCall = terminator.kind === 'call' || terminator.kind === 'calli';
    const from = isCall ? terminator.ret : caller;
    const goes = targetsOf(step).map((to) => ({ to, caller: this.code.isCompiled(to) ? from : null }));
    return isCall ? [...goes, { to: terminator.ret, caller }] : goes;
  }

  private ask(node: Node): void {
    const { step, caller } = node;
    for (const next of this.next(node)) this.nodes.get(next.to)?.get(next.caller)?.askers.add(node);
    if (step.block.terminator.kind !== 'ret' && [...this.code.behind(step.address)].length === 0) return;
    for (const each of caller === null ? this.code.behind(step.address) : [caller]) {
      for (const behind of this.nodes.get(each)?.values() ?? []) behind.askers.add(node);
    }
  }

  private solve(): void {
    const left = new Set([...this.nodes.values()].flatMap((same) => [...same.values()]).reverse());
    for (const node of left) {
      left.delete(node);
      const callers = new Map(this.next(node).map(({ to, caller }) => [to, caller]));
      const before = (to: Address): bigint | null => {
        const caller = callers.get(to);
        return caller === undefined ? this.before(to) : (this.nodes.get(to)?.get(caller)?.live ?? null);
      };
      const live = this.code.readBefore(node.step, before, node.caller);
      if (live === node.live) continue;
      node.live = live;
      for (const each of node.askers) left.add(each);
    }
  }
}
