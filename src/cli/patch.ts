/**
 * `elftrace patch FILE -o OUT --nop` turns call sites into nops, `--enable` into calls of a tracer;
 * everything is decided before a byte is written (`pipeline/patch.ts`).
 */
import { dirname, join } from 'node:path';
import { visibleJson } from '../visible.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { readElf } from '../elf/read.js';
import { checkAcceptance, type Plan, type Step } from '../patch/plan.js';
import { copyNotice, initialisedNotice, planNotices } from '../pipeline/notices.js';
import { patchImage, planFileText, type Patched } from '../pipeline/patch.js';
import type { Planned } from '../pipeline/planned.js';
import type { PatchHost, PatchRequest } from '../pipeline/request.js';
import type { Tracer } from '../tracing/tracing.js';
import { machineOptions, targetOf } from '../targets.js';
import type { OutputBatch } from '../output/batch.js';
import { writeOutputs } from '../output/commit.js';
import {
  hazardNotices,
  hazardsJson,
  initialisedJson,
  jsonSchema,
  newRelocationsJson,
  planJson,
  refusalsJson,
  stepJson,
  unsafeGraphJson,
} from '../report/json.js';
import { oneLine } from './disassembly.js';
import { exitCodes } from './exit.js';
import { type InputFile, outputLike, outputPath, readBytes, readInput } from './files.js';
import { journalOutput } from './journal.js';
import { sourceOf } from './source.js';
import { hash } from './hash.js';
import { open, type OpenOptions } from './open.js';
import { didYouMean } from './nearest.js';
import { progress } from './progress.js';
import { filterTexts, type SelectionOptions } from './selection.js';
import { err, out } from './terminal.js';

export interface PatchArguments extends OpenOptions, SelectionOptions {
  readonly path: string;
  readonly output?: string | undefined;
  readonly inPlace: boolean;
  readonly nop: boolean;
  readonly init: boolean;
  readonly enable: boolean;
  readonly session?: readonly string[] | undefined;
  readonly direct?: readonly string[] | undefined;
  readonly livepatch?: readonly string[] | undefined;
  readonly with?: readonly string[] | undefined;
  readonly probe?: readonly string[] | undefined;
  readonly optimize: boolean;
  readonly kprobeOpt?: '2009' | 'modern' | undefined;
  readonly tracer: string;
  readonly entry?: string | undefined;
  readonly ops?: string | undefined;
  readonly preempt?: 'none' | 'full' | undefined;
  readonly saveRegs: boolean;
  readonly clock?: 'machine' | 'none' | undefined;
  readonly allowUnsafeGraph: boolean;
  /** Options of single machines that were given, by name. */
  readonly machine: Readonly<Record<string, string>>;
  readonly dryRun: boolean;
  /** The verb `plan`: the plan goes to a file, or to standard output. */
  readonly planOnly: boolean;
  readonly partial: boolean;
  /** Nothing is written unless each changed site is proved. */
  readonly prove?: boolean | undefined;
  readonly require?: number | undefined;
  readonly compress: boolean;
  readonly strictPerm: boolean;
  readonly untrace: boolean;
  /** What --untrace was. */
  readonly emptySlots: boolean;
  readonly readonly?: readonly string[] | undefined;
  readonly json: boolean;
  /** One of many files: folders of outputs are made where there are none. */
  readonly batch?: OutputBatch;
}

// ----------------------------------------------------------------------------------------- request

/** `START-END` or `START+SIZE`, file positions in hex or decimal. */
function parseRange(text: string): { start: number; end: number } {
  const match = /^(0x[0-9a-fA-F]+|\d+)([-+])(0x[0-9a-fA-F]+|\d+)$/.exec(text);
  if (!match) throw new ElftraceError('usage', `--readonly ${text}: write START-END or START+SIZE`);
  const start = Number(match[1]);
  const second = Number(match[3]);
  return { start, end: match[2] === '+' ? start + second : second };
}

/** What `--tracer` names. */
function tracerOf(name: string): Tracer {
  if (name === 'function' || name === 'function_graph' || name === 'counter') return { kind: name };
  return { kind: 'symbol', name };
}

/** `FUNCTION=OTHER` of an option. */
function pairOf(option: string, text: string): [name: string, other: string] {
  const match = /^([^=\s]+)=([^=\s]+)$/.exec(text);
  if (!match) throw new ElftraceError('usage', `--${option} ${text}: write FUNCTION=OTHER`);
  return [match[1]!, match[2]!];
}

