/** Files that hold room for others, which rename them when the disk is full. */
import * as fs from 'node:fs';

/** Makes files of so many bytes that begin with a word, as long as there is room. */
export function makeSpares(paths: readonly string[], magic: string, sizeBytes: number): void {
  const page = new Uint8Array(sizeBytes);
  page.set(new TextEncoder().encode(magic));
  for (const path of paths) {
    try {
      // Flushed: a file system may give it its place only then.
      fs.writeFileSync(path, page, { mode: 0o600, flush: true });
    } catch {
      fs.rmSync(path, { force: true });
      return;
    }
  }
}

/** Takes away those that were not renamed. */
export function removeSpares(paths: readonly string[]): void {
  for (const path of paths) fs.rmSync(path, { force: true });
}
