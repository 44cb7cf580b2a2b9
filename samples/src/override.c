/* The strong definition that wins over the weak one of program.c. SPDX-License-Identifier: MIT */
#include "sample.h"

u32 hook(u32 x) { return x * 2 + 40; }
