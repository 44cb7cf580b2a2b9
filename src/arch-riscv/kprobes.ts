/**
 * Probes of RISC-V: which instructions can be probed, how they are executed elsewhere, and the two
 * jumps that take the place of a breakpoint.
 *
 * What a patcher must know:
 *
 * - Instructions have 2 or 4 bytes, so an address is an instruction only if decoding from the
 *   function's start arrives there, and the breakpoint has the length of what it replaces:
 *   `c.ebreak` = 9002 or `ebreak` = 00100073. The trap leaves its own address.
 * - What knows its place is auipc, jal, jalr and the branches: they are simulated on the trapped
 *   registers. Everything else does the same in a slot:
 *
 *       slot:  6798               c.ld a4,8(a5)     a copy
 *              .. .. .. 6f        jal x0,address+2  back, if within 1 MiB; else ebreak, and its
 *                                                   handler goes on
 *
 * - One jump alone reaches 1 MiB. Two words reach 2 GiB, but their first puts a part of the address
 *   into a register:
 *
 *       f:    0785      addi a5,a5,1  <- probe  f:    jal x0,buffer  covers both: window of 6 bytes
 *       f+2:  0007b703  ld a4,0(a5)             f+4:  9002           never reached
 *
 *       f:    auipc t1,hi ; jalr x0,lo(t1)           window of 8 or 10 bytes, t1 must be dead at f;
 *                                                    and another (or the same) register must be
 *                                                    dead behind the window, for the same jump back
 *
 *   A register is dead where every way on writes it before any code can read it; calls, returns and
 *   what leaves the function may read.
 * - Windows hold several instructions: no code may jump into them (decode the whole function,
 *   refuse jumps through registers, which may be tables), and no thread may stand in them when they
 *   are written: breakpoint first, then quiescence.
 * - Two bytes are stored at once, four only at a multiple of four. So while a window changes, its
 *   first parcel is c.ebreak: the parcels behind it are stored, all processors synchronise
 *   (fence.i), then the first parcel follows.
 *
 * Sources: The RISC-V Instruction Set Manual, Volume I (C extension, Zifencei, RVWMO); psABI 1.0;
 * struct pt_regs of Linux for RISC-V (R-ENT-7).
 */
import { type Reach, reaches } from '../bits.js';
import { concatBytes, wordBytes } from '../bytes.js';
import { hex } from '../errors.js';
import type { Decoded } from '../isa/table.js';
import { perFunction } from '../machine/probe-layout.js';
import {
  type BufferRequest,
  type DetourBuffer,
  type JumpWindow,
  type ProbeAbi,
  type ProbeCode,
  type ProbeCpu,
  type ProbeInstruction,
  type ProbeRefusal,
  type ProbeRegister,
  type ProbeSupport,
  refuse,
  type SimulationResult,
  type SlotImage,
  type Sweep,
  type SweptInstruction,
  type TextStep,
} from '../machine/probes.js';
import type { Address, RegisterName } from '../units.js';
import { decodeAt, expand, instructionBytes, RA, REGISTER_NAMES, riscvTable, SP, T0, ZERO } from './isa.js';
import { encodePair, pairReach } from './sites.js';

const EBREAK = riscvTable.encode('ebreak', {});
const C_EBREAK = riscvTable.encode('c.ebreak', {});
const jalReach = riscvTable.reach('jal');
const SLOT_BYTES = 8;
/** Copies do the same everywhere; what comes back by itself must be within 1 MiB. */
const ANYWHERE: Reach = { min: -0x7fff_f000n, max: 0x7fff_f000n, alignBytes: 2 };
/** K-ADDR-5 of arm64, which serves here as well. */
const RESERVATION_INSTRUCTIONS = 16;
/** Longest window: three of 2 bytes and one of 4 under a pair. */
const MAX_WINDOW = 10;
const RULE = 'K-RV-1';

const wrap = (value: bigint): bigint => BigInt.asUintN(64, value);
const word = (value: number): Uint8Array => wordBytes(value, 'little');
const parcel = (value: number): Uint8Array => Uint8Array.of(value & 0xff, value >>> 8);
function words(values: readonly number[]): Uint8Array {
  const out = new Uint8Array(4 * values.length);
  const view = new DataView(out.buffer);
  for (const [i, value] of values.entries()) view.setUint32(4 * i, value, true);
  return out;
}

