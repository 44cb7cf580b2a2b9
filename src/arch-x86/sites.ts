/**
 * Patch sites of x86-64: calls of `mcount` and `__fentry__` as compilers and linkers leave them,
 * and the pads of -fpatchable-function-entry. Owns what bytes and relocations are accepted
 * (X-ENC-1, X-SITE-1 to 3) and the bytes of every change.
 *
 * The anchor is the first byte of the call, after endbr64, after `push %rbp; mov %rsp,%rbp` of
 * plain -pg, after `push %r10` of a nested function (X-SITE-2, X-SITE-3); for a pad it is the pad's
 * first byte, which with N,M pads lies before the symbol.
 *
 * Addresses that a call through the GOT gives as target are those of the slot: the view looks
 * through slots as it looks through PLT entries.
 */
import type {
  SiteChange,
  SiteReading,
  SiteRefusal,
  SiteRelocation,
  SiteService,
  SiteShape,
  SiteSource,
  SiteStateKind,
  SiteView,
  WritableState,
} from '../machine/sites.js';
import type { McountRules } from '../machine/tables.js';
import { type Reach, reaches } from '../bits.js';
import { concatBytes, equalBytes } from '../bytes.js';
import { hex } from '../errors.js';
import type { Address } from '../units.js';
import { flavoursFor, siteConvention } from './entries.js';
import { decodeInto, X86Instruction } from './isa.js';
import {
  R_X86_64_64,
  R_X86_64_GOTPCREL,
  R_X86_64_GOTPCRELX,
  R_X86_64_PC32,
  R_X86_64_PLT32,
  R_X86_64_REX_GOTPCRELX,
} from './relocs.js';

const X86_ENTRIES: readonly string[] = ['modern', 'y2014', 'mcount'];

/**
 * By what stands before the site in its function (entries.ts); the bytes of the call itself do not
 * tell.
 */
function servedAround(from: SiteReading, view: SiteView): SiteService {
  const convention = siteConvention(view, from.ipDelta);
  return { entries: flavoursFor(convention), callerInFrame: convention === 'fentry-nested' };
}

// --------------------------------------------------------------------------------------- encodings

/**
 * Distances of `e8` and `e9` rel32 from the instruction's own address: ±2 GiB from its end, 5 bytes
 * on.
 */
export const CALL5_REACH: Reach = { min: -0x7fff_fffbn, max: 0x8000_0004n, alignBytes: 1 };
/** The same for `67 e8` rel32, 6 bytes long. */
const CALL6_REACH: Reach = { min: -0x7fff_fffan, max: 0x8000_0005n, alignBytes: 1 };

/** The site nop: exactly this one (X-ENC-1). */
export const NOP5 = Uint8Array.of(0x0f, 0x1f, 0x44, 0x00, 0x00);
/** Nop of a six-byte call site (X-SITE-1). */
export const NOP6 = Uint8Array.of(0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00);

/** Recommended nops by length (Intel SDM volume 2, NOP; table 4-12), index = length. */
const NOPS: readonly Uint8Array[] = [
  new Uint8Array(0),
  Uint8Array.of(0x90),
  Uint8Array.of(0x66, 0x90),
  Uint8Array.of(0x0f, 0x1f, 0x00),
  Uint8Array.of(0x0f, 0x1f, 0x40, 0x00),
  NOP5,
  NOP6,
  Uint8Array.of(0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00),
  Uint8Array.of(0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00),
  Uint8Array.of(0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00),
];

/** `size` bytes of recommended nops, the longest first; fresh. */
export function nopsOf(size: number): Uint8Array {
  const parts: Uint8Array[] = [];
  let left = size;
  while (left > 0) {
    const step = Math.min(left, 9);
    parts.push(NOPS[step]!);
    left -= step;
  }
  return concatBytes(parts);
}

const NOP12 = nopsOf(12);
const NOP13 = nopsOf(13);
const COMPILED5 = Uint8Array.of(0xe8, 0, 0, 0, 0);
const COMPILED6 = Uint8Array.of(0xff, 0x15, 0, 0, 0, 0);
const FIVE_NOPS = Uint8Array.of(0x90, 0x90, 0x90, 0x90, 0x90);

const NOP5_LOW = 0x0044_1f0f;
const NOP6_LOW = 0x441f_0f66;
const NOP9_LOW = 0x841f_0f66;
const ENDBR64 = 0xfa1e_0ff3;

function littleEndian(value: bigint, size: 4 | 8): Uint8Array {
  const out = new Uint8Array(size);
  let rest = BigInt.asUintN(size * 8, value);
  for (let i = 0; i < size; i++) {
    out[i] = Number(rest & 0xffn);
    rest >>= 8n;
  }
  return out;
}

