/**
 * Why a function has sites in one image and none in another, as far as the files tell it. Owns the
 * order in which reasons are looked for: what is certain comes before what is likely.
 */
import { SHN_UNDEF } from '../elf/constants.js';
import type { DebugInfo, InlinedFunction } from '../elf/dwarf.js';
import { unlistedSites } from '../sites/complete.js';
import type { ComparedFunction, ComparedImage } from './image.js';

/**
 * Where a function is there in the image without the site: `untraced` (the record of a patch says
 * so), `no-slot` (it begins as a site and no table names it), `notrace` (it does not begin as one),
 * `fewer-sites` (it has others). Where it is not: `split` (what is left has another name: `.isra`,
 * `.part`, `.constprop`, `.cold` and others), `inlined` (DWARF says so), `elsewhere` (the file only
 * refers to it), `section-discarded` (its section is not there either), `symbol-gone`.
 */
export type DiffReasonCode =
  | 'untraced'
  | 'no-slot'
  | 'notrace'
  | 'fewer-sites'
  | 'split'
  | 'inlined'
  | 'elsewhere'
  | 'section-discarded'
  | 'symbol-gone';

export interface DiffReason {
  readonly code: DiffReasonCode;
  /**
   * Names of the functions that it was inlined into, or of those that it was split into; for
   * `no-slot` and `notrace` its section, for `section-discarded` the one that is gone.
   */
  readonly names: readonly string[];
}

/** What compilers append to the name of a function that they changed or cut. */
const SUFFIX = /^(.+?)((?:\.(?:isra|part|constprop|cold|lto_priv|llvm|ipa-[a-z]+|localalias)(?:\.\d+)*)+)$/;

/** The name of the source for one that a compiler made; null for others. */
function sourceName(name: string): string | null {
  return SUFFIX.exec(name)?.[1] ?? null;
}

/** What an image that lacks a site says about it; asked once for each image. */
export class Witness {
  readonly #splits = new Map<string, string[]>();
  #unlisted: ReadonlySet<number> | null = null;
  #inlined: ReadonlyMap<string, InlinedFunction> = new Map();

  constructor(
    readonly image: ComparedImage,
    private readonly debug: DebugInfo | null,
  ) {
    for (const { name } of image.functions) {
      const source = sourceName(name);
      if (source !== null) this.#splits.set(source, [...(this.#splits.get(source) ?? []), name]);
    }
  }

  /** Looks all functions up in the debugging information, which is read as a whole. */
  askFor(names: ReadonlySet<string>): void {
    if (this.debug !== null && names.size > 0) this.#inlined = this.debug.inlined(names);
  }

  /** Why a function that is there, or what is left of its sites, has none more. */
  present(own: ComparedFunction): DiffReason {
    if (own.sites.length > 0) return { code: 'fewer-sites', names: [] };
    if (this.#isUntraced(own)) return { code: 'untraced', names: [] };
    this.#unlisted ??= new Set(unlistedSites(this.image.sites).map(({ symbol }) => symbol));
    return { code: this.#unlisted.has(own.symbol) ? 'no-slot' : 'notrace', names: [own.section] };
  }

  #isUntraced({ symbol, address, end }: ComparedFunction): boolean {
    const { untraced, program } = this.image.sites;
    if (untraced.size === 0) return false;
    const section = program.functions.placeOf(symbol)?.section ?? -1;
    const range = program.relocatable ? program.codeOfSection(section) : program.codeAt(address);
    if (range === undefined) return false;
    const start = range.fileOffset + Number(address - range.address);
    const size = Number(end - address);
    return [...untraced].some((offset) => offset >= start && offset < start + size);
  }

  /** Why a function of the other image is none of this one. */
  absent(other: Pick<ComparedFunction, 'name' | 'section'>): DiffReason {
    const { program } = this.image.sites;
    const splits = this.#splits.get(sourceName(other.name) ?? other.name)?.filter((each) => each !== other.name);
    if (splits !== undefined && splits.length > 0) return { code: 'split', names: splits };
    const source = sourceName(other.name);
    if (source !== null && this.image.byName.has(source)) return { code: 'split', names: [source] };
    const inlined = this.#inlined.get(other.name);
    if (inlined !== undefined) return { code: 'inlined', names: inlined.into };
    const symbol = program.symbols.find(other.name);
    if (program.relocatable && symbol > 0 && program.symbols.sectionIndex[symbol] === SHN_UNDEF) {
      return { code: 'elsewhere', names: [] };
    }
    if (other.section !== '' && !program.code.some(({ name }) => name === other.section)) {
      return { code: 'section-discarded', names: [other.section] };
    }
    return { code: 'symbol-gone', names: [] };
  }
}
