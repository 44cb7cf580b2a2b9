/**
 * The guest's ring, and what becomes of its records: order, losses, pairs of entries and returns.
 * Rings are written by hand.
 */
import { describe, expect, test } from '@jest/globals';
import * as runtime from '../src/runtime/abi.js';
import type { Endian } from '../src/units.js';
import {
  foldedWriter,
  readRing,
  replayRing,
  type Ring,
  RING_HEADER_BYTES,
  RING_KEEPS_OLDEST,
  RING_MAGIC,
  RING_RECORD_BYTES,
  ringClock,
  ringIsNested,
  ringLosses,
  ringNotices,
  type TracedFunction,
  type TraceEvent,
} from '../src/trace/index.js';
import { type HandRecord, type HandRing, memoryOf, ringBytes } from './support/ring.js';

const BASE = 0xc000_0000_0000_1000n;

function read(ring: HandRing): Ring {
  return readRing(memoryOf(ringBytes(ring), BASE), BASE, ring.endian);
}

const ENTRY = 1;
const RETURN = 2;

/** Functions a (0x100), b (0x200), c (0x300, site in front of it). */
const functions: readonly TracedFunction[] = ['a', 'b', 'c'].map((name, index) => {
  const address = BigInt(0x100 * (index + 1));
  return { index, name, address, otherEntries: [], site: name === 'c' ? address - 4n : address + 8n };
});
const IP = { a: 0x108, b: 0x208, c: 0x2fc } as const;
const enter = (name: keyof typeof IP, time: number, parent = 0x1000, cpu = 0): HandRecord => ({
  time,
  ip: IP[name],
  parent,
  kind: ENTRY,
  cpu,
});
const leave = (name: keyof typeof IP, time: number, cpu = 0): HandRecord => ({
  time,
  ip: IP[name],
  parent: 0x1000,
  kind: RETURN,
  cpu,
});

function replay(records: readonly HandRecord[], options: Partial<HandRing> = {}) {
  const ring = read({ endian: 'big', capacity: 64, records, ...options });
  const events: string[] = [];
  let times: readonly number[] = [];
  const text = (event: TraceEvent): string => {
    const mark = event.kind === 'entry' ? '>' : event.kind === 'return' ? (event.unwound ? '!' : '<') : event.kind;
    return `${mark}${event.function.name} ${event.depth} ${event.time} ${event.cpu}`;
  };
  const result = replayRing(ring, functions, [
    { event: (event) => events.push(text(event)), end: (at) => (times = at) },
  ]);
  return { ring, events, times, result };
}

describe.each<Endian>(['little', 'big'])('ring, %s-endian', (endian) => {
  test('header and records', () => {
    const records = [
      { time: 5, ip: 0x10000010, parent: 0x2000, kind: 1, cpu: 0 },
      { time: 0x1_0000_0007, ip: 0x10000010, parent: 0x2000, kind: 2, cpu: 3 },
      { time: 9, ip: 1, parent: 2, kind: 3 },
      { time: 10, ip: 3, parent: 4, kind: 4 },
      { time: 11, ip: 5, parent: 6, kind: 5 },
    ];
    const ring = read({ endian, capacity: 8, records, dropped: 7 });
    expect(ring.records).toEqual([
      { kind: 'entry', time: 5n, ip: 0x10000010n, parent: 0x2000n, cpu: 0 },
      { kind: 'return', time: 0x1_0000_0007n, ip: 0x10000010n, parent: 0x2000n, cpu: 3 },
      { kind: 'direct', time: 9n, ip: 1n, parent: 2n, cpu: 0 },
      { kind: 'probe', time: 10n, ip: 3n, parent: 4n, cpu: 0 },
      { kind: 'user', time: 11n, ip: 5n, parent: 6n, cpu: 0 },
    ]);
    expect([ring.version, ring.capacity, ring.written, ring.dropped, ring.overwritten, ring.unreadable]).toEqual([
      1,
      8,
      5n,
      7n,
      0n,
      0,
    ]);
    expect(ringLosses(ring)).toEqual({ written: 5, kept: 5, dropped: 7 });
  });

  test('wrap-around: the last `capacity` are there, oldest first', () => {
    for (let count = 0; count <= 20; count++) {
      const records = Array.from({ length: count }, (_, i) => ({ time: i, ip: 0x1000 + i, parent: 0, kind: 1 }));
      const ring = read({ endian, capacity: 4, records });
      expect(ring.records.map((each) => Number(each.time))).toEqual(records.slice(-4).map((each) => each.time));
      expect(ring.overwritten).toBe(BigInt(Math.max(0, count - 4)));
    }
  });
});

