/**
 * LoongArch site shapes: two nops at a function's entry, and calls of -pg. Owns what the bytes of a
 * site mean and what a change stores; decides neither which sites change nor what they call.
 */
import type {
  SiteChange,
  SiteReading,
  SiteRefusal,
  SiteShape,
  SiteSource,
  SiteStateKind,
  SiteView,
} from '../machine/sites.js';
import { concatBytes, wordBytes } from '../bytes.js';
import type { Address } from '../units.js';
import {
  BL_ZERO,
  branchTarget,
  isBl,
  isPairHead,
  isPairTail,
  loongarchTable,
  MOVE_T0_RA,
  NOP,
  pairTarget,
} from './isa.js';
import { R_LARCH_B26, R_LARCH_CALL36, R_LARCH_GOT_PC_HI20 } from './relocs.js';

const TABLES: readonly SiteSource[] = ['patchable-table', 'mcount-table'];

const word = (value: number): Uint8Array => wordBytes(value, 'little');
const NOP_BYTES = word(NOP);
const TWO_NOPS = concatBytes([NOP_BYTES, NOP_BYTES]);
const MOVE_NOP = concatBytes([word(MOVE_T0_RA), NOP_BYTES]);

const NO_ENTRIES: SiteRefusal = {
  refused: 'unsupported',
  reason: 'calls of tracers are not made on LoongArch: there are no entries for it',
};

const change = (stores: SiteChange['stores'], rule: string, neutralise: readonly number[] = []): SiteChange => ({
  stores,
  neutralise,
  rule,
});

const notApplicable = (reading: SiteReading): SiteRefusal => ({
  refused: 'not-applicable',
  reason: reading.reason ?? 'the bytes are not those of the site',
});

// ------------------------------------------------------------------------------------------- words

/** What stands at the words that toggle. */
interface Toggle {
  readonly kind: 'nop' | 'mcount' | 'call' | 'other';
  /** Bytes of the call; a nop has 4. */
  readonly sizeBytes: 4 | 8;
  readonly target?: Address;
  readonly reason?: string;
}

const other = (reason: string): Toggle => ({ kind: 'other', sizeBytes: 4, reason });

function readToggle(view: SiteView, delta: number): Toggle {
  const first = view.u32(delta);
  if (first < 0) return other('the section ends inside the site');
  const second = view.u32(delta + 4);
  const relocation = view.relocatable ? view.relocation(delta) : null;
  if (first === NOP) {
    if (relocation !== null) return other('a nop that still has a relocation: the linker would overwrite it');
    return { kind: 'nop', sizeBytes: 4 };
  }
  const isPair = isPairHead(first) && second >= 0 && isPairTail(second);
  if (!isBl(first) && !isPair) return other('neither nop nor bl');
  const sizeBytes = isPair ? 8 : 4;
  if (!view.relocatable) {
    const place = view.address + BigInt(delta);
    const target = isPair ? pairTarget(first, second, place) : branchTarget(first, place);
    return { kind: view.callee(target) === 'mcount' ? 'mcount' : 'call', sizeBytes, target };
  }
  if (relocation === null) return other('a call without a relocation in a relocatable file');
  const isZero = isPair ? first === PAIR_HEAD && second === PAIR_TAIL : first === BL_ZERO;
  if (relocation.type !== (isPair ? R_LARCH_CALL36 : R_LARCH_B26) || !isZero) {
    return other('a call whose relocation is not B26 or CALL36, or whose field is not zero');
  }
  return { kind: view.isMcountName(relocation.symbolName) ? 'mcount' : 'call', sizeBytes };
}

const RA = 1;
const PAIR_HEAD = loongarchTable.encode('pcaddu18i', { rd: RA, imm: 0 });
const PAIR_TAIL = loongarchTable.encode('jirl', { rd: RA, rj: RA, imm: 0 });

// --------------------------------------------------------------------------------------------- -pg

