/**
 * Programs for traces that programs write themselves, and an independent log of their calls: the
 * same sources with -finstrument-functions, whose hooks append the address of each function that
 * is entered to a file, one write for each.
 */
export interface NativeProgram {
  readonly name: string;
  readonly source: string;
  readonly language?: 'c++';
  readonly flags?: readonly string[];
}

const HEAD = `#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n#define OWN __attribute__((noinline))\nvolatile int sink;\n`;

/** Linked to the twins; compiled without hooks itself. */
export const LOG_SOURCE = `
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
extern const char __executable_start[];
static int file = -1;
static void log_call(void *function) {
  if (file < 0) {
    int low = open(getenv("TRUTH"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    file = fcntl(low, F_DUPFD_CLOEXEC, 200);
    close(low);
  }
  unsigned long at = (unsigned long)function - (unsigned long)__executable_start;
  if (write(file, &at, sizeof at) != sizeof at) abort();
}
void __cyg_profile_func_enter(void *function, void *site) { (void)site; log_call(function); }
void __cyg_profile_func_exit(void *function, void *site) { (void)function; (void)site; }
`;

export const nativePrograms: readonly NativeProgram[] = [
  {
    name: 'recursion and tail calls',
    source: `${HEAD}
OWN int odd(int n); OWN int even(int n) { sink++; return n == 0 ? 1 : odd(n - 1); }
OWN int odd(int n) { sink++; return n == 0 ? 0 : even(n - 1); }
OWN int deep(int n) { sink++; int r = n == 0 ? 0 : deep(n - 1); sink++; return r + 1; }
int fib(int n) { if (n < 2) return n; int a = fib(n - 1), b = fib(n - 2); sink++; return a + b; }
int main(void) { printf("%d %d %d\\n", even(1001), deep(100000), fib(15)); return 7; }`,
  },
  {
    name: 'pointers, callbacks, constructors, variable arguments',
    source: `${HEAD}#include <stdarg.h>
static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static OWN double sum(int count, ...) { va_list list; va_start(list, count); double s = 0;
  for (int i = 0; i < count; i++) s += va_arg(list, double); va_end(list); return s; }
struct big { long words[20]; };
static OWN struct big make(int n) { struct big b; for (int i = 0; i < 20; i++) b.words[i] = n + i; return b; }
static OWN long many(long a, long b, long c, long d, long e, long f, long g, double h) { return a + b + c + d + e + f + g + (long)h; }
__attribute__((constructor)) static void begin(void) { sink = 5; }
__attribute__((destructor)) static void end(void) { puts("bye"); }
static void at_end(void) { puts("atexit"); }
int main(void) { int v[50]; for (int i = 0; i < 50; i++) v[i] = i * 7919 % 50; qsort(v, 50, sizeof v[0], by_value); atexit(at_end);
  int (*volatile compare)(const void *, const void *) = by_value;
  printf("%d %g %ld %ld %d\\n", v[49], sum(3, 1.5, 2.5, 3.0), make(3).words[19], many(1, 2, 3, 4, 5, 6, 7, 8.5), compare(v, v + 1));
  return 0; }`,
  },
  {
    name: 'threads',
    flags: ['-pthread'],
    source: `${HEAD}#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; static long total;
static OWN void add(int n) { pthread_mutex_lock(&lock); total += n; pthread_mutex_unlock(&lock); }
static void *work(void *n) { for (int i = 0; i < 500; i++) add((int)(long)n); if ((long)n % 3 == 0) pthread_exit(n); return n; }
int main(void) { for (int round = 0; round < 4; round++) { pthread_t ids[5];
    for (long i = 0; i < 5; i++) pthread_create(&ids[i], 0, work, (void *)i);
    for (int i = 0; i < 5; i++) pthread_join(ids[i], 0); }
  printf("%ld\\n", total); return 0; }`,
  },
  {
    name: 'signal handlers, alternate stacks, longjmp',
    source: `${HEAD}#include <setjmp.h>\n#include <signal.h>\n#include <sys/time.h>
static jmp_buf back; static char room[65536]; static volatile int alarms;
static OWN int helper(int n) { sink += n; return n + 1; }
static void on_alarm(int n) { alarms = helper(alarms); (void)n; }
static void on_user(int n) { sink = helper(n); }
static OWN void jump(int n) { helper(n); if (n == 0) longjmp(back, 1); jump(n - 1); sink++; }
int main(void) { stack_t stack = { .ss_sp = room, .ss_size = sizeof room }; sigaltstack(&stack, 0);
  struct sigaction action = { .sa_handler = on_user, .sa_flags = SA_ONSTACK }; sigaction(SIGUSR1, &action, 0);
  action.sa_flags = 0; sigaction(SIGUSR2, &action, 0);
  for (volatile int i = 0; i < 20; i++) { raise(SIGUSR1); raise(SIGUSR2); if (!setjmp(back)) jump(50); }
  puts("done"); return sink & 1; }`,
  },
  {
    name: 'fork, vfork, exec, exit in children',
    source: `${HEAD}#include <spawn.h>\n#include <sys/wait.h>
extern char **environ; static OWN int work(int n) { sink += n; return n * 2; }
static OWN int child(int n) { for (int i = 0; i < 30; i++) work(i); return n; }
int main(int count, char **words) { if (count > 1) { child(1); return 5; }
  int sum = work(1), status;
  for (int i = 0; i < 3; i++) { pid_t pid = fork(); if (pid == 0) { if (fork() == 0) _exit(child(1)); wait(0); _exit(child(i)); }
    waitpid(pid, &status, 0); sum += WEXITSTATUS(status); }
  char *again[] = { words[0], "again", 0 }; pid_t pid;
  if (vfork() == 0) { work(3); execv("/proc/self/exe", again); _exit(9); } wait(&status); sum += WEXITSTATUS(status);
  if (posix_spawn(&pid, "/proc/self/exe", 0, 0, again, environ)) return 1; waitpid(pid, &status, 0); sum += WEXITSTATUS(status);
  printf("%d\\n", sum); fflush(stdout); execv("/proc/self/exe", again); return 9; }`,
  },
  {
    name: 'descriptors closed, another directory, a new name',
    source: `${HEAD}#include <sys/prctl.h>
static OWN int work(int n) { sink += n; return n; }
int main(void) { work(1); for (int i = 3; i < 200; i++) close(i); if (chdir("/")) return 1; prctl(PR_SET_NAME, "other");
  for (int i = 0; i < 70000; i++) work(i); printf("%d\\n", dup(1)); return 0; }`,
  },
  {
    name: 'coroutines',
    source: `${HEAD}#include <ucontext.h>
static ucontext_t home, away; static OWN int step(int n) { sink += n; return n; }
static void loop(void) { for (int i = 0; i < 40; i++) { step(i); swapcontext(&away, &home); } }
int main(void) { getcontext(&away); away.uc_stack.ss_sp = malloc(65536); away.uc_stack.ss_size = 65536; away.uc_link = &home;
  makecontext(&away, loop, 0); for (int i = 0; i < 40; i++) { step(100); swapcontext(&home, &away); } printf("%d\\n", sink); return 0; }`,
  },
  {
    name: 'exceptions',
    language: 'c++',
    source: `#include <cstdio>\n#include <stdexcept>\n#define OWN __attribute__((noinline))
static int freed; struct guard { OWN guard() { freed--; } OWN ~guard() { freed += 2; } };
namespace deep { OWN int down(int n) { guard g; if (n == 0) throw std::runtime_error("end"); return down(n - 1) + 1; } }
OWN int again(int n) { try { return deep::down(n); } catch (const std::exception &) { if (n & 1) throw; return n; } }
OWN int outer(int n) { try { return again(n); } catch (const std::runtime_error &error) { return error.what()[1]; } }
int main() { int sum = 0; for (int i = 0; i < 20; i++) sum += outer(i); std::printf("%d %d\\n", sum, freed); return sum & 63; }`,
  },
];

