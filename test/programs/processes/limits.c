/* Limits of descriptors and of processes (RLIMIT_NOFILE, RLIMIT_NPROC), as a user without rights
   meets them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define S(what) do { errno = 0; long got_ = (what); int error_ = errno; \
  printf("%s: %ld %d\n", #what, got_, got_ < 0 ? error_ : 0); fflush(stdout); } while (0)

static int limit(int resource, int soft) {
  struct rlimit now;
  getrlimit(resource, &now);
  now.rlim_cur = soft;
  return setrlimit(resource, &now);
}

static void descriptors(void) {
  int pair[2], first = dup(1), high = fcntl(1, F_DUPFD, 40);
  S(first); S(high);
  S(limit(RLIMIT_NOFILE, 6));
  S(dup(1)); S(dup(1)); S(dup(1));
  S(dup(1)); S(open("/", O_RDONLY)); S(eventfd(0, 0)); S(socket(AF_UNIX, SOCK_STREAM, 0));
  S(epoll_create1(0));
  S(pipe(pair)); S(fcntl(1, F_DUPFD, 6)); S(fcntl(1, F_DUPFD, 5)); S(dup2(1, 6)); S(dup2(1, 7));
  S(dup2(high, high)); S(dup3(1, 5, O_CLOEXEC));
  close(4);
  S(pipe(pair)); S(socketpair(AF_UNIX, SOCK_STREAM, 0, pair)); S(dup(high)); S(write(high, "", 0));
  struct pollfd polled[8] = {{-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}, {-1, 0,
      0}, {-1, 0, 0}, {-1, 0, 0}};
  S(poll(polled, 6, 0)); S(poll(polled, 7, 0));
  close(high);
  S(dup2(1, 40));
  int child = fork(), status;
  if (!child) _exit(dup(1) < 0 && errno == EMFILE ? 7 : 8);
  waitpid(child, &status, 0); S(WEXITSTATUS(status));
  S(limit(RLIMIT_NOFILE, 60)); S(dup2(1, 40)); S(fcntl(1, F_DUPFD, 59)); S(fcntl(1, F_DUPFD, 59));
}

static void processes(void) {
  S(limit(RLIMIT_NPROC, 1)); S(fork()); S(vfork());
  S(limit(RLIMIT_NPROC, 1000));
  int child = fork(), status;
  if (!child) _exit(9);
  waitpid(child, &status, 0); S(WEXITSTATUS(status));
}

int main(void) {
  descriptors();
  processes();
  return 3;
}
