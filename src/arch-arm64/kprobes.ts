/**
 * Probes of arm64: which instructions can be probed, how they are executed elsewhere, and the
 * branch that takes the place of a breakpoint.
 *
 * What a patcher must know:
 *
 * - Every instruction is one aligned word. The breakpoint is `brk #4` = d4200080, a trap behind a
 *   copy `brk #6` = d42000c0; both leave their own address. brk and b may be exchanged under
 *   running processors (Arm ARM, B2.2.5), an arbitrary word and b may not: so the breakpoint comes
 *   first, and the jump after it.
 * - What knows its place: branches, adr and adrp, loads of literals. They are simulated on the
 *   trapped registers; in a buffer their numbers are literals. Everything else does the same in a
 *   slot:
 *
 *       slot:  f9400421      ldr x1,[x1,#8]     a copy
 *              14......      b address+4        back, if within 128 MiB; else brk #6, and its
 *                                               handler goes on
 *
 * - Between a load-exclusive and its store-exclusive no handler may run: the exception clears the
 *   monitor, and the loop never ends. Kernels look at most 16 instructions back for a
 *   load-exclusive that is not closed.
 * - A `bti` or `paciasp` that indirect branches come to may be a brk, but not a b: landing pads
 *   stay breakpoints. The b to the buffer needs none.
 * - x18 belongs to the platform (shadow call stack): the buffer saves it for handlers and does not
 *   load it back.
 *
 *       buffer:  sub sp,sp,#352                 struct pt_regs and a frame record
 *                x0..x30, sp, pc, nzcv; x0 = object, x1 = registers; blr callback; everything back
 *                ldr x1,[x1,#8]                 the copy. Of bl: x30 = address+4; of adrp,
 *                                               literals: the number
 *                b address+4                    of b, bl: b target; of blr: ret through its
 *                                               register, which says nothing in BTYPE
 *
 * Sources: Arm ARM for A-profile B2.2.5, C6, D8.4.2; AAPCS64; struct pt_regs of the Linux user API
 * for arm64 (A-ENT-7).
 */
import { type Reach, reaches } from '../bits.js';
import { ByteView, concatBytes, wordBytes } from '../bytes.js';
import { hex } from '../errors.js';
import type { Decoded, Operands } from '../isa/table.js';
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
  type ProbeRefusalCode,
  type ProbeRegister,
  type ProbeSupport,
  refuse,
  type SimulationResult,
  type SlotImage,
  type TextStep,
} from '../machine/probes.js';
import type { Address } from '../units.js';
import { arm64Table, BRANCH_REACH, encodeB, isBti } from './isa.js';
import { conditionHolds } from './conditions.js';

const BRK_KPROBE = arm64Table.encode('brk', { imm16: 4 });
const BRK_STEP = arm64Table.encode('brk', { imm16: 6 });
const SLOT_BYTES = 8;
const ANYWHERE: Reach = { min: -0x1_0000_0000n, max: 0x1_0000_0000n, alignBytes: 4 };
/** K-ADDR-5. */
const EXCLUSIVE_WORDS = 16;
const RULE = 'K-A64-1';
const ZERO = 31;

const wrap = (value: bigint): bigint => BigInt.asUintN(64, value);
const word = (value: number): Uint8Array => wordBytes(value, 'little');

// ---------------------------------------------------------------------------------- register frame

const PT_REGS_BYTES = 336;
const FRAME_BYTES = PT_REGS_BYTES + 16;
const LR = 240;
const PC = 256;
const PSTATE = 264;
const SYSCALL = 280;

function registers(): ReadonlyMap<string, ProbeRegister> {
  const found = new Map<string, ProbeRegister>();
  const add = (name: string, machine: string, frameOffset: number): void => {
    found.set(name, { machine, frameOffset, bytes: 8 });
  };
  for (let n = 0; n < 31; n++) add(`x${n}`, `x${n}`, 8 * n);
  add('lr', 'x30', LR);
  add('sp', 'sp', 248);
  add('pc', 'pc', PC);
  // What a program sees of it.
  add('pstate', 'nzcv', PSTATE);
  return found;
}

