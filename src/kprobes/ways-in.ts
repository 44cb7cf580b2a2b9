/**
 * Every way into the middle of code that an image tells of. A jump over several instructions may
 * only be written where no thread comes to the second one, and that is no matter of one function:
 * cold parts of it, parts that a compiler split off and hand-written code lead back into it from
 * anywhere.
 *
 *   - direct branches and calls of all code. Where instructions differ in length, code is decoded
 *     from every symbol on and from every place that something leads to. In a stretch that cannot
 *     be decoded an instruction may begin at every byte, so each byte that could begin a branch
 *     counts as one: what cannot be decoded is data between functions, or code whose branches must
 *     not be missed, and the first only costs a few jumps.
 *   - addresses that code computes: labels whose address is taken, returns made by hand;
 *   - addresses in data, absolute or as a distance from the start of their table: tables of
 *     switches. A table begins where code computes its address, and ends at the next one, or in
 *     front of the first word that leads to no code;
 *   - landing pads of exception tables; what the tables of kernels go on at (fix-ups of faults,
 *     targets of jump labels);
 *   - symbols, and relocations that are still to be applied.
 *
 * What only names a place, and leads no thread there, is left out: unwind tables, lists of sites.
 * All in numbers: positions are distances from the lowest code, because a kernel has millions of
 * instructions. Worked out once for each image, when the first jump is asked for.
 */
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfSection, RelocationTable, SymbolTable } from '../elf/image.js';
import { landingPads } from '../elf/landing-pads.js';
import { ElftraceError, hex } from '../errors.js';
import { otherRanges } from '../sites/overlaps.js';
import { lowerBound } from '../elf/lookup.js';
import type { CodeRange, Program } from '../program/program.js';
import { inPlaceAddend } from '../relocs/read.js';
import type { Address, SectionIndex } from '../units.js';
import { type Sweep, SweptInstruction, type WayIn, type WayInKind } from '../machine/probes.js';

/** Section of what elftrace itself put into an image. */
export const isOwn = (name: string): boolean => name.startsWith('.elftrace.');

/** Tables that name places in code to which no code goes on because of them. */
const NAMES_ONLY =
  /^\.(eh_frame|gcc_except_table|orc_|stack_sizes|retpoline_sites|return_sites|call_sites|ibt_endbr_seal|cfi_sites|static_call_sites|smp_locks|parainstructions|altinstructions$|alternative$)|^(__mcount_loc|__patchable_function_entries|__bug_table|__kcfi_traps|_kprobe_blacklist|xray_)/;

const KINDS = ['branch', 'address', 'landing-pad', 'table', 'symbol'] as const satisfies readonly WayInKind[];
type Kind = (typeof KINDS)[number];

/**
 * Sections in relocatable files are this far apart, so that no distance leads from one into
 * another.
 */
const APART = 2 ** 40;
/**
 * Relative tables whose begin is not known: this many entries may be in front of one.
 */
const ENTRIES_BEFORE = 256;

/** A list of numbers that grows. */
class Numbers {
  private values = new Float64Array(1024);
  count = 0;

  push(value: number): void {
    if (this.count === this.values.length) {
      const more = new Float64Array(2 * this.count);
      more.set(this.values);
      this.values = more;
    }
    this.values[this.count++] = value;
  }

  at(index: number): number {
    return this.values[index]!;
  }

  indexOf(value: number): number {
    const index = this.values.indexOf(value);
    return index < this.count ? index : -1;
  }

  /** Ascending, each once. */
  sorted(): Float64Array {
    const all = this.values.slice(0, this.count).sort();
    return all.filter((value, i) => i === 0 || all[i - 1] !== value);
  }
}

/** One code range as a sweep works on it. */
interface Swept {
  readonly range: CodeRange;
  /** Position of its first byte. */
  readonly base: number;
  readonly end: number;
  /** 1 + number of the first kind of way that leads to a byte; 0: none. */
  readonly marks: Uint8Array;
  /** An instruction was decoded there, or tried. */
  readonly seen: Uint8Array;
  /** Bytes that a relocation still writes. */
  readonly relocated: Uint8Array | null;
}

/** Bytes that are no code. */
interface Data {
  readonly name: string;
  readonly base: number;
  readonly bytes: Uint8Array;
}

const signed = (value: bigint): number => Number(BigInt.asIntN(64, value));

