/**
 * What both model tests of the ftrace core do: they make ops for the core and for the model, tell
 * both of an event, and take everything out again. Which events there are, how often, and what is
 * compared after each is the test's own.
 */
import { expect } from '@jest/globals';
import type { FtraceCore, GraphUser, Ops, OpsInput, Outcome } from '../../src/ftrace/index.js';
import type { MFunction, Model, MOps, MPair, Trait } from './ftrace-model.js';

export interface PoolEntry {
  readonly name: string;
  readonly traits: readonly Trait[];
  readonly kind: 'plain' | 'direct';
}

const FLAGS = {
  regs: 'SAVE_REGS',
  'regs-if': 'SAVE_REGS_IF_SUPPORTED',
  recursion: 'RECURSION',
  rcu: 'RCU',
  ipmodify: 'IPMODIFY',
  permanent: 'PERMANENT',
  dynamic: 'DYNAMIC',
} as const;

export const userNames: readonly string[] = ['g0', 'g1', 'g2'];

const emptyPair = (): MPair => ({ filter: null, notrace: null });

/** What the model knows of the tracer that everybody may filter. */
export const tracerOf = (func: bigint): MOps => ({
  name: 'tracer', traits: new Set(), kind: 'plain', pair: emptyPair(), func, address: 0n, filtered: true,
}); // prettier-ignore

/**
 * One event as it is told, the errno that the model expects (null: done), and the call of the core.
 */
export interface Action {
  readonly tell: string;
  readonly predicted: string | null;
  readonly act: () => Outcome;
}

export abstract class ModelDriver {
  ops: Ops[] = [];
  users: GraphUser[] = [];
  readonly trail: string[] = [];

  abstract get core(): FtraceCore;
  abstract get model(): Model;
  abstract fail(reason: string): never;

  /**
   * Ops for the core, and what the model knows of them. Those whose names begin with `shared` have
   * one pair of filters.
   */
  protected createPool(
    core: FtraceCore,
    pool: readonly PoolEntry[],
    own: (one: PoolEntry, index: number) => Pick<OpsInput, 'func' | 'data' | 'trampoline'>,
  ): MOps[] {
    const shared = emptyPair();
    const sharedPair = core.createPair();
    return pool.map((one, index) => {
      const { name, traits, kind } = one;
      const isShared = name.startsWith('shared');
      const options = own(one, index);
      this.ops.push(
        core.createOps({
          name,
          ...options,
          flags: traits.flatMap((trait) => (trait in FLAGS ? [FLAGS[trait as keyof typeof FLAGS]] : [])),
          ...(isShared ? { pair: sharedPair } : {}),
          ...(traits.includes('shares') ? { negotiate: () => 0 as const } : {}),
        }),
      );
      const pair = isShared ? shared : emptyPair();
      return { name, traits: new Set(traits), kind, pair, func: options.func, address: 0n, filtered: false };
    });
  }

  /** The model with functions, and users of graphs without filters. */
  protected populate(model: Model, functions: readonly MFunction[]): void {
    model.functions.push(...functions);
    for (const name of userNames) model.userPairs.set(name, emptyPair());
  }

  /** What the numbers of an event mean. */
  protected chosen(a: number, b: number, c: number, texts: readonly string[]) {
    const { ops, users, model } = this;
    const index = a % ops.length;
    return {
      ops: ops[index]!,
      mops: model.all[index]!,
      text: texts[b % texts.length]!,
      append: c % 4 === 0,
      fn: model.functions[b % model.functions.length]!,
      user: users[a % users.length]!,
      module: `m${String(a % 2)}`,
    };
  }

  // ---------------------------------------------------------------------------------------- events

  protected register(ops: Ops, mops: MOps, address: bigint): Action {
    const { core, model } = this;
    return mops.kind === 'direct'
      ? {
          tell: `register-direct ${ops.name} ${address}`,
          predicted: model.registerDirect(mops, address),
          act: () => core.registerDirect(ops, address),
        }
      : { tell: `register ${ops.name}`, predicted: model.register(mops), act: () => core.register(ops) };
  }

  protected unregister(ops: Ops, mops: MOps): Action {
    const { core, model } = this;
    const now = mops.address;
    return mops.kind === 'direct'
      ? {
          tell: `unregister-direct ${ops.name}`,
          predicted: model.unregisterDirect(mops),
          act: () => core.unregisterDirect(ops, now),
        }
      : { tell: `unregister ${ops.name}`, predicted: model.unregister(mops), act: () => core.unregister(ops) };
  }

