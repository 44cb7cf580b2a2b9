/** What who carries a plan out should know, beside what it changes. */
import { readModuleSignature } from '../elf/signature.js';
import { keepsEmptyRecord } from '../patch/apply.js';
import type { Plan } from '../patch/plan.js';
import { someStep, stepCount } from '../patch/step-columns.js';
import type { Sites } from '../sites/sites.js';
import type { SiteIndex } from '../units.js';
import type { OpenedImage } from './open.js';
import type { PatchRequest } from './request.js';

/** Names in a notice; JSON has all of them. */
const NAMES = 8;

/** What is to be known of a plan on an image. */
export function planNotices(plan: Plan, opened: OpenedImage, request: PatchRequest): string[] {
  return [
    ...(plan.notices ?? []),
    ...tableNotice(plan, opened),
    ...formNotice(plan, opened, request),
    ...initialisedNotice(plan),
    ...undefinedNotice(plan),
  ];
}

/**
 * What a kernel with dynamic ftrace does with a module or image whose table still names changed
 * sites: it loads it, reports ftrace_bug, and function tracing is dead until the next boot. Tried
 * on x86-64, PowerPC and arm64 kernels.
 */
function tableNotice(plan: Plan, { program, sites }: OpenedImage): string[] {
  const kernel = program.isModule || sites.tables.some((table) => table.name === '__start_mcount_loc');
  if (!kernel || plan.untraced !== undefined || plan.changed === 0) return [];
  if (!sites.tables.some(({ role, position }) => role === 'sites' && (position[0] ?? -1) >= 0)) return [];
  // Stubs out of line are written again at start, whatever they hold; the sites are as they were.
  const touched = someStep(plan, (step) => step.kind !== 'store' || ownsAddress(sites, step.site, step.address));
  if (!touched) return [];
  return [
    `the site table still names the ${plan.changed} changed sites: a kernel with dynamic ftrace that loads this file stops function ` +
      'tracing until it is rebooted; take them out of the table with --untrace',
  ];
}

/** False for a store that is elsewhere than at its site. */
function ownsAddress(sites: Sites, site: SiteIndex, address: bigint): boolean {
  const reading = sites.reading(site);
  if (reading === null) return true;
  const start = sites.anchor[site]! + BigInt(reading.startDelta);
  return address >= start && address < start + BigInt(reading.sizeBytes);
}

/** What a chosen form of sites leaves open on a running system. */
function formNotice(plan: Plan, { arch }: OpenedImage, { machine }: PatchRequest): string[] {
  return arch.options.flatMap(({ name, hazards }) => {
    const hazard = hazards?.[machine[name] ?? ''];
    return hazard !== undefined && someStep(plan, ({ rule }) => rule === hazard.rule) ? [hazard.text] : [];
  });
}

/** C-INIT-2: what an image of `load` gets beside what was asked. */
export function initialisedNotice({ initialised = [] }: Plan): string[] {
  if (initialised.length === 0) return [];
  const more = initialised.length - NAMES;
  const names = initialised.slice(0, NAMES).join(', ') + (more > 0 ? ` and ${more} more` : '');
  return [
    `${initialised.length} sites that nobody traces became nops, as in a kernel that starts: ${names} [C-INIT-2]`,
  ];
}

/** Names of --entry and --ops that the file did not have. */
function undefinedNotice({ additions }: Plan): string[] {
  const symbols = additions?.symbols ?? [];
  if (symbols.length === 0) return [];
  return [`the file defines no ${symbols.join(', no ')}: undefined symbols of it now, for a linker or loader to find`];
}

/** Why a file in which nothing was to be done has no record. */
export function copyNotice(plan: Plan, { image, record }: OpenedImage, beside: boolean): string[] {
  if (stepCount(plan) > 0 || plan.additions !== undefined || record !== null) return [];
  if (keepsEmptyRecord(plan, image, record, beside)) return [];
  const why = readModuleSignature(image.bytes) ? 'its signature holds' : 'it has no room for one';
  return [`nothing was to be changed: the output is a copy without a record, because ${why}`];
}
