/**
 * Probes of arm64: which instructions can be probed, how they are executed elsewhere, and the branch that takes the place of a breakpoint.
 *
 * What a patcher must know:
 *
 * - Every instruction is one aligned word, so nothing is cut in two and no neighbour moves. The breakpoint is `brk #4` = d4200080; a second one,
 *   `brk #6` = d42000c0, stands behind copies that cannot go back by themselves. The trap leaves the address of the brk.
 * - brk <-> b is in the class of words that may be exchanged while others execute them (B, BL, NOP, BRK, ISB, SVC, …); anything else -> brk is not. So a
 *   probe is a breakpoint first, and a branch only later: that change needs no wait.
 * - What knows its own place: branches, adr, adrp, loads and prefetches from literals. Everything else does the same in a slot:
 *
 *       slot:  f94009e0      ldr x0, [x15, #16]      a copy
 *              14......      b address+4             back, without a second trap; else brk #6
 *
 *   The others are simulated on the trapped registers. In a buffer they are written for their new place, with no register but their own:
 *
 *       b.eq T      b.eq +8; b next; b T             bl T       x30 := next (four words); b T
 *       adr x1, T   x1 := T (four words)             ldr x1, T  x1 := T; ldr x1, [x1]
 *
 * - A `b` reaches 128 MiB, and takes the place of one instruction: nobody has to be away from anything. Only a buffer must not be used again
 *   while someone is in it.
 *
 *       f:  91000400  add x0, x0, #1                 f:  14......  b buffer
 *
 *       buffer: sub sp, #336; x0..x30, sp, pc, nzcv into struct pt_regs
 *               x0 = object, x1 = registers; blr callback; everything back but x18
 *               add x0, x0, #1                       the copy
 *               b f+4
 *               addresses of object, callback and probe
 *
 * - Under branch target identification an indirect branch may land on brk, which raises its own exception, and not on b: a landing pad
 *   (bti, paciasp, pacibsp) stays a breakpoint. The buffer itself is entered by b, which asks for none.
 * - Between a load-exclusive and its store-exclusive no handler may run: the exception clears the reservation, and the loop would never end.
 * - There is no red zone: what lies below sp belongs to nobody.
 *
 * Sources: Arm Architecture Reference Manual for A-profile, B2.2.5, C4.1, C6, D1 (exceptions), D8 (BTI); AAPCS64; struct pt_regs of Linux for arm64.
 */
import { type Reach, reaches, signExtend32 } from '../bits.js';
import { ByteView, concatBytes, wordBytes } from '../bytes.js';
import { hex } from '../errors.js';
import type { Decoded, Operands } from '../isa/table.js';
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
import type { Address } from '../units.js';
import { type Arm64Mnemonic, arm64Table, BRANCH_REACH, encodeB, NOP } from './isa.js';

const BRK_PROBE = arm64Table.encode('brk', { imm16: 4 });
const BRK_STEP = arm64Table.encode('brk', { imm16: 6 });

const SLOT_BYTES = 8;
const BUFFER_ALIGN = 16;
/** Copies know no place: a slot may be anywhere in 48 bits of addresses. */
const ANYWHERE: Reach = { min: -0x1_0000_0000_0000n, max: 0x1_0000_0000_0000n, alignBytes: 4 };
/** K-ADDR-5: how far back a load-exclusive is looked for. */
const EXCLUSIVE_WORDS = 16;

const LR = 30;
const SP = 31;
const ZR = 31;

const wrap = (value: bigint): bigint => BigInt.asUintN(64, value);
const words = (values: readonly number[]): Uint8Array => concatBytes(values.map((value) => wordBytes(value, 'little')));
const encode = (mnemonic: Arm64Mnemonic, operands: Operands): number => arm64Table.encode(mnemonic, operands);

// -------------------------------------------------------------------------------------------------------- register frame

/** struct pt_regs of the kernels with REGS entries (40-arm64 section 6.1). */
const FRAME_BYTES = 336;
const AT_SP = 248;
const AT_PC = 256;
const AT_PSTATE = 264;

