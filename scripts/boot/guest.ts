/**
 * One boot: the plan for the init, qemu with a limit in seconds, and what the init said, read into
 * a report. Nothing is judged here.
 */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { archive } from './initrd.js';
import { MODULES, type Machine, type ModuleRow, type Phase } from './machines.js';

const TRACING = '/sys/kernel/tracing';
export type Tracer = 'function' | 'function_graph';

const write = (file: string, text: string): string => `write ${TRACING}/${file} ${text}`;

/** Calls into every module: `isofs` and `ext4` look at a file system that is not theirs. */
const EXERCISE = [
  'tun',
  'attach /minix.img',
  'mount iso9660',
  'mount ext4',
  'mount minix',
  'touch',
  'umount',
  'detach',
];

const pathOf = (phase: Phase, module: string): string => `/modules/${phase}/${module}.ko`;

/**
 * Steps of one phase: load, count, trace; unload and load with the tracer on; trace with the other
 * tracer, unload with it on. All functions are switched four times, which is what takes the time.
 */
function phaseSteps(phase: Phase, lists: Lists, probed: readonly string[]): readonly string[] {
  const names = MODULES.map(({ name }) => name);
  const loads = names.map((name) => `load ${pathOf(phase, name)}`);
  const unloads = names.toReversed().map((name) => `unload ${name}`);
  const traced = (tracer: Tracer): readonly string[] => [
    write('current_tracer', tracer),
    write('tracing_on', '1'),
    ...EXERCISE,
    write('tracing_on', '0'),
    `trace ${phase}.${tracer}`,
  ];
  return [
    `say ${phase}`,
    ...loads,
    `names ${phase}`,
    ...(phase === 'original' ? [...lists.keys()].map((list) => `compare ${list} ${LISTS[list]}`) : []),
    ...(phase === 'original' && probed.length > 0 ? probeSteps(probed) : []),
    ...traced('function'),
    ...unloads,
    ...loads,
    `count ${phase}.loading`,
    ...traced('function_graph'),
    ...unloads,
    write('current_tracer', 'nop'),
  ];
}

/** A probe at each of these functions, one after the other; none stays. */
const probeSteps = (probed: readonly string[]): readonly string[] => [
  ...probed.map((name) => `probe ${name}`),
  write('kprobe_events', '').trimEnd(),
];

/** Lists that the kernel's own are compared with, by their path. */
export type ListName = '/why/functions' | '/why/blacklist';
export type Lists = ReadonlyMap<ListName, readonly string[]>;
const LISTS: Readonly<Record<ListName, string>> = {
  '/why/functions': `${TRACING}/available_filter_functions`,
  '/why/blacklist': '/sys/kernel/debug/kprobes/blacklist',
};

/**
 * The plan of a boot with these phases; lists are compared and probes are tried while the originals
 * are loaded.
 */
export function planOf(phases: readonly Phase[], lists: Lists = new Map(), probed: readonly string[] = []): string {
  const steps = [
    write('tracing_on', '0'),
    write('buffer_size_kb', '8192'),
    'names begin',
    ...phases.flatMap((phase) => phaseSteps(phase, lists, probed)),
    'count end',
    'kmsg',
  ];
  return `${steps.join('\n')}\n`;
}

export interface Boot {
  readonly machine: Machine;
  readonly kernel: string;
  readonly phases: readonly Phase[];
  readonly kaslr: boolean;
  readonly processors: number;
  readonly init: Uint8Array;
  readonly minix: Uint8Array;
  /** Bytes of a module's file in a phase. */
  readonly module: (phase: Phase, row: ModuleRow) => Uint8Array;
  /** What `count` counts apart in the kernel itself. */
  readonly globs: readonly string[];
  readonly lists: Lists;
  /** Functions of the kernel where a probe is tried. */
  readonly probed: readonly string[];
  /** Wall clock. */
  readonly seconds: number;
  /** Folder for the initrd, the console's text and the command. */
  readonly folder: string;
}

