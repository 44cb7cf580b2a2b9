/**
 * The x86-64 opcode map as rows of text: which bytes are an instruction, what it is called and what
 * operands it has. Owns the rows and the tables built from them; `isa.ts` owns the walk over
 * prefixes, ModRM and displacements.
 *
 * A row is `key mnemonic operands flags…`. The key is the opcode byte in its map, with what else
 * must hold:
 *
 *   np. 66. f3. f2.   mandatory prefix; without one of these any prefix goes
 *   mm.               none or 66 (MMX, and the same on XMM registers)
 *   4x.               none, 66, f3, f2 giving the suffixes ps, pd, ss, sd in place of `?`
 *   2x.               none and 66 giving ps and pd; `1x.` none and f3 giving ps and ss
 *   /0 .. /7          ModRM.reg; `/0-3` a range
 *   :c1               the whole ModRM byte
 *   +                 the low three opcode bits name a register: eight rows
 *   cc                sixteen rows, one for each condition, which replaces `CC` in the mnemonic
 *   .w0 .w1 .l0 .l1   VEX/EVEX W and L (`.l1` in EVEX: 256 or 512 bits, `.l2` 512)
 *
 * In a mnemonic `a|b|c` are the names at operand sizes 16, 32 and 64; `[x|y]` makes two rows, W0
 * and W1.
 *
 * Operands use the codes of the opcode maps in Intel's manual, volume 2, appendix A: one capital
 * for the place, small letters for the size. E: ModRM r/m, register or memory; M: memory only; R,
 * U, N: register only (general, XMM, MMX); G: ModRM.reg; V, W: XMM/YMM/ZMM by reg and r/m; P, Q:
 * MMX by reg and r/m, or XMM under 66; S, C, D: segment, control and debug register by reg; H, B:
 * vector and general register in VEX.vvvv; L: register in the top of an immediate byte; K: mask
 * register (Kg reg, Ke r/m, Kr, Km r/m register or memory only, Kh vvvv); T: tile register in the
 * same way; I: immediate; J: displacement; O: absolute address in the instruction; Z: register in
 * the opcode; X, Y: string operands. `Iz` has 2 or 4 bytes by the operand size, `Iv` 2, 4 or 8,
 * `Ib` is one byte. Anything else is a fixed register.
 *
 * Flags: `lock` may have a LOCK prefix with a memory operand; `vsib` needs a SIB byte (its index is
 * a vector); `modreg` takes r/m as a register whatever mod says; `@…` is the flow.
 */
import { ElftraceError } from '../errors.js';
import { type OpcodeMapData, PREBUILT_MAPS } from './prebuilt.js';

/** Where control goes, as far as the opcode says. */
export type OpcodeFlow =
  'next' | 'jump' | 'call' | 'branch' | 'indirect-jump' | 'indirect-call' | 'return' | 'syscall' | 'trap';

/** One row of the map, one per name and condition. */
export interface OpcodeRow {
  /** By operand size 16, 32, 64. */
  readonly mnemonics: readonly [string, string, string];
  readonly operands: readonly string[];
  readonly flow: OpcodeFlow;
  readonly hasModRm: boolean;
  /** Code of the immediate: see `immediateBytes`. */
  readonly immediates: readonly ImmediateCode[];
  readonly lock: boolean;
  readonly vsib: boolean;
  readonly modReg: boolean;
  /**
   * Operands of which only eight exist: bit 0 by ModRM.reg, 1 by r/m, 2 by vvvv (mask and tile
   * registers).
   */
  readonly eightMask: number;
  /** True for a general or mask register by ModRM.reg, which has no EVEX.R'. */
  readonly plainReg: boolean;
  /** True when VEX.vvvv names an operand; otherwise it must be 1111. */
  readonly usesVvvv: boolean;
  /** Bit 0: no prefix, 1: 66, 2: f3, 3: f2. */
  readonly prefixMask: number;
  /** Bit n: ModRM.reg = n is accepted. */
  readonly regMask: number;
  /** Bit 0: memory, 1: register. */
  readonly modMask: number;
  /** The whole ModRM byte, or -1. */
  readonly modRm: number;
  /** Bit 0: W0, 1: W1. */
  readonly wMask: number;
  /** Bit n: vector length n. */
  readonly lMask: number;
}

/**
 * A row as numbers and strings: names by operand size if they differ, joined by `|`; operands,
 * joined by commas; bits (`BITS`); place in `FLOWS`; immediates; the masks.
 */
type OpcodeRowData = readonly [
  mnemonics: string,
  operands: string,
  bits: number,
  flow: number,
  immediates: readonly ImmediateCode[],
  prefixMask: number,
  regMask: number,
  modMask: number,
  modRm: number,
  wMask: number,
  lMask: number,
  eightMask: number,
];

/**
 * Ib 1 byte, Iw 2, Iz 2 or 4, Iv 2, 4 or 8, Id 4, O 4 or 8 by address size; J8 and J32 are
 * displacements.
 */
export type ImmediateCode = 'Ib' | 'Iw' | 'Iz' | 'Iv' | 'Id' | 'O' | 'J8' | 'J32' | 'Jz';

/** Suffixes of conditions by the low four opcode bits, as Intel's manual prints them first. */
export const CONDITIONS = [
  'o', 'no', 'b', 'ae', 'e', 'ne', 'be', 'a', 's', 'ns', 'p', 'np', 'l', 'ge', 'le', 'g',
] as const; // prettier-ignore

// -------------------------------------------------------------------------------------------- rows

const ALU = ['add', 'or', 'adc', 'sbb', 'and', 'sub', 'xor', 'cmp'];
const SHIFTS = ['rol', 'ror', 'rcl', 'rcr', 'shl', 'shr', 'shl', 'sar'];

function alu(): string {
  let text = '';
  ALU.forEach((name, i) => {
    const at = (low: number): string => (8 * i + low).toString(16).padStart(2, '0');
    const lock = name === 'cmp' ? '' : ' lock';
    text += `${at(0)} ${name} Eb,Gb${lock}\n${at(1)} ${name} Ev,Gv${lock}\n${at(2)} ${name} Gb,Eb\n`;
    text += `${at(3)} ${name} Gv,Ev\n${at(4)} ${name} AL,Ib\n${at(5)} ${name} rAX,Iz\n`;
    text += `80/${i} ${name} Eb,Ib${lock}\n81/${i} ${name} Ev,Iz${lock}\n83/${i} ${name} Ev,Ib${lock}\n`;
  });
  SHIFTS.forEach((name, i) => {
    text += `c0/${i} ${name} Eb,Ib\nc1/${i} ${name} Ev,Ib\nd0/${i} ${name} Eb,1\nd1/${i} ${name} Ev,1\n`;
    text += `d2/${i} ${name} Eb,CL\nd3/${i} ${name} Ev,CL\n`;
  });
  return text;
}

/**
 * x87: opcode d8 to df; memory forms by ModRM.reg, register forms by ModRM.reg or by the whole
 * byte.
 */
function x87(): string {
  let text = '';
  const memory: Readonly<Record<string, string>> = {
    d8: 'fadd fmul fcom fcomp fsub fsubr fdiv fdivr',
    d9: 'fld - fst fstp fldenv fldcw fnstenv fnstcw',
    da: 'fiadd fimul ficom ficomp fisub fisubr fidiv fidivr',
    db: 'fild fisttp fist fistp - fld - fstp',
    dc: 'fadd fmul fcom fcomp fsub fsubr fdiv fdivr',
    dd: 'fld fisttp fst fstp frstor - fnsave fnstsw',
    de: 'fiadd fimul ficom ficomp fisub fisubr fidiv fidivr',
    df: 'fild fisttp fist fistp fbld fild fbstp fistp',
  };
  const register: Readonly<Record<string, string>> = {
    d8: 'fadd fmul fcom fcomp fsub fsubr fdiv fdivr',
    d9: 'fld fxch - fstpnce - - - -',
    da: 'fcmovb fcmove fcmovbe fcmovu - - - -',
    db: 'fcmovnb fcmovne fcmovnbe fcmovnu - fucomi fcomi -',
    dc: 'fadd fmul - - fsubr fsub fdivr fdiv',
    dd: 'ffree - fst fstp fucom fucomp - -',
    de: 'faddp fmulp - - fsubrp fsubp fdivrp fdivp',
    df: 'ffreep - - - - fucomip fcomip -',
  };
  const single =
    'd9:d0 fnop,d9:e0 fchs,d9:e1 fabs,d9:e4 ftst,d9:e5 fxam,d9:e8 fld1,d9:e9 fldl2t,d9:ea fldl2e,d9:eb fldpi,' +
    'd9:ec fldlg2,d9:ed fldln2,d9:ee fldz,d9:f0 f2xm1,d9:f1 fyl2x,d9:f2 fptan,d9:f3 fpatan,d9:f4 fxtract,' +
    'd9:f5 fprem1,d9:f6 fdecstp,d9:f7 fincstp,d9:f8 fprem,d9:f9 fyl2xp1,d9:fa fsqrt,d9:fb fsincos,d9:fc frndint,' +
    'd9:fd fscale,d9:fe fsin,d9:ff fcos,da:e9 fucompp,db:e0 fneni,db:e1 fndisi,db:e2 fnclex,db:e3 fninit,' +
    'db:e4 fnsetpm,de:d9 fcompp,df:e0 fnstsw';
  for (const each of single.split(',')) text += `${each} -\n`;
  for (const [opcode, names] of Object.entries(memory)) {
    names.split(' ').forEach((name, i) => {
      if (name !== '-') text += `${opcode}/${i} ${name} M\n`;
    });
  }
  for (const [opcode, names] of Object.entries(register)) {
    names.split(' ').forEach((name, i) => {
      if (name !== '-') text += `${opcode}/${i} ${name} Rx\n`;
    });
  }
  return text;
}

const ONE_BYTE = (): string => `
${alu()}
50+ push Zv
58+ pop Zv
63 movsxd Gv,Ed
68 push Iz
69 imul Gv,Ev,Iz
6a push Ib
6b imul Gv,Ev,Ib
6c insb Yb,DX
6d insw|insd|insd Yz,DX
6e outsb DX,Xb
6f outsw|outsd|outsd DX,Xz
70cc jCC Jb @branch
84 test Eb,Gb
85 test Ev,Gv
86 xchg Eb,Gb lock
87 xchg Ev,Gv lock
88 mov Eb,Gb
89 mov Ev,Gv
8a mov Gb,Eb
8b mov Gv,Ev
8c/0-5 mov Ev,Sw
8d lea Gv,M
8e/0 mov Sw,Ew
8e/2-5 mov Sw,Ew
8f/0 pop Ev
90+ xchg Zv,rAX
98 cbw|cwde|cdqe -
99 cwd|cdq|cqo -
9b wait -
9c pushf|pushfq|pushfq -
9d popf|popfq|popfq -
9e sahf -
9f lahf -
a0 movabs AL,Ob
a1 movabs rAX,Ov
a2 movabs Ob,AL
a3 movabs Ov,rAX
a4 movsb Yb,Xb
a5 movsw|movsd|movsq Yv,Xv
a6 cmpsb Xb,Yb
a7 cmpsw|cmpsd|cmpsq Xv,Yv
a8 test AL,Ib
a9 test rAX,Iz
aa stosb Yb,AL
ab stosw|stosd|stosq Yv,rAX
ac lodsb AL,Xb
ad lodsw|lodsd|lodsq rAX,Xv
ae scasb AL,Yb
af scasw|scasd|scasq rAX,Yv
b0+ mov Zb,Ib
b8+ mov|mov|movabs Zv,Iv
c2 ret Iw @return
c3 ret - @return
c6:f8 xabort Ib
c6/0 mov Eb,Ib
c7:f8 xbegin Jxz @branch
c7/0 mov Ev,Iz
c8 enter Iw,Ib
c9 leave -
ca retf|retf|retfq Iw @return
cb retf|retf|retfq - @return
cc int3 - @trap
cd int Ib @syscall
cf iret|iretd|iretq - @return
d7 xlatb -
${x87()}
e0 loopne Jb @branch
e1 loope Jb @branch
e2 loop Jb @branch
e3 jrcxz Jb @branch
e4 in AL,Ib
e5 in eAX,Ib
e6 out Ib,AL
e7 out Ib,eAX
e8 call Jz @call
e9 jmp Jz @jump
eb jmp Jb @jump
ec in AL,DX
ed in eAX,DX
ee out DX,AL
ef out DX,eAX
f1 int1 - @trap
f4 hlt - @trap
f5 cmc -
f6/0-1 test Eb,Ib
f6/2 not Eb lock
f6/3 neg Eb lock
f6/4 mul Eb
f6/5 imul Eb
f6/6 div Eb
f6/7 idiv Eb
f7/0-1 test Ev,Iz
f7/2 not Ev lock
f7/3 neg Ev lock
f7/4 mul Ev
f7/5 imul Ev
f7/6 div Ev
f7/7 idiv Ev
f8 clc -
f9 stc -
fa cli -
fb sti -
fc cld -
fd std -
fe/0 inc Eb lock
fe/1 dec Eb lock
ff/0 inc Ev lock
ff/1 dec Ev lock
ff/2 call Ev @indirect-call
ff/3 lcall Mp @indirect-call
ff/4 jmp Ev @indirect-jump
ff/5 ljmp Mp @indirect-jump
ff/6 push Ev
`;

