/**
 * Mutants that do the same as what they stand for, as the code around them says (PV-5). GNU as
 * makes both; each thing that must be seen has a twin that differs in it alone.
 */
import { afterAll, expect, test } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { arches } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { Equality } from './support/mutant-equal.js';
import { type CodeFunction, Liveness } from './support/mutant-liveness.js';
import { calledIn } from './support/mutant-twins.js';
import { describeWith, run } from './support/tools.js';

const assemblers = {
  arm64: ['aarch64-linux-gnu-as'],
  riscv64: ['riscv64-linux-gnu-as', '-march=rv64ima_zicsr'],
  'ppc64-elfv2-le': ['powerpc64le-linux-gnu-as', '-a64', '-mpower8'],
  'x86-64': ['as', '--64'],
} as const;
type Name = keyof typeof assemblers;

const folder = mkdtempSync(join(tmpdir(), 'elftrace-equal-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

function assembled(name: Name, source: string) {
  const output = join(folder, 'out.o');
  const [command, ...options] = assemblers[name];
  run(command, [...options, '-o', output, '-'], `${source.replaceAll(';', '\n')}\n`);
  const image = readElf(new Uint8Array(readFileSync(output)));
  const text = image.sections.find((section) => section.name === '.text')!;
  const bytes = image.bytes.slice(text.offset, text.offset + text.size);
  const at = (label: string): bigint | null => {
    const index = image.symbols.find(label);
    return index > 0 ? image.symbols.value[index]! : null;
  };
  return { bytes, at };
}

/**
 * Whether `|A|B|` in the source may be B in place of A. `f` is called from elsewhere, `g` from the
 * source alone, `h` is no C, `v` is as `f` and has no result, `o` is the entry of sites that are
 * ordinary calls, `k` is as `f` and its first argument is not 0, `i` goes on to a function of two
 * arguments; the tool may write something else at `label`.
 */
function isSame(name: Name, source: string): boolean {
  const form = (index: 1 | 2): string =>
    source.replace(/\|(.*?)\|(.*?)\|/, (...parts: string[]) => `begin: ;${parts[index]!}; end: `);
  const [original, changed] = [assembled(name, form(1)), assembled(name, form(2))];
  const [begin, end] = [Number(original.at('begin')), Number(original.at('end'))];
  expect(changed.bytes).toHaveLength(original.bytes.length);
  const { emulation, abi } = arches.find(({ target }) => target.id === name)!;
  if (emulation.kind !== 'ir') throw new Error('no emulation');
  const machine = { lifter: emulation.lifter, proof: emulation.proof, abi };
  const callersOf = { f: 'abi', g: 'inside', h: 'any', v: 'abi', o: 'any', k: 'abi', i: 'any' } as const;
  const functions = (['f', 'g', 'h', 'v', 'o', 'k', 'i'] as const).flatMap((each): CodeFunction[] => {
    const start = original.at(each);
    if (start === null) return [];
    const isCompiled = each !== 'h' && each !== 'o' && each !== 'i';
    const is = { isCompiled, isVoid: each === 'v', isOrdinary: each === 'o' };
    const set = each === 'k' ? [abi.argumentRegisters[0]!] : [];
    const hands = each === 'i' ? abi.argumentRegisters.slice(0, 2) : null;
    return [{ starts: [start], callers: callersOf[each], calls: 0, ...is, set, hands }];
  });
  const label = original.at('label');
  const range = { start: 0n, end: BigInt(original.bytes.length), bytes: original.bytes };
  const liveness = new Liveness(machine, [range], functions, label === null ? [] : [label]);
  return new Equality(machine, liveness).isSame({
    address: BigInt(begin),
    before: original.bytes.slice(begin, end),
    after: changed.bytes.slice(begin, end),
  });
}

type Row = readonly [what: string, isSame: boolean, source: string];

const arm64: readonly Row[] = [
  ['written before it is read', true, 'f: |mov x9,#1|nop| ; mov x9,#2; mov x0,x9; ret'],
  ['on a way that an argument never takes', true, 'k: |cbz x0,1f|nop| ; mov x0,#1; 1: ret'],
  ['on a way that any argument may take', false, 'f: |cbz x0,1f|nop| ; mov x0,#1; 1: ret'],
  ['what no argument is', true, 'i: |mov x8,#1|nop| ; br x4'],
  ['the second of two arguments', false, 'i: |mov x1,#1|nop| ; br x4'],
  ['read behind a breakpoint that ends all', true, 'f: |mov x9,#1|nop| ; cbz x0,1f; brk #1; 1: mov x9,#2; ret'],
  ['asked whether two are equal, as a number', true, 'f: |cmp x0,x1|cmp x1,x0| ; cset w0,ne; ret'],
  ['asked which of two is less, as a number', false, 'f: |cmp x0,x1|cmp x1,x0| ; cset w0,lo; ret'],
  ['read', false, 'f: |mov x9,#1|nop| ; mov x0,x9; ret'],
  ['read on one of two ways', false, 'f: |mov x9,#1|nop| ; cbz x0,1f; mov x9,#2; 1: mov x0,x9; ret'],
  ['written on both ways', true, 'f: |mov x9,#1|nop| ; cbz x0,1f; mov x9,#2; ret; 1: mov x9,#3; ret'],
  ['carried by a loop', false, 'f: mov x9,#0; 1: add x0,x0,x9; |add x9,x9,#1|nop| ; sub x1,x1,#1; cbnz x1,1b; ret'],
  ['carried by a loop for nothing', true, 'f: 1: |add x9,x9,#1|nop| ; sub x1,x1,#1; cbnz x1,1b; ret'],
  ['read by a callee', false, 'f: mov x29,x30; |mov x9,#1|nop| ; bl g; mov x30,x29; ret; g: mov x0,x9; ret'],
  ['read by no callee', true, 'f: mov x29,x30; |mov x9,#1|nop| ; bl g; mov x30,x29; ret; g: mov x9,x0; ret'],
  ['read behind a call', false, 'f: mov x29,x30; |mov x20,#1|nop| ; bl g; mov x0,x20; mov x30,x29; ret; g: ret'],
  ['an argument', false, 'f: mov x29,x30; |mov x7,#1|nop| ; blr x8; mov x30,x29; ret'],
  ['kept by an unknown callee', false, 'f: mov x29,x30; |mov x20,#1|nop| ; blr x8; mov x0,x20; mov x30,x29; ret'],
  [
    'of the caller of an unknown callee',
    true,
    'f: mov x29,x30; |mov x20,#1|nop| ; blr x8; mov x20,#2; mov x30,x29; ret',
  ],
  ['flags of an unknown callee', true, 'f: mov x29,x30; |cmp x0,#1|nop| ; blr x8; mov x30,x29; ret'],
  [
    // A function finds no flags, as it finds nothing in x9.
    'flags of a callee that goes elsewhere',
    true,
    'f: mov x29,x30; |cmp x0,#1|nop| ; bl h; mov x30,x29; ret; h: br x10',
  ],
  ['flags of a callee that comes back', true, 'f: mov x29,x30; |cmp x0,#1|nop| ; bl h; mov x30,x29; ret; h: ret'],
  ['flags that are asked later', false, 'f: |cmp x0,#1|nop| ; mov x1,#2; b.eq 1f; mov x0,#3; 1: ret'],
  ['flags that are set again', true, 'f: |cmp x0,#1|nop| ; cmp x0,#2; b.eq 1f; mov x0,#3; 1: ret'],
  ['where a register says', false, 'f: |mov x9,#1|nop| ; br x10'],
  ['a result', false, 'f: |mov x0,#1|nop| ; ret'],
  ['no result', true, 'f: |mov x9,#1|nop| ; ret'],
  ['no result of what is no C', false, 'h: |mov x7,#1|nop| ; ret'],
  ['dead behind what is no C', true, 'h: |mov x9,#1|nop| ; ret'],
  ['dead, but where what is no C goes on', false, 'h: |mov x9,#1|nop| ; cbz x0,1f; ret; 1: ret x9'],
  ['of the caller', false, 'f: |mov x19,#1|nop| ; ret'],
  [
    'of the one caller, which writes it over',
    true,
    'f: mov x29,x30; bl g; mov x19,x29; ret x29; g: |mov x19,#1|nop| ; ret',
  ],
  ['of the one caller, which owes it to its own', false, 'f: mov x29,x30; bl g; ret x29; g: |mov x19,#1|nop| ; ret'],
  ['of two callers, one of whom needs it', false, 'f: bl g; bl g; mov x0,x19; ret; g: |mov x19,#1|nop| ; ret'],
  ['the link register', false, 'f: |mov x30,x9|nop| ; ret'],
  ['an argument on the stack', false, 'f: mov x29,x30; |str x9,[sp]|nop| ; blr x8; mov x30,x29; ret'],
  ['a store', false, 'f: |str x9,[x0]|nop| ; ret'],
  ['a store that is stored over', true, 'f: |str x9,[x0]|nop| ; str x10,[x0]; ret'],
  ['a store that is stored over in part', false, 'f: |str x9,[x0]|nop| ; str w10,[x0]; ret'],
  ['a word of the frame at the end', true, 'f: sub sp,sp,#32; |str x9,[sp,#8]|nop| ; add sp,sp,#32; ret'],
  [
    'a word of the frame at the end of what is no C',
    false,
    'h: sub sp,sp,#32; |str x9,[sp,#8]|nop| ; add sp,sp,#32; ret',
  ],
  ["a word of the caller's frame", false, 'f: sub sp,sp,#32; |str x9,[sp,#32]|nop| ; add sp,sp,#32; ret'],
  [
    'a word of the frame that is loaded',
    false,
    'f: sub sp,sp,#32; |str x9,[sp,#8]|nop| ; ldr x0,[sp,#8]; add sp,sp,#32; ret',
  ],
  ['a load for nothing', true, 'f: |ldr x9,[x0]|nop| ; ret'],
  ['a load for nothing from elsewhere, which may fault', false, 'f: |ldr x9,[x0]|ldr x9,[x1]| ; ret'],
  ['a load for nothing from the own frame', true, 'f: |ldr x9,[sp,#8]|ldr x9,[sp,#16]| ; ret'],
  ['a load before the branch that guards it', false, 'f: |cbz x0,1f; ldr x9,[x0]|ldr x9,[x0]; cbz x0,.+4| ; 1: ret'],
  ['neighbours that share nothing', true, 'f: |add x0,x0,#1; add x1,x1,#1|add x1,x1,#1; add x0,x0,#1| ; ret'],
  [
    'neighbours of which one reads the other',
    false,
    'f: |add x0,x0,#1; add x1,x0,#1|add x1,x0,#1; add x0,x0,#1| ; ret',
  ],
  [
    'neighbours with a way between',
    false,
    'f: cbz x2,1f; |add x0,x0,#1; 1: add x1,x1,#1|add x1,x1,#1; 1: add x0,x0,#1| ; ret',
  ],
  [
    'neighbours of a function with a table of jumps',
    false,
    'f: br x4; |add x0,x0,#1; add x1,x1,#1|add x1,x1,#1; add x0,x0,#1| ; ret',
  ],
  ['stores apart', true, 'f: |str x1,[x0]; str x2,[x0,#8]|str x2,[x0,#8]; str x1,[x0]| ; ret'],
  ['stores that meet', false, 'f: |str x1,[x0]; str x2,[x0,#4]|str x2,[x0,#4]; str x1,[x0]| ; ret'],
  ['stores that may meet', false, 'f: |str x1,[x0]; str x2,[x3]|str x2,[x3]; str x1,[x0]| ; ret'],
  ['a branch over what adds nothing', true, 'f: |cbz x0,1f|nop| ; add x1,x1,x0; 1: ret'],
  ['a branch over what adds something', false, 'f: |cbz x0,1f|nop| ; add x1,x1,#1; 1: ret'],
  [
    'a bit that is set, as a number',
    true,
    'f: and x3,x2,#4; cbz x3,1f; |mov x0,x3|mov x0,#4| ; ret; 1: mov x0,#0; ret',
  ],
  ['a bit that is not set', false, 'f: and x3,x2,#4; cbnz x3,1f; |mov x0,x3|mov x0,#4| ; ret; 1: mov x0,#0; ret'],
  ['one of two bits', false, 'f: and x3,x2,#12; cbz x3,1f; |mov x0,x3|mov x0,#4| ; ret; 1: mov x0,#0; ret'],
  ['a bit of the upper half', false, 'f: and x3,x2,#4; cbz w2,1f; |mov x0,x3|mov x0,#4| ; ret; 1: mov x0,#0; ret'],
  ['a second look', true, 'f: cbz x0,1f; |cbz x0,1f|nop| ; add x1,x1,#1; 1: mov x0,x1; ret'],
  ['a second look at something else', false, 'f: cbz x0,1f; |cbz x2,1f|nop| ; add x1,x1,#1; 1: mov x0,x1; ret'],
  ['a branch into what is for nothing', true, 'f: |cbz x0,1f|cbz x0,2f| ; mov x0,#2; ret; 1: mov x9,#1; 2: ret'],
  ['a branch past a result', false, 'f: |cbz x0,1f|cbz x0,2f| ; mov x0,#2; ret; 1: mov x0,#1; 2: ret'],
  ['the same once more', false, 'f: 1: add x0,x0,#1; |cbnz x0,1b|nop| ; ret'],
  ['what another function would have as its result', true, 'v: |mov x0,#1|nop| ; ret'],
  ...(
    [
      ['asked whether it is 0', true, 'mov x20,#2', 'cbz x20,1f'],
      ['asked whether it is 0, and it is', false, 'mov x20,#0', 'cbz x20,1f'],
      ['asked for a bit', false, 'mov x20,#2', 'tbz x20,#0,1f'],
    ] as const
  ).flatMap(([what, expected, changed, ask]): Row[] =>
    [
      ['by an unknown callee', 'blr x8', ''],
      ['by a callee that uses the register', 'bl g', 'g: str x20,[sp,#-16]!; mov x20,x0; ldr x20,[sp],#16; ret'],
    ].map(([by, call, callee]) => [
      `${what}, kept ${by!}`,
      expected,
      `f: mov x29,x30; |mov x20,#1|${changed}| ; ${call!}; ${ask}; mov x20,#0; ret x29; 1: mov x20,#1; ret x29; ${callee!}`,
    ]),
  ),
  [
    'a second look at what a store has kept',
    true,
    'f: str x1,[sp,#8]; cbz x1,1f; ldr x2,[sp,#8]; |cbz x2,1f|nop| ; add x0,x0,#1; 1: ret',
  ],
  [
    'a second look at what another store may have changed',
    false,
    'f: str x1,[sp,#8]; cbz x1,1f; str x3,[x4]; ldr x2,[sp,#8]; |cbz x2,1f|nop| ; add x0,x0,#1; 1: ret',
  ],
  [
    'a second look at the same comparison',
    true,
    'f: cmp x1,x2; b.eq 1f; cmp x1,x2; |b.eq 1f|nop| ; add x0,x0,#1; 1: ret',
  ],
  [
    'operands of a comparison for equality',
    true,
    'f: |cmp x1,x2|cmp x2,x1| ; b.eq 1f; mov x0,#3; ret; 1: mov x0,#1; ret',
  ],
  ['operands of another comparison', false, 'f: |cmp x1,x2|cmp x2,x1| ; b.lt 1f; mov x0,#3; ret; 1: mov x0,#1; ret'],
  ['operands of a choice between equal ones', true, 'f: |cmp x1,x2|cmp x2,x1| ; csel x0,x3,x4,ne; ret'],
  ['operands of another choice', false, 'f: |cmp x1,x2|cmp x2,x1| ; csel x0,x3,x4,hi; ret'],
  [
    'a second look at another comparison',
    false,
    'f: cmp x1,x2; b.eq 1f; cmp x1,x3; |b.eq 1f|nop| ; add x0,x0,#1; 1: ret',
  ],
  ['where the tool writes', false, 'f: label: |mov x9,#1|nop| ; ret'],
  ['in front of where the tool writes', false, 'f: |mov x9,#1|nop| ; label: nop; ret'],
];

const riscv64: readonly Row[] = [
  [
    'the clock an instruction later',
    true,
    'v: |rdtime a5; li a4,1|li a4,1; rdtime a5| ; sd a5,0(a0); sd a4,8(a0); ret',
  ],
  ['what an ordinary call changes', true, 'o: |ld t2,0(sp)|nop| ; ret'],
  ['what an ordinary call keeps', false, 'o: |ld s2,0(sp)|nop| ; ret'],
  ['the same in another entry', false, 'h: |ld t2,0(sp)|nop| ; ret'],
  ['the link register, which the return reads', false, 'f: |j 1f|jal ra,1f| ; nop; 1: ret'],
  ['the link register, which is loaded again', true, 'f: |j 1f|jal ra,1f| ; nop; 1: ld ra,8(sp); ret'],
  ['a bit of an address that jumps leave out', true, 'f: |jr 0(ra)|jr 1(ra)| ; nop'],
  ['a bit of an address that jumps do not leave out', false, 'f: |jr 0(ra)|jr 2(ra)| ; nop'],
  [
    'a load with a reservation of what was just read, and another hart may have changed',
    false,
    'f: ld a4,0(a0); bnez a4,1f; lr.d a5,(a0); |bnez a5,1f|nop| ; sc.d a6,a1,(a0); li a1,2; 1: mv a0,a1; ret',
  ],
  [
    'a load with a reservation of something else',
    false,
    'f: ld a4,0(a0); bnez a4,1f; lr.d a5,(a2); |bnez a5,1f|nop| ; sc.d a6,a1,(a2); li a1,2; 1: mv a0,a1; ret',
  ],
  [
    'a branch that tries again where a store under a reservation fails',
    false,
    'f: lr.d a5,(a0); sc.d a6,a1,(a0); |bnez a6,1f|nop| ; li a1,2; 1: mv a0,a1; ret',
  ],
  [
    'a store under the reservation of another word',
    false,
    'f: lr.d a5,(a0); sc.d a6,a1,(a2); |bnez a6,1f|nop| ; li a1,2; 1: mv a0,a1; ret',
  ],
  [
    'an argument of a pair that calls',
    false,
    'f: mv s1,ra; |li a3,1|nop| ; auipc ra,0; jalr ra,16(ra); jr s1; nop; g: mv a0,a3; ret',
  ],
  [
    'what the callee of a pair does not read',
    true,
    'f: mv s1,ra; |li a3,1|nop| ; auipc ra,0; jalr ra,16(ra); jr s1; nop; g: mv a3,a0; ret',
  ],
];

/** A word that a function keeps around a callee which goes round and round. */
const kept = (load: string, { callee = '', caller = '', around = '' } = {}): string =>
  `f: mflr 0; std 0,16(1); stdu 1,-32(1); ${caller}; bl g; 3: ${load} ; mtlr 0; addi 1,1,32; blr; ${around} ` +
  `g: cmpdi 3,0; beq 2f; addi 3,3,-1; ${callee}; b g; 2: blr`;

const ppc: readonly Row[] = [
  ['a word that its register holds behind a callee', true, kept('|ld 0,48(1)|nop|')],
  ['a word of a register that the callee changes', false, kept('|ld 0,48(1)|nop|', { callee: 'li 0,1' })],
  ['a word that the callee changes', false, kept('|ld 0,48(1)|nop|', { callee: 'std 4,48(1)' })],
  ['a word that a pointer leads to', false, kept('|ld 0,48(1)|nop|', { caller: 'addi 4,1,48', callee: 'std 5,0(4)' })],
  ['a word of a register that something changes', false, kept('|ld 0,48(1)|nop|', { caller: 'li 0,1' })],
  ['a word that something changes', false, kept('|ld 0,48(1)|nop|', { caller: 'std 4,48(1)' })],
  ['half of a word', false, kept('|lwz 0,48(1)|nop|')],
  ['another word', false, kept('|ld 0,40(1)|nop|')],
  ['a word on one of two ways', false, kept('|ld 0,48(1)|nop|', { around: 'h: li 0,1; b 3b;' })],
  ['a word, an instruction later', true, kept('|ld 0,48(1); mtlr 0|mtlr 0; ld 0,48(1)|')],
  ['a word, behind what reads it', true, kept('|ld 0,48(1); mr 9,0|mr 9,0; ld 0,48(1)|')],
  ['a word, behind what changes its register', false, kept('|ld 0,48(1); li 0,1|li 0,1; ld 0,48(1)|')],
  ['a word, in front of what changes it', false, kept('|std 4,48(1); ld 0,48(1)|ld 0,48(1); std 4,48(1)|')],
  [
    'asked by a record whether it is 0',
    true,
    'f: mflr 29; |li 30,1|li 30,2| ; bctrl; cmpdi 30,0; li 30,0; mtlr 29; beqlr; li 30,1; blr',
  ],
  [
    'asked by a record whether it is 1',
    false,
    'f: mflr 29; |li 30,1|li 30,2| ; bctrl; cmpdi 30,1; li 30,0; mtlr 29; beqlr; li 30,1; blr',
  ],
  [
    'asked by a record whether it is more',
    false,
    'f: mflr 29; |li 30,1|li 30,-2| ; bctrl; cmpdi 30,0; li 30,0; mtlr 29; bgtlr; li 30,1; blr',
  ],
  ['a return under a condition in front of a return', true, 'f: cmpdi 3,0; |beqlr|nop| ; li 9,1; blr'],
  ['a return under a condition in front of a result', false, 'f: cmpdi 3,0; |beqlr|nop| ; li 3,1; blr'],
  ['a field of cr that the caller keeps', false, 'f: |cmpdi 2,3,0|nop| ; blr'],
  ['a field of cr that the caller does not keep', true, 'f: |cmpdi 7,3,0|nop| ; blr'],
  ['read behind a return under a condition', false, 'f: cmpdi 3,0; |li 9,1|nop| ; beqlr; mr 3,9; blr'],
  ['the table of contents', false, 'f: mflr 30; |li 2,1|nop| ; bctrl; mtlr 30; blr'],
  ['the clock an instruction later', true, 'f: |mftb 9; li 8,1|li 8,1; mftb 9| ; std 9,0(3); std 8,8(3); blr'],
  ['another part of the clock', false, 'f: |mftb 9|mfspr 9,269| ; std 9,0(3); blr'],
  ['one look at the clock for two', false, 'f: mftb 9; std 9,0(3); |mftb 9|nop| ; std 9,8(3); blr'],
  ['xer where an entry goes on', true, 'h: |mtxer 3|nop| ; li 3,0; bctr'],
  ['xer that is read', false, 'h: |mtxer 3|nop| ; mfxer 3; bctr'],
  ['xer at a function that an entry calls', true, 'h: |mtxer 3|nop| ; li 3,0; bctrl; mtxer 4; bctr'],
  ['xer behind a function that an entry calls', false, 'h: |mtxer 3|nop| ; li 3,0; bctrl; mfxer 3; bctr'],
  ['in front of a trap', true, 'f: |li 9,1|nop| ; cmpdi 3,0; bnelr; trap'],
  ['stored in front of a trap', false, 'f: |li 9,1|nop| ; cmpdi 3,0; bnelr; std 9,0(4); trap'],
  ['the upper half of a factor', true, 'f: li 9,-1; |nop|clrldi 9,9,32| ; mulld 10,4,9; stw 10,0(3); blr'],
  [
    'a mask of the lower half of a product',
    true,
    'f: li 9,-1; |nop|clrldi 9,9,32| ; mulld 10,4,9; rldic 3,10,3,29; blr',
  ],
  ['a mask of more than that', false, 'f: li 9,-1; |nop|clrldi 9,9,32| ; mulld 10,4,9; rldic 3,10,3,28; blr'],
  ['operands in another order', true, 'f: |and 3,4,5|and 3,5,4| ; blr'],
  ['operands of a record for equality', true, 'f: |cmpld 3,4|cmpld 4,3| ; li 3,1; beqlr; li 3,2; blr'],
  ['operands of another record', false, 'f: |cmpld 3,4|cmpld 4,3| ; li 3,1; bltlr; li 3,2; blr'],
  [
    'what only another caller reads',
    true,
    'f: mflr 0; std 0,16(1); |li 7,1|li 7,2| ; bl g; ld 0,16(1); mtlr 0; blr; g: addi 3,3,1; blr; ' +
      'v: mflr 0; std 0,16(1); bl g; std 7,0(4); ld 0,16(1); mtlr 0; blr',
  ],
  [
    'what the caller reads, and another one',
    false,
    'f: mflr 0; std 0,16(1); |li 7,1|li 7,2| ; bl g; std 7,0(4); ld 0,16(1); mtlr 0; blr; g: addi 3,3,1; blr; ' +
      'v: mflr 0; std 0,16(1); bl g; std 7,0(4); ld 0,16(1); mtlr 0; blr',
  ],
  ['whether a pointer is 0 that was followed', true, 'f: ld 4,8(3); cmpdi 3,0; |beqlr|nop| ; li 3,1; blr'],
  ['whether another pointer is 0', false, 'f: ld 4,8(5); cmpdi 3,0; |beqlr|nop| ; li 3,1; blr'],
  ['whether an index is 0', false, 'f: ldx 4,3,5; cmpdi 3,0; |beqlr|nop| ; li 3,1; blr'],
  ...(
    [
      ['a load that is left out behind a callee', true, 'li 3,0; blr'],
      ['a load behind a callee that changes the register', false, 'li 5,0; blr'],
      ['a load behind a callee that changes the word', false, 'std 3,40(1); blr'],
      ['a load behind a callee with a frame', true, 'stdu 1,-32(1); std 3,24(1); addi 1,1,32; blr'],
      ['a load behind a callee that goes elsewhere', false, 'mtctr 4; bctr'],
    ] as const
  ).map(([what, expected, callee]): Row => [
    what,
    expected,
    `f: mflr 0; std 0,16(1); stdu 1,-64(1); std 5,40(1); bl g; |b 1f|b 1f+4| ; 1: ld 5,40(1); addi 1,1,64; ` +
      `ld 0,16(1); mtlr 0; mr 3,5; blr; g: ${callee}`,
  ]),
  [
    'the address behind a call, which is in no frame',
    false,
    'f: mflr 0; std 0,16(1); stdu 1,-64(1); bl g; addi 1,1,64; ld 0,16(1); |mtlr 0|nop| ; blr; g: blr',
  ],
  ['the upper half of a product', false, 'f: li 9,-1; |nop|clrldi 9,9,32| ; mulld 10,4,9; std 10,0(3); blr'],
];

const x86: readonly Row[] = [
  // rep; ret and ret; mov %rdi,%rax and mov %edi,%eax.
  ['behind a prefix that says nothing', true, 'f: |jmp 1f|jmp 1f+1| ; nop; 1: .byte 0xf3,0xc3'],
  ['behind a prefix for 64 bits', false, 'f: |jmp 1f|jmp 1f+1| ; nop; 1: .byte 0x48,0x89,0xf8; ret'],
  ['a scratch register at the end', true, 'f: |mov $1,%r11d|.fill 6,1,0x90| ; ret'],
  ['a register of the caller at the end', false, 'f: |mov $1,%ebx|.fill 5,1,0x90| ; ret'],
  [
    'what a word was that others may change, too',
    false,
    'f: mov (%rdi),%rax; |lock incq (%rdi); mov (%rdi),%rax|mov (%rdi),%rax; lock incq (%rdi)| ; ret',
  ],
  ['half of a register', false, 'f: mov %rdi,%rax; |mov $1,%al|.fill 2,1,0x90| ; ret'],
  ['flags that are asked later', false, 'f: |test %edi,%edi|.fill 2,1,0x90| ; mov $1,%eax; je 1f; mov $2,%eax; 1: ret'],
  [
    'a second look at the same flags',
    true,
    'f: test %rdi,%rdi; je 1f; test %rdi,%rdi; |je 1f|.fill 2,1,0x90| ; mov $1,%eax; ret; 1: mov $2,%eax; ret',
  ],
  [
    'a second look at other flags',
    false,
    'f: test %rdi,%rdi; je 1f; test %rsi,%rsi; |je 1f|.fill 2,1,0x90| ; mov $1,%eax; ret; 1: mov $2,%eax; ret',
  ],
  ['the return address', false, 'f: |push %rax; pop %rcx|pop %rcx; push %rax| ; ret'],
];

const all = { arm64, riscv64, 'ppc64-elfv2-le': ppc, 'x86-64': x86 };
for (const [name, rows] of Object.entries(all) as [Name, readonly Row[]][]) {
  describeWith([assemblers[name][0]], `PV-5: changed code of ${name}`, () => {
    test.each(rows)('PV-5: %s', (_, expected, source) => {
      expect(isSame(name, source)).toBe(expected);
    });
  });
}

test('PV-5: who calls the functions of an object', () => {
  const called = calledIn('ppc64-elfv2-le/regs+probes');
  const callers = (name: string) => called.get(name)?.callers;
  // Static, hidden, a callback, an entry.
  expect(['handle', 'elftrace_graph_push', 'ftrace_ops_list_func', 'ftrace_caller'].map(callers)).toEqual([
    'inside',
    'inside',
    'abi',
    'any',
  ]);
  expect(called.get('elftrace_graph_push')!.calls).toBeGreaterThan(0);
  // In C for one convention, and in assembly for another.
  expect(calledIn('x86-64/y2014').get('ftrace_graph_caller')?.isCompiled).toBe(false);
});
