/**
 * Places that code calls, and those that it jumps to or computes the address of: where functions
 * of a file begin that has neither symbols nor unwind information. A call is read where decoding
 * from the start of the code arrives at one, so a place that nothing but a mistake in that leads to
 * may be among them: who asks has a place in mind that something else names, too.
 */
import type { Arch } from '../machine/arch.js';
import { SweptInstruction } from '../machine/probes.js';
import type { Address } from '../units.js';

export interface CalledPlaces {
  readonly called: ReadonlySet<Address>;
  readonly reached: ReadonlySet<Address>;
}

interface Code {
  readonly arch: Arch;
  readonly code: readonly { readonly bytes: Uint8Array; readonly address: Address }[];
  readonly positionIndependent: boolean;
}

export function calledPlaces({ arch, code, positionIndependent }: Code): CalledPlaces {
  const called = new Set<Address>();
  const reached = new Set<Address>();
  const { probes, isa } = arch;
  const optimization = probes.kind === 'none' || probes.optimization.kind === 'none' ? null : probes.optimization;
  const sweep = optimization?.sweep?.(() => null) ?? null;
  const swept = new SweptInstruction();
  for (const { bytes, address } of code) {
    sweep?.reset();
    for (let at = 0; at < bytes.length;) {
      const { flow, sizeBytes } = isa.decode(bytes, at, address + BigInt(at));
      const next = address + BigInt(at + sizeBytes);
      // The next instruction is called to learn where it lies.
      if (flow.kind === 'call' && flow.target !== next) called.add(flow.target);
      if (flow.kind === 'jump') reached.add(flow.target);
      sweep?.step(bytes, at, swept);
      const pair = arch.computedAddress?.(bytes, at, address + BigInt(at)) ?? null;
      if (pair !== null) reached.add(pair);
      if (sweep !== null && !Number.isNaN(swept.address)) reached.add(address + BigInt(at + swept.address));
      if (sweep !== null && !positionIndependent && swept.constant > 0) reached.add(BigInt(swept.constant));
      at += sizeBytes;
    }
  }
  return { called, reached };
}