/**
 * `call target` or `jmp target` of 5 bytes at `address`. The caller has checked the reach.
 * Source: Intel SDM volume 2, CALL and JMP.
 */
export function encodeBranch5(opcode: 0xe8 | 0xe9, address: Address, target: Address): Uint8Array {
  return concatBytes([Uint8Array.of(opcode), littleEndian(target - (address + 5n), 4)]);
}

/**
 * Target of a displacement read as an unsigned word, `size` bytes from the instruction's start to
 * its end.
 */
function relativeTarget(address: Address, size: number, displacement: number): Address {
  return BigInt.asUintN(64, address + BigInt(size) + BigInt(displacement | 0));
}

// ---------------------------------------------------------------------------------------- readings

const NO_RELOCATIONS: readonly number[] = [];
const AT_1: readonly number[] = [1];
const AT_2: readonly number[] = [2];

/** What was read last that has no address in it: in a relocatable file nearly all sites are it. */
let lastReading: SiteReading | null = null;

function reading(
  shape: SiteShape,
  state: SiteStateKind,
  form: string,
  sizeBytes: number,
  target: Address | null,
  relocationDeltas: readonly number[],
  ipDelta = 0,
): SiteReading {
  const last = lastReading;
  const isAlike =
    target === null && last !== null && last.shape === shape && last.state === state && last.form === form;
  if (
    isAlike &&
    last.sizeBytes === sizeBytes &&
    last.ipDelta === ipDelta &&
    last.relocationDeltas === relocationDeltas
  ) {
    return last;
  }
  const found = { shape, state, form, ipDelta, startDelta: ipDelta, sizeBytes, target, relocationDeltas };
  if (target === null) lastReading = found;
  return found;
}

function foreign(
  shape: SiteShape,
  form: string,
  expected: Uint8Array,
  reason: string,
  ipDelta = 0,
  fault?: 'unsupported',
  nops?: SiteReading['nops'],
): SiteReading {
  return {
    shape,
    state: 'foreign',
    form,
    ipDelta,
    startDelta: ipDelta,
    sizeBytes: expected.length,
    target: null,
    relocationDeltas: NO_RELOCATIONS,
    expected,
    reason,
    ...(fault ? { fault } : {}),
    ...(nops ? { nops } : {}),
  };
}

/** True when a relocation starts in [from, to): none may stand on bytes that are no call. */
function anyRelocation(view: SiteView, from: number, to: number): boolean {
  if (!view.relocatable) return false;
  for (let delta = from; delta < to; delta++) if (view.relocation(delta)) return true;
  return false;
}

function isRelativeCall(relocation: SiteRelocation): boolean {
  return (relocation.type === R_X86_64_PLT32 || relocation.type === R_X86_64_PC32) && BigInt(relocation.addend) === -4n;
}

function isGotCall(relocation: SiteRelocation): boolean {
  return (
    (relocation.type === R_X86_64_GOTPCRELX || relocation.type === R_X86_64_GOTPCREL) &&
    BigInt(relocation.addend) === -4n
  );
}

/**
 * State of a call in a relocatable file: the relocation decides. A name that is no known profiling
 * entry is reported as a call (form `named`): -mfentry-name allows any, and only the verdict knows
 * whether the user declared it.
 */
function relocatableState(view: SiteView, relocation: SiteRelocation): SiteStateKind {
  return view.isMcountName(relocation.symbolName) ? 'compiled' : 'call';
}

function stateOfCallee(view: SiteView, target: Address): SiteStateKind {
  return view.callee(target) === 'mcount' ? 'compiled' : 'call';
}

// ----------------------------------------------------------------------------------------- changes

const NOTHING_TO_DO: SiteChange = { stores: [], neutralise: [], rule: 'C-INIT-2', alike: true };

function refuse(refused: SiteRefusal['refused'], reason: string): SiteRefusal {
  return { refused, reason };
}

/** Replaces the site's bytes by `after`; an empty change when they stand there already. */
function store(from: SiteReading, view: SiteView, after: Uint8Array, rule: string): SiteChange {
  const before = view.bytes(from.startDelta, after.length);
  const neutralise = view.relocatable ? from.relocationDeltas : NO_RELOCATIONS;
  if (equalBytes(before, after) && neutralise.length === 0) return { stores: [], neutralise, rule };
  return { stores: [{ delta: from.startDelta, before, after }], neutralise, rule };
}

