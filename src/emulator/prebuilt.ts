/**
 * Modules of tier 0 made beforehand, by `moduleKey`. None here: the bundle puts a file with one for
 * every machine in this one's place (`scripts/bundle.ts`), because a new process takes 10 ms to
 * generate a module and 1 ms to compile it.
 */
export const PREBUILT: ReadonlyMap<string, () => Uint8Array<ArrayBuffer>> = new Map();

/** The keys of tier 0's handlers by number. */
export const PREBUILT_HANDLERS: readonly string[] | null = null;
