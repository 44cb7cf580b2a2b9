/**
 * What a site of an image with entries is while no tracer has it, what callbacks are told of it,
 * and the ops that the word in front of its function names.
 */
import { conventionNamed, type EntryConvention } from '../machine/conventions.js';
import { lookBack } from '../machine/patterns.js';
import type { SiteReading, SiteShape, WritableState } from '../machine/sites.js';
import { hex } from '../errors.js';
import type { SiteDecision } from '../patch/decisions.js';
import { entryPoint } from '../program/entry-points.js';
import type { Program } from '../program/program.js';
import { OPS_ROOM, OPS_WORD_COUNT } from '../runtime/abi.js';
import type { Sites } from '../sites/sites.js';
import type { Address, SiteIndex } from '../units.js';
import { type Entries, entriesOf } from './entries.js';

/**
 * What every site becomes before a session (C-INIT-2): the disabled form of the sites that the
 * image's entries serve. Where nothing tells their convention, calls are turned off.
 * @param nopForm  one of the convention's forms; its own choice when absent
 */
export function initialState(program: Program, nopForm?: string, idleOps: 'nop' | 'list' = 'nop'): WritableState {
  const entries = entriesOf(program);
  const { convention, caller } = entries;
  if (convention === null) return { kind: 'nop', ...(nopForm === undefined ? {} : { form: nopForm }) };
  const { idle, literal } = convention;
  if (nopForm !== undefined && idle.nopForms.length > 0) return { kind: 'nop', form: nopForm };
  const ops =
    literal === null || !entries.hasObjects ? null : idleOpsSymbol(literal.written === 'compared' ? idleOps : 'nop');
  return {
    kind: 'init',
    ...(idle.named ? { form: convention.name } : {}),
    ...(idle.fixed ? { target: caller.address } : {}),
    ...(ops === null ? {} : { literal: entryPoint(program, ops)!.identity }),
  };
}

/**
 * The runtime's ops objects of sites that are off: ops that do nothing, or those that walk the list
 * (A-CO-4).
 */
export const idleOpsSymbol = (idle: 'nop' | 'list'): string => (idle === 'nop' ? 'ftrace_nop_ops' : 'ftrace_list_ops');

/** By shape: asked for at each site. */
const onlyFixed = new WeakMap<SiteShape, boolean>();

/** Whether all conventions that a shape can call leave one instruction of the site as it is. */
function hasOnlyFixed(shape: SiteShape, conventions: readonly EntryConvention[]): boolean {
  let known = onlyFixed.get(shape);
  if (known === undefined) {
    known = shape.entries.every((each) => conventionNamed(conventions, each)?.idle.fixed === true);
    onlyFixed.set(shape, known);
  }
  return known;
}

/**
 * The ip of a site's record (C-TGT-7): what callbacks are told. Of a site with a fixed auipc the
 * word behind it, whatever stands there now.
 */
export function recordIp(sites: Sites, site: SiteIndex): Address {
  const { siteShapes } = sites.program.arch;
  const counted = siteShapes.some((shape) => shape.entryCountsBack !== undefined);
  const fixed = entriesOf(sites.program).convention?.idle.fixed === true;
  const reading = fixed || counted ? sites.reading(site) : null;
  if (reading === null) return sites.ip(site);
  if (!fixed) {
    const { entryCountsBack } = reading.shape;
    return sites.ip(site) + BigInt(entryCountsBack === undefined ? 0 : reading.sizeBytes - entryCountsBack);
  }
  const ip = sites.anchor[site]! + BigInt(reading.ipDelta);
  // A site that could be of either generation is read as the older one.
  return hasOnlyFixed(reading.shape, sites.program.arch.conventions) ? ip : ip + 4n;
}

/** Why the graph tracer cannot have the returns of a site's function; null where it can. */
export function whyNoGraph(sites: Sites, site: SiteIndex, reading: SiteReading | null): string | null {
  const binds = reading?.shape.bindsReturn;
  return binds !== undefined && lookBack(binds, sites.viewOf(site)) !== null ? binds.reason : null;
}

/**
 * Ops objects that words in front of functions may name, where they are compared before they
 * change.
 */
export interface SiteOps {
  /** Of sites that call. */
  readonly on: Address;
  /** Of sites that do not. */
  readonly idle: Address;
  isKnown(address: Address): boolean;
}

export function siteOps(program: Program, entries: Entries, idle: 'nop' | 'list'): SiteOps | null {
  if (entries.convention?.literal?.written !== 'compared' || !entries.hasObjects) return null;
  const address = (symbol: string): Address => entryPoint(program, symbol)!.identity;
  const [on, nop, list] = [address('elftrace_data'), address(idleOpsSymbol('nop')), address(idleOpsSymbol('list'))];
  const size = BigInt(program.image.wordBytes * OPS_WORD_COUNT);
  return {
    on,
    idle: idle === 'nop' ? nop : list,
    isKnown: (each) =>
      each === nop || each === list || (each >= on && each < on + size * BigInt(OPS_ROOM) && (each - on) % size === 0n),
  };
}

/**
 * Ops that initialised sites name which are off; null where sites have no pointer of their own, or
 * the image no ops.
 */
export function idleOpsOf(program: Program, idle: 'nop' | 'list'): Address | null {
  if (program.relocatable || entryPoint(program, 'ftrace_caller') === null) return null;
  return siteOps(program, entriesOf(program), idle)?.idle ?? null;
}

/**
 * The state with its ops; sites that were never initialised keep the compiler's bytes when tracing
 * goes off.
 */
export function withOps(
  state: SiteDecision,
  reading: SiteReading,
  ops: SiteOps | null,
  goesOff: boolean,
): SiteDecision {
  if (ops === null || reading.literal === undefined || 'refused' in state) return state;
  if (reading.literal !== null && !ops.isKnown(reading.literal)) {
    const reason = `the pointer in front of the function names ${hex(reading.literal)}, which is no ops object`;
    return { refused: 'not-applicable', code: 'wrong-ops', reason };
  }
  if (state.kind === 'call') return { ...state, literal: ops.on };
  if (reading.state !== 'compiled') return { ...state, literal: ops.idle };
  return goesOff ? state : { kind: 'init', literal: ops.idle };
}
