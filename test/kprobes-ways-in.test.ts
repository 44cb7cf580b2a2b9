/**
 * What leads into the middle of a window from elsewhere in the image, one kind after another:
 * direct branches of other sections, tables of switches, labels whose address is taken, landing
 * pads, what kernels' tables go on at. Every case has a twin that differs in the target only, which
 * is then where the window begins: that one is optimised.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { explainProbe, ProbeText } from '../src/kprobes/index.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { openBytes } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-ways-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const path = (name: string): string => join(folder, name);

interface Machine {
  readonly prefix: string;
  /**
   * `hot`, whose first two instructions are a window with `.Linner` in its middle; `.Louter` is its
   * start.
   */
  readonly hot: string;
  readonly jump: string;
  readonly start: string;
  readonly flags: readonly string[];
}

const code = (name: string, body: string): string =>
  `.globl ${name}\n.type ${name},@function\n${name}:\n${body}\n.size ${name}, .-${name}\n`;

const X86: Machine = {
  prefix: '',
  hot: code('hot', '.Louter: lea 1(%rdi),%eax\n .Linner: lea 2(%rax),%eax\n ret\n nop\n nop\n nop\n nop\n nop'),
  jump: 'jmp',
  start: 'mov $0,%edi\n call hot\n mov %eax,%edi\n mov $60,%eax\n syscall',
  flags: [],
};
const RISCV: Machine = {
  prefix: 'riscv64-linux-gnu-',
  hot: code('hot', '.Louter: c.addi a0,1\n .Linner: c.addi a0,2\n ret\n nop'),
  jump: 'j',
  start: 'li a0,0\n call hot\n li a7,93\n ecall',
  flags: ['-march=rv64gc'],
};

/** Builds a program of `hot` and something else, and says whether a probe at `hot` is a jump. */
function verdict(
  machine: Machine,
  more: string,
  link: readonly string[] = ['-static', '-no-pie'],
  object = false,
): string {
  writeFileSync(path('a.s'), `.text\n${machine.hot}${code('_start', machine.start)}${more}\n`);
  const output = object ? ['-c', '-o', path('a')] : [...link, '-Wl,--build-id=none', '-o', path('a')];
  run(`${machine.prefix}gcc`, ['-nostdlib', ...machine.flags, ...output, path('a.s')]);
  const { program, sites } = openBytes(new Uint8Array(readFileSync(path('a'))));
  const text = new ProbeText(program, sites);
  const { jump } = explainProbe(text, { kind: 'symbol', module: null, name: 'hot', offset: 0n });
  if (jump === null) return 'no probe';
  return jump.kind === 'refused' ? `${jump.code}: ${jump.reason}` : 'window';
}

/** A landing pad at a label of `hot`, in frames that begin with `hot`. */
const landing = (target: string, word: string): string => `
.section .gcc_except_table,"a"
.Ltable: .byte 0xff, 0xff, 1, .Lsites_end - .Lsites
# Numbers of one byte.
.Lsites: .byte 0, 1, ${target}, 0
.Lsites_end:
.section .eh_frame,"a"
.balign 8
.Lcommon: .long .Lcommon_end - .Lcommon - 4, 0
.byte 1
.asciz "zLR"
.uleb128 1
.sleb128 -8
.byte 16
.uleb128 2
.byte 0x1b, 0x1b
.balign 4
.Lcommon_end:
.Lframe: .long .Lframe_end - .Lframe - 4, . - .Lcommon
.${word} hot - ., 8
.uleb128 4
.${word} .Ltable - .
.balign 4
.Lframe_end: .long 0
`;

interface Way {
  readonly name: string;
  readonly source: (target: string) => string;
  readonly code: string;
  readonly reason: RegExp;
  readonly link?: readonly string[];
  readonly object?: boolean;
}

const cold =
  (jump: string) =>
  (target: string): string =>
    `.section .text.unlikely,"ax"\n.type hot.cold,@function\nhot.cold: nop\n ${jump} ${target}\n.size hot.cold, .-hot.cold`;
