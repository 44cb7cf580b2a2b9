/**
 * What the code of a linked program refers to: functions that it branches to, whose address it
 * computes or loads, and system calls that it makes by number. Owns the walk over the code, with
 * the constants that straight-line code computes; which functions matter, and why, is the caller's
 * business.
 *
 * Code is walked from function to function, one instruction behind the other, with what is known of
 * the registers: an address that is put together from pieces (`adrp` and `add`, `auipc` and `addi`,
 * `lis` and `addi`, an entry of the TOC or GOT) is known when its last piece is there. Branches are
 * not followed and calls change nothing: what is known too long can only name a reference that is
 * none.
 */
import type { Arch } from '../machine/arch.js';
import * as elf from '../elf/constants.js';
import type { CodeRange, Program } from '../program/program.js';
import { inPlaceAddend, isDynamic } from '../relocs/read.js';
import type { Address } from '../units.js';

type Emulation = Extract<Arch['emulation'], { readonly kind: 'ir' }>;
type Block = ReturnType<Emulation['lifter']['lift']>;
type Op = Block['ops'][number];

/** What is looked for. */
export interface Wanted {
  /** Names of functions, without the dot of ELFv1. */
  readonly isWanted: (name: string) => boolean;
  /** Numbers of system calls, with the name that a reference gets. */
  readonly systemCalls: ReadonlyMap<bigint, string>;
}

export interface Reference {
  /** `import`: the dynamic linker binds it; `data`: a word of a table holds the address. */
  readonly kind: 'call' | 'address' | 'system-call' | 'data' | 'import';
  /** What is referred to. */
  readonly name: string;
  /** Of the instruction or word; null for an import of which no use was found. */
  readonly address: Address | null;
  readonly section: string;
}

/**
 * Sections whose words name places to which no code goes because of them, and those that the linker
 * makes for references of code.
 */
const LINKER_MADE =
  /^\.(eh_frame|gcc_except_table|rela?\.|dyn|gnu\.|hash|symtab|strtab|opd$|got|plt|iplt|toc|branch_lt|note|interp|elftrace|debug)|^(__mcount_loc|__patchable_function_entries)/;

const MASK64 = (1n << 64n) - 1n;
const low = (value: bigint): bigint => value & 0xffff_ffffn;
const signed = (value: bigint): bigint => BigInt.asUintN(64, BigInt.asIntN(32, value));

/** Results of the ops that put addresses and numbers together; others make an unknown value. */
const EVALUATE: Readonly<Record<string, (a: bigint, b: bigint) => bigint>> = {
  mov: (a) => a,
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
  shl: (a, b) => a << (b & 63n),
  shr: (a, b) => a >> (b & 63n),
  sar: (a, b) => BigInt.asIntN(64, a) >> (b & 63n),
  addsh1: (a, b) => a + (b << 1n),
  addsh2: (a, b) => a + (b << 2n),
  addsh3: (a, b) => a + (b << 3n),
  add32: (a, b) => low(a + b),
  sub32: (a, b) => low(a - b),
  and32: (a, b) => low(a & b),
  or32: (a, b) => low(a | b),
  xor32: (a, b) => low(a ^ b),
  shl32: (a, b) => low(a << (b & 31n)),
  shr32: (a, b) => low(a) >> (b & 31n),
  add32s: (a, b) => signed(a + b),
  sub32s: (a, b) => signed(a - b),
  shl32s: (a, b) => signed(a << (b & 31n)),
  sx16: (a) => BigInt.asIntN(16, a),
  sx32: (a) => signed(a),
  zx16: (a) => a & 0xffffn,
  zx32: (a) => low(a),
};

/** Loads of whole words; `lds`: the word is sign-extended. */
const LOADS: Readonly<Record<string, 4 | 8>> = { ld64: 8, ld64be: 8, ld32u: 4, ld32ube: 4, ld32s: 4, ld32sbe: 4 };

/** Blocks are lifted in pieces: state is kept from one to the next. */
const PIECE = 64;
/** What a slot of the function that makes system calls by number holds until it is bound. */
const SYSCALL = MASK64;
/** Instructions of a linker's stub. */
const STUB = 8;
const MAX_INSTRUCTION_BYTES = 16;

/** Of several names of a place the shortest, which is the one that programs use. */
function nameAt(names: Map<Address, string>, address: Address, name: string): void {
  const known = names.get(address);
  if (known === undefined || name.length < known.length) names.set(address, name);
}

