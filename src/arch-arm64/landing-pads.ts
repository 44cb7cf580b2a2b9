/**
 * Branch target identification: where `blr`, and `br` through x16 or x17, may land in guarded code.
 * Source: Arm ARM, D8.4.6 (guarded pages); ELF for the Arm 64-bit Architecture (properties).
 */
import type { LandingPads } from '../machine/landing-pads.js';
import { isBtiC } from './isa.js';

const PACIASP = 0xd503_233f;
const PACIBSP = 0xd503_237f;

const isPad = (word: number): boolean => isBtiC(word) || word === PACIASP || word === PACIBSP;

export const arm64LandingPads: LandingPads = {
  title: 'bti c',
  // GNU_PROPERTY_AARCH64_FEATURE_1_AND, bit BTI
  propertyType: 0xc000_0000,
  propertyBit: 1,
  isPad,
  isPadOfPointer: isPad,
  direct: 'branch',
  unchecked: [],
};
