#!/bin/bash
# musl.sh SOURCE DIR: builds musl (its sources, unpacked) for the machines of test/native-musl.test.ts into DIR/MACHINE,
# with Debian's cross compilers; about a minute each. The test is run by ELFTRACE_LONG=whole ELFTRACE_MUSL=DIR.
set -euo pipefail
source=$(cd "$1" && pwd)
mkdir -p "$2"
dir=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# one NAME TARGET TRIPLE FLAGS LIBRARY: LIBRARY has what compilers call; empty: that of the compiler.
one() {
  mkdir "$work/$1"
  cd "$work/$1"
  CC="$3-gcc $4" CFLAGS='-O1 -g0' CROSS_COMPILE="$3-" "$source/configure" --target="$2" --prefix="$dir/$1" --syslibdir="$dir/$1/lib" >/dev/null
  make ${5:+"LIBCC=$5"} install >/dev/null
}

one arm64 aarch64-linux-musl aarch64-linux-gnu '' ''
one riscv64 riscv64-linux-musl riscv64-linux-gnu '' ''
one ppc64le powerpc64le-linux-musl powerpc64le-linux-gnu -mlong-double-64 ''
one ppc32 powerpc-linux-musl powerpc-linux-gnu -mlong-double-64 ''
# The compiler's library is of ELFv1.
powerpc64-linux-gnu-gcc -mabi=elfv2 -O1 -fPIC -c -x c - -o "$work/calls.o" <<'C'
_Complex double __muldc3(double a, double b, double c, double d) { _Complex double r; __real__ r = a * c - b * d; __imag__ r = a * d + b * c; return r; }
_Complex float __mulsc3(float a, float b, float c, float d) { _Complex float r; __real__ r = a * c - b * d; __imag__ r = a * d + b * c; return r; }
C
one ppc64 powerpc64-linux-musl powerpc64-linux-gnu '-mabi=elfv2 -mlong-double-64' "$work/calls.o"
