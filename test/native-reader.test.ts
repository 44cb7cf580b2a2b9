/** The reader of traces that programs write themselves, on files that are made here by hand. */
import { expect, test } from '@jest/globals';
import type { Endian } from '../src/units.js';
import { HEADER, HEADER_BYTES } from '../src/native/layout.js';
import { clockOf, readThreadHeader, ThreadReader, type TraceSource } from '../src/native/reader.js';
import { CallTree } from '../src/native/tree.js';

/** A file with these units behind its header. */
function fileOf(endian: Endian, mode: number, units: readonly number[]): TraceSource {
  const bytes = new Uint8Array(HEADER_BYTES + 4 * units.length);
  const view = new DataView(bytes.buffer);
  const isLittle = endian === 'little';
  bytes.set(new TextEncoder().encode('ELFTRCN1'));
  view.setUint32(HEADER.version, 1, isLittle);
  view.setUint32(HEADER.mode, mode, isLittle);
  view.setUint32(HEADER.process, 77, isLittle);
  view.setBigUint64(HEADER.pair, 1n, isLittle);
  view.setBigUint64(HEADER.pairs + 16, 1n << 20n, isLittle);
  view.setBigUint64(HEADER.pairs + 24, 1n << 20n, isLittle);
  units.forEach((unit, i) => {
    view.setUint32(HEADER_BYTES + 4 * i, unit >>> 0, isLittle);
  });
  return {
    name: 'made',
    size: bytes.length,
    read: (position, into) => {
      const part = bytes.subarray(position, position + into.length);
      into.set(part);
      return part.length;
    },
  };
}

const BASE = 0x7f00_0000;
const halves = (value: bigint): readonly number[] => [Number(value & 0xffff_ffffn), Number(value >> 32n)];
const control = (kind: number, value: number): readonly number[] =>
  halves(3n | (BigInt(kind) << 2n) | (BigInt(value) << 6n));
const call = (clock: number, stack: number, site: number): readonly number[] =>
  halves(1n | (BigInt(clock) << 2n) | (BigInt((stack - BASE) / 8) << 22n) | (BigInt(site) << 38n));
const near = (clock: number, stack: number): number => 2 | (clock << 2) | ((((stack - BASE) / 8) & 1023) << 22);
const far = (clock: number, stack: number): readonly number[] => control(3, clock + ((stack - BASE) / 8) * 2 ** 20);

test.each(['little', 'big'] as const)('RT-34: calls and returns, %s-endian', (endian) => {
  const outer = BASE + 0x9008;
  const units = [
    0, ...control(1, 1), ...control(2, BASE), ...call(5, outer, 1), 0, ...call(7, outer - 0x40, 2), near(9, outer - 0x40),
    ...call(11, outer - 0x5000, 3), ...call(12, outer - 0x6000, 4), 0, ...far(20, outer), 2 ** 31 + 1, 0,
  ]; // prettier-ignore
  const source = fileOf(endian, 2, units);
  const header = readThreadHeader(source);
  expect([header.process, header.tracer, header.endian]).toEqual([77, 'function_graph', endian]);
  const clock = { origin: { counter: 0n, nanoseconds: 0n }, nanosecondsPerTick: 1 };
  const reader = new ThreadReader(source, header, clock);
  const lines: string[] = [];
  const tree = new CallTree({
    enter: ({ name }, depth, time) => lines.push(`${time - 2 ** 20} ${depth} ${name}`),
    leave: ({ name }, depth, time, isExact) => lines.push(`${time - 2 ** 20} ${depth} /${name} ${isExact}`),
  });
  while (reader.next()) {
    const called = {
      index: 0,
      name: String(reader.site),
      address: 0n,
      site: 0n,
      end: 0n,
      object: '',
      isProgram: true,
      source: null,
    };
    tree.event(reader.isReturn ? null : called, reader.stack, reader.time);
  }
  expect(reader.damaged).toBe(0);
  // What a longjmp left is over when the call around it is.
  expect(lines).toEqual([
    '5 0 1',
    '7 1 2',
    '9 1 /2 true',
    '11 1 3',
    '12 2 4',
    '20 2 /4 false',
    '20 1 /3 false',
    '20 0 /1 true',
  ]);
});

