/*
 * Name under which csmith's small runtime (CSMITH_MINIMAL) includes it; the rest is what that
 * runtime takes from nowhere.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
