/**
 * Runs the operations of a session file on a core. Owns what each kind of operation means in terms
 * of the core; symbols and modules are the caller's to resolve, because only it knows the image.
 */
import { ElftraceError } from '../errors.js';
import type { OPS_FLAGS } from '../runtime/abi.js';
import type { Address } from '../units.js';
import { oddCaller } from './image-backend.js';
import type { ProbeOperation, SessionOperation } from './session-file.js';
import type { FtraceCore } from '../ftrace/index.js';
import { GraphUser } from '../ftrace/graph-user.js';
import type { Ops } from '../ftrace/ops.js';
import type { Outcome } from '../ftrace/state.js';

export interface SessionResolver {
  /**
   * Text address of a symbol.
   * @throws ElftraceError 'no-match' for one that is not there
   */
  address(symbol: string): Address;
  /**
   * A callback that lets its function go on at `replacement`: its text address, and what it finds
   * in the ops' own word.
   * @throws ElftraceError 'unsupported-form' where the entries cannot change where a function goes
   *   on
   */
  replacer(replacement: string): { readonly func: Address; readonly data: bigint };
  /**
   * Bit 0 of direct callers says from now on that sites jump to them.
   * @throws ElftraceError 'unsupported-form' where sites cannot
   */
  enableJumps(): void;
  /** A module comes: its code is there, its sites are nops. */
  loadModule(name: string): Outcome;
  /** A module goes, unless another part needs it. */
  unloadModule(name: string): Outcome;
  /** Probes; absent: they are not served here. */
  probe?(operation: ProbeOperation): Outcome;
}

export interface SessionStep {
  readonly operation: SessionOperation;
  readonly outcome: Outcome;
}

const FLAGS = {
  recursion: 'RECURSION',
  rcu: 'RCU',
  dynamic: 'DYNAMIC',
  permanent: 'PERMANENT',
  'ip-modify': 'IPMODIFY',
} as const;

/** Names that sessions gave, over all the calls that use one core. */
export class CoreSession {
  readonly #ops = new Map<string, Ops>();
  readonly #users = new Map<string, GraphUser>();
  readonly #direct = new Map<string, { readonly ops: Ops; caller: Address }>();
  readonly #livepatch = new Map<string, Ops>();

  /** A core that was restored brings what earlier sessions made, under the names that they gave. */
  constructor(
    readonly core: FtraceCore,
    readonly resolver: SessionResolver,
  ) {
    const { known, graph } = core.state;
    for (const ops of known) {
      const [role, name] = ops.name.split(' ') as [string, string?];
      if (role === 'direct' && name !== undefined && ops.has('DIRECT')) {
        this.#direct.set(name, { ops, caller: ops.directCall });
      } else if (role === 'livepatch' && name !== undefined && ops.has('ENABLED')) this.#livepatch.set(name, ops);
      else if (ops !== graph.manager) this.#ops.set(ops.name, ops);
    }
    for (const user of graph.known) this.#users.set(user.name, user);
  }

  /** Names that the steps of a session file may use although it does not make them. */
  get names(): { readonly ops: readonly string[]; readonly graphs: readonly string[] } {
    return { ops: [...this.#ops.keys()], graphs: [...this.#users.keys()] };
  }

  /**
   * Performs operations in order and stops behind the first that is not done: its outcome is the
   * last of the result.
   */
  run(operations: readonly SessionOperation[]): SessionStep[] {
    const steps: SessionStep[] = [];
    for (const operation of operations) {
      const outcome = this.#perform(operation);
      steps.push({ operation, outcome });
      if (outcome.kind !== 'done') break;
    }
    return steps;
  }

  #perform(operation: SessionOperation): Outcome {
    const { core, resolver } = this;
    switch (operation.kind) {
      case 'ops':
        return this.#makeOps(operation);
      case 'register':
        return core.register(this.#opsOf(operation.ops));
      case 'unregister':
        return core.unregister(this.#opsOf(operation.ops));
      case 'filter':
      case 'notrace': {
        const to = operation.ops === null ? core.globalPair : this.#opsOf(operation.ops);
        return core.setFilter(to, operation.kind, operation.words, operation.append ? 'append' : 'replace');
      }
      case 'function':
        return core.setFunction(this.#opsOf(operation.ops), resolver.address(operation.call));
      case 'direct':
        return this.#addDirect(operation.function, this.#directCaller(operation));
      case 'modify-direct':
        return this.#modifyDirect(operation);
      case 'no-direct':
        return this.#removeDirect(operation.function);
      case 'livepatch':
        return this.#livepatchFunction(operation);
      case 'no-livepatch':
        return this.#endLivepatch(operation.function);
      case 'graph':
        return this.#makeGraph(operation);
      case 'no-graph': {
        const user = this.#users.get(operation.name);
        return user === undefined ? missing(`there is no graph ${operation.name}`) : core.unregisterGraph(user);
      }
      case 'probe':
      case 'no-probe':
      case 'disable-probe':
      case 'enable-probe':
      case 'probes':
        return (
          resolver.probe?.(operation) ?? {
            kind: 'refused',
            errno: 'EINVAL',
            reason: 'probes are not served by this session',
          }
        );
      case 'load':
        return resolver.loadModule(operation.module);
      case 'unload':
        return resolver.unloadModule(operation.module);
      case 'tracing':
        return core.setEnabled(operation.on);
      default:
        return operation satisfies never;
    }
  }

  #modifyDirect(operation: Extract<SessionOperation, { kind: 'direct' | 'modify-direct' }>): Outcome {
    const { core } = this;
    const direct = this.#direct.get(operation.function);
    if (direct === undefined) return missing(`${operation.function} has no direct caller of this session`);
    const caller = this.#directCaller(operation);
    const outcome = core.modifyDirect(direct.ops, caller);
    if (outcome.kind === 'done') direct.caller = caller;
    return outcome;
  }

  #removeDirect(name: string): Outcome {
    const { core } = this;
    const direct = this.#direct.get(name);
    if (direct === undefined) return missing(`${name} has no direct caller of this session`);
    const outcome = core.unregisterDirect(direct.ops, direct.caller);
    if (outcome.kind === 'done') this.#direct.delete(name);
    return outcome;
  }

  #livepatchFunction(operation: Extract<SessionOperation, { kind: 'livepatch' }>): Outcome {
    const { core, resolver } = this;
    const ops = core.createOps({
      name: `livepatch ${operation.function}`,
      ...resolver.replacer(operation.replacement),
      flags: ['IPMODIFY', 'SAVE_REGS_IF_SUPPORTED'],
    });
    const outcome = this.#filtered(ops, operation.function, () => core.register(ops));
    if (outcome.kind === 'done') this.#livepatch.set(operation.function, ops);
    return outcome;
  }

  #endLivepatch(name: string): Outcome {
    const { core } = this;
    const ops = this.#livepatch.get(name);
    if (ops === undefined) return missing(`${name} is not replaced by this session`);
    this.#livepatch.delete(name);
    return core.unregister(ops);
  }

