/** Files that hold something for a while and that no folder has. */
import * as fs from 'node:fs';
import { join } from 'node:path';

/**
 * A new file that has no name any more, so that nothing is left of it however the process ends:
 * its descriptor, for reading and writing. Null where no temporary file can be made.
 */
export function namelessFile(): number | null {
  try {
    const folder = fs.mkdtempSync(join(process.getBuiltinModule('node:os').tmpdir(), 'elftrace-'));
    try {
      const path = join(folder, 'unpacked');
      const descriptor = fs.openSync(path, 'wx+', 0o600);
      fs.unlinkSync(path);
      return descriptor;
    } finally {
      fs.rmdirSync(folder);
    }
  } catch {
    return null;
  }
}
