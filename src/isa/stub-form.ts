/** Puts a stub form together from what recognises it and what it owns. Knows no machine. */
import type { Address } from '../units.js';

/** Code and data that a recognised stub owns, and the slot that its target comes from. */
export interface StubExtent {
  readonly sizeBytes: number;
  readonly slot?: Address;
}

/**
 * A form of stubs that neither save nor load a TOC.
 * @param readTarget  where the stub leads, or null for other code
 * @param extent  asked only about code that `readTarget` knows
 * @param slotBytes  size of the slots, where the form has any
 */
export function stubForm<Code>(
  name: string,
  readTarget: (code: Code, address: Address, toc: Address | null) => Address | null,
  extent: (code: Code, address: Address) => StubExtent,
  slotBytes = 8,
) {
  return {
    name,
    readTarget,
    read(code: Code, address: Address, toc: Address | null) {
      const target = readTarget(code, address, toc);
      if (target === null) return null;
      const { sizeBytes, slot } = extent(code, address);
      return {
        form: name,
        sizeBytes,
        target,
        slot: slot ?? null,
        slotBytes: slot === undefined ? 0 : slotBytes,
        targetToc: null,
        savesToc: false,
      };
    },
  };
}
