/**
 * Accesses of POWER9 that no op expresses: vectors of a length that a register has, and atomic
 * updates that memory does by itself.
 *
 * Source: Power ISA 3.0B, Book I, 7.6, and Book II, 4.5.
 */
import type { Helper, HelperResult, HelperState, Slot } from '../machine/ir.js';
import type { Operands } from '../isa/table.js';
import type { Endian } from '../units.js';

type Known = (word: number) => { readonly mnemonic: string; readonly operands: Operands };
interface Registers {
  readonly vectors: readonly Slot[];
  readonly floats: readonly Slot[];
  readonly lower: readonly Slot[];
}

const NEXT = { kind: 'next' } as const satisfies HelperResult;
const wide = (value: bigint): bigint => BigInt.asUintN(64, value);

function vectorOf(state: HelperState, { vectors, floats, lower }: Registers, number: number): bigint {
  if (number >= 32) return (state.get(vectors[number - 32]!, 1) << 64n) | state.get(vectors[number - 32]!);
  return (state.get(floats[number]!) << 64n) | state.get(lower[number]!);
}
function setVector(state: HelperState, { vectors, floats, lower }: Registers, number: number, value: bigint): void {
  const [upper, low] = [value >> 64n, wide(value)];
  if (number < 32) {
    state.set(floats[number]!, upper);
    state.set(lower[number]!, low);
  } else {
    state.set(vectors[number - 32]!, low, 0);
    state.set(vectors[number - 32]!, upper, 1);
  }
}

/** A number of 16 bytes, the first the most significant. */
const ofBytes = (bytes: readonly number[]): bigint => bytes.reduce((all, each) => (all << 8n) | BigInt(each), 0n);
const bytesOf = (value: bigint): number[] =>
  Array.from({ length: 16 }, (_, i) => Number((value >> BigInt(120 - 8 * i)) & 0xffn));

/** `lxvl`, `lxvll`, `stxvl`, `stxvll`: the length is the first byte of rB, 16 at most. */
function vectorLength(registers: Registers, general: readonly Slot[], endian: Endian, known: Known): Helper {
  return (state, word) => {
    const { mnemonic, operands } = known(word);
    const isLoad = mnemonic.startsWith('l');
    const address = operands['ra0'] === 0 ? 0n : state.get(general[operands['ra0']!]!);
    const length = Math.min(16, Number(state.get(general[operands['rb']!]!) >> 56n));
    // Left-justified, in the order of bytes; `lxvl` in little-endian order has a number at the end.
    const isNumber = endian === 'little' && !mnemonic.endsWith('ll');
    if (length > 0) {
      const bad = state.memory.check(address, length, isLoad ? 'read' : 'write');
      if (bad !== null) return { kind: 'fault', address: bad, access: isLoad ? 'read' : 'write' };
    }
    if (isLoad) {
      const bytes = length > 0 ? [...state.memory.read(address, length)!] : [];
      const rest = new Array<number>(16 - length).fill(0);
      const value = isNumber ? ofBytes([...rest, ...bytes.reverse()]) : ofBytes([...bytes, ...rest]);
      setVector(state, registers, operands['xt']!, value);
    } else if (length > 0) {
      const all = bytesOf(vectorOf(state, registers, operands['xs']!));
      const bytes = isNumber ? all.reverse().slice(0, length) : all.slice(0, length);
      state.memory.write(address, Uint8Array.from(bytes));
    }
    return NEXT;
  };
}

// ---------------------------------------------------------------------------------------- atomics

/** What memory becomes by the function code, from it and the operand. */
function updated(code: number, bits: number, memory: bigint, operand: bigint): bigint | null {
  const signed = (value: bigint): bigint => BigInt.asIntN(bits, value);
  const pick = (isFirst: boolean): bigint => (isFirst ? memory : operand);
  switch (code) {
    case 0:
      return BigInt.asUintN(bits, memory + operand);
    case 1:
      return memory ^ operand;
    case 2:
      return memory | operand;
    case 3:
      return memory & operand;
    case 4:
      return pick(memory > operand);
    case 5:
      return pick(signed(memory) > signed(operand));
    case 6:
      return pick(memory < operand);
    case 7:
      return pick(signed(memory) < signed(operand));
    default:
      return null;
  }
}

