/**
 * Call-site records: one per patchable function entry, with the flags that say what is wanted of
 * its text and what its text is now (C-REC-3). Owns the flag bits, the sorted table and the
 * look-ups. Does not own who sets which flag (`targets.ts`, `update.ts`).
 *
 * Each pair of flags obeys one principle: the bare flag says what the attached ops ask for, the
 * flag with _EN what the text contains. Expected bytes come from _EN flags, new bytes from bare
 * ones.
 */
import { type FilterNames, locateRecord } from '../sites/filter.js';
import type { Address } from '../units.js';

/** Flags of a record, with the kernel's bits; the count is in the bits below. */
export const REC = {
  ENABLED: 2 ** 31,
  REGS: 2 ** 30,
  REGS_EN: 2 ** 29,
  TRAMP: 2 ** 28,
  TRAMP_EN: 2 ** 27,
  IPMODIFY: 2 ** 26,
  DISABLED: 2 ** 25,
  DIRECT: 2 ** 24,
  DIRECT_EN: 2 ** 23,
  CALL_OPS: 2 ** 22,
  CALL_OPS_EN: 2 ** 21,
  TOUCHED: 2 ** 20,
  MODIFIED: 2 ** 19,
} as const;

/** The greatest count, which is an error. */
export const COUNT_LIMIT = 2 ** 19 - 1;

/** Flags that stay when nothing is attached any more. */
export const STICKY = (REC.DISABLED | REC.TOUCHED | REC.MODIFIED) >>> 0;

/** Flags that say what the text is. */
export const CURRENT = (REC.ENABLED | REC.REGS_EN | REC.TRAMP_EN | REC.DIRECT_EN | REC.CALL_OPS_EN) >>> 0;

/** Flags that the set of attached ops decides, IPMODIFY aside. */
export const WANTED = (REC.REGS | REC.TRAMP | REC.DIRECT | REC.CALL_OPS) >>> 0;

/** What the core must know of a site. */
export interface SiteInput {
  /** Address of the first byte that is rewritten. */
  readonly ip: Address;
  /** Name of the function. */
  readonly name: string;
  /** Bytes from the start of the function's symbol to the site; 0 when absent. */
  readonly siteOffset?: bigint;
  /** Size of that symbol in bytes; unknown when absent. */
  readonly symbolSize?: bigint;
  /** The body of an overridden weak function: a record that stays disabled (C-FILT-4). */
  readonly weak?: boolean;
  /** Why the graph tracer cannot have the returns of the function; it can when absent. */
  readonly noGraph?: string;
}

/** An ops as the record of a site knows it: by identity, and by name for messages. */
export interface NamedOps {
  readonly name: string;
}

/** What the word of per-callsite ops names. */
export type Literal =
  { readonly kind: 'nop-ops' } | { readonly kind: 'list-ops' } | { readonly kind: 'ops'; readonly ops: NamedOps };

export class CallSite {
  /** Flags and count, unsigned. */
  flags = 0;
  /** What the word of per-callsite ops holds; null on targets that have none. */
  literal: Literal | null = null;

  constructor(
    readonly ip: Address,
    readonly name: string,
    /** Module of the record, null for the core image. */
    readonly module: string | null,
    readonly siteOffset: bigint,
    readonly symbolSize: bigint | null,
    readonly weak: boolean,
    readonly noGraph: string | null,
  ) {}

  /** How many ops are attached. */
  get count(): number {
    return this.flags & COUNT_LIMIT;
  }

  has(flag: number): boolean {
    return (this.flags & flag) !== 0;
  }

  /** C-REC-2: skipped by every walk; a disabled one that is enabled is still unwound. */
  get skipped(): boolean {
    return this.has(REC.DISABLED) && !this.has(REC.ENABLED);
  }

  set(flags: number): void {
    this.flags = (this.flags | flags) >>> 0;
  }

  clear(flags: number): void {
    this.flags = (this.flags & ~flags) >>> 0;
  }
}

/** Options of a table of records. */
export interface RecordOptions {
  /** Bytes from a record's address that belong to its site. */
  readonly siteBytes: number;
  /** Code symbols have a leading dot that patterns ignore (PPC64 ELFv1). */
  readonly dotSymbols?: boolean;
}

/**
 * The records of an image, sorted by address (C-REC-1). The array is replaced when modules come and
 * go, never changed.
 */
export class Records {
  #list: readonly CallSite[] = [];
  #symbols = new Map<Address, bigint>();
  #modules: readonly string[] = [];

  constructor(readonly options: RecordOptions) {}

  get list(): readonly CallSite[] {
    return this.#list;
  }

  /** Modules that are there, though they may have no record. */
  get modules(): readonly string[] {
    return this.#modules;
  }

  /**
   * Adds the sites of an image. Places that are 0 are no sites: dropped (C-INIT-1).
   * @returns the new records, and how many places were dropped
   */
  add(sites: readonly SiteInput[], module: string | null): { readonly added: CallSite[]; readonly dropped: number } {
    const added: CallSite[] = [];
    for (const { ip, name, siteOffset, symbolSize, weak, noGraph } of sites) {
      if (ip === 0n) continue;
      added.push(new CallSite(ip, name, module, siteOffset ?? 0n, symbolSize ?? null, weak ?? false, noGraph ?? null));
    }
    this.replace([...this.#list, ...added], module === null ? this.#modules : [...this.#modules, module]);
    return { added, dropped: sites.length - added.length };
  }

  /** Takes the records of a module out. */
  remove(module: string): readonly CallSite[] {
    const gone = this.#list.filter((site) => site.module === module);
    this.replace(
      this.#list.filter((site) => site.module !== module),
      this.#modules.filter((name) => name !== module),
    );
    return gone;
  }

  /** Puts a state back that `list` and `modules` gave, or makes one. */
  replace(list: readonly CallSite[], modules: readonly string[]): void {
    this.#list = list === this.#list ? list : [...list].sort((a, b) => (a.ip < b.ip ? -1 : a.ip > b.ip ? 1 : 0));
    this.#modules = modules;
    this.#symbols = new Map();
    for (const { ip, siteOffset, symbolSize } of this.#list) {
      if (symbolSize !== null) this.#symbols.set(ip - siteOffset, symbolSize);
    }
  }

  /**
   * C-REC-1: the record that an address means: one that covers it, else the first in the symbol
   * that begins there; null for none.
   */
  location(address: Address): CallSite | null {
    const index = locateRecord(
      {
        count: this.#list.length,
        address: (at) => this.#list[at]!.ip,
        siteBytes: this.options.siteBytes,
        symbolSizeAt: (at) => this.#symbols.get(at) ?? null,
      },
      address,
    );
    return index < 0 ? null : this.#list[index]!;
  }

  /** The table as the filter grammar sees it. */
  names(): FilterNames {
    const list = this.#list;
    return {
      count: list.length,
      name: (index) => list[index]!.name,
      address: (index) => list[index]!.ip,
      module: (index) => list[index]!.module,
      disabled: (index) => list[index]!.skipped || list[index]!.weak,
      siteOffset: (index) => list[index]!.siteOffset,
      modules: this.#modules,
      ...(this.options.dotSymbols === undefined ? {} : { dotSymbols: this.options.dotSymbols }),
    };
  }
}

export function equalLiterals(a: Literal, b: Literal): boolean {
  return a.kind === 'ops' && b.kind === 'ops' ? a.ops === b.ops : a.kind === b.kind;
}
