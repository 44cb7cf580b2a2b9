/**
 * x86-64 instructions in batches: programs made from the rows of the opcode map, run here, under
 * qemu-user and on the processor of this machine, their results compared; and the record of what
 * was executed, from which the coverage table is checked.
 *
 * A program is a driver, one short routine per **variant** (a row with chosen size, registers,
 * address form and immediate), and tables of inputs. For each variant and input the driver fills
 * 512 bytes of memory in the middle of which a page ends, sets all general registers but rsp, the
 * flags, MXCSR and two vector registers, calls the routine, and appends registers, flags, vectors,
 * MXCSR and a checksum of the memory to a buffer. At the end it writes the buffer to descriptor 1.
 *
 * Before a routine: rax rbx rcx rdx r8 r9 are the input, rsi rbp r12 r13 are an address near the
 * middle, rdi another, r10 is small.
 *
 * Instructions come as bytes from the rows, which other tests hold against capstone and objdump;
 * the driver is assembled by gcc. The processor wins where it differs from qemu
 * (`QEMU_DIFFERENCES`); where makers differ, it is asked (`processor.ts`). Flags that the manual
 * leaves undefined are masked.
 */
import { spawnSync } from './spawn.js';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { x86_64 } from '../../src/arch-x86/index.js';
import { x86Coverage } from '../../src/arch-x86/lift.js';
import { decodeInto, X86Instruction } from '../../src/arch-x86/isa.js';
import { opcodeMaps } from '../../src/arch-x86/opcode-map.js';
import type { OpcodeRow, OpcodeTable } from '../../src/arch-x86/opcode-map.js';
import { check, inputText, MIN_CASES, RowCoverage, runHere, runOutside, thinned, VARIANT_SEED } from './batch.js';
import { ask, hasFeatures } from './processor.js';
import { Random } from './random.js';
import type { BatchResult, Checking } from './batch.js';

// -------------------------------------------------------------------------------------------- rows

export interface RowPlace {
  readonly row: OpcodeRow;
  readonly encoding: X86Instruction['encoding'];
  /** 0: one byte, 1: 0F, 2: 0F38, 3: 0F3A. */
  readonly map: number;
  readonly opcode: number;
  /** The MMX or the XMM form of a row that has both. */
  readonly mmx: boolean;
  /** Unique text: map, prefix, opcode, ModRM, name, operands. */
  readonly key: string;
}

/** Rows whose operands are MMX registers without 66 and XMM registers with it. */
const hasMmx = (row: OpcodeRow): boolean => row.operands.some((each) => /^[PQN]/.test(each));

/** Every row of the maps that a 64-bit program can contain, MMX and XMM forms apart. */
export function allRows(): readonly RowPlace[] {
  const maps = opcodeMaps;
  const out: RowPlace[] = [];
  const walk = (table: OpcodeTable | null | undefined, encoding: RowPlace['encoding'], map: number): void => {
    for (let opcode = 0; opcode < 256; opcode++) {
      for (const row of table?.rows(opcode) ?? []) {
        const forms = hasMmx(row) ? (row.prefixMask === 3 && encoding === 'legacy' ? [true, false] : [true]) : [false];
        for (const mmx of forms) {
          const group = row.modRm >= 0 ? `:${row.modRm.toString(16)}` : row.regMask === 0xff ? '' : `/${row.regMask}`;
          const at = opcode.toString(16).padStart(2, '0');
          const key = `${encoding}${map}.p${mmx ? 1 : row.prefixMask}.m${row.modMask}.${at}${group} ${row.mnemonics[1]} ${row.operands.join()}${mmx ? ' mmx' : ''}`;
          out.push({ row, encoding, map, opcode, mmx, key });
        }
      }
    }
  };
  walk(maps.one, 'legacy', 0);
  walk(maps.legacy0f, 'legacy', 1);
  walk(maps.legacy0f38, 'legacy', 2);
  walk(maps.legacy0f3a, 'legacy', 3);
  maps.vex.forEach((table, map) => {
    walk(table, 'vex', map);
  });
  maps.evex.forEach((table, map) => {
    walk(table, 'evex', map);
  });
  maps.xop.forEach((table, map) => {
    walk(table, 'xop', map + 8);
  });
  return out;
}

/** Rows with semantics. */
const executed = (): readonly RowPlace[] =>
  allRows().filter(({ row, encoding, mmx }) => x86Coverage(row, encoding, mmx).kind === 'executed');

/** Instructions of x87. */
const isX87 = ({ encoding, map, opcode }: RowPlace): boolean =>
  encoding === 'legacy' && map === 0 && opcode >= 0xd8 && opcode <= 0xdf;
/** Instructions on registers of MMX, and `emms`. */
const isMmx = ({ mmx, row }: RowPlace): boolean => mmx || row.mnemonics[1] === 'emms';
/** Their results are not the same on all processors. */
const isEstimate = ({ row }: RowPlace): boolean => /^r(cp|sqrt)[ps]s$/.test(row.mnemonics[1]);

/** Rows of x87 and of MMX that are executed: `lift-x86-floats.test.ts` has them. */
export const x87Rows = (): readonly RowPlace[] => executed().filter(isX87);
export const mmxRows = (): readonly RowPlace[] => executed().filter(isMmx);

/** The others. */
export const executableRows = (): readonly RowPlace[] =>
  executed().filter((place) => !isX87(place) && !isMmx(place) && !isEstimate(place));

// ---------------------------------------------------------------------------------------- encoding

/**
 * The r/m operand: a register, or ModRM, SIB and displacement of an address without its reg field.
 */
type Rm = { readonly register: number } | { readonly address: AddressForm };

/** Address forms by what they use; all lead to the middle of the memory plus what rsi, r10 hold. */
export type AddressForm =
  'rsi' | 'rbp+8' | 'r13' | 'r12+300' | 'rsi+r10' | 'r12+r10*2+16' | 'rsi+r10*8' | 'absolute' | 'index-only' | 'rip';
const ADDRESS_FORMS: readonly AddressForm[] = [
  'rsi', 'rbp+8', 'r13', 'r12+300', 'rsi+r10', 'r12+r10*2+16', 'rsi+r10*8', 'absolute', 'index-only', 'rip',
]; // prettier-ignore

export interface Form {
  /** Operand size in bytes for rows that have several. */
  readonly bytes?: 2 | 4 | 8;
  readonly reg?: number;
  readonly rm?: Rm;
  readonly vvvv?: number;
  readonly immediate?: bigint;
  readonly second?: bigint;
  readonly lock?: boolean;
  readonly repeat?: 0xf2 | 0xf3;
  readonly segment?: 0x64 | 0x65;
  readonly address32?: boolean;
  /** An empty REX, so that byte registers 4 to 7 are spl to dil. */
  readonly rex?: boolean;
}

/** Where absolute and rip-relative forms lead. The end of a page is in the middle. */
const MIDDLE = 0x60_1000;
const HALF = 256;
/** A word that routines may use for themselves. */
const SAVED = MIDDLE + 0x800;
/** mov %r<number>,%rbx */
const show = (number: number): number[] => [0x48 | ((number >> 3) << 2), 0x89, 0xc3 | ((number & 7) << 3)];
const little = (value: bigint, bytes: number): number[] =>
  Array.from({ length: bytes }, (_, i) => Number((value >> BigInt(8 * i)) & 0xffn));

