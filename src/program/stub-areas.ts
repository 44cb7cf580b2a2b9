/**
 * Areas of call stubs in a part: how many entries they need, where they stand between the text
 * sections, which entry a call gets. Owns the rule of reservation (P-STUB-1) and the search for a
 * stub in reach; the bytes are the machine's.
 */
import type { Arch } from '../machine/arch.js';
import type { ModuleLoader, StubKind } from '../machine/loader.js';
import { alignUp, reaches } from '../bits.js';
import * as elf from '../elf/constants.js';
import { ElftraceError, hex } from '../errors.js';
import type { Address } from '../units.js';
import type { StubArea } from './load-map.js';
import { madeSection, type ObjectPart, type StubRoom } from './object-part.js';
import { type Part, type PartSection, permissionOf } from './part.js';

/**
 * Room that a group of text sections may take, stubs included, so that each of its calls reaches
 * its stubs.
 */
const slackBytes = 0x10_0000;

interface Area {
  readonly section: PartSection;
  readonly init: boolean;
  /** For a tracer's entries only. */
  readonly entries: boolean;
  /** Entries. */
  readonly count: number;
  /** Those that calls may take: without the last one, which ends the search. */
  readonly usable: number;
  used: number;
}

/** Distinct symbol and addend pairs of calls, by section of the part. */
function callPairs(part: ObjectPart, arch: Arch): Map<PartSection, Set<string>> {
  const pairs = new Map<PartSection, Set<string>>();
  // Calls of another part need stubs in a module; a core has them only for what it does not define
  // itself.
  const all = part.kind === 'module';
  for (const section of part.object.sections) {
    const own = part.sectionOf[section.index];
    if (own === undefined) continue;
    const found = new Set<string>();
    for (const table of part.object.relocationsOf(section)) {
      const { count, type, symbol, addend } = table;
      for (let row = 0; row < count; row++) {
        const rule = arch.relocations.get(type[row]!);
        if (rule?.stubAllowed !== true) continue;
        const index = symbol[row]!;
        if (!all && part.object.symbols.sectionIndex[index] !== elf.SHN_UNDEF) continue;
        found.add(`${index}:${rule.addendIgnored === true ? 0n : addend[row]!}`);
      }
    }
    if (found.size > 0) pairs.set(own, found);
  }
  return pairs;
}

/** The stubs of one part while its calls are bound. */
export class StubAreas {
  readonly areas: Area[] = [];
  private entries = 0;
  private room: StubRoom = new Map();
  /** Address of the stub of a kind for a target, in each area. */
  private readonly known = new Map<string, { readonly area: Area; readonly address: Address }[]>();

  constructor(
    private readonly part: Part,
    private readonly loader: ModuleLoader,
  ) {}

  /**
   * Puts stub areas between the sections of an object: behind each group of text sections that one
   * area serves.
   * @param entries stubs for the tracer's entries, of modules
   * @param spare stubs more or fewer than the rule says
   * @param room  entries that areas have at least
   */
  plan(part: ObjectPart, arch: Arch, entries: number, spare: number, room: StubRoom = new Map()): void {
    this.room = room;
    const { stubs } = this.loader;
    this.entries = entries;
    const pairs = callPairs(part, arch);
    const text = part.sections.filter((section) => permissionOf(section.flags).includes('x'));
    const init = stubs.initSection === null ? [] : text.filter((section) => part.isInit.has(section));
    const core = text.filter((section) => !init.includes(section));
    const rest = part.sections.filter((section) => !text.includes(section));
    part.sections.length = 0;
    part.sections.push(
      ...this.planText(core, pairs, stubs.section, false, spare),
      ...this.entryArea(false, true),
      ...this.planText(init, pairs, stubs.initSection ?? '', true, spare),
      ...this.entryArea(true, init.length > 0),
      ...rest,
    );
  }

