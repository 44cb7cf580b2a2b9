/**
 * The core's backend for images with the runtime in them: files, and machines that run them. Owns
 * the way from the core's symbols to bytes and back (which words a site, an inner call, an ops
 * object, a hash become), and the room for objects; the encodings are the shapes' and the
 * machine's. Decides nothing about ops.
 *
 * Layout of the tool's room (`elftrace_data`): slots of ops objects first, then hashes and tables,
 * each aligned to a word. A hash that no object names any more gives its room back when the core
 * frees it.
 */
import type { Branches } from '../machine/branches.js';
import type { EntryConvention } from '../machine/conventions.js';
import type { SiteChange, SiteReading, WritableState } from '../machine/sites.js';
import type { OwnTrampoline, TextSeam } from '../machine/trampolines.js';
import { ByteView, equalBytes } from '../bytes.js';
import { ElftraceError, hex } from '../errors.js';
import type { Program } from '../program/program.js';
import { OPS_FLAGS, OPS_WORD_COUNT, OPS_WORDS } from '../runtime/abi.js';
import type { Address } from '../units.js';
import type {
  Backend,
  Callee,
  Capabilities,
  CodePlace,
  Content,
  Literal,
  NamedOps,
  OpsImage,
  Reading,
  Step,
  StepProblem,
  TrampolineBlock,
  TrampolineImage,
  TrampolineRequest,
} from '../ftrace/index.js';
import {
  type CallSite,
  equalContents,
  type GraphUser,
  type GraphUserImage,
  describeStep,
  isEmpty,
  type Ops,
  type SiteHash,
} from '../ftrace/index.js';
import { type EntryPoint, entryPoint, globalAt, waysTo } from '../patch/routes.js';
import type { SiteDecision } from '../patch/decisions.js';
import type { Sites } from '../sites/sites.js';
import { jumpsAreOn } from '../patch/direct-table.js';
import type { StoreLedger, StoreReason } from './ledger.js';
import { ImageText, opsSlots } from './trampolines.js';
import { conventionOf, graphOff, initialState, recordIp } from './tracing.js';

/** Memory of the tool's. */
export interface Room {
  readonly address: Address;
  readonly size: number;
}

/** Where bytes are read and written: the copy of a file, or a machine's memory beside it. */
export interface Text {
  /** Brings the copy that shapes look at up to date with what really is there. */
  refresh(address: Address, size: number): void;
  /**
   * One store; false: it may not be written. `words`: of data, each of which every processor sees
   * whole; else of instructions.
   */
  store(address: Address, bytes: Uint8Array, what?: 'words'): boolean;
  /**
   * Waits and frees, in order, for a caller that runs threads; `freed` is the memory that a free
   * gives back.
   */
  event(step: Extract<Step, { readonly kind: 'sync' | 'quiesce' | 'free' }>, freed?: readonly Room[]): void;
}

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

/** Words of every object that a step writes, and problems in the terms of the core. */
const refused = (errno: 'ENOMEM' | 'ERANGE' | 'EINVAL' | 'EBUSY', reason: string): StepProblem => ({
  kind: 'refused',
  errno,
  reason,
});
const failed = (errno: 'EFAULT' | 'EINVAL' | 'EPERM', reason: string): StepProblem => ({
  kind: 'failed',
  errno,
  reason,
});

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
    {
      symbol: name,
    },
  );
}

export class ImageBackend implements Backend {
  capabilities: Capabilities;
  readonly symbols: Backend['symbols'];
  private readonly program: Program;
  private readonly branches: Branches;
  private readonly word: 4 | 8;
  private readonly siteIndex = new Map<Address, number>();
  private readonly convention: EntryConvention;
  private readonly caller: EntryPoint;
  private readonly regsCaller: EntryPoint | null;
  private readonly data: Address;
  private readonly slots = new Map<NamedOps, number>();
  /** What each object in memory says, to know which hashes are in use. */
  private readonly images = new Map<Ops, OpsImage>();
  private readonly hashes = new Map<SiteHash, { readonly address: Address; readonly size: number }>();
  private table: { readonly address: Address; readonly size: number } | null = null;
  private readonly direct = new Map<CallSite, Address>();
  /**
   * Objects of the users of the graph tracer, by index, and those that were replaced and may still
   * be read.
   */
  private readonly graphObjects: ({ readonly image: GraphUserImage; readonly address: Address } | null)[] = [];
  private readonly retired: { readonly address: Address; readonly size: number }[] = [];
  /**
   * What sites held when they were read or written last: what is expected of them later, in
   * reports.
   */
  private readonly seen = new Map<CallSite, { readonly content: Content; readonly bytes: Uint8Array }>();
  /** Sites with a direct caller that they do not reach themselves. */
  private readonly viaEntry = new Map<CallSite, Content>();
  /** Private trampolines that are planned or there, by their blocks. */
  private readonly trampolines = new Map<TrampolineBlock, OwnTrampoline>();
  /** What is written now. */
  private why: StoreReason | null = null;
  private free: Room[];
  /** Taken out of use, and not said to be free yet. */
  private given: (Room & { readonly kind: Extract<Step, { kind: 'free' }>['object'] })[] = [];
  /** Modules whose code is not in the image any more; what their sites and words would hold. */
  private readonly goneModules = new Set<string>();
  private readonly goneContents = new Map<CallSite, { content: Content; literal: Literal }>();