const MAP_0F = (): string => `
00/0 sldt Ev
00/1 str Ev
00/2 lldt Ew
00/3 ltr Ew
00/4 verr Ew
00/5 verw Ew
np.01:c0 enclv -
np.01:c1 vmcall -
np.01:c2 vmlaunch -
np.01:c3 vmresume -
np.01:c4 vmxoff -
np.01:c5 pconfig -
np.01:c8 monitor -
np.01:c9 mwait -
np.01:ca clac -
np.01:cb stac -
np.01:cf encls -
np.01:d0 xgetbv -
np.01:d1 xsetbv -
np.01:d4 vmfunc -
np.01:d5 xend -
np.01:d6 xtest -
np.01:d7 enclu -
01:d8 vmrun -
01:d9 vmmcall - @syscall
01:da vmload -
01:db vmsave -
01:dc stgi -
01:dd clgi -
01:de skinit -
01:df invlpga -
np.01:e8 serialize -
f3.01:e8 setssbsy -
f2.01:e8 xsusldtrk -
f2.01:e9 xresldtrk -
f3.01:ea saveprevssp -
f3.01:ec uiret - @return
f3.01:ed testui -
f3.01:ee clui -
f3.01:ef stui -
np.01:ee rdpkru -
np.01:ef wrpkru -
01:f8 swapgs -
01:f9 rdtscp -
f3.01:fa mcommit -
np.01:fa monitorx -
np.01:fb mwaitx -
np.01:fc clzero -
np.01:fd rdpru -
np.01:fe invlpgb -
f2.01:fe rmpupdate -
f3.01:fe rmpadjust -
np.01:ff tlbsync -
f2.01:ff pvalidate -
f3.01:ff psmash -
f3.01/5 rstorssp M
01/0 sgdt M
01/1 sidt M
01/2 lgdt M
01/3 lidt M
01/4 smsw Ev
01/6 lmsw Ew
01/7 invlpg M
02 lar Gv,Ew
03 lsl Gv,Ew
05 syscall - @syscall
06 clts -
07 sysret|sysret|sysretq - @return
08 invd -
f3.09 wbnoinvd -
09 wbinvd -
0b ud2 - @trap
0d/0 prefetch M
0d/1 prefetchw M
0d/2 prefetchwt1 M
0d nop Ev,Gv
0e femms -
0f 3dnow Pq,Qq,Ib
2x.10 movu? Vx,Wx
f3.10 movss Vx,Wx
f2.10 movsd Vx,Wx
2x.11 movu? Wx,Vx
f3.11 movss Wx,Vx
f2.11 movsd Wx,Vx
np.12 movlps Vq,Mq
np.12 movhlps Vq,Uq
66.12 movlpd Vq,Mq
f3.12 movsldup Vx,Wx
f2.12 movddup Vx,Wx
2x.13 movl? Mq,Vq
2x.14 unpckl? Vx,Wx
2x.15 unpckh? Vx,Wx
np.16 movhps Vq,Mq
np.16 movlhps Vq,Uq
66.16 movhpd Vq,Mq
f3.16 movshdup Vx,Wx
2x.17 movh? Mq,Vq
18/0 prefetchnta M
18/1 prefetcht0 M
18/2 prefetcht1 M
18/3 prefetcht2 M
18 nop Ev
19 nop Ev
np.1a bndldx Gq,M
66.1a bndmov Gq,Ev
f3.1a bndcl Gq,Ev
f2.1a bndcu Gq,Ev
1a nop Ev
np.1b bndstx M,Gq
66.1b bndmov Ev,Gq
f3.1b bndmk Gq,M
f2.1b bndcn Gq,Ev
1b nop Ev
np.1c/0 cldemote M
1c nop Ev
1d nop Ev
f3.1e:fa endbr64 -
f3.1e:fb endbr32 -
f3.1e/1 rdsspd|rdsspd|rdsspq Ry
1e nop Ev
1f nop Ev
20 mov Rq,Cq modreg
21 mov Rq,Dq modreg
22 mov Cq,Rq modreg
23 mov Dq,Rq modreg
2x.28 mova? Vx,Wx
2x.29 mova? Wx,Vx
2x.2a cvtpi2? Vx,Qq
f3.2a cvtsi2ss Vx,Ey
f2.2a cvtsi2sd Vx,Ey
2x.2b movnt? Mx,Vx
f3.2b movntss Mx,Vx
f2.2b movntsd Mx,Vx
2x.2c cvtt?2pi Pq,Wx
f3.2c cvttss2si Gy,Wx
f2.2c cvttsd2si Gy,Wx
2x.2d cvt?2pi Pq,Wx
f3.2d cvtss2si Gy,Wx
f2.2d cvtsd2si Gy,Wx
np.2e ucomiss Vx,Wx
66.2e ucomisd Vx,Wx
np.2f comiss Vx,Wx
66.2f comisd Vx,Wx
30 wrmsr -
31 rdtsc -
32 rdmsr -
33 rdpmc -
34 sysenter - @syscall
35 sysexit|sysexit|sysexitq - @return
37 getsec -
40cc cmovCC Gv,Ev
2x.50 movmsk? Gd,Ux
4x.51 sqrt? Vx,Wx
1x.52 rsqrt? Vx,Wx
1x.53 rcp? Vx,Wx
2x.54 and? Vx,Wx
2x.55 andn? Vx,Wx
2x.56 or? Vx,Wx
2x.57 xor? Vx,Wx
4x.58 add? Vx,Wx
4x.59 mul? Vx,Wx
np.5a cvtps2pd Vx,Wx
66.5a cvtpd2ps Vx,Wx
f3.5a cvtss2sd Vx,Wx
f2.5a cvtsd2ss Vx,Wx
np.5b cvtdq2ps Vx,Wx
66.5b cvtps2dq Vx,Wx
f3.5b cvttps2dq Vx,Wx
4x.5c sub? Vx,Wx
4x.5d min? Vx,Wx
4x.5e div? Vx,Wx
4x.5f max? Vx,Wx
mm.60 punpcklbw Pq,Qd
mm.61 punpcklwd Pq,Qd
mm.62 punpckldq Pq,Qd
mm.63 packsswb Pq,Qq
mm.64 pcmpgtb Pq,Qq
mm.65 pcmpgtw Pq,Qq
mm.66 pcmpgtd Pq,Qq
mm.67 packuswb Pq,Qq
mm.68 punpckhbw Pq,Qd
mm.69 punpckhwd Pq,Qd
mm.6a punpckhdq Pq,Qd
mm.6b packssdw Pq,Qq
66.6c punpcklqdq Vx,Wx
66.6d punpckhqdq Vx,Wx
mm.6e movd|movd|movq Pq,Ey
np.6f movq Pq,Qq
66.6f movdqa Vx,Wx
f3.6f movdqu Vx,Wx
np.70 pshufw Pq,Qq,Ib
66.70 pshufd Vx,Wx,Ib
f3.70 pshufhw Vx,Wx,Ib
f2.70 pshuflw Vx,Wx,Ib
mm.71/2 psrlw Nq,Ib
mm.71/4 psraw Nq,Ib
mm.71/6 psllw Nq,Ib
mm.72/2 psrld Nq,Ib
mm.72/4 psrad Nq,Ib
mm.72/6 pslld Nq,Ib
mm.73/2 psrlq Nq,Ib
66.73/3 psrldq Ux,Ib
mm.73/6 psllq Nq,Ib
66.73/7 pslldq Ux,Ib
mm.74 pcmpeqb Pq,Qq
mm.75 pcmpeqw Pq,Qq
mm.76 pcmpeqd Pq,Qq
np.77 emms -
np.78 vmread Ey,Gy
66.78/0 extrq Ux,Ib,Ib
f2.78 insertq Vx,Ux,Ib,Ib
np.79 vmwrite Gy,Ey
66.79 extrq Vx,Ux
f2.79 insertq Vx,Ux
66.7c haddpd Vx,Wx
f2.7c haddps Vx,Wx
66.7d hsubpd Vx,Wx
f2.7d hsubps Vx,Wx
mm.7e movd|movd|movq Ey,Pq
f3.7e movq Vx,Wq
np.7f movq Qq,Pq
66.7f movdqa Wx,Vx
f3.7f movdqu Wx,Vx
80cc jCC Jz @branch
90cc setCC Eb
a0 push FS
a1 pop FS
a2 cpuid -
a3 bt Ev,Gv
a4 shld Ev,Gv,Ib
a5 shld Ev,Gv,CL
a6:c0 montmul -
a6:c8 xsha1 -
a6:d0 xsha256 -
a7:c0 xstore -
a7:c8 xcryptecb -
a7:d0 xcryptcbc -
a7:d8 xcryptctr -
a7:e0 xcryptcfb -
a7:e8 xcryptofb -
a8 push GS
a9 pop GS
aa rsm - @return
ab bts Ev,Gv lock
ac shrd Ev,Gv,Ib
ad shrd Ev,Gv,CL
np.ae/0 fxsave|fxsave|fxsave64 M
np.ae/1 fxrstor|fxrstor|fxrstor64 M
np.ae/2 ldmxcsr M
np.ae/3 stmxcsr M
np.ae/4 xsave|xsave|xsave64 M
np.ae/5 xrstor|xrstor|xrstor64 M
np.ae/6 xsaveopt|xsaveopt|xsaveopt64 M
np.ae/7 clflush M
66.ae/6 clwb M
66.ae/7 clflushopt M
f3.ae/4 ptwrite Ey
f3.ae/6 clrssbsy M
f3.ae/0 rdfsbase Ry
f3.ae/1 rdgsbase Ry
f3.ae/2 wrfsbase Ry
f3.ae/3 wrgsbase Ry
f3.ae/5 incsspd|incsspd|incsspq Ry
f3.ae/6 umonitor Rq
f2.ae/6 umwait Rd
66.ae/6 tpause Rd
np.ae/5 lfence Rx
np.ae/6 mfence Rx
np.ae/7 sfence Rx
af imul Gv,Ev
b0 cmpxchg Eb,Gb lock
b1 cmpxchg Ev,Gv lock
b2 lss Gv,M
b3 btr Ev,Gv lock
b4 lfs Gv,M
b5 lgs Gv,M
b6 movzx Gv,Eb
b7 movzx Gv,Ew
f3.b8 popcnt Gv,Ev
b9 ud1 Gv,Ev @trap
ba/4 bt Ev,Ib
ba/5 bts Ev,Ib lock
ba/6 btr Ev,Ib lock
ba/7 btc Ev,Ib lock
bb btc Ev,Gv lock
f3.bc tzcnt Gv,Ev
bc bsf Gv,Ev
f3.bd lzcnt Gv,Ev
bd bsr Gv,Ev
be movsx Gv,Eb
bf movsx Gv,Ew
c0 xadd Eb,Gb lock
c1 xadd Ev,Gv lock
4x.c2 cmp? Vx,Wx,Ib
np.c3 movnti My,Gy
mm.c4 pinsrw Pq,Ed,Ib
mm.c5 pextrw Gd,Nq,Ib
2x.c6 shuf? Vx,Wx,Ib
c7/1 cmpxchg8b|cmpxchg8b|cmpxchg16b M lock
np.c7/3 xrstors|xrstors|xrstors64 M
np.c7/4 xsavec|xsavec|xsavec64 M
np.c7/5 xsaves|xsaves|xsaves64 M
np.c7/6 vmptrld M
66.c7/6 vmclear M
f3.c7/6 vmxon M
np.c7/7 vmptrst M
mm.c7/6 rdrand Rv
f3.c7/6 senduipi Rq
mm.c7/7 rdseed Rv
f3.c7/7 rdpid Rq
c8+ bswap Zy
66.d0 addsubpd Vx,Wx
f2.d0 addsubps Vx,Wx
mm.d1 psrlw Pq,Qq
mm.d2 psrld Pq,Qq
mm.d3 psrlq Pq,Qq
mm.d4 paddq Pq,Qq
mm.d5 pmullw Pq,Qq
66.d6 movq Wq,Vq
f3.d6 movq2dq Vx,Nq
f2.d6 movdq2q Pq,Ux
mm.d7 pmovmskb Gd,Nq
mm.d8 psubusb Pq,Qq
mm.d9 psubusw Pq,Qq
mm.da pminub Pq,Qq
mm.db pand Pq,Qq
mm.dc paddusb Pq,Qq
mm.dd paddusw Pq,Qq
mm.de pmaxub Pq,Qq
mm.df pandn Pq,Qq
mm.e0 pavgb Pq,Qq
mm.e1 psraw Pq,Qq
mm.e2 psrad Pq,Qq
mm.e3 pavgw Pq,Qq
mm.e4 pmulhuw Pq,Qq
mm.e5 pmulhw Pq,Qq
66.e6 cvttpd2dq Vx,Wx
f3.e6 cvtdq2pd Vx,Wx
f2.e6 cvtpd2dq Vx,Wx
np.e7 movntq Mq,Pq
66.e7 movntdq Mx,Vx
mm.e8 psubsb Pq,Qq
mm.e9 psubsw Pq,Qq
mm.ea pminsw Pq,Qq
mm.eb por Pq,Qq
mm.ec paddsb Pq,Qq
mm.ed paddsw Pq,Qq
mm.ee pmaxsw Pq,Qq
mm.ef pxor Pq,Qq
f2.f0 lddqu Vx,M
mm.f1 psllw Pq,Qq
mm.f2 pslld Pq,Qq
mm.f3 psllq Pq,Qq
mm.f4 pmuludq Pq,Qq
mm.f5 pmaddwd Pq,Qq
mm.f6 psadbw Pq,Qq
np.f7 maskmovq Pq,Nq
66.f7 maskmovdqu Vx,Ux
mm.f8 psubb Pq,Qq
mm.f9 psubw Pq,Qq
mm.fa psubd Pq,Qq
mm.fb psubq Pq,Qq
mm.fc paddb Pq,Qq
mm.fd paddw Pq,Qq
mm.fe paddd Pq,Qq
ff ud0 Gv,Ev @trap
`;

