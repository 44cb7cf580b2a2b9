/**
 * PowerPC semantics: generated batches against qemu-user, faults of every access, traps,
 * instruction counts.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import {
  buildPpc,
  ppcGcc,
  ppcMachine,
  ppcQemu,
  PROGRAMS,
  qemu,
  registersOf,
  startPpc,
  temporaryFile,
  writeSource,
} from './support/emulator.js';
import type { PpcKind, PpcLine } from './support/emulator.js';
import { describeWith } from './support/tools.js';

/** xorshift, fixed seed: the same batch in every run. */
class Random {
  constructor(private state = 0x2545_f491) {}
  next(): number {
    let x = this.state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.state = x >>> 0;
    return this.state;
  }
  below(limit: number): number {
    return this.next() % limit;
  }
  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)]!;
  }
  /** A register value: half of them corner values. */
  value(): bigint {
    const wide = (BigInt(this.next()) << 32n) | BigInt(this.next());
    if (this.below(2) === 0) return this.pick(CORNERS);
    const kept = wide >> BigInt(this.below(64));
    return this.below(3) === 0 ? BigInt.asUintN(64, -kept) : kept;
  }
}

const CORNERS = [
  0n, 1n, 2n, 0x1fn, 0x20n, 0x3fn, 0x40n, 0x7fn, 0x80n, 0x7fffn, 0x8000n, 0x7fff_ffffn, 0x8000_0000n, 0xffff_ffffn,
  0x1_0000_0000n, 0x7fff_ffff_ffff_ffffn, 0x8000_0000_0000_0000n, 0xffff_ffff_8000_0000n, 0xffff_ffff_ffff_ffffn,
  0xffff_ffff_ffff_fffen, 0xffff_ffffn << 32n,
]; // prettier-ignore

/**
 * Templates: %d destination, %a %b sources, %i signed and %u unsigned 16 bits, %n 0 to 31, %m 0 to
 * 63, %c CR bit, %f CR field.
 */
