/**
 * Masked moves and gathers of AVX, whose elements in memory are touched one by one, and a store of
 * 32 bytes across two pages.
 *
 * Source: Intel SDM volume 2, VMASKMOV, VPMASKMOV, VGATHER, VPGATHER; volume 1, 14.9.
 */
import { ElftraceError } from '../errors.js';
import type { Helper, HelperState, Operand } from '../machine/ir.js';
import type { Address } from '../units.js';
import { bytesOf, lane, numberIn } from './lanes.js';
import { UNDEFINED, vectorNumber } from './lifting.js';
import type { Lift } from './lifting.js';
import { ARGUMENT, FS_BASE, GS_BASE, HIGH_VECTOR, setWhole, VECTOR, wholeOf, XMM, YMM } from './state.js';
import { isWide } from './vex-halves.js';

/** Fields of the arguments of helpers that touch elements of memory. */
const ELEMENT_FIELDS = {
  mask: 4,
  index: 8,
  scale: 12,
  wide: 1 << 14,
  long: 1 << 15,
  stores: 1 << 16,
  longIndex: 1 << 17,
  narrow: 1 << 18,
  segment: 19,
} as const;

/** `vmaskmovps` and its kin, from or to memory. */
export const maskedMove =
  (bytes: 4 | 8): Lift =>
  (x) => {
    const isStore = x.operand(0).kind === 'memory';
    const memory = x.operand(isStore ? 0 : 2);
    if (memory.kind !== 'memory') throw new ElftraceError('internal', 'a masked move has an address');
    const { base, offset } = x.place(memory);
    x.b.to(ARGUMENT, 'add', base, offset);
    const argument =
      vectorNumber(x, isStore ? 2 : 0) |
      (vectorNumber(x, 1) << ELEMENT_FIELDS.mask) |
      (isWide(x) ? ELEMENT_FIELDS.wide : 0) |
      (bytes === 8 ? ELEMENT_FIELDS.long : 0) |
      (isStore ? ELEMENT_FIELDS.stores : 0);
    return { kind: 'helper', name: 'maskedmove', argument, next: x.next };
  };

/** `vgatherdps` and its kin: elements of so many bytes, by indices of so many. */
export const gather =
  (bytes: 4 | 8, indexBytes: 4 | 8): Lift =>
  (x) => {
    const { sib, rex } = x.instruction;
    const [target, mask] = [vectorNumber(x, 0), vectorNumber(x, 2)];
    const index = ((sib >> 3) & 7) | ((rex & 2) << 2);
    const memory = x.operand(1);
    if (memory.kind !== 'memory') throw new ElftraceError('internal', 'a gather has an address');
    if (target === mask || target === index || mask === index) return UNDEFINED;
    const base: Operand = x.effective({ ...memory, index: -1, scale: 0 });
    x.b.mov(ARGUMENT, base);
    const argument =
      target |
      (mask << ELEMENT_FIELDS.mask) |
      (index << ELEMENT_FIELDS.index) |
      ((sib >> 6) << ELEMENT_FIELDS.scale) |
      (isWide(x) ? ELEMENT_FIELDS.wide : 0) |
      (bytes === 8 ? ELEMENT_FIELDS.long : 0) |
      (indexBytes === 8 ? ELEMENT_FIELDS.longIndex : 0) |
      (memory.address32 ? ELEMENT_FIELDS.narrow : 0) |
      ((memory.segment === null ? 0 : memory.segment === 'fs' ? 1 : 2) << ELEMENT_FIELDS.segment);
    return { kind: 'helper', name: 'gather', argument, next: x.next };
  };

const wideOf = (state: HelperState, number: number): bigint =>
  wholeOf(state, XMM[number]!) | (wholeOf(state, YMM[number]!) << 128n);

function setWide(state: HelperState, number: number, value: bigint): void {
  setWhole(state, XMM[number]!, value);
  setWhole(state, YMM[number]!, value >> 128n);
}

