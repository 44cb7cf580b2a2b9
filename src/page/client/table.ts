/**
 * A table of which only the rows in sight exist: searchable from outside, sorted by its heads,
 * walked by keys. The window over the rows is TanStack Virtual's.
 */
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core';
import { button, el } from './dom.js';

export interface TableColumn {
  readonly title: string;
  /** Least width in pixels. */
  readonly width: number;
  /** Part of what is left over; 0: the column never grows. */
  readonly grow: number;
  readonly text: (row: number) => string;
  /** Numbers stand at the right. */
  readonly isNumber?: boolean;
  /** Class of a cell. */
  readonly mark?: (row: number) => string;
  /** Negative: the first row comes first. */
  readonly compare: (a: number, b: number) => number;
}

const ROW = 26;
/** A letter in pixels, of the widest fonts that systems have. */
const LETTER = 8.6;
const HEAD = 32;
/** Room for a bar that moves the columns, and the border. */
const BELOW = 18;
/** Rows that are printed. */
const PRINTED = 2000;

/** Pixels that the longest of these texts takes in a cell, between a least and a most. */
export function widthOf(texts: Iterable<string>, least: number, most: number): number {
  let longest = 0;
  for (const each of texts) longest = Math.max(longest, each.length);
  return Math.min(most, Math.max(least, Math.ceil(longest * LETTER) + 18));
}

export class Table {
  readonly element: HTMLElement;
  /** What is printed in its place. */
  readonly print = el('div', { class: 'print' });
  private rows: Int32Array = new Int32Array(0);
  private active = -1;
  /** Most rows that were shown: a filter does not move what is below the table. */
  private most = 0;
  private sorted: { readonly column: number; readonly up: boolean } | null = null;
  private readonly body = el('div', { role: 'rowgroup', class: 'body' });
  private readonly heads: HTMLElement[];
  private readonly shown = new Map<number, HTMLElement>();
  private readonly virtual: Virtualizer<HTMLElement, HTMLElement>;

  /**
   * @param name    unique in the page
   * @param picked  told of the row that is walked or clicked on
   * @param opened  told of the row on which Enter is pressed
   */
  constructor(
    private readonly name: string,
    label: string,
    private readonly columns: readonly TableColumn[],
    private readonly picked: (row: number) => void,
    private readonly opened: () => void,
  ) {
    this.heads = columns.map(({ title, isNumber = false }, i) =>
      el('div', { role: 'columnheader', class: isNumber ? 'number' : '', 'aria-sort': 'none', 'aria-colindex': i + 1 }, button(title, () => { this.sortBy(i); })),
    ); // prettier-ignore
    const head = el('div', { role: 'row', class: 'row', 'aria-rowindex': 1 }, ...this.heads);
    this.lay(head);
    this.element = el(
      'div',
      { role: 'grid', class: 'grid', tabindex: 0, 'aria-label': label, 'aria-colcount': columns.length },
      el('div', { role: 'rowgroup', class: 'head' }, head),
      this.body,
    );
    this.element.addEventListener('keydown', (event) => { this.key(event); }); // prettier-ignore
    this.virtual = new Virtualizer<HTMLElement, HTMLElement>(this.options());
    window.addEventListener('beforeprint', () => { this.fillPrint(); }); // prettier-ignore
    window.addEventListener('afterprint', () => { this.print.replaceChildren(); }); // prettier-ignore
  }

  /** To be called once, when the element is in the page. */
  mount(): void {
    this.virtual._didMount();
    this.refresh();
  }

  private options() {
    return {
      count: this.rows.length,
      getScrollElement: () => this.element,
      estimateSize: () => ROW,
      overscan: 12,
      scrollMargin: HEAD,
      scrollPaddingStart: HEAD,
      scrollToFn: elementScroll,
      observeElementRect,
      observeElementOffset,
      onChange: () => {
        this.draw();
      },
    };
  }

  /** Shows other rows, in the order that was asked for. */
  set(rows: Int32Array): void {
    const row = this.rows[this.active] ?? -1;
    this.rows = this.inOrder(rows);
    this.active = row < 0 ? -1 : this.rows.indexOf(row);
    this.element.scrollTop = 0;
    this.refresh();
  }

  private refresh(): void {
    this.virtual.setOptions(this.options());
    this.virtual._willUpdate();
    this.element.setAttribute('aria-rowcount', String(this.rows.length + 1));
    this.body.style.height = `${this.virtual.getTotalSize()}px`;
    this.most = Math.max(this.most, this.rows.length);
    this.element.style.height = `${HEAD + this.most * ROW + BELOW}px`;
    for (const each of this.shown.values()) each.remove();
    this.shown.clear();
    this.draw();
  }

