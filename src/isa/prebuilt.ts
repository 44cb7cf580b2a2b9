/**
 * What the patterns of the instruction tables come to, by the table's name. None here: the bundle
 * puts a file with all of them in this one's place (`scripts/bundle.ts`).
 */
import type { TableData } from './table-data.js';

export const PREBUILT_TABLES: ReadonlyMap<string, () => TableData> = new Map();
