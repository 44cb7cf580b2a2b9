/** A trace: a timeline by CPU, a flame graph, and the sums of both as a table. */
import type { PageTrace } from '../model.js';
import { type Data } from './data.js';
import { button, count, drawingWidth, el, svg } from './dom.js';
import { Table } from './table.js';

const WIDTH = drawingWidth;
const BAR = 17;
/** Levels of calls that are drawn of a CPU or a stack. */
const LEVELS = 40;
/** Slices that are drawn at once: narrower ones than a third of a pixel are left to zooming. */
const DRAWN = 4000;

const colour = (at: number): string => `c${at % 6}`;
const fits = (text: string, width: number): string =>
  width < 24
    ? ''
    : text.length * 6.7 > width - 6
      ? `${text.slice(0, Math.max(1, Math.floor((width - 12) / 6.7)))}…`
      : text;

function bar(text: string, title: string, at: { x: number; y: number; width: number; colour: number }, press: () => void): SVGElement {
  const group = svg('g', { class: 'slice' }, svg('title', {}, title),
    svg('rect', { x: at.x, y: at.y, width: Math.max(0.5, at.width), height: BAR - 1, class: colour(at.colour) }));
  const shown = fits(text, at.width);
  if (shown !== '') group.append(svg('text', { x: at.x + 3, y: at.y + 12, class: 'label' }, shown));
  group.addEventListener('click', press);
  return group;
} // prettier-ignore

interface View {
  from: number;
  to: number;
}

/** Buttons that move and widen what is in sight. */
function controls(view: View, whole: View, draw: () => void): HTMLElement {
  const change = (middle: number, width: number): void => {
    const least = Math.max(1e-9, (whole.to - whole.from) / 1e6);
    const size = Math.min(Math.max(width, least), whole.to - whole.from);
    view.from = Math.min(Math.max(middle - size / 2, whole.from), whole.to - size);
    view.to = view.from + size;
    draw();
  };
  const size = (): number => view.to - view.from;
  const middle = (): number => (view.from + view.to) / 2;
  return el('div', { class: 'bar', role: 'group', 'aria-label': 'Timeline' },
    button('Zoom in', () => { change(middle(), size() / 2); }),
    button('Zoom out', () => { change(middle(), size() * 2); }),
    button('Earlier', () => { change(middle() - size() / 2, size()); }),
    button('Later', () => { change(middle() + size() / 2, size()); }),
    button('Whole trace', () => { change(middle(), whole.to - whole.from); }));
} // prettier-ignore

/** Slices of the timeline in sight, drawn; told of the one that is clicked. */
function timelineDrawing(data: Data, trace: PageTrace, view: View, told: (text: string) => void): SVGElement {
  const [fn, cpu, depth, start, length] = ['function', 'cpu', 'depth', 'start', 'length'].map((each) => data.column(`slice.${each}`)) as [Uint8Array, Uint8Array, Uint8Array, Float64Array, Float64Array];
  const levels = Math.min(LEVELS, depth.reduce((a, b) => Math.max(a, b), 0) + 1);
  const lane = levels * BAR + 22;
  const scale = WIDTH / (view.to - view.from);
  const parts: SVGElement[] = trace.cpus.map((number, i) => svg('text', { x: 2, y: i * lane + 13, class: 'small' }, `CPU ${number}`));
  const lanes = new Map(trace.cpus.map((number, i) => [number, i]));
  let left = 0;
  for (let i = 0; i < fn.length && parts.length < DRAWN; i++) {
    const end = start[i]! + length[i]!;
    if (end < view.from || start[i]! > view.to) continue;
    const x = Math.max(0, (start[i]! - view.from) * scale);
    const width = Math.min(WIDTH, (end - view.from) * scale) - x;
    if (depth[i]! >= levels || (trace.nested && width < 0.3)) { left++; continue; }
    const name = data.name(fn[i]!);
    const what = trace.nested ? `${name}: ${count(length[i]!)} ${trace.clock}, from ${count(start[i]!)}` : `${name}: at ${count(start[i]!)}`;
    const y = lanes.get(cpu[i]!)! * lane + 18 + depth[i]! * BAR;
    parts.push(bar(name, what, { x, y, width: trace.nested ? width : 2, colour: fn[i]! }, () => { told(what); }));
  }
  if (parts.length >= DRAWN || left > 0) told('Some calls are too many, too short or too deep to be drawn at this width: zoom in.');
  const label = `Timeline: ${count(fn.length)} calls on ${trace.cpus.length} CPUs`;
  return svg('svg', { viewBox: `0 0 ${WIDTH} ${trace.cpus.length * lane + 4}`, width: WIDTH, height: trace.cpus.length * lane + 4, role: 'img', 'aria-label': label }, ...parts);
} // prettier-ignore

