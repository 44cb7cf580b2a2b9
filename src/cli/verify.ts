/** `elftrace verify FILE…`: a verdict per site; several files or a directory at once. */
import { availableParallelism } from 'node:os';
import { ElftraceError, hexBytes } from '../errors.js';
import { type Finding, type Verdict, verify, type Verification } from '../sites/verdicts.js';
import { fileGroup, type FileReport, groupFindings, type RuleGroup } from '../report/formats/model.js';
import { type Json, jsonSchema, verificationJson } from '../report/json.js';
import { disagreements } from '../record/journal.js';
import type { OriginKind } from '../program/origin.js';
import { isRuntimeObject, type UnsavedUse, unsavedUses } from '../tracing/callback-code.js';
import { withLivepatch } from '../livepatch/against.js';
import { compileAsUsual, compileLate, compileLateForFiles, LATE_FOR_MANY } from './compile-late.js';
import { disassemblerOf, oneLine } from './disassembly.js';
import { errorLine, exitCodeOf, exitCodes } from './exit.js';
import { expandPaths, type InputFile, readFileList, readInputs } from './files.js';
import { commandDeadline } from './limits.js';
import { open, type Opened, type OpenOptions } from './open.js';
import { progress } from './progress.js';
import { STANDARD_INPUT } from './standard-input.js';
import { portions, unpackedAhead } from './system-unpack.js';
import { err } from './terminal.js';
import { expectation } from './verify-expect.js';
import { type FileVerdict, plainOutputs, type VerifyFormat, type VerifyOutput } from './verify-output.js';
import type { Portion } from './verify-portions.js';
import { type PathResults, VerifyWorkers } from './verify-workers.js';
import { plainPolicy, underPolicy, type VerifyPolicy } from '../sites/policy.js';
import type { PolicyOptions } from './verify-policy.js';

export interface VerifyArguments extends OpenOptions {
  readonly files: readonly string[];
  /** Files that name further files. */
  readonly filesFrom?: readonly string[] | undefined;
  readonly format: VerifyFormat;
  readonly strict: boolean;
  readonly quiet: boolean;
  readonly policy: VerifyPolicy;
  readonly require?: number | undefined;
  /** What each file must be made for. */
  readonly expect?: OriginKind | undefined;
  readonly jobs: number;
  /** Whether programs of the system may unpack compressed files. */
  readonly systemUnpack: boolean;
  /** Kernel, modules and folders of modules that livepatch modules are held against. */
  readonly against?: readonly string[] | undefined;
}

function summary(result: Verification): string {
  const parts = Object.entries(result.verdicts).map(([verdict, count]) => `${count} ${verdict}`);
  return `${result.sites} sites${parts.length > 0 ? `: ${parts.join(', ')}` : ''}`;
}

async function findingLines(
  name: string,
  finding: Finding,
  disassemble: (bytes: Uint8Array, finding: Finding) => Promise<string>,
): Promise<string[]> {
  const where = finding.function === '' ? '' : ` (${finding.function})`;
  const lines = [
    `${name}:${finding.section}+0x${finding.offset.toString(16)}${where}: ${finding.severity}: ${finding.verdict}: ${finding.message}` +
      (finding.rule === '' ? '' : ` [${finding.rule}]`),
  ];
  for (const [label, bytes] of [
    ['expected', finding.expected],
    ['actual', finding.actual],
  ] as const) {
    if (bytes.length > 0) lines.push(`  ${label}: ${hexBytes(bytes)}  ${await disassemble(bytes, finding)}`);
  }
  return lines;
}

/** Formats that print every finding as JSON. */
const isJson = (format: VerifyFormat): boolean => format === 'json' || format === 'ndjson';

/** What a machine reads of a file that was judged, in a size of its own. */
function fileReport(
  name: string,
  path: string,
  result: Verification,
  args: Pick<VerifyArguments, 'strict' | 'require'>,
  about: readonly RuleGroup[],
): FileReport {
  const fails = (severity: RuleGroup['severity']): boolean =>
    args.require === undefined && (severity === 'error' || (args.strict && severity === 'warning'));
  const groups = groupFindings(result.findings, fails);
  const incomplete = result.incomplete;
  if (incomplete?.code === 'no-functions') groups.push(fileGroup('no-functions', incomplete.message));
  if (!isShareReached(result, args.strict, args.require)) {
    groups.push(fileGroup('required-share', `fewer than ${args.require} % of ${result.sites} sites are good`));
  }
  return {
    name,
    path,
    sites: result.sites,
    groups: [...groups, ...about],
    remarks: result.remarks,
    error: null,
    noSites: incomplete?.code === 'no-sites' ? incomplete.message : null,
  };
}

type Unexpected = ReturnType<typeof expectation>['unexpected'];

