/** The table of sites with its filters, and what is shown of one site. */
import type { PageHop } from '../model.js';
import { address, type Data, ranksOf } from './data.js';
import { button, choice, count, el } from './dom.js';
import { Table, type TableColumn, widthOf } from './table.js';

interface Filter {
  text: string;
  verdict: string;
  state: string;
  shape: string;
  file: string;
}

/** Each text of a column once. */
const eachOf = (column: Iterable<number>, show: (at: number) => string): string[] => [...new Set(column)].map(show);

/** Columns of the table. Ranks are made for the first sort by a column. */
function columnsOf(data: Data, several: boolean): TableColumn[] {
  const { column, text, name, head } = data;
  const ranked = (key: string, show: (at: number) => string) => {
    let ranks: Float64Array | null = null;
    return (a: number, b: number): number => {
      ranks ??= ranksOf(column(key), show);
      return ranks[a]! - ranks[b]!;
    };
  };
  const texts = (title: string, key: string, show = text, most = 170): TableColumn => ({
    title,
    width: widthOf(eachOf(column(key), show), title.length * 8 + 22, most),
    grow: 0,
    text: (row) => show(column(key)[row]!),
    compare: ranked(key, show),
  });
  const [low, high, offset] = [column('site.low'), column('site.high'), column('site.offset')];
  const verdict = (at: number): string => head.verdicts[at]!.name;
  return [
    {
      title: 'Function',
      width: widthOf(eachOf(column('site.function'), name), 140, 230),
      grow: 2,
      text: (row) => placeOf(data, row),
      compare: (a, b) => byName(a, b) || offset[a]! - offset[b]!,
    },
    {
      title: 'Address',
      width: high.every((each) => each === 0) ? 96 : 150,
      grow: 0,
      text: (row) => address(high[row]!, low[row]!),
      mark: () => 'mono',
      compare: (a, b) => high[a]! - high[b]! || low[a]! - low[b]!,
    },
    texts('Section', 'site.section'),
    {
      ...texts('Verdict', 'site.verdict', verdict),
      mark: (row) => head.verdicts[column('site.verdict')[row]!]!.severity,
    },
    ...(head.proof === null
      ? []
      : [
          {
            ...texts('Proof', 'proof.verdict', proofText(data)),
            mark: (row: number) => proofMark(proofText(data)(column('proof.verdict')[row]!)),
          },
        ]),
    texts('State', 'site.state'),
    texts('Shape', 'site.shape'),
    ...(several ? [{ ...texts('File', 'site.file', (at) => head.files[at]!.name, 240), grow: 1 }] : []),
  ];
  function byName(a: number, b: number): number {
    byFunction ??= ranked('site.function', name);
    return byFunction(a, b);
  }
}
let byFunction: ((a: number, b: number) => number) | null = null;

/** A site that a proof does not list is not proved by it. */
const proofText =
  ({ text }: Data) =>
  (at: number): string =>
    at === 0 ? 'not listed' : text(at);

/** How the verdict of a proof is shown; '' where nothing was asked. */
const proofMark = (verdict: string): string =>
  verdict === 'different' ? 'error' : verdict === 'inconclusive' ? 'warning' : '';

/** `function+0x4` */
function placeOf({ column, name }: Data, row: number): string {
  const offset = column('site.offset')[row]!;
  const shown = offset === 0 ? '' : `${offset < 0 ? '-' : '+'}0x${Math.abs(offset).toString(16)}`;
  const found = name(column('site.function')[row]!);
  return found === '' ? '(no function)' : found + shown;
}

/** Rows that a filter leaves. */
function filtered(data: Data, filter: Filter): Int32Array {
  const { column, text, name, head } = data;
  const needle = filter.text.trim().toLowerCase();
  const [fn, section, file] = [column('site.function'), column('site.section'), column('site.file')];
  const [verdict, state, shape] = [column('site.verdict'), column('site.state'), column('site.shape')];
  const [low, high] = [column('site.low'), column('site.high')];
  const has = (value: string): boolean => value.toLowerCase().includes(needle);
  const seen = new Map<number, boolean>();
  const once = (at: number, test: () => boolean): boolean => {
    const known = seen.get(at);
    if (known !== undefined) return known;
    const result = test();
    seen.set(at, result);
    return result;
  };
  const isNumber = /^0x[0-9a-f]+$/.test(needle);
  const matches = (row: number): boolean =>
    needle === '' ||
    once(fn[row]!, () => has(text(fn[row]!)) || has(name(fn[row]!))) ||
    once(section[row]!, () => has(text(section[row]!))) ||
    (isNumber && address(high[row]!, low[row]!).startsWith(needle)) ||
    (head.files.length > 1 && has(head.files[file[row]!]!.name));
  const rows: number[] = [];
  for (let row = 0; row < verdict.length; row++) {
    if (filter.verdict !== '' && head.verdicts[verdict[row]!]!.name !== filter.verdict) continue;
    if (filter.state !== '' && text(state[row]!) !== filter.state) continue;
    if (filter.shape !== '' && text(shape[row]!) !== filter.shape) continue;
    if (filter.file !== '' && head.files[file[row]!]!.name !== filter.file) continue;
    if (matches(row)) rows.push(row);
  }
  return Int32Array.from(rows);
}

