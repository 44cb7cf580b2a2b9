/**
 * Races: what was asked and what was found, and of each race that goes wrong its schedule: drawn,
 * with the actors side by side and time downwards, and walked through event by event.
 */
import type { PageHead, PageRace, PageRaceEvent, PageSchedule } from '../model.js';
import { button, count, el, svg } from './dom.js';

const ROW = 36;
const LANE = 460;
const GUTTER = 46;
const HEAD = 34;
const BYTE = 19;

const verdictTexts = {
  holds: 'holds in every order',
  violated: 'violated',
  undecided: 'undecided: the search was cut before anything was found',
} as const;
const verdictMarks = { holds: 'none', violated: 'error', undecided: 'warning' } as const;

const fitted = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** Everything but the actor and the place, in one line. */
const moreOf = ({ more, registers }: PageRaceEvent): string =>
  [...more, ...registers.map(([name, before, after]) => `${name} ${before} -> ${after}`)].join('; ');

/** The patched bytes, those that the event changed marked. */
function byteParts(x: number, y: number, watched: string, before: string): SVGElement[] {
  const was = before.split(' ');
  return watched.split(' ').map((byte, i) => {
    const mark = byte === was[i] ? 'byte' : 'byte changed';
    return svg('text', { class: mark, x: x + i * BYTE, y: y + 19 }, byte);
  });
}

interface Drawing {
  readonly element: SVGElement;
  /** Marks an event as the one that is shown; those behind it have not happened. */
  readonly show: (at: number) => void;
}

function drawingOf(title: string, schedule: PageSchedule, press: (at: number) => void): Drawing {
  const { actors, events, watch } = schedule;
  const bytesAt = GUTTER + actors.length * LANE + 8;
  const width = bytesAt + Math.max(190, (schedule.before.length / 3) * BYTE + 30);
  const height = HEAD + events.length * ROW + 8;
  const lanes = actors.flatMap(({ name, kind }, i) => {
    const x = GUTTER + i * LANE;
    return [
      svg('rect', { class: `lane ${kind}`, x, y: 0, width: LANE - 6, height }),
      svg('text', { class: 'lane-name', x: x + 8, y: 20 }, name),
    ];
  });
  const centre = ({ actor }: PageRaceEvent, i: number): string =>
    `${GUTTER + actor * LANE + 10},${HEAD + i * ROW + (ROW - 6) / 2}`;
  const line = svg('polyline', { class: 'thread-line', points: events.map(centre).join(' ') });
  const groups = events.map((event, i) => {
    const [x, y] = [GUTTER + event.actor * LANE + 4, HEAD + i * ROW];
    const wrong = i === events.length - 1 ? ' wrong' : '';
    const text = event.place === '' ? event.text : `${event.place}  ${event.text}`;
    const more = moreOf(event);
    const before = i === 0 ? schedule.before : events[i - 1]!.watched;
    const group = svg('g', { class: `event ${event.kind}${wrong}` },
      svg('title', {}, [event.place, event.text, more].filter((each) => each !== '').join('\n')),
      svg('text', { class: 'small', x: 4, y: y + 19 }, String(i + 1)),
      svg('rect', { x, y, width: LANE - 14, height: ROW - 6, rx: 3 }),
      svg('circle', { cx: x + 6, cy: y + (ROW - 6) / 2, r: 3 }),
      svg('text', { x: x + 16, y: y + (more === '' ? 19 : 12) }, fitted(text, 62)),
      svg('text', { class: 'small', x: x + 16, y: y + 25 }, fitted(more, 64)),
      ...byteParts(bytesAt, y, event.watched, before));
    group.addEventListener('click', () => { press(i); });
    return group;
  });
  const label = `Schedule of ${title}: ${count(events.length)} events`;
  const element = svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label, class: 'schedule' },
    ...lanes, svg('text', { class: 'lane-name', x: bytesAt, y: 20 }, fitted(watch, 24)), line, ...groups);
  const show = (at: number): void => {
    groups.forEach((group, i) => {
      group.classList.toggle('now', i === at);
      group.classList.toggle('later', i > at);
    });
  };
  return { element, show };
} // prettier-ignore

/** Where each actor is, and the registers that the one that acts has changed so far. */
function stateBoxes({ actors, events, watch, before }: PageSchedule, at: number): HTMLElement[] {
  const event = events[at]!;
  const rows = actors.map(({ name }, actor) => {
    const last = events.slice(0, at + 1).findLast((each) => each.actor === actor);
    const where = last === undefined ? 'has not begun' : `${last.place}  ${last.text}`;
    const marks = actor === event.actor ? { 'aria-current': 'step' } : {};
    return el('tr', marks, el('th', { scope: 'row' }, name), el('td', { class: 'mono' }, where));
  });
  const registers = new Map<string, string>();
  for (const each of events.slice(0, at + 1)) {
    if (each.actor === event.actor) for (const [name, , after] of each.registers) registers.set(name, after);
  }
  const changed = new Set(event.registers.map(([name]) => name));
  const lines = [...registers].map(([name, value]) => `${changed.has(name) ? '*' : ' '} ${name} = ${value}`);
  const bytes = [`before  ${at === 0 ? before : events[at - 1]!.watched}`, `now     ${event.watched}`];
  const box = (title: string, text: string): HTMLElement =>
    el('div', { class: 'code' }, el('h4', {}, title), el('pre', {}, text));
  return [
    el('table', { class: 'plain' }, el('caption', {}, 'Where everybody is'), el('tbody', {}, ...rows)),
    el('div', { class: 'pair' },
      box(`Bytes at ${watch}`, bytes.join('\n')),
      ...(event.more.length === 0 ? [] : [box('Besides', event.more.join('\n'))]),
      ...(lines.length === 0 ? [] : [box(`Registers of ${actors[event.actor]!.name} (* changed now)`, lines.join('\n'))])),
  ];
} // prettier-ignore

