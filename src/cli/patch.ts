/**
 * `elftrace patch FILE -o OUT --nop` turns call sites into nops, `--enable` into calls of a tracer; everything is decided before a byte is
 * written.
 */
import { writeFileSync } from 'node:fs';
import { equalBytes } from '../bytes.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { readElf } from '../elf/read.js';
import { applyPlan, unpatched } from '../ftrace/apply.js';
import { type DirectVariant, planDirect } from '../ftrace/direct.js';
import { withRuntime } from '../ftrace/inject.js';
import { type Acceptance, checkAcceptance, type Plan, planSites, type Step } from '../ftrace/plan.js';
import { encodePlanFile, injectionOf } from '../ftrace/plan-file.js';
import { entryPoint } from '../ftrace/routes.js';
import { planSession } from '../ftrace/session-plan.js';
import { findSites } from '../ftrace/sites.js';
import { entriesOf, idleOpsOf, planTracing, type Tracer } from '../ftrace/tracing.js';
import { load } from '../program/program.js';
import { jsonSchema, planJson, refusalsJson, stepJson } from '../report/json.js';
import type { WritableState } from '../arch.js';
import { oneLine } from './disassembly.js';
import { exitCodes } from './exit.js';
import { outputPath, readBytes, readInput, writeOutput } from './files.js';
import { hash, open, type Opened, type OpenOptions } from './open.js';
import { selectSites, type SelectionOptions } from './selection.js';
import { err, out } from './terminal.js';

/** Generations of sites that RISC-V's areas of nops can become. */
export const riscvSites = ['g1', 'g2', 'g2-merged', 'g3', 'g3c'] as const;

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
  readonly tracer: string;
  readonly ppcNop: '2008' | 'b8';
  readonly preempt: 'none' | 'full';
  readonly a64Era?: 'regs' | 'callops' | undefined;
  readonly a64Default?: 'list' | 'nop' | undefined;
  readonly x86Tramp?: 'modern' | '2014' | 'none' | undefined;
  readonly saveRegs: boolean;
  readonly riscvDirect?: DirectVariant | undefined;
  readonly riscvSite?: (typeof riscvSites)[number] | undefined;
  readonly dryRun: boolean;
  /** The verb `plan`: the plan goes to a file, or to standard output. */
  readonly planOnly: boolean;
  readonly partial: boolean;
  readonly require?: number | undefined;
  readonly compress: boolean;
  readonly strictPerm: boolean;
  readonly emptySlots: boolean;
  readonly readonly?: readonly string[] | undefined;
  readonly json: boolean;
}

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

/** The file as it will be patched: itself, or an image of it that has the tracing entries which the request needs. */
function prepared(
  opened: Opened,
  selection: Uint8Array | undefined,
  args: PatchArguments,
): Opened & { injected: boolean } {
  if ((!args.enable && args.direct === undefined) || entryPoint(opened.program, 'ftrace_caller') !== null)
    return { ...opened, injected: false };
  if (opened.record !== null) {
    throw new ElftraceError(
      'unsupported-form',
      'the file was patched before and has no tracing entries: revert it first',
    );
  }
  const machine = {
    ...(args.x86Tramp ? { 'x86-tramp': args.x86Tramp } : {}),
    ...(args.a64Era ? { 'a64-era': args.a64Era } : {}),
  };
  // Words in front of functions are asked for by name: without them there is an error.
  const preferred = args.a64Era === 'callops' ? args.a64Era : args.riscvSite;
  const image = withRuntime(opened.sites, selection, hash, preferred, machine);
  const program = load(image, opened.arch, {
    ...(args.mcount ? { mcountNames: args.mcount } : {}),
  });
  const sites = findSites(program, { record: null, ...(args.table ? { tableSections: args.table } : {}) });
  return { ...opened, image, program, sites, injected: true };
}

/** An image has the entries of one time: those of another are laid in anew. */
function checkTrampolines({ program }: Opened, { x86Tramp }: PatchArguments): void {
  if (x86Tramp === undefined || x86Tramp === 'none') return;
  const has = program.loadMap?.options['x86-tramp'];
  if (has === x86Tramp) return;
  throw new ElftraceError(
    'usage',
    has === undefined
      ? `--x86-tramp=${x86Tramp}: the image's entries were not laid in by elftrace`
      : `--x86-tramp=${x86Tramp}: the image was laid out with --x86-tramp=${has}: revert it first, or load it anew`,
    { value: x86Tramp },
  );
}

interface Planned {
  readonly plan: Plan;
  readonly on: Opened & { injected: boolean };
  /** Texts that the record keeps, for requests by session files. */
  readonly session: readonly string[];
}

