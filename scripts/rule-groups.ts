/**
 * Counts tests by the rule ids of the specification that their names carry, from the JSON report of
 * jest.
 *
 *   node build/scripts/rule-groups.js REPORT.json [--required FOLDER] [--counts FILE]
 *
 * --required FOLDER  pages that define rules (docs/spec): fails where a rule that a source thread
 *                    states (T-…) has no test that passed
 * --counts FILE      writes `passed failed skipped`, for a shell
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

interface Assertion {
  readonly ancestorTitles: readonly string[];
  readonly title: string;
  readonly status: string;
}

interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly Assertion[];
  }[];
}

export interface Group {
  /** Letters before the number: `P-ENC` of `P-ENC-3`, `T` of `T-4`. */
  readonly name: string;
  /** Tests that passed. */
  readonly tests: number;
  /** Distinct ids of the group among them. */
  readonly ids: ReadonlySet<string>;
}

export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly groups: readonly Group[];
  /** Names of tests that did not run. */
  readonly skippedNames: readonly string[];
}

/** Reads a report: a file that could not be loaded counts as one failed test. */
export function countTests(report: Report): Counts {
  let passed = 0;
  let failed = 0;
  const skippedNames: string[] = [];
  const groups = new Map<string, { tests: number; ids: Set<string> }>();
  for (const file of report.testResults) {
    if (file.assertionResults.length === 0 && file.status === 'failed') failed++;
    for (const { ancestorTitles, title, status } of file.assertionResults) {
      // The ids of a describe block hold for each test in it.
      const fullName = [...ancestorTitles, title].join(' ');
      if (status === 'failed') {
        failed++;
      } else if (status !== 'passed') {
        skippedNames.push(fullName);
      } else {
        passed++;
        const seen = new Set<string>();
        for (const [id, letters, letter] of fullName.matchAll(
          /(?<![\w-])(?:([ACFKMPRTX]-[A-Z][A-Z0-9]*)(?:-\d+[a-z]?)?|(RT|F|T|X)-\d+)(?![\w-])/g,
        )) {
          const group = letters ?? letter;
          if (group === undefined) continue;
          const entry = groups.get(group) ?? { tests: 0, ids: new Set<string>() };
          groups.set(group, entry);
          entry.ids.add(id);
          if (!seen.has(group)) entry.tests++;
          seen.add(group);
        }
      }
    }
  }
  const rows = [...groups].map(([name, { tests, ids }]) => ({ name, tests, ids }));
  rows.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { passed, failed, skipped: skippedNames.length, groups: rows, skippedNames };
}

/** Ids that the pages of a folder define, in lines `- **ID** what the rule says`. */
export function definedIds(folder: string): readonly string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.md'))
    .sort()
    .flatMap((page) =>
      [...readFileSync(join(folder, page), 'utf8').matchAll(/^- \*\*(\S+)\*\* \S/gm)].map(([, id = '']) => id),
    );
}

/** Of the rules that the source threads state, those that no test shows. */
export function missingIds(counts: Counts, defined: readonly string[]): readonly string[] {
  const shown = new Set(counts.groups.flatMap(({ ids }) => [...ids]));
  return defined.filter((id) => id.startsWith('T-') && !shown.has(id)).map((id) => `${id}: no test has this id`);
}

function main(args: readonly string[]): number {
  const option = (name: string): string | undefined => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);
  const path = args[0];
  if (path === undefined || path.startsWith('--')) {
    console.error('usage: rule-groups REPORT.json [--required FOLDER] [--counts FILE]');
    return 2;
  }
  const report: Report = JSON.parse(readFileSync(path, 'utf8'));
  const counts = countTests(report);
  console.log('tests by rule group:');
  for (const group of counts.groups) {
    console.log(
      `  ${group.name.padEnd(10)} ${String(group.tests).padStart(5)} tests, ${String(group.ids.size).padStart(3)} ids`,
    );
  }
  for (const name of counts.skippedNames) console.log(`skipped: ${name}`);
  const counted = option('--counts');
  if (counted !== undefined) {
    writeFileSync(counted, `${String(counts.passed)} ${String(counts.failed)} ${String(counts.skipped)}\n`);
  }
  const required = option('--required');
  const problems = required === undefined ? [] : missingIds(counts, definedIds(required));
  for (const problem of problems) console.log(problem);
  return problems.length > 0 ? 1 : 0;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.exitCode = main(process.argv.slice(2));
}