/** Bytes of one instruction; `at` is where it will lie, for rip-relative addresses. */
export function encode({ row, encoding, map, opcode, mmx }: RowPlace, form: Form, at = 0): number[] {
  const bytes = form.bytes ?? 4;
  const prefixes: number[] = [];
  if (form.segment) prefixes.push(form.segment);
  if (form.address32) prefixes.push(0x67);
  const vectors = hasMmx(row) && !mmx;
  if (encoding === 'legacy' && (bytes === 2 || row.prefixMask === 2 || vectors)) prefixes.push(0x66);
  if (form.lock) prefixes.push(0xf0);
  if (form.repeat) prefixes.push(form.repeat);
  if (encoding === 'legacy' && row.prefixMask === 4) prefixes.push(0xf3);
  if (encoding === 'legacy' && row.prefixMask === 8) prefixes.push(0xf2);
  const reg = form.reg ?? 0;
  let rex = bytes === 8 ? 8 : 0;
  let tail: number[] = [];
  let ripAt = -1;
  if (row.hasModRm) {
    const group =
      row.modRm >= 0 ? (row.modRm >> 3) & 7 : row.regMask !== 0xff ? Math.log2(row.regMask & -row.regMask) : -1;
    const field = group >= 0 ? group : reg & 7;
    if (group < 0 && reg >= 8) rex |= 4;
    const { rm } = form;
    const build = (mod: number, low: number, ...more: number[]): number[] => [(mod << 6) | (field << 3) | low, ...more];
    if (row.modRm >= 0) tail = [row.modRm];
    else if (rm && 'register' in rm) {
      tail = build(3, rm.register & 7);
      if (rm.register >= 8) rex |= 1;
    } else {
      switch (rm?.address ?? 'rsi') {
        case 'rsi': tail = build(0, 6); break;
        case 'rbp+8': tail = build(1, 5, 8); break;
        case 'r13': tail = build(1, 5, 0); rex |= 1; break;
        case 'r12+300': tail = build(2, 4, 0x24, ...little(40n, 4)); rex |= 1; break;
        case 'rsi+r10': tail = build(0, 4, 0x16); rex |= 2; break;
        case 'r12+r10*2+16': tail = build(1, 4, 0x54, 0xf0); rex |= 3; break;
        case 'rsi+r10*8': tail = build(0, 4, 0xd6); rex |= 2; break;
        case 'absolute': tail = build(0, 4, 0x25, ...little(BigInt(MIDDLE + 24), 4)); break;
        case 'index-only': tail = build(0, 4, 0x95, ...little(BigInt(MIDDLE - 16), 4)); rex |= 2; break;
        case 'rip': tail = build(0, 5, 0, 0, 0, 0); ripAt = 1; break;
      } // prettier-ignore
    }
  } else if (row.operands.some((each) => each.startsWith('Z')) && reg >= 8) rex |= 1;
  const immediates: number[] = [];
  row.immediates.forEach((code, i) => {
    const size = { Ib: 1, J8: 1, Iw: 2, Id: 4, J32: 4, Iz: bytes === 2 ? 2 : 4, Jz: 4, Iv: bytes, O: form.address32 ? 4 : 8 }[code]; // prettier-ignore
    immediates.push(...little((i === 0 ? form.immediate : form.second) ?? 0n, size));
  });
  let head: number[];
  if (encoding === 'vex') {
    const pp = { 1: 0, 2: 1, 4: 2, 8: 3 }[row.prefixMask] ?? 0;
    head = [0xc4, (~(rex & 7) & 7) << 5 | map, (rex & 8) << 4 | ((~(form.vvvv ?? 0) & 15) << 3) | pp, opcode]; // prettier-ignore
  } else {
    const names = [[], [0x0f], [0x0f, 0x38], [0x0f, 0x3a]][map]!;
    // The register in the opcode is the row's; `reg` says only whether it is one of the upper
    // eight.
    head = [...(rex !== 0 || form.rex ? [0x40 | rex] : []), ...names, opcode];
  }
  const out = [...prefixes, ...head, ...tail, ...immediates];
  if (ripAt >= 0) {
    const field = prefixes.length + head.length + ripAt;
    little(BigInt(MIDDLE + 8 - (at + out.length)), 4).forEach((each, i) => (out[field + i] = each));
  }
  return out;
}

// ------------------------------------------------------------------------------------------ inputs

/** Registers before the routine; `source` and `target` are rsi and rdi minus the middle. */
const INPUT_FIELDS = ['rax', 'rbx', 'rcx', 'rdx', 'r8', 'r9', 'flags', 'source', 'target', 'r10'] as const;
export type Input = Readonly<Record<(typeof INPUT_FIELDS)[number], bigint>>;

const CORNERS = [
  0n, 1n, -1n, 1n << 63n, (1n << 63n) - 1n, 0x8000_0000n, 0x7fff_ffffn, 0xffff_ffffn, 0x8000n, 0x7fffn, 0x80n, 0x7fn, 0xffn,
  0x1_0000_0000n,
]; // prettier-ignore
const COUNTS = [0n, 1n, 2n, 7n, 8n, 9n, 15n, 16n, 17n, 31n, 32n, 33n, 63n, 64n, 0x80n, 0xffn];

/** Flags that a program can set: carry, parity, adjust, zero, sign, overflow. */
const STATUS = 0x8d5;

function makeInputs(): readonly Input[] {
  const random = new Random();
  const out: Input[] = [];
  const add = (rax: bigint, rbx: bigint, rcx: bigint): void => {
    out.push({
      rax: BigInt.asUintN(64, rax),
      rbx: BigInt.asUintN(64, rbx),
      rcx: BigInt.asUintN(64, rcx),
      rdx: random.wide(),
      r8: random.below(4) === 0 ? BigInt.asUintN(64, random.pick(CORNERS)) : random.wide(),
      r9: random.below(4) === 0 ? BigInt.asUintN(64, random.pick(CORNERS)) : random.wide(),
      flags: BigInt(random.below(0x1000) & STATUS),
      source: BigInt(random.below(41) - 20),
      target: BigInt(random.below(41) - 20 + 64 * (random.below(3) - 1)),
      r10: BigInt(random.below(4)),
    });
  };
  for (const [i, a] of CORNERS.entries()) {
    for (const [j, b] of CORNERS.entries()) add(a, b, COUNTS[(i * 3 + j) % COUNTS.length]!);
  }
  for (let i = 0; i < 60; i++) add(random.wide(), random.wide(), random.below(2) ? random.pick(COUNTS) : random.wide());
  return out;
}

// ---------------------------------------------------------------------------------------- variants

export type Aspect =
  | 'distinct' | 'equal' | 'high-byte' | 'extended' | 'memory' | 'lock' | 'repeat' | 'segment' | 'address32' | 'corners' | '16' | '32' | '64'
  | 'page-crossing' | 'window-crossing' | 'fault'; // prettier-ignore

export interface Variant {
  readonly place: RowPlace;
  /** Instructions of the routine by the address where they begin. */
  readonly code: (at: number) => number[];
  readonly aspects: readonly Aspect[];
  readonly inputs: readonly number[];
  /** The routine saves flags and vectors in vain when it has none of them. */
  readonly ignoredFlags: (input: Input) => number;
  /** True: the registers' results are undefined too. */
  readonly undefinedResult?: (input: Input) => boolean;
  readonly text: string;
}

/** Flags that the manual leaves undefined. Source: Intel SDM volume 1, appendix A; volume 2. */
function undefinedFlags(
  name: string,
  bytes: number,
  immediate: bigint | null,
  implicitOne: boolean,
): (input: Input) => number {
  const [CF, PF, AF, ZF, SF, OF] = [1, 4, 0x10, 0x40, 0x80, 0x800];
  const mask = bytes === 8 ? 63n : 31n;
  const count = (input: Input): bigint => (implicitOne ? 1n : (immediate ?? input.rcx) & mask);
  switch (name) {
    case 'and': case 'or': case 'xor': case 'test':
      return () => AF;
    case 'shl': case 'shr': case 'sar':
      return (input) => {
        const n = count(input);
        if (n === 0n) return 0;
        return (n === 1n ? AF : AF | OF) | (n > BigInt(8 * bytes) ? CF : 0);
      };
    case 'rol': case 'ror': case 'rcl': case 'rcr':
      return (input) => (count(input) > 1n ? OF : 0);
    case 'shld': case 'shrd':
      return (input) => (count(input) === 0n ? 0 : count(input) === 1n ? AF : AF | OF);
    case 'mul': case 'imul':
      return () => SF | ZF | AF | PF;
    case 'div': case 'idiv':
      return () => STATUS;
    case 'bsf': case 'bsr':
      return () => CF | OF | SF | AF | PF;
    case 'bt': case 'bts': case 'btr': case 'btc':
      return () => OF | SF | AF | PF;
    case 'lzcnt': case 'tzcnt':
      return () => OF | SF | PF | AF;
    case 'andn': case 'blsi': case 'blsr': case 'blsmsk': case 'bzhi':
      return () => AF | PF;
    case 'bextr':
      return () => AF | SF | PF;
    default:
      return () => 0;
  } // prettier-ignore
}