/** Lines of available_filter_functions that belong to a module, or to the kernel itself (`-`). */
export interface Lines {
  readonly lines: number;
  /** How many of them the boot's globs select; of the kernel itself only. */
  readonly selected: number;
  /** Of those that are not selected. */
  readonly hash: string;
}

/** What a boot said. */
export interface Report {
  /** The init performed its last step. */
  readonly ended: boolean;
  /**
   * Steps that failed, as `load /modules/mixed/tun.ko: errno 8`; those of EXERCISE are in `calls`.
   */
  readonly failures: readonly string[];
  /** Error numbers of the calls into modules, in order, as `mount=0`. */
  readonly calls: readonly string[];
  /** By label of `count` or `names`, then by module. */
  readonly counts: ReadonlyMap<string, ReadonlyMap<string, Lines>>;
  /** By label of `names`, then by module; a name may come several times. */
  readonly names: ReadonlyMap<string, ReadonlyMap<string, readonly string[]>>;
  /** By list: lines that only the kernel has, and those that only the list has. */
  readonly lists: ReadonlyMap<string, ListDifference>;
  /** By function where a probe was tried: the error number; 0: there was one. */
  readonly probes: ReadonlyMap<string, number>;
  /** By label of `trace`: functions as `name` or `name [module]`. */
  readonly traces: ReadonlyMap<string, Trace>;
  /** The kernel's log: level and text. */
  readonly log: readonly LogLine[];
}
export interface ListDifference {
  readonly surplus: readonly string[];
  readonly missing: readonly string[];
}
export interface Trace {
  readonly events: number;
  readonly functions: number;
  readonly hits: ReadonlySet<string>;
}
export interface LogLine {
  readonly level: number;
  readonly text: string;
}

const inner = <T>(map: Map<string, Map<string, T>>, key: string): Map<string, T> => {
  const known = map.get(key) ?? new Map<string, T>();
  map.set(key, known);
  return known;
};

/** Reads the console's text. Lines that are not the init's are left out: kernels talk there too. */
export function readReport(text: string): Report {
  const failures: string[] = [];
  const calls: string[] = [];
  const counts = new Map<string, Map<string, Lines>>();
  const names = new Map<string, Map<string, string[]>>();
  const traces = new Map<string, { events: number; functions: number; hits: Set<string> }>();
  const lists = new Map<string, { surplus: string[]; missing: string[] }>();
  const probes = new Map<string, number>();
  const log: LogLine[] = [];
  let ended = false;
  const listOf = (list: string): { surplus: string[]; missing: string[] } => {
    const known = lists.get(list) ?? { surplus: [], missing: [] };
    lists.set(list, known);
    return known;
  };
  const traceOf = (label: string): { events: number; functions: number; hits: Set<string> } => {
    const known = traces.get(label) ?? { events: 0, functions: 0, hits: new Set<string>() };
    traces.set(label, known);
    return known;
  };
  for (const line of text.split(/\r*\n/)) {
    const at = line.indexOf('@@ ');
    if (at < 0) continue;
    const [kind = '', first = '', second = '', ...rest] = line.slice(at + 3).split(' ');
    if (kind === 'end') ended = true;
    else if (kind === 'name') {
      const of = inner(names, first);
      of.set(second, [...(of.get(second) ?? []), rest.join(' ')]);
    } else if (kind === 'lines') {
      const [lines, selected, hash = ''] = rest;
      inner(counts, first).set(second, { lines: Number(lines), selected: Number(selected), hash });
    } else if (kind === 'hit')
      traceOf(first).hits.add(second === '-' ? rest.join(' ') : `${rest.join(' ')} [${second}]`);
    else if (kind === 'traced') Object.assign(traceOf(first), { events: Number(second), functions: Number(rest[0]) });
    else if (kind === 'surplus' || kind === 'missing') listOf(first)[kind].push([second, ...rest].join(' '));
    else if (kind === 'probe') probes.set(first, Number(second));
    else if (kind === 'call') calls.push(`${first}=${second}`);
    else if (kind === 'log') {
      const record = /^@@ log (\d+),[^;]*;(.*)$/.exec(line.slice(at));
      if (record !== null) log.push({ level: Number(record[1]) & 7, text: record[2]! });
    } else if (['write', 'load', 'unload', 'count', 'compare', 'trace', 'unknown', 'mounting'].includes(kind)) {
      if (kind === 'compare' && second === '0') listOf(first);
      if (second !== '0') failures.push(`${kind} ${first}: errno ${second}`);
    }
  }
  return { ended, failures, calls, counts, names, lists, probes, traces, log };
}

