/** What `elftrace run` is given to run: read, and told which machine it is for. */
import { resolve } from 'node:path';
import type { Arch } from '../machine/arch.js';
import { loadArch } from '../targets.js';
import { readElf } from '../elf/read.js';
import type { IrEmulation } from '../emulator/index.js';
import { isScript } from '../guest/index.js';
import { ElftraceError } from '../errors.js';
import { visibleLine } from '../visible.js';
import { pathInTree } from '../output/guest-files.js';
import { load } from '../program/program.js';
import type { RunRequest } from '../running/execute.js';
import { interpreterOfScript, type RunImage } from '../running/image.js';
import { type InputFile, readInput } from './files.js';
import { STANDARD_INPUT } from './standard-input.js';

/** The arguments that say what is run. */
export interface ImageArguments {
  readonly path: string;
  readonly arguments: readonly string[];
  readonly cpu?: string | undefined;
  readonly root?: string | undefined;
  readonly write?: string | undefined;
  readonly compare?: string | undefined;
  readonly call?: string | undefined;
}

/** An image that is to run, and its file. */
export interface Loaded extends RunImage {
  readonly input: InputFile;
  /** The script that the image executes, and what it is given; null: it was asked for itself. */
  readonly script: { readonly path: string; readonly name: string; readonly argv: readonly string[] } | null;
}

/**
 * The emulation that tells processes of this processor.
 * @throws ElftraceError 'usage' for a name that the machine does not have
 */
function emulationOf(arch: Arch, emulation: IrEmulation, cpu: string | undefined): IrEmulation {
  if (cpu === undefined) return emulation;
  const { cpus = [] } = emulation;
  const chosen = cpus.find(({ name }) => name === cpu);
  if (chosen) return chosen.emulation();
  const names = cpus.map(({ name, title }) => `${name} (${title})`).join(', ');
  throw new ElftraceError('usage', `--cpu ${cpu}: ${arch.target.title} has ${names === '' ? 'one processor' : names}`);
}

/**
 * Reads what is to run: an image, or the program that executes a script.
 * @throws ElftraceError also 'unsupported-form' for what cannot run, and for scripts where an
 *   option is about one image
 */
export async function loadImage(
  args: ImageArguments,
  request: Pick<RunRequest, 'files' | 'directory'>,
): Promise<Loaded> {
  const { path } = args;
  const input = await readInput(path, 'read');
  if (input.form !== 'none' || !isScript(input.bytes)) return { ...(await imageOf(input, args.cpu)), script: null };
  if (args.compare !== undefined || args.call !== undefined) {
    const why = 'this is a script: --compare and --call are about one program, which a script is run by';
    throw new ElftraceError('unsupported-form', why, { file: path });
  }
  const name = nameInTree(args);
  const { file, args: argv } = interpreterOfScript(input.bytes, name, args.arguments, request);
  const program: InputFile = { ...input, name: visibleLine(file.path), path: file.path, bytes: file.bytes };
  return { ...(await imageOf(program, args.cpu)), script: { path: file.path, name: name!, argv } };
}

/** Where the file is in the tree of the program; null: it is not there. */
function nameInTree({ path, root, write }: ImageArguments): string | null {
  if (path === STANDARD_INPUT || root === undefined) return null;
  const inside = pathInTree(path, root) ?? pathInTree(path, write);
  if (inside !== null) return inside;
  return resolve(root) === '/' ? resolve(path) : null;
}

async function imageOf(input: InputFile, cpu: string | undefined): Promise<Omit<Loaded, 'script'>> {
  const image = readElf(input.bytes);
  const arch = await loadArch(image.header);
  const { emulation } = arch;
  if (emulation.kind === 'none') {
    throw new ElftraceError('unsupported-form', `${arch.target.title}: ${emulation.reason}`, { file: input.path });
  }
  return { input, image, arch, emulation: emulationOf(arch, emulation, cpu), program: load(image, arch) };
}