  /** @param sites  of an image whose bytes are the caller's own: they are written in place */
  constructor(
    private readonly sites: Sites,
    private readonly options: ImageBackendOptions,
  ) {
    const { program } = sites;
    this.program = program;
    this.branches = program.arch.branches;
    this.word = program.image.wordBytes;
    this.capabilities = { ...options.capabilities, jumps: jumpsAreOn(program) };
    this.caller = this.need('ftrace_caller');
    this.regsCaller = entryPoint(program, 'ftrace_regs_caller');
    this.data = this.need('elftrace_data').identity;
    const section = program.image.sectionAt(this.data);
    const end = section === undefined ? this.data : section.address + BigInt(section.size);
    const start = this.data + BigInt(opsSlots * OPS_WORD_COUNT * this.word);
    this.free = end > start ? [{ address: start, size: Number(end - start) }] : [];
    this.convention = conventionOf(program);
    for (let i = 0; i < sites.count; i++) if (sites.codeRange(i)) this.siteIndex.set(recordIp(sites, i), i);
    const optional = (symbol: string): Address => entryPoint(program, symbol)?.identity ?? 0n;
    this.symbols = {
      directHelper: optional('ftrace_direct_func'),
      graphFunction: optional('ftrace_graph_func'),
      graphEntry: optional('ftrace_graph_caller'),
      plainEntry: this.caller.identity,
      listEntry: optional('ftrace_list_caller'),
      registerEntry: (this.regsCaller ?? this.caller).identity,
    };
  }

  nameOf(address: Address): string {
    const range = this.program.codeAt(address);
    return range === undefined ? '' : this.program.describe(range, address);
  }

  /**
   * Says whether the code of a module is gone: then its sites have no bytes, and what is written to
   * them is only remembered.
   */
  setGone(module: string, gone: boolean): void {
    if (gone) this.goneModules.add(module);
    else this.goneModules.delete(module);
  }

  private goneAt(site: CallSite): { content: Content; literal: Literal } | null {
    if (site.module === null || !this.goneModules.has(site.module)) return null;
    let held = this.goneContents.get(site);
    if (held === undefined) {
      held = { content: { kind: 'nop' }, literal: this.options.idleLiteral };
      this.goneContents.set(site, held);
    }
    return held;
  }

  private need(symbol: string): EntryPoint {
    const found = entryPoint(this.program, symbol);
    // A runtime that is not ours may lack what only some operations need.
    if (found === null)
      throw new ElftraceError('no-runtime', `the image's runtime has no symbol ${symbol}`, { symbol });
    return found;
  }

  /**
   * From now on bit 0 of a direct caller's address says that its sites jump (X-JMP-1).
   * @param present  the direct callers that there are
   * @throws ElftraceError 'unsupported-form' where the entries cannot, or a direct caller lies at
   *   an odd address
   */
  enableJumps(present: Iterable<Address>): void {
    if (this.capabilities.jumps) return;
    const flag = entryPoint(this.program, 'elftrace_direct_jumps');
    if (flag === null) {
      const { name } = this.convention;
      throw new ElftraceError(
        'unsupported-form',
        `the entries of the image (${name}) only call direct callers: sites cannot jump to them`,
      );
    }
    for (const address of present) if ((address & 1n) !== 0n) throw oddCaller(hex(address));
    const problem = this.words(flag.identity, [1n]);
    if (problem !== null) throw new ElftraceError('plan-refused', problem.reason);
    this.capabilities = { ...this.capabilities, jumps: true };
  }

  // --------------------------------------------------------------------------------------- reading

  private bytes(address: Address, size: number): Uint8Array | null {
    this.options.text?.refresh(address, size);
    const { image } = this.program;
    const offset = image.fileOffsetOf(address);
    if (offset < 0 || offset + size > image.bytes.length) return null;
    return image.bytes.slice(offset, offset + size);
  }

  /**
   * A function's identity from where a branch leads: its global entry, when it is the local one.
   */
  private identityOf(address: Address): Address {
    const { program } = this;
    const range = program.codeAt(address);
    const symbol = range === undefined ? -1 : program.functionAt(range, address);
    const start = symbol < 0 ? undefined : program.functions.placeOf(symbol)?.value;
    if (start === undefined) return address;
    const local = BigInt(program.arch.abi.localEntryOffset(program.symbols.other[symbol]!));
    return address === start + local ? start : address;
  }

  /** Where a branch to a function from code with its TOC goes. */
  private branchTo(identity: Address): Address {
    const { program } = this;
    const range = program.codeAt(identity);
    const symbol = range === undefined ? -1 : program.functionStarting(range, identity);
    return symbol < 0 ? identity : identity + BigInt(program.arch.abi.localEntryOffset(program.symbols.other[symbol]!));
  }

  private readingOf(site: CallSite): SiteReading | null {
    const index = this.siteIndex.get(site.ip);
    if (index === undefined) return null;
    const around = 32;
    this.options.text?.refresh(site.ip - BigInt(around), 2 * around);
    return this.sites.reading(index);
  }

  private contentOf(reading: SiteReading, site: CallSite | null): Content | null {
    // Nops as a compiler left them are off too.
    if (reading.state === 'nop' || (reading.state === 'compiled' && reading.target === null)) return { kind: 'nop' };
    if (reading.state !== 'call' || reading.target === null) return null;
    const stub = this.program.stub(reading.target);
    const leads = this.identityOf(stub === null ? reading.target : stub.target);
    // R-DIR-5: a site whose auipc stays goes to its direct caller through the entry; the bytes do
    // not say for whom.
    const isEntry = leads === this.caller.identity || leads === this.regsCaller?.identity;
    if (isEntry && site !== null && this.viaEntry.has(site)) return this.viaEntry.get(site)!;
    if (reading.form === 'jmp') return { kind: 'direct', address: leads | 1n };
    if (leads === this.caller.identity) return { kind: 'caller' };
    if (leads === this.regsCaller?.identity) return { kind: 'regs-caller' };
    if (leads === this.symbols.listEntry) return { kind: 'list-caller' };
    const owner = [...this.images].find(([, each]) => each.trampoline === leads && leads !== 0n);
    if (owner !== undefined) return { kind: 'trampoline', address: leads, ops: owner[0] };
    // What else a site may call serves one ops, or is a direct caller; the core knows which it
    // expects.
    return { kind: 'direct', address: leads };
  }

