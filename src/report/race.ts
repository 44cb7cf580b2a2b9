/**
 * Races for people and programs: text, JSON, and one HTML page that draws the schedule. Gets
 * results and the told schedule; texts of instructions and names of places come from the caller.
 * The page needs nothing but itself: no script, no other file.
 */
import { hex, hexBytes } from '../errors.js';
import type { ProbeEntry, RaceResult, RaceStep, Sequence, Story, StoryStep } from '../race/index.js';
import type { Address } from '../units.js';
import { escapeHtml, htmlFrame } from './html.js';
import type { Json } from './json.js';

export interface RaceReport {
  readonly title: string;
  readonly target: string;
  /** What was asked, for races of images. */
  readonly request: {
    readonly function: string;
    /** Of a probe: where, and which jump optimisation. */
    readonly probe?: string;
    readonly version?: string;
    readonly from: string;
    readonly to: string;
    readonly preempt: string;
    readonly variants: readonly string[];
    readonly staleFetch: boolean;
  } | null;
  /** What was shown, for demos: whether the form is a safe one. */
  readonly demo: { readonly hazard: string; readonly form: string; readonly safe: boolean } | null;
  readonly cpus: number;
  readonly sequence: Sequence;
  readonly result: RaceResult;
  readonly story: Story | null;
  /** `leaf+0x4` */
  readonly placeOf: (address: Address) => string;
  readonly isCode: (address: Address) => boolean;
  readonly disassemble: (bytes: Uint8Array, address: Address) => string;
} // prettier-ignore

/** What the bounds of a search are called. */
const boundTexts: Readonly<Record<RaceResult['bounds'][number]['kind'], (limit: number) => string>> = {
  'max-schedules': (limit) => `the search ended after ${String(limit)} schedules`,
  'max-steps': (limit) => `threads were cut after ${String(limit)} instructions`,
  switches: (limit) => `schedules with more than ${String(limit)} switches were left out`,
  first: () => 'the search ended at the first violation',
  seconds: (limit) => `the search ended after ${String(limit)} seconds`,
  interrupted: () => 'the search was interrupted',
};

const boundText = ({ kind, limit }: RaceResult['bounds'][number]): string => boundTexts[kind](limit);

/** `1,234,567`, or powers of ten where digits would not be read. */
function countText(count: bigint): string {
  const digits = count.toString();
  if (digits.length > 18) return `${digits[0]!}.${digits.slice(1, 3)}e${String(digits.length - 1)}`;
  return digits.replace(/\B(?=(\d{3})+$)/g, ',');
}

/** What a step does, in one line. */
function stepText({ placeOf, isCode, disassemble }: RaceReport, step: RaceStep, before: Uint8Array | null): string {
  const label = step.label === undefined ? '' : ` (${step.label})`;
  switch (step.kind) {
    case 'store': {
      const was = before === null ? '' : `${short(before)} -> `;
      const shown = step.bytes.length >= 2 && step.bytes.length <= 8 && isCode(step.address) && step.phase !== 'part';
      const text = shown ? disassemble(step.bytes, step.address) : '';
      const readable = text !== '' && !text.startsWith('.');
      const serves = step.serves === undefined ? '' : `; the handler: ${servedText(placeOf, step.serves)}`;
      return `store ${placeOf(step.address)}: ${was}${short(step.bytes)}${label}${readable ? `  ${text}` : ''}${serves}`;
    }
    case 'free':
      return `free ${step.what}: ${String(step.size)} bytes at ${placeOf(step.address)}${label}`;
    case 'take':
      return `take ${step.what}: ${String(step.size)} bytes at ${placeOf(step.address)}${label}`;
    case 'serve':
      return `the handler: ${servedText(placeOf, step.serves ?? [])}${label}`;
    case 'synchronise':
      return `${step.thread === 'all' ? 'every CPU fetches anew' : `CPU ${String(step.thread)} fetches anew`}${label}`;
    case 'wait':
      return step.until === 'outside'
        ? `wait until every thread was outside${label}`
        : `wait until nobody is in the handler${label}`;
    case 'publish':
      return `the handler learns of ${step.entries.map(({ address }) => placeOf(address)).join(', ')}`;
    case 'retract':
      return `the handler forgets ${step.entries.map(({ address }) => placeOf(address)).join(', ')}`;
    case 'lock':
      return `take the lock ${step.lock}${label}`;
    case 'unlock':
      return `give the lock ${step.lock} back${label}`;
    case 'set':
      return `${step.variable} := ${typeof step.to === 'bigint' ? step.to.toString() : step.to.variable}${label}`;
    default:
      return step satisfies never;
  }
}

