/**
 * arm64 site shapes: the three forms in which compilers leave room for a call of a tracer. Owns
 * what the bytes of a site mean and what a change stores; decides neither which sites change nor
 * where trampolines lie.
 *
 * Which function has which form is the build's choice, and the tables do not say it: a slot names
 * the first patchable nop, which is the function itself (`=2`), the word behind its `bti c`, or two
 * words in front of it (`=4,2`). Only a function symbol tells `=2` from `=4,2`; padding in front of
 * a function is made of nops too, so shapes do not look backwards. Where no symbol is left (an
 * overridden weak function, a stripped file), bytes decide if they can and the site is foreign if
 * not.
 *
 * `paciasp` follows the nops and is not part of a site: the return address is still unsigned there.
 */
import type {
  SiteChange,
  SiteReading,
  SiteRefusal,
  SiteShape,
  SiteSource,
  SiteStateKind,
  SiteStore,
  SiteView,
  WritableState,
} from '../machine/sites.js';
import { reaches } from '../bits.js';
import { ByteView, concatBytes, equalBytes, wordBytes } from '../bytes.js';
import type { Address } from '../units.js';
import { insertField } from '../isa/table.js';
import {
  type Arm64Mnemonic,
  BL_ZERO,
  BRANCH_REACH,
  MOV_X9_X30,
  NOP,
  arm64Table,
  branchTarget,
  encodeBl,
  isBl,
  isBti,
  isBtiC,
} from './isa.js';
import { R_AARCH64_ABS64, R_AARCH64_CALL26 } from './relocs.js';

const ALL_IN_FRONT = 'all nops stand in front of the function';

const NONE: readonly number[] = [];
const AT_0: readonly number[] = [0];
const AT_12: readonly number[] = [12];
const AT_16: readonly number[] = [16];

const TABLES: readonly SiteSource[] = ['patchable-table', 'mcount-table'];
const CALLS: readonly SiteSource[] = ['mcount-table', 'call'];

const word = (value: number): Uint8Array => wordBytes(value, 'little');

const NOP_BYTES = word(NOP);
const MOV_BYTES = word(MOV_X9_X30);
const TWO_NOPS = concatBytes([NOP_BYTES, NOP_BYTES]);
const MOV_NOP = concatBytes([MOV_BYTES, NOP_BYTES]);
const FOUR_NOPS = concatBytes([TWO_NOPS, TWO_NOPS]);

const OUT_OF_REACH: SiteRefusal = {
  refused: 'out-of-range',
  reason: 'bl reaches -0x8000000 to +0x7fffffc bytes, the target is farther away or not 4-aligned',
};
const NEEDS_LINKED: SiteRefusal = {
  refused: 'unsupported',
  reason: 'a call in a relocatable file names its entry by a relocation: --entry SYMBOL',
};
/**
 * A-OFF-2: the pointer would be right at one place only, or make the file one of
 * DT_TEXTREL.
 */
const NO_TEXT_RELOCATIONS: SiteRefusal = {
  refused: 'unsupported',
  reason: 'an ops pointer in the text of a position-independent file would need a text relocation (DT_TEXTREL)',
};

/**
 * Address of the ops literal of a `=4,2` site (A-CO-1): ip - 12 rounded down to 8 bytes, which is
 * function - 8 both without a landing pad (ip = function + 4) and with one (ip = function + 8).
 */
export function literalAddress(ip: Address): Address {
  return (ip - 12n) & ~7n;
}

// --------------------------------------------------------------------------- words and relocations

/** What stands at the word that toggles. */
type Toggle = 'nop' | 'mcount' | 'call' | 'kept-relocation' | 'unrelocated' | 'misdirected' | 'other';

function readToggle(view: SiteView, delta: number): Toggle {
  const value = view.u32(delta);
  if (!view.relocatable) {
    if (value === NOP) return 'nop';
    if (value < 0 || !isBl(value)) return 'other';
    return view.callee(branchTarget(value, view.address + BigInt(delta))) === 'mcount' ? 'mcount' : 'call';
  }
  const relocation = view.relocation(delta);
  if (value === NOP) return relocation === null ? 'nop' : 'kept-relocation';
  if (value < 0 || !isBl(value)) return 'other';
  if (relocation === null) return 'unrelocated';
  // RELA: the field is zero and the addend is in the table; a call of anything but the symbol
  // itself is none of ours.
  if (relocation.type !== R_AARCH64_CALL26 || value !== BL_ZERO) return 'misdirected';
  return view.isMcountName(relocation.symbolName) ? 'mcount' : 'call';
}

