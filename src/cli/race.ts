/**
 * `elftrace race IMAGE --site F --from nop --to call`, or `--probe F+4 --from none --to jump`:
 * every order of a patch sequence with threads in the function; `--demo`: the hazards H1 to H14,
 * each beside the form that is safe. Ctrl-C and time bounds end a search with what it found.
 */
import type { Arch } from '../machine/arch.js';
import { loadArch } from '../targets.js';
import { readElf } from '../elf/read.js';
import { ElftraceError, hex } from '../errors.js';
import {
  entriesAsked,
  type Hazard,
  hazards,
  idleAsked,
  type ImageRace,
  imageRace,
  parseProbeStates,
  parseRaceState,
  parseRaceVariant,
  probeRace,
  probeVariants,
  type RaceCase,
  type RaceOptions,
  type RaceProgress,
  type RaceResult,
  startRace,
  tell,
} from '../race/index.js';
import { writeOutputs } from '../output/commit.js';
import { htmlPage } from '../page/index.js';
import { jsonSchema } from '../report/json.js';
import { raceJson, raceLines, type RaceReport } from '../report/race.js';
import type { Address } from '../units.js';
import { checkMachineOptions } from '../pipeline/machine-options.js';
import { parseCall } from './call-expression.js';
import { disassemblerOf } from './disassembly.js';
import { exitCodes } from './exit.js';
import { readInput } from './files.js';
import { commandDeadline } from './limits.js';
import { err, out, progress, watched } from './terminal.js';

export interface RaceArguments {
  readonly path?: string | undefined;
  readonly site?: string | undefined;
  readonly probe?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly kprobeOpt: '2009' | 'modern';
  readonly variant?: readonly string[] | undefined;
  readonly cpus: number;
  readonly call?: string | undefined;
  readonly preempt: 'none' | 'full';
  readonly staleFetch: boolean;
  /** Options of single machines that were given, by name. */
  readonly machine: Readonly<Record<string, string>>;
  readonly maxSchedules?: number | undefined;
  readonly maxSeconds?: number | undefined;
  readonly maxSteps?: number | undefined;
  readonly first: boolean;
  readonly full: boolean;
  readonly demo?: string | undefined;
  readonly html?: string | undefined;
  readonly json: boolean;
}

function bound(name: string, value: number | undefined, whole: boolean): number | undefined {
  if (value === undefined) return undefined;
  if (!(value > 0) || (whole && !Number.isInteger(value)))
    throw new ElftraceError('usage', `--${name} takes a positive ${whole ? 'whole ' : ''}number`, { value });
  return value;
}

/** A race on an image, and what was asked, for the report. */
interface Asked {
  readonly race: ImageRace;
  readonly request: NonNullable<RaceReport['request']>;
}

async function ask(image: Uint8Array, args: RaceArguments): Promise<Asked> {
  const { site, probe, preempt, staleFetch } = args;
  if ((site === undefined) === (probe === undefined)) {
    throw new ElftraceError('usage', 'say which function, --site F; or which probe, --probe F+4; or --demo');
  }
  const arch = await loadArch(readElf(image).header);
  checkMachineOptions(arch, args.machine);
  const call = args.call === undefined ? null : parseCall(args.call);
  const common = {
    image,
    cpus: args.cpus,
    call: call?.args ?? null,
    preempt,
    staleFetch,
    ...entriesAsked(arch, args.machine),
  };
  const variants = (args.variant ?? []).map(parseRaceVariant);
  const from = args.from ?? (probe === undefined ? 'nop' : 'none');
  const to = args.to ?? (probe === undefined ? 'call' : 'jump');
  const race =
    probe === undefined
      ? imageRace({
          ...common,
          site: site!,
          from: parseRaceState(from),
          to: parseRaceState(to),
          variants,
          ...idleAsked(arch, args.machine),
        })
      : probeRace({
          ...common,
          probe,
          from: parseProbeStates(from),
          to: parseProbeStates(to),
          version: args.kprobeOpt,
          variants: probeVariants(variants),
        });
  if (call !== null && call.name !== race.site.function) {
    throw new ElftraceError('usage', `--call calls ${call.name}, and the ${probe === undefined ? 'site' : 'probe'} is in ${race.site.function}`);
  }
  const { function: name } = race.site;
  return { race, request: { function: name, ...(probe === undefined ? {} : { probe, version: args.kprobeOpt }), from, to, preempt, variants, staleFetch } };
} // prettier-ignore

