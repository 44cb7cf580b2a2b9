/**
 * Annotations of GitHub Actions: workflow commands, one for each rule and file, and one line for
 * the whole. Text in them is escaped as the runner decodes it, so that no name is a command.
 */
import { visibleLine } from '../../visible.js';
import { groupText, type FileReport, type ReportContext, type ReportWriter, type RunReport } from './model.js';

const data = (text: string): string => visibleLine(text).replaceAll('%', '%25').replaceAll('\r', '%0D');
const property = (text: string): string => data(text).replaceAll(':', '%3A').replaceAll(',', '%2C');

/** A report of the format; see the head of this file. */
export class GithubWriter implements ReportWriter {
  constructor(private readonly context: ReportContext) {}

  begin(): void {
    // Commands need no beginning.
  }

  #say(level: 'error' | 'warning', path: string, title: string, text: string): void {
    const { path: place } = this.context.location(path);
    this.context.print(`::${level} file=${property(place)},title=${property(title)}::${data(text)}`);
  }

  path(_name: string, files: readonly FileReport[]): void {
    for (const file of files) {
      if (file.error !== null) {
        this.#say('error', file.path, file.error.code, `${file.name}: ${file.error.message}`);
      }
      for (const group of file.groups) {
        if (group.severity === 'note') continue;
        const clauses = group.clauses.length === 0 ? '' : ` [${group.clauses.join(', ')}]`;
        this.#say(group.severity, file.path, group.rule, `${file.name}: ${groupText(group)}${clauses}`);
      }
    }
  }

  end({ files, failed, sites, nothing }: RunReport): void {
    if (nothing !== null) this.context.print(`::error title=no-sites::${data(nothing)}`);
    this.context.print(`${files} files, ${failed} failed, ${sites} sites`);
  }
}
