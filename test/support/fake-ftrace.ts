/**
 * A machine made up for tests of the ftrace core: memory in symbols, every kind of step, and calls
 * of traced functions executed as the entries, trampolines, list function and helpers of the
 * runtime execute them. Knows nothing of how the core decides.
 */
import type {
  Backend,
  Callee,
  CallSite,
  Capabilities,
  CodePlace,
  Content,
  FtraceCore,
  GraphUserImage,
  Literal,
  Ops,
  OpsImage,
  Reading,
  SiteHash,
  Step,
  StepProblem,
  TrampolineBlock,
  TrampolineImage,
  TrampolineRequest,
} from '../../src/ftrace/index.js';
import { OPS_FLAGS } from '../../src/runtime/abi.js';

/** What happens when a traced function is called. */
export type Event =
  | {
      readonly kind: 'callback';
      readonly func: bigint;
      readonly ip: bigint;
      readonly parent: bigint;
      readonly ops: string | null;
      readonly regs: boolean;
    }
  | { readonly kind: 'graph'; readonly user: string }
  | { readonly kind: 'direct'; readonly address: bigint }
  | { readonly kind: 'user-trampoline'; readonly address: bigint }
  /** What must never happen. */
  | { readonly kind: 'trap'; readonly reason: string };

export const SYMBOLS = {
  directHelper: 0xd1n,
  graphFunction: 0x6fn,
  graphEntry: 0x6en,
  plainEntry: 0x4dn,
  listEntry: 0x4cn,
  registerEntry: 0x4en,
} as const;

/** The parent address that all calls come from. */
export const PARENT = 0xabcn;

function sameCallee(a: Callee, b: Callee): boolean {
  return a.kind === b.kind && (a.kind !== 'function' || b.kind !== 'function' || a.address === b.address);
}

function sameContent(a: Content, b: Content): boolean {
  return a.kind === b.kind && ('address' in a ? 'address' in b && a.address === b.address : true);
}

function sameLiteral(a: Literal, b: Literal): boolean {
  return a.kind === b.kind && (a.kind !== 'ops' || (b.kind === 'ops' && a.ops === b.ops));
}

export class FakeMachine implements Backend {
  readonly symbols = SYMBOLS;
  readonly sites = new Map<CallSite, Content>();
  readonly literals = new Map<CallSite, Literal>();
  readonly callees: Record<'plain' | 'regs', Callee> = { plain: { kind: 'stub' }, regs: { kind: 'stub' } };
  readonly trampolines = new Map<bigint, { readonly ops: Ops; image: TrampolineImage; corrupt: boolean }>();
  readonly objects = new Map<Ops, OpsImage>();
  readonly direct = new Map<CallSite, bigint>();
  list: readonly Ops[] = [];
  traceOp: Ops | null = null;
  /** Whose hashes the jump's hook tests; null while the jump is off. */
  graph: Ops | null = null;
  graphUsers: readonly (GraphUserImage | null)[] = [];
  readonly log: Step[] = [];
  /** Trampolines that can be had. */
  allocations = Infinity;
  directRoom = Infinity;
  /** Sites from here on reach no trampoline. */
  farFrom = 1n << 64n;
  #nextBlock = 0x10_0000n;
  readonly planned = new Set<bigint>();
  /** Places that hold something else, or cannot be read, by key. */
  readonly foreign = new Map<CallSite, Uint8Array | 'fault'>();
  onCheck: (step: Step) => StepProblem | null = () => null;
  onWrite: (step: Step) => StepProblem | null = () => null;
  /** After each write. */
  written: (step: Step) => void = () => undefined;
  /** Does RCU watch? */
  watching = true;

  constructor(
    readonly capabilities: Capabilities,
    /** What a literal holds before anything was registered. */
    readonly literalOff: Literal = { kind: 'nop-ops' },
  ) {}

  read(place: CodePlace): Reading {
    switch (place.kind) {
      case 'site': {
        const foreign = this.foreign.get(place.site);
        if (foreign === 'fault') return { kind: 'fault' };
        if (foreign !== undefined) return { kind: 'foreign', bytes: foreign };
        return { kind: 'site', content: this.content(place.site) };
      }
      case 'literal':
        return { kind: 'literal', literal: this.literals.get(place.site) ?? this.literalOff };
      case 'callee':
        return { kind: 'callee', callee: this.callees[place.entry] };
      case 'inner-call': {
        const found = this.trampolines.get(place.block.address);
        return found === undefined ? { kind: 'fault' } : { kind: 'callee', callee: found.image.callee };
      }
      case 'graph-call':
        return { kind: 'graph-call', on: this.graph !== null };
      default:
        return place satisfies never;
    }
  }

