/* What a process may ask and change of how it and others stand: CPUs, disks, personality, what it
   shares, and calls that are kept for users with rights. Prints what Linux does on every machine. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "saying.h"

#define IO(class, data) ((class) << 13 | (data))
static long io_get(int which, int who) { return syscall(SYS_ioprio_get, which, who); }
static long io_set(int which, int who, int what) { return syscall(SYS_ioprio_set, which, who, what); }

/* Of others: a child, and one that is nobody's. */
static void cpus(void) {
  cpu_set_t set;
  pid_t parent = getpid(), c = begin();
  if (c == 0) {
    CPU_ZERO(&set);
    say(sched_getaffinity(parent, sizeof set, &set));
    say(CPU_ISSET(0, &set));
    say(sched_setaffinity(parent, sizeof set, &set));
    say(sched_getscheduler(parent));
    _exit(0 * fflush(stdout));
  }
  end(c);
  say(sched_getaffinity(c, sizeof set, &set));
  say(sched_getaffinity(-1, sizeof set, &set));
  struct sched_param none = {0};
  say(sched_getscheduler(1));
  say(sched_getparam(1, &none));
  say(sched_getaffinity(1, sizeof set, &set));
  say(sched_setaffinity(1, sizeof set, &set));
  say(sched_setscheduler(1, SCHED_OTHER, &none));
  say(getpriority(PRIO_PROCESS, 1) > 19);
  say(setpriority(PRIO_PROCESS, 1, 19));
  say(kill(1, 0));
  say(setpgid(1, 0));
}

static void disks(void) {
  say(io_get(1, 0));
  say(io_set(1, 0, IO(2, 5)));
  say(io_get(1, 0));
  say(io_get(1, getpid()));
  pid_t c = begin();
  if (c == 0) {
    say(io_get(1, 0));
    say(io_set(1, 0, IO(3, 0)));
    say(io_get(1, 0));
    say(io_get(1, getppid()));
    _exit(0 * fflush(stdout));
  }
  end(c);
  say(io_get(1, 0));
  say(io_set(1, 0, IO(1, 4)));
  say(io_set(1, 0, IO(0, 1)));
  say(io_set(1, 0, IO(4, 0)));
  say(io_set(4, 0, IO(2, 0)));
  say(io_get(0, 0));
  say(io_get(1, c));
  say(io_set(1, c, IO(2, 0)));
  say(io_set(1, 1, IO(2, 0)));
  setpgid(0, 0);
  say(io_get(2, 0));
  say(io_set(2, 0, IO(2, 7)));
  say(io_get(2, getpid()));
  say(io_get(2, 999999));
}

static void personalities(void) {
  say(personality(0xffffffff));
  say(personality(ADDR_NO_RANDOMIZE | STICKY_TIMEOUTS));
  say(personality(0xffffffff));
  pid_t c = begin();
  if (c == 0) { say(personality(0xffffffff)); _exit(0 * fflush(stdout)); }
  end(c);
  say(personality(0));
  say(personality(0xffffffff));
}

static void sharing(void) {
  say(unshare(0));
  say(unshare(CLONE_FS));
  say(unshare(CLONE_FILES | CLONE_SYSVSEM));
  say(unshare(CLONE_THREAD));
  say(unshare(CLONE_SIGHAND | CLONE_VM));
  say(unshare(CLONE_NEWNS));
  say(unshare(CLONE_NEWUTS | CLONE_NEWIPC | CLONE_FS));
  say(unshare(CLONE_NEWPID));
  say(unshare(CLONE_PARENT_SETTID));
  say(unshare(0x80));
  say(setns(-1, 0));
  int file = open("/", O_RDONLY);
  say(setns(file, CLONE_NEWNET));
  close(file);
}

static void rights(const char *dir) {
  char name[300];
  snprintf(name, sizeof name, "%s/none", dir);
  say(chroot(dir));
  say(chroot(name));
  say(chroot((char *)8));
  say(umount2(dir, 0));
  say(umount2(name, 0));
  say(umount2(dir, 0x400));
  say(mount("none", dir, "tmpfs", 0, 0));
  say(mount("none", name, "tmpfs", 0, 0));
  say(mount("none", (char *)8, "tmpfs", 0, 0));
  say(syscall(SYS_kexec_file_load, -1, -1, 0, 0, 0));
  say(syscall(SYS_restart_syscall));
}

static void others(void) {
  static char text[] = "of the parent", got[20];
  static int word = 5;
  struct iovec own = {got, sizeof text}, theirs[2] = {{text, 6}, {text + 6, sizeof text - 6}};
  say(process_vm_readv(getpid(), &own, 1, theirs, 2, 0));
  puts(got);
  int p[2];
  pipe(p);
  pid_t parent = getpid(), c = begin();
  if (c == 0) { char byte; word = 7; read(p[0], &byte, 1); _exit(word); }
  struct timespec t = {0, 20000000};
  nanosleep(&t, 0);
  int value = 0;
  struct iovec here = {&value, 4}, there = {&word, 4};
  say(process_vm_readv(c, &here, 1, &there, 1, 0));
  say(value);
  value = 9;
  say(process_vm_writev(c, &here, 1, &there, 1, 0));
  write(p[1], "", 1);
  say(end(c));
  say(process_vm_readv(c, &here, 1, &there, 1, 0));
  there.iov_base = (void *)8;
  say(process_vm_readv(parent, &here, 1, &there, 1, 0));
  say(process_vm_readv(parent, &here, 1, &there, 1, 1));
  say(process_vm_readv(parent, &here, 2000, &there, 1, 0));
  say(process_vm_readv(parent, &here, 0, &there, 1, 0));
  struct iovec partly[2] = {{&word, 4}, {(void *)8, 4}}, long_one = {got, 8};
  say(process_vm_readv(parent, &long_one, 1, partly, 2, 0));
  here.iov_base = (void *)8, there.iov_base = &word;
  say(process_vm_readv(parent, &here, 1, &there, 1, 0));
  close(p[0]), close(p[1]);
}

int main(int argc, char **argv) {
  cpus();
  disks();
  personalities();
  sharing();
  rights(argv[1]);
  others();
  return 3;
}
