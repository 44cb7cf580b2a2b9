/**
 * RISC-V instruction rows: RV64IMAC with Zicsr, Zifencei, Zicond, Zba, Zbb and Zbs, the
 * user-visible F and D sets, and the decoder over
 * them. Owns encodings, text and flow; what sites and relocations look like is next door.
 *
 * What a patcher must know of the ISA:
 *
 * - Code is a stream of little-endian 16-bit parcels. The low bits of the first parcel tell the
 *   length: not 11 -> 2 bytes; 11 with bits 4..2 not all ones -> 4 bytes; longer forms (6 bytes and
 *   up) are reserved, but their length is defined, so that a walk over unknown code stays in step.
 * - With the C extension (e_flags bit 0) every instruction, also a 4-byte one, may start at any
 *   multiple of 2. A 4-byte word may then straddle a cache line or a page and is not one atomic
 *   store (R-ENC-3).
 * - There is one long branch form: `auipc` (pc + a multiple of 4096) and `jalr` (a signed 12-bit
 *   rest). Because the rest is signed, the upper part is rounded: the reach is [-0x80000800,
 *   +0x7ffff7fe], not the symmetric 2 GiB. `jal` reaches 1 MiB, a conditional branch 4 KiB, `c.j` 2
 *   KiB, `c.beqz` 256 bytes; targets are even.
 * - `ra` (x1) and `t0` (x5) are the link registers that processors predict returns by. A call hook
 *   at a function's entry must not touch `ra`, so it links through `t0` and comes back with
 *   `jr t0`.
 * - `nop` is `addi zero,zero,0`; `c.nop` the same in 2 bytes. All zeros is defined to be illegal in
 *   either width.
 * - Code and data are both little-endian. Big-endian RISC-V exists on paper only and its code would
 *   be little-endian too.
 * - Storing code needs `fence.i` on every hart that will run it.
 *
 * Sources: The RISC-V Instruction Set Manual, Volume I (unprivileged, 20240411), chapters RV64I, M,
 * A, C, Zicsr, Zifencei, Zicond, B, F, D and the opcode maps; Volume II for privileged instructions
 * and the CSR list.
 */
import { hex } from '../errors.js';
import { IsaTable, row } from '../isa/table.js';
import type { Alias, Decoded, FieldSpec, Operands, RowAttributes } from '../isa/table.js';
import type { Flow, Instruction, Isa } from '../isa/instruction.js';
import type { Address } from '../units.js';

/** Integer registers by number, ABI names. */
export const REGISTER_NAMES = (
  'zero ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6' as const
).split(' ');
/** Floating point registers by number, ABI names. */
export const FLOAT_REGISTER_NAMES = (
  'ft0 ft1 ft2 ft3 ft4 ft5 ft6 ft7 fs0 fs1 fa0 fa1 fa2 fa3 fa4 fa5 fa6 fa7 fs2 fs3 fs4 fs5 fs6 fs7 fs8 fs9 fs10 fs11 ' +
  'ft8 ft9 ft10 ft11'
).split(' ');

/** Register numbers that code next door names. */
export const ZERO = 0;
export const RA = 1;
export const SP = 2;
export const T0 = 5;
export const T1 = 6;
export const S0 = 8;
export const A0 = 10;
export const T3 = 28;

// --------------------------------------------------------------------------------------- CSR names

const csrNames = new Map<number, string>();
/** `from` upwards get the names in turn; `-` leaves a number unnamed. */
function csrs(from: number, names: string): void {
  names.split(' ').forEach((name, i) => {
    if (name !== '-') csrNames.set(from + i, name);
  });
}
/** `prefix` first .. last `suffix` from number `from` on. */
function csrRange(from: number, prefix: string, first: number, last: number, suffix = ''): void {
  for (let i = first; i <= last; i++) csrNames.set(from + i - first, `${prefix}${i}${suffix}`);
}
csrs(0x001, 'fflags frm fcsr');
csrs(0x008, 'vstart vxsat vxrm - - - - vcsr');
csrs(0x015, 'seed');
csrs(0x100, 'sstatus - - - sie stvec scounteren - - - senvcfg');
csrRange(0x10c, 'sstateen', 0, 3);
csrs(0x114, 'sieh');
csrs(0x140, 'sscratch sepc scause stval sip');
csrs(0x14d, 'stimecmp - - siselect sireg - - siph - - - - - - - stopei stimecmph');
csrs(0x180, 'satp');
csrs(0x200, 'vsstatus - - - vsie vstvec');
csrs(0x214, 'vsieh');
csrs(0x240, 'vsscratch vsepc vscause vstval vsip');
csrs(0x24d, 'vstimecmp - - vsiselect vsireg - - vsiph - - - - - - - vstopei vstimecmph');
csrs(0x280, 'vsatp');
csrs(0x300, 'mstatus misa medeleg mideleg mie mtvec mcounteren - mvien mvip menvcfg');
csrRange(0x30c, 'mstateen', 0, 3);
csrs(0x310, 'mstatush - - midelegh mieh - - - mvienh mviph menvcfgh');
csrRange(0x31c, 'mstateen', 0, 3, 'h');
csrs(0x320, 'mcountinhibit');
csrRange(0x323, 'mhpmevent', 3, 31);
csrs(0x340, 'mscratch mepc mcause mtval mip - - - - - mtinst mtval2');
csrs(0x350, 'miselect mireg - - miph - - - - - - - mtopei');
csrRange(0x3a0, 'pmpcfg', 0, 15);
csrRange(0x3b0, 'pmpaddr', 0, 63);
csrs(0x5a8, 'scontext');
csrs(0x600, 'hstatus - hedeleg hideleg hie htimedelta hcounteren hgeie hvien hvictl henvcfg');
csrRange(0x60c, 'hstateen', 0, 3);
csrs(0x613, 'hidelegh - htimedeltah - - hvienh - henvcfgh');
csrRange(0x61c, 'hstateen', 0, 3, 'h');
csrs(0x643, 'htval hip hvip hviprio1 hviprio2 - - htinst');
csrs(0x655, 'hviph hviprio1h hviprio2h');
csrs(0x680, 'hgatp');
csrs(0x6a8, 'hcontext');
csrRange(0x723, 'mhpmevent', 3, 31, 'h');
csrs(0x747, 'mseccfg');
csrs(0x757, 'mseccfgh');
csrs(0x7a0, 'tselect tdata1 tdata2 tdata3 tinfo tcontrol - - mcontext - mscontext');
csrs(0x7b0, 'dcsr dpc dscratch0 dscratch1');
csrs(0xb00, 'mcycle - minstret');
csrRange(0xb03, 'mhpmcounter', 3, 31);
csrs(0xb80, 'mcycleh - minstreth');
csrRange(0xb83, 'mhpmcounter', 3, 31, 'h');
csrs(0xc00, 'cycle time instret');
csrRange(0xc03, 'hpmcounter', 3, 31);
csrs(0xc20, 'vl vtype vlenb');
csrs(0xc80, 'cycleh timeh instreth');
csrRange(0xc83, 'hpmcounter', 3, 31, 'h');
csrs(0xda0, 'scountovf');
csrs(0xdb0, 'stopi');
csrs(0xe12, 'hgeip');
csrs(0xeb0, 'vstopi');
csrs(0xf11, 'mvendorid marchid mimpid mhartid mconfigptr');
csrs(0xfb0, 'mtopi');

