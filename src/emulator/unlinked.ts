/**
 * Records of a block that are the same wherever they are (`encoder.ts` writes them for one place):
 * the only host addresses in them are those of links and stubs, which are distances from the header
 * here.
 */
import type { Prefix } from './encoder.js';
import { EXIT_HANDLER, HEADER_BYTES, reasonNumber, RECORD_BYTES } from './handlers.js';
import type { HostMemory } from './host.js';

const UNTRANSLATED = reasonNumber('untranslated');
/** A header and an `exit` record. */
const STUB_BYTES = HEADER_BYTES + RECORD_BYTES;

/** Where the stubs of a block begin that no code has left yet: they are the last of its records. */
function* stubsOf({ u16 }: Pick<HostMemory, 'u16'>, header: number, recordsEnd: number): Generator<number> {
  for (let stub = recordsEnd - STUB_BYTES; stub > header; stub -= STUB_BYTES) {
    const exit = (stub + HEADER_BYTES) >> 1;
    if (u16[exit] !== EXIT_HANDLER || u16[exit + 1] !== UNTRANSLATED) return;
    yield stub;
  }
}

/**
 * A copy of a block's header and records, as `writeBlock` left them, that is the same wherever they
 * are: where a stub is linked from is a distance from the header.
 */
export function unlinked(host: HostMemory, header: number, recordsEnd: number): Uint8Array {
  const copy = host.u8.slice(header, recordsEnd);
  const words = new Uint32Array(copy.buffer);
  for (const stub of stubsOf(host, header, recordsEnd)) {
    const link = host.u32[stub >> 2]! - header;
    words[(stub - header) >> 2] = link;
    words[link >> 2] = 0;
  }
  return copy;
}

/**
 * Writes what `unlinked` gave to another place, behind a prefix or without; returns the address
 * after its last byte.
 */
export function writeUnlinked(host: HostMemory, header: number, block: Uint8Array, prefix: Prefix): number {
  // The header of the copy makes room for the prefix.
  const start = prefix === null ? header : header + RECORD_BYTES;
  const end = start + block.length;
  host.u8.set(block, start);
  for (const stub of stubsOf(host, start, end)) {
    const link = start + host.u32[stub >> 2]!;
    host.u32[stub >> 2] = link;
    host.u32[link >> 2] = stub;
  }
  if (prefix === null) return end;
  host.u8.copyWithin(header, start, start + HEADER_BYTES);
  host.u16[start >> 1] = EXIT_HANDLER;
  host.u16[(start >> 1) + 1] = reasonNumber(prefix);
  host.i64[(start + 8) >> 3] = 0n;
  return end;
}
