/**
 * Windows of RISC-V in random functions (K-RV-1, K-RV-2): registers that a jump of two words
 * takes are dead, whatever somebody writes into them; the jump and its buffer change nothing; and
 * the parcels of a window are replaced in the one order that is safe.
 */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { riscv64 as arch } from '../src/arch-riscv/index.js';
import { riscvProbes as support } from '../src/arch-riscv/kprobes.js';
import { REGISTER_NAMES, riscvTable } from '../src/arch-riscv/isa.js';
import { concatBytes } from '../src/bytes.js';
import { Machine } from '../src/emulator/index.js';
import type { JumpOptimization, JumpWindow } from '../src/machine/probes.js';
import { times } from './support/long.js';
import { codeOf } from './support/probe-code.js';

const jump = ((): JumpOptimization => {
  const { optimization } = support;
  if (optimization.kind === 'none') throw new Error(optimization.reason);
  return optimization;
})();

const AT = 0x1_0000n;
/** Out of reach of jal. */
const BUFFER = 0x4000_0000n;
const CALLEE = 0x2_0000n;
const STACK = 0x8_0000n;
const EXIT = 0x3000n;

// -------------------------------------------------------------------------------- random functions

/** t0, t1, t2, a0, a1, a5, s2, t3. */
const POOL = [5, 6, 7, 10, 11, 15, 18, 28] as const;
/** Those that instructions of 2 bytes can name. */
const SHORT = [10, 11, 15] as const;

interface Piece {
  readonly mnemonic: string;
  readonly sizeBytes: 2 | 4;
  /** Position of the instruction that it may go to; null: it goes on. */
  readonly target: number | null;
  readonly operands: Readonly<Record<string, number>>;
}

const register = fc.constantFrom(...POOL);
const short = fc.constantFrom(...SHORT);
const target = fc.nat({ max: 30 });
const piece = (
  mnemonic: string,
  sizeBytes: 2 | 4,
  operands: Readonly<Record<string, fc.Arbitrary<number>>>,
  to: fc.Arbitrary<number> | null = null,
): fc.Arbitrary<Piece> =>
  fc.record({
    mnemonic: fc.constant(mnemonic),
    sizeBytes: fc.constant(sizeBytes),
    target: to ?? fc.constant(null),
    operands: fc.record(operands) as fc.Arbitrary<Record<string, number>>,
  });
const three = { rd: register, rs1: register, rs2: register };
const imm = fc.integer({ min: -2048, max: 2047 });
const small = fc.integer({ min: -32, max: 31 });
const slot = fc.nat({ max: 7 }).map((n) => 8 * n);
const sp = fc.constant(2);

const anyPiece: fc.Arbitrary<Piece> = fc.oneof(
  ...['add', 'sub', 'xor', 'sltu', 'mul'].map((name) => piece(name, 4, three)),
  piece('addi', 4, { rd: register, rs1: register, imm }),
  piece('ld', 4, { rd: register, rs1: sp, imm: slot }),
  piece('sd', 4, { rs2: register, rs1: sp, imm: slot }),
  piece('auipc', 4, { rd: register, upper: fc.integer({ min: -8, max: 7 }).map((n) => n * 4096) }),
  // What only writes is what makes registers dead.
  ...[1, 2, 3].map(() =>
    piece('lui', 4, { rd: register, upper: fc.integer({ min: 1, max: 99 }).map((n) => n * 4096) }),
  ),
  ...[1, 2, 3].map(() => piece('c.li', 2, { rd: register, imm: small })),
  piece('c.mv', 2, { rd: register, rs2: register }),
  piece('c.add', 2, { rd: register, rs2: register }),
  piece('c.addi', 2, { rd: register, imm: fc.integer({ min: 1, max: 31 }) }),
  piece('beq', 4, { rs1: register, rs2: register }, target),
  piece('bltu', 4, { rs1: register, rs2: register }, target),
  piece('c.bnez', 2, { rs1c: short }, target),
  piece('jal', 4, { rd: fc.constant(0) }, target),
  piece('c.j', 2, {}, target),
);

