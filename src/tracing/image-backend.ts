/**
 * The core's backend for images with the runtime in them: files, and machines that run them. Hands
 * each step of the core to the part that owns what it changes, and decides nothing about ops.
 *
 *   site, literal, bytes of sites      site-text.ts
 *   callee, inner-call, graph-call     entry-calls.ts
 *   object, list, hashes               ops-objects.ts
 *   graph-users                        graph-objects.ts
 *   direct-entry                       direct-rows.ts
 *   trampoline                         trampoline-blocks.ts
 *   room for objects, free             data-room.ts
 *   every store                        image-memory.ts
 *
 * Layout of the tool's room (`elftrace_data`): slots of ops objects first, then hashes and tables,
 * each aligned to a word.
 */
import type { EntryConvention } from '../machine/conventions.js';
import type { TextSeam } from '../machine/trampolines.js';
import { ElftraceError, hex } from '../errors.js';
import { OPS_WORD_COUNT } from '../runtime/abi.js';
import type { Address } from '../units.js';
import {
  type Backend,
  type CallSite,
  type Capabilities,
  type CodePlace,
  type Content,
  describeStep,
  type GraphUser,
  type Literal,
  type NamedOps,
  type Reading,
  type SiteHash,
  type Step,
  type StepProblem,
  type TrampolineBlock,
  type TrampolineRequest,
} from '../ftrace/index.js';
import type { Sites } from '../sites/sites.js';
import { jumpsAreOn } from '../sites/direct-table.js';
import { DataRoom } from './data-room.js';
import { DirectRows } from './direct-rows.js';
import { EntryCalls } from './entry-calls.js';
import { GraphObjects } from './graph-objects.js';
import { failed, ImageMemory, refused, type Text } from './image-memory.js';
import type { StoreLedger, StoreReason } from './ledger.js';
import { OpsObjects } from './ops-objects.js';
import { SiteText } from './site-text.js';
import { TrampolineBlocks } from './trampoline-blocks.js';
import { opsSlots } from './trampolines.js';
import { conventionOf } from './entries.js';
import { runtimeSymbols } from './offers.js';

export interface ImageBackendOptions {
  readonly capabilities: Capabilities;
  /** What the words in front of functions name that are off. */
  readonly idleLiteral: Literal;
  /** Nop form of sites that have several. */
  readonly nopForm?: string;
  /** Text for a machine that runs; the file's copy alone when absent. */
  readonly text?: Text;
  /** Gets every store with its reason. */
  readonly ledger?: StoreLedger;
  /** What stands between private trampolines and the image; nothing when absent. */
  readonly seam?: (own: TextSeam) => TextSeam;
  /**
   * The sites before anything was written over them, for reports of foreign bytes: what would stand
   * there.
   */
  readonly pristine?: () => Sites;
}

/** The rule that says when each step is made; that of a site's bytes is its shape's. */
const stepRules: Readonly<Record<Step['kind'], string>> = {
  site: 'C-UPD-1',
  literal: 'C-UPD-1',
  callee: 'C-TGT-4',
  'inner-call': 'C-TGT-4',
  'trace-op': 'C-TGT-8',
  object: 'C-UPD-1',
  list: 'C-UPD-1',
  'direct-entry': 'C-DIR-7',
  'graph-call': 'C-FG-6',
  'graph-users': 'C-FG-8',
  trampoline: 'C-UPD-1',
  sync: 'C-UPD-1',
  quiesce: 'C-UPD-1',
  free: 'C-UPD-1',
};

/** Bit 0 of a direct caller's address cannot be both. */
export function oddCaller(name: string): ElftraceError {
  return new ElftraceError(
    'unsupported-form',
    `the direct caller ${name} is at an odd address, where bit 0 says that sites jump`,
    { symbol: name },
  );
}

const noTrampoline = (block: TrampolineBlock): StepProblem =>
  failed('EFAULT', `there is no trampoline at ${hex(block.address)}`);

export class ImageBackend implements Backend {
  capabilities: Capabilities;
  readonly symbols: Backend['symbols'];
  private readonly convention: EntryConvention;
  private readonly memory: ImageMemory;
  private readonly room: DataRoom;
  private readonly ops: OpsObjects;
  private readonly sites: SiteText;
  private readonly calls: EntryCalls;
  private readonly trampolines: TrampolineBlocks;
  private readonly direct: DirectRows;
  private readonly graphs: GraphObjects;