  private inOrder(rows: Int32Array): Int32Array {
    if (this.sorted === null) return rows;
    const { column, up } = this.sorted;
    const { compare } = this.columns[column]!;
    return rows.slice().sort((a, b) => (up ? compare(a, b) : compare(b, a)) || a - b);
  }

  private sortBy(column: number): void {
    this.sorted = { column, up: this.sorted?.column === column ? !this.sorted.up : true };
    this.heads.forEach((head, i) => {
      const order = i !== column ? 'none' : this.sorted!.up ? 'ascending' : 'descending';
      head.setAttribute('aria-sort', order);
      const mark = i !== column ? '' : this.sorted!.up ? ' ▲' : ' ▼';
      head.firstElementChild!.textContent = this.columns[i]!.title + mark;
    });
    this.set(this.rows);
  }

  private draw(): void {
    const items = this.virtual.getVirtualItems();
    const wanted = new Set(items.map(({ index }) => index));
    for (const [index, row] of this.shown) {
      if (wanted.has(index)) continue;
      row.remove();
      this.shown.delete(index);
    }
    for (const { index, start } of items) {
      if (this.shown.has(index) || index >= this.rows.length) continue;
      const row = this.row(index);
      row.style.transform = `translateY(${start - HEAD}px)`;
      this.shown.set(index, row);
      this.body.append(row);
    }
  }

  /** Heads and rows have the same tracks. */
  private lay(row: HTMLElement): void {
    const tracks = this.columns.map(({ width, grow }) => (grow > 0 ? `minmax(${width}px,${grow}fr)` : `${width}px`));
    row.style.gridTemplateColumns = tracks.join(' ');
    row.style.minWidth = `${this.columns.reduce((sum, { width }) => sum + width, 0)}px`;
  }

  private row(index: number): HTMLElement {
    const row = this.rows[index]!;
    const made = el(
      'div',
      {
        role: 'row',
        class: 'row',
        id: `${this.name}-${index}`,
        'aria-rowindex': index + 2,
        'aria-selected': String(index === this.active),
      },
      ...this.columns.map(({ text, mark, isNumber = false }) => {
        const shown = text(row);
        return el('div', { role: 'gridcell', class: isNumber ? 'number' : (mark?.(row) ?? ''), title: shown }, shown);
      }),
    );
    this.lay(made);
    made.addEventListener('click', () => { this.pick(index); }); // prettier-ignore
    return made;
  }

  /** Makes a row of those that are shown the active one. */
  pick(index: number): void {
    if (index < 0 || index >= this.rows.length) return;
    this.shown.get(this.active)?.setAttribute('aria-selected', 'false');
    this.active = index;
    this.virtual.scrollToIndex(index, { align: 'auto' });
    this.draw();
    this.shown.get(index)?.setAttribute('aria-selected', 'true');
    this.element.setAttribute('aria-activedescendant', `${this.name}-${index}`);
    this.picked(this.rows[index]!);
  }

  private key(event: KeyboardEvent): void {
    if (event.target !== this.element) return;
    const page = Math.max(1, Math.floor((this.element.clientHeight - HEAD) / ROW) - 1);
    const steps: Readonly<Record<string, number>> = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + page,
      PageUp: this.active - page,
      Home: 0,
      End: this.rows.length - 1,
    };
    const to = steps[event.key];
    if (event.key === 'Enter' && this.active >= 0) this.opened();
    else if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    else this.pick(Math.min(Math.max(to, 0), this.rows.length - 1));
    event.preventDefault();
  }

  /** Paper has the first rows, up to a number that readers get through. */
  private fillPrint(): void {
    const rows = [...this.rows.subarray(0, PRINTED)];
    const cells = (row: number) => this.columns.map(({ text }) => el('td', {}, text(row)));
    const left = this.rows.length - rows.length;
    this.print.replaceChildren(
      el(
        'table',
        {},
        el('thead', {}, el('tr', {}, ...this.columns.map(({ title }) => el('th', { scope: 'col' }, title)))),
        el('tbody', {}, ...rows.map((row) => el('tr', {}, ...cells(row)))),
      ),
      el('p', {}, left > 0 ? `${left} further rows are not printed: filter the table to print others.` : ''),
    );
  }
}
