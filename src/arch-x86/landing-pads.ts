/**
 * Indirect branch tracking: where `call` and `jmp` through a register or a word of memory may land
 * while the processor checks it. A branch with the prefix notrack (3e) lands anywhere, where the
 * system allows that prefix; so does `ret`.
 * Source: Intel SDM volume 1, chapter 17.3; Linux x86-64 psABI extension (properties).
 */
import type { LandingPads } from '../machine/landing-pads.js';

/** `f3 0f 1e fa` as a little-endian word. */
const ENDBR64 = 0xfa1e_0ff3;

const isPad = (word: number): boolean => word === ENDBR64;

export const x86LandingPads: LandingPads = {
  title: 'endbr64',
  // GNU_PROPERTY_X86_FEATURE_1_AND, bit IBT
  propertyType: 0xc000_0002,
  propertyBit: 1,
  isPad,
  isPadOfPointer: isPad,
  // T-X86-22: sites call it, and entries put it in the place of their return address.
  direct: 'return',
  unchecked: [],
};