  /**
   * Stubs of the tracer's entries, where they have a section of their own: of a module's text, of
   * its init text.
   */
  private entryArea(init: boolean, wanted: boolean): PartSection[] {
    const { entrySections } = this.loader.stubs;
    if (entrySections === null || this.part.kind !== 'module' || !wanted || this.entries === 0) return [];
    const section = this.makeArea(init ? entrySections.init : entrySections.text, this.entries, 64);
    this.areas.push({ section, init, entries: true, count: this.entries, usable: this.entries, used: 0 });
    return [section];
  }

  private planText(
    text: readonly PartSection[],
    pairs: ReadonlyMap<PartSection, ReadonlySet<string>>,
    name: string,
    init: boolean,
    spare: number,
  ): PartSection[] {
    if (text.length === 0 && (init || this.part.kind !== 'module')) return [];
    const budget = Number(this.loader.reach.max) - slackBytes;
    const groups: PartSection[][] = [[]];
    let size = 0;
    for (const section of text) {
      const more = section.size + Number(section.alignBytes) + this.areaBytes(pairs.get(section)?.size ?? 0);
      if (size > 0 && size + more > budget) {
        groups.push([]);
        size = 0;
      }
      groups[groups.length - 1]!.push(section);
      size += more;
    }
    const tooLarge = groups.map((group) => group.reduce((sum, section) => sum + section.size, 0) > budget);
    const out: PartSection[] = [];
    groups.forEach((group, i) => {
      // One section larger than a reach: its first half looks for stubs in front of it.
      if (i === 0 && tooLarge[0] === true) this.add(out, group, pairs, name, init, spare);
      out.push(...group);
      this.add(out, tooLarge[i + 1] === true ? [...group, ...groups[i + 1]!] : group, pairs, name, init, spare);
    });
    return out;
  }

  private areaBytes(entries: number): number {
    return entries * this.loader.stubs.entryBytes;
  }

  /**
   * P-STUB-1: one entry for each distinct target, one that ends the search, one for each of the
   * tracer's entries.
   */
  private add(
    out: PartSection[],
    group: readonly PartSection[],
    pairs: ReadonlyMap<PartSection, ReadonlySet<string>>,
    name: string,
    init: boolean,
    spare: number,
  ): void {
    const distinct = new Set(group.flatMap((section) => [...(pairs.get(section) ?? [])])).size;
    const isModule = this.part.kind === 'module';
    if (distinct === 0 && !isModule) return;
    const { stubs } = this.loader;
    const entries = isModule && !init && stubs.entrySections === null ? this.entries : 0;
    const needed = distinct + 1 + entries + spare;
    // One slot of a block at most begins in its gap.
    const lost = stubs.gap === null ? 0 : Math.ceil((needed * stubs.entryBytes) / stubs.gap.blockBytes);
    const known = this.areas.filter((area) => area.section.name === name).length;
    const count = Math.max(0, needed + lost, this.room.get(name)?.[known] ?? 0);
    const section = this.makeArea(name, count);
    this.areas.push({ section, init, entries: false, count, usable: count - 1, used: 0 });
    out.push(section);
  }

  private makeArea(name: string, count: number, alignBytes = this.loader.stubs.alignBytes): PartSection {
    const size = alignUp(this.areaBytes(count), this.loader.stubs.alignBytes);
    return madeSection({
      name,
      type: elf.SHT_PROGBITS,
      flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR,
      alignBytes: BigInt(alignBytes),
      size,
      contents: new Uint8Array(size),
    });
  }

  /** An area at a given address, outside the order of sections (core stubs of linked cores). */
  addAt(address: Address, count: number): PartSection {
    const section = this.makeArea(this.loader.stubs.section, count);
    section.address = address;
    this.areas.push({ section, init: false, entries: false, count, usable: count - 1, used: 0 });
    return section;
  }

  /** Where the map says the areas are. */
  describe(): StubArea[] {
    return this.areas
      .filter((area) => area.count > 0)
      .map(({ section, count }) => ({
        address: section.address,
        sizeBytes: this.loader.stubs.entryBytes,
        count,
      }));
  }

