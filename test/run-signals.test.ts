/**
 * Signals under `elftrace run`: programs of the C library, static and dynamic, do what they do
 * under qemu-user (on x86-64: on the processor that runs the tests).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import {
  ARM64_TARGETS,
  buildProgram,
  TARGETS as PPC_TARGETS,
  PROGRAMS,
  RISCV_TARGETS,
  X86_TARGETS,
} from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { firstOf, isLong, isWhole, sampled } from './support/long.js';
import { isX86Linux } from './support/processor.js';
import { run } from './support/run.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run as runTool, runProgramFile } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'run-signals-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** The C library of ELFv2 in big-endian order has no package: that ABI is in the next group. */
const TARGETS = [
  ['x86-64', 'gcc', 'qemu-x86_64', '/'],
  ['arm64', 'aarch64-linux-gnu-gcc', 'qemu-aarch64', '/usr/aarch64-linux-gnu'],
  ['riscv64', 'riscv64-linux-gnu-gcc', 'qemu-riscv64', '/usr/riscv64-linux-gnu'],
  ['ppc32', 'powerpc-linux-gnu-gcc', 'qemu-ppc', '/usr/powerpc-linux-gnu'],
  ['ppc64-elfv1', 'powerpc64-linux-gnu-gcc', 'qemu-ppc64', '/usr/powerpc64-linux-gnu'],
  ['ppc64le', 'powerpc64le-linux-gnu-gcc', 'qemu-ppc64le', '/usr/powerpc64le-linux-gnu'],
] as const;

/**
 * qemu 7.2 looks for the mask of `sigaction` on RISC-V where a `sa_restorer` would be in front of
 * it, so that SIGTERM is not blocked in the first handler. Linux has none there.
 */
function masked(output: string): string {
  const lines = output.split('\n');
  const first = lines.findIndex((each) => each.startsWith('enter '));
  const count = lines.filter((each) => /^(enter|leave) /.test(each)).length;
  lines.splice(
    first,
    count,
    'enter 10 depth 1 code 0 mine 1 blocked 101',
    'enter 12 depth 2 code -6 mine 1 blocked 111',
    'leave 12 depth 2',
    'leave 10 depth 1',
    'enter 15 depth 1 code -6 mine 1 blocked 001',
    'leave 15 depth 1',
  );
  return lines.join('\n');
}

const source = join(PROGRAMS, 'signals', 'signals.c');

for (const [at, [name, gcc, qemu, root]] of sampled(TARGETS, 3).entries()) {
  // What all machines share is seen on the first one; each way to end on another one as well.
  const isAll = isWhole || at === 0;
  describeWith([gcc, qemu], `signals of ${name}`, () => {
    const built = new Map<string, string>();
    const program = (link: string): string => {
      let path = built.get(link);
      if (path === undefined) {
        path = join(folder, `${name}${link}`);
        runTool(gcc, ['-O1', '-w', link, '-o', path, source, '-lrt']);
        built.set(link, path);
      }
      return path;
    };
    const outside = (path: string, args: readonly string[]) =>
      name === 'x86-64' && isX86Linux
        ? spawnSync(path, [...args], { encoding: 'utf8' })
        : spawnSync(qemu, ['-L', root, path, ...args], { encoding: 'utf8' });

    test.each(isAll && isLong ? ['-static', '-pie'] : ['-static'])(
      '%s: handlers, masks, stacks, faults, timers as on Linux',
      (link) => {
        const path = program(link);
        const wanted = outside(path, []);
        expect([wanted.status, wanted.stderr]).toEqual([7, '']);
        const expected = name === 'riscv64' ? masked(wanted.stdout) : wanted.stdout;
        for (const tier of link === '-static' ? ['0'] : ['auto']) {
          const here = run(['--tier', tier, '--root', root, path]);
          expect(here.stdout).toBe(expected);
          expect([here.status, here.json['deviations']]).toEqual([7, []]);
        }
      },
    );

    test.each([...'atdilbnr'].filter((_, i) => isAll || i % TARGETS.length === at))(
      '%s: a signal ends the process as on Linux',
      (how) => {
        const path = program('-static');
        const wanted = outside(path, [how]);
        const { status, json } = run(['--root', root, path, how]);
        expect(wanted.signal).not.toBeNull();
        const number = (json['signal'] as number | undefined) ?? 0;
        expect([status, number > 0]).toEqual([128 + number, true]);
        expect(numberOf(wanted.signal!)).toBe(number);
      },
    );
  });
}

/**
 * VSCR in a handler, and behind it: Linux puts it back from the frame, where programs find it, and
 * starts with NJ in big-endian order (`startingVscr`). qemu 7.2 does none of that.
 */
