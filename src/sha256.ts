/**
 * SHA-256 of bytes as lower-case hex. Synchronous and without a native module, so that the library
 * runs anywhere.
 */
import { sha256 as digest } from '@noble/hashes/sha2';

/** A hash function that a caller may pass in where it has a faster one. */
export type Sha256 = (bytes: Uint8Array) => string;

const hexOf = (bytes: Uint8Array): string => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');

/** SHA-256 of bytes that come in pieces. */
export interface Sha256Pieces {
  add(piece: Uint8Array): void;
  /** Of all pieces so far. Nothing is added afterwards. */
  end(): string;
}

export function sha256Pieces(): Sha256Pieces {
  const hash = digest.create();
  return {
    add(piece) {
      hash.update(piece);
    },
    end: () => hexOf(hash.digest()),
  };
}

/** SHA-256 of bytes, 64 hexadecimal digits: what records and plans name files by. */
export const sha256: Sha256 = (bytes) => hexOf(digest(bytes));