const MAP_0F38 = (): string => `
mm.00 pshufb Pq,Qq
mm.01 phaddw Pq,Qq
mm.02 phaddd Pq,Qq
mm.03 phaddsw Pq,Qq
mm.04 pmaddubsw Pq,Qq
mm.05 phsubw Pq,Qq
mm.06 phsubd Pq,Qq
mm.07 phsubsw Pq,Qq
mm.08 psignb Pq,Qq
mm.09 psignw Pq,Qq
mm.0a psignd Pq,Qq
mm.0b pmulhrsw Pq,Qq
66.10 pblendvb Vx,Wx
66.14 blendvps Vx,Wx
66.15 blendvpd Vx,Wx
66.17 ptest Vx,Wx
mm.1c pabsb Pq,Qq
mm.1d pabsw Pq,Qq
mm.1e pabsd Pq,Qq
66.20 pmovsxbw Vx,Wx
66.21 pmovsxbd Vx,Wx
66.22 pmovsxbq Vx,Wx
66.23 pmovsxwd Vx,Wx
66.24 pmovsxwq Vx,Wx
66.25 pmovsxdq Vx,Wx
66.28 pmuldq Vx,Wx
66.29 pcmpeqq Vx,Wx
66.2a movntdqa Vx,M
66.2b packusdw Vx,Wx
66.30 pmovzxbw Vx,Wx
66.31 pmovzxbd Vx,Wx
66.32 pmovzxbq Vx,Wx
66.33 pmovzxwd Vx,Wx
66.34 pmovzxwq Vx,Wx
66.35 pmovzxdq Vx,Wx
66.37 pcmpgtq Vx,Wx
66.38 pminsb Vx,Wx
66.39 pminsd Vx,Wx
66.3a pminuw Vx,Wx
66.3b pminud Vx,Wx
66.3c pmaxsb Vx,Wx
66.3d pmaxsd Vx,Wx
66.3e pmaxuw Vx,Wx
66.3f pmaxud Vx,Wx
66.40 pmulld Vx,Wx
66.41 phminposuw Vx,Wx
66.80 invept Gq,M
66.81 invvpid Gq,M
66.82 invpcid Gq,M
np.c8 sha1nexte Vx,Wx
np.c9 sha1msg1 Vx,Wx
np.ca sha1msg2 Vx,Wx
np.cb sha256rnds2 Vx,Wx
np.cc sha256msg1 Vx,Wx
np.cd sha256msg2 Vx,Wx
66.cf gf2p8mulb Vx,Wx
f3.d8/0 aesencwide128kl M
f3.d8/1 aesdecwide128kl M
f3.d8/2 aesencwide256kl M
f3.d8/3 aesdecwide256kl M
66.db aesimc Vx,Wx
66.dc aesenc Vx,Wx
66.dd aesenclast Vx,Wx
66.de aesdec Vx,Wx
66.df aesdeclast Vx,Wx
f3.dc loadiwkey Vx,Ux
f3.dc aesenc128kl Vx,M
f3.dd aesdec128kl Vx,M
f3.de aesenc256kl Vx,M
f3.df aesdec256kl Vx,M
f2.f0 crc32 Gd,Eb
mm.f0 movbe Gv,Mv
f2.f1 crc32 Gd,Ev
mm.f1 movbe Mv,Gv
66.f5 wrussd|wrussd|wrussq My,Gy
np.f6 wrssd|wrssd|wrssq My,Gy
66.f6 adcx Gy,Ey
f3.f6 adox Gy,Ey
66.f8 movdir64b Gq,M
f2.f8 enqcmd Gq,M
f3.f8 enqcmds Gq,M
np.f9 movdiri My,Gy
f3.fa encodekey128 Gd,Rd
f3.fb encodekey256 Gd,Rd
`;

const MAP_0F3A = (): string => `
66.08 roundps Vx,Wx,Ib
66.09 roundpd Vx,Wx,Ib
66.0a roundss Vx,Wx,Ib
66.0b roundsd Vx,Wx,Ib
66.0c blendps Vx,Wx,Ib
66.0d blendpd Vx,Wx,Ib
66.0e pblendw Vx,Wx,Ib
mm.0f palignr Pq,Qq,Ib
66.14 pextrb Ed,Vx,Ib
66.15 pextrw Ed,Vx,Ib
66.16 pextrd|pextrd|pextrq Ey,Vx,Ib
66.17 extractps Ed,Vx,Ib
66.20 pinsrb Vx,Ed,Ib
66.21 insertps Vx,Wx,Ib
66.22 pinsrd|pinsrd|pinsrq Vx,Ey,Ib
66.40 dpps Vx,Wx,Ib
66.41 dppd Vx,Wx,Ib
66.42 mpsadbw Vx,Wx,Ib
66.44 pclmulqdq Vx,Wx,Ib
66.60 pcmpestrm Vx,Wx,Ib
66.61 pcmpestri Vx,Wx,Ib
66.62 pcmpistrm Vx,Wx,Ib
66.63 pcmpistri Vx,Wx,Ib
np.cc sha1rnds4 Vx,Wx,Ib
66.ce gf2p8affineqb Vx,Wx,Ib
66.cf gf2p8affineinvqb Vx,Wx,Ib
66.df aeskeygenassist Vx,Wx,Ib
f3.f0:c0 hreset Ib
`;

/**
 * Packed integer instructions of 66 0F that exist under VEX with a third operand and the same
 * opcode.
 */
const VEX_PACKED =
  '60 punpcklbw,61 punpcklwd,62 punpckldq,63 packsswb,64 pcmpgtb,65 pcmpgtw,66 pcmpgtd,67 packuswb,68 punpckhbw,' +
  '69 punpckhwd,6a punpckhdq,6b packssdw,6c punpcklqdq,6d punpckhqdq,74 pcmpeqb,75 pcmpeqw,76 pcmpeqd,d1 psrlw,' +
  'd2 psrld,d3 psrlq,d4 paddq,d5 pmullw,d8 psubusb,d9 psubusw,da pminub,db pand,dc paddusb,dd paddusw,de pmaxub,' +
  'df pandn,e0 pavgb,e1 psraw,e2 psrad,e3 pavgw,e4 pmulhuw,e5 pmulhw,e8 psubsb,e9 psubsw,ea pminsw,eb por,' +
  'ec paddsb,ed paddsw,ee pmaxsw,ef pxor,f1 psllw,f2 pslld,f3 psllq,f4 pmuludq,f5 pmaddwd,f6 psadbw,f8 psubb,' +
  'f9 psubw,fa psubd,fb psubq,fc paddb,fd paddw,fe paddd';

function vexPacked(): string {
  return VEX_PACKED.split(',')
    .map((each) => `66.${each.slice(0, 3)}v${each.slice(3)} Vx,Hx,Wx\n`)
    .join('');
}

/** Mask instructions whose four sizes are told by prefix and W. */
function masks(opcode: string, name: string, operands: string, length: string): string {
  return (
    `np.${opcode}.w0.${length} ${name}w ${operands}\nnp.${opcode}.w1.${length} ${name}q ${operands}\n` +
    `66.${opcode}.w0.${length} ${name}b ${operands}\n66.${opcode}.w1.${length} ${name}d ${operands}\n`
  );
}

/** The three operand orders of fused multiply-add, at `first`, first + 0x10 and first + 0x20. */
function fma(prefix: string, packed: string, scalar: string): string {
  let text = '';
  ['132', '213', '231'].forEach((order, i) => {
    const at = (low: number): string => (0x90 + 0x10 * i + low).toString(16);
    text += `${prefix}${at(6)} vfmaddsub${order}${packed} Vx,Hx,Wx\n${prefix}${at(7)} vfmsubadd${order}${packed} Vx,Hx,Wx\n`;
    ['vfmadd', 'vfmsub', 'vfnmadd', 'vfnmsub'].forEach((name, j) => {
      text += `${prefix}${at(8 + 2 * j)} ${name}${order}${packed} Vx,Hx,Wx\n`;
      text += `${prefix}${at(9 + 2 * j)} ${name}${order}${scalar} Vx,Hx,Wx\n`;
    });
  });
  return text;
}

