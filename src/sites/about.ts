/**
 * What a file is: kind, tables, sites by shape and state, what is odd about it. `info` prints it.
 */
import { ET_REL } from '../elf/constants.js';
import { compareWithElfy } from '../elf/elfy.js';
import { readModuleSignature } from '../elf/signature.js';
import { type FileRecord, recordedState } from '../record/journal.js';
import { namelessRelocations } from '../relocs/read.js';
import type { Sites } from './sites.js';

/** How many sites there are of each shape and in each state. */
export type SiteTotals = ReturnType<Sites['totals']>;

/** A table of sites, as it is read. */
export interface TableInfo {
  readonly name: string;
  readonly entries: number;
  /** Entries that name no place. */
  readonly zero: number;
  readonly role: string;
  /** What its places are, in the words of `info --json`. */
  readonly source: string;
  /** Where its entries were found. */
  readonly origin: string;
  readonly sorted: boolean;
}

/** What `info` says of an image. */
export interface ImageInfo {
  /** Id of the target: `x86-64`, `ppc64-elfv2-le`. */
  readonly target: string;
  /** `relocatable`, `module`, `executable`, `shared`, `vmlinux`, `core`. */
  readonly kind: string;
  readonly module: string | null;
  readonly tables: readonly TableInfo[];
  readonly sites: SiteTotals;
  /** Bytes of the module's signature; 0: it has none. */
  readonly signatureBytes: number;
  /** What was done to the image, by the record in it or beside it. */
  readonly record: FileRecord | null;
  /** Fields of the headers that a second reader was asked for, and where it disagrees. */
  readonly secondReader: { readonly checked: number; readonly differences: readonly string[] };
  /** What is odd and harmless, for people. */
  readonly remarks: readonly string[];
}

export interface ImageInfoOptions {
  /** Name of the module that the image is. */
  readonly module?: string | null;
  /** The record of the image, where there is one. */
  readonly record?: FileRecord | null;
  /** Which options of compilers give sites, for the remark of an image without any. */
  readonly siteFlags?: string;
}

const fileTypes: Readonly<Record<number, string>> = {
  1: 'relocatable',
  2: 'executable',
  3: 'shared',
  4: 'core',
};

/** What a file is, in one word: a module is a relocatable file with module information. */
function kindOf(sites: Sites, module: string | null): string {
  const { image } = sites.program;
  const kind = fileTypes[image.header.type] ?? `type ${image.header.type}`;
  if (kind === 'relocatable' && module !== null) return 'module';
  if (sites.tables.some((table) => table.name === '__start_mcount_loc')) return 'vmlinux';
  return kind;
}

function remarksOn(sites: Sites, record: FileRecord | null, siteFlags: string): string[] {
  const { image } = sites.program;
  const remarks = [...image.remarks, ...namelessRelocations(image)];
  const trailing = image.bytes.length - image.elfSize;
  if (trailing > 0 && !readModuleSignature(image.bytes)) remarks.push(`${trailing} bytes behind the ELF image`);
  for (const table of sites.tables) {
    remarks.push(...table.remarks);
    if (table.role === 'padding') remarks.push(`${table.name} names call padding, not patch sites of ftrace`);
    else if (!table.sorted) remarks.push(`${table.name} is not sorted`);
  }
  if (sites.count === 0 && record !== null && record.untraced.length > 0) {
    remarks.push('no patch sites: all of them were untraced');
  } else if (sites.count === 0) {
    remarks.push(`no patch sites: compile with ${siteFlags} to have some`);
  }
  if (!image.section('.symtab') && image.header.type !== ET_REL) {
    remarks.push('stripped: name functions with --symbols FILE (System.map or an ELF file with symbols)');
  }
  const recorded = record === null ? null : recordedState(record, image.bytes);
  if (recorded !== null && record?.edits.some(({ offset, after }) => recorded(offset, after.length)) === true) {
    remarks.push('the record and the bytes disagree: run verify');
  }
  return remarks;
}

/** What `info` says of the image of these sites. */
export async function imageInfo(sites: Sites, options: ImageInfoOptions = {}): Promise<ImageInfo> {
  const { module = null, record = null, siteFlags = '-pg' } = options;
  const { arch, image } = sites.program;
  const { checked, differences } = await compareWithElfy(image);
  return {
    target: arch.target.id,
    kind: kindOf(sites, module),
    module,
    tables: sites.tables.map((table, index) => ({
      name: table.name,
      entries: table.count,
      zero: table.zero,
      role: table.role,
      source: sites.sources[index] ?? 'call',
      origin: table.origin,
      sorted: table.sorted,
    })),
    sites: sites.totals(),
    signatureBytes: readModuleSignature(image.bytes)?.size ?? 0,
    record,
    secondReader: { checked, differences },
    remarks: remarksOn(sites, record, siteFlags),
  };
}
