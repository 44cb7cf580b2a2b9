/**
 * Plans: what a request will change, decided completely before anything is written. A plan is an
 * ordered list of steps and a list of refusals; `apply.ts` executes it. Nothing is decided after
 * this file.
 *
 * After planning: every step's `before` and `after` have equal length, `before` is what the file
 * holds, steps are sorted by file position and do not overlap, and every site of the selection is
 * either changed, already as asked, or refused.
 */
import type { HazardId, SiteChange, SiteReading, SiteRefusal, SiteView, WritableState } from '../machine/sites.js';
import type { CodedRefusal, SiteDecision } from './decisions.js';
import { SHF_WRITE } from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { ByteView, equalBytes, holdsAt } from '../bytes.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import type { Address } from '../units.js';
import { otherRanges } from '../sites/overlaps.js';
import type { Sites } from '../sites/sites.js';
import type { ProgramView } from '../sites/view.js';
import { judge, verdictSeverity, type VerifyOptions } from '../sites/verdicts.js';

/** One change of the file. `place` is for people; `fileOffset` is what is written. */
export type Step =
  | {
      readonly kind: 'store';
      readonly site: number;
      readonly section: string;
      /** Address, or offset in `section` for relocatable files. */
      readonly address: bigint;
      readonly fileOffset: number;
      readonly before: Uint8Array;
      readonly after: Uint8Array;
      readonly rule: string;
      /** What the store is for, where the plan's maker knows more than the rule. */
      readonly reason?: string;
    }
  | {
      /**
       * A relocation entry: `before` and `after` are its r_info word, with r_addend behind it where
       * that changes too.
       */
      readonly kind: 'reloc';
      readonly site: number;
      readonly section: string;
      readonly row: number;
      readonly type: number;
      /** The type it becomes, without a symbol. */
      readonly becomes: number;
      readonly symbol: string;
      readonly address: bigint;
      readonly fileOffset: number;
      readonly before: Uint8Array;
      readonly after: Uint8Array;
      readonly rule: string;
    }
  | TableStep;

export const tableParts = ['slots', 'relocations', 'header', 'symbol', 'group'] as const;

/**
 * A change of what names sites: slots, their relocations, and what an ELF file says of a table that
 * shrinks. `site` is -1, `section` the section that is changed (of a symbol and of a header: the
 * one that it is about), `address` where in it.
 */
export interface TableStep {
  readonly kind: 'table';
  readonly part: (typeof tableParts)[number];
  readonly site: number;
  readonly section: string;
  readonly address: bigint;
  readonly fileOffset: number;
  readonly before: Uint8Array;
  readonly after: Uint8Array;
  readonly rule: string;
}

/**
 * A site that the request names and that will not be changed, with a reason that a program can
 * read.
 */
export interface Refusal {
  readonly site: number;
  readonly section: string;
  readonly address: bigint;
  readonly function: string;
  /** A verdict of the site, or what stands against the change. */
  readonly code: string;
  /**
   * The kernel's error kind: EINVAL content, EPERM may not be written, EFAULT cannot be read,
   * ERANGE out of reach.
   */
  readonly errno: 'EINVAL' | 'EPERM' | 'EFAULT' | 'ERANGE';
  readonly reason: string;
  readonly expected: string;
  readonly actual: string;
}

/** A relocation that a site of a relocatable file gets. */
export interface NewRelocation {
  readonly site: number;
  /** Section that it is about, and the offset in it. */
  readonly section: number;
  readonly offset: bigint;
  readonly type: number;
  readonly symbol: string;
  /** Its number: of those that are there, or behind them in the order of `symbols`. */
  readonly symbolIndex: number;
}

/** What a plan adds to a relocatable file; the steps are about what is there. */
export interface Additions {
  readonly relocations: readonly NewRelocation[];
  /** Undefined symbols behind those of the file. */
  readonly symbols: readonly string[];
}

/** Numbers of symbols by name: those of the file, and new ones behind them. */
class SymbolNumbers {
  readonly added: string[] = [];

  constructor(private readonly symbols: ElfImage['symbols']) {}

