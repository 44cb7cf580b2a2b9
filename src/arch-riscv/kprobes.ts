/**
 * Probes of RISC-V 64: which instructions can be probed, how they are executed elsewhere, and the two jumps that take the place of a breakpoint.
 *
 * What a patcher must know:
 *
 * - A breakpoint is as long as what it replaces: `ebreak` = 00100073 over four bytes, `c.ebreak` = 9002 over two. With C an address is an
 *   instruction only if decoding from the function's start arrives there; the trap leaves the address of the breakpoint.
 * - Most instructions do not know where they are. Those that do (auipc, jal, jalr with a link, branches, c.j and its like) are simulated on the
 *   trapped registers; the others are copied:
 *
 *       slot:  0085b783        ld a5,8(a1)      a copy
 *              j address+4                      back within 1 MiB; else a breakpoint, and whoever handles it goes on
 *
 * - A jump of four bytes reaches 1 MiB, one of eight 2 GiB, for the price of a register that nobody reads any more at that place:
 *
 *       f:    0141     c.addi sp,16     <- probe     f:    ....0006  jal zero,buffer
 *       f+2:  853e     c.mv a0,a5                    f+4:  9002      c.ebreak: never executed
 *       f+4:  ...                                    f+4:  ... (where the window ends at f+4 there is nothing to fill)
 *
 *   Windows are whole instructions, so nobody may jump into one, and nobody may stand in it while it changes: wait until all have been scheduled.
 *   A register is dead if every way on writes it before it reads it; that is computed over the whole function, and calls kill what
 *   the psABI lets callees spoil. ra, sp, gp and tp never qualify, nor does t0 at a function's entry, where ftrace links through it.
 * - Stores of a parcel, and of an aligned word, are seen whole. A jal at 2 modulo 4 is none of these: a c.ebreak guards its tail while that
 *   is written, and its first parcel comes last (R-ENC-3).
 * - Between a load-reserved and its store-conditional no handler may run: the trap takes the reservation away, and the loop would never end.
 *
 * Sources: The RISC-V Instruction Set Manual, Volume I; psABI 1.0 (register convention, no red zone); struct pt_regs of Linux for riscv.
 */
import { type Reach, reaches } from '../bits.js';
import { ByteView, concatBytes, wordBytes } from '../bytes.js';
import { hex } from '../errors.js';
import type { Decoded } from '../isa/table.js';
import {
  type BufferRequest,
  type DetourBuffer,
  type JumpWindow,
  type ProbeAbi,
  type ProbeCode,
  type ProbeCpu,
  type ProbeErrno,
  type ProbeInstruction,
  type ProbeRefusal,
  type ProbeRefusalCode,
  type ProbeRegister,
  type ProbeSupport,
  refuse,
  type SimulationResult,
  type SlotImage,
  type TextStep,
} from '../kprobes/model.js';
import type { Address, RegisterName } from '../units.js';
import { decodeAt, expand, RA, REGISTER_NAMES, riscvTable, SP, T0, T1, ZERO } from './isa.js';
import { encodePair, pairReach } from './sites.js';

const EBREAK = wordBytes(riscvTable.encode('ebreak', {}), 'little');
const C_EBREAK = wordBytes(riscvTable.encode('c.ebreak', {}), 'little').slice(0, 2);
const jalReach: Reach = riscvTable.reach('jal');
/** A copy of four bytes and a jump. */
const SLOT_BYTES = 8;
/** Copies do not depend on their place, and what follows them can be a breakpoint: every distance will do. */
const EVERYWHERE: Reach = { min: -(1n << 62n), max: 1n << 62n, alignBytes: 2 };
/** Eight bytes of a jump, of which the last instruction may begin in the last two. */
const MAX_WINDOW = 10;
/** Frame, calls, copies, literals: more than any buffer has. */
const BUFFER_BYTES = 560;
/** K-ADDR-5 of arm64, which serves here as well: how far a load-reserved is looked for. */
const RESERVATION_INSTRUCTIONS = 16;
const RULE = '50-kprobes 10';

const wrap = (value: bigint): bigint => BigInt.asUintN(64, value);
const nameOf = (register: number): RegisterName => REGISTER_NAMES[register]!;

// --------------------------------------------------------------------------------------------------------- register frame

const GENERAL_PLACES = [
  'ra', 'sp', 'gp', 'tp', 't0', 't1', 't2', 's0', 's1', 'a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7', 's2', 's3', 's4', 's5', 's6',
  's7', 's8', 's9', 's10', 's11', 't3', 't4', 't5', 't6',
] as const; // prettier-ignore
const FRAME_BYTES = 288;
/** What a program cannot see; the number of a breakpoint as a cause, the status that the entries of ftrace put there. */
const STATUS = 0x20n;
const CAUSE = 3n;

