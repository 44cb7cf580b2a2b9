/** Names and addresses of sites, in the form in which filters read them. */
import type { FilterNames } from './filter.js';
import type { Sites } from './sites.js';
import { isCovered } from './verdicts.js';

/**
 * Sites as the records that patterns are compared with, for `select`. Leftovers and empty slots
 * keep their index and never match.
 *
 * @param module  name of the module that the file is; null: none. Sites of images of `load` know
 *   theirs.
 * @param written  a symbol's name as it was written, or null: `demangle`, for C++ and Rust, makes
 *   patterns match both
 */
export function filterNames(
  sites: Sites,
  module: string | null,
  written: (symbol: string) => string | null = () => null,
): FilterNames {
  const { program } = sites;
  const loaded = program.loadMap?.parts.filter((part) => part.kind === 'module').map((part) => part.name);
  const modules = loaded ?? (module === null ? [] : [module]);
  const { functions, arch } = program;
  const known = program.namesFunctions;
  return {
    count: sites.count,
    name: (index) => program.symbolName(sites.functionSymbol(index)),
    address: (index) => sites.ip(index),
    module: (index) => sites.module(index) ?? module,
    disabled: (index) => {
      const state = sites.state(index);
      return state === 'zero' || state === 'outside' || (known && !isCovered(sites, index));
    },
    aliases: (index) => {
      const name = written(program.symbolName(sites.functionSymbol(index)));
      return name === null ? [] : [name];
    },
    siteOffset: (index) => {
      const place = functions.placeOf(sites.functionSymbol(index));
      return place ? sites.ip(index) - place.value : 0n;
    },
    maxSiteOffset: 'any',
    dotSymbols: arch.target.abiName === 'elfv1',
    ...(modules.length === 0 ? {} : { modules }),
  };
}