/** The same with bytes that are the same wherever the site is. */
function storeNop(from: SiteReading, view: SiteView, nop: Uint8Array, rule: string): SiteChange {
  const change = store(from, view, nop, rule);
  return change.stores.length === 0 ? change : { ...change, alike: true };
}

/** X-JMP-2: only sites of five bytes, as kernels have them, jump. */
const NO_JUMP: SiteRefusal = {
  refused: 'unsupported',
  reason: 'only sites of five bytes can jump to a direct caller: this one calls through more',
};

/** The static chain lies between the site and the return address. */
const NESTED_JUMP: SiteRefusal = {
  refused: 'unsupported',
  reason: 'a nested function has pushed its static chain: what its site jumped to would return to that',
};

/** `call` or `jmp` of five bytes. */
function branch5(to: Extract<WritableState, { kind: 'call' }>, address: Address): Uint8Array {
  return encodeBranch5(to.jump ? 0xe9 : 0xe8, address, to.target);
}

/** Reasons for which no call can be written here, or null. */
function callRefusal(view: SiteView, reach: Reach | null, from: Address, target: Address): SiteRefusal | null {
  if (view.relocatable) {
    return refuse('not-applicable', 'calls are made after the file is laid out: a relocatable file has no addresses');
  }
  if (reach && !reaches(reach, from, target)) {
    return refuse('out-of-range', `${hex(target)} is beyond the ±2 GiB that a call at ${hex(from)} reaches`);
  }
  return null;
}

function refuseForeign(from: SiteReading): SiteRefusal {
  return refuse('unsupported', from.reason ?? 'the bytes are not those of a site');
}

// ------------------------------------------------------------------------------------------- call5

/**
 * The kernel's shape, gcc and clang without PIC:
 *
 *   address   compiled                      disabled               enabled
 *   ip        e8 d0 d1 d2 d3  call mcount   0f 1f 44 00 00  nop5   e8 d0 d1 d2 d3  call tracer
 *                                                                  e9 d0 d1 d2 d3  jmp (X-JMP-1)
 *
 * In a relocatable file the field is zero and R_X86_64_PLT32 (older: PC32) with addend -4 stands at
 * ip+1; the nop has none. -mnop-mcount emits the disabled form.
 */
const call5: SiteShape = {
  name: 'x86-64.call5',
  sources: ['mcount-table', 'call'],
  title: 'call rel32 of the profiling entry (5 bytes)',
  entries: X86_ENTRIES,
  servedAt: servedAround,
  leadsToEntry: keepsArguments,

  read(view, source) {
    const opcode = view.u8(0);
    if (opcode === 0xe8) return readCall5(view, source);
    // Found without a table, a jump is the function's own.
    if (opcode === 0xe9 && !view.relocatable && source === 'mcount-table') return readJump5(view);
    if (view.u32(0) === NOP5_LOW && view.u8(4) === 0) {
      if (anyRelocation(view, 0, 5)) return foreign(call5, 'nop5', NOP5, 'a nop that still carries a relocation');
      return reading(call5, 'nop', 'nop5', 5, null, NO_RELOCATIONS);
    }
    // Every slot of a table must be some call shape; this one speaks when none is recognised.
    if (source !== 'mcount-table') return null;
    const another = nopRun(view, 0) >= 5;
    return foreign(
      call5,
      another ? 'other-nop' : 'bytes',
      view.relocatable ? COMPILED5 : NOP5,
      another ? 'another nop than the site nop 0f 1f 44 00 00' : 'neither a call of the profiling entry nor a nop',
    );
  },

  write(from, to, view) {
    if (from.state === 'foreign') return refuseForeign(from);
    if (to.kind !== 'call') return from.state === 'nop' ? NOTHING_TO_DO : storeNop(from, view, NOP5, 'X-ENC-1');
    const address = view.address + BigInt(from.startDelta);
    const refusal =
      to.jump && servedAround(from, view).callerInFrame
        ? NESTED_JUMP
        : callRefusal(view, CALL5_REACH, address, to.target);
    return refusal ?? store(from, view, branch5(to, address), to.jump ? 'X-JMP-1' : 'X-MOD-2');
  },
};

/** Registers of arguments, and rax, which says how many of them are vectors. */
const ARGUMENT_REGISTERS = [0, 1, 2, 6, 7, 8, 9] as const;
const MOST_ENTRY_BYTES = 256;

/**
 * Whether code keeps all registers of arguments on the stack and gives them back before its first
 * `ret`, as only what is called in front of a function's own code has to.
 *
 *   kept: mov %reg,disp(%rsp) or push %reg; given back: the reverse
 */