const arm64ProbeAbi: ProbeAbi = {
  registers: registers(),
  arguments: ['x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7'],
  stackArgumentOffset: 0,
  result: 'x0',
  stackPointer: 'sp',
  instructionPointer: 'pc',
  threadKey: (cpu) => cpu.register('tpidr_el0'),
  frameBytes: PT_REGS_BYTES,
};

// ------------------------------------------------------------------------------------ instructions

const SIMULATED: ReadonlySet<string> = new Set([
  'b', 'bl', 'b-cond', 'cbz', 'cbnz', 'tbz', 'tbnz', 'br', 'blr', 'ret', 'adr', 'adrp', 'ldr-w-lit', 'ldr-x-lit', 'ldrsw-lit', 'prfm-lit',
]); // prettier-ignore
/** Rows of a conditional branch. */
const CONDITIONAL: ReadonlySet<string> = new Set(['b-cond', 'cbz', 'cbnz', 'tbz', 'tbnz']);

/** K-ADDR-5, by row; the reasons are put together below. */
const EXCEPTION: ReadonlySet<string> = new Set(['svc', 'hvc', 'smc']);
const WAITING: ReadonlySet<string> = new Set(['wfe', 'wfi']);
const PRIVILEGED: ReadonlySet<string> = new Set(['eret', 'eretaa', 'eretab', 'drps']);
/**
 * Branches with pointer authentication: what they check depends on registers only, but where they
 * go is not known to a simulation.
 */
const AUTHENTICATED = /^(braaz|brabz|blraaz|blrabz|braa|brab|blraa|blrab|retaa|retab)$/;
/** Literals of the vector registers, which handlers do not see. */
const VECTOR_LITERAL = /^ldr-f[sdq]-lit$/;
const LOAD_EXCLUSIVE = /^lda?x[rp]/;
const STORE_EXCLUSIVE = /^stl?x[rp]/;

function decodeAt(code: ProbeCode, offset: number): Decoded | null {
  if (offset < 0 || offset + 4 > code.bytes.length) return null;
  return arm64Table.decode(new ByteView(code.bytes, 'little', 'code').u32(offset));
}