const SP = 3;
/** st.d $ra,$sp and stptr.d $ra,$sp, whatever the offset. */
const SAVES: readonly (readonly [mask: number, match: number])[] = [
  [0xffc0_03ff, loongarchTable.encode('st.d', { rd: RA, rj: SP, imm: 0 })],
  [0xff00_03ff, loongarchTable.encode('stptr.d', { rd: RA, rj: SP, imm: 0 })],
];
const RET = loongarchTable.encode('jirl', { rd: 0, rj: RA, imm: 0 });
/** Farthest back that a prologue's store of $ra is looked for. */
const MAX_PROLOGUE_BYTES = 256;

/**
 * Whether a nop can be a disabled call of -pg: those stand behind the store of $ra, and never at a
 * function's entry.
 */
function isBehindPrologue(view: SiteView): boolean {
  if (view.functionAt(0)) return false;
  for (let delta = -4; delta >= -MAX_PROLOGUE_BYTES; delta -= 4) {
    const value = view.u32(delta);
    if (value < 0 || value === RET) return false;
    if (SAVES.some(([mask, match]) => (value & mask) >>> 0 === match)) return true;
    if (view.functionAt(delta)) return false;
  }
  return false;
}

/** Whether the address of the profiling entry is loaded here: the call is a jirl farther on. */
function loadsEntry(view: SiteView): boolean {
  const relocation = view.relocatable ? view.relocation(0) : null;
  return relocation?.type === R_LARCH_GOT_PC_HI20 && view.isMcountName(relocation.symbolName);
}

const throughRegister = (view: SiteView): SiteReading => ({
  shape: mcount,
  state: 'foreign',
  form: 'register',
  ipDelta: 0,
  startDelta: 0,
  sizeBytes: view.bytes(0, 4).length,
  target: null,
  relocationDeltas: [],
  reason: 'the call goes through a register (-fno-plt, -mcmodel=extreme): no word of it names the entry',
  fault: 'unsupported',
});

/*
 * `-pg`: a call behind the prologue, a `bl` or the pair of the medium code model. Anchor = ip.
 *
 *   compiled                          disabled
 *   bl _mcount                        nop
 *   pcaddu18i $ra; jirl $ra,$ra       nop; nop
 */
const mcount: SiteShape = {
  name: 'loongarch.mcount',
  sources: ['mcount-table', 'call'],
  title: 'bl _mcount, or pcaddu18i and jirl, behind the prologue (-pg)',
  entries: [],
  read(view, source) {
    if (loadsEntry(view)) return throughRegister(view);
    const toggle = readToggle(view, 0);
    const { kind, sizeBytes, target, reason } = toggle;
    const reading = (state: SiteStateKind, form: string): SiteReading => ({
      shape: mcount,
      state,
      form,
      ipDelta: 0,
      startDelta: 0,
      sizeBytes,
      target: target ?? null,
      relocationDeltas: view.relocatable && (kind === 'mcount' || kind === 'call') ? [0] : [],
    });
    const form = sizeBytes === 8 ? 'pair' : 'bl';
    if (kind === 'mcount') return reading('compiled', form);
    if (source === 'call') return null;
    if (kind === 'call') return reading('call', form);
    if (kind === 'nop') return isBehindPrologue(view) ? reading('nop', 'nop') : null;
    return { ...reading('foreign', 'unknown'), expected: word(BL_ZERO), reason: reason! };
  },
  write(reading, to, view) {
    if (reading.state === 'foreign') return notApplicable(reading);
    if (to.kind === 'call') return NO_ENTRIES;
    if (reading.state === 'nop') return change([], 'L-SITE-3');
    const { sizeBytes } = reading;
    const store = { delta: 0, before: view.bytes(0, sizeBytes), after: TWO_NOPS.subarray(0, sizeBytes) };
    return change([store], 'L-SITE-3', reading.relocationDeltas);
  },
};

// ---------------------------------------------------------------------------------------------- =2

/** Most nops in front of a function that are searched for its symbol. */
const MAX_PRECEDING_WORDS = 256;

/** Bytes from the anchor to the function's symbol, over nops alone; 0 where none is found. */
function functionDelta(view: SiteView): number {
  if (view.functionAt(0)) return 0;
  for (let words = 1; words <= MAX_PRECEDING_WORDS && view.u32(4 * words - 4) === NOP; words++) {
    if (view.functionAt(4 * words)) return 4 * words;
  }
  return 0;
}

