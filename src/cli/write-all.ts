/** Bytes to standard output and error. */
import { writeSync } from 'node:fs';

/**
 * Writes everything even to a pipe that takes it in pieces; a reader that went away ends the
 * program quietly.
 */
export function writeAll(descriptor: 1 | 2, data: Uint8Array): void {
  let at = 0;
  while (at < data.length) {
    try {
      at += writeSync(descriptor, data, at);
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : '';
      if (code === 'EAGAIN') continue;
      if (code === 'EPIPE') process.exit(0);
      throw error;
    }
  }
}
