/**
 * Probes of PowerPC, all four ABIs: which instructions can be probed, how they are executed
 * elsewhere, and the branch that takes the place of a breakpoint.
 *
 * What a patcher must know:
 *
 * - Every change is one aligned word, which every processor fetches whole. The breakpoint is `trap`
 *   = 7fe00008, and the trap leaves the address of the trap itself. No instruction can be cut in
 *   two, with one exception: the prefixed ones of POWER10 are two words, and a trap in the second
 *   would be an operand.
 * - Most instructions do not know where they are, so a copy of them does the same in a slot:
 *
 *       slot:  80 69 00 10      lwz r3,16(r9)     a copy
 *              48 .. .. ..      b address+4       back, without a second trap; else `trap`, and
 *                                                 its handler goes on
 *
 *   What does know it: branches (they write LR, or are relative), addpcis, and prefixed
 *   instructions with R = 1. Branches and addpcis are simulated on the trapped registers; the
 *   34-bit displacement of the prefixed ones is corrected by (address − slot).
 * - A `b` reaches 32 MiB and takes one word, so the jump form needs no thread to be away from any
 *   bytes: only the buffer must not be reused while one is in it. A branch that is conditional, or
 *   whose target is in a register, stays a breakpoint.
 *
 *       f:  38 63 00 01   addi r3,r3,1           f:  48 .. .. ..   b buffer
 *
 *       buffer:  stdu r1,-N(r1)                  N steps over what leaf functions keep below r1
 *                r0..r31, nip, msr, ctr, lr, xer, cr, trap = 0x700 into struct pt_regs
 *                r3 = object, r4 = registers; bl callback; everything back
 *                addi r3,r3,1                    the copy; of `bl f`: LR = address+4
 *                b f+4                           of `b f`, `bl f`: b f
 *
 *   Kernels call an emulator of instructions where the copy stands here; a copy needs none, and
 *   serves loads, stores and floating point too.
 * - Between a load-and-reserve and its store-conditional no handler may run: it would take the
 *   reservation away, and the loop would never end.
 *
 * Sources: Power ISA 3.1B books I to III; the three psABIs (red zones, parameter areas); struct
 * pt_regs of the Linux user API for powerpc.
 */
import { type Reach, reaches, signExtend32 } from '../bits.js';
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
} from '../machine/probes.js';
import type { Address, Endian } from '../units.js';
import { branchesAlways, decodePrefixed, isPrefix, ppc32Table, ppc64Table } from './isa.js';
import { branchReach } from './relocs.js';
import { branch, NOP } from './stubs.js';

/** What differs between the ABIs. */
export interface PpcProbeAbi {
  readonly bits: 32 | 64;
  readonly endian: Endian;
  readonly abi: 'sysv' | 'elfv1' | 'elfv2';
}

const TRAP = ppc32Table.encode('tw', { to: 31, ra: 0, rb: 0 });
const SLOT_BYTES = 16;
/** Prefixed instructions lie in one of these whole. */
const PREFIX_BLOCK = 64n;
/** Displacements of 34 bits, with room for where in its slot a copy is. */
const FAR_64: Reach = { min: -0x1_ffff_ff00n, max: 0x1_ffff_ff00n, alignBytes: 4 };
const FAR_32: Reach = { min: -0x1_0000_0000n, max: 0x1_0000_0000n, alignBytes: 4 };

/** K-ADDR-5 of arm64, which serves here as well: how far a load-and-reserve is looked for. */
const RESERVATION_WORDS = 16;
/**
 * P-FN: an ftrace site this many bytes behind the global entry is what a probe of the symbol means
 * (K-ADDR-1).
 */
const SITE_WITHIN = 16n;

// ---------------------------------------------------------------------------------- register frame

/** struct pt_regs: 44 words; the emulator's names, null where a program cannot see the register. */
const SPECIAL: readonly (readonly [name: string, index: number, machine: string | null, fixed?: bigint])[] = [
  ['nip', 32, 'pc'],
  // Problem state, and not zero: the same number that the entries of ftrace put there.
  ['msr', 33, null, 0x4000n],
  ['ctr', 35, 'ctr'],
  ['link', 36, 'lr'],
  ['xer', 37, 'xer'],
  ['ccr', 38, 'cr'],
  ['trap', 40, null, 0x700n],
  ['dar', 41, null, 0n],
  ['dsisr', 42, null, 0n],
];
const PT_REGS_WORDS = 44;
const NIP = 32;
const MSR = 33;
const CTR = 35;
const LINK = 36;
const XER = 37;
const CCR = 38;
const TRAP_NUMBER = 40;