/** Instructions: bytes and text. */
function codeBox(title: string, code: string, empty: string): HTMLElement {
  const lines = code === '' ? [] : code.split('\n').map((line) => line.split('\t') as [string, string]);
  const width = Math.max(0, ...lines.map(([bytes]) => bytes.length));
  const text = lines.map(([bytes, shown]) => `${bytes.padEnd(width)}  ${shown}`).join('\n');
  return el(
    'div',
    { class: 'code' },
    title === '' ? null : el('h4', {}, title),
    el('pre', {}, text === '' ? empty : text),
  );
}

function codePair(data: Data, row: number): HTMLElement {
  const at = (key: string): string => data.text(data.column(`site.${key}`)[row]!);
  const [before, now, nop, refusal] = [at('before'), at('now'), at('nop'), at('refusal')];
  if (before !== '') {
    const boxes = [codeBox('Before: as the record has it', before, ''), codeBox('After: in the file', now, '')];
    return el('div', { class: 'pair' }, ...boxes);
  }
  const title = nop !== '' && nop === now ? 'After: as a nop (no change)' : 'After: as a nop';
  const after = codeBox(title, nop, refusal === '' ? 'it is no site' : `cannot be one: ${refusal}`);
  return el('div', { class: 'pair' }, codeBox('Before: in the file', now, 'no code is there'), after);
}

function hopItem({ kind, address: at, name, part, note, code }: PageHop): HTMLElement {
  const where = [at, name, part === '' ? '' : `part ${part}`].filter((each) => each !== '').join('  ');
  return el(
    'li',
    {},
    el('span', { class: 'kind' }, kind),
    ' ',
    el('span', { class: 'mono' }, where),
    el('div', { class: 'dim' }, note),
    code === '' ? null : codeBox('', code, ''),
  );
}

/** What the proof says of a site; '' without a proof. */
function proofOf(data: Data, row: number): string {
  if (data.head.proof === null) return '';
  const verdict = proofText(data)(data.column('proof.verdict')[row]!);
  const why = data.text(data.column('proof.why')[row]!);
  return why === '' ? verdict : `${verdict}: ${why}`;
}

/** Both ways of a site that the proof found different, side by side. */
function accountBox(data: Data, row: number): HTMLElement[] {
  const text = data.head.proof === null ? '' : data.text(data.column('proof.account')[row]!);
  if (text === '') return [];
  // Sentences are wrapped, rows of the ways are not.
  const at = text.indexOf('\nexecuted');
  const cut = at < 0 ? 0 : at + 1;
  const region = { tabindex: 0, role: 'region', 'aria-label': 'Both ways' };
  return [
    el('h3', {}, 'Proof: what differs'),
    el(
      'div',
      { class: 'code', id: 'account' },
      el('div', { class: 'mono said' }, text.slice(0, cut)),
      el('pre', region, text.slice(cut)),
    ),
  ];
}

/** The proof as a whole. */
function proofLines({ head: { proof } }: Data): HTMLElement[] {
  if (proof === null) return [];
  const notices = proof.notices.map((each) => el('li', {}, each));
  return [
    el('p', { id: 'proof' }, `Proof ${proof.file}, of ${proof.image}: ${proof.summary}.`),
    ...(notices.length > 0 ? [el('ul', {}, ...notices)] : []),
  ];
}

/** What is known of one row. */
function siteDetail(data: Data, row: number): HTMLElement[] {
  const { head, column, text } = data;
  const at = (key: string): string => text(column(`site.${key}`)[row]!);
  const verdict = head.verdicts[column('site.verdict')[row]!]!;
  const place = address(column('site.high')[row]!, column('site.low')[row]!);
  const symbol = at('function');
  const facts: readonly (readonly [string, string])[] = [
    ['Verdict', `${verdict.name}: ${at('message') === '' ? verdict.meaning : at('message')}`],
    ['Rule', at('rule')],
    ['Proof', proofOf(data, row)],
    ['Symbol', symbol === data.name(column('site.function')[row]!) ? '' : symbol],
    ['Place', `${at('section')} ${place}`],
    ['State', at('state')],
    ['Shape', at('shape')],
    ['Table', at('slot')],
    ['File', head.files[column('site.file')[row]!]!.name],
  ];
  const shown = facts.filter(([, value]) => value !== '');
  const way = head.ways[column('site.way')[row]!]!;
  const [expected, actual] = [at('expected'), at('actual')];
  const differs = expected === '' && actual === '' ? [] : [
    el('h3', {}, 'What the verdict is about'),
    el('div', { class: 'pair' }, codeBox('Expected', expected, 'nothing in particular'), codeBox('Actual', actual, 'nothing')),
  ]; // prettier-ignore
  const first = el('li', {}, el('span', { class: 'kind' }, 'site'), ' ', el('span', { class: 'mono' }, `${place}  ${placeOf(data, row)}`), el('div', { class: 'dim' }, way.note)); // prettier-ignore
  const isWay = way.note !== '' || way.hops.length > 0;
  return [
    el('h3', { tabindex: -1, id: 'site-title' }, placeOf(data, row)),
    el('dl', {}, ...shown.flatMap(([name, value]) => [el('dt', {}, name), el('dd', { class: name === 'Verdict' ? verdict.severity : name === 'Proof' ? proofMark(value.split(':')[0]!) : '' }, value)])),
    el('h3', {}, 'Code'),
    codePair(data, row),
    ...differs,
    ...accountBox(data, row),
    ...(isWay ? [el('h3', {}, 'Way'), el('ol', { class: 'way' }, first, ...way.hops.map(hopItem))] : []),
  ]; // prettier-ignore
}

