/**
 * Relocation rows of PowerPC, 32 and 64 bits. Owns the type numbers; fields of code come from the
 * instruction rows.
 *
 * What a patcher must know of them:
 *
 * - Everything is RELA; the place's own contents never count.
 * - `REL24` (type 10 on both) lies on `bl` and `b`. On ELFv2 its value leads to the callee's
 *   *local* entry when caller and callee share a TOC. `REL24_NOTOC` is the same from code without a
 *   TOC pointer (POWER10). On 32-bit PIC code the type is `PLTREL24`, whose addend is the offset of
 *   the caller's GOT pointer in .got2 and not part of the value.
 * - Sixteen-bit types name the halfword itself: 2 bytes into the instruction on big-endian, 0 on
 *   little-endian images. `HA` is rounded because the low half is added with its sign; `HI` is not.
 * - `_DS` fields lose the two lowest bits, which belong to the opcode: values must be multiples of
 *   4.
 * - `HI`/`HA` of 64 bits check that the value fits 32 bits, `HIGH`/`HIGHA` do not; 32-bit ones
 *   never check.
 *
 * Sources: Power Architecture 32-bit ABI Supplement (2011); 64-bit PowerPC ELF ABI Supplement 1.9;
 * 64-Bit ELF V2 ABI Specification 1.5. The names are those that readelf prints.
 */
import type { FieldCodec, RelocationRow, ValuePart, ValueRule } from '../relocs/kinds.js';
import type { RelocationRoles } from '../machine/tables.js';
import { ppc32Table, ppc64Table } from './isa.js';

// Types that sites, stubs and loaders name; equal numbers on both sizes where no size is in the
// name.
const R_PPC_NONE = 0;
const R_PPC_ADDR32 = 1;
export const R_PPC_ADDR16_LO = 4;
export const R_PPC_ADDR16_HA = 6;
export const R_PPC_REL24 = 10;
export const R_PPC_PLTREL24 = 18;
const R_PPC_RELATIVE = 22;
export const R_PPC_LOCAL24PC = 23;
export const R_PPC64_REL24 = 10;
export const R_PPC64_RELATIVE = 22;
export const R_PPC64_ADDR64 = 38;
export const R_PPC64_REL24_NOTOC = 116;
export const R_PPC64_REL24_P9NOTOC = 124;

// ------------------------------------------------------------------------------------------ fields

function data(name: string, sizeBytes: 2 | 4 | 8, low = 0): FieldCodec {
  const widthBits = 8 * sizeBytes;
  return { name, sizeBytes, kind: 'data', slices: [{ high: widthBits - 1, low, at: low }], widthBits };
}

/**
 * The field of a row as a codec of the whole word, or of its low halfword where the relocation
 * names that.
 */
function code(name: string, mnemonic: string, field: string, sizeBytes: 2 | 4): FieldCodec {
  const found = ppc64Table.field(mnemonic, field);
  return { name, sizeBytes, kind: 'code', slices: found.slices, widthBits: found.widthBits };
}

const NOTHING: FieldCodec = { name: 'none', sizeBytes: 4, kind: 'data', slices: [], widthBits: 32 };
const HALF16 = code('half16', 'addi', 'si', 2);
const HALF16DS = code('half16ds', 'ld', 'ds', 2);
const LOW24 = code('low24', 'bl', 'li', 4);
const LOW14 = code('low14', 'bc', 'bd', 4);
const DX16 = code('dx16', 'addpcis', 'dx', 4);
const DATA16 = data('half16', 2);
const WORD30 = data('word30', 4, 2);
const WORD32 = data('word32', 4);
const WORD64 = data('doubleword64', 8);

/**
 * Immediate of a prefixed instruction: upper bits in the prefix, lower 16 in the suffix (the second
 * word).
 */
function prefixed(name: string, widthBits: number): FieldCodec {
  return {
    name,
    sizeBytes: 8,
    kind: 'code',
    slices: [
      { high: widthBits - 1, low: 16, at: 0 },
      { high: 15, low: 0, at: 32 },
    ],
    widthBits,
  };
}
const PREFIX34 = prefixed('prefix34', 34);
const PREFIX30 = prefixed('prefix30', 30);
const PREFIX28 = prefixed('prefix28', 28);