describe.each<Endian>(['little', 'big'])('RT-11: short records, %s-endian', (endian) => {
  const CALL = 7;
  const FAR = 8;
  const DATA = 6;
  const short = { endian, capacity: 8, version: 2 } as const;
  const own = (half: number): bigint => (BASE & ~0xffff_ffffn) | BigInt(half);

  test('addresses have the upper half of the ring, or say their own', () => {
    const ring = read({
      ...short,
      records: [
        { time: 5, ip: 0x10000010, parent: 0xf000_2000, kind: CALL, cpu: 3 },
        { time: 6, ip: 0x20, parent: 0x30, kind: CALL | FAR, cpu: 1 },
        { time: 0, ip: 0x7fff, parent: 0xc000_0000, kind: DATA },
        { time: 7, ip: 0x40, parent: 0x50, kind: RETURN },
      ],
    });
    expect(ring.records).toEqual([
      { kind: 'call', time: 5n, ip: own(0x10000010), parent: own(0xf000_2000), cpu: 3 },
      { kind: 'call', time: 6n, ip: 0x7fff_0000_0020n, parent: 0xc000_0000_0000_0030n, cpu: 1 },
      { kind: 'return', time: 7n, ip: own(0x40), parent: own(0x50), cpu: 0 },
    ]);
    expect([ring.version, ring.written, ring.unreadable]).toEqual([2, 4n, 0]);
  });

  test('upper halves whose record was overwritten are dropped, a record without its own is unreadable', () => {
    const far = { time: 6, ip: 0x20, parent: 0x30, kind: CALL | FAR };
    const upper = { time: 0, ip: 1, parent: 1, kind: DATA };
    const near = { time: 9, ip: 0x40, parent: 0x50, kind: CALL };
    const wrapped = read({ ...short, capacity: 2, records: [far, upper, near] });
    expect([wrapped.records.map(({ time }) => time), wrapped.unreadable]).toEqual([[9n], 0]);
    for (const records of [
      [near, far],
      [far, near],
      [{ ...near, kind: 0 }, near, near],
    ]) {
      const { unreadable, records: found } = read({ ...short, records });
      expect([unreadable, found.length]).toEqual([1, records.length - 1]);
    }
  });

  test('what a probe fetched is one word a record', () => {
    const words = [1, 2].map((n) => ({ time: 0, ip: n, parent: 0x1234, kind: DATA }));
    const near = { time: 9, ip: 0x40, parent: 0x50, kind: CALL };
    const probe = { time: 6, ip: 0x20, parent: 0x30, kind: 4 | FAR };
    const { records } = read({ ...short, records: [probe, words[0]!, ...words, near, words[0]!] });
    expect(records.map((each) => each.words)).toEqual([[0x1234_0000_0001n, 0x1234_0000_0002n], undefined]);
  });

  test('times of 56 bits go on where they begin anew, and may be a little out of order', () => {
    const bytes = ringBytes({ ...short, records: [1, 2, 3, 4].map((ip) => ({ time: 0, ip, parent: 0, kind: CALL })) });
    const view = new DataView(bytes.buffer);
    const times = [2n ** 56n - 2n, 2n ** 56n - 3n, 1n, 5n];
    times.forEach((time, i) => {
      view.setBigUint64(64 + 16 * i, BigInt.asUintN(64, time << 8n) | 7n, endian === 'little');
    });
    const found = readRing(memoryOf(bytes, BASE), BASE, endian).records.map(({ time }) => time);
    expect(found).toEqual([2n ** 56n - 2n, 2n ** 56n - 3n, 2n ** 56n + 1n, 2n ** 56n + 5n]);
  });

  test('without times records are numbered', () => {
    const records = [7, 8].map((ip) => ({ time: 0, ip, parent: 0, kind: CALL }));
    const ring = read({ ...short, flags: 2, records });
    expect([ring.records.map(({ time }) => time), ringClock(ring, 'emulator')]).toEqual([[0n, 1n], 'events']);
    // The flag is one of version 2.
    expect(ringClock(read({ endian, capacity: 4, records, flags: 2 }), 'emulator')).toBe('instructions');
  });
});

