/**
 * `Program`: an image seen as code in one address space. For a linked file it is a view of the
 * file; for a relocatable file every executable section is an address space of its own that starts
 * at 0, and relocations stand in for addresses.
 *
 * Owns: code ranges, relocations by place, what an address is (the profiling entry, a tracer's
 * entry, a linker stub on the way to one), the function that covers a place. Knows no site table
 * and no shape.
 */
import type { Arch } from '../machine/arch.js';
import type { CalleeKind, CodeReference } from '../machine/sites.js';
import type { AddressReader, StubReading } from '../machine/stubs.js';
import * as elf from '../elf/constants.js';
import { readFrameTable } from '../elf/frame-table.js';
import { type FunctionColumns, type FunctionIndex, indexFunctions } from '../elf/functions.js';
import type { ElfImage, SymbolTable } from '../elf/image.js';
import { distance, halves, numberAt } from '../elf/lookup.js';
import { ByteView } from '../bytes.js';
import { ElftraceError, malformed } from '../errors.js';
import { dynamicRelocationsSorted, isDynamic, sortRelocations, type SortedRelocations } from '../relocs/read.js';
import type { Address, CodeIndex, SectionIndex, SymbolIndex } from '../units.js';
import { calledPlaces } from './called.js';
import { type CodeWords, codeWords } from './code-words.js';
import { joinSymbols, placeSymbols } from './symbols.js';
import { type LoadedPart, type LoadMap, partAt, readLoadMap } from './load-map.js';

/**
 * Bytes that can hold sites: an executable section, or an executable segment of a file without
 * section headers.
 */
export interface CodeRange {
  /** Position in `Program.code`. */
  readonly index: CodeIndex;
  /** Section index, or -1 for a segment. */
  readonly section: SectionIndex;
  readonly name: string;
  /** Address of the first byte; 0 in relocatable files. */
  readonly address: Address;
  readonly fileOffset: number;
  readonly bytes: Uint8Array;
}

/**
 * Relocations of one section of a relocatable file, sorted by offset; columns of equal length.
 * Offsets in a section fit a number, which is what shapes compare with.
 */
export interface PlacedRelocations extends Omit<SortedRelocations, 'offset'> {
  readonly offset: Float64Array;
}

/** Section of the private trampolines that `patch` makes (RT-4). */
/** Section of a loaded part with the stubs of its sites. */
export const siteStubSection = '.ftrace.stubs';
/** Bytes in front of the first of them, with the label that says where they begin. */
export const siteStubHead = 16;
export const trampolineSection = '.elftrace.text';

/** Sections of a runtime that serves probes. */
export const probeSections = { text: '.elftrace.slots', data: '.elftrace.probes' } as const;

/** Entries that tracers provide: a site that calls one of these is enabled, by whatever tool. */
const tracerNames: ReadonlySet<string> = new Set([
  'ftrace_caller',
  'ftrace_regs_caller',
  'ftrace_list_caller',
  'ftrace_graph_caller',
  'ftrace_stub',
  'return_to_handler',
]);

/**
 * Imported functions have no address in a file. Each name that matters stands for a made-up address
 * at the very top of the address space, so that a pointer slot filled by the dynamic linker can be
 * followed like any other.
 */
const importedMcount = 0xffff_ffff_ffff_f001n;
const importedTracer = 0xffff_ffff_ffff_f002n;
const importedOther = 0xffff_ffff_ffff_f003n;

/** Linker stubs may lead to further stubs; longer chains do not occur and would be loops. */
const maxStubHops = 4;

export interface LoadOptions {
  /** Further names of the profiling entry (-mfentry-name=SYM). */
  readonly mcountNames?: readonly string[];
  /** Further entries of tracers that sites of relocatable files may name. */
  readonly tracerNames?: readonly string[];
  /**
   * Names for a stripped file, from another ELF file or a System.map; addresses must be those of
   * the file.
   */
  readonly symbols?: SymbolTable;
}

