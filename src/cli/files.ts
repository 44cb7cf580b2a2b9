/**
 * Files in and out: compressed modules and archives unpacked, directories walked; outputs compressed as the input was. How
 * they are written is `output/`'s.
 */
import * as fs from 'node:fs';
import { join, resolve } from 'node:path';
import { isArchive, memberBytes, readArchive } from '../elf/archive.js';
import { type CompressedForm, compressedForm, unpack } from '../elf/compressed.js';
import { ElftraceError } from '../errors.js';
import { type Output, writeOutputs } from '../output/commit.js';
import { noteInput } from '../output/inputs.js';
import { ioError } from '../output/target.js';
import { STANDARD_INPUT } from './standard-input.js';
import { claimStandardOutput } from './terminal.js';

export interface InputFile {
  /** For messages: the path, or `lib.a(member.o)`. */
  readonly name: string;
  readonly path: string;
  /** Unpacked bytes. */
  readonly bytes: Uint8Array;
  readonly form: CompressedForm;
  readonly member: string | null;
}

export function readBytes(path: string): Uint8Array {
  try {
    if (path === STANDARD_INPUT) return new Uint8Array(fs.readFileSync(0));
    const stats = fs.statSync(path, { bigint: true });
    if (stats.isDirectory()) throw new Error('it is a directory');
    noteInput(path, stats);
    const data = fs.readFileSync(path);
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  } catch (cause) {
    throw ioError(path, 'read', cause);
  }
}

/** The file, unpacked; for an archive its ELF members, one by one. */
export async function* readInputs(path: string): AsyncGenerator<InputFile> {
  const raw = readBytes(path);
  const { form, bytes } = compressedForm(raw) === 'none' ? { form: 'none' as const, bytes: raw } : await unpack(raw);
  if (!isArchive(bytes)) {
    yield { name: path, path, bytes, form, member: null };
    return;
  }
  for (const member of readArchive(bytes)) {
    if (member.kind !== 'file') continue;
    const contents = memberBytes(bytes, member);
    if (!looksLikeElf(contents)) continue;
    yield { name: `${path}(${member.name})`, path, bytes: contents, form, member: member.name };
  }
}

/** Exactly one file: archives are refused with the reason. */
export async function readInput(path: string): Promise<InputFile> {
  for await (const input of readInputs(path)) {
    if (input.member !== null) {
      throw new ElftraceError('unsupported-form', `${path} is an archive: extract its members and patch those`, {
        file: path,
      });
    }
    return input;
  }
  throw new ElftraceError('not-elf', `${path}: the archive has no ELF member`, { file: path });
}

export function looksLikeElf(bytes: Uint8Array): boolean {
  return bytes[0] === 0x7f && bytes[1] === 0x45 && bytes[2] === 0x4c && bytes[3] === 0x46;
}

/**
 * Files of the arguments; directories are walked, their files taken when they look like ELF or archives, or are named like modules.
 * @param failed  takes what cannot be read, so that the others go on; without it the first such thing is thrown
 * @throws ElftraceError 'no-match' when there is no such file
 */
export function expandPaths(paths: readonly string[], failed?: (path: string, error: ElftraceError) => void): string[] {
  const found: string[] = [];
  let failures = 0;
  const attempt = (path: string, work: () => void): void => {
    try {
      work();
    } catch (cause) {
      const error = ioError(path, 'read', cause);
      if (failed === undefined) throw error;
      failures++;
      failed(path, error);
    }
  };
  const walk = (folder: string): void => {
    for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      attempt(path, () => {
        if (entry.isDirectory()) walk(path);
        else if (entry.isFile() && (isNamedAsModule(path) || hasKnownMagic(path))) found.push(path);
      });
    }
  };
  for (const path of paths) {
    attempt(path, () => {
      if (path !== STANDARD_INPUT && fs.statSync(path).isDirectory()) walk(path);
      else found.push(path);
    });
  }
  if (found.length === 0 && failures === 0) {
    throw new ElftraceError('no-match', `no ELF file, archive or kernel module in ${paths.join(', ')}`, {
      file: paths[0]!,
    });
  }
  return found.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