/** struct pt_regs: pc, the 31 registers, status, bad address, cause, first argument of a system call. */
export const riscvProbeAbi: ProbeAbi = {
  registers: new Map<string, ProbeRegister>([
    ['epc', { machine: 'pc', frameOffset: 0, bytes: 8 }],
    ...GENERAL_PLACES.map((name, i): [string, ProbeRegister] => [
      name,
      { machine: name, frameOffset: 8 * (i + 1), bytes: 8 },
    ]),
    ['status', { machine: null, fixed: STATUS, frameOffset: 256, bytes: 8 }],
    ['badaddr', { machine: null, fixed: 0n, frameOffset: 264, bytes: 8 }],
    ['cause', { machine: null, fixed: CAUSE, frameOffset: 272, bytes: 8 }],
    ['orig_a0', { machine: null, fixed: 0n, frameOffset: 280, bytes: 8 }],
  ]),
  arguments: ['a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7'],
  stackArgumentOffset: 0,
  result: 'a0',
  stackPointer: 'sp',
  instructionPointer: 'epc',
  frameBytes: FRAME_BYTES,
};

/** Place of a register in the frame. */
const placeOf = (register: number): number => riscvProbeAbi.registers.get(nameOf(register))!.frameOffset;

// --------------------------------------------------------------------------------------------------------- instructions

interface Found {
  readonly offset: number;
  readonly sizeBytes: number;
  /** As it stands, and as the base instruction that it is. */
  readonly plain: Decoded;
  readonly base: Decoded;
}

/** The instruction at an offset; null: there is none that the rows know. */
function find(bytes: Uint8Array, offset: number): Found | null {
  const plain = decodeAt(bytes, offset);
  return plain === null ? null : { offset, sizeBytes: plain.row.sizeBytes, plain, base: expand(plain) };
}

/** The instruction whose bytes a `ProbeInstruction` holds. */
function own({ bytes }: ProbeInstruction): Found {
  const found = find(bytes, 0);
  // Only decoded instructions become one.
  if (found === null) throw new RangeError('an instruction that was decoded does not decode');
  return found;
}

const BRANCHES: ReadonlySet<string> = new Set(['beq', 'bne', 'blt', 'bge', 'bltu', 'bgeu']);
const SIMULATED: ReadonlySet<string> = new Set([...BRANCHES, 'jal', 'jalr', 'auipc']);
const LOAD_RESERVED = /^lr\.[wd]$/;
const STORE_CONDITIONAL = /^sc\.[wd]$/;
const PRIVILEGED = /^(sret|mret|uret|wfi|sfence\.vma)$/;

/** Operand of the base instruction. */
const operand = ({ base }: Found, name: string): number => base.operands[name] ?? 0;

/** Instructions of a function up to its end or to what does not decode. */
function instructionsOf(bytes: Uint8Array): { readonly list: readonly Found[]; readonly end: number } {
  const list: Found[] = [];
  let at = 0;
  while (at < bytes.length) {
    const found = find(bytes, at);
    if (found === null) break;
    list.push(found);
    at += found.sizeBytes;
  }
  return { list, end: at };
}

// ------------------------------------------------------------------------------------------------------------- decoding

function decode(code: ProbeCode, address: Address): ProbeInstruction | ProbeRefusal {
  const offset = Number(address - code.start);
  const where = `${code.name}+${hex(offset)}`;
  if (offset < 0 || offset >= code.bytes.length) {
    return refuse('EILSEQ', 'not-a-boundary', 'K-ADDR-4', `${where} is outside the function`);
  }
  const { list, end } = analysisOf(code);
  const index = list.findIndex((each) => each.offset + each.sizeBytes > offset);
  const found = list[index];
  if (found === undefined) {
    return offset === end
      ? refuse('EILSEQ', 'undecodable', 'K-ADDR-5', `no instruction that is known at ${where}`)
      : refuse('EILSEQ', 'undecodable', 'K-ADDR-4', `${code.name} cannot be decoded up to ${where}`);
  }
  if (found.offset !== offset) {
    return refuse(
      'EILSEQ',
      'not-a-boundary',
      'K-ADDR-4',
      `${where} is inside the instruction at ${code.name}+${hex(found.offset)}`,
    );
  }
  return classify(code, found);
}

