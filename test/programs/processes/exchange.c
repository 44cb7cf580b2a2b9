/* Memory, semaphores and messages of System V; sockets of IPv6; several messages in one call; the
   interface lo. Prints what Linux does on every machine. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "saying.h"

static void rest(int milliseconds) { struct timespec t = {0, milliseconds * 1000000L}; nanosleep(&t, 0); }
union semun { int val; struct semid_ds *buf; unsigned short *array; };
static key_t some_key;

static void memory(void) {
  struct shmid_ds s;
  int id = shmget(IPC_PRIVATE, 10000, IPC_CREAT | 0640);
  say(id >= 0);
  int *p = shmat(id, 0, 0);
  say(p != (void *)-1);
  p[0] = 5;
  say(shmctl(id, IPC_STAT, &s));
  printf("%ld %ld %o %d %d %d\n", (long)s.shm_segsz, (long)s.shm_nattch, s.shm_perm.mode, s.shm_cpid == getpid(), s.shm_lpid == getpid(), s.shm_atime != 0 || s.shm_dtime == 0);
  pid_t c = begin();
  if (c == 0) {
    shmctl(id, IPC_STAT, &s);
    p[1] = 10 * s.shm_nattch + p[0];
    _exit(shmdt(p) == 0 && shmdt(p) < 0 ? 3 : 4);
  }
  say(end(c));
  say(p[1]);
  say(shmctl(id, IPC_RMID, 0));
  say(shmctl(id, IPC_STAT, &s));
  printf("%ld %o\n", (long)s.shm_nattch, s.shm_perm.mode & 01777);
  say(shmdt(p));
  say(shmctl(id, IPC_STAT, &s));
  say(shmat(id, 0, 0));
  id = shmget(some_key, 4096, IPC_CREAT | IPC_EXCL | 0600);
  say(id >= 0);
  say(shmget(some_key, 4096, IPC_CREAT | IPC_EXCL | 0600));
  say(shmget(some_key, 100, 0) == id);
  say(shmget(some_key, 5000, 0));
  say(shmget(some_key + 1, 5000, 0));
  say(shmget(some_key + 1, 0, IPC_CREAT));
  char *q = shmat(id, 0, 0);
  strcpy(q, "kept");
  say(shmdt(q));
  say(shmdt(q + 1));
  q = shmat(id, 0, SHM_RDONLY);
  puts(q);
  say(shmdt(q));
  s.shm_perm.uid = getuid(), s.shm_perm.gid = getgid(), s.shm_perm.mode = 0400;
  say(shmctl(id, IPC_SET, &s));
  say(shmctl(id, IPC_STAT, &s));
  printf("%o\n", s.shm_perm.mode);
  say(shmat(-1, 0, 0));
  say(shmat(id, (void *)1, SHM_RDONLY));
  say(shmctl(id, IPC_RMID, 0));
  say(shmctl(id, IPC_RMID, 0));
}

static int change(int id, int number, int by, int flags) { struct sembuf b = {number, by, flags}; return semop(id, &b, 1); }
static void nothing(int s) { (void)s; }
static void semaphores(void) {
  int id = semget(IPC_PRIVATE, 3, IPC_CREAT | 0600);
  struct semid_ds s;
  unsigned short all[3] = {4, 0, 7};
  say(id >= 0);
  say(semctl(id, 0, SETALL, (union semun){.array = all}));
  say(semctl(id, 2, GETVAL));
  say(semctl(id, 1, SETVAL, (union semun){.val = 2}));
  say(semctl(id, 1, SETVAL, (union semun){.val = 40000}));
  say(semctl(id, 3, GETVAL));
  say(change(id, 0, -3, 0));
  say(change(id, 0, -3, IPC_NOWAIT));
  say(change(id, 0, 32767, 0));
  say(change(id, 3, 1, 0));
  say(change(id, 0, 0, IPC_NOWAIT));
  say(change(id, 0, -1, 0));
  say(change(id, 0, 0, IPC_NOWAIT));
  struct sembuf both[2] = {{1, -1, 0}, {0, -1, IPC_NOWAIT}};
  say(semop(id, both, 2));
  say(semctl(id, 1, GETVAL));
  say(semctl(id, 0, GETALL, (union semun){.array = all}));
  printf("%d %d %d\n", all[0], all[1], all[2]);
  say(semctl(id, 0, IPC_STAT, (union semun){.buf = &s}));
  printf("%ld %o\n", (long)s.sem_nsems, s.sem_perm.mode);
  pid_t c = begin();
  if (c == 0) _exit(change(id, 0, -2, 0) == 0 ? 5 : 6);
  rest(20);
  printf("%d %d\n", semctl(id, 0, GETNCNT), semctl(id, 0, GETZCNT));
  say(change(id, 0, 1, 0));
  rest(20);
  say(semctl(id, 0, GETVAL));
  say(change(id, 0, 1, 0));
  say(end(c));
  say(semctl(id, 0, GETPID) == c);
  c = begin();
  if (c == 0) _exit(change(id, 2, -5, SEM_UNDO) + semctl(id, 2, GETVAL));
  say(end(c));
  say(semctl(id, 2, GETVAL));
  struct timespec soon = {0, 30000000};
  struct sembuf one = {0, -5, 0};
  say(semtimedop(id, &one, 1, &soon));
  signal(SIGALRM, nothing);
  c = begin();
  if (c == 0) { rest(20); kill(getppid(), SIGALRM); _exit(0); }
  say(change(id, 0, -5, 0));
  say(end(c));
  c = begin();
  if (c == 0) { say(change(id, 0, -5, 0)); fflush(stdout); _exit(0); }
  rest(20);
  say(semctl(id, 0, IPC_RMID));
  say(end(c));
  say(change(id, 0, 1, 0));
  say(semop(id, both, 0));
  say(semop(id, both, 1000));
  say(semget(some_key, 0, IPC_CREAT));
  say(semget(some_key, -1, IPC_CREAT));
}

struct text { long type; char text[100]; };
static void messages(void) {
  int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
  struct text m = {3, "three"};
  struct msqid_ds s;
  say(id >= 0);
  say(msgsnd(id, &m, 6, 0));
  m.type = 1; strcpy(m.text, "one");
  say(msgsnd(id, &m, 4, 0));
  m.type = 2; strcpy(m.text, "two and more");
  say(msgsnd(id, &m, 13, 0));
  m.type = 0;
  say(msgsnd(id, &m, 4, 0));
  say(msgsnd(id, &m, 9000, 0));
  say(msgctl(id, IPC_STAT, &s));
  printf("%ld %ld %ld %d %d\n", (long)s.msg_qnum, (long)s.__msg_cbytes, (long)s.msg_qbytes, s.msg_lspid == getpid(), s.msg_lrpid);
  say(msgrcv(id, &m, 100, -2, 0)); printf("%ld %s\n", m.type, m.text);
  say(msgrcv(id, &m, 3, 2, IPC_NOWAIT));
  say(msgrcv(id, &m, 3, 2, MSG_NOERROR)); printf("%ld %.3s\n", m.type, m.text);
  say(msgrcv(id, &m, 100, 7, IPC_NOWAIT));
  say(msgrcv(id, &m, 100, 3, IPC_NOWAIT | MSG_EXCEPT));
  say(msgrcv(id, &m, 100, 0, 0)); printf("%ld %s\n", m.type, m.text);
  pid_t c = begin();
  if (c == 0) {
    struct text got;
    long size = msgrcv(id, &got, 100, 9, 0);
    printf("%ld %ld %s\n", size, got.type, got.text);
    fflush(stdout);
    _exit(2);
  }
  rest(20);
  m.type = 8; strcpy(m.text, "other");
  say(msgsnd(id, &m, 6, 0));
  m.type = 9; strcpy(m.text, "awaited");
  say(msgsnd(id, &m, 8, 0));
  say(end(c));
  static struct { long type; char bytes[8000]; } large = {1, ""};
  say(msgsnd(id, &large, 8000, 0));
  say(msgsnd(id, &large, 8000, 0));
  say(msgsnd(id, &large, 8000, IPC_NOWAIT));
  s.msg_qbytes = 16385;
  c = begin();
  if (c == 0) { say(msgsnd(id, &large, 8000, 0)); fflush(stdout); _exit(1); }
  rest(20);
  say(msgctl(id, IPC_RMID, 0));
  say(end(c));
  say(msgrcv(id, &m, 100, 0, IPC_NOWAIT));
  say(msgget(some_key, 0));
}

static struct sockaddr_in6 six(const char *text, int port) {
  struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  inet_pton(AF_INET6, text, &a.sin6_addr);
  return a;
}
static int name(int s, int (*of)(int, struct sockaddr *, socklen_t *), int port) {
  struct sockaddr_in6 a;
  char text[64];
  socklen_t size = sizeof a;
  memset(&a, 0, sizeof a);
  if (of(s, (void *)&a, &size) < 0) { printf("none %d\n", errno); return 0; }
  inet_ntop(a.sin6_family, a.sin6_family == AF_INET6 ? (void *)&a.sin6_addr : &((struct sockaddr_in *)&a)->sin_addr, text, sizeof text);
  int is = ntohs(a.sin6_port);
  printf("%d %s %d %d\n", a.sin6_family == AF_INET6, text, size, port < 0 ? is != 0 : is == port);
  return is;
}
static void addresses(void) {
  char bytes[100] = "";
  int on = 1, value = 0;
  socklen_t size = sizeof value;
  int l = socket(AF_INET6, SOCK_STREAM, 0), c = socket(AF_INET6, SOCK_STREAM, 0), d = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in6 a = six("::1", 0), any = six("::", 0);
  name(l, getsockname, 0);
  say(bind(l, (void *)&a, 20));
  say(bind(l, (void *)&a, sizeof a));
  int port = name(l, getsockname, -1);
  say(listen(l, 5));
  a = six("::1", port);
  say(connect(c, (void *)&a, sizeof a));
  name(c, getpeername, port);
  int e = accept(l, 0, 0);
  name(e, getsockname, port);
  name(e, getpeername, -1);
  say(write(c, "hello", 5));
  say(read(e, bytes, 100));
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  say(connect(d, (void *)&four, sizeof four));
  say(getsockopt(l, SOL_SOCKET, SO_DOMAIN, &value, &size)); printf("%d\n", value);
  close(l), close(e), close(c), close(d);
  /* All addresses are those of IPv4, too. */
  l = socket(AF_INET6, SOCK_STREAM, 0), d = socket(AF_INET, SOCK_STREAM, 0);
  say(getsockopt(l, IPPROTO_IPV6, IPV6_V6ONLY, &value, &size)); printf("%d\n", value);
  say(bind(l, (void *)&any, sizeof any));
  port = name(l, getsockname, -1);
  say(setsockopt(l, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
  say(listen(l, 5));
  four.sin_port = htons(port);
  say(connect(d, (void *)&four, sizeof four));
  e = accept(l, 0, 0);
  name(e, getsockname, port);
  name(e, getpeername, -1);
  name(d, getpeername, port);
  c = socket(AF_INET6, SOCK_STREAM, 0);
  a = six("::ffff:127.0.0.1", port);
  say(connect(c, (void *)&a, sizeof a));
  name(c, getsockname, -1);
  int f = socket(AF_INET, SOCK_STREAM, 0);
  say(bind(f, (void *)&four, sizeof four));
  close(l), close(e), close(c), close(d), close(f);
  l = socket(AF_INET6, SOCK_STREAM, 0), f = socket(AF_INET, SOCK_STREAM, 0);
  say(setsockopt(l, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
  say(bind(l, (void *)&any, sizeof any));
  port = name(l, getsockname, -1);
  four.sin_port = htons(port);
  say(bind(f, (void *)&four, sizeof four));
  say(connect(socket(AF_INET6, SOCK_STREAM, 0), (void *)&four, sizeof four));
  close(l), close(f);
  int u = socket(AF_INET6, SOCK_DGRAM, 0), v = socket(AF_INET6, SOCK_DGRAM, 0);
  a = six("::1", 0);
  say(bind(u, (void *)&a, sizeof a));
  port = name(u, getsockname, -1);
  a = six("::1", port);
  say(sendto(v, "datagram", 8, 0, (void *)&a, sizeof a));
  size = sizeof any;
  say(recvfrom(u, bytes, 100, 0, (void *)&any, &size));
  printf("%d %d\n", size, any.sin6_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&any.sin6_addr));
  say(connect(v, (void *)&a, sizeof a));
  name(v, getpeername, port);
  name(v, getsockname, -1);
  say(socket(AF_INET6, SOCK_SEQPACKET, 0));
}

static void batches(void) {
  int two[2];
  char bytes[4][10];
  struct iovec parts[4];
  struct mmsghdr m[4];
  memset(m, 0, sizeof m);
  socketpair(AF_UNIX, SOCK_DGRAM, 0, two);
  for (int i = 0; i < 4; i++) {
    sprintf(bytes[i], "number %d", i);
    parts[i] = (struct iovec){bytes[i], 6 + i};
    m[i].msg_hdr.msg_iov = parts + i, m[i].msg_hdr.msg_iovlen = 1;
  }
  say(sendmmsg(two[0], m, 3, 0));
  printf("%u %u %u %u\n", m[0].msg_len, m[1].msg_len, m[2].msg_len, m[3].msg_len);
  memset(bytes, 0, sizeof bytes);
  for (int i = 0; i < 4; i++) parts[i].iov_len = 7;
  say(recvmmsg(two[1], m, 4, MSG_WAITFORONE, 0));
  for (int i = 0; i < 4; i++) printf("%u %x %.9s\n", m[i].msg_len, m[i].msg_hdr.msg_flags, bytes[i]);
  say(recvmmsg(two[1], m, 4, MSG_DONTWAIT, 0));
  pid_t c = begin();
  if (c == 0) { for (int i = 0; i < 2; i++) { rest(10); write(two[0], "late", 4 - i); } _exit(0); }
  say(recvmmsg(two[1], m, 2, 0, 0));
  printf("%u %u\n", m[0].msg_len, m[1].msg_len);
  say(end(c));
  struct timespec none = {0, 0};
  say(write(two[0], "a", 1)); say(write(two[0], "b", 1));
  say(recvmmsg(two[1], m, 4, 0, &none));
  say(recvmmsg(two[1], m, 4, MSG_DONTWAIT, 0));
  say(sendmmsg(two[0], m, 0, 0));
  say(sendmmsg(two[0], (void *)16, 2, 0));
  say(sendmmsg(-1, m, 2, 0));
  int none_of[2];
  pipe(none_of);
  say(recvmmsg(none_of[0], m, 2, 0, 0));
  close(two[1]);
  say(sendmmsg(two[0], m, 2, 0));
  socketpair(AF_UNIX, SOCK_STREAM, 0, two);
  say(sendmmsg(two[0], m, 2, 0));
  parts[0].iov_len = 3;
  say(recvmmsg(two[1], m, 3, MSG_WAITFORONE, 0));
  printf("%u %u %u\n", m[0].msg_len, m[1].msg_len, m[2].msg_len);
}

static void interfaces(void) {
  struct ifaddrs *all, *i;
  char text[64];
  say(getifaddrs(&all));
  for (i = all; i; i = i->ifa_next) {
    if (strcmp(i->ifa_name, "lo")) continue;
    int family = i->ifa_addr->sa_family;
    printf("%s %x %d", i->ifa_name, i->ifa_flags, family);
    if (family == AF_INET) printf(" %s %x", inet_ntop(family, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, text, 64), ntohl(((struct sockaddr_in *)i->ifa_netmask)->sin_addr.s_addr));
    if (family == AF_INET6) printf(" %s %x", inet_ntop(family, &((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, text, 64), ((struct sockaddr_in6 *)i->ifa_netmask)->sin6_addr.s6_addr[15]);
    puts("");
  }
  freeifaddrs(all);
  struct if_nameindex *names = if_nameindex();
  say(names != 0);
  printf("%u %s\n", names[0].if_index, names[0].if_name);
  say(if_nametoindex("lo"));
  say(if_nametoindex("none"));
  puts(if_indextoname(1, text));
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  struct ifreq r = {.ifr_name = "lo"};
  say(ioctl(s, SIOCGIFFLAGS, &r)); printf("%x\n", r.ifr_flags & 0xffff);
  say(ioctl(s, SIOCGIFMTU, &r)); printf("%d\n", r.ifr_mtu);
  say(ioctl(s, SIOCGIFADDR, &r)); printf("%s\n", inet_ntoa(((struct sockaddr_in *)&r.ifr_addr)->sin_addr));
  say(ioctl(s, SIOCGIFNETMASK, &r)); printf("%s\n", inet_ntoa(((struct sockaddr_in *)&r.ifr_addr)->sin_addr));
  say(ioctl(s, SIOCGIFHWADDR, &r)); printf("%d\n", r.ifr_hwaddr.sa_family);
  struct ifconf list = {.ifc_len = sizeof r, .ifc_req = &r};
  say(ioctl(s, SIOCGIFCONF, &list)); printf("%s %d\n", r.ifr_name, list.ifc_len == sizeof r);
  strcpy(r.ifr_name, "none");
  say(ioctl(s, SIOCGIFINDEX, &r));
  struct { uint16_t family, pad; uint32_t port, groups; } a = {AF_NETLINK};
  int n = socket(AF_NETLINK, SOCK_RAW, 0);
  socklen_t size = sizeof a;
  say(bind(n, (void *)&a, sizeof a));
  say(getsockname(n, (void *)&a, &size)); printf("%d %d %d\n", a.family, size, (pid_t)a.port == getpid());
  struct { uint32_t length; uint16_t type, flags; uint32_t sequence, port; uint8_t family; } q = {17, 18, 0x301, 7, 0, 0};
  say(sendto(n, &q, sizeof q, 0, 0, 0));
  char bytes[8192];
  struct { uint32_t length; uint16_t type, flags; uint32_t sequence, port; } h;
  say(recv(n, bytes, sizeof bytes, 0) > 16);
  memcpy(&h, bytes, sizeof h);
  printf("%d %x %u %d\n", h.type, h.flags, h.sequence, (pid_t)h.port == getpid());
}

/* What others of the run, and a mapping, are said to be. */
static void others(void) {
  char path[64], line[256], want[64];
  int found = 0, mappings = 0, sizes = 0;
  pid_t c = begin();
  if (c == 0) for (;;) pause();
  rest(10);
  snprintf(path, sizeof path, "/proc/%d/comm", c);
  FILE *f = fopen(path, "r"), *own = fopen("/proc/self/comm", "r");
  say(f != 0 && fgets(line, sizeof line, f) && fgets(want, sizeof want, own) && !strcmp(line, want));
  snprintf(path, sizeof path, "/proc/%d/status", c);
  snprintf(want, sizeof want, "PPid:\t%d\n", getpid());
  f = fopen(path, "r");
  while (fgets(line, sizeof line, f)) {
    if (!strcmp(line, want)) found |= 1;
    if (!strcmp(line, "State:\tS (sleeping)\n")) found |= 2;
  }
  say(found);
  f = fopen("/proc/self/smaps", "r");
  while (fgets(line, sizeof line, f)) {
    int kb;
    mappings += strstr(line, "-") && strchr(line, ':') && line[0] > '9' - 10 && strspn(line, "0123456789abcdef") > 4;
    sizes += sscanf(line, "Shared_Dirty: %d kB", &kb) == 1;
  }
  say(mappings > 3 && sizes >= mappings - 1 && sizes <= mappings + 1);
  clockid_t clock;
  struct timespec time;
  say(clock_getcpuclockid(getpid(), &clock));
  say(clock_gettime(clock, &time));
  kill(c, SIGKILL);
  say(end(c));
  snprintf(path, sizeof path, "/proc/%d/comm", c);
  say(fopen(path, "r") == 0);
}

static long statm[7];
static void measure(void) {
  FILE *f = fopen("/proc/self/statm", "r");
  for (int i = 0; i < 7; i++) if (fscanf(f, "%ld", &statm[i]) != 1) statm[i] = -1;
  fclose(f);
}
/* What smaps says of the mapping at an address. */
static void mapping(const char *what, void *at) {
  static const char *const rows[] = {"Size", "Rss", "Pss", "Private_Dirty", "Private_Clean", "Shared_Dirty", "Anonymous", "Swap", "Locked"};
  char line[4096], name[64], wanted[32];
  int inside = 0;
  long kb;
  FILE *f = fopen("/proc/self/smaps", "r");
  snprintf(wanted, sizeof wanted, "%lx-", (unsigned long)at);
  printf("%s:", what);
  while (fgets(line, sizeof line, f)) {
    if (strchr(line, '-') && strspn(line, "0123456789abcdef") > 4) {
      inside = !strncmp(line + strspn(line, "0"), wanted, strlen(wanted));
      if (inside) printf(" %.4s", strchr(line, ' ') + 1);
    } else if (inside && sscanf(line, "%63[^:]: %ld kB", name, &kb) == 2) {
      for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) if (!strcmp(name, rows[i])) printf(" %s %ld", name, kb);
    } else if (inside && !strncmp(line, "VmFlags:", 8)) {
      for (char *flag = strtok(line + 8, " \n"); flag; flag = strtok(0, " \n"))
        if (strlen(flag) == 2 && strstr("rd wr ex sh mr mw me ms", flag)) printf(" %s", flag);
    }
  }
  fclose(f);
  printf("\n");
}
/* Mappings, each between two that nothing may use, so that it stands alone. */
static void measuring(void) {
  enum { PAGES = 512 };
  static const struct { const char *name; int protection, flags; } kinds[] = {
      {"private", PROT_READ | PROT_WRITE, MAP_PRIVATE}, {"shared", PROT_READ | PROT_WRITE, MAP_SHARED},
      {"code", PROT_READ | PROT_EXEC, MAP_PRIVATE}, {"none", PROT_NONE, MAP_PRIVATE},
  };
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    long before[7], page = 4096;
    char *around = mmap(0, (PAGES + 32) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    measure();
    memcpy(before, statm, sizeof before);
    char *at = mmap(around + 16 * page, PAGES * page, PROT_READ | PROT_WRITE, kinds[i].flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (kinds[i].protection != PROT_NONE) memset(at, 1, PAGES * page);
    mprotect(at, PAGES * page, kinds[i].protection);
    measure();
    printf("%s: size %ld, text %ld, library %ld, data %ld, dirty %ld, resident %s, shared %s\n", kinds[i].name, statm[0] - before[0],
           statm[3] - before[3], statm[4], statm[5] - before[5], statm[6], statm[1] - before[1] > PAGES / 2 ? "grows" : "stays",
           statm[2] - before[2] > PAGES / 2 ? "grows" : "stays");
    say(statm[1] <= statm[0] && statm[2] <= statm[1] && statm[3] > 0 && statm[5] > 0);
    mapping(kinds[i].name, at);
    munmap(around, (PAGES + 32) * page);
  }
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  some_key = 0x5a000000 + (getpid() & 0xffff) * 16;
  memory();
  semaphores();
  messages();
  addresses();
  batches();
  interfaces();
  measuring();
  others();
  return 4;
}
