/**
 * A proof written down (PV-6): an in-toto Statement whose subjects are the two files and whose
 * predicate says what was tried and what came of it. It follows from the files and the options
 * alone, so that a reader can repeat it and compare byte for byte. It is not signed: that is left
 * to tools which are made for it.
 */
import { ElftraceError } from '../errors.js';
import type { FileRecord } from '../record/journal.js';
import type { Address } from '../units.js';
import { version } from '../version.js';
import type { ProofSummary, SiteProof } from './verdict.js';

const STATEMENT_TYPE = 'https://in-toto.io/Statement/v1';
/** The package that has the schema of the predicate, and what it is in there. */
const PREDICATE_TYPE = 'pkg:npm/elftrace#proof/v1';
/** How an envelope with signatures names what is in it (DSSE). */
const ENVELOPED = 'application/vnd.in-toto+json';

/** What decides the states of the trials, and which sites are tried. */
export interface CertificateMethod {
  readonly seed: number;
  /** Of each site, at least. */
  readonly trials: number;
  readonly sample: number | null;
  /** Further names of the profiling entry, and of tables of sites. */
  readonly mcount: readonly string[];
  readonly tables: readonly string[];
  /** Names came from a file of their own. */
  readonly symbols: 'own' | 'given';
}

/** SHA-256 of the ELF files, lower-case hex. */
export interface CertificateSubjects {
  readonly original: string;
  readonly patched: string;
}

/** Sites with one shape and one verdict. */
export interface CertificateSites {
  readonly shape: string;
  readonly section: string;
  readonly verdict: SiteProof['verdict'];
  /** As in `SiteProof`; null: there is none. */
  readonly reason: string | null;
  readonly count: number;
  readonly trials: number;
  /** `addressText` */
  readonly addresses: string;
}

export interface CertificatePredicate {
  readonly tool: { readonly name: 'elftrace'; readonly version: string };
  readonly target: string;
  /** What the record of the patched file says was asked for; null: it has none. */
  readonly request: {
    readonly requests: readonly string[];
    readonly sessions: readonly string[];
    readonly forms: Readonly<Record<string, string>>;
  } | null;
  readonly method: CertificateMethod;
  /** `proved` only where `elftrace prove` would end with 0. */
  readonly result: SiteProof['verdict'];
  readonly counts: Readonly<Record<(typeof COUNTS)[number] | 'trials', number>>;
  readonly reasons: Readonly<Record<string, number>>;
  readonly unexplained: readonly { readonly section: string; readonly address: string; readonly size: number }[];
  readonly sites: readonly CertificateSites[];
}

export interface Certificate {
  readonly _type: typeof STATEMENT_TYPE;
  readonly subject: readonly { readonly name: string; readonly digest: { readonly sha256: string } }[];
  readonly predicateType: typeof PREDICATE_TYPE;
  readonly predicate: CertificatePredicate;
}

const COUNTS = ['sites', 'proved', 'unchanged', 'different', 'inconclusive', 'skipped'] as const;
/** Trials of a site that a certificate may ask for: it may come from anywhere. */
export const TRIALS_MAX = 10_000;

const hex = (value: bigint): string => `0x${value.toString(16)}`;

/**
 * Addresses in ascending order as text: the first one, then the distance to each next one, in
 * hexadecimal; `*N` behind a distance that comes N times.
 */
function addressText(addresses: readonly Address[]): string {
  const parts: { readonly distance: string; count: number }[] = [];
  for (let i = 1; i < addresses.length; i++) {
    const distance = `+${(addresses[i]! - addresses[i - 1]!).toString(16)}`;
    const last = parts.at(-1);
    if (last?.distance === distance) last.count++;
    else parts.push({ distance, count: 1 });
  }
  const rest = parts.map(({ distance, count }) => (count === 1 ? distance : `${distance}*${count}`));
  return [...addresses.slice(0, 1).map(hex), ...rest].join(' ');
}

