/** `elftrace verify FILE…`: a verdict per site; several files or a directory at once. */
import { availableParallelism } from 'node:os';
import { hexBytes } from '../errors.js';
import { type Finding, verdictSeverity, type Verdict, verify, type Verification } from '../sites/verdicts.js';
import { jsonSchema, type Json, verificationJson } from '../report/json.js';
import { disagreements } from '../patch/journal.js';
import { isRuntimeObject, unsavedUses } from '../tracing/callback-code.js';
import { disassemblerOf, oneLine } from './disassembly.js';
import { errorLine, exitCodeOf, exitCodes } from './exit.js';
import { expandPaths, readInputs } from './files.js';
import { commandDeadline, limitsLeft } from './limits.js';
import { open, type Opened, type OpenOptions } from './open.js';
import { progress } from './progress.js';
import { err, out, paint } from './terminal.js';

export interface VerifyArguments extends OpenOptions {
  readonly files: readonly string[];
  readonly json: boolean;
  readonly strict: boolean;
  readonly quiet: boolean;
  readonly require?: number | undefined;
  readonly jobs: number;
}

/** Result for one file, ready to print: what a worker sends. */
export interface FileVerdict {
  readonly name: string;
  readonly json: Json;
  readonly text: readonly string[];
  readonly verdicts: Readonly<Partial<Record<Verdict, number>>>;
  readonly sites: number;
  readonly exit: number;
  readonly error: string | null;
  /**
   * Why the file has no site; null when it has some. Whether that is a fault is known when all
   * files were read.
   */
  readonly noSites: string | null;
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

/** Exit code of a verification: errors fail, warnings under --strict, and a missed gate. */
function judgeExit(result: Verification, strict: boolean, require: number | undefined): number {
  let errors = 0;
  let warnings = 0;
  for (const finding of result.findings) {
    if (finding.severity === 'error') errors++;
    else if (finding.severity === 'warning') warnings++;
  }
  if (require !== undefined) {
    const good = result.sites - errors - (strict ? warnings : 0);
    if (result.sites > 0 && (good * 100) / result.sites < require) return exitCodes.failed;
    return result.incomplete?.code === 'no-functions' ? exitCodes.failed : exitCodes.ok;
  }
  if (result.incomplete?.code === 'no-functions') return exitCodes.failed;
  return errors > 0 || (strict && warnings > 0) ? exitCodes.failed : exitCodes.ok;
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

/**
 * Verifies one path: a file, or each member of an archive. Errors are results here, so that the
 * other files go on.
 */
export async function verifyPath(path: string, args: Omit<VerifyArguments, 'files' | 'jobs'>): Promise<FileVerdict[]> {
  const results: FileVerdict[] = [];
  try {
    for await (const input of readInputs(path)) {
      try {
        const opened = await open(input, args);
        const judged = verify(opened.sites, opened.recorded ? { recorded: opened.recorded } : {});
        const untraced = untracedRemarks(opened);
        const isRuntime = isRuntimeObject(opened.program);
        // What was untraced as asked is no site any more, and callbacks are none: both are looked
        // at here.
        const incomplete = untraced.remarks.length > 0 || isRuntime ? null : judged.incomplete;
        const result = { ...judged, remarks: [...judged.remarks, ...untraced.remarks], incomplete };
        const text: string[] = [`${input.name}: ${opened.arch.target.id}: ${summary(result)}`];
        for (const finding of result.findings) {
          if (finding.severity === 'note' || args.quiet || args.json) continue;
          text.push(
            ...(await findingLines(input.name, finding, (bytes, at) => oneLine(opened.arch, bytes, at.address))),
          );
        }
        const unsaved = isRuntime ? unsavedUses(opened.program, await disassemblerOf(opened.arch)) : [];
        for (const use of args.json ? [] : unsaved) {
          text.push(
            `${input.name}:${use.section}+0x${use.offset.toString(16)} (${use.function}): error: the tracing entries do not save what '${use.text}' changes, ` +
              'and no elftrace_vector_func is there to do it [C-FG-7]',
          );
        }
        if (!args.quiet) for (const remark of result.remarks) text.push(`  note: ${remark}`);
        results.push({
          name: input.name,
          json: args.json ? verificationJson(input.name, result, unsaved) : null,
          text,
          verdicts: result.verdicts,
          sites: result.sites,
          exit:
            unsaved.length > 0 || untraced.changed ? exitCodes.failed : judgeExit(result, args.strict, args.require),
          error: incomplete?.code === 'no-functions' ? `${input.name}: error: ${incomplete.message}` : null,
          noSites: incomplete?.code === 'no-sites' ? incomplete.message : null,
        });
      } catch (error) {
        results.push(failure(input.name, error));
      }
    }
  } catch (error) {
    results.push(failure(path, error));
  }
  return results;
}

function failure(name: string, error: unknown): FileVerdict {
  const line = errorLine(error, name);
  const exit = exitCodeOf(error);
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'internal';
  const message = error instanceof Error ? error.message : String(error);
  return {
    name,
    json: { schema: jsonSchema, file: name, error: { code, message, exit } },
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

/** Files that one thread has judged before others are there to help. */
const FEW = 8;

/** Results for each worker that may wait to be printed. */
const AHEAD = 16;

/** Results in the order of the paths; fewer than there are paths where the time was over before. */
async function* verifyAll(paths: readonly string[], args: VerifyArguments): AsyncGenerator<FileVerdict[]> {
  const deadline = commandDeadline();
  // A worker needs 50 ms to start: without --jobs, few files do without.
  const few = args.jobs === 0 && paths.length < FEW;
  const jobs = few ? 1 : Math.min(args.jobs === 0 ? availableParallelism() : args.jobs, paths.length);
  if (jobs <= 1) {
    for (const path of paths) {
      if (deadline.expired()) return;
      yield await verifyPath(path, args);
    }
    return;
  }
  // Results come in the order of the paths whatever worker made them.
  const waiting = new Map<number, FileVerdict[]>();
  let wake: () => void = () => undefined;
  let next = 0;
  let printed = 0;
  const idle: (() => void)[] = [];
  // Not for one file: loading it takes 2 ms.
  const { Worker } = process.getBuiltinModule('node:worker_threads');
  const workers = Array.from({ length: jobs }, () => {
    const worker = new Worker(new URL('./worker.js', import.meta.url), {
      workerData: { args: { ...args, files: [] }, limits: limitsLeft() },
    });
    const give = (): void => {
      // Results wait for those before them: a large file does not make the others pile up.
      if (next < paths.length && next - printed >= AHEAD * jobs) idle.push(give);
      else if (next < paths.length) {
        worker.postMessage({ index: next, path: paths[next] });
        next++;
      } else void worker.terminate();
    };
    worker.on('message', (message: { index: number; results: FileVerdict[] }) => {
      waiting.set(message.index, message.results);
      wake();
      give();
    });
    worker.on('error', (error) => {
      throw error;
    });
    give();
    return worker;
  });
  // A worker in the middle of a file is not waited for.
  const longest = Math.min(deadline.remaining(), 2 ** 31 - 1);
  const alarm = setTimeout(() => {
    wake();
  }, longest);
  try {
    for (let i = 0; i < paths.length; i++) {
      while (!waiting.has(i) && !deadline.expired()) await new Promise<void>((resolve) => (wake = resolve));
      const results = waiting.get(i);
      if (results === undefined) return;
      yield results;
      waiting.delete(i);
      printed = i + 1;
      for (const give of idle.splice(0)) give();
    }
  } finally {
    clearTimeout(alarm);
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

/**
 * Verifies all files. Nothing to verify is no success: where no file has a site, or one that was
 * named has none and must have good ones (`--require`), a check has failed. In a directory files
 * without sites are usual.
 */
export async function runVerify(args: VerifyArguments): Promise<number> {
  const unread: FileVerdict[] = [];
  const paths = expandPaths(args.files, (path, error) => unread.push(failure(path, error)));
  const named = new Set(args.files);
  const codes: number[] = [];
  const totals: Partial<Record<Verdict, number>> = {};
  let files = 0;
  let sites = 0;
  let failedFiles = 0;
  let done = 0;
  const several = paths.length + unread.length > 1;
  const empty: { readonly name: string; readonly why: string }[] = [];
  const take = (results: readonly FileVerdict[], gated: boolean): void => {
    for (const result of results) {
      files++;
      sites += result.sites;
      codes.push(result.exit);
      if (result.noSites !== null) {
        if (gated && results.length === 1) {
          codes.push(exitCodes.failed);
          err(`${result.name}: error: ${result.noSites}`);
        } else empty.push({ name: result.name, why: result.noSites });
      }
      if (result.exit !== exitCodes.ok || (result.noSites !== null && gated && results.length === 1)) failedFiles++;
      for (const [verdict, count] of Object.entries(result.verdicts)) {
        const key = verdict as Verdict;
        totals[key] = (totals[key] ?? 0) + count;
      }
      if (args.json) out(JSON.stringify(result.json));
      else {
        for (const line of result.text) {
          out(result.exit === exitCodes.ok ? line : line.replace(/^(\S+): /, (name) => paint('red', name)));
        }
      }
      if (result.error !== null) err(result.error);
    }
  };
  take(unread, false);
  for await (const results of verifyAll(paths, args)) {
    done++;
    progress(`verify: ${done}/${paths.length}`);
    take(results, args.require !== undefined && results.length > 0 && named.has(paths[done - 1]!));
  }
  const [next] = paths.slice(done);
  if (next !== undefined) {
    const late = commandDeadline().error(`verify: ${done} of ${paths.length} files were looked at; it`, { file: next });
    take([failure(next, late)], false);
  }
  if (empty.length === files && worst(codes) === exitCodes.ok) {
    codes.push(exitCodes.failed);
    const [first] = empty;
    err(
      several || first === undefined
        ? `elftrace: error: no patch site in any of ${files} files`
        : `${first.name}: error: ${first.why}`,
    );
  }
  if (several || files > 1) {
    if (args.json) {
      out(
        JSON.stringify({
          summary: { schema: jsonSchema, files, failed: failedFiles, sites, verdicts: { ok: 0, ...totals } },
        }),
      );
    } else {
      const parts = Object.entries(totals)
        .sort(([a], [b]) => severityRank(b) - severityRank(a))
        .map(([verdict, count]) => `${count} ${verdict}`);
      out(`${files} files, ${failedFiles} failed, ${sites} sites: ${parts.join(', ')}`);
    }
  }
  return worst(codes);
}

function severityRank(verdict: string): number {
  const severity = verdictSeverity[verdict as Verdict];
  return ['none', 'note', 'warning', 'error'].indexOf(severity);
}
