/**
 * Patch sites of PowerPC, 32 and 64 bits: which words a compiler leaves, which words a disabled and
 * an enabled site has. Owns the shapes and the rules for finding calls of `_mcount`; knows no table
 * and no file.
 *
 * Words of each shape; `|` stands before the word that toggles (the ip):
 *
 *   shape                  compiled                          nop                  call
 *   ppc64.mprofile-kernel  mflr r0 | bl _mcount              mflr r0 | nop        mflr r0 | bl
 *                          mflr r0; std r0,16(r1) | bl       … | nop              … | bl
 *   ppc64.pg               | bl _mcount                      | nop                | bl
 *     with a TOC restore   | bl stub; ld r2,S(r1)            | b .+8; ld r2,S(r1) | bl; ld r2,S(r1)
 *       form of 2008                                         | nop; nop           | bl; ld r2,S(r1)
 *   ppc64.patchable-2      nop | nop                         mflr r0 | nop        mflr r0 | bl
 *   ppc32.pg               mflr r0; stw r0,4(r1) | bl        … | nop              … | bl
 *   ppc32.pg-late          | bl _mcount (clang, behind the   | nop                | bl
 *                          prologue)
 *   ppc32.pg-longcall      lis; addi; mtctr | bctrl          … | nop              … | bctrl
 *   ppc32.patchable-2      nop | nop                         mflr r0 | nop        mflr r0 | bl
 *   ppc*.out-of-line       | nop                             | nop                | b stub
 *
 * S is 40 on ELFv1, 24 on ELFv2.
 *
 * - The word after a call of `-pg` is the site's only when it restores r2 (a stub saved it). Then
 *   the call becomes `b .+8`, never two nops: a thread that is inside the tracer returns to the
 *   restore, which must still be there (H3). Where the call leads to code of the same TOC
 *   the next word is neither read nor written (T-PPC-29): the compiler's nop, or anything else. The
 *   two nops that the 2008 implementation left in a loaded module read as a near call's nop and its
 *   follower do; which of them it is shows when the site is to call through a stub that saves r2:
 *   then the second nop becomes the restore again.
 * - `-mprofile-kernel` and patchable sites come before the function has a frame: no stub in between
 *   may touch r2, and no restore follows. LR at the site is the address behind it, the caller's LR
 *   is in r0 (`mflr r0` must therefore be there in every state but the compiler's nops).
 * - A patchable entry's table names the first nop, the ip is the second (P-SITE-1). Nops in front
 *   of the function symbol (N,M with M > 0) are not used: only the first two behind the entry run
 *   on every call. GCC 12 puts ELFv2's nops in front of the TOC set-up at the global entry, where
 *   r2 is not set and which local calls skip (P-SITE-2): recognised, never patched.
 * - With clang's -mlongcall only the `bctrl` toggles: one aligned word, one store, nothing else to
 *   undo. What stays in front only computes the address into registers that the call itself
 *   destroys.
 */
import type {
  SiteChange,
  SiteReading,
  SiteRefusal,
  SiteRelocation,
  SiteShape,
  SiteStore,
  SiteSource,
  SiteView,
  WritableState,
} from '../machine/sites.js';
import type { SiteStub } from '../machine/out-of-line.js';
import type { McountRules } from '../machine/tables.js';
import { reaches, signExtend32 } from '../bits.js';
import { ByteView, equalBytes, wordBytes } from '../bytes.js';
import { hex } from '../errors.js';
import type { Address, Endian } from '../units.js';
import {
  B_OVER_ONE,
  BCTR,
  BCTRL,
  bl,
  BL_ZERO,
  BLR,
  branch,
  branchDisplacement,
  fromHaLo,
  isBl,
  isBranch,
  MFLR_R0,
  NOP,
  profileKernelWords,
  restoreToc,
  STW_R0,
} from './stubs.js';
import { ppc32Table } from './isa.js';
import { outOfLineModel, readOutOfLineStub, STUB_CALL } from './out-of-line.js';
import {
  branchReach,
  R_PPC64_REL24,
  R_PPC64_REL24_NOTOC,
  R_PPC64_REL24_P9NOTOC,
  R_PPC_ADDR16_HA,
  R_PPC_ADDR16_LO,
  R_PPC_LOCAL24PC,
  R_PPC_PLTREL24,
  R_PPC_REL24,
} from './relocs.js';

/** What differs between the targets that share the shapes. */
interface Flavour {
  readonly endian: Endian;
  readonly bits: 32 | 64;
  /** `ld r2,40(r1)` or `ld r2,24(r1)`; -1 on 32 bits. */
  readonly restore: number;
  /** True where functions may start with a set-up of r2 (ELFv2). */
  readonly globalEntry: boolean;
  readonly callTypes: ReadonlySet<number>;
}

const CALL_TYPES_32: ReadonlySet<number> = new Set([R_PPC_REL24, R_PPC_PLTREL24, R_PPC_LOCAL24PC]);
const CALL_TYPES_64: ReadonlySet<number> = new Set([R_PPC64_REL24, R_PPC64_REL24_NOTOC, R_PPC64_REL24_P9NOTOC]);

// ----------------------------------------------------------------------------------------- helpers

function wordsOf(words: readonly number[], endian: Endian): Uint8Array {
  const out = new Uint8Array(4 * words.length);
  words.forEach((word, i) => {
    out.set(wordBytes(word, endian), 4 * i);
  });
  return out;
}

/** A word of data. */
function wordOfBits(value: bigint, bits: 32 | 64, endian: Endian): Uint8Array {
  const view = new ByteView(new Uint8Array(bits / 8), endian);
  view.insertWord(0, value, bits === 64 ? 8 : 4);
  return view.bytes;
}

function store(delta: number, before: number, after: number, endian: Endian): SiteStore {
  return { delta, before: wordBytes(before, endian), after: wordBytes(after, endian) };
}

/** Both words of a site that toggle together, as one store. */
function pairStore(word: number, next: number, after: number, nextAfter: number, endian: Endian): SiteStore {
  return { delta: 0, before: wordsOf([word, next], endian), after: wordsOf([after, nextAfter], endian) };
}

function refuse(refused: SiteRefusal['refused'], reason: string): SiteRefusal {
  return { refused, reason };
}