/** A host with other work makes everything late, which is no fault of the kernel. */
const PATIENCE = ['nowatchdog', 'rcupdate.rcu_cpu_stall_suppress=1', 'sysctl.kernel.hung_task_timeout_secs=0'];

/** Kernel, initrd and command line for qemu. */
function command(boot: Boot, initrd: string): readonly string[] {
  const { machine, kernel, kaslr, processors } = boot;
  const options = [
    `console=${machine.console}`,
    'panic=-1',
    'loglevel=1',
    ...PATIENCE,
    ...machine.parameters,
    ...(kaslr ? [] : ['nokaslr']),
  ];
  return [
    ...machine.qemu,
    ...['-smp', String(processors), '-kernel', kernel, '-initrd', initrd, '-append', options.join(' ')],
  ];
}

export interface Outcome {
  readonly report: Report;
  readonly seconds: number;
  /** null: qemu ended by itself with status 0; else what happened to it. */
  readonly fault: string | null;
  /** The console's text. */
  readonly text: string;
}

/** Boots. The initrd, the command and the console's text stay in the folder. */
export async function boot(request: Boot): Promise<Outcome> {
  const files = new Map<string, Uint8Array>([
    ['init', request.init],
    ['minix.img', request.minix],
    ['plan', Buffer.from(planOf(request.phases, request.lists, request.probed))],
    ['globs', Buffer.from(`${request.globs.join('\n')}\n`)],
    ['interest', Buffer.from(`${interest(request.globs).join('\n')}\n`)],
  ]);
  // A list without a line is an empty file, not one of an empty name.
  for (const [list, lines] of request.lists)
    files.set(list.slice(1), Buffer.from(lines.map((line) => `${line}\n`).join('')));
  const entries = request.phases.flatMap((phase) => MODULES.map((row) => [phase, row] as const));
  for (const [phase, row] of entries) files.set(pathOf(phase, row.name).slice(1), request.module(phase, row));
  const initrd = join(request.folder, 'initrd');
  writeFileSync(initrd, archive(files));
  const [program, ...args] = command(request, initrd);
  writeFileSync(join(request.folder, 'command'), `${[program, ...args].map((each) => `'${each}'`).join(' ')}\n`);
  const begin = performance.now();
  const { text, fault } = await runFor(request.seconds, program!, args);
  writeFileSync(join(request.folder, 'console'), text, 'latin1');
  return { report: readReport(text), seconds: (performance.now() - begin) / 1000, fault, text };
}

/** Whose lines of a trace are printed. */
function interest(globs: readonly string[]): readonly string[] {
  return [...globs, 'path_openat', ...MODULES.flatMap(({ prefixes }) => prefixes.map((each) => `${each}*`))];
}

function runFor(
  seconds: number,
  program: string,
  args: readonly string[],
): Promise<{ readonly text: string; readonly fault: string | null }> {
  return new Promise((done) => {
    const child = spawn(program, [...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    const pieces: Buffer[] = [];
    let isLate = false;
    let fault: string | null = null;
    child.stdout.on('data', (piece: Buffer) => pieces.push(piece));
    child.stderr.on('data', (piece: Buffer) => pieces.push(piece));
    const timer = setTimeout(() => {
      isLate = true;
      child.kill('SIGKILL');
    }, seconds * 1000);
    child.on('error', (error) => {
      fault = error.message;
    });
    child.on('close', (status, signal) => {
      clearTimeout(timer);
      if (isLate) fault = `not done after ${String(seconds)} s`;
      else if (status !== 0) fault ??= `qemu ended with ${String(status ?? signal)}`;
      done({ text: Buffer.concat(pieces).toString('latin1'), fault });
    });
  });
}
