/** Shapes of patchable code: what is read at a site, and what is stored there. Types only. */
import type { CodePattern, LookBack } from './patterns.js';
import type { Address, RegisterName } from '../units.js';
import type { SiteStub } from './out-of-line.js';
import type { StubReading } from './stubs.js';

/** A relocation as a shape sees it. */
export interface SiteRelocation {
  readonly type: number;
  readonly symbolName: string;
  /**
   * S + A of it where S is defined in this file: an address, or an offset in the symbol's section;
   * null if undefined.
   */
  readonly addend: bigint;
}

/**
 * What a shape sees of a site: code and relocations around an anchor, positions as byte deltas from
 * the anchor. The anchor is the address that the table names (or, for calls found without a table,
 * the first byte of the call). One view object is moved from site to site; shapes must not keep it.
 */
/** It calls a place, or names it by its address. */
export type CodeReference = 'called' | 'named';

export interface SiteView {
  /** Address of the anchor, or its offset in the section for relocatable files. */
  readonly address: Address;
  readonly relocatable: boolean;
  /**
   * A linked file without addresses of its own (ET_DYN): words that name addresses would need
   * relocations of the text.
   */
  readonly positionIndependent: boolean;
  /** Byte at anchor + delta, or -1 outside the section. */
  u8(delta: number): number;
  /** 2 and 4 bytes at anchor + delta in code byte order, unsigned, or -1 outside. */
  u16(delta: number): number;
  u32(delta: number): number;
  /** Copy of bytes, to read only; shorter where the section ends. */
  bytes(delta: number, size: number): Uint8Array;
  /**
   * The relocation at exactly anchor + delta whose type is no companion, or null. In linked files
   * relocations that a linker kept (--emit-relocs) are not consulted: contents win.
   */
  relocation(delta: number): SiteRelocation | null;
  /**
   * True when a function symbol (or the start of the section's first function) is at anchor +
   * delta.
   */
  functionAt(delta: number): boolean;
  /**
   * True when unwind information of a file without `.symtab` begins there: compilers of some
   * machines let it begin where functions do, of others behind the nops.
   */
  unwindsFrom(delta: number): boolean;
  /** What a file without `.symtab` does with that place; null: nothing that is seen. */
  calledFrom(delta: number): CodeReference | null;
  /**
   * True at the first instruction that every call of a function passes: its symbol, or the entry
   * for local calls behind it where it has one (ELFv2).
   */
  entryAt(delta: number): boolean;
  /** True where a function symbol with a size covers the anchor. */
  covered(): boolean;
  /** 4 bytes of a linked file's code in code byte order, unsigned; -1 where there is none. */
  wordAt(address: Address): number;
  /** Copy of bytes of a linked file; shorter where the file has fewer. */
  bytesAt(address: Address, size: number): Uint8Array;
  /** The stub out of line that belongs to the site at the anchor; null: it has none, or not yet. */
  ownStub(): SiteStub | null;
  /**
   * What `address` is, for a branch of a linked file: the profiling entry itself, another symbol
   * that tracers provide (`ftrace_caller`, …), or neither. Linker stubs are followed.
   */
  callee(address: Address): CalleeKind;
  /** The stub at `address` of a linked file, or null. */
  stub(address: Address): StubReading | null;
  /** Whether the image's own table of direct callers names an address, bit 0 aside. */
  isDirectCaller(address: Address): boolean;
  /** Name of a symbol counts as the profiling entry (leading dot ignored). */
  isMcountName(name: string): boolean;
}

export type CalleeKind = 'mcount' | 'tracer' | 'other';

/** Where a site's address came from. */
export type SiteSource = 'mcount-table' | 'patchable-table' | 'call';

/**
 * State of a site's bytes. `compiled`: as the compiler left it (a call of the profiling entry, or
 * its nops); `nop`: the machine's own disabled form; `call`: a call of something else; `foreign`: a
 * known shape with other bytes.
 */
export type SiteStateKind = 'compiled' | 'nop' | 'call' | 'foreign';