const TOGGLE_REASONS: Readonly<Record<Toggle, string>> = {
  nop: '',
  mcount: '',
  call: '',
  'kept-relocation': 'a nop that still has a relocation: the linker would overwrite it',
  unrelocated: 'a bl without a relocation in a relocatable file',
  misdirected: 'a bl whose relocation is not CALL26, or whose field is not zero',
  other: 'neither nop nor bl',
};

/** Where the bl at `delta` leads, in linked files. */
function targetOf(view: SiteView, delta: number): Address | null {
  return view.relocatable ? null : branchTarget(view.u32(delta), view.address + BigInt(delta));
}

const change = (stores: readonly SiteStore[], rule: string, neutralise: readonly number[] = NONE): SiteChange => ({
  stores,
  neutralise,
  rule,
});

const notApplicable = (reading: SiteReading): SiteRefusal => ({
  refused: 'not-applicable',
  reason: reading.reason ?? 'the bytes are not those of the site',
});

// ------------------------------------------------------------------------------------------ mcount

/** Words of a row with some operands fixed and the others free. */
interface WordPattern {
  readonly mask: number;
  readonly match: number;
}

function pattern(mnemonic: Arm64Mnemonic, fixed: Readonly<Record<string, number>>): WordPattern {
  const row = arm64Table.row(mnemonic);
  let { mask, match } = row;
  for (const [name, value] of Object.entries(fixed)) {
    const field = arm64Table.field(mnemonic, name);
    match = insertField(field, match, value, mnemonic);
    for (const { high, low, at } of field.slices) mask = (mask | ((2 ** (high - low + 1) - 1) << at)) >>> 0;
  }
  return { mask, match };
}

const LR = 30;
const SP = 31;

/** How prologues save x30, alone or in either half of a pair. */
const SAVES_LR: readonly WordPattern[] = [
  pattern('stp-x-pre', { xt2: LR, base: SP }),
  pattern('stp-x-off', { xt2: LR, base: SP }),
  pattern('stp-x-pre', { xt: LR, base: SP }),
  pattern('stp-x-off', { xt: LR, base: SP }),
  pattern('str-x-pre', { xt: LR, base: SP }),
  pattern('str-x-imm', { xt: LR, base: SP }),
];
/** Ends of the function in front: a return, or x30 loaded back. */
const ENDS: readonly WordPattern[] = [
  pattern('ret', {}),
  pattern('retaa', {}),
  pattern('retab', {}),
  pattern('ldp-x-post', { xt2: LR, base: SP }),
  pattern('ldp-x-off', { xt2: LR, base: SP }),
  pattern('ldr-x-post', { xt: LR, base: SP }),
];

const matches = (value: number, patterns: readonly WordPattern[]): boolean => {
  for (const { mask, match } of patterns) if ((value & mask) >>> 0 === match) return true;
  return false;
};

/**
 * Farthest back that a prologue's store of x30 is looked for: variadic functions save 16 registers
 * first.
 */
const MAX_PROLOGUE_BYTES = 256;

/**
 * Whether a nop can be a disabled call of -pg: those stand behind the store of x30. A damaged
 * patchable site may start with a nop too, and a bl there would lose the caller's return address.
 */
function isBehindPrologue(view: SiteView): boolean {
  if (view.functionAt(0)) return false;
  for (let delta = -4; delta >= -MAX_PROLOGUE_BYTES; delta -= 4) {
    const value = view.u32(delta);
    if (value < 0 || matches(value, ENDS)) return false;
    if (matches(value, SAVES_LR)) return true;
    if (view.functionAt(delta)) return false;
  }
  return false;
}

/**
 * The function has signed its return address in front of the call: paciasp or pacibsp, which differ
 * in one bit, stands before the site in straight code, with no b, bl, br, blr, ret between. The
 * runtime looks in the same way (entry.h), for callers that do not ask a plan.
 */
