/** Sites by what a person writes: a function, a place in one, a place in a section, an address. */
import { demangle } from '../demangle/index.js';
import { ElftraceError } from '../errors.js';
import type { Program } from '../program/program.js';
import type { Sites } from './sites.js';

/** The site whose bytes cover a place, or -1. */
function siteCovering(sites: Sites, range: number, value: bigint): number {
  for (let i = 0; i < sites.count; i++) {
    if (sites.range[i] !== range) continue;
    const reading = sites.reading(i);
    const start = sites.anchor[i]! + BigInt(reading?.startDelta ?? 0);
    const end = start + BigInt(reading?.sizeBytes ?? 1);
    if ((value >= start && value < end) || sites.anchor[i] === value || sites.ip(i) === value) return i;
  }
  return -1;
}

const plainName = (name: string): string => name.replace(/^\./, '');

/** Symbols of functions with a name, as the file or a person writes it. */
function symbolsNamed(program: Program, name: string): ReadonlySet<number> {
  const { functions } = program;
  const symbols = new Set<number>();
  const columns = functions.functions;
  for (let i = 0; i < columns.count; i++) {
    const symbol = columns.symbol[i]!;
    const own = program.symbolName(symbol);
    if (plainName(own) === name || demangle(own) === name) symbols.add(symbol);
  }
  // A function may have several symbols (descriptor and code, aliases): the index keeps one of them
  // for its place.
  for (const spelling of [name, `.${name}`]) {
    const symbol = functions.symbols.find(spelling);
    const home = symbol > 0 ? functions.placeOf(symbol) : undefined;
    const range = home && (program.relocatable ? program.codeOfSection(home.section) : program.codeAt(home.value));
    if (!home || !range) continue;
    const owner = program.functionAt(range, home.value);
    symbols.add(owner < 0 ? symbol : owner);
  }
  return symbols;
}

/**
 * Sites that a person means: of a function (all functions of that name), or at `FUNCTION+0xOFFSET`,
 * `SECTION+0xOFFSET`, `0xADDRESS`; a place inside a function that is no site means the site of the
 * function.
 * @throws ElftraceError 'no-match' that says whether the function or only its site is missing
 */
export function findNamedSites(sites: Sites, text: string): number[] {
  const { program } = sites;
  const { functions } = program;
  const missing = (message: string): ElftraceError => new ElftraceError('no-match', message, { symbol: text });
  const ofFunction = (wanted: ReadonlySet<number>): number[] => {
    const found: number[] = [];
    for (let i = 0; i < sites.count; i++) if (wanted.has(sites.functionSymbol(i))) found.push(i);
    return found;
  };
  const atPlace = (index: number, value: bigint): number[] => {
    const site = siteCovering(sites, index, value);
    if (site >= 0) return [site];
    const symbol = program.functionAt(program.code[index]!, value);
    const near = symbol < 0 ? [] : ofFunction(new Set([symbol]));
    if (near.length > 0) return near;
    const name = symbol < 0 ? '' : ` (${program.describe(program.code[index]!, value)})`;
    throw missing(`no site is at ${text}${name}`);
  };
  const place = /^(?:(.+)\+)?(0x[0-9a-fA-F]+)$/.exec(text);
  if (place && place[1] === undefined) {
    const address = BigInt(place[2]!);
    const range = program.relocatable ? program.code[0] : program.codeAt(address);
    if (!range) throw missing(`no code is at ${text}`);
    if (program.relocatable && program.code.length > 1) {
      throw missing(`${text}: the file has ${program.code.length} sections of code; write SECTION+0xOFFSET`);
    }
    return atPlace(range.index, address);
  }
  const name = plainName(place?.[1] ?? text);
  const symbols = symbolsNamed(program, name);
  if (place) {
    const offset = BigInt(place[2]!);
    for (const symbol of symbols) {
      const home = functions.placeOf(symbol);
      const range = home && (program.relocatable ? program.codeOfSection(home.section) : program.codeAt(home.value));
      if (home && range) return atPlace(range.index, home.value + offset);
    }
    const section = program.code.find((each) => each.name === place[1]);
    if (section) return atPlace(section.index, program.relocatable ? offset : section.address + offset);
    throw missing(`no function or section of code is named ${place[1]!}`);
  }
  if (symbols.size === 0) throw missing(`no function is named ${text}`);
  const found = ofFunction(symbols);
  if (found.length === 0) {
    throw missing(
      `${text} has no site: compiled without the option that makes one, or excluded (notrace), or taken out of the table`,
    );
  }
  return found;
}
