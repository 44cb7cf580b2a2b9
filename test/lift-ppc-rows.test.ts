/**
 * PowerPC semantics that no program under qemu-user shows: traps that hit, alignment interrupts,
 * privileged registers, instructions that are only named, prefixed instructions at borders, and the
 * cases in which qemu 7.2 departs from the Power ISA 3.1B.
 */
import { describe, expect, test } from '@jest/globals';
import { spawnSync } from './support/spawn.js';
import { constants } from 'node:os';
import {
  buildPpc,
  ppcEmulation,
  ppcGcc,
  ppcMachine,
  ppcQemu,
  registersOf,
  startPpc,
  writeSource,
} from './support/emulator.js';
import type { PpcKind, PpcLine } from './support/emulator.js';
import { describeWith } from './support/tools.js';
import { PPC_KINDS, tableOf, trapConditions } from './support/ppc-batch.js';
import { namedOnly } from './support/ppc-local.js';
import { FLOAT_ROWS, VSX_FLOAT_ROWS } from './support/ppc-floats.js';
import { VECTOR_ROWS } from './support/ppc-vectors.js';
import { Machine } from '../src/emulator/index.js';
import { isLong, repeats } from './support/long.js';

const START = 0x1_0000n;
const NOP = 0x6000_0000;
const END: PpcLine = ['tw', { to: 31, ra: 1, rb: 1 }];

/** A machine with code given as words. */
function ofWords(kind: PpcKind, words: readonly number[], address = START): Machine {
  const machine = new Machine({ lifter: ppcEmulation(kind).lifter });
  const code = new Uint8Array(words.length * 4);
  const view = new DataView(code.buffer);
  words.forEach((word, i) => {
    view.setUint32(4 * i, word, kind === 'le');
  });
  machine.load(address, code, { permission: 'rx', size: 0x1000 });
  machine.map({ address: 0x2_0000n, size: 0x1000, permission: 'rw' });
  machine.setRegister('pc', address);
  return machine;
}

describe('traps', () => {
  const values = [
    0n,
    1n,
    -1n,
    5n,
    0x7fff_ffffn,
    0x8000_0000n,
    -0x8000_0000n,
    0x7fff_ffff_ffff_ffffn,
    -0x8000_0000_0000_0000n,
  ];

  test.each(isLong ? PPC_KINDS : PPC_KINDS.slice(-1))(
    '%s: every TO with every order of the operands, registers and immediates',
    (kind) => {
      let cases = 0;
      const wrong: string[] = [];
      for (const mnemonic of kind === '32' ? (['tw', 'twi'] as const) : (['tw', 'twi', 'td', 'tdi'] as const)) {
        const width = mnemonic.startsWith('td') ? 64 : 32;
        const immediate = mnemonic.endsWith('i');
        for (let to = 0; to < 32; to++) {
          // Immediates make machines of their own; registers do not.
          for (const si of immediate ? [0, 5, -1, -32768, 32767] : [0]) {
            const machine = ppcMachine(kind, [[mnemonic, immediate ? { to, ra: 3, si } : { to, ra: 3, rb: 4 }], END]);
            for (const a of values) {
              for (const b of immediate ? [BigInt(si)] : values) {
                machine.setRegister('pc', START);
                machine.setRegister('r3', a);
                machine.setRegister('r4', b);
                const hits = to === 31 || (trapConditions(a, b, width) & to) !== 0;
                const stop = machine.run();
                cases++;
                if (stop.kind !== 'trap' || stop.trap !== 'trap-instruction' || (stop.instruction === START) !== hits) {
                  wrong.push(`${mnemonic} ${to} ${a} ${b}`);
                }
              }
            }
          }
        }
      }
      expect(wrong).toEqual([]);
      expect(cases).toBe(kind === '32' ? 32 * 9 * 14 : 2 * 32 * 9 * 14);
    },
  );
});