/** What `prove` says as a whole (PV-4). Sites that did not change are proved by their bytes. */
export function resultOf(summary: ProofSummary): SiteProof['verdict'] {
  if (summary.different > 0) return 'different';
  const open = summary.inconclusive + summary.skipped + summary.unexplained.length;
  return open > 0 || summary.proved + summary.unchanged === 0 ? 'inconclusive' : 'proved';
}

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
const sorted = <T>(record: Readonly<Record<string, T>>): Record<string, T> =>
  Object.fromEntries(Object.entries(record).sort(([a], [b]) => byText(a, b)));

/** Takes the verdicts of a proof, one after the other; at the end it is the certificate. */
export class CertificateWriter {
  private readonly groups = new Map<
    string,
    { readonly of: SiteProof; readonly addresses: Address[]; trials: number }
  >();

  /** @param record  that of the patched file */
  constructor(
    private readonly subjects: CertificateSubjects,
    private readonly method: CertificateMethod,
    private readonly record: FileRecord | null,
  ) {}

  add(site: SiteProof): void {
    const key = JSON.stringify([site.shape, site.section, site.verdict, site.reason ?? '']);
    let group = this.groups.get(key);
    if (group === undefined) this.groups.set(key, (group = { of: site, addresses: [], trials: 0 }));
    group.addresses.push(site.address);
    group.trials += site.trials;
  }

  private sites(): CertificateSites[] {
    const groups = [...this.groups].sort(([a], [b]) => byText(a, b));
    return groups.map(([, { of, addresses, trials }]) => ({
      shape: of.shape,
      section: of.section,
      verdict: of.verdict,
      reason: of.reason ?? null,
      count: addresses.length,
      trials,
      addresses: addressText(addresses.sort((a, b) => (a < b ? -1 : 1))),
    }));
  }

  /** @param summary  what the proof ended with */
  certificate(summary: ProofSummary): Certificate {
    const { subjects, record, method } = this;
    const sites = this.sites();
    const counts = Object.fromEntries(COUNTS.map((name) => [name, summary[name]]));
    return {
      _type: STATEMENT_TYPE,
      subject: (['original', 'patched'] as const).map((name) => ({ name, digest: { sha256: subjects[name] } })),
      predicateType: PREDICATE_TYPE,
      predicate: {
        tool: { name: 'elftrace', version },
        target: summary.target,
        request:
          record === null
            ? null
            : { requests: [...record.requests], sessions: [...record.session], forms: sorted(record.forms) },
        method,
        result: resultOf(summary),
        counts: {
          ...(counts as Record<(typeof COUNTS)[number], number>),
          trials: sites.reduce((sum, { trials }) => sum + trials, 0),
        },
        reasons: sorted(summary.reasons),
        unexplained: summary.unexplained.map(({ section, address, size }) => ({
          section,
          address: hex(address),
          size,
        })),
        sites,
      },
    };
  }
}

/** A certificate as its file has it. */
export function certificateText(certificate: Certificate): string {
  return `${JSON.stringify(certificate, null, 2)}\n`;
}

type Fields = Readonly<Record<string, unknown>>;

function bad(what: string, why: string): ElftraceError {
  return new ElftraceError('bad-record', `the certificate: ${what} ${why}`, { what });
}

function objectAt(value: unknown, what: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw bad(what, 'is no object');
  return value as Fields;
}

function listAt(value: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(value)) throw bad(what, 'is no list');
  return value as readonly unknown[];
}

function textsAt(value: unknown, what: string): readonly string[] {
  return listAt(value, what).map((each, i) => {
    if (typeof each !== 'string') throw bad(`${what}[${i}]`, 'is no text');
    return each;
  });
}

function numberAt(value: unknown, what: string, least: number, most: number): number {
  if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return value as number;
  throw bad(what, `is not a whole number from ${least} to ${most}`);
}

function exactAt(value: unknown, what: string, ...wanted: readonly string[]): string {
  if (typeof value === 'string' && wanted.includes(value)) return value;
  throw bad(what, `is not ${wanted.join(' or ')}`);
}

