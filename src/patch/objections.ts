/**
 * What stands between a site and the change that a request wants: wrong bytes, another callee than
 * expected, a shape that cannot be written so, other patch ranges, relocations that would be
 * applied over the change. Each objection has a code, the kernel's error kind and a reason.
 */
import type { SiteChange, SiteReading, SiteRefusal, SiteView, WritableState } from '../machine/sites.js';
import { SHF_WRITE } from '../elf/constants.js';
import { hex, hexBytes } from '../errors.js';
import type { CodeRange } from '../program/program.js';
import type { Address, SectionIndex, SiteIndex } from '../units.js';
import { otherRanges } from '../sites/overlaps.js';
import type { Sites } from '../sites/sites.js';
import type { ProgramView } from '../sites/view.js';
import { judge, type Judgement, verdictSeverity, type VerifyOptions } from '../sites/verdicts.js';
import type { CodedRefusal } from './decisions.js';
import type { PlanRequest, Refusal } from './plan.js';

/** Why a site is not changed. */
export type Objection = Pick<Refusal, 'code' | 'errno' | 'reason'> & Partial<Pick<Refusal, 'expected' | 'actual'>>;

/** What becomes of a site. */
export type Outcome =
  /** No plan counts it: an empty slot, or what is left of an overridden weak function. */
  | { readonly kind: 'ignored' }
  /** Something is wrong with it, and it is as the request wants it all the same. */
  | { readonly kind: 'as-asked' }
  | { readonly kind: 'refused'; readonly objection: Objection }
  | { readonly kind: 'change'; readonly change: SiteChange; readonly view: ProgramView; readonly range: CodeRange };

const refused = (objection: Objection): Outcome => ({ kind: 'refused', objection });