const COMMON = [
  ...['add', 'addc', 'adde', 'subf', 'subfc', 'subfe', 'mullw'].flatMap((name) =>
    ['', '.', 'o', 'o.'].map((suffix) => `${name}${suffix} %d,%a,%b`),
  ),
  ...['addme', 'addze', 'subfme', 'subfze', 'neg'].flatMap((name) =>
    ['', '.', 'o', 'o.'].map((suffix) => `${name}${suffix} %d,%a`),
  ),
  'mulhw %d,%a,%b',
  'mulhwu %d,%a,%b',
  ...['divw', 'divwu', 'divwo', 'divwuo'].map((name) => `${name} %d,%a,%b`),
  ...['and', 'andc', 'eqv', 'nand', 'nor', 'or', 'orc', 'xor', 'slw', 'srw', 'sraw'].flatMap((name) =>
    ['', '.'].map((suffix) => `${name}${suffix} %d,%a,%b`),
  ),
  ...['extsb', 'extsh', 'cntlzw'].flatMap((name) => ['', '.'].map((suffix) => `${name}${suffix} %d,%a`)),
  ...['', '.'].flatMap((rc) => [`rlwinm${rc} %d,%a,%n,%n,%n`, `rlwimi${rc} %d,%a,%n,%n,%n`, `rlwnm${rc} %d,%a,%b,%n,%n`]),
  'slwi %d,%a,%n',
  'srwi %d,%a,%n',
  'clrlwi %d,%a,%n',
  'rotlwi %d,%a,%n',
  'srawi %d,%a,%n',
  'srawi. %d,%a,%n',
  'addi %d,%a,%i',
  'addis %d,%a,%i',
  'addi %d,0,%i',
  'addic %d,%a,%i',
  'addic. %d,%a,%i',
  'subfic %d,%a,%i',
  'mulli %d,%a,%i',
  ...['andi.', 'andis.', 'ori', 'oris', 'xori', 'xoris'].map((name) => `${name} %d,%a,%u`),
  ...['cmpw %f,%a,%b', 'cmplw %f,%a,%b', 'cmpwi %f,%a,%i', 'cmplwi %f,%a,%u'],
  ...['crand', 'crandc', 'creqv', 'crnand', 'crnor', 'cror', 'crorc', 'crxor'].map((name) => `${name} %c,%c,%c`),
  // A comparison just before: the record is known in the block.
  ...['crand', 'crnor', 'creqv'].map((name) => `cmpw 1,%a,%b; ${name} %c,6,4`),
  'mcrf %f,%f',
  'cmplw 3,%a,%b; mcrf 5,3; bgt 5,9f; li %d,77; 9:',
  'mfcr %d',
  'mtcrf %k,%a',
  'mtcr %a',
  'mfctr %d',
  'mflr %d',
  'mtctr %a; mfctr %d',
  'mtlr %a; mflr %d',
  'cmpwi 0,%a,%i; mfcr %d; addo %d,%d,%b; mfcr %d',
  // Branches: every sense, condition known in the block and not, count register, links.
  ...['12', '4', '8', '10', '0', '2', '16', '18', '20'].flatMap((bo) => [
    `mtctr %a; bc ${bo},%c,9f; li %d,99; 9:`,
    `mtctr %a; cmpw 2,%a,%b; bc ${bo},9,9f; li %d,98; 9:`,
    `mtctr %a; cmplwi 7,%a,%u; bc ${bo},28,9f; addi %d,%a,1; 9: mfctr %a`,
  ]),
  // Hint bits of old and new kind, which the assembler refuses; the branch goes 8 bytes ahead.
  ...['13', '5', '7', '15', '25', '27', '1', '9', '21', '31'].map(
    (bo) => `mtctr %a; .long 0x40000008+(${bo}<<21)+(%c<<16); li %d,93`,
  ),
  ...['12', '4', '20', '8', '0'].flatMap((bo) => [
    `bcl 20,31,8f; 8: mflr %a; addi %a,%a,9f-8b; mtlr %a; li %a,2; mtctr %a; bclr ${bo},%c; li %d,97; 9:`,
    `bcl 20,31,8f; 8: mflr %a; addi %a,%a,9f-8b; mtlr %a; li %a,2; mtctr %a; bclrl ${bo},%c; li %d,96; 9: mflr %a`,
  ]),
  ...['12', '4', '20'].flatMap((bo) => [
    `bcl 20,31,8f; 8: mflr %a; addi %a,%a,9f-8b; mtctr %a; bcctr ${bo},%c; li %d,95; 9:`,
    `bcl 20,31,8f; 8: mflr %a; addi %a,%a,9f-8b; mtctr %a; bcctrl ${bo},%c; li %d,94; 9: mflr %a`,
  ]),
  'bl 9f; li %d,1; 9: mflr %d',
  // Memory: r9 is the middle of a buffer of 64 bytes, %o an offset from it, r10 a small index.
  ...['lbz', 'lhz', 'lha', 'lwz'].flatMap((name) => [`${name} %d,%o(9)`, `${name}u %d,%o(9)`, `${name}x %d,9,10`, `${name}ux %d,9,10`]),
  ...['stb', 'sth', 'stw'].flatMap((name) => [`${name} %a,%o(9)`, `${name}u %a,%o(9)`, `${name}x %a,9,10`, `${name}ux %a,9,10`]),
  ...['lhbrx', 'lwbrx'].flatMap((name) => [`${name} %d,9,10`, `${name} %d,0,9`]),
  ...['sthbrx', 'stwbrx'].map((name) => `${name} %a,9,10`),
  'lwarx %d,0,9; stwcx. %a,0,9',
  'lwarx %d,0,9; stw %b,0(9); stwcx. %a,0,9',
  'lwarx %d,0,9; addi 9,9,8; stwcx. %a,0,9',
  'stwcx. %a,0,9',
  'lfd 1,%o(9); stfdu 1,%o(9); fmr 2,1; stfdx 2,9,10; lfdux 3,9,10; stfd 3,-16(9); lfdu 4,4(9); stfdux 4,9,10',
  'lfdx 5,9,10; stfiwx 5,0,9',
  'dcbz 0,9',
  'sync; isync; eieio; dcbt 0,9; dcbtst 0,9; dcbst 0,9; dcbf 0,9; icbi 0,9; nop',
  'twlti 10,0; tweq 9,10; twgti 10,1000; twllt 10,10; twne 9,9',
]; // prettier-ignore

