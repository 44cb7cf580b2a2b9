/**
 * Every rule that a verification can break, with its page: the verdicts of sites, and what is said
 * of a file as a whole. `docs/verdicts.md` is made of them, and reports for machines link to it.
 */
import type { Severity, Verdict } from '../sites/verdicts.js';
import { rules } from './rules.js';
import { type VerdictPage, verdictPages } from './verdict-pages.js';
import { wrapped } from './wrapped.js';

/** Rules about files, with their severities. */
const filePages = {
  'no-sites': {
    meaning: 'The file has no patch site.',
    causes: ['It was compiled without ftrace, its table is gone, or it is not the file that was meant.'],
    advice: ['Compile with -pg, -mfentry or -fpatchable-function-entry, or name the section of the table (--table).'],
    rules: ['M-VAL-1'],
  },
  'no-functions': {
    meaning: 'Of most sites nobody knows the function.',
    causes: ['The file is stripped, or the symbols that were given are those of another file.'],
    advice: ['Give the symbols of the unstripped file (--symbols).'],
    rules: ['M-VAL-1'],
  },
  'unsaved-register': {
    meaning: 'A callback of a runtime object changes what the tracing entries do not save.',
    causes: ['Entries save general registers only; the compiler used vector or floating-point ones.'],
    advice: ['Compile callbacks with -mgeneral-regs-only, or define elftrace_vector_func.'],
    rules: ['C-FG-7'],
  },
  'record-mismatch': {
    meaning: 'The record of functions that no table names any more disagrees with the bytes.',
    causes: ['Something changed the file after elftrace did.'],
    advice: ['status says where; restore the bytes, or make the file anew.'],
    rules: ['RT-6'],
  },
  'unexpected-kind': {
    meaning: 'The file is not of what --expect names: of the kernel, or of user space.',
    causes: [
      'The folder is another one than was meant, or a build put host programs beside modules.',
      'Where nothing tells what an object is of, and its code has no patch site, it is not taken for what was expected.',
    ],
    advice: ['Name the files that are meant; info says what each one is.'],
    rules: [],
  },
  'required-share': {
    meaning: 'Fewer sites are good than --require asks for.',
    causes: ['The other rules of the same file say which sites are not good, and why.'],
    advice: ['Mend those sites, or ask for less.'],
    rules: ['M-VAL-1'],
  },
} as const satisfies Readonly<Record<string, VerdictPage>>;

/** What a finding, or a file, is named by in reports: a verdict, or a rule about files. */
export type RuleName = Exclude<Verdict, 'ok'> | keyof typeof filePages;

/** A rule as reports describe it. */
export interface RulePage extends VerdictPage {
  readonly name: RuleName;
  /** What the rule has unless --severity gives another. */
  readonly severity: Exclude<Severity, 'none'>;
}

/** @param severities  those of the verdicts: the table that `verify` judges by */
export function rulePages(severities: Readonly<Record<Verdict, Severity>>): readonly RulePage[] {
  const { ok: _, ...pages } = verdictPages;
  const ofSites = Object.entries(pages).map(([name, page]) => {
    const severity = severities[name as Verdict];
    return { name: name as RuleName, severity: severity === 'none' ? 'note' : severity, ...page } as const;
  });
  const ofFiles = Object.entries(filePages).map(
    ([name, page]) => ({ name: name as RuleName, severity: 'error', ...page }) as const,
  );
  return [...ofSites, ...ofFiles];
}

/** `docs/verdicts.md`: a section for each rule, whose anchor is the name of the rule. */
export function verdictsPage(pages: readonly RulePage[]): string {
  const sections = pages.map(({ name, severity, meaning, causes, advice, rules: clauses }) => {
    const cited = clauses.map((id) => `- ${id}${rules[id] === undefined ? '' : `: ${rules[id]}`}`);
    const parts = [`## ${name}`, `Severity: ${severity}.`, meaning, ...causes, ...advice, cited.join('\n')];
    return parts.map(wrapped).join('\n\n');
  });
  return `${[
    '# What verify finds',
    wrapped(
      'A section for each rule. `elftrace explain NAME` prints the same of a verdict; `verify --format sarif` links here.',
    ),
    ...sections,
  ].join('\n\n')}\n`;
}
