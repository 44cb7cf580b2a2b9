/**
 * The guest runtime as bytes: what patched code calls, prebuilt per target and entry convention.
 * Owns the choice of the object; the names in it stand in the convention's row, laying it out is
 * the loader's work.
 */
import type { ConventionName } from '../machine/conventions.js';
import { objectBytes } from './object-bytes.js';
import { OBJECTS } from './objects.js';

export * from './abi.js';

/**
 * Bytes of the relocatable object (ET_REL) for a target and convention, fresh on each call; null
 * where there is none.
 * @param probes  with the functions that probes call
 */
export function runtimeObject(target: string, convention: ConventionName, probes = false): Uint8Array | null {
  const key = `${target}/${convention}${probes ? '+probes' : ''}`;
  return OBJECTS[key] === undefined ? null : objectBytes(key);
}
