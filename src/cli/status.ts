/**
 * `elftrace status FILE`: what is enabled now, read from the bytes, in the columns of
 * `enabled_functions`; what the record says was asked; and where the two disagree.
 */
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { flagNames, formatFunctions, rawFlags } from '../ftrace/index.js';
import { revert } from '../patch/apply.js';
import { laidPolicy } from '../machine/options.js';
import { disagreements, type FileRecord } from '../record/journal.js';
import type { Program } from '../program/program.js';
import type { Sites } from '../sites/sites.js';
import { untracedFunctions } from '../patch/untrace.js';
import { directCallerOf } from '../sites/verdicts.js';
import { isAllocated, opsObjects } from '../tracing/trampolines.js';
import type { ProbeSessionPlan } from '../kprobes/index.js';
import { functionJson, type Json, jsonSchema, recordJson } from '../report/json.js';
import { exitCodes } from './exit.js';
import { type InputFile, readBytes, readInputs } from './files.js';
import { hash, open, type Opened, type OpenOptions } from './open.js';
import { probeJson, probeLine, recordedProbes } from './probes.js';
import { selectSites, type SelectionOptions } from './selection.js';
import { out } from './terminal.js';
import type { SiteIndex } from '../units.js';

export interface StatusArguments extends OpenOptions, SelectionOptions {
  readonly path: string;
  /** Every function that was ever enabled, as `touched_functions`. */
  readonly touched: boolean;
  /** The objects of tracers too. */
  readonly ops: boolean;
  readonly json: boolean;
}

/** What stands at addresses of code, for people. */
class Places {
  private readonly objects: ReturnType<typeof opsObjects>;

  constructor(private readonly program: Program) {
    this.objects = opsObjects(program);
  }

  nameOf(address: bigint): string {
    const code = this.program.codeAt(address);
    return (code && this.program.describe(code, address)) || hex(address);
  }

  /** A trampoline is known by the ops that has it, and by what that calls. */
  owner(address: bigint): string | null {
    const ops = this.objects.find((each) => isAllocated(each) && each.trampoline === address);
    return ops === undefined ? null : `trampoline of ops ${ops.index} (${this.nameOf(ops.func)})`;
  }

  /** The objects of tracers. */
  ops(): readonly OpsRow[] {
    // T-X86-42: images with the entries of 2014 show the numbers of that time.
    const { graph: era = 'modern' } = laidPolicy(this.program.arch.options, this.program.loadMap?.options ?? {});
    return this.objects.map((each) => {
      const flags = { flags: Number(each.flags) };
      return {
        index: each.index,
        address: hex(each.address),
        function: each.func === 0n ? null : this.nameOf(each.func),
        flags: hex(rawFlags(flags, era)),
        names: flagNames(flags),
        trampoline: each.trampoline === 0n ? null : hex(each.trampoline),
      };
    });
  }
}

interface OpsRow {
  readonly index: number;
  readonly address: string;
  readonly function: string | null;
  readonly flags: string;
  readonly names: readonly string[];
  readonly trampoline: string | null;
}

/** Sites that call, as rows of JSON or as lines. */
function enabledCalls(
  { sites, program, module }: Opened,
  selection: Uint8Array | undefined,
  places: Places,
  json: boolean,
): { readonly enabled: readonly Json[]; readonly lines: readonly string[] } {
  const enabled: Json[] = [];
  const lines: string[] = [];
  for (let i = 0; i < sites.count; i++) {
    if (sites.state(i) !== 'call' || (selection && !selection[i])) continue;
    const target = sites.reading(i)?.target ?? null;
    const final = target === null ? null : program.finalTarget(target);
    const range = final === null ? undefined : program.codeAt(final);
    const named =
      final === null
        ? calledSymbol(sites, i)
        : (places.owner(final) ?? ((range && program.describe(range, final)) || hex(final)));
    const callee = final === null || final === target ? named : `${named} through ${hex(target ?? 0n)}`;
    if (json)
      enabled.push({ function: functionJson(sites, i, module), calls: target === null ? null : hex(target), callee });
    // name, attached ops, the columns R I D O M (none of them is known from bytes alone), callee
    else lines.push(`${program.symbolName(sites.functionSymbol(i)) || hex(sites.ip(i))} (1)             ->${callee}`);
    const direct = json ? null : directCallerOf(sites, i);
    if (direct !== null) {
      const { caller, jump } = direct;
      const home = program.codeAt(caller);
      lines.push(`\tdirect${jump ? '(jmp)' : ''}-->${(home && program.describe(home, caller)) || hex(caller)}`);
    }
  }
  return { enabled, lines };
}

/** What is known of one input. */
interface Status {
  readonly input: InputFile;
  readonly opened: Opened;
  readonly ops: readonly OpsRow[];
  readonly enabled: readonly Json[];
  readonly lines: readonly string[];
  readonly untraced: ReturnType<typeof untracedFunctions>;
  readonly wrong: ReturnType<typeof disagreements>;
  readonly original: Original | null;
  readonly sessions: ProbeSessionPlan | null;
}

function statusOf(input: InputFile, opened: Opened, args: StatusArguments): Status {
  const { sites, program, record, module, image } = opened;
  const places = new Places(program);
  const calls = enabledCalls(opened, selectSites(sites, module, args), places, args.json);
  const untraced = untracedFunctions(program, record);
  const wrong = record ? disagreements(record, image.bytes) : [];
  const original = record === null ? null : originalOf(opened, args.journal);
  // What sessions want is known to the core only: who is attached, and how often.
  const isWhole = wrong.length === 0 && original?.kind === 'file';
  const sessions = record && record.session.length > 0 && isWhole ? sessionsOf(opened, record) : null;
  return { input, opened, ops: places.ops(), ...calls, untraced, wrong, original, sessions };
}