/** The tree of stacks from one node on, drawn; told of the node that is clicked. */
function flameDrawing(data: Data, trace: PageTrace, root: number, zoom: (node: number) => void): SVGElement {
  const [fn, parent, total, calls] = ['function', 'parent', 'total', 'calls'].map((each) => data.column(`flame.${each}`)) as [Uint8Array, Uint16Array, Float64Array, Uint8Array];
  const weight = (node: number): number => (trace.nested ? total[node]! : node === 0 ? calls.reduce((a, b) => a + b, 0) : calls[node]!);
  const places = new Map<number, { x: number; width: number; depth: number; used: number }>();
  places.set(root, { x: 0, width: WIDTH, depth: 0, used: 0 });
  const parts: SVGElement[] = [];
  let deepest = 0;
  const whole = Math.max(1e-9, weight(root));
  for (let node = root; node < fn.length && parts.length < DRAWN; node++) {
    const above = node === root ? undefined : places.get(parent[node]!);
    if (node !== root && above === undefined) continue;
    const width = (WIDTH * weight(node)) / whole;
    const place = above === undefined ? places.get(root)! : { x: above.x + above.used, width, depth: above.depth + 1, used: 0 };
    if (above !== undefined) above.used += width;
    if (place.width < 0.5 || place.depth > LEVELS) continue;
    places.set(node, place);
    deepest = Math.max(deepest, place.depth);
    const name = node === 0 ? 'all' : data.name(fn[node]!);
    const title = `${name}: ${count(weight(node))} ${trace.nested ? trace.clock : 'calls'}, ${count(calls[node]!)} calls`;
    parts.push(bar(name, title, { x: place.x, y: place.depth * BAR, width: place.width, colour: fn[node]! }, () => { zoom(node); }));
  }
  const height = (deepest + 1) * BAR + 2;
  return svg('svg', { viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height, role: 'img', 'aria-label': `Flame graph: ${count(fn.length)} stacks` }, ...parts);
} // prettier-ignore

function functionTable(data: Data, { functions, clock }: PageTrace): Table {
  const number = (title: string, at: 1 | 2 | 3) => ({
    title, width: 160, grow: 0, isNumber: true,
    text: (row: number) => count(functions[row]![at]),
    compare: (a: number, b: number) => functions[a]![at] - functions[b]![at],
  });
  const name = (row: number): string => data.name(functions[row]![0]);
  const compare = (a: number, b: number): number => (name(a) < name(b) ? -1 : name(a) > name(b) ? 1 : 0);
  const columns = [
    { title: 'Function', width: 220, grow: 1, text: name, compare },
    number('Calls', 1), number(`Own ${clock}`, 2), number('With callees', 3),
  ];
  return new Table('fn', 'Functions of the trace', columns, () => undefined, () => undefined);
} // prettier-ignore

export function traceSection(data: Data, trace: PageTrace): { element: HTMLElement; mount: () => void } {
  const told = el('p', { role: 'status', class: 'dim' });
  const timeline = el('div', { class: 'draw', tabindex: 0, role: 'region', 'aria-label': 'Timeline of the trace' });
  const flame = el('div', { class: 'draw', tabindex: 0, role: 'region', 'aria-label': 'Flame graph of the trace' });
  const whole: View = { from: trace.start, to: Math.max(trace.end, trace.start + 1) };
  const view: View = { ...whole };
  const draw = (): void => {
    told.textContent = '';
    timeline.replaceChildren(timelineDrawing(data, trace, view, (text) => { told.textContent = text; }));
  };
  const zoom = (node: number): void => { flame.replaceChildren(flameDrawing(data, trace, node, zoom)); };
  const table = functionTable(data, trace);
  draw();
  zoom(0);
  const about = `${trace.file}: ${trace.image}, ${count(trace.events)} events, recorded by the ${trace.source === 'oracle' ? 'machine' : 'program itself'}; time is ${trace.clock}.`;
  const element = el('section', { id: 'trace', 'aria-labelledby': 'trace-title' },
    el('h2', { id: 'trace-title' }, 'Trace'),
    el('p', {}, about),
    ...(trace.notices.length > 0 ? [el('ul', {}, ...trace.notices.map((each) => el('li', {}, each)))] : []),
    el('h3', {}, 'Timeline'), controls(view, whole, draw), timeline, told,
    el('h3', {}, 'Flame graph'),
    el('p', { class: 'dim' }, trace.nested ? 'Width: time with callees. A click makes a stack the whole width.' : 'Width: calls.'),
    el('div', { class: 'bar' }, button('Whole flame graph', () => { zoom(0); })), flame,
    el('h3', {}, 'Functions'), table.element, table.print);
  return {
    element,
    mount: () => { table.mount(); table.set(Int32Array.from(trace.functions.keys())); },
  };
} // prettier-ignore