const NO_DELTAS: readonly number[] = [];
const AT_0: readonly number[] = [0];

/** What the word at `delta` is, as a call. */
type CallWord =
  | { readonly kind: 'compiled' | 'call'; readonly target: Address | null; readonly relocated: boolean }
  | { readonly kind: 'nop' | 'other' }
  | { readonly kind: 'wrong'; readonly reason: string };

const NOP_WORD: CallWord = { kind: 'nop' };
const OTHER_WORD: CallWord = { kind: 'other' };
const COMPILED_RELOCATED: CallWord = { kind: 'compiled', target: null, relocated: true };
const CALL_RELOCATED: CallWord = { kind: 'call', target: null, relocated: true };

/**
 * Classifies a word that may toggle. In relocatable files the relocation decides and the field must
 * be zero (F-2, P-OFF-1); in linked ones the branch target does.
 */
function readCall(view: SiteView, delta: number, word: number, flavour: Flavour): CallWord {
  if (isBl(word)) {
    if (view.relocatable) {
      const relocation = view.relocation(delta);
      if (relocation === null) return { kind: 'wrong', reason: 'the call has no relocation' };
      if (!flavour.callTypes.has(relocation.type)) {
        return { kind: 'wrong', reason: `relocation type ${relocation.type} is no call` };
      }
      if (word !== BL_ZERO) return { kind: 'wrong', reason: 'the branch field under the relocation is not zero' };
      return view.isMcountName(relocation.symbolName) ? COMPILED_RELOCATED : CALL_RELOCATED;
    }
    const target = BigInt.asUintN(flavour.bits, view.address + BigInt(delta + branchDisplacement(word)));
    return { kind: view.callee(target) === 'mcount' ? 'compiled' : 'call', target, relocated: false };
  }
  if (word === NOP) {
    return view.relocation(delta) === null ? NOP_WORD : { kind: 'wrong', reason: 'a relocation stands on the nop' };
  }
  return OTHER_WORD;
}

function foreign(
  shape: SiteShape,
  ipDelta: number,
  startDelta: number,
  sizeBytes: number,
  expected: Uint8Array,
  reason: string,
  fault?: SiteReading['fault'],
  nops?: SiteReading['nops'],
): SiteReading {
  const reading = {
    shape,
    state: 'foreign' as const,
    form: 'foreign',
    ipDelta,
    startDelta,
    sizeBytes,
    target: null,
    relocationDeltas: NO_DELTAS,
    expected,
    reason,
  };
  return { ...reading, ...(fault === undefined ? {} : { fault }), ...(nops === undefined ? {} : { nops }) };
}

function reading(
  shape: SiteShape,
  state: SiteReading['state'],
  form: string,
  ipDelta: number,
  startDelta: number,
  sizeBytes: number,
  target: Address | null,
  relocationDeltas: readonly number[],
): SiteReading {
  return { shape, state, form, ipDelta, startDelta, sizeBytes, target, relocationDeltas };
}

/** `ld r2,-8(r12)`: the first word of functions of -mcmodel=large. */
const LOAD_TOC_OFFSET = 0xe84c_fff8;

/**
 * First halves of the words that set r2 up at a global entry: addis r2,r12 / lis r2, then addi
 * r2,r2.
 */
function isTocSetup(view: SiteView, delta: number): boolean {
  const first = view.u32(delta);
  const second = view.u32(delta + 4);
  if (first < 0 || second < 0) return false;
  const upper = first >>> 16;
  if (upper === 0x3c4c || upper === 0x3c40) return second >>> 16 === 0x3842;
  // -mcmodel=large: ld r2,-8(r12); add r2,r2,r12 (or add r2,r12,r2).
  return first === LOAD_TOC_OFFSET && (second === 0x7c42_6214 || second === 0x7c4c_1214);
}

/**
 * True at a function's first instruction, or behind its TOC set-up. A nop there is no call of -pg
 * that was switched off: those stand behind the store of LR.
 */
function isAtEntry(view: SiteView): boolean {
  return view.functionAt(0) || (view.functionAt(-8) && isTocSetup(view, -8));
}

/** Rules of the specification that changes follow. */
function ruleOf(view: SiteView): string {
  return view.relocatable ? 'P-OFF-1' : 'P-NEW-2';
}

const UNCHANGED: SiteChange = { stores: [], neutralise: [], rule: 'C-INIT-2' };

/**
 * Changes of a site whose only toggling word is at `reading.ipDelta`. `nop` is what the word
 * becomes when the site is disabled; `before` holds further stores that must come first.
 */
function toggle(
  reading: SiteReading,
  to: WritableState,
  view: SiteView,
  flavour: Flavour,
  nop: number,
  nopRule: string,
): SiteChange | SiteRefusal {
  if (reading.state === 'foreign') return refuse('not-applicable', reading.reason ?? 'the site is foreign');
  const { ipDelta } = reading;
  const word = view.u32(ipDelta);
  switch (to.kind) {
    case 'nop':
    case 'init':
      if (reading.state === 'nop') return UNCHANGED;
      return {
        stores: [store(ipDelta, word, nop, flavour.endian)],
        neutralise: reading.relocationDeltas,
        rule: view.relocatable ? 'P-OFF-1' : nopRule,
      };
    case 'call': {
      const after = entryCallWord(view, ipDelta, to.target);
      if (typeof after !== 'number') return after;
      if (after === word) return UNCHANGED;
      return { stores: [store(ipDelta, word, after, flavour.endian)], neutralise: [], rule: ruleOf(view) };
    }
    default:
      return to satisfies never;
  }
}

/**
 * As `callWord`, for sites in front of the frame: nothing behind them restores r2, and the frame at
 * r1 is the caller's.
 */
function entryCallWord(view: SiteView, delta: number, target: Address): number | SiteRefusal {
  if (!view.relocatable && view.stub(target)?.savesToc === true) {
    return refuse('unsupported', "the stub stores r2 in the frame of the site's caller");
  }
  return callWord(view, delta, target);
}

