/**
 * The image that a request is about: the file itself, or one with the tracing entries that the
 * request needs. And whether entries that are there already are those that were asked for.
 */
import { layoutChoices, type LaidPolicy, type MachineOption } from '../machine/options.js';
import { ElftraceError } from '../errors.js';
import { probeRoomFor } from '../kprobes/index.js';
import { entryPoint } from '../program/entry-points.js';
import { load } from '../program/program.js';
import { findSites } from '../sites/sites.js';
import { entriesOf } from '../tracing/entries.js';
import { withRuntime } from '../tracing/inject.js';
import { conventionAsked } from './forms.js';
import type { OpenedImage } from './open.js';
import type { PatchHost, PatchRequest } from './request.js';

/** A file, and whether a runtime was laid into it for the request. */
export interface PreparedImage extends OpenedImage {
  readonly injected: boolean;
}

/** The options that decide how entries are laid out. */
function layoutAsked({ arch }: OpenedImage, { machine }: PatchRequest): Readonly<Record<string, string>> {
  const names = layoutChoices(arch.options);
  return Object.fromEntries(Object.entries(machine).filter(([name]) => name in names));
}

/**
 * The file as it will be patched: itself, or an image of it that has the tracing entries which the
 * request needs.
 * @param probes  how many probes it gets; null: none
 */
export function prepared(
  opened: OpenedImage,
  selection: Uint8Array | undefined,
  request: PatchRequest,
  host: PatchHost,
  probes: number | null = null,
): PreparedImage {
  const { program } = opened;
  // RT-2: the linker or loader finds the entry that is named.
  if (request.entry !== undefined || entryPoint(program, 'ftrace_caller') !== null) {
    return { ...opened, injected: false };
  }
  if (opened.record !== null) {
    throw new ElftraceError(
      'unsupported-form',
      'the file was patched before and has no tracing entries: revert it first',
    );
  }
  const { mcount, table } = request.names;
  // Words in front of functions are asked for by name: without them there is an error.
  const convention = conventionAsked(opened, request);
  const room = probes === null ? undefined : probeRoomFor(probes);
  const image = withRuntime(opened.sites, selection, host.hash, convention, layoutAsked(opened, request), room);
  const laidIn = load(image, opened.arch, {
    ...(mcount ? { mcountNames: mcount } : {}),
    ...(opened.symbols ? { symbols: opened.symbols } : {}),
  });
  const sites = findSites(laidIn, { record: null, ...(table ? { tableSections: table } : {}) });
  return { ...opened, image, program: laidIn, sites, injected: true };
}

/** The option by which a layout decides something for sessions. */
const optionAbout = (options: readonly MachineOption[], policy: keyof LaidPolicy): MachineOption | undefined =>
  options.find((each) => Object.values(each.policy ?? {}).some((laid) => laid[policy] !== undefined));

/** An image has the entries of one time: those of another are laid in anew. */
function checkLayout({ program }: OpenedImage, option: string, value: string): void {
  const has = program.loadMap?.options[option];
  if (has === value) return;
  throw new ElftraceError(
    'usage',
    has === undefined
      ? `--${option}=${value}: the image's entries were not laid in by elftrace`
      : `--${option}=${value}: the image was laid out with --${option}=${has}: revert it first, or load it anew`,
    { value },
  );
}

/**
 * Whether private trampolines may be made.
 * @throws ElftraceError 'usage' where those that were asked for are not those of the image
 */
export function trampolinesAsked(opened: OpenedImage, { machine }: PatchRequest): boolean {
  const option = optionAbout(opened.arch.options, 'trampolines');
  const value = option && machine[option.name];
  if (option === undefined || value === undefined) return true;
  if (option.policy?.[value]?.trampolines === 'none') return false;
  checkLayout(opened, option.name, value);
  return true;
}

/** @throws ElftraceError 'usage' where the image has not the entries of ops that were asked for */
export function checkOpsEntries(opened: OpenedImage, { machine }: PatchRequest): void {
  const { options, conventions } = opened.arch;
  const option = optionAbout(options, 'opsEntries');
  const value = option && machine[option.name];
  if (option === undefined || value === undefined) return;
  const { kind, convention } = entriesOf(opened.program);
  if (convention?.capabilities.callOps !== true) {
    const names = conventions.filter(({ capabilities }) => capabilities.callOps).map(({ name }) => name);
    throw new ElftraceError(
      'usage',
      `--${option.name}=${value} is about entries that read an ops pointer (${names.join(', ')}), those of the image are ${kind}`,
      { value },
    );
  }
  checkLayout(opened, option.name, value);
}
