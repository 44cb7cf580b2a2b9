/**
 * Patch sites of RISC-V: the shapes that compilers and the generations of the kernel's ftrace leave
 * in code, and the rules for finding calls of the profiling entry. Owns the auipc/jalr pair and its
 * reach.
 *
 * A far call is two words: `auipc r, high` and `jalr r, low(r)`. At a function's entry `ra` still
 * holds the caller's return address, so the hook links through t0 (dead there) and comes back with
 * `jr t0`; after a prologue (`-pg`) ra is saved and the pair is an ordinary call.
 *
 * | gen | kernels | compiler's option | bytes at the site | off | on |
 * |---|---|---|---|---|---|
 * | G0 | to 5.12 | -pg | 8, behind the prologue | 2 nops | auipc ra; jalr ra |
 * | G1 | 5.13 to 6.1 | patchable 8 (C), 4 | 16 | 4 nops | sd ra; auipc ra; jalr ra; ld ra |
 * | G2 | to 6.15 | patchable 4 (C), 2 | 8 | 2 nops | auipc t0; jalr t0 |
 * | G3 | later | as G2, 4-aligned | 8, one word written | auipc t0; nop | auipc t0; jalr t0 |
 * | G3c | later | patchable 8,4 (C), 4,2 | G3 and an 8-byte literal in front of the function | | |
 *
 * No byte of an object says which generation is meant. Compiler nops are read as a G2 site,
 * whatever their number; the other generations are recognised by what only they leave (R-SITE-5).
 *
 * - Patchable nops are counted by what the pair needs (8 bytes), never by scanning: a function may
 *   go on with a nop of its own, a disabled static branch.
 * - With C the compiler's nops are 2-byte parcels (0001), else words (00000013); a mixture is
 *   neither. The disabled form is always two words, so that switching on exchanges instructions of
 *   equal length.
 * - Sites are 2-aligned with C and may straddle cache lines and pages; every store here is at rest,
 *   where it does not matter.
 * - In a relocatable file the call of -pg carries CALL_PLT on its auipc (gcc adds RELAX at the same
 *   place, clang does not), and the fields are zero.
 */
import type {
  SiteChange,
  SiteReading,
  SiteRefusal,
  SiteShape,
  SiteStateKind,
  SiteStore,
  SiteView,
  TornCall,
  WritableState,
} from '../machine/sites.js';
import type { CodePattern, LookBack } from '../machine/patterns.js';
import type { McountRules } from '../machine/tables.js';
import { reaches, type Reach } from '../bits.js';
import { ByteView, concatBytes, wordBytes } from '../bytes.js';
import { hex, outOfRange } from '../errors.js';
import { extractField } from '../isa/table.js';
import type { Address } from '../units.js';
import { A0, instructionBytes, RA, riscvTable, S0, SP, T0, ZERO } from './isa.js';
import {
  R_RISCV_64,
  R_RISCV_CALL,
  R_RISCV_CALL_PLT,
  R_RISCV_NONE,
  R_RISCV_PCREL_HI20,
  R_RISCV_PCREL_LO12_I,
} from './relocs.js';

// ------------------------------------------------------------------------------ the pair (R-ENC-1)

/**
 * Displacements from the auipc that a pair can encode. The upper part is rounded to the nearest
 * multiple of 4096 because the lower is signed, which shifts the whole interval down by 0x800.
 * Targets are even (R-ENC-3).
 */
export const pairReach: Reach = { min: -0x8000_0800n, max: 0x7fff_f7fen, alignBytes: 2 };

/**
 * Upper part of a displacement as the auipc carries it: a signed multiple of 4096. Exact within the
 * pair's reach.
 */
export function highPart(offset: bigint): bigint {
  return BigInt.asIntN(32, (offset + 0x800n) & ~0xfffn);
}

/** Lower part as the jalr carries it, -2048 to 2047: offset = highPart + lowPart. */
export function lowPart(offset: bigint): number {
  return Number(BigInt.asIntN(12, offset));
}

/**
 * Words of `auipc register, high` and `jalr register, low(register)`.
 * @param offset  target minus address of the auipc
 * @throws ElftraceError 'branch-out-of-range' outside the reach or for an odd offset; nothing is
 *   truncated
 */
export function encodePair(register: number, offset: bigint): readonly [number, number] {
  if (!reaches(pairReach, 0n, offset)) {
    throw outOfRange('branch-out-of-range', 'auipc+jalr', offset, pairReach.min, pairReach.max, {
      expected: 'an even displacement',
    });
  }
  return [
    riscvTable.encode('auipc', { rd: register, upper: Number(highPart(offset)) }),
    riscvTable.encode('jalr', { rd: register, rs1: register, imm: lowPart(offset) }),
  ];
}

/**
 * Displacement that an auipc and a following I-type word carry; the caller knows that they are such
 * a pair.
 */
export function decodePair(first: number, second: number): bigint {
  return BigInt((first & 0xffff_f000) | 0) + BigInt(second >> 20);
}

/**
 * R-MOD-2: whether exchanging only the jalr behind `auipc` (a word that stays) can reach `target`.
 * Distance from the present target does not tell: 0x1700 and 0x1900 lie 0x200 apart and need
 * different upper parts.
 */
export function fixedAuipcReaches(auipc: number, auipcAddress: Address, target: Address): boolean {
  const offset = target - auipcAddress;
  return reaches(pairReach, 0n, offset) && highPart(offset) === BigInt((auipc & 0xffff_f000) | 0);
}

// ------------------------------------------------------------------------------------------- words

const NOP = riscvTable.encode('addi', { rd: ZERO, rs1: ZERO, imm: 0 });
const C_NOP = riscvTable.encode('c.addi', { rd: ZERO, imm: 0 });
const TWO_C_NOPS = ((C_NOP << 16) | C_NOP) >>> 0;
const LPAD = riscvTable.encode('auipc', { rd: ZERO, upper: 0 });
const AUIPC_T0 = riscvTable.encode('auipc', { rd: T0, upper: 0 });
const AUIPC_RA = riscvTable.encode('auipc', { rd: RA, upper: 0 });
const JALR_T0 = riscvTable.encode('jalr', { rd: T0, rs1: T0, imm: 0 });
const JALR_RA = riscvTable.encode('jalr', { rd: RA, rs1: RA, imm: 0 });
const JAL_RA = riscvTable.encode('jal', { rd: RA, off: 0 });
/**
 * sd ra,-8(sp) and ld ra,-8(sp): G1 keeps the return address below the stack pointer around the
 * call.
 */