/** `--direct FUNCTION=CALLER`; `jmp:` in front of the caller: the site jumps to it. */
function directStep(text: string): PatchRequest['direct'][number] {
  const [name, caller] = pairOf('direct', text);
  const jump = caller.startsWith('jmp:');
  if (caller === 'jmp:') throw new ElftraceError('usage', `--direct ${text}: write FUNCTION=jmp:CALLER`);
  return { kind: 'direct', function: name, caller: jump ? caller.slice(4) : caller, jump, at: null };
}

function livepatchStep(text: string): PatchRequest['livepatches'][number] {
  const [name, replacement] = pairOf('livepatch', text);
  return { kind: 'livepatch', function: name, replacement, at: null };
}

function isSession({ session, direct, livepatch, with: objects, probe }: Omit<PatchArguments, 'path'>): boolean {
  return [session, direct, livepatch, objects, probe].some((each) => each !== undefined);
}

/**
 * What a request says must be one thing, and say how much of it.
 * @throws ElftraceError 'usage'
 */
export function checkRequest(args: Omit<PatchArguments, 'path'>): void {
  if (args.emptySlots) {
    throw new ElftraceError(
      'usage',
      '--empty-slots is no more: --untrace takes functions out of the table, and nops their calls',
    );
  }
  const wanted = [
    args.nop && '--nop',
    args.init && '--init',
    args.untrace && '--untrace',
    isSession(args) ? '--session' : args.enable && '--enable',
  ].filter((each) => each !== false);
  if (wanted.length === 0)
    throw new ElftraceError(
      'usage',
      'say what to do: --nop, --untrace, --enable, --probe, --session, --livepatch, --direct or --init',
    );
  const records = args.tracer === 'function' || args.tracer === 'function_graph';
  if (args.clock === 'none' && (!args.enable || isSession(args) || args.entry !== undefined || !records)) {
    throw new ElftraceError('usage', '--clock none goes with --enable, and the tracers function and function_graph');
  }
  if (args.prove === true && (args.dryRun || args.planOnly)) {
    throw new ElftraceError('usage', '--prove decides over what is written: not with --dry-run or plan');
  }
  const way = machineOptions.find(({ name, decides }) => decides.includes('direct-way') && name in args.machine);
  if (args.prove === true && args.partial && (isSession(args) || way !== undefined)) {
    throw new ElftraceError('usage', '--prove --partial: a session is proved as a whole, or not at all');
  }
  if (way !== undefined && args.direct === undefined) {
    throw new ElftraceError('usage', `--${way.name} is about --direct: name a function and its caller`);
  }
  const filters = args.l !== undefined || args.n !== undefined || args.file !== undefined;
  if (isSession(args) && way === undefined && !args.enable && filters) {
    throw new ElftraceError(
      'usage',
      '-l, -n and --file are about --enable: operations of a session have filters of their own',
    );
  }
  if (wanted.length > 1) throw new ElftraceError('usage', `${wanted.join(' and ')} exclude each other`);
}

/** The arguments as a request of the library. */
function requestOf(args: PatchArguments): PatchRequest {
  const { optimize, kprobeOpt: version = null, preempt = null, require } = args;
  return {
    to: args.nop ? 'nop' : args.init ? 'init' : args.untrace ? 'untrace' : args.enable ? 'tracer' : null,
    tracer: tracerOf(args.tracer),
    saveRegs: args.saveRegs,
    clock: args.clock,
    entry: args.entry,
    ops: args.ops,
    filters: filterTexts(args),
    sessions: (args.session ?? []).map((name) => ({ name, text: new TextDecoder().decode(readBytes(name)) })),
    direct: (args.direct ?? []).map(directStep),
    livepatches: (args.livepatch ?? []).map(livepatchStep),
    probes: (args.probe ?? []).map((define) => ({ kind: 'probe', define, optimize, version, preempt, at: null })),
    objects: args.with ?? [],
    machine: args.machine,
    preempt: args.preempt,
    allowUnsafeGraph: args.allowUnsafeGraph,
    ...(args.readonly ? { readonlyRanges: args.readonly.map(parseRange) } : {}),
    strictPermissions: args.strictPerm,
    acceptance: { partial: args.partial, ...(require === undefined ? {} : { requirePercent: require }) },
    names: args,
  };
}