function probeAbi(): ProbeAbi {
  const registers = new Map<string, ProbeRegister>();
  for (let i = 0; i <= LR; i++) registers.set(`x${i}`, { machine: `x${i}`, frameOffset: 8 * i, bytes: 8 });
  registers.set('lr', { machine: 'x30', frameOffset: 8 * LR, bytes: 8 });
  registers.set('sp', { machine: 'sp', frameOffset: AT_SP, bytes: 8 });
  registers.set('pc', { machine: 'pc', frameOffset: AT_PC, bytes: 8 });
  // The flags; the other bits are zero in user mode.
  registers.set('pstate', { machine: 'nzcv', frameOffset: AT_PSTATE, bytes: 8 });
  return {
    registers,
    arguments: ['x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7'],
    stackArgumentOffset: 0,
    result: 'x0',
    stackPointer: 'sp',
    instructionPointer: 'pc',
    frameBytes: FRAME_BYTES,
  };
}

// --------------------------------------------------------------------------------------------------------- instructions

const LOAD_EXCLUSIVE = /^lda?x[rp]/;
const STORE_EXCLUSIVE = /^stl?x[rp]/;

/** Rows that know their own address, or write it, and what they do is easily done without them. */
const SIMULATED: ReadonlySet<string> = new Set([
  'b', 'bl', 'b-cond', 'cbz', 'cbnz', 'tbz', 'tbnz', 'br', 'blr', 'ret', 'adr', 'adrp',
  'ldr-w-lit', 'ldr-x-lit', 'ldrsw-lit', 'prfm-lit', 'ldr-fs-lit', 'ldr-fd-lit', 'ldr-fq-lit',
]); // prettier-ignore

const CONDITIONAL: ReadonlySet<string> = new Set(['b-cond', 'cbz', 'cbnz', 'tbz', 'tbnz']);
/** Register of a loaded literal, bytes of it. */
const LITERALS: Readonly<Record<string, { readonly field: string; readonly bytes: number }>> = {
  'ldr-w-lit': { field: 'wt', bytes: 4 },
  'ldr-x-lit': { field: 'xt', bytes: 8 },
  'ldrsw-lit': { field: 'xt', bytes: 4 },
  'ldr-fs-lit': { field: 'st', bytes: 4 },
  'ldr-fd-lit': { field: 'dt', bytes: 8 },
  'ldr-fq-lit': { field: 'qt', bytes: 16 },
};

/** Hints that wait, or are for debuggers and profilers of other machines' time: what they do is not what a copy does at another time. */
const WAITING: ReadonlySet<string> = new Set(['yield', 'wfe', 'wfi', 'sev', 'sevl', 'esb', 'psb', 'hint']);
const MRS_DAIF = 0x5a11;

/** Where indirect branches of guarded code may land. */
const isLandingPad = (mnemonic: string): boolean => mnemonic === 'bti' || /^paci[ab]sp$/.test(mnemonic);

/** Why a row cannot be probed wherever it stands; null: it can. */
function unprobableRow({ row, operands }: Decoded): readonly [code: ProbeRefusalCode, why: string] | null {
  const { mnemonic, flow } = row;
  if (flow === 'trap') return ['trap', 'is a trap of its own'];
  if (flow === 'syscall') return ['system', 'enters the kernel'];
  if (mnemonic === 'hvc' || mnemonic === 'smc') return ['virtualisation', 'enters the hypervisor or the monitor'];
  if (/^(eret|eretaa|eretab|drps)$/.test(mnemonic)) return ['privileged', 'returns from an exception'];
  if (mnemonic.startsWith('msr-')) return ['privileged', 'changes the state of the processor'];
  if (mnemonic === 'mrs' && operands['sysreg'] === MRS_DAIF) {
    return ['masks-interrupts', 'reads which exceptions are masked, and a handler masks them'];
  }
  if (WAITING.has(mnemonic)) return ['system', 'waits, or is no hint that a copy could give'];
  if (LOAD_EXCLUSIVE.test(mnemonic) || STORE_EXCLUSIVE.test(mnemonic)) {
    return ['exclusive-sequence', 'needs a reservation, which a trap clears'];
  }
  if (flow !== undefined && flow !== 'next' && !SIMULATED.has(mnemonic)) {
    return ['unsupported-instruction', 'branches to an authenticated address'];
  }
  return null;
}

const find = (bytes: Uint8Array, offset: number): Decoded | null =>
  offset < 0 || offset + 4 > bytes.length ? null : arm64Table.decode(new ByteView(bytes, 'little').u32(offset));

