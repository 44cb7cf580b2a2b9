/**
 * Probes of x86-64: which instructions can be probed, how they are executed elsewhere, and the jump
 * that takes the place of a breakpoint.
 *
 * A breakpoint is one byte, cc, and the processor that executes it stands behind it: the trap's
 * instruction pointer is address + 1. Since instructions have 1 to 15 bytes, an address is an
 * instruction only if decoding from the function's start arrives there; cc in the middle of one
 * would change an operand. The instruction that gave its first byte is executed in a slot:
 *
 *   slot:  8b 0d xx xx xx xx   mov d(%rip),%ecx       its displacement corrected by (original −
 *                                                     slot)
 *          e9 xx xx xx xx      jmp address+6          "boosted": no second trap. Else cc, and
 *                                                     the handler of that trap goes on
 *
 * Instructions that read or write rip otherwise (calls, jumps, loops) are simulated on the trapped
 * registers; `syscall` leaves its return address in rcx, which is put right behind the copy.
 *
 * The jump e9 rel32 has five bytes, so it may cover several instructions. What it needs besides
 * reach:
 *
 *   f:    8d 40 01   lea 1(%rax),%eax  <- probe  f:    e9 rel32    jmp buffer
 *   f+3:  8b 0d d32  mov d(%rip),%ecx            f+5:  d32's tail  never executed
 *   f+9:  11 c8      adc %ecx,%eax               f+9:  11 c8       the buffer comes back here
 *
 *   1. no code may jump to f+1 … f+5, which only decoding the whole function tells, and no indirect
 *      jump may be in it (it could);
 *   2. no thread may stand at f+3 when the bytes change: wait until all have been scheduled;
 *   3. the five bytes are not stored at once: cc is there already, then the tail, then e9, with all
 *      processors synchronised in between.
 *
 * The buffer saves flags and registers in the order of struct pt_regs, calls the callback with (op,
 * regs), restores, executes copies of the replaced instructions and jumps back. The flags are
 * restored last, so a carry set before the window is there for adc.
 *
 * Sources: Intel SDM volume 2 (opcode maps), volume 3 9.1.3 (cross-modifying code), System V psABI;
 * struct pt_regs of the Linux user API.
 */
import { ByteView, concatBytes } from '../bytes.js';
import { hex } from '../errors.js';
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
  type TextStep,
} from '../machine/probes.js';
import type { Address } from '../units.js';
import { operandsOf, type X86Operand } from './decode.js';
import { decodeInto, X86Instruction } from './isa.js';
import { conditionHolds } from './live.js';

const INT3 = 0xcc;
const JUMP_BYTES = 5;
/** Longest instruction that can be the last of a window plus what is in front of it. */
const MAX_WINDOW = JUMP_BYTES - 1 + 15;
/** MAX_OPTIMIZED_LENGTH: 16 bytes of instruction, 4 of displacement. */
const MAX_OPTIMIZED = 20;
/** One copy of 15 bytes and a jump. */
const SLOT_BYTES = 32;
const FAR = 0x7fff_ffffn;

const WORD = 0xffff_ffff_ffff_ffffn;
const wrap = (value: bigint): bigint => BigInt.asUintN(64, value);

// --------------------------------------------------------------------------------------- registers

/**
 * Order of struct pt_regs, 8 bytes each, by the names of kprobe events; the second name is the
 * emulator's.
 */
const FRAME: readonly (readonly [name: string, machine: string | null, fixed?: bigint])[] = [
  ['r15', 'r15'], ['r14', 'r14'], ['r13', 'r13'], ['r12', 'r12'], ['bp', 'rbp'], ['bx', 'rbx'], ['r11', 'r11'],
  ['r10', 'r10'], ['r9', 'r9'], ['r8', 'r8'], ['ax', 'rax'], ['cx', 'rcx'], ['dx', 'rdx'], ['si', 'rsi'], ['di', 'rdi'],
  ['orig_ax', null, WORD], ['ip', 'pc'], ['cs', null, 0x33n], ['flags', 'rflags'], ['sp', 'rsp'], ['ss', null, 0x2bn],
]; // prettier-ignore
const FRAME_BYTES = 8 * FRAME.length;