/** `FUNCTION=OTHER` of an option. */
function pairOf(option: string, text: string): [name: string, other: string] {
  const match = /^([^=\s]+)=([^=\s]+)$/.exec(text);
  if (!match) throw new ElftraceError('usage', `--${option} ${text}: write FUNCTION=OTHER`);
  return [match[1]!, match[2]!];
}

/** Session files, and one more of the options that are operations themselves. */
function sessionTexts(args: PatchArguments): { readonly name: string; readonly text: string }[] {
  const files = (args.session ?? []).map((name) => ({ name, text: new TextDecoder().decode(readBytes(name)) }));
  const direct = (args.direct ?? []).map((text) => {
    const [name, caller] = pairOf('direct', text);
    return { direct: { function: name, caller } };
  });
  const livepatch = (args.livepatch ?? []).map((text) => {
    const [name, replacement] = pairOf('livepatch', text);
    return { livepatch: { function: name, new: replacement } };
  });
  const steps = [...direct, ...livepatch];
  return steps.length === 0 ? files : [...files, { name: 'options', text: JSON.stringify({ version: 1, steps }) }];
}

function isSession({ session, direct, livepatch }: PatchArguments): boolean {
  return session !== undefined || direct !== undefined || livepatch !== undefined;
}

/** The plan of session files: those that the record knows, then the new ones, on the image as it was before all of them. */
function planSessions(opened: Opened, args: PatchArguments): Planned {
  const { record, image } = opened;
  if (record !== null && record.session.length === 0) {
    throw new ElftraceError('unsupported-form', 'the file was patched without a session: revert it first');
  }
  if (opened.recordBeside) {
    throw new ElftraceError('unsupported-form', 'sessions keep their record in the file');
  }
  const earlier = record?.session ?? [];
  const texts = sessionTexts(args);
  const base = record === null ? image : readElf(unpatched(image, null, hash));
  const on =
    record === null
      ? prepared(opened, undefined, { ...args, enable: true })
      : { ...opened, image: base, record: null, injected: record.injected };
  const { plan } = planSession(
    on.image,
    on.arch,
    [...earlier.map((text, i) => ({ name: `recorded session ${i + 1}`, text })), ...texts],
    {
      ...(args.ppcNop === 'b8' ? {} : { nopForm: args.ppcNop }),
      ...(args.a64Default === undefined ? {} : { policy: { literalOff: args.a64Default } }),
    },
  );
  return { plan, on, session: [...earlier, ...texts.map(({ text }) => text)] };
}

/** Direct callers, with a tracer where one is enabled, too. */
function planOfDirect(opened: Opened, direct: readonly string[], args: PatchArguments): Planned {
  const callers = direct.map((text) => {
    const [, name, caller] = /^([^=]+)=([^=]+)$/.exec(text) ?? [];
    if (name === undefined || caller === undefined)
      throw new ElftraceError('usage', `--direct ${text}: write FUNCTION=CALLER`);
    return { function: name, caller };
  });
  const on = prepared(opened, undefined, args);
  const tracer = tracerOf(args.tracer);
  const symbols = {
    function: 'elftrace_function_tracer',
    counter: 'elftrace_counter',
    function_graph: 'ftrace_graph_func',
  };
  const filter = args.l === undefined || args.l.length === 0 ? null : args.l.join(' ');
  const plan = planDirect(on.sites, {
    callers,
    tracer: args.enable ? { symbol: tracer.kind === 'symbol' ? tracer.name : symbols[tracer.kind], filter } : null,
    variant: args.riscvDirect ?? null,
  });
  return { plan, on, session: [] };
}

/** The plan of a request, and the file that it is about. */
function planOf(opened: Opened, args: PatchArguments): Planned {
  // With a tracer in the same request, or as one of the proposals that were not taken.
  if (args.direct !== undefined && (args.enable || args.riscvDirect !== undefined)) {
    return planOfDirect(opened, args.direct, args);
  }
  if (isSession(args)) return planSessions(opened, args);
  if (opened.record !== null && opened.record.session.length > 0) {
    throw new ElftraceError(
      'unsupported-form',
      'the file was patched by a session: go on with --session, or revert it',
    );
  }
  return { ...planWords(opened, args), session: [] };
}

