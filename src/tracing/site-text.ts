/**
 * Sites as the core sees them (which entry, which trampoline, which direct caller) and as they
 * stand in the image. The bytes are the shapes'; which states may serve a content is decided here.
 */
import type { EntryConvention } from '../machine/conventions.js';
import type { SiteChange, SiteReading, WritableState } from '../machine/sites.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';
import {
  type CallSite,
  type Capabilities,
  type Content,
  equalContents,
  type Literal,
  type Reading,
  type StepProblem,
} from '../ftrace/index.js';
import { waysTo } from '../patch/routes.js';
import type { EntryPoint } from '../program/entry-points.js';
import type { SiteDecision } from '../patch/decisions.js';
import type { Sites } from '../sites/sites.js';
import { failed, type ImageMemory, refused } from './image-memory.js';
import type { OpsObjects } from './ops-objects.js';
import { initialState, recordIp } from './site-state.js';

export interface SiteTextOptions {
  readonly convention: EntryConvention;
  /** As they are now: jumps may come later (X-JMP-1). */
  readonly capabilities: () => Capabilities;
  /** The entry that always lists; 0 where there is none. */
  readonly listEntry: Address;
  /** The graph tracer's own entry; 0 where there is none. */
  readonly graphEntry: Address;
  /** What the words in front of functions name that are off. */
  readonly idleLiteral: Literal;
  /** Nop form of sites that have several. */
  readonly nopForm?: string | undefined;
  /** The sites before anything was written over them. */
  readonly pristine?: (() => Sites) | undefined;
}

/** Bytes around a site that its shape may look at. */
const AROUND = 32;

export class SiteText {
  private readonly siteIndex = new Map<Address, number>();
  /** Sorted at the first use: most sessions plan no trampoline. */
  #places: readonly Address[] | null = null;
  private readonly caller: EntryPoint;
  private readonly regsCaller: EntryPoint | null;
  /**
   * What sites held when they were read or written last: what is expected of them later, in
   * reports.
   */
  private readonly seen = new Map<CallSite, { readonly content: Content; readonly bytes: Uint8Array }>();
  /** Sites with a direct caller that they do not reach themselves. */
  private readonly viaEntry = new Map<CallSite, Content>();
  /** Modules whose code is not in the image any more; what their sites and words would hold. */
  private readonly goneModules = new Set<string>();
  private readonly goneContents = new Map<CallSite, { content: Content; literal: Literal }>();

  constructor(
    private readonly sites: Sites,
    private readonly memory: ImageMemory,
    private readonly ops: OpsObjects,
    private readonly options: SiteTextOptions,
  ) {
    this.caller = memory.need('ftrace_caller');
    this.regsCaller = memory.find('ftrace_regs_caller');
    for (let i = 0; i < sites.count; i++) if (sites.codeRange(i)) this.siteIndex.set(recordIp(sites, i), i);
  }

  /** Places of the sites, ascending. */
  get places(): readonly Address[] {
    this.#places ??= [...this.siteIndex.keys()].sort((a, b) => (a < b ? -1 : 1));
    return this.#places;
  }

  /** Number of a site in the image; -1 for one that is not in it. */
  indexOf(site: CallSite): number {
    return this.siteIndex.get(site.ip) ?? -1;
  }

  /**
   * Says whether the code of a module is gone: then its sites have no bytes, and what is written to
   * them is only remembered.
   */
  setGone(module: string, gone: boolean): void {
    if (gone) this.goneModules.add(module);
    else this.goneModules.delete(module);
  }

  /** What is remembered of a site whose code is gone; null for one that is there. */
  goneAt(site: CallSite): { content: Content; literal: Literal } | null {
    if (site.module === null || !this.goneModules.has(site.module)) return null;
    let held = this.goneContents.get(site);
    if (held === undefined) {
      held = { content: { kind: 'nop' }, literal: this.options.idleLiteral };
      this.goneContents.set(site, held);
    }
    return held;
  }

  // --------------------------------------------------------------------------------------- reading

  private readingOf(site: CallSite): SiteReading | null {
    const index = this.siteIndex.get(site.ip);
    if (index === undefined) return null;
    this.memory.text?.refresh(site.ip - BigInt(AROUND), 2 * AROUND);
    return this.sites.reading(index);
  }