function keepsArguments(view: SiteView, target: Address): boolean {
  const code = view.bytesAt(target, MOST_ENTRY_BYTES);
  const kept = new Set<number>();
  const given = new Set<number>();
  const STACK = 4;
  for (let at = 0; at < code.length;) {
    const size = decodeInto(scratch, code, at);
    if (size === 0 || scratch.map !== 0) {
      if (size === 0) return false;
      at += size;
      continue;
    }
    const { opcode, modRm, sib, rex, hasRex } = scratch;
    if (opcode === 0xc3) return ARGUMENT_REGISTERS.every((each) => kept.has(each) && given.has(each));
    const isOnStack = hasRex && (rex & 8) !== 0 && modRm < 0xc0 && (modRm & 7) === STACK && (sib & 0x3f) === 0x24;
    const register = ((modRm >> 3) & 7) | ((rex & 4) << 1);
    const own = (opcode & 7) | ((rex & 1) << 3);
    if (opcode === 0x89 && isOnStack) kept.add(register);
    else if (opcode === 0x8b && isOnStack && kept.has(register)) given.add(register);
    else if (opcode >= 0x50 && opcode < 0x58) kept.add(own);
    else if (opcode >= 0x58 && opcode < 0x60 && kept.has(own)) given.add(own);
    at += size;
  }
  return false;
}

function readCall5(view: SiteView, source: SiteSource): SiteReading | null {
  const field = view.u32(1);
  if (!view.relocatable) {
    if (field < 0) return foreign(call5, 'call', NOP5, 'the section ends inside the site');
    const target = relativeTarget(view.address, 5, field);
    return reading(call5, stateOfCallee(view, target), 'call', 5, target, NO_RELOCATIONS);
  }
  const relocation = view.relocation(1);
  if (!relocation || !isRelativeCall(relocation)) {
    const reason = relocation
      ? 'the relocation of the call is not PLT32 or PC32 with addend -4'
      : 'a call without its relocation';
    return source === 'call' ? null : foreign(call5, 'call', COMPILED5, reason);
  }
  if (field !== 0) return foreign(call5, 'call', COMPILED5, 'the field of the call is not zero');
  const state = relocatableState(view, relocation);
  return reading(call5, state, state === 'compiled' ? 'call' : 'named', 5, null, AT_1);
}

/** X-JMP-1: the second form of a site that is on, in linked files. */
function readJump5(view: SiteView): SiteReading {
  const field = view.u32(1);
  if (field < 0) return foreign(call5, 'jmp', NOP5, 'the section ends inside the site');
  return reading(call5, 'call', 'jmp', 5, relativeTarget(view.address, 5, field), NO_RELOCATIONS);
}

// ------------------------------------------------------------------------------------------- call6

/**
 * gcc -fPIC and -fPIE (the default of distributions): call through the GOT, relaxed by the linker
 * where it can be. The site has six bytes in every state, so that no sixth byte is left over
 * (X-SITE-1).
 *
 *   address  compiled                          disabled                 enabled
 *   ip       ff 15 d0..d3  call *slot(%rip)    66 0f 1f 44 00 00  nop6  67 e8 d0..d3  call tracer
 *        or  67 e8 d0..d3  addr32 call mcount
 *
 * In a relocatable file R_X86_64_GOTPCRELX (older: GOTPCREL) with addend -4 stands at ip+2.
 */
const call6: SiteShape = {
  name: 'x86-64.call6',
  sources: ['mcount-table', 'call'],
  title: 'call of the profiling entry through the GOT, or relaxed by the linker (6 bytes)',
  entries: X86_ENTRIES,
  servedAt: servedAround,
  leadsToEntry: keepsArguments,
  entryCountsBack: 5,

  read(view) {
    const opcode = view.u16(0);
    if (opcode === 0x15ff || opcode === 0xe867) return readCall6(view, opcode === 0x15ff);
    if (view.u32(0) === NOP6_LOW && view.u16(4) === 0) {
      if (anyRelocation(view, 0, 6)) return foreign(call6, 'nop6', NOP6, 'a nop that still carries a relocation');
      return reading(call6, 'nop', 'nop6', 6, null, NO_RELOCATIONS);
    }
    return null;
  },

  write(from, to, view) {
    if (from.state === 'foreign') return refuseForeign(from);
    if (to.kind !== 'call') return from.state === 'nop' ? NOTHING_TO_DO : storeNop(from, view, NOP6, 'X-SITE-1');
    const refusal = to.jump ? NO_JUMP : callRefusal(view, CALL6_REACH, view.address, to.target);
    if (refusal) return refusal;
    const after = concatBytes([Uint8Array.of(0x67, 0xe8), littleEndian(to.target - (view.address + 6n), 4)]);
    return store(from, view, after, 'X-SITE-1');
  },
};