  of(name: string): number {
    const known = this.symbols.find(name);
    if (known > 0) return known;
    const again = this.added.indexOf(name);
    return this.symbols.count + (again >= 0 ? again : this.added.push(name) - 1);
  }
}

/** A hazard with the sites that have it. */
export interface Hazard {
  readonly rule: HazardId;
  readonly reason: string;
  readonly sites: readonly HazardousSite[];
}

export interface HazardousSite {
  readonly site: number;
  readonly section: string;
  readonly address: bigint;
  readonly function: string;
}

export interface Plan {
  readonly target: string;
  readonly request: string;
  readonly steps: readonly Step[];
  readonly refusals: readonly Refusal[];
  /** Sites that the selection names (empty slots and weak leftovers are never selected). */
  readonly selected: number;
  /** Sites that change. */
  readonly changed: number;
  /** Sites that are already as asked. */
  readonly unchanged: number;
  /**
   * Functions whose sites were not asked for and that become nops all the same, as in a kernel that
   * starts (C-INIT-2).
   */
  readonly initialised?: readonly string[];
  /** Relocations and symbols that a relocatable file gets (F-2). */
  readonly additions?: Additions;
  /** What the user should know: a trampoline that could not be made. */
  readonly notices?: readonly string[];
  /**
   * What may go wrong on a running system, where the request says that it can be preempted; absent:
   * nothing.
   */
  readonly hazards?: readonly Hazard[];
  /** File positions of the sites that no table names any more, ascending; absent: none. */
  readonly untraced?: readonly number[];
}

export interface PlanRequest {
  /**
   * One state for every selected site, or a choice per site. A choice may name several states in
   * order of preference (a direct branch, then the stubs in reach): the first that the site's shape
   * can write is taken, the last one's refusal counts.
   */
  readonly to: WritableState | ((site: number, reading: SiteReading) => readonly SiteDecision[]);
  /** What the plan is called; the kind of `to` when absent. */
  readonly name?: string;
  /**
   * Where calls of the selected sites must lead now: the profiling entry, or the entry at an
   * address (stubs followed). A site that calls something else is refused. Calls of either kind are
   * accepted when absent.
   */
  readonly expect?: 'mcount' | Address;
  /** Part of the image (module) that the caller believes the sites to be in (C-MOD-3). */
  readonly module?: string;
  /** One byte per site, nonzero for selected; all when absent. */
  readonly selection?: Uint8Array;
  /** Ranges of the file that may not be written: [start, end) (`--readonly`). */
  readonly readonlyRanges?: readonly { readonly start: number; readonly end: number }[];
  /**
   * Refuse sites in sections whose flags do not allow what a running system would do
   * (`--strict-perm`).
   */
  readonly strictPermissions?: boolean;
  /**
   * Sites that no function symbol covers are selected too: what is left of overridden weak
   * functions.
   */
  readonly leftovers?: boolean;
  /**
   * Addresses [start, end) behind which there are functions of the host (gates of the emulator).
   * They mean nothing in a file: sites that would call one are refused (RT-12).
   */
  readonly hostRanges?: readonly { readonly start: bigint; readonly end: bigint }[];
  readonly recorded?: VerifyOptions['recorded'];
  readonly leftBehind?: VerifyOptions['leftBehind'];
  readonly signal?: AbortSignal;
}

/** ELF header and header tables: nothing in them is ever a site. */
function protectedRanges(image: ElfImage): { start: number; end: number }[] {
  const { header } = image;
  const ranges = [{ start: 0, end: header.is64 ? 64 : 52 }];
  if (header.phnum > 0) ranges.push({ start: header.phoff, end: header.phoff + header.phnum * header.phentsize });
  if (header.shnum > 0) ranges.push({ start: header.shoff, end: header.shoff + header.shnum * header.shentsize });
  return ranges;
}

