/**
 * Files in and out: compressed modules and archives unpacked, directories walked; outputs
 * compressed as the input was. How they are written is `output/`'s.
 */
import * as fs from 'node:fs';
import { join, resolve } from 'node:path';
import type { Pieces } from '../bytes.js';
import { isArchive, memberBytes, readArchive, streamArchive, type StreamedMember } from '../elf/archive.js';
import { type CompressedForm, compressedForm, unpack, type Unpacked, unpackPieces } from '../elf/compressed.js';
import { isDeb, isRpm } from '../elf/package-heads.js';
import { unwrapKernel } from '../elf/wrapped.js';
import { ElftraceError } from '../errors.js';
import { limitExceeded } from '../limits/index.js';
import { type Output, writeOutputs } from '../output/commit.js';
import { noteInput } from '../output/inputs.js';
import { ioError } from '../output/target.js';
import { commandDeadline, commandLimits } from './limits.js';
import { STANDARD_INPUT } from './standard-input.js';
import { takeUnpacked } from './unpacked.js';
import { claimStandardOutput } from './terminal.js';

export interface InputFile {
  /** For messages: the path, `lib.a(member.o)`, or `vmlinuz(bzImage, xz)`. */
  readonly name: string;
  readonly path: string;
  /** Unpacked bytes. */
  readonly bytes: Uint8Array;
  readonly form: CompressedForm;
  readonly member: string | null;
  /**
   * What was around it, the outermost first, where it is the ELF file of a kernel as it is booted;
   * else empty.
   */
  readonly wrapped: readonly string[];
}

/** Bytes that are asked for at once where it is not known how many there are. */
const READ_PIECE = 1 << 20;
/** The same at the end of a file: a megabyte for each file of a tree costs more than the file. */
const END_PIECE = 4096;

/**
 * Room for so many bytes, without zeros: only what was read is given away.
 * @throws ElftraceError 'limit-exceeded' where an array has no such size, or there is no memory
 */
function roomFor(size: number, path: string): Uint8Array {
  try {
    return new Uint8Array(Buffer.allocUnsafeSlow(size).buffer);
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw new ElftraceError('limit-exceeded', `${path} has ${size} bytes: more than fit into memory at once`, {
      file: path,
      value: size,
    });
  }
}

/**
 * Everything that a descriptor gives.
 * @param expected  how much that probably is
 * @throws ElftraceError 'limit-exceeded' before more is in memory than is allowed, 'timeout'
 *   between two pieces
 */
function readAll(descriptor: number, path: string, expected: number): Uint8Array {
  const most = commandLimits().file;
  const deadline = commandDeadline();
  const tooLarge = (size: number): ElftraceError => limitExceeded('file', path, most, { file: path, value: size });
  if (expected > most) throw tooLarge(expected);
  const whole = roomFor(expected, path);
  const more: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    deadline.check(`reading ${path}`, { file: path });
    const inside = size < expected;
    // Behind what is expected there is nothing as a rule.
    const further = expected > 0 && more.length === 0 ? END_PIECE : READ_PIECE;
    const piece = inside ? whole.subarray(size, size + 64 * READ_PIECE) : new Uint8Array(further);
    const count = readSome(descriptor, piece);
    if (count === 0) break;
    size += count;
    if (size > most) throw tooLarge(size);
    if (!inside) more.push(piece.subarray(0, count));
  }
  if (more.length === 0) return whole.subarray(0, size);
  const out = roomFor(size, path);
  let at = 0;
  for (const piece of [whole.subarray(0, Math.min(expected, size)), ...more]) {
    out.set(piece, at);
    at += piece.length;
  }
  return out;
}

