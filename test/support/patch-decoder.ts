/**
 * A second reader of the tables in which kernel modules keep places that something else than ftrace
 * patches, and of ftrace's own: made of what readelf prints, with the formats written down once
 * more from the kernel's headers. It knows nothing of the product, so the two can be held against
 * each other.
 */
import { readFileSync } from 'node:fs';
import { readelfHeader, readelfRelocations, readelfSections, readelfSymbols, type ReadelfSymbol } from './readelf.js';

export interface DecodedRange {
  readonly table: string;
  /** Section number and offset. */
  readonly section: number;
  readonly start: number;
  /** Behind the last byte; one behind `start` where the table does not say. */
  readonly end: number;
}

interface Row {
  readonly at: number;
  readonly type: number;
  readonly section: number;
  /** S + A. */
  readonly value: number;
}

interface Table {
  readonly bytes: Buffer;
  readonly rows: readonly Row[];
  readonly index: number;
  readonly size: number;
}

/** R_RISCV_ADD8/16/32/64 and R_RISCV_SUB8/16/32/64; types by which a word is an address. */
const riscvAdd = [33, 34, 35, 36];
const riscvSub = [37, 38, 39, 40];

class Module {
  readonly machine: string;
  readonly wide: boolean;
  private readonly little: boolean;
  private readonly bytes: Buffer;
  private readonly sections: ReturnType<typeof readelfSections>;
  private readonly symbols: readonly ReadelfSymbol[];
  private readonly relocations: ReturnType<typeof readelfRelocations>;

  constructor(file: string) {
    const header = readelfHeader(file);
    this.machine = header.get('Machine') ?? '';
    this.wide = (header.get('Class') ?? '').includes('64');
    this.little = (header.get('Data') ?? '').includes('little');
    this.bytes = readFileSync(file);
    this.sections = readelfSections(file);
    this.symbols = readelfSymbols(file).get('.symtab') ?? [];
    this.relocations = readelfRelocations(file);
  }

  tables(name: string): Table[] {
    return this.sections
      .filter((section) => section.name === name && section.size > 0)
      .map(({ index, offset, size }) => ({
        bytes: this.bytes.subarray(offset, offset + size),
        index,
        size,
        rows: this.rowsOf(index),
      }));
  }

  private rowsOf(section: number): Row[] {
    const own = this.sections.filter((each) => each.name.startsWith('.rela') && each.info === section);
    return own
      .flatMap(({ offset }) => this.relocations.get(offset) ?? [])
      .map(({ offset, info, addend }) => {
        const symbol = this.symbols[Number(this.wide ? info >> 32n : info >> 8n)]!;
        return {
          at: Number(offset),
          type: Number(this.wide ? info & 0xffff_ffffn : info & 0xffn),
          section: /^\d+$/.test(symbol.section) ? Number(symbol.section) : 0,
          value: Number(BigInt.asIntN(64, symbol.value + (addend ?? 0n))),
        };
      });
  }

  isCode(section: number): boolean {
    return this.sections[section]?.flags.includes('X') === true;
  }

  code(section: number, at: number): Buffer {
    const { offset, size } = this.sections[section]!;
    return this.bytes.subarray(offset + at, offset + size);
  }

  /**
   * What a relative field leads to: the kernel adds its value to `base`, an offset in the table.
   */
  leadsTo({ rows, index }: Table, at: number, base: number): { section: number; value: number } {
    const here = rows.filter((row) => row.at === at);
    if (riscvAdd.includes(here[0]!.type)) {
      const [add, sub] = [
        here.find(({ type }) => riscvAdd.includes(type))!,
        here.find(({ type }) => riscvSub.includes(type))!,
      ];
      if (sub.section !== index) throw new Error('a distance from another section');
      return { section: add.section, value: add.value - sub.value + base };
    }
    // S + A - P is stored, P being the field.
    return { section: here[0]!.section, value: here[0]!.value - at + base };
  }

  difference({ rows }: Table, at: number): number {
    const here = rows.filter((row) => row.at === at);
    return here.reduce((sum, { type, value }) => sum + (riscvAdd.includes(type) ? value : -value), 0);
  }

  u16(bytes: Buffer, at: number): number {
    return this.little ? bytes.readUInt16LE(at) : bytes.readUInt16BE(at);
  }
}

/**
 * struct jump_entry, exception_table_entry, bug_entry, static_call_site: a 32-bit distance from
 * itself to one instruction.
 */
function instructions(module: Module, name: string, strides: readonly number[]): DecodedRange[] {
  return module.tables(name).flatMap((table) => {
    const first = new Set(table.rows.filter(({ section }) => module.isCode(section)).map(({ at }) => at));
    const stride = strides.find((each) => table.size % each === 0 && allAt(table, each, first));
    if (stride === undefined) throw new Error(`${name}: ${table.size} bytes in no known form`);
    const found: DecodedRange[] = [];
    for (let at = 0; at < table.size; at += stride) {
      const { section, value } = module.leadsTo(table, at, at);
      found.push({ table: name, section, start: value, end: value + 1 });
    }
    return found;
  });
}