const VEX_0F = (): string => `
2x.10 vmovu? Vx,Wx
f3.10 vmovss Vx,Mx
f3.10 vmovss Vx,Hx,Ux
f2.10 vmovsd Vx,Mx
f2.10 vmovsd Vx,Hx,Ux
2x.11 vmovu? Wx,Vx
f3.11 vmovss Mx,Vx
f3.11 vmovss Ux,Hx,Vx
f2.11 vmovsd Mx,Vx
f2.11 vmovsd Ux,Hx,Vx
np.12.l0 vmovlps Vx,Hx,Mq
np.12.l0 vmovhlps Vx,Hx,Uq
66.12.l0 vmovlpd Vx,Hx,Mq
f3.12 vmovsldup Vx,Wx
f2.12 vmovddup Vx,Wx
2x.13.l0 vmovl? Mq,Vq
2x.14 vunpckl? Vx,Hx,Wx
2x.15 vunpckh? Vx,Hx,Wx
np.16.l0 vmovhps Vx,Hx,Mq
np.16.l0 vmovlhps Vx,Hx,Uq
66.16.l0 vmovhpd Vx,Hx,Mq
f3.16 vmovshdup Vx,Wx
2x.17.l0 vmovh? Mq,Vq
2x.28 vmova? Vx,Wx
2x.29 vmova? Wx,Vx
f3.2a vcvtsi2ss Vx,Hx,Ey
f2.2a vcvtsi2sd Vx,Hx,Ey
2x.2b vmovnt? Mx,Vx
f3.2c vcvttss2si Gy,Wx
f2.2c vcvttsd2si Gy,Wx
f3.2d vcvtss2si Gy,Wx
f2.2d vcvtsd2si Gy,Wx
np.2e vucomiss Vx,Wx
66.2e vucomisd Vx,Wx
np.2f vcomiss Vx,Wx
66.2f vcomisd Vx,Wx
${masks('41', 'kand', 'Kg,Kh,Kr', 'l1')}
${masks('42', 'kandn', 'Kg,Kh,Kr', 'l1')}
${masks('44', 'knot', 'Kg,Kr', 'l0')}
${masks('45', 'kor', 'Kg,Kh,Kr', 'l1')}
${masks('46', 'kxnor', 'Kg,Kh,Kr', 'l1')}
${masks('47', 'kxor', 'Kg,Kh,Kr', 'l1')}
${masks('4a', 'kadd', 'Kg,Kh,Kr', 'l1')}
np.4b.w0.l1 kunpckwd Kg,Kh,Kr
np.4b.w1.l1 kunpckdq Kg,Kh,Kr
66.4b.w0.l1 kunpckbw Kg,Kh,Kr
2x.50 vmovmsk? Gd,Ux
2x.51 vsqrt? Vx,Wx
f3.51 vsqrtss Vx,Hx,Wx
f2.51 vsqrtsd Vx,Hx,Wx
np.52 vrsqrtps Vx,Wx
f3.52 vrsqrtss Vx,Hx,Wx
np.53 vrcpps Vx,Wx
f3.53 vrcpss Vx,Hx,Wx
2x.54 vand? Vx,Hx,Wx
2x.55 vandn? Vx,Hx,Wx
2x.56 vor? Vx,Hx,Wx
2x.57 vxor? Vx,Hx,Wx
4x.58 vadd? Vx,Hx,Wx
4x.59 vmul? Vx,Hx,Wx
np.5a vcvtps2pd Vx,Wx
66.5a vcvtpd2ps Vx,Wx
f3.5a vcvtss2sd Vx,Hx,Wx
f2.5a vcvtsd2ss Vx,Hx,Wx
np.5b vcvtdq2ps Vx,Wx
66.5b vcvtps2dq Vx,Wx
f3.5b vcvttps2dq Vx,Wx
4x.5c vsub? Vx,Hx,Wx
4x.5d vmin? Vx,Hx,Wx
4x.5e vdiv? Vx,Hx,Wx
4x.5f vmax? Vx,Hx,Wx
66.6e.l0 vmov[d|q] Vx,Ey
66.6f vmovdqa Vx,Wx
f3.6f vmovdqu Vx,Wx
66.70 vpshufd Vx,Wx,Ib
f3.70 vpshufhw Vx,Wx,Ib
f2.70 vpshuflw Vx,Wx,Ib
66.71/2 vpsrlw Hx,Ux,Ib
66.71/4 vpsraw Hx,Ux,Ib
66.71/6 vpsllw Hx,Ux,Ib
66.72/2 vpsrld Hx,Ux,Ib
66.72/4 vpsrad Hx,Ux,Ib
66.72/6 vpslld Hx,Ux,Ib
66.73/2 vpsrlq Hx,Ux,Ib
66.73/3 vpsrldq Hx,Ux,Ib
66.73/6 vpsllq Hx,Ux,Ib
66.73/7 vpslldq Hx,Ux,Ib
np.77.l0 vzeroupper -
np.77.l1 vzeroall -
66.7c vhaddpd Vx,Hx,Wx
f2.7c vhaddps Vx,Hx,Wx
66.7d vhsubpd Vx,Hx,Wx
f2.7d vhsubps Vx,Hx,Wx
66.7e.l0 vmov[d|q] Ey,Vx
f3.7e.l0 vmovq Vx,Wq
66.7f vmovdqa Wx,Vx
f3.7f vmovdqu Wx,Vx
${masks('90', 'kmov', 'Kg,Ke', 'l0')}
${masks('91', 'kmov', 'Km,Kg', 'l0')}
np.92.w0.l0 kmovw Kg,Rd
66.92.w0.l0 kmovb Kg,Rd
f2.92.w0.l0 kmovd Kg,Rd
f2.92.w1.l0 kmovq Kg,Rq
np.93.w0.l0 kmovw Gd,Kr
66.93.w0.l0 kmovb Gd,Kr
f2.93.w0.l0 kmovd Gd,Kr
f2.93.w1.l0 kmovq Gq,Kr
${masks('98', 'kortest', 'Kg,Kr', 'l0')}
${masks('99', 'ktest', 'Kg,Kr', 'l0')}
np.ae/2.l0 vldmxcsr M
np.ae/3.l0 vstmxcsr M
4x.c2 vcmp? Vx,Hx,Wx,Ib
66.c4.l0 vpinsrw Vx,Hx,Ed,Ib
66.c5.l0 vpextrw Gd,Ux,Ib
2x.c6 vshuf? Vx,Hx,Wx,Ib
66.d0 vaddsubpd Vx,Hx,Wx
f2.d0 vaddsubps Vx,Hx,Wx
66.d6.l0 vmovq Wq,Vq
66.d7 vpmovmskb Gd,Ux
66.e6 vcvttpd2dq Vx,Wx
f3.e6 vcvtdq2pd Vx,Wx
f2.e6 vcvtpd2dq Vx,Wx
66.e7 vmovntdq Mx,Vx
f2.f0 vlddqu Vx,M
66.f7.l0 vmaskmovdqu Vx,Ux
${vexPacked()}
`;

const VEX_0F38 = (): string => `
66.00 vpshufb Vx,Hx,Wx
66.01 vphaddw Vx,Hx,Wx
66.02 vphaddd Vx,Hx,Wx
66.03 vphaddsw Vx,Hx,Wx
66.04 vpmaddubsw Vx,Hx,Wx
66.05 vphsubw Vx,Hx,Wx
66.06 vphsubd Vx,Hx,Wx
66.07 vphsubsw Vx,Hx,Wx
66.08 vpsignb Vx,Hx,Wx
66.09 vpsignw Vx,Hx,Wx
66.0a vpsignd Vx,Hx,Wx
66.0b vpmulhrsw Vx,Hx,Wx
66.0c.w0 vpermilps Vx,Hx,Wx
66.0d.w0 vpermilpd Vx,Hx,Wx
66.0e.w0 vtestps Vx,Wx
66.0f.w0 vtestpd Vx,Wx
66.13.w0 vcvtph2ps Vx,Wx
66.16.w0.l1 vpermps Vx,Hx,Wx
66.17 vptest Vx,Wx
66.18.w0 vbroadcastss Vx,Wx
66.19.w0.l1 vbroadcastsd Vx,Wx
66.1a.w0.l1 vbroadcastf128 Vx,M
66.1c vpabsb Vx,Wx
66.1d vpabsw Vx,Wx
66.1e vpabsd Vx,Wx
66.20 vpmovsxbw Vx,Wx
66.21 vpmovsxbd Vx,Wx
66.22 vpmovsxbq Vx,Wx
66.23 vpmovsxwd Vx,Wx
66.24 vpmovsxwq Vx,Wx
66.25 vpmovsxdq Vx,Wx
66.28 vpmuldq Vx,Hx,Wx
66.29 vpcmpeqq Vx,Hx,Wx
66.2a vmovntdqa Vx,M
66.2b vpackusdw Vx,Hx,Wx
66.2c.w0 vmaskmovps Vx,Hx,M
66.2d.w0 vmaskmovpd Vx,Hx,M
66.2e.w0 vmaskmovps M,Hx,Vx
66.2f.w0 vmaskmovpd M,Hx,Vx
66.30 vpmovzxbw Vx,Wx
66.31 vpmovzxbd Vx,Wx
66.32 vpmovzxbq Vx,Wx
66.33 vpmovzxwd Vx,Wx
66.34 vpmovzxwq Vx,Wx
66.35 vpmovzxdq Vx,Wx
66.36.w0.l1 vpermd Vx,Hx,Wx
66.37 vpcmpgtq Vx,Hx,Wx
66.38 vpminsb Vx,Hx,Wx
66.39 vpminsd Vx,Hx,Wx
66.3a vpminuw Vx,Hx,Wx
66.3b vpminud Vx,Hx,Wx
66.3c vpmaxsb Vx,Hx,Wx
66.3d vpmaxsd Vx,Hx,Wx
66.3e vpmaxuw Vx,Hx,Wx
66.3f vpmaxud Vx,Hx,Wx
66.40 vpmulld Vx,Hx,Wx
66.41.l0 vphminposuw Vx,Wx
66.45 vpsrlv[d|q] Vx,Hx,Wx
66.46.w0 vpsravd Vx,Hx,Wx
66.47 vpsllv[d|q] Vx,Hx,Wx
np.49:c0.w0.l0 tilerelease -
np.49/0.w0.l0 ldtilecfg M
66.49/0.w0.l0 sttilecfg M
f2.49/0-7.w0.l0 tilezero Tg,Rnone
f2.4b.w0.l0 tileloadd Tg,M vsib
66.4b.w0.l0 tileloaddt1 Tg,M vsib
f3.4b.w0.l0 tilestored M,Tg vsib
66.50.w0 vpdpbusd Vx,Hx,Wx
np.50.w0 vpdpbuud Vx,Hx,Wx
f3.50.w0 vpdpbsud Vx,Hx,Wx
f2.50.w0 vpdpbssd Vx,Hx,Wx
66.51.w0 vpdpbusds Vx,Hx,Wx
np.51.w0 vpdpbuuds Vx,Hx,Wx
f3.51.w0 vpdpbsuds Vx,Hx,Wx
f2.51.w0 vpdpbssds Vx,Hx,Wx
66.52.w0 vpdpwssd Vx,Hx,Wx
66.53.w0 vpdpwssds Vx,Hx,Wx
66.58.w0 vpbroadcastd Vx,Wx
66.59.w0 vpbroadcastq Vx,Wx
66.5a.w0.l1 vbroadcasti128 Vx,M
f3.5c.w0.l0 tdpbf16ps Tg,Tr,Th
f2.5c.w0.l0 tdpfp16ps Tg,Tr,Th
np.5e.w0.l0 tdpbuud Tg,Tr,Th
66.5e.w0.l0 tdpbusd Tg,Tr,Th
f3.5e.w0.l0 tdpbsud Tg,Tr,Th
f2.5e.w0.l0 tdpbssd Tg,Tr,Th
f3.72.w0 vcvtneps2bf16 Vx,Wx
66.78.w0 vpbroadcastb Vx,Wx
66.79.w0 vpbroadcastw Vx,Wx
66.8c vpmaskmov[d|q] Vx,Hx,M
66.8e vpmaskmov[d|q] M,Hx,Vx
66.90 vpgatherd[d|q] Vx,M,Hx vsib
66.91 vpgatherq[d|q] Vx,M,Hx vsib
66.92 vgatherdp[s|d] Vx,M,Hx vsib
66.93 vgatherqp[s|d] Vx,M,Hx vsib
66.b1.w0 vbcstnesh2ps Vx,M
f3.b1.w0 vbcstnebf162ps Vx,M
np.b0.w0 vcvtneoph2ps Vx,M
66.b0.w0 vcvtneeph2ps Vx,M
f3.b0.w0 vcvtneebf162ps Vx,M
f2.b0.w0 vcvtneobf162ps Vx,M
66.b4.w1 vpmadd52luq Vx,Hx,Wx
66.b5.w1 vpmadd52huq Vx,Hx,Wx
66.cf.w0 vgf2p8mulb Vx,Hx,Wx
66.db.l0 vaesimc Vx,Wx
66.dc vaesenc Vx,Hx,Wx
66.dd vaesenclast Vx,Hx,Wx
66.de vaesdec Vx,Hx,Wx
66.df vaesdeclast Vx,Hx,Wx
66.e0cc.l0 cmpCCxadd My,Gy,By
np.f2.l0 andn Gy,By,Ey
np.f3/1.l0 blsr By,Ey
np.f3/2.l0 blsmsk By,Ey
np.f3/3.l0 blsi By,Ey
np.f5.l0 bzhi Gy,Ey,By
f3.f5.l0 pext Gy,By,Ey
f2.f5.l0 pdep Gy,By,Ey
f2.f6.l0 mulx Gy,By,Ey
np.f7.l0 bextr Gy,Ey,By
66.f7.l0 shlx Gy,Ey,By
f3.f7.l0 sarx Gy,Ey,By
f2.f7.l0 shrx Gy,Ey,By
${fma('66.', 'p[s|d]', 's[s|d]')}
`;

