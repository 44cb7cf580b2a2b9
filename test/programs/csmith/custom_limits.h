/* Name under which csmith's small runtime (CSMITH_MINIMAL) includes it. */
#include <limits.h>