/** r_info and r_addend of an entry without a symbol; `addend` null leaves r_addend out. */
function neutralEntry(image: ElfImage, type: number, addend: bigint | null): Uint8Array {
  const word = image.wordBytes;
  const view = new ByteView(new Uint8Array(addend === null ? word : 2 * word), image.header.endian);
  view.insertWord(0, BigInt(type), word);
  if (addend !== null) view.insertWord(word, addend, word);
  return view.bytes;
}

/**
 * The word that the stores of a change put at a delta, in the file's byte order; null when they do
 * not cover it.
 */
function storedWord(image: ElfImage, change: SiteChange, delta: number): bigint | null {
  for (const store of change.stores) {
    const at = delta - store.delta;
    if (at >= 0 && at + 4 <= store.after.length) return BigInt(new ByteView(store.after, image.header.endian).u32(at));
  }
  return null;
}

/**
 * Sites of one kind change the same bytes into the same: equal arrays are kept once. 60,000 sites
 * would otherwise keep 240,000 small arrays alive, and collecting those takes longer than planning.
 */
class Shared {
  private readonly recent: Uint8Array[] = [];

  /** The kept array that equals `size` bytes at `offset`. */
  at(bytes: Uint8Array, offset: number, size: number): Uint8Array {
    for (const known of this.recent) if (known.length === size && holdsAt(bytes, offset, known)) return known;
    const kept = bytes.slice(offset, offset + size);
    this.recent.unshift(kept);
    if (this.recent.length > 8) this.recent.pop();
    return kept;
  }

  of(bytes: Uint8Array): Uint8Array {
    return this.at(bytes, 0, bytes.length);
  }
}

/** The first state that can be written, or the refusal of the last one. */
function decide(
  reading: SiteReading,
  { to, hostRanges }: PlanRequest,
  site: number,
  view: SiteView,
): SiteChange | CodedRefusal {
  const write = (state: WritableState): SiteChange | CodedRefusal => {
    if (state.kind === 'call' && hostRanges?.some(({ start, end }) => state.target >= start && state.target < end)) {
      const reason = `${hex(state.target)} is a function of the host: a file cannot call it`;
      return { refused: 'not-applicable', code: 'host-callback-in-file', reason };
    }
    return reading.shape.write(reading, state, view);
  };
  if (typeof to !== 'function') return write(to);
  let last: CodedRefusal = { refused: 'not-applicable', reason: 'nothing was asked' };
  for (const decision of to(site, reading)) {
    const change = 'refused' in decision ? decision : write(decision);
    if (!('refused' in change)) return change;
    last = change;
  }
  return last;
}

/** The kernel's error kinds of C-UPD-2; a branch that does not reach has one of its own. */
/** Rows of compact tables have no bytes of their own. */
function changesPackedRows(view: ProgramView, { neutralise, relocate }: SiteChange): boolean {
  const deltas = [...neutralise, ...(relocate ?? []).map(({ delta }) => delta)];
  return deltas.some((delta) => view.relocationsAt(delta).some(({ table }) => table.form === 'crel'));
}

function errnoOf(refused: SiteRefusal['refused']): Refusal['errno'] {
  if (refused === 'out-of-range') return 'ERANGE';
  return refused === 'unreadable' ? 'EFAULT' : 'EINVAL';
}

/**
 * Why a site is not where the request believes it to be, or calls something else than the request
 * expects; null when it is fine.
 */
function unexpectedCall(
  { program, anchor }: Sites,
  site: number,
  reading: SiteReading,
  { expect, module }: PlanRequest,
): { code: string; errno: Refusal['errno']; reason: string } | null {
  if (module !== undefined) {
    const part = program.partOf(anchor[site]!);
    if (part?.name !== module) {
      const where = part === undefined ? 'no module' : part.name;
      const reason = `the site lies in ${where}, not in ${module}`;
      return { code: 'wrong-module', errno: part === undefined ? 'EFAULT' : 'EINVAL', reason };
    }
  }
  if (expect === undefined || (reading.state !== 'compiled' && reading.state !== 'call')) return null;
  if (reading.target === null) return null;
  const fine =
    expect === 'mcount'
      ? program.callee(reading.target) === 'mcount'
      : reading.target === expect || program.finalTarget(reading.target) === expect;
  if (fine) return null;
  const stub = program.stubTarget(reading.target);
  const wanted = expect === 'mcount' ? 'the profiling entry' : hex(expect);
  return {
    code: stub === null ? 'wrong-target' : 'stub-wrong-target',
    errno: 'EINVAL',
    reason:
      stub === null
        ? `the call leads to ${hex(reading.target)}, expected ${wanted}`
        : `the stub at ${hex(reading.target)} leads to ${hex(stub)}, expected ${wanted}`,
  };
}