/** The `bl` to `target` at a delta, or why there is none. */
function callWord(view: SiteView, delta: number, target: Address): number | SiteRefusal {
  if (view.relocatable) return refuse('not-applicable', 'a call in a relocatable file needs a relocation');
  const from = view.address + BigInt(delta);
  if (!reaches(branchReach, from, target)) return refuse('out-of-range', 'the target is out of the reach of bl');
  return bl(from, target);
}

// -------------------------------------------------------------------------------- -mprofile-kernel

/**
 * A nested function of ELFv1 has `std r11,24(r1)` where older compilers have the store of r0.
 *
 * | state    | ip-4 (or ip-8, ip-4)            | ip          |
 * |----------|---------------------------------|-------------|
 * | compiled | mflr r0 (; std r0,16(r1))       | bl _mcount  |
 * | nop      | same                            | nop         |
 * | call     | same                            | bl tracer   |
 */
function mprofileKernel(flavour: Flavour): SiteShape {
  const shape: SiteShape = {
    name: 'ppc64.mprofile-kernel',
    sources: ['mcount-table', 'call'],
    title: 'mflr r0; bl _mcount in front of the frame (gcc -pg -mprofile-kernel)',
    entries: ['regs'],
    leadsToEntry: givesLinkBack,
    read(view, source) {
      const words = profileKernelWords((delta) => view.u32(delta));
      if (words === 0) return null;
      const startDelta = -4 * words;
      const previous = view.u32(-4);
      const sizeBytes = 4 - startDelta;
      const word = view.u32(0);
      const call = readCall(view, 0, word, flavour);
      switch (call.kind) {
        case 'compiled':
        case 'call':
          return reading(
            shape,
            call.kind,
            'call',
            0,
            startDelta,
            sizeBytes,
            call.target,
            call.relocated ? AT_0 : NO_DELTAS,
          );
        case 'nop':
          return source === 'call' ? null : reading(shape, 'nop', 'nop', 0, startDelta, sizeBytes, null, NO_DELTAS);
        case 'wrong':
          return foreign(shape, 0, startDelta, sizeBytes, expectedCall(startDelta, previous, flavour), call.reason);
        case 'other':
          if (source === 'call') return null;
          return foreign(
            shape,
            0,
            startDelta,
            sizeBytes,
            expectedCall(startDelta, previous, flavour),
            'neither bl nor nop',
          );
        default:
          return call satisfies never;
      }
    },
    write: (reading, to, view) => toggle(reading, to, view, flavour, NOP, 'P-NEW-1'),
  };
  return shape;
}

/** `mtlr` of any register. */
const isMtlr = (word: number): boolean => (word & 0xfc1f_ffff) >>> 0 === 0x7c08_03a6;
const MOST_ENTRY_WORDS = 256;

/**
 * Whether code gives LR another value before it leaves for the first time. What is called between
 * `mflr r0` and the frame must, for LR is the caller's no more; routines that save registers, which
 * are called there, too, return with `blr` alone, and leave LR to their caller. Any other function
 * would write over r0.
 */
function givesLinkBack(view: SiteView, target: Address): boolean {
  for (let i = 0; i < MOST_ENTRY_WORDS; i++) {
    const word = view.wordAt(target + BigInt(4 * i));
    if (isMtlr(word)) return true;
    if (word < 0 || word === BLR || word === BCTR || isBranch(word)) return false;
  }
  return false;
}

function expectedCall(startDelta: number, previous: number, flavour: Flavour): Uint8Array {
  return wordsOf(startDelta === -4 ? [MFLR_R0, BL_ZERO] : [MFLR_R0, previous, BL_ZERO], flavour.endian);
}

// -------------------------------------------------------------------------------------- 64-bit -pg

/**
 * | state    | form         | ip          | ip+4                                       |
 * |----------|--------------|-------------|--------------------------------------------|
 * | compiled | call         | bl _mcount  | not ours                                   |
 * | compiled | call-restore | bl stub     | ld r2,S(r1)                                |
 * | nop      | nop          | nop         | not ours (not ld r2); nop in the 2008 form |
 * | nop      | b8           | b .+8       | ld r2,S(r1)                                |
 * | call     | call, call-restore                                                     |
 *
 * What is wrong is reported in the order of T-PPC-30: no `bl`, then where it leads, then the word
 * behind it.
 */
function pg64(flavour: Flavour): SiteShape {
  const shape: SiteShape = {
    name: 'ppc64.pg',
    sources: ['mcount-table', 'call'],
    title: 'bl _mcount behind the prologue (-pg), with the TOC restore of linkers and loaders',
    entries: ['pg'],
    read: (view, source) => readPg64(shape, flavour, view, source),
    write: (reading, to, view) => writePg64(shape, flavour, reading, to, view),
  };
  return shape;
}

/** The states of the table above. */
function readPg64(shape: SiteShape, flavour: Flavour, view: SiteView, source: SiteSource): SiteReading | null {
  const { restore, endian } = flavour;
  const word = view.u32(0);
  const call = readCall(view, 0, word, flavour);
  switch (call.kind) {
    case 'compiled':
    case 'call': {
      const restores = view.u32(4) === restore;
      // A wrong target comes first: whether its stub saves r2 does not matter then.
      if (!restores && call.target !== null && view.callee(call.target) !== 'other') {
        if (view.stub(call.target)?.savesToc === true) {
          const reason = 'the stub saves r2, and no word behind the call restores it';
          return foreign(shape, 0, 0, 8, wordsOf([word, restore], endian), reason, 'toc-restore-missing');
        }
      }
      return reading(
        shape,
        call.kind,
        restores ? 'call-restore' : 'call',
        0,
        0,
        restores ? 8 : 4,
        call.target,
        call.relocated ? AT_0 : NO_DELTAS,
      );
    }
    case 'nop':
      if (source === 'call' || isAtEntry(view)) return null;
      if (view.u32(4) === restore && !view.relocatable) {
        const reason = 'a TOC restore follows the nop: it would load a word that no stub has saved';
        return foreign(shape, 0, 0, 8, wordsOf([B_OVER_ONE, restore], endian), reason, 'toc-restore-missing');
      }
      return reading(shape, 'nop', 'nop', 0, 0, 4, null, NO_DELTAS);
    case 'wrong':
      return foreign(shape, 0, 0, 4, wordBytes(BL_ZERO, endian), call.reason);
    case 'other':
      if (source === 'call') return null;
      if (word === B_OVER_ONE) {
        if (view.u32(4) === restore) return reading(shape, 'nop', 'b8', 0, 0, 8, null, NO_DELTAS);
        const reason = 'b .+8 without a TOC restore behind it';
        return foreign(shape, 0, 0, 8, wordsOf([B_OVER_ONE, restore], endian), reason, 'toc-restore-missing');
      }
      return foreign(shape, 0, 0, 4, wordBytes(BL_ZERO, endian), 'neither bl nor nop');
    default:
      return call satisfies never;
  }
}

