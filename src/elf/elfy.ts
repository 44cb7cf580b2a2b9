/**
 * The second reader: what the package `elfy` says about header, sections and segments, held against
 * our own reading. Sole importer of `elfy`, which is loaded when it is asked for. Owns the list of
 * what elfy 1.0.0 gets wrong; those fields are left out of the comparison and tested to be still
 * wrong, so that a fix is noticed.
 */
import type elfy from 'elfy';
import { ElftraceError, hex } from '../errors.js';
import type { ElfImage } from './image.js';

/** Names of the bits that are set; a bit without a name has its number. */
export type ElfyFlags = Readonly<Record<string, true>>;

/**
 * elfy's own words: numbers are doubles, kinds are names out of its tables (undefined where they
 * have none).
 */
export interface SecondReading {
  readonly class: '32' | '64';
  readonly endian: 'lsb' | 'msb';
  readonly version: number;
  readonly osabi: string | undefined;
  readonly abiversion: string | undefined;
  readonly type: string | undefined;
  readonly machine: string | undefined;
  readonly entry: number;
  readonly phoff: number;
  readonly shoff: number;
  readonly flags: number;
  readonly ehsize: number;
  readonly phentsize: number;
  readonly phnum: number;
  readonly shentsize: number;
  readonly shnum: number;
  readonly shstrndx: number;
  readonly body: {
    readonly programs: readonly {
      readonly type: string | undefined;
      readonly offset: number;
      readonly vaddr: number;
      readonly paddr: number;
      readonly filesz: number;
      readonly memsz: number;
      readonly flags: ElfyFlags;
      readonly align: number;
      readonly data: Uint8Array;
    }[];
    readonly sections: readonly {
      readonly name: string;
      readonly type: string | number;
      readonly flags: ElfyFlags;
      readonly addr: number;
      readonly off: number;
      readonly size: number;
      readonly link: number;
      readonly info: number;
      readonly addralign: number;
      readonly entsize: number;
      readonly data: Uint8Array;
    }[];
  };
}

/**
 * Fields that elfy 1.0.0 reads at the wrong place:
 * - `header.osabi`, `header.abiversion`: one byte too early (EI_VERSION, EI_OSABI);
 * - `section.addralign`, `section.entsize` of 64-bit files: two bytes too early.
 */
export const ELFY_WRONG_FIELDS: readonly string[] = [
  'header.osabi',
  'header.abiversion',
  'section.addralign (64 bit)',
  'section.entsize (64 bit)',
];

export interface ElfyComparison {
  /** Fields that were compared. */
  readonly checked: number;
  /** `section 3 (.text): size: elfy 0x10, elftrace 0x20`; empty when both readers agree. */
  readonly differences: readonly string[];
  /** What could not be compared, and why. */
  readonly limits: readonly string[];
}

/**
 * What elfy reads out of the image's bytes. No bytes are copied; its `data` fields are views.
 * @throws ElftraceError 'unsupported-form' where elfy gives up (no section headers or names,
 *   extended numbering) or the
 *         platform has no Buffer; its own error is the cause
 */
export async function secondReading(image: ElfImage): Promise<SecondReading> {
  const { parse } = (await import('elfy')).default;
  const { buffer, byteOffset, byteLength } = image.bytes;
  try {
    return parse(Buffer.from(buffer, byteOffset, byteLength));
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new ElftraceError('unsupported-form', `elfy cannot read this file: ${message}`, { what: 'elfy' }, { cause });
  }
}

type Names = Readonly<Record<number, string>>;

/** What was compared so far. */
class FieldComparison {
  readonly differences: string[] = [];
  readonly limits: string[] = [];
  checked = 0;
  private inexact = 0;

  same(what: string, theirs: unknown, ours: string | number | bigint): void {
    this.checked++;
    let expected: string | number = typeof ours === 'bigint' ? Number(ours) : ours;
    // Its 64-bit fields are doubles; ours is exact.
    if (typeof ours === 'bigint' && ours > BigInt(Number.MAX_SAFE_INTEGER)) this.inexact++;
    if (theirs === expected) return;
    if (typeof expected === 'number') expected = hex(expected);
    const said = typeof theirs === 'number' ? hex(theirs) : String(theirs);
    this.differences.push(`${what}: elfy ${said}, elftrace ${expected}`);
  }

  /**
   * A number that elfy gives as a name out of its table; unnamed ones come as undefined or as the
   * number.
   */
  named(what: string, theirs: string | number | undefined, ours: number, table: Names): void {
    const name = table[ours];
    if (name !== undefined) this.same(what, theirs, name);
    else if (theirs === undefined) this.limits.push(`${what}: elfy has no name for ${hex(ours)}`);
    else this.same(what, theirs, ours);
  }

