/**
 * Reads what `verify` is asked to judge otherwise: rules that are skipped, severities of a file,
 * findings of an earlier run.
 */
import { readFileSync } from 'node:fs';
import { ElftraceError } from '../errors.js';
import { verdictPages } from '../report/verdict-pages.js';
import { type Configured, findingKey, placeOf, type VerifyPolicy } from '../sites/policy.js';
import { didYouMean } from './nearest.js';
import { ioError } from '../output/target.js';

export interface PolicyOptions {
  readonly skip?: readonly string[] | undefined;
  readonly severity?: string | undefined;
  readonly baseline?: string | undefined;
}

const knownRules = new Set([
  ...Object.keys(verdictPages).filter((name) => name !== 'ok'),
  ...Object.values(verdictPages).flatMap(({ rules }) => rules),
]);

function checkRule(name: string, where: string): string {
  if (knownRules.has(name)) return name;
  const hint = didYouMean(name, [...knownRules]);
  throw new ElftraceError('usage', `${where}: no rule about sites is named '${name}'${hint}`, { value: name });
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw ioError(path, 'read', cause);
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parsed(text: string, place: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ElftraceError('usage', `${place}: no JSON: ${why}`, {}, { cause });
  }
  if (!isObject(value)) throw new ElftraceError('usage', `${place}: a JSON object must stand there`);
  return value;
}

const isConfigured = (value: unknown): value is Configured =>
  value === 'error' || value === 'warning' || value === 'note' || value === 'off';

/** `schemas/severity.schema.json`. */
function readSeverities(path: string): [string, Configured][] {
  const { schema, severity, $schema: _, ...others } = parsed(textOf(path), path);
  const [other] = Object.keys(others);
  if (other !== undefined)
    throw new ElftraceError('usage', `${path}: '${other}' is not known, only schema and severity are`, { file: path });
  if (schema !== 1) throw new ElftraceError('usage', `${path}: "schema" must be 1`, { file: path });
  if (!isObject(severity)) throw new ElftraceError('usage', `${path}: "severity" must be an object`, { file: path });
  return Object.entries(severity).map(([name, value]) => {
    checkRule(name, path);
    if (isConfigured(value)) return [name, value];
    const given = JSON.stringify(value);
    throw new ElftraceError('usage', `${path}: ${name}: ${given} is none of error, warning, note, off`, { file: path });
  });
}

/** Findings of an earlier `verify --json` or `--format ndjson`. */
function readBaseline(path: string): Map<string, number> {
  const counts = new Map<string, number>();
  const add = (file: unknown, finding: unknown, place: string): void => {
    const { verdict, function: name, section, offset } = isObject(finding) ? finding : {};
    const fields = [file, verdict, name, section, offset];
    if (!fields.every((each) => typeof each === 'string')) {
      throw new ElftraceError('usage', `${place}: no finding of verify`, { file: path });
    }
    const key = findingKey(String(file), String(verdict), placeOf(String(name), String(section), String(offset)));
    counts.set(key, (counts.get(key) ?? 0) + 1);
  };
  let files = 0;
  textOf(path)
    .split('\n')
    .forEach((line, index) => {
      if (line.trim() === '') return;
      const place = `${path}:${index + 1}`;
      const { file, findings, kind, error, summary, ...rest } = parsed(line, place);
      if (kind === 'finding') add(file, rest, place);
      else if (Array.isArray(findings)) for (const finding of findings) add(file, finding, place);
      else if (kind === undefined && error === undefined && summary === undefined) {
        throw new ElftraceError('usage', `${place}: no line of verify --json or --format ndjson`, { file: path });
      }
      files++;
    });
  if (files === 0) throw new ElftraceError('usage', `${path}: the baseline is empty`, { file: path });
  return counts;
}

/** @throws ElftraceError 'usage', 'io' */
export function readPolicy({ skip = [], severity, baseline }: PolicyOptions): VerifyPolicy {
  const configured = severity === undefined ? [] : readSeverities(severity);
  const skipped = skip.map((name) => [checkRule(name, '--skip'), 'off'] as const);
  return {
    severity: new Map<string, Configured>([...configured, ...skipped]),
    baseline: baseline === undefined ? null : readBaseline(baseline),
  };
}
