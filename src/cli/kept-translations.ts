/**
 * Keeps what `run` has translated and compiled of a program from one run to the next
 * (`emulator/kept-translations.ts`): of a program that executes little, translating is most of what
 * a run takes, and one of a second spends a third of it until what is hot is compiled. A file for
 * each program below `~/.cache/elftrace/translations` (XDG_CACHE_HOME), named by the program's
 * path, its machine and processor, the engine, and the version of the command. What is in it is
 * compared with the code of each run, so a program may change. No result depends on it.
 *
 * The first run of a program leaves an empty file, the second fills it, the third uses it: programs
 * that run once cost nothing. A run that takes long fills it at once.
 * NODE_DISABLE_COMPILE_CACHE=1 turns it off, as the code that is kept of the command itself.
 */
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { KeptTranslations } from '../emulator/index.js';
import { readOwnFile, trimFolder, writeOwnFile } from '../output/own-files.js';
import { bundleName, cacheFolder, crc32, hashed } from './cache.js';

/** How many files there are, and what they take together, at most. */
const MOST = { files: 1000, bytes: 256 * 2 ** 20 };
/** A command of so many seconds is worth a file although it may be the only one. */
const LONG_SECONDS = 0.7;
/** Bytes in front of the translations: their checksum, and room that aligns them. */
const HEADER = 16;

export interface KeptRun {
  readonly kept: KeptTranslations;
  /** Writes what the run has added. */
  readonly end: () => void;
}

/** The file of a program that has run once. */
const FIRST = Buffer.of();

function encoded(translations: Uint8Array): Buffer {
  const header = Buffer.alloc(HEADER);
  header.writeUInt32LE(crc32(translations));
  return Buffer.concat([header, translations]);
}

/** What a file holds; null where it is not whole. */
function contentOf(file: Buffer | null): Buffer | null {
  if (file === null || file.length < HEADER) return null;
  const content = file.subarray(HEADER);
  return file.readUInt32LE(0) === crc32(content) ? content : null;
}

/** For a run of the program in a file; null where nothing is kept. */
export function keptRun(path: string, target: string, cpu: string | undefined): KeptRun | null {
  const bundle = bundleName();
  if (bundle === null || process.env['NODE_DISABLE_COMPILE_CACHE']) return null;
  try {
    const script = dirname(fileURLToPath(import.meta.url));
    const folder = join(cacheFolder(), 'translations', hashed(script));
    const name = `${bundle}-${target}-${hashed([resolve(path), cpu, process.version, process.arch].join('\n'))}`;
    const file = readOwnFile(join(folder, name));
    const kept = KeptTranslations.from(contentOf(file));
    // Files of other versions go, and what writers that were interrupted left.
    const isOfThis = (each: string): boolean => each.startsWith(bundle) && !/\.\d+$/.test(each);
    const end = (): void => {
      if (!kept.isWorthKeeping) return;
      const isFirst = file === null && process.uptime() < LONG_SECONDS;
      try {
        writeOwnFile(folder, name, isFirst ? FIRST : encoded(kept.bytes()), isOfThis);
        trimFolder(folder, MOST);
      } catch {
        // a cache that cannot be written is none
      }
    };
    return { kept, end };
  } catch {
    return null; // no home, no folder of ours
  }
}