const ONLY_64 = [
  ...['mulld', 'divd', 'divdu'].flatMap((name) => ['', '.', 'o'].map((suffix) => `${name}${suffix} %d,%a,%b`)),
  'mulhd %d,%a,%b',
  'mulhd. %d,%a,%b',
  'mulhdu %d,%a,%b',
  'extsw %d,%a',
  'extsw. %d,%a',
  'cntlzd %d,%a',
  ...['sld', 'srd', 'srad'].flatMap((name) => ['', '.'].map((suffix) => `${name}${suffix} %d,%a,%b`)),
  'sradi %d,%a,%m',
  'sradi. %d,%a,%m',
  ...['rldicl', 'rldicr', 'rldic', 'rldimi'].flatMap((name) => ['', '.'].map((suffix) => `${name}${suffix} %d,%a,%m,%m`)),
  'sldi %d,%a,%m',
  'srdi %d,%a,%m',
  'clrldi %d,%a,%m',
  'rldcl %d,%a,%b,%m',
  'rldcr %d,%a,%b,%m',
  'cmpd %f,%a,%b',
  'cmpld %f,%a,%b',
  'cmpdi %f,%a,%i',
  'cmpldi %f,%a,%u',
  'isel %d,%a,%b,%c',
  'cmpld 1,%a,%b; isel %d,%a,%b,4',
  'isel %d,0,%b,%c',
  'mfocrf %d,1; rldicl %d,%d,0,60',
  'mfocrf %d,16; rlwinm %d,%d,0,12,15',
  'mtocrf 32,%a',
  'popcntd %d,%a',
  'popcntw %d,%a',
  'lwa %d,%q(9)',
  'lwax %d,9,10',
  'lwaux %d,9,10',
  'ld %d,%q(9)',
  'ldu %d,%q(9)',
  'ldx %d,9,10',
  'ldux %d,9,10',
  'std %a,%q(9)',
  'stdu %a,%q(9)',
  'stdx %a,9,10',
  'stdux %a,9,10',
  'ldbrx %d,9,10',
  'stdbrx %a,9,10',
  'ldarx %d,0,9; stdcx. %a,0,9',
  'tdlti 10,0; tdeq 9,10; tdlgti 10,1000; tdne 4,4',
]; // prettier-ignore

/** POWER9 and POWER10; the batch of little-endian programs runs on that processor. */
const ONLY_POWER10 = [
  ...['modsw', 'moduw', 'modsd', 'modud'].map((name) => `${name} %d,%a,%b`),
  'maddld %d,%a,%b,%d',
  'maddhd %d,%a,%b,%d',
  'maddhdu %d,%a,%b,%d',
  'setb %d,%f',
  'cmpw 5,%a,%b; setb %d,5',
  'cnttzw %d,%a',
  'cnttzd. %d,%a',
  'extswsli %d,%a,%m',
  'cmpb %d,%a,%b',
  'mr %d,%a; xori %d,%d,%u; cmpb %d,%d,%a',
  'popcntb %d,%a',
  'prtyw %d,%a',
  'prtyd %d,%a',
  'addpcis %d,%i; addpcis %a,0; subf %d,%a,%d',
  'pli %d,0x123456789; paddi %a,%a,-0x1fffffff0,0; pnop',
  'pla %d,8f(0),1; mflr %a; bcl 20,31,8f; 8: mflr %b; subf %d,%b,%d; mtlr %a; li %a,0; li %b,0',
  'pld %d,-16(9),0; plwz %a,-9(9),0; plhz %b,8(9),0',
  'plwa %d,-6(9),0; plha %a,-9(9),0; plbz %b,8(9),0',
  'plq 4,-16(9),0; mr 3,5',
  'plq 10,0(9),0; mr 3,10; mr 4,11',
  'pstq 4,-16(9),0',
  'pstd %d,-8(9),0; pstw %a,-12(9),0; psth %b,-14(9),0; pstb %b,15(9),0',
];