/** Name of a CSR number, or its number in hexadecimal. */
function csrName(csr: number): string {
  return csrNames.get(csr) ?? hex(csr);
}

// ------------------------------------------------------------------------------------------ fields

const ROUNDING = ['rne', 'rtz', 'rdn', 'rup', 'rmm', 'unknown', 'unknown', ''];

/** Which of i, o, r, w a fence orders; no bit set is reserved. */
function fenceSet(bits: number): string {
  if (bits === 0) return 'unknown';
  return 'iorw'
    .split('')
    .filter((_, i) => bits & (8 >> i))
    .join('');
}

/** Upper immediates are multiples of 4096 and printed without the twelve zero bits. */
const upperText = (value: number): string => hex((value >>> 12) & 0xf_ffff);

const integerRegister: FieldSpec = { kind: 'register', width: 5, names: REGISTER_NAMES };
const floatRegister: FieldSpec = { kind: 'register', width: 5, names: FLOAT_REGISTER_NAMES };
/** The three-bit register fields of compressed instructions: x8..x15, f8..f15. */
const shortRegister: FieldSpec = { kind: 'register', width: 3, bias: 8, names: REGISTER_NAMES };
const shortFloatRegister: FieldSpec = { kind: 'register', width: 3, bias: 8, names: FLOAT_REGISTER_NAMES };

const FIELDS = {
  rd: integerRegister,
  rs1: integerRegister,
  rs2: integerRegister,
  frd: floatRegister,
  frs1: floatRegister,
  frs2: floatRegister,
  frs3: floatRegister,
  rdc: shortRegister,
  rs1c: shortRegister,
  rs2c: shortRegister,
  frdc: shortFloatRegister,
  frs2c: shortFloatRegister,
  /** Signed immediate of the base formats, and of c.addi and its like. */
  imm: { kind: 'signed' },
  /** Zero-extended immediate of compressed loads and stores. */
  uimm: { kind: 'unsigned' },
  /** Bits 31..12 of a value whose low bits are zero (lui, auipc, c.lui). */
  upper: { kind: 'signed', format: upperText },
  off: { kind: 'displacement' },
  shamt: { kind: 'unsigned', width: 6, hex: true },
  csr: { kind: 'unsigned', width: 12, format: csrName },
  /** Five-bit immediate of the CSR instructions. */
  zimm: { kind: 'unsigned', width: 5 },
  pred: { kind: 'unsigned', width: 4, format: fenceSet },
  succ: { kind: 'unsigned', width: 4, format: fenceSet },
  aq: { kind: 'suffix', suffix: '.aq' },
  rl: { kind: 'suffix', suffix: '.rl' },
  /** Rounding mode; 7 takes the one of `frm` and is not printed. */
  rm: { kind: 'unsigned', width: 3, format: (value) => (value === 7 ? '' : `,${ROUNDING[value]!}`) },
} as const satisfies Readonly<Record<string, FieldSpec>>;

// -------------------------------------------------------------------------------------------- rows

const OP = '0110011';
const OP_32 = '0111011';
const OP_IMM = '0010011';
const OP_IMM_32 = '0011011';
const OP_FP = '1010011';

const r = (funct7: string, funct3: string, opcode: string): string => `${funct7} rs2 rs1 ${funct3} rd ${opcode}`;
const i = (funct3: string, opcode: string): string => `imm[11:0] rs1 ${funct3} rd ${opcode}`;
const s = (funct3: string): string => `imm[11:5] rs2 rs1 ${funct3} imm[4:0] 0100011`;
const b = (funct3: string): string => `off[12|10:5] rs2 rs1 ${funct3} off[4:1|11] 1100011`;
/** One source register, the second field a function code. */
const unary = (funct12: string, funct3: string, opcode: string): string => `${funct12} rs1 ${funct3} rd ${opcode}`;
const shift6 = (funct6: string, funct3: string): string => `${funct6} shamt rs1 ${funct3} rd ${OP_IMM}`;
const shift5 = (funct7: string, funct3: string): string => `${funct7} shamt[4:0] rs1 ${funct3} rd ${OP_IMM_32}`;
const amo = (funct5: string, funct3: string): string => `${funct5} aq rl rs2 rs1 ${funct3} rd 0101111`;
const RRR = 'rd,rs1,rs2';
const RRI = 'rd,rs1,imm';
const LOAD = 'rd,imm(rs1)';
const STORE = 'rs2,imm(rs1)';
const BRANCH = 'rs1,rs2,off';
const branch: RowAttributes = { flow: 'branch' };

