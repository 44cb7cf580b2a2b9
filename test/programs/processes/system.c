/* What is found about the system and its processes below /proc. Prints what Linux does on every
   machine. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "listing.h"
#include "saying.h"

/* The text of a file, "" and the error where there is none. */
static char *text(const char *path) {
  static char got[4][20000];
  static int next;
  char *to = got[next++ % 4];
  int fd = open(path, O_RDONLY), n = fd < 0 ? 0 : read(fd, to, 19999);
  to[n < 0 ? 0 : n] = 0;
  if (fd >= 0) close(fd);
  return to;
}
static int near(double a, double b) { return a - b < 2 && b - a < 2; }
static const char *row(const char *all, const char *key) {
  static char line[200];
  const char *at = strstr(all, key);
  if (!at) return "none";
  int n = strcspn(at, "\n");
  return memcpy(line, at, n), line[n] = 0, line;
}

static void names(void) {
  char own[30], link[100] = "", path[60];
  struct stat st;
  snprintf(own, sizeof own, "%d", getpid());
  say(has("/proc", own));
  const char *files[] = {"self", "thread-self", "uptime", "stat", "meminfo", "mounts"};
  for (int i = 0; i < 6; i++) say(has("/proc", files[i]));
  say(has("/proc/sys/kernel", "ostype") && has("/proc/sys", "kernel"));
  say(has("/proc/sys/kernel/random", "uuid"));
  say(has("/proc/self", "mountinfo") && has("/proc/self", "limits") && has("/proc/self", "status"));
  readlink("/proc/self", link, sizeof link);
  say(strcmp(link, own));
  say(lstat("/proc/self", &st) == 0 && S_ISLNK(st.st_mode));
  say(stat("/proc/self", &st) == 0 && S_ISDIR(st.st_mode));
  say(lstat("/proc/uptime", &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0444);
  memset(link, 0, sizeof link);
  readlink("/proc/mounts", link, sizeof link);
  puts(link);
  memset(link, 0, sizeof link);
  readlink("/proc/thread-self", link, sizeof link);
  snprintf(path, sizeof path, "%s/task/%s", own, own);
  say(strcmp(link, path));
  say(chdir("/proc/self"));
  say(strcmp(getcwd(link, sizeof link) + 6, own));
  say(atoi(text("stat")) == getpid());
  say(chdir("/"));
  say(open("/proc/999999999", O_RDONLY));
  say(open("/proc/999999999/stat", O_RDONLY));
  say(open("/proc/uptime", O_WRONLY));
  say(open("/proc/sys", O_RDONLY | O_DIRECTORY) >= 0);
  say(open("/proc/uptime", O_RDONLY | O_DIRECTORY));
  say(open("/proc/self/task/1/stat", O_RDONLY));
  say(access("/proc/uptime", R_OK));
}

static void times(void) {
  double up = -1, idle = -1, load[3];
  int running, all, last;
  struct sysinfo info;
  sysinfo(&info);
  printf("%d\n", sscanf(text("/proc/uptime"), "%lf %lf\n", &up, &idle));
  say(near(up, info.uptime));
  const char *loads = text("/proc/loadavg");
  printf("%d\n", sscanf(loads, "%lf %lf %lf %d/%d %d\n", load, load + 1, load + 2, &running, &all, &last));
  say(all > 0 && last >= getpid());
  long ticks[10];
  const char *stat = text("/proc/stat");
  long *t = ticks;
  printf("%d\n", sscanf(stat, "cpu  %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld\n",
                        t, t + 1, t + 2, t + 3, t + 4, t + 5, t + 6, t + 7, t + 8, t + 9));
  say(strncmp(strchr(stat, '\n') + 1, "cpu0 ", 5));
  say(near(atol(row(stat, "btime ") + 6) + up, time(0)));
  say(strstr(stat, "\nctxt ") && strstr(stat, "\nprocesses ") && strstr(stat, "\nprocs_running "));
  const char *memory = text("/proc/meminfo");
  unsigned long long total = (unsigned long long)info.totalram * info.mem_unit / 1024;
  say(strtoul(row(memory, "MemTotal:") + 9, 0, 10) == (unsigned long)total);
  say(strlen(row(memory, "MemTotal:")));
  say(strstr(memory, "\nMemFree: ") && strstr(memory, "\nMemAvailable: ") && strstr(memory, "\nSwapTotal: "));
}

/* How many, on the machines that there are. */
static void cpus(void) {
  say(strncmp(text("/proc/cpuinfo"), "processor\t: 0\n", 14));
  say(text("/sys/devices/system/cpu/online")[0]);
  say(text("/sys/devices/system/cpu/possible")[0]);
  say(has("/sys/devices/system/cpu", "present"));
  say(strncmp(text("/proc/vmstat"), "nr_free_pages ", 14));
  say(access("/proc/locks", R_OK));
}

static void kernel(void) {
  struct utsname u;
  uname(&u);
  say(strcspn(text("/proc/sys/kernel/ostype"), "\n") == strlen(u.sysname));
  say(!strncmp(text("/proc/sys/kernel/ostype"), u.sysname, strlen(u.sysname)));
  say(!strncmp(text("/proc/sys/kernel/osrelease"), u.release, strlen(u.release)));
  say(!strncmp(text("/proc/sys/kernel/hostname"), u.nodename, strlen(u.nodename)));
  say(!strncmp(text("/proc/sys/kernel/version"), u.version, strlen(u.version)));
  say(!strncmp(text("/proc/version"), "Linux version ", 14) && strstr(text("/proc/version"), u.release) != 0);
  say(atoi(text("/proc/sys/kernel/pid_max")) >= getpid());
  say(atoi(text("/proc/sys/fs/pipe-max-size")));
  say(atoi(text("/proc/sys/kernel/overflowuid")));
  say(atoi(text("/proc/sys/kernel/cap_last_cap")));
  const char *first = text("/proc/sys/kernel/random/uuid"), *second = text("/proc/sys/kernel/random/uuid");
  say(strlen(first));
  say(strcmp(first, second) != 0);
  printf("%c %c %d\n", first[14], first[8], strchr("89ab", first[19]) != 0);
  say(strcmp(text("/proc/sys/kernel/random/boot_id"), text("/proc/sys/kernel/random/boot_id")));
  say(strstr(text("/proc/filesystems"), "nodev\tproc\n") != 0);
}

static void mounts(void) {
  int roots = 0, procs = 0, id, parent, major, minor;
  char root[100], place[100];
  FILE *f = setmntent("/proc/self/mounts", "r");
  for (struct mntent *m; f && (m = getmntent(f));) {
    roots += !strcmp(m->mnt_dir, "/");
    procs += !strcmp(m->mnt_dir, "/proc") && !strcmp(m->mnt_type, "proc") && hasmntopt(m, "rw");
  }
  say(roots > 0 && procs > 0);
  if (f) endmntent(f);
  const char *line = text("/proc/self/mountinfo");
  say(sscanf(line, "%d %d %d:%d %99s %99s", &id, &parent, &major, &minor, root, place));
  say(strstr(line, " - proc proc rw") != 0);
  say(strcmp(text("/proc/mounts"), text("/proc/self/mounts")));
}

static void *another(void *none) {
  char path[60];
  snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)syscall(SYS_gettid));
  say(strcmp(text(path), "") != 0);
  say(strcmp(text("/proc/thread-self/comm"), text(path)));
  puts(row(text("/proc/self/status"), "Threads:"));
  return 0;
}
static void handler(int signal) {}
static void own(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, 0);
  signal(SIGUSR2, SIG_IGN);
  signal(SIGTERM, handler);
  umask(027);
  setpriority(PRIO_PROCESS, 0, 4);
  const char *status = text("/proc/self/status");
  const char *keys[] = {
    "Umask:", "State:", "TracerPid:", "SigPnd:", "SigBlk:", "SigIgn:", "CapEff:", "Threads:",
  };
  for (int i = 0; i < 8; i++) puts(row(status, keys[i]));
  say(strtoul(row(status, "SigCgt:") + 8, 0, 16) >> (SIGTERM - 1) & 1);
  say(atoi(strstr(status, "\nPid:") + 6) == getpid());
  say(atoi(strstr(status, "\nPPid:") + 7) == getppid());
  say(atoi(row(status, "VmRSS:") + 6) > 0);
  say(atoi(row(status, "VmSize:") + 7) >= atoi(row(status, "VmRSS:") + 6));
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  const char *files = row(text("/proc/self/limits"), "Max open files");
  say(atol(files + 26) == (long)limit.rlim_cur);
  say(strlen(files));
  say(strlen(row(text("/proc/self/limits"), "Limit  ")));
  long field[40] = {0};
  const char *at = strrchr(text("/proc/self/stat"), ')') + 2;
  for (int i = 2; i < 30; i++) { at = strchr(at, ' ') + 1; field[i] = atol(at); }
  printf("priority %ld nice %ld threads %ld\n", field[16], field[17], field[18]);
  say(field[2] == getppid() && field[3] == getpgrp() && field[4] == getsid(0));
  pthread_t t;
  pthread_create(&t, 0, another, 0);
  pthread_join(t, 0);
  pid_t c = begin();
  if (c == 0) { pause(); _exit(0); }
  struct timespec rest = {0, 20000000};
  nanosleep(&rest, 0);
  char name[20], path[60];
  snprintf(name, sizeof name, "%d", c);
  say(has("/proc", name));
  snprintf(path, sizeof path, "/proc/%d/stat", c);
  printf("%.2s\n", strrchr(text(path), ')') + 2);
  say(atoi(strrchr(text(path), ')') + 4) == getpid());
  kill(c, SIGKILL);
  say(end(c));
  say(has("/proc", name));
  say(open(path, O_RDONLY));
}

int main(void) {
  names();
  times();
  cpus();
  kernel();
  mounts();
  own();
  return 3;
}