/** The instruction whose bytes a `ProbeInstruction` holds. */
function own(instruction: ProbeInstruction): { readonly decoded: Decoded; readonly word: number } {
  const decoded = find(instruction.bytes, 0);
  // Only decoded instructions become one.
  if (decoded === null) throw new RangeError('an instruction that was decoded does not decode');
  return { decoded, word: new ByteView(instruction.bytes, 'little').u32(0) };
}

function decode(code: ProbeCode, address: Address): ProbeInstruction | ProbeRefusal {
  const offset = Number(address - code.start);
  const where = `${code.name}+${hex(offset)}`;
  const no = (errno: ProbeErrno, reason: ProbeRefusalCode, rule: string, why: string): ProbeRefusal =>
    refuse(errno, reason, rule, `${where} ${why}`);
  if (address % 4n !== 0n) {
    return no('EINVAL', 'misaligned', 'K-ADDR-4', 'is not a multiple of 4: no instruction begins there');
  }
  if (offset < 0 || offset + 4 > code.bytes.length) {
    return no('EINVAL', 'not-a-boundary', 'K-ADDR-4', 'is outside the function');
  }
  const decoded = find(code.bytes, offset);
  if (decoded === null) return no('EINVAL', 'undecodable', 'K-ADDR-5', 'holds no instruction that is known');
  const { mnemonic } = decoded.row;
  const refused = unprobableRow(decoded);
  if (refused) return no('EINVAL', refused[0], 'K-ADDR-5', `holds ${mnemonic}, which ${refused[1]}`);
  if (code.hasException(address, address + 4n)) {
    return no('EINVAL', 'exception-table', 'K-ADDR-5', 'is named by an exception table');
  }
  const load = openExclusive(code.bytes, offset);
  if (load !== null) {
    const why = `lies behind the load-exclusive at +${hex(load)}, whose store has not come yet`;
    return no('EINVAL', 'exclusive-sequence', 'K-ADDR-5', why);
  }
  const method = SIMULATED.has(mnemonic) ? 'simulate' : 'copy';
  return {
    kind: 'instruction',
    address,
    bytes: code.bytes.slice(offset, offset + 4),
    mnemonic,
    method,
    boostable: method === 'copy',
  };
}

/** Offset of a load-exclusive before `offset` that no store-exclusive has closed; null: there is none near. */
function openExclusive(bytes: Uint8Array, offset: number): number | null {
  for (let at = offset - 4; at >= 0 && at >= offset - 4 * EXCLUSIVE_WORDS; at -= 4) {
    const mnemonic = find(bytes, at)?.row.mnemonic;
    if (mnemonic === undefined) continue;
    if (STORE_EXCLUSIVE.test(mnemonic)) return null;
    if (LOAD_EXCLUSIVE.test(mnemonic)) return at;
  }
  return null;
}

/**
 * The symbol of a function with a site that begins there means the site: the words in front of the toggling one are ftrace's, and a probe of the function
 * is served by it (K-ADDR-7). `bti c` in front of two nops stays what it is: it can be probed.
 */
function adjust(code: ProbeCode, address: Address): Address {
  if (address !== code.start) return address;
  const site = code.siteAt(address);
  return site !== null && site.ip > address && site.ip - address <= 8n ? site.ip : address;
}

// --------------------------------------------------------------------------------------------------------------- slots

function writeSlot(instruction: ProbeInstruction, slot: Address, boost: boolean): SlotImage {
  const end = slot + 4n;
  const next = finish(instruction);
  if (boost && instruction.boostable && reaches(BRANCH_REACH, end, next)) {
    const bytes = concatBytes([instruction.bytes, words([encodeB(end, next)])]);
    return { kind: 'slot', bytes, end: { kind: 'jump' } };
  }
  const bytes = concatBytes([instruction.bytes, words([BRK_STEP])]);
  return { kind: 'slot', bytes, end: { kind: 'breakpoint', offset: 4 } };
}

const finish = (instruction: ProbeInstruction): Address => wrap(instruction.address + 4n);

// ---------------------------------------------------------------------------------------------------------- simulation

/** What the instruction names by distance: a target, an address, a literal. */
function named(instruction: ProbeInstruction, { pages, off }: Operands): Address {
  if (pages !== undefined) return wrap((instruction.address & ~0xfffn) + BigInt(pages) * 0x1000n);
  return wrap(instruction.address + BigInt(off ?? 0));
}

/** Reads x0 to x30; number 31 is zero where branches and compares are concerned. */
const read = (cpu: ProbeCpu, number: number): bigint => (number === ZR ? 0n : cpu.register(`x${number}`));

