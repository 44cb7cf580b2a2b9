/**
 * From bytes to sites, the way every verb goes: read, find the machine, load, find sites. What is
 * not in the bytes (names of another file, a record that is kept beside the file) is asked for.
 */
import type { Arch } from '../machine/arch.js';
import { loadArch } from '../targets.js';
import type { ElfImage, SymbolTable } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { unpatched } from '../patch/undo.js';
import { load, type Program } from '../program/program.js';
import { moduleName } from '../program/module-name.js';
import { disagreements, enabledEntries, type FileRecord, readRecord, recordedState } from '../record/journal.js';
import type { Sha256 } from '../sha256.js';
import { findSites, type Sites } from '../sites/sites.js';
import type { VerifyOptions } from '../sites/verdicts.js';

/** A file whose sites were not looked for yet. */
export interface OpenedProgram {
  readonly image: ElfImage;
  readonly arch: Arch;
  /** Names that another file gives. */
  readonly symbols: SymbolTable | undefined;
  readonly program: Program;
  readonly record: FileRecord | null;
  /** True when the record is a file of its own. */
  readonly recordBeside: boolean;
  readonly recorded: VerifyOptions['recorded'];
  readonly module: string | null;
  /** @throws ElftraceError for tables that cannot be read */
  findSites(): Sites;
}

/** A file with its sites. */
export interface OpenedImage extends Omit<OpenedProgram, 'findSites'> {
  readonly sites: Sites;
}

/** What the user says of names and tables. */
export interface OpenNames {
  readonly mcount?: readonly string[] | undefined;
  readonly table?: readonly string[] | undefined;
}

/** What is known of a file beside its bytes. */
export interface OpenSources {
  readonly path: string;
  readonly symbolsOf: (image: ElfImage) => Promise<SymbolTable | undefined>;
  /** The record beside the file; null: it has none. Asked for where none is inside. */
  readonly recordOf: (image: ElfImage) => FileRecord | null;
  readonly digest: (bytes: Uint8Array) => Sha256;
  /** Whether code is executed afterwards. */
  readonly use: 'read' | 'run';
  /** Each step takes time in proportion to the file: called in front of it, and may throw. */
  readonly onTime: (step: string) => void;
}

/**
 * The steps one after the other, each with what is true behind it.
 * @throws ElftraceError of every step
 */
export async function openImage(bytes: Uint8Array, names: OpenNames, sources: OpenSources): Promise<OpenedImage> {
  const { findSites: find, ...opened } = await openProgram(bytes, names, sources);
  return { ...opened, sites: find() };
  // A site that names code has a shape and a state, or is unknown; sites are sorted by place.
  // They are not judged yet (`verify`), nor decided about (`planSites`); nothing is written.
}

/**
 * All steps but the last.
 * @throws ElftraceError of every step
 */
export async function openProgram(bytes: Uint8Array, names: OpenNames, sources: OpenSources): Promise<OpenedProgram> {
  const { path, onTime, digest } = sources;
  onTime('reading the file');
  const image = readElf(bytes);
  // Every offset, size, link and index lies in the file: no later step checks again.

  const arch = await loadArch(image.header, sources.use);
  // Only `arch` knows which machine it is.

  const inside = readRecord(image);
  const record = inside ?? sources.recordOf(image);
  // What was changed before is known. What stands in the file is said by its bytes alone.

  const symbols = await sources.symbolsOf(image);
  const entries = inside ? enabledEntries(inside) : [];
  const known = { ...(names.mcount ? { mcountNames: names.mcount } : {}), ...(symbols ? { symbols } : {}) };
  onTime('reading the symbols');
  const program = load(image, arch, { ...known, tracerNames: entries });
  // An address is code of one range, or is none; relocations are found by their places.

  const isRenamed = inside !== null && entries.length > 0 && disagreements(inside, image.bytes).length === 0;
  const original = isRenamed ? load(readElf(unpatched(image, null, digest(image.bytes))), arch, known) : null;
  onTime('reading the program');
  return {
    image,
    arch,
    symbols,
    program,
    record,
    recordBeside: inside === null && record !== null,
    recorded: record ? recordedState(record, image.bytes) : undefined,
    module: moduleName(image, path),
    findSites: () => {
      const sites = findSites(program, {
        record,
        ...(original ? { original } : {}),
        ...(names.table ? { tableSections: names.table } : {}),
      });
      onTime('finding the sites');
      return sites;
    },
  };
}
