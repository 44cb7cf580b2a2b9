/**
 * Finds the programs and libraries that a trace names: where they were, below other roots, or by
 * name in them. A file is the right one if it is what was patched, or if its record says that it
 * was (RT-41); its name alone proves nothing.
 */
import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { type CodeRange, sourceLines } from '../elf/debug-lines.js';
import { isBadDebugInfo } from '../elf/dwarf.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { type SourcePlace, TracedObject } from '../native/objects.js';
import type { ThreadHeader } from '../native/reader.js';
import { revert } from '../patch/revert.js';
import { readRecord } from '../record/journal.js';
import type { Address } from '../units.js';
import { readBytes } from './files.js';
import { commandDeadline, commandLimits } from './limits.js';
import { hash } from './hash.js';
import { open, type Opened } from './open.js';

export interface ObjectPlaces {
  /** Files that may be it, whatever the trace says. */
  readonly given: readonly string[];
  readonly roots: readonly string[];
  /** The directory that the trace lies in. */
  readonly beside: string;
  readonly sources: boolean;
  /** Names of a program that has none. */
  readonly symbols: string | undefined;
}

/** Files that are looked at below roots, at most. */
const MOST_FILES = 200_000;

const NT_GNU_BUILD_ID = 3;

/** A file as it was before it was patched, where it is the one with this sum; else null. */
function originalOf(bytes: Uint8Array, id: string): Uint8Array | null {
  try {
    if (hash(bytes) === id) return bytes;
    const image = readElf(bytes);
    return readRecord(image)?.sha256 === id ? revert(image, null, hash) : null;
  } catch (error) {
    if (error instanceof ElftraceError) return null;
    throw error;
  }
}

/** The debugging information of the same build, below one of some roots; null: it is not there. */
export function debugFileOf(image: ElfImage, roots: readonly string[]): string | null {
  const note = image.notes().find(({ owner, type }) => owner === 'GNU' && type === NT_GNU_BUILD_ID);
  if (note === undefined) return null;
  const id = Buffer.from(note.descriptor).toString('hex');
  const name = join('usr/lib/debug/.build-id', id.slice(0, 2), `${id.slice(2)}.debug`);
  const paths = roots.map((root) => join(root, name));
  return paths.find((path) => fs.statSync(path, { throwIfNoEntry: false })?.isFile() === true) ?? null;
}

export class ObjectFinder {
  private count = 0;
  /** Files below the roots by name; made when it is asked for. */
  private byName: Map<string, string[]> | null = null;

  constructor(private readonly places: ObjectPlaces) {}

  /** @returns null: it is not there */
  async find(header: ThreadHeader): Promise<TracedObject | null> {
    for (const path of this.candidates(header)) {
      if (fs.statSync(path, { throwIfNoEntry: false })?.isFile() !== true) continue;
      const bytes = originalOf(readBytes(path), header.id);
      if (bytes === null) continue;
      const found = await this.opened(header, path, bytes);
      this.count += found.count;
      return found;
    }
    return null;
  }

  /** Near places first. */
  private *candidates({ object }: ThreadHeader): Generator<string> {
    const { given, roots, beside } = this.places;
    yield* given;
    if (object === '') return;
    // Where the program ran comes last, if that is another machine.
    for (const root of roots) yield join(root, object);
    yield* this.named(basename(object));
    yield object;
    yield join(beside, object);
    yield join(beside, basename(object));
  }

  private named(name: string): readonly string[] {
    if (this.byName === null) {
      this.byName = new Map();
      let left = MOST_FILES;
      for (const root of this.places.roots) left = this.gather(root, this.byName, left);
    }
    return this.byName.get(name) ?? [];
  }

  private gather(folder: string, into: Map<string, string[]>, most: number): number {
    let left = most;
    let entries: fs.Dirent[];
    try {
      entries = fs.readdirSync(folder, { withFileTypes: true });
    } catch {
      // What may not be read is no place of ours.
      return left;
    }
    for (const entry of entries) {
      if (left <= 0) break;
      const path = join(folder, entry.name);
      if (entry.isDirectory()) left = this.gather(path, into, left);
      else if (entry.isFile()) {
        left--;
        into.set(entry.name, [...(into.get(entry.name) ?? []), path]);
      }
    }
    return left;
  }

  private async opened(header: ThreadHeader, path: string, bytes: Uint8Array): Promise<TracedObject> {
    const image = readElf(bytes);
    const debug =
      image.section('.symtab') && image.section('.debug_line') ? null : debugFileOf(image, [...this.places.roots, '/']);
    const isStripped = image.section('.symtab') === undefined;
    // Libraries have no entry, and other names.
    const given = image.header.entry === 0n ? undefined : this.places.symbols;
    const symbols = isStripped ? (given ?? debug ?? undefined) : undefined;
    const opened = await open({ name: path, path, bytes, form: 'none', member: null, wrapped: [] }, { symbols });
    const plain = new TracedObject(header.id, header.object, opened.sites, this.count);
    if (!this.places.sources) return plain;
    return withSources(plain, opened, debug);
  }
}

/**
 * The same object with the lines of its functions.
 * @param debug  file with the debugging information; null: its own
 */
export async function withSources(
  { id, path, first, functions }: TracedObject,
  { sites }: Opened,
  debug: string | null,
): Promise<TracedObject> {
  const from = debug === null ? sites.program.image : readElf(readBytes(debug));
  const lines = await linesOf(
    from,
    functions.map(({ address: start, end }) => ({ start, end })),
  );
  return new TracedObject(id, path, sites, first, (address) => lines.get(address) ?? null);
}

/** Lines of addresses; damage in debugging information is no fault of a trace. */
async function linesOf(image: ElfImage, functions: readonly CodeRange[]): Promise<ReadonlyMap<Address, SourcePlace>> {
  const sorted = [...functions].sort((a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0));
  try {
    return await sourceLines(image, sorted, { ...commandLimits(), deadline: commandDeadline() });
  } catch (error) {
    if (isBadDebugInfo(error)) return new Map();
    throw error;
  }
}