function write(cpu: ProbeCpu, number: number, value: bigint): void {
  if (number !== ZR) cpu.setRegister(`x${number}`, wrap(value));
}

/** ConditionHolds of the manual. */
function holds(cond: number, nzcv: bigint): boolean {
  const flag = (bit: bigint): boolean => ((nzcv >> bit) & 1n) === 1n;
  const [n, z, c, v] = [flag(31n), flag(30n), flag(29n), flag(28n)];
  const plain = [z, c, n, v, c && !z, n === v, n === v && !z, true][cond >> 1]!;
  return cond !== 15 && (cond & 1) === 1 ? !plain : plain;
}

function isTaken(mnemonic: string, operands: Operands, cpu: ProbeCpu): boolean {
  const { cond = 0, bit = 0, rt = ZR, sf = 0 } = operands;
  if (mnemonic === 'b-cond') return holds(cond, cpu.register('nzcv'));
  const value = read(cpu, rt);
  if (mnemonic === 'tbz' || mnemonic === 'tbnz') {
    return ((value >> BigInt(bit)) & 1n) === (mnemonic === 'tbnz' ? 1n : 0n);
  }
  return ((sf === 1 ? value : value & 0xffff_ffffn) === 0n) === (mnemonic === 'cbz');
}

function simulate(instruction: ProbeInstruction, cpu: ProbeCpu): SimulationResult {
  const { row, operands } = own(instruction).decoded;
  const { mnemonic } = row;
  const next = finish(instruction);
  const literal = LITERALS[mnemonic];
  if (literal !== undefined) {
    const address = named(instruction, operands);
    const bytes = cpu.read(address, literal.bytes);
    if (bytes === null) return { kind: 'fault', address, access: 'read' };
    const view = new ByteView(bytes, 'little');
    const number = operands[literal.field] ?? ZR;
    const low = literal.bytes === 4 ? BigInt(view.u32(0)) : view.u64(0);
    // The rest of a vector register is cleared, as that of a general one is.
    if (mnemonic.startsWith('ldr-f')) {
      cpu.setRegister(`v${number}`, literal.bytes === 16 ? low | (view.u64(8) << 64n) : low);
    } else write(cpu, number, mnemonic === 'ldrsw-lit' ? BigInt(signExtend32(Number(low), 32)) : low);
    return { kind: 'next', pc: next };
  }
  switch (mnemonic) {
    case 'adr':
    case 'adrp':
      write(cpu, operands['xd'] ?? ZR, named(instruction, operands));
      return { kind: 'next', pc: next };
    case 'b':
      return { kind: 'next', pc: named(instruction, operands) };
    case 'bl':
      write(cpu, LR, next);
      return { kind: 'next', pc: named(instruction, operands) };
    case 'br':
    case 'ret':
      return { kind: 'next', pc: read(cpu, operands['xn'] ?? ZR) };
    case 'blr': {
      // Read before x30 changes: blr x30 leads to the old one.
      const target = read(cpu, operands['xn'] ?? ZR);
      write(cpu, LR, next);
      return { kind: 'next', pc: target };
    }
    default:
      // prfm has no effect that could be seen; conditional branches are what is left.
      return {
        kind: 'next',
        pc: CONDITIONAL.has(mnemonic) && isTaken(mnemonic, operands, cpu) ? named(instruction, operands) : next,
      };
  }
}

// ---------------------------------------------------------------------------------------------------------------- jump

/** `register` := value: movz and three movk, whatever the value. */
function load(register: number, value: bigint): number[] {
  const half = (hw: number): Operands => ({
    sf: 1,
    hw,
    imm16: Number((value >> BigInt(16 * hw)) & 0xffffn),
    rd: register,
  });
  return [encode('movz', half(0)), encode('movk', half(1)), encode('movk', half(2)), encode('movk', half(3))];
}

const pair = (mnemonic: 'stp-x-off' | 'ldp-x-off', first: number): number =>
  encode(mnemonic, { xt: first, xt2: first + 1, base: SP, pairimm: 8 * first });
const store = (register: number, at: number): number => encode('str-x-imm', { xt: register, base: SP, pimm: at });
const reload = (register: number, at: number): number => encode('ldr-x-imm', { xt: register, base: SP, pimm: at });
const addSp = (rd: number, bytes: number): number =>
  encode('add-imm', { sf: 1, sh: 0, imm12: bytes, rnsp: SP, rdsp: rd });