/** The whole schedule as rows, for paper. */
function printed({ actors, events }: PageSchedule): HTMLElement {
  const row = (event: PageRaceEvent, i: number): HTMLElement => {
    const cells = [String(i + 1), actors[event.actor]!.name, event.place, event.text, moreOf(event), event.watched];
    return el('tr', {}, ...cells.map((each) => el('td', {}, each)));
  };
  const heads = ['', 'Actor', 'Place', 'Event', 'Changes', 'Bytes'].map((each) => el('th', {}, each));
  const body = el('tbody', {}, ...events.map(row));
  return el('div', { class: 'print' }, el('table', {}, el('thead', {}, el('tr', {}, ...heads)), body));
}

const keys: Readonly<Record<string, (at: number, last: number) => number>> = {
  ArrowDown: (at) => at + 1,
  ArrowRight: (at) => at + 1,
  ArrowUp: (at) => at - 1,
  ArrowLeft: (at) => at - 1,
  Home: () => 0,
  End: (_, last) => last,
};

/** The schedule with what walks through it. */
function stepper(title: string, schedule: PageSchedule): HTMLElement[] {
  const { actors, events } = schedule;
  const last = events.length - 1;
  let at = last;
  const status = el('p', { role: 'status', class: 'step' });
  const state = el('div', { class: 'state' });
  const go = (to: number): void => {
    at = Math.min(Math.max(to, 0), last);
    const { actor, place, text } = events[at]!;
    const where = place === '' ? '' : `${place}: `;
    status.textContent = `Event ${count(at + 1)} of ${count(events.length)}: ${actors[actor]!.name}: ${where}${text}`;
    drawing.show(at);
    state.replaceChildren(...stateBoxes(schedule, at));
  };
  const drawing = drawingOf(title, schedule, go);
  const region = el('div', { class: 'draw', tabindex: 0, role: 'region', 'aria-label': `Schedule of ${title}` }, drawing.element);
  region.addEventListener('keydown', (event) => {
    const move = keys[event.key];
    if (move === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    go(move(at, last));
    reveal();
    event.preventDefault();
  });
  const reveal = (): void => {
    region.scrollTop = Math.max(0, HEAD + at * ROW - region.clientHeight / 2);
  };
  const move = (text: string, to: () => number): HTMLElement => button(text, () => { go(to()); reveal(); });
  const buttons = [
    move('First', () => 0), move('Previous', () => at - 1), move('Next', () => at + 1), move('Last', () => last),
  ];
  go(last);
  // Only what is in the page has a height.
  requestAnimationFrame(reveal);
  const kind = schedule.shortest ? 'The shortest schedule' : 'A schedule (the search for the shortest was cut)';
  return [
    el('p', {}, `${kind}: ${count(events.length)} events.`),
    el('div', { class: 'bar', role: 'group', 'aria-label': `Steps of ${title}` }, ...buttons),
    status, state, region, printed(schedule),
  ];
} // prettier-ignore

function raceArticle(race: PageRace, number: number): HTMLElement {
  const { title, verdict, violation, facts, outcomes, patchers, schedule } = race;
  const rows = outcomes.map(([outcome, schedules]) =>
    el('tr', {}, outcome === '' || outcome === '-' ? el('td', {}, 'nothing is called') : el('td', { class: 'mono' }, outcome), el('td', {}, schedules)),
  );
  const heads = el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'Outcome'), el('th', { scope: 'col' }, 'Schedules')));
  return el('article', { class: 'race', id: `race-${number}`, 'aria-labelledby': `race-title-${number}` },
    el('h3', { id: `race-title-${number}` }, `${title}: `, el('span', { class: verdictMarks[verdict] }, verdictTexts[verdict])),
    violation === '' ? null : el('p', { class: 'error' }, violation),
    el('dl', {}, ...facts.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)])),
    el('table', { class: 'plain' }, heads, el('tbody', {}, ...rows)),
    ...patchers.map(({ name, steps }) =>
      el('details', { open: schedule === null }, el('summary', {}, `${name}: ${count(steps.length)} ${steps.length === 1 ? 'step' : 'steps'}`),
        el('ol', {}, ...steps.map((each) => el('li', {}, el('code', {}, each)))))),
    ...(schedule === null ? [] : stepper(title, schedule)));
} // prettier-ignore

export function raceSection({ races, version }: PageHead): HTMLElement {
  const item = ({ title, verdict }: PageRace, i: number): HTMLElement =>
    el('li', {}, el('a', { href: `#race-${i}` }, title), ': ', el('span', { class: verdictMarks[verdict] }, verdict));
  const about = `${count(races.length)} ${races.length === 1 ? 'race' : 'races'}, shown by elftrace ${version}. Each is a change of running code, in every order with the threads that run it.`;
  return el('section', { id: 'races', 'aria-labelledby': 'races-title' },
    el('h2', { id: 'races-title' }, 'Races'),
    el('p', {}, about),
    races.length === 1 ? null : el('ul', {}, ...races.map(item)),
    ...races.map(raceArticle));
} // prettier-ignore