const VEX_0F3A = (): string => `
66.00.w1.l1 vpermq Vx,Wx,Ib
66.01.w1.l1 vpermpd Vx,Wx,Ib
66.02.w0 vpblendd Vx,Hx,Wx,Ib
66.04.w0 vpermilps Vx,Wx,Ib
66.05.w0 vpermilpd Vx,Wx,Ib
66.06.w0.l1 vperm2f128 Vx,Hx,Wx,Ib
66.08 vroundps Vx,Wx,Ib
66.09 vroundpd Vx,Wx,Ib
66.0a vroundss Vx,Hx,Wx,Ib
66.0b vroundsd Vx,Hx,Wx,Ib
66.0c vblendps Vx,Hx,Wx,Ib
66.0d vblendpd Vx,Hx,Wx,Ib
66.0e vpblendw Vx,Hx,Wx,Ib
66.0f vpalignr Vx,Hx,Wx,Ib
66.14.l0 vpextrb Ed,Vx,Ib
66.15.l0 vpextrw Ed,Vx,Ib
66.16.l0 vpextr[d|q] Ey,Vx,Ib
66.17.l0 vextractps Ed,Vx,Ib
66.18.w0.l1 vinsertf128 Vx,Hx,Wx,Ib
66.19.w0.l1 vextractf128 Wx,Vx,Ib
66.1d.w0 vcvtps2ph Wx,Vx,Ib
66.20.l0 vpinsrb Vx,Hx,Ed,Ib
66.21.l0 vinsertps Vx,Hx,Wx,Ib
66.22.l0 vpinsr[d|q] Vx,Hx,Ey,Ib
66.30.l0 kshiftr[b|w] Kg,Kr,Ib
66.31.l0 kshiftr[d|q] Kg,Kr,Ib
66.32.l0 kshiftl[b|w] Kg,Kr,Ib
66.33.l0 kshiftl[d|q] Kg,Kr,Ib
66.38.w0.l1 vinserti128 Vx,Hx,Wx,Ib
66.39.w0.l1 vextracti128 Wx,Vx,Ib
66.40 vdpps Vx,Hx,Wx,Ib
66.41.l0 vdppd Vx,Hx,Wx,Ib
66.42 vmpsadbw Vx,Hx,Wx,Ib
66.44 vpclmulqdq Vx,Hx,Wx,Ib
66.46.w0.l1 vperm2i128 Vx,Hx,Wx,Ib
66.48 vpermil2ps Vx,Hx,Wx,Lx
66.49 vpermil2pd Vx,Hx,Wx,Lx
66.4a.w0 vblendvps Vx,Hx,Wx,Lx
66.4b.w0 vblendvpd Vx,Hx,Wx,Lx
66.4c.w0 vpblendvb Vx,Hx,Wx,Lx
66.5c vfmaddsubps Vx,Hx,Wx,Lx
66.5d vfmaddsubpd Vx,Hx,Wx,Lx
66.5e vfmsubaddps Vx,Hx,Wx,Lx
66.5f vfmsubaddpd Vx,Hx,Wx,Lx
66.60.l0 vpcmpestrm Vx,Wx,Ib
66.61.l0 vpcmpestri Vx,Wx,Ib
66.62.l0 vpcmpistrm Vx,Wx,Ib
66.63.l0 vpcmpistri Vx,Wx,Ib
66.68 vfmaddps Vx,Hx,Wx,Lx
66.69 vfmaddpd Vx,Hx,Wx,Lx
66.6a vfmaddss Vx,Hx,Wx,Lx
66.6b vfmaddsd Vx,Hx,Wx,Lx
66.6c vfmsubps Vx,Hx,Wx,Lx
66.6d vfmsubpd Vx,Hx,Wx,Lx
66.6e vfmsubss Vx,Hx,Wx,Lx
66.6f vfmsubsd Vx,Hx,Wx,Lx
66.78 vfnmaddps Vx,Hx,Wx,Lx
66.79 vfnmaddpd Vx,Hx,Wx,Lx
66.7a vfnmaddss Vx,Hx,Wx,Lx
66.7b vfnmaddsd Vx,Hx,Wx,Lx
66.7c vfnmsubps Vx,Hx,Wx,Lx
66.7d vfnmsubpd Vx,Hx,Wx,Lx
66.7e vfnmsubss Vx,Hx,Wx,Lx
66.7f vfnmsubsd Vx,Hx,Wx,Lx
66.ce.w1 vgf2p8affineqb Vx,Hx,Wx,Ib
66.cf.w1 vgf2p8affineinvqb Vx,Hx,Wx,Ib
66.df.l0 vaeskeygenassist Vx,Wx,Ib
f2.f0.l0 rorx Gy,Ey,Ib
`;

/** EVEX: the suffixes of `4x.` and `2x.` come with their W (ps and ss W0, pd and sd W1). */
const EVEX_0F = (): string => `
2x.10 vmovu? Vx,Wx
f3.10.w0 vmovss Vx,Mx
f3.10.w0 vmovss Vx,Hx,Ux
f2.10.w1 vmovsd Vx,Mx
f2.10.w1 vmovsd Vx,Hx,Ux
2x.11 vmovu? Wx,Vx
f3.11.w0 vmovss Mx,Vx
f3.11.w0 vmovss Ux,Hx,Vx
f2.11.w1 vmovsd Mx,Vx
f2.11.w1 vmovsd Ux,Hx,Vx
np.12.w0.l0 vmovlps Vx,Hx,Mq
np.12.w0.l0 vmovhlps Vx,Hx,Uq
66.12.w1.l0 vmovlpd Vx,Hx,Mq
f3.12.w0 vmovsldup Vx,Wx
f2.12.w1 vmovddup Vx,Wx
2x.13.l0 vmovl? Mq,Vq
2x.14 vunpckl? Vx,Hx,Wx
2x.15 vunpckh? Vx,Hx,Wx
np.16.w0.l0 vmovhps Vx,Hx,Mq
np.16.w0.l0 vmovlhps Vx,Hx,Uq
66.16.w1.l0 vmovhpd Vx,Hx,Mq
f3.16.w0 vmovshdup Vx,Wx
2x.17.l0 vmovh? Mq,Vq
2x.28 vmova? Vx,Wx
2x.29 vmova? Wx,Vx
f3.2a vcvtsi2ss Vx,Hx,Ey
f2.2a vcvtsi2sd Vx,Hx,Ey
2x.2b vmovnt? Mx,Vx
f3.2c vcvttss2si Gy,Wx
f2.2c vcvttsd2si Gy,Wx
f3.2d vcvtss2si Gy,Wx
f2.2d vcvtsd2si Gy,Wx
np.2e.w0 vucomiss Vx,Wx
66.2e.w1 vucomisd Vx,Wx
np.2f.w0 vcomiss Vx,Wx
66.2f.w1 vcomisd Vx,Wx
2x.51 vsqrt? Vx,Wx
f3.51.w0 vsqrtss Vx,Hx,Wx
f2.51.w1 vsqrtsd Vx,Hx,Wx
2x.54 vand? Vx,Hx,Wx
2x.55 vandn? Vx,Hx,Wx
2x.56 vor? Vx,Hx,Wx
2x.57 vxor? Vx,Hx,Wx
4x.58 vadd? Vx,Hx,Wx
4x.59 vmul? Vx,Hx,Wx
np.5a.w0 vcvtps2pd Vx,Wx
66.5a.w1 vcvtpd2ps Vx,Wx
f3.5a.w0 vcvtss2sd Vx,Hx,Wx
f2.5a.w1 vcvtsd2ss Vx,Hx,Wx
np.5b.w0 vcvtdq2ps Vx,Wx
np.5b.w1 vcvtqq2ps Vx,Wx
66.5b.w0 vcvtps2dq Vx,Wx
f3.5b.w0 vcvttps2dq Vx,Wx
4x.5c vsub? Vx,Hx,Wx
4x.5d vmin? Vx,Hx,Wx
4x.5e vdiv? Vx,Hx,Wx
4x.5f vmax? Vx,Hx,Wx
66.60 vpunpcklbw Vx,Hx,Wx
66.61 vpunpcklwd Vx,Hx,Wx
66.62.w0 vpunpckldq Vx,Hx,Wx
66.63 vpacksswb Vx,Hx,Wx
66.64 vpcmpgtb Kg,Hx,Wx
66.65 vpcmpgtw Kg,Hx,Wx
66.66.w0 vpcmpgtd Kg,Hx,Wx
66.67 vpackuswb Vx,Hx,Wx
66.68 vpunpckhbw Vx,Hx,Wx
66.69 vpunpckhwd Vx,Hx,Wx
66.6a.w0 vpunpckhdq Vx,Hx,Wx
66.6b.w0 vpackssdw Vx,Hx,Wx
66.6c.w1 vpunpcklqdq Vx,Hx,Wx
66.6d.w1 vpunpckhqdq Vx,Hx,Wx
66.6e.l0 vmov[d|q] Vx,Ey
66.6f vmovdqa[32|64] Vx,Wx
f3.6f vmovdqu[32|64] Vx,Wx
f2.6f vmovdqu[8|16] Vx,Wx
66.70.w0 vpshufd Vx,Wx,Ib
f3.70 vpshufhw Vx,Wx,Ib
f2.70 vpshuflw Vx,Wx,Ib
66.71/2 vpsrlw Hx,Wx,Ib
66.71/4 vpsraw Hx,Wx,Ib
66.71/6 vpsllw Hx,Wx,Ib
66.72/0 vpror[d|q] Hx,Wx,Ib
66.72/1 vprol[d|q] Hx,Wx,Ib
66.72/2.w0 vpsrld Hx,Wx,Ib
66.72/4 vpsra[d|q] Hx,Wx,Ib
66.72/6.w0 vpslld Hx,Wx,Ib
66.73/2.w1 vpsrlq Hx,Wx,Ib
66.73/3 vpsrldq Hx,Wx,Ib
66.73/6.w1 vpsllq Hx,Wx,Ib
66.73/7 vpslldq Hx,Wx,Ib
66.74 vpcmpeqb Kg,Hx,Wx
66.75 vpcmpeqw Kg,Hx,Wx
66.76.w0 vpcmpeqd Kg,Hx,Wx
np.78 vcvttp[s|d]2udq Vx,Wx
66.78 vcvttp[s|d]2uqq Vx,Wx
f3.78 vcvttss2usi Gy,Wx
f2.78 vcvttsd2usi Gy,Wx
np.79 vcvtp[s|d]2udq Vx,Wx
66.79 vcvtp[s|d]2uqq Vx,Wx
f3.79 vcvtss2usi Gy,Wx
f2.79 vcvtsd2usi Gy,Wx
66.7a vcvttp[s|d]2qq Vx,Wx
f3.7a vcvtu[d|q]q2pd Vx,Wx
f2.7a vcvtu[d|q]q2ps Vx,Wx
66.7b vcvtp[s|d]2qq Vx,Wx
f3.7b vcvtusi2ss Vx,Hx,Ey
f2.7b vcvtusi2sd Vx,Hx,Ey
66.7e.l0 vmov[d|q] Ey,Vx
f3.7e.w1.l0 vmovq Vx,Wq
66.7f vmovdqa[32|64] Wx,Vx
f3.7f vmovdqu[32|64] Wx,Vx
f2.7f vmovdqu[8|16] Wx,Vx
4x.c2 vcmp? Kg,Hx,Wx,Ib
66.c4.l0 vpinsrw Vx,Hx,Ed,Ib
66.c5.l0 vpextrw Gd,Ux,Ib
2x.c6 vshuf? Vx,Hx,Wx,Ib
66.d1 vpsrlw Vx,Hx,Wx
66.d2.w0 vpsrld Vx,Hx,Wx
66.d3.w1 vpsrlq Vx,Hx,Wx
66.d4.w1 vpaddq Vx,Hx,Wx
66.d5 vpmullw Vx,Hx,Wx
66.d6.w1.l0 vmovq Wq,Vq
66.d8 vpsubusb Vx,Hx,Wx
66.d9 vpsubusw Vx,Hx,Wx
66.da vpminub Vx,Hx,Wx
66.db vpand[d|q] Vx,Hx,Wx
66.dc vpaddusb Vx,Hx,Wx
66.dd vpaddusw Vx,Hx,Wx
66.de vpmaxub Vx,Hx,Wx
66.df vpandn[d|q] Vx,Hx,Wx
66.e0 vpavgb Vx,Hx,Wx
66.e1 vpsraw Vx,Hx,Wx
66.e2 vpsra[d|q] Vx,Hx,Wx
66.e3 vpavgw Vx,Hx,Wx
66.e4 vpmulhuw Vx,Hx,Wx
66.e5 vpmulhw Vx,Hx,Wx
66.e6.w1 vcvttpd2dq Vx,Wx
f3.e6 vcvt[d|q]q2pd Vx,Wx
f2.e6.w1 vcvtpd2dq Vx,Wx
66.e7.w0 vmovntdq Mx,Vx
66.e8 vpsubsb Vx,Hx,Wx
66.e9 vpsubsw Vx,Hx,Wx
66.ea vpminsw Vx,Hx,Wx
66.eb vpor[d|q] Vx,Hx,Wx
66.ec vpaddsb Vx,Hx,Wx
66.ed vpaddsw Vx,Hx,Wx
66.ee vpmaxsw Vx,Hx,Wx
66.ef vpxor[d|q] Vx,Hx,Wx
66.f1 vpsllw Vx,Hx,Wx
66.f2.w0 vpslld Vx,Hx,Wx
66.f3.w1 vpsllq Vx,Hx,Wx
66.f4.w1 vpmuludq Vx,Hx,Wx
66.f5 vpmaddwd Vx,Hx,Wx
66.f6 vpsadbw Vx,Hx,Wx
66.f8 vpsubb Vx,Hx,Wx
66.f9 vpsubw Vx,Hx,Wx
66.fa.w0 vpsubd Vx,Hx,Wx
66.fb.w1 vpsubq Vx,Hx,Wx
66.fc vpaddb Vx,Hx,Wx
66.fd vpaddw Vx,Hx,Wx
66.fe.w0 vpaddd Vx,Hx,Wx
`;

