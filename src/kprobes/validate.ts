/**
 * Where a probe may go (K-ADDR-1 to K-ADDR-8): from what a definition names to an instruction, or a
 * refusal that a program can read. Owns symbols, text, the blacklist, tables of other mechanisms,
 * ftrace sites; what an instruction is, and how it is executed elsewhere, is the machine's
 * business.
 *
 * The image must be the one without probes: bytes of the file are taken for the original ones.
 */
import { moduleInfo } from '../elf/modinfo.js';
import { lookBack } from '../machine/patterns.js';
import type { Arch } from '../machine/arch.js';
import { ByteView } from '../bytes.js';
import { ElftraceError, type ErrorContext, hex } from '../errors.js';
import { otherRanges } from '../sites/overlaps.js';
import type { Sites } from '../sites/sites.js';
import type { CodeRange, Program } from '../program/program.js';
import type { Address, SectionIndex, SiteIndex } from '../units.js';
import type { ProbeWhere } from './events.js';
import {
  type ProbeCode,
  type ProbeInstruction,
  type ProbeRefusal,
  type ProbeSupport,
  refuse,
} from '../machine/probes.js';
import { isOwn, WaysIn } from './ways-in.js';

/** A place that a probe may have. */
export interface ValidProbe {
  readonly kind: 'valid';
  /** After K-ADDR-1; an offset in `range` in relocatable files. */
  readonly address: Address;
  readonly range: CodeRange;
  readonly code: ProbeCode;
  readonly instruction: ProbeInstruction;
  /**
   * Position in the sites of the ftrace site that is there: the probe is served by it (K-ADDR-7).
   */
  readonly site: SiteIndex | null;
  /** `SYMBOL` and the distance, as the kernel lists it. */
  readonly symbol: string;
  readonly offset: number;
  /** The first instruction of the function, a landing pad in front of it left out. */
  readonly atEntry: boolean;
}

/** Sections whose code is not probed, and symbols around them in linked kernels. */
const FORBIDDEN_TEXT: readonly (readonly [section: string, start: string, end: string, what: string])[] = [
  ['.kprobes.text', '__kprobes_text_start', '__kprobes_text_end', 'code of kprobes'],
  ['.noinstr.text', '__noinstr_text_start', '__noinstr_text_end', 'noinstr code'],
  ['.entry.text', '__entry_text_start', '__entry_text_end', 'entry code'],
  ['.irqentry.text', '__irqentry_text_start', '__irqentry_text_end', 'entry code'],
  ['.idmap.text', '__idmap_text_start', '__idmap_text_end', 'code that runs without a page table'],
  ['.hyp.text', '__hyp_text_start', '__hyp_text_end', 'code of the hypervisor'],
  ['.hyp.idmap.text', '__hyp_idmap_text_start', '__hyp_idmap_text_end', 'code of the hypervisor'],
];

interface Marked {
  /** Section index in relocatable files, -1 elsewhere. */
  readonly section: SectionIndex;
  readonly start: Address;
  readonly end: Address;
  readonly what: string;
}

const isInFront = (mark: Marked, section: SectionIndex, place: Address): boolean =>
  mark.section < section || (mark.section === section && mark.start < place);

/** Rank of the first that is not in front, in a list that begins with those that are. */
function firstFrom<T>(list: readonly T[], inFront: (each: T) => boolean): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (inFront(list[middle]!)) low = middle + 1;
    else high = middle;
  }
  return low;
}

const EXCEPTION = 'an exception table entry';
const BLACKLIST = '_kprobe_blacklist';

/**
 * The machine's part. @throws ElftraceError 'probe-refused' with reason `not-served` where the
 * machine has none
 */
export function probeSupport(arch: Arch): ProbeSupport {
  if (arch.probes.kind === 'none') {
    throw refusalError(refuse('EOPNOTSUPP', 'not-served', 'K-ADDR-8', arch.probes.reason));
  }
  return arch.probes;
}

