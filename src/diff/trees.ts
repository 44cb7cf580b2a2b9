/**
 * Two trees compared: which file of the one is which of the other, and the sums of all pairs. Files
 * are matched by path, by a name that is unique on both sides, and by build id.
 */
import { readElf } from '../elf/read.js';
import { hexBytes } from '../errors.js';
import { type ChangeKind, changeKinds, type Sides, type SitesDiff } from './index.js';

/** A file of a tree or archive. */
export interface TreeFile {
  readonly name: string;
  /** Path in its tree or archive, as `treeKey` gives it. */
  readonly key: string;
  /** GNU build id; '' where it has none. Asked for where neither path nor name tells. */
  buildId(): Promise<string>;
}

export interface Pairing<T> {
  readonly pairs: readonly Sides<T>[];
  /** Files of the old side alone, and of the new one. */
  readonly lost: readonly T[];
  readonly gained: readonly T[];
}

/** A path without what compression appends. */
export const treeKey = (path: string): string => path.replace(/(\.ko)\.(gz|xz|zst)$/, '$1');

/** Modules are told by their name, in which both dashes are one. */
const nameOf = ({ key }: TreeFile): string => key.replace(/^.*\//, '').replaceAll('-', '_');

/**
 * GNU build id of a file, in hex; '' where it has none.
 * @throws ElftraceError of `readElf`
 */
export function buildIdIn(bytes: Uint8Array): string {
  const notes = readElf(bytes).notes();
  const note = notes.find(({ owner, type }) => owner === 'GNU' && type === 3);
  return note === undefined ? '' : hexBytes(note.descriptor);
}

/** Files by a key; keys that several have tell none of them, and neither does the empty one. */
function uniquely<T>(files: readonly T[], keys: readonly string[]): ReadonlyMap<string, T> {
  const found = new Map<string, T | null>();
  files.forEach((file, i) => found.set(keys[i]!, found.has(keys[i]!) ? null : file));
  return new Map([...found].filter((each): each is [string, T] => each[0] !== '' && each[1] !== null));
}

/** Which file of the old side is which of the new one. */
export async function pairFiles<T extends TreeFile>(older: readonly T[], newer: readonly T[]): Promise<Pairing<T>> {
  const pairs: Sides<T>[] = [];
  let [lost, gained] = [older, newer];
  const match = async (keyOf: (file: T) => string | Promise<string>): Promise<void> => {
    if (lost.length === 0 || gained.length === 0) return;
    const keys = async (files: readonly T[]): Promise<string[]> => {
      const found: string[] = [];
      for (const file of files) found.push(await keyOf(file));
      return found;
    };
    const [before, after] = [uniquely(lost, await keys(lost)), uniquely(gained, await keys(gained))];
    const taken = new Set<T>();
    for (const [key, file] of before) {
      const other = after.get(key);
      if (other === undefined) continue;
      pairs.push({ old: file, new: other });
      taken.add(file).add(other);
    }
    lost = lost.filter((each) => !taken.has(each));
    gained = gained.filter((each) => !taken.has(each));
  };
  await match(({ key }) => key);
  await match(nameOf);
  await match((file) => file.buildId());
  pairs.sort((a, b) => (a.new.name < b.new.name ? -1 : 1));
  return { pairs, lost, gained };
}

/** Sums over all pairs, and over files that one side alone has. */
export class TreeTotals {
  readonly counts: Record<ChangeKind, number> = { lost: 0, gained: 0, moved: 0, changed: 0 };
  pairs = 0;
  same = 0;
  readonly sites = { old: 0, new: 0 };
  /** Files that the other side does not have. */
  readonly alone = { old: 0, new: 0 };

  take(diff: SitesDiff): void {
    this.pairs++;
    this.same += diff.same;
    this.sites.old += diff.sites.old;
    this.sites.new += diff.sites.new;
    for (const change of changeKinds) this.counts[change] += diff.counts[change];
  }

  /** A file that the other side does not have: its sites are lost or gained as a whole. */
  takeAlone(change: 'lost' | 'gained', sites: number): void {
    const side = change === 'lost' ? 'old' : 'new';
    this.sites[side] += sites;
    this.alone[side]++;
    this.counts[change] += sites;
  }
}
