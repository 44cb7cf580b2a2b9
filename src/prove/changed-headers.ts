/**
 * What headers and symbols say of a file that its bytes do not: where a program begins, which
 * rights its memory has, what a linker or a loader of modules makes of sections, and what names
 * mean. No patch of sites changes any of it, and no trial executes it.
 */
import {
  PT_DYNAMIC,
  PT_GNU_PROPERTY,
  PT_GNU_RELRO,
  PT_GNU_STACK,
  PT_INTERP,
  PT_LOAD,
  PT_TLS,
  SHF_ALLOC,
  SHN_UNDEF,
} from '../elf/constants.js';
import type { ElfImage, ElfSection, ElfSegment } from '../elf/image.js';
import type { Address } from '../units.js';

export interface UnexplainedChange {
  readonly address: Address;
  readonly size: number;
  readonly section: string;
}

type IsOwn = (section: ElfSection) => boolean;

/** Places and sizes in an ELF header; a file of another machine is refused. */
const headerFields = (is64: boolean) =>
  [
    ['type', 16, 2],
    ['entry', 24, is64 ? 8 : 4],
    ['flags', is64 ? 48 : 36, 4],
  ] as const;

function changedHeader(before: ElfImage, after: ElfImage): UnexplainedChange[] {
  return headerFields(before.header.is64)
    .filter(([name]) => before.header[name] !== after.header[name])
    .map(([, at, size]) => ({ address: BigInt(at), size, section: 'ELF header' }));
}

/** What loaders look at; headers of notes and free ones may become others. */
const LOADED: ReadonlySet<number> = new Set([
  PT_LOAD,
  PT_DYNAMIC,
  PT_INTERP,
  PT_TLS,
  PT_GNU_STACK,
  PT_GNU_RELRO,
  PT_GNU_PROPERTY,
]);

const meaningOf = ({ type, address, memorySize, flags }: ElfSegment): string =>
  `${type} ${address}+${memorySize} ${flags}`;

/** Segments of a linked file that are not laid out as they were; further ones may come. */
function changedSegments(before: ElfImage, after: ElfImage): UnexplainedChange[] {
  const there = new Set(after.segments.map(meaningOf));
  return before.segments
    .filter((each) => LOADED.has(each.type) && !there.has(meaningOf(each)))
    .map(({ address, memorySize }) => ({ address, size: Number(memorySize), section: 'program headers' }));
}

/** Sections of a relocatable file whose headers say something else than they did. */
function changedSections(before: ElfImage, after: ElfImage, isOwn: IsOwn): UnexplainedChange[] {
  return before.sections
    .filter((section) => {
      const { index, name, type, flags, size, alignBytes, entrySize } = section;
      const now = after.sections[index];
      if ((flags & SHF_ALLOC) === 0n || size === 0 || now?.name !== name || isOwn(section)) return false;
      return now.type !== type || now.flags !== flags || now.alignBytes !== alignBytes || now.entrySize !== entrySize;
    })
    .map(({ size, name }) => ({ address: 0n, size, section: name }));
}

/** What a loader or a linker reads of each symbol, as text. Sections may share a name. */
function meanings({ symbols, sections }: ElfImage): string[] {
  const counts = new Map<string, number>();
  const homes = sections.map(({ name }) => {
    const before = counts.get(name) ?? 0;
    counts.set(name, before + 1);
    return `${name} ${before}`;
  });
  return Array.from({ length: symbols.count }, (_, i) => {
    const [home, info, other] = [symbols.sectionIndex[i]!, symbols.info[i]!, symbols.other[i]!];
    const place = home === SHN_UNDEF ? '' : `${homes[home] ?? home}@${symbols.value[i]!}`;
    return `${symbols.name(i)} ${info} ${other} ${place}`;
  });
}

/**
 * Symbols of the original that mean something else now, or nothing: a linker calls another place, a
 * kernel looks for them elsewhere, finds none, and does not load the file.
 */
function changedSymbols(before: ElfImage, after: ElfImage, isOwn: IsOwn): UnexplainedChange[] {
  const found: UnexplainedChange[] = [];
  const section = before.sections[before.symbols.section];
  if (section === undefined) return found;
  const now = new Set(meanings(after));
  for (const [i, meaning] of meanings(before).entries()) {
    const home = before.sections[before.symbols.sectionIndex[i]!];
    // Of tables that went they are absolute.
    const isThere = i < after.symbols.count && after.symbols.sectionIndex[i] !== SHN_UNDEF;
    if (now.has(meaning) || (isThere && home !== undefined && isOwn(home))) continue;
    found.push({ address: BigInt(i) * section.entrySize, size: 1, section: section.name });
  }
  return found;
}

/**
 * Changes of what is no byte of a section, of a linked or a relocatable file.
 * @param isOwn  whether a section changes with sites: what names its slots goes with them
 */
export function changedHeaders(
  before: ElfImage,
  after: ElfImage,
  isRelocatable: boolean,
  isOwn: IsOwn,
): UnexplainedChange[] {
  return [
    ...changedHeader(before, after),
    ...(isRelocatable
      ? [...changedSections(before, after, isOwn), ...changedSymbols(before, after, isOwn)]
      : changedSegments(before, after)),
  ];
}