/** Where threads go on behind the breakpoints of probes. */
function servedText(placeOf: RaceReport['placeOf'], serves: readonly ProbeEntry[]): string {
  const hits = serves.flatMap(({ address, mark, to }) =>
    mark === null ? [] : [`hits of ${placeOf(address)} ${to === null ? 'are simulated' : `go on at ${placeOf(to)}`}`],
  );
  return hits.length === 0 ? 'no probe' : hits.join(', ');
}

/** At most 16 bytes. */
const short = (bytes: Uint8Array): string =>
  bytes.length > 16 ? `${hexBytes(bytes.subarray(0, 16))} … (${String(bytes.length)} bytes)` : hexBytes(bytes);

interface Told {
  readonly actor: string;
  readonly where: string;
  readonly what: string;
  readonly more: readonly string[];
}

/** One step of a schedule in words. */
function told(report: RaceReport, { actor, event }: StoryStep): Told {
  const { placeOf, disassemble } = report;
  const registers = (changes: readonly { readonly name: string; readonly before: bigint; readonly after: bigint }[]) =>
    changes.map(({ name, before, after }) => `${name} ${hex(before)} -> ${hex(after)}`);
  switch (event.kind) {
    case 'instruction': {
      const stores = event.stores.map(({ address, bytes }) => `stores ${short(bytes)} at ${placeOf(address)}`);
      const more = [
        ...(event.stale ? ['fetched before it was changed'] : []),
        ...(event.traps ? ['traps'] : []),
        ...registers(event.registers),
        ...stores,
      ];
      const text = event.bytes.length === 0 ? '(nothing is mapped)' : disassemble(event.bytes, event.address);
      return { actor: actor.name, where: placeOf(event.address), what: text, more };
    }
    case 'handler':
      return {
        actor: actor.name,
        where: placeOf(event.address),
        what: `breakpoint handler: goes on at ${placeOf(event.to)}`,
        more: registers(event.registers.filter(({ name }) => name !== 'pc')),
      };
    case 'step': {
      const what = event.skipped
        ? `nothing: ${event.step.when!.variable} is not ${event.step.when!.equals.toString()}`
        : stepText(report, event.step, event.before);
      return { actor: actor.name, where: `step ${String(event.number + 1)}`, what, more: [] };
    }
    case 'fetch':
      return { actor: actor.name, where: '', what: 'fetches the lines that are patched', more: [] };
    default:
      return event satisfies never;
  }
} // prettier-ignore

const verdictTexts = {
  holds: 'holds in every order',
  violated: 'VIOLATED',
  undecided: 'undecided: nothing was found before the search was cut',
} as const;