const ONLY_32 = ['mcrxr %f', 'lmw 28,0(9)', 'stmw 29,-4(9)'];

function templatesOf(kind: PpcKind): string[] {
  if (kind === '32') return [...COMMON, ...ONLY_32];
  return [...COMMON, ...ONLY_64, ...(kind === 'le' ? ONLY_POWER10 : [])];
}

const CASES = 7;

function batch(kind: PpcKind): string {
  const random = new Random();
  const is64 = kind !== '32';
  const bytes = is64 ? 8 : 4;
  const [load, store] = is64 ? ['ld', 'std'] : ['lwz', 'stw'];
  const data: string[] = [];
  const code: string[] = [];
  let count = 0;
  for (const template of templatesOf(kind)) {
    for (let k = 0; k < CASES; k++) {
      const same = random.below(4);
      const registers = { '%d': same === 1 ? '4' : '3', '%a': '4', '%b': same === 2 ? '4' : '5' } as const;
      const values = [random.value(), random.value(), random.value()];
      if (/^(div|mod)/.test(template)) {
        // Division by zero and overflow are undefined.
        const width = /^(div|mod).?w/.test(template) ? 32 : 64;
        const divisor = values[same === 2 ? 1 : 2]!;
        if (BigInt.asIntN(width, divisor) === 0n || BigInt.asIntN(width, divisor) === -1n)
          values[same === 2 ? 1 : 2] = 7n;
      }
      const text = template.replace(/%[a-z]/g, (name) => {
        switch (name) {
          case '%i': return String(random.below(65536) - 32768);
          case '%u': return String(random.below(65536));
          case '%n': return String(random.below(32));
          case '%m': return String(random.below(64));
          case '%c': return String(random.below(32));
          case '%f': return String(random.below(8));
          case '%k': return String(random.below(256));
          case '%o': return String(random.below(25) - 12);
          case '%q': return String((random.below(5) - 2) * 4);
          case '%d': case '%a': case '%b': return registers[name];
          default: throw new Error(`template ${template}`);
        }
      }); // prettier-ignore
      const rows = [...values, BigInt(random.next()), BigInt(random.below(8)) << 29n];
      data.push(
        ...rows.map((each) => `\t.${is64 ? 'quad' : 'long'} 0x${BigInt.asUintN(8 * bytes, each).toString(16)}`),
      );
      const loads = [3, 4, 5, 6, 7].map((register, i) => `${load} ${register},${i * bytes}(14)`);
      code.push(
        ...loads, `addi 14,14,${5 * bytes}`, 'mr 9,17', `li 10,${random.below(9)}`, 'mtctr 10', 'mtlr 10', 'mtcr 6', 'mtxer 7',
        ...text.split('; '),
        'mfcr 6', 'mfxer 7', 'andis. 7,7,0xe000',
        ...[3, 4, 6, 7, 9].map((register, i) => `${store} ${register},${i * bytes}(15)`),
        ...[0, 1, 2, 3].flatMap((i) => [`${load} 8,${(i - 2) * bytes}(17)`, `${store} 8,${(5 + i) * bytes}(15)`]),
        `addi 15,15,${9 * bytes}`,
      ); // prettier-ignore
      count++;
    }
  }
  // The code is longer than a branch reaches; nothing jumps across it. Templates may use local
  // labels 8 and 9.
  const size = count * 9 * bytes;
  const address = (register: number, symbol: string): string =>
    is64
      ? `lis ${register},${symbol}@highest; ori ${register},${register},${symbol}@higher; sldi ${register},${register},32; ` +
        `oris ${register},${register},${symbol}@h; ori ${register},${register},${symbol}@l`
      : `lis ${register},${symbol}@ha; addi ${register},${register},${symbol}@l`;
  const entry =
    kind === 'be'
      ? '\t.section .opd,"aw"\n\t.globl _start\n_start:\t.quad .L_start,.TOC.@tocbase,0\n\t.text\n.L_start:\n'
      : `${kind === 'le' ? '\t.abiversion 2\n' : ''}\t.globl _start\n_start:\n`;
  return (
    entry +
    [address(14, 'inputs'), address(15, 'results'), address(17, 'buffer'), 'addi 17,17,128'].join('\n') + '\n' +
    code.join('\n') + '\n' +
    ['li 0,4', 'li 3,1', address(4, 'results'), `lis 5,${size >> 16}`, `ori 5,5,${size & 0xffff}`, 'sc', 'li 0,234', 'li 3,5', 'sc'].join('\n') +
    `\n\t.data\n\t.balign 256\nbuffer:\n` +
    Array.from({ length: 256 }, (_, i) => `\t.byte ${(i * 73 + 11) & 255}`).join('\n') +
    `\n\t.balign 8\ninputs:\n${data.join('\n')}\n\t.bss\n\t.balign 8\nresults: .space ${size}\n` +
    '\t.section .note.GNU-stack,"",@progbits\n'
  ); // prettier-ignore
}

