/**
 * The entries of an image: which convention they are of, told by the runtime's symbols, and what
 * the image has beside them.
 */
import { conventionMark, type EntryConvention } from '../machine/conventions.js';
import { ElftraceError } from '../errors.js';
import { type EntryPoint, entryPoint } from '../program/entry-points.js';
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';

/** What an image has of the symbols of the runtime (RT-9). */
export interface Entries {
  /**
   * Convention of the entries; null for entries of a kernel's own whose convention only its sites
   * tell.
   */
  readonly convention: EntryConvention | null;
  /** Name of the convention, for people; `unknown` where there is none. */
  readonly kind: string;
  /**
   * Names of the conventions that the symbols fit, `kind` first: sites of these can call the
   * entries.
   */
  readonly serves: readonly string[];
  /** Whether the graph tracer is a callback or a branch in the entry. */
  readonly graph: 'callback' | 'branch';
  readonly caller: EntryPoint;
  /** The entry that saves all registers, or as many as there are; null where none passes any. */
  readonly registers: EntryPoint | null;
  /**
   * False for a kernel that has entries of its own and objects of another layout: only sites are
   * patched there.
   */
  readonly hasObjects: boolean;
}

/** How entries say what they call: a patched call, a pointer, the ops of the site. */
const calleeSymbols: readonly [string, ...string[]] = ['ftrace_call', 'ftrace_call_dest', 'ftrace_nop_ops'];
const objectSymbols: readonly string[] = [
  'ftrace_stub',
  'ftrace_ops_list',
  'ftrace_list_end',
  'ftrace_ops_list_func',
  'function_trace_op',
  'elftrace_data',
];

/** Asked for at each site; the symbols of a program stay what they are. */
const knownEntries = new WeakMap<Program, Entries>();

/**
 * The entries of an image.
 * @throws ElftraceError 'no-runtime' with the missing symbols when it has none
 */
export function entriesOf(program: Program): Entries {
  let entries = knownEntries.get(program);
  if (entries === undefined) {
    entries = findEntries(program);
    knownEntries.set(program, entries);
  }
  return entries;
}

function findEntries(program: Program): Entries {
  const caller = entryPoint(program, 'ftrace_caller');
  if (caller === null) {
    throw new ElftraceError('no-runtime', `the image has no tracing entries (missing: ftrace_caller, …)`, {
      symbol: 'ftrace_caller',
    });
  }
  const has = (symbol: string): boolean => entryPoint(program, symbol) !== null;
  const serves = conventionsOf(program, has);
  const convention = serves[0] ?? null;
  return {
    convention,
    kind: convention?.name ?? 'unknown',
    serves: serves.map(({ name }) => name),
    graph: convention === null || graphIsCallback(convention) ? 'callback' : 'branch',
    caller,
    registers: entryPoint(program, 'ftrace_regs_caller'),
    hasObjects: objectSymbols.every(has) && calleeSymbols.some(has),
  };
}

/**
 * The convention of an image's entries.
 * @throws ElftraceError 'no-runtime' when it has no entries, or those of no convention of the
 *   machine
 */
export function conventionOf(program: Program): EntryConvention {
  const { convention } = entriesOf(program);
  if (convention !== null) return convention;
  throw new ElftraceError(
    'no-runtime',
    `nothing tells the convention of the image's entries (of ${program.arch.target.title}: ${namesOf(program.arch.conventions)})`,
    { symbol: 'ftrace_caller', reason: 'unknown-convention' },
  );
}

const namesOf = (rows: readonly EntryConvention[]): string => rows.map(({ name }) => name).join(', ');

const graphIsCallback = ({ symbols }: EntryConvention): boolean => symbols.graph.includes('ftrace_graph_func');

/**
 * Conventions of the symbols that the image has: objects of ours may say it themselves; where two
 * have the same symbols the load map knows which it is. Empty where only its sites tell.
 */
function conventionsOf(program: Program, has: (symbol: string) => boolean): readonly EntryConvention[] {
  const { conventions } = program.arch;
  const marked = conventions.find(({ name }) => has(conventionMark(name)));
  if (marked !== undefined) return [marked];
  const fits = (groups: readonly ('entries' | 'graph')[]): EntryConvention[] =>
    conventions.filter(
      ({ toldBy, symbols }) => toldBy === 'symbols' && groups.every((group) => symbols[group].every(has)),
    );
  const recorded = program.loadMap?.options['convention'];
  for (const found of [fits(['entries', 'graph']), fits(['entries'])]) {
    const known = found.filter(({ name }) => name === recorded);
    if (known.length > 0) return known;
    if (found.length > 0) return found;
  }
  return [];
}

/**
 * Where the graph tracer's branch at an address leads while it is off: behind itself (R-MOD-5:
 * nops), or to the stub.
 * @throws ElftraceError 'no-runtime' for entries without such a branch
 */
export function graphOff(program: Program, at: Address): Address {
  const { graphOff: leads, name } = conventionOf(program);
  if (leads === 'behind') return at + BigInt(program.arch.branches.graph.sizeBytes);
  if (leads === 'stub') return entryPoint(program, 'ftrace_stub')!.address;
  throw new ElftraceError('no-runtime', `entries of the convention ${name} have no branch for the graph tracer`, {
    symbol: 'ftrace_graph_call',
  });
}

/** Entries of a kernel's own, with the convention that its sites tell. */
export function withConvention(entries: Entries, convention: EntryConvention): Entries {
  const graph = graphIsCallback(convention) ? 'callback' : 'branch';
  return { ...entries, convention, kind: convention.name, serves: [convention.name], graph };
}

/**
 * A session keeps its ops, hashes and probes in the objects of elftrace's runtime. Kernels have
 * entries of their own and objects of another layout, which only a kernel that runs can fill.
 * @throws ElftraceError 'no-runtime' with the missing symbols
 */
export function requireObjects(program: Program): void {
  if (entriesOf(program).hasObjects) return;
  const missing = objectSymbols.filter((symbol) => entryPoint(program, symbol) === null);
  if (!calleeSymbols.some((symbol) => entryPoint(program, symbol) !== null)) missing.push(calleeSymbols[0]);
  throw new ElftraceError(
    'no-runtime',
    `sessions, probes, direct callers, livepatches, race and cost need the objects of elftrace's runtime, and the image has entries of its own ` +
      `without them (missing: ${missing.join(', ')}); --nop, --init and --enable work on its sites`,
    { symbol: missing[0]!, reason: 'own-entries' },
  );
}

/**
 * Objects, and pointers in front of functions, name addresses: a file that is loaded anywhere would
 * need a relocation for each, those of pointers in its text (DT_TEXTREL).
 * @throws ElftraceError 'unsupported-form' for position-independent files with objects
 */
export function requireFixedAddresses({ positionIndependent }: Program, { hasObjects }: Entries): void {
  if (!positionIndependent || !hasObjects) return;
  throw new ElftraceError(
    'unsupported-form',
    'the tracing objects of a position-independent file hold addresses, which would need relocations (in its text too: DT_TEXTREL): link it with fixed addresses',
  );
}