/**
 * Frames as the entries of the runtime lay them out: bytes of the smallest one, of one with
 * pt_regs, and where pt_regs is in it.
 */
const FRAMES = {
  sysv: { word: 4, frame: 192, at: 16, redZone: 0, parameters: 8 },
  // The red zone is 288 bytes for all code, kernels included.
  elfv1: { word: 8, frame: 496, at: 112, redZone: 288, parameters: 112 },
  elfv2: { word: 8, frame: 432, at: 48, redZone: 288, parameters: 96 },
} as const;
/** ELFv2 keeps signal handlers of programs away from this much. */
const PROTECTED_ZONE = 512;

function ppcProbeAbi({ abi }: PpcProbeAbi): ProbeAbi {
  const { word, parameters } = FRAMES[abi];
  const registers = new Map<string, ProbeRegister>();
  for (let i = 0; i < 32; i++) registers.set(`gpr${i}`, { machine: `r${i}`, frameOffset: word * i, bytes: word });
  for (const [name, index, machine, fixed] of SPECIAL) {
    registers.set(name, {
      machine,
      ...(fixed === undefined ? {} : { fixed }),
      frameOffset: word * index,
      bytes: word,
    });
  }
  return {
    registers,
    arguments: ['gpr3', 'gpr4', 'gpr5', 'gpr6', 'gpr7', 'gpr8', 'gpr9', 'gpr10'],
    // The ninth: behind the homes of the first eight on 64 bits, behind the back chain and LR on
    // 32.
    stackArgumentOffset: parameters,
    result: 'gpr3',
    stackPointer: 'gpr1',
    instructionPointer: 'nip',
    threadKey: (cpu) => cpu.register(word === 8 ? 'r13' : 'r2'),
    frameBytes: word * PT_REGS_WORDS,
  };
}

// ------------------------------------------------------------------------------------ instructions

/**
 * Rows that change what a trap may do, or leave an exception: after them no trap comes back to a
 * handler (K-ADDR-5: the class of mtmsr and rfi).
 */
const STATE_CHANGING: ReadonlySet<string> = new Set([
  'mtmsr', 'mtmsrd', 'wrtee', 'wrteei', // and the state
  'rfi', 'rfci', 'rfdi', 'rfmci', 'rfid', 'hrfid', 'rfscv', 'rfebb', // and the address
  'doze', 'nap', 'sleep', 'rvwinkle', 'stop', // state is lost
]); // prettier-ignore

/** They note their own address for the failure handler, or are what a trap ends. */
const TRANSACTIONAL = /^(tbegin|tend|tsr|tabort\w*|treclaim|trechkpt)\.$/;

const LOAD_RESERVE = /^l[bhwdq]arx$/;
const STORE_CONDITIONAL = /^st[bhwdq]cx\.$/;

/** Branches through a register, by row; the register that they lead to. */
const REGISTER_BRANCHES: Readonly<Record<string, 'lr' | 'ctr' | 'tar'>> = {
  bclr: 'lr',
  bclrl: 'lr',
  bcctr: 'ctr',
  bcctrl: 'ctr',
  bctar: 'tar',
  bctarl: 'tar',
};
const BRANCHES: ReadonlySet<string> = new Set([
  'b', 'bl', 'ba', 'bla', 'bc', 'bcl', 'bca', 'bcla', ...Object.keys(REGISTER_BRANCHES),
]); // prettier-ignore

/** What was found at an address. */
type Found =
  | { readonly kind: 'word'; readonly decoded: Decoded; readonly word: number }
  | { readonly kind: 'prefixed'; readonly mnemonic: string; readonly prefix: number; readonly suffix: number };

/** True if a prefixed instruction has a displacement from its own address: types 0 and 2, R = 1. */
const isRelative = (prefix: number): boolean => (prefix & 0x0110_0000) === 0x0010_0000;