/**
 * Rows that batches cannot show, because they end the program or depend on the processor:
 * `x86-local.ts` does.
 */
const UNIT_NAMES =
  /^(int[13]?|ud[012]|hlt|cli|sti|in|out|ins[bwd]|outs[bwd]|clts|invd|wbinvd|wbnoinvd|wrmsr|rdmsr|rdpmc|lgdt|lidt|lmsw|invlpg|lldt|ltr|sysret|iret|swapgs|xsetbv|monitor|mwait|clac|stac|sysexit|rsm|fxsave|fxrstor|cpuid|rdtscp?|serialize|clflushopt|cldemote|prefetchwt1|prefetch)$/;

export const isUnitOnly = ({ row }: RowPlace): boolean =>
  UNIT_NAMES.test(row.mnemonics[1]) || row.operands.some((each) => /^[CD]q$/.test(each));

/** The operand sizes of a row. */
export function sizesOf(place: RowPlace): readonly (2 | 4 | 8)[] {
  const { row, encoding, map } = place;
  const name = row.mnemonics[1];
  const codes = row.operands.map((each) => each.slice(1));
  if (/^(push|pop|pushfq|popfq|leave|enter)$/.test(name)) return [8, 2];
  if (/^(call|jmp|ret|loop|loope|loopne|jrcxz|syscall)$/.test(name) || (map <= 1 && row.flow === 'branch')) return [4];
  if (encoding === 'vex' || codes.includes('y')) return [4, 8];
  if (name === 'cwde' || name === 'cdq') return [2, 4, 8];
  if (row.operands.some((each) => /^(?:[EGMZIXY][vz]|rAX|eAX|O?v)$/.test(each))) return [2, 4, 8];
  if (name === 'movsxd' || name === 'cmpxchg8b') return [4, 8];
  return [4];
}

/** lea 1(%r8),%r8: marks a path and keeps the flags. */
const MARK = [0x4d, 0x8d, 0x40, 0x01];

class Planner {
  readonly variants: Variant[] = [];
  readonly inputs = makeInputs();
  private readonly all = this.inputs.map((_, i) => i);
  private readonly random = new Random(VARIANT_SEED);
  private turn = 0;

  constructor(rows: readonly RowPlace[] = executableRows()) {
    for (const place of rows) this.plan(place);
  }

  /** A part of the inputs, another one each time. */
  private some(count: number, list = this.all): number[] {
    const start = (this.turn += 13);
    return Array.from(
      { length: Math.min(Math.ceil(count / 2), list.length) },
      (_, i) => list[(start + i) % list.length]!,
    );
  }

  private add(
    place: RowPlace,
    code: number[] | ((at: number) => number[]),
    aspects: readonly Aspect[],
    rest: Partial<Variant> = {},
  ): void {
    this.variants.push({
      place,
      code: typeof code === 'function' ? code : (): number[] => code,
      aspects: ['corners', ...aspects],
      inputs: this.all,
      ignoredFlags: () => 0,
      text: typeof code === 'function' ? '' : code.map((each) => each.toString(16).padStart(2, '0')).join(' '),
      ...rest,
    });
  }

  private immediate(bytes: number, turn: number): bigint {
    const bits = BigInt(8 * bytes);
    const corners = [1n, 0n, -1n, 0x7fn, -0x80n, 8n, 31n, 1n << (bits - 1n), 33n];
    return BigInt.asIntN(8 * bytes, corners[turn % 12] ?? this.random.wide());
  }

  private plan(place: RowPlace): void {
    const { row } = place;
    const name = row.mnemonics[1];
    if (isUnitOnly(place)) return;
    if (row.operands.some((each) => /^[XY]/.test(each))) this.strings(place, name);
    else if (row.flow !== 'next') this.control(place, name);
    else if (/^(push|pop|pushfq|popfq|leave|enter)$/.test(name)) this.stack(place, name);
    else if (!row.hasModRm && row.operands[0]?.startsWith('Z') === true) this.inOpcode(place);
    else this.plain(place, name);
  }

  // ----------------------------------------------------------------------------- registers, memory

