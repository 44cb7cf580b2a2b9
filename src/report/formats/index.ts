/** Formats of `verify` for machines: a writer for each. */
import { GithubWriter } from './github.js';
import { JunitWriter } from './junit.js';
import { KtapWriter } from './ktap.js';
import type { ReportContext, ReportWriter } from './model.js';
import { NdjsonWriter } from './ndjson.js';
import { SarifWriter } from './sarif.js';

const writers = {
  ndjson: NdjsonWriter,
  sarif: SarifWriter,
  junit: JunitWriter,
  ktap: KtapWriter,
  github: GithubWriter,
} as const;

export type ReportFormat = keyof typeof writers;

export function reportWriter(format: ReportFormat, context: ReportContext): ReportWriter {
  return new writers[format](context);
}