const signsReturn = {
  stepBytes: 4,
  maxBytes: MAX_PROLOGUE_BYTES,
  finds: [{ sizeBytes: 4, mask: 0xffff_ffbf, match: 0xd503_233f }],
  stops: [
    { sizeBytes: 4, mask: 0x7c00_0000, match: 0x1400_0000 },
    { sizeBytes: 4, mask: 0xfe00_0000, match: 0xd600_0000 },
  ],
  untilFunction: false,
  reason:
    'the function has signed its return address (paciasp) in front of the call: another one would not authenticate',
} as const satisfies SiteShape['bindsReturn'];

/*
 * `-pg`: a call somewhere behind the prologue. Anchor = ip = the bl.
 *
 *   address   compiled     disabled   enabled
 *   a         bl _mcount   nop        bl tracer
 *
 * GCC passes the caller's return address (`mov x0, x30` before, not always adjacent), clang passes
 * nothing. A tail call (`b`, JUMP26) is no site.
 */
const mcount: SiteShape = {
  name: 'arm64.mcount',
  sources: CALLS,
  title: 'bl _mcount behind the prologue (-pg)',
  entries: ['pg'],
  bindsReturn: signsReturn,
  read(view, source) {
    const toggle = readToggle(view, 0);
    switch (toggle) {
      case 'mcount':
        return mcountReading(view, 'compiled', 'call');
      case 'call':
        return mcountReading(view, 'call', 'bl');
      case 'nop':
        if (source === 'mcount-table' && !isBehindPrologue(view)) return null;
        return mcountReading(view, 'nop', 'nop');
      default:
        // A table says that a site is here; a scan for calls found something else.
        return source === 'call'
          ? null
          : { ...mcountReading(view, 'foreign', 'unknown'), expected: word(BL_ZERO), reason: TOGGLE_REASONS[toggle] };
    }
  },
  write(reading, to, view) {
    if (reading.state === 'foreign') return notApplicable(reading);
    if (to.kind === 'call') return writeCall(reading, to, view, 0, NONE);
    // nop and init are one form here; the old word is compared by the store itself (A-SITE-2).
    if (reading.state === 'nop') return change([], 'A-SITE-2');
    return change(
      [{ delta: 0, before: view.bytes(0, 4), after: NOP_BYTES }],
      reading.state === 'compiled' ? 'A-SITE-2' : 'A-MOD-4',
      reading.relocationDeltas,
    );
  },
};

function mcountReading(view: SiteView, state: SiteStateKind, form: string): SiteReading {
  const branch = state === 'compiled' || state === 'call';
  return {
    shape: mcount,
    state,
    form,
    ipDelta: 0,
    startDelta: 0,
    sizeBytes: 4,
    target: branch ? targetOf(view, 0) : null,
    relocationDeltas: branch && view.relocatable ? AT_0 : NONE,
  };
}

// --------------------------------------------------------------------------- two words, one toggle

/**
 * The change to a call in a relocatable file: F-2, A-OFF-1: an opcode with a zero field,
 * and CALL26 of the entry's symbol.
 */
function nameCallee(
  reading: SiteReading,
  symbol: string,
  view: SiteView,
  ipDelta: number,
  pairDelta: readonly number[],
): SiteChange {
  const branches = reading.state === 'call' || (reading.state === 'compiled' && pairDelta.length === 0);
  if (branches && view.relocation(ipDelta)?.symbolName === symbol) return change([], 'A-MOD-2');
  const bl = word(BL_ZERO);
  const pair = pairDelta[0];
  const stores: SiteStore[] =
    pair !== undefined
      ? [{ delta: pair, before: TWO_NOPS, after: concatBytes([MOV_BYTES, bl]) }]
      : branches
        ? []
        : [{ delta: ipDelta, before: NOP_BYTES, after: bl }];
  return { ...change(stores, 'F-2'), relocate: [{ delta: ipDelta, type: R_AARCH64_CALL26, symbol }] };
}

/**
 * The change to a call: a linked file, in reach. `prefix`: what stands before the bl when it is not
 * there yet.
 */