  /** @param sites  of an image whose bytes are the caller's own: they are written in place */
  constructor(
    sites: Sites,
    private readonly options: ImageBackendOptions,
  ) {
    const { program } = sites;
    const memory = new ImageMemory(program, options.text, options.ledger);
    this.memory = memory;
    this.capabilities = { ...options.capabilities, jumps: jumpsAreOn(program) };
    this.convention = conventionOf(program);
    memory.need('ftrace_caller');
    this.symbols = runtimeSymbols(program);
    const data = memory.need('elftrace_data').identity;
    const section = program.image.sectionAt(data);
    const end = section === undefined ? data : section.address + BigInt(section.size);
    this.room = new DataRoom(data + BigInt(opsSlots * OPS_WORD_COUNT * memory.word), end);
    this.ops = new OpsObjects(memory, this.room);
    this.graphs = new GraphObjects(memory, this.room, this.ops);
    this.direct = new DirectRows(memory, this.room, this.ops);
    this.sites = new SiteText(sites, memory, this.ops, {
      convention: this.convention,
      capabilities: () => this.capabilities,
      listEntry: this.symbols.listEntry,
      graphEntry: this.symbols.graphEntry,
      idleLiteral: options.idleLiteral,
      nopForm: options.nopForm,
      pristine: options.pristine,
    });
    const { regs } = this.capabilities;
    const patchesCall = this.convention.symbols.calls.includes('ftrace_call');
    this.calls = new EntryCalls(memory, this.ops, regs === 'separate', patchesCall);
    this.trampolines = new TrampolineBlocks(memory, this.room, this.ops, {
      convention: this.convention.name,
      sites: () => this.sites.places,
      calleeAddress: (callee) => this.calls.calleeAddress(callee),
      seam: options.seam,
    });
  }

  nameOf(address: Address): string {
    const { program } = this.memory;
    const range = program.codeAt(address);
    return range === undefined ? '' : program.describe(range, address);
  }

  /**
   * Says whether the code of a module is gone: then its sites have no bytes, and what is written to
   * them is only remembered.
   */
  setGone(module: string, gone: boolean): void {
    this.sites.setGone(module, gone);
  }

  /**
   * From now on bit 0 of a direct caller's address says that its sites jump (X-JMP-1).
   * @param present  the direct callers that there are
   * @throws ElftraceError 'unsupported-form' where the entries cannot, or a direct caller lies at
   *   an odd address
   */
  enableJumps(present: Iterable<Address>): void {
    if (this.capabilities.jumps) return;
    const flag = this.memory.find('elftrace_direct_jumps');
    if (flag === null) {
      const { name } = this.convention;
      throw new ElftraceError(
        'unsupported-form',
        `the entries of the image (${name}) only call direct callers: sites cannot jump to them`,
      );
    }
    for (const address of present) if ((address & 1n) !== 0n) throw oddCaller(hex(address));
    this.memory.why = { rule: 'X-JMP-1', site: -1, reason: 'sites jump to direct callers whose bit 0 is set' };
    const problem = this.memory.words(flag.identity, [1n]);
    if (problem !== null) throw new ElftraceError('plan-refused', problem.reason);
    this.capabilities = { ...this.capabilities, jumps: true };
  }

  /** Address of an ops object. */
  addressOf(ops: NamedOps): Address {
    return this.ops.addressOf(ops);
  }

  /** Address of the object of a user of the graph tracer; null where it has none. */
  graphUserAddress(user: GraphUser): Address | null {
    return this.graphs.addressOf(user);
  }

  bytesAt(site: CallSite): Uint8Array | null {
    return this.sites.bytesAt(site);
  }

  bytesOf(site: CallSite, content: Content): Uint8Array | null {
    return this.sites.bytesOf(site, content);
  }

  planTrampoline(request: TrampolineRequest): TrampolineBlock | { readonly refused: string } {
    return this.trampolines.plan(request);
  }

  dropTrampoline(block: TrampolineBlock): void {
    this.trampolines.drop(block);
  }

  reachesTrampoline(site: CallSite, block: TrampolineBlock): boolean {
    return this.trampolines.inReachOf(site.ip, block);
  }

  reachesCallback(address: Address): boolean {
    return this.calls.reach(address);
  }

  reserveDirect(entries: number, hashes: readonly SiteHash[]): boolean {
    return this.direct.reserve(entries, hashes);
  }