  protected setFilter(ops: Ops, mops: MOps, which: 'filter' | 'notrace', text: string, append: boolean): Action {
    const { core, model } = this;
    const next = model.words(text, append ? mops.pair[which] : null);
    const predicted = next === null ? 'EINVAL' : model.modify(mops.pair, which, next);
    if (predicted === null) mops.filtered = true;
    return {
      tell: `${which} ${ops.name} '${text}'${append ? ' append' : ''}`,
      predicted,
      act: () => core.setFilter(ops, which, text, append ? 'append' : 'replace'),
    };
  }

  /** `at`: among the ops. */
  protected modifyDirect(at: number, address: bigint): Action {
    const { core, model } = this;
    const ops = this.ops[at]!;
    return {
      tell: `modify-direct ${ops.name} to ${address}`,
      predicted: model.modifyDirect(model.all[at]!, address),
      act: () => core.modifyDirect(ops, address),
    };
  }

  protected registerAt(fn: MFunction, address: bigint): Action {
    const { core, model } = this;
    return {
      tell: `direct-at ${fn.id} ${address}`,
      predicted: model.registerAt(fn, address),
      act: () => core.registerDirectAt(fn.ip, address),
    };
  }

  protected unregisterAt(fn: MFunction): Action {
    const { core, model } = this;
    return {
      tell: `no-direct-at ${fn.id}`,
      predicted: model.unregisterAt(fn),
      act: () => core.unregisterDirectAt(fn.ip),
    };
  }

  protected modifyAt(fn: MFunction, from: bigint, address: bigint): Action {
    const { core, model } = this;
    return {
      tell: `modify-direct-at ${fn.id} from ${from} to ${address}`,
      predicted: model.modifyAt(fn, from, address),
      act: () => core.modifyDirectAt(fn.ip, from, address),
    };
  }

  protected registerGraph(user: GraphUser): Action {
    const { core, model } = this;
    return {
      tell: `graph ${user.name}`,
      predicted: model.registerGraph(user.name),
      act: () => core.registerGraph(user),
    };
  }

  protected unregisterGraph(user: GraphUser): Action {
    const { core, model } = this;
    return {
      tell: `no-graph ${user.name}`,
      predicted: model.unregisterGraph(user.name),
      act: () => core.unregisterGraph(user),
    };
  }

  protected setGraphFilter(user: GraphUser, which: 'filter' | 'notrace', text: string): Action {
    const { core, model } = this;
    const next = model.words(text, null);
    const predicted = next === null || model.era !== 'multi' ? 'EINVAL' : null;
    if (predicted === null) model.userPairs.get(user.name)![which] = next;
    return {
      tell: `graph-${which} ${user.name} '${text}'`,
      predicted,
      act: () => core.setGraphFilter(user, which, text),
    };
  }

  protected switch(on: boolean): Action {
    const { core, model } = this;
    return { tell: on ? 'on' : 'off', predicted: model.switch(on), act: () => core.setEnabled(on) };
  }

  protected setFunction(ops: Ops, mops: MOps, func: bigint): Action {
    const { core } = this;
    mops.func = func;
    return { tell: `function ${ops.name} ${func}`, predicted: null, act: () => core.setFunction(ops, func) };
  }

  // -------------------------------------------------------------------------------------- outcomes

  /** The core did what the model said. */
  protected mustBe(outcome: Outcome, predicted: string | null): void {
    const got = outcome.kind === 'done' ? null : outcome.errno;
    if (got === predicted) return;
    this.fail(
      `outcome ${String(got)}${outcome.kind === 'done' ? '' : ` (${outcome.reason})`}, expected ${String(predicted)}`,
    );
  }

  protected must(outcome: Outcome): void {
    if (outcome.kind !== 'done') this.fail(`at the end: ${outcome.reason}`);
  }

  /**
   * Takes out who is registered. True: something stays, because its functions went with their
   * module.
   */
  protected takeOut(): boolean {
    const { core, model } = this;
    for (const user of this.users) if (model.users.includes(user.name)) this.must(core.unregisterGraph(user));
    this.ops.forEach((ops, index) => {
      if (!ops.has('ENABLED')) return;
      const mops = model.all[index]!;
      this.must(mops.kind === 'direct' ? core.unregisterDirect(ops, mops.address) : core.unregister(ops));
    });
    for (const fn of model.functions) if (model.unregisterAt(fn) === null) this.must(core.unregisterDirectAt(fn.ip));
    const stays = core.state.list.length > 0;
    if (stays) expect(core.state.list.map((ops) => ops.name)).toEqual(['direct callers by address']);
    return stays;
  }
}