const SAVE_RA = riscvTable.encode('sd', { rs2: RA, rs1: SP, imm: -8 });
const LOAD_RA = riscvTable.encode('ld', { rd: RA, rs1: SP, imm: -8 });
/** c.addi sp,-8; c.sdsp ra,0(sp) and c.ldsp ra,0(sp); c.addi sp,8: the form proposed in 2020. */
const OPEN_2020 = pairOfParcels(
  riscvTable.encode('c.addi', { rd: SP, imm: -8 }),
  riscvTable.encode('c.sdsp', { rs2: RA, uimm: 0 }),
);
const CLOSE_2020 = pairOfParcels(
  riscvTable.encode('c.ldsp', { rd: RA, uimm: 0 }),
  riscvTable.encode('c.addi', { rd: SP, imm: 8 }),
);

function pairOfParcels(low: number, high: number): number {
  return ((high << 16) | low) >>> 0;
}

const RET = riscvTable.encode('jalr', { rd: ZERO, rs1: RA, imm: 0 });
const C_RET = riscvTable.encode('c.jr', { rs1: RA });
/**
 * Stores and loads of ra on the stack at any offset: the word at offset 0, and its bits that are no
 * offset.
 */
const SAVE_RA_0 = riscvTable.encode('sd', { rs2: RA, rs1: SP, imm: 0 });
const SAVE_RA_MASK = allButField('sd', 'imm');
const LOAD_RA_0 = riscvTable.encode('ld', { rd: RA, rs1: SP, imm: 0 });
const LOAD_RA_MASK = allButField('ld', 'imm');
const C_SAVE_RA = riscvTable.encode('c.sdsp', { rs2: RA, uimm: 0 });
const C_SAVE_RA_MASK = allButField('c.sdsp', 'uimm') & 0xffff;
const C_LOAD_RA = riscvTable.encode('c.ldsp', { rd: RA, uimm: 0 });
const C_LOAD_RA_MASK = allButField('c.ldsp', 'uimm') & 0xffff;

/** All bits of a word but those of one field of its row. */
function allButField(mnemonic: string, name: string): number {
  let mask = 0;
  for (const { high, low, at } of riscvTable.field(mnemonic, name).slices) mask |= (2 ** (high - low + 1) - 1) << at;
  return ~mask >>> 0;
}

const JAL_REACH = riscvTable.reach('jal');
const JAL_FIELD = riscvTable.field('jal', 'off');

/** Opcode and rd of auipc and jal; opcode, funct3, rd and rs1 of jalr. */
const isAuipcT0 = (word: number): boolean => (word & 0xfff) === AUIPC_T0;
const isAuipcRa = (word: number): boolean => (word & 0xfff) === AUIPC_RA;
const isJalrT0 = (word: number): boolean => (word & 0xf_ffff) === JALR_T0;
const isJalrRa = (word: number): boolean => (word & 0xf_ffff) === JALR_RA;
/** -1 (outside the section) has the bits of no jal: its lowest 12 are all ones. */
const isJalRa = (word: number): boolean => (word & 0xfff) === JAL_RA;

/** Displacement of a jal. */
const jalOffset = (word: number): number => extractField(JAL_FIELD, word);

const words = (...list: readonly number[]): Uint8Array => concatBytes(list.map((word) => wordBytes(word, 'little')));
const TWO_NOPS = words(NOP, NOP);
const FOUR_C_NOPS = words(TWO_C_NOPS, TWO_C_NOPS);
const FOUR_NOPS = words(NOP, NOP, NOP, NOP);
const ONE_NOP = words(NOP);
const ZERO_RA_PAIR = words(AUIPC_RA, JALR_RA);
const ZERO_T0_PAIR = words(AUIPC_T0, JALR_T0);
const ZERO_SAVED_PAIR = words(SAVE_RA, AUIPC_RA, JALR_RA, LOAD_RA);

const NO_DELTAS: readonly number[] = [];
const DELTA_0: readonly number[] = [0];

// ---------------------------------------------------------------------------------- shared helpers

/** Type of the relocation at a delta, R_RISCV_NONE when there is none (or it was neutralised). */
function relocationType(view: SiteView, delta: number): number {
  if (!view.relocatable) return R_RISCV_NONE;
  return view.relocation(delta)?.type ?? R_RISCV_NONE;
}

const isCallType = (type: number): boolean => type === R_RISCV_CALL || type === R_RISCV_CALL_PLT;

function pairTarget(view: SiteView, delta: number, first: number, second: number): Address {
  return BigInt.asUintN(64, view.address + BigInt(delta) + decodePair(first, second));
}

/** True when any parcel of [delta, delta + sizeBytes) carries a relocation. */
function anyRelocation(view: SiteView, delta: number, sizeBytes: number): boolean {
  if (!view.relocatable) return false;
  for (let at = 0; at < sizeBytes; at += 2) if (view.relocation(delta + at) !== null) return true;
  return false;
}

const emptyChange = (rule: string): SiteChange => ({ stores: [], neutralise: NO_DELTAS, rule });

function store(view: SiteView, delta: number, after: Uint8Array, rule: string, neutralise = NO_DELTAS): SiteChange {
  return { stores: [{ delta, before: view.bytes(delta, after.length), after: after.slice() }], neutralise, rule };
}

const refuseForeign = (reading: SiteReading): SiteRefusal => ({
  refused: 'unsupported',
  reason: reading.reason ?? 'the bytes are no known state of the site',
});

/** Why a call cannot be written at all, or null. */
function refuseCall(view: SiteView, from: Address, target: Address, reach: Reach): SiteRefusal | null {
  if (view.relocatable) {
    return { refused: 'not-applicable', reason: 'a call in a relocatable file needs a relocation, not an address' };
  }
  if (reaches(reach, from, target)) return null;
  const distance = target - from;
  return {
    refused: 'out-of-range',
    reason:
      distance % 2n === 0n
        ? `${hex(target)} is ${hex(distance)} away, the branch reaches [${hex(reach.min)}, ${hex(reach.max)}]`
        : `${hex(target)} is odd and no instruction starts there`,
  };
}

