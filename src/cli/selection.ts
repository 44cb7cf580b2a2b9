/**
 * `-l`, `-n`, `--file`: which sites a verb works on. The filter language is the kernel's; see
 * sites/filter.ts.
 */
import { demangle } from '../demangle/index.js';
import { ElftraceError } from '../errors.js';
import { select } from '../sites/filter.js';
import { filterNames } from '../sites/filter-names.js';
import type { Sites } from '../sites/sites.js';
import { readUnnoted } from './files.js';

export interface SelectionOptions {
  readonly l?: readonly string[] | undefined;
  readonly n?: readonly string[] | undefined;
  readonly file?: string | undefined;
}

/** The words of the filters that were given. */
export function filterTexts(options: SelectionOptions): {
  readonly filter: readonly string[];
  readonly notrace: readonly string[];
} {
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

/**
 * The symbols of a text that is a demangled name: its blanks would part it. Others stay as they
 * are.
 */
function symbolsFor(sites: Sites, text: string): string {
  if (!/[\s(<]/.test(text)) return text;
  const name = text.trim();
  const found = new Set<string>();
  for (let i = 0; i < sites.count; i++) {
    const symbol = sites.program.symbolName(sites.functionSymbol(i));
    if (demangle(symbol) === name) found.add(symbol);
  }
  return found.size === 0 ? text : [...found].join(' ');
}

/** One byte per site, or undefined when nothing restricts the verb. */
export function selectSites(sites: Sites, module: string | null, options: SelectionOptions): Uint8Array | undefined {
  const { filter, notrace } = filterTexts(options);
  if (filter.length === 0 && notrace.length === 0) return undefined;
  const symbols = (texts: readonly string[]): string[] => texts.map((text) => symbolsFor(sites, text));
  return select(filterNames(sites, module, demangle), { filter: symbols(filter), notrace: symbols(notrace) }).selection;
}
