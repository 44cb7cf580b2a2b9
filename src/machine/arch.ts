/**
 * The `Arch` interface: everything that differs between machines, and nothing else. Types only. One object per target;
 * the objects are built in `arch-*` folders and found through `arches.ts`. No member is optional and none may refuse.
 */
import type { ElfImage, SymbolTable } from '../elf/image.js';
import type { Reach } from '../bits.js';
import type { EmulationModel } from './emulation.js';
import type { Isa } from '../isa/instruction.js';
import type { ProbeModel } from './probes.js';
import type { RelocationRow } from '../relocs/kinds.js';
import type { Address, Endian, RegisterName } from '../units.js';

export type TargetId = 'x86-64' | 'ppc32' | 'ppc64-elfv1' | 'ppc64-elfv2-be' | 'ppc64-elfv2-le' | 'riscv64' | 'arm64';

/** Constants of a target. */
export interface Target {
  readonly id: TargetId;
  /** For people: `PowerPC 64-bit, ELFv2, little-endian`. */
  readonly title: string;
  readonly elfMachine: number;
  readonly abiName: 'sysv' | 'elfv1' | 'elfv2';
  readonly wordBytes: 4 | 8;
  readonly dataEndian: Endian;
  /** Differs from dataEndian only on big-endian RISC-V and arm64, which are not served. */
  readonly codeEndian: Endian;
  readonly codeAlignBytes: 1 | 2 | 4;
  readonly pageBytes: number;
}

/** Calling and system-call convention. */
export interface Abi {
  readonly stackPointer: RegisterName;
  /** null: the return address is on the stack. */
  readonly linkRegister: RegisterName | null;
  readonly argumentRegisters: readonly RegisterName[];
  readonly resultRegister: RegisterName;
  /** Integer registers that belong to the caller besides the stack pointer: as they were when a function returns. */
  readonly preservedRegisters: readonly RegisterName[];
  /** Text of instructions that use registers of floating point or vectors, which tracing entries do not save (C-FG-7). */
  readonly unsavedRegisters: RegExp;
  readonly syscall: {
    readonly number: RegisterName;
    readonly arguments: readonly RegisterName[];
    readonly result: RegisterName;
    readonly failure: 'negative-result' | 'cr0-so';
  };
  /**
   * Bytes from a function symbol's value to the entry that local calls use, from st_other (ELFv2); 0 elsewhere.
   */
  localEntryOffset(symbolOther: number): number;
  /**
   * Place of the code of a function symbol: on ELFv1 the text address behind the `.opd` descriptor, elsewhere the
   * symbol's own place. `section` is the section index (relocatable files) and `value` an offset in it, or an address.
   * null when the descriptor cannot be followed. `symbols`: the table of the symbol where it is not the file's own.
   */
  codePlace(
    image: ElfImage,
    symbolIndex: number,
    symbols?: SymbolTable,
  ): { readonly section: number; readonly value: bigint } | null;
}

/** Relocation types that the generic code must know by role. */
export interface RelocationRoles {
  /** R_*_NONE: always 0 on these machines, named for messages. */
  readonly none: number;
  /** The absolute address-size word: what slots of a site table carry in relocatable files. */
  readonly word: number;
  /** RELATIVE: the dynamic relocation whose addend is the value. */
  readonly relative: number;
  /** Markers that only accompany another relocation at the same place (R_RISCV_RELAX) and go with it. */
  readonly companions: readonly number[];
  /**
   * What a relocation of a kernel *module* becomes when its call is nopped (with symbol 0). Linkers know NONE; the module loaders of
   * PowerPC and RISC-V kernels do not and refuse the module ("Unknown relocation"), so there it is a type that they accept
   * and that changes nothing. `addend`: left alone, or the word that is stored at the place, which an absolute 32-bit
   * relocation then writes again.
   */
  readonly neutralInModule: { readonly type: number; readonly addend: 'kept' | 'stored-word' };
}