export interface SiteReading {
  readonly shape: SiteShape;
  readonly state: SiteStateKind;
  /**
   * Which form of the state, from the shape's table: `call`, `nops`, `nop5`, `init`, `b8`, `2008`,
   * …; for an unsupported pad that lies in front of the function only, `before`; for nops of which
   * only a function symbol could tell where the call goes, `unplaced`.
   */
  readonly form: string;
  /** Delta of the instruction that toggles (the ip of a record), from the anchor. */
  readonly ipDelta: number;
  /** Delta and size of everything the site owns, from the anchor: covers ip and neighbours. */
  readonly startDelta: number;
  readonly sizeBytes: number;
  /** Where a branch in the site leads (linked files); null: no branch, or a relocation decides. */
  readonly target: Address | null;
  /** The stub of its own that a site leads through, where it does. */
  readonly through?: Address;
  /**
   * What the word in front of the function names, at sites that have one: null before anything was
   * stored there (linked files).
   */
  readonly literal?: Address | null;
  /** Deltas of the relocations that belong to the site's call. */
  readonly relocationDeltas: readonly number[];
  /**
   * For `foreign`: bytes expected from startDelta on, why in a few words, and what kind of fault it
   * is. `unsupported`: the compiler's form is known and cannot be patched; `stub`: the site is
   * right and its stub is not; without a fault the bytes are simply wrong.
   */
  readonly expected?: Uint8Array;
  readonly reason?: string;
  readonly fault?: 'misaligned' | 'unsupported' | 'toc-restore-missing' | 'stub';
  /**
   * For `foreign`: what stands there is nops of the compiler and calls nothing. `few`: fewer behind
   * the entry than a call needs; `front`: in front of the entry only; `whole`: all that a call
   * needs, in a place where none can be.
   */
  readonly nops?: 'few' | 'front' | 'whole';
  /**
   * The function's landing pad stands behind its nops, so that its entry is none: indirect calls of
   * it trap.
   */
  readonly padBehind?: true;
}