const VSCR = `
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
#include <string.h>
static unsigned word_of(const unsigned *v) { return v[__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 3]; }
static unsigned get(void) {
  unsigned v[4] __attribute__((aligned(16)));
  __asm__ volatile("mfvscr 2\\n stvx 2,0,%0" :: "b"(v) : "v2", "memory");
  return word_of(v);
}
static volatile unsigned seen, kept;
static void handler(int signal, siginfo_t *info, void *context) {
  seen = get();
  kept = word_of((const unsigned *)((ucontext_t *)context)->uc_mcontext.v_regs + 4 * 32);
  __asm__ volatile("vxor 2,2,2\\n mtvscr 2" ::: "v2");
}
int main(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigaction(SIGUSR1, &action, 0);
  unsigned first = get();
  __asm__ volatile("vspltisb 2,-1\\n vaddubs 2,2,2" ::: "v2");
  raise(SIGUSR1);
  printf("%x %x %x %x\\n", first, seen, kept, get());
  return 0;
}
`;
for (const [at, [name, gcc]] of TARGETS.filter(([each]) => each.startsWith('ppc64')).entries()) {
  describeWith([gcc], `VSCR of ${name}`, () => {
    test.each(isWhole ? ['auto', '0'] : [['auto', '0'][at]!])(
      `${name}: a handler's frame has VSCR, tier %s`,
      (tier) => {
        const path = join(folder, `vscr-${name}`);
        runTool(gcc, ['-O1', '-maltivec', '-static', '-o', path, writeSource('vscr.c', VSCR)]);
        const { status, stdout } = run(['--tier', tier, path]);
        const isLittle = gcc.startsWith('powerpc64le');
        expect([status, stdout]).toEqual([0, isLittle ? '0 1 1 1\n' : '10000 10001 10001 10001\n']);
      },
    );
  });
}

/** A handler that takes the floating point state out of its frame, and has one of its own. */
const WITHOUT_STATE = `
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
static void handler(int signal, siginfo_t *info, void *context) {
  unsigned mxcsr = 0x3f80;
  ((ucontext_t *)context)->uc_mcontext.fpregs = 0;
  __asm__ volatile("ldmxcsr %0\\n fldpi\\n pcmpeqd %%xmm9,%%xmm9" : : "m"(mxcsr) : "xmm9");
}
int main(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  unsigned mxcsr = 0x7f80; unsigned short control = 0x27f, status = 0; unsigned long low = 5, high = 5; long answer = SYS_kill;
  sigaction(SIGUSR1, &action, 0);
  __asm__ volatile("ldmxcsr %1\\n fldcw %2\\n fldpi\\n pcmpeqd %%xmm9,%%xmm9\\n syscall\\n stmxcsr %1\\n fnstcw %2\\n fnstsw %3\\n"
    "movq %%xmm9,%4\\n psrldq $8,%%xmm9\\n movq %%xmm9,%5"
    : "+a"(answer), "+m"(mxcsr), "+m"(control), "=m"(status), "=r"(low), "=r"(high) : "D"(getpid()), "S"(SIGUSR1) : "rcx", "r11", "xmm9", "memory");
  __asm__ volatile("fninit");
  printf("%ld %x %x %x %lx %lx\\n", answer, mxcsr, control, status, low, high);
  return 0;
}
`;
describeWith(['gcc'], 'a frame of x86-64 without floating point state', () => {
  test.each(['x86-64', 'x86-64-v3'])('%s: the registers are those of a new program, as on Linux', (cpu) => {
    const path = join(folder, 'without-state');
    runTool('gcc', ['-O1', '-w', '-static', '-o', path, writeSource('without-state.c', WITHOUT_STATE)]);
    const { status, stdout } = run(['--cpu', cpu, path]);
    expect([status, stdout]).toEqual([0, '0 1f80 37f 0 0 0\n']);
    if (isX86Linux) expect(runProgramFile(path, []).stdout).toBe(stdout);
  });
});

// ------------------------------------------------------------------------------------ freestanding

