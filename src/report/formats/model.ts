/**
 * What a report for machines is made of: one record for each file, of a size that does not grow
 * with the number of findings. Writers get them one path after another and keep none.
 */
import type { Finding } from '../../sites/verdicts.js';
import type { Json } from '../json.js';
import type { RuleName, RulePage } from '../rule-pages.js';

/** Findings of a group that are told one by one. */
const SHOWN_SITES = 20;

export interface ReportedSite {
  readonly section: string;
  readonly address: bigint;
  /** Offset in the section. */
  readonly offset: bigint;
  /** Function with offset, '' when none covers the site. */
  readonly function: string;
  readonly message: string;
}

/** All findings of one rule in one file. */
export interface RuleGroup {
  readonly rule: RuleName;
  readonly severity: 'error' | 'warning' | 'note';
  /** True when the file is not good because of them. */
  readonly fails: boolean;
  readonly count: number;
  /** Rules of the specification that they follow. */
  readonly clauses: readonly string[];
  /** What is said of the first. */
  readonly message: string;
  /** The first ones, at most SHOWN_SITES; empty for what is said of the whole file. */
  readonly sites: readonly ReportedSite[];
}

export interface FileReport {
  /** As messages name it: with the member of an archive. */
  readonly name: string;
  /** The file on disk. */
  readonly path: string;
  readonly sites: number;
  readonly groups: readonly RuleGroup[];
  readonly remarks: readonly string[];
  /** Why nothing was judged; null when it was. */
  readonly error: { readonly code: string; readonly message: string; readonly exit: number } | null;
  /** Why it has no site; null when it has some. */
  readonly noSites: string | null;
}

/** Of the whole run, when every path was looked at or the time was over. */
export interface RunReport {
  readonly files: number;
  readonly failed: number;
  readonly sites: number;
  readonly verdicts: Readonly<Record<string, number>>;
  readonly exit: number;
  /** Why nothing was found in all of the files; null otherwise. */
  readonly nothing: string | null;
}

/** What writers need to know of their surroundings. */
export interface ReportContext {
  readonly version: string;
  readonly pages: readonly RulePage[];
  /** Location of a file for readers: relative to where the command runs when it lies below. */
  readonly location: (path: string) => { readonly uri: string; readonly path: string };
  /** Hexadecimal SHA-256 of text. */
  readonly hash: (text: string) => string;
  readonly print: (line: string) => void;
}

/** A report that is written while files are judged. */
export interface ReportWriter {
  /** @param paths  how many will be looked at */
  begin(paths: number): void;
  /** Files of one path: several of an archive. `json` are those of `verify --json`, in order. */
  path(name: string, files: readonly FileReport[], json: readonly Json[]): void;
  end(run: RunReport): void;
}

/** Findings by rule, in the order of the first one of each. `fails`: what makes a file fail. */
export function groupFindings(
  findings: readonly Finding[],
  fails: (severity: RuleGroup['severity']) => boolean,
): RuleGroup[] {
  const groups = new Map<string, Finding[]>();
  const counts = new Map<string, number>();
  const clauses = new Map<string, Set<string>>();
  for (const finding of findings) {
    const { verdict, rule } = finding;
    if (!groups.has(verdict)) {
      groups.set(verdict, []);
      clauses.set(verdict, new Set());
    }
    counts.set(verdict, (counts.get(verdict) ?? 0) + 1);
    if (rule !== '') clauses.get(verdict)!.add(rule);
    if (groups.get(verdict)!.length < SHOWN_SITES) groups.get(verdict)!.push(finding);
  }
  return [...groups].map(([verdict, shown]) => {
    const severity = shown[0]!.severity as RuleGroup['severity'];
    return {
      rule: verdict as RuleName,
      severity,
      fails: fails(severity),
      count: counts.get(verdict)!,
      clauses: [...clauses.get(verdict)!],
      message: shown[0]!.message,
      sites: shown.map(({ section, address, offset, function: name, message }) => ({
        section,
        address,
        offset,
        function: name,
        message,
      })),
    };
  });
}

/** A group that is about the file. */
export function fileGroup(rule: RuleName, message: string, clauses: readonly string[] = []): RuleGroup {
  return { rule, severity: 'error', fails: true, count: 1, clauses, message, sites: [] };
}

/** `.text+0x10 (main+0x4): what is wrong`. */
export function siteText({ section, offset, function: name, message }: ReportedSite): string {
  return `${section}+0x${offset.toString(16)}${name === '' ? '' : ` (${name})`}: ${message}`;
}

/** What people read of a group: one line. */
export function groupText({ count, message, sites: [first] }: RuleGroup): string {
  if (first === undefined) return message;
  return `${count} ${count === 1 ? 'site' : 'sites'}, ${count === 1 ? 'at' : 'the first at'} ${siteText(first)}`;
}
