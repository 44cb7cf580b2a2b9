/**
 * Files of a cache: read only where they are this user's alone, written as a whole or not at all.
 * Imports nothing else, since each start of the command line reads one.
 */
import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';

/** Group and others: who may write a file may put into it what this user executes. */
const OTHERS_WRITE = 0o022;

/** A file that is this user's alone, opened to be read; null: it is not, or there is none. */
export function openOwnFile(path: string): { readonly descriptor: number; readonly size: number } | null {
  let descriptor: number;
  try {
    descriptor = openSync(path, 'r');
  } catch {
    return null;
  }
  try {
    const { uid, mode, size } = fstatSync(descriptor);
    if (process.getuid === undefined || (uid === process.getuid() && (mode & OTHERS_WRITE) === 0)) {
      return { descriptor, size };
    }
  } catch {
    // as if there was none
  }
  closeSync(descriptor);
  return null;
}

/** The bytes of a file that is this user's alone; null: it is not, or there is none. */
export function readOwnFile(path: string): Buffer | null {
  const file = openOwnFile(path);
  if (file === null) return null;
  try {
    return readFileSync(file.descriptor);
  } finally {
    closeSync(file.descriptor);
  }
}

/**
 * Writes a file of a folder, which is made where there is none.
 * @param stays  which other files of the folder stay
 * @throws where the system does
 */
export function writeOwnFile(folder: string, name: string, bytes: Uint8Array, stays: (name: string) => boolean): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const each of readdirSync(folder)) if (!stays(each)) rmSync(join(folder, each), { force: true });
  const path = join(folder, name);
  const fresh = `${path}.${process.pid}`;
  writeFileSync(fresh, bytes, { mode: 0o600 });
  renameSync(fresh, path);
}

/** Takes the oldest files of a folder away until there are at most so many, of so many bytes. */
export function trimFolder(folder: string, most: { readonly files: number; readonly bytes: number }): void {
  const files = readdirSync(folder).map((name) => {
    const { size, mtimeMs } = statSync(join(folder, name));
    return { name, size, mtimeMs };
  });
  let left = files.length;
  let bytes = files.reduce((sum, { size }) => sum + size, 0);
  files.sort((a, b) => a.mtimeMs - b.mtimeMs);
  for (const { name, size } of files) {
    if (left <= most.files && bytes <= most.bytes) return;
    rmSync(join(folder, name), { force: true });
    left--;
    bytes -= size;
  }
}
