/**
 * Plans: what a request will change, decided completely before anything is written. A plan is an ordered list of steps and
 * a list of refusals; `apply.ts` executes it. Nothing is decided after this file.
 *
 * After planning: every step's `before` and `after` have equal length, `before` is what the file holds, steps are sorted by
 * file position and do not overlap, and every site of the selection is either changed, already as asked, or refused.
 */
import type { SiteChange, SiteRefusal, WritableState } from '../arch.js';
import { SHF_WRITE } from '../elf/constants.js';
import type { ElfImage, RelocationTable } from '../elf/image.js';
import { equalBytes } from '../bytes.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { otherRanges, overlapping } from './overlaps.js';
import type { Sites } from './sites.js';
import { judge, verdictSeverity, type VerifyOptions } from './verdicts.js';

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
    }
  | {
      /** A relocation entry: `before` and `after` are its r_info word. */
      readonly kind: 'reloc';
      readonly site: number;
      readonly section: string;
      readonly row: number;
      readonly type: number;
      readonly symbol: string;
      readonly address: bigint;
      readonly fileOffset: number;
      readonly before: Uint8Array;
      readonly after: Uint8Array;
      readonly rule: string;
    };

/** A site that the request names and that will not be changed, with a reason that a program can read. */
export interface Refusal {
  readonly site: number;
  readonly section: string;
  readonly address: bigint;
  readonly function: string;
  /** A verdict of the site, or what stands against the change. */
  readonly code: string;
  /** The kernel's error kind: EINVAL content, EPERM may not be written, EFAULT cannot be read, ERANGE out of reach. */
  readonly errno: 'EINVAL' | 'EPERM' | 'EFAULT' | 'ERANGE';
  readonly reason: string;
  readonly expected: string;
  readonly actual: string;
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
}

