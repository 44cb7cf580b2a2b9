/** `elftrace disasm FILE FUNCTION…`: code with its sites, calls and relocations named. */
import { demangle } from '../demangle/index.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { type CodeRange, lowerBound, type Program } from '../program/program.js';
import { jsonSchema, type Json } from '../report/json.js';
import { disassemblerOf } from './disassembly.js';
import { readInput } from './files.js';
import { open, type OpenOptions } from './open.js';
import { out, paint } from './terminal.js';
import type { SectionIndex } from '../units.js';

export interface DisasmArguments extends OpenOptions {
  readonly path: string;
  readonly functions: readonly string[];
  readonly json: boolean;
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

export async function runDisasm(args: DisasmArguments): Promise<number> {
  const { sites, program, arch } = await open(await readInput(args.path, 'read'), args);
  const disassembler = await disassemblerOf(arch);
  const siteAt = new Map<string, number>();
  for (let i = 0; i < sites.count; i++) {
    const range = sites.codeRange(i);
    if (!range) continue;
    const reading = sites.reading(i);
    siteAt.set(`${range.index}:${sites.anchor[i]! + BigInt(reading?.startDelta ?? 0)}`, i);
  }
  const functions: Json[] = [];
  for (const text of args.functions) {
    const { name, range, start, end } = locate(program, text);
    // Sites may begin in front of the symbol: show them with the function.
    let from = start;
    for (let i = 0; i < sites.count; i++) {
      const reading = sites.codeRange(i) === range ? sites.reading(i) : null;
      if (!reading || sites.ip(i) < start || sites.ip(i) >= end) continue;
      const first = sites.anchor[i]! + BigInt(reading.startDelta);
      if (first < from) from = first;
    }
    const offset = Number(from - range.address);
    const code = range.bytes.subarray(offset, Number(end - range.address));
    const lines: Json[] = [];
    if (!args.json) out(`${paint('bold', name)}  ${range.name}+${hex(start - range.address)}`);
    const relocations = program.relocatable ? program.relocationsOf(range.section) : null;
    for (const line of disassembler.disassemble(code, from, arch.isa)) {
      const notes: string[] = [];
      const site = siteAt.get(`${range.index}:${line.address}`);
      if (site !== undefined) notes.push(`site ${sites.shape(site) || 'unknown'}: ${sites.state(site)}`);
      const at = Number(line.address - range.address);
      const { flow } = arch.isa.decode(range.bytes, at, line.address);
      if ('target' in flow && !program.relocatable) {
        const callee = program.finalTarget(flow.target);
        const home = program.codeAt(callee);
        const label = home ? program.describe(home, callee) : '';
        if (label !== '') notes.push(callee === flow.target ? label : `stub -> ${label}`);
      }
      if (relocations) {
        for (let i = 0; i < line.sizeBytes; i++) {
          for (const text of relocationNotes(program, range.section, at + i)) notes.push(text);
        }
      }
      const bytes = hexBytes(line.bytes);
      if (args.json) lines.push({ address: hex(line.address), bytes, text: line.text, notes });
      else {
        const note =
          notes.length === 0 ? '' : `  ${paint(site === undefined ? 'dim' : 'yellow', `; ${notes.join(', ')}`)}`;
        out(`  ${hex(line.address).padStart(10)}  ${bytes.padEnd(24)}  ${line.text}${note}`);
      }
    }
    functions.push({ name, section: range.name, address: hex(start), lines });
  }
  if (args.json) out(JSON.stringify({ schema: jsonSchema, file: args.path, functions }));
  return 0;
}

function relocationNotes(program: Program, section: SectionIndex, offset: number): string[] {
  const placed = program.relocationsOf(section);
  const found: string[] = [];
  for (let i = lowerBound(placed, offset); i < placed.offset.length && placed.offset[i] === offset; i++) {
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