/** What is wrong besides the sites. */
function fileGroups(unsaved: readonly UnsavedUse[], changed: boolean, unexpected: Unexpected): RuleGroup[] {
  const groups: RuleGroup[] = unexpected === null ? [] : [fileGroup('unexpected-kind', unexpected.message)];
  const uses = unsaved.slice(0, 1).map(({ section, offset, function: name, text }) => ({
    ...fileGroup('unsaved-register', `the tracing entries do not save what '${text}' changes`, ['C-FG-7']),
    count: unsaved.length,
    sites: [{ section, address: BigInt(offset), offset: BigInt(offset), function: name, message: `'${text}'` }],
  }));
  groups.push(...uses);
  return changed
    ? [...groups, fileGroup('record-mismatch', 'the record and the bytes disagree: status says where', ['RT-6'])]
    : groups;
}

/** False where fewer sites are good than must be. */
function isShareReached(result: Verification, strict: boolean, require: number | undefined): boolean {
  if (require === undefined || result.sites === 0) return true;
  const bad = result.findings.filter(
    ({ site, severity }) => site >= 0 && (severity === 'error' || (strict && severity === 'warning')),
  ).length;
  return ((result.sites - bad) * 100) / result.sites >= require;
}

/** Exit code of a verification: errors fail, warnings under --strict, and a missed gate. */
function judgeExit(result: Verification, strict: boolean, require: number | undefined): number {
  if (result.incomplete?.code === 'no-functions') return exitCodes.failed;
  // What is said of a livepatch module is of no share of sites.
  if (result.findings.some(({ site, severity }) => site < 0 && severity === 'error')) return exitCodes.failed;
  if (require !== undefined) return isShareReached(result, strict, require) ? exitCodes.ok : exitCodes.failed;
  const isBad = result.findings.some(({ severity }) => severity === 'error' || (strict && severity === 'warning'));
  return isBad ? exitCodes.failed : exitCodes.ok;
}

/**
 * What the record says of functions that no table names any more, and whether something else was
 * written since.
 */
function untracedRemarks({ record, image }: Opened): {
  readonly remarks: readonly string[];
  readonly changed: boolean;
} {
  if (record === null || record.untraced.length === 0) return { remarks: [], changed: false };
  const remarks = [`${record.untraced.length} functions were untraced: no table names them`];
  const changed = disagreements(record, image.bytes).length > 0;
  if (changed) remarks.push('the record and the bytes disagree: status says where');
  return { remarks, changed };
}

type JsonObject = Readonly<Record<string, Json>>;
type JudgeArguments = Omit<VerifyArguments, 'jobs'>;

/** Verifies one file that was read and unpacked. */
async function judgeInput(input: InputFile, args: JudgeArguments): Promise<FileVerdict> {
  const opened = await open(input, args, 'read');
  const ofSites = verify(opened.sites, opened.recorded ? { recorded: opened.recorded } : {});
  const { against } = args;
  const source = against && (await import('./against.js')).objectSource(against, args.files);
  const found = await withLivepatch(opened, ofSites, source ?? null);
  const judged = underPolicy(input.name, found, args.policy);
  const untraced = untracedRemarks(opened);
  const isRuntime = isRuntimeObject(opened.program);
  // What was untraced as asked is no site any more, and callbacks are none: both are looked at
  // here.
  const incomplete = untraced.remarks.length > 0 || isRuntime ? null : judged.incomplete;
  const { unexpected, remarks } = expectation(opened.program, args.expect, judged.sites);
  const result = { ...judged, remarks: [...judged.remarks, ...untraced.remarks, ...remarks], incomplete };
  const unsaved = isRuntime ? unsavedUses(opened.program, await disassemblerOf(opened.arch)) : [];
  const { format } = args;
  const said: JsonObject = unexpected === null ? {} : { unexpected: { ...unexpected } };
  const isBad = unsaved.length > 0 || untraced.changed || unexpected !== null;
  const why = unexpected ?? (incomplete?.code === 'no-functions' ? incomplete : null);
  const about = fileGroups(unsaved, untraced.changed, unexpected);
  return {
    name: input.name,
    json: isJson(format) ? { ...(verificationJson(input.name, result, unsaved) as JsonObject), ...said } : null,
    report: format === 'text' || isJson(format) ? null : fileReport(input.name, input.path, result, args, about),
    text: format === 'text' ? await textLines(input.name, opened, result, unsaved, args.quiet) : [],
    verdicts: result.verdicts,
    sites: result.sites,
    exit: isBad ? exitCodes.failed : judgeExit(result, args.strict, args.require),
    error: why === null ? null : `${input.name}: error: ${why.message}`,
    noSites: incomplete?.code === 'no-sites' ? incomplete.message : null,
  };
}

