/**
 * What an entry of the runtime leaves as it was, register by register: a site in assembly with a
 * pattern everywhere, near and through a stub, under qemu-user and here.
 */
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { TARGETS } from './support/c-programs.js';
import { buildTraced, PROGRAMS, runTracedHere, runTracedQemu } from './support/runtime-harness.js';
import { describeWith } from './support/tools.js';
import { repeats, sampled } from './support/long.js';

const CR = 0x5a3c_96e1n;
const XER = 0x6000_0000n;
const LR = 0x1000_0010n;

const NAMES = [...Array.from({ length: 32 }, (_, n) => `r${n}`), 'cr', 'xer', 'lr', 'word', 'toc-word'];

/** The pattern of preserve.S. */
function pattern(n: number, bits: 32 | 64): bigint {
  const high = 0x1234_5600n + BigInt(n);
  return bits === 32 ? high : (high << 32n) | 0x7abc_0100n | BigInt(n);
}

/** Of 64-bit -pg sites the registers that a call keeps; everywhere else all. */
const CALL_KEEPS = [...Array.from({ length: 18 }, (_, n) => n + 14), 13];

for (const target of sampled(TARGETS, 2)) {
  const bits = target.name === 'ppc32' ? 32 : 64;
  describeWith([target.gcc, target.qemu], `registers on ${target.name}`, () => {
    for (const [flavour, entry] of [
      ['pg', 'ftrace_caller'],
      ['regs', 'ftrace_caller'],
      ['regs', 'ftrace_regs_caller'],
    ] as const) {
      test.each(repeats(['far', 'near']))(`P-ENT-2, P-ENT-3, T-PPC-8: ${flavour}, ${entry}, %s`, (place) => {
        const isFar = place === 'far';
        const path = buildTraced({
          target,
          flavour,
          entry,
          tracer: 'function',
          sources: [],
          plain: ['preserve.c', 'preserve.S'].map((each) => join(PROGRAMS, 'runtime', each)),
          flags: [`-DENTRY_NAME=${entry}`, ...(isFar ? ['-DFAR'] : [])],
        });
        for (const outcome of [runTracedQemu(target, path), runTracedHere(target, path)]) {
          expect(outcome.end).toBe(0);
          expect(outcome.report).toMatchObject({ entries: 1, 'wrong-site': isFar ? 1 : 0 });
          const values = outcome.output
            .trim()
            .split('\n')
            .map((each) => BigInt(`0x${each}`));
          const got = Object.fromEntries(NAMES.map((name, i) => [name, values[i]!]));
          const expected: Record<string, bigint> = { r1: 0n };
          const isCall = bits === 64 && flavour === 'pg';
          const kept = isCall ? CALL_KEEPS : Array.from({ length: 29 }, (_, n) => n + 3);
          for (const n of kept) expected[`r${n}`] = pattern(n, bits);
          if (isCall) {
            // cr2 to cr4; a far r2 comes back from the frame, where the stub put it.
            got['cr'] = got['cr']! & 0x00ff_f000n;
            expected['cr'] = CR & 0x00ff_f000n;
            if (isFar) expected['r2'] = 0n;
          } else {
            Object.assign(expected, { r2: pattern(2, bits), cr: CR, xer: XER, lr: LR });
            // A stub changes r12, and CTR.
            if (isFar) delete expected['r12'];
            // The caller's frame: nothing but its LR word is written.
            expected['word'] = bits === 64 ? pattern(3, bits) : LR;
            if (bits === 64) expected['toc-word'] = pattern(3, bits);
          }
          expect(got).toMatchObject(expected);
        }
      });
    }
  });
}
