/**
 * Session files on images at rest: every call starts from the image as it was before the first of
 * them, performs all operations in order, and plans what their stores left. So a file says exactly
 * what its record says, whatever the number of calls that led to it.
 */
import type { Arch } from '../machine/arch.js';
import { chosen } from '../machine/options.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError } from '../errors.js';
import { CoreSession, type SessionResolver, type SessionStep } from './operations.js';
import { formatReport, type Outcome } from '../ftrace/index.js';
import type { GoneProbe, GoneSymbol } from '../record/gone-modules.js';
import type { FileRecord } from '../record/journal.js';
import { checkedPads, landingProblem } from '../program/landing.js';
import { load } from '../program/program.js';
import { checkGraphSafety, graphCallback } from './graph-safety.js';
import { withHazards } from '../patch/hazards.js';
import type { ReplacedCode } from '../patch/kept-relocations.js';
import type { Plan } from '../patch/plan.js';
import { selectByWords } from '../sites/selection.js';
import { findSites, type Sites } from '../sites/sites.js';
import { siteNames } from './idle-sites.js';
import { netSteps } from './net-steps.js';
import { entriesOf } from './entries.js';
import { Session, type SessionOptions } from './session.js';
import { parseSession, type ProbeOperation, type SessionOperation } from './session-file.js';

/** A session file. */
export interface SessionText {
  /** What errors call it. */
  readonly name: string;
  readonly text: string;
}

/** A session file that was read, or operations that were never text. */
export interface SessionOperations {
  readonly name: string;
  readonly operations: readonly SessionOperation[];
}

export interface SessionPlan {
  readonly plan: Plan;
  readonly session: Session;
  /** Operations with their outcomes, those of earlier calls too. */
  readonly steps: readonly SessionStep[];
  /** Symbols that operations named, with their places. */
  readonly symbols: readonly GoneSymbol[];
  /** Who served the steps about probes. */
  readonly host: ProbeHost | null;
}

/** Options that decide bytes, as a record keeps them beside the session (RT-7). */
export type SessionForms = Pick<FileRecord, 'forms' | 'gone'>;

/**
 * Reads session files one after another: later ones may use the names that earlier ones made.
 * @param sources  what was read, or never was text, stays as it is
 * @throws ElftraceError 'usage' with file, line and column
 */
export function readSessions(sources: readonly (SessionText | SessionOperations)[]): readonly SessionOperations[] {
  const known: { ops: string[]; graphs: string[] } = { ops: [], graphs: [] };
  return sources.map((source) => {
    const { name } = source;
    const { operations } = 'text' in source ? parseSession(source.text, name, known) : source;
    for (const each of operations) {
      if (each.kind === 'ops') known.ops.push(each.name);
      else if (each.kind === 'graph') known.graphs.push(each.name);
    }
    return { name, operations };
  });
}

/** Where an operation stands, for errors. */
const placeOf = (name: string, { at, kind }: SessionOperation): string =>
  at === null ? `${name}: ${kind}` : `${name}:${at.line}:${at.column}: ${kind}`;

/** Modules that come with a step: the first that is said of them is that they come. */
function absentModules(operations: readonly SessionOperation[]): Set<string> {
  const seen = new Set<string>();
  const absent = new Set<string>();
  for (const each of operations) {
    if (each.kind !== 'load' && each.kind !== 'unload') continue;
    if (!seen.has(each.module) && each.kind === 'load') absent.add(each.module);
    seen.add(each.module);
  }
  return absent;
}

/** Session options of what a record keeps, on an image of a machine. */
export function sessionOptions({ forms, gone }: SessionForms, { options }: Arch): Omit<SessionPlanOptions, 'probes'> {
  const { preempt, 'unsafe-graph': unsafeGraph } = forms;
  const nopForm = chosen(options, 'nop-form', forms);
  const literalOff = chosen(options, 'idle-ops', forms);
  return {
    gone,
    ...(unsafeGraph === undefined ? {} : { allowUnsafeGraph: true }),
    ...(nopForm === undefined ? {} : { nopForm }),
    policy: {
      ...(literalOff === 'list' || literalOff === 'nop' ? { literalOff } : {}),
      ...(preempt === 'none' || preempt === 'full' ? { preempt } : {}),
    },
  };
}

/**
 * Who serves the steps about probes; the room of probes provides it, which this one does not know.
 */
export interface ProbeHost {
  /** True for a return probe: it replaces return addresses. */
  replacesReturns(operation: Extract<SessionOperation, { readonly kind: 'probe' }>): boolean;
  perform(operation: ProbeOperation): Outcome;
  /** Why a module cannot go: a probe elsewhere reads its data. null when it can. */
  moduleUse(name: string): string | null;
  /** A module goes, and its probes with it (K-OPT-8): before ftrace forgets its sites. */
  unloadModule(name: string): void;
  /** A module came: its text is as it was before any ops was there. */
  loadModule(name: string): void;
  /** All probes that were ever set in a module. */
  placesIn(module: string): readonly GoneProbe[];
  /** After the last step: what waits for time to pass is done, objects are written. */
  finish(): void;
  /** Code that breakpoints and jumps stand for now, and where its copies are. */
  replacedCode(): readonly ReplacedCode[];
}

