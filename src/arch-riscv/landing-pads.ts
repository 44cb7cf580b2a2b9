/**
 * Landing pads of Zicfilp: where `jalr` through another register than ra, t0 and t2 may land while
 * the hart checks it. A pad has a label of 20 bits, which must be 0 or that of bits 31 to 12 of t2.
 * Source: RISC-V CFI specification 1.0, chapter 2; RISC-V ELF psABI (properties).
 */
import type { LandingPads } from '../machine/landing-pads.js';

/** `lpad 0` is `auipc zero, 0`; the label is the upper immediate. */
const LPAD = 0x17;
const LABEL_BITS = 0xffff_f000;

export const riscvLandingPads: LandingPads = {
  title: 'lpad 0',
  // GNU_PROPERTY_RISCV_FEATURE_1_AND, bits CFI_LP_UNLABELED and CFI_LP_FUNC_SIG
  propertyType: 0xc000_0000,
  propertyBit: 5,
  // Stubs and entries set no label.
  isPad: (word) => word === LPAD,
  isPadOfPointer: (word) => (word & ~LABEL_BITS) === LPAD,
  direct: 'branch',
  // R-ENT-4 leaves through a2; `mv t2,a2` and `jalr t2` are not checked.
  unchecked: [
    {
      label: 'elftrace_return_leave',
      before: Uint8Array.of(0x13, 0, 0, 0, 0xe7, 0, 0x06, 0),
      after: Uint8Array.of(0x93, 0x03, 0x06, 0, 0xe7, 0x80, 0x03, 0),
    },
  ],
};
