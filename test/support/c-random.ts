/**
 * Random numbers in C programs of tests, the same ones in each run: xorshift of 64 bits (Marsaglia
 * 2003). The program has the type `u64`.
 */
export const C_RANDOM = `static u64 state = 88172645463325252ULL;
static u64 next64(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}`;