function readCall6(view: SiteView, throughGot: boolean): SiteReading | null {
  const field = view.u32(2);
  const form = throughGot ? 'got' : 'addr32';
  if (!view.relocatable) {
    if (field < 0) return foreign(call6, form, NOP6, 'the section ends inside the site');
    const target = relativeTarget(view.address, 6, field);
    return reading(call6, stateOfCallee(view, target), form, 6, target, NO_RELOCATIONS);
  }
  const relocation = view.relocation(2);
  if (!relocation || !(throughGot ? isGotCall(relocation) : isRelativeCall(relocation))) {
    const reason = relocation
      ? 'the relocation of the call has another type or addend'
      : 'a call without its relocation';
    return foreign(call6, form, COMPILED6, reason);
  }
  if (field !== 0) return foreign(call6, form, COMPILED6, 'the field of the call is not zero');
  const state = relocatableState(view, relocation);
  return reading(call6, state, state === 'compiled' ? form : 'named', 6, null, AT_2);
}

// -------------------------------------------------------------------------------------- call-abs64

/**
 * -mcmodel=large. gcc uses r10, clang rax:
 *
 *   address  compiled                     disabled                      enabled
 *   ip       49 ba i0..i7 movabs $m,%r10  66 0f 1f 84 00… nop9          49 ba i0..i7 movabs $t,%r10
 *   ip+10    41 ff d2     call *%r10      0f 1f 40 00 nop4 (from ip+9)  41 ff d2     call *%r10
 *
 *   ip     48 b8 i0..i7  movabs $m,%rax  66 0f 1f 84 00…  nop9        48 b8 i0..i7  movabs $t,%rax
 *   ip+10  ff d0         call *%rax      0f 1f 00  nop3 (from ip+9)  ff d0         call *%rax
 *
 * In a relocatable file R_X86_64_64 with addend 0 stands at ip+2. The nops tell the two apart by
 * their lengths, so the register is known again when the call is made.
 */
const callAbs64: SiteShape = {
  name: 'x86-64.call-abs64',
  sources: ['mcount-table', 'call'],
  title: 'call of the profiling entry by its 64-bit address (13 bytes with r10, 12 with rax)',
  entries: X86_ENTRIES,
  servedAt: servedAround,
  entryCountsBack: 5,

  read(view) {
    const opcode = view.u16(0);
    if (opcode === 0xba49 && view.u16(10) === 0xff41 && view.u8(12) === 0xd2) return readAbs64(view, 'r10', 13);
    if (opcode === 0xb848 && view.u16(10) === 0xd0ff) return readAbs64(view, 'rax', 12);
    if (view.u32(0) !== NOP9_LOW || view.u32(4) !== 0 || view.u8(8) !== 0) return null;
    const nop13 = view.u32(9) === 0x0040_1f0f;
    if (!nop13 && !(view.u16(9) === 0x1f0f && view.u8(11) === 0)) return null;
    const size = nop13 ? 13 : 12;
    if (anyRelocation(view, 0, size)) {
      return foreign(callAbs64, 'nops', nop13 ? NOP13 : NOP12, 'a nop that still carries a relocation');
    }
    return reading(callAbs64, 'nop', nop13 ? 'nop13' : 'nop12', size, null, NO_RELOCATIONS);
  },

  write(from, to, view) {
    if (from.state === 'foreign') return refuseForeign(from);
    const isR10 = from.sizeBytes === 13;
    if (to.kind !== 'call') {
      return from.state === 'nop' ? NOTHING_TO_DO : store(from, view, isR10 ? NOP13 : NOP12, 'X-SITE-1');
    }
    const refusal = to.jump ? NO_JUMP : callRefusal(view, null, view.address, to.target);
    if (refusal) return refusal;
    const immediate = littleEndian(to.target, 8);
    const after = isR10
      ? concatBytes([Uint8Array.of(0x49, 0xba), immediate, Uint8Array.of(0x41, 0xff, 0xd2)])
      : concatBytes([Uint8Array.of(0x48, 0xb8), immediate, Uint8Array.of(0xff, 0xd0)]);
    return store(from, view, after, 'X-SITE-1');
  },
};

