/**
 * Why mutants that a proof does not find change nothing that a proof is about (PV-5). The first row
 * that fits counts; a row that fits no mutant is an error of `scripts/mutants.ts`.
 */
import type { MutantKind } from './mutants.js';

export interface MutantArgument {
  readonly name: string;
  readonly why: string;
  readonly object: RegExp;
  readonly symbol: RegExp;
  /** Of the text of the instruction, or of both. */
  readonly text?: RegExp;
  readonly kinds?: readonly MutantKind[];
  /** `idle`: no trial comes to the instruction. Default: `survived`. */
  readonly standing?: 'survived' | 'idle';
}

const any = /^/;

export const mutantArguments: readonly MutantArgument[] = [
  {
    name: 'one hart',
    why: 'where one hart runs, a store with a reservation succeeds: the branch that tries again is not taken',
    object: /^arm64\//,
    symbol: any,
    text: /^(?:stl?xr w\d+, .*; )?cbnz w\d+, 0xffffffffffffff/,
  },
  {
    name: 'behind a return',
    why: 'a nop changes places with the return in front of it',
    object: /^arm64\//,
    symbol: any,
    text: /^ret(?: x\d+)?; nop$/,
    kinds: ['swap'],
  },
  {
    name: 'time',
    why: 'the time of a record may be anything: no proof knows it',
    object: /^arm64\//,
    symbol: any,
    text: /cntvct_el0/,
  },
  {
    name: 'readers beside',
    why: 'a record is of kind 0 until it is whole, for those who read while it is written',
    object: /^arm64\//,
    symbol: /^write_record$/,
    text: /^str wzr, \[x\d+\]/,
  },
  {
    name: 'landing pad',
    why: 'the call leads behind the first instruction of the entry, a landing pad, for which no processor looks here',
    object: /^arm64 site$/,
    symbol: any,
    text: /^bl /,
    kinds: ['immediate'],
  },
];
