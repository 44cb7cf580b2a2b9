/*
 * What the bits of files and directories allow their owner, which bits files get, and what a slash
 * behind a name means. Everything printed is the same on each run of Linux, by a user without rights.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static void tell(const char *what, long answer) {
  printf("%s: %ld %s\n", what, answer < 0 ? -1 : answer, answer < 0 ? strerrorname_np(errno) : "");
}
#define S(call) (errno = 0, tell(#call, (long)(call)))
/* A descriptor is told as 0, and closed. */
static long opened(int number) {
  if (number >= 0) close(number);
  return number < 0 ? -1 : 0;
}
#define OPEN(...) (errno = 0, tell("open " #__VA_ARGS__, opened(open(__VA_ARGS__))))

static void mode(const char *path) {
  struct stat status;
  if (lstat(path, &status) < 0) printf("%s: %s\n", path, strerrorname_np(errno));
  else printf("%s: %o\n", path, status.st_mode);
}

/* Bits that are asked for and those that a file gets. */
static void bits(void) {
  umask(022);
  close(open("readable", O_CREAT | O_WRONLY, 0444));
  mode("readable");
  close(open("nothing", O_CREAT | O_WRONLY, 0));
  mode("nothing");
  int own = open("written", O_CREAT | O_RDWR, 0400);
  struct stat status;
  fstat(own, &status);
  printf("open: %o, written %ld\n", status.st_mode, write(own, "some", 4));
  close(own);
  OPEN("written", O_RDWR);
  OPEN("written", O_RDONLY);
  umask(0);
  close(open("everyone", O_CREAT | O_WRONLY, 0666));
  mode("everyone");
  close(open("executed", O_CREAT | O_WRONLY, 07777));
  mode("executed");
  S(mkdir("open", 01777));
  mode("open");
  S(mkdir("set", 06755));
  mode("set");
  umask(0277);
  S(mkdir("masked", 0777));
  mode("masked");
  umask(022);
  S(mkfifo("pipe", 0640));
  mode("pipe");
  S(chmod("pipe", 01600));
  mode("pipe");
  S(chmod("everyone", 04755));
  mode("everyone");
  S(chmod("open", 03711));
  mode("open");
  S(mkdir("open/inner", 0755));
  mode("open/inner");
  S(chmod("open", 0755));
  mode("open");
  own = open("everyone", O_WRONLY);
  S(fchmod(own, 06771));
  mode("everyone");
  S(write(own, "x", 1));
  mode("everyone");
  S(fchmod(own, 02761));
  S(write(own, "x", 1));
  mode("everyone");
  S(fchmod(own, 06777));
  S(ftruncate(own, 0));
  mode("everyone");
  S(fchmod(own, 06777));
  S(fchown(own, -1, -1));
  mode("everyone");
  close(own);
  S(chmod("everyone", 04755));
  S(chown("everyone", getuid(), -1));
  mode("everyone");
  S(chmod("nothing", 0200));
  OPEN("nothing", O_RDONLY);
  OPEN("nothing", O_WRONLY);
  OPEN("nothing", O_RDWR);
  OPEN("nothing", O_RDONLY | O_TRUNC);
  S(chmod("nothing", 0400));
  OPEN("nothing", O_RDONLY | O_TRUNC);
  OPEN("nothing", O_RDONLY | O_CREAT, 0600);
  S(truncate("nothing", 0));
  S(chmod("executed", 0611));
  S(access("executed", X_OK));
  S(execl("executed", "executed", NULL));
  S(chmod("executed", 0));
  S(access("executed", F_OK));
  S(access("executed", R_OK));
  S(access("executed", W_OK));
}

/* How many names a directory has. */
static long names(int number) {
  long count = 0;
  DIR *directory = fdopendir(dup(number));
  rewinddir(directory);
  while (readdir(directory)) count++;
  closedir(directory);
  return count;
}