/**
 * The change to a call in a relocatable file (F-2, R-OFF-1): opcodes with zero fields,
 * and one CALL_PLT of the entry's symbol on the auipc. The linker fills in immediates only, so a
 * pair through t0 stays one. No RELAX stands beside it: a linker would shorten the pair.
 */
function nameCallee(view: SiteView, at: number, code: Uint8Array, auipc: number, symbol: string): SiteChange {
  const before = view.bytes(at, code.length);
  const stores = before.every((byte, i) => byte === code[i]) ? [] : [{ delta: at, before, after: code.slice() }];
  const named = isCallType(relocationType(view, auipc)) && view.relocation(auipc)?.symbolName === symbol;
  if (stores.length === 0 && named) return emptyChange('F-2');
  return { stores, relocate: [{ delta: auipc, type: R_RISCV_CALL_PLT, symbol }], neutralise: NO_DELTAS, rule: 'F-2' };
}

/** Only sites with a word in front of the function name ops. */
function refuseOps({ names, form }: Extract<WritableState, { kind: 'call' }>): SiteRefusal | null {
  if ((names?.ops ?? null) === null || form === 'g3c') return null;
  return { refused: 'not-applicable', reason: 'sites of this generation name no ops: that is what g3c does' };
}

interface Foreign {
  readonly startDelta: number;
  readonly expected: Uint8Array;
  readonly reason: string;
  readonly fault?: 'unsupported';
  readonly nops?: 'few' | 'front';
  readonly padBehind?: true;
}

function foreign(shape: SiteShape, ipDelta: number, found: Foreign): SiteReading {
  const { startDelta, expected, reason, fault, nops, padBehind } = found;
  return {
    shape,
    state: 'foreign',
    form: 'foreign',
    ipDelta,
    startDelta,
    sizeBytes: expected.length,
    target: null,
    relocationDeltas: NO_DELTAS,
    expected,
    reason,
    ...(fault === undefined ? {} : { fault }),
    ...(nops === undefined ? {} : { nops }),
    ...(padBehind === undefined ? {} : { padBehind }),
  };
}

const word = (match: number, mask = 0xffff_ffff): CodePattern => ({ sizeBytes: 4, mask, match });
const PAIR_T0 = [word(AUIPC_T0, 0xfff), word(JALR_T0, 0xf_ffff)];
const PAIR_RA = [word(AUIPC_RA, 0xfff), word(JALR_RA, 0xf_ffff)];
const ANY = word(0, 0);

/**
 * R-MOD-3, H2: a call of two words that a thread between them would run half of: the jalr with a
 * register that is its own. One that only gets another jalr leads to the old target or the new one,
 * and a nop behind an auipc is harmless. A fixed auipc stands before any thread runs.
 */
const tornPair: TornCall = {
  rule: 'H2',
  reason:
    'sites of two words (auipc, jalr) are switched on: on a running system that can be preempted a thread between them would jump ' +
    'nowhere, even if all other CPUs are stopped; a fixed auipc (--riscv-site=g3) has no such place',
  calls: [...[PAIR_T0, PAIR_RA].map((pair) => [word(SAVE_RA), ...pair, ANY]), PAIR_T0, PAIR_RA],
  unless: ['g3', 'g3c'],
};

// ---------------------------------------------------------------------------------- -pg calls (G0)

/**
 * Farthest back that a prologue's store of ra is looked for: 12 + 12 saved registers and room for
 * arguments.
 */
const MAX_PROLOGUE_BYTES = 160;

/**
 * Whether nops can be a disabled call of -pg, which stands behind the store of ra. Entry nops of a
 * patchable function look the same, stand at a function's start, and would lose ra to a pair
 * through ra; a stripped file has no symbol that tells.
 */
function isBehindPrologue(view: SiteView): boolean {
  if (view.functionAt(0)) return false;
  for (let delta = -2; delta >= -MAX_PROLOGUE_BYTES; delta -= 2) {
    const parcel = view.u16(delta);
    if (parcel === -1 || parcel === C_RET || (parcel & C_LOAD_RA_MASK) === C_LOAD_RA) return false;
    if ((parcel & C_SAVE_RA_MASK) === C_SAVE_RA) return true;
    const word = view.u32(delta);
    if (word === RET || (word & LOAD_RA_MASK) >>> 0 === LOAD_RA_0) return false;
    if ((word & SAVE_RA_MASK) >>> 0 === SAVE_RA_0) return true;
    if (view.functionAt(delta)) return false;
  }
  return false;
}

const PASS_RA = riscvTable.encode('addi', { rd: A0, rs1: RA, imm: 0 });
const C_PASS_RA = riscvTable.encode('c.mv', { rd: A0, rs2: RA });
/** addi s0,sp,N in either size. */
const SET_FP_0 = riscvTable.encode('addi', { rd: S0, rs1: SP, imm: 0 });
const SET_FP_MASK = allButField('addi', 'imm');

/**
 * `mv a0,ra` or the setting of s0 that stands nearest in front of a call of -pg: the entry searches
 * the code for it in the same way (entry-g0.c). With a breakpoint on it the search would go on into
 * the function in front, and take what it finds there.
 */
const namesReturn: LookBack = {
  stepBytes: 2,
  maxBytes: MAX_PROLOGUE_BYTES,
  finds: [
    { sizeBytes: 2, mask: 0xffff, match: C_PASS_RA },
    // c.addi4spn s0,N; 0 is no instruction.
    { sizeBytes: 2, mask: 0xe01f, match: 0, except: 0 },
    word(PASS_RA),
    word(SET_FP_0, SET_FP_MASK >>> 0),
  ],
  stops: [],
  untilFunction: true,
};

/**
 * `riscv64.mcount-pair`: the call of -pg, as compiled or after linking without relaxation.
 *
 *     address  compiled               disabled  enabled
 *     ip       auipc ra,hi(_mcount)   nop       auipc ra,hi(target)
 *     ip + 4   jalr  ra,lo(_mcount)   nop       jalr  ra,lo(target)
 *
 * gcc puts `mv a0,ra` in front, clang nothing. The prologue has saved ra. A tail call of `_mcount`
 * (auipc t1; jr t1 under the same relocation) is no site: nothing comes back to it.
 */
