/*
 * What comes beside datagrams: how far they went, of which class they are, where they were sent
 * to. And datagrams of UDP-Lite. Everything printed is the same on each run of Linux.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static void tell(const char *what, long answer) {
  printf("%s: %ld %s\n", what, answer < 0 ? -1 : answer, answer < 0 ? strerrorname_np(errno) : "");
}
#define S(call) (errno = 0, tell(#call, (long)(call)))
static int on(int socket, int level, int option, int value) {
  return setsockopt(socket, level, option, &value, sizeof value);
}

static union {
  struct sockaddr any;
  struct sockaddr_in four;
  struct sockaddr_in6 six;
} name, dual;

/* A socket that is bound to an address of the machine, and one that sends to it. */
static void both(int family, int protocol, const char *address, int *in, int *out) {
  *in = socket(family, SOCK_DGRAM, protocol);
  *out = socket(family, SOCK_DGRAM, protocol);
  memset(&name, 0, sizeof name);
  name.any.sa_family = family;
  inet_pton(family, address, family == AF_INET ? (void *)&name.four.sin_addr : (void *)&name.six.sin6_addr);
  socklen_t size = sizeof name;
  tell("bind", bind(*in, &name.any, size));
  getsockname(*in, &name.any, &size);
}

/* Receives with so much room for what comes beside. */
static void take(int in, size_t room) {
  char bytes[100], control[300], shown[64];
  memset(control, 0x55, sizeof control);
  struct iovec piece = {bytes, sizeof bytes};
  struct msghdr head = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room};
  long got = recvmsg(in, &head, MSG_DONTWAIT);
  printf("got %ld", got);
  if (got >= 0) printf(" flags %x:", head.msg_flags);
  if (got >= 0) for (struct cmsghdr *each = CMSG_FIRSTHDR(&head); each; each = CMSG_NXTHDR(&head, each)) {
    size_t size = each->cmsg_len - CMSG_LEN(0);
    printf(" [%d %d", each->cmsg_level, each->cmsg_type);
    if (each->cmsg_level != SOL_SOCKET) printf(" %zu", size);
    int value = 0;
    if (size >= 4) memcpy(&value, CMSG_DATA(each), 4);
    else if (size == 1) value = *CMSG_DATA(each);
    const int level = each->cmsg_level, type = each->cmsg_type;
    if (level == IPPROTO_IP && type == IP_PKTINFO && size >= sizeof(struct in_pktinfo)) {
      struct in_pktinfo *info = (void *)CMSG_DATA(each);
      printf(" %d %s", info->ipi_ifindex, inet_ntop(AF_INET, &info->ipi_spec_dst, shown, sizeof shown));
      printf(" %s", inet_ntop(AF_INET, &info->ipi_addr, shown, sizeof shown));
    } else if (level == IPPROTO_IPV6 && type == IPV6_PKTINFO && size >= sizeof(struct in6_pktinfo)) {
      struct in6_pktinfo *info = (void *)CMSG_DATA(each);
      printf(" %d %s", info->ipi6_ifindex, inet_ntop(AF_INET6, &info->ipi6_addr, shown, sizeof shown));
    } else if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_TIMESTAMP) {
      struct timeval now, *then = (void *)CMSG_DATA(each);
      gettimeofday(&now, 0);
      printf(" %d", then->tv_sec <= now.tv_sec && then->tv_sec > now.tv_sec - 100 && then->tv_usec < 1000000);
    } else if (size > 0) printf(" %d", value);
    printf("]");
  }
  puts("");
}

/* Sends with one piece of control data. */
static void give(int out, int level, int type, const void *value, size_t size) {
  char control[100] = {0};
  struct iovec piece = {"data", 4};
  struct msghdr head = {&name, sizeof name.six, &piece, 1, control, CMSG_SPACE(size)};
  if (name.any.sa_family == AF_INET) head.msg_namelen = sizeof name.four;
  struct cmsghdr *first = CMSG_FIRSTHDR(&head);
  *first = (struct cmsghdr){CMSG_LEN(size), level, type};
  memcpy(CMSG_DATA(first), value, size);
  printf("send %d %d %zu ", level, type, size);
  tell("", sendmsg(out, &head, 0));
}
static void number(int out, int level, int type, int value) { give(out, level, type, &value, sizeof value); }
static void plain(int out) {
  sendto(out, "plain", 5, 0, &name.any, name.any.sa_family == AF_INET ? sizeof name.four : sizeof name.six);
}