/** Segments that files for processes have, and kernels have not. */
const PROCESS_SEGMENTS: ReadonlySet<number> = new Set([elf.PT_INTERP, elf.PT_DYNAMIC, elf.PT_TLS, elf.PT_GNU_STACK]);

/**
 * An image as code in one address space: ranges of code, relocations by place, functions, what an
 * address is. `load` makes it; a file that lacks something is still read, what was asked of it
 * throws then.
 */
export class Program {
  readonly relocatable: boolean;
  /** ET_DYN: a loader chooses where it lies. */
  readonly positionIndependent: boolean;
  /** The file's own symbols, or those that were given for it. */
  readonly symbols: SymbolTable;
  readonly code: readonly CodeRange[];
  private readonly mcountNames: ReadonlySet<string>;
  private readonly ownTracers: ReadonlySet<string>;
  private readonly rangeOfSection: (CodeRange | undefined)[] = [];
  private functionIndex: FunctionIndex | undefined;
  private readonly relocationCache = new Map<number, PlacedRelocations>();
  private readonly startsOfRange = new Map<number, Float64Array>();
  private readonly derivedValues = new Map<string, unknown>();
  #namesFunctions: boolean | undefined;
  #unwound: ReadonlySet<Address> | undefined;
  private readonly calleeCache = new Map<Address, CalleeKind>();
  /** Many sites call through few stubs. */
  private readonly stubCache = new Map<Address, StubReading | null>();
  private entryAddresses: Map<Address, CalleeKind> | undefined;
  private importedSlots: ReadonlyMap<Address, Address> | undefined;
  private tocValue: Address | null | undefined;
  private companions: ReadonlySet<number>;

  constructor(
    readonly image: ElfImage,
    readonly arch: Arch,
    options: LoadOptions = {},
  ) {
    this.relocatable = image.header.type === elf.ET_REL;
    this.positionIndependent = image.header.type === elf.ET_DYN;
    // A stripped file with entries laid in has symbols of its own again: those of the entries.
    const keepsOwn = this.loadMap !== null;
    if (this.relocatable && options.symbols?.section === -1) {
      throw new ElftraceError(
        'bad-reference',
        'the addresses of a list name nothing in a relocatable file: it has none',
        {
          what: 'symbols',
        },
      );
    }
    const given = options.symbols === undefined ? undefined : placeSymbols(image, options.symbols);
    this.symbols = given === undefined ? image.symbols : keepsOwn ? joinSymbols(image.symbols, given) : given;
    this.mcountNames = new Set([...arch.mcount.symbols, ...(options.mcountNames ?? [])]);
    this.ownTracers = new Set(options.tracerNames);
    this.companions = new Set(arch.relocationRoles.companions);
    this.code = this.findCode();
    for (const range of this.code) if (range.section >= 0) this.rangeOfSection[range.section] = range;
  }

  private findCode(): CodeRange[] {
    const { image } = this;
    const ranges: CodeRange[] = [];
    for (const section of image.sections) {
      if (section.type !== elf.SHT_PROGBITS || (section.flags & elf.SHF_EXECINSTR) === 0n || section.size === 0)
        continue;
      ranges.push({
        index: ranges.length,
        section: section.index,
        name: section.name,
        address: this.relocatable ? 0n : section.address,
        fileOffset: section.offset,
        bytes: image.contents(section),
      });
    }
    if (image.sections.length === 0) {
      for (const segment of image.segments) {
        if (segment.type !== elf.PT_LOAD || (segment.flags & elf.PF_X) === 0 || segment.fileSize === 0) continue;
        ranges.push({
          index: ranges.length,
          section: -1,
          name: `segment ${segment.index}`,
          address: segment.address,
          fileOffset: segment.offset,
          bytes: image.bytes.subarray(segment.offset, segment.offset + segment.fileSize),
        });
      }
    }
    return ranges;
  }

  /** The code range of a section, or undefined when the section holds no code. */
  codeOfSection(section: SectionIndex): CodeRange | undefined {
    return this.rangeOfSection[section];
  }

