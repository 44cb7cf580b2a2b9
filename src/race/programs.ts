/**
 * Programs of the hazards H1 to H14: small functions with a site each, and what
 * tracers put around them. Assembled from the text that stands with them, at the address `BASE`;
 * `test/race-hazards.test.ts` assembles it again where there is an assembler.
 */
import type { Address } from '../units.js';

/** Address of the first byte; code is in the first page, data in the second. */
export const BASE: Address = 0x1_0000n;

export interface HazardProgram {
  readonly target: string;
  /** For GNU as. */
  readonly source: string;
  /** Hexadecimal runs by offset; what lies between is zero. */
  readonly code: Readonly<Record<number, string>>;
  /** Offsets. */
  readonly labels: Readonly<Record<string, number>>;
}

/** Sites, entries, trampolines, direct callers and a graph handler of x86-64. */
export const calls: HazardProgram = {
  target: 'x86-64',
  source: `
	.globl _start
_start:
f:	.byte 0x0f,0x1f,0x44,0,0
	lea 1(%rdi),%rax
	ret
	.org 0x40
entry:	push %rdi
	mov ops_word(%rip),%rsi
inner:	call cb_a
	pop %rdi
	ret
	.org 0x80
cb_a:	mov %rsi,%r8
	ret
cb_b:	mov %rsi,%r9
	ret
cb_list: mov $1,%r10d
	ret
cb_nop:	ret
	.org 0xc0
chase:	push %rdi
	mov ops_word(%rip),%rsi
	mov (%rsi),%rax
	call *%rax
	pop %rdi
	ret
	.org 0x100
tramp:	push %rdi
	mov tramp_ops(%rip),%rsi
	call cb_a
	pop %rdi
	ret
tramp_ops: .quad ops_a
tramp_end:
	.org 0x140
graph:	mov 8(%rsp),%rax
	mov %rax,shadow(%rip)
	lea handler(%rip),%rax
	mov %rax,8(%rsp)
	ret
	.org 0x180
handler: push %rax
	mov shadow(%rip),%rcx
	pop %rax
	jmp *%rcx
handler_end:
	.org 0x1c0
old:	nop
	ret
new:	nop
	ret
via:	jmp *table(%rip)
	.org 0x1000
ops_word: .quad ops_a
table:	.quad old
shadow:	.quad 0
	.org 0x1040
ops_a:	.quad cb_a
	.org 0x1080
ops_b:	.quad cb_b
	.org 0x10c0
ops_nop: .quad cb_nop
	.org 0x1100
`,
  code: {
    0x0: '0f1f440000488d4701c3',
    0x40: '57488b35b80f0000e8330000005fc3',
    0x80: '4989f0c34989f1c341ba01000000c3c3',
    0xc0: '57488b35380f0000488b06ffd05fc3',
    0x100: '57488b3507000000e873ffffff5fc3401001',
    0x140: '488b442408488905c40e0000488d052d0000004889442408c3',
    0x180: '50488b0d880e000058ffe1',
    0x1c0: '90c390c3ff253e0e',
    0x1000: '4010010000000000c00101',
    0x1040: '800001',
    0x1080: '840001',
    0x10c0: '8f0001',
  },
  labels: {
    f: 0x0,
    entry: 0x40,
    inner: 0x48,
    cb_a: 0x80,
    cb_b: 0x84,
    cb_list: 0x88,
    cb_nop: 0x8f,
    chase: 0xc0,
    tramp: 0x100,
    tramp_ops: 0x10f,
    tramp_end: 0x117,
    graph: 0x140,
    handler: 0x180,
    handler_end: 0x18b,
    old: 0x1c0,
    new: 0x1c2,
    via: 0x1c4,
    ops_word: 0x1000,
    table: 0x1008,
    shadow: 0x1010,
    ops_a: 0x1040,
    ops_b: 0x1080,
    ops_nop: 0x10c0,
  },
};

/** A probe over three instructions, its copy and its detour slot. */
export const probe: HazardProgram = {
  target: 'x86-64',
  source: `
	.globl _start
_start:
f:
p:	push %rbx
	mov %rdi,%rbx
	nop
rest:	lea 1(%rbx),%rax
	pop %rbx
	ret
	.org 0x40
copy:	push %rbx
	jmp p+1
	.org 0x80
slot:	push %rdi
	call callback
	pop %rdi
	push %rbx
	mov %rdi,%rbx
	nop
	jmp rest
slot_end:
	.org 0xc0
callback: nop
	ret
	.org 0x100
`,
  code: {
    0x0: '534889fb90488d43015bc3',
    0x40: '53ebbe',
    0x80: '57e83a0000005f534889fb90e974ffffff',
    0xc0: '90c3',
  },
  labels: {
    f: 0x0,
    p: 0x0,
    rest: 0x5,
    copy: 0x40,
    slot: 0x80,
    slot_end: 0x91,
    callback: 0xc0,
  },
};