describe('what a program may not do stops with its name', () => {
  test.each(repeats(PPC_KINDS, 2))('%s: rows that are only named', (kind) => {
    const rows = namedOnly(kind);
    const all = tableOf(kind).rows.filter((row) => row.attributes.decodeOnly === true);
    expect(rows).toHaveLength(all.length);
    const executed: string[] = [];
    for (const { mnemonic, word } of rows) {
      const machine = ofWords(kind, [word, NOP]);
      const before = registersOf(machine);
      const stop = machine.run({ budget: 1 });
      // Accesses find nothing mapped.
      if (stop.kind === 'step-limit' || stop.kind === 'fault') executed.push(mnemonic);
      else {
        expect(stop).toMatchObject({ kind: 'unknown-instruction', mnemonic, instruction: START });
        expect(registersOf(machine)).toBe(before);
      }
    }
    // Hints, floating point, and vectors, of which VSX is for 64-bit programs.
    const hints = [
      'wait',
      'dcba',
      'icbt',
      'dcbtls',
      'dcbtstls',
      'dcblc',
      'dst',
      'dstt',
      'dstst',
      'dststt',
      'dss',
      'dssall',
    ];
    const isOfVmx = (name: string): boolean => /^(l|st)?v|^m[ft]vscr|^bcd/.test(name);
    const vectors = kind === '32' ? VECTOR_ROWS.filter(isOfVmx) : [...VECTOR_ROWS, ...VSX_FLOAT_ROWS];
    expect(executed.sort()).toEqual([...new Set([...hints, ...FLOAT_ROWS, ...vectors])].sort());
  });

  test.each(PPC_KINDS)('%s: registers of supervisors are privileged, others unknown', (kind) => {
    // SRR0, SPRG0, HID0
    for (const spr of [26, 272, 1008]) {
      const bits = { trap: 'privileged', kind: 'trap' };
      expect(ppcMachine(kind, [['mfspr', { rt: 3, spr }]]).run()).toMatchObject(bits);
      expect(ppcMachine(kind, [['mtspr', { rs: 3, spr }]]).run()).toMatchObject(bits);
    }
    const unknown = ppcMachine(kind, [['mfspr', { rt: 3, spr: 2 }]]);
    expect(unknown.run()).toMatchObject({ kind: 'unknown-instruction', mnemonic: 'mfspr' });
  });

  test('addex with a reserved CY is an invalid form', () => {
    for (const l2 of [0, 1, 2, 3]) {
      const machine = ppcMachine('le', [['addex', { rt: 3, ra: 4, rb: 5, l2 }], END]);
      machine.setRegister('xer', 0x4000_0000n);
      const before = registersOf(machine);
      const stop = machine.run();
      if (l2 === 0) expect(machine.register('r3')).toBe(1n);
      else {
        expect(stop).toEqual({ kind: 'trap', trap: 'invalid-form', instruction: START });
        expect(registersOf(machine)).toBe(before);
      }
    }
  });

  test('decrementing CTR and jumping to it is an invalid form', () => {
    for (const bo of [0, 2, 8, 10, 16, 18]) {
      const machine = ppcMachine('be', [['bcctr', { bo, bi: 0, bh: 0 }]]);
      machine.setRegister('ctr', 0x1_0000n);
      expect(machine.run()).toEqual({ kind: 'trap', trap: 'invalid-form', instruction: START });
      expect(machine.register('ctr')).toBe(0x1_0000n);
    }
  });
});