  /** The code range that holds `address` in a linked file. */
  codeAt(address: Address): CodeRange | undefined {
    for (const range of this.code) {
      if (address >= range.address && address < range.address + BigInt(range.bytes.length)) return range;
    }
    return undefined;
  }

  /** Functions by place, ELFv1 descriptors already followed to their code. */
  get functions(): FunctionIndex {
    this.functionIndex ??= indexFunctions(this.image, {
      symbols: this.symbols,
      // Where there are no descriptors a symbol has a place of its own.
      ...(this.image.section('.opd') === undefined
        ? {}
        : { place: (symbol: SymbolIndex) => this.codePlace(this.symbols, symbol) }),
    });
    return this.functionIndex;
  }

  /** Place of a symbol's code, descriptors followed. */
  private codePlace(
    table: SymbolTable,
    symbol: SymbolIndex,
  ): { readonly section: SectionIndex; readonly value: bigint } | null | undefined {
    return this.relocatable && table !== this.image.symbols
      ? undefined
      : this.arch.abi.codePlace(this.image, symbol, table);
  }

  /**
   * Whether the absence of a function symbol means something: the file, or at least more of it than
   * the entries that were laid in, has some.
   */
  get namesFunctions(): boolean {
    // A field: it is asked for at every site.
    this.#namesFunctions ??= this.namesSome();
    return this.#namesFunctions;
  }

  private namesSome(): boolean {
    const { start, count } = this.functions.functions;
    const map = this.loadMap;
    if (map === null) return count > 0;
    for (let i = 0; i < count; i++) if (partAt(map, start[i]!)?.kind !== 'runtime') return true;
    return false;
  }

  /** Symbol of the function that covers a place of `range`, or -1. */
  functionAt(range: CodeRange, value: bigint): SymbolIndex {
    return this.functions.at(this.relocatable ? range.section : -1, value);
  }

  /** Symbol of a function that starts exactly at a place, or -1. */
  functionStarting(range: CodeRange, value: bigint): SymbolIndex {
    return this.functions.starting(this.relocatable ? range.section : -1, value);
  }

  /**
   * Whether unwind information of a file without `.symtab` begins there, as it does where a
   * function or a part of one does.
   */
  unwindsFrom(address: Address): boolean {
    this.#unwound ??= this.unwindStarts();
    return this.#unwound.has(address);
  }

  /**
   * Whether code of a file without `.symtab` calls a place, or names it (jumps there, computes its
   * address, has it in a word); null: neither. Asked of what runs in a process alone, for kernels
   * are large.
   * @param words  how many words make a name: two where one is that of a table of sites
   */
  calledFrom(address: Address, words: 1 | 2): CodeReference | null {
    if (!this.isUnnamedProcess) return null;
    const { called, reached } = this.derived('called-places', () => calledPlaces(this));
    if (called.has(address)) return 'called';
    const isNamed = reached.has(address) || (this.codeWords.counts.get(address) ?? 0) >= words;
    return isNamed ? 'named' : null;
  }

  get codeWords(): CodeWords {
    return this.derived('code-words', () => codeWords(this));
  }

  /** Whether it runs in a process, and has no `.symtab` but of what was laid in. */
  get isUnnamedProcess(): boolean {
    const isUnnamed = !this.isNamed || (!this.relocatable && !this.namesFunctions);
    return isUnnamed && this.image.segments.some(({ type }) => PROCESS_SEGMENTS.has(type));
  }

  private get isNamed(): boolean {
    return this.relocatable || this.loadMap !== null || this.symbols !== this.image.dynamicSymbols;
  }

  private unwindStarts(): ReadonlySet<Address> {
    const table = this.isNamed ? null : readFrameTable(this.image);
    return new Set(table === null || table === 'unknown' ? [] : table.rows.map(({ code }) => code));
  }

  /** Name of a function without the dot that ELFv1 code symbols may have; '' for -1. */
  symbolName(index: SymbolIndex): string {
    return index < 0 ? '' : this.symbols.name(index);
  }

