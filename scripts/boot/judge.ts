/**
 * What must be true of a boot. The kernel's own list with the original modules says what there is;
 * patterns that are read here, not by the product, say what must be gone.
 */
import type { Lines, Outcome, Report, Tracer } from './guest.js';
import { MODULES, type ModuleRow, type Phase, variantIn } from './machines.js';

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** Whether patterns (`*`, and `!` in front for an exception) select a name. */
export function selects(patterns: readonly string[], name: string): boolean {
  const fits = (pattern: string): boolean => new RegExp(`^${pattern.split('*').map(escaped).join('.*')}$`).test(name);
  return (
    patterns.some((each) => !each.startsWith('!') && fits(each)) &&
    !patterns.some((each) => each.startsWith('!') && fits(each.slice(1)))
  );
}

/** What no boot may leave in the log. A module without a signature taints the kernel: expected. */
const BAD_LOG =
  /ftrace bug|ftrace fault|ftrace fail|WARNING: |\bBUG\b|Oops|Unable to handle|Call Trace|cut here|disagrees about|[Ii]nvalid module|bad relocation|Unknown symbol|Kernel panic|Function tracing disabled/;

const TRACERS: readonly Tracer[] = ['function', 'function_graph'];

/** Modules that the exercise calls; the others are only loaded. */
const CALLED: readonly string[] = ['tun', 'loop', 'minix', 'isofs', 'ext4'];

/** A function of the kernel itself that every boot calls and none untraces. */
const WITNESS = 'path_openat';

const KERNEL = '-';

/** What a boot is compared with. */
export interface Expected {
  /** Of a boot of the kernel as delivered with a phase `original`: this one or an earlier one. */
  readonly original: Report;
  readonly phases: readonly Phase[];
  /** What was untraced of the vmlinux, or of interest in it. */
  readonly globs: readonly string[];
  /** The vmlinux of this boot was untraced. */
  readonly isVmlinuxChanged: boolean;
  /** How many functions of the vmlinux have a name, as nm says. */
  readonly symbols: ReadonlyMap<string, number>;
}

/** Lines of the kernel itself; null: the report has none. */
export function kernelLines(report: Report): Lines | null {
  return report.counts.get('begin')?.get(KERNEL) ?? null;
}

/** Names of a module in a phase, sorted. */
function namesOf(report: Report, phase: Phase, module: string): readonly string[] {
  return [...(report.names.get(phase)?.get(module) ?? [])].sort();
}

/** Of the names that the kernel lists for the original module, those that a phase must keep. */
function kept(phase: Phase, row: ModuleRow, original: readonly string[]): readonly string[] {
  const variant = variantIn(phase, row);
  if (variant === 'original') return original;
  return variant === 'whole' ? [] : original.filter((name) => !selects(row.part, name));
}

function difference(one: readonly string[], other: readonly string[]): string {
  const missing = one.filter((name) => !other.includes(name));
  const surplus = other.filter((name) => !one.includes(name));
  const show = (names: readonly string[]): string => names.slice(0, 5).join(' ') + (names.length > 5 ? ' …' : '');
  return `${String(missing.length)} missing (${show(missing)}), ${String(surplus.length)} too many (${show(surplus)})`;
}

/** Lines of available_filter_functions of one module in one phase. */
function listProblems(report: Report, from: Report, phase: Phase, row: ModuleRow): readonly string[] {
  const original = namesOf(from, 'original', row.name);
  const expected = kept(phase, row, original);
  const found = namesOf(report, phase, row.name);
  const problems: string[] = [];
  if ((original.length === 0) !== (row.part.length === 0)) problems.push('whether the original has functions');
  if (variantIn(phase, row) === 'part' && expected.length === original.length)
    problems.push('the patterns select nothing');
  if (found.join() !== expected.join()) {
    problems.push(
      `${String(found.length)} functions instead of ${String(expected.length)}: ${difference(expected, found)}`,
    );
  }
  const counted = (label: string): number => report.counts.get(label)?.get(row.name)?.lines ?? 0;
  for (const label of [phase, `${phase}.loading`]) {
    const lines = counted(label);
    if (lines !== expected.length)
      problems.push(`${label}: ${String(lines)} lines instead of ${String(expected.length)}`);
  }
  return problems.map((each) => `${phase}: ${row.name}: ${each}`);
}

/** Functions of a module in a trace; only function_graph names the module. */
function hitsOf(report: Report, from: Report, phase: Phase, tracer: Tracer, row: ModuleRow): readonly string[] {
  const hits = report.traces.get(`${phase}.${tracer}`)?.hits ?? new Set<string>();
  const names = new Set(namesOf(from, 'original', row.name));
  return [...hits]
    .map((each) => /^(\S+)(?: \[(.*)\])?$/.exec(each))
    .filter((each) => each !== null)
    .filter(([, name, module]) => names.has(name!) && (module ?? row.name) === row.name)
    .map((each) => each[1]!);
}

/** What both tracers recorded of one module in one phase. */
function traceProblems(report: Report, from: Report, phase: Phase, row: ModuleRow): readonly string[] {
  const problems: string[] = [];
  for (const tracer of TRACERS) {
    const original = hitsOf(from, from, 'original', tracer, row);
    const stay = kept(phase, row, original);
    const found = hitsOf(report, from, phase, tracer, row);
    const stray = found.filter((name) => kept(phase, row, [name]).length === 0);
    const say = (what: string): number => problems.push(`${phase}: ${tracer}: ${row.name}: ${what}`);
    if (stray.length > 0) say(`untraced functions were recorded: ${stray.join(' ')}`);
    if (CALLED.includes(row.name) && original.length === 0) say('nothing recorded of the original module');
    if (stay.length > 0 && found.length === 0) say(`nothing recorded, ${stay.slice(0, 5).join(' ')} expected`);
  }
  return problems;
}