  /** R-MOD-4: entries that find what they call by a pointer. */
  private calleeInWord(address: Address): Reading {
    const bytes = this.bytes(address, this.word);
    if (bytes === null) return { kind: 'fault' };
    const target = new ByteView(bytes, this.program.image.header.endian).word(0, this.word);
    return this.calleeOf(this.identityOf(target), bytes);
  }

  private calleeAt(label: string): Reading {
    const pointer = entryPoint(this.program, 'ftrace_call_dest');
    if (pointer !== null) return this.calleeInWord(pointer.identity);
    const { address } = this.need(label);
    const bytes = this.bytes(address, this.branches.call.sizeBytes);
    if (bytes === null) return { kind: 'fault' };
    const target = this.branches.call.target(bytes, address);
    if (target === null) return { kind: 'foreign', bytes };
    return this.calleeOf(this.identityOf(target), bytes);
  }

  private calleeOf(leads: Address, bytes: Uint8Array): Reading {
    const is = (symbol: string): boolean => entryPoint(this.program, symbol)?.identity === leads;
    if (is('ftrace_stub')) return { kind: 'callee', callee: { kind: 'stub' } };
    if (is('ftrace_ops_list_func')) return { kind: 'callee', callee: { kind: 'list' } };
    if (is('ftrace_ops_assist_func')) {
      const [first] = this.images.keys();
      return first === undefined
        ? { kind: 'foreign', bytes }
        : { kind: 'callee', callee: { kind: 'assist', ops: first } };
    }
    return { kind: 'callee', callee: { kind: 'function', address: leads } };
  }

  read(place: CodePlace): Reading {
    const gone = 'site' in place ? this.goneAt(place.site) : null;
    if (gone !== null) {
      return place.kind === 'site'
        ? { kind: 'site', content: gone.content }
        : { kind: 'literal', literal: gone.literal };
    }
    switch (place.kind) {
      case 'site': {
        const reading = this.readingOf(place.site);
        const bytes = this.bytesAt(place.site);
        if (bytes === null) return { kind: 'fault' };
        const content = reading === null ? null : this.contentOf(reading, place.site);
        if (content === null) return { kind: 'foreign', bytes };
        this.seen.set(place.site, { content, bytes });
        return { kind: 'site', content };
      }
      case 'callee':
        return this.calleeAt(place.entry === 'plain' ? 'ftrace_call' : 'ftrace_regs_call');
      case 'graph-call': {
        const { address } = this.need('ftrace_graph_call');
        const { graph } = this.branches;
        const bytes = this.bytes(address, graph.sizeBytes);
        if (bytes === null) return { kind: 'fault' };
        const target = graph.target(bytes, address);
        if (target === this.graphOff()) return { kind: 'graph-call', on: false };
        const on = target !== null && this.identityOf(target) === this.symbols.graphEntry;
        return on ? { kind: 'graph-call', on } : { kind: 'foreign', bytes };
      }
      case 'literal':
        return this.literalAt(place.site);
      case 'inner-call': {
        const own = this.trampolines.get(place.block);
        if (own === undefined) return { kind: 'fault' };
        const address = own.address + BigInt(own.layout.callOffset);
        const bytes = this.bytes(address, this.branches.call.sizeBytes);
        if (bytes === null) return { kind: 'fault' };
        const target = this.branches.call.target(bytes, address);
        return target === null ? { kind: 'foreign', bytes } : this.calleeOf(this.identityOf(target), bytes);
      }
      default:
        return place satisfies never;
    }
  }

  private graphOff(): Address {
    return graphOff(this.program, this.need('ftrace_graph_call').address);
  }

  // --------------------------------------------------------------------------- private trampolines

  /**
   * A trampoline as bytes.
   * @param block  where it lies; null: where there is room
   */
  private built(
    ops: Ops,
    image: TrampolineImage,
    block: TrampolineBlock | null,
  ): { readonly own: OwnTrampoline; readonly bytes: Uint8Array } | { readonly refused: string } {
    const { program } = this;
    const model = program.arch.trampolines;
    if (model.kind === 'none') return { refused: model.reason };
    const text = new ImageText(program, model.fill, []);
    for (const [{ address, sizeBytes }] of this.trampolines) text.occupy(address, sizeBytes);
    if (block !== null) text.allocate = () => block.address;
    const all = [...this.siteIndex.keys()].sort((a, b) => (a < b ? -1 : 1));
    // Modules of programs lie where no branch reaches: their sites use the shared entry, and are no
    // reason against a trampoline for others.
    const room = text.area;
    const near = room === null ? all : all.filter((ip) => this.inReachOf(ip, room));
    const ips = near.length > 0 ? near : all;
    const update = model.update(
      {
        address: this.addressOf(ops),
        saveRegs: image.template === 'regs',
        callee: this.calleeAddress(image.callee),
        trampoline: { kind: 'none' },
      },
      {
        variant: model.variantOf(this.convention.name),
        find: (symbol) => globalAt(program, symbol),
        seam: this.options.seam?.(text) ?? text,
        ...(ips.length > 0 ? { callers: { first: ips[0]!, last: ips.at(-1)! } } : {}),
      },
    );
    const own = update.trampoline;
    if (own.kind !== 'own') return { refused: text.warnings[0]?.reason ?? 'there is no memory for a trampoline' };
    return { own, bytes: text.read(own.address, own.layout.sizeBytes)! };
  }

