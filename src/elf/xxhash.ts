/**
 * XXH64, the checksum of zstd frames (its low 32 bits with seed 0: RFC 8878, 3.1.1), because
 * `fzstd` does not verify it. Written over pairs of 32-bit halves: bigints would take ten times as
 * long. Source: the xxHash specification 0.1.1.
 */
import { ByteView } from '../bytes.js';

/** A 64-bit number as two unsigned halves. */
interface Pair {
  h: number;
  l: number;
}

// The five primes of the specification.
const P1: Readonly<Pair> = { h: 0x9e37_79b1, l: 0x85eb_ca87 };
const P2: Readonly<Pair> = { h: 0xc2b2_ae3d, l: 0x27d4_eb4f };
const P3: Readonly<Pair> = { h: 0x1656_67b1, l: 0x9e37_79f9 };
const P4: Readonly<Pair> = { h: 0x85eb_ca77, l: 0xc2b2_ae63 };
const P5: Readonly<Pair> = { h: 0x27d4_eb2f, l: 0x1656_67c5 };

/** Upper half of the product of two unsigned 32-bit numbers. */
function multiplyHigh(a: number, b: number): number {
  const a0 = a & 0xffff;
  const a1 = a >>> 16;
  const b0 = b & 0xffff;
  const b1 = b >>> 16;
  const middle = a1 * b0 + ((a0 * b0) >>> 16);
  const other = a0 * b1 + (middle & 0xffff);
  return (a1 * b1 + Math.floor(middle / 0x1_0000) + Math.floor(other / 0x1_0000)) >>> 0;
}

function multiply(x: Pair, by: Readonly<Pair>): void {
  const { h, l } = x;
  x.h = (multiplyHigh(l, by.l) + Math.imul(h, by.l) + Math.imul(l, by.h)) >>> 0;
  x.l = Math.imul(l, by.l) >>> 0;
}

function add(x: Pair, h: number, l: number): void {
  const low = x.l + l;
  x.h = (x.h + h + (low > 0xffff_ffff ? 1 : 0)) >>> 0;
  x.l = low >>> 0;
}

function rotate(x: Pair, bits: number): void {
  const { h, l } = x;
  x.h = ((h << bits) | (l >>> (32 - bits))) >>> 0;
  x.l = ((l << bits) | (h >>> (32 - bits))) >>> 0;
}

function shiftXor(x: Pair, bits: number): void {
  const { h, l } = x;
  // x ^= x >> bits
  if (bits >= 32) x.l = (l ^ (h >>> (bits - 32))) >>> 0;
  else {
    x.l = (l ^ ((l >>> bits) | (h << (32 - bits)))) >>> 0;
    x.h = (h ^ (h >>> bits)) >>> 0;
  }
}

const lane: Pair = { h: 0, l: 0 };

/** acc = rotl(acc + input * P2, 31) * P1 */
function round(acc: Pair, h: number, l: number): void {
  lane.h = h;
  lane.l = l;
  multiply(lane, P2);
  add(acc, lane.h, lane.l);
  rotate(acc, 31);
  multiply(acc, P1);
}

/** Bytes of a stripe: one word for each of the four lanes. */
const STRIPE = 32;

/** XXH64 with seed 0 of bytes that come piece by piece. */
export class Xxh64 {
  readonly #lanes: readonly [Pair, Pair, Pair, Pair];
  readonly #rest = new Uint8Array(STRIPE);
  #restBytes = 0;
  #size = 0;

  constructor() {
    const a: Pair = { ...P1 };
    add(a, P2.h, P2.l);
    // 0 - P1
    const d: Pair = { h: ~P1.h >>> 0, l: ~P1.l >>> 0 };
    add(d, 0, 1);
    this.#lanes = [a, { ...P2 }, { h: 0, l: 0 }, d];
  }

  update(bytes: Uint8Array): this {
    this.#size += bytes.length;
    let from = 0;
    if (this.#restBytes > 0) {
      from = Math.min(STRIPE - this.#restBytes, bytes.length);
      this.#rest.set(bytes.subarray(0, from), this.#restBytes);
      this.#restBytes += from;
      if (this.#restBytes < STRIPE) return this;
      this.#stripes(this.#rest);
      this.#restBytes = 0;
    }
    const whole = bytes.length - ((bytes.length - from) % STRIPE);
    this.#stripes(bytes.subarray(from, whole));
    this.#rest.set(bytes.subarray(whole));
    this.#restBytes = bytes.length - whole;
    return this;
  }

  #stripes(bytes: Uint8Array): void {
    const view = new ByteView(bytes, 'little', 'hashed bytes');
    const [a, b, c, d] = this.#lanes;
    for (let at = 0; at < bytes.length; at += STRIPE) {
      round(a, view.u32(at + 4), view.u32(at));
      round(b, view.u32(at + 12), view.u32(at + 8));
      round(c, view.u32(at + 20), view.u32(at + 16));
      round(d, view.u32(at + 28), view.u32(at + 24));
    }
  }

  /** Low 32 bits of the hash of everything so far, unsigned. */
  low(): number {
    const hash: Pair = { h: 0, l: 0 };
    if (this.#size >= STRIPE) this.#merge(hash);
    else add(hash, P5.h, P5.l);
    add(hash, Math.floor(this.#size / 2 ** 32), this.#size >>> 0);
    finish(hash, this.#rest.subarray(0, this.#restBytes));
    return hash.l;
  }

  #merge(hash: Pair): void {
    this.#lanes.forEach((lane, i) => {
      const turned = { ...lane };
      rotate(turned, [1, 7, 12, 18][i]!);
      add(hash, turned.h, turned.l);
    });
    for (const lane of this.#lanes) {
      const merged: Pair = { h: 0, l: 0 };
      round(merged, lane.h, lane.l);
      hash.h = (hash.h ^ merged.h) >>> 0;
      hash.l = (hash.l ^ merged.l) >>> 0;
      multiply(hash, P1);
      add(hash, P4.h, P4.l);
    }
  }
}

/** The bytes behind the last stripe, and the avalanche. */
function finish(hash: Pair, rest: Uint8Array): void {
  const view = new ByteView(rest, 'little', 'hashed bytes');
  let at = 0;
  for (; at + 8 <= rest.length; at += 8) {
    const k: Pair = { h: 0, l: 0 };
    round(k, view.u32(at + 4), view.u32(at));
    hash.h = (hash.h ^ k.h) >>> 0;
    hash.l = (hash.l ^ k.l) >>> 0;
    rotate(hash, 27);
    multiply(hash, P1);
    add(hash, P4.h, P4.l);
  }
  if (at + 4 <= rest.length) {
    const k: Pair = { h: 0, l: view.u32(at) };
    multiply(k, P1);
    hash.h = (hash.h ^ k.h) >>> 0;
    hash.l = (hash.l ^ k.l) >>> 0;
    rotate(hash, 23);
    multiply(hash, P2);
    add(hash, P3.h, P3.l);
    at += 4;
  }
  for (; at < rest.length; at++) {
    const k: Pair = { h: 0, l: rest[at]! };
    multiply(k, P5);
    hash.h = (hash.h ^ k.h) >>> 0;
    hash.l = (hash.l ^ k.l) >>> 0;
    rotate(hash, 11);
    multiply(hash, P1);
  }
  shiftXor(hash, 33);
  multiply(hash, P2);
  shiftXor(hash, 29);
  multiply(hash, P3);
  shiftXor(hash, 32);
}

/** Low 32 bits of XXH64 with seed 0, unsigned. */
export function xxh64Low(bytes: Uint8Array): number {
  return new Xxh64().update(bytes).low();
}