export const x86ProbeAbi: ProbeAbi = {
  registers: new Map(
    FRAME.map(([name, machine, fixed], i): [string, ProbeRegister] => [
      name,
      { machine, ...(fixed === undefined ? {} : { fixed }), frameOffset: 8 * i, bytes: 8 },
    ]),
  ),
  arguments: ['di', 'si', 'dx', 'cx', 'r8', 'r9'],
  stackArgumentOffset: 8,
  result: 'ax',
  stackPointer: 'sp',
  instructionPointer: 'ip',
  frameBytes: FRAME_BYTES,
  threadKey(cpu, mode) {
    if (mode === 'one') return 0n;
    // The first word of the segment points to itself (fs), or to who runs (gs).
    const word = cpu.read(cpu.register(mode === 'fs' ? 'fs_base' : 'gs_base'), 8);
    return word === null ? 0n : new ByteView(word, 'little', 'thread').u64(0);
  },
};

// ------------------------------------------------------------------------------------------- rules

/** Bits of a table of 256, from ranges of hex: `70-7f 9a`. */
function opcodes(text: string): ReadonlySet<number> {
  const found = new Set<number>();
  for (const word of text.split(' ')) {
    const [first, last = first] = word.split('-').map((each) => Number.parseInt(each, 16));
    for (let at = first!; at <= last!; at++) found.add(at);
  }
  return found;
}

/** K-BOOST-1, one-byte map: not boostable. */
const NEVER = opcodes('62 70-7f 9a cc-ce d6 d8-df e0-e3 e8 e9 eb f0-f4');
/** K-BOOST-1, two-byte map: only these. */
const ONLY = opcodes(
  '02 03 06 08 09 1f 20-23 31 40-4f 60-6b 6e 6f 74-77 7e 7f 90-9f a0 a1 a3-a5 a8 a9 ab-ad af b0-b7 bb-bf c0 c1 c8-cf ' +
    'd1-d3 d5 d8 d9 db-dd df e1 e2 e5 e8 e9 eb-ed ef f1-f3 f5 f8-fa fc-fe',
);

/** K-BOOST-1 for a decoded instruction; exception tables are the caller's business. */
function isBoostable(x: X86Instruction): boolean {
  if (x.addressSizePrefix || x.segmentPrefix === 0x2e) return false;
  // VEX, EVEX and XOP lie in maps of their own.
  if (x.encoding !== 'legacy') return false;
  const reg = (x.modRm >> 3) & 7;
  if (x.map === 1) return ONLY.has(x.opcode);
  if (x.map !== 0) return false;
  if (NEVER.has(x.opcode)) return false;
  switch (x.opcode) {
    case 0xc0:
    case 0xc1:
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
      return reg !== 6;
    case 0xf6:
    case 0xf7:
      return reg !== 1;
    case 0xfe:
      return reg === 0 || reg === 1;
    case 0xff:
      return reg === 0 || reg === 1 || reg === 4;
    default:
      return true;
  }
}

/** What a simulated instruction is. */
type Simulated = 'call' | 'jump' | 'branch' | 'loop' | 'indirect-call' | 'indirect-jump';

function simulated(x: X86Instruction): Simulated | null {
  const { opcode, map } = x;
  if (x.encoding !== 'legacy') return null;
  if (map === 0) {
    if (opcode === 0xe8) return 'call';
    if (opcode === 0xe9 || opcode === 0xeb) return 'jump';
    if (opcode >> 4 === 7) return 'branch';
    if (opcode >= 0xe0 && opcode <= 0xe3) return 'loop';
    if (opcode === 0xff) {
      const reg = (x.modRm >> 3) & 7;
      if (reg === 2) return 'indirect-call';
      if (reg === 4) return 'indirect-jump';
    }
  }
  return map === 1 && opcode >> 4 === 8 ? 'branch' : null;
}

