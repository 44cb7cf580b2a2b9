/**
 * Regions of the compiled tier that outlive the machine that made them: their WebAssembly, where
 * their code was, and the numbers by which they know each other. A later machine takes a module as
 * soon as it comes to one of its regions, in place of executing that code a million times first.
 *
 * What must stay true: the code of a region is a function of the lifter, of the bytes of its blocks
 * and those of one instruction behind each, of whether indirect branches into them are guarded, and
 * of whether the engine fuses multiplications and additions. All of that is compared when a module
 * is taken. Numbers of the table, of `FRAMES` and of window cells are in the code: a machine that
 * takes modules begins with all numbers of the one that made them. A cell says where the window is
 * that it was made for, and serves nothing where that is elsewhere now; so does an empty entry of
 * the table. What a region expects otherwise is a guess that changes no result.
 */
import { FRAMES } from './host.js';
import type { CodeBytes } from './code-bytes.js';
import type { RegionExtent } from './regions.js';
import type { Address } from '../units.js';
import { hex } from '../errors.js';

/** A region as it is kept: what `PlacedRegion` is, and what its code depends on. */
export interface KeptRegion {
  readonly entry: Address;
  /** A function begins at the entry. */
  readonly isFunction: boolean;
  /** Its number in the module. */
  readonly number: number;
  /** Its entry of the table; the host address of its word of `FRAMES`, and what stands there. */
  readonly index: number;
  readonly frame: number;
  readonly frameBytes: number;
  /** Instructions. */
  readonly size: number;
  readonly region: RegionExtent;
  readonly groups: ReadonlyMap<Address, readonly Address[]>;
  /** Where indirect branches of it went. */
  readonly targets: readonly (readonly [Address, readonly Address[]])[];
  readonly code: readonly CodeBytes[];
}

export interface KeptModule {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly regions: readonly KeptRegion[];
}

/** The numbers that code of modules has in it. */
export interface RegionNumbers {
  /** Addresses of the table's entries, from 1 on. */
  readonly indices: readonly Address[];
  /** Words of `FRAMES`, and HINT records, in use. */
  readonly frames: number;
  readonly searches: number;
  /** Window cells: guest and host address of the first byte. */
  readonly cells: readonly { readonly base: Address; readonly host: number }[];
  /** See `fused.ts`; null: nothing asked. */
  readonly fuses: boolean | null;
}

/** What a machine has at its end. */
export interface MadeRegions {
  readonly numbers: RegionNumbers;
  /** Instructions of the regions that were made and are still there. */
  readonly size: number;
  /** Modules of these. */
  modules(): readonly KeptModule[];
  /** Of a module that was taken: whether the region is still there. */
  isThere(region: KeptRegion): boolean;
}

/**
 * Modules are not kept where numbers, cells or bytes are more: those of runs of before count too,
 * and half of the table, and most cells, are for the run.
 */
const MOST_NUMBERS = 2000;
const MOST_CELLS = 32;
const MOST_BYTES = 0x100_0000;

/** A region in JSON. Addresses are distances from the module's first entry. */
interface RegionJson {
  readonly e: number;
  readonly f: boolean;
  readonly n: readonly [number: number, index: number, frame: number, frameBytes: number, size: number];
  /** Blocks: address and bytes of each. */
  readonly b: readonly number[];
  /** Blocks at which it can be begun. */
  readonly x: readonly number[];
  readonly g: readonly (readonly [number, readonly number[]])[];
  readonly t: readonly (readonly [number, readonly number[]])[];
  /** Code: address, bytes, how guarded it is; the bytes are behind the module's. */
  readonly c: readonly number[];
}

interface ModuleJson {
  readonly base: string;
  /** Where it can be entered. */
  readonly places: readonly number[];
  readonly wasm: number;
  readonly code: number;
  readonly regions: readonly RegionJson[];
}

interface FileJson {
  readonly indices: readonly string[];
  readonly frames: number;
  readonly searches: number;
  readonly cells: readonly (readonly [string, number])[];
  readonly fuses: boolean | null;
  readonly modules: readonly ModuleJson[];
}