/** A function of a module that calls the tracer of the core through a stub. */
export const toc: HazardProgram = {
  target: 'ppc64-elfv1',
  source: `
	.globl _start
_start:
f:	mflr 0
	std 0,16(1)
	stdu 1,-112(1)
site:	nop
	nop
	ld 5,0(2)
	addi 1,1,112
	ld 0,16(1)
	mtlr 0
	blr
	.org 0x40
stub:	std 2,40(1)
	ld 12,8(2)
	ld 2,16(2)
	mtctr 12
	bctr
	.org 0x80
tracer:	mflr 3
	stdu 1,-112(1)
	std 3,128(1)
	ld 6,0(2)
	ld 0,128(1)
	mtlr 0
	addi 1,1,112
	blr
	.org 0x1000
module_toc: .quad 0xf00d
	.quad tracer
	.quad core_toc
	.org 0x1040
core_toc: .quad 0xc0de
	.org 0x1080
`,
  code: {
    0x0: '7c0802a6f8010010f821ff916000000060000000e8a2000038210070e80100107c0803a64e800020',
    0x40: 'f8410028e9820008e84200107d8903a64e800420',
    0x80: '7c6802a6f821ff91f8610080e8c20000e80100807c0803a6382100704e800020',
    0x1004: '0000f00d00000000000100800000000000011040',
    0x1044: '0000c0de',
  },
  labels: {
    f: 0x0,
    site: 0xc,
    stub: 0x40,
    tracer: 0x80,
    module_toc: 0x1000,
    core_toc: 0x1040,
  },
};

/** A function whose site is a pair of words. */
export const pair: HazardProgram = {
  target: 'riscv64',
  source: `
	.option norvc
	.option norelax
	.globl _start
_start:
f:	nop
	nop
	addi a0,a0,1
	jalr zero,ra
	.org 0x40
tracer:	addi a1,a1,1
	jalr zero,t0
	.org 0x80
`,
  code: {
    0x0: '1300000013000000130515006780',
    0x40: '93851500678002',
  },
  labels: {
    f: 0x0,
    tracer: 0x40,
  },
};

/** A function with the word that names its ops in front. */
export const literal: HazardProgram = {
  target: 'arm64',
  source: `
	.globl _start
_start:
literal: .quad 0xd503201fd503201f
f:	mov x9,x30
site:	nop
	add x0,x0,#1
	ret
	.org 0x40
entry:	stp x9,x30,[sp,#-16]!
	ldur x2,[x30,#-16]
	ldr x4,[x2]
	blr x4
	ldp x30,x10,[sp],#16
	ret x10
	.org 0x80
cb_a:	mov x5,x2
	ret
cb_b:	mov x6,x2
	ret
cb_nop:	ret
	.org 0x1000
ops_a:	.quad cb_a
	.org 0x1040
ops_nop: .quad cb_nop
	.org 0x1080
`,
  code: {
    0x0: '1f2003d51f2003d5e9031eaa1f2003d500040091c0035fd6',
    0x40: 'e97bbfa9c2035ff8440040f980003fd6fe2bc1a840015fd6',
    0x80: 'e50302aac0035fd6e60302aac0035fd6c0035fd6',
    0x1000: '800001',
    0x1040: '900001',
  },
  labels: {
    literal: 0x0,
    f: 0x8,
    site: 0xc,
    entry: 0x40,
    cb_a: 0x80,
    cb_b: 0x88,
    cb_nop: 0x90,
    ops_a: 0x1000,
    ops_nop: 0x1040,
  },
};

/** A leaf that keeps a value below its stack pointer, with a probe behind the store (x86-64). */
export const redZone: HazardProgram = {
  target: 'x86-64',
  source: `
	.globl _start
_start:
f:	mov %rdi,-8(%rsp)
p:	.byte 0x0f,0x1f,0x44,0,0
rest:	mov -8(%rsp),%rax
	ret
	.org 0x40
handler: mov $1,%r8d
	ret
	.org 0x80
stub:	lea -128(%rsp),%rsp
	call handler
	lea 128(%rsp),%rsp
	jmp rest
`,
  code: {
    0x0: '48897c24f80f1f440000488b4424f8c3',
    0x40: '41b801000000c3',
    0x80: '488d642480e8b6ffffff488da42480000000e973ffffff',
  },
  labels: { f: 0x0, p: 0x5, rest: 0xa, handler: 0x40, stub: 0x80 },
};
