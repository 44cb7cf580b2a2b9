/**
 * Tables of jumps in the runtime's objects (PV-5): where a register says where code goes on, but
 * only one of some places can be meant. Compilers write the distances of these places from the
 * table behind the jump itself, or among constants, as relocations. That trials go no other way a
 * test sees to.
 */
import * as elf from '../../src/elf/constants.js';
import { archOf } from '../../src/arches.js';
import type { ElfImage } from '../../src/elf/image.js';

const WORD = 4;
/** bctr */
const JUMP = 0x4e80_0420;
const R_PPC_REL32 = 26;

interface Range {
  readonly section: number;
  readonly start: number;
  readonly end: number;
}

/**
 * Where tables of a function lead, in bytes from its beginning; null: it has none that is known.
 * @param range  of the function in its section
 */
export function jumpsOf(image: ElfImage, { section, start, end }: Range): readonly number[] | null {
  const { target } = archOf(image.header);
  if (!target.id.startsWith('ppc')) return null;
  const found = target.id === 'ppc32' ? inConstants(image, section) : behindJumps(image, { section, start, end });
  const inside = [...new Set(found)].filter((at) => at >= start && at < end).map((at) => at - start);
  return inside.length === 0 ? null : inside;
}

/** Words behind a jump, as long as they lead into the function. */
function behindJumps({ bytes, sections, header }: ElfImage, { section, start, end }: Range): number[] {
  const { offset } = sections[section]!;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const isLittle = header.endian === 'little';
  const found: number[] = [];
  for (let at = start; at + 2 * WORD <= end; at += WORD) {
    if (view.getUint32(offset + at, isLittle) !== JUMP) continue;
    const table = at + WORD;
    for (let place = table; place + WORD <= end; place += WORD) {
      const goal = table + view.getInt32(offset + place, isLittle);
      if (goal < start || goal >= end || goal % WORD !== 0) break;
      found.push(goal);
    }
  }
  return found;
}

/** Distances among constants: each is counted from its own place, not from the table's. */
function inConstants(image: ElfImage, section: number): number[] {
  const { sections, symbols } = image;
  const found: number[] = [];
  for (const constants of sections) {
    if ((constants.flags & (elf.SHF_ALLOC | elf.SHF_WRITE | elf.SHF_EXECINSTR)) !== elf.SHF_ALLOC) continue;
    let [table, last] = [-1, -1];
    for (const { count, offset, type, symbol, addend } of image.relocationsOf(constants)) {
      for (let row = 0; row < count; row++) {
        if (type[row] !== R_PPC_REL32 || symbols.sectionIndex[symbol[row]!] !== section) continue;
        const at = Number(offset[row]!);
        if (at !== last + WORD) table = at;
        last = at;
        found.push(Number(symbols.value[symbol[row]!]! + BigInt(addend[row]!)) - (at - table));
      }
    }
  }
  return found;
}
