/* Sockets within one run: AF_UNIX and 127.0.0.1. Prints what Linux does on every machine. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "saying.h"

static volatile sig_atomic_t broken;
static void on_pipe(int s) { (void)s; broken++; }
static int events(int fd, int wanted) { struct pollfd p = {fd, (short)wanted, 0}; poll(&p, 1, 0); return p.revents; }
static const char *folder;

static socklen_t path_name(struct sockaddr_un *name, const char *text) {
  memset(name, 0, sizeof *name);
  name->sun_family = AF_UNIX;
  if (text[0] == '@') { strcpy(name->sun_path + 1, text + 1); return offsetof(struct sockaddr_un, sun_path) + strlen(text); }
  snprintf(name->sun_path, sizeof name->sun_path, "%s/%s", folder, text);
  return sizeof *name;
}
static void show_unix(int fd, int peer) {
  struct sockaddr_un name;
  socklen_t size = sizeof name;
  memset(&name, 0, sizeof name);
  int r = (peer ? getpeername : getsockname)(fd, (struct sockaddr *)&name, &size);
  size_t skip = name.sun_path[0] == '/' ? strlen(folder) : 0;
  printf("name %d %d %d <%s>\n", r, r < 0 ? errno : 0, (int)(size - skip), name.sun_path + (skip ? skip : 1));
}

static void unix_streams(const char *where) {
  struct sockaddr_un name;
  socklen_t size = path_name(&name, where);
  int s = socket(AF_UNIX, SOCK_STREAM, 0);
  say(listen(s, 1));
  say(bind(s, (void *)&name, size));
  say(bind(s, (void *)&name, size));
  int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  say(bind(other, (void *)&name, size));
  say(connect(other, (void *)&name, size));
  say(listen(s, 1));
  show_unix(s, 0);
  struct stat st;
  if (name.sun_path[0]) { say(stat(name.sun_path, &st)); printf("%o %d\n", st.st_mode & 0170000, (int)st.st_size); say(open(name.sun_path, O_RDWR)); }
  pid_t c = begin();
  if (c == 0) {
    char b[100];
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    connect(fd, (void *)&name, size);
    write(fd, "hello", 5);
    int n = read(fd, b, sizeof b);
    write(fd, b, n);
    shutdown(fd, SHUT_WR);
    n = read(fd, b, sizeof b);
    _exit(n);
  }
  struct sockaddr_un from;
  socklen_t room = sizeof from;
  int fd = accept4(s, (void *)&from, &room, SOCK_CLOEXEC);
  printf("accepted %d %d\n", fd > 0, (int)room);
  struct ucred who;
  socklen_t ucred = sizeof who;
  say(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &ucred));
  printf("peer %d %d\n", who.pid == c, (int)ucred);
  char b[100];
  say(recv(fd, b, 3, 0));
  say(recv(fd, b, sizeof b, MSG_PEEK));
  say(recv(fd, b, sizeof b, MSG_WAITALL | MSG_DONTWAIT));
  say(recv(fd, b, sizeof b, MSG_DONTWAIT));
  say(send(fd, "answer", 6, MSG_NOSIGNAL));
  say(recv(fd, b, 6, MSG_WAITALL));
  say(read(fd, b, 6));
  printf("events %x\n", events(fd, POLLIN | POLLOUT | POLLRDHUP));
  show_unix(fd, 0);
  show_unix(fd, 1);
  say(write(fd, "12345", 5));
  printf("status %d\n", end(c));
  printf("events %x\n", events(fd, POLLIN | POLLOUT | POLLRDHUP));
  broken = 0;
  say(write(fd, "x", 1));
  say(send(fd, "x", 1, MSG_NOSIGNAL));
  printf("pipes %d\n", broken);
  close(fd);
  /* The queue of those that wait. */
  int hasty[5];
  for (int i = 0; i < 5; i++) {
    hasty[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    say(connect(hasty[i], (void *)&name, size));
  }
  printf("events %x\n", events(s, POLLIN | POLLOUT));
  say(write(hasty[0], "early", 5));
  fd = accept(s, 0, 0);
  say(read(fd, b, sizeof b));
  write(hasty[0], "never read", 10);
  close(fd);
  say(read(hasty[0], b, sizeof b));
  say(read(hasty[0], b, sizeof b));
  say(recv(hasty[4], b, 1, 0));
  close(s);
  say(read(hasty[1], b, sizeof b));
  printf("events %x\n", events(hasty[1], POLLIN | POLLOUT));
  say(connect(other, (void *)&name, size));
  for (int i = 0; i < 5; i++) close(hasty[i]);
  if (name.sun_path[0]) { say(unlink(name.sun_path)); say(connect(other, (void *)&name, size)); say(access(name.sun_path, F_OK)); }
  close(other);
}

