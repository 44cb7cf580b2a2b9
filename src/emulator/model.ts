/** What the emulator needs from a machine. Types only; `ir.ts` has the operations. */

/**
 * `none` says why programs of the target cannot be executed yet; the other member is filled by the emulator's IR.
 */
export type EmulationModel = { readonly kind: 'none'; readonly reason: string } | IrEmulation;

/** Placeholder for the IR front end: replaced by the members that `ir.ts` fixes (register file, lift, start-up). */
export interface IrEmulation {
  readonly kind: 'ir';
}
