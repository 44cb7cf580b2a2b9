/**
 * The arithmetic of `src/float` against vectors of Berkeley TestFloat 3e, level 1: `node
 * build/scripts/soak-testfloat.js TESTFLOAT_GEN [MOST]`. TESTFLOAT_GEN is its generator, built with
 * `SPECIALIZE_TYPE=RISCV` (one NaN for all, which `src/float` leaves to the machines); of each
 * function and mode at most MOST vectors are looked at (20,000), evenly spread; of fused operations
 * MOST of level 2. No registry of packages that Debian or npm have brings it: its sources are at
 * https://www.jhauser.us/arithmetic/TestFloat.html.
 *
 * Every operation of binary16, 32, 64 and 128, each rounding mode, tiny before and after rounding,
 * results and flags. What machines make of these is compared in the batches of `test/lift-*`.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import {
  add, BINARY128, BINARY16, BINARY32, BINARY64, compare, convert, divide, fromInteger, multiply, multiplyAdd,
  roundToIntegral, squareRoot, subtract, toInteger,
} from '../src/float/index.js'; // prettier-ignore
import type { Environment, Format, Result, Rounding } from '../src/float/index.js';

const [generator, most = '20000'] = process.argv.slice(2);
if (generator === undefined) throw new Error('usage: soak-testfloat TESTFLOAT_GEN [MOST]');
const MOST = Number(most);

const FORMATS: Readonly<Record<string, Format>> = { f16: BINARY16, f32: BINARY32, f64: BINARY64, f128: BINARY128 };
const INTEGERS = { i32: [32, true], i64: [64, true], ui32: [32, false], ui64: [64, false] } as const;
const MODES: Readonly<Record<string, Rounding>> = {
  '-rnear_even': 'nearest-even',
  '-rminMag': 'to-zero',
  '-rmin': 'down',
  '-rmax': 'up',
  '-rnear_maxMag': 'nearest-away',
};
const TINY = { '-tininessbefore': 'before', '-tininessafter': 'after' } as const;

type Run = (env: Environment, operands: readonly bigint[]) => Result;
interface Function {
  readonly name: string;
  readonly run: Run;
  /** Flags of the generator. */
  readonly more?: readonly string[];
  /** Whether the result is rounded, and may be tiny. */
  readonly rounds: boolean;
  readonly mayBeTiny: boolean;
  readonly operands: number;
}

const truth = (is: boolean, flags: number): Result => ({ bits: is ? 1n : 0n, flags });

/** What RISC-V makes of numbers that are no integers of a width. */
function integer(of: Format, env: Environment, a: bigint, bits: number, signed: boolean): Result {
  const made = toInteger(of, env.rounding, a, { bits, signed });
  if (made.kind === 'integer') return { bits: BigInt.asUintN(bits, made.value), flags: made.flags };
  const top = (1n << BigInt(signed ? bits - 1 : bits)) - 1n;
  const low = signed ? 1n << BigInt(bits - 1) : 0n;
  return { bits: made.kind === 'nan' || made.sign === 0 ? top : low, flags: made.flags };
}

