/**
 * Sleds of XRay as clang makes them (on RISC-V as clang 22 does, by an assembler): listed, judged,
 * switched on to trampolines of the program, off, and back. What a handler must see is counted by
 * the program itself.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, describe, expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { readElf } from '../src/elf/read.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { root } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';
import { sampled } from './support/long.js';

/** Work with ten calls, five of them tail calls; two returns in one function. */
const PROGRAM = `
extern int printf(const char *, ...);
extern unsigned seen[4], entries[8];
int g;
#define OWN __attribute__((noinline, xray_always_instrument))
OWN int work(int a, int b, int c, int d, int e, int f) { g += a; if (a == 3) return b; return a * 3 + b + c + d + e + f + g; }
OWN int tail(int a) { g--; return work(a + 1, 2, 3, 4, 5, 6); }
OWN int twice(int a) { int s = 0; for (int i = 0; i < 5; i++) s += work(i, 6, 5, 4, 3, 2) + tail(i + a); return s; }
int main(void) { int s = twice(1); printf("sum %d entries %u exits %u tails %u of %u %u %u\\n", s, seen[0], seen[1], seen[2],
  entries[1], entries[2], entries[3]); return s & 0x3f; }
`;
const HANDLER = `unsigned seen[4], entries[8]; void handler(unsigned id, unsigned kind) { seen[kind]++; if (kind == 0) entries[id & 7]++; }`;

/** On RISC-V the compiler is newer than clang 14: its sleds around calls of what C does. */
const RISCV_PARTS = `
extern unsigned seen[4], entries[8]; extern int printf(const char *, ...); int work(int, int, int, int, int, int), tail(int), twice(int);
int g;
int work_body(int a, int b, int c, int d, int e, int f) { g += a; if (a == 3) return b; return a * 3 + b + c + d + e + f + g; }
int tail_body(int a) { g--; return a + 1; }
int twice_body(int a) { int s = 0; for (int i = 0; i < 5; i++) s += work(i, 6, 5, 4, 3, 2) + tail(i + a); return s; }
${PROGRAM.slice(PROGRAM.indexOf('int main'))}`;
const RISCV_SLEDS = `
 .macro sled kind, function
9: c.j 8f
 .rept 33
 c.nop
 .endr
8: .pushsection xray_instr_map,"a",@progbits
7: .quad 9b-7b, \\function-7b-8
 .byte \\kind, 1, 2
 .zero 13
 .popsection
 .endm
 .macro calls function
 addi sp,sp,-16
 sd ra,8(sp)
 call \\function
 ld ra,8(sp)
 addi sp,sp,16
 .endm
 .text
${['work', 'tail', 'twice']
  .map((name) => {
    const args = ['li a1,2', 'li a2,3', 'li a3,4', 'li a4,5', 'li a5,6'];
    const out = name === 'tail' ? [...args, 'sled 2 tail', 'tail work'] : [`sled 1 ${name}`, 'ret'];
    const head = [`.globl ${name}`, `.type ${name},@function`, `${name}: sled 0 ${name}`, `calls ${name}_body`];
    return [...head, ...out, `.size ${name},.-${name}`].join('\n ');
  })
  .join('\n ')}
`;

interface Machine {
  readonly name: string;
  readonly clang: string;
  readonly gcc: string;
  readonly qemu: string;
  /** Trampolines with the names of LLVM's runtime. */
  readonly trampolines: string;
  /** Kinds of the sleds of `work`, `tail` and `twice`. */
  readonly tails: 'tail' | 'exit';
  /** The sleds by an assembler, in place of a compiler. */
  readonly assembled?: true;
}

const each3 = (body: (name: string, kind: number) => string): string =>
  ['FunctionEntry', 'FunctionExit', 'FunctionTailExit'].map((name, kind) => body(`__xray_${name}`, kind)).join('');