test('the layout is that of the runtime', () => {
  expect(String.fromCharCode(...RING_MAGIC)).toBe(runtime.RING_MAGIC);
  expect([RING_HEADER_BYTES, RING_RECORD_BYTES, RING_KEEPS_OLDEST]).toEqual([
    runtime.RING_HEADER_BYTES,
    runtime.RING_RECORD_BYTES,
    runtime.RING_FLAGS.keepOldest,
  ]);
});

describe('what is no ring', () => {
  const good = { endian: 'little', capacity: 4, records: [] } as const;

  test.each<[string, Partial<HandRing>, string, RegExp]>([
    ['magic', { magic: 'ELFTRCE2' }, 'bad-record', /at 0xc000000000001000: it does not begin with ELFTRCE1/],
    ['later version', { version: 3 }, 'bad-record', /version 3 is not known, 1 and 2 are/],
    ['version 0', { version: 0 }, 'bad-record', /version 0 is not known/],
    ['the other byte order', { version: 0x0100_0000 }, 'bad-record', /version 16777216 is not known/],
    ['record size', { recordBytes: 40 }, 'bad-record', /records of 40 bytes, version 1 has 32/],
    ['record size of version 2', { version: 2, recordBytes: 32 }, 'bad-record', /of 32 bytes, version 2 has 16/],
  ])('%s is refused with place and cause', (_, change, code, message) => {
    const act = (): unknown => read({ ...good, ...change });
    expect(act).toThrow(expect.objectContaining({ code }));
    expect(act).toThrow(message);
  });

  test('capacity: 0, no power of two, too large', () => {
    for (const capacity of [0, 3, 0x8000_0000, 0xffff_ffff]) {
      const bytes = ringBytes({ ...good, capacity: 4 });
      new DataView(bytes.buffer).setUint32(16, capacity, true);
      expect(() => readRing(memoryOf(bytes, BASE), BASE, 'little')).toThrow(/is no power of two/);
    }
  });

  test('memory that is not there: the header, or the records', () => {
    const bytes = ringBytes({ ...good, records: [{ time: 1, ip: 1, parent: 1, kind: 1 }] });
    const missing = expect.objectContaining({ code: 'bad-reference' }) as object;
    expect(() => readRing(memoryOf(bytes.subarray(0, 63), BASE), BASE, 'little')).toThrow(missing);
    expect(() => readRing(memoryOf(bytes.subarray(0, 95), BASE), BASE, 'little')).toThrow(missing);
    // Only what is in use is read.
    expect(readRing(memoryOf(bytes.subarray(0, 96), BASE), BASE, 'little').records.length).toBe(1);
    expect(() => readRing(memoryOf(bytes, BASE), 0n, 'little')).toThrow(missing);
  });

  test('records of no kind are counted: one was being written when the program ended', () => {
    const ring = read({ ...good, records: [{ time: 1, ip: 1, parent: 1, kind: 1 }], head: 2 });
    expect([ring.records.length, ring.unreadable, ring.written]).toEqual([1, 1, 2n]);
    const { result } = replay([]);
    expect(ringNotices(ring, result)).toEqual([
      '1 records are of no known kind: not finished when the program ended, or damaged',
    ]);
  });
});

