/* What a call answers and why it fails, with its place; children that begin and end. */
#include <errno.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define say(...) \
  do { \
    errno = 0; \
    long got = (long)(__VA_ARGS__); \
    printf("%s:%d %ld %d\n", __func__, __LINE__, got, got < 0 ? errno : 0); \
  } while (0)

static inline pid_t begin(void) {
  fflush(stdout);
  return fork();
}

static inline int end(pid_t c) {
  int status;
  waitpid(c, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
