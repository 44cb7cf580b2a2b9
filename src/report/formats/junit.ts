/**
 * JUnit XML as Jenkins, GitLab and others read it: a suite for each file, in it a case for each
 * rule that can fail, so that the history of a rule in a file can be followed.
 */
import { visibleLine } from '../../visible.js';
import {
  type FileReport,
  groupText,
  type ReportContext,
  type ReportWriter,
  type RuleGroup,
  type RunReport,
  siteText,
} from './model.js';

/** Text for XML 1.0: no character that it has no place for. */
function xml(text: string): string {
  return visibleLine(text)
    .replace(/[\ufffe\uffff]/g, '\ufffd')
    .replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

type Outcome = 'passed' | 'failed' | 'error' | 'skipped';

interface Case {
  readonly name: string;
  readonly outcome: Outcome;
  readonly lines: readonly string[];
}

function caseOf(rule: string, group: RuleGroup | undefined): Case {
  if (group === undefined) return { name: rule, outcome: 'passed', lines: [] };
  const { count, clauses, sites } = group;
  const rest = count - sites.length;
  const more = sites.length === 0 || rest === 0 ? [] : [`and ${rest} more`];
  const why = clauses.length === 0 ? [] : [`rules of the specification: ${clauses.join(', ')}`];
  return {
    name: rule,
    outcome: group.fails ? 'failed' : 'passed',
    lines: [groupText(group), ...sites.map(siteText), ...more, ...why],
  };
}

/** The cases of a file. Those of a file that was not judged: one. */
export function casesOf(file: FileReport, rules: readonly string[]): readonly Case[] {
  if (file.error !== null) {
    return [{ name: 'read', outcome: 'error', lines: [file.error.message, `[${file.error.code}]`] }];
  }
  const told = file.groups.filter(({ severity }) => severity !== 'note');
  const groups = new Map<string, RuleGroup>(told.map((group) => [group.rule, group]));
  if (file.noSites !== null && groups.size === 0) {
    return [{ name: 'sites', outcome: 'skipped', lines: [file.noSites] }];
  }
  const names = new Set([...rules, ...groups.keys()]);
  return [...names].map((rule) => caseOf(rule, groups.get(rule)));
}

/** Rules about files that fail them only where the command line asks. */
const onRequest: readonly string[] = ['no-sites', 'required-share', 'unexpected-kind'];

/** Rules that make files fail by default: each is a case. */
export function failingRules({ pages }: ReportContext): readonly string[] {
  return pages.filter(({ name, severity }) => severity !== 'note' && !onRequest.includes(name)).map(({ name }) => name);
}

const ELEMENTS = { failed: 'failure', error: 'error', skipped: 'skipped', passed: 'system-out' } as const;

/** A report of the format; see the head of this file. */
export class JunitWriter implements ReportWriter {
  readonly #rules: readonly string[];

  constructor(private readonly context: ReportContext) {
    this.#rules = failingRules(context);
  }

  begin(): void {
    this.context.print('<?xml version="1.0" encoding="UTF-8"?>');
    this.context.print('<testsuites name="elftrace verify">');
  }

  path(_name: string, files: readonly FileReport[]): void {
    for (const file of files) this.#suite(file.name, file.path, casesOf(file, this.#rules));
  }

  #suite(name: string, path: string, cases: readonly Case[]): void {
    const { print } = this.context;
    const count = (wanted: Outcome): number => cases.filter(({ outcome }) => outcome === wanted).length;
    print(
      `<testsuite name="${xml(name)}" tests="${cases.length}" failures="${count('failed')}" errors="${count('error')}" skipped="${count('skipped')}" file="${xml(this.context.location(path).path)}">`,
    );
    for (const { name: rule, outcome, lines } of cases) {
      const head = `<testcase classname="${xml(name)}" name="${xml(rule)}"`;
      if (outcome === 'passed' && lines.length === 0) {
        print(`${head}/>`);
        continue;
      }
      const element = ELEMENTS[outcome];
      const attributes = outcome === 'passed' ? '' : ` message="${xml(lines[0] ?? '')}" type="${xml(rule)}"`;
      print(`${head}><${element}${attributes}>`);
      for (const line of lines) print(xml(line));
      print(`</${element}></testcase>`);
    }
    print('</testsuite>');
  }

  end(run: RunReport): void {
    const outcome = run.nothing === null ? 'passed' : 'failed';
    const lines = run.nothing === null ? [] : [run.nothing];
    this.#suite('elftrace verify', '.', [{ name: 'some file has patch sites', outcome, lines }]);
    this.context.print('</testsuites>');
  }
}