interface PairState {
  /** Delta of the function, where the slot names nops in front of it. */
  readonly front?: number;
  readonly state: SiteStateKind;
  readonly form: string;
  readonly target?: Address;
  readonly reason?: string;
  readonly fault?: 'unsupported';
  readonly nops?: NonNullable<SiteReading['nops']>;
}

const wrong = (form: string, reason: string): PairState => ({ state: 'foreign', form, reason });

/** State of the two words at the anchor. */
function readPair(view: SiteView): PairState {
  const front = functionDelta(view);
  if (front > 0) {
    const isRoom = view.u32(front) === NOP && view.u32(front + 4) === NOP;
    return {
      ...wrong(
        isRoom ? 'both' : 'before',
        'the slot names nops in front of the function, where Linux would put its call',
      ),
      front,
      fault: 'unsupported',
      nops: isRoom ? 'whole' : 'front',
    };
  }
  const first = view.u32(0);
  if (first !== NOP && first !== MOVE_T0_RA) return wrong('unknown', 'the first word is neither nop nor move $t0,$ra');
  if (view.relocatable && view.relocation(0) !== null) {
    return wrong('unknown', 'a relocation stands on the first nop: the linker would overwrite it');
  }
  const toggle = readToggle(view, 4);
  if (toggle.kind === 'nop') {
    return first === NOP ? { state: 'compiled', form: 'nops' } : { state: 'nop', form: 'init' };
  }
  const isCall = toggle.kind !== 'other' && toggle.sizeBytes === 4;
  if (!isCall && first === NOP && view.u32(4) !== NOP) {
    return { ...wrong('one nop', 'two nops are needed, there is one'), nops: 'few' };
  }
  if (!isCall) return wrong('unknown', toggle.reason ?? 'a pair where one call must be');
  if (first === NOP) return wrong('call without move', 'a bl without move $t0,$ra in front of it destroys the return address'); // prettier-ignore
  return { state: 'call', form: 'bl', ...(toggle.target === undefined ? {} : { target: toggle.target }) };
}

/*
 * `-fpatchable-function-entry=N`, N >= 2. The slot names the first nop, and Linux adds 4: with
 * `=N,M` it would patch in front of the function.
 *
 *   address    compiled   initialised, off   on
 *   a          nop        move $t0,$ra       move $t0,$ra
 *   a+4 = ip   nop        nop                bl tracer
 */
const patchable: SiteShape = {
  name: 'loongarch.patchable',
  sources: TABLES,
  title: 'two nops at the function (=2)',
  entries: [],
  read(view, source) {
    if (source === 'mcount-table' && isBehindPrologue(view)) return null;
    const pair = readPair(view);
    // A table of calls names a bl inside of a function.
    if (pair.state === 'foreign' && source === 'mcount-table' && !view.functionAt(0)) return null;
    const { state, form, target, reason, fault, nops, front } = pair;
    return {
      shape: patchable,
      state,
      form,
      ipDelta: front ?? 4,
      startDelta: 0,
      sizeBytes: (front ?? 0) + 8,
      target: target ?? null,
      relocationDeltas: state === 'call' && view.relocatable ? [4] : [],
      ...(reason === undefined ? {} : { reason, ...(front === undefined ? { expected: TWO_NOPS } : {}) }),
      ...(fault === undefined ? {} : { fault }),
      ...(nops === undefined ? {} : { nops }),
    };
  },
  write(reading, to, view) {
    if (reading.state === 'foreign') return notApplicable(reading);
    if (to.kind === 'call') return NO_ENTRIES;
    if (reading.state === 'compiled') {
      if (to.kind === 'nop') return change([], 'C-INIT-2');
      // One store of both words: the nop at ip stays, and is verified as part of `before`.
      return change([{ delta: 0, before: TWO_NOPS, after: MOVE_NOP }], 'L-SITE-2');
    }
    // The move stays: $t0 is dead at an entry.
    if (reading.state === 'nop') return change([], 'L-SITE-2');
    return change([{ delta: 4, before: view.bytes(4, 4), after: NOP_BYTES }], 'L-SITE-2', reading.relocationDeltas);
  },
};

/** Pairs first: -pg takes what is left. */
export const loongarchSiteShapes: readonly SiteShape[] = [patchable, mcount];