/** One atomic access: memory at an address, in elements. */
interface AtomicPlace {
  readonly state: HelperState;
  readonly address: bigint;
  readonly bytes: 4 | 8;
  readonly endian: Endian;
}
function element({ state, address, bytes, endian }: AtomicPlace, offset: number): bigint {
  const read = [...state.memory.read(address + BigInt(offset), bytes)!];
  return ofBytes(endian === 'little' ? read.reverse() : read);
}
function store({ state, address, bytes, endian }: AtomicPlace, offset: number, value: bigint): void {
  const all = bytesOf(value).slice(16 - bytes);
  state.memory.write(address + BigInt(offset), Uint8Array.from(endian === 'little' ? all.reverse() : all));
}

/** A load with an update; null: no function has that code. */
function loadAtomic(place: AtomicPlace, code: number, [second, third]: readonly [bigint, bigint]): bigint | null {
  const { bytes } = place;
  const bits = 8 * bytes;
  const memory = element(place, 0);
  const simple = code === 8 ? second : updated(code, bits, memory, second);
  if (simple !== null) {
    store(place, 0, simple);
    return memory;
  }
  if (code === 16) {
    if (memory !== second) store(place, 0, third);
    return memory;
  }
  // Steps that a neighbour bounds; where they do not happen the lowest number is loaded.
  const lowest = 1n << BigInt(bits - 1);
  if (code !== 24 && code !== 25 && code !== 28) return null;
  const neighbour = element(place, code === 28 ? -bytes : bytes);
  const happens = code === 25 ? memory === neighbour : memory !== neighbour;
  if (!happens) return lowest;
  store(place, 0, BigInt.asUintN(bits, memory + (code === 28 ? -1n : 1n)));
  return memory;
}

/** `lwat`, `ldat`, `stwat`, `stdat`. */
function atomic(general: readonly Slot[], endian: Endian, known: Known): Helper {
  return (state, word) => {
    const { mnemonic, operands } = known(word);
    const isLoad = mnemonic.startsWith('l');
    const bytes = mnemonic.includes('w') ? 4 : 8;
    const code = operands['fc']!;
    const address = operands['ra0'] === 0 ? 0n : state.get(general[operands['ra0']!]!);
    const register = (number: number): bigint => BigInt.asUintN(8 * bytes, state.get(general[number & 31]!));
    const target = operands[isLoad ? 'rt' : 'rs']!;
    const isPair = isLoad ? code >= 24 : code === 24;
    const start = isLoad && code === 28 ? address - BigInt(bytes) : address;
    const size = isPair ? 2 * bytes : bytes;
    const isApart = start >> 5n !== (start + BigInt(size - 1)) >> 5n;
    if ((address & BigInt(bytes - 1)) !== 0n || isApart) return { kind: 'trap', trap: 'alignment' };
    const bad = state.memory.check(start, size, 'write');
    if (bad !== null) return { kind: 'fault', address: bad, access: 'write' };
    const place: AtomicPlace = { state, address, bytes, endian };
    if (isLoad) {
      const loaded = loadAtomic(place, code, [register(target + 1), register(target + 2)]);
      if (loaded === null) return { kind: 'trap', trap: 'invalid-form' };
      state.set(general[target]!, loaded);
      return NEXT;
    }
    if (code === 24) {
      if (element(place, 0) === element(place, bytes)) for (const at of [0, bytes]) store(place, at, register(target));
      return NEXT;
    }
    const value = updated(code, 8 * bytes, element(place, 0), register(target));
    if (value === null) return { kind: 'trap', trap: 'invalid-form' };
    store(place, 0, value);
    return NEXT;
  };
}

export function power9Helpers(
  registers: Registers,
  general: readonly Slot[],
  endian: Endian,
  known: Known,
): Readonly<Record<string, Helper>> {
  return { vectorlength: vectorLength(registers, general, endian, known), atomic: atomic(general, endian, known) };
}
