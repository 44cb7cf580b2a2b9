/** Sandboxes of system calls, which kill or answer EPERM: what puts a program into one. */
import { compile } from './native-run.js';

/**
 * `cage ACTION CALLS PROGRAM ARGS`: runs a program behind a filter of system calls. `kill` and
 * `refuse` are about the calls with these numbers, `only` kills for all others.
 */
const CAGE = `#include <linux/filter.h>\n#include <linux/seccomp.h>\n#include <stdlib.h>\n#include <string.h>
#include <sys/prctl.h>\n#include <unistd.h>
#define ADD(...) rules[count++] = (struct sock_filter)__VA_ARGS__
int main(int argc, char **words) { struct sock_filter rules[200]; int count = 0, is_only = !strcmp(words[1], "only");
  unsigned action = is_only ? SECCOMP_RET_ALLOW : strcmp(words[1], "kill") ? SECCOMP_RET_ERRNO | 1 : SECCOMP_RET_KILL_PROCESS;
  ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)); (void)argc;
  for (char *word = strtok(words[2], ","); word; word = strtok(0, ",")) {
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(word), 0, 1)); ADD(BPF_STMT(BPF_RET | BPF_K, action)); }
  ADD(BPF_STMT(BPF_RET | BPF_K, is_only ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW));
  struct sock_fprog filter = { (unsigned short)count, rules };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &filter)) return 99;
  execvp(words[3], words + 3); return 98; }`;

let cage: string | undefined;

/** Words in front of a program of this machine, x86-64, that runs in such a sandbox. */
export function caged(action: 'kill' | 'refuse' | 'only', calls: readonly number[]): readonly string[] {
  cage ??= compile(CAGE, ['-O1']);
  return [cage, action, calls.join(',')];
}

/** System calls of x86-64, by their numbers. */
export const CALLS = { fallocate: 285, socket: 41 } as const;

/** What the dynamic loader calls of glibc and a program that prints: nothing that makes files. */
export const LOADER_CALLS = [
  0, 1, 3, 5, 9, 10, 11, 12, 17, 21, 59, 89, 158, 218, 231, 257, 262, 273, 302, 318, 334, 439,
] as const;

/** Whether a program may be the first one of a namespace of processes here. */
export const NAMESPACE = ['unshare', '-rpf', '--mount-proc'] as const;
