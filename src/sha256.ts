/**
 * SHA-256 of bytes as lower-case hex. Synchronous and without a native module, so that the library
 * runs anywhere.
 */
import { sha256 as digest } from '@noble/hashes/sha2';

/** A hash function that a caller may pass in where it has a faster one. */
export type Sha256 = (bytes: Uint8Array) => string;

/** SHA-256 of bytes, 64 hexadecimal digits: what records and plans name files by. */
export const sha256: Sha256 = (bytes) => {
  let text = '';
  for (const byte of digest(bytes)) text += byte.toString(16).padStart(2, '0');
  return text;
};