/** The report as lines of text. */
export function raceLines(report: RaceReport, details = true): string[] {
  const { result, story, sequence, title } = report;
  const { counts, failing } = result;
  const lines = [`${title}: ${verdictTexts[result.verdict]}`];
  if (failing) {
    const { violation } = failing;
    lines.push(`  ${violation.rule}: ${violation.message}`);
  }
  const slots = counts.slots.map(({ actor, events }) => `${actor} ${String(events)}`).join(', ');
  lines.push(
    `  orders: ${countText(counts.total)} of all events (${slots})`,
    `  explored: ${countText(counts.explored)} that can be told apart, ${countText(counts.violated)} of them violated; ${String(counts.states)} states`,
  );
  for (const bound of result.bounds) lines.push(`  bound: ${boundText(bound)}`);
  if (!details) return lines;
  for (const [outcome, ways] of counts.outcomes)
    lines.push(`  outcome: ${outcome === '' ? '-' : outcome}: ${countText(ways)}`);
  for (const { name, steps } of sequence.patchers) {
    lines.push(`  ${name}:`);
    steps.forEach((step, i) => {
      const when = step.when === undefined ? '' : ` if ${step.when.variable} = ${step.when.equals.toString()}`;
      lines.push(`    ${String(i + 1).padStart(2)} ${stepText(report, step, null)}${when}`);
    });
  }
  if (story && failing) {
    lines.push(
      `  ${failing.shortest ? 'shortest schedule' : 'a schedule (the search for the shortest was cut)'}, ${String(story.steps.length)} events:`,
    );
    const rows = story.steps.map((step) => told(report, step));
    const wide = (pick: (row: Told) => string): number =>
      Math.min(28, rows.reduce((most, row) => Math.max(most, pick(row).length), 0));
    const [actors, places] = [wide(({ actor }) => actor), wide(({ where }) => where)];
    rows.forEach(({ actor, where, what, more }, i) => {
      lines.push(`  ${String(i + 1).padStart(4)} ${actor.padEnd(actors)}  ${where.padEnd(places)}  ${what}`);
      if (more.length > 0) lines.push(`       ${' '.repeat(actors + places + 4)}${more.join('; ')}`);
    });
    lines.push(`       ${failing.violation.rule}: ${failing.violation.message}`);
  }
  return lines;
} // prettier-ignore

function eventJson(report: RaceReport, step: StoryStep): Json {
  const { event, actor } = step;
  const { where, what } = told(report, step);
  const common = { actor: actor.name, kind: event.kind, place: where, text: what, watched: hexBytes(step.watched) };
  const registers = (changes: readonly { readonly name: string; readonly before: bigint; readonly after: bigint }[]) =>
    changes.map(({ name, before, after }) => ({ name, before: hex(before), after: hex(after) }));
  switch (event.kind) {
    case 'instruction':
      return {
        ...common,
        address: hex(event.address),
        bytes: hexBytes(event.bytes),
        stale: event.stale,
        traps: event.traps,
        registers: registers(event.registers),
        stores: event.stores.map(({ address, bytes }) => ({ address: hex(address), bytes: hexBytes(bytes) })),
      };
    case 'handler':
      return {
        ...common,
        address: hex(event.address),
        to: hex(event.to),
        registers: registers(event.registers),
      };
    case 'step':
      return { ...common, step: event.number + 1, skipped: event.skipped };
    case 'fetch':
      return common;
    default:
      return event satisfies never;
  }
} // prettier-ignore

/**
 * One race as data; numbers of schedules are decimal strings, because no other number holds them.
 */
export function raceJson(report: RaceReport): Json {
  const { result, story, sequence, request, demo } = report;
  const { counts, failing } = result;
  return {
    title: report.title,
    target: report.target,
    ...(request === null ? {} : { request }),
    ...(demo === null ? {} : { demo }),
    cpus: report.cpus,
    verdict: result.verdict,
    bounds: result.bounds.map((bound) => ({ kind: bound.kind, limit: bound.limit, text: boundText(bound) })),
    counts: {
      total: counts.total.toString(),
      explored: counts.explored.toString(),
      violated: counts.violated.toString(),
      pruned: counts.pruned.toString(),
      impossible: counts.impossible?.toString() ?? null,
      states: counts.states,
      events: counts.events,
      slots: counts.slots.map(({ actor, events }) => ({ actor, events })),
    },
    outcomes: [...counts.outcomes].map(([outcome, ways]) => ({ outcome, schedules: ways.toString() })),
    violations: result.violations.map(({ rule, thread, message, address }) => ({
      rule, thread, message, address: address === undefined ? null : hex(address),
    })),
    patchers: sequence.patchers.map(({ name, steps }) => ({
      name,
      steps: steps.map((step) => ({
        kind: step.kind,
        text: stepText(report, step, null),
        ...(step.kind === 'store' || step.kind === 'free' ? { address: hex(step.address) } : {}),
        ...(step.kind === 'store' ? { bytes: hexBytes(step.bytes) } : {}),
        ...(step.stopped === true ? { stopped: true } : {}),
      })),
    })),
    schedule:
      story && failing
        ? {
            shortest: failing.shortest,
            rule: failing.violation.rule,
            message: failing.violation.message,
            watch: { address: hex(story.watch.address), before: hexBytes(story.watchedFirst) },
            events: story.steps.map((step) => eventJson(report, step)),
          }
        : null,
  };
} // prettier-ignore