/** A refusal as an error, for callers that cannot go on. */
export function refusalError(refusal: ProbeRefusal, context: ErrorContext = {}): ElftraceError {
  const { code, errno, rule, reason } = refusal;
  return new ElftraceError('probe-refused', `${reason} (${code}, ${errno}) [${rule}]`, {
    ...context,
    reason: code,
    errno,
    rule,
  });
}

/** The code of an image as probes see it. */
export class ProbeText {
  private readonly codes = new Map<string, ProbeCode>();
  private marks: readonly Marked[] | undefined;
  /** Bytes of the longest of them. */
  private longest: bigint | undefined;
  private forbidden: readonly Marked[] | undefined;
  private list: { readonly addresses: readonly Address[] | null } | undefined;
  /** By range: places that symbols name, and the end. */
  private named: readonly (readonly Address[])[] | undefined;
  private ranked: ReadonlyMap<number, readonly number[]> | undefined;

  /**
   * @param sites    of the image; null: it is taken to have none
   * @param support  default: the machine's
   */
  constructor(
    readonly program: Program,
    readonly sites: Sites | null,
    readonly support: ProbeSupport = probeSupport(program.arch),
  ) {}

  private sectionOf(range: CodeRange): number {
    return this.program.relocatable ? range.section : -1;
  }

  // --------------------------------------------------------------------------------------- symbols

  /** Symbols of a name that are code, of a module if one is named. */
  private find(name: string, module: string | null): number {
    const { program } = this;
    const { symbols } = program;
    if (module === null) return Math.max(symbols.find(name), symbols.find(`.${name}`));
    for (let i = 1; i < symbols.count; i++) {
      if (symbols.sectionIndex[i] === 0 || symbols.name(i) !== name) continue;
      const place = program.functions.placeOf(i);
      if (place !== undefined && program.partOf(place.value)?.name === module) return i;
    }
    return -1;
  }

  /** Address of a symbol of any kind, for `@SYM`. */
  symbolAddress(name: string): Address | null {
    const { symbols } = this.program;
    const index = symbols.find(name);
    return index > 0 && symbols.sectionIndex[index] !== 0 ? symbols.value[index]! : null;
  }

  /** The function around a place; null: no symbol covers it. */
  code(range: CodeRange, address: Address): ProbeCode | null {
    const { program } = this;
    const symbol = program.functionAt(range, address);
    const place = symbol < 0 ? undefined : program.functions.placeOf(symbol);
    if (place === undefined) return null;
    const key = `${range.index}:${place.value}`;
    const known = this.codes.get(key);
    if (known) return known;
    const limit = range.address + BigInt(range.bytes.length);
    const named = program.functions.endOf(symbol) ?? limit;
    const end = named < limit ? named : limit;
    const section = this.sectionOf(range);
    const sites = this.sitesIn(range, place.value, end);
    const made: ProbeCode = {
      name: program.symbolName(symbol),
      start: place.value,
      bytes: range.bytes.subarray(Number(place.value - range.address), Number(end - range.address)),
      sizeKnown: program.symbols.size[symbol]! > 0n,
      localEntry: program.arch.abi.localEntryOffset(program.symbols.other[symbol]!),
      isEntryText: this.forbiddenAt(section, place.value)?.what === 'entry code',
      hasException: (from, to) => this.marked(section, from, to).some(({ what }) => what === EXCEPTION),
      otherPatch: (from, to) =>
        sites.some((site) => site.start < to && from < site.start + BigInt(site.sizeBytes))
          ? 'an ftrace site'
          : sites.some(({ read }) => read !== null && read.start < to && from < read.end)
            ? 'what the entry of the ftrace site behind it reads'
            : (this.marked(section, from, to).find(({ what }) => what !== EXCEPTION)?.what ?? null),
      siteAt: (at) => sites.find(({ start, sizeBytes }) => at >= start && at < start + BigInt(sizeBytes)) ?? null,
      hasRelocation: (from, to) => this.relocated(range, from, to),
      wayInto: (from, to) => this.waysIn?.inside(range, from, to) ?? null,
      noJumpTables: this.noJumpTables,
    };
    this.codes.set(key, made);
    return made;
  }

