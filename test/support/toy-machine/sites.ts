/**
 * Sites of the made-up machine: one word of four bytes, most significant byte first.
 *
 *   compiled   00 00 00 00
 *   off        00 00 00 01 (first form), 00 00 00 02 (second form)
 *   call       ca d2 d1 d0: words from the place of the call, signed
 */
import { concatBytes, wordBytes } from '../../../src/bytes.js';
import type { BranchCodec } from '../../../src/machine/branches.js';
import type { SiteReading, SiteShape, SiteStateKind } from '../../../src/machine/sites.js';

const COMPILED = 0;
const NOPS: Readonly<Record<string, number>> = { first: 1, second: 2 };
const CALL = 0xca;

const word = (value: number): Uint8Array => wordBytes(value >>> 0, 'big');

const distanceOf = (call: number): bigint => BigInt((call << 8) >> 8) * 4n;

export const toyCall: BranchCodec = {
  sizeBytes: 4,
  reach: { min: -0x200_0000n, max: 0x1ff_fffcn, alignBytes: 4 },
  encode: (from, to) => word((CALL << 24) | (Number((to - from) / 4n) & 0xff_ffff)),
  target(bytes, from) {
    const value = (bytes[0]! << 24) | (bytes[1]! << 16) | (bytes[2]! << 8) | bytes[3]!;
    return value >>> 24 === CALL ? from + distanceOf(value) : null;
  },
};

const formOf = (value: number): string | undefined => Object.keys(NOPS).find((form) => NOPS[form] === value);

export const toyShape: SiteShape = {
  name: 'toy.word',
  sources: ['patchable-table'],
  title: 'one word at the entry of a function',
  entries: ['wide', 'narrow', 'pinned'],
  read(view): SiteReading | null {
    const value = view.u32(0);
    const reading = (state: SiteStateKind, form: string, target: bigint | null): SiteReading => ({
      shape: toyShape,
      state,
      form,
      ipDelta: 0,
      startDelta: 0,
      sizeBytes: 4,
      target,
      relocationDeltas: [],
    });
    if (value === COMPILED) return reading('compiled', 'zero', null);
    const form = formOf(value);
    if (form !== undefined) return reading('nop', form, null);
    if (value >>> 24 === CALL) return reading('call', 'call', view.address + distanceOf(value));
    return { ...reading('foreign', 'other', null), expected: word(COMPILED), reason: 'the word is no site' };
  },
  write(reading, to, view) {
    const form = to.kind === 'call' ? null : (to.form ?? 'first');
    const value = form === null ? null : NOPS[form];
    if (value === undefined) return { refused: 'not-applicable', reason: `a site has no form ${String(form)}` };
    if (to.kind === 'nop' && to.form === undefined && reading.state === 'compiled') {
      return { stores: [], neutralise: [], rule: 'TOY-1' };
    }
    const before = view.bytes(0, 4);
    const after = to.kind === 'call' ? toyCall.encode(view.address, to.target) : word(value!);
    const same = before.every((byte, i) => byte === after[i]);
    return { stores: same ? [] : [{ delta: 0, before, after }], neutralise: [], rule: 'TOY-1' };
  },
};

/** Text of a few functions: their sites, and the entries of a tracer behind them. */
export const textOf = (words: readonly number[]): Uint8Array => concatBytes(words.map(word));
