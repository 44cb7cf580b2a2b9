/**
 * What the ftrace core decides for one tracer that is alone on an image: what its sites call, what
 * its object holds, where the calls inside the entries lead. The core is asked about one record,
 * which stands for every site of the tracer: they all call the same. Owns the question; decides
 * nothing.
 */
import { ElftraceError } from '../errors.js';
import {
  type Backend,
  type Callee,
  type CodePlace,
  type Content,
  FtraceCore,
  GraphUser,
  type Literal,
  type OpsImage,
  type Policy,
  type Reading,
  type Step,
  type TrampolineRequest,
} from '../ftrace/index.js';
import { imageOf, type TrampolineBlock } from '../ftrace/ops.js';
import type { Address } from '../units.js';

/** What the core is told of an image. */
export interface TracerImage extends Pick<Backend, 'capabilities' | 'symbols' | 'reachesCallback'> {
  readonly policy: Partial<Policy>;
  planTrampoline(request: TrampolineRequest): TrampolineBlock | { readonly refused: string };
}

export type OneTracer =
  | { readonly kind: 'graph' }
  | {
      readonly kind: 'callback';
      readonly func: Address;
      readonly saveRegs: boolean;
      /** A trampoline that is not the core's: it stays. */
      readonly trampoline: Address | null;
    };

export interface TracerDecision {
  readonly content: Content;
  readonly ops: OpsImage;
  readonly callee: Callee;
  readonly graphOn: boolean;
}

/** An image on which nothing is registered: what the core writes there is what it decided. */
class Sheet implements Backend {
  readonly capabilities: Backend['capabilities'];
  readonly symbols: Backend['symbols'];
  content: Content = { kind: 'nop' };

  constructor(
    private readonly image: TracerImage,
    private readonly idle: Literal,
  ) {
    // Which sites can be written is asked site by site, by who plans them.
    this.capabilities = { ...image.capabilities, patchable: true };
    this.symbols = image.symbols;
  }

  read(place: CodePlace): Reading {
    switch (place.kind) {
      case 'site':
        return { kind: 'site', content: { kind: 'nop' } };
      case 'literal':
        return { kind: 'literal', literal: this.idle };
      case 'graph-call':
        return { kind: 'graph-call', on: false };
      case 'callee':
        return { kind: 'callee', callee: { kind: 'stub' } };
      case 'inner-call':
        return { kind: 'fault' };
      default:
        return place satisfies never;
    }
  }

  check(): null {
    return null;
  }

  write(step: Step): null {
    if (step.kind === 'site') this.content = step.after;
    return null;
  }

  reachesCallback(address: Address): boolean {
    return this.image.reachesCallback(address);
  }

  planTrampoline(request: TrampolineRequest): ReturnType<Backend['planTrampoline']> {
    return this.image.planTrampoline(request);
  }

  /** Whether a single site does is asked when it is planned: the shared entry serves it as well. */
  reachesTrampoline(): boolean {
    return true;
  }

  dropTrampoline(): void {
    // The operation ends well, or the whole request does not.
  }

  reserveDirect(): boolean {
    return false;
  }

  nameOf(): string {
    return '';
  }

  bytesOf(): null {
    return null;
  }

  bytesAt(): null {
    return null;
  }
}

/**
 * @throws ElftraceError 'plan-refused' where the core refuses the tracer
 */
export function decideTracer(image: TracerImage, tracer: OneTracer): TracerDecision {
  const sheet = new Sheet(image, { kind: image.policy.literalOff === 'list' ? 'list-ops' : 'nop-ops' });
  const core = new FtraceCore({
    backend: sheet,
    sites: [{ ip: 1n, name: 'a site of the tracer' }],
    records: { siteBytes: 1 },
    policy: image.policy,
  });
  const outcome =
    tracer.kind === 'graph'
      ? core.registerGraph(new GraphUser('function_graph', { entry: 0n, return: 0n }))
      : core.register(
          core.createOps({
            name: 'tracer',
            func: tracer.func,
            flags: tracer.saveRegs ? ['SAVE_REGS'] : [],
            ...(tracer.trampoline === null ? {} : { trampoline: tracer.trampoline }),
          }),
        );
  if (outcome.kind === 'refused') throw new ElftraceError('plan-refused', `${outcome.reason} [${outcome.errno}]`);
  const [ops] = core.state.list;
  if (outcome.kind === 'failed' || ops === undefined) {
    throw new ElftraceError('internal', 'the core cannot decide a tracer that is alone');
  }
  return {
    content: sheet.content,
    ops: imageOf(ops, sheet.capabilities, sheet.symbols.registerEntry),
    callee: core.state.callee,
    graphOn: core.state.graph.on,
  };
}
