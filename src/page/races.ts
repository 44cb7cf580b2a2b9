/**
 * What `race --json` wrote, for a page. Lines that are no such output are an error, and so is a
 * field that the page shows and that is not there.
 */
import { ElftraceError } from '../errors.js';
import { countText } from '../report/race.js';
import { visibleLine } from '../visible.js';
import type { PageRace, PageRaceEvent, PageSchedule } from './model.js';

export interface RaceText {
  /** For messages. */
  readonly name: string;
  /** One or more outputs of `race --json`, one a line. */
  readonly text: string;
}

/** A value of the JSON, with its place for messages. */
class Value {
  constructor(
    private readonly value: unknown,
    private readonly place: string,
  ) {}

  error(why: string): ElftraceError {
    return new ElftraceError('bad-record', `${this.place}: ${why}: no output of race --json`, { value: this.place });
  }

  field(name: string): Value {
    const { value } = this;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw this.error('no object');
    return new Value((value as Readonly<Record<string, unknown>>)[name], `${this.place}.${name}`);
  }

  get absent(): boolean {
    return this.value === undefined || this.value === null;
  }

  get isTrue(): boolean {
    return this.value === true;
  }

  get items(): Value[] {
    if (!Array.isArray(this.value)) throw this.error('no list');
    return this.value.map((each: unknown, i) => new Value(each, `${this.place}[${String(i)}]`));
  }

  get text(): string {
    if (typeof this.value !== 'string') throw this.error('no text');
    return visibleLine(this.value);
  }

  get number(): number {
    if (typeof this.value !== 'number') throw this.error('no number');
    return this.value;
  }

  /** Numbers of schedules are texts of digits. */
  get count(): string {
    const { text } = this;
    if (!/^\d{1,4000}$/.test(text)) throw this.error('no number of schedules');
    return countText(BigInt(text));
  }

  one<T extends string>(...words: readonly T[]): T {
    const found = words.find((each) => each === this.value);
    if (found === undefined) throw this.error(`none of ${words.join(', ')}`);
    return found;
  }
}

const actorKinds = { instruction: 'thread', handler: 'thread', step: 'patcher', fetch: 'prefetch' } as const;

function eventOf(value: Value, actor: number): PageRaceEvent {
  const kind = value.field('kind').one('instruction', 'handler', 'step', 'fetch');
  const [stores, registers] = [value.field('stores'), value.field('registers')];
  const more = [
    ...(value.field('stale').isTrue ? ['fetched before it was changed'] : []),
    ...(value.field('traps').isTrue ? ['traps'] : []),
    ...(stores.absent ? [] : stores.items).map((each) => {
      const place = each.field('place');
      return `stores ${each.field('bytes').text} at ${(place.absent ? each.field('address') : place).text}`;
    }),
  ];
  return {
    actor,
    kind,
    place: value.field('place').text,
    text: value.field('text').text,
    more,
    registers: (registers.absent ? [] : registers.items).map(
      (each) => [each.field('name').text, each.field('before').text, each.field('after').text] as const,
    ),
    watched: value.field('watched').text,
  };
}

function scheduleOf(value: Value): PageSchedule {
  const actors: PageSchedule['actors'][number][] = [];
  const events = value.field('events').items.map((each) => {
    const name = each.field('actor').text;
    let actor = actors.findIndex((known) => known.name === name);
    const event = eventOf(each, actor < 0 ? actors.length : actor);
    if (actor < 0) actor = actors.push({ name, kind: actorKinds[event.kind] }) - 1;
    return event;
  });
  const watch = value.field('watch');
  const place = watch.field('place');
  return {
    shortest: value.field('shortest').isTrue,
    watch: (place.absent ? watch.field('address') : place).text,
    before: watch.field('before').text,
    actors,
    events,
  };
}

function factsOf(value: Value): [string, string][] {
  const [request, demo, counts] = [value.field('request'), value.field('demo'), value.field('counts')];
  const asked: [string, string][] = [];
  if (!request.absent) {
    const probe = request.field('probe');
    const variants = request.field('variants').items.map(({ text }) => text);
    asked.push([probe.absent ? 'Function' : 'Probe', (probe.absent ? request.field('function') : probe).text]);
    asked.push(['Change', `${request.field('from').text} to ${request.field('to').text}`]);
    asked.push(['Preemption', request.field('preempt').text]);
    if (variants.length > 0) asked.push(['Left out of the sequence', variants.join(', ')]);
  }
  if (!demo.absent)
    asked.push(['Form', `${demo.field('form').text}, ${demo.field('safe').isTrue ? 'safe' : 'not safe'}`]);
  const slots = counts.field('slots').items.map((each) => `${each.field('actor').text} ${each.field('events').number}`);
  return [
    ['Target', value.field('target').text],
    ...asked,
    ['Orders of all events', `${counts.field('total').count} (${slots.join(', ')})`],
    [
      'Explored',
      `${counts.field('explored').count} that can be told apart, in ${counts.field('states').number} states`,
    ],
    ['Violated', counts.field('violated').count],
    ...value.field('bounds').items.map((each): [string, string] => ['Bound', each.field('text').text]),
  ];
}

function raceOf(value: Value): PageRace {
  const schedule = value.field('schedule');
  const verdict = value.field('verdict').one('holds', 'violated', 'undecided');
  const [first] = value.field('violations').items;
  const told = schedule.absent ? first : schedule;
  return {
    title: value.field('title').text,
    verdict,
    violation: told === undefined ? '' : `${told.field('rule').text}: ${told.field('message').text}`,
    facts: factsOf(value),
    outcomes: value
      .field('outcomes')
      .items.map((each) => [each.field('outcome').text, each.field('schedules').count] as const),
    patchers: value.field('patchers').items.map((each) => ({
      name: each.field('name').text,
      steps: each.field('steps').items.map((step) => step.field('text').text),
    })),
    schedule: schedule.absent ? null : scheduleOf(schedule),
  };
}

/** @throws ElftraceError 'bad-record' */
export function pageRaces(texts: readonly RaceText[]): PageRace[] {
  return texts.flatMap(({ name, text }) => {
    const lines = text.split('\n').flatMap((each, i) => (each.trim() === '' ? [] : [{ each, line: i + 1 }]));
    const races = lines.flatMap(({ each, line }) => {
      const place = `${name}: line ${String(line)}`;
      let value: unknown;
      try {
        value = JSON.parse(each);
      } catch {
        throw new ElftraceError('bad-record', `${place}: no JSON, as race --json writes`, { value: line });
      }
      return new Value(value, place).field('races').items.map(raceOf);
    });
    if (races.length === 0) throw new ElftraceError('bad-record', `${name}: no race is in it`, { value: name });
    return races;
  });
}