function readAbs64(view: SiteView, form: 'r10' | 'rax', size: number): SiteReading {
  const low = view.u32(2);
  const high = view.u32(6);
  if (!view.relocatable) {
    const target = (BigInt(high) << 32n) | BigInt(low);
    return reading(callAbs64, stateOfCallee(view, target), form, size, target, NO_RELOCATIONS);
  }
  const expected = view.bytes(0, size);
  expected.fill(0, 2, 10);
  const relocation = view.relocation(2);
  if (!relocation || relocation.type !== R_X86_64_64 || BigInt(relocation.addend) !== 0n) {
    const reason = relocation
      ? 'the relocation of the call is not R_X86_64_64 with addend 0'
      : 'a call without its relocation';
    return foreign(callAbs64, form, expected, reason);
  }
  if (low !== 0 || high !== 0) return foreign(callAbs64, form, expected, 'the field of the call is not zero');
  const state = relocatableState(view, relocation);
  return reading(callAbs64, state, state === 'compiled' ? form : 'named', size, null, AT_2);
}

// ------------------------------------------------------------------------------------- patchable-5

/** Most bytes of nops at a function that are searched for a landing pad behind them. */
const MAX_NOP_BYTES = 64;

/** Longest pad that is looked through for the function symbol behind it. */
const MAX_PAD_BYTES = 1024;

/** Length of the nop instruction at `delta` as compilers and assemblers emit them, or 0. */
function nopLength(view: SiteView, delta: number): number {
  let at = delta;
  let byte = view.u8(at);
  if (byte === 0x90) return 1;
  // 66 and 2e before the nop; never more than these two kinds.
  while (byte === 0x66 || byte === 0x2e) {
    at++;
    if (at - delta > 8) return 0;
    byte = view.u8(at);
  }
  if (byte === 0x90) return at + 1 - delta;
  if (byte !== 0x0f || view.u8(at + 1) !== 0x1f) return 0;
  const modRm = view.u8(at + 2);
  // nopl r/m32 with reg 0 and a memory operand; displacement bytes may be anything (clang writes 8
  // and 0x200).
  if (modRm < 0 || modRm >= 0xc0 || (modRm & 0x38) !== 0) return 0;
  const mod = modRm >> 6;
  let size = at + 3 - delta;
  if ((modRm & 7) === 4) {
    if (mod === 0 && (view.u8(at + 3) & 7) === 5) size += 4;
    size += 1;
  } else if (mod === 0 && (modRm & 7) === 5) size += 4;
  size += mod === 1 ? 1 : mod === 2 ? 4 : 0;
  return view.u8(delta + size - 1) < 0 ? 0 : size;
}

/** Bytes of nops from `delta` on, counted until there are five. */
function nopRun(view: SiteView, delta: number): number {
  let total = 0;
  while (total < 5) {
    const size = nopLength(view, delta + total);
    if (size === 0) break;
    total += size;
  }
  return total;
}

/**
 * Delta of the pad behind the symbol, from the anchor: what stands before it are M one-byte nops in
 * front of the symbol and an endbr64 behind it. -1 when no function symbol tells where the function
 * starts.
 */
function padAfterSymbol(view: SiteView): number {
  let run = 0;
  while (run < MAX_PAD_BYTES && view.u8(run) === 0x90) run++;
  const beginsAt = (delta: number): boolean =>
    view.functionAt(delta) || view.unwindsFrom(delta) || view.calledFrom(delta) !== null;
  const atStart = beginsAt(0) || view.u32(-4) === ENDBR64;
  // The symbol may lie inside the run (no endbr64) or at its end. With a symbol for the pad itself
  // (`__pfx_f`) the function's own comes later and wins; a run of five nops that ends at no symbol
  // is the usual case and is not searched.
  if (run > 5 || !atStart || beginsAt(run)) {
    for (let k = run; k >= 1; k--) {
      if (beginsAt(k)) return view.u32(k) === ENDBR64 ? k + 4 : k;
    }
  }
  return atStart ? 0 : -1;
}

/**
 * -fpatchable-function-entry=N,M: N-M bytes behind the symbol (and behind endbr64) hold the call, M
 * before it are left alone. gcc writes one-byte nops, clang one long nop where it can.
 *
 *   address   compiled (gcc)     compiled (clang)        disabled          enabled
 *   slot      90 x M             90 x M
 *   symbol    [f3 0f 1e fa]      [f3 0f 1e fa]
 *   ip        90 90 90 90 90     0f 1f 44 00 08  (5)     0f 1f 44 00 00    e8 d0 d1 d2 d3
 *             …                  or one nop of 6 to 10   + rest as nops    + rest as nops
 *
 * A long nop is replaced whole, the rest by a shorter nop: the bytes behind the call must not be
 * executed as the tail of a longer instruction. Pads of fewer than five bytes behind the symbol
 * cannot hold a call, and pads entirely before the symbol are never executed. Forms of foreign
 * readings: `small`, `before` (by which a table of call padding is known), `unplaced` (no symbol to
 * measure from), `bytes`.
 */