/** Buttons with the number of each verdict, which filter by it. */
function verdictButtons(data: Data, press: (verdict: string) => void): HTMLElement {
  const sums = new Map<number, number>();
  for (const verdict of data.column('site.verdict')) sums.set(verdict, (sums.get(verdict) ?? 0) + 1);
  const items = [...sums].sort((a, b) => b[1] - a[1]).map(([verdict, sum]) => {
    const { name, severity, meaning } = data.head.verdicts[verdict]!;
    const made = button('', () => { press(name); }, { title: meaning });
    made.append(el('span', { class: severity }, name), ` ${count(sum)}`);
    return el('li', {}, made);
  }); // prettier-ignore
  return el('ul', { class: 'counts', 'aria-label': 'Sites by verdict' }, ...items);
}

const valuesOf = (data: Data, key: string): string[] =>
  [...new Set(data.column(key))].map((at) => data.text(at)).filter((each) => each !== '').sort(); // prettier-ignore

/** @param picked  told of the row that is shown */
export function sitesSection(data: Data, picked: (row: number) => void): { element: HTMLElement; mount: () => void } {
  const { head } = data;
  const filter: Filter = { text: '', verdict: '', state: '', shape: '', file: '' };
  const result = el('p', { role: 'status', class: 'dim', id: 'found' });
  const detail = el('div', { class: 'detail', role: 'region', 'aria-label': 'Site', tabindex: 0 });
  detail.append(el('p', { class: 'dim' }, 'Choose a row: its code and its way are shown here.'));
  const focusDetail = (): void => {
    document.getElementById('site-title')?.focus();
  };
  const show = (row: number): void => {
    detail.replaceChildren(...siteDetail(data, row));
    picked(row);
  };
  const table = new Table('site', 'Patch sites', columnsOf(data, head.files.length > 1), show, focusDetail);
  const total = data.column('site.verdict').length;
  const update = (): void => {
    const rows = filtered(data, filter);
    table.set(rows);
    result.textContent = rows.length === total ? `${count(total)} rows` : `${count(rows.length)} of ${count(total)} rows`;
  };
  const search = el('input', { type: 'search', id: 'search', placeholder: 'function, section, 0xADDRESS', autocomplete: 'off', spellcheck: 'false' });
  search.addEventListener('input', () => { filter.text = search.value; update(); });
  search.addEventListener('keydown', ({ key }) => {
    if (key === 'Enter' || key === 'ArrowDown') { table.element.focus(); table.pick(0); }
  });
  const chosen = (label: string, key: 'verdict' | 'state' | 'shape' | 'file', options: readonly string[]) =>
    choice(label, 'all', options, (value) => { filter[key] = value; update(); });
  const verdicts = chosen('Verdict', 'verdict', [...new Set(data.column('site.verdict'))].map((at) => head.verdicts[at]!.name));
  const selects = [
    verdicts,
    chosen('State', 'state', valuesOf(data, 'site.state')),
    chosen('Shape', 'shape', valuesOf(data, 'site.shape')),
    ...(head.files.length > 1 ? [chosen('File', 'file', [...new Set(head.files.map(({ name }) => name))])] : []),
  ];
  const press = (verdict: string): void => { filter.verdict = verdicts.select.value = filter.verdict === verdict ? '' : verdict; update(); };
  const reset = button('Reset', () => {
    Object.assign(filter, { text: '', verdict: '', state: '', shape: '', file: '' });
    search.value = '';
    for (const { select } of selects) select.value = '';
    update();
  });
  detail.addEventListener('keydown', ({ key }) => { if (key === 'Escape') table.element.focus(); });
  const element = el(
    'section', { id: 'sites', 'aria-labelledby': 'sites-title' },
    el('h2', { id: 'sites-title' }, 'Sites'),
    verdictButtons(data, press), ...proofLines(data),
    el('div', { class: 'bar' }, el('label', {}, 'Search ( / )', search), ...selects.map(({ label }) => label), reset),
    result,
    el('div', { class: 'sites' }, el('div', {}, table.element, table.print), detail),
  );
  return { element, mount: () => { table.mount(); update(); } };
} // prettier-ignore
