/**
 * `npm run soak -- native [PROGRAM …]`: programs of Debian, from its sources and with its flags
 * and one option more, record their own calls. What they print and how they end is what they did
 * before. Built with `-pg -mfentry`, too, each function was called as often as a log of the same
 * run says that is none of ours: `__fentry__` appends the address of each function to a file. Of
 * the same run, for what is called may depend on when signals and children come.
 *
 * Sources come from the mirror by `apt-get source`, with lists of their own, without Debian's
 * patches, which change how some of them are built.
 */
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import {
  cli,
  differences,
  flag,
  folder,
  must,
  programs,
  type Ran,
  recorded,
  repairing,
  runs,
  shell,
  soakAll,
  unpack,
} from './soak-programs.js';

/**
 * The log of calls: the address behind each call of the hook, less where the program lies. Weak,
 * for some builds link it into their parts, too.
 */
const LOG = `
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
extern const char __executable_start[];
static unsigned long *log_words;
#define PLAIN __attribute__((no_instrument_function))
#define WORDS (1ul << 28)
PLAIN static unsigned long *open_log(void) {
  int file = open(getenv("CALLS_LOG"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, WORDS * 8)) abort();
  unsigned long *at = mmap(0, WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  return at == MAP_FAILED ? (abort(), (void *)0) : at;
}
PLAIN __attribute__((weak)) void log_call(unsigned long place) {
  if (!log_words) {
    // Programs of configure are run, too.
    if (!getenv("CALLS_LOG")) return;
    log_words = open_log();
  }
  unsigned long at = __atomic_add_fetch(log_words, 1, __ATOMIC_RELAXED);
  if (at >= WORDS) abort();
  log_words[at] = place - (unsigned long)__executable_start;
}
__asm__(".weak __fentry__\\n.type __fentry__, @function\\n__fentry__:\\n"
  "push %rax\\npush %rdi\\npush %rsi\\npush %rdx\\npush %rcx\\npush %r8\\npush %r9\\npush %r10\\npush %r11\\n"
  "mov 72(%rsp), %rdi\\nmov %rsp, %r11\\nsub $560, %rsp\\nand $-64, %rsp\\nfxsave (%rsp)\\nmov %r11, 520(%rsp)\\n"
  "call log_call\\nmov 520(%rsp), %r11\\nfxrstor (%rsp)\\nmov %r11, %rsp\\n"
  "pop %r11\\npop %r10\\npop %r9\\npop %r8\\npop %rcx\\npop %rdx\\npop %rsi\\npop %rdi\\npop %rax\\nret\\n"
  ".size __fentry__, . - __fentry__");
`;

function build(name: string, variant: string, option: string, more: string): string {
  const { source, build: steps, program } = programs[name]!;
  const kept = join(folder, `${name}-${variant}`);
  if (process.env['ELFTRACE_SOAK_KEEP'] !== undefined && existsSync(join(kept, program))) return join(kept, program);
  const place = unpack(source, kept);
  const env = {
    CC: 'gcc',
    CXX: repairing('g++'),
    CFLAGS: `${flag('CFLAGS')} ${flag('CPPFLAGS')} ${option}`,
    CXXFLAGS: `${flag('CXXFLAGS')} ${flag('CPPFLAGS')} ${option}`,
    LDFLAGS: `${flag('LDFLAGS')} ${more}`,
  };
  must(`building ${name} (${variant})`, shell(steps, place, env));
  return join(place, program);
}

/** Addresses of functions, ascending, with a name for each. */
function functionsOf(program: string): { readonly at: number; readonly name: string }[] {
  const text = must('nm', shell(`nm -n --defined-only '${program}'`, folder)).toString();
  const start = Number.parseInt(/^([0-9a-f]+) \S __executable_start$/m.exec(text)?.[1] ?? '0', 16);
  return [...text.matchAll(/^([0-9a-f]+) [tTwWi] (\S+)$/gm)].map(([, at, name]) => ({
    at: Number.parseInt(at!, 16) - start,
    name: name!,
  }));
}