/** RV64I, Zifencei, Zicsr. */
const BASE_ROWS = [
  row('lui', 'upper[31:12] rd 0110111', 'rd,upper'),
  row('auipc', 'upper[31:12] rd 0010111', 'rd,upper'),
  row('jal', 'off[20|10:1|11|19:12] rd 1101111', 'rd,off', { flow: 'call-if-link' }),
  row('jalr', i('000', '1100111'), LOAD, { flow: 'indirect-call-if-link' }),
  row('beq', b('000'), BRANCH, branch),
  row('bne', b('001'), BRANCH, branch),
  row('blt', b('100'), BRANCH, branch),
  row('bge', b('101'), BRANCH, branch),
  row('bltu', b('110'), BRANCH, branch),
  row('bgeu', b('111'), BRANCH, branch),
  row('lb', i('000', '0000011'), LOAD),
  row('lh', i('001', '0000011'), LOAD),
  row('lw', i('010', '0000011'), LOAD),
  row('ld', i('011', '0000011'), LOAD),
  row('lbu', i('100', '0000011'), LOAD),
  row('lhu', i('101', '0000011'), LOAD),
  row('lwu', i('110', '0000011'), LOAD),
  row('sb', s('000'), STORE),
  row('sh', s('001'), STORE),
  row('sw', s('010'), STORE),
  row('sd', s('011'), STORE),
  row('addi', i('000', OP_IMM), RRI),
  row('slti', i('010', OP_IMM), RRI),
  row('sltiu', i('011', OP_IMM), RRI),
  row('xori', i('100', OP_IMM), RRI),
  row('ori', i('110', OP_IMM), RRI),
  row('andi', i('111', OP_IMM), RRI),
  row('slli', shift6('000000', '001'), 'rd,rs1,shamt'),
  row('srli', shift6('000000', '101'), 'rd,rs1,shamt'),
  row('srai', shift6('010000', '101'), 'rd,rs1,shamt'),
  row('add', r('0000000', '000', OP), RRR),
  row('sub', r('0100000', '000', OP), RRR),
  row('sll', r('0000000', '001', OP), RRR),
  row('slt', r('0000000', '010', OP), RRR),
  row('sltu', r('0000000', '011', OP), RRR),
  row('xor', r('0000000', '100', OP), RRR),
  row('srl', r('0000000', '101', OP), RRR),
  row('sra', r('0100000', '101', OP), RRR),
  row('or', r('0000000', '110', OP), RRR),
  row('and', r('0000000', '111', OP), RRR),
  row('addiw', i('000', OP_IMM_32), RRI),
  row('slliw', shift5('0000000', '001'), 'rd,rs1,shamt'),
  row('srliw', shift5('0000000', '101'), 'rd,rs1,shamt'),
  row('sraiw', shift5('0100000', '101'), 'rd,rs1,shamt'),
  row('addw', r('0000000', '000', OP_32), RRR),
  row('subw', r('0100000', '000', OP_32), RRR),
  row('sllw', r('0000000', '001', OP_32), RRR),
  row('srlw', r('0000000', '101', OP_32), RRR),
  row('sraw', r('0100000', '101', OP_32), RRR),
  row('fence', '0000 pred succ 00000 000 00000 0001111', 'pred,succ'),
  row('fence.tso', '1000 0011 0011 00000 000 00000 0001111', ''),
  row('pause', '0000 0001 0000 00000 000 00000 0001111', '', { over: ['fence'] }),
  row('fence.i', '000000000000 00000 001 00000 0001111', ''),
  row('ecall', '000000000000 00000 000 00000 1110011', '', { flow: 'syscall' }),
  row('ebreak', '000000000001 00000 000 00000 1110011', '', { flow: 'trap' }),
  row('csrrw', 'csr rs1 001 rd 1110011', 'rd,csr,rs1'),
  row('csrrs', 'csr rs1 010 rd 1110011', 'rd,csr,rs1'),
  row('csrrc', 'csr rs1 011 rd 1110011', 'rd,csr,rs1'),
  row('csrrwi', 'csr zimm 101 rd 1110011', 'rd,csr,zimm'),
  row('csrrsi', 'csr zimm 110 rd 1110011', 'rd,csr,zimm'),
  row('csrrci', 'csr zimm 111 rd 1110011', 'rd,csr,zimm'),
  // A write of a read-only CSR: the 4-byte instruction that assemblers use as "illegal on purpose".
  row('unimp', '110000000000 00000 001 00000 1110011', '', { over: ['csrrw'], flow: 'trap' }),
];

/** M. */
const MULTIPLY_ROWS = [
  row('mul', r('0000001', '000', OP), RRR),
  row('mulh', r('0000001', '001', OP), RRR),
  row('mulhsu', r('0000001', '010', OP), RRR),
  row('mulhu', r('0000001', '011', OP), RRR),
  row('div', r('0000001', '100', OP), RRR),
  row('divu', r('0000001', '101', OP), RRR),
  row('rem', r('0000001', '110', OP), RRR),
  row('remu', r('0000001', '111', OP), RRR),
  row('mulw', r('0000001', '000', OP_32), RRR),
  row('divw', r('0000001', '100', OP_32), RRR),
  row('divuw', r('0000001', '101', OP_32), RRR),
  row('remw', r('0000001', '110', OP_32), RRR),
  row('remuw', r('0000001', '111', OP_32), RRR),
];