/**
 * Whether a site is as the request wants it although something is wrong with it: a request refuses
 * only what it would change. Nops that no call can use are off; other wrong bytes are not.
 */
function isAsAsked(sites: Sites, site: number, reading: SiteReading | null, request: PlanRequest): boolean {
  if (reading === null || typeof request.to === 'function') return false;
  if (reading.state === 'foreign') {
    return request.to.kind === 'nop' && reading.nops !== undefined && reading.fault !== undefined;
  }
  const change = reading.shape.write(reading, request.to, sites.viewOf(site));
  return (
    !('refused' in change) && change.stores.length + change.neutralise.length === 0 && change.relocate === undefined
  );
}

/** What of others a change would write over: by its stores at the site, then by those elsewhere. */
function overlapped(
  others: ReturnType<typeof otherRanges>,
  section: number,
  anchor: Address,
  { stores }: SiteChange,
): string | null {
  const near = stores.filter(({ at }) => at === undefined);
  const spans = stores.flatMap(({ at, after }) => (at === undefined ? [] : [[at, at + BigInt(after.length)] as const]));
  if (near.length > 0) {
    const first = Math.min(...near.map(({ delta }) => delta));
    const last = Math.max(...near.map(({ delta, after }) => delta + after.length));
    spans.unshift([anchor + BigInt(first), anchor + BigInt(last)]);
  }
  for (const [from, to] of spans) {
    const what = others.overlapping(section, from, to);
    if (what !== null) return what;
  }
  return null;
}

/**
 * Decides the changes that bring the selected sites to a state.
 * @returns steps sorted by file position; refusals in site order. Writes nothing.
 */