function planWords(opened: Opened, args: PatchArguments): Omit<Planned, 'session'> {
  const before = selectSites(opened.sites, opened.module, args);
  const on = prepared(opened, before, args);
  const { sites, program, module } = on;
  const selection = on.injected ? selectSites(sites, module, args) : before;
  const common = {
    ...(selection ? { selection } : {}),
    ...(opened.recorded ? { recorded: opened.recorded } : {}),
    ...(args.readonly ? { readonlyRanges: args.readonly.map(parseRange) } : {}),
    strictPermissions: args.strictPerm,
  };
  if (opened.arch.target.id !== 'arm64' && (args.a64Era !== undefined || args.a64Default !== undefined)) {
    throw new ElftraceError(
      'usage',
      `--a64-${args.a64Era === undefined ? 'default' : 'era'} is about arm64, this is ${opened.arch.target.title}`,
    );
  }
  const forms = {
    ...(args.ppcNop === 'b8' ? {} : { nopForm: args.ppcNop }),
    ...(args.a64Default === undefined ? {} : { idleOps: args.a64Default }),
  };
  const ours = program.relocatable || entryPoint(program, 'ftrace_caller') === null ? null : entriesOf(program);
  if (args.enable) {
    const others = program.loadMap !== null && program.loadMap.original === null ? 'nop' : 'untouched';
    checkTrampolines(on, args);
    const saveRegs = args.saveRegs;
    const trampolines = args.x86Tramp !== 'none';
    const request = { tracer: tracerOf(args.tracer), others, saveRegs, trampolines, ...common, ...forms } as const;
    return { plan: planTracing(sites, request), on };
  }
  // With the last site the tracer goes too, and the image is as it was before.
  if (args.nop && ours?.hasObjects) {
    return {
      plan: { ...planTracing(sites, { tracer: null, others: 'nop', ...common, ...forms }), request: 'nop' },
      on,
    };
  }
  const idle = idleOpsOf(program, args.a64Default ?? 'nop');
  const to: WritableState = args.init
    ? {
        kind: 'init',
        ...(args.riscvSite === undefined ? {} : { form: args.riscvSite }),
        ...(idle === null ? {} : { literal: idle }),
      }
    : { kind: 'nop', ...(args.ppcNop === 'b8' ? {} : { form: args.ppcNop }) };
  return { plan: planSites(sites, { to, emptySlots: args.emptySlots, ...common }), on };
}

export async function runPatch(args: PatchArguments): Promise<number> {
  const wanted = [
    args.nop && '--nop',
    args.init && '--init',
    args.enable && '--enable',
    isSession(args) && !(args.direct !== undefined && args.enable) && '--session',
  ].filter((each) => each !== false);
  if (wanted.length === 0)
    throw new ElftraceError('usage', 'say what to do: --nop, --enable, --session, --livepatch, --direct or --init');
  if (wanted.length > 1) throw new ElftraceError('usage', `${wanted.join(' and ')} exclude each other`);
  const output = args.dryRun || args.planOnly ? undefined : outputPath(args.path, args.output, args.inPlace);
  const input = await readInput(args.path);
  const { plan, on: opened, session } = planOf(await open(input, args), args);
  const { image } = opened;
  const acceptance: Acceptance = {
    partial: args.partial,
    ...(args.require === undefined ? {} : { requirePercent: args.require }),
  };
  if (args.planOnly) {
    if (opened.recordBeside || args.journal !== undefined) {
      throw new ElftraceError('usage', 'plan works on files that carry their record');
    }
    writePlan(input.bytes, { plan, session }, opened, args);
    checkAcceptance(plan, acceptance);
    return exitCodes.ok;
  }
  if (args.dryRun) {
    if (args.json) out(JSON.stringify(planJson(input.name, hash(image.bytes), plan)));
    else await printPlan(plan, opened);
    // The plan is the output; whether it would be carried out is the exit code.
    checkAcceptance(plan, acceptance);
    return exitCodes.ok;
  }
  printRefusals(plan, input.name);
  checkAcceptance(plan, acceptance);
  const beside = args.journal !== undefined;
  const applied = applyPlan(image, plan, {
    hash,
    record: beside ? 'beside' : 'note',
    earlier: opened.recordBeside ? opened.record : null,
    injected: opened.injected,
    session,
  });
  // The record first: a file that was changed must never be without the way back.
  if (beside && applied.recordBytes) writeFileSync(args.journal!, applied.recordBytes);
  writeOutput({ output: output!, like: args.path, form: args.compress ? input.form : 'none' }, applied.bytes);
  const notices = [
    ...applied.notices,
    ...(plan.notices ?? []),
    ...tableNotice(plan, opened, args),
    ...formNotice(plan, args),
    ...pairNotice(plan, args),
  ];
  for (const notice of notices) err(`${input.name}: notice: ${notice}`);
  const additions = applied.bytes.length - input.bytes.length;
  if (args.json) {
    out(
      JSON.stringify({
        schema: jsonSchema,
        file: input.name,
        output: output!,
        edits: plan.steps.map(stepJson),
        additions: applied.record ? [{ section: beside ? null : '.note.elftrace', bytes: additions }] : [],
        refusals: refusalsJson(plan),
        notices,
      }),
    );
  } else {
    out(
      `${output!}: ${plan.changed} of ${plan.selected} sites changed, ${plan.unchanged} already as asked` +
        (plan.refusals.length > 0 ? `, ${plan.refusals.length} refused` : ''),
    );
  }
  return exitCodes.ok;
}

