/** The rows of limits, their texts, and the clock. */
import { describe, expect, jest, test } from '@jest/globals';
import {
  Deadline,
  limitExceeded,
  limitNames,
  limits,
  limitText,
  parseLimit,
  parseSeconds,
  parseSize,
} from '../src/limits/index.js';

describe('texts of limits', () => {
  test('sizes are powers of 1024', () => {
    const cases: readonly (readonly [string, number | null])[] = [
      ['4096', 4096],
      ['64K', 65536],
      ['256M', 268435456],
      ['256m', 268435456],
      ['1G', 1073741824],
      ['2T', 2199023255552],
      ['none', Infinity],
      ['0', null],
      ['0M', null],
      ['-1', null],
      ['1.5G', null],
      ['1GB', null],
      ['', null],
      [' 1', null],
      ['0x10', null],
      ['1e9', null],
      ['999999999999999T', null],
    ];
    for (const [text, bytes] of cases) expect([text, parseSize(text)]).toEqual([text, bytes]);
  });

  test('times are seconds, minutes or hours', () => {
    const cases: readonly (readonly [string, number | null])[] = [
      ['90', 90],
      ['0.5', 0.5],
      ['.5', 0.5],
      ['90s', 90],
      ['5m', 300],
      ['2h', 7200],
      ['none', Infinity],
      ['0', null],
      ['0.0', null],
      ['-1', null],
      ['1d', null],
      ['NaN', null],
      ['Infinity', null],
    ];
    for (const [text, seconds] of cases) expect([text, parseSeconds(text)]).toEqual([text, seconds]);
  });

  test('every default is what its text says, and what is no value is the fault of whoever wrote it', () => {
    for (const name of limitNames) {
      expect(parseLimit(name, limitText(name, limits[name].default))).toBe(limits[name].default);
      for (const text of ['', '0', '-1', 'many', '1 M', '0x10', 'Infinity']) {
        expect(() => parseLimit(name, text)).toThrow(expect.objectContaining({ code: 'usage' }));
      }
    }
  });

  test('an error names what was too much, how much is allowed, and the option that allows more', () => {
    const error = limitExceeded('unpacked', 'gzip data', 2 ** 28);
    expect(error.message).toBe('gzip data unpacks to more than 256M (--max-unpacked)');
    expect([error.code, error.context.reason, error.context.max]).toEqual(['limit-exceeded', 'max-unpacked', 2 ** 28]);
    expect(limitExceeded('file', 'a.ko', 1001).message).toBe('a.ko is larger than 1001 bytes (--max-file)');
    expect(limitExceeded('time', 'verify', 1.5).message).toBe('verify took longer than 1.5 seconds (--timeout)');
  });
});

describe('Deadline', () => {
  test('comes when its time is over, and stays', () => {
    // The clock is the test's: what a loaded machine does between two looks decides nothing.
    let now = 1000;
    const clock = jest.spyOn(process, 'hrtime').mockImplementation(() => [0, now * 1e6]);
    const deadline = new Deadline(0.02);
    const at = (moment: number): [boolean, number] => {
      now = moment;
      return [deadline.expired(), deadline.remaining()];
    };
    expect([at(1000), at(1019), at(1020), at(1500)]).toEqual([
      [false, 20],
      [false, 1],
      [true, 0],
      [true, 0],
    ]);
    expect(deadline.remaining()).toBe(0);
    expect(() => {
      deadline.check('this');
    }).toThrow(expect.objectContaining({ code: 'timeout', message: 'this took longer than 0.02 seconds (--timeout)' }));
    clock.mockRestore();
  });

  test('the one that never comes lets everything pass', () => {
    expect([Deadline.never.expired(), Deadline.never.remaining()]).toEqual([false, Infinity]);
    Deadline.never.check('anything');
  });
});
