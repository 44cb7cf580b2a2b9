/**
 * Hits of probes while they are handled (PV-1, 4): a hit inside another one is missed, so the
 * thread must say that it handles one. Seen where memory is read for its arguments.
 */
import type { Address } from '../units.js';
import type { ProofWorld } from './world.js';

export class HandledHits {
  private isHooked = false;
  private says = (): boolean => true;
  /** Memory was read for a hit of which the thread said nothing. */
  isUnsaid = false;

  /** @param peek  the function that reads memory for arguments */
  constructor(private readonly peek: Address) {}

  /**
   * A trial begins.
   * @param says  whether the block of the running thread says that something is handled
   */
  begin({ machine }: ProofWorld, says: () => boolean): void {
    this.says = says;
    this.isUnsaid = false;
    if (this.isHooked) return;
    this.isHooked = true;
    machine.hook(this.peek, () => {
      this.isUnsaid ||= !this.says();
      return 'continue';
    });
  }
}