  private sitesIn(range: CodeRange, start: Address, end: Address): readonly SiteRange[] {
    const { sites } = this;
    const found: SiteRange[] = [];
    if (sites === null) return found;
    const ranked = this.sitesByPlace(sites).get(range.index) ?? [];
    // A site owns bytes in front of its anchor on some machines: names of ops, pads.
    const from = firstFrom(ranked, (each) => sites.anchor[each]! < start - 64n);
    for (let rank = from; rank < ranked.length; rank++) {
      const i = ranked[rank]!;
      if (sites.anchor[i]! >= end) break;
      const reading = sites.reading(i);
      if (reading === null) continue;
      const from = sites.anchor[i]! + BigInt(reading.startDelta);
      const { readByEntry } = reading.shape;
      const own = readByEntry === undefined ? null : lookBack(readByEntry, sites.viewOf(i));
      const at = sites.anchor[i]! + BigInt(own?.delta ?? 0);
      const read = own === null ? null : { start: at, end: at + BigInt(own.sizeBytes) };
      found.push({ index: i, ip: sites.ip(i), start: from, sizeBytes: reading.sizeBytes, read });
    }
    return found;
  }

  /** Sites of each range by their anchors: the order of the table need not be that of the code. */
  private sitesByPlace(sites: Sites): ReadonlyMap<number, readonly number[]> {
    if (this.ranked !== undefined) return this.ranked;
    const byRange = new Map<number, number[]>();
    for (let i = 0; i < sites.count; i++) {
      const ranked = byRange.get(sites.range[i]!) ?? [];
      ranked.push(i);
      byRange.set(sites.range[i]!, ranked);
    }
    const order = (a: number, b: number): number =>
      sites.anchor[a]! < sites.anchor[b]! ? -1 : sites.anchor[a]! > sites.anchor[b]! ? 1 : a - b;
    for (const ranked of byRange.values()) ranked.sort(order);
    return (this.ranked = byRange);
  }

  /** What leads where in the image; null where no window has a middle. */
  private get waysIn(): WaysIn | null {
    const { program, support } = this;
    const { optimization } = support;
    if (optimization.kind === 'none' || optimization.sweep === null) return null;
    const sweep = optimization.sweep((name) => this.symbolAddress(name));
    return program.derived('ways-in', () => new WaysIn(program, sweep));
  }

  private get noJumpTables(): boolean {
    const { image } = this.program;
    // Modules may be built otherwise than what they are loaded into.
    if (this.program.loadMap !== null) return false;
    if (image.section('.retpoline_sites')) return true;
    return moduleInfo(image, 'retpoline') === 'Y';
  }

  /**
   * A relocation that a loader or linker still applies writes there: of relocatable files, and
   * dynamic ones. What a linker kept is done.
   */
  private relocated(range: CodeRange, start: Address, end: Address): boolean {
    const { program } = this;
    const placed = program.relocatable ? program.relocationsOf(range.section) : program.dynamicRelocations;
    // No field has more than 8 bytes.
    for (let rank = placed.from(start - 8n); rank < placed.count; rank++) {
      const at = BigInt(placed.offset[rank]!);
      if (at >= end) return false;
      const rows = placed.tables[placed.table[rank]!]!;
      const rule = program.arch.relocations.get(rows.type[placed.row[rank]!]!);
      const writes = rule === undefined || (rule.rule !== 'none' && rule.field.slices.length > 0);
      if (writes && at + BigInt(rule?.field.sizeBytes ?? 8) > start) return true;
    }
    return false;
  }

  // ----------------------------------------------------------------------------------------- marks

