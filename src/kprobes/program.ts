/**
 * Programs of events: what the callback of a detour buffer executes in the guest (src/runtime), as
 * words; the same interpreter for breakpoints, which are handled outside of the guest; and the
 * values in the words that either of them recorded. Owns the encoding; abi.h says the same in C.
 *
 *   argument          operations                                         recorded, words of 64 bits
 *   %ax:u32           register 80 8, put                                 faults, value
 *   +8(%di):u16       register 112 8, memory 8 2 1                       faults, element
 *   +0(+8(%si)):s8[2] register 104 8, load 8, memory 0 1 2               faults, element, element
 *   +0(%di):string    register 112 8, string 0 0                         faults, 64 bytes
 *
 * `faults` has a bit for each element that lies where nothing is mapped. What is the same at every
 * hit ($comm, texts) is not recorded.
 */
import { ElftraceError } from '../errors.js';
import { PROBE_DATA, PROBE_OPERATIONS, PROBE_STRING_BYTES } from '../runtime/abi.js';
import { type CompiledArgument, elementBytes, elementValue, type Fetched, type FetchSource } from './events.js';
import type { ProbeRegister } from '../machine/probes.js';

const { end, register, constant, load, put, memory, string } = PROBE_OPERATIONS;
const STRING_WORDS = PROBE_STRING_BYTES / 8;

/** Nothing of it is fetched: it is the same at every hit. */
const isConstantText = ({ steps }: CompiledArgument): boolean =>
  steps.some(({ kind }) => kind === 'comm' || kind === 'text');

/** Words of 64 bits that an argument records. */
function recordedWords(argument: CompiledArgument): number {
  if (isConstantText(argument)) return 0;
  const { type, memory: at, count } = argument;
  if (at === null) return 2;
  return 1 + (count ?? 1) * (type.kind === 'string' ? STRING_WORDS : 1);
}

/**
 * The program of an event: words of the target's size, its end included.
 * @throws ElftraceError 'bad-probe' with reason `event-too-big` for more than an event holds
 */
export function compileProgram(list: readonly CompiledArgument[], wordBytes: 4 | 8): readonly bigint[] {
  const size = list.reduce((sum, each) => sum + recordedWords(each), 0);
  if (size > PROBE_DATA) {
    throw new ElftraceError('bad-probe', `the arguments have ${8 * size} bytes, an event holds ${8 * PROBE_DATA}`, {
      reason: 'event-too-big',
      errno: 'EINVAL',
    });
  }
  const words: bigint[] = [];
  const bits = 8 * wordBytes;
  const add = (...each: readonly (number | bigint)[]): void => {
    for (const word of each) words.push(BigInt.asUintN(bits, BigInt(word)));
  };
  for (const argument of list) {
    if (isConstantText(argument)) continue;
    for (const step of argument.steps) {
      switch (step.kind) {
        case 'register':
          add(register, step.register.frameOffset, step.register.bytes);
          break;
        case 'constant':
          add(constant, step.value);
          break;
        case 'load':
          add(load, step.offset);
          break;
        default:
      }
    }
    const { memory: at, count, type } = argument;
    if (at === null) add(put);
    else if (type.kind === 'string') add(string, at, count ?? 0);
    else add(memory, at, elementBytes(type, wordBytes), count ?? 1);
  }
  add(end);
  return words;
}

function unsigned(bytes: Uint8Array, littleEndian: boolean): bigint {
  let value = 0n;
  for (let i = 0; i < bytes.length; i++) {
    value = (value << 8n) | BigInt(bytes[littleEndian ? bytes.length - 1 - i : i]!);
  }
  return value;
}

