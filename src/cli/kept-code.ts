/**
 * Keeps what V8 has compiled of the command line from one start to the next: a small `run` spends a
 * third of its CPU time, a small `verify` a fifth, on parsing JavaScript. V8 gives such code for a
 * script, not for a module, so the bundle has all verbs as one script, too (`prebuilt.ts`), which
 * is only read where code is kept for it: to parse it takes a quarter of a second.
 *
 * The code is a file for each verb below `~/.cache/elftrace/code` (XDG_CACHE_HOME). The first start
 * of a verb leaves an empty one, the second fills it, the third uses it: where each command is the
 * first one, as in a fresh container, nothing is lost. It grows when a file of another machine
 * comes, and with the first command that takes long. What cannot be read, was made by another V8
 * or with other options of it, or could be another user's, is not used. Nothing depends on it but
 * time. NODE_DISABLE_COMPILE_CACHE=1 turns it off.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';
import { readOwnFile, writeOwnFile } from '../output/own-files.js';
import { cacheFolder, crc32, hashed } from './cache.js';
import { engineAsUsual } from './compile-late.js';
import type { main } from './main.js';
import { WHOLE } from './prebuilt.js';

/** The file of a verb that has been started once. */
const FIRST = Buffer.of();
/** Where V8 cannot keep code: options that the verb sets cannot be taken back (Node 22, `run`). */
const NONE = Buffer.of(0);
/**
 * Bytes in front of the code: its checksum, since V8 trusts what it reads; the machines whose files
 * were seen, for the code has what was executed; V8 and its options then; room, so that the code is
 * aligned as V8 wants it.
 */
const HEADER = 16;

/** A command of so many seconds has executed more; the bit beside those of machines says so. */
const LONG_SECONDS = 0.7;
const LONG = 1 << 30;
/**
 * A command of so many seconds may have lost code: V8 throws away what was not executed for a
 * while. What it leaves is kept as that of no machine, so that the next command adds its own.
 */
const LOST_SECONDS = 2;

/** Loaded where it is needed. */
const engineTag = (): number => process.getBuiltinModule('node:v8').cachedDataVersionTag();

/** Loads a package for the script, for which V8 does not keep who loads. */
const importPackage = (name: string): Promise<unknown> => import(name);

/** Files of other versions go, and what writers that were interrupted left. */
const isOfThis = (name: string): boolean => name.startsWith(WHOLE!) && !/\.\d+$/.test(name);

/** What a file holds. */
interface Content {
  readonly code: Buffer;
  readonly machines: number;
  readonly tag: number;
}

function encoded(code: Buffer, machines: number, tag: number): Buffer {
  const header = Buffer.alloc(HEADER);
  header.writeUInt32LE(crc32(code));
  header.writeUInt32LE(machines, 4);
  header.writeUInt32LE(tag, 8);
  return Buffer.concat([header, code]);
}

/** What is in a file; null where the file is not whole. */
function contentOf(file: Buffer): Content | null {
  const code = file.subarray(HEADER);
  const isWhole = code.length > 0 && file.readUInt32LE(0) === crc32(code);
  return isWhole ? { code, machines: file.readUInt32LE(4), tag: file.readUInt32LE(8) } : null;
}

/** The script as it was loaded in this start. */
interface Loaded {
  readonly script: Script;
  /** Of the code that V8 took for it: 0 and what V8 is now where it took none. */
  readonly machines: number;
  readonly tag: number;
  readonly isUsed: boolean;
}

export class KeptCode {
  private loaded: Loaded | null = null;
  /** V8 cannot keep code for the verb. */
  private isNone = false;

  private constructor(
    private readonly script: string,
    private readonly folder: string,
    private readonly name: string,
  ) {}

  /** For a start of a verb; null where nothing is kept. */
  static of(verb: string | undefined): KeptCode | null {
    const { NODE_DISABLE_COMPILE_CACHE, NODE_OPTIONS, NODE_V8_COVERAGE } = process.env;
    if (WHOLE === null || NODE_DISABLE_COMPILE_CACHE || NODE_V8_COVERAGE) return null;
    if (verb === undefined || !/^[a-z][a-z-]{1,20}$/.test(verb)) return null;
    try {
      const script = join(dirname(fileURLToPath(import.meta.url)), WHOLE);
      const engine = hashed([process.version, process.arch, NODE_OPTIONS, ...process.execArgv].join('\n'));
      // One folder for each place that the command is installed in: another version there replaces.
      return new KeptCode(script, join(cacheFolder(), 'code', hashed(script)), `${WHOLE}-${verb}-${engine}`);
    } catch {
      return null; // no home, no folder of ours
    }
  }

  /**
   * The command line from the script; null where there is no code for it and this start is not the
   * one that makes it.
   */
  load(): typeof main | null {
    try {
      const file = readOwnFile(join(this.folder, this.name));
      this.isNone = file?.equals(NONE) === true;
      if (file === null || this.isNone) return null;
      const content = contentOf(file);
      const text = readFileSync(this.script, 'latin1');
      const script = new Script(text, { filename: this.script, cachedData: content?.code });
      const isUsed = content !== null && script.cachedDataRejected === false;
      const { machines, tag } = isUsed ? content : { machines: 0, tag: engineTag() };
      this.loaded = { script, machines, tag, isUsed };
      const program = script.runInThisContext() as (...scope: unknown[]) => { main: typeof main };
      return program(createRequire(this.script), importPackage, this.script, { exports: {} }).main;
    } catch {
      return null;
    }
  }

  /**
   * The command is one that there is, and begins. What it has executed is kept when it ends, where
   * that is more than was there.
   * @param machines  those of its files so far
   */
  begun(machines: () => number): void {
    const { loaded } = this;
    if (this.isNone) return;
    if (loaded === null) this.write(FIRST);
    else {
      process.on('exit', () => {
        const { script, tag, isUsed, machines: known } = loaded;
        const spent = process.uptime();
        const all = known | machines() | (spent > LONG_SECONDS ? LONG : 0);
        if (isUsed && all === known) return;
        engineAsUsual();
        if (engineTag() === tag) {
          this.write(encoded(script.createCachedData(), spent > LOST_SECONDS ? 0 : all, tag));
        } else if (!isUsed) this.write(NONE);
      });
    }
  }

  /** Nothing is said where it fails: the next start does without. */
  private write(bytes: Uint8Array): void {
    try {
      writeOwnFile(this.folder, this.name, bytes, isOfThis);
    } catch {
      // a cache that cannot be written is none
    }
  }
}
