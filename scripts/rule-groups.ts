/**
 * Counts tests by the rule ids of the specification that their names carry, from the JSON report of
 * jest.
 *
 *   node build/scripts/rule-groups.js REPORT.json [--minimum FILE] [--required FILE] [--write FILE]
 *   [--counts FILE]
 *
 * --minimum FILE   lines `GROUP N` and `total N`: fails where fewer tests passed
 * --required FILE  lines `GROUP FIRST-LAST`: fails where an id of the range has no test that passed
 * --write FILE     writes such a file from this report
 * --counts FILE    writes `passed failed skipped`, for a shell
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
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
  /** Letters before the number: `P-ENC` of `P-ENC-3`. */
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
        for (const [id, group] of fullName.matchAll(
          /(?<![\w-])([ACFKMPRTX]-[A-Z][A-Z0-9]*)(?:-\d+[a-z]?)?(?![\w-])/g,
        )) {
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

/** What a report has less of than a file of minima asks for; that file may be missing. */
function belowMinimum(counts: Counts, file: string): readonly string[] {
  if (!existsSync(file)) return [];
  const found = new Map(counts.groups.map((group) => [group.name, group.tests]));
  found.set('total', counts.passed);
  const problems: string[] = [];
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const [name, minimum] = line.split(' ');
    if (name === undefined || minimum === undefined || name.startsWith('#')) continue;
    const tests = found.get(name) ?? 0;
    if (tests < Number(minimum)) problems.push(`${name}: ${String(tests)} tests, at least ${minimum} expected`);
  }
  return problems;
}

/** Ids that a file of ranges asks for and that no test has. */
export function missingIds(counts: Counts, ranges: string): readonly string[] {
  const found = new Set(counts.groups.flatMap(({ ids }) => [...ids]));
  const missing: string[] = [];
  for (const line of ranges.split('\n')) {
    const match = /^(\S+) (\d+)-(\d+)$/.exec(line);
    if (!match) continue;
    for (let id = Number(match[2]); id <= Number(match[3]); id++) {
      if (!found.has(`${match[1]!}-${id}`)) missing.push(`${match[1]!}-${id}: no test has this id`);
    }
  }
  return missing;
}

function main(args: readonly string[]): number {
  const option = (name: string): string | undefined => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);
  const path = args[0];
  if (path === undefined || path.startsWith('--')) {
    console.error('usage: rule-groups REPORT.json [--minimum FILE] [--required FILE] [--write FILE] [--counts FILE]');
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
  const written = option('--write');
  if (written !== undefined) {
    const lines = [
      ...counts.groups.map((group) => `${group.name} ${String(group.tests)}`),
      `total ${String(counts.passed)}`,
    ];
    writeFileSync(
      written,
      `# Tests that CI asks for at least, by rule group: written by scripts/rule-groups.ts.\n${lines.join('\n')}\n`,
    );
  }
  const minimum = option('--minimum');
  const problems = minimum === undefined ? [] : [...belowMinimum(counts, minimum)];
  const required = option('--required');
  if (required !== undefined) problems.push(...missingIds(counts, readFileSync(required, 'utf8')));
  for (const problem of problems) console.log(problem);
  return problems.length > 0 ? 1 : 0;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.exitCode = main(process.argv.slice(2));
}
