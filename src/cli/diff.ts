/**
 * `elftrace diff OLD NEW`: two files, or two trees whose files are matched by path, by name and by
 * build id. One pair is in memory at a time.
 */
import { relative } from 'node:path';
import { statSync } from 'node:fs';
import { type ChangeKind, changeKinds, diffSites, type SitesDiff } from '../diff/index.js';
import { buildIdIn, type Pairing, pairFiles, type TreeFile, treeKey, TreeTotals } from '../diff/trees.js';
import { ElftraceError } from '../errors.js';
import { limitExceeded } from '../limits/index.js';
import { ioError } from '../output/target.js';
import type { HtmlDiff, HtmlDifference } from '../page/index.js';
import { diffJson, diffLines, diffSummary } from '../report/diff.js';
import { type Json, jsonSchema } from '../report/json.js';
import { errorLine, exitCodeOf, exitCodes } from './exit.js';
import { expandPaths, type InputFile, readInput, readInputs } from './files.js';
import { commandDeadline, commandLimits } from './limits.js';
import { open, type OpenOptions } from './open.js';
import { progress } from './progress.js';
import { unpackedAhead } from './system-unpack.js';
import { err, out, paint } from './terminal.js';
import { worst } from './verify.js';

/** What `--fail-on` takes: a change, or any of them. */
export type FailOn = ChangeKind | 'any';

export interface DiffArguments {
  readonly old: string;
  readonly new: string;
  readonly failOn: readonly FailOn[];
  readonly quiet: boolean;
  /** Programs of the system may unpack. */
  readonly systemUnpack: boolean;
  readonly json: boolean;
  readonly oldSymbols?: string | undefined;
  readonly newSymbols?: string | undefined;
  readonly mcount?: readonly string[] | undefined;
  readonly table?: readonly string[] | undefined;
}

/** Pairs of files that programs of the system unpack at once. */
const PAIRS = 16;

/** A file of one side, read when its turn comes. */
class Entry implements TreeFile {
  constructor(
    readonly name: string,
    readonly key: string,
    readonly read: () => Promise<InputFile>,
  ) {}

  /** '' also where the file cannot be read, which is said elsewhere. */
  async buildId(): Promise<string> {
    try {
      return buildIdIn((await this.read()).bytes);
    } catch (error) {
      if (error instanceof ElftraceError && error.code !== 'timeout') return '';
      throw error;
    }
  }
}

interface Side {
  readonly entries: readonly Entry[];
  /** One file, which is compared with the one of the other side whatever both are called. */
  readonly isFile: boolean;
}

/** Exit codes and counts of the whole. */
class Tally extends TreeTotals {
  readonly codes: number[] = [];

  failed(name: string, error: unknown): void {
    err(errorLine(error, name));
    this.codes.push(exitCodeOf(error));
  }
}

/** The files of a side. Members of archives and packages are kept in memory, within the limits. */
async function sideOf(path: string, failed: (name: string, error: unknown) => void): Promise<Side> {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) throw ioError(path, 'read', new Error('no such file or directory'));
  if (stats.isDirectory()) {
    const paths = expandPaths([path], failed);
    const entries = paths.map((file) => new Entry(file, treeKey(relative(path, file)), () => readInput(file, 'read')));
    return { entries, isFile: false };
  }
  const members: Entry[] = [];
  let size = 0;
  for await (const input of readInputs(path)) {
    if (input.member === null) {
      return { entries: [new Entry(input.name, '', () => Promise.resolve(input))], isFile: true };
    }
    size += input.bytes.length;
    const most = commandLimits().file;
    if (size > most) throw limitExceeded('file', 'what is inside', most, { file: path, value: size });
    members.push(new Entry(input.name, treeKey(input.member), () => Promise.resolve(input)));
  }
  if (members.length === 0) throw new ElftraceError('no-match', `${path}: no ELF file is inside`, { file: path });
  return { entries: members, isFile: false };
}

/** One file with another, whatever both are called; of trees those that belong together. */
function pairUp(older: Side, newer: Side): Promise<Pairing<Entry>> {
  if (older.isFile !== newer.isFile) {
    throw new ElftraceError('usage', 'a file and a tree: name two files, or two trees');
  }
  if (!older.isFile) return pairFiles(older.entries, newer.entries);
  return Promise.resolve({ pairs: [{ old: older.entries[0]!, new: newer.entries[0]! }], lost: [], gained: [] });
}

async function comparePair(
  pair: { readonly old: Entry; readonly new: Entry },
  args: Pick<DiffArguments, 'oldSymbols' | 'newSymbols' | 'mcount' | 'table'>,
): Promise<SitesDiff> {
  const options = (symbols: string | undefined): OpenOptions => ({
    ...(symbols === undefined ? {} : { symbols }),
    mcount: args.mcount,
    table: args.table,
  });
  const older = await open(await pair.old.read(), options(args.oldSymbols), 'read');
  const newer = await open(await pair.new.read(), options(args.newSymbols), 'read');
  return diffSites(older.sites, newer.sites, { ...commandLimits(), deadline: commandDeadline() });
}

/** Sites of a file that name code. */
async function sitesOf(entry: Entry, { mcount, table }: Pick<DiffArguments, 'mcount' | 'table'>): Promise<number> {
  const { sites } = await open(await entry.read(), { mcount, table }, 'read');
  const { total, byState } = sites.totals();
  return total - (byState['outside'] ?? 0);
}