/** The first state that can be written, or the refusal of the last one. */
function decide(
  reading: SiteReading,
  { to, hostRanges }: PlanRequest,
  site: SiteIndex,
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
  site: SiteIndex,
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
function isAsAsked(sites: Sites, site: SiteIndex, reading: SiteReading | null, request: PlanRequest): boolean {
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
  section: SectionIndex,
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

const packedReason =
  'the relocations of the call are compact ones (SHT_CREL), whose rows cannot be changed one by one: assemble without --crel';

/** Rows of compact tables have no bytes of their own. */
function changesPackedRows(view: ProgramView, { neutralise, relocate }: SiteChange): boolean {
  if (!view.hasPackedRelocations) return false;
  const deltas = [...neutralise, ...(relocate ?? []).map(({ delta }) => delta)];
  return deltas.some((delta) => view.relocationsAt(delta).some(({ table }) => table.form === 'crel'));
}

/** Decides each site of a request by itself; what sites do to each other is the plan's. */
export class SiteDecisions {
  private readonly judging: VerifyOptions;
  private readonly others: ReturnType<typeof otherRanges>;

  constructor(
    private readonly sites: Sites,
    private readonly request: PlanRequest,
  ) {
    const { recorded, leftBehind } = request;
    this.judging = { ...(recorded ? { recorded } : {}), ...(leftBehind ? { leftBehind } : {}) };
    this.others = otherRanges(sites.program);
  }

  of(site: SiteIndex): Outcome {
    const { sites, request } = this;
    const reading = sites.reading(site);
    const judgement = judge(sites, site, this.judging, reading);
    const { verdict } = judgement;
    if (verdict === 'zero-entry' || (verdict === 'weak-leftover' && request.leftovers !== true)) {
      return { kind: 'ignored' };
    }
    const range = sites.codeRange(site);
    if (verdictSeverity[verdict] === 'error' || !range) {
      const fine = range && verdict !== 'state-mismatch' && isAsAsked(sites, site, reading, request);
      return fine ? { kind: 'as-asked' } : refused(judged(judgement));
    }
    if (!reading || reading.state === 'foreign') {
      const code = verdict === 'ok' ? 'unsupported-shape' : verdict;
      return refused({ code, errno: 'EINVAL', reason: judgement.message || 'the bytes are no known site' });
    }
    const unexpected = unexpectedCall(sites, site, reading, request);
    if (unexpected !== null) return refused(unexpected);
    const view = sites.viewOf(site);
    const change = decide(reading, request, site, view);
    if ('refused' in change) {
      return refused({
        code: change.code ?? change.refused,
        errno: errnoOf(change.refused),
        reason: change.reason,
      });
    }
    const objection = this.against(site, change, range, view);
    return objection === null ? { kind: 'change', change, view, range } : refused(objection);
  }

  /** What the rest of the file has against a change; null: nothing. */
  private against(site: SiteIndex, change: SiteChange, range: CodeRange, view: ProgramView): Objection | null {
    const stores = change.stores.length > 0;
    return (
      (stores ? (this.permission(range) ?? this.overlap(site, change, range) ?? this.dynamic(site, change)) : null) ??
      this.alignment(range) ??
      (changesPackedRows(view, change) ? { code: 'packed-relocations', errno: 'EINVAL', reason: packedReason } : null)
    );
  }

  /**
   * Entries find the word with the ops at a multiple of a word: where the section of a relocatable
   * file is aligned to less, nothing says that it will lie there.
   */
  private alignment({ section: index, name }: CodeRange): Objection | null {
    const { program } = this.sites;
    const { to } = this.request;
    const namesOps = typeof to !== 'function' && to.kind === 'call' && (to.names?.ops ?? null) !== null;
    if (!namesOps || !program.relocatable) return null;
    const { wordBytes } = program.image;
    const { alignBytes } = program.image.sections[index]!;
    if (alignBytes >= BigInt(wordBytes)) return null;
    const reason = `${name} is aligned to ${alignBytes} bytes, the word that names the ops must be to ${wordBytes}`;
    return { code: 'misaligned-ops', errno: 'EINVAL', reason };
  }

  private permission({ section: index }: CodeRange): Objection | null {
    const { program } = this.sites;
    if (!this.request.strictPermissions || index < 0 || program.relocatable) return null;
    const section = program.image.sections[index]!;
    if ((section.flags & SHF_WRITE) !== 0n) return null;
    return { code: 'read-only-section', errno: 'EPERM', reason: `section ${section.name} is not writable` };
  }

  private overlap(site: SiteIndex, change: SiteChange, range: CodeRange): Objection | null {
    if (this.others.list.length === 0) return null;
    const section = this.sites.program.relocatable ? range.section : -1;
    const what = overlapped(this.others, section, this.sites.anchor[site]!, change);
    return what === null
      ? null
      : { code: 'overlaps-patch-range', errno: 'EINVAL', reason: `${what} lies inside the site` };
  }

  /** Text relocations are applied at start, over whatever the file holds. */
  private dynamic(site: SiteIndex, { stores }: SiteChange): Objection | null {
    const { dynamicRelocations: dynamic } = this.sites.program;
    if (dynamic.count === 0) return null;
    const anchor = this.sites.anchor[site]!;
    const isHit = stores.some(({ at, delta, after }) => {
      const first = at ?? anchor + BigInt(delta);
      const rank = dynamic.from(first - 7n);
      return rank < dynamic.count && dynamic.offset[rank]! < first + BigInt(after.length);
    });
    if (!isHit) return null;
    const reason = 'the dynamic linker would write over the change: a text relocation lies on the site';
    return { code: 'dynamic-relocation', errno: 'EINVAL', reason };
  }
}

/** A verdict as an objection. */
function judged({ verdict, errno, message, expected, actual }: Judgement): Objection {
  return {
    code: verdict,
    errno: verdict === 'outside-text' ? 'EFAULT' : (errno ?? 'EINVAL'),
    reason: message,
    ...(expected ? { expected: hexBytes(expected) } : {}),
    ...(actual ? { actual: hexBytes(actual) } : {}),
  };
}
