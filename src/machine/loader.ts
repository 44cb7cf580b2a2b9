/**
 * How the module loader of a machine's kernel lays modules out and binds their calls. Types only.
 */
import type { Reach } from '../bits.js';
import type { Address, RegisterName } from '../units.js';
import type { ConventionName } from './conventions.js';

/** Values of the machine's load options by name, all present. */
export type MachineOptions = Readonly<Record<string, string>>;

/** A function as calls see it. */
export interface CallTarget {
  readonly name: string;
  /** Address of its code, addend included: text address behind a descriptor, global entry. */
  readonly code: Address;
  /** Bytes from `code` to the entry that calls with the same TOC use. */
  readonly localEntry: number;
  /** st_other of its symbol. */
  readonly other: number;
  /** The TOC that it expects. */
  readonly toc: Address | null;
  /** True for the profiling entry and the entries of tracers. */
  readonly isTracer: boolean;
}

/**
 * A call that the loader has to bind. Words by byte distance from the call; -1 outside its section.
 */
export interface LoaderCall {
  readonly type: number;
  readonly place: Address;
  word(delta: number): number;
  readonly target: CallTarget;
  /** TOC of the calling part. */
  readonly toc: Address | null;
}

/** Kinds of stubs that the machine's loader makes; their meaning is the machine's. */
export type StubKind = string;

/** How a call is bound. `word`: what the word behind it becomes. */
export type CallBinding =
  | { readonly kind: 'direct'; readonly target: Address }
  | {
      readonly kind: 'stub';
      readonly stub: StubKind;
      readonly restore: { readonly delta: number; readonly word: number } | null;
    }
  | { readonly kind: 'refused'; readonly code: 'toc-restore-missing'; readonly reason: string };

export interface StubRequest {
  readonly address: Address;
  readonly target: Address;
  readonly targetToc: Address | null;
  /** TOC of the code that calls the stub. */
  readonly toc: Address | null;
  /** TOC of the core. */
  readonly coreToc: Address | null;
  readonly base: 'user' | 'kernel';
  readonly options: MachineOptions;
}

/** One choice of an option of the machine. */
export interface OptionChoice {
  readonly option: string;
  readonly choice: string;
}

/** Bytes in place of a branch that goes nowhere. */
export interface SkippedBranch {
  /** The byte that stands at `delta` then; null: any. */
  readonly over: number | null;
  /** From the place of the relocation. */
  readonly delta: number;
  /** In the order of the file; as often as the field of the relocation has room for them. */
  readonly bytes: Uint8Array;
}

