/**
 * What packages of distributions begin with. Apart from what reads them (`packages.ts`), which few
 * starts need.
 */
import { cString } from '../bytes.js';
import { isArchive } from './archive.js';

export function isRpm(bytes: Uint8Array): boolean {
  return bytes[0] === 0xed && bytes[1] === 0xab && bytes[2] === 0xee && bytes[3] === 0xdb;
}

/** An archive whose first member says that it is a package. */
export function isDeb(bytes: Uint8Array): boolean {
  return isArchive(bytes) && cString(bytes, 8, Math.min(bytes.length, 24)).startsWith('debian-binary');
}