/** How the compiler calls the profiling entry, and what a table producer needs (60-mcount-tables). */
export interface McountRules {
  /** Names of the profiling entry, without the leading dot of ELFv1. */
  readonly symbols: readonly string[];
  /**
   * Relocation types that a call of it carries -> what to add to r_offset to get the address of the call's first byte
   * (M-REC-5). A type that data uses too (x86 PC32) is only a candidate: the shape decides.
   */
  readonly callRelocations: ReadonlyMap<number, number>;
  /** True where a kernel's `__patchable_function_entries` is call padding and only `__mcount_loc` is ftrace's (x86-64). */
  readonly patchableIsPadding: boolean;
  /** What slots of a linked table hold that kernels of some generation skip, as signed words; 0 is one everywhere. */
  readonly emptySlots: readonly bigint[];
  /** Greatest distance from a function symbol to a site that is not a weak leftover (C-FILT-4). */
  readonly maxSiteOffset: bigint | 'any';
  /**
   * Places in [start, end) of `code` at which a call-like instruction may lead to `isTarget`, in ascending order. `start`
   * is the start of a function or section; `address` is the address of code[0].
   */
  findCalls(
    code: Uint8Array,
    start: number,
    end: number,
    address: Address,
    isTarget: (address: Address) => boolean,
  ): number[];
}

// ------------------------------------------------------------------------------------------------------------- sites

/** A relocation as a shape sees it. */
export interface SiteRelocation {
  readonly type: number;
  readonly symbolName: string;
  /** S + A of it where S is defined in this file: an address, or an offset in the symbol's section; null if undefined. */
  readonly addend: bigint;
}

/**
 * What a shape sees of a site: code and relocations around an anchor, positions as byte deltas from the anchor. The anchor
 * is the address that the table names (or, for calls found without a table, the first byte of the call). One view object
 * is moved from site to site; shapes must not keep it.
 */
export interface SiteView {
  /** Address of the anchor, or its offset in the section for relocatable files. */
  readonly address: Address;
  readonly relocatable: boolean;
  /** A linked file without addresses of its own (ET_DYN): words that name addresses would need relocations of the text. */
  readonly positionIndependent: boolean;
  /** Byte at anchor + delta, or -1 outside the section. */
  u8(delta: number): number;
  /** 2 and 4 bytes at anchor + delta in code byte order, unsigned, or -1 outside. */
  u16(delta: number): number;
  u32(delta: number): number;
  /** Copy of bytes; shorter where the section ends. */
  bytes(delta: number, size: number): Uint8Array;
  /**
   * The relocation at exactly anchor + delta whose type is no companion, or null. In linked files relocations that a
   * linker kept (--emit-relocs) are not consulted: contents win.
   */
  relocation(delta: number): SiteRelocation | null;
  /** True when a function symbol (or the start of the section's first function) is at anchor + delta. */
  functionAt(delta: number): boolean;
  /**
   * What `address` is, for a branch of a linked file: the profiling entry itself, another symbol that tracers provide
   * (`ftrace_caller`, …), or neither. Linker stubs are followed.
   */
  callee(address: Address): CalleeKind;
  /** The stub at `address` of a linked file, or null. */
  stub(address: Address): StubReading | null;
  /** Name of a symbol counts as the profiling entry (leading dot ignored). */
  isMcountName(name: string): boolean;
}

export type CalleeKind = 'mcount' | 'tracer' | 'other';

/** Where a site's address came from. */
export type SiteSource = 'mcount-table' | 'patchable-table' | 'call';

/**
 * State of a site's bytes. `compiled`: as the compiler left it (a call of the profiling entry, or its nops); `nop`: the
 * machine's own disabled form; `call`: a call of something else; `foreign`: a known shape with other bytes.
 */
export type SiteStateKind = 'compiled' | 'nop' | 'call' | 'foreign';