test('RT-34: of two calls with the same lowest bits the inner one returns; what returns unseen is none', () => {
  const lines: string[] = [];
  const tree = new CallTree({
    enter: ({ name }) => lines.push(name),
    leave: ({ name }) => lines.push(`/${name}`),
  });
  const of = (name: string) => ({
    index: 0,
    name,
    address: 0n,
    site: 0n,
    end: 0n,
    object: '',
    isProgram: true,
    source: null,
  });
  tree.event(of('a'), BASE + 0x8000, 1);
  tree.event(of('b'), BASE + 0x6000, 2);
  tree.event(null, (BASE + 0x100) % 8192, 3);
  tree.event(null, BASE % 8192, 4);
  tree.event(null, BASE % 8192, 5);
  tree.event(null, BASE + 0x8000, 6);
  expect(lines).toEqual(['a', 'b', '/b', '/a']);
});

test('RT-31, RT-34: returns in a file of calls alone are damage', () => {
  const source = fileOf('little', 1, [...control(1, 1), ...control(2, BASE), near(9, BASE), 0, ...far(9, BASE)]);
  const reader = new ThreadReader(source, readThreadHeader(source), {
    origin: { counter: 0n, nanoseconds: 0n },
    nanosecondsPerTick: 1,
  });
  expect([reader.next(), reader.damaged]).toEqual([false, 2]);
});

test('RT-46: a call that a signal handler interrupted stands in front of it, and no time is negative', () => {
  const outer = BASE + 0x9000;
  const calls = [call(50, outer, 1), call(40, outer - 0x100, 2), call(45, outer - 0x200, 3), call(60, outer, 4)].flat();
  const source = fileOf('little', 1, [0, ...control(1, 1), ...control(2, BASE), ...calls]);
  const clock = { origin: { counter: 1n << 20n, nanoseconds: 0n }, nanosecondsPerTick: 1 };
  const reader = new ThreadReader(source, readThreadHeader(source), clock);
  const times: number[] = [];
  while (reader.next()) times.push(reader.time);
  expect(times).toEqual([50, 50, 50, 60]);
});

test.each([
  ['none', []],
  ['the first of all', [0]],
  ['the last of all', [1]],
  ['both of a thread', [2, 3]],
  ['one at each end', [0, 5]],
] as const)('RT-29: pairs whose clock is late do not count: %s', (_, late) => {
  // A tick of 3 ns; of three threads the first covers all, and each runs for some milliseconds.
  const counters = [0, 6_000_000, 1_000_000, 5_000_000, 2_000_000, 5_500_000];
  const pairs = counters.map((counter, i) => ({
    counter: BigInt(1_000_000_000 + counter),
    nanoseconds: BigInt(7_000_000_000 + 3 * counter + ((late as readonly number[]).includes(i) ? 50_000_000 : 0)),
  }));
  const headers = [0, 2, 4].map((i) => ({ first: pairs[i]!, last: pairs[i + 1]! }));
  expect(clockOf(headers)).toEqual({
    origin: { counter: 1_000_000_000n, nanoseconds: 7_000_000_000n },
    nanosecondsPerTick: 3,
  });
});

test('RT-29: of one pair, and of clocks that stand still, nothing is measured', () => {
  const pair = { counter: 5n, nanoseconds: 9n };
  expect(clockOf([{ first: pair, last: pair }])).toEqual({ origin: pair, nanosecondsPerTick: 1 });
  expect(clockOf([{ first: pair, last: { counter: 8n, nanoseconds: 9n } }]).nanosecondsPerTick).toBe(1);
  expect(clockOf([])).toEqual({ origin: { counter: 0n, nanoseconds: 0n }, nanosecondsPerTick: 1 });
});