function writeCall(
  reading: SiteReading,
  { target, names }: Extract<WritableState, { kind: 'call' }>,
  view: SiteView,
  ipDelta: number,
  /** For compiled nops: the pair is stored whole. */
  pairDelta: readonly number[],
): SiteChange | SiteRefusal {
  if (view.relocatable)
    return names === undefined ? NEEDS_LINKED : nameCallee(reading, names.call, view, ipDelta, pairDelta);
  const place = view.address + BigInt(ipDelta);
  if (!reaches(BRANCH_REACH, place, target)) return OUT_OF_REACH;
  if (reading.state === 'call' && reading.target === target) return change([], 'A-MOD-2');
  const bl = word(encodeBl(place, target));
  const pair = pairDelta[0];
  if (pair !== undefined) {
    return change([{ delta: pair, before: TWO_NOPS, after: concatBytes([MOV_BYTES, bl]) }], 'A-SITE-2');
  }
  return change([{ delta: ipDelta, before: view.bytes(ipDelta, 4), after: bl }], 'A-MOD-4');
}

interface PairState {
  readonly state: SiteStateKind;
  readonly form: string;
  readonly reason: string;
  readonly nops?: NonNullable<SiteReading['nops']>;
}

const PAIR_NOPS: PairState = { state: 'compiled', form: 'nops', reason: '' };
const PAIR_INIT: PairState = { state: 'nop', form: 'init', reason: '' };
const PAIR_CALL: PairState = { state: 'call', form: 'bl', reason: '' };
const PAIR_NO_MOV: PairState = {
  state: 'foreign',
  form: 'call without mov',
  reason: 'a bl without mov x9, x30 in front of it destroys the return address',
};
const PAIR_FIRST: PairState = {
  state: 'foreign',
  form: 'unknown',
  reason: 'the first word is neither nop nor mov x9, x30',
};
const PAIR_SHORT: PairState = {
  state: 'foreign',
  form: 'one nop',
  reason: 'two nops are needed, there is one',
  nops: 'few',
};
const PAIR_RELOCATION: PairState = {
  state: 'foreign',
  form: 'unknown',
  reason: 'a relocation stands on the first nop: the linker would overwrite it',
};
const PAIR_FOREIGN: ReadonlyMap<Toggle, PairState> = new Map(
  (['kept-relocation', 'unrelocated', 'misdirected', 'other'] as const).map((toggle) => [
    toggle,
    { state: 'foreign', form: 'unknown', reason: TOGGLE_REASONS[toggle] },
  ]),
);

/** State of the words at `delta` and `delta + 4`. */
function readPair(view: SiteView, delta: number): PairState {
  const first = view.u32(delta);
  if (first !== NOP && first !== MOV_X9_X30) return PAIR_FIRST;
  if (view.relocatable && view.relocation(delta) !== null) return PAIR_RELOCATION;
  const toggle = readToggle(view, delta + 4);
  if (toggle === 'nop') return first === NOP ? PAIR_NOPS : PAIR_INIT;
  if (toggle === 'call' || toggle === 'mcount') return first === NOP ? PAIR_NO_MOV : PAIR_CALL;
  if (toggle === 'other' && first === NOP) return PAIR_SHORT;
  return PAIR_FOREIGN.get(toggle)!;
}

/** nop, init and call for a pair whose toggling word is at `ipDelta`. */
function writePair(
  reading: SiteReading,
  to: WritableState,
  view: SiteView,
  initRule: string,
): SiteChange | SiteRefusal {
  const { ipDelta } = reading;
  switch (reading.state) {
    case 'foreign':
      return notApplicable(reading);
    case 'compiled':
      if (to.kind === 'nop') return change([], 'C-INIT-2');
      if (to.kind === 'init') {
        // One store of both words: the nop at ip stays, and is verified by being part of `before`
        // (A-SITE-2).
        return change([{ delta: ipDelta - 4, before: TWO_NOPS, after: MOV_NOP }], initRule);
      }
      return writeCall(reading, to, view, ipDelta, [ipDelta - 4]);
    case 'nop':
      if (to.kind === 'call') return writeCall(reading, to, view, ipDelta, NONE);
      // A-SITE-3: the mov stays; x9 is dead at an entry.
      return change([], 'A-SITE-3');
    case 'call':
      if (to.kind === 'call') return writeCall(reading, to, view, ipDelta, NONE);
      return change(
        [{ delta: ipDelta, before: view.bytes(ipDelta, 4), after: NOP_BYTES }],
        'A-MOD-4',
        reading.relocationDeltas,
      );
    default:
      return reading.state satisfies never;
  }
}

// -------------------------------------------------------------------------------------- which form

type Form = 'pair' | 'call-ops' | 'ambiguous';

/** Most words of nops in front of a function that are searched for its symbol. */
const MAX_PRECEDING_WORDS = 256;

