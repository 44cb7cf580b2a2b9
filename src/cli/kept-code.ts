/**
 * Keeps what V8 has compiled of the command line from one start to the next: a small `run` spends a
 * third of its CPU time, a small `verify` half of it, on parsing JavaScript. V8 gives such code for
 * a script, not for a module, so the bundle has the command line as scripts, too (`prebuilt.ts`).
 *
 * The code is a file for each verb below `~/.cache/elftrace/code` (XDG_CACHE_HOME). The first start
 * of a verb leaves an empty one, the second fills it, the third uses it: where each command is the
 * first one, as in a fresh container, nothing is lost. It grows when a file of another machine
 * comes or another script is needed, and with the first command that takes long. What cannot be
 * read, was made by another V8 or with other options of it, or could be another user's, is not
 * used. Nothing depends on it but time. NODE_DISABLE_COMPILE_CACHE=1 turns it off.
 */
import { join } from 'node:path';
import { openOwnFile, writeOwnFile } from '../output/own-files.js';
import { cacheFolder, hashed } from './cache.js';
import { engineAsUsual } from './compile-late.js';
import { encodePieces, PiecesFile } from './kept-pieces.js';
import { engineTag, KeptScripts } from './kept-scripts.js';
import type * as Main from './main.js';
import { SCRIPTS } from './prebuilt.js';

/** The file of a verb that has been started once. */
const FIRST = Buffer.of();
/** Where V8 cannot keep code: options that the verb sets cannot be taken back (Node 22, `run`). */
const NONE = Buffer.of(0);

/** A command of so many seconds has executed more; the bit beside those of machines says so. */
const LONG_SECONDS = 0.7;
const LONG = 1 << 30;
/**
 * A command of so many seconds may have lost code: V8 throws away what was not executed for a
 * while. What it leaves is kept as that of no machine, so that the next command adds its own.
 */
const LOST_SECONDS = 2;

/** Files of other versions go, and what writers that were interrupted left. */
const isOfThis = (name: string): boolean => name.startsWith(SCRIPTS!) && !/\.\d+$/.test(name);

export class KeptCode {
  private scripts: KeptScripts | null = null;
  /** V8 cannot keep code for the verb. */
  private isNone = false;

  private constructor(
    private readonly folder: string,
    private readonly name: string,
  ) {}

  /** For a start of a verb; null where nothing is kept. */
  static of(verb: string | undefined): KeptCode | null {
    const { NODE_DISABLE_COMPILE_CACHE, NODE_OPTIONS, NODE_V8_COVERAGE } = process.env;
    if (SCRIPTS === null || NODE_DISABLE_COMPILE_CACHE || NODE_V8_COVERAGE) return null;
    if (verb === undefined || !/^[a-z][a-z-]{1,20}$/.test(verb)) return null;
    try {
      // One folder for each place that the command is installed in: another version there replaces.
      const place = hashed(import.meta.dirname);
      const engine = hashed([process.version, process.arch, NODE_OPTIONS, ...process.execArgv].join('\n'));
      return new KeptCode(join(cacheFolder(), 'code', place), `${SCRIPTS}-${verb}-${engine}`);
    } catch {
      return null; // no home, no folder of ours
    }
  }

  /**
   * The command line from the scripts; null where there is no code for it and this start is not the
   * one that makes it.
   */
  load(): typeof Main.main | null {
    try {
      const file = openOwnFile(join(this.folder, this.name));
      this.isNone = file?.size === NONE.length;
      if (file === null || this.isNone) return null;
      this.scripts = KeptScripts.of(PiecesFile.of(file.descriptor, file.size));
      return (this.scripts.begin() as typeof Main).main;
    } catch {
      return null;
    }
  }

  /**
   * The command is one that there is, and begins. What it has executed is kept when it ends, where
   * that is more than was there.
   * @param machines  those of its files so far
   * @param asUsual  performs something with the options that V8 had at first
   */
  begun(machines: () => number, asUsual: <T>(act: () => T) => T): void {
    const { scripts } = this;
    if (scripts !== null) scripts.asUsual = asUsual;
    if (this.isNone) return;
    if (scripts === null) this.write(FIRST);
    else {
      process.on('exit', () => {
        const { tag, machines: known } = scripts;
        const spent = process.uptime();
        const all = known | machines() | (spent > LONG_SECONDS ? LONG : 0);
        if (!scripts.isNew && all === known) return;
        engineAsUsual();
        if (engineTag() === tag) {
          this.write(encodePieces({ pieces: scripts.pieces(), machines: spent > LOST_SECONDS ? 0 : all, tag }));
        } else if (scripts.isNew) this.write(NONE);
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
