/** The committed table of mutants: docs/mutants.md. scripts/mutants.ts makes its rows. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mutantArguments } from './mutant-arguments.js';
import type { FunctionRow, ObjectRow } from './mutant-table.js';
import { root } from './pipeline.js';

const path = join(root, 'docs', 'mutants.md');
const BEGIN = '<!-- rows -->';
const END = '<!-- end of rows -->';
const LEFT = 'What is left, by function, each mutant once however many objects have it:';

/** Rows of the page, by object. */
export function readRows(): Record<string, ObjectRow> {
  const text = readFileSync(path, 'utf8');
  const rows: Record<string, ObjectRow> = {};
  const argued: Record<string, Record<string, number>> = {};
  for (const line of text.slice(text.indexOf(BEGIN), text.indexOf(END)).split('\n')) {
    const cells = line.split('|').map((cell) => cell.trim());
    const [, object, made, found, open, alike, , drawn, bare, idle] = cells as [string, string, ...string[]];
    // A row of the second table: object, argument, count.
    if (cells.length === 5 && /^\d/.test(found!)) (argued[object] ??= {})[made!] = Number(found);
    if (cells.length < 11 || !/^\d/.test(made!)) continue;
    rows[object] = {
      ...{
        made: Number(made),
        found: Number(found),
        open: Number(open),
        alike: Number(alike),
        drawn: Number(drawn),
        bare: Number(bare),
        idle: Number(idle),
      },
      argued: {},
    };
  }
  return Object.fromEntries(Object.entries(rows).map(([name, row]) => [name, { ...row, argued: argued[name] ?? {} }]));
}

/**
 * Puts rows into the page; those of other objects stay. What is left by function is counted over
 * all objects: where some are missing, that table stays.
 */
export function writeRows(rows: Readonly<Record<string, ObjectRow>>, functions: readonly FunctionRow[]): void {
  const text = readFileSync(path, 'utf8');
  const before = readRows();
  const isWhole = Object.keys(before).every((object) => object in rows);
  const all = Object.entries({ ...before, ...rows }).sort(([a], [b]) => (a < b ? -1 : 1));
  const lines = all.map(([object, { made, found, open, alike, argued, drawn, bare, idle }]) => {
    const count = Object.values(argued).reduce((sum, each) => sum + each, 0);
    return `| ${[object, made, found, open, alike, count, drawn, bare, idle].join(' | ')} |`;
  });
  const counts = all.flatMap(([object, { argued }]) =>
    Object.entries(argued)
      .sort()
      .map(([name, count]) => `| ${object} | ${name} | ${String(count)} |`),
  );
  const from = text.indexOf(LEFT);
  const left = [
    '',
    LEFT,
    '',
    '| function | open | bare | idle |',
    '|---|---|---|---|',
    ...functions.map(({ name, open, bare, idle }) => `| ${[name, open, bare, idle].join(' | ')} |`),
  ];
  const stays = ['', text.slice(from, text.indexOf(END)).trimEnd()];
  const used = new Set(all.flatMap(([, { argued }]) => Object.keys(argued)));
  const head = [
    '| object | made | found | open | alike | argued | drawn | bare | idle |',
    '|---|---|---|---|---|---|---|---|---|',
  ];
  const second = ['', '| object | argument | mutants |', '|---|---|---|'];
  const seen = new Set<string>();
  const why = mutantArguments.flatMap(({ name, why: text }) => {
    if (!used.has(name) || seen.has(name)) return [];
    seen.add(name);
    return [`* **${name}**: ${text}`];
  });
  const page = [
    BEGIN,
    '',
    ...head,
    ...lines,
    ...second,
    ...counts,
    '',
    ...why,
    ...(isWhole ? left : stays),
    '',
    END,
  ].join('\n');
  writeFileSync(path, text.slice(0, text.indexOf(BEGIN)) + page + text.slice(text.indexOf(END) + END.length));
}