  #makeGraph(operation: Extract<SessionOperation, { kind: 'graph' }>): Outcome {
    const { core, resolver } = this;
    const { callbacks } = operation;
    const user = new GraphUser(
      operation.name,
      callbacks === null
        ? { entry: 0n, return: 0n }
        : { entry: resolver.address(callbacks.entry), return: resolver.address(callbacks.return) },
    );
    this.#users.set(operation.name, user);
    for (const which of ['filter', 'notrace'] as const) {
      const words = operation[which];
      if (words === null) continue;
      const outcome = core.setGraphFilter(user, which, words);
      if (outcome.kind !== 'done') return outcome;
    }
    return core.registerGraph(user);
  }

  #opsOf(name: string): Ops {
    const ops = this.#ops.get(name);
    if (ops === undefined) throw new ElftraceError('usage', `the session makes no ops '${name}'`, { value: name });
    return ops;
  }

  #makeOps(operation: Extract<SessionOperation, { kind: 'ops' }>): Outcome {
    const { core, resolver } = this;
    const flags: (keyof typeof OPS_FLAGS)[] = operation.traits.map((trait) => FLAGS[trait]);
    if (operation.regs === 'yes') flags.push('SAVE_REGS');
    if (operation.regs === 'if-supported') flags.push('SAVE_REGS_IF_SUPPORTED');
    const input = {
      name: operation.name,
      func: resolver.address(operation.call),
      flags,
      ...(operation.trampoline === null ? {} : { trampoline: resolver.address(operation.trampoline) }),
    };
    // C-FG-4: the first that uses the global filter is the function tracer, whose ops the graph
    // tracer of 2014 borrows.
    const borrowed = operation.shared && core.state.policy.graph === '2014' && core.tracer === null;
    const ops = borrowed
      ? core.createTracer(input)
      : core.createOps({ ...input, ...(operation.shared ? { pair: core.globalPair } : {}) });
    this.#ops.set(operation.name, ops);
    for (const which of ['filter', 'notrace'] as const) {
      const words = operation[which];
      if (words === null) continue;
      const outcome = core.setFilter(ops, which, words);
      if (outcome.kind !== 'done') return outcome;
    }
    return { kind: 'done', steps: [], warnings: [] };
  }

  /**
   * Address of a direct caller, bit 0 set where sites are to jump to it (X-JMP-1).
   * @throws ElftraceError 'unsupported-form' for one at an odd address, whose bit 0 would say so by
   *   chance
   */
  #directCaller({ caller, jump }: Extract<SessionOperation, { kind: 'direct' | 'modify-direct' }>): Address {
    if (jump) this.resolver.enableJumps();
    const address = this.resolver.address(caller);
    if (this.core.state.backend.capabilities.jumps && (address & 1n) !== 0n) throw oddCaller(caller);
    return jump ? address | 1n : address;
  }

  #addDirect(name: string, caller: Address): Outcome {
    const { core } = this;
    if (this.#direct.has(name))
      return { kind: 'refused', errno: 'EBUSY', reason: `${name} has a direct caller already` };
    const ops = core.createOps({ name: `direct ${name}`, func: 0n });
    const outcome = this.#filtered(ops, name, () => core.registerDirect(ops, caller));
    if (outcome.kind === 'done') this.#direct.set(name, { ops, caller });
    return outcome;
  }

  /** An ops of the session's own: filtered and registered, or forgotten. */
  #filtered(ops: Ops, words: string, register: () => Outcome): Outcome {
    const filtered = this.core.setFilter(ops, 'filter', words);
    const outcome = filtered.kind === 'done' ? register() : filtered;
    if (outcome.kind === 'refused') this.core.destroy(ops);
    return outcome;
  }
}

function missing(reason: string): Outcome {
  return { kind: 'refused', errno: 'ENOENT', reason };
}