  /** Places in [start, end) that tables of other mechanisms name. */
  private marked(section: SectionIndex, start: Address, end: Address): readonly Marked[] {
    // In the order of sections and places.
    this.marks ??= otherRanges(this.program)
      .list.filter(({ kind }) => kind === 'patched' || this.program.relocatable)
      .map((each) => ({ ...each, start: each.offset }));
    const { marks } = this;
    this.longest ??= marks.reduce((most, each) => (each.end - each.start > most ? each.end - each.start : most), 0n);
    const found: Marked[] = [];
    const from = start - this.longest;
    for (let rank = firstFrom(marks, (each) => isInFront(each, section, from)); rank < marks.length; rank++) {
      const each = marks[rank]!;
      if (!isInFront(each, section, end)) break;
      if (start < each.end) found.push(each);
    }
    return found;
  }

  private forbiddenAt(section: SectionIndex, address: Address): Marked | undefined {
    this.forbidden ??= [...this.forbiddenSections(), ...this.blacklisted()];
    return this.forbidden.find((each) => each.section === section && address >= each.start && address < each.end);
  }

  private forbiddenSections(): Marked[] {
    const { program } = this;
    const found: Marked[] = [];
    const whole = (range: CodeRange, what: string): void => {
      const section = this.sectionOf(range);
      found.push({ section, start: range.address, end: range.address + BigInt(range.bytes.length), what });
    };
    for (const range of program.code) {
      const rule = FORBIDDEN_TEXT.find(([name]) => range.name === name);
      if (rule) whole(range, rule[3]);
      if (isOwn(range.name)) whole(range, 'code of elftrace');
    }
    if (program.relocatable) return found;
    for (const [, first, last, what] of FORBIDDEN_TEXT) {
      const start = this.symbolAddress(first);
      const end = this.symbolAddress(last);
      if (start !== null && end !== null && end > start) found.push({ section: -1, start, end, what });
    }
    for (const part of program.loadMap?.parts ?? []) {
      if (part.kind !== 'runtime') continue;
      for (const { start, end } of part.ranges) found.push({ section: -1, start, end, what: 'code of elftrace' });
    }
    return found;
  }

  /** What a kernel that starts writes into a word (M-TAB-2); 0: nothing. */
  private relativeAt(address: Address): Address {
    const { arch, dynamicRelocations: rows } = this.program;
    const rank = rows.at(address);
    if (rank < 0) return 0n;
    const table = rows.tables[rows.table[rank]!]!;
    const row = rows.row[rank]!;
    const isWhole = table.addends === 'row' && table.type[row] === arch.relocationRoles.relative;
    return isWhole ? BigInt.asUintN(8 * arch.target.wordBytes, table.addend[row]!) : 0n;
  }

  /**
   * What the list of a linked kernel names, between two symbols, in its words or in what is written
   * there when it starts; null where it has none.
   */
  private get linkedBlacklist(): readonly Address[] | null {
    return (this.list ??= { addresses: this.readBlacklist() }).addresses;
  }

  private readBlacklist(): readonly Address[] | null {
    const { program } = this;
    const start = this.symbolAddress('__start_kprobe_blacklist');
    const stop = this.symbolAddress('__stop_kprobe_blacklist');
    if (program.relocatable || start === null || stop === null || stop < start) return null;
    const { image } = program;
    const [from, size] = [image.fileOffsetOf(start), Number(stop - start)];
    if (from < 0 || from + size > image.bytes.length) return null;
    const view = new ByteView(image.bytes, image.header.endian, BLACKLIST);
    const found: Address[] = [];
    for (let at = from; at < from + size; at += image.wordBytes) {
      const word = view.word(at, image.wordBytes);
      found.push(word === 0n ? this.relativeAt(start + BigInt(at - from)) : word);
    }
    return found.every((address) => program.codeAt(address) !== undefined) ? found : null;
  }

  /**
   * False for a kernel whose list of functions that no probe may be in cannot be read: a place that
   * seems valid may be one of them.
   */
  get knowsBlacklist(): boolean {
    const { program } = this;
    const isKernel = !program.relocatable && this.symbolAddress('__start_mcount_loc') !== null;
    return !isKernel || this.linkedBlacklist !== null;
  }

