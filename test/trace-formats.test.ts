/**
 * Forms of a trace. Small traces are written out by hand; those of a sample are derived here from
 * the events themselves, by other means than the writers use.
 */
import { describe, expect, test } from '@jest/globals';
import { startProcess } from '../src/guest/index.js';
import {
  isTraceFormat,
  type TracedFunction,
  tracedFunctions,
  type TraceEvent,
  type TraceFormat,
  traceFormats,
  type TraceHeader,
  traceWithOracle,
  traceWriter,
} from '../src/trace/index.js';
import { openBytes, readSample } from './support/pipeline.js';

const fn = (index: number, name: string): TracedFunction => ({
  index,
  name,
  address: BigInt(0x100 * (index + 1)),
  otherEntries: [],
  site: BigInt(0x100 * (index + 1)),
});
const [main, leaf, deep] = [fn(0, 'main'), fn(1, 'leaf'), fn(2, 'deep')] as const;
const entry = (f: TracedFunction, depth: number, time: number, parent: bigint, cpu = 0): TraceEvent => ({
  kind: 'entry',
  function: f,
  cpu,
  depth,
  time,
  instructions: time,
  parent,
});
const back = (f: TracedFunction, depth: number, time: number, cpu = 0, unwound = false): TraceEvent => ({
  kind: 'return',
  function: f,
  cpu,
  depth,
  time,
  instructions: time,
  unwound,
});

/** main calls leaf, then deep, which calls leaf and records something; main is left by exit. */
const trace: readonly TraceEvent[] = [
  entry(main, 0, 1000, 0x50n),
  entry(leaf, 1, 1010, 0x120n),
  back(leaf, 1, 1017),
  entry(deep, 1, 1020, 0x140n),
  entry(leaf, 2, 2030, 0x310n),
  back(leaf, 2, 2031),
  { kind: 'user', function: deep, cpu: 0, depth: 2, time: 2040, instructions: 2040, ip: 0x30cn, parent: 0x140n },
  back(deep, 1, 2520),
  back(main, 0, 1_234_567, 0, true),
];

const header: TraceHeader = {
  source: 'guest',
  image: 'dir/two words',
  clock: 'instructions',
  nested: true,
  losses: { written: 12, kept: 9, dropped: 2 },
  process: 1000,
  nameOf: (address) => (address >= 0x100n && address < 0x200n ? 'main' : address >= 0x300n ? 'deep' : ''),
};

function bytesOf(format: TraceFormat, events: readonly TraceEvent[], about: TraceHeader = header): Uint8Array {
  const pieces: number[] = [];
  const sink = traceWriter(format, (bytes) => pieces.push(...bytes), about);
  for (const event of events) sink.event(event);
  sink.end([0]);
  return Uint8Array.from(pieces);
}

const textOf = (format: TraceFormat, events: readonly TraceEvent[], about: TraceHeader = header): string =>
  new TextDecoder().decode(bytesOf(format, events, about));

test('names of the formats', () => {
  expect(Object.keys(traceFormats)).toEqual(['ndjson', 'folded', 'ftrace', 'graph', 'chrome', 'perfetto']);
  expect([isTraceFormat('graph'), isTraceFormat('toString'), isTraceFormat('svg')]).toEqual([true, false, false]);
});

describe('ftrace', () => {
  test('one line an entry, as the function tracer prints them', () => {
    expect(textOf('ftrace', trace)).toBe(`# tracer: function
#
# clock: instructions
# image: dir/two words, recorded by the program itself
# entries-in-buffer/entries-written: 9/12   #P:1
# dropped: 2
#
#              TASK-PID [CPU] FLAGS    TIMESTAMP: FUNCTION <-CALLER
         two_words-1000 [000] .....         1000: main <-0x50
         two_words-1000 [000] .....         1010: leaf <-main
         two_words-1000 [000] .....         1020: deep <-main
         two_words-1000 [000] .....         2030: leaf <-deep
         two_words-1000 [000] .....         2040: user: deep+0xc <-main
`);
  });

  test('readers of the format find task, CPU, time, function and caller', () => {
    // The fields by which scripts take a line of the file `trace` apart.
    const pattern =
      /^\s*(?<task>.{1,16}?)-(?<pid>\d+)\s+\[(?<cpu>\d{3})\] (?<flags>\S{5})\s+(?<time>[\d.]+): (?<name>\S+) <-(?<caller>\S+)$/;
    const lines = textOf(
      'ftrace',
      trace.filter((event) => event.kind === 'entry'),
    )
      .trimEnd()
      .split('\n');
    const rows = lines.filter((line) => !line.startsWith('#')).map((line) => pattern.exec(line)?.groups);
    expect(rows.map((row) => [row?.['task'], row?.['pid'], row?.['cpu'], row?.['time'], row?.['name'], row?.['caller']])).toEqual([
      ['two_words', '1000', '000', '1000', 'main', '0x50'],
      ['two_words', '1000', '000', '1010', 'leaf', 'main'],
      ['two_words', '1000', '000', '1020', 'deep', 'main'],
      ['two_words', '1000', '000', '2030', 'leaf', 'deep'],
    ]); // prettier-ignore
  });

  test('nanoseconds are seconds and microseconds', () => {
    const about: TraceHeader = { ...header, clock: 'nanoseconds', losses: null };
    const text = textOf('ftrace', [entry(main, 0, 17_284_993_652_999, 0x50n)], about);
    expect(text).toContain(' 17284.993652: main <-0x50\n');
    expect(text).toContain('# clock: nanoseconds\n');
    expect(text).not.toContain('entries-written');
  });
});

