/**
 * Addresses that code may compute, or hold, on machines whose instructions have no room for a whole
 * one (RT-44): one instruction gives a register the upper bits, another one near it adds the lower
 * ones. More is taken for an address than is one: bytes are read at each place where an instruction
 * may stand, in the order in which they stand.
 */
import { ByteView } from '../bytes.js';
import type { Address, Endian } from '../units.js';

/** A value that an instruction gives to a register; `onBase`: added to what the base holds. */
export interface UpperPart {
  readonly register: number;
  readonly value: number;
  readonly onBase?: boolean;
}

/** What an instruction adds to a register, or puts into its lower bits. */
export interface LowerPart {
  readonly register: number;
  readonly add: number;
}

/** How a machine computes addresses; `at` is where the instruction lies, `next` what follows it. */
export interface AddressParts {
  /** Bytes from one place to the next where an instruction may stand. */
  readonly step: 2 | 4;
  readonly upper: (word: number, at: number) => UpperPart | null;
  readonly lower: (word: number) => LowerPart | null;
  /** An address that one instruction computes. */
  readonly whole: (word: number, at: number, next: number) => number | null;
  /** Register that addresses of data are counted from in the whole program; null: none. */
  readonly base: number | null;
}

/** Start-up files are short; further off, parts of other addresses would make false ones. */
const NEAR_BYTES = 1024;

type Read = (offset: number) => number;

function* placesOf(bytes: Uint8Array, step: number): Generator<number> {
  for (let offset = 0; offset + 4 <= bytes.length; offset += step) yield offset;
}

interface Upper {
  readonly offset: number;
  readonly value: number;
  readonly onBase: boolean;
}

/** By the register that they set, in order. */
function uppersOf(bytes: Uint8Array, read: Read, start: number, { upper, step }: AddressParts): Map<number, Upper[]> {
  const found = new Map<number, Upper[]>();
  for (const offset of placesOf(bytes, step)) {
    const part = upper(read(offset), start + offset);
    if (part === null) continue;
    const list = found.get(part.register) ?? [];
    list.push({ offset, value: part.value, onBase: part.onBase === true });
    found.set(part.register, list);
  }
  return found;
}

/** Those within reach of an offset. */
function* near(all: readonly Upper[], offset: number): Generator<Upper> {
  let [low, high] = [0, all.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle]!.offset < offset - NEAR_BYTES) low = middle + 1;
    else high = middle;
  }
  for (let i = low; i < all.length && all[i]!.offset <= offset + NEAR_BYTES; i++) yield all[i]!;
}

/** Values that the base may hold. */
function basesOf(
  bytes: Uint8Array,
  read: Read,
  uppers: ReadonlyMap<number, readonly Upper[]>,
  parts: AddressParts,
): Set<number> {
  const bases = new Set<number>();
  const own = (parts.base === null ? undefined : uppers.get(parts.base))?.filter(({ onBase }) => !onBase) ?? [];
  if (own.length === 0) return bases;
  for (const offset of placesOf(bytes, parts.step)) {
    const part = parts.lower(read(offset));
    if (part === null || part.register !== parts.base) continue;
    for (const each of near(own, offset)) if (Math.abs(each.offset - offset) <= 16) bases.add(each.value + part.add);
  }
  return bases;
}

/**
 * Whether bytes at an address may hold or compute one of some addresses of less than 2^53.
 * @param bases  what the base may hold: what this and other parts of the program give it
 */
function computes(
  bytes: Uint8Array,
  start: number,
  some: ReadonlySet<number>,
  bases: ReadonlySet<number>,
  parts: AddressParts,
  read: Read,
  uppers: ReadonlyMap<number, readonly Upper[]>,
): boolean {
  const isSome = (value: number): boolean => some.has(value);
  const low = new Set([...some].map((each) => each % 2 ** 32));
  for (const offset of placesOf(bytes, parts.step)) {
    const word = read(offset);
    // A word of data, of which the lower half is one at least.
    if (low.has(word)) return true;
    const whole = parts.whole(word, start + offset, offset + 8 <= bytes.length ? read(offset + 4) : 0);
    if (whole !== null && isSome(whole)) return true;
    const part = parts.lower(word);
    if (part === null) continue;
    if (part.register === parts.base) {
      for (const base of bases) if (isSome(base + part.add)) return true;
    }
    for (const { value, onBase } of near(uppers.get(part.register) ?? [], offset)) {
      if (!onBase && isSome(value + part.add)) return true;
      if (onBase) for (const base of bases) if (isSome(base + value + part.add)) return true;
    }
  }
  return false;
}

/** Parts of a program: what is loaded at an address. */
export interface LoadedBytes {
  readonly address: Address;
  readonly bytes: Uint8Array;
}

/** The question of GraphTracing, where instructions are words of an order of bytes. */
export const holdsByParts =
  (parts: AddressParts, endian: Endian) =>
  (loads: readonly LoadedBytes[], addresses: ReadonlySet<Address>): boolean => {
    const some = new Set([...addresses].map(Number));
    const read = loads.map(({ bytes, address }) => {
      const view = new ByteView(bytes, endian);
      const start = Number(address);
      const at: Read = (offset) => view.u32(offset);
      return { bytes, start, at, uppers: uppersOf(bytes, at, start, parts) };
    });
    const bases = new Set(read.flatMap(({ bytes, at, uppers }) => [...basesOf(bytes, at, uppers, parts)]));
    return read.some(({ bytes, start, at, uppers }) => computes(bytes, start, some, bases, parts, at, uppers));
  };
