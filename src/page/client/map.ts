/**
 * The address space of a file: its ranges on a line, gaps between them shortened, an arc from the
 * sites of a range to what they call, and from the chosen site how far each branch leads.
 */
import type { PageFile } from '../model.js';
import { address, type Data } from './data.js';
import { choice, count, drawingWidth, el, svg } from './dom.js';

/** What branches reach is a line of words. */
const WIDTH = Math.max(560, drawingWidth);
const EDGE = 30;
const LINE = 190;
const GAP = 66;
/** Space between ranges that is drawn as a gap, in bytes. */
const FAR = 0x10_0000n;
const LEAST = 14;

interface Stretch {
  readonly start: bigint;
  readonly end: bigint;
  readonly x: number;
  readonly width: number;
}

/** `32 MiB` */
function bytesText(size: bigint): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let value = Number(size < 0n ? -size : size);
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${String(value < 10 ? Math.round(value * 10) / 10 : Math.round(value))} ${units[unit]!}`;
}

/** Runs of ranges that lie close together, each with its part of the width by its size. */
function stretchesOf(ranges: readonly { readonly start: bigint; readonly end: bigint }[]): Stretch[] {
  const sorted = [...ranges].sort((a, b) => (a.start < b.start ? -1 : 1));
  const runs: { start: bigint; end: bigint }[] = [];
  for (const { start, end } of sorted) {
    const last = runs.at(-1);
    if (last !== undefined && start - last.end < FAR) last.end = end > last.end ? end : last.end;
    else runs.push({ start, end });
  }
  const room = WIDTH - 2 * EDGE - GAP * Math.max(0, runs.length - 1);
  const weights = runs.map(({ start, end }) => Math.log2(Number(end - start) + 2));
  const sum = weights.reduce((a, b) => a + b, 0);
  let x = EDGE;
  return runs.map(({ start, end }, i) => {
    const width = Math.max(LEAST, (room * weights[i]!) / sum);
    const stretch = { start, end, x, width };
    x += width + GAP;
    return stretch;
  });
}

/** Where an address lies on the line; beyond its ends: at them. */
function positionOf(stretches: readonly Stretch[], at: bigint): number {
  let before: Stretch | undefined;
  for (const each of stretches) {
    if (at < each.start) {
      if (before === undefined) return EDGE / 3;
      const part = Number(at - before.end) / Number(each.start - before.end);
      return before.x + before.width + part * GAP;
    }
    if (at <= each.end) return each.x + (Number(at - each.start) / Math.max(1, Number(each.end - each.start))) * each.width;
    before = each;
  }
  return WIDTH - EDGE / 3;
} // prettier-ignore

function rangeParts(file: PageFile, stretches: readonly Stretch[]): SVGElement[] {
  const parts: SVGElement[] = [];
  // Two lines of labels; a range for which neither has room is told by its title.
  const free = [-Infinity, -Infinity];
  for (const { name, part, start, end, sites } of file.ranges) {
    const [from, to] = [positionOf(stretches, BigInt(start)), positionOf(stretches, BigInt(end))];
    const title = `${name}${part === '' ? '' : ` of ${part}`}: ${start} to ${end}, ${count(sites)} sites`;
    const width = Math.max(1, to - from);
    parts.push(svg('rect', { class: 'range', x: from, y: LINE, width, height: 22 }, svg('title', {}, title)));
    const label = `${name}${part === '' ? '' : ` (${part})`}`;
    const x = Math.min(from, WIDTH - label.length * 7);
    const line = free.findIndex((each) => each <= x);
    if (line < 0) continue;
    parts.push(svg('text', { x, y: LINE + 36 + line * 14, class: 'small' }, label));
    free[line] = x + (label.length + 2) * 7;
  }
  stretches.slice(1).forEach((next, i) => {
    const last = stretches[i]!;
    const x = last.x + last.width;
    const size = bytesText(next.start - last.end);
    parts.push(svg('line', { class: 'gap', x1: x, x2: next.x, y1: LINE + 11, y2: LINE + 11 }));
    parts.push(svg('text', { x: x + GAP / 2, y: LINE + 7, 'text-anchor': 'middle', class: 'small' }, size));
  });
  return parts;
}

/** Sites by place: a line for each pixel, as high as there are many. */
function densityParts(data: Data, file: number, stretches: readonly Stretch[]): SVGElement[] {
  const [files, low, high] = ['site.file', 'site.low', 'site.high'].map((name) => data.column(name)) as [Uint8Array, Uint32Array, Uint32Array]; // prettier-ignore
  const sections = data.column('site.section');
  const counts = new Map<number, number>();
  for (let row = 0; row < files.length; row++) {
    if (files[row] !== file || sections[row] === 0) continue;
    const x = Math.round(positionOf(stretches, (BigInt(high[row]!) << 32n) | BigInt(low[row]!)));
    counts.set(x, (counts.get(x) ?? 0) + 1);
  }
  const most = Math.max(1, ...counts.values());
  return [...counts].map(([x, sum]) => {
    const height = 3 + (18 * Math.log2(sum + 1)) / Math.log2(most + 1);
    return svg('rect', { class: 'sites', x, y: LINE + 22 - height, width: 1, height });
  });
}

/** Of the point that pulls an arc up; the arc itself has half of it. */
const arcHeight = (a: number, b: number): number => Math.min(2 * LINE - 40, 30 + Math.abs(b - a) / 3);

function arcParts(file: PageFile, stretches: readonly Stretch[]): SVGElement[] {
  return file.arcs.flatMap(({ from, to, name, count: sum }) => {
    const range = file.ranges[from];
    if (range === undefined) return [];
    const a = positionOf(stretches, (BigInt(range.start) + BigInt(range.end)) / 2n);
    const b = positionOf(stretches, BigInt(to));
    const height = arcHeight(a, b);
    const path = `M${a},${LINE} Q${(a + b) / 2},${LINE - height} ${b},${LINE}`;
    const title = `${count(sum)} sites of ${range.name} call ${name === '' ? to : `${name} at ${to}`}`;
    const width = Math.min(6, 1 + Math.log10(sum));
    return [svg('path', { class: 'arc', d: path, 'stroke-width': width }, svg('title', {}, title))];
  });
}

/** How far each branch leads from a place, below the line. */
function reachParts(file: PageFile, stretches: readonly Stretch[], at: bigint, from: string): SVGElement[] {
  const x = positionOf(stretches, at);
  const parts: SVGElement[] = [svg('circle', { class: 'pick', cx: x, cy: LINE + 11, r: 4 }, svg('title', {}, from))];
  file.reaches.forEach(({ name, min, max }, i) => {
    const y = LINE + 78 + i * 40;
    const [first, last] = [at + BigInt(min), at + BigInt(max)];
    const [a, b] = [positionOf(stretches, first), positionOf(stretches, last)];
    const inside = file.ranges.filter(({ start, end }) => BigInt(start) >= first && BigInt(end) <= last).length;
    const text = `${name}: -${bytesText(BigInt(min))} to +${bytesText(BigInt(max))}, ${inside} of ${file.ranges.length} ranges wholly in reach`;
    const d = `M${a},${y} Q${(a + x) / 2},${y - 24} ${x},${y} Q${(x + b) / 2},${y - 24} ${b},${y}`;
    parts.push(svg('path', { class: 'reach', d }, svg('title', {}, text)), svg('text', { x: EDGE, y: y + 16 }, text));
  });
  return parts;
}

function drawing(data: Data, number: number, row: number): SVGElement {
  const file = data.head.files[number]!;
  const stretches = stretchesOf(file.ranges.map(({ start, end }) => ({ start: BigInt(start), end: BigInt(end) })));
  const height = LINE + 72 + file.reaches.length * 40;
  const [low, high] = [data.column('site.low')[row]!, data.column('site.high')[row]!];
  const arcs = arcParts(file, stretches);
  const top = arcs.length === 0 ? LINE - 20 : 0;
  const parts = [...arcs, ...rangeParts(file, stretches), ...densityParts(data, number, stretches)];
  if (row >= 0) parts.push(...reachParts(file, stretches, (BigInt(high) << 32n) | BigInt(low), address(high, low)));
  const label = `Map of ${file.name}: ${file.ranges.length} ranges of code, ${file.arcs.length} arcs of calls`;
  return svg(
    'svg',
    {
      viewBox: `0 ${top} ${WIDTH} ${height - top}`,
      width: WIDTH,
      height: height - top,
      role: 'img',
      'aria-label': label,
      class: 'wide',
    },
    ...parts,
  );
}

/** Sections of a file that has no addresses yet. */
function sectionList({ ranges, reaches }: PageFile): HTMLElement {
  const reach = reaches.map(({ name, min, max }) => `${name}: -${bytesText(BigInt(min))} to +${bytesText(BigInt(max))}`);
  const rows = ranges.filter(({ sites }) => sites > 0).map(({ name, end, sites }) =>
    el('tr', {}, el('td', {}, name), el('td', {}, bytesText(BigInt(end))), el('td', {}, count(sites))));
  return el('div', {},
    el('p', {}, 'The file is relocatable: its sections get addresses when it is linked or loaded. Its branches lead so far: ', reach.join('; '), '.'),
    el('table', { class: 'plain' },
      el('thead', {}, el('tr', {}, ...['Section', 'Size', 'Sites'].map((each) => el('th', { scope: 'col' }, each)))),
      el('tbody', {}, ...rows)));
} // prettier-ignore

/** @returns the section, and what is told of the site that was chosen */
export function mapSection(data: Data): { element: HTMLElement; pick: (row: number) => void } {
  const { files } = data.head;
  const owner = data.column('site.file');
  const draw = el('div', { class: 'draw', tabindex: 0, role: 'region', 'aria-label': 'Map' });
  let shown = 0;
  const show = (file: number, row: number): void => {
    shown = file;
    const { relocatable, ranges } = files[file]!;
    if (relocatable) draw.replaceChildren(sectionList(files[file]!));
    else if (ranges.length === 0) draw.replaceChildren(el('p', {}, 'The file has no code.'));
    else draw.replaceChildren(drawing(data, file, row));
  };
  const firstOf = (file: number): number => owner.indexOf(file);
  const names = files.map(({ name }, i) => `${i + 1}: ${name}`);
  const chosen = choice('File', names[0]!, names.slice(1), (value) => {
    const file = Math.max(0, names.indexOf(value));
    show(file, firstOf(file));
  });
  show(0, firstOf(0));
  const element = el('section', { id: 'map', 'aria-labelledby': 'map-title' },
    el('h2', { id: 'map-title' }, 'Address space'),
    el('p', { class: 'dim' }, 'Arcs above the line: what sites call. Below it: how far the branches of the chosen site lead.'),
    ...(files.length > 1 ? [el('div', { class: 'bar' }, chosen.label)] : []),
    draw);
  const pick = (row: number): void => {
    const file = owner[row]!;
    if (file !== shown) chosen.select.value = file === 0 ? '' : names[file]!;
    show(file, row);
  };
  return { element, pick };
} // prettier-ignore
