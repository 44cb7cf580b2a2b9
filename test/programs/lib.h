/*
 * What the freestanding test programs share: output through one buffer, and the functions compilers
 * call by themselves.
 */
#ifndef LIB_H
#define LIB_H
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef unsigned long word;

extern long sys(long number, ...);
#if defined(SYS_WRITE)
#elif defined(__x86_64__)
#define SYS_WRITE 1
#else
#define SYS_WRITE 4
#endif

static char out_buffer[4096];
static unsigned out_used;

static void flush(void) {
  if (out_used) sys(SYS_WRITE, 1L, out_buffer, (long)out_used);
  out_used = 0;
}
static void put(char c) {
  if (out_used == sizeof out_buffer) flush();
  out_buffer[out_used++] = c;
}
static void puts_(const char *s) {
  while (*s) put(*s++);
}
static void hex(u64 v) {
  int started = 0;
  for (int i = 60; i >= 0; i -= 4) {
    unsigned d = (unsigned)(v >> i) & 15;
    if (d || started || i == 0) {
      started = 1;
      put("0123456789abcdef"[d]);
    }
  }
}
static void line(const char *name, u64 v) {
  puts_(name);
  put(' ');
  hex(v);
  put('\n');
}

__attribute__((used, noinline)) void *memcpy(void *d, const void *s, word n) {
  u8 *a = d;
  const u8 *b = s;
  while (n--) *a++ = *b++;
  return d;
}
__attribute__((used, noinline)) void *memmove(void *d, const void *s, word n) {
  u8 *a = d;
  const u8 *b = s;
  if (a < b)
    while (n--) *a++ = *b++;
  else
    while (n--) a[n] = b[n];
  return d;
}
__attribute__((used, noinline)) void *memset(void *d, int c, word n) {
  u8 *a = d;
  while (n--) *a++ = (u8)c;
  return d;
}
__attribute__((used, noinline)) int memcmp(const void *a, const void *b, word n) {
  const u8 *x = a, *y = b;
  for (; n; n--, x++, y++)
    if (*x != *y) return *x < *y ? -1 : 1;
  return 0;
}
static u32 random_state = 12345;
static u32 random_(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 17;
  random_state ^= random_state << 5;
  return random_state;
}
#endif
