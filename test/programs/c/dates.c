/*
 * Calendar arithmetic: days from civil dates and back, weekdays, leap years, Easter, ISO weeks,
 * times of day, intervals.
 */
#include "lib.h"
struct date { s32 year; u8 month, day; };
static __attribute__((noinline)) s64 days(struct date d) {
  s64 y = d.year - (d.month <= 2), era = (y >= 0 ? y : y - 399) / 400;
  u32 of_era = (u32)(y - era * 400), of_year = (153u * (d.month + (d.month > 2 ? -3u : 9u)) + 2) / 5 + d.day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}
static __attribute__((noinline)) struct date civil(s64 z) {
  z += 719468;
  s64 era = (z >= 0 ? z : z - 146096) / 146097;
  u32 doe = (u32)(z - era * 146097), yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  u32 doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
  u8 month = (u8)(mp < 10 ? mp + 3 : mp - 9);
  return (struct date){(s32)(yoe + era * 400) + (month <= 2), month, (u8)(doy - (153 * mp + 2) / 5 + 1)};
}
static int weekday(s64 z) { return (int)(z >= -4 ? (z + 4) % 7 : (z + 5) % 7 + 6); }
static int leap(s32 y) { return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0; }
static struct date easter(s32 y) {
  s32 a = y % 19, b = y / 100, c = y % 100, d = b / 4, e = b % 4, f = (b + 8) / 25, g = (b - f + 1) / 3;
  s32 h = (19 * a + b - d - g + 15) % 30, i = c / 4, k = c % 4, l = (32 + 2 * e + 2 * i - h - k) % 7, m = (a + 11 * h + 22 * l) / 451;
  return (struct date){y, (u8)((h + l - 7 * m + 114) / 31), (u8)((h + l - 7 * m + 114) % 31 + 1)};
}
static int week(struct date d) {
  s64 z = days(d), thursday = z - (weekday(z) + 6) % 7 + 3;
  return (int)((thursday - days((struct date){civil(thursday).year, 1, 1})) / 7 + 1);
}
int main(void) {
  u64 sum = 0;
  int wrong = 0, leaps = 0;
  for (s64 z = -800000; z < 3000000; z += 7919) {
    struct date d = civil(z);
    wrong += days(d) != z;
    sum = sum * 31 + (u64)(s64)d.year * 400 + d.month * 31u + d.day + (u64)weekday(z);
  }
  line("sum", sum);
  line("wrong", (u64)wrong);
  for (s32 y = 1583; y < 2600; y++) leaps += leap(y);
  line("leaps", (u64)leaps);
  for (s32 y = 1990; y < 2030; y++) sum = sum * 7 + easter(y).month * 32u + easter(y).day + (u64)week((struct date){y, 12, 29});
  line("easter", sum);
  static const s64 stamps[] = {0, -1, 86399, 86400, 951782400, 2147483648ll, -2208988800ll, 253402300799ll};
  for (int i = 0; i < 8; i++) {
    s64 t = stamps[i], z = t / 86400 - (t % 86400 < 0), s = t - z * 86400;
    struct date d = civil(z);
    line("stamp", (u64)(s64)d.year << 40 | (u64)d.month << 32 | (u64)d.day << 24 | (u64)(s / 3600) << 16 | (u64)(s / 60 % 60) << 8 | (u64)(s % 60));
  }
  flush();
  return wrong;
}