describe('where qemu departs from the manual', () => {
  const OV = 0x4008_0000n;

  test.each([
    [0x7fff_ffff_ffff_ffffn, -0x8000_0000_0000_0000n, true],
    [0x8000_0000n, 0xffff_ffffn, true],
    [0x8000_0000n, 0x1_0000_0001n, false],
    [1n, 2n, true],
    [1n, -2n, false],
    [1n, 3n, false],
    [1n, 0n, true],
    [5n, 5n, true],
  ])('divdeo of %s by %s overflows: %s', (a, b, overflows) => {
    const machine = ppcMachine('be', [['divde', { rt: 3, ra: 4, rb: 5, oe: 1, rc: 0 }]]);
    machine.setRegister('r4', a);
    machine.setRegister('r5', b);
    machine.step();
    expect(machine.register('xer') & OV).toBe(overflows ? OV : 0n);
    if (!overflows) expect(machine.register('r3')).toBe(BigInt.asUintN(64, (a << 64n) / b));
  });

  test.each(['be', 'le'] as const)('%s: stqcx. stores what lqarx reserved', (kind) => {
    const reserve: PpcLine = ['lqarx', { rt: 6, ra0: 0, rb: 9, eh: 0 }];
    const store: PpcLine = ['stqcx.', { rs: 4, ra0: 0, rb: 9 }];
    const machine = ppcMachine(kind, [reserve, store, store, ['lq', { rt: 10, ra0: 9, dq: 0 }]]);
    machine.memory.write(
      0x2_0000n,
      Uint8Array.from({ length: 16 }, (_, i) => i),
    );
    machine.setRegister('r9', 0x2_0000n);
    machine.setRegister('r4', 0x1122_3344_5566_7788n);
    machine.setRegister('r5', 0x99aa_bbcc_ddee_ff00n);
    machine.run({ budget: 2 });
    expect(machine.register('cr') >> 28n).toBe(2n);
    const loaded = [machine.register('r6'), machine.register('r7')];
    const bytes = [0x0001_0203_0405_0607n, 0x0809_0a0b_0c0d_0e0fn];
    const swapped = [0x0f0e_0d0c_0b0a_0908n, 0x0706_0504_0302_0100n];
    expect(loaded).toEqual(kind === 'be' ? bytes : swapped);
    machine.run({ budget: 2 });
    expect(machine.register('cr') >> 28n).toBe(0n);
    expect([machine.register('r10'), machine.register('r11')]).toEqual([
      0x1122_3344_5566_7788n,
      0x99aa_bbcc_ddee_ff00n,
    ]);
    // Another store in between: the reservation is lost.
    const broken = ppcMachine(kind, [reserve, ['stb', { rs: 5, ra0: 9, d: 15 }], store]);
    broken.setRegister('r9', 0x2_0000n);
    broken.setRegister('r5', 1n);
    broken.run({ budget: 3 });
    expect(broken.register('cr') >> 28n).toBe(0n);
    expect(broken.memory.read(0x2_0000n, 16)).toEqual(Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1));
  });

  test('VRSAVE has 32 bits, reserved bits of XER stay 0', () => {
    const machine = ppcMachine('be', [
      ['mtspr', { rs: 3, spr: 256 }],
      ['mfspr', { rt: 4, spr: 256 }],
      ['mtspr', { rs: 3, spr: 1 }],
      ['mfspr', { rt: 5, spr: 1 }],
    ]);
    machine.setRegister('r3', -1n);
    machine.run({ budget: 4 });
    expect(machine.register('r4')).toBe(0xffff_ffffn);
    expect(machine.register('r5')).toBe(0xe00c_007fn);
    expect(machine.register('xer')).toBe(0xe00c_007fn);
  });
});

