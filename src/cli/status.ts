/**
 * `elftrace status FILE`: what is enabled now, read from the bytes, in the columns of
 * `enabled_functions`; what the record says was asked; and where the two disagree.
 */
import { hex, hexBytes } from '../errors.js';
import { flagNames, formatFunctions, rawFlags } from '../ftrace/index.js';
import { type EnabledCall, type FileStatus, fileStatus, type OpsStatus, type Original } from '../pipeline/status.js';
import { functionJson, type Json, jsonSchema, recordJson } from '../report/json.js';
import { exitCodes } from './exit.js';
import { type InputFile, readBytes, readInputs } from './files.js';
import { hash } from './hash.js';
import { open, type Opened, type OpenOptions } from './open.js';
import { probeJson, probeLine } from './probes.js';
import { selectSites, type SelectionOptions } from './selection.js';
import { out } from './terminal.js';

export interface StatusArguments extends OpenOptions, SelectionOptions {
  readonly path: string;
  /** Every function that was ever enabled, as `touched_functions`. */
  readonly touched: boolean;
  /** The objects of tracers too. */
  readonly ops: boolean;
  readonly json: boolean;
}

/** What is known of one input. */
interface Status extends FileStatus {
  readonly input: InputFile;
  readonly opened: Opened;
}

function statusOf(input: InputFile, opened: Opened, args: StatusArguments): Status {
  const selection = selectSites(opened.sites, opened.module, args);
  const beside = opened.recordBeside ? readBytes(args.journal!) : null;
  return { input, opened, ...fileStatus(opened, selection, beside, hash) };
}

const opsJson = ({ index, address, function: name, flags, era, trampoline }: OpsStatus): Json => ({
  index,
  address: hex(address),
  function: name,
  flags: hex(rawFlags({ flags }, era)),
  names: flagNames({ flags }),
  trampoline: trampoline === null ? null : hex(trampoline),
});

/** As a line of `enabled_functions`: its columns R I D O M are not known from bytes alone. */
function callLines({ sites, program }: Opened, { site, callee, direct }: EnabledCall): string[] {
  const name = program.symbolName(sites.functionSymbol(site)) || hex(sites.ip(site));
  const line = `${name} (1)             ->${callee}`;
  return direct === null ? [line] : [line, `\tdirect${direct.jump ? '(jmp)' : ''}-->${direct.caller}`];
}

function printJson({ input, opened, ops, enabled, untraced, wrong, original, sessions }: Status): void {
  const { sites, record, module } = opened;
  const { byState } = sites.totals();
  const probes = sessions?.probes?.probes() ?? [];
  out(
    JSON.stringify({
      schema: jsonSchema,
      file: input.name,
      states: byState,
      enabled: enabled.map(({ site, target, callee }) => ({
        function: functionJson(sites, site, module),
        calls: target === null ? null : hex(target),
        callee,
      })),
      ...(ops.length > 0 ? { ops: ops.map(opsJson) } : {}),
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
  { input, opened, ops, enabled, untraced, wrong, original, sessions }: Status,
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
    const { index, flags, era, trampoline } = each;
    const at = trampoline === null ? 'no trampoline' : `trampoline ${hex(trampoline)}`;
    const [raw, names] = [hex(rawFlags({ flags }, era)), flagNames({ flags }).join(' ')];
    out(`# ops ${index}: ${each.function ?? 'no function'}, flags ${raw} (${names}), ${at}`);
  }
  for (const each of wrong) {
    out(
      `# state-mismatch at file offset ${hex(each.offset)}: recorded ${hexBytes(each.recorded)}, actual ${hexBytes(each.actual)}`,
    );
  }
  if (sessions === null) for (const each of enabled) callLines(opened, each).forEach((line) => void out(line));
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

function originalText(original: Original, form: InputFile['form']): string {
  if (original.kind === 'lost') return `revert gives nothing: ${original.reason}`;
  const packed = form === 'none' ? '' : `, before it is compressed (${form})`;
  return `revert gives ${original.size} bytes with sha256 ${original.sha256}${packed}`;
}

const originalJson = (original: Original): Json =>
  original.kind === 'lost'
    ? { sha256: null, size: null, reason: original.reason }
    : { sha256: original.sha256, size: original.size };