function classify(code: ProbeCode, found: Found): ProbeInstruction | ProbeRefusal {
  const address = code.start + BigInt(found.offset);
  const refusal = unprobable(code, found);
  if (refusal) return refusal;
  const method = SIMULATED.has(found.base.row.mnemonic) ? 'simulate' : 'copy';
  const end = address + BigInt(found.sizeBytes);
  return {
    kind: 'instruction',
    address,
    bytes: code.bytes.slice(found.offset, found.offset + found.sizeBytes),
    mnemonic: found.plain.row.mnemonic,
    method,
    // A fault in a copy is not found in an exception table: then the trap behind the copy tells where it came from.
    boostable: method === 'copy' && !code.hasException(address, end),
  };
}

/** K-ADDR-5; null: it may be probed. */
function unprobable(code: ProbeCode, found: Found): ProbeRefusal | null {
  const { mnemonic, flow } = found.base.row;
  const no = (reason: ProbeRefusalCode, why: string): ProbeRefusal =>
    refuse('EINVAL', reason, 'K-ADDR-5', `${found.plain.row.mnemonic} ${why}`);
  if (flow === 'trap') return no('trap', 'is a trap of its own');
  if (flow === 'syscall') return no('system', 'enters the kernel');
  if (PRIVILEGED.test(mnemonic)) return no('privileged', 'changes the state that a trap is taken in');
  if (mnemonic.startsWith('csr')) return no('system', 'reads or writes the state of the processor');
  if (mnemonic.startsWith('fence') || mnemonic === 'pause') return no('system', 'orders what others see of this place');
  return inReservation(code, found);
}

/** The instruction is one of a load-reserved ... store-conditional sequence. */
function inReservation(code: ProbeCode, found: Found): ProbeRefusal | null {
  const { list } = analysisOf(code);
  const no = (why: string): ProbeRefusal =>
    refuse('EINVAL', 'exclusive-sequence', 'K-ADDR-5', `${code.name}+${hex(found.offset)} ${why}`);
  const { mnemonic } = found.base.row;
  if (LOAD_RESERVED.test(mnemonic) || STORE_CONDITIONAL.test(mnemonic)) return no(`is ${mnemonic}`);
  const index = list.findIndex(({ offset }) => offset === found.offset);
  for (let i = index - 1; i >= 0 && i >= index - RESERVATION_INSTRUCTIONS; i--) {
    const name = list[i]!.base.row.mnemonic;
    if (STORE_CONDITIONAL.test(name)) return null;
    if (LOAD_RESERVED.test(name))
      return no(`lies behind the ${name} at +${hex(list[i]!.offset)}, whose store has not come yet`);
  }
  return null;
}

// ---------------------------------------------------------------------------------------------------------------- slots

/** jal zero; the distance is checked by who calls. */
const jal = (from: Address, to: Address): number => riscvTable.encode('jal', { rd: ZERO, off: Number(to - from) });

const nextOf = ({ address, bytes }: ProbeInstruction): Address => wrap(address + BigInt(bytes.length));

function writeSlot(instruction: ProbeInstruction, slot: Address, boost: boolean): SlotImage {
  const { bytes } = instruction;
  const end = slot + BigInt(bytes.length);
  const next = nextOf(instruction);
  if (boost && instruction.boostable && reaches(jalReach, end, next)) {
    const back = wordBytes(jal(end, next), 'little');
    return { kind: 'slot', bytes: concatBytes([bytes, back]), end: { kind: 'jump' } };
  }
  // Code that has instructions of two bytes may have a breakpoint of two.
  const stop = bytes.length === 2 ? C_EBREAK : EBREAK;
  return { kind: 'slot', bytes: concatBytes([bytes, stop]), end: { kind: 'breakpoint', offset: bytes.length } };
}

// ----------------------------------------------------------------------------------------------------------- simulation

const read = (cpu: ProbeCpu, register: number): bigint => (register === ZERO ? 0n : cpu.register(nameOf(register)));

function write(cpu: ProbeCpu, register: number, value: bigint): void {
  if (register !== ZERO) cpu.setRegister(nameOf(register), wrap(value));
}

function taken(mnemonic: string, a: bigint, b: bigint): boolean {
  const [x, y] = [BigInt.asIntN(64, a), BigInt.asIntN(64, b)];
  switch (mnemonic) {
    case 'beq':
      return a === b;
    case 'bne':
      return a !== b;
    case 'blt':
      return x < y;
    case 'bge':
      return x >= y;
    case 'bltu':
      return a < b;
    default:
      return a >= b;
  }
}

/** auipc: its address plus a multiple of 4096. */
const pageOf = (address: Address, found: Found): bigint => wrap(address + BigInt(operand(found, 'upper')));

