/**
 * s390x site shapes. A site is one instruction of 6 bytes. Owns what its bytes mean and what a
 * change stores; decides neither which sites change nor what they call.
 *
 *   form         bytes                      who leaves it
 *   call         c005 or c0e5, PLT32DBL     compilers: brasl to the profiling entry
 *   brcl         c004 00000000              -mnop-mcount, and kernels: brcl 0,0
 *   trampoline   c004 or c0f4, distance     kernels without facility 85: brcl to the site's own
 *                                           trampoline, off (mask 0) and on (mask 15)
 *   brasl        c005, distance             kernels with it: brasl %r0 to the entry
 */
import type { SiteChange, SiteReading, SiteRefusal, SiteShape, SiteStateKind, SiteView } from '../machine/sites.js';
import type { AddressReader } from '../machine/stubs.js';
import { equalBytes } from '../bytes.js';
import { hex } from '../errors.js';
import type { Address } from '../units.js';
import { SITE_BYTES, targetOf } from './isa.js';
import { R_390_PC32DBL, R_390_PLT32DBL } from './relocs.js';
import { wayBack } from './stubs.js';

const BRASL_R0 = 0xc005;
const BRASL_R14 = 0xc0e5;
const BRCL_NEVER = 0xc004;
const BRCL_ALWAYS = 0xc0f4;

const NOP = Uint8Array.of(0xc0, 0x04, 0, 0, 0, 0);
/** stg %r14,8(%r15) and lg %r14,8(%r15) around the call of -pg */
const SAVE = Uint8Array.of(0xe3, 0xe0, 0xf0, 0x08, 0x00, 0x24);
const RESTORE = Uint8Array.of(0xe3, 0xe0, 0xf0, 0x08, 0x00, 0x04);

const NO_ENTRIES: SiteRefusal = {
  refused: 'unsupported',
  reason: 'calls of tracers are not made on s390x: there are no entries for it',
};

/** What the 6 bytes of a site say. */
interface Words {
  readonly state: SiteStateKind;
  readonly form: string;
  readonly target?: Address;
  readonly through?: Address;
  readonly reason?: string;
}

const NO_SITE =
  'neither brcl nor brasl (GCC names nested functions in its table and puts no call there: -Wcannot-profile)';

const foreign = (reason: string): Words => ({ state: 'foreign', form: 'unknown', reason });

/** Memory of a linked file, for what recognises stubs. */
function readerOf(view: SiteView): AddressReader {
  return {
    u8: (address) => view.bytesAt(address, 1)[0] ?? -1,
    u32: (address) => view.wordAt(address),
    u64(address) {
      const [upper, lower] = [view.wordAt(address), view.wordAt(address + 4n)];
      return upper < 0 || lower < 0 ? null : (BigInt(upper) << 32n) | BigInt(lower);
    },
  };
}

/** A branch by mask that leads somewhere: it must be to a trampoline of this very site. */
function readTrampoline(view: SiteView, delta: number, isOn: boolean): Words {
  const place = view.address + BigInt(delta);
  const trampoline = targetOf(view.bytes(delta, SITE_BYTES), 0, place);
  const back = wayBack(readerOf(view), trampoline);
  if (back === null) return foreign(`the brcl leads to ${hex(trampoline)}, where no trampoline of a site is`);
  if (back !== place + BigInt(SITE_BYTES)) {
    return foreign(`the trampoline at ${hex(trampoline)} goes back to ${hex(back)}: it is another site's`);
  }
  return isOn
    ? { state: 'call', form: 'trampoline', target: trampoline, through: trampoline }
    : { state: 'nop', form: 'trampoline', through: trampoline };
}

/** @param calls  the first two bytes that a call has here */
function readWords(view: SiteView, delta: number, calls: number): Words {
  const opcode = view.u16(delta);
  const distance = view.u32(delta + 2);
  if (opcode < 0 || distance < 0) return foreign('the section ends inside the site');
  const isCall = opcode === calls;
  const isBranch = opcode === BRCL_NEVER || opcode === BRCL_ALWAYS;
  if (!isCall && !isBranch) return foreign(NO_SITE);
  if (!view.relocatable) {
    if (!isCall) {
      if (opcode === BRCL_NEVER && distance === 0) return { state: 'nop', form: 'brcl' };
      return readTrampoline(view, delta, opcode === BRCL_ALWAYS);
    }
    const target = targetOf(view.bytes(delta, SITE_BYTES), 0, view.address + BigInt(delta));
    return view.callee(target) === 'mcount'
      ? { state: 'compiled', form: 'call', target }
      : { state: 'call', form: 'brasl', target };
  }
  const relocation = view.relocation(delta + 2);
  if (isBranch) {
    if (relocation !== null) return foreign('a brcl that still has a relocation: the linker would overwrite it');
    if (opcode === BRCL_NEVER && distance === 0) return { state: 'nop', form: 'brcl' };
    return foreign('a brcl that leads somewhere without a relocation');
  }
  if (relocation === null) return foreign('a brasl without a relocation in a relocatable file');
  const isOurs = relocation.type === R_390_PLT32DBL || relocation.type === R_390_PC32DBL;
  if (!isOurs || distance !== 0) return foreign('a brasl whose relocation is not PLT32DBL or PC32DBL, or whose field is not zero'); // prettier-ignore
  return view.isMcountName(relocation.symbolName)
    ? { state: 'compiled', form: 'call' }
    : { state: 'call', form: 'brasl' };
}

const hasCall = ({ state }: Words): boolean => state === 'compiled' || state === 'call';