const EINVAL = 'EINVAL' as const;
const EILSEQ = 'EILSEQ' as const;

/**
 * `ud2; .ascii "kvm"` and its relative of Xen: prefixes that make the next instruction be emulated.
 */
const FORCED = [
  [0x0f, 0x0b, 0x6b, 0x76, 0x6d],
  [0x0f, 0x0b, 0x78, 0x65, 0x6e],
] as const;

/** K-ADDR-5; null: it may be probed. */
function unprobable(x: X86Instruction, bytes: Uint8Array, at: number): ProbeRefusal | null {
  const { opcode, map } = x;
  const reg = (x.modRm >> 3) & 7;
  const no = (errno: 'EINVAL' | 'EILSEQ' | 'EOPNOTSUPP', code: ProbeRefusal['code'], why: string): ProbeRefusal =>
    refuse(errno, code, 'K-ADDR-5', `${x.mnemonic} ${why}`);
  if (FORCED.some((prefix) => prefix.every((byte, i) => bytes[at + i] === byte))) {
    return refuse(EINVAL, 'forced-emulation', 'K-ADDR-5', 'the prefix makes a hypervisor emulate what follows');
  }
  if (x.encoding !== 'legacy') return null;
  if (map === 0) {
    switch (opcode) {
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xf1:
        return no(EILSEQ, 'trap', 'is a trap of its own');
      case 0x8e:
        if (reg === 2) return no(EINVAL, 'masks-interrupts', 'masks interrupts until the next instruction is done');
        break;
      case 0x17:
        return no(EINVAL, 'masks-interrupts', 'masks interrupts until the next instruction is done');
      case 0xca:
      case 0xcb:
      case 0x9a:
      case 0xea:
        return no('EOPNOTSUPP', 'far-branch', 'leads to another segment');
      case 0xcf:
        return no('EOPNOTSUPP', 'far-branch', 'returns from an interrupt');
      case 0xff:
        if (reg === 3 || reg === 5) return no('EOPNOTSUPP', 'far-branch', 'leads to another segment');
        break;
      default:
    }
    if (opcode === 0xc7 && x.modRm === 0xf8) {
      return no('EOPNOTSUPP', 'unsupported-instruction', 'has a second way on, relative to its place');
    }
    return null;
  }
  if (map === 1) {
    if (opcode === 0x0b || opcode === 0xb9 || opcode === 0xff) return no(EILSEQ, 'trap', 'is a trap of its own');
    // The group of vmcall, vmlaunch and their like: 0f 01 with a register form.
    if (opcode === 0x01 && x.modRm >= 0xc0 && (reg === 0 || reg === 3)) {
      return no('EOPNOTSUPP', 'virtualisation', 'belongs to a hypervisor');
    }
    if (opcode === 0x07 || opcode === 0x35) return no('EOPNOTSUPP', 'far-branch', 'returns to another privilege level');
  }
  return null;
}

// ---------------------------------------------------------------------------------------- decoding

const scratch = new X86Instruction();

/** A function decoded as a whole, once. */
interface Layout {
  /** Offset + 1 of the instruction that holds each byte; 0 from where decoding fails on. */
  readonly owner: Uint32Array;
  /** What makes jumps impossible anywhere in it; null: nothing. */
  readonly refusal: ProbeRefusal | null;
  /** Branches, with their targets relative to the function. */
  readonly branches: readonly { readonly from: number; readonly to: number }[];
}

