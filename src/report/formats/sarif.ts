/**
 * SARIF 2.1.0 (OASIS Standard, errata 01): one result for each rule and file, so that a kernel with
 * one broken option is one line a module and not one a site. Results are written as they come.
 * Notes are none of them: they ask for nothing.
 */
import { visibleJson } from '../../visible.js';
import type { RulePage } from '../rule-pages.js';
import type { FileReport, ReportContext, ReportWriter, ReportedSite, RuleGroup, RunReport } from './model.js';
import { groupText } from './model.js';

const SCHEMA = 'https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json';

/** Results that services show: more are told by one result for each rule. */
const MOST_RESULTS = 4900;
/** Files that could not be read which are named. */
const MOST_NOTIFICATIONS = 1000;

/** Page of a rule, as the package is published. */
function helpUri(version: string, rule: string): string {
  return `https://unpkg.com/elftrace@${version}/docs/verdicts.md#${rule}`;
}

function driver({ version, pages }: ReportContext): object {
  return {
    name: 'elftrace',
    semanticVersion: version,
    informationUri: 'https://www.npmjs.com/package/elftrace',
    rules: pages.map(({ name, severity, meaning, causes, advice, rules }: RulePage) => ({
      id: name,
      shortDescription: { text: meaning },
      fullDescription: { text: [meaning, ...causes].join(' ') },
      help: { text: advice.join(' ') },
      helpUri: helpUri(version, name),
      defaultConfiguration: { level: severity },
      properties: { specification: rules },
    })),
  };
}

/** The name of a function without the offset in it. */
const functionOf = (text: string): string => text.replace(/\+0x[0-9a-f]+$/, '');

function siteLocation(uri: string, site: ReportedSite): object {
  const { section, offset, address, function: name, message } = site;
  // JSON numbers of readers are doubles: an address that none of them holds is a name only.
  const isExact = address >= 0n && address <= BigInt(Number.MAX_SAFE_INTEGER);
  return {
    physicalLocation: {
      artifactLocation: { uri },
      address: {
        ...(isExact ? { absoluteAddress: Number(address) } : {}),
        fullyQualifiedName: `${section}+0x${offset.toString(16)}`,
        name: `0x${address.toString(16)}`,
        kind: 'instruction',
      },
    },
    ...(name === ''
      ? {}
      : { logicalLocations: [{ name: functionOf(name), fullyQualifiedName: functionOf(name), kind: 'function' }] }),
    message: { text: message },
  };
}

function result(file: FileReport, group: RuleGroup, ruleIndex: number, context: ReportContext): object {
  const { uri, path } = context.location(file.path);
  const member = file.name.startsWith(file.path) ? file.name.slice(file.path.length) : '';
  const whole = { physicalLocation: { artifactLocation: { uri } } };
  return {
    ruleId: group.rule,
    ruleIndex,
    level: group.severity,
    message: { text: `${file.name}: ${groupText(group)}` },
    locations: group.sites.length === 0 ? [whole] : group.sites.map((site) => siteLocation(uri, site)),
    // Neither addresses nor counts: they change with every build.
    partialFingerprints: { 'ruleAndFile/v1': context.hash(`${group.rule}\0${path}${member}`) },
    occurrenceCount: group.count,
    properties: { file: file.name, specification: group.clauses },
  };
}

/** A report of the format; see the head of this file. */
export class SarifWriter implements ReportWriter {
  #results = 0;
  readonly #folded = new Map<RuleGroup['rule'], { files: number; sites: number; severity: RuleGroup['severity'] }>();
  readonly #notifications: object[] = [];
  #unread = 0;
  readonly #index: ReadonlyMap<string, number>;

  constructor(private readonly context: ReportContext) {
    this.#index = new Map(context.pages.map(({ name }, index) => [name, index]));
  }

  #line(text: string): void {
    this.context.print(visibleJson(text));
  }

  begin(): void {
    const head = JSON.stringify({ $schema: SCHEMA, version: '2.1.0' }).slice(0, -1);
    this.#line(`${head},"runs":[{"tool":${JSON.stringify({ driver: driver(this.context) })},"results":[`);
  }

  #result(value: object): void {
    this.#line(`${this.#results === 0 ? '' : ','}${JSON.stringify(value)}`);
    this.#results++;
  }

  path(_name: string, files: readonly FileReport[]): void {
    for (const file of files) {
      if (file.error !== null) this.#notify(file.error.message, file);
      for (const group of file.groups) {
        if (group.severity === 'note') continue;
        if (this.#results < MOST_RESULTS) {
          this.#result(result(file, group, this.#index.get(group.rule)!, this.context));
        } else this.#fold(group);
      }
    }
  }

  #fold(group: RuleGroup): void {
    const known = this.#folded.get(group.rule);
    const { files, sites, severity } = known ?? { files: 0, sites: 0, severity: group.severity };
    this.#folded.set(group.rule, {
      files: files + 1,
      sites: sites + group.count,
      severity: group.severity === 'error' ? 'error' : severity,
    });
  }

  #notify(text: string, file: FileReport | null): void {
    this.#unread++;
    if (this.#notifications.length >= MOST_NOTIFICATIONS) return;
    const place =
      file === null
        ? {}
        : {
            locations: [{ physicalLocation: { artifactLocation: { uri: this.context.location(file.path).uri } } }],
          };
    this.#notifications.push({ level: 'error', message: { text }, ...place });
  }

  end(run: RunReport): void {
    for (const [rule, { files, sites, severity }] of this.#folded) {
      this.#result({
        ruleId: rule,
        ruleIndex: this.#index.get(rule)!,
        level: severity,
        message: {
          text: `${files} more files, ${sites} sites: only ${MOST_RESULTS} results are told one by one (--format ndjson tells all)`,
        },
        partialFingerprints: { 'ruleAndFile/v1': this.context.hash(rule) },
        occurrenceCount: sites,
      });
    }
    if (run.nothing !== null) this.#notify(run.nothing, null);
    const more = this.#unread - this.#notifications.length;
    if (more > 0) this.#notifications.push({ level: 'error', message: { text: `${more} more files were not judged` } });
    const invocation = {
      executionSuccessful: run.exit === 0 || run.exit === 1,
      exitCode: run.exit,
      toolExecutionNotifications: this.#notifications,
    };
    const { files, failed, sites, verdicts } = run;
    const properties = { files, failed, sites, verdicts };
    this.#line(
      `],"columnKind":"utf16CodeUnits","invocations":[${JSON.stringify(invocation)}],"properties":${JSON.stringify(properties)}}]}`,
    );
  }
}
