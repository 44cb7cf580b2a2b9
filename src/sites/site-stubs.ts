/**
 * Which stub out of line belongs to which site. Owns the rule by which a kernel hands stubs out
 * when it starts (P-OOL-6) and the comparison of sites and stubs (P-OOL-7); how a stub looks is the
 * machine's.
 *
 *   sites in ascending order        areas
 *   text     f0 f1 f2 … fn          reserve   [f0][f1]…   as many as there are, in reach
 *                                   end       […][fn]     the others
 *   init     g0 g1 …                init      [g0][g1]…
 *
 * What is true after pairing: each site that names code has one stub or a reason why it has none,
 * and no two sites have the same one.
 */
import type { OutOfLineArea, OutOfLineModel, OutOfLineReading, SiteStub } from '../machine/out-of-line.js';
import { reaches } from '../bits.js';
import { ByteView } from '../bytes.js';
import { hex } from '../errors.js';
import { SHF_EXECINSTR } from '../elf/constants.js';
import { type Program, siteStubHead, siteStubSection } from '../program/program.js';
import type { Address } from '../units.js';

interface Area {
  readonly symbol: string;
  readonly start: Address;
  /** Bytes of a stub with the word in front of its code. */
  readonly entryBytes: number;
  /** What the count word says, and what there is room for. */
  readonly count: number;
  readonly room: number;
  /** Sites of the area: of a kind of text, or those of one part of a loaded image. */
  readonly serves: OutOfLineArea['serves'] | { readonly part: string };
  used: number;
}

/** A defined symbol as address and size; null without it. */
function symbolOf(program: Program, name: string): { readonly address: Address; readonly size: number } | null {
  const index = program.symbols.find(name);
  const address = index > 0 ? program.definedAt(index) : null;
  return address === null ? null : { address, size: Number(program.symbols.size[index]!) };
}

function bytesAt(program: Program, address: Address, size: number): Uint8Array | null {
  const offset = program.image.fileOffsetOf(address);
  if (offset < 0 || offset + size > program.image.bytes.length) return null;
  return program.image.bytes.subarray(offset, offset + size);
}

/** Bytes of a stub, with the word in front of its code where sites name their ops. */
function stubBytes(program: Program, { codeBytes, idleOps }: OutOfLineModel): number {
  return codeBytes + (symbolOf(program, idleOps) === null ? 0 : program.image.wordBytes);
}

/** The areas that an image has; one without its count or outside the file is none. */
function areasOf(program: Program, model: OutOfLineModel): Area[] {
  const { endian } = program.image.header;
  const entryBytes = stubBytes(program, model);
  return model.areas.flatMap((each) => {
    const array = symbolOf(program, each.stubs);
    const count = symbolOf(program, each.count);
    const counted = count === null ? null : bytesAt(program, count.address, 4);
    if (array === null || counted === null) return [];
    const number = new ByteView(counted, endian).u32(0);
    const room = array.size === 0 ? number : Math.floor(array.size / entryBytes);
    return [
      { symbol: each.stubs, start: array.address, entryBytes, count: number, room, serves: each.serves, used: 0 },
    ];
  });
}

function miscount({ symbol, count, room }: Area): string {
  return `the word that counts ${symbol} says ${count}, and there is room for ${room}`;
}

/** Areas of the parts of a loaded image, which the loader has filled. */
function areasOfParts(program: Program, model: OutOfLineModel): Area[] {
  if (program.loadMap === null) return [];
  const entryBytes = stubBytes(program, model);
  return program.image.sectionsNamed(siteStubSection).flatMap(({ name, address, size }) => {
    const part = program.partOf(address)?.name;
    const room = Math.floor((size - siteStubHead) / entryBytes);
    if (part === undefined) return [];
    return [
      {
        symbol: name,
        start: address + BigInt(siteStubHead),
        entryBytes,
        count: room,
        room,
        serves: { part },
        used: 0,
      },
    ];
  });
}

/** Stubs of the sites of an image whose areas have symbols, or that is a loaded one. */
export class SiteStubs {
  private readonly stubs = new Map<Address, SiteStub>();
  private readonly without = new Map<Address, string>();
  /** The first site of each area whose count is not what there is room for. */
  private readonly miscounted = new Map<Address, string>();
  private readonly areas: readonly Area[];
  private readonly islands: readonly { readonly address: Address; readonly bytes: Uint8Array | null }[];
  private readonly entry: Address | null;
  private readonly idleOps: Address | null;
  /** Whether start-up, or a tool in its place, has written any stub. */
  private written = false;

  /** @param sites  ips in ascending order, without duplicates */
  constructor(
    private readonly program: Program,
    private readonly model: OutOfLineModel,
    sites: Iterable<Address>,
  ) {
    this.areas = [...areasOfParts(program, model), ...areasOf(program, model)];
    this.idleOps = symbolOf(program, model.idleOps)?.address ?? null;
    this.entry = symbolOf(program, model.entry)?.address ?? null;
    this.islands = model.islands.flatMap((name) => {
      const found = symbolOf(program, name);
      const toc = this.entry === null ? null : program.tocAt(this.entry);
      if (found === null || this.entry === null) return [];
      const bytes = toc === null ? null : model.writeIsland(found.address, toc, this.entry);
      return [{ address: found.address, bytes }];
    });
    for (const site of sites) this.hand(site);
  }