const layoutOf = perFunction(({ bytes, name, noJumpTables }): Layout => {
  const owner = new Uint32Array(bytes.length);
  const branches: { from: number; to: number }[] = [];
  let refusal: ProbeRefusal | null = null;
  for (let at = 0; at < bytes.length;) {
    const size = decodeInto(scratch, bytes, at);
    const where = `${name}+${hex(at)}`;
    if (size === 0) {
      refusal ??= no(EILSEQ, 'undecodable', 'X-2', `no instruction at ${where}`);
      break;
    }
    owner.fill(at + 1, at, at + size);
    const { map, opcode, encoding, flow } = scratch;
    if (encoding === 'legacy' && map === 0) {
      if (opcode === INT3) {
        refusal ??= no(EILSEQ, 'foreign-breakpoint', 'X-2', `${where} is a breakpoint of somebody else`);
      }
      // ff /4 and ff /5; ea does not exist in 64-bit mode and is undecodable.
      if (opcode === 0xff && ((scratch.modRm >> 3) & 6) === 4 && !noJumpTables) {
        refusal ??= no(EILSEQ, 'indirect-jump', 'X-2', `the indirect jump at ${where} may lead into the window`);
      }
    }
    if (flow === 'jump' || flow === 'branch') branches.push({ from: at, to: at + size + scratch.imm });
    at += size;
  }
  return { owner, refusal, branches };
});

function decode(code: ProbeCode, address: Address): ProbeInstruction | ProbeRefusal {
  const offset = Number(address - code.start);
  const { owner } = layoutOf(code);
  const at = (owner[offset] ?? 0) - 1;
  if (at === offset) return classify(code, offset);
  const where = `${code.name}+${hex(offset)}`;
  if (offset < 0 || offset >= code.bytes.length) {
    return refuse(EILSEQ, 'not-a-boundary', 'K-ADDR-4', `${where} is outside the function`);
  }
  // What is behind the last instruction that can be decoded is looked at by itself.
  const isNext = at < 0 && (offset === 0 || owner[offset - 1]! > 0);
  if (isNext) return classify(code, offset);
  if (at < 0) return refuse(EILSEQ, 'undecodable', 'K-ADDR-4', `${code.name} cannot be decoded up to ${where}`);
  return code.siteAt(address)
    ? refuse(EILSEQ, 'inside-site', 'K-ADDR-7', `${where} is inside an ftrace site`)
    : refuse(EILSEQ, 'not-a-boundary', 'K-ADDR-4', `${where} is inside the instruction at ${code.name}+${hex(at)}`);
}

function classify(code: ProbeCode, offset: number): ProbeInstruction | ProbeRefusal {
  const size = decodeInto(scratch, code.bytes, offset);
  const address = code.start + BigInt(offset);
  if (size === 0) {
    // ud2 with a hypervisor's letters behind it decodes; what does not decode at all is no
    // instruction.
    return refuse(EILSEQ, 'undecodable', 'K-ADDR-5', `no instruction at ${code.name}+${hex(offset)}`);
  }
  const refusal = unprobable(scratch, code.bytes, offset);
  if (refusal) return refusal;
  const method = simulated(scratch) === null ? 'copy' : 'simulate';
  return {
    kind: 'instruction',
    address,
    bytes: code.bytes.slice(offset, offset + size),
    mnemonic: scratch.mnemonic,
    method,
    boostable: method === 'copy' && isBoostable(scratch) && !code.hasException(address, address + BigInt(size)),
  };
}

// ------------------------------------------------------------------------------------------ copies

/**
 * Bytes of an instruction for another place: an address relative to rip keeps its meaning.
 * @returns a refusal where the new displacement has more than 32 bits
 */
function moved(instruction: ProbeInstruction, to: Address): Uint8Array | ProbeRefusal {
  const bytes = instruction.bytes.slice();
  decodeInto(scratch, bytes, 0);
  if (!scratch.ripRelative) return bytes;
  const displacement = BigInt(scratch.disp) + instruction.address - to;
  // With an address-size prefix the sum is cut to 32 bits, so every distance will do.
  if (!scratch.addressSizePrefix && displacement !== BigInt.asIntN(32, displacement)) {
    return refuse(
      'ERANGE',
      'out-of-reach',
      'X-4',
      `the operand of ${instruction.mnemonic} is not within 2 GiB of its copy at ${hex(to)}`,
    );
  }
  new ByteView(bytes, 'little').insertU32(scratch.dispOffset, Number(BigInt.asUintN(32, displacement)));
  return bytes;
}