/** A. */
const ATOMIC_ROWS = [
  row('lr.w', '00010 aq rl 00000 rs1 010 rd 0101111', 'rd,(rs1)'),
  row('sc.w', amo('00011', '010'), 'rd,rs2,(rs1)'),
  row('amoswap.w', amo('00001', '010'), 'rd,rs2,(rs1)'),
  row('amoadd.w', amo('00000', '010'), 'rd,rs2,(rs1)'),
  row('amoxor.w', amo('00100', '010'), 'rd,rs2,(rs1)'),
  row('amoand.w', amo('01100', '010'), 'rd,rs2,(rs1)'),
  row('amoor.w', amo('01000', '010'), 'rd,rs2,(rs1)'),
  row('amomin.w', amo('10000', '010'), 'rd,rs2,(rs1)'),
  row('amomax.w', amo('10100', '010'), 'rd,rs2,(rs1)'),
  row('amominu.w', amo('11000', '010'), 'rd,rs2,(rs1)'),
  row('amomaxu.w', amo('11100', '010'), 'rd,rs2,(rs1)'),
  row('lr.d', '00010 aq rl 00000 rs1 011 rd 0101111', 'rd,(rs1)'),
  row('sc.d', amo('00011', '011'), 'rd,rs2,(rs1)'),
  row('amoswap.d', amo('00001', '011'), 'rd,rs2,(rs1)'),
  row('amoadd.d', amo('00000', '011'), 'rd,rs2,(rs1)'),
  row('amoxor.d', amo('00100', '011'), 'rd,rs2,(rs1)'),
  row('amoand.d', amo('01100', '011'), 'rd,rs2,(rs1)'),
  row('amoor.d', amo('01000', '011'), 'rd,rs2,(rs1)'),
  row('amomin.d', amo('10000', '011'), 'rd,rs2,(rs1)'),
  row('amomax.d', amo('10100', '011'), 'rd,rs2,(rs1)'),
  row('amominu.d', amo('11000', '011'), 'rd,rs2,(rs1)'),
  row('amomaxu.d', amo('11100', '011'), 'rd,rs2,(rs1)'),
];

/** Zba, Zbb, Zbs, Zicond. */
const BIT_ROWS = [
  row('add.uw', r('0000100', '000', OP_32), RRR),
  row('sh1add', r('0010000', '010', OP), RRR),
  row('sh2add', r('0010000', '100', OP), RRR),
  row('sh3add', r('0010000', '110', OP), RRR),
  row('sh1add.uw', r('0010000', '010', OP_32), RRR),
  row('sh2add.uw', r('0010000', '100', OP_32), RRR),
  row('sh3add.uw', r('0010000', '110', OP_32), RRR),
  row('slli.uw', `000010 shamt rs1 001 rd ${OP_IMM_32}`, 'rd,rs1,shamt'),
  row('andn', r('0100000', '111', OP), RRR),
  row('orn', r('0100000', '110', OP), RRR),
  row('xnor', r('0100000', '100', OP), RRR),
  row('clz', unary('011000000000', '001', OP_IMM), 'rd,rs1'),
  row('ctz', unary('011000000001', '001', OP_IMM), 'rd,rs1'),
  row('cpop', unary('011000000010', '001', OP_IMM), 'rd,rs1'),
  row('clzw', unary('011000000000', '001', OP_IMM_32), 'rd,rs1'),
  row('ctzw', unary('011000000001', '001', OP_IMM_32), 'rd,rs1'),
  row('cpopw', unary('011000000010', '001', OP_IMM_32), 'rd,rs1'),
  row('sext.b', unary('011000000100', '001', OP_IMM), 'rd,rs1'),
  row('sext.h', unary('011000000101', '001', OP_IMM), 'rd,rs1'),
  row('zext.h', unary('000010000000', '100', OP_32), 'rd,rs1'),
  row('min', r('0000101', '100', OP), RRR),
  row('minu', r('0000101', '101', OP), RRR),
  row('max', r('0000101', '110', OP), RRR),
  row('maxu', r('0000101', '111', OP), RRR),
  row('rol', r('0110000', '001', OP), RRR),
  row('ror', r('0110000', '101', OP), RRR),
  row('rolw', r('0110000', '001', OP_32), RRR),
  row('rorw', r('0110000', '101', OP_32), RRR),
  row('rori', shift6('011000', '101'), 'rd,rs1,shamt'),
  row('roriw', shift5('0110000', '101'), 'rd,rs1,shamt'),
  row('orc.b', unary('001010000111', '101', OP_IMM), 'rd,rs1'),
  row('rev8', unary('011010111000', '101', OP_IMM), 'rd,rs1'),
  row('bclr', r('0100100', '001', OP), RRR),
  row('bext', r('0100100', '101', OP), RRR),
  row('binv', r('0110100', '001', OP), RRR),
  row('bset', r('0010100', '001', OP), RRR),
  row('bclri', shift6('010010', '001'), 'rd,rs1,shamt'),
  row('bexti', shift6('010010', '101'), 'rd,rs1,shamt'),
  row('binvi', shift6('011010', '001'), 'rd,rs1,shamt'),
  row('bseti', shift6('001010', '001'), 'rd,rs1,shamt'),
  row('czero.eqz', r('0000111', '101', OP), RRR),
  row('czero.nez', r('0000111', '111', OP), RRR),
];

const named: RowAttributes = { decodeOnly: true };

/** Privileged instructions: kernel text has them, user programs cannot execute them. */
const PRIVILEGED_ROWS = [
  row('sret', '000100000010 00000 000 00000 1110011', '', { decodeOnly: true, flow: 'return' }),
  row('mret', '001100000010 00000 000 00000 1110011', '', { decodeOnly: true, flow: 'return' }),
  row('wfi', '000100000101 00000 000 00000 1110011', '', named),
  row('sfence.vma', '0001001 rs2 rs1 000 00000 1110011', 'rs1,rs2', named),
];

const f3 = (funct7: string): string => `${funct7} frs2 frs1 rm frd ${OP_FP}`;
const f3fixed = (funct7: string, funct3: string): string => `${funct7} frs2 frs1 ${funct3} frd ${OP_FP}`;
const fma = (format: string, opcode: string): string => `frs3 ${format} frs2 frs1 rm frd ${opcode}`;
const fcompare = (funct7: string, funct3: string): string => `${funct7} frs2 frs1 ${funct3} rd ${OP_FP}`;
const F3 = "frd,frs1,frs2''rm";
const FMA = "frd,frs1,frs2,frs3''rm";
const F2 = 'frd,frs1,frs2';