function simulate(instruction: ProbeInstruction, cpu: ProbeCpu): SimulationResult {
  const found = own(instruction);
  const { address } = instruction;
  const next = nextOf(instruction);
  const { mnemonic } = found.base.row;
  const target = wrap(address + BigInt(operand(found, 'off')));
  const rd = operand(found, 'rd');
  const go = (pc: Address): SimulationResult => ({ kind: 'next', pc });
  if (BRANCHES.has(mnemonic)) {
    const [a, b] = [read(cpu, operand(found, 'rs1')), read(cpu, operand(found, 'rs2'))];
    return go(taken(mnemonic, a, b) ? target : next);
  }
  switch (mnemonic) {
    case 'jal':
      write(cpu, rd, next);
      return go(target);
    case 'jalr': {
      // Read before rd changes; bit 0 is dropped.
      const to = wrap(read(cpu, operand(found, 'rs1')) + BigInt(operand(found, 'imm'))) & ~1n;
      write(cpu, rd, next);
      return go(to);
    }
    case 'auipc':
      write(cpu, rd, pageOf(address, found));
      return go(next);
    default:
      return go(next);
  }
}

// -------------------------------------------------------------------------------------------------------- dead registers

const bit = (register: number): number => (1 << register) >>> 0;
const bits = (...registers: readonly number[]): number => registers.reduce((all, each) => (all | bit(each)) >>> 0, 0);
const range = (first: number, last: number): number[] => Array.from({ length: last - first + 1 }, (_, i) => first + i);
const ALL = 0xffff_fffe;
const ARGUMENTS = bits(...range(10, 17));
/** sp, gp, tp and the saved registers: a function gives them back. */
const KEPT = bits(SP, 3, 4, 8, 9, ...range(18, 27));
/** t2 is the static chain of nested functions, and no other temporary comes into a function. */
const CALL_READS = (ARGUMENTS | KEPT | bit(7)) >>> 0;
/** What callees may spoil. */
const CALL_WRITES = (ARGUMENTS | bits(RA, T0, T1, 7, ...range(28, 31))) >>> 0;
const RETURN_READS = (KEPT | bits(RA, 10, 11)) >>> 0;

interface Analysis {
  readonly list: readonly Found[];
  /** Bytes that decode. */
  readonly end: number;
  /** Registers, as bits, that are read from an offset on before they are written; everything where nothing is known. */
  live(offset: number): number;
}

const analyses = new WeakMap<ProbeCode, Analysis>();

function analysisOf(code: ProbeCode): Analysis {
  const known = analyses.get(code);
  if (known) return known;
  const { list, end } = instructionsOf(code.bytes);
  let live: ReadonlyMap<number, number> | undefined;
  const analysis: Analysis = {
    list,
    end,
    live: (offset) => (live ??= liveness(list)).get(offset) ?? ALL,
  };
  analyses.set(code, analysis);
  return analysis;
}

/** Registers that an instruction reads and writes, by the fields of its base form. */
function effects(found: Found): { readonly reads: number; readonly writes: number } {
  let reads = 0;
  let writes = 0;
  for (const { name } of found.base.row.fields) {
    if (name === 'rd') writes |= bit(operand(found, 'rd'));
    else if (name === 'rs1' || name === 'rs2') reads |= bit(operand(found, name));
  }
  return { reads: (reads & ALL) >>> 0, writes: (writes & ALL) >>> 0 };
}

/** Live registers at each instruction: backwards until nothing changes. Ways out of the function take the psABI's word for what the others read. */
function liveness(list: readonly Found[]): ReadonlyMap<number, number> {
  const at = new Map<number, number>();
  const live = (offset: number): number => at.get(offset) ?? 0;
  const inside = new Set(list.map(({ offset }) => offset));
  const behind = (found: Found): number => {
    const next = found.offset + found.sizeBytes;
    return inside.has(next) ? live(next) : ALL;
  };
  const end = list.reduce((last, { offset, sizeBytes }) => Math.max(last, offset + sizeBytes), 0);
  const into = (offset: number): number => {
    if (inside.has(offset)) return live(offset);
    // Into the middle of an instruction, or a call that does not come back.
    return offset >= 0 && offset < end ? ALL : (CALL_READS | bit(RA)) >>> 0;
  };
  const before = (found: Found): number => {
    const { mnemonic, flow } = found.base.row;
    const { reads, writes } = effects(found);
    const target = found.offset + operand(found, 'off');
    const rd = operand(found, 'rd');
    if (flow === 'trap') return ALL;
    if (BRANCHES.has(mnemonic)) return (reads | into(target) | behind(found)) >>> 0;
    if (mnemonic === 'jal' || mnemonic === 'jalr') {
      if (rd === RA) return (reads | CALL_READS | (behind(found) & ~CALL_WRITES)) >>> 0;
      // A link through another register is a convention of its own.
      if (rd !== ZERO) return ALL;
      if (mnemonic === 'jal') return into(target);
      return operand(found, 'rs1') === RA && operand(found, 'imm') === 0 ? RETURN_READS : ALL;
    }
    if (flow === 'syscall') return (ARGUMENTS | behind(found)) >>> 0;
    return (reads | (behind(found) & ~writes)) >>> 0;
  };
  for (let changed = true; changed;) {
    changed = false;
    for (let i = list.length - 1; i >= 0; i--) {
      const found = list[i]!;
      const now = (before(found) & ALL) >>> 0;
      if (now === live(found.offset) && at.has(found.offset)) continue;
      at.set(found.offset, now);
      changed = true;
    }
  }
  return at;
}