/** Between the states of the table above, a doubleword at a time where two words change. */
function writePg64(
  { name }: SiteShape,
  flavour: Flavour,
  ...[reading, to, view]: Parameters<SiteShape['write']>
): ReturnType<SiteShape['write']> {
  const { restore, endian } = flavour;
  if (reading.state === 'foreign') return refuse('not-applicable', reading.reason ?? 'the site is foreign');
  const word = view.u32(0);
  const next = view.u32(4);
  const restores = reading.form === 'call-restore' || reading.form === 'b8';
  switch (to.kind) {
    case 'nop':
    case 'init': {
      const form = to.kind === 'nop' ? to.form : undefined;
      if (form !== undefined && form !== '2008' && form !== 'b8') {
        return refuse('not-applicable', `${name} has no nop form ${form}`);
      }
      if (!restores) return toggle(reading, to, view, flavour, NOP, 'P-NEW-1');
      if (form === '2008') {
        const stores = [pairStore(word, restore, NOP, NOP, endian)];
        return { stores, neutralise: reading.relocationDeltas, rule: 'T-PPC-12' };
      }
      return toggle(reading, to, view, flavour, B_OVER_ONE, 'H3');
    }
    case 'call': {
      const after = callWord(view, 0, to.target);
      if (typeof after !== 'number') return after;
      if (view.stub(to.target)?.savesToc !== true) {
        // The restore would load what no stub has saved.
        if (restores) return refuse('needs-stub', 'a TOC restore follows the call, and the target saves no r2');
        if (after === word) return UNCHANGED;
        return { stores: [store(0, word, after, endian)], neutralise: [], rule: 'P-NEW-2' };
      }
      if (restores) {
        if (after === word) return UNCHANGED;
        return { stores: [store(0, word, after, endian)], neutralise: [], rule: 'T-PPC-17' };
      }
      if (next < 0) return refuse('unreadable', 'the word behind the site cannot be read');
      // Two nops of the 2008 form, or a call whose nop the compiler left for the linker.
      if (next !== NOP) {
        return refuse('restore-slot', 'the word behind the site is neither nop nor the TOC restore');
      }
      return { stores: [pairStore(word, next, after, restore, endian)], neutralise: [], rule: 'T-PPC-17' };
    }
    default:
      return to satisfies never;
  }
}

// ------------------------------------------------------------------------------- patchable entries

/** Most nops that are looked through between a table entry and the function's symbol. */
const MOST_NOPS = 64;

/**
 * Delta of the first word of a pad that every call of its function passes, from the table's
 * address. With M > 0 (`=N,M`) the table names the first of the M nops in front of it:
 *
 *   compiler                      from the table's address on
 *   M = 0                         N nops
 *   M > 0, one entry              M nops, symbol: N - M nops
 *   GCC 13, a global entry        M nops, local entry: N - M nops (the symbol is in front)
 *   clang, a global entry         M nops, symbol: two words that set r2, local entry: N - M nops
 *   the same, -mcmodel=large      M nops, 8 bytes `.TOC.` offset, symbol: two words, N - M nops
 *   clang, 32 bits, -fPIC         M nops, 4 bytes `.got2` offset, symbol: N - M nops
 *
 * 0 where no such place is found: the symbol is gone (an overridden weak function).
 */
function startOfPad(view: SiteView, { globalEntry, bits }: Flavour): number {
  if (view.u32(0) !== NOP || view.functionAt(0) || view.entryAt(0)) return 0;
  let delta = 0;
  while (delta < 4 * MOST_NOPS && view.u32(delta) === NOP && !view.functionAt(delta)) {
    if (view.entryAt(delta)) return delta;
    delta += 4;
  }
  if (!view.functionAt(delta) && !view.entryAt(delta)) {
    // Data of the compiler between the nops and the symbol, which its first words use. On 32 bits
    // it may be any number; but the end of an overridden function leaves it, which data does not.
    const data = bits === 32 ? 4 : globalEntry && view.u32(delta + 8) === LOAD_TOC_OFFSET ? 8 : 0;
    if (data === 0 || !view.functionAt(delta + data)) return 0;
    const last = view.u32(delta + data - 4);
    if (last === BLR || last === BCTR || isBranch(last)) return 0;
    delta += data;
  }
  return globalEntry && view.functionAt(delta) && isTocSetup(view, delta) ? delta + 8 : delta;
}

/**
 * The pair of words behind the entry that calls run through, from the table's address.
 *
 * | state    | form  | ip-4    | ip        |
 * |----------|-------|---------|-----------|
 * | compiled | nops  | nop     | nop       |
 * | nop      | init  | mflr r0 | nop       |
 * | call     | call  | mflr r0 | bl tracer |
 */
function patchable(flavour: Flavour): SiteShape {
  const shape: SiteShape = {
    name: flavour.bits === 64 ? 'ppc64.patchable-2' : 'ppc32.patchable-2',
    sources: ['patchable-table'],
    title: 'two nops at the function entry (-fpatchable-function-entry=2)',
    family: 'patchable-entry',
    entries: ['regs'],
    // Start-up adds 4 (6.5 to 6.14 before it asks for 0).
    emptySlot: -4n,
    read: (view) => readPatchable(shape, flavour, view),
    write: (reading, to, view) => writePatchable(flavour, reading, to, view),
  };
  return shape;
}