// -------------------------------------------------------------------------------------------- HTML

/** A text that fits a box; the whole of it is its title. */
const fitted = (text: string, most: number): string =>
  escapeHtml(text.length > most ? `${text.slice(0, most - 1)}…` : text);

const ROW = 36;
const LANE = 460;
const GUTTER = 46;
const HEAD = 34;

/**
 * Lanes of actors from left to right, time from top to bottom, the line from event to event, the
 * watched bytes at the right.
 */
function drawing(report: RaceReport, story: Story): string {
  const { failing } = report.result;
  const used = story.actors.filter(({ kind, index }) =>
    story.steps.some(({ actor }) => actor.kind === kind && actor.index === index),
  );
  const laneOf = ({ actor }: StoryStep): number =>
    used.findIndex(({ kind, index }) => kind === actor.kind && index === actor.index);
  const bytesAt = GUTTER + used.length * LANE + 8;
  const width = bytesAt + Math.max(190, story.watch.size * 19 + 20);
  const height = HEAD + story.steps.length * ROW + 8;
  const parts: string[] = [
    `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escapeHtml(report.title)}">`,
  ];
  used.forEach(({ name, kind }, i) => {
    const x = GUTTER + i * LANE;
    parts.push(
      `<rect class="lane ${kind}" x="${x}" y="0" width="${LANE - 6}" height="${height}"/>`,
      `<text class="head" x="${x + 8}" y="20">${escapeHtml(name)}</text>`,
    );
  });
  parts.push(`<text class="head" x="${bytesAt}" y="20">${fitted(report.placeOf(story.watch.address), 24)}</text>`);
  const centre = (i: number): string =>
    `${GUTTER + laneOf(story.steps[i]!) * LANE + 10},${HEAD + i * ROW + (ROW - 6) / 2}`;
  parts.push(`<polyline class="way" points="${story.steps.map((_, i) => centre(i)).join(' ')}"/>`);
  let before = story.watchedFirst;
  story.steps.forEach((step, i) => {
    const { where, what, more } = told(report, step);
    const last = i === story.steps.length - 1;
    const x = GUTTER + laneOf(step) * LANE + 4;
    const y = HEAD + i * ROW;
    const wrong = last && failing ? ' wrong' : '';
    const title = [where, what, ...more].filter((each) => each !== '').join('\n');
    parts.push(
      `<text class="number" x="4" y="${y + 19}">${i + 1}</text>`,
      `<g class="event ${step.event.kind}${wrong}"><title>${escapeHtml(title)}</title>`,
      `<rect x="${x}" y="${y}" width="${LANE - 14}" height="${ROW - 6}" rx="3"/>`,
      `<circle cx="${x + 6}" cy="${y + (ROW - 6) / 2}" r="3"/>`,
      `<text x="${x + 16}" y="${y + 12}">${fitted(where === '' ? what : `${where}  ${what}`, 58)}</text>`,
      `<text class="more" x="${x + 16}" y="${y + 25}">${fitted(more.join('; '), 64)}</text></g>`,
    );
    step.watched.forEach((byte, at) => {
      const changed = byte === before[at] ? '' : ' changed';
      parts.push(
        `<text class="byte${changed}" x="${bytesAt + at * 19}" y="${y + 19}">${byte.toString(16).padStart(2, '0')}</text>`,
      );
    });
    before = step.watched;
  });
  parts.push('</svg>');
  return parts.join('\n');
}