const CPU: Readonly<Record<PpcKind, string>> = { le: 'POWER10', be: 'POWER8', 32: '750' };

for (const kind of ['le', 'be', '32'] as const) {
  describeWith([ppcGcc(kind), ppcQemu(kind)], `batch of ${kind}`, () => {
    test('every integer instruction with random operands gives what qemu gives', () => {
      const text = batch(kind);
      const flags = kind === '32' ? ['-Wa,-many'] : ['-Wa,-many', `-mcpu=${CPU[kind].toLowerCase()}`];
      const path = buildPpc(kind, '0', [writeSource('batch.s', text)], flags);
      const expected = qemu(kind, path, [], ['-cpu', CPU[kind]]);
      const here = startPpc(kind, path);
      const stop = here.process.run();
      expect(stop).toEqual({ kind: 'exit', code: 5 });
      expect(expected.code).toBe(5);
      const row = 9 * (kind === '32' ? 4 : 8);
      const templates = templatesOf(kind);
      const toHex = (part: string): string => Buffer.from(part, 'latin1').toString('hex');
      const output = here.output();
      expect(output.length).toBe(templates.length * CASES * row);
      const wrong: string[] = [];
      templates.forEach((template, t) => {
        for (let k = 0; k < CASES; k++) {
          const at = (t * CASES + k) * row;
          const [got, want] = [toHex(output.slice(at, at + row)), toHex(expected.output.slice(at, at + row))];
          if (got !== want) wrong.push(`${template} (${k}): ${got} instead of ${want}`);
        }
      });
      expect(wrong).toEqual([]);
    });
  });
}