/** What F and D move without computing: loads, stores, moves between register files, signs. */
const FLOAT_MOVE_ROWS = [
  row('flw', 'imm[11:0] rs1 010 frd 0000111', 'frd,imm(rs1)'),
  row('fld', 'imm[11:0] rs1 011 frd 0000111', 'frd,imm(rs1)'),
  row('fsw', 'imm[11:5] frs2 rs1 010 imm[4:0] 0100111', 'frs2,imm(rs1)'),
  row('fsd', 'imm[11:5] frs2 rs1 011 imm[4:0] 0100111', 'frs2,imm(rs1)'),
  row('fsgnj.s', f3fixed('0010000', '000'), F2),
  row('fsgnjn.s', f3fixed('0010000', '001'), F2),
  row('fsgnjx.s', f3fixed('0010000', '010'), F2),
  row('fsgnj.d', f3fixed('0010001', '000'), F2),
  row('fsgnjn.d', f3fixed('0010001', '001'), F2),
  row('fsgnjx.d', f3fixed('0010001', '010'), F2),
  row('fmv.x.w', `1110000 00000 frs1 000 rd ${OP_FP}`, 'rd,frs1'),
  row('fmv.w.x', `1111000 00000 rs1 000 frd ${OP_FP}`, 'frd,rs1'),
  row('fmv.x.d', `1110001 00000 frs1 000 rd ${OP_FP}`, 'rd,frs1'),
  row('fmv.d.x', `1111001 00000 rs1 000 frd ${OP_FP}`, 'frd,rs1'),
];

/** What F and D compute. */
const FLOAT_ROWS = [
  row('fmadd.s', fma('00', '1000011'), FMA),
  row('fmsub.s', fma('00', '1000111'), FMA),
  row('fnmsub.s', fma('00', '1001011'), FMA),
  row('fnmadd.s', fma('00', '1001111'), FMA),
  row('fmadd.d', fma('01', '1000011'), FMA),
  row('fmsub.d', fma('01', '1000111'), FMA),
  row('fnmsub.d', fma('01', '1001011'), FMA),
  row('fnmadd.d', fma('01', '1001111'), FMA),
  row('fadd.s', f3('0000000'), F3),
  row('fsub.s', f3('0000100'), F3),
  row('fmul.s', f3('0001000'), F3),
  row('fdiv.s', f3('0001100'), F3),
  row('fadd.d', f3('0000001'), F3),
  row('fsub.d', f3('0000101'), F3),
  row('fmul.d', f3('0001001'), F3),
  row('fdiv.d', f3('0001101'), F3),
  row('fsqrt.s', `0101100 00000 frs1 rm frd ${OP_FP}`, "frd,frs1''rm"),
  row('fsqrt.d', `0101101 00000 frs1 rm frd ${OP_FP}`, "frd,frs1''rm"),
  row('fmin.s', f3fixed('0010100', '000'), F2),
  row('fmax.s', f3fixed('0010100', '001'), F2),
  row('fmin.d', f3fixed('0010101', '000'), F2),
  row('fmax.d', f3fixed('0010101', '001'), F2),
  row('feq.s', fcompare('1010000', '010'), 'rd,frs1,frs2'),
  row('flt.s', fcompare('1010000', '001'), 'rd,frs1,frs2'),
  row('fle.s', fcompare('1010000', '000'), 'rd,frs1,frs2'),
  row('feq.d', fcompare('1010001', '010'), 'rd,frs1,frs2'),
  row('flt.d', fcompare('1010001', '001'), 'rd,frs1,frs2'),
  row('fle.d', fcompare('1010001', '000'), 'rd,frs1,frs2'),
  row('fclass.s', `1110000 00000 frs1 001 rd ${OP_FP}`, 'rd,frs1'),
  row('fclass.d', `1110001 00000 frs1 001 rd ${OP_FP}`, 'rd,frs1'),
  row('fcvt.w.s', `1100000 00000 frs1 rm rd ${OP_FP}`, "rd,frs1''rm"),
  row('fcvt.wu.s', `1100000 00001 frs1 rm rd ${OP_FP}`, "rd,frs1''rm"),
  row('fcvt.l.s', `1100000 00010 frs1 rm rd ${OP_FP}`, "rd,frs1''rm"),
  row('fcvt.lu.s', `1100000 00011 frs1 rm rd ${OP_FP}`, "rd,frs1''rm"),
  row('fcvt.w.d', `1100001 00000 frs1 rm rd ${OP_FP}`, "rd,frs1''rm"),
  row('fcvt.wu.d', `1100001 00001 frs1 rm rd ${OP_FP}`, "rd,frs1''rm"),
  row('fcvt.l.d', `1100001 00010 frs1 rm rd ${OP_FP}`, "rd,frs1''rm"),
  row('fcvt.lu.d', `1100001 00011 frs1 rm rd ${OP_FP}`, "rd,frs1''rm"),
  row('fcvt.s.w', `1101000 00000 rs1 rm frd ${OP_FP}`, "frd,rs1''rm"),
  row('fcvt.s.wu', `1101000 00001 rs1 rm frd ${OP_FP}`, "frd,rs1''rm"),
  row('fcvt.s.l', `1101000 00010 rs1 rm frd ${OP_FP}`, "frd,rs1''rm"),
  row('fcvt.s.lu', `1101000 00011 rs1 rm frd ${OP_FP}`, "frd,rs1''rm"),
  // Exact conversions: assemblers write rounding mode 0 into them and leave it out of the text.
  row('fcvt.d.w', `1101001 00000 rs1 000 frd ${OP_FP}`, 'frd,rs1'),
  row('fcvt.d.wu', `1101001 00001 rs1 000 frd ${OP_FP}`, 'frd,rs1'),
  row('fcvt.d.l', `1101001 00010 rs1 rm frd ${OP_FP}`, "frd,rs1''rm"),
  row('fcvt.d.lu', `1101001 00011 rs1 rm frd ${OP_FP}`, "frd,rs1''rm"),
  row('fcvt.s.d', `0100000 00001 frs1 rm frd ${OP_FP}`, "frd,frs1''rm"),
  row('fcvt.d.s', `0100001 00000 frs1 000 frd ${OP_FP}`, 'frd,frs1'),
];

/**
 * Expansion of a compressed row: operands of the base row, each copied from the named operand or
 * constant. The result of every expansion is checked against objdump's aliases by the tests.
 */