/** The states of the table above. */
function readPatchable(shape: SiteShape, flavour: Flavour, view: SiteView): SiteReading | null {
  const { endian } = flavour;
  const expected = wordsOf([NOP, NOP], endian);
  const start = startOfPad(view, flavour);
  const ip = start + 4;
  const first = view.u32(start);
  const second = view.u32(ip);
  if (flavour.globalEntry && (first === NOP || first === MFLR_R0)) {
    let delta = start;
    while (delta < start + 4 * MOST_NOPS && (view.u32(delta) === NOP || delta < start + 8)) delta += 4;
    if (isTocSetup(view, delta)) {
      const reason =
        'the nops stand in front of the TOC set-up of the global entry, as GCC 12 puts them: r2 is not set there';
      const skipped = `${reason} and local calls skip them`;
      const off = first === NOP && second === NOP ? 'whole' : undefined;
      return foreign(shape, ip, start, 8, expected, skipped, 'unsupported', off);
    }
  }
  if (first === NOP && second !== NOP && !isBl(second)) {
    const reason = 'one nop behind the function entry, two are needed';
    return foreign(shape, ip, start, 8, expected, reason, start > 0 ? 'unsupported' : undefined, 'few');
  }
  // A function may begin with `mflr r0` itself.
  if (start > 0 && first !== NOP && (first !== MFLR_R0 || (second !== NOP && !isBl(second)))) {
    const reason = 'all nops stand in front of the function entry';
    return foreign(shape, ip, start, 8, expected, reason, 'unsupported', 'front');
  }
  if (first !== NOP && first !== MFLR_R0) {
    return foreign(shape, ip, start, 8, expected, 'the first word is neither nop nor mflr r0');
  }
  if (view.relocation(start) !== null) {
    return foreign(shape, ip, start, 8, expected, 'a relocation stands on the first word');
  }
  const call = readCall(view, ip, second, flavour);
  switch (call.kind) {
    case 'compiled':
    case 'call': {
      if (first !== MFLR_R0) {
        const wanted = wordsOf([MFLR_R0, second], endian);
        return foreign(shape, ip, start, 8, wanted, 'the call is not preceded by mflr r0');
      }
      // Whatever it calls: the compiler's form of this shape has no call.
      return reading(shape, 'call', 'call', ip, start, 8, call.target, call.relocated ? [ip] : NO_DELTAS);
    }
    case 'nop':
      return first === NOP
        ? reading(shape, 'compiled', 'nops', ip, start, 8, null, NO_DELTAS)
        : reading(shape, 'nop', 'init', ip, start, 8, null, NO_DELTAS);
    case 'wrong':
      return foreign(shape, ip, start, 8, expected, call.reason);
    case 'other':
      return foreign(shape, ip, start, 8, expected, 'the second word is neither nop nor bl');
    default:
      return call satisfies never;
  }
}

/** From the compiled form to the others, and on as every site whose call is one word. */
function writePatchable(
  flavour: Flavour,
  ...[reading, to, view]: Parameters<SiteShape['write']>
): ReturnType<SiteShape['write']> {
  const { endian } = flavour;
  if (reading.state !== 'compiled') return toggle(reading, to, view, flavour, NOP, 'P-NEW-1');
  const first = store(reading.startDelta, NOP, MFLR_R0, endian);
  switch (to.kind) {
    case 'nop':
      return UNCHANGED;
    case 'init':
      return { stores: [first], neutralise: [], rule: 'P-NEW-1' };
    case 'call': {
      const after = entryCallWord(view, reading.ipDelta, to.target);
      if (typeof after !== 'number') return after;
      // r0 must be loaded before the call can run.
      return { stores: [first, store(reading.ipDelta, NOP, after, endian)], neutralise: [], rule: 'P-NEW-2' };
    }
    default:
      return to satisfies never;
  }
}

/**
 * `=3,1` of 32 bits: the nop in front of the function becomes the address of the site's ops.
 *
 * | state    | form  | anchor, ip-8 | ip-4    | ip        |
 * |----------|-------|--------------|---------|-----------|
 * | compiled | nops  | nop          | nop     | nop       |
 * | nop      | init  | nop or ops   | mflr r0 | nop       |
 * | call     | call  | nop or ops   | mflr r0 | bl tracer |
 *
 * Entries that do not read the word leave it the nop that it was.
 */
function callOps(flavour: Flavour): SiteShape {
  const { endian, bits } = flavour;
  const pair = patchable(flavour);
  const shape: SiteShape = {
    name: 'ppc32.patchable-3-1',
    sources: ['patchable-table'],
    title: 'a nop in front of the function for the address of its ops, two behind its entry (=3,1)',
    entries: ['callops', 'regs'],
    // Start-up adds 8 with ops in front of functions.
    emptySlot: -8n,
    read(view, source) {
      if (view.functionAt(0) || !view.functionAt(4)) return null;
      const [front, first, second] = [view.u32(0), view.u32(4), view.u32(8)];
      if (front === NOP) {
        const read = pair.read(view, source);
        if (read === null || read.state === 'foreign') return read;
        return { ...read, shape, startDelta: 0, sizeBytes: 12, ...(view.relocatable ? {} : { literal: null }) };
      }
      if (view.relocatable || first !== MFLR_R0) return null;
      const call = readCall(view, 8, second, flavour);
      if (call.kind !== 'nop' && call.kind !== 'call') return null;
      const target = call.kind === 'call' ? call.target : null;
      const form = call.kind === 'call' ? 'call' : 'init';
      return { ...reading(shape, call.kind, form, 8, 0, 12, target, NO_DELTAS), literal: BigInt(front) };
    },
    write(reading, to, view) {
      const change = pair.write({ ...reading, startDelta: 4 }, to, view);
      const isUntouched = reading.state === 'compiled' && to.kind === 'nop';
      if ('refused' in change || to.literal === undefined || view.relocatable || isUntouched) return change;
      const [before, after] = [view.bytes(0, 4), wordOfBits(to.literal, bits, endian)];
      if (equalBytes(before, after)) return change;
      // The entry must find the ops when the call stands.
      return { ...change, stores: [{ delta: 0, before, after }, ...change.stores], rule: 'P-CO-1' };
    },
  };
  return shape;
}

// ------------------------------------------------------------------------------------- out of line

/**
 * What brings the stub of a site to a call of `target`: its code, the word that names its ops, and
 * the island behind an idle call. What is there already is not written; without `ops` the word
 * stays.
 */