  private contentOf(reading: SiteReading, site: CallSite): Content | null {
    // Nops as a compiler left them are off too.
    if (reading.state === 'nop' || (reading.state === 'compiled' && reading.target === null)) return { kind: 'nop' };
    if (reading.state !== 'call' || reading.target === null) return null;
    const { memory } = this;
    const stub = memory.program.stub(reading.target);
    const leads = memory.identityOf(stub === null ? reading.target : stub.target);
    // R-DIR-5: a site whose auipc stays goes to its direct caller through the entry; the bytes do
    // not say for whom.
    const isEntry = leads === this.caller.identity || leads === this.regsCaller?.identity;
    if (isEntry && this.viaEntry.has(site)) return this.viaEntry.get(site)!;
    if (reading.form === 'jmp') return { kind: 'direct', address: leads | 1n };
    if (leads === this.caller.identity) return { kind: 'caller' };
    if (leads === this.regsCaller?.identity) return { kind: 'regs-caller' };
    if (leads === this.options.listEntry) return { kind: 'list-caller' };
    const owner = this.ops.ownerOf(leads);
    if (owner !== null) return { kind: 'trampoline', address: leads, ops: owner };
    // What else a site may call serves one ops, or is a direct caller; the core knows which it
    // expects.
    return { kind: 'direct', address: leads };
  }

  read(site: CallSite): Reading {
    const reading = this.readingOf(site);
    const bytes = this.bytesAt(site);
    if (bytes === null) return { kind: 'fault' };
    const content = reading === null ? null : this.contentOf(reading, site);
    if (content === null) return { kind: 'foreign', bytes };
    this.seen.set(site, { content, bytes });
    return { kind: 'site', content };
  }

  /** Bytes that a site holds. */
  bytesAt(site: CallSite): Uint8Array | null {
    const index = this.siteIndex.get(site.ip);
    const reading = index === undefined ? null : this.sites.reading(index);
    // Bytes of no shape do not say how many they are.
    const known = this.seen.get(site)?.bytes.length;
    return this.memory.bytes(
      site.ip,
      known ?? (reading === null ? 4 : reading.startDelta + reading.sizeBytes - reading.ipDelta),
    );
  }

  /** Bytes that a site would hold; null when unknown. */
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

  /** States that give a site a content, best first. */
  private waysOf(site: CallSite, reading: SiteReading, content: Content): readonly SiteDecision[] {
    const { memory, options } = this;
    const { program } = memory;
    const to = (entry: EntryPoint): readonly SiteDecision[] => waysTo(program, entry, site.ip, reading);
    switch (content.kind) {
      case 'nop':
        return [initialState(program, options.nopForm)];
      case 'caller':
        return to(this.caller);
      case 'regs-caller':
        return to(this.regsCaller ?? this.caller);
      case 'list-caller':
        return to(memory.need('ftrace_list_caller'));
      default:
        return content.address === options.graphEntry
          ? to(memory.need('ftrace_graph_caller'))
          : this.directWays(site, reading, content);
    }
  }