export interface PlanRequest {
  readonly to: WritableState;
  /** One byte per site, nonzero for selected; all when absent. */
  readonly selection?: Uint8Array;
  /** Ranges of the file that may not be written: [start, end) (`--readonly`). */
  readonly readonlyRanges?: readonly { readonly start: number; readonly end: number }[];
  /** Refuse sites in sections whose flags do not allow what a running system would do (`--strict-perm`). */
  readonly strictPermissions?: boolean;
  readonly recorded?: VerifyOptions['recorded'];
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

/** r_info of a row as bytes in the file, and where. */
function infoField(image: ElfImage, table: RelocationTable, row: number): { offset: number; size: number } {
  return { offset: table.fileOffset(row) + image.wordBytes, size: image.wordBytes };
}

/**
 * Decides the changes that bring the selected sites to a state.
 * @returns steps sorted by file position; refusals in site order. Writes nothing.
 */
export function planSites(sites: Sites, request: PlanRequest): Plan {
  const { program } = sites;
  const { image } = program;
  const forbidden = [...protectedRanges(image), ...(request.readonlyRanges ?? [])];
  const others = otherRanges(program);
  const steps: Step[] = [];
  const refusals: Refusal[] = [];
  let selected = 0;
  let changed = 0;
  let unchanged = 0;
  const judgeOptions: VerifyOptions = request.recorded ? { recorded: request.recorded } : {};

  for (let i = 0; i < sites.count; i++) {
    if ((i & 0xfff) === 0) request.signal?.throwIfAborted();
    if (request.selection && !request.selection[i]) continue;
    const judgement = judge(sites, i, judgeOptions);
    const { verdict } = judgement;
    if (verdict === 'zero-entry' || verdict === 'weak-leftover') continue;
    selected++;
    const range = sites.codeRange(i);
    const refuse = (code: string, errno: Refusal['errno'], reason: string, expected = '', actual = ''): void => {
      refusals.push({
        site: i,
        section: range?.name ?? '',
        address: sites.anchor[i]!,
        function: range ? program.describe(range, sites.ip(i)) : '',
        code,
        errno,
        reason,
        expected,
        actual,
      });
    };
    if (verdictSeverity[verdict] === 'error' || !range) {
      const { expected, actual } = judgement;
      refuse(
        verdict,
        verdict === 'outside-text' ? 'EFAULT' : 'EINVAL',
        judgement.message,
        expected ? hexBytes(expected) : '',
        actual ? hexBytes(actual) : '',
      );
      continue;
    }
    const reading = sites.reading(i);
    if (!reading || reading.state === 'foreign') {
      refuse(
        verdict === 'ok' ? 'unsupported-shape' : verdict,
        'EINVAL',
        judgement.message || 'the bytes are no known site',
      );
      continue;
    }
    const view = sites.viewOf(i);
    const change: SiteChange | SiteRefusal = reading.shape.write(reading, request.to, view);
    if ('refused' in change) {
      refuse(change.refused, change.refused === 'out-of-range' ? 'ERANGE' : 'EINVAL', change.reason);
      continue;
    }
    if (request.strictPermissions && range.section >= 0) {
      const section = image.sections[range.section]!;
      if ((section.flags & SHF_WRITE) === 0n && !program.relocatable) {
        refuse('read-only-section', 'EPERM', `section ${section.name} is not writable`);
        continue;
      }
    }
    if (others.length > 0 && change.stores.length > 0) {
      const first = sites.anchor[i]! + BigInt(Math.min(...change.stores.map((store) => store.delta)));
      const last =
        sites.anchor[i]! + BigInt(Math.max(...change.stores.map((store) => store.delta + store.after.length)));
      const what = overlapping(others, range.section, first, last);
      if (what !== null) {
        refuse('overlaps-patch-range', 'EINVAL', `${what} lies inside the site`);
        continue;
      }
    }
    const mine: Step[] = [];
    let blocked = '';
    const base = range.fileOffset + Number(sites.anchor[i]! - range.address);
    for (const store of change.stores) {
      const fileOffset = base + store.delta;
      if (equalBytes(store.before, store.after)) continue;
      mine.push({
        kind: 'store',
        site: i,
        section: range.name,
        address: sites.anchor[i]! + BigInt(store.delta),
        fileOffset,
        before: store.before,
        after: store.after,
        rule: change.rule,
      });
    }
    for (const delta of change.neutralise) {
      for (const { table, row } of view.relocationsAt(delta)) {
        const type = table.type[row]!;
        if (type === program.arch.relocationRoles.none) continue;
        const field = infoField(image, table, row);
        mine.push({
          kind: 'reloc',
          site: i,
          section: image.sections[table.section]?.name ?? '',
          row,
          type,
          symbol: table.symbols ? table.symbols.name(table.symbol[row]!) : '',
          address: sites.anchor[i]! + BigInt(delta),
          fileOffset: field.offset,
          before: image.bytes.slice(field.offset, field.offset + field.size),
          after: new Uint8Array(field.size),
          rule: 'F-2',
        });
      }
    }
    for (const step of mine) {
      const end = step.fileOffset + step.before.length;
      const hit = forbidden.find((each) => step.fileOffset < each.end && end > each.start);
      if (hit) blocked = `bytes ${hex(step.fileOffset)}..${hex(end)} of the file may not be written`;
    }
    if (blocked !== '') {
      refuse('not-writable', 'EPERM', blocked);
      continue;
    }
    if (mine.length === 0) unchanged++;
    else {
      changed++;
      for (const step of mine) steps.push(step);
    }
  }
  steps.sort((a, b) => a.fileOffset - b.fileOffset);
  checkDisjoint(steps);
  return {
    target: program.arch.target.id,
    request: request.to.kind,
    steps,
    refusals,
    selected,
    changed,
    unchanged,
  };
}

/** Two sites that claim the same bytes would be written twice: that is a fault of the file or of a shape, never guessed. */
function checkDisjoint(steps: readonly Step[]): void {
  for (let i = 1; i < steps.length; i++) {
    const a = steps[i - 1]!;
    const b = steps[i]!;
    if (a.fileOffset + a.before.length > b.fileOffset) {
      throw new ElftraceError(
        'site-mismatch',
        `${b.section}: the sites at ${hex(a.address)} and ${hex(b.address)} overlap`,
        { section: b.section, address: b.address, fileOffset: b.fileOffset },
      );
    }
  }
}

export interface Acceptance {
  /** Write the sites that can be written although others were refused. */
  readonly partial?: boolean;
  /** Accept refusals as long as at least this share of the selected sites is as asked afterwards, percent. */
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