// -------------------------------------------------------------------------------------------- rows

type More = Partial<
  Pick<RelocationRow, 'part' | 'overflow' | 'alignBytes' | 'branch' | 'stubAllowed' | 'addendIgnored' | 'note'>
>;

/** Forms of the sixteen-bit types by the suffix of their names. */
const HALF_FORMS = {
  '': { part: 'all', ds: false },
  LO: { part: 'lo16', ds: false },
  HI: { part: 'hi16', ds: false },
  HA: { part: 'ha16', ds: false },
  HIGH: { part: 'hi16', ds: false },
  HIGHA: { part: 'ha16', ds: false },
  HIGHER: { part: 'higher16', ds: false },
  HIGHERA: { part: 'highera16', ds: false },
  HIGHEST: { part: 'highest16', ds: false },
  HIGHESTA: { part: 'highesta16', ds: false },
  DS: { part: 'all', ds: true },
  LO_DS: { part: 'lo16', ds: true },
} as const satisfies Record<string, { part: ValuePart; ds: boolean }>;
type HalfForm = keyof typeof HALF_FORMS;

class Rows {
  readonly map = new Map<number, RelocationRow>();
  constructor(
    private readonly prefix: string,
    private readonly bits: 32 | 64,
  ) {}

  add(type: number, name: string, rule: ValueRule, field: FieldCodec, more: More = {}): this {
    this.map.set(type, {
      type,
      name: `${this.prefix}${name}`,
      rule,
      part: 'all',
      field,
      overflow: 'none',
      alignBytes: 1,
      ...more,
    });
    return this;
  }

  /** A family of sixteen-bit types `${base}16`, `${base}16_LO`, …: type number by form. */
  halves(base: string, rule: ValueRule, forms: Partial<Record<HalfForm, number>>, more: More = {}): this {
    for (const form of HALF_KEYS) {
      const type = forms[form];
      if (type === undefined) continue;
      const { part, ds } = HALF_FORMS[form];
      const checked = part === 'all' || (this.bits === 64 && (form === 'HI' || form === 'HA'));
      this.add(
        type,
        `${base}${base === 'SECTOFF' ? '' : '16'}${form === '' ? '' : `_${form}`}`,
        rule,
        ds ? HALF16DS : HALF16,
        {
          part,
          overflow: checked ? 'signed' : 'none',
          alignBytes: ds ? 4 : 1,
          ...more,
        },
      );
    }
    return this;
  }

  /** Consecutive types `${base}16`, `_LO`, `_HI`, `_HA`. */
  quartet(base: string, rule: ValueRule, first: number, more: More = {}): this {
    return this.halves(base, rule, { '': first, LO: first + 1, HI: first + 2, HA: first + 3 }, more);
  }

  /** Types that are named so that they are never guessed, and never applied. */
  named(rule: 'linker' | 'tls' | 'none', types: Readonly<Record<number, string>>, field = NOTHING): this {
    for (const [type, name] of Object.entries(types)) this.add(Number(type), name, rule, field);
    return this;
  }
}
const HALF_KEYS = Object.keys(HALF_FORMS).filter((key): key is HalfForm => key in HALF_FORMS);

const CALL: More = { overflow: 'signed', alignBytes: 4, branch: 'call', stubAllowed: true };
const CONDITIONAL: More = { overflow: 'signed', alignBytes: 4, branch: 'conditional' };
const ABSOLUTE: More = { overflow: 'signed', alignBytes: 4 };