const rodata = (body: string): string => `.section .rodata,"a"\n.balign 8\n${body}\n.text\n`;
const INNER = /leads to hot\+0x[23], inside the window$/;

const COMMON: readonly Way[] = [
  {
    name: 'a table of addresses',
    source: (target) => rodata(`.quad _start, ${target}`),
    code: 'address-in-window',
    reason: /^an address at 0x[0-9a-f]+ in \.rodata leads/,
  },
  {
    name: 'a table that a dynamic linker fills',
    source: (target) => `.data\n.balign 8\n.quad ${target}`,
    code: 'address-in-window',
    reason: /^an address at/,
    link: ['-shared'],
  },
  {
    name: 'a fix-up of a kernel',
    source: (target) => `.section __ex_table,"a"\n.long _start - ., ${target} - ., 0`,
    code: 'table-into-window',
    reason: /^an exception table entry leads/,
  },
  {
    name: 'the target of a jump label',
    source: (target) => `.section __jump_table,"a"\n.long _start - ., ${target} - .\n.quad 0`,
    code: 'table-into-window',
    reason: /^a jump label leads/,
  },
  {
    name: 'a second entry, by its symbol',
    source: (target) => `.globl second\n.set second, ${target}`,
    code: 'symbol-in-window',
    reason: /^the symbol second leads/,
  },
  {
    name: 'a landing pad',
    source: (target) => landing(`${target} - hot`, 'long'),
    code: 'landing-pad',
    reason: /^a landing pad of an exception table leads/,
    link: ['-static', '-no-pie', '-Wl,--no-eh-frame-hdr'],
  },
  {
    name: 'frames that nobody can read',
    source: (target) =>
      target === '.Louter' ? '' : `.section .eh_frame,"a"\n.long 12, 0\n.byte 1\n.asciz "x"\n.zero 5`,
    code: 'ways-unknown',
    reason: /^landing pads are not known: \.eh_frame: frames of form 'x' are not known$/,
    link: ['-static', '-no-pie', '-Wl,--no-eh-frame-hdr'],
  },
];