describe('faults leave the state before the instruction', () => {
  const D = { ra0: 9, d: 8 };
  const U = { ra: 9, d: 8 };
  const X = { ra0: 9, rb: 10 };
  const UX = { ra: 9, rb: 10 };
  const common: (readonly [mnemonic: string, operands: Readonly<Record<string, number>>])[] = [];
  for (const name of ['lbz', 'lhz', 'lha', 'lwz']) {
    common.push([name, { rt: 3, ...D }], [`${name}u`, { rt: 3, ...U }], [`${name}x`, { rt: 3, ...X }]);
    common.push([`${name}ux`, { rt: 3, ...UX }], [name, { rt: 9, ...D }], [`${name}ux`, { rt: 10, ...UX }]);
  }
  for (const name of ['stb', 'sth', 'stw']) {
    common.push([name, { rs: 3, ...D }], [`${name}u`, { rs: 9, ...U }], [`${name}x`, { rs: 3, ...X }]);
    common.push([`${name}ux`, { rs: 10, ...UX }]);
  }
  for (const name of ['lhbrx', 'lwbrx']) common.push([name, { rt: 3, ...X }]);
  for (const name of ['sthbrx', 'stwbrx']) common.push([name, { rs: 3, ...X }]);
  common.push(
    ['lfd', { frt: 3, ...D }],
    ['lfdux', { frt: 3, ...UX }],
    ['stfdu', { frs: 3, ...U }],
    ['stfdx', { frs: 3, ...X }],
  );
  common.push(['lmw', { rt: 22, ...D }], ['stmw', { rs: 22, ...D }], ['dcbz', X]);
  common.push(['lwarx', { rt: 3, ...X, eh: 0 }], ['stwcx.', { rs: 3, ...X }]);
  const only64: typeof common = [
    ['lwa', { rt: 3, ra0: 9, ds: 8 }], ['lwax', { rt: 3, ...X }], ['lwaux', { rt: 3, ...UX }],
    ['ld', { rt: 3, ra0: 9, ds: 8 }], ['ldu', { rt: 3, ra: 9, ds: 8 }], ['ldx', { rt: 3, ...X }], ['ldux', { rt: 3, ...UX }],
    ['std', { rs: 3, ra0: 9, ds: 8 }], ['stdu', { rs: 9, ra: 9, ds: 8 }], ['stdx', { rs: 3, ...X }], ['stdux', { rs: 3, ...UX }],
    ['stfiwx', { frs: 3, ...X }],
    ['ldbrx', { rt: 3, ...X }], ['stdbrx', { rs: 3, ...X }], ['ldarx', { rt: 3, ...X, eh: 0 }], ['stdcx.', { rs: 3, ...X }],
  ]; // prettier-ignore
  const rows = (['le', 'be', '32'] as const).flatMap((kind) =>
    [...common, ...(kind === '32' ? [] : only64)]
      .filter(([name]) => kind !== 'le' || !name.endsWith('mw'))
      .map(([name, operands]) => [kind, name, operands] as const),
  );
  test.each(rows)('%s %s %o', (kind, mnemonic, operands) => {
    const lines: PpcLine[] = [
      ['addic', { rt: 20, ra: 20, si: -1 }],
      ['cmp', { bf: 3, l: 0, ra: 20, rb: 21 }],
      [mnemonic, operands],
      ['addi', { rt: 20, ra0: 20, si: 5 }],
    ];
    const stores = /^(st|dcbz)/.test(mnemonic);
    // Past the end, below the start, without permission; and, for wide accesses, across the end.
    const below = /arx$|cx\.$/.test(mnemonic) ? 0x1_fff0n : 0x1_ffffn;
    for (const target of [0x2_1000n, below, stores ? 0x3_0000n : 0x4_0000n]) {
      const machine = ppcMachine(kind, lines);
      machine.map({ address: 0x3_0000n, size: 0x1000, permission: 'r' });
      machine.map({ address: 0x4_0000n, size: 0x1000, permission: 'none' });
      for (let i = 3; i < 32; i++) machine.setRegister(`r${i}`, BigInt(i) * 0x0101n);
      machine.setRegister('r9', target - 8n);
      machine.setRegister('r10', 8n);
      const single = machine.memory.read(0x2_0000n, 0x1000)!;
      machine.run({ budget: 2 });
      const before = registersOf(machine);
      // In one go from the start, so that the access is in the middle of a block.
      machine.setRegister('pc', 0x1_0000n);
      machine.setRegister('r20', 20n * 0x0101n);
      const stop = machine.run();
      const access = stores && !(mnemonic.endsWith('cx.') && target !== 0x3_0000n) ? 'write' : 'read';
      expect(stop).toMatchObject({ kind: 'fault', access, instruction: 0x1_0008n });
      expect(registersOf(machine)).toBe(before);
      expect(machine.instructions).toBe(4);
      expect(machine.memory.read(0x2_0000n, 0x1000)).toEqual(single);
    }
  });
});

describe('traps', () => {
  const cases: (readonly [kind: PpcKind, line: PpcLine, hit: boolean])[] = [
    ['le', ['tw', { to: 31, ra: 0, rb: 0 }], true],
    ['be', ['twi', { to: 16, ra: 3, si: 0 }], true],
    ['be', ['twi', { to: 8, ra: 3, si: 0 }], false],
    ['32', ['tw', { to: 4, ra: 3, rb: 3 }], true],
    ['32', ['tw', { to: 2, ra: 3, rb: 4 }], false],
    ['32', ['tw', { to: 1, ra: 3, rb: 4 }], true],
    ['le', ['tdi', { to: 8, ra: 4, si: 4 }], true],
    ['le', ['td', { to: 2, ra: 4, rb: 3 }], true],
    ['le', ['tdi', { to: 4, ra: 4, si: 4 }], false],
  ];
  test.each(cases)('%s %j traps: %s', (kind, line, hit) => {
    const machine = ppcMachine(kind, [line, ['tw', { to: 31, ra: 1, rb: 1 }]]);
    machine.setRegister('r3', BigInt.asUintN(kind === '32' ? 32 : 64, -5n));
    machine.setRegister('r4', 5n);
    expect(machine.run()).toEqual({ kind: 'trap', trap: 'trap-instruction', instruction: hit ? 0x1_0000n : 0x1_0004n });
    expect(machine.instructions).toBe(hit ? 0 : 1);
  });
});