function printJson({ input, opened, ops, enabled, untraced, wrong, original, sessions }: Status): void {
  const { sites, record } = opened;
  const { byState } = sites.totals();
  const probes = sessions?.probes?.probes() ?? [];
  out(
    JSON.stringify({
      schema: jsonSchema,
      file: input.name,
      states: byState,
      enabled,
      ...(ops.length > 0 ? { ops } : {}),
      ...(probes.length > 0 ? { probes: probes.map(probeJson) } : {}),
      record: recordJson(record),
      ...(untraced.length > 0
        ? {
            untraced: untraced.map(({ name, range, ip }) => ({
              function: name,
              section: range.name,
              address: hex(ip),
            })),
          }
        : {}),
      original: original === null ? null : originalJson(original),
      disagreements: wrong.map((each) => ({
        fileOffset: each.offset,
        recorded: hexBytes(each.recorded),
        actual: hexBytes(each.actual),
      })),
    }),
  );
}

function printText(
  { input, opened, ops, lines, untraced, wrong, original, sessions }: Status,
  args: StatusArguments,
): void {
  const { sites, record } = opened;
  const { byState } = sites.totals();
  const probes = sessions?.probes?.probes() ?? [];
  const states = Object.entries(byState).map(([state, count]) => `${count} ${state}`);
  out(`# ${input.name}: ${states.length === 0 ? 'no sites' : states.join(', ')}`);
  out(
    record
      ? `# record: ${record.requests.join(', ')} by elftrace ${record.tool}, ${record.edits.length} places`
      : '# no record: nothing in this file was changed by elftrace',
  );
  if (untraced.length > 0) out(untracedLine(untraced.map(({ name, ip }) => name || hex(ip))));
  if (original !== null) out(`# ${originalText(original, input.form)}`);
  for (const each of args.ops ? ops : []) {
    const { index, flags, names, trampoline } = each;
    const at = trampoline === null ? 'no trampoline' : `trampoline ${trampoline}`;
    out(`# ops ${index}: ${each.function ?? 'no function'}, flags ${flags} (${names.join(' ')}), ${at}`);
  }
  for (const each of wrong) {
    out(
      `# state-mismatch at file offset ${hex(each.offset)}: recorded ${hexBytes(each.recorded)}, actual ${hexBytes(each.actual)}`,
    );
  }
  if (sessions === null) for (const line of lines) out(line);
  else {
    const { core } = sessions.session;
    const listing = formatFunctions(args.touched ? core.touchedFunctions() : core.enabledFunctions()).trimEnd();
    // Every line begins at the margin or with a tab.
    for (const line of listing === '' ? [] : listing.split('\n')) out(line);
    if (probes.length > 0) out('# probes');
    for (const probe of probes) out(probeLine(probe));
  }
}

export async function runStatus(args: StatusArguments): Promise<number> {
  let exit: number = exitCodes.ok;
  for await (const input of readInputs(args.path)) {
    const status = statusOf(input, await open(input, args), args);
    if (status.wrong.length > 0 || status.original?.kind === 'lost') exit = exitCodes.failed;
    if (args.json) printJson(status);
    else printText(status, args);
  }
  return exit;
}

/** Names of functions that no table names any more: all are in the JSON. */
function untracedLine(names: readonly string[]): string {
  const shown = names.slice(0, 5);
  const more = names.length - shown.length;
  return `# untraced, no table names them: ${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/**
 * What `revert` would write, as a sum that `sha256sum` gives of that file, and of the one that was
 * patched.
 */
type Original =
  | { readonly kind: 'file'; readonly size: number; readonly sha256: string }
  | { readonly kind: 'lost'; readonly reason: string };

/**
 * The record's own sum is of the image that it is about: of a program with a runtime laid in, of
 * none that a user has.
 */
function originalOf({ image, arch, recordBeside }: Opened, journal: string | undefined): Original {
  try {
    const bytes = revert(image, recordBeside ? readBytes(journal!) : null, hash, arch);
    return { kind: 'file', size: bytes.length, sha256: hash(bytes) };
  } catch (error) {
    if (!(error instanceof ElftraceError)) throw error;
    return { kind: 'lost', reason: error.message.replace(/; nothing was written$/, '') };
  }
}

function originalText(original: Original, form: InputFile['form']): string {
  if (original.kind === 'lost') return `revert gives nothing: ${original.reason}`;
  const packed = form === 'none' ? '' : `, before it is compressed (${form})`;
  return `revert gives ${original.size} bytes with sha256 ${original.sha256}${packed}`;
}

const originalJson = (original: Original): Json =>
  original.kind === 'lost'
    ? { sha256: null, size: null, reason: original.reason }
    : { sha256: original.sha256, size: original.size };

/** What the call of a relocatable file names. */
function calledSymbol(sites: Sites, site: SiteIndex): string {
  const view = sites.viewOf(site);
  for (const delta of sites.reading(site)?.relocationDeltas ?? []) {
    const relocation = view.relocation(delta);
    if (relocation !== null) return relocation.symbolName;
  }
  return '';
}

/**
 * What the sessions of the record make; null where the sessions of a stripped file were made with
 * names that are not here.
 */
function sessionsOf(opened: Opened, record: FileRecord): ProbeSessionPlan | null {
  try {
    return recordedProbes(opened, record);
  } catch (error) {
    if (!(error instanceof ElftraceError) || opened.program.namesFunctions) throw error;
    return null;
  }
}