/** Writes the plan file; where sessions start from the image as it was before, the plan is about that one. */
function writePlan(
  bytes: Uint8Array,
  { plan, session }: { plan: Plan; session: readonly string[] },
  { image, injected }: Opened & { injected: boolean },
  args: PatchArguments,
): void {
  const base = injected && image.bytes.length > bytes.length;
  if (!base && !equalBytes(image.bytes, bytes)) {
    throw new ElftraceError(
      'unsupported-form',
      'the file carries a session already: plan on the file as it was before',
    );
  }
  const text = encodePlanFile({
    sha256: hash(bytes),
    plan,
    session,
    injection: base ? injectionOf(bytes, image.bytes) : null,
  });
  if (args.output === undefined) out(text);
  else writeFileSync(args.output, `${text}\n`);
}

/**
 * What a kernel with dynamic ftrace does with a module or image whose table still names changed sites: it loads it, reports
 * ftrace_bug, and function tracing is dead until the next boot. Tried on x86-64, PowerPC and arm64 kernels.
 */
function tableNotice(plan: Plan, { program, sites }: Opened, args: PatchArguments): string[] {
  const kernel = program.isModule || sites.tables.some((table) => table.name === '__start_mcount_loc');
  if (!kernel || args.emptySlots || plan.changed === 0) return [];
  if (!sites.tables.some((table) => table.role === 'sites' && table.container >= 0)) return [];
  return [
    `the site table still names the ${plan.changed} changed sites: a kernel with dynamic ftrace that loads this file stops function ` +
      'tracing until it is rebooted; take them out of the table with --empty-slots',
  ];
}

/** 30-riscv R-MOD-3: two words change, and a thread may stand between them. */
function pairNotice(plan: Plan, args: PatchArguments): string[] {
  if (args.preempt !== 'full' || !plan.steps.some(({ rule }) => rule === 'R-ENC-1' || rule === 'R-SITE-3')) return [];
  return [
    'H2: sites of two words (auipc, jalr) were switched on: on a running system that can be preempted a thread between them would jump ' +
      'nowhere, even if all other CPUs are stopped; a fixed auipc (--riscv-site=g3) has no such place',
  ];
}

/** 20-ppc 5.5: a thread that is inside the tracer returns to a nop where its restore was. */
function formNotice(plan: Plan, args: PatchArguments): string[] {
  if (args.ppcNop !== '2008' || !plan.steps.some((step) => step.rule === 'T-PPC-12')) return [];
  return [
    'sites were disabled in the form of 2008 (two nops): on a running system a thread inside the tracer would come back to a nop where ' +
      'r2 must be restored; --ppc-nop=b8 has no such window',
  ];
}

function printRefusals(plan: Plan, name: string): void {
  for (const refusal of plan.refusals) {
    const where = refusal.function === '' ? '' : ` (${refusal.function})`;
    err(
      `${name}:${refusal.section}+${hex(refusal.address)}${where}: error: ${refusal.code}: ${refusal.reason} [${refusal.errno}]`,
    );
    if (refusal.expected !== '') err(`  expected: ${refusal.expected}`);
    if (refusal.actual !== '') err(`  actual: ${refusal.actual}`);
  }
}

async function printPlan(plan: Plan, opened: { arch: Parameters<typeof oneLine>[0] }): Promise<void> {
  out(
    `plan: ${plan.request} on ${plan.target}: ${plan.changed} of ${plan.selected} sites change, ${plan.unchanged} are as asked`,
  );
  for (const step of plan.steps) {
    out(
      `  ${step.section}+${hex(step.address)}: ${hexBytes(step.before)} -> ${hexBytes(step.after)}  ${await stepText(step, opened.arch)} [${step.rule}]`,
    );
  }
  for (const refusal of plan.refusals) {
    out(
      `  refused ${refusal.section}+${hex(refusal.address)} ${refusal.function}: ${refusal.code}: ${refusal.reason} [${refusal.errno}]`,
    );
  }
}

async function stepText(step: Step, arch: Parameters<typeof oneLine>[0]): Promise<string> {
  if (step.kind === 'reloc') {
    const [from, to] = [step.type, step.becomes].map((type) => arch.relocations.get(type)?.name ?? String(type));
    return `relocation ${from!} ${step.symbol} -> ${to!}`;
  }
  return `${await oneLine(arch, step.before, step.address)} -> ${await oneLine(arch, step.after, step.address)}`;
}
