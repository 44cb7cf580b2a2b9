/**
 * Bodies of functions under a graph tracer (PV-2) that leave in other ways than by a return, move
 * their stacks, or come to the tracer's own data by a pointer that a trial made up.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { type ElfImage } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import { load } from '../src/program/program.js';
import { layOut } from '../src/prove/relocatable.js';
import { graphProofs } from './support/graph-proofs.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-bodies-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

function compiled(compiler: string, options: readonly string[], text: string): ElfImage {
  const [source, object] = [join(folder, 'bodies.c'), join(folder, 'bodies.o')];
  writeFileSync(source, text);
  run(compiler, ['-O2', ...options, '-c', source, '-o', object]);
  return readElf(new Uint8Array(readFileSync(object)));
}

async function verdicts(image: ElfImage): Promise<Record<string, string>> {
  const [sites, { unexplained }] = await graphProofs(image, 24);
  expect(unexplained).toEqual([]);
  return Object.fromEntries(
    sites.map(({ function: name, verdict, reason }) => [
      name.replace(/^\.|\+.*/g, ''),
      reason === undefined ? verdict : `${verdict}: ${reason}`,
    ]),
  );
}

/** The profiling call lies behind the frame, whose word for callees the tracer's entry writes. */
const FRAMES = `
extern void use(void *), leave(void *) __attribute__((noreturn));
void leaves(void *it) { use(it); leave(it); }
/* What stands behind the call that does not return is another function. */
__attribute__((no_instrument_function)) void behind(char *it) {
  volatile char room[400];
  while (*it != 0) room[0] = *it++;
}
void grows(unsigned long n) { use(__builtin_alloca(n)); leave(0); }
`;

describeWith(['powerpc64-linux-gnu-gcc'], 'frames of bodies', () => {
  test('PV-2: a body ends with its function, and its first frame has words that callees write', async () => {
    const options = [
      '-mbig-endian',
      '-mabi=elfv1',
      '-mno-vsx',
      '-mtraceback=no',
      '-fno-shrink-wrap',
      '-pg',
      '-fno-pic',
    ];
    expect(await verdicts(compiled('powerpc64-linux-gnu-gcc', options, FRAMES))).toEqual({
      leaves: 'proved',
      grows: 'proved',
    });
  });
});

/** Any pointer of 32 bits may lead to the tracer's data: here half of them do, or all. */
const POINTERS = `
#define OWN(n) (TRACER + ((n) & 0xffc))
typedef unsigned long word;
void stores(word p, word q) { *(volatile word *)(p & 1 ? OWN(q) : q) = p; }
void always(word p) { *(volatile word *)OWN(p) = p; }
/* What the tracer counts is another number in the patched. */
word reads(word p, word q) { return *(volatile word *)(p & 1 ? TRACER : q); }
word looks(void) { return *(volatile word *)TRACER; }
`;

describeWith(['powerpc-linux-gnu-gcc'], "the tracer's data", () => {
  test("PV-2: a body ends where it comes to the tracer's data", async () => {
    const compile = (tracer: bigint): ElfImage => {
      const define = `-DTRACER=0x${tracer.toString(16)}ul`;
      return compiled('powerpc-linux-gnu-gcc', ['-fpatchable-function-entry=2', '-fno-pic', define], POINTERS);
    };
    const first = compile(0x1000n);
    const program = load(layOut(first, first, archOf(first.header)).original, archOf(first.header));
    const threads = program.definedAt(program.symbols.find('elftrace_graph_stack'));
    expect(await verdicts(compile(threads!))).toEqual({
      stores: 'proved',
      always: 'proved',
      reads: 'proved',
      looks: 'proved',
    });
  });
});

describeWith(['powerpc64le-linux-gnu-gcc'], 'bodies that change their stacks', () => {
  // As kernels call what serves interrupts: the stack of a trial is 0 or -1 now and then.
  const text = `
extern void use(void);
void other_stack(void *stack) {
  __asm__ volatile("mr 31,1; mr 1,%0; bl use; nop; mr 1,31" : : "b"(stack) : "31", "lr", "ctr", "memory");
}
`;
  test('PV-2: a call whose stub stores where nothing is ends the body', async () => {
    expect(await verdicts(compiled('powerpc64le-linux-gnu-gcc', ['-mprofile-kernel', '-pg'], text))).toEqual({
      other_stack: 'proved',
    });
  });
});