/** What is there, waiting for it; 0 at the end. */
function readSome(descriptor: number, into: Uint8Array): number {
  for (;;) {
    try {
      return fs.readSync(descriptor, into, 0, into.length, null);
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : '';
      if (code === 'EOF') return 0;
      if (code !== 'EAGAIN') throw error;
      commandDeadline().check('waiting for input');
      // Not too often: the writer needs the processor, too.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

/**
 * Standard input once more, so that reading returns where there is nothing yet; -1 where the system
 * does not do that.
 */
function withoutWaiting(): number {
  const stats = fs.fstatSync(0);
  // Of a file this would be the beginning, and not where standard input stands.
  if (!stats.isFIFO() && !stats.isCharacterDevice()) return -1;
  try {
    return fs.openSync('/proc/self/fd/0', fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  } catch {
    return -1;
  }
}

/** The whole file, within the limits of the command. */
export function readBytes(path: string): Uint8Array {
  return readWhole(path, noteInput);
}

/** The same of a file that is no input of the command. */
export function readUnnoted(path: string): Uint8Array {
  return readWhole(path, () => undefined);
}

function readWhole(path: string, note: typeof noteInput): Uint8Array {
  let descriptor = -1;
  try {
    if (path === STANDARD_INPUT) {
      descriptor = withoutWaiting();
      return readAll(Math.max(descriptor, 0), 'standard input', 0);
    }
    const stats = fs.statSync(path, { bigint: true });
    if (stats.isDirectory()) throw new Error('it is a directory');
    note(path, stats);
    descriptor = fs.openSync(path, 'r');
    return readAll(descriptor, path, stats.isFile() ? Number(stats.size) : 0);
  } catch (cause) {
    if (cause instanceof ElftraceError) throw cause;
    throw ioError(path, 'read', cause);
  } finally {
    if (descriptor >= 0) fs.closeSync(descriptor);
  }
}

/**
 * Whether an xz stream is being unpacked whose contents are worked on meanwhile. The package that
 * unpacks xz works on one stream at a time: another one inside would wait for ever.
 */
let isInsideXz = false;

/**
 * Unpacks one layer of compression within the limits of the command.
 * @throws ElftraceError as `unpack`; 'unsupported-form' for xz data of a file inside xz data
 */
export async function unpackInput(bytes: Uint8Array): Promise<Unpacked> {
  if (isInsideXz && compressedForm(bytes) === 'xz') {
    throw new ElftraceError('unsupported-form', 'xz data of a file inside of xz data: unpack the outer one first', {
      reason: 'xz-inside-xz',
    });
  }
  return unpack(bytes, { ...commandLimits(), deadline: commandDeadline() });
}

const ELF_MAGIC = new Uint8Array([0x7f, 0x45, 0x4c, 0x46]);

/**
 * The ELF members of a compressed archive: one at a time is in memory. Null for what is compressed
 * and no archive.
 */
async function compressedMembers(path: string, raw: Uint8Array): Promise<AsyncGenerator<InputFile> | null> {
  const { ratio, unpacked } = commandLimits();
  const pieces = (): AsyncGenerator<Uint8Array> => unpackPieces(raw, { ratio, deadline: commandDeadline() });
  let head = new Uint8Array();
  for await (const piece of pieces()) {
    const joined = new Uint8Array(head.length + piece.length);
    joined.set(head);
    joined.set(piece, head.length);
    head = joined;
    if (head.length >= 8) break;
  }
  if (!isArchive(head)) return null;
  const form = compressedForm(raw);
  return insideXz(form === 'xz', membersOf());
  async function* membersOf(): AsyncGenerator<InputFile> {
    for await (const { name, bytes } of streamArchive(pieces(), ELF_MAGIC, unpacked)) {
      yield { name: `${path}(${name})`, path, bytes, form, member: name, wrapped: [] };
    }
  }
}

/**
 * ELF files of a package, and those in archives and compressed modules of it, one by one. Files
 * packed by xz come last: the package that unpacks xz works on one stream at a time, and waits for
 * ever for another one to end that is around it.
 */
async function* packageInputs(path: string, raw: Uint8Array): AsyncGenerator<InputFile> {
  const wanted = (name: string, first: Uint8Array): boolean =>
    looksLikeElf(first) || isArchive(first) || isNamedAsModule(name);
  const { unpacked } = commandLimits();
  const later: StreamedMember[] = [];
  let waiting = 0;
  const { packageFiles, packageForm } = await import('../elf/packages.js');
  const isXz = packageForm(raw) === 'xz';
  for await (const file of packageFiles(raw, wanted, { ...commandLimits(), deadline: commandDeadline() })) {
    if (isXz && compressedForm(file.bytes) === 'xz') {
      waiting += file.bytes.length;
      const what = `${path}: files in it that are packed by xz`;
      if (waiting > unpacked) throw limitExceeded('unpacked', what, unpacked, { file: path, value: waiting });
      later.push(file);
    } else yield* insideXz(isXz, fileOfPackage(path, file));
  }
  for (const file of later) yield* fileOfPackage(path, file);
}

/** Files that are worked on while what they come from is being unpacked. */
async function* insideXz(isXz: boolean, files: AsyncGenerator<InputFile>): AsyncGenerator<InputFile> {
  const before = isInsideXz;
  try {
    isInsideXz = isXz;
    yield* files;
  } finally {
    isInsideXz = before;
  }
}

async function* fileOfPackage(path: string, file: StreamedMember): AsyncGenerator<InputFile> {
  const { form, bytes } = await unpackInput(file.bytes);
  const whole = { path, form, wrapped: [] };
  if (!isArchive(bytes)) {
    yield { ...whole, name: `${path}(${file.name})`, bytes, member: file.name };
    return;
  }
  for (const member of readArchive(bytes)) {
    const contents = memberBytes(bytes, member);
    if (member.kind !== 'file' || !looksLikeElf(contents)) continue;
    const name = `${file.name}(${member.name})`;
    yield { ...whole, name: `${path}(${name})`, bytes: contents, member: name };
  }
}

/** The file, unpacked; for an archive or a package its ELF members, one by one. */
export async function* readInputs(path: string): AsyncGenerator<InputFile> {
  const ahead = takeUnpacked(path);
  // Whatever else may be inside goes the ordinary way.
  if (ahead !== null && looksLikeElf(ahead.bytes)) {
    yield { name: path, path, ...ahead, member: null, wrapped: [] };
    return;
  }
  const raw = readBytes(path);
  if (isRpm(raw) || isDeb(raw)) {
    yield* packageInputs(path, raw);
    return;
  }
  const members = compressedForm(raw) === 'none' ? null : await compressedMembers(path, raw);
  if (members !== null) {
    yield* members;
    return;
  }
  const { form, bytes } = await unpackInput(raw);
  if (!isArchive(bytes)) {
    const kernel = await unwrapKernel(bytes, { ...commandLimits(), deadline: commandDeadline() });
    if (kernel === null) yield { name: path, path, bytes, form, member: null, wrapped: [] };
    else {
      const wrapped = form === 'none' ? kernel.layers : [form, ...kernel.layers];
      yield { name: `${path}(${wrapped.join(', ')})`, path, bytes: kernel.bytes, form, member: null, wrapped };
    }
    return;
  }
  for (const member of readArchive(bytes)) {
    if (member.kind !== 'file') continue;
    const contents = memberBytes(bytes, member);
    if (!looksLikeElf(contents)) continue;
    yield { name: `${path}(${member.name})`, path, bytes: contents, form, member: member.name, wrapped: [] };
  }
}

/**
 * Exactly one file: archives are refused with the reason.
 * @param use  'write': the output would be such a file again, and none is wrapped again; 'read':
 *             nothing is written
 */
export async function readInput(path: string, use: 'read' | 'write' = 'write'): Promise<InputFile> {
  for await (const input of readInputs(path)) {
    if (input.member !== null) {
      throw new ElftraceError('unsupported-form', `${path} is an archive: extract its members and patch those`, {
        file: path,
      });
    }
    if (use === 'write' && input.wrapped.length > 0) {
      throw new ElftraceError(
        'unsupported-form',
        `${path} is ${input.wrapped.join(', ')} around an ELF file, and is not wrapped again: take that out with 'elftrace unwrap ${path} -o vmlinux', ` +
          'and work on it',
        { file: path, reason: 'wrapped-kernel', actual: input.wrapped.join(', ') },
      );
    }
    return input;
  }
  throw new ElftraceError('not-elf', `${path}: the archive has no ELF member`, { file: path });
}

export function looksLikeElf(bytes: Uint8Array): boolean {
  return ELF_MAGIC.every((byte, i) => byte === bytes[i]);
}

/**
 * Files of the arguments; directories are walked, their files taken when they look like ELF or
 * archives, or are named like modules.
 * @param failed  takes what cannot be read, so that the others go on; without it the first such
 *                thing is thrown
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

/**
 * Paths that a list names, one a line, or separated by NULs where it has any.
 * @param list  a file, or STANDARD_INPUT
 * @throws ElftraceError 'no-match' for a list that names none
 */
export function readFileList(list: string): string[] {
  const text = new TextDecoder().decode(readUnnoted(list));
  const paths = text.split(text.includes('\0') ? '\0' : '\n').filter((path) => path !== '');
  if (paths.length === 0) {
    const name = list === STANDARD_INPUT ? 'standard input' : list;
    throw new ElftraceError('no-match', `${name} names no file`, { file: list });
  }
  // A file of that name, as standard input is where the list itself comes from.
  return paths.map((path) => (path === '-' ? './-' : path));
}

function hasKnownMagic(file: string): boolean {
  const head = Buffer.alloc(8);
  const descriptor = fs.openSync(file, 'r');
  try {
    fs.readSync(descriptor, head, 0, 8, 0);
  } finally {
    fs.closeSync(descriptor);
  }
  return looksLikeElf(head) || isArchive(head) || isRpm(head);
}

/**
 * Compresses as the input was; xz and zstd through the tools of the system, since Node 20 has no
 * encoder for them. What few commands need of Node is loaded here: 3 ms of every start otherwise.
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
export function outputLike(
  { output, like, form }: WriteTarget,
  bytes: Uint8Array | (Pieces & { readonly bytes: Uint8Array }),
  executable = false,
): Output {
  return {
    path: output,
    bytes: form === 'none' ? bytes : pack('pieces' in bytes ? bytes.bytes : bytes, form, output),
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