  /** The next place behind `value` that a symbol names, or the end of the range. */
  private nextSymbol(range: CodeRange, value: Address): Address {
    const { program } = this;
    this.named ??= program.code.map(({ section, address, bytes }) => {
      const end = address + BigInt(bytes.length);
      const { count, sectionIndex, value: values } = program.symbols;
      const places = new Set([end]);
      for (let i = 1; i < count; i++) {
        const isHere = program.relocatable ? sectionIndex[i] === section : sectionIndex[i] !== 0;
        // Mapping symbols and labels of compilers are none of the kernel's.
        if (isHere && values[i]! >= address && values[i]! < end && !/^(?:\$|\.L|$)/.test(program.symbols.name(i)))
          places.add(values[i]!);
      }
      return [...places].sort((a, b) => (a < b ? -1 : 1));
    });
    const places = this.named[range.index] ?? [];
    return places[firstFrom(places, (each) => each <= value)] ?? range.address + BigInt(range.bytes.length);
  }

  /** Functions that `_kprobe_blacklist` names. */
  private blacklisted(): Marked[] {
    const { program } = this;
    const { image } = program;
    const found: Marked[] = [];
    // As a kernel takes it: from the place that is named to the next symbol of any kind.
    const add = (section: SectionIndex, value: Address): void => {
      const range = program.relocatable ? program.codeOfSection(section) : program.codeAt(value);
      if (!range) return;
      const end = this.nextSymbol(range, value);
      found.push({ section: this.sectionOf(range), start: value, end, what: `listed in ${BLACKLIST}` });
    };
    for (const address of this.linkedBlacklist ?? []) add(-1, address);
    for (const section of image.sections) {
      if (section.name !== BLACKLIST) continue;
      if (!program.relocatable) {
        const bytes = image.contents(section);
        const view = new ByteView(bytes, image.header.endian, BLACKLIST);
        for (let at = 0; at + image.wordBytes <= bytes.length; at += image.wordBytes)
          add(-1, view.word(at, image.wordBytes));
        continue;
      }
      for (const table of image.relocationsOf(section)) {
        for (let row = 0; row < table.count; row++) {
          const symbol = table.symbol[row]!;
          if (!table.symbols) continue;
          add(table.symbols.sectionIndex[symbol]!, table.symbols.value[symbol]! + table.addend[row]!);
        }
      }
    }
    return found;
  }

  // ---------------------------------------------------------------------------------------- checks

  /** K-ADDR-1 to 5 and 7. */
  validate(where: ProbeWhere): ValidProbe | ProbeRefusal {
    const { program } = this;
    let range: CodeRange | undefined;
    let address: Address;
    if (where.kind === 'symbol') {
      const { name, module, offset } = where;
      const symbol = this.find(name, module);
      const shown = module === null ? name : `${module}:${name}`;
      if (symbol <= 0 || program.symbols.sectionIndex[symbol] === 0) {
        return refuse('ENOENT', 'no-symbol', 'K-ADDR-1', `no symbol ${shown}`);
      }
      const place = program.functions.placeOf(symbol);
      if (place === undefined) return refuse('EINVAL', 'not-text', 'K-ADDR-2', `${shown} is no function`);
      range = program.relocatable ? program.codeOfSection(place.section) : program.codeAt(place.value);
      address = place.value + offset;
      if (offset === 0n && range !== undefined) address = this.siteOf(range, address);
    } else {
      if (program.relocatable) {
        return refuse('EINVAL', 'not-text', 'K-ADDR-2', 'a relocatable file has no addresses: name a symbol');
      }
      ({ address } = where);
      range = program.codeAt(address);
    }
    if (range === undefined || address < range.address || address >= range.address + BigInt(range.bytes.length)) {
      return refuse('EINVAL', 'not-text', 'K-ADDR-2', `${hex(address)} is not in text`);
    }
    return this.validateAt(range, address);
  }

  /**
   * A symbol alone means the site that its function begins with, where the head of the site cannot
   * be probed (empty words of PowerPC, `mov x9,x30`): otherwise such functions would have no entry
   * to name. Addresses stay what they are.
   */
  private siteOf(range: CodeRange, address: Address): Address {
    const { support } = this;
    const code = this.code(range, address);
    const site = code?.siteAt(address) ?? null;
    if (code === null || site === null || site.ip === address || support.isSiteHeadCode?.(code, address))
      return address;
    return support.isSiteAtEntry?.(code, site.ip) === true ? site.ip : address;
  }

