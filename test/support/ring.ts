/**
 * Rings as a traced program leaves them in memory, written here byte by byte from RT-11. Kinds of
 * version 2 may have 8 added, for what is far from the ring.
 */
import type { Endian } from '../../src/units.js';

export interface HandRecord {
  readonly time: number;
  readonly ip: number;
  readonly parent: number;
  readonly kind: number;
  readonly cpu?: number;
}

export interface HandRing {
  readonly endian: Endian;
  readonly capacity: number;
  /** All that were ever written, in order. */
  readonly records: readonly HandRecord[];
  readonly dropped?: number;
  readonly version?: number;
  readonly recordBytes?: number;
  readonly magic?: string;
  readonly clock?: number;
  readonly head?: number;
  readonly flags?: number;
}

/** Bytes of records, by version. */
const RECORD_BYTES = { 1: 32, 2: 16 } as const;

/** Header and records; later records overwrite earlier ones as the guest's own stores do. */
export function ringBytes(ring: HandRing): Uint8Array {
  const size = ring.version === 2 ? RECORD_BYTES[2] : RECORD_BYTES[1];
  const bytes = new Uint8Array(64 + size * ring.capacity);
  const view = new DataView(bytes.buffer);
  const little = ring.endian === 'little';
  bytes.set(new TextEncoder().encode(ring.magic ?? 'ELFTRCE1'));
  view.setUint32(8, ring.version ?? 1, little);
  view.setUint32(12, ring.recordBytes ?? size, little);
  view.setUint32(16, ring.capacity, little);
  view.setUint32(20, ring.flags ?? 0, little);
  view.setBigUint64(24, BigInt(ring.head ?? ring.records.length), little);
  view.setBigUint64(32, BigInt(ring.dropped ?? 0), little);
  view.setBigUint64(40, BigInt(ring.clock ?? 1), little);
  ring.records.forEach((record, i) => {
    const at = 64 + size * (i % ring.capacity);
    if (ring.version === 2) {
      const tag = BigInt(record.kind) | (BigInt(record.cpu ?? 0) << 4n);
      view.setBigUint64(at, (BigInt(record.time) << 8n) | tag, little);
      view.setUint32(at + 8, record.ip, little);
      view.setUint32(at + 12, record.parent, little);
      return;
    }
    view.setBigUint64(at, BigInt(record.time), little);
    view.setBigUint64(at + 8, BigInt(record.ip), little);
    view.setBigUint64(at + 16, BigInt(record.parent), little);
    view.setUint32(at + 24, record.kind, little);
    view.setUint32(at + 28, record.cpu ?? 0, little);
  });
  return bytes;
}

/** Reads `bytes` as memory that begins at `base`. */
export function memoryOf(bytes: Uint8Array, base: bigint): (address: bigint, size: number) => Uint8Array | null {
  return (address, size) => {
    const at = Number(address - base);
    return at >= 0 && at + size <= bytes.length ? bytes.slice(at, at + size) : null;
  };
}
