/**
 * s390x instructions: the length of every one, and text and flow of those that compilers put around
 * function entries.
 *
 * What a patcher must know of the ISA:
 *
 * - Instructions are 2, 4 or 6 bytes long, on even addresses, most significant byte first. The two
 *   upper bits of the first byte tell the length: 00 is 2, 01 and 10 are 4, 11 is 6. A walk over
 *   unknown code stays in step from any instruction's start.
 * - Relative branches count in halfwords from their own first byte. `brasl R,target` (c0 R5, then
 *   32 bits) calls and puts the return address into R; it reaches 4 GiB both ways, so kernels need
 *   no islands. `brcl M,target` (c0 M4, then 32 bits) jumps where the mask M has the bit of the
 *   condition code: 15 always (`jg`), 0 never. So `brcl 0,target` is a nop of 6 bytes that carries
 *   a target, and one byte turns it into the jump and back.
 * - A site is 6 bytes, no power of two: with facility 85 the processor takes an aligned store of 8
 *   bytes as one, so kernels ask for sites on multiples of 8; without, only the byte of the mask
 *   changes while others execute (S-SITE-4).
 * - r0 as a base or index register means 0, and `br %r0` is a nop: a call through r0 comes back by
 *   way of another register.
 *
 * Source: z/Architecture Principles of Operation (SA22-7832-13), instruction formats and the
 * instruction lists of appendix B; extended mnemonics as binutils prints them.
 */
import { reaches, type Reach } from '../bits.js';
import { ElftraceError, hex } from '../errors.js';
import type { Flow, Instruction, Isa } from '../isa/instruction.js';
import type { Operands } from '../isa/table.js';
import type { Address } from '../units.js';

/** First byte of the branches that a site is made of, and of other instructions of 6 bytes. */
export const OPCODE_OF_SIX = 0xc0;
/** Lower half of their second byte; the upper one is the register or the mask. */
export const BRASL = 5;
export const BRCL = 4;
/** Bytes of one of them. */
export const SITE_BYTES = 6;

/** From the first byte of a `brasl` or `brcl`. */
export const BRANCH_REACH: Reach = { min: -0x1_0000_0000n, max: 0xffff_fffen, alignBytes: 2 };

/** Length of an instruction by its first byte. */
export function instructionBytes(first: number): 2 | 4 | 6 {
  return first < 0x40 ? 2 : first < 0xc0 ? 4 : 6;
}

/** Where the branch at `at` of `code`, which stands at `place`, leads. */
export function targetOf(code: Uint8Array, at: number, place: Address): Address {
  const halfwords = (code[at + 2]! << 24) | (code[at + 3]! << 16) | (code[at + 4]! << 8) | code[at + 5]!;
  return BigInt.asUintN(64, place + 2n * BigInt(halfwords));
}

/**
 * `brasl` or `brcl` at `place` to `target`.
 * @param half  BRASL or BRCL
 * @param upper  register or mask
 * @throws ElftraceError 'branch-out-of-range'
 */
export function encodeBranch(half: number, upper: number, place: Address, target: Address): Uint8Array {
  if (!reaches(BRANCH_REACH, place, target)) {
    throw new ElftraceError('branch-out-of-range', `a branch at ${hex(place)} does not reach ${hex(target)}`, {
      address: place,
    });
  }
  const halfwords = Number(BigInt.asUintN(32, (target - place) >> 1n));
  return Uint8Array.of(
    OPCODE_OF_SIX,
    (upper << 4) | half,
    halfwords >>> 24,
    (halfwords >>> 16) & 0xff,
    (halfwords >>> 8) & 0xff,
    halfwords & 0xff,
  );
}

// ----------------------------------------------------------------------------------------- formats

/** A field: its first bit in the instruction, its width, and how it is read. */
type Field = readonly [bit: number, width: number, kind?: 'signed' | 'branch' | 'long'];

/** Bits are counted as in the manual: 0 is the first and most significant one. */
interface Format {
  readonly fields: Readonly<Record<string, Field>>;
  /** `%f` is a register, `f` a number, `d(x,b)` and `d(b)` storage, `d(l,b)` one of a length. */
  readonly text: string;
}