/**
 * Bytes from the anchor to the function (A-SITE-5): with `=N,M` a table of patchable entries names
 * the first of the M nops in front of it, and only the symbol tells. -1 where no symbol is behind
 * the nops.
 */
function functionDelta(view: SiteView): number {
  if (view.functionAt(0) || (view.functionAt(-4) && isBti(view.u32(-4)))) return 0;
  for (let words = 1; words <= MAX_PRECEDING_WORDS && view.u32(4 * words - 4) === NOP; words++) {
    if (view.functionAt(4 * words)) return 4 * words;
  }
  return -1;
}

/** True for nop or mov x9, x30, then nop or bl. */
function isPatchable(view: SiteView, delta: number): boolean {
  const first = view.u32(delta);
  const second = view.u32(delta + 4);
  return (first === NOP || first === MOV_X9_X30) && (second === NOP || (second >= 0 && isBl(second)));
}

/** Tells `=2` from `=4,2` (A-SITE-1; on real kernels neither the table nor the padding does). */
function formOf(view: SiteView): Form {
  if (view.functionAt(-4) && isBti(view.u32(-4))) return 'pair';
  if (view.functionAt(8)) {
    // Symbols that mark the start of a section (`_stext`, `__entry_text_end`) stand in front of the
    // literal too. A `=2` function of 8 bytes, with no body at all, in front of another one looks
    // the same; its site then overlaps its neighbour's.
    return !view.functionAt(0) || isPatchable(view, isBti(view.u32(8)) ? 12 : 8) ? 'call-ops' : 'pair';
  }
  if (view.functionAt(0)) return 'pair';
  // No symbol: the body of an overridden weak function, or a stripped file.
  // With another number of nops in front than two the pair is where it is behind none.
  if (functionDelta(view) > 0) return 'pair';
  const third = view.u32(8);
  if (third < 0 || view.u32(0) !== NOP || view.u32(4) !== NOP) return 'pair';
  // A landing pad, or the mov of an initialised site, does not follow the two nops of a `=2`
  // function.
  if (isBti(third) || third === MOV_X9_X30) return 'call-ops';
  return third === NOP && view.u32(12) === NOP ? 'ambiguous' : 'pair';
}

// -------------------------------------------------------------------------------------------- =4,2

/*
 * `-fpatchable-function-entry=4,2` with 8-aligned functions: a pointer to the tracer's ops in front
 * of each function. The table names the first of the two words in front of the function.
 *
 *   address          compiled    initialised, off      on
 *   a                nop         ops literal, 8 bytes  ops literal
 *   a+4              nop
 *   f = a+8          [bti c]     [bti c]               [bti c]
 *   f+0 / f+4        nop         mov x9, x30           mov x9, x30
 *   f+4 / f+8 = ip   nop         nop                   bl tracer
 *
 * ip = a+12, or a+16 with a landing pad (A-SITE-1). The literal has to be one aligned store: a slot
 * that is not 8-aligned is dropped, never patched. Its store comes before those of the words
 * (A-MOD-1): a thread between the call and the load of the literal finds ops that are there. A
 * request for a state names the ops; without, the literal stays what it is, two nops at first, and
 * the site serves only entries that do not read it.
 */