  private plain(place: RowPlace, name: string): void {
    const { row } = place;
    const { operands } = row;
    const takesRegister = row.hasModRm && (row.modMask & 2) !== 0;
    const takesMemory = row.hasModRm && (row.modMask & 1) !== 0;
    const hasReg = operands.some((each) => /^[GVPZ]/.test(each));
    const byteReg = operands.some((each) => /^[GZ]b$/.test(each));
    const byteRm = operands.some((each) => /^E.?b$/.test(each));
    const vectors = operands.some((each) => /^[VWUPQN]/.test(each));
    const one = operands.includes('1');
    const memoryBytes = memorySize(place, 8);
    for (const bytes of sizesOf(place)) {
      const size: Aspect = bytes === 2 ? '16' : bytes === 4 ? '32' : '64';
      const operandBytes = byteRm || (byteReg && !row.hasModRm) || operands[0] === 'AL' ? 1 : bytes;
      const emit = (form: Form, aspects: readonly Aspect[], inputs: number[]): void => {
        const full = { bytes, ...form };
        const immediate =
          row.immediates.length > 0 && !/^[JO]/.test(row.immediates[0]!) ? (full.immediate ?? 0n) : null;
        const ignored = undefinedFlags(name, operandBytes, immediate, one);
        const flags = /^(bt|bts|btr|btc)$/.test(name) ? ignored : ignored;
        let chosen = inputs;
        let undefinedResult: Variant['undefinedResult'];
        if (name === 'div' || name === 'idiv') chosen = this.divisions(place, full, operandBytes);
        if ((name === 'shld' || name === 'shrd') && bytes === 2) {
          chosen = inputs.filter((i) => ((immediate ?? this.inputs[i]!.rcx) & 31n) <= 16n);
        }
        if (name === 'ldmxcsr' || !isRow(place, encode(place, full))) return;
        // Bit numbers reach far: movsbq of the register keeps them within the memory.
        const r = full.reg ?? 0;
        const near =
          /^bt[src]?$/.test(name) && row.immediates.length === 0 && full.rm && 'address' in full.rm
            ? [0x48 | ((r >> 3) * 5), 0x0f, 0xbe, 0xc0 | ((r & 7) * 9)]
            : ([] as number[]);
        // The base is read back, and that of gs is 64 for the others again: rdgsbase %rbx; mov
        // $64,%r11d; wrgsbase %r11.
        const after =
          name === 'wrgsbase'
            ? [0xf3, 0x48, 0x0f, 0xae, 0xcb, 0x41, 0xbb, 64, 0, 0, 0, 0xf3, 0x49, 0x0f, 0xae, 0xdb]
            : name === 'wrfsbase'
              ? [0xf3, 0x48, 0x0f, 0xae, 0xc3]
              : [];
        if (after.length > 0 && bytes === 8) {
          // Only canonical addresses may be written: shr $17 of the source first.
          const source = full.rm && 'register' in full.rm ? full.rm.register : 0;
          near.push(0x48 | (source >> 3), 0xc1, 0xe8 | (source & 7), 17);
        }
        this.add(place, (at) => [...near, ...encode(place, full, at + near.length), ...after], [size, ...aspects], {
          inputs: chosen,
          ignoredFlags: after.length > 0 ? () => 0x810 : flags,
          ...(undefinedResult ? { undefinedResult } : {}),
        });
      };
      let turn = 0;
      const form = (extra: Form): Form => {
        const code = row.immediates[0];
        if (code === undefined) return extra;
        if (code === 'O') return { ...extra, immediate: BigInt(MIDDLE - 3 + 8 * (turn++ % 2)) };
        const immediate = this.immediate({ Ib: 1, Iw: 2, Id: 4, Iz: bytes === 2 ? 2 : 4, Iv: bytes, J8: 1, J32: 4, Jz: 4 }[code], turn++); // prettier-ignore
        return { ...extra, immediate };
      };
      const usesVvvv = row.usesVvvv;
      if (takesRegister || (!row.hasModRm && hasReg)) {
        // Registers: rax, rbx, rcx, rdx = 0, 3, 1, 2.
        const pairs: readonly (readonly [number, number, Aspect])[] = [
          [0, 3, 'distinct'], [3, 0, 'distinct'], [3, 3, 'equal'], [0, 0, 'equal'], [8, 9, 'extended'], [1, 8, 'extended'], [9, 2, 'extended'],
        ]; // prettier-ignore
        for (const [reg, rm, aspect] of pairs) {
          if ((name === 'div' || name === 'idiv') && rm !== 3 && rm !== 9 && rm !== 1) continue;
          if (vectors && (reg > 1 || rm > 1) && !operands.some((each) => /^[EGRM]/.test(each)) && reg !== 3) continue;
          const r = vectors ? { reg: vectorOr(operands, 'reg', reg), rm: vectorOr(operands, 'rm', rm) } : { reg, rm };
          const vvvv = usesVvvv ? (rm === 3 && reg === 3 ? 3 : rm === 9 ? 1 : 0) : 0;
          const many = aspect === 'distinct' && reg === 0;
          emit(form({ reg: r.reg, rm: { register: r.rm }, vvvv }), [aspect], many ? this.all : this.some(70));
          if (usesVvvv) emit(form({ reg: r.reg, rm: { register: r.rm }, vvvv: 2 }), [aspect], this.some(70));
        }
        if (byteReg || byteRm) {
          // ah, bh, ch, dh = 4, 7, 5, 6; with REX the same numbers are spl to dil.
          for (const [reg, rm] of [[4, 7], [7, 0], [3, 4], [4, 4], [0, 4]] as const) {
            if (bytes === 8) continue;
            if ((name === 'div' || name === 'idiv') && rm !== 7) continue;
            // The other operand is wider, and number 4 would be the stack pointer.
            const [g, e] = [byteReg ? reg : reg & 3, byteRm ? rm : rm & 3];
            emit(form({ reg: g, rm: { register: e } }), ['high-byte'], this.some(80));
          } // prettier-ignore
          for (const [reg, rm] of [[6, 3], [0, 7], [7, 6]] as const) {
            if (name === 'div' || name === 'idiv') continue;
            emit(form({ reg, rm: { register: rm }, rex: true }), ['extended'], this.some(60));
          } // prettier-ignore
        }
        if (row.immediates.length > 0) {
          for (let i = 0; i < 10; i++) {
            const reg = vectors ? vectorOr(operands, 'reg', 0) : 0;
            emit(form({ reg, rm: { register: vectors ? vectorOr(operands, 'rm', 1) : 3 } }), [], this.some(60));
          }
        }
      }
      if (takesMemory || row.immediates[0] === 'O') {
        ADDRESS_FORMS.forEach((address, i) => {
          if (row.immediates[0] === 'O' && i > 1) return;
          const aligned = memoryBytes === 16 && mustAlign(place);
          const list = aligned && address !== 'absolute' && address !== 'index-only' ? [] : this.all;
          if (aligned) {
            if (address === 'rsi') this.alignedMemory(place, form({}), size);
            return;
          }
          const reg = vectors ? vectorOr(operands, 'reg', i & 1) : [0, 3, 1, 8, 2][i % 5]!;
          const inputs = i === 0 ? list : this.some(40, list);
          emit(form({ reg, rm: { address }, vvvv: usesVvvv ? 3 : 0 }), ['memory'], inputs);
        });
        if (!(memoryBytes === 16 && mustAlign(place))) {
          const plain =
            row.immediates[0] === 'O'
              ? {}
              : { reg: vectors ? vectorOr(operands, 'reg', 1) : 3, rm: { address: 'rsi' } as const };
          if (row.lock) emit(form({ ...plain, lock: true }), ['lock'], this.some(80));
          emit(form({ ...plain, segment: 0x65 }), ['segment'], this.some(30));
          if (row.immediates[0] !== 'O')
            emit(form({ ...plain, rm: { address: 'rsi+r10' }, address32: true }), ['address32'], this.some(30));
        }
        if (byteReg && row.hasModRm) emit(form({ reg: 7, rm: { address: 'rsi' } }), ['high-byte'], this.some(50));
      }
      if (!row.hasModRm && !hasReg && row.immediates[0] !== 'O') {
        for (let i = 0; i < (row.immediates.length > 0 ? 12 : 1); i++)
          emit(form({}), [], i === 0 ? this.all : this.some(60));
        if (name === 'xlatb') this.xlat(place);
      }
    }
  }

  /** lea (middle),%rbx first, for rbx is the table. */
  private xlat(place: RowPlace): void {
    this.variants.pop();
    const table = [0x48, 0xc7, 0xc3, ...little(BigInt(MIDDLE - 128), 4)];
    const [plain, segment, narrow] = [{}, { segment: 0x65 as const }, { address32: true }];
    for (const form of [plain, segment, narrow]) {
      const aspect: Aspect = form === segment ? 'segment' : form === narrow ? 'address32' : 'memory';
      this.add(place, [...table, ...encode(place, form)], [aspect]);
    }
  }

  /** and $-16,%rsi first. */
  private alignedMemory(place: RowPlace, form: Form, size: Aspect): void {
    const align = [0x48, 0x83, 0xe6, 0xf0];
    for (const reg of [0, 1]) {
      const full = {
        ...form,
        reg,
        rm: { address: 'rsi' as const },
        ...(place.row.mnemonics[1] === 'cmpxchg8b' ? { bytes: 8 as const } : {}),
      };
      this.add(place, [...align, ...encode(place, full)], ['memory', size]);
      this.add(place, [...align, ...encode(place, { ...full, segment: 0x65 })], ['segment', size], {
        inputs: this.some(0),
      });
      this.add(place, [...align, ...encode(place, { ...full, address32: true })], ['address32', size], {
        inputs: this.some(30),
      });
      if (place.row.lock)
        this.add(place, [...align, ...encode(place, { ...full, lock: true })], ['lock', size], {
          inputs: this.some(80),
        });
    }
    if (place.row.mnemonics[1] !== 'cmpxchg8b') return;
    // Equal operands: mov (%rsi),%rax; mov 8(%rsi),%rdx
    const equal = [...align, 0x48, 0x8b, 0x06, 0x48, 0x8b, 0x56, 0x08];
    this.add(place, [...equal, ...encode(place, { ...form, bytes: 8, rm: { address: 'rsi' } })], ['memory'], {
      inputs: this.some(60),
    });
  }

  /**
   * Inputs whose quotient fits, after a routine of its own that makes the dividend small for half
   * of them.
   */
  private divisions(place: RowPlace, form: Form, bytes: number): number[] {
    const signed = place.row.mnemonics[1] === 'idiv';
    const bits = 8 * bytes;
    const take = (value: bigint, width: number): bigint =>
      signed ? BigInt.asIntN(width, value) : BigInt.asUintN(width, value);
    return this.all.filter((i) => {
      const input = this.inputs[i]!;
      if (!form.rm || !('register' in form.rm)) return false;
      const names = ['rax', 'rcx', 'rdx', 'rbx'] as const;
      const number =
        bytes === 1 && form.rm.register >= 4 && form.rm.register < 8 ? form.rm.register - 4 : form.rm.register;
      const shifted = number !== form.rm.register;
      const value = number === 8 ? input.r8 : number === 9 ? input.r9 : input[names[number]!];
      const divisor = take(shifted ? value >> 8n : value, bits);
      if (divisor === 0n) return false;
      const dividend =
        bytes === 1
          ? take(input.rax, 16)
          : take((BigInt.asUintN(bits, input.rdx) << BigInt(bits)) | BigInt.asUintN(bits, input.rax), 2 * bits);
      const quotient = dividend / divisor;
      return take(quotient, bits) === quotient;
    });
  }