/** The displacement of a prefixed instruction: 34 bits, signed. */
function prefixedDisplacement(prefix: number, suffix: number): bigint {
  return BigInt(signExtend32(prefix & 0x3_ffff, 18)) * 0x1_0000n + BigInt(suffix & 0xffff);
}

/** BO says: CTR is counted down. */
const counts = (bo: number): boolean => (bo & 0b00100) === 0;

class PpcProbes {
  private readonly wide: boolean;
  private readonly frame: (typeof FRAMES)[keyof typeof FRAMES];

  constructor(private readonly target: PpcProbeAbi) {
    this.wide = target.bits === 64;
    this.frame = FRAMES[target.abi];
  }

  private wrap(value: bigint): bigint {
    return BigInt.asUintN(this.target.bits, value);
  }

  private word(value: number): Uint8Array {
    return wordBytes(value, this.target.endian);
  }

  private words(values: readonly number[]): Uint8Array {
    const out = new Uint8Array(4 * values.length);
    const view = new DataView(out.buffer);
    const isLittle = this.target.endian === 'little';
    for (const [i, value] of values.entries()) view.setUint32(4 * i, value, isLittle);
    return out;
  }

  private encode(mnemonic: string, operands: Operands): number {
    return (this.wide ? ppc64Table : ppc32Table).encode(mnemonic, operands);
  }

  /** Reads the instruction at an offset; null: there is none that the rows know. */
  private find(bytes: Uint8Array, offset: number): Found | null {
    const view = new ByteView(bytes, this.target.endian, 'code');
    if (offset + 4 > bytes.length) return null;
    const word = view.u32(offset);
    if (this.wide && isPrefix(word)) {
      if (offset + 8 > bytes.length) return null;
      const suffix = view.u32(offset + 4);
      const { mnemonic } = decodePrefixed(word, suffix);
      return mnemonic === 'prefixed' ? null : { kind: 'prefixed', mnemonic, prefix: word, suffix };
    }
    const decoded = (this.wide ? ppc64Table : ppc32Table).decode(word);
    return decoded === null ? null : { kind: 'word', decoded, word };
  }

  /** The instruction whose bytes a `ProbeInstruction` holds. */
  private own(instruction: ProbeInstruction): Found {
    const found = this.find(instruction.bytes, 0);
    // Only decoded instructions become one.
    if (found === null) throw new RangeError('an instruction that was decoded does not decode');
    return found;
  }

  breakpoint(): Uint8Array {
    return this.word(TRAP);
  }

  // -------------------------------------------------------------------------------------- decoding

  /** ELFv2: the symbol of a function stands for its site, or for its local entry (K-ADDR-1). */
  adjust(code: ProbeCode, address: Address): Address {
    if (this.target.abi !== 'elfv2' || address !== code.start) return address;
    for (let at = address; at <= address + SITE_WITHIN; at += 4n) {
      const site = code.siteAt(at);
      if (site?.ip === at) return at;
    }
    return address + BigInt(code.localEntry);
  }

  decode(code: ProbeCode, address: Address): ProbeInstruction | ProbeRefusal {
    const offset = Number(address - code.start);
    const where = `${code.name}+${hex(offset)}`;
    if (address % 4n !== 0n) {
      return refuse('EINVAL', 'misaligned', 'K-ADDR-4', `${where} is not a multiple of 4: no instruction begins there`);
    }
    if (offset < 0 || offset + 4 > code.bytes.length) {
      return refuse('EINVAL', 'not-a-boundary', 'K-ADDR-4', `${where} is outside the function`);
    }
    if (this.secondWords(code).has(offset)) {
      return refuse('EINVAL', 'not-a-boundary', 'K-ADDR-4', `${where} is the second word of a prefixed instruction`);
    }
    const found = this.find(code.bytes, offset);
    if (found === null) {
      return refuse('EINVAL', 'undecodable', 'K-ADDR-5', `no instruction that is known at ${where}`);
    }
    const refusal = this.unprobable(found, code, offset);
    if (refusal) return refusal;
    const sizeBytes = found.kind === 'prefixed' ? 8 : 4;
    const method = this.isSimulated(found) ? 'simulate' : 'copy';
    return {
      kind: 'instruction',
      address,
      bytes: code.bytes.slice(offset, offset + sizeBytes),
      mnemonic: found.kind === 'word' ? found.decoded.row.mnemonic : found.mnemonic,
      method,
      // A fault in a copy is not found in an exception table: then the trap behind the copy tells
      // where it came from.
      boostable: method === 'copy' && !code.hasException(address, address + BigInt(sizeBytes)),
    };
  }

