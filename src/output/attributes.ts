/**
 * Mode, owner, access lists and extended attributes of a file that takes the place of another one,
 * or is made like it.
 */
import * as fs from 'node:fs';

const SET_ID = 0o6000;
const PERMISSIONS = 0o777;

/** The file whose attributes a new one gets. */
export interface Model {
  readonly path: string;
  readonly stats: fs.BigIntStats;
}

export interface AttributeOptions {
  /** All who may read the file may run it. */
  readonly executable: boolean;
  /** Neither the model nor the new file is known to have more than owner and mode. */
  readonly isPlain?: boolean;
}

/**
 * Gives an open file, which is its owner's alone so far, the attributes of another one. The owner
 * comes first: a file with set-id bits and the wrong owner would run foreign bytes with our rights.
 * Where the owner cannot be given, those bits go.
 * @param path  the open file's, for the tools of the system
 */
export function copyAttributes(
  descriptor: number,
  path: string,
  { path: from, stats }: Model,
  { executable, isPlain = false }: AttributeOptions,
): void {
  const own = fs.fstatSync(descriptor, { bigint: true });
  let owned = own.uid === stats.uid && own.gid === stats.gid;
  if (!owned) {
    try {
      fs.fchownSync(descriptor, Number(stats.uid), Number(stats.gid));
      owned = true;
    } catch {
      // Only root gives files away; the copy that another user makes is the user's own.
    }
  }
  const like = Number(stats.mode);
  const mode = executable ? like | ((like & 0o444) >> 2) : like;
  if (!isPlain) carryExtended(from, path, owned || (like & SET_ID) === 0);
  fs.fchmodSync(descriptor, mode & (owned ? SET_ID | 0o1000 | PERMISSIONS : PERMISSIONS));
}

/**
 * Access lists and extended attributes go along where the system has the tool for it (cp of GNU
 * coreutils); Node has no call for them. Files without any stay as they are, and so does a file
 * where the tool is absent or refuses.
 */
function carryExtended(from: string, to: string, withLists: boolean): void {
  if (process.platform !== 'linux') return;
  const { spawnSync } = process.getBuiltinModule('node:child_process');
  const what = withLists ? 'mode,xattr' : 'xattr';
  spawnSync('cp', ['--attributes-only', `--preserve=${what}`, '--', from, to], { stdio: 'ignore' });
}