  /** Rows whose opcode names the register. */
  private inOpcode(place: RowPlace): void {
    const { row } = place;
    const number = place.opcode & 7;
    const byte = row.operands[0] === 'Zb';
    // mov %rsp,(saved) and back, for rows of rsp.
    const save = [0x48, 0x89, 0x24, 0x25, ...little(BigInt(SAVED), 4)];
    const restore = [0x48, 0x8b, 0x24, 0x25, ...little(BigInt(SAVED), 4)];
    for (const bytes of byte ? ([4] as const) : sizesOf(place)) {
      const size: Aspect = bytes === 2 ? '16' : bytes === 4 ? '32' : '64';
      for (const upper of [false, true]) {
        const own = upper ? number + 8 : byte && number >= 4 ? number - 4 : number;
        const isStack = own === 4;
        const turns = row.immediates.length > 0 ? 9 : 1;
        for (let turn = 0; turn < turns; turn++) {
          const width = byte ? 1 : row.immediates[0] === 'Ib' ? 1 : bytes;
          const form = { bytes, reg: upper ? 8 : 0, immediate: this.immediate(width, turn) };
          // swaps of rsp with rax: what lands there is looked at
          const code = [...(isStack ? save : []), ...encode(place, form), ...show(own), ...(isStack ? restore : [])];
          const aspects: Aspect[] = [
            upper ? 'extended' : 'distinct',
            size,
            ...(byte && number >= 4 && !upper ? ['high-byte' as const] : []),
          ];
          const after =
            isStack && (row.mnemonics[1] === 'xchg' || bytes === 2 || row.mnemonics[1] === 'bswap')
              ? this.hideStack(code, save)
              : code;
          this.add(place, after, aspects, { inputs: turn === 0 ? this.all : this.some(40) });
        }
      }
    }
  }

  /**
   * The same with an address of the memory in rsp, so that results do not depend on where the stack
   * is: mov %rsi,%rsp behind saving it.
   */
  private hideStack(code: readonly number[], save: readonly number[]): number[] {
    return [...code.slice(0, save.length), 0x48, 0x89, 0xf4, ...code.slice(save.length)];
  }

  // --------------------------------------------------------------------------------------- control

  private control(place: RowPlace, name: string): void {
    const { row } = place;
    const near = row.immediates[0] === 'J8';
    if (row.flow === 'branch') {
      // Over the mark; then a loop back, twice at most.
      const over = encode(place, { immediate: BigInt(MARK.length) });
      this.add(place, [...over, ...MARK], ['distinct']);
      if (/^j(?!rcxz)/.test(name)) return;
      this.add(place, [...encode(place, { immediate: BigInt(MARK.length), address32: true }), ...MARK], ['address32']);
      // mov $3,%ecx; 1: mark; loop 1b
      const size = MARK.length + over.length;
      if (name !== 'jrcxz')
        this.add(place, [0xb9, 3, 0, 0, 0, ...MARK, ...encode(place, { immediate: BigInt(-size) })], []);
      return;
    }
    switch (name) {
      case 'jmp':
      case 'call': {
        // call: the callee is behind a jump over it; it leaves the mark.
        const isCall = name === 'call';
        if (row.immediates.length > 0) {
          const jump = encode(place, { immediate: 2n });
          // [call +2][jmp over][mark][ret if call]
          if (isCall) this.add(place, [...jump, 0xeb, MARK.length + 1, ...MARK, 0xc3], []);
          else this.add(place, [...encode(place, { immediate: BigInt(MARK.length) }), ...MARK], []);
          if (near) return;
          return;
        }
        // lea target(%rip),%rbx; jmp *%rbx, and through memory.
        const skip = isCall ? [0xeb, MARK.length + 1, ...MARK, 0xc3] : [...MARK, ...MARK];
        const behind = isCall ? 2 : MARK.length;
        const byRegister = encode(place, { rm: { register: 3 } });
        const lea = (length: number): number[] => [0x48, 0x8d, 0x1d, ...little(BigInt(length + behind), 4)];
        this.add(place, [...lea(byRegister.length), ...byRegister, ...skip], ['distinct']);
        const byMemory = encode(place, { rm: { address: 'rsi' } });
        const store = [0x48, 0x89, 0x1e];
        this.add(
          place,
          [...lea(store.length + byMemory.length), ...store, ...byMemory, ...skip],
          ['memory', 'lock', 'segment', 'address32'],
        );
        return;
      }
      case 'ret': {
        // push the return address of a way around: call 1f; jmp 2f; 1: mark; ret; 2:
        const immediate = row.immediates.length > 0;
        const body = immediate
          ? // two words for `ret 16` to remove
            [0x6a, 1, 0x6a, 2, 0xe8, 2, 0, 0, 0, 0xeb, MARK.length + 3, ...MARK, ...encode(place, { immediate: 16n })]
          : [0xe8, 2, 0, 0, 0, 0xeb, MARK.length + 1, ...MARK, ...encode(place, {})];
        this.add(place, body, []);
        return;
      }
      case 'iretd': {
        // push $0x2b; push %rsi; pushfq; push $0x33; lea over(%rip),%rbx; push %rbx; iretq; mark;
        // over: mov %rsp,%rsi and back
        const over = encode(place, { bytes: 8 });
        const save = [0x48, 0x89, 0x24, 0x25, ...little(BigInt(SAVED), 4)];
        const restore = [0x48, 0x89, 0xe6, 0x48, 0x8b, 0x24, 0x25, ...little(BigInt(SAVED), 4)];
        const lea = [0x48, 0x8d, 0x1d, ...little(BigInt(1 + over.length + MARK.length), 4)];
        this.add(place, [...save, 0x6a, 0x2b, 0x56, 0x9c, 0x6a, 0x33, ...lea, 0x53, ...over, ...MARK, ...restore], []);
        return;
      }
      case 'syscall': {
        // An unknown call: ENOSYS; rcx is an address, r11 the flags. mov $9999,%eax
        this.add(place, [0xb8, 0x0f, 0x27, 0, 0, ...encode(place, {})], []);
        return;
      }
      default:
        throw new Error(`no batch for ${place.key}`);
    }
  }

  private stack(place: RowPlace, name: string): void {
    const { row } = place;
    // mov %rsp,(saved); mov %rsi,%rsp ... mov %rsp,%rsi; mov (saved),%rsp
    const begin = [0x48, 0x89, 0x24, 0x25, ...little(BigInt(SAVED), 4), 0x48, 0x89, 0xf4];
    const end = [0x48, 0x89, 0xe6, 0x48, 0x8b, 0x24, 0x25, ...little(BigInt(SAVED), 4)];
    for (const bytes of [8, 2] as const) {
      const size: Aspect = bytes === 8 ? '64' : '16';
      const emit = (
        form: Form,
        aspects: readonly Aspect[],
        inputs = this.all,
        before: number[] = [],
        after: number[] = [],
      ): void => {
        const code = (at: number): number[] => {
          const head = [...begin, ...before];
          const instruction = encode(
            place,
            { ...form, ...(bytes === 2 ? { bytes: 2 as const } : { bytes: 4 as const }) },
            at + head.length,
          );
          return [...head, ...instruction, ...after, ...end];
        };
        this.add(place, code, [size, ...aspects], { inputs });
      };
      if (name === 'enter') {
        for (const [size_, levels] of [[0n, 0n], [16n, 0n], [8n, 1n], [0n, 2n], [24n, 3n], [5n, 5n], [0n, 33n]] as const) {
          emit({ immediate: size_, second: levels }, [], this.some(60));
        } // prettier-ignore
        continue;
      }
      if (name === 'leave') {
        emit({}, []);
        continue;
      }
      if (name === 'pushfq') emit({}, []);
      else if (name === 'popfq') {
        // Flags from memory without TF: and $0x8d5|0x244400 of the word, then pop, then restore AC,
        // ID, NT, DF.
        const clean = [0x48, 0x81, 0x24, 0x24, ...little(0x20_04d5n | 0x800n, 4)];
        // pushfq; pop %rax; cld; push %rax with the rest cleared; popf
        const tidy = [0x9c, 0x58, 0xfc];
        emit({}, [], this.all, clean, tidy);
      } else if (row.hasModRm) {
        emit({ rm: { register: 0 } }, ['distinct']);
        emit({ rm: { register: 8 } }, ['extended'], this.some(60));
        emit({ rm: { address: 'rsi' } }, ['memory', 'lock']);
        emit({ rm: { address: 'rbp+8' } }, ['memory'], this.some(60));
        emit({ rm: { address: 'rsi+r10*8' } }, ['memory'], this.some(60));
        emit({ rm: { address: 'rsi' }, segment: 0x65 }, ['segment'], this.some(60));
        emit({ rm: { address: 'rsi' }, address32: true }, ['address32'], this.some(60));
        // rsp as the base: a pop computes the address behind itself.
        this.add(place, (at) => [...begin, ...(bytes === 2 ? [0x66] : []), row.mnemonics[1] === 'pop' ? 0x8f : 0xff, row.mnemonics[1] === 'pop' ? 0x44 : 0x74, 0x24, 16, ...end].filter(() => at >= 0), [size, 'memory'], { inputs: this.some(60) }); // prettier-ignore
      } else if (row.immediates.length > 0) {
        for (let i = 0; i < 9; i++)
          emit(
            { immediate: this.immediate(row.immediates[0] === 'Ib' ? 1 : bytes === 2 ? 2 : 4, i) },
            [],
            this.some(40),
          );
      } else {
        const number = place.opcode & 7;
        const shown = (n: number): number[] => (name === 'pop' && n !== 4 ? show(n) : []);
        emit({}, ['distinct'], this.all, [], shown(number));
        emit({ reg: 8 }, ['extended'], this.some(120), [], shown(number + 8));
      }
    }
  }

