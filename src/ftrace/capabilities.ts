/** What differs between the entries of targets, as far as the core decides by it. Types only. */

/** What the entries and the code generator of a target offer (F-11). */
export interface Capabilities {
  /** Sites can be rewritten at all; without, operations only keep books (T-X86-32). */
  readonly patchable: boolean;
  /** What the plain entry hands on: ip and parent_ip, or ops and regs as well (C-TGT-9). */
  readonly passes: 2 | 4;
  /** Full register frames: none, by an entry of its own, or by the one entry there is. */
  readonly regs: 'none' | 'separate' | 'same';
  /** Which callbacks may change the resume address. */
  readonly resume: 'none' | 'regs' | 'any';
  /** Which entries can go on to a direct caller; `regs` needs a register entry. */
  readonly direct: 'none' | 'regs' | 'any';
  /** Private trampolines can be built. */
  readonly trampolines: boolean;
  /** There is a wrapper with recursion guard and RCU test; without one, such callbacks go through the list function. */
  readonly assist: boolean;
  /** A word before each function names the ops that its entry calls; the entries have no patched call then. */
  readonly callOps: boolean;
  /** There is a second entry beside the one that reads that word: it always goes through the list (A-CO-5). */
  readonly listEntry: boolean;
  /** Graph tracer: an ordinary callback; a jump in the entries; a static entry, and a jump in the shared tail (2014). */
  readonly graph: 'none' | 'callback' | 'jump' | 'trampoline';
}
