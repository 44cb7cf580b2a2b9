/**
 * What the core calls the same, and its words for flags and steps. No rule has them; messages,
 * refusals and the order of steps are made of them.
 */
import { describe, expect, test } from '@jest/globals';
import { type CallSite, type Content, describeStep, equalContents, flagNames, type Step } from '../src/ftrace/index.js';

const at = (address: bigint): Content => ({ kind: 'direct', address });

describe('contents of a site', () => {
  test.each<[string, Content, Content, boolean]>([
    ['the same address', at(0x1000n), at(0x1000n), true],
    ['another address', at(0x1000n), at(0x2000n), false],
    ['a direct caller and a trampoline that lead to one address', at(0x1000n), { kind: 'trampoline', ops: null, address: 0x1000n }, true],
    ['an address and none', at(0x1000n), { kind: 'caller' }, false],
    ['none, of one kind', { kind: 'caller' }, { kind: 'caller' }, true],
    ['none, of two kinds', { kind: 'caller' }, { kind: 'regs-caller' }, false],
    ['off and on', { kind: 'nop' }, { kind: 'caller' }, false],
  ])('%s', (_, a, b, isEqual) => {
    expect([equalContents(a, b), equalContents(b, a)]).toEqual([isEqual, isEqual]);
  });
}); // prettier-ignore

test('names of flags: those that are set, and no others', () => {
  const all = flagNames({ flags: -1 });
  expect([flagNames({ flags: 0 }), new Set(all).size]).toEqual([[], all.length]);
  const single = Array.from({ length: 31 }, (_, bit) => flagNames({ flags: 2 ** bit })).filter(({ length }) => length > 0);
  // Each flag has a bit of its own.
  expect(single.flat().sort()).toEqual([...all].sort());
  expect(single.every(({ length }) => length === 1)).toBe(true);
}); // prettier-ignore

describe('steps in words', () => {
  const site = { name: 'leaf', ip: 0x40n } as CallSite;
  const ops = { name: 'mine' };
  test.each<[string, object]>([
    ['the site of leaf becomes off', { kind: 'site', site, after: { kind: 'nop' } }],
    ['the site of leaf becomes a call of the direct caller at 0x1000', { kind: 'site', site, after: at(0x1000n) }],
    ['the plain entry calls ftrace_stub', { kind: 'callee', entry: 'plain', after: { kind: 'stub' } }],
    ['entries pass on no ops', { kind: 'trace-op', after: null }],
    ['entries pass on mine', { kind: 'trace-op', after: ops }],
    ['the object of mine is emptied', { kind: 'object', ops, after: null }],
    ['the object of mine', { kind: 'object', ops, after: {} }],
    ['the direct caller of leaf', { kind: 'direct-entry', site }],
    ['the branch for the graph tracer is on', { kind: 'graph-call', after: true }],
    ['the branch for the graph tracer is off', { kind: 'graph-call', after: false }],
    ['the users of the graph tracer', { kind: 'graph-users' }],
    ['the trampoline of mine is emptied', { kind: 'trampoline', ops, after: null }],
    ['the trampoline of mine', { kind: 'trampoline', ops, after: {} }],
    ['sync', { kind: 'sync' }],
  ])('%s', (text, step) => {
    expect(describeStep(step as Step)).toBe(text);
  });
});
