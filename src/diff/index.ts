/**
 * Two images compared by their sites: functions that became traceable or are no more, sites that
 * moved inside of their function or changed their shape. Addresses alone are no difference: a line
 * of source moves all that stands behind it.
 *
 * A function is found again by its names; static ones of equal names by their source file, and
 * those that this leaves by their order.
 */
import { DebugInfo, isBadDebugInfo } from '../elf/dwarf.js';
import type { UnpackLimits } from '../elf/compressed.js';
import { ElftraceError } from '../errors.js';
import type { SiteState } from '../sites/site-states.js';
import type { Sites } from '../sites/sites.js';
import { type ComparedFunction, type ComparedImage, comparedImage } from './image.js';
import { type DiffReason, Witness } from './reasons.js';

export { comparedImage, type ComparedFunction, type ComparedImage, functionsNamed } from './image.js';
export { type DiffReason, type DiffReasonCode, Witness } from './reasons.js';

export const changeKinds = ['lost', 'gained', 'moved', 'changed'] as const;
/**
 * `moved`: to another section, or to another offset in its function. `changed`: in shape or state.
 */
export type ChangeKind = (typeof changeKinds)[number];

/** A site as one of the images has it. */
export interface DiffSite {
  readonly section: string;
  /** Address, or offset in the section. */
  readonly address: bigint;
  /** Bytes from the start of the function. */
  readonly offset: number;
  readonly shape: string;
  readonly state: SiteState;
}

export interface SiteDifference {
  readonly change: ChangeKind;
  readonly function: string;
  /** Source file of a static function; '' where it is not known, or not static. */
  readonly source: string;
  /** null: gained. */
  readonly old: DiffSite | null;
  /** null: lost. */
  readonly new: DiffSite | null;
  /** Of gained and lost ones; of gained ones, why the old image had none. */
  readonly reason: DiffReason | null;
}

/**
 * What is known of inlining: `read` from DWARF, `absent`, `damaged`, or not asked for because no
 * function is gone.
 */
export type DebugKnowledge = 'read' | 'absent' | 'damaged' | 'unneeded';

export interface Sides<T> {
  readonly old: T;
  readonly new: T;
}

export interface SitesDiff {
  readonly target: string;
  /** Sites that name code. */
  readonly sites: Sides<number>;
  /** Functions that have sites. */
  readonly functions: Sides<number>;
  /** Sites that no function's name covers: they are counted, not compared. */
  readonly unnamed: Sides<number>;
  /** Sites that are the same in function, offset, section, shape and state. */
  readonly same: number;
  /** Lost ones first, then by name. */
  readonly differences: readonly SiteDifference[];
  readonly counts: Readonly<Record<ChangeKind, number>>;
  readonly debug: Sides<DebugKnowledge>;
}

/**
 * Compares the sites of two images of one machine.
 * @param older  as `findSites` gives them
 * @param limits  how much debugging information may be unpacked, and until when
 * @throws ElftraceError 'usage' for images of two machines; 'bad-reference' for one that has no
 *   function symbols where the other has sites; 'timeout', 'limit-exceeded'
 */
export async function diffSites(older: Sites, newer: Sites, limits: UnpackLimits = {}): Promise<SitesDiff> {
  const [from, to] = [older.program.arch.target, newer.program.arch.target];
  if (from.id !== to.id)
    throw new ElftraceError('usage', `the old image is of ${from.title}, the new one of ${to.title}`);
  const images = { old: comparedImage(older), new: comparedImage(newer) };
  checkNames(images.old, 'old', images.new);
  checkNames(images.new, 'new', images.old);
  const partners = matchFunctions(images.old, images.new);
  const found = new Findings();
  const lost: ComparedFunction[] = [];
  for (const each of images.old.functions) {
    const partner = partners.get(each);
    if (partner !== undefined) found.compare(images, each, partner);
    else if (each.sites.length > 0) lost.push(each);
  }
  const known = new Set(partners.values());
  const gained = images.new.functions.filter((each) => !known.has(each) && each.sites.length > 0);
  const witnesses = {
    old: await witnessOf(images.old, gained, limits),
    new: await witnessOf(images.new, lost, limits),
  };
  return found.result(from.id, images, { lost, gained }, witnesses);
}

/** @throws ElftraceError 'bad-reference' */
function checkNames(image: ComparedImage, side: keyof Sides<unknown>, other: ComparedImage): void {
  const { program } = image.sites;
  const { symbols } = program.image;
  const isStripped = program.symbols === symbols && (symbols === program.image.dynamicSymbols || symbols.count <= 1);
  if (image.count > 0 ? program.namesFunctions && !isStripped : !isStripped || other.count === 0) return;
  throw new ElftraceError(
    'bad-reference',
    `the ${side} image has no symbols of its functions: --${side}-symbols names a file that has them`,
    { reason: 'no-symbols' },
  );
}