describe('graph', () => {
  test('indented by depth, durations where functions end', () => {
    expect(textOf('graph', trace)).toBe(`# tracer: function_graph
#
# clock: instructions
# image: dir/two words, recorded by the program itself
# entries-in-buffer/entries-written: 9/12   #P:1
# dropped: 2
#
# CPU  DURATION (instructions)  FUNCTION CALLS
  0)               |  main() {
  0)            7  |    leaf();
  0)               |    deep() {
  0)            1  |      leaf();
  0)               |      /* user: deep+0xc */
  0)         1500  |    } /* deep */
  0)      1233567  |  } /* main, did not return */
`);
  });

  test('CPUs in turn; a leaf that was left; nanoseconds', () => {
    const events = [
      entry(main, 0, 5, 0x50n, 0),
      entry(leaf, 0, 6, 0x50n, 1),
      back(leaf, 0, 1_500_006, 1),
      back(main, 0, 2_000_005, 0),
      entry(deep, 0, 2_000_006, 0x50n, 0),
      back(deep, 0, 2_000_007, 0, true),
    ];
    const text = textOf('graph', events, { ...header, clock: 'nanoseconds', losses: null, source: 'oracle' });
    expect(text.split('\n').slice(3)).toEqual([
      '# image: dir/two words, recorded by the machine',
      '#',
      '# CPU  DURATION (us)  FUNCTION CALLS',
      '  0)               |  main() {',
      '  1)  1500.000 us  |  leaf();',
      '  0)  2000.000 us  |  } /* main */',
      '  0)     0.001 us  |  deep(); /* did not return */',
      '',
    ]);
  });

  test('a trace of entries only says so', () => {
    const text = textOf('graph', [entry(main, 0, 1, 0n), entry(leaf, 0, 2, 0n)], { ...header, nested: false });
    expect(text).toContain('# entries only: the tracer records no returns\n');
    expect(text.trimEnd().split('\n').slice(-2)).toEqual([
      '  0)               |  main();',
      '  0)               |  leaf();',
    ]);
  });
});

describe('chrome', () => {
  test('JSON with begin and end of each function; times are instructions, and no unit of time is named', () => {
    const parsed = JSON.parse(textOf('chrome', trace)) as {
      displayTimeUnit?: string;
      otherData: unknown;
      traceEvents: Record<string, unknown>[];
    };
    expect(parsed.displayTimeUnit).toBeUndefined();
    expect(parsed.otherData).toEqual({
      clock: 'instructions', time: 'ts and durations are instructions, one each', source: 'guest', image: 'dir/two words', written: 12, kept: 9, dropped: 2,
    }); // prettier-ignore
    expect(parsed.traceEvents.slice(0, 2)).toEqual([
      { ph: 'M', pid: 1000, name: 'process_name', args: { name: 'dir/two words (time is instructions)' } },
      { ph: 'M', pid: 1000, tid: 0, name: 'thread_name', args: { name: 'CPU 0 (time is instructions)' } },
    ]);
    expect(parsed.traceEvents.slice(2).map((each) => [each['ph'], each['name'], each['ts']])).toEqual([
      ['B', 'main', 1000],
      ['B', 'leaf', 1010],
      ['E', 'leaf', 1017],
      ['B', 'deep', 1020],
      ['B', 'leaf', 2030],
      ['E', 'leaf', 2031],
      ['i', 'user: deep', 2040],
      ['E', 'deep', 2520],
      ['E', 'main', 1234567],
    ]);
  });

  test('a clock of nanoseconds is time: microseconds with three digits, displayed as ns', () => {
    const parsed = JSON.parse(textOf('chrome', trace, { ...header, clock: 'nanoseconds' })) as {
      displayTimeUnit?: string;
      traceEvents: { ts?: number; args?: { name?: string } }[];
    };
    expect(parsed.displayTimeUnit).toBe('ns');
    expect(parsed.traceEvents.map(({ ts }) => ts).at(-1)).toBe(1234.567);
    expect(parsed.traceEvents.slice(0, 2).map(({ args }) => args?.name)).toEqual(['dir/two words', 'CPU 0']);
  });

  test('no events, and entries only', () => {
    expect((JSON.parse(textOf('chrome', [])) as { traceEvents: unknown[] }).traceEvents.length).toBe(1);
    const flat = JSON.parse(textOf('chrome', trace.filter(({ kind }) => kind === 'entry'), { ...header, nested: false })) as {
      traceEvents: { ph: string }[];
    }; // prettier-ignore
    expect(flat.traceEvents.map(({ ph }) => ph)).toEqual(['M', 'M', 'i', 'i', 'i', 'i']);
  });
});

