/* csmith includes it; assertions are not checked here. */
#define assert(condition)
