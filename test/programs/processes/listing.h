/* Whether a folder has a name; -1 where it is none. */
#include <dirent.h>
#include <string.h>
static int has(const char *dir, const char *name) {
  int found = 0;
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) found |= !strcmp(e->d_name, name);
  if (d) closedir(d);
  return d ? found : -1;
}