const mcountPair: SiteShape = {
  name: 'riscv64.mcount-pair',
  sources: ['call', 'mcount-table'],
  title: 'auipc ra and jalr ra of -pg, behind the prologue',
  entries: ['g0'],
  torn: tornPair,
  readByEntry: namesReturn,
  read(view, source) {
    const first = view.u32(0);
    const second = view.u32(4);
    if (second === -1) return null;
    const type = relocationType(view, 0);
    const reading = (
      state: SiteStateKind,
      form: string,
      target: Address | null,
      deltas: readonly number[],
    ): SiteReading => ({
      shape: mcountPair,
      state,
      form,
      ipDelta: 0,
      startDelta: 0,
      sizeBytes: 8,
      target,
      relocationDeltas: deltas,
    });
    if (isAuipcRa(first) && isJalrRa(second)) {
      if (!view.relocatable) {
        const target = pairTarget(view, 0, first, second);
        return view.callee(target) === 'mcount'
          ? reading('compiled', 'call', target, NO_DELTAS)
          : reading('call', 'ra-pair', target, NO_DELTAS);
      }
      if (!isCallType(type)) {
        return foreign(mcountPair, 0, {
          startDelta: 0,
          expected: ZERO_RA_PAIR,
          reason: 'the pair carries no call relocation',
        });
      }
      if (first !== AUIPC_RA || second !== JALR_RA) {
        return foreign(mcountPair, 0, {
          startDelta: 0,
          expected: ZERO_RA_PAIR,
          reason: 'fields under a relocation are not zero',
        });
      }
      return view.isMcountName(view.relocation(0)?.symbolName ?? '')
        ? reading('compiled', 'call', null, DELTA_0)
        : reading('call', 'ra-pair', null, DELTA_0);
    }
    if (first === NOP && second === NOP) {
      if (source === 'mcount-table' && !isBehindPrologue(view)) return null;
      if (anyRelocation(view, 0, 8)) {
        return foreign(mcountPair, 0, {
          startDelta: 0,
          expected: ZERO_RA_PAIR,
          reason: 'a relocation lies on the nops and a linker would write into them',
        });
      }
      return reading('nop', 'nops', null, NO_DELTAS);
    }
    return null;
  },
  write(reading, to, view) {
    if (reading.state === 'foreign') return refuseForeign(reading);
    switch (to.kind) {
      case 'nop':
      case 'init':
        return reading.state === 'nop'
          ? emptyChange('C-INIT-2')
          : store(view, 0, TWO_NOPS, view.relocatable ? 'F-2' : 'C-INIT-2', reading.relocationDeltas);
      case 'call': {
        if (view.relocatable && to.names) {
          return refuseOps(to) ?? nameCallee(view, 0, ZERO_RA_PAIR, 0, to.names.call);
        }
        const refusal = refuseCall(view, view.address, to.target, pairReach);
        if (refusal) return refusal;
        if (reading.target === to.target) return emptyChange('C-UPD-2');
        return store(view, 0, words(...encodePair(RA, to.target - view.address)), 'R-ENC-1');
      }
      default:
        return to satisfies never;
    }
  },
};

/**
 * `riscv64.mcount-jal`: the same call after a relaxing linker shortened it (GNU ld does,
 * `--no-relax` and lld 14 do not).
 *
 *     address  compiled       disabled  enabled
 *     ip       jal ra,_mcount nop       jal ra,target      within 1 MiB
 */
const mcountJal: SiteShape = {
  name: 'riscv64.mcount-jal',
  sources: ['call', 'mcount-table'],
  title: 'jal ra of -pg, shortened by the linker',
  entries: ['g0'],
  readByEntry: namesReturn,
  read(view, source) {
    if (view.relocatable) return null;
    const word = view.u32(0);
    if (isJalRa(word)) {
      const target = BigInt.asUintN(64, view.address + BigInt(jalOffset(word)));
      const compiled = view.callee(target) === 'mcount';
      return {
        shape: mcountJal,
        state: compiled ? 'compiled' : 'call',
        form: 'jal',
        ipDelta: 0,
        startDelta: 0,
        sizeBytes: 4,
        target,
        relocationDeltas: NO_DELTAS,
      };
    }
    if (word !== NOP || (source === 'mcount-table' && !isBehindPrologue(view))) return null;
    return {
      shape: mcountJal,
      state: 'nop',
      form: 'nop',
      ipDelta: 0,
      startDelta: 0,
      sizeBytes: 4,
      target: null,
      relocationDeltas: NO_DELTAS,
    };
  },
  write(reading, to, view) {
    if (reading.state === 'foreign') return refuseForeign(reading);
    switch (to.kind) {
      case 'nop':
      case 'init':
        return reading.state === 'nop' ? emptyChange('C-INIT-2') : store(view, 0, ONE_NOP, 'C-INIT-2');
      case 'call': {
        const refusal = refuseCall(view, view.address, to.target, JAL_REACH);
        if (refusal) return refusal;
        if (reading.target === to.target) return emptyChange('C-UPD-2');
        const off = Number(to.target - view.address);
        return store(view, 0, words(riscvTable.encode('jal', { rd: RA, [JAL_FIELD.name]: off })), 'C-UPD-2');
      }
      default:
        return to satisfies never;
    }
  },
};

// ------------------------------------------------------------------------------- patchable entries

/** Most bytes of nops in front of a function that are searched for its symbol. */
const MAX_PRECEDING_BYTES = 256;

/**
 * Bytes from the anchor to the function. With `-fpatchable-function-entry=N,M` the table names the
 * first of the M nops in front of it; only the symbol tells. 0 where no symbol helps: body of an
 * overridden weak function, stripped file.
 */
function functionDelta(view: SiteView): number {
  if (view.functionAt(0)) return 0;
  for (let delta = 0; delta < MAX_PRECEDING_BYTES;) {
    if (view.u16(delta) === C_NOP) delta += 2;
    else if (view.u32(delta) === NOP) delta += 4;
    else break;
    if (view.functionAt(delta)) return delta;
  }
  // G3c: the nops in front have become a literal, the address of the site's ops.
  if (isAuipcT0(view.u32(8)) && view.functionAt(8)) return 8;
  return 0;
}