  private strings(place: RowPlace, name: string): void {
    const wide = place.row.operands.some((each) => /v$/.test(each) || each === 'rAX');
    // Counts of 0 to 5: and $7,%ecx
    const count = [0x83, 0xe1, 0x07];
    for (const bytes of wide ? ([2, 4, 8] as const) : ([4] as const)) {
      const size: Aspect = bytes === 2 ? '16' : bytes === 4 ? '32' : '64';
      for (const direction of [[], [0xfd]]) {
        const back = direction.length > 0 ? [0xfc] : [];
        const emit = (form: Form, aspects: readonly Aspect[], before: number[], inputs = this.some(60)): void => {
          this.add(
            place,
            [...direction, ...before, ...encode(place, { bytes, ...form }), ...back],
            [size, ...aspects],
            {
              inputs,
              // `and` before it
              ignoredFlags: () => (before.length > 0 ? 0x10 : 0),
            },
          );
        };
        emit({}, ['memory', 'distinct'], [], this.all);
        emit({ repeat: 0xf3 }, ['repeat'], count, this.all);
        emit({ repeat: 0xf2 }, ['repeat'], count);
        emit({ address32: true }, ['address32'], []);
        emit({ address32: true, repeat: 0xf3 }, ['address32', 'repeat'], count);
        emit({ segment: 0x65 }, ['segment'], []);
        if (!/^(cmps|scas)/.test(name)) continue;
        // Equal contents, so that repeats go on: mov %rsi,%rdi; and for scas the value itself.
        emit({ repeat: 0xf3 }, ['repeat', 'equal'], [...count, 0x48, 0x89, 0xf7]);
        emit({ repeat: 0xf2 }, ['repeat'], [...count, 0x48, 0x89, 0xf7, 0x48, 0x83, 0xc7, 1]);
        // Zeroes: mov %rsi,%rdi; movq $0,(%rdi); movq $0,8(%rdi); xor %eax,%eax
        const zeroes = [0x48, 0x89, 0xf7, 0x48, 0xc7, 0x07, 0, 0, 0, 0, 0x48, 0xc7, 0x47, 8, 0, 0, 0, 0, 0x31, 0xc0];
        emit({ repeat: 0xf3 }, ['repeat', 'equal'], [...zeroes, ...count]);
        emit({ repeat: 0xf2 }, ['repeat', 'equal'], [...zeroes, ...count]);
      }
    }
  }
}

const decoded = new X86Instruction();

/**
 * False where a prefix of the form makes another instruction of it (66 0f 1a is bndmov, not nop).
 */
export function isRow(place: RowPlace, bytes: readonly number[]): boolean {
  return decodeInto(decoded, Uint8Array.from(bytes), 0) === bytes.length && decoded.row === place.row;
}

/** The number of a register operand, vectors being xmm0 and xmm1 and now and then xmm9. */
function vectorOr(operands: readonly string[], at: 'reg' | 'rm', number: number): number {
  const isVector = operands.some((each) => (at === 'reg' ? /^[VP]/ : /^[WUQN]/).test(each));
  return isVector ? number & 1 : number;
}

/** Bytes that a memory operand of the row has, by the operand size. */
export function memorySize(place: RowPlace, bytes: 2 | 4 | 8): number {
  const { row } = place;
  const name = row.mnemonics[1];
  if (name === 'lea' || /^(nop|prefetch|cldemote)/.test(name)) return 0;
  if (row.operands.some((each) => /^[XY]/.test(each)))
    return row.operands.some((each) => /^[XY]b/.test(each)) ? 1 : bytes;
  if (name === 'mov' && row.operands.includes('Sw')) return 2;
  if (name === 'cmpxchg8b') return bytes === 8 ? 16 : 8;
  const code = row.operands.find((each) => /^[EMWQOXY]/.test(each));
  if (code === undefined || (code.startsWith('E') && row.modMask === 2)) return 0;
  if (/^movntdqa$|^lddqu$/.test(name)) return 16;
  if (/mxcsr$|^(movss|roundss|insertps)$/.test(name)) return 4;
  if (isScalarFloat(name)) return /ss$|^cvtt?ss/.test(name) ? 4 : 8;
  if (/^clflush/.test(name)) return 1;
  if (
    /^mov[lh]p/.test(name) ||
    /^(movsd|movddup|roundsd|cvtps2pd|cvtdq2pd)$/.test(name) ||
    (name === 'movq' && !/^E/.test(code))
  )
    return 8;
  if (/^[EM]v?$/.test(code) && /^(push|pop|call|jmp)$/.test(name)) return bytes === 2 ? 2 : 8;
  const widened = /^pmov[sz]x([bwd])([wdq])$/.exec(name);
  if (widened)
    return (
      16 /
      (({ w: 2, d: 4, q: 8 } as const)[widened[2] as 'w' | 'd' | 'q'] /
        ({ b: 1, w: 2, d: 4 } as const)[widened[1] as 'b' | 'w' | 'd'])
    );
  const lane = /^p(?:insr|extr)([bw])$/.exec(name);
  if (lane) return lane[1] === 'b' ? 1 : 2;
  if (code.startsWith('Q')) return place.mmx ? 8 : 16;
  switch (code.slice(1)) {
    case 'b':
      return 1;
    case 'w':
      return 2;
    case 'd':
      return /^pinsr/.test(name) ? 4 : 4;
    case 'q':
      return hasMmx(row) ? 16 : 8;
    case 'y':
      return bytes === 8 ? 8 : 4;
    case 'x':
      return 16;
    default:
      return hasMmx(row) ? 16 : bytes;
  }
}

/** Floating point on one element; integers that become one lie in general registers. */
const isScalarFloat = (name: string): boolean =>
  /^(add|sub|mul|div|min|max|sqrt|cmp|u?comi)s[sd]$|^cvt(t?s[sd]2si|ss2sd|sd2ss)$/.test(name);

/** Instructions that fault when their 16 bytes are not aligned. */
export function mustAlign(place: RowPlace): boolean {
  const name = place.row.mnemonics[1];
  if (isScalarFloat(name)) return false;
  return !/^(movup|movdqu|lddqu|movl|movh|movs[sd]|movq|movd$|pinsr|pextr|extractps|pmov[sz]x|movddup|pcmp[ei]str|rounds[sd]|insertps)/.test(
    name,
  );
}

