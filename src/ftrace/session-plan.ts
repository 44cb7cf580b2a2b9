/**
 * Session files on images at rest: every call starts from the image as it was before the first of them, performs all operations in order, and
 * plans the difference. So a file says exactly what its record says, whatever the number of calls that led to it.
 */
import type { Arch } from '../arch.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError } from '../errors.js';
import { CoreSession, type SessionStep } from './core/session.js';
import { formatReport, type Outcome } from './core/index.js';
import type { Plan, Step } from './plan.js';
import { Session, type SessionOptions } from './session.js';
import { parseSession, type SessionOperation } from './session-file.js';

/** A session file. */
export interface SessionText {
  /** What errors call it. */
  readonly name: string;
  readonly text: string;
}

export interface SessionPlan {
  readonly plan: Plan;
  readonly session: Session;
  /** Operations with their outcomes, those of earlier calls too. */
  readonly steps: readonly SessionStep[];
}

/** Who serves the steps about probes; the room of probes provides it, which this one does not know. */
export interface ProbeHost {
  perform(operation: Extract<SessionOperation, { readonly kind: 'probe' | 'no-probe' }>): Outcome;
  /** After the last step: what waits for time to pass is done, objects are written. */
  finish(): void;
}

export interface SessionPlanOptions extends SessionOptions {
  readonly probes?: (session: Session) => ProbeHost;
}

/** Ranges in which two images of one size differ, near ones as one. */
function differingRanges(before: Uint8Array, after: Uint8Array, word: number): [start: number, end: number][] {
  const ranges: [number, number][] = [];
  for (let at = 0; at < before.length; at += word) {
    let differs = false;
    for (let i = at; i < at + word && i < before.length; i++) if (before[i] !== after[i]) differs = true;
    if (!differs) continue;
    const last = ranges[ranges.length - 1];
    const end = Math.min(at + word, before.length);
    if (last?.[1] === at) last[1] = end;
    else ranges.push([at, end]);
  }
  return ranges;
}

/**
 * Performs session files on an image with entries and plans what changes.
 * @param image  the image as it was before the first of the files
 * @throws ElftraceError 'usage' with file, line and column for an operation that cannot be read, 'plan-refused' for one that is refused (the
 *         errno and the reason are in the message), 'site-mismatch' with the report of A8 for one that fails
 */
export function planSession(
  image: ElfImage,
  arch: Arch,
  files: readonly SessionText[],
  options: SessionPlanOptions = {},
): SessionPlan {
  const session = Session.open(image.bytes, arch, options);
  const { core } = session;
  const probes = options.probes?.(session);
  const runner = new CoreSession(core, {
    address(symbol) {
      const address = session.functionAddress(symbol);
      if (address === null) throw new ElftraceError('no-match', `the image defines no ${symbol}`, { symbol });
      return address;
    },
    replacer(replacement) {
      const func = session.functionAddress('elftrace_livepatch');
      const data = session.pointerTo(replacement);
      if (data === null)
        throw new ElftraceError('no-match', `the image defines no ${replacement}`, { symbol: replacement });
      if (func === null) {
        throw new ElftraceError('unsupported-form', 'the entries of the image cannot change where a function goes on', {
          symbol: replacement,
        });
      }
      return { func, data };
    },
    ...(probes ? { probe: (operation) => probes.perform(operation) } : {}),
    module(name) {
      throw new ElftraceError('usage', `module ${name} is loaded into the file first: elftrace load`, { value: name });
    },
  });
  const steps: SessionStep[] = [];
  const operations: SessionOperation[] = [];
  for (const { name, text } of files) {
    const { operations: own } = parseSession(text, name, {
      ops: operations.flatMap((each) => (each.kind === 'ops' ? [each.name] : [])),
      graphs: operations.flatMap((each) => (each.kind === 'graph' ? [each.name] : [])),
    });
    operations.push(...own);
    for (const step of runner.run(own)) {
      steps.push(step);
      const { outcome, operation } = step;
      if (outcome.kind === 'done') continue;
      const at = `${name}:${operation.at.line}:${operation.at.column}: ${operation.kind}`;
      if (outcome.kind === 'refused') {
        throw new ElftraceError('plan-refused', `${at}: ${outcome.reason} (${outcome.errno})`, {
          what: operation.kind,
          value: outcome.errno,
        });
      }
      throw new ElftraceError('site-mismatch', `${at}: ${formatReport(outcome.report)}`, {
        what: operation.kind,
        value: outcome.errno,
      });
    }
  }
  probes?.finish();
  const after = session.bytes();
  const { sections } = image;
  const planned: Step[] = differingRanges(image.bytes, after, image.wordBytes).map(([start, end]) => {
    const section = sections.find(
      (each) => each.fileSize > 0 && start >= each.offset && start < each.offset + each.fileSize,
    );
    return {
      kind: 'store',
      site: -1,
      section: section?.name ?? '',
      address: image.addressOf(start) ?? BigInt(start),
      fileOffset: start,
      before: image.bytes.slice(start, end),
      after: after.slice(start, end),
      rule: 'A7',
    };
  });
  const enabled = core.records.filter((site) => site.count > 0).length;
  const plan: Plan = {
    target: arch.target.id,
    request: `session of ${operations.length} operations`,
    steps: planned,
    refusals: [],
    selected: core.records.length,
    changed: enabled,
    unchanged: core.records.length - enabled,
  };
  return { plan, session, steps };
}
