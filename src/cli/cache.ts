/** Where the command keeps what it can make again. */
import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * The folder of the cache, which may be absent.
 * @throws where the system knows no home
 */
export function cacheFolder(): string {
  return join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'elftrace');
}
