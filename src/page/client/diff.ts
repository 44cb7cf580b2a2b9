/** The table of differences. */
import type { PageDiff } from '../model.js';
import { type Data, ranksOf } from './data.js';
import { el } from './dom.js';
import { Table, type TableColumn, widthOf } from './table.js';

export function diffSection(data: Data, diff: PageDiff): { element: HTMLElement; mount: () => void } {
  const texts = (title: string, key: string, most: number, show = data.text): TableColumn => {
    const column = data.column(key);
    const width = widthOf([...new Set(column)].map(show), title.length * 8 + 22, most); // prettier-ignore
    let ranks: Float64Array | null = null;
    return {
      title,
      width,
      grow: 0,
      text: (row) => show(column[row]!),
      compare: (a, b) => {
        ranks ??= ranksOf(column, show);
        return ranks[a]! - ranks[b]!;
      },
    };
  };
  const columns = [
    texts('Change', 'diff.change', 120),
    { ...texts('Function', 'diff.function', 300, data.name), grow: 1 },
    texts('Reason', 'diff.reason', 380),
    texts('Before', 'diff.before', 260),
    texts('After', 'diff.after', 260),
    { ...texts('File', 'diff.file', 240), grow: 1 },
  ];
  const table = new Table('diff', 'Differences', columns, () => undefined, () => undefined); // prettier-ignore
  const rows = data.column('diff.change').length;
  const element = el(
    'section',
    { id: 'diff', 'aria-labelledby': 'diff-title' },
    el('h2', { id: 'diff-title' }, 'Differences'),
    el('p', {}, `${diff.old} -> ${diff.new}: ${diff.summary}.`),
    ...(diff.notices.length > 0 ? [el('ul', {}, ...diff.notices.map((each) => el('li', {}, each)))] : []),
    ...(rows > 0 ? [table.element, table.print] : []),
  );
  const mount = (): void => {
    if (rows === 0) return;
    table.mount();
    table.set(Int32Array.from({ length: rows }, (_, i) => i));
  };
  return { element, mount };
}