/** What a request needs of the system. Paths in a session file are relative to it. */
function hostOf(input: InputFile): PatchHost {
  return {
    hash,
    source: (path, arch, beside) => sourceOf(beside === null ? path : join(dirname(beside), path), arch),
    notice: (text) => {
      err(`${input.name}: notice: ${text}`);
    },
  };
}

// ------------------------------------------------------------------------------------------ output

export async function runPatch(args: Omit<PatchArguments, 'path'> & { path?: string | undefined }): Promise<number> {
  const { path, ...rest } = args;
  if (path === undefined) throw new ElftraceError('usage', `${args.planOnly ? 'plan' : 'patch'} needs PATH`);
  checkRequest(rest);
  return patchFile({ ...rest, path });
}

/** One file, as `checkRequest` has found the arguments right. */
export async function patchFile(args: PatchArguments): Promise<number> {
  const writes = !args.dryRun && !args.planOnly;
  const output = writes ? outputPath(args.path, args.output, args.inPlace) : undefined;
  const input = await readInput(args.path);
  const runs = args.prove === true || !(args.nop || args.init || args.untrace);
  const opened = await open(input, args, runs ? 'run' : 'read');
  const request = requestOf(args);
  const beside = args.journal !== undefined;
  const patched = await patchImage(opened, request, hostOf(input), {
    until: writes ? 'written' : 'planned',
    prove: args.prove === true ? input.name : null,
    record: beside ? 'beside' : 'note',
    refused: (refusals) => {
      printRefusals(refusals, input.name);
    },
    progress: (step) => {
      progress(`patch ${args.path}: ${step}`);
    },
  }).catch(async (error: unknown) => {
    if (args.json) await printUnsafe(error, input, args);
    throw tracerHint(error, args.tracer);
  });
  const { planned } = patched;
  if (args.planOnly) await writePlan(planFileText(opened, planned, request, { hash, beside }), args.output);
  else if (output === undefined) await printDryRun(planned, input, args);
  else return write(input, patched, args, output);
  // The plan is the output; whether it would be carried out is the exit code.
  checkAcceptance(planned.plan, request.acceptance);
  return exitCodes.ok;
}

async function printDryRun(planned: Planned, input: InputFile, { json }: PatchArguments): Promise<void> {
  if (json) out(JSON.stringify(planJson(input.name, hash(planned.on.image.bytes), planned.plan)));
  else await printPlan(planned);
}

async function writePlan(text: string, output: string | undefined): Promise<void> {
  if (output === undefined) out(text);
  else await writeOutputs([{ path: output, bytes: new TextEncoder().encode(`${visibleJson(text)}\n`) }]);
}

async function write(
  input: InputFile,
  { planned, applied, request }: Patched,
  args: PatchArguments,
  output: string,
): Promise<number> {
  if (applied === null) throw new ElftraceError('internal', 'nothing was carried out', {});
  const { plan, on: opened, probes } = planned;
  const beside = args.journal !== undefined;
  // The record first: a file that was changed must never be without the way back.
  const outputs = [
    ...(beside && applied.recordBytes ? [await journalOutput(args.journal!, applied.recordBytes, output)] : []),
    outputLike({ output: output, like: args.path, form: args.compress ? input.form : 'none' }, applied),
  ];
  const { batch } = args;
  const makesFolder = batch !== undefined;
  const written = await writeOutputs(
    outputs.map((each) => ({ ...each, makesFolder })),
    batch,
  );
  const notices = [
    ...applied.notices,
    ...written,
    ...copyNotice(plan, opened, beside),
    ...planNotices(plan, opened, request),
    ...hazardNotices(plan),
  ];
  for (const notice of notices) err(`${input.name}: notice: ${notice}`);
  const additions = applied.size - input.bytes.length;
  const told = probes.length > 0 ? await import('./probes.js') : null;
  if (args.json) {
    out(
      JSON.stringify({
        schema: jsonSchema,
        file: input.name,
        output: output,
        edits: plan.steps.map(stepJson),
        ...newRelocationsJson(plan),
        additions: applied.record ? [{ section: beside ? null : '.note.elftrace', bytes: additions }] : [],
        refusals: refusalsJson(plan),
        ...initialisedJson(plan),
        ...(told === null ? {} : { probes: probes.map(told.probeJson) }),
        hazards: hazardsJson(plan),
        notices,
      }),
    );
  } else {
    out(
      `${output}: ${plan.changed} of ${plan.selected} sites changed, ${initialisedText(plan)}${plan.unchanged} already as asked` +
        (plan.refusals.length > 0 ? `, ${plan.refusals.length} refused` : '') +
        (told === null ? '' : `; ${told.probeSummary(probes)}`),
    );
  }
  return exitCodes.ok;
}