function bytesOf(value: number, sizeBytes: 2 | 4): Uint8Array {
  return Uint8Array.of(value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, value >>> 24).slice(0, sizeBytes);
}

/** The function: its instructions, then `ret`. */
function assembled(pieces: readonly Piece[]): { bytes: Uint8Array; offsets: number[] } {
  const offsets: number[] = [];
  let size = 0;
  for (const { sizeBytes } of pieces) {
    offsets.push(size);
    size += sizeBytes;
  }
  offsets.push(size);
  const words = pieces.map(({ mnemonic, sizeBytes, target: to, operands }, i) => {
    const off = to === null ? {} : { off: offsets[to % offsets.length]! - offsets[i]! };
    return bytesOf(riscvTable.encode(mnemonic, { ...operands, ...off }), sizeBytes);
  });
  return { bytes: concatBytes([...words, bytesOf(riscvTable.encode('jalr', { rd: 0, rs1: 1, imm: 0 }), 4)]), offsets };
}

// ----------------------------------------------------------------------------------------- running

const VALUES = [0x1234_5678_9abc_def0n, 7n, 0n, 0xffff_ffff_ffff_fff8n, 0x8000_0000n, 3n, 0x55aa_55aa_55aan, 1n];

/** Everything that the function leaves behind; null: it does not return soon. */
function outcome(
  text: Uint8Array,
  more: {
    readonly buffer?: Uint8Array;
    readonly spoil?: readonly (readonly [at: bigint, name: string, value: bigint])[];
  },
): string | null {
  const { emulation } = arch;
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  const machine = new Machine({ lifter: emulation.lifter, tier: 0 });
  machine.load(AT, text, { permission: 'rx', size: 0x1000 });
  if (more.buffer) machine.load(BUFFER, more.buffer, { permission: 'rx', size: 0x1000 });
  machine.load(CALLEE, SPOILER, { permission: 'rx', size: 0x1000 });
  machine.map({ address: STACK - 0x1000n, size: 0x2000, permission: 'rw' });
  POOL.forEach((n, i) => {
    machine.setRegister(REGISTER_NAMES[n]!, VALUES[i]!);
  });
  machine.setRegister('sp', STACK);
  machine.setRegister('ra', EXIT);
  machine.setRegister('pc', AT);
  const spoils = new Map<bigint, [string, bigint][]>();
  for (const [at, name, value] of more.spoil ?? []) spoils.set(at, [...(spoils.get(at) ?? []), [name, value]]);
  for (const [at, list] of spoils) {
    machine.hook(at, (cpu) => {
      for (const [name, value] of list) cpu.setRegister(name, value);
      return 'continue';
    });
  }
  const stop = machine.run({ budget: more.buffer ? 60_000 : 400 });
  if (stop.kind !== 'fault' || stop.address !== EXIT) return null;
  const registers = REGISTER_NAMES.slice(1).map((name) => `${name}=${machine.register(name).toString(16)}`);
  // Without what lies below the stack.
  return [...registers, Buffer.from(machine.memory.read(STACK, 64)!).toString('hex')].join(' ');
}

/** Callback that changes all that it may. */
const SPOILER = concatBytes(
  [5, 6, 7, 28, 29, 30, 31, 10, 11, 12, 13, 14, 15, 16, 17]
    .map((rd) => riscvTable.encode('addi', { rd, rs1: 0, imm: -1 - rd }))
    .concat(riscvTable.encode('jalr', { rd: 0, rs1: 1, imm: 0 }))
    .map((value) => bytesOf(value, 4)),
);

const windowsAt = (bytes: Uint8Array, offset: number): readonly JumpWindow[] => {
  const found = jump.windows(codeOf(bytes, AT), AT + BigInt(offset));
  return 'kind' in found ? [] : found;
};

/** Random functions; half as many for the order of stores. */
const RUNS = times(400, 150, 80);

const functions = fc.array(anyPiece, { minLength: 6, maxLength: 30 }).map(assembled);