  planTrampoline({ ops, template, callee }: TrampolineRequest): TrampolineBlock | { readonly refused: string } {
    const built = this.built(ops, { template, callee }, null);
    if ('refused' in built) return built;
    const { own } = built;
    const block = { address: own.address, sizeBytes: own.layout.sizeBytes };
    this.trampolines.set(block, own);
    return block;
  }

  dropTrampoline(block: TrampolineBlock): void {
    this.trampolines.delete(block);
  }

  private writeTrampoline(ops: Ops, block: TrampolineBlock, image: TrampolineImage | null): StepProblem | null {
    const model = this.program.arch.trampolines;
    if (image === null) {
      this.given.push({ kind: 'trampoline', address: block.address, size: block.sizeBytes });
      this.trampolines.delete(block);
      return this.store(block.address, new Uint8Array(block.sizeBytes).fill(model.kind === 'none' ? 0 : model.fill));
    }
    const known = this.trampolines.get(block);
    this.trampolines.delete(block);
    const built = this.built(ops, image, block);
    if ('refused' in built) {
      if (known) this.trampolines.set(block, known);
      return failed('EINVAL', built.refused);
    }
    this.trampolines.set(block, built.own);
    return this.store(block.address, built.bytes);
  }

  /**
   * T-X86-19: the call is where that of the entry is. `template` is the entry that the core takes
   * the copy to be of (T-X86-44).
   */
  private innerCall(block: TrampolineBlock, template: 'plain' | 'regs'): Address | null {
    const own = this.trampolines.get(block);
    if (own === undefined) return null;
    if (own.layout.template === template) return block.address + BigInt(own.layout.callOffset);
    const [start, call] =
      template === 'plain' ? ['ftrace_caller', 'ftrace_call'] : ['ftrace_regs_caller', 'ftrace_regs_call'];
    return block.address + this.need(call!).identity - this.need(start!).identity;
  }

  /** The word in front of a function that names its ops. */
  private literalPlace(site: CallSite): Address | null {
    const { literal, name } = this.convention;
    if (literal === null) {
      throw new ElftraceError('internal', `sites of ${name} have no word that names their ops`, { address: site.ip });
    }
    return literal.place(site.ip, this.sites.stubs?.of(site.ip) ?? null);
  }

  private literalAt(site: CallSite): Reading {
    const place = this.literalPlace(site);
    const bytes = place === null ? null : this.bytes(place, this.word);
    if (bytes === null) return { kind: 'fault' };
    const value = new ByteView(bytes, this.program.image.header.endian).word(0, this.word);
    if (value === this.need('ftrace_nop_ops').identity) return { kind: 'literal', literal: { kind: 'nop-ops' } };
    if (value === this.need('ftrace_list_ops').identity) return { kind: 'literal', literal: { kind: 'list-ops' } };
    for (const ops of this.slots.keys()) {
      if (this.addressOf(ops) === value) return { kind: 'literal', literal: { kind: 'ops', ops } };
    }
    return { kind: 'foreign', bytes };
  }

  private literal(site: CallSite, after: Literal): StepProblem | null {
    const place = this.literalPlace(site);
    if (place === null) return failed('EFAULT', `${site.name} has no word that names its ops`);
    return this.words(place, [this.literalValue(after)]);
  }

  private literalValue(literal: Literal): Address {
    if (literal.kind === 'ops') return this.addressOf(literal.ops);
    return this.need(literal.kind === 'nop-ops' ? 'ftrace_nop_ops' : 'ftrace_list_ops').identity;
  }

  bytesAt(site: CallSite): Uint8Array | null {
    const index = this.siteIndex.get(site.ip);
    const reading = index === undefined ? null : this.sites.reading(index);
    // Bytes of no shape do not say how many they are.
    const known = this.seen.get(site)?.bytes.length;
    return this.bytes(
      site.ip,
      known ?? (reading === null ? 4 : reading.startDelta + reading.sizeBytes - reading.ipDelta),
    );
  }

  bytesOf(site: CallSite, content: Content): Uint8Array | null {
    const reading = this.readingOf(site);
    const own = reading === null ? null : this.bytesWith(this.sites, site, reading, content);
    if (own !== null) return own;
    const known = this.seen.get(site);
    if (known !== undefined && equalContents(known.content, content)) return known.bytes;
    // Other code wrote over a site that was not looked at before.
    const sites = this.options.pristine?.();
    const index = this.siteIndex.get(site.ip);
    if (sites === undefined || index === undefined) return null;
    const before = sites.reading(index);
    return before === null ? null : this.bytesWith(sites, site, before, content);
  }

  /** Bytes of a site with another content; null where it cannot have that. */
  private bytesWith(sites: Sites, site: CallSite, reading: SiteReading, content: Content): Uint8Array | null {
    const index = this.siteIndex.get(site.ip)!;
    const change = this.changeOf(site, reading, content, sites);
    if ('kind' in change) return null;
    const start = sites.fileOffset(index) + reading.ipDelta;
    const size = reading.startDelta + reading.sizeBytes - reading.ipDelta;
    const bytes = sites === this.sites ? this.bytesAt(site) : sites.program.image.bytes.slice(start, start + size);
    if (bytes === null) return null;
    for (const { at, delta, after } of change.stores) {
      const from = Number((at ?? sites.anchor[index]! + BigInt(delta)) - site.ip);
      if (from >= 0 && from + after.length <= bytes.length) bytes.set(after, from);
    }
    return bytes;
  }