const WAYS: readonly (readonly [string, Machine, readonly string[], readonly Way[]])[] = [
  [
    'x86-64',
    X86,
    ['gcc'],
    [
      {
        name: 'a branch of another section',
        source: cold('jmp'),
        code: 'branch-into-window',
        reason: /^the branch at hot\.cold\+0x1 leads to hot\+0x3, inside the window$/,
      },
      {
        name: 'a conditional branch, and a loop',
        source: (target) => code('other', `ret\n loop ${target}\n jne ${target}`),
        code: 'branch-into-window',
        reason: /^the branch at other\+0x1 leads/,
      },
      {
        name: 'a call',
        source: (target) => code('other', `call ${target}`),
        code: 'branch-into-window',
        reason: /^the branch at other\+0x0 leads/,
      },
      {
        name: 'the way out of a transaction',
        source: (target) => code('other', `xbegin ${target}`),
        code: 'branch-into-window',
        reason: /^the branch at other\+0x0 leads/,
      },
      {
        name: 'a branch inside another instruction, to which a branch leads',
        source: (target) =>
          code('other', `jmp 1f+2\n 1: .byte 0x48, 0xb8\n jmp ${target}\n .byte 0, 0, 0, 0, 0, 0, 0, 0\n ret`),
        code: 'branch-into-window',
        reason: /^the branch at other\+0x4 leads/,
      },
      {
        name: 'a branch behind bytes that are no instruction',
        source: (target) => code('other', `ret\n .byte 0x06, 0x48, 0xb8\n jmp ${target}`),
        code: 'branch-into-window',
        reason: /^the branch at other\+0x4 leads/,
      },
      {
        name: 'a relative table',
        source: (target) =>
          code('other', 'lea .Lat(%rip),%rdx\n movslq (%rdx,%rdi,4),%rax\n add %rdx,%rax\n jmp *%rax') +
          rodata(`.Lat: .long _start - .Lat, ${target} - .Lat`),
        code: 'address-in-window',
        reason: /^an address at 0x[0-9a-f]+ in \.rodata leads/,
      },
      {
        name: 'a label whose address code takes',
        source: (target) => code('other', `lea ${target}(%rip),%rax\n push %rax\n ret`),
        code: 'address-in-window',
        reason: /^an address at other\+0x0 leads/,
      },
      {
        name: 'a label as a number',
        source: (target) => code('other', `push $${target}\n ret`),
        code: 'address-in-window',
        reason: /^an address at other\+0x0 leads/,
      },
      {
        name: 'a table in the code',
        source: (target) => `.balign 8\n.quad ${target}`,
        code: 'address-in-window',
        reason: INNER,
      },
      {
        name: 'a branch of an object',
        source: cold('jmp'),
        code: 'branch-into-window',
        reason: /^the branch at hot\.cold\+0x2 leads to hot\+0x3, inside the window$/,
        object: true,
      },
      {
        name: 'a relative table of an object',
        source: (target) =>
          code('other', 'lea .Lat(%rip),%rdx\n jmp *%rax') + rodata(`.Lat: .long _start - .Lat, ${target} - .Lat`),
        code: 'address-in-window',
        reason: /^\.rodata\+0x4 leads/,
        object: true,
      },
      ...COMMON,
    ],
  ],
  [
    'riscv64',
    RISCV,
    ['riscv64-linux-gnu-gcc'],
    [
      {
        name: 'a branch of another section',
        source: cold('j'),
        code: 'branch-into-window',
        reason: /^the branch at hot\.cold\+0x2 leads to hot\+0x2, inside the window$/,
      },
      {
        name: 'a conditional branch',
        source: (target) => code('other', `ret\n bne a0,a1,${target}`),
        code: 'branch-into-window',
        reason: /^the branch at other\+0x2 leads/,
      },
      {
        name: 'a pair',
        source: (target) =>
          code(
            'other',
            `.option push\n.option norelax\n1: auipc t1,%pcrel_hi(${target})\n nop\n jr %pcrel_lo(1b)(t1)\n.option pop`,
          ),
        code: 'branch-into-window',
        reason: /^the branch at other\+0x6 leads/,
      },
      {
        name: 'a branch behind bytes that are no instruction',
        source: (target) => code('other', `ret\n .half 0, 0\n j ${target}`),
        code: 'branch-into-window',
        reason: /^the branch at other\+0x6 leads/,
      },
      {
        name: 'a relative table',
        source: (target) =>
          code('other', 'lla a5,.Lat\n slli a0,a0,2\n add a0,a0,a5\n lw a0,0(a0)\n add a0,a0,a5\n jr a0') +
          rodata(`.Lat: .word _start - .Lat, ${target} - .Lat`),
        code: 'address-in-window',
        reason: /^an address at 0x[0-9a-f]+ in \.rodata leads/,
      },
      {
        name: 'a relative table that gp leads to',
        // As linkers shorten it: gp is 0x800 behind the start of the small data.
        source: (target) =>
          code('other', 'addi a5,gp,-0x800\n lw a0,0(a5)\n add a0,a0,a5\n jr a0') +
          `.section .sdata,"aw"\n.balign 4\n.Lat: .word _start - .Lat, ${target} - .Lat`,
        code: 'address-in-window',
        reason: /^an address at 0x[0-9a-f]+ in \.sdata leads/,
      },
      {
        name: 'a table of short addresses',
        source: (target) => rodata(`.word ${target}`),
        code: 'address-in-window',
        reason: /^an address at/,
      },
      {
        name: 'a label whose address code takes',
        source: (target) => code('other', `lla a0,${target}\n jr a0`),
        code: 'address-in-window',
        reason: /^an address at other\+0x[04] leads/,
      },
      {
        name: 'a branch of an object',
        source: cold('j'),
        code: 'branch-into-window',
        reason: /^the branch at hot\.cold\+0x2 leads to hot\+0x2, inside the window$/,
        object: true,
      },
      {
        name: 'a relative table of an object',
        source: (target) => code('other', 'jr a0') + rodata(`.Lat: .word _start - .Lat, ${target} - .Lat`),
        code: 'address-in-window',
        reason: /^\.rodata\+0x4 leads/,
        object: true,
      },
      ...COMMON,
    ],
  ],
];

