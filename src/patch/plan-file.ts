/**
 * Plans between two processes: everything that `apply` needs, as JSON. Owns the format and its
 * checks; a plan that was read is as good as one that was just made, or it is refused.
 *
 * Where a runtime was laid in first, the plan carries what was appended to the file and the header
 * ranges that name it, so that applying needs no compiler, no loader and no decision.
 */
import { equalBytes } from '../bytes.js';
import { ElftraceError } from '../errors.js';
import { decodeGone, encodeGone, type GoneModule, isSavedGone } from '../record/gone-modules.js';
import type { FileRecord } from '../record/journal.js';
import type { Hazard } from './plan.js';
import { type Plan, type Refusal, type Step, tableParts } from './plan.js';

const planFileSchema = 3;

/** A plan with the file that it is about. */
export interface PlanFile {
  /** SHA-256 of the file, hexadecimal. */
  readonly sha256: string;
  readonly plan: Plan;
  /** What the record will keep of a session; null without one. */
  readonly session: KeptSession | null;
  /**
   * The plan is about the file as it was before its session: that is performed again, with what
   * comes now.
   */
  readonly unpatched: boolean;
  /** What a runtime, and parts that were laid in, add; null without them. */
  readonly injection: Injection | null;
}

/** What a record keeps of a session. */
export type KeptSession = Pick<FileRecord, 'session' | 'forms' | 'brought' | 'gone' | 'injected'>;

export interface Injection {
  /** Ranges of the file that change with it (its headers). */
  readonly headers: readonly { readonly offset: number; readonly before: Uint8Array; readonly after: Uint8Array }[];
  /** What follows the file's bytes. */
  readonly appended: Uint8Array;
}

/** The injection that makes `after` of `before`; null when they are the same. */
export function injectionOf(before: Uint8Array, after: Uint8Array): Injection | null {
  if (equalBytes(before, after)) return null;
  const headers: { offset: number; before: Uint8Array; after: Uint8Array }[] = [];
  for (let at = 0; at < before.length; at++) {
    if (before[at] === after[at]) continue;
    let end = at + 1;
    while (end < before.length && before[end] !== after[end]) end++;
    headers.push({ offset: at, before: before.slice(at, end), after: after.slice(at, end) });
    at = end;
  }
  return { headers, appended: after.slice(before.length) };
}

/**
 * The file with what the plan's runtime adds.
 * @throws ElftraceError 'plan-stale' when a header is not as the plan knows it
 */
export function inject(bytes: Uint8Array, { headers, appended }: Injection): Uint8Array {
  const out = new Uint8Array(bytes.length + appended.length);
  out.set(bytes);
  out.set(appended, bytes.length);
  for (const { offset, before, after } of headers) {
    if (!equalBytes(out.subarray(offset, offset + before.length), before)) {
      throw new ElftraceError('plan-stale', 'the headers of the file are not those that the plan was made for', {
        fileOffset: offset,
      });
    }
    out.set(after, offset);
  }
  return out;
}

const hexOf = (bytes: Uint8Array): string => {
  let text = '';
  for (const byte of bytes) text += byte.toString(16).padStart(2, '0');
  return text;
};

/** The JSON of a plan file, one line. */
export function encodePlanFile({ sha256, plan, session, unpatched, injection }: PlanFile): string {
  return JSON.stringify({
    planFile: planFileSchema,
    sha256,
    target: plan.target,
    request: plan.request,
    selected: plan.selected,
    changed: plan.changed,
    unchanged: plan.unchanged,
    steps: plan.steps.map((step) => ({
      ...step,
      address: `0x${step.address.toString(16)}`,
      before: hexOf(step.before),
      after: hexOf(step.after),
    })),
    refusals: plan.refusals.map((refusal) => ({ ...refusal, address: `0x${refusal.address.toString(16)}` })),
    hazards: (plan.hazards ?? []).map(({ rule, reason, sites }) => ({
      rule,
      reason,
      sites: sites.map((each) => ({ ...each, address: `0x${each.address.toString(16)}` })),
    })),
    session: session === null ? null : { ...session, gone: session.gone.map(encodeGone) },
    unpatched,
    untraced: (plan.untraced ?? []).map((each) => `0x${each.toString(16)}`),
    notices: plan.notices ?? [],
    injection:
      injection === null
        ? null
        : {
            headers: injection.headers.map(({ offset, before, after }) => ({
              offset,
              before: hexOf(before),
              after: hexOf(after),
            })),
            appended: hexOf(injection.appended),
          },
  });
}

/** Reads values of expected types; anything else makes the file no plan. */
class Reader {
  constructor(
    private readonly value: unknown,
    private readonly what: string,
  ) {}

