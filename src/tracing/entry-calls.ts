/**
 * What the image's entries call (C-TGT-4): a patched call in each entry, or a pointer that all of
 * them read (R-MOD-4), and the branch of the graph tracer where entries have one (C-FG-6).
 */
import type { Address } from '../units.js';
import type { Callee, Ops, Reading, StepProblem } from '../ftrace/index.js';
import type { ImageMemory } from './image-memory.js';
import type { OpsObjects } from './ops-objects.js';
import { graphOff } from './entries.js';

type Entry = 'plain' | 'regs';

const labels: Readonly<Record<Entry, string>> = { plain: 'ftrace_call', regs: 'ftrace_regs_call' };

export class EntryCalls {
  constructor(
    private readonly memory: ImageMemory,
    private readonly ops: OpsObjects,
    /** Whether the entry that saves all registers is another one. */
    private readonly separateRegisters: boolean,
    /** Whether the entries have a call that is patched, and not a pointer alone. */
    private readonly patchesCall: boolean,
  ) {}

  /** What an address that is called stands for. */
  calleeOf(leads: Address, bytes: Uint8Array): Reading {
    const is = (symbol: string): boolean => this.memory.find(symbol)?.identity === leads;
    if (is('ftrace_stub')) return { kind: 'callee', callee: { kind: 'stub' } };
    if (is('ftrace_ops_list_func')) return { kind: 'callee', callee: { kind: 'list' } };
    if (is('ftrace_ops_assist_func')) {
      const { first } = this.ops;
      return first === null ? { kind: 'foreign', bytes } : { kind: 'callee', callee: { kind: 'assist', ops: first } };
    }
    return { kind: 'callee', callee: { kind: 'function', address: leads } };
  }

  /** The callee of a call instruction. */
  readCall(address: Address): Reading {
    const { memory } = this;
    const { call } = memory.branches;
    const bytes = memory.bytes(address, call.sizeBytes);
    if (bytes === null) return { kind: 'fault' };
    const target = call.target(bytes, address);
    return target === null ? { kind: 'foreign', bytes } : this.calleeOf(memory.identityOf(target), bytes);
  }

  read(entry: Entry): Reading {
    const { memory } = this;
    const pointer = memory.find('ftrace_call_dest');
    if (pointer === null) return this.readCall(memory.need(labels[entry]).address);
    const word = memory.wordAt(pointer.identity);
    return word === null ? { kind: 'fault' } : this.calleeOf(memory.identityOf(word.value), word.bytes);
  }

  /** Where a call to a callee leads. */
  calleeAddress(callee: Callee): Address {
    const { memory } = this;
    switch (callee.kind) {
      case 'stub':
        return memory.need('ftrace_stub').address;
      case 'list':
        return memory.need('ftrace_ops_list_func').address;
      case 'assist':
        return memory.need('ftrace_ops_assist_func').address;
      case 'function':
        return memory.branchTo(callee.address);
      default:
        return callee satisfies never;
    }
  }

  check(entry: Entry, callee: Callee): StepProblem | null {
    const { memory } = this;
    if (memory.find('ftrace_call_dest') !== null) return null;
    return this.checkCall(memory.need(labels[entry]).address, callee);
  }

  checkCall(at: Address, callee: Callee): StepProblem | null {
    return this.memory.reachProblem(at, this.calleeAddress(callee));
  }

  write(entry: Entry, callee: Callee): StepProblem | null {
    const { memory } = this;
    const pointer = memory.find('ftrace_call_dest');
    if (pointer !== null) return memory.words(pointer.identity, [this.calleeAddress(callee)]);
    return this.writeCall(memory.need(labels[entry]).address, callee);
  }

  writeCall(at: Address, callee: Callee): StepProblem | null {
    const { memory } = this;
    return memory.store(at, memory.branches.call.encode(at, this.calleeAddress(callee)));
  }

  /**
   * Whether the entries' calls reach a function. Entries without a patched call take the address
   * from a pointer, or from the ops that a site names: they reach everything.
   */
  reach(address: Address): boolean {
    if (!this.patchesCall) return true;
    const { memory } = this;
    const calls: readonly Entry[] = this.separateRegisters ? ['plain', 'regs'] : ['plain'];
    const target = this.calleeAddress({ kind: 'function', address });
    return calls.every((entry) => memory.reachProblem(memory.need(labels[entry]).address, target) === null);
  }

  private graphOff(): Address {
    const { memory } = this;
    return graphOff(memory.program, memory.need('ftrace_graph_call').address);
  }

  readGraph(graphEntry: Address): Reading {
    const { memory } = this;
    const { address } = memory.need('ftrace_graph_call');
    const { graph } = memory.branches;
    const bytes = memory.bytes(address, graph.sizeBytes);
    if (bytes === null) return { kind: 'fault' };
    const target = graph.target(bytes, address);
    if (target === this.graphOff()) return { kind: 'graph-call', on: false };
    const on = target !== null && memory.identityOf(target) === graphEntry;
    return on ? { kind: 'graph-call', on } : { kind: 'foreign', bytes };
  }

  /**
   * Moves the branch of the graph tracer. The hook must have its filter for as long as the branch
   * leads there: without one it takes every function (C-FG-8).
   */
  writeGraph(ops: Ops, on: boolean): StepProblem | null {
    const { memory } = this;
    const { address } = memory.need('ftrace_graph_call');
    const { graph } = memory.branches;
    const to = on ? memory.need('ftrace_graph_caller').address : this.graphOff();
    const filter = memory.find('elftrace_graph_ops');
    const filtered = (): StepProblem | null =>
      filter === null ? null : memory.words(filter.identity, [on ? this.ops.addressOf(ops) : 0n]);
    const jumped = (): StepProblem | null => memory.store(address, graph.encode(address, to));
    return on ? (filtered() ?? jumped()) : (jumped() ?? filtered());
  }
}