/** `lpad`, with any label: the landing pad of Zicfilp, an auipc whose result is dropped. */
const isLpad = (word: number): boolean => word !== -1 && (word & 0xfff) === LPAD;

/**
 * Bytes from the anchor to the nops of the function (R-SITE-7): they stand behind its landing pad.
 * Without nops in front the table of clang names the pad itself.
 */
function nopsDelta(view: SiteView): number {
  const delta = functionDelta(view);
  return isLpad(view.u32(delta)) ? delta + 4 : delta;
}

/** Most bytes of nops at a function that are searched for a landing pad behind them. */
const MAX_NOP_BYTES = 64;

/** M-PAD-2: a function that begins with its nops and has its landing pad behind them (GCC 15). */
function padBehind(view: SiteView, ip: number): Pick<SiteReading, 'padBehind'> {
  if (!view.functionAt(ip)) return {};
  let behind = ip;
  while (behind < ip + MAX_NOP_BYTES) {
    if (view.u16(behind) === C_NOP) behind += 2;
    else if (view.u32(behind) === NOP) behind += 4;
    else break;
  }
  return behind > ip && isLpad(view.u32(behind)) && !view.functionAt(behind) ? { padBehind: true } : {};
}

/** True when what lies in front of the function is a literal and no nops (G3c). */
function hasLiteral(view: SiteView, delta: number): boolean {
  if (delta !== 8) return false;
  const first = view.u32(0);
  const second = view.u32(4);
  if (isLpad(second)) return false;
  return !((first === NOP && second === NOP) || (first === TWO_C_NOPS && second === TWO_C_NOPS));
}

/** Bytes of nops of one kind from `delta` on, at most 8; for saying how small a site is. */
function nopBytes(view: SiteView, delta: number): number {
  let at = 0;
  if (view.u16(delta) === C_NOP) while (at < 8 && view.u16(delta + at) === C_NOP) at += 2;
  else while (at < 8 && view.u32(delta + at) === NOP) at += 4;
  return at;
}

/** Eight bytes as a site of this shape, or why they are none; null: one of another shape. */
type Eight =
  | Pick<SiteReading, 'state' | 'form' | 'target' | 'relocationDeltas'>
  | { readonly rejected: readonly [Uint8Array, string, ('unsupported' | null)?, ('few' | 'front')?] }
  | null;

function readEight(view: SiteView, ip: number): Eight {
  const first = view.u32(ip);
  const second = view.u32(ip + 4);
  const nops =
    first === TWO_C_NOPS && second === TWO_C_NOPS ? 'c.nops' : first === NOP && second === NOP ? 'nops' : null;
  if (nops !== null) {
    const isCompiled = nops === 'c.nops';
    if (!anyRelocation(view, ip, 8)) {
      return { state: isCompiled ? 'compiled' : 'nop', form: nops, target: null, relocationDeltas: NO_DELTAS };
    }
    const reason = 'a relocation lies on the nops and a linker would write into them';
    return { rejected: [isCompiled ? FOUR_C_NOPS : TWO_NOPS, reason] };
  }
  if (isAuipcT0(first) && isJalrT0(second)) return readT0Pair(view, ip, first, second);
  if ((isAuipcT0(first) && second === NOP) || isSavedPair(view, ip)) return null;
  return { rejected: whyForeign(view, ip, first, second) };
}

/** The call of this shape, in a linked file or under its relocation. */
function readT0Pair(view: SiteView, ip: number, first: number, second: number): Eight {
  const call = { state: 'call', form: 't0-pair' } as const;
  if (!view.relocatable) {
    // With a literal in front this is a fixed-auipc site, and only its jalr may change.
    if (hasLiteral(view, ip)) return null;
    return { ...call, target: pairTarget(view, ip, first, second), relocationDeltas: NO_DELTAS };
  }
  const type = relocationType(view, ip);
  if (type === R_RISCV_PCREL_HI20) return null;
  if (!isCallType(type)) return { rejected: [ZERO_T0_PAIR, 'the pair carries no call relocation'] };
  if (first !== AUIPC_T0 || second !== JALR_T0) {
    return { rejected: [ZERO_T0_PAIR, 'fields under a relocation are not zero'] };
  }
  return { ...call, target: null, relocationDeltas: [ip] };
}

/**
 * `riscv64.patchable-8`: entry nops of -fpatchable-function-entry, as G2 uses them. All eight bytes
 * at the function's start; nops in front of it and behind are left alone.
 *
 *     address  compiled with C    without  disabled  enabled
 *     ip       c.nop; c.nop       nop      nop       auipc t0,hi(target)
 *     ip + 4   c.nop; c.nop       nop      nop       jalr  t0,lo(target)
 *
 * After the call t0 = ip + 8, the body's start (R-SITE-4). Without C the compiler's form is the
 * disabled one.
 */
const patchable8: SiteShape = {
  name: 'riscv64.patchable-8',
  sources: ['patchable-table'],
  title: 'eight bytes of entry nops, auipc t0 and jalr t0 when enabled',
  entries: ['g2', 'g2-plain', 'g2-merged', 'g1', 'g3', 'g3c'],
  torn: tornPair,
  read(view) {
    const ip = nopsDelta(view);
    const found = readEight(view, ip);
    if (found === null) return null;
    if ('rejected' in found) {
      const [expected, reason, fault, nops] = found.rejected;
      return foreign(patchable8, ip, {
        startDelta: ip,
        expected,
        reason,
        ...(fault ? { fault } : {}),
        ...(nops ? { nops } : {}),
        ...padBehind(view, ip),
      });
    }
    return {
      shape: patchable8,
      ...found,
      ipDelta: ip,
      startDelta: 0,
      sizeBytes: ip + 8,
      ...(found.state === 'call' ? {} : padBehind(view, ip)),
    };
  },
  servedAt(reading, view) {
    const all = patchable8.entries;
    const entries = isLpad(view.u32(reading.ipDelta - 4)) ? all.filter((each) => each !== 'g3c') : all;
    return { entries, callerInFrame: false };
  },
  write(reading, to, view) {
    if (reading.state === 'foreign') return refuseForeign(reading);
    const ip = reading.ipDelta;
    if (to.form === 'g1') return writeG1(reading, to, view);
    if (to.form === 'g3' || to.form === 'g3c') return writeFixed(reading, to, view);
    switch (to.kind) {
      case 'nop':
        if (reading.state !== 'call') return emptyChange('C-INIT-2');
        return store(view, ip, TWO_NOPS, view.relocatable ? 'F-2' : 'C-UPD-2', reading.relocationDeltas);
      case 'init':
        if (reading.state === 'nop') return emptyChange('C-INIT-2');
        return store(view, ip, TWO_NOPS, 'R-SITE-1', reading.relocationDeltas);
      case 'call': {
        if (view.relocatable && to.names) {
          return refuseOps(to) ?? nameCallee(view, ip, ZERO_T0_PAIR, ip, to.names.call);
        }
        const from = view.address + BigInt(ip);
        const refusal = refuseCall(view, from, to.target, pairReach);
        if (refusal) return refusal;
        if (reading.target === to.target) return emptyChange('C-UPD-2');
        return store(view, ip, words(...encodePair(T0, to.target - from)), 'R-ENC-1');
      }
      default:
        return to satisfies never;
    }
  },
};