/** How a kernel's module loader of this machine lays modules out. */
export interface ModuleLoader {
  readonly kind: 'modules';
  /** e_flags of an image. */
  readonly imageFlags: number;
  /** Options that decide bytes, with their values; the first is the default. */
  readonly options: Readonly<Record<string, readonly string[]>>;
  /**
   * Init code of modules stays, because the loader takes its sections for others (64-bit PowerPC
   * renames them).
   */
  readonly keepsInit: boolean;
  /** Segments of different permissions lie in different pages of this size. */
  readonly segmentAlignBytes: number;
  /** First address behind the address space. */
  readonly addressLimit: bigint;
  /** Displacements that a direct call can encode. */
  readonly reach: Reach;
  /**
   * Where core and modules of a base lie; `modules` null: as far from the core as `moduleDistance`
   * says.
   */
  bases(base: 'user' | 'kernel', options: MachineOptions): { readonly core: Address; readonly modules: Address | null };
  readonly moduleDistance: bigint;
  readonly stubs: {
    readonly section: string;
    /** Section of the stubs for init code, where it has its own. */
    readonly initSection: string | null;
    readonly entryBytes: number;
    readonly alignBytes: number;
    /** Sections of objects that only reserve room for a loader's stubs. */
    readonly placeholders: readonly string[];
    /**
     * No stub begins in the last bytes of a block of memory of so many; such slots stay empty, and
     * areas have one more for each block. null: stubs begin anywhere.
     */
    readonly gap: { readonly blockBytes: number; readonly lastBytes: number } | null;
    /**
     * Sections of their own for the stubs of a tracer's entries: of the text, and of the init text
     * where there is one. null: they lie among the others.
     */
    readonly entrySections: { readonly text: string; readonly init: string } | null;
  };
  /** Section of function descriptors {code, TOC, …}; null where function symbols name code. */
  readonly descriptors: string | null;
  /**
   * The TOC pointer of a laid-out part, from the addresses of its sections by name; null on
   * machines without.
   */
  toc(sectionAddress: (name: string) => Address | null, options: MachineOptions): Address | null;
  /** The function symbol whose code `name` names (`.foo` -> `foo`), or null. */
  codeOf(name: string): string | null;
  /** Names of the symbol that stands for the part's own TOC. */
  readonly tocSymbol: string | null;
  /** Entries that a module gets stubs for (P-STUB-3), in order. */
  readonly entrySymbols: readonly string[];
  /** Those that are called only where an option has one choice. */
  readonly chosenEntries: readonly (OptionChoice & { readonly symbol: string })[];
  /** The convention of patchable areas. */
  readonly patchable: ConventionName;
  /**
   * The convention of a call of the profiling entry, from the words around it and, where the file
   * tells it, the name that is called.
   */
  conventionOf(word: (delta: number) => number, callee?: string): ConventionName;
  /**
   * That of a patchable area, from the function symbols and words around its table entry; null: no
   * call fits there. Not a function: all are alike, `patchable`.
   */
  readonly conventionOfPatchable:
    ((functionAt: (delta: number) => boolean, word: (delta: number) => number) => ConventionName | null) | null;
  /** The convention whose entries serve sites of all these, two at least; null: none does. */
  joinConventions(found: readonly ConventionName[]): ConventionName | null;
  /**
   * The runtimes that are laid in for sites of a convention because an option has one choice;
   * elsewhere the one of the convention's name.
   */
  readonly chosenRuntimes: readonly (OptionChoice & {
    readonly sites: readonly ConventionName[];
    readonly runtime: ConventionName;
  })[];
  /**
   * Kind of the stub that sites of a convention call, from a module or from the core itself; null:
   * there are no sites yet.
   */
  entryStub(convention: ConventionName | null, from: 'module' | 'core'): StubKind;
  /**
   * Kind of the stub that leads anywhere and leaves alone what a caller in the middle of a function
   * needs.
   */
  readonly farStub: StubKind;
  bindCall(call: LoaderCall): CallBinding;
  /** What a branch to an undefined weak function becomes: the first that fits. */
  readonly skippedBranches: readonly SkippedBranch[];
  /**
   * Bytes from the place of a call's relocation to where its displacement counts from, when the
   * addend makes up for them.
   */
  readonly branchBias: bigint;
  /**
   * Bytes of `.elftrace.text`, room for private trampolines that the runtime gets where an option
   * has not one choice. null: there is none.
   */
  readonly trampolineRoom: { readonly bytes: number; readonly unless: OptionChoice } | null;
  /**
   * Bytes of a stub, not longer than an entry.
   * @throws ElftraceError 'branch-out-of-range' when the stub cannot reach
   */
  writeStub(kind: StubKind, request: StubRequest): Uint8Array;
  /**
   * 32-bit words of the runtime that are others in images at kernel addresses, as offsets from a
   * symbol.
   */
  readonly kernelWords: readonly { readonly symbol: string; readonly offset: number; readonly value: number }[];
  /** A block that code of kernel images finds through a register: contents by the core's TOC. */
  readonly kernelBlock: {
    readonly section: string;
    readonly symbol: string;
    readonly register: RegisterName;
    contents(toc: Address): Uint8Array;
  } | null;
}

/** How `load` works on this machine, or why it cannot. */
export type LoaderModel = ModuleLoader | { readonly kind: 'none'; readonly reason: string };
