/**
 * x87 as programs execute it, against vectors of Berkeley TestFloat 3e with 80 bits: `node
 * build/scripts/soak-x87.js TESTFLOAT_GEN [MOST]`. TESTFLOAT_GEN is its generator, built with
 * `SPECIALIZE_TYPE=8086-SSE`, whose NaNs are those of x87; of each function and mode at most MOST
 * vectors of level 1 are looked at (2,000), evenly spread. Where the sources are
 * `scripts/soak-testfloat.ts` says.
 *
 * Sums, differences, products, quotients, roots with each rounding mode and precision, remainders
 * (`fprem1`), rounding, comparisons, conversions: results, and flags of the status word but DE,
 * which IEEE 754 does not have.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { arches } from '../src/arches.js';
import { Machine } from '../src/emulator/index.js';

const [generator, most = '2000'] = process.argv.slice(2);
if (generator === undefined) throw new Error('usage: soak-x87 TESTFLOAT_GEN [MOST]');
const MOST = Number(most);

const CODE = 0x1_0000n;
const DATA = 0x100_0000n;
/** Places of the operands, the result, the control and the status word. */
const AT = { a: 0, b: 16, result: 32, control: 48, status: 50 } as const;

/** Rounding modes of the generator, by the field of the control word. */
const ROUNDING = ['-rnear_even', '-rmin', '-rmax', '-rminMag'] as const;
const PRECISION = [
  ['-precision32', 0],
  ['-precision64', 2],
  ['-precision80', 3],
] as const;

interface Operation {
  readonly name: string;
  /** Between setting the control word and storing the status word; `rsi` leads to the data. */
  readonly code: readonly number[];
  readonly bytes: readonly number[];
  /** Of the result; 0: it is in the flags of a comparison. */
  readonly result: number;
  readonly hasModes: boolean;
  readonly hasPrecision: boolean;
  readonly more?: readonly string[];
  readonly compares?: (flags: number) => boolean;
}

const [LOAD_A, LOAD_B, STORE] = [
  [0xdb, 0x2e],
  [0xdb, 0x6e, AT.b],
  [0xdb, 0x7e, AT.result],
] as const;
const [CARRY, PARITY, ZERO] = [1, 4, 0x40];

const arithmetic = (name: string, code: readonly number[], operands: 1 | 2): Operation => ({
  name: `extF80_${name}`,
  code: [...LOAD_A, ...(operands === 2 ? LOAD_B : []), ...code, ...STORE],
  bytes: operands === 2 ? [10, 10] : [10],
  result: 10,
  hasModes: true,
  hasPrecision: true,
});
const comparison = (name: string, signals: boolean, is: (flags: number) => boolean): Operation => ({
  name: `extF80_${name}`,
  // What is compared is taken off, and the other one too.
  code: [...LOAD_B, ...LOAD_A, 0xdf, signals ? 0xf1 : 0xe9, 0xdd, 0xd8],
  bytes: [10, 10],
  result: 0,
  hasModes: false,
  hasPrecision: false,
  compares: (flags) => (flags & PARITY) === 0 && is(flags),
});
const conversion = (
  name: string,
  code: readonly number[],
  from: number,
  result: number,
  rounds: boolean,
): Operation => ({
  name,
  code,
  bytes: [from],
  result,
  hasModes: rounds,
  hasPrecision: false,
  ...(/to_u?i\d/.test(name) && { more: ['-exact'] }),
});

const less = (flags: number): boolean => (flags & CARRY) !== 0;
const equal = (flags: number): boolean => (flags & ZERO) !== 0;
const both = (flags: number): boolean => less(flags) || equal(flags);

const FUNCTIONS: readonly Operation[] = [
  arithmetic('add', [0xde, 0xc1], 2),
  arithmetic('sub', [0xde, 0xe9], 2),
  arithmetic('mul', [0xde, 0xc9], 2),
  arithmetic('div', [0xde, 0xf9], 2),
  arithmetic('sqrt', [0xd9, 0xfa], 1),
  {
    ...arithmetic('rem', [], 2),
    // Until the remainder is complete: fprem1; fnstsw ax; test ah, 4; jnz.
    code: [...LOAD_B, ...LOAD_A, 0xd9, 0xf5, 0xdf, 0xe0, 0xf6, 0xc4, 4, 0x75, 0xf7, ...STORE],
    hasModes: false,
    hasPrecision: false,
  },
  { ...arithmetic('roundToInt', [0xd9, 0xfc], 1), hasPrecision: false, more: ['-exact'] },
  comparison('eq', false, equal),
  comparison('eq_signaling', true, equal),
  comparison('le', true, both),
  comparison('le_quiet', false, both),
  comparison('lt', true, less),
  comparison('lt_quiet', false, less),
  conversion('extF80_to_i32', [...LOAD_A, 0xdb, 0x5e, AT.result], 10, 4, true),
  conversion('extF80_to_i64', [...LOAD_A, 0xdf, 0x7e, AT.result], 10, 8, true),
  conversion('extF80_to_f32', [...LOAD_A, 0xd9, 0x5e, AT.result], 10, 4, true),
  conversion('extF80_to_f64', [...LOAD_A, 0xdd, 0x5e, AT.result], 10, 8, true),
  conversion('i32_to_extF80', [0xdb, 0x06, ...STORE], 4, 10, false),
  conversion('i64_to_extF80', [0xdf, 0x2e, ...STORE], 8, 10, false),
  conversion('f32_to_extF80', [0xd9, 0x06, ...STORE], 4, 10, false),
  conversion('f64_to_extF80', [0xdd, 0x06, ...STORE], 8, 10, false),
];

