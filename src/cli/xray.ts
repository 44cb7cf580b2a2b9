/** `elftrace xray FILE`: lists and verifies sleds of XRay, switches them on and off. */
import type { SledKind } from '../machine/sleds.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { applyPlan } from '../patch/apply.js';
import { checkAcceptance, type Plan } from '../patch/plan.js';
import { planSleds } from '../patch/sleds.js';
import { type Json, jsonSchema, refusalsJson, stepJson } from '../report/json.js';
import { selectSleds } from '../sites/selection.js';
import { findSleds, type Sled } from '../sites/sleds.js';
import { exitCodes } from './exit.js';
import { outputPath, readInput, writeOutput } from './files.js';
import { hash } from './hash.js';
import { open, type Opened, type OpenOptions } from './open.js';
import { filterTexts, type SelectionOptions } from './selection.js';
import { err, out } from './terminal.js';

export interface XrayArguments extends OpenOptions, SelectionOptions {
  readonly path: string;
  readonly on: boolean;
  readonly off: boolean;
  /** Symbols of trampolines by kind. */
  readonly trampolines: Readonly<Partial<Record<SledKind, string>>>;
  readonly output?: string | undefined;
  readonly inPlace: boolean;
  readonly partial: boolean;
  readonly compress: boolean;
  readonly json: boolean;
}

export async function runXray(args: XrayArguments): Promise<number> {
  if (args.on && args.off) throw new ElftraceError('usage', '--on and --off exclude each other');
  const writes = args.on || args.off;
  const named = Object.keys(args.trampolines);
  if (!args.on && named.length > 0)
    throw new ElftraceError('usage', 'trampolines are named for --on', { what: named[0]! });
  if (!writes && (args.output !== undefined || args.inPlace)) {
    throw new ElftraceError('usage', 'nothing is written without --on or --off');
  }
  const output = writes ? outputPath(args.path, args.output, args.inPlace) : null;
  const input = await readInput(args.path);
  const opened = await open(input, args);
  const sleds = findSleds(opened.program);
  if (sleds === null) throw new ElftraceError('no-match', 'the file has no sleds of XRay (xray_instr_map)');
  if ('unread' in sleds) throw new ElftraceError('unsupported-form', `its sleds are not read: ${sleds.unread}`);
  const selection = selectSleds(opened.program, sleds, opened.module, filterTexts(args));
  return output === null ? report(opened, sleds, selection, args) : change(opened, sleds, selection, output, args);
}

const sectionOf = ({ program }: Opened, { range }: Sled): string =>
  range === null ? '' : (program.image.sections[range.section]?.name ?? range.name);

function sledJson(opened: Opened, sled: Sled): Json {
  const { reading, kind, always, address, id } = sled;
  const target = reading.state === 'on' || reading.state === 'off' ? reading.target : null;
  return {
    function: sled.function,
    kind,
    always,
    section: sectionOf(opened, sled),
    address: hex(address),
    functionAddress: hex(sled.functionAddress),
    id,
    state: reading.state,
    target: target === null ? null : hex(target),
    bytes: hexBytes(sled.bytes),
    reason: 'reason' in reading ? reading.reason : null,
  };
}

/** A sled that is wrong, or of a kind that is not read, is no yes. */
function report(
  opened: Opened,
  sleds: readonly Sled[],
  selection: Uint8Array | undefined,
  args: XrayArguments,
): number {
  const { input, program } = opened;
  const chosen = sleds.filter((_, i) => selection?.[i] !== 0);
  const counts = { off: 0, on: 0, wrong: 0, unserved: 0 };
  for (const { reading } of chosen) counts[reading.state]++;
  if (args.json) {
    const rows = chosen.map((sled) => sledJson(opened, sled));
    out(JSON.stringify({ schema: jsonSchema, file: input.name, target: program.arch.target.id, counts, sleds: rows }));
  } else {
    for (const sled of chosen) {
      const { reading } = sled;
      const number = sled.id === null ? '' : `  ${sled.id}`;
      const why = 'reason' in reading ? `: ${reading.reason} [M-PROD-3]` : '';
      const place = `${sectionOf(opened, sled)}+${hex(sled.address)}`;
      out(`${place}  ${sled.function}${number}  ${sled.kind}  ${reading.state}${why}`);
    }
    const said = Object.entries(counts).flatMap(([state, count]) => (count === 0 ? [] : `${count} ${state}`));
    out(`${input.name}: ${program.arch.target.id}: ${chosen.length} sleds: ${said.join(', ')}`);
  }
  return counts.wrong + counts.unserved === 0 ? exitCodes.ok : exitCodes.failed;
}

async function change(
  opened: Opened,
  sleds: readonly Sled[],
  selection: Uint8Array | undefined,
  output: string,
  args: XrayArguments,
): Promise<number> {
  const { input, program, image, recordBeside } = opened;
  if (recordBeside) throw new ElftraceError('usage', 'xray works on files that carry their record');
  const plan = planSleds(program, sleds, {
    state: args.on ? 'on' : 'off',
    trampolines: args.trampolines,
    ...(selection === undefined ? {} : { selection }),
  });
  for (const { section, address, function: name, code, reason, errno } of plan.refusals) {
    err(`${input.name}:${section}+${hex(address)} (${name}): error: ${code}: ${reason} [${errno}]`);
  }
  checkAcceptance(plan, { partial: args.partial });
  const applied = applyPlan(image, plan, { hash });
  const written = await writeOutput(
    { output, like: args.path, form: args.compress ? input.form : 'none' },
    applied.bytes,
  );
  const notices = [...applied.notices, ...written];
  for (const notice of notices) err(`${input.name}: notice: ${notice}`);
  print(input.name, output, plan, notices, args.json);
  return exitCodes.ok;
}

function print(file: string, output: string, plan: Plan, notices: readonly string[], json: boolean): void {
  const { changed, unchanged, selected, steps, refusals } = plan;
  if (json) {
    const edits = steps.map(stepJson);
    out(
      JSON.stringify({
        schema: jsonSchema,
        file,
        output,
        changed,
        unchanged,
        edits,
        refusals: refusalsJson(plan),
        notices,
      }),
    );
    return;
  }
  const refused = refusals.length > 0 ? `, ${refusals.length} refused` : '';
  out(`${output}: ${changed} of ${selected} sleds changed, ${unchanged} already as asked${refused}`);
}
