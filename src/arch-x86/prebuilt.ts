/**
 * What the lines of the opcode maps come to, by the map's name. None here: the bundle puts a file with all of them in this one's place
 * (`scripts/bundle.ts`).
 */
import type { OpcodeMapData } from './opcode-map.js';

export const PREBUILT_MAPS: ReadonlyMap<string, () => OpcodeMapData> = new Map();