/** Types that both sizes share, 0 to 36 and 240 to 254. */
function common(rows: Rows): Rows {
  rows
    .add(0, 'NONE', 'none', NOTHING)
    .add(1, 'ADDR32', 'abs', WORD32, { overflow: 'either' })
    .add(2, 'ADDR24', 'abs', LOW24, { ...ABSOLUTE, branch: 'call' })
    .add(7, 'ADDR14', 'abs', LOW14, CONDITIONAL)
    .add(8, 'ADDR14_BRTAKEN', 'abs', LOW14, CONDITIONAL)
    .add(9, 'ADDR14_BRNTAKEN', 'abs', LOW14, CONDITIONAL)
    .add(10, 'REL24', 'pcrel', LOW24, CALL)
    .add(11, 'REL14', 'pcrel', LOW14, CONDITIONAL)
    .add(12, 'REL14_BRTAKEN', 'pcrel', LOW14, CONDITIONAL)
    .add(13, 'REL14_BRNTAKEN', 'pcrel', LOW14, CONDITIONAL)
    .quartet('GOT', 'got-relative', 14)
    .add(19, 'COPY', 'copy', NOTHING)
    .add(24, 'UADDR32', 'abs', WORD32, { overflow: 'either' })
    .add(25, 'UADDR16', 'abs', DATA16, { overflow: 'either' })
    .add(26, 'REL32', 'pcrel', WORD32, { overflow: 'signed' })
    .named('linker', { 27: 'PLT32', 28: 'PLTREL32' }, WORD32)
    .halves('PLT', 'linker', { LO: 29, HI: 30, HA: 31 })
    .quartet('SECTOFF', 'linker', 33)
    .add(246, 'REL16DX_HA', 'pcrel', DX16, { part: 'ha16', overflow: 'signed' })
    .quartet('REL', 'pcrel', 249)
    .named('none', { 253: 'GNU_VTINHERIT', 254: 'GNU_VTENTRY', 119: 'PLTSEQ', 120: 'PLTCALL' });
  return rows;
}

function rows32(): ReadonlyMap<number, RelocationRow> {
  const rows = common(new Rows('R_PPC_', 32))
    .halves('ADDR', 'abs', { '': 3, LO: 4, HI: 5, HA: 6 })
    .add(3, 'ADDR16', 'abs', HALF16, { overflow: 'either' })
    .add(18, 'PLTREL24', 'pcrel', LOW24, { ...CALL, addendIgnored: true })
    .add(20, 'GLOB_DAT', 'glob-dat', WORD32)
    .add(21, 'JMP_SLOT', 'jump-slot', WORD32, { note: 'secure PLT: the slot is a word' })
    .add(22, 'RELATIVE', 'relative', WORD32)
    .add(23, 'LOCAL24PC', 'pcrel', LOW24, { ...CALL, stubAllowed: false })
    .named('linker', { 32: 'SDAREL16' }, HALF16)
    .add(37, 'ADDR30', 'pcrel', WORD30, { note: 'S + A - P in the upper 30 bits' })
    .named('none', { 67: 'TLS', 95: 'TLSGD', 96: 'TLSLD' })
    .named('tls', { 68: 'DTPMOD32', 73: 'TPREL32', 78: 'DTPREL32' }, WORD32)
    .quartet('TPREL', 'tls', 69)
    .quartet('DTPREL', 'tls', 74)
    .quartet('GOT_TLSGD', 'tls', 79)
    .quartet('GOT_TLSLD', 'tls', 83)
    .quartet('GOT_TPREL', 'tls', 87)
    .quartet('GOT_DTPREL', 'tls', 91)
    .named('linker', { 101: 'EMB_NADDR32' }, WORD32)
    .quartet('EMB_NADDR', 'linker', 102)
    .named('linker', {
      106: 'EMB_SDAI16',
      107: 'EMB_SDA2I16',
      108: 'EMB_SDA2REL',
      109: 'EMB_SDA21',
      110: 'EMB_MRKREF',
      111: 'EMB_RELSEC16',
      112: 'EMB_RELST_LO',
      113: 'EMB_RELST_HI',
      114: 'EMB_RELST_HA',
      115: 'EMB_BIT_FLD',
      116: 'EMB_RELSDA',
      216: 'VLE_REL8',
      217: 'VLE_REL15',
      218: 'VLE_REL24',
      219: 'VLE_LO16A',
      220: 'VLE_LO16D',
      221: 'VLE_HI16A',
      222: 'VLE_HI16D',
      223: 'VLE_HA16A',
      224: 'VLE_HA16D',
      225: 'VLE_SDA21',
      226: 'VLE_SDA21_LO',
      227: 'VLE_SDAREL_LO16A',
      228: 'VLE_SDAREL_LO16D',
      229: 'VLE_SDAREL_HI16A',
      230: 'VLE_SDAREL_HI16D',
      231: 'VLE_SDAREL_HA16A',
      232: 'VLE_SDAREL_HA16D',
      233: 'VLE_ADDR20',
    })
    .add(248, 'IRELATIVE', 'irelative', WORD32)
    .named('linker', { 255: 'TOC16' }, HALF16);
  return rows.map;
}