/** What is named so and is none, because it is empty or damaged, is not passed over. */
function isNamedAsModule(path: string): boolean {
  return /\.ko(\.(gz|xz|zst))?$/.test(path);
}

function hasKnownMagic(file: string): boolean {
  const head = Buffer.alloc(8);
  const descriptor = fs.openSync(file, 'r');
  try {
    fs.readSync(descriptor, head, 0, 8, 0);
  } finally {
    fs.closeSync(descriptor);
  }
  return looksLikeElf(head) || isArchive(head);
}

/**
 * Compresses as the input was; xz and zstd through the tools of the system, since Node 20 has no encoder for them. What few commands need of Node is
 * loaded here: 3 ms of every start otherwise.
 */
function pack(bytes: Uint8Array, form: CompressedForm, path: string): Uint8Array {
  switch (form) {
    case 'none':
      return bytes;
    case 'gzip':
      return process.getBuiltinModule('node:zlib').gzipSync(bytes, { level: 9 });
    case 'xz':
    case 'zstd': {
      // What kernels unpack: CRC32 checks and a 2 MiB dictionary for xz, no long window for zstd.
      const [program, args] =
        form === 'xz' ? ['xz', ['--check=crc32', '--lzma2=dict=2MiB', '-c']] : (['zstd', ['-19', '-q', '-c']] as const);
      const { spawnSync } = process.getBuiltinModule('node:child_process');
      const result = spawnSync(program as string, [...(args as readonly string[])], {
        input: bytes,
        maxBuffer: 1 << 30,
      });
      if (result.error || result.status !== 0) {
        throw new ElftraceError(
          'unsupported-form',
          `${path} would have to be ${form}-compressed as its input was, and the program '${String(program)}' is not to be had; ` +
            'name an output without compression with --no-compress',
          { file: path },
        );
      }
      return result.stdout;
    }
    default:
      return form satisfies never;
  }
}

export interface WriteTarget {
  readonly output: string;
  /** Input whose mode and owner the output gets. */
  readonly like: string;
  readonly form: CompressedForm;
}

/** An output of `writeOutputs`: like its input in mode, owner and compression. */
export function outputLike({ output, like, form }: WriteTarget, bytes: Uint8Array, executable = false): Output {
  return {
    path: output,
    bytes: pack(bytes, form, output),
    like,
    executable,
    replacesInput: sameFile(like, output),
  };
}

/**
 * Writes one output.
 * @param executable  who may read it may run it
 * @returns notices for the user
 */
export async function writeOutput(target: WriteTarget, bytes: Uint8Array, executable = false): Promise<string[]> {
  return writeOutputs([outputLike(target, bytes, executable)]);
}

/** Where a patch goes; refuses to write the input without --in-place. */
export function outputPath(input: string, output: string | undefined, inPlace: boolean): string {
  if (inPlace) {
    if (input === STANDARD_INPUT) throw new ElftraceError('usage', '--in-place needs a file: standard input is none');
    if (output !== undefined && !sameFile(input, output)) {
      throw new ElftraceError('usage', '--in-place and -o name different files', { file: output });
    }
    return input;
  }
  if (output === undefined) {
    throw new ElftraceError('usage', 'name an output with -o OUT, or change the file itself with --in-place', {
      file: input,
    });
  }
  if (output === '-') {
    claimStandardOutput();
    return output;
  }
  if (sameFile(input, output)) {
    throw new ElftraceError('usage', `${output} is the input: use --in-place to change it`, { file: output });
  }
  return output;
}

function sameFile(a: string, b: string): boolean {
  if (a === STANDARD_INPUT || b === '-') return false;
  if (resolve(a) === resolve(b)) return true;
  try {
    const first = fs.statSync(a);
    const second = fs.statSync(b);
    return first.dev === second.dev && first.ino === second.ino;
  } catch {
    return false;
  }
}
