/**
 * `run --cpu x86-64-v3`: programs that compilers make for it, with the C library that finds it; the
 * state of `xsave`, in signal frames too; exceptions of both halves. As on this processor where it
 * is one of the level; of programs that need nothing else as under qemu-user.
 */
import { writeFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { buildNamed, COUNTED } from './support/program-tests.js';
import { scratch } from './support/c-programs.js';
import { few } from './support/long.js';
import { hasFeatures } from './support/processor.js';
import { run } from './support/run.js';
import { outputOf, spawnSync } from './support/spawn.js';
import { tiersInStep } from './support/tiers.js';
import { describeWith, runProgramFile } from './support/tools.js';
import { AVX_TARGET, V3 } from './support/x86-avx.js';

const isThere = hasFeatures(V3);
const OPTION = ['--cpu', 'x86-64-v3', '--root', '/'];

function built(name: string, text: string, flags: readonly string[]): string {
  const [source, program] = [scratch(`${name}.c`), scratch(name)];
  writeFileSync(source, text);
  outputOf('gcc', ['-w', ...flags, source, '-o', program, '-lm']);
  return program;
}

/** What a program does on a processor of the level. */
function outside(program: string): { readonly status: number | null; readonly stdout: string } {
  if (isThere) return runProgramFile(program);
  const { status, stdout } = spawnSync('qemu-x86_64', ['-cpu', 'max', program], { encoding: 'utf8' });
  return { status, stdout };
}

/** Loops that become AVX2 and FMA, numbers printed, sorting, texts. */
const PROGRAM = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <sys/auxv.h>
#include <unistd.h>
static int cmp(const void*a,const void*b){double x=*(double*)a,y=*(double*)b;return x<y?-1:x>y;}
static double v[1000]; static float f[1000]; static int n[1000]; static short h[1000]; static unsigned char c[1000];
int main(int argc,char**argv){
  unsigned s=1; for(int i=0;i<1000;i++){ s=s*1103515245+12345; v[i]=(s>>8)/1000.0-8000; f[i]=v[i]*0.37f; n[i]=s; h[i]=s>>16; c[i]=s>>24; }
  double sum=0; for(int i=0;i<1000;i++) sum+=v[i]*f[i]+sqrt(fabs(v[i]));
  float fs=0; for(int i=0;i<1000;i++) fs=fmaf(f[i],0.5f,fs);
  long is=0; for(int i=0;i<1000;i++) is+=(long)n[i]*h[i]>>(c[i]&7);
  int m=0; for(int i=0;i<1000;i++) m=n[i]>m?n[i]:m;
  for(int i=0;i<1000;i++) n[i]=n[i]<<(c[i]&31)^(n[(i*7)%1000]);
  for(int i=0;i<1000;i++) c[i]=c[i]>100?c[i]*3:c[i]/2;
  qsort(v,1000,sizeof*v,cmp);
  printf("%f %f %.9g %ld %d %f %f\\n",sum,v[500],fs,is,m,v[0],v[999]);
  double waves=0; for(int i=0;i<1000;i++) waves+=sin(v[i]*1e-3)*cos(v[i]); printf("%.12g\\n",waves);
  printf("%.17g %a %Lf %s\\n",exp(v[3]/1e4),sin(v[7]),(long double)cos(v[9]),strchr("hello, world",','));
  unsigned k=0; for(int i=0;i<1000;i++) k=k*31+n[i]+c[i]; printf("%x\\n",k);
  char b[300],d[300]; memset(b,'x',299); b[299]=0; for(int i=0;i<260;i+=13){ memcpy(d,b+i,300-i); d[7]='q'; printf("%zu %ld %d %s ",strlen(d),(long)(strrchr(d,'q')-d),memcmp(b,d,200-i/2)>0,(char*)memchr(d,0,300)-2); } puts("");
  printf("%d %d\\n",__builtin_cpu_supports("avx2")!=0,__builtin_cpu_supports("fma")!=0);
  return 5; }
`;

/** What a handler finds in its frame, and which of its changes come back. */
const SIGNALS = `
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <ucontext.h>
#include <stdint.h>
#include <immintrin.h>
static volatile int seen;
static uint64_t in[4] __attribute__((aligned(32)));
static void handler(int n, siginfo_t *i, void *context) {
  ucontext_t *c = context;
  unsigned char *at = (void *)c->uc_mcontext.fpregs;
  uint32_t *sw = (uint32_t *)(at + 464);
  uint64_t *header = (uint64_t *)(at + 512);
  printf("%d flags %lx magic %x components %d header %d mxcsr %x aligned %d\\n", n, c->uc_flags & 7, sw[0], (int)(*(uint64_t *)(sw + 2) & 7), (int)(header[0] & 7), *(uint32_t *)(at + 24), (int)((uintptr_t)at & 63));
  printf("last %x\\n", *(uint32_t *)(at + sw[4]));
  uint64_t low[2], high[2];
  memcpy(low, at + 160 + 16 * 5, 16);
  memcpy(high, at + 576 + 16 * 5, 16);
  printf("ymm5 %lx %lx %lx %lx\\n", low[0], low[1], high[0], high[1]);
  uint64_t own[4] __attribute__((aligned(32)));
  unsigned word;
  __asm__ volatile("vmovdqa %%ymm5,%0\\n stmxcsr %1" : "=m"(own), "=m"(word));
  printf("inside %lx %lx %x\\n", own[0], own[2], word);
  __asm__ volatile("vpcmpeqd %%ymm5,%%ymm5,%%ymm5\\n vmovdqa %%ymm5,%%ymm6" ::: "memory");
  high[1] ^= 0xff;
  memcpy(at + 576 + 16 * 5, high, 16);
  if (seen == 1) header[0] &= ~4ull;
  if (seen == 2) sw[0] = 0;
  if (seen == 3) *(uint64_t *)(sw + 2) = 3;
  seen++;
}
int main(void) {
  struct sigaction a = {0};
  a.sa_sigaction = handler;
  a.sa_flags = SA_SIGINFO;
  sigaction(SIGUSR1, &a, 0);
  for (int i = 0; i < 5; i++) {
    uint64_t out[8] __attribute__((aligned(32)));
    unsigned mx = 0x3fa0, mo;
    for (int j = 0; j < 4; j++) in[j] = 0x1111111111111111ull * (j + 1) + i;
    long pid, tid, r;
    __asm__ volatile("syscall" : "=a"(pid) : "0"(39) : "rcx", "r11");
    __asm__ volatile("ldmxcsr %4\\n vmovdqa %3,%%ymm5\\n vxorps %%ymm6,%%ymm6,%%ymm6\\n syscall\\n vmovdqa %%ymm5,%0\\n vmovdqa %%ymm6,%1\\n stmxcsr %2"
      : "=m"(out[0]), "=m"(out[4]), "=m"(mo), "+m"(in), "+m"(mx), "=a"(r) : "5"(62), "D"(pid), "S"(SIGUSR1) : "rcx", "r11", "memory");
    printf("%d: %lx %lx %lx %lx %lx %x\\n", i, out[0], out[1], out[2], out[3], out[6], mo);
    unsigned back = 0x1f80; __asm__ volatile("ldmxcsr %0\\n vzeroupper" :: "m"(back));
  }
  return 0;
}
`;

/** All subsets of the state, in use and not, stored and loaded. */
const STATE = `
#include <stdio.h>
#include <string.h>
#include <stdint.h>
#include <stdlib.h>
static unsigned char area[4096] __attribute__((aligned(64))), zero[4096] __attribute__((aligned(64)));
static uint64_t in[4] __attribute__((aligned(32))) = {1, 2, 3, 4}, out[4] __attribute__((aligned(32)));
static uint64_t sum(const unsigned char *at, int n) { uint64_t s = 5; for (int i = 0; i < n; i++) s = s * 1099511628211ull + at[i]; return s; }
int main(void) {
  unsigned a, d;
  __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  printf("%x\\n", a & 7);
  for (int mask = 0; mask < 8; mask++) for (int use = 0; use < 4; use++) {
    memset(area, 0xa5, sizeof area); memset(area + 512, 0, 64);
    *(uint64_t *)(area + 512) = 5; 
    unsigned mx = use == 2 ? 0x3f80 : 0x1f80, back;
    __asm__ volatile("fninit\\n ldmxcsr %4\\n vzeroall\\n test $1,%5\\n jz 1f\\n vmovdqa %2,%%ymm3\\n fld1\\n 1: cmp $3,%5\\n jne 2f\\n vzeroall\\n vmovdqa %2,%%xmm3\\n fninit\\n 2: xsave64 %0\\n ldmxcsr %3\\n vzeroall\\n fninit"
      : "+m"(area) : "a"(mask), "m"(in), "m"((unsigned){0x1f80}), "m"(mx), "r"(use), "d"(0) : "memory", "cc");
    /* Pointers of x87, and its registers, which are cleared by nothing; the mask of MXCSR. Processors
       of AMD do not take MXCSR for a part of what is in use. */
    memset(area + 6, 0, 18); memset(area + 28, 0, 4); memset(area + 32, 0, 128);
    printf("save %d %d: %lx %lx %lx %lx\\n", mask, use, *(uint64_t *)(area + 512) & (use == 2 ? ~3ul : ~1ul), sum(area, 512), sum(area + 576, 256), sum(area + 832, 100));
    for (int present = 0; present < 8; present++) {
      memset(area, 0, 832);
      *(unsigned short *)area = 0x27f; *(unsigned *)(area + 24) = 0x5f80;
      for (int i = 0; i < 256; i++) area[160 + i] = i, area[576 + i] = 3 * i;
      *(uint64_t *)(area + 512) = present;
      unsigned short cw;
      __asm__ volatile("fninit\\n ldmxcsr %6\\n vmovdqa %5,%%ymm3\\n vmovdqa %5,%%ymm9\\n xrstor64 %3\\n vmovdqa %%ymm3,%0\\n stmxcsr %1\\n fnstcw %2\\n fninit\\n ldmxcsr %6\\n vzeroupper"
        : "=m"(out), "=m"(back), "=m"(cw) : "m"(area), "a"(mask), "m"(in), "m"((unsigned){0x1f80}), "d"(0) : "memory", "cc");
      if (use == 0) printf("restore %d %d: %lx %lx %lx %lx %x %x\\n", mask, present, out[0], out[1], out[2], out[3], back, cw);
    }
  }
  return 0;
}
`;

/** Exceptions that are not masked, of the upper half alone. */
const EXCEPTIONS = `
#define _GNU_SOURCE
#include <stdio.h>
#include <signal.h>
#include <setjmp.h>
#include <string.h>
#include <ucontext.h>
static sigjmp_buf back;
static void handler(int number, siginfo_t *info, void *context) {
  ucontext_t *c = context;
  unsigned long *high = (void *)((char *)c->uc_mcontext.fpregs + 576);
  printf("%d %d %d %x %lx %lx\\n", number, info->si_code, (int)c->uc_mcontext.gregs[REG_TRAPNO], c->uc_mcontext.fpregs->mxcsr, high[0], high[1]);
  siglongjmp(back, 1);
}
static double a[4], b[4], d[4];
static unsigned word;
#define TRY(mxcsr, text, x, y, z) do { \\
  word = mxcsr; \\
  for (int i = 0; i < 4; i++) a[i] = 1 + i, b[i] = 2, d[i] = 3; \\
  a[3] = x; b[3] = y; d[3] = z; \\
  if (!sigsetjmp(back, 1)) { \\
    __asm__ volatile("ldmxcsr %0\\n vmovupd %1,%%ymm1\\n vmovupd %2,%%ymm2\\n vmovupd %3,%%ymm0\\n" text "\\n stmxcsr %0\\n vmovupd %%ymm0,%1" : "+m"(word), "+m"(a) : "m"(b), "m"(d) : "memory"); \\
    printf("%x %g %g\\n", word, a[0], a[3]); \\
  } } while (0)
