/**
 * What is enabled in a file now, read from its bytes; what its record says was asked; and where the
 * two disagree. What sessions want is known to the core only: they are performed once more on the
 * file as it was.
 */
import { ElftraceError, hex } from '../errors.js';
import { type ProbeSessionPlan, replayProbes } from '../kprobes/index.js';
import { laidPolicy } from '../machine/options.js';
import { revert } from '../patch/revert.js';
import { untracedFunctions } from '../patch/untrace.js';
import type { Program } from '../program/program.js';
import { disagreements, type FileRecord } from '../record/journal.js';
import type { Sha256 } from '../sha256.js';
import { type Sites } from '../sites/sites.js';
import { directCallerOf } from '../sites/verdicts.js';
import { isAllocated, opsObjects } from '../tracing/trampolines.js';
import type { Address, SiteIndex } from '../units.js';
import type { OpenedImage } from './open.js';

/** A site that calls. */
export interface EnabledCall {
  readonly site: SiteIndex;
  /** What the instruction calls; null where a relocation decides that. */
  readonly target: Address | null;
  /** What is called in the end: a name, or an address. */
  readonly callee: string;
  readonly direct: { readonly caller: string; readonly jump: boolean } | null;
}

/** The object of a tracer. */
export interface OpsStatus {
  readonly index: number;
  readonly address: Address;
  /** What it calls; null: nothing. */
  readonly function: string | null;
  readonly flags: number;
  /** Whose numbers flags are shown in [T-X86-42]. */
  readonly era: '2014' | 'modern';
  readonly trampoline: Address | null;
}

/**
 * What `revert` would write, as a sum that `sha256sum` gives of that file, and of the one that was
 * patched.
 */
export type Original =
  | { readonly kind: 'file'; readonly size: number; readonly sha256: string }
  | { readonly kind: 'lost'; readonly reason: string };

export interface FileStatus {
  readonly enabled: readonly EnabledCall[];
  readonly ops: readonly OpsStatus[];
  readonly untraced: ReturnType<typeof untracedFunctions>;
  /** Places where the record says something else than the bytes. */
  readonly wrong: ReturnType<typeof disagreements>;
  /** null: there is no record. */
  readonly original: Original | null;
  /** What the sessions of the record make; null: it has none, or they are not known. */
  readonly sessions: ProbeSessionPlan | null;
}

/** What stands at addresses of code, for people. */
class Places {
  private readonly objects: ReturnType<typeof opsObjects>;

  constructor(private readonly program: Program) {
    this.objects = opsObjects(program);
  }

  nameOf(address: Address): string {
    const code = this.program.codeAt(address);
    return (code && this.program.describe(code, address)) || hex(address);
  }

  /** A trampoline is known by the ops that has it, and by what that calls. */
  owner(address: Address): string | null {
    const ops = this.objects.find((each) => isAllocated(each) && each.trampoline === address);
    return ops === undefined ? null : `trampoline of ops ${ops.index} (${this.nameOf(ops.func)})`;
  }

  ops(): readonly OpsStatus[] {
    // T-X86-42: images with the entries of 2014 show the numbers of that time.
    const { graph: era = 'modern' } = laidPolicy(this.program.arch.options, this.program.loadMap?.options ?? {});
    return this.objects.map(({ index, address, func, flags, trampoline }) => ({
      index,
      address,
      function: func === 0n ? null : this.nameOf(func),
      flags: Number(flags),
      era,
      trampoline: trampoline === 0n ? null : trampoline,
    }));
  }
}

/** What the call of a relocatable file names. */
function calledSymbol(sites: Sites, site: SiteIndex): string {
  const view = sites.viewOf(site);
  for (const delta of sites.reading(site)?.relocationDeltas ?? []) {
    const relocation = view.relocation(delta);
    if (relocation !== null) return relocation.symbolName;
  }
  return '';
}

function calleeOf({ sites, program }: OpenedImage, places: Places, site: SiteIndex, target: Address | null): string {
  const final = target === null ? null : program.finalTarget(target);
  if (final === null) return calledSymbol(sites, site);
  const named = places.owner(final) ?? places.nameOf(final);
  return final === target ? named : `${named} through ${hex(target ?? 0n)}`;
}

function enabledCalls(opened: OpenedImage, selection: Uint8Array | undefined, places: Places): EnabledCall[] {
  const { sites } = opened;
  const enabled: EnabledCall[] = [];
  for (let site = 0; site < sites.count; site++) {
    if (sites.state(site) !== 'call' || (selection && !selection[site])) continue;
    const target = sites.reading(site)?.target ?? null;
    const direct = directCallerOf(sites, site);
    enabled.push({
      site,
      target,
      callee: calleeOf(opened, places, site, target),
      direct: direct && { caller: places.nameOf(direct.caller), jump: direct.jump },
    });
  }
  return enabled;
}

/**
 * The record's own sum is of the image that it is about: of a program with a runtime laid in, of
 * none that a user has.
 */
function originalOf({ image, arch }: OpenedImage, beside: Uint8Array | null, hash: Sha256): Original {
  try {
    const bytes = revert(image, beside, hash, arch);
    return { kind: 'file', size: bytes.length, sha256: hash(bytes) };
  } catch (error) {
    if (!(error instanceof ElftraceError)) throw error;
    return { kind: 'lost', reason: error.message.replace(/; nothing was written$/, '') };
  }
}

/** null: the sessions of a stripped file were made with names that are not here. */
function sessionsOf(opened: OpenedImage, record: FileRecord, hash: Sha256): ProbeSessionPlan | null {
  try {
    return replayProbes(opened, record, hash);
  } catch (error) {
    if (!(error instanceof ElftraceError) || opened.program.namesFunctions) throw error;
    return null;
  }
}

/**
 * @param selection  one byte per site: those whose calls are asked for; undefined: all
 * @param beside     the record's bytes, where it is a file of its own
 * @throws ElftraceError: the record says something that cannot be
 */
export function fileStatus(
  opened: OpenedImage,
  selection: Uint8Array | undefined,
  beside: Uint8Array | null,
  hash: Sha256,
): FileStatus {
  const { program, record, image } = opened;
  const places = new Places(program);
  const enabled = enabledCalls(opened, selection, places);
  const untraced = untracedFunctions(program, record);
  const wrong = record ? disagreements(record, image.bytes) : [];
  const original = record === null ? null : originalOf(opened, beside, hash);
  const isWhole = wrong.length === 0 && original?.kind === 'file';
  const sessions = record && record.session.length > 0 && isWhole ? sessionsOf(opened, record, hash) : null;
  return { enabled, ops: places.ops(), untraced, wrong, original, sessions };
}