const EVEX_0F38 = (): string => `
66.00 vpshufb Vx,Hx,Wx
66.04 vpmaddubsw Vx,Hx,Wx
66.0b vpmulhrsw Vx,Hx,Wx
66.0c.w0 vpermilps Vx,Hx,Wx
66.0d.w1 vpermilpd Vx,Hx,Wx
66.10.w1 vpsrlvw Vx,Hx,Wx
f3.10.w0 vpmovuswb Wx,Vx
66.11.w1 vpsravw Vx,Hx,Wx
f3.11.w0 vpmovusdb Wx,Vx
66.12.w1 vpsllvw Vx,Hx,Wx
f3.12.w0 vpmovusqb Wx,Vx
66.13.w0 vcvtph2ps Vx,Wx
f3.13.w0 vpmovusdw Wx,Vx
66.14 vprorv[d|q] Vx,Hx,Wx
f3.14.w0 vpmovusqw Wx,Vx
66.15 vprolv[d|q] Vx,Hx,Wx
f3.15.w0 vpmovusqd Wx,Vx
66.16.l1 vpermp[s|d] Vx,Hx,Wx
66.18.w0 vbroadcastss Vx,Wx
66.19.l1 vbroadcast[f32x2|sd] Vx,Wx
66.1a.l1 vbroadcastf[32x4|64x2] Vx,M
66.1b.l2 vbroadcastf[32x8|64x4] Vx,M
66.1c vpabsb Vx,Wx
66.1d vpabsw Vx,Wx
66.1e.w0 vpabsd Vx,Wx
66.1f.w1 vpabsq Vx,Wx
66.20 vpmovsxbw Vx,Wx
f3.20.w0 vpmovswb Wx,Vx
66.21 vpmovsxbd Vx,Wx
f3.21.w0 vpmovsdb Wx,Vx
66.22 vpmovsxbq Vx,Wx
f3.22.w0 vpmovsqb Wx,Vx
66.23 vpmovsxwd Vx,Wx
f3.23.w0 vpmovsdw Wx,Vx
66.24 vpmovsxwq Vx,Wx
f3.24.w0 vpmovsqw Wx,Vx
66.25.w0 vpmovsxdq Vx,Wx
f3.25.w0 vpmovsqd Wx,Vx
66.26 vptestm[b|w] Kg,Hx,Wx
f3.26 vptestnm[b|w] Kg,Hx,Wx
66.27 vptestm[d|q] Kg,Hx,Wx
f3.27 vptestnm[d|q] Kg,Hx,Wx
66.28.w1 vpmuldq Vx,Hx,Wx
f3.28 vpmovm2[b|w] Vx,Kr
66.29.w1 vpcmpeqq Kg,Hx,Wx
f3.29 vpmov[b|w]2m Kg,Ux
66.2a.w0 vmovntdqa Vx,M
f3.2a.w1 vpbroadcastmb2q Vx,Kr
66.2b.w0 vpackusdw Vx,Hx,Wx
66.2c vscalefp[s|d] Vx,Hx,Wx
66.2d vscalefs[s|d] Vx,Hx,Wx
66.30 vpmovzxbw Vx,Wx
f3.30.w0 vpmovwb Wx,Vx
66.31 vpmovzxbd Vx,Wx
f3.31.w0 vpmovdb Wx,Vx
66.32 vpmovzxbq Vx,Wx
f3.32.w0 vpmovqb Wx,Vx
66.33 vpmovzxwd Vx,Wx
f3.33.w0 vpmovdw Wx,Vx
66.34 vpmovzxwq Vx,Wx
f3.34.w0 vpmovqw Wx,Vx
66.35.w0 vpmovzxdq Vx,Wx
f3.35.w0 vpmovqd Wx,Vx
66.36.l1 vperm[d|q] Vx,Hx,Wx
66.37.w1 vpcmpgtq Kg,Hx,Wx
66.38 vpminsb Vx,Hx,Wx
f3.38 vpmovm2[d|q] Vx,Kr
66.39 vpmins[d|q] Vx,Hx,Wx
f3.39 vpmov[d|q]2m Kg,Ux
66.3a vpminuw Vx,Hx,Wx
f3.3a.w0 vpbroadcastmw2d Vx,Kr
66.3b vpminu[d|q] Vx,Hx,Wx
66.3c vpmaxsb Vx,Hx,Wx
66.3d vpmaxs[d|q] Vx,Hx,Wx
66.3e vpmaxuw Vx,Hx,Wx
66.3f vpmaxu[d|q] Vx,Hx,Wx
66.40 vpmull[d|q] Vx,Hx,Wx
66.42 vgetexpp[s|d] Vx,Wx
66.43 vgetexps[s|d] Vx,Hx,Wx
66.44 vplzcnt[d|q] Vx,Wx
66.45 vpsrlv[d|q] Vx,Hx,Wx
66.46 vpsrav[d|q] Vx,Hx,Wx
66.47 vpsllv[d|q] Vx,Hx,Wx
66.4c vrcp14p[s|d] Vx,Wx
66.4d vrcp14s[s|d] Vx,Hx,Wx
66.4e vrsqrt14p[s|d] Vx,Wx
66.4f vrsqrt14s[s|d] Vx,Hx,Wx
66.50.w0 vpdpbusd Vx,Hx,Wx
66.51.w0 vpdpbusds Vx,Hx,Wx
66.52.w0 vpdpwssd Vx,Hx,Wx
f3.52.w0 vdpbf16ps Vx,Hx,Wx
f2.52.w0 vp4dpwssd Vx,Hx,M
66.53.w0 vpdpwssds Vx,Hx,Wx
f2.53.w0 vp4dpwssds Vx,Hx,M
66.54 vpopcnt[b|w] Vx,Wx
66.55 vpopcnt[d|q] Vx,Wx
66.58.w0 vpbroadcastd Vx,Wx
66.59 v[broadcasti32x2|pbroadcastq] Vx,Wx
66.5a.l1 vbroadcasti[32x4|64x2] Vx,M
66.5b.l2 vbroadcasti[32x8|64x4] Vx,M
66.62 vpexpand[b|w] Vx,Wx
66.63 vpcompress[b|w] Wx,Vx
66.64 vpblendm[d|q] Vx,Hx,Wx
66.65 vblendmp[s|d] Vx,Hx,Wx
66.66 vpblendm[b|w] Vx,Hx,Wx
f2.68 vp2intersect[d|q] Kg,Hx,Wx
66.70.w1 vpshldvw Vx,Hx,Wx
66.71 vpshldv[d|q] Vx,Hx,Wx
66.72.w1 vpshrdvw Vx,Hx,Wx
f3.72.w0 vcvtneps2bf16 Vx,Wx
f2.72.w0 vcvtne2ps2bf16 Vx,Hx,Wx
66.73 vpshrdv[d|q] Vx,Hx,Wx
66.75 vpermi2[b|w] Vx,Hx,Wx
66.76 vpermi2[d|q] Vx,Hx,Wx
66.77 vpermi2p[s|d] Vx,Hx,Wx
66.78.w0 vpbroadcastb Vx,Wx
66.79.w0 vpbroadcastw Vx,Wx
66.7a.w0 vpbroadcastb Vx,Rd
66.7b.w0 vpbroadcastw Vx,Rd
66.7c vpbroadcast[d|q] Vx,Ry
66.7d vpermt2[b|w] Vx,Hx,Wx
66.7e vpermt2[d|q] Vx,Hx,Wx
66.7f vpermt2p[s|d] Vx,Hx,Wx
66.83.w1 vpmultishiftqb Vx,Hx,Wx
66.88 vexpandp[s|d] Vx,Wx
66.89 vpexpand[d|q] Vx,Wx
66.8a vcompressp[s|d] Wx,Vx
66.8b vpcompress[d|q] Wx,Vx
66.8d vperm[b|w] Vx,Hx,Wx
66.8f.w0 vpshufbitqmb Kg,Hx,Wx
66.90 vpgatherd[d|q] Vx,M vsib
66.91 vpgatherq[d|q] Vx,M vsib
66.92 vgatherdp[s|d] Vx,M vsib
66.93 vgatherqp[s|d] Vx,M vsib
f2.9a.w0 v4fmaddps Vx,Hx,M
f2.9b.w0 v4fmaddss Vx,Hx,M
66.a0 vpscatterd[d|q] M,Vx vsib
66.a1 vpscatterq[d|q] M,Vx vsib
66.a2 vscatterdp[s|d] M,Vx vsib
66.a3 vscatterqp[s|d] M,Vx vsib
f2.aa.w0 v4fnmaddps Vx,Hx,M
f2.ab.w0 v4fnmaddss Vx,Hx,M
66.b4.w1 vpmadd52luq Vx,Hx,Wx
66.b5.w1 vpmadd52huq Vx,Hx,Wx
66.c4 vpconflict[d|q] Vx,Wx
66.c6/1 vgatherpf0dp[s|d] M vsib
66.c6/2 vgatherpf1dp[s|d] M vsib
66.c6/5 vscatterpf0dp[s|d] M vsib
66.c6/6 vscatterpf1dp[s|d] M vsib
66.c7/1 vgatherpf0qp[s|d] M vsib
66.c7/2 vgatherpf1qp[s|d] M vsib
66.c7/5 vscatterpf0qp[s|d] M vsib
66.c7/6 vscatterpf1qp[s|d] M vsib
66.c8 vexp2p[s|d] Vx,Wx
66.ca vrcp28p[s|d] Vx,Wx
66.cb vrcp28s[s|d] Vx,Hx,Wx
66.cc vrsqrt28p[s|d] Vx,Wx
66.cd vrsqrt28s[s|d] Vx,Hx,Wx
66.cf.w0 vgf2p8mulb Vx,Hx,Wx
66.dc vaesenc Vx,Hx,Wx
66.dd vaesenclast Vx,Hx,Wx
66.de vaesdec Vx,Hx,Wx
66.df vaesdeclast Vx,Hx,Wx
${fma('66.', 'p[s|d]', 's[s|d]')}
`;

const EVEX_0F3A = (): string => `
66.00.w1.l1 vpermq Vx,Wx,Ib
66.01.w1.l1 vpermpd Vx,Wx,Ib
66.03 valign[d|q] Vx,Hx,Wx,Ib
66.04.w0 vpermilps Vx,Wx,Ib
66.05.w1 vpermilpd Vx,Wx,Ib
np.08.w0 vrndscaleph Vx,Wx,Ib
66.08.w0 vrndscaleps Vx,Wx,Ib
66.09.w1 vrndscalepd Vx,Wx,Ib
np.0a.w0 vrndscalesh Vx,Hx,Wx,Ib
66.0a.w0 vrndscaless Vx,Hx,Wx,Ib
66.0b.w1 vrndscalesd Vx,Hx,Wx,Ib
66.0f vpalignr Vx,Hx,Wx,Ib
66.14.l0 vpextrb Ed,Vx,Ib
66.15.l0 vpextrw Ed,Vx,Ib
66.16.l0 vpextr[d|q] Ey,Vx,Ib
66.17.l0 vextractps Ed,Vx,Ib
66.18.l1 vinsertf[32x4|64x2] Vx,Hx,Wx,Ib
66.19.l1 vextractf[32x4|64x2] Wx,Vx,Ib
66.1a.l2 vinsertf[32x8|64x4] Vx,Hx,Wx,Ib
66.1b.l2 vextractf[32x8|64x4] Wx,Vx,Ib
66.1d.w0 vcvtps2ph Wx,Vx,Ib
66.1e vpcmpu[d|q] Kg,Hx,Wx,Ib
66.1f vpcmp[d|q] Kg,Hx,Wx,Ib
66.20.l0 vpinsrb Vx,Hx,Ed,Ib
66.21.w0.l0 vinsertps Vx,Hx,Wx,Ib
66.22.l0 vpinsr[d|q] Vx,Hx,Ey,Ib
66.23.l1 vshuff[32x4|64x2] Vx,Hx,Wx,Ib
66.25 vpternlog[d|q] Vx,Hx,Wx,Ib
np.26.w0 vgetmantph Vx,Wx,Ib
66.26 vgetmantp[s|d] Vx,Wx,Ib
np.27.w0 vgetmantsh Vx,Hx,Wx,Ib
66.27 vgetmants[s|d] Vx,Hx,Wx,Ib
66.38.l1 vinserti[32x4|64x2] Vx,Hx,Wx,Ib
66.39.l1 vextracti[32x4|64x2] Wx,Vx,Ib
66.3a.l2 vinserti[32x8|64x4] Vx,Hx,Wx,Ib
66.3b.l2 vextracti[32x8|64x4] Wx,Vx,Ib
66.3e vpcmpu[b|w] Kg,Hx,Wx,Ib
66.3f vpcmp[b|w] Kg,Hx,Wx,Ib
66.42.w0 vdbpsadbw Vx,Hx,Wx,Ib
66.43.l1 vshufi[32x4|64x2] Vx,Hx,Wx,Ib
66.44 vpclmulqdq Vx,Hx,Wx,Ib
66.50 vrangep[s|d] Vx,Hx,Wx,Ib
66.51 vranges[s|d] Vx,Hx,Wx,Ib
66.54 vfixupimmp[s|d] Vx,Hx,Wx,Ib
66.55 vfixupimms[s|d] Vx,Hx,Wx,Ib
np.56.w0 vreduceph Vx,Wx,Ib
66.56 vreducep[s|d] Vx,Wx,Ib
np.57.w0 vreducesh Vx,Hx,Wx,Ib
66.57 vreduces[s|d] Vx,Hx,Wx,Ib
np.66.w0 vfpclassph Kg,Wx,Ib
66.66 vfpclassp[s|d] Kg,Wx,Ib
np.67.w0 vfpclasssh Kg,Wx,Ib
66.67 vfpclasss[s|d] Kg,Wx,Ib
66.70.w1 vpshldw Vx,Hx,Wx,Ib
66.71 vpshld[d|q] Vx,Hx,Wx,Ib
66.72.w1 vpshrdw Vx,Hx,Wx,Ib
66.73 vpshrd[d|q] Vx,Hx,Wx,Ib
np.c2.w0 vcmpph Kg,Hx,Wx,Ib
f3.c2.w0 vcmpsh Kg,Hx,Wx,Ib
66.ce.w1 vgf2p8affineqb Vx,Hx,Wx,Ib
66.cf.w1 vgf2p8affineinvqb Vx,Hx,Wx,Ib
`;