  /**
   * Starts of functions in a range, ascending, as positions in its bytes: where code can be decoded
   * from.
   */
  functionStarts(range: CodeRange): number[] {
    const { start, section, count } = this.functions.functions;
    const limit = range.address + BigInt(range.bytes.length);
    const found: number[] = [];
    for (let i = 0; i < count; i++) {
      if (this.relocatable && section[i] !== range.section) continue;
      const value = start[i]!;
      if (value >= range.address && value < limit) found.push(Number(value - range.address));
    }
    return found;
  }

  /**
   * Where functions and labels begin in a range, as positions in its bytes, ascending: for who asks
   * `functionStarting` of many places.
   */
  startsIn(range: CodeRange): Float64Array {
    const known = this.startsOfRange.get(range.index);
    if (known !== undefined) return known;
    const { functions, labels } = this.functions;
    const ofFunctions = this.startsOf(functions, range);
    const ofLabels = this.startsOf(labels, range);
    let starts = ofFunctions;
    if (ofLabels.length > 0) {
      starts = new Float64Array(ofFunctions.length + ofLabels.length);
      starts.set(ofFunctions);
      starts.set(ofLabels, ofFunctions.length);
      starts.sort();
    }
    this.startsOfRange.set(range.index, starts);
    return starts;
  }

  private startsOf(
    { count, section, start }: FunctionColumns,
    { address, bytes, section: home }: CodeRange,
  ): Float64Array {
    const { relocatable } = this;
    const from = (place: Address): number => {
      let low = 0;
      let high = count;
      while (low < high) {
        const middle = (low + high) >>> 1;
        const isOther = relocatable && section[middle] !== home;
        if (isOther ? section[middle]! < home : start[middle]! < place) low = middle + 1;
        else high = middle;
      }
      return low;
    };
    const words = halves(start);
    const base = halves(BigUint64Array.of(address));
    const first = from(address);
    const found = new Float64Array(from(address + BigInt(bytes.length)) - first);
    for (let i = 0; i < found.length; i++) found[i] = distance(words, first + i, base, 0);
    return found;
  }

  /** Names of the profiling entry, without the dot of ELFv1. */
  get profilingNames(): readonly string[] {
    return [...this.mcountNames];
  }

  /** What other rooms work out of this program once and ask for again, by a key of theirs. */
  derived<T>(key: string, make: () => T): T {
    if (!this.derivedValues.has(key)) this.derivedValues.set(key, make());
    return this.derivedValues.get(key) as T;
  }

  isMcountName(name: string): boolean {
    return this.mcountNames.has(name.startsWith('.') ? name.slice(1) : name);
  }

  /** Name of a symbol of any table; a section symbol has that of its section. */
  labelOf(table: SymbolTable | null, symbol: SymbolIndex): string {
    if (!table || symbol === 0) return '';
    const name = table.name(symbol);
    return name === '' ? (this.image.sections[table.sectionIndex[symbol]!]?.name ?? '') : name;
  }

  /** True for names of entries that tracers provide. */
  isTracerName(name: string): boolean {
    const plain = name.startsWith('.') ? name.slice(1) : name;
    return tracerNames.has(plain) || this.ownTracers.has(plain);
  }

  /** Relocations of a section of a relocatable file by offset. */
  relocationsOf(section: SectionIndex): PlacedRelocations {
    const known = this.relocationCache.get(section);
    if (known) return known;
    const target = this.image.sections[section];
    const tables = target && this.relocatable ? this.image.relocationsOf(target) : [];
    const sorted = sortRelocations(tables);
    const offset = new Float64Array(sorted.count);
    const words = halves(sorted.offset);
    for (let i = 0; i < offset.length; i++) offset[i] = numberAt(words, i);
    const result = { ...sorted, offset };
    this.relocationCache.set(section, result);
    return result;
  }

  /** What the dynamic linker writes, by address; empty for relocatable files. */
  get dynamicRelocations(): SortedRelocations {
    return this.derived('dynamic-relocations', () =>
      this.relocatable ? sortRelocations([]) : dynamicRelocationsSorted(this.image),
    );
  }