function expands(
  to: string,
  operands: Readonly<Record<string, string | number>>,
  more: RowAttributes = {},
): RowAttributes {
  const names = Object.keys(operands);
  const sources = Object.values(operands);
  return {
    ...more,
    expands: {
      to,
      operands: (from: Operands): Operands => {
        const out: Record<string, number> = {};
        for (let i = 0; i < names.length; i++) {
          const source = sources[i]!;
          out[names[i]!] = typeof source === 'number' ? source : from[source]!;
        }
        return out;
      },
    },
  };
}

const cArithmetic = (low: string): string => `100011 rdc ${low} rs2c 01`;
const cArithmeticW = (low: string): string => `100111 rdc ${low} rs2c 01`;
const same2 = { rd: 'rdc', rs1: 'rdc', rs2: 'rs2c' };
const sameShift = { rd: 'rdc', rs1: 'rdc', shamt: 'shamt' };

/**
 * C for RV64. Hints (`c.li zero,..`, a shift by 0) decode as what they expand to; reserved
 * encodings do not decode.
 */
const COMPRESSED_ROWS = [
  row('c.unimp', '0000000000000000', '', expands('unimp', {}, { flow: 'trap' })),
  row(
    'c.addi4spn',
    '000 uimm[5:4|9:6|2|3] rdc 00',
    "rdc,'sp',uimm",
    expands('addi', { rd: 'rdc', rs1: SP, imm: 'uimm' }, { not: { uimm: [0] } }),
  ),
  row(
    'c.lw',
    '010 uimm[5:3] rs1c uimm[2|6] rdc 00',
    'rdc,uimm(rs1c)',
    expands('lw', { rd: 'rdc', imm: 'uimm', rs1: 'rs1c' }),
  ),
  row(
    'c.ld',
    '011 uimm[5:3] rs1c uimm[7:6] rdc 00',
    'rdc,uimm(rs1c)',
    expands('ld', { rd: 'rdc', imm: 'uimm', rs1: 'rs1c' }),
  ),
  row(
    'c.sw',
    '110 uimm[5:3] rs1c uimm[2|6] rs2c 00',
    'rs2c,uimm(rs1c)',
    expands('sw', { rs2: 'rs2c', imm: 'uimm', rs1: 'rs1c' }),
  ),
  row(
    'c.sd',
    '111 uimm[5:3] rs1c uimm[7:6] rs2c 00',
    'rs2c,uimm(rs1c)',
    expands('sd', { rs2: 'rs2c', imm: 'uimm', rs1: 'rs1c' }),
  ),
  row('c.addi', '000 imm[5] rd imm[4:0] 01', 'rd,imm', expands('addi', { rd: 'rd', rs1: 'rd', imm: 'imm' })),
  row(
    'c.addiw',
    '001 imm[5] rd imm[4:0] 01',
    'rd,imm',
    expands('addiw', { rd: 'rd', rs1: 'rd', imm: 'imm' }, { not: { rd: [0] } }),
  ),
  row('c.li', '010 imm[5] rd imm[4:0] 01', 'rd,imm', expands('addi', { rd: 'rd', rs1: ZERO, imm: 'imm' })),
  row(
    'c.addi16sp',
    '011 imm[9] 00010 imm[4|6|8:7|5] 01',
    "'sp',imm",
    expands('addi', { rd: SP, rs1: SP, imm: 'imm' }, { over: ['c.lui'], not: { imm: [0] } }),
  ),
  row(
    'c.lui',
    '011 upper[17] rd upper[16:12] 01',
    'rd,upper',
    expands('lui', { rd: 'rd', upper: 'upper' }, { not: { rd: [SP], upper: [0] } }),
  ),
  row('c.srli', '100 shamt[5] 00 rdc shamt[4:0] 01', 'rdc,shamt', expands('srli', sameShift)),
  row('c.srli64', '100 0 00 rdc 00000 01', 'rdc', expands('srli', { ...sameShift, shamt: 0 }, { over: ['c.srli'] })),
  row('c.srai', '100 shamt[5] 01 rdc shamt[4:0] 01', 'rdc,shamt', expands('srai', sameShift)),
  row('c.srai64', '100 0 01 rdc 00000 01', 'rdc', expands('srai', { ...sameShift, shamt: 0 }, { over: ['c.srai'] })),
  row('c.andi', '100 imm[5] 10 rdc imm[4:0] 01', 'rdc,imm', expands('andi', { rd: 'rdc', rs1: 'rdc', imm: 'imm' })),
  row('c.sub', cArithmetic('00'), 'rdc,rs2c', expands('sub', same2)),
  row('c.xor', cArithmetic('01'), 'rdc,rs2c', expands('xor', same2)),
  row('c.or', cArithmetic('10'), 'rdc,rs2c', expands('or', same2)),
  row('c.and', cArithmetic('11'), 'rdc,rs2c', expands('and', same2)),
  row('c.subw', cArithmeticW('00'), 'rdc,rs2c', expands('subw', same2)),
  row('c.addw', cArithmeticW('01'), 'rdc,rs2c', expands('addw', same2)),
  row('c.j', '101 off[11|4|9:8|10|6|7|3:1|5] 01', 'off', expands('jal', { rd: ZERO, off: 'off' }, { flow: 'jump' })),
  row(
    'c.beqz',
    '110 off[8|4:3] rs1c off[7:6|2:1|5] 01',
    'rs1c,off',
    expands('beq', { rs1: 'rs1c', rs2: ZERO, off: 'off' }, branch),
  ),
  row(
    'c.bnez',
    '111 off[8|4:3] rs1c off[7:6|2:1|5] 01',
    'rs1c,off',
    expands('bne', { rs1: 'rs1c', rs2: ZERO, off: 'off' }, branch),
  ),
  row('c.slli', '000 shamt[5] rd shamt[4:0] 10', 'rd,shamt', expands('slli', { rd: 'rd', rs1: 'rd', shamt: 'shamt' })),
  row('c.slli64', '000 0 rd 00000 10', 'rd', expands('slli', { rd: 'rd', rs1: 'rd', shamt: 0 }, { over: ['c.slli'] })),
  row(
    'c.lwsp',
    '010 uimm[5] rd uimm[4:2|7:6] 10',
    "rd,uimm('sp')",
    expands('lw', { rd: 'rd', imm: 'uimm', rs1: SP }, { not: { rd: [0] } }),
  ),
  row(
    'c.ldsp',
    '011 uimm[5] rd uimm[4:3|8:6] 10',
    "rd,uimm('sp')",
    expands('ld', { rd: 'rd', imm: 'uimm', rs1: SP }, { not: { rd: [0] } }),
  ),
  row(
    'c.jr',
    '100 0 rs1 00000 10',
    'rs1',
    expands('jalr', { rd: ZERO, imm: 0, rs1: 'rs1' }, { flow: 'indirect-jump', not: { rs1: [0] } }),
  ),
  row('c.mv', '100 0 rd rs2 10', 'rd,rs2', expands('add', { rd: 'rd', rs1: ZERO, rs2: 'rs2' }, { not: { rs2: [0] } })),
  row('c.ebreak', '100 1 00000 00000 10', '', expands('ebreak', {}, { flow: 'trap' })),
  row(
    'c.jalr',
    '100 1 rs1 00000 10',
    'rs1',
    expands('jalr', { rd: RA, imm: 0, rs1: 'rs1' }, { flow: 'indirect-call', not: { rs1: [0] } }),
  ),
  row('c.add', '100 1 rd rs2 10', 'rd,rs2', expands('add', { rd: 'rd', rs1: 'rd', rs2: 'rs2' }, { not: { rs2: [0] } })),
  row('c.swsp', '110 uimm[5:2|7:6] rs2 10', "rs2,uimm('sp')", expands('sw', { rs2: 'rs2', imm: 'uimm', rs1: SP })),
  row('c.sdsp', '111 uimm[5:3|8:6] rs2 10', "rs2,uimm('sp')", expands('sd', { rs2: 'rs2', imm: 'uimm', rs1: SP })),
];

