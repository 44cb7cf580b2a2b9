/**
 * Plans: what a request will change, decided completely before anything is written. A plan is an
 * ordered list of steps and a list of refusals; `plan-sites.ts` makes it, `apply.ts` executes it.
 *
 * After planning: every step's `before` and `after` have equal length, `before` is what the file
 * holds, steps are sorted by file position and do not overlap, and every site of the selection is
 * either changed, already as asked, or refused.
 */
import { ByteView } from '../bytes.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError, hex } from '../errors.js';
import type { HazardId, SiteReading, WritableState } from '../machine/sites.js';
import type { VerifyOptions } from '../sites/verdicts.js';
import type { Address, SectionIndex, SiteIndex, SymbolIndex } from '../units.js';
import type { SiteDecision } from './decisions.js';

/** One change of the file. `place` is for people; `fileOffset` is what is written. */
export type Step =
  | {
      readonly kind: 'store';
      readonly site: SiteIndex;
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
      readonly site: SiteIndex;
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
  readonly site: SiteIndex;
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
  readonly site: SiteIndex;
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
  readonly site: SiteIndex;
  /** Section that it is about, and the offset in it. */
  readonly section: SectionIndex;
  readonly offset: bigint;
  readonly type: number;
  readonly symbol: string;
  /** Its number: of those that are there, or behind them in the order of `symbols`. */
  readonly symbolIndex: SymbolIndex;
}

/** What a plan adds to a relocatable file; the steps are about what is there. */
export interface Additions {
  readonly relocations: readonly NewRelocation[];
  /** Undefined symbols behind those of the file. */
  readonly symbols: readonly string[];
}

/** A hazard with the sites that have it. */
export interface Hazard {
  readonly rule: HazardId;
  readonly reason: string;
  readonly sites: readonly HazardousSite[];
}

export interface HazardousSite {
  readonly site: SiteIndex;
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
  readonly to: WritableState | ((site: SiteIndex, reading: SiteReading) => readonly SiteDecision[]);
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

/** r_info of a relocation. */
export function relocationInfo({ wordBytes }: ElfImage, symbol: SymbolIndex, type: number): bigint {
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
