/**
 * What a traced call costs, in instructions, when other tracers are registered that do not want it.
 * One tracer counts every function but one; more and more tracers are added that want only that
 * other one. The ways to the callback are those that were argued about:
 *
 *   shared entry        two tracers mean the list, which asks each of them at every call
 *   private trampoline  code of its own for each tracer: pays for no other tracer
 *   per-callsite ops    one entry, and the tracer's ops in front of each function: the same without
 *                       code
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
import type { Machine } from '../emulator/index.js';
import { startProcess } from '../guest/index.js';
import { ElftraceError } from '../errors.js';
import type { Policy } from '../ftrace/index.js';
import { Deadline, defaultLimits } from '../limits/index.js';
import { entryPoint } from '../program/entry-points.js';
import { load } from '../program/program.js';
import { OPS_WORDS } from '../runtime/index.js';
import { type Sha256, sha256 } from '../sha256.js';
import type { Sites } from '../sites/sites.js';
import { withRuntime } from '../tracing/inject.js';
import { Session } from '../tracing/session.js';
import { entriesOf } from '../tracing/entries.js';

export interface CostOptions {
  /** Numbers of other tracers; default: 0, 1, 2, 4, 8. At most 15 each. */
  readonly tracers?: readonly number[];
  /** What the program is started with, its own name first. */
  readonly args?: readonly string[];
  /** Default: the portable one, which is slower than a platform's own. */
  readonly hash?: Sha256;
  /** Most instructions of one run. */
  readonly instructions?: number;
  readonly deadline?: Deadline;
}

export type CostWay =
  'shared entry' | 'private trampoline' | `private trampoline, ${string}` | 'per-callsite ops' | 'direct call';

/** What a call costs in one way. */
export interface CallCost {
  readonly way: CostWay;
  /** Calls that the tracer counted. */
  readonly calls: number;
  /** To the hundredth. */
  readonly instructionsPerCall: number;
  /** Runs of the function that asks every tracer. */
  readonly listRuns: number;
  /** A private trampoline was made for the tracer. */
  readonly trampoline: boolean;
}

export interface Cost {
  /** The function that the other tracers want, and how often it is called. */
  readonly quiet: { readonly function: string; readonly calls: number };
  readonly rows: readonly { readonly others: number; readonly ways: readonly CallCost[] }[];
  /** Ways that cannot be measured here, and why. */
  readonly absent: readonly { readonly way: CostWay; readonly reason: string }[];
}

/** A way to the callback: how the image is laid out, and what the core may make. */
interface Way {
  readonly name: CostWay;
  readonly image: Uint8Array;
  readonly policy: Partial<Policy>;
}

type Absent = Cost['absent'][number];

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

