/**
 * Compact relocations (SHT_CREL, `clang -Wa,--crel`): each row is what differs from the row before.
 *
 *   header  ULEB128: number of rows * 8 + 4 where rows have addends + shift (0 to 3)
 *   row     one byte, then what it announces, in this order:
 *             bit 0   SLEB128, added to the number of the symbol
 *             bit 1   SLEB128, added to the type
 *             bit 2   SLEB128, added to the addend (only where rows have addends)
 *             others  low bits of what is added to the offset; bit 7: more bits follow as ULEB128,
 *                     in front of the three above
 *
 * Offsets are stored without their `shift` lowest bits. Symbols, types, addends and offsets wrap
 * around at the width of their fields. Source: gABI, "Compact relocations"; the LLVM proposal of
 * 2024.
 */
import type { ByteView } from '../bytes.js';
import { malformed, truncated } from '../errors.js';
import type { Columns, RelocationSource } from './relocation-columns.js';

export interface CrelHeader {
  /** Rows; never more than bytes behind the header. */
  readonly count: number;
  /** Whether rows have addends; elsewhere addends are in the places. */
  readonly addends: boolean;
  /** Bits that every offset lacks at its end. */
  readonly shift: number;
  /** Position of the first row in the file. */
  readonly rows: number;
}

/** Reads numbers of variable length, low 7 bits first, in front of an end. */
class Leb {
  constructor(
    private readonly view: ByteView,
    private readonly what: string,
    public at: number,
    private readonly end: number,
  ) {}

  byte(): number {
    if (this.at >= this.end) throw truncated(this.what, this.at, 1, this.end);
    return this.view.u8(this.at++);
  }

  unsigned(): bigint {
    return this.number().value;
  }

  signed(): bigint {
    const { value, bits } = this.number();
    return BigInt.asIntN(bits, value);
  }

  /** Bits above 64 must be none: no field is wider. */
  private number(): { readonly value: bigint; readonly bits: number } {
    const start = this.at;
    let value = 0n;
    for (let bits = 0; ;) {
      if (bits >= 70) throw malformed(this.what, 'a number of more than 64 bits', { fileOffset: start });
      const byte = this.byte();
      value |= BigInt(byte & 0x7f) << BigInt(bits);
      bits += 7;
      if ((byte & 0x80) === 0) return { value, bits };
    }
  }
}

/**
 * @throws ElftraceError 'elf-truncated' or 'elf-malformed' for a header that announces more rows
 *   than the section has bytes
 */
export function readCrelHeader(source: RelocationSource): CrelHeader {
  const { view, what, offset, sizeBytes } = source;
  const end = offset + sizeBytes;
  const leb = new Leb(view, what, offset, end);
  const header = leb.unsigned();
  const rows = header >> 3n;
  const room = end - leb.at;
  // A row has one byte at least.
  if (rows > BigInt(room)) {
    throw malformed(what, `${rows} rows in ${room} bytes`, { value: rows, max: room, fileOffset: offset });
  }
  return { count: Number(rows), addends: (header & 4n) !== 0n, shift: Number(header & 3n), rows: leb.at };
}

/** @throws ElftraceError 'elf-truncated', 'elf-malformed' for rows that end behind the section */
export function readCrel(source: RelocationSource): Columns {
  const { view, is64, what } = source;
  const header = readCrelHeader(source);
  const { count, addends, shift } = header;
  const leb = new Leb(view, what, header.rows, source.offset + source.sizeBytes);
  const columns: Columns = {
    offset: new BigUint64Array(count),
    type: new Uint32Array(count),
    symbol: new Uint32Array(count),
    addend: new BigInt64Array(count),
  };
  const width = is64 ? 64 : 32;
  const flagBits = addends ? 3 : 2;
  let offset = 0n;
  let symbol = 0;
  let type = 0;
  let addend = 0n;
  for (let row = 0; row < count; row++) {
    const first = leb.byte();
    let step = BigInt((first & 0x7f) >> flagBits);
    if (first >= 0x80) step |= leb.unsigned() << BigInt(7 - flagBits);
    if (step !== 0n) offset = BigInt.asUintN(width, offset + step);
    if ((first & 1) !== 0) symbol = Number(BigInt.asUintN(32, BigInt(symbol) + leb.signed()));
    if ((first & 2) !== 0) type = Number(BigInt.asUintN(32, BigInt(type) + leb.signed()));
    if (addends && (first & 4) !== 0) addend = BigInt.asIntN(width, addend + leb.signed());
    columns.offset[row] = BigInt.asUintN(width, offset << BigInt(shift));
    columns.type[row] = type;
    columns.symbol[row] = symbol;
    columns.addend[row] = addend;
  }
  return columns;
}