export class WaysIn {
  /** Why not all of them are known; null: they are. */
  private unknown: string | null = null;
  private readonly code: readonly Swept[];
  private readonly data: readonly Data[];
  private readonly origin: bigint;
  private readonly originNumber: number;
  private readonly targets = new Numbers();
  private readonly sources = new Numbers();
  /** What leads to a position, where its source is no position of its own. */
  private readonly texts = new Map<number, string>();
  private pending: number[] = [];
  /** Addresses of data that code computes. */
  private readonly bases = new Numbers();
  private readonly step = new SweptInstruction();
  private last: Swept | undefined;

  constructor(
    private readonly program: Program,
    private readonly sweep: Sweep,
  ) {
    const ranges = program.code.filter(({ name }) => !isOwn(name));
    this.origin = ranges.reduce((low, { address }) => (address < low ? address : low), ranges[0]?.address ?? 0n);
    this.originNumber = signed(this.origin);
    this.code = ranges.map((range) => this.sweptOf(range)).sort((a, b) => a.base - b.base);
    this.data = program.relocatable ? [] : this.dataOf();
    if (!this.code.every(({ end }) => Number.isSafeInteger(end)) || !Number.isSafeInteger(this.originNumber)) {
      this.unknown = 'code lies too far apart';
      return;
    }
    this.symbols();
    this.branches();
    this.landing();
    this.kernel();
    if (program.relocatable) this.relocations();
    else {
      this.words();
      this.dynamic();
      this.relativeTables();
    }
    // What data leads to is decoded as well, if it lies between instructions.
    this.follow();
  }

  private sweptOf(range: CodeRange): Swept {
    const { relocatable } = this.program;
    const base = relocatable ? range.index * APART : signed(range.address - this.origin);
    const size = range.bytes.length;
    let relocated: Uint8Array | null = null;
    if (relocatable) {
      relocated = new Uint8Array(size);
      const { count, offset } = this.program.relocationsOf(range.section);
      for (let i = 0; i < count; i++) if (offset[i]! < size) relocated[offset[i]!] = 1;
    }
    return { range, base, end: base + size, marks: new Uint8Array(size), seen: new Uint8Array(size), relocated };
  }

  /** Whatever of a linked image is in memory and no code. */
  private dataOf(): Data[] {
    const { image } = this.program;
    if (image.sections.length === 0) {
      return image.segments
        .filter(({ type, flags, fileSize }) => type === elf.PT_LOAD && (flags & elf.PF_X) === 0 && fileSize > 0)
        .map(({ address, offset, fileSize }) => ({
          name: 'data',
          base: signed(address - this.origin),
          bytes: image.bytes.subarray(offset, offset + fileSize),
        }));
    }
    const kinds = [elf.SHT_PROGBITS, elf.SHT_INIT_ARRAY, elf.SHT_FINI_ARRAY, elf.SHT_PREINIT_ARRAY, elf.SHT_DYNAMIC];
    return image.sections
      .filter(
        ({ type, flags, name }) =>
          kinds.includes(type) &&
          (flags & elf.SHF_ALLOC) !== 0n &&
          (flags & elf.SHF_EXECINSTR) === 0n &&
          !isOwn(name) &&
          !NAMES_ONLY.test(name),
      )
      .map((section) => ({
        name: section.name,
        base: signed(section.address - this.origin),
        bytes: image.contents(section),
      }));
  }

  // ----------------------------------------------------------------------------------------- marks

