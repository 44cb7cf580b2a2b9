/** An image that is run: what its own loader needs of it, and what its addresses are called. */
import type { Arch } from '../machine/arch.js';
import { targetOf } from '../targets.js';
import { PT_LOAD } from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import type { IrEmulation } from '../emulator/index.js';
import {
  executableFile,
  type ExecutableFile,
  type FileSystem,
  interpreterPath,
  type Process,
  type RelativeRelocation,
  throughScripts,
} from '../guest/index.js';
import { ElftraceError, hex } from '../errors.js';
import { keptTables } from '../program/kept-tables.js';
import type { Program } from '../program/program.js';
import { inPlaceAddend } from '../relocs/read.js';
import type { Address } from '../units.js';
import { visibleLine } from '../visible.js';

export interface RunImage {
  readonly image: ElfImage;
  readonly arch: Arch;
  readonly emulation: IrEmulation;
  readonly program: Program;
}

/** Most bytes of a dynamic loader; those of the C libraries have a quarter of a megabyte. */
const INTERPRETER_MAX = 0x400_0000;

/**
 * The dynamic loader that the program asks for, out of the tree of `--root`; null: it is static.
 * @throws ElftraceError 'unsupported-form' when there is no tree, or no such file for this machine
 */
export function interpreterOf({ image, arch }: RunImage, files: FileSystem | undefined): ElfImage | null {
  const path = interpreterPath(image);
  if (path === null) return null;
  const text = visibleLine(path);
  if (!files) {
    const why = `the program is dynamic: --root DIR names the tree with its loader ${text} and its libraries`;
    throw new ElftraceError('unsupported-form', why);
  }
  const file = files.open(path.startsWith('/') ? path : `/${path}`);
  if (typeof file === 'string') {
    throw new ElftraceError('unsupported-form', `the program's loader ${text} is not in the tree of --root (${file})`);
  }
  try {
    if (file.status.sizeBytes > INTERPRETER_MAX)
      throw new ElftraceError('unsupported-form', `${text} is no loader: too large`);
    const loader = readElf(file.read(0, INTERPRETER_MAX));
    if (targetOf(loader.header) !== arch.target.id) {
      throw new ElftraceError('unsupported-form', `the program's loader ${text} is for another machine`);
    }
    return loader;
  } finally {
    file.close();
  }
}

/**
 * The program that executes a script, out of the tree of `--root`, and what it is given.
 * @param name  the script's path in that tree; null: it is in none
 * @param args  those of the script
 * @param directory  where the program begins
 * @throws ElftraceError 'unsupported-form' where Linux would not execute it, with the error's name
 */
export function interpreterOfScript(
  bytes: Uint8Array,
  name: string | null,
  args: readonly string[],
  { files, directory }: { readonly files: FileSystem | undefined; readonly directory: string },
): { readonly file: ExecutableFile; readonly args: readonly string[] } {
  if (!files) {
    const why = 'this is a script: --root DIR names the tree with the program of its first line';
    throw new ElftraceError('unsupported-form', why);
  }
  if (name === null || typeof files.status(name, true) === 'string') {
    const why = 'this is a script, and not in the tree of --root, where the program of its first line would read it';
    throw new ElftraceError('unsupported-form', why);
  }
  let wanted = name;
  const found = throughScripts({ path: name, bytes }, name, [name, ...args], (each) => {
    wanted = each;
    return executableFile(files, each.startsWith('/') ? each : `${directory}/${each}`);
  });
  if (typeof found !== 'string') return found;
  const why = wanted === name ? 'its first line' : `${visibleLine(wanted)} in the tree of --root`;
  throw new ElftraceError('unsupported-form', `the script cannot be executed: ${why} (${found})`);
}

/**
 * What a dynamic linker would write without knowing other images: words that hold addresses of this
 * one. What a linker kept of its own work (--emit-relocs) is done already, and of debug sections it
 * names places that are not loaded. `leftOut` is called for each relocation of a dynamic table that
 * asks for more.
 */
export function* relocationsOf({ image, arch }: RunImage, leftOut: () => void): Generator<RelativeRelocation> {
  const { relative, word } = arch.relocationRoles;
  const SHF_ALLOC = 2n;
  const kept = new Set(keptTables(image));
  for (const table of image.relocations) {
    if (kept.has(table)) continue;
    const isDynamic = table.section === -1 || ((image.sections[table.section]?.flags ?? 0n) & SHF_ALLOC) !== 0n;
    for (let row = 0; row < table.count; row++) {
      const address = table.offset[row]!;
      const addend = (): bigint =>
        table.addends === 'row' ? table.addend[row]! : inPlaceAddend(image, table, row, arch.target.wordBytes);
      if (table.form === 'relr' || table.type[row] === relative) yield { address, addend: addend() };
      else if (table.type[row] === word && table.symbols !== null) {
        const symbol = table.symbol[row]!;
        if (symbol !== 0 && table.symbols.sectionIndex[symbol] !== 0) {
          yield { address, addend: table.symbols.value[symbol]! + addend() };
        } else if (isDynamic && symbol !== 0) leftOut();
      } else if (isDynamic && table.type[row] !== 0) leftOut();
    }
  }
}

/** `name+0x10` of an address of the running image; '' where no function is. */
export function nameAt(loaded: RunImage, guest: Process, address: bigint): string {
  const range = loaded.program.codeAt(address - guest.bias);
  return range ? loaded.program.describe(range, address - guest.bias) : '';
}

/** The same without the distance from the function's start. */
export function functionName(loaded: RunImage, guest: Process, address: bigint): string {
  return nameAt(loaded, guest, address).replace(/\+0x[0-9a-f]+$/, '');
}

export function place(loaded: RunImage, guest: Process, address: bigint): string {
  const name = nameAt(loaded, guest, address);
  return name === '' ? hex(address) : `${hex(address)} (${name})`;
}

/**
 * Lowest address that a kernel has for itself. Source: Linux, CONFIG_PAGE_OFFSET of ppc32; on 64
 * bits the upper half.
 */
const kernelHalf = (wordBytes: 4 | 8): bigint => (wordBytes === 4 ? 0xc000_0000n : 1n << 63n);

/**
 * Where a kernel is linked; null for what is none. Its start expects a machine with nothing on it.
 * Objects that `load` laid out as a kernel's are programs all the same.
 */
export function kernelAddress({ image, program }: RunImage): Address | null {
  if (program.loadMap !== null && program.loadMap.original === null) return null;
  const loads = image.segments.filter(({ type, memorySize }) => type === PT_LOAD && memorySize > 0n);
  const [first] = loads.map(({ address }) => address).filter((address) => address >= kernelHalf(image.wordBytes));
  return first ?? null;
}
