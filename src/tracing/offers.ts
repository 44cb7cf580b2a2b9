/**
 * What the entries of an image offer to the core, and which variants of the mechanism follow from
 * them.
 */
import { laidPolicy } from '../machine/options.js';
import type { Backend, Capabilities, Policy } from '../ftrace/index.js';
import { entryPoint } from '../program/entry-points.js';
import { type Program, trampolineSection } from '../program/program.js';
import type { Sites } from '../sites/sites.js';
import type { Address } from '../units.js';
import { conventionOf, entriesOf } from './entries.js';

const hasTrampolines = ({ program }: Sites): boolean =>
  program.arch.trampolines.kind === 'private' && program.image.section(trampolineSection) !== undefined;

/**
 * What follows from the entries of an image for the variants of the mechanism; what the caller says
 * comes first.
 */
export function policyOf(sites: Sites): Partial<Policy> {
  const { trampolines, options } = sites.program.arch;
  const laid = laidPolicy(options, sites.program.loadMap?.options ?? {});
  if (trampolines.kind === 'none') return laid;
  const { kind, graph } = entriesOf(sites.program);
  return {
    trampolines: hasTrampolines(sites) ? trampolines.variantOf(kind) : 'none',
    // Entries with an entry or a jump for the graph tracer have one; who asks for 2014 gets its
    // borrowing too (C-FG-4).
    ...(graph === 'branch' ? { graph: 'single' as const } : {}),
    ...laid,
  };
}

/**
 * What the entries of an image offer (F-11): what their convention says, less what the image lacks.
 * @throws ElftraceError 'no-runtime' for entries of no convention of the machine
 */
export function capabilitiesOf(sites: Sites): Capabilities {
  const { program } = sites;
  const { capabilities, lacking } = conventionOf(program);
  const { trampolines } = laidPolicy(program.arch.options, program.loadMap?.options ?? {});
  const own = {
    ...capabilities,
    trampolines: capabilities.trampolines && hasTrampolines(sites),
    // T-X86-4: the static entry of the graph tracer stands in a trampoline's place.
    ...(capabilities.graph === 'trampoline' && trampolines === 'none' ? { graph: 'jump' as const } : {}),
  };
  return lacking.reduce<Capabilities>(
    (known, less) => (entryPoint(program, less.symbol) === null ? { ...known, ...less.capabilities } : known),
    own,
  );
}

/** Text addresses of the runtime that ops objects name; 0 for what an image does not have. */
export function runtimeSymbols(program: Program): Backend['symbols'] {
  const optional = (symbol: string): Address => entryPoint(program, symbol)?.identity ?? 0n;
  const plainEntry = optional('ftrace_caller');
  return {
    directHelper: optional('ftrace_direct_func'),
    graphFunction: optional('ftrace_graph_func'),
    graphEntry: optional('ftrace_graph_caller'),
    plainEntry,
    listEntry: optional('ftrace_list_caller'),
    registerEntry: entryPoint(program, 'ftrace_regs_caller')?.identity ?? plainEntry,
  };
}
