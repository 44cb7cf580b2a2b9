/**
 * One JSON value a line, each with its `kind`: a file, behind it each of its findings, and one
 * summary at the end. `schemas/verify-ndjson.schema.json` is of such a line.
 */
import { type Json, jsonSchema } from '../json.js';
import type { FileReport, ReportContext, ReportWriter, RunReport } from './model.js';

type Members = Readonly<Record<string, Json>>;

/** A report of the format; see the head of this file. */
export class NdjsonWriter implements ReportWriter {
  constructor(private readonly context: ReportContext) {}

  begin(): void {
    // The first line is a file.
  }

  path(_name: string, _files: readonly FileReport[], json: readonly Json[]): void {
    for (const each of json) {
      const { findings, ...rest } = each as Members;
      const list = (findings ?? []) as readonly Members[];
      this.#line({ kind: 'file', ...rest, ...(findings === undefined ? {} : { findings: list.length }) });
      for (const finding of list) this.#line({ kind: 'finding', file: rest['file']!, ...finding });
    }
  }

  #line(value: Members): void {
    this.context.print(JSON.stringify(value));
  }

  end({ files, failed, sites, verdicts, exit }: RunReport): void {
    this.#line({ kind: 'summary', schema: jsonSchema, files, failed, sites, verdicts: { ok: 0, ...verdicts }, exit });
  }
}