/** A file that the other side does not have: its sites are lost or gained as a whole. */
async function alone(entry: Entry, change: 'lost' | 'gained', args: DiffArguments, tally: Tally): Promise<void> {
  const count = await sitesOf(entry, args);
  tally.takeAlone(change, count);
  if (args.json) {
    const names = change === 'lost' ? { old: entry.name, new: null } : { old: null, new: entry.name };
    out(JSON.stringify({ schema: jsonSchema, ...names, change, sites: count }));
  } else out(`${paint('bold', entry.name)}: ${change} as a whole, with ${count} sites`);
}

/**
 * The same for a page: every pair, and the files that one side alone has.
 * @throws what reading any of them throws
 */
export async function comparison(
  args: Omit<DiffArguments, 'failOn' | 'quiet' | 'json' | 'systemUnpack'>,
): Promise<HtmlDiff> {
  const refuse = (_: string, error: unknown): never => {
    throw error;
  };
  const [older, newer] = [await sideOf(args.old, refuse), await sideOf(args.new, refuse)];
  const { pairs, lost, gained } = await pairUp(older, newer);
  const found: HtmlDifference[] = [];
  for (const pair of pairs) {
    found.push({ old: pair.old.name, new: pair.new.name, diff: await comparePair(pair, args) });
    progress(`diff ${pair.new.name}`);
  }
  for (const [entries, change] of [[lost, 'lost'], [gained, 'gained']] as const) {
    for (const entry of entries) found.push({ alone: entry.name, change, sites: await sitesOf(entry, args) });
  }
  return { old: args.old, new: args.new, pairs: found };
} // prettier-ignore

function sayPair(
  names: { readonly old: string; readonly new: string },
  diff: SitesDiff,
  args: DiffArguments,
  several: boolean,
): void {
  if (args.json) {
    out(JSON.stringify(diffJson(names, diff)));
    return;
  }
  if (several && diff.differences.length === 0) return;
  out(`${paint('bold', names.old)} -> ${paint('bold', names.new)}: ${diffSummary(diff)}`);
  if (!args.quiet) diffLines(diff).forEach(out);
}

function sayTotal(tally: Tally): { readonly text: string; readonly json: Json } {
  const { pairs, same, sites, counts, alone: single, codes } = tally;
  const parts = changeKinds.filter((change) => counts[change] > 0).map((change) => `, ${counts[change]} ${change}`);
  const rest = single.old + single.new > 0 ? `, ${single.old} files lost, ${single.new} gained` : '';
  const bad = codes.length > 0 ? `, ${codes.length} not read` : '';
  return {
    text: `${pairs} files compared${rest}${bad}: ${sites.old} sites, then ${sites.new}: ${same} same${parts.join('')}`,
    json: {
      summary: {
        schema: jsonSchema,
        pairs,
        files: { lost: single.old, gained: single.new, unread: codes.length },
        sites: { ...sites },
        same,
        counts: { ...counts },
      },
    },
  };
}

export async function runDiff(args: DiffArguments): Promise<number> {
  const tally = new Tally();
  const failed = tally.failed.bind(tally);
  const [older, newer] = [await sideOf(args.old, failed), await sideOf(args.new, failed)];
  const several = !older.isFile;
  if (several && (args.oldSymbols !== undefined || args.newSymbols !== undefined)) {
    throw new ElftraceError('usage', '--old-symbols and --new-symbols are about two files, not trees');
  }
  const { pairs, lost, gained } = await pairUp(older, newer);
  const attempt = async (name: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      if (!several || (error instanceof ElftraceError && error.code === 'timeout')) throw error;
      tally.failed(name, error);
    }
    progress(`diff ${name}`);
  };
  const portions = Array.from({ length: Math.ceil(pairs.length / PAIRS) }, (_, i) =>
    pairs.slice(i * PAIRS, (i + 1) * PAIRS),
  );
  // What is no file of its own is not found, and goes the ordinary way.
  const pathsOf = (portion: typeof pairs): string[] =>
    several && args.systemUnpack ? portion.flatMap((pair) => [pair.old.name, pair.new.name]) : [];
  for await (const portion of unpackedAhead(portions, pathsOf)) {
    for (const pair of portion) {
      await attempt(pair.new.name, async () => {
        const diff = await comparePair(pair, args);
        tally.take(diff);
        sayPair({ old: pair.old.name, new: pair.new.name }, diff, args, several);
      });
    }
  }
  for (const entry of lost) await attempt(entry.name, () => alone(entry, 'lost', args, tally));
  for (const entry of gained) await attempt(entry.name, () => alone(entry, 'gained', args, tally));
  if (several) {
    const { text, json } = sayTotal(tally);
    out(args.json ? JSON.stringify(json) : text);
  }
  return exitOf(tally, args);
}

function exitOf({ codes, counts, sites }: Tally, { failOn, old: older, new: newer }: DiffArguments): number {
  if (codes.length > 0) return worst(codes);
  if (sites.old + sites.new === 0) {
    err(`elftrace: error: neither ${older} nor ${newer} has a patch site: nothing was compared`);
    return exitCodes.failed;
  }
  const failing = failOn.includes('any') ? changeKinds : changeKinds.filter((change) => failOn.includes(change));
  return failing.some((change) => counts[change] > 0) ? exitCodes.failed : exitCodes.ok;
}