for (const [name, machine, tools, ways] of WAYS) {
  describeWith(tools, name, () => {
    test.each(ways)('X-2, K-WAY-1: $name', ({ source, code: expected, reason, link, object }) => {
      const inner = verdict(machine, source('.Linner'), link, object);
      expect(inner.slice(0, inner.indexOf(':'))).toBe(expected);
      expect(inner.slice(inner.indexOf(':') + 2)).toMatch(reason);
      if (expected !== 'ways-unknown') expect(inner).toMatch(INNER);
      expect(verdict(machine, source('.Louter'), link, object)).toBe('window');
    });

    test('X-2, K-WAY-1: the probe falls back to its breakpoint, and the program does what it did', () => {
      const more = cold(machine.jump)('.Linner');
      // The first entry comes by the cold part.
      const start = machine.start.replace('call hot', 'call hot.cold');
      writeFileSync(path('r.s'), `.text\n${machine.hot}${code('_start', start)}${more}\n`);
      run(`${machine.prefix}gcc`, ['-nostdlib', '-static', '-no-pie', ...machine.flags, '-o', path('r'), path('r.s')]);
      const plain = elftrace(['run', path('r')]);
      const patched = elftrace(['patch', path('r'), '--probe', 'p:e hot', '--optimize', '--json', '-o', path('r.p')]);
      expect(patched.status).toBe(0);
      expect(patched.stdout + patched.stderr).toMatch(/branch-into-window/);
      expect(elftrace(['status', path('r.p')]).stdout).not.toMatch(/OPTIMIZED/);
      const traced = elftrace(['run', path('r.p')]);
      expect([traced.status, plain.status]).toEqual([plain.status, 2]);
    });

    test('X-2, K-WAY-1: the same of an object and a module that are loaded', () => {
      const build = (file: string, source: string): void => {
        writeFileSync(path(`${file}.s`), source);
        run(`${machine.prefix}gcc`, ['-c', '-nostdlib', ...machine.flags, '-o', path(`${file}.o`), path(`${file}.s`)]);
      };
      const module = (inner: string, fixUp: string): string =>
        `.text\n${machine.hot.replaceAll('hot', 'warm')}${cold(machine.jump)(inner).replaceAll('hot', 'warm')}` +
        `\n.section __ex_table,"a"\n.long warm.cold - ., ${fixUp} - ., 0`;
      const tables = (inner: string): string => `\n.section __ex_table,"a"\n.long _start - ., ${inner} - ., 0`;
      build('core', `.text\n${machine.hot}${code('_start', machine.start)}${tables('.Louter')}`);
      for (const [file, inner, fixUp, warm] of [
        ['in', '.Linner', '.Louter', false],
        // The table of the module, which is not the first of that name.
        ['fix', '.Louter', '.Linner', false],
        ['out', '.Louter', '.Louter', true],
      ] as const) {
        build(file, module(inner, fixUp));
        const steps = [
          ['load', path('core.o'), path(`${file}.o`), '--probes', '4', '-o', path('image')],
          ['patch', path('image'), '--probe', 'p:a hot', '--probe', 'p:b warm', '--optimize', '-o', path('image.p')],
        ];
        for (const step of steps) expect([step, elftrace(step)]).toMatchObject([step, { status: 0 }]);
        const lines = elftrace(['status', path('image.p')]).stdout.split('\n');
        const state = (event: string): string => lines.find((line) => line.endsWith(event)) ?? '';
        const isJump = (event: string): boolean => state(event).includes('OPTIMIZED');
        expect([file, isJump('kprobes/a'), isJump('kprobes/b')]).toEqual([file, true, warm]);
        expect(state('kprobes/b')).toContain('warm');
      }
    });
  });
}