  /**
   * Per word its mnemonic; null: the first or second word of a prefixed instruction, or nothing
   * that is known.
   */
  private readonly namesOf = perFunction(({ bytes }) =>
    Array.from({ length: bytes.length >> 2 }, (_, i) => {
      const found = this.find(bytes, 4 * i);
      return found?.kind === 'word' ? found.decoded.row.mnemonic : null;
    }),
  );

  /**
   * Words that are second ones. Decodes from the start: the word in front may look like a prefix
   * and be the second word of one itself.
   */
  private readonly secondWords = perFunction(({ bytes }): ReadonlySet<number> => {
    const found = new Set<number>();
    if (!this.wide) return found;
    const view = new ByteView(bytes, this.target.endian, 'code');
    for (let at = 0; at + 8 <= bytes.length; at += 4) {
      if (!isPrefix(view.u32(at))) continue;
      at += 4;
      found.add(at);
    }
    return found;
  });

  private isSimulated(found: Found): boolean {
    if (found.kind === 'prefixed') return false;
    const { mnemonic } = found.decoded.row;
    return BRANCHES.has(mnemonic) || mnemonic === 'addpcis';
  }

  /** K-ADDR-5; null: it may be probed. */
  private unprobable(found: Found, code: ProbeCode, offset: number): ProbeRefusal | null {
    if (found.kind === 'word') {
      const { row, operands } = found.decoded;
      const { mnemonic, flow } = row;
      const no = (errno: ProbeErrno, reason: ProbeRefusalCode, why: string): ProbeRefusal =>
        refuse(errno, reason, 'K-ADDR-5', `${mnemonic} ${why}`);
      if (STATE_CHANGING.has(mnemonic)) {
        return no('EINVAL', 'privileged', 'changes the state that a trap is taken in');
      }
      if (flow === 'trap') return no('EINVAL', 'trap', 'is a trap of its own');
      if (flow === 'syscall') return no('EINVAL', 'system', 'enters the kernel');
      if (TRANSACTIONAL.test(mnemonic)) {
        return no('EINVAL', 'unsupported-instruction', 'belongs to a transaction, which a trap ends');
      }
      if ((mnemonic === 'bcctr' || mnemonic === 'bcctrl') && counts(operands['bo'] ?? 0)) {
        return no('EINVAL', 'undecodable', 'that counts down is an invalid form');
      }
    }
    return this.inReservation(code, offset);
  }

  /** The instruction is one of a load-and-reserve ... store-conditional sequence. */
  private inReservation(code: ProbeCode, offset: number): ProbeRefusal | null {
    const names = this.namesOf(code);
    const own = names[offset >> 2] ?? null;
    const no = (why: string): ProbeRefusal =>
      refuse('EINVAL', 'exclusive-sequence', 'K-ADDR-5', `${code.name}+${hex(offset)} ${why}`);
    if (own !== null && (LOAD_RESERVE.test(own) || STORE_CONDITIONAL.test(own))) return no(`is ${own}`);
    for (let at = offset - 4; at >= 0 && at >= offset - 4 * RESERVATION_WORDS; at -= 4) {
      const name = names[at >> 2] ?? null;
      if (name === null) continue;
      if (STORE_CONDITIONAL.test(name)) return null;
      if (LOAD_RESERVE.test(name)) return no(`lies behind the ${name} at +${hex(at)}, whose store has not come yet`);
    }
    return null;
  }

  /**
   * In front of what patching toggles a site has instructions of the compiler, unless they are nops
   * that patching will replace.
   */
  isSiteHeadCode(code: ProbeCode, address: Address): boolean {
    const site = code.siteAt(address);
    const offset = Number(address - code.start);
    if (site === null || address >= site.ip || offset < 0 || offset + 4 > code.bytes.length) return false;
    return new ByteView(code.bytes, this.target.endian, 'code').u32(offset) !== NOP;
  }