  /** The same for an address of a range. */
  validateAt(range: CodeRange, asked: Address): ValidProbe | ProbeRefusal {
    const { support } = this;
    const section = this.sectionOf(range);
    const code = this.code(range, asked);
    if (code === null) return refuse('ENOENT', 'no-symbol', 'K-ADDR-1', `no symbol covers ${hex(asked)}`);
    const address = support.adjust(code, asked);
    const shown = (): string => `${code.name}+${hex(address - code.start)}`;
    const part = this.program.partOf(asked);
    if (part?.kind === 'module' && range.name.startsWith('.init')) {
      return refuse('ENOENT', 'init-text', 'K-ADDR-2', `${shown()} is init code of a module that is loaded`);
    }
    const refusal = this.blacklist(code, section, address, shown);
    if (refusal) return refusal;
    const valid = {
      kind: 'valid' as const,
      address,
      range,
      code,
      symbol: code.name,
      offset: Number(address - code.start),
    };
    const site = code.siteAt(address);
    if (site !== null && site.ip !== address && !support.isSiteHeadCode?.(code, address)) {
      // On machines of one-instruction sites this is no boundary, and the machine says so.
      const decoded = support.decode(code, address);
      if (decoded.kind === 'refused') return decoded;
      return refuse('EINVAL', 'inside-site', 'K-ADDR-7', `${shown()} is inside an ftrace site`);
    }
    const instruction = support.decode(code, address);
    if (instruction.kind === 'refused') return instruction;
    const other = site !== null ? null : code.otherPatch(address, address + BigInt(instruction.bytes.length));
    if (other !== null) return refuse('EINVAL', 'other-patch', 'K-ADDR-3', `${shown()} is ${other}`);
    if (site === null && code.hasRelocation(address, address + BigInt(instruction.bytes.length))) {
      const who = this.program.relocatable ? 'load the file first' : 'the dynamic linker writes it';
      const reason = `a relocation of ${shown()} is still to be applied: ${who}`;
      return refuse('EINVAL', 'relocation', 'K-REL-1', reason);
    }
    const atEntry =
      address === code.start ||
      address === support.adjust(code, code.start) ||
      support.isSiteAtEntry?.(code, address) === true;
    const index =
      site === null
        ? null
        : (this.sitesIn(range, site.start, site.start + BigInt(site.sizeBytes)).find((each) => each.ip === address)
            ?.index ?? null);
    return { ...valid, instruction, site: index, atEntry };
  }

  /** K-ADDR-3. */
  private blacklist(
    code: ProbeCode,
    section: SectionIndex,
    address: Address,
    shown: () => string,
  ): ProbeRefusal | null {
    const no = (why: string): ProbeRefusal => refuse('EINVAL', 'blacklisted', 'K-ADDR-3', `${shown()}: ${why}`);
    const { name } = code;
    if (name.startsWith('__cfi_') || name.startsWith('__pfx_'))
      return no('what is in front of a function is not code of it');
    const here = this.forbiddenAt(section, address);
    if (here) return no(here.what);
    // `foo.isra.0` goes where foo goes.
    const base = /^([^.]+)\../.exec(name)?.[1];
    if (base === undefined) return null;
    const symbol = this.find(base, null);
    const place = symbol > 0 ? this.program.functions.placeOf(symbol) : undefined;
    const of =
      place === undefined ? undefined : this.forbiddenAt(this.program.relocatable ? place.section : -1, place.value);
    return of ? no(`${base}: ${of.what}`) : null;
  }
}

interface SiteRange {
  readonly index: number;
  readonly ip: Address;
  readonly start: Address;
  readonly sizeBytes: number;
  /** What the entry of the site reads in front of it. */
  readonly read: { readonly start: Address; readonly end: Address } | null;
}