class Walk {
  readonly found: Reference[] = [];
  /** Text addresses of wanted functions, local entries included. */
  private readonly code = new Map<Address, string>();
  /** What a word that points to one holds: its descriptor, where functions have one. */
  private readonly pointers = new Map<Address, string>();
  /** Words that the dynamic linker fills with one. */
  private readonly slots = new Map<Address, string>();
  private readonly stubs = new Map<Address, string | null>();
  /** Where stubs end that lead to a wanted function. */
  private readonly stubEnds = new Map<Address, Address>();
  /** Pointer words that code was seen to load. */
  private readonly loaded = new Set<Address>();
  private readonly imported = new Set<string>();
  private known = new Map<number, bigint>();
  private readonly lifter: Emulation['lifter'];
  private readonly number: number;
  private readonly firstArgument: number;
  private readonly toc: number | null;

  constructor(
    private readonly program: Program,
    emulation: Emulation,
    private readonly wanted: Wanted,
  ) {
    const { abi, target } = program.arch;
    this.lifter = emulation.lifter;
    this.number = this.lifter.slots.slot(abi.syscall.number);
    this.firstArgument = this.lifter.slots.slot(abi.argumentRegisters[0]!);
    this.toc =
      program.toc !== null && target.wordBytes === 8 && this.lifter.slots.has('r2')
        ? this.lifter.slots.slot('r2')
        : null;
    this.code.set(SYSCALL, 'syscall');
    this.readSymbols();
    this.readSlots();
  }

  private readSymbols(): void {
    const { program } = this;
    const { symbols } = program;
    for (let i = 1; i < symbols.count; i++) {
      const type = symbols.info[i]! & 15;
      if (type !== elf.STT_FUNC && type !== elf.STT_NOTYPE && type !== elf.STT_GNU_IFUNC) continue;
      if (symbols.sectionIndex[i] === elf.SHN_UNDEF) continue;
      const name = symbols.name(i).replace(/^\./, '');
      if (!this.wanted.isWanted(name) && name !== 'syscall') continue;
      const code = program.definedAt(i);
      if (code === null || !program.codeAt(code)) continue;
      nameAt(this.code, code, name);
      const local = program.arch.abi.localEntryOffset(symbols.other[i]!);
      if (local > 0) nameAt(this.code, code + BigInt(local), name);
      if (name !== 'syscall') nameAt(this.pointers, symbols.value[i]!, name);
    }
  }

  private readSlots(): void {
    const { program } = this;
    const { image, arch } = program;
    const { relative } = arch.relocationRoles;
    for (const table of image.relocations) {
      if (!isDynamic(image, table) || table.form === 'relr') continue;
      for (let row = 0; row < table.count; row++) {
        const symbol = table.symbol[row]!;
        if (symbol !== 0 && table.symbols !== null) {
          const name = table.symbols.name(symbol);
          if (this.wanted.isWanted(name) || name === 'syscall') this.slots.set(table.offset[row]!, name);
        } else if (table.type[row] === relative) {
          const addend =
            table.addends === 'row' ? table.addend[row]! : inPlaceAddend(image, table, row, arch.target.wordBytes);
          const name = this.pointers.get(addend) ?? this.wantedCode(addend);
          if (name !== undefined) this.slots.set(table.offset[row]!, name);
        }
      }
    }
    const { dynamicSymbols: own } = image;
    for (let i = 1; i < own.count; i++) {
      if (own.sectionIndex[i] === elf.SHN_UNDEF && this.wanted.isWanted(own.name(i))) this.imported.add(own.name(i));
    }
  }

  private wantedCode(address: Address): string | undefined {
    const name = this.code.get(address);
    return name === 'syscall' ? undefined : name;
  }

  /** All references, in ascending order of address; imports without a known use come last. */
  run(): readonly Reference[] {
    for (const range of this.program.code) {
      if (!range.name.startsWith('.elftrace.') && !/^\.(i?plt|glink)/.test(range.name)) this.range(range);
    }
    this.data();
    this.leaveOutStubs();
    this.found.sort((a, b) => (a.address! < b.address! ? -1 : a.address! > b.address! ? 1 : 0));
    const named = new Set(this.found.map(({ name }) => name));
    for (const name of this.imported) {
      if (!named.has(name)) this.found.push({ kind: 'import', name, address: null, section: '' });
    }
    return this.found;
  }

  /** Stubs lie between functions: their callers were found, and they are part of no function. */
  private leaveOutStubs(): void {
    const isStub = (at: Address): boolean => [...this.stubEnds].some(([start, end]) => at >= start && at < end);
    const kept = this.found.filter(({ address }) => address === null || !isStub(address));
    this.found.splice(0, this.found.length, ...kept);
  }

  // ------------------------------------------------------------------------------------------ code

  private range(range: CodeRange): void {
    const starts = this.program.functionStarts(range);
    const bounds = [...new Set([0, ...starts])].sort((a, b) => a - b);
    bounds.forEach((start, i) => {
      this.function(range, start, bounds[i + 1] ?? range.bytes.length);
    });
  }

