/**
 * The files that this command has read, as they were then. An output is compared with them: it may
 * be none of them, unless that was asked for, and a file that has changed since is not replaced.
 */
import type * as fs from 'node:fs';
import { ElftraceError } from '../errors.js';

interface Input {
  /** As the user named it. */
  readonly path: string;
  readonly stats: fs.BigIntStats;
}

const inputs = new Map<string, Input>();

function key({ dev, ino }: fs.BigIntStats): string {
  return `${dev}:${ino}`;
}

/**
 * To be called with the state of a file in front of reading it. Pipes and devices have no state.
 */
export function noteInput(path: string, stats: fs.BigIntStats): void {
  if (stats.isFile() && !inputs.has(key(stats))) inputs.set(key(stats), { path, stats });
}

/** A command begins: what an earlier one of this process has read is none of its inputs. */
export function forgetInputs(): void {
  inputs.clear();
}

/** The input that is this file, under whatever name. */
export function inputOf(stats: fs.BigIntStats): string | null {
  return inputs.get(key(stats))?.path ?? null;
}

/**
 * A file that this command has read is about to be replaced.
 * @throws ElftraceError 'output-changed' when it was written to in between
 */
export function checkUnchanged(path: string, now: fs.BigIntStats): void {
  const before = inputs.get(key(now))?.stats;
  if (before === undefined) return;
  if (before.size === now.size && before.mtimeNs === now.mtimeNs && before.ctimeNs === now.ctimeNs) return;
  throw new ElftraceError('output-changed', `${path} has changed since it was read: it was not replaced`, {
    file: path,
  });
}