const RAW = `
#include <asm/unistd.h>
#define SYS_WRITE __NR_write
#include "lib.h"
#ifdef __x86_64__
__asm__(".globl restore\\nrestore: mov $15, %eax\\n syscall");
extern void restore(void);
#define RESTORER 0x4000000, (word)restore,
#elif defined(__riscv)
#define RESTORER 0,
#else
#define RESTORER 0, 0,
#endif
static volatile int count;
static volatile word kept;
static u8 stack[65536];
static void handler(int signal) {
  count++;
  line("signal", (u32)signal);
  if (signal == 10 && count == 1) sys(__NR_kill, sys(__NR_getpid), 12L);
}
static void quiet(int signal) { count += signal != 0; }
static void act(long signal, word handler, word flags) {
  word action[6] = {handler, RESTORER 0, 0, 0};
  action[1] |= flags;
  line("act", -sys(__NR_rt_sigaction, signal, action, 0L, 8L));
}
#ifdef __powerpc__
/** The condition register is kept across a handler. Field 0 is what no comparison leaves. */
static word conditions(void) {
  word own = sys(__NR_getpid);
  register word number __asm__("r0") = __NR_kill;
  register word pid __asm__("r3") = own;
  register word signal __asm__("r4") = 10;
  word value = 0xea5a5a58;
  __asm__ volatile("mtcrf 0xff,%0; sc; mfcr %0" : "+r"(value), "+r"(number), "+r"(pid), "+r"(signal) : : "cr0", "cr1", "cr2", "cr3", "cr4", "cr5", "cr6", "cr7", "ctr", "lr", "memory", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12");
  return value;
}
#endif
static int compute(int n) {
  int a = 1, b = 2, c = 3, d = 4;
  for (int i = 0; i < n; i++) {
    a += b * i, b ^= c + a, c -= d, d += a;
    if (i % 50 == 10) sys(__NR_kill, sys(__NR_getpid), 10L);
  }
  return a ^ b ^ c ^ d;
}
int main(int argc, char **argv) {
  word timer[4] = {0, 1, 0, 1}, alternate[3] = {(word)stack, 0, sizeof stack}, all[2] = {~0ul, ~0ul};
  switch (argc > 1 ? argv[1][0] : 'p') {
  case 'p':
    act(10, (word)handler, 0), act(12, (word)handler, 0);
    line("compute", (u32)compute(300));
#ifdef __powerpc__
    line("conditions", conditions());
#endif
    line("count", count);
    break;
  case 'r': sys(__NR_rt_sigreturn); break;
  case 'f':
    sys(__NR_sigaltstack, alternate, 0L);
    act(11, 0x1234, 0x48000000);
    *(volatile int *)16 = 1;
    break;
  case 'l':
    act(11, (word)quiet, 0);
    *(volatile int *)16 = 1;
    break;
  case 't':
    act(14, (word)quiet, 0);
    sys(__NR_setitimer, 0L, timer, 0L);
    for (;;);
  case 'q': {
    int sent = 0;
    u32 info[32] = {0};
    sys(__NR_rt_sigprocmask, 2L, all, 0L, 8L);
    info[2] = (u32)-1;
    while (sent < 100000 && sys(__NR_rt_sigqueueinfo, sys(__NR_getpid), 40L, info) == 0) sent++;
    line("bounded", sent < 100000);
    break;
  }
  case 'm': {
    u32 id;
    int made = 0;
    while (made < 100000 && sys(__NR_timer_create, 0L, 0L, &id) == 0) made++;
    line("bounded", made < 100000);
    break;
  }
  case 's': sys(__NR_rt_sigprocmask, 2L, all, 0L, 8L); sys(__NR_rt_sigsuspend, all, 8L); break;
  }
  flush();
  return 5;
}
`;
const RAW_TARGETS = [...PPC_TARGETS, X86_TARGETS[0]!, RISCV_TARGETS[0]!, ARM64_TARGETS[0]!];

/** One of each front end; of the others the first test is enough, in the tier that compiles. */
const front = firstOf(RAW_TARGETS, ({ name }) => name.replace(/[-\d].*/, ''));

for (const target of RAW_TARGETS) {
  describeWith([target.gcc, target.qemu], `signals of ${target.name} without a library`, () => {
    let built: string | undefined;
    const program = (): string => (built ??= buildProgram(target, '1', [writeSource('signals.c', RAW)]));

    test.each(isWhole || target === RAW_TARGETS[0] ? ['0', '1'] : ['1'])(
      'tier %s: handlers run between instructions and nothing else changes',
      (tier) => {
        const wanted = spawnSync(target.qemu, [...(target.qemuFlags ?? []), program()], { encoding: 'utf8' });
        expect(wanted.status).toBe(5);
        const here = run(['--tier', tier, program()]);
        expect([here.status, here.stdout, here.json['deviations']]).toEqual([5, wanted.stdout, []]);
      },
    );

    if (!isWhole && !front.has(target)) return;
    test('hostile programs end: frames that are none, handlers that are nowhere, faults in a circle', () => {
      expect(run([program(), 'r'])).toMatchObject({ status: 139, json: { signal: 11 } });
      expect(run([program(), 'f'])).toMatchObject({ status: 139, json: { signal: 11 } });
      const circle = run(['--max-instructions', '20000', program(), 'l']);
      expect(circle).toMatchObject({ status: 125, json: { stop: { reason: 'step-limit' } } });
      const ticking = run(['--max-instructions', '50000', program(), 't']);
      expect(ticking).toMatchObject({ status: 125, json: { stop: { reason: 'step-limit' }, instructions: 50_000 } });
    });

    // What bounds them knows no machine.
    if (isWhole || target.name === 'x86-64')
      test('hostile programs get no more than a process may have: signals that wait, timers', () => {
        for (const how of ['q', 'm']) {
          expect(run([program(), how])).toMatchObject({ status: 5, stdout: 'bounded 1\n' });
        }
      });

    test('a process that waits for what cannot come is a deadlock, with its place', () => {
      const { status, json, stderr } = run([program(), 's']);
      expect([status, (json['stop'] as { reason: string }).reason]).toEqual([125, 'deadlock']);
      expect(json['stop']).toMatchObject({ threads: [{ thread: 1000 }] });
      expect(stderr).toContain('deadlock: thread 1000 at 0x');
      expect(run(['--compare', program(), program(), 's']).status).toBe(125);
    });
  });
}

function numberOf(signal: string): number {
  return { SIGABRT: 6, SIGTERM: 15, SIGSEGV: 11, SIGILL: 4, SIGALRM: 14, SIGVTALRM: 26 }[signal] ?? -1;
}
