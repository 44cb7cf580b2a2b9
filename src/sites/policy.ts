/**
 * A verification judged otherwise: rules that are switched off, severities that were configured,
 * findings that an earlier run knew. What was left out is said, never silently dropped.
 */
import type { Finding, Severity, Verification } from './verdicts.js';

export type Configured = Exclude<Severity, 'none'> | 'off';

/** Plain data: workers get a copy. */
export interface VerifyPolicy {
  /** By verdict or rule of the specification; the verdict counts where both are named. */
  readonly severity: ReadonlyMap<string, Configured>;
  /** How often a finding was there before, by `findingKey`; null without a baseline. */
  readonly baseline: ReadonlyMap<string, number> | null;
}

/** Everything as verdicts weigh. */
export const plainPolicy: VerifyPolicy = { severity: new Map(), baseline: null };

/** What stays the same of a finding while addresses change. */
export function findingKey(file: string, verdict: string, place: string): string {
  return `${file.replace(/^(?:\.\/)+/, '')}\0${verdict}\0${place}`;
}

export const placeOf = (name: string, section: string, offset: string): string =>
  name === '' ? `${section}+${offset}` : name;

/** The same verification under a policy: verdicts are counted as they are, findings judged anew. */
export function underPolicy(file: string, result: Verification, policy: VerifyPolicy): Verification {
  const { severity, baseline } = policy;
  if (severity.size === 0 && baseline === null) return result;
  const left = new Map<string, number>();
  let skipped = 0;
  let known = 0;
  const findings = result.findings.flatMap((finding): Finding[] => {
    const wanted = severity.get(finding.verdict) ?? severity.get(finding.rule) ?? finding.severity;
    if (wanted === 'off') {
      skipped++;
      return [];
    }
    const place = placeOf(finding.function, finding.section, `0x${finding.offset.toString(16)}`);
    const key = findingKey(file, finding.verdict, place);
    const before = left.get(key) ?? baseline?.get(key) ?? 0;
    if (before > 0) {
      left.set(key, before - 1);
      if (wanted !== 'note') known++;
      return [{ ...finding, severity: 'note' }];
    }
    return [{ ...finding, severity: wanted }];
  });
  const remarks = [...result.remarks];
  const count = (number: number): string => `${number} ${number === 1 ? 'finding' : 'findings'}`;
  if (skipped > 0) remarks.push(`${count(skipped)} left out, as their rules are switched off`);
  if (known > 0) remarks.push(`${count(known)} known from the baseline`);
  return { ...result, findings, remarks };
}