/** Temporaries first: where one of them lives, an argument register may be dead. */
const CANDIDATES = [T1, 28, 29, 30, 31, 7, T0, 17, 16, 15, 14, 13, 12, 11, 10] as const;

/** A register that nobody reads from an offset of a function on before writing it; null: none. */
export function deadRegister(code: ProbeCode, offset: number): number | null {
  const live = analysisOf(code).live(offset);
  const address = code.start + BigInt(offset);
  // Where ftrace may have linked through t0.
  const atEntry = offset === 0 || code.siteAt(address - 1n) !== null;
  return CANDIDATES.find((each) => (live & bit(each)) === 0 && !(each === T0 && atEntry)) ?? null;
}

// ------------------------------------------------------------------------------------------------------------------ jump

/** A window and the registers that its long jumps may spoil; null: no long jump there. */
export interface RiscvWindow extends JumpWindow {
  /** Of the jump itself; null: it is a jal. */
  readonly through: number | null;
  /** At the end of the window, and at the target of the branch that ends it. */
  readonly back: number | null;
  readonly branch: number | null;
}

const isRiscvWindow = (window: JumpWindow): window is RiscvWindow => 'through' in window;

/** What the last instruction of a window may be although it has no copy. */
function endsWindow(found: Found): boolean {
  const { mnemonic } = found.base.row;
  const rd = operand(found, 'rd');
  return BRANCHES.has(mnemonic) || ((mnemonic === 'jal' || mnemonic === 'jalr') && (rd === ZERO || rd === RA));
}

/** Section 10, RISC-V: the instructions that a jump of `jumpBytes` replaces, or why it may not. */
function replaced(code: ProbeCode, address: Address, jumpBytes: number): readonly Found[] | ProbeRefusal {
  const { name, start } = code;
  const { list } = analysisOf(code);
  const offset = Number(address - start);
  const no = (errno: ProbeErrno, reason: ProbeRefusalCode, why: string): ProbeRefusal =>
    refuse(errno, reason, RULE, why);
  const found: Found[] = [];
  let at = offset;
  for (let i = list.findIndex((each) => each.offset === offset); at - offset < jumpBytes; i++) {
    const each = list[i];
    if (each === undefined) {
      return no('EILSEQ', 'too-short', `${name} ends ${at - offset} bytes behind the probe, a jump needs ${jumpBytes}`);
    }
    found.push(each);
    at += each.sizeBytes;
  }
  const end = start + BigInt(at);
  for (const [i, each] of found.entries()) {
    const instruction = classify(code, each);
    if (instruction.kind === 'refused') return instruction;
    const last = i === found.length - 1;
    if (instruction.method === 'copy' || each.base.row.mnemonic === 'auipc' || (last && endsWindow(each))) continue;
    return no(
      'EINVAL',
      'not-boostable',
      `${instruction.mnemonic} at ${name}+${hex(each.offset)} ${last ? 'links through a register of its own' : 'leads away in the middle of the window'}`,
    );
  }
  for (const each of list) {
    const { mnemonic } = each.base.row;
    const target = each.offset + operand(each, 'off');
    if (!BRANCHES.has(mnemonic) && mnemonic !== 'jal') continue;
    if (target > offset && target < at) {
      return no('EILSEQ', 'branch-into-window', `${name}+${hex(each.offset)} leads to ${name}+${hex(target)}`);
    }
  }
  const other = code.otherPatch(address, end);
  return other === null ? found : no('EBUSY', 'site-in-window', `${other} lies in the window`);
}