function quad(value: bigint): Uint8Array {
  const out = new Uint8Array(8);
  new DataView(out.buffer).setBigUint64(0, wrap(value), true);
  return out;
}

// ---------------------------------------------------------------------------------- register frame

const PT_REGS_BYTES = 288;
const STATUS = 256;
const BAD_ADDRESS = 264;
const CAUSE = 272;
const ORIGINAL_A0 = 280;
/** A program cannot read its status; the entries of ftrace put the same number there. */
const FULL_STATUS = 0x20;
/** Breakpoint. */
const CAUSE_BREAKPOINT = 3;

function registersOf(): ReadonlyMap<string, ProbeRegister> {
  const found = new Map<string, ProbeRegister>([['epc', { machine: 'pc', frameOffset: 0, bytes: 8 }]]);
  // x1 to x31 at eight times their number.
  for (let n = 1; n < 32; n++) {
    const name = REGISTER_NAMES[n]!;
    found.set(name, { machine: name, frameOffset: 8 * n, bytes: 8 });
  }
  const fixed = (name: string, frameOffset: number, value: bigint): void => {
    found.set(name, { machine: null, fixed: value, frameOffset, bytes: 8 });
  };
  fixed('status', STATUS, BigInt(FULL_STATUS));
  fixed('badaddr', BAD_ADDRESS, 0n);
  fixed('cause', CAUSE, BigInt(CAUSE_BREAKPOINT));
  fixed('orig_a0', ORIGINAL_A0, wrap(-1n));
  return found;
}

const riscvProbeAbi: ProbeAbi = {
  registers: registersOf(),
  arguments: ['a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7'],
  stackArgumentOffset: 0,
  result: 'a0',
  stackPointer: 'sp',
  instructionPointer: 'epc',
  threadKey: (cpu) => cpu.register('tp'),
  frameBytes: PT_REGS_BYTES,
};

// ------------------------------------------------------------------------------------ instructions

/** An instruction of a function. */
interface Placed {
  /** From the function's start. */
  readonly offset: number;
  readonly sizeBytes: number;
  /** Of what a compressed one stands for; null: no instruction that the rows know. */
  readonly base: Decoded | null;
  readonly mnemonic: string;
}

/** Opcode of the base instruction: bits 6 to 0. */
const opcodeOf = (base: Decoded): number => base.row.match & 0x7f;
const AUIPC = 0x17;
const JAL = 0x6f;
const JALR = 0x67;
const BRANCH = 0x63;
const SYSTEM = 0x73;
const FENCE = 0x0f;

/** What is simulated, and in windows copied with corrections. */
const knowsPlace = (base: Decoded): boolean => [AUIPC, JAL, JALR, BRANCH].includes(opcodeOf(base));
const isLeaving = (base: Decoded): boolean => [JAL, JALR, BRANCH].includes(opcodeOf(base));

function placedAt(bytes: Uint8Array, offset: number): Placed {
  const low = bytes[offset]! | ((bytes[offset + 1] ?? 0) << 8);
  const decoded = decodeAt(bytes, offset);
  return decoded === null
    ? { offset, sizeBytes: instructionBytes(low), base: null, mnemonic: 'unknown' }
    : { offset, sizeBytes: decoded.row.sizeBytes, base: expand(decoded), mnemonic: decoded.row.mnemonic };
}

/** A function as windows look at it. */
interface Layout {
  readonly list: readonly Placed[];
  /** Jumps and branches whose target is known, in the order of the code. */
  readonly branches: readonly { readonly from: number; readonly to: number }[];
  /**
   * The first jump through a register whose target is not known; null: there is none.
   */
  readonly unknownJump: number | null;
  /**
   * Per instruction, a bit for each register that code may read before it is written: see
   * `livenessOf`.
   */
  live: Int32Array | null;
}

const layoutOf = perFunction(({ bytes }): Layout => {
  const list: Placed[] = [];
  for (let at = 0; at + 2 <= bytes.length;) {
    const each = placedAt(bytes, at);
    list.push(each);
    at += each.sizeBytes;
  }
  const branches: { from: number; to: number }[] = [];
  let unknownJump: number | null = null;
  for (const [index, { offset, base }] of list.entries()) {
    // Padding behind the code decodes as nothing, and no jump starts there.
    if (base === null) continue;
    const opcode = opcodeOf(base);
    const { rd = 0, rs1 = 0, off = 0, imm = 0 } = base.operands;
    if (opcode === JALR && rd === ZERO && !(rs1 === RA && imm === 0)) {
      const target = pairTarget(list, index);
      if (target !== null) branches.push({ from: offset, to: target });
      // Returns where t0 is the link (millicode).
      else if (!(rs1 === T0 && imm === 0)) unknownJump ??= offset;
    } else if (opcode === BRANCH || (opcode === JAL && rd === ZERO)) branches.push({ from: offset, to: offset + off });
  }
  return { list, branches, unknownJump, live: null };
});