export interface SiteReading {
  readonly shape: SiteShape;
  readonly state: SiteStateKind;
  /**
   * Which form of the state, from the shape's table: `call`, `nops`, `nop5`, `init`, `b8`, `2008`, …; for an unsupported pad
   * that lies in front of the function only, `before`; for nops of which only a function symbol could tell where the call goes,
   * `unplaced`.
   */
  readonly form: string;
  /** Delta of the instruction that toggles (the ip of a record), from the anchor. */
  readonly ipDelta: number;
  /** Delta and size of everything the site owns, from the anchor: covers ip and neighbours. */
  readonly startDelta: number;
  readonly sizeBytes: number;
  /** Where a branch in the site leads (linked files); null: no branch, or a relocation decides. */
  readonly target: Address | null;
  /** What the word in front of the function names, at sites that have one: null before anything was stored there (linked files). */
  readonly literal?: Address | null;
  /** Deltas of the relocations that belong to the site's call. */
  readonly relocationDeltas: readonly number[];
  /**
   * For `foreign`: bytes expected from startDelta on, why in a few words, and what kind of fault it is. `unsupported`: the
   * compiler's form is known and cannot be patched; without a fault the bytes are simply wrong.
   */
  readonly expected?: Uint8Array;
  readonly reason?: string;
  readonly fault?: 'misaligned' | 'unsupported' | 'toc-restore-missing';
  /**
   * For `foreign`: what stands there is nops of the compiler and calls nothing. `few`: fewer behind the entry than a call needs; `front`: in front of the
   * entry only; `whole`: all that a call needs, in a place where none can be.
   */
  readonly nops?: 'few' | 'front' | 'whole';
}

