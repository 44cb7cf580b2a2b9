/**
 * What the core says: the report of a failed operation (C-REP-1) and the listings of enabled and
 * touched functions. Owns the order of the fields and the wording, which programs may parse;
 * decides nothing.
 */
import { hex } from '../errors.js';
import type { Address } from '../units.js';
import type { Step } from './backend.js';
import { type Callee, type Content, type Ops, trampolineAddress } from './ops.js';
import { type CallSite, REC } from './records.js';
import type { CoreState } from './state.js';
import type { FailureKind, FailureReport, Problem, ReportedRecord, ReportedTrampoline } from './failure.js';
import { describeCallee, describeLiteral } from './describe.js';
import { newTrampolineOps } from './targets.js';

const ACTIONS = { 'make-call': 'CALL', 'modify-call': 'UPDATE', 'make-nop': 'NOP' } as const;

const KINDS = {
  'read-fault': 'fault on reading',
  mismatch: 'content mismatch',
  'write-fault': 'fault on writing',
  unknown: 'unknown code',
} as const;

function failureKind({ phase, errno }: Problem): FailureKind {
  if (phase === 'read' || errno === 'EFAULT') return 'read-fault';
  if (phase === 'compare' || errno === 'EINVAL') return 'mismatch';
  return errno === 'EPERM' ? 'write-fault' : 'unknown';
}

/** The report of a failure, from the state that the operation was making. */
export function buildReport(state: CoreState, problem: Problem): FailureReport {
  const { step } = problem;
  const kind = failureKind(problem);
  if (step.kind !== 'site') {
    const site = step.kind === 'literal' ? step.site : null;
    return {
      kind,
      ip: site?.ip ?? 0n,
      symbol: site === null ? '' : symbolOf(site),
      module: site?.module ?? null,
      actual: null,
      expected: null,
      action: step.kind === 'literal' ? 'UPDATE' : null,
      record: site === null ? null : recordOf(state, site, site.flags, null, describeLiterals(step)),
      detail: problem.reason,
    };
  }
  const { site, before, flags } = step;
  return {
    kind,
    ip: site.ip,
    symbol: symbolOf(site),
    module: site.module,
    actual: kind === 'mismatch' ? state.backend.bytesAt(site) : null,
    expected: kind === 'mismatch' ? state.backend.bytesOf(site, before) : null,
    action: ACTIONS[step.update],
    record: recordOf(state, site, flags, before, describeTarget(state, before)),
    detail: problem.reason,
  };
}

/** A text address with its name. */
function named({ backend }: CoreState, address: Address): string {
  const name = backend.nameOf(address);
  return name === '' ? hex(address) : `${hex(address)} (${name})`;
}

/** C-TGT-2, C-TGT-3: the address that the text was expected to call. */
function describeTarget(state: CoreState, content: Content): string {
  const { plainEntry, registerEntry, listEntry } = state.backend.symbols;
  switch (content.kind) {
    case 'nop':
      return 'none (nop)';
    case 'caller':
      return named(state, plainEntry);
    case 'regs-caller':
      return named(state, registerEntry);
    case 'list-caller':
      return named(state, listEntry);
    case 'trampoline':
      return `${hex(content.address)} (trampoline${content.ops === null ? '' : ` of ${content.ops.name}`})`;
    case 'direct':
      return (content.address & 1n) !== 0n && state.backend.capabilities.jumps
        ? `jmp ${named(state, content.address & ~1n)}`
        : named(state, content.address);
    default:
      return content satisfies never;
  }
}

function describeLiterals(step: Step): string {
  return step.kind === 'literal' ? describeLiteral(step.before) : '';
}

function symbolOf(site: CallSite): string {
  return `${site.name}+${hex(site.siteOffset)}`;
}

function recordOf(
  state: CoreState,
  site: CallSite,
  flags: number,
  before: Content | null,
  expected: string,
): ReportedRecord {
  const count = flags & (2 ** 19 - 1);
  const trampolines = (flags & REC.TRAMP_EN) === 0 ? null : owners(state, site, before);
  return {
    flags,
    count,
    regs: (flags & REC.REGS) !== 0,
    callOps: (flags & REC.CALL_OPS) !== 0,
    trampolines,
    expected,
  };
}

/**
 * Every ops with a trampoline that traces the site; an ops that is being removed is known by the
 * trampoline that the text called.
 */
function owners(state: CoreState, site: CallSite, before: Content | null): ReportedTrampoline[] {
  const { registerEntry } = state.backend.symbols;
  const found = state.list
    .filter((ops) => ops.trampoline !== null && ops.matches(site))
    .map((ops) => ({ ...ownerOf(state, ops), address: trampolineAddress(ops, registerEntry) }));
  if (before?.kind !== 'trampoline' || before.ops === null) return found;
  const { address, ops } = before;
  if (found.some((each) => each.address === address)) return found;
  return [{ ...ownerOf(state, ops), address }, ...found];
}

function ownerOf({ backend }: CoreState, { name, func }: Ops): Omit<ReportedTrampoline, 'address'> {
  return { ops: name, callback: func, callbackName: backend.nameOf(func) };
}

/** The report of a site that could not be initialised (C-INIT-2): there is no record yet. */
export function initReport(input: {
  readonly kind: FailureKind;
  readonly ip: Address;
  readonly symbol: string;
  readonly module?: string | null;
  readonly actual?: Uint8Array | null;
  readonly expected?: Uint8Array | null;
  readonly detail?: string;
}): FailureReport {
  return {
    kind: input.kind,
    ip: input.ip,
    symbol: input.symbol,
    module: input.module ?? null,
    actual: input.kind === 'mismatch' ? (input.actual ?? null) : null,
    expected: input.kind === 'mismatch' ? (input.expected ?? null) : null,
    action: 'INIT',
    record: null,
    detail: input.detail ?? '',
  };
}

