/**
 * `mcount`: gives an object the `__mcount_loc` table that its compiler did not make, and checks it.
 * Joins the producer (`mcount-table.ts`), the shapes and the writer; decides nothing about bytes
 * itself.
 */
import { readElf } from '../elf/read.js';
import { writeElf } from '../elf/write.js';
import { ElftraceError, hex } from '../errors.js';
import { load, type Program } from '../program/program.js';
import { findCalls, findSites, callTest, mcountMachine } from '../sites/sites.js';
import { mcountSections, type McountPlan, planMcountTable } from '../sites/mcount-slots.js';
import { planSites } from './plan-sites.js';
import { verify } from '../sites/verdicts.js';
import type { SectionIndex } from '../units.js';

export interface RecordOptions {
  readonly path?: string;
  readonly sort?: boolean;
  /** Turn calls in sections that are not traced into nops (M-REC-10). */
  readonly nopUntraced?: boolean;
}

export interface Recorded {
  readonly bytes: Uint8Array;
  readonly plan: McountPlan;
  /** Calls that became nops. */
  readonly nopped: number;
  readonly notices: readonly string[];
}

/**
 * Adds the table to a relocatable file; a file that has one comes back as it is.
 * @throws ElftraceError 'plan-refused' when a call cannot get a slot: half a table would hide
 *   functions
 */
export function recordTable(program: Program, options: RecordOptions = {}): Recorded {
  const { image } = program;
  const machine = mcountMachine(program);
  const plan = planMcountTable(image, machine, {
    isCall: callTest(program),
    ...(options.path === undefined ? {} : { path: options.path }),
    sort: options.sort ?? true,
  });
  const nopUntraced = options.nopUntraced === true && plan.untraced.length > 0;
  // An object may call the profiling entry in untraced sections only: no table, but nops if they
  // were asked for.
  if (plan.skipped !== null && !(plan.skipped === 'no-calls' && nopUntraced)) {
    return { bytes: image.bytes.slice(), plan, nopped: 0, notices: [] };
  }
  const refused = plan.refusals[0];
  if (refused) {
    throw new ElftraceError(
      'plan-refused',
      `${plan.refusals.length} calls cannot get a slot; the first is ${refused.section.name}+${hex(refused.offset)}: ${refused.reason}`,
      { section: refused.section.name, offset: BigInt(refused.offset) },
    );
  }
  let nopped = 0;
  const patches: { offset: number; bytes: Uint8Array }[] = [];
  if (nopUntraced) {
    const untraced = new Set(plan.untraced.map((call) => `${call.section.index}:${call.offset}`));
    const sites = findSites(program);
    const selection = new Uint8Array(sites.count);
    for (let i = 0; i < sites.count; i++) {
      const range = sites.codeRange(i);
      if (range && untraced.has(`${range.section}:${sites.anchor[i]!}`)) selection[i] = 1;
    }
    const nops = planSites(sites, { to: { kind: 'nop' }, selection });
    nopped = nops.changed;
    for (const step of nops.steps) patches.push({ offset: step.fileOffset, bytes: step.after });
  }
  const trailing = image.bytes.length - image.elfSize;
  const written = writeElf(image, {
    patches,
    appendSections: plan.slots.count > 0 ? [...mcountSections(image, machine, plan.slots)] : [],
    dropTrailing: trailing > 0,
  });
  if (plan.slots.count > 0) checkTable(program, written.bytes, plan);
  const notices =
    trailing > 0 ? [`${trailing} bytes behind the ELF image (a signature that no longer holds) were cut`] : [];
  return { bytes: written.bytes, plan, nopped, notices };
}

/** Reads the result as any user would: as many sites as slots, none of them wrong. */
function checkTable(program: Program, bytes: Uint8Array, plan: McountPlan): void {
  const again = load(readElf(bytes), program.arch, { mcountNames: program.profilingNames });
  const result = verify(findSites(again));
  const wrong = result.findings.find((finding) => finding.severity === 'error');
  if (wrong) {
    throw new ElftraceError(
      'internal',
      `the new table has a wrong slot: ${wrong.section}+${hex(wrong.offset)}: ${wrong.message}`,
    );
  }
  if (result.sites !== plan.slots.count) {
    throw new ElftraceError('internal', `the new table has ${result.sites} sites for ${plan.slots.count} calls`);
  }
}

/**
 * Calls of the profiling entry that a file makes, whether or not a table names them: to compare
 * with its table.
 */
export function callPlaces(program: Program): { section: SectionIndex; offset: bigint }[] {
  const calls = findCalls(program);
  return Array.from({ length: calls.count }, (_, i) => ({ section: calls.section[i]!, offset: calls.value[i]! }));
}
