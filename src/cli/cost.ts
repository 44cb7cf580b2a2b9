/**
 * `elftrace cost IMAGE`: what a traced call costs, in instructions, when other tracers are
 * registered that do not want it. One tracer counts every function but one; more and more tracers
 * are added that want only that other one. The ways to the callback are those that were argued
 * about:
 *
 *   shared entry        two tracers mean the list, which asks each of them at every call
 *   private trampoline  code of its own for each tracer (x86-64, of 2014 and of today): pays for
 *                       no other tracer
 *   per-callsite ops    one entry, and the tracer's ops in front of each function (arm64, RISC-V):
 *                       the same without code
 *   direct call         no tracer: the site calls one routine, here one that goes on at once
 *
 * Cost of a call = (instructions with the tracer and the others) - (instructions with the others
 * alone), by calls counted. A way that the machine or the file does not have is named with the
 * reason.
 */
import type { Arch } from '../machine/arch.js';
import type { ConventionName } from '../machine/conventions.js';
import type { MachineOptions } from '../machine/loader.js';
import { PT_LOAD } from '../elf/constants.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import type { Policy } from '../ftrace/index.js';
import { withRuntime } from '../tracing/inject.js';
import { entryPoint } from '../patch/routes.js';
import { Session } from '../tracing/session.js';
import { entriesOf } from '../tracing/entries.js';
import { type Machine, startProcess } from '../emulator/index.js';
import { load } from '../program/program.js';
import { jsonSchema } from '../report/json.js';
import { OPS_WORDS } from '../runtime/index.js';
import { exitCodes } from './exit.js';
import { readInput } from './files.js';
import { commandDeadline, commandLimits } from './limits.js';
import { hash, open, type Opened, type OpenOptions } from './open.js';
import { out } from './terminal.js';

export interface CostArguments extends OpenOptions {
  readonly path: string;
  readonly arguments: readonly string[];
  readonly tracers: readonly number[];
  readonly json: boolean;
}

type WayName = 'shared entry' | 'private trampoline, 2014' | 'private trampoline' | 'per-callsite ops' | 'direct call';

/** A way to the callback: how the image is laid out, and what the core may make. */
interface Way {
  readonly name: WayName;
  readonly image: Uint8Array;
  readonly policy: Partial<Policy>;
}

/** A way that cannot be measured here, and why. */
interface Absent {
  readonly way: WayName;
  readonly reason: string;
}

/** Names of the machine's entries that read the ops in front of the function. */
const opsEntries = ({ conventions }: Arch): readonly string[] =>
  conventions.filter(({ capabilities }) => capabilities.callOps).map(({ name }) => name);

interface Measured {
  readonly instructions: number;
  /** Calls that the tracer counted, and those that the others did. */
  readonly counted: number;
  readonly others: number;
  readonly listRuns: number;
  /** A private trampoline was made for the tracer. */
  readonly trampoline: boolean;
}

/** Instructions between two looks at the clock. */
const SLICE = 2_000_000;

/** Most tracers besides the one that is measured: there is room for sixteen objects. */
const MOST = 15;

interface Ways {
  readonly arch: Arch;
  readonly ways: readonly Way[];
  readonly absent: readonly Absent[];
}

/** The images to measure on, by what the machine can. */
async function waysOf(args: CostArguments): Promise<Ways> {
  const input = await readInput(args.path, 'read');
  const opened = await open(input, args);
  const { arch, program } = opened;
  if (arch.emulation.kind === 'none') throw new ElftraceError('unsupported-form', arch.emulation.reason);
  if (opened.record !== null) {
    throw new ElftraceError('unsupported-form', 'the file is patched: revert it, cost lays its own tracers in');
  }
  const all = entryPoint(program, 'ftrace_caller') !== null ? waysThrough(opened) : waysInto(opened);
  const noDirect: Absent[] =
    arch.directCallers.kind === 'none' ? [{ way: 'direct call', reason: arch.directCallers.reason }] : [];
  // The first of them that the core accepts.
  const bases =
    noDirect.length > 0 ? [] : ['per-callsite ops', 'shared entry', 'private trampoline', 'private trampoline, 2014'];
  const direct = bases.flatMap((base): Way[] =>
    all.ways
      .filter(({ name }) => name === base)
      .map(({ image }) => ({ name: 'direct call', image, policy: { trampolines: 'none' } })),
  );
  return { arch, ways: [...all.ways, ...direct], absent: [...all.absent, ...noDirect] };
}

/** Why a machine has no ops in front of functions; null: it may. */
function whyNoSiteOps(arch: Arch): string | null {
  const { siteShapes, target } = arch;
  if (siteShapes.some(({ entries }) => opsEntries(arch).some((each) => entries.includes(each)))) return null;
  return `${target.title} has no entry that reads ops in front of functions`;
}

