/**
 * From a path to sites, the way every verb goes: unpack, read, find the machine, load, find sites,
 * read the record.
 */
import { createHash } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Arch } from '../machine/arch.js';
import { loadArch } from '../targets.js';
import { cString } from '../bytes.js';
import type { ElfImage, SymbolTable } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { type FileRecord, disagreements, enabledEntries, readRecord, recordedState } from '../record/journal.js';
import { recordBeside, unpatched } from '../patch/apply.js';
import { findSites, type Sites } from '../sites/sites.js';
import type { VerifyOptions } from '../sites/verdicts.js';
import { load, type Program } from '../program/program.js';
import { symbolTableOf } from '../program/symbols.js';
import type { Sha256 } from '../sha256.js';
import { type InputFile, looksLikeElf, readBytes, unpackInput } from './files.js';
import { commandDeadline } from './limits.js';
import { digestLike, digestOf } from './loaded-parts.js';

export interface OpenOptions {
  readonly symbols?: string | undefined;
  readonly mcount?: readonly string[] | undefined;
  readonly table?: readonly string[] | undefined;
  /** Record kept beside the file. */
  readonly journal?: string | undefined;
}

export interface Opened {
  readonly input: InputFile;
  readonly image: ElfImage;
  readonly arch: Arch;
  /** Names that another file gives. */
  readonly symbols: SymbolTable | undefined;
  readonly program: Program;
  readonly sites: Sites;
  readonly record: FileRecord | null;
  /** True when the record is a file of its own. */
  readonly recordBeside: boolean;
  readonly recorded: VerifyOptions['recorded'];
  readonly module: string | null;
}

/** Node's own hash, several times faster than the portable one. */
export const hash: Sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** `name=` of `.modinfo`, else the file name of a `.ko`; null for what is no module. */
export function moduleName(image: ElfImage, path: string): string | null {
  const info = image.section('.modinfo');
  if (info) {
    const bytes = image.contents(info);
    for (let at = 0; at < bytes.length;) {
      const text = cString(bytes, at, bytes.length);
      if (text.startsWith('name=')) return text.slice(5);
      const end = bytes.indexOf(0, at);
      if (end < 0) break;
      at = end + 1;
    }
  }
  const match = /^(.+?)\.ko(\.(gz|xz|zst))?$/.exec(basename(path));
  return match ? match[1]!.replaceAll('-', '_') : null;
}

/**
 * Symbols from another file: an ELF file, or lines `address type name` (System.map,
 * /proc/kallsyms).
 */
async function readSymbols(path: string): Promise<SymbolTable> {
  const { bytes } = await unpackInput(readBytes(path));
  if (looksLikeElf(bytes)) {
    const table = readElf(bytes).symbols;
    if (table.count <= 1) throw new ElftraceError('bad-reference', `${path} has no symbols`, { file: path });
    return table;
  }
  return symbolTableOf(new TextDecoder().decode(bytes), path);
}

/**
 * Symbols that a stripped file points to: `.gnu_debugdata` inside it, or the file that
 * `.gnu_debuglink` names.
 */
async function findSymbols(image: ElfImage, path: string): Promise<SymbolTable | undefined> {
  if (image.section('.symtab')) return undefined;
  const mini = image.section('.gnu_debugdata');
  if (mini) {
    const { bytes } = await unpackInput(image.contents(mini));
    const table = readElf(bytes).symbols;
    if (table.count > 1) return table;
  }
  const link = image.section('.gnu_debuglink');
  if (link) {
    const name = cString(image.contents(link), 0, link.fileSize);
    if (name !== '' && !/[/\0]/.test(name)) {
      for (const folder of [dirname(path), join(dirname(path), '.debug'), join('/usr/lib/debug', dirname(path))]) {
        const candidate = join(folder, name);
        const table = candidate === path ? undefined : debugSymbols(candidate);
        if (table) return table;
      }
    }
  }
  return undefined;
}

/**
 * Symbols of a file that a link names. What is no such file is no help, and no fault of the file
 * that is opened.
 */
function debugSymbols(path: string): SymbolTable | undefined {
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) return undefined;
  try {
    const table = readElf(readBytes(path)).symbols;
    return table.count > 1 ? table : undefined;
  } catch (error) {
    if (error instanceof ElftraceError) return undefined;
    throw error;
  }
}

/** Symbols that the user names, or else those that the file points to. */
function symbolsFor(image: ElfImage, path: string, named: string | undefined): Promise<SymbolTable | undefined> {
  return named === undefined ? findSymbols(image, path) : readSymbols(named);
}

/**
 * The record of a file beside it, where it has none inside; null also for the journal of an earlier
 * run, which is about that run's output: the original that it came from is not changed by it.
 */
function recordOutside(image: ElfImage, journal: string | undefined): FileRecord | null {
  if (journal === undefined || !existsSync(journal)) return null;
  const kept = recordBeside(image, readBytes(journal), digestLike(image.bytes));
  return kept && kept.sha256 === digestOf(image.bytes) ? null : kept;
}

/**
 * The pipeline, one step after the other, each with what is true behind it. The clock is looked at
 * between the steps: each takes time in proportion to the file.
 * @throws ElftraceError of every step, 'timeout'
 */
export async function open(input: InputFile, options: OpenOptions = {}): Promise<Opened> {
  const onTime = (step: string): void => {
    commandDeadline().check(step, { file: input.name });
  };

  onTime('reading the file');
  const image = readElf(input.bytes);
  // Every offset, size, link and index lies in the file: no later step checks again.

  const arch = await loadArch(image.header);
  // Only `arch` knows which machine it is.

  const inside = readRecord(image);
  const record = inside ?? recordOutside(image, options.journal);
  // What was changed before is known. What stands in the file is said by its bytes alone.

  const symbols = await symbolsFor(image, input.path, options.symbols);
  const entries = inside ? enabledEntries(inside) : [];
  const names = { ...(options.mcount ? { mcountNames: options.mcount } : {}), ...(symbols ? { symbols } : {}) };
  onTime('reading the symbols');
  const program = load(image, arch, { ...names, tracerNames: entries });
  // An address is code of one range, or is none; relocations are found by their places.

  const isRenamed = inside !== null && entries.length > 0 && disagreements(inside, image.bytes).length === 0;
  const original = isRenamed ? load(readElf(unpatched(image, null, digestLike(image.bytes))), arch, names) : null;
  onTime('reading the program');
  const sites = findSites(program, {
    record,
    ...(original ? { original } : {}),
    ...(options.table ? { tableSections: options.table } : {}),
  });
  // A site that names code has a shape and a state, or is unknown; sites are sorted by place.
  // They are not judged yet (`verify`), nor decided about (`planSites`); nothing is written.

  onTime('finding the sites');
  return {
    input,
    image,
    arch,
    symbols,
    program,
    sites,
    record,
    recordBeside: inside === null && record !== null,
    recorded: record ? recordedState(record, image.bytes) : undefined,
    module: moduleName(image, input.path),
  };
}
