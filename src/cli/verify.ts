/** `elftrace verify FILE…`: a verdict per site; several files or a directory at once. */
import { ElftraceError } from '../errors.js';
import type { Verdict } from '../sites/verdicts.js';
import { fileGroup } from '../report/formats/model.js';
import { exitCodes } from './exit.js';
import { expandPaths, readFileList } from './files.js';
import { commandDeadline } from './limits.js';
import { progress } from './progress.js';
import { STANDARD_INPUT } from './standard-input.js';
import { err } from './terminal.js';
import { type FileVerdict, plainOutputs, type VerifyFormat, type VerifyOutput } from './verify-output.js';
import { plainPolicy, type VerifyPolicy } from '../sites/policy.js';
import { failure, type VerifyArguments, verifyPath } from './verify-file.js';
import type { PolicyOptions } from './verify-policy.js';

/**
 * The worst of several exit codes: a fault of ours, then bad input, then unsupported, then a failed
 * check.
 */
export function worst(codes: Iterable<number>): number {
  const rank = [
    exitCodes.ok,
    exitCodes.failed,
    exitCodes.unsupported,
    exitCodes.badInput,
    exitCodes.internal,
  ] as number[];
  let result: number = exitCodes.ok;
  for (const code of codes) if (rank.indexOf(code) > rank.indexOf(result)) result = code;
  return result;
}

/** Results of one path; none where the time was over before. It needs nothing of what trees do. */
async function* verifyOne(path: string, args: VerifyArguments): AsyncGenerator<FileVerdict[]> {
  if (!commandDeadline().expired()) yield await verifyPath(path, args);
}

/** What was found so far, and what it means for the whole. */
class Tally {
  readonly codes: number[] = [];
  readonly verdicts: Partial<Record<Verdict, number>> = {};
  readonly empty: { readonly name: string; readonly why: string }[] = [];
  files = 0;
  sites = 0;
  failed = 0;

  /** @param mustHaveSites  where the file has none, that is a failure */
  take(result: FileVerdict, mustHaveSites: boolean): void {
    this.files++;
    this.sites += result.sites;
    this.codes.push(result.exit);
    const lacks = result.noSites !== null && mustHaveSites;
    if (lacks) this.codes.push(exitCodes.failed);
    else if (result.noSites !== null) this.empty.push({ name: result.name, why: result.noSites });
    if (result.exit !== exitCodes.ok || lacks) this.failed++;
    for (const [verdict, count] of Object.entries(result.verdicts)) {
      const key = verdict as Verdict;
      this.verdicts[key] = (this.verdicts[key] ?? 0) + count;
    }
  }

  /** Why nothing was found, where no file had a site and none was at fault; null otherwise. */
  nothing(several: boolean): string | null {
    if (this.empty.length !== this.files || worst(this.codes) !== exitCodes.ok) return null;
    const [first] = this.empty;
    return several || first === undefined
      ? `elftrace: error: no patch site in any of ${this.files} files`
      : `${first.name}: error: ${first.why}`;
  }
}

/** The same with the lack of sites as a finding of its own. */
function lackingSites(result: FileVerdict): FileVerdict {
  const { report, noSites } = result;
  if (report === null || noSites === null) return result;
  return { ...result, report: { ...report, groups: [...report.groups, fileGroup('no-sites', noSites)] } };
}

/** Reports for machines are loaded for who reads them. */
async function outputOf(format: VerifyFormat): Promise<VerifyOutput> {
  if (format === 'text' || format === 'json') return plainOutputs[format];
  return (await import('./verify-reports.js')).reportOutput(format);
}

/** What names rules is loaded for options that name some. */
async function policyOf(given: PolicyOptions): Promise<VerifyPolicy> {
  const { skip = [], severity, baseline } = given;
  if (skip.length === 0 && severity === undefined && baseline === undefined) return plainPolicy;
  return (await import('./verify-policy.js')).readPolicy(given);
}

/** What the command line names, and what lists name that it gives. */
function namedFiles({ files, filesFrom = [] }: VerifyArguments): string[] {
  const fromInput = [...files, ...filesFrom].filter((name) => name === STANDARD_INPUT);
  if (fromInput.length > 1) throw new ElftraceError('usage', 'standard input is given twice');
  if (files.length + filesFrom.length === 0) throw new ElftraceError('usage', 'verify needs FILES');
  return [...files, ...filesFrom.flatMap(readFileList)];
}

/**
 * Verifies all files. Nothing to verify is no success: where no file has a site, or one that was
 * named has none and must have good ones (`--require`), a check has failed. In a directory files
 * without sites are usual.
 */
export async function runVerify(given: Omit<VerifyArguments, 'policy'> & PolicyOptions): Promise<number> {
  const args: VerifyArguments = { ...given, policy: await policyOf(given) };
  const unread: FileVerdict[] = [];
  const listed = namedFiles(args);
  const paths = expandPaths(listed, (path, error) => unread.push(failure(path, error)));
  const named = new Set(listed);
  const tally = new Tally();
  let done = 0;
  const several = paths.length + unread.length > 1;
  const output = await outputOf(args.format);
  output.begin(paths.length + unread.length);
  const take = (path: string, results: readonly FileVerdict[], gated: boolean): void => {
    const lacks = (result: FileVerdict): boolean => result.noSites !== null && gated && results.length === 1;
    for (const result of results) {
      tally.take(result, lacks(result));
      if (lacks(result) && output.saysErrors) err(`${result.name}: error: ${result.noSites}`);
    }
    output.path(
      path,
      results.map((result) => (lacks(result) ? lackingSites(result) : result)),
    );
    for (const { error } of results) if (error !== null && output.saysErrors) err(error);
  };
  for (const each of unread) take(each.name, [each], false);
  const [first, second] = paths;
  const all =
    first !== undefined && second === undefined
      ? verifyOne(first, args)
      : (await import('./verify-tree.js')).verifyAll(paths, args);
  for await (const results of all) {
    const path = paths[done]!;
    done++;
    progress(`verify: ${done}/${paths.length}`);
    take(path, results, args.require !== undefined && results.length > 0 && named.has(path));
  }
  const [next] = paths.slice(done);
  if (next !== undefined) {
    const late = commandDeadline().error(`verify: ${done} of ${paths.length} files were looked at; it`, { file: next });
    take(next, [failure(next, late)], false);
  }
  const nothing = tally.nothing(several);
  if (nothing !== null) {
    tally.codes.push(exitCodes.failed);
    if (output.saysErrors) err(nothing);
  }
  const { files, failed, sites, verdicts, codes } = tally;
  const exit = worst(codes);
  output.end({ files, failed, sites, verdicts, exit, nothing, several: several || files > 1 });
  return exit;
}