/** Executes the program of an event; the words are those that the guest's callback would record. */
export function runProgram(list: readonly CompiledArgument[], source: FetchSource): bigint[] {
  const { wordBytes, littleEndian } = source;
  const bits = 8 * wordBytes;
  const read = (address: bigint, size: number): bigint | null => {
    const bytes = source.read(BigInt.asUintN(bits, address), size);
    return bytes === null ? null : unsigned(bytes, littleEndian);
  };
  const out: bigint[] = [];
  for (const argument of list) {
    if (isConstantText(argument)) continue;
    let value: bigint | null = 0n;
    for (const step of argument.steps) {
      if (step.kind === 'register') value = source.register(step.register);
      else if (step.kind === 'constant') value = BigInt.asUintN(bits, step.value);
      else if (step.kind === 'load' && value !== null) value = read(value + step.offset, wordBytes);
    }
    const { memory: at, count, type } = argument;
    if (at === null) {
      out.push(value === null ? 1n : 0n, value ?? 0n);
      continue;
    }
    const place = out.length;
    out.push(0n);
    for (let i = 0; i < (count ?? 1); i++) {
      let element: bigint | null = null;
      if (type.kind === 'string') {
        const from: bigint | null =
          value === null || count === null
            ? value === null
              ? null
              : value + at
            : read(value + at + BigInt(i * wordBytes), wordBytes);
        const text = from === null ? null : readText(source, BigInt.asUintN(bits, from));
        for (let word = 0; word < STRING_WORDS; word++) {
          out.push(text === null ? 0n : unsigned(text.bytes.subarray(8 * word, 8 * word + 8), littleEndian));
        }
        element = text?.isWhole === true ? 0n : null;
      } else {
        const size = elementBytes(type, wordBytes);
        element = value === null ? null : read(value + at + BigInt(i * size), size);
        out.push(element ?? 0n);
      }
      if (element === null) out[place]! |= 1n << BigInt(i);
    }
  }
  return out;
}

/** Text in the room that a record has for it, up to a place that is not mapped. */
function readText(source: FetchSource, address: bigint): { readonly bytes: Uint8Array; readonly isWhole: boolean } {
  const bytes = new Uint8Array(PROBE_STRING_BYTES);
  for (let i = 0; i < PROBE_STRING_BYTES - 1; i++) {
    const byte = source.read(address + BigInt(i), 1);
    if (byte === null) return { bytes, isWhole: false };
    if (byte[0] === 0) break;
    bytes[i] = byte[0]!;
  }
  return { bytes, isWhole: true };
}

/** Values of the arguments from what was recorded; words that are missing make a fault. */
export function decodeWords(
  list: readonly CompiledArgument[],
  words: readonly bigint[],
  source: Pick<FetchSource, 'littleEndian' | 'comm'>,
): readonly Fetched[] {
  const { littleEndian, comm } = source;
  let at = 0;
  const next = (): bigint | null => words[at++] ?? null;
  return list.map((argument): Fetched => {
    const { steps, type, memory: base, count } = argument;
    for (const step of steps) {
      if (step.kind === 'comm') return { kind: 'text', text: comm };
      if (step.kind === 'text') return { kind: 'text', text: step.text };
    }
    const faults = next();
    const one = (index: number): Fetched => {
      const isFault = faults === null || ((faults >> BigInt(index)) & 1n) === 1n;
      if (type.kind === 'string' && base !== null) {
        const bytes = new Uint8Array(PROBE_STRING_BYTES);
        for (let word = 0; word < STRING_WORDS; word++) {
          const value = next() ?? 0n;
          for (let i = 0; i < 8; i++) {
            bytes[8 * word + (littleEndian ? i : 7 - i)] = Number((value >> BigInt(8 * i)) & 0xffn);
          }
        }
        if (isFault) return { kind: 'fault' };
        const length = bytes.indexOf(0);
        return { kind: 'text', text: new TextDecoder().decode(bytes.subarray(0, length)) };
      }
      const value = next();
      if (isFault || value === null) return { kind: 'fault' };
      return { kind: 'number', value: elementValue(type, value, littleEndian) };
    };
    if (count === null) return one(0);
    return { kind: 'list', items: Array.from({ length: count }, (_, i) => one(i)) };
  });
}

/** The value of a register at a hit. */
export function registerValue(found: ProbeRegister, read: (name: string) => bigint): bigint {
  const value = found.machine === null ? (found.fixed ?? 0n) : read(found.machine);
  return BigInt.asUintN(8 * found.bytes, value);
}
