/**
 * The int3 protocol of x86-64: order of the steps, what may be written, what a processor does that
 * traps meanwhile. Which targets instructions have is asked of objdump.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  applyEffect,
  batchesOf,
  type BatchEntry,
  conditionHolds,
  conditionName,
  entryOfTrap,
  MAX_BATCH,
  pokeAll,
  pokeSteps,
  type PokeStep,
  type TextPatch,
  trapEffect,
} from '../src/arch-x86/live.js';
import { describeWith, run } from './support/tools.js';

const at = 0x401000n;
const bytes = (text: string): Uint8Array => Uint8Array.from(text.split(' '), (each) => parseInt(each, 16));
const patch = (text: string, address = at): TextPatch => ({ address, after: bytes(text) });

/** Steps in a line each, as the rules list them. */
const lines = (steps: readonly PokeStep[]): readonly string[] =>
  steps.map((step) => {
    if (step.kind === 'store') {
      return `${step.phase} ${step.address.toString(16)} ${Buffer.from(step.bytes).toString('hex')}`;
    }
    return step.kind;
  });

describe('X-POKE: the order of stores and synchronisations', () => {
  test('X-POKE-4: a call over a nop', () => {
    expect(lines(pokeSteps([patch('e8 40 13 00 00')]))).toEqual([
      'publish', 'int3 401000 cc', 'sync', 'tail 401001 40130000', 'sync', 'head 401000 e8', 'sync', 'retract', 'wait-handlers',
    ]); // prettier-ignore
  });

  test('X-POKE-4: a batch takes every phase together', () => {
    const steps = pokeSteps([patch('66 90', 0x1000n), patch('0f 1f 44 00 00', 0x1002n), patch('c3', 0x1010n)]);
    expect(lines(steps)).toEqual([
      'publish', 'int3 1000 cc', 'int3 1002 cc', 'int3 1010 cc', 'sync', 'tail 1001 90', 'tail 1003 1f440000', 'sync',
      'head 1000 66', 'head 1002 0f', 'head 1010 c3', 'sync', 'retract', 'wait-handlers',
    ]); // prettier-ignore
  });

  test('X-POKE-4: the head is not written where the new instruction is int3 itself (X-POKE-3)', () => {
    expect(lines(pokeSteps([patch('cc')]))).toEqual(['publish', 'int3 401000 cc', 'sync', 'retract', 'wait-handlers']);
    const [step] = pokeSteps([patch('cc')]);
    expect(step?.kind === 'publish' && step.entries[0]?.effect).toEqual({ kind: 'not-ours' });
  });

  test('X-MOD-2: a batch ends at 256 entries and before a lower address', () => {
    const ascending = Array.from({ length: 600 }, (_, i) => patch('0f 1f 44 00 00', at + BigInt(16 * i)));
    expect(batchesOf(ascending).map((batch) => batch.length)).toEqual([256, 256, 88]);
    const back = [ascending[3]!, ascending[4]!, ascending[1]!, ascending[2]!, ascending[0]!];
    expect(batchesOf(back).map((batch) => batch.length)).toEqual([2, 2, 1]);
    expect(pokeAll(ascending).filter(({ kind }) => kind === 'publish')).toHaveLength(3);
    expect(pokeAll([])).toEqual([]);
    expect(() => pokeSteps(ascending.slice(0, MAX_BATCH + 1))).toThrow(/a batch of 257/);
    expect(() => pokeSteps([ascending[1]!, ascending[0]!])).toThrow(/0x401010 before 0x401000/);
    expect(() => pokeSteps([patch('e8 00 00 00 00'), patch('c3', at + 4n)])).toThrow(/before/);
  });

  test('H1: at every prefix the first byte is old, int3 or new, and never stands before a tail that is not its own', () => {
    const old = bytes('0f 1f 44 00 00');
    const next = bytes('e8 40 13 00 00');
    const memory = Uint8Array.from(old);
    const seen = new Set<string>();
    for (const step of pokeSteps([{ address: at, after: next }])) {
      if (step.kind !== 'store') continue;
      // Byte by byte, last one first: the worst order.
      for (let i = step.bytes.length - 1; i >= 0; i--) {
        memory[Number(step.address - at) + i] = step.bytes[i]!;
        if (memory[0] === 0xcc) seen.add('trap');
        else seen.add(Buffer.from(memory).toString('hex'));
      }
    }
    expect([...seen]).toEqual(['trap', 'e840130000']);
  });
});