test('K-RV-2, T-KP-32: registers that a window takes are dead, and its jump changes nothing', () => {
  const counts = { functions: 0, windows: 0, registers: new Set<string>() };
  fc.assert(
    fc.property(functions, fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }), ({ bytes, offsets }, value) => {
      const expected = outcome(bytes, {});
      if (expected === null) return;
      counts.functions++;
      for (const offset of offsets) {
        const window = windowsAt(bytes, offset).find(({ form }) => form.startsWith('auipc'));
        if (window === undefined) continue;
        counts.windows++;
        const [there, back] = window.scratch!;
        counts.registers.add(there!).add(back!);
        const end = window.address + BigInt(window.bytes.length);
        const spoil = [
          [window.address, there!, value],
          [end, back!, ~value & ((1n << 64n) - 1n)],
        ] as const;
        expect([offset, window.form, outcome(bytes, { spoil })]).toEqual([offset, window.form, expected]);
        const buffer = jump.build(window, { address: BUFFER, op: 0n, callees: [CALLEE], toc: null, redZone: true });
        if (buffer.kind === 'refused') throw new Error(buffer.reason);
        const text = bytes.slice();
        text.set(jump.jump(window, BUFFER), offset);
        expect([offset, 'jump', outcome(text, { buffer: buffer.bytes })]).toEqual([offset, 'jump', expected]);
      }
    }),
    { seed: 40, numRuns: RUNS },
  );
  process.stderr.write(
    `${counts.windows} windows of two words in ${counts.functions} functions, registers ${[...counts.registers].sort().join(' ')}\n`,
  );
  expect(counts.windows).toBeGreaterThan(0.75 * RUNS);
  expect(counts.registers.size).toBeGreaterThan(5);
});

test('K-RV-3: a window is replaced breakpoint first, then what is behind its first parcel, then that parcel, with a sync behind each', () => {
  let count = 0;
  fc.assert(
    fc.property(functions, fc.bigInt({ min: 1n, max: 200n }), ({ bytes, offsets }, distance) => {
      for (const offset of offsets) {
        for (const window of windowsAt(bytes, offset)) {
          const at = window.form === 'jal' ? AT + 0x1000n * distance : BUFFER + 0x1000n * distance;
          const armed = window.bytes.slice();
          const trap = support.breakpoint(window.bytes);
          armed.set(trap);
          const jumped = window.bytes.slice();
          jumped.set(jump.jump(window, at));
          // Code of whole words may run where a parcel cannot be stored by itself.
          const isWordwise = window.address % 4n === 0n && window.instructions.every((each) => each.bytes.length === 4);
          const first = isWordwise ? 4 : 2;
          for (const [steps, from, to] of [
            [jump.optimize(window, at), armed, jumped],
            [jump.undo(window, at), jumped, armed],
          ] as const) {
            const now = from.slice();
            const stores = steps.filter((each) => each.kind === 'store');
            // A jump of two instructions is left before the second of them comes back as something
            // else.
            const wait = window.form !== 'jal' && to === armed ? ['wait'] : [];
            const kinds = stores.flatMap((_, i) => ['store', 'sync', ...(i === 0 ? wait : [])]);
            expect(steps.map(({ kind }) => kind)).toEqual(kinds);
            const seen = stores.map((each) => {
              const start = Number(each.address - window.address);
              expect(start + each.bytes.length).toBeLessThanOrEqual(window.bytes.length);
              now.set(each.bytes, start);
              return [start, each.bytes.length];
            });
            const rest = window.bytes.length - first;
            // The breakpoint of a word that is replaced by a word is there already.
            const expected = rest > 0 ? [[0, first], [first, rest], [0, first]] : [[0, first]]; // prettier-ignore
            expect([window.form, offset, seen]).toEqual([window.form, offset, expected]);
            if (rest > 0) {
              const shown = stores[0]!.kind === 'store' ? stores[0]!.bytes : null;
              expect(shown).toEqual(support.breakpoint(isWordwise ? Uint8Array.of(3) : Uint8Array.of(1)));
            }
            expect(now).toEqual(to);
          }
          count++;
        }
      }
    }),
    { seed: 40, numRuns: RUNS / 2 },
  );
  expect(count).toBeGreaterThan(2.5 * RUNS);
});
