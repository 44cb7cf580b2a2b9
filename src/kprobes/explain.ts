/** Whether a place can have a probe, how its instruction would be executed, and whether a jump can take the place of the breakpoint. */
import type { EntryFlavour } from '../machine/loader.js';
import type { TargetId } from '../machine/target.js';
import { readElf } from '../elf/read.js';
import { flavourFor } from '../tracing/inject.js';
import { entryPoint } from '../patch/routes.js';
import type { Sites } from '../sites/sites.js';
import { entriesOf } from '../tracing/tracing.js';
import { runtimeFlavours, runtimeObject } from '../runtime/index.js';
import type { ProbeWhere } from './events.js';
import type { JumpWindow, ProbeRefusal } from '../machine/probes.js';
import { jumpWindows, refuse } from '../machine/probes.js';
import type { ProbeText, ValidProbe } from './validate.js';

export interface ProbeExplanation {
  readonly place: ValidProbe | ProbeRefusal;
  /** The way to optimise that would be tried first, or the rule that forbids it; null where there is no probe at all. */
  readonly jump: JumpWindow | ProbeRefusal | null;
}

/** By target and flavour: asked for each site, and the objects do not change. */
const passing = new Map<string, boolean>();

/** The entry of a flavour passes registers to a probe: its runtime has the callback for that. */
function passesRegisters(target: TargetId, flavour: EntryFlavour): boolean {
  const key = `${target}/${flavour}`;
  let passes = passing.get(key);
  if (passes === undefined) {
    const bytes = runtimeObject(target, flavour, true);
    passes = bytes !== null && readElf(bytes).symbols.find('elftrace_probe_ftrace') > 0;
    passing.set(key, passes);
  }
  return passes;
}

/**
 * Why a probe at a site cannot be served by ftrace (K-ADDR-7): the entry that the image has, or would get, passes no registers. The reason names those that
 * would do it. null: it can, or what the entry will be is not decided yet.
 */
export function whyNotFtrace(sites: Sites, index: number): ProbeRefusal | null {
  const { program } = sites;
  const { id } = program.arch.target;
  const reading = sites.reading(index);
  if (program.relocatable || reading === null) return null;
  const flavours = runtimeFlavours(id);
  const own = entryPoint(program, 'ftrace_caller') === null ? null : entriesOf(program).kind;
  const flavour = own ?? flavourFor(sites, undefined, undefined, flavours[0] ?? null);
  if (passesRegisters(id, flavour)) return null;
  const served = sites.entriesOf(index, reading);
  const others = flavours.filter((each) => served.includes(each) && passesRegisters(id, each));
  // Where an option chooses the entry.
  const option = ({ arm64: '--a64-era', riscv64: '--riscv-site' } as Partial<Record<TargetId, string>>)[id];
  const names = others.map((each) => (option === undefined ? each : `${each} (${option}=${each})`));
  const hint = names.length === 0 ? 'and none that serves the site does' : `${names.join(', ')} would`;
  return refuse('EINVAL', 'no-ftrace-support', 'K-ADDR-7', `the entry ${flavour} passes no registers, ${hint}`);
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
    return { place, jump: refuse('ENOSYS', 'no-optimization', 'section 7', optimization.reason) };
  }
  const windows = jumpWindows(optimization, place.code, place.address);
  if ('kind' in windows) return { place, jump: windows };
  return { place, jump: windows[0] ?? null };
}
