/* An epoll in another, what an epoll may ask, and in which order it refuses. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define S(what) do { errno = 0; long got_ = (what); int error_ = errno; \
  printf("%s: %ld %d\n", #what, got_, got_ < 0 ? error_ : 0); fflush(stdout); } while (0)

static struct epoll_event in = {.events = EPOLLIN};

static int add(int poller, int number, unsigned events, int data) {
  struct epoll_event event = {.events = events, .data.fd = data};
  return epoll_ctl(poller, EPOLL_CTL_ADD, number, &event);
}

static int waits(int poller) {
  struct epoll_event events[4];
  int count = epoll_wait(poller, events, 4, 0);
  for (int i = 0; i < count; i++) printf(" %x/%d", events[i].events, events[i].data.fd);
  puts("");
  return count;
}

static void nested(void) {
  int ends[2], inner = epoll_create1(0), outer = epoll_create1(0), edge = epoll_create1(0);
  char byte;
  (void)!pipe(ends);
  S(add(inner, ends[0], EPOLLIN, 1)); S(add(outer, inner, EPOLLIN, 2));
  S(add(edge, inner, EPOLLIN | EPOLLET, 3));
  S(waits(outer)); S(waits(edge));
  S(write(ends[1], "x", 1));
  struct pollfd both = {outer, POLLIN, 0};
  S(poll(&both, 1, 0)); S(both.revents); S(waits(outer)); S(waits(outer)); S(waits(edge));
  S(waits(edge)); S(waits(inner));
  S(read(ends[0], &byte, 1)); S(waits(outer)); S(waits(edge)); S(write(ends[1], "y", 1));
  S(waits(edge)); S(waits(edge)); S(waits(outer));
  S(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &in)); S(epoll_ctl(inner, EPOLL_CTL_ADD, outer, &in));
  S(epoll_ctl(outer, EPOLL_CTL_ADD, outer, &in));
  S(epoll_ctl(outer, EPOLL_CTL_DEL, inner, 0)); S(waits(outer));
  S(epoll_ctl(inner, EPOLL_CTL_ADD, outer, &in));
  int last = epoll_create1(0), deep = 0;
  S(add(last, ends[0], EPOLLIN, 1));
  for (int next; deep < 9; deep++, last = next) {
    next = epoll_create1(0);
    if (add(next, last, EPOLLIN, deep) < 0) break;
  }
  printf("%d %d\n", deep, errno == ELOOP || errno == EINVAL);
  S(waits(last));
  if (!fork()) { usleep(3000); (void)!write(ends[1], "z", 1); _exit(0); }
  S(read(ends[0], &byte, 1)); S(read(ends[0], &byte, 1));
  struct epoll_event event;
  if (!fork()) { usleep(3000); (void)!write(ends[1], "z", 1); _exit(0); }
  S(epoll_wait(last, &event, 1, -1)); S(event.data.fd);
}

static void refusals(const char *folder) {
  int poller = epoll_create1(0), counter = eventfd(0, 0), place = open(folder, O_PATH),
      directory = open(folder, O_RDONLY);
  char path[512];
  snprintf(path, sizeof path, "%s/file", folder);
  int file = open(path, O_RDWR | O_CREAT, 0600), null = open("/dev/null", O_RDWR),
      zero = open("/dev/zero", O_RDONLY), urandom = open("/dev/urandom", O_RDONLY),
      random = open("/dev/random", O_RDONLY);
  S(epoll_ctl(poller, EPOLL_CTL_ADD, place, &in));
  S(epoll_ctl(poller, EPOLL_CTL_ADD, directory, &in));
  S(epoll_ctl(poller, EPOLL_CTL_ADD, file, &in)); S(epoll_ctl(poller, EPOLL_CTL_ADD, null, &in));
  S(epoll_ctl(poller, EPOLL_CTL_ADD, zero, &in)); S(epoll_ctl(poller, EPOLL_CTL_ADD, urandom, &in));
  S(epoll_ctl(poller, EPOLL_CTL_ADD, random, &in)); S(epoll_ctl(poller, EPOLL_CTL_DEL, random, 0));
  S(epoll_ctl(poller, 7, counter, &in)); S(epoll_ctl(poller, 0, 999, &in));
  S(epoll_ctl(999, 7, counter, &in));
  S(epoll_ctl(poller, EPOLL_CTL_MOD, counter, &in));
  S(epoll_ctl(poller, EPOLL_CTL_DEL, counter, 0)); S(epoll_ctl(counter, EPOLL_CTL_ADD, file, &in));
  S(epoll_ctl(counter, EPOLL_CTL_ADD, poller, &in));
}

static void queues(void) {
  char name[64];
  snprintf(name, sizeof name, "/elftrace-pollers-%d", getpid());
  int queue = mq_open(name, O_RDWR | O_CREAT, 0600, 0), poller = epoll_create1(0);
  char text[8192];
  S(add(poller, queue, EPOLLIN | EPOLLET, 1)); S(waits(poller)); S(mq_send(queue, "a", 1, 0));
  S(waits(poller)); S(waits(poller)); S(mq_receive(queue, text, sizeof text, 0)); S(waits(poller));
  S(mq_send(queue, "b", 1, 0)); S(waits(poller)); S(mq_unlink(name));
}

int main(int argc, char **argv) {
  nested(); refusals(argv[1]); queues();
  return 3;
}
