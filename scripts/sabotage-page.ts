/** The committed table of broken tools as `prove` sees them: docs/broken-tools.md. */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { Breakage } from './breakages.js';
import type { Judgement } from './sabotage-prove.js';

/** What became of one breakage. */
export interface SabotageRecord {
  readonly name: string;
  readonly said: Judgement;
  /** Where that was seen; empty: nowhere. */
  readonly image: string;
  /** Images that were tried at most. */
  readonly images: number | null;
}

/** Why it is right that files that are other ones are proved. */
const RIGHT: Readonly<Record<string, string>> = {
  'x86-64: ALLOC_TRAMP is not set': 'no code reads the flag: only the next session does',
  'the entries of the runtime do not give the condition register back':
    'fields that calls may change are dead at the entry of a function, and callbacks in C keep the others',
};

/** The strongest answer of several runs stands. */
const ORDER: readonly Judgement[] = ['found', 'refused', 'NOT FOUND', 'same'];

const SAID: Readonly<Record<Judgement, string>> = {
  found: 'found',
  refused: 'no file: the tool refuses',
  'NOT FOUND': 'proved',
  same: 'no file of those tried changes',
};

/** Columns of a page. */
const WIDTH = 100;

/** An item of a list, its lines as long as those of the other pages. */
function item(text: string): string {
  const lines = ['-'];
  for (const word of text.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`;
    if (longer.length <= WIDTH) lines[lines.length - 1] = longer;
    else lines.push(`  ${word}`);
  }
  return lines.join('\n');
}

export function keep(file: string, record: SabotageRecord): void {
  appendFileSync(file, `${JSON.stringify(record)}\n`);
}

function readRecords(file: string): ReadonlyMap<string, SabotageRecord> {
  const best = new Map<string, SabotageRecord>();
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
  for (const line of lines) {
    const record = JSON.parse(line) as SabotageRecord;
    const known = best.get(record.name);
    if (known === undefined || ORDER.indexOf(record.said) < ORDER.indexOf(known.said)) best.set(record.name, record);
  }
  return best;
}

/** The rows between the marks of the page, of the breakages that there are now. */
export function writePage(path: string, file: string, list: readonly Breakage[]): void {
  const records = readRecords(file);
  const asked = list.flatMap((each) => records.get(each.name) ?? []);
  const rows = asked
    .filter(({ said }) => said !== 'same')
    .sort((a, b) => ORDER.indexOf(a.said) - ORDER.indexOf(b.said))
    .map(({ name, said, image }) => {
      const why = said !== 'NOT FOUND' ? '' : `: ${RIGHT[name] ?? 'not explained'}`;
      return item(`${name} (${image}): ${SAID[said]}${why}`);
    });
  const rooms = new Map<string, number>();
  for (const each of list) {
    if (records.get(each.name)?.said !== 'same') continue;
    const room = each.file.split('/')[0]!;
    rooms.set(room, (rooms.get(room) ?? 0) + 1);
  }
  const same = [...rooms].map(([room, count]) => `| ${room} | ${count} |`);
  const head = `${list.length} breakages of code that may write files, ${asked.length} of them tried.`;
  const text = [
    `${head} In brackets: the image`,
    'in which the answer was seen.',
    '',
    ...[...rows, ''],
    ...['| room | no file of those tried changes |', '|---|---|', ...same],
  ].join('\n');
  const [mark, end] = ['<!-- rows -->', '<!-- end of rows -->'];
  const page = readFileSync(path, 'utf8');
  const [from, to] = [page.indexOf(mark) + mark.length, page.indexOf(end)];
  writeFileSync(path, `${page.slice(0, from)}\n\n${text}\n\n${page.slice(to)}`);
}