const callOps: SiteShape = {
  name: 'arm64.call-ops',
  sources: TABLES,
  title: 'two nops before the function for an ops pointer, two behind its landing pad (=4,2)',
  // The entries of the years before do not read the pointer.
  entries: ['callops', 'regs', 'args'],
  // Start-up of 6.3 to 6.14 adds 12 to a slot that must be 8-aligned, and warns about others; later
  // kernels skip 0, and have such slots.
  emptySlot: null,
  read(view, source) {
    const form = formOf(view);
    if (form === 'pair') return null;
    if (form === 'ambiguous') {
      const reason = 'no function symbol tells the form =4,2 from four or more nops of =N';
      return callOpsForeign(view, reason, 12, 'unplaced', 'unsupported', 'whole');
    }
    const ipDelta = isBti(view.u32(8)) ? 16 : 12;
    const pair = readPair(view, ipDelta - 4);
    // A -pg call may be the last but one instruction in front of a function
    // (`bl _mcount; bl abort`): no literal, no pair.
    if (source === 'mcount-table' && pair.state === 'foreign' && !(view.u32(0) === NOP && view.u32(4) === NOP)) {
      return null;
    }
    const isFront = pair === PAIR_FIRST && view.u32(0) === NOP && view.u32(4) === NOP && !isBl(view.u32(ipDelta - 4));
    if (isFront) return callOpsForeign(view, ALL_IN_FRONT, ipDelta, 'before', undefined, 'front');
    if ((view.address & 7n) !== 0n && pair !== PAIR_SHORT) {
      const reason = 'A-SITE-1: the slot of =4,2 is not 8-aligned';
      const off = isOff(view, pair) ? 'whole' : undefined;
      return callOpsForeign(view, reason, ipDelta, 'misaligned', 'misaligned', off);
    }
    if (pair.state === 'foreign') return callOpsForeign(view, pair.reason, ipDelta, pair.form, undefined, pair.nops);
    const literal = view.relocatable ? view.relocation(0) : null;
    const second = view.relocatable ? view.relocation(4) : null;
    if (second !== null || (literal !== null && literal.type !== R_AARCH64_ABS64)) {
      return callOpsForeign(view, 'a relocation that is no ops pointer stands on the literal', ipDelta);
    }
    if (pair.state === 'compiled' && (literal !== null || view.u32(0) !== NOP || view.u32(4) !== NOP)) {
      return callOpsForeign(view, 'the literal is set and the function is not initialised', ipDelta);
    }
    return {
      shape: callOps,
      state: pair.state,
      form: pair.form,
      ipDelta,
      startDelta: 0,
      sizeBytes: ipDelta + 4,
      target: pair.state === 'call' ? targetOf(view, ipDelta) : null,
      ...(view.relocatable ? {} : { literal: readLiteral(view) }),
      relocationDeltas: pair.state === 'call' && view.relocatable ? (ipDelta === 12 ? AT_12 : AT_16) : NONE,
    };
  },
  write(reading, to, view) {
    const { literal } = to;
    const words = writePair(
      reading,
      to,
      view,
      literal === undefined ? 'A-SITE-2, the ops literal stays two nops' : 'A-SITE-2',
    );
    if ('refused' in words) return words;
    if (view.relocatable) {
      const ops = to.kind === 'call' ? (to.names?.ops ?? null) : null;
      return ops === null || view.relocation(0)?.symbolName === ops ? words : withOpsSymbol(words, ops, view);
    }
    if (literal === undefined) return words;
    if (view.positionIndependent) return NO_TEXT_RELOCATIONS;
    if (reading.state === 'compiled' && to.kind === 'nop') {
      // The nops of the compiler would stay, and a pointer in front of them says that the function
      // is initialised.
      return { refused: 'not-applicable', reason: 'an ops pointer belongs to an initialised site' };
    }
    const after = new Uint8Array(8);
    new ByteView(after, 'little').insertU64(0, literal);
    const before = view.bytes(0, 8);
    if (equalBytes(before, after)) return words;
    return change(
      [{ delta: 0, before, after }, ...words.stores],
      words.stores.length === 0 ? 'A-MOD-2' : words.rule,
      words.neutralise,
    );
  },
};

/**
 * A-OFF-1: the literal of a relocatable file is an ABS64 of the ops' symbol; what stood
 * in its bytes means nothing then.
 */
function withOpsSymbol(words: SiteChange, symbol: string, view: SiteView): SiteChange {
  const literal = { delta: 0, before: view.bytes(0, 8), after: new Uint8Array(8) };
  return {
    ...words,
    stores: equalBytes(literal.before, literal.after) ? words.stores : [literal, ...words.stores],
    relocate: [{ delta: 0, type: R_AARCH64_ABS64, symbol }, ...(words.relocate ?? [])],
    rule: 'F-2',
  };
}

/** The literal of a slot; null while it is the compiler's two nops. */
function readLiteral(view: SiteView): Address | null {
  const low = view.u32(0);
  const high = view.u32(4);
  return low === NOP && high === NOP ? null : (BigInt(high) << 32n) | BigInt(low);
}