/** How the program is executed, each time. */
interface Run {
  readonly args: readonly string[];
  readonly instructions: number;
  readonly deadline: Deadline;
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
function waysOf(sites: Sites, hash: Sha256): Ways {
  const { arch } = sites.program;
  const all = entryPoint(sites.program, 'ftrace_caller') !== null ? waysThrough(sites) : waysInto(sites, hash);
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

/** The option that decides about private trampolines, with the choice that means none. */
function trampolineOption({ options }: Arch): { name: string; choices: readonly string[]; none: string } | null {
  for (const { name, choices, policy = {} } of options) {
    const none = choices.find((each) => policy[each]?.trampolines === 'none');
    // The newest comes last.
    if (none !== undefined) return { name, none, choices: choices.filter((each) => each !== none).reverse() };
  }
  return null;
}

/** The way of trampolines that a choice makes: that without the option has no further name. */
const trampolineWay = (choice: string, choices: readonly string[]): CostWay =>
  choice === choices.at(-1) ? 'private trampoline' : `private trampoline, ${choice}`;

/** An image with entries of its own: they are of one convention. */
function waysThrough({ program }: Sites): Omit<Ways, 'arch'> {
  const { arch, image } = program;
  const { kind } = entriesOf(program);
  const way = (name: CostWay, policy: Partial<Policy> = {}): Way => ({ name, image: image.bytes, policy });
  const ways: Way[] = [];
  const absent: Absent[] = [];
  if (opsEntries(arch).includes(kind)) {
    absent.push({ way: 'shared entry', reason: `the image's entries are of kind ${kind}: they read per-callsite ops` });
  } else ways.push(way('shared entry', { trampolines: 'none' }));
  const option = trampolineOption(arch);
  if (arch.trampolines.kind === 'none' || option === null) {
    absent.push({ way: 'private trampoline', reason: noTrampolines(arch) });
  } else {
    const laid = program.loadMap?.options[option.name] ?? '';
    ways.push(way(option.choices.includes(laid) ? trampolineWay(laid, option.choices) : 'private trampoline'));
  }
  const reason = whyNoSiteOps(arch);
  if (opsEntries(arch).includes(kind)) ways.push(way('per-callsite ops'));
  else {
    absent.push({ way: 'per-callsite ops', reason: reason ?? `the image's entries are of kind ${kind}` });
  }
  return { ways, absent };
}

const noTrampolines = ({ trampolines }: Arch): string =>
  trampolines.kind === 'none' ? trampolines.reason : 'the machine has no option about them';

/** A program that the entries are laid into: of each convention that its sites can call. */
function waysInto(sites: Sites, hash: Sha256): Omit<Ways, 'arch'> {
  const { arch } = sites.program;
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
  const option = trampolineOption(arch);
  if (arch.trampolines.kind === 'none' || option === null) {
    // Entries that read no ops of sites; of those the ones that can go on to direct callers.
    const rows = arch.conventions.filter(({ name, capabilities }) => served.has(name) && !capabilities.callOps);
    const preferred = rows.find(({ capabilities }) => capabilities.direct === 'any');
    const isRead = opsEntries(arch).some((each) => served.has(each));
    ways.push(shared(laid({}, (preferred ?? (isRead ? rows[0] : undefined))?.name)));
    absent.push({ way: 'private trampoline', reason: noTrampolines(arch) });
  } else {
    ways.push(shared(laid({ [option.name]: option.none })));
    for (const choice of option.choices) {
      const bytes = laid({ [option.name]: choice });
      const made = load(readElf(bytes), arch).loadMap?.options['convention'];
      const way = trampolineWay(choice, option.choices);
      // Sites behind the prologue have one kind of entry: it is the old one whatever is asked.
      if (way === 'private trampoline' && made !== choice) {
        absent.push({ way, reason: 'calls of mcount behind the prologue have entries of 2014 only' });
      } else ways.push({ name: way, image: bytes, policy: {} });
    }
  }
  const flavour = opsEntries(arch).find((each) => served.has(each));
  if (flavour === undefined) {
    const needed = 'no site has room for an ops pointer: -fpatchable-function-entry=N,M with words in front (M)';
    absent.push({ way: 'per-callsite ops', reason: whyNoSiteOps(arch) ?? needed });
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
  run: Run,
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
    args: run.args,
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
  const most = run.instructions;
  let stop = machine.run({ budget: Math.min(most, SLICE) });
  while (stop.kind === 'step-limit' && machine.instructions < most) {
    run.deadline.check('counting instructions');
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
function quietest(way: Way, arch: Arch, run: Run): Quiet {
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
  execute(session, arch, run, watched);
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
  run: Run,
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
  const machine = execute(session, arch, run, watched, more);
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
function possible({ arch, ways, absent }: Ways, run: Run, quiet: Quiet): Pick<Ways, 'ways' | 'absent'> {
  const refused = new Map<CostWay, string>();
  const working: Way[] = [];
  for (const way of ways) {
    if (working.some(({ name }) => name === way.name)) continue;
    try {
      measure(way, arch, run, { quiet, others: 0, traced: true });
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

/**
 * Measures a linked program or an image of `loadImages`, which is executed from start to end for
 * each number of other tracers and each way.
 * @param sites  of the image, which must not be patched
 * @throws ElftraceError 'unsupported-form' where the machine is not executed, or the program does
 *   not end by itself; 'usage' for numbers of tracers that there is no room for; 'no-match' where
 *   fewer than two functions can be traced
 */
export function callCosts(sites: Sites, options: CostOptions = {}): Cost {
  const { tracers = [0, 1, 2, 4, 8], args = ['program'], hash = sha256 } = options;
  const { instructions = defaultLimits.instructions, deadline = Deadline.never } = options;
  const run: Run = { args, instructions, deadline };
  for (const each of tracers) {
    if (!Number.isInteger(each) || each < 0 || each > MOST) {
      throw new ElftraceError('usage', `--tracers takes numbers from 0 to ${String(MOST)}`, { value: each });
    }
  }
  const { arch } = sites.program;
  if (arch.emulation.kind === 'none') throw new ElftraceError('unsupported-form', arch.emulation.reason);
  const all = waysOf(sites, hash);
  const quiet = quietest(all.ways[0]!, arch, run);
  const { ways, absent } = possible(all, run, quiet);
  const rows = tracers.map((others) => ({
    others,
    ways: ways.map((way) => costOf(way, arch, run, { quiet, others })),
  }));
  return { quiet: { function: quiet.name, calls: quiet.calls }, rows, absent };
}

function costOf(way: Way, arch: Arch, run: Run, setting: { readonly quiet: Quiet; readonly others: number }): CallCost {
  const alone = measure(way, arch, run, { ...setting, traced: false });
  const traced = measure(way, arch, run, { ...setting, traced: true });
  const perCall = traced.counted === 0 ? 0 : (traced.instructions - alone.instructions) / traced.counted;
  return {
    way: way.name,
    calls: traced.counted,
    instructionsPerCall: Math.round(perCall * 100) / 100,
    listRuns: traced.listRuns,
    trampoline: traced.trampoline,
  };
}
