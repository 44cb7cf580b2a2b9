#include <stdio.h>
int main(int argc, char **argv) {
  printf("hello, %d\n", argc);
  return 3 + (argv[0] == 0);
}