/** What holds for the function as a whole. */
function canOptimize(code: ProbeCode): ProbeRefusal | null {
  const { name, start, bytes } = code;
  const no = (reason: ProbeRefusalCode, why: string): ProbeRefusal => refuse('EILSEQ', reason, RULE, why);
  if (!code.sizeKnown) return no('unknown-size', `the size of ${name} is not known`);
  if (code.isEntryText) return no('entry-text', `${name} is entry code`);
  if (code.hasException(start, start + BigInt(bytes.length))) {
    return no('exception-table', `an exception table names a place in ${name}`);
  }
  const { list, end } = analysisOf(code);
  if (end < bytes.length) return no('undecodable', `no instruction that is known at ${name}+${hex(end)}`);
  if (code.noJumpTables) return null;
  for (const each of list) {
    const { mnemonic } = each.base.row;
    if (mnemonic !== 'jalr' || operand(each, 'rd') !== ZERO) continue;
    if (operand(each, 'rs1') === RA && operand(each, 'imm') === 0) continue;
    return no('indirect-jump', `the indirect jump at ${name}+${hex(each.offset)} may lead into the window`);
  }
  return null;
}

function windows(code: ProbeCode, address: Address): readonly JumpWindow[] | ProbeRefusal {
  const first = decode(code, address);
  if (first.kind === 'refused') return first;
  const refusal = canOptimize(code);
  if (refusal) return refusal;
  const short = replaced(code, address, 4);
  if ('kind' in short) return short;
  const near: Reach = { min: jalReach.min, max: jalReach.max - BigInt(BUFFER_BYTES), alignBytes: 2 };
  const found = [windowOf(code, address, short, null, near)];
  const through = deadRegister(code, Number(address - code.start));
  const long = through === null ? null : replaced(code, address, 8);
  if (through !== null && long !== null && !('kind' in long)) {
    // Both ways: there and back.
    const distance = pairReach.max - BigInt(BUFFER_BYTES);
    const window = windowOf(code, address, long, through, { min: -distance, max: distance, alignBytes: 2 });
    if (window.back !== null || leaves(long.at(-1)!)) found.push(window);
  }
  return found;
}

/** An instruction behind which nobody goes on. */
const leaves = ({ base }: Found): boolean => base.row.mnemonic === 'jal' || base.row.mnemonic === 'jalr';

function windowOf(
  code: ProbeCode,
  address: Address,
  list: readonly Found[],
  through: number | null,
  reach: Reach,
): RiscvWindow {
  const last = list.at(-1)!;
  const end = last.offset + last.sizeBytes;
  const instructions = list.map((each) => classify(code, each)).filter((each) => each.kind === 'instruction');
  const target = last.offset + operand(last, 'off');
  const inside = analysisOf(code).list.some(({ offset }) => offset === target);
  const bytes = code.bytes.slice(Number(address - code.start), end);
  return {
    kind: 'window',
    form: through === null ? 'jal' : `auipc-jalr ${nameOf(through)}`,
    address,
    instructions,
    bytes,
    jumpBytes: bytes.length,
    reach,
    bufferBytes: BUFFER_BYTES,
    through,
    back: deadRegister(code, end),
    // A callee does not read t1, nor does what a jump out of the function leads to.
    branch: inside && operand(last, 'rd') === ZERO ? deadRegister(code, target) : T1,
  };
}

/** Bytes of the jump; what remains of the last instruction behind it would only be reached by mistake. */
function jump(window: JumpWindow, buffer: Address): Uint8Array {
  const through = isRiscvWindow(window) ? window.through : null;
  const distance = buffer - window.address;
  const words =
    through === null ? [jal(window.address, buffer)] : [encodePair(through, distance)[0], farJump(through, distance)];
  const bytes = concatBytes(words.map((word) => wordBytes(word, 'little')));
  const tail = Array.from({ length: (window.bytes.length - bytes.length) / 2 }, () => C_EBREAK);
  return concatBytes([bytes, ...tail]);
}

/** jalr zero behind an auipc of the register. */
const farJump = (register: number, distance: bigint): number =>
  riscvTable.encode('jalr', { rd: ZERO, rs1: register, imm: Number(BigInt.asIntN(12, distance)) });

// ---------------------------------------------------------------------------------------------------------------- buffers

/** Code of a buffer as it is put together; literals come behind it. */
class Emitter {
  private readonly parts: Uint8Array[] = [];
  private readonly literals: bigint[] = [];
  private readonly loads: { readonly at: number; readonly literal: number; readonly register: number }[] = [];
  size = 0;

  constructor(private readonly address: Address) {}

  get here(): Address {
    return this.address + BigInt(this.size);
  }

  code(bytes: Uint8Array): void {
    this.parts.push(bytes);
    this.size += bytes.length;
  }

  emit(mnemonic: string, operands: Readonly<Record<string, number>>): void {
    this.code(wordBytes(riscvTable.encode(mnemonic, operands), 'little'));
  }