function methodOf(value: unknown): CertificateMethod {
  const method = objectAt(value, 'predicate.method');
  const at = (name: string): string => `predicate.method.${name}`;
  const { sample } = method;
  return {
    seed: numberAt(method['seed'], at('seed'), 0, 0xffff_ffff),
    trials: numberAt(method['trials'], at('trials'), 1, TRIALS_MAX),
    sample: sample === null ? null : numberAt(sample, at('sample'), 1, Number.MAX_SAFE_INTEGER),
    mcount: textsAt(method['mcount'], at('mcount')),
    tables: textsAt(method['tables'], at('tables')),
    symbols: exactAt(method['symbols'], at('symbols'), 'own', 'given') as 'own' | 'given',
  };
}

function subjectsOf(value: unknown): CertificateSubjects {
  const subjects = listAt(value, 'subject');
  if (subjects.length !== 2) throw bad('subject', 'does not have two entries, original and patched');
  const digest = (i: number, name: string): string => {
    const subject = objectAt(subjects[i], `subject[${i}]`);
    exactAt(subject['name'], `subject[${i}].name`, name);
    const { sha256 } = objectAt(subject['digest'], `subject[${i}].digest`);
    if (typeof sha256 === 'string' && /^[0-9a-f]{64}$/.test(sha256)) return sha256;
    throw bad(`subject[${i}].digest.sha256`, 'is not 64 digits of lower-case hexadecimal');
  };
  return { original: digest(0, 'original'), patched: digest(1, 'patched') };
}

/** What a certificate says was proved, and how: what it takes to do it again. */
export interface ReadCertificate {
  readonly subjects: CertificateSubjects;
  readonly method: CertificateMethod;
  /** All of it, to be compared: nothing else in it was looked at. */
  readonly statement: unknown;
}

/**
 * Reads what a repetition needs to know.
 * @throws ElftraceError 'bad-record' for what is no certificate of this kind; 'unsupported-form'
 *   for one in an envelope with signatures
 * Source: PV-6
 */
export function readCertificate(text: string): ReadCertificate {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw bad('file', `is no JSON: ${(cause as Error).message}`);
  }
  const statement = objectAt(value, 'file');
  if (statement['payloadType'] === ENVELOPED) {
    throw new ElftraceError(
      'unsupported-form',
      'the certificate is in an envelope with signatures, which are not checked here: check them with the tool that made them, and take out the payload (base64)',
      { reason: 'signed-envelope' },
    );
  }
  exactAt(statement['_type'], '_type', STATEMENT_TYPE);
  exactAt(statement['predicateType'], 'predicateType', PREDICATE_TYPE);
  const predicate = objectAt(statement['predicate'], 'predicate');
  return { subjects: subjectsOf(statement['subject']), method: methodOf(predicate['method']), statement };
}

/** A value in a few words. What is nested is only named: a hostile file may nest deeply. */
function shown(value: unknown): string {
  if (value === undefined) return 'not there';
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : 'an object';
  const text = JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}

/** Where two JSON values differ first, as a path and both values; null: nowhere. */
function valueDifference(given: unknown, repeated: unknown, path: string): string | null {
  const isNode = (value: unknown): value is Fields => typeof value === 'object' && value !== null;
  if (isNode(given) && isNode(repeated) && Array.isArray(given) === Array.isArray(repeated)) {
    const names = new Set([...Object.keys(repeated), ...Object.keys(given)]);
    for (const name of names) {
      const [a, b] = [given, repeated].map((each) => (Object.hasOwn(each, name) ? each[name] : undefined));
      const place = Array.isArray(given) ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`;
      const found = valueDifference(a, b, place);
      if (found !== null) return found;
    }
    return null;
  }
  return Object.is(given, repeated) ? null : `${path} is ${shown(given)} there, and ${shown(repeated)} now`;
}

/**
 * What tells a certificate from one that was made now, in a sentence; null: both are the same, byte
 * for byte.
 */
export function certificateDifference(text: string, repeated: Certificate): string | null {
  if (text === certificateText(repeated)) return null;
  return (
    valueDifference(JSON.parse(text), JSON.parse(certificateText(repeated)), '') ??
    'it says the same in other bytes: spaces, the order of keys, or a key that is there twice'
  );
}