function allAt({ size }: Table, stride: number, filled: ReadonlySet<number>): boolean {
  for (let at = 0; at < size; at += stride) if (!filled.has(at)) return false;
  return true;
}

/** struct alt_instr of x86 and arm64, alt_entry of RISC-V. */
function alternatives(module: Module): DecodedRange[] {
  const found: DecodedRange[] = [];
  const add = (table: Table, name: string, stride: number, length: (at: number) => number): void => {
    for (let at = 0; at < table.size; at += stride) {
      const { section, value } = module.leadsTo(table, at, at);
      found.push({ table: name, section, start: value, end: value + length(at) });
    }
  };
  for (const table of module.tables('.altinstructions')) {
    const filled = new Set(table.rows.map(({ at }) => at));
    const strides = module.machine.includes('AArch64') ? [12] : [14, 12];
    const stride = strides.find((each) => table.size % each === 0 && allAt(table, each, filled))!;
    add(table, '.altinstructions', stride, (at) => table.bytes[at + stride - 2]!);
  }
  for (const table of module.tables('.alternative')) {
    add(table, '.alternative', 16, (at) => {
      const stored = module.u16(table.bytes, at + 10);
      return stored === 0 ? module.difference(table, at + 10) : stored;
    });
  }
  return found;
}

/** struct paravirt_patch_site: an address, a type, a length. */
function paravirtual(module: Module): DecodedRange[] {
  return module.tables('.parainstructions').flatMap(({ rows, bytes }) =>
    rows.map(({ at, section, value }) => ({
      table: '.parainstructions',
      section,
      start: value,
      end: value + bytes[at + 9]!,
    })),
  );
}

/**
 * struct fixup_entry of PowerPC: six words, four of them distances from the entry; and the lists of
 * one such distance each.
 */
function fixups(module: Module): DecodedRange[] {
  const word = module.wide ? 8 : 4;
  const whole = ['__ftr_fixup', '__mmu_ftr_fixup', '__fw_ftr_fixup'].flatMap((name) =>
    module.tables(name).flatMap((table) => {
      const found: DecodedRange[] = [];
      for (let entry = 0; entry < table.size; entry += 6 * word) {
        const from = module.leadsTo(table, entry + 2 * word, entry);
        const to = module.leadsTo(table, entry + 3 * word, entry);
        found.push({ table: name, section: from.section, start: from.value, end: to.value });
      }
      return found;
    }),
  );
  const single = ['__lwsync_fixup', '__barrier_nospec_fixup', '__spec_barrier_fixup'].flatMap((name) =>
    module.tables(name).flatMap((table) => {
      const found: DecodedRange[] = [];
      for (let at = 0; at < table.size; at += word) {
        const { section, value } = module.leadsTo(table, at, at);
        found.push({ table: name, section, start: value, end: value + 4 });
      }
      return found;
    }),
  );
  return [...whole, ...single];
}

/** Everything that some other mechanism patches or knows, in the order of its tables. */
export function decodeRanges(file: string): DecodedRange[] {
  const module = new Module(file);
  const power = module.machine.includes('PowerPC');
  return [
    ...instructions(module, '__jump_table', power && !module.wide ? [12] : [16]),
    ...instructions(module, '__ex_table', power ? [8] : [12]),
    ...instructions(module, '__bug_table', module.machine.includes('X86') ? [8, 12, 16] : [8, 12]),
    ...instructions(module, '.static_call_sites', [8]),
    ...alternatives(module),
    ...paravirtual(module),
    ...fixups(module),
  ];
}

/**
 * First byte of each site by ftrace's own table, and of how many bytes from there a tracer makes
 * use.
 */
function decodeSites(file: string): DecodedRange[] {
  const module = new Module(file);
  const calls = module.tables('__mcount_loc');
  const tables = calls.length > 0 ? calls : module.tables('__patchable_function_entries');
  const size = calls.length === 0 ? 8 : module.machine.includes('X86') ? 5 : 4;
  return tables.flatMap(({ rows }) =>
    rows
      .filter(({ section }) => section > 0)
      .map(({ section, value }) => {
        // Nops in front of a function are not the place that is patched; those of =4,2 and =8,4
        // make room for a pointer: four words in all.
        const code = module.code(section, value);
        const four =
          size === 8 &&
          !module.machine.includes('PowerPC') &&
          code.subarray(0, 16).equals(Buffer.concat([code.subarray(0, 8), code.subarray(0, 8)]));
        return { table: 'sites', section, start: value, end: value + (four ? 16 : size) };
      }),
  );
}

/** Sites that something else patches as well, as `section+offset table`. */
export function confirmedOverlaps(file: string, ranges: readonly DecodedRange[] = decodeRanges(file)): string[] {
  return decodeSites(file).flatMap((site) =>
    ranges
      .filter(({ section, start, end }) => section === site.section && start < site.end && site.start < end)
      .map(({ table }) => `${site.section}+${site.start} ${table}`),
  );
}