  /** register := value, from a word behind the code: nothing else changes. */
  load(register: number, value: bigint): void {
    this.loads.push({ at: this.size, literal: this.literals.push(value) - 1, register });
    this.code(new Uint8Array(8));
  }

  /** Goes to an address, by a long jump through a dead register where the short one does not reach; null: neither does. */
  jump(to: Address, dead: number | null): ProbeRefusal | null {
    const words = jumpWords(this.here, to, dead);
    if ('kind' in words) return words;
    for (const word of words) this.code(wordBytes(word, 'little'));
    return null;
  }

  finish(): Uint8Array {
    const start = (this.size + 7) & ~7;
    const bytes = new Uint8Array(start + 8 * this.literals.length);
    bytes.set(concatBytes(this.parts));
    const view = new ByteView(bytes, 'little', 'buffer');
    this.literals.forEach((value, i) => {
      view.insertU64(start + 8 * i, wrap(value));
    });
    for (const { at, literal, register } of this.loads) {
      const imm = start + 8 * literal - at;
      view.insertU32(at, riscvTable.encode('auipc', { rd: register, upper: 0 }));
      view.insertU32(at + 4, riscvTable.encode('ld', { rd: register, rs1: register, imm }));
    }
    return bytes;
  }
}

function jumpWords(from: Address, to: Address, dead: number | null): readonly number[] | ProbeRefusal {
  if (reaches(jalReach, from, to)) return [jal(from, to)];
  if (dead !== null && reaches(pairReach, from, to)) return [encodePair(dead, to - from)[0], farJump(dead, to - from)];
  const why = dead === null ? 'not within 1 MiB, and no register is free' : 'not within 2 GiB';
  return refuse('ERANGE', 'out-of-reach', RULE, `${hex(to)} is ${why} of the buffer at ${hex(from)}`);
}

const SAVED = [RA, ...range(3, 31)];

/** Saves, calls, restores: nothing that the code has is changed behind it. There is no red zone. */
function template(emitter: Emitter, window: JumpWindow, { op, callees }: BufferRequest): void {
  const store = (register: number, place: number): void => {
    emitter.emit('sd', { rs2: register, rs1: SP, imm: place });
  };
  const constant = (value: bigint, place: number): void => {
    emitter.emit('addi', { rd: T0, rs1: ZERO, imm: Number(value) });
    store(T0, place);
  };
  emitter.emit('addi', { rd: SP, rs1: SP, imm: -FRAME_BYTES });
  for (const register of SAVED) store(register, placeOf(register));
  emitter.emit('addi', { rd: T0, rs1: SP, imm: FRAME_BYTES });
  store(T0, placeOf(SP));
  emitter.load(T0, window.address);
  store(T0, 0);
  constant(STATUS, 256);
  store(ZERO, 264);
  constant(CAUSE, 272);
  store(ZERO, 280);
  emitter.load(10, op);
  emitter.emit('addi', { rd: 11, rs1: SP, imm: 0 });
  emitter.load(T1, callees[0] ?? 0n);
  emitter.emit('jalr', { rd: RA, rs1: T1, imm: 0 });
  for (const register of SAVED) emitter.emit('ld', { rd: register, rs1: SP, imm: placeOf(register) });
  emitter.emit('addi', { rd: SP, rs1: SP, imm: FRAME_BYTES });
}

function build(window: JumpWindow, request: BufferRequest): DetourBuffer | ProbeRefusal {
  const { address } = request;
  if (!reaches(window.reach, window.address, address)) {
    const limit = window.form === 'jal' ? '1 MiB' : '2 GiB';
    return refuse('ERANGE', 'out-of-reach', RULE, `the buffer at ${hex(address)} is not within ${limit} of the probe`);
  }
  const emitter = new Emitter(address);
  template(emitter, window, request);
  const copiedOffset = emitter.size;
  const [back, branch] = isRiscvWindow(window) ? [window.back, window.branch] : [null, null];
  for (const [i, instruction] of window.instructions.entries()) {
    const found = own(instruction);
    if (found.base.row.mnemonic === 'auipc') {
      const rd = operand(found, 'rd');
      if (rd !== ZERO) emitter.load(rd, pageOf(instruction.address, found));
    } else if (i === window.instructions.length - 1 && endsWindow(found)) {
      const refusal = emitLast(emitter, instruction, found, back, branch);
      return refusal ?? { kind: 'buffer', address, bytes: emitter.finish(), copiedOffset };
    } else emitter.code(instruction.bytes);
  }
  const refusal = emitter.jump(window.address + BigInt(window.bytes.length), back);
  return refusal ?? { kind: 'buffer', address, bytes: emitter.finish(), copiedOffset };
}

