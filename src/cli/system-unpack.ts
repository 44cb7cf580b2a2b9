/**
 * Compressed modules of a tree, unpacked by the programs of the system, which need a half (xz) to a
 * twentieth (zstd) of the processor time that the packages need. A process takes many files: one
 * for each costs more than it saves.
 *
 * Nothing here decides about a file. What a program gave is taken where it ended well and gave for
 * all files together what they state of their sizes; everything else is left to `unpack`, whose
 * errors are those that users see.
 *
 * A program writes to a file that no folder has any more, not to a pipe: it unpacks the next
 * portion while this one is judged, and this thread, which is busy, would not empty a pipe.
 */
import type { ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { type CompressedForm, compressedForm, statedSize } from '../elf/compressed.js';
import { noteInput } from '../output/inputs.js';
import { namelessFile } from '../output/nameless.js';
import { commandDeadline, commandLimits } from './limits.js';
import { ready } from './unpacked.js';

/** Portions of which one is judged, one is ready or nearly so, and one is begun. */
const AHEAD = 3;
/** Files of one process. A start costs as much as several small files: this process is copied. */
const BATCH = 128;
/** Those of the first process. */
const FIRST_BATCH = 16;
/** Other files of one portion. */
const PLAIN_BATCH = 8;
/** Most that one process may give; `AHEAD` times as much is in temporary files. */
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

const isNamedCompressed = (path: string): boolean => /\.(gz|xz|zst)$/.test(path);

/** Whether files of these are unpacked by programs of the system. */
export function isUnpackedBySystem(paths: readonly string[], system: boolean): boolean {
  return system && paths.filter(isNamedCompressed).length >= FEW;
}

/**
 * Paths in portions, each for one thread: as many compressed files as one process unpacks, and some
 * others, because a message to a thread costs what a tenth of a small module does.
 * @param jobs  threads that shall all have something to do until the end
 */
export function portions(paths: readonly string[], jobs: number, system: boolean): (readonly string[])[] {
  const isPackedTree = isUnpackedBySystem(paths, system);
  const packed = isPackedTree ? paths.filter(isNamedCompressed).length : 0;
  const fair = jobs === 1 ? BATCH : Math.max(4, Math.ceil(packed / (4 * jobs)));
  // Of the first ones less: there is nothing to judge before they are there.
  let mostPacked = Math.min(FIRST_BATCH, fair);
  const mostPlain = jobs === 1 ? 1 : Math.min(PLAIN_BATCH, Math.max(1, Math.floor(paths.length / (16 * jobs))));
  const out: string[][] = [];
  let isOpenPacked = false;
  for (const path of paths) {
    const isPacked = isPackedTree && isNamedCompressed(path);
    const last = out.at(-1);
    const most = isPacked ? mostPacked : mostPlain;
    if (last !== undefined && isPacked === isOpenPacked && last.length < most) last.push(path);
    else {
      if (isPacked && isOpenPacked) mostPacked = Math.min(2 * mostPacked, fair, BATCH);
      out.push([path]);
    }
    isOpenPacked = isPacked;
  }
  return out;
}

/** Files of a portion that programs of the system unpack. */
class UnpackedPortion {
  readonly #children = new Set<ChildProcess>();
  readonly #descriptors: number[] = [];
  readonly #paths: readonly string[];
  /** Some programs were begun. */
  readonly isRunning: boolean;
  /** All programs have ended. */
  readonly done: Promise<unknown>;

  constructor(paths: readonly string[]) {
    this.#paths = paths;
    const running = paths.length < 2 ? [] : this.#begin();
    this.isRunning = running.length > 0;
    // What goes wrong here is left to the ordinary way, too.
    this.done = Promise.all(running).catch(() => undefined);
  }

  #begin(): Promise<void>[] {
    const packed = this.#paths.filter(isNamedCompressed).map(packedFile);
    let room = BATCH_BYTES;
    const running: Promise<void>[] = [];
    for (const [form, name] of programs) {
      const files: Packed[] = [];
      for (const file of packed) {
        if (file?.form !== form || file.size > room) continue;
        room -= file.size;
        files.push(file);
      }
      if (files.length > 1) running.push(this.#run(name, files));
    }
    return running;
  }

  async #run(name: string, files: readonly Packed[]): Promise<void> {
    const program = programPath(name);
    const descriptor = program === null ? null : namelessFile();
    if (program === null || descriptor === null) return;
    this.#descriptors.push(descriptor);
    const { spawn } = process.getBuiltinModule('node:child_process');
    // Each name is a file of its own for the program: what is wrong with one reaches no other. None
    // of the variables that change what these programs do (XZ_OPT, GZIP) is handed on.
    const child = spawn(program, ['-dc', '--', ...files.map(({ path }) => path)], {
      env: { LC_ALL: 'C' },
      stdio: ['ignore', descriptor, 'ignore'],
      timeout: Math.max(1, Math.min(commandDeadline().remaining(), PATIENCE_MS)),
      killSignal: 'SIGKILL',
    });
    this.#children.add(child);
    const status = await new Promise<number | null>((resolve) => {
      child.once('error', () => {
        resolve(null);
      });
      child.once('close', resolve);
    });
    this.#children.delete(child);
    const size = files.reduce((sum, file) => sum + file.size, 0);
    if (status !== 0 || fs.fstatSync(descriptor).size !== size) return;
    let at = 0;
    for (const { path, form, size: own } of files) {
      ready.set(path, { form, descriptor, at, size: own });
      at += own;
    }
  }

  /** Nothing of it is asked for any more. */
  async end(): Promise<void> {
    for (const child of this.#children) child.kill('SIGKILL');
    await this.done;
    for (const path of this.#paths) ready.delete(path);
    for (const descriptor of this.#descriptors) fs.closeSync(descriptor);
  }
}

/**
 * The same portions, each when what programs of the system can unpack of its files is there; those
 * of the next one run meanwhile.
 * @param pathsOf  files of a portion; none: nothing of it is unpacked
 */
export async function* unpackedAhead<Portion>(
  portions: Iterable<Portion>,
  pathsOf: (portion: Portion) => readonly string[],
): AsyncGenerator<Portion, void, undefined> {
  const begun: { readonly portion: Portion; readonly unpacked: UnpackedPortion }[] = [];
  const rest = portions[Symbol.iterator]();
  const begin = (): void => {
    // What need not be unpacked is taken when it is asked for: another thread may be free sooner.
    while (begun.length < AHEAD && begun.at(-1)?.unpacked.isRunning !== false) {
      const { done, value: portion } = rest.next();
      if (done === true) return;
      begun.push({ portion, unpacked: new UnpackedPortion(pathsOf(portion)) });
    }
  };
  try {
    for (begin(); begun.length > 0;) {
      const { portion, unpacked } = begun[0]!;
      await unpacked.done;
      begin();
      yield portion;
      begun.shift();
      await unpacked.end();
      begin();
    }
  } finally {
    for (const { unpacked } of begun) await unpacked.end();
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