/** The compressed loads and stores of D (RV64C has none of F). */
const COMPRESSED_FLOAT_ROWS = [
  row(
    'c.fld',
    '001 uimm[5:3] rs1c uimm[7:6] frdc 00',
    'frdc,uimm(rs1c)',
    expands('fld', { frd: 'frdc', imm: 'uimm', rs1: 'rs1c' }),
  ),
  row(
    'c.fsd',
    '101 uimm[5:3] rs1c uimm[7:6] frs2c 00',
    'frs2c,uimm(rs1c)',
    expands('fsd', { frs2: 'frs2c', imm: 'uimm', rs1: 'rs1c' }),
  ),
  row(
    'c.fldsp',
    '001 uimm[5] frd uimm[4:3|8:6] 10',
    "frd,uimm('sp')",
    expands('fld', { frd: 'frd', imm: 'uimm', rs1: SP }),
  ),
  row(
    'c.fsdsp',
    '101 uimm[5:3|8:6] frs2 10',
    "frs2,uimm('sp')",
    expands('fsd', { frs2: 'frs2', imm: 'uimm', rs1: SP }),
  ),
];

const EXECUTABLE_ROWS = [
  ...BASE_ROWS,
  ...MULTIPLY_ROWS,
  ...ATOMIC_ROWS,
  ...BIT_ROWS,
  ...FLOAT_MOVE_ROWS,
  ...FLOAT_ROWS,
];
const ROWS = [...EXECUTABLE_ROWS, ...PRIVILEGED_ROWS, ...COMPRESSED_ROWS, ...COMPRESSED_FLOAT_ROWS];

/** The instructions that need semantics of their own: neither compressed nor decode-only. */
export type RiscvExecutableMnemonic = (typeof EXECUTABLE_ROWS)[number]['mnemonic'];

/**
 * What people read instead of the plain rows. Compressed instructions keep their `c.`, because size
 * matters to a patcher.
 */
const ALIASES: readonly Alias[] = [
  { mnemonic: 'nop', of: 'addi', where: { rd: ZERO, rs1: ZERO, imm: 0 }, syntax: '' },
  { mnemonic: 'li', of: 'addi', where: { rs1: ZERO }, syntax: 'rd,imm' },
  { mnemonic: 'mv', of: 'addi', where: { imm: 0 }, syntax: 'rd,rs1' },
  { mnemonic: 'not', of: 'xori', where: { imm: -1 }, syntax: 'rd,rs1' },
  { mnemonic: 'neg', of: 'sub', where: { rs1: ZERO }, syntax: 'rd,rs2' },
  { mnemonic: 'negw', of: 'subw', where: { rs1: ZERO }, syntax: 'rd,rs2' },
  { mnemonic: 'sext.w', of: 'addiw', where: { imm: 0 }, syntax: 'rd,rs1' },
  { mnemonic: 'zext.b', of: 'andi', where: { imm: 255 }, syntax: 'rd,rs1' },
  { mnemonic: 'zext.w', of: 'add.uw', where: { rs2: ZERO }, syntax: 'rd,rs1' },
  { mnemonic: 'seqz', of: 'sltiu', where: { imm: 1 }, syntax: 'rd,rs1' },
  { mnemonic: 'snez', of: 'sltu', where: { rs1: ZERO }, syntax: 'rd,rs2' },
  { mnemonic: 'j', of: 'jal', where: { rd: ZERO }, syntax: 'off' },
  { mnemonic: 'jal', of: 'jal', where: { rd: RA }, syntax: 'off' },
  { mnemonic: 'ret', of: 'jalr', where: { rd: ZERO, rs1: RA, imm: 0 }, syntax: '' },
  { mnemonic: 'jr', of: 'jalr', where: { rd: ZERO, imm: 0 }, syntax: 'rs1' },
  { mnemonic: 'jr', of: 'jalr', where: { rd: ZERO }, syntax: 'imm(rs1)' },
  { mnemonic: 'jalr', of: 'jalr', where: { rd: RA, imm: 0 }, syntax: 'rs1' },
  { mnemonic: 'jalr', of: 'jalr', where: { rd: RA }, syntax: 'imm(rs1)' },
  { mnemonic: 'beqz', of: 'beq', where: { rs2: ZERO }, syntax: 'rs1,off' },
  { mnemonic: 'bnez', of: 'bne', where: { rs2: ZERO }, syntax: 'rs1,off' },
  { mnemonic: 'blez', of: 'bge', where: { rs1: ZERO }, syntax: 'rs2,off' },
  { mnemonic: 'bgez', of: 'bge', where: { rs2: ZERO }, syntax: 'rs1,off' },
  { mnemonic: 'bltz', of: 'blt', where: { rs2: ZERO }, syntax: 'rs1,off' },
  { mnemonic: 'bgtz', of: 'blt', where: { rs1: ZERO }, syntax: 'rs2,off' },
  { mnemonic: 'csrr', of: 'csrrs', where: { rs1: ZERO }, syntax: 'rd,csr' },
  { mnemonic: 'csrw', of: 'csrrw', where: { rd: ZERO }, syntax: 'csr,rs1' },
  { mnemonic: 'csrs', of: 'csrrs', where: { rd: ZERO }, syntax: 'csr,rs1' },
  { mnemonic: 'csrc', of: 'csrrc', where: { rd: ZERO }, syntax: 'csr,rs1' },
  { mnemonic: 'c.nop', of: 'c.addi', where: { rd: ZERO, imm: 0 }, syntax: '' },
  { mnemonic: 'ret', of: 'c.jr', where: { rs1: RA }, syntax: '' },
];

