/** Files beside a file that is opened: its symbols, its record. */
import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cString } from '../bytes.js';
import type { ElfImage, SymbolTable } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { recordBeside } from '../patch/undo.js';
import {
  type OpenedImage,
  type OpenedProgram,
  openImage,
  type OpenNames,
  openProgram,
  type OpenSources,
} from '../pipeline/open.js';
import type { FileRecord } from '../record/journal.js';
import { symbolTableOf } from '../program/symbols.js';
import { type InputFile, looksLikeElf, readBytes, unpackInput } from './files.js';
import { commandDeadline } from './limits.js';
import { digestLike, digestOf } from './loaded-parts.js';

export interface OpenOptions extends OpenNames {
  readonly symbols?: string | undefined;
  /** Record kept beside the file. */
  readonly journal?: string | undefined;
}

export interface Opened extends OpenedImage {
  readonly input: InputFile;
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

/** What is beside a file, for `pipeline/open.ts`; the clock is looked at between the steps. */
function sourcesOf({ path, name }: InputFile, options: OpenOptions, use: OpenSources['use']): OpenSources {
  return {
    path,
    symbolsOf: (image) => symbolsFor(image, path, options.symbols),
    recordOf: (image) => recordOutside(image, options.journal),
    digest: digestLike,
    use,
    onTime: (step) => {
      commandDeadline().check(step, { file: name });
    },
  };
}

/**
 * A file with its sites.
 * @param use  `read`: nothing is executed; what executes is half of a machine, and is not loaded
 * @throws ElftraceError of every step, 'timeout'
 */
export async function open(input: InputFile, options: OpenOptions = {}, use: 'read' | 'run' = 'run'): Promise<Opened> {
  return { input, ...(await openImage(input.bytes, options, sourcesOf(input, options, use))) };
}

/**
 * The same for who may do without its sites; nothing of it is executed.
 * @throws ElftraceError of every step, 'timeout'
 */
export function openToRead(input: InputFile, options: OpenOptions): Promise<OpenedProgram> {
  return openProgram(input.bytes, options, sourcesOf(input, options, 'read'));
}