/** e9 rel32; the distance is checked by who calls. */
function jumpTo(from: Address, to: Address): Uint8Array {
  const bytes = new Uint8Array(JUMP_BYTES);
  bytes[0] = 0xe9;
  new ByteView(bytes, 'little').insertU32(1, Number(BigInt.asUintN(32, to - (from + 5n))));
  return bytes;
}

const fits = (from: Address, to: Address): boolean => {
  const distance = to - (from + 5n);
  return distance >= -FAR && distance <= FAR;
};

function writeSlot(instruction: ProbeInstruction, slot: Address, boost: boolean): SlotImage | ProbeRefusal {
  const copy = moved(instruction, slot);
  if (!(copy instanceof Uint8Array)) return copy;
  const end = slot + BigInt(copy.length);
  const next = instruction.address + BigInt(copy.length);
  if (boost && instruction.boostable && fits(end, next)) {
    return { kind: 'slot', bytes: concatBytes([copy, jumpTo(end, next)]), end: { kind: 'jump' } };
  }
  return {
    kind: 'slot',
    bytes: concatBytes([copy, Uint8Array.of(INT3)]),
    end: { kind: 'breakpoint', offset: copy.length },
  };
}

function finishSlot(instruction: ProbeInstruction, _slot: Address, cpu: ProbeCpu): Address {
  const next = wrap(instruction.address + BigInt(instruction.bytes.length));
  // `syscall` puts the address behind itself into rcx.
  if (instruction.mnemonic === 'syscall') cpu.setRegister('rcx', next);
  return next;
}

// -------------------------------------------------------------------------------------- simulation

const GENERAL = [
  'rax', 'rcx', 'rdx', 'rbx', 'rsp', 'rbp', 'rsi', 'rdi', 'r8', 'r9', 'r10', 'r11', 'r12', 'r13', 'r14', 'r15',
] as const; // prettier-ignore

function readWord(cpu: ProbeCpu, address: Address): bigint | null {
  const bytes = cpu.read(address, 8);
  return bytes === null ? null : new ByteView(bytes, 'little').u64(0);
}

/** Where an indirect branch leads, or the address that could not be read. */
function indirectTarget(operand: X86Operand | undefined, cpu: ProbeCpu): { target: Address } | { fault: Address } {
  if (operand?.kind === 'register') return { target: cpu.register(GENERAL[operand.number]!) };
  if (operand?.kind !== 'memory') return { fault: 0n };
  let address = operand.displacement;
  if (operand.base >= 0) address += cpu.register(GENERAL[operand.base]!);
  if (operand.index >= 0) address += cpu.register(GENERAL[operand.index]!) << BigInt(operand.scale);
  if (operand.address32) address = BigInt.asUintN(32, address);
  if (operand.segment !== null) address += cpu.register(`${operand.segment}_base`);
  address = wrap(address);
  const target = readWord(cpu, address);
  return target === null ? { fault: address } : { target };
}

function simulate(instruction: ProbeInstruction, cpu: ProbeCpu): SimulationResult {
  const { address, bytes } = instruction;
  const x = new X86Instruction();
  decodeInto(x, bytes, 0);
  const next = wrap(address + BigInt(bytes.length));
  const target = wrap(next + BigInt(x.imm));
  const go = (pc: Address): SimulationResult => ({ kind: 'next', pc });
  const call = (to: Address): SimulationResult => {
    const stack = wrap(cpu.register('rsp') - 8n);
    const word = new Uint8Array(8);
    new ByteView(word, 'little').insertU64(0, next);
    if (!cpu.write(stack, word)) return { kind: 'fault', address: stack, access: 'write' };
    cpu.setRegister('rsp', stack);
    return go(to);
  };
  const kind = simulated(x);
  switch (kind) {
    case 'call':
      return call(target);
    case 'jump':
      return go(target);
    case 'branch':
      return go(conditionHolds(x.opcode & 15, Number(BigInt.asUintN(32, cpu.register('rflags')))) ? target : next);
    case 'loop': {
      const bits = x.addressSizePrefix ? 32 : 64;
      const before = cpu.register('rcx');
      if (x.opcode === 0xe3) return go(BigInt.asUintN(bits, before) === 0n ? target : next);
      const count = BigInt.asUintN(bits, before - 1n);
      // A 32-bit result clears the upper half.
      cpu.setRegister('rcx', count);
      const zero = (cpu.register('rflags') & 0x40n) !== 0n;
      const wanted = x.opcode === 0xe2 || (x.opcode === 0xe1) === zero;
      return go(count !== 0n && wanted ? target : next);
    }
    case 'indirect-call':
    case 'indirect-jump': {
      const found = indirectTarget(operandsOf(x, bytes, 0, address)[0], cpu);
      if ('fault' in found) return { kind: 'fault', address: found.fault, access: 'read' };
      return kind === 'indirect-call' ? call(found.target) : go(found.target);
    }
    case null:
      return go(next);
    default:
      return kind satisfies never;
  }
}

