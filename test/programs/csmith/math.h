/* csmith's wrappers for floating point are compiled (and never called). */
#define fabs __builtin_fabs
#define fabsf __builtin_fabsf
