/* What is opened by way of a descriptor: files with and without a name, memory, pipes, folders, places. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define S(what) do { errno = 0; long got_ = (what); int error_ = errno; \
  printf("%s: %ld %d\n", #what, got_, got_ < 0 ? error_ : 0); fflush(stdout); } while (0)

static char path[64], text[64];
static struct stat status;

static int again(int number, int flags) {
  sprintf(path, "/proc/self/fd/%d", number); return open(path, flags, 0600);
}

static void file(int number) {
  int other;
  memset(text, 0, sizeof text);
  S(write(number, "hello", 5)); S(lseek(number, 2, SEEK_SET));
  other = again(number, O_RDONLY); S(other >= 0); S(lseek(other, 0, SEEK_CUR));
  S(read(other, text, 3)); puts(text);
  S(lseek(number, 0, SEEK_CUR)); S(write(other, "x", 1)); S(fcntl(other, F_GETFL) & O_ACCMODE); close(other);
  other = again(number, O_WRONLY | O_APPEND); S(write(other, "+", 1)); S(pwrite(other, "+", 1, 0));
  S(lseek(other, 0, SEEK_CUR)); S(read(other, text, 1)); S(fstat(number, &status));
  S(status.st_size); close(other);
  other = again(number, O_RDWR | O_CREAT | O_TRUNC); S(other >= 0); S(fstat(number, &status));
  S(status.st_size);
  S(write(number, "behind", 6)); S(read(other, text, 20)); close(number);
  S(lseek(other, 0, SEEK_SET)); S(read(other, text, 20)); S(fstat(other, &status));
  S(status.st_size); S(status.st_nlink);
  S(again(other, O_RDWR | O_EXCL | O_CREAT)); S(again(other, O_RDONLY | O_DIRECTORY)); close(other);
}

static void others(void) {
  int ends[2], folder = open(".", O_RDONLY), place, link, moved, pair[2];
  char bytes[8] = "";
  S(again(folder, O_RDONLY | O_DIRECTORY) >= 0); S(again(folder, O_RDWR));
  (void)!pipe(ends);
  int writer = again(ends[0], O_WRONLY), reader = again(ends[1], O_RDONLY | O_NONBLOCK);
  S(write(writer, "abc", 3)); S(read(reader, bytes, 1)); S(read(ends[0], bytes + 1, 5));
  puts(bytes); S(read(writer, bytes, 1)); S(write(reader, bytes, 1)); S(read(reader, bytes, 1));
  int held = -1; (void)!write(ends[1], "four", 4); S(ioctl(ends[1], FIONREAD, &held)); S(held);
  S(ioctl(ends[0], FIONREAD, &held)); S(held); S(read(ends[0], bytes, 4));
  close(ends[1]); close(writer); S(read(ends[0], bytes, 1)); close(ends[0]); close(reader);
  place = open("kept", O_PATH); link = open("link", O_PATH | O_NOFOLLOW);
  S(again(place, O_RDWR) >= 0); S(again(link, O_RDONLY)); S(read(again(place, O_RDONLY), text, 4));
  moved = open("kept", O_RDONLY); S(rename("kept", "moved")); S(again(moved, O_RDWR) >= 0);
  S(again(place, O_RDONLY) >= 0);
  S(fchown(place, getuid(), -1)); S(fchmod(place, 0600)); S(ioctl(place, FIONREAD, &status));
  S(fsync(place)); S(flistxattr(place, text, 9)); S(fgetxattr(place, "user.x", text, 9));
  S(lseek(place, 0, SEEK_CUR)); S(ftruncate(place, 0));
  S(fcntl(place, F_SETFL, O_APPEND)); S(fcntl(place, F_GETPIPE_SZ)); S(fcntl(place, F_GETFD));
  S(fcntl(place, F_DUPFD, 50) >= 0); S(fallocate(place, 0, 0, 9)); S(fstat(place, &status));
  S(readlink("link", text, 9));
  S(chmod("moved", 0200)); S(again(moved, O_RDONLY)); S(again(moved, O_WRONLY) >= 0);
  S(fchmod(moved, 0600)); unlink("moved");
  S(socketpair(AF_UNIX, SOCK_STREAM, 0, pair)); S(again(pair[0], O_RDWR));
  S(again(eventfd(0, 0), O_RDWR)); S(again(open("/dev/null", O_RDONLY), O_WRONLY) >= 0);
  S(again(99, O_RDONLY));
}

int main(int argc, char **argv) {
  chdir(argv[1]);
  file(open("named", O_RDWR | O_CREAT, 0600));
  int removed = open("removed", O_RDWR | O_CREAT, 0600); unlink("removed"); file(removed);
  file(memfd_create("memory", 0));
  int kept = open("kept", O_RDWR | O_CREAT, 0600); (void)!write(kept, "kept", 4);
  symlink("kept", "link"); others();
  return 3;
}