/** An image with entries of its own: they are of one convention. */
function waysThrough({ arch, program, image }: Opened): Omit<Ways, 'arch'> {
  const { kind } = entriesOf(program);
  const way = (name: WayName, policy: Partial<Policy> = {}): Way => ({ name, image: image.bytes, policy });
  const ways: Way[] = [];
  const absent: Absent[] = [];
  if (opsEntries(arch).includes(kind)) {
    absent.push({ way: 'shared entry', reason: `the image's entries are of kind ${kind}: they read per-callsite ops` });
  } else ways.push(way('shared entry', { trampolines: 'none' }));
  if (arch.trampolines.kind === 'none') {
    absent.push({ way: 'private trampoline', reason: arch.trampolines.reason });
  } else {
    ways.push(
      way(program.loadMap?.options['x86-tramp'] === '2014' ? 'private trampoline, 2014' : 'private trampoline'),
    );
  }
  const reason = whyNoSiteOps(arch);
  if (opsEntries(arch).includes(kind)) ways.push(way('per-callsite ops'));
  else {
    absent.push({ way: 'per-callsite ops', reason: reason ?? `the image's entries are of kind ${kind}` });
  }
  return { ways, absent };
}

/** A program that the entries are laid into: of each convention that its sites can call. */
function waysInto({ arch, sites }: Opened): Omit<Ways, 'arch'> {
  const laid = (machine: MachineOptions, preferred?: ConventionName): Uint8Array =>
    withRuntime(sites, undefined, hash, preferred, machine).bytes;
  const served = new Set<string>();
  for (let i = 0; i < sites.count; i++) {
    const reading = sites.reading(i);
    if (reading !== null && reading.state !== 'foreign') {
      for (const entry of sites.entriesOf(i, reading)) served.add(entry);
    }
  }
  const absent: Absent[] = [];
  const ways: Way[] = [];
  const shared = (image: Uint8Array): Way => ({ name: 'shared entry', image, policy: { trampolines: 'none' } });
  if (arch.trampolines.kind === 'none') {
    // Entries that read no ops of sites; of those the ones that can go on to direct callers.
    const rows = arch.conventions.filter(({ name, capabilities }) => served.has(name) && !capabilities.callOps);
    const preferred = rows.find(({ capabilities }) => capabilities.direct === 'any');
    const isRead = opsEntries(arch).some((each) => served.has(each));
    ways.push(shared(laid({}, (preferred ?? (isRead ? rows[0] : undefined))?.name)));
    absent.push({ way: 'private trampoline', reason: arch.trampolines.reason });
  } else {
    ways.push(shared(laid({ 'x86-tramp': 'none' })));
    for (const tramp of ['2014', 'modern'] as const) {
      const bytes = laid({ 'x86-tramp': tramp });
      const made = load(readElf(bytes), arch).loadMap?.options['convention'];
      const name = tramp === '2014' ? 'private trampoline, 2014' : 'private trampoline';
      // Calls of mcount have one kind of entry: it is of 2014 whatever is asked.
      if (tramp === 'modern' && made !== 'modern') {
        absent.push({ way: name, reason: 'calls of mcount behind the prologue have entries of 2014 only' });
      } else ways.push({ name, image: bytes, policy: {} });
    }
  }
  const flavour = opsEntries(arch).find((each) => served.has(each));
  if (flavour === undefined) {
    absent.push({
      way: 'per-callsite ops',
      reason:
        whyNoSiteOps(arch) ??
        'no site has room for an ops pointer (-fpatchable-function-entry=4,2 on arm64, 8,4 on RISC-V, 1 or 3,1 on PowerPC)',
    });
  } else ways.push({ name: 'per-callsite ops', image: laid({}, flavour), policy: {} });
  return { ways, absent };
}

function sessionOf(way: Way, arch: Arch): Session {
  return Session.open(way.image, arch, { policy: way.policy });
}

function expectDone(outcome: { readonly kind: string; readonly reason?: string }, what: string): void {
  if (outcome.kind !== 'done') {
    throw new ElftraceError('plan-refused', `${what}: ${outcome.reason ?? outcome.kind}`, { what });
  }
}