/** One store of a change: `before` must stand at the place or nothing is written. */
export interface SiteStore {
  readonly delta: number;
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

export interface SiteChange {
  readonly stores: readonly SiteStore[];
  /** Relocations that the site gets (F-2), with addend 0; one of its own that stands at the place changes its symbol. */
  readonly relocate?: readonly { readonly delta: number; readonly type: number; readonly symbol: string }[];
  /** Relocations (by delta) that must be turned into NONE, companions included by the caller. */
  readonly neutralise: readonly number[];
  /** Rule of the specification that this change follows. */
  readonly rule: string;
}

/** What a site can be asked to become. `init` is the nop form that a kernel's start-up writes over compiler nops. */
export type WritableState =
  /**
   * `form`: one of the shape's names of nop forms where it has several (`2008`, `b8`; on RISC-V the generation of the site); its own choice when
   * absent. `target`: where the instruction that stays leads in forms that keep one. `literal`: what the word in front of a function becomes that
   * names its ops.
   */
  | { readonly kind: 'nop'; readonly form?: string; readonly target?: Address; readonly literal?: Address }
  | { readonly kind: 'init'; readonly form?: string; readonly target?: Address; readonly literal?: Address }
  /** `target`: where the branch leads, a stub perhaps. `form`: the convention of the entry, where the site has several forms for it. */
  | {
      readonly kind: 'call';
      readonly target: Address;
      readonly form?: string;
      readonly literal?: Address;
      /** Relocatable files: the symbol that the call names, in place of `target`, and the one that the word in front of the function does. */
      readonly names?: { readonly call: string; readonly ops: string | null };
    };

export type SiteRefusal = {
  /**
   * `needs-stub`: the site calls through stubs only; `restore-slot`: the word that must restore a register behind the call is another one;
   * `unreadable`: a word that the change depends on lies outside the section.
   */
  readonly refused: 'unsupported' | 'out-of-range' | 'not-applicable' | 'needs-stub' | 'restore-slot' | 'unreadable';
  readonly reason: string;
};

/**
 * One patchable code sequence. `read` and `write` are inverses: reading what `write` stored gives the asked state.
 * `read` returns null for bytes of another shape; `foreign` only when this shape is the only one that could be meant.
 */
export interface SiteShape {
  /** `riscv64.patchable-8`: lower case, appears in lists, plans and reports. */
  readonly name: string;
  readonly sources: readonly SiteSource[];
  /** For `explain` and the documentation: one line. */
  readonly title: string;
  /**
   * Conventions of tracer entries that a call from this shape can lead to (what is saved already, where the return addresses are);
   * names are those of the runtime's flavours (05-runtime-abi). Empty: calls of tracers cannot be made here.
   */
  readonly entries: readonly string[];
  read(view: SiteView, source: SiteSource): SiteReading | null;
  /** Changes that bring the site from `reading` to `to`. An empty change: it is there already. */
  write(reading: SiteReading, to: WritableState, view: SiteView): SiteChange | SiteRefusal;
  /**
   * The conventions that can serve this very site, of those in `entries`: where what stands around the site decides it. All of them when
   * the shape does not have this.
   */
  entriesAt?(reading: SiteReading, view: SiteView): readonly string[];
  /** Why the graph tracer cannot replace the return address of this site's function; null: it can. */
  whyNoGraph?(reading: SiteReading, view: SiteView): string | null;
  /**
   * The instruction in front of the site that its entry decodes when it runs, to tell where the function returns to: nobody may write over it. Null: none.
   */
  readByEntry?(view: SiteView): { readonly delta: number; readonly sizeBytes: number } | null;
  /**
   * What a slot of a kernel's own table must hold to be skipped by every generation that has sites of this shape, one of `McountRules.emptySlots`:
   * kernels that add to a slot before they ask for 0 skip the negative of what they add. null: there is no such value. Default 0.
   */
  emptySlot?(reading: SiteReading): bigint | null;
  /** What entries report as ip, from the site's own: they count back from the return address of a call of one size. Default 0. */
  entryIpDelta?(reading: SiteReading): number;
  /**
   * Registers that may be alive at the site and that neither the code around it nor a plain entry saves: callbacks that the compiler lets change them
   * need the entry that saves all.
   */
  readonly plainLoses?: readonly RegisterName[];
  /** True where the word that an entry takes for the return address is another one: only a register frame leads to it (nested functions of x86-64). */
  callerInFrame?(reading: SiteReading, view: SiteView): boolean;
  /**
   * What may happen to a thread that stands inside the site when it changes, even if all of the change is stored at once; null: nothing.
   * @param before  bytes from the site's ip on, as many as the largest site has, where the file has them
   * @param form    kind of the image's entries
   */
  hazard?(before: Uint8Array, after: Uint8Array, form: string): HazardId | null;
}

/** Hazards of F-7 that a plan can tell. */
export type HazardId = 'H2';

// ------------------------------------------------------------------------------------------------------------- stubs

/** Reads guest memory by address; -1 or null where nothing is mapped. Words in the target's own byte order. */
export interface AddressReader {
  u32(address: Address): number;
  u64(address: Address): bigint | null;
  u8(address: Address): number;
}

/** What a stub is and where it leads. */
export interface StubReading {
  /** Name of the form: `ppc64.module`. */
  readonly form: string;
  /** Code and the data behind it that belongs to the stub. */
  readonly sizeBytes: number;
  readonly target: Address;
  /** Where the target was loaded from (a PLT slot, a word of the stub); null when it is in the instructions. */
  readonly slot: Address | null;
  /** Size of the slot: a word, or a whole descriptor; 0 without a slot. */
  readonly slotBytes: number;
  /** The TOC that the stub loads for its target; null when it loads none. */
  readonly targetToc: Address | null;
  /** True when it stores the caller's TOC in the caller's frame: the word after the call must load it back. */
  readonly savesToc: boolean;
}

/** A branch island that a linker or loader put between a call and its target. */
export interface StubForm {
  /** `ppc64.plt-call-v2`. */
  readonly name: string;
  /** Address the stub leads to, or null when the code at `address` is not this stub. `toc` is .TOC. or null. */
  readTarget(code: AddressReader, address: Address, toc: Address | null): Address | null;
  /** The whole stub, or null when the code at `address` is not this stub. */
  read(code: AddressReader, address: Address, toc: Address | null): StubReading | null;
}

// ------------------------------------------------------------------------------------------------------------ branches

/**
 * One of the machine's direct branches as bytes: what the patched calls inside tracers' entries are made of, and what the reach of
 * a site is. `encode` and `target` are inverses.
 */
export interface BranchCodec {
  /** Bytes of the branch, a pair of instructions included. */
  readonly sizeBytes: number;
  /** From the address of the first byte. */
  readonly reach: Reach;
  /**
   * The branch at `from` to `to`.
   * @throws ElftraceError 'branch-out-of-range'
   */
  encode(from: Address, to: Address): Uint8Array;
  /** Where the bytes at `from` lead; null when they are not this branch. */
  target(bytes: Uint8Array, from: Address): Address | null;
}

export interface Branches {
  /** Call with a return address: `call`, `bl`, `auipc ra; jalr ra`. */
  readonly call: BranchCodec;
  /** Jump without: `jmp`, `b`, `jal zero`. */
  readonly jump: BranchCodec;
  /** What an entry has for the graph tracer: it leads behind itself, or to the stub, while that is off. */
  readonly graph: BranchCodec;
}

// ------------------------------------------------------------------------------------------------------------ loading

/**
 * Entry conventions: what the entry that a site calls may expect, and what it passes on. Each target has some of them (`runtimeFlavours` of runtime/).
 *
 * - `pg` (PowerPC): the site is a call behind the prologue (64 bits) or as it was in 2008 (32 bits); the entry passes ip and parent_ip, and
 *   the graph tracer is a branch in it.
 * - `regs` (PowerPC): the site is at the function's entry; the entries pass a register frame, and the graph tracer is a callback.
 * - `pg`, `regs` (arm64): the same two; the plain entry of `regs` passes an incomplete frame and shares the patched call with the other one.
 * - `args` (arm64, of 6.2): one entry for the sites of `regs`, whose frame has what is live at an entry; it goes to direct callers.
 * - `callops` (arm64, since 6.3): the same, and the site has a pointer to its ops in front of the function; the entry calls what the ops say,
 *   there is no patched call in it.
 * - `modern` (x86-64, `__fentry__` sites): both entries pass a frame, the plain one an incomplete one; the graph tracer is a callback, and
 *   the register entry goes to direct callers.
 * - `y2014` (x86-64, `__fentry__` sites): the plain entry passes no registers; the graph tracer has an entry of its own, which the other
 *   two jump to or a site calls; no direct callers.
 * - `mcount` (x86-64, -pg without -mfentry): as `y2014`, with the return address of the function at 8(%rbp). It cannot be `modern`: the function
 *   has begun, so neither a direct caller nor another function can take its place, and a word above the return address of the call
 *   is not the function's own.
 * - `g2` (RISC-V, `auipc t0; jalr t0`): of 2022; both entries pass a frame, the plain one an incomplete one; the graph tracer is a callback or
 *   a second patched call; the register entry goes to direct callers.
 * - `g2-plain` (RISC-V): the same sites in a build without register support: one entry, which passes no registers; the graph tracer is a patched call
 *   in it; no direct callers.
 * - `g2-merged`, `g3`, `g3c` (RISC-V): one small frame and one entry for all. `g2-merged` serves the same sites as `g2`, the others those whose auipc
 *   stays: what the entry calls is in a pointer (`g3`) or in the ops that a word in front of the function names (`g3c`).
 * - `g1` (RISC-V, 16 bytes around a pair through ra): the plain entry passes no registers; no direct callers.
 * - `g0` (RISC-V, -pg): the same for calls behind the prologue.
 */
export type EntryFlavour =
  | 'pg'
  | 'regs'
  | 'args'
  | 'callops'
  | 'modern'
  | 'y2014'
  | 'mcount'
  | 'g0'
  | 'g1'
  | 'g2'
  | 'g2-plain'
  | 'g2-merged'
  | 'g3'
  | 'g3c';

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

/** A call that the loader has to bind. Words by byte distance from the call; -1 outside its section. */
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

/** How a kernel's module loader of this machine lays modules out. */
export interface ModuleLoader {
  readonly kind: 'modules';
  /** e_flags of an image. */
  readonly imageFlags: number;
  /** Options that decide bytes, with their values; the first is the default. */
  readonly options: Readonly<Record<string, readonly string[]>>;
  /** Segments of different permissions lie in different pages of this size. */
  readonly segmentAlignBytes: number;
  /** First address behind the address space. */
  readonly addressLimit: bigint;
  /** Displacements that a direct call can encode. */
  readonly reach: Reach;
  /** Where core and modules of a base lie; `modules` null: as far from the core as `moduleDistance` says. */
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
    /** True at places where no stub may begin; such slots stay empty. */
    isForbidden?(address: Address): boolean;
    /** Entries more than calls need, for the forbidden places among `count` of them. */
    reserve?(count: number): number;
    /** Sections of their own for the stubs of a tracer's entries: of the text, and of the init text where there is one. */
    readonly entrySections?: { readonly text: string; readonly init: string };
  };
  /** Section of function descriptors {code, TOC, …}; null where function symbols name code. */
  readonly descriptors: string | null;
  /** The TOC pointer of a laid-out part, from the addresses of its sections by name; null on machines without. */
  toc(sectionAddress: (name: string) => Address | null, options: MachineOptions): Address | null;
  /** The function symbol whose code `name` names (`.foo` -> `foo`), or null. */
  codeOf(name: string): string | null;
  /** Names of the symbol that stands for the part's own TOC. */
  readonly tocSymbol: string | null;
  /** Entries that a module gets stubs for (P-STUB-3), in order. */
  readonly entrySymbols: readonly string[];
  /** Whether one of them is called with these options; default: each that there is. */
  callsEntry?(symbol: string, options: MachineOptions): boolean;
  /** The convention of patchable areas. */
  readonly patchable: EntryFlavour;
  /** The convention of a call of the profiling entry, from the words around it and, where the file tells it, the name that is called. */
  conventionOf(word: (delta: number) => number, callee?: string): EntryFlavour;
  /**
   * That of a patchable area, from the function symbols and words around its table entry; null: no call fits there. `patchable` where all are alike.
   */
  conventionOfPatchable?(functionAt: (delta: number) => boolean, word: (delta: number) => number): EntryFlavour | null;
  /** The convention whose entries serve sites of all these; null: none does. Default: `regs`, where stubs do not differ. */
  joinConventions?(found: readonly EntryFlavour[]): EntryFlavour | null;
  /** The runtime to lay in for sites of a convention; the one of that name by default. */
  runtimeFor?(convention: EntryFlavour, options: MachineOptions): EntryFlavour;
  /** Kind of the stub that sites of a convention call, from a module or from the core itself. */
  entryStub(convention: EntryFlavour, from: 'module' | 'core'): StubKind;
  bindCall(call: LoaderCall): CallBinding;
  /** What a call of an undefined weak function becomes. */
  readonly skippedCall: number;
  /** An instruction after a relocation wrote its field, where the value decides the opcode too. */
  finishWord?(type: number, word: number, value: bigint): number;
  /** The same where the place of the relocation is not the start of the instruction. */
  skipCall?(bytes: Uint8Array, offset: number): void;
  /** Bytes from the place of a call's relocation to where its displacement counts from, when the addend makes up for them. Default 0. */
  readonly branchBias?: bigint;
  /** Bytes of `.elftrace.text`, room for private trampolines that the runtime gets; 0 by default. */
  trampolineRoom?(options: MachineOptions): number;
  /**
   * Bytes of a stub, not longer than an entry.
   * @throws ElftraceError 'branch-out-of-range' when the stub cannot reach
   */
  writeStub(kind: StubKind, request: StubRequest): Uint8Array;
  /** 32-bit words of the runtime that are others in images at kernel addresses, as offsets from a symbol. */
  readonly kernelWords?: readonly { readonly symbol: string; readonly offset: number; readonly value: number }[];
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

// -------------------------------------------------------------------------------------------------- private trampolines

/** How trampolines are made: as in 2014, or as kernels of today do. */
export type TrampolineVariant = '2014' | 'modern';

/** Which entry a trampoline is a copy of: X-TR-1. */
export type TemplateKind = 'plain' | 'regs';

/** What is in a finished trampoline, as offsets in it. */
export interface TrampolineLayout {
  readonly template: TemplateKind;
  readonly variant: TrampolineVariant;
  readonly sizeBytes: number;
  /** S: where the generated end begins. */
  readonly bodyBytes: number;
  readonly opsLoadOffset: number;
  readonly callOffset: number;
  /** The word with the address of the ops, not aligned. */
  readonly opsOffset: number;
}

/** Everything that can fail: one object, so that tests and live sessions can put another one in its place. */
export interface TextSeam {
  /** Executable memory for `sizeBytes`, from where code at `near` reaches it; null: there is none. */
  allocate(sizeBytes: number, near: Address): Address | null;
  free(address: Address, sizeBytes: number): void;
  /** null: it cannot be read. */
  read(address: Address, sizeBytes: number): Uint8Array | null;
  /** Fills memory that nobody can reach yet. */
  fill(address: Address, bytes: Uint8Array): boolean;
  /** Changes text that may be running: the int3 protocol. False: EPERM. */
  patch(address: Address, before: Uint8Array, after: Uint8Array): boolean;
  /** Makes finished memory read-only and executable. */
  seal(address: Address, sizeBytes: number): void;
  warn(warning: TrampolineWarning): void;
}

export interface TrampolineWarning {
  /** A refusal of the machine's, or `call-not-changed`. */
  readonly code: string;
  readonly reason: string;
}

/** A trampoline that we made: what ALLOC_TRAMP stands for, and which template it is a copy of. */
export interface OwnTrampoline {
  readonly kind: 'own';
  readonly address: Address;
  readonly layout: TrampolineLayout;
}

/** What an ops has: nothing, one that its user gave (never touched, T-X86-17), or ours. */
export type OpsTrampoline =
  { readonly kind: 'none' } | { readonly kind: 'user'; readonly address: Address } | OwnTrampoline;

export interface TrampolineOps {
  /** Address of the ops object. */
  readonly address: Address;
  readonly saveRegs: boolean;
  /** What the call shall go to: `func` (2014), or the assist wrapper where the ops wants one. */
  readonly callee: Address;
  readonly trampoline: OpsTrampoline;
}

/** Where a trampoline is made. */
export interface TrampolinePlace {
  readonly variant: TrampolineVariant;
  /** Address of a global symbol, or null. */
  readonly find: (symbol: string) => Address | null;
  readonly seam: TextSeam;
  /** First and last site that will call it: both must reach it. */
  readonly callers?: { readonly first: Address; readonly last: Address };
}

export interface TrampolineUpdate {
  readonly trampoline: OpsTrampoline;
  readonly did: 'nothing' | 'created' | 'retargeted' | 'rebuilt' | 'failed';
  /** Ours that another one took the place of: to be freed when nobody can be in it any more (C-Q-5). */
  readonly retired?: OwnTrampoline;
}

/** Private trampolines of a machine (A3.1). */
export interface PrivateTrampolines {
  readonly kind: 'private';
  /** How they are made from the entries of a convention. */
  variantOf(convention: string): TrampolineVariant;
  /**
   * What registration does with an ops' trampoline (C-TRAMP-2): makes one, re-points the call of ours, leaves a user's alone. Failure is no
   * error (C-TRAMP-4): a warning, and no trampoline.
   */
  update(ops: TrampolineOps, place: TrampolinePlace): TrampolineUpdate;
  /**
   * The trampoline of ours for an ops at an address, by its bytes; null: what stands there is none.
   * @param callees  what it may call: the function of the ops, and wrappers around it
   */
  recognise(
    address: Address,
    ops: Address,
    callees: readonly Address[],
    place: Pick<TrampolinePlace, 'variant' | 'find' | 'seam'>,
  ): OwnTrampoline | null;
  /** Byte of memory that holds none: it must not be executed. */
  readonly fill: number;
}

/** Whether one ops can have code of its own here, or why not (T-X86-31). */
export type TrampolineModel = PrivateTrampolines | { readonly kind: 'none'; readonly reason: string };

/** Whether sites can call a routine of a user straight (A5), or why not. `goesOn`: code of one that does nothing but go on into the function. */
export type DirectCallers =
  { readonly kind: 'code'; readonly goesOn: Uint8Array } | { readonly kind: 'none'; readonly reason: string };

// -------------------------------------------------------------------------------------------- code of running processors

/** An instruction to be written while processors may execute the one that stands there. */
export interface LivePatch {
  readonly address: Address;
  readonly after: Uint8Array;
}

/** What of a processor a trap handler needs. */
export interface TrappedCpu {
  readonly flags: number;
  setIp(address: Address): void;
  /** Pushes a word. */
  push(value: bigint): void;
  pop(): bigint;
}

/** Registers and memory of a processor that trapped. */
export interface TrapRegisters {
  register(name: RegisterName): bigint;
  setRegister(name: RegisterName, value: bigint): void;
  readWord(address: Address, size: number): bigint | null;
  writeWord(address: Address, size: number, value: bigint): boolean;
}

/** `Entry`: what a handler knows of one patch of a published batch; more than the patch is the machine's. */
export type LiveStep<Entry extends LivePatch = LivePatch> =
  /** The handler knows these from now on; ascending addresses. */
  | { readonly kind: 'publish'; readonly entries: readonly Entry[] }
  /** One store of bytes. Only one byte is atomic with respect to fetch. */
  | {
      readonly kind: 'store';
      readonly phase: 'int3' | 'tail' | 'head';
      readonly address: Address;
      readonly bytes: Uint8Array;
    }
  /** Every processor sees what was stored. */
  | { readonly kind: 'sync' }
  /** The handler knows nothing any more. */
  | { readonly kind: 'retract' }
  /** Until no processor is in the handler with an entry of the batch. */
  | { readonly kind: 'wait-handlers' };

/** Instructions of several bytes are changed behind a breakpoint. */
export interface BreakpointPatching {
  readonly kind: 'breakpoint';
  /** Whether the handler could do what the new instruction does; other bytes are stored where nobody executes. */
  canWrite(patch: LivePatch): boolean;
  /** The whole protocol, in order. Ascending addresses. */
  steps(patches: readonly LivePatch[]): readonly LiveStep[];
  /** What the handler does for a processor that trapped at an address; false: the trap is somebody else's. */
  handle(entries: readonly LivePatch[], at: Address, cpu: TrappedCpu): boolean;
  /** A processor as `handle` needs it. */
  trapped(registers: TrapRegisters): TrappedCpu;
}

/** `word`: one store of a word changes an instruction, and processors see it whole. */
export type LivePatching = BreakpointPatching | { readonly kind: 'word' };

// --------------------------------------------------------------------------------------------------------------- arch

// --------------------------------------------------------------------------------------------------- other patching

/** A field of a table entry that says where code lies. */
export interface PatchField {
  /** Its offset in the entry. */
  readonly at: number;
  readonly bytes: 4 | 8;
  /** What its value is counted from: the field itself, the start of the entry, or nothing (an address). */
  readonly from: 'field' | 'entry' | 'nothing';
}

/**
 * One format of a table in which a kernel keeps places of code that another mechanism than ftrace patches, or knows by their address (F-6): entries of one
 * size, one behind the other.
 */
export interface PatchTable {
  readonly section: string;
  /** For people: `a jump label`. */
  readonly what: string;
  readonly entryBytes: number;
  /** The first byte of the place. */
  readonly place: PatchField;
  /** How far the place reaches: over its instruction, over as many bytes as a field says, or to where another field leads. */
  readonly reach: 'instruction' | { readonly at: number; readonly bytes: 1 | 2 | 8 } | { readonly end: PatchField };
  /** Places that the entry names and that are gone to, not written. */
  readonly targets?: readonly PatchField[];
  /** Fields that name the code that replaces other code: it is copied, and not executed where it stands. */
  readonly replacement?: readonly PatchField[];
}

export interface Arch {
  readonly target: Target;
  readonly abi: Abi;
  readonly isa: Isa;
  /** Key: r_type. Every type that occurs in the inputs we know; an unknown one is an error that names it. */
  readonly relocations: ReadonlyMap<number, RelocationRow>;
  readonly relocationRoles: RelocationRoles;
  readonly mcount: McountRules;
  /** Tried in order; the first that does not return null wins. */
  readonly siteShapes: readonly SiteShape[];
  readonly stubForms: readonly StubForm[];
  readonly branches: Branches;
  readonly loader: LoaderModel;
  readonly trampolines: TrampolineModel;
  readonly directCallers: DirectCallers;
  readonly livePatching: LivePatching;
  /** Tables of the kernel's other patching mechanisms; of one section the newest format first. */
  readonly patchTables: readonly PatchTable[];
  /** Where probes can be set, how probed instructions are executed, and what a jump in their place needs. */
  readonly probes: ProbeModel;
  /** How to run code of this target, or why it cannot be run. */
  readonly emulation: EmulationModel;
}