describe('events of a ring', () => {
  test('entries and returns are paired, with depth', () => {
    const { events, times, result } = replay([
      enter('a', 10),
      enter('b', 12),
      leave('b', 15),
      enter('c', 16),
      enter('c', 17),
      leave('c', 20),
      leave('c', 21),
      leave('a', 30),
    ]);
    expect(events).toEqual([
      '>a 0 10 0', '>b 1 12 0', '<b 1 15 0', '>c 1 16 0', '>c 2 17 0', '<c 2 20 0', '<c 1 21 0', '<a 0 30 0',
    ]); // prettier-ignore
    expect(times).toEqual([30]);
    expect(result).toEqual({ events: 8, orphans: 0, open: 0 });
  });

  test('what did not return is unwound: by a return further out, or at the end', () => {
    const { events, result } = replay([
      enter('a', 1),
      enter('b', 2),
      enter('c', 3),
      leave('a', 9),
      enter('b', 10),
      enter('c', 11),
    ]);
    expect(events).toEqual([
      '>a 0 1 0', '>b 1 2 0', '>c 2 3 0', '!c 2 9 0', '!b 1 9 0', '<a 0 9 0', '>b 0 10 0', '>c 1 11 0', '!c 1 11 0', '!b 0 11 0',
    ]); // prettier-ignore
    expect(result).toEqual({ events: 10, orphans: 0, open: 4 });
  });

  test('a full ring: returns without their entries are left out and said', () => {
    const records = [enter('a', 1), enter('b', 2), leave('b', 3), enter('c', 4), leave('c', 5), leave('a', 6)];
    const { events, ring, result } = replay(records, { capacity: 4, dropped: 2 });
    expect(events).toEqual(['>c 0 4 0', '<c 0 5 0']);
    expect(result).toEqual({ events: 2, orphans: 2, open: 0 });
    expect(ringNotices(ring, result)).toEqual([
      'the ring holds 4 events: the oldest 2 of 6 were overwritten',
      '2 returns are left out: their entries were overwritten',
      '2 events could not be recorded by the program',
    ]);
  });

  test('a full ring that keeps the oldest', () => {
    const { ring, result } = replay([enter('a', 1), leave('a', 2)], { capacity: 2, dropped: 5, flags: 1 });
    expect(ringNotices(ring, result)).toEqual([
      'the ring holds 2 events and keeps the oldest: 5 later ones were dropped',
    ]);
  });

  test('a tracer without returns: depth 0, nothing unwound', () => {
    const { events, ring, result } = replay([enter('a', 1), enter('b', 2), enter('c', 3)]);
    expect(ringIsNested(ring)).toBe(false);
    expect(events).toEqual(['>a 0 1 0', '>b 0 2 0', '>c 0 3 0']);
    expect(result.open).toBe(0);
    expect(ringNotices(ring, result)).toEqual([]);
  });

  test('CPUs have stacks of their own; thread ids become small numbers', () => {
    const { events } = replay([
      enter('a', 1, 0, 1),
      enter('a', 2, 0, 0),
      leave('a', 3, 1),
      enter('b', 4, 0, 0),
      leave('b', 5, 0),
      leave('a', 6, 0),
    ]);
    expect(events).toEqual(['>a 0 1 1', '>a 0 2 0', '<a 0 3 1', '>b 1 4 0', '<b 1 5 0', '<a 0 6 0']);
    const large = replay([enter('a', 1, 0, 4_000_000), enter('b', 2, 0, 12), leave('a', 3, 4_000_000)]);
    expect(large.events.slice(0, 3)).toEqual(['>a 0 1 0', '>b 0 2 1', '<a 0 3 0']);
  });

  test('other kinds stand inside what is open; addresses of no function have their number for a name', () => {
    const { events } = replay([
      { time: 1, ip: 0x42, parent: 0, kind: 1 },
      { time: 2, ip: 0x20c, parent: 0, kind: 5 },
      { time: 3, ip: 0x10c, parent: 0, kind: 4 },
      { time: 4, ip: 0x42, parent: 0, kind: 2 },
    ]);
    expect(events).toEqual(['>0x42 0 1 0', 'userb 1 2 0', 'probea 1 3 0', '<0x42 0 4 0']);
  });

  test('the unit of the clock', () => {
    const clock = (kind: number): Ring => read({ endian: 'big', capacity: 1, records: [], clock: kind });
    expect(ringClock(clock(1), 'emulator')).toBe('instructions');
    expect(ringClock(clock(1), 'other')).toBe('ticks');
    expect(ringClock(clock(2), 'emulator')).toBe('nanoseconds');
    expect(ringClock(clock(9), 'emulator')).toBe('ticks');
  });
});

describe('folded stacks of what a program recorded', () => {
  test('time begins with the first event of a CPU', () => {
    const ring = read({
      endian: 'little',
      capacity: 16,
      records: [enter('a', 1000), enter('b', 1010), leave('b', 1013), leave('a', 1020)],
    });
    let text = '';
    replayRing(ring, functions, [foldedWriter((piece) => (text += piece), { start: 'first-event' })]);
    expect(text).toBe('a 17\na;b 3\n');
  });

  test('without returns calls are counted by caller', () => {
    const ring = read({
      endian: 'little',
      capacity: 16,
      records: [enter('a', 1), enter('b', 2, 0x110), enter('b', 3, 0x110), enter('c', 4, 0x210)],
    });
    let text = '';
    const nameOf = (address: bigint): string => (address < 0x200n ? 'a' : address < 0x300n ? 'b' : '');
    replayRing(ring, functions, [foldedWriter((piece) => (text += piece), { nested: false, nameOf })]);
    expect(text).toBe('[outside];a 1\na;b 2\nb;c 1\n');
  });
});