/** Sixteen bytes of nops at `ip`, each half of one kind: the room of a G1 site. */
function hasSixteen(view: SiteView, ip: number): boolean {
  const half = (delta: number): boolean => {
    const [first, second] = [view.u32(delta), view.u32(delta + 4)];
    return (first === NOP && second === NOP) || (first === TWO_C_NOPS && second === TWO_C_NOPS);
  };
  return half(ip) && half(ip + 8) && !anyRelocation(view, ip, 16);
}

/** A site of compiler nops as G1: sixteen bytes, which are verified whole (R-SITE-1). */
function writeG1(reading: SiteReading, to: WritableState, view: SiteView): SiteChange | SiteRefusal {
  const ip = reading.ipDelta;
  if (reading.state === 'call') {
    return { refused: 'unsupported', reason: 'the site is a pair through t0 (G2), not one of sixteen bytes (G1)' };
  }
  if (!hasSixteen(view, ip)) {
    return { refused: 'unsupported', reason: 'a G1 site needs sixteen bytes of nops (patchable 8 with C, 4 without)' };
  }
  if (to.kind !== 'call') {
    const before = view.bytes(ip, 16);
    return before.every((byte, i) => byte === FOUR_NOPS[i])
      ? emptyChange('C-INIT-2')
      : store(view, ip, FOUR_NOPS, 'R-SITE-1');
  }
  if (view.relocatable && to.names) {
    return refuseOps(to) ?? nameCallee(view, ip, ZERO_SAVED_PAIR, ip + 4, to.names.call);
  }
  const from = view.address + BigInt(ip + 4);
  const refusal = refuseCall(view, from, to.target, pairReach);
  if (refusal) return refusal;
  return store(view, ip, words(SAVE_RA, ...encodePair(RA, to.target - from), LOAD_RA), 'R-SITE-3');
}

/**
 * The store of the literal in front of a function (R-CO-1), or why there can be none.
 */
function literalStore(view: SiteView, start: number, literal: Address): SiteStore | SiteRefusal {
  const place = view.address + BigInt(start - 8);
  if (isLpad(view.u32(start - 4))) {
    return { refused: 'unsupported', reason: 'a landing pad stands where an entry looks for the address of the ops' };
  }
  if (start !== 8) {
    return {
      refused: 'unsupported',
      reason: 'no eight bytes of nops stand in front of the function for the address of its ops',
    };
  }
  if (place % 8n !== 0n) {
    return {
      refused: 'unsupported',
      reason: `the address of the ops would lie at ${hex(place)}, no multiple of 8: it could be read torn`,
    };
  }
  const after = new Uint8Array(8);
  new ByteView(after, 'little', 'literal').insertU64(0, literal);
  return { delta: 0, before: view.bytes(0, 8), after };
}

/**
 * A site as G3 or G3c: an auipc that stays, and the word behind it, which is the only one that
 * changes once the auipc stands. Where it stands already R-MOD-2 decides what the jalr can reach.
 */
function writeFixed(reading: SiteReading, to: WritableState, view: SiteView): SiteChange | SiteRefusal {
  const isFixed = reading.shape === fixedAuipc;
  const start = isFixed ? reading.ipDelta - 4 : reading.ipDelta;
  const from = view.address + BigInt(start);
  const toNop = to.kind !== 'call';
  const names = to.kind === 'call' ? to.names : undefined;
  if (view.relocatable && names === undefined)
    return { refused: 'not-applicable', reason: 'a fixed auipc in a relocatable file needs a relocation' };
  if (from % 4n !== 0n) {
    return {
      refused: 'unsupported',
      reason: `the site at ${hex(from)} is not 4-aligned: its word could not be exchanged at once`,
    };
  }
  if (view.relocatable && names !== undefined) return nameFixed(reading, names, to.form, view, start);
  const stores: SiteStore[] = [];
  if (to.literal !== undefined && to.form === 'g3c') {
    const literal = literalStore(view, start, to.literal);
    if ('refused' in literal) return literal;
    if (!literal.before.every((byte, i) => byte === literal.after[i])) stores.push(literal);
  }
  const stands = isAuipcT0(view.u32(start));
  const rule = toNop ? 'R-MOD-3' : 'R-MOD-2';
  if (to.target === undefined) {
    // Only back to a nop: what the auipc says is left alone.
    if (stands) stores.push(...changed(view, start + 4, ONE_NOP));
    else if (reading.state === 'compiled') stores.push(...changed(view, start, TWO_NOPS));
    return { stores, neutralise: NO_DELTAS, rule };
  }
  const refusal = refuseCall(view, from, to.target, pairReach);
  if (refusal) return refusal;
  const [auipc, jalr] = encodePair(T0, to.target - from);
  if (!stands) {
    stores.push(...changed(view, start, words(auipc, toNop ? NOP : jalr)));
  } else if (toNop) {
    stores.push(...changed(view, start + 4, ONE_NOP));
  } else if (fixedAuipcReaches(view.u32(start), from, to.target)) {
    stores.push(...changed(view, start + 4, words(jalr)));
  } else {
    return { refused: 'out-of-range', reason: `R-MOD-2: ${hex(to.target)} needs another auipc than the fixed one` };
  }
  return { stores, neutralise: NO_DELTAS, rule };
}