const patchable5: SiteShape = {
  name: 'x86-64.patchable-5',
  sources: ['patchable-table'],
  title: 'pad of -fpatchable-function-entry with at least five bytes behind the symbol',
  entries: X86_ENTRIES,
  servedAt: servedAround,
  // The static chain of a nested function: calls of __fentry__ have a push and a pop around them.
  plainLoses: ['r10'],

  read(view) {
    const ip = padAfterSymbol(view);
    if (ip < 0) {
      return foreign(patchable5, 'unplaced', FIVE_NOPS, 'no function symbol tells where the pad of this slot ends');
    }
    const low = view.u32(ip);
    const fifth = view.u8(ip + 4);
    if (low === 0x9090_9090 && fifth === 0x90) return readPad(view, ip, 'compiled', 'nops', 5);
    if (low === NOP5_LOW && fifth === 0) return readPad(view, ip, 'nop', 'nop5', 5);
    if (view.u8(ip) === 0xe8) return readPadCall(view, ip);
    if (view.u8(ip) === 0xe9 && !view.relocatable) return readPadJump(view, ip);
    const long = nopLength(view, ip);
    if (long >= 5) return readPad(view, ip, 'compiled', 'long-nop', long);
    const held = nopRun(view, ip);
    if (held > 0) {
      return foreign(patchable5, 'small', FIVE_NOPS, 'cannot hold a 5-byte call', ip, 'unsupported', 'few');
    }
    if (ip > 0) {
      return foreign(
        patchable5,
        'before',
        FIVE_NOPS,
        'pad lies before the symbol only: no call site',
        ip,
        'unsupported',
        'front',
      );
    }
    return foreign(patchable5, 'bytes', FIVE_NOPS, 'neither nops nor a call', ip);
  },

  write(from, to, view) {
    if (from.state === 'foreign') return refuseForeign(from);
    const { sizeBytes } = from;
    switch (to.kind) {
      case 'nop':
        // The compiler's nops are a disabled site already.
        if (from.state !== 'call') return NOTHING_TO_DO;
        return store(from, view, NOP5, 'X-ENC-1');
      case 'init':
        if (from.state === 'nop') return NOTHING_TO_DO;
        return store(from, view, concatBytes([NOP5, nopsOf(sizeBytes - 5)]), 'X-ENC-1');
      case 'call': {
        const address = view.address + BigInt(from.ipDelta);
        const refusal = callRefusal(view, CALL5_REACH, address, to.target);
        if (refusal) return refusal;
        const after = concatBytes([branch5(to, address), nopsOf(sizeBytes - 5)]);
        return store(from, view, after, to.jump ? 'X-JMP-1' : 'X-MOD-2');
      }
      default:
        return to satisfies never;
    }
  },
};

function readPad(view: SiteView, ip: number, state: SiteStateKind, form: string, size: number): SiteReading {
  if (anyRelocation(view, ip, ip + size)) {
    return foreign(patchable5, form, FIVE_NOPS, 'nops that carry a relocation', ip);
  }
  const found = reading(patchable5, state, form, size, null, NO_RELOCATIONS, ip);
  return isPadBehind(view, ip) ? { ...found, padBehind: true } : found;
}

/** M-PAD-2: a function that begins with its nops, its endbr64 behind them (before GCC 10). */
function isPadBehind(view: SiteView, ip: number): boolean {
  if (!view.functionAt(ip)) return false;
  let behind = ip;
  for (let size = nopLength(view, ip); size > 0 && behind - ip < MAX_NOP_BYTES; size = nopLength(view, behind)) {
    behind += size;
  }
  return view.u32(behind) === ENDBR64 && !view.functionAt(behind);
}

/**
 * A call where the pad's bytes behind the symbol would be. Behind M nops in front of the symbol
 * this may as well be the function's own first instruction (N = M; kernels have the profiling call
 * there, and gcc starts functions with a call where it knows that the callee needs no aligned
 * stack), so there it is the site's only when it leads to a tracer.
 */
function readPadCall(view: SiteView, ip: number): SiteReading {
  const field = view.u32(ip + 1);
  const mayBeBody = ip > 0;
  if (!view.relocatable) {
    if (field < 0) return foreign(patchable5, 'call', FIVE_NOPS, 'the section ends inside the site', ip);
    const target = relativeTarget(view.address + BigInt(ip), 5, field);
    const callee = view.callee(target);
    const isBody = mayBeBody && callee === 'other' && !view.isDirectCaller(target);
    if (callee === 'mcount' || isBody) return callBehindPad(ip);
    return reading(patchable5, 'call', 'call', 5, target, NO_RELOCATIONS, ip);
  }
  const relocation = view.relocation(ip + 1);
  if (mayBeBody || (relocation && view.isMcountName(relocation.symbolName))) return callBehindPad(ip);
  if (!relocation || !isRelativeCall(relocation) || field !== 0) {
    return foreign(patchable5, 'call', FIVE_NOPS, 'a call without its relocation', ip);
  }
  return reading(patchable5, 'call', 'named', 5, null, [ip + 1], ip);
}