const arch = arches.find(({ target }) => target.id === 'x86-64');
if (arch?.emulation.kind !== 'ir') throw new Error('x86-64 is not executed');
const machine = new Machine({ lifter: arch.emulation.lifter });
machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
const CODE_BYTES = 0x1000;

const toBytes = (value: bigint, size: number): Uint8Array =>
  Uint8Array.from({ length: size }, (_, i) => Number((value >> BigInt(8 * i)) & 0xffn));
const toNumber = (bytes: Uint8Array): bigint => bytes.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);

/** Exceptions of the status word as the generator writes them. */
function flagsOf(status: number): number {
  const [IE, ZE, OE, UE, PE] = [1, 4, 8, 16, 32];
  return [PE, UE, OE, ZE, IE].reduce((flags, bit, i) => ((status & bit) === 0 ? flags : flags | (1 << i)), 0);
}

function execute(each: Operation, start: bigint, operands: readonly bigint[]): { bits: bigint; flags: number } {
  operands.forEach((value, i) =>
    machine.memory.write(DATA + BigInt(i === 0 ? AT.a : AT.b), toBytes(value, each.bytes[i]!)),
  );
  machine.setRegister('pc', start);
  machine.setRegister('rsi', DATA);
  const stop = machine.run({ budget: 100_000 });
  if (stop.kind !== 'trap') throw new Error(`${each.name}: ${stop.kind}`);
  const status = Number(toNumber(machine.memory.read(DATA + BigInt(AT.status), 2)!));
  const bits = each.compares
    ? BigInt(each.compares(Number(machine.register('rflags'))))
    : toNumber(machine.memory.read(DATA + BigInt(AT.result), each.result)!);
  return { bits, flags: flagsOf(status) };
}

let vectors = 0;
let different = 0;
let next = CODE;

async function check(each: Operation, rounding: number, [precision, field]: readonly [string, number]): Promise<void> {
  // fninit; fldcw; ...; fnstsw; ud2
  const code = [0xdb, 0xe3, 0xd9, 0x6e, AT.control, ...each.code, 0xdd, 0x7e, AT.status, 0x0f, 0x0b];
  machine.load(next, Uint8Array.from(code), { permission: 'rx' });
  machine.memory.write(DATA + BigInt(AT.control), toBytes(BigInt(0x3f | (field << 8) | (rounding << 10)), 2));
  const mode = each.hasModes ? [ROUNDING[rounding]!] : [];
  const flags = [
    '-level',
    '1',
    ...mode,
    ...(each.hasPrecision ? [precision, '-tininessafter'] : []),
    ...(each.more ?? []),
    each.name,
  ];
  const child = spawn(generator!, flags, { stdio: ['ignore', 'pipe', 'inherit'] });
  const stride = Math.max(1, Math.floor((each.bytes.length === 2 ? 50_000 : 800) / MOST));
  let number = 0;
  let wrong = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    if (number++ % stride !== 0) continue;
    const parts = line.split(' ').map((text) => BigInt(`0x${text}`));
    const got = execute(each, next, parts.slice(0, -2));
    vectors++;
    if (got.bits === parts.at(-2) && got.flags === Number(parts.at(-1))) continue;
    if (wrong++ < 3) process.stdout.write(`${flags.join(' ')}: ${line}: ${got.bits.toString(16)} ${got.flags}\n`);
  }
  // A function that the generator does not know has no vectors.
  if (number === 0) wrong++;
  different += wrong;
  next += BigInt(CODE_BYTES);
}

for (const each of FUNCTIONS) {
  for (const rounding of each.hasModes ? [0, 1, 2, 3] : [0]) {
    for (const precision of each.hasPrecision ? PRECISION : PRECISION.slice(2)) await check(each, rounding, precision);
  }
  process.stdout.write(`${each.name}: ${vectors} vectors so far, ${different} differ\n`);
}
process.exitCode = different === 0 ? 0 : 1;
