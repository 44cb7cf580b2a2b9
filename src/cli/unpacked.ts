/** Files that programs of the system have unpacked before they are asked for. */
import { readSync } from 'node:fs';
import type { CompressedForm } from '../elf/compressed.js';

/** A file in what its program gave. */
export interface Ready {
  readonly form: CompressedForm;
  /** Open as long as the file's portion is. */
  readonly descriptor: number;
  readonly at: number;
  readonly size: number;
}

/** By path. */
export const ready = new Map<string, Ready>();

/** What was unpacked ahead of a file. It is given away once. */
export function takeUnpacked(path: string): { readonly form: CompressedForm; readonly bytes: Uint8Array } | null {
  const found = ready.get(path);
  if (!found) return null;
  ready.delete(path);
  const { form, descriptor, at, size } = found;
  const bytes = new Uint8Array(size);
  for (let done = 0; done < size;) {
    const more = readSync(descriptor, bytes, done, size - done, at + done);
    if (more === 0) return null;
    done += more;
  }
  return { form, bytes };
}