/** The same for a jump, which a direct caller's site may be (X-JMP-1). */
function readPadJump(view: SiteView, ip: number): SiteReading {
  const field = view.u32(ip + 1);
  if (field < 0) return foreign(patchable5, 'jmp', FIVE_NOPS, 'the section ends inside the site', ip);
  const target = relativeTarget(view.address + BigInt(ip), 5, field);
  if (ip > 0 && !view.isDirectCaller(target)) return callBehindPad(ip, 'jump');
  return reading(patchable5, 'call', 'jmp', 5, target, NO_RELOCATIONS, ip);
}

function callBehindPad(ip: number, what = 'call'): SiteReading {
  const reason = `pad lies before the symbol only: the function begins with a ${what} of its own`;
  return foreign(patchable5, 'before', FIVE_NOPS, reason, ip, 'unsupported', 'front');
}

/** All shapes of x86-64, tried in this order. */
export const x86SiteShapes: readonly SiteShape[] = [call5, call6, callAbs64, patchable5];

// ------------------------------------------------------------------------------------ mcount rules

const scratch = new X86Instruction();

function signed32(code: Uint8Array, at: number): number {
  return code[at]! | (code[at + 1]! << 8) | (code[at + 2]! << 16) | (code[at + 3]! << 24);
}

/**
 * Instruction-accurate: a byte e8 inside another instruction is no call. Bytes that are no
 * instruction (data in text) are stepped over one by one; decoding falls into step again within a
 * few instructions.
 */
function findCalls(
  code: Uint8Array,
  start: number,
  end: number,
  address: Address,
  isTarget: (address: Address) => boolean,
): number[] {
  const found: number[] = [];
  let at = start;
  while (at < end) {
    const size = decodeInto(scratch, code, at, end);
    if (size === 0) {
      at++;
      continue;
    }
    const first = code[at]!;
    if ((first === 0xe8 && size === 5) || (first === 0x67 && size === 6 && code[at + 1] === 0xe8)) {
      if (isTarget(relativeTarget(address + BigInt(at), size, signed32(code, at + size - 4)))) found.push(at);
    } else if (first === 0xff && size === 6 && code[at + 1] === 0x15) {
      // Through a slot: its address is given, the program knows what the slot holds.
      if (isTarget(relativeTarget(address + BigInt(at), 6, signed32(code, at + 2)))) found.push(at);
    } else if (size === 10 && isAbsoluteCall(code, at, end)) {
      const low = BigInt(signed32(code, at + 2) >>> 0);
      if (isTarget((BigInt(signed32(code, at + 6) >>> 0) << 32n) | low)) found.push(at);
    }
    at += size;
  }
  return found;
}

/** `movabs` of ten bytes with its `call *reg` behind it. */
function isAbsoluteCall(code: Uint8Array, at: number, end: number): boolean {
  if (code[at] === 0x49 && code[at + 1] === 0xba) {
    return at + 13 <= end && code[at + 10] === 0x41 && code[at + 11] === 0xff && code[at + 12] === 0xd2;
  }
  return (
    at + 12 <= end && code[at] === 0x48 && code[at + 1] === 0xb8 && code[at + 10] === 0xff && code[at + 11] === 0xd0
  );
}

/** How x86-64 compilers call the profiling entry. */
export const x86Mcount: McountRules = {
  symbols: ['__fentry__', 'mcount'],
  // M-REC-5: from the relocation's offset back to the first byte of the call.
  callRelocations: new Map([
    [R_X86_64_PLT32, -1],
    [R_X86_64_PC32, -1],
    [R_X86_64_GOTPCRELX, -2],
    [R_X86_64_GOTPCREL, -2],
    [R_X86_64_REX_GOTPCRELX, -2],
    [R_X86_64_64, -2],
  ]),
  patchableIsPadding: true,
  emptySlots: [0n],
  // X-SITE-2 gives 0 or 4 for __fentry__; calls of mcount stand 4 to 97 bytes behind the symbol,
  // and a table does not say which of the two it lists. So the size of the function's symbol
  // decides what is a leftover, not this distance.
  maxSiteOffset: 'any',
  findCalls,
};
