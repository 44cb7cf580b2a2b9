/**
 * Addresses of a part's sections: one segment per permission, each in pages of its own, file
 * positions packed. Owns the arithmetic of address and file position; knows nothing of symbols.
 */
import { alignUpBig } from '../bits.js';
import { ElftraceError, hex } from '../errors.js';
import type { Address } from '../units.js';
import { congruentAddress, congruentOffset, type Part, permissionOf, rangesOf, runsOf } from './part.js';

/** Where the next segment may go: first free address and first free file position. */
export interface Cursor {
  readonly address: Address;
  readonly offset: number;
}

/**
 * Gives the sections of a part their addresses and returns what is free behind it. The address of a
 * segment is congruent to its file position, so that no padding goes into the file; a writer that
 * goes through the same parts finds the same positions.
 */
export function placeSections(part: Part, cursor: Cursor, pageBytes: number): Cursor {
  let { address } = cursor;
  let { offset } = cursor;
  let permission: ReturnType<typeof permissionOf> | null = null;
  let align = 1n;
  for (const section of part.sections) {
    if (permissionOf(section.flags) !== permission) {
      permission = permissionOf(section.flags);
      // Behind what the last segment put into the file, in a page of its own.
      offset = fileEndAfter(part, cursor.offset, pageBytes);
      offset += (16 - (offset % 16)) % 16;
      address = congruentAddress(address, offset, pageBytes);
      align = 1n;
    }
    if (section.alignBytes > align) align = section.alignBytes;
    address = alignUpBig(address, section.alignBytes);
    section.address = address;
    address += BigInt(section.size);
  }
  return { address, offset: fileEndAfter(part, cursor.offset, pageBytes) };
}

/**
 * End in the file of the segments of a part that have an address by now, when its first byte may go
 * to `offset`.
 */
export function fileEndAfter(part: Part, offset: number, pageBytes: number): number {
  let end = offset;
  for (const run of runsOf(part)) {
    if (run.fileEnd === run.start || run.start === 0n) continue;
    end = congruentOffset(end, run.start, pageBytes) + Number(run.fileEnd - run.start);
  }
  return end;
}

/**
 * Checks that no two parts overlap and that all lie in the address space.
 * @throws ElftraceError 'usage' naming both parts
 */
export function checkOverlaps(parts: readonly Part[], limit: bigint): void {
  const all = parts.flatMap((part) => rangesOf(part).map((range) => ({ ...range, name: part.name })));
  all.sort((a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0));
  all.forEach((range, i) => {
    if (range.end > limit) {
      throw new ElftraceError(
        'usage',
        `${range.name} would end at ${hex(range.end)}, the address space at ${hex(limit)}`,
        { address: range.start },
      );
    }
    const next = all[i + 1];
    if (next !== undefined && next.start < range.end) {
      throw new ElftraceError('usage', `${range.name} and ${next.name} would overlap at ${hex(next.start)}`, {
        address: next.start,
      });
    }
  });
}