function callOpsForeign(
  view: SiteView,
  reason: string,
  ipDelta = 12,
  form = 'unknown',
  fault?: SiteReading['fault'],
  nops?: SiteReading['nops'],
): SiteReading {
  const expected = ipDelta === 16 ? concatBytes([TWO_NOPS, view.bytes(8, 4), TWO_NOPS]) : FOUR_NOPS;
  return {
    shape: callOps,
    state: 'foreign',
    form,
    ipDelta,
    startDelta: 0,
    sizeBytes: ipDelta + 4,
    target: null,
    relocationDeltas: NONE,
    expected,
    reason,
    ...(fault === undefined ? {} : { fault }),
    ...(nops === undefined ? {} : { nops }),
  };
}

/** True for the compiler's four nops, and for a pair that was initialised and calls nothing. */
function isOff(view: SiteView, { state }: PairState): boolean {
  return state === 'nop' || (state === 'compiled' && view.u32(0) === NOP && view.u32(4) === NOP);
}

// ---------------------------------------------------------------------------------------------- =2

/** Words of nops that are looked through for a landing pad behind them. */
const MAX_NOP_WORDS = 16;

/**
 * M-PAD-2: a function that begins with its nops and has its `bti c` behind them, as compilers
 * before GCC 10 made them. Indirect calls of it trap where the processor looks for landing pads.
 */
function padBehind(view: SiteView, at: number): Pick<SiteReading, 'padBehind'> {
  if (!view.functionAt(at) || !isPatchable(view, at)) return {};
  let behind = at + 8;
  while (behind < at + 4 * MAX_NOP_WORDS && view.u32(behind) === NOP) behind += 4;
  return isBtiC(view.u32(behind)) && !view.functionAt(behind) ? { padBehind: true } : {};
}

/*
 * `-fpatchable-function-entry=N`, N >= 2: nops at the function, behind its landing pad. The table
 * names the first of them in both cases; the nops behind the second are left alone. With `=N,M` the
 * table names the first of the M nops in front of the function, which are left alone, too; M = 2
 * is the shape above.
 *
 *   address    compiled   initialised, off   on
 *   a          nop        mov x9, x30        mov x9, x30
 *   a+4 = ip   nop        nop                bl tracer
 */
const patchable: SiteShape = {
  name: 'arm64.patchable',
  sources: TABLES,
  title: 'two nops at the function or behind its landing pad (=2)',
  entries: ['regs', 'args'],
  // Start-up adds 4 (before 6.15, and its stable trees, before it asks for 0).
  emptySlot: -4n,
  read(view, source) {
    // One slot, one form: what belongs to =4,2 is not read as two plain nops when it is damaged.
    if (formOf(view) !== 'pair') return null;
    // A call of -pg that became a nop, with a nop of the function behind it.
    if (source === 'mcount-table' && isBehindPrologue(view)) return null;
    const front = source === 'patchable-table' ? Math.max(0, functionDelta(view)) : 0;
    const at = front > 0 && isBti(view.u32(front)) ? front + 4 : front;
    const pair = readPair(view, at);
    // An mcount table of the -pg era names a bl, or the nop that replaced it inside a function.
    if (pair.state === 'foreign' && source === 'mcount-table' && !isPatchableEntry(view)) return null;
    const base: SiteReading = {
      shape: patchable,
      state: pair.state,
      form: pair.form,
      ipDelta: at + 4,
      startDelta: at,
      sizeBytes: 8,
      target: pair.state === 'call' ? targetOf(view, at + 4) : null,
      relocationDeltas: pair.state === 'call' && view.relocatable ? [at + 4] : NONE,
      ...padBehind(view, at),
    };
    if (pair.state !== 'foreign') return base;
    const foreign: SiteReading = { ...base, expected: TWO_NOPS, reason: pair.reason };
    if (pair === PAIR_FIRST && front > 0 && !isBl(view.u32(at))) {
      return { ...foreign, form: 'before', reason: ALL_IN_FRONT, nops: 'front' };
    }
    return pair.nops ? { ...foreign, nops: pair.nops } : foreign;
  },
  write(reading, to, view) {
    return writePair(reading, to, view, 'A-SITE-2');
  },
};

/** True where a patchable entry would be: at a function, or behind the landing pad at its start. */
function isPatchableEntry(view: SiteView): boolean {
  return view.functionAt(0) || (view.functionAt(-4) && isBti(view.u32(-4)));
}

/** In this order: =4,2 claims its slots by symbols, =2 takes the other pairs, -pg what is left. */
export const arm64SiteShapes: readonly SiteShape[] = [callOps, patchable, mcount];
