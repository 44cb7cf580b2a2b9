/**
 * `elftrace cost IMAGE`: what a traced call costs, in instructions, when other tracers are registered that do not want it. The measurement behind private
 * trampolines: one tracer counts every function but one; more and more tracers are added that want only that other one. Through the shared entry each of
 * them costs a test per call, because two ops mean the list; through a trampoline of its own the first tracer pays for none.
 *
 * Cost of a call = (instructions with the tracer and the others) - (instructions with the others alone), by calls counted.
 */
import type { Arch, MachineOptions } from '../arch.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import type { Policy } from '../ftrace/core/index.js';
import { withRuntime } from '../ftrace/inject.js';
import { entryPoint } from '../ftrace/routes.js';
import { Session } from '../ftrace/session.js';
import { type Machine, startProcess } from '../emulator/index.js';
import { load } from '../program/program.js';
import { jsonSchema } from '../report/json.js';
import { OPS_WORDS } from '../runtime/index.js';
import { exitCodes } from './exit.js';
import { readInput } from './files.js';
import { hash, open, type OpenOptions } from './open.js';
import { out } from './terminal.js';

export interface CostArguments extends OpenOptions {
  readonly path: string;
  readonly arguments: readonly string[];
  readonly tracers: readonly number[];
  readonly maxInstructions: string;
  readonly json: boolean;
}

/** A way to the callback: how the image is laid out, and what the core may make. */
interface Way {
  readonly name: 'shared entry' | 'private trampoline, 2014' | 'private trampoline';
  readonly image: Uint8Array;
  readonly policy: Partial<Policy>;
}

interface Measured {
  readonly instructions: number;
  /** Calls that the tracer counted, and those that the others did. */
  readonly counted: number;
  readonly others: number;
  readonly listRuns: number;
  /** A private trampoline was made for the tracer. */
  readonly trampoline: boolean;
}

/** Most tracers besides the one that is measured: there is room for sixteen objects. */
const MOST = 15;