  // -------------------------------------------------------------------------------------- deciding

  private changeOf(
    site: CallSite,
    reading: SiteReading,
    content: Content,
    sites = this.sites,
  ): SiteChange | StepProblem {
    const { program, options } = this;
    const index = this.siteIndex.get(site.ip)!;
    const view = sites.viewOf(index);
    const ways =
      content.kind === 'nop'
        ? [initialState(program, options.nopForm)]
        : content.kind === 'caller'
          ? waysTo(program, this.caller, site.ip, reading)
          : content.kind === 'regs-caller'
            ? waysTo(program, this.regsCaller ?? this.caller, site.ip, reading)
            : content.kind === 'list-caller'
              ? waysTo(program, this.need('ftrace_list_caller'), site.ip, reading)
              : content.address === this.symbols.graphEntry
                ? waysTo(program, this.need('ftrace_graph_caller'), site.ip, reading)
                : this.directWays(site, reading, content);
    let problem = refused('EINVAL', `${site.name}: no way to write it`);
    for (const way of ways) {
      const change = 'refused' in way ? way : reading.shape.write(reading, this.formed(way), view);
      if (!('refused' in change)) return change;
      problem = refused(change.refused === 'out-of-range' ? 'ERANGE' : 'EINVAL', `${site.name}: ${change.reason}`);
    }
    return problem;
  }

  /** A direct caller, or, where the auipc of the site stays, the entry that goes on to it. */
  private directWays(
    site: CallSite,
    reading: SiteReading,
    { kind, address }: Extract<Content, { readonly address: Address }>,
  ): readonly SiteDecision[] {
    const jump = kind === 'direct' && this.capabilities.jumps && (address & 1n) !== 0n;
    const callee = jump ? address & ~1n : address;
    const target = this.branchTo(callee);
    const own: SiteDecision = { kind: 'call', target, ...(jump ? { jump } : {}) };
    // A-PLT-2, F-4: a branch may not reach; the entry that goes on to direct callers does, by stubs
    // where it must.
    const { direct } = this.capabilities;
    const entry = direct === 'regs' ? this.regsCaller : direct === 'any' ? this.caller : null;
    if (entry === null) return [own];
    const through = waysTo(this.program, entry, site.ip, reading);
    // A function that makes a TOC of its own: only the entry knows how to enter it.
    const { program } = this;
    const isOthers = target !== callee && program.tocAt(target) !== program.tocAt(site.ip);
    return isOthers ? through : [own, ...through];
  }

  /**
   * A state in the form that the image's entries serve. The address of a site's ops has steps of
   * its own.
   */
  private formed(state: WritableState): WritableState {
    if (state.kind === 'call') return { ...state, form: this.convention.name };
    const { kind, form, target } = state;
    return { kind, ...(form === undefined ? {} : { form }), ...(target === undefined ? {} : { target }) };
  }

  private calleeAddress(callee: Callee): Address {
    switch (callee.kind) {
      case 'stub':
        return this.need('ftrace_stub').address;
      case 'list':
        return this.need('ftrace_ops_list_func').address;
      case 'assist':
        return this.need('ftrace_ops_assist_func').address;
      case 'function':
        return this.branchTo(callee.address);
      default:
        return callee satisfies never;
    }
  }

  private sizeOf(hash: SiteHash): number {
    return (1 + hash.sites.size) * this.word;
  }

  /** Places that a hash and an object need and that are not there yet. */
  private missing({ filter, notrace }: OpsImage): readonly SiteHash[] {
    return [filter, notrace].filter((hash): hash is SiteHash => hash !== null && !this.hashes.has(hash));
  }

  private hasRoom(sizes: readonly number[]): boolean {
    const free = this.free.map(({ size }) => size);
    return sizes.every((size) => {
      const at = free.findIndex((each) => each >= size);
      if (at < 0) return false;
      free[at] = free[at]! - size;
      return true;
    });
  }

  private take(size: number): Address | StepProblem {
    const at = this.free.findIndex((each) => each.size >= size);
    if (at < 0) return failed('EPERM', `there is no room for ${size} bytes in elftrace_data`);
    const { address, size: whole } = this.free[at]!;
    if (whole === size) this.free.splice(at, 1);
    else this.free[at] = { address: address + BigInt(size), size: whole - size };
    return address;
  }

  /**
   * Gives room back; neighbours become one, so that a session that goes on for long does not run
   * out of it.
   */
  private release(place: { readonly address: Address; readonly size: number }): void {
    const free = [...this.free, place].sort((a, b) => (a.address < b.address ? -1 : 1));
    this.free = [];
    for (const { address, size } of free) {
      const last = this.free[this.free.length - 1];
      if (last !== undefined && last.address + BigInt(last.size) === address) {
        this.free[this.free.length - 1] = { address: last.address, size: last.size + size };
      } else this.free.push({ address, size });
    }
  }

  private slotOf(ops: NamedOps): number | null {
    const known = this.slots.get(ops);
    if (known !== undefined) return known;
    const used = new Set(this.slots.values());
    for (let slot = 0; slot < opsSlots; slot++) if (!used.has(slot)) return slot;
    return null;
  }

  /** Address of an ops object. */
  addressOf(ops: NamedOps): Address {
    return this.data + BigInt((this.slotOf(ops) ?? 0) * OPS_WORD_COUNT * this.word);
  }

