/* Sorting and searching with the C library's functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct row { int key; double weight; char name[12]; };
static int by_weight(const void *a, const void *b) {
  double x = ((const struct row *)a)->weight, y = ((const struct row *)b)->weight;
  return (x > y) - (x < y);
}
static int by_name(const void *a, const void *b) { return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name); }
int main(void) {
  static struct row rows[500];
  srand(7);
  unsigned seed = 1;
  for (int i = 0; i < 500; i++) {
    seed = seed * 1103515245u + 12345u;
    rows[i].key = (int)(seed >> 16);
    rows[i].weight = (double)(seed >> 8) / 977.0;
    snprintf(rows[i].name, sizeof rows[i].name, "n%u", seed % 10007);
  }
  qsort(rows, 500, sizeof *rows, by_weight);
  printf("%d %.4f %s\n", rows[0].key, rows[250].weight, rows[499].name);
  qsort(rows, 500, sizeof *rows, by_name);
  struct row wanted = rows[123], *found = bsearch(&wanted, rows, 500, sizeof *rows, by_name);
  printf("%s %s %d\n", rows[0].name, rows[499].name, found && !strcmp(found->name, wanted.name));
  char **lists = malloc(100 * sizeof *lists);
  for (int i = 0; i < 100; i++) {
    lists[i] = malloc((size_t)i * 97 + 1);
    memset(lists[i], i, (size_t)i * 97 + 1);
    if (i % 3 == 0) lists[i / 2] = realloc(lists[i / 2], (size_t)i * 301 + 1);
  }
  long sum = 0;
  for (int i = 0; i < 100; i++) { sum += lists[i][0]; free(lists[i]); }
  printf("%ld\n", sum);
  return 0;
}