// -------------------------------------------------------------------------------------------- jump

const no = (
  errno: 'EILSEQ' | 'EINVAL' | 'EBUSY',
  code: ProbeRefusal['code'],
  rule: string,
  why: string,
): ProbeRefusal => refuse(errno, code, rule, why);

/** whether the function leaves the five bytes alone. */
function canOptimize(code: ProbeCode, offset: number): ProbeRefusal | null {
  const { bytes, name, start } = code;
  if (!code.sizeKnown) return no(EILSEQ, 'unknown-size', 'X-2', `the size of ${name} is not known`);
  if (code.isEntryText) return no(EILSEQ, 'entry-text', 'X-2', `${name} is entry code`);
  if (bytes.length - offset < JUMP_BYTES) {
    return no(
      EILSEQ,
      'too-short',
      'X-2',
      `${name} ends ${bytes.length - offset} bytes behind the probe, a jump needs 5`,
    );
  }
  if (code.hasException(start, start + BigInt(bytes.length))) {
    return no(EILSEQ, 'exception-table', 'X-2', `an exception table names a place in ${name}`);
  }
  const { refusal, branches } = layoutOf(code);
  if (refusal !== null) return refusal;
  for (const { from, to } of branches) {
    if (to >= offset + 1 && to <= offset + JUMP_BYTES) {
      return no(EILSEQ, 'branch-into-window', 'X-2', `${name}+${hex(from)} leads to ${name}+${hex(to)}`);
    }
  }
  return null;
}

/** */
function windows(code: ProbeCode, address: Address): readonly JumpWindow[] | ProbeRefusal {
  const first = decode(code, address);
  if (first.kind === 'refused') return first;
  const offset = Number(address - code.start);
  const refusal = canOptimize(code, offset);
  if (refusal) return refusal;
  const instructions: ProbeInstruction[] = [];
  let at = offset;
  while (at - offset < JUMP_BYTES) {
    const size = decodeInto(scratch, code.bytes, at);
    if (size === 0) {
      return no(EILSEQ, 'too-short', 'X-3', `the last instruction of the window reaches beyond ${code.name}`);
    }
    if (!isBoostable(scratch)) {
      return no(
        EINVAL,
        'not-boostable',
        'X-3',
        `${scratch.mnemonic} at ${code.name}+${hex(at)} cannot be followed by a jump`,
      );
    }
    const each = classify(code, at);
    if (each.kind === 'refused') return each;
    instructions.push(each);
    at += size;
  }
  const end = code.start + BigInt(at);
  const other = code.otherPatch(address, end);
  if (other !== null) return no('EBUSY', 'site-in-window', 'X-3', `${other} lies in the window`);
  const bytes = code.bytes.slice(offset, at);
  return [
    {
      kind: 'window',
      form: 'jmp32',
      address,
      instructions,
      bytes,
      jumpBytes: JUMP_BYTES,
      reach: { min: -FAR + 5n, max: FAR + 5n, alignBytes: 1 },
      bufferBytes: TEMPLATE_BYTES + MAX_WINDOW + JUMP_BYTES,
    },
  ];
}