  read(place: CodePlace): Reading {
    switch (place.kind) {
      case 'site': {
        const gone = this.sites.goneAt(place.site);
        return gone === null ? this.sites.read(place.site) : { kind: 'site', content: gone.content };
      }
      case 'literal': {
        const gone = this.sites.goneAt(place.site);
        return gone === null ? this.sites.readLiteral(place.site) : { kind: 'literal', literal: gone.literal };
      }
      case 'callee':
        return this.calls.read(place.entry);
      case 'graph-call':
        return this.calls.readGraph(this.symbols.graphEntry);
      case 'inner-call': {
        const at = this.trampolines.callAt(place.block);
        return at === null ? { kind: 'fault' } : this.calls.readCall(at);
      }
      default:
        return place satisfies never;
    }
  }

  check(step: Step): StepProblem | null {
    if ((step.kind === 'site' || step.kind === 'literal') && this.sites.goneAt(step.site) !== null) return null;
    switch (step.kind) {
      case 'site':
        return this.sites.check(step.site, step.after);
      case 'callee':
        return this.calls.check(step.entry, step.after);
      case 'object':
        return step.after === null ? null : this.ops.check(step.ops, step.after);
      case 'graph-users':
        return this.graphs.check(step.after);
      case 'literal':
        return this.capabilities.callOps
          ? null
          : refused('EINVAL', 'the sites of the image have no word for their ops');
      case 'trampoline':
        return this.memory.program.arch.trampolines.kind === 'private'
          ? null
          : refused('EINVAL', `the image has no place for ${step.kind}`);
      case 'inner-call': {
        const at = this.trampolines.callOf(step.block, step.template);
        return at === null ? noTrampoline(step.block) : this.calls.checkCall(at, step.after);
      }
      case 'direct-entry':
        return this.sites.checkJump(step.site, step.after);
      case 'list':
      case 'trace-op':
      case 'graph-call':
      case 'sync':
      case 'quiesce':
      case 'free':
        return null;
      default:
        return step satisfies never;
    }
  }

  write(step: Step): StepProblem | null {
    const gone = step.kind === 'site' || step.kind === 'literal' ? this.sites.goneAt(step.site) : null;
    if (gone !== null) {
      if (step.kind === 'site') gone.content = step.after;
      else if (step.kind === 'literal') gone.literal = step.after;
      return null;
    }
    this.memory.why = this.whyOf(step);
    switch (step.kind) {
      case 'site':
        return this.sites.write(step.site, step.after);
      case 'callee':
        return this.calls.write(step.entry, step.after);
      case 'trace-op':
        return this.writeTraceOp(step.after);
      case 'object':
        return this.ops.write(step.ops, step.after);
      case 'list':
        return this.ops.writeList(step.after);
      case 'direct-entry':
        return this.direct.write(step.site, step.after);
      case 'graph-call':
        return this.calls.writeGraph(step.ops, step.after);
      case 'graph-users':
        return this.graphs.write(step.after);
      case 'literal':
        return this.sites.writeLiteral(step.site, step.after);
      case 'trampoline':
        return this.trampolines.write(step.ops, step.block, step.after);
      case 'inner-call': {
        const at = this.trampolines.callOf(step.block, step.template);
        return at === null ? noTrampoline(step.block) : this.calls.writeCall(at, step.after);
      }
      case 'sync':
      case 'quiesce':
        this.options.text?.event(step);
        return null;
      case 'free':
        this.freed(step);
        return null;
      default:
        return step satisfies never;
    }
  }

  private writeTraceOp(ops: NamedOps | null): StepProblem | null {
    const { memory } = this;
    const value = ops === null ? memory.need('ftrace_list_end').identity : this.ops.addressOf(ops);
    return memory.words(memory.need('function_trace_op').identity, [value]);
  }

  /** No thread reaches an object any more: its memory, and that of its hashes, is free. */
  private freed(step: Extract<Step, { readonly kind: 'free' }>): void {
    if (step.object === 'hash' || step.object === 'ops') {
      const { hashes } = this.graphs;
      this.graphs.sweep();
      this.ops.sweep(hashes);
    }
    const freed = this.room.freed(step.object);
    this.options.text?.event(step, freed);
  }

  /** The rule of a step, its site and what it does. */
  private whyOf(step: Step): StoreReason {
    const site = 'site' in step ? this.sites.indexOf(step.site) : -1;
    return { rule: stepRules[step.kind], site, reason: describeStep(step) };
  }
}