  fail(expected: string): never {
    throw new ElftraceError('usage', `plan file: ${this.what} is not ${expected}`, { what: this.what });
  }
  field(name: string): Reader {
    const { value } = this;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) this.fail('an object');
    const found = Object.entries(value).find(([key]) => key === name);
    return new Reader(found?.[1], `${this.what}.${name}`);
  }
  list(): Reader[] {
    if (!Array.isArray(this.value)) this.fail('a list');
    return this.value.map((each: unknown, i) => new Reader(each, `${this.what}[${i}]`));
  }
  get isNull(): boolean {
    return this.value === null;
  }
  text(): string {
    if (typeof this.value !== 'string') this.fail('a string');
    return this.value;
  }
  flag(): boolean {
    if (typeof this.value !== 'boolean') this.fail('true or false');
    return this.value;
  }
  texts(): string[] {
    return this.list().map((each) => each.text());
  }
  /** Texts by name. */
  names(): Record<string, string> {
    const { value } = this;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) this.fail('an object');
    return Object.fromEntries(Object.keys(value).map((key) => [key, this.field(key).text()]));
  }
  gone(): GoneModule {
    if (!isSavedGone(this.value)) this.fail('a module that is gone');
    return decodeGone(this.value);
  }
  number(min = 0): number {
    if (typeof this.value !== 'number' || !Number.isSafeInteger(this.value) || this.value < min) this.fail('a number');
    return this.value;
  }
  address(): bigint {
    const text = this.text();
    if (!/^0x[0-9a-f]{1,16}$/.test(text)) this.fail('an address');
    return BigInt(text);
  }
  bytes(): Uint8Array {
    const text = this.text();
    if (!/^([0-9a-f]{2})*$/.test(text)) this.fail('hexadecimal bytes');
    return Uint8Array.from({ length: text.length / 2 }, (_, i) => Number.parseInt(text.slice(2 * i, 2 * i + 2), 16));
  }
  oneOf<const T extends string>(values: readonly T[]): T {
    const text = this.text();
    return values.find((each) => each === text) ?? this.fail(values.join(' or '));
  }
}

function readStep(step: Reader): Step {
  const common = {
    site: step.field('site').number(-1),
    section: step.field('section').text(),
    address: step.field('address').address(),
    fileOffset: step.field('fileOffset').number(),
    before: step.field('before').bytes(),
    after: step.field('after').bytes(),
    rule: step.field('rule').text(),
  };
  if (common.before.length === 0 || common.before.length !== common.after.length)
    step.fail('a store of as many bytes as before');
  const kind = step.field('kind').oneOf(['store', 'reloc', 'table']);
  if (kind === 'store') return { kind, ...common };
  if (kind === 'table') return { kind, part: step.field('part').oneOf(tableParts), ...common };
  return {
    kind,
    ...common,
    row: step.field('row').number(),
    type: step.field('type').number(),
    becomes: step.field('becomes').number(),
    symbol: step.field('symbol').text(),
  };
}

function readRefusal(refusal: Reader): Refusal {
  return {
    site: refusal.field('site').number(-1),
    section: refusal.field('section').text(),
    address: refusal.field('address').address(),
    function: refusal.field('function').text(),
    code: refusal.field('code').text(),
    errno: refusal.field('errno').oneOf(['EINVAL', 'EPERM', 'EFAULT', 'ERANGE']),
    reason: refusal.field('reason').text(),
    expected: refusal.field('expected').text(),
    actual: refusal.field('actual').text(),
  };
}

function readKept(session: Reader): KeptSession {
  return {
    session: session.field('session').texts(),
    forms: session.field('forms').names(),
    brought: session.field('brought').texts(),
    gone: session
      .field('gone')
      .list()
      .map((each) => each.gone()),
    injected: session.field('injected').flag(),
  };
}

function readHazard(hazard: Reader): Hazard {
  return {
    rule: hazard.field('rule').oneOf(['H2']),
    reason: hazard.field('reason').text(),
    sites: hazard
      .field('sites')
      .list()
      .map((each) => ({
        site: each.field('site').number(),
        section: each.field('section').text(),
        address: each.field('address').address(),
        function: each.field('function').text(),
      })),
  };
}

/**
 * The inverse of `encodePlanFile`.
 * @throws ElftraceError 'usage' for anything else, with the key that is wrong
 */
export function decodePlanFile(text: string): PlanFile {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ElftraceError('usage', 'plan file: it is no JSON', {}, { cause });
  }
  const root = new Reader(value, 'plan');
  const version = root.field('planFile').number();
  if (version !== planFileSchema) {
    throw new ElftraceError('usage', `plan file: version ${version} is not known, only ${planFileSchema}`);
  }
  const sha256 = root.field('sha256').text();
  if (!/^[0-9a-f]{64}$/.test(sha256)) root.field('sha256').fail('a SHA-256');
  const steps = root.field('steps').list().map(readStep);
  let end = 0;
  for (const { fileOffset, after } of steps) {
    if (fileOffset < end) root.field('steps').fail('in ascending order without overlaps');
    end = fileOffset + after.length;
  }
  const injection = root.field('injection');
  const session = root.field('session');
  const hazards = root.field('hazards').list().map(readHazard);
  const notices = root.field('notices').texts();
  const untraced = root
    .field('untraced')
    .list()
    .map((each) => Number(each.address()));
  return {
    sha256,
    plan: {
      target: root.field('target').text(),
      request: root.field('request').text(),
      steps,
      refusals: root.field('refusals').list().map(readRefusal),
      selected: root.field('selected').number(),
      changed: root.field('changed').number(),
      unchanged: root.field('unchanged').number(),
      ...(hazards.length > 0 ? { hazards } : {}),
      ...(notices.length > 0 ? { notices } : {}),
      ...(untraced.length > 0 ? { untraced } : {}),
    },
    session: session.isNull ? null : readKept(session),
    unpatched: root.field('unpatched').flag(),
    injection: injection.isNull
      ? null
      : {
          headers: injection
            .field('headers')
            .list()
            .map((each) => ({
              offset: each.field('offset').number(),
              before: each.field('before').bytes(),
              after: each.field('after').bytes(),
            })),
          appended: injection.field('appended').bytes(),
        },
  };
}