const swept = new X86Instruction();
const NO_NUMBER = NaN;

/** Operands that are displacements of branches: `xbegin` has one, too. */
const isDisplacement = (code: string | undefined): boolean => code === 'J8' || code === 'J32' || code === 'Jz';

/** A number in the instruction that may be an absolute address. */
function constantOf(x: X86Instruction): number {
  if (x.immBytes === 4) return x.imm;
  if (x.immBytes === 8) return x.immHigh * 2 ** 32 + (x.imm >>> 0);
  // Neither base nor rip: SIB without a base, which tables of switches are read with.
  const isAbsolute = x.dispBytes === 4 && !x.ripRelative && (x.modRm & 0xc7) === 4 && (x.sib & 7) === 5;
  return isAbsolute ? x.disp : NO_NUMBER;
}

const x86Sweep: Sweep = {
  alignBytes: 1,
  hasConstantBases: false,
  reset: () => undefined,
  step(bytes, at, out) {
    const size = decodeInto(swept, bytes, at);
    out.sizeBytes = size;
    out.target = NO_NUMBER;
    out.address = NO_NUMBER;
    out.constant = NO_NUMBER;
    const { row } = swept;
    if (size === 0 || row === null) return;
    if (isDisplacement(row.immediates[0])) {
      out.target = size + swept.imm;
      return;
    }
    // lea
    if (swept.ripRelative && swept.map === 0 && swept.opcode === 0x8d) out.address = size + swept.disp;
    else if (swept.immBytes >= 4 || swept.dispBytes === 4) out.constant = constantOf(swept);
  },
};

/** Pushed in this order, so that r15 lies lowest: struct pt_regs. */
const PUSHES = [
  0x57, 0x56, 0x52, 0x51, 0x50, // rdi rsi rdx rcx rax
  0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53, // r8 r9 r10 r11
  0x53, 0x55, // rbx rbp
  0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57, // r12 r13 r14 r15
] as const; // prettier-ignore
const POPS = [
  0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, // r15 r14 r13 r12
  0x5d, 0x5b, // rbp rbx
  0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, // r11 r10 r9 r8
  0x58, 0x59, 0x5a, 0x5e, 0x5f, // rax rcx rdx rsi rdi
] as const; // prettier-ignore

/**
 * The template of X-5. Code of programs may keep data in the 128 bytes below rsp, which kernels'
 * does not: there the buffer steps over them first. Nothing in it changes the flags before they are
 * saved or after they are restored.
 */
function template(request: Pick<BufferRequest, 'address' | 'op' | 'callees' | 'redZone'>): Uint8Array | ProbeRefusal {
  const { address, op, callees, redZone } = request;
  const load = new Uint8Array(10);
  load.set([0x48, 0xbf]); // movabs $op, %rdi
  new ByteView(load, 'little').insertU64(2, op);
  const head = concatBytes([
    Uint8Array.from(redZone ? [0x48, 0x8d, 0x64, 0x24, 0x80] : []), // lea -128(%rsp), %rsp
    Uint8Array.of(0x6a, 0x2b), // push $ss
    Uint8Array.of(0x54), // push %rsp
    Uint8Array.of(0x9c), // pushfq
    Uint8Array.of(0x0f, 0x1f, 0x00), // nop, where kernels may have clac
    Uint8Array.of(0x48, 0x83, 0xec, 0x18), // sub $24, %rsp: cs, ip, orig_ax
    Uint8Array.from(PUSHES),
    Uint8Array.of(0x48, 0x89, 0xe6), // mov %rsp, %rsi
    load,
  ]);
  const callee = callees[0] ?? 0n;
  const from = address + BigInt(head.length);
  if (!fits(from, callee)) {
    return refuse(
      'ERANGE',
      'out-of-reach',
      'X-5',
      `the callback at ${hex(callee)} is not within 2 GiB of ${hex(from)}`,
    );
  }
  const call = jumpTo(from, callee);
  call[0] = 0xe8;
  return concatBytes([
    head,
    call,
    Uint8Array.of(0x48, 0x8b, 0x94, 0x24, 0x90, 0, 0, 0), // mov 18*8(%rsp), %rdx
    Uint8Array.of(0x48, 0x89, 0x94, 0x24, 0xa0, 0, 0, 0), // mov %rdx, 20*8(%rsp)
    Uint8Array.from(POPS),
    Uint8Array.of(0x48, 0x83, 0xc4, 0x18), // add $24, %rsp
    Uint8Array.of(0x48, 0x83, 0xc4, 0x10), // add $16, %rsp: flags, sp
    Uint8Array.of(0x9d), // popfq
    Uint8Array.from(redZone ? [0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0] : []), // lea 128(%rsp), %rsp
  ]);
}