export function planSites(sites: Sites, request: PlanRequest): Plan {
  const { program } = sites;
  const { image } = program;
  const forbidden = [...protectedRanges(image), ...(request.readonlyRanges ?? [])];
  const { neutralInModule, none } = program.arch.relocationRoles;
  /** Few addends, one entry each: null, or the word of a nop. */
  const neutralEntries = new Map<bigint | null, Uint8Array>();
  const neutral = program.isModule ? neutralInModule : { type: none, addend: 'kept' };
  const dynamic = program.dynamicRelocations;
  const shared = new Shared();
  /** Stores that are no part of a site, which several sites may ask for, by their place. */
  const elsewhere = new Map<number, Uint8Array>();
  const others = otherRanges(program);
  // Stores and relocation entries lie in different sections: each list comes out in order, or
  // nearly so.
  const stores: Step[] = [];
  const relocations: Step[] = [];
  const newRelocations: NewRelocation[] = [];
  const numbers = new SymbolNumbers(image.symbols);
  const refusals: Refusal[] = [];
  let selected = 0;
  let changed = 0;
  let unchanged = 0;
  const { recorded, leftBehind } = request;
  const judgeOptions: VerifyOptions = { ...(recorded ? { recorded } : {}), ...(leftBehind ? { leftBehind } : {}) };

  const refuse = (
    site: number,
    code: string,
    errno: Refusal['errno'],
    reason: string,
    expected = '',
    actual = '',
  ): void => {
    const range = sites.codeRange(site);
    refusals.push({
      site,
      section: range?.name ?? '',
      address: sites.anchor[site]!,
      function: range ? program.describe(range, sites.ip(site)) : '',
      code,
      errno,
      reason,
      expected,
      actual,
    });
  };

  for (let i = 0; i < sites.count; i++) {
    if ((i & 0xfff) === 0) request.signal?.throwIfAborted();
    if (request.selection && !request.selection[i]) continue;
    const reading = sites.reading(i);
    const judgement = judge(sites, i, judgeOptions, reading);
    const { verdict } = judgement;
    if (verdict === 'zero-entry' || (verdict === 'weak-leftover' && request.leftovers !== true)) continue;
    selected++;
    const range = sites.codeRange(i);
    if (verdictSeverity[verdict] === 'error' || !range) {
      if (range && verdict !== 'state-mismatch' && isAsAsked(sites, i, reading, request)) {
        unchanged++;
        continue;
      }
      const { expected, actual } = judgement;
      refuse(
        i,
        verdict,
        verdict === 'outside-text' ? 'EFAULT' : (judgement.errno ?? 'EINVAL'),
        judgement.message,
        expected ? hexBytes(expected) : '',
        actual ? hexBytes(actual) : '',
      );
      continue;
    }
    if (!reading || reading.state === 'foreign') {
      refuse(
        i,
        verdict === 'ok' ? 'unsupported-shape' : verdict,
        'EINVAL',
        judgement.message || 'the bytes are no known site',
      );
      continue;
    }
    const unexpected = unexpectedCall(sites, i, reading, request);
    if (unexpected !== null) {
      refuse(i, unexpected.code, unexpected.errno, unexpected.reason);
      continue;
    }
    const view = sites.viewOf(i);
    const change = decide(reading, request, i, view);
    if ('refused' in change) {
      refuse(i, change.code ?? change.refused, errnoOf(change.refused), change.reason);
      continue;
    }
    if (request.strictPermissions && range.section >= 0 && change.stores.length > 0) {
      const section = image.sections[range.section]!;
      if ((section.flags & SHF_WRITE) === 0n && !program.relocatable) {
        refuse(i, 'read-only-section', 'EPERM', `section ${section.name} is not writable`);
        continue;
      }
    }
    if (others.list.length > 0 && change.stores.length > 0) {
      const section = program.relocatable ? range.section : -1;
      const what = overlapped(others, section, sites.anchor[i]!, change);
      if (what !== null) {
        refuse(i, 'overlaps-patch-range', 'EINVAL', `${what} lies inside the site`);
        continue;
      }
    }
    if (dynamic.count > 0 && change.stores.length > 0) {
      const store = change.stores.find((each) => {
        const first = each.at ?? sites.anchor[i]! + BigInt(each.delta);
        const rank = dynamic.from(first - 7n);
        return rank < dynamic.count && dynamic.offset[rank]! < first + BigInt(each.after.length);
      });
      if (store) {
        refuse(
          i,
          'dynamic-relocation',
          'EINVAL',
          'the dynamic linker would write over the change: a text relocation lies on the site',
        );
        continue;
      }
    }
    if (changesPackedRows(view, change)) {
      refuse(
        i,
        'packed-relocations',
        'EINVAL',
        'the relocations of the call are compact ones (SHT_CREL), whose rows cannot be changed one by one: assemble without --crel',
      );
      continue;
    }
    const mine: Step[] = [];
    let blocked = '';
    const base = range.fileOffset + Number(sites.anchor[i]! - range.address);
    for (const store of change.stores) {
      const fileOffset = store.at === undefined ? base + store.delta : image.fileOffsetOf(store.at);
      if (equalBytes(store.before, store.after)) continue;
      if (fileOffset < 0 || store.before.length !== store.after.length) {
        throw new ElftraceError('internal', `a store at ${hex(store.at ?? sites.anchor[i]!)} is not in the file`);
      }
      if (store.at !== undefined) {
        const known = elsewhere.get(fileOffset);
        if (known !== undefined && equalBytes(known, store.after)) continue;
        elsewhere.set(fileOffset, store.after);
      }
      mine.push({
        kind: 'store',
        site: i,
        section: store.at === undefined ? range.name : (image.sectionAt(store.at)?.name ?? ''),
        address: store.at ?? sites.anchor[i]! + BigInt(store.delta),
        fileOffset,
        before: shared.of(store.before),
        after: shared.of(store.after),
        rule: change.rule,
      });
    }
    for (const delta of change.neutralise) {
      for (const { table, row } of view.relocationsAt(delta)) {
        const type = table.type[row]!;
        if (type === none || (type === neutral.type && table.symbol[row] === 0)) continue;
        // A marker that rides on another relocation of the module needs no value of its own.
        const wantsWord = neutral.addend === 'stored-word' && table.form === 'rela';
        const addend = wantsWord ? storedWord(image, change, delta) : null;
        if (wantsWord && addend === null) {
          blocked = 'a relocation of the call lies on bytes that do not change: a module loader would apply it';
          continue;
        }
        let after = neutralEntries.get(addend);
        if (!after) neutralEntries.set(addend, (after = neutralEntry(image, neutral.type, addend)));
        const fileOffset = table.fileOffset(row) + image.wordBytes;
        mine.push({
          kind: 'reloc',
          site: i,
          section: image.sections[table.section]?.name ?? '',
          row,
          type,
          becomes: neutral.type,
          symbol: program.labelOf(table.symbols, table.symbol[row]!),
          address: sites.anchor[i]! + BigInt(delta),
          fileOffset,
          before: shared.at(image.bytes, fileOffset, after.length),
          after,
          rule: 'F-2',
        });
      }
    }
    const added: NewRelocation[] = [];
    for (const { delta, type, symbol } of change.relocate ?? []) {
      const symbolIndex = numbers.of(symbol);
      const offset = sites.anchor[i]! + BigInt(delta);
      const rows = view.relocationsAt(delta).filter(({ table }) => table.form === 'rela');
      const own = rows.find(({ table, row }) => !program.isCompanion(table.type[row]!));
      // What rode on the old one (RELAX) would let a linker shorten a call that must keep its size.
      for (const { table, row } of rows) {
        const type = table.type[row]!;
        if (!program.isCompanion(type) || type === neutral.type) continue;
        const fileOffset = table.fileOffset(row) + image.wordBytes;
        const after = neutralEntry(image, neutral.type, null);
        mine.push({
          kind: 'reloc',
          site: i,
          section: image.sections[table.section]?.name ?? '',
          row,
          type,
          becomes: neutral.type,
          symbol: '',
          address: offset,
          fileOffset,
          before: shared.at(image.bytes, fileOffset, after.length),
          after,
          rule: 'F-2',
        });
      }
      if (own === undefined) {
        added.push({ site: i, section: range.section, offset, type, symbol, symbolIndex });
        continue;
      }
      const { table, row } = own;
      const fileOffset = table.fileOffset(row) + image.wordBytes;
      const after = new ByteView(new Uint8Array(2 * image.wordBytes), image.header.endian);
      after.insertWord(0, relocationInfo(image, symbolIndex, type), image.wordBytes);
      mine.push({
        kind: 'reloc',
        site: i,
        section: image.sections[table.section]?.name ?? '',
        row,
        type: table.type[row]!,
        becomes: type,
        symbol: program.labelOf(table.symbols, table.symbol[row]!),
        address: offset,
        fileOffset,
        before: shared.at(image.bytes, fileOffset, after.bytes.length),
        after: after.bytes,
        rule: 'F-2',
      });
    }
    for (const step of mine) {
      const end = step.fileOffset + step.before.length;
      for (const each of forbidden) {
        if (step.fileOffset >= each.end || end <= each.start) continue;
        blocked = `bytes ${hex(step.fileOffset)}..${hex(end)} of the file may not be written`;
      }
    }
    if (blocked !== '') {
      refuse(i, 'not-writable', 'EPERM', blocked);
      continue;
    }
    if (mine.length + added.length === 0) unchanged++;
    else {
      changed++;
      newRelocations.push(...added);
      for (const step of mine) (step.kind === 'store' ? stores : relocations).push(step);
    }
  }
  const steps =
    stores.length > 0 && relocations.length > 0 && relocations[0]!.fileOffset < stores[0]!.fileOffset
      ? [...relocations, ...stores]
      : [...stores, ...relocations];
  if (steps.some((step, i) => i > 0 && step.fileOffset < steps[i - 1]!.fileOffset)) {
    steps.sort((a, b) => a.fileOffset - b.fileOffset);
  }
  const doubled = overlappingSites(steps);
  for (const [site, other] of doubled) {
    refuse(site, 'overlap', 'EINVAL', `its bytes are also those of the site at ${hex(other.address)}`);
    changed--;
  }
  if (doubled.size > 0) refusals.sort((a, b) => a.site - b.site);
  return {
    target: program.arch.target.id,
    request: request.name ?? (typeof request.to === 'function' ? 'sites' : request.to.kind),
    steps: doubled.size === 0 ? steps : steps.filter((step) => !doubled.has(step.site)),
    refusals,
    selected,
    changed,
    unchanged,
    ...(newRelocations.length + numbers.added.length > 0
      ? { additions: { relocations: newRelocations.filter(({ site }) => !doubled.has(site)), symbols: numbers.added } }
      : {}),
  };
}

