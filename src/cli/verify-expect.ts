/**
 * `verify --expect kernel|user`: what the files must be made for. A tree with others in it, or with
 * code without sites that carries no mark of either, is not what was asked to be verified.
 */
import { SHF_EXECINSTR } from '../elf/constants.js';
import { type OriginKind, originOf } from '../program/origin.js';
import type { Program } from '../program/program.js';

export interface Expectation {
  /** Of a file that is not what was expected. */
  readonly unexpected: {
    readonly expected: OriginKind;
    /** Null where nothing tells. */
    readonly found: OriginKind | null;
    readonly message: string;
  } | null;
  /** What is said of a file that may be either. */
  readonly remarks: readonly string[];
}

const titles: Readonly<Record<OriginKind, string>> = { kernel: 'the kernel', user: 'user space' };
const met: Expectation = { unexpected: null, remarks: [] };

/** @param sites  how many the file has */
export function expectation(program: Program, expected: OriginKind | undefined, sites: number): Expectation {
  if (expected === undefined) return met;
  const origin = originOf(program);
  if (origin?.kind === expected) return met;
  const wanted = `expected an image of ${titles[expected]}`;
  if (origin !== null) {
    const message = `${wanted}: this one is of ${titles[origin.kind]}, for it ${origin.reason}`;
    return { unexpected: { expected, found: origin.kind, message }, remarks: [] };
  }
  const nothing = `${wanted}: nothing tells what this one is of`;
  // An object without code could have no site, whatever it is of.
  const hasCode = program.image.sections.some(({ flags, size }) => (flags & SHF_EXECINSTR) !== 0n && size > 0);
  if (sites > 0 || !hasCode) return { unexpected: null, remarks: [`${nothing}; it may be either`] };
  const message = `${nothing}, and its code has no patch site`;
  return { unexpected: { expected, found: null, message }, remarks: [] };
}