const NO_NUMBERS: RegionNumbers = { indices: [], frames: 0, searches: 0, cells: [], fuses: null };
const NO_FILE: FileJson = { ...NO_NUMBERS, indices: [], cells: [], modules: [] };

/** A module of the file. */
interface Stored {
  readonly json: ModuleJson;
  /** Its WebAssembly, and the code of its regions behind. */
  readonly bytes: Uint8Array;
  /** What the code is in this run. */
  state: 'kept' | 'taken' | 'stale';
}

export class KeptRegions {
  private file = NO_FILE;
  private stored: readonly Stored[] = [];
  /** Modules by the addresses at which they can be entered; made when the first is asked for. */
  private places: Map<Address, Stored> | null = null;
  private owner: (() => MadeRegions | null) | null = null;

  /** What `bytes` of before gave. */
  read(bytes: Uint8Array): void {
    if (bytes.length < 4) return;
    const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    this.file = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size))) as FileJson;
    let at = 4 + size;
    this.stored = this.file.modules.map((json): Stored => {
      at += json.wasm + json.code;
      return { json, bytes: bytes.subarray(at - json.wasm - json.code, at), state: 'kept' };
    });
  }

  get isEmpty(): boolean {
    return this.stored.length === 0;
  }

  /** How many modules were taken. */
  get taken(): number {
    return this.stored.filter(({ state }) => state === 'taken').length;
  }

  /** See `fused.ts`. */
  get fuses(): boolean | null {
    return this.file.fuses;
  }

  /** The numbers of what is kept. */
  get numbers(): RegionNumbers {
    const { indices, frames, searches, cells, fuses } = this.file;
    return {
      ...{ frames, searches, fuses },
      indices: indices.map(BigInt),
      cells: cells.map(([base, host]) => ({ base: BigInt(base), host })),
    };
  }

  /** The first machine that makes regions says at the end what is kept. @returns  whether it is */
  claim(owner: () => MadeRegions | null): boolean {
    this.owner ??= owner;
    return this.owner === owner;
  }

  private at(address: Address): Stored | undefined {
    if (!this.places) {
      this.places = new Map();
      for (const each of this.stored) {
        const base = BigInt(each.json.base);
        for (const place of each.json.places) this.places.set(base + BigInt(place), each);
      }
    }
    return this.places.get(address);
  }

  /** The module that can be entered at an address, unless the machine has `taken` it. */
  find(address: Address, taken: ReadonlySet<object>): { readonly module: KeptModule; readonly key: object } | null {
    if (this.isEmpty) return null;
    const found = this.at(address);
    return found && !taken.has(found) ? { module: moduleOf(found), key: found } : null;
  }

  /** The machine that says what is kept has the code of a module that was found, or has not. */
  note(key: object, isThere: boolean): void {
    for (const each of this.stored)
      if (each === key && each.state !== 'taken') each.state = isThere ? 'taken' : 'stale';
  }

  // ------------------------------------------------------------------------------------- keeping

  /** What is kept from now on; null: what was, is. */
  private next(): { readonly numbers: RegionNumbers; readonly modules: readonly KeptModule[] } | null {
    const made = this.owner?.() ?? null;
    if (!made) return null;
    const old = this.stored.flatMap((each) => {
      if (each.state === 'stale') return [];
      const { bytes, regions } = moduleOf(each);
      const left = each.state === 'kept' ? regions : regions.filter((region) => made.isThere(region));
      return left.length > 0 ? [{ bytes, regions: left }] : [];
    });
    const modules = [...old, ...made.modules()];
    const { indices, frames, cells } = made.numbers;
    const bytes = modules.reduce((sum, each) => sum + each.bytes.length, 0);
    const isMuch = Math.max(indices.length, frames) > MOST_NUMBERS || cells.length > MOST_CELLS || bytes > MOST_BYTES;
    return isMuch ? { numbers: NO_NUMBERS, modules: [] } : { numbers: made.numbers, modules };
  }

  /** More was made, or is gone, than is worth keeping what was there. */
  get isWorthKeeping(): boolean {
    const made = this.owner?.() ?? null;
    const all = this.stored.flatMap(({ json }) => json.regions);
    const size = all.reduce((sum, { n: [, , , , instructions] }) => sum + instructions, 0);
    return made !== null && made.size > size >> 3;
  }

  /** For `read`. */
  bytes(): Uint8Array {
    const next = this.next();
    const { numbers, modules } = next ?? { numbers: this.numbers, modules: this.stored.map(moduleOf) };
    const pieces: Uint8Array[] = [];
    const { indices, frames, searches, cells, fuses } = numbers;
    const json: FileJson = {
      ...{ frames, searches, fuses },
      indices: indices.map(hex),
      cells: cells.map(({ base, host }) => [hex(base), host] as const),
      modules: modules.map((each) => moduleJson(each, pieces)),
    };
    const text = new TextEncoder().encode(JSON.stringify(json));
    const out = new Uint8Array(4 + text.length + pieces.reduce((sum, each) => sum + each.length, 0));
    new DataView(out.buffer).setUint32(0, text.length, true);
    out.set(text, 4);
    let at = 4 + text.length;
    for (const each of pieces) {
      out.set(each, at);
      at += each.length;
    }
    return out;
  }
}