static void datagrams(int type) {
  struct sockaddr_un one, two;
  socklen_t first = path_name(&one, "@first"), second = path_name(&two, "@second");
  char b[64];
  int a = socket(AF_UNIX, SOCK_DGRAM, 0), d = socket(AF_UNIX, SOCK_DGRAM, 0);
  say(bind(a, (void *)&one, first));
  say(sendto(d, "abc", 3, 0, (void *)&one, first));
  say(bind(d, (void *)&two, second));
  say(sendto(d, "defgh", 5, 0, (void *)&one, first));
  int n;
  printf("waiting %d ", ioctl(a, FIONREAD, &n));
  printf("%d\n", n);
  struct sockaddr_un from;
  socklen_t room = sizeof from;
  say(recvfrom(a, b, sizeof b, 0, (void *)&from, &room));
  printf("from %d\n", (int)room);
  room = sizeof from;
  memset(&from, 0, sizeof from);
  say(recvfrom(a, b, 2, MSG_TRUNC, (void *)&from, &room));
  printf("from %d %s\n", (int)room, from.sun_path + 1);
  say(recv(a, b, 5, MSG_DONTWAIT));
  say(send(d, "x", 1, 0));
  say(connect(d, (void *)&one, first));
  say(send(d, "", 0, 0));
  say(recv(a, b, 5, 0));
  int k = 0;
  while (send(d, "x", 1, MSG_DONTWAIT) == 1) k++;
  printf("room %d %d\n", k, errno);
  close(a);
  say(send(d, "x", 1, 0));
  say(send(d, "x", 1, 0));
  close(d);
  int p[2];
  say(socketpair(AF_UNIX, type, 0, p));
  struct iovec parts[2] = {{"one", 3}, {"two", 3}};
  say(writev(p[0], parts, 2));
  char x[2], y[10];
  struct iovec into[2] = {{x, 2}, {y, 10}};
  say(readv(p[1], into, 2));
  printf("%.2s %.4s\n", x, y);
  socklen_t size = sizeof n;
  getsockopt(p[0], SOL_SOCKET, SO_TYPE, &n, &size);
  printf("type %d\n", n);
  close(p[1]);
  broken = 0;
  printf("events %x\n", events(p[0], POLLIN | POLLOUT));
  say(send(p[0], "x", 1, 0));
  printf("pipes %d\n", broken);
  if (type == SOCK_SEQPACKET) say(read(p[0], b, 1));
  close(p[0]);
}

