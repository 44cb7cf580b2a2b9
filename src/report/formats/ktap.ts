/**
 * KTAP version 1 (Documentation/dev-tools/ktap.rst): a test for each path, with one for each rule
 * below it; for an archive one for each member between the two.
 */
import { visibleLine } from '../../visible.js';
import { casesOf, failingRules } from './junit.js';
import type { FileReport, ReportContext, ReportWriter, RunReport } from './model.js';

/** `#` begins what is no name. */
const named = (text: string): string => visibleLine(text).replaceAll('#', '\\x23').trim();

const INDENT = '    ';

/** A report of the format; see the head of this file. */
export class KtapWriter implements ReportWriter {
  readonly #rules: readonly string[];
  #paths = 0;
  #done = 0;

  constructor(private readonly context: ReportContext) {
    this.#rules = failingRules(context);
  }

  begin(paths: number): void {
    this.#paths = paths;
    this.context.print('KTAP version 1');
    // One is about the run as a whole.
    this.context.print(`1..${paths + 1}`);
  }

  path(name: string, files: readonly FileReport[]): void {
    this.#done++;
    const { print } = this.context;
    const [only] = files;
    if (only !== undefined && files.length === 1) {
      this.#file(only, '', this.#done);
      return;
    }
    if (only === undefined) {
      print(`ok ${this.#done} ${named(name)} # SKIP no ELF file in it`);
      return;
    }
    print(`${INDENT}KTAP version 1`);
    print(`${INDENT}# Subtest: ${named(name)}`);
    print(`${INDENT}1..${files.length}`);
    const good = files.map((file, index) => this.#file(file, INDENT, index + 1));
    print(`${good.every(Boolean) ? 'ok' : 'not ok'} ${this.#done} ${named(name)}`);
  }

  /** True unless it fails. */
  #file(file: FileReport, indent: string, number: number): boolean {
    const { print } = this.context;
    const cases = casesOf(file, this.#rules);
    const name = named(file.name);
    const [only] = cases;
    if (only?.outcome === 'skipped') {
      print(`${indent}ok ${number} ${name} # SKIP ${named(only.lines[0] ?? '')}`);
      return true;
    }
    const inner = indent + INDENT;
    print(`${inner}KTAP version 1`);
    print(`${inner}# Subtest: ${name}`);
    print(`${inner}1..${cases.length}`);
    cases.forEach(({ name: rule, outcome, lines }, index) => {
      for (const line of lines) print(`${inner}# ${rule}: ${named(line)}`);
      print(`${inner}${outcome === 'passed' ? 'ok' : 'not ok'} ${index + 1} ${named(rule)}`);
    });
    const good = cases.every(({ outcome }) => outcome === 'passed');
    print(`${indent}${good ? 'ok' : 'not ok'} ${number} ${name}`);
    return good;
  }

  end(run: RunReport): void {
    const { print } = this.context;
    // What was not looked at is not good.
    while (this.#done < this.#paths) print(`not ok ${++this.#done} file ${this.#done} was not looked at`);
    if (run.nothing !== null) print(`# ${named(run.nothing)}`);
    print(`${run.nothing === null ? 'ok' : 'not ok'} ${this.#done + 1} some file has patch sites`);
  }
}
