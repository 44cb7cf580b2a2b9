/**
 * Races for people and programs: text, and JSON, of which `page/races.ts` makes the part of a page.
 * Gets results and the told schedule; texts of instructions and names of places come from the
 * caller.
 */
import { hex, hexBytes } from '../errors.js';
import type { ProbeEntry, RaceResult, RaceStep, Sequence, Story, StoryStep } from '../race/index.js';
import type { Address } from '../units.js';
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
  memory: (limit) => `the search ended when ${String(limit)} MiB of memory were nearly used up`,
  interrupted: () => 'the search was interrupted',
};

const boundText = ({ kind, limit }: RaceResult['bounds'][number]): string => boundTexts[kind](limit);

/** `1,234,567`, or powers of ten where digits would not be read. */
export function countText(count: bigint): string {
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

/** Events of each actor; a CPU that fetches several lines is one. */
function slotTexts(slots: RaceResult['counts']['slots']): string[] {
  const lines = new Map<string, number[]>();
  for (const { actor, events } of slots) {
    const name = actor.replace(/ fetches 0x[0-9a-f]+$/, ' fetches');
    lines.set(name, [...(lines.get(name) ?? []), events]);
  }
  return [...lines].map(([name, [events, ...more]]) =>
    more.length === 0
      ? `${name} ${String(events)}`
      : `${name} ${String(1 + more.length)} lines, ${String(events)} each`,
  );
}

/** The report as lines of text. */
export function raceLines(report: RaceReport, details = true): string[] {
  const { result, story, sequence, title } = report;
  const { counts, failing } = result;
  const lines = [`${title}: ${verdictTexts[result.verdict]}`];
  if (failing) {
    const { violation } = failing;
    lines.push(`  ${violation.rule}: ${violation.message}`);
  }
  const slots = slotTexts(counts.slots).join(', ');
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
        stores: event.stores.map(({ address, bytes }) => ({
          address: hex(address),
          place: report.placeOf(address),
          bytes: hexBytes(bytes),
        })),
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
            watch: {
              address: hex(story.watch.address),
              place: report.placeOf(story.watch.address),
              before: hexBytes(story.watchedFirst),
            },
            events: story.steps.map((step) => eventJson(report, step)),
          }
        : null,
  };
} // prettier-ignore