const NZCV = 0x5a10;

/** Saves, calls, restores. `literals`: distance from the buffer's start to {object, callback, address of the probe}. */
function template(literals: number): number[] {
  const made: number[] = [];
  const put = (...more: readonly number[]): void => {
    made.push(...more);
  };
  const literal = (register: number, index: number): number =>
    encode('ldr-x-lit', { xt: register, off: literals + 8 * index - 4 * made.length });
  put(encode('sub-imm', { sf: 1, sh: 0, imm12: FRAME_BYTES, rnsp: SP, rdsp: SP }));
  for (let i = 0; i < LR; i += 2) put(pair('stp-x-off', i));
  put(store(LR, 8 * LR));
  put(addSp(0, FRAME_BYTES), store(0, AT_SP));
  put(literal(0, 2));
  put(store(0, AT_PC));
  put(encode('mrs', { sysreg: NZCV, xt: 0 }), store(0, AT_PSTATE));
  put(literal(0, 0));
  put(addSp(1, 0));
  put(literal(9, 1));
  put(encode('blr', { xn: 9 }));
  put(reload(0, AT_PSTATE), encode('msr-reg', { sysreg: NZCV, xt: 0 }));
  for (let i = 0; i < 18; i += 2) put(pair('ldp-x-off', i));
  // x18 stays: a shadow stack has moved with the call and back, and a value of somebody else's is not ours to put back.
  put(reload(19, 8 * 19));
  for (let i = 20; i < 30; i += 2) put(pair('ldp-x-off', i));
  put(reload(LR, 8 * LR));
  put(addSp(SP, FRAME_BYTES));
  return made;
}

const HEAD_WORDS = template(0).length;
/** The longest instruction with its way on: a literal's address, its load, the branch. */
const TAIL_WORDS = 6;
const LITERAL_BYTES = 24;
const BUFFER_BYTES = Math.ceil((4 * (HEAD_WORDS + TAIL_WORDS) + 4 + LITERAL_BYTES) / BUFFER_ALIGN) * BUFFER_ALIGN;

/** The instruction for another place and the way on, as words; null: something is out of reach. */
function tail(instruction: ProbeInstruction, start: Address): readonly number[] | ProbeRefusal | null {
  const { decoded, word } = own(instruction);
  const { mnemonic } = decoded.row;
  const { operands } = decoded;
  const next = finish(instruction);
  const target = named(instruction, operands);
  /** Words, then `b`s to places. */
  const then = (before: readonly number[], ...places: readonly Address[]): readonly number[] | null => {
    const out = [...before];
    for (const place of places) {
      const from = start + BigInt(4 * out.length);
      if (!reaches(BRANCH_REACH, from, place)) return null;
      out.push(encodeB(from, place));
    }
    return out;
  };
  if (instruction.method === 'copy') return then([word], next);
  if (CONDITIONAL.has(mnemonic)) {
    return then([arm64Table.encode(mnemonic, { ...operands, off: 8 })], next, target);
  }
  switch (mnemonic) {
    case 'b':
      return then([], target);
    case 'bl':
      return then(load(LR, next), target);
    case 'br':
    case 'ret':
      return [word];
    case 'blr': {
      const xn = operands['xn'] ?? ZR;
      if (xn !== LR) return [...load(LR, next), encode('br', { xn })];
      const why = 'blr x30 needs the old and the new x30 at once, and no other register is free';
      return refuse('EILSEQ', 'no-free-register', '50-kprobes 10', why);
    }
    case 'adr':
    case 'adrp':
      return then((operands['xd'] ?? ZR) === ZR ? [NOP] : load(operands['xd']!, target), next);
    case 'prfm-lit':
      return then([NOP], next);
    default:
      return literalTail(mnemonic, operands, target, (before) => then(before, next));
  }
}

/** A load from a literal: its register takes the address first. */
function literalTail(
  mnemonic: string,
  operands: Operands,
  target: Address,
  then: (before: readonly number[]) => readonly number[] | null,
): readonly number[] | ProbeRefusal | null {
  const register = operands[LITERALS[mnemonic]?.field ?? ''] ?? ZR;
  const loads = { 'ldr-w-lit': 'ldr-w-imm', 'ldr-x-lit': 'ldr-x-imm', 'ldrsw-lit': 'ldrsw-imm' } as const;
  const general = Object.entries(loads).find(([name]) => name === mnemonic)?.[1];
  if (general === undefined || register === ZR) {
    const why = `${mnemonic} has no general register that could take the address of its literal`;
    return refuse('EILSEQ', 'no-free-register', '50-kprobes 10', why);
  }
  const field = general === 'ldr-w-imm' ? 'wt' : 'xt';
  return then([...load(register, target), encode(general, { [field]: register, base: register, pimm: 0 })]);
}