const TEMPLATE_BYTES = 128;

function build(window: JumpWindow, request: BufferRequest): DetourBuffer | ProbeRefusal {
  const head = template(request);
  if (!(head instanceof Uint8Array)) return head;
  const parts = [head];
  let at = request.address + BigInt(head.length);
  for (const each of window.instructions) {
    const copy = moved(each, at);
    if (!(copy instanceof Uint8Array)) return copy;
    parts.push(copy);
    at += BigInt(copy.length);
  }
  const back = window.address + BigInt(window.bytes.length);
  if (!fits(window.address, request.address) || !fits(at, back)) {
    return refuse(
      'ERANGE',
      'out-of-reach',
      'X-4',
      `the buffer at ${hex(request.address)} is not within 2 GiB of the probe`,
    );
  }
  parts.push(jumpTo(at, back));
  return {
    kind: 'buffer',
    address: request.address,
    bytes: concatBytes(parts),
    copiedOffset: head.length,
    // `push %rsp` saved it behind ss and the red zone.
    stackAdjust: 8 + (request.redZone ? 128 : 0),
  };
}

const store = (address: Address, bytes: Uint8Array): TextStep => ({ kind: 'store', address, bytes });
const SYNC: TextStep = { kind: 'sync' };

export const x86Probes: ProbeSupport = {
  kind: 'kprobes',
  abi: x86ProbeAbi,
  trapDelta: 1,
  breakpoint: () => Uint8Array.of(INT3),
  // Offset 0 of a function that begins with a landing pad: indirect calls must find the pad.
  kernelsServeSites: true,
  adjust({ start, bytes }, address) {
    const endbr =
      bytes[0] === 0xf3 && bytes[1] === 0x0f && bytes[2] === 0x1e && (bytes[3] === 0xfa || bytes[3] === 0xfb);
    return address === start && endbr ? address + 4n : address;
  },
  decode,
  slots: {
    sizeBytes: SLOT_BYTES,
    alignBytes: 16,
    reach: { min: -FAR + 64n, max: FAR - 64n, alignBytes: 1 },
    write: writeSlot,
    finish: finishSlot,
  },
  simulate,
  optimization: {
    kind: 'jump',
    maxBytes: MAX_OPTIMIZED,
    alignBytes: 16,
    callees: ['elftrace_probe_hit'],
    calleeReach: { min: -FAR + 64n, max: FAR - 64n, alignBytes: 1 },
    needsQuiescence: true,
    windows,
    sweep: () => x86Sweep,
    build,
    jump: (window, buffer) => jumpTo(window.address, buffer),
    // int3 is there already; storing it once more is what the protocol of live.ts begins with.
    optimize(window, buffer) {
      const jump = jumpTo(window.address, buffer);
      const { address } = window;
      return [
        store(address, Uint8Array.of(INT3)), SYNC,
        store(address + 1n, jump.slice(1)), SYNC,
        store(address, jump.slice(0, 1)), SYNC,
      ]; // prettier-ignore
    },
    //
    undo({ address, bytes }) {
      return [store(address, Uint8Array.of(INT3)), SYNC, store(address + 1n, bytes.slice(1, JUMP_BYTES)), SYNC];
    },
  },
};