function stubStores(
  view: SiteView,
  stub: SiteStub,
  { target, ops }: { readonly target: Address; readonly ops: Address | undefined },
  { bits, endian }: Flavour,
): readonly SiteStore[] | SiteRefusal {
  const { reach, write } = outOfLineModel(bits, endian);
  if (!reaches(reach, stub.address + BigInt(STUB_CALL), target)) {
    return refuse('out-of-range', `the stub out of line at ${hex(stub.address)} does not reach ${hex(target)}`);
  }
  const place = (at: Address, after: Uint8Array): SiteStore[] => {
    const before = view.bytesAt(at, after.length);
    return equalBytes(before, after) ? [] : [{ delta: 0, at, before, after }];
  };
  const code = write({ address: stub.address, site: view.address, target });
  const named = stub.ops !== null && ops !== undefined ? place(stub.ops.address, wordOfBits(ops, bits, endian)) : [];
  const idle = target === stub.idleTarget;
  const island = stub.island !== null && idle ? place(stub.island.address, stub.island.bytes) : [];
  return [...island, ...place(stub.address, code), ...named];
}

/**
 * One nop at the entry. The call goes through a stub that a kernel fills at start, or a loader
 * behind a module: the nop becomes `b stub`, the stub saves LR, calls, and comes back.
 *
 * | state    | form        | ip      | stub                                    |
 * |----------|-------------|---------|-----------------------------------------|
 * | compiled | nop         | nop     | not looked at                           |
 * | call     | out-of-line | b stub  | mflr r0; bl tracer; mtlr r0; b ip+4     |
 *
 * Two nops at a site are chance: the next instruction of the function is a nop of its own.
 */
function outOfLine(flavour: Flavour): SiteShape {
  const { bits } = flavour;
  const shape: SiteShape = {
    name: `ppc${bits}.out-of-line`,
    sources: ['patchable-table'],
    title: 'one nop at the function entry, the call in a stub out of line (-fpatchable-function-entry=1)',
    family: 'patchable-entry',
    outOfLine: true,
    entries: ['ool-ops', 'ool'],
    read: (view) => readOutOfLine(shape, flavour, view),
    write: (reading, to, view) => writeOutOfLine(flavour, reading, to, view),
  };
  return shape;
}

/** The states of the table above. */
function readOutOfLine(shape: SiteShape, flavour: Flavour, view: SiteView): SiteReading | null {
  const { endian, bits, globalEntry } = flavour;
  const expected = wordsOf([NOP], endian);
  const word = view.u32(0);
  // With nops in front of the entry the table does not name the one that calls pass; and those
  // in front of the TOC set-up are passed by.
  if (startOfPad(view, flavour) > 0) return null;
  if (globalEntry && view.functionAt(0) && !view.entryAt(0)) return null;
  if (globalEntry && word === NOP && isTocSetup(view, 4)) return null;
  if (view.covered() && !view.entryAt(0)) {
    return foreign(shape, 0, 0, 4, expected, 'the place is inside a function, not at its entry');
  }
  if (view.relocation(0) !== null) return foreign(shape, 0, 0, 4, expected, 'a relocation stands on the nop');
  if (word === NOP) return reading(shape, 'compiled', 'nop', 0, 0, 4, null, NO_DELTAS);
  if (isBl(word)) {
    const lost = 'a call in place of the jump to a stub: the way back to the caller of the function is lost';
    return foreign(shape, 0, 0, 4, expected, lost);
  }
  if (view.relocatable || !isBranch(word)) {
    return foreign(shape, 0, 0, 4, expected, 'neither the nop nor a jump to a stub');
  }
  const at = BigInt.asUintN(bits, view.address + BigInt(branchDisplacement(word)));
  const stub = readOutOfLineStub((address) => view.wordAt(address), at, bits);
  const where = `the stub out of line at ${hex(at)}`;
  const wrong = (reason: string): SiteReading => foreign(shape, 0, 0, 4, expected, `${where} ${reason}`, 'stub');
  if (stub === 'empty') return wrong('is empty');
  if ('wrong' in stub) return wrong(`is none: ${stub.wrong}`);
  if (stub.back !== view.address + 4n) return wrong(`comes back to ${hex(stub.back)}, not behind this site`);
  return { ...reading(shape, 'call', 'out-of-line', 0, 0, 4, stub.target, NO_DELTAS), through: at };
}

/** The stub first where the site is switched on, the site first where it is switched off. */
function writeOutOfLine(
  flavour: Flavour,
  ...[reading, to, view]: Parameters<SiteShape['write']>
): ReturnType<SiteShape['write']> {
  const { endian, bits } = flavour;
  if (reading.state === 'foreign') return refuse('not-applicable', reading.reason ?? 'the site is foreign');
  const stub = view.ownStub();
  const off = reading.state === 'call' ? [store(0, view.u32(0), NOP, endian)] : [];
  switch (to.kind) {
    case 'nop':
      return { stores: off, neutralise: [], rule: 'P-OOL-4' };
    case 'init': {
      // Where there are no stubs yet a loader makes them.
      if (stub === null) return { stores: off, neutralise: [], rule: 'P-OOL-4' };
      if (stub.idleTarget === null) {
        return refuse('out-of-range', `no way leads from the stub at ${hex(stub.address)} to the entry`);
      }
      const idle = { target: stub.idleTarget, ops: to.literal ?? stub.ops?.idle };
      const stores = stubStores(view, stub, idle, flavour);
      return 'refused' in stores ? stores : { stores: [...stores, ...off], neutralise: [], rule: 'P-OOL-6' };
    }
    case 'call': {
      if (stub === null) return refuse('needs-stub', 'the site calls through a stub out of line, and has none');
      // A stub that was never written has no word of its own yet.
      const isNew = readOutOfLineStub((address) => view.wordAt(address), stub.address, bits) === 'empty';
      const ops = to.literal ?? (isNew ? stub.ops?.idle : undefined);
      const stores = stubStores(view, stub, { target: to.target, ops }, flavour);
      if ('refused' in stores) return stores;
      const on = branch(view.address, stub.address);
      const site = view.u32(0) === on ? [] : [store(0, view.u32(0), on, endian)];
      return { stores: [...stores, ...site], neutralise: [], rule: 'P-OOL-4' };
    }
    default:
      return to satisfies never;
  }
}