  private codeAt(position: number): Swept | undefined {
    const { last, code } = this;
    if (last !== undefined && position >= last.base && position < last.end) return last;
    let low = 0;
    let high = code.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (code[middle]!.end <= position) low = middle + 1;
      else high = middle;
    }
    const found = code[low];
    if (found === undefined || position < found.base) return undefined;
    this.last = found;
    return found;
  }

  /** @returns false: no code is there */
  private mark(kind: Kind, to: number, from: number, text?: string): boolean {
    const place = this.codeAt(to);
    if (place === undefined) return false;
    const offset = to - place.base;
    // Nothing can be executed there.
    if (offset % this.sweep.alignBytes !== 0) return true;
    if (place.marks[offset] === 0) {
      place.marks[offset] = 1 + KINDS.indexOf(kind);
      this.targets.push(to);
      this.sources.push(from);
      if (text !== undefined) this.texts.set(to, text);
    }
    if (place.seen[offset] === 0) this.pending.push(to);
    return true;
  }

  /** The position that an address of a linked image has. */
  private positionOf(address: bigint): number {
    return Number(BigInt.asIntN(64, address - this.origin));
  }

  /** The position of an offset in a section of a relocatable file; NaN: it is no code. */
  private placeOf(section: SectionIndex, value: bigint): number {
    const range = this.program.codeOfSection(section);
    return range === undefined || isOwn(range.name) ? NaN : range.index * APART + Number(value);
  }

  // ------------------------------------------------------------------------------------------ code

  private branches(): void {
    for (const each of this.code) {
      const starts = [0, ...this.program.functionStarts(each.range)];
      for (const start of starts) this.sweepFrom(each, start, starts);
    }
    this.follow();
  }

  /** Code that something leads to and that no sweep has met. */
  private follow(): void {
    while (this.pending.length > 0) {
      const { pending } = this;
      this.pending = [];
      for (const position of pending) {
        const place = this.codeAt(position);
        if (place?.seen[position - place.base] === 0) this.sweepFrom(place, position - place.base, []);
      }
    }
  }

  /**
   * Decodes up to what is decoded already. @param starts  ascending: where a stretch that cannot be
   *                                                       decoded ends
   */
  private sweepFrom(place: Swept, start: number, starts: readonly number[]): void {
    const { seen, range } = place;
    const { step, sweep } = this;
    const { bytes } = range;
    sweep.reset();
    for (let at = start; at < bytes.length && seen[at] === 0; at += step.sizeBytes) {
      seen[at] = 1;
      sweep.step(bytes, at, step);
      if (step.sizeBytes === 0) {
        this.everyByte(place, at, starts.find((each) => each > at) ?? bytes.length);
        return;
      }
      this.take(place, at);
    }
  }

  /** Branches that may begin anywhere in a stretch. */
  private everyByte(place: Swept, from: number, to: number): void {
    const { step, sweep } = this;
    const { seen } = place;
    const { bytes } = place.range;
    for (let at = from; at < to && (at === from || seen[at] === 0); at += sweep.alignBytes) {
      sweep.reset();
      sweep.step(bytes, at, step);
      if (step.sizeBytes > 0 && !Number.isNaN(step.target)) this.take(place, at);
    }
  }

  /** What the instruction in `step` leads to. */
  private take({ base, end, relocated }: Swept, at: number): void {
    const { sweep } = this;
    const { target, address, constant, sizeBytes } = this.step;
    const from = base + at;
    const hasTarget = !Number.isNaN(target);
    if (!hasTarget && Number.isNaN(address) && Number.isNaN(constant)) return;
    // What a relocation will write is not there yet.
    if (relocated !== null && relocated.subarray(at, at + sizeBytes).includes(1)) return;
    if (hasTarget) {
      const to = from + target;
      if (!this.program.relocatable || (to >= base && to < end)) this.mark('branch', to, from);
    }
    if (this.program.relocatable) return;
    if (!Number.isNaN(address)) this.computed(from + address, from);
    // Numbers in code are addresses only where nothing has to be added to them; those of code that
    // does without have tables of addresses.
    if (Number.isNaN(constant) || this.program.positionIndependent) return;
    if (sweep.hasConstantBases) this.computed(constant - this.originNumber, from);
    else this.mark('address', constant - this.originNumber, from);
  }

  private computed(position: number, from: number): void {
    if (!this.mark('address', position, from)) this.bases.push(position);
  }

  // ------------------------------------------------------------------------------------------ data

  private symbols(): void {
    const { image, symbols, relocatable } = this.program;
    const note = (table: SymbolTable): void => {
      for (let i = 1; i < table.count; i++) {
        const type = table.info[i]! & 15;
        if (type !== elf.STT_FUNC && type !== elf.STT_GNU_IFUNC && type !== elf.STT_NOTYPE) continue;
        const section = table.sectionIndex[i]!;
        if (section === elf.SHN_UNDEF || section >= elf.SHN_LORESERVE_RESOLVED) continue;
        // Labels that assemblers make, and marks of what is code and what data: nothing but
        // relocations names them.
        if (table.nameStartsWith(i, '.L') || table.nameStartsWith(i, '$')) continue;
        const value = table.value[i]!;
        const position = relocatable ? this.placeOf(section, value) : this.positionOf(value);
        if (this.codeAt(position) === undefined) continue;
        const name = table.name(i);
        if (name !== '' && !/[\x01\x02]/.test(name)) this.mark('symbol', position, NaN, `the symbol ${name}`);
      }
    };
    note(symbols);
    if (image.dynamicSymbols !== symbols) note(image.dynamicSymbols);
    if (!relocatable) this.mark('symbol', this.positionOf(image.header.entry), NaN, 'the entry of the file');
  }

  private landing(): void {
    const { relocatable, image } = this.program;
    const { pads, unread } = landingPads(image);
    for (const { section, value } of pads) {
      const to = relocatable ? this.placeOf(section, value) : this.positionOf(value);
      this.mark('landing-pad', to, NaN, 'a landing pad of an exception table');
    }
    this.unknown ??= unread === null ? null : `landing pads are not known: ${unread}`;
  }

  /** Absolute addresses in data. */
  private words(): void {
    const { positionIndependent, image, code } = this.program;
    // What a loader places low has its addresses in relocations, and its numbers look like
    // addresses.
    const isLow = this.originNumber >= 0 && this.originNumber < 2 ** 32;
    if (positionIndependent && isLow) return;
    // Words of 32 bits hold addresses of programs.
    const fits = isLow && this.originNumber < 2 ** 31;
    const { endian } = image.header;
    const note = (name: string, base: number, bytes: Uint8Array, size: 4 | 8): void => {
      const view = new ByteView(bytes, endian, name);
      const [high, low] = endian === 'little' ? [4, 0] : [0, 4];
      // Words lie at multiples of their size.
      const first = (size - (((this.originNumber + base) % size) + size)) % size;
      for (let at = (first + size) % size; at + size <= bytes.length; at += size) {
        const value = size === 4 ? view.i32(at) : view.i32(at + high) * 2 ** 32 + view.u32(at + low);
        this.mark('address', value - this.originNumber, base + at);
      }
    };
    for (const { name, base, bytes } of this.data) {
      note(name, base, bytes, 8);
      if (fits) note(name, base, bytes, 4);
    }
    // Hand-written code has its tables behind itself.
    for (const { name, address, bytes } of code) if (!isOwn(name)) note(name, this.positionOf(address), bytes, 8);
  }

  /** What a dynamic linker, or the start of a kernel, will write. */
  private dynamic(): void {
    const { image, dynamicRelocations: rows } = this.program;
    for (let rank = 0; rank < rows.count; rank++) {
      const table = rows.tables[rows.table[rank]!]!;
      const row = rows.row[rank]!;
      const from = this.positionOf(rows.offset[rank]!);
      this.mark('address', this.positionOf(valueOf(image, table, row)), from);
    }
  }

  /** Where a kernel goes on after a fault, or with a jump label that is on. */
  private kernel(): void {
    for (const { kind, section, offset, what } of otherRanges(this.program).list) {
      if (kind !== 'target') continue;
      this.mark('table', section < 0 ? this.positionOf(offset) : this.placeOf(section, offset), NaN, what);
    }
  }

  /** Tables of distances from where they begin. */
  private relativeTables(): void {
    const bases = this.bases.sorted();
    const { endian } = this.program.image.header;
    const all = [...this.data, ...this.code.map(({ range, base }) => ({ name: range.name, base, bytes: range.bytes }))];
    for (const { name, base: start, bytes } of all) {
      const view = new ByteView(bytes, endian, name);
      const end = start + bytes.length;
      for (let i = lowerBound(bases, start); i < bases.length && bases[i]! < end; i++) {
        const base = bases[i]!;
        const limit = Math.min(end, bases[i + 1] ?? end);
        for (let at = base; at + 4 <= limit; at += 4) {
          if (!this.mark('address', base + view.i32(at - start), at)) break;
        }
      }
    }
  }

  // ----------------------------------------------------------------------------- relocatable files

  private relocations(): void {
    const { image } = this.program;
    for (const table of image.relocations) {
      const source = image.sections[table.target];
      if (source === undefined || (source.flags & elf.SHF_ALLOC) === 0n || !table.symbols) continue;
      if ((source.flags & elf.SHF_EXECINSTR) !== 0n) this.ofCode(source, table, table.symbols);
    }
    for (const table of image.relocations) {
      const source = image.sections[table.target];
      if (source === undefined || (source.flags & elf.SHF_ALLOC) === 0n || !table.symbols) continue;
      if ((source.flags & elf.SHF_EXECINSTR) === 0n) this.ofData(source, table, table.symbols);
    }
  }

  /** Places of data sections that code computes, by section. */
  private readonly tableStarts = new Map<number, number[]>();

  /** What a relocation of code names, where it leads there. */
  private ofCode(source: ElfSection, table: RelocationTable, symbols: SymbolTable): void {
    const { arch } = this.program;
    const bias = arch.loader.kind === 'none' ? 0n : arch.loader.branchBias;
    for (let row = 0; row < table.count; row++) {
      const rule = arch.relocations.get(table.type[row]!)?.rule ?? 'abs';
      if (rule !== 'abs' && rule !== 'pcrel') continue;
      const symbol = table.symbol[row]!;
      const section = symbols.sectionIndex[symbol]!;
      const value = symbols.value[symbol]! + table.addend[row]! + (rule === 'pcrel' ? bias : 0n);
      const to = this.placeOf(section, value);
      if (Number.isNaN(to)) {
        const starts = this.tableStarts.get(section);
        if (starts) starts.push(Number(value));
        else this.tableStarts.set(section, [Number(value)]);
      } else this.mark('branch', to, this.placeOf(source.index, table.offset[row]!));
    }
  }

  private ofData(source: ElfSection, table: RelocationTable, symbols: SymbolTable): void {
    const { name } = source;
    // Of a table that a linker may still shorten, the distances of landing pads are relocations.
    const isPads = name.startsWith('.gcc_except_table');
    if (NAMES_ONLY.test(name) && !isPads) return;
    // Those have formats, and say which of their fields lead somewhere.
    if (this.program.arch.patchTables.some(({ section }) => section === name)) return;
    const starts = (this.tableStarts.get(source.index) ?? []).sort((a, b) => a - b);
    for (let row = 0; row < table.count; row++) {
      const offset = Number(table.offset[row]!);
      const rule = this.program.arch.relocations.get(table.type[row]!)?.rule ?? 'abs';
      if (rule === 'none' || rule === 'sub' || rule === 'uleb-sub') continue;
      const symbol = table.symbol[row]!;
      const to = this.placeOf(symbols.sectionIndex[symbol]!, symbols.value[symbol]! + table.addend[row]!);
      if (Number.isNaN(to)) continue;
      const kind = isPads ? 'landing-pad' : 'address';
      const text = `${name}+${hex(offset)}`;
      // A distance from the start of its table says where it lies itself, too.
      const isDistance = rule === 'pcrel';
      const start = isDistance ? starts.findLast((each) => each <= offset) : undefined;
      this.mark(kind, start === undefined ? to : to - (offset - start), NaN, text);
      if (!isDistance || start !== undefined) continue;
      for (let i = 1; i <= ENTRIES_BEFORE && 4 * i <= offset; i++) this.mark(kind, to - 4 * i, NaN, text);
    }
  }

  // --------------------------------------------------------------------------------------- answers

  /** What leads into the middle of [start, end); null: nothing that the image tells of. */
  inside(range: CodeRange, start: Address, end: Address): WayIn | null {
    if (this.unknown !== null) return { kind: 'unknown', to: start, what: this.unknown };
    const place = this.code.find((each) => each.range === range);
    if (place === undefined) return { kind: 'unknown', to: start, what: 'code of elftrace is not looked at' };
    const from = Number(start - range.address);
    const to = Math.min(Number(end - range.address), place.marks.length);
    for (let at = from + 1; at < to; at++) {
      const mark = place.marks[at]!;
      if (mark === 0) continue;
      const kind = KINDS[mark - 1]!;
      return { kind, to: range.address + BigInt(at), what: this.describe(kind, place.base + at) };
    }
    return null;
  }

  private describe(kind: Kind, position: number): string {
    const text = this.texts.get(position);
    const source = this.sources.at(this.targets.indexOf(position));
    if (text !== undefined && Number.isNaN(source)) return text;
    const where = this.nameOf(source);
    if (kind === 'branch') return `the branch at ${where}`;
    return text === undefined ? `an address at ${where}` : `${text} at ${where}`;
  }

  private nameOf(position: number): string {
    const { program } = this;
    const place = this.codeAt(position);
    if (place !== undefined) {
      const value = place.range.address + BigInt(position - place.base);
      const symbol = program.functionAt(place.range, value);
      const start = program.functions.placeOf(symbol);
      if (start !== undefined) return `${program.symbolName(symbol)}+${hex(value - start.value)}`;
      return program.relocatable ? `${place.range.name}+${hex(value)}` : hex(value);
    }
    const address = BigInt.asUintN(8 * program.image.wordBytes, this.origin + BigInt(position));
    const data = this.data.find(({ base, bytes }) => position >= base && position < base + bytes.length);
    return data === undefined ? hex(address) : `${hex(address)} in ${data.name}`;
  }
}

/** What the word of a dynamic relocation will be, before the file is placed. */
function valueOf(image: Program['image'], table: RelocationTable, row: number): bigint {
  const symbol = table.symbol[row]!;
  const own = symbol === 0 || !table.symbols ? 0n : table.symbols.value[symbol]!;
  if (table.addends === 'row') return own + table.addend[row]!;
  try {
    return own + inPlaceAddend(image, table, row, image.wordBytes);
  } catch (error) {
    if (error instanceof ElftraceError) return own;
    throw error;
  }
}