const STORAGE = { b: [16, 4], d: [20, 12] } as const;
/** A displacement of 20 bits: the upper 8 stand behind the lower 12. */
const FAR = { b: [16, 4], d: [20, 12, 'long'] } as const;
const INDEXED = { r: [8, 4], x: [12, 4] } as const;

const FORMATS = {
  i: { fields: { i: [8, 8] }, text: 'i' },
  rr: { fields: { r: [8, 4], s: [12, 4] }, text: '%r,%s' },
  'rr-mask': { fields: { m: [8, 4], s: [12, 4] }, text: '%s' },
  rre: { fields: { r: [24, 4], s: [28, 4] }, text: '%r,%s' },
  'rre-one': { fields: { r: [24, 4] }, text: '%r' },
  rrf: { fields: { t: [16, 4], r: [24, 4], s: [28, 4] }, text: '%r,%s,%t' },
  rx: { fields: { ...INDEXED, ...STORAGE }, text: '%r,d(x,b)' },
  'rx-mask': { fields: { m: [8, 4], x: [12, 4], ...STORAGE }, text: 'd(x,b)' },
  rxy: { fields: { ...INDEXED, ...FAR }, text: '%r,d(x,b)' },
  rs: { fields: { r: [8, 4], t: [12, 4], ...STORAGE }, text: '%r,%t,d(b)' },
  shift: { fields: { r: [8, 4], ...STORAGE }, text: '%r,d(b)' },
  rsy: { fields: { r: [8, 4], t: [12, 4], ...FAR }, text: '%r,%t,d(b)' },
  ri: { fields: { r: [8, 4], i: [16, 16, 'signed'] }, text: '%r,i' },
  'ri-bits': { fields: { r: [8, 4], i: [16, 16] }, text: '%r,i' },
  'ri-branch': { fields: { r: [8, 4], to: [16, 16, 'branch'] }, text: '%r,to' },
  'ri-mask': { fields: { m: [8, 4], to: [16, 16, 'branch'] }, text: 'to' },
  ril: { fields: { r: [8, 4], i: [16, 32, 'signed'] }, text: '%r,i' },
  'ril-bits': { fields: { r: [8, 4], i: [16, 32] }, text: '%r,i' },
  'ril-branch': { fields: { r: [8, 4], to: [16, 32, 'branch'] }, text: '%r,to' },
  'ril-mask': { fields: { m: [8, 4], to: [16, 32, 'branch'] }, text: 'to' },
  'rie-registers': { fields: { r: [8, 4], s: [12, 4], m: [32, 4], to: [16, 16, 'branch'] }, text: '%r,%s,to' },
  'rie-signed': {
    fields: { r: [8, 4], m: [12, 4], i: [32, 8, 'signed'], to: [16, 16, 'branch'] },
    text: '%r,i,to',
  },
  'rie-bits': { fields: { r: [8, 4], m: [12, 4], i: [32, 8], to: [16, 16, 'branch'] }, text: '%r,i,to' },
  si: { fields: { i: [8, 8], ...STORAGE }, text: 'd(b),i' },
  siy: { fields: { i: [8, 8, 'signed'], ...FAR }, text: 'd(b),i' },
  'siy-bits': { fields: { i: [8, 8], ...FAR }, text: 'd(b),i' },
  sil: { fields: { i: [32, 16, 'signed'], ...STORAGE }, text: 'd(b),i' },
  'sil-bits': { fields: { i: [32, 16], ...STORAGE }, text: 'd(b),i' },
  ss: { fields: { l: [8, 8], ...STORAGE, c: [32, 4], e: [36, 12] }, text: 'd(l,b),e(c)' },
} as const satisfies Readonly<Record<string, Format>>;

type FormatName = keyof typeof FORMATS;

/**
 * Opcodes by format: `mnemonic opcode`. The opcode is the first byte; with four digits the first
 * two bytes; with a dot the first byte and the lower half of the second (one digit) or the last
 * byte (two).
 */