  /** False where the image has no area: its stubs are made later. */
  get exist(): boolean {
    return this.areas.length > 0;
  }

  private hand(site: Address): void {
    const { reach, codeBytes } = this.model;
    const kind = this.program.image.sectionAt(site)?.name.startsWith('.init.') === true ? 'init' : 'text';
    const part = this.program.partOf(site)?.name;
    for (const area of this.areas) {
      const { serves } = area;
      const isOwn = typeof serves === 'string' ? serves === kind : serves.part === part;
      if (!isOwn || area.used >= area.count) continue;
      const entry = area.start + BigInt(area.used * area.entryBytes);
      const address = entry + BigInt(area.entryBytes - codeBytes);
      // As start-up decides whether it goes on to the next area.
      if (!reaches(reach, entry, site)) continue;
      area.used++;
      if (area.used === 1 && area.count !== area.room) this.miscounted.set(site, miscount(area));
      if (!reaches(reach, site, address) || !reaches(reach, address + BigInt(codeBytes), site)) {
        this.without.set(site, `its stub out of line at ${hex(address)} is out of its reach`);
        return;
      }
      if (area.used > area.room) {
        this.without.set(site, miscount(area));
        return;
      }
      this.stubs.set(site, this.stubAt(entry, address));
      this.written ||= this.read(address) !== 'empty';
      return;
    }
    this.without.set(site, `no stub out of line that it reaches is left for it in the areas of ${kind}`);
  }

  private stubAt(entry: Address, address: Address): SiteStub {
    const call = address + BigInt(this.model.callDelta);
    const ops = this.idleOps === null ? null : { address: entry, idle: this.idleOps };
    const inReach = (target: Address): boolean => reaches(this.model.reach, call, target);
    if (this.entry !== null && inReach(this.entry)) return { address, ops, idleTarget: this.entry, island: null };
    for (const { address: at, bytes } of this.islands) {
      if (bytes !== null && inReach(at)) return { address, ops, idleTarget: at, island: { address: at, bytes } };
    }
    const own = this.program.partOf(address)?.entryStubs.find((each) => each.symbol === this.model.entry);
    if (own !== undefined && inReach(own.address)) return { address, ops, idleTarget: own.address, island: null };
    return { address, ops, idleTarget: null, island: null };
  }

  private read(address: Address): OutOfLineReading {
    return this.model.read((at) => this.program.wordAt(at), address);
  }

  /** The stub of the site with an ip; null: it has none. */
  of(site: Address): SiteStub | null {
    return this.stubs.get(site) ?? null;
  }

  /**
   * What is wrong between a site and its stub; null: nothing.
   * @param called  where the site's jump leads when it is on; null: it is off
   */
  problemOf(
    site: Address,
    called: Address | null,
  ): { readonly kind: 'missing' | 'wrong'; readonly reason: string } | null {
    if (!this.exist) return null;
    const lacks = this.without.get(site);
    if (lacks !== undefined) return { kind: 'missing', reason: lacks };
    const miscounted = this.miscounted.get(site);
    if (miscounted !== undefined) return { kind: 'wrong', reason: miscounted };
    const stub = this.stubs.get(site);
    if (stub === undefined) return null;
    const wrong = (reason: string): { kind: 'wrong'; reason: string } => ({
      kind: 'wrong',
      reason: `its stub out of line at ${hex(stub.address)} ${reason}`,
    });
    if (called !== null && called !== stub.address) {
      return wrong(`is not where the site leads, which is ${hex(called)}`);
    }
    const found = this.read(stub.address);
    if (found === 'empty') return this.written ? wrong('is empty, while those of other sites are written') : null;
    if ('wrong' in found) return wrong(`is none: ${found.wrong}`);
    if (found.back !== site + 4n) return wrong(`comes back to ${hex(found.back)}, not behind the site`);
    return this.targetProblem(found.target, wrong) ?? this.opsProblem(stub, wrong);
  }

  private targetProblem<T>(target: Address, wrong: (reason: string) => T): T | null {
    const island = this.islands.find(({ address }) => address === target);
    if (island === undefined) {
      if (this.program.callee(target) === 'tracer') return null;
      return wrong(`calls ${hex(target)}, which is no tracing entry`);
    }
    const { bytes } = island;
    const there = bytes === null ? null : bytesAt(this.program, target, bytes.length);
    if (bytes === null || there?.every((byte, i) => byte === bytes[i]) === true) return null;
    return wrong(`calls the island at ${hex(target)}, which does not lead to ${this.model.entry}`);
  }

  /** The word in front of a written stub must name an object: something that is no code. */
  private opsProblem<T>(stub: SiteStub, wrong: (reason: string) => T): T | null {
    if (stub.ops === null) return null;
    const word = this.program.image.wordBytes;
    const bytes = bytesAt(this.program, stub.ops.address, word);
    const ops = bytes === null ? 0n : new ByteView(bytes, this.program.image.header.endian).word(0, word);
    const section = this.program.image.sectionAt(ops);
    if (section !== undefined && (section.flags & SHF_EXECINSTR) === 0n) return null;
    return wrong(`names ops at ${hex(ops)}, where no data lies`);
  }
}