  private begin(): void {
    this.known = new Map();
    const { slots } = this.lifter;
    // A front end may have a slot that is always 0, as the base of plain addresses.
    if (slots.has('zero')) this.known.set(slots.slot('zero'), 0n);
    if (this.toc !== null) this.known.set(this.toc, this.program.toc!);
  }

  private function(range: CodeRange, start: number, end: number): void {
    this.begin();
    const { codeAlignBytes } = this.lifter;
    for (let at = start; at < end;) {
      const limit = range.bytes.subarray(at, Math.min(end, at + PIECE * MAX_INSTRUCTION_BYTES));
      const block = this.lifter.lift(limit, range.address + BigInt(at), {
        maxInstructions: PIECE,
        startsAt: () => false,
      });
      this.block(block, range.name);
      const next = Number(block.end - range.address);
      const isStuck = next <= at || block.terminator.kind === 'unknown' || block.terminator.kind === 'fetch';
      // What cannot be decoded is data between the code: the next instruction may begin anywhere
      // behind it.
      at = isStuck ? Math.max(next, at + codeAlignBytes) : next;
    }
  }

  private block(block: Block, section: string): void {
    for (const op of block.ops) {
      const at = block.instructions[op.at]!;
      if (/^st\d/.test(op.op)) {
        // An address that is a field of the store itself; of others the code has made it before.
        if (typeof op.c === 'bigint') this.address(op.c, at, section);
        continue;
      }
      const value = this.evaluate(op, section, at);
      if (value === undefined) {
        this.known.delete(op.d);
        if (op.d === this.toc) this.known.set(op.d, this.program.toc!);
        continue;
      }
      this.known.set(op.d, value);
      // Where a call that does not return ends its function, it names the next one.
      const isReturn = 'ret' in block.terminator && block.terminator.ret === value;
      if (!isReturn) this.address(value, at, section);
    }
    this.leave(block, section);
  }

  /** Code has an address in hand. */
  private address(value: bigint, at: Address, section: string): void {
    const name = this.pointers.get(value) ?? this.wantedCode(value);
    if (name !== undefined) this.add('address', name, at, section);
  }

  private operand(operand: number | bigint): bigint | undefined {
    return typeof operand === 'bigint' ? operand : this.known.get(operand);
  }

  private evaluate(op: Op, section: string, at: Address): bigint | undefined {
    const a = this.operand(op.a);
    const b = this.operand(op.b);
    if (a === undefined || b === undefined) return undefined;
    const size = LOADS[op.op];
    if (size !== undefined) return this.load((a + b) & MASK64, size, section, at);
    const result = EVALUATE[op.op]?.(a, b);
    return result === undefined ? undefined : BigInt.asUintN(64, result);
  }

  /** A pointer word that never changes: the linker's tables and what is read-only. */
  private load(address: Address, size: 4 | 8, section: string, at: Address): bigint | undefined {
    const slot = this.slots.get(address);
    if (slot !== undefined) {
      this.loaded.add(address);
      if (slot === 'syscall') return SYSCALL;
      this.add('address', slot, at, section);
      return undefined;
    }
    const { image } = this.program;
    if (size !== image.wordBytes) return undefined;
    const holder = image.sectionAt(address);
    if (holder === undefined || !/^\.(got|toc|plt|data\.rel\.ro|rodata|opd)/.test(holder.name)) return undefined;
    const value = this.word(address);
    if (value !== null && this.pointers.has(value)) this.loaded.add(address);
    return value ?? undefined;
  }

  private word(address: Address): bigint | null {
    const { image, reader } = this.program;
    if (image.wordBytes === 8) return reader.u64(address);
    const value = reader.u32(address);
    return value < 0 ? null : BigInt(value >>> 0);
  }

  private leave({ terminator, instructions, end }: Block, section: string): void {
    const at = instructions.at(-1);
    if (at === undefined) return;
    switch (terminator.kind) {
      case 'jmp':
        // The end of a piece: code that falls through padding into the function behind it.
        if (terminator.pc !== end) this.branch(terminator.pc, at, section);
        break;
      case 'call':
      case 'br':
        this.branch(terminator.pc, at, section);
        break;
      case 'calli':
      case 'ind': {
        const target = this.known.get(terminator.s);
        if (target !== undefined) this.branch(target & terminator.mask, at, section);
        break;
      }
      case 'helper': {
        if (terminator.name !== 'syscall') break;
        const number = this.known.get(this.number);
        const name = number === undefined ? undefined : this.wanted.systemCalls.get(low(number));
        if (name !== undefined) this.add('system-call', name, at, section);
        break;
      }
      default:
    }
  }

