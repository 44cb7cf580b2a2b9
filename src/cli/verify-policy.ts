/**
 * Arguments by which `verify` judges otherwise: rules that are skipped, a file of severities, the
 * findings of an earlier run (`sites/policy-file.ts`).
 */
import { readFileSync } from 'node:fs';
import { ElftraceError } from '../errors.js';
import { verdictPages } from '../report/verdict-pages.js';
import type { Configured, VerifyPolicy } from '../sites/policy.js';
import { parseBaseline, parseSeverities } from '../sites/policy-file.js';
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

/** @throws ElftraceError 'usage', 'io' */
export function readPolicy({ skip = [], severity, baseline }: PolicyOptions): VerifyPolicy {
  const configured = severity === undefined ? [] : parseSeverities(textOf(severity), severity, checkRule);
  const skipped = skip.map((name) => [checkRule(name, '--skip'), 'off'] as const);
  return {
    severity: new Map<string, Configured>([...configured, ...skipped]),
    baseline: baseline === undefined ? null : parseBaseline(textOf(baseline), baseline),
  };
}
