/**
 * Compressed modules of a tree, unpacked by the programs of the system, which need a half (xz) to a
 * twentieth (zstd) of the processor time that the packages need. A process takes many files: one
 * for each costs more than it saves.
 *
 * Nothing here decides about a file. What a program gave is taken where it ended well and gave for
 * all files together what they state of their sizes; everything else is left to `unpack`, whose
 * errors are those that users see.
 */
import * as fs from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { type CompressedForm, compressedForm, statedSize } from '../elf/compressed.js';
import { noteInput } from '../output/inputs.js';
import { commandDeadline, commandLimits } from './limits.js';

/** Files of one process. A start costs as much as several small files: this process is copied. */
const BATCH = 128;
/** Other files of one portion. */
const PLAIN_BATCH = 8;
/** Most that one process may give: so much is in memory besides the file that is judged. */
const BATCH_BYTES = 64 << 20;
/** Compressed files that there must be: for fewer the ordinary way is as fast. */
const FEW = 8;
/** After so long something is wrong with the program. */
const PATIENCE_MS = 60_000;

const programs: ReadonlyMap<CompressedForm, string> = new Map([
  ['gzip', 'gzip'],
  ['xz', 'xz'],
  ['zstd', 'zstd'],
]);

interface Packed {
  readonly path: string;
  readonly form: CompressedForm;
  /** That it states, and that its program must give. */
  readonly size: number;
}

interface Ready {
  readonly form: CompressedForm;
  readonly bytes: Uint8Array;
}

const ready = new Map<string, Ready>();

/** What `unpackAhead` has of a file. It is given away once. */
export function takeUnpacked(path: string): Ready | null {
  const found = ready.get(path) ?? null;
  ready.delete(path);
  return found;
}

const isNamedCompressed = (path: string): boolean => /\.(gz|xz|zst)$/.test(path);

/**
 * Paths in portions, each for one thread: as many compressed files as one process unpacks, and some
 * others, because a message to a thread costs what a tenth of a small module does.
 * @param jobs  threads that shall all have something to do until the end
 */
export function portions(paths: readonly string[], jobs: number, system: boolean): (readonly string[])[] {
  const packed = system ? paths.filter(isNamedCompressed).length : 0;
  const fair = jobs === 1 ? BATCH : Math.max(4, Math.ceil(packed / (4 * jobs)));
  const mostPacked = packed < FEW ? 1 : Math.min(BATCH, fair);
  const mostPlain = jobs === 1 ? 1 : Math.min(PLAIN_BATCH, Math.max(1, Math.floor(paths.length / (16 * jobs))));
  const out: string[][] = [];
  let isOpenPacked = false;
  for (const path of paths) {
    const isPacked = packed >= FEW && isNamedCompressed(path);
    const last = out.at(-1);
    const most = isPacked ? mostPacked : mostPlain;
    if (last !== undefined && isPacked === isOpenPacked && last.length < most) last.push(path);
    else out.push([path]);
    isOpenPacked = isPacked;
  }
  return out;
}

/** Unpacks what programs of the system can of the files of a portion. */
export function unpackAhead(paths: readonly string[]): void {
  ready.clear();
  if (paths.length < 2) return;
  const packed = paths.filter(isNamedCompressed).map(packedFile);
  let room = BATCH_BYTES;
  for (const [form, name] of programs) {
    const files: Packed[] = [];
    for (const file of packed) {
      if (file?.form !== form || file.size > room) continue;
      room -= file.size;
      files.push(file);
    }
    if (files.length > 1) runProgram(name, files);
  }
}

/** Null: not a file, not compressed, more than is allowed, or without a size that it states. */
function packedFile(path: string): Packed | null {
  try {
    const stats = fs.statSync(path, { bigint: true });
    if (!stats.isFile() || stats.size > Math.min(BATCH_BYTES, commandLimits().file)) return null;
    noteInput(path, stats);
    const bytes = fs.readFileSync(path);
    const size = statedSize(bytes, commandLimits());
    return size === null ? null : { path, form: compressedForm(bytes), size };
  } catch {
    // The ordinary way says what it is.
    return null;
  }
}

function runProgram(name: string, files: readonly Packed[]): void {
  const program = programPath(name);
  if (program === null) return;
  const size = files.reduce((sum, file) => sum + file.size, 0);
  const { spawnSync } = process.getBuiltinModule('node:child_process');
  // Each name is a file of its own for the program: what is wrong with one reaches no other. None
  // of the variables that change what these programs do (XZ_OPT, GZIP) is handed on.
  const { status, stdout } = spawnSync(program, ['-dc', '--', ...files.map(({ path }) => path)], {
    env: { LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'ignore'],
    maxBuffer: size,
    timeout: Math.max(1, Math.min(commandDeadline().remaining(), PATIENCE_MS)),
    killSignal: 'SIGKILL',
  });
  if (status !== 0 || stdout.length !== size) return;
  let at = 0;
  for (const { path, form, size: own } of files) {
    ready.set(path, { form, bytes: new Uint8Array(stdout.subarray(at, at + own)) });
    at += own;
  }
}

/** Where PATH has it; folders that are named from where the command stands are passed over. */
function programPath(name: string): string | null {
  for (const folder of (process.env['PATH'] ?? '').split(':')) {
    if (!isAbsolute(folder)) continue;
    const path = join(folder, name);
    try {
      fs.accessSync(path, fs.constants.X_OK);
      if (fs.statSync(path).isFile()) return path;
    } catch {
      continue;
    }
  }
  return null;
}