  content(site: CallSite): Content {
    return this.sites.get(site) ?? { kind: 'nop' };
  }

  check(step: Step): StepProblem | null {
    return this.onCheck(step);
  }

  write(step: Step): StepProblem | null {
    const refused = this.onWrite(step);
    if (refused !== null) return refused;
    const wrong = this.#apply(step);
    if (wrong !== null) return { kind: 'failed', errno: 'EINVAL', reason: `${step.kind}: ${wrong}` };
    this.log.push(step);
    this.written(step);
    return null;
  }

  #apply(step: Step): string | null {
    switch (step.kind) {
      case 'object':
        if ((this.objects.get(step.ops) ?? null) !== step.before) return `${step.ops.name} is another object`;
        if (step.after === null) this.objects.delete(step.ops);
        else this.objects.set(step.ops, step.after);
        return null;
      case 'list':
        if (this.list.length !== step.before.length) return 'is another list';
        for (const ops of step.after) if (!this.objects.has(ops)) return `${ops.name} has no object`;
        this.list = step.after;
        return null;
      case 'direct-entry':
        if ((this.direct.get(step.site) ?? null) !== step.before) return `${step.site.name} has another entry`;
        if (step.after === null) this.direct.delete(step.site);
        else this.direct.set(step.site, step.after);
        return null;
      case 'trampoline':
        if (step.after === null) this.trampolines.delete(step.block.address);
        else if (!this.planned.has(step.block.address)) return 'was never planned';
        else this.trampolines.set(step.block.address, { ops: step.ops, image: step.after, corrupt: false });
        return null;
      case 'inner-call': {
        const found = this.trampolines.get(step.block.address);
        if (found === undefined || !sameCallee(found.image.callee, step.before)) return 'calls something else';
        // The call of a template lies at its own offset: written by the other's, it destroys the
        // copy.
        found.corrupt ||= found.image.template !== step.template;
        found.image = { ...found.image, callee: step.after };
        return null;
      }
      case 'callee':
        if (!sameCallee(this.callees[step.entry], step.before)) return 'calls something else';
        this.callees[step.entry] = step.after;
        return null;
      case 'trace-op':
        if (this.traceOp !== step.before) return 'is another ops';
        this.traceOp = step.after;
        return null;
      case 'site':
        if (!sameContent(this.content(step.site), step.before)) return `${step.site.name} holds something else`;
        if (step.after.kind === 'nop') this.sites.delete(step.site);
        else this.sites.set(step.site, step.after);
        return null;
      case 'literal':
        if (!sameLiteral(this.literals.get(step.site) ?? this.literalOff, step.before)) return 'is another literal';
        this.literals.set(step.site, step.after);
        return null;
      case 'graph-call':
        if ((this.graph !== null) !== step.before) return 'is not so';
        this.graph = step.after ? step.ops : null;
        return null;
      case 'graph-users':
        this.graphUsers = step.after;
        return null;
      case 'sync':
      case 'quiesce':
      case 'free':
        return null;
      default:
        return step satisfies never;
    }
  }

  /** Functions above this cannot be called by the entries. */
  farthest = 1n << 64n;

  nameOf(address: bigint): string {
    return Object.entries(SYMBOLS).find(([, at]) => at === address)?.[0] ?? '';
  }

  reachesTrampoline({ ip }: CallSite): boolean {
    return ip < this.farFrom;
  }

  reachesCallback(address: bigint): boolean {
    return address <= this.farthest;
  }

  bytesOf(_site: CallSite, content: Content): Uint8Array | null {
    if (content.kind === 'nop') return Uint8Array.of(0x0f, 0x1f, 0x44, 0x00, 0x00);
    const target =
      'address' in content
        ? Number(content.address & 0xffffn)
        : ['caller', 'regs-caller', 'list-caller'].indexOf(content.kind) + 1;
    return Uint8Array.of(0xe8, target & 0xff, target >> 8, 0, 0);
  }

  bytesAt(site: CallSite): Uint8Array | null {
    const foreign = this.foreign.get(site);
    if (foreign === 'fault') return null;
    return foreign ?? this.bytesOf(site, this.content(site));
  }

  planTrampoline(_request: TrampolineRequest): TrampolineBlock | { readonly refused: string } {
    if (this.allocations <= 0) return { refused: 'no memory' };
    this.allocations--;
    const address = this.#nextBlock;
    this.#nextBlock += 0x100n;
    this.planned.add(address);
    return { address, sizeBytes: 0x80 };
  }

  dropTrampoline(block: TrampolineBlock): void {
    this.allocations++;
    this.planned.delete(block.address);
  }

  reserveDirect(entries: number): boolean {
    return entries <= this.directRoom;
  }

  /**
   * Memory as another core knows it, which was made from what the first one saved. Returns what
   * differs: objects that the new core believes to be in memory and that are not what memory holds.
   */
  adopt(core: FtraceCore, ops: (old: Ops) => Ops, site: (old: CallSite) => CallSite): string[] {
    const wrong: string[] = [];
    const move = <K, V>(map: Map<K, V>, key: (old: K) => K, value: (old: V) => V): void => {
      const entries = [...map].map(([k, v]) => [key(k), value(v)] as const);
      map.clear();
      for (const [k, v] of entries) map.set(k, v);
    };
    const callee = (old: Callee): Callee => (old.kind === 'assist' ? { kind: old.kind, ops: ops(old.ops) } : old);
    move(this.sites, site, (old) =>
      old.kind === 'trampoline' && old.ops !== null ? { ...old, ops: ops(old.ops) } : old,
    );
    move(this.literals, site, (old) => (old.kind === 'ops' ? { kind: old.kind, ops: ops(old.ops as Ops) } : old));
    move(this.direct, site, (old) => old);
    move(
      this.trampolines,
      (old) => old,
      ({ ops: owner, image, corrupt }) => ({
        ops: ops(owner),
        image: { ...image, callee: callee(image.callee) },
        corrupt,
      }),
    );
    const sitesOf = (hash: SiteHash | null): string =>
      hash === null
        ? 'all'
        : [...hash.sites]
            .map(({ ip }) => ip)
            .sort()
            .join();
    const words = (image: OpsImage | undefined): string =>
      image === undefined
        ? 'none'
        : [
            image.func,
            image.flags,
            image.directCall,
            image.trampoline,
            sitesOf(image.filter),
            sitesOf(image.notrace),
          ].join(' ');
    const objects = [...this.objects];
    this.objects.clear();
    for (const [old, image] of objects) {
      const believed = core.state.objects.get(ops(old));
      if (words(image) !== words(believed)) wrong.push(`${old.name}: ${words(image)}, believed ${words(believed)}`);
      this.objects.set(ops(old), believed ?? image);
    }
    if (objects.length !== core.state.objects.size) wrong.push('another number of objects');
    this.callees.plain = callee(this.callees.plain);
    this.callees.regs = callee(this.callees.regs);
    this.list = this.list.map(ops);
    this.traceOp = this.traceOp && ops(this.traceOp);
    this.graph = this.graph && ops(this.graph);
    this.graphUsers = core.state.graph.users.map((user) => user && { user, hashes: { ...user.pair } });
    return wrong;
  }

  /** True when nothing of the core is left in memory. */
  get untouched(): boolean {
    const stubs = this.callees.plain.kind === 'stub' && this.callees.regs.kind === 'stub';
    const literals = [...this.literals.values()].every((literal) => sameLiteral(literal, this.literalOff));
    return (
      stubs &&
      literals &&
      this.sites.size === 0 &&
      this.objects.size === 0 &&
      this.trampolines.size === 0 &&
      this.direct.size === 0 &&
      this.list.length === 0 &&
      this.traceOp === null &&
      this.graph === null
    );
  }

  /** Calls a function and tells what ran, in order. */
  run(site: CallSite): Event[] {
    const call = new Call(this, site);
    call.enter();
    return call.events;
  }
}

