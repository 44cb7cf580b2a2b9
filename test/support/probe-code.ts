/**
 * What tests of probes do on every machine: code as the probe model sees it, and what the model
 * says of it.
 */
import { createHash } from 'node:crypto';
import type {
  JumpOptimization,
  ProbeCode,
  ProbeInstruction,
  ProbeRefusal,
  ProbeSupport,
} from '../../src/machine/probes.js';

export const compact = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
export const digest = (bytes: Uint8Array): string => createHash('sha1').update(bytes).digest('hex');

/** Code of a function f that fills all its bytes. */
export function codeOf(bytes: Uint8Array, start: bigint, more: Partial<ProbeCode> = {}): ProbeCode {
  return {
    name: 'f',
    start,
    bytes,
    sizeKnown: true,
    localEntry: 0,
    isEntryText: false,
    hasException: () => false,
    otherPatch: () => null,
    siteAt: () => null,
    hasRelocation: () => false,
    wayInto: () => null,
    noJumpTables: false,
    ...more,
  };
}

/** A machine's jumps; it has some. */
export function jumpsOf({ optimization }: ProbeSupport): JumpOptimization {
  if (optimization.kind === 'none') throw new Error(optimization.reason);
  return optimization;
}

export function given<T extends object>(value: T | ProbeRefusal): T {
  if ('errno' in value) throw new Error(value.reason);
  return value;
}

/** Classification of the instruction at an offset, as a word or two. */
export function verdictOf(support: ProbeSupport, code: ProbeCode, offset = 0): string {
  const found = support.decode(code, code.start + BigInt(offset));
  return found.kind === 'refused' ? `${found.errno} ${found.code}` : found.method;
}

/** The instruction at an offset; it can have a probe. */
export const decodedBy = (support: ProbeSupport, code: ProbeCode, offset = 0): ProbeInstruction =>
  given(support.decode(code, code.start + BigInt(offset)));
