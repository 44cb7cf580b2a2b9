/** What `diffSites` found, as JSON and as lines. */
import { hex } from '../errors.js';
import type { DiffReason, DiffSite, SiteDifference, SitesDiff } from '../diff/index.js';
import { demangledJson, type Json, jsonSchema } from './json.js';

const siteJson = (site: DiffSite | null): Json =>
  site === null
    ? null
    : {
        section: site.section,
        address: hex(site.address),
        offset: site.offset,
        shape: site.shape,
        state: site.state,
      };

/** A pair of images that were compared. @param names  of the files */
export function diffJson(names: { readonly old: string; readonly new: string }, diff: SitesDiff): Json {
  return {
    schema: jsonSchema,
    old: names.old,
    new: names.new,
    target: diff.target,
    sites: { ...diff.sites },
    functions: { ...diff.functions },
    unnamed: { ...diff.unnamed },
    same: diff.same,
    counts: { ...diff.counts },
    debug: { ...diff.debug },
    differences: diff.differences.map((each) => ({
      change: each.change,
      function: each.function,
      ...demangledJson(each.function),
      ...(each.source === '' ? {} : { source: each.source }),
      old: siteJson(each.old),
      new: siteJson(each.new),
      reason: each.reason === null ? null : { code: each.reason.code, names: [...each.reason.names] },
    })),
  };
}

/** Names that a line has room for. */
const FEW = 3;

function named(names: readonly string[]): string {
  const more = names.length > FEW ? ` and ${names.length - FEW} more` : '';
  return names.slice(0, FEW).join(', ') + more;
}

/** Why the image that lacks a function's site lacks it. @param isGained  it is the old one */
export function reasonText({ code, names }: DiffReason, isGained: boolean): string {
  const [was, begins] = isGained ? ['was', 'began'] : ['is', 'begins'];
  switch (code) {
    case 'untraced':
      return 'untraced, as the record says';
    case 'no-slot':
      return `it ${begins} as a site, and no table ${isGained ? 'named' : 'names'} it`;
    case 'notrace':
      return `notrace: in ${named(names)} it ${isGained ? 'began' : 'begins'} as no site`;
    case 'fewer-sites':
      return `it ${isGained ? 'had' : 'has'} fewer`;
    case 'split':
      return `the function ${was} ${named(names)}`;
    case 'inlined':
      return names.length === 0 ? `${was} inlined` : `${was} inlined into ${named(names)}`;
    case 'elsewhere':
      return `${was} in another file`;
    case 'section-discarded':
      return `the section ${named(names)} ${was} not there either`;
    case 'symbol-gone':
      return isGained ? 'had no symbol' : 'has no symbol';
    default:
      return code satisfies never;
  }
}

function differenceLine({ change, function: name, source, old: before, new: after, reason }: SiteDifference): string {
  const whose = source === '' ? name : `${name} (${source})`;
  const place = ({ section, offset }: DiffSite): string => `${section}, +${hex(BigInt(offset))}`;
  const form = ({ shape, state }: DiffSite): string => `${shape === '' ? 'no shape' : shape}, ${state}`;
  const what =
    before === null || after === null
      ? (reason && reasonText(reason, before === null)) || ''
      : change === 'moved'
        ? `${place(before)} -> ${place(after)}`
        : `${form(before)} -> ${form(after)}`;
  return `  ${change.padEnd(8)}${whose}${what === '' ? '' : `: ${what}`}`;
}

/** One pair in a line: `120 sites, then 118: 117 same, 2 lost, 1 gained`. */
export function diffSummary({ sites, same, counts, unnamed }: SitesDiff): string {
  const parts = Object.entries(counts).filter(([, count]) => count > 0);
  const told = [`${same} same`, ...parts.map(([change, count]) => `${count} ${change}`)];
  if (unnamed.old > 0 || unnamed.new > 0) {
    told.push(`not compared, as no function covers them: ${unnamed.old}, then ${unnamed.new}`);
  }
  return `${sites.old} sites, then ${sites.new}: ${told.join(', ')}`;
}

/** The differences, one a line, and which questions the files leave open. */
export function diffLines(diff: SitesDiff): string[] {
  const lines = diff.differences.map(differenceLine);
  for (const [side, change] of [
    ['new', 'lost'],
    ['old', 'gained'],
  ] as const) {
    const isOpen = diff.differences.some((each) => each.change === change && each.reason?.code === 'symbol-gone');
    const known = diff.debug[side];
    if (!isOpen || (known !== 'absent' && known !== 'damaged')) continue;
    const why = known === 'absent' ? `the ${side} file has no DWARF` : `DWARF of the ${side} file is damaged`;
    lines.push(`  note: which of the ${change} functions were inlined nobody can tell: ${why}`);
  }
  return lines;
}