const OPCODES: Readonly<Record<FormatName, string>> = {
  i: 'svc 0a',
  rr: 'lpr 10 lnr 11 ltr 12 lcr 13 nr 14 clr 15 or 16 xr 17 lr 18 cr 19 ar 1a sr 1b alr 1e slr 1f basr 0d',
  'rr-mask': 'bcr 07',
  rre:
    'lpgr b900 lngr b901 ltgr b902 lcgr b903 lgr b904 lgbr b906 lghr b907 agr b908 sgr b909 algr b90a slgr b90b ' +
    'msgr b90c dsgr b90d lrvgr b90f lgfr b914 agfr b918 sgfr b919 algfr b91a slgfr b91b msgfr b91c dsgfr b91d ' +
    'llgfr b916 llgtr b917 lcgfr b913 lrvr b91f cgr b920 clgr b921 cgfr b930 clgfr b931 lbr b926 lhr b927 ngr b980 ' +
    'ogr b981 xgr b982 flogr b983 llgcr b984 llghr b985 mlgr b986 dlgr b987 alcgr b988 slbgr b989 llcr b994 ' +
    'llhr b995 alcr b998 slbr b999 msr b252 epsw b98d',
  'rre-one': 'ipm b222',
  rrf: 'ark b9f8 srk b9f9 nrk b9f4 ork b9f6 xrk b9f7 agrk b9e8 sgrk b9e9 ngrk b9e4 ogrk b9e6 xgrk b9e7',
  rx: 'sth 40 la 41 stc 42 ic 43 lh 48 ch 49 ah 4a sh 4b st 50 n 54 cl 55 o 56 x 57 l 58 c 59 a 5a s 5b ms 71 al 5e sl 5f',
  'rx-mask': 'bc 47',
  rxy:
    'ltg e3.02 lg e3.04 ag e3.08 sg e3.09 alg e3.0a slg e3.0b msg e3.0c dsg e3.0d lrvg e3.0f lt e3.12 lgf e3.14 ' +
    'lgh e3.15 llgf e3.16 llgt e3.17 agf e3.18 sgf e3.19 algf e3.1a slgf e3.1b dsgf e3.1d lrv e3.1e lrvh e3.1f ' +
    'cg e3.20 clg e3.21 stg e3.24 strvg e3.2f cgf e3.30 clgf e3.31 strv e3.3e strvh e3.3f sty e3.50 ly e3.58 ' +
    'cy e3.59 ay e3.5a sy e3.5b cly e3.55 lay e3.71 stcy e3.72 icy e3.73 sthy e3.70 lhy e3.78 lb e3.76 lgb e3.77 ' +
    'ng e3.80 og e3.81 xg e3.82 llgc e3.90 llgh e3.91 llc e3.94 llh e3.95 mlg e3.86 dlg e3.87',
  rs: 'cs ba',
  shift: 'srl 88 sll 89 sra 8a',
  rsy:
    'lmg eb.04 srag eb.0a srlg eb.0c sllg eb.0d stmg eb.24 csg eb.30 csy eb.14 rll eb.1d rllg eb.1c srak eb.dc ' +
    'srlk eb.de sllk eb.df lang eb.e4 laog eb.e6 laxg eb.e7 laag eb.e8 lan eb.f4 lao eb.f6 lax eb.f7 laa eb.f8',
  ri: 'lhi a7.8 lghi a7.9 ahi a7.a aghi a7.b mhi a7.c mghi a7.d chi a7.e cghi a7.f',
  'ri-bits':
    'iihh a5.0 iihl a5.1 iilh a5.2 iill a5.3 nihh a5.4 nihl a5.5 nilh a5.6 nill a5.7 oihh a5.8 oihl a5.9 oilh a5.a ' +
    'oill a5.b llihh a5.c llihl a5.d llilh a5.e llill a5.f tmlh a7.0 tmll a7.1 tmhh a7.2 tmhl a7.3',
  'ri-branch': 'bras a7.5 brct a7.6 brctg a7.7',
  'ri-mask': 'brc a7.4',
  ril: 'lgfi c0.1 msgfi c2.0 msfi c2.1 agfi c2.8 afi c2.9 cgfi c2.c cfi c2.d',
  'ril-bits':
    'xihf c0.6 xilf c0.7 iihf c0.8 iilf c0.9 nihf c0.a nilf c0.b oihf c0.c oilf c0.d llihf c0.e llilf c0.f ' +
    'slgfi c2.4 slfi c2.5 algfi c2.a alfi c2.b clgfi c2.e clfi c2.f',
  'ril-branch': 'larl c0.0 brasl c0.5 lgrl c4.8 lrl c4.d stgrl c4.b strl c4.f exrl c6.0 crl c6.d clrl c6.f',
  'ril-mask': 'brcl c0.4',
  'rie-registers': 'cgrj ec.64 clgrj ec.65 crj ec.76 clrj ec.77',
  'rie-signed': 'cgij ec.7c cij ec.7e',
  'rie-bits': 'clgij ec.7d clij ec.7f',
  si: 'tm 91 mvi 92 ni 94 cli 95 oi 96 xi 97',
  siy: 'asi eb.6a agsi eb.7a alsi eb.6e algsi eb.7e',
  'siy-bits': 'tmy eb.51 mviy eb.52 niy eb.54 cliy eb.55 oiy eb.56 xiy eb.57',
  sil: 'mvhhi e544 mvghi e548 mvhi e54c chhsi e554 cghsi e558 chsi e55c',
  'sil-bits': 'clhhsi e555 clghsi e559 clfhsi e55d',
  ss: 'mvc d2 clc d5 nc d4 oc d6 xc d7',
};