function windows(code: ProbeCode, address: Address): readonly JumpWindow[] | ProbeRefusal {
  const instruction = decode(code, address);
  if (instruction.kind === 'refused') return instruction;
  const where = `${code.name}+${hex(address - code.start)}`;
  const no = (reason: ProbeRefusalCode, why: string): ProbeRefusal =>
    refuse('EILSEQ', reason, '50-kprobes 10', `${where} ${why}`);
  if (code.isEntryText) return no('entry-text', 'is entry code: sp and x18 may be anybody’s there');
  if (isLandingPad(instruction.mnemonic)) {
    return no(
      'arch-refused',
      `is a landing pad (${instruction.mnemonic}): an indirect branch may land on brk and not on b`,
    );
  }
  // Whether there is a way on at all does not depend on the place.
  const way = tail(instruction, address);
  if (way !== null && 'kind' in way) return way;
  return [
    {
      kind: 'window',
      form: 'b',
      address,
      instructions: [instruction],
      bytes: instruction.bytes,
      jumpBytes: 4,
      reach: BRANCH_REACH,
      bufferBytes: BUFFER_BYTES,
    },
  ];
}

function build(window: JumpWindow, request: BufferRequest): DetourBuffer | ProbeRefusal {
  const { address } = request;
  const far = (what: string): ProbeRefusal =>
    refuse('ERANGE', 'out-of-reach', '50-kprobes 10', `${what} is not within 128 MiB of the buffer at ${hex(address)}`);
  if (!reaches(BRANCH_REACH, window.address, address)) return far('the probe');
  const copied = 4 * HEAD_WORDS;
  const way = tail(window.instructions[0]!, address + BigInt(copied));
  if (way === null) return far('where the code goes on');
  if ('kind' in way) return way;
  const end = copied + 4 * way.length;
  // Literals are aligned, so that one access reads each.
  const literals = end + ((Number(address % 8n) + end) % 8);
  const head = template(literals);
  const values = new ByteView(new Uint8Array(literals - end + LITERAL_BYTES), 'little');
  [request.op, request.callees[0] ?? 0n, window.address].forEach((value, i) => {
    values.insertU64(literals - end + 8 * i, wrap(value));
  });
  return {
    kind: 'buffer',
    address,
    bytes: concatBytes([words(head), words(way), values.bytes]),
    copiedOffset: copied,
  };
}

const jump = (window: JumpWindow, buffer: Address): Uint8Array => words([encodeB(window.address, buffer)]);

const stored = (address: Address, bytes: Uint8Array): readonly TextStep[] => [
  { kind: 'store', address, bytes },
  { kind: 'sync' },
];

export const arm64Probes: ProbeSupport = {
  kind: 'kprobes',
  abi: probeAbi(),
  kernelTables: [
    { section: '__ex_table', entryBytes: 12, lengthAt: null, what: 'an exception table entry' },
    { section: '__jump_table', entryBytes: 16, lengthAt: null, what: 'a jump label' },
    { section: '__bug_table', entryBytes: 12, lengthAt: null, what: 'a bug table entry' },
    // Distance, distance, capability, two lengths.
    { section: '.altinstructions', entryBytes: 12, lengthAt: 10, what: 'an alternative' },
  ],
  trapDelta: 0,
  breakpoint: () => words([BRK_PROBE]),
  adjust,
  decode,
  slots: { sizeBytes: SLOT_BYTES, alignBytes: SLOT_BYTES, reach: ANYWHERE, write: writeSlot, finish },
  simulate,
  optimization: {
    kind: 'jump',
    maxBytes: 4,
    alignBytes: BUFFER_ALIGN,
    callees: ['elftrace_probe_entry'],
    needsQuiescence: false,
    windows,
    build,
    jump,
    optimize: (window, buffer) => stored(window.address, jump(window, buffer)),
    undo: (window) => stored(window.address, words([BRK_PROBE])),
  },
};