/** A branch, jump, call or return that ends a window, for its new place. */
function emitLast(
  emitter: Emitter,
  instruction: ProbeInstruction,
  found: Found,
  back: number | null,
  branch: number | null,
): ProbeRefusal | null {
  const { mnemonic } = found.base.row;
  const next = nextOf(instruction);
  const target = wrap(instruction.address + BigInt(operand(found, 'off')));
  const [rd, rs1, rs2, imm] = ['rd', 'rs1', 'rs2', 'imm'].map((name) => operand(found, name)) as [
    number,
    number,
    number,
    number,
  ];
  if (BRANCHES.has(mnemonic)) {
    const on = jumpWords(emitter.here + 4n, next, back);
    if ('kind' in on) return on;
    emitter.emit(mnemonic, { rs1, rs2, off: 4 + 4 * on.length });
    for (const word of on) emitter.code(wordBytes(word, 'little'));
    return emitter.jump(target, branch);
  }
  if (mnemonic === 'jal') {
    if (rd === RA) emitter.load(RA, next);
    return emitter.jump(target, branch);
  }
  if (rd === ZERO) {
    emitter.emit('jalr', { rd, rs1, imm });
    return null;
  }
  // ra is what changes: where the target is in it, t1 is lent, which callees do not read.
  const through = rs1 === RA ? T1 : rs1;
  if (through !== rs1) emitter.emit('addi', { rd: through, rs1, imm });
  emitter.load(RA, next);
  emitter.emit('jalr', { rd: ZERO, rs1: through, imm: through === rs1 ? imm : 0 });
  return null;
}

// -------------------------------------------------------------------------------------------------------- changes of text

const store = (address: Address, bytes: Uint8Array): TextStep => ({ kind: 'store', address, bytes });
const SYNC: TextStep = { kind: 'sync' };

const breakpoint = (original: Uint8Array): Uint8Array => (original.length === 2 ? C_EBREAK : EBREAK).slice();

/** Whether the breakpoint is a word that one store exchanges. */
const isWord = ({ address, instructions }: JumpWindow): boolean =>
  instructions[0]?.bytes.length === 4 && address % 4n === 0n;

const isLong = ({ instructions }: JumpWindow): boolean => instructions[0]?.bytes.length === 4;

function optimize(window: JumpWindow, buffer: Address): readonly TextStep[] {
  const { address } = window;
  const bytes = jump(window, buffer);
  if (isWord(window)) {
    const tail = bytes.length > 4 ? [store(address + 4n, bytes.slice(4)), SYNC] : [];
    return [...tail, store(address, bytes.slice(0, 4)), SYNC];
  }
  // A breakpoint of four bytes that no store exchanges becomes one of two first, so that its second half is nobody's.
  const guard = isLong(window) ? [store(address, C_EBREAK.slice()), SYNC] : [];
  return [...guard, store(address + 2n, bytes.slice(2)), SYNC, store(address, bytes.slice(0, 2)), SYNC];
}

function undo(window: JumpWindow): readonly TextStep[] {
  const { address, bytes } = window;
  if (isWord(window)) {
    const tail = bytes.length > 4 ? [store(address + 4n, bytes.slice(4)), SYNC] : [];
    return [store(address, EBREAK.slice()), SYNC, ...tail];
  }
  const guard = [store(address, C_EBREAK.slice()), SYNC];
  if (!isLong(window)) return [...guard, store(address + 2n, bytes.slice(2)), SYNC];
  const rest = concatBytes([EBREAK.slice(2), bytes.slice(4)]);
  return [...guard, store(address + 2n, rest), SYNC, store(address, EBREAK.slice(0, 2)), SYNC];
}

export const riscvProbes: ProbeSupport = {
  kind: 'kprobes',
  abi: riscvProbeAbi,
  kernelTables: [
    { section: '__ex_table', entryBytes: 12, lengthAt: null, what: 'an exception table entry' },
    { section: '__jump_table', entryBytes: 16, lengthAt: null, what: 'a jump label' },
    { section: '__bug_table', entryBytes: 12, lengthAt: null, what: 'a bug table entry' },
  ],
  trapDelta: 0,
  breakpoint,
  adjust: (_code, address) => address,
  decode,
  slots: {
    sizeBytes: SLOT_BYTES,
    alignBytes: 4,
    reach: EVERYWHERE,
    write: writeSlot,
    finish: (instruction) => nextOf(instruction),
  },
  simulate,
  optimization: {
    kind: 'jump',
    maxBytes: MAX_WINDOW,
    alignBytes: 8,
    callees: ['elftrace_probe_hit'],
    needsQuiescence: true,
    windows,
    build,
    jump,
    optimize,
    undo,
  },
};