static void six(int protocol) {
  int in, out;
  both(AF_INET6, protocol, "::1", &in, &out);
  plain(out);
  take(in, 200);
  S(on(in, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1));
  plain(out);
  take(in, 200);
  S(on(in, IPPROTO_IPV6, IPV6_RECVTCLASS, 1));
  S(on(in, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1));
  plain(out);
  take(in, 200);
  size_t first = CMSG_SPACE(20), second = first + CMSG_SPACE(4);
  size_t rooms[] = {
    0, CMSG_LEN(0) - 1, CMSG_LEN(0), CMSG_LEN(2), CMSG_LEN(12), CMSG_LEN(20),
    first, first + 2, first + CMSG_LEN(0), first + CMSG_LEN(3), first + CMSG_LEN(4),
    second, second + CMSG_LEN(1), second + CMSG_LEN(4),
  };
  for (int i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
    plain(out);
    take(in, rooms[i]);
  }
  number(out, IPPROTO_IPV6, IPV6_HOPLIMIT, 7);
  take(in, 200);
  number(out, IPPROTO_IPV6, IPV6_TCLASS, 0x48);
  take(in, 200);
  number(out, IPPROTO_IPV6, IPV6_HOPLIMIT, -1);
  take(in, 200);
  number(out, IPPROTO_IPV6, IPV6_HOPLIMIT, 256);
  number(out, IPPROTO_IPV6, IPV6_TCLASS, -2);
  give(out, IPPROTO_IPV6, IPV6_HOPLIMIT, "\1\2\3\4\5", 5);
  give(out, IPPROTO_IPV6, IPV6_HOPLIMIT, "\1", 1);
  take(in, 200);
  S(on(out, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9));
  S(on(out, IPPROTO_IPV6, IPV6_TCLASS, 0x10));
  plain(out);
  take(in, 200);
  S(on(out, IPPROTO_IPV6, IPV6_UNICAST_HOPS, -1));
  S(on(out, IPPROTO_IPV6, IPV6_TCLASS, -1));
  struct in6_pktinfo info = {.ipi6_addr = IN6ADDR_LOOPBACK_INIT};
  give(out, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
  take(in, 200);
  info.ipi6_ifindex = 1;
  give(out, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
  take(in, 200);
  S(connect(out, &name.any, sizeof name.six));
  S(send(out, "x", 1, 0));
  take(in, 200);
  S(write(out, "xy", 2));
  take(in, 200);
  S(on(in, IPPROTO_IPV6, IPV6_RECVPKTINFO, 0));
  S(on(in, SOL_SOCKET, SO_TIMESTAMP, 1));
  S(write(out, "xyz", 3));
  take(in, 200);
  close(in);
  close(out);
}

static void four(int protocol) {
  int in, out;
  both(AF_INET, protocol, "127.0.0.1", &in, &out);
  S(on(in, IPPROTO_IP, IP_RECVTTL, 1));
  plain(out);
  take(in, 200);
  S(on(in, IPPROTO_IP, IP_RECVTOS, 1));
  S(on(in, IPPROTO_IP, IP_PKTINFO, 1));
  plain(out);
  take(in, 200);
  plain(out);
  take(in, CMSG_LEN(4));
  number(out, IPPROTO_IP, IP_TTL, 7);
  take(in, 200);
  number(out, IPPROTO_IP, IP_TOS, 0x48);
  take(in, 200);
  give(out, IPPROTO_IP, IP_TOS, "\x10", 1);
  take(in, 200);
  number(out, IPPROTO_IP, IP_TTL, 0);
  number(out, IPPROTO_IP, IP_TTL, 256);
  give(out, IPPROTO_IP, IP_TTL, "\1", 1);
  number(out, IPPROTO_IPV6, IPV6_HOPLIMIT, 7);
  take(in, 200);
  S(on(out, IPPROTO_IP, IP_TTL, 9));
  S(on(out, IPPROTO_IP, IP_TOS, 0x20));
  plain(out);
  take(in, 200);
  struct in_pktinfo info = {0, {htonl(0x7f000001)}, {0}};
  give(out, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
  take(in, 200);
  close(in);
  both(AF_INET, protocol, "0.0.0.0", &in, &out);
  S(on(in, IPPROTO_IP, IP_PKTINFO, 1));
  name.four.sin_addr.s_addr = htonl(0x7f000005);
  plain(out);
  take(in, 200);
  S(connect(out, &name.any, sizeof name.four));
  S(write(out, "xyz", 3));
  take(in, 200);
  close(in);
  close(out);
}

/* Datagrams of IPv4 for a socket of IPv6. */
static void mixed(void) {
  int in, six, out = socket(AF_INET, SOCK_DGRAM, 0);
  both(AF_INET6, 0, "::", &in, &six);
  int port = name.six.sin6_port;
  S(on(in, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1));
  S(on(in, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1));
  memset(&name, 0, sizeof name);
  name.four = (struct sockaddr_in){AF_INET, port, {htonl(0x7f000001)}};
  plain(out);
  take(in, 200);
  S(on(in, IPPROTO_IP, IP_RECVTTL, 1));
  plain(out);
  take(in, 200);
  close(in);
}

static void lite(void) {
  int in, out, other = socket(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE), value = 0;
  socklen_t size = sizeof value;
  getsockopt(other, SOL_SOCKET, SO_PROTOCOL, &value, &size);
  printf("protocol %d\n", value);
  both(AF_INET, 0, "127.0.0.1", &in, &out);
  S(bind(other, &name.any, sizeof name.four));
  S(bind(socket(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE), &name.any, sizeof name.four));
  S(sendto(socket(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE), "lite", 4, 0, &name.any, sizeof name.four));
  take(in, 100);
  take(other, 100);
  S(socket(AF_INET, SOCK_STREAM, IPPROTO_UDPLITE));
  close(other);
  four(IPPROTO_UDPLITE);
  six(IPPROTO_UDPLITE);
}

static void places(void) {
  int pair[2];
  socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
  S(on(pair[0], SOL_SOCKET, SO_TIMESTAMP, 1));
  write(pair[1], "x", 1);
  take(pair[0], 100);
  memset(&name, 0, sizeof name);
  char control[CMSG_SPACE(4)] = {0};
  struct iovec piece = {"data", 4};
  struct msghdr head = {0, 0, &piece, 1, control, sizeof control};
  *(struct cmsghdr *)control = (struct cmsghdr){CMSG_LEN(4), IPPROTO_IPV6, IPV6_HOPLIMIT};
  S(sendmsg(pair[1], &head, 0));
  take(pair[0], 100);
}

int main(void) {
  six(0);
  four(0);
  mixed();
  lite();
  places();
  return 3;
}