/** Storage of threads. */
function threadRows64(rows: Rows): void {
  rows
    .named('tls', { 68: 'DTPMOD64', 73: 'TPREL64', 78: 'DTPREL64' }, WORD64)
    .quartet('TPREL', 'tls', 69)
    .quartet('DTPREL', 'tls', 74)
    .quartet('GOT_TLSGD', 'tls', 79)
    .quartet('GOT_TLSLD', 'tls', 83)
    .halves('GOT_TPREL', 'tls', { DS: 87, LO_DS: 88, HI: 89, HA: 90 })
    .halves('GOT_DTPREL', 'tls', { DS: 91, LO_DS: 92, HI: 93, HA: 94 })
    .halves('TPREL', 'tls', { DS: 95, LO_DS: 96, HIGHER: 97, HIGHERA: 98, HIGHEST: 99, HIGHESTA: 100 })
    .halves('DTPREL', 'tls', { DS: 101, LO_DS: 102, HIGHER: 103, HIGHERA: 104, HIGHEST: 105, HIGHESTA: 106 })
    .halves('TPREL', 'tls', { HIGH: 112, HIGHA: 113 })
    .halves('DTPREL', 'tls', { HIGH: 114, HIGHA: 115 });
}

/** Fields of prefixed instructions, and parts of their values. */
function prefixedRows64(rows: Rows): void {
  rows
    .add(128, 'D34', 'abs', PREFIX34, { overflow: 'signed' })
    .add(129, 'D34_LO', 'abs', PREFIX34)
    .add(130, 'D34_HI30', 'abs', PREFIX30, { part: 'hi34' })
    .add(131, 'D34_HA30', 'abs', PREFIX30, { part: 'ha34' })
    .add(132, 'PCREL34', 'pcrel', PREFIX34, { overflow: 'signed' })
    .add(133, 'GOT_PCREL34', 'got-pcrel', PREFIX34, { overflow: 'signed' })
    .named('linker', { 134: 'PLT_PCREL34', 135: 'PLT_PCREL34_NOTOC' }, PREFIX34)
    .add(136, 'ADDR16_HIGHER34', 'abs', HALF16, { part: 'hi34' })
    .add(137, 'ADDR16_HIGHERA34', 'abs', HALF16, { part: 'ha34' })
    .add(138, 'ADDR16_HIGHEST34', 'abs', HALF16, { part: 'highest34' })
    .add(139, 'ADDR16_HIGHESTA34', 'abs', HALF16, { part: 'highesta34' })
    .add(140, 'REL16_HIGHER34', 'pcrel', HALF16, { part: 'hi34' })
    .add(141, 'REL16_HIGHERA34', 'pcrel', HALF16, { part: 'ha34' })
    .add(142, 'REL16_HIGHEST34', 'pcrel', HALF16, { part: 'highest34' })
    .add(143, 'REL16_HIGHESTA34', 'pcrel', HALF16, { part: 'highesta34' })
    .add(144, 'D28', 'abs', PREFIX28, { overflow: 'signed' })
    .add(145, 'PCREL28', 'pcrel', PREFIX28, { overflow: 'signed' })
    .named('tls', { 146: 'TPREL34', 147: 'DTPREL34', 148: 'GOT_TLSGD_PCREL34', 149: 'GOT_TLSLD_PCREL34' }, PREFIX34)
    .named('tls', { 150: 'GOT_TPREL_PCREL34', 151: 'GOT_DTPREL_PCREL34' }, PREFIX34);
}

