/**
 * Files by which `verify` judges otherwise: severities (`schemas/severity.schema.json`), and the
 * findings of an earlier run.
 */
import { ElftraceError } from '../errors.js';
import { type Configured, findingKey, placeOf } from './policy.js';

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

/**
 * Severities of a file, by verdict or rule.
 * @param path       what errors name
 * @param checkRule  throws for a name that is neither
 * @throws ElftraceError 'usage'
 */
export function parseSeverities(
  text: string,
  path: string,
  checkRule: (name: string, where: string) => void,
): [string, Configured][] {
  const { schema, severity, $schema: _, ...others } = parsed(text, path);
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

/**
 * Findings of an earlier `verify --json` or `--format ndjson`: how often each was there.
 * @param path  what errors name
 * @throws ElftraceError 'usage'
 */
export function parseBaseline(text: string, path: string): Map<string, number> {
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
  text.split('\n').forEach((line, index) => {
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