function functionsOf(name: string, of: Format): Function[] {
  const rounded = (operands: number, run: Run, op: string, mayBeTiny = true): Function => ({
    name: `${name}_${op}`,
    run,
    rounds: true,
    mayBeTiny,
    operands,
  });
  const asked = (op: string, signals: boolean, is: (relation: string) => boolean): Function => ({
    name: `${name}_${op}`,
    rounds: false,
    mayBeTiny: false,
    operands: 2,
    run: (_, [a, b]) => {
      const { relation, flags } = compare(of, a!, b!, signals);
      return truth(is(relation), flags);
    },
  });
  const equal = (relation: string): boolean => relation === 'equal';
  const less = (relation: string): boolean => relation === 'less';
  const both = (relation: string): boolean => equal(relation) || less(relation);
  return [
    rounded(2, (env, [a, b]) => add(of, env, a!, b!), 'add'),
    rounded(2, (env, [a, b]) => subtract(of, env, a!, b!), 'sub'),
    rounded(2, (env, [a, b]) => multiply(of, env, a!, b!), 'mul'),
    rounded(2, (env, [a, b]) => divide(of, env, a!, b!), 'div'),
    rounded(3, (env, [a, b, c]) => multiplyAdd(of, env, a!, b!, c!), 'mulAdd'),
    rounded(1, (env, [a]) => squareRoot(of, env, a!), 'sqrt', false),
    rounded(1, (env, [a]) => roundToIntegral(of, env, a!, false), 'roundToInt', false),
    { ...rounded(1, (env, [a]) => roundToIntegral(of, env, a!, true), 'roundToInt', false), more: ['-exact'] },
    asked('eq', false, equal),
    asked('eq_signaling', true, equal),
    asked('le', true, both),
    asked('le_quiet', false, both),
    asked('lt', true, less),
    asked('lt_quiet', false, less),
    ...Object.entries(FORMATS)
      .filter(([, to]) => to !== of)
      .map(([other, to]) => rounded(1, (env, [a]) => convert(of, to, env, a!), `to_${other}`)),
    ...Object.entries(INTEGERS).flatMap(([other, [bits, signed]]) => [
      { ...rounded(1, (env, [a]) => integer(of, env, a!, bits, signed), `to_${other}`, false), more: ['-exact'] },
      {
        ...rounded(1, (env, [a]) => fromInteger(of, env, signed ? BigInt.asIntN(bits, a!) : a!), '', false),
        name: `${other}_to_${name}`,
      },
    ]),
  ];
}

const hex = (text: string): bigint => BigInt(`0x${text}`);
let vectors = 0;
let different = 0;

/** Level 1 has about so many vectors of a function with one operand, or two. */
const SIZE = [1, 800, 50_000];

async function check(each: Function, mode: string, tiny: keyof typeof TINY): Promise<void> {
  const stride = Math.max(1, Math.floor((SIZE[each.operands] ?? 1) / MOST));
  // Level 1 of three operands has six million and cannot be cut; level 2 draws them at random.
  const isDrawn = each.operands === 3;
  const flags = [...(isDrawn ? ['-forever'] : ['-level', '1']), mode, tiny, ...(each.more ?? []), each.name];
  const child = spawn(generator!, flags, { stdio: ['ignore', 'pipe', 'inherit'] });
  let number = 0;
  let wrong = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    if (isDrawn && number === MOST) break;
    if (number++ % stride !== 0) continue;
    const parts = line.split(' ');
    const [expected, raised] = [hex(parts.at(-2)!), Number(hex(parts.at(-1)!))];
    const env: Environment = {
      rounding: MODES[mode]!,
      tininess: TINY[tiny],
      nan: (format) => format.infinity | format.quietBit,
    };
    const got = each.run(env, parts.slice(0, -2).map(hex));
    vectors++;
    if (got.bits === expected && got.flags === raised) continue;
    if (wrong++ < 3) process.stdout.write(`${flags.join(' ')}: ${line}: ${got.bits.toString(16)} ${got.flags}\n`);
  }
  child.kill();
  child.stdout.destroy();
  // A function that the generator does not know has no vectors.
  if (number === 0) wrong++;
  different += wrong;
}

for (const [name, of] of Object.entries(FORMATS)) {
  for (const each of functionsOf(name, of)) {
    for (const mode of each.rounds ? Object.keys(MODES) : ['-rnear_even']) {
      for (const tiny of each.mayBeTiny
        ? (['-tininessbefore', '-tininessafter'] as const)
        : (['-tininessafter'] as const)) {
        await check(each, mode, tiny);
      }
    }
  }
  process.stdout.write(`${name}: ${vectors} vectors so far, ${different} differ\n`);
}
process.exitCode = different === 0 ? 0 : 1;