/**
 * A fixed auipc in a relocatable file that is switched on: one CALL_PLT for both words (R-OFF-1),
 * and of the word in front of the function the address of its ops.
 */
function nameFixed(
  reading: SiteReading,
  names: NonNullable<Extract<WritableState, { kind: 'call' }>['names']>,
  form: string | undefined,
  view: SiteView,
  start: number,
): SiteChange | SiteRefusal {
  const call = nameCallee(view, start, ZERO_T0_PAIR, start, names.call);
  // PCREL_LO12 of the jalr goes: CALL_PLT fills both.
  const low = reading.relocationDeltas.filter((delta) => delta === start + 4);
  if (names.ops === null) {
    return form === 'g3c'
      ? { refused: 'not-applicable', reason: 'the word in front of the function names ops: say which (--ops)' }
      : { ...call, neutralise: low };
  }
  if (form !== 'g3c')
    return { refused: 'not-applicable', reason: 'sites of this generation name no ops: that is what g3c does' };
  const literal = literalStore(view, start, 0n);
  if ('refused' in literal) return literal;
  return {
    stores: [...(literal.before.every((byte) => byte === 0) ? [] : [literal]), ...call.stores],
    relocate: [{ delta: 0, type: R_RISCV_64, symbol: names.ops }, ...(call.relocate ?? [])],
    neutralise: low,
    rule: 'F-2',
  };
}

/** A store, where it stores something else. */
function changed(view: SiteView, delta: number, after: Uint8Array): SiteStore[] {
  const before = view.bytes(delta, after.length);
  return before.every((byte, i) => byte === after[i]) ? [] : [{ delta, before, after: after.slice() }];
}

/** Expected bytes and reason for eight bytes at a patchable site that are none of its states. */
function whyForeign(
  view: SiteView,
  ip: number,
  first: number,
  second: number,
): [Uint8Array, string, ('unsupported' | null)?, ('few' | 'front')?] {
  const parcel = view.u16(ip);
  const expected = parcel === C_NOP ? FOUR_C_NOPS : TWO_NOPS;
  if (isAuipcRa(first) && isJalrRa(second)) {
    return [expected, 'a pair through ra at a function entry loses the return address'];
  }
  const count = nopBytes(view, ip);
  if (count === 0 && (first === -1 || second === -1)) return [expected, 'the section ends inside the site'];
  // functionDelta went over nops to get here; without a call behind them they may be all there are.
  const isFront = view.u16(0) === C_NOP || view.u32(0) === NOP;
  if (count === 0 && isFront && !hasLiteral(view, ip) && !isAuipcT0(first) && !isAuipcRa(first)) {
    return [expected, 'all nops stand in front of the function entry', null, 'front'];
  }
  if (count === 0) return [expected, "neither the compiler's nops nor a pair through t0"];
  // 00000013 behind two or three c.nops begins with no c.nop: the rest may be the body's own (a
  // disabled static branch).
  const mixed = parcel === C_NOP && view.u32(ip + count) === NOP;
  return [
    expected,
    `${count} bytes of nops${isLpad(view.u32(ip - 4)) ? ' behind the landing pad' : ''}${mixed ? ', then a nop of the other size' : ''}: auipc and jalr need 8 (patchable 4 with C, 2 without)`,
    'unsupported',
    'few',
  ];
}

/** The sixteen bytes of an enabled G1 site, in either form. */
function isSavedPair(view: SiteView, ip: number): boolean {
  const opening = view.u32(ip);
  if (opening !== SAVE_RA && opening !== OPEN_2020) return false;
  if (!isAuipcRa(view.u32(ip + 4)) || !isJalrRa(view.u32(ip + 8))) return false;
  return view.u32(ip + 12) === (opening === SAVE_RA ? LOAD_RA : CLOSE_2020);
}

/**
 * `riscv64.patchable-16`: a G1 site while it is on. Its disabled and compiled forms are nops like
 * any others and read as `riscv64.patchable-8`.
 *
 *     address  disabled  enabled            proposed in 2020 (recognised, never written)
 *     ip       nop       sd    ra,-8(sp)    c.addi sp,-8; c.sdsp ra,0(sp)
 *     ip + 4   nop       auipc ra,hi        auipc  ra,hi
 *     ip + 8   nop       jalr  ra,lo(ra)    jalr   ra,lo(ra)
 *     ip + 12  nop       ld    ra,-8(sp)    c.ldsp ra,0(sp); c.addi sp,8
 *
 * The displacement counts from ip + 4, and changing the target touches only the pair (R-SITE-3).
 */
const patchable16: SiteShape = {
  name: 'riscv64.patchable-16',
  sources: ['patchable-table'],
  title: 'sixteen bytes that save ra around a pair through ra',
  entries: ['g1'],
  torn: tornPair,
  read(view) {
    const ip = nopsDelta(view);
    if (!isSavedPair(view, ip)) return null;
    const opening = view.u32(ip);
    const first = view.u32(ip + 4);
    const second = view.u32(ip + 8);
    if (view.relocatable && (!isCallType(relocationType(view, ip + 4)) || first !== AUIPC_RA || second !== JALR_RA)) {
      return foreign(patchable16, ip, {
        startDelta: ip + 4,
        expected: ZERO_RA_PAIR,
        reason: 'the pair carries no call relocation, or its fields are not zero',
      });
    }
    return {
      shape: patchable16,
      state: 'call',
      form: opening === SAVE_RA ? 'g1' : 'g1-2020',
      ipDelta: ip,
      startDelta: 0,
      sizeBytes: ip + 16,
      target: view.relocatable ? null : pairTarget(view, ip + 4, first, second),
      relocationDeltas: view.relocatable ? [ip + 4] : NO_DELTAS,
    };
  },
  write(reading, to, view) {
    if (reading.state === 'foreign') return refuseForeign(reading);
    const ip = reading.ipDelta;
    switch (to.kind) {
      case 'nop':
      case 'init':
        return store(view, ip, FOUR_NOPS, view.relocatable ? 'F-2' : 'C-UPD-2', reading.relocationDeltas);
      case 'call': {
        if (reading.form === 'g1-2020') {
          return { refused: 'unsupported', reason: 'the form proposed in 2020 is recognised and never written' };
        }
        if (view.relocatable && to.names) {
          return refuseOps(to) ?? nameCallee(view, ip, ZERO_SAVED_PAIR, ip + 4, to.names.call);
        }
        const from = view.address + BigInt(ip + 4);
        const refusal = refuseCall(view, from, to.target, pairReach);
        if (refusal) return refusal;
        if (reading.target === to.target) return emptyChange('R-SITE-3');
        return store(view, ip + 4, words(...encodePair(RA, to.target - from)), 'R-SITE-3');
      }
      default:
        return to satisfies never;
    }
  },
};