/** EVEX map 5 and 6: half precision. */
const EVEX_MAP5 = (): string => `
f3.10.w0 vmovsh Vx,Mx
f3.10.w0 vmovsh Vx,Hx,Ux
f3.11.w0 vmovsh Mx,Vx
f3.11.w0 vmovsh Ux,Hx,Vx
np.1d.w0 vcvtss2sh Vx,Hx,Wx
66.1d.w0 vcvtps2phx Vx,Wx
f3.2a vcvtsi2sh Vx,Hx,Ey
f3.2c vcvttsh2si Gy,Wx
f3.2d vcvtsh2si Gy,Wx
np.2e.w0 vucomish Vx,Wx
np.2f.w0 vcomish Vx,Wx
np.51.w0 vsqrtph Vx,Wx
f3.51.w0 vsqrtsh Vx,Hx,Wx
np.58.w0 vaddph Vx,Hx,Wx
f3.58.w0 vaddsh Vx,Hx,Wx
np.59.w0 vmulph Vx,Hx,Wx
f3.59.w0 vmulsh Vx,Hx,Wx
np.5a.w0 vcvtph2pd Vx,Wx
66.5a.w1 vcvtpd2ph Vx,Wx
f3.5a.w0 vcvtsh2sd Vx,Hx,Wx
f2.5a.w1 vcvtsd2sh Vx,Hx,Wx
np.5b vcvt[d|q]q2ph Vx,Wx
66.5b.w0 vcvtph2dq Vx,Wx
f3.5b.w0 vcvttph2dq Vx,Wx
np.5c.w0 vsubph Vx,Hx,Wx
f3.5c.w0 vsubsh Vx,Hx,Wx
np.5d.w0 vminph Vx,Hx,Wx
f3.5d.w0 vminsh Vx,Hx,Wx
np.5e.w0 vdivph Vx,Hx,Wx
f3.5e.w0 vdivsh Vx,Hx,Wx
np.5f.w0 vmaxph Vx,Hx,Wx
f3.5f.w0 vmaxsh Vx,Hx,Wx
66.6e.l0 vmovw Vx,Ed
np.78.w0 vcvttph2udq Vx,Wx
66.78.w0 vcvttph2uqq Vx,Wx
f3.78 vcvttsh2usi Gy,Wx
np.79.w0 vcvtph2udq Vx,Wx
66.79.w0 vcvtph2uqq Vx,Wx
f3.79 vcvtsh2usi Gy,Wx
66.7a.w0 vcvttph2qq Vx,Wx
f2.7a vcvtu[d|q]q2ph Vx,Wx
66.7b.w0 vcvtph2qq Vx,Wx
f3.7b vcvtusi2sh Vx,Hx,Ey
np.7c.w0 vcvttph2uw Vx,Wx
66.7c.w0 vcvttph2w Vx,Wx
np.7d.w0 vcvtph2uw Vx,Wx
66.7d.w0 vcvtph2w Vx,Wx
f3.7d.w0 vcvtw2ph Vx,Wx
f2.7d.w0 vcvtuw2ph Vx,Wx
66.7e.l0 vmovw Ed,Vx
`;

const EVEX_MAP6 = (): string => `
np.13.w0 vcvtsh2ss Vx,Hx,Wx
66.13.w0 vcvtph2psx Vx,Wx
66.2c.w0 vscalefph Vx,Hx,Wx
66.2d.w0 vscalefsh Vx,Hx,Wx
66.42.w0 vgetexpph Vx,Wx
66.43.w0 vgetexpsh Vx,Hx,Wx
66.4c.w0 vrcpph Vx,Wx
66.4d.w0 vrcpsh Vx,Hx,Wx
66.4e.w0 vrsqrtph Vx,Wx
66.4f.w0 vrsqrtsh Vx,Hx,Wx
f3.56.w0 vfmaddcph Vx,Hx,Wx
f2.56.w0 vfcmaddcph Vx,Hx,Wx
f3.57.w0 vfmaddcsh Vx,Hx,Wx
f2.57.w0 vfcmaddcsh Vx,Hx,Wx
f3.d6.w0 vfmulcph Vx,Hx,Wx
f2.d6.w0 vfcmulcph Vx,Hx,Wx
f3.d7.w0 vfmulcsh Vx,Hx,Wx
f2.d7.w0 vfcmulcsh Vx,Hx,Wx
${fma('66.', 'ph', 'sh').replace(/^(66\...)/gm, '$1.w0')}
`;

const XOP_8 = (): string => `
np.85.w0.l0 vpmacssww Vx,Hx,Wx,Lx
np.86.w0.l0 vpmacsswd Vx,Hx,Wx,Lx
np.87.w0.l0 vpmacssdql Vx,Hx,Wx,Lx
np.8e.w0.l0 vpmacssdd Vx,Hx,Wx,Lx
np.8f.w0.l0 vpmacssdqh Vx,Hx,Wx,Lx
np.95.w0.l0 vpmacsww Vx,Hx,Wx,Lx
np.96.w0.l0 vpmacswd Vx,Hx,Wx,Lx
np.97.w0.l0 vpmacsdql Vx,Hx,Wx,Lx
np.9e.w0.l0 vpmacsdd Vx,Hx,Wx,Lx
np.9f.w0.l0 vpmacsdqh Vx,Hx,Wx,Lx
np.a2 vpcmov Vx,Hx,Wx,Lx
np.a3.l0 vpperm Vx,Hx,Wx,Lx
np.a6.w0.l0 vpmadcsswd Vx,Hx,Wx,Lx
np.b6.w0.l0 vpmadcswd Vx,Hx,Wx,Lx
np.c0.w0.l0 vprotb Vx,Wx,Ib
np.c1.w0.l0 vprotw Vx,Wx,Ib
np.c2.w0.l0 vprotd Vx,Wx,Ib
np.c3.w0.l0 vprotq Vx,Wx,Ib
np.cc.w0.l0 vpcomb Vx,Hx,Wx,Ib
np.cd.w0.l0 vpcomw Vx,Hx,Wx,Ib
np.ce.w0.l0 vpcomd Vx,Hx,Wx,Ib
np.cf.w0.l0 vpcomq Vx,Hx,Wx,Ib
np.ec.w0.l0 vpcomub Vx,Hx,Wx,Ib
np.ed.w0.l0 vpcomuw Vx,Hx,Wx,Ib
np.ee.w0.l0 vpcomud Vx,Hx,Wx,Ib
np.ef.w0.l0 vpcomuq Vx,Hx,Wx,Ib
`;

const XOP_9 = (): string => `
np.01/1.l0 blcfill By,Ey
np.01/2.l0 blsfill By,Ey
np.01/3.l0 blcs By,Ey
np.01/4.l0 tzmsk By,Ey
np.01/5.l0 blcic By,Ey
np.01/6.l0 blsic By,Ey
np.01/7.l0 t1mskc By,Ey
np.02/1.l0 blcmsk By,Ey
np.02/6.l0 blci By,Ey
np.12/0.l0 llwpcb Ry
np.12/1.l0 slwpcb Ry
np.80.w0 vfrczps Vx,Wx
np.81.w0 vfrczpd Vx,Wx
np.82.w0.l0 vfrczss Vx,Wx
np.83.w0.l0 vfrczsd Vx,Wx
np.90.l0 vprotb Vx,Wx,Hx
np.91.l0 vprotw Vx,Wx,Hx
np.92.l0 vprotd Vx,Wx,Hx
np.93.l0 vprotq Vx,Wx,Hx
np.94.l0 vpshlb Vx,Wx,Hx
np.95.l0 vpshlw Vx,Wx,Hx
np.96.l0 vpshld Vx,Wx,Hx
np.97.l0 vpshlq Vx,Wx,Hx
np.98.l0 vpshab Vx,Wx,Hx
np.99.l0 vpshaw Vx,Wx,Hx
np.9a.l0 vpshad Vx,Wx,Hx
np.9b.l0 vpshaq Vx,Wx,Hx
np.c1.w0.l0 vphaddbw Vx,Wx
np.c2.w0.l0 vphaddbd Vx,Wx
np.c3.w0.l0 vphaddbq Vx,Wx
np.c6.w0.l0 vphaddwd Vx,Wx
np.c7.w0.l0 vphaddwq Vx,Wx
np.cb.w0.l0 vphadddq Vx,Wx
np.d1.w0.l0 vphaddubw Vx,Wx
np.d2.w0.l0 vphaddubd Vx,Wx
np.d3.w0.l0 vphaddubq Vx,Wx
np.d6.w0.l0 vphadduwd Vx,Wx
np.d7.w0.l0 vphadduwq Vx,Wx
np.db.w0.l0 vphaddudq Vx,Wx
np.e1.w0.l0 vphsubbw Vx,Wx
np.e2.w0.l0 vphsubwd Vx,Wx
np.e3.w0.l0 vphsubdq Vx,Wx
`;

const XOP_A = (): string => `
np.10.l0 bextr Gy,Ey,Id
np.12/0.l0 lwpins By,Ed,Id
np.12/1.l0 lwpval By,Ed,Id
`;

/** Last bytes of 3DNow! instructions (0f 0f ModRM … suffix). */
export const THREE_D_NOW: ReadonlyMap<number, string> = new Map([
  [0x0c, 'pi2fw'],
  [0x0d, 'pi2fd'],
  [0x1c, 'pf2iw'],
  [0x1d, 'pf2id'],
  [0x8a, 'pfnacc'],
  [0x8e, 'pfpnacc'],
  [0x90, 'pfcmpge'],
  [0x94, 'pfmin'],
  [0x96, 'pfrcp'],
  [0x97, 'pfrsqrt'],
  [0x9a, 'pfsub'],
  [0x9e, 'pfadd'],
  [0xa0, 'pfcmpgt'],
  [0xa4, 'pfmax'],
  [0xa6, 'pfrcpit1'],
  [0xa7, 'pfrsqit1'],
  [0xaa, 'pfsubr'],
  [0xae, 'pfacc'],
  [0xb0, 'pfcmpeq'],
  [0xb4, 'pfmul'],
  [0xb6, 'pfrcpit2'],
  [0xb7, 'pmulhrw'],
  [0xbb, 'pswapd'],
  [0xbf, 'pavgusb'],
]);

// ------------------------------------------------------------------------------------------ parser

const FLOWS: readonly OpcodeFlow[] = [
  'next',
  'jump',
  'call',
  'branch',
  'indirect-jump',
  'indirect-call',
  'return',
  'syscall',
  'trap',
];

function badRow(line: string, why: string): ElftraceError {
  return new ElftraceError('bad-row', `x86 opcode map: '${line}': ${why}`, { what: line });
}

const PREFIXES: Readonly<Record<string, readonly (readonly [mask: number, suffix: string])[]>> = {
  np: [[1, '']],
  '66': [[2, '']],
  f3: [[4, '']],
  f2: [[8, '']],
  mm: [[3, '']],
  '4x': [
    [1, 'ps'],
    [2, 'pd'],
    [4, 'ss'],
    [8, 'sd'],
  ],
  '2x': [
    [1, 'ps'],
    [2, 'pd'],
  ],
  '1x': [
    [1, 'ps'],
    [4, 'ss'],
  ],
};