static void directories(void) {
  S(mkdir("d", 0755));
  S(mkdir("d/e", 0755));
  S(mkdir("other", 0755));
  close(open("d/file", O_CREAT | O_WRONLY, 0644));
  close(open("d/e/file", O_CREAT | O_WRONLY, 0644));
  close(open("there", O_CREAT | O_WRONLY, 0644));
  symlink("d/file", "link");
  int inside = open("d", O_RDONLY | O_DIRECTORY), place = open("d", O_PATH);

  puts("not written");
  chmod("d", 0555);
  OPEN("d/new", O_CREAT | O_WRONLY, 0644);
  OPEN("d/file", O_CREAT | O_WRONLY, 0644);
  OPEN("d/file", O_CREAT | O_EXCL | O_WRONLY, 0644);
  OPEN("d/file", O_WRONLY | O_TRUNC);
  S(opened(openat(inside, "new", O_CREAT | O_WRONLY, 0644)));
  S(mkdir("d/new", 0755));
  S(mkdir("d/e", 0755));
  S(mkfifo("d/new", 0644));
  S(mknod("d/new", S_IFREG | 0644, 0));
  S(symlink("x", "d/new"));
  S(symlink("x", "d/file"));
  S(link("there", "d/new"));
  S(link("d/file", "d/other"));
  S(unlink("d/file"));
  S(unlink("d/missing"));
  S(unlink("d/e"));
  S(rmdir("d/e"));
  S(rmdir("d/file"));
  S(rename("d/file", "d/new"));
  S(rename("d/file", "new"));
  S(rename("d/file", "d/file"));
  S(rename("there", "d/new"));
  S(rename("there", "d/file"));
  S(rename("d/missing", "d/file"));
  S(rename("d", "moved"));
  S(rename("moved", "other/moved"));
  S(rename("moved", "d"));
  S(chmod("d/file", 0600));
  S(truncate("d/file", 3));
  S(access("d", W_OK));
  S(access("d", X_OK));
  struct sockaddr_un name = {AF_UNIX, "d/socket"};
  S(bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name, sizeof name));

  puts("not searched");
  chmod("d", 0644);
  struct stat status;
  char text[64];
  OPEN("d/file", O_RDONLY);
  OPEN("d/missing", O_RDONLY);
  OPEN("d/e/file", O_RDONLY);
  OPEN("d/e/..", O_RDONLY);
  OPEN("d", O_RDONLY);
  OPEN("link", O_RDONLY);
  OPEN("d/new", O_CREAT | O_WRONLY, 0644);
  S(opened(openat(inside, "file", O_RDONLY)));
  S(opened(openat(place, "file", O_RDONLY)));
  S(fstatat(inside, ".", &status, 0));
  S(stat("d/file", &status));
  S(lstat("d/file", &status));
  S(stat("d/missing", &status));
  S(stat("d", &status));
  S(lstat("link", &status));
  S(readlink("d/file", text, sizeof text));
  S(access("d/file", F_OK));
  S(access("link", F_OK));
  S(mkdir("d/file", 0755));
  S(unlink("d/file"));
  S(rename("d/file", "d/new"));
  S(rename("there", "d/file"));
  S(chmod("d/file", 0600));
  S(truncate("d/file", 3));
  S(chdir("d"));
  S(fchdir(inside));
  S(fchdir(place));
  S(execl("d/file", "d/file", NULL));
  S(inotify_add_watch(inotify_init(), "d/file", IN_MODIFY));
  S(write(inside, "", 0));
  S(names(inside));
  chmod("d", 0400);
  S(names(inside));

  puts("not listed");
  chmod("d", 0311);
  OPEN("d", O_RDONLY);
  OPEN("d", O_RDONLY | O_DIRECTORY);
  OPEN("d", O_PATH);
  OPEN("d/file", O_RDONLY);
  OPEN("d/new", O_CREAT | O_WRONLY, 0644);
  S(unlink("d/new"));
  S(names(inside));
  chmod("d", 0);
  S(names(inside));
  chmod("d", 0311);
  S(access("d", R_OK));
  S(inotify_add_watch(inotify_init(), "d", IN_MODIFY));

  puts("where the process is");
  chmod("d", 0755);
  chdir("d");
  S(fchmod(inside, 0600));
  OPEN("file", O_RDONLY);
  OPEN(".", O_RDONLY);
  OPEN("..", O_RDONLY);
  S(stat(".", &status));
  S(chdir(".."));
  S(fchdir(inside));
  S(fchmod(inside, 0755));
  S(chdir(".."));
  S(rmdir("other"));
  S(chdir("d"));
  S(chdir(".."));
}