/** Makes a host for a session; `image` is the one that the session was opened on. */
export type ProbeHosts = (session: Session, image: ElfImage) => ProbeHost;

export interface SessionPlanOptions extends SessionOptions {
  readonly probes?: ProbeHosts | undefined;
  /**
   * Return addresses are replaced in programs too that do not survive it (graph-safety.ts); the
   * plan's notices say why.
   */
  readonly allowUnsafeGraph?: boolean;
}

/** What replaces return addresses in a session, for messages; null: nothing does. */
function whoReplacesReturns(operations: readonly SessionOperation[], probes: ProbeHost | undefined): string | null {
  for (const each of operations) {
    if (each.kind === 'graph') return `graph ${each.name}`;
    if ((each.kind === 'ops' || each.kind === 'function') && each.call === graphCallback) return graphCallback;
    if (each.kind === 'probe' && probes?.replacesReturns(each)) return `probe '${each.define}'`;
  }
  return null;
}

/**
 * A module came or went: where ftrace is dead for want of sites (C-INIT-3), it does not hear of it,
 * and probes do.
 */
const moved = (outcome: Outcome): Outcome =>
  outcome.kind === 'refused' ? { kind: 'done', steps: [], warnings: [] } : outcome;

/**
 * Entries of sites behind a prologue pass nothing that could be changed: what is at stake there is
 * spread over frame and registers already.
 */
const noLivepatch = (kind: string): string =>
  `the entry of the image (${kind}) cannot change where a function goes on: its sites call it behind the prologue (-pg), where the frame is made and ` +
  'arguments have moved, or it passes no registers; sites at the start of functions can be replaced (-mfentry, -mprofile-kernel, -fpatchable-function-entry)';

/**
 * Entries go on to a direct caller by an indirect branch, where the machine checks such.
 * @throws ElftraceError 'no-landing-pad'
 */
function checkLanding({ sites: { program } }: Session, caller: string, at: string): void {
  const found = program.symbols.find(caller);
  const address = found > 0 ? program.definedAt(found) : null;
  // Who is not there is said by the operation.
  if (address === null) return;
  const pads = checkedPads(program.image, program.arch);
  if (pads?.direct !== 'branch') return;
  const problem = landingProblem(pads, caller, address, program.wordAt(address));
  if (problem !== null) {
    throw new ElftraceError('no-landing-pad', `${at}: ${problem} [M-PAD-5]`, { symbol: caller });
  }
}

/** Sites that words are about; null: none, which the operation refuses. */
function selected(sites: Sites, words: string): Uint8Array | null {
  try {
    return selectByWords(sites, null, { filter: [words], notrace: [] }) ?? null;
  } catch (error) {
    if (error instanceof ElftraceError && error.code === 'no-match') return null;
    throw error;
  }
}

/**
 * Another function takes the place of one of which nothing has run: a nested function has pushed
 * its static chain, and its site goes on where it is, whatever a callback says (X-ENT-7).
 * @throws ElftraceError 'plan-refused'
 */
function checkReplaceable({ sites }: Session, words: string, at: string): void {
  const selection = selected(sites, words);
  for (let i = 0; i < sites.count; i++) {
    const reading = selection?.[i] === 1 ? sites.reading(i) : null;
    if (reading?.shape.servedAt?.(reading, sites.viewOf(i)).callerInFrame !== true) continue;
    const name = sites.program.symbolName(sites.functionSymbol(i));
    const message = `${at}: ${name} is a nested function, which has begun where its site is: none can take its place`;
    throw new ElftraceError('plan-refused', `${message} (EINVAL)`, {
      what: 'livepatch',
      symbol: name,
      value: 'EINVAL',
    });
  }
}

/** Says which operation named what the image does not have. */
function placing<T>(at: string, step: () => T): T {
  try {
    return step();
  } catch (cause) {
    if (!(cause instanceof ElftraceError) || cause.code !== 'no-match') throw cause;
    throw new ElftraceError(cause.code, `${at}: ${cause.message}`, cause.context, { cause });
  }
}

/** Symbols of an image that operations name, as they are asked for. */
class NamedSymbols {
  readonly found = new Map<string, GoneSymbol>();

  constructor(private readonly session: Session) {}

  /** @throws ElftraceError 'no-match' */
  get(name: string): GoneSymbol {
    const address = this.session.functionAddress(name);
    const pointer = this.session.pointerTo(name);
    if (address === null || pointer === null) {
      throw new ElftraceError('no-match', `the image defines no ${name}`, { symbol: name });
    }
    const found = { name, address, pointer };
    this.found.set(name, found);
    return found;
  }
}

