/*
 * What csmith's runtime needs of a C library, on lib.h: printf with %s, %d, %X and %lX, flushed at
 * each call.
 */
#ifndef STDIO_H
#define STDIO_H
#include "../lib.h"
static __attribute__((unused)) int printf(const char *format, ...) {
  __builtin_va_list ap;
  __builtin_va_start(ap, format);
  for (; *format; format++) {
    if (*format != '%') {
      put(*format);
      continue;
    }
    int wide = *++format == 'l';
    format += wide;
    if (*format == 's') puts_(__builtin_va_arg(ap, const char *));
    else hex(wide ? __builtin_va_arg(ap, word) : __builtin_va_arg(ap, u32));
  }
  __builtin_va_end(ap);
  flush();
  return 0;
}
#endif
