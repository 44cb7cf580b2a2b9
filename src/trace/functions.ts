/** The functions of a program as a trace names them. */
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';
import type { TracedFunction } from './events.js';

export interface FunctionListOptions {
  /** Added to every address of the file (position-independent images). */
  readonly bias?: Address;
  /** ftrace site of the function at an address of the file. */
  readonly siteOf?: (address: Address) => Address | null;
}

/**
 * Functions of a linked program, and labels of hand-written code that no function covers, in
 * ascending order of address. Only places in executable code count. Empty for a stripped file.
 */
export function tracedFunctions(program: Program, options: FunctionListOptions = {}): TracedFunction[] {
  const { bias = 0n, siteOf = (): null => null } = options;
  const { functions, labels } = program.functions;
  const rows: { readonly symbol: number; readonly address: Address }[] = [];
  for (const columns of [functions, labels]) {
    for (let i = 0; i < columns.count; i++) {
      const symbol = columns.symbol[i]!;
      const address = columns.start[i]!;
      const range = program.codeAt(address);
      if (!range) continue;
      // A label inside a function is a place in it, not a function.
      if (columns === labels && program.functionAt(range, address) !== symbol) continue;
      rows.push({ symbol, address });
    }
  }
  rows.sort((a, b) => (a.address < b.address ? -1 : a.address > b.address ? 1 : 0));
  return rows.map(({ symbol, address }, index) => {
    const local = BigInt(program.arch.abi.localEntryOffset(program.symbols.other[symbol]!));
    const site = siteOf(address);
    return {
      index,
      name: program.symbolName(symbol),
      address: address + bias,
      otherEntries: local > 0n ? [address + local + bias] : [],
      site: site === null ? null : site + bias,
    };
  });
}

/** Finds functions by address; see `functionLookup`. */
export interface FunctionLookup {
  /**
   * The function that an address is in: the one with this site, else the last that begins at or
   * before it; null before all.
   */
  readonly at: (address: Address) => TracedFunction | null;
}

/**
 * `functions` in ascending order of address, as `tracedFunctions` gives them. Symbols without
 * sizes: code behind a function counts for it.
 */
export function functionLookup(functions: readonly TracedFunction[]): FunctionLookup {
  // Sites may stand in front of their function.
  const bySite = new Map<Address, TracedFunction>();
  for (const each of functions) if (each.site !== null && each.site < each.address) bySite.set(each.site, each);
  return {
    at(address) {
      const own = bySite.get(address);
      if (own) return own;
      let low = 0;
      let high = functions.length;
      while (low < high) {
        const middle = (low + high) >>> 1;
        if (functions[middle]!.address <= address) low = middle + 1;
        else high = middle;
      }
      return functions[low - 1] ?? null;
    },
  };
}
