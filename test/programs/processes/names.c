/* Names that /proc tells of what is executed, open and mapped, below the folder of argument 1. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char text[4096];
static size_t prefix;

/* The name without the folder. */
static void say(const char *what, const char *name) {
  printf("%s %s\n", what, strncmp(name, text, prefix) ? name : name + prefix);
}

static void link_of(const char *what, const char *link) {
  char name[4096];
  ssize_t size = readlink(link, name, sizeof name - 1);
  name[size < 0 ? 0 : size] = 0;
  say(what, name);
}

/* The line of the mapping that holds an address: its rights, how far into the file, and the name. */
static void mapped(const char *what, const void *address) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[4096];
  while (maps && fgets(line, sizeof line, maps)) {
    unsigned long low, high, offset;
    char rights[5], name[4096] = "";
    if (sscanf(line, "%lx-%lx %4s %lx %*s %*s %4095s", &low, &high, rights, &offset, name) < 4) continue;
    if ((unsigned long)address < low || (unsigned long)address >= high) continue;
    printf("%s %lx ", rights, offset + ((unsigned long)address - low));
    say(what, name);
  }
  if (maps) fclose(maps);
}

static const char constant[] = "a constant";

int main(int argc, char **argv) {
  char path[4096], link[64];
  (void)argc;
  strcpy(text, argv[1]);
  prefix = strlen(text);
  if (getcwd(path, sizeof path)) say("begins in", path);
  link_of("program", "/proc/self/exe");
  mapped("code", (const void *)((unsigned long)main & -4096ul));
  mapped("constant", (const void *)((unsigned long)constant & -4096ul));
  snprintf(path, sizeof path, "%s/alias/data", text);
  int file = open(path, O_RDONLY);
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  link_of("file", link);
  mapped("data", mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 65536));
  snprintf(path, sizeof path, "%s/alias", text);
  int folder = open(path, O_RDONLY | O_DIRECTORY);
  snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
  link_of("folder", link);
  if (fchdir(folder) == 0 && getcwd(path, sizeof path)) say("current", path);
  link_of("current", "/proc/self/cwd");
  return 3;
}
