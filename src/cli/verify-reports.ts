/** What `verify` prints for machines, by `report/formats`; loaded for a format of theirs. */
import { relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { reportWriter, type ReportFormat } from '../report/formats/index.js';
import type { ReportContext } from '../report/formats/model.js';
import { rulePages } from '../report/rule-pages.js';
import { verdictSeverity } from '../sites/verdicts.js';
import { version } from '../version.js';
import { hash } from './hash.js';
import { out } from './terminal.js';
import type { VerifyOutput } from './verify-output.js';

/**
 * A path below the working directory is told from there: reports of another checkout agree with
 * this one.
 */
function location(path: string): { uri: string; path: string } {
  const below = relative(process.cwd(), resolve(path));
  if (below === '' || below === '..' || below.startsWith(`..${sep}`)) {
    return { uri: pathToFileURL(resolve(path)).href, path: resolve(path) };
  }
  const plain = below.split(sep).join('/');
  // Of a relative reference, a colon in the first part would end a scheme.
  const uri = plain.split('/').map((part) => encodeURIComponent(Buffer.from(part).toString()));
  return { uri: uri.join('/'), path: plain };
}

/** What is printed, and in which order, for a format that machines read. */
export function reportOutput(format: ReportFormat): VerifyOutput {
  const context: ReportContext = {
    version,
    pages: rulePages(verdictSeverity),
    location,
    hash: (text) => hash(Buffer.from(text)),
    print: out,
  };
  const writer = reportWriter(format, context);
  return {
    saysErrors: format !== 'github',
    begin: (paths) => {
      writer.begin(paths);
    },
    path: (name, results) => {
      writer.path(
        name,
        results.flatMap(({ report }) => (report === null ? [] : [report])),
        results.map(({ json }) => json),
      );
    },
    end: (run) => {
      writer.end(run);
    },
  };
}