  private branch(target: Address, at: Address, section: string): void {
    const name = this.code.get(target) ?? this.stub(target);
    if (name === undefined || name === null) return;
    if (name !== 'syscall') {
      this.add('call', name, at, section);
      return;
    }
    const number = this.known.get(this.firstArgument);
    const called = number === undefined ? undefined : this.wanted.systemCalls.get(low(number));
    if (called !== undefined) this.add('system-call', called, at, section);
  }

  /**
   * The wanted function that a linker's stub leads to: code without a symbol that loads its
   * address, or computes it, and goes there.
   */
  private stub(target: Address): string | null {
    const seen = this.stubs.get(target);
    if (seen !== undefined) return seen;
    this.stubs.set(target, null);
    const range = this.program.codeAt(target);
    if (range === undefined || this.program.functionAt(range, target) >= 0) return null;
    const outer = { known: this.known, found: this.found.length };
    this.begin();
    const start = Number(target - range.address);
    let name: string | null = null;
    let end = target;
    // A landing pad may be a block of its own.
    for (let at = start, left = STUB; left > 0;) {
      const bytes = range.bytes.subarray(at, at + left * MAX_INSTRUCTION_BYTES);
      if (bytes.length === 0) break;
      const block = this.lifter.lift(bytes, range.address + BigInt(at), {
        maxInstructions: left,
        startsAt: () => false,
      });
      for (const op of block.ops) {
        const value = this.evaluateQuietly(op);
        if (typeof value === 'string') name = value;
        if (typeof value === 'bigint') this.known.set(op.d, value);
        else this.known.delete(op.d);
      }
      const { kind } = block.terminator;
      end = block.end;
      if (kind === 'ind') {
        const address = this.known.get(block.terminator.s);
        if (address !== undefined) name ??= this.code.get(address) ?? null;
        break;
      }
      if (kind === 'jmp' && block.instructions.length > 0) {
        name ??= this.code.get(block.terminator.pc) ?? null;
        break;
      }
      const next = Number(block.end - range.address);
      if (kind === 'ret' || kind === 'unknown' || kind === 'fetch' || next <= at) {
        name = null;
        break;
      }
      left -= Math.max(1, block.instructions.length);
      at = next;
    }
    this.known = outer.known;
    this.found.length = outer.found;
    this.stubs.set(target, name);
    if (name !== null) this.stubEnds.set(target, end);
    return name;
  }

  /** As `evaluate`, in a stub: the name of what a slot will hold, where one is loaded. */
  private evaluateQuietly(op: Op): bigint | string | undefined {
    const a = this.operand(op.a);
    const b = this.operand(op.b);
    if (LOADS[op.op] !== undefined && a !== undefined && b !== undefined) {
      const slot = this.slots.get((a + b) & MASK64);
      if (slot !== undefined) return slot;
    }
    return this.evaluate(op, '', 0n);
  }

  private add(kind: Reference['kind'], name: string, address: Address, section: string): void {
    this.found.push({ kind, name, address, section });
  }

  // ------------------------------------------------------------------------------------------ data

  /**
   * Words of data that hold the address of a wanted function, and slots of the linker that no code
   * was seen to use.
   */
  private data(): void {
    const { image } = this.program;
    const size = image.wordBytes;
    for (const [address, name] of this.slots) {
      const section = image.sectionAt(address)?.name ?? '';
      if (name === 'syscall' || LINKER_MADE.test(section)) continue;
      this.add('data', name, address, section);
    }
    for (const section of image.sections) {
      const isData = section.type === elf.SHT_PROGBITS || /^\.(init|fini)_array/.test(section.name);
      if (!isData || (section.flags & elf.SHF_ALLOC) === 0n || (section.flags & elf.SHF_EXECINSTR) !== 0n) continue;
      const isLinkers = LINKER_MADE.test(section.name);
      if (isLinkers && !/^\.(got|toc)/.test(section.name)) continue;
      const first = section.address + ((BigInt(size) - (section.address % BigInt(size))) % BigInt(size));
      for (let at = first; at + BigInt(size) <= section.address + BigInt(section.size); at += BigInt(size)) {
        const value = this.word(at);
        const name = value === null ? undefined : (this.pointers.get(value) ?? this.wantedCode(value));
        if (name === undefined || this.slots.has(at) || (isLinkers && this.loaded.has(at))) continue;
        this.add('data', name, at, section.name);
      }
    }
  }
}

/**
 * References of a linked program to what is wanted, those of the wanted functions among each other
 * too.
 * @returns null where the code of the machine cannot be read
 */
export function referencesTo(program: Program, wanted: Wanted): readonly Reference[] | null {
  const { emulation } = program.arch;
  return emulation.kind === 'none' ? null : new Walk(program, emulation, wanted).run();
}
