/** Functions of samples of which some instructions are others, in the same place and size. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readElf } from '../../src/elf/read.js';
import { THREAD_MODES } from '../../src/runtime/abi.js';
import { builtSamples } from './pipeline.js';

/**
 * Functions by name, each with bytes that become others, as hex: the first place that has them.
 * Where there are none, the others stand in front of the function, which padding does there.
 */
export type Edits = Readonly<Record<string, readonly (readonly [from: string, to: string])[]>>;

/** A copy of a sample, and the bytes of its functions, which change the copy. */
export function copyOfSample(sample: string): { bytes: Uint8Array; code: (name: string) => Buffer } {
  const bytes = new Uint8Array(readFileSync(join(builtSamples, sample)));
  const { symbols, sections } = readElf(bytes);
  const code = (name: string): Buffer => {
    const index = symbols.find(name);
    const { address, offset } = sections[symbols.sectionIndex[index]!]!;
    const start = offset + Number(symbols.value[index]! - address);
    return Buffer.from(bytes.buffer, start, Number(symbols.size[index]!));
  };
  return { bytes, code };
}

export function editedSample(sample: string, edits: Edits): Uint8Array {
  const { bytes, code: codeOf } = copyOfSample(sample);
  for (const [name, pairs] of Object.entries(edits)) {
    const code = codeOf(name);
    for (const [from, to] of pairs) {
      if (from === '') {
        Buffer.from(bytes.buffer, code.byteOffset - to.length / 2).write(to, 'hex');
        continue;
      }
      const at = code.indexOf(Buffer.from(from, 'hex'));
      if (at < 0 || from.length !== to.length) throw new Error(`${sample}: ${name} has no ${from}`);
      code.set(Buffer.from(to, 'hex'), at);
    }
  }
  return bytes;
}

/** Types of program headers, and what one of ELF64 has. */
const [PT_TLS, PT_GNU_STACK] = [7, 0x6474e551];
const HEADERS = { offset: 32, size: 54, count: 56 };

/** A sample of x86-64 with data of threads, which its thread pointer tells apart. */
export function threadedSample(sample: string): Uint8Array {
  const { bytes } = copyOfSample(sample);
  const view = new DataView(bytes.buffer);
  const [first, size] = [Number(view.getBigUint64(HEADERS.offset, true)), view.getUint16(HEADERS.size, true)];
  const all = Array.from({ length: view.getUint16(HEADERS.count, true) }, (_, i) => first + i * size);
  const unused = all.find((at) => view.getUint32(at, true) === PT_GNU_STACK);
  view.setUint32(unused!, PT_TLS, true);
  return bytes;
}

/** An image of x86-64 with the runtime, which tells threads apart by the block of the processor. */
export function ofProcessors(image: Uint8Array): Uint8Array {
  const elf = readElf(image);
  const mode = elf.symbols.value[elf.symbols.find('elftrace_thread_mode')]!;
  image[elf.fileOffsetOf(mode)] = THREAD_MODES.gs;
  return image;
}

/**
 * RISC-V, calls of -pg: prologues that have a frame pointer and pass no return address, as clang
 * makes them. GNU as: mv a0,ra becomes addi s0,sp,N.
 */
const framed = (pass: string, leaf: string, bump: string): Edits => ({ leaf: [[pass, leaf]], bump: [[pass, bump]] });

/** Frames of other sizes, with the return address in other words of them. */
const sized = (...pairs: readonly (readonly [string, string])[]): Edits => ({ many: pairs });

/** What stands in front of calls of -pg, in the two sizes of instructions. */
export const riscvPrologues: readonly { readonly name: string; readonly sample: string; readonly edits: Edits }[] = [
  { name: 'framed', sample: 'riscv64/program-mcount', edits: framed('0685', '0010', '0008') },
  { name: 'framed-whole', sample: 'riscv64/program-rv64g-mcount', edits: framed('13850000', '13040102', '13040101') },
  {
    // addi sp,sp,-480; sd ra,472(sp); ld ra,472(sp); addi sp,sp,480 for 96 and 88
    name: 'sized',
    sample: 'riscv64/program-mcount',
    edits: sized(['1d71', '0571'], ['86ec', '86ef'], ['e660', 'fe60'], ['2561', '3d61']),
  },
  {
    // 2032 and 2024 for 96 and 88
    name: 'sized-whole',
    sample: 'riscv64/program-rv64g-mcount',
    edits: sized(
      ['130101fa', '13010181'],
      ['233c1104', '2334117e'],
      ['83308105', '8330817e'],
      ['13010106', '1301017f'],
    ),
  },
];

/** pop %r10; push %r10, and a nop where there is more room. */
const POPPED = '415a4152';

/**
 * x86-64: functions that begin as nested ones do behind their call, by taking r10 from the stack,
 * and have in front of it what is much like a push of it, and none.
 */
const popped = (leaf: string, recurse: string): Edits => ({
  // For lea (%rdi,%rdi,2),%eax; add %esi,%eax, and for test %edi,%edi; jne.
  leaf: [
    ['8d047f01f0', `${POPPED}90`],
    ['', leaf],
  ],
  recurse: [
    ['85ff7507', POPPED],
    ['', recurse],
  ],
});

/** In front: push %r12 twice, push %r8; push %rdx, and push %r12 a byte earlier. */
export const poppedPrologues: readonly { readonly name: string; readonly edits: Edits }[] = [
  { name: 'popped', edits: popped('41549090909090904154', '414150') },
  { name: 'popped-other', edits: popped('90529090909090909090', '415490') },
];