function colons(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(':');
}

/** The report as text: one field in a line, in the order of C-REP-1, absent fields left out. */
export function formatReport(report: FailureReport): string {
  const lines = [`ftrace bug: ${KINDS[report.kind]}`];
  const { symbol, module, record } = report;
  const where = symbol === '' ? '' : ` ${symbol}${module === null ? '' : ` [${module}]`}`;
  lines.push(` ip: ${hex(report.ip)}${where}`);
  if (report.actual !== null) lines.push(` actual: ${colons(report.actual)}`);
  if (report.expected !== null) lines.push(` expected: ${colons(report.expected)}`);
  if (report.action !== null) lines.push(` action: ${report.action}`);
  if (record !== null) {
    const marks = `${record.regs ? ' R' : ''}${record.callOps ? ' O' : ''}`;
    lines.push(` record flags: ${hex(record.flags)} (${record.count})${marks}`);
    if (record.trampolines !== null) {
      for (const { address, ops, callback, callbackName } of record.trampolines) {
        const name = callbackName === '' ? '' : ` (${callbackName})`;
        lines.push(` trampoline: ${hex(address)} (${ops}) -> ${hex(callback)}${name}`);
      }
      if (record.trampolines.length === 0) lines.push(' trampoline: error, no ops owns it');
    }
    lines.push(` expected target: ${record.expected}`);
  }
  if (report.detail !== '') lines.push(` cause: ${report.detail}`);
  return lines.join('\n');
}

/** One function of a listing. */
export interface ListedFunction {
  readonly name: string;
  readonly ip: Address;
  readonly module: string | null;
  readonly count: number;
  readonly regs: boolean;
  readonly ipModify: boolean;
  readonly direct: boolean;
  readonly callOps: boolean;
  readonly modified: boolean;
  /**
   * What the text calls and what that calls: a trampoline with its callback, or the callee of the
   * entry. Empty while the text calls nothing.
   */
  readonly callee: string;
  /** The ops that the word in front of the function names. */
  readonly ops: string | null;
  /** The direct caller. */
  readonly directTarget: Address | null;
  /** X-JMP-1: the site jumps to it. */
  readonly directJump: boolean;
  /** Its name, when known. */
  readonly directName: string;
}

function listed(state: CoreState, site: CallSite): ListedFunction {
  const word = site.has(REC.DIRECT) ? (state.direct.get(site) ?? null) : null;
  const directJump = word !== null && state.backend.capabilities.jumps && (word & 1n) !== 0n;
  const directTarget = word !== null && directJump ? word & ~1n : word;
  return {
    name: site.name,
    ip: site.ip,
    module: site.module,
    count: site.count,
    regs: site.has(REC.REGS),
    ipModify: site.has(REC.IPMODIFY),
    direct: site.has(REC.DIRECT),
    callOps: site.has(REC.CALL_OPS),
    modified: site.has(REC.MODIFIED),
    callee: calleeOf(state, site),
    ops: site.has(REC.CALL_OPS_EN) && site.literal !== null ? describeLiteral(site.literal) : null,
    directTarget,
    directJump,
    directName: directTarget === null ? '' : state.backend.nameOf(directTarget),
  };
}

function calleeOf(state: CoreState, site: CallSite): string {
  if (!site.has(REC.ENABLED)) return '';
  if (site.has(REC.TRAMP_EN)) {
    const ops = newTrampolineOps(state, site);
    if (ops === null) return 'tramp: ERROR';
    const { trampoline } = ops;
    const inner = trampoline?.kind === 'private' ? calleeName(state, trampoline.callee) : functionName(state, ops.func);
    return `tramp: ${hex(trampolineAddress(ops, state.backend.symbols.registerEntry))} (${ops.name}) ->${inner}`;
  }
  return `->${calleeName(state, state.callee)}`;
}

function functionName({ backend }: CoreState, address: Address): string {
  return backend.nameOf(address) || hex(address);
}

function calleeName(state: CoreState, callee: Callee): string {
  return callee.kind === 'function' ? functionName(state, callee.address) : describeCallee(callee);
}

/** Functions with something attached, in table order. */
export function enabledFunctions(state: CoreState): ListedFunction[] {
  return state.records.list.filter((site) => !site.skipped && site.count > 0).map((site) => listed(state, site));
}

/** Functions that were ever enabled, in table order. */
export function touchedFunctions(state: CoreState): ListedFunction[] {
  return state.records.list.filter((site) => site.has(REC.TOUCHED)).map((site) => listed(state, site));
}

/**
 * C-REP-2: name, count, columns R I D O M, then callee, ops and the direct caller; one function in
 * a line, the direct caller in a line of its own.
 */
export function formatFunctions(functions: readonly ListedFunction[]): string {
  let text = '';
  for (const each of functions) {
    const column = (letter: string, shown: boolean): string => ` ${shown ? letter : ' '}`;
    let line = each.module === null ? each.name : `${each.name} [${each.module}]`;
    line += ` (${each.count})`;
    line += column('R', each.regs) + column('I', each.ipModify) + column('D', each.direct);
    line += column('O', each.callOps) + column('M', each.modified);
    if (each.callee !== '') line += `\t${each.callee}`;
    if (each.ops !== null) line += `\tops: ${each.ops}`;
    const kind = each.directJump ? '(jmp)' : '';
    if (each.directTarget !== null) line += `\n\tdirect${kind}-->${each.directName || hex(each.directTarget)}`;
    text += `${line.trimEnd()}\n`;
  }
  return text;
}