/** What emulators of user mode do: they make vfork a fork, and execute no program by themselves. */
export const forks: NativeProgram = {
  name: 'fork, exit in children',
  source: `#include <stdio.h>\n#include <sys/wait.h>\n#include <unistd.h>\n#define OWN __attribute__((noinline))
volatile int sink; static OWN int work(int n) { sink += n; return n * 2; }
static OWN int child(int n) { for (int i = 0; i < 30; i++) work(i); return n; }
int main(void) { int sum = work(1), status;
  for (int i = 0; i < 3; i++) { pid_t pid = fork(); if (pid == 0) { if (fork() == 0) _exit(child(1)); wait(0); _exit(child(i)); }
    waitpid(pid, &status, 0); sum += WEXITSTATUS(status); } printf("%d\\n", sum); return 0; }`,
};

/** What a compiler may do to calls is switched off, so that both builds make the same ones. */
export const SAME_CALLS = [
  '-O1', '-g0', '-fno-inline', '-fno-ipa-cp', '-fno-ipa-sra', '-fno-ipa-pure-const', '-fno-partial-inlining',
  '-foptimize-sibling-calls', '-w',
]; // prettier-ignore

/** Eight threads that call a traced function at the same moment, and nothing did before. */
export const TOGETHER = `#include <pthread.h>
#define OFF __attribute__((patchable_function_entry(0)))
volatile int sink; static pthread_barrier_t start; __attribute__((noinline)) void leaf(void) { sink++; }
OFF static void *work(void *p) { pthread_barrier_wait(&start); for (int i = 0; i < 20000; i++) leaf(); return p; }
OFF int main(void) { pthread_t ids[8]; pthread_barrier_init(&start, 0, 8);
  for (int i = 0; i < 8; i++) pthread_create(ids + i, 0, work, 0);
  for (int i = 0; i < 8; i++) pthread_join(ids[i], 0); return 3; }`;
export const TOGETHER_CALLS = 160_000;