  bits(what: string, theirs: ElfyFlags, ours: bigint, table: Names): void {
    const expected: string[] = [];
    for (let bit = 0; bit < 32; bit++) {
      if (((ours >> BigInt(bit)) & 1n) === 0n) continue;
      const value = 1 << bit;
      expected.push(table[value] ?? String(value));
    }
    if (ours >> 32n !== 0n) {
      this.limits.push(`${what}: elfy does not see flags above bit 31`);
      return;
    }
    this.same(what, Object.keys(theirs).sort().join(' '), expected.sort().join(' '));
  }

  result(): ElfyComparison {
    const { checked, differences, limits, inexact } = this;
    if (inexact > 0) limits.push(`${inexact} values beyond 2^53 were compared as doubles, which is what elfy reads`);
    limits.push(`not compared, elfy reads them wrongly: ${ELFY_WRONG_FIELDS.join(', ')}`);
    return { checked, differences, limits };
  }
}

type ElfyConstants = (typeof elfy)['constants'];

function compareHeader(to: FieldComparison, file: SecondReading, { header }: ElfImage, constants: ElfyConstants): void {
  to.same('header: class', file.class, header.is64 ? '64' : '32');
  to.same('header: endian', file.endian, header.endian === 'little' ? 'lsb' : 'msb');
  to.same('header: version', file.version, 1);
  to.named('header: type', file.type, header.type, constants.type);
  to.named('header: machine', file.machine, header.machine, constants.machine);
  to.same('header: entry', file.entry, header.entry);
  // Ours are 0 where there is no table, whatever the field holds.
  if (header.phnum > 0) to.same('header: phoff', file.phoff, header.phoff);
  if (header.shnum > 0) to.same('header: shoff', file.shoff, header.shoff);
  to.same('header: flags', file.flags, header.flags);
  to.same('header: ehsize', file.ehsize, header.ehsize);
  to.same('header: phentsize', file.phentsize, header.phentsize);
  to.same('header: phnum', file.phnum, header.phnum);
  to.same('header: shentsize', file.shentsize, header.shentsize);
  to.same('header: shnum', file.shnum, header.shnum);
  to.same('header: shstrndx', file.shstrndx, header.shstrndx);
}

function compareSegments(to: FieldComparison, file: SecondReading, image: ElfImage, constants: ElfyConstants): void {
  const { programs } = file.body;
  to.same('number of segments', programs.length, image.segments.length);
  programs.forEach((theirs, index) => {
    const ours = image.segments[index];
    if (ours === undefined) return;
    const what = `segment ${index}`;
    to.named(`${what}: type`, theirs.type, ours.type, constants.entryType);
    // Ours of PT_NULL are 0: what is written there means nothing.
    if (ours.type === 0) return;
    to.same(`${what}: offset`, theirs.offset, ours.offset);
    to.same(`${what}: vaddr`, theirs.vaddr, ours.address);
    to.same(`${what}: paddr`, theirs.paddr, ours.physicalAddress);
    to.same(`${what}: filesz`, theirs.filesz, ours.fileSize);
    to.same(`${what}: memsz`, theirs.memsz, ours.memorySize);
    to.same(`${what}: align`, theirs.align, ours.alignBytes);
    to.bits(`${what}: flags`, theirs.flags, BigInt(ours.flags), constants.entryFlags);
  });
}

function compareSections(to: FieldComparison, file: SecondReading, image: ElfImage, constants: ElfyConstants): void {
  const { sections } = file.body;
  to.same('number of sections', sections.length, image.sections.length);
  sections.forEach((theirs, index) => {
    const ours = image.sections[index];
    if (ours === undefined) return;
    const what = `section ${index} (${ours.name})`;
    to.same(`${what}: name`, theirs.name, ours.name);
    to.named(`${what}: type`, theirs.type, ours.type, constants.sectType);
    to.bits(`${what}: flags`, theirs.flags, ours.flags, constants.sectFlags);
    to.same(`${what}: addr`, theirs.addr, ours.address);
    to.same(`${what}: off`, theirs.off, ours.offset);
    // In section header 0 the field is a count.
    if (index > 0) to.same(`${what}: size`, theirs.size, ours.size);
    to.same(`${what}: link`, theirs.link, ours.link);
    to.same(`${what}: info`, theirs.info, ours.info);
    if (!image.header.is64) {
      to.same(`${what}: addralign`, theirs.addralign, ours.alignBytes);
      to.same(`${what}: entsize`, theirs.entsize, ours.entrySize);
    }
  });
}

/**
 * Holds our reading against elfy's, field by field. Never throws for a file that elfy cannot read:
 * that is a limit.
 */
export async function compareWithElfy(image: ElfImage): Promise<ElfyComparison> {
  let file: SecondReading;
  try {
    file = await secondReading(image);
  } catch (error) {
    if (!(error instanceof ElftraceError)) throw error;
    return { checked: 0, differences: [], limits: [error.message] };
  }
  const { constants } = (await import('elfy')).default;
  const comparison = new FieldComparison();
  compareHeader(comparison, file, image, constants);
  compareSegments(comparison, file, image, constants);
  compareSections(comparison, file, image, constants);
  return comparison.result();
}