function rows64(): ReadonlyMap<number, RelocationRow> {
  const rows = common(new Rows('R_PPC64_', 64))
    .halves('ADDR', 'abs', {
      '': 3,
      LO: 4,
      HI: 5,
      HA: 6,
      HIGHER: 39,
      HIGHERA: 40,
      HIGHEST: 41,
      HIGHESTA: 42,
      DS: 56,
      LO_DS: 57,
      HIGH: 110,
      HIGHA: 111,
    })
    .add(20, 'GLOB_DAT', 'glob-dat', WORD64)
    .add(21, 'JMP_SLOT', 'jump-slot', WORD64, { note: 'ELFv1: the slot is a whole descriptor' })
    .add(22, 'RELATIVE', 'relative', WORD64)
    .add(37, 'REL30', 'pcrel', WORD30, { overflow: 'none' })
    .add(38, 'ADDR64', 'abs', WORD64)
    .add(43, 'UADDR64', 'abs', WORD64)
    .add(44, 'REL64', 'pcrel', WORD64)
    .named('linker', { 45: 'PLT64', 46: 'PLTREL64' }, WORD64)
    .halves('TOC', 'toc-relative', { '': 47, LO: 48, HI: 49, HA: 50, DS: 63, LO_DS: 64 })
    .add(51, 'TOC', 'toc-base', WORD64)
    .halves('PLTGOT', 'linker', { '': 52, LO: 53, HI: 54, HA: 55, DS: 65, LO_DS: 66 })
    .halves('GOT', 'got-relative', { DS: 58, LO_DS: 59 })
    .halves('PLT', 'linker', { LO_DS: 60 })
    .halves('SECTOFF', 'linker', { DS: 61, LO_DS: 62 })
    .named('none', { 67: 'TLS', 107: 'TLSGD', 108: 'TLSLD', 109: 'TOCSAVE', 118: 'ENTRY' })
    .named('none', { 121: 'PLTSEQ_NOTOC', 122: 'PLTCALL_NOTOC', 123: 'PCREL_OPT' });
  threadRows64(rows);
  rows
    .add(116, 'REL24_NOTOC', 'pcrel', LOW24, CALL)
    .add(117, 'ADDR64_LOCAL', 'abs', WORD64, { note: 'S is the local entry' })
    .add(124, 'REL24_P9NOTOC', 'pcrel', LOW24, CALL);
  prefixedRows64(rows);
  rows
    .halves('REL', 'pcrel', { HIGH: 240, HIGHA: 241, HIGHER: 242, HIGHERA: 243, HIGHEST: 244, HIGHESTA: 245 })
    .add(247, 'JMP_IREL', 'irelative', WORD64)
    .add(248, 'IRELATIVE', 'irelative', WORD64);
  return rows.map;
}

export const ppc32Relocations: ReadonlyMap<number, RelocationRow> = rows32();
export const ppc64Relocations: ReadonlyMap<number, RelocationRow> = rows64();

export const ppc32RelocationRoles: RelocationRoles = {
  none: R_PPC_NONE,
  word: R_PPC_ADDR32,
  relative: R_PPC_RELATIVE,
  // TLSGD, TLSLD stand on the call of __tls_get_addr next to its REL24.
  companions: [95, 96],
  neutralInModule: { type: R_PPC_ADDR32, addend: 'stored-word' },
  // ADDR32, ADDR16_LO, ADDR16_HI, ADDR16_HA, REL24, REL32
  takenInModules: [new Set([1, 4, 5, 6, 10, 26])],
  zeroInModules: false,
};

export const ppc64RelocationRoles: RelocationRoles = {
  none: R_PPC_NONE,
  word: R_PPC64_ADDR64,
  relative: R_PPC64_RELATIVE,
  companions: [107, 108],
  // R_PPC64_ADDR32
  neutralInModule: { type: 1, addend: 'stored-word' },
  // ADDR32, ADDR64, REL24, REL32, REL64, TOCSAVE, ENTRY, REL16_LO, REL16_HA, and the TOC's; kernels
  // that are pc-relative take REL24_NOTOC, PCREL34 and GOT_PCREL34 in place of those.
  takenInModules: [
    new Set([1, 10, 26, 38, 44, 109, 118, 250, 252, 47, 48, 50, 51, 63, 64]),
    new Set([1, 10, 26, 38, 44, 118, 250, 252, 116, 132, 133]),
  ],
  zeroInModules: false,
};

/** Reach of `bl`, the same on both sizes. */
export const branchReach = ppc32Table.reach('bl');