  /**
   * True for kernel modules: their relocations are applied by the kernel's loader, not by a linker.
   */
  get isModule(): boolean {
    return (
      this.relocatable &&
      (this.image.section('.modinfo') !== undefined || this.image.section('.gnu.linkonce.this_module') !== undefined)
    );
  }

  /**
   * True for what a relocation becomes when its call is nopped: NONE, or in modules the type that
   * their loader ignores.
   */
  isNeutral(type: number, symbol: SymbolIndex): boolean {
    const { none, neutralInModule } = this.arch.relocationRoles;
    return type === none || (symbol === 0 && type === neutralInModule.type);
  }

  isCompanion(type: number): boolean {
    return this.companions.has(type);
  }

  // ---------------------------------------------------------------------------- what an address is

  /**
   * .TOC. of a linked PPC64 file: the symbol, or `.got` + 0x8000 by the ABI, or a descriptor's
   * word; null elsewhere.
   */
  get toc(): Address | null {
    if (this.tocValue === undefined) {
      const symbol = this.symbols.find('.TOC.');
      const got = this.image.section('.got');
      if (this.relocatable) this.tocValue = null;
      else if (symbol > 0 && this.symbols.sectionIndex[symbol] !== elf.SHN_UNDEF) {
        this.tocValue = this.symbols.value[symbol]!;
      } else if (got) this.tocValue = got.address + 0x8000n;
      else {
        // ELFv1: the second word of any descriptor is the TOC of its function.
        const opd = this.image.section('.opd');
        this.tocValue = opd && opd.size >= 16 ? this.reader.u64(opd.address + 8n) : null;
      }
    }
    return this.tocValue;
  }

  /**
   * The load map of an image that `load` made; null for other files.
   * @throws ElftraceError 'bad-record' for the map of another target
   */
  get loadMap(): LoadMap | null {
    if (this.relocatable) return null;
    const map = readLoadMap(this.image);
    if (map !== null && map.target !== this.arch.target.id) {
      throw new ElftraceError(
        'bad-record',
        `the load map is one of '${map.target}', the file is of ${this.arch.target.title}`,
        {
          what: 'load map: target',
          value: map.target,
        },
      );
    }
    return map;
  }

  /**
   * The part of a loaded image that occupies an address; undefined outside all parts and in other
   * files.
   */
  partOf(address: Address): LoadedPart | undefined {
    const map = this.loadMap;
    return map === null ? undefined : partAt(map, address);
  }

  /** 4 bytes of a linked file's code in code byte order, unsigned; -1 where there is none. */
  wordAt(address: Address): number {
    const range = this.relocatable ? undefined : this.codeAt(address);
    const offset = range === undefined ? 0 : Number(address - range.address);
    if (range === undefined || offset + 4 > range.bytes.length) return -1;
    return new ByteView(range.bytes, this.arch.target.codeEndian).u32(offset);
  }

  /** The TOC pointer of the code at an address: its part's, else `.TOC.` of the file. */
  tocAt(address: Address): Address | null {
    return this.partOf(address)?.toc ?? this.toc;
  }

  /**
   * Reads a linked file by address; pointer slots that the dynamic linker fills give the stand-in
   * of their symbol.
   */
  readonly reader: AddressReader = {
    u8: (address) => {
      const offset = this.image.fileOffsetOf(address);
      return offset < 0 ? -1 : (this.image.bytes[offset] ?? -1);
    },
    u32: (address) => {
      const offset = this.image.fileOffsetOf(address);
      return offset < 0 || offset + 4 > this.image.bytes.length ? -1 : this.readWord(offset, 4);
    },
    u64: (address) => {
      const imported = this.slots.get(address);
      if (imported !== undefined) return imported;
      const offset = this.image.fileOffsetOf(address);
      if (offset < 0 || offset + 8 > this.image.bytes.length) return null;
      const little = this.image.header.endian === 'little';
      const low = BigInt(this.readWord(little ? offset : offset + 4, 4));
      const high = BigInt(this.readWord(little ? offset + 4 : offset, 4));
      return (high << 32n) | low;
    },
  };