/* Descriptors and the sender go with bytes. */
static long pass(int socket, const char *bytes, int count, const int *fds) {
  char control[256];
  struct iovec part = {(void *)bytes, strlen(bytes)};
  struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
  if (count > 0) {
    m.msg_control = control;
    m.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    struct cmsghdr *head = CMSG_FIRSTHDR(&m);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(head), fds, sizeof(int) * count);
  }
  return sendmsg(socket, &m, 0);
}
static int take(int socket, int room, int controls) {
  char b[64] = "", control[256];
  struct iovec part = {b, room};
  struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = controls ? control : 0, .msg_controllen = controls};
  errno = 0;
  int n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC), fd = -1;
  printf("recvmsg %d %d %.*s flags %x control %d", n, n < 0 ? errno : 0, n < 0 ? 0 : n, b, m.msg_flags & ~MSG_CMSG_CLOEXEC, n < 0 ? 0 : (int)(m.msg_controllen > 0));
  for (struct cmsghdr *head = n < 0 ? 0 : CMSG_FIRSTHDR(&m); head; head = CMSG_NXTHDR(&m, head)) {
    int size = (int)(head->cmsg_len - CMSG_LEN(0));
    printf(" (%d %d %d)", head->cmsg_level, head->cmsg_type, size);
    if (head->cmsg_type == SCM_RIGHTS)
      for (int i = 0; i < size / 4; i++) {
        if (fd >= 0) close(fd);
        memcpy(&fd, CMSG_DATA(head) + 4 * i, 4);
        printf(" cloexec %d", fcntl(fd, F_GETFD));
      }
    else printf(" own %d", ((struct ucred *)CMSG_DATA(head))->pid == getpid());
  }
  printf("\n");
  return fd;
}
static void passing(void) {
  int p[2], q[2];
  socketpair(AF_UNIX, SOCK_STREAM, 0, p);
  pipe(q);
  pid_t c = begin();
  if (c == 0) {
    close(q[1]);
    int fd = take(p[1], 10, 64);
    fflush(stdout);
    dprintf(fd, "through the pipe\n");
    _exit(4);
  }
  say(pass(p[0], "fd", 1, &q[1]));
  close(q[1]);
  printf("status %d\n", end(c));
  char b[64] = "";
  say(read(q[0], b, sizeof b));
  printf("%s", b);
  say(read(q[0], b, sizeof b));
  /* Reads end behind what came with descriptors. */
  int three[3] = {0, 1, 2};
  pass(p[0], "plain", 0, 0);
  pass(p[0], "rights", 3, three);
  pass(p[0], "after", 0, 0);
  close(take(p[1], 30, 256));
  take(p[1], 30, 256);
  pass(p[0], "abcdef", 1, three);
  close(take(p[1], 2, 256));
  take(p[1], 30, 256);
  /* Too little room. */
  pass(p[0], "abc", 3, three);
  close(take(p[1], 30, CMSG_LEN(sizeof(int))));
  pass(p[0], "abc", 1, three);
  take(p[1], 30, 0);
  int bad[1] = {77};
  say(pass(p[0], "abc", 1, bad));
  int on = 1;
  say(setsockopt(p[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
  pass(p[0], "who", 0, 0);
  take(p[1], 30, 256);
  /* What nobody takes is closed. */
  pipe(q);
  pass(p[0], "lost", 1, &q[1]);
  close(q[1]);
  close(p[0]);
  close(p[1]);
  say(read(q[0], b, 1));
}

static struct sockaddr_in port_name(int port) {
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  return name;
}
static int port_of(int fd) {
  struct sockaddr_in name;
  socklen_t size = sizeof name;
  getsockname(fd, (void *)&name, &size);
  return ntohs(name.sin_port);
}
static int option(int fd, int level, int name) {
  int n = -1;
  socklen_t size = sizeof n;
  errno = 0;
  int r = getsockopt(fd, level, name, &n, &size);
  return r < 0 ? -errno : n;
}

static void *client(void *argument) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in name = port_name(*(int *)argument);
  if (connect(fd, (void *)&name, sizeof name) < 0) return (void *)1L;
  static char big[300000];
  memset(big, 'y', sizeof big);
  long sent = write(fd, big, sizeof big);
  shutdown(fd, SHUT_WR);
  char b[8];
  long n = read(fd, b, sizeof b);
  close(fd);
  return (void *)(sent + n);
}

static void tcp(void) {
  struct sockaddr_in name = port_name(0), from;
  int s = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  say(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
  say(option(s, SOL_SOCKET, SO_REUSEADDR));
  printf("events %x\n", events(s, POLLIN | POLLOUT));
  say(bind(s, (void *)&name, sizeof name));
  say(listen(s, 5));
  say(option(s, SOL_SOCKET, SO_ACCEPTCONN));
  int port = port_of(s);
  printf("port %d\n", port > 1024);
  int t = socket(AF_INET, SOCK_STREAM, 0);
  name = port_name(port);
  say(bind(t, (void *)&name, sizeof name));
  say(send(t, "x", 1, MSG_NOSIGNAL));
  say(recv(t, &name, 1, 0));
  say(shutdown(t, SHUT_RDWR));
  pthread_t thread;
  pthread_create(&thread, 0, client, &port);
  socklen_t size = sizeof from;
  int fd = accept(s, (void *)&from, &size);
  printf("accepted %d %d %d %x\n", fd > 0, (int)size, from.sin_family, ntohl(from.sin_addr.s_addr));
  long all = 0, n;
  static char b[70000];
  while ((n = read(fd, b, sizeof b)) > 0) all += n;
  printf("all %ld\n", all);
  printf("events %x\n", events(fd, POLLIN | POLLOUT | POLLRDHUP));
  say(write(fd, "bye", 3));
  void *result;
  pthread_join(thread, &result);
  printf("client %ld\n", (long)result);
  struct timespec moment = {0, 20000000};
  nanosleep(&moment, 0);
  say(send(fd, "x", 1, 0));
  nanosleep(&moment, 0);
  broken = 0;
  say(send(fd, "x", 1, 0));
  printf("pipes %d\n", broken);
  say(read(fd, b, 1));
  close(fd);
  /* Without waiting. */
  t = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  say(connect(t, (void *)&name, sizeof name));
  printf("events %x\n", events(t, POLLIN | POLLOUT));
  say(option(t, SOL_SOCKET, SO_ERROR));
  say(connect(t, (void *)&name, sizeof name));
  say(connect(t, (void *)&name, sizeof name));
  say(recv(t, b, 1, 0));
  printf("events %x\n", events(s, POLLIN));
  fd = accept4(s, 0, 0, SOCK_NONBLOCK);
  say(fcntl(fd, F_GETFL) & O_NONBLOCK);
  say(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  say(option(fd, IPPROTO_TCP, TCP_NODELAY));
  say(option(t, SOL_SOCKET, SO_KEEPALIVE));
  /* A connection that ends with something unread. */
  write(t, "unread", 6);
  close(fd);
  say(recv(t, b, 1, 0));
  printf("events %x\n", events(t, POLLIN | POLLOUT));
  close(t);
  say(accept4(s, 0, 0, 0x40000000));
  close(s);
  t = socket(AF_INET, SOCK_STREAM, 0);
  say(connect(t, (void *)&name, sizeof name));
  struct timeval limit = {0, 20000}, back;
  say(setsockopt(t, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
  size = sizeof back;
  say(getsockopt(t, SOL_SOCKET, SO_RCVTIMEO, &back, &size));
  printf("limit %ld %d\n", (long)back.tv_sec, size == sizeof back);
  close(t);
  t = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  say(connect(t, (void *)&name, sizeof name));
  printf("events %x\n", events(t, POLLIN | POLLOUT));
  say(option(t, SOL_SOCKET, SO_ERROR));
  say(option(t, SOL_SOCKET, SO_ERROR));
  close(t);
  int two[2];
  socketpair(AF_UNIX, SOCK_STREAM, 0, two);
  setsockopt(two[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  say(read(two[0], b, 1));
  limit.tv_usec = 1000000;
  say(option(two[0], IPPROTO_TCP, TCP_NODELAY));
  say(setsockopt(two[0], SOL_SOCKET, SO_TYPE, &on, sizeof on));
  say(bind(two[0], (void *)&name, 1));
  say(socket(AF_INET, SOCK_SEQPACKET, 0));
  say(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
  say(socket(AF_UNIX, 9, 0));
  say(connect(two[0], (void *)&name, 200));
  name = port_name(80);
  t = socket(AF_INET, SOCK_STREAM, 0);
  name.sin_addr.s_addr = htonl(0x08080808);
  name.sin_port = htons(9999);
  say(bind(t, (void *)&name, sizeof name));
  name.sin_family = AF_UNIX;
  say(connect(t, (void *)&name, sizeof name));
}

/* A connection that is not waited for: whose it is, and when. */
static void hasty(void) {
  struct sockaddr_in name = port_name(0), from;
  int s = socket(AF_INET, SOCK_STREAM, 0), t = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  socklen_t size = sizeof from;
  char text[8];
  say(bind(s, (void *)&name, sizeof name));
  say(listen(s, 5));
  name = port_name(port_of(s));
  say(connect(t, (void *)&name, sizeof name));
  int fd = accept(s, 0, 0);
  say(write(fd, "hi", 2));
  close(fd);
  struct timespec moment = {0, 20000000};
  nanosleep(&moment, 0);
  printf("events %x\n", events(t, POLLIN | POLLOUT));
  say(option(t, SOL_SOCKET, SO_ERROR));
  say(getpeername(t, (void *)&from, &size));
  printf("peer %d\n", from.sin_port == name.sin_port);
  say(read(t, text, 8));
  say(read(t, text, 8));
  close(t);
  close(s);
  t = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  say(connect(t, (void *)&name, sizeof name));
  nanosleep(&moment, 0);
  say(option(t, SOL_SOCKET, SO_ERROR));
  say(getpeername(t, (void *)&from, &size));
  close(t);
}

static void udp(void) {
  struct sockaddr_in one = port_name(0), two = port_name(0), from;
  int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
  char text[64];
  say(bind(a, (void *)&one, sizeof one));
  one = port_name(port_of(a));
  say(send(b, "x", 1, 0));
  say(sendto(b, "abc", 3, 0, (void *)&one, sizeof one));
  printf("port %d\n", port_of(b) > 1024);
  socklen_t size = sizeof from;
  say(recvfrom(a, text, sizeof text, 0, (void *)&from, &size));
  printf("from %d %d %x\n", (int)size, ntohs(from.sin_port) == port_of(b), ntohl(from.sin_addr.s_addr));
  say(connect(b, (void *)&one, sizeof one));
  say(write(b, "defg", 4));
  say(recv(a, text, 2, MSG_TRUNC));
  say(recv(a, text, 2, MSG_DONTWAIT));
  say(getpeername(a, (void *)&from, &size));
  close(a);
  struct timespec moment = {0, 20000000};
  say(write(b, "lost", 4));
  nanosleep(&moment, 0);
  say(write(b, "said", 4));
  say(recv(b, text, 1, MSG_DONTWAIT));
  static char large[70000];
  say(write(b, large, sizeof large));
  close(b);
}

static void poller(void) {
  int p[2], e = epoll_create1(0);
  socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p);
  struct epoll_event event = {EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, {.u32 = 5}}, got[4];
  say(epoll_ctl(e, EPOLL_CTL_ADD, p[0], &event));
  for (int i = 0; i < 6; i++) {
    int n = epoll_wait(e, got, 4, 0);
    printf("%d %x\n", n, n > 0 ? got[0].events : 0);
    char b[8];
    if (i == 0) write(p[0], "x", 1);
    if (i == 1) write(p[1], "abc", 3);
    if (i == 2) read(p[0], b, 8);
    if (i == 3) shutdown(p[1], SHUT_WR);
    if (i == 4) close(p[1]);
  }
  close(p[0]);
  close(e);
}

int main(int count, char **arguments) {
  struct sigaction action = {.sa_handler = on_pipe};
  folder = count > 1 ? arguments[1] : "/tmp";
  sigaction(SIGPIPE, &action, 0);
  setvbuf(stdout, 0, _IOFBF, 1 << 16);
  unix_streams("@elftrace-stream");
  unix_streams("stream");
  datagrams(SOCK_DGRAM);
  datagrams(SOCK_SEQPACKET);
  passing();
  tcp();
  hasty();
  udp();
  poller();
  return 7;
}
