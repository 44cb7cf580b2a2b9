/** Why a run proves nothing about Linux. */
import type { Deviation } from '../emulator/index.js';
import type { Process } from '../guest/index.js';
import { hex } from '../errors.js';
import type { Doubt } from './compare.js';
import { nameAt, place, type RunImage } from './image.js';
import { endText, type Outcome } from './outcome.js';

/**
 * `system call mount (165) at 0x4011d6 (start+0x10) with 0x402000, 0x0, …: not served: ENOSYS`.
 */
export function deviationText(loaded: RunImage, guest: Process, deviation: Deviation): string {
  const { what, why, instruction, arguments: given } = deviation;
  const at = instruction === 0n ? '' : ` at ${place(loaded, guest, instruction)}`;
  return `${what}${at}${given ? ` with ${given.map(hex).join(', ')}` : ''}: ${why}`;
}

/** Why the run proves nothing. */
export function doubtsOf(
  loaded: RunImage,
  guest: Process,
  { end, at, message }: Outcome,
  isCall: boolean,
): readonly Doubt[] {
  const where = (address: bigint | null): Pick<Doubt, 'instruction' | 'function'> => ({
    instruction: address === null || address === 0n ? null : hex(address),
    function: address === null ? '' : nameAt(loaded, guest, address),
  });
  const out = guest.machine.deviations.map(({ kind, what, why, instruction, count, arguments: given }): Doubt => ({
    kind,
    what,
    why,
    ...(given && { arguments: given.map(hex) }),
    ...where(instruction),
    count,
  }));
  if (end.kind === 'failed') {
    out.push({ kind: 'stop', what: 'the run', why: `did not end: ${message ?? ''}`, ...where(at), count: 1 });
  } else if (isCall && end.kind === 'signal') {
    // What it found is not what callers in the program leave: a fault says nothing about the
    // function.
    const why = 'the function did not return, and nothing prepared the image for it';
    out.push({ kind: 'call', what: endText(end), why, ...where(at), count: 1 });
  }
  return out;
}