/** The rows, checked. */
export const riscvTable = new IsaTable({ name: 'riscv64', fields: FIELDS, rows: ROWS, aliases: ALIASES }, 'deferred');

// ---------------------------------------------------------------------------------------- decoding

/**
 * Length of an instruction from its first parcel, bytes (2, 4, 6 ... 22). The reserved form of 24
 * bytes and more has no length yet; 2 is the least step over it. Source: Volume I, 1.5.
 */
export function instructionBytes(parcel: number): number {
  if ((parcel & 3) !== 3) return 2;
  if ((parcel & 0x1f) !== 0x1f) return 4;
  if ((parcel & 0x3f) === 0x1f) return 6;
  if ((parcel & 0x7f) === 0x3f) return 8;
  const words = (parcel >> 12) & 7;
  return words === 7 ? 2 : 10 + 2 * words;
}

/**
 * ra and t0: `jr` through one of them is a return (Volume I, table of return-address stack hints).
 */
function isLink(register: number): boolean {
  return register === RA || register === T0;
}

function flowOf({ row: found, operands }: Decoded, address: Address): Flow {
  switch (found.flow) {
    case 'next':
    case 'return':
    case 'syscall':
    case 'trap':
    case 'indirect-call':
      return { kind: found.flow };
    case 'indirect-jump':
      return { kind: isLink(operands['rs1']!) ? 'return' : 'indirect-jump' };
    case 'indirect-call-if-link':
      if (operands['rd'] !== ZERO) return { kind: 'indirect-call' };
      return { kind: isLink(operands['rs1']!) && operands['imm'] === 0 ? 'return' : 'indirect-jump' };
    case 'jump':
    case 'call':
    case 'branch':
      return { kind: found.flow, target: BigInt.asUintN(64, address + BigInt(operands['off']!)) };
    case 'call-if-link': {
      const target = BigInt.asUintN(64, address + BigInt(operands['off']!));
      return { kind: operands['rd'] === ZERO ? 'jump' : 'call', target };
    }
    default:
      return found.flow satisfies never;
  }
}

/** Row and operands at a position of code, or null. */
export function decodeAt(code: Uint8Array, offset: number): Decoded | null {
  if (offset + 2 > code.length) return null;
  const low = code[offset]! | (code[offset + 1]! << 8);
  const sizeBytes = instructionBytes(low);
  if (sizeBytes === 2) return (low & 3) === 3 ? null : riscvTable.decode(low, 2);
  if (sizeBytes !== 4 || offset + 4 > code.length) return null;
  return riscvTable.decode((low | (code[offset + 2]! << 16) | (code[offset + 3]! << 24)) >>> 0, 4);
}

/** Text without aliases, as `objdump -M no-aliases` prints it. */
export function formatPlain(decoded: Decoded, address: Address): string {
  return joinOrdering(riscvTable.format(decoded, address, { aliases: false }));
}

/** Both ordering bits of an atomic are written together. */
function joinOrdering(text: string): string {
  return text.replace('.aq.rl', '.aqrl');
}

export const riscvIsa: Isa = {
  text: 'rows',
  minInstructionBytes: 2,
  maxInstructionBytes: 22,
  decode(code: Uint8Array, offset: number, address: Address): Instruction {
    const decoded = decodeAt(code, offset);
    if (decoded !== null) {
      const { row: found, operands } = decoded;
      return {
        address,
        sizeBytes: found.sizeBytes,
        mnemonic: found.mnemonic,
        operands,
        flow: flowOf(decoded, address),
      };
    }
    const left = code.length - offset;
    const sizeBytes = left >= 2 ? instructionBytes(code[offset]! | (code[offset + 1]! << 8)) : 1;
    return {
      address,
      sizeBytes: Math.max(1, Math.min(sizeBytes, left)),
      mnemonic: 'unknown',
      operands: {},
      flow: { kind: 'next' },
    };
  },
  format(instruction: Instruction): string {
    if (!riscvTable.has(instruction.mnemonic)) return instruction.mnemonic;
    const found = riscvTable.row(instruction.mnemonic);
    return joinOrdering(riscvTable.format({ row: found, operands: instruction.operands }, instruction.address));
  },
};

/** The base instruction that a compressed one stands for; itself for the others. */
export function expand(decoded: Decoded): Decoded {
  const to = decoded.row.attributes.expands;
  return to ? { row: riscvTable.row(to.to), operands: to.operands(decoded.operands) } : decoded;
}
