/*
 * Text written by formats with variable arguments: numbers in any base, widths, signs, fractions,
 * dates, Roman numerals, words for numbers; read back by a scanner; lines filled and justified.
 */
#include "yard.h"

typedef __builtin_va_list arguments;

static char out[8192];
static u32 used;

static void add(char c) {
  if (used < sizeof out - 1) out[used++] = c;
}
static void pad(s32 n, char c) {
  while (n-- > 0) add(c);
}

static OWN void add_number(u64 v, u32 base, s32 width, char filler, char sign, int left) {
  char digits[66];
  s32 n = 0;
  do digits[n++] = "0123456789abcdefghijklmnopqrstuvwxyz"[v % base];
  while (v /= base);
  width -= n + (sign != 0);
  if (!left && filler == ' ') pad(width, ' ');
  if (sign) add(sign);
  if (!left && filler != ' ') pad(width, filler);
  while (n) add(digits[--n]);
  if (left) pad(width, ' ');
}

static OWN void write_format(const char *f, ...) {
  arguments list;
  __builtin_va_start(list, f);
  for (; *f; f++) {
    if (*f != '%') {
      add(*f);
      continue;
    }
    int left = 0, plus = 0, wide = 0;
    char filler = ' ';
    s32 width = 0;
    for (f++; *f == '-' || *f == '+' || *f == '0'; f++) {
      if (*f == '-') left = 1;
      else if (*f == '+') plus = 1;
      else filler = '0';
    }
    if (*f == '*') {
      width = __builtin_va_arg(list, int);
      f++;
    }
    while (*f >= '0' && *f <= '9') width = width * 10 + *f++ - '0';
    if (*f == 'l') {
      wide = 1;
      f++;
    }
    switch (*f) {
      case 'd': {
        s64 v = wide ? __builtin_va_arg(list, s64) : __builtin_va_arg(list, int);
        add_number(v < 0 ? 0 - (u64)v : (u64)v, 10, width, filler, v < 0 ? '-' : plus ? '+' : 0, left);
        break;
      }
      case 'u': add_number(wide ? __builtin_va_arg(list, u64) : __builtin_va_arg(list, u32), 10, width, filler, 0, left); break;
      case 'x': add_number(wide ? __builtin_va_arg(list, u64) : __builtin_va_arg(list, u32), 16, width, filler, 0, left); break;
      case 'b': add_number(__builtin_va_arg(list, u32), 2, width, filler, 0, left); break;
      case 'c': add((char)__builtin_va_arg(list, int)); break;
      case 's': {
        const char *s = __builtin_va_arg(list, const char *);
        s32 n = 0;
        while (s[n]) n++;
        if (!left) pad(width - n, ' ');
        for (s32 i = 0; i < n; i++) add(s[i]);
        if (left) pad(width - n, ' ');
        break;
      }
      case 'q': {
        /* A fraction of 16 bits with three digits. */
        s32 v = __builtin_va_arg(list, int);
        u32 size = v < 0 ? 0u - (u32)v : (u32)v;
        add_number(size >> 16, 10, width - 4, ' ', v < 0 ? '-' : 0, 0);
        add('.');
        add_number((size & 65535) * 1000 >> 16, 10, 3, '0', 0, 0);
        break;
      }
      default: add(*f); break;
    }
  }
  __builtin_va_end(list);
}

static OWN void roman(u32 v) {
  static const struct { u16 value; char text[4]; } parts[] = {{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"},
                                                             {40, "XL"}, {10, "X"}, {9, "IX"}, {5, "V"}, {4, "IV"}, {1, "I"}};
  for (u32 i = 0; i < COUNT(parts); i++)
    for (; v >= parts[i].value; v -= parts[i].value) write_format("%s", parts[i].text);
}

static OWN void in_words(u32 v) {
  static const char *const small[] = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
                                      "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  static const char *const tens[] = {"", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
  if (v < 20) write_format("%s", small[v]);
  else if (v < 100) {
    write_format("%s", tens[v / 10]);
    if (v % 10) write_format("-%s", small[v % 10]);
  } else {
    u32 unit = v >= 1000000 ? 1000000 : v >= 1000 ? 1000 : 100;
    in_words(v / unit);
    write_format(" %s", unit == 100 ? "hundred" : unit == 1000 ? "thousand" : "million");
    if (v % unit) {
      add(' ');
      in_words(v % unit);
    }
  }
}

static OWN void date(u32 days) {
  static const char *const names[] = {"Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"};
  u32 z = days + 719468, era = z / 146097, doe = z % 146097;
  u32 yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
  u32 month = mp < 10 ? mp + 3 : mp - 9;
  write_format("%s %04u-%02u-%02u", names[days % 7], yoe + era * 400 + (month <= 2), month, doy - (153 * mp + 2) / 5 + 1);
}

/* Sum of the numbers in what was written, with their signs. */
static OWN u64 scan(void) {
  u64 total = 0;
  for (u32 i = 0; i < used;) {
    if (out[i] < '0' || out[i] > '9') {
      i++;
      continue;
    }
    int minus = i && out[i - 1] == '-';
    u64 v = 0;
    while (i < used && out[i] >= '0' && out[i] <= '9') v = v * 10 + (u64)(out[i++] - '0');
    total += minus ? 0 - v : v;
  }
  return total;
}

/* Words of the text in lines of 40, spaces spread over them. */
static OWN u32 justify(void) {
  u32 hash = 0, at = 0;
  while (at < used) {
    u32 starts[24], ends[24], words = 0, width = 0;
    while (words < 24) {
      while (at < used && out[at] <= ' ') at++;
      u32 end = at;
      while (end < used && out[end] > ' ') end++;
      if (end == at || (words && width + words + end - at > 40)) break;
      starts[words] = at;
      ends[words++] = end;
      width += end - at;
      at = end;
    }
    if (words == 0) break;
    u32 room = width + words - 1 < 40 ? 40 - width : words - 1, column = 0;
    for (u32 w = 0; w < words; w++) {
      for (u32 i = starts[w]; i < ends[w]; i++) hash = hash * 31 + (u8)out[i] + column++;
      if (w + 1 < words) {
        u32 spaces = room / (words - 1 - w);
        room -= spaces;
        column += spaces;
      }
    }
  }
  return hash;
}

static void prepare(void) {}

static void turn(u32 n) {
  used = 0;
  for (u32 i = 0; i < 12; i++) {
    u32 v = random_();
    write_format("%5d|%-8d|%+d|%08x|%c|%12s|%-6s|\n", (int)(v >> 20), (int)v, (int)(v % 1000), v, 'a' + (int)(i % 26), "right", "left");
    write_format("%lu %ld %20lx %b %q %9q %*d\n", (u64)v * v, -(s64)v, (u64)v << 24, v >> 22, (int)v, (int)v / 100, (int)(i % 9), (int)(v % 77));
    roman(1 + v % 3999);
    add(' ');
    in_words(v % (i & 1 ? 2000 : 900000000));
    add(' ');
    date(v % 40000 + n % 7);
    add('\n');
  }
  note(used);
  note(scan());
  note(justify());
}