/**
 * Selected names that a changed vmlinux still lists. Kernels name a site after the symbol in front
 * of it, however far that is, and so list the body of an overridden weak function, which has no
 * symbol, under the name of its neighbour: a name comes more often than there are functions.
 */
function leftovers({ original, symbols, isVmlinuxChanged }: Expected): readonly string[] {
  const names = original.names.get('begin')?.get(KERNEL) ?? [];
  if (!isVmlinuxChanged) return names.toSorted();
  const left = new Map(symbols);
  return names
    .filter((name) => {
      const functions = left.get(name) ?? 0;
      left.set(name, functions - 1);
      return functions <= 0;
    })
    .sort();
}

/**
 * The kernel's own functions: the same at every count, and a changed vmlinux lost the selected ones
 * and no other.
 */
function kernelProblems(report: Report, expected: Expected): readonly string[] {
  const first = kernelLines(report);
  const before = kernelLines(expected.original);
  if (first === null || before === null) return ['no count of functions'];
  const problems: string[] = [];
  for (const [label, modules] of report.counts) {
    const { lines, hash } = modules.get(KERNEL) ?? { lines: 0, hash: '' };
    if (lines !== first.lines || hash !== first.hash) {
      problems.push(`${label}: ${String(lines)} functions of the kernel, ${String(first.lines)} before`);
    }
  }
  if (report.counts.get('end')?.size !== 1) problems.push('end: functions of modules that are gone');
  if (before.selected === 0) problems.push('the patterns select no function of the kernel');
  const left = leftovers(expected);
  const found = (report.names.get('begin')?.get(KERNEL) ?? []).toSorted();
  if (found.join() !== left.join()) problems.push(`selected functions of the kernel: ${difference(left, found)}`);
  const lines = before.lines - before.selected + left.length;
  if (first.lines !== lines) {
    problems.push(`${String(first.lines)} functions of the kernel instead of ${String(lines)}`);
  }
  if (first.hash !== before.hash) problems.push('the functions that are left are not those that were not selected');
  return problems;
}

/**
 * The tracers work: events, a function that every boot passes; nothing of the kernel that was
 * untraced.
 */
function tracerProblems(report: Report, phase: Phase, expected: Expected): readonly string[] {
  const { original, globs, isVmlinuxChanged } = expected;
  const problems: string[] = [];
  for (const tracer of TRACERS) {
    const trace = report.traces.get(`${phase}.${tracer}`);
    const say = (what: string): number => problems.push(`${phase}: ${tracer}: ${what}`);
    if (trace === undefined || trace.events < 1000) {
      say(`${String(trace?.events ?? 0)} events`);
      continue;
    }
    if (!trace.hits.has(WITNESS)) say(`no ${WITNESS}`);
    const inKernel = [...trace.hits].filter((name) => !name.includes('[') && selects(globs, name));
    const own = new Set(MODULES.flatMap((row) => namesOf(original, 'original', row.name)));
    const selected = inKernel.filter((name) => !own.has(name));
    if (isVmlinuxChanged && selected.length > 0) say(`untraced functions were recorded: ${selected.join(' ')}`);
    if (!isVmlinuxChanged && selected.length === 0) say('none of the functions that a changed vmlinux would miss');
  }
  return problems;
}

/** Calls that must succeed, and that a phase does what the original does. */
function callProblems(report: Report, { phases }: Expected): readonly string[] {
  // Each phase calls once for each tracer.
  const count = phases.length * TRACERS.length;
  const size = report.calls.length / count;
  const rounds = Array.from({ length: count }, (_, at) => report.calls.slice(at * size, (at + 1) * size));
  const [first = []] = rounds;
  const problems = rounds.some((each) => each.join() !== first.join())
    ? ['calls end differently from phase to phase']
    : [];
  const mayFail = ['iso9660', 'ext4'];
  const failed = first.filter((each) => !each.endsWith('=0') && !mayFail.includes(each.slice(0, each.indexOf('='))));
  return [...problems, ...failed.map((each) => `call failed: ${each}`), ...(first.length === 0 ? ['no calls'] : [])];
}

/** Everything that is wrong with a boot; empty: it is as it must be. */
export function problemsOf(
  { report, fault }: Pick<Outcome, 'report' | 'fault'>,
  expected: Expected,
): readonly string[] {
  const { original, phases } = expected;
  const log = report.log.filter(({ text }) => BAD_LOG.test(text)).map(({ text }) => `log: ${text}`);
  const early = [...(fault === null ? [] : [fault]), ...(report.ended ? [] : ['the init did not come to its end'])];
  if (early.length > 0) return [...early, ...log];
  return [
    ...log,
    ...report.failures,
    ...kernelProblems(report, expected),
    ...callProblems(report, expected),
    ...phases.flatMap((phase) => tracerProblems(report, phase, expected)),
    ...phases.flatMap((phase) => MODULES.flatMap((row) => listProblems(report, original, phase, row))),
    ...phases.flatMap((phase) => MODULES.flatMap((row) => traceProblems(report, original, phase, row))),
  ];
}

/** Functions of all modules in a phase. */
export function moduleLines(report: Report, phase: Phase): number {
  return MODULES.reduce((sum, { name }) => sum + namesOf(report, phase, name).length, 0);
}
