/** Which function a record names: the sites of the traced objects, by the addresses of records. */
import { ET_EXEC, PT_INTERP, PT_LOAD } from '../elf/constants.js';
import type { Sites } from '../sites/sites.js';
import type { Address } from '../units.js';

/** A function of a traced object. */
export interface NativeFunction {
  /** Unique among the functions of all objects of a trace. */
  readonly index: number;
  readonly name: string;
  /** Its first instruction and its site, in the file. */
  readonly address: Address;
  readonly site: Address;
  /** Behind its last instruction, as its symbol says; its address where that is not known. */
  readonly end: Address;
  /** Path of the object that it is in, and whether that is a program, not a library. */
  readonly object: string;
  readonly isProgram: boolean;
  /** Where it was written; null: no debugging information says it. */
  readonly source: SourcePlace | null;
}

export interface SourcePlace {
  readonly file: string;
  readonly line: number;
}

/** The sites that lie in code, by ascending address: the order of a file's functions. */
export function sitesInOrder(sites: Sites): number[] {
  const found = Array.from({ length: sites.count }, (_, i) => i).filter((i) => sites.codeRange(i) !== undefined);
  const { anchor } = sites;
  return found.sort((a, b) => (anchor[a]! < anchor[b]! ? -1 : anchor[a]! > anchor[b]! ? 1 : 0));
}

/** A call ends within so many bytes behind the site, if not in front of it (RT-32). */
const CALL_BYTES = 16n;
const ADDRESS_ONES = 0x3ff_ffffn;
/** Functions that are at hand by the address in a record. */
const RECENT_BITS = 12;
const RECENT = 1 << RECENT_BITS;

/** Functions of one object by their sites, in ascending order. */
export class TracedObject {
  readonly functions: readonly NativeFunction[];
  /** Whether it is started, and no library. */
  readonly isProgram: boolean;
  /** Addresses that its segments cover, in the file: [start, end). */
  readonly extent: { readonly start: Address; readonly end: Address };
  /** What tables name: where sites begin, with the nops in front of their functions. */
  readonly starts: BigUint64Array;

  /**
   * @param id     SHA-256 of the object before it was patched
   * @param first  index of its first function
   */
  constructor(
    readonly id: string,
    readonly path: string,
    sites: Sites,
    readonly first: number,
    sourceOf: (address: Address) => SourcePlace | null = () => null,
  ) {
    const { program } = sites;
    const { header, segments } = program.image;
    // A static program that lies anywhere has no loader, and an entry.
    const hasLoader = segments.some(({ type }) => type === PT_INTERP);
    this.isProgram = header.type === ET_EXEC || hasLoader || header.entry !== 0n;
    const found: (Omit<NativeFunction, 'index'> & { readonly anchor: Address })[] = [];
    for (const i of sitesInOrder(sites)) {
      const symbol = sites.functionSymbol(i);
      const site = sites.ip(i);
      const name = symbol < 0 ? `0x${site.toString(16)}` : program.symbolName(symbol);
      const place = symbol < 0 ? null : program.arch.abi.codePlace(program.image, symbol, program.symbols);
      const address = place?.value ?? (symbol < 0 ? site : program.symbols.value[symbol]!);
      found.push({
        name,
        site,
        address,
        end: symbol < 0 ? address : address + program.symbols.size[symbol]!,
        object: path,
        isProgram: this.isProgram,
        source: sourceOf(address),
        anchor: sites.anchor[i]!,
      });
    }
    this.functions = found.map(({ anchor: _, ...each }, i) => ({ ...each, index: first + i }));
    const loads = program.image.segments.filter(({ type }) => type === PT_LOAD);
    const page = BigInt(program.arch.target.pageBytes);
    const start = loads.reduce((least, { address }) => (address < least ? address : least), loads[0]?.address ?? 0n);
    const ends = loads.map(({ address, memorySize }) => address + memorySize);
    const end = ends.reduce((most, each) => (each > most ? each : most), 0n);
    this.extent = { start: (start / page) * page, end: ((end + page - 1n) / page) * page };
    this.starts = BigUint64Array.from(found, ({ anchor }) => anchor);
  }

  get count(): number {
    return this.functions.length;
  }

  /**
   * What finds functions of this object where it lies at `bias`, by the lowest 26 bits of the
   * address behind a site's call; null: no site is there.
   */
  finder(bias: bigint): (low: number) => NativeFunction | null {
    const { functions, starts } = this;
    const base = starts[0] ?? 0n;
    const search = (low: number): NativeFunction | null => {
      // The only address at or behind the first site that has these bits.
      const address = base + ((BigInt(low) - base - bias) & ADDRESS_ONES);
      let from = 0;
      let to = starts.length;
      while (from < to) {
        const middle = (from + to) >>> 1;
        if (starts[middle]! < address) from = middle + 1;
        else to = middle;
      }
      const candidate = functions[from - 1];
      return candidate !== undefined && address - candidate.site <= CALL_BYTES ? candidate : null;
    };
    const known = new Map<number, NativeFunction | null>();
    // In front of it, since most calls are of few functions.
    const keys = new Int32Array(RECENT).fill(-1);
    const recent = new Array<NativeFunction | null>(RECENT).fill(null);
    return (low) => {
      const place = (low ^ (low >>> RECENT_BITS)) & (RECENT - 1);
      if (keys[place] === low) return recent[place]!;
      let found = known.get(low);
      if (found === undefined) {
        found = search(low);
        known.set(low, found);
      }
      keys[place] = low;
      recent[place] = found;
      return found;
    };
  }
}
