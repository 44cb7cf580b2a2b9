/**
 * What the compiled tier of a machine takes of the regions that were kept (`kept-regions.ts`), and
 * what it gives to be kept.
 */
import { guardAt, hasCode } from './code-bytes.js';
import type { CodeBytes } from './code-bytes.js';
import type { KeptModule, KeptRegion, KeptRegions, MadeRegions } from './kept-regions.js';
import { MAX_INSTRUCTION_BYTES } from './memory.js';
import type { GuestMemory } from './memory.js';
import type { ReachedCode } from './reached-code.js';
import type { BuiltModule, PlacedRegion, RegionModules } from './region-modules.js';
import type { RegionExtent } from './regions.js';
import type { RegionWindows } from './region-windows.js';
import type { Address } from '../units.js';

/** Times that a module is looked for whose code is not there (yet). */
const MOST_LOOKS = 4;

export interface KeeperParts {
  readonly memory: GuestMemory;
  readonly modules: RegionModules;
  readonly windows: RegionWindows;
  readonly reached: ReachedCode;
  /** Whether exactly this region can be called. */
  isPlaced(region: Pick<PlacedRegion, 'entry' | 'frame'>): boolean;
  /** Whether only tier 0 may execute what is at an address. */
  excluded(address: Address): boolean;
}

export class RegionKeeper {
  /** Modules that were taken, or that cannot be. */
  private readonly past = new Set<object>();
  private readonly looks = new Map<object, number>();
  private built: BuiltModule[] = [];
  private readonly isOwner: boolean;
  /** The numbers are no longer those that were begun with. */
  private isOver = false;

  constructor(
    private readonly kept: KeptRegions,
    private readonly parts: KeeperParts,
  ) {
    const { numbers } = kept;
    parts.modules.begin(numbers);
    parts.windows.begin(numbers);
    this.isOwner = kept.claim(() => this.made());
  }

  /** The regions of the module that can be entered at an address; they can be called now. */
  take(address: Address): readonly KeptRegion[] {
    const { kept, parts, past } = this;
    const found = this.isOver ? null : kept.find(address, past);
    if (!found) return [];
    const { module, key } = found;
    const regions = module.regions.filter((each) => this.canTake(each));
    const isThere = regions.length > 0;
    const looks = (this.looks.get(key) ?? 0) + 1;
    this.looks.set(key, looks);
    if (!isThere && looks < MOST_LOOKS) return [];
    past.add(key);
    // What it is to another machine, which may have other code there, says nothing of this one.
    if (this.isOwner) kept.note(key, isThere);
    if (!isThere) return [];
    parts.modules.take({ ...module, regions });
    for (const each of regions) parts.reached.addTaken(each);
    return regions;
  }

  private canTake({ code, region }: KeptRegion): boolean {
    const { memory, modules, excluded } = this.parts;
    if (this.kept.fuses !== modules.isFusing) return false;
    if (region.blocks.some(({ block }) => excluded(block.address))) return false;
    return code.every((each) => hasCode(memory, each));
  }

  /** A module was made. */
  add(built: BuiltModule): void {
    if (this.isOwner && !this.isOver) this.built.push(built);
  }

  /** All modules are forgotten, and their numbers given to others. */
  clear(): void {
    this.isOver = true;
    this.built = [];
  }

  private made(): MadeRegions | null {
    const { modules, windows, isPlaced } = this.parts;
    if (this.isOver) return null;
    const left = this.built.map(({ bytes, regions }) => ({ bytes, regions: regions.filter(isPlaced) }));
    return {
      numbers: { ...modules.numbers, ...windows.numbers, fuses: modules.isFusing },
      size: left.reduce((sum, { regions }) => sum + regions.reduce((all, { size }) => all + size, 0), 0),
      modules: () => left.map((each) => this.keep(each)).filter(({ regions }) => regions.length > 0),
      isThere: isPlaced,
    };
  }

  private keep({ bytes, regions }: BuiltModule): KeptModule {
    return { bytes, regions: regions.flatMap((each) => this.keepRegion(each)) };
  }

  private keepRegion(placed: PlacedRegion): readonly KeptRegion[] {
    const { reached } = this.parts;
    const { entry, number, index, frame, frameBytes, size, region, groups, sites } = placed;
    const code = this.codeOf(region);
    if (!code) return [];
    const isFunction = reached.entryOf(entry) === entry;
    const targets = sites
      .map((site) => [site, reached.targets(site)] as const)
      .filter(([site, list]) => list.length > 0 || reached.isThreaded(site));
    return [{ entry, isFunction, number, index, frame, frameBytes, size, region, groups, targets, code }];
  }

  /** What the code of a region depends on; null where that is more than bytes. */
  private codeOf({ blocks }: RegionExtent): readonly CodeBytes[] | null {
    const { memory } = this.parts;
    const sorted = blocks.map(({ block }) => block).sort((a, b) => (a.address < b.address ? -1 : 1));
    const spans: { address: Address; end: Address }[] = [];
    for (const { address, end } of sorted) {
      const last = spans.at(-1);
      if (last && address <= last.end + BigInt(MAX_INSTRUCTION_BYTES)) last.end = end > last.end ? end : last.end;
      else spans.push({ address, end });
    }
    const out: CodeBytes[] = [];
    for (const { address, end } of spans) {
      const size = Number(end - address);
      const bytes = memory.code(address, size + MAX_INSTRUCTION_BYTES)?.slice();
      const guarded = guardAt(memory, address);
      if (!bytes || bytes.length < size || (guarded !== 0 && guardAt(memory, end - 1n) !== guarded)) return null;
      out.push({ address, bytes, guarded });
    }
    return out;
  }
}
