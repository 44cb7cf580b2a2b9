/** The package `elfy` 1.0.0 has no types; this is the part that `elfy.ts` uses. */
declare module 'elfy' {
  type Table = Readonly<Record<number, string>>;
  const elfy: {
    /**
     * Needs a Buffer (readUInt32LE and the like); throws Error or TypeError for what it cannot
     * read.
     */
    // An import statement would turn this declaration into an augmentation of a module.
    // eslint-disable-next-line @typescript-eslint/consistent-type-imports
    parse(buffer: Uint8Array): import('./elfy.js').SecondReading;
    readonly constants: {
      readonly type: Table;
      readonly machine: Table;
      readonly entryType: Table;
      readonly entryFlags: Table;
      readonly sectType: Table;
      readonly sectFlags: Table;
    };
  };
  export = elfy;
}