/** Runs a search; progress on a terminal, an end with Ctrl-C or when the time is over. */
async function search(each: RaceCase, args: RaceArguments, title: string): Promise<RaceResult> {
  const { maxSeconds } = args;
  const options: RaceOptions = {
    ...each.options,
    ...(args.maxSchedules === undefined ? {} : { maxSchedules: args.maxSchedules }),
    ...(args.maxSteps === undefined ? {} : { maxSteps: args.maxSteps }),
    first: args.first,
    reduction: args.full ? 'none' : 'partial-order',
  };
  const running = startRace(each.scene, each.sequence, options);
  const interrupt = (): void => {
    running.interrupt();
  };
  process.once('SIGINT', interrupt);
  const begin = performance.now();
  let shown = 0;
  const show = ({ phase, states, explored }: RaceProgress): void => {
    const words = { explore: 'exploring', count: 'counting', shortest: 'looking for the shortest schedule' }[phase];
    const text = `${title}: ${words}: ${states} states${explored > 0n ? `, ${explored} schedules` : ''}`;
    progress(text);
    shown = performance.now();
  };
  try {
    for (;;) {
      const step = running.next();
      if (step.done === true) return step.value;
      const now = performance.now();
      const { seconds } = commandDeadline();
      if (commandDeadline().expired()) running.interrupt({ kind: 'seconds', limit: seconds });
      if (maxSeconds !== undefined && now - begin > maxSeconds * 1000)
        running.interrupt({ kind: 'seconds', limit: maxSeconds });
      const heap = heapNearlyFull();
      if (heap !== null) running.interrupt({ kind: 'memory', limit: heap });
      if (watched() && now - shown > 100) show(step.value);
      // Signals are delivered between turns.
      await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    process.off('SIGINT', interrupt);
    if (shown > 0) progress('');
  }
}

/** Of the heap's limit, room for what is young. */
const YOUNG_BYTES = 64 * 2 ** 20;

/** What may be used of memory, in MiB, once a quarter of it is left: states are kept. */
function heapNearlyFull(): number | null {
  const { used_heap_size: used, heap_size_limit: limit } = process.getBuiltinModule('node:v8').getHeapStatistics();
  return used > 0.75 * (limit - YOUNG_BYTES) ? Math.round(limit / 2 ** 20) : null;
}

async function disassembly(arch: Arch): Promise<RaceReport['disassemble']> {
  const disassembler = await disassemblerOf(arch);
  return (bytes, address) =>
    disassembler
      .disassemble(bytes, address, arch.isa)
      .map(({ text }) => text)
      .join('; ');
}

/** Names by the nearest label below. */
function labelled(labels: ReadonlyMap<Address, string>): (address: Address) => string {
  const sorted = [...labels].sort(([a], [b]) => (a < b ? -1 : 1));
  return (address) => {
    let best: readonly [Address, string] | undefined;
    for (const each of sorted) if (each[0] <= address) best = each;
    if (best === undefined || address - best[0] > 0x100n) return hex(address);
    return address === best[0] ? best[1] : `${best[1]}+${hex(address - best[0])}`;
  };
}

function storyOf(each: RaceCase, result: RaceResult): RaceReport['story'] {
  return result.failing && tell(each.scene, each.sequence, result.failing.entries, each.options);
}

async function demo(hazard: Hazard, args: RaceArguments): Promise<RaceReport[]> {
  const reports: RaceReport[] = [];
  for (const form of hazard.forms) {
    const each = form.build(args.cpus);
    const title = `${hazard.id} ${hazard.name}, ${form.name}: ${form.title}`;
    const result = await search(each, args, `${hazard.id} ${form.name}`);
    reports.push({
      title,
      target: hazard.target,
      request: null,
      demo: { hazard: hazard.id, form: form.name, safe: form.safe },
      cpus: args.cpus,
      sequence: each.sequence,
      result,
      story: storyOf(each, result),
      placeOf: labelled(each.labels),
      isCode: (address) => each.scene.code?.some(({ start, end }) => address >= start && address < end) === true,
      disassemble: await disassembly(each.arch),
    });
  }
  return reports;
}

async function demos(args: RaceArguments): Promise<RaceReport[]> {
  const wanted = args.demo ?? '';
  const chosen = hazards.filter(
    ({ id, name }) => wanted === '' || wanted.toLowerCase() === id.toLowerCase() || wanted === name,
  );
  if (chosen.length === 0) {
    const names = hazards.map(({ id, name }) => `${id} (${name})`).join(', ');
    throw new ElftraceError('no-match', `--demo ${wanted}: there are ${names}`, { value: wanted });
  }
  const reports: RaceReport[] = [];
  for (const hazard of chosen) {
    const own = await demo(hazard, args);
    reports.push(...own);
    if (args.json) continue;
    out(`${hazard.id} ${hazard.name}: ${hazard.title} [${hazard.target}]`);
    for (const report of own) for (const line of raceLines(report, report.story !== null)) out(`  ${line}`);
    out('');
    if (own.some(({ result }) => result.bounds.some(({ kind }) => kind === 'interrupted'))) break;
  }
  return reports;
}

async function imageReport(args: RaceArguments): Promise<RaceReport> {
  const input = await readInput(args.path!, 'read');
  const { race: each, request } = await ask(input.bytes, args);
  const result = await search(each, args, each.sequence.name);
  return {
    title: each.sequence.name,
    target: each.arch.target.id,
    request,
    demo: null,
    cpus: args.cpus,
    sequence: each.sequence,
    result,
    story: storyOf(each, result),
    placeOf: each.placeOf,
    isCode: each.isCode,
    disassemble: await disassembly(each.arch),
  };
}

export async function runRace(args: RaceArguments): Promise<number> {
  bound('max-schedules', args.maxSchedules, true);
  bound('max-steps', args.maxSteps, true);
  bound('max-seconds', args.maxSeconds, false);
  if (args.demo === undefined && args.path === undefined) {
    throw new ElftraceError('usage', 'name an image and --site F or --probe F+4, or ask for --demo');
  }
  if (args.demo !== undefined && (args.path ?? args.site ?? args.probe) !== undefined) {
    throw new ElftraceError('usage', '--demo has programs of its own: it takes no image and no --site');
  }
  const reports = args.demo === undefined ? [await imageReport(args)] : await demos(args);
  const isInterrupted = reports.some(({ result }) => result.bounds.some(({ kind }) => kind === 'interrupted'));
  const text = (): string =>
    JSON.stringify({ schema: jsonSchema, file: args.path ?? null, races: reports.map((each) => raceJson(each)) });
  if (args.html !== undefined && !isInterrupted) {
    const title = args.demo === undefined ? reports[0]!.title : 'Hazards of patching running code';
    const { html } = await htmlPage({ files: [], races: [{ name: 'race', text: text() }], title });
    await writeOutputs([{ path: args.html, bytes: new TextEncoder().encode(html) }]);
  }
  if (args.json) out(text());
  else if (args.demo === undefined) for (const line of raceLines(reports[0]!)) out(line);
  const failed = reports.filter(
    ({ result, demo: shown }) => result.verdict !== (shown === null || shown.safe ? 'holds' : 'violated'),
  );
  for (const { title, result, demo: shown } of failed) {
    if (shown !== null || result.verdict === 'undecided') err(`${title}: ${result.verdict}`);
  }
  if (isInterrupted) return exitCodes.interrupted;
  return failed.length === 0 ? exitCodes.ok : exitCodes.failed;
}