/** Runs the image of a session to its end. */
function execute(
  session: Session,
  arch: Arch,
  args: CostArguments,
  watched: ReadonlyMap<bigint, () => void>,
  /** Code that the image does not have. */
  more?: { readonly address: bigint; readonly code: Uint8Array },
): Machine {
  if (arch.emulation.kind === 'none') throw new ElftraceError('internal', arch.emulation.reason);
  const image = readElf(session.bytes());
  const { machine } = startProcess({
    image,
    abi: arch.abi,
    emulation: arch.emulation,
    args: [args.path, ...args.arguments],
    onOutput: () => undefined,
  });
  for (const [name, value] of Object.entries(session.sites.program.loadMap?.registers ?? {})) {
    machine.setRegister(name, value);
  }
  if (more) machine.load(more.address, more.code, { permission: 'rx', size: 0x1000 });
  for (const [address, seen] of watched) {
    machine.hook(address, () => {
      seen();
      return 'continue';
    });
  }
  const most = commandLimits().instructions;
  let stop = machine.run({ budget: Math.min(most, SLICE) });
  while (stop.kind === 'step-limit' && machine.instructions < most) {
    commandDeadline().check('counting instructions', { file: args.path });
    stop = machine.run({ budget: Math.min(most - machine.instructions, SLICE) });
  }
  if (stop.kind !== 'exit') {
    throw new ElftraceError(
      'unsupported-form',
      `the program did not end by itself (${stop.kind}): its calls cannot be counted`,
      {
        value: stop.kind,
      },
    );
  }
  return machine;
}

interface Quiet {
  readonly name: string;
  readonly calls: number;
  /** Functions that get a direct caller: each takes room in the runtime's tables. */
  readonly busiest: readonly string[];
}

const DIRECT_FUNCTIONS = 8;

/** The function that the other tracers want: the one that is called least, the first of several. */
function quietest(way: Way, arch: Arch, args: CostArguments): Quiet {
  const session = sessionOf(way, arch);
  const { sites } = session;
  const calls = new Map<bigint, number>();
  const watched = new Map<bigint, () => void>();
  const records = session.core.records.filter((each) => !each.skipped);
  for (const { ip } of records) calls.set(ip, 0);
  for (let i = 0; i < sites.count; i++) {
    const record = records.find(({ ip }) => ip >= sites.ip(i) && ip < sites.ip(i) + 16n);
    if (record) watched.set(sites.ip(i), () => calls.set(record.ip, calls.get(record.ip)! + 1));
  }
  execute(session, arch, args, watched);
  const [first, ...rest] = records;
  if (first === undefined || rest.length === 0) {
    throw new ElftraceError('no-match', 'cost needs two functions that a tracer can be called from');
  }
  let best = first;
  for (const each of rest) if (calls.get(each.ip)! < calls.get(best.ip)!) best = each;
  const byCalls = [...records].sort((a, b) => calls.get(b.ip)! - calls.get(a.ip)!);
  return {
    name: best.name,
    calls: calls.get(best.ip)!,
    busiest: byCalls.slice(0, DIRECT_FUNCTIONS).map(({ name }) => name),
  };
}

/**
 * A page beside the image that nothing lies on: below it, or behind the room that its heap may
 * take.
 */
function freePage(session: Session): bigint {
  const loaded = session.sites.program.image.segments.filter(({ type }) => type === PT_LOAD);
  const lowest = loaded.reduce((least, { address }) => (address < least ? address : least), loaded[0]?.address ?? 0n);
  if (lowest >= 0x4_0000n) return (lowest & ~0xffffn) - 0x1_0000n;
  const end = loaded.reduce(
    (most, { address, memorySize }) => (address + memorySize > most ? address + memorySize : most),
    0n,
  );
  return (end & ~0xffffn) + 0x100_0000n;
}

function measure(
  way: Way,
  arch: Arch,
  args: CostArguments,
  setting: { readonly quiet: Quiet; readonly others: number; readonly traced: boolean },
): Measured {
  const session = sessionOf(way, arch);
  const { core } = session;
  const func = session.functionAddress('elftrace_counter');
  if (func === null) throw new ElftraceError('no-runtime', 'the image has no elftrace_counter', {});
  const wanted = core.records.filter((each) => !each.skipped);
  const { name, busiest } = setting.quiet;
  const quiet = wanted.find((each) => each.name === name);
  if (quiet === undefined) {
    throw new ElftraceError('no-match', `${name} cannot call an entry of this kind`, { symbol: name });
  }
  const others = Array.from({ length: setting.others }, (_, i) => {
    const ops = core.createOps({ name: `other-${String(i)}`, func });
    expectDone(core.setFilterAddresses(ops, 'filter', [quiet.ip]), ops.name);
    expectDone(core.register(ops), ops.name);
    return ops;
  });
  let listRuns = 0;
  let directRuns = 0;
  const watched = new Map<bigint, () => void>();
  const list = session.functionAddress('ftrace_ops_list_func');
  if (list !== null) watched.set(list, () => listRuns++);
  const { directCallers } = arch;
  const isDirect = way.name === 'direct call' && directCallers.kind === 'code';
  const tracer = core.createOps({ name: 'tracer', func: isDirect ? 0n : func });
  let more: { readonly address: bigint; readonly code: Uint8Array } | undefined;
  if (isDirect && setting.traced) {
    more = { address: freePage(session), code: directCallers.goesOn };
    watched.set(more.address, () => directRuns++);
    const sites = wanted.filter((each) => each !== quiet && busiest.includes(each.name)).map(({ ip }) => ip);
    expectDone(core.setFilterAddresses(tracer, 'filter', sites), tracer.name);
    expectDone(core.registerDirect(tracer, more.address), tracer.name);
  } else if (setting.traced) {
    expectDone(core.setFilterAddresses(tracer, 'notrace', [quiet.ip]), tracer.name);
    expectDone(core.register(tracer), tracer.name);
  }
  const machine = execute(session, arch, args, watched, more);
  const word = arch.target.wordBytes;
  const counted = (ops: typeof tracer): number =>
    Number(machine.readWord(session.backend.addressOf(ops) + BigInt(OPS_WORDS.private * word), word) ?? 0n);
  return {
    instructions: machine.instructions,
    counted: !setting.traced ? 0 : isDirect ? directRuns : counted(tracer),
    others: others.reduce((sum, ops) => sum + counted(ops), 0),
    listRuns,
    trampoline: tracer.trampoline?.kind === 'private',
  };
}

