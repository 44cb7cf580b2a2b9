/* What a process without rights may change of itself, and system calls that move bytes: answers and
 * what is there afterwards. The files are in the directory that is given. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *what, long value) { printf("%s: %ld", what, value); if (value == -1) printf(" %s", strerrorname_np(errno)); puts(""); }
#define S(call) (errno = 0, say(#call, (long)(call)))
#define RAW(...) syscall(__VA_ARGS__)

static void users(void) {
  long me = getuid(), group = getgid();
  S(RAW(SYS_setuid, me)); S(RAW(SYS_setuid, 0L)); S(RAW(SYS_setuid, -1L)); S(RAW(SYS_setgid, group)); S(RAW(SYS_setgid, 0L));
  S(RAW(SYS_setreuid, me, -1L)); S(RAW(SYS_setreuid, 0L, me)); S(RAW(SYS_setregid, -1L, group));
  S(RAW(SYS_setresuid, me, me, me)); S(RAW(SYS_setresuid, -1L, -1L, 0L)); S(RAW(SYS_setresgid, -1L, 0L, -1L));
  S(RAW(SYS_setfsuid, 0L) == me); S(RAW(SYS_setfsuid, -1L) == me); S(RAW(SYS_setfsgid, group) == group); S(RAW(SYS_setgroups, 0L, 0L));
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {{1, 2, 3}, {4, 5, 6}};
  S(RAW(SYS_capget, &header, data)); S(data[0].effective | data[0].permitted | data[1].permitted);
  S(RAW(SYS_capset, &header, data)); data[0].permitted = 1; S(RAW(SYS_capset, &header, data));
  header.pid = 999999; S(RAW(SYS_capget, &header, data)); S(RAW(SYS_capset, &header, data)); header.pid = -5; S(RAW(SYS_capget, &header, data));
  header.version = 7; S(RAW(SYS_capget, &header, data)); S(header.version == _LINUX_CAPABILITY_VERSION_3);
  header.version = 7; S(RAW(SYS_capget, &header, 0L)); S(RAW(SYS_capget, 16L, 0L));
}

static void codes(void) {
  int signal = 99;
  S(prctl(PR_SET_PDEATHSIG, SIGUSR1)); S(prctl(PR_GET_PDEATHSIG, &signal)); S(signal); S(prctl(PR_SET_PDEATHSIG, 65)); S(prctl(PR_GET_PDEATHSIG, 16L)); S(prctl(PR_SET_PDEATHSIG, 0));
  S(prctl(PR_GET_KEEPCAPS)); S(prctl(PR_SET_KEEPCAPS, 1)); S(prctl(PR_GET_KEEPCAPS)); S(prctl(PR_SET_KEEPCAPS, 2));
  S(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)); S(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)); S(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  S(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)); S(prctl(PR_CAPBSET_READ, 99)); S(prctl(PR_CAPBSET_DROP, 3));
  S(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 3, 0, 0)); S(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 3, 0, 0));
  S(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)); S(prctl(PR_CAP_AMBIENT, 9, 0, 0, 0)); S(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 99, 0, 0));
  S(prctl(PR_SET_TIMERSLACK + 100000, 1)); S(prctl(PR_GET_TIMERSLACK));
}

static volatile char came;
static void handler(int signal) { came = signal; }
static void inherited(void) {
  int told[2]; pipe(told);
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGUSR2, &action, 0);
  int child = fork();
  if (!child) {
    int signal = -1;
    prctl(PR_GET_PDEATHSIG, &signal);
    if (fork() == 0) { prctl(PR_SET_PDEATHSIG, SIGUSR2); write(told[1], "r", 1); for (int i = 0; i < 3000 && !came; i++) usleep(1000); write(told[1], (char *)&came, 1); _exit(0); }
    char ready; read(told[0], &ready, 1);
    _exit(signal + 10 * getpriority(PRIO_PROCESS, 0) + 100 * prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
  }
  int status; char signal = 0;
  waitpid(child, &status, 0);
  S(WEXITSTATUS(status));
  read(told[0], &signal, 1);
  S(signal == SIGUSR2);
}

static void priorities(void) {
  struct sched_param zero = {0}, one = {1}, found = {9};
  S(getpriority(PRIO_PROCESS, 0)); S(setpriority(PRIO_PROCESS, 0, 5)); S(getpriority(PRIO_PROCESS, getpid())); S(setpriority(PRIO_PROCESS, 0, 4));
  S(nice(7)); S(nice(-1)); S(nice(100)); S(getpriority(PRIO_PROCESS, 999999)); S(getpriority(7, 0)); S(setpriority(7, 0, 0));
  S(sched_getscheduler(0)); S(sched_getscheduler(-1)); S(sched_getscheduler(999999)); S(sched_getparam(0, &found)); S(found.sched_priority);
  S(sched_setparam(0, &zero)); S(sched_setparam(0, &one)); S(sched_setparam(0, 0)); S(sched_setscheduler(0, SCHED_FIFO, &one)); S(sched_setscheduler(0, SCHED_FIFO, &zero));
  S(sched_setscheduler(0, SCHED_BATCH, &zero)); S(sched_getscheduler(0)); S(sched_setscheduler(0, 77, &zero));
  S(sched_setscheduler(0, SCHED_OTHER, &zero));
  S(sched_get_priority_max(SCHED_RR)); S(sched_get_priority_min(SCHED_FIFO)); S(sched_get_priority_max(SCHED_OTHER)); S(sched_get_priority_max(4)); S(sched_get_priority_min(-1));
  struct { unsigned size, policy; unsigned long long flags; int nice; unsigned priority; unsigned long long times[3]; unsigned char more[16]; } given = {0}, of = {0};
#define ATTR(...) given = (__typeof__(given)){__VA_ARGS__}; S(RAW(SYS_sched_setattr, 0L, &given, 0L))
  S(RAW(SYS_sched_getattr, 0L, &of, 48L, 0L)); S(of.size); S(of.policy); S(of.flags); S(of.nice); S(of.priority);
  S(RAW(SYS_sched_getattr, 0L, &of, 47L, 0L)); S(RAW(SYS_sched_getattr, 0L, &of, 4097L, 0L)); S(RAW(SYS_sched_getattr, 0L, &of, 48L, 1L)); S(RAW(SYS_sched_getattr, 999999L, &of, 48L, 0L)); S(RAW(SYS_sched_getattr, 0L, 0L, 48L, 0L)); S(RAW(SYS_sched_getattr, 0L, 16L, 48L, 0L));
  S(RAW(SYS_sched_getattr, 0L, &of, 64L, 0L)); S(of.size);
  ATTR(48, SCHED_OTHER, 0, 19); ATTR(0, SCHED_BATCH, 0, 19); S(sched_getscheduler(0)); ATTR(48, SCHED_OTHER, 0, 3); ATTR(48, SCHED_FIFO, 0, 0, 1); ATTR(48, SCHED_RR, 0, 0, 0); ATTR(48, 77); ATTR(48, -1);
  ATTR(48, SCHED_OTHER, 0, 19, 1); ATTR(48, SCHED_OTHER, 0x1000, 19); ATTR(48, SCHED_OTHER, 0x18, 0); ATTR(40); S(given.size); ATTR(4097); ATTR(64, SCHED_OTHER, 0, 19); ATTR(64, SCHED_OTHER, 0, 19, 0, {0}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  S(RAW(SYS_sched_setattr, 0L, 0L, 0L)); S(RAW(SYS_sched_setattr, 0L, 16L, 0L)); S(RAW(SYS_sched_setattr, 999999L, &given, 0L)); S(RAW(SYS_sched_setattr, 0L, &given, 1L));
  S(sched_getscheduler(0)); S(getpriority(PRIO_PROCESS, 0));
  cpu_set_t set; CPU_ZERO(&set); S(sched_setaffinity(0, sizeof set, &set)); CPU_SET(0, &set); S(sched_setaffinity(0, sizeof set, &set)); S(sched_setaffinity(999999, sizeof set, &set));
}

static void limits(void) {
  struct rlimit core = {0, RLIM_INFINITY}, got;
  getrlimit(RLIMIT_CORE, &core);
  core.rlim_cur = 0;
  S(setrlimit(RLIMIT_CORE, &core)); S(getrlimit(RLIMIT_CORE, &got)); S(got.rlim_cur); S(got.rlim_max == core.rlim_max);
  core.rlim_max = 4096, core.rlim_cur = 4096; S(setrlimit(RLIMIT_CORE, &core)); core.rlim_max = 8192; S(setrlimit(RLIMIT_CORE, &core));
  core.rlim_cur = 5000; core.rlim_max = 4096; S(setrlimit(RLIMIT_CORE, &core)); S(prlimit(0, RLIMIT_CORE, 0, &got)); S(got.rlim_cur); S(got.rlim_max);
  S(setrlimit(16, &core)); S(prlimit(999999, RLIMIT_CORE, 0, &got)); S(RAW(SYS_prlimit64, 0L, (long)RLIMIT_CORE, 16L, 0L));
  int child = fork(), status;
  if (!child) { getrlimit(RLIMIT_CORE, &got); _exit(got.rlim_cur / 64); }
  waitpid(child, &status, 0); S(WEXITSTATUS(status));
}

static char path[512];
static int in(const char *folder, const char *name, int flags) { snprintf(path, sizeof path, "%s/%s", folder, name); return open(path, flags, 0600); }
static void show(const char *what, int fd) {
  char text[64] = ""; long n = pread(fd, text, sizeof text - 1, 0);
  for (int i = 0; i < n; i++) if (!text[i]) text[i] = '.';
  printf("%s: %ld %s\n", what, n, text);
}

static void transfers(const char *folder) {
  int a = in(folder, "a", O_RDWR | O_CREAT | O_TRUNC), b = in(folder, "b", O_RDWR | O_CREAT | O_TRUNC), only = in(folder, "a", O_RDONLY), pipes[2];
  if (a < 0 || b < 0) { puts("no files"); return; }
  write(a, "0123456789abcdef", 16); lseek(a, 2, SEEK_SET);
  off_t offset = 10; loff_t from = 4, to = 1;
  S(sendfile(b, a, &offset, 100)); S(offset); S(lseek(a, 0, SEEK_CUR)); S(sendfile(b, a, 0, 3)); S(lseek(a, 0, SEEK_CUR)); show("b", b);
  S(sendfile(b, 99, 0, 3)); S(sendfile(only, a, 0, 3)); pipe(pipes); S(sendfile(a, pipes[0], 0, 3)); offset = -1; S(sendfile(b, a, &offset, 3)); S(sendfile(b, a, (void *)16, 3));
  offset = 0; S(sendfile(pipes[1], a, &offset, 16)); char text[32] = ""; S(read(pipes[0], text, 31)); puts(text);
  S(copy_file_range(a, &from, b, &to, 5, 0)); S(from); S(to); show("b", b); S(lseek(b, 0, SEEK_SET)); S(copy_file_range(only, 0, b, 0, 1000, 0)); show("b", b); S(lseek(only, 0, SEEK_CUR));
  S(copy_file_range(a, &from, a, &from, 5, 0)); S(copy_file_range(a, 0, b, 0, 5, 1)); S(copy_file_range(a, 0, only, 0, 5, 0)); S(copy_file_range(pipes[0], 0, b, 0, 5, 0));
  struct iovec two[2] = {{text, 3}, {text + 10, 20}};
  memset(text, '-', 31); S(preadv(a, two, 2, 5)); text[31] = 0; puts(text); memcpy(text, "WXYZWXYZWXYZWXYZ", 17); S(pwritev(b, two, 1, 30)); show("b", b); S(preadv(a, two, 2, -1)); S(preadv(pipes[0], two, 2, 0));
  S(preadv2(a, two, 1, -1, 0)); S(pwritev2(b, two, 1, 2, 0)); show("b", b);
  S(fallocate(b, 0, 30, 20)); S(lseek(b, 0, SEEK_END)); S(fallocate(b, FALLOC_FL_KEEP_SIZE, 30, 200)); S(lseek(b, 0, SEEK_END)); S(fallocate(b, 0, -1, 20)); S(fallocate(b, 0, 0, 0)); S(fallocate(only, 0, 0, 1)); S(fallocate(pipes[1], 0, 0, 1));
  S(readahead(a, 0, 10)); S(readahead(pipes[0], 0, 10)); S(syncfs(a)); S(syncfs(99)); sync(); S(sync_file_range(a, 0, 0, 0)); S(sync_file_range(pipes[0], 0, 0, 0));
  int count = -1, on = 1;
  lseek(a, 5, SEEK_SET); S(ioctl(a, FIONREAD, &count)); S(count); write(pipes[1], "four", 4); S(ioctl(pipes[0], FIONREAD, &count)); S(count); S(ioctl(pipes[0], FIONREAD, 16L));
  S(ioctl(a, FIOCLEX)); S(fcntl(a, F_GETFD)); S(ioctl(a, FIONCLEX)); S(fcntl(a, F_GETFD)); S(ioctl(pipes[0], FIONBIO, &on)); read(pipes[0], text, 4); S(read(pipes[0], text, 4));
  static char second[512];
  S(link(path, strcat(strcpy(second, folder), "/second"))); struct stat one, other; stat(path, &one), stat(second, &other); S(one.st_ino == other.st_ino); S(one.st_nlink); S(link(path, second)); S(unlink(path)); stat(second, &other); S(other.st_nlink); show("second", open(second, O_RDONLY)); S(link(path, "/none"));
  S(linkat(AT_FDCWD, second, AT_FDCWD, path, 1)); S(unlink(second)); S(chown(folder, -1, -1)); S(lchown(folder, getuid(), getgid())); S(chown(folder, 0, 0));
}

static void accesses(const char *folder) {
  char text[512]; snprintf(text, sizeof text, "%s/c", folder); unlink(text);
  int fd = in(folder, "c", O_RDWR | O_CREAT | O_TRUNC);
  struct stat status;
  fchmod(fd, 0200); fstat(fd, &status); S(status.st_mode & 0777);
  snprintf(text, sizeof text, "%s/link", folder); unlink(text); symlink("nowhere", text);
  for (int mode = 0; mode < 9; mode++) S(RAW(SYS_faccessat2, -100L, path, (long)mode, 0L));
  S(RAW(SYS_faccessat2, -100L, path, 2L, 0x200L)); S(RAW(SYS_faccessat2, -100L, text, 4L, 0L)); S(RAW(SYS_faccessat2, -100L, text, 4L, 0x100L));
  S(RAW(SYS_faccessat2, (long)fd, "", 2L, 0x1000L)); S(RAW(SYS_faccessat2, (long)fd, "", 4L, 0x1200L)); S(RAW(SYS_faccessat2, (long)fd, "", 2L, 0L)); S(RAW(SYS_faccessat2, -100L, path, 2L, 0x400L));
  S(RAW(SYS_faccessat, -100L, path, 4L)); S(RAW(SYS_faccessat, -100L, path, 8L)); S(RAW(SYS_faccessat, -100L, "/", 5L));
}

static void sockets(void) {
  int two[2], none[2], loose = socket(AF_UNIX, SOCK_STREAM, 0);
  pipe(none);
  struct sockaddr_un name = {.sun_family = 99};
  socklen_t size = sizeof name; int value = -1;
  socketpair(AF_UNIX, SOCK_STREAM, 0, two);
  S(getsockname(two[0], (void *)&name, &size)); S(size); S(name.sun_family); size = 1; S(getpeername(two[1], (void *)&name, &size)); S(size);
  S(getpeername(loose, (void *)&name, &size)); S(getsockname(none[0], (void *)&name, &size)); S(getsockname(77, (void *)&name, &size)); S(getpeername(two[0], (void *)&name, (void *)16));
  size = 4; S(getsockopt(two[0], SOL_SOCKET, SO_TYPE, &value, &size)); S(value); S(getsockopt(two[0], SOL_SOCKET, SO_ERROR, &value, &size)); S(value); S(getsockopt(two[0], SOL_SOCKET, SO_DOMAIN, &value, &size)); S(value);
  S(getsockopt(two[0], 99, 1, &value, &size)); size = 2; S(getsockopt(two[0], SOL_SOCKET, SO_ACCEPTCONN, &value, &size)); S(size);
  char one[8] = "hell", rest[8] = "o there"; struct iovec pieces[2] = {{one, 4}, {rest, 8}}; struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2}; char control[64];
  S(sendmsg(two[0], &message, 0)); memset(one, 0, 8); memset(rest, 0, 8); message.msg_control = control; message.msg_controllen = 64; message.msg_flags = 99;
  S(recvmsg(two[1], &message, 0)); printf("%.4s%s\n", one, rest); S(message.msg_controllen); S(message.msg_flags); S(message.msg_namelen);
  S(recvmsg(none[0], &message, 0)); S(sendmsg(two[0], (void *)16, 0));
}

static void locked(void) {
  char *p = mmap(0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  S(mlock(p, 4096)); S(mlock(p + 1, 4096)); S(mlock2(p, 4096, 9)); S(munlock(p, 8192)); munmap(p, 8192); S(mlock(p, 4096)); S(munlock(p, 4096)); S(mlockall(0)); S(mlockall(64)); S(munlockall());
}

int main(int argc, char **argv) {
  setvbuf(stdout, 0, _IONBF, 0);
  if (argc < 2) return 1;
  users(); codes(); priorities(); inherited(); limits(); transfers(argv[1]); accesses(argv[1]); sockets(); locked();
  return 4;
}
