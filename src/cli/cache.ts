/** Where the command keeps what it can make again. */
import { join } from 'node:path';

/** As Node says it, which looks there first where the system is no Windows. */
const home = (): string =>
  (process.platform !== 'win32' && process.env['HOME']) || process.getBuiltinModule('node:os').homedir();

/**
 * The folder of the cache, which may be absent.
 * @throws where the system knows no home
 */
export function cacheFolder(): string {
  return join(process.env['XDG_CACHE_HOME'] || join(home(), '.cache'), 'elftrace');
}

/** A short name for a text (FNV-1a). */
export function hashed(text: string): string {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return (value >>> 0).toString(16).padStart(8, '0');
}

/** Loaded where it is needed: that costs as much as a checksum. */
export const crc32 = (bytes: Uint8Array): number => process.getBuiltinModule('node:zlib').crc32(bytes);

let bundle: string | null = null;

/** Says what the code of this command is called: a name that other code does not have. */
export function nameBundle(name: string | null): void {
  bundle = name;
}

/** The name of this command's code; null: it has none, and what it makes is not kept. */
export const bundleName = (): string | null => bundle;
