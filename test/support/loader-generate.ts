/**
 * Generated cores and modules for the loader: many external functions, tail calls, addends, a large
 * TOC, several text sections.
 */
import type { LoaderTarget } from './loader-build.js';

const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const isV2 = (target: LoaderTarget): boolean => target === 'v2be' || target === 'v2le';

/** `count` functions `ext_N` and `variables` variables `v_N`; main calls the module and prints. */
export function generatedCore(count: number, variables: number): string {
  return `
#include "lib.h"
u32 calls;
${range(count)
  .map(
    (i) => `__attribute__((noinline)) u32 ext_${i}(u32 x) { calls += ${i + 1}; return x * 3 + ${(i * 7919) % 65536}; }`,
  )
  .join('\n')}
${range(variables)
  .map((i) => `int v_${i} = ${(i * 31) % 9973};`)
  .join('\n')}
extern u32 mod_main(void), mod_tail(u32), mod_multi(u32), mod_variables(void);
int main(void) {
  line("main", mod_main());
  line("tail", mod_tail(5));
  line("multi", mod_multi(100));
  line("variables", mod_variables());
  line("calls", calls);
  flush();
  return 0;
}
`;
}

/** The module in C: calls of all functions from several text sections, a sum of all variables. */
export function generatedModule(count: number, variables: number): string {
  const sections = 5;
  const per = Math.ceil(count / sections);
  const functions = range(sections).map((k) => {
    const calls = range(count)
      .slice(k * per, (k + 1) * per)
      .map((i) => `s ^= ext_${i}(s + ${i});`);
    return `__attribute__((noinline, section(".text.part${k}"))) static u32 part_${k}(u32 s) { ${calls.join(' ')} return s; }`;
  });
  return `
typedef unsigned int u32;
${range(count)
  .map((i) => `extern u32 ext_${i}(u32);`)
  .join('\n')}
${range(variables)
  .map((i) => `extern int v_${i};`)
  .join('\n')}
${functions.join('\n')}
u32 mod_main(void) { u32 s = 1; ${range(sections)
    .map((k) => `s = part_${k}(s);`)
    .join(' ')} return s; }
u32 mod_variables(void) { u32 s = 0; ${range(variables)
    .map((i) => `s = s * 5 + v_${i};`)
    .join(' ')} return s; }
`;
}

/** A function's start in assembly; its code uses the TOC. */
function head(target: LoaderTarget, name: string): string {
  if (target === 'ppc32') return `\t.globl ${name}\n\t.type ${name},@function\n${name}:\n`;
  if (isV2(target)) {
    return (
      `\t.globl ${name}\n\t.type ${name},@function\n${name}:\n0:\taddis 2,12,.TOC.-0b@ha\n` +
      `\taddi 2,2,.TOC.-0b@l\n\t.localentry ${name},.-${name}\n`
    );
  }
  return (
    `\t.section .opd,"aw"\n\t.align 3\n\t.globl ${name}\n\t.type ${name},@function\n` +
    `${name}:\t.quad .L${name},.TOC.@tocbase,0\n\t.size ${name},24\n\t.text\n.L${name}:\n`
  );
}

/**
 * In the module: a tail call and calls with an addend; on ELFv1 of the code's dot symbol, for
 * `multi+4` is inside the descriptor.
 */
export function generatedAssembly(target: LoaderTarget): string {
  const abi = isV2(target) ? '\t.abiversion 2\n' : '';
  const code = target === 'v1' ? '.multi' : 'multi';
  const frame = target === 'ppc32' ? 16 : isV2(target) ? 32 : 112;
  const [store, load, update, slot] = target === 'ppc32' ? ['stw', 'lwz', 'stwu', 4] : ['std', 'ld', 'stdu', 16];
  return `${abi}	.text
${head(target, 'mod_tail')}	addi 3,3,7
	b ext_9
${head(target, 'mod_multi')}	mflr 0
	${store} 0,${slot}(1)
	${update} 1,-${frame}(1)
	bl ${code}
	nop
	bl ${code}+4
	nop
	bl ${code}+4
	nop
	addi 1,1,${frame}
	${load} 0,${slot}(1)
	mtlr 0
	blr
`;
}

/** In the core: a function whose callers also enter 4 bytes into it. */
export function generatedEntry(target: LoaderTarget): string {
  if (target === 'ppc32' || isV2(target)) {
    return `${isV2(target) ? '\t.abiversion 2\n' : ''}	.text
	.globl multi
	.type multi,@function
multi:	addi 3,3,1
	addi 3,3,16
	blr
`;
  }
  return `	.text
${head(target, 'multi')}	.globl .multi
.multi:	addi 3,3,1
	addi 3,3,16
	blr
`;
}

/**
 * A module of large text sections, each with a function that calls the core; they lie beyond one
 * reach of each other.
 */
export function largeText(target: LoaderTarget, sections: number, spaceBytes: number): string {
  const frame = target === 'ppc32' ? 16 : isV2(target) ? 32 : 112;
  const [store, load, update, slot] = target === 'ppc32' ? ['stw', 'lwz', 'stwu', 4] : ['std', 'ld', 'stdu', 16];
  const abi = isV2(target) ? '\t.abiversion 2\n' : '';
  const functions = range(sections).map((i) => {
    const body = `${head(target, `large_${i}`).replace('\t.text\n', `\t.section .text.large${i},"ax"\n`)}	mflr 0
	${store} 0,${slot}(1)
	${update} 1,-${frame}(1)
	bl ext_${i}
	nop
	addi 1,1,${frame}
	${load} 0,${slot}(1)
	mtlr 0
	blr
	.space ${spaceBytes}
`;
    return target === 'v1' ? body : `\t.section .text.large${i},"ax"\n${body}`;
  });
  return abi + functions.join('');
}
