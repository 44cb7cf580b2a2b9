/** Where indirect branches may land, on machines that check it. Types only. */
export interface LandingPads {
  /** The instruction, for messages. */
  readonly title: string;
  /**
   * Property of an executable (type and bit of a property in .note.gnu.property) that has its code
   * checked.
   */
  readonly propertyType: number;
  readonly propertyBit: number;
  /**
   * Whether the first four bytes of a function, as a word of code, are a pad that stubs may
   * enter, and entries of a tracer on their way to a direct caller. Returns land anywhere.
   */
  isPad(word: number): boolean;
  /** The same for what calls a function through a pointer to it. */
  isPadOfPointer(word: number): boolean;
  /** How entries go on to a direct caller. */
  readonly direct: 'branch' | 'return';
  /**
   * Code of the runtime that branches as the kernel's does, at labels, and what stands there
   * instead in images that are checked.
   */
  readonly unchecked: readonly {
    readonly label: string;
    readonly before: Uint8Array;
    readonly after: Uint8Array;
  }[];
}
