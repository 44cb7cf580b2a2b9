/**
 * Text and numbers as bytes, many million a second: an event costs neither a string nor an object.
 * What is the same in many events is encoded once, as a block.
 */

/** Receives bytes, which are only valid during the call. */
export type ByteSink = (bytes: Uint8Array) => void;

/** Bytes that are written again and again, in words of 32 bits, the last one padded. */
export interface Block {
  readonly words: Uint32Array;
  readonly bytes: Uint8Array;
}

const encoder = new TextEncoder();
const PIECE = 1 << 20;
/** Beyond the end of a piece: no number and no padding is longer. */
const SLACK = 64;

/** "0000" to "9999", first digit in the lowest byte. */
const DIGITS = Uint32Array.from({ length: 10_000 }, (_, i) => {
  const digit = (unit: number): number => 0x30 + (Math.floor(i / unit) % 10);
  return (digit(1) * 2 ** 24 + (digit(10) << 16) + (digit(100) << 8) + digit(1000)) >>> 0;
});
const POINT = 0x2e;

export function blockOf(contents: string | Uint8Array): Block {
  const bytes = typeof contents === 'string' ? encoder.encode(contents) : contents;
  const words = new Uint32Array(Math.ceil(bytes.length / 4));
  bytes.forEach((byte, at) => (words[at >> 2]! |= byte << (8 * (at & 3))));
  return { words, bytes };
}

/** Gathers bytes to pieces. */
export class ByteWriter {
  private readonly bytes = new Uint8Array(PIECE + SLACK);
  private readonly view = new DataView(this.bytes.buffer);
  private at = 0;
  /** Bytes that were given away. */
  private before = 0;

  constructor(private readonly sink: ByteSink) {}

  /** Bytes written so far. */
  get size(): number {
    return this.before + this.at;
  }

  block({ words, bytes }: Block): void {
    if (this.at + bytes.length > PIECE) {
      this.text(bytes);
      return;
    }
    const { view, at } = this;
    for (let i = 0; i < words.length; i++) view.setUint32(at + 4 * i, words[i]!, true);
    this.at = at + bytes.length;
  }

  /** For what is rare. */
  text(contents: string | Uint8Array): void {
    const bytes = typeof contents === 'string' ? encoder.encode(contents) : contents;
    if (this.at + bytes.length > PIECE) this.flush();
    if (bytes.length > PIECE) {
      this.sink(bytes);
      this.before += bytes.length;
      return;
    }
    this.bytes.set(bytes, this.at);
    this.at += bytes.length;
  }

  /** An integer from 0 to 2^53 in decimal digits. */
  number(value: number): void {
    if (this.at > PIECE) this.flush();
    this.digits(value);
  }

  /** Thousandths of a number, with a point in front of the last three digits. */
  thousandths(value: number): void {
    if (this.at > PIECE) this.flush();
    const whole = Math.floor(value / 1000);
    this.digits(whole);
    const word = DIGITS[value - whole * 1000]!;
    this.view.setUint32(this.at, (word & ~0xff) | POINT, true);
    this.at += 4;
  }

  /** The last `count` digits (at most 4) of an integer below 10,000. */
  padded(value: number, count: number): void {
    if (this.at > PIECE) this.flush();
    this.view.setUint32(this.at, DIGITS[value]! >>> (8 * (4 - count)), true);
    this.at += count;
  }

  /** A number as protobuf writes it: seven bits a byte, the lowest first. */
  varint(value: number): void {
    if (this.at > PIECE) this.flush();
    let rest = value;
    while (rest >= 2 ** 31) {
      this.bytes[this.at++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    while (rest >= 128) {
      this.bytes[this.at++] = (rest & 127) | 128;
      rest >>>= 7;
    }
    this.bytes[this.at++] = rest;
  }

  u8(value: number): void {
    if (this.at > PIECE) this.flush();
    this.bytes[this.at++] = value;
  }

  flush(): void {
    if (this.at > 0) this.sink(this.bytes.subarray(0, this.at));
    this.before += this.at;
    this.at = 0;
  }

  private digits(value: number): void {
    if (value < 10_000) {
      const count = value < 10 ? 1 : value < 100 ? 2 : value < 1000 ? 3 : 4;
      this.view.setUint32(this.at, DIGITS[value]! >>> (8 * (4 - count)), true);
      this.at += count;
      return;
    }
    const above = Math.floor(value / 10_000);
    this.digits(above);
    this.view.setUint32(this.at, DIGITS[value - above * 10_000]!, true);
    this.at += 4;
  }
}