/** One store of a change: `before` must stand at the place or nothing is written. */
export interface SiteStore {
  readonly delta: number;
  /**
   * Where a linked file is written that is no part of the site (its stub out of line): `delta` is 0
   * then. Several sites may ask for the same store; it is made once.
   */
  readonly at?: Address;
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

export interface SiteChange {
  readonly stores: readonly SiteStore[];
  /**
   * Relocations that the site gets (F-2), with addend 0; one of its own that stands at the place
   * changes its symbol.
   */
  readonly relocate?: readonly { readonly delta: number; readonly type: number; readonly symbol: string }[];
  /** Relocations (by delta) that must be turned into NONE, companions included by the caller. */
  readonly neutralise: readonly number[];
  /** Rule of the specification that this change follows. */
  readonly rule: string;
  /**
   * It depends on the reading and on the bytes that its stores replace alone: a site that reads the
   * same (`SiteReading` is one object) and has the same bytes there is changed the same.
   */
  readonly alike?: true;
}

/**
 * What a site can be asked to become. `init` is the nop form that a kernel's start-up writes over
 * compiler nops.
 */
export type WritableState =
  /**
   * `form`: one of the shape's names of nop forms where it has several (`2008`, `b8`; on RISC-V the
   * generation of the site); its own choice when absent. `target`: where the instruction that stays
   * leads in forms that keep one. `literal`: what the word in front of a function becomes that
   * names its ops.
   */
  | { readonly kind: 'nop'; readonly form?: string; readonly target?: Address; readonly literal?: Address }
  | { readonly kind: 'init'; readonly form?: string; readonly target?: Address; readonly literal?: Address }
  /**
   * `target`: where the branch leads, a stub perhaps. `form`: the convention of the entry, where
   * the site has several forms for it.
   */
  | {
      readonly kind: 'call';
      readonly target: Address;
      readonly form?: string;
      readonly literal?: Address;
      /**
       * A jump in place of the call: what it leads to returns to the function's caller. Only shapes
       * of machines whose entries say `jumps` are asked for it.
       */
      readonly jump?: true;
      /**
       * Relocatable files: the symbol that the call names, in place of `target`, and the one that
       * the word in front of the function does.
       */
      readonly names?: { readonly call: string; readonly ops: string | null };
    };

export type SiteRefusal = {
  /**
   * `needs-stub`: the site calls through stubs only; `restore-slot`: the word that must restore a
   * register behind the call is another one; `unreadable`: a word that the change depends on lies
   * outside the section.
   */
  readonly refused: 'unsupported' | 'out-of-range' | 'not-applicable' | 'needs-stub' | 'restore-slot' | 'unreadable';
  readonly reason: string;
};

/**
 * One patchable code sequence. `read` and `write` are inverses: reading what `write` stored gives
 * the asked state. `read` returns null for bytes of another shape; `foreign` only when this shape
 * is the only one that could be meant.
 */
export interface SiteShape {
  /** `riscv64.patchable-8`: lower case, appears in lists, plans and reports. */
  readonly name: string;
  readonly sources: readonly SiteSource[];
  /** For `explain` and the documentation: one line. */
  readonly title: string;
  /**
   * Conventions of tracer entries that a call from this shape can lead to (what is saved already,
   * where the return addresses are); names are those of the rows in `arch-*\/conventions.ts`.
   * Empty: calls of tracers cannot be made here.
   */
  readonly entries: readonly string[];
  read(view: SiteView, source: SiteSource): SiteReading | null;
  /**
   * Shapes of one family are what values of one compiler option leave, so a table has sites of one
   * of them: the one that most of its sites have. What looks like another does so by chance.
   */
  readonly family?: string;
  /**
   * Whether the code of a linked file at a place is the profiling entry that calls of this shape
   * lead to, by what it does: nothing names it there. Only of shapes that stand where no compiler
   * calls another function that does so.
   */
  leadsToEntry?(view: SiteView, target: Address): boolean;
  /** Its sites call through stubs out of line, one for each. */
  readonly outOfLine?: boolean;
  /** Changes that bring the site from `reading` to `to`. An empty change: it is there already. */
  write(reading: SiteReading, to: WritableState, view: SiteView): SiteChange | SiteRefusal;
  /**
   * What can serve this very site, of `entries`: where what stands around the site decides it. All
   * of them when the shape does not have this.
   */
  servedAt?(reading: SiteReading, view: SiteView): SiteService;
  /**
   * An instruction in front of the site for which the graph tracer cannot replace the return
   * address of its function, and why. Absent: there is none.
   */
  readonly bindsReturn?: LookBack & { readonly reason: string };
  /**
   * The instruction in front of the site that its entry decodes when it runs, to tell where the
   * function returns to: it may not be written over. Absent: the entry decodes none.
   */
  readonly readByEntry?: LookBack;
  /**
   * What a slot of a kernel's own table must hold to be skipped by every generation that has sites
   * of this shape, one of `McountRules.emptySlots`: kernels that add to a slot before they ask for
   * 0 skip the negative of what they add. null: there is no such value. Default 0.
   */
  readonly emptySlot?: bigint | null;
  /**
   * Bytes that entries count back from where a site ends, to what they report as ip. Default: the
   * site's own ip.
   */
  readonly entryCountsBack?: number;
  /**
   * Registers that may be alive at the site and that neither the code around it nor a plain entry
   * saves: callbacks that the compiler lets change them need the entry that saves all.
   */
  readonly plainLoses?: readonly RegisterName[];
  /**
   * What may happen to a thread that stands inside the site when it becomes a call of several
   * words, even if all of them are stored at once. Absent: nothing.
   */
  readonly torn?: TornCall;
}

/** What can serve one site. */
export interface SiteService {
  /** Conventions, best first; empty: none. */
  readonly entries: readonly string[];
  /**
   * The word that an entry takes for the return address is another one: only a register frame leads
   * to it (nested functions).
   */
  readonly callerInFrame: boolean;
}

/** Calls of several words: a thread between them finds half of one. */
export interface TornCall extends SiteHazard {
  /** The words of each such call, from the site's ip on. */
  readonly calls: readonly (readonly CodePattern[])[];
  /** Conventions whose calls change one word only. */
  readonly unless: readonly string[];
}

/** Hazards of F-7 that a plan can tell. */
export type HazardId = 'H2';

/** One of them with what happens, in a sentence. */
export interface SiteHazard {
  readonly rule: HazardId;
  readonly reason: string;
}
