/**
 * The functions of an image by place, and their sites: what is compared. Functions are told by
 * name, and static ones of equal names by the source file that the symbol table names in front of
 * them.
 */
import { demangle } from '../demangle/index.js';
import { STB_LOCAL, STT_FILE } from '../elf/constants.js';
import type { Sites } from '../sites/sites.js';
import { isCovered } from '../sites/verdicts.js';
import type { SectionIndex, SymbolIndex } from '../units.js';

/** A function: one place of code, whatever names it has. */
export interface ComparedFunction {
  /** The name that speaks for it. */
  readonly name: string;
  /** All its names, the one that speaks first. */
  readonly names: readonly string[];
  /** Source file of a static function, as the symbol table names it; '' where it is not known. */
  readonly source: string;
  readonly symbol: SymbolIndex;
  readonly section: string;
  /** Address, or offset in the section. */
  readonly address: bigint;
  readonly end: bigint;
  /** Indices of its sites, by place. */
  readonly sites: number[];
}

export interface ComparedImage {
  readonly sites: Sites;
  readonly functions: readonly ComparedFunction[];
  readonly byName: ReadonlyMap<string, readonly ComparedFunction[]>;
  /** Sites that name code; empty slots and those that name none are left out. */
  readonly count: number;
  /** Sites that no function's name covers: bodies of overridden weak functions, mostly. */
  readonly unnamed: number;
}

/** Source file of each local symbol, by the STT_FILE symbol in front of it. */
function sourcesOf({ program: { symbols } }: Sites): (symbol: SymbolIndex) => string {
  const starts: number[] = [];
  for (let i = 1; i < symbols.count; i++) if ((symbols.info[i]! & 15) === STT_FILE) starts.push(i);
  return (symbol) => {
    if (symbols.info[symbol]! >>> 4 !== STB_LOCAL) return '';
    let low = 0;
    let high = starts.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (starts[middle]! < symbol) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? '' : symbols.name(starts[low - 1]!);
  };
}

function functionsOf(sites: Sites): Map<string, ComparedFunction> {
  const { program } = sites;
  const { functions } = program;
  const source = sourcesOf(sites);
  const found = new Map<string, ComparedFunction>();
  const names = new Map(program.code.map((range) => [range.section, range.name]));
  for (const columns of [functions.functions, functions.labels]) {
    for (let row = 0; row < columns.count; row++) {
      const symbol = columns.symbol[row]!;
      const place = functions.placeOf(symbol);
      if (place === undefined) continue;
      const key = placeKey(sites, place.section, place.value);
      // Functions come first: a label at the same place is another name of one.
      if (found.has(key)) continue;
      const aliases = functions.aliases(place.section, place.value).map((each) => program.symbolName(each));
      const name = program.symbolName(symbol);
      found.set(key, {
        name,
        names: [...new Set([name, ...aliases])],
        source: source(symbol),
        symbol,
        section: program.relocatable ? (names.get(place.section) ?? '') : (program.codeAt(place.value)?.name ?? ''),
        address: place.value,
        end: functions.endOf(symbol) ?? place.value,
        sites: [],
      });
    }
  }
  return found;
}

const placeKey = ({ program }: Sites, section: SectionIndex, value: bigint): string =>
  program.relocatable ? `${section} ${value}` : `${value}`;

/** Functions of a name: symbols, or what symbols of C++ and Rust stand for. */
export function functionsNamed(image: ComparedImage, name: string): readonly ComparedFunction[] {
  const found = image.byName.get(name) ?? image.byName.get(`.${name}`);
  if (found !== undefined) return found;
  return image.functions.filter((each) => each.names.some((own) => demangle(own) === name));
}

/** The functions and sites of an image, found once for all questions about it. */
export function comparedImage(sites: Sites): ComparedImage {
  const functions = functionsOf(sites);
  let count = 0;
  let unnamed = 0;
  for (let i = 0; i < sites.count; i++) {
    const state = sites.state(i);
    if (state === 'zero' || state === 'outside') continue;
    count++;
    const symbol = sites.functionSymbol(i);
    const place = symbol < 0 ? undefined : sites.program.functions.placeOf(symbol);
    const owner = place && functions.get(placeKey(sites, place.section, place.value));
    if (owner === undefined || !isCovered(sites, i)) unnamed++;
    else owner.sites.push(i);
  }
  const byName = new Map<string, ComparedFunction[]>();
  for (const each of functions.values()) {
    for (const name of each.names) byName.set(name, [...(byName.get(name) ?? []), each]);
  }
  return { sites, functions: [...functions.values()], byName, count, unnamed };
}
