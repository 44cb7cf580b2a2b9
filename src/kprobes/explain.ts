/**
 * Whether a place can have a probe, how its instruction would be executed, and whether a jump can
 * take the place of the breakpoint.
 */
import type { ConventionName } from '../machine/conventions.js';
import { readElf } from '../elf/read.js';
import { conventionFor } from '../tracing/inject.js';
import { entryPoint } from '../program/entry-points.js';
import type { Sites } from '../sites/sites.js';
import { entriesOf } from '../tracing/entries.js';
import { runtimeObject } from '../runtime/index.js';
import type { ProbeWhere } from './events.js';
import type { JumpWindow, ProbeRefusal } from '../machine/probes.js';
import { jumpWindows, refuse } from '../machine/probes.js';
import type { ProbeText, ValidProbe } from './validate.js';
import type { SiteIndex } from '../units.js';

export interface ProbeExplanation {
  readonly place: ValidProbe | ProbeRefusal;
  /**
   * The way to optimise that would be tried first, or the rule that forbids it; null where there is
   * no probe at all.
   */
  readonly jump: JumpWindow | ProbeRefusal | null;
}

/** By target and convention: asked for each site, and the objects do not change. */
const passing = new Map<string, boolean>();

/** The entry of a convention passes registers to a probe: its runtime has the callback for that. */
function passesRegisters(target: string, convention: ConventionName): boolean {
  const key = `${target}/${convention}`;
  let passes = passing.get(key);
  if (passes === undefined) {
    const bytes = runtimeObject(target, convention, true);
    passes = bytes !== null && readElf(bytes).symbols.find('elftrace_probe_ftrace') > 0;
    passing.set(key, passes);
  }
  return passes;
}

/**
 * Why a probe at a site cannot be served by ftrace (K-ADDR-7): the entry that the image has, or
 * would get, passes no registers. The reason names those that would do it. null: it can, or what
 * the entry will be is not decided yet.
 */
export function whyNotFtrace(sites: Sites, index: SiteIndex): ProbeRefusal | null {
  const { program } = sites;
  const { conventions, target } = program.arch;
  const reading = sites.reading(index);
  if (program.relocatable || reading === null) return null;
  const own = entryPoint(program, 'ftrace_caller') === null ? null : entriesOf(program).convention;
  const { name } = own ?? conventionFor(sites, undefined, undefined, conventions[0] ?? null);
  if (passesRegisters(target.id, name)) return null;
  const served = sites.entriesOf(index, reading);
  const others = conventions.filter((each) => served.includes(each.name) && passesRegisters(target.id, each.name));
  const names = others.map((each) =>
    each.chosenBy === null ? each.name : `${each.name} (--${each.chosenBy}=${each.name})`,
  );
  const hint = names.length === 0 ? 'and none that serves the site does' : `${names.join(', ')} would`;
  return refuse('EINVAL', 'no-ftrace-support', 'K-ADDR-7', `the entry ${name} passes no registers, ${hint}`);
}

/** Looks at a place; writes nothing and needs no room. */
export function explainProbe(text: ProbeText, where: ProbeWhere): ProbeExplanation {
  const place = text.validate(where);
  if (place.kind === 'refused') return { place, jump: null };
  if (place.site !== null) {
    const unserved = text.sites === null ? null : whyNotFtrace(text.sites, place.site);
    if (unserved !== null) return { place: unserved, jump: null };
    const reason = 'probes on ftrace sites are served by ftrace, without a breakpoint or jump';
    return { place, jump: refuse('EINVAL', 'site-in-window', 'K-ADDR-7', reason) };
  }
  const { optimization } = text.support;
  if (optimization.kind === 'none') {
    return { place, jump: refuse('ENOSYS', 'no-optimization', 'K-OPT-10', optimization.reason) };
  }
  const windows = jumpWindows(optimization, place.code, place.address);
  if ('kind' in windows) return { place, jump: windows };
  return { place, jump: windows[0] ?? null };
}

/** A refusal in a sentence. */
export const refusalText = ({ reason, code, errno, rule }: ProbeRefusal): string =>
  `${reason} (${code}, ${errno}) [${rule}]`;
