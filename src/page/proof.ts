/**
 * What `prove --json` said of the sites of an image, beside their rows. A proof that has no end, or
 * that names a place that is no site of the image, is an error: it is cut, or of another image.
 */
import { ElftraceError } from '../errors.js';
import { accountLines, isAccountText } from '../report/proof-account.js';
import { visibleLine } from '../visible.js';
import { type Column, unsigned } from './columns.js';
import type { PageProof, ProofColumn } from './model.js';
import type { Strings } from './strings.js';

type Line = Readonly<Record<string, unknown>>;

const verdicts: ReadonlySet<unknown> = new Set(['proved', 'different', 'inconclusive']);

function bad(line: number, why: string): ElftraceError {
  return new ElftraceError('bad-record', `line ${line} of the proof: ${why}`, { value: line });
}

function lineOf(text: string, line: number): Line {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw bad(line, 'no JSON, as prove --json writes');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw bad(line, 'no JSON object');
  return value as Line;
}

/** The account of a difference, as `prove` prints it; '' without one. */
function accountOf({ account }: Line, line: number): string {
  if (account === undefined) return '';
  // Earlier versions wrote no ways.
  if (typeof account === 'object' && account !== null && !('rows' in account)) return '';
  if (!isAccountText(account)) throw bad(line, 'an account that is not as prove --json writes it');
  return accountLines(account).join('\n');
}

/** Why a site has its verdict, in a few words. */
function whyOf({ trials, reason, detail, account }: Line): string {
  const told = account as { says?: unknown; difference?: Line } | undefined;
  // Earlier versions wrote no sentence.
  const what =
    typeof told?.says === 'string'
      ? [told.says]
      : Object.entries(told?.difference ?? {}).map(([key, value]) => `${key} ${String(value)}`);
  const parts = [
    ...(typeof reason === 'string' ? [reason] : []),
    ...(typeof detail === 'string' ? [detail] : []),
    ...(what.length > 0 ? [what.join(', ')] : []),
    `${String(trials)} trials${told === undefined ? '' : ' were equal before'}`,
  ];
  return parts.join('; ');
}

const counted = ['proved', 'unchanged', 'different', 'inconclusive', 'skipped'] as const;

/** The last line: counts, and what is left open. */
function summaryOf(summary: Line, line: number): Pick<PageProof, 'summary' | 'notices'> {
  const count = (key: string): number => {
    const value = summary[key];
    if (!Number.isSafeInteger(value)) throw bad(line, `the summary has no number of ${key}`);
    return value as number;
  };
  const { unexplained } = summary;
  if (!Array.isArray(unexplained)) throw bad(line, 'the summary does not say which changes belong to no site');
  const skipped = count('skipped');
  return {
    summary: `${count('sites')} sites: ${counted.map((key) => `${count(key)} ${key}`).join(', ')}`,
    notices: [
      ...(skipped > 0 ? [`${skipped} sites were not tried: nothing is proved as a whole`] : []),
      ...(unexplained.length > 0 ? [`${unexplained.length} changes belong to no site: nothing is proved of them`] : []),
    ],
  };
}

/**
 * A proof for a page.
 * @param rows  of sites of the image, by address in hexadecimal
 * @param count  rows of the page
 * @throws ElftraceError 'bad-record'
 */
export function pageProof(
  { name, text }: { readonly name: string; readonly text: string },
  strings: Strings,
  rows: ReadonlyMap<string, number>,
  count: number,
): { readonly proof: PageProof; readonly columns: Readonly<Record<ProofColumn, Column>> } {
  const [verdict, why, account] = Array.from({ length: 3 }, () => new Array<number>(count).fill(0)) as [
    number[],
    number[],
    number[],
  ];
  const probes: string[] = [];
  const lines = text.split('\n').flatMap((each, i) => (each === '' ? [] : [{ each, line: i + 1 }]));
  const last = lines.at(-1);
  for (const { each, line } of lines.slice(0, -1)) {
    const site = lineOf(each, line);
    if (!verdicts.has(site['verdict'])) throw bad(line, 'a site without a verdict that is known');
    const { section, shape, address } = site;
    const row = rows.get(typeof section === 'string' ? `${strings.line(section)} ${String(address)}` : String(address));
    if (row === undefined) {
      // Probes may be anywhere: those that are not at a site are told of beside the sites.
      if (typeof shape !== 'string' || !shape.startsWith('probe.')) {
        throw bad(line, `no site of the image is at ${String(address)}`);
      }
      probes.push(visibleLine(`${String(site['function'])}: ${shape}: ${String(site['verdict'])}: ${whyOf(site)}`));
      continue;
    }
    verdict[row] = strings.line(String(site['verdict']));
    why[row] = strings.line(whyOf(site));
    account[row] = strings.lines(accountOf(site, line));
  }
  const end = last === undefined ? undefined : lineOf(last.each, last.line)['summary'];
  if (last === undefined || typeof end !== 'object' || end === null) {
    throw bad(last?.line ?? 1, 'no summary: the proof has no end');
  }
  const { summary, notices } = summaryOf(end as Line, last.line);
  const image = visibleLine(String((end as Line)['file']));
  return {
    proof: { file: visibleLine(name), image, summary, notices: [...notices, ...probes] },
    columns: {
      'proof.verdict': unsigned(verdict),
      'proof.why': unsigned(why),
      'proof.account': unsigned(account),
    },
  };
}