  /** Sites behind a prologue have no head, or one that begins there. */
  isSiteAtEntry(code: ProbeCode, address: Address): boolean {
    const site = code.siteAt(address);
    return (
      site?.ip === address &&
      site.start < address &&
      (site.start === code.start || site.start === code.start + BigInt(code.localEntry))
    );
  }

  // ---------------------------------------------------------------------------------------- copies

  /** Bytes of an instruction for another place. */
  private moved(instruction: ProbeInstruction, to: Address): Uint8Array | ProbeRefusal {
    const found = this.own(instruction);
    if (found.kind === 'word' || !isRelative(found.prefix)) return instruction.bytes.slice();
    const displacement = prefixedDisplacement(found.prefix, found.suffix) + instruction.address - to;
    if (displacement !== BigInt.asIntN(34, displacement)) {
      return refuse(
        'ERANGE',
        'out-of-reach',
        'K-SLOT-1',
        `the operand of ${instruction.mnemonic} is not within 8 GiB of its copy at ${hex(to)}`,
      );
    }
    const high = Number(BigInt.asUintN(18, displacement >> 16n));
    const low = Number(displacement & 0xffffn);
    return this.words([((found.prefix & ~0x3_ffff) | high) >>> 0, ((found.suffix & ~0xffff) | low) >>> 0]);
  }

  writeSlot(instruction: ProbeInstruction, slot: Address, boost: boolean): SlotImage | ProbeRefusal {
    const copy = this.moved(instruction, slot);
    if (!(copy instanceof Uint8Array)) return copy;
    const end = slot + BigInt(copy.length);
    const next = instruction.address + BigInt(copy.length);
    if (boost && instruction.boostable && reaches(branchReach, end, next)) {
      return { kind: 'slot', bytes: concatBytes([copy, this.word(branch(end, next))]), end: { kind: 'jump' } };
    }
    return {
      kind: 'slot',
      bytes: concatBytes([copy, this.word(TRAP)]),
      end: { kind: 'breakpoint', offset: copy.length },
    };
  }

  finish(instruction: ProbeInstruction): Address {
    return this.wrap(instruction.address + BigInt(instruction.bytes.length));
  }

  // ------------------------------------------------------------------------------------ simulation

  /** Target of a branch whose target is in the instruction; null: in a register, or no branch. */
  private staticTarget(instruction: ProbeInstruction, { li, bd, la, bda }: Operands): Address | null {
    const relative = li ?? bd;
    if (relative !== undefined) return this.wrap(instruction.address + BigInt(relative));
    const absolute = la ?? bda;
    return absolute === undefined ? null : this.wrap(BigInt(absolute));
  }

  simulate(instruction: ProbeInstruction, cpu: ProbeCpu): SimulationResult {
    const found = this.own(instruction);
    const next = this.finish(instruction);
    if (found.kind === 'prefixed') return { kind: 'next', pc: next };
    const { row, operands } = found.decoded;
    const { mnemonic } = row;
    if (mnemonic === 'addpcis') {
      cpu.setRegister(`r${operands['rt']}`, this.pageAddress(next, operands));
      return { kind: 'next', pc: next };
    }
    if (!BRANCHES.has(mnemonic)) return { kind: 'next', pc: next };
    const through = REGISTER_BRANCHES[mnemonic];
    // Read before CTR and LR change: bclrl leads to the old LR.
    const target =
      through === undefined
        ? (this.staticTarget(instruction, operands) ?? next)
        : this.wrap(cpu.register(through)) & ~3n;
    const { bo, bi } = operands;
    const taken = bo === undefined || bi === undefined || this.isTaken(bo, bi, cpu);
    // LK: LR is written whether the branch is taken or not.
    if ((found.word & 1) === 1) cpu.setRegister('lr', next);
    return { kind: 'next', pc: taken ? target : next };
  }

  /** addpcis: rt = address of the next instruction + (dx << 16). */
  private pageAddress(next: Address, { dx = 0 }: Operands): bigint {
    return this.wrap(next + BigInt(dx) * 0x1_0000n);
  }