  /**
   * Address of the stub of a kind for `target` that a branch at `from` reaches; made by `write`
   * when there is none yet.
   * @throws ElftraceError 'branch-out-of-range' with the distance when no area is in reach,
   *   'stub-area-full'
   */
  get(
    kind: StubKind,
    target: Address,
    from: Address,
    init: boolean,
    label: string,
    write: (address: Address) => Uint8Array,
  ): Address {
    const { reach } = this.loader;
    const key = `${kind} ${target}`;
    const stubs = this.known.get(key) ?? [];
    const found = stubs.find((stub) => stub.area.init === init && reaches(reach, from, stub.address));
    if (found !== undefined) return found.address;
    const areas = this.areas.filter((area) => area.init === init && !area.entries);
    const inReach = areas.filter((area) => this.isInReach(area, from));
    if (inReach.length === 0) throw this.beyond(areas, from, label);
    const area = inReach.find((each) => this.hasRoom(each));
    if (area === undefined) {
      throw new ElftraceError(
        'stub-area-full',
        `${this.part.name}: no room for the stub to ${label}: all ${inReach[0]!.count} entries of ${inReach[0]!.section.name} are used`,
        { symbol: label, section: inReach[0]!.section.name, value: inReach[0]!.count },
      );
    }
    const address = this.place(area, write);
    this.known.set(key, [...stubs, { area, address }]);
    return address;
  }

  /** Whether an entry is left, behind those where none may begin. */
  private hasRoom(area: Area): boolean {
    while (area.used < area.usable && this.isInGap(area)) area.used++;
    return area.used < area.usable;
  }

  private isInGap({ section, used }: Area): boolean {
    const { entryBytes, gap } = this.loader.stubs;
    if (gap === null) return false;
    const inBlock = (section.address + BigInt(used * entryBytes)) % BigInt(gap.blockBytes);
    return inBlock >= BigInt(gap.blockBytes - gap.lastBytes);
  }

  private place(area: Area, write: (address: Address) => Uint8Array): Address {
    const offset = area.used * this.loader.stubs.entryBytes;
    const address = area.section.address + BigInt(offset);
    area.section.contents!.set(write(address), offset);
    area.used++;
    return address;
  }

  /** A stub in each area (P-STUB-3). */
  everywhere(label: string, write: (address: Address) => Uint8Array): Address[] {
    const own = this.areas.filter((area) => area.entries);
    return (own.length > 0 ? own : this.areas.filter((area) => !area.init)).map((area) => {
      if (!this.hasRoom(area)) {
        throw new ElftraceError(
          'stub-area-full',
          `${this.part.name}: no room for the stub to ${label}: all ${area.count} entries of ${area.section.name} are used`,
          { symbol: label, section: area.section.name, value: area.count },
        );
      }
      return this.place(area, write);
    });
  }

  private isInReach(area: Area, from: Address): boolean {
    const { address, size } = area.section;
    return reaches(this.loader.reach, from, address) && reaches(this.loader.reach, from, address + BigInt(size & ~3));
  }

  private beyond(areas: readonly Area[], from: Address, label: string): ElftraceError {
    const { reach } = this.loader;
    const distances = areas.map((area) => area.section.address - from);
    const nearest = distances.sort((a, b) => (abs(a) < abs(b) ? -1 : 1))[0] ?? 0n;
    return new ElftraceError(
      'branch-out-of-range',
      `${this.part.name}: the call of ${label} at ${hex(from)} is ${hex(nearest)} from the nearest stubs, ` +
        `a branch reaches [${hex(reach.min)}, ${hex(reach.max)}]`,
      { address: from, symbol: label, value: nearest, min: reach.min, max: reach.max },
    );
  }
}

const abs = (value: bigint): bigint => (value < 0n ? -value : value);