/** A tracer that is no symbol of the image may be a mistyped one of ours. */
function tracerHint(error: unknown, tracer: string): unknown {
  if (!(error instanceof ElftraceError) || error.context.symbol !== tracer) return error;
  const hint = didYouMean(tracer, ['function', 'function_graph', 'counter']);
  return hint === '' ? error : new ElftraceError(error.code, error.message + hint, error.context, { cause: error });
}

/**
 * A request that was refused as a whole, as JSON: of `--dry-run` a plan without steps. Nothing is
 * written.
 */
async function printUnsafe(error: unknown, input: InputFile, args: PatchArguments): Promise<void> {
  if (!(error instanceof ElftraceError) || error.code !== 'unsafe-graph') return;
  const { UnsafeGraphError } = await import('../tracing/graph-safety.js');
  if (!(error instanceof UnsafeGraphError)) return;
  const { what, hazards } = error;
  const refusals = unsafeGraphJson(hazards);
  const common = { schema: jsonSchema, file: input.name };
  out(
    JSON.stringify(
      args.dryRun
        ? {
            ...common,
            sha256: hash(input.bytes),
            target: targetOf(readElf(input.bytes).header),
            request: what,
            ...{ selected: 0, changed: 0, unchanged: 0, steps: [], refusals, hazards: [] },
          }
        : { ...common, output: null, edits: [], additions: [], refusals, hazards: [], notices: [] },
    ),
  );
}

const initialisedText = ({ initialised = [] }: Plan): string =>
  initialised.length === 0 ? '' : `${initialised.length} made nops as in a kernel that starts, `;

function printRefusals(refusals: Plan['refusals'], name: string): void {
  for (const refusal of refusals) {
    const where = refusal.function === '' ? '' : ` (${refusal.function})`;
    err(
      `${name}:${refusal.section}+${hex(refusal.address)}${where}: error: ${refusal.code}: ${refusal.reason} [${refusal.errno}]`,
    );
    if (refusal.expected !== '') err(`  expected: ${refusal.expected}`);
    if (refusal.actual !== '') err(`  actual: ${refusal.actual}`);
  }
}

async function printPlan({ plan, on: opened }: Planned): Promise<void> {
  out(
    `plan: ${plan.request} on ${plan.target}: ${plan.changed} of ${plan.selected} sites change, ${initialisedText(plan)}${plan.unchanged} are as asked`,
  );
  for (const step of plan.steps) {
    out(
      `  ${step.section}+${hex(step.address)}: ${hexBytes(step.before)} -> ${hexBytes(step.after)}  ${await stepText(step, opened.arch)} [${step.rule}]`,
    );
  }
  for (const { site, section, offset, type, symbol } of plan.additions?.relocations ?? []) {
    const name = opened.arch.relocations.get(type)?.name ?? String(type);
    const where = opened.sites.codeRange(site)?.name ?? String(section);
    out(`  ${where}+${hex(offset)}: new relocation ${name} ${symbol} [F-2]`);
  }
  for (const refusal of plan.refusals) {
    out(
      `  refused ${refusal.section}+${hex(refusal.address)} ${refusal.function}: ${refusal.code}: ${refusal.reason} [${refusal.errno}]`,
    );
  }
  for (const notice of initialisedNotice(plan)) out(`  ${notice}`);
  for (const notice of hazardNotices(plan)) out(`  hazard ${notice}`);
}

async function stepText(step: Step, arch: Parameters<typeof oneLine>[0]): Promise<string> {
  if (step.kind === 'table') return `table: ${step.part}`;
  if (step.kind === 'reloc') {
    const [from, to] = [step.type, step.becomes].map((type) => arch.relocations.get(type)?.name ?? String(type));
    return `relocation ${from!} ${step.symbol} -> ${to!}`;
  }
  return `${await oneLine(arch, step.before, step.address)} -> ${await oneLine(arch, step.after, step.address)}`;
}