describe('prefixed instructions', () => {
  /**
   * plwz, plbz, plhz, plha, pstw, pstb, psth, plfs, plfd, pstfs, pstfd: MLS; plwa, pld, pstd: 8LS.
   */
  const FORMS: readonly (readonly [name: string, type: 0 | 2, opcode: number, bytes: number])[] = [
    ['plwz', 2, 32, 4], ['plbz', 2, 34, 1], ['plhz', 2, 40, 2], ['plha', 2, 42, 2], ['pstw', 2, 36, 4], ['pstb', 2, 38, 1],
    ['psth', 2, 44, 2], ['plfs', 2, 48, 4], ['plfd', 2, 50, 8], ['pstfs', 2, 52, 4], ['pstfd', 2, 54, 8],
    ['plwa', 0, 41, 4], ['pld', 0, 57, 8], ['pstd', 0, 61, 8],
  ]; // prettier-ignore
  const plain: Readonly<Record<string, number>> = {
    plwz: 32, plbz: 34, plhz: 40, plha: 42, pstw: 36, pstb: 38, psth: 44, plfs: 48, plfd: 50, pstfs: 52, pstfd: 54, plwa: 58, pld: 58, pstd: 62,
  }; // prettier-ignore
  /** Two words; displacement of 34 bits. */
  const words = (
    type: number,
    opcode: number,
    rt: number,
    ra: number,
    displacement: bigint,
    relative = 0,
  ): number[] => {
    const low = BigInt.asUintN(34, displacement);
    const prefix = (1 << 26) | (type << 24) | (relative << 20) | Number(low >> 16n);
    return [prefix >>> 0, ((opcode << 26) | (rt << 21) | (ra << 16) | Number(low & 0xffffn)) >>> 0];
  };

  test.each(['be', 'le'] as const)('%s: each does what its short form does', (kind) => {
    for (const [name, type, opcode] of FORMS) {
      const short = ((plain[name]! << 26) | (3 << 21) | (9 << 16) | (name === 'plwa' ? 18 : 16)) >>> 0;
      const long = [
        words(type, opcode, 3, 9, 16n),
        words(type, opcode, 3, 0, 0x2_0018n),
        words(type, opcode, 3, 0, 0x1_0018n, 1),
      ];
      const states = [[short], ...long].map((code) => {
        const machine = ofWords(kind, [...code, NOP]);
        machine.memory.write(
          0x2_0000n,
          Uint8Array.from({ length: 64 }, (_, i) => i * 37 + 0x91),
        );
        machine.setRegister('r3', 0x8877_6655_4433_2211n);
        machine.setRegister('f3', 0x4009_21fb_5444_2d18n);
        machine.setRegister('r9', 0x2_0008n);
        expect(machine.run({ budget: 1 }).kind).toBe('step-limit');
        expect(machine.pc).toBe(START + 4n * BigInt(code.length));
        machine.setRegister('pc', 0n);
        return registersOf(machine) + Buffer.from(machine.memory.read(0x2_0000n, 64)!).toString('hex');
      });
      expect(states).toEqual(states.map(() => states[0]));
    }
  });

  test.each(['be', 'le'] as const)(
    '%s: quadwords, the lower address in the lower register; invalid registers',
    (kind) => {
      const machine = ofWords(kind, [...words(0, 56, 4, 9, 8n), ...words(0, 60, 4, 9, 0x20n), NOP]);
      const [first, second] = [0x0102_0304_0506_0708n, 0x1112_1314_1516_1718n];
      machine.writeWord(0x2_0008n, 8, first);
      machine.writeWord(0x2_0010n, 8, second);
      machine.setRegister('r9', 0x2_0000n);
      machine.run({ budget: 2 });
      expect([machine.register('r4'), machine.register('r5')]).toEqual([first, second]);
      expect([machine.readWord(0x2_0020n, 8), machine.readWord(0x2_0028n, 8)]).toEqual([first, second]);
      for (const [opcode, rt, ra] of [
        [56, 5, 9],
        [56, 4, 4],
        [60, 5, 9],
      ] as const) {
        const invalid = ofWords(kind, words(0, opcode, rt, ra, 0n));
        expect(invalid.run()).toEqual({ kind: 'trap', trap: 'invalid-form', instruction: START });
      }
      for (const [opcode, access] of [
        [56, 'read'],
        [60, 'write'],
      ] as const) {
        for (const place of [0x2_0ff8n, 0x2_1000n, 0x2_0ffcn]) {
          const faulting = ofWords(kind, words(0, opcode, 4, 9, 0n));
          faulting.setRegister('r9', place);
          const before = registersOf(faulting);
          expect(faulting.run()).toEqual({ kind: 'fault', access, address: 0x2_1000n, instruction: START });
          expect(registersOf(faulting)).toBe(before);
        }
      }
    },
  );

  test('a fault of each leaves the state', () => {
    for (const [name, type, opcode, bytes] of FORMS) {
      for (const place of [0x2_1000n, bytes > 1 ? 0x2_0fffn : 0x2_1001n]) {
        const machine = ofWords('le', words(type, opcode, 3, 9, place - 0x2_0000n));
        machine.setRegister('r9', 0x2_0000n);
        const before = registersOf(machine);
        const access = name.startsWith('pst') ? 'write' : 'read';
        expect(machine.run()).toMatchObject({ kind: 'fault', access, instruction: START });
        expect(registersOf(machine)).toBe(before);
      }
    }
  });

  test('across a border of 64 bytes they raise the alignment interrupt', () => {
    const machine = ofWords('le', [...Array.from({ length: 15 }, () => 0x6000_0000), ...words(2, 14, 3, 0, 1n)]);
    expect(machine.run()).toEqual({ kind: 'trap', trap: 'alignment', instruction: START + 60n });
    expect(machine.instructions).toBe(15);
    expect(machine.register('r3')).toBe(0n);
  });

  test('vector and quadword forms stop with their names', () => {
    const cases: (readonly [string, number, number])[] = [
      ['plxsd', 0, 42], ['plxssp', 0, 43], ['plxv', 0, 50], ['pstxv', 0, 54], ['pstxsd', 0, 46],
    ]; // prettier-ignore
    for (const [mnemonic, type, opcode] of cases) {
      const machine = ofWords('be', words(type, opcode, 4, 9, 0n));
      expect(machine.run()).toMatchObject({ kind: 'unknown-instruction', mnemonic, instruction: START });
    }
  });
});