/** The summary of a file, and unless `quiet` its findings and remarks. */
async function textLines(
  name: string,
  opened: Opened,
  result: Verification,
  unsaved: readonly UnsavedUse[],
  quiet: boolean,
): Promise<string[]> {
  const text: string[] = [`${name}: ${opened.arch.target.id}: ${summary(result)}`];
  for (const finding of result.findings) {
    if (finding.severity === 'note' || quiet) continue;
    text.push(...(await findingLines(name, finding, (bytes, at) => oneLine(opened.arch, bytes, at.address))));
  }
  for (const use of unsaved) {
    text.push(
      `${name}:${use.section}+0x${use.offset.toString(16)} (${use.function}): error: the tracing entries do not save what '${use.text}' changes, ` +
        'and no elftrace_vector_func is there to do it [C-FG-7]',
    );
  }
  if (!quiet) for (const remark of result.remarks) text.push(`  note: ${remark}`);
  return text;
}

/**
 * Verifies one path: a file, or each member of an archive. Errors are results here, so that the
 * other files go on.
 */
export async function verifyPath(path: string, args: JudgeArguments): Promise<FileVerdict[]> {
  const results: FileVerdict[] = [];
  try {
    for await (const input of readInputs(path)) {
      try {
        results.push(await judgeInput(input, args));
      } catch (error) {
        results.push(failure(input.name, error, input.path));
      }
    }
  } catch (error) {
    results.push(failure(path, error));
  }
  return results;
}

function failure(name: string, error: unknown, path = name): FileVerdict {
  const line = errorLine(error, name);
  const exit = exitCodeOf(error);
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'internal';
  const message = error instanceof Error ? error.message : String(error);
  return {
    name,
    json: { schema: jsonSchema, file: name, error: { code, message, exit } },
    report: { name, path, sites: 0, groups: [], remarks: [], error: { code, message, exit }, noSites: null },
    text: [],
    verdicts: {},
    sites: 0,
    exit,
    error: line,
    noSites: null,
  };
}

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

/** One thread judges for so long before others may help. */
const ALONE_MS = 400;

/**
 * Work of one thread that must be left for another one to help: each loads and compiles once more
 * what the first has loaded and compiled, which takes a fifth of a second where V8 compiles late.
 */
const WORTH_MS = 1000;

/**
 * Results of one thread.
 * @param isEnough  asked with how many files are done; true ends it there
 */
async function* verifyAlone(
  paths: readonly string[],
  args: VerifyArguments,
  isEnough: (done: number) => boolean = () => false,
): AsyncGenerator<FileVerdict[]> {
  let done = 0;
  const judged = compileLateForFiles(paths.length);
  for await (const portion of unpackedAhead(portions(paths, 1, args.systemUnpack), (each) => each)) {
    for (const path of portion) {
      if (commandDeadline().expired()) return;
      yield await verifyPath(path, args);
    }
    done += portion.length;
    judged();
    if (isEnough(done)) return;
  }
}

/** Whether others shall help one thread that has done so many files in so many milliseconds. */
function needsHelp(spent: number, done: number, all: number): boolean {
  return spent > ALONE_MS && (spent / done) * (all - done) * (availableParallelism() - 1) > WORTH_MS;
}

/**
 * Results in the order of the paths; fewer than there are paths where the time was over before.
 * @param isSlow  `--jobs 0`: what decides that others help; see `needsHelp`
 */
export async function* verifyAll(
  paths: readonly string[],
  args: VerifyArguments,
  isSlow = needsHelp,
): AsyncGenerator<FileVerdict[]> {
  if (args.jobs > 0) {
    yield* verifyWith(args.jobs, paths, args);
    return;
  }
  const begin = performance.now();
  let given = 0;
  for await (const results of verifyAlone(paths, args, (done) =>
    isSlow(performance.now() - begin, done, paths.length),
  )) {
    given++;
    yield results;
  }
  if (!commandDeadline().expired()) yield* verifyWith(availableParallelism(), paths.slice(given), args);
}

/** The same with as many threads; the first is this one. */
async function* verifyWith(
  most: number,
  paths: readonly string[],
  args: VerifyArguments,
): AsyncGenerator<FileVerdict[]> {
  const jobs = Math.min(most, paths.length);
  if (jobs <= 1) {
    yield* verifyAlone(paths, args);
    return;
  }
  const work = portions(paths, jobs, args.systemUnpack);
  compileLate(LATE_FOR_MANY);
  const workers = new VerifyWorkers(jobs, work, { ...args, files: [] }, (some) => judgePortions(some, args));
  try {
    for (let i = 0; i < paths.length; i++) {
      const results = await workers.results(i);
      if (results === null) return;
      yield results;
    }
  } finally {
    await workers.end();
    compileAsUsual();
  }
}

/** Results of the paths of portions, while those of the next one are unpacked. */
export async function* judgePortions(
  portions: Iterable<Portion>,
  args: JudgeArguments,
): AsyncGenerator<PathResults, void, undefined> {
  for await (const { index, paths } of unpackedAhead(portions, (portion) => portion.paths)) {
    for (const [i, path] of paths.entries()) yield { index: index + i, results: await verifyPath(path, args) };
  }
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
  for await (const results of verifyAll(paths, args)) {
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