function moduleJson({ bytes, regions }: KeptModule, pieces: Uint8Array[]): ModuleJson {
  const base = regions[0]!.entry;
  const distance = (address: Address): number => Number(address - base);
  const distances = (list: Iterable<readonly [Address, readonly Address[]]>) =>
    [...list].map(([address, others]) => [distance(address), others.map(distance)] as const);
  pieces.push(bytes);
  let code = 0;
  const json = regions.map((each): RegionJson => {
    for (const span of each.code) {
      pieces.push(span.bytes);
      code += span.bytes.length;
    }
    return {
      e: distance(each.entry),
      f: each.isFunction,
      n: [each.number, each.index, (each.frame - FRAMES.start) / FRAMES.bytes, each.frameBytes, each.size],
      b: each.region.blocks.flatMap(({ block }) => [distance(block.address), Number(block.end - block.address)]),
      x: each.region.entries,
      g: distances(each.groups),
      t: distances(each.targets),
      c: each.code.flatMap((span) => [distance(span.address), span.bytes.length, span.guarded]),
    };
  });
  const places = regions.flatMap(({ region }) =>
    region.entries.map((number) => distance(region.blocks[number]!.block.address)),
  );
  return { base: hex(base), places, wasm: bytes.length, code, regions: json };
}

function moduleOf({ json, bytes }: Stored): KeptModule {
  const base = BigInt(json.base);
  const address = (distance: number): Address => base + BigInt(distance);
  const addresses = (list: RegionJson['g']) =>
    list.map(([place, others]) => [address(place), others.map(address)] as const);
  let at = json.wasm;
  const regions = json.regions.map((each): KeptRegion => {
    const blocks: { block: { address: Address; end: Address } }[] = [];
    for (let i = 0; i < each.b.length; i += 2) {
      blocks.push({ block: { address: address(each.b[i]!), end: address(each.b[i]! + each.b[i + 1]!) } });
    }
    const code: CodeBytes[] = [];
    for (let i = 0; i < each.c.length; i += 3) {
      const size = each.c[i + 1]!;
      code.push({ address: address(each.c[i]!), bytes: bytes.subarray(at, at + size), guarded: each.c[i + 2]! });
      at += size;
    }
    const [number, index, frame, frameBytes, size] = each.n;
    return {
      entry: address(each.e),
      isFunction: each.f,
      ...{ number, index, frame: FRAMES.start + FRAMES.bytes * frame, frameBytes, size, code },
      region: { blocks, entries: each.x },
      groups: new Map(addresses(each.g)),
      targets: addresses(each.t),
    };
  });
  return { bytes: bytes.slice(0, json.wasm) as Uint8Array<ArrayBuffer>, regions };
}
