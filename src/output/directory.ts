/** Directories that a command makes for others to write into. */
import * as fs from 'node:fs';
import { ioError } from './target.js';

/** Makes a directory and those above it, where they are not there. @throws ElftraceError 'io' */
export function makeDirectory(path: string): void {
  try {
    fs.mkdirSync(path, { recursive: true });
  } catch (cause) {
    throw ioError(path, 'write', cause);
  }
}

/**
 * Gives a directory another name; what has that name goes, with all that is in it. The caller knows
 * that both are its own.
 * @throws ElftraceError 'io'
 */
export function keepDirectoryAs(path: string, kept: string): void {
  try {
    fs.rmSync(kept, { recursive: true, force: true });
    fs.renameSync(path, kept);
  } catch (cause) {
    throw ioError(path, 'write', cause);
  }
}
