/** A function as instructions, with its sites, calls and relocations named. `disasm` prints it. */
import { demangle } from '../demangle/index.js';
import { ElftraceError, hex } from '../errors.js';
import type { Disassembler } from '../isa/disassembler.js';
import { lowerBound } from '../elf/lookup.js';
import type { CodeRange, Program } from '../program/program.js';
import type { Address } from '../units.js';
import type { Sites } from './sites.js';

/** One instruction. */
export interface ListedInstruction {
  /** In relocatable files the offset in the section. */
  readonly address: Address;
  readonly bytes: Uint8Array;
  readonly text: string;
  /** Of a site that begins here: its index; else null. */
  readonly site: number | null;
  /** The site's shape and state, the callee, the relocations. */
  readonly notes: readonly string[];
}

/** What `disasm` says of a function. */
export interface FunctionListing {
  readonly name: string;
  /** Section, or what stands for one in files without any. */
  readonly section: string;
  /** Of the function, or of what was asked for; sites may begin in front of it. */
  readonly address: Address;
  /** Behind the beginning of the section. */
  readonly offset: Address;
  readonly lines: readonly ListedInstruction[];
}

interface Extent {
  readonly name: string;
  readonly range: CodeRange;
  readonly start: bigint;
  readonly end: bigint;
}

/** The symbol of a function that is given by its demangled name; '' for none. */
function symbolOf(program: Program, text: string): string {
  const { symbol, count } = program.functions.functions;
  for (let i = 0; i < count; i++) {
    const name = program.symbolName(symbol[i]!);
    if (demangle(name) === text) return name;
  }
  return '';
}

/** A function by name, or `0xADDRESS`, or `SECTION+0xOFFSET` in relocatable files. */
function locate(program: Program, text: string): Extent {
  const { functions } = program;
  let range: CodeRange | undefined;
  let value = 0n;
  const place = /^(?:(.+)\+)?(0x[0-9a-fA-F]+)$/.exec(text);
  if (place) {
    value = BigInt(place[2]!);
    range = place[1] === undefined ? program.codeAt(value) : program.code.find((each) => each.name === place[1]);
    if (range && place[1] !== undefined && !program.relocatable) value += range.address;
  } else {
    for (const spelling of [text, `.${text}`, symbolOf(program, text)]) {
      const symbol = functions.symbols.find(spelling);
      const found = symbol > 0 ? functions.placeOf(symbol) : undefined;
      if (!found) continue;
      value = found.value;
      range = program.relocatable ? program.codeOfSection(found.section) : program.codeAt(found.value);
      break;
    }
  }
  if (!range) throw new ElftraceError('no-match', `no function or code at '${text}'`, { symbol: text });
  const symbol = program.functionAt(range, value);
  const start = symbol < 0 ? value : (functions.placeOf(symbol)?.value ?? value);
  const limit = range.address + BigInt(range.bytes.length);
  const end = symbol < 0 ? value + 64n : (functions.endOf(symbol) ?? limit);
  return { name: program.symbolName(symbol) || text, range, start, end: end < limit ? end : limit };
}

/** Where sites begin, by code range and address. */
function siteStarts(sites: Sites): Map<string, number> {
  const starts = new Map<string, number>();
  for (let i = 0; i < sites.count; i++) {
    const range = sites.codeRange(i);
    if (range) starts.set(`${range.index}:${sites.anchor[i]! + BigInt(sites.reading(i)?.startDelta ?? 0)}`, i);
  }
  return starts;
}

/** Sites may begin in front of the symbol: they are shown with the function. */
function withSites(sites: Sites, { range, start, end }: Extent): bigint {
  let from = start;
  for (let i = 0; i < sites.count; i++) {
    const reading = sites.codeRange(i) === range ? sites.reading(i) : null;
    if (!reading || sites.ip(i) < start || sites.ip(i) >= end) continue;
    const first = sites.anchor[i]! + BigInt(reading.startDelta);
    if (first < from) from = first;
  }
  return from;
}

/** Whom a branch of linked code leads to, behind stubs; '' for none that has a name. */
function calleeNote(program: Program, range: CodeRange, at: number): string {
  const address = range.address + BigInt(at);
  const { flow } = program.arch.isa.decode(range.bytes, at, address);
  if (!('target' in flow) || program.relocatable) return '';
  const callee = program.finalTarget(flow.target);
  const home = program.codeAt(callee);
  const label = home ? program.describe(home, callee) : '';
  return label === '' || callee === flow.target ? label : `stub -> ${label}`;
}

function relocationNotes(program: Program, section: number, offset: number): string[] {
  const placed = program.relocationsOf(section);
  const found: string[] = [];
  for (let i = lowerBound(placed.offset, offset); i < placed.offset.length && placed.offset[i] === offset; i++) {
    const table = placed.tables[placed.table[i]!]!;
    const row = placed.row[i]!;
    const type = table.type[row]!;
    const name = program.arch.relocations.get(type)?.name ?? `relocation type ${type}`;
    const symbol = program.labelOf(table.symbols, table.symbol[row]!);
    const addend = table.addend[row]!;
    found.push(`${name} ${symbol}${addend === 0n ? '' : addend > 0n ? `+${hex(addend)}` : hex(addend)}`);
  }
  return found;
}

/**
 * Lists functions of one image.
 * @param disassembler  of the image's machine: `loadDisassembler(sites.program.arch.isa.text)`
 * @param names  symbol, demangled name, `0xADDRESS`, or `SECTION+0xOFFSET` in relocatable files
 * @throws ElftraceError 'no-match' where one names nothing
 */
export function functionListings(
  sites: Sites,
  disassembler: Disassembler,
  names: readonly string[],
): FunctionListing[] {
  const { program } = sites;
  const { arch, relocatable } = program;
  const starts = siteStarts(sites);
  return names.map((asked) => {
    const extent = locate(program, asked);
    const { name, range, start, end } = extent;
    const from = withSites(sites, extent);
    const code = range.bytes.subarray(Number(from - range.address), Number(end - range.address));
    const lines = disassembler.disassemble(code, from, arch.isa).map((line) => {
      const at = Number(line.address - range.address);
      const site = starts.get(`${range.index}:${line.address}`) ?? null;
      const callee = calleeNote(program, range, at);
      const offsets = relocatable ? Array.from({ length: line.sizeBytes }, (_, i) => at + i) : [];
      const notes = [
        ...(site === null ? [] : [`site ${sites.shape(site) || 'unknown'}: ${sites.state(site)}`]),
        ...(callee === '' ? [] : [callee]),
        ...offsets.flatMap((offset) => relocationNotes(program, range.section, offset)),
      ];
      return { address: line.address, bytes: line.bytes, text: line.text, site, notes };
    });
    return { name, section: range.name, address: start, offset: start - range.address, lines };
  });
}
