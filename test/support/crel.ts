/**
 * Writes relocation tables of an object as compact ones (SHT_CREL), after the text of the gABI, in
 * place: compact rows never need more room than RELA has. What the reader makes of them is compared
 * with what it made of the original.
 */
import { SHT_CREL, SHT_RELA } from '../../src/elf/constants.js';
import { readElf } from '../../src/elf/read.js';

function uleb(value: bigint): number[] {
  const out: number[] = [];
  for (let rest = value; ;) {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    if (rest === 0n) return [...out, low];
    out.push(low | 0x80);
  }
}

function sleb(value: bigint): number[] {
  const out: number[] = [];
  for (let rest = value; ;) {
    const low = Number(BigInt.asUintN(7, rest));
    rest >>= 7n;
    if ((rest === 0n && (low & 0x40) === 0) || (rest === -1n && (low & 0x40) !== 0)) return [...out, low];
    out.push(low | 0x80);
  }
}

export interface CrelRow {
  readonly offset: bigint;
  readonly symbol: number;
  readonly type: number;
  readonly addend: bigint;
}

/** @param addends  rows carry addends */
export function packCrel(rows: readonly CrelRow[], addends: boolean): Uint8Array {
  const all = rows.reduce((bits, { offset }) => bits | offset, 8n);
  const shift = [3n, 2n, 1n].find((each) => (all & ((1n << each) - 1n)) === 0n) ?? 0n;
  const out = uleb(BigInt(rows.length) * 8n + (addends ? 4n : 0n) + shift);
  const flags = addends ? 3 : 2;
  let last: CrelRow = { offset: 0n, symbol: 0, type: 0, addend: 0n };
  for (const row of rows) {
    const step = BigInt.asUintN(64, (row.offset >> shift) - (last.offset >> shift));
    const bits =
      (row.symbol !== last.symbol ? 1 : 0) |
      (row.type !== last.type ? 2 : 0) |
      (addends && row.addend !== last.addend ? 4 : 0);
    const inByte = BigInt(7 - flags);
    const low = Number(step & ((1n << inByte) - 1n)) << flags;
    const high = step >> inByte;
    out.push(bits | low | (high === 0n ? 0 : 0x80), ...(high === 0n ? [] : uleb(high)));
    if ((bits & 1) !== 0) out.push(...sleb(BigInt(row.symbol - last.symbol)));
    if ((bits & 2) !== 0) out.push(...sleb(BigInt(row.type - last.type)));
    if ((bits & 4) !== 0) out.push(...sleb(row.addend - last.addend));
    last = row;
  }
  return Uint8Array.from(out);
}

/**
 * The file with each RELA section as a compact one at the same place; null where it has none that
 * fits.
 */
export function withCrel(bytes: Uint8Array): Uint8Array | null {
  const image = readElf(bytes);
  const out = bytes.slice();
  const view = new DataView(out.buffer);
  const little = image.header.endian === 'little';
  const headerBytes = image.header.is64 ? 64 : 40;
  let packed = 0;
  for (const section of image.sections) {
    if (section.type !== SHT_RELA) continue;
    const table = image.relocations.find((each) => each.section === section.index)!;
    const rows = Array.from({ length: table.count }, (_, row) => ({
      offset: table.offset[row]!,
      symbol: table.symbol[row]!,
      type: table.type[row]!,
      addend: table.addend[row]!,
    }));
    const data = packCrel(rows, true);
    if (data.length > section.size) continue;
    out.fill(0, section.offset, section.offset + section.size).set(data, section.offset);
    const header = image.header.shoff + section.index * headerBytes;
    view.setUint32(header + 4, SHT_CREL, little);
    if (image.header.is64) {
      view.setBigUint64(header + 32, BigInt(data.length), little);
      view.setBigUint64(header + 56, 1n, little);
    } else {
      view.setUint32(header + 20, data.length, little);
      view.setUint32(header + 36, 1, little);
    }
    packed++;
  }
  return packed === 0 ? null : out;
}
