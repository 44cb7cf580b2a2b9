/**
 * `-l`, `-n`, `--file`: which sites a verb works on. The filter language is the kernel's; see
 * sites/filter.ts.
 */
import { ElftraceError } from '../errors.js';
import { type FilterWords, selectByWords } from '../sites/selection.js';
import type { Sites } from '../sites/sites.js';
import { readUnnoted } from './files.js';

export interface SelectionOptions {
  readonly l?: readonly string[] | undefined;
  readonly n?: readonly string[] | undefined;
  readonly file?: string | undefined;
}

/** The words of the filters that were given. */
export function filterTexts(options: SelectionOptions): FilterWords {
  const filter = [...(options.l ?? [])];
  if (options.file !== undefined) {
    const lines = new TextDecoder().decode(readUnnoted(options.file)).split('\n');
    for (const line of lines) if (!line.startsWith('#')) filter.push(line);
  }
  if (options.file !== undefined && filter.every((text) => text.trim() === '')) {
    throw new ElftraceError('no-match', `${options.file} names no function`, { file: options.file });
  }
  return { filter: filter.filter((text) => text.trim() !== ''), notrace: [...(options.n ?? [])] };
}

/** One byte per site, or undefined when nothing restricts the verb. */
export function selectSites(sites: Sites, module: string | null, options: SelectionOptions): Uint8Array | undefined {
  return selectByWords(sites, module, filterTexts(options));
}
