/**
 * The committed table of proofs of kernels that distributions ship: docs/proofs.md.
 * scripts/soak-prove.ts finds what it says.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './pipeline.js';

type Counted = Readonly<Record<string, number>>;

/** What became of one patch of one file. */
export interface ProofRecord {
  /** Version of the tool. */
  readonly tool: string;
  readonly target: string;
  /** Of the kernel. */
  readonly release: string;
  readonly kind: 'vmlinux' | 'modules';
  readonly file: string;
  /** The request, as the command line has it. */
  readonly way: string;
  readonly sites: Readonly<Record<'proved' | 'unchanged' | 'different' | 'inconclusive', number>>;
  /** Why sites are inconclusive. */
  readonly reasons: Counted;
  /** Sites that the plan refuses, by code: they stay as they are. */
  readonly left: Counted;
  /** Why nothing of the file was tried; null: it was. */
  readonly refused: string | null;
  /** Of CPU time: patch, proof and revert. */
  readonly seconds: number;
}

/** Files of one kernel that one request was made of. */
export interface Row extends Pick<ProofRecord, 'tool' | 'target' | 'release' | 'kind' | 'way' | 'sites' | 'seconds'> {
  /** Files of which something was tried. */
  readonly files: number;
  readonly reasons: Counted;
  readonly left: Counted;
  /** Files of which nothing was, by why. */
  readonly refused: Counted;
}

/** Records as they are kept: one a line. */
export const readRecords = (text: string): ProofRecord[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ProofRecord);

const sum = (a: Counted, b: Counted): Counted => {
  const all: Record<string, number> = { ...a };
  for (const [key, count] of Object.entries(b)) all[key] = (all[key] ?? 0) + count;
  return all;
};

/** One row for each kernel, kind of file and request. */
export function proofRows(records: readonly ProofRecord[]): Row[] {
  const rows = new Map<string, Row>();
  for (const { tool, target, release, kind, way, sites, reasons, left, refused, seconds } of records) {
    const key = JSON.stringify([target, release, kind, way, tool]);
    const nothing = { proved: 0, unchanged: 0, different: 0, inconclusive: 0 };
    const empty: Row = {
      ...{ tool, target, release, kind, way, sites: nothing, seconds: 0 },
      ...{ files: 0, reasons: {}, left: {}, refused: {} },
    };
    const row = rows.get(key) ?? empty;
    rows.set(key, {
      ...row,
      files: row.files + (refused === null ? 1 : 0),
      sites: sum(row.sites, sites) as Row['sites'],
      reasons: sum(row.reasons, reasons),
      left: sum(row.left, left),
      refused: refused === null ? row.refused : sum(row.refused, { [refused]: 1 }),
      seconds: row.seconds + seconds,
    });
  }
  const order = ({ target, release, kind }: Row): string => `${target} ${kind === 'vmlinux' ? 0 : 1} ${release}`;
  // Requests stay in the order in which they are made.
  return [...rows.values()].sort((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0));
}

const path = join(root, 'docs', 'proofs.md');
const BEGIN = '<!-- rows -->';
const END = '<!-- end of rows -->';

/** Counts in words. */
const list = (counts: Counted): string =>
  Object.entries(counts)
    .sort()
    .map(([what, count]) => `${what}: ${count}`)
    .join(', ') || 'none';

/** Rows as the page has them: a table for each kernel. */
export function rowLines(rows: readonly Row[]): string[] {
  const lines: string[] = [];
  const kernels = new Map<string, Row[]>();
  for (const row of rows) {
    const name = `${row.target}, Linux ${row.release}, elftrace ${row.tool}`;
    kernels.set(name, [...(kernels.get(name) ?? []), row]);
  }
  for (const [name, own] of kernels) {
    lines.push(`## ${name}`, '');
    lines.push('| of | request | files | proved | unchanged | different | inconclusive |');
    lines.push('|---|---|---|---|---|---|---|');
    for (const { kind, way, files, sites, reasons } of own) {
      const { proved, unchanged, different, inconclusive } = sites;
      const open = inconclusive === 0 && Object.keys(reasons).length === 0 ? '0' : `${inconclusive} (${list(reasons)})`;
      lines.push(`| ${[kind, way, files, proved, unchanged, different, open].join(' | ')} |`);
    }
    lines.push('');
    const notes = own.filter(({ left, refused }) => Object.keys(left).length + Object.keys(refused).length > 0);
    if (notes.length === 0) continue;
    lines.push('| not tried, of | request | files | sites |', '|---|---|---|---|');
    for (const { kind, way, left, refused } of notes)
      lines.push(`| ${[kind, way, list(refused), list(left)].join(' | ')} |`);
    lines.push('');
  }
  return lines.slice(0, -1);
}

/** Puts what was found into the page, in place of what stands there. */
export function writeProofsPage(records: readonly ProofRecord[]): void {
  const text = readFileSync(path, 'utf8');
  const page = [BEGIN, '', ...rowLines(proofRows(records)), '', END].join('\n');
  writeFileSync(path, text.slice(0, text.indexOf(BEGIN)) + page + text.slice(text.indexOf(END) + END.length));
}