/** Functions of the new image by those of the old one. */
function matchFunctions(older: ComparedImage, newer: ComparedImage): Map<ComparedFunction, ComparedFunction> {
  const partners = new Map<ComparedFunction, ComparedFunction>();
  const taken = new Set<ComparedFunction>();
  for (const isExact of [true, false]) {
    for (const each of older.functions) {
      if (partners.has(each)) continue;
      const found = each.names
        .flatMap((name) => newer.byName.get(name) ?? [])
        .find((other) => !taken.has(other) && (!isExact || other.source === each.source));
      if (found === undefined) continue;
      partners.set(each, found);
      taken.add(found);
    }
  }
  return partners;
}

interface Witnessed {
  readonly witness: Witness;
  readonly debug: DebugKnowledge;
}

/** What an image says of functions that only the other one has. */
async function witnessOf(
  image: ComparedImage,
  others: readonly ComparedFunction[],
  limits: UnpackLimits,
): Promise<Witnessed> {
  if (others.length === 0) return { witness: new Witness(image, null), debug: 'unneeded' };
  try {
    const debug = await DebugInfo.read(image.sites.program.image, limits);
    const witness = new Witness(image, debug);
    witness.askFor(new Set(others.map(({ name }) => name)));
    return { witness, debug: debug === null ? 'absent' : 'read' };
  } catch (error) {
    if (!isBadDebugInfo(error)) throw error;
    return { witness: new Witness(image, null), debug: 'damaged' };
  }
}

function siteOf({ sites }: ComparedImage, index: number, { address }: ComparedFunction): DiffSite {
  const ip = sites.ip(index);
  return {
    section: sites.codeRange(index)?.name ?? '',
    address: ip,
    offset: Number(ip - address),
    shape: sites.shape(index),
    state: sites.state(index),
  };
}

/** Differences as they are found; reasons are added when all are known. */
class Findings {
  private readonly differences: SiteDifference[] = [];
  /** Functions of both images, one of which has fewer sites. */
  private readonly uneven: { readonly old: ComparedFunction; readonly new: ComparedFunction }[] = [];
  private same = 0;

  /** A function that both images have. */
  compare(images: Sides<ComparedImage>, older: ComparedFunction, newer: ComparedFunction): void {
    const both = Math.min(older.sites.length, newer.sites.length);
    for (let i = 0; i < both; i++) {
      const before = siteOf(images.old, older.sites[i]!, older);
      const after = siteOf(images.new, newer.sites[i]!, newer);
      const isMoved = before.section !== after.section || before.offset !== after.offset;
      const isChanged = before.shape !== after.shape || before.state !== after.state;
      if (!isMoved && !isChanged) this.same++;
      if (isMoved) this.add('moved', newer, before, after, null);
      if (isChanged) this.add('changed', newer, before, after, null);
    }
    if (older.sites.length !== newer.sites.length) this.uneven.push({ old: older, new: newer });
  }

  private add(
    change: ChangeKind,
    { name, source }: ComparedFunction,
    before: DiffSite | null,
    after: DiffSite | null,
    reason: DiffReason | null,
  ): void {
    this.differences.push({ change, function: name, source, old: before, new: after, reason });
  }

  result(
    target: string,
    images: Sides<ComparedImage>,
    alone: { readonly lost: readonly ComparedFunction[]; readonly gained: readonly ComparedFunction[] },
    { old: before, new: after }: Sides<Witnessed>,
  ): SitesDiff {
    for (const each of alone.lost) {
      const reason = after.witness.absent(each);
      for (const site of each.sites) this.add('lost', each, siteOf(images.old, site, each), null, reason);
    }
    for (const each of alone.gained) {
      const reason = before.witness.absent(each);
      for (const site of each.sites) this.add('gained', each, null, siteOf(images.new, site, each), reason);
    }
    for (const pair of this.uneven) {
      const lost = pair.old.sites.slice(pair.new.sites.length);
      const gained = pair.new.sites.slice(pair.old.sites.length);
      for (const site of lost) {
        this.add('lost', pair.old, siteOf(images.old, site, pair.old), null, after.witness.present(pair.new));
      }
      for (const site of gained) {
        this.add('gained', pair.new, null, siteOf(images.new, site, pair.new), before.witness.present(pair.old));
      }
    }
    const rank = (each: SiteDifference): number => changeKinds.indexOf(each.change);
    const differences = this.differences.sort(
      (a, b) => rank(a) - rank(b) || (a.function < b.function ? -1 : a.function > b.function ? 1 : 0),
    );
    const count = (change: ChangeKind): number => differences.filter((each) => each.change === change).length;
    const traced = ({ functions }: ComparedImage): number => functions.filter(({ sites }) => sites.length > 0).length;
    return {
      target,
      sites: { old: images.old.count, new: images.new.count },
      functions: { old: traced(images.old), new: traced(images.new) },
      unnamed: { old: images.old.unnamed, new: images.new.unnamed },
      same: this.same,
      differences,
      counts: { lost: count('lost'), gained: count('gained'), moved: count('moved'), changed: count('changed') },
      debug: { old: before.debug, new: after.debug },
    };
  }
}