/** A protobuf message, read by the wire format alone: field -> values. */
function fields(bytes: Uint8Array): Map<number, (bigint | Uint8Array)[]> {
  const found = new Map<number, (bigint | Uint8Array)[]>();
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const key = Number(varint());
    let value: bigint | Uint8Array;
    if ((key & 7) === 0) value = varint();
    else {
      expect(key & 7).toBe(2);
      const size = Number(varint());
      value = bytes.subarray(at, at + size);
      at += size;
      expect(at).toBeLessThanOrEqual(bytes.length);
    }
    found.set(key >>> 3, [...(found.get(key >>> 3) ?? []), value]);
  }
  return found;
}

const one = (message: Map<number, (bigint | Uint8Array)[]>, field: number): bigint | Uint8Array | undefined => {
  const values = message.get(field) ?? [];
  expect(values.length).toBeLessThanOrEqual(1);
  return values[0];
};
const sub = (value: bigint | Uint8Array | undefined): Map<number, (bigint | Uint8Array)[]> => {
  if (!(value instanceof Uint8Array)) throw new Error('no message');
  return fields(value);
};
const string = (value: bigint | Uint8Array | undefined): string =>
  value instanceof Uint8Array ? new TextDecoder().decode(value) : '';

/**
 * `type name timestamp track` of each event, descriptors as their names. Field numbers as in
 * Perfetto's protos.
 */
function perfettoRows(bytes: Uint8Array): string[] {
  const names = new Map<bigint, string>();
  const tracks = new Map<bigint, string>();
  return (fields(bytes).get(1) ?? []).map((raw, index) => {
    const packet = sub(raw);
    expect(one(packet, 10)).toBe(1n);
    expect(one(packet, 13)).toBe(index === 0 ? 1n : 2n);
    if (packet.has(60)) {
      const track = sub(one(packet, 60));
      const process = track.has(3) ? sub(one(track, 3)) : null;
      const thread = track.has(4) ? sub(one(track, 4)) : null;
      const label = process
        ? `process ${one(process, 1) as bigint} ${string(one(process, 6))}`
        : string(one(thread!, 5));
      tracks.set(one(track, 1) as bigint, label);
      return label;
    }
    if (packet.has(12)) {
      for (const each of sub(one(packet, 12)).get(2) ?? []) {
        const name = sub(each);
        names.set(one(name, 1) as bigint, string(one(name, 2)));
      }
    }
    const event = sub(one(packet, 11));
    const type = ['', 'begin', 'end', 'instant'][Number(one(event, 9))]!;
    const id = one(event, 10);
    const name = typeof id === 'bigint' ? ` ${names.get(id) ?? '?'}` : '';
    return `${type}${name} ${one(packet, 8) as bigint} ${tracks.get(one(event, 11) as bigint) ?? '?'}`;
  });
}