const GENERAL = ['rax', 'rcx', 'rdx', 'rsi', 'rdi', 'r8', 'r9', 'r10', 'r11'];
const RISCV_KEPT = ['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7', 't0', 't2', 't3', 't4', 't5', 't6'];
const MACHINES: readonly Machine[] = [
  {
    name: 'x86-64',
    clang: 'x86_64-linux-gnu',
    gcc: 'x86_64-linux-gnu-gcc',
    qemu: 'qemu-x86_64',
    tails: 'tail',
    // An entry is called with the stack as at a function's first instruction and 8 bytes more.
    trampolines: each3(
      (
        name,
        kind,
      ) => `.globl ${name}\n.type ${name},@function\n${name}: push %rbp\n mov %rsp,%rbp\n and $-16,%rsp\n sub $80,%rsp
${GENERAL.map((register, i) => ` mov %${register},${8 * i}(%rsp)`).join('\n')}
 mov %r10d,%edi\n mov $${kind},%esi\n call handler
${GENERAL.map((register, i) => ` mov ${8 * i}(%rsp),%${register}`).join('\n')}
 leave\n ret\n.size ${name},.-${name}\n`,
    ),
  },
  {
    name: 'arm64',
    clang: 'aarch64-linux-gnu',
    gcc: 'aarch64-linux-gnu-gcc',
    qemu: 'qemu-aarch64',
    tails: 'exit',
    trampolines: each3(
      (name, kind) => `.globl ${name}\n.type ${name},@function\n${name}: add x30,x30,#12\n stp x29,x30,[sp,#-112]!
 stp x1,x2,[sp,#16]\n stp x3,x4,[sp,#32]\n stp x5,x6,[sp,#48]\n stp x7,x8,[sp,#64]\n stp x9,x10,[sp,#80]
 mov w0,w17\n mov w1,#${kind}\n bl handler
 ldp x1,x2,[sp,#16]\n ldp x3,x4,[sp,#32]\n ldp x5,x6,[sp,#48]\n ldp x7,x8,[sp,#64]\n ldp x9,x10,[sp,#80]
 ldp x29,x30,[sp],#112\n ret\n.size ${name},.-${name}\n`,
    ),
  },
  {
    name: 'ppc64-elfv2-le',
    clang: 'powerpc64le-linux-gnu',
    gcc: 'powerpc64le-linux-gnu-gcc',
    qemu: 'qemu-ppc64le',
    tails: 'exit',
    // The number is 8 bytes below r1, and r0 has LR, which the sled brings back.
    trampolines: each3(
      (
        name,
        kind,
      ) => `.globl ${name}\n.type ${name},@function\n${name}: mflr 12\n std 0,-16(1)\n std 12,-24(1)\n stdu 1,-320(1)
 std 2,24(1)\n ${[3, 4, 5, 6, 7, 8, 9, 10, 11].map((n) => `std ${n},${64 + 8 * n}(1)`).join('\n ')}
 ld 3,-8+320(1)\n li 4,${kind}\n bl handler\n nop
 ${[3, 4, 5, 6, 7, 8, 9, 10, 11].map((n) => `ld ${n},${64 + 8 * n}(1)`).join('\n ')}
 ld 2,24(1)\n addi 1,1,320\n ld 12,-24(1)\n mtlr 12\n ld 0,-16(1)\n blr\n.size ${name},.-${name}\n`,
    ),
  },
  {
    name: 'riscv64',
    clang: 'riscv64-linux-gnu',
    gcc: 'riscv64-linux-gnu-gcc',
    qemu: 'qemu-riscv64',
    tails: 'tail',
    assembled: true,
    trampolines: each3(
      (name, kind) => `.globl ${name}\n.type ${name},@function\n${name}: addi sp,sp,-128\n sd ra,0(sp)
 ${RISCV_KEPT.map((register, i) => `sd ${register},${8 + 8 * i}(sp)`).join('\n ')}
 li a1,${kind}\n call handler
 ${RISCV_KEPT.map((register, i) => `ld ${register},${8 + 8 * i}(sp)`).join('\n ')}
 ld ra,0(sp)\n addi sp,sp,128\n ret\n.size ${name},.-${name}\n`,
    ),
  },
];

const validate = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false }).compile(
  JSON.parse(readFileSync(join(root, 'schemas/xray.schema.json'), 'utf8')) as object,
);