/** The images to measure on, by what the machine can. */
async function waysOf(args: CostArguments): Promise<{ readonly arch: Arch; readonly ways: readonly Way[] }> {
  const input = await readInput(args.path);
  const opened = await open(input, args);
  const { arch, program, sites, image } = opened;
  if (arch.emulation.kind === 'none') throw new ElftraceError('unsupported-form', arch.emulation.reason);
  if (opened.record !== null) {
    throw new ElftraceError('unsupported-form', 'the file is patched: revert it, cost lays its own tracers in');
  }
  const shared = { name: 'shared entry', policy: { trampolines: 'none' } } as const;
  const has = entryPoint(program, 'ftrace_caller') !== null;
  const laid = (machine: MachineOptions): Uint8Array =>
    has ? image.bytes : withRuntime(sites, undefined, hash, undefined, machine).bytes;
  if (arch.trampolines.kind === 'none') return { arch, ways: [{ ...shared, image: laid({}) }] };
  const names = { modern: 'private trampoline', 2014: 'private trampoline, 2014' } as const;
  if (has) {
    const tramp = program.loadMap?.options['x86-tramp'] === '2014' ? '2014' : 'modern';
    return {
      arch,
      ways: [shared, { name: names[tramp], policy: {} }].map((each) => ({ ...each, image: image.bytes })),
    };
  }
  const ways: Way[] = [{ ...shared, image: laid({ 'x86-tramp': 'none' }) }];
  for (const tramp of ['2014', 'modern'] as const) {
    const bytes = laid({ 'x86-tramp': tramp });
    const made = load(readElf(bytes), arch).loadMap?.options['convention'];
    // Calls of mcount have one kind of entry: it is of 2014 whatever is asked.
    if (tramp === 'modern' && made !== 'modern') continue;
    ways.push({ name: names[tramp], image: bytes, policy: {} });
  }
  return { arch, ways };
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
function execute(session: Session, arch: Arch, args: CostArguments, watched: ReadonlyMap<bigint, () => void>): Machine {
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
  for (const [address, seen] of watched) {
    machine.hook(address, () => {
      seen();
      return 'continue';
    });
  }
  const stop = machine.run({ budget: Number(args.maxInstructions) });
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

/** The function that the other tracers want: the one that is called least, the first of several. */
function quietest(
  way: Way,
  arch: Arch,
  args: CostArguments,
): { readonly name: string; readonly ip: bigint; readonly calls: number } {
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
  return { name: best.name, ip: best.ip, calls: calls.get(best.ip)! };
}

function measure(
  way: Way,
  arch: Arch,
  args: CostArguments,
  setting: { readonly quiet: bigint; readonly others: number; readonly traced: boolean },
): Measured {
  const session = sessionOf(way, arch);
  const { core } = session;
  const func = session.functionAddress('elftrace_counter');
  if (func === null) throw new ElftraceError('no-runtime', 'the image has no elftrace_counter', {});
  const others = Array.from({ length: setting.others }, (_, i) => {
    const ops = core.createOps({ name: `other-${String(i)}`, func });
    expectDone(core.setFilterAddresses(ops, 'filter', [setting.quiet]), ops.name);
    expectDone(core.register(ops), ops.name);
    return ops;
  });
  const tracer = core.createOps({ name: 'tracer', func });
  if (setting.traced) {
    expectDone(core.setFilterAddresses(tracer, 'notrace', [setting.quiet]), tracer.name);
    expectDone(core.register(tracer), tracer.name);
  }
  let listRuns = 0;
  const list = session.functionAddress('ftrace_ops_list_func');
  const machine = execute(session, arch, args, new Map(list === null ? [] : [[list, () => listRuns++]]));
  const word = arch.target.wordBytes;
  const counted = (ops: typeof tracer): number =>
    Number(machine.readWord(session.backend.addressOf(ops) + BigInt(OPS_WORDS.private * word), word) ?? 0n);
  return {
    instructions: machine.instructions,
    counted: setting.traced ? counted(tracer) : 0,
    others: others.reduce((sum, ops) => sum + counted(ops), 0),
    listRuns,
    trampoline: tracer.trampoline?.kind === 'private',
  };
}

export async function runCost(args: CostArguments): Promise<number> {
  for (const each of args.tracers) {
    if (!Number.isInteger(each) || each < 0 || each > MOST) {
      throw new ElftraceError('usage', `--tracers takes numbers from 0 to ${String(MOST)}`, { value: each });
    }
  }
  const { arch, ways } = await waysOf(args);
  const quiet = quietest(ways[0]!, arch, args);
  const rows = args.tracers.map((others) => ({
    others,
    ways: ways.map((way) => {
      const alone = measure(way, arch, args, { quiet: quiet.ip, others, traced: false });
      const traced = measure(way, arch, args, { quiet: quiet.ip, others, traced: true });
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
      }),
    );
    return exitCodes.ok;
  }
  const calls = rows[0]?.ways[0]?.calls ?? 0;
  out(
    `${arch.target.title}: instructions per traced call, ${String(calls)} calls of every function but ${quiet.name}, which the others want`,
  );
  const columns = ways.map(({ name }) => name);
  out(['other tracers', ...columns].map((each, i) => (i === 0 ? each : each.padStart(each.length + 3))).join(''));
  for (const { others, ways: cells } of rows) {
    const texts = cells.map(({ instructionsPerCall }, i) =>
      instructionsPerCall.toFixed(1).padStart(columns[i]!.length + 3),
    );
    out(`${String(others).padEnd('other tracers'.length)}${texts.join('')}`);
  }
  if (arch.trampolines.kind === 'none') out(`shared entry only: ${arch.trampolines.reason}`);
  else if (rows.some(({ ways: cells }) => cells.some(({ way, trampoline }) => way !== 'shared entry' && !trampoline))) {
    out('no private trampoline was made: a site is out of its reach, or there is no room');
  }
  return exitCodes.ok;
}