interface Opcode {
  readonly mnemonic: string;
  readonly format: Format;
}

const byOpcode = new Map<string, Opcode>();
const byMnemonic = new Map<string, Opcode>();
for (const [name, list] of Object.entries(OPCODES)) {
  const words = list.split(' ');
  for (let i = 0; i < words.length; i += 2) {
    const opcode = { mnemonic: words[i]!, format: FORMATS[name as FormatName] };
    byOpcode.set(words[i + 1]!, opcode);
    byMnemonic.set(opcode.mnemonic, opcode);
  }
}

// ------------------------------------------------------------------------------------------ decode

const digits = (value: number, count: number): string => value.toString(16).padStart(count, '0');

/** The opcode of an instruction of `size` bytes that are there. */
function opcodeAt(code: Uint8Array, offset: number, size: number): Opcode | undefined {
  const first = digits(code[offset]!, 2);
  const second = code[offset + 1]!;
  return (
    byOpcode.get(first) ??
    byOpcode.get(first + digits(second, 2)) ??
    byOpcode.get(`${first}.${digits(second & 0xf, 1)}`) ??
    (size === 6 ? byOpcode.get(`${first}.${digits(code[offset + 5]!, 2)}`) : undefined)
  );
}

function fieldAt(code: Uint8Array, offset: number, [bit, width, kind]: Field): number {
  let value = 0;
  for (let at = bit; at < bit + width;) {
    const take = Math.min(8 - (at & 7), bit + width - at);
    const byte = code[offset + (at >> 3)]!;
    value = value * 2 ** take + ((byte >> (8 - (at & 7) - take)) & (2 ** take - 1));
    at += take;
  }
  if (kind === 'long') value += ((code[offset + 4]! << 24) >> 24) * 0x1000;
  if (kind === 'signed' || kind === 'branch') value = value >= 2 ** (width - 1) ? value - 2 ** width : value;
  return kind === 'branch' ? 2 * value : value;
}

const RETURN = 14;
const ALWAYS = 15;

function flowOf({ mnemonic }: Opcode, operands: Operands, address: Address): Flow {
  const { m = 0, s = 0, to } = operands;
  const target = BigInt.asUintN(64, address + BigInt(to ?? 0));
  switch (mnemonic) {
    case 'svc':
      return { kind: 'syscall' };
    case 'bras':
    case 'brasl':
      return { kind: 'call', target };
    case 'basr':
      return { kind: s === 0 ? 'next' : 'indirect-call' };
    case 'brc':
    case 'brcl':
      if (m === 0) return { kind: 'next' };
      return { kind: m === ALWAYS ? 'jump' : 'branch', target };
    case 'bcr':
      // Conditional ones go on to the next instruction as well.
      if (m !== ALWAYS || s === 0) return { kind: 'next' };
      return { kind: s === RETURN ? 'return' : 'indirect-jump' };
    case 'bc':
      return { kind: m === ALWAYS ? 'indirect-jump' : 'next' };
    case 'brct':
    case 'brctg':
      return { kind: 'branch', target };
    default:
      // What compares and branches has both a mask and a target.
      return operands['m'] !== undefined && to !== undefined ? { kind: 'branch', target } : { kind: 'next' };
  }
}

