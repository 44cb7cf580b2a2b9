/* The string functions, at every alignment and over page borders. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <wchar.h>
#include <ctype.h>
static char a[5000], b[5000];
int main(void) {
  unsigned long sum = 0;
  for (int i = 0; i < 4000; i++) a[i] = (char)('a' + i * 7 % 26);
  for (int at = 0; at < 40; at++)
    for (int n = 0; n < 80; n += 1 + at % 3) {
      memcpy(b + at, a + (at * 3) % 17, (size_t)n);
      b[at + n] = 0;
      sum = sum * 31 + strlen(b + at) + (memcmp(b + at, a + (at * 3) % 17, (size_t)n) == 0);
      char *c = strchr(b + at, 'k'), *r = strrchr(b + at, 'k'), *m = memchr(b + at, 'q', (size_t)n);
      sum += c ? (unsigned long)(c - b) : 1;
      sum += r ? (unsigned long)(r - b) * 3 : 2;
      sum += m ? (unsigned long)(m - b) * 5 : 4;
      memmove(b + at + 3, b + at, (size_t)n);
      memset(b + at, n, (size_t)(n % 5));
      sum += (unsigned char)b[at + n / 2];
    }
  printf("%lu\n", sum);
  strcpy(b, "alpha,beta;gamma delta");
  for (char *t = strtok(b, ",; "); t; t = strtok(0, ",; ")) printf("<%s>", t);
  strcpy(b, "needle in a haystack with a needle");
  printf("\n%s|%s|%zu|%zu|%d|%d\n", strstr(b + 1, "needle"), strpbrk(b, "ay"), strspn(b, "nedl"), strcspn(b, "hx"), strcasecmp("ABC", "abc"), strncmp("abcd", "abce", 3));
  strncat(strcat(strcpy(b, "one"), "two"), "three", 3);
  printf("%s %d %d\n", b, toupper('x'), isalnum('_') != 0);
  wchar_t w[40];
  wcscpy(w, L"wide characters");
  printf("%zu %d\n", wcslen(w), (int)(wcschr(w, L'c') - w));
  return 0;
}