/** What the helpers of AVX do; their arguments are those of the lifts above. */
export const VEX_HELPERS: Readonly<Record<string, Helper>> = {
  storeboth: (state) => {
    const at = state.get(ARGUMENT);
    const bad = state.memory.check(at, 32, 'write');
    if (bad !== null) return { kind: 'fault', address: bad, access: 'write' };
    state.memory.write(at, bytesOf(wholeOf(state, VECTOR) | (wholeOf(state, HIGH_VECTOR) << 128n), 32));
    return { kind: 'next' };
  },
  maskedmove: (state, argument) => {
    const isStore = (argument & ELEMENT_FIELDS.stores) !== 0;
    const bytes = (argument & ELEMENT_FIELDS.long) !== 0 ? 8 : 4;
    const count = ((argument & ELEMENT_FIELDS.wide) !== 0 ? 32 : 16) / bytes;
    const number = argument & 15;
    const mask = wideOf(state, (argument >> ELEMENT_FIELDS.mask) & 15);
    const chosen = Array.from({ length: count }, (_, i) => i).filter(
      (i) => ((mask >> BigInt(8 * bytes * (i + 1) - 1)) & 1n) === 1n,
    );
    const at = (i: number): Address => BigInt.asUintN(64, state.get(ARGUMENT) + BigInt(bytes * i));
    const access = isStore ? 'write' : 'read';
    for (const i of chosen) {
      const address = state.memory.check(at(i), bytes, access);
      if (address !== null) return { kind: 'fault', address, access };
    }
    const value = wideOf(state, number);
    let loaded = 0n;
    for (const i of chosen) {
      if (isStore) state.memory.write(at(i), bytesOf(lane(value, i, 8 * bytes), bytes));
      else loaded |= numberIn(state.memory.read(at(i), bytes)!) << BigInt(8 * bytes * i);
    }
    if (!isStore) setWide(state, number, loaded);
    return { kind: 'next' };
  },
  gather: (state, argument) => {
    const has = (bit: number): boolean => (argument & bit) !== 0;
    const number = (at: number): number => (argument >> at) & 15;
    const bits = has(ELEMENT_FIELDS.long) ? 64 : 32;
    const indexBits = has(ELEMENT_FIELDS.longIndex) ? 64 : 32;
    const count = (has(ELEMENT_FIELDS.wide) ? 256 : 128) / Math.max(bits, indexBits);
    const [target, mask] = [number(0), number(ELEMENT_FIELDS.mask)];
    const indices = wideOf(state, number(ELEMENT_FIELDS.index));
    const segment = [null, FS_BASE, GS_BASE][(argument >> ELEMENT_FIELDS.segment) & 3] ?? null;
    const before = segment === null ? 0n : state.get(segment);
    const scale = BigInt((argument >> ELEMENT_FIELDS.scale) & 3);
    const ones = (1n << BigInt(bits)) - 1n;
    let [value, masks] = [wideOf(state, target), wideOf(state, mask)];
    for (let i = 0; i < count; i++) {
      const place = BigInt(bits * i);
      if (((masks >> (place + BigInt(bits - 1))) & 1n) === 1n) {
        const offset = BigInt.asIntN(indexBits, lane(indices, i, indexBits)) << scale;
        const effective = BigInt.asUintN(has(ELEMENT_FIELDS.narrow) ? 32 : 64, state.get(ARGUMENT) + offset);
        const at = BigInt.asUintN(64, effective + before);
        const address = state.memory.check(at, bits / 8, 'read');
        if (address !== null) {
          setWide(state, target, value);
          setWide(state, mask, masks);
          return { kind: 'fault', address, access: 'read' };
        }
        value = (value & ~(ones << place)) | (numberIn(state.memory.read(at, bits / 8)!) << place);
      }
      masks &= ~(ones << place);
    }
    setWide(state, target, BigInt.asUintN(bits * count, value));
    setWide(state, mask, 0n);
    return { kind: 'next' };
  },
};