const style = `body{font:14px/1.45 system-ui,sans-serif;margin:24px;color:#1b1f24;background:#fff}
h1{font-size:20px}h2{font-size:16px;margin-top:36px;border-top:1px solid #d5dae0;padding-top:16px}
.holds{color:#14692f}.violated{color:#a4161a}.undecided{color:#8a5a00}
table{border-collapse:collapse;margin:8px 0}td,th{padding:2px 12px 2px 0;text-align:left;vertical-align:top}td.n{text-align:right}
code,svg text{font-family:ui-monospace,monospace;font-size:12px}.drawing{overflow-x:auto}
.lane{fill:#f3f5f8}.lane.patcher{fill:#fbf5e6}.lane.prefetch{fill:#eef6f0}.head{font-weight:600}.number{fill:#7a828c}
.way{fill:none;stroke:#4a6da7;stroke-width:1.5;opacity:.55}.event rect{fill:#fff;stroke:#c3cad3}.event circle{fill:#4a6da7}
.event.step rect{stroke:#d0a640}.event.step circle{fill:#b8860b}.event.handler rect{stroke:#7b5ea7}
.event.wrong rect{fill:#fdeaea;stroke:#a4161a;stroke-width:2}.event.wrong circle{fill:#a4161a}
.more{fill:#59616b;font-size:11px}.byte{fill:#59616b}.byte.changed{fill:#a4161a;font-weight:700}
@media(prefers-color-scheme:dark){body{color:#e6e9ed;background:#15181c}h2{border-color:#333a42}.holds{color:#5ac47d}.violated{color:#ff7b7b}.undecided{color:#e0b050}
svg text{fill:#e6e9ed}.lane{fill:#1d2228}.lane.patcher{fill:#26221a}.lane.prefetch{fill:#1a2420}.event rect{fill:#15181c;stroke:#444c56}.event.wrong rect{fill:#3a1d1f}
.more,.byte,.number{fill:#9aa3ad}.byte.changed{fill:#ff7b7b}}`;

function section(report: RaceReport): string {
  const { result, story, sequence } = report;
  const { counts, failing } = result;
  const row = (name: string, value: string): string => `<tr><th>${escapeHtml(name)}</th><td>${value}</td></tr>`;
  const parts = [
    `<h2 class="${result.verdict}">${escapeHtml(report.title)}: ${verdictTexts[result.verdict]}</h2>`,
    ...(failing ? [`<p><b>${escapeHtml(failing.violation.rule)}</b>: ${escapeHtml(failing.violation.message)}</p>`] : []),
    '<table>',
    row('target', escapeHtml(report.target)),
    row('orders of all events', `${countText(counts.total)} (${escapeHtml(counts.slots.map(({ actor, events }) => `${actor} ${events}`).join(', '))})`),
    row('explored', `${countText(counts.explored)} that can be told apart, in ${counts.states} states`),
    row('violated', countText(counts.violated)),
    ...result.bounds.map((bound) => row('bound', escapeHtml(boundText(bound)))),
    '</table>',
    '<table><tr><th>outcome</th><th>schedules</th></tr>',
    ...[...counts.outcomes].map(([outcome, ways]) => `<tr><td><code>${escapeHtml(outcome)}</code></td><td class="n">${countText(ways)}</td></tr>`),
    '</table>',
    ...sequence.patchers.map(({ name, steps }) =>
      [
        `<details${story ? '' : ' open'}><summary>${escapeHtml(name)}: ${steps.length} steps</summary><ol>`,
        ...steps.map((step) => `<li><code>${escapeHtml(stepText(report, step, null))}</code></li>`),
        '</ol></details>',
      ].join('\n'),
    ),
  ];
  if (story && failing) {
    const kind = failing.shortest ? 'The shortest schedule' : 'A schedule (the search for the shortest was cut)';
    parts.push(`<p>${kind}: ${story.steps.length} events.</p>`, `<div class="drawing">${drawing(report, story)}</div>`);
  }
  return parts.join('\n');
} // prettier-ignore

/** The page of some races. */
export function racePage(reports: readonly RaceReport[], title: string): string {
  const heading = `<h1>${escapeHtml(title)}</h1>`;
  return htmlFrame({ title, style, body: `${heading}\n${reports.map(section).join('\n')}` });
}
