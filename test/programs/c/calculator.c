/*
 * A recursive-descent parser of expressions with precedence, unary operators, variables and
 * conditional expressions.
 */
#include "lib.h"
static const char *at;
static s64 variables[26];
static int errors;
static s64 expression(void);
static void skip(void) {
  while (*at == ' ') at++;
}
static int accept(const char *text) {
  skip();
  int n = 0;
  for (; text[n]; n++)
    if (at[n] != text[n]) return 0;
  at += n;
  return 1;
}
static s64 primary(void) {
  skip();
  if (accept("(")) {
    s64 v = expression();
    if (!accept(")")) errors++;
    return v;
  }
  if (accept("-")) return -primary();
  if (accept("~")) return ~primary();
  if (accept("!")) return !primary();
  if (accept("0x")) {
    s64 v = 0;
    for (;; at++) {
      char c = *at;
      if (c >= '0' && c <= '9') v = v * 16 + c - '0';
      else if (c >= 'a' && c <= 'f') v = v * 16 + c - 'a' + 10;
      else return v;
    }
  }
  if (*at >= '0' && *at <= '9') {
    s64 v = 0;
    while (*at >= '0' && *at <= '9') v = v * 10 + *at++ - '0';
    return v;
  }
  if (*at >= 'a' && *at <= 'z') return variables[*at++ - 'a'];
  errors++;
  return 0;
}
static const struct { const char *text; u8 level, op; } operators[] = {
    {"<<", 4, 0}, {">>", 4, 1}, {"<=", 3, 2}, {">=", 3, 3}, {"==", 3, 4}, {"!=", 3, 5}, {"<", 3, 6}, {">", 3, 7}, {"+", 5, 8},
    {"-", 5, 9}, {"*", 6, 10}, {"/", 6, 11}, {"%", 6, 12}, {"&", 2, 13}, {"^", 1, 14}, {"|", 0, 15}};
static s64 apply(u8 op, s64 a, s64 b) {
  switch (op) {
  case 0: return (s64)((u64)a << (b & 63));
  case 1: return a >> (b & 63);
  case 2: return a <= b;
  case 3: return a >= b;
  case 4: return a == b;
  case 5: return a != b;
  case 6: return a < b;
  case 7: return a > b;
  case 8: return a + b;
  case 9: return a - b;
  case 10: return a * b;
  case 11: return b ? a / b : 0;
  case 12: return b ? a % b : a;
  case 13: return a & b;
  case 14: return a ^ b;
  default: return a | b;
  }
}
static s64 binary(int level) {
  s64 v = level == 6 ? primary() : binary(level + 1);
again:
  for (unsigned i = 0; i < sizeof operators / sizeof *operators; i++)
    if (operators[i].level == level && accept(operators[i].text)) {
      v = apply(operators[i].op, v, level == 6 ? primary() : binary(level + 1));
      goto again;
    }
  return v;
}
static s64 expression(void) {
  s64 v = binary(0);
  if (!accept("?")) return v;
  s64 yes = expression();
  if (!accept(":")) errors++;
  s64 no = expression();
  return v ? yes : no;
}
int main(void) {
  static const char *const texts[] = {"1+2*3", "(1+2)*3-4/2", "-7%3 + ~0", "1<<40 | 0xff & 0x3c", "a*a-b", "a > b ? a : b", "!(a==b) ? (1?2:3) : 4",
                                      "0x7fffffffffff >> 3 ^ 12345", "100 - 10 - 5 << 2", "a*-b/7%1000 + (c^-1)", "((((1)))", "5 <= 5 == 1 != 0"};
  variables[0] = 123456789;
  variables[1] = -987654321;
  variables[2] = 0x123456789abcll;
  for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
    at = texts[i];
    line("value", (u64)expression());
  }
  line("errors", (u64)errors);
  flush();
  return errors;
}