// ----------------------------------------------------------------------------------------- program

const RESULT_WORDS = 8 + 4 + 1 + 1 + 4 + 1;
const RESULT_NAMES = [
  'rax', 'rbx', 'rcx', 'rdx', 'rsi', 'rdi', 'r8', 'r9', 'rbp', 'r10', 'r12', 'r13', 'flags', 'memory', 'xmm0', 'xmm0h', 'xmm1', 'xmm1h', 'mxcsr',
]; // prettier-ignore
const TEXT = 0x40_0000;

/** Assembly of the program; routines are padded to 64 bytes so that their addresses are known. */
const ROUTINE_BYTES = 64;
const ROUTINES = 0x48_0000;

function source(inputs: readonly Input[], variants: readonly Variant[]): string {
  const words = (values: readonly (bigint | number)[]): string =>
    values.length === 0
      ? ''
      : `.quad ${values.map((each) => `0x${BigInt.asUintN(64, BigInt(each)).toString(16)}`).join(',')}\n`;
  const total = variants.reduce((sum, each) => sum + each.inputs.length, 0);
  let text = `
  .text
  .globl _start
_start:
  # gs base: segment forms add 64
  mov $158,%eax
  mov $0x1001,%edi
  mov $64,%esi
  syscall
  lea variants(%rip),%r12
  lea results(%rip),%r13
next:
  mov (%r12),%rax
  test %rax,%rax
  jz done
  mov %rax,routine(%rip)
  mov 8(%r12),%r14
  mov 16(%r12),%r15
again:
  test %r15,%r15
  jz end
  mov $${MIDDLE - HALF},%edi
  lea pattern(%rip),%rsi
  mov $${HALF / 4},%ecx
  rep movsq
  movzwl (%r14),%eax
  add $2,%r14
  dec %r15
  mov %r12,keep(%rip)
  mov %r13,keep+8(%rip)
  mov %r14,keep+16(%rip)
  mov %r15,keep+24(%rip)
  imul $${8 * INPUT_FIELDS.length},%rax,%rax
  lea inputs(%rip),%r11
  add %rax,%r11
  movups (%r11),%xmm0
  movups 32(%r11),%xmm1
  pushq 48(%r11)
  # MXCSR: the rounding mode is r10, DAZ the carry, FTZ the zero flag
  mov 72(%r11),%eax
  and $3,%eax
  shl $13,%eax
  mov 48(%r11),%ecx
  mov %ecx,%edx
  and $1,%ecx
  shl $6,%ecx
  or %ecx,%eax
  and $0x40,%edx
  shl $9,%edx
  or %edx,%eax
  or $0x1f80,%eax
  mov %eax,control(%rip)
  ldmxcsr control(%rip)
  mov (%r11),%rax
  mov 8(%r11),%rbx
  mov 16(%r11),%rcx
  mov 24(%r11),%rdx
  mov 32(%r11),%r8
  mov 40(%r11),%r9
  mov 56(%r11),%rsi
  add $${MIDDLE},%rsi
  mov 64(%r11),%rdi
  add $${MIDDLE},%rdi
  mov 72(%r11),%r10
  mov %rsi,%rbp
  mov %rsi,%r12
  mov %rsi,%r13
  mov $0,%r14
  mov $0,%r15
  popfq
  call *routine(%rip)
  pushfq
  stmxcsr control(%rip)
  mov %r12,%r14
  mov %r13,%r15
  mov keep+8(%rip),%r13
  mov %rax,(%r13)
  mov %rbx,8(%r13)
  mov %rcx,16(%r13)
  mov %rdx,24(%r13)
  mov %rsi,32(%r13)
  mov %rdi,40(%r13)
  mov %r8,48(%r13)
  mov %r9,56(%r13)
  mov %rbp,64(%r13)
  mov %r10,72(%r13)
  mov %r14,80(%r13)
  mov %r15,88(%r13)
  pop %rax
  mov %rax,96(%r13)
  cld
  mov $${MIDDLE - HALF},%esi
  mov $${HALF / 4},%ecx
  xor %edx,%edx
  movabs $0x100000001b3,%rbx
sum:
  lodsq
  xor %rax,%rdx
  rol $13,%rdx
  imul %rbx,%rdx
  dec %ecx
  jnz sum
  mov %rdx,104(%r13)
  movups %xmm0,112(%r13)
  movups %xmm1,128(%r13)
  mov control(%rip),%eax
  mov %rax,144(%r13)
  add $${8 * RESULT_WORDS},%r13
  mov keep(%rip),%r12
  mov keep+16(%rip),%r14
  mov keep+24(%rip),%r15
  jmp again
end:
  add $24,%r12
  jmp next
done:
  lea results(%rip),%rsi
  mov %r13,%rbx
  sub %rsi,%rbx
write:
  mov $1,%eax
  mov $1,%edi
  mov %rbx,%rdx
  syscall
  test %rax,%rax
  jle quit
  add %rax,%rsi
  sub %rax,%rbx
  jnz write
quit:
  mov $231,%eax
  mov $5,%edi
  syscall

  .section .routines,"ax",@progbits
`;
  variants.forEach((each, i) => {
    const at = ROUTINES + i * ROUTINE_BYTES;
    const code = [...each.code(at), 0xc3];
    if (code.length > ROUTINE_BYTES) throw new Error(`${each.place.key} is too long`);
    text += `.byte ${code.join(',')}\n.skip ${ROUTINE_BYTES - code.length},0xcc\n`;
  });
  text += `
  .data
routine: .quad 0
control: .quad 0
keep: .quad 0,0,0,0
pattern:
`;
  text += `.byte ${Array.from({ length: 2 * HALF }, (_, i) => (i * 73 + (i >> 3) * 29 + 11) & 255).join(',')}\n`;
  text += 'inputs:\n';
  for (const input of inputs) text += words(INPUT_FIELDS.map((name) => input[name]));
  text += 'variants:\n';
  variants.forEach((each, i) => {
    text += `.quad 0x${(ROUTINES + i * ROUTINE_BYTES).toString(16)},list${i},${each.inputs.length}\n`;
  });
  text += '.quad 0\n';
  variants.forEach((each, i) => {
    text += `list${i}:\n${each.inputs.length > 0 ? `.short ${each.inputs.join(',')}\n` : ''}`;
  });
  text += `
  .section .middle,"aw",@nobits
  .skip 0x2000
  .bss
  .balign 4096
results: .skip ${Math.max(8, total * 8 * RESULT_WORDS)}
  .section .note.GNU-stack,"",@progbits
`;
  return text;
}

const folder = mkdtempSync(join(tmpdir(), 'elftrace-x86-batch-'));
process.once('exit', () => {
  rmSync(folder, { recursive: true, force: true });
});
let built = 0;

/** Assembles and links a program with gcc; the path of the executable. */
function buildProgram(inputs: readonly Input[], variants: readonly Variant[]): string {
  const path = join(folder, `batch-${built++}`);
  writeFileSync(`${path}.s`, source(inputs, variants));
  const sections = [
    ['.text', TEXT], ['.routines', ROUTINES], ['.middle', MIDDLE - 0x1000],
  ].map(([name, at]) => `-Wl,--section-start=${String(name)}=0x${Number(at).toString(16)}`); // prettier-ignore
  const result = spawnSync('gcc', [
    '-nostdlib', '-static', '-no-pie', '-Wl,--build-id=none', '-Wl,-Tdata=0x800000', '-Wl,-Tbss=0x2000000', ...sections,
    `${path}.s`, '-o', path,
  ]); // prettier-ignore
  if (result.status !== 0) throw new Error(result.stderr.toString());
  return path;
}

/** What of a processor the rows need beyond the base, by the names of /proc/cpuinfo. */
const NEEDED = ['bmi1', 'bmi2', 'adx', 'movbe', 'abm', 'popcnt', 'fsgsbase', 'sse4_2', 'cx16', 'lahf_lm', 'clflushopt'];
/**
 * rdfsbase %rax: kernels before 5.9 do not let programs execute it, whatever the processor says.
 */
