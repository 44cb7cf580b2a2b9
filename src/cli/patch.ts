/** `elftrace patch FILE -o OUT --nop`: turns call sites into nops; everything is decided before a byte is written. */
import { writeFileSync } from 'node:fs';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { applyPlan } from '../ftrace/apply.js';
import { type Acceptance, checkAcceptance, type Plan, planSites, type Step } from '../ftrace/plan.js';
import { jsonSchema, planJson, refusalsJson, stepJson } from '../report/json.js';
import type { WritableState } from '../arch.js';
import { oneLine } from './disassembly.js';
import { exitCodes } from './exit.js';
import { outputPath, readInput, writeOutput } from './files.js';
import { hash, open, type Opened, type OpenOptions } from './open.js';
import { selectSites, type SelectionOptions } from './selection.js';
import { err, out } from './terminal.js';

export interface PatchArguments extends OpenOptions, SelectionOptions {
  readonly path: string;
  readonly output?: string | undefined;
  readonly inPlace: boolean;
  readonly nop: boolean;
  readonly init: boolean;
  readonly dryRun: boolean;
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

export async function runPatch(args: PatchArguments): Promise<number> {
  if (!args.nop && !args.init) throw new ElftraceError('usage', 'say what to do: --nop or --init');
  if (args.nop && args.init) throw new ElftraceError('usage', '--nop and --init exclude each other');
  const output = args.dryRun ? undefined : outputPath(args.path, args.output, args.inPlace);
  const input = await readInput(args.path);
  const opened = await open(input, args);
  const { sites, image, module } = opened;
  const selection = selectSites(sites, module, args);
  const to: WritableState = args.init ? { kind: 'init' } : { kind: 'nop' };
  const plan = planSites(sites, {
    to,
    ...(selection ? { selection } : {}),
    ...(opened.recorded ? { recorded: opened.recorded } : {}),
    ...(args.readonly ? { readonlyRanges: args.readonly.map(parseRange) } : {}),
    strictPermissions: args.strictPerm,
    emptySlots: args.emptySlots,
  });
  const acceptance: Acceptance = {
    partial: args.partial,
    ...(args.require === undefined ? {} : { requirePercent: args.require }),
  };
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
  });
  // The record first: a file that was changed must never be without the way back.
  if (beside && applied.recordBytes) writeFileSync(args.journal!, applied.recordBytes);
  writeOutput({ output: output!, like: args.path, form: args.compress ? input.form : 'none' }, applied.bytes);
  const notices = [...applied.notices, ...tableNotice(plan, opened, args)];
  for (const notice of notices) err(`${input.name}: notice: ${notice}`);
  const additions = applied.bytes.length - image.bytes.length;
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