function readingOf(shape: SiteShape, view: SiteView, delta: number, words: Words): SiteReading {
  const { state, form, target, through, reason } = words;
  return {
    shape,
    state,
    form,
    ipDelta: delta,
    startDelta: delta,
    sizeBytes: SITE_BYTES,
    target: target ?? null,
    relocationDeltas: view.relocatable && hasCall(words) ? [delta + 2] : [],
    ...(through === undefined ? {} : { through }),
    ...(state === 'foreign' ? { expected: NOP, reason: reason! } : {}),
  };
}

/** nop and init are one form, which kernels keep as compilers leave it (S-SITE-2). */
const write: SiteShape['write'] = (reading, to, view): SiteChange | SiteRefusal => {
  if (reading.state === 'foreign') {
    return { refused: 'not-applicable', reason: reading.reason ?? 'the bytes are not those of the site' };
  }
  if (to.kind === 'call') return NO_ENTRIES;
  if (reading.state === 'nop') return { stores: [], neutralise: [], rule: 'S-SITE-2' };
  const { ipDelta, through } = reading;
  if (through !== undefined) {
    // The mask alone: the distance to the trampoline stays (S-SITE-4).
    const store = { delta: ipDelta + 1, before: Uint8Array.of(BRCL_ALWAYS & 0xff), after: Uint8Array.of(BRCL_NEVER & 0xff) }; // prettier-ignore
    return { stores: [store], neutralise: [], rule: 'S-SITE-4' };
  }
  return {
    stores: [{ delta: ipDelta, before: view.bytes(ipDelta, SITE_BYTES), after: NOP }],
    neutralise: reading.relocationDeltas,
    rule: 'S-SITE-2',
  };
};

// ------------------------------------------------------------------------------------------- -pg

/** Whether the instructions that -pg of GCC puts around its call stand around a place. */
const isWrapped = (view: SiteView, delta: number): boolean =>
  equalBytes(view.bytes(delta - SITE_BYTES, SITE_BYTES), SAVE) &&
  equalBytes(view.bytes(delta + SITE_BYTES, SITE_BYTES), RESTORE);

/*
 * `-pg` without -mfentry. GCC saves r14 around the call at the function's entry, and its table
 * names the first of the three instructions; clang calls behind the prologue.
 *
 *   stg   %r14,8(%r15)
 *   brasl %r14,_mcount      the site; brcl 0,0 when off
 *   lg    %r14,8(%r15)
 */
const mcount: SiteShape = {
  name: 's390x.mcount',
  sources: ['mcount-table', 'call'],
  title: 'brasl %r14,_mcount between a store and a load of %r14 (-pg), or behind the prologue',
  entries: [],
  read(view, source) {
    const delta = equalBytes(view.bytes(0, SITE_BYTES), SAVE) ? SITE_BYTES : 0;
    const words = readWords(view, delta, BRASL_R14);
    if (source === 'call') return words.state === 'compiled' ? readingOf(mcount, view, delta, words) : null;
    if (words.state === 'foreign') return delta > 0 ? readingOf(mcount, view, delta, words) : null;
    if (hasCall(words) && words.through === undefined) return readingOf(mcount, view, delta, words);
    // A nop: of a call inside of a function.
    const isInside = isWrapped(view, delta) || (!view.functionAt(delta) && view.covered());
    return isInside && words.form === 'brcl' ? readingOf(mcount, view, delta, words) : null;
  },
  write,
};

/*
 * `-pg -mfentry`, with -mnop-mcount in kernels. Anchor = ip = a function's first instruction.
 */
const fentry: SiteShape = {
  name: 's390x.fentry',
  sources: ['mcount-table', 'call'],
  title: 'brasl %r0,__fentry__ or brcl 0,0 as the first instruction (-mfentry)',
  entries: [],
  read(view, source) {
    const words = readWords(view, 0, BRASL_R0);
    if (source === 'call' && words.state !== 'compiled') return null;
    return readingOf(fentry, view, 0, words);
  },
  write,
};

// ---------------------------------------------------------------------- -fpatchable-function-entry

/** nopr %r0, which GCC writes, and nopr %r7, with which assemblers fill. */
const isNopr = (value: number): boolean => value === 0x0700 || value === 0x0707;

/** As many nops of 2 bytes as a function's area is looked through for. */
const MAX_NOPS = 64;

/*
 * `-fpatchable-function-entry=N` leaves N nops of 2 bytes. No kernel takes them: Linux looks for
 * brcl 0,0 where `__mcount_loc` says (S-SITE-5).
 */
const patchable: SiteShape = {
  name: 's390x.patchable',
  sources: ['patchable-table'],
  title: 'nops of 2 bytes (-fpatchable-function-entry), which Linux does not use',
  entries: [],
  read(view): SiteReading | null {
    let front = 0;
    while (front < 2 * MAX_NOPS && !view.functionAt(front) && isNopr(view.u16(front))) front += 2;
    const start = view.functionAt(front) ? front : 0;
    let end = start;
    while (end < start + 2 * MAX_NOPS && isNopr(view.u16(end)) && (end === start || !view.functionAt(end))) end += 2;
    if (end === 0) return null;
    const nops = end === start ? 'front' : end - start < SITE_BYTES ? 'few' : 'whole';
    return {
      shape: patchable,
      state: 'foreign',
      form: nops === 'front' ? 'before' : 'nopr',
      ipDelta: start,
      startDelta: Math.min(start, 0),
      sizeBytes: end,
      target: null,
      relocationDeltas: [],
      reason: 'Linux takes no nops of 2 bytes: its sites are one brcl of 6 (-pg -mfentry -mnop-mcount -mrecord-mcount)',
      fault: 'unsupported',
      nops,
    };
  },
  write: (reading) => ({ refused: 'unsupported', reason: reading.reason! }),
};

/** The calls of -pg first: their nops are told by what stands around them. */
export const s390xSiteShapes: readonly SiteShape[] = [mcount, fentry, patchable];