  check(step: Step): StepProblem | null {
    if ((step.kind === 'site' || step.kind === 'literal') && this.goneAt(step.site) !== null) return null;
    switch (step.kind) {
      case 'site': {
        const reading = this.readingOf(step.site);
        if (reading === null) return failed('EFAULT', `${step.site.name} cannot be read`);
        const change = this.changeOf(step.site, reading, step.after);
        return 'kind' in change ? change : null;
      }
      case 'callee': {
        if (entryPoint(this.program, 'ftrace_call_dest') !== null) return null;
        const from = this.need(step.entry === 'plain' ? 'ftrace_call' : 'ftrace_regs_call').address;
        const distance = this.calleeAddress(step.after) - from;
        const { min, max } = this.branches.call.reach;
        if (distance < min || distance > max) return refused('ERANGE', `the callee is ${hex(distance)} bytes away`);
        return null;
      }
      case 'object':
        if (step.after === null) return null;
        if (this.slotOf(step.ops) === null) return refused('ENOMEM', `there is room for ${opsSlots} ops objects`);
        return this.hasRoom(this.missing(step.after).map((hash) => this.sizeOf(hash)))
          ? null
          : refused('ENOMEM', 'the image has no room for the filter');
      case 'graph-users':
        return this.checkGraphUsers(step.after);
      case 'literal':
        return this.capabilities.callOps
          ? null
          : refused('EINVAL', 'the sites of the image have no word for their ops');
      case 'trampoline':
        return this.program.arch.trampolines.kind === 'private'
          ? null
          : refused('EINVAL', `the image has no place for ${step.kind}`);
      case 'inner-call': {
        const at = this.innerCall(step.block, step.template);
        if (at === null) return failed('EFAULT', `there is no trampoline at ${hex(step.block.address)}`);
        const distance = this.calleeAddress(step.after) - at;
        const { min, max } = this.branches.call.reach;
        if (distance < min || distance > max) return refused('ERANGE', `the callee is ${hex(distance)} bytes away`);
        return null;
      }
      case 'direct-entry':
        return this.checkJump(step.site, step.after);
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

  /**
   * X-JMP-2: what a site cannot jump to no entry may go on to in its place, either. One out of
   * reach may: the entry goes there.
   */
  private checkJump(site: CallSite, caller: Address | null): StepProblem | null {
    if (caller === null || !this.capabilities.jumps || (caller & 1n) === 0n) return null;
    const reading = this.readingOf(site);
    const index = this.siteIndex.get(site.ip);
    if (reading === null || index === undefined) return null;
    const jump = { kind: 'call', target: caller & ~1n, jump: true } as const;
    const change = reading.shape.write(reading, jump, this.sites.viewOf(index));
    const isRefused = 'refused' in change && change.refused !== 'out-of-range';
    return isRefused ? refused('EINVAL', `${site.name}: ${change.reason}`) : null;
  }

  // --------------------------------------------------------------------------------------- writing

  private store(address: Address, bytes: Uint8Array, what?: 'words'): StepProblem | null {
    const { image } = this.program;
    const offset = image.fileOffsetOf(address);
    if (offset < 0 || offset + bytes.length > image.bytes.length)
      return failed('EFAULT', `${hex(address)} is not in the file`);
    if (equalBytes(image.bytes.subarray(offset, offset + bytes.length), bytes)) return null;
    if (this.why !== null) this.options.ledger?.note(offset, bytes.length, this.why);
    if (this.options.text?.store(address, bytes, what) === false)
      return failed('EPERM', `${hex(address)} may not be written`);
    image.bytes.set(bytes, offset);
    return null;
  }

  private words(address: Address, values: readonly bigint[]): StepProblem | null {
    const bytes = new Uint8Array(values.length * this.word);
    const view = new ByteView(bytes, this.program.image.header.endian);
    values.forEach((value, i) => {
      view.insertWord(i * this.word, value, this.word);
    });
    return this.store(address, bytes, 'words');
  }

  private hashAddress(hash: SiteHash | null): Address | StepProblem {
    if (hash === null) return 0n;
    const known = this.hashes.get(hash);
    if (known) return known.address;
    const size = this.sizeOf(hash);
    const address = this.take(size);
    if (typeof address !== 'bigint') return address;
    this.hashes.set(hash, { address, size });
    const sites = [...hash.sites].map(({ ip }) => ip).sort((a, b) => (a < b ? -1 : 1));
    return this.words(address, [BigInt(sites.length), ...sites]) ?? address;
  }

  private object(ops: Ops, image: OpsImage | null): StepProblem | null {
    const slot = this.slotOf(ops)!;
    const at = this.data + BigInt(slot * OPS_WORD_COUNT * this.word);
    if (image === null) {
      this.given.push({ kind: 'ops', address: at, size: OPS_WORD_COUNT * this.word });
      this.slots.delete(ops);
      this.images.delete(ops);
      return this.words(at, new Array<bigint>(OPS_WORD_COUNT).fill(0n));
    }
    const filter = this.hashAddress(image.filter);
    if (typeof filter !== 'bigint') return filter;
    const notrace = this.hashAddress(image.notrace);
    if (typeof notrace !== 'bigint') return notrace;
    const isNew = !this.slots.has(ops);
    this.slots.set(ops, slot);
    this.images.set(ops, image);
    const values: [keyof typeof OPS_WORDS, bigint][] = [
      ...(isNew ? [['private', image.data] as [keyof typeof OPS_WORDS, bigint]] : []),
      ['filter', filter],
      ['notrace', notrace],
      ['directCall', image.directCall],
      ['trampoline', image.trampoline],
      ['flags', BigInt(image.flags)],
      ['func', image.func],
    ];
    for (const [name, value] of values) {
      const problem = this.words(at + BigInt(OPS_WORDS[name] * this.word), [value]);
      if (problem) return problem;
    }
    return null;
  }

  // --------------------------------------------------------------------- users of the graph tracer

  private checkGraphUsers(users: readonly (GraphUserImage | null)[]): StepProblem | null {
    const there = users.filter((image): image is GraphUserImage => image !== null);
    if (entryPoint(this.program, 'elftrace_graph_users') === null) {
      const special =
        there.length > 1 || there.some(({ user }) => user.callbacks.entry !== 0n || user.callbacks.return !== 0n);
      return special ? refused('EINVAL', 'the runtime of the image knows one graph tracer, which records') : null;
    }
    const sizes = there.flatMap(({ hashes }) => {
      const fresh = [hashes.filter, hashes.notrace].filter(
        (hash): hash is SiteHash => !isEmpty(hash) && !this.hashes.has(hash!),
      );
      return [OPS_WORD_COUNT * this.word, ...fresh.map((hash) => this.sizeOf(hash))];
    });
    return this.hasRoom(sizes) ? null : refused('ENOMEM', 'the image has no room for the users of the graph tracer');
  }

  /** Address of the object of a user of the graph tracer; null where it has none. */
  graphUserAddress(user: GraphUser): Address | null {
    return this.graphObjects.find((each) => each?.image.user === user)?.address ?? null;
  }

  /**
   * Each user has an object; another one when its hashes change, so that what a thread sees of it
   * is the old or the new one.
   */
  private graphUsers(users: readonly (GraphUserImage | null)[]): StepProblem | null {
    const table = entryPoint(this.program, 'elftrace_graph_users');
    if (table === null) return null;
    for (let index = 0; index < Math.max(users.length, this.graphObjects.length); index++) {
      const image = users[index] ?? null;
      const old = this.graphObjects[index] ?? null;
      const same =
        image !== null &&
        image.user === old?.image.user &&
        image.hashes.filter === old.image.hashes.filter &&
        image.hashes.notrace === old.image.hashes.notrace;
      if (same || (image === null && old === null)) continue;
      let address = 0n;
      if (image !== null) {
        const place = this.take(OPS_WORD_COUNT * this.word);
        if (typeof place !== 'bigint') return place;
        address = place;
        const [filter, notrace] = [image.hashes.filter, image.hashes.notrace].map((hash) =>
          this.hashAddress(isEmpty(hash) ? null : hash),
        );
        if (typeof filter !== 'bigint') return filter!;
        if (typeof notrace !== 'bigint') return notrace!;
        const { entry, return: back } = image.user.callbacks;
        const problem = this.words(address, [entry, BigInt(OPS_FLAGS.SUBOP), back, 0n, 0n, filter, notrace, 0n]);
        if (problem) return problem;
      }
      const problem = this.words(table.identity + BigInt(index * this.word), [address]);
      if (problem) return problem;
      this.graphObjects[index] = image === null ? null : { image, address };
      if (old !== null) this.retired.push({ address: old.address, size: OPS_WORD_COUNT * this.word });
    }
    return null;
  }

  private list(after: readonly Ops[]): StepProblem | null {
    const end = this.need('ftrace_list_end').identity;
    const next = BigInt(OPS_WORDS.next * this.word);
    // From the last to the first, and the head when all behind it is there.
    for (let i = after.length - 1; i >= 0; i--) {
      const behind = after[i + 1];
      const problem = this.words(this.addressOf(after[i]!) + next, [behind ? this.addressOf(behind) : end]);
      if (problem) return problem;
    }
    const head = after[0];
    return this.words(this.need('ftrace_ops_list').identity, [head ? this.addressOf(head) : end]);
  }

  private directTable(): StepProblem | null {
    const pointer = entryPoint(this.program, 'ftrace_direct_table');
    if (pointer === null) return failed('EFAULT', 'the runtime has no table of direct callers');
    const old = this.table;
    if (this.direct.size === 0) {
      const problem = this.words(pointer.identity, [0n]);
      if (problem) return problem;
      this.table = null;
    } else {
      const rows = [...this.direct].sort(([a], [b]) => (a.ip < b.ip ? -1 : 1));
      const size = (1 + 2 * rows.length) * this.word;
      const address = this.take(size);
      if (typeof address !== 'bigint') return address;
      const problem =
        this.words(address, [BigInt(rows.length), ...rows.flatMap(([site, to]) => [site.ip, to])]) ??
        this.words(pointer.identity, [address]);
      if (problem) return problem;
      this.table = { address, size };
    }
    if (old !== null) {
      this.release(old);
      this.given.push({ kind: 'direct-table', ...old });
    }
    return null;
  }

  write(step: Step): StepProblem | null {
    const gone = step.kind === 'site' || step.kind === 'literal' ? this.goneAt(step.site) : null;
    if (gone !== null) {
      if (step.kind === 'site') gone.content = step.after;
      else if (step.kind === 'literal') gone.literal = step.after;
      return null;
    }
    this.why = this.whyOf(step);
    switch (step.kind) {
      case 'site': {
        const reading = this.readingOf(step.site);
        const change = reading === null ? null : this.changeOf(step.site, reading, step.after);
        if (change === null) return failed('EFAULT', `${step.site.name} cannot be read`);
        if ('kind' in change) return change;
        this.why = { ...this.why, rule: change.rule };
        const anchor = this.sites.anchor[this.siteIndex.get(step.site.ip)!]!;
        if (step.after.kind === 'direct') this.viaEntry.set(step.site, step.after);
        else this.viaEntry.delete(step.site);
        for (const { at, delta, after } of change.stores) {
          const problem = this.store(at ?? anchor + BigInt(delta), after);
          if (problem) return problem;
        }
        const bytes = this.bytesAt(step.site);
        if (bytes !== null) this.seen.set(step.site, { content: step.after, bytes });
        return null;
      }
      case 'callee': {
        const pointer = entryPoint(this.program, 'ftrace_call_dest');
        if (pointer !== null) return this.words(pointer.identity, [this.calleeAddress(step.after)]);
        const { address } = this.need(step.entry === 'plain' ? 'ftrace_call' : 'ftrace_regs_call');
        return this.store(address, this.branches.call.encode(address, this.calleeAddress(step.after)));
      }
      case 'trace-op':
        return this.words(this.need('function_trace_op').identity, [
          step.after === null ? this.need('ftrace_list_end').identity : this.addressOf(step.after),
        ]);
      case 'object':
        return this.object(step.ops, step.after);
      case 'list':
        return this.list(step.after);
      case 'direct-entry':
        if (step.after === null) this.direct.delete(step.site);
        else this.direct.set(step.site, step.after);
        return this.directTable();
      case 'graph-call': {
        const { address } = this.need('ftrace_graph_call');
        const { graph } = this.branches;
        const to = step.after ? this.need('ftrace_graph_caller').address : this.graphOff();
        const filter = entryPoint(this.program, 'elftrace_graph_ops');
        const filtered = (): StepProblem | null =>
          filter === null ? null : this.words(filter.identity, [step.after ? this.addressOf(step.ops) : 0n]);
        const jumped = (): StepProblem | null => this.store(address, graph.encode(address, to));
        // The hook must have its filter for as long as the jump leads there: without one it takes
        // every function (C-FG-8).
        return step.after ? (filtered() ?? jumped()) : (jumped() ?? filtered());
      }
      case 'graph-users':
        return this.graphUsers(step.after);
      case 'sync':
      case 'quiesce':
      case 'free':
        if (step.kind !== 'free') this.options.text?.event(step);
        else {
          if (step.object === 'hash' || step.object === 'ops') this.sweep();
          const isFreed = ({ kind }: { readonly kind: string }): boolean => kind === step.object || kind === 'hash';
          const freed = this.given.filter(isFreed);
          this.given = this.given.filter((each) => !isFreed(each));
          this.options.text?.event(step, freed);
        }
        return null;
      case 'literal':
        return this.literal(step.site, step.after);
      case 'trampoline':
        return this.writeTrampoline(step.ops, step.block, step.after);
      case 'inner-call': {
        const at = this.innerCall(step.block, step.template);
        if (at === null) return failed('EFAULT', `there is no trampoline at ${hex(step.block.address)}`);
        return this.store(at, this.branches.call.encode(at, this.calleeAddress(step.after)));
      }
      default:
        return step satisfies never;
    }
  }

  /** The rule of a step, its site and what it does. */
  private whyOf(step: Step): StoreReason {
    const site = 'site' in step ? (this.siteIndex.get(step.site.ip) ?? -1) : -1;
    return { rule: stepRules[step.kind], site, reason: describeStep(step) };
  }

  /** Hashes that no object names give their room back. */
  private sweep(): void {
    const used = new Set<SiteHash | null>();
    for (const { filter, notrace } of this.images.values()) used.add(filter).add(notrace);
    for (const each of this.graphObjects)
      used.add(each?.image.hashes.filter ?? null).add(each?.image.hashes.notrace ?? null);
    for (const place of this.retired.splice(0)) this.release(place);
    for (const [hash, place] of this.hashes) {
      if (used.has(hash)) continue;
      this.hashes.delete(hash);
      this.release(place);
      this.given.push({ kind: 'hash', ...place });
    }
  }

  /**
   * Each entry makes another table, before the one that it replaces goes (`directTable`); where all
   * that fits is found by placing it.
   */
  reserveDirect(entries: number, hashes: readonly SiteHash[]): boolean {
    const own = hashes.filter((hash) => !this.hashes.has(hash)).map((hash) => this.sizeOf(hash));
    const before = this.free;
    const fits = (place: () => boolean): boolean => {
      this.free = [...before];
      const all = place();
      this.free = before;
      return all;
    };
    const taken = (size: number): boolean => typeof this.take(size) === 'bigint';
    const tables = (): boolean => {
      let { table } = this;
      for (let rows = this.direct.size + 1; rows <= this.direct.size + entries; rows++) {
        const size = (1 + 2 * rows) * this.word;
        const address = this.take(size);
        if (typeof address !== 'bigint') return false;
        if (table !== null) this.release(table);
        table = { address, size };
      }
      return true;
    };
    return fits(() => tables() && own.every(taken)) && fits(() => own.every(taken) && tables());
  }

  private inReachOf(from: Address, { address, sizeBytes }: TrampolineBlock): boolean {
    const { min, max } = this.branches.call.reach;
    // From any byte of a site to any of the block.
    const margin = BigInt(sizeBytes) + 64n;
    const distance = address - from;
    return distance - margin >= min && distance + margin <= max;
  }

  reachesTrampoline(site: CallSite, block: TrampolineBlock): boolean {
    return this.inReachOf(site.ip, block);
  }

  reachesCallback(address: Address): boolean {
    // Entries without a patched call take the address from a pointer, or from the ops that a site
    // names: they reach everything.
    if (!this.convention.symbols.calls.includes('ftrace_call')) return true;
    const { min, max } = this.branches.call.reach;
    const calls = this.capabilities.regs === 'separate' ? ['ftrace_call', 'ftrace_regs_call'] : ['ftrace_call'];
    return calls.every((symbol) => {
      const distance = this.calleeAddress({ kind: 'function', address }) - this.need(symbol).address;
      return distance >= min && distance <= max;
    });
  }
}