const READ_FS_BASE = [0xf3, 0x48, 0x0f, 0xae, 0xc0];

/**
 * True when programs of batches run on this machine; what only some makers execute is left out and
 * asked for itself.
 */
export const isNative = (): boolean => hasFeatures(NEEDED) && ask(READ_FS_BASE) === 'executed';

// -------------------------------------------------------------------------------------- comparison

/** Where qemu-user 7.2 differs from processors; those win. */
export const QEMU_DIFFERENCES: readonly (readonly [name: RegExp, reason: string])[] = [
  [/^syscall$/, 'rcx and r11 keep their values'],
  [/^sh[lr]d$/, 'rip-relative addresses do not count the immediate'],
  [/^bs[fr]$/, 'a source of 0 clears the upper half of a 32-bit target'],
  [/^cmpxchg8b$/, 'the other flags are not kept'],
  [/^ad[co]x$/, 'the carry of 32-bit forms spills into RFLAGS'],
  [/^blsi$/, 'carry is inverted'],
  [/^((add|sub|mul|div|min|max)[sp]|h(add|sub)p|addsubp|dpp)[sd]$/, 'of two NaNs another one comes out'],
  [/^(sqrt|cmp)[sp][sd]$|^u?comis[sd]$|^cvt(ss2sd|sd2ss|ps2pd|pd2ps)$/, 'subnormal operands are not noted in MXCSR'],
];

/** What qemu does otherwise than processors is not compared with it. */
const qemuDiffers = ({ place }: Variant): boolean =>
  QEMU_DIFFERENCES.some(([name]) => name.test(place.row.mnemonics[1]));

const FLAGS_WORD = RESULT_NAMES.indexOf('flags');

const checkingOf = (inputs: readonly Input[], excused: (variant: Variant) => boolean): Checking<Variant, Aspect> => ({
  words: { names: RESULT_NAMES, bytes: 8, little: true },
  recordBytes: () => 8 * RESULT_WORDS,
  row: ({ place }) => place.key,
  text: ({ place, code }, input) => {
    const bytes = code(ROUTINES).map((each) => each.toString(16).padStart(2, '0'));
    return `${place.key} (${bytes.join(' ')}) with ${inputText(inputs[input]!)}`;
  },
  crosses: ({ place, aspects }) => {
    const bytes = memorySize(place, 8);
    return aspects.includes('memory') && bytes > 1 && !(bytes === 16 && mustAlign(place));
  },
  crossing: 'page-crossing',
  excused,
  ignored: ({ ignoredFlags, undefinedResult }, input, i, got, want) => {
    if (i < FLAGS_WORD) return undefinedResult?.(inputs[input]!) === true;
    if (i > FLAGS_WORD) return false;
    const mask = BigInt(ignoredFlags(inputs[input]!));
    return (got | mask) === (want | mask);
  },
});

// ---------------------------------------------------------------------------------------- coverage

/**
 * Nops that qemu-user 7.2 refuses, and processors of some makers: 0f 0d and 0f 18 on registers.
 * They are compared with the same program made of 0f 1f, and with this processor as far as it
 * executes them.
 */
const isReservedNop = ({ row, map, opcode }: RowPlace): boolean =>
  row.mnemonics[1] === 'nop' && map === 1 && (opcode === 0x0d || opcode === 0x18);

/** The variant with the nop that all describe in place of a reserved one. */
const described = (variant: Variant): Variant => ({
  ...variant,
  code: (at) => {
    const code = variant.code(at);
    const found = code.findIndex((byte, i) => byte === 0x0f && code[i + 1] === variant.place.opcode);
    return code.map((byte, i) => (i === found + 1 ? 0x1f : byte));
  },
});

export class Coverage extends RowCoverage<Aspect> {}

export interface X86Result extends BatchResult {
  /** Names of those it was compared with. */
  readonly with: readonly string[];
}

/** Runs all rows here, under qemu and on this processor, and records what was executed. */
/** @param every  of the inputs of a variant each so-many-th is taken */
export function runBatches(coverage: Coverage, every = 1, rows?: readonly RowPlace[]): X86Result {
  const { inputs, variants: all } = new Planner(rows);
  const variants = thinned(all, every, ({ place }) => place);
  const program = (list: readonly Variant[]) => {
    const path = buildProgram(inputs, list);
    const ours = runHere(
      x86_64,
      new Uint8Array(readFileSync(path)),
      (machine) => `stopped in routine ${(Number(machine.register('pc')) - ROUTINES) / ROUTINE_BYTES}`,
    );
    return { list, path, ours };
  };
  const compare = (
    name: string,
    command: readonly string[],
    { list, ours }: ReturnType<typeof program>,
    path: string,
    excused: (variant: Variant) => boolean = () => false,
  ): X86Result => {
    const theirs = runOutside(command, path);
    const result = check(list, ours, theirs, name, coverage, checkingOf(inputs, excused));
    return { ...result, with: theirs.output ? [name] : [] };
  };
  const here = 'this processor';
  const qemu = ['qemu-x86_64', '-cpu', 'max'];
  const most = program(variants.filter((each) => !isReservedNop(each.place)));
  const results = [compare(qemu.join(' '), qemu, most, most.path, qemuDiffers)];
  if (isNative()) results.push(compare(here, [], most, most.path));
  for (const opcode of [0x0d, 0x18]) {
    const list = variants.filter((each) => isReservedNop(each.place) && each.place.opcode === opcode);
    if (list.length === 0) continue;
    const reserved = program(list);
    // qemu has no reserved nops: nothing may come of them, which is what comes of the one that is
    // described.
    results.push(compare(`${qemu.join(' ')}, as 0f 1f`, qemu, reserved, buildProgram(inputs, list.map(described))));
    if (isNative() && ask([0x0f, opcode, opcode === 0x0d ? 0xc0 : 0xe0]) === 'executed') {
      results.push(compare(here, [], reserved, reserved.path));
    }
  }
  return {
    cases: results.reduce((sum, each) => sum + each.cases, 0),
    differences: results.flatMap((each) => each.differences),
    with: [...new Set(results.flatMap((each) => each.with))],
  };
}

/** What a row must have shown. */
function requiredAspects(place: RowPlace): Aspect[] {
  const { row } = place;
  const name = row.mnemonics[1];
  if (isUnitOnly(place)) return ['corners'];
  const out: Aspect[] = ['corners'];
  const isString = row.operands.some((each) => /^[XY]/.test(each));
  if (row.hasModRm && row.modRm < 0 && row.flow === 'next') {
    const isRegister = (each: string): boolean => /^[EGVWRUPQNBHZ]/.test(each);
    if ((row.modMask & 2) !== 0 && row.operands.some(isRegister)) out.push('distinct');
    if ((row.modMask & 2) !== 0 && row.operands.filter(isRegister).length > 1) out.push('equal');
    if ((row.modMask & 1) !== 0 && !/^(nop|div|idiv|ldmxcsr)$/.test(name)) out.push('memory');
    if (row.operands.some((each) => /^[EG]b$/.test(each)) && (row.modMask & 2) !== 0) out.push('high-byte');
    if (row.lock) out.push('lock');
  }
  if (isString) out.push('memory', 'repeat', 'address32', 'segment');
  const bytes = memorySize(place, 8);
  const aligned = bytes === 16 && mustAlign(place);
  if (out.includes('memory') && bytes > 1 && !aligned && !isString) out.push('page-crossing');
  if (bytes > 0 && row.modMask !== 2 && !/^(nop|clflushopt)$/.test(name)) out.push('fault');
  if (out.includes('fault') && bytes > 1 && !aligned) out.push('window-crossing');
  return out;
}

/** What the record lacks: one text a row. */
export const missingCoverage = (coverage: Coverage): string[] =>
  executableRows().flatMap((place) => {
    const exempt = isUnitOnly(place) || place.row.mnemonics[1] === 'ldmxcsr';
    return coverage.lacks(place.key, requiredAspects(place), exempt ? 0 : MIN_CASES);
  });