/** r_info of a relocation. */
function relocationInfo({ wordBytes }: ElfImage, symbol: number, type: number): bigint {
  return wordBytes === 8 ? (BigInt(symbol) << 32n) | BigInt(type) : BigInt((symbol << 8) | type);
}

/**
 * The relocations that a plan adds, as rows of their tables by the section that they are about;
 * addends are 0.
 */
export function additionRows(image: ElfImage, { relocations }: Additions): Map<number, Uint8Array> {
  const bySection = new Map<number, NewRelocation[]>();
  for (const each of relocations) bySection.set(each.section, [...(bySection.get(each.section) ?? []), each]);
  const size = 3 * image.wordBytes;
  return new Map(
    [...bySection].map(([section, own]) => {
      const view = new ByteView(new Uint8Array(size * own.length), image.header.endian);
      own.forEach(({ offset, symbolIndex, type }, i) => {
        view.insertWord(i * size, offset, image.wordBytes);
        view.insertWord(i * size + image.wordBytes, relocationInfo(image, symbolIndex, type), image.wordBytes);
      });
      return [section, view.bytes];
    }),
  );
}

/**
 * Sites that claim bytes which a step before them claims (of another site, or, where section
 * headers overlap, their own): written twice, one of the two would be lost. Never guessed, refused.
 */
