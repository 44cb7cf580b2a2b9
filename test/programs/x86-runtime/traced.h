/*
 * Functions with a site each, compiled by several compilers. Same names, same results with and
 * without tracing.
 */
#ifndef TRACED_H
#define TRACED_H
struct two { long first, second; };
struct big { long words[5]; };
long leaf(long a, long b);
long ten(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j);
double sum_of(int count, ...);
struct two pair_of(long a, long b);
struct big big_of(long a);
double eight(double a, double b, double c, double d, double e, double f, double g, double h);
long double on_the_x87(long double a, long double b);
_Complex double complex_of(double a, double b);
long down(long depth);
long outer(long a);
long tail(long a);
long other(long a, long b);
long jumps(void *where);
#endif
