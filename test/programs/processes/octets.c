/* Names, links, arguments and variables that are bytes and no UTF-8. Prints them in hex. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "saying.h"

static const char *const names[] = {
  "\xff", "caf\xe9", "caf\xc3\xa9", "\xef\xbb\xbf" "mark", "\xed\xb3\xbf",
  "\xf0\x9f\x98\x80\xff", "\xc3", "\xe2\x82", "\xef\xbf\xbd",
};
enum { COUNT = sizeof names / sizeof *names };

static void hex(const char *what, const char *text) {
  printf("%s", what);
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) printf(" %02x", *p);
  printf("\n");
}
static int compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}
static void list(const char *path) {
  char *found[50];
  int count = 0;
  DIR *dir = opendir(path);
  for (struct dirent *each; (each = readdir(dir));)
    if (each->d_name[0] != '.') found[count++] = strdup(each->d_name);
  closedir(dir);
  qsort(found, count, sizeof *found, compare);
  for (int i = 0; i < count; i++) hex("listed", found[i]);
}

static void files(void) {
  char text[200], path[300];
  for (int i = 0; i < COUNT; i++) {
    int fd = open(names[i], O_CREAT | O_EXCL | O_RDWR, 0600);
    say(fd < 0 ? -1 : 0);
    say(write(fd, names[i], strlen(names[i])));
    close(fd);
  }
  list(".");
  for (int i = 0; i < COUNT; i++) {
    struct stat status;
    say(stat(names[i], &status));
    printf("%ld\n", (long)status.st_size);
    snprintf(text, sizeof text, "%s.link", names[i]);
    say(symlink(names[i], text));
    memset(path, 0, sizeof path);
    say(readlink(text, path, sizeof path - 1));
    hex("link", path);
    snprintf(path, sizeof path, "%s.dir", names[i]);
    say(mkdir(path, 0700));
    say(chdir(path));
    hex("here", strrchr(getcwd(path, sizeof path), '/'));
    say(rename("../caf\xe9", "../caf\xe9\xe9"));
    say(rename("../caf\xe9\xe9", "../caf\xe9"));
    say(link("../\xff", "\xfe"));
    say(chmod("\xfe", 0640));
    list(".");
    say(unlink("\xfe"));
    say(chdir(".."));
    say(rmdir(names[i]));
    say(unlink(names[i]));
  }
  list(".");
}

int main(int argc, char **argv, char **env) {
  char name[17] = "";
  if (argc > 2) {
    for (int i = 1; i < argc; i++) hex("argument", argv[i]);
    for (int i = 0; env[i]; i++) hex("variable", env[i]);
    FILE *line = fopen("/proc/self/cmdline", "r");
    for (int i = 0, c; (c = fgetc(line)) != EOF; i++) if (i >= 8) printf("%02x ", c);
    printf("\n");
    return 3;
  }
  chdir(argv[1]);
  mkdir("\xe9", 0700);
  chdir("\xe9");
  files();
  prctl(PR_SET_NAME, "na\xefve");
  prctl(PR_GET_NAME, name);
  hex("name", name);
  char *next[] = {"program", "one \xff\xfe", "\xc3\xa9\xe9", "", NULL};
  char *variables[] = {"A=\xff", "\xe9=b", NULL};
  fflush(stdout);
  execve("../program", next, variables);
  return 1;
}