describe('perfetto', () => {
  test('packets: tracks, slices with interned names, instants', () => {
    expect(perfettoRows(bytesOf('perfetto', trace))).toEqual([
      'process 1000 dir/two words (time is instructions)',
      'CPU 0 (time is instructions)',
      'begin main 1000 CPU 0 (time is instructions)',
      'begin leaf 1010 CPU 0 (time is instructions)',
      'end 1017 CPU 0 (time is instructions)',
      'begin deep 1020 CPU 0 (time is instructions)',
      'begin leaf 2030 CPU 0 (time is instructions)',
      'end 2031 CPU 0 (time is instructions)',
      'instant user: deep 2040 CPU 0 (time is instructions)',
      'end 2520 CPU 0 (time is instructions)',
      'end 1234567 CPU 0 (time is instructions)',
    ]);
    // Exact far beyond 32 bits.
    expect(perfettoRows(bytesOf('perfetto', [entry(main, 0, 2 ** 53 - 1, 0n, 200)])).at(-1)).toBe(
      `begin main ${2n ** 53n - 1n} CPU 200 (time is instructions)`,
    );
  });
});

describe('a sample in every form', () => {
  const { image, arch, program } = openBytes(readSample('ppc64-elfv2-le/program-mprofile'));
  const events: TraceEvent[] = [];
  const about: TraceHeader = { ...header, source: 'oracle', losses: null, nameOf: () => '' };
  const pieces = new Map<TraceFormat, Uint8Array[]>();
  if (arch.emulation.kind === 'none') throw new Error(arch.emulation.reason);
  const guest = startProcess({ image, abi: arch.abi, emulation: arch.emulation, args: ['p'] });
  const sinks = (Object.keys(traceFormats) as TraceFormat[]).map((format) => {
    const own: Uint8Array[] = [];
    pieces.set(format, own);
    return traceWriter(format, (bytes) => own.push(bytes.slice()), about);
  });
  const oracle = traceWithOracle(guest.machine, {
    functions: tracedFunctions(program, { bias: guest.bias }),
    stackPointer: arch.abi.stackPointer,
    linkRegister: arch.abi.linkRegister,
    sinks: [...sinks, { event: (event) => events.push({ ...event }), end: () => undefined }],
  });
  guest.run();
  oracle.finish();
  const text = (format: TraceFormat): string => Buffer.concat(pieces.get(format)!).toString('utf8');

  test('graph: depth and duration of every function, from the events', () => {
    // By pairing from the innermost outwards instead of a stack per line: the first return of the
    // depth after an entry.
    const expected = events.flatMap((event, i) => {
      if (event.kind !== 'entry') return [];
      const end = events.slice(i + 1).find((each) => each.kind === 'return' && each.depth === event.depth)!;
      return [`${event.depth} ${event.function.name} ${end.time - event.time}`];
    });
    const found: string[] = [];
    const open: number[] = [];
    for (const line of text('graph').trimEnd().split('\n')) {
      if (line.startsWith('#')) continue;
      const [, time, indent, name, rest] = /^ {2}0\) +(\d*) {2}\| {2}( *)(?:\} \/\* )?([\w.$]+)(.*)$/.exec(line)!;
      const depth = indent!.length / 2;
      if (rest === '() {') open.push(found.push(`${depth} ${name} `) - 1);
      else if (rest!.startsWith('();')) found.push(`${depth} ${name} ${time}`);
      else {
        const at = open.pop()!;
        expect(found[at]).toBe(`${depth} ${name} `);
        found[at] += time!;
      }
    }
    expect(found).toEqual(expected);
    expect(expected.length).toBeGreaterThan(49);
  });

  test('every form has every entry once', () => {
    const entries = events.filter(({ kind }) => kind === 'entry').length;
    const count = (format: TraceFormat, pattern: RegExp): number => text(format).match(pattern)?.length ?? 0;
    expect(count('ftrace', /^ .* <-/gm)).toBe(entries);
    expect(count('graph', /\(\)(;| \{)/g)).toBe(entries);
    expect(count('ndjson', /"kind":"entry"/g)).toBe(entries);
    expect(count('chrome', /"ph":"B"/g)).toBe(entries);
    expect(count('chrome', /"ph":"E"/g)).toBe(entries);
    JSON.parse(text('chrome'));
    const rows = perfettoRows(Buffer.concat(pieces.get('perfetto')!));
    expect(rows.filter((row) => row.startsWith('begin ')).map((row) => row.split(' ')[1])).toEqual(
      events.flatMap((event) => (event.kind === 'entry' ? [event.function.name] : [])),
    );
    expect(rows.filter((row) => row.startsWith('end ')).length).toBe(entries);
    process.stdout.write(
      `${entries} entries: ${[...pieces].map(([format, own]) => `${format} ${Buffer.concat(own).length} bytes`).join(', ')}\n`,
    );
  });
});