  /** Counts CTR down where BO says so. */
  private isTaken(bo: number, bi: number, cpu: ProbeCpu): boolean {
    let countHolds = true;
    if (counts(bo)) {
      const count = this.wrap(cpu.register('ctr') - 1n);
      cpu.setRegister('ctr', count);
      countHolds = (count === 0n) === ((bo & 0b00010) !== 0);
    }
    if ((bo & 0b10000) !== 0) return countHolds;
    const bit = (cpu.register('cr') >> BigInt(31 - bi)) & 1n;
    return countHolds && (bit === 1n) === ((bo & 0b01000) !== 0);
  }

  // ------------------------------------------------------------------------------------------ jump

  windows(code: ProbeCode, address: Address): readonly JumpWindow[] | ProbeRefusal {
    const instruction = this.decode(code, address);
    if (instruction.kind === 'refused') return instruction;
    const found = this.own(instruction);
    const where = `${code.name}+${hex(address - code.start)}`;
    if (found.kind === 'word') {
      const { mnemonic } = found.decoded.row;
      const { bo } = found.decoded.operands;
      if (bo !== undefined && BRANCHES.has(mnemonic)) {
        const why =
          branchesAlways(bo) && REGISTER_BRANCHES[mnemonic] === undefined ? 'is of the form of' : 'may lead elsewhere:';
        return refuse(
          'EILSEQ',
          'conditional-branch',
          'K-PPC-1',
          `${mnemonic} at ${where} ${why} a conditional or register branch, whose way on the buffer does not know`,
        );
      }
    }
    if (code.hasException(address, address + BigInt(instruction.bytes.length))) {
      return refuse('EILSEQ', 'exception-table', 'K-PPC-1', `an exception table names ${where}`);
    }
    return [
      {
        kind: 'window',
        form: 'b',
        address,
        instructions: [instruction],
        bytes: instruction.bytes,
        jumpBytes: 4,
        reach: branchReach,
        bufferBytes: this.bufferBytes,
      },
    ];
  }

  /**
   * `register` := value: two words on 32 bits, five on 64 (lis, ori, sldi 32, oris, ori), whatever
   * the value.
   */
  private load(register: number, value: bigint): number[] {
    const half = (at: bigint): number => Number((value >> at) & 0xffffn);
    const lis = (si: number): number => this.encode('addis', { rt: register, ra0: 0, si: signExtend32(si, 16) });
    const or = (name: 'ori' | 'oris', ui: number): number => this.encode(name, { rs: register, ra: register, ui });
    if (!this.wide) return [lis(half(16n)), or('ori', half(0n))];
    return [
      lis(half(48n)),
      or('ori', half(32n)),
      this.encode('rldicr', { rs: register, ra: register, sh6: 32, me6: 31 }),
      or('oris', half(16n)),
      or('ori', half(0n)),
    ];
  }

  /**
   * Words: 63 or 52 up to the call, 41 up to the restored r1, at most 11 or 8 for the instruction
   * and the way on.
   */
  private get bufferBytes(): number {
    return this.wide ? 464 : 416;
  }

  /** Place in the register frame, from r1 after the frame was made. */
  private at(index: number): number {
    return this.frame.at + this.frame.word * index;
  }

  private save(register: number, index: number): number {
    return this.wide
      ? this.encode('std', { rs: register, ra0: 1, ds: this.at(index) })
      : this.encode('stw', { rs: register, ra0: 1, d: this.at(index) });
  }

  private restore(register: number, index: number): number {
    return this.wide
      ? this.encode('ld', { rt: register, ra0: 1, ds: this.at(index) })
      : this.encode('lwz', { rt: register, ra0: 1, d: this.at(index) });
  }

  private push(bytes: number): number {
    return this.wide
      ? this.encode('stdu', { rs: 1, ra: 1, ds: -bytes })
      : this.encode('stwu', { rs: 1, ra: 1, d: -bytes });
  }

  private pop(bytes: number): number {
    return this.encode('addi', { rt: 1, ra0: 1, si: bytes });
  }

  private special(name: 'mfspr' | 'mtspr', register: number, spr: number): number {
    return this.encode(name, name === 'mfspr' ? { rt: register, spr } : { rs: register, spr });
  }