function overlappingSites(steps: readonly Step[]): Map<number, Step> {
  const found = new Map<number, Step>();
  let last: Step | undefined;
  for (const step of steps) {
    if (last && last.fileOffset + last.before.length > step.fileOffset) found.set(step.site, last);
    else last = step;
  }
  return found;
}

export interface Acceptance {
  /** Write the sites that can be written although others were refused. */
  readonly partial?: boolean;
  /**
   * Accept refusals as long as at least this share of the selected sites is as asked afterwards,
   * percent.
   */
  readonly requirePercent?: number;
}

/**
 * The one checkpoint between deciding and writing.
 * @throws ElftraceError 'plan-refused' when sites were refused and the caller did not accept that
 */
export function checkAcceptance(plan: Plan, acceptance: Acceptance): void {
  const done = plan.changed + plan.unchanged;
  if (acceptance.requirePercent !== undefined) {
    const percent = plan.selected === 0 ? 100 : (done * 100) / plan.selected;
    if (percent < acceptance.requirePercent) {
      throw new ElftraceError(
        'plan-refused',
        `${done} of ${plan.selected} sites (${percent.toFixed(1)} %) can be changed, ${acceptance.requirePercent} % are required`,
        { value: done, min: acceptance.requirePercent },
      );
    }
    return;
  }
  if (plan.refusals.length > 0 && !acceptance.partial) {
    const first = plan.refusals[0]!;
    throw new ElftraceError(
      'plan-refused',
      `${plan.refusals.length} of ${plan.selected} sites refused; the first is ${first.section}+${hex(first.address)}` +
        `${first.function === '' ? '' : ` (${first.function})`}: ${first.code}: ${first.reason}`,
      { value: plan.refusals.length, section: first.section, address: first.address },
    );
  }
}
