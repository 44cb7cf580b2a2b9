/**
 * Which sites a request is about, by the words of its filters: names as the kernel's filter
 * language has them (`filter.ts`), and demangled names.
 */
import { demangle } from '../demangle/index.js';
import type { Program } from '../program/program.js';
import { type FilterNames, select } from './filter.js';
import { filterNames } from './filter-names.js';
import type { Sites } from './sites.js';
import type { Sled } from './sleds.js';

/** The words of filters; both empty: nothing was restricted. */
export interface FilterWords {
  readonly filter: readonly string[];
  readonly notrace: readonly string[];
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
export function selectByWords(
  sites: Sites,
  module: string | null,
  { filter, notrace }: FilterWords,
): Uint8Array | undefined {
  if (filter.length === 0 && notrace.length === 0) return undefined;
  const symbols = (texts: readonly string[]): string[] => texts.map((text) => symbolsFor(sites, text));
  return select(filterNames(sites, module, demangle), { filter: symbols(filter), notrace: symbols(notrace) }).selection;
}

/** The same for sleds of XRay: one byte for each. */
export function selectSleds(
  program: Program,
  sleds: readonly Sled[],
  module: string | null,
  { filter, notrace }: FilterWords,
): Uint8Array | undefined {
  if (filter.length === 0 && notrace.length === 0) return undefined;
  const names: FilterNames = {
    count: sleds.length,
    name: (index) => sleds[index]!.function,
    address: (index) => sleds[index]!.address,
    module: () => module,
    disabled: () => false,
    siteOffset: (index) => sleds[index]!.address - sleds[index]!.functionAddress,
    maxSiteOffset: 'any',
    dotSymbols: program.arch.target.abiName === 'elfv1',
  };
  return select(names, { filter, notrace }).selection;
}