  /** What is the same in every buffer. */
  private readonly sequences = new Map<
    number,
    { readonly enter: number[]; readonly note: number[]; readonly leave: number[] }
  >();

  private sequencesFor(bytes: number): { readonly enter: number[]; readonly note: number[]; readonly leave: number[] } {
    const known = this.sequences.get(bytes);
    if (known) return known;
    const li = (value: number): number => this.encode('addi', { rt: 3, ra0: 0, si: value });
    const others = Array.from({ length: 30 }, (_, i) => i + 2);
    const made = {
      enter: [
        this.push(bytes),
        this.save(0, 0),
        ...others.map((n) => this.save(n, n)),
        this.encode('addi', { rt: 3, ra0: 1, si: bytes }),
        this.save(3, 1),
      ],
      // r3 holds the address of the probe.
      note: [
        this.save(3, NIP),
        li(0x4000),
        this.save(3, MSR),
        this.special('mfspr', 3, 9),
        this.save(3, CTR),
        this.special('mfspr', 3, 8),
        this.save(3, LINK),
        this.special('mfspr', 3, 1),
        this.save(3, XER),
        this.encode('mfcr', { rt: 3 }),
        this.save(3, CCR),
        li(0x700),
        this.save(3, TRAP_NUMBER),
      ],
      leave: [
        this.restore(3, LINK),
        this.special('mtspr', 3, 8),
        this.restore(3, CTR),
        this.special('mtspr', 3, 9),
        this.restore(3, XER),
        this.special('mtspr', 3, 1),
        this.restore(3, CCR),
        this.encode('mtcrf', { fxm: 0xff, rs: 3 }),
        this.restore(0, 0),
        ...others.map((n) => this.restore(n, n)),
        this.pop(bytes),
      ],
    };
    this.sequences.set(bytes, made);
    return made;
  }

  /** Saves, calls, restores: nothing that the code has is changed behind it. */
  private template(window: JumpWindow, request: BufferRequest, entry: Address): Uint8Array | ProbeRefusal {
    const { frame, redZone: below } = this.frame;
    const bytes = frame + (this.target.abi === 'elfv2' && request.redZone ? PROTECTED_ZONE : below);
    const { enter, note, leave } = this.sequencesFor(bytes);
    const head = [
      ...enter,
      ...this.load(3, window.address),
      ...note,
      ...(this.wide && request.toc !== null ? this.load(2, request.toc) : []),
      ...this.load(3, request.op),
      this.encode('addi', { rt: 4, ra0: 1, si: this.frame.at }),
    ];
    const from = request.address + BigInt(4 * head.length);
    if (!reaches(branchReach, from, entry)) {
      return refuse(
        'ERANGE',
        'out-of-reach',
        'K-PPC-1',
        `the callback at ${hex(entry)} is not within 32 MiB of ${hex(from)}`,
      );
    }
    return this.words([...head, (branch(from, entry) | 1) >>> 0, ...leave]);
  }

  build(window: JumpWindow, request: BufferRequest): DetourBuffer | ProbeRefusal {
    const { address } = request;
    const instruction = window.instructions[0]!;
    const far = (what: string): ProbeRefusal =>
      refuse('ERANGE', 'out-of-reach', 'K-PPC-1', `${what} is not within 32 MiB of the buffer at ${hex(address)}`);
    if (!reaches(branchReach, window.address, address)) return far('the probe');
    if (this.wide && request.toc === null) {
      return refuse('ENOSYS', 'no-optimization', 'K-PPC-2', 'the TOC that the callback needs is not known');
    }
    const head = this.template(window, request, request.callees[0] ?? 0n);
    if (!(head instanceof Uint8Array)) return head;
    const start = address + BigInt(head.length);
    const tail = this.tail(instruction, start);
    if (tail === null) return far('where the code goes on');
    if ('kind' in tail) return tail;
    return { kind: 'buffer', address, bytes: concatBytes([head, ...tail]), copiedOffset: head.length };
  }

