/** One file of `verify`: what is said of its sites, in each format. */
import { hexBytes } from '../errors.js';
import { type Finding, verify, type Verification } from '../sites/verdicts.js';
import { fileGroup, type FileReport, groupFindings, type RuleGroup } from '../report/formats/model.js';
import { type Json, jsonSchema, verificationJson } from '../report/json.js';
import { disagreements } from '../record/journal.js';
import type { OriginKind } from '../program/origin.js';
import { isRuntimeObject, type UnsavedUse, unsavedUses } from '../tracing/callback-code.js';
import { withLivepatch } from '../livepatch/against.js';
import { disassemblerOf, oneLine } from './disassembly.js';
import { errorLine, exitCodeOf, exitCodes } from './exit.js';
import { type InputFile, readInputs } from './files.js';
import { open, type Opened, type OpenOptions } from './open.js';
import { expectation } from './verify-expect.js';
import type { FileVerdict, VerifyFormat } from './verify-output.js';
import { underPolicy, type VerifyPolicy } from '../sites/policy.js';

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
export type JudgeArguments = Omit<VerifyArguments, 'jobs'>;

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

export function failure(name: string, error: unknown, path = name): FileVerdict {
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