describe('X-POKE-2: what may be written, and what the trap does', () => {
  const allowed: readonly (readonly [string, object])[] = [
    ['cc', { kind: 'not-ours' }],
    ['c3', { kind: 'ret' }],
    ['c3 cc cc cc cc', { kind: 'ret' }],
    ['eb 10', { kind: 'jump', target: at + 0x12n }],
    ['eb fe', { kind: 'jump', target: at }],
    ['eb 80 cc cc cc', { kind: 'jump', target: at - 0x7en }],
    ['e9 00 00 00 80', { kind: 'jump', target: at + 5n - 0x8000_0000n + (1n << 64n) }],
    ['e9 fb ff ff ff', { kind: 'jump', target: at }],
    ['e8 40 13 00 00', { kind: 'call', target: 0x402345n, returnTo: at + 5n }],
    ['e8 fb ef ff ff', { kind: 'call', target: 0x400000n, returnTo: at + 5n }],
    ['67 e8 40 13 00 00', { kind: 'call', target: 0x402346n, returnTo: at + 6n }],
    ['66 90', { kind: 'next', next: at + 2n }],
    ['0f 1f 44 00 00', { kind: 'next', next: at + 5n }],
    ['66 0f 1f 44 00 00', { kind: 'next', next: at + 6n }],
    ['75 34', { kind: 'branch', condition: 5, target: at + 0x36n, next: at + 2n }],
    ['0f 84 00 01 00 00', { kind: 'branch', condition: 4, target: at + 0x106n, next: at + 6n }],
  ];
  test.each(allowed)('%s', (text, effect) => {
    expect(trapEffect(patch(text))).toEqual(effect);
  });

  test.each([
    '90', '66 90 cc', 'e8 00 00 00 00 cc', '75 34 cc', '0f 1f 44 00 08', '0f 1f 00', 'e8 00 00 00', 'cc cc', '48 8b 15 00 00 00 00',
    'c3 90', '0f 0b', 'f3 c3', '66 66 90',
  ])('anything else is a bug: %s', (text) => {
    expect(() => trapEffect(patch(text))).toThrow(/cannot be written while processors run/);
  }); // prettier-ignore

  test('X-POKE-1: the handler searches ip - 1 by halves', () => {
    const entries: BatchEntry[] = Array.from({ length: 100 }, (_, i) => {
      const each = patch('0f 1f 44 00 00', at + BigInt(7 * i));
      return { ...each, effect: trapEffect(each) };
    });
    for (const entry of entries) {
      expect(entryOfTrap(entries, entry.address + 1n)).toBe(entry);
      expect(entryOfTrap(entries, entry.address)).toBeNull();
      expect(entryOfTrap(entries, entry.address + 2n)).toBeNull();
    }
    expect(entryOfTrap([], at + 1n)).toBeNull();
  });

  test('effects on a processor: the trap does what the instruction would', () => {
    const stack: bigint[] = [0xabcn];
    let ip = 0n;
    const cpu = {
      flags: 1 << 6,
      setIp: (address: bigint) => void (ip = address),
      push: (value: bigint) => void stack.push(value),
      pop: () => stack.pop() ?? 0n,
    };
    const effect = (text: string): boolean => applyEffect(trapEffect(patch(text)), cpu);
    expect(effect('e8 40 13 00 00')).toBe(true);
    expect([ip, stack]).toEqual([0x402345n, [0xabcn, 0x401005n]]);
    expect(effect('c3')).toBe(true);
    expect([ip, stack]).toEqual([0x401005n, [0xabcn]]);
    effect('eb 10');
    expect(ip).toBe(0x401012n);
    effect('74 10');
    expect(ip).toBe(0x401012n);
    effect('75 10');
    expect(ip).toBe(0x401002n);
    effect('0f 1f 44 00 00');
    expect(ip).toBe(0x401005n);
    expect(effect('cc')).toBe(false);
    expect([ip, stack]).toEqual([0x401005n, [0xabcn]]);
  });

  test('conditions: every one against the formula of the manual, for all flags', () => {
    const formulas: Readonly<Record<string, (c: boolean, p: boolean, z: boolean, s: boolean, o: boolean) => boolean>> =
      {
        o: (_c, _p, _z, _s, o) => o,
        no: (_c, _p, _z, _s, o) => !o,
        b: (c) => c,
        ae: (c) => !c,
        e: (_c, _p, z) => z,
        ne: (_c, _p, z) => !z,
        be: (c, _p, z) => c || z,
        a: (c, _p, z) => !c && !z,
        s: (_c, _p, _z, s) => s,
        ns: (_c, _p, _z, s) => !s,
        p: (_c, p) => p,
        np: (_c, p) => !p,
        l: (_c, _p, _z, s, o) => s !== o,
        ge: (_c, _p, _z, s, o) => s === o,
        le: (_c, _p, z, s, o) => z || s !== o,
        g: (_c, _p, z, s, o) => !z && s === o,
      };
    for (let condition = 0; condition < 16; condition++) {
      for (let set = 0; set < 32; set++) {
        const [c, p, z, s, o] = [1, 2, 4, 8, 16].map((bit) => (set & bit) !== 0) as [
          boolean,
          boolean,
          boolean,
          boolean,
          boolean,
        ];
        const flags = 0x202 | (c ? 1 : 0) | (p ? 4 : 0) | (z ? 0x40 : 0) | (s ? 0x80 : 0) | (o ? 0x800 : 0);
        expect(conditionHolds(condition, flags)).toBe(formulas[conditionName(condition)]!(c, p, z, s, o));
      }
    }
  });

  test('property: a batch of calls and nops in any order gives the new bytes everywhere', () => {
    const one = fc.record({ slot: fc.integer({ min: 0, max: 400 }), call: fc.boolean(), d: fc.integer() });
    fc.assert(
      fc.property(fc.uniqueArray(one, { selector: ({ slot }) => slot, maxLength: 300 }), (all) => {
        const memory = new Uint8Array(401 * 5).fill(0x90);
        const expected = Uint8Array.from(memory);
        const patches = all.map(({ slot, call, d }): TextPatch => {
          const after = call ? new Uint8Array([0xe8, d, d >> 8, d >> 16, d >> 24]) : bytes('0f 1f 44 00 00');
          expected.set(after, slot * 5);
          return { address: at + BigInt(slot * 5), after };
        });
        let live = 0;
        for (const step of pokeAll(patches)) {
          if (step.kind === 'publish') live++;
          if (step.kind === 'retract') live--;
          if (step.kind === 'store') {
            expect(live).toBe(1);
            memory.set(step.bytes, Number(step.address - at));
          }
        }
        expect(live).toBe(0);
        expect(Buffer.from(memory).equals(Buffer.from(expected))).toBe(true);
      }),
      { seed: 5, numRuns: 60 },
    );
  });
});

describeWith(['objdump'], 'X-POKE-2 against objdump', () => {
  test('targets and lengths', () => {
    const folder = mkdtempSync(join(tmpdir(), 'elftrace-live-'));
    try {
      const vectors = ['eb 10', 'eb 80', 'e9 78 56 34 12', 'e8 40 13 00 00', 'e8 fb ef ff ff', '75 34', '0f 8e 00 01 00 00', '7c f0',
        '67 e8 40 13 00 00']; // prettier-ignore
      for (const text of vectors) {
        const path = join(folder, 'code');
        writeFileSync(path, bytes(text));
        const args = ['-D', '-b', 'binary', '-m', 'i386:x86-64', '--adjust-vma', '0x401000', path];
        const line = run('objdump', args).toString().split('\n').find((each) => each.startsWith('  401000:')) ?? ''; // prettier-ignore
        const effect = trapEffect(patch(text));
        const target = 'target' in effect ? effect.target : 0n;
        expect(line).toContain(`0x${target.toString(16)}`);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
