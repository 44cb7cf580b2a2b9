/**
 * Static programs without symbols (RT-44): whether something in one may hand unwind information to
 * an unwinder is told by its bytes, on machines whose instructions hold a part of an address alone.
 * The programs are not run: `native-musl` does that.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { handsOverFrames } from '../src/native/frame-entries.js';
import { scratch } from './support/c-programs.js';
import { covering, sampled } from './support/long.js';
import { machines } from './support/native-machines.js';
import { compile } from './support/native-run.js';
import { describeWith, run } from './support/tools.js';

const CALLS = `volatile int sink; __attribute__((noinline)) int leaf(int n) { return n + sink; }
__attribute__((noinline)) int middle(int n) { return leaf(n) + leaf(n + 1); } const char *const words[] = { "one", "two", "three" };
__attribute__((noinline)) const char *word(int n) { return words[n]; }`;
const START = `int main(void) { return middle(word(1)[0]); }`;
/** As little of an unwinder as takes its entries where a start-up file says they are. */
const HANDS_OVER = `const void *registered; __attribute__((noinline)) void __register_frame(const void *at) { registered = at; }
extern const char begin[] __asm__("begin_of_frames"); int main(void) { __register_frame(begin); return middle(word(1)[0]); }
__asm__(".pushsection .eh_frame,\\"a\\"\\nbegin_of_frames:\\n.popsection");`;

const FORMS = [
  ['-O2', '-no-pie', '-fno-pie'],
  ['-O0', '-no-pie', '-fno-pie'],
  ['-O2', '-no-pie', '-fPIE'],
  // Addresses of a page or two are other numbers, too, which is a doubt.
  ['-O2', '-static-pie', '-fPIE', '-Wl,-Ttext-segment=0x40000'],
];
const MORE: Readonly<Record<string, readonly (readonly string[])[]>> = {
  arm64: [
    ['-O1', '-mcmodel=tiny', '-fno-pie'],
    ['-O1', '-mcmodel=large', '-fno-pie'],
  ],
  riscv64: [
    ['-O1', '-mcmodel=medany', '-fno-pie'],
    ['-O1', '-march=rv64g', '-mno-relax', '-fno-pie'],
  ],
  ppc64le: [['-O1', '-mcmodel=large', '-fno-pie']],
};

describe.each(sampled(machines, 3))('$name', (machine) => {
  describeWith([`${machine.triple}-gcc`], 'a static program without symbols', () => {
    /** ELFv1 has its own start-up files and no musl; ELFv2 has the same machine. */
    const abi = machine.name === 'ppc64' ? ['-mabi=elfv2'] : [];
    const handsOver = (source: string, form: readonly string[]): boolean => {
      const flags = ['-nostdlib', '-static', '-Wl,-e,main', '-fasynchronous-unwind-tables', ...abi, ...form];
      const whole = compile(`${CALLS}\n${source}`, flags, 'c', [], { ...machine, finish: (object) => object });
      const stripped = scratch('stripped');
      run(`${machine.triple}-strip`, ['-o', stripped, whole]);
      const image = readElf(readFileSync(stripped));
      const { nativeTracing } = archOf(image.header);
      if (nativeTracing.kind === 'none' || nativeTracing.graph === null) throw new Error('no such tracer');
      return handsOverFrames(image, nativeTracing.graph);
    };
    const forms = covering([...FORMS, ...(MORE[machine.name] ?? [])], (form) => form.join(' '));
    test.each(forms.map((form) => [form.join(' '), form] as const))('RT-44: %s', (_, form) => {
      expect([handsOver(START, form), handsOver(HANDS_OVER, form)]).toEqual([false, true]);
    });
  });
});