/** Conditions of branches by mask. */
const CONDITIONS = ['nop', 'o', 'h', 'nle', 'l', 'nhe', 'lh', 'ne', 'e', 'nlh', 'he', 'nl', 'le', 'nh', 'no', ''];
/** Those of a compare that branches: there is no overflow. */
const COMPARED: Readonly<Record<number, string>> = { 2: 'h', 4: 'l', 6: 'ne', 8: 'e', 10: 'nl', 12: 'nh' };

/** The mnemonic with its mask in it, as assemblers write it; null: the mask is none of theirs. */
function extended(mnemonic: string, mask: number): string | null {
  switch (mnemonic) {
    case 'brc':
      return `j${CONDITIONS[mask]!}`;
    case 'brcl':
      return `jg${CONDITIONS[mask]!}`;
    case 'bcr':
      return mask === 0 ? 'nopr' : `b${CONDITIONS[mask]!}r`;
    case 'bc':
      return mask === 0 ? 'nop' : `b${CONDITIONS[mask]!}`;
    default: {
      const condition = COMPARED[mask];
      return condition === undefined ? null : mnemonic + condition;
    }
  }
}

/** `d(x,b)`: registers of number 0 are none. */
function storage(displacement: number, inner: readonly string[]): string {
  return inner.length === 0 ? String(displacement) : `${displacement}(${inner.join(',')})`;
}

const registers = (...numbers: readonly number[]): string[] =>
  numbers.filter((each) => each !== 0).map((n) => `%r${n}`);

function operandText(piece: string, operands: Operands, address: Address): string {
  const of = (name: string): number => operands[name] ?? 0;
  switch (piece) {
    case 'd(x,b)':
      return storage(of('d'), registers(of('x'), of('b')));
    case 'd(b)':
      return storage(of('d'), registers(of('b')));
    case 'e(c)':
      return storage(of('e'), registers(of('c')));
    case 'd(l,b)':
      return storage(of('d'), [String(of('l') + 1), ...registers(of('b'))]);
    case 'to':
      return hex(BigInt.asUintN(64, address + BigInt(of('to'))));
    default:
      return piece.startsWith('%') ? `%r${of(piece.slice(1))}` : String(of(piece));
  }
}

export const s390xIsa: Isa = {
  text: 'rows',
  minInstructionBytes: 2,
  maxInstructionBytes: 6,
  decode(code, offset, address): Instruction {
    const size = instructionBytes(code[offset] ?? 0);
    const unknown: Instruction = {
      address,
      sizeBytes: size,
      mnemonic: 'unknown',
      operands: {},
      flow: { kind: 'next' },
    };
    if (offset + size > code.length) return { ...unknown, sizeBytes: 2 };
    const opcode = opcodeAt(code, offset, size);
    if (opcode === undefined) return unknown;
    const operands: Record<string, number> = {};
    for (const [name, field] of Object.entries(opcode.format.fields)) operands[name] = fieldAt(code, offset, field);
    const known: Instruction = { ...unknown, mnemonic: opcode.mnemonic, operands };
    if (opcode.format.fields['m'] !== undefined && extended(opcode.mnemonic, operands['m']!) === null) return unknown;
    return { ...known, flow: flowOf(opcode, operands, address) };
  },
  format({ mnemonic, operands, address }) {
    const opcode = byMnemonic.get(mnemonic);
    if (opcode === undefined) return mnemonic;
    const { m } = operands;
    const name = m === undefined ? mnemonic : extended(mnemonic, m)!;
    // A nop may leave its operand out.
    if (name === 'nopr' && operands['s'] === 0) return name;
    const pieces = opcode.format.text.match(/[^,(]+(?:\([^)]*\))?/g) ?? [];
    const text = pieces.map((piece) => operandText(piece, operands, address)).join(',');
    return text === '' ? name : `${name} ${text}`;
  },
};
