/** What `verify` prints: text and JSON here, what machines read in `verify-reports.ts`. */
import type { ReportFormat } from '../report/formats/index.js';
import type { FileReport, RunReport } from '../report/formats/model.js';
import { jsonSchema, type Json } from '../report/json.js';
import { type Verdict, verdictSeverity } from '../sites/verdicts.js';
import { exitCodes } from './exit.js';
import { out, paint } from './terminal.js';

export type VerifyFormat = 'text' | 'json' | ReportFormat;

/** Result for one file, ready to print: what a worker sends. */
export interface FileVerdict {
  readonly name: string;
  /** Null where the format has no use for it. */
  readonly json: Json;
  /** The same. */
  readonly report: FileReport | null;
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

interface Run extends RunReport {
  /** Whether a summary of all files is due. */
  readonly several: boolean;
}

export interface VerifyOutput {
  /** False where errors are part of what is printed, and standard error is read as that, too. */
  readonly saysErrors: boolean;
  /** @param paths  how many will be looked at */
  begin(paths: number): void;
  /** The files of a path: several of an archive. */
  path(name: string, results: readonly FileVerdict[]): void;
  end(run: Run): void;
}

const nothing = (): void => undefined;

const textOutput: VerifyOutput = {
  saysErrors: true,
  begin: nothing,
  path(_name, results) {
    for (const { text, exit } of results) {
      for (const line of text) {
        out(exit === exitCodes.ok ? line : line.replace(/^(\S+): /, (name) => paint('red', name)));
      }
    }
  },
  end({ several, files, failed, sites, verdicts }) {
    if (!several) return;
    const parts = Object.entries(verdicts)
      .sort(([a], [b]) => severityRank(b) - severityRank(a))
      .map(([verdict, count]) => `${count} ${verdict}`);
    out(`${files} files, ${failed} failed, ${sites} sites${parts.length > 0 ? `: ${parts.join(', ')}` : ''}`);
  },
};

function severityRank(verdict: string): number {
  const severity = verdictSeverity[verdict as Verdict];
  return ['none', 'note', 'warning', 'error'].indexOf(severity);
}

const jsonOutput: VerifyOutput = {
  saysErrors: true,
  begin: nothing,
  path(_name, results) {
    for (const { json } of results) out(JSON.stringify(json));
  },
  end({ several, files, failed, sites, verdicts }) {
    if (!several) return;
    const summary = { schema: jsonSchema, files, failed, sites, verdicts: { ok: 0, ...verdicts } };
    out(JSON.stringify({ summary }));
  },
};

/** What is printed, and in which order, for text and JSON. */
export const plainOutputs: Readonly<Record<'text' | 'json', VerifyOutput>> = { text: textOutput, json: jsonOutput };