  private readWord(offset: number, size: 4): number {
    const { bytes } = this.image;
    let value = 0;
    for (let i = 0; i < size; i++) {
      const at = this.image.header.endian === 'little' ? offset + size - 1 - i : offset + i;
      value = value * 256 + bytes[at]!;
    }
    return value;
  }

  /**
   * Slot address -> what it will hold, for dynamic relocations that name a symbol or a relative
   * value.
   */
  private get slots(): ReadonlyMap<Address, Address> {
    if (this.importedSlots) return this.importedSlots;
    const slots = new Map<Address, Address>();
    if (!this.relocatable) {
      for (const table of this.image.relocations) {
        if (table.form === 'relr' || !isDynamic(this.image, table)) continue;
        const symbols = table.symbols;
        for (let row = 0; row < table.count; row++) {
          const symbol = table.symbol[row]!;
          if (symbol === 0 || !symbols) continue;
          if (symbols.sectionIndex[symbol] === elf.SHN_UNDEF) {
            slots.set(table.offset[row]!, this.importedAs(symbols.name(symbol)));
          } else {
            slots.set(table.offset[row]!, symbols.value[symbol]! + table.addend[row]!);
          }
        }
      }
    }
    this.importedSlots = slots;
    return slots;
  }

  private importedAs(name: string): Address {
    if (this.isMcountName(name)) return importedMcount;
    return tracerNames.has(name) ? importedTracer : importedOther;
  }

  /** Entry addresses of the profiling functions and of known tracers, local entries included. */
  private get entries(): Map<Address, CalleeKind> {
    if (this.entryAddresses) return this.entryAddresses;
    const entries = new Map<Address, CalleeKind>([
      [importedMcount, 'mcount'],
      [importedTracer, 'tracer'],
    ]);
    const add = (name: string, kind: CalleeKind): void => {
      for (const table of new Set([this.symbols, this.image.symbols, this.image.dynamicSymbols])) {
        for (const spelling of [name, `.${name}`]) {
          const index = table.find(spelling);
          if (index <= 0 || table.sectionIndex[index] === elf.SHN_UNDEF) continue;
          const place = this.codePlace(table, index);
          if (place === null) continue;
          const value = place?.value ?? table.value[index]!;
          entries.set(value, kind);
          const local = this.arch.abi.localEntryOffset(table.other[index]!);
          if (local > 0) entries.set(value + BigInt(local), kind);
        }
      }
    };
    if (!this.relocatable) {
      for (const name of this.mcountNames) add(name, 'mcount');
      for (const name of tracerNames) add(name, 'tracer');
    }
    this.entryAddresses = entries;
    return entries;
  }

  /** From now on a place is the profiling entry, which nothing names. */
  takeProfilingEntry(address: Address): void {
    this.entries.set(address, 'mcount');
    this.calleeCache.clear();
  }

  /**
   * Address of the code of a symbol, descriptors followed; null where the file does not define it.
   * Linked files only.
   */
  definedAt(symbol: SymbolIndex): Address | null {
    const { symbols } = this;
    if (symbol <= 0 || symbols.sectionIndex[symbol] === elf.SHN_UNDEF) return null;
    const place = this.codePlace(symbols, symbol);
    if (place === null) return null;
    return place?.value ?? symbols.value[symbol]!;
  }

  /**
   * What a branch to `address` reaches, linker stubs and pointer slots followed. Linked files only.
   */
  callee(address: Address): CalleeKind {
    const known = this.calleeCache.get(address);
    if (known !== undefined) return known;
    const target = this.finalTarget(address);
    const kind = this.entries.get(target) ?? (this.isTrampoline(target) ? 'tracer' : 'other');
    this.calleeCache.set(address, kind);
    return kind;
  }