const KEY =
  /^(?:(np|66|f3|f2|mm|4x|2x|1x)\.)?([0-9a-f]{2})(\+|cc)?(?:\/([0-7])(?:-([0-7]))?|:([0-9a-f]{2}))?((?:\.[wl][012])*)$/;

function immediateOf(operand: string): ImmediateCode | null {
  switch (operand) {
    case 'Ib':
    case 'Iw':
    case 'Iz':
    case 'Iv':
    case 'Id':
      return operand;
    case 'Lx':
      return 'Ib';
    case 'Jb':
      return 'J8';
    case 'Jz':
      return 'J32';
    case 'Jxz':
      return 'Jz';
    case 'Ob':
    case 'Ov':
      return 'O';
    default:
      return null;
  }
}

/** What an operand code says about the rows that have it. */
interface OperandFacts {
  readonly immediate: ImmediateCode | null;
  /** It is coded in ModRM.reg or ModRM.rm. */
  readonly inModRm: boolean;
  /** ModRM.mod that it demands: 1 memory, 2 a register, 3 any. */
  readonly modMask: number;
  readonly eightMask: number;
  readonly usesVvvv: boolean;
  readonly plainReg: boolean;
}

const facts = new Map<string, OperandFacts>();

function factsOf(operand: string): OperandFacts {
  const known = facts.get(operand);
  if (known) return known;
  const eight = /^[KT]([a-z])$/.exec(operand)?.[1];
  const made: OperandFacts = {
    immediate: immediateOf(operand),
    inModRm: /^(?:[EGMRVWUPQNCDS][a-z]*|K[germ]|T[gr])$/.test(operand),
    modMask: /^(?:M[a-z]*|Km)$/.test(operand) ? 1 : /^(?:[RUN][a-z]*|Kr|Tr)$/.test(operand) ? 2 : 3,
    eightMask: eight === undefined ? 0 : eight === 'g' ? 1 : eight === 'h' ? 4 : 2,
    usesVvvv: /^(?:[HB][a-z]+|Kh|Th)$/.test(operand),
    plainReg: /^(?:G[a-z]|Kg)$/.test(operand),
  };
  facts.set(operand, made);
  return made;
}

/** What the operands of a row say together. */
function operandFacts(operands: readonly string[]): {
  readonly immediates: readonly ImmediateCode[];
  readonly inModRm: boolean;
  readonly modMask: number;
  readonly eightMask: number;
  readonly usesVvvv: boolean;
  readonly plainReg: boolean;
} {
  const all = operands.map(factsOf);
  // Made by `push`, all lists are of one kind to V8: the decoder reads them in its innermost loop.
  const immediates: ImmediateCode[] = [];
  for (const { immediate } of all) if (immediate !== null) immediates.push(immediate);
  return {
    immediates,
    inModRm: all.some((each) => each.inModRm),
    modMask: all.findLast((each) => each.modMask !== 3)?.modMask ?? 3,
    eightMask: all.reduce((sum, each) => sum | each.eightMask, 0),
    usesVvvv: all.some((each) => each.usesVvvv),
    plainReg: all.some((each) => each.plainReg),
  };
}

function flowOf(flags: readonly string[], line: string): OpcodeFlow {
  let flow: OpcodeFlow = 'next';
  for (const flag of flags) {
    const named = FLOWS.find((each) => `@${each}` === flag);
    if (named) flow = named;
    else if (!['lock', 'vsib', 'modreg'].includes(flag)) throw badRow(line, `flag ${flag}`);
  }
  return flow;
}

/** ModRM.reg from `first` to `last`; any where there is none. */
function regMaskOf(first: string | undefined, last: string | undefined): number {
  if (first === undefined) return 0xff;
  let mask = 0;
  for (let reg = Number(first); reg <= Number(last ?? first); reg++) mask |= 1 << reg;
  return mask;
}

/** The rows of a line for one opcode. */
function parseLine(line: string, evex: boolean, wanted: number): OpcodeRow[] {
  const [key, name, operandText, ...flags] = line.split(/\s+/);
  const match = KEY.exec(key ?? '');
  if (!match || name === undefined || operandText === undefined) throw badRow(line, 'not a row');
  const [, prefixes, first, series, regFirst, regLast, wholeText, suffix = ''] = match;
  const operands = operandText === '-' ? [] : operandText.split(',');
  const { immediates, inModRm, modMask, eightMask, usesVvvv, plainReg } = operandFacts(operands);
  const flow = flowOf(flags, line);
  const modReg = flags.includes('modreg');
  const whole = wholeText === undefined ? -1 : Number.parseInt(wholeText, 16);
  const regMask = regMaskOf(regFirst, regLast);
  const lMask = suffix.includes('.l0') ? 1 : suffix.includes('.l1') ? 6 : suffix.includes('.l2') ? 4 : 7;
  const fixedW = suffix.includes('.w0') ? 1 : suffix.includes('.w1') ? 2 : 3;

  const rows: OpcodeRow[] = [];
  const add = (mnemonic: string, prefixMask: number, wMask: number): void => {
    const names = mnemonic.split('|');
    rows.push({
      mnemonics: [names[0]!, names[1] ?? names[0]!, names[2] ?? names[0]!],
      operands,
      flow,
      hasModRm: whole >= 0 || regFirst !== undefined || inModRm,
      immediates,
      lock: flags.includes('lock'),
      vsib: flags.includes('vsib'),
      modReg,
      eightMask,
      plainReg,
      usesVvvv,
      prefixMask,
      regMask,
      modMask: modReg ? 3 : modMask,
      modRm: whole,
      wMask,
      lMask,
    });
  };

  for (const [prefixMask, typeSuffix] of prefixes === undefined ? [[15, ''] as const] : PREFIXES[prefixes]!) {
    const typed = name.replace('?', typeSuffix);
    const typeW = !evex || typeSuffix === '' ? 3 : typeSuffix.endsWith('s') ? 1 : 2;
    const pair = typed.includes('[') ? /^(.*)\[(\w+)\|(\w+)\](.*)$/.exec(typed) : null;
    if (pair) {
      add(`${pair[1]!}${pair[2]!}${pair[4]!}`, prefixMask, 1);
      add(`${pair[1]!}${pair[3]!}${pair[4]!}`, prefixMask, 2);
    } else {
      const condition = series === 'cc' ? CONDITIONS[wanted - Number.parseInt(first!, 16)]! : '';
      add(series === 'cc' ? typed.replace('CC', condition) : typed, prefixMask, fixedW & typeW);
    }
  }
  return rows;
}

/** What a line's opcode is, and the first of how many. */
const PLACE = /^(?:[^.\s]+\.)?([0-9a-f]{2})(\+|cc)?/;

/** The bits of `OpcodeRowData[2]`. */
const BITS = ['hasModRm', 'lock', 'vsib', 'modReg', 'plainReg', 'usesVvvv'] as const;

function rowData(row: OpcodeRow): OpcodeRowData {
  const { mnemonics, operands, immediates, prefixMask, regMask, modMask, modRm, wMask, lMask, eightMask } = row;
  const names = new Set(mnemonics).size === 1 ? mnemonics[0] : mnemonics.join('|');
  let bits = 0;
  BITS.forEach((name, bit) => {
    if (row[name]) bits |= 1 << bit;
  });
  const numbers = [prefixMask, regMask, modMask, modRm, wMask, lMask, eightMask] as const;
  return [names, operands.join(), bits, FLOWS.indexOf(row.flow), immediates, ...numbers];
}

/** The rows that a line of `OpcodeMapData` was made from. */
export function rowsFromData(line: string): readonly OpcodeRow[] {
  return line === '' ? [] : (JSON.parse(line) as OpcodeRowData[]).map(rowFromData);
}

function rowFromData(data: OpcodeRowData): OpcodeRow {
  const [names, operands, bits, flow, immediates, prefixMask, regMask, modMask, modRm, wMask, lMask, eightMask] = data;
  const [first, second = first, third = first] = names.split('|') as [string, string?, string?];
  return {
    mnemonics: [first, second, third],
    operands: operands === '' ? [] : operands.split(','),
    flow: FLOWS[flow]!,
    hasModRm: (bits & 1) !== 0,
    immediates,
    lock: (bits & 2) !== 0,
    vsib: (bits & 4) !== 0,
    modReg: (bits & 8) !== 0,
    eightMask,
    plainReg: (bits & 16) !== 0,
    usesVvvv: (bits & 32) !== 0,
    prefixMask,
    regMask,
    modMask,
    modRm,
    wMask,
    lMask,
  };
}

/**
 * One map. Nothing of it is read before a row is asked for, and of each line only its place then:
 * programs use a tenth of them. The package brings along what the lines come to (`prebuilt.ts`).
 */
export class OpcodeTable {
  private lines: (string[] | undefined)[] | null = null;
  private prebuilt: readonly string[] | null | undefined = undefined;
  private readonly made: (readonly OpcodeRow[] | undefined)[] = new Array<undefined>(256).fill(undefined);

  /** @param name  of the prebuilt rows, if there are any */
  constructor(
    private readonly text: () => string,
    private readonly evex = false,
    private readonly name = '',
  ) {}

  /** Candidates of an opcode byte, most specific first. */
  rows(opcode: number): readonly OpcodeRow[] {
    return this.made[opcode] ?? this.make(opcode);
  }

  private make(opcode: number): readonly OpcodeRow[] {
    if (this.prebuilt === undefined) this.prebuilt = PREBUILT_MAPS.get(this.name)?.().split('\n') ?? null;
    return (this.made[opcode] = this.prebuilt ? rowsFromData(this.prebuilt[opcode]!) : this.parse(opcode));
  }

  private parse(opcode: number): readonly OpcodeRow[] {
    this.lines ??= this.index();
    const rows: OpcodeRow[] = [];
    for (const line of this.lines[opcode] ?? []) rows.push(...parseLine(line, this.evex, opcode));
    return rows;
  }

  /** Lines by opcode. */
  private index(): (string[] | undefined)[] {
    const lines: (string[] | undefined)[] = [];
    for (const padded of this.text().split('\n')) {
      const line = padded.trim();
      if (line === '') continue;
      const place = PLACE.exec(line);
      if (!place) throw badRow(line, 'not a row');
      const first = Number.parseInt(place[1]!, 16);
      const count = place[2] === undefined ? 1 : place[2] === '+' ? 8 : 16;
      for (let opcode = first; opcode < first + count; opcode++) (lines[opcode] ??= []).push(line);
    }
    return lines;
  }

  /** What the lines of the text come to. */
  get data(): OpcodeMapData {
    const lines = Array.from({ length: 256 }, (_, opcode) => this.rows(opcode).map(rowData));
    return lines.map((rows) => (rows.length === 0 ? '' : JSON.stringify(rows))).join('\n');
  }
}

/**
 * The maps, by how they are reached. VEX and EVEX are indexed by map number, XOP by map number - 8.
 */
export interface OpcodeMaps {
  readonly one: OpcodeTable;
  readonly legacy0f: OpcodeTable;
  readonly legacy0f38: OpcodeTable;
  readonly legacy0f3a: OpcodeTable;
  readonly vex: readonly (OpcodeTable | null)[];
  readonly evex: readonly (OpcodeTable | null)[];
  readonly xop: readonly OpcodeTable[];
}

/** Every map by its name; about 1,900 rows. */
export const opcodeTables: ReadonlyMap<string, OpcodeTable> = new Map(
  Object.entries({
    one: ONE_BYTE,
    '0f': MAP_0F,
    '0f38': MAP_0F38,
    '0f3a': MAP_0F3A,
    'vex 1': VEX_0F,
    'vex 2': VEX_0F38,
    'vex 3': VEX_0F3A,
    'evex 1': EVEX_0F,
    'evex 2': EVEX_0F38,
    'evex 3': EVEX_0F3A,
    'evex 5': EVEX_MAP5,
    'evex 6': EVEX_MAP6,
    'xop 8': XOP_8,
    'xop 9': XOP_9,
    'xop 10': XOP_A,
  }).map(([name, text]) => [name, new OpcodeTable(text, name.startsWith('evex'), name)] as const),
);

const table = (name: string): OpcodeTable => opcodeTables.get(name)!;

export const opcodeMaps: OpcodeMaps = {
  one: table('one'),
  legacy0f: table('0f'),
  legacy0f38: table('0f38'),
  legacy0f3a: table('0f3a'),
  vex: [null, table('vex 1'), table('vex 2'), table('vex 3')],
  evex: [null, table('evex 1'), table('evex 2'), table('evex 3'), null, table('evex 5'), table('evex 6'), null],
  xop: [table('xop 8'), table('xop 9'), table('xop 10')],
};