  /** The instruction and the way on, for this place; null: out of reach. */
  private tail(instruction: ProbeInstruction, start: Address): readonly Uint8Array[] | ProbeRefusal | null {
    const next = this.finish(instruction);
    const found = this.own(instruction);
    if (found.kind === 'word') {
      const { row, operands } = found.decoded;
      const target = BRANCHES.has(row.mnemonic) ? this.staticTarget(instruction, operands) : null;
      if (target !== null) {
        const link = (found.word & 1) === 1 ? this.setLink(next) : [];
        // An absolute branch leads to the same place from everywhere.
        if (operands['la'] !== undefined) return [this.words([...link, (found.word & ~1) >>> 0])];
        const from = start + BigInt(4 * link.length);
        return reaches(branchReach, from, target) ? [this.words([...link, branch(from, target)])] : null;
      }
    }
    let copy: Uint8Array;
    if (found.kind === 'word' && found.decoded.row.mnemonic === 'addpcis') {
      const { operands } = found.decoded;
      copy = this.words(this.load(operands['rt'] ?? 0, this.pageAddress(next, operands)));
    } else {
      // The two words of a prefixed instruction may not lie on both sides of a boundary of 64.
      const pad = found.kind === 'prefixed' && start % PREFIX_BLOCK === PREFIX_BLOCK - 4n;
      const moved = this.moved(instruction, pad ? start + 4n : start);
      if (!(moved instanceof Uint8Array)) return moved;
      copy = pad ? concatBytes([this.word(NOP), moved]) : moved;
    }
    const end = start + BigInt(copy.length);
    return reaches(branchReach, end, next) ? [copy, this.word(branch(end, next))] : null;
  }

  /**
   * LR := value, with nothing else changed: a register is lent from a frame beyond what leaf
   * functions keep below r1.
   */
  private setLink(value: Address): number[] {
    const size = this.wide ? PROTECTED_ZONE + 64 : 32;
    const place = this.frame.word === 8 ? 32 : 8;
    const std = (name: 'std' | 'stw' | 'ld' | 'lwz'): number => {
      const register = name === 'std' || name === 'stw' ? { rs: 3 } : { rt: 3 };
      return this.encode(name, { ...register, ra0: 1, [this.wide ? 'ds' : 'd']: place });
    };
    return [
      this.push(size),
      std(this.wide ? 'std' : 'stw'),
      ...this.load(3, value),
      this.special('mtspr', 3, 8),
      std(this.wide ? 'ld' : 'lwz'),
      this.pop(size),
    ];
  }

  jump(window: JumpWindow, buffer: Address): Uint8Array {
    return this.word(branch(window.address, buffer));
  }

  support(): ProbeSupport {
    const store = (address: Address, bytes: Uint8Array): TextStep => ({ kind: 'store', address, bytes });
    const sync: TextStep = { kind: 'sync' };
    return {
      kind: 'kprobes',
      abi: ppcProbeAbi(this.target),
      trapDelta: 0,
      breakpoint: () => this.breakpoint(),
      kernelsServeSites: true,
      adjust: (code, address) => this.adjust(code, address),
      decode: (code, address) => this.decode(code, address),
      isSiteHeadCode: (code, address) => this.isSiteHeadCode(code, address),
      isSiteAtEntry: (code, address) => this.isSiteAtEntry(code, address),
      slots: {
        sizeBytes: SLOT_BYTES,
        alignBytes: SLOT_BYTES,
        reach: this.wide ? FAR_64 : FAR_32,
        write: (instruction, slot, boost) => this.writeSlot(instruction, slot, boost),
        finish: (instruction) => this.finish(instruction),
      },
      simulate: (instruction, cpu) => this.simulate(instruction, cpu),
      optimization: {
        kind: 'jump',
        // One word is replaced; the second one of a prefixed instruction stays.
        maxBytes: 4,
        alignBytes: SLOT_BYTES,
        callees: ['elftrace_probe_hit'],
        calleeReach: branchReach,
        needsQuiescence: false,
        windows: (code, address) => this.windows(code, address),
        sweep: null,
        build: (window, request) => this.build(window, request),
        jump: (window, buffer) => this.jump(window, buffer),
        optimize: (window, buffer) => [store(window.address, this.jump(window, buffer)), sync],
        undo: (window) => [store(window.address, this.breakpoint()), sync],
      },
    };
  }
}

/** Probes of one of the four targets. */
export function createPpcProbes(target: PpcProbeAbi): ProbeSupport {
  return new PpcProbes(target).support();
}