// -------------------------------------------------------------------------------------- 32-bit -pg

/**
 * | state    | ip-8    | ip-4          | ip          |
 * |----------|---------|---------------|-------------|
 * | compiled | mflr r0 | stw r0,4(r1)  | bl _mcount  |
 * | nop      | same    | same          | nop         |
 * | call     | same    | same          | bl tracer   |
 */
function pg32(flavour: Flavour): SiteShape {
  const expected = wordsOf([MFLR_R0, STW_R0, BL_ZERO], flavour.endian);
  const shape: SiteShape = {
    name: 'ppc32.pg',
    sources: ['mcount-table', 'call'],
    title: 'mflr r0; stw r0,4(r1); bl _mcount in front of the frame (gcc -pg)',
    entries: ['pg', 'regs'],
    leadsToEntry: givesLinkBack,
    read(view, source) {
      const saved = view.u32(-4) === STW_R0;
      const moved = view.u32(-8) === MFLR_R0;
      if (!saved && !moved) return null;
      const word = view.u32(0);
      const call = readCall(view, 0, word, flavour);
      if (!saved || !moved) {
        // One of the neighbours is damaged; but clang may have stored LR elsewhere in its prologue,
        // then call late.
        if (!saved || source === 'call') return null;
        return foreign(shape, 0, -8, 12, expected, 'mflr r0 is missing in front of stw r0,4(r1)');
      }
      switch (call.kind) {
        case 'compiled':
        case 'call':
          return reading(shape, call.kind, 'call', 0, -8, 12, call.target, call.relocated ? AT_0 : NO_DELTAS);
        case 'nop':
          return source === 'call' ? null : reading(shape, 'nop', 'nop', 0, -8, 12, null, NO_DELTAS);
        case 'wrong':
          return foreign(shape, 0, -8, 12, expected, call.reason);
        case 'other':
          if (source === 'call') return null;
          return foreign(shape, 0, -8, 12, expected, 'neither bl nor nop');
        default:
          return call satisfies never;
      }
    },
    write: (reading, to, view) => toggle(reading, to, view, flavour, NOP, 'P-NEW-1'),
  };
  return shape;
}

/** clang: an ordinary call behind the prologue, with nothing around it to verify. */
function pg32Late(flavour: Flavour): SiteShape {
  const expected = wordBytes(BL_ZERO, flavour.endian);
  const shape: SiteShape = {
    name: 'ppc32.pg-late',
    sources: ['mcount-table', 'call'],
    title: 'bl _mcount behind the prologue (clang -pg)',
    entries: [],
    read(view, source) {
      const call = readCall(view, 0, view.u32(0), flavour);
      switch (call.kind) {
        case 'compiled':
        case 'call':
          return reading(shape, call.kind, 'call', 0, 0, 4, call.target, call.relocated ? AT_0 : NO_DELTAS);
        case 'nop':
          if (source === 'call' || isAtEntry(view)) return null;
          return reading(shape, 'nop', 'nop', 0, 0, 4, null, NO_DELTAS);
        case 'wrong':
          return foreign(shape, 0, 0, 4, expected, call.reason);
        case 'other':
          return source === 'call' ? null : foreign(shape, 0, 0, 4, expected, 'neither bl nor nop');
        default:
          return call satisfies never;
      }
    },
    write: (reading, to, view) => toggle(reading, to, view, flavour, NOP, 'P-NEW-1'),
  };
  return shape;
}

/**
 * Most bytes from the `lis` of a long call to its `bctrl`: clang schedules saves and moves in
 * between.
 */
const LONG_CALL_REACH = 64;

/** Where the words of a long call are, as deltas from its `lis`. */
interface LongCall {
  /** `addi rX,rX,LO`. */
  readonly low: number;
  /** `bctrl`, or the nop in its place. */
  readonly ip: number;
}

/**
 * Words that clang puts between the words of a long call: whatever runs on to the next and keeps rX
 * and CTR.
 */
function keeps(word: number, register: number): boolean {
  const decoded = ppc32Table.decode(word);
  if (decoded === null || decoded.row.flow !== 'next') return false;
  const { mnemonic } = decoded.row;
  if (mnemonic === 'mtspr') return false;
  const { rt, rs, ra, ra0, rb } = decoded.operands;
  return rt !== register && rs !== register && ra !== register && ra0 !== register && rb !== register;
}

/**
 * The long call that starts with `lis rX` at `start`: then, in this order and with unconcerned
 * words between them, `addi rX,rX`, `mtctr rX` and `bctrl` (or `end`, the word that stands for it).
 * Null where there is none.
 */
function findLongCall(word: (delta: number) => number, end: number): LongCall | null {
  const first = word(0);
  if (first < 0 || (first & 0xfc1f_0000) >>> 0 !== 0x3c00_0000) return null;
  const register = (first >>> 21) & 31;
  const addi = (14 << 10) | (register << 5) | register;
  const mtctr = (0x7c09_03a6 | (register << 21)) >>> 0;
  let low = -1;
  let moved = false;
  for (let delta = 4; delta < LONG_CALL_REACH; delta += 4) {
    const next = word(delta);
    if (next < 0) return null;
    if (low < 0 && next >>> 16 === addi) low = delta;
    else if (low >= 0 && !moved && next === mtctr) moved = true;
    else if (moved && next === end) return { low, ip: delta };
    // After mtctr the register is free again, CTR is not.
    else if (!keeps(next, moved ? -1 : register)) return null;
  }
  return null;
}

function isHalf(relocation: SiteRelocation | null, type: number, view: SiteView): boolean {
  return relocation !== null && relocation.type === type && view.isMcountName(relocation.symbolName);
}

/**
 * | state    | form  | anchor                                            | ip    |
 * |----------|-------|---------------------------------------------------|-------|
 * | compiled | call  | lis rX,HA … addi rX,rX,LO … mtctr rX … (_mcount)  | bctrl |
 * | nop      | nop   | same                                              | nop   |
 * | call     | call  | same, of something else                           | bctrl |
 */
