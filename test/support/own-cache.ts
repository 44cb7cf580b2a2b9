/** The command line with a cache of its own. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CliResult, cliPath } from './cli.js';
import { spawnSync } from './spawn.js';

export class OwnCache {
  /** Of tests, and below it the folder of the cache, which may be absent. */
  readonly folder = mkdtempSync(join(tmpdir(), 'elftrace-cache-'));
  readonly cache = join(this.folder, 'cache');

  /** @param options  of Node */
  run(args: readonly string[], env: Readonly<Record<string, string>> = {}, options: readonly string[] = []): CliResult {
    const { status, stdout, stderr } = spawnSync(process.execPath, [...options, cliPath, ...args], {
      encoding: 'utf8',
      env: { ...process.env, NODE_OPTIONS: '', NODE_V8_COVERAGE: '', XDG_CACHE_HOME: this.cache, ...env },
    });
    return { status, stdout, stderr };
  }

  /** The files of one kind that are kept. */
  files(kind: 'code' | 'translations'): readonly string[] {
    const all = join(this.cache, 'elftrace', kind);
    if (!existsSync(all)) return [];
    return readdirSync(all).flatMap((place) => readdirSync(join(all, place)).map((name) => join(all, place, name)));
  }

  clear(): void {
    rmSync(this.cache, { recursive: true, force: true });
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** What may have become of a file of a cache: it is as if it was not there. */
export const cacheDamages: readonly (readonly [what: string, damage: (file: string) => void])[] = [
  [
    'is broken in one byte',
    (file) => {
      const bytes = readFileSync(file);
      bytes[bytes.length >> 1]! ^= 4;
      writeFileSync(file, bytes);
    },
  ],
  [
    'ends early',
    (file) => {
      writeFileSync(file, readFileSync(file).subarray(0, -1000));
    },
  ],
  [
    'is something else',
    (file) => {
      writeFileSync(file, 'what is this, of which there is enough to read');
    },
  ],
];
