/**
 * What of the code of a program, its loader and its libraries the emulator does not do, looked for
 * before it runs. The libraries are those below a tree, where a loader would find them.
 */
import { targetOf } from '../targets.js';
import { readElf } from '../elf/read.js';
import { neededLibraries } from '../elf/needed.js';
import type { ElfImage } from '../elf/image.js';
import { type IrEmulation, scanCode, type ScanResult } from '../emulator/index.js';
import { type FileSystem, interpreterPath, type SystemCall, systemCalls } from '../guest/index.js';
import type { Arch } from '../machine/arch.js';
import { load, type Program } from '../program/program.js';
import type { Address } from '../units.js';
import type { RunImage } from './image.js';

/** Most bytes of a library. */
const LIBRARY_MAX = 0x2000_0000;
const FOLDERS = ['/lib', '/usr/lib', '/lib64', '/usr/lib64', '/usr/local/lib'];

export interface ScanRequest extends RunImage {
  /** The name of the program. */
  readonly name: string;
  /** The tree with the libraries; undefined: there is none. */
  readonly files: FileSystem | undefined;
}

/** One file that was looked at. */
export interface ScannedFile {
  /** As it was given, or its path in the tree. */
  readonly name: string;
  readonly result: ScanResult;
  /** `name+0x10` of an address; empty where no symbol covers it. */
  readonly nameOf: (address: Address) => string;
}

export interface ScanReport {
  readonly files: readonly ScannedFile[];
  /** Libraries that were not found: their code was not looked at. */
  readonly missing: readonly string[];
  readonly calls: readonly SystemCall[];
}

/** Looks at one file. */
function scanned(name: string, program: Program, arch: Arch, { lifter }: IrEmulation): ScannedFile {
  const starts = new Set<bigint>();
  const { symbols } = program;
  for (let symbol = 1; symbol < symbols.count; symbol++) {
    const place = arch.abi.codePlace(program.image, symbol, symbols);
    if (place) starts.add(place.value);
  }
  const ranges = program.code.map(({ address, bytes }) => ({ address, bytes }));
  return {
    name,
    result: scanCode(lifter, arch.abi.syscall, ranges, starts),
    nameOf: (address) => {
      const range = program.codeAt(address);
      return range ? program.describe(range, address) : '';
    },
  };
}

/** An image of the tree for this machine; null: there is none at this path. */
function imageAt(path: string, files: FileSystem, arch: Arch): ElfImage | null {
  const file = files.open(path);
  if (typeof file === 'string') return null;
  try {
    if (file.status.sizeBytes > LIBRARY_MAX) return null;
    const image = readElf(file.read(0, LIBRARY_MAX));
    return targetOf(image.header) === arch.target.id ? image : null;
  } catch {
    // A linker script, say.
    return null;
  } finally {
    file.close();
  }
}

/** The folders of libraries, with those of systems that have several machines in one tree. */
function foldersOf(files: FileSystem): readonly string[] {
  return FOLDERS.flatMap((folder) => {
    const names = files.list(folder);
    const own = typeof names === 'string' ? [] : names.filter((each) => /-linux-(gnu|musl)/.test(each));
    return [folder, ...own.map((each) => `${folder}/${each}`)];
  });
}

/** The loader and the libraries, each once, in the order in which they are asked for. */
function librariesOf({ image, arch, files }: ScanRequest): { found: Map<string, ElfImage>; missing: string[] } {
  const found = new Map<string, ElfImage>();
  const missing: string[] = [];
  const seen = new Set<string>();
  const folders = files ? foldersOf(files) : [];
  const look = (name: string): void => {
    const base = name.replace(/^.*\//, '');
    if (seen.has(base)) return;
    seen.add(base);
    const paths = name.includes('/') ? [name.startsWith('/') ? name : `/${name}`] : folders.map((each) => `${each}/${name}`); // prettier-ignore
    for (const path of files ? paths : []) {
      const library = imageAt(path, files!, arch);
      if (!library) continue;
      found.set(path, library);
      for (const each of neededLibraries(library)) look(each);
      return;
    }
    missing.push(name);
  };
  const loader = interpreterPath(image);
  if (loader !== null) look(loader);
  for (const each of neededLibraries(image)) look(each);
  return { found, missing };
}

/** Looks at the program, its loader and its libraries; runs nothing. */
export function scanProgram(request: ScanRequest): ScanReport {
  const { name, program, arch, emulation } = request;
  const { found, missing } = librariesOf(request);
  const files = [scanned(name, program, arch, emulation)];
  for (const [path, image] of found) files.push(scanned(path, load(image, arch), arch, emulation));
  return { files, missing, calls: systemCalls(emulation.process) };
}
