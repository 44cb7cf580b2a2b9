/** The committed table of mutants: docs/mutants.md. scripts/mutants.ts makes its rows. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mutantArguments } from './mutant-arguments.js';
import type { ObjectRow } from './mutant-table.js';
import { root } from './pipeline.js';

const path = join(root, 'docs', 'mutants.md');
const BEGIN = '<!-- rows -->';
const END = '<!-- end of rows -->';

/** Rows of the page, by object. */
export function readRows(): Record<string, ObjectRow> {
  const text = readFileSync(path, 'utf8');
  const rows: Record<string, ObjectRow> = {};
  for (const line of text.slice(text.indexOf(BEGIN), text.indexOf(END)).split('\n')) {
    const cells = line.split('|').map((cell) => cell.trim());
    if (cells.length < 10 || !/^\d/.test(cells[2]!)) continue;
    const [, object, made, found, open, alike, argued, bare, idle] = cells as [string, string, ...string[]];
    const counts = argued === '' ? [] : argued!.split(', ').map((each) => each.split(': ') as [string, string]);
    rows[object] = {
      ...{
        made: Number(made),
        found: Number(found),
        open: Number(open),
        alike: Number(alike),
        bare: Number(bare),
        idle: Number(idle),
      },
      argued: Object.fromEntries(counts.map(([name, count]) => [name, Number(count)])),
    };
  }
  return rows;
}

/** Puts rows into the page; those of other objects stay. */
export function writeRows(rows: Readonly<Record<string, ObjectRow>>): void {
  const text = readFileSync(path, 'utf8');
  const all = Object.entries({ ...readRows(), ...rows }).sort(([a], [b]) => (a < b ? -1 : 1));
  const lines = all.map(([object, { made, found, open, alike, argued, bare, idle }]) => {
    const counts = Object.entries(argued)
      .sort()
      .map(([name, count]) => `${name}: ${String(count)}`);
    return `| ${[object, made, found, open, alike, counts.join(', '), bare, idle].join(' | ')} |`;
  });
  const used = new Set(all.flatMap(([, { argued }]) => Object.keys(argued)));
  const head = ['| object | made | found | open | alike | argued | bare | idle |', '|---|---|---|---|---|---|---|---|'];
  const seen = new Set<string>();
  const why = mutantArguments.flatMap(({ name, why: text }) => {
    if (!used.has(name) || seen.has(name)) return [];
    seen.add(name);
    return [`* **${name}**: ${text}`];
  });
  const page = [BEGIN, '', ...head, ...lines, '', ...why, '', END].join('\n');
  writeFileSync(path, text.slice(0, text.indexOf(BEGIN)) + page + text.slice(text.indexOf(END) + END.length));
}