describe('alignment, as Linux lets a program see it', () => {
  test.each(['be', 'le'] as const)('%s: lq and stq of any address are completed', (kind) => {
    const first: PpcLine[] = [['lq', { rt: 4, ra0: 9, dq: 0 }], ['stq', { rs: 4, ra0: 9, ds: 0x40 }], END];
    for (let offset = 0; offset < 16; offset++) {
      const machine = ppcMachine(kind, first);
      const bytes = Uint8Array.from({ length: 16 }, (_, i) => 0x30 + i);
      machine.memory.write(0x2_0000n + BigInt(offset), bytes);
      machine.setRegister('r9', 0x2_0000n + BigInt(offset));
      expect(machine.run().kind).toBe('trap');
      expect(machine.memory.read(0x2_0040n + BigInt(offset), 16)).toEqual(bytes);
      expect(machine.register('r4') & 0xffn).toBe(kind === 'be' ? 0x37n : 0x38n);
    }
  });
});

describeWith([ppcGcc('be'), ppcQemu('be')], 'signals of alignment and invalid forms', () => {
  test('those of qemu 7.2, which lacks the one of store-conditionals without a reservation', () => {
    // Facts of qemu-ppc64 7.2 -cpu power10; SIGBUS is 7, SIGILL 4.
    const programs: readonly (readonly [text: string, signal: number | null, ours: number | null])[] = [
      ['lharx 5,0,9', 7, 7],
      ['lwarx 5,0,9', 7, 7],
      ['ldarx 5,0,9', 7, 7],
      ['lqarx 4,0,9', 7, 7],
      ['stwcx. 5,0,9', null, 7],
      ['stdcx. 5,0,9', null, 7],
      ['lq 4,0(9)', null, null],
      ['stq 4,-64(9)', null, null],
      ['.long 0x7c642954', null, null], // addex 3,4,5,0
      ['.long 0x7c642b54', 4, 4],
      ['.long 0x7c642d54', 4, 4],
      ['.long 0x7c642f54', 4, 4],
    ];
    for (const [text, theirs, ours] of programs) {
      const source = writeSource(
        'signal.s',
        `\t.globl _start\n\t.section .opd,"aw"\n_start:\t.quad .L,.TOC.@tocbase,0\n\t.text\n.L:\taddi 9,1,-255\n\t${text}\n\tli 0,234\n\tli 3,9\n\tsc\n`,
      );
      const path = buildPpc('be', '0', [source], ['-mcpu=power10']);
      const result = spawnSync(ppcQemu('be'), ['-cpu', 'power10', path]);
      const there =
        result.signal === null
          ? result.status! > 128
            ? result.status! - 128
            : null
          : constants.signals[result.signal];
      expect([text, there]).toEqual([text, theirs]);
      const stop = startPpc('be', path).process.run();
      const signal = stop.kind !== 'trap' ? null : stop.trap === 'alignment' ? 7 : stop.trap === 'invalid-form' ? 4 : 5;
      expect([text, signal]).toEqual([text, ours]);
      if (signal === null) expect(stop).toEqual({ kind: 'exit', code: 9 });
    }
  });
});

describe('blocks of caches', () => {
  test.each([
    ['32', 32],
    ['be', 128],
    ['le', 128],
  ] as const)('%s: dcbz clears %i bytes from their start', (kind, size) => {
    for (const offset of [0, 1, size - 1, size, 3 * size - 1]) {
      const machine = ppcMachine(kind, [['dcbz', { ra0: 0, rb: 9 }]]);
      machine.memory.write(0x2_0000n, new Uint8Array(0x400).fill(0xaa));
      machine.setRegister('r9', 0x2_0000n + BigInt(offset));
      machine.step();
      const first = offset - (offset % size);
      const expected = new Uint8Array(0x400).fill(0xaa).fill(0, first, first + size);
      expect(machine.memory.read(0x2_0000n, 0x400)).toEqual(expected);
    }
  });
});
