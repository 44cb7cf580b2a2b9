/**
 * What the lines of the opcode maps come to, by the map's name. None here: the bundle puts a file
 * with all of them in this one's place (`scripts/bundle.ts`).
 */

/** The rows of a map: 256 lines, each the JSON of an `OpcodeRowData[]`, or empty. */
export type OpcodeMapData = string;

export const PREBUILT_MAPS: ReadonlyMap<string, () => OpcodeMapData> = new Map();