function decode(code: ProbeCode, address: Address): ProbeInstruction | ProbeRefusal {
  const offset = Number(address - code.start);
  const where = `${code.name}+${hex(offset)}`;
  if (address % 4n !== 0n) {
    return refuse('EINVAL', 'misaligned', 'K-ADDR-4', `${where} is not a multiple of 4: no instruction begins there`);
  }
  if (offset < 0 || offset + 4 > code.bytes.length) {
    return refuse('EINVAL', 'not-a-boundary', 'K-ADDR-4', `${where} is outside the function`);
  }
  const decoded = decodeAt(code, offset);
  if (decoded === null) return refuse('EINVAL', 'undecodable', 'K-ADDR-5', `no instruction that is known at ${where}`);
  const { mnemonic } = decoded.row;
  if (code.hasException(address, address + 4n)) {
    return refuse('EINVAL', 'exception-table', 'K-ADDR-5', `an exception table names ${where}`);
  }
  const found = unprobable(decoded) ?? exclusive(code, offset);
  if (found !== null) return refuse('EINVAL', found.code, 'K-ADDR-5', `${mnemonic} at ${where} ${found.why}`);
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

/**
 * K-ADDR-1: the symbol of a function with a site at its beginning means the site. The words in
 * front of the one that toggles are ftrace's, and a probe of the function is served by it
 * (K-ADDR-7); a landing pad in front of two nops is no part of the site and stays what it is.
 */
function adjust(code: ProbeCode, address: Address): Address {
  if (address !== code.start) return address;
  const site = code.siteAt(address);
  return site !== null && site.ip > address && site.ip - address <= 8n ? site.ip : address;
}

/**
 * bl behind `[bti c]; mov x9,x30` (or behind the nop that becomes it); a call behind the prologue
 * has nothing in front of it.
 */
function isSiteAtEntry(code: ProbeCode, address: Address): boolean {
  const site = code.siteAt(address);
  if (site?.ip !== address || site.start >= address) return false;
  const pad = code.bytes.length >= 4 && isBti(new ByteView(code.bytes, 'little', 'code').u32(0));
  return address === code.start + (pad ? 8n : 4n);
}

interface Reason {
  readonly code: ProbeRefusalCode;
  readonly why: string;
}

function unprobable({ row }: Decoded): Reason | null {
  const { mnemonic, flow } = row;
  if (flow === 'trap') return { code: 'trap', why: 'is a trap of its own' };
  if (EXCEPTION.has(mnemonic)) return { code: 'system', why: 'generates an exception' };
  if (PRIVILEGED.has(mnemonic)) return { code: 'privileged', why: 'returns from an exception' };
  if (mnemonic.startsWith('msr-')) return { code: 'privileged', why: 'changes the state that a trap is taken in' };
  if (WAITING.has(mnemonic)) return { code: 'system', why: 'waits for what a trap may be' };
  if (AUTHENTICATED.test(mnemonic)) {
    return { code: 'unsupported-instruction', why: 'leads where its keys say' };
  }
  if (VECTOR_LITERAL.test(mnemonic)) {
    return { code: 'unsupported-instruction', why: 'loads a register that handlers do not have' };
  }
  return null;
}

/** Per word its mnemonic; empty: nothing that is known. */
const namesOf = perFunction((code) =>
  Array.from({ length: code.bytes.length >> 2 }, (_, i) => decodeAt(code, 4 * i)?.row.mnemonic ?? ''),
);

function exclusive(code: ProbeCode, offset: number): Reason | null {
  const names = namesOf(code);
  const own = names[offset >> 2] ?? '';
  if (LOAD_EXCLUSIVE.test(own) || STORE_EXCLUSIVE.test(own)) {
    return { code: 'exclusive-sequence', why: 'is exclusive' };
  }
  for (let at = offset - 4; at >= 0 && at >= offset - 4 * EXCLUSIVE_WORDS; at -= 4) {
    const name = names[at >> 2] ?? '';
    if (STORE_EXCLUSIVE.test(name)) return null;
    if (LOAD_EXCLUSIVE.test(name)) {
      return { code: 'exclusive-sequence', why: `lies behind ${name} at +${hex(at)}, whose store has not come yet` };
    }
  }
  return null;
}

/** Row and operands of a `ProbeInstruction`. */
function own(instruction: ProbeInstruction): Decoded {
  const decoded = arm64Table.decode(new ByteView(instruction.bytes, 'little', 'instruction').u32(0));
  if (decoded === null) throw new RangeError('an instruction that was decoded does not decode');
  return decoded;
}

const nextOf = ({ address }: ProbeInstruction): Address => wrap(address + 4n);

// ------------------------------------------------------------------------------------------- slots

function writeSlot(instruction: ProbeInstruction, slot: Address, boost: boolean): SlotImage {
  const end = slot + 4n;
  const next = nextOf(instruction);
  if (boost && instruction.boostable && reaches(BRANCH_REACH, end, next)) {
    return { kind: 'slot', bytes: concatBytes([instruction.bytes, word(encodeB(end, next))]), end: { kind: 'jump' } };
  }
  return {
    kind: 'slot',
    bytes: concatBytes([instruction.bytes, word(BRK_STEP)]),
    end: { kind: 'breakpoint', offset: 4 },
  };
}

// -------------------------------------------------------------------------------------- simulation

/** What adr and adrp compute, and where literals and branches lead. */
function numberOf({ row, operands }: Decoded, address: Address): Address {
  const { off = 0, pages = 0 } = operands;
  if (row.mnemonic === 'adrp') return wrap((address & ~0xfffn) + BigInt(pages) * 4096n);
  return wrap(address + BigInt(off));
}

/** Bytes that a load of a literal reads; 0: it is none. */
function literalBytes(mnemonic: string): 0 | 4 | 8 {
  return mnemonic === 'ldr-x-lit' ? 8 : mnemonic === 'ldr-w-lit' || mnemonic === 'ldrsw-lit' ? 4 : 0;
}

function holds({ row, operands }: Decoded, read: (register: number) => bigint, cpu: ProbeCpu): boolean {
  const { cond = 0, rt = 0, sf = 1, bit = 0 } = operands;
  const value = sf === 1 ? read(rt) : BigInt.asUintN(32, read(rt));
  switch (row.mnemonic) {
    case 'cbz':
      return value === 0n;
    case 'cbnz':
      return value !== 0n;
    case 'tbz':
    case 'tbnz':
      return ((read(rt) >> BigInt(bit)) & 1n) === (row.mnemonic === 'tbnz' ? 1n : 0n);
    default:
      return conditionHolds(cond, Number((cpu.register('nzcv') >> 28n) & 15n));
  }
}

function simulate(instruction: ProbeInstruction, cpu: ProbeCpu): SimulationResult {
  const decoded = own(instruction);
  const { mnemonic } = decoded.row;
  const { xd = ZERO, xn = ZERO, xt, wt } = decoded.operands;
  const next = nextOf(instruction);
  const target = numberOf(decoded, instruction.address);
  const go = (pc: Address): SimulationResult => ({ kind: 'next', pc });
  const read = (register: number): bigint => (register === ZERO ? 0n : cpu.register(`x${register}`));
  const write = (register: number, value: bigint): void => {
    if (register !== ZERO) cpu.setRegister(`x${register}`, wrap(value));
  };
  if (CONDITIONAL.has(mnemonic)) return go(holds(decoded, read, cpu) ? target : next);
  const bytes = literalBytes(mnemonic);
  if (bytes !== 0) {
    const found = cpu.read(target, bytes);
    if (found === null) return { kind: 'fault', address: target, access: 'read' };
    const view = new ByteView(found, 'little', 'literal');
    const value = bytes === 8 ? view.u64(0) : BigInt(mnemonic === 'ldrsw-lit' ? view.i32(0) : view.u32(0));
    write(xt ?? wt ?? ZERO, value);
    return go(next);
  }
  switch (mnemonic) {
    case 'b':
      return go(target);
    case 'bl':
      cpu.setRegister('x30', next);
      return go(target);
    case 'br':
    case 'ret':
      return go(read(xn));
    case 'blr': {
      // Before x30 is written, which may be xn.
      const to = read(xn);
      cpu.setRegister('x30', next);
      return go(to);
    }
    case 'adr':
    case 'adrp':
      write(xd, target);
      return go(next);
    default:
      return go(next);
  }
}

// ------------------------------------------------------------------------------------------ buffer

/** 54 words, then at most 4 for the instruction and the way on, then four numbers. */
const BUFFER_BYTES = 272;
const SP = 31;
const LINK = 30;
/** The callback's address: linkers may change it at any call, so may we. */
const CALLEE = 16;
const NZCV = 0x5a10;

/** Code whose numbers of 64 bits lie behind it. */
class Assembly {
  private readonly words: number[] = [];
  private readonly literals: { readonly at: number; readonly register: number; readonly value: bigint }[] = [];

  constructor(readonly start: Address) {}

  get size(): number {
    return 4 * this.words.length;
  }

  get here(): Address {
    return this.start + BigInt(this.size);
  }

  put(...values: readonly number[]): void {
    this.words.push(...values);
  }

  add(mnemonic: string, operands: Operands): void {
    this.words.push(arm64Table.encode(mnemonic, operands));
  }

  /** ldr register,=value */
  literal(register: number, value: bigint): void {
    this.literals.push({ at: this.words.length, register, value });
    this.words.push(0);
  }

  /** A branch out of the buffer; false: out of reach. */
  leave(to: Address): boolean {
    if (!reaches(BRANCH_REACH, this.here, to)) return false;
    this.put(encodeB(this.here, to));
    return true;
  }

  finish(): Uint8Array {
    const numbers = (this.size + 7) & ~7;
    this.literals.forEach(({ at, register, value: _ }, i) => {
      this.words[at] = arm64Table.encode('ldr-x-lit', { xt: register, off: numbers + 8 * i - 4 * at });
    });
    const out = new Uint8Array(numbers + 8 * this.literals.length);
    const view = new DataView(out.buffer);
    for (const [i, value] of this.words.entries()) view.setUint32(4 * i, value, true);
    for (const [i, { value }] of this.literals.entries()) view.setBigUint64(numbers + 8 * i, wrap(value), true);
    return out;
  }
}

const stp = (xt: number, xt2: number, pairimm: number): [string, Operands] => [
  'stp-x-off',
  { xt, xt2, base: SP, pairimm },
];
const ldp = (xt: number, xt2: number, pairimm: number): [string, Operands] => [
  'ldp-x-off',
  { xt, xt2, base: SP, pairimm },
];

const encodeAll = (list: readonly (readonly [string, Operands])[]): readonly number[] =>
  list.map(([mnemonic, operands]) => arm64Table.encode(mnemonic, operands));
const pairs = (from: number): number[] => Array.from({ length: (30 - from) / 2 }, (_, i) => from + 2 * i);

const ENTER = encodeAll([
  ['sub-imm', { sf: 1, sh: 0, imm12: FRAME_BYTES, rnsp: SP, rdsp: SP }],
  ...pairs(0).map((n) => stp(n, n + 1, 8 * n)),
  ['add-imm', { sf: 1, sh: 0, imm12: FRAME_BYTES, rnsp: SP, rdsp: 0 }],
  stp(LINK, 0, LR),
]);
/** x0 holds the address of the probe. */
const NOTE = encodeAll([
  ['mrs', { sysreg: NZCV, xt: 1 }],
  stp(0, 1, PC),
  // The record of the probed code, for who walks the stack.
  stp(29, 0, PT_REGS_BYTES),
  ['add-imm', { sf: 1, sh: 0, imm12: PT_REGS_BYTES, rnsp: SP, rdsp: 29 }],
  // Not in a system call.
  ['movn', { sf: 1, hw: 0, imm16: 0, rd: 0 }],
  ['str-x-imm', { xt: 0, base: SP, pimm: SYSCALL }],
]);
const REGISTERS_IN_X1 = encodeAll([['add-imm', { sf: 1, sh: 0, imm12: 0, rnsp: SP, rdsp: 1 }]]);
const LEAVE = encodeAll([
  ['blr', { xn: CALLEE }],
  ['ldr-x-imm', { xt: 0, base: SP, pimm: PSTATE }],
  ['msr-reg', { sysreg: NZCV, xt: 0 }],
  // x18 belongs to the platform.
  ...pairs(2).map((n): [string, Operands] =>
    n === 18 ? ['ldr-x-imm', { xt: 19, base: SP, pimm: 8 * 19 }] : ldp(n, n + 1, 8 * n),
  ),
  ['ldr-x-imm', { xt: LINK, base: SP, pimm: LR }],
  ldp(0, 1, 0),
  ['add-imm', { sf: 1, sh: 0, imm12: FRAME_BYTES, rnsp: SP, rdsp: SP }],
]);

function template(out: Assembly, window: JumpWindow, { op, callees }: BufferRequest): void {
  out.put(...ENTER);
  out.literal(0, window.address);
  out.put(...NOTE);
  out.literal(0, op);
  out.put(...REGISTERS_IN_X1);
  out.literal(CALLEE, callees[0] ?? 0n);
  out.put(...LEAVE);
}

/** The instruction for this place, and the way on; false: out of reach. */
function goOn(out: Assembly, instruction: ProbeInstruction): boolean {
  const decoded = own(instruction);
  const { row, operands } = decoded;
  const { xd = ZERO, xt, wt } = operands;
  const next = nextOf(instruction);
  const target = numberOf(decoded, instruction.address);
  if (CONDITIONAL.has(row.mnemonic)) {
    // Over the way on.
    out.add(row.mnemonic, { ...operands, off: 8 });
    return out.leave(next) && out.leave(target);
  }
  switch (row.mnemonic) {
    case 'b':
      return out.leave(target);
    case 'bl':
      out.literal(LINK, next);
      return out.leave(target);
    case 'br':
    case 'ret':
      out.add(row.mnemonic, operands);
      return true;
    case 'blr':
      out.literal(LINK, next);
      // Not br, which says `jump` in BTYPE: a function's `bti c` would trap. ret says nothing and
      // lands everywhere.
      out.add('ret', operands);
      return true;
    case 'adr':
    case 'adrp':
      if (xd !== ZERO) out.literal(xd, target);
      return out.leave(next);
    case 'ldr-x-lit':
    case 'ldr-w-lit':
    case 'ldrsw-lit': {
      const register = xt ?? wt ?? ZERO;
      if (register === ZERO) return out.leave(next);
      out.literal(register, target);
      if (row.mnemonic === 'ldr-x-lit') out.add('ldr-x-imm', { xt: register, base: register, pimm: 0 });
      else if (row.mnemonic === 'ldr-w-lit') out.add('ldr-w-imm', { wt: register, base: register, pimm: 0 });
      else out.add('ldrsw-imm', { xt: register, base: register, pimm: 0 });
      return out.leave(next);
    }
    case 'prfm-lit':
      return out.leave(next);
    default:
      out.put(new ByteView(instruction.bytes, 'little', 'instruction').u32(0));
      return out.leave(next);
  }
}

function windows(code: ProbeCode, address: Address): readonly JumpWindow[] | ProbeRefusal {
  const instruction = decode(code, address);
  if (instruction.kind === 'refused') return instruction;
  const where = `${code.name}+${hex(address - code.start)}`;
  const { mnemonic, bytes } = instruction;
  const value = new ByteView(bytes, 'little', 'instruction').u32(0);
  if ((isBti(value) && value !== 0xd503_241f) || mnemonic === 'paciasp' || mnemonic === 'pacibsp') {
    return refuse(
      'EINVAL',
      'not-boostable',
      RULE,
      `${mnemonic} at ${where} is where indirect branches land: brk may stand there, b may not`,
    );
  }
  const { xn } = own(instruction).operands;
  if (mnemonic === 'blr' && xn === LINK) {
    return refuse(
      'EINVAL',
      'not-boostable',
      RULE,
      `${mnemonic} at ${where} goes through the register that it links in`,
    );
  }
  return [
    {
      kind: 'window',
      form: 'b',
      address,
      instructions: [instruction],
      bytes,
      jumpBytes: 4,
      reach: BRANCH_REACH,
      bufferBytes: BUFFER_BYTES,
    },
  ];
}

function build(window: JumpWindow, request: BufferRequest): DetourBuffer | ProbeRefusal {
  const { address } = request;
  const out = new Assembly(address);
  template(out, window, request);
  const copiedOffset = out.size;
  if (!reaches(BRANCH_REACH, window.address, address) || !goOn(out, window.instructions[0]!)) {
    return refuse(
      'ERANGE',
      'out-of-reach',
      RULE,
      `the buffer at ${hex(address)} is not within 128 MiB of where it belongs`,
    );
  }
  return { kind: 'buffer', address, bytes: out.finish(), copiedOffset };
}

const jump = (window: JumpWindow, buffer: Address): Uint8Array => word(encodeB(window.address, buffer));
const store = (address: Address, bytes: Uint8Array): TextStep => ({ kind: 'store', address, bytes });
const SYNC: TextStep = { kind: 'sync' };

export const arm64Probes: ProbeSupport = {
  kind: 'kprobes',
  abi: arm64ProbeAbi,
  trapDelta: 0,
  breakpoint: () => word(BRK_KPROBE),
  kernelsServeSites: false,
  adjust,
  decode,
  isSiteAtEntry,
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
    maxBytes: 4,
    alignBytes: 16,
    callees: ['elftrace_probe_hit'],
    calleeReach: null,
    needsQuiescence: false,
    windows,
    sweep: null,
    build,
    jump,
    optimize: (window, buffer) => [store(window.address, jump(window, buffer)), SYNC],
    undo: ({ address }) => [store(address, word(BRK_KPROBE)), SYNC],
  },
};