  private changeOf(
    site: CallSite,
    reading: SiteReading,
    content: Content,
    sites = this.sites,
  ): SiteChange | StepProblem {
    const view = sites.viewOf(this.siteIndex.get(site.ip)!);
    let problem = refused('EINVAL', `${site.name}: no way to write it`);
    for (const way of this.waysOf(site, reading, content)) {
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
    const { direct, jumps } = this.options.capabilities();
    const { program } = this.memory;
    const jump = kind === 'direct' && jumps && (address & 1n) !== 0n;
    const callee = jump ? address & ~1n : address;
    const target = this.memory.branchTo(callee);
    const own: SiteDecision = { kind: 'call', target, ...(jump ? { jump } : {}) };
    // A-PLT-2, F-4: a branch may not reach; the entry that goes on to direct callers does, by stubs
    // where it must.
    const entry = direct === 'regs' ? this.regsCaller : direct === 'any' ? this.caller : null;
    if (entry === null) return [own];
    const through = waysTo(program, entry, site.ip, reading);
    // A function that makes a TOC of its own: only the entry knows how to enter it.
    const isOthers = target !== callee && program.tocAt(target) !== program.tocAt(site.ip);
    return isOthers ? through : [own, ...through];
  }

  /**
   * A state in the form that the image's entries serve. The address of a site's ops has steps of
   * its own.
   */
  private formed(state: WritableState): WritableState {
    if (state.kind === 'call') return { ...state, form: this.options.convention.name };
    const { kind, form, target } = state;
    return { kind, ...(form === undefined ? {} : { form }), ...(target === undefined ? {} : { target }) };
  }

  check(site: CallSite, after: Content): StepProblem | null {
    const reading = this.readingOf(site);
    if (reading === null) return failed('EFAULT', `${site.name} cannot be read`);
    const change = this.changeOf(site, reading, after);
    return 'kind' in change ? change : null;
  }

  /**
   * X-JMP-2: what a site cannot jump to no entry may go on to in its place, either. One out of
   * reach may: the entry goes there.
   */
  checkJump(site: CallSite, caller: Address | null): StepProblem | null {
    if (caller === null || !this.options.capabilities().jumps || (caller & 1n) === 0n) return null;
    const reading = this.readingOf(site);
    const index = this.siteIndex.get(site.ip);
    if (reading === null || index === undefined) return null;
    const jump = { kind: 'call', target: caller & ~1n, jump: true } as const;
    const change = reading.shape.write(reading, jump, this.sites.viewOf(index));
    const isRefused = 'refused' in change && change.refused !== 'out-of-range';
    return isRefused ? refused('EINVAL', `${site.name}: ${change.reason}`) : null;
  }

  // --------------------------------------------------------------------------------------- writing

  write(site: CallSite, after: Content): StepProblem | null {
    const { memory } = this;
    const reading = this.readingOf(site);
    const change = reading === null ? null : this.changeOf(site, reading, after);
    if (change === null) return failed('EFAULT', `${site.name} cannot be read`);
    if ('kind' in change) return change;
    if (memory.why !== null) memory.why = { ...memory.why, rule: change.rule };
    const anchor = this.sites.anchor[this.siteIndex.get(site.ip)!]!;
    if (after.kind === 'direct') this.viaEntry.set(site, after);
    else this.viaEntry.delete(site);
    for (const store of change.stores) {
      const problem = memory.store(store.at ?? anchor + BigInt(store.delta), store.after);
      if (problem) return problem;
    }
    const bytes = this.bytesAt(site);
    if (bytes !== null) this.seen.set(site, { content: after, bytes });
    return null;
  }

  // ---------------------------------------------------------------- words that name a site's ops

  private literalPlace(site: CallSite): Address | null {
    const { literal, name } = this.options.convention;
    if (literal === null) {
      throw new ElftraceError('internal', `sites of ${name} have no word that names their ops`, { address: site.ip });
    }
    return literal.place(site.ip, this.sites.stubs?.of(site.ip) ?? null);
  }

  readLiteral(site: CallSite): Reading {
    const { memory, ops } = this;
    const place = this.literalPlace(site);
    const word = place === null ? null : memory.wordAt(place);
    if (word === null) return { kind: 'fault' };
    const { bytes, value } = word;
    if (value === memory.need('ftrace_nop_ops').identity) return { kind: 'literal', literal: { kind: 'nop-ops' } };
    if (value === memory.need('ftrace_list_ops').identity) return { kind: 'literal', literal: { kind: 'list-ops' } };
    const named = ops.present.find((each) => ops.addressOf(each) === value);
    return named === undefined ? { kind: 'foreign', bytes } : { kind: 'literal', literal: { kind: 'ops', ops: named } };
  }

  writeLiteral(site: CallSite, after: Literal): StepProblem | null {
    const place = this.literalPlace(site);
    if (place === null) return failed('EFAULT', `${site.name} has no word that names its ops`);
    const { memory, ops } = this;
    const value =
      after.kind === 'ops'
        ? ops.addressOf(after.ops)
        : memory.need(after.kind === 'nop-ops' ? 'ftrace_nop_ops' : 'ftrace_list_ops').identity;
    return memory.words(place, [value]);
  }
}
