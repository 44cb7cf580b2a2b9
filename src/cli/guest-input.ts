/**
 * The guest's standard input: ours, read as it asks. Reading must not hold the process where
 * nothing comes: the limit of time and Ctrl-C hold there, too. So a pipe and a terminal are opened
 * once more, for reading without waiting; the flag would otherwise hold for all processes that have
 * the same open file. Sockets cannot be opened again: Node makes them so when its stream for them
 * is made.
 */
import { constants, fstatSync, openSync, readSync } from 'node:fs';

let opened: number | null = null;

function descriptor(): number {
  if (opened !== null) return opened;
  const stats = fstatSync(0);
  // The stream reads nothing by itself; making it is what sets O_NONBLOCK.
  if (stats.isSocket()) process.stdin.pause();
  if (!stats.isFIFO() && !stats.isCharacterDevice()) return (opened = 0);
  try {
    return (opened = openSync('/proc/self/fd/0', constants.O_RDONLY | constants.O_NONBLOCK));
  } catch {
    return (opened = 0);
  }
}

/** At most `size` bytes; none at the end; null: there are none yet. */
export function readInputBytes(size: number): Uint8Array | null {
  const bytes = new Uint8Array(size);
  try {
    return bytes.subarray(0, readSync(descriptor(), bytes, 0, size, null));
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : '';
    if (code === 'EOF') return new Uint8Array();
    if (code === 'EAGAIN') return null;
    throw error;
  }
}

/** Standard input that can be read by several runs. */
export function replayedInput(): () => (size: number) => Uint8Array | null {
  let seen = new Uint8Array();
  let over = false;
  return () => {
    let at = 0;
    return (size) => {
      if (at === seen.length && !over) {
        const more = readInputBytes(size);
        if (more === null) return null;
        over = more.length === 0;
        const joined = new Uint8Array(seen.length + more.length);
        joined.set(seen);
        joined.set(more, seen.length);
        seen = joined;
      }
      const piece = seen.slice(at, at + size);
      at += piece.length;
      return piece;
    };
  };
}