/**
 * `riscv64.fixed-auipc`: a G3 site. The auipc always stands and names the page of the tracer's
 * entry; only the aligned word behind it toggles, so other CPUs see the one or the other.
 *
 *     address  disabled          enabled
 *     ip - 4   auipc t0,hi       auipc t0,hi
 *     ip       nop               jalr  t0,lo(t0)
 *
 * Enabled it looks like a G2 site and is read as one, unless a relocation (PCREL_HI20) or a literal
 * in front of the function (G3c, then 8 bytes more) tells.
 */
const fixedAuipc: SiteShape = {
  name: 'riscv64.fixed-auipc',
  sources: ['patchable-table'],
  title: 'auipc t0 that stays, and a word that is nop or jalr t0',
  entries: ['g3', 'g3c'],
  read(view) {
    const start = nopsDelta(view);
    const first = view.u32(start);
    const second = view.u32(start + 4);
    if (!isAuipcT0(first)) return null;
    const reading = (
      state: SiteStateKind,
      form: string,
      target: Address | null,
      deltas: readonly number[],
    ): SiteReading => ({
      shape: fixedAuipc,
      state,
      form,
      ipDelta: start + 4,
      startDelta: 0,
      sizeBytes: start + 8,
      target,
      relocationDeltas: deltas,
    });
    if (!view.relocatable) {
      if (second === NOP) return reading('nop', 'auipc-nop', null, NO_DELTAS);
      if (!isJalrT0(second) || !hasLiteral(view, start)) return null;
      return reading('call', 'fixed-pair', pairTarget(view, start, first, second), NO_DELTAS);
    }
    const high = relocationType(view, start);
    if (high !== R_RISCV_PCREL_HI20 && second !== NOP) return null;
    const low = relocationType(view, start + 4);
    if (high !== R_RISCV_PCREL_HI20 || first !== AUIPC_T0) {
      return foreign(fixedAuipc, start + 4, {
        startDelta: start,
        expected: words(AUIPC_T0, NOP),
        reason: 'the fixed auipc carries no PCREL_HI20 relocation, or its field is not zero',
      });
    }
    if (second === NOP && low === R_RISCV_NONE) return reading('nop', 'auipc-nop', null, NO_DELTAS);
    if (second === JALR_T0 && low === R_RISCV_PCREL_LO12_I) {
      return reading('call', 'fixed-pair', null, [start, start + 4]);
    }
    return foreign(fixedAuipc, start + 4, {
      startDelta: start + 4,
      expected: ONE_NOP,
      reason: 'behind the auipc stands neither a nop nor a jalr with its relocation',
    });
  },
  write(reading, to, view) {
    if (reading.state === 'foreign') return refuseForeign(reading);
    const ip = reading.ipDelta;
    if (to.literal !== undefined && !view.relocatable) return writeFixed(reading, to, view);
    if (to.kind === 'call' && to.names && view.relocatable) return nameFixed(reading, to.names, to.form, view, ip - 4);
    switch (to.kind) {
      case 'nop':
      case 'init':
        if (reading.state === 'nop') return emptyChange('C-INIT-2');
        return store(view, ip, ONE_NOP, 'R-MOD-3', view.relocatable ? [ip] : NO_DELTAS);
      case 'call': {
        const from = view.address + BigInt(ip - 4);
        const refusal = refuseCall(view, from, to.target, pairReach);
        if (refusal) return refusal;
        if (!fixedAuipcReaches(view.u32(ip - 4), from, to.target)) {
          return {
            refused: 'out-of-range',
            reason: `R-MOD-2: ${hex(to.target)} needs another auipc than the fixed one`,
          };
        }
        if (reading.target === to.target) return emptyChange('R-MOD-2');
        return store(view, ip, words(encodePair(T0, to.target - from)[1]), 'R-MOD-2');
      }
      default:
        return to satisfies never;
    }
  },
};

export const riscvSiteShapes: readonly SiteShape[] = [mcountPair, mcountJal, patchable8, patchable16, fixedAuipc];

// ----------------------------------------------------------------------------------- finding calls

export const riscvMcount: McountRules = {
  symbols: ['_mcount', 'mcount'],
  callRelocations: new Map([
    [R_RISCV_CALL, 0],
    [R_RISCV_CALL_PLT, 0],
  ]),
  patchableIsPadding: false,
  // Kernels that add to a slot (since 6.16) ask before they do.
  emptySlots: [0n],
  // -pg calls follow prologues of any length.
  maxSiteOffset: 'any',
  findCalls(code, start, end, address, isTarget) {
    const found: number[] = [];
    const word = (at: number): number =>
      code[at]! | (code[at + 1]! << 8) | (code[at + 2]! << 16) | (code[at + 3]! << 24);
    const leads = (at: number, offset: bigint): boolean => isTarget(BigInt.asUintN(64, address + BigInt(at) + offset));
    for (let at = start; at + 4 <= end;) {
      const sizeBytes = instructionBytes(code[at]! | (code[at + 1]! << 8));
      if (sizeBytes === 4) {
        const first = word(at);
        if (isJalRa(first)) {
          if (leads(at, BigInt(jalOffset(first)))) found.push(at);
        } else if (isAuipcRa(first) && at + 8 <= end) {
          const second = word(at + 4);
          if (isJalrRa(second) && leads(at, decodePair(first, second))) found.push(at);
        }
      }
      at += sizeBytes;
    }
    return found;
  },
};
