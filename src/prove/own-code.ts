/** Code that the tracer brought with it, one instruction after the other. */
import * as elf from '../elf/constants.js';
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';

export interface OwnInstruction {
  readonly address: Address;
  readonly code: Uint8Array;
}

/** @param own  the tracer's ranges */
export function* ownCode(
  { image, arch }: Program,
  own: readonly { readonly start: Address; readonly end: Address }[],
): Generator<OwnInstruction> {
  for (const section of image.sections) {
    if ((section.flags & elf.SHF_EXECINSTR) === 0n || section.size === 0) continue;
    const [start, end] = [section.address, section.address + BigInt(section.size)];
    if (!own.some((each) => each.start <= start && end <= each.end)) continue;
    for (let at = start; at < end;) {
      const from = section.offset + Number(at - start);
      const { sizeBytes } = arch.isa.decode(image.bytes, from, at);
      yield { address: at, code: image.bytes.subarray(from, from + sizeBytes) };
      at += BigInt(sizeBytes);
    }
  }
}
