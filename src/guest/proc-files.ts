/**
 * Files below `/proc`: what each kind is, and what `stat` tells of them.
 */
import type { Description } from './descriptions.js';
import type { FileStatus } from './files.js';
import { nameBytes } from '../bytes.js';

/** A file below `/proc`. */
export type ProcFile =
  | { readonly kind: 'text'; readonly bytes: Uint8Array }
  | { readonly kind: 'list'; readonly names: readonly string[] }
  | { readonly kind: 'link'; readonly text: string }
  /** Opens what a descriptor leads to. */
  | { readonly kind: 'descriptor'; readonly description: Description };

export const textFile = (value: string): ProcFile => ({ kind: 'text', bytes: nameBytes(value) });
export const listFile = (names: readonly string[]): ProcFile => ({ kind: 'list', names });
export const linkFile = (text: string): ProcFile => ({ kind: 'link', text });

/** What `stat` tells of such a file. */
/** @param date  when the run began: nanoseconds since 1970 */
export function procStatus(file: ProcFile, date: bigint): FileStatus {
  const kinds = { text: 'file', list: 'directory', link: 'link', descriptor: 'link' } as const;
  const permissions = { text: 0o444, list: 0o555, link: 0o777, descriptor: 0o700 } as const;
  return { kind: kinds[file.kind], permissions: permissions[file.kind], sizeBytes: 0, modified: date, inode: 3 };
}
