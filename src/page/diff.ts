/** Differences of two images, or of trees of them, as rows of a page. */
import type { DiffSite, SiteDifference, SitesDiff } from '../diff/index.js';
import { hex } from '../errors.js';
import { reasonText } from '../report/diff.js';
import { visibleLine } from '../visible.js';
import { type Column, type Columns, unsigned } from './columns.js';
import type { DiffColumn, PageDiff } from './model.js';
import type { Strings } from './strings.js';

/** A pair that was compared, or a file that one side alone has. */
export type HtmlDifference =
  | { readonly old: string; readonly new: string; readonly diff: SitesDiff }
  | { readonly alone: string; readonly change: 'lost' | 'gained'; readonly sites: number };

export interface HtmlDiff {
  /** Names of the sides, for people. */
  readonly old: string;
  readonly new: string;
  readonly pairs: readonly HtmlDifference[];
}

type Row = readonly [change: number, name: number, file: number, before: number, after: number, reason: number];

/** Which questions the files leave open, as `diff` says it. */
function openQuestions(file: string, diff: SitesDiff): string[] {
  return ([['new', 'lost'], ['old', 'gained']] as const).flatMap(([side, change]) => {
    const isOpen = diff.differences.some((each) => each.change === change && each.reason?.code === 'symbol-gone');
    const known = diff.debug[side];
    if (!isOpen || (known !== 'absent' && known !== 'damaged')) return [];
    const why = known === 'absent' ? `the ${side} file has no DWARF` : `DWARF of the ${side} file is damaged`;
    return [`${file}: which of the ${change} functions were inlined nobody can tell: ${why}`];
  });
} // prettier-ignore

const partsOf = ({ section, offset, shape, state }: DiffSite): readonly string[] => [
  `${section} +${hex(BigInt(offset))}`,
  shape === '' ? 'no shape' : shape,
  state,
];

/** A site in words; of one that both sides have, what is not the same of it. */
function siteText(site: DiffSite | null, other: DiffSite | null): string {
  if (site === null) return '';
  const parts = partsOf(site);
  const against = other === null ? [] : partsOf(other);
  const differing = parts.filter((part, i) => part !== against[i]);
  return (differing.length === 0 ? parts : differing).join(', ');
}

/** The differences for a page. */
export function pageDiff(
  { old: older, new: newer, pairs }: HtmlDiff,
  strings: Strings,
): { readonly diff: PageDiff; readonly columns: Columns } {
  const rows: Row[] = [];
  const notices: string[] = [];
  const counts: Record<string, number> = {};
  let same = 0;
  const add = (change: string, ...rest: [name: string, file: string, before: string, after: string, reason: string]): void => {
    rows.push([change, ...rest].map((each) => strings.line(each)) as unknown as Row);
  };
  const one = (file: string, { change, function: name, source, old: a, new: b, reason }: SiteDifference): void => {
    const why = reason === null ? '' : reasonText(reason, a === null);
    add(change, source === '' ? name : `${name} (${source})`, file, siteText(a, b), siteText(b, a), why);
  };
  for (const pair of pairs) {
    if ('alone' in pair) {
      counts[pair.change] = (counts[pair.change] ?? 0) + pair.sites;
      add(pair.change, '', pair.alone, '', '', `the whole file, with ${pair.sites} sites`);
      continue;
    }
    same += pair.diff.same;
    for (const [change, count] of Object.entries(pair.diff.counts)) counts[change] = (counts[change] ?? 0) + count;
    for (const each of pair.diff.differences) one(pair.new, each);
    notices.push(...openQuestions(pair.new, pair.diff));
    const { old: a, new: b } = pair.diff.unnamed;
    if (a + b > 0) notices.push(`${pair.new}: sites that no function covers were not compared: ${a} before, ${b} after`);
  }
  const parts = Object.entries(counts).filter(([, count]) => count > 0);
  const column = (at: number) => unsigned(rows.map((row) => row[at]!));
  const columns: Readonly<Record<DiffColumn, Column>> = {
    'diff.change': column(0),
    'diff.function': column(1),
    'diff.file': column(2),
    'diff.before': column(3),
    'diff.after': column(4),
    'diff.reason': column(5),
  };
  return {
    diff: {
      old: visibleLine(older),
      new: visibleLine(newer),
      summary: [`${same} sites are the same`, ...parts.map(([change, count]) => `${count} ${change}`)].join(', '),
      notices: notices.map(visibleLine),
    },
    columns,
  };
} // prettier-ignore