function pg32LongCall(flavour: Flavour): SiteShape {
  const shape: SiteShape = {
    name: 'ppc32.pg-longcall',
    sources: ['mcount-table', 'call'],
    title: 'lis; addi; mtctr; bctrl of _mcount (clang -pg -mlongcall)',
    entries: [],
    read(view, source) {
      const first = view.u32(0);
      if (first < 0 || (first & 0xfc1f_0000) >>> 0 !== 0x3c00_0000) return null;
      const word = (delta: number): number => view.u32(delta);
      const enabled = findLongCall(word, BCTRL);
      const found = enabled ?? (source === 'call' ? null : findLongCall(word, NOP));
      if (found === null) return null;
      const { low, ip } = found;
      const second = view.u32(low);
      const name = enabled ? 'call' : 'nop';
      if (view.relocatable) {
        if (!isHalf(view.relocation(2), R_PPC_ADDR16_HA, view)) return null;
        if (!isHalf(view.relocation(low + 2), R_PPC_ADDR16_LO, view)) return null;
        if ((first & 0xffff) !== 0 || (second & 0xffff) !== 0) {
          const expected = wordBytes((first & ~0xffff) >>> 0, flavour.endian);
          return foreign(shape, ip, 0, ip + 4, expected, 'a field under a relocation is not zero');
        }
        return reading(shape, enabled ? 'compiled' : 'nop', name, ip, 0, ip + 4, null, [2, low + 2]);
      }
      const target = longCallTarget(first, second);
      const callee = view.callee(target);
      if (!enabled && callee === 'other') return null;
      const state = !enabled ? 'nop' : callee === 'mcount' ? 'compiled' : 'call';
      return reading(shape, state, name, ip, 0, ip + 4, target, NO_DELTAS);
    },
    write(reading, to, view) {
      if (reading.state === 'foreign') return refuse('not-applicable', reading.reason ?? 'the site is foreign');
      const { endian } = flavour;
      const { ipDelta } = reading;
      switch (to.kind) {
        case 'nop':
        case 'init':
          if (reading.state === 'nop') return UNCHANGED;
          // The address halves stay, and so do their relocations: they compute, they do not call.
          return { stores: [store(ipDelta, BCTRL, NOP, endian)], neutralise: [], rule: ruleOf(view) };
        case 'call':
          if (view.relocatable) return refuse('not-applicable', 'a call in a relocatable file needs a relocation');
          if (reading.target !== to.target) {
            return refuse('unsupported', 'a long call is only switched on and off, not led elsewhere');
          }
          if (reading.state !== 'nop') return UNCHANGED;
          return { stores: [store(ipDelta, NOP, BCTRL, endian)], neutralise: [], rule: ruleOf(view) };
        default:
          return to satisfies never;
      }
    },
  };
  return shape;
}

function longCallTarget(first: number, second: number): Address {
  return BigInt.asUintN(32, fromHaLo(signExtend32(first, 16), signExtend32(second, 16)));
}

// ------------------------------------------------------------------------------------ mcount rules

function findCallsOf(flavour: Flavour): McountRules['findCalls'] {
  const { endian, bits } = flavour;
  return (code, start, end, address, isTarget) => {
    const view = new ByteView(code, endian, 'code');
    const found: number[] = [];
    const last = Math.min(end, code.length) - 4;
    for (let at = (start + 3) & ~3; at <= last; at += 4) {
      const word = view.u32(at);
      if (isBl(word)) {
        const target = BigInt.asUintN(bits, address + BigInt(at + branchDisplacement(word)));
        if (isTarget(target)) found.push(at);
      } else if (bits === 32 && (word & 0xfc1f_0000) >>> 0 === 0x3c00_0000) {
        const from = at;
        const long = findLongCall((delta) => (from + delta <= last ? view.u32(from + delta) : -1), BCTRL);
        if (long !== null && isTarget(longCallTarget(word, view.u32(from + long.low)))) found.push(from);
      }
    }
    return found;
  };
}

/** M-REC-3: the machine's own spelling first; a leading dot is ignored by the reader. */
const MCOUNT_SYMBOLS = ['_mcount', 'mcount', '__fentry__'] as const;

function mcountRules(flavour: Flavour): McountRules {
  const calls = new Map<number, number>();
  for (const type of flavour.callTypes) calls.set(type, 0);
  // The halfword that clang's long call relocates first is 2 bytes into the `lis`.
  if (flavour.bits === 32) calls.set(R_PPC_ADDR16_HA, -2);
  return {
    symbols: MCOUNT_SYMBOLS,
    callRelocations: calls,
    patchableIsPadding: false,
    emptySlots: [0n, -4n],
    // Plain -pg calls stand anywhere behind the prologue (ELFv1 kernels: entry + 12 … + 200 and
    // more).
    maxSiteOffset: 'any',
    findCalls: findCallsOf(flavour),
  };
}

// ------------------------------------------------------------------------------------- the targets

/** Shapes and call rules of one target. */
export interface PpcSites {
  readonly shapes: readonly SiteShape[];
  readonly mcount: McountRules;
}

function sites64(endian: Endian, abi: 'elfv1' | 'elfv2'): PpcSites {
  const flavour: Flavour = {
    endian,
    bits: 64,
    restore: restoreToc(abi === 'elfv1' ? 40 : 24),
    globalEntry: abi === 'elfv2',
    callTypes: CALL_TYPES_64,
  };
  return {
    shapes: [mprofileKernel(flavour), pg64(flavour), patchable(flavour), outOfLine(flavour)],
    mcount: mcountRules(flavour),
  };
}

function sites32(): PpcSites {
  const flavour: Flavour = { endian: 'big', bits: 32, restore: -2, globalEntry: false, callTypes: CALL_TYPES_32 };
  return {
    shapes: [
      pg32(flavour),
      pg32LongCall(flavour),
      pg32Late(flavour),
      callOps(flavour),
      patchable(flavour),
      outOfLine(flavour),
    ],
    mcount: mcountRules(flavour),
  };
}

export const ppc32Sites: PpcSites = sites32();
export const elfV1Sites: PpcSites = sites64('big', 'elfv1');
export const elfV2BeSites: PpcSites = sites64('big', 'elfv2');
export const elfV2LeSites: PpcSites = sites64('little', 'elfv2');
