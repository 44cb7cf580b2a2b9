/**
 * Reads the prebuilt objects of the guest runtime. In the compiled tree they are the files of
 * `src/runtime/objects`; the bundle replaces this module by one that unpacks them from
 * `dist/data/objects.bin` (scripts/bundle.ts).
 */
import { readFileSync } from 'node:fs';

/** From `build/src/runtime`: compilers leave the objects where they are. */
const folder = new URL('../../../src/runtime/objects/', import.meta.url);

/** Bytes of the object with a key of `OBJECTS` (`TARGET/FLAVOUR`), fresh on each call. */
export function objectBytes(key: string): Uint8Array {
  return new Uint8Array(readFileSync(new URL(`${key}.o`, folder)));
}