describe('registers people see', () => {
  test('cr and xer are put together from slots and taken apart', () => {
    const machine = ppcMachine('be', [['cmpi', { bf: 2, l: 1, ra: 3, si: 7 }]]);
    machine.setRegister('cr', 0x1234_5678n);
    machine.setRegister('xer', 0xa000_0011n);
    expect(machine.register('cr')).toBe(0x1234_5678n);
    expect(machine.register('xer')).toBe(0xa000_0011n);
    machine.step();
    // less, and a copy of the summary overflow
    expect(machine.register('cr')).toBe(0x1294_5678n);
    // The copy stays when the summary overflow is cleared afterwards.
    machine.setRegister('xer', 0n);
    expect(machine.register('cr')).toBe(0x1294_5678n);
  });

  test.each(['le', 'be', '32'] as const)(
    'mfcr and mfocrf put CR together in translated code, from this block and from earlier ones: %s',
    (kind) => {
      const l = kind === '32' ? 0 : 1;
      for (const xer of [0n, 0x8000_0000n]) {
        for (const value of [3n, 7n, 9n, 0xffff_ffffn]) {
          const machine = ppcMachine(kind, [
            ['cmpi', { bf: 1, l: 0, ra: 4, si: 7 }],
            ['cmpli', { bf: 2, l, ra: 4, ui: 7 }],
            ['cmpli', { bf: 6, l: 0, ra: 4, ui: 7 }],
            ['b', { li: 4 }],
            ['cmpi', { bf: 7, l, ra: 4, si: 9 }],
            ['mfcr', { rt: 3 }],
            ['mfocrf', { rt: 5, fxm: 0x40 }],
            ['mfocrf', { rt: 6, fxm: 1 }],
          ]);
          machine.setRegister('cr', 0x1234_5678n);
          machine.setRegister('xer', xer);
          machine.setRegister('r4', value);
          machine.run({ budget: 8 });
          const cr = machine.register('cr');
          expect(cr & 0xf00f_ff00n).toBe(0x1004_5600n);
          // Compared in this block or the one before: bit 0 is the summary overflow, and of the
          // others one is set.
          expect(cr & 0x0110_0011n).toBe(xer === 0n ? 0n : 0x0110_0011n);
          expect(machine.register('r3')).toBe(cr);
          expect(machine.register('r5')).toBe(cr & 0x0f00_0000n);
          expect(machine.register('r6')).toBe(cr & 15n);
        }
      }
    },
  );

  test('the time base is the number of completed instructions', () => {
    const machine = ppcMachine('le', [
      ['ori', { rs: 0, ra: 0, ui: 0 }],
      ['mftb', { rt: 3, spr: 268 }],
      ['mfspr', { rt: 4, spr: 268 }],
    ]);
    machine.run({ budget: 3 });
    expect([machine.register('r3'), machine.register('r4')]).toEqual([1n, 2n]);
  });
});

describeWith([ppcGcc('le'), ppcQemu('le')], 'counts', () => {
  test('as many instructions as qemu executes, one by one', () => {
    const path = buildPpc('le', '1', [join(PROGRAMS, 'start.S'), join(PROGRAMS, 'recursion.c')]);
    const log = temporaryFile('log');
    qemu('le', path, [], ['-singlestep', '-d', 'exec,nochain', '-D', log]);
    const lines = readFileSync(log, 'latin1')
      .split('\n')
      .filter((line) => line.startsWith('Trace'));
    const here = startPpc('le', path);
    expect(here.process.run().kind).toBe('exit');
    expect(here.process.machine.instructions).toBe(lines.length);
  });
});
