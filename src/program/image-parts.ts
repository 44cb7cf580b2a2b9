/**
 * Parts out of files: a linked core, and the parts of an image by its load map. What
 * `image-writer.ts` wrote comes back as it was, so that an image can be taken apart and put
 * together again.
 */
import type { Arch } from '../machine/arch.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { sha256 as portableSha256, type Sha256 } from '../sha256.js';
import { stayingSections } from './kept-tables.js';
import type { LoadedPart, LoadMap } from './load-map.js';
import type { Part, PartSection, PartSymbol } from './part.js';
import { Program } from './program.js';
import type { SectionIndex } from '../units.js';

const hasToc = (arch: Arch): boolean => arch.loader.kind === 'modules' && arch.loader.tocSymbol !== null;

/** A linked program as the core of an image: its bytes stay where they are. */
export function linkedCore(name: string, sha256: string, image: ElfImage, arch: Arch): Part {
  const kept = stayingSections(image);
  const position = new Map(kept.map((section, i) => [section.index, i]));
  // The core is the first part: its sections begin at number 1.
  const renumbered = (index: number): number => (position.has(index) ? position.get(index)! + 1 : 0);
  const sections = kept.map((section): PartSection => ({
    name: section.name,
    type: section.type,
    flags: section.flags,
    alignBytes: section.alignBytes,
    entrySize: section.entrySize,
    size: section.size,
    link: renumbered(section.link),
    info: (section.flags & elf.SHF_INFO_LINK) === 0n ? section.info : renumbered(section.info),
    address: section.address,
    contents: section.fileSize === 0 ? null : image.contents(section),
    fileOffset: section.offset,
  }));
  return {
    kind: 'core',
    name,
    sha256,
    toc: hasToc(arch) ? new Program(image, arch).toc : null,
    sections,
    symbols: symbolsOf(image, { first: 1, count: image.symbols.count - 1 }, (index) => position.get(index)),
    stubs: [],
    entryStubs: [],
    uses: new Set(),
    linked: image,
  };
}

function symbolsOf(
  image: ElfImage,
  range: { readonly first: number; readonly count: number },
  home: (section: SectionIndex) => number | undefined,
): PartSymbol[] {
  const { symbols } = image;
  const found: PartSymbol[] = [];
  for (let i = range.first; i < range.first + range.count; i++) {
    const index = symbols.sectionIndex[i]!;
    found.push({
      name: symbols.name(i),
      value: symbols.value[i]!,
      size: symbols.size[i]!,
      info: symbols.info[i]!,
      other: symbols.other[i]!,
      home: index === elf.SHN_UNDEF ? 'undefined' : (home(index) ?? 'absolute'),
    });
  }
  return found;
}

/**
 * The linked core that is in an image, byte for byte; null when the core was laid out.
 * @throws ElftraceError 'state-mismatch' when its bytes were changed since
 */
export function originalCore(image: ElfImage, map: LoadMap, sha256: Sha256 = portableSha256): Uint8Array | null {
  const { original } = map;
  if (original === null) return null;
  const bytes = image.bytes.slice(0, original.size);
  for (const change of original.headers) bytes.set(change.bytes, change.offset);
  if (bytes.length !== original.size || sha256(bytes) !== original.sha256) {
    throw new ElftraceError('state-mismatch', 'the core in this image is not as it was loaded: revert patches first', {
      expected: original.sha256,
    });
  }
  return bytes;
}

/**
 * The parts of an image that `load` made.
 * @throws ElftraceError 'state-mismatch' when a linked core was changed since
 */
export function partsOf(image: ElfImage, map: LoadMap, arch: Arch, sha256: Sha256 = portableSha256): Part[] {
  const original = originalCore(image, map, sha256);
  return map.parts.map((loaded, index) => {
    if (index > 0 || original === null) return partOf(image, loaded, 0);
    const core = linkedCore(loaded.name, loaded.sha256, readElf(original), arch);
    const added = partOf(image, loaded, core.sections.length);
    core.toc = loaded.toc;
    core.sections.push(...added.sections);
    core.stubs.push(...added.stubs);
    core.entryStubs.push(...added.entryStubs);
    for (const name of added.uses) core.uses.add(name);
    return core;
  });
}

/** A laid-out part; the first `skip` of its sections are left out. */
function partOf(image: ElfImage, loaded: LoadedPart, skip: number): Part {
  const { first, count } = loaded.sections;
  const sections = image.sections.slice(first + skip, first + count).map((section): PartSection => ({
    name: section.name,
    type: section.type,
    flags: section.flags,
    alignBytes: section.alignBytes,
    entrySize: section.entrySize,
    size: section.size,
    link: 0,
    info: 0,
    address: section.address,
    contents: section.type === elf.SHT_NOBITS ? null : image.contents(section).slice(),
    fileOffset: null,
  }));
  const home = (index: number): number | undefined =>
    index >= first && index < first + count ? index - first : undefined;
  const { locals, globals } = loaded.symbols;
  return {
    kind: loaded.kind,
    name: loaded.name,
    sha256: loaded.sha256,
    toc: loaded.toc,
    sections,
    symbols: skip > 0 ? [] : [...symbolsOf(image, locals, home), ...symbolsOf(image, globals, home)],
    stubs: [...loaded.stubs],
    entryStubs: [...loaded.entryStubs],
    uses: new Set(loaded.uses),
    linked: null,
  };
}