/** What operations mean on the image of a session: its symbols, its modules, its probes. */
function resolverOf(session: Session, symbols: NamedSymbols, probes: ProbeHost | undefined): SessionResolver {
  return {
    address: (symbol) => symbols.get(symbol).address,
    enableJumps: () => {
      session.enableJumps();
    },
    replacer(replacement) {
      const func = session.functionAddress('elftrace_livepatch');
      const { pointer } = symbols.get(replacement);
      if (func === null) {
        throw new ElftraceError('unsupported-form', noLivepatch(entriesOf(session.sites.program).kind), {
          symbol: replacement,
          reason: 'no-redirect',
        });
      }
      return { func, data: pointer };
    },
    ...(probes ? { probe: (operation) => probes.perform(operation) } : {}),
    loadModule(name) {
      const was = session.isLoaded(name);
      const outcome = session.loadModule(name);
      if (was || !session.isLoaded(name)) return outcome;
      probes?.loadModule(name);
      return moved(outcome);
    },
    unloadModule(name) {
      const reason = session.moduleUse(name) ?? probes?.moduleUse(name) ?? null;
      if (reason !== null) return { kind: 'refused', errno: 'EBUSY', reason };
      const was = session.isLoaded(name);
      if (was) probes?.unloadModule(name);
      const outcome = session.unloadModule(name);
      return was && !session.isLoaded(name) ? moved(outcome) : outcome;
    },
  };
}

/** Performs the operations in order; the first that is not done ends it all with its place. */
function performAll(session: Session, sessions: readonly SessionOperations[], runner: CoreSession): SessionStep[] {
  const steps: SessionStep[] = [];
  for (const { name, operations } of sessions) {
    for (const operation of operations) {
      const at = placeOf(name, operation);
      if (operation.kind === 'direct' || operation.kind === 'modify-direct') {
        checkLanding(session, operation.caller, at);
      }
      if (operation.kind === 'livepatch') checkReplaceable(session, operation.function, at);
      const [step] = placing(at, () => runner.run([operation]));
      if (step === undefined) continue;
      steps.push(step);
      const { outcome } = step;
      if (outcome.kind === 'done') continue;
      const context = { what: operation.kind, value: outcome.errno };
      if (outcome.kind === 'refused') {
        throw new ElftraceError('plan-refused', `${at}: ${outcome.reason} (${outcome.errno})`, context);
      }
      throw new ElftraceError('site-mismatch', `${at}: ${formatReport(outcome.report)}`, context);
    }
  }
  return steps;
}

/**
 * Performs session files on an image with entries and plans what changes.
 * @param image    the image as it was before the first of the files
 * @param sources  the files, or their operations
 * @throws ElftraceError 'usage' with file, line and column for an operation that cannot be read,
 *   'plan-refused' for one that is refused (the
 *         errno and the reason are in the message), 'site-mismatch' with the report of C-REP-1 for
 *         one that fails, 'unsafe-graph' where return addresses would be replaced in a program that
 *         does not survive it
 */
export function planSession(
  image: ElfImage,
  arch: Arch,
  sources: readonly (SessionText | SessionOperations)[],
  options: SessionPlanOptions = {},
): SessionPlan {
  const sessions = readSessions(sources);
  const operations = sessions.flatMap((each) => each.operations);
  const session = Session.open(image.bytes, arch, { absent: absentModules(operations), ...options });
  const { core } = session;
  const probes = options.probes?.(session, image);
  const replacer = whoReplacesReturns(operations, probes);
  const unsafe = replacer === null ? [] : checkGraphSafety(session.sites, replacer, options.allowUnsafeGraph === true);
  const symbols = new NamedSymbols(session);
  const steps = performAll(session, sessions, new CoreSession(core, resolverOf(session, symbols, probes)));
  probes?.finish();
  const { steps: planned, initialised } = netSteps(session, image, arch, probes?.replacedCode() ?? []);
  const enabled = core.records.filter((site) => site.count > 0).length;
  const warnings = [...unsafe, ...steps.flatMap(({ outcome }) => (outcome.kind === 'done' ? outcome.warnings : []))];
  const plan: Plan = {
    target: arch.target.id,
    request: `session of ${operations.length} operations`,
    steps: planned,
    refusals: [],
    selected: core.records.length,
    changed: enabled,
    unchanged: core.records.length - enabled - initialised.length,
    initialised: siteNames(session.sites, initialised),
    ...(warnings.length > 0 ? { notices: warnings } : {}),
  };
  // The session's own copy has changed: hazards are those of the way there from the image.
  const preempt = options.policy?.preempt;
  const before = preempt === 'full' ? findSites(load(image, arch, options)) : session.sites;
  return {
    plan: withHazards(plan, before, entriesOf(session.sites.program).kind, preempt),
    session,
    steps,
    symbols: [...symbols.found.values()],
    host: probes ?? null,
  };
}