/**
 * The ways that work on this image; the core may refuse one (no direct calls through entries of
 * that time).
 */
function possible({ arch, ways, absent }: Ways, args: CostArguments, quiet: Quiet): Pick<Ways, 'ways' | 'absent'> {
  const refused = new Map<WayName, string>();
  const working: Way[] = [];
  for (const way of ways) {
    if (working.some(({ name }) => name === way.name)) continue;
    try {
      measure(way, arch, args, { quiet, others: 0, traced: true });
      working.push(way);
    } catch (error) {
      if (!(error instanceof ElftraceError) || (error.code !== 'plan-refused' && error.code !== 'no-match'))
        throw error;
      refused.set(way.name, error.message);
    }
  }
  for (const { name } of working) refused.delete(name);
  return { ways: working, absent: [...absent, ...[...refused].map(([way, reason]) => ({ way, reason }))] };
}

export async function runCost(args: CostArguments): Promise<number> {
  for (const each of args.tracers) {
    if (!Number.isInteger(each) || each < 0 || each > MOST) {
      throw new ElftraceError('usage', `--tracers takes numbers from 0 to ${String(MOST)}`, { value: each });
    }
  }
  const all = await waysOf(args);
  const { arch } = all;
  const quiet = quietest(all.ways[0]!, arch, args);
  const { ways, absent } = possible(all, args, quiet);
  const rows = args.tracers.map((others) => ({
    others,
    ways: ways.map((way) => {
      const alone = measure(way, arch, args, { quiet, others, traced: false });
      const traced = measure(way, arch, args, { quiet, others, traced: true });
      const perCall = traced.counted === 0 ? 0 : (traced.instructions - alone.instructions) / traced.counted;
      return {
        way: way.name,
        calls: traced.counted,
        instructionsPerCall: Math.round(perCall * 100) / 100,
        listRuns: traced.listRuns,
        trampoline: traced.trampoline,
      };
    }),
  }));
  if (args.json) {
    out(
      JSON.stringify({
        schema: jsonSchema,
        file: args.path,
        target: arch.target.id,
        callback: 'elftrace_counter',
        others: { function: quiet.name, calls: quiet.calls },
        rows,
        absent,
      }),
    );
    return exitCodes.ok;
  }
  const calls = rows[0]?.ways[0]?.calls ?? 0;
  out(
    `${arch.target.title}: instructions per traced call, ${String(calls)} calls of every function but ${quiet.name}, which the others want`,
  );
  const columns = ways.map(({ name }) => name);
  const width = (column: string): number => Math.max(column.length, ' 1000.0 list'.length) + 2;
  out(['other tracers', ...columns].map((each, i) => (i === 0 ? each : each.padStart(width(each)))).join(''));
  for (const { others, ways: cells } of rows) {
    const texts = cells.map(({ way, instructionsPerCall, listRuns, calls }) =>
      `${instructionsPerCall.toFixed(1)} ${calls > 0 && listRuns >= calls ? 'list' : '    '}`.padStart(width(way)),
    );
    out(`${String(others).padEnd('other tracers'.length)}${texts.join('')}`.trimEnd());
  }
  for (const { way, reason } of absent) out(`no ${way}: ${reason}`);
  const privates = rows.flatMap(({ ways: cells }) => cells.filter(({ way }) => way.startsWith('private')));
  if (privates.some(({ trampoline }) => !trampoline)) {
    out('no private trampoline was made: a site is out of its reach, or there is no room');
  } else if (privates.some(({ listRuns }) => listRuns > quiet.calls)) {
    // Without those of the other function, which several want.
    const most = Math.max(...privates.map(({ listRuns }) => listRuns)) - quiet.calls;
    out(`${String(most)} calls went through the list all the same: their sites are out of reach of the trampoline`);
  }
  return exitCodes.ok;
}