const instructionsOf = (code: ProbeCode): readonly Placed[] => layoutOf(code).list;

/** Position in `list` of the instruction at an offset; -1: none begins there. */
function indexOf(list: readonly Placed[], offset: number): number {
  let low = 0;
  let high = list.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const at = list[middle]!.offset;
    if (at === offset) return middle;
    if (at < offset) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

function decode(code: ProbeCode, address: Address): ProbeInstruction | ProbeRefusal {
  const offset = Number(address - code.start);
  const no = (what: string): ProbeRefusal =>
    refuse('EILSEQ', 'not-a-boundary', 'K-ADDR-4', `${code.name}+${hex(offset)} is ${what}`);
  if (offset < 0 || offset >= code.bytes.length) return no('outside the function');
  const list = instructionsOf(code);
  const index = indexOf(list, offset);
  return index < 0 ? no('inside an instruction') : classify(code, list, index);
}

function classify(code: ProbeCode, list: readonly Placed[], index: number): ProbeInstruction | ProbeRefusal {
  const { offset, sizeBytes, base, mnemonic } = list[index]!;
  const no = (reason: ProbeRefusal['code'], why: string): ProbeRefusal =>
    refuse('EINVAL', reason, 'K-ADDR-5', `${mnemonic} at ${code.name}+${hex(offset)} ${why}`);
  if (base === null || offset + sizeBytes > code.bytes.length) {
    const where = `${code.name}+${hex(offset)}`;
    return refuse('EINVAL', 'undecodable', 'K-ADDR-5', `no instruction that is known at ${where}`);
  }
  const { flow, attributes } = base.row;
  if (flow === 'trap') return no('trap', 'is a trap of its own');
  if (opcodeOf(base) === SYSTEM) {
    return attributes.decodeOnly === true
      ? no('privileged', 'is for supervisors')
      : no('system', 'is a system instruction');
  }
  if (opcodeOf(base) === FENCE) return no('unsupported-instruction', 'orders what is in front of it at its place');
  const reservation = inReservation(list, index);
  if (reservation !== null) return no('exclusive-sequence', reservation);
  const address = code.start + BigInt(offset);
  const method = knowsPlace(base) ? 'simulate' : 'copy';
  return {
    kind: 'instruction',
    address,
    bytes: code.bytes.slice(offset, offset + sizeBytes),
    mnemonic,
    method,
    boostable: method === 'copy' && !code.hasException(address, address + BigInt(sizeBytes)),
  };
}

/** A handler between lr and sc would take the reservation away, and the loop would never end. */
function inReservation(list: readonly Placed[], index: number): string | null {
  const isLoad = (name: string): boolean => name.startsWith('lr.');
  const isStore = (name: string): boolean => name.startsWith('sc.');
  const own = list[index]!.mnemonic;
  if (isLoad(own) || isStore(own)) return 'reserves';
  for (let at = index - 1; at >= 0 && at >= index - RESERVATION_INSTRUCTIONS; at--) {
    const { mnemonic } = list[at]!;
    if (isStore(mnemonic)) return null;
    if (isLoad(mnemonic)) return `lies behind ${mnemonic}, whose store has not come yet`;
  }
  return null;
}

/** The base instruction of a `ProbeInstruction`. */
function baseOf(instruction: ProbeInstruction): Decoded {
  const { base } = placedAt(instruction.bytes, 0);
  if (base === null) throw new RangeError('an instruction that was decoded does not decode');
  return base;
}

const nextOf = (instruction: ProbeInstruction): Address => wrap(instruction.address + BigInt(instruction.bytes.length));

// ------------------------------------------------------------------------------------------- slots

const breakpoint = (original: Uint8Array): Uint8Array =>
  original.length > 0 && (original[0]! & 3) !== 3 ? parcel(C_EBREAK) : word(EBREAK);

function writeSlot(instruction: ProbeInstruction, slot: Address, boost: boolean): SlotImage {
  const { bytes } = instruction;
  const end = slot + BigInt(bytes.length);
  const next = nextOf(instruction);
  if (boost && instruction.boostable && reaches(jalReach, end, next)) {
    return { kind: 'slot', bytes: concatBytes([bytes, word(jump(end, next))]), end: { kind: 'jump' } };
  }
  return {
    kind: 'slot',
    bytes: concatBytes([bytes, breakpoint(bytes)]),
    end: { kind: 'breakpoint', offset: bytes.length },
  };
}

/** `jal x0,to` at `from`. */
const jump = (from: Address, to: Address): number => riscvTable.encode('jal', { rd: ZERO, off: Number(to - from) });

// -------------------------------------------------------------------------------------- simulation

function simulate(instruction: ProbeInstruction, cpu: ProbeCpu): SimulationResult {
  const base = baseOf(instruction);
  const { rd = 0, rs1 = 0, rs2 = 0, imm = 0, off = 0, upper = 0 } = base.operands;
  const { address } = instruction;
  const next = nextOf(instruction);
  const read = (register: number): bigint => (register === ZERO ? 0n : cpu.register(REGISTER_NAMES[register]!));
  const write = (register: number, value: bigint): void => {
    if (register !== ZERO) cpu.setRegister(REGISTER_NAMES[register]!, wrap(value));
  };
  const go = (pc: Address): SimulationResult => ({ kind: 'next', pc: wrap(pc) });
  switch (opcodeOf(base)) {
    case AUIPC:
      write(rd, address + BigInt(upper));
      return go(next);
    case JAL:
      write(rd, next);
      return go(address + BigInt(off));
    case JALR: {
      // Before rd is written, which may be rs1.
      const target = (read(rs1) + BigInt(imm)) & ~1n;
      write(rd, next);
      return go(target);
    }
    case BRANCH:
      return go(holds(base.row.mnemonic, read(rs1), read(rs2)) ? address + BigInt(off) : next);
    default:
      return go(next);
  }
}

function holds(mnemonic: string, first: bigint, second: bigint): boolean {
  const signed = (value: bigint): bigint => BigInt.asIntN(64, value);
  switch (mnemonic) {
    case 'beq':
      return first === second;
    case 'bne':
      return first !== second;
    case 'blt':
      return signed(first) < signed(second);
    case 'bge':
      return signed(first) >= signed(second);
    case 'bltu':
      return first < second;
    default:
      return first >= second;
  }
}

// ---------------------------------------------------------------------------------------- liveness

const A0 = 10;
const A1 = 11;
const A7 = 17;

/** Bits of the registers that an instruction reads. */
const readsOf = ({ row, operands }: Decoded): number =>
  row.fields.reduce(
    (mask, { name }) => (name === 'rs1' || name === 'rs2' ? mask | (1 << (operands[name] ?? ZERO)) : mask),
    0,
  );

/** Registers that may be given up: not ra, sp, gp, tp. What calls may change first. */
const SCRATCH: readonly number[] = [
  6,
  7,
  28,
  29,
  30,
  31,
  T0,
  10,
  11,
  12,
  13,
  14,
  15,
  16,
  17,
  8,
  9,
  18,
  19,
  20,
  21,
  22,
  23,
  24,
  25,
  26,
  27,
];

/**
 * Of each instruction the registers that some way on reads before it writes them, by the flow of
 * the whole function. Calls, returns, whatever leaves the function or is not known may read any.
 */
function livenessOf(layout: Layout): Int32Array {
  if (layout.live !== null) return layout.live;
  const { list } = layout;
  const live = new Int32Array(list.length);
  const at = (index: number): number => (index < 0 || index >= list.length ? -1 : live[index]!);
  const step = ({ offset, base }: Placed, index: number): number => {
    if (base === null) return -1;
    const opcode = opcodeOf(base);
    const { rd = 0, off = 0 } = base.operands;
    if (opcode === JALR || opcode === SYSTEM || (opcode === JAL && rd !== ZERO)) return -1;
    const there = opcode === JAL || opcode === BRANCH ? at(indexOf(list, offset + off)) : 0;
    const next = opcode === JAL ? 0 : at(index + 1);
    const written = base.operands['rd'] === undefined ? 0 : 1 << rd;
    return readsOf(base) | ((there | next) & ~written);
  };
  // Backwards, so that only loops need another round.
  for (let changes = true; changes;) {
    changes = false;
    for (let index = list.length - 1; index >= 0; index--) {
      const now = step(list[index]!, index);
      if (now === live[index]) continue;
      live[index] = now;
      changes = true;
    }
  }
  layout.live = live;
  return live;
}

/**
 * At a function's entry t0 is the link of call hooks, and handlers ask for arguments, used or not:
 * the jump would have changed them.
 */
const isTakenAtEntry = (register: number): boolean => register === T0 || (register >= A0 && register <= A7);

function deadAt(layout: Layout, offset: number, atEntry: boolean): number | null {
  const index = indexOf(layout.list, offset);
  const live = index < 0 ? -1 : livenessOf(layout)[index]!;
  return SCRATCH.find((register) => !(atEntry && isTakenAtEntry(register)) && (live & (1 << register)) === 0) ?? null;
}

// ----------------------------------------------------------------------------------------- windows

/** Address that a jump through a register leads to, where the auipc in front of it says so. */
function pairTarget(list: readonly Placed[], index: number): number | null {
  const base = list[index]?.base;
  const before = list[index - 1]?.base;
  if (!base || !before || opcodeOf(base) !== JALR || opcodeOf(before) !== AUIPC) return null;
  if (before.operands['rd'] !== base.operands['rs1']) return null;
  return list[index - 1]!.offset + (before.operands['upper'] ?? 0) + (base.operands['imm'] ?? 0);
}

const LUI = 0x37;
const ADDI = 0x13;
const GP = 3;

/**
 * Registers that hold a part of an address: what an auipc, or a lui, in front of the instruction
 * has put there.
 */
class RiscvSweep implements Sweep {
  readonly alignBytes = 2;
  /** Of gp, which linkers address data by. */
  readonly hasConstantBases = true;
  /** Positions in the code. */
  private readonly near = new Float64Array(32);
  /** Numbers. */
  private readonly far = new Float64Array(32);
  private readonly gp: number;

  /** @param globalPointer  what gp holds */
  constructor(globalPointer: Address | null) {
    this.gp = globalPointer === null ? NaN : Number(BigInt.asIntN(64, globalPointer));
    this.reset();
  }

  reset(): void {
    this.near.fill(NaN);
    this.far.fill(NaN);
    this.far[GP] = this.gp;
  }

  step(bytes: Uint8Array, at: number, out: SweptInstruction): void {
    out.sizeBytes = 0;
    out.target = NaN;
    out.address = NaN;
    out.constant = NaN;
    const decoded = decodeAt(bytes, at);
    if (decoded === null) return;
    out.sizeBytes = decoded.row.sizeBytes;
    const base = expand(decoded);
    const { rd, rs1 = ZERO, off = 0, imm = 0, upper = 0 } = base.operands;
    const opcode = opcodeOf(base);
    if (opcode === JAL || opcode === BRANCH) out.target = off;
    // What knows no address leaves NaN.
    else if (opcode === JALR) out.target = this.near[rs1]! + imm - at;
    else if (opcode === ADDI && base.row.mnemonic === 'addi') {
      out.address = this.near[rs1]! + imm - at;
      out.constant = this.far[rs1]! + imm;
    }
    if (rd === undefined || rd === ZERO || rd === GP) return;
    this.near[rd] = opcode === AUIPC ? at + upper : NaN;
    this.far[rd] = opcode === LUI ? upper : NaN;
  }
}

/** No code leads to the bytes between the first instruction of a window and its end. */
function interiorIsFree(code: ProbeCode, layout: Layout, from: number, to: number): ProbeRefusal | null {
  const no = (reason: ProbeRefusal['code'], why: string): ProbeRefusal => refuse('EILSEQ', reason, RULE, why);
  if (!code.sizeKnown) return no('unknown-size', `the size of ${code.name} is not known`);
  const unknown = code.noJumpTables ? null : layout.unknownJump;
  const into = layout.branches.find((branch) => branch.to > from && branch.to < to);
  if (unknown !== null && (into === undefined || unknown < into.from)) {
    const where = `${code.name}+${hex(unknown)}`;
    return no('indirect-jump', `the jump through a register at ${where} may lead into the window`);
  }
  if (into === undefined) return null;
  return no('branch-into-window', `${code.name}+${hex(into.from)} leads to ${code.name}+${hex(into.to)}`);
}

/** The whole instructions that cover `bytes` from `index` on, or why they are no window. */
function cover(
  code: ProbeCode,
  list: readonly Placed[],
  index: number,
  bytes: number,
): { readonly instructions: readonly ProbeInstruction[]; readonly length: number } | ProbeRefusal {
  const instructions: ProbeInstruction[] = [];
  let length = 0;
  for (let at = index; length < bytes; at++) {
    if (at >= list.length) {
      return refuse(
        'EILSEQ',
        'too-short',
        RULE,
        `${code.name} ends ${length} bytes behind the probe, a jump needs ${bytes}`,
      );
    }
    const before = list[at - 1]?.base;
    if (at > index && before && isLeaving(before)) {
      const where = `${code.name}+${hex(list[at - 1]!.offset)}`;
      return refuse(
        'EINVAL',
        'not-boostable',
        RULE,
        `${list[at - 1]!.mnemonic} at ${where} leads out of the middle of the window`,
      );
    }
    const each = classify(code, list, at);
    if (each.kind === 'refused') return each;
    instructions.push(each);
    length += each.bytes.length;
  }
  return { instructions, length };
}

function windowOf(code: ProbeCode, layout: Layout, index: number, bytes: 4 | 8): JumpWindow | ProbeRefusal {
  const { list } = layout;
  const { offset } = list[index]!;
  const address = code.start + BigInt(offset);
  const covered = cover(code, list, index, bytes);
  if ('kind' in covered) return covered;
  const { instructions, length } = covered;
  const end = offset + length;
  if (instructions.length > 1) {
    const refusal = interiorIsFree(code, layout, offset, end);
    if (refusal) return refusal;
    const other = code.otherPatch(address, address + BigInt(length));
    if (other !== null) return refuse('EBUSY', 'site-in-window', RULE, `${other} lies in the window`);
  }
  if (code.hasException(address, address + BigInt(length))) {
    return refuse('EILSEQ', 'exception-table', RULE, `an exception table names a place in the window of ${code.name}`);
  }
  const last = instructions.at(-1)!;
  const base = baseOf(last);
  const linked = base.operands['rd'] ?? ZERO;
  if (opcodeOf(base) === JALR && linked !== ZERO && linked === base.operands['rs1']) {
    return refuse('EINVAL', 'not-boostable', RULE, `${last.mnemonic} jumps through the register that it links in`);
  }
  const window = {
    kind: 'window' as const,
    address,
    instructions,
    bytes: code.bytes.slice(offset, end),
    jumpBytes: length,
    bufferBytes: BUFFER_BYTES,
  };
  if (bytes === 4) return { ...window, form: 'jal', reach: jalReach };
  if (isLeaving(base)) {
    return refuse(
      'EINVAL',
      'not-boostable',
      RULE,
      `${last.mnemonic} at the end of a window of 8 bytes leads out of reach`,
    );
  }
  const there = deadAt(layout, offset, offset === 0);
  const back = deadAt(layout, end, false);
  if (there === null || back === null) {
    const where = there === null ? 'at the probe' : 'behind the window';
    return refuse('EINVAL', 'no-free-register', 'K-RV-2', `no register is dead ${where}`);
  }
  return {
    ...window,
    form: `auipc-jalr ${REGISTER_NAMES[there]}`,
    // Room for where in the buffer the jump back is.
    reach: { ...pairReach, min: pairReach.min + BigInt(BUFFER_BYTES), max: pairReach.max - BigInt(BUFFER_BYTES) },
    scratch: [REGISTER_NAMES[there]!, REGISTER_NAMES[back]!],
  };
}

function windows(code: ProbeCode, address: Address): readonly JumpWindow[] | ProbeRefusal {
  const first = decode(code, address);
  if (first.kind === 'refused') return first;
  const layout = layoutOf(code);
  const index = indexOf(layout.list, Number(address - code.start));
  const near = windowOf(code, layout, index, 4);
  const far = windowOf(code, layout, index, 8);
  const found = [near, far].filter((each) => each.kind === 'window');
  return found.length > 0 || near.kind === 'window' ? found : near;
}

// ------------------------------------------------------------------------------------------ buffer

/** 84 words, then copies, a branch and the way back, then numbers. */
const BUFFER_BYTES = 448;

/** Code whose numbers of 64 bits lie behind it. */
class Assembly {
  private readonly parts: Uint8Array[] = [];
  private readonly literals: { readonly at: number; readonly register: number; readonly value: bigint }[] = [];
  size = 0;

  constructor(readonly start: Address) {}

  get here(): Address {
    return this.start + BigInt(this.size);
  }

  bytes(bytes: Uint8Array): void {
    this.parts.push(bytes);
    this.size += bytes.length;
  }

  add(mnemonic: string, operands: Readonly<Record<string, number>>): void {
    this.bytes(word(riscvTable.encode(mnemonic, operands)));
  }

  /** register := value, through nothing else: auipc register,0; ld register,d(register). */
  literal(register: number, value: bigint): void {
    this.literals.push({ at: this.size, register, value });
    this.bytes(new Uint8Array(8));
  }

  finish(): Uint8Array {
    const numbers = (this.size + 7) & ~7;
    const out = new Uint8Array(numbers + 8 * this.literals.length);
    out.set(concatBytes(this.parts));
    this.literals.forEach(({ at, register, value }, i) => {
      const place = numbers + 8 * i;
      out.set(
        words([
          riscvTable.encode('auipc', { rd: register, upper: 0 }),
          riscvTable.encode('ld', { rd: register, rs1: register, imm: place - at }),
        ]),
        at,
      );
      out.set(quad(value), place);
    });
    return out;
  }
}

/** All but zero and sp. */
const SAVED: readonly number[] = Array.from({ length: 32 }, (_, n) => n).filter((n) => n !== ZERO && n !== SP);

const PUSH = words([
  riscvTable.encode('addi', { rd: SP, rs1: SP, imm: -PT_REGS_BYTES }),
  ...SAVED.map((n) => riscvTable.encode('sd', { rs2: n, rs1: SP, imm: 8 * n })),
]);
const POP = words([
  ...SAVED.map((n) => riscvTable.encode('ld', { rd: n, rs1: SP, imm: 8 * n })),
  riscvTable.encode('addi', { rd: SP, rs1: SP, imm: PT_REGS_BYTES }),
]);

function template(out: Assembly, window: JumpWindow, { op, callees }: BufferRequest): void {
  const save = (register: number, imm: number): void => {
    out.add('sd', { rs2: register, rs1: SP, imm });
  };
  const li = (imm: number): void => {
    out.add('addi', { rd: T0, rs1: ZERO, imm });
  };
  out.bytes(PUSH);
  out.add('addi', { rd: T0, rs1: SP, imm: PT_REGS_BYTES });
  save(T0, 8 * SP);
  out.literal(T0, window.address);
  save(T0, 0);
  li(FULL_STATUS);
  save(T0, STATUS);
  save(ZERO, BAD_ADDRESS);
  li(CAUSE_BREAKPOINT);
  save(T0, CAUSE);
  li(-1);
  save(T0, ORIGINAL_A0);
  out.literal(A0, op);
  out.add('addi', { rd: A1, rs1: SP, imm: 0 });
  out.literal(T0, callees[0] ?? 0n);
  out.add('jalr', { rd: RA, rs1: T0, imm: 0 });
  out.bytes(POP);
}

/** A jump out of the buffer; false: out of reach. */
function jumpOut(out: Assembly, to: Address): boolean {
  if (!reaches(jalReach, out.here, to)) return false;
  out.bytes(word(jump(out.here, to)));
  return true;
}

/** The instruction for this place; `left`: it has gone on by itself. Null: out of reach. */
function copy(out: Assembly, instruction: ProbeInstruction, back: (out: Assembly) => boolean): 'on' | 'left' | null {
  const base = baseOf(instruction);
  const { rd = 0, off = 0, upper = 0 } = base.operands;
  const next = nextOf(instruction);
  const target = wrap(instruction.address + BigInt(off));
  switch (opcodeOf(base)) {
    case AUIPC:
      if (rd !== ZERO) out.literal(rd, instruction.address + BigInt(upper));
      return 'on';
    case JAL:
      if (rd !== ZERO) out.literal(rd, next);
      return jumpOut(out, target) ? 'left' : null;
    case JALR:
      if (rd !== ZERO) out.literal(rd, next);
      out.add('jalr', { ...base.operands, rd: ZERO });
      return 'left';
    case BRANCH: {
      // Over the way back, which is one jump: windows with a branch are near.
      out.add(base.row.mnemonic, { ...base.operands, off: 8 });
      return back(out) && jumpOut(out, target) ? 'left' : null;
    }
    default:
      out.bytes(instruction.bytes);
      return 'on';
  }
}

function build(window: JumpWindow, request: BufferRequest): DetourBuffer | ProbeRefusal {
  const { address } = request;
  const far = (): ProbeRefusal =>
    refuse('ERANGE', 'out-of-reach', RULE, `the buffer at ${hex(address)} is out of reach of ${window.form}`);
  if (!reaches(window.reach, window.address, address)) return far();
  const out = new Assembly(address);
  template(out, window, request);
  const copiedOffset = out.size;
  const end = wrap(window.address + BigInt(window.bytes.length));
  const back = (to: Assembly): boolean => {
    if (jumpOut(to, end)) return true;
    const register = REGISTER_NAMES.findIndex((name) => name === window.scratch?.[1]);
    if (register < 0) return false;
    to.bytes(words(pair(register, to.here, end)));
    return true;
  };
  let state: 'on' | 'left' | null = 'on';
  for (const each of window.instructions) {
    state = copy(out, each, back);
    if (state === null) return far();
  }
  if (state === 'on' && !back(out)) return far();
  return { kind: 'buffer', address, bytes: out.finish(), copiedOffset };
}

/** auipc register,hi; jalr x0,lo(register). */
function pair(register: number, from: Address, to: Address): readonly [number, number] {
  const [first, second] = encodePair(register, BigInt.asIntN(64, to - from));
  return [first, riscvTable.encode('jalr', { rd: ZERO, rs1: register, imm: second >> 20 })];
}

/** The jump, and c.ebreak in what is left of the last instruction. */
function jumpBytes(window: JumpWindow, buffer: Address): Uint8Array {
  const register = scratchOf(window);
  const head = register === null ? word(jump(window.address, buffer)) : words(pair(register, window.address, buffer));
  return window.bytes.length === head.length ? head : concatBytes([head, parcel(C_EBREAK)]);
}

function scratchOf({ scratch }: JumpWindow): number | null {
  const name: RegisterName | undefined = scratch?.[0];
  return name === undefined ? null : REGISTER_NAMES.findIndex((each) => each === name);
}

/**
 * One text for another while others may come to its first instruction. A stored word is seen whole
 * at a multiple of four, a parcel always: the first one is a breakpoint until all others are there.
 */
function replace(address: Address, bytes: Uint8Array, wordwise: boolean): readonly TextStep[] {
  const sync: TextStep = { kind: 'sync' };
  const store = (from: number, to: number): readonly TextStep[] =>
    from >= to ? [] : [{ kind: 'store', address: address + BigInt(from), bytes: bytes.slice(from, to) }, sync];
  const trap = (original: Uint8Array): readonly TextStep[] => [{ kind: 'store', address, bytes: original }, sync];
  if (!wordwise) return [...trap(parcel(C_EBREAK)), ...store(2, bytes.length), ...store(0, 2)];
  return [...(bytes.length > 4 ? trap(word(EBREAK)) : []), ...store(4, bytes.length), ...store(0, 4)];
}

/** Code without compressed instructions, whose processor may have none. */
const isWordwise = ({ address, instructions }: JumpWindow): boolean =>
  address % 4n === 0n && instructions.every(({ bytes }) => bytes.length === 4);

export const riscvProbes: ProbeSupport = {
  kind: 'kprobes',
  abi: riscvProbeAbi,
  trapDelta: 0,
  breakpoint,
  // Kernels from 6.10 on do not.
  kernelsServeSites: false,
  adjust: (_code, address) => address,
  decode,
  slots: {
    sizeBytes: SLOT_BYTES,
    alignBytes: SLOT_BYTES,
    reach: ANYWHERE,
    write: writeSlot,
    finish: nextOf,
  },
  simulate,
  optimization: {
    kind: 'jump',
    maxBytes: MAX_WINDOW,
    alignBytes: 8,
    callees: ['elftrace_probe_hit'],
    calleeReach: null,
    needsQuiescence: true,
    windows,
    sweep: (find) => new RiscvSweep(find('__global_pointer$')),
    build,
    jump: jumpBytes,
    optimize: (window, buffer) => replace(window.address, jumpBytes(window, buffer), isWordwise(window)),
    undo(window) {
      const first = breakpoint(window.bytes);
      const text = concatBytes([first, window.bytes.slice(first.length)]);
      const steps = replace(window.address, text, isWordwise(window));
      if (scratchOf(window) === null) return steps;
      // The jump is two instructions. Who stands between them has not executed the first one of the
      // window: the second may not come back under it.
      return [...steps.slice(0, 2), { kind: 'wait' }, ...steps.slice(2)];
    },
  },
};