/** Calls by function of a log: static functions of one name count together. */
function logged(program: string, log: string): Map<string, number> {
  const functions = functionsOf(program);
  const byPlace = new Map<number, number>();
  // The file is longer than an array may be; its first word says how much of it is used.
  const file = openSync(log, 'r');
  const piece = Buffer.alloc(1 << 20);
  let end = Infinity;
  for (let from = 0; from < end; from += piece.length) {
    const size = readSync(file, piece, 0, piece.length, from);
    if (from === 0) end = 8 + 8 * Number(piece.readBigUInt64LE(0));
    for (let at = from === 0 ? 8 : 0; at < Math.min(size, end - from); at += 8) {
      const place = Number(piece.readBigUInt64LE(at));
      byPlace.set(place, (byPlace.get(place) ?? 0) + 1);
    }
  }
  closeSync(file);
  const counts = new Map<string, number>();
  for (const [place, calls] of byPlace) {
    // The call ends in its function.
    const index = functions.findLastIndex(({ at }) => at < place);
    const name = functions[index]?.name ?? '?';
    counts.set(name, (counts.get(name) ?? 0) + calls);
  }
  return counts;
}

/** A program under a path that is the same for each: shells read theirs letter by letter. */
function called(name: string, file: string): string {
  const path = join(folder, 'bin', basename(programs[name]!.program));
  mkdirSync(dirname(path), { recursive: true });
  rmSync(path, { force: true });
  symlinkSync(file, path);
  return path;
}

function soak(name: string): boolean {
  const sites = '-fpatchable-function-entry=5';
  const plain = build(name, 'plain', sites, '');
  const log = join(folder, 'log.o');
  writeFileSync(join(folder, 'log.c'), LOG);
  must('log', shell(`gcc -O1 -fPIE -c log.c -o log.o`, folder));
  const logging = build(name, 'logging', `${sites} -pg -mfentry`, log);
  const before = runs(name, called(name, plain), {});
  return ['function', 'function_graph']
    .map((tracer) => [isUnchanged(name, plain, tracer, before), isAsLogged(name, logging, tracer)].every(Boolean))
    .every(Boolean);
}

interface Traced {
  readonly ran: readonly Ran[];
  readonly counts: ReadonlyMap<string, number>;
  readonly dropped: number;
}

function traced(name: string, program: string, tracer: string, env: Readonly<Record<string, string>>): Traced {
  const patched = `${program}.${tracer}`;
  must('record', shell(`${cli} record --tracer ${tracer} -o '${patched}' '${program}'`, folder));
  const dir = mkdtempSync(join(folder, `trace-${name}-`));
  const ran = runs(name, called(name, patched), { ELFTRACE_DIR: dir, ...env });
  const found = recorded(dir);
  rmSync(dir, { recursive: true });
  return { ran, ...found };
}

/** What the program prints, and how it ends, with its trace. */
function isUnchanged(name: string, plain: string, tracer: string, before: readonly Ran[]): boolean {
  const { ran, counts, dropped } = traced(name, plain, tracer, {});
  const isSame = before.every(({ status, text }, i) => status === ran[i]!.status && text === ran[i]!.text);
  console.log(
    `${name}, ${tracer}: ${before.length} runs, ${isSame ? 'output and status as before' : 'OUTPUT OR STATUS DIFFERS'}; ` +
      `${counts.size} functions, ${sumOf(counts)} calls, ${dropped} dropped`,
  );
  return isSame && dropped === 0;
}

/** Whether its calls are those that it logged itself. */
function isAsLogged(name: string, logging: string, tracer: string): boolean {
  const log = join(folder, `log-${name}`);
  rmSync(log, { force: true });
  const { counts, dropped } = traced(name, logging, tracer, { CALLS_LOG: log });
  const expected = logged(`${logging}.${tracer}`, log);
  rmSync(log, { force: true });
  const wrong = differences(expected, counts);
  console.log(
    `${name}, ${tracer}, with a log: ${counts.size} functions, ${sumOf(counts)} calls, ${dropped} dropped, ` +
      `${wrong.length} functions differ from the log of the same runs`,
  );
  for (const line of wrong.slice(0, 20)) console.log(`  ${line}`);
  return dropped === 0 && wrong.length === 0;
}

function sumOf(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((sum, each) => sum + each, 0);
}

soakAll(process.argv.slice(2), soak);
