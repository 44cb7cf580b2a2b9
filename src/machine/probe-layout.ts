/**
 * What a machine finds out about a whole function, worked out once: every probe asks about all of
 * the function around it.
 */
import type { ProbeCode } from './probes.js';

export function perFunction<T>(make: (code: ProbeCode) => T): (code: ProbeCode) => T {
  const made = new WeakMap<ProbeCode, { readonly of: T }>();
  return (code) => {
    let found = made.get(code);
    if (found === undefined) {
      found = { of: make(code) };
      made.set(code, found);
    }
    return found.of;
  };
}