  /** True in the room for private trampolines: what is called there is a tracer's entry. */
  private isTrampoline(address: Address): boolean {
    const room = this.relocatable ? undefined : this.image.section(trampolineSection);
    return room !== undefined && address >= room.address && address < room.address + BigInt(room.size);
  }

  /**
   * Where a branch to `address` ends up after linker stubs; `address` itself when it is no stub.
   */
  finalTarget(address: Address): Address {
    let at = address;
    for (let hop = 0; hop < maxStubHops; hop++) {
      if (this.entries.has(at)) return at;
      const next = this.slots.get(at) ?? (this.codeAt(at) ? this.stubTarget(at) : this.pointerAt(at));
      if (next === null) return at;
      at = next;
    }
    return at;
  }

  /**
   * The word at `address`, for calls through a pointer slot that the linker filled; null where no
   * byte lies.
   */
  private pointerAt(address: Address): Address | null {
    if (this.image.wordBytes === 8) return this.reader.u64(address);
    const word = this.reader.u32(address);
    return word < 0 ? null : BigInt(word);
  }

  /**
   * The whole stub at `address`: its form, where it finds its target, what it does to the TOC; null
   * when no stub is there.
   */
  stub(address: Address): StubReading | null {
    const known = this.stubCache.get(address);
    if (known !== undefined) return known;
    let found: StubReading | null = null;
    if (this.codeAt(address)) {
      const toc = this.tocAt(address);
      for (const form of this.arch.stubForms) {
        found = form.read(this.reader, address, toc);
        if (found !== null) break;
      }
    }
    this.stubCache.set(address, found);
    return found;
  }

  /** Target of the stub at `address`, or null when no stub is there. */
  stubTarget(address: Address): Address | null {
    if (!this.codeAt(address)) return null;
    const toc = this.tocAt(address);
    for (const form of this.arch.stubForms) {
      const target = form.readTarget(this.reader, address, toc);
      if (target !== null) return target;
    }
    return null;
  }

  /**
   * True when a profiling entry is defined or imported under a known name, so that branch targets
   * can be judged.
   */
  get hasMcountEntry(): boolean {
    // Entries that were laid into a stripped file say nothing of what its own calls lead to.
    if (this.entries.size > 2 && (this.loadMap === null || this.namesFunctions)) return true;
    for (const target of this.slots.values()) if (target === importedMcount) return true;
    return false;
  }

  /** `name+0x10` for an address or section offset; '' when no function covers it. */
  describe(range: CodeRange, value: bigint): string {
    const symbol = this.functionAt(range, value);
    if (symbol < 0) return '';
    const place = this.functions.placeOf(symbol);
    const offset = place ? value - place.value : 0n;
    const name = this.symbolName(symbol);
    return offset === 0n ? name : `${name}+0x${offset.toString(16)}`;
  }
}

/**
 * Sees an image as a program.
 * @throws ElftraceError 'unsupported-form' for core files and other types that hold no program
 */
export function load(image: ElfImage, arch: Arch, options: LoadOptions = {}): Program {
  const { type } = image.header;
  if (type !== elf.ET_REL && type !== elf.ET_EXEC && type !== elf.ET_DYN) {
    throw new ElftraceError(
      'unsupported-form',
      `ELF header: files of type ${type} hold no program (core files and the like)`,
      {
        what: 'ELF header: e_type',
        value: type,
      },
    );
  }
  refuseContradiction(image, arch);
  return new Program(image, arch, options);
}

/**
 * P-ABI-1: the header says by which ABI functions are found, and a section of descriptors the
 * opposite. Linkers without ELFv1 (ld.lld) make such programs out of its objects, without an error.
 */
function refuseContradiction(image: ElfImage, { target }: Arch): void {
  const descriptors = target.abiName === 'elfv2' ? image.section('.opd') : undefined;
  if (descriptors === undefined || descriptors.size === 0) return;
  throw malformed(
    'ELF header: e_flags',
    'they say ABI 2 (ELFv2), and .opd has function descriptors (ELFv1): no valid program; ld.lld, which has no ELFv1, links its objects so',
    { section: '.opd', value: image.header.flags },
  );
}
