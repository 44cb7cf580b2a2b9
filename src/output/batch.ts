/**
 * What the outputs of one command have in common that are written one after the other: which models
 * have attributes besides owner and mode, what killed commands left in a folder, which folders have
 * entries that are not on disk yet. Asked and done once, and not for each of thousands of outputs.
 */
import * as fs from 'node:fs';
import { dirname } from 'node:path';

/** Paths that one call of a tool is asked about. */
const PORTION = 256;

/**
 * Of the paths those that have neither extended attributes nor access lists. Empty where there is
 * no tool that says so (getfattr).
 */
function plainOf(paths: readonly string[]): Set<string> {
  const plain = new Set<string>();
  if (process.platform !== 'linux') return plain;
  const { spawnSync } = process.getBuiltinModule('node:child_process');
  for (let at = 0; at < paths.length; at += PORTION) {
    const asked = paths.slice(at, at + PORTION);
    const { status, stdout } = spawnSync('getfattr', ['-m', '-', '--absolute-names', '--', ...asked], {
      encoding: 'utf8',
      maxBuffer: 1 << 26,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    // Names that it writes in another form are not told apart here.
    if (status !== 0 || stdout.includes('\\')) continue;
    const named = new Set([...stdout.matchAll(/^# file: (.*)$/gm)].map(([, path]) => path!));
    for (const path of asked) if (!named.has(path)) plain.add(path);
  }
  return plain;
}

/** Puts the entries of a folder on disk. */
export function syncFolder(path: string): void {
  const folder = fs.openSync(path, 'r');
  try {
    fs.fsyncSync(folder);
  } catch {
    // Some file systems cannot do that for folders.
  } finally {
    fs.closeSync(folder);
  }
}

export class OutputBatch {
  private readonly plain: ReadonlySet<string>;
  private readonly plainFolders = new Map<string, boolean>();
  private readonly hidden = new Map<string, readonly string[]>();
  private readonly unsynced = new Set<string>();

  /** @param models  inputs and outputs whose attributes files get; some need not be there */
  constructor(models: readonly string[]) {
    this.plain = plainOf([
      ...new Set(models.filter((path) => fs.existsSync(path)).map((path) => fs.realpathSync(path))),
    ]);
  }

  /**
   * Whether mode and owner are all that a file in the folder of `to` gets from `from`: neither has
   * more, nor does the folder give new files any.
   */
  hasPlainAttributes(from: string, to: string): boolean {
    if (!this.plain.has(fs.realpathSync(from))) return false;
    const folder = dirname(to);
    const known = this.plainFolders.get(folder) ?? plainOf([folder]).has(folder);
    this.plainFolders.set(folder, known);
    return known;
  }

  /** Hidden names that were in a folder when this command first wrote there. */
  hiddenIn(folder: string): readonly string[] {
    const known = this.hidden.get(folder) ?? fs.readdirSync(folder).filter((name) => name.startsWith('.'));
    this.hidden.set(folder, known);
    return known;
  }

  /** A file of the folder took its place: `end` puts the entry on disk. */
  placed(folder: string): void {
    this.unsynced.add(folder);
  }

  /** All entries are on disk when this returns. */
  end(): void {
    for (const folder of this.unsynced) if (fs.existsSync(folder)) syncFolder(folder);
    this.unsynced.clear();
  }
}