/** One call of a traced function. */
class Call {
  readonly events: Event[] = [];
  /** The slot in the frame of the entry that leads to a direct caller. */
  #slot: bigint | null = null;

  constructor(
    readonly machine: FakeMachine,
    readonly site: CallSite,
  ) {}

  enter(): void {
    const content = this.machine.content(this.site);
    switch (content.kind) {
      case 'nop':
        return;
      case 'caller':
        this.#entry('plain');
        return;
      case 'regs-caller':
        this.#entry('regs');
        return;
      case 'list-caller':
        this.#walk('plain');
        if (this.#slot !== null) this.events.push({ kind: 'direct', address: this.#slot });
        return;
      case 'direct':
        this.events.push({ kind: 'direct', address: content.address });
        return;
      case 'trampoline':
        this.#trampoline(content.address);
        return;
      default:
        content satisfies never;
    }
  }

  #trap(reason: string): void {
    this.events.push({ kind: 'trap', reason });
  }

  #trampoline(address: bigint): void {
    if (address === SYMBOLS.graphEntry) {
      this.#hook();
      return;
    }
    const found = this.machine.trampolines.get(address);
    if (found === undefined) {
      this.events.push({ kind: 'user-trampoline', address });
      return;
    }
    if (found.corrupt) this.#trap('the trampoline is no code any more');
    this.#call(found.image.callee, found.ops, found.image.template);
    this.#sharedTail();
  }

  #entry(kind: 'plain' | 'regs'): void {
    const { machine } = this;
    if (machine.capabilities.callOps) {
      const literal = machine.literals.get(this.site) ?? machine.literalOff;
      if (literal.kind === 'list-ops') this.#walk(kind);
      else if (literal.kind === 'ops') {
        const [ops = null, object] = [...machine.objects].find(([each]) => each === literal.ops) ?? [];
        if (object === undefined) this.#trap(`the literal names ${literal.ops.name}, which is gone`);
        else if (object.directCall !== 0n) {
          this.events.push({ kind: 'direct', address: object.directCall });
          return;
        } else this.#function(object.func, ops, kind);
      }
    } else {
      this.#call(machine.callees[kind], machine.traceOp, kind);
    }
    this.#sharedTail();
    if (this.#slot !== null) this.events.push({ kind: 'direct', address: this.#slot });
  }

  /** The end of the entries, which copies of them jump to: the jump of the graph tracer. */
  #sharedTail(): void {
    if (this.machine.capabilities.graph !== 'callback' && this.machine.graph !== null) this.#hook();
  }

  #call(callee: Callee, ops: Ops | null, entry: 'plain' | 'regs'): void {
    switch (callee.kind) {
      case 'stub':
        return;
      case 'list':
        this.#walk(entry);
        return;
      case 'function':
        this.#function(callee.address, ops, entry);
        return;
      case 'assist': {
        const object = ops === null ? undefined : this.machine.objects.get(ops);
        if (object === undefined) this.#trap('the wrapper has no ops');
        else if ((object.flags & OPS_FLAGS.RCU) === 0 || this.machine.watching) this.#function(object.func, ops, entry);
        return;
      }
      default:
        callee satisfies never;
    }
  }

  #hasRegs(entry: 'plain' | 'regs'): boolean {
    return entry === 'regs' || this.machine.capabilities.regs === 'same';
  }

  #walk(entry: 'plain' | 'regs'): void {
    for (const ops of this.machine.list) {
      const object = this.machine.objects.get(ops);
      if (object === undefined) {
        this.#trap(`${ops.name} is in the list and has no object`);
        continue;
      }
      if ((object.flags & OPS_FLAGS.STUB) !== 0) continue;
      if ((object.flags & OPS_FLAGS.RCU) !== 0 && !this.machine.watching) continue;
      if ((object.flags & OPS_FLAGS.SAVE_REGS) !== 0 && !this.#hasRegs(entry)) continue;
      if (!this.#traced(object.filter, object.notrace)) continue;
      this.#function(object.func, ops, entry, true);
    }
  }

  #traced(filter: SiteHash | null, notrace: SiteHash | null): boolean {
    return (filter === null || filter.sites.has(this.site)) && notrace?.sites.has(this.site) !== true;
  }

  #function(func: bigint, ops: Ops | null, entry: 'plain' | 'regs', fromList = false): void {
    if (func === SYMBOLS.directHelper) {
      if (this.machine.capabilities.direct === 'regs' && !this.#hasRegs(entry)) {
        this.#trap('the helper of direct callers behind an entry without a slot');
        return;
      }
      this.#slot = this.machine.direct.get(this.site) ?? null;
      return;
    }
    if (func === SYMBOLS.graphFunction) {
      this.#hook();
      return;
    }
    if (this.machine.capabilities.passes === 2 && !fromList) this.#trap('a callback gets no ops');
    this.events.push({
      kind: 'callback',
      func,
      ip: this.site.ip,
      parent: PARENT,
      ops: ops?.name ?? null,
      regs: this.#hasRegs(entry),
    });
  }

  /**
   * The hook of the graph tracer. As a jump it serves every traced function, so it tests the hashes
   * of its ops first (C-FG-8).
   */
  #hook(): void {
    const { graph, capabilities, objects } = this.machine;
    if (capabilities.graph !== 'callback') {
      const content = this.machine.content(this.site);
      const alone = content.kind === 'trampoline' && content.address === SYMBOLS.graphEntry;
      const object = graph === null ? undefined : objects.get(graph);
      if (!alone && (object === undefined || !this.#traced(object.filter, object.notrace))) return;
    }
    for (const image of this.machine.graphUsers) {
      if (image === null) continue;
      const { filter, notrace } = image.hashes;
      const pending = filter !== null && (filter.queued.length > 0 || filter.neutral > 0);
      const everything = filter === null || (filter.sites.size === 0 && !pending);
      if (this.#traced(everything ? null : filter, notrace)) this.events.push({ kind: 'graph', user: image.user.name });
    }
  }
}