/* A slash behind a name asks for a directory. */
static void slashes(void) {
  struct stat status;
  char text[64];
  close(open("plain", O_CREAT | O_WRONLY, 0644));
  symlink("d", "to");
  symlink("plain", "toplain");
  symlink("nowhere", "dangling");
  S(stat("plain/", &status));
  S(lstat("plain/", &status));
  S(stat("plain/.", &status));
  S(stat("missing/", &status));
  S(stat("d/", &status));
  S(lstat("to/", &status) == 0 ? S_ISDIR(status.st_mode) : -1);
  S(lstat("to", &status) == 0 ? S_ISDIR(status.st_mode) : -1);
  S(lstat("to/.", &status) == 0 ? S_ISDIR(status.st_mode) : -1);
  S(lstat("dangling/", &status));
  S(access("plain/", F_OK));
  S(access("d//", F_OK));
  OPEN("plain/", O_RDONLY);
  OPEN("d/", O_RDONLY);
  OPEN("plain/", O_WRONLY);
  OPEN("plain/", O_CREAT | O_WRONLY, 0644);
  OPEN("missing/", O_CREAT | O_WRONLY, 0644);
  OPEN("missing/", O_RDONLY);
  OPEN("d/", O_CREAT | O_WRONLY, 0644);
  OPEN("to/", O_RDONLY | O_NOFOLLOW);
  OPEN("to", O_RDONLY | O_NOFOLLOW);
  OPEN("dangling/", O_CREAT | O_WRONLY, 0644);
  S(mkdir("made/", 0755));
  S(mkdir("made/", 0755));
  S(mkdir("plain/", 0755));
  S(mkdir("dangling/", 0755));
  S(mkdir("more/.", 0755));
  S(mkfifo("missing/", 0644));
  S(mkfifo("plain/", 0644));
  S(symlink("x", "missing/"));
  S(symlink("x", "d/"));
  S(symlink("x", "plain/"));
  S(link("plain", "missing/"));
  S(link("plain/", "second"));
  S(link("plain", "d/"));
  S(readlink("to/", text, sizeof text));
  S(readlink("toplain/", text, sizeof text));
  S(readlink("to", text, sizeof text));
  S(unlink("plain/"));
  S(unlink("made/"));
  S(unlink("to/"));
  S(unlink("toplain/"));
  S(rmdir("to/"));
  S(rmdir("plain/"));
  S(rename("plain/", "renamed"));
  S(rename("plain", "renamed/"));
  S(rename("to/", "renamed"));
  S(rename("made/", "renamed/"));
  S(rename("renamed", "made/"));
  S(rename("plain", "made/"));
  S(rename("made", "plain/"));
  S(rmdir("made//"));
  S(truncate("plain/", 0));
  S(chmod("plain/", 0600));
  S(chdir("plain/"));
  S(chdir("d/"));
  S(chdir(".."));
}

static void attributes(void) {
  char text[64];
  S(listxattr("dangling", text, sizeof text));
  S(llistxattr("dangling", text, sizeof text)), S(listxattr("/proc/version", text, 0));
  S(flistxattr(open("/proc/version", O_RDONLY), text, sizeof text));
  S(listxattr("/proc/nowhere", text, sizeof text)), S(flistxattr(-1, text, sizeof text));
  S(getxattr("dangling", "user.x", text, sizeof text));
  S(lgetxattr("dangling", "user.x", text, sizeof text) < 0 && errno != ENOENT);
  S(lremovexattr("nowhere", "user.x"));
}

int main(int argc, char **argv) {
  chdir(argv[1]);
  bits();
  directories();
  slashes();
  attributes();
  return 3;
}