int main(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigaction(SIGFPE, &action, 0);
  volatile double zero = 0, tiny = 1e-310, large = 1e300, one = 1;
  TRY(0x1d80, "vdivpd %%ymm2,%%ymm1,%%ymm0", one, zero, one);
  TRY(0x1f80, "vdivpd %%ymm2,%%ymm1,%%ymm0", one, zero, one);
  TRY(0x1e80, "vaddpd %%ymm2,%%ymm1,%%ymm0", one, tiny, one);
  TRY(0x1b80, "vmulpd %%ymm2,%%ymm1,%%ymm0", large, large, one);
  TRY(0x0f80, "vdivpd %%ymm2,%%ymm1,%%ymm0", one, 3.0, one);
  TRY(0x0f80, "vsqrtpd %%ymm2,%%ymm0", one, one, one);
  TRY(0x1f00, "vfmadd231pd %%ymm2,%%ymm1,%%ymm0", large * large, zero, one);
  TRY(0x1b80, "vfmadd213pd %%ymm2,%%ymm1,%%ymm0", large, one, large);
  TRY(0x1f80, "vfmadd132pd %%ymm2,%%ymm1,%%ymm0", large, large, large);
  TRY(0x1780, "vfnmsub231sd %%xmm2,%%xmm1,%%xmm0", one, one, one);
  TRY(0x1f00, "vcmppd $1,%%ymm2,%%ymm1,%%ymm0", zero / zero, one, one);
  TRY(0x1f00, "vcmppd $17,%%ymm2,%%ymm1,%%ymm0", zero / zero, one, one);
  TRY(0x1b80, "vcvtps2ph $0,%%ymm1,%%xmm0", one, one, one);
  TRY(0x0f80, "vcvtpd2ps %%ymm2,%%xmm0", one, 0.1, one);
  TRY(0x1f00, "vcvttpd2dq %%ymm2,%%xmm0", one, large, one);
  TRY(0x0f80, "vroundpd $0,%%ymm2,%%ymm0", one, 2.5, one);
  return 3;
}
`;

describeWith(['gcc', 'qemu-x86_64'], 'x86-64-v3', () => {
  test('the dynamic loader finds it', () => {
    const { status, stdout } = run([...OPTION, '/lib64/ld-linux-x86-64.so.2', '--help']);
    expect(status).toBe(0);
    expect(stdout).toMatch(/\n  x86-64-v4\n  x86-64-v3 \(supported, searched\)\n  x86-64-v2 \(supported, searched\)\n/);
  });

  test.each([
    ['dynamic, -O2', ['-O2']],
    // Functions of vectors by lazy binding, which keeps their arguments.
    ['dynamic, -O3 -ffast-math', ['-O3', '-ffast-math', '-Wl,-z,lazy']],
    ['static, -O3', ['-O3', '-static']],
  ])('a program, %s', (_name, flags) => {
    const program = built('program', PROGRAM, [...flags, '-march=x86-64-v3']);
    const expected = outside(program);
    expect(expected.stdout).toMatch(/\n1 1\n$/);
    const here = run([...OPTION, program]);
    expect(here.stdout).toBe(expected.stdout);
    expect([here.status, expected.status]).toEqual([5, 5]);
  });

  test('both tiers do the same to all registers', () => {
    const target = {
      ...AVX_TARGET,
      flags: ['-O3', '-march=x86-64-v3', '-fcf-protection=none', '-fno-pie', '-no-pie'],
      qemuFlags: ['-cpu', 'max'],
    };
    expect(tiersInStep(target, buildNamed(target, '2', few(COUNTED, 6)))).toEqual([]);
  });

  test('signal frames have what xsave stores', () => {
    const program = built('signals', SIGNALS, ['-O1']);
    const here = run([...OPTION, program]);
    expect(here.stdout).toContain('10 flags 7 magic 46505853 components 7 header 7');
    if (isThere) expect(here.stdout).toBe(runProgramFile(program).stdout);
    // Without it, they have what fxsave stores.
    expect(run(['--root', '/', program]).stdout).not.toContain('magic 46505853');
  });

  test('xsave and xrstor', () => {
    const program = built('state', STATE, ['-O1']);
    const here = run([...OPTION, program]);
    expect(here.status).toBe(0);
    expect(here.stdout.split('\n').length).toBeGreaterThan(90);
    if (isThere) expect(here.stdout).toBe(runProgramFile(program).stdout);
    // Without it, the run stops at the first of them.
    const base = run(['--root', '/', program]);
    expect([base.status, base.stderr]).toEqual([125, expect.stringContaining('xgetbv')]);
  });

  test('exceptions that are not masked', () => {
    const program = built('exceptions', EXCEPTIONS, ['-O1']);
    const here = run([...OPTION, program]);
    expect(here.status).toBe(3);
    if (isThere) expect(here.stdout).toBe(runProgramFile(program).stdout);
  });
});