const folder = mkdtempSync(join(tmpdir(), 'xray-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

describeWith(['clang', ...MACHINES.flatMap(({ gcc, qemu }) => [gcc, qemu])], 'sleds of XRay', () => {
  describe.each(sampled(MACHINES, 3))('$name', (machine) => {
    const at = (name: string): string => join(folder, `${machine.name}-${name}`);
    writeFileSync(at('program.c'), PROGRAM);
    writeFileSync(at('handler.c'), HANDLER);
    writeFileSync(at('trampolines.s'), ` .text\n${machine.trampolines}`);
    const sleds = ['-O2', '-fxray-instrument', '-fno-pic', '-fno-pie', '-fno-inline', '-w'];
    if (machine.assembled) {
      writeFileSync(at('sleds.s'), RISCV_SLEDS);
      writeFileSync(at('parts.c'), RISCV_PARTS);
      run(machine.gcc, ['-c', at('sleds.s'), '-o', at('program.o')]);
      run(machine.gcc, ['-O2', '-fno-inline', '-c', at('parts.c'), '-o', at('parts.o')]);
    } else {
      run('clang', [`--target=${machine.clang}`, ...sleds, '-c', at('program.c'), '-o', at('program.o')]);
    }
    run(machine.gcc, ['-O2', '-fno-pie', '-c', at('handler.c'), '-o', at('handler.o')]);
    run(machine.gcc, ['-c', at('trampolines.s'), '-o', at('trampolines.o')]);
    const own = machine.assembled ? ['parts.o'] : [];
    const objects = ['program.o', ...own, 'handler.o', 'trampolines.o'].map(at);
    run(machine.gcc, ['-static', '-no-pie', '-Wl,-z,noexecstack', ...objects, '-o', at('program')]);
    const ran = (name: string): { status: number | null; output: string } => {
      const { status, stdout } = spawnSync(machine.qemu, [at(name)], { encoding: 'utf8' });
      return { status, output: stdout };
    };
    const bytes = (name: string): Uint8Array => new Uint8Array(readFileSync(at(name)));
    const kinds = ['entry', 'exit', 'entry', machine.tails, 'entry', 'exit'];

    interface Report {
      readonly counts: Readonly<Record<string, number>>;
      readonly sleds: readonly {
        readonly function: string;
        readonly kind: string;
        readonly state: string;
        readonly id: number | null;
        readonly address: string;
        readonly reason: string | null;
      }[];
    }
    const listed = async (name: string): Promise<Report & { readonly status: number | null }> => {
      const { stdout, status } = await elftrace(['xray', at(name), '--json']);
      const report: unknown = JSON.parse(stdout);
      if (!validate(report)) throw new Error(JSON.stringify(validate.errors));
      return { ...(report as Report), status };
    };

    test('M-PROD-3: objects and linked programs: each sled with its function, kind and number', async () => {
      for (const name of ['program.o', 'program']) {
        const found = await listed(name);
        // A function with two returns has two exits on some machines.
        const own = found.sleds.filter(
          ({ function: of }, i, all) => all[i - 1]?.function !== of || all[i - 1]?.kind !== all[i]!.kind,
        );
        expect(own.map(({ kind }) => kind)).toEqual(kinds);
        expect(new Set(found.sleds.map((sled) => sled.function))).toEqual(new Set(['work', 'tail', 'twice']));
        expect(found.counts).toEqual({ off: found.sleds.length, on: 0, wrong: 0, unserved: 0 });
        const numbers = name === 'program' ? { work: 1, tail: 2, twice: 3 } : { work: null, tail: null, twice: null };
        expect(found.sleds.map(({ id }) => id)).toEqual(
          found.sleds.map((sled) => numbers[sled.function as keyof typeof numbers]),
        );
        expect(found.status).toBe(0);
      }
    });

    test('M-PROD-7: on, every call is seen; the program does the same, here and in the emulator; off and reverted it is as before', async () => {
      const plain = ran('program');
      expect(plain.output).toMatch(/^sum -?\d+ entries 0 exits 0 tails 0 /);
      const on = await elftrace(['xray', at('program'), '--on', '-o', at('on')]);
      const json = await elftrace(['xray', at('program'), '--on', '--json', '-o', at('json')]);
      // Sleds are no sites of ftrace: nothing of them is a yes.
      expect([4, 125]).toContain((await elftrace(['prove', at('on'), at('program'), '--sample', '2'])).status);
      expect(validate(JSON.parse(json.stdout))).toBe(true);
      expect([on.status, on.stdout]).toEqual([0, expect.stringMatching(/: (\d+) of \1 sleds changed/)]);
      const found = await listed('on');
      expect([found.status, found.counts['on']]).toEqual([0, found.sleds.length]);
      const seen = ran('on');
      // work and tail have left ten and five times when main prints, twice once; main has no sled.
      const tails = machine.tails === 'tail' ? { exits: 11, tails: 5 } : { exits: 16, tails: 0 };
      const sum = /^sum (-?\d+)/.exec(plain.output)![1]!;
      expect(seen).toEqual({
        status: plain.status,
        output: `sum ${sum} entries 16 exits ${tails.exits} tails ${tails.tails} of 10 5 1\n`,
      });
      const here = await elftrace(['run', at('on')]);
      expect([here.status, here.stdout]).toEqual([seen.status, seen.output]);

      expect((await elftrace(['xray', at('on'), '--off', '-o', at('off')])).status).toBe(0);
      expect(ran('off')).toEqual(plain);
      expect((await listed('off')).counts['off']).toBe(found.sleds.length);
      expect((await elftrace(['revert', at('on'), '-o', at('back')])).status).toBe(0);
      expect(bytes('back')).toEqual(bytes('program'));
    });

    test('M-PROD-7: selected functions only', async () => {
      expect((await elftrace(['xray', at('program'), '--on', '-l', 'tail', '-o', at('some')])).status).toBe(0);
      const { sleds: found } = await listed('some');
      expect(new Set(found.filter(({ state }) => state === 'on').map((sled) => sled.function))).toEqual(
        new Set(['tail']),
      );
      expect(ran('some').output).toMatch(/ of 0 5 0\n$/);
    });

    test('M-PROD-3: what a runtime leaves that switched a sled off is off; damage is wrong, is named and is never written over', async () => {
      await elftrace(['xray', at('program'), '--on', '-o', at('on2')]);
      const image = readElf(bytes('on2'));
      const { sleds: found } = await listed('on2');
      const entry = found.find((sled) => sled.function === 'tail' && sled.kind === 'entry')!;
      const offset = image.fileOffsetOf(BigInt(entry.address));
      const words = bytes('program').slice(offset, offset + (machine.name === 'x86-64' ? 2 : 4));
      // A runtime of RISC-V writes a jump of four bytes.
      const first = machine.name === 'riscv64' ? Uint8Array.of(0x6f, 0x00, 0x40, 0x04) : words;
      const left = image.bytes.slice();
      left.set(first, offset);
      writeFileSync(at('left'), left);
      expect((await listed('left')).counts).toMatchObject({ off: 1, on: found.length - 1, wrong: 0 });
      // The number of another function, and a first word that is none.
      const idAt = { 'x86-64': 2, arm64: 16, 'ppc64-elfv2-le': 4, riscv64: 46 }[machine.name]!;
      for (const [place, reason] of [
        [offset + idAt, /names function 7, and its own is 2/],
        [offset, /begins as no sled/],
      ] as const) {
        const damaged = image.bytes.slice();
        damaged[place] = place === offset ? 0x55 : machine.name === 'riscv64' ? 0x75 : 7;
        if (place === offset) damaged.set([0x55, 0x55], offset + 2);
        writeFileSync(at('damaged'), damaged);
        const after = await listed('damaged');
        expect([after.status, after.counts['wrong']]).toEqual([1, 1]);
        expect(after.sleds.find(({ state }) => state === 'wrong')?.reason).toMatch(reason);
        const refused = await elftrace(['xray', at('damaged'), '--off', '-o', at('never')]);
        expect([refused.status, refused.stderr]).toEqual([1, expect.stringContaining('wrong-bytes')]);
        expect(() => readFileSync(at('never'))).toThrow(/ENOENT/);
      }
    });

    test('M-PROD-7: objects, files without sleds and missing trampolines are refused with the reason', async () => {
      const object = await elftrace(['xray', at('program.o'), '--on', '-o', at('never')]);
      expect([object.status, object.stderr]).toEqual([4, expect.stringContaining('linked files')]);
      const none = await elftrace(['xray', at('handler.o')]);
      expect([none.status, none.stderr]).toEqual([2, expect.stringContaining('no sleds of XRay')]);
      const named = await elftrace(['xray', at('program'), '--on', '--entry', 'nothing', '-o', at('never')]);
      const why = machine.name === 'ppc64-elfv2-le' ? /cannot be chosen/ : /defines no function nothing/;
      expect([named.status === 0, named.stderr]).toEqual([false, expect.stringMatching(why)]);
    });
  });
});
